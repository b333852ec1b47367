//! SELECT WITH DIFFERENTIAL_PRIVACY over released rows: nothing private is below, so its aggregates
//! are computed from the released rows as in plain SQL. They cost nothing and need no noise.
//!
//! In: an aggregate without a private table below it, and the clauses of the query's releases. Out:
//! the same aggregate without mechanisms, if all of them are those of OPTIONS. A mechanism that is
//! written in front of an aggregate stays, and is refused.
//!
//! ```text
//! SELECT WITH DIFFERENTIAL_PRIVACY … AVG(n) FROM (SELECT WITH DIFFERENTIAL_PRIVACY … COUNT(*) AS n …)      AVG of the released n
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, ExprSchemable};

use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::dialect::{AggregateCall, AggregateName, MechanismName, Operand, ReleaseClause, Spread};

/// The aggregate without the mechanisms of OPTIONS. `None` if another mechanism is among them, or
/// an aggregate that is not computed from released rows.
///
/// # Errors
/// An aggregate that the planner cannot make, which is a fault of the engine.
pub(crate) fn without_mechanisms(
    aggregate: &Aggregate,
    releases: &[ReleaseClause],
) -> Result<Option<Aggregate>, NotAnalyzed> {
    let fields = aggregate.schema.fields().iter().skip(aggregate.group_expr.len());
    let mut plain = Vec::with_capacity(aggregate.aggr_expr.len());
    for (expr, field) in aggregate.aggr_expr.iter().zip(fields) {
        let Some(n) = CallOf::marker(expr) else {
            plain.push(expr.clone());
            continue;
        };
        let call = releases.get(n).and_then(of_options);
        let marker = CallOf::function(expr);
        let own = call
            .zip(marker)
            .and_then(|(call, marker)| computed(call, marker, field, aggregate.input.schema()));
        let Some(own) = own else { return Ok(None) };
        plain.push(own);
    }
    let same =
        Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), plain)
            .map_err(|e| internal(&e))?;
    let types = |of: &Aggregate| -> Vec<(String, DataType)> {
        let fields = of.schema.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    Ok((types(&same) == types(aggregate)).then_some(same))
}

/// The aggregate of a release whose mechanism OPTIONS state.
fn of_options(clause: &ReleaseClause) -> Option<&AggregateCall> {
    if clause.mechanism != MechanismName::Default || clause.grouping.is_none() {
        return None;
    }
    match &clause.operand {
        Operand::Aggregate(call) => Some(call),
        Operand::Selection(_) | Operand::Response => None,
    }
}

/// The aggregate as plain SQL computes it, under the name that the marker has.
fn computed(
    call: &AggregateCall,
    marker: &AggregateFunction,
    field: &Field,
    schema: &DFSchema,
) -> Option<Expr> {
    if call.bounds_per_group.is_some() || call.bounds_per_row.is_some() {
        return None;
    }
    let (function, to) = plain(call.function)?;
    let mut params = marker.params.clone();
    for argument in &mut params.args {
        let own = argument.get_type(schema).ok()?;
        let to = match to {
            ArgumentType::Own => own.clone(),
            ArgumentType::Wide if own.is_integer() => DataType::Int64,
            ArgumentType::Wide | ArgumentType::Double => DataType::Float64,
        };
        if matches!(own, DataType::Decimal128(..) | DataType::Decimal256(..)) {
            return None;
        }
        if own != to {
            *argument = argument.clone().cast_to(&to, schema).ok()?;
        }
    }
    let expr = Expr::AggregateFunction(AggregateFunction { func: function, params });
    Some(expr.alias(field.name()))
}

/// The type in which a function takes its argument.
#[derive(Debug, Clone, Copy)]
enum ArgumentType {
    Own,
    /// BIGINT or DOUBLE.
    Wide,
    Double,
}

/// The function that plain SQL has for an aggregate.
fn plain(name: AggregateName) -> Option<(Arc<AggregateUDF>, ArgumentType)> {
    Some(match name {
        AggregateName::Count => (count_udaf(), ArgumentType::Own),
        AggregateName::Sum => (sum_udaf(), ArgumentType::Wide),
        AggregateName::Avg => (avg_udaf(), ArgumentType::Double),
        AggregateName::Min => (min_udaf(), ArgumentType::Own),
        AggregateName::Max => (max_udaf(), ArgumentType::Own),
        AggregateName::Median => (median_udaf(), ArgumentType::Double),
        AggregateName::Spread(Spread::VarPop) => (var_pop_udaf(), ArgumentType::Double),
        AggregateName::Spread(Spread::VarSamp) => (var_samp_udaf(), ArgumentType::Double),
        AggregateName::Spread(Spread::StddevPop) => (stddev_pop_udaf(), ArgumentType::Double),
        AggregateName::Spread(Spread::StddevSamp) => (stddev_udaf(), ArgumentType::Double),
        AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Joint(_)
        | AggregateName::Unsupported(_) => return None,
    })
}
