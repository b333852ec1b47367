//! The numbers of one source, kept row by row for the units that are bounded.
//!
//! In: lanes, and which of their rows are kept. Out: for any set of these rows, the number of those
//! that pass, and their sum. It guarantees that rows that do not pass add nothing.
//!
//! ```text
//! payload.push(&lane, &rows_that_count_and_their_buckets);
//! let kept = payload.into_buckets(); // one for each bucket
//! let UnitTally { count, sum, .. } = kept[3].tally(&rows_of_one_unit_and_key)?;
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::grid_values::{Lane, LaneNumbers, ValueSource, Width};
use crate::grid::failed;
use crate::grid::pairs::Pairs;
use crate::operator::bound_contributions::exact::kept_share::UnitTally;
use crate::operator::bound_contributions::exact::radix_lists::{Expected, Lists};
use crate::operator::bound_contributions::exact::rows_by_unit::{BUCKETS, Inside, place_of};

/// The values of one source for each kept row, distributed over buckets like the rows themselves.
pub(in crate::operator::bound_contributions) struct Payload {
    flags: Option<Lists<bool>>,
    /// Whether values are squared. Then they are distances of at most 2⁴⁰.
    squared: bool,
    values: ValueLists,
}

enum ValueLists {
    None,
    Byte(Lists<i8>),
    Half(Lists<i16>),
    Short(Lists<i32>),
    Narrow(Lists<i64>),
    Wide(Lists<i128>),
}

impl<T: Copy + Default> Lists<T> {
    /// Adds the numbers of some rows, each with its bucket.
    fn add(&mut self, kept: &[(u32, u8)], number: impl Fn(usize) -> T) {
        for (row, bucket) in kept {
            self.push(*bucket, number(*row as usize));
        }
    }
}

impl Payload {
    /// For a source; `flagged` if an aggregate needs the number of rows that pass.
    pub(in crate::operator::bound_contributions) fn new(
        source: &ValueSource,
        flagged: bool,
        expected: Expected,
    ) -> Self {
        let values = match source.width() {
            None => ValueLists::None,
            Some(Width::Byte) => ValueLists::Byte(Lists::new(expected)),
            Some(Width::Half) => ValueLists::Half(Lists::new(expected)),
            Some(Width::Short) => ValueLists::Short(Lists::new(expected)),
            Some(Width::Narrow) => ValueLists::Narrow(Lists::new(expected)),
            Some(Width::Wide) => ValueLists::Wide(Lists::new(expected)),
        };
        let flags = flagged.then(|| Lists::new(expected));
        Self { flags, squared: source.shift.is_some(), values }
    }

    /// Whether anything is kept.
    pub(in crate::operator::bound_contributions) fn reads(&self) -> bool {
        self.flags.is_some() || !matches!(self.values, ValueLists::None)
    }

    /// Whether a row's flag and value fit into [`Inside`].
    pub(in crate::operator::bound_contributions) fn fits_inside(&self) -> bool {
        match self.values {
            ValueLists::None | ValueLists::Byte(_) | ValueLists::Half(_) => true,
            ValueLists::Short(_) | ValueLists::Narrow(_) | ValueLists::Wide(_) => false,
        }
    }

    /// The values of each bucket, if the rows themselves hold them.
    pub(in crate::operator::bound_contributions) fn inside(&self) -> Vec<BucketValues> {
        let kept =
            || BucketValues { flags: None, squared: self.squared, values: KeptValues::Inside };
        (0..BUCKETS).map(|_| kept()).collect()
    }

