//! Remarks for an owner about how a table is read.
//!
//! In: a table. Out: the end of a sentence, or nothing.
//!
//! ```text
//! a table of Delta Lake   →   "; version 7 of its log is read, until REFRESH takes a newer one"
//! ```

use crate::catalog::Table;

/// The remark about the version of a table of Delta Lake that is read.
pub(super) fn version_text(table: &Table) -> String {
    table.source.version().map_or_else(String::new, |version| {
        format!("; version {} of its log is read, until REFRESH takes a newer one", version.number)
    })
}

/// The remark about columns whose files name a time zone: their moments are read in UTC.
pub(super) fn read_in_utc(table: &Table) -> String {
    let zoned =
        table.columns.iter().filter_map(|column| Some((&column.name, column.zone.as_ref()?)));
    let said: Vec<String> = zoned
        .map(|(name, zone)| format!("{name} is read in UTC (the file names {zone})"))
        .collect();
    if said.is_empty() { String::new() } else { format!("; {}", said.join(", ")) }
}
