//! Calls about dates and times as other databases name them, as the engine knows them.
//!
//! In: an expression whose parts are respelled already. Out: the same in functions that the engine
//! derives ranges and keys of, so that none of these calls needs a derivation of its own.
//!
//! ```text
//! year(x), dayofweek(x), isodow(x)       date_part('year', x), date_part('dow', x), ((dow + 6) % 7) + 1
//! extract(isoyear from x)                the year of the Thursday of its week
//! monthname(x), dayname(x)               strftime(x, '%B'), strftime(x, '%A')
//! date(x), last_day(x)                   CAST(x AS DATE), the day before the next month begins
//! datediff(day, a, b), datediff(b, a)    date_diff('day', a, b)
//! dateadd(day, 3, x), date_sub(x, i)     x + INTERVAL '3 day', x - i
//! age(b, a) < INTERVAL '18 years'        b - INTERVAL '18 years' < a
//! age(a) < 18                            whole years until today, compared with the number
//! extract(year from age(b, a))           whole years, as timestampdiff(year, a, b)
//! extract(epoch from b - a)              date_diff('microsecond', a, b) / 1000000.0
//! avg(age(b, a)), avg(b - a)             whole years; seconds, if a and b turn out to be timestamps
//! x + n * INTERVAL '1 month'             a function of its own
//! ```

use sqlparser::ast::{
    self as sql, BinaryOperator, CaseWhen, CastKind, DataType, DateTimeField, Expr, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, UnaryOperator,
};

use crate::catalog::RESERVED;
use crate::dialect::ast::{AggregateName, marked};
use crate::dialect::clauses::call;
use crate::dialect::fresh_name::written_name;

/// Functions that take a part of a moment, and the parts.
const PARTS: [(&str, &str); 13] = [
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("week", "week"),
    ("weekofyear", "week"),
    ("day", "day"),
    ("dayofmonth", "day"),
    ("dayofyear", "doy"),
    ("dayofweek", "dow"),
    ("weekday", "dow"),
    ("hour", "hour"),
    ("minute", "minute"),
    ("second", "second"),
];

/// Functions that name a part of a moment, and the formats.
const NAMES: [(&str, &str); 2] = [("monthname", "%B"), ("dayname", "%A")];

/// The units of spans, in the singular.
const UNITS: [&str; 10] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
];

/// The names of the functions that this module respells, for help and completion.
pub fn calendar_call_names() -> impl Iterator<Item = &'static str> {
    let others = ["isodow", "date", "last_day", "timestampdiff", "dateadd", "date_add", "date_sub"];
    let own = PARTS.iter().chain(&NAMES).map(|(name, _)| *name);
    own.chain(others).chain(["age"])
}

/// The expression in the engine's own functions. `None` if it has none of these calls at its top.
pub(super) fn calendar_call(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            named(&name, &arguments(function)?)
        }
        Expr::Extract { field, expr, .. } => {
            let part = field.to_string().to_lowercase();
            match (Age::read(expr), field) {
                (Some(age), _) => age.part(&part),
                (None, DateTimeField::Isodow) => Some(iso_weekday(expr)),
                (None, DateTimeField::Isoyear) => Some(iso_year(expr)),
                (None, _) => part_of_difference(&part, expr),
            }
        }
        Expr::BinaryOp { left, op, right } => {
            compared_age(left, op, right).or_else(|| moved_several_times(left, op, right))
        }
        Expr::Between { expr, negated, low, high } if is_number(low) && is_number(high) => {
            let years = Age::read(expr)?.part("year")?;
            let (low, high) = (low.clone(), high.clone());
            Some(Expr::Between { expr: Box::new(years), negated: *negated, low, high })
        }
        _ => None,
    }
}

/// True if an expression is a number: ages that are compared with it are whole years.
fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, sql::Value::Number(..)))
}

/// The arguments of a plain call.
fn arguments(function: &sql::Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.filter.is_none()
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && matches!(function.parameters, FunctionArguments::None);
    if !is_plain {
        return None;
    }
    let argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        FunctionArg::Unnamed(_) | FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => None,
    };
    list.args.iter().map(argument).collect()
}

