//! Views: named queries, planned before the query that reads them.
//!
//! In: a query's tree and the catalog. Out: a source for each view that the query reads; the source
//! contains only a plan. The planner replaces the name by the plan, and the name becomes its alias,
//! as for a subquery in FROM. So the analysis sees the query with its views expanded, and knows no
//! views.
//!
//! Names do not collide, because each view is planned separately from its own text. The view cannot
//! see CTEs, columns or releases of the query that reads it, and that query cannot see those of the
//! view. Names in a view are resolved when the view is used. So this module detects views that lead
//! to themselves. It also detects queries that exceed the size limit after their views are
//! expanded: a view that reads another one twice doubles it.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) FROM grown     →     … FROM (SELECT age FROM adult WHERE age >= 18) AS grown
//! ```

mod query_sources;
mod shown;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource, TableType};
use sqlparser::ast as sql;

use crate::bind::names::tables_named;
use crate::bind::sources::Sources;
use crate::bind::{BindError, Unbound, planned};
use crate::catalog::{Catalog, View};
use crate::dialect::{Size, tables, view_query};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

pub(crate) use shown::{columns, describe, statement, summary};

/// The deepest nesting of views.
pub(crate) const MOST_NESTED: usize = 32;

/// The views that a query reads, directly or through others.
#[derive(Debug)]
pub(crate) struct Views<'a> {
    catalog: &'a Catalog,
    size: &'a Size,
    /// The views with their queries; each comes after all views that it reads.
    read: Vec<(&'a View, Box<sql::Query>)>,
    weights: BTreeMap<&'a str, Weight>,
    /// The tables that the views read.
    tables: BTreeSet<String>,
}

/// The size of a view or a query with all of its views expanded.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// The nesting depth of views.
    nested: usize,
    /// The number of table names after the expansion. A view of no table counts as one.
    tables: u64,
    /// The number of operators in the views, counted at each use.
    operators: usize,
}

impl<'a> Views<'a> {
    /// Finds the views that a query reads, and reads their queries.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a view that leads to itself. [`Error::Refused`] for a view that leads
    /// through more than [`MOST_NESTED`] others, and if the views expand the query beyond `size`.
    pub(crate) fn for_query(
        query: &sql::Query,
        catalog: &'a Catalog,
        size: &'a Size,
    ) -> Result<Self, Error> {
        let (read, weights, tables) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let mut views = Self { catalog, size, read, weights, tables };
        views.weigh(query, &mut Vec::new())?;
        Ok(views)
    }

    /// True if a view reads a table of this name.
    pub(crate) fn read_table(&self, name: &str) -> bool {
        self.tables.contains(name)
    }

    /// Adds a source for each view, which contains its plan.
    ///
    /// # Errors
    /// [`BindError::View`] if a view's query does not bind, [`Error::Catalog`] if two of its
    /// columns have the same name.
    pub(crate) fn plan_into(self, sources: &mut Sources) -> Result<(), Error> {
        for (view, tree) in self.read {
            let plan = planned(tree, sources).map_err(|error| match error {
                Unbound::Mistake(source) => Error::Bind(BindError::View {
                    view: view.name.clone(),
                    source: Box::new(source),
                }),
                Unbound::Refused(refusal) => {
                    Error::Refused(refusal.over_views(std::slice::from_ref(&view.name)))
                }
            })?;
            sources.insert(view.name.clone(), Arc::new(Planned::for_view(view, plan)?));
        }
        Ok(())
    }

    /// Visits and measures everything that a query reads. `path` holds the views that led to it.
    fn weigh(&mut self, query: &sql::Query, path: &mut Vec<&'a str>) -> Result<Weight, Error> {
        let mut total = Weight::default();
        for name in tables_named(query) {
            let behind = match self.catalog.view(&name) {
                Some(view) => self.visit(view, path)?,
                None => {
                    if !path.is_empty() {
                        self.tables.insert(name);
                    }
                    Weight::default()
                }
            };
            total.nested = total.nested.max(behind.nested);
            total.operators = total.operators.saturating_add(behind.operators);
        }
        let weight = |name: &str| self.weights.get(name).map_or(1, |weight| weight.tables);
        total.tables = tables(query, &weight);
        if total.nested > 0 {
            let over: Vec<String> =
                path.last().map(|view| (*view).to_owned()).into_iter().collect();
            self.size
                .check_written_out(total.tables, total.operators)
                .map_err(|refusal| refusal.over_views(&over))?;
        }
        Ok(total)
    }

