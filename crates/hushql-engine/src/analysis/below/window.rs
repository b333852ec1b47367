//! Window functions below a release, over each unit's own rows.
//!
//! In: window functions that are partitioned by the unit. Out: the same rows with one more column
//! for each function. As in per-unit aggregates, a result must be a function of the unit's multiset
//! of rows. If a function depends on which of two rows comes first, its order is therefore extended
//! by all columns, so that only equal rows are left in an undetermined order: first by those that
//! are read, so that no other column decides anything. Functions that count
//! peers use the order as written. Functions over one written order may thus need two orders. Each
//! order has its own operator, because DataFusion sorts rows by the order of an operator's first
//! function. Once one operator has numbered equal rows, they differ. So each later order that tells
//! rows apart also includes the results of the earlier operators.
//!
//! ```text
//! ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY price DESC)     … ORDER BY price DESC, and every other column
//! ```
//!
//! Upstream: docs/upstream.md, 12 (keep: one order for each operator) and 13. Delete `Computed`
//! when an order by a comparison is planned without it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DataFusionError, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Window, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, lit,
};
use num_traits::ToPrimitive;

use super::column_origin::{Definition, OfUnit, Trace};
use super::float_grid::{clamped, ends, grid_of_sums, summed};
use super::frame::{all_rows, frame_error, may_be_empty, rows_so_far};
use super::relation::{PrivateRelation, named};
use super::shares::instead_of_shares;
use crate::analysis::below::refusals::{operator, several_months};
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::calendar::leaves;
use crate::analysis::expr::facts::{Facts, KeySource, Scope, rational};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{Total, is_string, is_temporal, readable, union};
use crate::analysis::expr::{computable_types, exact};
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::functions::{sound, without_nan};
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

impl Walk<'_> {
    /// Window functions over the rows of each unit.
    ///
    /// # Guarantee
    /// Every new value is a function of the multiset of rows of the row's own unit, and of the row.
    pub(crate) fn window(&mut self, window: &Window) -> Result<PrivateRelation, NotAnalyzed> {
        let flow = self.rows(&window.input)?;
        if flow.is_public() {
            return Err(operator("a window function", "the public rows read before").into());
        }
        if let Some(refusal) = several_months(&flow.subject, "OVER") {
            return Err(refusal.into());
        }
        let mut flow = self.resolved(flow)?;
        // Rows that are equal in every column may differ in the file's raw columns. This difference
        // must not matter.
        for trace in &mut flow.traces {
            trace.raw = None;
        }
        if flow.subject.is_row() {
            let hint = window.window_expr.iter().find_map(of_shares);
            let hint = hint.unwrap_or_else(|| "an aggregate".to_owned());
            return Err(operator("a window function over rows that are units", &hint).into());
        }
        let unit = Expr::Column(flow.unit_column().ok_or_else(lost)?);
        let rows = flow.subject.max_rows();
        let (mut orders, mut values): (Vec<Ordered>, _) = (Vec::new(), Vec::new());
        let mut sorted = Computed { prefix: self.fresh("order"), columns: Vec::new() };
        let mut facts = flow.scope.facts.clone();
        let mut traces = flow.traces.clone();
        let below = flow.below();
        let places = self.read_above.first(window, flow.scope.schema.fields().len());
        for expr in &window.window_expr {
            let Windowed { functions, order, result, facts: known } =
                over_unit(expr, (&flow, &places), &unit, rows, &mut sorted)?;
            let mut own = Vec::new();
            for function in functions {
                let name = self.fresh("window");
                let ordered = Ordered::new(function, order, &name);
                match orders.iter_mut().find(|other| other.is_as(&ordered)) {
                    Some(other) => other.functions.extend(ordered.functions),
                    None => orders.push(ordered),
                }
                own.push(Expr::Column(Column::from_name(name)));
            }
            values.push(result(own));
            facts.push(known);
            let definition = if let Expr::WindowFunction(call) = unaliased(expr) {
                let name = call.fun.name().to_lowercase();
                Definition::of_pick(&name, &call.params.args, &below)
            } else {
                None
            };
            let of_unit = of_unit(expr, &flow);
            traces.push(Trace { size: 1, of_unit, definition, ..Trace::default() });
        }
        let kept =
            flow.scope.schema.iter().map(|(qualifier, field)| {
                Expr::Column(Column::new(qualifier.cloned(), field.name()))
            });
        let new = window.schema.iter().zip(&facts).skip(flow.scope.facts.len()).zip(values);
        let new = new.map(|(((qualifier, field), facts), value)| {
            // Sums of decimals can wrap around. Moments are taken from rows, and need no check.
            let value = match leaves(&facts.always, field.data_type()) {
                true => value,
                false => sound(value, field.data_type()),
            };
            named(value, qualifier, field.name())
        });
        let carried = flow.carried();
        let carried = carried.iter().map(|name| {
            flow.hidden(name).map(|column| named(Expr::Column(column), None, name)).ok_or_else(lost)
        });
        let carried: Vec<Expr> = carried.collect::<Result<_, _>>()?;
        let columns: Vec<Expr> = kept.chain(new).chain(carried).collect();
        let all = flow.plan.schema().columns().into_iter().map(Expr::Column);
        let plan = LogicalPlanBuilder::from(flow.plan.clone())
            .project(all.chain(sorted.into_columns()))
            .and_then(LogicalPlanBuilder::build)
            .and_then(|input| Ordered::stacked(orders, input))
            .and_then(|rows| LogicalPlanBuilder::from(rows).project(columns))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        self.step(format!("Window over the rows of each {}", self.whose()));
        let scope = Scope::new(Arc::clone(&window.schema), facts);
        Ok(PrivateRelation { plan, scope, traces, ..flow })
    }
}

