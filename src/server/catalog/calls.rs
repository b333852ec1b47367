//! Functions in FROM, VALUES, and joins in brackets.

use sqlparser::ast::{FunctionArg, FunctionArgExpr, ObjectName, Values};

use super::compile::{CatalogScope, Compiler, NamedColumns, parts};
use super::datum::{CatalogType, Unanswered};
use super::functions;
use super::named::{function_columns, plan_of};
use super::node::Node;
use super::plan::{Body, CatalogQuery, From, FromItem, Join, Select};
use super::relations;

/// Whether columns end with those that each table of the catalog has.
pub(super) fn has_system(columns: &NamedColumns) -> bool {
    columns.last().map(|(name, _)| name.as_str()) == relations::SYSTEM.last().map(|(name, _)| *name)
}

/// A function as a table.
pub(super) fn call(
    compiler: &Compiler<'_>,
    name: &ObjectName,
    args: &[FunctionArg],
    numbered: bool,
    scope: &CatalogScope<'_>,
) -> Result<(NamedColumns, From, String), Unanswered> {
    let name = parts(name)?.pop().ok_or(Unanswered::Unclear)?;
    if functions::is_about_the_catalog(&name) {
        compiler.touched.set(true);
    }
    let (mut values, mut kinds) = (Vec::new(), Vec::new());
    for arg in args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else {
            return Err(Unanswered::part(format!("the arguments of {name}")));
        };
        let (node, kind) = compiler.node(expr, scope)?;
        values.push(node);
        kinds.push(kind);
    }
    let columns = function_columns(&name, &kinds, numbered);
    let width = columns.len();
    Ok((columns, From::Call { name: name.clone(), values, numbered, width }, name))
}

/// The rows of VALUES.
pub(super) fn rows_of_values(
    compiler: &Compiler<'_>,
    values: &Values,
    outer: Option<&CatalogScope<'_>>,
) -> Result<CatalogQuery, Unanswered> {
    let scope = CatalogScope { columns: &[], outer, aggregates: None, extras: None };
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for row in &values.rows {
        let row = row
            .content
            .iter()
            .map(|expr| compiler.node(expr, &scope))
            .collect::<Result<Vec<_>, _>>()?;
        if columns.is_empty() {
            columns =
                row.iter().zip(1..).map(|((_, kind), n)| (format!("column{n}"), *kind)).collect();
        }
        rows.push(row.into_iter().map(|(node, _)| node).collect());
    }
    Ok(plan_of(columns, Body::Values(rows)))
}

/// Sources that are joined with each other first, as one source.
pub(super) fn joined_as_one(sources: Vec<FromItem>, how: Join) -> FromItem {
    let width = sources.iter().map(|source| source.width).sum();
    let items = (0..width).map(|index| Node::Column { depth: 0, index }).collect();
    let select = Select {
        sources,
        filter: Vec::new(),
        groups: None,
        extras: Vec::new(),
        items,
        distinct: false,
    };
    let columns = vec![(String::new(), CatalogType::TEXT); width];
    let plan = Box::new(plan_of(columns, Body::Select(Box::new(select))));
    FromItem { width, from: From::Plan { plan, lateral: false }, join: how, on: Vec::new() }
}
