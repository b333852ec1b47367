//! The words that PostgreSQL 15 knows as keywords.
//!
//! `keywords.txt` lists them: the category of a line, whether its words are names of columns
//! without AS, and the words. Tools put these words into quotes.
//!
//! ```text
//! select   →   R, t: reserved, can be bare label
//! ```

use super::datum::{Datum, Row};

/// The rows of `pg_get_keywords()`, in the order of the words.
pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = include_str!("keywords.txt").lines().flat_map(of_category).collect();
    rows.sort();
    rows
}

fn of_category(line: &'static str) -> impl Iterator<Item = Row> {
    let mut parts = line.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    let (category, is_label) = (next(), next() == "t");
    let about = match category {
        "R" => "reserved",
        "T" => "reserved (can be function or type name)",
        "C" => "unreserved (cannot be function or type name)",
        _ => "unreserved",
    };
    let label = if is_label { "can be bare label" } else { "requires AS" };
    parts.map(move |word| {
        vec![word.into(), category.into(), Datum::Bool(is_label), about.into(), label.into()]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_categories_of_postgresql() {
        let rows = rows();
        let text = |row: &Row| row.iter().filter_map(Datum::text).collect::<Vec<_>>().join("|");
        let all: Vec<String> = rows.iter().map(text).collect();
        assert_eq!((all.len(), all[0].as_str()), (460, "abort|U|t|unreserved|can be bare label"));
        for row in [
            "select|R|t|reserved|can be bare label",
            "over|U|f|unreserved|requires AS",
            "left|T|t|reserved (can be function or type name)|can be bare label",
            "values|C|t|unreserved (cannot be function or type name)|can be bare label",
        ] {
            assert!(all.iter().any(|known| known == row), "{row}");
        }
    }
}