    /// Adds the numbers of the kept rows, each with its bucket.
    ///
    /// # Errors
    /// An error with a constant text for the lane of another source.
    pub(in crate::operator::bound_contributions) fn push(
        &mut self,
        lane: &Lane,
        kept: &[(u32, u8)],
    ) -> Result<()> {
        if let Some(flags) = &mut self.flags {
            flags.add(kept, |row| lane.passes(row));
        }
        match (&mut self.values, &lane.numbers) {
            (ValueLists::None, LaneNumbers::None) => {}
            (ValueLists::Byte(values), LaneNumbers::Byte(numbers)) => {
                values.add(kept, |i| numbers[i])
            }
            (ValueLists::Half(values), LaneNumbers::Half(numbers)) => {
                values.add(kept, |i| numbers[i])
            }
            (ValueLists::Short(values), LaneNumbers::Short(numbers)) => {
                values.add(kept, |i| numbers[i])
            }
            (ValueLists::Narrow(values), LaneNumbers::Narrow(numbers)) => {
                values.add(kept, |i| numbers[i])
            }
            (ValueLists::Wide(values), LaneNumbers::Wide(numbers)) => {
                values.add(kept, |i| numbers[i])
            }
            _ => return Err(failed()),
        }
        Ok(())
    }

    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        let values = match &self.values {
            ValueLists::None => 0,
            ValueLists::Byte(values) => values.size(),
            ValueLists::Half(values) => values.size(),
            ValueLists::Short(values) => values.size(),
            ValueLists::Narrow(values) => values.size(),
            ValueLists::Wide(values) => values.size(),
        };
        values + self.flags.as_ref().map_or(0, Lists::size)
    }

    /// The bytes of one row.
    pub(in crate::operator::bound_contributions) fn of_row(&self) -> usize {
        let value = match &self.values {
            ValueLists::None => 0,
            ValueLists::Byte(_) => size_of::<i8>(),
            ValueLists::Half(_) => size_of::<i16>(),
            ValueLists::Short(_) => size_of::<i32>(),
            ValueLists::Narrow(_) => size_of::<i64>(),
            ValueLists::Wide(_) => size_of::<i128>(),
        };
        value + usize::from(self.flags.is_some())
    }

    /// The values of each bucket.
    pub(in crate::operator::bound_contributions) fn into_buckets(self) -> Vec<BucketValues> {
        let Self { flags, squared, values } = self;
        let numbers: Vec<LaneNumbers> = match values {
            ValueLists::None => (0..BUCKETS).map(|_| LaneNumbers::None).collect(),
            ValueLists::Byte(lists) => {
                lists.into_lists().into_iter().map(LaneNumbers::Byte).collect()
            }
            ValueLists::Half(lists) => {
                lists.into_lists().into_iter().map(LaneNumbers::Half).collect()
            }
            ValueLists::Short(lists) => {
                lists.into_lists().into_iter().map(LaneNumbers::Short).collect()
            }
            ValueLists::Narrow(lists) => {
                lists.into_lists().into_iter().map(LaneNumbers::Narrow).collect()
            }
            ValueLists::Wide(lists) => {
                lists.into_lists().into_iter().map(LaneNumbers::Wide).collect()
            }
        };
        let mut flags = flags.map(|lists| lists.into_lists().into_iter());
        let kept = |numbers| BucketValues {
            flags: flags.as_mut().and_then(Iterator::next),
            squared,
            values: KeptValues::Listed(numbers),
        };
        numbers.into_iter().map(kept).collect()
    }
}

/// The values of one source in one bucket. They are read in no particular order.
pub(in crate::operator::bound_contributions) struct BucketValues {
    flags: Option<Vec<bool>>,
    squared: bool,
    values: KeptValues,
}

enum KeptValues {
    /// One for each place of a row.
    Listed(LaneNumbers),
    /// In the rows themselves; see [`Inside`].
    Inside,
}

impl BucketValues {
    /// Appends the values of other rows of the same bucket.
    ///
    /// # Errors
    /// An error with a constant text for the values of another source.
    pub(in crate::operator::bound_contributions) fn append(&mut self, other: Self) -> Result<()> {
        match (&mut self.flags, other.flags) {
            (None, None) => {}
            (Some(flags), Some(others)) => flags.extend(others),
            _ => return Err(failed()),
        }
        match (&mut self.values, other.values) {
            (KeptValues::Inside, KeptValues::Inside) => Ok(()),
            (KeptValues::Listed(own), KeptValues::Listed(other)) => append(own, other),
            _ => Err(failed()),
        }
    }