/// What a window function implies about the rows of its unit, if all rows of a unit are in one
/// partition.
fn of_unit(expr: &Expr, flow: &PrivateRelation) -> OfUnit {
    let mut inner = expr;
    while let Expr::Alias(alias) = inner {
        inner = &alias.expr;
    }
    let Expr::WindowFunction(function) = inner else { return OfUnit::default() };
    let params = &function.params;
    if !params.partition_by.iter().all(|part| flow.is_alike(part)) {
        return OfUnit::default();
    }
    let first = matches!(&params.window_frame.start_bound,
        WindowFrameBound::Preceding(value) if value.is_null());
    let last = matches!(&params.window_frame.end_bound,
        WindowFrameBound::Following(value) if value.is_null());
    let name = function.fun.name().to_lowercase();
    let alike = match name.as_str() {
        "first_value" => first,
        "last_value" => last,
        "count" | "min" | "max" | "sum" => first && last,
        _ => false,
    };
    OfUnit { alike, numbers: name == "row_number", unmatched: None }
}

/// Window functions over the same partitions in the same order.
struct Ordered {
    partition_by: Vec<Expr>,
    order_by: Vec<Sort>,
    order: Order,
    /// The functions, and the names of their results.
    functions: Vec<(WindowFunction, String)>,
}

impl Ordered {
    fn new(function: WindowFunction, order: Order, name: &str) -> Self {
        let WindowFunctionParams { partition_by, order_by, .. } = function.params.clone();
        Self { partition_by, order_by, order, functions: vec![(function, name.to_owned())] }
    }

    fn is_as(&self, other: &Self) -> bool {
        self.partition_by == other.partition_by
            && self.order_by == other.order_by
            && self.order == other.order
    }

    /// Stacks one operator for each order.
    ///
    /// # Guarantee
    /// If an order tells rows apart, only rows with equal columns and equal results of all earlier
    /// operators are left in an undetermined order.
    fn stacked(orders: Vec<Self>, input: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
        let mut earlier: Vec<Sort> = Vec::new();
        let mut plan = input;
        for Self { order, functions, .. } in orders {
            let named = functions.iter().map(|(function, name)| {
                let mut function = function.clone();
                if order == Order::Total {
                    function.params.order_by.extend(earlier.iter().cloned());
                }
                Expr::WindowFunction(Box::new(function)).alias(name)
            });
            plan = LogicalPlan::Window(Window::try_new(named.collect(), Arc::new(plan))?);
            let results =
                functions.into_iter().map(|(_, name)| Expr::Column(Column::from_name(name)));
            earlier.extend(results.map(|result| Sort::new(result, true, false)));
        }
        Ok(plan)
    }
}

/// Columns that are computed below a window, because the planner loses track of orders by
/// comparisons.
struct Computed {
    prefix: String,
    columns: Vec<Expr>,
}

