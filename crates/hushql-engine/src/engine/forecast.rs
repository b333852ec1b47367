//! Forecasts the accuracy of a query at other costs.
//!
//! In: a query. Out: for several multiples of its ε or ρ, the whole cost and the predicted errors.
//! Nothing is read and nothing is charged: as in an explanation, everything follows from the query
//! and the catalog.

use super::attempts::Attempts;
use super::session::{Session, not_a_query};
use crate::answer::{Accuracy, predicted};
use crate::dialect::{QueryStatement, ReleaseClause, Statement};
use crate::error::Error;
use crate::exec::{columns_of, under};
use crate::privacy::{Cost, Epsilon, ParameterError, Rational, Rho};
use crate::refusal::{Reason, Refusal};

/// The multiples of a query's ε or ρ, as powers of two.
const DOUBLINGS: std::ops::RangeInclusive<i32> = -4..=4;

/// A cost of a query, and how accurate the query would be at that cost.
///
/// ```
/// # use hushql_engine as hushql;
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let forecasts = session.forecast("SELECT LAPLACE(eps=0.5) COUNT(*) FROM adult")?;
/// let told = forecasts.iter().map(|one| (one.cost.to_string(), one.accuracy[0].value));
/// // Half the cost, twice the error.
/// assert!(told.clone().any(|one| one == ("ε = 1".to_owned(), 3.0)));
/// assert!(told.clone().any(|one| one == ("ε = 0.25".to_owned(), 12.0)));
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// The cost, in the notions of the affected budgets.
    pub cost: Cost,
    /// The errors that are known beforehand, by column.
    pub accuracy: Vec<Accuracy>,
}

impl Session {
    /// How accurate a query would be if it spent less or more: from a sixteenth of its ε or ρ to
    /// sixteen times as much, with every δ as written. Reads nothing, costs nothing.
    ///
    /// Costs at which the query would be refused for its noise are left out.
    ///
    /// # Errors
    /// A refusal of a query without a release that states its cost, and [`Error`], as
    /// [`Session::explain`] would give.
    pub fn forecast(&self, query: &str) -> Result<Vec<Forecast>, Error> {
        let clock = self.clock();
        let Statement::Query(asked) = self.parse(query)? else { return Err(not_a_query().into()) };
        if !asked.releases.iter().any(states_cost) {
            return Err(no_cost().into());
        }
        let (session, state) = (self.clone(), self.state(&clock));
        self.told(clock.blocking(move || {
            // A query that is refused at its own cost gets this refusal, not an empty forecast.
            let at = |query: &QueryStatement| {
                Attempts::at(|| session.due(query, &state)).map(|due| {
                    let release = due.planned().release();
                    let schema = under(&columns_of(release), &query.headings);
                    Forecast { cost: due.cost(), accuracy: predicted(release, &schema) }
                })
            };
            at(&asked)?;
            let mut forecasts = Vec::new();
            for doublings in DOUBLINGS {
                match scaled(&asked, doublings).map(|query| at(&query)) {
                    Ok(Ok(forecast)) => forecasts.push(forecast),
                    Ok(Err(Error::Refused(refusal))) if refusal.reason() == Reason::TooNoisy => {}
                    Ok(Err(error)) => return Err(error),
                    // Too large or too small for an ε.
                    Err(_) => {}
                }
            }
            Ok(forecasts)
        }))
    }
}

/// The query with 2^`doublings` times the ε and ρ of its releases.
fn scaled(query: &QueryStatement, doublings: i32) -> Result<QueryStatement, ParameterError> {
    let factor = Rational::from_integer(2.into()).pow(doublings);
    let mut query = query.clone();
    for release in &mut query.releases {
        let own = &mut release.parameters;
        let whole = release.grouping.iter_mut();
        let whole = whole.flat_map(|all| all.epsilon.iter_mut().chain(&mut all.threshold));
        for epsilon in own.epsilon.iter_mut().chain(whole) {
            *epsilon = Epsilon::new(epsilon.value() * &factor)?;
        }
        if let Some(rho) = &mut own.rho {
            *rho = Rho::new(rho.value() * &factor)?;
        }
    }
    Ok(query)
}

/// Whether a release states an ε or ρ.
fn states_cost(release: &ReleaseClause) -> bool {
    let all = release.grouping.as_ref().and_then(|all| all.epsilon.as_ref());
    release.parameters.epsilon.is_some() || release.parameters.rho.is_some() || all.is_some()
}

fn no_cost() -> Refusal {
    Refusal::new(
        Reason::NoEpsilon,
        "the query",
        "no release states an eps, so there is no cost to raise or lower",
        "LAPLACE(eps=1) COUNT(*)",
    )
}
