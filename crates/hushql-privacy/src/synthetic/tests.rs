//! The room as a whole: released values decide everything, noiseless runs reproduce their table,
//! and bounds hold.

use std::collections::BTreeSet;

use super::columns::{ColumnSet, Count, CountError, index};
use super::door::{Door, Told};
use super::made::{Made, Progress};
use super::noise::Noise;
use super::outcome::Answered;
use super::plan::{Basis, SyntheticPlan};
use super::task::{MOST_CODES, Method, Sensitivity, SyntheticBudget, SyntheticTask, Unfit};
use crate::sampler::{QueryRng, Uniform};

/// Counts of all combinations of codes.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) sizes: Vec<usize>,
    pub(super) cells: Vec<i64>,
}

impl Rows {
    pub(super) fn onto(&self, set: &ColumnSet) -> Vec<i64> {
        let all: Vec<usize> = (0..self.sizes.len()).collect();
        let mut counts = vec![0; set.cells(&self.sizes)];
        for (count, cell) in self.cells.iter().zip(index(&all, set.as_slice(), &self.sizes)) {
            counts[cell as usize] += count;
        }
        counts
    }

    /// The counts of new rows.
    fn of(columns: &[Vec<u16>], sizes: &[usize]) -> Self {
        let mut cells = vec![0; sizes.iter().product()];
        for row in 0..columns[0].len() {
            let cell = columns.iter().zip(sizes).fold(0, |cell, (codes, size)| {
                assert!(usize::from(codes[row]) < *size);
                cell * size + usize::from(codes[row])
            });
            cells[cell] += 1;
        }
        Self { sizes: sizes.to_vec(), cells }
    }

    /// Rows whose second column mostly follows the first one.
    fn some(count: u64) -> Self {
        let (sizes, mut rng) = (vec![3, 4, 2], QueryRng::seeded_for_tests(7));
        let mut cells = vec![0; 24];
        for _ in 0..count {
            let first = rng.below_u64(4).min(2);
            let second = if rng.below_u64(4) == 0 { rng.below_u64(4) } else { first };
            cells[((first * 4 + second) * 2 + rng.below_u64(3) / 2) as usize] += 1;
        }
        Self { sizes, cells }
    }

    fn distance(&self, other: &Self) -> i64 {
        self.cells.iter().zip(&other.cells).map(|(a, b)| (a - b).abs()).sum()
    }
}

impl Count for Rows {
    fn count(&self, sets: &[ColumnSet]) -> Result<Vec<Vec<i64>>, CountError> {
        Ok(sets.iter().map(|set| self.onto(set)).collect())
    }
}

const PURE: SyntheticBudget = SyntheticBudget::Pure { epsilon_nano: 2_000_000_000 };
const CONCENTRATED: SyntheticBudget = SyntheticBudget::Concentrated { rho_nano: 500_000_000 };

pub(super) fn task(
    sizes: &[usize],
    size: usize,
    method: Method,
    budget: SyntheticBudget,
) -> SyntheticTask {
    SyntheticTask {
        sizes: sizes.to_vec(),
        workload: SyntheticTask::all_sets(sizes, size).unwrap(),
        method,
        budget,
        sensitivity: Sensitivity::rows(1),
        most_bytes: 1 << 20,
        most_held: 1 << 22,
        rows: None,
        most_rows: 1 << 20,
        most_time: None,
    }
}

fn methods() -> Vec<(Method, SyntheticBudget)> {
    let mut all = Vec::new();
    for budget in [PURE, CONCENTRATED] {
        all.extend([
            (Method::Aim, budget),
            (Method::Mwem { cells: true, rounds: 3 }, budget),
            (Method::Mwem { cells: false, rounds: 3 }, budget),
            (Method::SmallDatabase { rows: 3 }, budget),
        ]);
    }
    all
}

/// The questions of a run, its progress, the used budget, and its result.
type Seen = (Vec<Vec<(ColumnSet, Vec<i64>)>>, Vec<Progress>, u64, Made);

fn replayed(task: &SyntheticTask, rows: &Rows, told: Vec<Told>) -> Seen {
    let plan = SyntheticPlan::new(task.clone()).unwrap();
    let mut door = Door::replaying(task, rows, told);
    let mut said = Vec::new();
    let basis = plan.release(&mut door, &mut |progress| said.push(progress)).unwrap();
    let made =
        plan.make(basis, door.used(), &mut QueryRng::seeded_for_tests(3), &|| false).unwrap();
    (std::mem::take(&mut door.log.asked), said, door.used(), made)
}

