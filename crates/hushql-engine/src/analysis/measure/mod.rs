//! What one release measures: an aggregate of certain rows, on a grid, within bounds.
//!
//! In: an aggregate call, its argument's facts, the privacy unit and the parameters. Out: a
//! [`Measure`]: the exact integers that a mechanism receives, how they are bounded per unit, and
//! how far one unit can change them.

use arrow::datatypes::DataType;
use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use crate::analysis::expr::facts::grid_unit;
use crate::dialect::{Joint, MechanismName, Operand, ReleaseClause, Spread};
use crate::grid::pairs::{Axis, Pairs};
use crate::grid::{Grid, coarse_width};
use crate::privacy::{Rational, decimal_text};
use crate::refusal::{Reason, Refusal};
use choice::{CandidateSource, Choice};
use ladder_rungs::Ladder;
use neighbours::Replaced;
use sensitivity::{ContributionBounds, Sensitivity};

pub(crate) mod block_values;
pub(crate) mod choice;
pub(crate) mod contribution_bounds;
pub(crate) mod count_distinct;
pub(crate) mod grid;
pub(crate) mod input;
pub(crate) mod joint;
pub(crate) mod ladder_rungs;
pub(crate) mod measure_frame;
pub(crate) mod neighbours;
pub(crate) mod people_behind;
pub(crate) mod public_ranges;
pub(crate) mod read;
pub(crate) mod replaced_values;
pub(crate) mod row_bound_ladder;
pub(crate) mod sensitivity;
pub(crate) mod unknown_partitions;
pub(crate) mod variance;

/// The aggregate that a release reads, in terms of the input columns of its private aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// COUNT(*).
    Rows,
    /// COUNT(x): rows where the column is not NULL.
    Values(usize),
    /// COUNT(DISTINCT unit).
    Units,
    /// COUNT(DISTINCT x): distinct values of the column.
    Distinct(usize),
    /// SUM(x).
    Sum(usize),
    /// AVG(x), as the vector (Σ(x − lo), Σ(hi − x)).
    Mean(usize),
    /// A variance or standard deviation, as a vector of three sums.
    Moments(VarianceMoments),
    /// A statistic of two columns, as a vector of sums of products.
    Joint(JointMoments),
    /// SUM(x) with the unit's sum in a group clamped to the measure's bounds.
    SumPerUnit(usize),
    /// AVG(x) in which each unit counts once per group, with its clamped mean.
    MeanPerUnit(usize),
    /// One aggregate for each named candidate, over its own columns.
    Terms {
        /// The aggregate of each candidate; it reads the candidate's column.
        kind: Box<Input>,
        /// The columns of the candidates, in order.
        columns: Vec<TermColumns>,
    },
    /// The rows' positions on an axis of candidates. They are counted, or a column is summed.
    Places {
        /// The column of positions. NULL does not count.
        place: usize,
        /// The column that is summed.
        weight: Option<usize>,
    },
    /// CDF(x, n): the rows' bins. They are counted.
    Bins {
        /// The column of bins. NULL does not count.
        place: usize,
        /// The number of bins.
        bins: usize,
    },
}

/// The columns of one candidate's aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TermColumns {
    /// The least that a row adds to the sum, in units of the measure's grid.
    pub lo: i128,
    /// The most that a row adds.
    pub hi: i128,
    /// The column that is counted or summed. Without one, rows are counted.
    pub value: Option<usize>,
    /// The FILTER.
    pub filter: Option<usize>,
}

/// How the integers of a measure are computed from its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputShape {
    /// Sums for every key of the private aggregate.
    Sums,
    /// Distinct values for every key of the private aggregate. These are not sums over rows.
    Distinct,
    /// Sums for every position on the measure's own axis.
    Places,
    /// Sums for every key in the data.
    Keys,
    /// Sums for every combination of keys in the data; `counter` counts its units.
    Groups {
        /// The column of integers that holds the number of units.
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
    /// The smallest value of one row (or of one unit in a group, if that is bounded), on the grid.
    pub lo: i128,
    /// The largest value, on the grid.
    pub hi: i128,
    /// The bounds of a unit's contribution, all enforced.
    pub limits: ContributionBounds,
    /// How the measure is released.
    pub release_kind: ReleaseKind,
    /// The bounds from which the release chooses one. `limits` and the sensitivity belong to the
    /// last one.
    pub ladder: Option<Ladder>,
    /// What holds of it where neighbours replace what a person's row says; `None` where they add or
    /// remove a person. The sensitivity is that for these neighbours.
    pub replaced: Option<Replaced>,
}

/// How a measure is released.
#[derive(Debug, Clone)]
pub enum ReleaseKind {
    /// Perturbed: the sensitivity of the vector over all groups.
    Number(Sensitivity),
    /// Chosen among candidates.
    Choice(Box<Choice>),
}

