//! From a task to rows.
//!
//! In: a [`SyntheticTask`], which is public. Out: a plan that can be run, or why it cannot. A run
//! reads the private rows through [`Count`] only.

use num_traits::ToPrimitive;

use super::aim;
use super::bounds::bounds;
use super::budget::Schedule;
use super::columns::{ColumnSet, Count};
use super::door::{Door, range};
use super::infer::{MOST_COLUMNS, Tree};
use super::made::{Failed, Made, MarginalError, Progress, Stop, check};
use super::mwem::{self, RunShares};
use super::noise::{Chooser, Mode, Noise};
use super::outcome::Competing;
use super::rows::rows;
use super::small;
use super::task::{
    MOST_CANDIDATES, MOST_CELLS, MOST_CELLS_TOGETHER, MOST_CODES, MOST_DATABASES, MOST_SCORED,
    Method, SyntheticTask, Unfit,
};
use crate::privacy::{Rational, parse_decimal};
use crate::sampler::QueryRng;

/// A checked task.
#[derive(Debug)]
pub struct SyntheticPlan {
    task: SyntheticTask,
    competing: Competing,
}

impl SyntheticPlan {
    /// Checks the task.
    ///
    /// # Errors
    /// [`Unfit`] when it is too large, or its budget too small.
    pub fn new(task: SyntheticTask) -> Result<Self, Unfit> {
        check_columns(&task)?;
        let competing = match task.method {
            Method::Aim | Method::Mwem { cells: false, .. } => {
                aim::competing(&task.workload, MOST_CANDIDATES)?
            }
            Method::Mwem { cells: true, .. } | Method::SmallDatabase { .. } => alone(&task)?,
        };
        check_together(&task, &competing)?;
        match task.method {
            Method::Aim => check_aim(&task, &competing)?,
            Method::Mwem { cells, rounds } => check_mwem(&task, &competing, cells, rounds)?,
            Method::SmallDatabase { rows } => check_small(&task, &competing, rows)?,
        }
        Ok(Self { task, competing })
    }

    /// The cost of the whole plan, to be charged before the run.
    #[cfg(any(test, feature = "testing"))]
    pub fn spent(&self) -> super::task::SyntheticBudget {
        self.task.budget
    }

    /// The most bytes that counts and models take during a run, without the new rows. It does not
    /// depend on the private rows.
    pub fn bytes(&self) -> usize {
        let task = &self.task;
        let all = ColumnSet::new(0..task.sizes.len()).cells(&task.sizes);
        let cells = self.competing.iter().map(|(set, _)| set.cells(&task.sizes));
        // The kept counts, the tables to count with, and the model's answers: two marginals, paths
        // through the model, and a table on the way.
        let held = cells.clone().fold(0, usize::saturating_add).min(task.most_held);
        let largest = cells.fold(0, usize::max).max(task.most_held.min(all));
        let counted = held.saturating_mul(2);
        let scoring = counted.saturating_add(largest.saturating_mul(4)).saturating_mul(8);
        let rounds = |rounds: u32| usize::try_from(rounds).unwrap_or(usize::MAX);
        let model = match task.method {
            // The tables of a step and of the one before, the kept models, and for each measurement
            // the cells of a table.
            Method::Aim => {
                let tables = task.sizes.len().saturating_mul(2).saturating_add(12);
                task.most_bytes.saturating_mul(tables)
            }
            Method::Mwem { cells: false, rounds: count } => {
                all.saturating_mul(rounds(count).saturating_mul(4).saturating_add(64))
            }
            Method::Mwem { cells: true, rounds: count } => {
                all.saturating_mul(rounds(count).saturating_mul(4).saturating_add(40))
            }
            Method::SmallDatabase { rows } => {
                let count = small::databases(all, rows, MOST_DATABASES).unwrap_or(MOST_DATABASES);
                count.saturating_mul(32)
            }
        };
        scoring.saturating_add(model)
    }

    /// Makes the rows.
    ///
    /// # Guarantee
    /// The result, the time that it takes after the counting, and the counted sets are a function
    /// of the task and of released values. Together these values are as private as the budget of
    /// the task states.
    ///
    /// # Errors
    /// [`Failed`] when the rows cannot be counted, noise cannot be drawn, or `stop` returns that
    /// the statement is over.
    pub fn run(
        &self,
        counts: &dyn Count,
        rng: &mut QueryRng,
        progress: &mut dyn FnMut(Progress),
        stop: Stop<'_>,
    ) -> Result<Made, Failed> {
        let task = &self.task;
        let mut door = Door::new(task, counts, rng, stop);
        let released = self.release(&mut door, progress)?;
        let used_nano = door.used();
        drop(door);
        self.make(released, used_nano, rng, stop)
    }

