//! What an answer is worth: compared with plain SQL without noise, and with its own noise.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use hushql::{AccuracyKind, Answer};

/// An error of a quarter of the answer is the most that is useful.
const MOST: f64 = 0.25;

/// How often a column without a ± is asked for.
///
/// A question whose typical error is a tenth of what is allowed fails all six times with a
/// probability of at most 10⁻⁷, even where its error has the tails of a quotient (Cauchy: 0.064⁶);
/// with those of Laplace noise, 10⁻¹⁸. A question whose typical error is ten times as much passes
/// all six times as rarely.
pub(super) const TRIES: usize = 6;

#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Null,
    Number(f64),
    Text(String),
}

impl Cell {
    fn magnitude(&self) -> f64 {
        match self {
            Self::Number(number) => number.abs(),
            Self::Null | Self::Text(_) => 0.0,
        }
    }

    /// Whether an empty group may have this cell: nothing, but for noise of this size.
    fn is_nothing(&self, noise: f64) -> bool {
        !matches!(self, Self::Text(_)) && self.magnitude() <= noise
    }

    /// How far a cell is from the true one, as a share of that.
    fn error(&self, truth: &Self) -> f64 {
        match (self, truth) {
            (Self::Number(a), Self::Number(b)) if a.total_cmp(b).is_eq() => 0.0,
            (Self::Number(a), Self::Number(b)) => ((a - b) / b).abs(),
            _ if self == truth => 0.0,
            _ => f64::INFINITY,
        }
    }
}

/// An answer, cell by cell.
#[derive(Debug)]
pub(super) struct Table {
    is_number: Vec<bool>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn from_batches(batches: &[RecordBatch]) -> Self {
        let Some(first) = batches.first() else {
            return Self { is_number: Vec::new(), rows: Vec::new() };
        };
        let fields = first.schema();
        let is_number = fields.fields().iter().map(|f| f.data_type().is_numeric()).collect();
        let mut rows = Vec::new();
        for batch in batches {
            let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells).collect();
            rows.extend((0..batch.num_rows()).map(|row| {
                columns.iter().map(|column| column[row].clone()).collect::<Vec<Cell>>()
            }));
        }
        Self { is_number, rows }
    }

    /// How many of the first columns name the rows: the fewest in which no two rows are equal, and
    /// what is no number behind them.
    pub(super) fn keys(&self) -> usize {
        let width = self.is_number.len();
        let names_rows = |keys: &usize| {
            let names: BTreeSet<String> = self.rows.iter().map(|row| name(&row[..*keys])).collect();
            names.len() == self.rows.len()
        };
        let keys = (0..width).find(names_rows).unwrap_or(width);
        keys + self.is_number[keys..].iter().take_while(|is_number| !**is_number).count()
    }

    /// The largest number of each column.
    fn magnitudes(&self) -> Vec<f64> {
        let largest =
            |column: usize| self.rows.iter().map(|row| row[column].magnitude()).fold(0.0, f64::max);
        (0..self.is_number.len()).map(largest).collect()
    }

    fn by_name(&self, keys: usize) -> BTreeMap<String, &[Cell]> {
        self.rows.iter().map(|row| (name(&row[..keys.min(row.len())]), row.as_slice())).collect()
    }
}

fn name(cells: &[Cell]) -> String {
    format!("{cells:?}")
}

fn cells(column: &ArrayRef) -> Vec<Cell> {
    if column.data_type().is_numeric() {
        let numbers = cast(column, &DataType::Float64).unwrap();
        let numbers = numbers.as_primitive::<Float64Type>();
        let cell = |number: Option<f64>| match number {
            Some(number) if !number.is_nan() => Cell::Number(number + 0.0),
            _ => Cell::Null,
        };
        return numbers.iter().map(cell).collect();
    }
    let cell = |row| match column.is_null(row) {
        true => Cell::Null,
        false => {
            let text = array_value_to_string(column, row).unwrap();
            // A day is the same as a date and as a time.
            Cell::Text(text.strip_suffix("T00:00:00").unwrap_or(&text).to_owned())
        }
    };
    (0..column.len()).map(cell).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// What is known of a column before it is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stated {
    /// Its ±, in the median row and in the worst one.
    Within {
        typical: f64,
        worst: f64,
    },
    /// The ± that it was drawn with: the column itself decides which rows are shown, so that it has
    /// none.
    Drawn(f64),
    Nothing,
}

