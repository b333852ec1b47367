//! Answers as tables for people and as CSV for programs.
//!
//! In: a [`View`]. Out: text without a final line break (tables), or with a line break after each
//! row (CSV). Tables show the accuracy of each released number to its right; CSV contains only the
//! answer.
//!
//! ```text
//! ┌──────────┬──────┬────────┐
//! │ status   ┆    n ┆ ± 95 % │
//! ╞══════════╪══════╪════════╡
//! │ Divorced ┆ 4440 ┆   3.00 │
//! └──────────┴──────┴────────┘
//! ```

use std::borrow::Cow;
use std::ops::Range;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use hushql::privacy::Spend;
use hushql_engine::visible;

use super::plain;
use super::view::{AnswerColumn, Cell, ColumnFormat, View, percent};

/// The longest value on one line. Longer values, such as domains of many words, continue on a
/// second line.
const WIDEST: u16 = 72;
/// The spaces around a cell.
const PADDING: u16 = 2;
/// Words of a title up to this length are not broken.
const TITLE: usize = 12;
/// Words of a cell up to this length are not broken. The first of these lengths for which there is
/// room is used.
const WORDS: [usize; 7] = [64, 40, 28, 20, 16, 12, 8];
/// Numbers in a text up to this length are not broken.
const NUMBER: usize = 30;

/// The part of an answer that a table shows. If there are more than `most` rows, the first and the
/// last ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableFrame {
    /// The width of the terminal.
    pub(super) width: Option<u16>,
    /// The most rows to show.
    pub(super) most: Option<usize>,
    /// Whether signs are ASCII.
    pub(super) ascii: bool,
}

/// An answer as a table, with a line for each winner below it.
pub(super) fn table(view: &View, frame: TableFrame) -> String {
    let header = header(view);
    let count = view.rows.len();
    let [first, last] = shown(count, frame.most);
    let mut rows: Vec<Vec<String>> = first.map(|row| with_margins(view, row)).collect();
    let is_cut = rows.len() + last.len() < count;
    if is_cut {
        rows.push(vec!["…".to_owned(); header.len()]);
    }
    rows.extend(last.map(|row| with_margins(view, row)));
    let mut text = grid(&header, &rows, frame);
    // A terminal breaks lines anywhere, even inside numbers and words.
    let is_wide = |width: u16| text.lines().any(|line| line.chars().count() > usize::from(width));
    let is_narrow = whole_words(&header, &rows, frame.width) == 0;
    if count > 0 && (is_narrow || frame.width.is_some_and(is_wide)) {
        return expanded(view, frame.most);
    }
    if is_cut {
        text.push_str(&format!("\n({} of {count} rows; \\rows all shows all)", rows.len() - 1));
    }
    if count == 0 {
        text.push_str("\n(no rows)");
    }
    with_winners(text, view)
}

/// An answer as a table of Markdown.
pub(super) fn markdown(view: &View) -> String {
    let header = header(view);
    let cell = |text: &str| visible::line(text).replace('\\', "\\\\").replace('|', "\\|");
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let titles = header.iter().map(|(title, _)| cell(title)).collect();
    let rules = header.iter().map(|(_, right)| if *right { "---:" } else { "---" }.to_owned());
    let mut lines = vec![line(titles), line(rules.collect())];
    lines.extend(
        (0..view.rows.len())
            .map(|row| line(with_margins(view, row).iter().map(|text| cell(text)).collect())),
    );
    with_winners(lines.join("\n"), view)
}

/// An answer with a line for each cell, for rows that are wider than the terminal.
pub(super) fn expanded(view: &View, most: Option<usize>) -> String {
    expanded_from(view, most, 0)
}

