//! Candidates on an axis, scored by revenue or by the number of rows above or below them.
//!
//! In: a comparison of a row's value with the candidate, or a bid. Out: a measure that needs one
//! position per row, for any number of candidates, and the range of their scores.
//!
//! ```text
//! prices 1, 1.5, 2      bid 1.7 has position 2: it buys at the first two
//! ```

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, try_cast};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::candidates::{axis_values, listed_numbers, prior};
use crate::analysis::call::Call;
use crate::analysis::expr::facts::{grid_unit, rational};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{Total, readable};
use crate::analysis::expr::total;
use crate::analysis::keys::MOST_KEYS;
use crate::analysis::keys::candidate_keys::unit_of;
use crate::analysis::measure::choice::{
    CandidateAxis, CandidateSource, Choice, LineScore, Prices, Prior, Sizes, SizesOfRows,
};
use crate::analysis::measure::grid::{on_grid, too_large};
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::measure::measure_frame::{MeasureFrame, argument, remedy};
use crate::analysis::measure::read::read;
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::analysis::measure::{Input, Measure};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::selection::candidate_expr::{is_candidate, mentions};
use crate::analysis::selection::each::each;
use crate::analysis::selection::selection_limits::{log_uniform, rounds, shared, worthwhile};
use crate::dialect::{PriorClause, SelectionClause};
use crate::functions::{AxisPlace, place, without_nan};
use crate::grid::Grid;
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// `x op candidate` with the candidate on the right.
pub(crate) struct CandidateComparison {
    x: Expr,
    op: Operator,
}

/// A predicate that only compares an expression of the row with the candidate.
pub(crate) fn threshold(
    predicate: &Expr,
    frame: &MeasureFrame<'_>,
) -> Result<Option<CandidateComparison>, NotAnalyzed> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = predicate else { return Ok(None) };
    let bare = |expr: &Expr| match expr {
        // The planner casts the candidate to the type of the other side. Integers keep their value.
        Expr::Cast(cast) => is_candidate(&cast.expr) && cast.field.data_type().is_numeric(),
        other => is_candidate(other),
    };
    let (x, op) = if bare(right) && !mentions(left) {
        (left, *op)
    } else if bare(left) && !mentions(right) {
        let Some(op) = op.swap() else { return Ok(None) };
        (right, op)
    } else {
        return Ok(None);
    };
    let ordered = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    let data_type = x.get_type(&frame.flow.scope.schema).map_err(|e| internal(&e))?;
    let numeric = data_type.is_integer() || data_type == DataType::Float64;
    Ok((ordered && numeric).then(|| CandidateComparison { x: x.as_ref().clone(), op }))
}

/// The position of a value of this type among the candidates: the number of candidates at or below
/// it (below it, if strict).
fn place_among(axis: &CandidateAxis, data_type: &DataType, strict: bool) -> Option<AxisPlace> {
    match axis {
        CandidateAxis::Ticks(ticks) => Some(AxisPlace::Ticks { ticks: *ticks, strict }),
        CandidateAxis::Listed(values) => {
            let numbers = (0..values.len())
                .map(|i| rational(&ScalarValue::try_from_array(values, i).ok()?))
                .collect::<Option<Vec<_>>>()?;
            among(&numbers, data_type, strict)
        }
    }
}

/// The position among ascending numbers.
pub(super) fn among(numbers: &[Rational], data_type: &DataType, strict: bool) -> Option<AxisPlace> {
    if data_type.is_floating() {
        let floats: Option<Vec<f64>> = numbers.iter().map(ToPrimitive::to_f64).collect();
        return floats.map(|numbers| AxisPlace::Floats { numbers: numbers.into(), strict });
    }
    let unit = crate::analysis::expr::shape::unit_of(data_type);
    let units = numbers.iter().map(|n| {
        let scaled = n / &unit;
        // With whole units, a value is at least 1.5 if it is at least 2, the next value of the
        // type, and above 1.5 if it is above 1.
        let whole = if strict { scaled.floor() } else { scaled.ceil() };
        whole.to_integer().to_i128()
    });
    let units: Option<Vec<i128>> = units.collect();
    units.map(|numbers| AxisPlace::Units { numbers: numbers.into(), strict })
}

