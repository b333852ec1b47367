//! Below a release: aggregates of each unit's own rows.
//!
//! In: `GROUP BY` with the unit among its keys, over private rows. Out: private rows again, one for
//! each group of a unit. Each aggregate is a function of the unit's *multiset* of rows. The order
//! of rows depends on the rows of all units, and a float sum depends on the order. So floats are
//! summed on a grid of integers, and aggregates that pick a row by its position are refused.
//!
//! ```text
//! GROUP BY user_id: SUM(price)        price in [0, 1000], at most 20 rows/unit: a sum in [0, 20000], 1 row/unit
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue, internal_err};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::math::expr_fn::sqrt;
use datafusion::functions_aggregate::expr_fn::{
    avg, bool_and, bool_or, count, count_distinct, max, median, min, sum,
};
use datafusion::logical_expr::expr::{AggregateFunction, TryCast};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit,
};
use num_traits::ToPrimitive;

use super::column_origin::{Definition, OfUnit, Trace};
use super::float_grid::{clamped, ends, grid_of, grid_of_sums, no_grid, summed};
use super::relation::{Owner, PrivateRelation, named};
use crate::analysis::below::refusals::{operator, several_months};
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{Total, is_temporal, readable, unit_of};
use crate::analysis::expr::{exact, total};
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::functions::{clamp, without_nan};
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// Builds aggregates from an argument and a FILTER.
type Computed = Box<dyn Fn(Option<Expr>, Option<Expr>) -> datafusion::common::Result<Vec<Expr>>>;

/// An aggregate of one unit's rows: its argument, the aggregates that are computed from it, and how
/// the result follows from these.
struct Inner {
    argument: Option<Expr>,
    filter: Option<Expr>,
    computed: Computed,
    result: Box<dyn Fn(Vec<Expr>) -> Expr>,
    facts: Facts,
}

