//! Below a release: statistics of two columns over one unit's rows, and quantiles.
//!
//! In: a per-unit aggregate with two arguments. Out: an [`Inner`]. Both columns are moved to the
//! middle of their ranges and rounded to steps of a grid of less than 2⁻³⁷ of the range. The sums
//! of the steps, those of their products and the differences of both are whole numbers without
//! rounding, so that nothing cancels, and the result depends on no order. Rows on which one of the
//! columns is NULL do not count.
//!
//! ```text
//! CORR(x, y)      (nΣxy − ΣxΣy) / √((nΣx² − (Σx)²)(nΣy² − (Σy)²)), or NULL where a column has one value
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::math::expr_fn::sqrt;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::expr::TryCast;
use datafusion::logical_expr::{Expr, lit};
use num_traits::ToPrimitive;

use super::float_grid::{FloatGrid, clamped, ends, grid_of, moment, no_grid};
use super::relation::PrivateRelation;
use super::unit_aggregates::{Inner, InnerCall, asked, of_one, only, unknown, with_filter};
use crate::analysis::expr::facts::Facts;
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::Total;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::dialect::{AggregateName, Joint};
use crate::functions::without_nan;
use crate::privacy::Rational;
use crate::refusal::Refusal;

/// The aggregates that are exact functions of a multiset of rows.
pub(super) fn inner(
    call: &Expr,
    flow: &PrivateRelation,
    rows: Option<u64>,
) -> Result<Inner, NotAnalyzed> {
    let asked = asked(call, flow, rows)?;
    let Some(second) = &asked.second else { return of_one(asked) };
    let name = AggregateName::parse(asked.name).filter(|_| !asked.distinct);
    if let Some(AggregateName::Joint(joint)) = name {
        return Ok(statistic(&asked, joint, second)?);
    }
    if name == Some(AggregateName::Quantile) {
        return quantile(&asked, second);
    }
    Err(unknown(&asked.text).into())
}

/// A column in steps from the middle of its range.
struct CenteredColumn {
    grid: FloatGrid,
    middle: f64,
    steps: Expr,
}

impl CenteredColumn {
    fn of(argument: &Expr, facts: &Facts, text: &str) -> Result<Self, Refusal> {
        let known = facts.known();
        let none = || no_grid(text);
        let (lo, hi) = known.bounds().ok_or_else(none)?;
        let middle = (lo + hi) / Rational::from_integer(2.into());
        let centered = known.sub(&Interval::point(middle.clone()));
        let grid = grid_of(&centered.round_outward_f64(), text)?.for_many(true);
        let middle = middle.to_f64().ok_or_else(none)?;
        let value = without_nan(real(argument.clone()), &DataType::Float64);
        let steps = grid.steps(value - lit(middle));
        Ok(Self { grid, middle, steps })
    }
}

/// The sums over the rows on which both columns have a value, as floats.
struct JointSums {
    n: Expr,
    first: Expr,
    second: Expr,
    /// n² times the variance of the first column, in steps.
    first_spread: Expr,
    second_spread: Expr,
    /// n² times the covariance, in steps.
    both: Expr,
}

impl JointSums {
    fn of(results: Vec<Expr>) -> Self {
        let zero = || lit(0_i64);
        let [first, second, squares, other_squares, products, n] =
            <[Expr; 6]>::try_from(results).unwrap_or_else(|_| std::array::from_fn(|_| zero()));
        let about = |sum: Expr, of: &Expr, and: &Expr| moment(&n, sum, of.clone(), and.clone());
        let first_spread = about(squares, &first, &first);
        let second_spread = about(other_squares, &second, &second);
        let both = about(products, &first, &second);
        let [first, second, n] = [first, second, n].map(real);
        Self { n, first, second, first_spread, second_spread, both }
    }
}

