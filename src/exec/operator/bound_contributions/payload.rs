//! The numbers of one source, kept row by row for the units that are bounded.
//!
//! In: lanes, and the rows of them that are kept. Out: for any set of these rows, how many of them pass, and their sum. It
//! guarantees that rows that do not pass add nothing.
//!
//! ```text
//! payload.push(&lane, &rows_that_count_and_their_buckets);
//! let kept = payload.into_buckets(); // one for each bucket
//! let Tally { count, sum, .. } = kept[3].tally(&rows_of_one_unit_and_key)?;
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::expected::push_expected;
use super::grouped::{BUCKETS, place_of};
use super::lanes::{Lane, Numbers, Source, Width};
use super::partial::Tally;
use crate::grid::failed;
use crate::grid::pairs::Pairs;

/// The values of one source, one entry for each row that counts, distributed over buckets like the rows themselves.
pub(super) struct Payload {
    flags: Option<Split<bool>>,
    /// Whether values are squared, which are distances of at most 2⁴⁰ then.
    squared: bool,
    values: Values,
}

enum Values {
    None,
    Byte(Split<i8>),
    Half(Split<i16>),
    Short(Split<i32>),
    Narrow(Split<i64>),
    Wide(Split<i128>),
}

/// One list for each bucket.
struct Split<T> {
    lists: Vec<Vec<T>>,
    /// The entries that a list is expected to get.
    expected: usize,
}

impl<T: Copy> Split<T> {
    fn new(expected: usize) -> Self {
        Self { lists: vec![Vec::new(); BUCKETS], expected }
    }

    fn bytes(&self) -> usize {
        self.lists.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    fn push(&mut self, kept: &[(u32, u8)], number: impl Fn(usize) -> T) {
        for (row, bucket) in kept {
            push_expected(
                &mut self.lists[usize::from(*bucket)],
                number(*row as usize),
                self.expected,
            );
        }
    }
}

impl Payload {
    /// For a source, and buckets of about so many rows; `flagged` if an aggregate needs the number of rows that pass.
    pub(super) fn new(source: &Source, flagged: bool, expected: usize) -> Self {
        let values = match source.width() {
            None => Values::None,
            Some(Width::Byte) => Values::Byte(Split::new(expected)),
            Some(Width::Half) => Values::Half(Split::new(expected)),
            Some(Width::Short) => Values::Short(Split::new(expected)),
            Some(Width::Narrow) => Values::Narrow(Split::new(expected)),
            Some(Width::Wide) => Values::Wide(Split::new(expected)),
        };
        let flags = flagged.then(|| Split::new(expected));
        Self { flags, squared: source.shift.is_some(), values }
    }

    /// Whether anything is kept.
    pub(super) fn reads(&self) -> bool {
        self.flags.is_some() || !matches!(self.values, Values::None)
    }

    /// Adds the numbers of the rows that count, each with its bucket.
    ///
    /// # Errors
    /// A constant text for the lane of another source.
    pub(super) fn push(&mut self, lane: &Lane, kept: &[(u32, u8)]) -> Result<()> {
        if let Some(flags) = &mut self.flags {
            flags.push(kept, |row| lane.passes(row));
        }
        match (&mut self.values, &lane.numbers) {
            (Values::None, Numbers::None) => {}
            (Values::Byte(values), Numbers::Byte(numbers)) => values.push(kept, |i| numbers[i]),
            (Values::Half(values), Numbers::Half(numbers)) => values.push(kept, |i| numbers[i]),
            (Values::Short(values), Numbers::Short(numbers)) => values.push(kept, |i| numbers[i]),
            (Values::Narrow(values), Numbers::Narrow(numbers)) => values.push(kept, |i| numbers[i]),
            (Values::Wide(values), Numbers::Wide(numbers)) => values.push(kept, |i| numbers[i]),
            _ => return Err(failed()),
        }
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        let values = match &self.values {
            Values::None => 0,
            Values::Byte(values) => values.bytes(),
            Values::Half(values) => values.bytes(),
            Values::Short(values) => values.bytes(),
            Values::Narrow(values) => values.bytes(),
            Values::Wide(values) => values.bytes(),
        };
        values + self.flags.as_ref().map_or(0, Split::bytes)
    }

    /// The bytes of one row.
    pub(super) fn of_row(&self) -> usize {
        let value = match &self.values {
            Values::None => 0,
            Values::Byte(_) => size_of::<i8>(),
            Values::Half(_) => size_of::<i16>(),
            Values::Short(_) => size_of::<i32>(),
            Values::Narrow(_) => size_of::<i64>(),
            Values::Wide(_) => size_of::<i128>(),
        };
        value + usize::from(self.flags.is_some())
    }

