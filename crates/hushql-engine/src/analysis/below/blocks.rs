//! Blocks of people in the place of people: what SAMPLE_AND_AGGREGATE computes below it.
//!
//! In: the rows of a private table, and the number of blocks. Out: the same rows with the block of
//! their unit as the hidden column that identifies the unit. Everything above this scan then treats
//! a block as one unit: a join matches rows of one block, a GROUP BY and a window stay within one,
//! and an aggregate without GROUP BY has one row for each block.
//!
//! ```text
//! SELECT CORR(x, y) FROM t          with 64 blocks: 64 coefficients, each of the people of one block
//! ```

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Union, lit,
};

use super::column_origin::OfUnit;
use super::relation::{Owner, PrivateRelation};
use super::union::alike;
use crate::analysis::below::refusals::replaced;
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::computable_types;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::functions::block_of;
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// The rows of a scan as those of blocks, if the release above asks for blocks.
    ///
    /// # Guarantee
    /// If a unit is removed from the database, or added, only rows with the block of this unit
    /// change, and this block depends on the unit's own value alone. The column of the block is
    /// never NULL. No column is marked as the unit, and nothing that holds for the rows of one
    /// person is said of those of a block: not how many there are, and not that they agree in a
    /// column.
    ///
    /// A link is followed first, so that rows of several tables have the block of the unit to which
    /// they lead. If rows are units, all columns of the table that can be compared decide the
    /// block, so equal rows share one; columns that are read as NULL here may lead to another
    /// block than in another query.
    pub(super) fn in_blocks(
        &mut self,
        flow: PrivateRelation,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let Some(blocks) = self.blocks.filter(|_| !flow.is_public()) else { return Ok(flow) };
        if let Some(date) = flow.subject.month_of() {
            return Err(of_months(date).into());
        }
        if flow.subject.public().is_some() {
            let write = "a question after the owner declared the table without PRESENCE PUBLIC";
            return Err(replaced("the value of a block", write).into());
        }
        let flow = self.resolved(flow)?;
        let unit = flow.unit_column();
        let named = match &unit {
            Some(unit) => vec![Expr::Column(unit.clone())],
            None => whole_row(&flow)?,
        };
        let owner = self.fresh("block");
        let columns = flow.plan.schema().columns().into_iter();
        let kept = columns.filter(|column| Some(column) != unit.as_ref()).map(Expr::Column);
        let block = block_of(blocks, named).alias(&owner);
        let plan = LogicalPlanBuilder::from(flow.plan.clone())
            .project(kept.chain([block]))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        self.step(format!("Divide the people into {blocks} blocks"));
        let mut scope = flow.scope.clone();
        for facts in &mut scope.facts {
            facts.is_unit = false;
        }
        let mut traces = flow.traces.clone();
        for trace in &mut traces {
            trace.of_unit = OfUnit::default();
            trace.unit_or_null = false;
        }
        let subject = flow.subject.clone().in_blocks(blocks);
        let owner = Owner::Unit(owner);
        Ok(PrivateRelation { plan, scope, traces, owner, subject, distinct: None, ..flow })
    }

    /// The rows of an aggregate without GROUP BY, with a row of NULLs for each block, if there are
    /// blocks; and the name of these constants. The first column holds the block.
    ///
    /// # Guarantee
    /// Each block has a row, whatever the data. Aggregates skip NULL, and those below count no rows
    /// but values of an argument. So the result for a block whose rows a condition has left out is
    /// that of no rows: 0 for COUNT, NULL for others.
    pub(super) fn with_every_block(
        &mut self,
        rows: LogicalPlan,
    ) -> Result<(LogicalPlan, Option<String>), NotAnalyzed> {
        let Some(blocks) = self.blocks else { return Ok((rows, None)) };
        let name = self.fresh("blocks");
        let numbers = Arc::new(Int64Array::from_iter_values(0..i64::from(blocks)));
        let numbers = RecordBatch::try_from_iter([("block", numbers as _)]);
        let numbers = self.tables.pinned(numbers.map_err(|e| internal(&e.into()))?);
        let scan = LogicalPlanBuilder::scan(
            TableReference::bare(name.clone()),
            numbers.ok_or_else(lost)?,
            None,
        );
        let mut block = Some(Expr::Column(Column::new(Some(name.clone()), "block")));
        let columns = rows.schema().fields().iter().map(|field| {
            let none = || ScalarValue::try_from(field.data_type()).map(lit);
            Ok(block.take().map_or_else(none, Ok)?.alias(field.name()))
        });
        let columns = columns.collect::<datafusion::common::Result<Vec<_>>>();
        let constants = columns
            .and_then(|columns| scan?.project(columns))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let all = Union::try_new(vec![Arc::new(rows), Arc::new(constants)]).and_then(alike);
        Ok((all.map_err(|e| internal(&e))?, Some(name)))
    }

    /// Refuses a join of many rows of a block with many others without an equality. In a block,
    /// nothing bounds a person's rows before they are joined, so that one person could determine
    /// how long the query takes.
    pub(super) fn refuse_all_pairs(
        &self,
        left: &PrivateRelation,
        right: &PrivateRelation,
        conditions: &[Expr],
    ) -> Result<(), Refusal> {
        let many = |flow: &PrivateRelation| flow.subject.max_rows() != Some(1);
        let of = |expr: &Expr, flow: &PrivateRelation| {
            let columns = expr.column_refs();
            let known = |column: &&Column| flow.scope.schema.is_column_from_schema(column);
            !columns.is_empty() && columns.iter().all(known)
        };
        let equates = |condition: &Expr| {
            let Expr::BinaryExpr(BinaryExpr { left: one, op: Operator::Eq, right: other }) =
                condition
            else {
                return false;
            };
            (of(one, left) && of(other, right)) || (of(one, right) && of(other, left))
        };
        if self.blocks.is_none() || !many(left) || !many(right) || conditions.iter().any(equates) {
            return Ok(());
        }
        let tables = |flow: &PrivateRelation| flow.subject.tables().join(", ");
        Err(Refusal::new(
            Reason::TooLarge,
            format!("{}, {}", tables(left), tables(right)),
            "this join pairs all rows of a block with one another, and nothing bounds how many they are",
            "an equality among its conditions, such as ON a.x = b.x AND a.y < b.y; or a subquery with an aggregate without GROUP BY on one side",
        ))
    }

    /// "unit", or "block" if the release above asks for blocks.
    pub(crate) fn whose(&self) -> &'static str {
        if self.blocks.is_some() { "block" } else { "unit" }
    }
}

/// All columns of a row whose values can be compared: they decide its block.
fn whole_row(flow: &PrivateRelation) -> Result<Vec<Expr>, NotAnalyzed> {
    let columns = flow.scope.schema.columns().into_iter().map(Expr::Column);
    let known = |column: &Expr| computable_types::check(column, &flow.scope.schema).is_ok();
    let columns: Vec<Expr> = columns.filter(known).collect();
    if columns.is_empty() {
        let table = flow.subject.unit_domain();
        return Err(Refusal::new(
            Reason::NotYet,
            "SAMPLE_AND_AGGREGATE",
            format!(
                "each row of {table} is a unit, its columns decide its block, and none of them can be compared"
            ),
            "LAPLACE(eps=1) COUNT(*), or a question after the owner declared a column of the table that names the unit",
        )
        .into());
    }
    Ok(columns)
}

fn of_months(date: &str) -> Refusal {
    Refusal::new(
        Reason::NotYet,
        "SAMPLE_AND_AGGREGATE",
        format!("a unit is one month of {date}, and blocks of months are not derived"),
        "LAPLACE(eps=1) AVG(x) of the rows themselves, or the question in a vault in which a whole person is the unit",
    )
}
