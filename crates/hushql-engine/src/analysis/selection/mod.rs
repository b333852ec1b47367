//! Selections: their candidates, their scores, and how far one unit can change the scores.
//!
//! In: a release's clause with its call in the plan, over private rows. Out: a [`Measure`] that is
//! released as a [`Choice`]. There are four shapes: candidates that are group keys, each with the
//! sum of its group; named candidates, each with its own sum; candidates on an axis, scored by the
//! positions of the rows, so that their number does not matter; and candidates that are undeclared
//! keys.
//!
//! ```text
//! status … GROUP BY status               keys: one sum per status
//! t IN (1, 2) BY SUM(x * t)              named: one sum per t
//! price IN RANGE(0, 5, 0.01) BY REVENUE(bid, price)      line: a bid's position is the number of prices ≤ bid
//! ```

use datafusion::common::ScalarValue;

use super::measure::choice::{CandidateSource, Choice, Prior};
use super::measure::sensitivity::{ContributionBounds, of_sums, range_of_scores};
use super::measure::{Input, Measure};
use crate::analysis::call::Call;
use crate::analysis::expr::facts::grid_unit;
use crate::analysis::keys::choice_target::ChoiceTarget;
use crate::analysis::keys::list_of;
use crate::analysis::measure::grid::too_large;
use crate::analysis::measure::input::AggregateRead;
use crate::analysis::measure::measure_frame::{MeasureFrame, argument, sum_raw};
use crate::analysis::measure::read::read;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::analysis::selection::selection_limits::{log_uniform, rounds, shared, worthwhile};
use crate::dialect::{Parameters, SelectionClause, Selector};
use crate::refusal::{Reason, Refusal};
use candidates::prior;

pub(crate) mod by_group;
pub(crate) mod by_rank;
pub(crate) mod candidate_expr;
pub(crate) mod candidates;
pub(crate) mod cdf;
pub(crate) mod each;
mod fractions;
pub(crate) mod oscillation;
pub(crate) mod quantile;
pub(crate) mod randomized_response;
pub(crate) mod selection_limits;

/// A selection among the values of a group key.
pub(crate) fn of_keys(
    call: &Call,
    clause: &SelectionClause,
    target: &ChoiceTarget<'_>,
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let mut call = call.clone();
    let text = call.clause.text.clone();
    let (filter, scope) = frame.filter(call.params.filter.as_deref())?;
    let argument = argument(&call, &clause.score, frame, &scope)?;
    let subject = &frame.flow.subject;
    let by = clause.by.as_str();
    let read = read(&clause.score, &argument, subject, &mut call.clause.parameters, by)?;
    sum_raw(&read.input, &clause.score, call.params.args.get(1), frame);
    if let Input::Moments(moments) = read.input {
        return Err(Refusal::new(
            Reason::Score,
            text,
            format!(
                "{} cannot score candidates: in a small group one person can move it across its whole range",
                moments.spread
            ),
            "BY SUM(ABS(x - c)) with c a typical value",
        )
        .into());
    }
    if matches!(read.input, Input::Mean(_) | Input::MeanPerUnit(_)) {
        return Err(Refusal::new(
            Reason::Score,
            text,
            "AVG cannot score candidates: in a small group one person can move it across its whole range",
            "BY SUM(x - c) with c a value between low and high averages",
        )
        .into());
    }
    let keys = target.values.map_or(usize::MAX, |values| values.len() * frame.outer);
    let limits = frame.limits(&call, &read, keys)?;
    let range = range_of_scores(&limits, read.lo, read.hi);
    let weight = read.lo.unsigned_abs().max(read.hi.unsigned_abs());
    let largest = weight.checked_mul(limits.per_partition.into());
    let (range, largest) = range.zip(largest).ok_or_else(|| too_large(&text))?;
    // Sampled pairs add up like sampled rows: M bounds both over all groups together.
    let adds_over_rows =
        matches!(read.input, Input::Rows | Input::Values(_) | Input::Distinct(_) | Input::Sum(_));
    let (source, prior) = match target.values {
        Some(values) => {
            let own: Vec<ScalarValue> =
                target.own.iter().filter_map(|i| values.get(*i).cloned()).collect();
            let prior = prior(clause, &own, target.data_type, frame.lookups)?;
            if prior == Prior::LogUniform {
                return Err(log_uniform(&text).into());
            }
            (CandidateSource::Keys(target.own.clone()), prior)
        }
        None => (unknown(&call, clause, &read, filter, &limits, (target, frame))?, Prior::Uniform),
    };
    let all_rows = adds_over_rows.then_some(limits.total).flatten();
    let choice = Choice {
        outer: frame.outer(),
        selector: clause.selector,
        rounds: rounds(clause.selector, target.values.map(|_| target.own.len()), &prior),
        source,
        prior,
        range,
        largest,
        sizes: None,
        l1: of_sums(&limits, weight).map(|change| change.l1),
        sharing: shared(&limits, frame, range, all_rows.zip(Some(weight)), &text)?,
        unit: grid_unit(read.grid),
        tried: None,
        missing: None,
    };
    worthwhile(&choice, &text)?;
    let measure = frame.measure(&call, read, limits, choice);
    Ok(Measure { filter, ..measure })
}

/// Candidates that are undeclared keys. Refuses selections for which this does not work.
fn unknown(
    call: &Call,
    clause: &SelectionClause,
    read: &AggregateRead,
    filter: Option<usize>,
    limits: &ContributionBounds,
    (target, frame): (&ChoiceTarget<'_>, &MeasureFrame<'_>),
) -> Result<CandidateSource, Refusal> {
    let text = call.clause.text.as_str();
    let refuse = |message: &str| {
        let parameters = Parameters { delta: None, ..call.clause.parameters.clone() };
        let hint = format!(
            "{} {}({parameters}) {text} IN {}, or a declared domain and no delta",
            clause.selector,
            call.clause.mechanism,
            list_of(target.data_type)
        );
        Err(Refusal::new(Reason::UnknownCandidates, text, message, hint))
    };
    if matches!(clause.selector, Selector::ArgMin | Selector::Bottom(_)) {
        return refuse(
            "among undeclared candidates, the lowest score belongs to a value that no row has",
        );
    }
    if frame.outer > 1 {
        return refuse("undeclared candidates are chosen from one group so far");
    }
    if matches!(read.input, Input::Units) && filter.is_some() {
        return refuse("COUNT(DISTINCT …) FILTER cannot score undeclared candidates");
    }
    if matches!(read.input, Input::SumPerUnit(_)) {
        return refuse("bounds per group cannot score undeclared candidates");
    }
    let per_unit = [limits.l0, limits.total].into_iter().flatten().min();
    let per_unit = per_unit.ok_or_else(|| {
        Refusal::new(
            Reason::NoContributionBound,
            text,
            "nothing bounds how many candidates one unit has",
            "groups=C among the mechanism's parameters, or declare the unit with MAX ROWS n",
        )
    })?;
    Ok(CandidateSource::Unknown { per_unit })
}
