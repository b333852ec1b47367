//! Values of a template's parameters.
//!
//! In: a literal, and the type of a parameter. Out: the value as canonical text, so that equal
//! values have equal texts, or what is wrong with it.
//!
//! ```text
//! BIGINT  30 → 30      '30' → a value of type BIGINT is written as a whole number
//! DATE    '2026-1-31' → 2026-01-31
//! ```

use std::cmp::Ordering;

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime};

use crate::catalog::{ParameterDomain, ParameterType, Template, TemplateParameter};
use crate::dialect::Literal;

/// How values of a type are written.
fn written_as(data_type: ParameterType) -> &'static str {
    match data_type {
        ParameterType::Varchar => "'a text'",
        ParameterType::Bigint => "a whole number, such as 30",
        ParameterType::Double => "a number, such as 0.5",
        ParameterType::Boolean => "TRUE or FALSE",
        ParameterType::Date => "a day, such as DATE '2026-01-31'",
        ParameterType::Timestamp => "a moment, such as TIMESTAMP '2026-01-31 09:30:00'",
    }
}

/// The canonical text of a value.
///
/// # Errors
/// What is wrong with the literal, after the literal itself.
pub(super) fn canonical(data_type: ParameterType, literal: &Literal) -> Result<String, String> {
    let read = match (data_type, literal) {
        (ParameterType::Varchar, Literal::Text(text)) => Some(text.clone()),
        (ParameterType::Bigint, Literal::Number(text)) => {
            text.parse::<i64>().ok().map(|value| value.to_string())
        }
        (ParameterType::Double, Literal::Number(text)) => double(text),
        (ParameterType::Boolean, Literal::Boolean(value)) => Some(value.to_string()),
        (ParameterType::Date, Literal::Text(text)) => day(text).map(|day| day.to_string()),
        (ParameterType::Timestamp, Literal::Text(text)) => {
            moment(text).map(|moment| moment.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
        }
        (
            ParameterType::Varchar
            | ParameterType::Bigint
            | ParameterType::Double
            | ParameterType::Boolean
            | ParameterType::Date
            | ParameterType::Timestamp,
            Literal::Text(_) | Literal::Number(_) | Literal::Boolean(_) | Literal::Null,
        ) => None,
    };
    read.ok_or_else(|| {
        format!("is not a value of type {data_type}, which is written as {}", written_as(data_type))
    })
}

/// A finite number with its fraction, so that it stays a DOUBLE.
fn double(text: &str) -> Option<String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    // Zero has one text.
    Some(format!("{:?}", if value == 0.0 { 0.0 } else { value }))
}

fn day(text: &str) -> Option<NaiveDate> {
    let day = NaiveDate::parse_from_str(text.trim(), "%Y-%m-%d").ok()?;
    (1..=9999).contains(&day.year()).then_some(day)
}

fn moment(text: &str) -> Option<NaiveDateTime> {
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let text = text.trim();
    let moment = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let moment = moment.or_else(|| Some(day(text)?.and_time(NaiveTime::MIN)))?;
    (1..=9999).contains(&moment.year()).then_some(moment)
}

/// The order of two canonical texts of a type. `None` if the type has no order, or if a text is
/// none of its values.
pub(super) fn order(data_type: ParameterType, one: &str, other: &str) -> Option<Ordering> {
    match data_type {
        ParameterType::Varchar | ParameterType::Boolean => None,
        ParameterType::Bigint => Some(one.parse::<i64>().ok()?.cmp(&other.parse().ok()?)),
        ParameterType::Double => one.parse::<f64>().ok()?.partial_cmp(&other.parse().ok()?),
        ParameterType::Date => Some(day(one)?.cmp(&day(other)?)),
        ParameterType::Timestamp => Some(moment(one)?.cmp(&moment(other)?)),
    }
}

/// Whether a canonical text is in the domain of its parameter. The values of a public table's
/// column are looked up elsewhere.
pub(super) fn is_in_domain(parameter: &TemplateParameter, value: &str) -> bool {
    match &parameter.domain {
        None | Some(ParameterDomain::References { .. }) => true,
        Some(ParameterDomain::In(values)) => values.iter().any(|one| one == value),
        Some(ParameterDomain::Between { lo, hi }) => {
            let is_least = order(parameter.data_type, lo, value).is_some_and(Ordering::is_le);
            is_least && order(parameter.data_type, value, hi).is_some_and(Ordering::is_le)
        }
    }
}

/// A value for planning a call: the default, or an end of what the parameter takes: the upper one
/// if the template's text compares the parameter as an upper end.
pub(super) fn sample(template: &Template, parameter: &TemplateParameter) -> String {
    if let Some(default) = &parameter.default {
        return default.clone();
    }
    let (low, high) = ends(parameter);
    if is_upper_end(&template.body, &parameter.name) { high } else { low }
}

