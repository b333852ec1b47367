//! Finds columns of files whose types Arrow's reader does not know.
//!
//! In: the description of columns in an Arrow file, or the one that writers of Parquet files add.
//! Out: the name of the first column that Arrow's own conversion would panic on, such as a whole
//! number of 128 bits.
//!
//! ```text
//! id Utf8, h Int(128)        h
//! id Utf8, n Int(64)         none
//! ```

use arrow::ipc::{Field, Schema, Type, root_as_footer, root_as_message};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The column of an unknown type in the footer of an Arrow file; `None` too if it is no footer.
pub fn unknown_in_footer(footer: &[u8]) -> Option<String> {
    unknown(root_as_footer(footer).ok()?.schema()?)
}

/// The same for the text that a Parquet file has under `ARROW:schema`.
pub fn unknown_in_text(encoded: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    let message = match bytes.strip_prefix(&[0xff; 4]) {
        Some(behind) => behind.get(4..)?,
        None => bytes.as_slice(),
    };
    unknown(root_as_message(message).ok()?.header_as_schema()?)
}

fn unknown(schema: Schema<'_>) -> Option<String> {
    let unknown = schema.fields()?.iter().find(|field| !is_known(field))?;
    Some(unknown.name().unwrap_or_default().to_owned())
}

fn is_known(field: &Field<'_>) -> bool {
    let is_width = |bits: i32| matches!(bits, 8 | 16 | 32 | 64);
    let own = match field.type_type() {
        Type::Int => field.type_as_int().is_some_and(|int| is_width(int.bitWidth())),
        Type::Decimal => field
            .type_as_decimal()
            .is_some_and(|decimal| matches!(decimal.bitWidth(), 32 | 64 | 128 | 256)),
        Type::NONE => false,
        other => other.variant_name().is_some(),
    };
    let index = field.dictionary().and_then(|dictionary| dictionary.indexType());
    let below = field.children();
    own && index.is_none_or(|int| is_width(int.bitWidth()))
        && below.is_none_or(|fields| fields.iter().all(|field| is_known(&field)))
}
