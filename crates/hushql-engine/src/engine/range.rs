//! The range of a column, derived from a noisy histogram: the answer to `ANALYZE PRIVACY DOMAIN`.
//!
//! In: the calibrated release of one noisy count per bucket, and later the released counts. Out:
//! the least noisy count of a kept bucket, which is known before any row is read, and the range
//! that the kept buckets span. The range is a function of released numbers alone, so it costs
//! nothing more. It is a proposal: the owner declares. If no bucket is kept, the range is the
//! bucket with the largest noisy count.
//!
//! ```text
//! noisy counts …, [0, 0]: 3, [1, 1]: −7, [2, 3]: 94, [4, 7]: 310, [8, 15]: 1, …   kept from 29 on   →   2 to 7
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use crate::analysis::typed;
use crate::buckets::{Buckets, FALSE_ALARM, kept, least_kept};
use crate::dialect::ColumnName;
use crate::error::Error;
use crate::release::Release;
use crate::release::mechanism::Mechanism;

/// How to derive a range from the noisy counts of a column's buckets.
#[derive(Debug)]
pub(crate) struct Proposal {
    column: ColumnName,
    data_type: DataType,
    buckets: Buckets,
    least: i128,
}

impl Proposal {
    /// The proposal for a release of a column's buckets; `None` for any other release.
    pub(crate) fn from_release(
        release: &Release,
        column: ColumnName,
        data_type: DataType,
    ) -> Option<Self> {
        let buckets = Buckets::for_type(&data_type)?;
        let [part] = release.analysis().parts() else { return None };
        let [mechanized] = release.mechanisms(0) else { return None };
        if part.keys().all().len() != buckets.len() {
            return None;
        }
        let least = match &mechanized.mechanism {
            Mechanism::Laplace(noise) => least_kept(noise, buckets.len()),
            // The counts of a public column are exact.
            Mechanism::Exact => 1,
            _ => return None,
        };
        Some(Self { column, data_type, buckets, least })
    }

    /// The columns of the answer.
    pub(crate) fn schema(&self) -> Schema {
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let value = |name: &str| Field::new(name, self.data_type.clone(), false);
        Schema::new(vec![text("table"), text("column"), value("lo"), value("hi"), text("declare")])
    }

    /// The rule that keeps buckets, for people.
    pub(crate) fn rule(&self) -> String {
        format!(
            "{} buckets by powers of two; those with a noisy count of {} or more are kept, which an empty bucket reaches in {FALSE_ALARM} \
             histograms at most; the range spans them; if none is kept, the range is the bucket with the largest noisy count",
            self.buckets.len(),
            self.least
        )
    }

    /// The note for a range when no bucket is kept.
    fn note_without_buckets(&self) -> String {
        format!(
            "no bucket has a noisy count of {} or more: the range is the bucket with the largest one, which may be any bucket; \
             a larger epsilon gives a better range",
            self.least
        )
    }

    /// The range, with the statement that declares it, and a note on how it was found.
    ///
    /// # Guarantee
    /// The result is a function of the released rows and of public information; every possible
    /// release gives an answer.
    ///
    /// # Errors
    /// [`Error::Execution`] for rows that are not a histogram of these buckets.
    pub(crate) fn answer(&self, batches: &[RecordBatch]) -> Result<(RecordBatch, String), Error> {
        let mut counts = Vec::new();
        for batch in batches {
            let [bucket, n] = batch.columns() else { return Err(Error::Execution) };
            let integers = |column: &ArrayRef| column.as_primitive_opt::<Int64Type>().cloned();
            let (Some(bucket), Some(n)) = (integers(bucket), integers(n)) else {
                return Err(Error::Execution);
            };
            let counted = bucket.iter().zip(n.iter());
            counts.extend(
                counted.filter_map(|(bucket, n)| {
                    Some((usize::try_from(bucket?).ok()?, i128::from(n?)))
                }),
            );
        }
        let kept = kept(&counts, self.least);
        let note = if kept.stand_out { self.rule() } else { self.note_without_buckets() };
        let (lo, hi) = self.buckets.hull(&kept.buckets);
        let value = |text: &str| {
            typed(text, &self.data_type)
                .ok()
                .and_then(|value| value.to_array().ok())
                .ok_or(Error::Execution)
        };
        let ColumnName { table, column } = &self.column;
        let declare = format!(
            "ALTER TABLE {} ALTER COLUMN {} SET PRIVACY DOMAIN BETWEEN ({lo}, {hi})",
            identifier(table),
            identifier(column)
        );
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let columns = vec![
            ("table", text(table)),
            ("column", text(column)),
            ("lo", value(&lo)?),
            ("hi", value(&hi)?),
            ("declare", text(&declare)),
        ];
        let fields: Vec<_> = columns
            .iter()
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), false))
            .collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Ok((batch.map_err(|_| Error::Internal)?, note))
    }
}

/// A name in the notation of statements.
fn identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let simple = name.starts_with(plain) && name.chars().all(|c| plain(c) || c.is_ascii_digit());
    if simple { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_so_that_they_read_back() {
        assert_eq!(identifier("price_2"), "price_2");
        assert_eq!(identifier("Price"), "\"Price\"");
        assert_eq!(identifier("2nd"), "\"2nd\"");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
    }
}