/// The releases of another run, replayed on neighbouring rows, give the same candidates, rounds,
/// sizes, rows and bounds.
#[test]
fn released_values_decide_everything() {
    let rows = Rows::some(60);
    let empty = rows.cells.iter().position(|count| *count == 0).unwrap();
    let full = rows.cells.iter().position(|count| *count > 3).unwrap();
    for (method, budget) in methods() {
        let task = task(&rows.sizes, 2, method, budget);
        let plan = SyntheticPlan::new(task.clone()).unwrap();
        let mut rng = QueryRng::seeded_for_tests(11);
        let mut door = Door::new(&task, &rows, &mut rng, &|| false);
        plan.release(&mut door, &mut |_| {}).unwrap();
        let told = std::mem::take(&mut door.log.told);
        assert!(!told.is_empty());
        let seen = replayed(&task, &rows, told.clone());
        for (cell, more) in [(empty, 1), (full, -1), (full, 1)] {
            let mut other = rows.clone();
            other.cells[cell] += more;
            assert_eq!(seen, replayed(&task, &other, told.clone()), "{method:?} {budget:?}");
        }
        let mut none = rows.clone();
        none.cells.iter_mut().for_each(|count| *count = 0);
        assert_eq!(seen, replayed(&task, &none, told), "{method:?} {budget:?}");
    }
}

/// Without noise, tables of independent columns and of chains are reproduced.
#[test]
fn exact_answers_reproduce_independent_columns_and_chains() {
    let mut independent = Rows { sizes: vec![2, 3, 2], cells: Vec::new() };
    for (a, b, c) in [3, 1]
        .iter()
        .flat_map(|a| [2, 1, 1].map(|b| (a, b)))
        .flat_map(|(a, b)| [5, 3].map(|c| (a, b, c)))
    {
        independent.cells.push(a * b * c * 500);
    }
    let mut chain = Rows { sizes: vec![2, 2, 2, 2], cells: Vec::new() };
    for cell in 0..16_u32 {
        let bits = [cell >> 3, cell >> 2, cell >> 1, cell].map(|bit| bit & 1);
        let stays = bits.windows(2).filter(|pair| pair[0] == pair[1]).count() as u32;
        let first = if bits[0] == 0 { 3 } else { 1 };
        chain.cells.push(first * 3_i64.pow(stays) * 500);
    }
    for rows in [independent, chain] {
        for budget in [
            SyntheticBudget::Pure { epsilon_nano: 1_000_000_000_000 },
            SyntheticBudget::Concentrated { rho_nano: 1_000_000_000_000 },
        ] {
            let task = task(&rows.sizes, 2, Method::Aim, budget);
            let plan = SyntheticPlan::new(task.clone()).unwrap();
            let mut door = Door::exact(&task, &rows);
            let basis = plan.release(&mut door, &mut |_| {}).unwrap();
            let made = plan
                .make(basis, door.used(), &mut QueryRng::seeded_for_tests(1), &|| false)
                .unwrap();
            let total: i64 = rows.cells.iter().sum();
            assert_eq!(made.columns[0].len(), total as usize);
            let off = Rows::of(&made.columns, &rows.sizes).distance(&rows);
            assert!(off * 100 <= total * 2, "{budget:?}: {off} of {total}");
        }
    }
}

/// Errors exceed their bounds in no more runs than stated, and in far fewer, since most bounds are
/// loose.
#[test]
fn bounds_hold() {
    let rows = Rows::some(3_000);
    for (method, budget) in methods() {
        let task = task(&rows.sizes, 2, method, budget);
        let plan = SyntheticPlan::new(task).unwrap();
        let (mut wrong, mut all, mut loose) = (0, 0, 0);
        for seed in 0..60 {
            let mut rng = QueryRng::seeded_for_tests(seed);
            let made = plan.run(&rows, &mut rng, &mut |_| {}, &|| false).unwrap();
            let other = Rows::of(&made.columns, &rows.sizes);
            let scale = made.total / made.columns[0].len() as f64;
            for error in &made.errors {
                let pairs = rows.onto(&error.columns).into_iter().zip(other.onto(&error.columns));
                let off: f64 = pairs.map(|(a, b)| (a as f64 - b as f64 * scale).abs()).sum();
                all += 1;
                wrong += i32::from(off > error.bound);
                loose += i32::from(error.bound > 2.0 * 3_000.0);
            }
        }
        assert!(wrong * 50 <= all, "{method:?} {budget:?}: {wrong} of {all}");
        let small = matches!(method, Method::SmallDatabase { .. });
        assert_eq!(all == 0, small, "{method:?}");
        let cells = matches!(method, Method::Mwem { cells: true, .. });
        assert!(cells || loose == 0, "{method:?} {budget:?}: {loose} of {all} say nothing");
    }
}

