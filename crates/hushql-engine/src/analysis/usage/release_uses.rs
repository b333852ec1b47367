//! What the releases of a query do with columns of private tables.
//!
//! In: an analysed query, or the rows of a synthetic table. Out: the [`Uses`] of all private rows
//! that it reads. Every look at private rows is a private aggregate of the analysis, so that what
//! is above the releases needs no look: it reads released values.
//!
//! ```text
//! SELECT zip, LAPLACE(eps=1) SUM(x) FILTER (WHERE y > 3) … GROUP BY zip     zip: key, x: argument, y: condition; SUM by LAPLACE
//! MEDIAN(x), ARGMAX … x, RANDOMIZED_RESPONSE(eps=1) x, COUNT(DISTINCT x)    x: choice, or key
//! ```

use std::collections::BTreeSet;

use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

use super::column_uses::{CallUse, TableColumn, UseKind, Uses};
use super::usage_walk::{RowsUsed, UsageWalk};
use crate::analysis::below::only_public;
use crate::analysis::call::read_calls::bare_clause_of;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, lost};
use crate::analysis::outcome::Analysis;
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::analysis::recursion::deeper;
use crate::bind::Bound;
use crate::catalog::Catalog;
use crate::dialect::{
    AggregateName, Finding, MechanismName, Operand, ReleaseClause, Selector, marked,
};

/// What all releases of a query do with columns. The columns of `join_only` may do nothing but
/// join.
///
/// # Errors
/// A fault, if the analysis let something pass that this walk does not know.
pub(crate) fn uses_of_releases(
    analysis: &Analysis,
    catalog: &Catalog,
    join_only: &BTreeSet<TableColumn>,
) -> Result<Uses, NotAnalyzed> {
    let mut walk = UsageWalk::new(catalog, join_only.clone());
    for part in analysis.parts() {
        walk.part(part)?;
    }
    Ok(walk.uses)
}

/// What a synthetic table does with columns: each of them is shown.
///
/// # Errors
/// As [`uses_of_releases`].
pub(crate) fn uses_of_rows(
    plan: &LogicalPlan,
    catalog: &Catalog,
    join_only: &BTreeSet<TableColumn>,
) -> Result<Uses, NotAnalyzed> {
    let mut walk = UsageWalk::new(catalog, join_only.clone());
    let rows = walk.rows(plan)?;
    for (column, lineage) in rows.schema.columns().iter().zip(&rows.columns) {
        walk.uses.used(lineage, UseKind::Choice, &column.name);
        walk.shown.push((lineage.clone(), UseKind::Choice, column.name.clone()));
    }
    walk.end_release();
    let text = "a synthetic table".to_owned();
    let call = CallUse { name: "synthetic".to_owned(), mechanism: None, tables: rows.tables, text };
    walk.uses.calls.push(call);
    Ok(walk.uses)
}

/// What a query that is refused would do with columns: the outermost aggregates over private rows
/// are taken for its releases. It serves the choice among refusals, and permits nothing.
///
/// # Errors
/// As [`uses_of_releases`], for a query that this walk does not know.
pub(crate) fn uses_as_written(
    bound: &Bound,
    catalog: &Catalog,
    join_only: &BTreeSet<TableColumn>,
) -> Result<Uses, NotAnalyzed> {
    let mut walk = UsageWalk::new(catalog, join_only.clone());
    let mut outermost = Vec::new();
    add_outermost(bound.plan(), catalog, &mut outermost);
    for aggregate in outermost {
        let rows = walk.rows(&aggregate.input)?;
        for key in &aggregate.group_expr {
            walk.shown_key(key, &rows)?;
        }
        for call in &aggregate.aggr_expr {
            let function = CallOf::function(call).ok_or_else(lost)?;
            let clause = match marked(function.func.name()) {
                Some(n) => bound.releases().get(n).cloned().ok_or_else(lost)?,
                None => bare_clause_of(function, call)?,
            };
            walk.release(call, &clause, false, &rows)?;
        }
        walk.end_release();
    }
    Ok(walk.uses)
}

/// Adds the aggregates over private rows below which there is no other release.
fn add_outermost<'p>(plan: &'p LogicalPlan, catalog: &Catalog, found: &mut Vec<&'p Aggregate>) {
    deeper(|| {
        if let LogicalPlan::Aggregate(aggregate) = plan
            && !only_public(&aggregate.input, catalog)
        {
            found.push(aggregate);
            return;
        }
        for input in plan.inputs() {
            add_outermost(input, catalog, found);
        }
    });
}

