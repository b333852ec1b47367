//! UNION ALL below a release.
//!
//! In: branches over private rows of one unit domain. Out: all their rows. A unit with rows in
//! several branches is still one unit, so the bounds of the branches add up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::{Column, Result as Planned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union};

use super::column_origin::{Definition, Trace};
use super::relation::{Owner, PrivateRelation, named};
use crate::analysis::below::refusals::operator;
use crate::analysis::below::walk::Walk;
use crate::analysis::expr;
use crate::analysis::expr::facts::Scope;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// All rows of every branch.
    ///
    /// # Guarantee
    /// A unit has at most the sum of its rows in the branches.
    pub(crate) fn union(&mut self, union: &Union) -> Result<PrivateRelation, NotAnalyzed> {
        let mut flows = Vec::new();
        for input in &union.inputs {
            let flow = self.rows(input)?;
            if flow.is_public() {
                return Err(
                    operator("a public branch of UNION ALL", "the private branches alone").into()
                );
            }
            flows.push(self.resolved(flow)?);
        }
        let Some(first) = flows.first() else { return Err(lost()) };
        let (unit_domain, is_row) =
            (first.subject.unit_domain().to_owned(), first.subject.is_row());
        if let Some(other) = flows.iter().find(|flow| flow.subject.unit_domain() != unit_domain) {
            return Err(Refusal::new(
                Reason::Join,
                "UNION ALL",
                format!(
                    "{} and {} protect different people, who would share one answer",
                    first.subject.tables().join(", "),
                    other.subject.tables().join(", ")
                ),
                "one release over each, added above",
            )
            .into());
        }
        let unit = self.fresh("unit");
        let names: Vec<String> =
            union.schema.fields().iter().map(|_| self.fresh("column")).collect();
        let mut branches = Vec::new();
        for flow in &flows {
            let columns = flow.scope.schema.columns().into_iter().zip(&names);
            let mut columns: Vec<Expr> =
                columns.map(|(column, name)| Expr::Column(column).alias(name)).collect();
            if !is_row {
                let own = flow.unit_column().ok_or_else(lost)?;
                columns.push(Expr::Column(own).alias(&unit));
            }
            let branch = LogicalPlanBuilder::from(flow.plan.clone()).project(columns);
            let branch = branch.and_then(LogicalPlanBuilder::build).map_err(|e| internal(&e))?;
            branches.push(Arc::new(branch));
        }
        let all = Union::try_new(branches).and_then(alike).map_err(|e| internal(&e))?;
        let mut columns: Vec<Expr> = union
            .schema
            .iter()
            .zip(&names)
            .map(|((qualifier, field), name)| {
                named(Expr::Column(Column::from_name(name)), qualifier, field.name())
            })
            .collect();
        if !is_row {
            columns.push(Expr::Column(Column::from_name(&unit)).alias(&unit));
        }
        let plan = LogicalPlanBuilder::from(all).project(columns);
        let plan = plan.and_then(LogicalPlanBuilder::build).map_err(|e| internal(&e))?;
        self.step(format!("Union of {} branches", flows.len()));
        let facts = (0..union.schema.fields().len()).map(|i| {
            let of = flows.iter().filter_map(|flow| flow.scope.facts.get(i).cloned());
            let of: Vec<_> = of.collect();
            let mut facts = expr::shape::union(&of);
            facts.is_unit = of.iter().all(|facts| facts.is_unit);
            facts
        });
        let scope = Scope::new(Arc::clone(&union.schema), facts.collect());
        let rows = flows.iter().map(|flow| flow.subject.max_rows());
        let rows = rows.reduce(|a, b| a?.checked_add(b?)).flatten();
        let mut subject = first.subject.clone().with_rows(rows);
        let mut public = BTreeSet::new();
        for flow in &flows {
            subject = subject.with_tables(flow.subject.tables());
            public.extend(flow.public.iter().cloned());
        }
        let owner = if is_row { Owner::Row } else { Owner::Unit(unit) };
        let belows: Vec<_> = flows.iter().map(PrivateRelation::below).collect();
        let traces = (0..union.schema.fields().len()).map(|i| {
            let present = flows.iter().all(|flow| flow.traces.get(i).is_some_and(|t| t.present));
            let branches = flows.iter().zip(&belows).filter_map(|(flow, below)| {
                let column = flow.scope.schema.columns().get(i)?.clone();
                Some((Expr::Column(column), Arc::clone(below)))
            });
            let definition = Some(Definition::of_branches(branches.collect()));
            Trace { size: 1, present, definition, ..Trace::default() }
        });
        let traces = traces.collect();
        let (fans, distinct) = (BTreeMap::new(), None);
        Ok(PrivateRelation { plan, scope, traces, owner, subject, fans, distinct, public })
    }
}

/// A union whose branches agree with it on the nullability of columns.
///
/// Type coercion makes them agree: a column is nullable in all branches if it is nullable in one.
/// The engine does not run a plan that coercion would still change.
pub(super) fn alike(union: Union) -> Planned<LogicalPlan> {
    let Union { inputs, schema } = union;
    let inputs = inputs.into_iter().map(|branch| match Arc::unwrap_or_clone(branch) {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let branch = Projection::try_new_with_schema(expr, input, Arc::clone(&schema))?;
            Ok(Arc::new(LogicalPlan::Projection(branch)))
        }
        other => Ok(Arc::new(other)),
    });
    let inputs = inputs.collect::<Planned<_>>()?;
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::TableSource;

    use super::*;
    use crate::analysis::below::walk::Tables;
    use crate::catalog::Catalog;

    struct NoTables;

    impl Tables for NoTables {
        fn source(&self, _table: &str) -> Option<Arc<dyn TableSource>> {
            None
        }

        fn read(&self, _plan: &LogicalPlan) -> Option<RecordBatch> {
            None
        }

        fn pinned(&self, _rows: RecordBatch) -> Option<Arc<dyn TableSource>> {
            None
        }
    }

    /// No statement leads to such a plan, so this is a fault of the engine, and there is nothing
    /// else to write.
    #[test]
    fn a_union_of_nothing_is_a_fault() {
        let (catalog, mut steps) = (Catalog::default(), Vec::new());
        let union = Union { inputs: Vec::new(), schema: Arc::new(DFSchema::empty()) };
        let plan = LogicalPlan::Union(union.clone());
        let walked = Walk::new(&catalog, &NoTables, &mut steps, &plan).union(&union);
        assert!(matches!(walked, Err(NotAnalyzed::Fault(_))));
    }
}
