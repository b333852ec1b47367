//! Which releases find the bounds that they lack.
//!
//! In: a release, as the statement has it. Out: whether half of its cost may find its bounds. It
//! follows from the statement alone.
//!
//! ```text
//! LAPLACE(eps=1) SUM(x)       yes
//! LAPLACE(within=5) SUM(x)    no: nobody knows its cost before its range
//! ```

use crate::analysis::default_shares::costs_nothing;
use crate::analysis::keys::unknown::asks_for_threshold;
use crate::dialect::{AggregateName, MechanismName, Operand, ReleaseClause};

/// True if bounds may be found for a release: a mechanism or OPTIONS state its cost, or a default
/// of a budget is its cost, and it is a sum, mean, variance, quantile or extreme, or a statistic of
/// two columns, without bounds.
///
/// # Guarantee
/// The bound b is released before the aggregate is drawn. For each b, a quantile or extreme of
/// CLAMP(x / b, −1, 1) is a choice among the ticks of −1..1, which are fixed. A row changes its
/// scores, which are ranks, as over a declared range of −1..1, and the rank that an extreme looks
/// for follows from the half of ε and the number of ticks alone. So the choice loses the half of
/// the cost whatever b is, and the histogram loses the other half.
pub(super) fn is_eligible(clause: &ReleaseClause) -> bool {
    let Operand::Aggregate(call) = &clause.operand else { return false };
    let bounded = call.bounds_per_group.is_some() || call.bounds_per_row.is_some();
    let asked = &clause.parameters;
    let priced = !costs_nothing(asked);
    let by_cost = asked.within.is_none() && asked.complete_above.is_none() && !asked.rows_auto;
    let known_groups = clause.grouping.as_ref().is_none_or(|g| !asks_for_threshold(g));
    let ranked = matches!(
        call.function,
        AggregateName::Median
            | AggregateName::Quantile
            | AggregateName::Quantiles
            | AggregateName::Min
            | AggregateName::Max
    );
    let summed = matches!(
        call.function,
        AggregateName::Sum
            | AggregateName::Avg
            | AggregateName::Spread(_)
            | AggregateName::Joint(_)
    );
    let costs = match clause.mechanism {
        MechanismName::Default => priced || clause.grouping.is_none(),
        MechanismName::Laplace
        | MechanismName::Gaussian
        | MechanismName::Auto
        | MechanismName::Exponential
        | MechanismName::GeneralizedExponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax => priced,
        // The bounds that it finds would be those of rows, and not of the blocks' values.
        MechanismName::RandomizedResponse | MechanismName::SampleAndAggregate => false,
    };
    let known = known_groups && by_cost && costs && clause.finding.is_none();
    (summed || ranked) && !bounded && !call.distinct && known
}
