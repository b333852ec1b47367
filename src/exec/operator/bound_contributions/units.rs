//! Units: their 64-bit codes, their hashes, and the grouping of rows by unit.
//!
//! In: unit values of any type that can be a unit. Out: codes that are equal exactly if the values are equal, and, for
//! a bucket of rows, each unit's rows side by side. It guarantees that no two units share a code (with a shared code, a
//! person could count twice), and that a unit's hash depends on its value, never on the number that it got on arrival.
//!
//! ```text
//! codes.hold(&column)?.codes(&mut scratch);
//! units.group(&bucket, hash)?; // units.rows: all rows of the first unit, then of the second, …
//! ```

use std::mem::size_of;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

use super::arrived::interner;
use super::order::HashKey;
use crate::grid::failed;

/// The number of buckets over which rows are distributed: one for each value of a byte.
pub(crate) const BUCKETS: usize = 256;

/// The marker of an unused slot in the table of [`Units`].
const EMPTY: u32 = u32::MAX;

/// One row that counts: its unit, its key, and the position of its values in the bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) unit: u64,
    pub(crate) key: u32,
    pub(crate) place: u32,
}

/// Maps unit values to 64-bit codes, one to one.
pub(crate) enum UnitCodes {
    /// Integers and dates are their own code.
    Direct,
    /// Other values are numbered in order of arrival.
    Interned { values: Box<dyn GroupValues>, ids: Vec<usize> },
}

impl UnitCodes {
    pub(crate) fn new(unit_type: &DataType) -> Result<Self> {
        if unit_type.is_integer() || matches!(unit_type, DataType::Date32 | DataType::Date64) {
            return Ok(Self::Direct);
        }
        let values = interner(std::iter::once(unit_type.clone()))?;
        Ok(Self::Interned { values, ids: Vec::new() })
    }

    /// Holds the units of a batch until their codes are needed.
    pub(crate) fn hold(&mut self, units: &ArrayRef) -> Result<HeldUnits> {
        let Self::Interned { values, ids } = self else {
            return Ok(HeldUnits::new(integers(units)?));
        };
        values.intern(std::slice::from_ref(units), ids)?;
        let code = |id: &usize| u64::try_from(*id).map_err(|_| failed());
        Ok(HeldUnits::new(ids.iter().map(code).collect::<Result<_>>()?))
    }

    /// Takes the values of another partition in. The result has its own code for each code of that partition; `None` if these
    /// are the same.
    pub(crate) fn absorb(&mut self, other: Self) -> Result<Option<Vec<u64>>> {
        let (Self::Interned { values, ids }, Self::Interned { values: mut others, .. }) =
            (self, other)
        else {
            return Ok(None);
        };
        // Some interners panic if no row arrives.
        if others.is_empty() {
            return Ok(Some(Vec::new()));
        }
        values.intern(&others.emit(EmitTo::All)?, ids)?;
        let code = |id: &usize| u64::try_from(*id).map_err(|_| failed());
        ids.iter().map(code).collect::<Result<_>>().map(Some)
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Direct => 0,
            Self::Interned { values, .. } => values.size(),
        }
    }

    pub(crate) fn finish(self, bounded: bool) -> Result<UnitNames> {
        match self {
            // Some interners panic if no row arrives, and the result must not reveal whether one did. If there is no
            // unit, none is hashed.
            Self::Interned { mut values, .. } if bounded && !values.is_empty() => {
                let units = values.emit(EmitTo::All)?;
                let fields = units.iter().map(|unit| SortField::new(unit.data_type().clone()));
                let converter = RowConverter::new(fields.collect())?;
                Ok(UnitNames::Encoded(converter.convert_columns(&units)?))
            }
            Self::Direct | Self::Interned { .. } => Ok(UnitNames::Direct),
        }
    }
}

/// The codes of integers and dates: their own value.
///
/// # Errors
/// A constant text for other types.
fn integers(units: &ArrayRef) -> Result<Vec<u64>> {
    fn signed<T: ArrowPrimitiveType>(units: &ArrayRef) -> Vec<u64>
    where
        T::Native: Into<i64>,
    {
        let values = units.as_primitive::<T>().values();
        values.iter().map(|value| Into::<i64>::into(*value).cast_unsigned()).collect()
    }
    Ok(match units.data_type() {
        DataType::Int8 => signed::<Int8Type>(units),
        DataType::Int16 => signed::<Int16Type>(units),
        DataType::Int32 => signed::<Int32Type>(units),
        DataType::Int64 => signed::<Int64Type>(units),
        DataType::UInt8 => signed::<UInt8Type>(units),
        DataType::UInt16 => signed::<UInt16Type>(units),
        DataType::UInt32 => signed::<UInt32Type>(units),
        DataType::UInt64 => units.as_primitive::<UInt64Type>().values().to_vec(),
        DataType::Date32 => signed::<Date32Type>(units),
        DataType::Date64 => signed::<Date64Type>(units),
        _ => return Err(failed()),
    })
}

/// Integers and dates as numbers in their own order: negative ones first.
///
/// # Errors
/// A constant text for values of another type.
pub(crate) fn ordered(values: &ArrayRef) -> Result<Vec<u64>> {
    let mut codes = integers(values)?;
    if !values.data_type().is_unsigned_integer() {
        codes.iter_mut().for_each(|code| *code ^= 1 << 63);
    }
    Ok(codes)
}

