//! The facts about a column at one point of a plan: its range, its keys, and whether it is the
//! privacy unit.
//!
//! In: declared domains, literals, predicates. Out: [`Facts`] about every column of a [`Scope`].
//! Numbers, dates (in days) and timestamps (in ticks of their type) have ranges; all other types
//! have the unbounded range. A range describes values that are neither NULL nor NaN.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchemaRef, ExprSchema, ScalarValue};
use datafusion::logical_expr::expr::{Between, Cast, InList, Like};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use num_bigint::BigInt;
use num_traits::One;

use super::interval::Interval;
use crate::functions::{
    LAST_MICROSECOND, cast_value, moved_constant, temporal_limits, ticks_a_day,
};
use crate::grid::Grid;
use crate::privacy::Rational;
use crate::ticks::Ticks;

/// The distinct values by which a column can be grouped, in the order of the domain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KeySource {
    /// Listed values.
    Values(Arc<Vec<ScalarValue>>),
    /// All integers (or days) of an interval.
    Integers(i64, i64),
    /// The ticks of a stepped domain.
    Ticks(Ticks),
}

/// What is known about one column or expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// The range of its values on the rows that pass the filters so far. It follows from
    /// declarations and the query; the width of a numeric type does not narrow it. Releases are
    /// scaled to this range.
    pub(crate) range: Interval,
    /// The range of its values on all rows, including what follows from the type. Proofs that an
    /// expression never fails use this range, because an optimizer may evaluate the expression
    /// before a filter.
    pub(crate) always: Interval,
    /// Whether it may be NULL.
    pub(crate) nullable: bool,
    /// The keys for grouping by it, if they are public.
    pub(crate) keys: Option<KeySource>,
    /// True if NULL is one of its keys: the owner listed NULL for a column that the value comes
    /// from, or the query itself makes it NULL. This is public, and no bound relies on it.
    pub(crate) null_key: bool,
    /// True if it is the unchanged privacy unit.
    pub(crate) is_unit: bool,
}

impl Facts {
    /// Facts that consist of a range alone.
    pub(crate) fn ranged(range: Interval, nullable: bool) -> Self {
        Self { always: range.clone(), range, nullable, keys: None, null_key: false, is_unit: false }
    }

    /// The widest facts of a type: all values that it can hold. A numeric type gives no range.
    /// Dates have the range that every scan enforces.
    pub(crate) fn of_type(data_type: &DataType) -> Self {
        let always = type_range(data_type).unwrap_or_else(Interval::everything);
        let range = if data_type.is_numeric() { Interval::everything() } else { always.clone() };
        let mut facts = Self { always, ..Self::ranged(range, true) };
        if *data_type == DataType::Boolean {
            let both = [false, true].map(|b| ScalarValue::Boolean(Some(b)));
            facts.keys = Some(KeySource::Values(Arc::new(both.to_vec())));
        }
        facts
    }

    /// The range of its values on the rows that pass the filters so far, including what follows
    /// from the type. It serves proofs that these rows do not overflow, and never a release.
    ///
    /// # Guarantee
    /// Every such value lies in this range.
    pub(crate) fn known(&self) -> Interval {
        self.range.intersect(&self.always)
    }

    /// The facts of a literal.
    pub(crate) fn of_literal(value: &ScalarValue) -> Self {
        let mut facts = match rational(value) {
            Some(point) => Self::ranged(Interval::point(point), false),
            None if value.is_null() => Self::ranged(Interval::empty(), true),
            None => Self::of_type(&value.data_type()),
        };
        if !value.is_null() {
            facts.keys = Some(KeySource::Values(Arc::new(vec![value.clone()])));
        }
        // NaN is NULL wherever a value is read.
        facts.nullable = value.is_null() || is_nan(value);
        facts.null_key = value.is_null();
        facts
    }
}

/// True if a constant is not a number.
fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(x)) => x.is_nan(),
        ScalarValue::Float32(Some(x)) => x.is_nan(),
        ScalarValue::Float16(Some(x)) => x.is_nan(),
        _ => false,
    }
}

/// The columns that an expression can use, and their facts.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) schema: DFSchemaRef,
    pub(crate) facts: Vec<Facts>,
    /// Conditions of the query over these columns; they hold on every row.
    pub(crate) conditions: Vec<Expr>,
}

impl Scope {
    /// A scope with these columns and facts, and without conditions.
    pub(crate) fn new(schema: DFSchemaRef, facts: Vec<Facts>) -> Self {
        Self { schema, facts, conditions: Vec::new() }
    }