    fn visit(&mut self, view: &'a View, path: &mut Vec<&'a str>) -> Result<Weight, Error> {
        let name = view.name.as_str();
        if path.contains(&name) {
            let around = path.iter().skip_while(|passed| **passed != name).copied();
            let around: Vec<_> = around.chain([name]).map(|name| format!("`{name}`")).collect();
            return Err(Error::catalog(format!(
                "the view `{name}` leads to itself: {}",
                around.join(", ")
            )));
        }
        if let Some(weight) = self.weights.get(name) {
            return Ok(*weight);
        }
        // This check bounds the recursion.
        if path.len() >= MOST_NESTED {
            return Err(too_deep(path.first().unwrap_or(&name)));
        }
        let (tree, operators) = view_query(&view.query).map_err(|error| {
            Error::catalog_from(format!("the view `{name}` is no longer a valid query"), error)
        })?;
        path.push(name);
        let behind = self.weigh(&tree, path)?;
        path.pop();
        let weight = Weight {
            nested: behind.nested + 1,
            tables: behind.tables.max(1),
            operators: behind.operators.saturating_add(operators),
        };
        if weight.nested > MOST_NESTED {
            return Err(too_deep(name));
        }
        self.weights.insert(name, weight);
        self.read.push((view, tree));
        Ok(weight)
    }
}

fn too_deep(view: &str) -> Error {
    let message = format!("the view `{view}` leads through more than {MOST_NESTED} views");
    Refusal::new(Reason::TooLarge, view, message, "a view of the tables themselves").into()
}

/// Refuses to propose a range for the column of a view.
///
/// # Errors
/// A refusal if the name is a view's.
pub(crate) fn refuse_range(catalog: &Catalog, name: &str) -> Result<(), Refusal> {
    match catalog.view(name) {
        None => Ok(()),
        Some(_) => Err(Refusal::new(
            Reason::Operand,
            name,
            format!("{name} is a view, and ranges are declared for columns of tables"),
            "ANALYZE PRIVACY DOMAIN table(column), with a table that the view reads",
        )),
    }
}

/// The names of the views that a query reads directly.
pub(crate) fn named(query: &sql::Query, catalog: &Catalog) -> Vec<String> {
    let names: BTreeSet<String> = tables_named(query).into_iter().collect();
    names.into_iter().filter(|name| catalog.view(name).is_some()).collect()
}

/// The names of the tables that a query reads, directly or through views. `None` if the query of a
/// view cannot be read.
pub(crate) fn tables_behind(query: &sql::Query, catalog: &Catalog) -> Option<BTreeSet<String>> {
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut next = tables_named(query);
    while let Some(name) = next.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match catalog.view(&name) {
            Some(view) => next.extend(tables_named(&view_query(&view.query).ok()?.0)),
            None => drop(found.insert(name)),
        }
    }
    Some(found)
}

/// True if a view reads a table of this name, even if no such table exists.
pub(crate) fn read_a_table(catalog: &Catalog, name: &str) -> bool {
    catalog.views().any(|view| {
        let read = view_query(&view.query).map(|(query, _)| tables_named(&query));
        read.is_ok_and(|read| read.iter().any(|read| read == name))
    })
}

