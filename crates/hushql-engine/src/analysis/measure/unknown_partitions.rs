//! Unknown partitions: groups with undeclared keys, the clause that pays for their threshold, and
//! how their units are counted.
//!
//! In: the releases of a GROUP BY with a column that has no public keys. Out:
//! [`UnknownPartitions`]: a group is released only if a noisy number of its units reaches a
//! threshold. For that number, a unit is in at most C groups, with one row in each; a hash chooses
//! them before anything is counted. If the query counts rows anyway, or adds up values above 0, the
//! threshold can compare these noisy numbers instead. A group exists only if its compared number is
//! at least 1, in steps of the grid. The other measures do not create groups.
//!
//! ```text
//! zip, LAPLACE(eps=1, delta=1e-6) COUNT(DISTINCT id)      its own noisy number is compared, nothing is split
//! zip, LAPLACE(eps=1, delta=1e-6) SUM(x)                  half of ε counts units, unless x is in a narrow range above 0
//! zip, LAPLACE(eps=1, delta=1e-6) SUM(x), LAPLACE(eps=1) COUNT(DISTINCT id)      the second number is compared
//! zip, LAPLACE(eps=1, delta=1e-6) COUNT(*)                its own number is compared, unless half of ε for units gives a much lower τ
//! ```

use super::row_bound_ladder::with_a_bound;
use super::sensitivity::ContributionBounds;
use super::{Input, Measure, VarianceMoments};
use crate::analysis::below::unit::UnitScope;
use crate::catalog::FloorOf;
use crate::dialect::{GroupingClause, MechanismName};
use crate::privacy::decimal_text;
use crate::refusal::{Reason, Refusal};

/// Groups with undeclared keys.
#[derive(Debug, Clone)]
pub struct UnknownPartitions {
    /// The enforced bounds of a unit's contribution to the compared numbers. If these count units:
    /// one row in each of C groups.
    pub limits: ContributionBounds,
    /// C: the number of groups in which a unit is counted.
    pub groups: u64,
    /// The measure whose noisy number is compared; `None` if units are counted only for the
    /// threshold.
    pub counter: Option<usize>,
    /// The clause that states δ.
    pub payer: Payer,
    /// The smallest noisy number of units that the query asks for.
    pub least: u64,
    /// True if a unit is counted in every group in which it has rows.
    pub covers: bool,
    /// The kind of the compared numbers.
    pub compares: Compares,
    /// The released numbers that may be compared instead.
    pub released: Vec<Released>,
    /// The floors of people that bind the groups.
    pub floors: Vec<FloorOf>,
}

/// The kind of number that is compared with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compares {
    /// Units, each with one row in a group.
    Units,
    /// Rows. A unit may have several rows in a group.
    Rows,
    /// Sums of values, in steps of the measure's grid.
    Values {
        /// The least that a row adds, at least 1.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl Compares {
    /// The most that one row adds to a number.
    pub fn most_of_row(self) -> u64 {
        match self {
            Self::Units | Self::Rows => 1,
            Self::Values { most, .. } => most,
        }
    }

    /// The largest number of units in a group with this number without noise, if each unit adds as
    /// little as it can.
    pub fn units(self, number: u64) -> u64 {
        match self {
            Self::Units | Self::Rows => number,
            Self::Values { least, .. } => number.div_ceil(least.max(1)),
        }
    }
}

/// A measure that counts rows (a unit may have several in a group), or that adds up values above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// The index of the measure.
    pub measure: usize,
    /// The kind of its number.
    pub compares: Compares,
    /// Its bounds.
    pub limits: ContributionBounds,
    /// C: the number of groups in which a unit may have rows.
    pub groups: u64,
    /// True if a unit is counted in every group in which it has rows.
    pub covers: bool,
}

/// The clause that states the δ of a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payer {
    /// The release at this position.
    Release(usize),
    /// OPTIONS, for the bare aggregates of its SELECT.
    Options(Box<GroupingClause>),
}

