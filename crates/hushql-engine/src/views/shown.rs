//! The answers of SHOW and DESCRIBE about views: their columns, the tables that they read, and for
//! owners their definitions.
//!
//! In: the catalog. Out: answers of SHOW and DESCRIBE. A view is planned like a query that reads
//! it, but no data is read. A view that can no longer be planned is listed as such.
//!
//! ```text
//! DESCRIBE grown  →  age  BIGINT  between (18, 120)          SHOW TABLES  →  grown  view of adult
//! ```

use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};

use crate::bind::bind;
use crate::catalog::{Catalog, Column, Table, View};
use crate::dialect::{Statement, parse};
use crate::error::Error;
use crate::instance::Inner;

/// One column of a view, and the table column that it shows.
pub(crate) struct ShownColumn<'a> {
    pub(crate) name: String,
    pub(crate) data_type: String,
    pub(crate) of: Option<(&'a Table, &'a Column)>,
}

/// The columns of a view, as a query over it sees them.
///
/// # Errors
/// The errors of a query that reads the view.
pub(crate) fn describe<'a>(
    inner: &Inner,
    catalog: &'a Catalog,
    view: &View,
) -> Result<Vec<ShownColumn<'a>>, Error> {
    let plan = plan(inner, catalog, view)?;
    let columns = plan.schema().fields().iter().enumerate().map(|(i, field)| {
        let of = origin(&plan, i).and_then(|(table, column)| {
            let table = catalog.table(table)?;
            Some((table, table.column(column)?))
        });
        // The Arrow layout of texts in a file differs from the declared layout, although the type
        // is the same.
        let data_type = match of {
            Some((_, column)) => column.data_type.clone(),
            None => field.data_type().to_string(),
        };
        ShownColumn { name: field.name().clone(), data_type, of }
    });
    Ok(columns.collect())
}

/// The views and the names of their columns. A view that cannot be planned has no columns here.
pub(crate) fn columns(inner: &Inner, catalog: &Catalog) -> Vec<(String, Vec<String>)> {
    let names = |view: &View| {
        let plan = plan(inner, catalog, view).ok()?;
        Some(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
    };
    catalog.views().map(|view| (view.name.clone(), names(view).unwrap_or_default())).collect()
}

/// The tables that a view reads, or the reason why it cannot be read.
pub(crate) fn summary(inner: &Inner, catalog: &Catalog, view: &View) -> String {
    match plan(inner, catalog, view) {
        Ok(plan) => match tables(&plan).into_iter().collect::<Vec<_>>().join(", ") {
            tables if tables.is_empty() => "view of no table".to_owned(),
            tables => format!("view of {tables}"),
        },
        Err(error) => format!("view that cannot be read: {}", error.message()),
    }
}

/// The statement that would create a view.
pub(crate) fn statement(view: &View) -> String {
    let columns: Vec<String> = view.columns.iter().map(|name| written(name)).collect();
    let columns = match columns.as_slice() {
        [] => String::new(),
        _ => format!(" ({})", columns.join(", ")),
    };
    format!("CREATE OR REPLACE VIEW {}{columns} AS {}", written(&view.name), view.query)
}

/// A name as SQL writes it.
fn written(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The plan of all columns of a view.
fn plan(inner: &Inner, catalog: &Catalog, view: &View) -> Result<LogicalPlan, Error> {
    let all = format!("SELECT * FROM {}", quoted(&view.name));
    let Statement::Query(query) = parse(&all)? else { return Err(Error::Internal) };
    let sources = inner.sources(&query.tree, catalog, "", &inner.open_files())?;
    Ok(bind(query, &sources)?.plan().clone())
}

fn tables(plan: &LogicalPlan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // The walk cannot fail, because its closure returns no error.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.insert(scan.table_name.to_string());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

/// The table column that an output column shows unchanged. `None` for a computed column, and for a
/// column that a join may have filled with NULL.
fn origin(plan: &LogicalPlan, output: usize) -> Option<(&str, &str)> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut expr = projection.expr.get(output)?;
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            let Expr::Column(column) = expr else { return None };
            origin(&projection.input, projection.input.schema().maybe_index_of_column(column)?)
        }
        LogicalPlan::Filter(filter) => origin(&filter.input, output),
        LogicalPlan::Sort(sort) => origin(&sort.input, output),
        LogicalPlan::Limit(limit) => origin(&limit.input, output),
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, output),
        LogicalPlan::Distinct(Distinct::All(input)) => origin(input, output),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let left = join.left.schema().fields().len();
            match output.checked_sub(left) {
                None => origin(&join.left, output),
                Some(output) => origin(&join.right, output),
            }
        }
        LogicalPlan::TableScan(scan) => match &scan.table_name {
            TableReference::Bare { table } => {
                let column = scan.projected_schema.fields().get(output)?.name();
                Some((table, column))
            }
            TableReference::Partial { .. } | TableReference::Full { .. } => None,
        },
        _ => None,
    }
}
