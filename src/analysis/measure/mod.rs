//! What one release measures: which aggregate of which rows, on which grid, within which bounds.
//!
//! In: an aggregate call, its argument's facts, the privacy unit and the parameters. Out: a [`Measure`]:
//! the exact integers that a mechanism will be given, how they are bounded per unit, and how much one unit
//! can change them.

pub(crate) mod count_distinct;
pub(crate) mod input_columns;
pub(crate) mod sensitivity;
pub(crate) mod variance;

use arrow::datatypes::DataType;
use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive};

use super::below::unit::Subject;
use super::expr::domain::typed;
use super::expr::facts::rational;
use super::expr::interval::Interval;
use super::expr::unit_of;
use super::selection::choice::{Choice, Source};
use crate::dialect::{AggregateCall, AggregateName, Literal, Parameters, ReleaseClause};
use crate::grid::Grid;
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use count_distinct::distinct;
use sensitivity::{Limits, Sensitivity, of_sums};
use variance::{Moments, spread};

/// The aggregate that a release reads, by the columns of its part's input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// COUNT(*).
    Rows,
    /// COUNT(x): rows where the column is not NULL.
    Values(usize),
    /// COUNT(DISTINCT unit).
    Units,
    /// COUNT(DISTINCT x): different values of the column.
    Distinct(usize),
    /// SUM(x).
    Sum(usize),
    /// AVG(x), as the vector (Σ(x − lo), Σ(hi − x)).
    Mean(usize),
    /// A variance or standard deviation, as a vector of three sums.
    Moments(Moments),
    /// SUM(x) with the unit's sum in a group clamped to the measure's bounds.
    SumPerUnit(usize),
    /// AVG(x) in which the unit counts once per group, with its clamped mean.
    MeanPerUnit(usize),
    /// One aggregate for each named candidate, of its own columns.
    Terms {
        /// What each of them is; its column is that of the term.
        kind: Box<Input>,
        /// The candidates' columns, in their order.
        columns: Vec<TermColumns>,
    },
    /// The rows' places on a line of candidates, counted, or with a column summed.
    Places {
        /// The column of places; NULL does not count.
        place: usize,
        /// The column that is summed.
        weight: Option<usize>,
    },
}

/// The columns of one candidate's aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TermColumns {
    /// What is counted or summed; rows where there is none.
    pub value: Option<usize>,
    /// The FILTER.
    pub filter: Option<usize>,
}

/// How the integers of a measure come out of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathering {
    /// Sums of every key of the part.
    Sums,
    /// Different values of every key of the part: they are no sums over rows.
    Distinct,
    /// Sums of every place on the measure's own line.
    Places,
    /// Sums of every key that the data have.
    Keys,
    /// Sums of every combination of keys that a unit of the data has, which `counter` counts.
    Groups {
        /// The column of integers that is the number of units.
        counter: usize,
    },
}

/// What one release measures.
#[derive(Debug, Clone)]
pub struct Measure {
    /// The release as written.
    pub clause: ReleaseClause,
    /// The column's name in the plan.
    pub column: String,
    /// The column's type.
    pub data_type: DataType,
    /// The aggregate.
    pub input: Input,
    /// The FILTER's column, if it has one.
    pub filter: Option<usize>,
    /// The grid of the sum.
    pub grid: Grid,
    /// The least value of one row (or of one unit in a group, where that is bounded), on the grid.
    pub lo: i128,
    /// The greatest value, on the grid.
    pub hi: i128,
    /// The bounds of a unit's contribution, all enforced.
    pub limits: Limits,
    /// How the measure is released.
    pub use_: Use,
}

/// How a measure is released.
#[derive(Debug, Clone)]
pub enum Use {
    /// Perturbed: the sensitivity of the vector over all groups.
    Number(Sensitivity),
    /// Chosen by.
    Choice(Box<Choice>),
}

