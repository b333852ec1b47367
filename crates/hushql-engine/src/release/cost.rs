//! The stated cost of a release, in ε or in ρ, and the notions in which the budgets count.
//!
//! In: the parameters as written, and the budgets of the tables that a query touches. Out: a
//! [`StatedCost`] for every measure, and [`Accounts`], which say whether a cost in ρ can be
//! charged. Everything follows from the query and the catalog.
//!
//! ```text
//! AUTO(eps=1) COUNT(*)     a budget in ε: Laplace of ε = 1        only budgets in ρ: Gaussian of ρ = 1/2
//! ```

use crate::analysis::default_shares::{DefaultShare, DefaultShares, is_bare};
use crate::analysis::outcome::Analysis;
use crate::analysis::{CandidateSource, Choice, Measure, Prior};
use crate::catalog::{Budget, Catalog};
use crate::dialect::{MechanismName, Parameters};
use crate::privacy::{Delta, Epsilon, Notion, Rational, Rho, Selecting, Spend, decimal_text};
use crate::refusal::{Reason, Refusal};
use crate::release::mechanism::Mechanized;

/// The cost that a release states.
#[derive(Debug, Clone)]
pub(super) enum StatedCost {
    Epsilon(Epsilon),
    Rho(Rho),
}

impl StatedCost {
    /// The cost as written. The parser accepts either ε or ρ.
    pub(super) fn from_parameters(parameters: &Parameters) -> Option<Self> {
        let epsilon = parameters.epsilon.clone().map(Self::Epsilon);
        epsilon.or_else(|| parameters.rho.clone().map(Self::Rho))
    }

    /// The ε that a number of draws share; see [`Selecting::rho`].
    ///
    /// # Guarantee
    /// Together, the draws have at most the stated ρ, if the cost is stated in ρ.
    pub(super) fn epsilon(
        &self,
        text: &str,
        selecting: Selecting,
        draws: u64,
    ) -> Result<Epsilon, Refusal> {
        match self {
            Self::Epsilon(epsilon) => Ok(epsilon.clone()),
            Self::Rho(rho) => rho.epsilon(selecting, draws).map_err(|_| {
                let message = format!("a rho of {rho} leaves {text} an epsilon out of range");
                Refusal::new(Reason::BadValue, "rho", message, "another rho, or eps in its place")
            }),
        }
    }

    /// The cost as a parameter.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Epsilon(epsilon) => format!("eps={epsilon}"),
            Self::Rho(rho) => format!("rho={rho}"),
        }
    }

    /// The same release; if the cost is stated in ρ, it is charged exactly that.
    pub(super) fn charged(&self, mut one: Mechanized) -> Mechanized {
        if let Self::Rho(rho) = self {
            one.loss = one.loss.costing(rho);
        }
        one
    }
}

/// The default cost of the bare aggregates of a query, from the budgets of a table. They share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fallback {
    shares: DefaultShares,
    pub(super) delta: Option<Delta>,
}

impl Fallback {
    /// The share of a release. `None` if no default applies.
    pub(super) fn cost_of(&self, measure: &Measure) -> Option<StatedCost> {
        self.shares.share_of(measure).map(|share| match share {
            DefaultShare::Epsilon(epsilon) => StatedCost::Epsilon(epsilon),
            DefaultShare::Rho(rho) => StatedCost::Rho(rho),
        })
    }

    /// The same default without a δ.
    pub(super) fn without_delta(&self) -> Self {
        Self { shares: self.shares.clone(), delta: None }
    }
}

pub(super) fn default_cost(analysis: &Analysis, unit_domain: &str, catalog: &Catalog) -> Fallback {
    let measures = analysis
        .parts()
        .iter()
        .filter(|aggregate| catalog.same_people(aggregate.subject().unit_domain(), unit_domain))
        .flat_map(|aggregate| aggregate.measures());
    // A histogram takes no δ.
    let takes_delta =
        |measure: &&Measure| is_bare(measure) && measure.clause.mechanism == MechanismName::Default;
    let bare = measures.filter(takes_delta).count();
    let delta = catalog
        .default_of(unit_domain, |p| p.default_delta)
        .and_then(|atto| Delta::new(Spend::of_epsilon(0, atto).delta()).ok()?.share(bare).ok());
    Fallback { shares: DefaultShares::of(analysis.parts(), unit_domain, catalog), delta }
}

/// The limits on one draw that answers several releases, each of which is charged.
#[derive(Debug, Clone)]
pub(super) struct OneDraw {
    /// True if a budget counts ρ. The draw then costs at most the sum of the releases' ρ.
    pub(super) in_rho: bool,
    /// The ε of a coupon. No number of coupons pays for a draw with a larger ε.
    pub(super) most: Option<Rational>,
}

