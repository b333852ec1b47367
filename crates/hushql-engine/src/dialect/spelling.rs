//! Rewrites other spellings of aggregates, operators and tables as the engine knows them.
//!
//! In: a query as sqlparser read it. Out: the same query in its plain form. Calls of other
//! functions stay as they are.
//!
//! ```text
//! count_if(late)                                     COUNT(*) FILTER (WHERE late)
//! percentile_cont(0.9) WITHIN GROUP (ORDER BY x)     percentile_cont(x, 0.9)
//! percentile_cont(ARRAY[0.1, 0.9]) WITHIN GROUP …    quantiles(x, 0.1, 0.9)
//! ifnull(x, 0), nvl(x, 0)                            coalesce(x, 0)
//! mod(x, 7)                                          (x) % (7)
//! if(late, 1, 0), iif(late, 1, 0)                    CASE WHEN late THEN 1 ELSE 0 END
//! len(x), isnull(x, 0)                               length(x), coalesce(x, 0)
//! approx_count_distinct(x)                           count(DISTINCT x)
//! FROM t SELECT x                                    SELECT x FROM t
//! x ^ 2                                              power(CAST(x AS DOUBLE), CAST(2 AS DOUBLE))
//! (a, b) = (1, 2), (a, b) >= (1, 2)                  (a = 1 AND b = 2), (a > 1 OR a = 1 AND b >= 2)
//! public.t, public.t.x, hushql.public.t               t, t.x, t
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Visit, VisitMut, Visitor,
    VisitorMut, visit_expressions_mut, visit_relations_mut,
};

use super::calendar_calls::{calendar_call, either, number_times};
use super::date_patterns::without_pattern;
use super::fresh_name::written_name;
use super::having_names::having_by_names;
use super::named_differences::NamedDifferences;
use super::pivot::without_pivots;
use super::power;
use super::quantile_list::{flattened, quantile_list};
use super::row_values::by_parts;
use crate::dialect::error::DialectError;

/// The schema of every table, for tools that write a schema.
const SCHEMA: &str = "public";

/// The database of every table, for tools that write that as well.
const DATABASE: &str = "hushql";

/// Respells every call and every table of a query.
///
/// # Errors
/// [`DialectError`] for rows that are compared with rows of another length, and for a power after a
/// minus sign.
pub(super) fn respell(query: &mut Query) -> Result<(), DialectError> {
    without_schema(query);
    without_pivots(query)?;
    select_first(query);
    having_by_names(query);
    power::check(query)?;
    let differences = NamedDifferences::of(query);
    let respelled = visit_expressions_mut(query, |expr| {
        if let Expr::Function(function) = expr {
            respelled(function);
            number_times(function, &|x| differences.contains(x));
            if written_name(&function.name.to_string()).eq_ignore_ascii_case("quantiles") {
                flattened(function);
            }
            let other = remainder(function).or_else(|| choice(function));
            if let Some(other) = other.or_else(|| quantile_list(function)) {
                *expr = other;
            }
        }
        if let Some(call) = without_pattern(expr).or_else(|| calendar_call(expr)) {
            *expr = call;
        }
        if let Some(power) = power::power(expr) {
            *expr = power;
        }
        match by_parts(expr) {
            Ok(None) => {}
            Ok(Some(by_parts)) => *expr = by_parts,
            Err(refusal) => return ControlFlow::Break(refusal),
        }
        ControlFlow::Continue(())
    });
    match respelled {
        ControlFlow::Break(refusal) => Err(refusal.into()),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Removes the schema from the names of tables. A table with the name of a CTE keeps its schema,
/// because the CTE would hide the table.
fn without_schema(query: &mut Query) {
    let mut ctes = Ctes::default();
    let _ = Visit::visit(query, &mut ctes);
    let is_free = |name: &Ident| !ctes.0.iter().any(|cte| cte.eq_ignore_ascii_case(&name.value));
    let _: ControlFlow<()> = visit_relations_mut(query, |name| {
        if let [ObjectNamePart::Identifier(database), ObjectNamePart::Identifier(schema), _] =
            &*name.0
            && is_named(database, DATABASE)
            && is_schema(schema)
        {
            name.0.remove(0);
        }
        if let [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)] = &*name.0
            && is_schema(schema)
            && is_free(table)
        {
            name.0.remove(0);
        }
        ControlFlow::Continue(())
    });
    let _: ControlFlow<()> = visit_expressions_mut(query, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [database, schema, _, _] = parts.as_slice()
            && is_named(database, DATABASE)
            && is_schema(schema)
        {
            parts.remove(0);
        }
        if let Expr::CompoundIdentifier(parts) = expr
            && let [schema, table, _] = parts.as_slice()
            && is_schema(schema)
            && is_free(table)
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    });
}

