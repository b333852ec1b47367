//! MWEM: multiplicative weights over all combinations of codes.
//!
//! In: a task, and the door. Out: tables of expected counts. In the variant of the article, each
//! round measures one cell, and the result is the mean of the tables after each round. In the
//! other, each round measures a whole marginal, and the table is held in the factors of a graphical
//! model. Floats hold tables, which come from released values; shares of the budget are integers.
//! Source: Hardt, Ligett, McSherry 2012.
//!
//! ```text
//! B = 1: a twentieth for the number of rows, then 8 rounds of 0.11875, half of it for choosing a cell, half for its count
//! ```

use std::time::{Duration, Instant};

use super::aim::{candidates, whole};
use super::clock::{Clock, LAST_STEPS, STEPS};
use super::columns::{ColumnSet, index};
use super::door::{Candidate, Door, Measured, Released};
use super::infer::{FactorTable, KeptAnswers, Model, Paths, float};
use super::made::{Failed, Progress};
use super::outcome::{Answered, Competing, MethodOutcome, Round};
use super::task::SyntheticTask;

/// How often each round goes through all measurements again.
const REPLAYS: u32 = 10;

/// The shares of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunShares {
    /// The share of the total number of rows: a twentieth.
    pub(super) total: u64,
    /// The share of the choice, in each round.
    pub(super) select: u64,
    /// The share of the measurement, in each round.
    pub(super) measure: u64,
}

impl RunShares {
    /// The shares of a budget; `None` if one would be 0.
    ///
    /// # Guarantee
    /// total + rounds·(select + measure) is at most the budget.
    pub(super) fn new(budget: u64, rounds: u32) -> Option<Self> {
        let total = budget / 20;
        let round = (budget - total).checked_div(u64::from(rounds))?;
        let select = round / 2;
        let parts = Self { total, select, measure: round - select };
        (total > 0 && select > 0).then_some(parts)
    }

    /// The least budget for this many rounds.
    pub(super) fn least(rounds: u32) -> u64 {
        // From 20 on, a twentieth is at least 1; the rest gives each round 2.
        let rounds = u64::from(rounds);
        (2 * rounds).saturating_add(2 * rounds / 19 + 1).max(20)
    }
}

/// A measured cell of a marginal; `index` has the cell of the marginal for each cell of the table.
struct MeasuredCell {
    index: Vec<u32>,
    cell: u32,
    value: f64,
}

/// Chooses, measures and reweighs, round by round.
///
/// # Errors
/// [`Failed`] when the rows cannot be counted or noise cannot be drawn.
pub(super) fn run(
    task: &SyntheticTask,
    competing: &Competing,
    (cells, rounds): (bool, u32),
    door: &mut Door<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<MethodOutcome, Failed> {
    let parts = RunShares::new(task.budget.nano(), rounds).ok_or(Failed::Fault)?;
    let first = ColumnSet::new([0]);
    let sets = competing.iter().map(|(set, _)| set.clone()).chain([first]);
    door.prepare(&sets.collect::<Vec<_>>())?;
    let total = door.measure_total(parts.total)?;
    let total_nano = task.budget.nano();
    let mut over = |round, door: &Door<'_>| {
        progress(Progress { round, used_nano: door.used(), total_nano });
    };
    if cells {
        run_cells(task, competing, (parts, rounds), &total, door, &mut over)
    } else {
        run_marginals(task, competing, (parts, rounds), total, door, &mut over)
    }
}