#[test]
fn runs_spend_what_was_charged_and_no_more() {
    let rows = Rows::some(500);
    for (method, budget) in methods() {
        let plan = SyntheticPlan::new(task(&rows.sizes, 2, method, budget)).unwrap();
        assert_eq!(plan.spent(), budget);
        let mut last = 0;
        let mut rng = QueryRng::seeded_for_tests(5);
        let made = plan.run(
            &rows,
            &mut rng,
            &mut |progress| {
                assert!(progress.used_nano >= last && progress.used_nano <= progress.total_nano);
                last = progress.used_nano;
            },
            &|| false,
        );
        let made = made.unwrap();
        assert!(made.used_nano == last && last <= budget.nano() && last > budget.nano() / 10 * 9);
        assert_eq!(made.columns.len(), 3);
    }
    // With one column, or one-column marginals alone, nothing is chosen.
    for (sizes, size) in [(vec![4], 1), (vec![3, 4, 2], 1)] {
        let rows = if sizes.len() == 1 {
            Rows { sizes: vec![4], cells: vec![50, 0, 3, 9] }
        } else {
            rows.clone()
        };
        let plan = SyntheticPlan::new(task(&sizes, size, Method::Aim, PURE)).unwrap();
        let made =
            plan.run(&rows, &mut QueryRng::seeded_for_tests(5), &mut |_| {}, &|| false).unwrap();
        assert_eq!((made.rounds, made.errors.len()), (0, sizes.len()));
        assert!(made.used_nano <= PURE.nano() && made.used_nano > PURE.nano() - 3);
    }
}

/// The number of rows is the requested one, or the noisy number: an empty table has about none.
#[test]
fn rows_are_as_many_as_said() {
    let rows = Rows::some(500);
    let mut given = task(&rows.sizes, 2, Method::Aim, CONCENTRATED);
    given.rows = Some(77);
    let plan = SyntheticPlan::new(given).unwrap();
    let made = plan.run(&rows, &mut QueryRng::seeded_for_tests(5), &mut |_| {}, &|| false).unwrap();
    assert_eq!(made.columns[0].len(), 77);
    let none = Rows { cells: vec![0; 24], ..rows };
    let plan = SyntheticPlan::new(task(&none.sizes, 2, Method::Aim, CONCENTRATED)).unwrap();
    let made = plan.run(&none, &mut QueryRng::seeded_for_tests(5), &mut |_| {}, &|| false).unwrap();
    assert!(made.columns[0].len() < 40 && made.total >= 1.0);
}

/// If the rows of persons are weighed, the total is a number of persons.
#[test]
fn persons_are_weighed() {
    let person = Sensitivity::person(Some(50));
    assert_eq!((person.l1(), person.l2(), person.grid()), (1 << 10, 1 << 10, 10));
    assert_eq!((person.weight(1), person.weight(50), person.weight(0)), (1 << 10, 20, 0));
    for rows in 1..=50 {
        assert!(person.weight(rows) * rows as i64 <= 1 << 10 && person.weight(rows) > 0);
    }
    assert_eq!(Sensitivity::person(Some(1)).grid(), 4);
    assert_eq!(Sensitivity::person(None).grid(), 20);
    let mut rows = Rows::some(500);
    rows.cells.iter_mut().for_each(|count| *count *= 1 << 10);
    let task =
        SyntheticTask { sensitivity: person, ..task(&rows.sizes, 2, Method::Aim, CONCENTRATED) };
    let plan = SyntheticPlan::new(task).unwrap();
    let made = plan.run(&rows, &mut QueryRng::seeded_for_tests(5), &mut |_| {}, &|| false).unwrap();
    assert!((made.total - 500.0).abs() < 25.0 && made.columns[0].len().abs_diff(500) < 25);
}

