//! Dates in days and moments in microseconds. DataFusion's nanoseconds would end in 2262.
//!
//! In: a plan as the planner makes it, with TIMESTAMP in microseconds ([`Types`]). Out: the plan,
//! in which dates, moments and texts of these have one type where they meet: in each comparison,
//! list, CASE, COALESCE, join and union. Texts that are read as moments lose their offsets, and may
//! lack seconds, as in PostgreSQL. Only types and literals matter, not rows.
//!
//! ```text
//! day > ts                                        CAST(day AS TIMESTAMP) > ts
//! ts < '2024-01-05 10:30:00+01'                   ts < CAST('2024-01-05 10:30:00' AS TIMESTAMP)
//! TIMESTAMPTZ '2024-01-05 10:30:00+01'            CAST('2024-01-05 09:30:00' AS TIMESTAMP)
//! ```
//!
//! A column in nanoseconds keeps them beside constants that fit, and otherwise has microseconds.
//!
//! Upstream: docs/upstream.md, 17. Delete when DataFusion's coercion of dates keeps years.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    Between, Case, Cast, InList, InSubquery, ScalarFunction, TryCast,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, ScalarUDF, Subquery,
    Union, Values,
};

use crate::functions::{
    date_trunc_function, in_utc, moved_constant, texts_without_offset, with_seconds, without_offset,
};

/// The zone of TIMESTAMP WITH TIME ZONE, until [`in_microseconds`] has read its texts.
pub(super) const UTC: &str = "+00:00";

/// The type of TIMESTAMP, with and without a time zone.
pub(super) const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Gives dates and moments one type wherever they meet.
///
/// # Errors
/// Errors of planning, if the expressions of a node no longer fit. The planner makes no such plan.
pub(super) fn in_microseconds(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let done = plan.transform_up_with_subqueries(|node| {
        let (node, own) = match node {
            LogicalPlan::Union(union) => united(union, changed)?,
            LogicalPlan::Values(values) => listed(values)?,
            other => (other, false),
        };
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|part| Ok(typed(part, &schema)))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        let joined = node.transform_data(|node| Ok(joined(node, &schema)))?;
        changed |= own || joined.transformed;
        match changed && !matches!(joined.data, LogicalPlan::Union(_) | LogicalPlan::Values(_)) {
            true => Ok(Transformed::yes(joined.data.recompute_schema()?)),
            false => Ok(Transformed { transformed: own || joined.transformed, ..joined }),
        }
    })?;
    Ok(done.data)
}

