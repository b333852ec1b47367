//! Units: their 64-bit codes, and their hashes.
//!
//! In: unit values of any type that can be a unit. Out: codes that are equal exactly if the values
//! are equal. It guarantees that no two units share a code (with a shared code, a person could
//! count twice), and that a unit's hash depends on its value, never on the number that it got on
//! arrival.
//!
//! ```text
//! codes.hold(&column)?.codes(&mut scratch);
//! names.hash(scratch[0], hash)?;
//! ```

use std::mem::size_of;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

use super::discovered_keys::interner;
use crate::grid::failed;
use crate::operator::bound_contributions::exact::keyed_order::HashKey;

/// Evaluates `$then` for the codes of integers and dates, which are their values; other types give
/// an error with a constant text.
macro_rules! integers {
    ($units:expr, $codes:ident => $then:expr) => {
        match $units.data_type() {
            DataType::Int8 => integers!($units, Int8Type, $codes => $then),
            DataType::Int16 => integers!($units, Int16Type, $codes => $then),
            DataType::Int32 => integers!($units, Int32Type, $codes => $then),
            DataType::Int64 => integers!($units, Int64Type, $codes => $then),
            DataType::UInt8 => integers!($units, UInt8Type, $codes => $then),
            DataType::UInt16 => integers!($units, UInt16Type, $codes => $then),
            DataType::UInt32 => integers!($units, UInt32Type, $codes => $then),
            DataType::UInt64 => {
                let $codes = $units.as_primitive::<UInt64Type>().values().iter().copied();
                $then
            }
            DataType::Date32 => integers!($units, Date32Type, $codes => $then),
            DataType::Date64 => integers!($units, Date64Type, $codes => $then),
            _ => Err(failed()),
        }
    };
    ($units:expr, $type:ty, $codes:ident => $then:expr) => {{
        let values = $units.as_primitive::<$type>().values();
        let $codes = values.iter().map(|value| i64::from(*value).cast_unsigned());
        $then
    }};
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
            return integers!(units, codes => Ok(HeldUnits::new(codes)));
        };
        values.intern(std::slice::from_ref(units), ids)?;
        let code = |id: &usize| u64::try_from(*id).map_err(|_| failed());
        let codes: Vec<u64> = ids.iter().map(code).collect::<Result<_>>()?;
        Ok(HeldUnits::new(codes.iter().copied()))
    }

    /// Adds the values of another partition. The result maps each of its codes to a code here;
    /// `None` if these are the same.
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
            // Some interners panic if no row arrives, and the result must not reveal whether one
            // did. Without units, there is none to hash.
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

/// Integers and dates as unsigned numbers in the same order: negative values come first.
///
/// # Errors
/// An error with a constant text for values of another type.
pub(crate) fn ordered(values: &ArrayRef) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    each_ordered(values, |number| number, &mut all)?;
    Ok(all)
}

/// Appends the same numbers to `all`, each mapped by `of`.
///
/// # Errors
/// As [`ordered`].
pub(in crate::operator::bound_contributions) fn each_ordered<T>(
    values: &ArrayRef,
    of: impl Fn(u64) -> T,
    all: &mut Vec<T>,
) -> Result<()> {
    let sign = if values.data_type().is_unsigned_integer() { 0 } else { 1 << 63 };
    integers!(values, codes => {
        all.extend(codes.map(|code| of(code ^ sign)));
        Ok(())
    })
}

/// The codes of the units of a batch. Codes that are close to each other take half the space.
pub(crate) enum HeldUnits {
    /// The distance of each code from the least one.
    Close {
        least: u64,
        most: u64,
        above: Vec<u32>,
    },
    Codes(Vec<u64>),
}

impl HeldUnits {
    /// These codes, in the form that takes less space.
    pub(in crate::operator::bound_contributions) fn new(
        codes: impl Iterator<Item = u64> + Clone,
    ) -> Self {
        let first = codes.clone().next().unwrap_or(0);
        let ends = |(least, most): (u64, u64), code: u64| (least.min(code), most.max(code));
        let (least, most) = codes.clone().fold((first, first), ends);
        if most - least > u64::from(u32::MAX) {
            return Self::Codes(codes.collect());
        }
        #[expect(clippy::cast_possible_truncation, reason = "the largest one fits")]
        let above = codes.map(|code| (code - least) as u32).collect();
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

    /// The least and the largest code, if all codes are close to each other.
    pub(in crate::operator::bound_contributions) fn ends(&self) -> Option<(u64, u64)> {
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

    /// Replaces each code `c` by `codes[c]`.
    pub(crate) fn renumber(&mut self, codes: &[u64], scratch: &mut Vec<u64>) -> Result<()> {
        self.codes(scratch);
        let new =
            |code: &u64| usize::try_from(*code).ok().and_then(|code| codes.get(code).copied());
        let renumbered: Option<Vec<u64>> = scratch.iter().map(new).collect();
        *self = Self::new(renumbered.ok_or_else(failed)?.iter().copied());
        Ok(())
    }
}

/// The names of units for the hash: their values, never the numbers that they got on arrival.
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