fn named(name: &str, arguments: &[Expr]) -> Option<Expr> {
    if let Some((_, part)) = PARTS.iter().find(|(known, _)| *known == name) {
        let [x] = arguments else { return None };
        return match Age::read(x) {
            Some(age) => age.part(part),
            None => Some(date_part(part, x)),
        };
    }
    if let Some((_, format)) = NAMES.iter().find(|(known, _)| *known == name) {
        let [x] = arguments else { return None };
        return Some(call("strftime".to_owned(), vec![x.clone(), text(format)]));
    }
    match (name, arguments) {
        ("isodow", [x]) => Some(iso_weekday(x)),
        ("date_part" | "datepart", [part, x]) => {
            let part = unit_or_text(part)?;
            match Age::read(x) {
                Some(age) => age.part(&part),
                None if part == "isodow" => Some(iso_weekday(x)),
                None if part == "isoyear" => Some(iso_year(x)),
                None => part_of_difference(&part, x),
            }
        }
        ("date", [x]) => Some(day_of(x.clone())),
        ("last_day", [x]) => Some(last_day(x)),
        ("datediff" | "date_diff", [first, second, third]) => difference(first, second, third),
        ("datediff", [later, earlier]) => Some(units_between("day", earlier, later)),
        ("timestampdiff", [unit, from, to]) => whole_units(&singular(&unit_name(unit)?)?, from, to),
        ("dateadd", [unit, n, x]) => {
            let unit = singular(&unit_name(unit)?)?;
            match interval(n, &unit) {
                Some(span) => Some(moved(x, BinaryOperator::Plus, span)),
                None => Some(moved_times(x, n.clone(), interval(&number("1"), &unit)?)),
            }
        }
        ("date_add" | "date_sub", [x, span @ Expr::Interval(_)]) => {
            let adds = name == "date_add";
            let op = if adds { BinaryOperator::Plus } else { BinaryOperator::Minus };
            Some(moved(x, op, span.clone()))
        }
        _ => None,
    }
}

/// `age(b, a)`, or `age(a)` from today on.
struct Age {
    later: Expr,
    earlier: Expr,
}

impl Age {
    fn read(expr: &Expr) -> Option<Self> {
        let function = match expr {
            Expr::Function(function) => function,
            Expr::Nested(inner) => return Self::read(inner),
            _ => return None,
        };
        if !function.name.to_string().eq_ignore_ascii_case("age") {
            return None;
        }
        match arguments(function)?.as_slice() {
            [earlier] => {
                let today = day_of(call("now".to_owned(), Vec::new()));
                Some(Self { later: today, earlier: earlier.clone() })
            }
            [later, earlier] => Some(Self { later: later.clone(), earlier: earlier.clone() }),
            _ => None,
        }
    }

    /// The years of an age, or the months beyond them.
    fn part(&self, part: &str) -> Option<Expr> {
        let whole = |unit: &str| whole_units(unit, &self.earlier, &self.later);
        match part {
            "year" | "years" => whole("year"),
            "month" | "months" => {
                Some(binary(whole("month")?, BinaryOperator::Modulo, number("12")))
            }
            _ => None,
        }
    }
}

/// An age that is compared with an interval: the later moment, moved back, beside the earlier one.
/// An age that is compared with a number has whole years.
fn compared_age(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let years = |side: &Expr, other: &Expr| match is_number(other) {
        true => Age::read(side)?.part("year"),
        false => None,
    };
    if is_comparison(op) {
        if let Some(years) = years(left, right) {
            return Some(binary(years, op.clone(), right.clone()));
        }
        if let Some(years) = years(right, left) {
            return Some(binary(left.clone(), op.clone(), years));
        }
    }
    let flipped = match op {
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    };
    let (age, op, span) = match (Age::read(left), Age::read(right)) {
        (Some(age), None) => (age, op.clone(), right),
        (None, Some(age)) => (age, flipped, left),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    if !matches!(span, Expr::Interval(_)) {
        return None;
    }
    Some(binary(moved(&age.later, BinaryOperator::Minus, span.clone()), op, age.earlier))
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
    )
}

/// The seconds between two moments, with their fractions, or the whole days.
///
/// A difference with a literal is a moment that is moved, or a mistake that has its own message.
fn part_of_difference(part: &str, expr: &Expr) -> Option<Expr> {
    let expr = match expr {
        Expr::Nested(inner) => return part_of_difference(part, inner),
        other => other,
    };
    let Expr::BinaryOp { left, op: BinaryOperator::Minus, right } = expr else { return None };
    let is_moment = |side: &Expr| !matches!(side, Expr::Interval(_) | Expr::Value(_));
    if !is_moment(left) || !is_moment(right) || several_times(right).is_some() {
        return None;
    }
    let between = units_between("microsecond", right, left);
    match part {
        "epoch" => Some(binary(between, BinaryOperator::Divide, number("1000000.0"))),
        "day" | "days" => Some(binary(between, BinaryOperator::Divide, number("86400000000"))),
        _ => None,
    }
}

