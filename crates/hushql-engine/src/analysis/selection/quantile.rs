//! MIN, MAX, MEDIAN, QUANTILE and QUANTILES: selections among the ticks of a column's range.
//!
//! In: the aggregate's column and its range. Out: a measure in which every row has the index of its
//! tick, and the range of the rank scores. No noise is added to the values: one person can be the
//! extreme value, and noise would not hide that.
//!
//! ```text
//! MEDIAN(age), age in 17..90      74 candidates, scored by the distance of their rank from the middle
//! ```

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, ExprSchemable};
use num_traits::{One, Signed, ToPrimitive};

use super::by_rank::{ScoredAxis, line_choice, place_column};
use super::fractions::several;
use crate::analysis::call::Call;
use crate::analysis::expr::facts::{Facts, KeySource, Scope, type_range};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{is_temporal, is_time};
use crate::analysis::expr::total;
use crate::analysis::measure::choice::{CandidateAxis, LineScore};
use crate::analysis::measure::grid::{no_range, on_grid, per_row, too_large};
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::measure::measure_frame::{MeasureFrame, remedy};
use crate::analysis::measure::{Input, Measure};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::dialect::aggregate::argument_of;
use crate::dialect::{AggregateCall, AggregateName, Literal, SelectionClause, Selector};
use crate::functions::{AxisPlace, is_countable};
use crate::grid::{Grid, GridRange};
use crate::mechanism::Rank;
use crate::mechanism::quantile::range as rank_range;
use crate::privacy::{Rational, parse_decimal};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;
use crate::ticks::Ticks;

/// MIN, MAX, MEDIAN, QUANTILE and QUANTILES as a selection among the ticks of the column's range.
pub(crate) fn quantile(
    call: &Call,
    aggregate: &AggregateCall,
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.clone();
    if aggregate.distinct {
        let message = "a quantile is chosen by the number of rows on either side, and DISTINCT would leave rows out";
        let hint = "the aggregate without DISTINCT";
        return Err(Refusal::new(Reason::Operand, text, message, hint).into());
    }
    if aggregate.bounds_per_group.is_some() {
        let hint = "contribution_bounds_per_row => (lo, hi)";
        return Err(
            Refusal::new(Reason::BadValue, text, "a quantile has bounds per row", hint).into()
        );
    }
    let score = rank(aggregate, &text)?;
    let Some(expr) = call.params.args.first() else { return Err(too_large(&text).into()) };
    let filter = call.params.filter.as_deref();
    let scope = filter.map_or(frame.flow.scope.clone(), |f| frame.flow.scope.narrowed(f));
    let remedy = remedy(expr, frame.flow);
    let x = total(whole(expr, &frame.flow.scope), &scope)?;
    let data_type = x.expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    let in_blocks = frame.flow.subject.blocks().is_some();
    if in_blocks && matches!(score, LineScore::Quantiles(_)) {
        return Err(too_large(&text).into());
    }
    let (ticks, of) = line_of(&x.facts, (&data_type, in_blocks), aggregate, &text, remedy)?;
    let place = place_column(x, &data_type, of, filter, frame)?;
    let read = AggregateRead {
        input: Input::Places { place, weight: None },
        grid: Grid::Integer,
        lo: 0,
        hi: 1,
    };
    let limits = frame.limits(call, &read, frame.outer_of_unit())?;
    let (row, unit) = match score {
        LineScore::Quantile { num, den } => {
            let row = rank_range(Rank::Fraction { num, den }, 1).map_err(|_| too_large(&text))?;
            (row, Rational::new(1.into(), den.into()))
        }
        // The range is that of a rank: each choice of a list divides it by its own fraction.
        LineScore::Quantiles(_)
        | LineScore::Smallest
        | LineScore::Largest
        | LineScore::Revenue { .. }
        | LineScore::Above
        | LineScore::Below
        | LineScore::Exactly => (2, Rational::one()),
    };
    let range = row.checked_mul(limits.per_partition.into()).ok_or_else(|| too_large(&text))?;
    let clause = SelectionClause {
        selector: Selector::ArgMax,
        candidates: None,
        named: true,
        score: aggregate.clone(),
        by: text.clone(),
        prior: None,
    };
    let axis = CandidateAxis::Ticks(ticks);
    let line = ScoredAxis { axis, score, unit, row, largest: row, range, prices_times: None };
    Ok(line_choice(call, &clause, line, read, limits, frame)?)
}

/// Removes a cast of integers or decimals to floats, which the planner adds to arguments. The
/// numbers themselves are better candidates: they have no more digits than their type.
fn whole<'a>(expr: &'a Expr, scope: &Scope) -> &'a Expr {
    match expr {
        Expr::Cast(cast)
            if *cast.field.data_type() == DataType::Float64
                && cast
                    .expr
                    .get_type(&scope.schema)
                    .is_ok_and(|own| own.is_integer() || own.is_decimal()) =>
        {
            &cast.expr
        }
        other => other,
    }
}

