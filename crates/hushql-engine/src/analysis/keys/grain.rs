//! The part of a moment on which an expression depends: its day, its hour, its minute or its
//! second.
//!
//! In: an expression over a column of dates or timestamps. Out: its [`Grain`], and the cuts at
//! which comparisons with constants split the column: in each piece, the expression has one value
//! per period. A timestamp column has too many values to try each one, but only few days. In a
//! column of numbers, each number is a period of its own.
//!
//! ```text
//! date_trunc('month', ts)                     the day
//! EXTRACT(HOUR FROM ts) < 9                   the hour, on any day
//! CASE WHEN ts > … THEN … END                 nothing, on either side of the cut
//! ts::text                                    the whole moment: no grain
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use num_traits::ToPrimitive;

use super::cuts::{Cut, Values, cuts_of, cuts_of_base};
use crate::analysis::expr::facts::{constant, rational};
use crate::analysis::expr::periods::every_kind_of_year;
use crate::analysis::expr::shape::type_of;
use crate::functions::{
    Finest, LabelFormat, Stride, is_date_bin, is_date_label, temporal_limits, ticks_a_day,
};

/// The part of a moment on which an expression depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grain {
    /// The period within which the expression has one value, such as an hour. It is never longer
    /// than a day.
    finest: Finest,
    /// True if the expression treats two years alike whenever they have the same number of days and
    /// begin on the same weekday.
    is_cyclic: bool,
    /// True if it depends on the day.
    has_days: bool,
}

impl Grain {
    /// The grain of an expression that is the same on all moments.
    pub(crate) const NOTHING: Self = Self { finest: Finest::Day, is_cyclic: true, has_days: false };

    fn of(finest: Finest, is_cyclic: bool, has_days: bool) -> Self {
        Self { finest: finest.max(Finest::Day), is_cyclic, has_days }
    }