    /// Another scope, with the conditions of this one that can be expressed in the other's columns.
    ///
    /// # Guarantee
    /// The caller guarantees that each row of `to` comes from a row of this scope. For a column of
    /// this scope, `place` returns a column of `to` that has the same value on every row.
    pub(crate) fn restated(&self, to: Self, place: impl Fn(&Column) -> Option<usize>) -> Self {
        let columns = to.schema.columns();
        let restate = |condition: &Expr| {
            let mut complete = true;
            let restated = condition.clone().transform_up(|part| {
                let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
                let there = place(column).and_then(|i| columns.get(i).cloned());
                complete &= there.is_some();
                Ok(there.map_or(Transformed::no(part), |c| Transformed::yes(Expr::Column(c))))
            });
            restated.ok().filter(|_| complete).map(|restated| restated.data)
        };
        let conditions = self.conditions.iter().filter_map(restate).collect();
        Self { conditions, ..to }
    }

    /// The facts of a column, if it is in scope.
    pub(crate) fn facts_of(&self, column: &Column) -> Option<&Facts> {
        self.facts.get(self.schema.index_of_column(column).ok()?)
    }

    /// This scope on the rows where a predicate holds.
    ///
    /// # Guarantee
    /// Every row that satisfies `predicate` has its values inside the narrowed ranges and meets the
    /// conditions. Only comparisons of a bare column, or of a column cast to a wider type, with
    /// literals narrow it; all other conditions are ignored.
    pub(crate) fn narrowed(&self, predicate: &Expr) -> Self {
        let mut narrowed = self.clone();
        for conjunct in split_conjunction(predicate) {
            if let Some((column, interval)) = implied(conjunct, &self.schema)
                && let Ok(index) = self.schema.index_of_column(column)
                && let Some(facts) = narrowed.facts.get_mut(index)
            {
                facts.range = facts.range.intersect(&interval);
                facts.null_key = false;
            }
            narrowed.conditions.push(conjunct.clone());
        }
        for column in never_null(predicate) {
            let index = self.schema.index_of_column(column);
            if let Some(facts) = index.ok().and_then(|i| narrowed.facts.get_mut(i)) {
                facts.null_key = false;
            }
        }
        narrowed
    }
}

/// True if a type holds all values that an enforced column of another type can have, in the same
/// order.
pub(crate) fn holds_exactly(wider: &DataType, own: &DataType) -> bool {
    // A finer unit rounds no moment. A time zone would shift moments, so it is excluded.
    if let (true, Some(ticks), Some(finer)) =
        (is_local(own) && is_local(wider), ticks_a_day(own), ticks_a_day(wider))
    {
        let unit = Rational::from_integer((finer / ticks).into());
        let ranges = type_range(own).zip(type_range(wider));
        // Nanoseconds end in 2261.
        let holds = ranges.is_some_and(|(own, wider)| own.scale(&unit).is_within(&wider));
        return finer % ticks == 0 && holds;
    }
    let fits = |range: Interval| {
        own.is_integer() && type_range(own).is_some_and(|values| values.is_within(&range))
    };
    match wider {
        // Up to 2⁵³, floats represent every integer.
        DataType::Float64 => {
            *own == DataType::Float32 || fits(Interval::integer_range(-(1_i64 << 53), 1_i64 << 53))
        }
        whole if whole.is_integer() => type_range(whole).is_some_and(fits),
        DataType::Decimal128(digits, scale) | DataType::Decimal256(digits, scale) => match own {
            DataType::Decimal128(fewer, own) => {
                let before = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
                own <= scale && before(*fewer, *own) <= before(*digits, *scale)
            }
            _ => *scale >= 0 && fits(of_digits(*digits, *scale)),
        },
        _ => false,
    }
}

/// The column that an expression is, or casts to a wider type; and how many units of the wider type
/// one unit of the column has.
pub(crate) fn same_column<'a>(
    expr: &'a Expr,
    schema: &DFSchemaRef,
) -> Option<(&'a Column, Rational)> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else {
        return expr.try_as_col().map(|column| (column, Rational::one()));
    };
    let column = inner.try_as_col()?;
    let from = schema.field_from_column(column).ok()?.data_type();
    let wider = field.data_type();
    // A finer unit rounds no moment. A time zone would shift moments, so it is excluded.
    let moments = is_local(from) && is_local(wider);
    if let (true, Some(own), Some(finer)) = (moments, ticks_a_day(from), ticks_a_day(wider)) {
        return (finer % own == 0).then(|| (column, Rational::from_integer((finer / own).into())));
    }
    let exact = (from.is_integer() || from.is_decimal()) && holds_exactly(wider, from);
    exact.then(|| (column, Rational::one()))
}

