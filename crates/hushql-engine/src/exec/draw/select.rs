//! Selections: choose candidates by exact scores.
//!
//! In: a choice, its gathered integers, a calibrated mechanism, and randomness that a charge paid
//! for. Out: for every outer group, the numbers of the chosen candidates, best first. In each round
//! the mechanism receives the scores of the remaining candidates, and nothing else.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::row::{RowConverter, SortField};

use crate::analysis::{
    CandidateAxis, CandidateSource, Choice, Keys, LineScore, MOST_KEYS, Prices, Prior,
};
use crate::exec::draw::draw_plan::{DrawError, DrawPlan};
use crate::grid::failed;
use crate::mechanism::{
    Laplace, ManyQuantiles, MechanismError, PriceGrid, Rank, ScoredRun, SizedRun, TickRuns,
    quantile_runs,
};
use crate::release::mechanism::Mechanism;
use crate::sampler::QueryRng;
use hushql_exec::gather::{Gathered, Histogram};

/// The candidates chosen in each outer group, best first; `None` means that no candidate stands
/// out.
///
/// # Guarantee
/// For every group, the mechanism is drawn either once for each round, with the exact scores of the
/// candidates that were not chosen before, or once for every score, and then the best noisy scores
/// win. Among candidates that are not declared, the list ends when none stands out, or when no
/// other noisy score reaches the threshold.
pub(crate) fn choose(
    draw_plan: &DrawPlan,
    choice: &Choice,
    gathered: &Gathered,
    first: usize,
    keys: &Keys,
    rng: &mut QueryRng,
) -> Result<Vec<Vec<Option<u64>>>, DrawError> {
    let rounds = usize::try_from(choice.rounds).map_err(|_| failed())?;
    if let (CandidateSource::Unknown { .. }, Gathered::Keys { values, sums }) =
        (&choice.source, gathered)
    {
        return match &draw_plan.mechanism {
            Mechanism::Unknown(mechanism, rule) => {
                let draw = |scores: &[i128]| mechanism.choose(scores, *rule, rng);
                Ok(vec![among_unknown(sums, rounds, draw)?])
            }
            Mechanism::NoisyKeys(mechanism) => {
                let places = values.as_ref().map_or_else(|| Ok(Vec::new()), places)?;
                let chosen = mechanism.choose(sums, &places, rounds, rng).into_iter();
                let chosen = chosen.map(|i| u64::try_from(i).map(Some).map_err(|_| failed()));
                let mut chosen = chosen.collect::<Result<Vec<_>, _>>()?;
                // A single answer always has a row; a list just ends.
                if rounds == 1 && chosen.is_empty() {
                    chosen.push(None);
                }
                Ok(vec![chosen])
            }
            Mechanism::Laplace(_)
            | Mechanism::Gaussian(_)
            | Mechanism::Exponential(_)
            | Mechanism::Generalized(_)
            | Mechanism::PermuteAndFlip(_)
            | Mechanism::NoisyMax(_)
            | Mechanism::Cumulative(_)
            | Mechanism::ChosenBound(_)
            | Mechanism::Exact => Err(failed().into()),
        };
    }
    // Places are those of all groups, whether their keys are declared or not.
    let groups = match gathered {
        Gathered::Places(places) => places.len(),
        Gathered::Sums(_) | Gathered::Keys { .. } | Gathered::Groups { .. } => keys.outer().len(),
    };
    let list = list(draw_plan, choice)?;
    (0..groups)
        .map(|group| {
            if let Some(list) = &list {
                let Gathered::Places(places) = gathered else { return Err(failed().into()) };
                let points = places.get(group).ok_or_else(failed)?.points();
                return Ok(list.choose(&points, rng)?.into_iter().map(Some).collect());
            }
            if let Some(tick) = at_rank(draw_plan, choice, gathered, group, rng)? {
                return Ok(vec![Some(tick)]);
            }
            let scores = scores(choice, gathered, first, keys, group, draw_plan.rank)?;
            let chosen = among(scores, &draw_plan.mechanism, choice, rounds, rng)?;
            Ok(chosen.into_iter().map(Some).collect())
        })
        .collect()
}