impl UnknownPartitions {
    /// Determines the number that the threshold compares, and the clause that pays for it.
    ///
    /// # Guarantee
    /// The floors are those of the owner. `limits` allow a unit one row in each group and at most
    /// `groups` groups, so that the numbers of units have Δ₁ = Δ₂² = C, and change by 1 in each
    /// group. With a counter, these are the counter's own limits.
    ///
    /// # Errors
    /// Refuses months of people, several releases that state δ, units with several rows in a group,
    /// and an unbounded number of groups of a unit.
    pub(crate) fn for_measures(
        measures: &[Measure],
        subject: &UnitScope,
        floors: &[FloorOf],
    ) -> Result<Self, Refusal> {
        let payer = payer(measures)?;
        if let Some(date) = subject.month_of() {
            return Err(Refusal::new(
                Reason::UnknownKeys,
                "GROUP BY",
                format!(
                    "a unit is one month of {date} here, so a threshold counts the months of people, and one person's many months could show a group of theirs"
                ),
                "keys that are public: GROUP BY x KEYS ('a', 'b'), or a domain that the owner declares",
            ));
        }
        if subject.is_row() && subject.max_rows() != Some(1) {
            return Err(Refusal::new(
                Reason::NoContributionBound,
                "GROUP BY",
                "a threshold counts people, and here one of them may have several rows in a group",
                "keys that are public: GROUP BY x KEYS ('a', 'b')",
            ));
        }
        if let Some(one) = measures.iter().find(|m| matches!(m.input, Input::Distinct(_))) {
            return Err(Refusal::new(
                Reason::NotYet,
                &one.clause.text,
                "distinct values can be counted in public groups only, so far",
                "GROUP BY x KEYS (…), or COUNT(DISTINCT unit)",
            ));
        }
        let first = match &payer {
            Payer::Release(i) => measures.get(*i),
            Payer::Options(_) => measures.iter().find(|m| is_of_options(m)),
        };
        let by_laplace = |m: &Measure| {
            matches!(
                m.clause.mechanism,
                MechanismName::Laplace | MechanismName::Auto | MechanismName::Default
            )
        };
        // A choice of groups that states its own ε counts units for itself.
        let own = |m: &Measure| m.clause.grouping.as_ref().is_some_and(|g| g.threshold.is_some());
        let own = measures.iter().any(own);
        let counter = measures.iter().position(|m| !own && counts_units(m) && by_laplace(m));
        let counter = counter.or(match payer {
            Payer::Release(i) => Some(i).filter(|i| measures.get(*i).is_some_and(counts_units)),
            Payer::Options(_) => None,
        });
        let bounding = counter.and_then(|i| measures.get(i)).or(first);
        let limits = bounding.map(|m| ContributionBounds { per_partition: 1, ..m.limits });
        let groups = limits.and_then(|limits| limits.l0);
        let (Some(limits), Some(groups)) = (limits, groups) else {
            let refusal = Refusal::new(
                Reason::NoContributionBound,
                "GROUP BY",
                "nothing bounds how many groups one unit is in",
                "groups=C among the mechanism's parameters, max_groups_contributed in OPTIONS, or declare the unit with MAX ROWS n",
            );
            return Err(match bounding {
                Some(measure) => with_a_bound(refusal, &measure.clause),
                None => refusal,
            });
        };
        let least = measures.iter().filter_map(|m| m.clause.grouping.as_ref()?.min_units).max();
        let least = least.unwrap_or(1);
        let released = match counter {
            // If the query or the owner asks for a minimum number of units, the threshold must
            // compare a number of units.
            None if least == 1 && floors.is_empty() && !own => {
                released(measures, &payer, &by_laplace, subject)
            }
            None | Some(_) => Vec::new(),
        };
        let covers = bounding.is_some_and(|measure| covers(measure, groups, subject));
        let compares = Compares::Units;
        let floors = floors.to_vec();
        Ok(Self { limits, groups, counter, payer, least, covers, compares, released, floors })
    }

    /// The fewest people of a group that may be shown: the owner's largest floor, or 1.
    pub(crate) fn floor(&self) -> u64 {
        self.floors.iter().map(|own| own.floor.people).max().unwrap_or(1)
    }

    /// The same groups with a released number as the compared one, for each such number. `measures`
    /// are the measures of the groups. Sums are left out if other measures read the same column,
    /// because both may come from one vector.
    ///
    /// # Guarantee
    /// A unit that is alone in some groups adds at most as much to their numbers of rows as
    /// `limits` allow, and at most [`Compares::most_of_row`] with each row. A group whose number is
    /// 0 is not shown. So the threshold for these limits hides such groups just as a threshold on
    /// units does.
    pub(crate) fn comparing_released(&self, measures: &[Measure]) -> Vec<Self> {
        let is_alone = |one: &&Released| {
            let Some(Measure { input: Input::Sum(column), .. }) = measures.get(one.measure) else {
                return true;
            };
            measures.iter().filter(|other| reads(other, *column)).count() == 1
        };
        let compared = |one: &Released| {
            let Released { measure, compares, limits, groups, covers } = *one;
            Self { limits, groups, counter: Some(measure), covers, compares, ..self.clone() }
        };
        self.released.iter().filter(is_alone).map(compared).collect()
    }
}

/// The first measure that counts all rows of its groups, and the measures that add up values
/// above 0. Each must have Laplace noise, or be the release that states δ.
fn released(
    measures: &[Measure],
    payer: &Payer,
    by_laplace: &dyn Fn(&Measure) -> bool,
    subject: &UnitScope,
) -> Vec<Released> {
    let may_be = |(i, m): &(usize, &Measure)| {
        m.filter.is_none() && (by_laplace(m) || *payer == Payer::Release(*i))
    };
    let of = |(measure, own): (usize, &Measure)| {
        let compares = match own.input {
            Input::Rows => Compares::Rows,
            Input::Sum(_) => {
                let least = u64::try_from(own.lo).ok().filter(|least| *least >= 1)?;
                Compares::Values { least, most: u64::try_from(own.hi).ok()? }
            }
            Input::Values(_)
            | Input::Units
            | Input::Distinct(_)
            | Input::Mean(_)
            | Input::Moments(_)
            | Input::Joint(_)
            | Input::SumPerUnit(_)
            | Input::MeanPerUnit(_)
            | Input::Terms { .. }
            | Input::Places { .. }
            | Input::Bins { .. } => return None,
        };
        let limits = own.limits;
        let groups = limits.l0.or(limits.total)?;
        // A unit with only NULL values adds nothing.
        let covers = compares == Compares::Rows && covers(own, groups, subject);
        Some(Released { measure, compares, limits, groups, covers })
    };
    let mut rows = false;
    let all = measures.iter().enumerate().filter(may_be).filter_map(of);
    all.filter(|one| one.compares != Compares::Rows || !std::mem::replace(&mut rows, true))
        .collect()
}

