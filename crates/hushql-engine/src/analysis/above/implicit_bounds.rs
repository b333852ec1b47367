//! Bounds that are found: the range of a sum, mean, variance, quantile or extreme that has none.
//!
//! In: a query in which an aggregate has no range: in plain SQL, under GoogleSQL's OPTIONS or
//! behind a mechanism. Out: the same query with the aggregate's cost split in two. One half
//! releases the histogram of its argument. The other half releases the aggregate of the argument,
//! measured in units of the bound that the histogram showed. All aggregates of one SELECT that read
//! the same argument of the same rows share one histogram, and each pays half of its cost for it.
//! The rewritten query is analyzed like any other. The bound is a released value, and no noise is
//! calibrated to it, because the summed values lie in −1..1 for every bound.
//!
//! ```text
//! SUM(x) at ε   →   SUM(CLAMP(x / b, −1, 1)) at ε/2, times b
//!                   b = (SELECT MAX(2^k) … buckets of x with enough of COUNT(*) at ε/2; if none has enough, the fullest bucket)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, Spans, TableReference, plan_err};
use datafusion::functions::core::expr_fn::{coalesce, least};
use datafusion::functions::math::expr_fn::round;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::expr::{AggregateFunction, Alias, Cast, TryCast};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, lit, when,
};
use num_traits::ToPrimitive;

use super::findable::is_eligible;
use crate::analysis::ReleaseKind;
use crate::analysis::call::read_calls::bare_clause_of;
use crate::analysis::default_shares::{DefaultShare, DefaultShares, costs_nothing, is_bare};
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::facts::{decimal_unit, type_range};
use crate::analysis::not_analyzed::{BareCall, CallPlace, NoRange, NotAnalyzed};
use crate::analysis::outcome::Analysis;
use crate::bind::{Bound, marker_function};
use crate::buckets::{Buckets, OUTERMOST, least_kept, reach};
use crate::catalog::Catalog;
use crate::dialect::{
    AggregateCall, AggregateName, Finding, MechanismName, Operand, Parameters, ReleaseClause,
};
use crate::functions::{clamp, list_in_units, magnitude_function};
use crate::mechanism::Laplace;
use crate::privacy::{Epsilon, Rational, Rho, Selecting};

/// The most rounds in which bounds are found. Each finds those of at least one more aggregate.
const MOST_ROUNDS: usize = 64;

/// Analyzes a query in which a release has no range. Repeats until every such release that may find
/// its bounds has found them.
///
/// Releases without a cost share a budget's default. What a histogram costs is known once all of
/// them are, and the least count of its buckets follows from that, so the query is rewritten twice.
///
/// # Guarantee
/// The result is what `analyze` makes of the query as written, or of the query after [`rewritten`]
/// has replaced some of its releases. The cost does not grow.
///
/// # Errors
/// The errors of `analyze`.
pub(crate) fn with_bounds_found(
    bound: &Bound,
    missing: NoRange,
    catalog: &Catalog,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Result<Analysis, NotAnalyzed> {
    let priced = found(bound, missing.clone(), &Costs::new(), analyze)?;
    if let Some(budget) = fixed_by(&priced, catalog) {
        let why = format!("budget `{budget}` takes declared bounds alone");
        return Err(NotAnalyzed::NoRange(missing).said(|refusal| refusal.since(&why)));
    }
    match default_costs(&priced, catalog) {
        None => Err(NotAnalyzed::NoRange(missing)),
        Some(costs) if costs.is_empty() => Ok(priced),
        Some(costs) => found(bound, missing, &costs, analyze),
    }
}

/// The budget whose owner has fixed that no bounds are found for its people, if there is one.
fn fixed_by<'a>(analysis: &Analysis, catalog: &'a Catalog) -> Option<&'a str> {
    let finding = analysis
        .parts()
        .iter()
        .filter(|part| part.measures().iter().any(|measure| measure.clause.finding.is_some()));
    finding.map(|part| part.subject().unit_domain()).find_map(|of| catalog.declares_bounds(of))
}

/// The default costs of histograms, by the number of their bound.
type Costs = BTreeMap<usize, Parameters>;

