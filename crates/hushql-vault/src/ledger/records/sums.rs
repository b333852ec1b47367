//! Sums of charges: for all cells of people, and for single cells.
//!
//! In: entries of the ledger, one after the other. Out: an upper bound of the loss of each unit. An
//! entry that names cells read the units in these cells alone; an entry that names none counts for
//! everyone. Within one beginning, a unit that is known to be in a cell has the charges to this
//! cell. A unit that can be in any cell has, part by part, the charges to the most expensive one.
//!
//! ```text
//! entries            all: ε = 1     since 7: Oslo ε = 2, Rome ε = ½
//! a unit in Oslo     1 + 2 = 3          a unit in Rome  1 + ½          anyone  1 + max(2, ½) = 3
//! new beginning 9    a unit in any cell: 1 + max(2, ½), plus later charges to its cell
//! ```
//!
//! # Guarantee
//! Let each unit be in one cell from one beginning to the next. Then what [`Sums::at`] returns for
//! the cell of a unit is at least what all entries together reveal of it, even if analysts choose
//! each query after seeing earlier answers. The entries that read the unit are those for everyone
//! and those of its cells, and for each earlier beginning, the most expensive cell bounds the
//! unit's cell.

use std::collections::{BTreeMap, BTreeSet};

use hushql_privacy::privacy::{Cost, ParameterError, Tally};

use crate::catalog::{Cell, Touched};

/// The mechanism of a paid entry that builds on a kept draw, and costs what that draw leaves of its
/// ε. Given the earlier draw it may lose more than its own ε, so no coupon pays for it.
pub const REFINED: &str = "LAPLACE_REFINED";

/// The entries of a sum: the unit domains that they name, and the analyst who asked.
pub(crate) type SumOwner = (Vec<String>, String);

/// The entries of one analyst for one set of unit domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntrySum {
    /// Their total cost.
    pub(crate) cost: Cost,
    /// Their number, and the largest ε of an entry.
    pub(crate) tally: Tally,
}

impl Default for EntrySum {
    fn default() -> Self {
        Self { cost: Cost::zero(), tally: Tally::default() }
    }
}

impl EntrySum {
    /// The sum of one entry of this cost.
    pub(crate) fn of(cost: Cost) -> Self {
        Self { cost, tally: Tally::of(&cost) }
    }

    /// The sum of one entry of this cost that builds on an earlier draw.
    ///
    /// # Guarantee
    /// No budget of coupons can count it, whatever the ε of a coupon: its own ε is only what the
    /// earlier draw leaves, and given that draw it may lose the sum of both.
    pub(crate) fn of_refined(cost: Cost) -> Self {
        Self { cost, tally: Tally { releases: 1, dearest: i64::MAX } }
    }

    /// The sum of the entries of both.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub(crate) fn plus(self, other: Self) -> Result<Self, ParameterError> {
        Ok(Self { cost: self.cost.plus(other.cost)?, tally: self.tally.plus(other.tally)? })
    }

    /// The larger of both sums, part by part.
    ///
    /// # Guarantee
    /// At least each of them in ε, ρ, each δ, the number of entries and the largest ε; without an ε
    /// if one of them has none.
    pub(crate) fn most(self, other: Self) -> Self {
        let [e, d, r, s] = self.cost.amounts();
        let [f, g, t, u] = other.cost.amounts();
        let most = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(a, b)| a.max(b));
        let rho = |a: Option<i64>, b: Option<i64>| a.unwrap_or(0).max(b.unwrap_or(0));
        let cost = Cost::from_amounts(most(e, f).zip(most(d, g)), (rho(r, t), rho(s, u)));
        let tally = Tally {
            releases: self.tally.releases.max(other.tally.releases),
            dearest: self.tally.dearest.max(other.tally.dearest),
        };
        Self { cost, tally }
    }
}

/// One cell of the people of a unit domain, with its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellOfPeople<'a> {
    /// The unit domain.
    pub(crate) unit_domain: &'a str,
    /// The beginning of its cells.
    pub(crate) since: i64,
    /// The cell.
    pub(crate) cell: &'a Cell,
}

/// The sums of charges for each analyst and each set of unit domains that an entry names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// The entries for all cells.
    pub(crate) wide: BTreeMap<SumOwner, EntrySum>,
    /// The entries for single cells, by beginning and cell. An entry for several cells is in the
    /// sum of each.
    pub(crate) narrow: BTreeMap<(SumOwner, i64), BTreeMap<Cell, EntrySum>>,
}

