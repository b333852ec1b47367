//! Selection among candidates in runs: a grid of 10⁹ ticks has only a few runs.
//!
//! Runs of candidates with evenly changing scores and integer prior weights go in; the winner's run
//! and its position in the run come out. It makes the assumptions of the exponential mechanism
//! about the scores of all candidates together, and assumes that the weights are public. The choice
//! is then ε-differentially private.
//!
//! Ticks 0 to 99 around a median of 40, which lose one point per tick:
//! `[40 from −40 by +1, 60 from 0 by −1]`.

use super::{Exponential, MechanismError};
use crate::sampler::{QueryRng, Run, RunChoice};

/// Consecutive candidates: the j-th (from 0) has score `score + j·step` and prior weight `weight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoredRun {
    /// The number of candidates, which may be 0.
    pub count: u64,
    /// The score of the first candidate.
    pub score: i128,
    /// How much higher each further candidate scores; lower if negative.
    pub step: i128,
    /// The prior weight of each candidate; 0 excludes the run. **Public**: it depends on the
    /// candidates, never on the data.
    pub weight: u128,
}

impl ScoredRun {
    /// The score of the last candidate; `None` beyond 128 bits. For an empty run, the score of its
    /// first candidate.
    pub fn last_score(&self) -> Option<i128> {
        self.score_at(self.count.saturating_sub(1))
    }

    /// The score of the j-th candidate; `None` beyond 128 bits.
    pub(super) fn score_at(&self, place: u64) -> Option<i128> {
        i128::from(place).checked_mul(self.step).and_then(|change| change.checked_add(self.score))
    }
}

/// Runs of consecutive ticks: every tick of a grid is in exactly one run, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TickRuns {
    /// The runs.
    pub runs: Vec<ScoredRun>,
    /// The first tick of each run.
    pub first: Vec<u64>,
}

impl TickRuns {
    /// No runs, with room for this many.
    pub fn with_capacity(runs: usize) -> Self {
        Self { runs: Vec::with_capacity(runs), first: Vec::with_capacity(runs) }
    }

    /// Each run with its first tick.
    pub fn each(&self) -> impl Iterator<Item = (u64, &ScoredRun)> {
        self.first.iter().copied().zip(&self.runs)
    }

    /// Appends a run unchanged.
    pub fn add(&mut self, first: u64, run: ScoredRun) {
        self.first.push(first);
        self.runs.push(run);
    }

    /// Appends `count` ticks from `first` on, if any. Ticks that directly follow the previous run
    /// and have its score join that run. Ticks behind a gap do not: otherwise a removed candidate
    /// would get the position of another.
    pub(super) fn push(&mut self, first: u64, run: ScoredRun) {
        if run.count == 0 {
            return;
        }
        if let Some((last, start)) = self.runs.last_mut().zip(self.first.last())
            && start.checked_add(last.count) == Some(first)
            && (last.step, run.step, last.score, last.weight) == (0, 0, run.score, run.weight)
            && let Some(count) = last.count.checked_add(run.count)
        {
            last.count = count;
            return;
        }
        self.add(first, run);
    }

    /// The tick at a position of a run, if there is one.
    pub fn tick(&self, (run, place): (usize, u64)) -> Option<u64> {
        let within = self.runs.get(run).is_some_and(|run| place < run.count);
        self.first.get(run)?.checked_add(place).filter(|_| within)
    }
}

/// Scored runs in the sampler's form: gaps from the best score, and the highest candidate of each
/// run first.
#[derive(Debug, Clone)]
pub(super) struct Gaps<'a> {
    scored: &'a [ScoredRun],
    runs: Vec<Run>,
}