impl Input {
    /// Replaces the index of every column by its new index.
    fn renumber(&mut self, to: &dyn Fn(&mut usize)) {
        match self {
            Self::Rows | Self::Units => {}
            Self::Values(column)
            | Self::Distinct(column)
            | Self::Sum(column)
            | Self::Mean(column)
            | Self::Moments(VarianceMoments { column, .. })
            | Self::Joint(JointMoments { column, .. })
            | Self::SumPerUnit(column)
            | Self::MeanPerUnit(column) => to(column),
            Self::Terms { kind, columns } => {
                kind.renumber(to);
                for TermColumns { value, filter, .. } in columns {
                    value.iter_mut().for_each(to);
                    filter.iter_mut().for_each(to);
                }
            }
            Self::Places { place, weight } => {
                to(place);
                weight.iter_mut().for_each(to);
            }
            Self::Bins { place, .. } => to(place),
        }
    }

    /// True if a unit counts once per group, for any number of its rows there.
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
            | Self::Joint(_)
            | Self::Places { .. }
            | Self::Bins { .. } => false,
        }
    }
}

impl Measure {
    /// Drops the δ of a release with Laplace noise, or of a choice, which use it only for unknown
    /// groups.
    pub(crate) fn without_idle_delta(&mut self) {
        if self.clause.mechanism == MechanismName::Laplace || self.choice().is_some() {
            self.clause.parameters.delta = None;
        }
    }

    /// Replaces the index of every column by its new index.
    pub(crate) fn renumber(&mut self, moved: &[usize]) {
        let to = |column: &mut usize| *column = moved.get(*column).copied().unwrap_or(*column);
        self.filter.iter_mut().for_each(to);
        self.input.renumber(&to);
    }

    /// The measure as a step of the explanation, with the range of one row.
    pub(crate) fn described(&self) -> String {
        let shown = |units: i128| {
            let value = Rational::from_integer(units.into()) * self.grid_unit();
            decimal_text(&value, 6)
        };
        let what = match &self.clause.operand {
            Operand::Aggregate(_) | Operand::Response => self.clause.text.clone(),
            Operand::Selection(selection) => selection.by.clone(),
        };
        if let Some(joint) = self.joint() {
            let (x, y) = (ends_text(joint.pairs.x()), ends_text(joint.pairs.y()));
            return format!("{what} [{x} × {y}]");
        }
        // Positions on an axis are counted, and a count needs no range.
        if matches!(self.input, Input::Places { weight: None, .. } | Input::Bins { .. }) {
            return what;
        }
        format!("{what} [{}..{}]", shown(self.lo), shown(self.hi))
    }

    /// The value of one step of the grid.
    pub fn grid_unit(&self) -> Rational {
        grid_unit(self.grid)
    }

    /// The choice, if the measure is released as one.
    pub fn choice(&self) -> Option<&Choice> {
        match &self.release_kind {
            ReleaseKind::Choice(choice) => Some(choice),
            ReleaseKind::Number(_) => None,
        }
    }

    /// How the measure's integers are computed from its rows.
    pub fn input_shape(&self) -> InputShape {
        match self.choice().map(|choice| &choice.source) {
            Some(CandidateSource::Line { .. }) => InputShape::Places,
            Some(CandidateSource::Unknown { .. }) => InputShape::Keys,
            Some(CandidateSource::Keys(_) | CandidateSource::Each(_)) | None => match self.input {
                Input::Distinct(_) => InputShape::Distinct,
                Input::Bins { .. } => InputShape::Places,
                Input::Rows
                | Input::Values(_)
                | Input::Units
                | Input::Sum(_)
                | Input::Mean(_)
                | Input::Moments(_)
                | Input::Joint(_)
                | Input::SumPerUnit(_)
                | Input::MeanPerUnit(_)
                | Input::Terms { .. }
                | Input::Places { .. } => InputShape::Sums,
            },
        }
    }

    /// The number of integers of the measure per group: 2 for a mean, 3 for a variance, 4 to 9 for
    /// a statistic of two columns, one for each named candidate. With a ladder of bounds, see
    /// [`Ladder::columns`].
    pub fn width(&self) -> usize {
        self.ladder.as_ref().map_or(self.parts(), |ladder| ladder.columns(self.parts()))
    }

    /// The number of integers of the measure per group under one bound.
    pub fn parts(&self) -> usize {
        match &self.input {
            Input::Rows
            | Input::Values(_)
            | Input::Units
            | Input::Distinct(_)
            | Input::Sum(_)
            | Input::SumPerUnit(_) => 1,
            Input::Mean(_) | Input::MeanPerUnit(_) => 2,
            Input::Moments(_) => 3,
            Input::Joint(joint) => joint.pairs.products(),
            Input::Terms { columns, .. } => columns.len(),
            Input::Places { .. } | Input::Bins { .. } => 1,
        }
    }

    /// The value of one unit of the perturbed integers: a step of the grid, squared for a variance,
    /// or a product of steps.
    pub fn noise_unit(&self) -> Rational {
        match (self.moments(), self.joint()) {
            (Some(moments), _) => moments.unit(&self.grid_unit()),
            (None, Some(joint)) => joint.unit(),
            (None, None) => self.grid_unit(),
        }
    }

