//! Bytes that are equal only for equal values.
//!
//! In: values, names and lists. Out: an [`EncodedFields`], in which every field has its length
//! before it, so that two lists of fields are equal only field by field.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use sha2::{Digest, Sha256};

/// Fields, each with its length before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EncodedFields(Vec<u8>);

impl EncodedFields {
    /// Fields of this kind.
    pub(super) fn of(kind: &str) -> Self {
        let mut all = Self::default();
        all.text(kind);
        all
    }

    /// The same with a further field.
    pub(super) fn with(mut self, other: &Self) -> Self {
        self.nested(other);
        self
    }

    /// The same, or its digest if it is long: what is used in many places is written in each, and
    /// would grow with every level of a statement otherwise.
    pub(super) fn short(self) -> Self {
        const LONG: usize = 64;
        if self.0.len() <= LONG {
            return self;
        }
        let mut short = Self::of("digest");
        short.bytes(&Sha256::digest(&self.0));
        short
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn nested(&mut self, other: &Self) {
        self.bytes(&other.0);
    }

    /// A list, whose length is known by its own bytes.
    pub(super) fn list<'a>(&mut self, list: impl IntoIterator<Item = &'a Self>) {
        let mut all = Self::default();
        list.into_iter().for_each(|one| all.nested(one));
        self.nested(&all);
    }

    /// A set: each member once, in the order of the bytes.
    pub(super) fn set<'a>(&mut self, list: impl IntoIterator<Item = &'a Self>) {
        let mut members: Vec<&Self> = list.into_iter().collect();
        members.sort();
        members.dedup();
        self.list(members);
    }

    /// Something that may be missing.
    pub(super) fn optional(&mut self, one: Option<&Self>) {
        self.list(one);
    }

    /// Numbers and names of our own: texts of a user have escapes there.
    pub(super) fn debug(&mut self, value: &dyn Debug) {
        self.text(&format!("{value:?}"));
    }

    /// Every value of a column. `None` as for [`EncodedFields::scalar`].
    pub(super) fn column(&mut self, column: &ArrayRef) -> Option<()> {
        self.debug(column.data_type());
        let mut values = Self::default();
        for row in 0..column.len() {
            values.scalar(&ScalarValue::try_from_array(column, row).ok()?)?;
        }
        self.nested(&values);
        Some(())
    }

    /// Every bit of a value. `None` for types whose values have no writing here: what is drawn from
    /// them is never the same.
    ///
    /// The text of a value does not do: that of binary values ends after ten bytes.
    pub(super) fn scalar(&mut self, value: &ScalarValue) -> Option<()> {
        self.debug(&value.data_type());
        if value.is_null() {
            self.bytes(&[]);
            return Some(());
        }
        self.text("value");
        match value {
            ScalarValue::Boolean(Some(value)) => self.bytes(&[u8::from(*value)]),
            ScalarValue::Int8(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Int16(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => {
                self.bytes(&value.to_be_bytes());
            }
            ScalarValue::Int64(Some(value))
            | ScalarValue::Date64(Some(value))
            | ScalarValue::TimestampSecond(Some(value), _)
            | ScalarValue::TimestampMillisecond(Some(value), _)
            | ScalarValue::TimestampMicrosecond(Some(value), _)
            | ScalarValue::TimestampNanosecond(Some(value), _) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt8(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt16(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt32(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt64(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Float32(Some(value)) => self.bytes(&value.to_bits().to_be_bytes()),
            ScalarValue::Float64(Some(value)) => self.bytes(&value.to_bits().to_be_bytes()),
            ScalarValue::Decimal32(Some(value), ..) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Decimal64(Some(value), ..) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Decimal128(Some(value), ..) => self.bytes(&value.to_be_bytes()),
            ScalarValue::IntervalYearMonth(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::IntervalDayTime(Some(value)) => {
                self.bytes(&value.days.to_be_bytes());
                self.bytes(&value.milliseconds.to_be_bytes());
            }
            ScalarValue::IntervalMonthDayNano(Some(value)) => {
                self.bytes(&value.months.to_be_bytes());
                self.bytes(&value.days.to_be_bytes());
                self.bytes(&value.nanoseconds.to_be_bytes());
            }
            ScalarValue::Utf8(Some(value))
            | ScalarValue::LargeUtf8(Some(value))
            | ScalarValue::Utf8View(Some(value)) => self.text(value),
            ScalarValue::Binary(Some(value))
            | ScalarValue::LargeBinary(Some(value))
            | ScalarValue::BinaryView(Some(value)) => self.bytes(value),
            _ => return None,
        }
        Some(())
    }
}
