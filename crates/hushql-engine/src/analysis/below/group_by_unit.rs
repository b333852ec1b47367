//! Below a release: aggregates of each unit's own rows.
//!
//! In: `GROUP BY` with the unit among its keys, over private rows. Out: private rows again, one for
//! each group of a unit. Each aggregate is a function of the unit's *multiset* of rows. The order
//! of rows depends on the rows of all units, and a float sum depends on the order. So floats are
//! summed on a grid of integers, and aggregates that pick a row by its position are refused.
//!
//! ```text
//! GROUP BY user_id: SUM(price)        price in [0, 1000], at most 20 rows/unit: a sum in [0, 20000], 1 row/unit
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};

use super::column_origin::{Definition, OfUnit, Trace};
use super::relation::{Owner, PrivateRelation, named};
use super::unit_aggregates::Inner;
use super::unit_statistics::inner;
use crate::analysis::below::refusals::{operator, several_months};
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::shape::{Total, readable};
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::functions::without_nan;
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// `GROUP BY` with the unit among its keys.
    ///
    /// # Guarantee
    /// Every row of the result is a function of the multiset of rows of one unit, and carries that
    /// unit.
    pub(crate) fn per_unit(
        &mut self,
        aggregate: &Aggregate,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        if aggregate.aggr_expr.iter().any(|e| CallOf::marker(e).is_some()) {
            return Err(operator(
                "a released table",
                "the release above: released rows have no unit, and cannot be joined or released with private ones",
            )
            .into());
        }
        let flow = self.rows(&aggregate.input)?;
        if flow.is_public() {
            return Err(operator("GROUP BY", "the aggregate of public rows").into());
        }
        let written = aggregate;
        let (flow, aggregate) = self.valued_aggregate(flow, aggregate)?;
        let keys = aggregate.group_expr.iter();
        let keys: Vec<UnitGroupKey> =
            keys.map(|key| key_of(&flow, key)).collect::<Result<_, _>>()?;
        let is_within_months = self.is_within_months(&flow, &aggregate.group_expr);
        if let Some(refusal) =
            several_months(&flow.subject, "GROUP BY").filter(|_| !is_within_months)
        {
            return Err(self.with_month_as_key(refusal, &flow).into());
        }
        if self.blocks.is_none()
            && !is_within_months
            && !keys.iter().any(|key| key.is_unit || self.leads_to_unit(&flow, key))
        {
            return Err(NotAnalyzed::ManyUnits(Refusal::new(
                Reason::Operator,
                "GROUP BY",
                "GROUP BY without the unit, below a release, mixes the rows of many people",
                format!(
                    "{} among the keys of the inner GROUP BY, or the mechanism in front of its aggregate",
                    flow.subject.column().unwrap_or("the unit")
                ),
            )));
        }
        let flow = self.resolved(flow)?;
        let unit = flow.unit_column().ok_or_else(lost)?;
        let rows = flow.subject.max_rows();
        let calls = aggregate.aggr_expr.iter();
        let calls: Vec<Inner> =
            calls.map(|call| inner(call, &flow, rows)).collect::<Result<_, _>>()?;
        let by = written.group_expr.iter().map(readable).collect::<Vec<_>>().join(", ");
        let by = if by.is_empty() { by } else { format!(" by {by}") };
        let told = written.aggr_expr.iter().map(|e| format!(", {}", e.schema_name()));
        self.step(format!("Aggregate each {}{by}{}", self.whose(), told.collect::<String>()));
        let one = aggregate.group_expr.iter().all(|key| flow.is_one_group(key));
        // A block has many rows of a table.
        let of_row = self.row_of_keys(&flow, &aggregate.group_expr);
        let (rows, fans) = match of_row.filter(|_| self.blocks.is_none()) {
            _ if one => (Some(1), BTreeMap::new()),
            Some((table, most, unique)) => {
                let least = rows.into_iter().chain(most).min();
                (least, unique.then_some((table, 1)).into_iter().collect())
            }
            None => (rows, BTreeMap::new()),
        };
        let grouped = self.grouped(&flow, unit, &keys, &calls, &aggregate)?;
        let facts = keys.iter().map(|key| key.facts.clone());
        let facts = facts.chain(calls.iter().map(|call| call.facts.clone())).collect();
        let traces = keys.iter().map(|key| key.trace.clone());
        let below = flow.below();
        let of_call = |call: &Expr| {
            let call = CallOf::function(call);
            let definition = call.and_then(|AggregateFunction { func, params }| {
                Definition::of_pick(func.name(), &params.args, &below)
            });
            Trace { size: 1, definition, ..Trace::default() }
        };
        let traces = traces.chain(aggregate.aggr_expr.iter().map(of_call));
        let of_unit = |alike: bool| OfUnit { alike, ..OfUnit::default() };
        let traces = traces.enumerate().map(|(i, trace)| {
            let alike =
                one || aggregate.group_expr.get(i).is_some_and(|key| flow.is_one_group(key));
            Trace { of_unit: of_unit(alike), ..trace }
        });
        let traces = traces.collect();
        let subject = flow.subject.clone().with_rows(rows);
        let scope = Scope::new(Arc::clone(&aggregate.schema), facts);
        let distinct = scope.schema.columns().into_iter().take(keys.len()).collect();
        let (plan, owner, constants) = grouped;
        let public = flow.public.into_iter().chain(constants).collect();
        Ok(PrivateRelation {
            plan,
            scope,
            traces,
            owner,
            subject,
            fans,
            distinct: Some(distinct),
            public,
        })
    }

    /// True if a key is a column that leads to the unit.
    fn leads_to_unit(&self, flow: &PrivateRelation, key: &UnitGroupKey) -> bool {
        // In SQL, all rows without a match form one group, so they can belong to several units.
        let Some(origin) = key.trace.origin.as_ref().filter(|_| !key.trace.padded) else {
            return false;
        };
        let own = self.catalog.table(&origin.table).and_then(|t| t.unit()?.link());
        let leads = own.is_some_and(|link| link.columns == [origin.column.clone()]);
        let led = self.catalog.referring(&origin.table).any(|table| {
            let link = table.unit().and_then(|unit| unit.link());
            link.is_some_and(|link| link.references == [origin.column.clone()])
        });
        (leads || led) && !flow.subject.is_row()
    }

    /// The plan: the unit and the keys as groups, the aggregates, and their results under the
    /// planner's names; and the name of the constants that it reads, if it has a row for each
    /// block.
    fn grouped(
        &mut self,
        flow: &PrivateRelation,
        unit: Column,
        keys: &[UnitGroupKey],
        calls: &[Inner],
        aggregate: &Aggregate,
    ) -> Result<(LogicalPlan, Owner, Option<String>), NotAnalyzed> {
        let owner = self.fresh("unit");
        let bare = |name: &str| Expr::Column(Column::from_name(name));
        let mut columns = vec![Expr::Column(unit).alias(owner.clone())];
        let mut groups = vec![bare(&owner)];
        let mut results = Vec::new();
        let mut names = aggregate.schema.iter();
        let mut result = |expr: Expr| {
            let (qualifier, field) = names.next().ok_or_else(lost)?;
            results.push(named(expr, qualifier, field.name()));
            Ok::<(), NotAnalyzed>(())
        };
        for key in keys {
            let name = self.fresh("key");
            columns.push(key.expr.clone().alias(name.clone()));
            groups.push(bare(&name));
            result(bare(&name))?;
        }
        let mut computed = Vec::new();
        for call in calls {
            let mut input = |expr: &Expr| {
                let name = self.fresh("argument");
                columns.push(expr.clone().alias(name.clone()));
                bare(&name)
            };
            let arguments = call.arguments.iter().map(&mut input).collect();
            let filter = call.filter.as_ref().map(&mut input);
            let mut own = Vec::new();
            for expr in (call.computed)(arguments, filter).map_err(|e| internal(&e))? {
                let name = self.fresh("aggregate");
                computed.push(expr.alias(name.clone()));
                own.push(bare(&name));
            }
            result((call.result)(own))?;
        }
        results.push(bare(&owner).alias(owner.clone()));
        let rows = LogicalPlanBuilder::from(flow.plan.clone())
            .project(columns)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let (rows, constants) = match keys {
            [] => self.with_every_block(rows)?,
            _ => (rows, None),
        };
        let plan = LogicalPlanBuilder::from(rows)
            .aggregate(groups, computed)
            .and_then(|groups| groups.project(results))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        Ok((plan, Owner::Unit(owner), constants))
    }
}

/// A key of a per-unit GROUP BY.
struct UnitGroupKey {
    expr: Expr,
    facts: Facts,
    trace: Trace,
    is_unit: bool,
}

fn key_of(flow: &PrivateRelation, key: &Expr) -> Result<UnitGroupKey, NotAnalyzed> {
    if matches!(key, Expr::GroupingSet(_)) {
        return Err(operator(
            "ROLLUP, CUBE or GROUPING SETS",
            "one GROUP BY in each subquery, the releases added above",
        )
        .into());
    }
    let Total { expr, facts } = exact(key, &flow.scope)?;
    let data_type = expr.get_type(flow.plan.schema()).map_err(|e| internal(&e))?;
    let computed =
        || Trace { definition: Some(Definition::new(key, &flow.below())), ..Trace::default() };
    let trace = flow.trace(key).cloned().unwrap_or_else(computed);
    let is_unit = facts.is_unit;
    let trace = Trace { raw: None, size: 1, ..trace };
    Ok(UnitGroupKey { expr: without_nan(expr, &data_type), facts, trace, is_unit })
}
