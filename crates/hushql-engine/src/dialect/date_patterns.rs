//! Moments in PostgreSQL's patterns, and the time grains that dashboards write.
//!
//! In: an expression. Out: the same as a literal, or as a call of the engine's own function.
//!
//! ```text
//! to_timestamp('2026-01-02 03:04:05', 'YYYY-MM-DD HH24:MI:SS')        TIMESTAMP '2026-01-02 03:04:05'
//! to_date('02.01.2026', 'DD.MM.YYYY')                                 DATE '2026-01-02'
//! date_trunc('hour', x) + INTERVAL '5 minutes' *
//!     FLOOR(EXTRACT(MINUTE FROM x) / 5)                               date_bin(INTERVAL '5 minutes', x)
//! floor(extract(epoch from x) / 300) * 300                            the seconds of date_bin(INTERVAL '300 seconds', x)
//! ```

use std::collections::BTreeMap;

use sqlparser::ast::{self as sql, BinaryOperator, DataType, DateTimeField, Expr, TimezoneInfo};

use super::literal::literal_of;
use crate::dialect::clauses::call;
use crate::dialect::literal::Literal;

/// The expression without patterns and grains. `None` if it has none of these at its top.
pub(super) fn without_pattern(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            let [value, pattern] = arguments(function)?;
            let (Literal::Text(value), Literal::Text(pattern)) =
                (literal_of(value)?, literal_of(pattern)?)
            else {
                return None;
            };
            match name.as_str() {
                "to_timestamp" => {
                    let zone = TimezoneInfo::None;
                    moment(&value, &pattern)
                        .map(|m| cast(m.text(), DataType::Timestamp(None, zone)))
                }
                "to_date" => moment(&value, &pattern).map(|m| cast(m.day(), DataType::Date)),
                _ => None,
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => grain(left, right),
        Expr::BinaryOp { left, op: BinaryOperator::Multiply, right } => epoch_bin(left, right),
        _ => None,
    }
}

/// The two arguments of a call.
fn arguments(function: &sql::Function) -> Option<[&Expr; 2]> {
    let sql::FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = function.filter.is_none() && function.over.is_none() && list.clauses.is_empty();
    match list.args.as_slice() {
        [
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(a)),
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(b)),
        ] if is_plain => Some([a, b]),
        _ => None,
    }
}

fn cast(text: String, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: sql::CastKind::Cast,
        expr: Box::new(Expr::Value(sql::Value::SingleQuotedString(text).into())),
        data_type,
        array: false,
        format: None,
    }
}

/// The parts of patterns, longest first, with the most digits of each.
const PARTS: [(&str, usize); 11] = [
    ("YYYY", 4),
    ("HH24", 2),
    ("HH12", 2),
    ("MM", 2),
    ("DD", 2),
    ("MI", 2),
    ("SS", 2),
    ("MS", 3),
    ("US", 6),
    ("FF6", 6),
    ("FF3", 3),
];