    /// The moments of a statistic of two columns.
    pub fn joint(&self) -> Option<&JointMoments> {
        if let Input::Joint(joint) = &self.input { Some(joint) } else { None }
    }

    /// The number of bins of a CDF.
    pub fn bins(&self) -> Option<usize> {
        if let Input::Bins { bins, .. } = self.input { Some(bins) } else { None }
    }

    /// The moments of a variance or standard deviation.
    pub fn moments(&self) -> Option<&VarianceMoments> {
        if let Input::Moments(moments) = &self.input { Some(moments) } else { None }
    }

    /// True if it is released as the two sums of a mean.
    pub fn is_mean(&self) -> bool {
        matches!(self.input, Input::Mean(_) | Input::MeanPerUnit(_))
    }

    /// True if a unit counts once per group, for any number of its rows there.
    pub fn once_per_group(&self) -> bool {
        self.input.once_per_group()
    }

    /// The largest change of the measure by one row (or by one unit in a group), in the L1 norm, in
    /// grid units.
    ///
    /// # Guarantee
    /// max(|lo|, |hi|) for counts and sums; hi − lo for means, whose two parts together change by
    /// exactly that. For variances see [`VarianceMoments::weight`], for statistics of two columns
    /// `Pairs::weight`.
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
        Input::Joint(joint) => Some(joint.pairs.weight()),
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Distinct(_)
        | Input::Sum(_)
        | Input::SumPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => Some(lo.unsigned_abs().max(hi.unsigned_abs())),
    }
}

/// A noise scale or error as a float, for display.
pub(crate) fn approximate(value: &Rational) -> f64 {
    value.to_f64().unwrap_or(f64::INFINITY)
}

/// The column of a variance, and the rounding of its values before they are squared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VarianceMoments {
    /// The column.
    pub column: usize,
    /// Values are rounded to multiples of 2^shift grid units, starting at the lower end.
    pub shift: u32,
    /// The statistic that is computed from the three released sums.
    pub spread: Spread,
}

impl VarianceMoments {
    /// The sum of the three entries that one row adds, in squared steps.
    ///
    /// # Guarantee
    /// For every row with a value in [lo, hi] the three entries are ≥ 0 and add up to exactly this
    /// w²: (w − X)² + 2X(w − X) + X² = w². The change by k such rows is therefore at most k·w² in
    /// L1, and in L2 too, because ‖v‖₂ ≤ ‖v‖₁; rows at an end attain both. `None` when hi < lo or
    /// the result does not fit 128 bits.
    pub fn weight(&self, lo: i128, hi: i128) -> Option<u128> {
        let steps = u128::try_from(coarse_width(lo, hi, self.shift)?).ok()?;
        steps.checked_mul(steps)
    }

    /// The value of one unit of the sums, given the value of a grid unit.
    pub(crate) fn unit(&self, grid_unit: &Rational) -> Rational {
        let step = Rational::from_integer(BigInt::one() << self.shift) * grid_unit;
        &step * &step
    }
}

/// The column of a statistic of two columns: the codes of their pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JointMoments {
    /// The column of codes.
    pub column: usize,
    /// The two columns of a pair. x is the second argument of a regression.
    pub pairs: Pairs,
    /// The statistic that is computed from the released sums.
    pub joint: Joint,
}

impl JointMoments {
    /// The value of one unit of the sums: the product of the steps of both columns. The step of a
    /// squared column counts twice.
    pub(crate) fn unit(&self) -> Rational {
        let of = |axis: &Axis| step(axis).pow(axis.degree());
        of(self.pairs.x()) * of(self.pairs.y())
    }
}

/// The value of one step of an axis.
pub(crate) fn step(axis: &Axis) -> Rational {
    Rational::from_integer(BigInt::one() << axis.shift()) * grid_unit(axis.range().grid())
}

/// The ends of an axis, as decimals in the unit of its column.
pub(crate) fn ends_text(axis: &Axis) -> String {
    let unit = grid_unit(axis.range().grid());
    let of = |end: i128| decimal_text(&(Rational::from_integer(end.into()) * &unit), 6);
    format!("{}..{}", of(axis.range().lo()), of(axis.range().hi()))
}

/// Checks that all releases of a SELECT return the same number of rows per group.
///
/// # Errors
/// Refuses releases that do not.
pub(crate) fn same_rows(measures: &[Measure]) -> Result<(), Refusal> {
    let rows = |measure: &Measure| match &measure.release_kind {
        ReleaseKind::Choice(choice) => {
            (choice.rounds, matches!(choice.source, CandidateSource::Unknown { .. }))
        }
        ReleaseKind::Number(_) => (1, false),
    };
    let Some(first) = measures.first() else { return Ok(()) };
    match measures.iter().find(|m| rows(m) != rows(first)) {
        None if measures.len() > 1 && rows(first).1 => Err(several(&first.clause.text)),
        None => Ok(()),
        Some(other) => Err(several(&other.clause.text)),
    }
}

fn several(text: &str) -> Refusal {
    Refusal::new(
        Reason::Place,
        text,
        "the releases of one SELECT answer with equally many rows, and these do not",
        "two statements",
    )
}