/// The variant of the article: one cell in each round.
fn run_cells(
    task: &SyntheticTask,
    competing: &Competing,
    (parts, rounds): (RunShares, u32),
    total: &Released<Measured>,
    door: &mut Door<'_>,
    over: &mut dyn FnMut(u32, &Door<'_>),
) -> Result<MethodOutcome, Failed> {
    let total = total.get().values.first().map_or(1.0, |total| float(*total).max(1.0));
    let all = ColumnSet::new(0..task.sizes.len());
    let size = all.cells(&task.sizes);
    let mut table = FactorTable { columns: all, values: vec![total / float(size); size] };
    let mut mean = vec![0.0; size];
    let (mut targets, mut last, mut count) = (Vec::new(), None, 0);
    let candidates = candidates(competing, &task.sizes, 0.0);
    let mut clock = Clock::new(task.most_time, door.stop());
    for round in 1..=rounds {
        let mut answer = |set: &ColumnSet| Some(whole(&table.onto(set, &task.sizes)));
        let chosen = *door.select_cell(&candidates, &mut answer, parts.select)?.get();
        let (chosen, cell) = cell_of(&candidates, &task.sizes, chosen);
        let set = candidates.get(chosen).map(|c| c.columns.clone()).ok_or(Failed::Fault)?;
        let value = *door.measure_cell(&set, cell, parts.measure)?.get();
        let index = index(table.columns.as_slice(), set.as_slice(), &task.sizes);
        let number = u32::try_from(cell).map_err(|_| Failed::Fault)?;
        targets.push(MeasuredCell { index, cell: number, value: float(value) });
        let model = KeptAnswers::whole(&table, &task.sizes);
        clock.run(|over| reweigh(&mut table.values, &targets, total, over))?;
        mean.iter_mut().zip(&table.values).for_each(|(sum, value)| *sum += value);
        let measured = Answered::Cell { cell, value, measure: parts.measure };
        let candidates = candidates.clone();
        last = Some(Round { candidates, chosen, model, select: parts.select, measured });
        count = round;
        over(round, door);
        if clock.is_over() {
            break;
        }
    }
    mean.iter_mut().for_each(|sum| *sum /= f64::from(count.max(1)));
    table.values = mean;
    Ok(MethodOutcome {
        tables: vec![table],
        total,
        measured: Vec::new(),
        rounds: last.into_iter().collect(),
        count,
        most_rounds: u64::from(rounds),
    })
}

/// The other variant: a whole marginal in each round, with the weights in the factors of a
/// graphical model.
fn run_marginals(
    task: &SyntheticTask,
    competing: &Competing,
    (parts, rounds): (RunShares, u32),
    total: Released<Measured>,
    door: &mut Door<'_>,
    over: &mut dyn FnMut(u32, &Door<'_>),
) -> Result<MethodOutcome, Failed> {
    let mut model = Model::new(&task.sizes);
    model.add(&total);
    model.fit(1, &|| false);
    let (mut measured, mut last, mut count) = (vec![total], None, 0);
    let candidates = candidates(competing, &task.sizes, door.noise(parts.measure)?.mean_size());
    let mut clock = Clock::new(task.most_time, door.stop());
    for round in 1..=rounds {
        let (before, mut answers) = (KeptAnswers::of(&model), Duration::ZERO);
        let mut paths = Paths::kept(&before, &task.sizes, task.most_held);
        let mut answer = |set: &ColumnSet| {
            let start = Instant::now();
            let model = paths.marginal(set).map(|counts| whole(&counts));
            answers += start.elapsed();
            model
        };
        let chosen = *door.select(&candidates, &mut answer, parts.select)?.get();
        clock.take(answers);
        let set = candidates.get(chosen).map(|c| c.columns.clone()).ok_or(Failed::Fault)?;
        let answer = door.measure(&[set], parts.measure)?;
        let answer = answer.into_iter().next().ok_or(Failed::Fault)?;
        model.add(&answer);
        clock.fit(&mut model, if round < rounds { STEPS } else { LAST_STEPS })?;
        let answered = Answered::Marginal(measured.len());
        measured.push(answer);
        last = Some(Round {
            candidates: candidates.clone(),
            chosen,
            model: before,
            select: parts.select,
            measured: answered,
        });
        count = round;
        over(round, door);
        if clock.is_over() {
            break;
        }
    }
    Ok(MethodOutcome {
        tables: model.tables(),
        total: model.total(),
        measured,
        rounds: last.into_iter().collect(),
        count,
        most_rounds: u64::from(rounds),
    })
}

/// The marginal that has this cell, and the cell's number in it.
fn cell_of(candidates: &[Candidate], sizes: &[usize], mut cell: usize) -> (usize, usize) {
    for (at, candidate) in candidates.iter().enumerate() {
        let cells = candidate.columns.cells(sizes);
        if cell < cells {
            return (at, cell);
        }
        cell -= cells;
    }
    (0, 0)
}

/// A(x) ∝ A(x)·exp(q(x)·(m − q(A))/2N̂) for each measured q, repeatedly.
fn reweigh(table: &mut [f64], targets: &[MeasuredCell], total: f64, over: &dyn Fn() -> bool) {
    for _ in 0..REPLAYS {
        for target in targets {
            if over() {
                return;
            }
            let counts = |index: &u32| *index == target.cell;
            let within = table.iter().zip(&target.index).filter(|(_, index)| counts(index));
            let sum: f64 = within.map(|(value, _)| value).sum();
            let factor = ((target.value - sum) / (2.0 * total)).clamp(-50.0, 50.0).exp();
            let scale = total / (total + (factor - 1.0) * sum).max(f64::MIN_POSITIVE);
            for (value, index) in table.iter_mut().zip(&target.index) {
                *value *= if counts(index) { factor * scale } else { scale };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_within_the_budget() {
        for rounds in [1, 2, 3, 8, 50] {
            for budget in (0..3_000).chain([1_000_000_000, u64::MAX]) {
                let Some(parts) = RunShares::new(budget, rounds) else {
                    assert!(budget < RunShares::least(rounds), "{budget} {rounds}");
                    continue;
                };
                let round = u128::from(parts.select) + u128::from(parts.measure);
                let spent = u128::from(parts.total) + u128::from(rounds) * round;
                assert!(spent <= u128::from(budget) && parts.total == budget / 20);
                assert!(parts.measure - parts.select <= 1 && parts.select > 0);
            }
        }
        assert!(RunShares::new(1_000, 0).is_none());
    }

    /// A cell of the table follows its measurement, and the total stays the same.
    #[test]
    fn tables_follow_what_is_measured() {
        let mut table = vec![25.0; 4];
        let targets = [MeasuredCell { index: vec![0, 0, 1, 1], cell: 1, value: 80.0 }];
        for _ in 0..30 {
            reweigh(&mut table, &targets, 100.0, &|| false);
        }
        assert!((table[2] - 40.0).abs() < 0.1 && (table[0] - 10.0).abs() < 0.1, "{table:?}");
        assert!((table.iter().sum::<f64>() - 100.0).abs() < 1e-9);
    }
}