impl Walk<'_> {
    /// `GROUP BY` with the unit among its keys.
    ///
    /// # Guarantee
    /// Every row of the result is a function of the multiset of rows of one unit, and carries that
    /// unit.
    pub(crate) fn per_unit(
        &mut self,
        aggregate: &Aggregate,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        if aggregate.aggr_expr.iter().any(|e| CallOf::marker(e).is_some()) {
            return Err(operator(
                "a released table",
                "the release above: released rows have no unit, and cannot be joined or released with private ones",
            )
            .into());
        }
        let flow = self.rows(&aggregate.input)?;
        if flow.is_public() {
            return Err(operator("GROUP BY", "the aggregate of public rows").into());
        }
        let written = aggregate;
        let (flow, aggregate) = self.valued_aggregate(flow, aggregate)?;
        let keys = aggregate.group_expr.iter();
        let keys: Vec<UnitGroupKey> =
            keys.map(|key| key_of(&flow, key)).collect::<Result<_, _>>()?;
        let is_within_months = self.is_within_months(&flow, &aggregate.group_expr);
        if let Some(refusal) =
            several_months(&flow.subject, "GROUP BY").filter(|_| !is_within_months)
        {
            return Err(self.with_month_as_key(refusal, &flow).into());
        }
        if !is_within_months
            && !keys.iter().any(|key| key.is_unit || self.leads_to_unit(&flow, key))
        {
            return Err(NotAnalyzed::ManyUnits(Refusal::new(
                Reason::Operator,
                "GROUP BY",
                "GROUP BY without the unit, below a release, mixes the rows of many people",
                format!(
                    "{} among the keys of the inner GROUP BY, or the mechanism in front of its aggregate",
                    flow.subject.column().unwrap_or("the unit")
                ),
            )));
        }
        let flow = self.resolved(flow)?;
        let unit = flow.unit_column().ok_or_else(lost)?;
        let rows = flow.subject.max_rows();
        let calls = aggregate.aggr_expr.iter();
        let calls: Vec<Inner> =
            calls.map(|call| inner(call, &flow, rows)).collect::<Result<_, _>>()?;
        self.step(format!(
            "Aggregate each unit by {}{}",
            written.group_expr.iter().map(readable).collect::<Vec<_>>().join(", "),
            written.aggr_expr.iter().map(|e| format!(", {}", e.schema_name())).collect::<String>(),
        ));
        let one = aggregate.group_expr.iter().all(|key| flow.is_one_group(key));
        let (rows, fans) = match self.row_of_keys(&flow, &aggregate.group_expr) {
            _ if one => (Some(1), BTreeMap::new()),
            Some((table, most, unique)) => {
                let least = rows.into_iter().chain(most).min();
                (least, unique.then_some((table, 1)).into_iter().collect())
            }
            None => (rows, BTreeMap::new()),
        };
        let grouped = self.grouped(&flow, unit, &keys, &calls, &aggregate)?;
        let facts = keys.iter().map(|key| key.facts.clone());
        let facts = facts.chain(calls.iter().map(|call| call.facts.clone())).collect();
        let traces = keys.iter().map(|key| key.trace.clone());
        let below = flow.below();
        let of_call = |call: &Expr| {
            let call = CallOf::function(call);
            let definition = call.and_then(|AggregateFunction { func, params }| {
                Definition::of_pick(func.name(), &params.args, &below)
            });
            Trace { size: 1, definition, ..Trace::default() }
        };
        let traces = traces.chain(aggregate.aggr_expr.iter().map(of_call));
        let of_unit = |alike: bool| OfUnit { alike, ..OfUnit::default() };
        let traces = traces.enumerate().map(|(i, trace)| {
            let alike =
                one || aggregate.group_expr.get(i).is_some_and(|key| flow.is_one_group(key));
            Trace { of_unit: of_unit(alike), ..trace }
        });
        let traces = traces.collect();
        let subject = flow.subject.clone().with_rows(rows);
        let scope = Scope::new(Arc::clone(&aggregate.schema), facts);
        let distinct = scope.schema.columns().into_iter().take(keys.len()).collect();
        let (plan, owner) = grouped;
        Ok(PrivateRelation {
            plan,
            scope,
            traces,
            owner,
            subject,
            fans,
            distinct: Some(distinct),
            public: flow.public,
        })
    }

    /// True if a key is a column that leads to the unit.
    fn leads_to_unit(&self, flow: &PrivateRelation, key: &UnitGroupKey) -> bool {
        // In SQL, all rows without a match form one group, so they can belong to several units.
        let Some(origin) = key.trace.origin.as_ref().filter(|_| !key.trace.padded) else {
            return false;
        };
        let own = self.catalog.table(&origin.table).and_then(|t| t.unit()?.link());
        let leads = own.is_some_and(|link| link.columns == [origin.column.clone()]);
        let led = self.catalog.referring(&origin.table).any(|table| {
            let link = table.unit().and_then(|unit| unit.link());
            link.is_some_and(|link| link.references == [origin.column.clone()])
        });
        (leads || led) && !flow.subject.is_row()
    }

    /// The plan: the unit and the keys as groups, the aggregates, and their results under the
    /// planner's names.
    fn grouped(
        &mut self,
        flow: &PrivateRelation,
        unit: Column,
        keys: &[UnitGroupKey],
        calls: &[Inner],
        aggregate: &Aggregate,
    ) -> Result<(LogicalPlan, Owner), NotAnalyzed> {
        let owner = self.fresh("unit");
        let bare = |name: &str| Expr::Column(Column::from_name(name));
        let mut columns = vec![Expr::Column(unit).alias(owner.clone())];
        let mut groups = vec![bare(&owner)];
        let mut results = Vec::new();
        let mut names = aggregate.schema.iter();
        let mut result = |expr: Expr| {
            let (qualifier, field) = names.next().ok_or_else(lost)?;
            results.push(named(expr, qualifier, field.name()));
            Ok::<(), NotAnalyzed>(())
        };
        for key in keys {
            let name = self.fresh("key");
            columns.push(key.expr.clone().alias(name.clone()));
            groups.push(bare(&name));
            result(bare(&name))?;
        }
        let mut computed = Vec::new();
        for call in calls {
            let mut input = |expr: &Option<Expr>| {
                let name = self.fresh("argument");
                let expr = expr.clone()?;
                columns.push(expr.alias(name.clone()));
                Some(bare(&name))
            };
            let (argument, filter) = (input(&call.argument), input(&call.filter));
            let mut own = Vec::new();
            for expr in (call.computed)(argument, filter).map_err(|e| internal(&e))? {
                let name = self.fresh("aggregate");
                computed.push(expr.alias(name.clone()));
                own.push(bare(&name));
            }
            result((call.result)(own))?;
        }
        results.push(bare(&owner).alias(owner.clone()));
        let plan = LogicalPlanBuilder::from(flow.plan.clone())
            .project(columns)
            .and_then(|rows| rows.aggregate(groups, computed))
            .and_then(|groups| groups.project(results))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        Ok((plan, Owner::Unit(owner)))
    }
}