impl Stated {
    /// How far a cell of an answer without noise may be from one of this size. What noise there is
    /// exceeds ten times its 95 % with a probability of e⁻³⁰ (Laplace). A column without ± is
    /// computed from others, or it is a quantile, which is defined in several ways.
    fn slack(self, size: f64) -> f64 {
        match self {
            Self::Within { worst: noise, .. } | Self::Drawn(noise) => 10.0 * noise + 1e-9 * size,
            Self::Nothing => 1e-2 * size,
        }
    }
}

/// What an answer states of each of its columns.
pub(super) fn stated(answer: &Answer) -> Vec<Stated> {
    let schema = answer.schema();
    let of = |(column, field): (usize, &String)| {
        let mut own = answer.accuracy().iter().filter(|accuracy| accuracy.column == *field);
        match own.next() {
            Some(accuracy) if accuracy.kind == AccuracyKind::Within => {
                let mut errors: Vec<f64> = answer.errors(column).flatten().collect();
                errors.sort_by(f64::total_cmp);
                let typical = errors.get(errors.len() / 2).copied().unwrap_or(accuracy.value);
                Stated::Within { typical, worst: accuracy.value }
            }
            Some(accuracy) if accuracy.kind == AccuracyKind::Drawn => Stated::Drawn(accuracy.value),
            _ => Stated::Nothing,
        }
    };
    schema.fields().iter().map(|field| field.name()).enumerate().map(of).collect()
}

/// Where an answer without noise differs from that of plain SQL, if anywhere. Rows that plain SQL
/// lacks are empty groups. Where the statement itself has bounds that cut, the median cell is near.
pub(super) fn difference(
    exact: &Table,
    plain: &Table,
    stated: &[Stated],
    cuts: bool,
) -> Option<String> {
    let width = plain.is_number.len();
    if exact.is_number.len() != width && !exact.rows.is_empty() {
        return Some(format!("{width} columns, and not {}", exact.is_number.len()));
    }
    let (keys, magnitudes) = (plain.keys(), plain.magnitudes());
    let (exact, plain) = (exact.by_name(keys), plain.by_name(keys));
    if cuts {
        let far = |column: &usize| !is_small(median(errors(&exact, &plain, *column)));
        return (keys..width).find(far).map(|column| format!("column {column} is cut too much"));
    }
    let same = |row: &[Cell], truth: &[Cell]| {
        (keys..width).all(|i| match (&row[i], &truth[i]) {
            (Cell::Number(a), Cell::Number(b)) => (a - b).abs() <= stated[i].slack(b.abs()),
            (cell, truth) => cell == truth,
        })
    };
    for (name, truth) in &plain {
        match exact.get(name) {
            None => return Some(format!("no row of {name}")),
            Some(row) if !same(row, truth) => return Some(format!("{row:?}, and not {truth:?}")),
            Some(_) => {}
        }
    }
    let made_up = |(name, row): &(&String, &&[Cell])| {
        !plain.contains_key(*name)
            && !(keys..width).all(|i| row[i].is_nothing(stated[i].slack(magnitudes[i])))
    };
    exact.iter().find(made_up).map(|(_, row)| format!("{row:?} is made up"))
}

/// Whether more groups come out empty than with rows.
pub(super) fn is_mostly_empty(exact: &Table, plain: &Table) -> bool {
    exact.rows.len() > 2 * plain.rows.len()
}

