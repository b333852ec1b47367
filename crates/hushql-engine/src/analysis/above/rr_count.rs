//! `RR_COUNT(column, value, eps)`: how many entries hold a value, estimated from randomized
//! responses.
//!
//! In: an aggregate over released rows. Out: the same aggregate with a sum instead of the estimate.
//! The sum is a function of released values and public numbers only, so it costs nothing.
//!
//! ```text
//! RR_COUNT(smoker, 'yes', 1), k values  →  SUM(CASE WHEN smoker = 'yes' THEN (e + k − 2)/(e − 1) ELSE −1/(e − 1) END)
//! ```

use arrow::array::Array;
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::expr::{AggregateFunction, Case};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use num_traits::ToPrimitive;

use super::origin::origin;
use crate::analysis::expr::facts::constant;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::analysis::{CandidateAxis, CandidateSource, Measure, ReleaseKind};
use crate::bind::RR_COUNT;
use crate::dialect::MechanismName;
use crate::refusal::{Reason, Refusal};

/// Replaces the estimates of an aggregate over released rows by sums.
///
/// # Guarantee
/// For an entry with a row, the term of its own value has mean 1 over the draw and the terms of all
/// other values have mean 0, so the sum is unbiased for entries with rows. An entry without a row
/// adds 1/k to each value on average. Source: with p = e^ε/(e^ε + k − 1) and q = 1/(e^ε + k − 1),
/// (1[answer = v] − q)/(p − q).
///
/// # Errors
/// Refuses a column that is not a response, or that was released at another ε.
pub(crate) fn estimated(
    plan: LogicalPlan,
    parts: &[PrivateAggregate],
) -> Result<LogicalPlan, NotAnalyzed> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(plan) };
    if !aggregate.aggr_expr.iter().any(|e| call(e).is_some()) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let mut aggregates = Vec::with_capacity(aggregate.aggr_expr.len());
    for expr in &aggregate.aggr_expr {
        aggregates.push(match call(expr) {
            Some(call) => {
                let name = expr.schema_name().to_string();
                term(call, &aggregate.input, parts).map(|term| sum(term).alias(name))?
            }
            None => expr.clone(),
        });
    }
    Aggregate::try_new(aggregate.input, aggregate.group_expr, aggregates)
        .map(LogicalPlan::Aggregate)
        .map_err(|e| internal(&e))
}

/// The call of `RR_COUNT`, if the expression is one.
fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::AggregateFunction(call) if call.func.name() == RR_COUNT => Some(call),
        Expr::Alias(alias) => call(&alias.expr),
        _ => None,
    }
}

/// True if a value is one of a response's public values.
fn is_answer(measure: &Measure, value: &ScalarValue) -> bool {
    let Some(CandidateSource::Line { axis: CandidateAxis::Listed(values), .. }) =
        measure.choice().map(|c| &c.source)
    else {
        return false;
    };
    let Ok(answer) = value.cast_to(values.data_type()) else { return false };
    (0..values.len()).any(|i| ScalarValue::try_from_array(values, i).is_ok_and(|v| v == answer))
}

fn term(
    call: &AggregateFunction,
    input: &LogicalPlan,
    parts: &[PrivateAggregate],
) -> Result<Expr, Refusal> {
    let refuse = |message: &str| {
        let hint = "SELECT RR_COUNT(smoker, 'yes', 1) FROM (SELECT id, RANDOMIZED_RESPONSE(eps=1) smoker …)";
        Refusal::new(Reason::Operand, "RR_COUNT", message, hint)
    };
    let params = &call.params;
    if params.distinct || params.filter.is_some() || !params.order_by.is_empty() {
        return Err(refuse("RR_COUNT takes a column, a value and an epsilon, nothing else"));
    }
    let [column, value, epsilon] = params.args.as_slice() else {
        return Err(refuse("RR_COUNT takes a column, a value and an epsilon"));
    };
    let value = constant(value).ok_or_else(|| refuse("the value of RR_COUNT is a literal"))?;
    let released = match column {
        Expr::Column(column) => input.schema().maybe_index_of_column(column),
        _ => None,
    };
    let (part, field) = released
        .and_then(|i| origin(input, i))
        .ok_or_else(|| refuse("RR_COUNT counts the answers of RANDOMIZED_RESPONSE"))?;
    let measure = parts
        .get(part)
        .and_then(|part| part.measures().get(field.checked_sub(part.key_names().len())?))
        .filter(|m| m.clause.mechanism == MechanismName::RandomizedResponse)
        .ok_or_else(|| refuse("RR_COUNT counts the answers of RANDOMIZED_RESPONSE"))?;
    let values = match &measure.release_kind {
        ReleaseKind::Choice(choice) => choice.candidates().and_then(|k| k.to_f64()),
        ReleaseKind::Number(_) => None,
    };
    let stated = match constant(epsilon) {
        Some(ScalarValue::Float64(epsilon)) => epsilon,
        _ => None,
    };
    let drawn = measure.clause.parameters.epsilon.as_ref().and_then(|e| e.value().to_f64());
    let (Some(k), Some(epsilon), Some(drawn)) = (values, stated, drawn) else {
        return Err(refuse("the epsilon of RR_COUNT is a number"));
    };
    if (epsilon - drawn).abs() > 1e-12 * drawn {
        return Err(refuse("the epsilon of RR_COUNT is that of the responses"));
    }
    if !is_answer(measure, &value) {
        return Err(refuse("no entry can answer with this value"));
    }
    let odds = drawn.exp_m1();
    let literal = |x: f64| Box::new(Expr::Literal(ScalarValue::Float64(Some(x)), None));
    // (e^ε + k − 2)/(e^ε − 1) = 1 + (k − 1)/(e^ε − 1).
    let when = vec![(
        Box::new(column.clone().eq(Expr::Literal(value, None))),
        literal(1.0 + (k - 1.0) / odds),
    )];
    Ok(Expr::Case(Case::new(None, when, Some(literal(-1.0 / odds)))))
}
