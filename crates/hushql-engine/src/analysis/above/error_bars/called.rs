//! `error_low` and `error_high`: the ends of the intervals that a query asks for.
//!
//! In: the public plan with calls. Out: the same plan, in which each call is an end of the interval
//! of its argument. It is computed from released numbers and from the ± behind them, row by row.
//!
//! ```text
//! Filter error_low(n) > 100        Projection k, n
//!   Scan released 0           ⇒      Filter n − off > 100
//!                                      Projection k, n, off        Scan released 0, with the ± of n behind it
//! ```
//!
//! An end belongs to the number as it was drawn. It is NULL if the number itself decides which rows
//! are shown, through a threshold, a condition or a LIMIT: such a number has no ±. A condition on
//! the ends is different: n is outside its interval with a probability of at most 5 %, so a group
//! is shown because of a wrong end with a probability of at most 5 %, too.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Filter, LogicalPlan, Projection, Sort, Window,
};

use super::error_interval::{IntervalEnds, Span};
use super::node::{Carried, Carrier, Want, ends_over, in_order};
use crate::analysis::above::origin::{Field, deciding, noisy};
use crate::analysis::expr::interval_ends::{
    CalledEnds, EndCall, EndTold, EndWorth, calls_in, decided, has_calls, is_end, misplaced,
    no_end, no_number, without_calls,
};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::analysis::recursion::deeper;
use crate::dialect::{ReleaseClause, in_releases_words};
use crate::functions::IntervalEnd;

/// The plan with each call replaced; `None` if there are no calls.
///
/// # Guarantee
/// The plan reads what it read before, and the ± behind released tables: released numbers and
/// public scales. Its columns have the same names and types. If an argument depends on m released
/// numbers, each of its ends takes them at confidence 1 − 0.05/m.
///
/// # Errors
/// Refuses a call whose argument is not a released number or whose error cannot be carried, and a
/// call in ON.
pub(crate) fn with_called_ends(
    plan: &LogicalPlan,
    parts: &[PrivateAggregate],
    releases: &[ReleaseClause],
) -> std::result::Result<Option<CalledEnds>, NotAnalyzed> {
    if !has_calls(plan) {
        return Ok(None);
    }
    let silent = without_calls(plan).map_err(|e| internal(&e))?;
    let pass = |among: &[u64], levels: Option<&[u64]>| {
        let mut ends = Replacing {
            parts,
            carrier: Carrier::new(parts, among, "called"),
            decides: deciding(parts, &silent),
            decides_by_ends: deciding(parts, plan),
            levels,
            numbers: Vec::new(),
            told: Vec::new(),
        };
        let replaced = ends.node(plan)?;
        Ok::<_, NotAnalyzed>((replaced, ends.numbers, ends.told))
    };
    // A first pass finds the numbers on which each call depends. The confidences follow from these.
    let (_, numbers, _) = pass(&[1], None)?;
    let mut among = numbers.clone();
    among.sort_unstable();
    among.dedup();
    let (replaced, _, mut told) = pass(&among, Some(&numbers))?;
    for one in &mut told {
        one.text = in_releases_words(&one.text, releases);
        one.number = in_releases_words(&one.number, releases);
    }
    let outputs = (0..plan.schema().fields().len()).map(|output| is_end(plan, output));
    Ok(Some(CalledEnds { plan: replaced, among, told, outputs: outputs.collect() }))
}

/// One pass over a plan, which replaces its calls.
struct Replacing<'a> {
    parts: &'a [PrivateAggregate],
    carrier: Carrier<'a>,
    /// The released values that decide which rows are shown. Values that only the calls read do not
    /// count. `None` if they are not known.
    decides: Option<Vec<Field>>,
    decides_by_ends: Option<Vec<Field>>,
    /// For each replaced call, in the order of the walk: how many numbers it depends on, if this is
    /// known by now.
    levels: Option<&'a [u64]>,
    /// The same counts, as this pass finds them.
    numbers: Vec<u64>,
    told: Vec<EndTold>,
}

