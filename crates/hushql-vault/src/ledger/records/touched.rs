//! The cells of an entry, as the ledger stores them.
//!
//! In: the cells to which alone a release was charged. Out: a text that is part of the entry's
//! hash, and the same cells again.
//!
//! ```text
//! region 'Oslo' and other, which began after entry 17   ↔   ["region",17,["Oslo",null]]
//! ```

use rusqlite::Row;

use crate::catalog::{Cell, Touched};
use crate::ledger::error::Fault;

/// The cells as a JSON array: the column, the beginning, and the values; `null` is *other*.
pub(super) fn text(touched: &Touched) -> String {
    let Touched { column, since, cells } = touched;
    let cells: Vec<Option<&str>> = cells.iter().map(Cell::stored).collect();
    serde_json::json!([column, since, cells]).to_string()
}

/// The cells of an entry; `None` for all cells.
///
/// # Errors
/// [`Fault::Damage`] if it is not the text of at least one cell.
pub(super) fn read(row: &Row<'_>) -> Result<Option<Touched>, Fault> {
    let Some(stored) = row.get::<_, Option<String>>("cells")? else { return Ok(None) };
    let read = of_text(&stored);
    read.map(Some).ok_or_else(|| Fault::Damage("the ledger has unreadable cells".to_owned()))
}

fn of_text(stored: &str) -> Option<Touched> {
    let read: (String, i64, Vec<Option<String>>) = serde_json::from_str(stored).ok()?;
    let (column, since, cells) = read;
    let touched = Touched { column, since, cells: cells.into_iter().map(Cell::read).collect() };
    // The same cells always have the same text, so the hash identifies the cells.
    (!touched.cells.is_empty() && text(&touched) == stored).then_some(touched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_they_were_written() {
        let cells = ["Oslo", "a \"b\""].map(|value| Cell::Value(value.to_owned()));
        let cells = cells.into_iter().chain([Cell::Other]).collect();
        let touched = Touched { column: "region".to_owned(), since: 17, cells };
        assert_eq!(text(&touched), r#"["region",17,["Oslo","a \"b\"",null]]"#);
        assert_eq!(of_text(&text(&touched)), Some(touched));
        for other in [
            "",
            "[]",
            r#"["region",17,[]]"#,
            r#"["region",17,["b","a"]]"#,
            r#"["region",17,["a","a"]]"#,
            r#"["region", 17,["a"]]"#,
        ] {
            assert_eq!(of_text(other), None, "{other}");
        }
    }
}
