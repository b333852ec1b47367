//! Answers as tables for people and as CSV for programs.
//!
//! In: a [`View`]. Out: text without a final line break (tables) or with one per row (CSV). Tables show
//! how accurate each released number is, right of it; CSV holds the answer alone.
//!
//! ```text
//! ┌──────────┬──────┬────────┐
//! │ status   ┆    n ┆ ± 95 % │
//! ╞══════════╪══════╪════════╡
//! │ Divorced ┆ 4440 ┆      3 │
//! └──────────┴──────┴────────┘
//! ```

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::view::{Cell, Column, View, percent, round};

/// Longer values, such as domains of many words, go on in a second line.
const WIDEST: u16 = 72;

/// An answer as a table, and a line per winner below it.
pub(super) fn table(view: &View, width: Option<u16>) -> String {
    let mut header = Vec::new();
    for column in &view.columns {
        header.push((column.name.clone(), column.kind.is_numeric()));
        header.extend(column.margin.map(|m| (format!("± {}", percent(m.confidence)), true)));
    }
    let row = |cells: &Vec<Cell>| {
        view.columns
            .iter()
            .zip(cells)
            .flat_map(|(column, cell)| with_margin(column, cell))
            .collect()
    };
    let rows: Vec<Vec<String>> = view.rows.iter().map(row).collect();
    let mut text = grid(&header, &rows, width);
    if view.rows.is_empty() {
        text.push_str("\n(no rows)");
    }
    for line in &view.winners {
        text.push('\n');
        text.push_str(&visible(line));
    }
    text
}

/// A cell, and how far it may be off where that is known; nothing is off about NULL.
fn with_margin(column: &Column, cell: &Cell) -> Vec<String> {
    let margin = column.margin.map(|margin| match cell {
        Cell::Null => String::new(),
        _ => round(margin.value),
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
    table.set_header(header.iter().map(|(title, _)| visible(title)));
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| visible(cell))));
    for (column, (_, right)) in table.column_iter_mut().zip(header) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(WIDEST)));
        if *right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Text with its control characters spelled out: a value must not steer the reader's terminal.
fn visible(text: &str) -> String {
    let spelled =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(spelled) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if spelled(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// An answer as CSV (RFC 4180, line feeds): a header and the rows; NULL is empty, empty text is `""`.
pub(super) fn csv(view: &View) -> String {
    let mut text = String::new();
    line(&mut text, view.columns.iter().map(|column| field(&column.name)));
    for row in &view.rows {
        line(
            &mut text,
            row.iter()
                .map(|cell| if *cell == Cell::Null { String::new() } else { field(cell.text()) }),
        );
    }
    text
}

fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    text.push_str(&fields.collect::<Vec<_>>().join(","));
    text.push('\n');
}

fn field(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{Kind, Margin};
    use super::*;

    fn view() -> View {
        let margin = Some(Margin { value: 2.9957, confidence: 0.95 });
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
│ Divorced, \"or\" so ┆ 4440 ┆      3 │
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
        assert_eq!(csv(&view()), "status,n\n\"Divorced, \"\"or\"\" so\",4440\n\"\",\n");
    }

    #[test]
    fn values_do_not_steer_the_terminal() {
        let shown =
            grid(&[("x".to_owned(), false)], &[vec!["\u{1b}[31mred\u{202e}\n".to_owned()]], None);
        assert!(shown.contains("\\u{1b}[31mred\\u{202e}\\n"), "{shown}");
    }
}