/// What one step of a grid is worth.
pub(super) fn grid_unit(grid: Grid) -> Rational {
    match grid {
        Grid::Integer => Rational::one(),
        Grid::Decimal { scale } => super::expr::facts::decimal_unit(scale),
        Grid::Binary { log2 } => {
            let power = Rational::from_integer(BigInt::one() << log2.unsigned_abs());
            if log2 < 0 { power } else { power.recip() }
        }
    }
}

impl Input {
    /// Whether a unit counts once per group, however many rows it has there.
    fn once_per_group(&self) -> bool {
        match self {
            Self::Units | Self::SumPerUnit(_) | Self::MeanPerUnit(_) => true,
            Self::Terms { kind, .. } => kind.once_per_group(),
            Self::Rows
            | Self::Values(_)
            | Self::Distinct(_)
            | Self::Sum(_)
            | Self::Mean(_)
            | Self::Moments(_)
            | Self::Places { .. } => false,
        }
    }
}

impl Measure {
    /// What one step of the grid is worth.
    pub fn grid_unit(&self) -> Rational {
        grid_unit(self.grid)
    }

    /// The choice that the measure serves, if it does.
    pub fn choice(&self) -> Option<&Choice> {
        match &self.use_ {
            Use::Choice(choice) => Some(choice),
            Use::Number(_) => None,
        }
    }

    /// How its integers come out of its rows.
    pub fn gathering(&self) -> Gathering {
        match self.choice().map(|choice| &choice.source) {
            Some(Source::Line { .. }) => Gathering::Places,
            Some(Source::Unknown { .. }) => Gathering::Keys,
            Some(Source::Keys(_) | Source::Each(_)) | None => match self.input {
                Input::Distinct(_) => Gathering::Distinct,
                Input::Rows
                | Input::Values(_)
                | Input::Units
                | Input::Sum(_)
                | Input::Mean(_)
                | Input::Moments(_)
                | Input::SumPerUnit(_)
                | Input::MeanPerUnit(_)
                | Input::Terms { .. }
                | Input::Places { .. } => Gathering::Sums,
            },
        }
    }

    /// How many integers the measure has per group: 2 for a mean, 3 for a variance, one for each named candidate.
    pub fn width(&self) -> usize {
        match &self.input {
            Input::Rows
            | Input::Values(_)
            | Input::Units
            | Input::Distinct(_)
            | Input::Sum(_)
            | Input::SumPerUnit(_) => 1,
            Input::Mean(_) | Input::MeanPerUnit(_) => 2,
            Input::Moments(_) => 3,
            Input::Terms { columns, .. } => columns.len(),
            Input::Places { .. } => 1,
        }
    }

    /// What one of the integers that are perturbed is worth: a step of the grid, squared for a variance.
    pub fn noise_unit(&self) -> Rational {
        match self.moments() {
            Some(moments) => moments.unit(&self.grid_unit()),
            None => self.grid_unit(),
        }
    }

    /// The variance that the measure is, if it is one.
    pub fn moments(&self) -> Option<&Moments> {
        if let Input::Moments(moments) = &self.input { Some(moments) } else { None }
    }

    /// Whether it is released as the two sums of a mean.
    pub fn is_mean(&self) -> bool {
        matches!(self.input, Input::Mean(_) | Input::MeanPerUnit(_))
    }

    /// Whether a unit counts once per group, however many rows it has there.
    pub fn once_per_group(&self) -> bool {
        self.input.once_per_group()
    }

    /// The most that one row (or one unit in a group) moves the measure, in L1, in grid units.
    ///
    /// # Guarantee
    /// max(|lo|, |hi|) for counts and sums; hi − lo for means, whose two parts together move by exactly that;
    /// for variances see [`Moments::weight`].
    pub fn weight(&self) -> Option<u128> {
        weight(&self.input, self.lo, self.hi)
    }
}