/// Adds a position to the columns. It is NULL if a FILTER does not hold.
pub(crate) fn place_column(
    x: Total,
    data_type: &DataType,
    of: AxisPlace,
    filter: Option<&Expr>,
    frame: &mut MeasureFrame<'_>,
) -> Result<usize, Refusal> {
    let placed = place(without_nan(x.expr, data_type), of);
    let placed = match filter {
        None => placed,
        Some(predicate) => {
            let condition = total(predicate, &frame.flow.scope)?.expr;
            let when = vec![(Box::new(condition), Box::new(placed))];
            Expr::Case(Case::new(None, when, None))
        }
    };
    Ok(frame.columns.argument(placed))
}

/// Candidates scored by the rows above or below them.
pub(crate) fn on_line(
    call: &Call,
    clause: &SelectionClause,
    axis: CandidateAxis,
    threshold: &CandidateComparison,
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.clone();
    let x = total(&threshold.x, &frame.flow.scope)?;
    let data_type = x.expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    // For x >= t and x < t, the position counts the candidates at or below x; for x > t and x <= t,
    // the candidates below x.
    let strict = matches!(threshold.op, Operator::Gt | Operator::LtEq);
    let Some(of) = place_among(&axis, &data_type, strict) else {
        return each(call, clause, &axis, frame);
    };
    let place = place_column(x, &data_type, of, None, frame)?;
    let mut call = call.clone();
    let argument = argument(&call, &clause.score, frame, &frame.flow.scope.clone())?;
    let subject = &frame.flow.subject;
    let by = clause.by.as_str();
    let summed = read(&clause.score, &argument, subject, &mut call.clause.parameters, by)?;
    let weight = match summed.input {
        Input::Rows => None,
        Input::Sum(column) => Some(column),
        Input::Values(_)
        | Input::Units
        | Input::Distinct(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::Mean(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => {
            return Err(Refusal::new(
                Reason::Score,
                &text,
                "ordered candidates are scored by COUNT(*) or SUM(x)",
                format!("BY COUNT(*) FILTER (WHERE x >= {text})"),
            )
            .into());
        }
    };
    let score = match threshold.op {
        Operator::GtEq | Operator::Gt => LineScore::Above,
        _ => LineScore::Below,
    };
    let read = AggregateRead { input: Input::Places { place, weight }, ..summed };
    let limits = frame.limits(&call, &read, frame.outer_of_unit())?;
    // A row changes all candidates on one side of it by the same amount.
    let row = read.lo.unsigned_abs().max(read.hi.unsigned_abs());
    let range = row.checked_mul(limits.per_partition.into()).ok_or_else(|| too_large(&text))?;
    let unit = grid_unit(read.grid);
    Ok(line_choice(
        &call,
        clause,
        ScoredAxis { axis, score, unit, row, largest: row, range, prices_times: None },
        read,
        limits,
        frame,
    )?)
}

/// An axis with its scores, and their change by one row.
pub(crate) struct ScoredAxis {
    pub(crate) axis: CandidateAxis,
    pub(crate) score: LineScore,
    pub(crate) unit: Rational,
    /// The range of the scores' change by one row.
    pub(crate) row: u128,
    /// The largest change of one score by one row.
    pub(crate) largest: u128,
    /// The range of the scores' change by one unit in one group.
    pub(crate) range: u128,
    /// For revenues: the largest quantity of a row. A row changes the score of a price by at most
    /// this quantity times the price.
    pub(crate) prices_times: Option<u128>,
}

pub(crate) fn line_choice(
    call: &Call,
    clause: &SelectionClause,
    line: ScoredAxis,
    read: AggregateRead,
    limits: ContributionBounds,
    frame: &MeasureFrame<'_>,
) -> Result<Measure, Refusal> {
    let text = call.clause.text.as_str();
    let count = line.axis.count();
    let prior = match &clause.prior {
        None => Prior::Uniform,
        Some(PriorClause::LogUniform) => match &line.axis {
            CandidateAxis::Ticks(ticks) if ticks.first() > 0 => Prior::LogUniform,
            CandidateAxis::Ticks(_) | CandidateAxis::Listed(_) => return Err(log_uniform(text)),
        },
        Some(PriorClause::Table { .. }) => {
            let values = axis_values(&line.axis, &call.data_type, text, MOST_KEYS, || {
                format!("a prior has at most {MOST_KEYS} candidates, and there are more")
            })?;
            prior(clause, &values, &call.data_type, frame.lookups)?
        }
    };
    let largest = line.largest.checked_mul(limits.per_partition.into());
    let all_rows = limits.total.map(|rows| (rows, line.row));
    let sizes = line.prices_times.map(|quantity| Sizes {
        of_rows: SizesOfRows::Prices(quantity),
        rows: limits.per_partition,
        total: limits.total,
    });
    let choice = Choice {
        outer: frame.outer(),
        selector: clause.selector,
        rounds: rounds(clause.selector, usize::try_from(count).ok(), &prior),
        source: CandidateSource::Line { axis: line.axis, score: line.score },
        prior,
        range: line.range,
        largest: largest.ok_or_else(|| too_large(text))?,
        l1: None,
        sizes,
        sharing: shared(&limits, frame, line.range, all_rows, text)?,
        unit: line.unit,
        tried: None,
        missing: None,
    };
    worthwhile(&choice, text)?;
    Ok(frame.measure(call, read, limits, choice))
}

/// `REVENUE(x, price [, quantity])`: the price times the quantity that is bought at this price.
pub(crate) fn revenue(
    call: &Call,
    clause: &SelectionClause,
    axis: CandidateAxis,
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.clone();
    let [_, bid, price, rest @ ..] = call.params.args.as_slice() else {
        return Err(no_price(&text).into());
    };
    let filter = call.params.filter.as_deref();
    let alone = |e: &Expr| !mentions(e);
    let score = &clause.score;
    let bounds = score.bounds_per_group.is_some() || score.bounds_per_row.is_some();
    if !is_candidate(price) || !alone(bid) || score.distinct || bounds {
        return Err(no_price(&text).into());
    }
    if !rest.iter().all(alone) || !filter.is_none_or(alone) {
        return Err(Refusal::new(
            Reason::Score,
            &text,
            format!(
                "what is bought at a price depends on the bid alone: the quantity and the FILTER of REVENUE must not mention {text}"
            ),
            format!("BY SUM(…) of any expression with {text}, for at most 1000 candidates"),
        )
        .into());
    }
    let x = total(bid, &frame.flow.scope)?;
    let data_type = x.expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    let exact = data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, 0..));
    let continuous =
        matches!(&axis, CandidateAxis::Ticks(t) if matches!(t.grid(), Grid::Binary { .. }));
    let (x, data_type) = if exact && !continuous || data_type.is_floating() {
        (x, data_type)
    } else if exact {
        // The grid of a continuous range consists of floats, so exact numbers are cast.
        let cast = try_cast(x.expr, DataType::Float64);
        (Total { expr: cast, facts: x.facts }, DataType::Float64)
    } else {
        return Err(Refusal::new(
            Reason::Operand,
            readable(bid),
            format!("a bid of type {} cannot be compared with prices", sql_type(&data_type)),
            "a number: CAST(x AS DOUBLE)",
        )
        .into());
    };
    let prices = prices(clause, &axis, &call.data_type, &text)?;
    let of = match &prices {
        (Prices::Ticks(ticks), _) => AxisPlace::Ticks { ticks: *ticks, strict: false },
        (Prices::Listed(_), _) => listed_numbers(clause)
            .and_then(|numbers| among(&numbers, &data_type, false))
            .ok_or_else(|| no_price(&text))?,
    };
    let place = place_column(x, &data_type, of, filter, frame)?;
    let (weight, grid, hi) = match rest.first() {
        None => (None, Grid::Integer, 1),
        Some(quantity) => {
            let (column, grid, hi) = quantity_column(quantity, &text, frame)?;
            (Some(column), grid, hi)
        }
    };
    let (prices, price_unit) = prices;
    let (least, before_last, most) = ends(&prices);
    let quantity = hi.unsigned_abs();
    // One bid changes the revenues of the prices up to it: by 0 to p₍ₙ₋₁₎ if a price is above it,
    // otherwise by p₁ to pₙ.
    let row = before_last.max(most - least).max(u128::from(least == most));
    let row = row.checked_mul(quantity).ok_or_else(|| too_large(&text))?;
    // The revenue of 2⁴⁶ rows must fit the scores, for all data.
    let largest = most.checked_mul(quantity).filter(|revenue| *revenue <= 1 << 80);
    let largest = largest.ok_or_else(|| too_large(&text))?;
    let read = AggregateRead { input: Input::Places { place, weight }, grid, lo: 0, hi };
    let limits = frame.limits(call, &read, frame.outer_of_unit())?;
    let range = row.checked_mul(limits.per_partition.into()).ok_or_else(|| too_large(&text))?;
    let unit = price_unit * grid_unit(grid);
    let score = LineScore::Revenue { prices };
    Ok(line_choice(
        call,
        clause,
        ScoredAxis { axis, score, unit, row, largest, range, prices_times: Some(quantity) },
        read,
        limits,
        frame,
    )?)
}

