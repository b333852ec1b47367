//! The rows of a stand-in: whose each is, its group, and its value.
//!
//! In: the batches of a query for single rows of a public table. Out: the rows in an order that
//! follows from them alone, however they were read: by person, and each person's groups in the
//! order of a hash, as bounds take them.

use std::collections::{BTreeSet, HashMap};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use super::calibrated::key_text;
use crate::dialect::tune_statement::{UNIT, VALUE};
use crate::engine::stream::AnswerStream;
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

/// The most rows of a stand-in.
const MOST_ROWS: usize = 4_000_000;

/// A row.
#[derive(Debug, Clone, Copy)]
pub(super) struct TriedRow {
    /// The number of the person, or of the row if each counts by itself.
    pub(super) person: u32,
    pub(super) group: u32,
    /// The place of the group among those of its person.
    order: u64,
    /// NaN for NULL.
    pub(super) value: f64,
}

/// All rows.
#[derive(Debug)]
pub(super) struct StandInRows {
    rows: Vec<TriedRow>,
    /// The number of groups; with known keys these are the keys.
    groups: usize,
    has_people: bool,
    left_out: usize,
}

/// The rows as they are read.
#[derive(Default)]
struct ReadRows {
    rows: Vec<TriedRow>,
    persons: HashMap<String, u32>,
    groups: HashMap<String, u32>,
    left_out: usize,
}

impl StandInRows {
    /// Reads the rows. Rows of nobody belong to no answer, and rows with keys that are not listed
    /// are left out.
    ///
    /// # Errors
    /// A refusal of values that are no numbers and of too many rows, and the stream's own.
    pub(super) async fn read(
        mut stream: AnswerStream,
        has_people: bool,
        keys: Option<&BTreeSet<String>>,
    ) -> Result<Self, Error> {
        let mut read = ReadRows::default();
        // Listed keys come out, whether rows have them or not.
        for key in keys.into_iter().flatten() {
            number_of(&mut read.groups, key.clone())?;
        }
        let takes = |key: &String| keys.is_none_or(|keys| keys.contains(key));
        while let Some(batch) = stream.next().await {
            read.add(&batch?, has_people, &takes)?;
            if read.rows.len() > MOST_ROWS {
                return Err(too_many().into());
            }
        }
        Ok(read.ordered(has_people))
    }

    pub(super) fn rows(&self) -> &[TriedRow] {
        &self.rows
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows whose keys do not come out.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// True if rows belong to people, whose contributions are bounded.
    pub(super) fn has_people(&self) -> bool {
        self.has_people
    }

    /// The values in ascending order.
    pub(super) fn sorted_values(&self) -> Vec<f64> {
        let values = self.rows.iter().map(|row| row.value);
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }
}

impl ReadRows {
    fn add(
        &mut self,
        batch: &RecordBatch,
        has_people: bool,
        takes: &dyn Fn(&String) -> bool,
    ) -> Result<(), Error> {
        let keys = batch.num_columns().saturating_sub(1 + usize::from(has_people));
        let keys = batch.columns().get(..keys).unwrap_or_default();
        let values = batch.column_by_name(VALUE).ok_or(Error::Internal)?;
        let values = cast(values, &DataType::Float64).map_err(|_| no_numbers())?;
        let values = values.as_primitive_opt::<Float64Type>().ok_or(Error::Internal)?;
        let people = batch.column_by_name(UNIT).filter(|_| has_people);
        for row in 0..batch.num_rows() {
            let person = match people {
                Some(people) if people.is_null(row) => continue,
                Some(people) => key_text(std::slice::from_ref(people), row),
                None => Some(String::new()),
            };
            let person = person.ok_or(Error::Internal)?;
            let key = key_text(keys, row).ok_or(Error::Internal)?;
            if !takes(&key) {
                self.left_out += 1;
                continue;
            }
            let order = mixed(&[person.as_bytes(), &[0], key.as_bytes()]);
            let group = number_of(&mut self.groups, key)?;
            let person = match people {
                Some(_) => number_of(&mut self.persons, person)?,
                None => 0,
            };
            let value = if values.is_null(row) { f64::NAN } else { values.value(row) };
            self.rows.push(TriedRow { person, group, order, value });
        }
        Ok(())
    }

    /// The rows, numbered and sorted by what they hold and not by when they came.
    fn ordered(self, has_people: bool) -> StandInRows {
        let Self { mut rows, persons, groups, left_out } = self;
        let (persons, ranks) = (ranked(persons), ranked(groups));
        for row in &mut rows {
            let rank = |ranks: &[u32], of: u32| {
                usize::try_from(of).ok().and_then(|at| ranks.get(at).copied()).unwrap_or(of)
            };
            row.person = rank(&persons, row.person);
            row.group = rank(&ranks, row.group);
        }
        rows.sort_unstable_by(|a, b| {
            let keys = |row: &TriedRow| (row.person, row.order, row.group);
            keys(a).cmp(&keys(b)).then(a.value.total_cmp(&b.value))
        });
        StandInRows { rows, groups: ranks.len(), has_people, left_out }
    }
}

/// The number of a name, which is new if it is not known.
fn number_of(known: &mut HashMap<String, u32>, name: String) -> Result<u32, Error> {
    let next = u32::try_from(known.len()).map_err(|_| too_many())?;
    Ok(*known.entry(name).or_insert(next))
}

/// By the number of a name: its place among all names in ascending order.
fn ranked(known: HashMap<String, u32>) -> Vec<u32> {
    let mut names: Vec<(String, u32)> = known.into_iter().collect();
    names.sort_unstable();
    let mut ranks = vec![0; names.len()];
    for (rank, (_, number)) in (0..).zip(names) {
        if let Some(place) = usize::try_from(number).ok().and_then(|at| ranks.get_mut(at)) {
            *place = rank;
        }
    }
    ranks
}

/// A hash of texts that is the same everywhere (FNV-1a, and the last step of SplitMix64).
fn mixed(texts: &[&[u8]]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.iter());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^ (hash >> 31)
}

fn too_many() -> Refusal {
    Refusal::new(
        Reason::TooLarge,
        "ON",
        format!("bounds are tried on at most {MOST_ROWS} rows"),
        "a smaller table: CREATE SYNTHETIC TABLE invented WITH (rows=100000) AS …",
    )
}

fn no_numbers() -> Refusal {
    Refusal::new(
        Reason::Operand,
        "TUNE",
        "the values of the stand-in are no numbers",
        "a table whose columns have the types of the private one",
    )
}