fn is_schema(name: &Ident) -> bool {
    is_named(name, SCHEMA)
}

fn is_named(name: &Ident, expected: &str) -> bool {
    match name.quote_style {
        Some(_) => name.value == expected,
        None => name.value.eq_ignore_ascii_case(expected),
    }
}

/// The names of all CTEs.
#[derive(Default)]
struct Ctes(Vec<String>);

impl Visitor for Ctes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(ctes.map(|cte| cte.alias.name.value.clone()));
        ControlFlow::Continue(())
    }
}

/// Respells one call.
pub(super) fn respelled(function: &mut sql::Function) {
    match function.name.to_string().to_lowercase().as_str() {
        "count_if" | "countif" => counted(function),
        "ifnull" | "nvl" => function.name = ObjectName::from(vec![Ident::new("coalesce")]),
        "isnull" if plain_arguments(function).is_some_and(|args| args.len() == 2) => {
            function.name = ObjectName::from(vec![Ident::new("coalesce")]);
        }
        "approx_count_distinct" => distinct(function),
        "sign" => function.name = ObjectName::from(vec![Ident::new("signum")]),
        "len" => function.name = ObjectName::from(vec![Ident::new("length")]),
        "percentile_cont" | "percentile_disc" | "approx_percentile_cont" => ordered(function),
        _ => {}
    }
}

/// `approx_count_distinct(x)` as `count(DISTINCT x)`: noise is an approximation already.
fn distinct(function: &mut sql::Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && list.duplicate_treatment.is_none()
    {
        list.duplicate_treatment = Some(sql::DuplicateTreatment::Distinct);
        function.name = ObjectName::from(vec![Ident::new("count")]);
    }
}

/// The arguments of a call that has nothing else.
fn plain_arguments(function: &sql::Function) -> Option<Vec<&Expr>> {
    let sql::Function {
        name: _,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args:
            FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
    } = function
    else {
        return None;
    };
    if !clauses.is_empty() || !within_group.is_empty() {
        return None;
    }
    let mut expressions = Vec::new();
    for arg in args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return None };
        expressions.push(expr);
    }
    Some(expressions)
}

/// `mod(x, y)` as `x % y`.
fn remainder(function: &sql::Function) -> Option<Expr> {
    if !function.name.to_string().eq_ignore_ascii_case("mod") {
        return None;
    }
    let arguments = plain_arguments(function)?;
    let [left, right] = arguments.as_slice() else { return None };
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let remainder =
        Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) };
    Some(Expr::Nested(Box::new(remainder)))
}

/// `if(condition, yes, no)` as CASE.
fn choice(function: &sql::Function) -> Option<Expr> {
    let name = function.name.to_string().to_lowercase();
    if !matches!(name.as_str(), "if" | "iif" | "iff") {
        return None;
    }
    let arguments = plain_arguments(function)?;
    let [condition, yes, no] = arguments.as_slice() else { return None };
    Some(either((*condition).clone(), (*yes).clone(), (*no).clone()))
}

/// Reads `FROM t SELECT x`, and `FROM t`, as a query that begins with SELECT.
fn select_first(query: &mut Query) {
    let _: ControlFlow<()> = VisitMut::visit(query, &mut SelectFirst);
}