/// The interval to which a comparison with literals restricts its column.
fn implied<'a>(conjunct: &'a Expr, schema: &DFSchemaRef) -> Option<(&'a Column, Interval)> {
    match conjunct {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let ((column, unit), op, literal) = match same_column(left, schema) {
                Some(column) => (column, *op, constant(right)?),
                None => (same_column(right, schema)?, op.swap()?, constant(left)?),
            };
            let point = rational(&literal)? / unit;
            let field = schema.field_from_column(column).ok()?;
            let below = |strict: bool| {
                let bound = if strict && is_discrete(field.data_type()) {
                    point.ceil() - Rational::one()
                } else {
                    point.clone()
                };
                Interval::everything().below(&bound)
            };
            let above = |strict: bool| {
                let bound = if strict && is_discrete(field.data_type()) {
                    point.floor() + Rational::one()
                } else {
                    point.clone()
                };
                Interval::everything().above(&bound)
            };
            let interval = match op {
                Operator::Eq => Interval::point(point),
                Operator::Lt => below(true),
                Operator::LtEq => below(false),
                Operator::Gt => above(true),
                Operator::GtEq => above(false),
                _ => return None,
            };
            Some((column, interval))
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let (column, unit) = same_column(expr, schema)?;
            let (low, high) = (rational(&constant(low)?)?, rational(&constant(high)?)?);
            Some((column, Interval::between(low / &unit, high / &unit)))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let (column, unit) = same_column(expr, schema)?;
            let mut hull = Interval::empty();
            for item in list {
                hull = hull.union(&Interval::point(rational(&constant(item)?)? / &unit));
            }
            Some((column, hull))
        }
        _ => None,
    }
}

/// The columns that cannot be NULL on a row where a predicate holds.
///
/// # Guarantee
/// Uses only conditions that are NULL, and so do not hold, if the column is NULL. Other conditions
/// are ignored.
pub(crate) fn never_null(predicate: &Expr) -> Vec<&Column> {
    let mut columns = Vec::new();
    for conjunct in split_conjunction(predicate) {
        if let Expr::IsNotNull(operand)
        | Expr::Between(Between { expr: operand, .. })
        | Expr::InList(InList { expr: operand, .. })
        | Expr::Like(Like { expr: operand, .. }) = conjunct
        {
            columns.extend(operand.try_as_col());
        }
        if let Expr::BinaryExpr(BinaryExpr {
            left,
            op:
                Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq,
            right,
        }) = conjunct
        {
            columns.extend([left, right].into_iter().filter_map(|side| side.try_as_col()));
        }
    }
    columns
}

/// The value of a literal, of a cast of a literal (`DATE '2025-01-01'`), and of a date plus or
/// minus an interval.
pub(crate) fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(cast) => cast_value(&constant(&cast.expr)?, cast.field.data_type()).ok(),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            moved_constant(&constant(left)?, *op, &constant(right)?)
        }
        _ => None,
    }
}

/// True if neighbouring values of a type differ by one unit of its range.
pub(crate) fn is_discrete(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(TimeUnit::Microsecond)
        )
}