impl Sums {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub(crate) fn add(
        &mut self,
        asked: SumOwner,
        touched: Option<&Touched>,
        one: EntrySum,
    ) -> Result<(), ParameterError> {
        let Some(Touched { since, cells, .. }) =
            touched.filter(|touched| !touched.cells.is_empty())
        else {
            let sum = self.wide.entry(asked).or_default();
            *sum = sum.plus(one)?;
            return Ok(());
        };
        let sums = self.narrow.entry((asked, *since)).or_default();
        for cell in cells {
            let sum = sums.entry(cell.clone()).or_default();
            *sum = sum.plus(one)?;
        }
        Ok(())
    }

    /// An upper bound of what the entries of these analysts for these unit domains reveal: of any
    /// unit, or of one in this place.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub(crate) fn at(
        &self,
        unit_domains: &BTreeSet<String>,
        is_meant: impl Fn(&str) -> bool,
        place: Option<CellOfPeople<'_>>,
    ) -> Result<EntrySum, ParameterError> {
        let own = |cells: &BTreeMap<Cell, EntrySum>| {
            place.and_then(|place| cells.get(place.cell).copied())
        };
        self.summed(
            unit_domains,
            is_meant,
            place.map(|place| (place.unit_domain, place.since)),
            own,
        )
    }

    /// What these entries count for every unit at least, whatever its cell: all of them but those
    /// for single cells of this unit domain with this beginning.
    ///
    /// # Guarantee
    /// At most [`Sums::at`] for each cell of that beginning.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub(crate) fn everywhere(
        &self,
        unit_domains: &BTreeSet<String>,
        is_meant: impl Fn(&str) -> bool,
        beginning: (&str, i64),
    ) -> Result<EntrySum, ParameterError> {
        self.summed(unit_domains, is_meant, Some(beginning), |_| None)
    }

    /// The entries for all cells, those of the most expensive cell of each beginning, and, of the
    /// beginning `known`, what `own` takes of its cells.
    fn summed(
        &self,
        unit_domains: &BTreeSet<String>,
        is_meant: impl Fn(&str) -> bool,
        known: Option<(&str, i64)>,
        own: impl Fn(&BTreeMap<Cell, EntrySum>) -> Option<EntrySum>,
    ) -> Result<EntrySum, ParameterError> {
        let is_asked = |(names, analyst): &SumOwner| {
            is_meant(analyst) && names.iter().any(|name| unit_domains.contains(name))
        };
        let wide = self.wide.iter().filter(|(asked, _)| is_asked(asked));
        let mut all = wide.map(|(_, sum)| *sum).try_fold(EntrySum::default(), EntrySum::plus)?;
        // Adds up the analysts of each beginning first, and then takes the most expensive cell.
        let mut beginnings: BTreeMap<(&[String], i64), BTreeMap<&Cell, EntrySum>> = BTreeMap::new();
        for ((asked, since), cells) in self.narrow.iter().filter(|((asked, _), _)| is_asked(asked))
        {
            let is_known = known.is_some_and(|(unit_domain, beginning)| {
                beginning == *since && matches!(asked.0.as_slice(), [name] if name == unit_domain)
            });
            // There may be hundreds of cells, and the others do not matter.
            if is_known {
                all = all.plus(own(cells).unwrap_or_default())?;
                continue;
            }
            let sums = beginnings.entry((&asked.0, *since)).or_default();
            for (cell, sum) in cells {
                let known = sums.entry(cell).or_default();
                *known = known.plus(*sum)?;
            }
        }
        for cells in beginnings.into_values() {
            let dearest = cells.into_values().reduce(EntrySum::most);
            all = all.plus(dearest.unwrap_or_default())?;
        }
        Ok(all)
    }

    /// The owners of the sums.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &SumOwner> {
        self.wide.keys().chain(self.narrow.keys().map(|(asked, _)| asked))
    }

    /// The newest beginning of cells of a unit domain to which anything was charged.
    pub(crate) fn newest_beginning(&self, unit_domain: &str) -> Option<i64> {
        let own = |((names, _), _): &&(SumOwner, i64)| matches!(names.as_slice(), [name] if name == unit_domain);
        self.narrow.keys().filter(own).map(|(_, since)| *since).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(epsilon: i64) -> Cost {
        Cost::from_amounts(Some((epsilon, 0)), (1, 0))
    }

    fn touched(since: i64, cells: &[&str]) -> Touched {
        let cells = cells.iter().map(|cell| Cell::Value((*cell).to_owned())).collect();
        Touched { column: "region".to_owned(), since, cells }
    }

    fn epsilon(sums: &Sums, place: Option<(i64, &str)>) -> i64 {
        let cell = place.map(|(_, cell)| Cell::Value(cell.to_owned()));
        let place = place.zip(cell.as_ref()).map(|((since, _), cell)| CellOfPeople {
            unit_domain: "people",
            since,
            cell,
        });
        let sum = sums.at(&["people".to_owned()].into(), |_| true, place).unwrap();
        sum.cost.amounts()[0].unwrap()
    }

    #[test]
    fn a_cell_counts_its_own_charges_and_those_of_all() {
        let asked = |analyst: &str| (vec!["people".to_owned()], analyst.to_owned());
        let mut sums = Sums::default();
        sums.add(asked("lab"), None, EntrySum::of(cost(1))).unwrap();
        sums.add(asked("lab"), Some(&touched(7, &["Oslo"])), EntrySum::of(cost(20))).unwrap();
        sums.add(asked("eve"), Some(&touched(7, &["Oslo", "Rome"])), EntrySum::of(cost(300)))
            .unwrap();
        assert_eq!(epsilon(&sums, Some((7, "Oslo"))), 321);
        assert_eq!(epsilon(&sums, Some((7, "Rome"))), 301);
        assert_eq!(epsilon(&sums, Some((7, "Pisa"))), 1);
        assert_eq!(epsilon(&sums, None), 321);
        // The later cells begin with the most expensive of these.
        assert_eq!(epsilon(&sums, Some((9, "Pisa"))), 321);
        sums.add(asked("eve"), Some(&touched(9, &["Pisa"])), EntrySum::of(cost(4_000))).unwrap();
        assert_eq!(epsilon(&sums, Some((9, "Pisa"))), 4_321);
        assert_eq!(epsilon(&sums, Some((9, "Oslo"))), 321);
        assert_eq!(epsilon(&sums, None), 4_321);
        assert_eq!(sums.newest_beginning("people"), Some(9));
        assert_eq!(sums.newest_beginning("others"), None);
    }

    /// What builds on an earlier draw counts in ε as what it adds, and in no coupons.
    #[test]
    fn no_coupon_pays_for_a_refinement() {
        let half = Cost::from_amounts(Some((5, 0)), (1, 0));
        let both = EntrySum::of(half).plus(EntrySum::of_refined(half)).unwrap();
        assert_eq!(both.cost, half.plus(half).unwrap());
        assert_eq!(both.tally, Tally { releases: 2, dearest: i64::MAX });
    }

    #[test]
    fn the_dearest_cell_is_that_of_all_analysts_together() {
        let asked = |analyst: &str| (vec!["people".to_owned()], analyst.to_owned());
        let mut sums = Sums::default();
        sums.add(asked("lab"), Some(&touched(7, &["Oslo"])), EntrySum::of(cost(2))).unwrap();
        sums.add(asked("eve"), Some(&touched(7, &["Rome"])), EntrySum::of(cost(3))).unwrap();
        assert_eq!(epsilon(&sums, None), 3);
        sums.add(asked("eve"), Some(&touched(7, &["Oslo"])), EntrySum::of(cost(2))).unwrap();
        assert_eq!(epsilon(&sums, None), 4);
    }

    #[test]
    fn the_larger_of_two_sums_is_larger_in_each_part() {
        let one = EntrySum::of(Cost::from_amounts(Some((5, 1)), (1, 9)));
        let other = EntrySum::of(Cost::from_amounts(Some((3, 4)), (2, 8)));
        let most = one.most(other);
        assert_eq!(most.cost.amounts(), [Some(5), Some(4), Some(2), Some(9)]);
        assert_eq!(most.tally, Tally { releases: 1, dearest: 5 });
        let none = EntrySum::of(Cost::from_amounts(None, (1, 0)));
        assert_eq!(one.most(none).cost.amounts(), [None, None, Some(1), Some(9)]);
    }
}
