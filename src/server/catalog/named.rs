//! Names of columns, and small parts of queries.
//!
//! In: expressions, aliases and sides of set operations. Out: the names that PostgreSQL gives to
//! columns, and parts of queries.

use sqlparser::ast::{AccessExpr, Expr, Ident, Query, SelectItem, SetExpr, TableAlias, Value};

use super::super::types;
use super::compile::{NamedColumns, folded, parts};
use super::datum::CatalogType;
use super::node::Node;
use super::plan::{Body, CatalogQuery};
use super::set_functions;

/// The columns of a function in FROM.
pub(super) fn function_columns(name: &str, kinds: &[CatalogType], numbered: bool) -> NamedColumns {
    let ordinality = numbered.then(|| ("ordinality".to_owned(), CatalogType::INT8));
    set_functions::columns(name, kinds).into_iter().chain(ordinality).collect()
}

/// The plan of a body without ORDER BY or LIMIT.
pub(super) fn plan_of(columns: NamedColumns, body: Body) -> CatalogQuery {
    CatalogQuery {
        columns,
        body,
        order: Vec::new(),
        first_of: Vec::new(),
        limit: None,
        offset: None,
    }
}

/// A side of a set operation as a query.
pub(super) fn bare(side: &SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(side.clone()),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// The conditions of a conjunction.
pub(super) fn conjuncts(node: Node, to: &mut Vec<Node>) {
    match node {
        Node::And(left, right) => {
            conjuncts(*left, to);
            conjuncts(*right, to);
        }
        node => to.push(node),
    }
}

/// The position of the answer's column that an expression of ORDER BY or GROUP BY names, by name or
/// number.
pub(super) fn place(expr: &Expr, named: &NamedColumns) -> Option<usize> {
    match expr {
        Expr::Identifier(name) => {
            let name = folded(name);
            named.iter().position(|(known, _)| *known == name)
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let place: usize = digits.parse().ok()?;
                place.checked_sub(1).filter(|place| *place < named.len())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The column names of an alias.
pub(super) fn names(alias: Option<&TableAlias>) -> Vec<String> {
    alias
        .map(|alias| alias.columns.iter().map(|column| folded(&column.name)).collect())
        .unwrap_or_default()
}

/// The name that PostgreSQL gives to a column.
pub(super) fn name_of(expr: &Expr) -> String {
    let last = |names: &[Ident]| names.last().map_or_else(String::new, folded);
    match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(names) => last(names),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        // A cast has the name of its value only if that is a column or a function.
        Expr::Cast { expr, data_type, .. } => match name_of(expr).as_str() {
            name if name == "?column?"
                || matches!(&**expr, Expr::Cast { .. } | Expr::Case { .. }) =>
            {
                let written = data_type.to_string().to_lowercase().replace('"', "");
                let bare = written.rsplit('.').next().unwrap_or_default();
                let bare = bare.split('(').next().unwrap_or_default().trim_end_matches("[]");
                let found = types::named(bare).and_then(types::numbered);
                found.map_or_else(|| bare.to_owned(), |(t, _)| t.name.to_owned())
            }
            name => name.to_owned(),
        },
        Expr::Function(function) => {
            parts(&function.name).ok().and_then(|mut parts| parts.pop()).unwrap_or_default()
        }
        Expr::Case { else_result, .. } => match else_result.as_ref().map(|expr| name_of(expr)) {
            Some(name) if name != "?column?" => name,
            _ => "case".to_owned(),
        },
        Expr::Exists { .. } => "exists".to_owned(),
        Expr::Array(_) => "array".to_owned(),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(AccessExpr::Dot(Expr::Identifier(name))) => folded(name),
            _ => name_of(root),
        },
        Expr::Position { .. } => "position".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Tuple(_) => "row".to_owned(),
        Expr::TypedString(typed) => typed.data_type.to_string().to_lowercase(),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => name_of(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".to_owned(),
            },
            _ => "?column?".to_owned(),
        },
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Trim { .. } => "btrim".to_owned(),
        _ => "?column?".to_owned(),
    }
}
