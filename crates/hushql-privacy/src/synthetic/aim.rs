//! AIM: each round measures the marginal that the model answers worst, and fits the model anew.
//!
//! In: a task, and the door. Out: a model, the measurements, and the state of each round. All
//! decisions here (which sets compete, how many rounds there are, how large they are, when they
//! end) are functions of the task and of [`Released`] values. The model is made of floats; the
//! budget and the scores are integers. Source: McKenna, Mullins, Sheldon, Miklau 2022.
//!
//! ```text
//! all one-column sets measured; round 1: {age, status} of 91 pairs and 14 columns; round 2: …; after 30 rounds, no budget is left
//! ```

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use num_traits::ToPrimitive;

use super::budget::{Schedule, Shares};
use super::clock::{Clock, LAST_STEPS, STEPS};
use super::columns::ColumnSet;
use super::door::{Candidate, Door, Measured, Released};
use super::infer::{KeptAnswers, Model, Paths, Tree, float};
use super::made::{Failed, Progress, Stop, check};
use super::outcome::{Answered, Competing, MethodOutcome, Round};
use super::task::{SyntheticTask, Unfit};

/// A model, with the measurements and rounds that led to it.
struct Fitted {
    model: Model,
    measured: Vec<Released<Measured>>,
    /// The last round. For each candidate that did not compete in it, the last round in which it
    /// did.
    rounds: Vec<Round>,
    count: u32,
}

/// All subsets of the workload's sets, each with Σv·|r ∩ c| over the workload's sets r.
///
/// # Errors
/// [`Unfit::TooManyCandidates`] when there are more than can compete.
pub(super) fn competing(workload: &[(ColumnSet, u64)], most: usize) -> Result<Competing, Unfit> {
    let too_many = Unfit::TooManyCandidates { most };
    let mut sets = BTreeSet::new();
    for (set, _) in workload {
        let columns = set.as_slice();
        if columns.len() > 16 {
            return Err(too_many);
        }
        for chosen in 1..1_u32 << columns.len() {
            let part = columns.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
            sets.insert(ColumnSet::new(part.map(|(_, column)| *column)));
            if sets.len() > most {
                return Err(too_many);
            }
        }
    }
    let weight = |set: &ColumnSet| {
        let part = |(other, weight): &(ColumnSet, u64)| {
            weight.saturating_mul(u64::try_from(set.shared(other)).unwrap_or(u64::MAX))
        };
        workload.iter().map(part).fold(0, u64::saturating_add)
    };
    Ok(sets.into_iter().map(|set| (set.clone(), weight(&set))).collect())
}

/// These sets as candidates, each with the error that noise of this size in each cell would bring.
pub(super) fn candidates<'c>(
    fits: impl IntoIterator<Item = &'c (ColumnSet, u64)>,
    sizes: &[usize],
    noise: f64,
) -> Vec<Candidate> {
    let candidate = |(columns, weight): &(ColumnSet, u64)| Candidate {
        columns: columns.clone(),
        weight: *weight,
        bias: (noise * float(columns.cells(sizes))).to_i64().unwrap_or(i64::MAX >> 20),
    };
    fits.into_iter().map(candidate).collect()
}

/// A model's counts as whole numbers, each rounded separately.
pub(super) fn whole(counts: &[f64]) -> Vec<i64> {
    counts.iter().map(|value| value.round_ties_even().to_i64().unwrap_or(0)).collect()
}

