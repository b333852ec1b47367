//! The bounded contribution of one unit to one group.
//!
//! In: the unit's rows per group, with their counts and sums. Out: the number of rows that each
//! group may keep, and the bounded partial results. Everything is integer arithmetic on the unit's
//! own rows. It guarantees the sensitivities that the analysis claims: see [`EnforcedBounds::keep`]
//! and [`InputKind::partial`].
//!
//! ```text
//! // Three groups with 5, 1 and 4 rows, in hash order; 4 rows a unit, 3 a group:
//! let limits = EnforcedBounds { total: Some(4), per_partition: Some(3), l0: None };
//! limits.keep([5, 1, 4].into_iter(), |rows| *rows); // (5, 3), (1, 1)
//! ```

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use serde::{Deserialize, Serialize};

use super::kept_share::{Share, UnitTally, distances, far_squares, mean_half_even};
use crate::grid::pairs::Pairs;
use crate::grid::{Grid, GridRange, coarse_width, failed};

/// The largest number of steps that is squared: a sum of 2⁴⁶ such squares fits.
const MOST_SQUARED: i128 = 1 << 40;

/// How much of a unit's data an aggregate may use. `None` means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct EnforcedBounds {
    /// M: rows of one unit in all groups together.
    pub total: Option<u64>,
    /// m: rows of one unit in one group.
    pub per_partition: Option<u64>,
    /// C: groups of one unit.
    pub l0: Option<u64>,
}

impl EnforcedBounds {
    /// A unit with at most this many rows keeps the same rows in any order of its groups, whatever
    /// its groups are; `None` if this holds for every unit.
    pub(in crate::operator::bound_contributions) fn in_any_order(self) -> Option<u64> {
        [self.total, self.l0].into_iter().flatten().min()
    }

    /// Whether a unit with this many rows keeps them all, whatever its groups are.
    pub fn spare(self, rows: u64) -> bool {
        let most = [self.total, self.per_partition, self.l0];
        most.into_iter().flatten().all(|most| rows <= most)
    }

    /// The most rows of which a unit keeps all, whatever its groups are; `None` if nothing is
    /// bounded. Without GROUP BY, all rows are in one group.
    pub(crate) fn spared(self, grouped: bool) -> Option<u64> {
        let groups = self.l0.filter(|most| grouped || *most == 0);
        [self.total, self.per_partition, groups].into_iter().flatten().min()
    }

    /// Distributes a unit's rows: yields the groups that keep any rows, in their order, each with
    /// k = min(rows, m, rest of M).
    ///
    /// # Guarantee
    /// For all groups in any order, Σk ≤ M, every k ≤ m, and at most C groups keep any. Each k
    /// depends on the numbers of rows alone. Source: the rule of contribution bounding by hash
    /// order.
    pub fn keep<G>(
        self,
        groups: impl Iterator<Item = G>,
        rows: impl Fn(&G) -> usize,
    ) -> impl Iterator<Item = (G, u64)> {
        let mut rows_left = self.total.unwrap_or(u64::MAX);
        let mut groups_left = self.l0.unwrap_or(u64::MAX);
        let most = self.per_partition.unwrap_or(u64::MAX);
        let kept = groups.map_while(move |group| {
            if rows_left == 0 || groups_left == 0 {
                return None;
            }
            let rows = u64::try_from(rows(&group)).unwrap_or(u64::MAX);
            let kept = rows.min(most).min(rows_left);
            rows_left -= kept;
            groups_left -= u64::from(kept > 0);
            Some((group, kept))
        });
        kept.filter(|(_, kept)| *kept > 0)
    }
}

/// One aggregate to compute, with its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AggregateInput {
    /// The kind of aggregate.
    pub kind: InputKind,
    /// The bounds of a unit's contribution.
    pub limits: EnforcedBounds,
    /// The bounds of a ladder, which replace `limits`: the aggregate is computed under each of
    /// them.
    pub ladder: Option<Vec<u128>>,
    /// Whether the bounds of the ladder are numbers of rows for a sum, too.
    pub by_rows: bool,
}