/// One expression; its operands are already done.
fn typed(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Cast(Cast { expr, field }) => cast_as_written(*expr, &field, schema, false),
        Expr::TryCast(TryCast { expr, field }) => cast_as_written(*expr, &field, schema, true),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_moved(&left, op, &right, schema) => {
            let cast = |side: Box<Expr>| match is_fine(&side, schema) {
                true => Box::new(Expr::Cast(Cast::new(side, MICROSECONDS))),
                false => side,
            };
            made(true, Expr::BinaryExpr(BinaryExpr { left: cast(left), op, right: cast(right) }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if meets(op) => {
            let (sides, changed) = alike(vec![*left, *right], schema);
            let [left, right] = in_two(sides);
            made(changed, Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (sides, changed) = alike(vec![*expr, *low, *high], schema);
            let [expr, low, high] = in_three(sides);
            made(changed, Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let (mut sides, changed) = alike([vec![*expr], list].concat(), schema);
            let list = sides.split_off(1);
            let [expr] = in_one(sides);
            made(changed, Expr::InList(InList { expr, list, negated }))
        }
        Expr::Case(case) => of_case(case, schema),
        Expr::ScalarFunction(call) => of_call(call, schema),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let (expr, subquery, changed) = of_subquery(*expr, subquery, schema);
            made(changed, Expr::InSubquery(InSubquery { expr, subquery, negated }))
        }
        other => Transformed::no(other),
    }
}

fn made(changed: bool, expr: Expr) -> Transformed<Expr> {
    Transformed::new_transformed(expr, changed)
}

fn boxed<const N: usize>(sides: Vec<Expr>) -> [Box<Expr>; N] {
    let mut sides = sides.into_iter();
    std::array::from_fn(|_| {
        Box::new(sides.next().unwrap_or(Expr::Literal(ScalarValue::Null, None)))
    })
}

fn in_one(sides: Vec<Expr>) -> [Box<Expr>; 1] {
    boxed(sides)
}

fn in_two(sides: Vec<Expr>) -> [Box<Expr>; 2] {
    boxed(sides)
}

fn in_three(sides: Vec<Expr>) -> [Box<Expr>; 3] {
    boxed(sides)
}

/// Whether an operator compares two values.
pub(crate) fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The operators whose operands DataFusion gives one type: comparisons, and differences of moments.
fn meets(op: Operator) -> bool {
    compares(op) || op == Operator::Minus
}

/// True if whole microseconds move a moment in nanoseconds, perhaps to beyond their range.
fn is_moved(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> bool {
    let by = |expr: &Expr| match (expr.get_type(schema), constant(expr)) {
        (_, Some(ScalarValue::IntervalMonthDayNano(Some(by)))) => by.nanoseconds % 1_000 == 0,
        (of, _) => matches!(of, Ok(DataType::Interval(_))),
    };
    matches!(op, Operator::Plus | Operator::Minus)
        && (is_fine(left, schema) && by(right) || by(left) && is_fine(right, schema))
}

/// True if an expression is a moment in nanoseconds, such as a column that a program registers.
fn is_fine(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(side(expr, schema), Some(ComparedSide::Moment(TimeUnit::Nanosecond, None)))
}

/// A cast that the statement contains. Whole numbers are seconds since 1970.
fn cast_as_written(
    inner: Expr,
    field: &FieldRef,
    schema: &DFSchema,
    safe: bool,
) -> Transformed<Expr> {
    let cast = |expr: Expr, to: DataType| match safe {
        true => Expr::TryCast(TryCast::new(Box::new(expr), to)),
        false => Expr::Cast(Cast::new(Box::new(expr), to)),
    };
    let from = inner.get_type(schema).unwrap_or(DataType::Null);
    let to = field.data_type();
    let DataType::Timestamp(unit, zone) = to else {
        let reads = *to == DataType::Date32 && from.is_string();
        let stripped = reads.then(|| text(&inner, false)).flatten();
        return match stripped {
            Some(stripped) => Transformed::yes(cast(stripped, DataType::Date32)),
            None => Transformed::no(cast(inner, to.clone())),
        };
    };
    let in_utc = zone.as_deref() == Some(UTC);
    let zone = zone.clone().filter(|_| !in_utc);
    let whole = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
    let coarse = match unit {
        TimeUnit::Second => Some(("second", 500_000_000)),
        TimeUnit::Millisecond => Some(("millisecond", 500_000)),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => None,
    };
    let inner = match zone.is_none() && from.is_string() {
        true => text(&inner, in_utc).unwrap_or(inner),
        false => inner,
    };
    let inner = match from.is_integer() {
        true => cast(inner, DataType::Timestamp(TimeUnit::Second, zone)),
        false => inner,
    };
    let moment = cast(inner, whole);
    Transformed::yes(match coarse {
        Some((unit, half)) => rounded(moment, unit, half),
        None => moment,
    })
}

/// The nearest whole second or millisecond, as TIMESTAMP(0) and TIMESTAMP(3) require.
fn rounded(moment: Expr, unit: &str, half: i64) -> Expr {
    let half = ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, half)));
    let later =
        BinaryExpr::new(Box::new(moment), Operator::Plus, Box::new(Expr::Literal(half, None)));
    let unit = Expr::Literal(ScalarValue::from(unit), None);
    date_trunc_function().call(vec![unit, Expr::BinaryExpr(later)])
}

/// A text without its offset; with `moved`, in UTC. `None` if it stays as it is.
fn text(expr: &Expr, moved: bool) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else {
        // A column of texts that is read in UTC is read by Arrow.
        return (!moved).then(|| texts_without_offset(expr.clone()));
    };
    let own = value.try_as_str().flatten()?;
    let stripped = if moved { in_utc(own) } else { without_offset(own).into_owned() };
    (stripped != own).then(|| Expr::Literal(ScalarValue::Utf8(Some(stripped)), metadata.clone()))
}

/// A literal moment with its seconds added. Any other expression stays as it is.
fn literal_with_seconds(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) => {
            let whole = value.try_as_str().flatten().map(with_seconds);
            let value = match whole {
                Some(Cow::Owned(whole)) => ScalarValue::Utf8(Some(whole)),
                Some(Cow::Borrowed(_)) | None => value,
            };
            Expr::Literal(value, metadata)
        }
        other => other,
    }
}

/// The kind of one side of a comparison.
#[derive(Clone)]
enum ComparedSide {
    Null,
    Text,
    Date,
    Moment(TimeUnit, Option<Arc<str>>),
}