    /// The values of each bucket.
    pub(super) fn into_buckets(self) -> Vec<Kept> {
        let Self { flags, squared, values } = self;
        let numbers: Vec<Numbers> = match values {
            Values::None => (0..BUCKETS).map(|_| Numbers::None).collect(),
            Values::Byte(split) => split.lists.into_iter().map(Numbers::Byte).collect(),
            Values::Half(split) => split.lists.into_iter().map(Numbers::Half).collect(),
            Values::Short(split) => split.lists.into_iter().map(Numbers::Short).collect(),
            Values::Narrow(split) => split.lists.into_iter().map(Numbers::Narrow).collect(),
            Values::Wide(split) => split.lists.into_iter().map(Numbers::Wide).collect(),
        };
        let mut flags = flags.map(|split| split.lists.into_iter());
        let kept =
            |numbers| Kept { flags: flags.as_mut().and_then(Iterator::next), squared, numbers };
        numbers.into_iter().map(kept).collect()
    }
}

/// The values of one source in one bucket. They are read in no particular order.
pub(super) struct Kept {
    flags: Option<Vec<bool>>,
    squared: bool,
    numbers: Numbers,
}

impl Kept {
    /// Adds the values of other rows of the same bucket behind its own.
    ///
    /// # Errors
    /// A constant text for the values of another source.
    pub(super) fn append(&mut self, other: Self) -> Result<()> {
        match (&mut self.flags, other.flags) {
            (None, None) => {}
            (Some(flags), Some(others)) => flags.extend(others),
            _ => return Err(failed()),
        }
        match (&mut self.numbers, other.numbers) {
            (Numbers::None, Numbers::None) => {}
            (Numbers::Byte(numbers), Numbers::Byte(others)) => numbers.extend(others),
            (Numbers::Half(numbers), Numbers::Half(others)) => numbers.extend(others),
            (Numbers::Short(numbers), Numbers::Short(others)) => numbers.extend(others),
            (Numbers::Narrow(numbers), Numbers::Narrow(others)) => numbers.extend(others),
            (Numbers::Wide(numbers), Numbers::Wide(others)) => numbers.extend(others),
            _ => return Err(failed()),
        }
        Ok(())
    }

    /// Counts and sums the rows of one unit and one key.
    pub(super) fn tally(&self, rows: &[u64]) -> Result<Tally> {
        let count = match &self.flags {
            None => rows.len(),
            Some(flags) => rows.iter().filter(|row| flags[place_of(**row)]).count(),
        };
        let count = u64::try_from(count).map_err(|_| failed())?;
        let sum = self.total(rows, |x| x)?;
        // A distance is at most 2⁴⁰, so its square fits.
        let squares = if self.squared { self.total(rows, |x| x * x)? } else { 0 };
        Ok(Tally { count, sum, squares })
    }

    /// The sum of one product of the pairs of one unit and one key; rows that do not pass add 0.
    pub(super) fn product(&self, rows: &[u64], pairs: &Pairs, which: usize) -> Result<i128> {
        let Some(flags) = self.flags.as_ref().filter(|_| self.numbers.are_codes()) else {
            return Err(failed());
        };
        let mut sum = 0_i128;
        for at in rows.iter().map(|row| place_of(*row)).filter(|at| flags[*at]) {
            let product = pairs.product(self.numbers.at(at), which);
            sum = sum.checked_add(product).ok_or_else(failed)?;
        }
        Ok(sum)
    }

    fn total(&self, rows: &[u64], of: impl Fn(i128) -> i128) -> Result<i128> {
        match &self.numbers {
            Numbers::None => Ok(0),
            Numbers::Byte(values) => total(values, rows, of),
            Numbers::Half(values) => total(values, rows, of),
            Numbers::Short(values) => total(values, rows, of),
            Numbers::Narrow(values) => total(values, rows, of),
            Numbers::Wide(values) => total(values, rows, of),
        }
    }
}

fn total<T: Copy + Into<i128>>(
    values: &[T],
    rows: &[u64],
    of: impl Fn(i128) -> i128,
) -> Result<i128> {
    let mut sum = 0_i128;
    for row in rows {
        sum = sum.checked_add(of(values[place_of(*row)].into())).ok_or_else(failed)?;
    }
    Ok(sum)
}
