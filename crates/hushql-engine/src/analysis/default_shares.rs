//! The shares of a default cost among the releases of a query that state none.
//!
//! In: the private aggregates of a query. Out: the share of each such release, in quarters.
//! Releases have equal shares. Where the engine finds the bound of a release, half of its share
//! pays for the histogram of the bound, and the other half for the release itself. The histograms
//! of two columns share their half.
//!
//! ```text
//! COUNT(*), AVG(x), x without a range, default 1      COUNT(*): 4 quarters, AVG(x): 2, its histogram: 2; ε = 0.5, 0.25, 0.25
//! CORR(x, y), both without a range, default 1         CORR(x, y): 2 quarters, each histogram: 1; ε = 0.5, 0.25, 0.25
//! ```

use crate::analysis::measure::Measure;
use crate::catalog::Catalog;
use crate::dialect::{Finding, MechanismName, Parameters};
use crate::privacy::{Epsilon, ParameterError, Rational, Rho, Spend};

use super::private_aggregate::PrivateAggregate;

/// True if a release states no cost, so that the budget's PER QUERY default applies. The histogram
/// of a bound states none if the releases that pay for it do not. What is exact needs none.
pub(crate) fn is_bare(measure: &Measure) -> bool {
    if measure.is_exact() {
        return false;
    }
    let clause = &measure.clause;
    let implied = clause.mechanism == MechanismName::Default;
    let counts = matches!(clause.finding, Some(Finding::Histogram { .. }));
    (implied || counts) && costs_nothing(&clause.parameters)
}

/// True if parameters state neither a cost nor what to derive it from.
pub(crate) fn costs_nothing(parameters: &Parameters) -> bool {
    parameters.epsilon.is_none() && parameters.rho.is_none()
}

/// The number of quarters of a share that a release without a cost has.
fn quarters(measure: &Measure) -> usize {
    match measure.clause.finding {
        None => 4,
        Some(Finding::InUnits { .. } | Finding::InUnitsOfTwo { .. }) => 2,
        Some(Finding::Histogram { payers, shared_by, .. }) => payers * 2 / shared_by.max(1),
    }
}

/// The default cost of a query for the people of one unit domain, and how many quarters share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DefaultShares {
    epsilon: Option<Epsilon>,
    rho: Option<Rho>,
    quarters: usize,
}

/// A share of the default cost.
#[derive(Debug, Clone)]
pub(crate) enum DefaultShare {
    Epsilon(Epsilon),
    Rho(Rho),
}

impl DefaultShares {
    /// The least default of the budgets, for all releases on these people that state no cost.
    pub(crate) fn of(parts: &[PrivateAggregate], unit_domain: &str, catalog: &Catalog) -> Self {
        let own = |part: &&PrivateAggregate| {
            catalog.same_people(part.subject().unit_domain(), unit_domain)
        };
        let bare = parts.iter().filter(own).flat_map(|part| part.measures());
        let quarters = bare.filter(|measure| is_bare(measure)).map(quarters).sum();
        let epsilon = catalog.default_of(unit_domain, |p| p.default);
        let rho = catalog.default_of(unit_domain, |p| p.default_rho);
        Self {
            epsilon: epsilon.and_then(|nano| Epsilon::new(Spend::of_epsilon(nano, 0).loss()).ok()),
            rho: rho.and_then(|nano| Rho::new(Spend::of_rho(nano, 0).loss()).ok()),
            quarters,
        }
    }

    /// The share of one of the releases. `None` without a default, or if it is less than the
    /// ledger's unit.
    ///
    /// # Guarantee
    /// The shares of all releases add up to no more than the default: each is that of its quarters,
    /// rounded down.
    pub(crate) fn share_of(&self, measure: &Measure) -> Option<DefaultShare> {
        let own = quarters(measure);
        match (&self.epsilon, &self.rho) {
            (Some(epsilon), _) => {
                let share =
                    part(epsilon, own, self.quarters, Epsilon::share, Epsilon::value, Epsilon::new);
                share.map(DefaultShare::Epsilon)
            }
            (None, Some(rho)) => {
                let share = part(rho, own, self.quarters, Rho::share, Rho::value, Rho::new);
                share.map(DefaultShare::Rho)
            }
            (None, None) => None,
        }
    }
}

/// `own` of `all` equal parts. While both are even, of half as many.
fn part<T>(
    whole: &T,
    own: usize,
    all: usize,
    share: impl Fn(&T, usize) -> Result<T, ParameterError>,
    value: impl Fn(&T) -> &Rational,
    new: impl Fn(Rational) -> Result<T, ParameterError>,
) -> Option<T> {
    let common = own.trailing_zeros().min(all.trailing_zeros());
    let (own, all) = (own >> common, all >> common);
    let one = share(whole, all).ok()?;
    match own {
        1 => Some(one),
        _ => new(value(&one) * Rational::from_integer(own.into())).ok(),
    }
}
