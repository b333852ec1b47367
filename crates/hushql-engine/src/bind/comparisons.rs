//! Refuses comparisons and conditions that would not mean what they say.
//!
//! In: an operator with its operands before casts are added, or a plan. Out: nothing, or a refusal
//! with what to write. The planner would count days to compare a date with 2024, read texts as
//! numbers, and take numbers for conditions; `x = NULL` is never true. Rows do not matter.
//!
//! ```text
//! signed_up > 2024       signed_up is a date, and 2024 is a number     EXTRACT(YEAR FROM signed_up) > 2024
//! status = 17            status is a text, and 17 is a number          status = '17'
//! status = NULL          never true                                    status IS NULL
//! ```

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, Cast, InList, InSubquery, Like, TryCast,
};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use sqlparser::ast::BinaryOperator;

use super::moved_days::moved_by_days;
use super::quoting::{operand, written};
use super::scaled_spans::scaled_span;
use super::temporal::MICROSECONDS;
pub(super) use super::value_kind::ValueKind;
use crate::catalog::RESERVED;
use crate::functions::{YEARS, is_in_calendar, without_offset, written as number_of};
use crate::refusal::{Reason, Refusal};

/// Checks each operator before the planner makes an expression of it.
#[derive(Debug)]
pub(super) struct Strict {
    /// True if a program gave NULL for a parameter: the comparison that it prepared is then meant.
    pub(super) null_values: bool,
}

impl ExprPlanner for Strict {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if let Some(moved) = moved_by_days(&expr, schema)? {
            return Ok(PlannerResult::Planned(moved));
        }
        refused(operands(&expr.op, &expr.left, &expr.right, schema), self.null_values)?;
        Ok(PlannerResult::Original(expr))
    }
}

/// Refuses the same mistakes in expressions without operators: lists, BETWEEN, CASE, USING, …
///
/// # Errors
/// The refusal, as an error of the planner.
pub(super) fn check(plan: LogicalPlan, null_values: bool) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        // INTERSECT and EXCEPT compare whole rows, see `chosen_values`.
        if let LogicalPlan::Join(join) = node
            && join.null_equality == NullEquality::NullEqualsNothing
        {
            for (left, right) in &join.on {
                refused(compared(left, "=", right, &schema), null_values)?;
            }
            refused(join.filter.as_ref().and_then(never_true), null_values)?;
        }
        if let LogicalPlan::Filter(filter) = node {
            refused(never_true(&filter.predicate), null_values)?;
        }
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                refused(within(e, &schema), null_values)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(plan)
}

/// The messages about comparisons that are never true.
const NEVER: [&str; 3] = [
    "a comparison with NULL is never true",
    "NOT IN is never true where NULL is in the list",
    "NULL as a condition is never true",
];

fn refused(refusal: Option<Refusal>, null_values: bool) -> Result<()> {
    match refusal.filter(|refusal| !null_values || !NEVER.contains(&refusal.message())) {
        Some(refusal) => Err(DataFusionError::External(Box::new(refusal))),
        None => Ok(()),
    }
}

/// Refuses mistakes in the comparisons and conditions of one expression.
fn within(expr: &Expr, schema: &DFSchema) -> Option<Refusal> {
    if let Expr::InList(list) = expr {
        return in_list(list, schema);
    }
    if let Expr::Between(Between { expr, negated, low, high }) = expr {
        let ends = [compared(expr, ">=", low, schema), compared(expr, "<=", high, schema)];
        return match ends {
            [Some(from), Some(to)] => {
                let (x, not) = (operand(expr), if *negated { "NOT " } else { "" });
                let clause = format!("{x} {not}BETWEEN {} AND {}", operand(low), operand(high));
                let both = format!("{} AND {}", from.hint(), to.hint());
                let hint = if *negated { format!("NOT ({both})") } else { both };
                Some(refusal(clause, from.message(), hint))
            }
            [from, to] => from.or(to),
        };
    }
    if let Expr::Like(Like { expr, pattern, case_insensitive, .. }) = expr {
        let name = if *case_insensitive { "ILIKE" } else { "LIKE" };
        return like(expr, name, pattern, schema);
    }
    if let Expr::InSubquery(InSubquery { expr, subquery, .. }) = expr {
        let inner = subquery.subquery.schema();
        let (qualifier, field) = inner.iter().next()?;
        let other = Expr::Column((qualifier, field).into());
        let (left, right) = (kind(expr, schema)?, ValueKind::new(field.data_type())?);
        return mismatch((expr, left), "=", (&other, right));
    }
    if let Expr::Case(Case { expr, when_then_expr, else_expr: _ }) = expr {
        return when_then_expr.iter().find_map(|(when, _)| match expr {
            Some(expr) => compared(expr, "=", when, schema),
            None => condition(when, schema),
        });
    }
    if let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr {
        let filter = params.filter.as_deref()?;
        return never_true(filter).or_else(|| condition(filter, schema));
    }
    None
}

