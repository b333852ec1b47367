//! Calls of `error_low` and `error_high`: what they are, and what is said of them.
//!
//! In: expressions and plans with calls, as they were bound. Out: the calls in them, the same plan
//! without them, refusals.
//!
//! ```text
//! error_low(n) > 100 AND n < 500     one call, of n; without it: NULL > 100 AND n < 500
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::analysis::expr::shape::readable;
use crate::functions::{IntervalEnd, interval_end};
use crate::refusal::{Reason, Refusal};

/// A call: which end, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndCall {
    pub(crate) end: IntervalEnd,
    /// The number whose interval it is.
    pub(crate) of: Expr,
}

impl EndCall {
    /// The call that an expression is.
    pub(crate) fn read(expr: &Expr) -> Option<Self> {
        let Expr::ScalarFunction(call) = expr else { return None };
        let (end, [of]) = (interval_end(&call.func)?, call.args.as_slice()) else { return None };
        Some(Self { end, of: of.clone() })
    }

    /// The call as it is written.
    pub(crate) fn text(&self) -> String {
        format!("{}({})", self.end.name(), self.number())
    }

    /// The number as it is written.
    pub(crate) fn number(&self) -> String {
        readable(&self.of)
    }
}

/// A public plan whose calls are ends of intervals.
#[derive(Debug)]
pub(crate) struct CalledEnds {
    /// The plan, with ends in the place of calls.
    pub(crate) plan: LogicalPlan,
    /// How many released numbers the calls depend on, each number once, ascending.
    pub(crate) among: Vec<u64>,
    /// The calls, each once.
    pub(crate) told: Vec<EndTold>,
    /// For each output, whether it is an end or computed from one.
    pub(crate) outputs: Vec<bool>,
}

/// What is said of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndTold {
    /// The call and the number, as they are written.
    pub(crate) text: String,
    pub(crate) number: String,
    pub(crate) worth: EndWorth,
}

impl EndTold {
    /// What the reader of an answer should know of the call.
    pub(crate) fn note(&self) -> Option<String> {
        let Self { text, number, worth } = self;
        match worth {
            EndWorth::Whole => None,
            EndWorth::Drawn => Some(format!(
                "{text}: the interval of {number} as it was drawn, and it decides which rows are shown: a row is shown with a wrong one with at \
                 most 5 %, and of the rows that are shown more may have a wrong one"
            )),
            EndWorth::Nothing => {
                Some(format!("{text}: NULL, since {number} itself decides which rows are shown"))
            }
        }
    }

    /// What the call gives, before anything is drawn.
    pub(crate) fn explained(&self) -> String {
        self.note().unwrap_or_else(|| {
            let Self { text, number, worth: _ } = self;
            format!(
                "{text}: an end of the interval that {number} is in with 95 %, at no further cost"
            )
        })
    }
}

/// What an end is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndWorth {
    /// The number without noise is outside of the two ends with at most 5 %, in each row.
    Whole,
    /// The same as the number was drawn; but the ends decide which rows come out.
    Drawn,
    /// It is NULL: the number itself decides which rows come out.
    Nothing,
}

/// The different calls in an expression; those in its subqueries are not among them.
pub(crate) fn calls_in(expr: &Expr) -> Vec<EndCall> {
    let mut calls = Vec::new();
    // The walk cannot fail, because the closure does not.
    let _ = expr.apply(|e| {
        calls.extend(EndCall::read(e).filter(|call| !calls.contains(call)));
        Ok(TreeNodeRecursion::Continue)
    });
    calls
}

/// Whether there are calls anywhere in a plan.
pub(crate) fn has_calls(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= !calls_in(expr).is_empty();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found || walked.is_err()
}

/// The same plan with NULL in the place of each call.
pub(crate) fn without_calls(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let without = plan.clone().transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let without = expr.transform_down(|e| match EndCall::read(&e) {
                Some(_) => Ok(Transformed::yes(no_end())),
                None => Ok(Transformed::no(e)),
            })?;
            Ok(without.update_data(|e| name.restore(e)))
        })
    })?;
    Ok(without.data)
}

/// The end of an interval that is not told.
pub(crate) fn no_end() -> Expr {
    Expr::Literal(ScalarValue::Float64(None), None)
}

/// Whether an output of a plan is an end of an interval, or computed from one.
pub(crate) fn is_end(plan: &LogicalPlan, output: usize) -> bool {
    let below = |input: &LogicalPlan, expr: &Expr| {
        !calls_in(expr).is_empty()
            || expr.column_refs().into_iter().any(|column| {
                input.schema().maybe_index_of_column(column).is_some_and(|i| is_end(input, i))
            })
    };
    if let LogicalPlan::Projection(projection) = plan {
        return projection.expr.get(output).is_some_and(|expr| below(&projection.input, expr));
    }
    if let LogicalPlan::Aggregate(aggregate) = plan {
        let mut made = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
        return made.nth(output).is_some_and(|expr| below(&aggregate.input, expr));
    }
    if let LogicalPlan::Window(window) = plan {
        let inputs = window.input.schema().fields().len();
        return match output.checked_sub(inputs) {
            None => is_end(&window.input, output),
            Some(i) => window.window_expr.get(i).is_some_and(|expr| below(&window.input, expr)),
        };
    }
    if let LogicalPlan::Join(join) = plan {
        let left = join.left.schema().fields().len();
        let semi = plan.schema().fields().len() <= left;
        return match output.checked_sub(left) {
            None => is_end(&join.left, output),
            Some(i) => !semi && is_end(&join.right, i),
        };
    }
    // All others hand their inputs' columns on.
    plan.inputs().into_iter().any(|input| {
        input.schema().fields().len() == plan.schema().fields().len() && is_end(input, output)
    })
}

/// A call where rows of people are read.
pub(crate) fn below_release(call: &Expr) -> Refusal {
    let text = readable(call);
    let name = text.split('(').next().unwrap_or_default();
    Refusal::new(
        Reason::Function,
        &text,
        format!("{name} takes a number that was released, and here rows are read"),
        format!(
            "SELECT n, {name}(n) FROM (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM …) AS released"
        ),
    )
}

/// A call of something that has no interval.
pub(crate) fn no_number(call: &EndCall, why: &str) -> Refusal {
    let name = call.end.name();
    Refusal::new(
        Reason::Operand,
        call.text(),
        format!("{}: {why}", call.number()),
        format!(
            "{name}(n), where n is a released COUNT, SUM, AVG or STDDEV, or computed from such by +, -, *, /, ROUND or CAST: \
             SELECT n, {name}(n) FROM (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM …) AS released"
        ),
    )
}

/// A call in a condition or an order, of a number whose interval is not told.
pub(crate) fn decided(call: &EndCall, place: &str) -> Refusal {
    let (name, number) = (call.end.name(), call.number());
    Refusal::new(
        Reason::Place,
        call.text(),
        format!(
            "{number} itself decides which rows come out, through a threshold, a condition or a LIMIT, so {} is NULL, and this {place} \
             would have nothing to go by",
            call.text()
        ),
        format!(
            "WHERE {name}({number}) > 100 as the only condition on {number}, and all groups public"
        ),
    )
}

/// A call in a clause that takes none.
pub(crate) fn misplaced(call: &EndCall) -> Refusal {
    let name = call.end.name();
    Refusal::new(
        Reason::Place,
        call.text(),
        format!(
            "{name} stands in SELECT, WHERE, HAVING, GROUP BY, ORDER BY and windows, and not in ON"
        ),
        format!("the same condition in WHERE: … JOIN … ON a.k = b.k WHERE {} > 100", call.text()),
    )
}
