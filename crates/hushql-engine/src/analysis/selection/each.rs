//! Candidates that are scored separately, each with its own sum.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;

use crate::analysis::call::Call;
use crate::analysis::expr::facts::grid_unit;
use crate::analysis::measure::choice::{
    CandidateAxis, CandidateSource, Choice, Prior, Sizes, SizesOfRows,
};
use crate::analysis::measure::grid::too_large;
use crate::analysis::measure::input::AggregateRead;
use crate::analysis::measure::measure_frame::{MeasureFrame, argument_of};
use crate::analysis::measure::read::read;
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::analysis::measure::{Input, Measure, TermColumns};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::selection::candidate_expr::{is_candidate, mentions};
use crate::analysis::selection::candidates::{axis_values, prior};
use crate::analysis::selection::oscillation::{Oscillation, Scored, oscillation};
use crate::analysis::selection::selection_limits::{
    MOST_TERMS, log_uniform, rounds, shared, worthwhile,
};
use crate::dialect::SelectionClause;
use crate::grid::Grid;
use crate::refusal::{Reason, Refusal};

/// A selection among named candidates, each with its own sum.
pub(crate) fn each(
    call: &Call,
    clause: &SelectionClause,
    axis: &CandidateAxis,
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.clone();
    let most = MOST_TERMS / frame.outer.max(1);
    let values = axis_values(axis, &call.data_type, &text, most, || {
        let groups = match frame.outer {
            1 => String::new(),
            n => format!(" in {n} groups"),
        };
        format!(
            "each candidate{groups} needs a sum of its own, and there are more than {MOST_TERMS}"
        )
    })?;
    let mut call = call.clone();
    let mut terms = Vec::with_capacity(values.len());
    let mut scored = Vec::with_capacity(values.len());
    let mut hull: Option<AggregateRead> = None;
    let (mut shared_filter, mut shared_argument) = (None, None);
    for value in &values {
        let literal = |expr: &Expr| with_candidate(expr, value);
        let predicate = call.params.filter.as_deref().map(literal).transpose()?;
        let varies = call.params.filter.as_deref().is_some_and(mentions);
        let (filter, scope) = match shared_filter.clone() {
            Some(shared) if !varies => shared,
            _ => frame.filter(predicate.as_ref())?,
        };
        shared_filter = Some((filter, scope.clone()));
        let scored_value = call.params.args.get(1).map(literal).transpose()?;
        let argument = match shared_argument.clone() {
            Some(shared) if !varies && !call.params.args.get(1).is_some_and(mentions) => shared,
            _ => {
                let expr = call.params.args.get(1).map(literal).transpose()?;
                argument_of(expr.as_ref(), &clause.score, frame, &scope)?
            }
        };
        shared_argument = Some(argument.clone());
        let subject = &frame.flow.subject;
        let by = clause.by.as_str();
        let one = read(&clause.score, &argument, subject, &mut call.clause.parameters, by)?;
        let (lo, hi) = (one.lo, one.hi);
        scored.push(Scored { filter: predicate, value: scored_value, lo, hi });
        let value = column_of(&one.input, by, &text)?;
        let term = TermColumns { value, filter, lo: one.lo, hi: one.hi };
        terms.push((term, one.grid));
        hull = Some(match hull {
            None => one,
            Some(before) if before.grid == one.grid => {
                AggregateRead { lo: before.lo.min(one.lo), hi: before.hi.max(one.hi), ..before }
            }
            Some(before) => coarser(before, one, &text)?,
        });
    }
    let read = hull.ok_or_else(|| too_large(&text))?;
    let kind = read.input.clone();
    let once = matches!(kind, Input::Units);
    // A term on a coarser grid than its own has the range of all terms.
    let on_grid = |(term, grid): (TermColumns, Grid)| match grid == read.grid {
        true => term,
        false => TermColumns { lo: read.lo, hi: read.hi, ..term },
    };
    let columns: Vec<TermColumns> = terms.into_iter().map(on_grid).collect();
    let own = columns.iter().map(|term| term.lo.unsigned_abs().max(term.hi.unsigned_abs()));
    let own: Vec<u128> = own.collect();
    let read = AggregateRead { input: Input::Terms { kind: Box::new(kind), columns }, ..read };
    let keys = frame.outer;
    let mut limits = frame.limits(&call, &read, keys)?;
    if once {
        limits.per_partition = 1;
    }
    let row = read.hi.max(0).unsigned_abs().checked_add(read.lo.min(0).unsigned_abs());
    let row = row.ok_or_else(|| too_large(&text))?;
    let tried = narrower(&scored, &read, row, frame);
    let row = tried.map_or(row, |tried| tried.most);
    let m = u128::from(limits.per_partition);
    let range = row.checked_mul(m).ok_or_else(|| too_large(&text))?;
    let largest = read.lo.unsigned_abs().max(read.hi.unsigned_abs()).checked_mul(m);
    let all_rows = if once { None } else { limits.total.map(|rows| (rows, row)) };
    let prior = match prior(clause, &values, &call.data_type, frame.lookups)? {
        Prior::LogUniform => return Err(log_uniform(&text).into()),
        other => other,
    };
    let choice = Choice {
        outer: frame.outer(),
        selector: clause.selector,
        rounds: rounds(clause.selector, Some(values.len()), &prior),
        prior,
        source: CandidateSource::Each(axis.clone()),
        range,
        largest: largest.ok_or_else(|| too_large(&text))?,
        l1: None,
        sizes: sizes(own, &limits),
        sharing: shared(&limits, frame, range, all_rows, &text)?,
        unit: grid_unit(read.grid),
        tried: tried.map(|tried| tried.rows),
        missing: None,
    };
    worthwhile(&choice, &text)?;
    Ok(frame.measure(&call, read, limits, choice))
}

