//! On what of a moment an expression depends: its day, its hour, its minute or its second.
//!
//! In: an expression over a column of dates or timestamps. Out: its [`Grain`], and moments among which there is one for each
//! value that the expression has. Columns of timestamps have too many values to try each; of their days, there are few.
//!
//! ```text
//! date_trunc('month', ts)                     the day
//! EXTRACT(HOUR FROM ts) < 9                   the hour; of every day the same
//! CASE WHEN ts::date > … THEN … END           the day
//! ts::text                                    the moment itself: no grain
//! ```

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::logical_expr::expr::{Between, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::analysis::expr::facts::{Facts, constant, rational};
use crate::analysis::expr::periods::{begins, begins_in_cycle};
use crate::analysis::expr::shape::type_of;
use crate::functions::{
    Finest, LabelFormat, Stride, is_date_bin, is_date_label, temporal_limits, ticks_a_day,
};
use crate::privacy::Rational;

/// On what of a moment an expression depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grain {
    /// The shortest period such that it is the same on all moments of one. None is longer than a day.
    finest: Finest,
    /// Whether one year is like every other with as many days that begins on the same weekday.
    is_cyclic: bool,
    /// Whether it depends on the day.
    has_days: bool,
}

/// A column, and what it is compared in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments<'a> {
    pub(crate) column: &'a Column,
    pub(crate) schema: &'a DFSchemaRef,
}

impl Grain {
    /// That of an expression without the column.
    const NOTHING: Self = Self { finest: Finest::Day, is_cyclic: true, has_days: false };

    fn of(finest: Finest, is_cyclic: bool, has_days: bool) -> Self {
        Self { finest: finest.max(Finest::Day), is_cyclic, has_days }
    }

    /// That of two expressions together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            finest: self.finest.max(other.finest),
            is_cyclic: self.is_cyclic && other.is_cyclic,
            has_days: self.has_days || other.has_days,
        }
    }

    /// Whether moments that tell everything of this grain tell all of the other one.
    pub(crate) fn decides(self, other: Self) -> bool {
        self.and(other) == self
    }

    /// Whether it is the same in every year.
    pub(crate) fn is_cyclic(self) -> bool {
        self.is_cyclic
    }

    /// Moments of this type and in the range of x; where nobody declared one and every year is alike, those of 28 years, or of one
    /// day. `None` for too many.
    ///
    /// # Guarantee
    /// Whatever has this grain has one of its values on these moments wherever it has it on a moment of the range. Each moment is
    /// the first one of its period in the range.
    pub(crate) fn moments(self, x: &Facts, data_type: &DataType, most: usize) -> Option<ArrayRef> {
        let step = ticks_a_day(data_type)? / per_day(self.finest);
        // Of a date, the parts of a day are always the same.
        let step = if *data_type == DataType::Date32 { step.max(1) } else { step };
        let most = i64::try_from(most).ok()?;
        let in_cycle = || begins_in_cycle(self.has_days, step, data_type, most);
        begins(x, step, data_type, most).or_else(|| self.is_cyclic.then(in_cycle).flatten())
    }
}

fn per_day(finest: Finest) -> i64 {
    match finest {
        Finest::Year | Finest::Quarter | Finest::Month | Finest::Week | Finest::Day => 1,
        Finest::Hour => 24,
        Finest::Minute => 1_440,
        Finest::Second => 86_400,
    }
}