/// How a list of quantiles is drawn; `None` for all other choices.
fn list(draw_plan: &DrawPlan, choice: &Choice) -> Result<Option<ManyQuantiles>, DrawError> {
    let (CandidateSource::Line { axis, score: LineScore::Quantiles(fractions) }, rounds) =
        (&choice.source, choice.rounds)
    else {
        return Ok(None);
    };
    let Mechanism::Exponential(mechanism) = &draw_plan.mechanism else {
        return Err(failed().into());
    };
    if rounds != 1
        || choice.prefers_low()
        || choice.prior != Prior::Uniform
        || choice.missing.is_some()
    {
        return Err(failed().into());
    }
    let last = axis.count().checked_sub(1).ok_or_else(failed)?;
    Ok(Some(ManyQuantiles::new(mechanism, fractions, last)?))
}

/// The tick of a quantile, a minimum or a maximum; `None` for all other choices.
///
/// # Guarantee
/// The distribution is that of one draw among the [`scores`].
fn at_rank(
    draw_plan: &DrawPlan,
    choice: &Choice,
    gathered: &Gathered,
    group: usize,
    rng: &mut QueryRng,
) -> Result<Option<u64>, DrawError> {
    let (Mechanism::Exponential(mechanism), Prior::Uniform) = (&draw_plan.mechanism, &choice.prior)
    else {
        return Ok(None);
    };
    let (CandidateSource::Line { axis, score }, Gathered::Places(places)) =
        (&choice.source, gathered)
    else {
        return Ok(None);
    };
    let Some(rank) = rank_of(score, draw_plan.rank)? else { return Ok(None) };
    if choice.rounds != 1 || choice.prefers_low() {
        return Ok(None);
    }
    let last = axis.count().checked_sub(1).ok_or_else(failed)?;
    let places = places.get(group).ok_or_else(failed)?;
    if let Some(missing) = choice.missing {
        let all = missing.completed(&places.points()).into_iter();
        return Ok(Some(mechanism.choose_quantile(all, last, rank, rng)?));
    }
    let tick = match places {
        Histogram::Small(points) => {
            let points = points.iter().map(|(place, rows)| (u64::from(*place), i128::from(*rows)));
            mechanism.choose_quantile(points, last, rank, rng)
        }
        Histogram::Narrow(points) => {
            let points = points.iter().map(|(place, rows)| (*place, i128::from(*rows)));
            mechanism.choose_quantile(points, last, rank, rng)
        }
        Histogram::Wide(points) => {
            mechanism.choose_quantile(points.iter().copied(), last, rank, rng)
        }
    };
    Ok(Some(tick?))
}

/// For each undeclared key, its position in the order of the values.
fn places(values: &ArrayRef) -> Result<Vec<usize>, DrawError> {
    let field = SortField::new(values.data_type().clone());
    let rows = RowConverter::new(vec![field])?.convert_columns(&[Arc::clone(values)])?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| rows.row(*a).cmp(&rows.row(*b)));
    let mut places = vec![0; order.len()];
    for (place, key) in order.into_iter().enumerate() {
        *places.get_mut(key).ok_or_else(failed)? = place;
    }
    Ok(places)
}

/// Rounds without replacement among undeclared keys; the first ⊥ ends them.
fn among_unknown(
    sums: &[i128],
    rounds: usize,
    mut choose: impl FnMut(&[i128]) -> Result<Option<usize>, MechanismError>,
) -> Result<Vec<Option<u64>>, DrawError> {
    let mut left: Vec<usize> = (0..sums.len()).collect();
    let mut chosen = Vec::new();
    for _ in 0..rounds {
        let scores: Vec<i128> = left.iter().filter_map(|i| sums.get(*i).copied()).collect();
        match choose(&scores)? {
            Some(i) if i < left.len() => {
                let candidate = left.swap_remove(i);
                chosen.push(Some(u64::try_from(candidate).map_err(|_| failed())?));
            }
            _ => {
                // A single answer always has a row; a list just ends.
                if rounds == 1 {
                    chosen.push(None);
                }
                return Ok(chosen);
            }
        }
    }
    Ok(chosen)
}

/// The scores of one outer group's selection, one by one, for tests of the sensitivity.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn exact_scores(
    choice: &Choice,
    gathered: &Gathered,
    first: usize,
    keys: &Keys,
    group: usize,
    rank: u64,
) -> Result<Vec<i128>, DrawError> {
    listed(&scores(&as_median(choice), gathered, first, keys, group, Some(rank))?)
}