impl Computed {
    /// A column that replaces an expression.
    fn column(&mut self, expr: Expr) -> Expr {
        if matches!(expr, Expr::Column(_)) {
            return expr;
        }
        let known = self.columns.iter().position(|column| *column == expr);
        let at = known.unwrap_or_else(|| {
            self.columns.push(expr);
            self.columns.len() - 1
        });
        Expr::Column(Column::from_name(self.name(at)))
    }

    fn name(&self, at: usize) -> String {
        format!("{}_{at}", self.prefix)
    }

    fn into_columns(self) -> Vec<Expr> {
        let names = (0..self.columns.len()).map(|at| self.name(at)).collect::<Vec<_>>();
        self.columns.into_iter().zip(names).map(|(column, name)| column.alias(name)).collect()
    }
}

/// The functions that are computed for one window function, and how its value follows from their
/// results.
struct Windowed {
    functions: Vec<WindowFunction>,
    order: Order,
    result: Box<dyn FnOnce(Vec<Expr>) -> Expr>,
    facts: Facts,
}

/// Another function over the same window.
fn of(
    function: &Arc<AggregateUDF>,
    argument: Expr,
    params: &WindowFunctionParams,
) -> WindowFunction {
    let fun = WindowFunctionDefinition::AggregateUDF(Arc::clone(function));
    WindowFunction { fun, params: WindowFunctionParams { args: vec![argument], ..params.clone() } }
}

/// A sum or mean of floats: sums of steps of a grid, and for a mean the number of values.
///
/// # Guarantee
/// A function of the multiset of values in the frame. Integers are added, so neither the order of
/// rows nor the way a frame moves over them matters. Every step has a magnitude of at most 2⁶² and
/// a frame has at most 2⁶⁰ rows, as in [`grid_of_sums`]; otherwise the sum wraps around at 64 bits.
/// In any case, the value is clamped to its range.
fn of_floats(
    mean: bool,
    x: &Total,
    (params, order): (&WindowFunctionParams, Order),
    (rows, of_block): (Option<u64>, bool),
    sorted: &mut Computed,
    text: &str,
) -> Result<Windowed, Refusal> {
    let grid = grid_of_sums(&x.facts, text)?.for_many(of_block);
    let double = DataType::Float64;
    let facts = match mean {
        true => Facts { keys: None, is_unit: false, nullable: true, ..x.facts.clone() },
        false => summed(&x.facts, rows, &double),
    };
    let bounds = ends(&facts.known(), &double);
    let steps = sorted.column(grid.steps(without_nan(x.expr.clone(), &double)));
    let mut functions = vec![of(&sum_udaf(), steps.clone(), params)];
    if mean {
        functions.push(of(&count_udaf(), steps, params));
    }
    let result = move |mut results: Vec<Expr>| {
        let n = if mean { results.pop() } else { None };
        let sum = results.pop().unwrap_or_else(|| lit(ScalarValue::Null));
        let value = match n {
            None => grid.value(sum),
            Some(n) => grid.mean(sum, n),
        };
        clamped(value, &bounds)
    };
    Ok(Windowed { functions, order, result: Box::new(result), facts })
}

/// How a window function depends on the order of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// It depends on the order of single rows.
    Total,
    /// It depends only on which rows are peers.
    Peers,
}

/// The window functions that are supported.
const COMPUTED: &str = "one of ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, MIN, MAX, SUM and AVG, with PARTITION BY the unit";

/// The largest distance of LAG and LEAD, in rows.
const MOST_ROWS_AWAY: i64 = 100_000;

/// What to write instead of a window function over shares of rows.
fn of_shares(expr: &Expr) -> Option<String> {
    let Expr::WindowFunction(function) = unaliased(expr) else { return None };
    instead_of_shares(function)
}