/// The numbers of a moment, by their parts.
struct Moment(BTreeMap<&'static str, String>);

impl Moment {
    fn part(&self, name: &str) -> &str {
        let missing = if name == "MM" || name == "DD" { "01" } else { "00" };
        self.0.get(name).map_or(missing, String::as_str)
    }

    fn day(&self) -> String {
        let year = self.0.get("YYYY").map_or("0001", String::as_str);
        format!("{year:0>4}-{:0>2}-{:0>2}", self.part("MM"), self.part("DD"))
    }

    fn text(&self) -> String {
        let (hour, minute, second) = (self.part("HH24"), self.part("MI"), self.part("SS"));
        // As PostgreSQL reads them, the digits follow the point: .5 is half a second.
        let fraction = ["US", "FF6", "MS", "FF3"].iter().find_map(|part| self.0.get(*part));
        let fraction = fraction.map_or(String::new(), |digits| format!(".{digits}"));
        format!("{} {hour:0>2}:{minute:0>2}:{second:0>2}{fraction}", self.day())
    }
}

/// The moment of a text in this pattern. `None` for another text, and for a pattern with other
/// parts.
fn moment(text: &str, pattern: &str) -> Option<Moment> {
    let (mut rest, mut open) = (text.trim(), pattern.trim());
    let mut parts = BTreeMap::new();
    while let Some(sign) = open.chars().next() {
        let upper = open.to_ascii_uppercase();
        if let Some((part, most)) = PARTS.iter().find(|(part, _)| upper.starts_with(part)) {
            let digits: String =
                rest.chars().take(*most).take_while(char::is_ascii_digit).collect();
            if digits.is_empty() || parts.insert(*part, digits.clone()).is_some() {
                return None;
            }
            (rest, open) = (rest.get(digits.len()..)?, open.get(part.len()..)?);
        } else if sign == '"' {
            let (quoted, behind) = open.get(1..)?.split_once('"')?;
            (rest, open) = (rest.strip_prefix(quoted)?, behind);
        } else if sign.is_ascii_alphanumeric() && sign != 'T' {
            return None;
        } else {
            (rest, open) = (rest.strip_prefix(sign)?, open.get(sign.len_utf8()..)?);
        }
    }
    if parts.contains_key("HH12") || !parts.contains_key("YYYY") || !rest.is_empty() {
        return None;
    }
    Some(Moment(parts))
}

/// `date_trunc('hour', x) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM x) / 5)`.
fn grain(start: &Expr, steps: &Expr) -> Option<Expr> {
    let Expr::Function(truncation) = bare(start) else { return None };
    if !truncation.name.to_string().eq_ignore_ascii_case("date_trunc") {
        return None;
    }
    let [unit, x] = arguments(truncation)?;
    let Literal::Text(unit) = literal_of(unit)? else { return None };
    let Expr::BinaryOp { left, op: BinaryOperator::Multiply, right } = bare(steps) else {
        return None;
    };
    let (span, floor) = match (bare(left), bare(right)) {
        (span @ Expr::Interval(_), floor) | (floor, span @ Expr::Interval(_)) => (span, floor),
        _ => return None,
    };
    let Expr::Floor { expr, .. } = floor else { return None };
    let Expr::BinaryOp { left, op: BinaryOperator::Divide, right } = bare(expr) else {
        return None;
    };
    let Expr::Extract { field, expr, .. } = bare(left) else { return None };
    let Literal::Number(step) = literal_of(bare(right))? else { return None };
    let step: u32 = step.parse().ok().filter(|step| *step > 0 && 60 % step == 0)?;
    let part = match (unit.to_ascii_lowercase().as_str(), field) {
        ("hour", DateTimeField::Minute) => "minute",
        ("minute", DateTimeField::Second) => "second",
        _ => return None,
    };
    let is_same = bare(expr) == bare(x) && words(span)? == (step, part.to_owned());
    is_same.then(|| call("date_bin".to_owned(), vec![span.clone(), x.clone()]))
}

/// `floor(extract(epoch from x) / 300) * 300`, the seconds since 1970 at which a bin begins.
fn epoch_bin(floor: &Expr, width: &Expr) -> Option<Expr> {
    let Literal::Number(width) = literal_of(bare(width))? else { return None };
    let divided = match bare(floor) {
        Expr::Floor { expr, .. } => bare(expr),
        _ => return None,
    };
    let Expr::BinaryOp { left, op: BinaryOperator::Divide, right } = divided else { return None };
    let is_same = literal_of(bare(right))? == Literal::Number(width.clone());
    let seconds: u32 = width.parse().ok().filter(|seconds| *seconds > 0)?;
    let x = match bare(left) {
        Expr::Extract { field: DateTimeField::Epoch, expr, .. } => expr,
        _ => return None,
    };
    let text = |text: String| Expr::Value(sql::Value::SingleQuotedString(text).into());
    let span = Expr::Interval(sql::Interval {
        value: Box::new(text(format!("{seconds} seconds"))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    });
    let start =
        cast("1970-01-01 00:00:00".to_owned(), DataType::Timestamp(None, TimezoneInfo::None));
    let bin = call("date_bin".to_owned(), vec![span, (**x).clone()]);
    is_same.then(|| call("date_diff".to_owned(), vec![text("second".to_owned()), start, bin]))
}

/// The number and the unit of a span, such as 5 and `minute`.
fn words(span: &Expr) -> Option<(u32, String)> {
    let Expr::Interval(interval) = span else { return None };
    let (text, unit) = (literal_of(&interval.value)?.text()?, &interval.leading_field);
    let text = match unit {
        Some(unit) => format!("{text} {unit}"),
        None => text,
    };
    let (number, unit) = text.trim().split_once(' ')?;
    let unit = unit.trim().to_ascii_lowercase();
    Some((number.parse().ok()?, unit.strip_suffix('s').unwrap_or(&unit).to_owned()))
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::calendar_calls::tests::tree;

    #[test]
    fn moments_in_patterns_are_literals() {
        for (written, expected) in [
            (
                "TO_TIMESTAMP('2026-01-02 03:04:05.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
                "CAST('2026-01-02 03:04:05.000000' AS TIMESTAMP)",
            ),
            (
                "to_timestamp('2026-1-2T3:04', 'YYYY-MM-DD\"T\"HH24:MI')",
                "CAST('2026-01-02 03:04:00' AS TIMESTAMP)",
            ),
            ("to_date('02.01.2026', 'DD.MM.YYYY')", "CAST('2026-01-02' AS DATE)"),
            ("to_date('20260102', 'YYYYMMDD')", "CAST('2026-01-02' AS DATE)"),
        ] {
            assert_eq!(tree(written), format!("SELECT {expected} FROM t"));
        }
        for other in [
            "to_date('2026-01', 'YYYY-MM-DD')",
            "to_date('2026-01-02 x', 'YYYY-MM-DD')",
            "to_date('2 Jan 2026', 'DD Mon YYYY')",
            "to_date(x, 'YYYY-MM-DD')",
        ] {
            assert_eq!(tree(other), format!("SELECT {other} FROM t"));
        }
    }

    #[test]
    fn grains_are_bins() {
        let grain =
            "DATE_TRUNC('hour', x) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM x) / 5)";
        assert_eq!(tree(grain), "SELECT date_bin(INTERVAL '5 minutes', x) FROM t");
        let start = "CAST('1970-01-01 00:00:00' AS TIMESTAMP)";
        assert_eq!(
            tree("floor(extract(epoch from x)/300)*300"),
            format!(
                "SELECT date_diff('second', {start}, date_bin(INTERVAL '300 seconds', x)) FROM t"
            )
        );
        for other in [
            "FLOOR(EXTRACT(EPOCH FROM x) / 300) * 60",
            "DATE_TRUNC('hour', x) + INTERVAL '7 minutes' * FLOOR(EXTRACT(MINUTE FROM x) / 7)",
            "DATE_TRUNC('hour', x) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM y) / 5)",
            "DATE_TRUNC('hour', x) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM x) / 10)",
            "DATE_TRUNC('day', x) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM x) / 5)",
        ] {
            assert!(!tree(other).contains("date_bin"), "{other}");
        }
    }
}