/// The quantity that a row buys: its column, its grid, and its largest value.
fn quantity_column(
    quantity: &Expr,
    text: &str,
    frame: &mut MeasureFrame<'_>,
) -> Result<(usize, Grid, i128), NotAnalyzed> {
    let Total { expr, facts } = total(quantity, &frame.flow.scope)?;
    let data_type = expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    if !data_type.is_numeric() {
        return Err(Refusal::new(
            Reason::Operand,
            readable(quantity),
            format!("a quantity is a number, not of type {}", sql_type(&data_type)),
            format!("REVENUE(bid, {text}), or a quantity with a range: CLAMP(x, 0, 10)"),
        )
        .into());
    }
    let column = frame.columns.argument(without_nan(expr, &data_type));
    let remedy = remedy(quantity, frame.flow);
    // A quantity is never negative: the sum is clamped at 0.
    let range = facts.range.above(&Rational::zero()).union(&Interval::point(Rational::zero()));
    let argument = Argument {
        column,
        data_type,
        range: range.clone(),
        is_unit: false,
        is_listed: false,
        remedy,
    };
    let (grid, _, hi) = on_grid(&argument, &range, &readable(quantity))?;
    Ok((column, grid, hi))
}

fn no_price(text: &str) -> Refusal {
    Refusal::new(
        Reason::Score,
        text,
        "REVENUE takes a bid, the name of the price, and optionally a quantity",
        format!("{text} IN RANGE(0.01, 5.00, 0.01) BY REVENUE(bid, {text})"),
    )
}

