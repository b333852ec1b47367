//! What a query reads of people whose presence is public: which of its conditions and columns are
//! functions of public columns alone.
//!
//! In: the plan below a release, as it is written. Out: for each of its columns, whether anyone may
//! know it of everyone, and whether anyone may know which rows there are. Only operators that work
//! row by row on the one table are admitted: for others, what a replaced row changes is not
//! derived.
//!
//! ```text
//! survey (id, region public): WHERE region = 'Oslo'            rows public, id and region public
//! SELECT income * 2 AS y, upper(region) AS r … WHERE income > 5      r public; the rows are not
//! ```

use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

use crate::analysis::below::refusals::replaced;
use crate::analysis::below::relation::has_subquery;
use crate::catalog::Catalog;
use crate::refusal::Refusal;

/// The rows of a plan over people whose presence is public.
#[derive(Debug, Clone)]
pub(crate) struct PublicReads {
    schema: DFSchemaRef,
    /// For each column, whether its values are public.
    columns: Vec<bool>,
    /// Whether public columns alone decide which rows there are.
    are_rows_public: bool,
}

impl PublicReads {
    /// What a plan reads of people whose presence is public.
    ///
    /// # Guarantee
    /// Each row of the result comes from the one row of one person. If the values of a person's
    /// private columns are replaced, the rows of all others stay as they are; a column that is
    /// named public keeps its value in the person's row; and if the rows are public, that row stays
    /// or is absent as before. By induction over the operators: each of them computes a row from
    /// one row.
    ///
    /// # Errors
    /// Refuses operators for which this is not derived, and a scan of another table.
    pub(crate) fn of(plan: &LogicalPlan, catalog: &Catalog) -> Result<Self, Refusal> {
        let refuse = |operator: &str| {
            Err(replaced(
                operator,
                "the aggregate of the table's own rows, with conditions in WHERE or FILTER",
            ))
        };
        let schema = DFSchemaRef::clone(plan.schema());
        match plan {
            LogicalPlan::TableScan(scan) => {
                let table = catalog.table(scan.table_name.table());
                let unit = table.and_then(|table| table.unit()?.present());
                let Some((person, public)) = unit else { return refuse("another table") };
                if !scan.filters.is_empty() || scan.fetch.is_some() {
                    return refuse("a scan of some rows");
                }
                let names = scan.projected_schema.fields().iter();
                let is_public = |name: &String| name == person || public.contains(name);
                let columns = names.map(|field| is_public(field.name())).collect();
                Ok(Self { schema, columns, are_rows_public: true })
            }
            LogicalPlan::Filter(filter) => {
                let below = Self::of(&filter.input, catalog)?;
                let are_rows_public =
                    below.are_rows_public && below.reads_public(&filter.predicate)?;
                Ok(Self { schema, are_rows_public, ..below })
            }
            LogicalPlan::Projection(projection) => {
                let below = Self::of(&projection.input, catalog)?;
                let columns = projection.expr.iter().map(|expr| below.reads_public(expr));
                let columns = columns.collect::<Result<_, _>>()?;
                Ok(Self { schema, columns, are_rows_public: below.are_rows_public })
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let below = Self::of(&alias.input, catalog)?;
                Ok(Self { schema, ..below })
            }
            LogicalPlan::Aggregate(_) => refuse("GROUP BY below a release"),
            LogicalPlan::Distinct(Distinct::All(_) | Distinct::On(_)) => refuse("DISTINCT"),
            LogicalPlan::Window(_) => refuse("OVER"),
            LogicalPlan::Join(_) => refuse("a join"),
            LogicalPlan::Union(_) => refuse("UNION"),
            LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => refuse("LIMIT"),
            LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => refuse("this operator"),
        }
    }

    /// Whether public columns alone decide which rows there are.
    pub(crate) fn are_rows_public(&self) -> bool {
        self.are_rows_public
    }

    /// Whether an expression over these rows is a function of public columns alone.
    ///
    /// # Errors
    /// Refuses subqueries, which read other rows.
    pub(crate) fn reads_public(&self, expr: &Expr) -> Result<bool, Refusal> {
        if has_subquery(expr) || expr.contains_outer() {
            return Err(replaced("a subquery", "the condition on columns of the row itself"));
        }
        Ok(expr.column_refs().into_iter().all(|column| {
            let index = self.schema.maybe_index_of_column(column);
            index.and_then(|index| self.columns.get(index)).copied().unwrap_or(false)
        }))
    }
}
