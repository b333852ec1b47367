//! Answers as tables for people and as CSV for programs.
//!
//! In: a [`View`]. Out: text without a final line break (tables), or with a line break after each row (CSV). Tables show
//! the accuracy of each released number to its right; CSV contains only the answer.
//!
//! ```text
//! ┌──────────┬──────┬────────┐
//! │ status   ┆    n ┆ ± 95 % │
//! ╞══════════╪══════╪════════╡
//! │ Divorced ┆ 4440 ┆   3.00 │
//! └──────────┴──────┴────────┘
//! ```

use std::borrow::Cow;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use hushql::visible;

use super::view::{Cell, Column, View, percent};

/// The longest value in one line; longer values, such as domains of many words, continue in a second one.
const WIDEST: u16 = 72;

/// An answer as a table, and a line for each winner below it.
pub(super) fn table(view: &View, width: Option<u16>) -> String {
    let mut header = Vec::new();
    for column in &view.columns {
        header.push((column.name.clone(), column.kind.is_numeric()));
        header
            .extend(column.margin.as_ref().map(|m| (format!("± {}", percent(m.confidence)), true)));
    }
    let row = |(row, cells): (usize, &Vec<Cell>)| {
        view.columns
            .iter()
            .zip(cells)
            .flat_map(|(column, cell)| with_margin(column, cell, row))
            .collect()
    };
    let rows: Vec<Vec<String>> = view.rows.iter().enumerate().map(row).collect();
    let mut text = grid(&header, &rows, width);
    if view.rows.is_empty() {
        text.push_str("\n(no rows)");
    }
    for line in &view.winners {
        text.push('\n');
        text.push_str(&visible::line(line));
    }
    text
}

/// A cell and its error margin, if that is known; NULL has none.
fn with_margin(column: &Column, cell: &Cell, row: usize) -> Vec<String> {
    let margin = column.margin.as_ref().map(|margin| {
        let error = margin.errors.get(row).copied().flatten();
        error.map_or_else(String::new, visible::rounded)
    });
    [cell.text().to_owned()].into_iter().chain(margin).collect()
}

/// A bordered table; a column is a title and whether it is aligned to the right.
pub(super) fn grid(header: &[(String, bool)], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.set_header(header.iter().map(|(title, _)| visible::line(title)));
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| visible::line(cell))));
    for (column, (_, right)) in table.column_iter_mut().zip(header) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(WIDEST)));
        if *right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// An answer as CSV (RFC 4180, line feeds): a header and the rows; NULL is empty, empty text is `""`.
///
/// With `safe`, names and texts that a spreadsheet would run have an apostrophe before them; numbers do not change. With
/// `errors`, a column with a ± has a column `…_error` behind it.
pub(super) fn csv(view: &View, safe: bool, errors: bool) -> String {
    let name = |name: &str| if safe { field(&inert(name)) } else { field(name) };
    let value = |cell: &Cell| match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => name(text),
        Cell::Number(_) | Cell::Boolean(_) => field(cell.text()),
    };
    let mut text = String::new();
    let margin = |column: &Column| column.margin.clone().filter(|_| errors);
    let header = view.columns.iter().flat_map(|column| {
        let error = margin(column).map(|_| name(&format!("{}_error", column.name)));
        std::iter::once(name(&column.name)).chain(error)
    });
    line(&mut text, header);
    let margins: Vec<_> = view.columns.iter().map(margin).collect();
    for (i, row) in view.rows.iter().enumerate() {
        let cells = row.iter().zip(&margins).flat_map(|(cell, margin)| {
            let error = margin.as_ref().map(|margin| margin.errors.get(i).copied().flatten());
            let error = error.map(|error| error.map_or_else(String::new, |e| e.to_string()));
            std::iter::once(value(cell)).chain(error)
        });
        line(&mut text, cells);
    }
    text
}

/// A text that a spreadsheet does not take for a formula.
fn inert(text: &str) -> Cow<'_, str> {
    // Some spreadsheets take the last four for the first four.
    const RUN: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];
    if text.starts_with(RUN) { format!("'{text}").into() } else { text.into() }
}

fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    text.push_str(&fields.collect::<Vec<_>>().join(","));
    text.push('\n');
}

fn field(text: &str) -> String {
    let text = visible::cell(text);
    if text.is_empty() || text.contains([',', '"', '\r', '\n', '\t']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{Kind, Margin};
    use super::*;

    fn view() -> View {
        let margin = Some(Margin { errors: vec![Some(2.9957), None], confidence: 0.95 });
        let text = |value: &str| Cell::Text(value.to_owned());
        View {
            columns: vec![
                Column { name: "status".to_owned(), kind: Kind::Text, margin: None },
                Column { name: "n".to_owned(), kind: Kind::Integer, margin },
            ],
            rows: vec![
                vec![text("Divorced, \"or\" so"), Cell::Number("4440".to_owned())],
                vec![text(""), Cell::Null],
            ],
            winners: Vec::new(),
        }
    }

    #[test]
    fn a_released_number_has_its_accuracy_right_of_it() {
        let expected = "\
┌───────────────────┬──────┬────────┐
│ status            ┆    n ┆ ± 95 % │
╞═══════════════════╪══════╪════════╡
│ Divorced, \"or\" so ┆ 4440 ┆   3.00 │
│                   ┆ NULL ┆        │
└───────────────────┴──────┴────────┘";
        assert_eq!(table(&view(), None), expected);
    }

    #[test]
    fn nothing_and_winners_are_said_below() {
        let winners = vec!["status: within 4.94 of the best (95 %)".to_owned()];
        let text = table(&View { rows: Vec::new(), winners, ..view() }, Some(80));
        assert!(text.ends_with("\n(no rows)\nstatus: within 4.94 of the best (95 %)"), "{text}");
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        assert_eq!(
            csv(&view(), false, false),
            "status,n\n\"Divorced, \"\"or\"\" so\",4440\n\"\",\n"
        );
    }

    #[test]
    fn csv_has_the_errors_where_asked_for() {
        let expected = "status,n,n_error\n\"Divorced, \"\"or\"\" so\",4440,2.9957\n\"\",,\n";
        assert_eq!(csv(&view(), false, true), expected);
    }

    #[test]
    fn what_spreadsheets_would_run_has_an_apostrophe_where_asked_for() {
        let text = |value: &str| Cell::Text(value.to_owned());
        let hostile = View {
            columns: vec![
                Column { name: "=1+1".to_owned(), kind: Kind::Text, margin: None },
                Column { name: "n".to_owned(), kind: Kind::Integer, margin: None },
            ],
            rows: ["=HYPERLINK(\"x\")", "+1", "-1", "@x", "\t=1", "\r=1", "＝1", "a=1", "'=1"]
                .iter()
                .map(|value| vec![text(value), Cell::Number("-7".to_owned())])
                .collect(),
            winners: Vec::new(),
        };
        assert_eq!(
            csv(&hostile, true, false),
            "'=1+1,n\n\"'=HYPERLINK(\"\"x\"\")\",-7\n'+1,-7\n'-1,-7\n'@x,-7\n\"'\t=1\",-7\n\
             \"'\r=1\",-7\n'＝1,-7\na=1,-7\n'=1,-7\n"
        );
        assert!(
            csv(&hostile, false, false).starts_with("=1+1,n\n\"=HYPERLINK"),
            "as it is, unless asked"
        );
    }

    /// Line breaks and tabs are data in CSV; other control characters are escaped there too.
    #[test]
    fn csv_steers_no_terminal() {
        assert_eq!(field("\u{1b}[2J\u{9b}\u{202e}"), "\\u{1b}[2J\\u{9b}\\u{202e}");
        assert_eq!(field("a\r\n\tb\u{7f}"), "\"a\r\n\tb\\u{7f}\"");
    }

    #[test]
    fn values_do_not_steer_the_terminal() {
        let shown =
            grid(&[("x".to_owned(), false)], &[vec!["\u{1b}[31mred\u{202e}\n".to_owned()]], None);
        assert!(shown.contains("\\u{1b}[31mred\\u{202e}\\n"), "{shown}");
    }
}
