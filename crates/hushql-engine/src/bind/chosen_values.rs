//! Checks the types of values that meet without an operator: the values from which COALESCE or CASE
//! chooses, and the branches of set operations.
//!
//! In: a plan as the planner makes it. Out: the same plan, or a refusal with what to write. The
//! planner would cast all these values to one type, and an impossible cast gives NULL:
//! `COALESCE(nation, 0)` would be 0 for every nation, and a number beside a date would be a number
//! of days since 1970. Only types and literals matter, not rows.
//!
//! ```text
//! COALESCE(nation, 0)                           COALESCE(nation, '0')
//! GREATEST(nation, day)                         GREATEST(nation, CAST(day AS VARCHAR))
//! CASE WHEN paid THEN day ELSE 5 END            CASE WHEN paid THEN day ELSE DATE '2025-12-31' END
//! ```
//!
//! CASE and UNION of texts and numbers give texts. Beside numbers and dates, a text that is a
//! number or a date counts as one.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction, WindowFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Operator, Union,
};

use super::comparisons::{self, ValueKind, is_null, kind, literal, mismatch, text_of};
use super::quoting::written;
use super::{time_zones, wide_types};
use crate::functions::{DecimalLiteral, written as number_of};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// Checks that the types and comparisons of a plan mean what they say, and returns the plan.
///
/// # Errors
/// The refusal, as an error of the planner.
pub(super) fn check(plan: LogicalPlan, null_values: bool) -> Result<LogicalPlan> {
    let plan = time_zones::check(wide_types::check(plan)?)?;
    let plan = comparisons::check(plan, null_values)?;
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        if let LogicalPlan::Union(union) = node {
            refused(united(union))?;
        }
        if let LogicalPlan::Join(join) = node {
            refused(intersected(join, &schema))?;
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                refused(within(part, &schema))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(plan)
}

fn refused(refusal: Option<Refusal>) -> Result<()> {
    match refusal {
        Some(refusal) => Err(DataFusionError::External(Box::new(refusal))),
        None => Ok(()),
    }
}

/// Functions that return one of their arguments, or compare them.
const OF_EQUALS: [&str; 5] = ["coalesce", "nvl", "nullif", "greatest", "least"];

/// Refuses values that meet in one expression, if they are of different kinds.
fn within(expr: &Expr, schema: &DFSchema) -> Option<Refusal> {
    if let Expr::ScalarFunction(call) = expr {
        let own = match call.func.name() {
            name if OF_EQUALS.contains(&name) => call.args.as_slice(),
            // The first argument is only tested for NULL.
            "nvl2" => call.args.get(1..)?,
            _ => return None,
        };
        let (message, kinds) = meeting(own, schema, Meeting::Strict)?;
        let first = call.args.len() - own.len();
        let (before, own) = call.args.split_at_checked(first)?;
        let args = [before.to_vec(), of_one_kind(own, &kinds)].concat();
        let hint = ScalarFunction { func: Arc::clone(&call.func), args };
        return Some(refusal(expr, message, written(&Expr::ScalarFunction(hint))));
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr {
        if matches!(op, Operator::Plus | Operator::Minus) {
            return hours_of_a_date(expr, left, *op, right, schema);
        }
        if !matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
            return None;
        }
        let own = [left.as_ref().clone(), right.as_ref().clone()];
        let (message, kinds) = meeting(&own, schema, Meeting::Strict)?;
        let hint: Vec<String> = of_one_kind(&own, &kinds).iter().map(written).collect();
        return Some(refusal(expr, message, hint.join(&format!(" {op} "))));
    }
    if let Expr::Case(case) = expr {
        return chosen(expr, case, schema);
    }
    if let Expr::WindowFunction(call) = expr {
        return default_of(call, expr, schema);
    }
    None
}

/// Refuses branches of CASE that are of different kinds.
fn chosen(expr: &Expr, case: &Case, schema: &DFSchema) -> Option<Refusal> {
    let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref().clone());
    let own: Vec<Expr> = thens.chain(case.else_expr.iter().map(|e| e.as_ref().clone())).collect();
    let (message, kinds) = meeting(&own, schema, Meeting::Loose)?;
    let mut results = of_one_kind(&own, &kinds).into_iter().map(Box::new);
    let whens = case.when_then_expr.iter().map(|(when, _)| when.clone());
    let branches = whens.zip(results.by_ref()).collect();
    let hint = Case::new(case.expr.clone(), branches, results.next());
    Some(refusal(expr, message, written(&Expr::Case(hint))))
}

