//! Aggregates in units of bounds that are released first.
//!
//! In: a query, the releases whose arguments have no range, and the release of each argument's
//! histogram. Out: the query with the aggregates of the argument in units of the bound that its
//! histogram shows, and a projection that restores their own units.
//!
//! ```text
//! SUM(x)       →   SUM(CLAMP(x / b, −1, 1)) * b
//! AVG(x)       →   AVG(CLAMP(x', −1, 1)) * b / 2 + b / 2, x' = (2x − b) / b, where no negative values stand out
//! CORR(x, y)   →   CORR(CLAMP(x', −1, 1), CLAMP(y', −1, 1)), x' = x / b, or (2x − b) / b where no negative values stand out
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, ScalarValue, Spans, TableReference, plan_err};
use datafusion::functions::core::expr_fn::{coalesce, least};
use datafusion::functions::math::expr_fn::round;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::expr::{AggregateFunction, Alias, Cast, TryCast};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, lit, when,
};
use num_traits::ToPrimitive;

use crate::analysis::ReleaseKind;
use crate::analysis::default_shares::costs_nothing;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::facts::{decimal_unit, type_range};
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::analysis::outcome::Analysis;
use crate::bind::{Bound, marker_function};
use crate::buckets::{BOUND, Buckets, OUTERMOST, holds_negatives, least_kept, reach};
use crate::dialect::{
    AggregateCall, AggregateName, Finding, Joint, Operand, Parameters, ReleaseClause,
};
use crate::functions::{clamp, list_in_units, magnitude_function};
use crate::mechanism::Laplace;
use crate::privacy::{Rational, Selecting};

/// An argument whose bound is found.
pub(super) struct ArgumentBound {
    /// Its place in the call.
    pub(super) place: usize,
    /// The release of its histogram.
    pub(super) counter: usize,
    /// The smallest noisy count at which a bucket is selected.
    pub(super) least: i128,
}

/// The bound b of an argument, and the sign s of its lower end, as subqueries: the argument is cut
/// to s·b..b, where s is −1 or 0.
struct FoundEnds {
    bound: Expr,
    sign: Expr,
}

impl FoundEnds {
    /// Half of the width: the unit of the argument.
    fn unit(&self, is_symmetric: bool) -> Expr {
        match is_symmetric {
            true => self.bound.clone(),
            false => self.bound.clone() * (lit(1.0) - self.sign.clone()) / lit(2.0),
        }
    }

    /// The middle, which is 0 in the argument's own unit.
    fn middle(&self) -> Expr {
        self.bound.clone() * (lit(1.0) + self.sign.clone()) / lit(2.0)
    }

    /// The argument in its unit.
    fn scaled(&self, x: Expr, is_symmetric: bool) -> Expr {
        let (one, minus) = (ScalarValue::Float64(Some(1.0)), ScalarValue::Float64(Some(-1.0)));
        let in_bounds = as_float(x) / self.bound.clone();
        let scaled = match is_symmetric {
            true => in_bounds,
            false => {
                let (twice, sign) = (lit(2.0) * in_bounds, &self.sign);
                (twice - (lit(1.0) + sign.clone())) / (lit(1.0) - sign.clone())
            }
        };
        clamp(scaled, minus, one)
    }
}

/// True if a release measures an argument from −b to b, whatever signs stand out. Sums and choices
/// need 0 in the middle. A line does not meet x = 0 elsewhere if 0 stays where it is.
fn is_symmetric(clause: &ReleaseClause, place: usize) -> bool {
    let is_intercept = clause.joint() == Some(Joint::RegrIntercept);
    (is_intercept && place == 1) || !clause.has_any_middle()
}

/// True if a release is a mean, which moves with the middle of its argument.
fn is_mean(clause: &ReleaseClause) -> bool {
    matches!(
        &clause.operand,
        Operand::Aggregate(AggregateCall { function: AggregateName::Avg, .. })
    )
}

/// Replaces some releases of a query, and adds histograms for them.
pub(super) struct Rewriting {
    /// The releases whose bounds are found. They read the same arguments.
    pub(super) sharing: Vec<usize>,
    /// The arguments that have no range.
    pub(super) arguments: Vec<ArgumentBound>,
    pub(super) releases: Vec<ReleaseClause>,
}

