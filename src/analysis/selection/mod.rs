//! Selections: their candidates, their scores, and how much one unit can change the scores.
//!
//! In: a release's clause with the plan's version of its call, over private rows. Out: a [`Measure`] whose use
//! is a [`Choice`]. There are four shapes: candidates that are group keys, each with the sum of its group;
//! named candidates, each with a sum of its own; candidates on a line, scored by the places of the rows, so
//! that their number does not matter; and keys that only the data know.
//!
//! ```text
//! status … GROUP BY status               keys: one sum per status
//! t IN (1, 2) BY SUM(x * t)              named: one sum per t
//! price IN RANGE(0, 5, 0.01) BY REVENUE(bid, price)      line: a bid's place is the number of prices ≤ bid
//! ```

pub(crate) mod by_group;
pub(crate) mod by_rank;
pub(crate) mod candidates;
pub(crate) mod choice;
pub(crate) mod quantile;
pub(crate) mod randomized_response;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;

use super::below::relation::Flow;
use super::expr::facts::Scope;
use super::expr::total;
use super::keys::MOST_KEYS;
use super::keys::lookup::Lookups;
use super::measure::input_columns::Columns;
use super::measure::sensitivity::{Limits, of_sums, range_of_scores};
use super::measure::{Input, Measure, Read, Use, grid_unit, limits, read, too_large};
use super::part::{Call, argument, sum_raw};
use crate::dialect::{SelectionClause, Selector};
use crate::refusal::{Reason, Refusal};
use candidates::prior;
use choice::{Choice, Prior, Sharing, Source, sharing};

/// What a release is measured in: the rows, the columns being built, the public tables, the outer groups.
pub(crate) struct Frame<'a> {
    pub(crate) flow: &'a Flow,
    pub(crate) columns: &'a mut Columns,
    pub(crate) lookups: &'a Lookups,
    /// How many outer groups there are, one selection in each.
    pub(crate) outer: usize,
}

impl Frame<'_> {
    /// The FILTER of a call as a column, and what is known of the rows that pass it.
    pub(crate) fn filter(
        &mut self,
        filter: Option<&Expr>,
    ) -> Result<(Option<usize>, Scope), Refusal> {
        let scope = &self.flow.scope;
        let Some(predicate) = filter else { return Ok((None, scope.clone())) };
        let filter = total(predicate, scope)?;
        let narrowed = scope.narrowed(predicate);
        Ok((Some(self.columns.argument(filter.expr)), narrowed))
    }

    pub(crate) fn outer(&self) -> u64 {
        u64::try_from(self.outer).unwrap_or(u64::MAX)
    }

    /// The limits of a score with the number of keys that it is spread over.
    pub(crate) fn limits(&self, call: &Call, read: &Read, keys: usize) -> Result<Limits, Refusal> {
        let (parameters, text) = (&call.clause.parameters, call.clause.text.as_str());
        limits(&self.flow.subject, parameters, read, keys, true, text)
    }

    pub(crate) fn measure(
        &self,
        call: &Call,
        read: Read,
        limits: Limits,
        choice: Choice,
    ) -> Measure {
        Measure {
            clause: call.clause.clone(),
            column: call.column.clone(),
            data_type: call.data_type.clone(),
            input: read.input,
            filter: None,
            grid: read.grid,
            lo: read.lo,
            hi: read.hi,
            limits,
            use_: Use::Choice(Box::new(choice)),
        }
    }
}

/// A group key whose values are the candidates.
pub(crate) struct Target<'a> {
    /// All candidates of the part; `None` where only the data know.
    pub(crate) values: Option<&'a [ScalarValue]>,
    /// Those of this selection, by their position among all.
    pub(crate) own: Vec<usize>,
    pub(crate) data_type: &'a DataType,
}