/// Refuses NULL as a condition, or as one of the conditions that AND connects: no row passes.
fn never_true(condition: &Expr) -> Option<Refusal> {
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) = condition {
        return never_true(left).or_else(|| never_true(right));
    }
    let mut value = condition;
    while let Expr::Not(inner) = value {
        value = inner;
    }
    while let Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) =
        value
    {
        value = inner;
    }
    literal(value).is_some_and(ScalarValue::is_null).then(|| {
        let hint = "a condition such as x IS NULL, or the query without it";
        refusal(written(condition), NEVER[2], hint)
    })
}

/// Refuses mistakes in the values of a list.
fn in_list(list: &InList, schema: &DFSchema) -> Option<Refusal> {
    let InList { expr, list, negated } = list;
    let present: Vec<&Expr> = list.iter().filter(|e| !is_null(e)).collect();
    // Beside other values, NULL changes nothing in IN.
    let is_null_list = present.is_empty() || *negated && present.len() < list.len();
    let hints: Vec<Refusal> =
        present.iter().filter_map(|item| compared(expr, "=", item, schema)).collect();
    if !is_null_list && hints.is_empty() {
        return None;
    }
    let (x, not) = (operand(expr), if *negated { "NOT " } else { "" });
    let all = |items: &[&Expr]| {
        let items: Vec<String> = items.iter().map(|item| written(item)).collect();
        format!("{x} {not}IN ({})", items.join(", "))
    };
    let clause = all(&list.iter().collect::<Vec<_>>());
    let null = format!("{x} IS {not}NULL");
    if present.is_empty() {
        return Some(refusal(clause, NEVER[0], null));
    }
    if is_null_list {
        let message = NEVER[1];
        return Some(refusal(clause, message, format!("{} AND {null}", all(&present))));
    }
    let first = hints.first()?;
    // Each hint compares the same expression with another value.
    let sides: Option<Vec<(&str, &str)>> =
        hints.iter().map(|one| one.hint().rsplit_once(" = ")).collect();
    let hint = match sides.as_deref() {
        Some([(left, _), ..]) if hints.len() == present.len() => {
            let same = sides.iter().flatten().all(|(own, _)| own == left);
            let values: Vec<&str> = sides.iter().flatten().map(|(_, value)| *value).collect();
            let list = format!("{left} {not}IN ({})", values.join(", "));
            if same { list } else { one_by_one(expr, &present, *negated, schema) }
        }
        Some(_) | None => one_by_one(expr, &present, *negated, schema),
    };
    Some(refusal(clause, first.message(), hint))
}

/// The list as comparisons with each of its values.
fn one_by_one(expr: &Expr, list: &[&Expr], negated: bool, schema: &DFSchema) -> String {
    let each = |item: &&Expr| match compared(expr, "=", item, schema) {
        Some(refusal) => refusal.hint().to_owned(),
        None => format!("{} = {}", operand(expr), operand(item)),
    };
    let all = list.iter().map(each).collect::<Vec<_>>().join(" OR ");
    if negated { format!("NOT ({all})") } else { all }
}

/// The kind of an expression. `None` also for a candidate, whose values are checked one by one.
pub(super) fn kind(expr: &Expr, schema: &DFSchema) -> Option<ValueKind> {
    if let Expr::ScalarFunction(call) = expr
        && call.func.name().starts_with(RESERVED)
    {
        return None;
    }
    ValueKind::new(&expr.get_type(schema).ok()?)
}