impl<'a> Gaps<'a> {
    /// # Guarantee
    /// Every candidate with a weight has exactly its gap to the best candidate of positive weight.
    /// Rising runs are reversed.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when a score does not fit 128 bits.
    pub(super) fn new(scored: &'a [ScoredRun]) -> Result<Self, MechanismError> {
        let mut best: Option<i128> = None;
        for run in scored.iter().filter(|run| run.count > 0 && run.weight > 0) {
            let last = run.last_score().ok_or(MechanismError::RangeTooWide)?;
            best = best.max(Some(run.score.max(last)));
        }
        let runs = scored
            .iter()
            .map(|run| {
                let nothing = Run { count: 0, gap: 0, fall: 0, weight: 0 };
                let (Some(best), Some(last)) = (best, run.last_score()) else { return nothing };
                if run.count == 0 || run.weight == 0 {
                    return nothing;
                }
                Run {
                    count: run.count,
                    gap: best.abs_diff(run.score.max(last)),
                    fall: run.step.unsigned_abs(),
                    weight: run.weight,
                }
            })
            .collect();
        Ok(Self { scored, runs })
    }

    /// Prepares draws at a rate.
    pub(super) fn choice(
        &self,
        rate_num: u128,
        rate_den: u128,
    ) -> Result<RunChoice<'_>, MechanismError> {
        Ok(RunChoice::new(&self.runs, rate_num, rate_den)?)
    }

    /// The candidate that the sampler's result refers to.
    pub(super) fn winner(&self, (run, place): (usize, u64)) -> (usize, u64) {
        match self.scored.get(run) {
            Some(scored) if scored.step > 0 => {
                (run, scored.count.saturating_sub(1).saturating_sub(place))
            }
            _ => (run, place),
        }
    }
}

impl Exponential {
    /// The run of the winner, and its position in the run.
    ///
    /// # Guarantee
    /// P(i, j) ∝ weight_i·exp(exponent·(score_i + j·step_i)), exactly. With public weights this is
    /// ε-DP as [`Exponential::choose`] is, because a prior scales the weights of both databases
    /// equally. The time grows only with the number of runs. Source: McSherry, Talwar 2007.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when a score of positive weight does not fit 128 bits. The
    /// caller must exclude this by public bounds, because otherwise the error would reveal
    /// something about the data. [`MechanismError::Sampler`] when no candidate has a weight.
    pub fn choose_runs(
        &self,
        runs: &[ScoredRun],
        rng: &mut QueryRng,
    ) -> Result<(usize, u64), MechanismError> {
        let gaps = Gaps::new(runs)?;
        let winner = gaps.choice(self.rate.numerator, self.rate.denominator)?.draw(rng);
        Ok(gaps.winner(winner))
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "a test's statistics are floats")]
mod tests {
    use super::*;
    use crate::privacy::parse_decimal;
    use crate::sampler::tests::statistics::assert_frequencies;

    fn run(count: u64, score: i128, step: i128, weight: u128) -> ScoredRun {
        ScoredRun { count, score, step, weight }
    }

    /// The false-alarm rate is 10⁻⁹ each, see `statistics`; seeds are fixed.
    #[test]
    fn runs_follow_their_law() {
        let mechanism = Exponential::calibrate(2, &"1".parse().unwrap()).unwrap();
        for (what, runs) in [
            ("falling", vec![run(5, 3, -1, 1), run(2, 2, 0, 3)]),
            ("rising", vec![run(5, -9, 2, 1), run(3, -12, 5, 2)]),
            (
                "excluded",
                vec![run(3, 900, 0, 0), run(0, 901, 1, 1), run(4, 7, 1, 1), run(1, 9, 0, 1)],
            ),
            ("ends", vec![run(3, i128::MAX - 4, 2, 1), run(2, i128::MIN, 1, 1)]),
        ] {
            let flat: Vec<(usize, u64)> = (0..runs.len())
                .flat_map(|i| (0..runs[i].count).map(move |place| (i, place)))
                .collect();
            let score = |(i, place): (usize, u64)| runs[i].score + runs[i].step * i128::from(place);
            let best = flat.iter().filter(|(i, _)| runs[*i].weight > 0).map(|at| score(*at)).max();
            let weights: Vec<f64> = flat
                .iter()
                .map(|at| match runs[at.0].weight {
                    0 => 0.0,
                    weight => {
                        let gap = best.unwrap().abs_diff(score(*at)) as f64;
                        weight as f64 * (-gap / 2.0).exp()
                    }
                })
                .collect();
            let total: f64 = weights.iter().sum();
            let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
            let mut rng = QueryRng::seeded_for_tests(31);
            let mut counts = vec![0_u64; flat.len()];
            for _ in 0..40_000 {
                let winner = mechanism.choose_runs(&runs, &mut rng).unwrap();
                counts[flat.iter().position(|at| *at == winner).unwrap()] += 1;
            }
            assert_frequencies(what, &counts, &law);
        }
    }