fn unaliased(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

/// The same call with other parameters, for a hint.
fn changed(function: &WindowFunction, change: impl FnOnce(&mut WindowFunctionParams)) -> String {
    let mut function = function.clone();
    change(&mut function.params);
    readable(&Expr::WindowFunction(Box::new(function)))
}

/// The literal distance of LAG and LEAD.
fn rows_away(by: &Expr) -> Option<i64> {
    let Expr::Literal(value, _) = by else { return None };
    let by = rational(value).filter(Rational::is_integer)?.to_integer().to_i64()?;
    (1..=MOST_ROWS_AWAY).contains(&by).then_some(by)
}

/// The literal default of LAG and LEAD, as an equal value of the column's type.
fn default_of(default: &Expr, data_type: &DataType) -> Option<ScalarValue> {
    let Expr::Literal(value, _) = default else { return None };
    if value.is_null() {
        return ScalarValue::try_new_null(data_type).ok();
    }
    let own = value.cast_to(data_type).ok().filter(|own| !own.is_null())?;
    let equal = match (rational(value), rational(&own)) {
        (Some(written), Some(own)) => data_type.is_floating() || written == own,
        (None, None) => is_string(data_type) == is_string(&value.data_type()),
        // Dates are written as texts.
        (None, Some(_)) => is_temporal(data_type) && value.try_as_str().is_some(),
        (Some(_), None) => false,
    };
    equal.then_some(own)
}

/// The literal distance of LAG and LEAD, followed by the default, if there is one.
fn shift(
    function: &WindowFunction,
    by: &Expr,
    default: Option<&Expr>,
    data_type: &DataType,
) -> Result<Vec<Expr>, Refusal> {
    let name = function.fun.name().to_lowercase();
    let refused = |why: String, hint: String| {
        let text = readable(&Expr::WindowFunction(Box::new(function.clone())));
        Refusal::new(Reason::Operator, text, why, hint)
    };
    let Some(by) = rows_away(by) else {
        let hint = changed(function, |params| {
            params.args.truncate(1);
            params.args.push(lit(2_i64));
        });
        let why = format!(
            "the distance of {name} is a literal number of rows from 1 to {MOST_ROWS_AWAY}"
        );
        return Err(refused(why, hint));
    };
    let mut literals = vec![Expr::Literal(ScalarValue::Int64(Some(by)), None)];
    if let Some(default) = default {
        let Some(value) = default_of(default, data_type) else {
            let why = format!(
                "the default of {name} is a literal of its column's type, {}",
                sql_type(data_type)
            );
            return Err(refused(why, changed(function, |params| params.args.truncate(2))));
        };
        literals.push(Expr::Literal(value, None));
    }
    Ok(literals)
}

/// The frame of FIRST_VALUE and LAST_VALUE, in which one row is the first or the last.
///
/// # Errors
/// Refuses a frame in which peers define the end that is picked: in a total order, no two rows are
/// peers.
fn frame_of_one(function: &WindowFunction) -> Result<WindowFrame, Refusal> {
    let frame = &function.params.window_frame;
    let name = function.fun.name().to_lowercase();
    let (picked, other) = match name.as_str() {
        "first_value" => (&frame.start_bound, &frame.end_bound),
        _ => (&frame.end_bound, &frame.start_bound),
    };
    let at_an_end = |bound: &WindowFrameBound| {
        matches!(bound,
            WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value)
                if value.is_null())
    };
    // A frame that contains the row itself is never empty.
    let reaches = at_an_end(other) || matches!(other, WindowFrameBound::CurrentRow);
    if frame.units != WindowFrameUnits::Rows && !(at_an_end(picked) && reaches) {
        let text = readable(&Expr::WindowFunction(Box::new(function.clone())));
        let why = format!("{name} picks one of several rows that are equal in this order");
        let all = changed(function, |params| params.window_frame = all_rows());
        return Err(Refusal::new(Reason::Operator, text, why, all));
    }
    // This is the first or the last row of the partition, found without comparing rows by all
    // columns.
    Ok(if frame.units == WindowFrameUnits::Range { all_rows() } else { frame.clone() })
}

/// The order of a window: the written keys. If it matters which row comes first, all columns
/// follow, in the order of their places.
fn ordered_by(
    written: &[Sort],
    order: Order,
    (flow, places): (&PrivateRelation, &[usize]),
    sorted: &mut Computed,
) -> Result<Vec<Sort>, NotAnalyzed> {
    let mut order_by = Vec::new();
    for key in written {
        let expr = sorted.column(exact(&key.expr, &flow.scope)?.expr);
        order_by.push(Sort { expr, ..key.clone() });
    }
    if order == Order::Total {
        let columns = flow.scope.schema.columns();
        for column in places.iter().filter_map(|at| columns.get(*at)) {
            let column = Expr::Column(column.clone());
            computable_types::check(&column, &flow.scope.schema)?;
            order_by.push(Sort::new(column, true, false));
        }
    }
    Ok(order_by)
}