/// The grain of an expression; `None` if it depends on the moment itself, or in a way that is not known.
pub(crate) fn grain_of(expr: &Expr, moments: Moments<'_>) -> Option<Grain> {
    if !expr.column_refs().contains(moments.column) {
        return Some(Grain::NOTHING);
    }
    if is_moment(expr, moments) {
        let own = type_of(&Expr::Column(moments.column.clone()), moments.schema).ok()?;
        return (own == DataType::Date32).then(|| Grain::of(Finest::Day, false, true));
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
        && *field.data_type() == DataType::Date32
        && is_moment(inner, moments)
    {
        return Some(Grain::of(Finest::Day, false, true));
    }
    if let Expr::ScalarFunction(call) = expr
        && let Some(grain) = of_call(call, moments)
    {
        return Some(grain);
    }
    let mut grain = Some(Grain::NOTHING);
    let walked = expr.apply_children(|child| {
        grain = grain.zip(grain_of(child, moments)).map(|(all, one)| all.and(one));
        Ok(if grain.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.ok().and(grain)
}

/// The grain that moments must have so that a condition is true on the first moment of a period if it is true on one of them;
/// `None` if no grain is known to suffice.
///
/// # Guarantee
/// No moment on which the condition holds lies in a period of this grain on whose first moment it does not hold.
pub(crate) fn grain_of_condition(condition: &Expr, moments: Moments<'_>) -> Option<Grain> {
    if let Some(grain) = grain_of(condition, moments) {
        return Some(grain);
    }
    if let Expr::Between(Between { expr, negated: false, low, high }) = condition {
        let is_between = is_moment(expr, moments) && constant(high).is_some();
        return is_between.then(|| compared(expr, Operator::GtEq, low, moments)).flatten();
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    if matches!(op, Operator::And | Operator::Or) {
        let side = |one: &Expr| grain_of_condition(one, moments);
        return Some(side(left)?.and(side(right)?));
    }
    match (is_moment(left, moments), is_moment(right, moments)) {
        (true, false) => compared(left, *op, right, moments),
        (false, true) => compared(right, op.swap()?, left, moments),
        (true, true) | (false, false) => None,
    }
}

/// The grain of a comparison of a moment with a constant: the first moment of a period is before the constant if any of it is; it
/// is after one where a period begins there.
fn compared(moment: &Expr, op: Operator, other: &Expr, moments: Moments<'_>) -> Option<Grain> {
    let literal = constant(other)?;
    let a_day = |data_type: &DataType| Some(Rational::from_integer(ticks_a_day(data_type)?.into()));
    let days = rational(&literal)? / a_day(&literal.data_type())?;
    let tick = a_day(&type_of(moment, moments.schema).ok()?)?.recip();
    let first = match op {
        Operator::Lt | Operator::LtEq => return Some(Grain::of(Finest::Day, false, true)),
        Operator::GtEq => days,
        Operator::Gt => days + tick,
        _ => return None,
    };
    let begins = |finest: &Finest| {
        (&first * Rational::from_integer(BigInt::from(per_day(*finest)))).is_integer()
    };
    let finest = [Finest::Day, Finest::Hour, Finest::Minute, Finest::Second];
    finest.into_iter().find(begins).map(|finest| Grain::of(finest, false, true))
}

/// Whether an expression is the column, perhaps in a finer type.
fn is_moment(expr: &Expr, moments: Moments<'_>) -> bool {
    let local = |data_type: &DataType| temporal_limits(data_type).and(ticks_a_day(data_type));
    if let Expr::Alias(alias) = expr {
        return is_moment(&alias.expr, moments);
    }
    if let Expr::Cast(Cast { expr: inner, field }) = expr {
        let from = type_of(inner, moments.schema).ok();
        let ticks = from.as_ref().and_then(local).zip(local(field.data_type()));
        return ticks.is_some_and(|(own, finer)| finer % own == 0) && is_moment(inner, moments);
    }
    expr.try_as_col() == Some(moments.column)
        && type_of(expr, moments.schema).is_ok_and(|own| local(&own).is_some())
}

/// The grain of a function of moments.
fn of_call(call: &ScalarFunction, moments: Moments<'_>) -> Option<Grain> {
    let literal = |expr: &Expr| {
        let Expr::Literal(value, _) = expr else { return None };
        Some(value.clone())
    };
    match (call.func.name(), call.args.as_slice()) {
        ("date_part", [part, x]) if is_moment(x, moments) => {
            let (finest, is_cyclic, has_days) = match text_of(part)?.as_str() {
                "year" => (Finest::Year, false, true),
                "quarter" | "month" | "week" | "day" | "doy" | "dow" => (Finest::Day, true, true),
                "hour" => (Finest::Hour, true, false),
                "minute" => (Finest::Minute, true, false),
                "second" => (Finest::Second, true, false),
                _ => return None,
            };
            Some(Grain::of(finest, is_cyclic, has_days))
        }
        ("date_trunc", [part, x]) if is_moment(x, moments) => {
            let finest = match text_of(part)?.as_str() {
                "year" | "quarter" | "month" | "week" | "day" => Finest::Day,
                "hour" => Finest::Hour,
                "minute" => Finest::Minute,
                "second" => Finest::Second,
                _ => return None,
            };
            Some(Grain::of(finest, false, true))
        }
        (name, [x, format]) if is_date_label(&call.func) && is_moment(x, moments) => {
            let format = LabelFormat::parse(name, &literal(format)?)?;
            Some(Grain::of(format.finest(), format.is_cyclic(), format.has_days()))
        }
        (_, [stride, x, origin @ ..]) if is_date_bin(&call.func) && is_moment(x, moments) => {
            let data_type = type_of(x, moments.schema).ok()?;
            let origin = match origin {
                [] => 0,
                [one] => ticks_of(&constant(one)?.cast_to(&data_type).ok()?)?,
                _ => return None,
            };
            let a_day = ticks_a_day(&data_type)?;
            let length = match Stride::from_interval(&literal(stride)?, &data_type)? {
                Stride::Months(_) => a_day,
                Stride::Ticks(ticks) => ticks,
            };
            let finest = [Finest::Day, Finest::Hour, Finest::Minute, Finest::Second];
            let fits = |finest: &Finest| {
                let step = a_day / per_day(*finest);
                step > 0 && length % step == 0 && origin % step == 0
            };
            finest.into_iter().find(fits).map(|finest| Grain::of(finest, false, true))
        }
        _ => None,
    }
}

fn ticks_of(moment: &ScalarValue) -> Option<i64> {
    rational(moment)?.to_integer().to_i64()
}

/// A literal text in lower case.
fn text_of(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = expr else { return None };
    Some(value.try_as_str()??.to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Schema, TimeUnit};
    use datafusion::common::DFSchema;
    use datafusion::functions::expr_fn::{date_part, date_trunc};
    use datafusion::logical_expr::{cast, col, lit, not};

    use super::*;

    const SECONDS: DataType = DataType::Timestamp(TimeUnit::Second, None);

    fn seconds(text: &str) -> Expr {
        lit(ScalarValue::Utf8(Some(text.to_owned())).cast_to(&SECONDS).unwrap())
    }

    fn asked(expr: &Expr) -> (Option<Grain>, Option<Grain>) {
        let fields = vec![Field::new("ts", SECONDS, true), Field::new("x", DataType::Int64, true)];
        let schema = Arc::new(DFSchema::try_from(Schema::new(fields)).unwrap());
        let column = Column::from_name("ts");
        let moments = Moments { column: &column, schema: &schema };
        (grain_of(expr, moments), grain_of_condition(expr, moments))
    }

    #[test]
    fn an_expression_depends_on_no_more_than_its_grain() {
        let (day, hour) = (Finest::Day, Finest::Hour);
        for (expr, grain) in [
            (date_part(lit("year"), col("ts")), Some(Grain::of(day, false, true))),
            (date_part(lit("MONTH"), col("ts")), Some(Grain::of(day, true, true))),
            (date_part(lit("hour"), col("ts")) + col("x"), Some(Grain::of(hour, true, false))),
            (date_trunc(lit("week"), col("ts")), Some(Grain::of(day, false, true))),
            (date_trunc(lit("hour"), col("ts")), Some(Grain::of(hour, false, true))),
            (cast(col("ts"), DataType::Date32), Some(Grain::of(day, false, true))),
            (col("x") + lit(1), Some(Grain::NOTHING)),
            (cast(col("ts"), DataType::Utf8), None),
            (date_part(lit("microsecond"), col("ts")), None),
            (col("ts"), None),
        ] {
            assert_eq!(asked(&expr).0, grain, "{expr}");
        }
        // Years that are not alike are no cycle.
        let year = asked(&date_part(lit("year"), col("ts"))).0.unwrap();
        assert!(year.moments(&Facts::of_type(&SECONDS), &SECONDS, 1_000_000).is_none());
        let month = asked(&date_part(lit("month"), col("ts"))).0.unwrap();
        let moments = month.moments(&Facts::of_type(&SECONDS), &SECONDS, 1_000_000).unwrap();
        assert_eq!(moments.len(), 28 * 365 + 7);
    }

    #[test]
    fn a_condition_begins_where_a_period_does() {
        let (day, second) = (Finest::Day, Finest::Second);
        let evening = || col("ts").gt_eq(seconds("2025-11-30T18:00:00"));
        for (condition, grain) in [
            (col("ts").lt(seconds("2025-11-30T18:30:07")), Some(Grain::of(day, false, true))),
            (col("ts").gt_eq(seconds("2025-11-30T00:00:00")), Some(Grain::of(day, false, true))),
            (col("ts").gt(seconds("2025-11-29T23:59:59")), Some(Grain::of(day, false, true))),
            (col("ts").gt(seconds("2025-11-30T00:00:00")), Some(Grain::of(second, false, true))),
            (evening(), Some(Grain::of(Finest::Hour, false, true))),
            (evening().or(col("x").eq(lit(1))), Some(Grain::of(Finest::Hour, false, true))),
            (not(evening()), None),
            (col("ts").eq(seconds("2025-11-30T18:00:00")), None),
        ] {
            assert_eq!(asked(&condition).1, grain, "{condition}");
        }
    }
}