/// `x + n * INTERVAL '1 month'`, and the same backward.
fn moved_several_times(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    match op {
        BinaryOperator::Plus => match (several_times(left), several_times(right)) {
            (None, Some((n, span))) => Some(moved_times(left, n, span)),
            (Some((n, span)), None) => Some(moved_times(right, n, span)),
            (Some(_), Some(_)) | (None, None) => None,
        },
        BinaryOperator::Minus => {
            let (n, span) = several_times(right)?;
            let back = Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(Expr::Nested(Box::new(n))),
            };
            Some(moved_times(left, back, span))
        }
        _ => None,
    }
}

/// The number and the interval of `n * INTERVAL '1 month'`.
fn several_times(expr: &Expr) -> Option<(Expr, Expr)> {
    match expr {
        Expr::Nested(inner) => several_times(inner),
        Expr::BinaryOp { left, op: BinaryOperator::Multiply, right } => {
            match (left.as_ref(), right.as_ref()) {
                (span @ Expr::Interval(_), n) | (n, span @ Expr::Interval(_)) => {
                    Some((n.clone(), span.clone()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn moved_times(x: &Expr, n: Expr, span: Expr) -> Expr {
    call(moved_times_name(), vec![x.clone(), n, span])
}

/// The name of the function that moves a moment by several intervals. Nobody can write it.
pub(crate) fn moved_times_name() -> String {
    format!("{RESERVED}_moved_times")
}

/// The name of the call around a difference that an aggregate reads. Nobody can write it.
pub(crate) fn time_between_name() -> String {
    format!("{RESERVED}_time_between")
}

/// Makes a number of the argument of an aggregate of numbers, and of CLAMP: an age has whole years,
/// and a difference stands in a call of its own, until its type is known. So does a column that the
/// query names as a difference (`is_named`).
pub(super) fn number_times(function: &mut sql::Function, is_named: &dyn Fn(&Expr) -> bool) {
    let takes_numbers = match AggregateName::parse(written_name(&function.name.to_string())) {
        Some(
            AggregateName::Sum
            | AggregateName::Avg
            | AggregateName::Min
            | AggregateName::Max
            | AggregateName::Median
            | AggregateName::Quantile
            | AggregateName::Quantiles
            | AggregateName::Cdf
            | AggregateName::Spread(_),
        ) => true,
        Some(
            AggregateName::Count
            | AggregateName::Revenue
            | AggregateName::Joint(_)
            | AggregateName::Unsupported(_),
        ) => false,
        // Bounds of a difference are numbers.
        None => function.name.to_string().eq_ignore_ascii_case("clamp"),
    };
    // What a mechanism releases is read already, but for columns that the query names elsewhere.
    let is_release = marked(&function.name.to_string()).is_some();
    let FunctionArguments::List(list) = &mut function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(x))) = list.args.first_mut() else {
        return;
    };
    if (takes_numbers || is_release) && is_named(x) {
        *x = call(time_between_name(), vec![x.clone()]);
    }
    if !takes_numbers {
        return;
    }
    if let Some(years) = Age::read(x).and_then(|age| age.part("year")) {
        *x = years;
    } else if is_difference(x) {
        *x = call(time_between_name(), vec![x.clone()]);
    }
}

/// True if an expression is the difference of two that are no literals.
pub(super) fn is_difference(expr: &Expr) -> bool {
    let is_computed = |side: &Expr| !matches!(side, Expr::Interval(_) | Expr::Value(_));
    match expr {
        Expr::Nested(inner) => is_difference(inner),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            is_computed(left) && is_computed(right) && several_times(right).is_none()
        }
        _ => false,
    }
}

/// How many whole units pass between two moments, toward zero: a year is over on its day, at its
/// time. Shorter parts than a second do not count, but for milliseconds.
fn whole_units(unit: &str, from: &Expr, to: &Expr) -> Option<Expr> {
    let one_way: fn(&str, &Expr, &Expr) -> Option<Expr> = match unit {
        "year" | "month" | "quarter" => calendar_units,
        "week" | "day" | "hour" | "minute" | "second" => clock_units,
        _ => return None,
    };
    let back = Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(Expr::Nested(Box::new(one_way(unit, to, from)?))),
    };
    let in_order = binary(from.clone(), BinaryOperator::LtEq, to.clone());
    Some(either(in_order, one_way(unit, from, to)?, back))
}

/// Whole years, quarters or months from one moment to a later one.
fn calendar_units(unit: &str, from: &Expr, to: &Expr) -> Option<Expr> {
    if unit == "quarter" {
        let months = calendar_units("month", from, to)?;
        return Some(binary(months, BinaryOperator::Divide, number("3")));
    }
    let place = |x: &Expr| place_in(unit, x);
    let is_open = binary(place(to), BinaryOperator::Lt, place(from));
    let open = either(is_open, number("1"), number("0"));
    Some(binary(units_between(unit, from, to), BinaryOperator::Minus, open))
}

/// Whole weeks, days, hours, minutes or seconds from one moment to a later one.
fn clock_units(unit: &str, from: &Expr, to: &Expr) -> Option<Expr> {
    let milliseconds = match unit {
        "week" => "604800000",
        "day" => "86400000",
        "hour" => "3600000",
        "minute" => "60000",
        "second" => "1000",
        _ => return None,
    };
    let between = units_between("millisecond", from, to);
    Some(binary(between, BinaryOperator::Divide, number(milliseconds)))
}

/// A number that orders the moments of a year, or of a month, as they come: 40 seconds after 13:02
/// on 17 May is 517130240.
fn place_in(unit: &str, x: &Expr) -> Expr {
    let parts = ["month", "day", "hour", "minute", "second"];
    let parts = parts.iter().skip(usize::from(unit == "month"));
    let add = |so_far: Option<Expr>, part: &&str| match so_far {
        None => Some(date_part(part, x)),
        Some(so_far) => {
            let higher = binary(so_far, BinaryOperator::Multiply, number("100"));
            Some(binary(higher, BinaryOperator::Plus, date_part(part, x)))
        }
    };
    parts.fold(None, add).unwrap_or_else(|| number("0"))
}

/// `datediff(unit, from, to)`, and BigQuery's `date_diff(to, from, unit)`, with the unit as a word.
fn difference(first: &Expr, second: &Expr, third: &Expr) -> Option<Expr> {
    if let Some(unit) = unit_word(first) {
        return Some(units_between(&unit, second, third));
    }
    // `date_diff('day', x, month)` has its unit; `month` is a column.
    if matches!(first, Expr::Value(_)) {
        return None;
    }
    unit_word(third).map(|unit| units_between(&unit, second, first))
}

fn units_between(unit: &str, from: &Expr, to: &Expr) -> Expr {
    call("date_diff".to_owned(), vec![text(unit), from.clone(), to.clone()])
}

/// A unit that is written as a bare word.
fn unit_word(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(Ident { value, quote_style: None, .. }) => singular(value),
        _ => None,
    }
}

/// A unit that is written as a bare word or as a text.
fn unit_name(expr: &Expr) -> Option<String> {
    unit_word(expr).or_else(|| unit_or_text(expr))
}

/// A text, or the word of a part of a moment, in lower case.
fn unit_or_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => value.value.clone().into_string().map(|text| text.to_lowercase()),
        Expr::Identifier(Ident { value, quote_style: None, .. }) => Some(value.to_lowercase()),
        _ => None,
    }
}