struct SelectFirst;

impl VisitorMut for SelectFirst {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut sql::Select) -> ControlFlow<()> {
        if select.flavor == sql::SelectFlavor::FromFirstNoSelect {
            let every = sql::SelectItem::Wildcard(sql::WildcardAdditionalOptions::default());
            select.projection = vec![every];
        }
        select.flavor = sql::SelectFlavor::Standard;
        ControlFlow::Continue(())
    }
}

/// The expression between the parentheses, if there is exactly one and nothing else.
fn only_argument(arguments: &FunctionArguments) -> Option<&Expr> {
    let FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses }) =
        arguments
    else {
        return None;
    };
    match args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))] if clauses.is_empty() => Some(only),
        _ => None,
    }
}

fn list(args: Vec<FunctionArgExpr>) -> FunctionArguments {
    FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: args.into_iter().map(FunctionArg::Unnamed).collect(),
        clauses: Vec::new(),
    })
}

/// Rewrites `count_if(x) FILTER (WHERE y)`, which counts the rows on which both x and y hold.
fn counted(function: &mut sql::Function) {
    let Some(condition) = only_argument(&function.args).cloned() else { return };
    let nested = |expr: Expr| Box::new(Expr::Nested(Box::new(expr)));
    let both = match function.filter.take() {
        Some(filter) => Expr::BinaryOp {
            left: nested(*filter),
            op: BinaryOperator::And,
            right: nested(condition),
        },
        None => condition,
    };
    function.filter = Some(Box::new(both));
    function.name = ObjectName::from(vec![Ident::new("count")]);
    function.args = list(vec![FunctionArgExpr::Wildcard]);
}

/// Rewrites `percentile_cont(f) WITHIN GROUP (ORDER BY x)`, and that of an array. A descending
/// order stays, and is refused later.
fn ordered(function: &mut sql::Function) {
    let Some(fraction) = only_argument(&function.args).cloned() else { return };
    let [sql::OrderByExpr { expr, options, with_fill: None }] = function.within_group.as_slice()
    else {
        return;
    };
    let sql::OrderByOptions { asc: None | Some(true), nulls_first: None } = options else { return };
    if let Expr::Array(_) = &fraction {
        function.name = ObjectName::from(vec![Ident::new("quantiles")]);
    }
    function.args =
        list(vec![FunctionArgExpr::Expr(expr.clone()), FunctionArgExpr::Expr(fraction)]);
    function.within_group.clear();
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    fn tree(text: &str) -> String {
        match parse(text) {
            Ok(Statement::Query(query)) => query.tree.to_string(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn tables_are_named_without_their_schema() {
        for (text, expected) in [
            ("SELECT 1 FROM public.t", "SELECT 1 FROM t"),
            ("SELECT 1 FROM \"public\".\"T\" AS x", "SELECT 1 FROM \"T\" AS x"),
            ("SELECT PUBLIC.t.a FROM Public.t", "SELECT t.a FROM t"),
            ("SELECT hushql.public.t.a FROM \"hushql\".\"public\".t", "SELECT t.a FROM t"),
            (
                "SELECT 1 FROM t WHERE a IN (SELECT b FROM public.u)",
                "SELECT 1 FROM t WHERE a IN (SELECT b FROM u)",
            ),
            // Another schema, a column, a quoted schema in capitals, and a table that a CTE hides
            // stay as they are.
            ("SELECT 1 FROM hushql.ledger", "SELECT 1 FROM hushql.ledger"),
            ("SELECT public.a FROM t AS public", "SELECT public.a FROM t AS public"),
            ("SELECT 1 FROM \"PUBLIC\".t", "SELECT 1 FROM \"PUBLIC\".t"),
            (
                "WITH t AS (SELECT 1 FROM public.u) SELECT 1 FROM public.t",
                "WITH t AS (SELECT 1 FROM u) SELECT 1 FROM public.t",
            ),
        ] {
            assert_eq!(tree(text), expected, "{text}");
        }
    }
}