impl Rewriting {
    /// The smallest noisy count at which a bucket is selected. It follows from the sensitivity that
    /// the analysis finds.
    ///
    /// Zero if the histogram has a default cost that is not known yet.
    pub(super) fn threshold(
        &self,
        argument: usize,
        aggregate: &Aggregate,
        default: Option<&Parameters>,
        analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
    ) -> Option<i128> {
        let argument = self.arguments.get(argument)?;
        let stated = &self.releases.get(argument.counter)?.parameters;
        let parameters = match costs_nothing(stated) {
            false => stated,
            true => match default {
                Some(default) => default,
                None => return Some(0),
            },
        };
        let call = call_of(aggregate, &self.sharing)?;
        let histogram = LogicalPlan::Aggregate(self.histogram(argument, aggregate, call).ok()?);
        let analysis = analyze(&Bound::from_plan(histogram, self.releases.clone())).ok()?;
        let [part] = analysis.parts() else { return None };
        let ReleaseKind::Number(sensitivity) = &part.measures().first()?.release_kind else {
            return None;
        };
        let epsilon = match (&parameters.epsilon, &parameters.rho) {
            (Some(epsilon), _) => epsilon.clone(),
            (None, Some(rho)) => rho.epsilon(Selecting::Pure, 1).ok()?,
            (None, None) => return None,
        };
        let noise = Laplace::calibrate(sensitivity.l1, &epsilon).ok()?;
        Some(least_kept(&noise, part.keys().all().len()))
    }

    pub(super) fn plan(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let replaced = plan.clone().transform_up_with_subqueries(|node| {
            if let LogicalPlan::Aggregate(aggregate) = &node
                && let Some(call) = call_of(aggregate, &self.sharing)
            {
                return self.found(aggregate, call).map(Transformed::yes);
            }
            Ok(Transformed::no(node))
        })?;
        Ok(replaced.data)
    }

    /// The noisy counts of an argument's buckets, over all groups of the aggregate.
    fn histogram(
        &self,
        argument: &ArgumentBound,
        aggregate: &Aggregate,
        call: &AggregateFunction,
    ) -> Result<Aggregate> {
        let bucket = magnitude_function().call(vec![as_float(argument_at(call, argument.place)?)]);
        let Some(clause) = self.releases.get(argument.counter) else {
            return plan_err!("a histogram has its release");
        };
        let count = AggregateFunction::new_udf(
            marker_function(argument.counter, clause),
            vec![lit(1_i64)],
            false,
            call.params.filter.clone(),
            Vec::new(),
            None,
        );
        let count = Expr::AggregateFunction(count);
        Aggregate::try_new(Arc::clone(&aggregate.input), vec![bucket], vec![count])
    }

