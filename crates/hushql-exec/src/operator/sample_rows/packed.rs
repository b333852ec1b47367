//! Holds columns in fewer bytes: four for a small number, and two for a text that repeats often.
//!
//! In: the columns of a batch. Out: a batch of the same values, or of the rows that pass a filter.
//! It guarantees that values and types are those that went in. The memory of the file is released:
//! each distinct text is copied once for each batch.
//!
//! ```text
//! city  'Graz', 'Linz', 'Graz', …  16 bytes a row     codes 0, 1, 0, …  2 bytes, and Graz, Linz
//! place  71, 9, 400, …              8 bytes           71, 9, 400, …     4 bytes
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions,
    UInt16Array, UInt32Array,
};
use arrow::compute::{FilterBuilder, take};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::common::Result;

use super::row_collector::bytes_of;
use crate::functions::ViewCache;
use crate::grid::failed;

/// Texts are coded if, on average, each distinct text of a batch has at least this many rows.
const ROWS_OF_A_TEXT: usize = 4;

/// Packs the batches of one partition.
pub(super) struct Packer {
    schema: SchemaRef,
    /// The texts of each column that were seen; `None` for a column whose texts are not coded.
    seen: Vec<Option<ViewCache<u16>>>,
}

/// The columns of a batch.
pub(super) struct Packed {
    schema: SchemaRef,
    columns: Vec<PackedColumn>,
    rows: usize,
}

enum PackedColumn {
    /// The column itself.
    Plain(ArrayRef),
    /// An Int64 whose values fit 32 bits and are not negative.
    Small(ArrayRef),
    /// A Utf8View: for each row, the place of its text in `texts`.
    Coded { codes: ArrayRef, texts: ArrayRef },
}

impl Packer {
    /// For batches of this schema.
    pub(super) fn new(schema: SchemaRef) -> Self {
        let coded = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Utf8View => Some(ViewCache::of_one_column(0)),
            _ => None,
        });
        Self { seen: coded.collect(), schema }
    }

    /// The bytes of the texts that were seen.
    pub(super) fn size(&self) -> usize {
        self.seen.iter().flatten().map(ViewCache::size).sum()
    }

    /// Packs these columns of `rows` rows.
    ///
    /// # Errors
    /// Arrow's errors, and an error with a constant text if the columns do not match the schema.
    pub(super) fn pack(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<Packed> {
        if columns.len() != self.seen.len() {
            return Err(failed());
        }
        let packed = columns.into_iter().zip(&mut self.seen).map(|(column, seen)| {
            if let Some(small) = small(&column) {
                return Ok(PackedColumn::Small(small));
            }
            let coded = seen.as_mut().map(|seen| coded(&column, seen)).transpose()?.flatten();
            if coded.is_none() {
                // A column with many texts in this batch has many in other batches, too.
                *seen = None;
            }
            Ok(coded.unwrap_or(PackedColumn::Plain(column)))
        });
        let columns = packed.collect::<Result<_>>()?;
        Ok(Packed { schema: Arc::clone(&self.schema), columns, rows })
    }
}

/// Numbers in 32 bits, if all of them fit.
fn small(column: &ArrayRef) -> Option<ArrayRef> {
    let numbers = column.as_primitive_opt::<Int64Type>()?;
    let bits = numbers.values().iter().fold(0, |bits, number| bits | number);
    u32::try_from(bits).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no number has a bit beyond 32"
    )]
    let small = numbers.values().iter().map(|number| *number as u32);
    Some(Arc::new(UInt32Array::new(small.collect(), numbers.nulls().cloned())))
}

/// The distinct texts, and the place of each row's text among them; `None` if most texts differ.
fn coded(column: &ArrayRef, seen: &mut ViewCache<u16>) -> Result<Option<PackedColumn>> {
    let Some(texts) = column.as_string_view_opt() else { return Ok(None) };
    let most = (texts.len() / ROWS_OF_A_TEXT).clamp(1, usize::from(u16::MAX));
    seen.begin();
    let (mut codes, mut first) = (Vec::with_capacity(texts.len()), Vec::new());
    for (row, view) in texts.views().iter().enumerate() {
        // The view of a NULL may equal that of a text.
        if texts.is_null(row) {
            codes.push(0);
            continue;
        }
        let code = seen.of(*view, || {
            first.push(u32::try_from(row).unwrap_or(u32::MAX));
            u16::try_from(first.len() - 1).unwrap_or(u16::MAX)
        });
        if first.len() > most {
            return Ok(None);
        }
        codes.push(code);
    }
    let texts = take(column, &UInt32Array::from(first), None)?;
    let codes = UInt16Array::new(codes.into(), column.nulls().cloned());
    Ok(Some(PackedColumn::Coded {
        codes: Arc::new(codes),
        texts: Arc::new(texts.as_string_view().gc()),
    }))
}