    #[test]
    fn scores_beyond_128_bits_are_refused() {
        let mechanism = Exponential::calibrate(2, &"1".parse().unwrap()).unwrap();
        let mut rng = QueryRng::seeded_for_tests(1);
        for wide in [run(3, i128::MAX - 1, 1, 1), run(u64::MAX, 0, i128::MIN, 1)] {
            let refused = mechanism.choose_runs(&[run(1, 0, 0, 1), wide], &mut rng);
            assert!(matches!(refused, Err(MechanismError::RangeTooWide)), "{refused:?}");
            // A run with scores that are too wide is accepted if none of its candidates can win.
            let excluded = ScoredRun { weight: 0, ..wide };
            assert_eq!(
                mechanism.choose_runs(&[run(1, 0, 0, 1), excluded], &mut rng).unwrap(),
                (0, 0)
            );
        }
        assert!(mechanism.choose_runs(&[], &mut rng).is_err());
        assert!(mechanism.choose_runs(&[run(4, 1, 1, 0)], &mut rng).is_err());
    }

    #[test]
    fn errors_with_a_prior_hold() {
        let mechanism = Exponential::calibrate(1, &"1".parse().unwrap()).unwrap();
        let beta = parse_decimal("0.05").unwrap();
        // A uniform prior equals no prior.
        assert!(
            (mechanism.error_at_weights(7.0, 1.0, &beta) - mechanism.error_at(7, &beta)).abs()
                < 1e-9
        );
        assert!(
            (mechanism.expected_error_weights(7.0, 1.0) - mechanism.expected_error(7)).abs() < 1e-9
        );
        assert_eq!(mechanism.error_at_weights(5.0, 5.0, &beta).to_bits(), 0, "one candidate");
        assert!(mechanism.error_at_weights(5.0, 0.0, &beta).is_infinite());
        // The worst case: the best candidate has the least weight, and all others have the same
        // score.
        for spread in 0..40_i32 {
            let (least, others) = (1.0, 999.0);
            let lost = others * (-f64::from(spread)).exp();
            let lost = lost / (lost + least);
            let (error, mean) = (
                mechanism.error_at_weights(1000.0, 1.0, &beta),
                mechanism.expected_error_weights(1000.0, 1.0),
            );
            assert!(lost <= 0.05 || f64::from(spread) <= error, "{spread}");
            assert!(lost * f64::from(spread) <= mean, "{spread}");
            assert!(error < 10.0 && mean < 7.0);
        }
    }

    #[test]
    fn ticks_are_found() {
        let mut ticks = TickRuns::default();
        ticks.push(0, run(3, 5, 0, 1));
        ticks.push(3, run(0, 9, 0, 1));
        ticks.push(3, run(2, 5, 0, 1));
        ticks.push(5, run(4, 5, 1, 1));
        assert_eq!((ticks.runs.len(), ticks.first.clone()), (2, vec![0, 5]));
        assert_eq!((ticks.tick((0, 4)), ticks.tick((1, 3))), (Some(4), Some(8)));
        assert_eq!((ticks.tick((0, 5)), ticks.tick((2, 0))), (None, None));
    }
}
