//! Bounds on the errors of the new rows' marginals. They are free, because they use only released
//! values.
//!
//! In: the measurements, the state of the rounds, and the rows. Out: for each marginal a bound on
//! Σ|count of the private rows − count of the new rows|, at 95 % each. Bounds are floats for
//! reports, rounded up past their error.
//!
//! For a set r inside a measured one, with noisy counts y summed to r: ‖y_r − M_r(s)‖₁ plus a bound
//! on the noise. The i-th such measurement holds at β·2⁻ⁱ, so the smallest of all bounds is valid.
//! For another r that competed when c won: its score was not much higher than that of c, which was
//! measured. Both bounds hold at β/2T for each of the at most T rounds, so any round is valid.

use std::collections::BTreeMap;

use num_traits::ToPrimitive;

use super::aim::whole;
use super::columns::ColumnSet;
use super::door::{Candidate, range};
use super::infer::{FactorTable, Paths, float};
use super::made::{Failed, MarginalError, Stop, check};
use super::noise::{Chooser, Mode, Noise};
use super::outcome::{Answered, Competing, MethodOutcome, Round};
use super::task::SyntheticTask;
use crate::privacy::{Rational, parse_decimal};

/// The bounds of these marginals, in rows or persons; `columns` are the new rows. Large work runs
/// on two threads.
///
/// # Errors
/// [`Failed::Mechanism`] if the noise of an earlier round cannot be calibrated, although it was.
/// [`Failed::Stopped`] when the statement is over.
pub(super) fn bounds(
    task: &SyntheticTask,
    competing: &Competing,
    outcome: &MethodOutcome,
    columns: &[Vec<u16>],
    stop: Stop<'_>,
) -> Result<Vec<MarginalError>, Failed> {
    let rows = columns.first().map_or(0, Vec::len);
    let of = |sets: &[(ColumnSet, u64)]| bounds_of(task, sets, outcome, columns, stop);
    if rows.saturating_mul(competing.len()) < 1 << 20 {
        return of(competing);
    }
    let (first, second) = competing.split_at(competing.len() / 2);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| of(first));
        let own = of(second);
        let first = beside.join().unwrap_or_else(|_| of(first))?;
        Ok(first.into_iter().chain(own?).collect())
    })
}

/// The bounds of these sets, one after the other.
fn bounds_of(
    task: &SyntheticTask,
    sets: &[(ColumnSet, u64)],
    outcome: &MethodOutcome,
    columns: &[Vec<u16>],
    stop: Stop<'_>,
) -> Result<Vec<MarginalError>, Failed> {
    let rows = columns.first().map_or(0, Vec::len);
    let scale = if rows == 0 { 0.0 } else { outcome.total / float(rows) };
    let unit = f64::from(task.sensitivity.grid()).exp2();
    let known = outcome.rounds.iter().map(|round| UnmeasuredRound::of(task, outcome, round));
    let mut known = known.collect::<Result<Vec<Option<UnmeasuredRound>>, Failed>>()?;
    let mut errors = Vec::new();
    for (set, weight) in sets {
        check(stop)?;
        let made = marginal(task, set, columns).into_iter().map(|count| float(count) * scale);
        let made: Vec<f64> = made.collect();
        let bound = match measured(task, outcome, set, &made) {
            Some(bound) => Some((true, bound)),
            None => {
                let rounds = known.iter_mut().flatten();
                let bounds = rounds.filter_map(|round| round.bound(set, *weight, &made));
                bounds.reduce(f64::min).map(|bound| (false, bound))
            }
        };
        if let Some((measured, bound)) = bound {
            let bound = bound.max(0.0) / unit * (1.0 + 1e-9);
            errors.push(MarginalError { columns: set.clone(), measured, bound });
        }
    }
    Ok(errors)
}

/// The counts of the new rows.
fn marginal(task: &SyntheticTask, set: &ColumnSet, columns: &[Vec<u16>]) -> Vec<u64> {
    let rows = columns.first().map_or(0, Vec::len);
    let mut counts = vec![0_u64; set.cells(&task.sizes)];
    let of_set: Vec<(usize, &[u16])> = (set.as_slice().iter())
        .filter_map(|column| Some((*task.sizes.get(*column)?, columns.get(*column)?.as_slice())))
        .collect();
    for row in 0..rows {
        let code = |codes: &[u16]| codes.get(row).copied().map_or(0, usize::from);
        let cell = of_set.iter().fold(0, |cell, (size, codes)| cell * size + code(codes));
        if let Some(count) = counts.get_mut(cell) {
            *count += 1;
        }
    }
    counts
}