/// The same for rows of which others come before the first.
pub(super) fn expanded_from(view: &View, most: Option<usize>, before: usize) -> String {
    let widest = view.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
    let record = |row: usize| {
        let mut text = format!("─[ row {} ]─", before + row + 1);
        for (i, column) in view.columns.iter().enumerate() {
            let cells = with_margin(view, i, row);
            let cells: Vec<String> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
            let (name, value) = (visible::line(&column.name), cells.join(" ± "));
            text.push_str(format!("\n{name:<widest$}  {}", visible::line(&value)).trim_end());
        }
        text
    };
    let count = view.rows.len();
    let [first, last] = shown(count, most);
    let shown = first.len() + last.len();
    let cut = (shown < count).then(|| "…".to_owned());
    let note = cut.is_some().then(|| format!("({shown} of {count} rows; \\rows all shows all)"));
    let lines = first.map(record).chain(cut).chain(last.map(record)).chain(note);
    let lines: Vec<String> = lines.collect();
    let text = if count == 0 { "(no rows)".to_owned() } else { lines.join("\n") };
    with_winners(text, view)
}

/// The rows to show: all, or the first and the last ones.
fn shown(count: usize, most: Option<usize>) -> [Range<usize>; 2] {
    match most {
        Some(most) if count > most => {
            let first = most.div_ceil(2);
            [0..first, count - (most - first)..count]
        }
        Some(_) | None => [0..count, count..count],
    }
}

/// The titles, and whether their columns are aligned to the right.
fn header(view: &View) -> Vec<(String, bool)> {
    let mut header = Vec::new();
    for column in &view.columns {
        header.push((column.name.clone(), column.kind.is_numeric()));
        header
            .extend(column.margin.as_ref().map(|m| (format!("± {}", percent(m.confidence)), true)));
    }
    header
}

fn with_winners(mut text: String, view: &View) -> String {
    for line in &view.winners {
        text.push('\n');
        text.push_str(&visible::line(line));
    }
    text
}

/// The cells of a row, each with its error margin.
fn with_margins(view: &View, row: usize) -> Vec<String> {
    (0..view.columns.len()).flat_map(|column| with_margin(view, column, row)).collect()
}

/// A cell and its error margin, if it is known. NULL has no margin.
fn with_margin(view: &View, column: usize, row: usize) -> Vec<String> {
    let cell = view.rows.get(row).and_then(|cells| cells.get(column)).unwrap_or(&Cell::Null);
    let Some(AnswerColumn { kind, margin, .. }) = view.columns.get(column) else {
        return Vec::new();
    };
    let Some(margin) = margin else { return vec![cell.text().to_owned()] };
    let error = margin.errors.get(row).copied().flatten();
    vec![shown_with(*kind, cell, error), error.map_or_else(String::new, visible::rounded)]
}

/// A cell as it is shown next to its error.
pub(super) fn shown_with(kind: ColumnFormat, cell: &Cell, error: Option<f64>) -> String {
    match error {
        Some(error) if kind == ColumnFormat::Number => supported(cell.text(), error).into_owned(),
        Some(_) | None => cell.text().to_owned(),
    }
}

/// A number with the decimals that its error supports: down to the second digit of the error.
///
/// All further digits are noise. CSV, JSON and Arrow keep all digits.
fn supported(number: &str, error: f64) -> Cow<'_, str> {
    /// Floats below this hold every integer and one decimal place.
    const LARGEST: f64 = 1e14;
    const SMALLEST: f64 = 1e-12;
    let (Ok(value), true) = (number.parse::<f64>(), error.is_finite() && error >= SMALLEST) else {
        return number.into();
    };
    let written = number.split_once('.').map_or("", |(_, decimals)| decimals);
    // The first digit of the error, as it is printed.
    let printed = format!("{error:e}");
    let exponent = printed.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    let decimals = usize::try_from(1 - exponent).unwrap_or(0);
    if !written.bytes().all(|byte| byte.is_ascii_digit())
        || written.len() <= decimals
        || value.abs() >= LARGEST
    {
        return number.into();
    }
    let rounded = format!("{value:.decimals$}");
    let is_zero = rounded.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    if is_zero { rounded.trim_start_matches('-').to_owned().into() } else { rounded.into() }
}

