//! CDF: the rows up to the end of each of n equal bins of a column's range.
//!
//! In: the aggregate's column, its range, and n. Out: a measure in which every row has the number
//! of its bin. The bins are counted as COUNT(x) counts groups: a row is in one of them. What the
//! noise is added to is decided later, see [`Cumulative`](crate::mechanism::Cumulative).
//!
//! ```text
//! CDF(age, 10), age in 0..100      up to 10, up to 20, …, up to 100; 10 itself is in the first bin
//! ```

use arrow::datatypes::DataType;
use datafusion::logical_expr::ExprSchemable;
use num_traits::ToPrimitive;

use super::by_rank::{among, place_column};
use crate::analysis::call::Call;
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{Total, is_temporal, is_time};
use crate::analysis::expr::total;
use crate::analysis::keys::MOST_KEYS;
use crate::analysis::measure::contribution_bounds::{limits, number};
use crate::analysis::measure::grid::{no_range, on_grid, per_row, too_large};
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::measure::measure_frame::{MeasureFrame, remedy};
use crate::analysis::measure::{Input, Measure};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::dialect::aggregate::argument_of;
use crate::dialect::{AggregateCall, Literal};
use crate::functions::{AxisPlace, is_countable, place};
use crate::grid::GridRange;
use crate::mechanism::MOST_BINS;
use crate::privacy::{Rational, parse_decimal};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// CDF as the counts of the bins of the column's range.
///
/// # Guarantee
/// A row has one bin, which follows from its own value alone; a row whose value is NULL or NaN, and
/// one that its FILTER leaves out, has none and uses up no bound. So the counts of the bins of all
/// groups change as those of COUNT(x) do: k rows of a unit in one group change the bins of the
/// group by k at most in L1, and in L2 too.
///
/// # Errors
/// Refuses numbers of bins other than 1 to [`MOST_BINS`], columns that have no range or no order,
/// and parameters for which nothing is derived, each with what to write.
pub(crate) fn cdf(
    call: &Call,
    aggregate: &AggregateCall,
    frame: &mut MeasureFrame<'_>,
    are_unknown: bool,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.as_str();
    refuse_others(call, aggregate, are_unknown)?;
    let bins = number_of_bins(aggregate, text)?;
    let numbers = bins.saturating_mul(frame.outer.max(1));
    if numbers > MOST_KEYS {
        return Err(Refusal::new(
            Reason::TooManyKeys,
            text,
            format!("{bins} bins in each of {} groups are {numbers} numbers, and a release has at most {MOST_KEYS}", frame.outer),
            format!("CDF({}, {})", argument_of(text), (MOST_KEYS / frame.outer.max(1)).clamp(1, 100)),
        )
        .into());
    }
    let Some(expr) = call.params.args.first() else { return Err(too_large(text).into()) };
    let filter = call.params.filter.as_deref();
    let scope = filter.map_or(frame.flow.scope.clone(), |f| frame.flow.scope.narrowed(f));
    let remedy = remedy(expr, frame.flow);
    let x = total(expr, &scope)?;
    let data_type = x.expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    let (x, data_type, range) = numbered(x, data_type, aggregate, text, remedy)?;
    let ends = ends(&range, bins).ok_or_else(|| too_large(text))?;
    let of = among(&ends, &data_type, true).ok_or_else(|| too_large(text))?;
    let place = place_column(x, &data_type, of, filter, frame)?;
    let read = AggregateRead::count(Input::Bins { place, bins });
    let subject = &frame.flow.subject;
    let groups = frame.outer_of_unit();
    let limits = limits(subject, &call.clause.parameters, &read, groups, false, text)?;
    let release_kind = number(&read, &limits, text)?;
    Ok(Measure {
        clause: call.clause.clone(),
        column: call.column.clone(),
        data_type: call.data_type.clone(),
        input: read.input,
        filter: None,
        grid: read.grid,
        lo: read.lo,
        hi: read.hi,
        limits,
        release_kind,
        ladder: None,
        replaced: None,
    })
}

