//! Calls of `error_low` and `error_high`: finds them, describes them, and refuses wrong ones.
//!
//! In: expressions and plans with such calls, as they were bound. Out: the calls in them, the same
//! plan without them, refusals.
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

/// A call of `error_low` or `error_high`: the end, and the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndCall {
    pub(crate) end: IntervalEnd,
    /// The number whose interval has this end.
    pub(crate) of: Expr,
}

impl EndCall {
    /// The call, if an expression is one.
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

/// A public plan with the ends of intervals in place of the calls.
#[derive(Debug)]
pub(crate) struct CalledEnds {
    /// The plan.
    pub(crate) plan: LogicalPlan,
    /// The distinct counts of released numbers that the calls depend on, ascending.
    pub(crate) among: Vec<u64>,
    /// The calls, each once.
    pub(crate) told: Vec<EndTold>,
    /// For each output, whether it is an end or computed from one.
    pub(crate) outputs: Vec<bool>,
}

/// How a call is described to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndTold {
    /// The call and the number, as they are written.
    pub(crate) text: String,
    pub(crate) number: String,
    pub(crate) worth: EndWorth,
}

impl EndTold {
    /// The note about this call in an answer.
    pub(crate) fn note(&self) -> Option<String> {
        let Self { text, number, worth } = self;
        match worth {
            EndWorth::Whole => None,
            EndWorth::Drawn => Some(format!(
                "{text}: the interval of {number} as it was drawn, and it decides which rows are shown: a row with a wrong interval is \
                 shown with a probability of at most 5 %, but among the shown rows more intervals may be wrong"
            )),
            EndWorth::Nothing => {
                Some(format!("{text}: NULL, since {number} itself decides which rows are shown"))
            }
        }
    }

    /// The description of this call before anything is drawn.
    pub(crate) fn explained(&self) -> String {
        self.note().unwrap_or_else(|| {
            let Self { text, number, worth: _ } = self;
            format!("{text}: an end of the 95 % interval of {number}, at no further cost")
        })
    }
}

/// How far a reader can trust an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndWorth {
    /// In each row, the number without noise is outside the two ends with a probability of at most
    /// 5 %.
    Whole,
    /// The same, for the number as it was drawn. But the ends decide which rows are shown, and
    /// among the shown rows more may be wrong.
    Drawn,
    /// The end is NULL: the number itself decides which rows are shown.
    Nothing,
}

/// The distinct calls in an expression, without the calls in its subqueries.
pub(crate) fn calls_in(expr: &Expr) -> Vec<EndCall> {
    let mut calls = Vec::new();
    // The walk cannot fail, because its closure does not.
    let _ = expr.apply(|e| {
        calls.extend(EndCall::read(e).filter(|call| !calls.contains(call)));
        Ok(TreeNodeRecursion::Continue)
    });
    calls
}

/// True if a plan contains a call.
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

/// The same plan with NULL in place of each call.
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

/// The end of an interval that is not shown.
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
    // All other nodes pass their inputs' columns on.
    plan.inputs().into_iter().any(|input| {
        input.schema().fields().len() == plan.schema().fields().len() && is_end(input, output)
    })
}

/// The refusal of a call below a release, where private rows are read.
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

/// The refusal of a call on something that has no interval.
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

/// The refusal of a call in a condition or an order, on a number whose interval is not shown.
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

/// The refusal of a call in a clause that allows none.
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