/// In answers about budgets, rounds amounts as people write them.
pub(super) fn with_neat_budgets(view: &mut View) {
    for (at, column) in view.columns.iter().enumerate() {
        let neat: fn(Spend) -> Spend = match column.name.as_str() {
            "spent" => Spend::neat_up,
            "left" | "declared" => Spend::neat_down,
            _ => continue,
        };
        for cell in view.rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            if let Cell::Text(text) = cell {
                *text = with_neat_amounts(text, neat);
            }
        }
    }
}

/// A text of budgets with its amounts as people write them: `ε = 9.900000001` as `ε = 9.9`.
fn with_neat_amounts(text: &str, neat: fn(Spend) -> Spend) -> String {
    const NANO: usize = 9;
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, sign)) = rest.match_indices(['ε', 'ρ']).next() {
        let (before, behind) = rest.split_at(at + sign.len());
        shown.push_str(before);
        rest = behind;
        let Some(number) = behind.strip_prefix(" = ") else { continue };
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        let Some((whole, decimals)) = number.split_once('.').filter(|(_, d)| d.len() == NANO)
        else {
            continue;
        };
        let Ok(nano) = format!("{whole}{decimals}").parse() else { continue };
        shown.push_str(" = ");
        shown.push_str(&neat(Spend::of_epsilon(nano, 0)).loss_text());
        rest = after;
    }
    shown + rest
}

/// A bordered table. A column is a title and whether it is aligned to the right. Words are broken
/// only if the terminal is too narrow for them.
pub(super) fn grid(header: &[(String, bool)], rows: &[Vec<String>], frame: TableFrame) -> String {
    let word = whole_words(header, rows, frame.width);
    let roomy = drawn(header, rows, frame, word);
    let fits = |width: u16| roomy.lines().all(|line| line.chars().count() <= usize::from(width));
    if word == 0 || frame.width.is_none_or(fits) { roomy } else { drawn(header, rows, frame, 0) }
}

/// The longest of [`WORDS`] such that a table that breaks no words up to this length fits the
/// terminal; 0 if there is none.
fn whole_words(header: &[(String, bool)], rows: &[Vec<String>], width: Option<u16>) -> usize {
    let Some(width) = width.map(usize::from) else { return WORDS[0] };
    let fits = |word: &&usize| {
        let columns = header.iter().enumerate();
        let columns = columns.map(|(i, (title, right))| {
            let cells = rows.iter().filter_map(|row| row.get(i));
            least(title, cells.map(String::as_str), *right, **word) + usize::from(PADDING) + 1
        });
        columns.sum::<usize>() < width
    };
    WORDS.iter().find(fits).copied().unwrap_or(0)
}

/// The least width of a column that breaks no number, no short word of its title, and no word of
/// its cells up to this length.
fn least<'a>(title: &str, cells: impl Iterator<Item = &'a str>, right: bool, word: usize) -> usize {
    // Numbers are never broken, because half of a number is another number. Neither are words of a
    // title, unless they are long.
    let words = title.split_whitespace().map(|word| word.chars().count());
    let words = words.filter(|length| *length <= TITLE);
    let whole = cells.map(|cell| if right { cell.chars().count() } else { longest(cell, word) });
    whole.chain(words).max().unwrap_or(0)
}