/// As [`exact_scores`], for candidate axes that are too long to list. Each run has its first
/// candidate, its length, the score of the first candidate, and the difference between neighbours.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn exact_runs(
    choice: &Choice,
    gathered: &Gathered,
    keys: &Keys,
    group: usize,
    rank: u64,
) -> Result<Vec<(u64, u64, i128, i128)>, DrawError> {
    let runs = scores(&as_median(choice), gathered, 0, keys, group, Some(rank))?;
    Ok(runs.each().map(|(start, run)| (start, run.count, run.score, run.step)).collect())
}

/// The scores of one outer group's selection, as runs in the order of the candidates.
///
/// # Guarantee
/// Exact: the run of a candidate gives its score, in units of the choice. If low scores win, the
/// signs are inverted.
fn scores(
    choice: &Choice,
    gathered: &Gathered,
    first: usize,
    keys: &Keys,
    group: usize,
    rank: Option<u64>,
) -> Result<TickRuns, DrawError> {
    let mut runs = match (&choice.source, gathered) {
        (CandidateSource::Keys(candidates), Gathered::Sums(sums)) => {
            let sums = sums.get(first).ok_or_else(failed)?;
            let of = |candidate: &usize| sums.get(keys.row(group, *candidate)).copied();
            single(candidates.iter().map(of))?
        }
        (CandidateSource::Each(axis), Gathered::Sums(sums)) => {
            let n = usize::try_from(axis.count()).map_err(|_| failed())?;
            let of = |i: usize| sums.get(first + i)?.get(group).copied();
            single((0..n).map(of))?
        }
        (CandidateSource::Line { axis, score }, Gathered::Places(places)) => {
            let mut places = places.get(group).ok_or_else(failed)?.points();
            if let Some(missing) = choice.missing {
                places = missing.completed(&places).into();
            }
            on_axis(score, axis.count(), &places, rank)?
        }
        _ => return Err(failed().into()),
    };
    if choice.prefers_low() {
        for run in &mut runs.runs {
            run.score = run.score.checked_neg().ok_or_else(failed)?;
            run.step = run.step.checked_neg().ok_or_else(failed)?;
        }
    }
    Ok(runs)
}

fn single(scores: impl Iterator<Item = Option<i128>>) -> Result<TickRuns, DrawError> {
    let mut runs = TickRuns::default();
    for (start, score) in (0..).zip(scores) {
        runs.add(start, even(1, score.ok_or_else(failed)?));
    }
    Ok(runs)
}

fn on_axis(
    score: &LineScore,
    count: u64,
    places: &[(u64, i128)],
    rank: Option<u64>,
) -> Result<TickRuns, DrawError> {
    if let Some(rank) = rank_of(score, rank)? {
        let last = count.checked_sub(1).ok_or_else(failed)?;
        return Ok(quantile_runs(places, last, rank)?);
    }
    Ok(match score {
        LineScore::Quantile { .. }
        | LineScore::Quantiles(_)
        | LineScore::Smallest
        | LineScore::Largest => {
            return Err(failed().into());
        }
        LineScore::Revenue { prices: Prices::Ticks(ticks) } => {
            let grid = PriceGrid::new(ticks.first(), ticks.step(), count)?;
            grid.revenue_runs(places)?
        }
        LineScore::Revenue { prices: Prices::Listed(prices) } => {
            let mut runs = TickRuns::with_capacity(prices.len());
            for (start, run) in above(places, count)?.each() {
                for i in 0..run.count {
                    let at = usize::try_from(start + i).map_err(|_| failed())?;
                    let units = prices.get(at).ok_or_else(failed)?;
                    let score = run.score.checked_mul(*units).ok_or_else(failed)?;
                    runs.add(start + i, even(1, score));
                }
            }
            runs
        }
        LineScore::Exactly => {
            let mut runs = TickRuns::default();
            for candidate in 0..count {
                let at = places.iter().find(|(place, _)| *place == candidate);
                runs.add(candidate, even(1, at.map_or(0, |(_, weight)| *weight)));
            }
            runs
        }
        LineScore::Above => above(places, count)?,
        LineScore::Below => {
            let all = places.iter().try_fold(0_i128, |sum, (_, w)| sum.checked_add(*w));
            let all = all.ok_or_else(failed)?;
            let mut runs = above(places, count)?;
            for run in &mut runs.runs {
                run.score = all.checked_sub(run.score).ok_or_else(failed)?;
            }
            runs
        }
    })
}