/// The errors of a column, cell by cell; a row that one of the two lacks is as far off as can be.
fn errors(
    rows: &BTreeMap<String, &[Cell]>,
    plain: &BTreeMap<String, &[Cell]>,
    column: usize,
) -> Vec<f64> {
    let names: BTreeSet<&String> = rows.keys().chain(plain.keys()).collect();
    let error = |name: &String| match (rows.get(name), plain.get(name)) {
        (Some(row), Some(truth)) => row[column].error(&truth[column]),
        _ => f64::INFINITY,
    };
    names.into_iter().map(error).collect()
}

/// The typical error of each column that is no key, as its ± predicts it; `None` for a column
/// without.
pub(super) fn predicted(exact: &Table, plain: &Table, stated: &[Stated]) -> Vec<Option<f64>> {
    let keys = plain.keys();
    let truths = plain.by_name(keys);
    let of = |(column, stated): (usize, &Stated)| {
        let Stated::Within { typical: within, .. } = stated else { return None };
        let rows = exact.rows.iter().map(|row| match truths.get(&name(&row[..keys])) {
            Some(truth) => match truth[column] {
                Cell::Number(truth) => (within / truth).abs(),
                _ => f64::INFINITY,
            },
            None => f64::INFINITY,
        });
        Some(median(rows.collect()))
    };
    stated.iter().enumerate().skip(keys).map(of).collect()
}

/// The typical error of each column that is no key, in one answer with noise.
pub(super) fn seen(noisy: &Table, plain: &Table) -> Vec<f64> {
    let keys = plain.keys();
    let width = plain.is_number.len();
    if noisy.is_number.len() != width {
        return vec![f64::INFINITY; width - keys];
    }
    let (noisy, plain) = (noisy.by_name(keys), plain.by_name(keys));
    (keys..width).map(|column| median(errors(&noisy, &plain, column))).collect()
}

pub(super) fn is_small(error: f64) -> bool {
    error < MOST
}

mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn table(rows: &[(&str, i64)]) -> Table {
        let names: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>());
        let counts: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
        Table::from_batches(&[RecordBatch::try_from_iter([("a", names), ("n", counts)]).unwrap()])
    }

    fn within(noise: f64) -> [Stated; 2] {
        [Stated::Nothing, Stated::Within { typical: noise, worst: noise }]
    }

    /// The rows come in any order, and groups without rows may be among them; nothing else may
    /// differ.
    #[test]
    fn other_answers_are_noticed() {
        let plain = table(&[("x", 100), ("y", 200), ("z", 300)]);
        assert_eq!(plain.keys(), 1);
        let differs =
            |rows: &[(&str, i64)]| difference(&table(rows), &plain, &within(0.01), false).is_some();
        assert!(!differs(&[("z", 300), ("x", 100), ("y", 200), ("w", 0)]));
        assert!(differs(&[("z", 300), ("x", 101), ("y", 200)]));
        assert!(differs(&[("z", 300), ("y", 200)]));
        assert!(differs(&[("z", 300), ("x", 100), ("y", 200), ("w", 1)]));
        assert!(is_mostly_empty(
            &table(&[("a", 0), ("b", 0), ("c", 0), ("x", 1)]),
            &table(&[("x", 1)])
        ));
    }

    /// A ± of 30 is 15 % of the median cell, 200; where more cells are empty, of an empty one. An
    /// answer is judged by its median cell, too.
    #[test]
    fn noise_is_measured_in_the_median_cell() {
        let plain = table(&[("x", 10), ("y", 200), ("z", 300)]);
        assert_eq!(predicted(&plain, &plain, &within(30.0)), [Some(0.15)]);
        let empty = table(&[("x", 10), ("y", 200), ("z", 300), ("v", 0), ("w", 0)]);
        assert!(!predicted(&empty, &plain, &within(30.0))[0].is_some_and(is_small));
        let seen = |rows: &[(&str, i64)]| seen(&table(rows), &plain)[0];
        assert!(is_small(seen(&[("x", 90), ("y", 190), ("z", 310)])));
        assert!(!is_small(seen(&[("x", 90), ("y", 290), ("z", 310)])));
        assert!(!is_small(seen(&[("y", 200)])));
    }
}