    /// Counts and sums the rows of one unit and one key.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice.
    pub(in crate::operator::bound_contributions) fn tally(
        &self,
        rows: &[u64],
    ) -> Result<UnitTally> {
        let count = match (&self.flags, &self.values) {
            (_, KeptValues::Inside) => {
                rows.iter().filter(|row| Inside::last(**row).passes()).count()
            }
            (None, KeptValues::Listed(_)) => rows.len(),
            (Some(flags), KeptValues::Listed(_)) => {
                rows.iter().filter(|row| flags[place_of(**row)]).count()
            }
        };
        let count = u64::try_from(count).map_err(|_| failed())?;
        let sum = self.sum(rows)?;
        // A distance is at most 2⁴⁰, so its square fits.
        let squares = if self.squared { self.total(rows, |x| x * x)? } else { 0 };
        Ok(UnitTally { count, sum, squares })
    }

    /// The sum of one product of the pairs of one unit and one key; rows that do not pass add 0.
    pub(in crate::operator::bound_contributions) fn product(
        &self,
        rows: &[u64],
        pairs: &Pairs,
        which: usize,
    ) -> Result<i128> {
        let (Some(flags), KeptValues::Listed(numbers)) = (&self.flags, &self.values) else {
            return Err(failed());
        };
        if !numbers.are_codes() {
            return Err(failed());
        }
        let mut sum = 0_i128;
        for at in rows.iter().map(|row| place_of(*row)).filter(|at| flags[*at]) {
            let product = pairs.product(numbers.at(at), which);
            sum = sum.checked_add(product).ok_or_else(failed)?;
        }
        Ok(sum)
    }

    /// The sum of the rows of one unit and one key.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice.
    pub(in crate::operator::bound_contributions) fn sum(&self, rows: &[u64]) -> Result<i128> {
        let numbers = match &self.values {
            KeptValues::Inside => {
                let number = |row: &u64| i64::from(Inside::last(*row).number());
                return Ok(rows.iter().map(number).sum::<i64>().into());
            }
            KeptValues::Listed(numbers) => numbers,
        };
        match numbers {
            LaneNumbers::Byte(values) => Ok(short_sum(values, rows).into()),
            LaneNumbers::Half(values) => Ok(short_sum(values, rows).into()),
            LaneNumbers::Short(values) => Ok(short_sum(values, rows).into()),
            LaneNumbers::None | LaneNumbers::Narrow(_) | LaneNumbers::Wide(_) => {
                self.total(rows, |x| x)
            }
        }
    }

    fn total(&self, rows: &[u64], of: impl Fn(i128) -> i128) -> Result<i128> {
        let number = |row: &u64| match &self.values {
            KeptValues::Listed(numbers) => numbers.at(place_of(*row)),
            KeptValues::Inside => Inside::last(*row).number().into(),
        };
        let mut sum = 0_i128;
        for row in rows {
            sum = sum.checked_add(of(number(row))).ok_or_else(failed)?;
        }
        Ok(sum)
    }
}

/// Appends numbers of the same source.
fn append(own: &mut LaneNumbers, other: LaneNumbers) -> Result<()> {
    match (own, other) {
        (LaneNumbers::None, LaneNumbers::None) => {}
        (LaneNumbers::Byte(numbers), LaneNumbers::Byte(others)) => numbers.extend(others),
        (LaneNumbers::Half(numbers), LaneNumbers::Half(others)) => numbers.extend(others),
        (LaneNumbers::Short(numbers), LaneNumbers::Short(others)) => numbers.extend(others),
        (LaneNumbers::Narrow(numbers), LaneNumbers::Narrow(others)) => numbers.extend(others),
        (LaneNumbers::Wide(numbers), LaneNumbers::Wide(others)) => numbers.extend(others),
        _ => return Err(failed()),
    }
    Ok(())
}

/// The sum of fewer than 2³² values of at most 32 bits each, which fits 64 bits.
fn short_sum<T: Copy + Into<i64>>(values: &[T], rows: &[u64]) -> i64 {
    rows.iter().map(|row| values[place_of(*row)].into()).sum()
}