impl Packed {
    /// The number of rows.
    pub(super) fn num_rows(&self) -> usize {
        self.rows
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> Result<usize> {
        self.columns.iter().try_fold(0, |bytes, column| {
            Ok(bytes
                + match column {
                    PackedColumn::Plain(column) | PackedColumn::Small(column) => {
                        bytes_of(std::slice::from_ref(column))?
                    }
                    PackedColumn::Coded { codes, texts } => {
                        bytes_of(&[Arc::clone(codes), Arc::clone(texts)])?
                    }
                })
        })
    }

    /// The rows, or those that pass a filter.
    ///
    /// # Errors
    /// Arrow's errors.
    pub(super) fn rows(&self, passing: Option<&BooleanArray>) -> Result<RecordBatch> {
        let filter = passing.map(|passing| FilterBuilder::new(passing).optimize().build());
        let rows = filter.as_ref().map_or(self.rows, |filter| filter.count());
        let of = |column: &ArrayRef| match &filter {
            Some(filter) => filter.filter(column),
            None => Ok(Arc::clone(column)),
        };
        let columns = self.columns.iter().map(|column| -> Result<ArrayRef> {
            Ok(match column {
                PackedColumn::Plain(column) => of(column)?,
                PackedColumn::Small(column) => {
                    let small = of(column)?;
                    let small = small.as_primitive::<arrow::datatypes::UInt32Type>();
                    let numbers = small.values().iter().map(|number| i64::from(*number));
                    Arc::new(Int64Array::new(numbers.collect(), small.nulls().cloned()))
                }
                PackedColumn::Coded { codes, texts } => take(texts, &of(codes)?, None)?,
            })
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringViewArray};
    use arrow::compute::filter_record_batch;

    use super::*;
    use hushql_privacy::sampler::{QueryRng, Uniform};

    fn packed(packer: &mut Packer, rows: &RecordBatch) -> Packed {
        packer.pack(rows.columns().to_vec(), rows.num_rows()).unwrap()
    }

    fn batch(columns: [(&str, ArrayRef); 3]) -> RecordBatch {
        let columns = columns.map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    /// Covers short and long texts, views that were reused for other texts, missing values, numbers
    /// that are small in some batches only, and texts that differ more and more.
    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut rng = QueryRng::seeded_for_tests(5);
        let mut coded = 0;
        for (distinct, far) in
            [(1, 1), (2, 1 << 31), (20, 1 << 32), (60, -1), (70, 1 << 40), (200, 1)]
        {
            for rows in [1, 7, 300] {
                let mut packer = None;
                for of in [
                    "",
                    "a text that is too long for a view, ",
                    "a text that has some other letters, ",
                ] {
                    let mut roll = |sides: u64| rng.below_u64(sides);
                    let numbers: Int64Array = (0..rows)
                        .map(|_| {
                            let some = i64::try_from(roll(2)).unwrap() * far;
                            (roll(5) > 0).then(|| some + i64::try_from(roll(9)).unwrap())
                        })
                        .collect();
                    let texts: StringViewArray =
                        (0..distinct).map(|i| Some(format!("{of}{i}"))).collect();
                    let place = |_| (roll(5) > 0).then(|| u32::try_from(roll(distinct)).unwrap());
                    let places: UInt32Array = (0..rows).map(place).collect();
                    let texts = take(&texts, &places, None).unwrap();
                    let floats: Float64Array = (0..rows).map(|_| Some(0.5)).collect();
                    let rows =
                        batch([("n", Arc::new(numbers)), ("t", texts), ("f", Arc::new(floats))]);
                    let packer = packer.get_or_insert_with(|| Packer::new(rows.schema()));
                    let packed = packed(packer, &rows);
                    coded += usize::from(matches!(packed.columns[1], PackedColumn::Coded { .. }));
                    assert_eq!(packed.num_rows(), rows.num_rows());
                    assert_eq!(packed.rows(None).unwrap(), rows);
                    let passing = (0..rows.num_rows()).map(|_| Some(roll(2) > 0));
                    let passing: BooleanArray = passing.collect();
                    let expected = filter_record_batch(&rows, &passing).unwrap();
                    assert_eq!(packed.rows(Some(&passing)).unwrap(), expected);
                }
            }
        }
        assert!((15..40).contains(&coded), "{coded}");
    }

    /// A row takes fourteen bytes instead of 32 and its text, and does not keep the memory that its
    /// texts were read into.
    #[test]
    fn rows_take_few_bytes() {
        let texts = StringViewArray::from(vec!["Graz", "a city whose name is too long for a view"]);
        let places: UInt32Array = (0..8_000).map(|row| Some(row % 2)).collect();
        let texts = take(&texts, &places, None).unwrap();
        let numbers: Int64Array = (0..8_000).map(Some).collect();
        let floats = Float64Array::from(vec![0.5; 8_000]);
        let rows = batch([("n", Arc::new(numbers)), ("t", texts), ("f", Arc::new(floats))]);
        let packed = packed(&mut Packer::new(rows.schema()), &rows);
        let (bytes, before) = (packed.size().unwrap(), bytes_of(rows.columns()).unwrap());
        assert!((8_000 * 14..8_000 * 15).contains(&bytes), "{bytes}");
        assert!(before > 8_000 * 32, "{before}");
    }

    /// Texts that mostly differ are not coded, in this batch and in all others.
    #[test]
    fn many_texts_are_not_coded() {
        let one = |texts: Vec<String>| {
            let rows = texts.len();
            let texts: StringViewArray = texts.into_iter().map(Some).collect();
            let (n, f) = (Int64Array::from(vec![-1; rows]), Float64Array::from(vec![0.5; rows]));
            batch([("n", Arc::new(n)), ("t", Arc::new(texts)), ("f", Arc::new(f))])
        };
        let (many, few) =
            (one((0..99).map(|i| i.to_string()).collect()), one(vec!["x".into(); 99]));
        let mut packer = Packer::new(many.schema());
        let is_coded = |packed: &Packed| matches!(packed.columns[1], PackedColumn::Coded { .. });
        assert!(is_coded(&packed(&mut packer, &few)));
        assert!(!is_coded(&packed(&mut packer, &many)));
        assert!(!is_coded(&packed(&mut packer, &few)));
        assert!(matches!(packed(&mut packer, &few).columns[0], PackedColumn::Plain(_)));
    }
}