/// The notions in which the budgets of a query count.
///
/// A query is charged in full to the budgets of every table that it touches, so one budget in ε
/// decides for all of its releases.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// The name of a budget that counts in ε or in coupons, with its notion.
    in_epsilon: Option<(String, Notion)>,
    /// True if a budget counts in ρ.
    in_rho: bool,
    /// The least ε of a coupon, in 10⁻⁹, if a budget counts coupons.
    coupon: Option<i64>,
}

impl Accounts {
    pub(super) fn for_analysis(analysis: &Analysis, catalog: &Catalog) -> Self {
        let unit_domains =
            analysis.parts().iter().map(|aggregate| aggregate.subject().unit_domain());
        let budgets: Vec<&Budget> =
            unit_domains.flat_map(|unit_domain| catalog.budgets_of(unit_domain)).collect();
        let counting = |notion| budgets.iter().find(|b| b.limit.notion == notion);
        Self {
            in_epsilon: counting(Notion::Approximate)
                .or(counting(Notion::Coupons))
                .map(|budget| (budget.name.clone(), budget.limit.notion)),
            in_rho: counting(Notion::Concentrated).is_some(),
            coupon: budgets.iter().filter_map(|budget| budget.coupon).min(),
        }
    }

    /// The limits on one draw that answers several releases.
    pub(super) fn for_one_draw(&self) -> OneDraw {
        let coupon = self.coupon.map(|nano| Spend::of_epsilon(nano, 0).loss());
        OneDraw { in_rho: self.in_rho, most: coupon }
    }

    /// Whether every budget counts in ρ, so that a release needs no ε.
    pub(super) fn concentrated(&self) -> bool {
        self.in_rho && self.in_epsilon.is_none()
    }

    /// The property of the draws of a choice from which their ρ follows; for AUTO, this also
    /// selects the mechanism.
    ///
    /// At the same ε, permute-and-flip is never less accurate than the exponential mechanism. But
    /// it looks at every candidate, takes no prior, and has four times the ρ: if ρ counts, the
    /// exponential mechanism has twice the ε for the same cost.
    pub(super) fn rule(
        &self,
        name: MechanismName,
        choice: &Choice,
        cost: &StatedCost,
    ) -> Selecting {
        match name {
            MechanismName::Exponential
            | MechanismName::GeneralizedExponential
            | MechanismName::SampleAndAggregate
            | MechanismName::RandomizedResponse => Selecting::BoundedRange,
            MechanismName::Auto | MechanismName::Default => {
                let only_exponential = matches!(choice.source, CandidateSource::Line { .. })
                    || choice.prior != Prior::Uniform;
                let by_rho = self.concentrated() || matches!(cost, StatedCost::Rho(_));
                if only_exponential || by_rho { Selecting::BoundedRange } else { Selecting::Pure }
            }
            MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax
            | MechanismName::Laplace
            | MechanismName::Gaussian => Selecting::Pure,
        }
    }

    /// True if noise on all scores costs no more than rounds of a selection with the same ε, under
    /// every budget. Under ρ it may cost more: k rounds cost at most a k-th of the ρ of noise.
    pub(super) fn noisy_scores(&self, cost: &StatedCost) -> bool {
        !self.in_rho && matches!(cost, StatedCost::Epsilon(_))
    }

    /// Refuses a release that some budget cannot count.
    pub(super) fn admit(&self, measure: &Measure, one: &Mechanized) -> Result<(), Refusal> {
        let Some((budget, notion)) =
            self.in_epsilon.as_ref().filter(|_| one.loss.epsilon().is_none())
        else {
            return Ok(());
        };
        let counts = match notion {
            Notion::Coupons => "counts coupons, each for a release of an epsilon,",
            Notion::Approximate | Notion::Concentrated => "counts in epsilon,",
        };
        let written = measure.clause.as_written();
        let (text, parameters) = (written.text.as_str(), &written.parameters);
        let cost = match parameters.within.as_ref().map(|within| decimal_text(within, 12)) {
            Some(within) => format!("within={within}"),
            None => "eps=1".to_owned(),
        };
        // A cost in rho has a delta only where groups come from the data.
        let delta = parameters.delta.as_ref();
        let (noise, hint) = match (measure.choice(), delta) {
            (Some(_), Some(delta)) => (
                "the Gaussian noise on the number of people that the threshold compares",
                format!("{}({cost}, delta={delta}) {text}", written.mechanism),
            ),
            (Some(_) | None, delta) => {
                let laplace = delta.map_or_else(String::new, |delta| format!(", delta={delta}"));
                let delta = delta.map_or_else(|| "1e-6".to_owned(), ToString::to_string);
                (
                    "Gaussian noise with a cost in rho",
                    format!(
                        "GAUSSIAN({cost}, delta={delta}) {text}, or LAPLACE({cost}{laplace}) {text}"
                    ),
                )
            }
        };
        Err(Refusal::new(
            Reason::Parameter,
            "rho",
            format!("the budget {budget} {counts} and {noise} has no epsilon"),
            hint,
        ))
    }
}