    /// The grain of two expressions together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            finest: self.finest.max(other.finest),
            is_cyclic: self.is_cyclic && other.is_cyclic,
            has_days: self.has_days || other.has_days,
        }
    }

    /// True if the values that are tried for this grain are also enough for the other one.
    pub(crate) fn decides(self, other: Self) -> bool {
        self.and(other) == self
    }

    /// True if the expression treats all similar years alike.
    pub(crate) fn is_cyclic(self) -> bool {
        self.is_cyclic
    }

    /// How many units of a type lie between two values that the expression can tell apart;
    /// `Some(None)` if it tells no values apart. `None` for types without such units.
    pub(crate) fn step(self, data_type: &DataType) -> Option<Option<i128>> {
        if self == Self::NOTHING {
            return Some(None);
        }
        let Some(a_day) = ticks_a_day(data_type) else { return Some(Some(1)) };
        // For a date, all times of day are the same.
        let step = (a_day / per_day(self.finest)).max(i64::from(*data_type == DataType::Date32));
        (step > 0).then(|| Some(step.into()))
    }

    /// A section of a piece of moments in which a recurring grain has all its values: a day, 28
    /// years, or 400 years. `None` if the grain does not recur.
    ///
    /// # Guarantee
    /// An expression of this grain has the same values in the section as in the piece, if it has
    /// one result per period of the piece.
    pub(crate) fn cycle(
        self,
        (lo, hi): (i128, i128),
        data_type: &DataType,
    ) -> Option<(i128, i128)> {
        /// The number of days after which the calendar repeats.
        const CENTURIES: i128 = 146_097;
        let a_day = i128::from(ticks_a_day(data_type).filter(|_| self.is_cyclic)?);
        if !self.has_days {
            return Some((lo, hi.min(lo + a_day)));
        }
        let (first, last) = every_kind_of_year();
        let (first, last) = (i128::from(first) * a_day, i128::from(last + 1) * a_day - 1);
        match lo <= first && last <= hi {
            true => Some((first, last)),
            false => Some((lo, hi.min(lo + CENTURIES * a_day))),
        }
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

/// The grain of an expression in the pieces between cuts. Adds the expression's cuts to `cuts`.
/// `None` if it depends on the whole moment, or in an unknown way.
///
/// # Guarantee
/// Between two neighbouring cuts, the expression has one value on all moments of a period.
pub(crate) fn grain_of(expr: &Expr, values: Values<'_>, cuts: &mut Vec<Cut>) -> Option<Grain> {
    if !expr.column_refs().contains(values.column) {
        return Some(Grain::NOTHING);
    }
    if let Some(found) = cuts_of(expr, values) {
        cuts.extend(found);
        return Some(Grain::NOTHING);
    }
    if is_moment(expr, values) {
        let own = type_of(&Expr::Column(values.column.clone()), values.schema).ok()?;
        return (own == DataType::Date32).then(|| Grain::of(Finest::Day, false, true));
    }
    if expr.try_as_col() == Some(values.column) {
        // Each number is a period of its own.
        return Some(Grain::of(Finest::Day, false, true));
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
        && *field.data_type() == DataType::Date32
        && is_moment(inner, values)
    {
        return Some(Grain::of(Finest::Day, false, true));
    }
    if let Expr::ScalarFunction(call) = expr
        && let Some(grain) = of_call(call, values)
    {
        return Some(grain);
    }
    if let Expr::Case(case) = expr
        && let Some(found) = cuts_of_base(case, values)
    {
        cuts.extend(found);
        let thens = case.when_then_expr.iter().map(|(_, then)| then);
        let mut results = thens.chain(&case.else_expr);
        return results
            .try_fold(Grain::NOTHING, |all, one| Some(all.and(grain_of(one, values, cuts)?)));
    }
    let mut grain = Some(Grain::NOTHING);
    let walked = expr.apply_children(|child| {
        grain = grain.zip(grain_of(child, values, cuts)).map(|(all, one)| all.and(one));
        Ok(if grain.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.ok().and(grain)
}

/// True if an expression is the column, possibly in a finer type.
fn is_moment(expr: &Expr, values: Values<'_>) -> bool {
    let local = |data_type: &DataType| temporal_limits(data_type).and(ticks_a_day(data_type));
    if let Expr::Alias(alias) = expr {
        return is_moment(&alias.expr, values);
    }
    if let Expr::Cast(Cast { expr: inner, field }) = expr {
        let from = type_of(inner, values.schema).ok();
        let ticks = from.as_ref().and_then(local).zip(local(field.data_type()));
        return ticks.is_some_and(|(own, finer)| finer % own == 0) && is_moment(inner, values);
    }
    expr.try_as_col() == Some(values.column)
        && type_of(expr, values.schema).is_ok_and(|own| local(&own).is_some())
}

/// The grain of a function of moments.
fn of_call(call: &ScalarFunction, values: Values<'_>) -> Option<Grain> {
    let literal = |expr: &Expr| {
        let Expr::Literal(value, _) = expr else { return None };
        Some(value.clone())
    };
    match (call.func.name(), call.args.as_slice()) {
        ("date_part", [part, x]) if is_moment(x, values) => {
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
        ("date_trunc", [part, x]) if is_moment(x, values) => {
            let finest = match text_of(part)?.as_str() {
                "year" | "quarter" | "month" | "week" | "day" => Finest::Day,
                "hour" => Finest::Hour,
                "minute" => Finest::Minute,
                "second" => Finest::Second,
                _ => return None,
            };
            Some(Grain::of(finest, false, true))
        }
        (name, [x, format]) if is_date_label(&call.func) && is_moment(x, values) => {
            let format = LabelFormat::parse(name, &literal(format)?)?;
            Some(Grain::of(format.finest(), format.is_cyclic(), format.has_days()))
        }
        (_, [stride, x, origin @ ..]) if is_date_bin(&call.func) && is_moment(x, values) => {
            let data_type = type_of(x, values.schema).ok()?;
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
    use datafusion::common::{Column, DFSchema};
    use datafusion::functions::expr_fn::{date_part, date_trunc};
    use datafusion::logical_expr::{cast, col, lit, not};

    use super::*;

    const SECONDS: DataType = DataType::Timestamp(TimeUnit::Second, None);

    fn seconds(text: &str) -> Expr {
        lit(ScalarValue::Utf8(Some(text.to_owned())).cast_to(&SECONDS).unwrap())
    }

    fn asked(expr: &Expr) -> (Option<Grain>, usize) {
        let fields = vec![Field::new("ts", SECONDS, true), Field::new("x", DataType::Int64, true)];
        let schema = Arc::new(DFSchema::try_from(Schema::new(fields)).unwrap());
        let column = Column::from_name("ts");
        let values = Values { column: &column, schema: &schema };
        let mut cuts = Vec::new();
        let grain = grain_of(expr, values, &mut cuts);
        (grain, cuts.len())
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
        let whole = (-719_162 * 86_400, 2_932_897 * 86_400 - 1);
        let cycle = |expr: &Expr, piece| asked(expr).0.unwrap().cycle(piece, &SECONDS);
        // Years differ from each other, so they have no cycle.
        assert_eq!(cycle(&date_part(lit("year"), col("ts")), whole), None);
        let month = date_part(lit("month"), col("ts"));
        let (lo, hi) = cycle(&month, whole).unwrap();
        assert_eq!(hi + 1 - lo, (28 * 365 + 7) * 86_400);
        assert_eq!(cycle(&month, (5, 86_400)), Some((5, 86_400)));
        let since_2001 = 978_307_200;
        let centuries = (since_2001, since_2001 + 146_097 * 86_400);
        assert_eq!(cycle(&month, (since_2001, whole.1)), Some(centuries));
        let hour = date_part(lit("hour"), col("ts"));
        assert_eq!(cycle(&hour, (5, whole.1)), Some((5, 86_405)));
    }

    #[test]
    fn comparisons_cut_and_need_no_grain() {
        let nothing = Some(Grain::NOTHING);
        let evening = || col("ts").gt_eq(seconds("2025-11-30T18:00:00"));
        let day = || cast(col("ts"), DataType::Date32);
        for (condition, grain) in [
            (col("ts").lt(seconds("2025-11-30T18:30:07")), (nothing, 1)),
            (col("ts").eq(seconds("2025-11-30T18:30:07")), (nothing, 1)),
            (not(evening()).or(col("x").eq(lit(1))), (nothing, 1)),
            (evening().is_not_true().and(col("ts").is_null()), (nothing, 2)),
            (col("ts").in_list(vec![seconds("2025-11-30T18:30:07"); 3], true), (nothing, 3)),
            (
                col("ts").between(seconds("2025-11-30T00:00:00"), seconds("2025-12-01T00:00:00")),
                (nothing, 2),
            ),
            (date_part(lit("year"), col("ts")).eq(lit(2024)), (nothing, 1)),
            (
                date_trunc(lit("month"), col("ts")).lt_eq(seconds("2025-11-30T00:00:00")),
                (nothing, 1),
            ),
            (
                date_part(lit("month"), col("ts")).eq(lit(3)),
                (Some(Grain::of(Finest::Day, true, true)), 0),
            ),
            (day().eq(day()), (Some(Grain::of(Finest::Day, false, true)), 0)),
            (col("ts").eq(col("ts")), (None, 0)),
        ] {
            assert_eq!(asked(&condition), grain, "{condition}");
        }
    }
}