/// See [`Measure::weight`].
fn weight(input: &Input, lo: i128, hi: i128) -> Option<u128> {
    match input {
        Input::Mean(_) | Input::MeanPerUnit(_) => {
            hi.checked_sub(lo).and_then(|w| u128::try_from(w).ok())
        }
        Input::Moments(moments) => moments.weight(lo, hi),
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Distinct(_)
        | Input::Sum(_)
        | Input::SumPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. } => Some(lo.unsigned_abs().max(hi.unsigned_abs())),
    }
}

/// The argument of an aggregate: its column, type and range.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub(super) column: usize,
    pub(super) data_type: DataType,
    pub(super) range: Interval,
    pub(super) is_unit: bool,
    /// Whether its values are known one by one: those of a list, of a range with STEP.
    pub(super) is_listed: bool,
    /// How the argument's range can be declared or clamped.
    pub(super) remedy: String,
}

impl Argument {
    /// That of COUNT(*).
    pub(super) fn none() -> Self {
        Self {
            column: 0,
            data_type: DataType::Int64,
            range: Interval::everything(),
            is_unit: false,
            is_listed: false,
            remedy: String::new(),
        }
    }
}

/// The aggregate that is read, on its grid, with the bounds of one row.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) input: Input,
    pub(super) grid: Grid,
    pub(super) lo: i128,
    pub(super) hi: i128,
}

impl Read {
    pub(super) fn count(input: Input) -> Self {
        Self { input, grid: Grid::Integer, lo: 0, hi: 1 }
    }

    /// Whether a unit counts once per group, however many rows it has there.
    fn once_per_group(&self) -> bool {
        self.input.once_per_group()
    }
}