/// Refuses columns of INTERSECT and EXCEPT that are of different kinds. These joins treat NULL as
/// equal to NULL.
fn intersected(join: &Join, schema: &DFSchema) -> Option<Refusal> {
    if join.null_equality != NullEquality::NullEqualsNull {
        return None;
    }
    join.on.iter().find_map(|(left, right)| {
        let own = [left.clone(), right.clone()];
        let (message, kinds) = meeting(&own, schema, Meeting::Strict)?;
        let word = if join.join_type == JoinType::LeftAnti { " EXCEPT " } else { " INTERSECT " };
        let both = |own: &[Expr]| own.iter().map(written).collect::<Vec<_>>().join(word);
        let hint = both(&of_one_kind(&own, &kinds));
        Some(Refusal::new(Reason::BadValue, both(&own), message, hint))
    })
}

/// Refuses columns of a union that are of different kinds.
fn united(union: &Union) -> Option<Refusal> {
    let column = |input: &LogicalPlan, i: usize| {
        // The expression as it is written: the name of a literal does not tell its value.
        if let LogicalPlan::Projection(projection) = input
            && let Some(own) = projection.expr.get(i)
        {
            return own.clone().unalias();
        }
        Expr::Column(input.schema().qualified_field(i).into())
    };
    let width = union.inputs.iter().map(|input| input.schema().fields().len()).min()?;
    (0..width).find_map(|i| {
        let own: Vec<Expr> = union.inputs.iter().map(|input| column(input, i)).collect();
        let kinds = union.inputs.iter().zip(&own).map(|(input, expr)| match is_null(expr) {
            true => None,
            false => ValueKind::new(input.schema().field(i).data_type()),
        });
        let kinds: Vec<Option<ValueKind>> = kinds.collect();
        let message = among(&own, &kinds, Meeting::Loose)?;
        let hint: Vec<String> = of_one_kind(&own, &kinds).iter().map(written).collect();
        let clause = own.iter().map(written).collect::<Vec<_>>().join(" UNION ");
        Some(Refusal::new(Reason::BadValue, clause, message, hint.join(" UNION ")))
    })
}

/// How strictly the kinds of values must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    /// The kinds must agree as in a comparison.
    Strict,
    /// A number beside texts becomes a text.
    Loose,
}

/// The message for values of different kinds, and their kinds.
fn meeting(
    own: &[Expr],
    schema: &DFSchema,
    how: Meeting,
) -> Option<(String, Vec<Option<ValueKind>>)> {
    let of = |expr: &Expr| if is_null(expr) { None } else { kind(expr, schema) };
    let kinds: Vec<Option<ValueKind>> = own.iter().map(of).collect();
    Some((among(own, &kinds, how)?, kinds))
}

/// The message for the first two values of different kinds.
fn among(own: &[Expr], kinds: &[Option<ValueKind>], how: Meeting) -> Option<String> {
    let all: Vec<(&Expr, ValueKind)> =
        own.iter().zip(kinds).filter_map(|(expr, kind)| Some((expr, (*kind)?))).collect();
    all.iter().enumerate().find_map(|(i, first)| {
        all.iter().skip(i + 1).find_map(|second| different(*first, *second, how))
    })
}

/// The message for two values of different kinds.
fn different(left: (&Expr, ValueKind), right: (&Expr, ValueKind), how: Meeting) -> Option<String> {
    let has_moment = left.1.is_moment() || right.1.is_moment();
    if how == Meeting::Loose && !has_moment {
        return None;
    }
    for (moment, text) in [(left, right), (right, left)] {
        if moment.1.is_moment() && text.1 == ValueKind::Text && text_of(text.0).is_none() {
            let (x, y) = (written(left.0), written(right.0));
            return Some(format!("{x} is {}, and {y} is {}", left.1.words(), right.1.words()));
        }
    }
    mismatch(left, "=", right).map(|refusal| refusal.message().to_owned())
}

/// The values, with a replacement for each one that is not of the kind of the others.
fn of_one_kind(own: &[Expr], kinds: &[Option<ValueKind>]) -> Vec<Expr> {
    let has = |kind| kinds.contains(&Some(kind));
    let moment = [ValueKind::Timestamp, ValueKind::Date].into_iter().find(|kind| has(*kind));
    let text = |expr: &Expr| match literal(expr) {
        Some(value) => Expr::Literal(ScalarValue::from(value.to_string()), None),
        None => Expr::Cast(Cast::new(Box::new(expr.clone()), DataType::Utf8)),
    };
    let day = |data_type: DataType| {
        let text = Expr::Literal(ScalarValue::from("2025-12-31"), None);
        Expr::Cast(Cast::new(Box::new(text), data_type))
    };
    let one = |(expr, kind): (&Expr, &Option<ValueKind>)| match kind {
        None | Some(ValueKind::Text) => expr.clone(),
        Some(_) if has(ValueKind::Text) => text(expr),
        Some(ValueKind::Number) if moment == Some(ValueKind::Timestamp) => {
            day(super::temporal::MICROSECONDS)
        }
        Some(ValueKind::Number) if moment.is_some() => day(DataType::Date32),
        Some(ValueKind::Boolean) => Expr::Case(Case::new(
            None,
            vec![(Box::new(expr.clone()), Box::new(Expr::Literal(1_i64.into(), None)))],
            Some(Box::new(Expr::Literal(0_i64.into(), None))),
        )),
        Some(_) => expr.clone(),
    };
    own.iter().zip(kinds).map(one).collect()
}

