//! The input of an aggregate: the rows that it adds up, in which unit and within which bounds.

use arrow::datatypes::DataType;

use crate::analysis::below::unit::UnitScope;
use crate::analysis::expr::facts::{decimal_unit, type_range};
use crate::analysis::measure::Input;
use crate::analysis::measure::count_distinct::distinct;
use crate::analysis::measure::grid::{bad_bounds, bounds_of, on_grid, per_row};
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::measure::variance::spread;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::dialect::aggregate::argument_of;
use crate::dialect::{AggregateCall, AggregateName, Literal, Parameters};
use crate::grid::Grid;
use crate::privacy::{Rational, decimal_text};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// Determines the input of an aggregate call. GoogleSQL's named bounds may tighten the parameters.
pub(crate) fn read(
    call: &AggregateCall,
    argument: &Argument,
    subject: &UnitScope,
    parameters: &mut Parameters,
    text: &str,
) -> Result<AggregateRead, NotAnalyzed> {
    let is_row = subject.is_row();
    match call.function {
        AggregateName::Unsupported(name) => Err(unsupported(name, text).into()),
        AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue => Err(Refusal::new(
            Reason::Score,
            text,
            format!("{} cannot score the values of a group key", call.function),
            "BY COUNT(*), COUNT(DISTINCT unit) or SUM(x)",
        )
        .into()),
        // With a mechanism, the two columns are read together, see `joint`.
        AggregateName::Joint(joint) => Err(Refusal::new(
            Reason::Score,
            text,
            format!(
                "{joint} cannot score candidates: in a small group one person can move it across its whole range"
            ),
            "BY SUM(x), COUNT(*) or COUNT(DISTINCT unit)",
        )
        .into()),
        AggregateName::Count if call.distinct && argument.is_unit => Ok(AggregateRead::count(Input::Units)),
        AggregateName::Count if call.distinct => Ok(distinct(call, argument, text)?),
        AggregateName::Spread(of) => spread(call, of, argument, text),
        AggregateName::Sum | AggregateName::Avg if call.distinct => Err(Refusal::new(
            Reason::Operand,
            text,
            "a DISTINCT sum has no bounded change: one person can remove a value that others share",
            "the aggregate without DISTINCT",
        )
        .into()),
        AggregateName::Count => {
            if call.bounds_per_row.is_some() {
                return Err(bad_bounds(text, "COUNT has no value per row to bound").into());
            }
            if let Some((lo, hi)) = &call.bounds_per_group {
                let most = match (lo, hi) {
                    (Literal::Number(lo), Literal::Number(hi)) if lo == "0" => {
                        hi.parse::<u64>().ok()
                    }
                    _ => None,
                };
                let most = most.filter(|n| *n > 0);
                let most =
                    most.ok_or_else(|| bad_bounds(text, "the bounds of COUNT are (0, n)"))?;
                parameters.rows = Some(parameters.rows.map_or(most, |rows| rows.min(most)));
            }
            Ok(AggregateRead::count(if call.star { Input::Rows } else { Input::Values(argument.column) }))
        }
        AggregateName::Sum => {
            let column = argument.column;
            if let Some(bounds) = &call.bounds_per_group {
                if call.bounds_per_row.is_some() {
                    return Err(
                        bad_bounds(text, "bounds are per group or per row, not both").into()
                    );
                }
                let bounds = bounds_of(bounds, &argument.data_type, text)?;
                let (grid, lo, hi) = on_grid(argument, &bounds, text)?;
                let input = if is_row { Input::Sum(column) } else { Input::SumPerUnit(column) };
                return Ok(AggregateRead { input, grid, lo, hi });
            }
            let (grid, lo, hi) = on_grid(argument, &per_row(call, argument, text)?, text)?;
            Ok(AggregateRead { input: Input::Sum(column), grid, lo, hi })
        }
        AggregateName::Avg => {
            let column = argument.column;
            let (bounds, once) = match &call.bounds_per_group {
                Some(_) if call.bounds_per_row.is_some() => {
                    return Err(
                        bad_bounds(text, "bounds are per group or per row, not both").into()
                    );
                }
                Some(bounds) => (bounds_of(bounds, &argument.data_type, text)?, !is_row),
                None => (per_row(call, argument, text)?, false),
            };
            let (grid, lo, hi) = on_grid(argument, &bounds, text)?;
            let input = if once { Input::MeanPerUnit(column) } else { Input::Mean(column) };
            Ok(AggregateRead { input, grid, lo, hi })
        }
    }
}

/// The largest magnitude of integers whose sum over millions of rows fits a BIGINT.
const MOST_SUMMED: u128 = 1 << 40;

/// A sum of a decimal type must be able to hold at least this many values.
const FEWEST_SUMMED: u64 = 1 << 23;

/// Determines the input of an aggregate call that is released as a number.
///
/// # Errors
/// As [`read`]. Also refuses a sum of integers or decimals, if its range lets a few million rows
/// exceed the type of the released sum. This follows from the range, never from the rows.
pub(crate) fn read_number(
    call: &AggregateCall,
    argument: &Argument,
    subject: &UnitScope,
    parameters: &mut Parameters,
    text: &str,
) -> Result<AggregateRead, NotAnalyzed> {
    let read = read(call, argument, subject, parameters, text)?;
    let is_sum = matches!(read.input, Input::Sum(_) | Input::SumPerUnit(_));
    let largest = read.lo.unsigned_abs().max(read.hi.unsigned_abs());
    if is_sum && argument.data_type.is_integer() && largest > MOST_SUMMED {
        return Err(Refusal::new(
            Reason::Operand,
            text,
            format!("a sum of values of up to {largest} may be larger than a BIGINT"),
            format!(
                "SUM(CAST({0} AS DECIMAL(38, 0))), or SUM(CLAMP({0}, lo, hi)) of the values that there are",
                argument_of(text)
            ),
        )
        .into());
    }
    if let (true, DataType::Decimal128(digits, scale), Grid::Decimal { scale: places }) =
        (is_sum, &argument.data_type, &read.grid)
    {
        // The type of a sum has ten digits more than its values, and at most 38.
        let sum = DataType::Decimal128(digits.saturating_add(10).min(38), *scale);
        let largest = decimal_unit(*places) * Rational::from_integer(largest.into());
        let all = &largest * Rational::from_integer(FEWEST_SUMMED.into());
        let most = type_range(&sum).and_then(|range| range.max_abs());
        if most.is_some_and(|most| all > most) {
            let largest = decimal_text(&largest, 6);
            return Err(Refusal::new(
                Reason::Operand,
                text,
                format!(
                    "a sum of values of up to {largest} may be larger than a {}",
                    sql_type(&sum)
                ),
                format!(
                    "SUM(CAST({} AS DOUBLE)), or a CAST to a DECIMAL with fewer places",
                    argument_of(text)
                ),
            )
            .into());
        }
    }
    Ok(read)
}

pub(crate) fn unsupported(name: &str, text: &str) -> Refusal {
    let x = argument_of(text);
    Refusal::new(
        Reason::NotYet,
        text,
        format!("{name} is not supported yet"),
        format!(
            "EXPONENTIAL(eps=1) QUANTILE({x}, 0.25), EXPONENTIAL(eps=1) QUANTILE({x}, 0.5), EXPONENTIAL(eps=1) QUANTILE({x}, 0.75)"
        ),
    )
}