/// Decides what an aggregate call reads; may tighten the parameters by GoogleSQL's named bounds.
pub(super) fn read(
    call: &AggregateCall,
    argument: &Argument,
    subject: &Subject,
    parameters: &mut Parameters,
    text: &str,
) -> Result<Read, Refusal> {
    let is_row = subject.is_row();
    match call.function {
        AggregateName::Unsupported(name) => Err(unsupported(name, text)),
        AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Revenue => Err(Refusal::new(
            Reason::Score,
            text,
            format!("{} cannot score the values of a group key", call.function),
            "BY COUNT(*), COUNT(DISTINCT unit) or SUM(x)",
        )),
        AggregateName::Count if call.distinct && argument.is_unit => Ok(Read::count(Input::Units)),
        AggregateName::Count if call.distinct => distinct(call, argument, text),
        AggregateName::Spread(of) => spread(call, of, argument, text),
        AggregateName::Sum | AggregateName::Avg if call.distinct => Err(Refusal::new(
            Reason::Operand,
            text,
            "a DISTINCT sum has no bounded change: one person can remove a value that others share",
            "the aggregate without DISTINCT",
        )),
        AggregateName::Count => {
            if call.bounds_per_row.is_some() {
                return Err(bad_bounds(text, "COUNT has no value per row to bound"));
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
            Ok(Read::count(if call.star { Input::Rows } else { Input::Values(argument.column) }))
        }
        AggregateName::Sum => {
            let column = argument.column;
            if let Some(bounds) = &call.bounds_per_group {
                if call.bounds_per_row.is_some() {
                    return Err(bad_bounds(text, "bounds are per group or per row, not both"));
                }
                let bounds = bounds_of(bounds, &argument.data_type, text)?;
                let (grid, lo, hi) = on_grid(argument, &bounds, text)?;
                let input = if is_row { Input::Sum(column) } else { Input::SumPerUnit(column) };
                return Ok(Read { input, grid, lo, hi });
            }
            let (grid, lo, hi) = on_grid(argument, &per_row(call, argument, text)?, text)?;
            Ok(Read { input: Input::Sum(column), grid, lo, hi })
        }
        AggregateName::Avg => {
            let column = argument.column;
            let (bounds, once) = match &call.bounds_per_group {
                Some(_) if call.bounds_per_row.is_some() => {
                    return Err(bad_bounds(text, "bounds are per group or per row, not both"));
                }
                Some(bounds) => (bounds_of(bounds, &argument.data_type, text)?, !is_row),
                None => (per_row(call, argument, text)?, false),
            };
            let (grid, lo, hi) = on_grid(argument, &bounds, text)?;
            let input = if once { Input::MeanPerUnit(column) } else { Input::Mean(column) };
            Ok(Read { input, grid, lo, hi })
        }
    }
}

/// The range of one row: the derived one, cut by `contribution_bounds_per_row`.
pub(super) fn per_row(
    call: &AggregateCall,
    argument: &Argument,
    text: &str,
) -> Result<Interval, Refusal> {
    match &call.bounds_per_row {
        Some(bounds) => bounds_of(bounds, &argument.data_type, text),
        None => Ok(argument.range.clone()),
    }
}

fn bounds_of(
    (lo, hi): &(Literal, Literal),
    data_type: &DataType,
    text: &str,
) -> Result<Interval, Refusal> {
    let number = |literal: &Literal| match literal {
        Literal::Number(number) if data_type.is_floating() => {
            typed(number, data_type).ok().and_then(|v| rational(&v))
        }
        Literal::Number(number) => crate::privacy::parse_decimal(number),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    };
    let bounds = number(lo).zip(number(hi));
    let (lo, hi) = bounds.ok_or_else(|| bad_bounds(text, "contribution bounds are two numbers"))?;
    if lo > hi {
        return Err(bad_bounds(text, "the contribution bounds are reversed"));
    }
    Ok(Interval::between(lo, hi))
}

pub(super) fn bad_bounds(text: &str, message: &str) -> Refusal {
    Refusal::new(Reason::BadValue, text, message, "contribution_bounds_per_group => (lo, hi)")
}

fn unsupported(name: &str, text: &str) -> Refusal {
    Refusal::new(
        Reason::NotYet,
        text,
        format!("{name} is not built yet"),
        "QUANTILE(x, 0.25), QUANTILE(x, 0.5), QUANTILE(x, 0.75)",
    )
}

/// Puts a range on the grid of its type.
///
/// # Guarantee
/// Every value of the type inside `range` has a grid integer in [lo, hi] = [⌊L⌋, ⌈U⌉]; for floats the grid
/// is 2^−k with k the largest such that the magnitudes stay within 2³⁹, chosen from the range alone.
pub(super) fn on_grid(
    argument: &Argument,
    range: &Interval,
    text: &str,
) -> Result<(Grid, i128, i128), Refusal> {
    let data_type = &argument.data_type;
    let none = || no_range(text, &argument.remedy);
    let magnitude = range.max_abs().ok_or_else(none)?;
    let (grid, scaled) = if data_type.is_floating() {
        if magnitude > widest() {
            return Err(none());
        }
        let log2 = binary_places(&magnitude);
        let factor = Rational::from_integer(BigInt::one() << log2.unsigned_abs());
        let factor = if log2 < 0 { factor.recip() } else { factor };
        (Grid::Binary { log2 }, range.scale(&factor))
    } else {
        let scaled = range.scale(&unit_of(data_type).recip());
        let grid = match data_type {
            DataType::Decimal128(_, scale) => Grid::Decimal { scale: *scale },
            integer if integer.is_integer() => Grid::Integer,
            other => {
                return Err(Refusal::new(
                    Reason::Operand,
                    text,
                    format!("a column of type {other} cannot be summed"),
                    "a number: CAST(x AS DOUBLE), clamped",
                ));
            }
        };
        if scaled.max_abs().is_none_or(|m| m > widest()) {
            return Err(none());
        }
        (grid, scaled)
    };
    let (lo, hi) = scaled.to_i128().ok_or_else(none)?;
    Ok((grid, lo, hi))
}

/// The largest magnitude that is taken for a range. Beyond it, sums of many integers would come near the accumulator's
/// width, and a grid of floats would be too coarse for any number that was meant: 64-bit integers as floats have none.
pub(super) fn widest() -> Rational {
    Rational::from_integer(BigInt::one() << 62)
}

/// The k for which magnitudes up to `magnitude` times 2^k stay within 2³⁹.
pub(super) fn binary_places(magnitude: &Rational) -> i32 {
    const BITS: i32 = 39;
    const FINEST: i32 = 200;
    let mut log2 = 0_i32;
    let most = Rational::from_integer(BigInt::one() << BITS);
    let two = Rational::from_integer(2.into());
    let mut scaled = magnitude.abs();
    while scaled > most {
        scaled /= &two;
        log2 -= 1;
    }
    while log2 < FINEST && &scaled * &two <= most {
        scaled *= &two;
        log2 += 1;
    }
    log2
}

pub(super) fn no_range(text: &str, remedy: &str) -> Refusal {
    Refusal::new(
        Reason::NoRange,
        text,
        format!("{text} has no range, so one person could change it by any amount"),
        remedy,
    )
}

/// The enforced bounds of a unit's contribution, from the unit, the parameters and the number of groups.
///
/// # Errors
/// A refusal when the measure needs a bound that nobody gave.
pub(super) fn limits(
    subject: &Subject,
    parameters: &Parameters,
    read: &Read,
    keys: usize,
    is_score: bool,
    text: &str,
) -> Result<Limits, Refusal> {
    if let (true, Some(rows)) = (subject.is_row(), subject.max_rows()) {
        let groups = rows.min(u64::try_from(keys).unwrap_or(u64::MAX)).max(1);
        return Ok(Limits { rows_in_all: Some(rows), rows_per_group: rows, groups: Some(groups) });
    }
    let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    };
    let total = least(subject.max_rows(), parameters.total_rows);
    let rows = if read.once_per_group() { Some(1) } else { least(parameters.rows, total) };
    let Some(rows_per_group) = rows else {
        return Err(unbounded(text, "rows of a unit", "rows=m"));
    };
    let groups = least(parameters.groups, total);
    let groups = if keys == 1 { Some(1) } else { least(groups, None) };
    let groups = groups.map(|c| c.min(u64::try_from(keys).unwrap_or(u64::MAX)));
    if groups.is_none() && !is_score {
        return Err(unbounded(text, "groups a unit is in", "groups=C"));
    }
    Ok(Limits { rows_in_all: total, rows_per_group, groups })
}

