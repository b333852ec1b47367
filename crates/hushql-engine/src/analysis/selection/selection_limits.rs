//! The limits of a selection: its number of rounds, how selections share the cost, and refusals.

use crate::analysis::keys::MOST_KEYS;
use crate::analysis::measure::choice::{Choice, Prior, Sharing, sharing};
use crate::analysis::measure::measure_frame::MeasureFrame;
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::dialect::Selector;
use crate::refusal::{Reason, Refusal};

pub(crate) fn log_uniform(text: &str) -> Refusal {
    Refusal::new(
        Reason::BadValue,
        "PRIOR LOG_UNIFORM",
        "a log-uniform prior needs numbers above 0 in a range",
        format!("{text} IN RANGE(0.01, 5, 0.01) … PRIOR LOG_UNIFORM, or a table of weights"),
    )
}

/// How many candidates are chosen, at most as many as the prior admits.
pub(crate) fn rounds(selector: Selector, candidates: Option<usize>, prior: &Prior) -> u64 {
    let candidates = match prior {
        Prior::Uniform | Prior::LogUniform => candidates,
        Prior::Weights(weights) => Some(weights.iter().filter(|weight| **weight > 0).count()),
    };
    let most = candidates.and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX);
    match selector {
        Selector::ArgMax | Selector::ArgMin => 1,
        Selector::Top(k) | Selector::Bottom(k) => k.min(most),
    }
}

/// How the selections of the outer groups share the cost. Refuses if nothing bounds the number of
/// groups of a unit.
pub(crate) fn shared(
    limits: &ContributionBounds,
    frame: &MeasureFrame<'_>,
    range: u128,
    all_rows: Option<(u64, u128)>,
    text: &str,
) -> Result<Sharing, Refusal> {
    let all_rows = all_rows.and_then(|(rows, weight)| weight.checked_mul(rows.into()));
    sharing(limits, frame.outer(), range, all_rows).ok_or_else(|| {
        Refusal::new(
            Reason::NoContributionBound,
            text,
            "there is one selection in each group, and nothing bounds how many groups a unit is in",
            "groups=C among the mechanism's parameters, or declare the unit with MAX ROWS n",
        )
    })
}

/// The most rounds of one selection.
pub(crate) const MOST_ROUNDS: u64 = 1_000;

/// Refuses selections that would take too long, and selections whose scores no row can change.
pub(crate) fn worthwhile(choice: &Choice, text: &str) -> Result<(), Refusal> {
    if choice.rounds > MOST_ROUNDS {
        return Err(Refusal::new(
            Reason::TooManyKeys,
            format!("{} {text}", choice.selector),
            format!("each chosen candidate needs a round, and there can be at most {MOST_ROUNDS}"),
            format!("TOP {MOST_ROUNDS}, or LAPLACE(eps=1) COUNT(*) of every key, sorted outside"),
        ));
    }
    // Groups that only the data contain have rows, so there are no more of them than rows.
    let outer = if choice.outer == u64::MAX { 1 } else { choice.outer };
    let answers = choice.rounds.checked_mul(outer).and_then(|n| usize::try_from(n).ok());
    if answers.is_none_or(|n| n > MOST_KEYS) {
        return Err(Refusal::new(
            Reason::TooManyKeys,
            format!("{} {text}", choice.selector),
            format!("all groups together would have more than {MOST_KEYS} answers"),
            "a smaller k, fewer group keys, or KEYS (…) with the keys of interest",
        ));
    }
    if choice.range > 0 {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::Score,
        text,
        "every candidate scores the same whatever the data",
        "a score that depends on the rows, such as COUNT(*)",
    ))
}

/// The most sums for named candidates, over all groups.
pub const MOST_TERMS: usize = 1_000;