/// `None` for sides that are neither dates nor moments nor texts.
fn side(expr: &Expr, schema: &DFSchema) -> Option<ComparedSide> {
    Some(match expr.get_type(schema).ok()? {
        DataType::Null => ComparedSide::Null,
        DataType::Date32 => ComparedSide::Date,
        DataType::Timestamp(unit, zone) => ComparedSide::Moment(unit, zone),
        text if text.is_string() => ComparedSide::Text,
        _ => return None,
    })
}

/// The sides of a comparison in one type, and whether one of them changed.
fn alike(sides: Vec<Expr>, schema: &DFSchema) -> (Vec<Expr>, bool) {
    let kinds: Option<Vec<ComparedSide>> = sides.iter().map(|expr| side(expr, schema)).collect();
    let Some(kinds) = kinds else { return (sides, false) };
    let Some(to) = common(&kinds, &sides) else { return (sides, false) };
    let mut changed = false;
    let cast = |(expr, kind): (Expr, &ComparedSide)| {
        let (next, new) = into(expr, kind, &to);
        changed |= new;
        next
    };
    let sides = sides.into_iter().zip(&kinds).map(cast).collect();
    (sides, changed)
}

/// The same for values from which one is chosen. A text among dates stays a text.
fn alike_values(values: Vec<Expr>, schema: &DFSchema) -> (Vec<Expr>, bool) {
    let is_text = |expr: &Expr| matches!(side(expr, schema), Some(ComparedSide::Text));
    match values.iter().any(is_text) {
        true => (values, false),
        false => alike(values, schema),
    }
}

/// The type in which sides meet. `None` if DataFusion's own choice is right.
fn common(kinds: &[ComparedSide], sides: &[Expr]) -> Option<DataType> {
    let has_text = kinds.iter().any(|kind| matches!(kind, ComparedSide::Text));
    let moments = kinds.iter().filter_map(|kind| match kind {
        ComparedSide::Moment(unit, zone) => Some((*unit, zone.clone())),
        ComparedSide::Null | ComparedSide::Text | ComparedSide::Date => None,
    });
    let moments: Vec<(TimeUnit, Option<Arc<str>>)> = moments.collect();
    let Some(finest) = moments.iter().map(|(unit, _)| *unit).max_by_key(|unit| rank(*unit)) else {
        let has_date = kinds.iter().any(|kind| matches!(kind, ComparedSide::Date));
        return (has_date && has_text).then_some(DataType::Date32);
    };
    let finest = match (has_text, finest) {
        (true, TimeUnit::Second | TimeUnit::Millisecond) => TimeUnit::Microsecond,
        (true | false, finest) => finest,
    };
    if let Some(zone) = moments.iter().find_map(|(_, zone)| zone.clone()) {
        return Some(DataType::Timestamp(finest, Some(zone)));
    }
    // A declared column has nanoseconds. Values that do not fit are compared in microseconds.
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let fits = |(expr, kind): (&Expr, &ComparedSide)| match kind {
        ComparedSide::Moment(TimeUnit::Nanosecond, _) | ComparedSide::Null => true,
        ComparedSide::Moment(..) | ComparedSide::Text | ComparedSide::Date => {
            constant(expr).is_some_and(|value| holds(&value, &nanoseconds))
        }
    };
    let all_fit = || sides.iter().zip(kinds).all(fits);
    match finest {
        TimeUnit::Nanosecond if !all_fit() => Some(MICROSECONDS),
        unit => Some(DataType::Timestamp(unit, None)),
    }
}

/// Units from the coarsest to the finest.
fn rank(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

fn holds(value: &ScalarValue, to: &DataType) -> bool {
    let read = match value.try_as_str().flatten() {
        Some(own) => ScalarValue::from(without_offset(own).as_ref()).cast_to(to),
        None => value.cast_to(to),
    };
    read.is_ok_and(|read| !read.is_null())
}

/// The value of a literal, of a cast of a literal, or of a constant moment that an interval moves.
pub(super) fn constant(expr: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    if let Expr::Cast(cast) = expr {
        return constant(&cast.expr)?.cast_to(cast.field.data_type()).ok();
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    moved_constant(&constant(left)?, *op, &constant(right)?)
}

/// One side in the common type, and whether it changed.
fn into(expr: Expr, kind: &ComparedSide, to: &DataType) -> (Expr, bool) {
    let cast = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), to.clone()));
    let has_zone = matches!(to, DataType::Timestamp(_, Some(_)));
    match kind {
        ComparedSide::Null => (expr, false),
        // If the other side has a zone, the offset of the text matters.
        ComparedSide::Text if has_zone => (cast(literal_with_seconds(expr)), true),
        ComparedSide::Text => {
            let stripped = text(&expr, false);
            (cast(stripped.unwrap_or(expr)), true)
        }
        ComparedSide::Date if *to == DataType::Date32 => (expr, false),
        ComparedSide::Date => (cast(expr), true),
        // DataFusion itself casts between zones, and to a finer unit.
        ComparedSide::Moment(TimeUnit::Nanosecond, None) if *to == MICROSECONDS => {
            (cast(expr), true)
        }
        ComparedSide::Moment(..) => (expr, false),
    }
}