/// A key of a per-unit GROUP BY.
struct UnitGroupKey {
    expr: Expr,
    facts: Facts,
    trace: Trace,
    is_unit: bool,
}

fn key_of(flow: &PrivateRelation, key: &Expr) -> Result<UnitGroupKey, NotAnalyzed> {
    if matches!(key, Expr::GroupingSet(_)) {
        return Err(operator(
            "ROLLUP, CUBE or GROUPING SETS",
            "one GROUP BY in each subquery, the releases added above",
        )
        .into());
    }
    let Total { expr, facts } = exact(key, &flow.scope)?;
    let data_type = expr.get_type(flow.plan.schema()).map_err(|e| internal(&e))?;
    let computed =
        || Trace { definition: Some(Definition::new(key, &flow.below())), ..Trace::default() };
    let trace = flow.trace(key).cloned().unwrap_or_else(computed);
    let is_unit = facts.is_unit;
    let trace = Trace { raw: None, size: 1, ..trace };
    Ok(UnitGroupKey { expr: without_nan(expr, &data_type), facts, trace, is_unit })
}

/// The parts of a call below a release.
struct InnerCall<'a> {
    name: &'a str,
    distinct: bool,
    text: String,
    /// Its argument, and the facts about it.
    argument: Expr,
    facts: Facts,
    data_type: DataType,
    filter: Option<Expr>,
    result_type: DataType,
    /// The most rows that one unit has.
    rows: Option<u64>,
}

/// Splits a call into parts, and makes its argument and its FILTER total.
fn asked<'a>(
    call: &'a Expr,
    flow: &PrivateRelation,
    rows: Option<u64>,
) -> Result<InnerCall<'a>, NotAnalyzed> {
    let text = call.schema_name().to_string();
    let Some(AggregateFunction { func, params }) = CallOf::function(call) else {
        return Err(unknown(&text).into());
    };
    if !params.order_by.is_empty() || params.null_treatment.is_some() {
        return Err(unknown(&text).into());
    }
    let schema = flow.plan.schema();
    let (filter, scope) = match params.filter.as_deref() {
        None => (None, flow.scope.clone()),
        Some(filter) => (Some(total(filter, &flow.scope)?.expr), flow.scope.narrowed(filter)),
    };
    let [argument] = params.args.as_slice() else { return Err(unknown(&text).into()) };
    let Total { expr, facts } = exact(argument, &scope)?;
    let data_type = expr.get_type(schema).map_err(|e| internal(&e))?;
    let argument = without_nan(expr, &data_type);
    let (name, distinct) = (func.name(), params.distinct);
    if matches!(name, "sum" | "avg") && !data_type.is_numeric() {
        return Err(Refusal::new(
            Reason::Operand,
            &text,
            format!("SUM and AVG take numbers, not {}", sql_type(&data_type)),
            "COUNT, MIN or MAX, or a CAST to a number",
        )
        .into());
    }
    let result_type = call.get_type(schema).map_err(|e| internal(&e))?;
    Ok(InnerCall { name, distinct, text, argument, facts, data_type, filter, result_type, rows })
}

