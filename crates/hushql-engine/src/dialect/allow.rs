//! The parts of SQL that the dialect accepts, node by node: an allow-list.
//!
//! The code destructures each node field by field, so a field that is not handled does not compile.
//! A clause that is not on the list is refused by name.

use sqlparser::ast::{self as sql, AccessExpr, Expr, Subscript, TableFactor};

use crate::dialect::error::DialectError;
use crate::dialect::windows::window_arguments;
use crate::refusal::{Reason, Refusal};

/// Refuses a clause that is set and not allowed.
pub(super) fn absent(is_absent: bool, clause: &str) -> Result<(), DialectError> {
    instead(is_absent, clause, "the query without it")
}

/// Refuses a clause that is set and not allowed, and says what to write instead.
pub(super) fn instead(is_absent: bool, clause: &str, hint: &str) -> Result<(), DialectError> {
    if is_absent {
        return Ok(());
    }
    let message = format!("{clause} is not part of the dialect");
    Err(Refusal::new(Reason::Clause, clause, message, hint).into())
}

/// Refuses parts of a SELECT that are not standard: its clauses, its joins and the options after
/// `*`.
pub(super) fn standard_select(select: &sql::Select) -> Result<(), DialectError> {
    let sql::Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    absent(optimizer_hints.is_empty(), "an optimizer hint")?;
    if let Some(sql::Distinct::On(keys)) = distinct {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let first = format!(
            "SELECT … FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY …) AS place FROM t) AS numbered WHERE place = 1",
            keys.join(", ")
        );
        instead(false, "DISTINCT ON", &first)?;
    }
    absent(select_modifiers.is_none(), "a SELECT modifier")?;
    absent(top.is_none(), "TOP without a mechanism")?;
    absent(exclude.is_none(), "EXCLUDE")?;
    absent(into.is_none(), "INTO")?;
    absent(lateral_views.is_empty(), "LATERAL VIEW")?;
    absent(prewhere.is_none(), "PREWHERE")?;
    absent(connect_by.is_empty(), "CONNECT BY")?;
    absent(cluster_by.is_empty(), "CLUSTER BY")?;
    absent(distribute_by.is_empty(), "DISTRIBUTE BY")?;
    absent(sort_by.is_empty(), "SORT BY")?;
    let written = "each window where it is used: COUNT(*) OVER (PARTITION BY x)";
    instead(named_window.is_empty(), "WINDOW", written)?;
    absent(value_table_mode.is_none(), "AS STRUCT/VALUE")?;
    absent(*flavor == sql::SelectFlavor::Standard, "FROM without SELECT")?;
    from.iter().try_for_each(standard_joins)?;
    for item in projection {
        match item {
            sql::SelectItem::UnnamedExpr(_) | sql::SelectItem::ExprWithAlias { .. } => {}
            sql::SelectItem::Wildcard(options) | sql::SelectItem::QualifiedWildcard(_, options) => {
                let sql::WildcardAdditionalOptions {
                    wildcard_token: _,
                    opt_ilike,
                    opt_exclude: _,
                    opt_except: _,
                    opt_replace,
                    opt_rename,
                    opt_alias,
                } = options;
                absent(opt_ilike.is_none(), "* ILIKE")?;
                absent(opt_replace.is_none(), "* REPLACE")?;
                absent(opt_rename.is_none(), "* RENAME")?;
                absent(opt_alias.is_none(), "an alias of *")?;
            }
            sql::SelectItem::ExprWithAliases { .. } => absent(false, "several aliases")?,
        }
    }
    Ok(())
}

/// Refuses EXCEPT ALL and INTERSECT ALL, because the planner does not count their rows.
pub(super) fn set_operation(
    op: sql::SetOperator,
    quantifier: sql::SetQuantifier,
) -> Result<(), DialectError> {
    let counts = match quantifier {
        sql::SetQuantifier::All | sql::SetQuantifier::AllByName => true,
        sql::SetQuantifier::Distinct
        | sql::SetQuantifier::ByName
        | sql::SetQuantifier::DistinctByName
        | sql::SetQuantifier::None => false,
    };
    let is_union = match op {
        sql::SetOperator::Union => true,
        sql::SetOperator::Except | sql::SetOperator::Intersect | sql::SetOperator::Minus => false,
    };
    let numbered = "x, ROW_NUMBER() OVER (PARTITION BY x ORDER BY x) AS copy";
    let hint = format!(
        "{op} without ALL for each row once; or number equal rows: SELECT {numbered} FROM a {op} SELECT {numbered} FROM b"
    );
    instead(is_union || !counts, &format!("{op} ALL"), &hint)
}

