//! The numbers that aggregates read of a batch: on the grid, clamped, and as narrow as their
//! interval allows.
//!
//! In: the batches of one partition. Out: for each batch and each source one lane with a number for
//! every row. It assumes that columns were checked against the grid. It guarantees that NULL, NaN
//! and filtered rows hold 0 and do not pass. Aggregates that read the same values share a source.
//! The batch itself can then be dropped: a price of 16 bytes becomes a number of 4.
//!
//! ```text
//! price DECIMAL(12, 2) IN 0..9999.99: 12.50, NULL, 20000.00  ─▶  [1250, 0, 999999] (32 bits), passing 1 0 1
//! ```

use std::mem::size_of;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use num_traits::AsPrimitive;

use crate::grid::pairs::Pairs;
use crate::grid::{GridRange, coarse_width, failed, passing, present};
use crate::operator::bound_contributions::exact::rows_by_unit::Inside;
use crate::operator::bound_contributions::exact::unit_contribution::{AggregateInput, InputKind};

/// What to read from a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::operator::bound_contributions) struct ValueSource {
    column: Option<usize>,
    filter: Option<usize>,
    range: Option<GridRange>,
    /// Values to be squared are read as their distance from the lower end, in steps of 2^shift.
    pub(in crate::operator::bound_contributions) shift: Option<u32>,
    /// The pairs, if their codes are read.
    pub(in crate::operator::bound_contributions) pairs: Option<Pairs>,
}

/// The sources of some aggregates.
#[derive(Debug)]
pub(crate) struct ValueSources {
    pub(in crate::operator::bound_contributions) list: Vec<ValueSource>,
    /// The source of each aggregate.
    pub(in crate::operator::bound_contributions) of: Vec<usize>,
    /// For each source, whether an aggregate needs to know which rows pass.
    pub(in crate::operator::bound_contributions) flagged: Vec<bool>,
}

/// The numbers of one source in one batch.
pub(crate) struct Lane {
    /// The rows that pass the filter and hold a value; `None` if all do, or no aggregate needs to
    /// know.
    pub(in crate::operator::bound_contributions) passing: Option<NullBuffer>,
    pub(in crate::operator::bound_contributions) numbers: LaneNumbers,
}

/// A number for every row, unless only rows are counted.
pub(in crate::operator::bound_contributions) enum LaneNumbers {
    None,
    Byte(Vec<i8>),
    Half(Vec<i16>),
    Short(Vec<i32>),
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

/// How many bits the numbers of a source need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operator::bound_contributions) enum Width {
    Byte,
    Half,
    Short,
    Narrow,
    Wide,
}

impl ValueSources {
    /// The sources of these aggregates. Aggregates with equal sources share one.
    pub(crate) fn new(inputs: &[AggregateInput]) -> Result<Self> {
        let mut sources = Self { list: Vec::new(), of: Vec::new(), flagged: Vec::new() };
        for input in inputs {
            let source = ValueSource::new(&input.kind)?;
            let known = sources.list.iter().position(|known| *known == source);
            let at = known.unwrap_or(sources.list.len());
            if known.is_none() {
                sources.list.push(source);
                sources.flagged.push(false);
            }
            sources.flagged[at] |= input.reads_flags();
            sources.of.push(at);
        }
        Ok(sources)
    }

    /// The lane of every source.
    ///
    /// # Errors
    /// An error with a constant text for a batch without a column that is read.
    pub(crate) fn read(&self, batch: &RecordBatch) -> Result<Vec<Lane>> {
        let sources = self.list.iter().zip(&self.flagged);
        sources.map(|(source, flagged)| source.read(batch, *flagged)).collect()
    }
}

impl ValueSource {
    fn new(kind: &InputKind) -> Result<Self> {
        Ok(Self {
            column: kind.column(),
            filter: kind.filter(),
            range: kind.range()?,
            shift: kind.shift(),
            pairs: kind.pairs().copied(),
        })
    }

    /// The width of the numbers; `None` if only rows are counted.
    pub(in crate::operator::bound_contributions) fn width(&self) -> Option<Width> {
        let range = self.range?;
        let ends = match self.shift {
            None => Some((range.lo(), range.hi())),
            Some(shift) => coarse_width(range.lo(), range.hi(), shift).map(|width| (0, width)),
        };
        let fits = |least: i128, most: i128| ends.is_some_and(|(lo, hi)| lo >= least && hi <= most);
        Some(if fits(i8::MIN.into(), i8::MAX.into()) {
            Width::Byte
        } else if fits(i16::MIN.into(), i16::MAX.into()) {
            Width::Half
        } else if fits(i32::MIN.into(), i32::MAX.into()) {
            Width::Short
        } else if fits(i64::MIN.into(), i64::MAX.into()) {
            Width::Narrow
        } else {
            Width::Wide
        })
    }