/// True if a measure adds up or counts the values of this column.
fn reads(measure: &Measure, own: usize) -> bool {
    match measure.input {
        Input::Sum(column)
        | Input::Values(column)
        | Input::Mean(column)
        | Input::Moments(VarianceMoments { column, .. }) => column == own,
        Input::Rows
        | Input::Units
        | Input::Distinct(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => false,
    }
}

/// True if `groups` includes all groups in which a unit can have rows: the query leaves none of
/// them out, or a unit has no more rows than groups.
fn covers(measure: &Measure, groups: u64, subject: &UnitScope) -> bool {
    let asked = &measure.clause.parameters;
    let total = measure.limits.total.unwrap_or(u64::MAX);
    asked.groups.is_none() && asked.total_rows.is_none()
        || subject.max_rows().is_some_and(|rows| rows <= groups.min(total))
}

/// True if a measure's integers are the numbers of units in the groups, with one row per unit in
/// each.
fn counts_units(measure: &Measure) -> bool {
    let alone = measure.input == Input::Rows && measure.limits.per_partition == 1;
    measure.filter.is_none() && (measure.input == Input::Units || alone)
}

/// True if OPTIONS state the cost of a measure.
fn is_of_options(measure: &Measure) -> bool {
    measure.clause.mechanism == MechanismName::Default && measure.clause.grouping.is_some()
}

/// The one release that states δ, or the OPTIONS that state it.
fn payer(measures: &[Measure]) -> Result<Payer, Refusal> {
    let names_delta = |m: &Measure| m.clause.parameters.delta.is_some();
    let of_options = measures.iter().find(|m| is_of_options(m) && names_delta(m));
    let marked = measures.iter().enumerate().filter(|(_, m)| !is_of_options(m) && names_delta(m));
    let marked: Vec<(usize, &Measure)> = marked.collect();
    let grouping = of_options.and_then(|m| m.clause.grouping.clone());
    match (grouping, marked.as_slice()) {
        (Some(grouping), []) => Ok(Payer::Options(grouping)),
        (None, [(i, _)]) => Ok(Payer::Release(*i)),
        (Some(_), of) => Err(several_deltas("OPTIONS", of.iter().map(|(_, one)| *one))),
        (None, [first, rest @ ..]) => {
            let needs_delta = |(_, one): &&(usize, &Measure)| is_gaussian(one);
            let keeps = marked.iter().find(needs_delta).unwrap_or(first);
            let others = std::iter::once(first).chain(rest).filter(|(at, _)| *at != keeps.0);
            let keeps = keeps.1.clause.as_written();
            Err(several_deltas(&keeps.text, others.map(|(_, one)| *one)))
        }
        (None, []) => Err(Refusal::new(
            Reason::NoDelta,
            "GROUP BY",
            "groups whose keys are not declared need a delta",
            "LAPLACE(eps=1, delta=1e-6)",
        )),
    }
}

/// True if a release needs a δ for its noise.
fn is_gaussian(measure: &Measure) -> bool {
    let clause = &measure.clause;
    clause.mechanism == MechanismName::Gaussian && clause.parameters.rho.is_none()
}

/// The refusal of several δ. `keeps` is what states the one that stays; the hint has the other
/// releases without.
fn several_deltas<'a>(keeps: &str, others: impl Iterator<Item = &'a Measure>) -> Refusal {
    let without = |one: &Measure| {
        let clause = one.clause.as_written();
        let parameters = &clause.parameters;
        let cost = match (&parameters.epsilon, &parameters.rho, &parameters.within) {
            (Some(epsilon), ..) => format!("eps={epsilon}"),
            (None, Some(rho), _) => format!("rho={rho}"),
            (None, None, Some(within)) => format!("within={}", decimal_text(within, 12)),
            (None, None, None) => "eps=1".to_owned(),
        };
        let name = match is_gaussian(one) {
            true => MechanismName::Laplace,
            false => clause.mechanism,
        };
        format!("{name}({cost}) {}", clause.text)
    };
    let others: Vec<String> = others.map(without).collect();
    Refusal::new(
        Reason::Parameter,
        "delta",
        "the groups of one GROUP BY share one threshold, and several releases state a delta for it",
        format!("{}, without a delta: that of {keeps} is for all groups", others.join(" and ")),
    )
}