/// The default costs of the histograms that state none. `None` if no default applies to one.
fn default_costs(analysis: &Analysis, catalog: &Catalog) -> Option<Costs> {
    let mut costs = Costs::new();
    for part in analysis.parts() {
        let shares = DefaultShares::of(analysis.parts(), part.subject().unit_domain(), catalog);
        for measure in part.measures().iter().filter(|measure| is_bare(measure)) {
            let Some(Finding::Histogram { bound, .. }) = measure.clause.finding else { continue };
            let (epsilon, rho) = match shares.share_of(measure)? {
                DefaultShare::Epsilon(epsilon) => (Some(epsilon), None),
                DefaultShare::Rho(rho) => (None, Some(rho)),
            };
            costs.insert(bound, Parameters { epsilon, rho, ..Parameters::default() });
        }
    }
    Some(costs)
}

/// Analyzes a query after the bounds of its releases are found, with the default costs of the
/// histograms, if they are known.
fn found(
    bound: &Bound,
    missing: NoRange,
    costs: &Costs,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Result<Analysis, NotAnalyzed> {
    let first = missing.clone();
    let (mut missing, mut found) = (missing, None);
    for _ in 0..MOST_ROUNDS {
        let current = found.as_ref().unwrap_or(bound);
        let Some(next) = rewritten(current, &missing, costs, analyze) else { break };
        match analyze(&next) {
            Ok(analysis) if !may_find(&analysis) => return Err(NotAnalyzed::NoRange(first)),
            Err(NotAnalyzed::NoRange(another)) => missing = another,
            analyzed => return analyzed,
        }
        found = Some(next);
    }
    Err(NotAnalyzed::NoRange(missing))
}

/// The query in which the bounds of one release, and of the releases that share them, are found
/// first; `None` if they cannot be found.
///
/// # Guarantee
/// The releases cost no more than before: each pays half of its price, rounded down, for itself,
/// and the other half for the histogram. The rewritten query needs no privacy proof of its own: it
/// is analyzed like a query that a user wrote.
fn rewritten(
    bound: &Bound,
    missing: &NoRange,
    costs: &Costs,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Option<Bound> {
    let marked;
    let (bound, release) = match missing.call.as_ref()? {
        CallPlace::Release(release) => (bound, *release),
        CallPlace::Bare(bare) => {
            marked = with_marks(bound, bare)?;
            (&marked.0, marked.1)
        }
    };
    let aggregate = first_with(bound.plan(), release)?;
    let mut releases = bound.releases().to_vec();
    let counter = releases.len();
    let sharing = sharing(bound, &aggregate, release)?;
    let default = costs.get(&counter);
    let mut paying = Vec::new();
    for release in &sharing {
        let clause = releases.get_mut(*release)?;
        let half = half_of(&clause.parameters)?;
        paying.push(ReleaseClause { parameters: half.clone(), ..clause.clone() });
        *clause =
            in_units(clause, half, default.and_then(|all| part_of(all, sharing.len())), counter);
    }
    releases.push(histogram_for(&paying, default)?);
    let mut rewriting = Rewriting { sharing, counter, releases, least: 0 };
    rewriting.least = rewriting.threshold(&aggregate, default, analyze)?;
    rewriting.releases.get_mut(counter)?.finding = Some(Finding::Histogram {
        bound: counter,
        least: rewriting.least,
        payers: rewriting.sharing.len(),
    });
    let plan = rewriting.plan(bound.plan()).ok()?;
    Some(Bound::from_plan(plan, rewriting.releases))
}

/// The query in which a bare aggregate without a range, and all bare ones of the same argument
/// beside it, are releases without a cost. They mean the same. Also the number of the first.
fn with_marks(bound: &Bound, bare: &BareCall) -> Option<(Bound, usize)> {
    let node = &bare.node;
    let mut releases = bound.releases().to_vec();
    let first = releases.len();
    let own = argument_and_filter(CallOf::function(node.aggr_expr.get(bare.place)?)?);
    let mut calls = node.aggr_expr.clone();
    for expr in &mut calls {
        let Some(call) = CallOf::function(expr) else { continue };
        let is_own = argument_and_filter(call) == own && !call.params.distinct;
        if CallOf::marker(expr).is_some() || !is_own {
            continue;
        }
        let clause = bare_clause_of(call, expr).ok().filter(is_eligible);
        let Some(clause) = clause else { continue };
        // The fraction of a quantile is in its clause.
        let argument = call.params.args.iter().take(1).cloned().collect();
        *expr = Expr::AggregateFunction(AggregateFunction::new_udf(
            marker_function(releases.len(), &clause),
            argument,
            false,
            call.params.filter.clone(),
            Vec::new(),
            None,
        ));
        releases.push(clause);
    }
    if releases.len() == first {
        return None;
    }
    let marked = marked_node(node, calls).ok()?;
    let replaced = bound.plan().clone().transform_up_with_subqueries(|plan| {
        if let LogicalPlan::Aggregate(own) = &plan
            && own == node
        {
            return Ok(Transformed::yes(marked.clone()));
        }
        Ok(Transformed::no(plan))
    });
    let replaced = replaced.ok().filter(|replaced| replaced.transformed)?;
    Some((Bound::from_plan(replaced.data, releases), first))
}

/// What an aggregate reads: its argument, and the condition of its rows.
fn argument_and_filter(call: &AggregateFunction) -> (Option<&Expr>, Option<&Expr>) {
    (call.params.args.first(), call.params.filter.as_deref())
}

/// The aggregate with these calls, in the columns and types that it had.
fn marked_node(node: &Aggregate, calls: Vec<Expr>) -> Result<LogicalPlan> {
    let marked = Aggregate::try_new(Arc::clone(&node.input), node.group_expr.clone(), calls)?;
    let columns = marked.schema.columns().into_iter().zip(marked.schema.fields());
    let expressions = columns.zip(node.schema.iter()).map(|((column, has), (qualifier, field))| {
        let column = Expr::Column(column);
        let expr = match has.data_type() == field.data_type() {
            true => column,
            false => Expr::TryCast(TryCast::new(Box::new(column), field.data_type().clone())),
        };
        aliased(expr, qualifier, field.name())
    });
    let expressions: Vec<Expr> = expressions.collect();
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(marked)).project(expressions)?.build()
}

/// The releases of an aggregate that find their bounds together with one of them: they read the
/// same argument of the same rows. `None` if that release may not find bounds.
fn sharing(bound: &Bound, aggregate: &Aggregate, release: usize) -> Option<Vec<usize>> {
    let own = CallOf::function(aggregate.aggr_expr.get(place_of(aggregate, release)?)?)?;
    let own = argument_and_filter(own);
    let clause =
        |release: usize| bound.releases().get(release).filter(|clause| is_eligible(clause));
    let ReleaseClause { unit_column: unit, parameters, .. } = clause(release)?;
    let priced = |own: &Parameters| (own.epsilon.is_some(), own.rho.is_some());
    let alike = aggregate.aggr_expr.iter().filter_map(|expr| {
        let release = CallOf::marker(expr)?;
        let clause = clause(release).filter(|clause| clause.unit_column == *unit)?;
        let is_alike = priced(&clause.parameters) == priced(parameters);
        (is_alike && argument_and_filter(CallOf::function(expr)?) == own).then_some(release)
    });
    Some(alike.collect())
}

/// True if the analysis supports every aggregate whose bounds are found. With unknown partitions,
/// OPTIONS pay for a threshold out of the same ε. That combination is not supported.
fn may_find(analysis: &Analysis) -> bool {
    analysis.parts().iter().all(|part| {
        let by_options = |clause: &ReleaseClause| clause.grouping.is_some();
        let found =
            part.measures().iter().any(|m| m.clause.finding.is_some() && by_options(&m.clause));
        part.unknown_partitions().is_none() || !found
    })
}

/// Half of the stated cost of a release.
fn half_of(whole: &Parameters) -> Option<Parameters> {
    Some(Parameters {
        epsilon: whole.epsilon.as_ref().map(|e| e.share(2)).transpose().ok()?,
        rho: whole.rho.as_ref().map(|r| r.share(2)).transpose().ok()?,
        ..whole.clone()
    })
}

/// The part of a histogram's cost that one of its payers has paid.
fn part_of(all: &Parameters, payers: usize) -> Option<Parameters> {
    Some(Parameters {
        epsilon: all.epsilon.as_ref().map(|e| e.share(payers)).transpose().ok()?,
        rho: all.rho.as_ref().map(|r| r.share(payers)).transpose().ok()?,
        ..Parameters::default()
    })
}

/// The release at half of its cost, with a reference to its bound. `default` is half of its share
/// of a default cost, as far as that is known.
fn in_units(
    clause: &ReleaseClause,
    half: Parameters,
    default: Option<Parameters>,
    bound: usize,
) -> ReleaseClause {
    let squared = matches!(
        &clause.operand,
        Operand::Aggregate(AggregateCall { function: AggregateName::Spread(of), .. }) if !of.is_root()
    );
    let price = price(&half).or_else(|| price(&default?));
    let price = price.unwrap_or_else(|| "half of a share".to_owned());
    let text = Finding::in_units_of_its_bound(&clause.text, &price);
    let finding = Some(Finding::InUnits { bound, squared });
    ReleaseClause { parameters: half, text, finding, ..clause.clone() }
}

/// The release of the histogram, for which these releases pay together. If they state no cost, it
/// states none either; `default` is then its default cost, as far as that is known.
fn histogram_for(paying: &[ReleaseClause], default: Option<&Parameters>) -> Option<ReleaseClause> {
    let first = paying.first()?;
    let all = paying.iter().map(|clause| &clause.parameters);
    let epsilon = all.clone().map(|own| own.epsilon.as_ref().map(Epsilon::value));
    let rho = all.map(|own| own.rho.as_ref().map(Rho::value));
    let parameters = Parameters {
        epsilon: epsilon.sum::<Option<Rational>>().map(Epsilon::new).transpose().ok()?,
        rho: rho.sum::<Option<Rational>>().map(Rho::new).transpose().ok()?,
        delta: None,
        monotonic: None,
        ..first.parameters.clone()
    };
    let of: Vec<&str> = paying.iter().map(|clause| clause.text.as_str()).collect();
    let of = of.join(" and ");
    let price = price(&parameters).or_else(|| price(default?));
    let price = price.unwrap_or_else(|| "half of a share".to_owned());
    Some(ReleaseClause {
        mechanism: MechanismName::Laplace,
        parameters,
        operand: Operand::Aggregate(AggregateCall::count_star()),
        keys: Vec::new(),
        unit_column: first.unit_column.clone(),
        grouping: None,
        text: format!("bounds of {of}, found at {price} by counts of buckets"),
        finding: None,
        consistent: None,
        set: None,
        fresh: paying.iter().any(|clause| clause.fresh),
    })
}

fn price(parameters: &Parameters) -> Option<String> {
    match (&parameters.epsilon, &parameters.rho) {
        (Some(epsilon), _) => Some(format!("eps={epsilon}")),
        (None, Some(rho)) => Some(format!("rho={rho}")),
        (None, None) => None,
    }
}

/// The first aggregate node that contains the release.
fn first_with(plan: &LogicalPlan, release: usize) -> Option<Aggregate> {
    let mut found = None;
    let outcome = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && place_of(aggregate, release).is_some()
        {
            found = Some(aggregate.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    outcome.ok().and(found)
}

fn place_of(aggregate: &Aggregate, release: usize) -> Option<usize> {
    aggregate.aggr_expr.iter().position(|e| CallOf::marker(e) == Some(release))
}

/// Replaces some releases of a query, and adds a histogram for them.
struct Rewriting {
    /// The releases whose bounds are found. They read the same argument.
    sharing: Vec<usize>,
    counter: usize,
    releases: Vec<ReleaseClause>,
    least: i128,
}

impl Rewriting {
    /// The smallest noisy count at which a bucket is selected. It follows from the sensitivity that
    /// the analysis finds.
    ///
    /// Zero if the histogram has a default cost that is not known yet.
    fn threshold(
        &self,
        aggregate: &Aggregate,
        default: Option<&Parameters>,
        analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
    ) -> Option<i128> {
        let stated = &self.releases.get(self.counter)?.parameters;
        let parameters = match costs_nothing(stated) {
            false => stated,
            true => match default {
                Some(default) => default,
                None => return Some(0),
            },
        };
        let call = self.call(aggregate)?;
        let histogram = LogicalPlan::Aggregate(self.histogram(aggregate, call).ok()?);
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

    fn call<'a>(&self, aggregate: &'a Aggregate) -> Option<&'a AggregateFunction> {
        let places = self.sharing.iter().find_map(|release| place_of(aggregate, *release));
        CallOf::function(aggregate.aggr_expr.get(places?)?)
    }

    fn plan(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let replaced = plan.clone().transform_up_with_subqueries(|node| {
            if let LogicalPlan::Aggregate(aggregate) = &node
                && let Some(call) = self.call(aggregate)
            {
                return self.found(aggregate, call).map(Transformed::yes);
            }
            Ok(Transformed::no(node))
        })?;
        Ok(replaced.data)
    }

    /// The noisy counts of the argument's buckets, over all groups of the aggregate.
    fn histogram(&self, aggregate: &Aggregate, call: &AggregateFunction) -> Result<Aggregate> {
        let bucket = magnitude_function().call(vec![as_float(argument(call)?)]);
        let Some(clause) = self.releases.get(self.counter) else {
            return plan_err!("a histogram has its release");
        };
        let count = AggregateFunction::new_udf(
            marker_function(self.counter, clause),
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
    fn bound(&self, histogram: Aggregate, widest: f64) -> Result<Expr> {
        let columns = histogram.schema.columns();
        let [bucket, n] = columns.as_slice() else {
            return plan_err!("a histogram has two columns");
        };
        let least_count = lit(i64::try_from(self.least).unwrap_or(i64::MAX));
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
        let plan = plan.project(vec![bound.alias("bound")])?.build()?;
        let (subquery, outer_ref_columns) = (Arc::new(plan), Vec::new());
        Ok(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans: Spans::new() }))
    }

    /// The aggregates in units of the bound, and a projection that restores their own units, types
    /// and names.
    fn found(&self, aggregate: &Aggregate, call: &AggregateFunction) -> Result<LogicalPlan> {
        let x = argument(call)?;
        let Some(widest) = widest(&x.get_type(aggregate.input.schema())?) else {
            return plan_err!("this type has no bounds to be found");
        };
        let bound = self.bound(self.histogram(aggregate, call)?, widest)?;
        let (one, minus) = (ScalarValue::Float64(Some(1.0)), ScalarValue::Float64(Some(-1.0)));
        let scaled = clamp(as_float(x) / bound.clone(), minus, one);
        let own = |expr: &Expr| CallOf::marker(expr).filter(|own| self.sharing.contains(own));
        let mut aggregates = aggregate.aggr_expr.clone();
        for expr in aggregates.iter_mut().filter(|expr| own(expr).is_some()) {
            let Some(call) = CallOf::function(expr) else {
                return plan_err!("a release is a function");
            };
            *expr = Expr::AggregateFunction(AggregateFunction::new_udf(
                Arc::clone(&call.func),
                vec![scaled.clone()],
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
                Some(release) => self.in_own_unit(release, column, &bound, field.data_type())?,
                None => column,
            };
            Ok(aliased(expr, qualifier, field.name()))
        });
        let expressions = expressions.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(LogicalPlan::Aggregate(scaled)).project(expressions)?.build()
    }

    /// Converts a released aggregate of x/b to one of x, in its own type: times b, or times b² for
    /// a variance.
    fn in_own_unit(
        &self,
        release: usize,
        column: Expr,
        bound: &Expr,
        own: &DataType,
    ) -> Result<Expr> {
        let finding = self.releases.get(release).and_then(|clause| clause.finding);
        let squared = matches!(finding, Some(Finding::InUnits { squared: true, .. }));
        if let DataType::List(field) = own {
            let most = most_of(field.data_type())?;
            return Ok(list_in_units(column, bound.clone(), field.data_type(), most));
        }
        let once = column * bound.clone();
        let value = if squared { once * bound.clone() } else { once };
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

fn aliased(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    let (relation, name) = (qualifier.cloned(), name.to_owned());
    Expr::Alias(Alias { expr: Box::new(expr), relation, name, metadata: None })
}

fn argument(call: &AggregateFunction) -> Result<Expr> {
    let x = call.params.args.first().cloned();
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
