//! The number of releases in a cost, and the ε of the most expensive one: a budget in coupons
//! counts these.
//!
//! In: the cost of each release. Out: their number and the largest ε among them. A sum of costs
//! does not tell either.
//!
//! ```text
//! ε = 0.05 and ε = 0.1     →   2 releases, the most expensive of ε = 0.1
//! ε = 0.05 and ρ = 0.2     →   2 releases, one without an ε: no coupon pays for it
//! ```

use super::{Cost, Notion, ParameterError};

/// A number of releases, and the largest ε of one of them in 10⁻⁹.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of releases.
    pub releases: i64,
    /// The largest ε, in 10⁻⁹; the largest integer if some release has no ε.
    pub dearest: i64,
}

impl Tally {
    /// The tally of one release.
    pub fn of(cost: &Cost) -> Self {
        let epsilon = cost.within(Notion::Approximate);
        Self { releases: 1, dearest: epsilon.map_or(i64::MAX, |spend| spend.nano) }
    }

    /// The tally of both.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub fn plus(self, other: Self) -> Result<Self, ParameterError> {
        let releases = self.releases.checked_add(other.releases);
        let releases = releases.ok_or(ParameterError::Overflow)?;
        Ok(Self { releases, dearest: self.dearest.max(other.dearest) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_has_the_dearest_of_all() {
        let of =
            |epsilon: Option<i64>| Tally::of(&Cost::from_amounts(epsilon.map(|e| (e, 0)), (1, 0)));
        let both = of(Some(5)).plus(of(Some(3))).unwrap();
        assert_eq!(both, Tally { releases: 2, dearest: 5 });
        assert_eq!(both.plus(of(None)).unwrap(), Tally { releases: 3, dearest: i64::MAX });
        assert_eq!(both.plus(Tally::default()), Ok(both));
        let all = Tally { releases: i64::MAX, dearest: 0 };
        assert_eq!(all.plus(of(Some(1))), Err(ParameterError::Overflow));
    }
}