/// Refuses what is not derived for the numbers of a CDF.
fn refuse_others(call: &Call, aggregate: &AggregateCall, are_unknown: bool) -> Result<(), Refusal> {
    let text = call.clause.text.as_str();
    let refuse = |reason, clause: &str, message: &str, hint: &str| {
        Err(Refusal::new(reason, clause, message, hint))
    };
    if aggregate.distinct {
        return refuse(
            Reason::Operand,
            text,
            "CDF counts rows, and DISTINCT would leave rows out",
            "the aggregate without DISTINCT",
        );
    }
    if aggregate.bounds_per_group.is_some() {
        return refuse(
            Reason::BadValue,
            text,
            "CDF has bounds per row, and rows=m bounds the rows of a unit in a group",
            "contribution_bounds_per_row => (lo, hi)",
        );
    }
    if are_unknown {
        return refuse(
            Reason::UnknownKeys,
            text,
            "CDF needs groups that are known, because every number of an unknown group would have to hide it",
            "declared keys: a column with a domain, or KEYS ('a', 'b') behind the key",
        );
    }
    let asked = &call.clause.parameters;
    if asked.within.is_some() || asked.complete_above.is_some() {
        return refuse(
            Reason::Parameter,
            text,
            "the cost of a CDF has to be stated",
            &format!("LAPLACE(eps=1) {text}"),
        );
    }
    Ok(())
}

/// The number of bins that stands in the call.
fn number_of_bins(aggregate: &AggregateCall, text: &str) -> Result<usize, Refusal> {
    let bins = match aggregate.fractions.first() {
        Some(Literal::Number(number)) => parse_decimal(number)
            .filter(Rational::is_integer)
            .and_then(|bins| bins.to_integer().to_usize()),
        Some(Literal::Text(_) | Literal::Boolean(_) | Literal::Null) | None => None,
    };
    bins.filter(|bins| (1..=MOST_BINS).contains(bins)).ok_or_else(|| {
        Refusal::new(
            Reason::BadValue,
            text,
            format!("the number of bins of CDF is a whole number from 1 to {MOST_BINS}"),
            format!("CDF({}, 100)", argument_of(text)),
        )
    })
}

/// The argument as a number, its type, and its range in the unit of its values. Dates, times and
/// timestamps become the number of their days or ticks from the start of the range.
fn numbered(
    x: Total,
    data_type: DataType,
    aggregate: &AggregateCall,
    text: &str,
    remedy: String,
) -> Result<(Total, DataType, Interval), NotAnalyzed> {
    let temporal = is_temporal(&data_type) || is_time(&data_type);
    let numeric = data_type.is_integer()
        || data_type.is_floating()
        || matches!(data_type, DataType::Decimal128(_, 0..));
    if !temporal && !numeric {
        return Err(Refusal::new(
            Reason::Operand,
            text,
            format!("values of type {} have no range that CDF could divide", sql_type(&data_type)),
            "a number, date, time or timestamp",
        )
        .into());
    }
    let argument = Argument {
        column: 0,
        data_type: if temporal { DataType::Int64 } else { data_type.clone() },
        range: x.facts.range.clone(),
        is_unit: false,
        is_listed: false,
        remedy,
    };
    let range = per_row(aggregate, &argument, text)?;
    let (grid, lo, hi) = on_grid(&argument, &range, text)?;
    if !temporal {
        return Ok((x, data_type, range));
    }
    if !is_countable(grid, lo, hi) {
        return Err(no_range(text, &argument.remedy));
    }
    let of_range = GridRange::new(grid, lo, hi).map_err(|e| internal(&e))?;
    let Total { expr, facts } = x;
    let expr = place(expr, AxisPlace::Index(of_range));
    let width = Rational::from_integer((hi - lo).into());
    let range = Interval::between(Rational::from_integer(0.into()), width);
    Ok((Total { expr, facts }, DataType::Int64, range))
}

/// The ends of all bins but the last, which ends with the range.
fn ends(range: &Interval, bins: usize) -> Option<Vec<Rational>> {
    let (lo, hi) = range.bounds()?;
    let step = (hi - lo) / Rational::from_integer(bins.into());
    Some((1..bins).map(|bin| lo + &step * Rational::from_integer(bin.into())).collect())
}