/// The rank from which a score measures distances, if it does. `rank` is that of a minimum or
/// maximum.
fn rank_of(score: &LineScore, rank: Option<u64>) -> Result<Option<Rank>, DrawError> {
    Ok(match score {
        LineScore::Quantile { num, den } => Some(Rank::Fraction { num: *num, den: *den }),
        LineScore::Smallest => Some(Rank::FromLow(rank.ok_or_else(failed)?)),
        LineScore::Largest => Some(Rank::FromHigh(rank.ok_or_else(failed)?)),
        LineScore::Quantiles(_)
        | LineScore::Revenue { .. }
        | LineScore::Exactly
        | LineScore::Above
        | LineScore::Below => None,
    })
}

/// The median in the place of a list of quantiles, whose scores are those of medians at most. Any
/// other choice as it is.
#[cfg(any(test, feature = "testing"))]
fn as_median(choice: &Choice) -> std::borrow::Cow<'_, Choice> {
    let mut median = choice.clone();
    match &mut median.source {
        CandidateSource::Line { score, .. } if matches!(score, LineScore::Quantiles(_)) => {
            *score = LineScore::Quantile { num: 1, den: 2 };
            std::borrow::Cow::Owned(median)
        }
        _ => std::borrow::Cow::Borrowed(choice),
    }
}

fn even(count: u64, score: i128) -> ScoredRun {
    ScoredRun { count, score, step: 0, weight: 1 }
}

/// For every candidate, the sum of the integers at positions above it. Positions ascend; integers
/// have either sign.
fn above(places: &[(u64, i128)], count: u64) -> Result<TickRuns, DrawError> {
    let all = places.iter().try_fold(0_i128, |sum, (_, weight)| sum.checked_add(*weight));
    let mut left = all.ok_or_else(failed)?;
    let mut runs = TickRuns::with_capacity(places.len() + 1);
    let mut next = 0;
    for (place, weight) in places {
        let place = (*place).min(count);
        if place > next {
            runs.add(next, even(place - next, left));
            next = place;
        }
        left = left.checked_sub(*weight).ok_or_else(failed)?;
    }
    if next < count {
        runs.add(next, even(count - next, left));
    }
    Ok(runs)
}

/// The chosen candidates of one selection, by number.
fn among(
    mut runs: TickRuns,
    mechanism: &Mechanism,
    choice: &Choice,
    rounds: usize,
    rng: &mut QueryRng,
) -> Result<Vec<u64>, DrawError> {
    if let (Mechanism::Laplace(noise), Prior::Uniform) = (mechanism, &choice.prior) {
        return best_of_noisy(&runs, noise, rounds, rng);
    }
    if let Prior::Weights(weights) = &choice.prior {
        runs = weighted(&runs, weights)?;
    }
    let mut chosen = Vec::new();
    for _ in 0..rounds {
        let (run, within) = match (mechanism, &choice.prior) {
            (Mechanism::Exponential(mechanism), Prior::LogUniform) => {
                let CandidateSource::Line { axis: CandidateAxis::Ticks(ticks), .. } =
                    &choice.source
                else {
                    return Err(failed().into());
                };
                let grid = PriceGrid::new(ticks.first(), ticks.step(), ticks.count())?;
                let tick = mechanism.choose_log_uniform(&grid, &runs, rng)?;
                holding(&runs, tick)?
            }
            (Mechanism::Exponential(mechanism), Prior::Uniform | Prior::Weights(_)) => {
                mechanism.choose_runs(&runs.runs, rng)?
            }
            (Mechanism::Generalized(mechanism), Prior::Uniform) => {
                let sized =
                    runs.each().map(|run| sized(choice, run)).collect::<Result<Vec<_>, _>>();
                mechanism.choose_runs(&sized?, rng)?
            }
            (Mechanism::PermuteAndFlip(mechanism), _) => {
                place_of(&runs, mechanism.choose(&listed(&runs)?, rng)?)?
            }
            (Mechanism::NoisyMax(mechanism), _) => {
                place_of(&runs, mechanism.choose(&listed(&runs)?, rng)?)?
            }
            (
                Mechanism::Generalized(_)
                | Mechanism::Laplace(_)
                | Mechanism::Gaussian(_)
                | Mechanism::Unknown(..)
                | Mechanism::NoisyKeys(_)
                | Mechanism::Cumulative(_)
                | Mechanism::ChosenBound(_)
                | Mechanism::Exact,
                _,
            ) => {
                return Err(failed().into());
            }
        };
        chosen.push(runs.tick((run, within)).ok_or_else(failed)?);
        without(&mut runs, run, within)?;
    }
    Ok(chosen)
}