fn rank(aggregate: &AggregateCall, text: &str) -> Result<LineScore, Refusal> {
    match (aggregate.function, aggregate.fractions.first()) {
        (AggregateName::Min, _) => Ok(LineScore::Smallest),
        (AggregateName::Max, _) => Ok(LineScore::Largest),
        (AggregateName::Quantiles, _) => several(&aggregate.fractions, text),
        (AggregateName::Quantile, Some(Literal::Number(number))) => {
            let fraction = parse_decimal(number)
                .filter(|q| !q.is_negative() && *q <= Rational::one())
                .and_then(|q| Some((q.numer().to_u64()?, q.denom().to_u64()?)))
                .filter(|(_, den)| *den <= 1_000_000_000);
            let (num, den) = fraction.ok_or_else(|| {
                let message = "the fraction lies between 0 and 1, with at most nine digits";
                let hint = format!("QUANTILE({}, 0.9)", argument_of(text));
                Refusal::new(Reason::BadValue, text, message, hint)
            })?;
            // MIN and MAX are ranks within the rows. Scored as the ranks 0 and n, a value beyond
            // all rows would be chosen as often as one among them.
            Ok(match num {
                0 => LineScore::Smallest,
                _ if num == den => LineScore::Largest,
                _ => LineScore::Quantile { num, den },
            })
        }
        _ => Ok(LineScore::Quantile { num: 1, den: 2 }),
    }
}

/// A range of at most this magnitude that holds on all rows is one for ranks.
const PROVEN: i64 = 100_000_000;

/// The range of an argument. Without one, what is proven of whole numbers such as the days between
/// two moments of the calendar: the error of a rank grows only with the logarithm of the range.
fn ranged_or_proven(facts: &Facts, data_type: &DataType) -> Interval {
    let most = Rational::from_integer(PROVEN.into());
    let proven = facts.always.max_abs().filter(|reached| *reached <= most);
    let own = type_range(data_type).and_then(|range| range.max_abs());
    let is_narrow = proven.zip(own).is_some_and(|(proven, own)| proven < own);
    match data_type.is_integer() && is_narrow && facts.range.bounds().is_none() {
        true => facts.always.clone(),
        false => facts.range.clone(),
    }
}

/// A grid of at most 4,096 steps over the range of floats. The values of blocks scatter by more
/// than a step, and the error of a rank grows with the logarithm of the number of steps.
fn coarse(grid: Grid, lo: i128, hi: i128) -> (Grid, i128, i128) {
    const STEPS: i128 = 4_096;
    let Grid::Binary { mut log2 } = grid else { return (grid, lo, hi) };
    let (mut first, mut last) = (lo, hi);
    while last - first > STEPS {
        (log2, first, last) =
            (log2 - 1, first.div_euclid(2) + first.rem_euclid(2), last.div_euclid(2));
    }
    (Grid::Binary { log2 }, first, last)
}

/// The ticks of a column's range, and the function from a value to its tick.
fn line_of(
    facts: &Facts,
    (data_type, in_blocks): (&DataType, bool),
    aggregate: &AggregateCall,
    text: &str,
    remedy: String,
) -> Result<(Ticks, AxisPlace), NotAnalyzed> {
    if let Some(KeySource::Ticks(ticks)) = &facts.keys {
        return Ok((*ticks, AxisPlace::Tick(*ticks)));
    }
    let temporal = is_temporal(data_type) || is_time(data_type);
    if !temporal && !data_type.is_numeric() {
        return Err(Refusal::new(
            Reason::Operand,
            text,
            format!(
                "values of type {} have no order that a quantile could use",
                sql_type(data_type)
            ),
            "a number, date, time or timestamp",
        )
        .into());
    }
    // Dates, times and timestamps are scored as integers.
    let grid_type = if temporal { DataType::Int64 } else { data_type.clone() };
    let range = ranged_or_proven(facts, data_type);
    let argument = Argument {
        column: 0,
        data_type: grid_type,
        range,
        is_unit: false,
        is_listed: false,
        remedy,
    };
    let range = per_row(aggregate, &argument, text)?;
    let (grid, lo, hi) = on_grid(&argument, &range, text)?;
    let (grid, lo, hi) = if in_blocks { coarse(grid, lo, hi) } else { (grid, lo, hi) };
    let range = GridRange::new(grid, lo, hi).map_err(|e| internal(&e))?;
    match Ticks::every(grid, lo, hi) {
        Some(ticks) if is_countable(grid, lo, hi) => Ok((ticks, AxisPlace::Index(range))),
        Some(_) | None => Err(no_range(text, &argument.remedy)),
    }
}