    /// One row with the largest power of two that the selected buckets reach. If none is selected,
    /// the power of the bucket with the largest noisy count. It is a function of released counts.
    fn bound(least_count: i128, histogram: Aggregate, widest: f64) -> Result<Expr> {
        let columns = histogram.schema.columns();
        let [bucket, n] = columns.as_slice() else {
            return plan_err!("a histogram has two columns");
        };
        let least_count = lit(i64::try_from(least_count).unwrap_or(i64::MAX));
        let n = Expr::Column(n.clone());
        let reached = reach(Expr::Column(bucket.clone()))?;
        // All selected buckets come first. The others follow in the order of their counts.
        let kept = when(n.clone().gt_eq(least_count), reached.clone()).otherwise(lit(0.0))?;
        let order = [kept, n, reached.clone()].map(|key| key.sort(false, false));
        let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(histogram))
            .sort(order)?
            .limit(0, Some(1))?
            .aggregate(Vec::<Expr>::new(), vec![max(reached).alias("most")])?;
        let most = plan.schema().columns().into_iter().map(Expr::Column);
        let bound = least(vec![coalesce(most.chain([lit(widest)]).collect()), lit(widest)]);
        Ok(as_value(plan.project(vec![bound.alias(BOUND)])?.build()?))
    }

    /// One row with 0 if buckets are selected, and none of them holds negative values; otherwise
    /// −1. It is a function of released counts.
    fn sign(least_count: i128, histogram: Aggregate) -> Result<Expr> {
        let columns = histogram.schema.columns();
        let [bucket, n] = columns.as_slice() else {
            return plan_err!("a histogram has two columns");
        };
        let least_count = lit(i64::try_from(least_count).unwrap_or(i64::MAX));
        // NULLs are in no bucket.
        let bucket = Expr::Column(bucket.clone());
        let is_kept = Expr::Column(n.clone()).gt_eq(least_count).and(bucket.clone().is_not_null());
        let is_negative = holds_negatives(bucket);
        let sign = when(is_kept.clone().and(is_negative), lit(-1.0))
            .when(is_kept, lit(0.0))
            .otherwise(lit(1.0))?;
        let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(histogram))
            .aggregate(Vec::<Expr>::new(), vec![min(sign).alias("least")])?;
        let least = plan.schema().columns().into_iter().map(Expr::Column).next();
        let least = least.ok_or_else(|| DataFusionError::Plan("no sign".to_owned()))?;
        let sign = when(least.eq(lit(0.0)), lit(0.0)).otherwise(lit(-1.0))?;
        Ok(as_value(plan.project(vec![sign.alias("sign")])?.build()?))
    }

    /// The ends that are found for an argument.
    fn ends(
        &self,
        argument: &ArgumentBound,
        aggregate: &Aggregate,
        call: &AggregateFunction,
    ) -> Result<FoundEnds> {
        let x = argument_at(call, argument.place)?;
        let Some(widest) = widest(&x.get_type(aggregate.input.schema())?) else {
            return plan_err!("this type has no bounds to be found");
        };
        let histogram = || self.histogram(argument, aggregate, call);
        Ok(FoundEnds {
            bound: Self::bound(argument.least, histogram()?, widest)?,
            sign: Self::sign(argument.least, histogram()?)?,
        })
    }

    /// The arguments of a release, in the units of their bounds.
    fn scaled(&self, clause: &ReleaseClause, arguments: &[Expr], ends: &[FoundEnds]) -> Vec<Expr> {
        let mut scaled = arguments.to_vec();
        for (argument, ends) in self.arguments.iter().zip(ends) {
            if let Some(x) = scaled.get_mut(argument.place) {
                *x = ends.scaled(x.clone(), is_symmetric(clause, argument.place));
            }
        }
        scaled
    }

    /// The aggregates in units of the bound, and a projection that restores their own units, types
    /// and names.
    fn found(&self, aggregate: &Aggregate, call: &AggregateFunction) -> Result<LogicalPlan> {
        let ends: Vec<FoundEnds> = self
            .arguments
            .iter()
            .map(|argument| self.ends(argument, aggregate, call))
            .collect::<Result<_>>()?;
        let own = |expr: &Expr| CallOf::marker(expr).filter(|own| self.sharing.contains(own));
        let mut aggregates = aggregate.aggr_expr.clone();
        for expr in &mut aggregates {
            let Some(clause) = own(expr).and_then(|own| self.releases.get(own)) else { continue };
            let Some(call) = CallOf::function(expr) else {
                return plan_err!("a release is a function");
            };
            *expr = Expr::AggregateFunction(AggregateFunction::new_udf(
                Arc::clone(&call.func),
                self.scaled(clause, &call.params.args, &ends),
                false,
                call.params.filter.clone(),
                Vec::new(),
                None,
            ));
        }
        let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let (input, groups) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
        let scaled = Aggregate::try_new(input, groups, aggregates)?;
        let columns = scaled.schema.columns().into_iter().zip(aggregate.schema.iter());
        let expressions = columns.enumerate().map(|(i, (column, (qualifier, field)))| {
            let column = Expr::Column(column);
            let release = i.checked_sub(keys).and_then(|at| aggregate.aggr_expr.get(at));
            let expr = match release.and_then(own) {
                Some(release) => self.in_own_unit(release, column, &ends, field.data_type())?,
                None => column,
            };
            Ok(aliased(expr, qualifier, field.name()))
        });
        let expressions = expressions.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(LogicalPlan::Aggregate(scaled)).project(expressions)?.build()
    }

    /// Converts a released aggregate of x/b to one of x, in its own type: times b, or times b² for
    /// a variance. A statistic of two columns is converted from the units of both.
    fn in_own_unit(
        &self,
        release: usize,
        column: Expr,
        ends: &[FoundEnds],
        own: &DataType,
    ) -> Result<Expr> {
        let Some(clause) = self.releases.get(release) else {
            return plan_err!("a release has a clause");
        };
        let of = |place: usize| {
            let mut found = self.arguments.iter().zip(ends);
            found.find_map(|(argument, ends)| (argument.place == place).then_some(ends))
        };
        let unit = |place: usize| of(place).map(|own| own.unit(is_symmetric(clause, place)));
        if let (DataType::List(field), Some(unit)) = (own, unit(0)) {
            let most = most_of(field.data_type())?;
            return Ok(list_in_units(column, unit, field.data_type(), most));
        }
        let times = |value: Expr, unit: Option<Expr>| match unit {
            Some(unit) => value * unit,
            None => value,
        };
        let value = match clause.joint() {
            None => {
                let once = times(column, unit(0));
                let squared =
                    matches!(clause.finding, Some(Finding::InUnits { squared: true, .. }));
                match of(0).filter(|_| is_mean(clause)) {
                    Some(ends) => once + ends.middle(),
                    None if squared => times(once, unit(0)),
                    None => once,
                }
            }
            Some(Joint::Corr | Joint::RegrR2) => column,
            Some(Joint::CovarPop | Joint::CovarSamp) => times(times(column, unit(0)), unit(1)),
            Some(Joint::RegrSlope) => match unit(1) {
                Some(x) => times(column, unit(0)) / x,
                None => times(column, unit(0)),
            },
            Some(Joint::RegrIntercept) => match of(0) {
                Some(y) => times(column, unit(0)) + y.middle(),
                None => column,
            },
        };
        if *own == DataType::Float64 {
            return Ok(value);
        }
        let most = most_of(own)?;
        let ends = [-most, most].map(|end| ScalarValue::Float64(Some(end)));
        let [lo, hi] = ends;
        let whole = if own.is_integer() { round(vec![value]) } else { value };
        Ok(Expr::TryCast(TryCast::new(Box::new(clamp(whole, lo, hi)), own.clone())))
    }
}