/// β = 0.05, times 2⁻ʰ, divided by a number.
fn beta(halvings: u32, parts: u64) -> Rational {
    let rest = parse_decimal(MarginalError::CONFIDENCE).unwrap_or_default();
    let halves = num_bigint::BigInt::from(2).pow(halvings);
    let one = Rational::from_integer(1.into());
    (one - rest) / Rational::from_integer(halves * num_bigint::BigInt::from(parts.max(1)))
}

/// Σ|a − b|.
fn distance(a: &[f64], b: impl IntoIterator<Item = f64>) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum()
}

/// The bound of a set inside measured ones; `None` if no measured set contains it.
fn measured(
    task: &SyntheticTask,
    outcome: &MethodOutcome,
    set: &ColumnSet,
    made: &[f64],
) -> Option<f64> {
    let holding = outcome.measured.iter().map(|m| m.get()).filter(|m| set.is_within(&m.columns));
    let bounds = (1..).zip(holding).map(|(turn, measured)| {
        let values = measured.values.iter().copied().map(float).collect();
        let table = FactorTable { columns: measured.columns.clone(), values };
        let values = table.onto(set, &task.sizes);
        let summed = measured.values.len().checked_div(values.len()).unwrap_or(1);
        distance(&values, made.iter().copied())
            + noise_within(&measured.noise, summed, values.len(), &beta(turn, 1))
    });
    bounds.reduce(f64::min)
}

/// What a round reveals about the candidates that competed in it and were not measured.
struct UnmeasuredRound<'o> {
    candidates: BTreeMap<&'o ColumnSet, &'o Candidate>,
    /// The model's answers before the measurement.
    paths: Paths<'o>,
    /// The error of the model on the winner, as measured. `winner` has its weight and bias; `None`
    /// if a cell was measured.
    off: f64,
    winner: Option<(f64, f64)>,
    /// The most by which another candidate's score can exceed the winner's.
    gap: f64,
}

impl<'o> UnmeasuredRound<'o> {
    fn of(
        task: &'o SyntheticTask,
        outcome: &MethodOutcome,
        round: &'o Round,
    ) -> Result<Option<Self>, Failed> {
        let Some(chosen) = round.candidates.get(round.chosen) else { return Ok(None) };
        let mut paths = Paths::kept(&round.model, &task.sizes, task.most_held);
        let Some(model) = paths.marginal(&chosen.columns).map(|counts| whole(&counts)) else {
            return Ok(None);
        };
        let beta = beta(1, outcome.most_rounds);
        let (off, winner) = match &round.measured {
            Answered::Marginal(place) => {
                let Some(measured) = outcome.measured.get(*place) else { return Ok(None) };
                let measured = measured.get();
                let values: Vec<f64> = measured.values.iter().copied().map(float).collect();
                let off = distance(&values, model.iter().copied().map(float))
                    + noise_within(&measured.noise, 1, measured.values.len(), &beta);
                (off, Some((float(chosen.weight), float(chosen.bias))))
            }
            Answered::Cell { cell, value, measure } => {
                let noise = Noise::calibrate(task.budget.into(), task.sensitivity, *measure)?;
                let model = model.get(*cell).copied().map_or(0.0, float);
                ((float(*value) - model).abs() + noise_within(&noise, 1, 1, &beta), None)
            }
        };
        let candidates = round.candidates.iter().map(|own| (&own.columns, own)).collect();
        Ok(Some(Self { candidates, paths, off, winner, gap: gap(task, round, &beta)? }))
    }

    /// The bound of a set that competed; `None` if it did not.
    fn bound(&mut self, set: &ColumnSet, weight: u64, made: &[f64]) -> Option<f64> {
        let own = self.candidates.get(set)?;
        let model = whole(&self.paths.marginal(set)?);
        let known = distance(made, model.iter().copied().map(float));
        let weight = float(weight.max(1));
        Some(match self.winner {
            Some((of_winner, bias)) => {
                let weighed = of_winner / weight * (self.off - bias);
                known + float(own.bias) + weighed + self.gap / weight
            }
            // No cell of any candidate has an error much larger than that of the chosen cell.
            None => known + float(model.len()) * (self.off + self.gap),
        })
    }
}

/// The distance of the winner's score from the best, at confidence 1 − β.
fn gap(task: &SyntheticTask, round: &Round, beta: &Rational) -> Result<f64, Failed> {
    let mode = Mode::from(task.budget);
    let (range, count) = match round.measured {
        Answered::Marginal(_) => {
            let weights = round.candidates.iter().map(|candidate| candidate.weight);
            (range(weights, task.sensitivity), round.candidates.len())
        }
        Answered::Cell { .. } => {
            let cells = |candidate: &Candidate| candidate.columns.cells(&task.sizes);
            (range([1, 1], task.sensitivity), round.candidates.iter().map(cells).sum())
        }
    };
    if count <= 1 {
        return Ok(0.0);
    }
    Ok(Chooser::calibrate(mode, range, round.select)?.error_at(count, beta))
}