impl AggregateInput {
    /// One aggregate under one set of bounds.
    pub fn new(kind: InputKind, limits: EnforcedBounds) -> Self {
        Self { kind, limits, ladder: None, by_rows: false }
    }

    /// The number of output columns. Under a ladder these are, in order: the outputs under its last
    /// bound; for each smaller bound, what it cuts of them; for each bound, the number of units
    /// beyond it; and the number of units that contribute anything.
    pub fn outputs(&self) -> usize {
        let parts = self.kind.outputs();
        self.ladder.as_ref().map_or(parts, |rungs| rungs.len() * (parts + 1) + 1)
    }

    /// Whether the order of a unit's groups may matter. The order needs the unit's name.
    pub(in crate::operator::bound_contributions) fn is_bounded(&self) -> bool {
        self.ladder.is_some() || self.limits != EnforcedBounds::default()
    }

    /// Whether a unit's contribution depends on the number of rows that pass, and some may not
    /// pass. A bounded sum needs it for the share of the kept rows.
    pub(in crate::operator::bound_contributions) fn reads_flags(&self) -> bool {
        let is_shared = matches!(self.kind, InputKind::Sum { .. }) && self.is_bounded();
        is_shared || self.kind.reads_flags()
    }

    /// The bounds as enforced: an aggregate that counts a unit once per group uses one row of each
    /// group.
    pub(in crate::operator::bound_contributions) fn effective_limits(&self) -> EnforcedBounds {
        if self.ladder.is_some() {
            return EnforcedBounds::default();
        }
        match self.kind {
            InputKind::CountUnits { .. }
            | InputKind::MeanPerUnit { .. }
            | InputKind::SumPerUnit { .. } => {
                EnforcedBounds { per_partition: Some(1), ..self.limits }
            }
            InputKind::CountRows { .. }
            | InputKind::CountValues { .. }
            | InputKind::Sum { .. }
            | InputKind::Mean { .. }
            | InputKind::Moments { .. }
            | InputKind::Products { .. } => self.limits,
        }
    }
}

/// The aggregates. Columns are positions in the operator's input. Filters are Boolean, and NULL
/// counts as false.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InputKind {
    /// COUNT(*).
    CountRows {
        /// FILTER.
        filter: Option<usize>,
    },
    /// COUNT(x): NULL and NaN do not count.
    CountValues {
        /// The counted column.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
    },
    /// COUNT(DISTINCT unit): 1 for every unit with a row that passes.
    CountUnits {
        /// FILTER.
        filter: Option<usize>,
    },
    /// SUM(x) of values clamped to [lo, hi].
    Sum {
        /// The summed column.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
        /// The grid of the sum.
        grid: Grid,
        /// Lower bound of a value, in grid steps.
        lo: i128,
        /// Upper bound of a value, in grid steps.
        hi: i128,
    },
    /// AVG(x) as two outputs: A = Σ(x − lo) and B = Σ(hi − x).
    Mean {
        /// The averaged column.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
        /// The grid of the sums.
        grid: Grid,
        /// Lower bound of a value, in grid steps.
        lo: i128,
        /// Upper bound of a value, in grid steps.
        hi: i128,
    },
    /// A variance as three outputs: A = Σ(w − X)², B = Σ2X(w − X), C = ΣX², with X = x − lo and w =
    /// hi − lo in steps of 2^shift grid units.
    Moments {
        /// The column.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
        /// The grid of the values.
        grid: Grid,
        /// Lower bound of a value, in grid steps.
        lo: i128,
        /// Upper bound of a value, in grid steps.
        hi: i128,
        /// How coarsely values are rounded before they are squared.
        shift: u32,
    },
    /// A statistic of two columns as one output for each product of a pair.
    Products {
        /// The column of codes.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
        /// The pairs.
        pairs: Pairs,
    },
    /// AVG over units: each unit's own mean, clamped to [lo, hi], counts once per group; A and B as
    /// above.
    MeanPerUnit {
        /// The averaged column.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
        /// The grid of the sums.
        grid: Grid,
        /// Lower bound of a unit's mean, in grid steps.
        lo: i128,
        /// Upper bound of a unit's mean, in grid steps.
        hi: i128,
    },
    /// SUM over units: each unit's own sum (of values clamped to [lo, hi]), clamped per group.
    SumPerUnit {
        /// The summed column.
        column: usize,
        /// FILTER.
        filter: Option<usize>,
        /// The grid of the sum.
        grid: Grid,
        /// Lower bound of a value, in grid steps.
        lo: i128,
        /// Upper bound of a value, in grid steps.
        hi: i128,
        /// Lower bound of a unit's sum in one group, in grid steps.
        per_group_lo: i128,
        /// Upper bound of a unit's sum in one group, in grid steps.
        per_group_hi: i128,
    },
}