/// The unit in the singular, without `SQL_TSI_`.
fn singular(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let word = word.strip_prefix("sql_tsi_").unwrap_or(&word);
    let word = word.strip_suffix('s').unwrap_or(word);
    UNITS.contains(&word).then(|| word.to_owned())
}

/// The day of the week from 1 for Monday to 7 for Sunday.
fn iso_weekday(x: &Expr) -> Expr {
    let after_monday = binary(date_part("dow", x), BinaryOperator::Plus, number("6"));
    let after_monday = binary(after_monday, BinaryOperator::Modulo, number("7"));
    binary(after_monday, BinaryOperator::Plus, number("1"))
}

/// The year to which the week belongs: that of its Thursday.
fn iso_year(x: &Expr) -> Expr {
    let monday = call("date_trunc".to_owned(), vec![text("week"), x.clone()]);
    let thursday =
        interval(&number("3"), "day").map(|days| moved(&monday, BinaryOperator::Plus, days));
    date_part("year", &thursday.unwrap_or(monday))
}

fn last_day(x: &Expr) -> Expr {
    let first = call("date_trunc".to_owned(), vec![text("month"), x.clone()]);
    let next =
        interval(&number("1"), "month").map(|month| moved(&first, BinaryOperator::Plus, month));
    let last = next.zip(interval(&number("1"), "day"));
    day_of(last.map_or(first, |(next, day)| moved(&next, BinaryOperator::Minus, day)))
}