/// A correlation, covariance or regression.
///
/// # Guarantee
/// A function of the multiset of rows: integers of at most 2³⁹ steps, and their products, are added
/// in 38 digits, which hold 2⁴⁸ rows. No value of a row makes it fail: divisors of 0 make it NULL.
fn statistic(asked: &InnerCall<'_>, joint: Joint, other: &Total) -> Result<Inner, Refusal> {
    let first = CenteredColumn::of(&asked.argument, &asked.facts, &asked.text)?;
    let second = CenteredColumn::of(&other.expr, &other.facts, &asked.text)?;
    let (of_first, of_second) = (first.grid.per_one(), second.grid.per_one());
    let (middle, other_middle) = (first.middle, second.middle);
    let range = match joint {
        Joint::Corr => Some((-1, 1)),
        Joint::RegrR2 => Some((0, 1)),
        Joint::CovarPop | Joint::CovarSamp | Joint::RegrSlope | Joint::RegrIntercept => None,
    };
    let whole = |n: i64| Rational::from_integer(n.into());
    let range =
        range.map_or_else(Interval::everything, |(lo, hi)| Interval::between(whole(lo), whole(hi)));
    let bounds = ends(&range, &DataType::Float64);
    let result = move |results: Vec<Expr>| {
        let JointSums { n, first, second, first_spread, second_spread, both } =
            JointSums::of(results);
        // A regression is called with y first.
        let slope = || both.clone() / nullif(second_spread.clone(), lit(0.0));
        let scaled = |slope: Expr| slope * lit(of_second / of_first);
        let correlation = || {
            let spreads = sqrt(first_spread.clone()) * sqrt(second_spread.clone());
            both.clone() / nullif(spreads, lit(0.0))
        };
        let rows = || nullif(n.clone(), lit(0.0));
        let area = of_first * of_second;
        let value = match joint {
            Joint::Corr => correlation(),
            Joint::RegrR2 => correlation() * correlation(),
            Joint::CovarPop => both / rows() / rows() / lit(area),
            Joint::CovarSamp => {
                let pairs = n.clone() * (n.clone() - lit(1.0));
                both / nullif(pairs, lit(0.0)) / lit(area)
            }
            Joint::RegrSlope => scaled(slope()),
            Joint::RegrIntercept => {
                let mean =
                    |sum: Expr, steps: f64, middle: f64| sum / rows() / lit(steps) + lit(middle);
                let of_y = mean(first, of_first, middle);
                of_y - scaled(slope()) * mean(second, of_second, other_middle)
            }
        };
        without_nan(clamped(value, &bounds), &DataType::Float64)
    };
    Ok(Inner {
        arguments: vec![first.steps, second.steps],
        filter: asked.filter.clone(),
        computed: Box::new(|arguments, filter| {
            let [x, y] = <[Expr; 2]>::try_from(arguments)
                .unwrap_or_else(|_| [lit(ScalarValue::Null), lit(ScalarValue::Null)]);
            let known = x.clone().is_not_null().and(y.clone().is_not_null());
            let filter = Some(filter.map_or(known.clone(), |filter| filter.and(known)));
            let wide = |steps: &Expr| {
                let digits = DataType::Decimal128(19, 0);
                Expr::TryCast(TryCast::new(Box::new(steps.clone()), digits))
            };
            let (a, b) = (wide(&x), wide(&y));
            let sums = [
                sum(x.clone()),
                sum(y),
                sum(a.clone() * a.clone()),
                sum(b.clone() * b.clone()),
                sum(a * b),
                count(x),
            ];
            sums.into_iter().map(|one| with_filter(one, filter.clone())).collect()
        }),
        result: Box::new(result),
        facts: Facts::ranged(range, true),
    })
}

/// The quantile of a literal share: the value of that rank, or one between two neighbours.
///
/// # Guarantee
/// It sorts the values, and so depends on their multiset alone.
fn quantile(asked: &InnerCall<'_>, share: &Total) -> Result<Inner, NotAnalyzed> {
    let Expr::Literal(share, _) = &share.expr else { return Err(unknown(&asked.text).into()) };
    let Ok(ScalarValue::Float64(Some(share))) = share.cast_to(&DataType::Float64) else {
        return Err(unknown(&asked.text).into());
    };
    if !(0.0..=1.0).contains(&share) || asked.data_type != DataType::Float64 {
        return Err(unknown(&asked.text).into());
    }
    let bounds = ends(&asked.facts.known(), &DataType::Float64);
    let facts = Facts { nullable: true, keys: None, is_unit: false, ..asked.facts.clone() };
    Ok(Inner {
        arguments: vec![asked.argument.clone()],
        filter: asked.filter.clone(),
        computed: Box::new(move |arguments, filter| {
            let of = arguments.into_iter().next().unwrap_or_else(|| lit(ScalarValue::Null));
            let call = percentile_cont_udaf().call(vec![of, lit(share)]);
            Ok(vec![with_filter(call, filter)?])
        }),
        result: Box::new(move |results| {
            without_nan(clamped(only(results), &bounds), &DataType::Float64)
        }),
        facts,
    })
}

fn real(expr: Expr) -> Expr {
    Expr::TryCast(TryCast::new(Box::new(expr), DataType::Float64))
}