/// The candidates with the best noisy scores, best first; among equal scores, the first in the
/// public order wins.
///
/// # Guarantee
/// Every candidate's score takes a separate draw, and the result is a function of the noisy scores.
fn best_of_noisy(
    runs: &TickRuns,
    noise: &Laplace,
    most: usize,
    rng: &mut QueryRng,
) -> Result<Vec<u64>, DrawError> {
    let candidates = runs.each().flat_map(|(start, run)| (0..run.count).map(move |i| start + i));
    let scores = listed(runs)?;
    let noisy = scores.iter().map(|score| score.saturating_add(noise.draw(rng)));
    let mut noisy: Vec<(i128, u64)> = noisy.zip(candidates).collect();
    noisy.sort_unstable_by_key(|(score, candidate)| (Reverse(*score), *candidate));
    Ok(noisy.into_iter().take(most).map(|(_, candidate)| candidate).collect())
}

/// A run, with the largest change by one row of its first candidate's score, and the even step of
/// this change from each candidate to the next.
fn sized(choice: &Choice, (start, run): (u64, &ScoredRun)) -> Result<SizedRun, DrawError> {
    let size = |candidate: u64| {
        choice.size_of(candidate).and_then(|size| i128::try_from(size).ok()).ok_or_else(failed)
    };
    let first = size(start)?;
    let size_step = if run.count > 1 { size(start + 1)? - first } else { 0 };
    Ok(SizedRun { run: *run, size: first, size_step })
}

/// Splits the runs into single candidates, each with its prior weight.
fn weighted(runs: &TickRuns, weights: &[u128]) -> Result<TickRuns, DrawError> {
    let mut single = TickRuns::with_capacity(weights.len());
    for (start, run) in runs.each() {
        for i in 0..run.count {
            let at = usize::try_from(start + i).map_err(|_| failed())?;
            let weight = weights.get(at).copied().ok_or_else(failed)?;
            let score = score_at(run, i)?;
            single.add(start + i, ScoredRun { count: 1, score, step: 0, weight });
        }
    }
    Ok(single)
}

fn score_at(run: &ScoredRun, i: u64) -> Result<i128, DrawError> {
    let change = run.step.checked_mul(i.into()).ok_or_else(failed)?;
    Ok(run.score.checked_add(change).ok_or_else(failed)?)
}

/// The scores one by one, for mechanisms that examine every candidate; the release limits their
/// number.
fn listed(runs: &TickRuns) -> Result<Vec<i128>, DrawError> {
    let count = runs.runs.iter().try_fold(0_u64, |n, run| n.checked_add(run.count));
    let few = count.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= MOST_KEYS);
    let mut scores = Vec::with_capacity(few.ok_or_else(failed)?);
    for run in &runs.runs {
        for i in 0..run.count {
            scores.push(score_at(run, i)?);
        }
    }
    Ok(scores)
}

/// The run that holds the `index`-th listed candidate, and its position in the run.
fn place_of(runs: &TickRuns, index: usize) -> Result<(usize, u64), DrawError> {
    let mut before = u64::try_from(index).map_err(|_| failed())?;
    for (i, run) in runs.runs.iter().enumerate() {
        match before.checked_sub(run.count) {
            Some(rest) => before = rest,
            None => return Ok((i, before)),
        }
    }
    Err(failed().into())
}

/// The run that holds a candidate, and its position in the run.
fn holding(runs: &TickRuns, candidate: u64) -> Result<(usize, u64), DrawError> {
    let found = runs.each().enumerate().find_map(|(i, (start, run))| {
        let within = candidate.checked_sub(start)?;
        (within < run.count).then_some((i, within))
    });
    found.ok_or_else(|| failed().into())
}

/// Removes one candidate.
fn without(runs: &mut TickRuns, run: usize, within: u64) -> Result<(), DrawError> {
    let (start, chosen) = runs.each().nth(run).ok_or_else(failed)?;
    let chosen = *chosen;
    let after = chosen.count - within - 1;
    let mut rest = TickRuns::default();
    if within > 0 {
        rest.add(start, ScoredRun { count: within, ..chosen });
    }
    if after > 0 {
        let score = score_at(&chosen, within + 1)?;
        rest.add(start + within + 1, ScoredRun { count: after, score, ..chosen });
    }
    runs.first.splice(run..=run, rest.first);
    runs.runs.splice(run..=run, rest.runs);
    Ok(())
}
