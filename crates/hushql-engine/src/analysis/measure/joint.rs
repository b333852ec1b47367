//! Statistics of two columns: correlations, covariances and least-squares lines, and the vector of
//! sums behind them.
//!
//! In: a call, and its two arguments. Out: the aggregate to read: one column with the codes of the
//! pairs (x, y), and the products that each pair adds. A row counts if both values are present. Let
//! X = x − lo and W = hi − lo in steps of x, and Y and V likewise for y. The entries of a row are
//! the terms of
//!
//! ```text
//! COVAR                          ((W − X) + X)·((V − Y) + Y)        4 entries, their sum W·V
//! REGR_SLOPE, REGR_INTERCEPT     ((W − X) + X)²·((V − Y) + Y)       6 entries, their sum W²·V
//! CORR, REGR_R2                  ((W − X) + X)²·((V − Y) + Y)²      9 entries, their sum W²·V²
//! ```
//!
//! Exact arithmetic derives n, ΣX, ΣY and ΣXY from their sums, and the sum of squares of a squared
//! column: Σ of the entries is n·W^p·V^q, and i/p of the entries with the i-th power of X add up to
//! ΣX/W, and so on.
//!
//! Why these entries: let u = X/W and v = Y/V, and let one row have the L1 norm 1. Each entry then
//! has noise of the same size b/ε. A statistic whose first-order change is Σ g(u, v) over rows gets
//! the noise b/ε·‖c‖₂, where c are the coefficients of g in these entries, which are the Bernstein
//! basis. Such c lie within the range of g on the square, so no entry is amplified. Of the vectors
//! that were compared at n rows and ε = 1, this one has the smallest noise (‖c‖₂², for u and v with
//! mean 1/2 and equal variances σ², in units of 1/σ⁴; ρ or β is the true correlation or slope):
//!
//! ```text
//! covariance      these 4 entries                               1/4, and (1 + p²)(1 + q²)/4 at means (1 + p)/2, (1 + q)/2
//!                 n, u − 1/2, v − 1/2, their product            1/4 at the centre, four times that at p = q = 1/2
//! slope           these 6 entries                               (2 + 3β²)/8
//!                 the 4 of the covariance and 2u(1 − u)         9/4·(1 + 2β²)/4, because a row has the norm 3/2
//! correlation     these 9 entries                               (4 + 5ρ²)/16
//!                 the 10 terms of ((1 − u) + u + (1 − v) + v)²  1 at ρ = 0
//!                 n, Σu, Σv, Σuv, Σu², Σv² apart                more than 9, because a row has the norm 6
//! ```
//!
//! No entry can have a larger scale: at a corner, one entry is everything, and at u = 1/2 a larger
//! middle entry would raise the norm.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::Input;
use crate::analysis::call::Call;
use crate::analysis::expr::facts::Scope;
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::Total;
use crate::analysis::expr::total;
use crate::analysis::measure::JointMoments;
use crate::analysis::measure::grid::{bad_bounds, on_grid};
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::measure::measure_frame::{MeasureFrame, remedy};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::dialect::{AggregateCall, Joint};
use crate::functions::{pair, without_nan};
use crate::grid::pairs::Pairs;
use crate::grid::{Grid, GridRange};
use crate::refusal::{Reason, Refusal};

/// The aggregate that a statistic of two columns reads. Adds the codes of its pairs to the columns
/// of the frame.
///
/// # Guarantee
/// The code of a row lies between 0 and the last one, or is NULL if a value is NULL or NaN. The
/// operator that adds the products up clamps it to these codes again. Every code then adds entries
/// ≥ 0 of the L1 norm [`Pairs::weight`]. k rows of a unit in one group change the group's vector by
/// at most k times that in L1, and in L2 too, because ‖v‖₂ ≤ ‖v‖₁; pairs at a corner attain both.
/// Only values are rounded, to steps that depend on their ranges alone; the products of the rounded
/// values are exact.
///
/// # Errors
/// Refuses DISTINCT, bounds in the call, and a column without a range.
pub(crate) fn read_joint(
    call: &Call,
    aggregate: &AggregateCall,
    joint: Joint,
    frame: &mut MeasureFrame<'_>,
    scope: &Scope,
) -> Result<AggregateRead, NotAnalyzed> {
    let text = call.clause.text.as_str();
    if aggregate.distinct {
        return Err(Refusal::new(
            Reason::Operand,
            text,
            "one person can remove a pair that others share, at any distance from the means",
            "the aggregate without DISTINCT",
        )
        .into());
    }
    if aggregate.bounds_per_group.is_some() || aggregate.bounds_per_row.is_some() {
        return Err(Refusal::new(
            Reason::BadValue,
            text,
            format!("{joint} has two columns, and these bounds would not tell which is bounded"),
            format!("{joint}(CLAMP(…, lo, hi), CLAMP(…, lo, hi))"),
        )
        .into());
    }
    let [first, second] = call.params.args.as_slice() else {
        return Err(bad_bounds(text, "this aggregate takes two columns").into());
    };
    let (x, y) = if joint.is_regression() { (second, first) } else { (first, second) };
    let (x, x_range) = one(x, text, frame, scope)?;
    let (y, y_range) = one(y, text, frame, scope)?;
    let pairs = Pairs::new(x_range, y_range, joint.needs_squares())
        .ok_or_else(|| bad_bounds(text, "the ranges are too wide"))?;
    let column = frame.columns.argument(pair(x, y, pairs));
    let input = Input::Joint(JointMoments { column, pairs, joint });
    Ok(AggregateRead { input, grid: Grid::Integer, lo: 0, hi: pairs.last() })
}

/// One of the two columns, made total, with its interval on the grid of its type.
fn one(
    expr: &Expr,
    text: &str,
    frame: &MeasureFrame<'_>,
    scope: &Scope,
) -> Result<(Expr, GridRange), NotAnalyzed> {
    let remedy = remedy(expr, frame.flow);
    let Total { expr, facts } = total(expr, scope)?;
    let data_type: DataType = expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    let range: Interval = facts.range;
    let argument = Argument { data_type, remedy, ..Argument::none() };
    let (grid, lo, hi) = on_grid(&argument, &range, text)?;
    let range = GridRange::new(grid, lo, hi).map_err(|e| internal(&e))?;
    Ok((without_nan(expr, &argument.data_type), range))
}