impl Replacing<'_> {
    fn node(&mut self, plan: &LogicalPlan) -> std::result::Result<LogicalPlan, NotAnalyzed> {
        deeper(|| self.replaced(plan))
    }

    fn replaced(&mut self, plan: &LogicalPlan) -> std::result::Result<LogicalPlan, NotAnalyzed> {
        let mut failed = None;
        let mut below = |child: LogicalPlan| match self.node(&child) {
            Ok(replaced) => Ok(Transformed::yes(replaced)),
            Err(error) => {
                failed = Some(error);
                Ok(Transformed::new(child, false, TreeNodeRecursion::Stop))
            }
        };
        let replaced =
            plan.clone().map_children(&mut below).and_then(|t| t.data.map_subqueries(&mut below));
        let plan = match (failed, replaced) {
            (Some(error), _) => return Err(error),
            (None, replaced) => replaced.map_err(|e| internal(&e))?.data,
        };
        let mut calls: Vec<EndCall> = Vec::new();
        for expr in plan.expressions() {
            for call in calls_in(&expr) {
                if !calls.contains(&call) {
                    calls.push(call);
                }
            }
        }
        let Some(first) = calls.first() else { return Ok(plan) };
        let Some(input) = input_of(&plan).cloned() else { return Err(misplaced(first).into()) };
        let sorts = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Sort(_));
        let mut wants: Vec<Want> = Vec::new();
        let mut levels = Vec::new();
        for call in &calls {
            if self.says(call, &input) == EndWorth::Nothing {
                let place = if sorts { "condition or order" } else { "" };
                if sorts {
                    return Err(decided(call, place).into());
                }
                levels.push(None);
                continue;
            }
            let level = self.next_level(levels.iter().flatten().count());
            for want in self.wants(call, level, &input)? {
                if !wants.contains(&want) {
                    wants.push(want);
                }
            }
            levels.push(Some(level));
        }
        let carried = self.carrier.carry(&input, &wants);
        let carried = carried.ok_or_else(|| no_number(first, UNFOLLOWED))?;
        let mut ends = Vec::new();
        for (call, level) in calls.into_iter().zip(levels) {
            let end = match level {
                None => no_end(),
                Some(level) => {
                    let span = self.span(&call, level, &carried, &wants)?;
                    if call.end == IntervalEnd::Low { span.lo } else { span.hi }
                }
            };
            ends.push((call, end));
        }
        rebuilt(&plan, carried, &ends).map_err(|e| internal(&e))
    }

    /// Records a call, and how far a reader can trust it.
    fn says(&mut self, call: &EndCall, input: &LogicalPlan) -> EndWorth {
        let fields = noisy(self.parts, &call.of, input);
        let hits = |decides: &Option<Vec<Field>>| match decides {
            None => true,
            Some(decides) => fields.iter().any(|(part, field)| {
                let counter = self.parts.get(*part).and_then(|own| {
                    Some(own.key_names().len() + own.unknown_partitions()?.counter?)
                });
                counter == Some(*field) || decides.contains(&(*part, *field))
            }),
        };
        let worth = match (hits(&self.decides), hits(&self.decides_by_ends)) {
            (true, _) => EndWorth::Nothing,
            (false, true) => EndWorth::Drawn,
            (false, false) => EndWorth::Whole,
        };
        let told = EndTold { text: call.text(), number: call.number(), worth };
        if !self.told.contains(&told) {
            self.told.push(told);
        }
        worth
    }

    /// How many released numbers the next call depends on. `before` is the number of earlier calls
    /// of its node.
    fn next_level(&self, before: usize) -> u64 {
        let at = self.numbers.len() + before;
        self.levels.and_then(|levels| levels.get(at)).copied().unwrap_or(1)
    }

    /// The columns whose ends a call needs.
    fn wants(
        &self,
        call: &EndCall,
        level: u64,
        input: &LogicalPlan,
    ) -> std::result::Result<Vec<Want>, NotAnalyzed> {
        let schema = input.schema();
        if !calls_in(&call.of).is_empty() {
            return Err(no_number(call, "an end of an interval has no interval of its own").into());
        }
        if !call.of.get_type(schema).is_ok_and(|data_type| data_type.is_numeric()) {
            return Err(no_number(call, "it is not a number").into());
        }
        let wants = Carrier::read(&[(&call.of, level)], schema);
        wants.ok_or_else(|| no_number(call, UNFOLLOWED).into())
    }

    /// The ends of the argument of a call.
    fn span(
        &mut self,
        call: &EndCall,
        level: u64,
        carried: &Carried,
        wants: &[Want],
    ) -> std::result::Result<Span, NotAnalyzed> {
        match ends_over(&self.carrier, carried, wants, &call.of, level) {
            Some(IntervalEnds::Within(span)) => {
                self.numbers.push(span.numbers);
                Ok(*span)
            }
            Some(IntervalEnds::Exact) => Err(no_number(call, "it is public: it has no noise, or its noise is described with its table (DESCRIBE table)").into()),
            None => Err(no_number(call, UNFOLLOWED).into()),
        }
    }
}

