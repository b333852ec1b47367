//! Names of fields of structs, which are columns of their tables.
//!
//! In: the syntax tree of a query. Out: the same tree, in which each field that a table has as a
//! column is written as the name of that column. A name whose first part is a table of the query is
//! a column of that table.
//!
//! ```text
//! address.city, address['city']       "address.city"
//! t.address.city                      t."address.city"
//! ```

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, AccessExpr, Expr, Ident, Subscript, TableFactor, Value, Visit, VisitMut, Visitor,
    VisitorMut,
};

use super::names::normalized;
use super::sources::Sources;

/// Writes fields of structs as the columns that hold them.
pub(super) fn with_fields(query: &mut sql::Query, sources: &Sources) {
    let schemas = sources.values().map(|source| source.schema());
    let fields: BTreeSet<String> = schemas
        .flat_map(|schema| schema.fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>())
        .filter(|name| name.contains('.'))
        .collect();
    if fields.is_empty() {
        return;
    }
    let mut tables = NamedTables::default();
    let _ = Visit::visit(&*query, &mut tables);
    let _ = VisitMut::visit(query, &mut NamedFields { fields, tables: tables.0 });
}

/// The names and aliases of the tables of a query.
#[derive(Default)]
struct NamedTables(BTreeSet<String>);

impl Visitor for NamedTables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = factor {
            let last = name.0.last().and_then(|part| part.as_ident());
            self.0.extend(last.map(normalized));
        }
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } = factor
        {
            self.0.insert(normalized(&alias.name));
        }
        ControlFlow::Continue(())
    }
}

struct NamedFields {
    fields: BTreeSet<String>,
    tables: BTreeSet<String>,
}

impl VisitorMut for NamedFields {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(column) = parts(expr).and_then(|parts| self.column(&parts)) {
            *expr = column;
        }
        ControlFlow::Continue(())
    }
}

impl NamedFields {
    /// The column whose name has these parts.
    fn column(&self, parts: &[Ident]) -> Option<Expr> {
        let (first, below) = parts.split_first()?;
        let is_table = self.tables.contains(&normalized(first));
        let (table, field) = if is_table { (Some(first), below) } else { (None, parts) };
        if field.len() < 2 {
            return None;
        }
        let name = field.iter().map(normalized).collect::<Vec<_>>().join(".");
        if !self.fields.contains(&name) {
            return None;
        }
        let mut column = Ident::with_quote('"', name);
        column.span = first.span;
        Some(match table {
            Some(table) => Expr::CompoundIdentifier(vec![table.clone(), column]),
            None => Expr::Identifier(column),
        })
    }
}

/// The parts of a name with points or brackets.
fn parts(expr: &Expr) -> Option<Vec<Ident>> {
    if let Expr::CompoundIdentifier(parts) = expr {
        return Some(parts.clone());
    }
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let mut found = if let Expr::Identifier(ident) = root.as_ref() {
        vec![ident.clone()]
    } else if let Expr::CompoundIdentifier(parts) = root.as_ref() {
        parts.clone()
    } else {
        return None;
    };
    for access in access_chain {
        found.push(match access {
            AccessExpr::Dot(Expr::Identifier(ident)) => ident.clone(),
            AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) }) => {
                let Value::SingleQuotedString(text) = &value.value else { return None };
                Ident::with_quote('"', text.clone())
            }
            AccessExpr::Dot(_) | AccessExpr::Subscript(_) => return None,
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::datasource::provider_as_source;

    use super::*;
    use crate::dialect::view_query;

    fn rewritten(text: &str) -> String {
        let fields = ["id", "address.city", "address.at.x", "Home.City"]
            .map(|name| Field::new(name, DataType::Utf8, true));
        let table = EmptyTable::new(Arc::new(Schema::new(fields.to_vec())));
        let sources = Sources::from([("t".to_owned(), provider_as_source(Arc::new(table)))]);
        let mut query = view_query(text).unwrap().0;
        with_fields(&mut query, &sources);
        query.to_string()
    }

    #[test]
    fn fields_are_columns() {
        for (text, expected) in [
            ("SELECT address.city FROM t", "SELECT \"address.city\" FROM t"),
            ("SELECT Address['city'] FROM t", "SELECT \"address.city\" FROM t"),
            ("SELECT t.address.at.x FROM t", "SELECT t.\"address.at.x\" FROM t"),
            ("SELECT address.at['x'] FROM t", "SELECT \"address.at.x\" FROM t"),
            ("SELECT s.address.city FROM t s", "SELECT s.\"address.city\" FROM t s"),
            ("SELECT \"Home\".\"City\" FROM t", "SELECT \"Home.City\" FROM t"),
            // Names that are no fields, or columns of a table of that name.
            ("SELECT Home.City FROM t", "SELECT Home.City FROM t"),
            ("SELECT t.id FROM t", "SELECT t.id FROM t"),
            ("SELECT address.city FROM t address", "SELECT address.city FROM t address"),
            (
                "SELECT COUNT(*) FROM t GROUP BY address.city HAVING MAX(address.at.x) > 'a'",
                "SELECT COUNT(*) FROM t GROUP BY \"address.city\" HAVING MAX(\"address.at.x\") > 'a'",
            ),
        ] {
            assert_eq!(rewritten(text), expected);
        }
    }
}
