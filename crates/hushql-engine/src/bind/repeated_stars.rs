//! `*` that a SELECT lists twice: the columns of the second one get their own names.
//!
//! In: the tree of a query, and a way to plan it. Out: the same tree, in which every `*` after the
//! first one is written out. Only the planner knows the columns of FROM, so it plans the query with
//! a single `*` first. Subqueries stay as they are.
//!
//! ```text
//! SELECT *, * FROM census      SELECT *, census.status AS "status_1", census.share AS "share_1" FROM census
//! ```

use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::{self as sql, Expr, Ident, SelectItem};

use super::names::normalized;

/// A column of FROM: its table, if it has one, and its name.
pub(super) type FromColumn = (Option<String>, String);

/// The query that shows every column of FROM once, if the query as written shows one twice.
pub(super) fn every_column(query: &sql::Query) -> Option<Box<sql::Query>> {
    let sql::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let stars = select.projection.iter().filter(|item| is_star(item)).count();
    let is_whole = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let tables: BTreeSet<String> = select.projection.iter().filter_map(table_of).collect();
    if stars < 2 || (!is_whole && tables.len() == stars) {
        return None;
    }
    let mut once = select.clone();
    once.projection = vec![SelectItem::Wildcard(sql::WildcardAdditionalOptions::default())];
    once.distinct = None;
    let body = Box::new(sql::SetExpr::Select(once));
    Some(Box::new(sql::Query { body, order_by: None, ..query.clone() }))
}

/// The columns that the plan of [`every_column`] shows.
pub(super) fn columns_of(plan: &LogicalPlan) -> Vec<FromColumn> {
    let table_name = |table: &TableReference| table.table().to_owned();
    let columns = plan.schema().iter();
    columns.map(|(table, field)| (table.map(table_name), field.name().clone())).collect()
}

/// Writes out each `*` whose columns are shown before it.
pub(super) fn write_out(query: &mut sql::Query, columns: &[FromColumn]) {
    let sql::SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut used: BTreeSet<String> = columns.iter().map(|(_, name)| name.to_lowercase()).collect();
    used.extend(select.projection.iter().filter_map(alias_of));
    let mut shown: BTreeSet<&FromColumn> = BTreeSet::new();
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let own: Vec<&FromColumn> = match (is_star(&item), table_of(&item)) {
            (false, _) => Vec::new(),
            (true, None) => columns.iter().collect(),
            (true, table) => columns.iter().filter(|(of, _)| *of == table).collect(),
        };
        if own.iter().any(|column| shown.contains(*column)) {
            projection.extend(own.into_iter().map(|column| again(column, &mut used)));
        } else {
            shown.extend(own);
            projection.push(item);
        }
    }
    select.projection = projection;
}

/// True for a `*` or `t.*` without options.
fn is_star(item: &SelectItem) -> bool {
    let plain = sql::WildcardAdditionalOptions::default();
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            *options == plain
        }
        SelectItem::UnnamedExpr(_)
        | SelectItem::ExprWithAlias { .. }
        | SelectItem::ExprWithAliases { .. } => false,
    }
}

/// The table of `t.*`.
fn table_of(item: &SelectItem) -> Option<String> {
    let SelectItem::QualifiedWildcard(sql::SelectItemQualifiedWildcardKind::ObjectName(name), _) =
        item
    else {
        return None;
    };
    name.0.last().and_then(|part| part.as_ident()).map(normalized)
}

fn alias_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
        SelectItem::UnnamedExpr(_)
        | SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    }
}

/// A column under a similar name that is not used yet.
fn again((table, name): &FromColumn, used: &mut BTreeSet<String>) -> SelectItem {
    let quoted = |name: &str| Ident::with_quote('"', name);
    let mut number = 1_usize;
    let mut alias = format!("{name}_{number}");
    while !used.insert(alias.to_lowercase()) {
        number += 1;
        alias = format!("{name}_{number}");
    }
    let expr = match table {
        Some(table) => Expr::CompoundIdentifier(vec![quoted(table), quoted(name)]),
        None => Expr::Identifier(quoted(name)),
    };
    SelectItem::ExprWithAlias { expr, alias: quoted(&alias) }
}