/// The aggregates that are exact functions of a multiset of rows.
fn inner(call: &Expr, flow: &PrivateRelation, rows: Option<u64>) -> Result<Inner, NotAnalyzed> {
    let asked = asked(call, flow, rows)?;
    match (asked.name, asked.distinct) {
        ("count", _) => Ok(counted(asked)),
        // ANY_VALUE may be any of its values, and the smallest one depends on no order.
        ("min" | "max" | "any_value", _) => Ok(extreme(asked)),
        ("bool_or" | "bool_and", false) if asked.data_type == DataType::Boolean => {
            Ok(condition(asked))
        }
        ("median", false)
            // For 32-bit floats, the kernel's sum of two large values can be infinite.
            if matches!(asked.data_type, DataType::Float64 | DataType::Decimal128(..)) =>
        {
            Ok(middle(asked))
        }
        ("median", false) if is_temporal(&asked.data_type) => Err(no_middle(&asked.text).into()),
        ("stddev" | "stddev_pop" | "var" | "var_samp" | "var_pop", false)
            if asked.data_type.is_floating() =>
        {
            Ok(spread(asked)?)
        }
        ("sum", false) if asked.data_type.is_floating() => Ok(float_sum(asked)?),
        ("sum", false) => Ok(exact_sum(asked)),
        ("avg", false) if asked.data_type.is_floating() => Ok(float_mean(asked)?),
        ("avg", false) if has_few_digits(&asked) => Ok(decimal_mean(asked)?),
        _ => Err(unknown(&asked.text).into()),
    }
}

/// One aggregate of the argument, which is 1 for an aggregate without one, such as COUNT(*).
fn one(build: fn(Expr) -> Expr) -> Computed {
    Box::new(move |argument, filter| {
        let argument = argument.unwrap_or_else(|| lit(1_i64));
        Ok(vec![with_filter(build(argument), filter)?])
    })
}

/// The result of the last aggregate.
fn only(mut results: Vec<Expr>) -> Expr {
    results.pop().unwrap_or_else(|| lit(ScalarValue::Null))
}

fn counted(asked: InnerCall<'_>) -> Inner {
    let most = asked.rows.and_then(|rows| i64::try_from(rows).ok());
    let always = Interval::integer_range(0, most.unwrap_or(i64::MAX));
    let range = match most {
        Some(_) => always.clone(),
        None => Interval::everything().above(&Rational::from_integer(0.into())),
    };
    Inner {
        argument: Some(asked.argument),
        filter: asked.filter,
        computed: one(if asked.distinct { count_distinct } else { count }),
        result: Box::new(move |results| match most {
            Some(most) => {
                let end = |n: i64| ScalarValue::Int64(Some(n));
                clamp(only(results), end(0), end(most))
            }
            None => only(results),
        }),
        facts: Facts { always, ..Facts::ranged(range, false) },
    }
}

/// The least or greatest value of a unit. It is one of the unit's values, so it has their domain.
fn extreme(asked: InnerCall<'_>) -> Inner {
    let null_key = asked.facts.null_key || asked.filter.is_some();
    Inner {
        argument: Some(asked.argument),
        filter: asked.filter,
        computed: one(if asked.name == "max" { max } else { min }),
        result: Box::new(only),
        facts: Facts { nullable: true, null_key, is_unit: false, ..asked.facts },
    }
}

/// True if a condition holds on some row (BOOL_OR) or on every row (BOOL_AND).
fn condition(asked: InnerCall<'_>) -> Inner {
    Inner {
        argument: Some(asked.argument),
        filter: asked.filter,
        computed: one(if asked.name == "bool_or" { bool_or } else { bool_and }),
        result: Box::new(only),
        facts: Facts::of_type(&DataType::Boolean),
    }
}