/// The first and the last value that a parameter takes, or two values of its type.
pub(super) fn ends(parameter: &TemplateParameter) -> (String, String) {
    let both = |low: &str, high: &str| (low.to_owned(), high.to_owned());
    match &parameter.domain {
        Some(ParameterDomain::In(values)) => {
            let of = |value: Option<&String>| value.cloned().unwrap_or_default();
            (of(values.first()), of(values.last()))
        }
        Some(ParameterDomain::Between { lo, hi }) => both(lo, hi),
        Some(ParameterDomain::References { .. }) | None => match parameter.data_type {
            ParameterType::Varchar => both("…", "…"),
            ParameterType::Bigint => both("0", "1000"),
            ParameterType::Double => both("0.0", "1000.0"),
            ParameterType::Boolean => both("false", "true"),
            ParameterType::Date => both("2026-01-01", "2027-01-01"),
            ParameterType::Timestamp => {
                both("2026-01-01 00:00:00.000000", "2027-01-01 00:00:00.000000")
            }
        },
    }
}

/// True if a text compares a parameter as an upper end: `x < $p`, `$p >= x`, `x BETWEEN 1 AND $p`.
/// What follows from it is which values a call is tried with first, and nothing else.
fn is_upper_end(body: &str, name: &str) -> bool {
    let (body, written) = (body.to_uppercase(), format!("${}", name.to_uppercase()));
    body.match_indices(&written).any(|(at, _)| {
        let before = body.get(..at).unwrap_or_default().trim_end();
        let after = body.get(at.saturating_add(written.len())..).unwrap_or_default();
        let goes_on = |c: char| c.is_alphanumeric() || c == '_';
        let is_high = before.strip_suffix("AND").is_some_and(|before| {
            before.rfind("BETWEEN").is_some_and(|between| before.rfind("AND") < Some(between))
        });
        let is_less = before.ends_with('<') || before.ends_with("<=");
        !after.starts_with(goes_on) && (is_less || is_high || after.trim_start().starts_with('>'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_texts() {
        let number = |text: &str| Literal::Number(text.to_owned());
        let text = |text: &str| Literal::Text(text.to_owned());
        for (data_type, literal, expected) in [
            (ParameterType::Bigint, number("007"), Some("7")),
            (ParameterType::Bigint, number("-9223372036854775808"), Some("-9223372036854775808")),
            (ParameterType::Bigint, number("9223372036854775808"), None),
            (ParameterType::Bigint, number("1.0"), None),
            (ParameterType::Bigint, text("7"), None),
            (ParameterType::Bigint, Literal::Null, None),
            (ParameterType::Double, number("5"), Some("5.0")),
            (ParameterType::Double, number("-0"), Some("0.0")),
            (ParameterType::Double, number("1e999"), None),
            (ParameterType::Varchar, text("a'b"), Some("a'b")),
            (ParameterType::Varchar, number("1"), None),
            (ParameterType::Boolean, Literal::Boolean(true), Some("true")),
            (ParameterType::Boolean, text("true"), None),
            (ParameterType::Date, text("2026-1-31"), Some("2026-01-31")),
            (ParameterType::Date, text("2026-02-30"), None),
            (ParameterType::Date, text("10000-01-01"), None),
            (ParameterType::Date, number("20260131"), None),
            (ParameterType::Timestamp, text("2026-01-31"), Some("2026-01-31 00:00:00.000000")),
            (
                ParameterType::Timestamp,
                text("2026-01-31T09:30:00"),
                Some("2026-01-31 09:30:00.000000"),
            ),
        ] {
            let found = canonical(data_type, &literal);
            assert_eq!(found.as_deref().ok(), expected, "{data_type} {literal}");
        }
    }

    #[test]
    fn values_are_within_their_domains() {
        let parameter = |data_type, lo: &str, hi: &str| TemplateParameter {
            name: "p".to_owned(),
            data_type,
            domain: Some(ParameterDomain::Between { lo: lo.to_owned(), hi: hi.to_owned() }),
            default: None,
        };
        let age = parameter(ParameterType::Bigint, "-5", "10");
        for (value, is_in) in
            [("-5", true), ("10", true), ("9", true), ("11", false), ("-6", false)]
        {
            assert_eq!(is_in_domain(&age, value), is_in, "{value}");
        }
        let since = parameter(ParameterType::Date, "2026-01-01", "2026-12-31");
        assert!(is_in_domain(&since, "2026-06-30") && !is_in_domain(&since, "2027-01-01"));
        assert!(!is_in_domain(&parameter(ParameterType::Varchar, "a", "c"), "b"));
        assert_eq!(ends(&age), ("-5".to_owned(), "10".to_owned()));
    }

    #[test]
    fn upper_ends_are_found_in_the_text() {
        for (body, is_upper) in [
            ("x < $z", true),
            ("x <= $z AND y > 1", true),
            ("x<$Z", true),
            ("$z > x", true),
            ("$z>=x", true),
            ("x BETWEEN $a AND $z", true),
            ("y > 0 AND x BETWEEN DATE '2026-01-01' AND $z", true),
            ("x > $z", false),
            ("x >= $z", false),
            ("x <> $z", false),
            ("$z < x", false),
            ("x = $z", false),
            ("x BETWEEN 0 AND 1 AND $z", false),
            ("x > 0 AND $z", false),
            ("x < $zone", false),
            ("x < 3", false),
        ] {
            assert_eq!(is_upper_end(body, "z"), is_upper, "{body}");
        }
    }
}
