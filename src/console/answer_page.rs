//! What came of a statement, as a part of a page: a table with its errors, a chart, the receipt, or
//! a refusal with what to write instead.

use hushql::{Answer, Error};

use super::frame::token;
use super::html::Html;
use super::presentation::{PageTable, Presentation};
use super::visitors::{SeenAnswer, Visitor};

/// The most rows that a page shows. The files have all of them.
const ROWS: usize = 500;

/// An answer with its chart, its receipt and its files.
pub(super) fn answer(seen: &SeenAnswer, presentation: &Presentation) -> Html {
    let mut part = Html::default();
    part.markup("<section id=\"answer\" aria-labelledby=\"answer-title\"><h2 id=\"answer-title\">Answer</h2>");
    part.add(&receipt(&seen.answer));
    let Some(table) = (presentation.table)(&seen.answer) else {
        part.markup(
            "<p>This answer has a value that no page can show: take the files.</p></section>",
        );
        return part;
    };
    part.markup("<div class=\"shown\"><div>").add(&rows(&table));
    for line in table.winners.iter().chain(seen.answer.notes()) {
        part.element("p", &[("class", "note")], line);
    }
    part.markup("</div>");
    let path = format!("/answers/{}", seen.number);
    if let Some(described) = chart_text(&table)
        && (presentation.chart)(&seen.answer).is_some()
    {
        let source = format!("{path}.svg");
        part.markup("<figure tabindex=\"0\">");
        part.open("img", &[("src", &source), ("alt", &described), ("class", "chart")]);
        part.markup("</figure></div><p class=\"files\">Save: ");
        part.element("a", &[("href", &source), ("download", "answer.svg")], "SVG").markup(" ");
    } else {
        part.markup("</div><p class=\"files\">Save: ");
    }
    for (ending, name) in [("csv", "CSV"), ("json", "JSON"), ("parquet", "Parquet")] {
        part.element("a", &[("href", &format!("{path}.{ending}"))], name).markup(" ");
    }
    part.markup("</p></section>");
    part
}

/// What a chart shows, for who cannot see it. The table beside it has the numbers.
fn chart_text(table: &PageTable) -> Option<String> {
    let drawn = table.columns.iter().filter(|column| column.is_number).map(|column| &column.name);
    let drawn: Vec<_> = drawn.map(String::as_str).collect();
    (!drawn.is_empty() && table.rows.len() > 1)
        .then(|| format!("Chart of {}: the table has its numbers", drawn.join(", ")))
}

/// What an answer cost.
fn receipt(answer: &Answer) -> Html {
    let mut part = Html::default();
    match answer.receipt() {
        Some(receipt) => {
            part.open("p", &[("class", "receipt")]);
            if receipt.is_replayed {
                part.element("strong", &[("class", "badge")], "replayed for nothing").markup(" ");
            }
            part.text(&receipt.to_string()).close("p");
        }
        None => {
            part.element("p", &[("class", "receipt")], "cost nothing");
        }
    }
    part
}

/// Rows as a table that scrolls by itself.
pub(super) fn rows(table: &PageTable) -> Html {
    let mut part = Html::default();
    part.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rows\"><table><thead><tr>");
    for column in &table.columns {
        let class = if column.is_number { "number" } else { "" };
        part.element("th", &[("scope", "col"), ("class", class)], &column.name);
        if let Some(confidence) = &column.confidence {
            part.element("th", &[("scope", "col"), ("class", "error")], &format!("± {confidence}"));
        }
    }
    part.markup("</tr></thead><tbody>");
    for row in table.rows.iter().take(ROWS) {
        part.markup("<tr>");
        for (column, cell) in table.columns.iter().zip(row) {
            let class = match (cell.is_null, column.is_number) {
                (true, _) => "null",
                (false, true) => "number",
                (false, false) if cell.text.len() <= 24 => "short",
                (false, false) if cell.text.len() > 48 => "long",
                (false, false) => "",
            };
            part.element("td", &[("class", class)], &cell.text);
            if column.confidence.is_some() {
                let error = cell.error.as_deref().map(|error| format!("± {error}"));
                part.element("td", &[("class", "error")], &error.unwrap_or_default());
            }
        }
        part.markup("</tr>");
    }
    part.markup("</tbody></table></div>");
    match table.rows.len() {
        0 => part.markup("<p class=\"note\">No rows.</p>"),
        all if all > ROWS => part.element(
            "p",
            &[("class", "note")],
            &format!("The first {ROWS} of {all} rows; the files have all."),
        ),
        _ => &mut part,
    };
    part
}

/// Why a statement was not answered, and what to write.
pub(super) fn refusal(visitor: &Visitor, sql: &str, error: &Error) -> Html {
    let mut part = Html::default();
    part.markup("<section id=\"answer\" class=\"refusal\" role=\"alert\">");
    let title = match (error.code(), error.kind()) {
        (Some(code), _) => format!("Refused ({code})"),
        (None, "budget") => "The budget does not allow it".to_owned(),
        (None, "syntax" | "bind") => "Not understood".to_owned(),
        (None, _) => "Not answered".to_owned(),
    };
    part.element("h2", &[], &title).element("p", &[], &error.message());
    if let Some(pointed) = error.position().and_then(|place| pointed(sql, place)) {
        part.element("pre", &[("aria-hidden", "true")], &pointed);
    }
    if let Some(hint) = error.hint() {
        part.markup("<p>What to write:</p>").element("pre", &[("class", "hint")], &hint);
        let put = put_in(visitor, sql, &hint);
        part.markup("<form method=\"post\" action=\"/ask\"><input type=\"hidden\" name=\"do\" value=\"edit\">");
        token(&mut part, visitor);
        part.open("input", &[("type", "hidden"), ("name", "sql"), ("value", &put)]);
        part.markup("<button>Put it in</button></form>");
    }
    part.markup("</section>");
    part
}

/// The statement with what a hint says: the hint itself if it is a whole statement, otherwise the
/// statement with the hint as a comment below.
fn put_in(visitor: &Visitor, sql: &str, hint: &str) -> String {
    let first = hint.split(", or ").next().unwrap_or(hint).trim().trim_end_matches('.');
    match visitor.session.prepare(first).is_ok() {
        true => first.to_owned(),
        false => {
            let below = hint.lines().map(|line| format!("\n-- {line}")).collect::<String>();
            format!("{}{below}", sql.trim_end())
        }
    }
}

/// The line of a text with a mark below the place, both counted from 1.
fn pointed(text: &str, (line, column): (u64, u64)) -> Option<String> {
    let line = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let before = usize::try_from(column).ok()?.checked_sub(1)?;
    let indent: String =
        line.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
    Some(format!("{line}\n{indent}^"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_below_its_place() {
        assert_eq!(pointed("SELECT\n\toops", (2, 2)).as_deref(), Some("\toops\n\t^"));
        assert_eq!(pointed("SELECT", (2, 1)), None);
    }
}