/// The facts about a count of a unit's rows, which starts at `lo`.
///
/// The number of rows is declared and bounded above the window, so nothing may fail here if a
/// person has more rows.
fn counted(lo: i64, rows: Option<u64>) -> Facts {
    let most = rows.and_then(|rows| i64::try_from(rows).ok());
    let end = |n: i64| Rational::from_integer(n.into());
    Facts {
        always: Interval::integer_range(lo, i64::MAX),
        keys: most.map(|most| KeySource::Integers(lo, most)),
        ..Facts::ranged(Interval::new(Some(end(lo)), most.map(end)), true)
    }
}

/// The refusal of a window over several units, with the same window over the rows of each. Without
/// a column that names the unit, it stays as it is.
fn by_unit(refusal: Refusal, function: &WindowFunction, flow: &PrivateRelation) -> Refusal {
    let at = flow.scope.facts.iter().position(|facts| facts.is_unit);
    let Some(unit) = at.and_then(|at| flow.scope.schema.columns().into_iter().nth(at)) else {
        return refusal;
    };
    let hint = changed(function, |params| params.partition_by.insert(0, Expr::Column(unit)));
    refusal.writing(&hint)
}

/// A window function over one unit's rows.
fn over_unit(
    expr: &Expr,
    (flow, places): (&PrivateRelation, &[usize]),
    unit: &Expr,
    rows: Option<u64>,
    sorted: &mut Computed,
) -> Result<Windowed, NotAnalyzed> {
    let text = readable(expr);
    let shares = of_shares(expr);
    let refused = |message: String| {
        Refusal::new(
            Reason::Operator,
            &text,
            message,
            shares.clone().unwrap_or_else(|| COMPUTED.to_owned()),
        )
    };
    let inner = unaliased(expr);
    let Expr::WindowFunction(function) = inner else {
        return Err(refused("this is not a window function".to_owned()).into());
    };
    let mut params = function.params.clone();
    if params.filter.is_some() || params.distinct || params.null_treatment.is_some() {
        return Err(refused(
            "FILTER, DISTINCT and IGNORE NULLS are not supported in a window".to_owned(),
        )
        .into());
    }
    let parts = params.partition_by.iter().map(|e| exact(e, &flow.scope));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    // The partition has the hidden column of the block in any case.
    let is_within = flow.subject.blocks().is_some();
    if !is_within && !parts.iter().any(|part| part.facts.is_unit) {
        let refusal = refused(format!(
            "a window below a release is partitioned by the unit, {}",
            flow.subject.column().unwrap_or("the unit")
        ));
        let is_written = shares.is_some();
        return Err(if is_written { refusal } else { by_unit(refusal, function, flow) }.into());
    }
    let (mut args, mut shifted) = (Vec::new(), None);
    for arg in &params.args {
        args.push(exact(arg, &flow.scope)?);
    }
    let whole = |e: &Expr| e.get_type(flow.plan.schema()).is_ok_and(|t| !t.is_floating());
    let is_float = |e: &Expr| e.get_type(flow.plan.schema()).is_ok_and(|t| t == DataType::Float64);
    let name = function.fun.name().to_lowercase();
    let framed = if params.window_frame.units == WindowFrameUnits::Rows {
        Order::Total
    } else {
        Order::Peers
    };
    let result_type = inner.get_type(flow.plan.schema()).map_err(|e| internal(&e))?;
    let (order, facts) = match (name.as_str(), args.as_slice()) {
        ("row_number", []) => (Order::Total, counted(1, rows)),
        ("rank" | "dense_rank", []) => (Order::Peers, counted(1, rows)),
        ("count", [_]) => (framed, counted(0, rows)),
        ("min" | "max", [x]) => {
            let null_key = x.facts.null_key || may_be_empty(&params.window_frame);
            let facts = Facts { nullable: true, keys: None, null_key, ..x.facts.clone() };
            (framed, Facts { is_unit: false, ..facts })
        }
        ("sum", [x]) if whole(&x.expr) => (framed, Facts::of_type(&result_type)),
        // Sums of floats are computed on a grid, see below.
        ("sum" | "avg", [x]) if is_float(&x.expr) => (framed, Facts::of_type(&result_type)),
        ("lag" | "lead", [x]) => {
            let facts = Facts { nullable: true, null_key: true, keys: None, ..x.facts.clone() };
            (Order::Total, Facts { is_unit: false, ..facts })
        }
        ("lag" | "lead", [x, by, default @ ..]) if default.len() <= 1 => {
            let x_type = x.expr.get_type(flow.plan.schema()).map_err(|e| internal(&e))?;
            let literals = shift(function, &by.expr, default.first().map(|d| &d.expr), &x_type)?;
            let mut known = vec![x.facts.clone()];
            if let [_, Expr::Literal(default, _)] = literals.as_slice() {
                known.push(Facts::of_literal(default));
            }
            // Without a default, it is NULL on rows without a row at this distance.
            let null_key = default.is_empty() || known.iter().any(|facts| facts.null_key);
            shifted = Some(literals);
            let facts = Facts { nullable: true, keys: None, null_key, ..union(&known) };
            (Order::Total, Facts { is_unit: false, ..facts })
        }
        ("first_value" | "last_value", [x]) => {
            params.window_frame = frame_of_one(function)?;
            let null_key = x.facts.null_key || may_be_empty(&params.window_frame);
            let facts = Facts { nullable: true, keys: None, null_key, ..x.facts.clone() };
            (Order::Total, Facts { is_unit: false, ..facts })
        }
        _ => {
            let message =
                format!("with these arguments {name} is not computed in a window below a release");
            return Err(refused(message).into());
        }
    };
    if let Some(message) = frame_error(&params.window_frame) {
        let hint = changed(function, |params| params.window_frame = rows_so_far());
        return Err(refused(message.to_owned()).writing(&hint).into());
    }
    params.order_by = ordered_by(&params.order_by, order, (flow, places), sorted)?;
    params.partition_by = vec![unit.clone()];
    params.partition_by.extend(parts.into_iter().map(|part| part.expr));
    if let ("sum" | "avg", [x]) = (name.as_str(), args.as_slice())
        && is_float(&x.expr)
    {
        let rows = (rows, is_within);
        return Ok(of_floats(name == "avg", x, (&params, order), rows, sorted, &text)?);
    }
    params.args = args.into_iter().map(|arg| arg.expr).collect();
    if let Some(literals) = shifted {
        params.args.truncate(1);
        params.args.extend(literals);
    }
    let functions = vec![WindowFunction { fun: function.fun.clone(), params }];
    let result = |mut results: Vec<Expr>| results.pop().unwrap_or_else(|| lit(ScalarValue::Null));
    Ok(Windowed { functions, order, result: Box::new(result), facts })
}