/// A selection among the values of a group key.
pub(crate) fn of_keys(
    call: &Call,
    clause: &SelectionClause,
    target: &Target<'_>,
    frame: &mut Frame<'_>,
) -> Result<Measure, Refusal> {
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
                "{} cannot score candidates: in a small group one person moves it across its whole range",
                moments.spread
            ),
            "BY SUM(ABS(x - c)) with c a typical value",
        ));
    }
    if matches!(read.input, Input::Mean(_) | Input::MeanPerUnit(_)) {
        return Err(Refusal::new(
            Reason::Score,
            text,
            "AVG cannot score candidates: in a small group one person moves it across its whole range",
            "BY SUM(x - c) with c a value between low and high averages",
        ));
    }
    let keys = target.values.map_or(usize::MAX, |values| values.len() * frame.outer);
    let limits = frame.limits(&call, &read, keys)?;
    let range = range_of_scores(&limits, read.lo, read.hi);
    let weight = read.lo.unsigned_abs().max(read.hi.unsigned_abs());
    let largest = weight.checked_mul(limits.rows_per_group.into());
    let (range, largest) = range.zip(largest).ok_or_else(|| too_large(&text))?;
    // Kept pairs add up like kept rows: M bounds both in all groups together.
    let adds_over_rows =
        matches!(read.input, Input::Rows | Input::Values(_) | Input::Distinct(_) | Input::Sum(_));
    let (source, prior) = match target.values {
        Some(values) => {
            let own: Vec<ScalarValue> =
                target.own.iter().filter_map(|i| values.get(*i).cloned()).collect();
            let prior = prior(clause, &own, target.data_type, frame.lookups)?;
            if prior == Prior::LogUniform {
                return Err(log_uniform(&text));
            }
            (Source::Keys(target.own.clone()), prior)
        }
        None => (unknown(&call, clause, &read, filter, &limits, frame)?, Prior::Uniform),
    };
    let all_rows = adds_over_rows.then_some(limits.rows_in_all).flatten();
    let choice = Choice {
        outer: frame.outer(),
        selector: clause.selector,
        rounds: rounds(clause.selector, target.values.map(|_| target.own.len()), &prior),
        source,
        prior,
        range,
        largest,
        l1: of_sums(&limits, weight).map(|change| change.l1),
        sharing: shared(&limits, frame, range, all_rows.zip(Some(weight)), &text)?,
        unit: grid_unit(read.grid),
    };
    worthwhile(&choice, &text)?;
    let measure = frame.measure(&call, read, limits, choice);
    Ok(Measure { filter, ..measure })
}

pub(crate) fn log_uniform(text: &str) -> Refusal {
    Refusal::new(
        Reason::BadValue,
        "PRIOR LOG_UNIFORM",
        "a log-uniform prior is one of numbers above 0 in a range",
        format!("{text} IN RANGE(0.01, 5, 0.01) … PRIOR LOG_UNIFORM, or a table of weights"),
    )
}

/// How many are chosen: never more than there are that the prior does not exclude.
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

/// How the selections of the outer groups share the cost, or the refusal where nothing bounds that.
pub(crate) fn shared(
    limits: &Limits,
    frame: &Frame<'_>,
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
const MOST_ROUNDS: u64 = 1_000;

/// Refuses what would take for ever, and what no row could change.
pub(crate) fn worthwhile(choice: &Choice, text: &str) -> Result<(), Refusal> {
    if choice.rounds > MOST_ROUNDS {
        return Err(Refusal::new(
            Reason::TooManyKeys,
            format!("{} {text}", choice.selector),
            format!("every one of the chosen takes a round of its own, at most {MOST_ROUNDS}"),
            format!("TOP {MOST_ROUNDS}, or LAPLACE(eps=1) COUNT(*) of every key, sorted outside"),
        ));
    }
    let answers = choice.rounds.checked_mul(choice.outer).and_then(|n| usize::try_from(n).ok());
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

/// Candidates that only the data know: what that rules out.
fn unknown(
    call: &Call,
    clause: &SelectionClause,
    read: &Read,
    filter: Option<usize>,
    limits: &Limits,
    frame: &Frame<'_>,
) -> Result<Source, Refusal> {
    let text = call.clause.text.as_str();
    let refuse = |message: &str| {
        let hint = format!("{text} IN ('a', 'b'), or a declared domain, and no delta");
        Err(Refusal::new(Reason::UnknownCandidates, text, message, hint))
    };
    if matches!(clause.selector, Selector::ArgMin | Selector::Bottom(_)) {
        return refuse(
            "among candidates that only the data know the lowest score is that of a value nobody has",
        );
    }
    if frame.outer > 1 {
        return refuse("candidates that only the data know are chosen from one group so far");
    }
    if matches!(read.input, Input::Units) && filter.is_some() {
        return refuse("COUNT(DISTINCT …) FILTER cannot score candidates that only the data know");
    }
    if matches!(read.input, Input::SumPerUnit(_)) {
        return refuse("bounds per group cannot score candidates that only the data know");
    }
    let per_unit = [limits.groups, limits.rows_in_all].into_iter().flatten().min();
    let per_unit = per_unit.ok_or_else(|| {
        Refusal::new(
            Reason::NoContributionBound,
            text,
            "nothing bounds how many candidates one unit brings along",
            "groups=C among the mechanism's parameters, or declare the unit with MAX ROWS n",
        )
    })?;
    Ok(Source::Unknown { per_unit })
}