/// The median: the middle value, or the midpoint of the two middle values.
fn middle(asked: InnerCall<'_>) -> Inner {
    let bounds = ends(&asked.facts.known(), &asked.result_type);
    Inner {
        argument: Some(asked.argument),
        filter: asked.filter,
        computed: one(median),
        // The midpoint of two infinities can be NaN.
        result: Box::new(move |results| match &bounds {
            Some(_) => clamped(only(results), &bounds),
            None => without_nan(only(results), &asked.result_type),
        }),
        facts: Facts { nullable: true, keys: None, is_unit: false, ..asked.facts },
    }
}

/// A variance or standard deviation of floats, from their exact moments on a grid around the middle
/// of the range.
///
/// Each value is within w/2 of the middle of a range of width w. So a variance is at most w²/4. If
/// the divisor is one less than the number of values, it is at most w²/2.
fn spread(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let known = asked.facts.known();
    let none = || no_grid(&asked.text);
    let (lo, hi) = known.bounds().ok_or_else(none)?;
    let (width, middle) = (hi - lo, (lo + hi) / Rational::from_integer(2.into()));
    let centered = known.sub(&Interval::point(middle.clone()));
    let grid = grid_of(&centered.round_outward_f64(), &asked.text)?;
    let middle = middle.to_f64().ok_or_else(none)?;
    let (root, sample) = match asked.name {
        "stddev" => (true, true),
        "stddev_pop" => (true, false),
        "var_pop" => (false, false),
        _ => (false, true),
    };
    let share = Rational::new(1.into(), (if sample { 2 } else { 4 }).into());
    let most = (&width * &width * share).to_f64().filter(|most| most.is_finite());
    let most = most.ok_or_else(none)?;
    // Slightly more, because floats round.
    let most = if root { most.sqrt() } else { most } * (1.0 + 1e-9);
    let end = Rational::from_float(most).ok_or_else(none)?;
    let range = Interval::between(Rational::from_integer(0.into()), end);
    let facts = Facts::ranged(range, true);
    let real = |e: Expr| Expr::TryCast(TryCast::new(Box::new(e), DataType::Float64));
    let steps = grid.per_one();
    Ok(Inner {
        argument: Some(grid.steps(real(asked.argument) - lit(middle))),
        filter: asked.filter,
        computed: Box::new(|argument, filter| {
            let argument = argument.unwrap_or_else(|| lit(1_i64));
            let digits = DataType::Decimal128(19, 0);
            let wide = Expr::TryCast(TryCast::new(Box::new(argument.clone()), digits));
            Ok(vec![
                with_filter(sum(argument.clone()), filter.clone())?,
                with_filter(sum(wide.clone() * wide), filter.clone())?,
                with_filter(count(argument), filter)?,
            ])
        }),
        result: Box::new(move |results| {
            let [first, second, n] = <[Expr; 3]>::try_from(results)
                .unwrap_or_else(|_| [lit(0_i64), lit(0_i64), lit(0_i64)]);
            let (first, second, n) = (real(first), real(second), real(n));
            let mean = first.clone() / nullif(n.clone(), lit(0.0));
            let squares = second - first * mean;
            let divisor = if sample { n - lit(1.0) } else { n };
            let variance = squares / nullif(divisor, lit(0.0)) / lit(steps * steps);
            let float = |x: f64| ScalarValue::Float64(Some(x));
            let most_variance = if root { most * most } else { most };
            let variance = clamp(variance, float(0.0), float(most_variance));
            if root { clamp(sqrt(variance), float(0.0), float(most)) } else { variance }
        }),
        facts,
    })
}

/// A sum of floats, on a grid.
fn float_sum(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let grid = grid_of_sums(&asked.facts, &asked.text)?;
    let facts = summed(&asked.facts, asked.rows, &asked.result_type);
    let bounds = ends(&facts.always, &asked.result_type);
    Ok(Inner {
        argument: Some(grid.steps(asked.argument)),
        filter: asked.filter,
        computed: one(sum),
        result: Box::new(move |results| clamped(grid.value(only(results)), &bounds)),
        facts,
    })
}