/// A table that breaks no numbers, no short words of titles, and no words of cells up to this
/// length.
fn drawn(
    header: &[(String, bool)],
    rows: &[Vec<String>],
    frame: TableFrame,
    word: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = frame.width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    let cell = |text: &str| {
        let text = visible::line(text);
        if frame.ascii { plain::ascii(&text).into_owned() } else { text.into_owned() }
    };
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    table.set_header(header.iter().map(|(title, _)| cell(title)));
    table.add_rows(&rows);
    for (i, (column, (title, right))) in table.column_iter_mut().zip(header).enumerate() {
        if *right {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let cells = rows.iter().filter_map(|row| row.get(i)).map(String::as_str);
        let least = u16::try_from(least(title, cells, *right, word)).unwrap_or(0);
        let (least, most) = (Width::Fixed(least.saturating_add(PADDING)), Width::Fixed(WIDEST));
        column.set_constraint(match right {
            true => ColumnConstraint::LowerBoundary(least),
            false => ColumnConstraint::Boundaries { lower: least, upper: most },
        });
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let text = lines.join("\n");
    if frame.ascii { plain::ascii(&text).into_owned() } else { text }
}

/// The length of the longest number or date in a text, or of its longest word up to a length.
fn longest(text: &str, short: usize) -> usize {
    let is_number = |word: &&str| {
        word.contains(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || ".,:+-eETZ%/".contains(c))
            && word.len() <= NUMBER
    };
    let words = text.split(' ');
    let whole = words.filter(|word| is_number(word) || word.chars().count() <= short);
    whole.map(|word| word.chars().count()).max().unwrap_or(0)
}

/// An answer as CSV (RFC 4180, line feeds): a header and the rows; NULL is empty, empty text is
/// `""`.
///
/// With `safe`, names and texts that a spreadsheet would run as formulas begin with an apostrophe;
/// numbers do not change. With `errors`, a column `…_error` follows each column with a ±.
pub(super) fn csv(view: &View, safe: bool, errors: bool) -> String {
    separated(view, ",", safe, errors)
}

/// The same with tabs instead of commas.
pub(super) fn tsv(view: &View, safe: bool, errors: bool) -> String {
    separated(view, "\t", safe, errors)
}

fn separated(view: &View, by: &str, safe: bool, errors: bool) -> String {
    let name = |name: &str| if safe { field(&inert(name)) } else { field(name) };
    let value = |cell: &Cell| match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => name(text),
        Cell::Number(_) | Cell::Boolean(_) => field(cell.text()),
    };
    let mut text = String::new();
    let margin = |column: &AnswerColumn| column.margin.clone().filter(|_| errors);
    let header = view.columns.iter().flat_map(|column| {
        let error = margin(column).map(|_| name(&format!("{}_error", column.name)));
        std::iter::once(name(&column.name)).chain(error)
    });
    line(&mut text, by, header);
    let margins: Vec<_> = view.columns.iter().map(margin).collect();
    for (i, row) in view.rows.iter().enumerate() {
        let cells = row.iter().zip(&margins).flat_map(|(cell, margin)| {
            let error = margin.as_ref().map(|margin| margin.errors.get(i).copied().flatten());
            let error = error.map(|error| error.map_or_else(String::new, |e| e.to_string()));
            std::iter::once(value(cell)).chain(error)
        });
        line(&mut text, by, cells);
    }
    text
}

/// A text that a spreadsheet does not treat as a formula.
fn inert(text: &str) -> Cow<'_, str> {
    // Some spreadsheets treat the last four like the first four.
    const RUN: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];
    if text.starts_with(RUN) { format!("'{text}").into() } else { text.into() }
}