#[test]
fn what_does_not_fit_is_refused_before() {
    let of = |sizes: &[usize], method, budget| {
        SyntheticPlan::new(task(sizes, 2, method, budget)).map(|_| ())
    };
    assert_eq!(of(&[], Method::Aim, PURE), Err(Unfit::NoColumns));
    let codes = Unfit::Codes { column: 1, codes: MOST_CODES + 1, most: MOST_CODES };
    assert_eq!(of(&[2, MOST_CODES + 1], Method::Aim, PURE), Err(codes));
    let tiny = SyntheticBudget::Pure { epsilon_nano: 20 };
    assert_eq!(of(&[2, 2], Method::Aim, tiny), Err(Unfit::BudgetTooSmall { least_nano: 80 }));
    let mwem = Method::Mwem { cells: true, rounds: 8 };
    let ten = SyntheticBudget::Pure { epsilon_nano: 10 };
    assert!(matches!(of(&[2, 2], mwem, ten), Err(Unfit::BudgetTooSmall { .. })));
    assert!(matches!(of(&[100, 101, 100], mwem, PURE), Err(Unfit::TooManyCells { .. })));
    let rows = Method::SmallDatabase { rows: 9 };
    assert!(matches!(of(&[4, 4], rows, PURE), Err(Unfit::TooManyDatabases { rows: 9, .. })));
    assert_eq!(of(&[4, 4], Method::SmallDatabase { rows: 0 }, PURE), Err(Unfit::Zero));
    let large = SyntheticTask { most_bytes: 31, ..task(&[2, 2], 2, Method::Aim, PURE) };
    assert!(matches!(SyntheticPlan::new(large), Err(Unfit::TooLarge { needed: 32, most: 31 })));
    let mut wrong = task(&[2, 2], 2, Method::Aim, PURE);
    wrong.workload.push((ColumnSet::new([0, 2]), 1));
    assert!(matches!(SyntheticPlan::new(wrong), Err(Unfit::NoSuchColumn { column: 2 })));
    let sizes = [1_000, 1_001];
    let sets = vec![(ColumnSet::new([0, 1]), 1)];
    let wide = SyntheticTask { workload: sets, ..task(&sizes, 1, Method::Aim, PURE) };
    assert!(matches!(SyntheticPlan::new(wide), Err(Unfit::TooManyCells { .. })));
    let many = SyntheticPlan::new(task(&[300; 40], 2, Method::Aim, PURE)).map(|_| ());
    assert!(matches!(many, Err(Unfit::TooManyCandidates { most: 300..=500 })), "{many:?}");
    let noisy = SyntheticTask {
        sensitivity: Sensitivity::rows(1 << 60),
        ..task(&[2, 2], 2, Method::Aim, PURE)
    };
    assert!(matches!(SyntheticPlan::new(noisy), Err(Unfit::NoiseTooLarge)));
}

#[test]
fn sets_of_columns() {
    let sets = SyntheticTask::all_sets(&[2; 14], 2).unwrap();
    let different: BTreeSet<&ColumnSet> = sets.iter().map(|(set, _)| set).collect();
    assert_eq!((sets.len(), different.len()), (91, 91));
    assert_eq!(SyntheticTask::all_sets(&[2; 4], 3).unwrap().len(), 4);
    assert_eq!(SyntheticTask::all_sets(&[2; 4], 9).unwrap().len(), 1);
    assert_eq!(
        SyntheticTask::all_sets(&[1_000, 1_000, 3], 2).unwrap().len(),
        2,
        "a million cells are left out"
    );
    assert!(SyntheticTask::all_sets(&[2; 100], 4).is_err());
    assert_eq!(index(&[0, 1], &[1], &[2, 3]), [0, 1, 2, 0, 1, 2]);
    assert_eq!(index(&[0, 1], &[1, 0], &[2, 3]), [0, 2, 4, 1, 3, 5]);
}

/// AUTO under (1, 10⁻⁹) is pure up to six columns.
#[test]
fn few_columns_are_pure() {
    let auto = |columns| SyntheticBudget::auto(columns, 1_000_000_000, 14_973_057);
    assert_eq!(auto(6), SyntheticBudget::Pure { epsilon_nano: 1_000_000_000 });
    assert_eq!(auto(7), SyntheticBudget::Concentrated { rho_nano: 14_973_057 });
}

/// How well the releases of a run distinguish two tables: the log-likelihood ratio of the noisy
/// counts between the first table and the second. For a small database: the number of its rows that
/// only the first table has.
fn evidence(
    task: &SyntheticTask,
    counts: &Rows,
    (with, without): (&Rows, &Rows),
    seed: u64,
) -> f64 {
    let plan = SyntheticPlan::new(task.clone()).unwrap();
    let mut rng = QueryRng::seeded_for_tests(seed);
    let mut door = Door::new(task, counts, &mut rng, &|| false);
    let outcome = match plan.release(&mut door, &mut |_| {}).unwrap() {
        Basis::Tables(outcome) => outcome,
        Basis::Rows(cells) => {
            let only = (0..with.cells.len()).find(|at| with.cells[*at] != without.cells[*at]);
            return cells.iter().filter(|cell| Some(**cell) == only).count() as f64;
        }
    };
    let of_one = |noise: &Noise, y: f64, (x, z): (f64, f64)| match noise {
        Noise::Laplace(_) => ((y - z).abs() - (y - x).abs()) / noise.mean_size(),
        Noise::Gaussian(_) => ((y - z).powi(2) - (y - x).powi(2)) / (2.0 * noise.variance()),
    };
    let mut sum = 0.0;
    for measured in &outcome.measured {
        let measured = measured.get();
        let (x, z) = (with.onto(&measured.columns), without.onto(&measured.columns));
        for ((y, x), z) in measured.values.iter().zip(x).zip(z) {
            sum += of_one(&measured.noise, *y as f64, (x as f64, z as f64));
        }
    }
    for round in &outcome.rounds {
        if let Answered::Cell { cell, value, measure } = round.measured {
            let columns = &round.candidates[round.chosen].columns;
            let (x, z) = (with.onto(columns)[cell], without.onto(columns)[cell]);
            let noise = door.noise(measure).unwrap();
            sum += of_one(&noise, value as f64, (x as f64, z as f64));
        }
    }
    sum
}

