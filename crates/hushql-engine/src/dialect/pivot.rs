//! PIVOT: a column for each listed value.
//!
//! In: `(subquery) PIVOT (aggregate FOR column IN (…))`. Out: the same as a grouped query, with one
//! filtered aggregate for each value. The columns are those of the list, whatever the rows are, and
//! the keys are the columns of the subquery that PIVOT does not read. So nothing about it needs a
//! derivation of its own.
//!
//! ```text
//! FROM (SELECT sex, status FROM adult) PIVOT (COUNT(*) FOR sex IN ('Male', 'Female'))
//!   →  FROM (SELECT status, COUNT(*) FILTER (WHERE sex = 'Male') AS "Male", … FROM (SELECT sex, status FROM adult) GROUP BY status)
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, BinaryOperator, Expr, ExprWithAlias, GroupByExpr, Ident, PivotValueSource, Query,
    SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, UnaryOperator, VisitMut,
    VisitorMut, visit_expressions,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::error::DialectError;
use crate::refusal::{Reason, Refusal};

/// Rewrites every PIVOT of a query.
///
/// # Errors
/// The refusal of a PIVOT whose columns the statement does not name.
pub(super) fn without_pivots(query: &mut Query) -> Result<(), DialectError> {
    match VisitMut::visit(query, &mut Pivots) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal.into()),
    }
}

struct Pivots;

impl VisitorMut for Pivots {
    type Break = Refusal;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Refusal> {
        if let TableFactor::Pivot { .. } = factor {
            match grouped(factor) {
                Some(grouped) => *factor = grouped,
                None => return ControlFlow::Break(no_list(factor).unwrap_or_else(no_pivot)),
            }
        }
        ControlFlow::Continue(())
    }
}

fn no_pivot() -> Refusal {
    Refusal::new(
        Reason::Statement,
        "PIVOT",
        "PIVOT reads a subquery that names its columns, and makes a column for each value of a list",
        "SELECT * FROM (SELECT key, x, y FROM t) PIVOT (SUM(y) FOR x IN ('a', 'b'))",
    )
}

/// The refusal of a list that is read from rows.
fn no_list(factor: &TableFactor) -> Option<Refusal> {
    let TableFactor::Pivot {
        value_column,
        value_source: PivotValueSource::Subquery(_) | PivotValueSource::Any(_),
        ..
    } = factor
    else {
        return None;
    };
    let [column] = value_column.as_slice() else { return None };
    Some(Refusal::new(
        Reason::Statement,
        format!("{column} IN (…)"),
        "PIVOT makes a column for each value of its list, so the statement lists the values; those of a subquery are only known when it is read",
        format!(
            "{column} IN ('a', 'b'), with the values that you want; or {column} alone, if its values are declared"
        ),
    ))
}

/// The grouped query that means the same. `None` if the statement does not name the columns.
fn grouped(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Pivot {
        table,
        aggregate_functions,
        value_column,
        value_source: PivotValueSource::List(values),
        default_on_null: None,
        alias,
    } = factor
    else {
        return None;
    };
    let [column @ Expr::Identifier(pivoted)] = value_column.as_slice() else { return None };
    let read = columns_read(aggregate_functions);
    let is_free = |name: &&Ident| !same(name, pivoted) && !read.iter().any(|own| same(own, name));
    let names = columns_of(table)?;
    let keys: Vec<&Ident> = names.iter().filter(is_free).collect();
    let key = |name: &&Ident| SelectItem::UnnamedExpr(Expr::Identifier((*name).clone()));
    let mut items: Vec<SelectItem> = keys.iter().map(key).collect();
    for value in values {
        for aggregate in aggregate_functions {
            items.push(of_value(column, value, aggregate)?);
        }
    }
    let mut query = template()?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.projection = items;
    select.from = vec![TableWithJoins { relation: table.as_ref().clone(), joins: Vec::new() }];
    let keys = keys.into_iter().map(|name| Expr::Identifier(name.clone())).collect();
    select.group_by = GroupByExpr::Expressions(keys, Vec::new());
    Some(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: alias.clone(),
        sample: None,
    })
}

/// A query whose parts are replaced.
fn template() -> Option<Query> {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM t").ok()?;
    match parsed.into_iter().next()? {
        Statement::Query(query) => Some(*query),
        _ => None,
    }
}