/// The codes of the units of a batch: in half the space where they are close to each other.
pub(crate) enum HeldUnits {
    /// What each code is above the least one.
    Close {
        least: u64,
        most: u64,
        above: Vec<u32>,
    },
    Codes(Vec<u64>),
}

impl HeldUnits {
    fn new(codes: Vec<u64>) -> Self {
        let least = codes.iter().copied().min().unwrap_or(0);
        let most = codes.iter().copied().max().unwrap_or(0);
        if most - least > u64::from(u32::MAX) {
            return Self::Codes(codes);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the largest one fits")]
        let above = codes.iter().map(|code| (code - least) as u32).collect();
        Self::Close { least, most, above }
    }

    /// Replaces `codes` by the code of each row.
    pub(crate) fn codes(&self, codes: &mut Vec<u64>) {
        codes.clear();
        match self {
            Self::Close { least, above, .. } => {
                codes.extend(above.iter().map(|above| least + u64::from(*above)));
            }
            Self::Codes(own) => codes.extend_from_slice(own),
        }
    }

    /// The least and the largest code, where all are close to each other.
    pub(super) fn ends(&self) -> Option<(u64, u64)> {
        match self {
            Self::Close { least, most, .. } => Some((*least, *most)),
            Self::Codes(_) => None,
        }
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Close { above, .. } => above.capacity() * size_of::<u32>(),
            Self::Codes(codes) => codes.capacity() * size_of::<u64>(),
        }
    }

    /// Replaces each code by what `codes` has in its place.
    pub(crate) fn renumber(&mut self, codes: &[u64], scratch: &mut Vec<u64>) -> Result<()> {
        self.codes(scratch);
        let new =
            |code: &u64| usize::try_from(*code).ok().and_then(|code| codes.get(code).copied());
        let renumbered: Option<Vec<u64>> = scratch.iter().map(new).collect();
        *self = Self::new(renumbered.ok_or_else(failed)?);
        Ok(())
    }
}

/// The hashed name of a unit: its value, never the number that it got on arrival.
pub(crate) enum UnitNames {
    Direct,
    Encoded(Rows),
}

impl UnitNames {
    pub(crate) fn hash(&self, code: u64, hash: HashKey) -> Result<u64> {
        match self {
            Self::Direct => Ok(hash.integer_unit(code)),
            Self::Encoded(rows) => {
                let row = usize::try_from(code).map_err(|_| failed())?;
                Ok(hash.bytes_unit(rows.row(row).data()))
            }
        }
    }
}

/// Groups the rows of a bucket by unit, with a small hash table and a counting sort.
#[derive(Default)]
pub(crate) struct Units {
    slots: Vec<(u64, u32)>,
    pub(crate) codes: Vec<u64>,
    pub(crate) counts: Vec<usize>,
    ends: Vec<usize>,
    ids: Vec<u32>,
    /// The key and place of every row, ordered by unit.
    pub(crate) rows: Vec<u64>,
}

impl Units {
    pub(crate) fn group(&mut self, rows: &[Row], hash: HashKey) -> Result<()> {
        self.codes.clear();
        self.counts.clear();
        self.ids.clear();
        // Buckets have similar sizes, so the table is not shrunk.
        self.slots.fill((0, EMPTY));
        if self.slots.is_empty() {
            self.slots.resize(64, (0, EMPTY));
        }
        for row in rows {
            let id = self.id(row.unit, hash)?;
            self.ids.push(id);
            self.counts[id as usize] += 1;
        }
        self.ends.clear();
        let mut end = 0;
        self.ends.extend(self.counts.iter().map(|count| {
            end += count;
            end - count
        }));
        self.rows.clear();
        self.rows.resize(rows.len(), 0);
        for (row, id) in rows.iter().zip(&self.ids) {
            let at = &mut self.ends[*id as usize];
            self.rows[*at] = u64::from(row.key) << 32 | u64::from(row.place);
            *at += 1;
        }
        Ok(())
    }

    /// The number of a unit within the bucket.
    fn id(&mut self, code: u64, hash: HashKey) -> Result<u32> {
        let slot = find(&self.slots, code, hash)?;
        let (_, id) = self.slots[slot];
        if id != EMPTY {
            return Ok(id);
        }
        let id = u32::try_from(self.codes.len()).map_err(|_| failed())?;
        self.slots[slot] = (code, id);
        self.codes.push(code);
        self.counts.push(0);
        if self.codes.len() * 2 > self.slots.len() {
            let mut larger = vec![(0, EMPTY); self.slots.len() * 4];
            for (id, code) in (0..).zip(&self.codes) {
                let slot = find(&larger, *code, hash)?;
                larger[slot] = (*code, id);
            }
            self.slots = larger;
        }
        Ok(id)
    }
}

/// The slot that holds this code, or the free slot for it; the size of a table is a power of two.
fn find(slots: &[(u64, u32)], code: u64, hash: HashKey) -> Result<usize> {
    let mask = slots.len() - 1;
    let start = hash.scatter(code) & u64::try_from(mask).map_err(|_| failed())?;
    let mut slot = usize::try_from(start).map_err(|_| failed())?;
    loop {
        let (held, id) = slots[slot];
        if id == EMPTY || held == code {
            return Ok(slot);
        }
        slot = (slot + 1) & mask;
    }
}

/// The key of a packed row.
pub(crate) fn key_of(row: u64) -> u32 {
    (row >> 32) as u32
}

/// The position of the values of a packed row.
#[expect(clippy::cast_possible_truncation, reason = "the lower half of the word")]
pub(crate) fn place_of(row: u64) -> usize {
    row as u32 as usize
}