fn refusal(expr: &Expr, message: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::new(Reason::BadValue, written(expr), message, hint)
}

/// Refuses a DATE that hours move. The planner's result would be a DATE again, without the hours.
fn hours_of_a_date(
    expr: &Expr,
    left: &Expr,
    op: Operator,
    right: &Expr,
    schema: &DFSchema,
) -> Option<Refusal> {
    let is_date = |e: &Expr| e.get_type(schema).is_ok_and(|own| own == DataType::Date32);
    let moment = |e: &Expr| {
        let moment = Cast::new(Box::new(e.clone()), super::temporal::MICROSECONDS);
        written(&Expr::Cast(moment))
    };
    let hint = if is_date(left) && has_hours(right) {
        format!("{} {op} {}", moment(left), written(right))
    } else if is_date(right) && has_hours(left) {
        format!("{} {op} {}", written(left), moment(right))
    } else {
        return None;
    };
    let message = "a DATE has no hours, and is moved by whole days";
    Some(refusal(expr, message, hint))
}

/// True if a literal interval has a part that is less than a day.
fn has_hours(expr: &Expr) -> bool {
    const DAY: i64 = 86_400_000_000_000;
    let found = expr.exists(|e| {
        let value = if let Expr::Cast(Cast { expr, field }) = e {
            text_of(expr).and_then(|text| ScalarValue::from(text).cast_to(field.data_type()).ok())
        } else {
            literal(e).cloned()
        };
        let by = value.and_then(|v| v.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano)).ok());
        Ok(matches!(by, Some(ScalarValue::IntervalMonthDayNano(Some(by))) if by.nanoseconds % DAY != 0))
    });
    found.unwrap_or(true)
}

/// Refuses a default of LAG and LEAD that the planner would round to a value of the column's type.
fn default_of(call: &WindowFunction, expr: &Expr, schema: &DFSchema) -> Option<Refusal> {
    let name = call.fun.name().to_lowercase();
    let [x, _, default] = call.params.args.as_slice() else { return None };
    if (name != "lag" && name != "lead") || is_null(default) {
        return None;
    }
    let own = x.get_type(schema).ok()?;
    let message = match different(
        (x, kind(x, schema)?),
        (default, kind(default, schema)?),
        Meeting::Strict,
    ) {
        Some(message) => message,
        None if fits(default, &own) => return None,
        None => format!(
            "{} is no value of {}, of type {}",
            written(default),
            written(x),
            sql_type(&own)
        ),
    };
    let cast =
        |to: String| format!("{name}(CAST({} AS {to}), …, {})", written(x), written(default));
    let hint = match number(default) {
        Some(number) if own.is_integer() || own.is_decimal() => {
            cast(format!("DECIMAL(38, {})", number.scale))
        }
        Some(_) | None => "a default of the column's type".to_owned(),
    };
    Some(refusal(expr, message, hint))
}

/// The number that a literal stands for, with or without quotes.
fn number(expr: &Expr) -> Option<DecimalLiteral> {
    let number = match literal(expr)? {
        ScalarValue::Int64(Some(whole)) => DecimalLiteral::parse(&whole.to_string()),
        ScalarValue::UInt64(Some(whole)) => DecimalLiteral::parse(&whole.to_string()),
        _ => match number_of(expr) {
            Some(number) => Some(number),
            None => DecimalLiteral::read(text_of(expr)?),
        },
    }?;
    Some(number.trimmed().unwrap_or(number))
}

/// True if a default is a value of a type, as far as numbers are concerned.
fn fits(default: &Expr, own: &DataType) -> bool {
    let Some(number) = number(default) else { return true };
    let before = i16::from(number.precision) - i16::from(number.scale);
    match own {
        DataType::Decimal128(precision, scale) => {
            i16::from(number.scale) <= i16::from(*scale)
                && before <= i16::from(*precision) - i16::from(*scale)
        }
        whole if whole.is_integer() => {
            number.scale == 0 && ScalarValue::from(number.text.as_str()).cast_to(whole).is_ok()
        }
        _ => true,
    }
}
