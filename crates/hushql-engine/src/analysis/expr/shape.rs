//! Total expressions with their facts, their types, and their text as SQL.

use super::facts::Scope;
use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, HashSet, ScalarValue};
use datafusion::logical_expr::expr::{Between, Cast, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use crate::analysis::expr::facts::{
    Facts, KeySource, constant, decimal_unit, same_column, type_range,
};
use crate::analysis::expr::interval::Interval;
use crate::bind::quoting::as_sql;
use crate::functions::{YEARS, in_values_words, is_without_offset};
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The function that makes an expression total, as a parameter for modules that handle only some
/// expressions.
pub(crate) type MakeTotal = fn(&Expr, &Scope) -> Result<Total, Refusal>;

/// A total expression, and the facts about it.
#[derive(Debug, Clone)]
pub(crate) struct Total {
    pub(crate) expr: Expr,
    pub(crate) facts: Facts,
}

/// The number of parts of an expression, without the constants of a list.
pub(crate) fn parts_of(expr: &Expr) -> usize {
    let mut parts = 0_usize;
    let counted = expr.apply(|part| {
        parts = parts.saturating_add(1);
        if let Expr::InList(list) = part
            && list.list.iter().all(|item| constant(item).is_some())
        {
            parts = parts.saturating_add(parts_of(&list.expr));
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    counted.map_or(usize::MAX, |_| parts)
}

/// An expression as SQL, for display.
pub(crate) fn readable(expr: &Expr) -> String {
    // The planner's own display writes Int64(5) for 5 inside a function, and M for 'M' outside.
    let expr = &without_casts_beside_decimals(&without_casts_of_text(expr));
    let text = as_sql(expr).unwrap_or_else(|_| expr.human_display().to_string());
    in_values_words(&text)
}

/// An expression over these columns as SQL, for display, without casts of columns that keep their
/// values: the planner adds them where numbers of two types meet.
pub(crate) fn readable_over(expr: &Expr, schema: &DFSchemaRef) -> String {
    let number = |of: &DataType| of.is_integer() || of.is_decimal();
    let uncast = |side: &Expr| {
        let Expr::Cast(cast) = side else { return None };
        let (column, _) = same_column(side, schema)?;
        let own = cast.expr.get_type(schema.as_ref()).ok()?;
        (number(cast.field.data_type()) && number(&own)).then(|| Expr::Column(column.clone()))
    };
    readable(&with_operands(expr, &uncast))
}

/// The expression without the casts of BIGINT to a decimal that the planner adds beside a number
/// with a point: 20 digits before the point hold every BIGINT, and nobody writes them.
fn without_casts_beside_decimals(expr: &Expr) -> Expr {
    const DIGITS_OF_BIGINT: i16 = 20;
    with_operands(expr, &|side| {
        let Expr::Cast(cast) = side else { return None };
        let DataType::Decimal128(digits, scale) = cast.field.data_type() else { return None };
        let is_added = i16::from(*digits) - i16::from(*scale) == DIGITS_OF_BIGINT;
        // A number with a point is a cast of its digits.
        let is_number = matches!(cast.expr.as_ref(), Expr::Literal(value, _)
            if is_string(&value.data_type()));
        (is_added && !is_number).then(|| cast.expr.as_ref().clone())
    })
}

/// The expression with other operands in its comparisons and sums, where `other` has one.
fn with_operands(expr: &Expr, other: &dyn Fn(&Expr) -> Option<Expr>) -> Expr {
    let replaced = |side: &Expr| Box::new(other(side).unwrap_or_else(|| side.clone()));
    let written = expr.clone().transform_up(|e| {
        if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &e {
            // Casts decide what a division means.
            if *op == Operator::Divide || *op == Operator::Modulo {
                return Ok(Transformed::no(e));
            }
            let binary = BinaryExpr::new(replaced(left), *op, replaced(right));
            return Ok(Transformed::yes(Expr::BinaryExpr(binary)));
        }
        if let Expr::Between(Between { expr, negated, low, high }) = &e {
            let between = Between::new(replaced(expr), *negated, low.clone(), high.clone());
            return Ok(Transformed::yes(Expr::Between(between)));
        }
        if let Expr::InList(InList { expr, list, negated }) = &e {
            let list = InList::new(replaced(expr), list.clone(), *negated);
            return Ok(Transformed::yes(Expr::InList(list)));
        }
        Ok(Transformed::no(e))
    });
    written.map_or_else(|_| expr.clone(), |written| written.data)
}

/// The expression without two things that the planner adds: casts of literal texts between text
/// types, and functions that read texts.
pub(crate) fn without_casts_of_text(expr: &Expr) -> Expr {
    let written = expr.clone().transform_up(|e| {
        if let Expr::Cast(cast) = &e
            && is_string(cast.field.data_type())
            && let Expr::Literal(value, _) = cast.expr.as_ref()
            && is_string(&value.data_type())
        {
            return Ok(Transformed::yes(cast.expr.as_ref().clone()));
        }
        if let Expr::ScalarFunction(call) = &e
            && is_without_offset(&call.func)
            && let [text] = call.args.as_slice()
        {
            return Ok(Transformed::yes(text.clone()));
        }
        Ok(Transformed::no(e))
    });
    written.map_or_else(|_| expr.clone(), |written| written.data)
}

pub(crate) fn not_allowed(expr: &Expr, message: &str) -> Refusal {
    let hint =
        "arithmetic, comparisons, CASE, BETWEEN, IN, LIKE and the functions listed in grammar.md";
    Refusal::new(Reason::Function, readable(expr), message, hint)
}

/// The refusal of a column outside a subquery, which is then asked for each row there.
pub(crate) fn of_each_row(column: &Expr) -> Refusal {
    let x = readable(column);
    Refusal::new(
        Reason::Function,
        x.clone(),
        "this subquery is asked for each row outside it, which is one release only with a mechanism in front of its aggregate",
        format!(
            "(SELECT LAPLACE(eps=1) COUNT(*) FROM … WHERE key = {x}): one release by its key; or a LEFT JOIN of its rows, and GROUP BY {x}"
        ),
    )
}

/// The refusal of an operator, with an equivalent to write instead.
pub(crate) fn no_operator(op: Operator, binary: &BinaryExpr, whole: &Expr) -> Refusal {
    let message = format!("the operator {op} is not allowed below a release");
    let x = readable(&binary.left);
    let hint = if matches!(op, Operator::RegexMatch | Operator::RegexIMatch) {
        format!("{x} LIKE '%text%', or regexp_like({x}, 'pattern') of listed values")
    } else if matches!(op, Operator::RegexNotMatch | Operator::RegexNotIMatch) {
        format!("{x} NOT LIKE '%text%'")
    } else {
        return not_allowed(whole, &message);
    };
    Refusal::new(Reason::Function, readable(whole), message, hint)
}

/// The refusal of a literal that would be NULL on every row. It is a mistake that would cost
/// budget.
pub(crate) fn no_value(text: &str, to: &DataType, whole: &Expr) -> Refusal {
    let (message, hint) = if is_temporal(to) {
        (
            format!("'{text}' is not a date or timestamp in {YEARS}"),
            "a valid one, such as '2025-12-31', or the condition without it",
        )
    } else {
        (format!("'{text}' is not a value of type {}", sql_type(to)), "a literal of this type")
    };
    Refusal::new(Reason::BadValue, readable(whole), message, hint)
}

pub(crate) fn partial(expr: &Expr, message: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::new(Reason::Partial, readable(expr), message, hint)
}

/// How to write arithmetic whose result may not fit: with a range for an operand that has none, or
/// else with floats.
pub(crate) fn to_fit(whole: &Expr, facts: [&Facts; 2]) -> String {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = whole else {
        return "CLAMP(x, lo, hi) around its operands".to_owned();
    };
    let bare = |mut expr: &Expr| {
        while let Expr::Cast(Cast { expr: inner, .. }) = expr {
            expr = inner;
        }
        readable(expr)
    };
    let operands = [bare(left), bare(right)];
    for (operand, facts) in operands.iter().zip(facts) {
        if facts.range.bounds().is_none() {
            return format!("CLAMP({operand}, lo, hi) in place of {operand}");
        }
    }
    let [left, right] = operands;
    format!("CAST({left} AS DOUBLE) {op} CAST({right} AS DOUBLE)")
}

pub(crate) fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType, Refusal> {
    expr.get_type(schema).map_err(|_| not_allowed(expr, "the type of this is not known"))
}

/// The facts about a value that is one of several.
pub(crate) fn union(branches: &[Facts]) -> Facts {
    let mut all = Facts::ranged(Interval::empty(), false);
    let mut keys: Option<Vec<ScalarValue>> = Some(Vec::new());
    let mut seen = HashSet::new();
    for facts in branches {
        all.range = all.range.union(&facts.range);
        all.always = all.always.union(&facts.always);
        all.nullable |= facts.nullable;
        all.null_key |= facts.null_key;
        keys = match (keys, &facts.keys) {
            (Some(mut known), Some(KeySource::Values(values))) => {
                for value in values.iter() {
                    if seen.insert(value.clone()) {
                        known.push(value.clone());
                    }
                }
                Some(known)
            }
            // A branch that is always NULL adds no key.
            (Some(known), None) if facts.range.is_empty() && facts.nullable => Some(known),
            _ => None,
        };
    }
    all.keys = keys.map(|values| KeySource::Values(Arc::new(values)));
    all
}

pub(crate) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether casts between these types have been reviewed. A time of the day is a text, and no
/// number.
pub(crate) fn may_cast(from: &DataType, to: &DataType) -> bool {
    let is_time_as_text = is_time(from) && is_string(to);
    is_time_as_text || (castable(from) && castable(to))
}

/// True for the times of the day that files and literals have.
pub(crate) fn is_time(data_type: &DataType) -> bool {
    *data_type == DataType::Time64(TimeUnit::Microsecond)
}

/// Whether casts of this type have been reviewed.
pub(crate) fn castable(data_type: &DataType) -> bool {
    is_string(data_type)
        || matches!(
            data_type,
            DataType::Null | DataType::Boolean | DataType::Date32 | DataType::Timestamp(_, None)
        )
        || match data_type {
            // Casts of decimals with a negative scale fail on some rows.
            DataType::Decimal128(_, scale) => *scale >= 0,
            DataType::Decimal256(..) | DataType::Float16 => false,
            other => other.is_numeric(),
        }
}

/// True if date functions of this type have been reviewed. Types with a time zone are excluded,
/// because time zones can have gaps.
pub(crate) fn is_temporal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(_, None))
}

/// Whether every value of `from` can be represented in `to`.
pub(crate) fn widens(from: &DataType, to: &DataType) -> bool {
    from == to
        || (is_string(from) && is_string(to))
        || (from.is_integer() && to.is_floating())
        || match (type_range(from), type_range(to)) {
            (Some(from_range), Some(to_range)) => {
                from.is_integer() && to.is_integer() && from_range.is_within(&to_range)
            }
            _ => false,
        }
}

/// The unit of a decimal type's last digit; 1 for all other types.
pub(crate) fn unit_of(data_type: &DataType) -> Rational {
    match data_type {
        DataType::Decimal128(_, scale) => decimal_unit(*scale),
        _ => Rational::from_integer(1.into()),
    }
}
