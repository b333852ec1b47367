//! Views: the queries that stand behind names, planned before the query that reads them.
//!
//! In: a query's tree and the catalog. Out: among the sources of the query, one for each view that it reads, which has
//! nothing but a plan; the planner puts the plan in the place of the name, under the name as its alias, as it does
//! with a subquery in FROM. The analysis therefore sees the query as if it had been written out, and knows no views.
//!
//! Names keep apart because each view is planned by itself, from its own text: a CTE of the query that reads it, a
//! column of an outer query or a release of its cannot be seen from in there, nor the reverse. What its names mean is
//! decided when it is used, so a view that leads to itself by then is found here, and so is a query that views make
//! larger than one may be that is written out: a view that reads another one twice doubles it.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) FROM grown     →     … FROM (SELECT age FROM adult WHERE age >= 18) AS grown
//! ```

mod shown;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource, TableType};
use sqlparser::ast as sql;

use crate::bind::names::tables_named;
use crate::bind::sources::Sources;
use crate::bind::{BindError, planned};
use crate::catalog::{Catalog, View};
use crate::dialect::{Size, tables, view_query};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

pub(crate) use shown::{columns, describe, statement, summary};

/// How many views may lead through one another.
pub(crate) const MOST_NESTED: usize = 32;

/// The views that a query reads, directly or through others.
#[derive(Debug)]
pub(crate) struct Views<'a> {
    catalog: &'a Catalog,
    size: &'a Size,
    /// Each with its query, behind all that it reads.
    read: Vec<(&'a View, Box<sql::Query>)>,
    weights: BTreeMap<&'a str, Weight>,
    /// What they read that is no view.
    tables: BTreeSet<String>,
}

/// How much stands behind a name, or in a query.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// How many views lead through one another.
    nested: usize,
    /// How many tables are named when all is written out, a view of none counted as one.
    tables: u64,
    /// How many operators the views have, each as often as it is named.
    operators: usize,
}

impl<'a> Views<'a> {
    /// Finds the views that a query reads, and reads their queries.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a view that leads to itself; [`Error::Refused`] for one that leads through more than
    /// [`MOST_NESTED`] others, and where the views make a query of it that is larger than `size`.
    pub(crate) fn of(
        query: &sql::Query,
        catalog: &'a Catalog,
        size: &'a Size,
    ) -> Result<Self, Error> {
        let (read, weights, tables) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let mut views = Self { catalog, size, read, weights, tables };
        views.weigh(query, &mut Vec::new())?;
        Ok(views)
    }

    /// Whether some view reads a table of this name.
    pub(crate) fn read_table(&self, name: &str) -> bool {
        self.tables.contains(name)
    }

    /// Adds a source for each view, which holds its plan.
    ///
    /// # Errors
    /// [`BindError::View`] when a view's query does not bind, [`Error::Catalog`] when its columns cannot be told apart.
    pub(crate) fn plan_into(self, sources: &mut Sources) -> Result<(), Error> {
        for (view, tree) in self.read {
            let plan = planned(tree, sources).map_err(|source| BindError::View {
                view: view.name.clone(),
                source: Box::new(source),
            })?;
            sources.insert(view.name.clone(), Arc::new(Planned::of(view, plan)?));
        }
        Ok(())
    }

    /// What a query reads; `path` are the views on the way to it.
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
        // This bounds the recursion.
        if path.len() >= MOST_NESTED {
            return Err(too_deep(path.first().unwrap_or(&name)));
        }
        let (tree, operators) = view_query(&view.query).map_err(|error| {
            Error::catalog_from(format!("the view `{name}` is no query any more"), error)
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

/// Refuses to propose a range for a view's column.
///
/// # Errors
/// A refusal for the name of a view.
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

/// The views that a query names itself, by name.
pub(crate) fn named(query: &sql::Query, catalog: &Catalog) -> Vec<String> {
    let names: BTreeSet<String> = tables_named(query).into_iter().collect();
    names.into_iter().filter(|name| catalog.view(name).is_some()).collect()
}

/// The source of a view: its plan, which the planner puts in place, and nothing to scan.
struct Planned {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl Planned {
    fn of(view: &View, plan: LogicalPlan) -> Result<Self, Error> {
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

/// The plan under the names that the view gives its columns.
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
        let views = Views::of(&view_query(query).unwrap().0, &catalog, &size);
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

    /// Also where a CTE of one view is named like another view: names are not taken for what they are not.
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
        // The part that was read already is as deep as when it is read again.
        let twice = format!("SELECT * FROM v20, v{MOST_NESTED}");
        assert!(read(&views, &twice).unwrap_err().contains(deep));

        let views = chain(30, |i| format!("SELECT a.x FROM v{i} a JOIN v{i} b ON a.x = b.x"));
        // A view of no table counts as one, so vn is 2ⁿ of them.
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
        // What reads no view is not measured here.
        let many = vec!["t"; 200].join(" CROSS JOIN ");
        assert!(read(&views, &format!("SELECT * FROM {many}")).is_ok());
        // Views that are many may each be small.
        let sum = vec!["x"; 61].join(" + ");
        let views = chain(30, |i| format!("SELECT {sum} AS x FROM v{i}"));
        assert!(read(&views, "SELECT * FROM v8").is_ok());
        let refused = read(&views, "SELECT * FROM v9").unwrap_err();
        assert!(refused.contains("have more than 500 operators"), "{refused}");
        assert!(read(&views, "SELECT a.x FROM v5 a, v5 b").unwrap_err().contains("operators"));
    }
}