fn of_case(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (whens, thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let has_base = expr.is_some();
    let (mut compared, base_changed) = match expr {
        Some(base) => alike([vec![*base], whens].concat(), schema),
        None => (whens, false),
    };
    let whens = compared.split_off(usize::from(has_base));
    let base = compared.pop().map(Box::new);
    let has_else = else_expr.is_some();
    let (mut values, changed) =
        alike_values(thens.into_iter().chain(else_expr.map(|e| *e)).collect(), schema);
    let otherwise = if has_else { values.pop().map(Box::new) } else { None };
    let pairs = whens.into_iter().zip(values);
    let pairs = pairs.map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    made(base_changed || changed, Expr::Case(Case::new(base, pairs, otherwise)))
}

/// Calls of functions that return one of their arguments, and of those that read texts as moments.
fn of_call(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    const CHOOSE: [&str; 3] = ["coalesce", "nvl", "nvl2"];
    const COMPARE: [&str; 3] = ["nullif", "greatest", "least"];
    const READ: [&str; 4] = ["date_part", "date_trunc", "date_bin", "date_diff"];
    let ScalarFunction { func, args } = call;
    if CHOOSE.contains(&func.name()) {
        // The first argument of NVL2 is only tested for NULL.
        let apart = usize::from(func.name() == "nvl2");
        let mut first = args;
        let rest = first.split_off(apart.min(first.len()));
        let (rest, changed) = alike_values(rest, schema);
        let args = [first, rest].concat();
        return made(changed, Expr::ScalarFunction(ScalarFunction { func, args }));
    }
    if COMPARE.contains(&func.name()) {
        let (args, changed) = alike(args, schema);
        return made(changed, Expr::ScalarFunction(ScalarFunction { func, args }));
    }
    if func.name() == "to_timestamp" {
        return Transformed::yes(to_timestamp(func, args, schema));
    }
    if !READ.contains(&func.name()) {
        return Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }));
    }
    let mut changed = false;
    let read = |(i, expr): (usize, Expr)| {
        // In all but DATE_BIN, the unit comes first, and is a text, too.
        let is_text = expr.get_type(schema).is_ok_and(|own| own.is_string());
        if !is_text || i == 0 {
            return expr;
        }
        changed = true;
        let stripped = text(&expr, false).unwrap_or(expr);
        Expr::Cast(Cast::new(Box::new(stripped), MICROSECONDS))
    };
    let args = args.into_iter().enumerate().map(read).collect();
    made(changed, Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// TO_TIMESTAMP of one text or of whole seconds is a cast; other forms give nanoseconds.
fn to_timestamp(func: Arc<ScalarUDF>, mut args: Vec<Expr>, schema: &DFSchema) -> Expr {
    let cast = |expr: Expr, to: DataType| Expr::Cast(Cast::new(Box::new(expr), to));
    let kind = args.first().and_then(|first| first.get_type(schema).ok());
    match (args.pop(), args.is_empty(), kind) {
        (Some(one), true, Some(kind)) if kind.is_string() => {
            cast(text(&one, true).unwrap_or(one), MICROSECONDS)
        }
        (Some(one), true, Some(kind)) if kind.is_integer() => {
            cast(cast(one, DataType::Timestamp(TimeUnit::Second, None)), MICROSECONDS)
        }
        (last, _, _) => {
            args.extend(last);
            cast(Expr::ScalarFunction(ScalarFunction { func, args }), MICROSECONDS)
        }
    }
}

fn of_subquery(expr: Expr, subquery: Subquery, schema: &DFSchema) -> (Box<Expr>, Subquery, bool) {
    let inner = Arc::clone(subquery.subquery.schema());
    let Some((qualifier, field)) = inner.iter().next() else {
        return (Box::new(expr), subquery, false);
    };
    let both = merge_schema(&[&subquery.subquery]);
    let column = Expr::Column(Column::from((qualifier, field)));
    let kinds = side(&expr, schema).zip(side(&column, &both));
    let Some((own, other)) = kinds else { return (Box::new(expr), subquery, false) };
    let sides = [expr, column];
    let to = common(&[own.clone(), other.clone()], &sides);
    let [expr, column] = sides;
    let Some(to) = to else { return (Box::new(expr), subquery, false) };
    let (column, inside) = into(column, &other, &to);
    let (cast, outside) = into(expr.clone(), &own, &to);
    if !inside {
        return (Box::new(cast), subquery, outside);
    }
    let column = column.alias(field.name());
    match Projection::try_new(vec![column], Arc::clone(&subquery.subquery)) {
        Ok(projection) => {
            let plan = Arc::new(LogicalPlan::Projection(projection));
            (Box::new(cast), subquery.with_plan(plan), true)
        }
        Err(_) => (Box::new(expr), subquery, false),
    }
}

/// A join whose keys have one type.
fn joined(node: LogicalPlan, schema: &DFSchema) -> Transformed<LogicalPlan> {
    let LogicalPlan::Join(Join { on, .. }) = &node else { return Transformed::no(node) };
    let mut changed = false;
    let pair = |(left, right): &(Expr, Expr)| {
        let (sides, new) = alike(vec![left.clone(), right.clone()], schema);
        changed |= new;
        let [left, right] = in_two(sides);
        (*left, *right)
    };
    let pairs = on.iter().map(pair).collect();
    match node {
        LogicalPlan::Join(join) if changed => {
            Transformed::yes(LogicalPlan::Join(Join { on: pairs, ..join }))
        }
        other => Transformed::no(other),
    }
}

/// A union whose branches have dates and moments of one type. `stale`: branches may have changed.
fn united(union: Union, stale: bool) -> Result<(LogicalPlan, bool)> {
    let Union { inputs, schema } = union;
    let width = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let column = |input: &LogicalPlan, i: usize| {
        Expr::Column(Column::from(input.schema().qualified_field(i)))
    };
    let mut targets: Vec<Option<DataType>> = Vec::with_capacity(width);
    for i in 0..width {
        let columns: Vec<Expr> = inputs.iter().map(|input| column(input, i)).collect();
        let kinds = inputs.iter().zip(&columns).map(|(input, expr)| side(expr, input.schema()));
        let kinds: Option<Vec<ComparedSide>> = kinds.collect();
        // A text among moments stays a text.
        let kinds = kinds.filter(|all| !all.iter().any(|kind| matches!(kind, ComparedSide::Text)));
        targets.push(kinds.and_then(|kinds| common(&kinds, &columns)));
    }
    let mut changed = false;
    let branch = |input: Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        let mut own = false;
        let columns = (0..width).map(|i| {
            let expr = column(&input, i);
            let (kind, to) = (side(&expr, input.schema()), targets.get(i).cloned().flatten());
            let Some((kind, to)) = kind.zip(to) else { return expr };
            match into(expr.clone(), &kind, &to) {
                (cast, true) => {
                    own = true;
                    cast.alias(input.schema().field(i).name())
                }
                (_, false) => expr,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        changed |= own;
        match own {
            true => Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?))),
            false => Ok(input),
        }
    };
    let inputs = inputs.into_iter().map(branch).collect::<Result<Vec<_>>>()?;
    match changed || stale {
        true => Ok((LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?), true)),
        false => Ok((LogicalPlan::Union(Union { inputs, schema }), false)),
    }
}

