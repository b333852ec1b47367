//! The ends of window functions and of aggregates over released numbers.
//!
//! In: calls whose arguments have ends. Out: the same calls, followed by the same calls on the ends
//! of their arguments. The result of a function that never decreases in its argument lies between
//! these.
//!
//! ```text
//! SUM(n) OVER (ORDER BY day)      SUM(n − off) OVER (ORDER BY day) to SUM(n + off) OVER (ORDER BY day)
//! ```

use std::sync::Arc;

use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Window};

use super::error_interval::{IntervalEnds, Span, as_float};
use super::node::{Carried, Carrier, ColumnError, Want, ends_over, in_order, shifted};

impl Carrier<'_> {
    /// Window functions over public partitions and orders. Their results never decrease in an
    /// argument.
    pub(super) fn windowed(&self, window: &Window, wants: &[Want]) -> Option<Carried> {
        let inputs = window.input.schema().fields().len();
        let rows = self.rows(&window.input);
        let call = |i: usize| -> Option<&WindowFunction> {
            let called = bare(window.window_expr.get(i.checked_sub(inputs)?)?);
            if let Expr::WindowFunction(call) = called { Some(call) } else { None }
        };
        let mut below_wants: Vec<Want> = Vec::new();
        for (i, numbers) in wants {
            let read = match call(*i) {
                None if *i < inputs => vec![(*i, *numbers)],
                None => Vec::new(),
                Some(call) => {
                    let orders = call.params.order_by.iter().map(|sort| &sort.expr);
                    let read = call.params.args.iter().chain(&call.params.partition_by);
                    let read = read.chain(call.params.filter.as_deref());
                    let read: Vec<_> = read.chain(orders).map(|e| (e, *numbers)).collect();
                    Self::read(&read, window.input.schema())?
                }
            };
            below_wants.extend(read);
        }
        below_wants.dedup();
        let below = self.carry(&window.input, &below_wants)?;
        let hidden = below.plan.schema().fields().len() - inputs;
        let own = window.window_expr.len();
        let schema = window.input.schema();
        let mut known = Vec::new();
        let mut more: Vec<Expr> = Vec::new();
        for (i, numbers) in wants {
            let Some(call) = call(*i) else {
                let place = below_wants.iter().position(|want| *want == (*i, *numbers));
                let found = place.and_then(|place| below.known.get(place).copied().flatten());
                known.push(found.map(|found| shifted(found, own)));
                continue;
            };
            let over = |e: &Expr| ends_over(self, &below, &below_wants, e, *numbers);
            let params = &call.params;
            let orders = params.order_by.iter().map(|sort| &sort.expr);
            let public = params.partition_by.iter().chain(orders);
            let public = public.chain(params.args.iter().skip(1));
            let is_public =
                public.into_iter().all(|e| matches!(over(e), Some(IntervalEnds::Exact)));
            let times = match call.fun.name() {
                "sum" | "avg" | "min" | "max" => rows,
                "lag" | "lead" | "first_value" | "last_value" => Some(1),
                _ => None,
            };
            let filtered =
                params.filter.iter().all(|e| matches!(over(e), Some(IntervalEnds::Exact)));
            let first = params.args.first().filter(|_| is_public && filtered);
            let Some((IntervalEnds::Within(span), times)) = first.and_then(over).zip(times) else {
                known.push(None);
                continue;
            };
            let Span { lo, hi, numbers, may_be_hidden } = *span;
            if may_be_hidden && leaves_out(call, times) {
                known.push(None);
                continue;
            }
            let place = inputs + own + hidden + more.len();
            for end in [lo, hi] {
                let mut call = call.clone();
                let mut args = vec![end];
                args.extend(params.args.get(1).cloned());
                args.extend(params.args.get(2).and_then(|other| as_float(other.clone(), schema)));
                call.params.args = args;
                more.push(Expr::WindowFunction(Box::new(call)).alias(self.name()));
            }
            let numbers = numbers.checked_mul(times)?;
            let (lo, hi) = (place, place + 1);
            known.push(Some(ColumnError::Within { lo, hi, numbers, may_be_hidden }));
        }
        let calls = window.window_expr.iter().cloned().chain(more).collect::<Vec<_>>();
        let all = inputs + hidden + calls.len();
        let plan = Window::try_new(calls, Arc::new(below.plan)).ok()?;
        // The input's own columns, the calls' own columns, and then all ends.
        let first = (0..inputs).chain(inputs + hidden..inputs + hidden + own);
        let order = first.chain(inputs..inputs + hidden).chain(inputs + hidden + own..all);
        let plan = in_order(LogicalPlan::Window(plan), order)?;
        Some(Carried { plan, known })
    }

    /// Sums, means and extremes of released numbers over public groups.
    pub(super) fn aggregated(&self, aggregate: &Aggregate, wants: &[Want]) -> Option<Carried> {
        let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let rows = self.rows(&aggregate.input);
        let call = |i: usize| -> Option<&AggregateFunction> {
            let called = bare(aggregate.aggr_expr.get(i.checked_sub(groups)?)?);
            if let Expr::AggregateFunction(call) = called { Some(call) } else { None }
        };
        let mut below_wants: Vec<Want> = Vec::new();
        for (i, numbers) in wants {
            let params = call(*i).map(|call| &call.params);
            let args = params.map_or(&[][..], |params| &params.args);
            let filter = params.and_then(|params| params.filter.as_deref());
            let read = aggregate.group_expr.iter().chain(args).chain(filter).map(|e| (e, *numbers));
            for want in Self::read(&read.collect::<Vec<_>>(), aggregate.input.schema())? {
                if !below_wants.contains(&want) {
                    below_wants.push(want);
                }
            }
        }
        let below = self.carry(&aggregate.input, &below_wants)?;
        let mut known = Vec::new();
        let mut more: Vec<Expr> = Vec::new();
        for (i, numbers) in wants {
            let over = |e: &Expr| ends_over(self, &below, &below_wants, e, *numbers);
            let is_public =
                aggregate.group_expr.iter().all(|e| matches!(over(e), Some(IntervalEnds::Exact)));
            let Some(call) = call(*i) else {
                known.push(is_public.then_some(ColumnError::Exact));
                continue;
            };
            let params = &call.params;
            let filtered =
                params.filter.iter().all(|e| matches!(over(e), Some(IntervalEnds::Exact)));
            let plain = !params.distinct && filtered && params.order_by.is_empty();
            let read = params.args.iter().chain(params.filter.as_deref());
            let is_exact = |e: &Expr| matches!(over(e), Some(IntervalEnds::Exact));
            if is_public && params.order_by.is_empty() && read.into_iter().all(is_exact) {
                known.push(Some(ColumnError::Exact));
                continue;
            }
            let grows = matches!(call.func.name(), "sum" | "avg" | "min" | "max");
            let [arg] = params.args.as_slice() else {
                known.push(None);
                continue;
            };
            let (true, Some(IntervalEnds::Within(span)), Some(rows)) =
                (is_public && plain && grows, over(arg), rows)
            else {
                known.push(None);
                continue;
            };
            let Span { lo, hi, numbers, may_be_hidden } = *span;
            // Over several rows, it leaves out those that a floor hides.
            if may_be_hidden && rows > 1 {
                known.push(None);
                continue;
            }
            let place = aggregate.schema.fields().len() + more.len();
            for end in [lo, hi] {
                let mut call = call.clone();
                call.params.args = vec![end];
                more.push(Expr::AggregateFunction(call).alias(self.name()));
            }
            let numbers = numbers.checked_mul(rows)?;
            let (lo, hi) = (place, place + 1);
            known.push(Some(ColumnError::Within { lo, hi, numbers, may_be_hidden }));
        }
        let calls = aggregate.aggr_expr.iter().cloned().chain(more).collect();
        let groups = aggregate.group_expr.clone();
        let plan = Aggregate::try_new(Arc::new(below.plan), groups, calls).ok()?;
        Some(Carried { plan: LogicalPlan::Aggregate(plan), known })
    }
}

/// Whether a window function of so many rows shows a value although a floor hides one that it
/// reads.
fn leaves_out(call: &WindowFunction, rows: u64) -> bool {
    match call.fun.name() {
        "lag" | "lead" | "first_value" | "last_value" => {
            call.params.args.len() > 2 || call.params.null_treatment.is_some()
        }
        _ => rows > 1,
    }
}

/// An expression without its names.
fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}
