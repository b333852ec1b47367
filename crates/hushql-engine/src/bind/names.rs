//! The tables that a query names, as the planner resolves them.
//!
//! In: the syntax tree of a query. Out: every name of a table or view in it. These names decide
//! over which sources the query is planned. A name that refers to a CTE of the query is left out.
//!
//! ```text
//! WITH old AS (SELECT * FROM adult) SELECT * FROM old, hushql.ledger   →   adult, hushql.ledger
//! ```

use std::collections::VecDeque;
use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Visit, Visitor};

/// The tables and views that a query names, one entry for each mention, without the names of its
/// CTEs.
pub(crate) fn tables_named(query: &sql::Query) -> Vec<String> {
    let mut relations = Relations::default();
    let _ = query.visit(&mut relations);
    relations.found
}

/// Resolves names as the planner does. A CTE is visible to the CTEs after it and to the query that
/// it belongs to.
#[derive(Debug, Default)]
struct Relations {
    found: Vec<String>,
    /// The queries that enclose the current one.
    enclosing: Vec<Enclosing>,
}

#[derive(Debug, Default)]
struct Enclosing {
    /// CTEs whose queries have been visited.
    seen: Vec<String>,
    /// CTEs whose queries are still to be visited, in order.
    pending: VecDeque<String>,
}

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &sql::Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        let pending = ctes.map(|cte| normalized(&cte.alias.name)).collect();
        self.enclosing.push(Enclosing { seen: Vec::new(), pending });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &sql::Query) -> ControlFlow<()> {
        self.enclosing.pop();
        if let Some(outer) = self.enclosing.last_mut() {
            outer.seen.extend(outer.pending.pop_front());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &sql::ObjectName) -> ControlFlow<()> {
        let parts =
            name.0.iter().map(|part| part.as_ident().map_or_else(|| part.to_string(), normalized));
        let name = parts.collect::<Vec<_>>().join(".");
        if !self.enclosing.iter().any(|enclosing| enclosing.seen.contains(&name)) {
            self.found.push(name);
        }
        ControlFlow::Continue(())
    }
}

/// A name as the planner reads it.
pub(super) fn normalized(name: &sql::Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::view_query;

    fn found(text: &str) -> Vec<String> {
        tables_named(&view_query(text).unwrap().0)
    }

    /// The planner decides what a name refers to.
    #[test]
    fn a_cte_is_visible_where_the_planner_sees_it() {
        for (text, expected) in [
            ("SELECT 1", &[][..]),
            ("SELECT * FROM A, \"A\" AS b, hushql.Ledger", &["a", "A", "hushql.ledger"]),
            ("SELECT * FROM a x JOIN a y ON x.i = y.i", &["a", "a"]),
            ("WITH a AS (SELECT * FROM a) SELECT * FROM a, b", &["a", "b"]),
            ("WITH A AS (SELECT * FROM t) SELECT * FROM a, \"a\", \"A\"", &["t", "A"]),
            ("WITH \"A\" AS (SELECT * FROM t) SELECT * FROM a, \"A\"", &["t", "a"]),
            (
                "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a, b) SELECT * FROM a, b",
                &["b", "b"],
            ),
            ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) s, a", &["a"]),
            ("WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM a) s", &[]),
            (
                "WITH a AS (SELECT (SELECT i FROM b) AS i FROM c) SELECT * FROM a, b",
                &["c", "b", "b"],
            ),
            (
                "WITH a AS (WITH b AS (SELECT * FROM a) SELECT * FROM b) SELECT * FROM a, b",
                &["a", "b"],
            ),
            ("WITH a AS (SELECT 1) SELECT 1 WHERE EXISTS (SELECT * FROM a, b)", &["b"]),
            ("WITH a AS (SELECT 1) (SELECT * FROM a UNION ALL SELECT * FROM b)", &["b"]),
            (
                "SELECT * FROM t WHERE x IN (SELECT y FROM u ORDER BY (SELECT z FROM w))",
                &["t", "u", "w"],
            ),
        ] {
            let (mut found, mut expected) = (found(text), expected.to_vec());
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{text}");
        }
    }
}