/// The aggregate over the rows with one value, under the name of the value.
fn of_value(column: &Expr, value: &ExprWithAlias, aggregate: &ExprWithAlias) -> Option<SelectItem> {
    let (is_null, text) = match &value.expr {
        Expr::Value(literal) => {
            let text = literal.value.clone().into_string();
            (literal.value == sql::Value::Null, text.unwrap_or_else(|| literal.value.to_string()))
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: number }
            if matches!(number.as_ref(), Expr::Value(_)) =>
        {
            (false, value.expr.to_string())
        }
        _ => return None,
    };
    let Expr::Function(function) = &aggregate.expr else { return None };
    if function.over.is_some() {
        return None;
    }
    let condition = match is_null {
        true => Expr::IsNull(Box::new(column.clone())),
        false => Expr::BinaryOp {
            left: Box::new(column.clone()),
            op: BinaryOperator::Eq,
            right: Box::new(value.expr.clone()),
        },
    };
    let own = value.alias.as_ref().map_or(text, |alias| alias.value.clone());
    // As GoogleSQL names them.
    let name = match &aggregate.alias {
        Some(alias) => format!("{}_{own}", alias.value),
        None => own,
    };
    let mut filtered = function.clone();
    filtered.filter = Some(match filtered.filter.take() {
        None => Box::new(condition),
        Some(own) => Box::new(Expr::BinaryOp {
            left: Box::new(Expr::Nested(own)),
            op: BinaryOperator::And,
            right: Box::new(condition),
        }),
    });
    let (expr, alias) = (Expr::Function(filtered), Ident::with_quote('"', name));
    Some(SelectItem::ExprWithAlias { expr, alias })
}

/// The columns that the aggregates read.
fn columns_read(aggregates: &[ExprWithAlias]) -> Vec<Ident> {
    let mut read = Vec::new();
    for aggregate in aggregates {
        let _: ControlFlow<()> = visit_expressions(&aggregate.expr, |expr| {
            match expr {
                Expr::Identifier(name) => read.push(name.clone()),
                Expr::CompoundIdentifier(parts) => read.extend(parts.last().cloned()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
    }
    read
}

/// The names of the columns of a subquery, if it names all of them.
fn columns_of(table: &TableFactor) -> Option<Vec<Ident>> {
    let TableFactor::Derived { subquery, .. } = table else { return None };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

fn same(one: &Ident, other: &Ident) -> bool {
    match (one.quote_style, other.quote_style) {
        (None, None) => one.value.eq_ignore_ascii_case(&other.value),
        _ => one.value == other.value,
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    #[test]
    fn a_pivot_is_a_grouped_query() {
        let tree = |text: &str| match parse(text) {
            Ok(Statement::Query(query)) => query.tree.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            tree(
                "SELECT * FROM (SELECT a, b FROM t) PIVOT (COUNT(*) FOR a IN ('x', 'y' AS z, -1, NULL)) AS p"
            ),
            "SELECT * FROM (SELECT b, COUNT(*) FILTER (WHERE a = 'x') AS \"x\", COUNT(*) FILTER (WHERE a = 'y') AS \"z\", \
             COUNT(*) FILTER (WHERE a = -1) AS \"-1\", COUNT(*) FILTER (WHERE a IS NULL) AS \"NULL\" FROM (SELECT a, b FROM t) GROUP BY b) AS p"
        );
        assert_eq!(
            tree(
                "SELECT * FROM (SELECT a, b, c FROM t) PIVOT (SUM(b) FILTER (WHERE c > 1 OR b = 2) FOR a IN ('x'))"
            ),
            "SELECT * FROM (SELECT SUM(b) FILTER (WHERE (c > 1 OR b = 2) AND a = 'x') AS \"x\" FROM (SELECT a, b, c FROM t))"
        );
        assert!(
            tree("SELECT * FROM (SELECT a FROM t) PIVOT (COUNT(*) FOR a IN (SELECT x FROM u))")
                .contains("the statement lists the values")
        );
        assert!(
            tree("SELECT * FROM t PIVOT (COUNT(*) FOR a IN ('x'))").contains("names its columns")
        );
    }
}
