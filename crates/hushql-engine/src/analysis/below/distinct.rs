//! Below a release: DISTINCT of each unit's own rows.
//!
//! In: rows with the unit among their columns. Out: the same rows without duplicates within a unit.
//!
//! ```text
//! SELECT DISTINCT user_id, city      GROUP BY unit, user_id, city: at most as many rows/unit as before
//! ```

use std::collections::BTreeMap;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::column_origin::Trace;
use super::relation::{Owner, PrivateRelation, named};
use crate::analysis::below::refusals::{only_table, operator, several_months};
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::computable_types;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::functions::without_nan;
use crate::refusal::{Reason, Refusal};

/// The refusal of DISTINCT that is not by unit. Its values can be counted.
fn without_unit(input: &LogicalPlan, unit: Option<&str>) -> Refusal {
    let counted = match (input.schema().columns().as_slice(), only_table(input)) {
        ([one], Some(table)) => format!("SELECT LAPLACE(eps=1) COUNT(DISTINCT {one}) FROM {table}"),
        ([one], None) => format!("COUNT(DISTINCT {one}) without the inner DISTINCT"),
        _ => "COUNT(DISTINCT x) of one column x".to_owned(),
    };
    Refusal::new(
        Reason::Operator,
        "DISTINCT",
        "DISTINCT without the unit, below a release, mixes the rows of many people",
        match unit {
            Some(unit) => format!("{counted}, or {unit} among the columns"),
            None => counted,
        },
    )
}

impl Walk<'_> {
    /// `SELECT DISTINCT` with the unit among its columns.
    pub(crate) fn distinct(&mut self, input: &LogicalPlan) -> Result<PrivateRelation, NotAnalyzed> {
        let flow = self.rows(input)?;
        if flow.is_public() {
            return Err(operator("DISTINCT", "the distinct public rows").into());
        }
        if let Some(refusal) = several_months(&flow.subject, "DISTINCT") {
            return Err(refusal.into());
        }
        let names_unit = flow.scope.facts.iter().any(|facts| facts.is_unit);
        if self.blocks.is_none() && !names_unit {
            return Err(without_unit(input, flow.subject.column()).into());
        }
        let flow = self.resolved(flow)?;
        let unit = flow.unit_column().ok_or_else(lost)?;
        let owner = self.fresh("unit");
        let mut groups = vec![Expr::Column(unit).alias(owner.clone())];
        let mut results = Vec::new();
        for (qualifier, field) in flow.scope.schema.iter() {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            computable_types::check(&column, &flow.scope.schema)?;
            let name = self.fresh("key");
            groups.push(without_nan(column, field.data_type()).alias(name.clone()));
            results.push(named(Expr::Column(Column::from_name(name)), qualifier, field.name()));
        }
        results.push(Expr::Column(Column::from_name(&owner)).alias(owner.clone()));
        let plan = LogicalPlanBuilder::from(flow.plan.clone())
            .project(groups)
            .and_then(|rows| {
                let all = rows.schema().columns().into_iter().map(Expr::Column);
                rows.aggregate(all.collect::<Vec<_>>(), Vec::<Expr>::new())
            })
            .and_then(|rows| rows.project(results))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        self.step(format!("Distinct rows of each {}", self.whose()));
        let mut columns = flow.scope.schema.columns().into_iter().map(Expr::Column);
        let one = columns.all(|column| flow.is_alike(&column));
        let rows = if one { Some(1) } else { flow.subject.max_rows() };
        let subject = flow.subject.clone().with_rows(rows);
        let traces = flow.traces.iter().map(|t| Trace { raw: None, ..t.clone() }).collect();
        let owner = Owner::Unit(owner);
        let distinct = Some(flow.scope.schema.columns());
        let fans = BTreeMap::new();
        Ok(PrivateRelation { plan, traces, owner, subject, fans, distinct, ..flow })
    }
}