/// Refuses joins that are not standard, and joins whose condition was forgotten.
fn standard_joins(joined: &sql::TableWithJoins) -> Result<(), DialectError> {
    let sql::TableWithJoins { relation: first, joins } = joined;
    for join in joins {
        let sql::Join { relation, global, join_operator } = join;
        absent(!*global, "GLOBAL JOIN")?;
        absent(standard_join(join_operator), "this kind of join")?;
        let crossed = matches!(join_operator, sql::JoinOperator::CrossJoin(_));
        if !crossed && join_constraint(join_operator) == Some(&sql::JoinConstraint::None) {
            let (a, b) = (named(first), named(relation));
            let join = join.to_string();
            let join = join.trim();
            return Err(Refusal::new(
                Reason::Clause,
                join,
                "JOIN needs a condition, and without one each row is joined with every other",
                format!("{join} ON {a}.x = {b}.x, or CROSS JOIN {relation} for all pairs"),
            )
            .into());
        }
    }
    Ok(())
}

/// The name that stands before the columns of a table.
fn named(factor: &TableFactor) -> String {
    let (name, alias) = match factor {
        TableFactor::Table { name, alias, .. } => (Some(name.to_string()), alias.as_ref()),
        TableFactor::Derived { alias, .. } => (None, alias.as_ref()),
        _ => (None, None),
    };
    alias.map(|alias| alias.name.to_string()).or(name).unwrap_or_else(|| "a".to_owned())
}

/// The condition after ON, if there is one.
pub(super) fn join_condition(operator: &sql::JoinOperator) -> Option<&Expr> {
    match join_constraint(operator)? {
        sql::JoinConstraint::On(condition) => Some(condition),
        sql::JoinConstraint::Using(_)
        | sql::JoinConstraint::Natural
        | sql::JoinConstraint::None => None,
    }
}

/// Whether standard SQL has this kind of join.
fn standard_join(operator: &sql::JoinOperator) -> bool {
    join_constraint(operator).is_some()
}

/// The constraint of a join of standard SQL. Other kinds of join have none here, and are refused.
fn join_constraint(operator: &sql::JoinOperator) -> Option<&sql::JoinConstraint> {
    use sql::JoinOperator as J;
    match operator {
        J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)
        | J::CrossJoin(constraint) => Some(constraint),
        J::Semi(_)
        | J::LeftSemi(_)
        | J::RightSemi(_)
        | J::Anti(_)
        | J::LeftAnti(_)
        | J::RightAnti(_)
        | J::CrossApply
        | J::OuterApply
        | J::AsOf { .. }
        | J::StraightJoin(_)
        | J::ArrayJoin
        | J::LeftArrayJoin
        | J::InnerArrayJoin => None,
    }
}

/// The only call that may stand in FROM, and how.
const A_TEMPLATE: &str =
    "a template, alone in FROM: SELECT * FROM monthly('north'); SHOW TEMPLATES lists them";

pub(super) fn table_factor(factor: &TableFactor) -> Result<(), DialectError> {
    match factor {
        TableFactor::Table {
            name: _,
            alias: _,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            instead(args.is_none(), "a table function", A_TEMPLATE)?;
            absent(with_hints.is_empty(), "a table hint")?;
            absent(version.is_none(), "a table version")?;
            absent(!*with_ordinality, "WITH ORDINALITY")?;
            absent(partitions.is_empty(), "PARTITION")?;
            absent(json_path.is_none(), "a JSON path")?;
            absent(sample.is_none(), "TABLESAMPLE")?;
            absent(index_hints.is_empty(), "an index hint")
        }
        TableFactor::Derived { lateral, subquery: _, alias: _, sample } => {
            let value = "a subquery as a value, (SELECT COUNT(*) FROM b WHERE b.x = a.x), or a join ON a.x = b.x";
            instead(!*lateral, "LATERAL", value)?;
            absent(sample.is_none(), "TABLESAMPLE")
        }
        TableFactor::NestedJoin { table_with_joins, alias: _ } => standard_joins(table_with_joins),
        TableFactor::TableFunction { .. }
        | TableFactor::Function { .. }
        | TableFactor::UNNEST { .. }
        | TableFactor::JsonTable { .. }
        | TableFactor::OpenJsonTable { .. }
        | TableFactor::Pivot { .. }
        | TableFactor::Unpivot { .. }
        | TableFactor::MatchRecognize { .. }
        | TableFactor::XmlTable { .. }
        | TableFactor::SemanticView { .. } => absent(false, "this kind of table"),
    }
}