const UNFOLLOWED: &str = "its interval is not known: it is a choice, or it is computed in a way through which errors are not carried";

/// The input of a node whose expressions may contain calls.
fn input_of(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    if let LogicalPlan::Projection(Projection { input, .. })
    | LogicalPlan::Filter(Filter { input, .. })
    | LogicalPlan::Sort(Sort { input, .. })
    | LogicalPlan::Window(Window { input, .. })
    | LogicalPlan::Aggregate(Aggregate { input, .. }) = plan
    {
        return Some(input);
    }
    None
}

/// A node over its carried input, with ends in place of its calls, and with its columns in the
/// original order.
fn rebuilt(plan: &LogicalPlan, carried: Carried, ends: &[(EndCall, Expr)]) -> Result<LogicalPlan> {
    let names = NamePreserver::new(plan);
    let replaced = |expr: &Expr| {
        let name = names.save(expr);
        let replaced = expr.clone().transform_down(|e| {
            let call = EndCall::read(&e);
            let end = call.and_then(|call| ends.iter().find(|(own, _)| *own == call));
            Ok(match end {
                Some((_, end)) => Transformed::new(end.clone(), true, TreeNodeRecursion::Jump),
                None => Transformed::no(e),
            })
        })?;
        Ok::<_, DataFusionError>(name.restore(replaced.data))
    };
    let all = |exprs: &[Expr]| exprs.iter().map(replaced).collect::<Result<Vec<_>>>();
    let carries = carried.plan.schema().fields().len();
    let input = Arc::new(carried.plan);
    let columns = plan.schema().fields().len();
    if let LogicalPlan::Projection(projection) = plan {
        let plan = Projection::try_new(all(&projection.expr)?, input)?;
        return Ok(LogicalPlan::Projection(plan));
    }
    if let LogicalPlan::Aggregate(aggregate) = plan {
        let (groups, calls) = (all(&aggregate.group_expr)?, all(&aggregate.aggr_expr)?);
        return Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, groups, calls)?));
    }
    let lost = || DataFusionError::Internal("a column of a node was lost".to_owned());
    if let LogicalPlan::Window(window) = plan {
        let inputs = window.input.schema().fields().len();
        let plan = LogicalPlan::Window(Window::try_new(all(&window.window_expr)?, input)?);
        let order = (0..inputs).chain(carries..carries + columns - inputs);
        return in_order(plan, order).ok_or_else(lost);
    }
    let plan = if let LogicalPlan::Sort(sort) = plan {
        let mut keys = sort.expr.clone();
        for key in &mut keys {
            key.expr = replaced(&key.expr)?;
        }
        LogicalPlan::Sort(Sort { expr: keys, input, fetch: sort.fetch })
    } else if let LogicalPlan::Filter(filter) = plan {
        LogicalPlan::Filter(Filter::try_new(replaced(&filter.predicate)?, input)?)
    } else {
        return Err(lost());
    };
    in_order(plan, 0..columns).ok_or_else(lost)
}
