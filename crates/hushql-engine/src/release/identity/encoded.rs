//! Bytes that are equal only for equal values.
//!
//! In: values, names and lists. Out: an [`EncodedFields`]. Each field follows its length, so two
//! lists of fields are equal only if they are equal field by field.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use sha2::{Digest, Sha256};

/// Fields, each after its length.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EncodedFields(Vec<u8>);

impl EncodedFields {
    /// The beginning of an encoding: a field that names its kind.
    pub(super) fn of(kind: &str) -> Self {
        let mut all = Self::default();
        all.text(kind);
        all
    }

    /// Appends a further field.
    pub(super) fn with(mut self, other: &Self) -> Self {
        self.nested(other);
        self
    }

    /// The encoding itself if it is short, otherwise its digest. An encoding that is used in
    /// several places is repeated in each of them, so without digests its size would grow with
    /// every level of a statement.
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

    /// A list, as one field with a length of its own.
    pub(super) fn list<'a>(&mut self, list: impl IntoIterator<Item = &'a Self>) {
        let mut all = Self::default();
        list.into_iter().for_each(|one| all.nested(one));
        self.nested(&all);
    }

    /// A set: each member once, ordered by its bytes.
    pub(super) fn set<'a>(&mut self, list: impl IntoIterator<Item = &'a Self>) {
        let mut members: Vec<&Self> = list.into_iter().collect();
        members.sort();
        members.dedup();
        self.list(members);
    }

    /// A field that may be missing.
    pub(super) fn optional(&mut self, one: Option<&Self>) {
        self.list(one);
    }

    /// The debug output of numbers and our own names. It escapes texts of a user.
    pub(super) fn debug(&mut self, value: &dyn Debug) {
        self.text(&format!("{value:?}"));
    }

    /// Every value of a column. `None` if [`EncodedFields::scalar`] does not encode its type.
    pub(super) fn column(&mut self, column: &ArrayRef) -> Option<()> {
        self.debug(column.data_type());
        let mut values = Self::default();
        for row in 0..column.len() {
            values.scalar(&ScalarValue::try_from_array(column, row).ok()?)?;
        }
        self.nested(&values);
        Some(())
    }

    /// Every bit of a value. `None` for types that have no encoding here: a draw from such values
    /// is never recognised.
    ///
    /// The displayed text of a value is not enough: that of a binary value ends after ten bytes.
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
            | ScalarValue::Time64Microsecond(Some(value))
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