#[cfg(test)]
mod tests {
    use datafusion::functions_window::row_number::row_number_udwf;
    use datafusion::prelude::col;

    use super::*;

    fn ordered(order: Order, key: &str, name: &str) -> Ordered {
        let fun = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let mut function = WindowFunction::new(fun, Vec::new());
        function.params.order_by = vec![Sort::new(col(key), true, false)];
        Ordered::new(function, order, name)
    }

    /// The orders of the operators of a plan, from bottom to top.
    fn orders(mut plan: &LogicalPlan) -> Vec<Vec<String>> {
        let mut orders = Vec::new();
        while let LogicalPlan::Window(window) = plan {
            let [Expr::Alias(one)] = window.window_expr.as_slice() else { panic!("{plan}") };
            let Expr::WindowFunction(function) = one.expr.as_ref() else { panic!("{plan}") };
            let keys = function.params.order_by.iter().map(|key| key.expr.to_string());
            orders.push(keys.collect());
            plan = &window.input;
        }
        orders.reverse();
        orders
    }

    /// ROW_NUMBER makes equal rows different. A later order that tells rows apart must include its
    /// numbers, or the pairs of results would depend on how the rows are stored.
    #[test]
    fn later_orders_name_earlier_results() {
        let rows = LogicalPlanBuilder::values(vec![vec![lit(1), lit(2)]]).unwrap();
        let rows = rows.project(vec![col("column1").alias("a"), col("column2").alias("b")]);
        let all = vec![
            ordered(Order::Total, "a", "first"),
            ordered(Order::Peers, "a", "second"),
            ordered(Order::Total, "b", "third"),
        ];
        let plan = Ordered::stacked(all, rows.unwrap().build().unwrap()).unwrap();
        assert_eq!(orders(&plan), [vec!["a"], vec!["a"], vec!["b", "first", "second"]]);
    }
}