/// True if a type has no time zone.
fn is_local(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// All values that a supported numeric or temporal type can hold. The scan restricts temporal
/// values to this range.
pub(crate) fn type_range(data_type: &DataType) -> Option<Interval> {
    let integers = |lo: i128, hi: i128| Some(Interval::integer_range(lo, hi));
    match data_type {
        DataType::Int8 => integers(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => integers(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => integers(i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => integers(i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => integers(0, u8::MAX.into()),
        DataType::UInt16 => integers(0, u16::MAX.into()),
        DataType::UInt32 => integers(0, u32::MAX.into()),
        DataType::UInt64 => integers(0, u64::MAX.into()),
        DataType::Decimal128(precision, scale) => Some(of_digits(*precision, *scale)),
        DataType::Date32 | DataType::Timestamp(..) => {
            let (lo, hi) = temporal_limits(data_type)?;
            integers(lo.into(), hi.into())
        }
        DataType::Time64(TimeUnit::Microsecond) => integers(0, LAST_MICROSECOND.into()),
        _ => None,
    }
}

/// The decimals with `precision` digits, `scale` of them after the point.
fn of_digits(precision: u8, scale: i8) -> Interval {
    let most: BigInt = BigInt::from(10).pow(u32::from(precision)) - 1;
    Interval::integer_range(-most.clone(), most).scale(&decimal_unit(scale))
}

/// 10^−scale.
pub(crate) fn decimal_unit(scale: i8) -> Rational {
    let power = BigInt::from(10).pow(u32::from(scale.unsigned_abs()));
    if scale < 0 { Rational::from_integer(power) } else { Rational::new(BigInt::one(), power) }
}

/// The exact value of a numeric or temporal literal; `None` for NULL, NaN, infinities and other
/// types.
pub(crate) fn rational(value: &ScalarValue) -> Option<Rational> {
    let integer = |v: i128| Some(Rational::from_integer(BigInt::from(v)));
    match value {
        ScalarValue::Int8(Some(v)) => integer((*v).into()),
        ScalarValue::Int16(Some(v)) => integer((*v).into()),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => integer((*v).into()),
        ScalarValue::Int64(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _)
        | ScalarValue::Time64Microsecond(Some(v)) => integer((*v).into()),
        ScalarValue::UInt8(Some(v)) => integer((*v).into()),
        ScalarValue::UInt16(Some(v)) => integer((*v).into()),
        ScalarValue::UInt32(Some(v)) => integer((*v).into()),
        ScalarValue::UInt64(Some(v)) => integer((*v).into()),
        ScalarValue::Float32(Some(v)) => Rational::from_float(*v),
        ScalarValue::Float64(Some(v)) => Rational::from_float(*v),
        ScalarValue::Decimal128(Some(v), _, scale) => {
            integer(*v).map(|unscaled| unscaled * decimal_unit(*scale))
        }
        ScalarValue::Decimal256(Some(v), _, scale) => {
            let unscaled = BigInt::from_signed_bytes_le(&v.to_le_bytes());
            Some(Rational::from_integer(unscaled) * decimal_unit(*scale))
        }
        _ => None,
    }
}

/// The value of one step of a grid.
pub(crate) fn grid_unit(grid: Grid) -> Rational {
    match grid {
        Grid::Integer => Rational::one(),
        Grid::Decimal { scale } => decimal_unit(scale),
        Grid::Binary { log2 } => {
            let power = Rational::from_integer(BigInt::one() << log2.unsigned_abs());
            if log2 < 0 { power } else { power.recip() }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    /// A condition on a decimal narrows its range only if the cast in the comparison keeps every
    /// digit. A cast to fewer places turns 17.014 into 17.01.
    #[test]
    fn conditions_narrow_decimals_of_which_no_digit_is_lost() {
        let own = DataType::Decimal128(5, 3);
        let schema = Schema::new(vec![Field::new("m", own.clone(), true)]);
        let schema = Arc::new(DFSchema::try_from(schema).unwrap());
        let scope = Scope::new(schema, vec![Facts::of_type(&own)]);
        let number = |text: &str| crate::privacy::parse_decimal(text).unwrap();
        let narrowed = |to: DataType| {
            let literal = ScalarValue::Utf8(Some("17.01".to_owned()));
            let literal = Expr::Cast(Cast::new(Box::new(lit(literal)), to.clone()));
            let column = Expr::Cast(Cast::new(Box::new(col("m")), to));
            let facts = scope.narrowed(&column.lt_eq(literal)).facts;
            facts[0].range.contains(&number("17.014"))
        };
        for (precision, scale) in [(5, 3), (9, 4), (38, 20)] {
            assert!(!narrowed(DataType::Decimal128(precision, scale)), "{precision} {scale}");
        }
        assert!(!narrowed(DataType::Decimal256(60, 30)));
        for (precision, scale) in [(4, 2), (10, 2), (4, 3), (38, 2)] {
            assert!(narrowed(DataType::Decimal128(precision, scale)), "{precision} {scale}");
        }
        assert!(narrowed(DataType::Float64));
    }

    #[test]
    fn long_decimals_are_exact() {
        let unscaled = arrow::datatypes::i256::from_i128(-i128::MAX);
        let wide = ScalarValue::Decimal256(Some(unscaled), 60, 2);
        let exact = Rational::new((-i128::MAX).into(), 100.into());
        assert_eq!(rational(&wide), Some(exact));
    }
}