fn refusal(clause: String, message: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::new(Reason::BadValue, clause, message, hint)
}

/// The value of a literal. A number with a point is a literal, too: its value is its digits.
pub(super) fn literal(expr: &Expr) -> Option<&ScalarValue> {
    if let Expr::Cast(cast) = expr
        && number_of(expr).is_some()
    {
        return literal(&cast.expr);
    }
    if let Expr::Literal(value, _) = expr { Some(value) } else { None }
}

pub(super) fn is_null(expr: &Expr) -> bool {
    literal(expr).is_some_and(|value| *value == ScalarValue::Null)
}

pub(super) fn text_of(expr: &Expr) -> Option<&str> {
    if let Expr::Literal(value, _) = expr { value.try_as_str()? } else { None }
}

/// Refuses mistakes in the operands of an operator.
fn operands(op: &BinaryOperator, left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Refusal> {
    match op {
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => compared(left, &op.to_string(), right, schema),
        BinaryOperator::And | BinaryOperator::Or => connected(op, left, right, schema),
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo => calculated(op, left, right, schema),
        BinaryOperator::StringConcat => joined(left, right, schema),
        // Other operators compare nothing. The analysis checks the operands of those that it knows.
        _ => None,
    }
}

/// Refuses a comparison with NULL, or of two expressions of different kinds.
fn compared(left: &Expr, op: &str, right: &Expr, schema: &DFSchema) -> Option<Refusal> {
    for (null, other) in [(left, right), (right, left)] {
        if is_null(null) {
            let (x, not) = (operand(other), if op == "<>" { "NOT " } else { "" });
            let clause = format!("{} {op} {}", operand(left), operand(right));
            let why = NEVER[0];
            return Some(refusal(clause, why, format!("{x} IS {not}NULL")));
        }
    }
    mismatch((left, kind(left, schema)?), op, (right, kind(right, schema)?))
}

/// The operator of the same comparison with its sides swapped.
fn swapped(op: &str) -> &str {
    match op {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

/// Refuses two expressions of kinds that cannot be compared with each other.
pub(super) fn mismatch(
    left: (&Expr, ValueKind),
    op: &str,
    right: (&Expr, ValueKind),
) -> Option<Refusal> {
    let clause = || format!("{} {op} {}", operand(left.0), operand(right.0));
    let said = |hint: String| {
        let message = format!(
            "{} is {}, and {} is {}",
            written(left.0),
            left.1.words(),
            written(right.0),
            right.1.words()
        );
        Some(refusal(clause(), message, hint))
    };
    let sides = [(left, op, right), (right, swapped(op), left)];
    for ((a, of), op, (b, other)) in sides {
        let x = operand(a);
        if of.is_moment() && other == ValueKind::Number {
            return said(moment(&x, op, b));
        }
        if of.is_moment() && other == ValueKind::Text {
            let text = text_of(b)?;
            let hint = no_moment(&x, op, text, of)?;
            let why = format!("'{text}' is not a date or timestamp in {YEARS}");
            return Some(refusal(clause(), why, hint));
        }
        if of == ValueKind::Number && other == ValueKind::Text {
            return match text_of(b).map(|text| text.trim().parse::<f64>()) {
                // The text is a number, and is read as one.
                Some(Ok(number)) if number.is_finite() => None,
                Some(_) => said(format!("{x} {op} 10")),
                None if literal(a).is_some() => said(match op {
                    "=" | "<>" => format!("{} {op} '{x}'", operand(b)),
                    // The order of texts is by letters: '60' is after '500'.
                    _ => format!("CAST({} AS DOUBLE) {} {x}", operand(b), swapped(op)),
                }),
                None => said(format!("CAST({x} AS VARCHAR) {op} {}", operand(b))),
            };
        }
        if of == ValueKind::Boolean && other == ValueKind::Text && text_of(b).is_some() {
            let (x, text) = (written(a), written(b));
            let why = format!("{x} is true or false, and {text} is neither: {TRUTH_TEXTS}");
            return Some(refusal(clause(), why, format!("{} = TRUE", operand(a))));
        }
        if of == ValueKind::Boolean && other == ValueKind::Text && literal(a).is_some() {
            return said(format!("{} {} '{x}'", operand(b), swapped(op)));
        }
        if of == ValueKind::Boolean && other == ValueKind::Text {
            return said(format!("{x} = TRUE"));
        }
        if of == ValueKind::Boolean && other == ValueKind::Number && literal(a).is_some() {
            return said(format!("{} <> 0", operand(b)));
        }
        if of == ValueKind::Boolean && other == ValueKind::Number {
            let number = literal(b).map(ToString::to_string);
            let chained = chained(left.0, if a == left.0 { op } else { swapped(op) }, right.0);
            return said(chained.unwrap_or_else(|| truth(&x, op, number.as_deref())));
        }
        if of == ValueKind::Span && other == ValueKind::Number {
            return said(match (literal(b), literal(a)) {
                (Some(number), _) => format!("{x} {op} INTERVAL '{number} days'"),
                // The span is a number of days.
                (None, Some(ScalarValue::IntervalMonthDayNano(Some(by)))) => {
                    format!("{} {} {}", operand(b), swapped(op), by.days)
                }
                (None, _) => format!("{} {} 1", operand(b), swapped(op)),
            });
        }
    }
    None
}

/// What to write for a moment that is compared with a number: a year, or the digits of a date.
fn moment(x: &str, op: &str, number: &Expr) -> String {
    // Smaller numbers are no years that anybody means.
    const KNOWN: std::ops::RangeInclusive<i64> = 1_000..=9_998;
    let digits = literal(number).map(ToString::to_string);
    let number = digits.and_then(|digits| digits.parse::<i64>().ok());
    match number {
        Some(year) if KNOWN.contains(&year) => match op {
            ">=" => format!("{x} >= '{year}-01-01'"),
            ">" => format!("{x} >= '{}-01-01'", year + 1),
            "<" => format!("{x} < '{year}-01-01'"),
            "<=" => format!("{x} < '{}-01-01'", year + 1),
            _ => format!("EXTRACT(YEAR FROM {x}) {op} {year}"),
        },
        Some(date) if KNOWN.contains(&(date / 10_000)) => {
            let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
            format!("{x} {op} '{year}-{month:02}-{day:02}'")
        }
        _ => format!("{x} {op} '2025-12-31'"),
    }
}

/// What to write for a text that is compared with a date or timestamp. `None` if the text is one.
fn no_moment(x: &str, op: &str, text: &str, of: ValueKind) -> Option<String> {
    let data_type = match of {
        ValueKind::Date => DataType::Date32,
        ValueKind::Timestamp => MICROSECONDS,
        ValueKind::Number | ValueKind::Text | ValueKind::Boolean | ValueKind::Span => return None,
    };
    let is_moment = |text: &str| {
        let value = ScalarValue::from(without_offset(text).as_ref()).cast_to(&data_type);
        value.is_ok_and(|value| is_in_calendar(&value))
    };
    if is_moment(text) {
        return None;
    }
    // The text has blanks around the date.
    if is_moment(text.trim()) {
        return Some(format!("{x} {op} '{}'", text.trim()));
    }
    let digits: Vec<&str> = text.split('-').collect();
    let numbers = digits.iter().all(|part| part.parse::<u16>().is_ok());
    Some(match digits.as_slice() {
        [year] if numbers && year.len() == 4 => {
            moment(x, op, &Expr::Literal(ScalarValue::Int64(year.parse().ok()), None))
        }
        [year, month] if numbers && year.len() == 4 && month.len() == 2 => {
            match x.starts_with("date_trunc('month'") {
                true => format!("{x} {op} '{year}-{month}-01'"),
                false => format!("date_trunc('month', {x}) {op} '{year}-{month}-01'"),
            }
        }
        _ => "a valid one, such as '2025-12-31', or the condition without it".to_owned(),
    })
}

/// What to write for a truth value that is compared with a number.
fn truth(x: &str, op: &str, number: Option<&str>) -> String {
    match (op, number) {
        ("=", Some("0")) | ("<>", Some("1")) => format!("NOT {x}"),
        ("=", Some("1")) | ("<>", Some("0")) => x.to_owned(),
        _ => format!("{x} = TRUE"),
    }
}

/// What to write for `20 < age < 30`, where the first comparison is an operand of the second.
fn chained(left: &Expr, op: &str, right: &Expr) -> Option<String> {
    let orders = |op: &str| op.starts_with(['<', '>']) && op != "<>";
    if let Expr::BinaryExpr(BinaryExpr { op: first, right: middle, .. }) = left
        && orders(op)
        && orders(&first.to_string())
    {
        return Some(format!("{} AND {} {op} {}", written(left), written(middle), written(right)));
    }
    None
}

/// Refuses LIKE on anything but texts.
fn like(expr: &Expr, name: &str, pattern: &Expr, schema: &DFSchema) -> Option<Refusal> {
    let clause = || format!("{} {name} {}", operand(expr), operand(pattern));
    let x = operand(expr);
    if is_null(expr) || is_null(pattern) {
        return Some(refusal(clause(), NEVER[0], format!("{x} IS NULL")));
    }
    let (of, by) = (kind(expr, schema)?, kind(pattern, schema)?);
    if of != ValueKind::Text {
        let year = text_of(pattern).map(|p| p.trim_end_matches('%'));
        let year = year.filter(|year| year.len() == 4 && year.parse::<u16>().is_ok());
        let hint = match of {
            ValueKind::Date | ValueKind::Timestamp => match year {
                Some(year) => format!("EXTRACT(YEAR FROM {x}) = {year}"),
                None => format!("CAST({x} AS VARCHAR) {name} {}", operand(pattern)),
            },
            ValueKind::Boolean => x.clone(),
            ValueKind::Number | ValueKind::Text | ValueKind::Span => {
                format!("CAST({x} AS VARCHAR) {name} {}", operand(pattern))
            }
        };
        let message = format!("{name} takes texts, and {x} is {}", of.words());
        return Some(refusal(clause(), message, hint));
    }
    if by != ValueKind::Text {
        let message =
            format!("{name} takes a pattern in quotes, and {} is {}", operand(pattern), by.words());
        return Some(refusal(clause(), message, format!("{x} {name} '{}'", operand(pattern))));
    }
    None
}

/// The texts that are truth values.
const TRUTH_TEXTS: &str = "'t', 'true', 'yes', 'on' and '1' are true, \
    'f', 'false', 'no', 'off' and '0' are false";

/// The start of the message about an expression that is not a condition.
const NO_CONDITION: &str = "a condition is true or false, and ";

/// Refuses a condition that is not true or false.
fn condition(expr: &Expr, schema: &DFSchema) -> Option<Refusal> {
    let of = kind(expr, schema)?;
    if of == ValueKind::Boolean || is_null(expr) {
        return None;
    }
    Some(no_condition(expr, of))
}

fn no_condition(expr: &Expr, of: ValueKind) -> Refusal {
    let x = written(expr);
    let hint = match of {
        ValueKind::Number => format!("{x} <> 0"),
        ValueKind::Text => format!("{x} IS NOT NULL"),
        ValueKind::Boolean | ValueKind::Date | ValueKind::Timestamp | ValueKind::Span => {
            format!("{x} IS NOT NULL")
        }
    };
    refusal(x.clone(), format!("{NO_CONDITION}{x} is {}", of.words()), hint)
}

/// Refuses operands of AND and OR that are not conditions.
fn connected(op: &BinaryOperator, left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Refusal> {
    let other =
        |expr: &Expr| kind(expr, schema).filter(|of| *of != ValueKind::Boolean && !is_null(expr));
    if let Some(of) = other(right) {
        let refusal = no_condition(right, of);
        let (Expr::BinaryExpr(BinaryExpr { left: x, op: Operator::Eq, right: first }), true) =
            (left, *op == BinaryOperator::Or && literal(right).is_some())
        else {
            return Some(refusal);
        };
        let list = format!("{} IN ({}, {})", written(x), written(first), written(right));
        let clause = format!("{} OR {}", written(left), written(right));
        return Some(Refusal::new(Reason::BadValue, clause, refusal.message(), list));
    }
    other(left).map(|of| no_condition(left, of))
}

/// Refuses `||` if neither operand is a text.
fn joined(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Refusal> {
    let (l, r) = (kind(left, schema)?, kind(right, schema)?);
    if l == ValueKind::Text || r == ValueKind::Text {
        return None;
    }
    let (x, y) = (operand(left), operand(right));
    let message = format!("|| joins texts, and {x} is {}", l.words());
    Some(refusal(format!("{x} || {y}"), message, format!("CAST({x} AS VARCHAR) || {y}")))
}

/// Refuses operands of arithmetic that have no such operation.
fn calculated(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Option<Refusal> {
    let (l, r) = (kind(left, schema)?, kind(right, schema)?);
    let (x, y) = (operand(left), operand(right));
    let said =
        |message: String, hint: String| Some(refusal(format!("{x} {op} {y}"), message, hint));
    let no_number =
        |x: &str, of: ValueKind| format!("{op} takes numbers, and {x} is {}", of.words());
    let moves = *op == BinaryOperator::Plus || *op == BinaryOperator::Minus;
    if l.is_moment() && r == ValueKind::Number {
        return match moves {
            true => said(
                format!("{x} is {}, and moved by an interval", l.words()),
                format!("{x} {op} INTERVAL '{} days'", y.parse::<f64>().map_or("7", |_| &y)),
            ),
            false => said(no_number(&x, l), format!("EXTRACT(YEAR FROM {x}) {op} {y}")),
        };
    }
    if l == ValueKind::Number && r.is_moment() && *op == BinaryOperator::Plus {
        return said(
            format!("{y} is {}, and moved by an interval", r.words()),
            format!("{y} + INTERVAL '{} days'", x.parse::<f64>().map_or("7", |_| &x)),
        );
    }
    if (l == ValueKind::Span || r == ValueKind::Span) && !moves {
        let span = (l == ValueKind::Span).then_some(left);
        return Some(scaled_span(op, (&x, &y), span, r == ValueKind::Number));
    }
    let both = l == ValueKind::Text && r == ValueKind::Text && *op == BinaryOperator::Plus;
    if both {
        return said(no_number(&x, l), format!("{x} || {y}"));
    }
    for ((expr, of), (other, beside)) in [((left, l), (right, r)), ((right, r), (left, l))] {
        let text = written(expr);
        // The whole expression, with a number in place of this operand.
        let with = |number: String| match std::ptr::eq(expr, left) {
            true => format!("{number} {op} {y}"),
            false => format!("{x} {op} {number}"),
        };
        if of == ValueKind::Boolean {
            let number = format!("CASE WHEN {text} THEN 1 ELSE 0 END");
            return said(no_number(&text, of), with(number));
        }
        if of != ValueKind::Text {
            continue;
        }
        let hint = match text_of(expr).map(str::trim) {
            Some(literal) if beside.is_moment() => match no_moment("", "", literal, beside) {
                None => format!("date_diff('day', DATE '{literal}', {})", written(other)),
                Some(_) => format!("{} {op} INTERVAL '{literal}'", written(other)),
            },
            Some(literal)
                if beside == ValueKind::Span
                    && no_moment("", "", literal, ValueKind::Date).is_none() =>
            {
                with(format!("DATE '{literal}'"))
            }
            Some(literal) if literal.parse::<f64>().is_ok_and(f64::is_finite) => {
                with(literal.to_owned())
            }
            Some(literal) => format!("a number in place of '{literal}'"),
            None => with(format!("CAST({text} AS DOUBLE)")),
        };
        return said(no_number(&text, of), hint);
    }
    None
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use crate::catalog::RESERVED;
    use crate::functions::LateValue;

    /// The name of a released value tells it from other functions. Such a value has no kind.
    #[test]
    fn released_values_have_reserved_names() {
        let value = LateValue::new(0, DataType::Int64);
        assert!(value.name().starts_with(RESERVED), "{}", value.name());
    }
}