/// Measures and fits until the budget is spent.
///
/// # Errors
/// [`Failed`] when the rows cannot be counted or noise cannot be drawn.
pub(super) fn run(
    task: &SyntheticTask,
    competing: &Competing,
    door: &mut Door<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<MethodOutcome, Failed> {
    let columns = task.sizes.len();
    let total = task.budget.nano();
    let single: Vec<ColumnSet> = (0..columns).map(|column| ColumnSet::new([column])).collect();
    let mut fitted = Fitted {
        model: Model::new(&task.sizes),
        measured: Vec::new(),
        rounds: Vec::new(),
        count: 0,
    };
    let mut clock = Clock::new(task.most_time, door.stop());
    let is_plain = columns == 1 || competing.iter().all(|(set, _)| set.len() == 1);
    if is_plain {
        let share =
            total.checked_div(columns.try_into().unwrap_or(u64::MAX)).ok_or(Failed::Fault)?;
        fitted.take(door.measure(&single, share)?);
        clock.fit(&mut fitted.model, LAST_STEPS)?;
        return Ok(fitted.outcome(columns));
    }
    let mut schedule = Schedule::new(total, columns, task.budget.into()).ok_or(Failed::Fault)?;
    let all: Vec<ColumnSet> =
        single.iter().chain(competing.iter().map(|(set, _)| set)).cloned().collect();
    door.prepare(&all)?;
    fitted.take(door.measure(&single, schedule.first())?);
    clock.fit(&mut fitted.model, STEPS)?;
    while let Some(shares) = schedule.next() {
        let used = door.used().saturating_add(shares.select).saturating_add(shares.measure);
        let fits = fitting(task, competing, &fitted.model, used, door.stop())?;
        if fitted.round(task, &fits, shares, door, &mut clock)? {
            schedule.grow();
        }
        progress(Progress { round: fitted.count, used_nano: door.used(), total_nano: total });
        if clock.is_over() {
            break;
        }
    }
    clock.fit(&mut fitted.model, LAST_STEPS)?;
    Ok(fitted.outcome(columns))
}

impl Fitted {
    /// Adds these measurements to the model.
    fn take(&mut self, measured: Vec<Released<Measured>>) {
        for measured in measured {
            self.model.add(&measured);
            self.measured.push(measured);
        }
    }

    /// Runs one round. True if its measurement changed the model by less than the noise.
    fn round(
        &mut self,
        task: &SyntheticTask,
        fits: &[&(ColumnSet, u64)],
        shares: Shares,
        door: &mut Door<'_>,
        clock: &mut Clock<'_>,
    ) -> Result<bool, Failed> {
        let noise = door.noise(shares.measure)?;
        let mut paths = Paths::new(&self.model, &task.sizes, task.most_held);
        let candidates = candidates(fits.iter().copied(), &task.sizes, noise.mean_size());
        let mut answers = Duration::ZERO;
        let mut answer = |set: &ColumnSet| {
            let start = Instant::now();
            let model = paths.marginal(set).map(|counts| whole(&counts));
            answers += start.elapsed();
            model
        };
        let chosen = *door.select(&candidates, &mut answer, shares.select)?.get();
        clock.take(answers);
        let set = candidates.get(chosen).ok_or(Failed::Fault)?.columns.clone();
        let old = paths.marginal(&set).ok_or(Failed::Fault)?;
        let limit = noise.mean_size() * float(old.len());
        let model = KeptAnswers::of(&self.model);
        self.take(door.measure(std::slice::from_ref(&set), shares.measure)?);
        clock.fit(&mut self.model, STEPS)?;
        let new = Paths::new(&self.model, &task.sizes, task.most_held).marginal(&set);
        let new = new.ok_or(Failed::Fault)?;
        let moved: f64 = old.iter().zip(&new).map(|(old, new)| (old - new).abs()).sum();
        self.count = self.count.saturating_add(1);
        let measured = Answered::Marginal(self.measured.len().saturating_sub(1));
        let round = Round { candidates, chosen, model, select: shares.select, measured };
        self.keep(round, task.most_bytes);
        Ok(moved <= limit)
    }

    fn outcome(self, columns: usize) -> MethodOutcome {
        MethodOutcome {
            tables: self.model.tables(),
            total: self.model.total(),
            measured: self.measured,
            rounds: self.rounds,
            count: self.count,
            most_rounds: Schedule::most_rounds(columns),
        }
    }

    /// Keeps a round. Earlier rounds keep their winners, and lose all other candidates that
    /// competed again. The oldest rounds are dropped until all kept rounds together are at most as
    /// large as four models.
    fn keep(&mut self, round: Round, most_bytes: usize) {
        let again: BTreeSet<&ColumnSet> = round.candidates.iter().map(|c| &c.columns).collect();
        for earlier in &mut self.rounds {
            let winner = earlier.candidates.get(earlier.chosen).map(|c| c.columns.clone());
            earlier.candidates.retain(|candidate| {
                Some(&candidate.columns) == winner.as_ref() || !again.contains(&candidate.columns)
            });
            let of_winner = |c: &Candidate| Some(&c.columns) == winner.as_ref();
            earlier.chosen = earlier.candidates.iter().position(of_winner).unwrap_or(0);
        }
        self.rounds.retain(|earlier| earlier.candidates.len() > 1);
        self.rounds.push(round);
        let cells =
            |rounds: &[Round]| rounds.iter().map(|round| round.model.cells()).sum::<usize>();
        while self.rounds.len() > 1 && cells(&self.rounds) > most_bytes / 2 {
            self.rounds.remove(0);
        }
    }
}

/// The sets whose junction tree fits the bytes that grow with the used share of the budget. There
/// is always one, since sets inside a clique make no tree larger.
fn fitting<'c>(
    task: &SyntheticTask,
    competing: &'c Competing,
    model: &Model,
    used: u64,
    stop: Stop<'_>,
) -> Result<Vec<&'c (ColumnSet, u64)>, Failed> {
    let bytes = u128::try_from(task.most_bytes).unwrap_or(u128::MAX);
    let limit = bytes.saturating_mul(u128::from(used)) / u128::from(task.budget.nano().max(1)) / 8;
    let sizes = &task.sizes;
    let inside = |set: &ColumnSet| model.tree().holding(set, sizes).is_some();
    let outside: Vec<&ColumnSet> =
        competing.iter().map(|(set, _)| set).filter(|set| !inside(set)).collect();
    let mut cells = Vec::with_capacity(outside.len());
    for some in outside.chunks(64) {
        check(stop)?;
        cells.extend(Tree::cells_with(sizes, model.measured(), some));
    }
    let small: BTreeSet<&ColumnSet> = (outside.iter().zip(cells))
        .filter(|(_, cells)| u128::try_from(*cells).is_ok_and(|cells| cells <= limit))
        .map(|(set, _)| *set)
        .collect();
    Ok(competing.iter().filter(|(set, _)| small.contains(set) || inside(set)).collect())
}