/// The prices on a grid of their own, ascending, and the value of one unit of this grid.
fn prices(
    clause: &SelectionClause,
    axis: &CandidateAxis,
    data_type: &DataType,
    text: &str,
) -> Result<(Prices, Rational), Refusal> {
    let bad = |message: &str| {
        let hint = format!("{text} IN RANGE(0.01, 5.00, 0.01)");
        Refusal::new(Reason::BadValue, text, message, hint)
    };
    if !data_type.is_numeric() {
        return Err(bad("a price is a number"));
    }
    let negative = || bad("a price is not negative");
    match axis {
        CandidateAxis::Ticks(ticks) if ticks.first() < 0 => Err(negative()),
        CandidateAxis::Ticks(ticks) => Ok((Prices::Ticks(*ticks), unit_of(ticks))),
        CandidateAxis::Listed(_) => {
            let numbers = listed_numbers(clause).ok_or_else(|| no_price(text))?;
            if numbers.iter().any(Signed::is_negative) {
                return Err(negative());
            }
            let one = Rational::one();
            let scale = numbers.iter().fold(one.numer().clone(), |scale, n| scale.lcm(n.denom()));
            let scale = Rational::from_integer(scale);
            let units: Option<Vec<i128>> =
                numbers.iter().map(|n| (n * &scale).to_integer().to_i128()).collect();
            let units = units.filter(|u| u.iter().all(|u| *u < 1 << 80));
            units.map(|u| (Prices::Listed(u), scale.recip())).ok_or_else(|| too_large(text))
        }
    }
}

/// The lowest price, the second highest (0 if there is only one), and the highest.
fn ends(prices: &Prices) -> (u128, u128, u128) {
    let of = |units: i128| units.unsigned_abs();
    match prices {
        Prices::Listed(units) => {
            let last = units.last().copied().unwrap_or(0);
            let before = units.len().checked_sub(2).and_then(|i| units.get(i)).copied();
            (of(units.first().copied().unwrap_or(0)), of(before.unwrap_or(0)), of(last))
        }
        Prices::Ticks(ticks) => {
            let last = ticks.count() - 1;
            let before = last.checked_sub(1).map_or(0, |i| ticks.unit(i));
            (of(ticks.first()), of(before), of(ticks.unit(last)))
        }
    }
}