/// A sum of whole numbers or decimals.
fn exact_sum(asked: InnerCall<'_>) -> Inner {
    let facts = summed(&asked.facts, asked.rows, &asked.result_type);
    let bounds = ends(&facts.always, &asked.result_type);
    Inner {
        argument: Some(asked.argument),
        filter: asked.filter,
        computed: one(sum),
        result: Box::new(move |results| clamped(only(results), &bounds)),
        facts,
    }
}

/// A mean of floats: a sum on a grid, over a count.
fn float_mean(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let grid = grid_of_sums(&asked.facts, &asked.text)?;
    let facts = Facts { keys: None, is_unit: false, nullable: true, ..asked.facts };
    let bounds = ends(&facts.known(), &asked.result_type);
    Ok(Inner {
        argument: Some(grid.steps(asked.argument)),
        filter: asked.filter,
        computed: Box::new(|argument, filter| {
            let argument = argument.unwrap_or_else(|| lit(1_i64));
            Ok(vec![
                with_filter(sum(argument.clone()), filter.clone())?,
                with_filter(count(argument), filter)?,
            ])
        }),
        result: Box::new(move |mut results| {
            let n = results.pop().unwrap_or_else(|| lit(0_i64));
            clamped(grid.mean(only(results), n), &bounds)
        }),
        facts,
    })
}

/// True if the values are decimals of at most 15 digits, by their type or their range. Their sums
/// do not overflow for any number of rows.
fn has_few_digits(asked: &InnerCall<'_>) -> bool {
    const MOST: u64 = 1_000_000_000_000_000;
    let unit = unit_of(&asked.data_type);
    let most = asked.facts.known().max_abs().map(|most| most / unit);
    matches!(asked.data_type, DataType::Decimal128(..))
        && most.is_some_and(|most| most <= Rational::from_integer(MOST.into()))
}

/// A mean of decimals with few digits, clamped to their range.
fn decimal_mean(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let facts = Facts { keys: None, is_unit: false, nullable: true, ..asked.facts };
    let facts = Facts { always: facts.known(), ..facts };
    let bounds = ends(&facts.always, &asked.result_type);
    // A file may contain numbers with more digits than its type allows, and their mean would fail.
    let digits = ends(&facts.always, &asked.data_type);
    if digits.is_none() {
        return Err(unknown(&asked.text));
    }
    Ok(Inner {
        argument: Some(clamped(asked.argument, &digits)),
        filter: asked.filter,
        computed: one(avg),
        result: Box::new(move |results| clamped(only(results), &bounds)),
        facts,
    })
}

fn no_middle(text: &str) -> Refusal {
    Refusal::new(
        Reason::Function,
        text,
        format!("{text} is not computed over the rows of one person"),
        "MIN or MAX of dates and timestamps, or MEDIAN(x - DATE '2000-01-01'), the days since then",
    )
}

fn unknown(text: &str) -> Refusal {
    Refusal::new(
        Reason::Function,
        text,
        format!(
            "{text} is not supported over the rows of one person: its result may depend on their order"
        ),
        "COUNT, SUM, AVG, MIN, MAX, ANY_VALUE, MEDIAN, STDDEV, BOOL_OR or COUNT(DISTINCT x); for long decimals, AVG(CAST(x AS DOUBLE))",
    )
}

/// The call with a FILTER. DataFusion's own builder would lose DISTINCT.
fn with_filter(call: Expr, filter: Option<Expr>) -> datafusion::common::Result<Expr> {
    let Expr::AggregateFunction(mut call) = call else {
        return internal_err!("{call} is no aggregate");
    };
    call.params.filter = filter.map(Box::new);
    Ok(Expr::AggregateFunction(call))
}
