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

use datafusion::logical_expr::{Expr, LogicalPlanBuilder};

use super::column_origin::OfUnit;
use super::relation::{Owner, PrivateRelation};
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
    /// they lead. If rows are units, equal rows share a block.
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
        return Err(lost());
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