/// The source of a view: a plan for the planner, with nothing to scan.
struct Planned {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl Planned {
    fn for_view(view: &View, plan: LogicalPlan) -> Result<Self, Error> {
        let plan = renamed(view, plan)?;
        let mut seen = BTreeSet::new();
        for field in plan.schema().fields() {
            if !seen.insert(field.name()) {
                return Err(Error::catalog(format!(
                    "the view `{}` has two columns named {}: give each its own alias with AS",
                    view.name,
                    field.name()
                )));
            }
        }
        let schema = Arc::clone(plan.schema().inner());
        Ok(Self { plan, schema })
    }
}

impl TableSource for Planned {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

/// The plan, with the column names that the view declares.
fn renamed(view: &View, plan: LogicalPlan) -> Result<LogicalPlan, Error> {
    if view.columns.is_empty() {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    if columns.len() != view.columns.len() {
        return Err(Error::catalog(format!(
            "the view `{}` names {} columns, and its query has {}",
            view.name,
            view.columns.len(),
            columns.len()
        )));
    }
    let columns = columns.into_iter().zip(&view.columns);
    let columns: Vec<Expr> = columns.map(|(c, name)| Expr::Column(c).alias(name)).collect();
    LogicalPlanBuilder::from(plan)
        .project(columns)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|e| Error::catalog_from(format!("the view `{}` cannot be planned", view.name), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(views: &[(String, String)]) -> Catalog {
        Catalog::default().with_views(views.iter().map(|(name, query)| View {
            name: name.clone(),
            columns: Vec::new(),
            query: query.clone(),
        }))
    }

    fn read(views: &[(String, String)], query: &str) -> Result<Vec<String>, String> {
        let catalog = catalog(views);
        let size = Size::default();
        let views = Views::for_query(&view_query(query).unwrap().0, &catalog, &size);
        let names = |views: Views<'_>| views.read.iter().map(|(v, _)| v.name.clone()).collect();
        views.map(names).map_err(|error| error.to_string())
    }

    fn chain(views: usize, of: impl Fn(usize) -> String) -> Vec<(String, String)> {
        let first = ("v0".to_owned(), "SELECT 1 AS x".to_owned());
        std::iter::once(first).chain((1..views).map(|i| (format!("v{i}"), of(i - 1)))).collect()
    }

    #[test]
    fn views_come_behind_what_they_read() {
        let views = chain(4, |i| format!("SELECT * FROM v{i}, (SELECT * FROM v0) s"));
        assert_eq!(read(&views, "SELECT * FROM v2").unwrap(), ["v0", "v1", "v2"]);
        assert_eq!(read(&views, "SELECT 1").unwrap(), Vec::<String>::new());
        assert_eq!(read(&views, "WITH v2 AS (SELECT 1) SELECT * FROM v2, v0").unwrap(), ["v0"]);
    }

    /// This includes a CTE of one view with the name of another view: such a name does not refer to
    /// the view.
    #[test]
    fn circles_are_found_and_only_circles() {
        let view = |name: &str, query: &str| (name.to_owned(), query.to_owned());
        let views = [
            view("a", "SELECT * FROM b"),
            view("b", "SELECT * FROM t WHERE x IN (SELECT x FROM c)"),
            view("c", "WITH q AS (SELECT * FROM a) SELECT * FROM q"),
            view("d", "SELECT * FROM a"),
            view("self", "SELECT * FROM self"),
            view("e", "WITH f AS (SELECT 1) SELECT * FROM f"),
            view("f", "SELECT * FROM e"),
            view("g", "WITH g AS (SELECT 1) SELECT * FROM g"),
        ];
        for (query, expected) in [
            ("SELECT * FROM a", "the view `a` leads to itself: `a`, `b`, `c`, `a`"),
            ("SELECT * FROM d", "the view `a` leads to itself: `a`, `b`, `c`, `a`"),
            ("SELECT * FROM c", "the view `c` leads to itself: `c`, `a`, `b`, `c`"),
            ("SELECT * FROM self", "the view `self` leads to itself: `self`, `self`"),
        ] {
            assert_eq!(read(&views, query).unwrap_err(), expected);
        }
        assert_eq!(read(&views, "SELECT * FROM f, g").unwrap(), ["e", "f", "g"]);
    }

    #[test]
    fn views_lead_so_far_and_read_so_much() {
        let views = chain(MOST_NESTED + 1, |i| format!("SELECT * FROM v{i}"));
        let query = |n: usize| format!("SELECT * FROM v{n}");
        assert_eq!(read(&views, &query(MOST_NESTED - 1)).unwrap().len(), MOST_NESTED);
        let deep = "leads through more than 32 views";
        assert!(read(&views, &query(MOST_NESTED)).unwrap_err().contains(deep));
        // A view that is read again counts with its full depth.
        let twice = format!("SELECT * FROM v20, v{MOST_NESTED}");
        assert!(read(&views, &twice).unwrap_err().contains(deep));

        let views = chain(30, |i| format!("SELECT a.x FROM v{i} a JOIN v{i} b ON a.x = b.x"));
        // A view of no table counts as one, so vn counts 2ⁿ tables.
        let large = "HQ034 refused: the query names more than 100 tables";
        assert_eq!(read(&views, "SELECT * FROM v6").unwrap().len(), 7);
        let refused = read(&views, "SELECT * FROM v8").unwrap_err();
        assert!(refused.starts_with(large) && refused.contains("over the view v7"), "{refused}");
        for query in [
            "SELECT * FROM v6, v6",
            "SELECT * FROM v29",
            "WITH a AS (SELECT * FROM v5), b AS (SELECT * FROM a, a) SELECT * FROM b, b",
        ] {
            assert!(read(&views, query).unwrap_err().starts_with(large), "{query}");
        }
        // Queries that read no view are not measured here.
        let many = vec!["t"; 200].join(" CROSS JOIN ");
        assert!(read(&views, &format!("SELECT * FROM {many}")).is_ok());
        // Many small views can also exceed the limit on operators.
        let sum = vec!["x"; 61].join(" + ");
        let views = chain(30, |i| format!("SELECT {sum} AS x FROM v{i}"));
        assert!(read(&views, "SELECT * FROM v8").is_ok());
        let refused = read(&views, "SELECT * FROM v9").unwrap_err();
        assert!(refused.contains("have more than 500 operators"), "{refused}");
        assert!(read(&views, "SELECT a.x FROM v5 a, v5 b").unwrap_err().contains("operators"));
    }
}