/// The largest float that a type holds.
fn most_of(own: &DataType) -> Result<f64> {
    Ok(match own {
        DataType::Float64 => f64::MAX,
        // The largest float below 2⁶³.
        DataType::Int64 => 9_223_372_036_854_774_784.0,
        // The median of a column has its type.
        DataType::Int32 => f64::from(i32::MAX),
        DataType::Int16 => f64::from(i16::MAX),
        DataType::Int8 => f64::from(i8::MAX),
        DataType::Float32 => f64::from(f32::MAX),
        DataType::Decimal128(precision, scale) => {
            let digits = i32::from(*precision) - i32::from(*scale);
            10_f64.powi(digits) * (1.0 - 1e-12)
        }
        other => return plan_err!("a sum has no type {other}"),
    })
}

pub(super) fn aliased(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    let (relation, name) = (qualifier.cloned(), name.to_owned());
    Expr::Alias(Alias { expr: Box::new(expr), relation, name, metadata: None })
}

/// A plan of one row and column as a value.
fn as_value(plan: LogicalPlan) -> Expr {
    let (subquery, outer_ref_columns) = (Arc::new(plan), Vec::new());
    Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans: Spans::new() })
}

/// The place of a release among the aggregates of a node.
pub(super) fn place_of(aggregate: &Aggregate, release: usize) -> Option<usize> {
    aggregate.aggr_expr.iter().position(|e| CallOf::marker(e) == Some(release))
}

/// The call of the first of some releases that a node contains.
pub(super) fn call_of<'a>(
    aggregate: &'a Aggregate,
    releases: &[usize],
) -> Option<&'a AggregateFunction> {
    let places = releases.iter().find_map(|release| place_of(aggregate, *release));
    CallOf::function(aggregate.aggr_expr.get(places?)?)
}

fn argument_at(call: &AggregateFunction, place: usize) -> Result<Expr> {
    let x = call.params.args.get(place).cloned();
    x.ok_or_else(|| DataFusionError::Plan("an aggregate has an argument".to_owned()))
}

fn as_float(x: Expr) -> Expr {
    Expr::Cast(Cast::new(Box::new(x), DataType::Float64))
}

/// A power of two that no value of the type exceeds. For DOUBLE, the largest one for which sums and
/// squares are finite.
fn widest(data_type: &DataType) -> Option<f64> {
    Buckets::for_type(data_type)?;
    let most = match data_type {
        DataType::Float64 => return Some(2_f64.powi(OUTERMOST)),
        DataType::Float32 => return Some(2_f64.powi(128)),
        DataType::Decimal128(precision, scale) => {
            let units = num_bigint::BigInt::from(10).pow(u32::from(*precision));
            (decimal_unit(*scale) * Rational::from_integer(units)).to_f64()?
        }
        _ => type_range(data_type)?.max_abs()?.to_f64()?,
    };
    (0..=128).map(|k| 2_f64.powi(k)).find(|power| *power >= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_bound_holds_every_value() {
        for (data_type, bound) in [
            (DataType::Int8, 7),
            (DataType::Int64, 63),
            (DataType::UInt64, 64),
            (DataType::Decimal128(10, 2), 27),
            (DataType::Decimal128(3, 3), 0),
            (DataType::Float32, 128),
            (DataType::Float64, 480),
        ] {
            let power = widest(&data_type).unwrap();
            assert!((power.log2() - f64::from(bound)).abs() < 1e-9, "{data_type}: {power}");
        }
        assert_eq!(widest(&DataType::Utf8), None);
    }
}