impl InputKind {
    /// The number of output columns of this aggregate: 2 for the means, 3 for variances, one for
    /// each product of a pair, otherwise 1.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Products { pairs, .. } => pairs.products(),
            Self::Moments { .. } => 3,
            Self::Mean { .. } | Self::MeanPerUnit { .. } => 2,
            Self::CountRows { .. }
            | Self::CountValues { .. }
            | Self::CountUnits { .. }
            | Self::Sum { .. }
            | Self::SumPerUnit { .. } => 1,
        }
    }

    /// The column that is counted or summed.
    pub(in crate::operator::bound_contributions) fn column(&self) -> Option<usize> {
        match self {
            Self::CountRows { .. } | Self::CountUnits { .. } => None,
            Self::CountValues { column, .. }
            | Self::Sum { column, .. }
            | Self::Mean { column, .. }
            | Self::Moments { column, .. }
            | Self::Products { column, .. }
            | Self::MeanPerUnit { column, .. }
            | Self::SumPerUnit { column, .. } => Some(*column),
        }
    }

    /// The FILTER column.
    pub(in crate::operator::bound_contributions) fn filter(&self) -> Option<usize> {
        match self {
            Self::CountRows { filter }
            | Self::CountValues { filter, .. }
            | Self::CountUnits { filter }
            | Self::Sum { filter, .. }
            | Self::Mean { filter, .. }
            | Self::Moments { filter, .. }
            | Self::Products { filter, .. }
            | Self::MeanPerUnit { filter, .. }
            | Self::SumPerUnit { filter, .. } => *filter,
        }
    }

    /// Whether the partial result needs the number of rows that pass, and some rows may not pass.
    fn reads_flags(&self) -> bool {
        match self {
            Self::CountRows { filter } | Self::CountUnits { filter } => filter.is_some(),
            Self::CountValues { .. }
            | Self::Mean { .. }
            | Self::Moments { .. }
            | Self::Products { .. }
            | Self::MeanPerUnit { .. }
            | Self::SumPerUnit { .. } => true,
            Self::Sum { .. } => false,
        }
    }

    /// For squared values: how coarsely they are rounded before squaring.
    pub(in crate::operator::bound_contributions) fn shift(&self) -> Option<u32> {
        match self {
            Self::Moments { shift, .. } => Some(*shift),
            Self::CountRows { .. }
            | Self::CountValues { .. }
            | Self::CountUnits { .. }
            | Self::Sum { .. }
            | Self::Mean { .. }
            | Self::Products { .. }
            | Self::MeanPerUnit { .. }
            | Self::SumPerUnit { .. } => None,
        }
    }

    /// The grid and interval of single values, if values are read.
    ///
    /// # Errors
    /// A planning error for an empty or too wide interval, including that of a unit's sum.
    pub(in crate::operator::bound_contributions) fn range(&self) -> Result<Option<GridRange>> {
        match *self {
            Self::CountRows { .. } | Self::CountValues { .. } | Self::CountUnits { .. } => Ok(None),
            Self::Sum { grid, lo, hi, .. } | Self::Mean { grid, lo, hi, .. } => {
                GridRange::new(grid, lo, hi).map(Some)
            }
            Self::Moments { grid, lo, hi, shift, .. } => {
                if coarse_width(lo, hi, shift).is_none_or(|width| width > MOST_SQUARED) {
                    return plan_err!("the interval is too wide to be squared");
                }
                GridRange::new(grid, lo, hi).map(Some)
            }
            Self::Products { pairs, .. } => pairs.codes().map(Some),
            // The mean is clamped, not its values.
            Self::MeanPerUnit { grid, lo, hi, .. } => {
                GridRange::new(grid, lo, hi)?;
                GridRange::widest(grid).map(Some)
            }
            Self::SumPerUnit { grid, lo, hi, per_group_lo, per_group_hi, .. } => {
                GridRange::new(grid, per_group_lo, per_group_hi)?;
                GridRange::new(grid, lo, hi).map(Some)
            }
        }
    }

    /// Checks the columns that this aggregate reads against the types of the input.
    ///
    /// # Errors
    /// A planning error for a missing column, a filter that is not Boolean, or a column that does
    /// not fit the grid.
    pub(in crate::operator::bound_contributions) fn check(
        &self,
        types: &[&DataType],
    ) -> Result<()> {
        if let Some(filter) = self.filter()
            && types.get(filter) != Some(&&DataType::Boolean)
        {
            return plan_err!("a filter is not a Boolean column");
        }
        let range = self.range()?;
        match self.column().map(|column| types.get(column)) {
            None => Ok(()),
            Some(None) => plan_err!("an aggregated column is missing"),
            Some(Some(data_type)) if range.is_some_and(|range| !range.accepts(data_type)) => {
                plan_err!("a column of type {data_type} does not fit its grid")
            }
            Some(Some(_)) => Ok(()),
        }
    }

    /// The pairs whose products are added up, for an aggregate of products.
    pub(in crate::operator::bound_contributions) fn pairs(&self) -> Option<&Pairs> {
        match self {
            Self::Products { pairs, .. } => Some(pairs),
            Self::CountRows { .. }
            | Self::CountValues { .. }
            | Self::CountUnits { .. }
            | Self::Sum { .. }
            | Self::Mean { .. }
            | Self::Moments { .. }
            | Self::MeanPerUnit { .. }
            | Self::SumPerUnit { .. } => None,
        }
    }

    /// The contribution of one unit to one group (0 for outputs that do not exist). For products
    /// see [`Share::of_parts`].
    ///
    /// If more rows hold a value than may count, each counts as the same share, for all aggregates
    /// of these values: with one point, SUM(x) is lo·COUNT(x) + A and COUNT(x) is (A + B)/(hi −
    /// lo), for the parts A and B of AVG(x).
    ///
    /// # Guarantee
    /// For all tallies of `rows` rows and 1 ≤ k ≤ `rows`, with n the smaller of k and the rows that
    /// hold a value: counts are n; SUM is in [n·lo, n·hi], or 0 if n is 0; the two parts of AVG are
    /// ≥ 0 and together n·(hi − lo); the three parts of a variance likewise, together n·w²;
    /// per-unit SUM in [per_group_lo, per_group_hi] or 0; the parts of per-unit AVG are ≥ 0 and
    /// together hi − lo or 0. The point follows from the unit and the group alone.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice, which requires more than 2⁴⁶ rows,
    /// and for products; the errors of `point`.
    pub(in crate::operator::bound_contributions) fn partial(
        &self,
        tally: UnitTally,
        rows: u64,
        kept: u64,
        point: impl FnOnce() -> Result<u64>,
    ) -> Result<[i128; 3]> {
        let UnitTally { count, sum, squares } = tally;
        let share = || Share::new(kept, [rows, count], point);
        match *self {
            Self::CountRows { .. } | Self::CountValues { .. } => {
                Ok([i128::from(count.min(kept)), 0, 0])
            }
            Self::CountUnits { .. } => Ok([i128::from(count.min(1)), 0, 0]),
            Self::Sum { .. } => Ok([share()?.of(sum)?, 0, 0]),
            Self::Mean { lo, hi, .. } => {
                let mut parts = distances(tally, [lo, hi])?;
                share()?.of_parts(&mut parts)?;
                let [above, below] = parts;
                Ok([above, below, 0])
            }
            Self::Moments { lo, hi, shift, .. } => {
                let width = coarse_width(lo, hi, shift).ok_or_else(failed)?;
                let [below, both] = far_squares(sum, squares, count, width).ok_or_else(failed)?;
                let mut parts = [below, both, squares];
                share()?.of_parts(&mut parts)?;
                Ok(parts)
            }
            Self::Products { .. } => Err(failed()),
            Self::MeanPerUnit { lo, hi, .. } => {
                if count == 0 {
                    return Ok([0; 3]);
                }
                let mean = mean_half_even(sum, count).clamp(lo, hi);
                Ok([mean - lo, hi - mean, 0])
            }
            Self::SumPerUnit { per_group_lo, per_group_hi, .. } => {
                Ok([if count == 0 { 0 } else { sum.clamp(per_group_lo, per_group_hi) }, 0, 0])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EnforcedBounds, InputKind, UnitTally};
    use crate::grid::Grid;

    /// The number of rows that each of these groups keeps.
    fn kept(limits: EnforcedBounds, rows: &[usize]) -> Vec<u64> {
        let mut all = vec![0; rows.len()];
        for ((i, _), kept) in limits.keep(rows.iter().enumerate(), |(_, rows)| **rows) {
            all[i] = kept;
        }
        all
    }

    fn limits([total, per_partition, l0]: [Option<u64>; 3]) -> EnforcedBounds {
        EnforcedBounds { total, per_partition, l0 }
    }

    #[test]
    fn rows_are_distributed_in_order() {
        for (bounds, expected) in [
            ([None, None, None], [5, 1, 4, 2]),
            ([Some(7), None, None], [5, 1, 1, 0]),
            ([Some(4), Some(3), None], [3, 1, 0, 0]),
            ([None, Some(2), Some(3)], [2, 1, 2, 0]),
            ([Some(0), None, None], [0; 4]),
            ([None, Some(0), None], [0; 4]),
            ([None, None, Some(0)], [0; 4]),
        ] {
            assert_eq!(kept(limits(bounds), &[5, 1, 4, 2]), expected, "{bounds:?}");
        }
        // A group without rows does not count toward `l0`.
        assert_eq!(kept(limits([None, None, Some(2)]), &[0, 3, 0, 1, 2]), [0, 3, 0, 1, 0]);
    }

    #[test]
    fn order_is_computed_only_if_it_matters() {
        for m in 0..6 {
            for (unit, groups) in
                [(None, None), (None, Some(2)), (Some(4), None), (Some(4), Some(2))]
            {
                let limits = limits([unit, Some(m), groups]);
                for rows in [vec![], vec![4], vec![3, 2], vec![1, 1, 1], vec![2, 2, 9], vec![1, 1]]
                {
                    let all: u64 = rows.iter().map(|rows| *rows as u64).sum();
                    let own: Vec<u64> = rows.iter().map(|rows| *rows as u64).collect();
                    if limits.spare(all) {
                        assert_eq!(kept(limits, &rows), own);
                    }
                    if limits.spared(rows.len() > 1).is_none_or(|most| all <= most) {
                        assert_eq!(kept(limits, &rows), own);
                    }
                    if limits.in_any_order().is_none_or(|most| all <= most) {
                        let free: Vec<_> = own.iter().map(|rows| m.min(*rows)).collect();
                        assert_eq!(kept(limits, &rows), free, "{limits:?} {rows:?}");
                    }
                }
            }
        }
    }

    /// All parts are scaled together, so that they always belong to the same number of rows.
    #[test]
    fn variances_are_scaled_whole() {
        let (lo, hi) = (-3, 4);
        let kind =
            InputKind::Moments { column: 0, filter: None, grid: Grid::Integer, lo, hi, shift: 0 };
        let values = [-3_i128, -1, 0, 4, 4];
        let above = values.map(|x| x - lo);
        let tally = UnitTally {
            count: 5,
            sum: above.iter().sum(),
            squares: above.iter().map(|x| x * x).sum(),
        };
        let whole = [49 + 25 + 16, 2 * (2 * 5 + 3 * 4), 4 + 9 + 49 + 49];
        assert_eq!(kind.partial(tally, 5, 5, || Ok(0)).unwrap(), whole);
        assert_eq!(whole.iter().sum::<i128>(), 5 * 49);
        for (kept, point) in (1..9).flat_map(|kept| [0, 1 << 63, u64::MAX].map(|p| (kept, p))) {
            // Four of nine rows hold no value, and use up none of the bound.
            let parts = kind.partial(tally, 9, kept, || Ok(point)).unwrap();
            let n = i128::from(kept.min(5));
            assert_eq!(parts.iter().sum::<i128>(), n * 49);
            for (part, whole) in parts.iter().zip(whole) {
                assert!((part * 5 - whole * n).abs() <= 5, "{parts:?} {kept}");
            }
        }
        assert_eq!(kind.partial(UnitTally::default(), 7, 3, || Ok(0)).unwrap(), [0; 3]);
    }

    /// COUNT, SUM and AVG of one argument are computed from the same rows, in exact integers.
    #[test]
    fn count_sum_and_mean_speak_of_the_same_rows() {
        for (lo, hi) in [(-3, 4), (0, 1), (2, 9)] {
            let (column, filter, grid) = (0, None, Grid::Integer);
            let counted = InputKind::CountValues { column, filter };
            let summed = InputKind::Sum { column, filter, grid, lo, hi };
            let mean = InputKind::Mean { column, filter, grid, lo, hi };
            for (rows, kept) in (1..9).flat_map(|rows| (1..=rows).map(move |kept| (rows, kept))) {
                for count in 0..=rows {
                    let n = i128::from(count);
                    for (sum, point) in (n * lo..=n * hi)
                        .flat_map(|sum| [0, 1 << 61, 1 << 63, u64::MAX].map(|p| (sum, p)))
                    {
                        let tally = UnitTally { count, sum, squares: 0 };
                        let own = |kind: &InputKind| {
                            kind.partial(tally, rows, kept, || Ok(point)).unwrap()
                        };
                        let ([n, ..], [s, ..], [a, b, _]) =
                            (own(&counted), own(&summed), own(&mean));
                        assert_eq!((s, a + b), (lo * n + a, (hi - lo) * n));
                        assert!(a >= 0 && b >= 0 && n <= i128::from(kept));
                    }
                }
            }
        }
    }

    #[test]
    fn overflow_is_an_error_not_a_wrap() {
        let sum =
            InputKind::Sum { column: 0, filter: None, grid: Grid::Integer, lo: -1, hi: 1 << 80 };
        let wide = UnitTally { count: u64::MAX, sum: i128::MIN / 2, squares: 0 };
        assert!(sum.partial(wide, u64::MAX, u64::MAX - 1, || Ok(0)).is_ok());
        let mean =
            InputKind::Mean { column: 0, filter: None, grid: Grid::Integer, lo: -1, hi: 1 << 80 };
        assert!(
            mean.partial(
                UnitTally { count: u64::MAX, ..UnitTally::default() },
                u64::MAX,
                u64::MAX,
                || Ok(0)
            )
            .is_err()
        );
    }
}