    fn read(&self, batch: &RecordBatch, flagged: bool) -> Result<Lane> {
        let filter = self.filter.map(|filter| batch.column(filter));
        let mask = filter.map(|filter| passing(filter.as_boolean()));
        let column = self.column.map(|column| batch.column(column).as_ref());
        let (Some(column), Some(range)) = (column, self.range) else {
            let held = column.and_then(present);
            let passing = NullBuffer::union(mask.as_ref(), held.as_ref());
            return Ok(Lane { passing, numbers: LaneNumbers::None });
        };
        let rows = batch.num_rows();
        let mut read = 0;
        let mask = mask.as_ref();
        let own = (range, column, mask);
        let numbers = match self.width().ok_or_else(failed)? {
            Width::Byte => LaneNumbers::Byte(self.numbers(own, &mut read)?),
            Width::Half => LaneNumbers::Half(self.numbers(own, &mut read)?),
            Width::Short => LaneNumbers::Short(self.numbers(own, &mut read)?),
            Width::Narrow => LaneNumbers::Narrow(self.numbers(own, &mut read)?),
            Width::Wide => LaneNumbers::Wide(self.numbers(own, &mut read)?),
        };
        let some = flagged && read < rows;
        let passing = some.then(|| NullBuffer::union(mask, present(column).as_ref())).flatten();
        Ok(Lane { passing, numbers })
    }

    /// The number of each row, and how many rows have a value.
    fn numbers<T>(
        &self,
        (range, column, mask): (GridRange, &dyn Array, Option<&NullBuffer>),
        read: &mut usize,
    ) -> Result<Vec<T>>
    where
        T: TryFrom<i128> + Copy + Default + 'static,
        i128: AsPrimitive<T>,
    {
        let Some(shift) = self.shift else {
            let (numbers, present) = range.numbers(column, mask)?;
            *read = present;
            return Ok(numbers);
        };
        let (mut numbers, mut fits) = (vec![T::default(); column.len()], true);
        range.for_each(column, mask, |row, value| {
            match T::try_from(range.above(value, shift)) {
                Ok(number) => numbers[row] = number,
                Err(_) => fits = false,
            }
            *read += 1;
        })?;
        if fits { Ok(numbers) } else { Err(failed()) }
    }
}

impl Lane {
    /// Whether a row passes the filter and holds a value.
    pub(in crate::operator::bound_contributions) fn passes(&self, row: usize) -> bool {
        self.passing.as_ref().is_none_or(|passing| passing.is_valid(row))
    }

    /// Appends the flag and the number of each row to `inside`; see [`Inside`].
    pub(in crate::operator::bound_contributions) fn add_inside(
        &self,
        rows: usize,
        inside: &mut Vec<Inside>,
    ) -> Result<()> {
        let with = |number: i16, row| Inside::new(self.passes(row), number);
        match &self.numbers {
            LaneNumbers::None => inside.extend((0..rows).map(|row| with(0, row))),
            LaneNumbers::Byte(numbers) => {
                inside.extend(
                    numbers.iter().zip(0..).map(|(number, row)| with((*number).into(), row)),
                );
            }
            LaneNumbers::Half(numbers) => {
                inside.extend(numbers.iter().zip(0..).map(|(number, row)| with(*number, row)));
            }
            LaneNumbers::Short(_) | LaneNumbers::Narrow(_) | LaneNumbers::Wide(_) => {
                return Err(failed());
            }
        }
        Ok(())
    }

    /// The bytes in use.
    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        let numbers = match &self.numbers {
            LaneNumbers::None => 0,
            LaneNumbers::Byte(numbers) => numbers.len(),
            LaneNumbers::Half(numbers) => numbers.len() * size_of::<i16>(),
            LaneNumbers::Short(numbers) => numbers.len() * size_of::<i32>(),
            LaneNumbers::Narrow(numbers) => numbers.len() * size_of::<i64>(),
            LaneNumbers::Wide(numbers) => numbers.len() * size_of::<i128>(),
        };
        numbers + self.passing.as_ref().map_or(0, |passing| passing.len() / 8)
    }
}

impl Width {
    /// Whether the sum of 2³¹ such numbers fits 64 bits.
    pub(in crate::operator::bound_contributions) fn is_short(self) -> bool {
        match self {
            Self::Byte | Self::Half | Self::Short => true,
            Self::Narrow | Self::Wide => false,
        }
    }
}

impl LaneNumbers {
    /// Whether these may be the codes of pairs, which fit 64 bits.
    pub(in crate::operator::bound_contributions) fn are_codes(&self) -> bool {
        match self {
            Self::Byte(_) | Self::Half(_) | Self::Short(_) | Self::Narrow(_) => true,
            Self::None | Self::Wide(_) => false,
        }
    }