fn line(text: &mut String, by: &str, fields: impl Iterator<Item = String>) {
    text.push_str(&fields.collect::<Vec<_>>().join(by));
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
    use super::super::view::{ColumnFormat, Margin};
    use super::*;

    const ALL: TableFrame = TableFrame { width: None, most: None, ascii: false };

    fn view() -> View {
        let margin = Some(Margin { errors: vec![Some(2.9957), None], confidence: 0.95 });
        let text = |value: &str| Cell::Text(value.to_owned());
        View {
            columns: vec![
                AnswerColumn { name: "status".to_owned(), kind: ColumnFormat::Text, margin: None },
                AnswerColumn { name: "n".to_owned(), kind: ColumnFormat::Integer, margin },
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
        assert_eq!(table(&view(), ALL), expected);
    }

    #[test]
    fn nothing_and_winners_are_said_below() {
        let winners = vec!["status: within 4.94 of the best (95 %)".to_owned()];
        let text = table(
            &View { rows: Vec::new(), winners, ..view() },
            TableFrame { width: Some(80), ..ALL },
        );
        assert!(text.ends_with("\n(no rows)\nstatus: within 4.94 of the best (95 %)"), "{text}");
    }

    #[test]
    fn numbers_show_the_digits_that_their_error_supports() {
        for (number, error, expected) in [
            ("38.58164397", 0.0123, "38.582"),
            ("38.58164397", 3.0, "38.6"),
            ("38.58164397", 30.0, "39"),
            ("-0.0004", 0.5, "0.00"),
            ("123.45", 0.001, "123.45"),
            ("1e300", 1e299, "1e300"),
            ("123456789012345.678", 1.0, "123456789012345.678"),
            ("0.5", f64::INFINITY, "0.5"),
            ("NaN", 1.0, "NaN"),
            ("4440", 0.001, "4440"),
        ] {
            assert_eq!(supported(number, error), expected, "{number} ± {error}");
        }
    }

    #[test]
    fn amounts_are_as_written_and_never_flatter() {
        let left = |text| with_neat_amounts(text, Spend::neat_down);
        let spent = |text| with_neat_amounts(text, Spend::neat_up);
        assert_eq!(left("ε = 9.900000001, δ = 1e-5"), "ε = 9.9, δ = 1e-5");
        assert_eq!(left("limit ε = 10, left ρ = 0.500000002"), "limit ε = 10, left ρ = 0.5");
        assert_eq!(spent("ε = 0.099999999 (ε ≤ 0.1)"), "ε = 0.1 (ε ≤ 0.1)");
        assert_eq!(left("ε = 9.999999999"), "ε = 9.999999999", "more is not left");
        assert_eq!(spent("ε = 0.333333333"), "ε = 0.333333333");
        assert_eq!(left("ε"), "ε");
        let text = |text: &str| Cell::Text(text.to_owned());
        let column = |name: &str| AnswerColumn {
            name: name.to_owned(),
            kind: ColumnFormat::Text,
            margin: None,
        };
        let mut budgets = View {
            columns: ["spent", "left", "other"].map(column).into(),
            rows: vec![vec![
                text("ε = 0.099999999"),
                text("ε = 9.900000001"),
                text("ε = 0.099999999"),
            ]],
            winners: Vec::new(),
        };
        with_neat_budgets(&mut budgets);
        assert_eq!(budgets.rows, [[text("ε = 0.1"), text("ε = 9.9"), text("ε = 0.099999999")]]);
    }

    #[test]
    fn what_is_wider_than_the_terminal_has_a_line_for_each_cell() {
        let number = |at: usize| Cell::Number(format!("{at}23456789012345.5"));
        let column = |at: usize| AnswerColumn {
            name: format!("c{at}"),
            kind: ColumnFormat::Number,
            margin: None,
        };
        let wide = View {
            columns: (1..5).map(column).collect(),
            rows: vec![(1..5).map(number).collect()],
            winners: Vec::new(),
        };
        let at = |width| table(&wide, TableFrame { width: Some(width), ..ALL });
        assert!(at(60).starts_with("─[ row 1 ]─\nc1  123456789012345.5\n"), "{}", at(60));
        assert!(at(81).starts_with('┌'), "{}", at(81));
        let ascii = table(&wide, TableFrame { ascii: true, ..ALL });
        assert!(ascii.is_ascii() && ascii.starts_with("+---"), "{ascii}");
    }

    /// A number that was broken over two lines looked like two numbers.
    #[test]
    fn no_number_is_broken() {
        let header =
            [("a long text".to_owned(), false), ("a long title of numbers".to_owned(), true)];
        let row = vec!["word ".repeat(9), "1234567890.123456789".to_owned()];
        for width in [10, 30, 40, 80] {
            let frame = TableFrame { width: Some(width), ..ALL };
            let text = grid(&header, std::slice::from_ref(&row), frame);
            assert!(text.contains("1234567890.123456789"), "{width}\n{text}");
        }
    }

    /// A word that was broken over two lines looked like two words, although another column had
    /// room to spare.
    #[test]
    fn no_word_is_broken_where_there_is_room() {
        let header = ["about", "finding", "remedy"].map(|title| (title.to_owned(), false));
        let row = [
            "measurements.blood_pressure_systolic",
            "this column may have values that a group key cannot have, so far",
            "declare it",
        ];
        let row = row.map(str::to_owned).to_vec();
        for width in [80, 100, 120] {
            let frame = TableFrame { width: Some(width), ..ALL };
            let text = grid(&header, std::slice::from_ref(&row), frame);
            for word in row.iter().flat_map(|cell| cell.split(' ')) {
                assert!(text.contains(word), "{width}: {word}\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        }
        // With many columns of words, there may not be room for all words.
        let header = vec![("a".to_owned(), false); 12];
        let text = grid(
            &header,
            &[vec!["notwithstanding".to_owned(); 12]],
            TableFrame { width: Some(80), ..ALL },
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn of_many_rows_the_first_and_the_last_are_shown() {
        let rows = (0..501).map(|i| vec![Cell::Text(format!("r{i}")), Cell::Number(i.to_string())]);
        let margin = None;
        let columns = [("k", ColumnFormat::Text), ("n", ColumnFormat::Integer)];
        let columns = columns.map(|(name, kind)| AnswerColumn {
            name: name.to_owned(),
            kind,
            margin: margin.clone(),
        });
        let many = View { columns: columns.into(), rows: rows.collect(), winners: Vec::new() };
        let text = table(&many, TableFrame { width: Some(80), most: Some(5), ..ALL });
        let cells: Vec<&str> =
            text.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(cells, ["k", "r0", "r1", "r2", "…", "r499", "r500", "of"], "{text}");
        assert!(text.ends_with("\n(5 of 501 rows; \\rows all shows all)"), "{text}");
        assert!(
            !table(&many, TableFrame { width: Some(80), most: Some(501), ..ALL }).contains('…')
        );
        assert_eq!(expanded(&many, Some(2)).lines().count(), 8);
        assert_eq!(expanded(&many, None).lines().count(), 3 * 501);
    }

    #[test]
    fn markdown_and_expanded_rows_have_the_errors_too() {
        let expected = "| status | n | ± 95 % |\n| --- | ---: | ---: |\n| Divorced, \"or\" so | 4440 | 3.00 |\n|  | NULL |  |";
        assert_eq!(markdown(&view()), expected);
        let pipes =
            View { rows: vec![vec![Cell::Text("a|b\\c\n".to_owned()), Cell::Null]], ..view() };
        assert!(markdown(&pipes).contains("| a\\|b\\\\c\\\\n |"), "{}", markdown(&pipes));
        let expected = "─[ row 1 ]─\nstatus  Divorced, \"or\" so\nn       4440 ± 3.00\n─[ row 2 ]─\nstatus\nn       NULL";
        assert_eq!(expanded(&view(), None), expected);
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        assert_eq!(
            csv(&view(), false, false),
            "status,n\n\"Divorced, \"\"or\"\" so\",4440\n\"\",\n"
        );
    }

    #[test]
    fn tabs_separate_fields_and_are_quoted_within_them() {
        assert_eq!(
            tsv(&view(), false, false),
            "status\tn\n\"Divorced, \"\"or\"\" so\"\t4440\n\"\"\t\n"
        );
        assert_eq!(field("a\tb"), "\"a\tb\"");
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
                AnswerColumn { name: "=1+1".to_owned(), kind: ColumnFormat::Text, margin: None },
                AnswerColumn { name: "n".to_owned(), kind: ColumnFormat::Integer, margin: None },
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
            grid(&[("x".to_owned(), false)], &[vec!["\u{1b}[31mred\u{202e}\n".to_owned()]], ALL);
        assert!(shown.contains("\\u{1b}[31mred\\u{202e}\\n"), "{shown}");
    }
}