fn date_part(part: &str, x: &Expr) -> Expr {
    call("date_part".to_owned(), vec![text(part), x.clone()])
}

fn day_of(x: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(x),
        data_type: DataType::Date,
        array: false,
        format: None,
    }
}

/// `INTERVAL '3 day'` of a literal number.
fn interval(n: &Expr, unit: &str) -> Option<Expr> {
    let n = match n {
        Expr::Value(value) => value.value.to_string(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => format!("-{}", value.value),
            _ => return None,
        },
        _ => return None,
    };
    let is_number = n.strip_prefix('-').unwrap_or(&n).bytes().all(|digit| digit.is_ascii_digit());
    // The engine's intervals have no quarters.
    let (n, unit) = match unit {
        "quarter" => (n.parse::<i64>().ok()?.checked_mul(3)?.to_string(), "month"),
        _ => (n, unit),
    };
    is_number.then(|| {
        Expr::Interval(sql::Interval {
            value: Box::new(text(&format!("{n} {unit}"))),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        })
    })
}

fn moved(x: &Expr, op: BinaryOperator, span: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(x.clone()), op, right: Box::new(span) }))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let operation = Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    Expr::Nested(Box::new(operation))
}

/// `CASE WHEN condition THEN yes ELSE no END`.
pub(super) fn either(condition: Expr, yes: Expr, no: Expr) -> Expr {
    Expr::Case {
        case_token: sql::helpers::attached_token::AttachedToken::empty(),
        end_token: sql::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: yes }],
        else_result: Some(Box::new(no)),
    }
}

fn text(text: &str) -> Expr {
    Expr::value(sql::Value::SingleQuotedString(text.to_owned()))
}

fn number(number: &str) -> Expr {
    Expr::value(sql::Value::Number(number.to_owned(), false))
}

#[cfg(test)]
pub(super) mod tests {
    use crate::dialect::{Statement, parse};

    /// The query that selects an expression, as it is planned.
    pub(in crate::dialect) fn tree(text: &str) -> String {
        match parse(&format!("SELECT {text} FROM t")) {
            Ok(Statement::Query(query)) => query.tree.to_string(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn calls_of_other_databases_are_the_engines() {
        for (text, expected) in [
            ("YEAR(x)", "date_part('year', x)"),
            ("DayOfWeek(x)", "date_part('dow', x)"),
            ("EXTRACT(ISODOW FROM x)", "(((date_part('dow', x) + 6) % 7) + 1)"),
            ("date_part('isodow', x)", "(((date_part('dow', x) + 6) % 7) + 1)"),
            ("monthname(x)", "strftime(x, '%B')"),
            ("date(x)", "CAST(x AS DATE)"),
            ("datediff(day, a, b)", "date_diff('day', a, b)"),
            ("DATE_DIFF(b, a, MONTH)", "date_diff('month', a, b)"),
            ("datediff(b, a)", "date_diff('day', a, b)"),
            ("dateadd(quarter, -2, x)", "(x + INTERVAL '-6 month')"),
            ("date_sub(x, INTERVAL '1 day')", "(x - INTERVAL '1 day')"),
            ("age(b, a) < INTERVAL '18 years'", "((b - INTERVAL '18 years') < a)"),
            ("INTERVAL '1 month' < age(b, a)", "((b - INTERVAL '1 month') > a)"),
        ] {
            assert_eq!(tree(text), format!("SELECT {expected} FROM t"), "{text}");
        }
        // Other calls stay as they are.
        for text in
            ["year", "date_diff('day', a, b)", "date_diff('day', a, month)", "date_part('dow', x)"]
        {
            assert_eq!(tree(text), format!("SELECT {text} FROM t"));
        }
    }

    #[test]
    fn an_age_has_whole_years() {
        let years = tree("EXTRACT(YEAR FROM AGE(b, a))");
        assert_eq!(years, tree("year(age(b, a))"));
        assert_eq!(years, tree("timestampdiff(YEAR, a, b)"));
        assert!(years.starts_with("SELECT CASE WHEN (a <= b) THEN (date_diff('year', a, b) - "));
        assert!(
            tree("timestampdiff(HOUR, a, b)").contains("date_diff('millisecond', a, b) / 3600000")
        );
    }
}