/// VALUES with moments in microseconds. The planner has already cast their mixed rows.
fn listed(values: Values) -> Result<(LogicalPlan, bool)> {
    let is_fine = |field: &FieldRef| {
        matches!(field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, None))
            || matches!(field.data_type(), DataType::Timestamp(_, Some(zone)) if zone.as_ref() == UTC)
    };
    let Values { schema, values } = values;
    if !schema.fields().iter().any(is_fine) {
        return Ok((LogicalPlan::Values(Values { schema, values }), false));
    }
    let fields = schema.iter().map(|(qualifier, field)| {
        let field = match is_fine(field) {
            true => Arc::new(field.as_ref().clone().with_data_type(MICROSECONDS)),
            false => Arc::clone(field),
        };
        (qualifier.cloned(), field)
    });
    let fields: Vec<_> = fields.collect();
    let cast = |(value, fine): (Expr, bool)| match fine {
        true => Expr::Cast(Cast::new(Box::new(value), MICROSECONDS)),
        false => value,
    };
    let rows = values.into_iter().map(|row| {
        let fine = schema.fields().iter().map(is_fine);
        row.into_iter().zip(fine).map(cast).collect()
    });
    let values = rows.collect();
    let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
    Ok((LogicalPlan::Values(Values { schema, values }), true))
}