/// Accepts the expressions of the dialect. The analysis decides which of them may stand below a
/// release.
pub(super) fn expression(expr: &Expr) -> Result<(), DialectError> {
    match expr {
        Expr::Function(sql::Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            filter: _,
            null_treatment,
            over,
            within_group,
        }) => {
            absent(!*uses_odbc_syntax, "{fn …}")?;
            absent(*parameters == sql::FunctionArguments::None, "a parametric function")?;
            absent(null_treatment.is_none(), "IGNORE NULLS")?;
            absent(within_group.is_empty(), "WITHIN GROUP")?;
            if over.is_some() {
                window_arguments(name, args)?;
            }
            star_counts(name, args)
        }
        Expr::Value(_)
        | Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::BinaryOp { .. }
        | Expr::Like { any: false, .. }
        | Expr::ILike { any: false, .. }
        | Expr::UnaryOp { .. }
        | Expr::Cast { format: None, array: false, .. }
        | Expr::Extract { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. }
        | Expr::Position { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Nested(_)
        | Expr::TypedString(_)
        | Expr::Case { .. }
        | Expr::Exists { .. }
        | Expr::Subquery(_)
        | Expr::Tuple(_)
        | Expr::Interval(_)
        // Only GROUP BY contains it. All other spellings of grouping sets have been replaced by it.
        | Expr::GroupingSets(_) => Ok(()),
        Expr::CompoundFieldAccess { root, access_chain } if names_field(root, access_chain) => {
            Ok(())
        }
        other => {
            let hint = plain(other).unwrap_or_else(|| "the query without it".to_owned());
            instead(false, &format!("the expression {other}"), &hint)
        }
    }
}

/// Whether accesses name a field of a struct, as in `address['city']`. Such a field is a column.
fn names_field(root: &Expr, access_chain: &[AccessExpr]) -> bool {
    let is_name = matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    is_name
        && access_chain.iter().all(|access| match access {
            AccessExpr::Dot(name) => matches!(name, Expr::Identifier(_)),
            AccessExpr::Subscript(Subscript::Index { index: Expr::Value(name) }) => {
                matches!(name.value, sql::Value::SingleQuotedString(_))
            }
            AccessExpr::Subscript(_) => false,
        })
}

