//! Randomized response: every entry of a public roster answers once, truthfully or not.
//!
//! In: a column with a domain, grouped by the privacy unit whose entries are listed. Out: a measure
//! in which each entry chooses among the domain's values, with score 1 for its own value and 0 for
//! the others. An entry without a row scores 0 everywhere and answers uniformly, so the answers do
//! not reveal who has a row.
//!
//! ```text
//! SELECT id, RANDOMIZED_RESPONSE(eps=1) smoker FROM survey GROUP BY id KEYS TABLE roster(id)
//! ```

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::candidates::listed;
use crate::analysis::call::Call;
use crate::analysis::call::input_columns::Group;
use crate::analysis::expr::total;
use crate::analysis::keys::known_keys;
use crate::analysis::measure::choice::{CandidateSource, Choice, LineScore, Prior, Sharing};
use crate::analysis::measure::input::AggregateRead;
use crate::analysis::measure::measure_frame::MeasureFrame;
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::analysis::measure::{Input, Measure};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::dialect::{Operand, Selector};
use crate::grid::Grid;
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};

/// The largest number of values of a response. Every row is compared with each of them.
const MOST_VALUES: usize = 1_000;

/// True if a release is a randomized response.
pub(crate) fn responds(call: &Call) -> bool {
    matches!(call.clause.operand, Operand::Response)
}

/// Checks that the responses belong to a roster: they are grouped by the unit alone, and its
/// entries are listed. Otherwise the answer would reveal who has a row.
pub(crate) fn check_roster(calls: &[Call], groups: &[Group]) -> Result<(), Refusal> {
    let Some(call) = calls.iter().find(|call| responds(call)) else { return Ok(()) };
    let by_unit = matches!(groups, [group] if group.facts.is_unit);
    let listed = call.clause.keys.iter().flatten().next().is_some();
    if by_unit && listed && calls.iter().all(responds) {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::UnknownKeys,
        format!("RANDOMIZED_RESPONSE {}", call.clause.text),
        "one answer per row would reveal who has a row: the entries that answer must come from a public roster",
        format!(
            "SELECT id, RANDOMIZED_RESPONSE(eps=1) {} … GROUP BY id KEYS TABLE roster(id), id the privacy unit",
            call.clause.text
        ),
    ))
}

/// The response of each entry.
///
/// # Guarantee
/// A unit has at most one row, in the one group that it names, and moves one score there by 1:
/// R = 1.
pub(crate) fn response(call: &Call, frame: &mut MeasureFrame<'_>) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.as_str();
    let Some(column) = call.params.args.first() else { return Err(no_domain(text).into()) };
    if call.params.filter.is_some() {
        let hint = "the column itself, or CASE WHEN … END with its values";
        return Err(Refusal::new(Reason::Place, "FILTER", "a response has no FILTER", hint).into());
    }
    let parameters = &call.clause.parameters;
    let bounds = [parameters.rows, parameters.groups, parameters.total_rows];
    if bounds.iter().any(Option::is_some) {
        let message =
            "a response is that of one row in one group, so it takes no rows, groups and total";
        let hint = format!("RANDOMIZED_RESPONSE(eps=1) {text}");
        return Err(Refusal::new(Reason::Parameter, text, message, hint).into());
    }
    let x = total(column, &frame.flow.scope)?;
    let data_type = x.expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    let values = known_keys(&x.facts, &data_type, text, true).map_err(|_| no_domain(text))?;
    let values: Vec<ScalarValue> = values.into_iter().filter(|v| !v.is_null()).collect();
    if values.len() > MOST_VALUES || x.facts.is_unit {
        return Err(no_domain(text).into());
    }
    let number = |i: i64| Box::new(Expr::Literal(ScalarValue::Int64(Some(i)), None));
    let when = (0_i64..).zip(&values).map(|(i, value)| {
        let same = x.expr.clone().eq(Expr::Literal(value.clone(), None));
        (Box::new(same), number(i))
    });
    let case = datafusion::logical_expr::expr::Case::new(None, when.collect(), None);
    let place = frame.columns.argument(Expr::Case(case));
    let read = AggregateRead {
        input: Input::Places { place, weight: None },
        grid: Grid::Integer,
        lo: 0,
        hi: 1,
    };
    let limits = ContributionBounds { total: Some(1), per_partition: 1, l0: Some(1) };
    let choice = Choice {
        outer: frame.outer(),
        selector: Selector::ArgMax,
        rounds: 1,
        source: CandidateSource::Line { axis: listed(values, text)?, score: LineScore::Exactly },
        prior: Prior::Uniform,
        range: 1,
        largest: 1,
        l1: None,
        sizes: None,
        sharing: if frame.outer > 1 { Sharing::Groups(1) } else { Sharing::Alone },
        unit: Rational::from_integer(1.into()),
        tried: None,
        missing: None,
    };
    Ok(frame.measure(call, read, limits, choice))
}

fn no_domain(text: &str) -> Refusal {
    Refusal::new(
        Reason::UnknownCandidates,
        text,
        format!("a response is one of at most {MOST_VALUES} values that are public"),
        "a column with a declared domain IN (…), or CASE WHEN x > 5 THEN 'yes' ELSE 'no' END",
    )
}