fn unbounded(text: &str, what: &str, parameter: &str) -> Refusal {
    Refusal::new(
        Reason::NoContributionBound,
        text,
        format!("nothing bounds the {what}, so one person could change the answer by any amount"),
        format!(
            "{parameter} among the mechanism's parameters, max_rows_contributed or max_groups_contributed in OPTIONS, or declare the unit with MAX ROWS n"
        ),
    )
}

/// The sensitivity of a numeric release.
pub(super) fn number(read: &Read, limits: &Limits, text: &str) -> Result<Use, Refusal> {
    let weight = weight(&read.input, read.lo, read.hi).ok_or_else(|| too_large(text))?;
    if weight == 0 {
        let hint = "COUNT(x): a constant needs no other aggregate";
        return Err(Refusal::new(Reason::Operand, text, format!("{text} sums a constant"), hint));
    }
    of_sums(limits, weight).map(Use::Number).ok_or_else(|| too_large(text))
}

pub(super) fn too_large(text: &str) -> Refusal {
    Refusal::new(
        Reason::TooNoisy,
        text,
        "what one person can change does not fit the engine's integers",
        "tighter bounds: CLAMP(x, lo, hi), rows=m, groups=C",
    )
}

/// A noise scale or error as a number for people.
pub(crate) fn approximate(value: &Rational) -> f64 {
    value.to_f64().unwrap_or(f64::INFINITY)
}