/// The largest difference between one row's changes of two scores, if it is known to be less than
/// `row`.
///
/// # Guarantee
/// Only for rows that are units, which are added up one by one. If a unit has several rows, its
/// rows are bounded score by score, by the range of each score. One sum may be cut at its bound and
/// another not, so the two sums no longer belong to the same rows. The range of the score then
/// remains.
fn narrower(
    scored: &[Scored],
    read: &AggregateRead,
    row: u128,
    frame: &MeasureFrame<'_>,
) -> Option<Oscillation> {
    let Input::Terms { kind, .. } = &read.input else { return None };
    if !frame.flow.subject.is_row() {
        return None;
    }
    oscillation(scored, kind, read.grid, &frame.flow.scope, frame.tables)
        .filter(|tried| tried.most < row)
}

/// How far a row changes each sum, if the sums differ in this.
///
/// # Guarantee
/// The operators clamp each term to its own range, also for the rows of a unit that they keep: k
/// rows change its sum by at most k times its size.
fn sizes(own: Vec<u128>, limits: &ContributionBounds) -> Option<Sizes> {
    let differ = own.windows(2).any(|pair| matches!(pair, [a, b] if a != b));
    differ.then_some(Sizes {
        of_rows: SizesOfRows::Listed(own),
        rows: limits.per_partition,
        total: limits.total,
    })
}

/// The column that a candidate's sum adds up; `None` if the candidate counts rows.
fn column_of(input: &Input, by: &str, text: &str) -> Result<Option<usize>, Refusal> {
    match input {
        Input::Rows | Input::Units => Ok(None),
        Input::Values(column) | Input::Sum(column) => Ok(Some(*column)),
        Input::SumPerUnit(_) => Err(Refusal::new(
            Reason::Score,
            by,
            "bounds per group cannot score named candidates",
            "contribution_bounds_per_row => (lo, hi), or CLAMP(x, lo, hi)",
        )),
        Input::Distinct(_) => Err(Refusal::new(
            Reason::NotYet,
            by,
            "COUNT(DISTINCT x) scores the values of a group key only, so far",
            "BY COUNT(DISTINCT unit) FILTER (WHERE …), or BY COUNT(*) FILTER (WHERE …)",
        )),
        Input::Mean(_)
        | Input::MeanPerUnit(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => Err(too_large(text)),
    }
}

/// Combines two ranges of float expressions on the coarser of their grids.
pub(crate) fn coarser(
    a: AggregateRead,
    b: AggregateRead,
    text: &str,
) -> Result<AggregateRead, Refusal> {
    let (Grid::Binary { log2: x }, Grid::Binary { log2: y }) = (a.grid, b.grid) else {
        return Err(too_large(text));
    };
    let (coarse, fine, shift) = if x <= y { (a, b, y - x) } else { (b, a, x - y) };
    // Rounded outward: ⌊lo⌋ and ⌈hi⌉ on the coarser grid.
    let steps = 1_i128.checked_shl(shift.unsigned_abs()).filter(|s| *s > 0);
    let steps = steps.unwrap_or(i128::MAX);
    let (lo, hi) = (fine.lo.div_euclid(steps), -(-fine.hi).div_euclid(steps));
    Ok(AggregateRead { lo: coarse.lo.min(lo), hi: coarse.hi.max(hi), ..coarse })
}

/// The expression for one candidate: its name replaced by its value.
pub(crate) fn with_candidate(expr: &Expr, value: &ScalarValue) -> Result<Expr, NotAnalyzed> {
    let replaced = expr.clone().transform(|e| {
        Ok(if is_candidate(&e) {
            Transformed::yes(Expr::Literal(value.clone(), None))
        } else {
            Transformed::no(e)
        })
    });
    replaced.map(|t| t.data).map_err(|e| internal(&e))
}
