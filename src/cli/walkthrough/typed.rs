//! What a person typed, as SQL.
//!
//! In: a line, and the type of the column that it is about. Out: the clause of a declaration, or a
//! sentence that says how to write it. No value of a file is read.
//!
//! ```text
//! age BIGINT     0 120             →  BETWEEN (0, 120)
//! ward VARCHAR   north, o'brien    →  IN ('north', 'o''brien')
//! day DATE       2025-01-01, …     →  BETWEEN (DATE '2025-01-01', DATE '…')
//! ```

use super::data_source::text;

/// What a column may hold, for its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Truth,
    Number,
    Text,
    Day,
    Moment,
    Time,
    /// A type without a domain.
    Other,
}

impl ColumnKind {
    /// The kind of a type as DESCRIBE writes it.
    pub(super) fn of(sql_type: &str) -> Self {
        let name = sql_type.split(['(', ' ']).next().unwrap_or_default();
        match name {
            "BOOLEAN" => Self::Truth,
            "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "REAL" | "DOUBLE" | "DECIMAL" => {
                Self::Number
            }
            "VARCHAR" => Self::Text,
            "DATE" => Self::Day,
            "TIMESTAMP" => Self::Moment,
            "TIME" => Self::Time,
            _ => Self::Other,
        }
    }

    /// What to type.
    pub(super) fn asks(self) -> &'static str {
        match self {
            Self::Truth => "true and false",
            Self::Number => "a number: the least and the greatest that it may be",
            Self::Text => "a text: every value that it may have, with commas between",
            Self::Day => "a date: the first and the last that it may be",
            Self::Moment => "a moment: the first and the last that it may be",
            Self::Time => "a time of the day: the first and the last that it may be",
            Self::Other => "no domain",
        }
    }
}

/// The clause of a domain.
///
/// # Errors
/// How to write it.
pub(super) fn domain(kind: ColumnKind, typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    let word = typed.split([' ', '(']).next().unwrap_or_default().to_uppercase();
    if ["IN", "BETWEEN", "REFERENCES"].contains(&word.as_str()) {
        return Ok(typed.trim_end_matches(';').to_owned());
    }
    let ends = || match values(typed).as_slice() {
        [least, greatest] => Ok((least.clone(), greatest.clone())),
        _ => Err(format!("write two, as in {}, or skip", example(kind))),
    };
    match kind {
        ColumnKind::Truth => Ok("IN (TRUE, FALSE)".to_owned()),
        ColumnKind::Text => {
            let listed: Vec<_> = values_of_list(typed).iter().map(|value| text(value)).collect();
            Ok(format!("IN ({})", listed.join(", ")))
        }
        ColumnKind::Number => {
            let (least, greatest) = ends()?;
            let is_number = |end: &String| end.parse::<f64>().is_ok_and(f64::is_finite);
            if !is_number(&least) || !is_number(&greatest) {
                return Err(format!("write two numbers, as in {}, or skip", example(kind)));
            }
            Ok(format!("BETWEEN ({least}, {greatest})"))
        }
        ColumnKind::Day => {
            let (first, last) = ends()?;
            Ok(format!("BETWEEN (DATE {}, DATE {})", text(&first), text(&last)))
        }
        ColumnKind::Moment => {
            let (first, last) = ends()?;
            Ok(format!("BETWEEN (TIMESTAMP {}, TIMESTAMP {})", text(&first), text(&last)))
        }
        ColumnKind::Time => {
            let (first, last) = ends()?;
            Ok(format!("BETWEEN ({}, {})", text(&first), text(&last)))
        }
        ColumnKind::Other => Err("columns of this type have no domain: skip".to_owned()),
    }
}

fn example(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Day => "2025-01-01, 2025-12-31",
        ColumnKind::Moment => "2025-01-01 00:00:00, 2025-12-31 23:59:59",
        ColumnKind::Time => "08:00, 18:00",
        ColumnKind::Truth | ColumnKind::Number | ColumnKind::Text | ColumnKind::Other => "0, 120",
    }
}

/// Values between commas, or where there is none, between the words `to` or blanks.
fn values(typed: &str) -> Vec<String> {
    if typed.contains(',') {
        return values_of_list(typed);
    }
    let parts: Vec<&str> = typed.split(" to ").collect();
    let parts = if parts.len() == 1 { typed.split_whitespace().collect() } else { parts };
    parts.into_iter().map(|part| part.trim().trim_matches('\'').to_owned()).collect()
}

