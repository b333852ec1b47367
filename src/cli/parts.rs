//! Long answers, written part by part.
//!
//! In: an answer of more than 16 MiB. Out: its text in the format of the printer, a few rows at a
//! time, so that the text is never whole in memory. A table needs all rows for its widths, so a
//! long answer has a line for each cell instead. CSV, Markdown and JSON are those of a short
//! answer.
//!
//! ```text
//! head ─▶ rows 1 to 63 ─▶ rows 64 to 127 ─▶ … ─▶ winners, or the end of the JSON object
//! ```

use std::io;

use arrow::array::{Array, RecordBatch};
use hushql::Answer;
use hushql_engine::visible;

use super::failure::Failure;
use super::view::View;
use super::{json, table};

/// Answers with more bytes than this are written part by part.
const LONG: usize = 16 << 20;

/// The bytes of one part, unless one row has more.
const PART: usize = 2 << 20;

/// The format of a long answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    /// A line for each cell.
    Records,
    /// A table of Markdown.
    Markdown,
    /// CSV, see [`table::csv`].
    Csv { safe: bool, errors: bool },
    /// The same with tabs.
    Tsv { safe: bool, errors: bool },
    /// One object.
    Json,
}

/// Takes a piece of text.
pub(super) type Write<'a> = &'a mut dyn FnMut(&str) -> Result<(), Failure>;

/// True if an answer is written part by part.
pub(super) fn is_long(answer: &Answer) -> bool {
    answer.batches().iter().map(bytes).fold(0, usize::saturating_add) > LONG
}

fn bytes(batch: &RecordBatch) -> usize {
    // If a column does not tell its size, its memory is the largest that it can be.
    let of = |column: &dyn Array| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(|column| of(column)).fold(0, usize::saturating_add)
}

/// Writes an answer part by part.
///
/// # Errors
/// Those of `write`, and of values that have no text.
pub(super) fn write(layout: Layout, answer: &Answer, write: Write<'_>) -> Result<(), Failure> {
    let mut whole = View::without_rows(answer);
    let winners = std::mem::take(&mut whole.winners);
    let head = match layout {
        Layout::Records => String::new(),
        Layout::Markdown => table::markdown(&whole),
        Layout::Csv { safe, errors } => table::csv(&whole, safe, errors),
        Layout::Tsv { safe, errors } => table::tsv(&whole, safe, errors),
        Layout::Json => json::answer(answer, &whole).map_err(io::Error::from)?,
    };
    let mut end = String::new();
    match layout {
        Layout::Json => {
            // No string of JSON contains this, because its quotes would be escaped.
            let (before, after) = head.split_once(",\"rows\":[],").unwrap_or((&head, ""));
            write(&format!("{before},\"rows\":["))?;
            end = format!("],{after}\n");
        }
        Layout::Markdown => write(&visible::lines(&head))?,
        Layout::Records | Layout::Csv { .. } | Layout::Tsv { .. } => write(&head)?,
    }
    let mut first = 0;
    for batch in answer.batches() {
        let most = (PART / (bytes(batch) / batch.num_rows().max(1)).max(1)).max(1);
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = batch.slice(from, most.min(batch.num_rows() - from));
            let part = whole.with_rows(&rows, first)?;
            write(&text(layout, &part, first, head.len())?)?;
            first += rows.num_rows();
            from += rows.num_rows();
        }
    }
    if let Layout::Records | Layout::Markdown = layout {
        end.push_str(if let Layout::Markdown = layout { "\n" } else { "" });
        for line in &winners {
            end.push_str(&visible::line(line));
            end.push('\n');
        }
    }
    write(&end)
}

/// The text of some rows. `head` is the length of the text without rows.
fn text(layout: Layout, part: &View, first: usize, head: usize) -> Result<String, Failure> {
    let behind = |text: String| text.get(head..).unwrap_or_default().to_owned();
    Ok(match layout {
        Layout::Records => {
            visible::lines(&table::expanded_from(part, None, first)).into_owned() + "\n"
        }
        Layout::Markdown => visible::lines(&behind(table::markdown(part))).into_owned(),
        Layout::Csv { safe, errors } => behind(table::csv(part, safe, errors)),
        Layout::Tsv { safe, errors } => behind(table::tsv(part, safe, errors)),
        Layout::Json => {
            let rows = json::rows(part).map_err(io::Error::from)?;
            let rows = visible::json(&rows).into_owned();
            if first == 0 { rows } else { format!(",{rows}") }
        }
    })
}

#[cfg(test)]
mod tests {
    use hushql::Engine;

    use super::*;

    /// Whatever the layout, the parts together are the text of the whole answer.
    #[tokio::test]
    async fn parts_together_are_the_whole() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        let sql = "SELECT v.x, repeat('a\"b,\t', 12000) AS \"t,\", NULL AS \"],\" \
                   FROM (VALUES (1), (2), (3), (4), (5), (6), (7)) AS v(x), \
                   (VALUES (1), (2), (3), (4), (5), (6), (7)) AS w(x) ORDER BY v.x";
        let answer = session.query(sql).await.unwrap();
        let whole = View::for_answer(&answer).unwrap();
        let size = answer.batches().iter().map(bytes).sum::<usize>();
        assert!(size > PART && size < LONG && !is_long(&answer), "{size}");
        let (safe, errors) = (false, true);
        for (layout, expected) in [
            (Layout::Records, table::expanded(&whole, None) + "\n"),
            (Layout::Markdown, table::markdown(&whole) + "\n"),
            (Layout::Csv { safe, errors }, table::csv(&whole, safe, errors)),
            (Layout::Tsv { safe, errors }, table::tsv(&whole, safe, errors)),
            (Layout::Json, json::answer(&answer, &whole).unwrap() + "\n"),
        ] {
            let (mut all, mut pieces) = (String::new(), 0);
            let mut add = |text: &str| {
                all.push_str(text);
                pieces += 1;
                Ok(())
            };
            write(layout, &answer, &mut add).unwrap();
            assert!(all == expected, "{layout:?}");
            assert!(pieces > 3, "{layout:?}: {pieces} pieces");
        }
    }
}