    /// For a small database: the error of every count of the workload, compared with the best table
    /// of this size, at 95 %. Counts of the new rows are scaled to the number of private rows. The
    /// error exceeds that of the best table by at most this many rows: (R/ε)·ln(N/β)/m.
    pub fn beyond_best(&self) -> Option<f64> {
        let Method::SmallDatabase { rows } = self.task.method else { return None };
        let (task, mode) = (&self.task, Mode::from(self.task.budget));
        let cells = ColumnSet::new(0..task.sizes.len()).cells(&task.sizes);
        let count = small::databases(cells, rows, MOST_DATABASES)?;
        let range = small::range(rows).saturating_mul(task.sensitivity.l1().into());
        let chooser = Chooser::exponential(mode, range, task.budget.nano()).ok()?;
        let confidence = parse_decimal(MarginalError::CONFIDENCE)?;
        let beta = Rational::from_integer(1.into()) - confidence;
        let unit = f64::from(task.sensitivity.grid()).exp2();
        Some(chooser.error_at(count, &beta) / f64::from(rows) / unit)
    }

    /// The releases of the method.
    pub(super) fn release(
        &self,
        door: &mut Door<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Basis, Failed> {
        let (task, competing) = (&self.task, &self.competing);
        let total_nano = task.budget.nano();
        match task.method {
            Method::Aim => aim::run(task, competing, door, progress).map(Basis::Tables),
            Method::Mwem { cells, rounds } => {
                let outcome = mwem::run(task, competing, (cells, rounds), door, progress);
                outcome.map(Basis::Tables)
            }
            Method::SmallDatabase { rows } => {
                let sets: Vec<ColumnSet> = competing.iter().map(|(set, _)| set.clone()).collect();
                let number = *door.select_database(&sets, rows, total_nano)?.get();
                progress(Progress { round: 1, used_nano: door.used(), total_nano });
                let cells = ColumnSet::new(0..task.sizes.len()).cells(&task.sizes);
                small::nth(cells, rows, number).map(Basis::Rows).ok_or(Failed::Fault)
            }
        }
    }

    /// Makes rows from the released values.
    pub(super) fn make(
        &self,
        released: Basis,
        used_nano: u64,
        rng: &mut QueryRng,
        stop: Stop<'_>,
    ) -> Result<Made, Failed> {
        check(stop)?;
        let task = &self.task;
        let outcome = match released {
            Basis::Tables(outcome) => outcome,
            Basis::Rows(cells) => {
                let columns = codes(&cells, &task.sizes);
                let total = cells.len().to_f64().unwrap_or(0.0);
                return Ok(Made { columns, errors: Vec::new(), total, rounds: 1, used_nano });
            }
        };
        let total = outcome.total / f64::from(task.sensitivity.grid()).exp2();
        let most = u64::try_from(task.most_rows).unwrap_or(u64::MAX);
        let count = task.rows.unwrap_or_else(|| total.round().to_u64().unwrap_or(0)).min(most);
        let count = count.to_usize().unwrap_or(task.most_rows);
        let columns = rows(&outcome.tables, &task.sizes, count, rng);
        check(stop)?;
        let errors = bounds(task, &self.competing, &outcome, &columns, stop)?;
        Ok(Made { columns, errors, total, rounds: outcome.count, used_nano })
    }
}

/// The source of the rows.
pub(super) enum Basis {
    /// Tables to draw rows from.
    Tables(super::outcome::MethodOutcome),
    /// The rows themselves, each as its cell among all combinations of codes.
    Rows(Vec<usize>),
}

/// The codes of cells, for each column.
fn codes(cells: &[usize], sizes: &[usize]) -> Vec<Vec<u16>> {
    let code = |cell: &usize, column: usize| {
        let behind: usize = sizes.iter().skip(column + 1).product();
        let size = sizes.get(column).copied().unwrap_or(1).max(1);
        u16::try_from(cell / behind.max(1) % size).unwrap_or(0)
    };
    (0..sizes.len()).map(|column| cells.iter().map(|cell| code(cell, column)).collect()).collect()
}

/// The sets of the workload, without duplicates, each with the weight 1.
fn alone(task: &SyntheticTask) -> Result<Competing, Unfit> {
    let mut sets: Vec<ColumnSet> = task.workload.iter().map(|(set, _)| set.clone()).collect();
    sets.sort_unstable();
    sets.dedup();
    if sets.len() > MOST_CANDIDATES {
        return Err(Unfit::TooManyCandidates { most: MOST_CANDIDATES });
    }
    Ok(sets.into_iter().map(|set| (set, 1)).collect())
}

/// Checks that all columns and all sets of the workload can be counted.
fn check_columns(task: &SyntheticTask) -> Result<(), Unfit> {
    if task.sizes.is_empty() || task.workload.iter().all(|(set, _)| set.len() == 0) {
        return Err(Unfit::NoColumns);
    }
    if task.sizes.len() > MOST_COLUMNS {
        return Err(Unfit::TooManyColumns { most: MOST_COLUMNS });
    }
    for (column, codes) in task.sizes.iter().copied().enumerate() {
        if codes == 0 || codes > MOST_CODES {
            return Err(Unfit::Codes { column, codes, most: MOST_CODES });
        }
    }
    for (set, weight) in &task.workload {
        if let Some(column) = set.as_slice().iter().find(|column| **column >= task.sizes.len()) {
            return Err(Unfit::NoSuchColumn { column: *column });
        }
        if set.cells(&task.sizes) > MOST_CELLS {
            return Err(Unfit::TooManyCells { columns: set.clone(), most: MOST_CELLS });
        }
        if *weight == 0 || *weight > 1_000_000 {
            return Err(Unfit::Zero);
        }
    }
    Ok(())
}

/// Checks that a model can answer all competing sets at once. Otherwise the error has the number of
/// sets that would fit, counted from the first.
fn check_together(task: &SyntheticTask, competing: &Competing) -> Result<(), Unfit> {
    let mut cells = 0_usize;
    for (most, (set, _)) in competing.iter().enumerate() {
        cells = cells.saturating_add(set.cells(&task.sizes));
        if cells > MOST_CELLS_TOGETHER {
            return Err(Unfit::TooManyCandidates { most });
        }
    }
    Ok(())
}

/// Checks that the budget suffices for the rounds, and that the smallest model is not too large.
fn check_aim(task: &SyntheticTask, competing: &Competing) -> Result<(), Unfit> {
    let needed = Tree::new(&task.sizes, std::iter::empty::<&ColumnSet>()).cells(&task.sizes) * 8;
    if needed > task.most_bytes {
        return Err(Unfit::TooLarge { needed, most: task.most_bytes });
    }
    let mode = Mode::from(task.budget);
    let least_nano = Schedule::least(task.sizes.len());
    let schedule = Schedule::new(task.budget.nano(), task.sizes.len(), mode);
    let schedule = schedule.ok_or(Unfit::BudgetTooSmall { least_nano })?;
    let weights = competing.iter().map(|(_, weight)| *weight);
    let select = schedule.first() / 10;
    check_noise(task, range(weights, task.sensitivity), schedule.first(), select)
}

/// Checks that the domain is small enough, and that the budget suffices for the rounds.
fn check_mwem(
    task: &SyntheticTask,
    competing: &Competing,
    cells: bool,
    rounds: u32,
) -> Result<(), Unfit> {
    let all = ColumnSet::new(0..task.sizes.len());
    if all.cells(&task.sizes) > MOST_CELLS {
        return Err(Unfit::TooManyCells { columns: all, most: MOST_CELLS });
    }
    if rounds == 0 {
        return Err(Unfit::Zero);
    }
    // All cells of all sets compete at once.
    let all_cells = competing.iter().map(|(set, _)| set.cells(&task.sizes));
    if cells && all_cells.fold(0, usize::saturating_add) > MOST_CELLS {
        return Err(Unfit::TooManyCandidates { most: MOST_CELLS });
    }
    let parts = RunShares::new(task.budget.nano(), rounds);
    let parts = parts.ok_or(Unfit::BudgetTooSmall { least_nano: RunShares::least(rounds) })?;
    let weights = competing.iter().map(|(_, weight)| *weight);
    check_noise(
        task,
        range(weights, task.sensitivity),
        parts.total.min(parts.measure),
        parts.select,
    )
}

/// Checks that there are few enough tables of this many rows.
fn check_small(task: &SyntheticTask, competing: &Competing, rows: u32) -> Result<(), Unfit> {
    if rows == 0 {
        return Err(Unfit::Zero);
    }
    let cells = ColumnSet::new(0..task.sizes.len()).cells(&task.sizes);
    let scored = competing.iter().map(|(set, _)| set.cells(&task.sizes));
    // Each small database is scored row by row, for each set.
    let by_row = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(competing.len());
    let scored = scored.fold(by_row, usize::saturating_add);
    let count = small::databases(cells, rows, MOST_DATABASES)
        .filter(|count| count.saturating_mul(scored) <= MOST_SCORED);
    if count.is_none() {
        return Err(Unfit::TooManyDatabases { rows, most: MOST_DATABASES });
    }
    if task.budget.nano() == 0 {
        return Err(Unfit::BudgetTooSmall { least_nano: 1 });
    }
    let range = small::range(rows).saturating_mul(task.sensitivity.l1().into());
    let chooser = Chooser::exponential(task.budget.into(), range, task.budget.nano());
    chooser.map(|_| ()).map_err(|_| Unfit::NoiseTooLarge)
}

/// Checks that noise and choices at these shares, the smallest ones, can be drawn.
fn check_noise(task: &SyntheticTask, range: u128, measure: u64, select: u64) -> Result<(), Unfit> {
    let mode = Mode::from(task.budget);
    let noise = Noise::calibrate(mode, task.sensitivity, measure);
    let chooser = Chooser::calibrate(mode, range, select.max(1));
    if noise.is_ok() && chooser.is_ok() { Ok(()) } else { Err(Unfit::NoiseTooLarge) }
}