impl UsageWalk<'_> {
    fn part(&mut self, part: &PrivateAggregate) -> Result<(), NotAnalyzed> {
        let aggregate = &part.read;
        let rows = self.rows(&aggregate.input)?;
        let first = part.measures().first().ok_or_else(lost)?;
        if let Some(Finding::Histogram { .. }) = first.clause.finding {
            let lineage = self.values(&aggregate.group_expr, &rows)?;
            self.uses.used(&lineage, UseKind::Bounds, &first.clause.text);
            self.compared.clear();
            return Ok(());
        }
        for key in &aggregate.group_expr {
            self.shown_key(key, &rows)?;
        }
        if aggregate.aggr_expr.is_empty() {
            // Keys that are shown alone are selected by a count.
            self.released(&first.clause, &rows);
        }
        for (call, measure) in aggregate.aggr_expr.iter().zip(part.measures()) {
            self.release(call, &measure.clause, part.plain.is_some(), &rows)?;
        }
        self.end_release();
        Ok(())
    }

    /// A key that comes out.
    fn shown_key(&mut self, key: &Expr, rows: &RowsUsed) -> Result<(), NotAnalyzed> {
        let lineage = self.key(key, rows)?;
        self.shown.push((lineage, UseKind::Key, readable(key)));
        Ok(())
    }

    /// A call that releases something.
    fn release(
        &mut self,
        expr: &Expr,
        clause: &ReleaseClause,
        is_plain: bool,
        rows: &RowsUsed,
    ) -> Result<(), NotAnalyzed> {
        let call = CallOf::function(expr).ok_or_else(lost)?;
        let text = clause.text.as_str();
        let (chosen, is_distinct) = match &clause.operand {
            // In plain SQL that shows keys only, the target is the key, and no argument.
            Operand::Selection(selection) if is_plain => (0, selection.score.distinct),
            Operand::Selection(selection) => {
                (usize::from(!selection.named), selection.score.distinct)
            }
            Operand::Response => (1, false),
            Operand::Aggregate(aggregate) => {
                (usize::from(shows_a_value(aggregate.function)), aggregate.distinct)
            }
        };
        let arguments = match &clause.operand {
            // The targets of a choice are not counted.
            Operand::Selection(selection) => {
                let (targets, scored) =
                    call.params.args.split_at(chosen.min(call.params.args.len()));
                let mut all = self.arguments("", targets, rows)?;
                let score = selection.score.function.to_string();
                all.extend(self.arguments(&score, scored, rows)?);
                all
            }
            Operand::Aggregate(aggregate) => {
                self.arguments(&aggregate.function.to_string(), &call.params.args, rows)?
            }
            Operand::Response => self.arguments("", &call.params.args, rows)?,
        };
        for (at, lineage) in arguments.into_iter().enumerate() {
            if at < chosen {
                self.uses.used(&lineage, UseKind::Choice, text);
                self.shown.push((lineage.clone(), UseKind::Choice, text.to_owned()));
            } else {
                self.uses.used(&lineage, UseKind::Argument, text);
            }
            if is_distinct || call.params.distinct {
                self.uses.used(&lineage, UseKind::Key, text);
            }
        }
        if let Some(filter) = &call.params.filter {
            self.condition(filter, rows)?;
        }
        for sort in &call.params.order_by {
            self.condition(&sort.expr, rows)?;
        }
        self.released(clause, rows);
        Ok(())
    }

    /// Records a release by the name and the mechanism that rules give it.
    fn released(&mut self, clause: &ReleaseClause, rows: &RowsUsed) {
        let mechanism = match clause.mechanism {
            MechanismName::Default => MechanismName::Auto,
            written @ (MechanismName::Exponential
            | MechanismName::GeneralizedExponential
            | MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax
            | MechanismName::Laplace
            | MechanismName::Gaussian
            | MechanismName::Auto
            | MechanismName::RandomizedResponse
            | MechanismName::SampleAndAggregate) => written,
        };
        let name = match &clause.operand {
            Operand::Aggregate(aggregate) => aggregate.function.to_string(),
            Operand::Response => MechanismName::RandomizedResponse.to_string(),
            Operand::Selection(selection) => match selection.selector {
                Selector::ArgMax => "argmax".to_owned(),
                Selector::ArgMin => "argmin".to_owned(),
                Selector::Top(_) => "top".to_owned(),
                Selector::Bottom(_) => "bottom".to_owned(),
            },
        };
        let mechanism = mechanism.to_string().to_lowercase();
        // A choice by a sum computes the sum. By a count, it only counts what it chooses among.
        if let Operand::Selection(selection) = &clause.operand
            && selection.score.function != AggregateName::Count
        {
            let score = selection.score.function.to_string();
            self.called(&score, Some(mechanism.clone()), &clause.text, rows);
        }
        self.called(&name, Some(mechanism), &clause.text, rows);
    }
}

/// True if what comes out of an aggregate is one of the values of its argument.
fn shows_a_value(function: AggregateName) -> bool {
    match function {
        AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles => true,
        AggregateName::Count
        | AggregateName::Sum
        | AggregateName::Avg
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Spread(_)
        | AggregateName::Joint(_)
        | AggregateName::Unsupported(_) => false,
    }
}