/// Values between commas; a value in apostrophes may hold commas.
fn values_of_list(typed: &str) -> Vec<String> {
    let (mut found, mut value, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut signs = typed.chars().peekable();
    let mut was_quoted = false;
    while let Some(c) = signs.next() {
        match c {
            '\'' if is_quoted && signs.peek() == Some(&'\'') => {
                value.push('\'');
                signs.next();
            }
            '\'' if is_quoted => is_quoted = false,
            '\'' if value.trim().is_empty() => {
                value.clear();
                (is_quoted, was_quoted) = (true, true);
            }
            ',' if !is_quoted => found.push(finished(&mut value, &mut was_quoted)),
            _ => value.push(c),
        }
    }
    found.push(finished(&mut value, &mut was_quoted));
    found.retain(|value| !value.is_empty());
    found
}

/// A value without blanks around it, unless apostrophes hold them.
fn finished(value: &mut String, was_quoted: &mut bool) -> String {
    let whole = std::mem::take(value);
    match std::mem::take(was_quoted) {
        true => whole,
        false => whole.trim().to_owned(),
    }
}

/// The clause for how many rows a person may have; empty for any number.
///
/// # Errors
/// How to write it.
pub(super) fn most_rows(typed: &str) -> Result<String, String> {
    match typed.trim() {
        "" => Ok(String::new()),
        "1" => Ok(" UNIQUE".to_owned()),
        number => match number.parse::<u32>() {
            Ok(rows) if rows > 0 => Ok(format!(" MAX ROWS {rows}")),
            Ok(_) | Err(_) => Err("write a whole number, as in 4, or nothing".to_owned()),
        },
    }
}

/// An ε and a tenth of it, for the default of a query.
///
/// # Errors
/// How to write it.
pub(super) fn budget(typed: &str) -> Result<(String, String), String> {
    let typed = typed.trim();
    let plain = typed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match typed.parse::<f64>() {
        Ok(epsilon) if plain && epsilon > 0.0 && epsilon <= 1000.0 => {
            Ok((typed.to_owned(), format!("{}", epsilon / 10.0)))
        }
        Ok(_) | Err(_) => Err("write a number above 0, as in 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_sql() {
        for (kind, typed, clause) in [
            ("BIGINT", "0 120", "BETWEEN (0, 120)"),
            ("INT UNSIGNED", "0, 120", "BETWEEN (0, 120)"),
            ("DECIMAL(8, 2)", "-1.5 to 2", "BETWEEN (-1.5, 2)"),
            ("DOUBLE", "between (0, 10) step 0.5;", "between (0, 10) step 0.5"),
            (
                "VARCHAR",
                "north, o'brien ,'a, b', 'it''s'",
                "IN ('north', 'o''brien', 'a, b', 'it''s')",
            ),
            ("VARCHAR", "in", "in"),
            ("DATE", "2025-01-01, 2025-12-31", "BETWEEN (DATE '2025-01-01', DATE '2025-12-31')"),
            (
                "TIMESTAMP (read in UTC)",
                "2025-01-01 00:00:00, 2026-01-01 00:00:00",
                "BETWEEN (TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP '2026-01-01 00:00:00')",
            ),
            ("TIME", "08:00 18:00", "BETWEEN ('08:00', '18:00')"),
            ("BOOLEAN", "x", "IN (TRUE, FALSE)"),
        ] {
            assert_eq!(
                domain(ColumnKind::of(kind), typed).as_deref(),
                Ok(clause),
                "{kind} {typed}"
            );
        }
        for (kind, typed) in [("BIGINT", "5"), ("BIGINT", "a b"), ("DATE", "2025"), ("LIST", "1")] {
            assert!(domain(ColumnKind::of(kind), typed).is_err(), "{kind} {typed}");
        }
        assert_eq!(most_rows(" ").as_deref(), Ok(""));
        assert_eq!(most_rows("1").as_deref(), Ok(" UNIQUE"));
        assert_eq!(most_rows("4").as_deref(), Ok(" MAX ROWS 4"));
        assert!(most_rows("0").is_err() && most_rows("many").is_err());
        assert_eq!(budget("1"), Ok(("1".to_owned(), "0.1".to_owned())));
        assert!(budget("0").is_err() && budget("inf").is_err() && budget("1e2").is_err());
    }
}