    /// The number of a row; 0 if no numbers are read.
    pub(in crate::operator::bound_contributions) fn at(&self, row: usize) -> i128 {
        match self {
            Self::None => 0,
            Self::Byte(numbers) => numbers[row].into(),
            Self::Half(numbers) => numbers[row].into(),
            Self::Short(numbers) => numbers[row].into(),
            Self::Narrow(numbers) => numbers[row].into(),
            Self::Wide(numbers) => numbers[row],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};

    use super::*;
    use crate::grid::Grid;
    use crate::operator::bound_contributions::EnforcedBounds;

    fn batch() -> RecordBatch {
        let number: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(7), None, Some(i64::MAX)]));
        let float: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.5, -0.5, 9.0]));
        let flag: ArrayRef =
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), Some(true), None]));
        RecordBatch::try_from_iter([("number", number), ("float", float), ("flag", flag)]).unwrap()
    }

    fn lane(kind: InputKind) -> (Vec<i128>, Vec<bool>, Option<Width>) {
        let sources =
            ValueSources::new(&[AggregateInput::new(kind, EnforcedBounds::default())]).unwrap();
        let lanes = sources.read(&batch()).unwrap();
        let rows = 0..4;
        let numbers = rows.clone().map(|row| lanes[0].numbers.at(row)).collect();
        (numbers, rows.map(|row| lanes[0].passes(row)).collect(), sources.list[0].width())
    }

    fn mean(column: usize, filter: Option<usize>, grid: Grid, ends: (i128, i128)) -> InputKind {
        InputKind::Mean { column, filter, grid, lo: ends.0, hi: ends.1 }
    }

    /// Numbers are clamped to their interval, and held in as few bits as the whole interval needs.
    #[test]
    fn numbers_are_as_wide_as_their_interval() {
        let (least, most) = (i128::from(i32::MIN), i128::from(i32::MAX));
        let (far, farther) = (i128::from(i64::MIN), i128::from(i64::MAX));
        for (lo, hi, width) in [
            (0, 5, Width::Byte),
            (-128, 127, Width::Byte),
            (-129, 127, Width::Half),
            (-128, 128, Width::Half),
            (-32_768, 32_767, Width::Half),
            (-32_769, 32_767, Width::Short),
            (-32_768, 32_768, Width::Short),
            (least, most, Width::Short),
            (least, most + 1, Width::Narrow),
            (least - 1, most, Width::Narrow),
            (far, farther, Width::Narrow),
            (far, farther + 1, Width::Wide),
            (far - 1, farther, Width::Wide),
        ] {
            let (numbers, passing, own) = lane(mean(0, None, Grid::Integer, (lo, hi)));
            let clamped = |number: i128| number.clamp(lo, hi);
            assert_eq!(numbers, [clamped(far), clamped(7), 0, clamped(farther)]);
            assert_eq!((passing, own), (vec![true, true, false, true], Some(width)));
        }
    }

    #[test]
    fn what_does_not_pass_holds_nothing() {
        let halves = Grid::Binary { log2: 1 };
        let (numbers, passing, _) = lane(mean(1, None, halves, (-4, 9)));
        assert_eq!((numbers, passing), (vec![0, 3, -1, 9], vec![false, true, true, true]));
        let (numbers, passing, _) = lane(mean(1, Some(2), halves, (2, 9)));
        assert_eq!((numbers, passing), (vec![0, 0, 2, 0], vec![false, false, true, false]));
        let counted = InputKind::CountValues { column: 0, filter: Some(2) };
        let (numbers, passing, width) = lane(counted);
        assert_eq!((numbers, width), (vec![0; 4], None));
        assert_eq!(passing, [true, false, false, false]);
        let squared = InputKind::Moments {
            column: 0,
            filter: None,
            grid: Grid::Integer,
            lo: -9,
            hi: 9,
            shift: 1,
        };
        let (numbers, passing, width) = lane(squared);
        assert_eq!((numbers, width), (vec![0, 8, 0, 9], Some(Width::Byte)));
        assert_eq!(passing, [true, true, false, true]);
    }

    /// Aggregates of the same values share a source, which knows the passing rows if one of them
    /// needs them.
    #[test]
    fn equal_sources_are_one() {
        let sum = InputKind::Sum { column: 0, filter: None, grid: Grid::Integer, lo: 0, hi: 9 };
        let kinds =
            [sum, mean(0, None, Grid::Integer, (0, 9)), mean(0, None, Grid::Integer, (0, 8))];
        let inputs = kinds.map(|kind| AggregateInput::new(kind, EnforcedBounds::default()));
        let sources = ValueSources::new(&inputs).unwrap();
        assert_eq!((sources.list.len(), &sources.of[..]), (2, &[0, 0, 1][..]));
        assert_eq!(sources.flagged, [true, true]);
        let alone = ValueSources::new(&inputs[..1]).unwrap();
        assert_eq!(alone.flagged, [false]);
        assert!(alone.read(&batch()).unwrap()[0].passing.is_none());
    }
}
