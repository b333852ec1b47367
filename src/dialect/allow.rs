//! The parts of SQL that the dialect accepts, node by node: an allow-list.
//!
//! The code destructures each node field by field. A field that is not handled does not compile, and a clause that is
//! not on the list is refused by name.

use sqlparser::ast::{self as sql, Expr, TableFactor};

use crate::dialect::error::DialectError;
use crate::refusal::{Reason, Refusal};

/// Refuses a clause that is set and not allowed.
pub(super) fn absent(is_absent: bool, clause: &str) -> Result<(), DialectError> {
    if is_absent {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::Clause,
        clause,
        format!("{clause} is not part of the dialect"),
        "the query without it",
    )
    .into())
}

/// Refuses the clauses of a SELECT that are not standard, with its joins and the options after `*`.
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
    absent(!matches!(distinct, Some(sql::Distinct::On(_))), "DISTINCT ON")?;
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
    absent(named_window.is_empty(), "WINDOW")?;
    absent(value_table_mode.is_none(), "AS STRUCT/VALUE")?;
    absent(*flavor == sql::SelectFlavor::Standard, "FROM without SELECT")?;
    for sql::TableWithJoins { relation: _, joins } in from {
        for sql::Join { relation: _, global, join_operator } in joins {
            absent(!*global, "GLOBAL JOIN")?;
            absent(standard_join(join_operator), "this kind of join")?;
        }
    }
    for item in projection {
        match item {
            sql::SelectItem::UnnamedExpr(_) | sql::SelectItem::ExprWithAlias { .. } => {}
            sql::SelectItem::Wildcard(options) | sql::SelectItem::QualifiedWildcard(_, options) => {
                absent(options.to_string().is_empty(), "an option after *")?;
            }
            sql::SelectItem::ExprWithAliases { .. } => absent(false, "several aliases")?,
        }
    }
    Ok(())
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

/// The constraint of a join of standard SQL; the other kinds of join are refused as a whole.
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
            absent(args.is_none(), "a table function")?;
            absent(with_hints.is_empty(), "a table hint")?;
            absent(version.is_none(), "a table version")?;
            absent(!*with_ordinality, "WITH ORDINALITY")?;
            absent(partitions.is_empty(), "PARTITION")?;
            absent(json_path.is_none(), "a JSON path")?;
            absent(sample.is_none(), "TABLESAMPLE")?;
            absent(index_hints.is_empty(), "an index hint")
        }
        TableFactor::Derived { lateral, subquery: _, alias: _, sample } => {
            absent(!*lateral, "LATERAL")?;
            absent(sample.is_none(), "TABLESAMPLE")
        }
        TableFactor::NestedJoin { table_with_joins: _, alias: _ } => Ok(()),
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

/// Accepts the expressions of the dialect; the analysis decides which of them may occur below a release.
pub(super) fn expression(expr: &Expr) -> Result<(), DialectError> {
    match expr {
        Expr::Function(sql::Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            filter: _,
            null_treatment,
            over: _,
            within_group,
        }) => {
            absent(!*uses_odbc_syntax, "{fn …}")?;
            absent(*parameters == sql::FunctionArguments::None, "a parametric function")?;
            absent(null_treatment.is_none(), "IGNORE NULLS")?;
            absent(within_group.is_empty(), "WITHIN GROUP")?;
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
        // GROUP BY alone has it, and every other way to write its sets has become it.
        | Expr::GroupingSets(_) => Ok(()),
        other => absent(false, &format!("the expression {other}")),
    }
}

/// Refuses a parameter that no value has replaced, also one that is not an expression: `DATE $1`.
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

/// Whether a number of rows is a literal.
fn is_written_out(rows: &Expr) -> bool {
    match rows {
        Expr::Value(value) => match &value.value {
            sql::Value::Number(digits, _) => digits.parse::<i64>().is_ok(),
            other => matches!(other, sql::Value::Null),
        },
        _ => false,
    }
}
