//! The type of texts in all tables of files.
//!
//! In: the columns of a table. Out: the same columns, with texts as views.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};

/// The same columns with texts as views, which Parquet reads without copying each text. Texts of
/// other formats get the same type, so that tables of different formats can link to each other.
pub(super) fn viewed(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