/// The same expression in the dialect, for one that is not part of it.
fn plain(expr: &Expr) -> Option<String> {
    let is_query = |expr: &Expr| matches!(expr, Expr::Subquery(_));
    // The values of ARRAY[…] or (…), or a query, in parentheses.
    let among = |right: &Expr| match right {
        Expr::Array(array) => {
            let values: Vec<String> = array.elem.iter().map(ToString::to_string).collect();
            format!("({})", values.join(", "))
        }
        Expr::Subquery(query) => format!("({query})"),
        Expr::Tuple(values) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("({})", values.join(", "))
        }
        other => format!("({})", other.to_string().trim_matches(['(', ')'])),
    };
    match expr {
        Expr::AnyOp { left, compare_op: sql::BinaryOperator::Eq, right, is_some: _ } => {
            Some(format!("{left} IN {}", among(right)))
        }
        Expr::AllOp { left, compare_op: sql::BinaryOperator::NotEq, right } => {
            Some(format!("{left} NOT IN {}", among(right)))
        }
        Expr::AnyOp { left, compare_op, right, is_some: _ } if is_query(right) => {
            let end = if compare_op.to_string().starts_with('<') { "MAX" } else { "MIN" };
            Some(format!("{left} {compare_op} (SELECT {end}(x) FROM t)"))
        }
        Expr::AllOp { left, compare_op, right } if is_query(right) => {
            let end = if compare_op.to_string().starts_with('<') { "MIN" } else { "MAX" };
            Some(format!("{left} {compare_op} (SELECT {end}(x) FROM t)"))
        }
        Expr::SimilarTo { negated, expr, pattern, .. }
        | Expr::RLike { negated, expr, pattern, .. } => {
            let not = if *negated { "NOT " } else { "" };
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '%' | '_' | ' ' | '-' | '\'');
            let pattern = pattern.to_string();
            let pattern = if pattern.chars().all(plain) { pattern } else { "'%text%'".to_owned() };
            Some(format!("{expr} {not}LIKE {pattern}, with % for any text and _ for one letter"))
        }
        Expr::Array(array) => match array.elem.as_slice() {
            [Expr::Identifier(name)] => {
                Some(format!("{name}, or \"{}\" for a name that needs quotes", name.value))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Refuses a parameter without a value, even if it is not an expression, as in `DATE $1`.
pub(super) fn value(value: &sql::ValueWithSpan) -> Result<(), DialectError> {
    match &value.value {
        sql::Value::Placeholder(name) => Err(Refusal::new(
            Reason::Parameter,
            name,
            format!("{name} is a placeholder, and no value is given for it"),
            "the value itself; programs give values with `prepare_with`",
        )
        .into()),
        _ => Ok(()),
    }
}

/// Refuses `*` as an argument, except in COUNT(*).
fn star_counts(name: &sql::ObjectName, args: &sql::FunctionArguments) -> Result<(), DialectError> {
    let sql::FunctionArguments::List(list) = args else { return Ok(()) };
    let star = |arg: &sql::FunctionArg| {
        let (sql::FunctionArg::Unnamed(arg)
        | sql::FunctionArg::Named { arg, .. }
        | sql::FunctionArg::ExprNamed { arg, .. }) = arg;
        match arg {
            sql::FunctionArgExpr::Wildcard
            | sql::FunctionArgExpr::QualifiedWildcard(_)
            | sql::FunctionArgExpr::WildcardWithOptions(_) => true,
            sql::FunctionArgExpr::Expr(_) => false,
        }
    };
    let rows = [sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Wildcard)];
    let counts_rows = list.args == rows
        && list.duplicate_treatment.is_none()
        && name.to_string().eq_ignore_ascii_case("count");
    if counts_rows || !list.args.iter().any(star) {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::Function,
        format!("{name}({list})"),
        "`*` is an argument of COUNT only",
        format!("{name}(column), or COUNT(*)"),
    )
    .into())
}

/// Turns `FETCH FIRST n ROWS ONLY` into `LIMIT n`, because the planner would drop FETCH.
pub(super) fn fetched(
    fetch: &mut Option<sql::Fetch>,
    limit_clause: &mut Option<sql::LimitClause>,
) -> Result<(), DialectError> {
    let Some(sql::Fetch { with_ties, percent, quantity }) = fetch.take() else { return Ok(()) };
    instead(!with_ties && !percent, "FETCH with PERCENT or TIES", "LIMIT 10")?;
    let one = || Expr::value(sql::Value::Number("1".to_owned(), false));
    let rows = quantity.unwrap_or_else(one);
    match limit_clause {
        None => {
            let (offset, limit_by) = (None, Vec::new());
            *limit_clause =
                Some(sql::LimitClause::LimitOffset { limit: Some(rows), offset, limit_by });
            Ok(())
        }
        Some(sql::LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            Ok(())
        }
        Some(sql::LimitClause::LimitOffset { .. } | sql::LimitClause::OffsetCommaLimit { .. }) => {
            instead(false, "FETCH beside LIMIT", "LIMIT 10")
        }
    }
}

/// Refuses LIMIT and OFFSET unless they are literals.
pub(super) fn limit(clause: &sql::LimitClause) -> Result<(), DialectError> {
    let (limit, offset) = match clause {
        sql::LimitClause::LimitOffset { limit, offset, limit_by } => {
            absent(limit_by.is_empty(), "LIMIT BY")?;
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        sql::LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
    };
    for (clause, rows) in [("LIMIT", limit), ("OFFSET", offset)] {
        if !rows.is_none_or(is_written_out) {
            let why = format!("{clause} takes a literal whole number");
            return Err(Refusal::new(Reason::Clause, clause, why, format!("{clause} 10")).into());
        }
    }
    Ok(())
}

/// True if a number of rows is a literal.
fn is_written_out(rows: &Expr) -> bool {
    match rows {
        Expr::Value(value) => match &value.value {
            sql::Value::Number(digits, _) => digits.parse::<i64>().is_ok(),
            other => matches!(other, sql::Value::Null),
        },
        _ => false,
    }
}