/// A bound of a share that fails with a probability of one in a million: Wilson's, with 4.9
/// standard errors.
fn share(hits: usize, of: usize, up: bool) -> f64 {
    let (n, z) = (of as f64, 4.9_f64);
    let p = hits as f64 / n;
    let middle = p + z * z / (2.0 * n);
    let width = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let bound = if up { middle + width } else { middle - width } / (1.0 + z * z / n);
    bound.clamp(1e-9, 1.0)
}

/// The least loss, ε or ρ, that the evidence of runs with and without the row proves.
fn lost(is_pure: bool, with: &[f64], without: &[f64]) -> f64 {
    // One half of the runs chooses the cut, the other half proves the loss.
    let half = with.len() / 2;
    let above = |all: &[f64], cut: f64| all.iter().filter(|x| **x > cut).count();
    let shown = |with: &[f64], without: &[f64], cut: f64| {
        let p = share(above(with, cut), with.len(), false);
        let q = share(above(without, cut), without.len(), true);
        if is_pure {
            return (p / q).ln();
        }
        let of_order = |a: f64| (a * p.ln() + (1.0 - a) * q.ln()) / (a - 1.0) / a;
        [1.2, 1.5, 2.0, 3.0, 5.0].map(of_order).into_iter().fold(f64::MIN, f64::max)
    };
    let cut = with[..half].iter().copied().max_by(|a, b| {
        let shown = |cut: f64| shown(&with[..half], &without[..half], cut);
        shown(*a - 1e-9).total_cmp(&shown(*b - 1e-9))
    });
    shown(&with[half..], &without[half..], cut.unwrap() - 1e-9)
}

/// Audits whole runs: a row of an otherwise empty cell is present, or it is not. The releases prove
/// no more than the charge. With a budget many times as large, they prove more than that charge.
#[test]
fn audits_prove_no_more_than_what_was_charged() {
    let rows = |cells: [i64; 4]| Rows { sizes: vec![2, 2], cells: cells.to_vec() };
    let pure = |times: u64| SyntheticBudget::Pure { epsilon_nano: times * 1_000_000_000 };
    let rho = |times: u64| SyntheticBudget::Concentrated { rho_nano: times * 500_000_000 };
    for (method, others, times) in [
        (Method::Aim, [3, 2, 2], 6),
        (Method::Mwem { cells: false, rounds: 2 }, [3, 2, 2], 6),
        // Only a few cells are measured, so the loss must be large to show.
        (Method::Mwem { cells: true, rounds: 2 }, [3, 2, 2], 40),
        // The one row of the result is of the most frequent kind.
        (Method::SmallDatabase { rows: 1 }, [0, 0, 0], 6),
    ] {
        let [a, b, c] = others;
        let (with, without) = (rows([a, b, c, 1]), rows([a, b, c, 0]));
        for (is_pure, charged, budgets) in
            [(true, 1.0, [pure(1), pure(times)]), (false, 0.5, [rho(1), rho(times)])]
        {
            let proved = budgets.map(|budget| {
                let task = task(&[2, 2], 2, method, budget);
                let runs = |counts: &Rows, first: u64| -> Vec<f64> {
                    let seeds = first..first + 3_000;
                    seeds.map(|seed| evidence(&task, counts, (&with, &without), seed)).collect()
                };
                lost(is_pure, &runs(&with, 0), &runs(&without, 10_000))
            });
            println!("{method:?}, charged {charged}: proved {proved:?}");
            assert!(proved[0] <= charged, "{method:?}: {proved:?}");
            assert!(proved[1] > charged, "{method:?}: {proved:?} with {times} times as much");
        }
    }
}