/// A bound, at confidence 1 − β, of Σ|X₁ + … + X_k| over `cells` cells, each the sum of k =
/// `summed` independent draws.
///
/// # Guarantee
/// For every t, E e^(t|S|) = E e^(tS) + E e^(−tS) − E e^(−t|S|) ≤ 2·M(t)^k − e^(−t·√(k·V)) by
/// Jensen. So the sum exceeds (cells·ln of that + ln(1/β))/t with a probability of at most β
/// (Chernoff). The result is the smallest over about a hundred t.
pub(super) fn noise_within(noise: &Noise, summed: usize, cells: usize, beta: &Rational) -> f64 {
    let (summed, cells) = (float(summed), float(cells));
    let surprise = -beta.to_f64().unwrap_or(0.0).max(f64::MIN_POSITIVE).ln();
    let deviation = (summed * noise.variance()).sqrt();
    let bound = |t: f64| {
        let log = summed * noise.log_moment(t);
        // ln(2e^log − e^(−t·deviation)).
        let moment = log + (2.0 - (-t * deviation - log).exp()).ln();
        (cells * moment + surprise) / t
    };
    let rates = (1..=480_i32).map(|step| noise.steepest() * 0.97_f64.powi(step));
    rates.map(bound).filter(|bound| bound.is_finite()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::QueryRng;
    use crate::synthetic::task::Sensitivity;

    fn noises() -> [Noise; 4] {
        [
            (Mode::Pure, 100_000_000),
            (Mode::Pure, 2_000_000_000),
            (Mode::Concentrated, 5_000_000),
            (Mode::Concentrated, 500_000_000),
        ]
        .map(|(mode, share)| Noise::calibrate(mode, Sensitivity::rows(1), share).unwrap())
    }

    /// Sums of sizes of noise are within their bound as often as stated, and the bound is close.
    #[test]
    fn noise_is_within_its_bound() {
        let mut rng = QueryRng::seeded_for_tests(1);
        for noise in noises() {
            for (summed, cells) in [(1, 1), (1, 40), (6, 1), (6, 40)] {
                let bound = noise_within(&noise, summed, cells, &beta(0, 1));
                let (mut beyond, mut mean) = (0, 0.0);
                for _ in 0..400 {
                    let size: i128 = (0..cells)
                        .map(|_| (0..summed).map(|_| noise.draw(&mut rng)).sum::<i128>().abs())
                        .sum();
                    beyond += i32::from(float(size) > bound);
                    mean += float(size) / 400.0;
                }
                assert!(beyond <= 30, "{noise:?} {summed} {cells}: {beyond}");
                assert!(bound < mean * 7.0 + 3.0, "{noise:?} {summed} {cells}: {bound} {mean}");
            }
        }
    }

    /// The smallest of any number of bounds is valid: all of them together fail with at most 5 %.
    #[test]
    fn the_best_of_several_bounds_holds() {
        let parts: Rational = (1..=40).map(|turn| beta(turn, 1)).sum();
        assert!(parts <= beta(0, 1));
        let rounds = (0..56).map(|_| beta(1, 56));
        assert!(rounds.sum::<Rational>() * Rational::from_integer(2.into()) <= beta(0, 1));
        // Eight measurements of one cell, by the exact law of Laplace noise.
        let Noise::Laplace(laplace) = &noises()[0] else { panic!("a pure budget") };
        let scale = laplace.scale().to_f64().unwrap();
        let sizes = [ColumnSet::new([0]); 1];
        let task = crate::synthetic::tests::task(
            &[1],
            1,
            crate::synthetic::task::Method::Aim,
            crate::synthetic::task::SyntheticBudget::Pure { epsilon_nano: 1_000_000_000 },
        );
        let one = |value: i128| {
            let measured = crate::synthetic::door::Measured {
                columns: sizes[0].clone(),
                values: vec![value],
                noise: noises()[0].clone(),
            };
            crate::synthetic::door::Released::for_tests(measured)
        };
        // The i-th is exact and all others are far off, so its own bound is the result.
        let mut fails = 0.0;
        for turn in 0..8 {
            let values = (0..8).map(|at| one(if at == turn { 0 } else { 1_000_000 })).collect();
            let outcome = MethodOutcome {
                tables: Vec::new(),
                total: 1.0,
                measured: values,
                rounds: Vec::new(),
                count: 0,
                most_rounds: 4,
            };
            let bound = measured(&task, &outcome, &sizes[0], &[0.0]).unwrap();
            let alpha = (-1.0 / scale).exp();
            fails += 2.0 * alpha.powf(bound.floor() + 1.0) / (1.0 + alpha);
        }
        assert!(fails <= 0.05, "{fails}");
    }
}
