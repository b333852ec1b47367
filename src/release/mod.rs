//! Stage 4: [`Analysis`] → [`Release`].
//!
//! In: what is measured and how much one unit can change it. Out: for every measure a calibrated mechanism,
//! its exact cost, and the accuracy it will have, all before anything is read. The cost depends on the query
//! and the catalog alone, so it is the same on neighbouring databases.

use crate::analysis::outcome::Analysis;
use crate::analysis::{ContributionBounds, Measure};
use crate::catalog::Catalog;
use crate::dialect::Parameters;
use crate::privacy::{Delta, Loss, decimal_text};
use crate::refusal::Refusal;
use crate::release::calibrate::mechanize;
use price::{Accounts, default_of};

pub(crate) mod calibrate;
pub(crate) mod mechanism;
mod noisy_scores;
mod number;
mod price;
pub(crate) mod record;
pub(crate) mod text;
mod threshold;

pub use mechanism::{Mechanism, Mechanized, Predicted};
pub use threshold::HiddenGroups;

/// The confidence of every reported accuracy.
pub const CONFIDENCE: f64 = 0.95;

/// A query whose every release has a calibrated mechanism and a cost.
#[derive(Debug)]
pub struct Release {
    analysis: Analysis,
    parts: Vec<Vec<Mechanized>>,
    hidden: Vec<Option<HiddenGroups>>,
}

impl Release {
    /// The analysis that was calibrated.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// The mechanisms of a part, one per measure.
    pub fn mechanisms(&self, part: usize) -> &[Mechanized] {
        self.parts.get(part).map_or(&[], Vec::as_slice)
    }

    /// What hides the small groups of a part whose groups only the data know.
    pub fn hidden_groups(&self, part: usize) -> Option<&HiddenGroups> {
        self.hidden.get(part)?.as_ref()
    }

    /// What is drawn, part by part, each with its loss: nothing else costs anything.
    pub fn draws(&self) -> impl Iterator<Item = Drawn<'_>> {
        let parts = self.analysis.parts().iter().zip(&self.parts).zip(&self.hidden);
        parts.flat_map(|((part, mechanisms), hidden)| {
            let measures = part.measures().iter().zip(mechanisms);
            let hiding = hidden.iter().filter_map(|h| Some(Drawn::Hiding(h, h.loss()?)));
            measures.map(|(measure, one)| Drawn::Measure(measure, one)).chain(hiding)
        })
    }

    /// The exact cost of the whole query.
    ///
    /// # Guarantee
    /// The sum of the losses of all draws, in each notion by basic composition.
    pub fn loss(&self) -> Loss {
        self.draws().fold(Loss::zero(), |all, drawn| all.plus(drawn.loss()))
    }

    /// The unit spaces of all private tables that are read, each once.
    pub fn spaces(&self) -> Vec<String> {
        let mut spaces: Vec<String> = Vec::new();
        for part in self.analysis.parts() {
            let space = part.subject().space();
            if !spaces.iter().any(|known| known == space) {
                spaces.push(space.to_owned());
            }
        }
        spaces
    }

    /// What is done, as a text that is hashed into the ledger.
    pub fn plan_text(&self) -> String {
        let steps = self.analysis.steps().join("\n");
        format!("{}\n{steps}", self.analysis.public_plan().display_indent())
    }
}

/// Something that is drawn, and paid for.
#[derive(Debug, Clone, Copy)]
pub enum Drawn<'a> {
    /// A measure, by its mechanism.
    Measure(&'a Measure, &'a Mechanized),
    /// The numbers of units that hide small groups, where no measure has paid for them.
    Hiding(&'a HiddenGroups, &'a Loss),
}

impl Drawn<'_> {
    /// Its exact loss.
    pub fn loss(&self) -> &Loss {
        match self {
            Self::Measure(_, mechanized) => &mechanized.loss,
            Self::Hiding(_, loss) => loss,
        }
    }
}

/// Chooses and calibrates the mechanism of every measure.
///
/// # Guarantee
/// Each mechanism is calibrated to the measure's own sensitivity or range at the stated ε (and δ); the
/// resulting noise is never smaller than that calls for.
///
/// # Errors
/// A refusal: no ε, a mechanism that cannot release the operand, a parameter that it does not take, noise
/// too large to sample, a price in ρ where a budget counts in ε.
pub fn choose(analysis: Analysis, catalog: &Catalog) -> Result<Release, Refusal> {
    let steps = analysis.steps().to_vec();
    let accounts = Accounts::of(&analysis, catalog);
    let (mut parts, mut hidden) = (Vec::new(), Vec::new());
    for part in analysis.parts() {
        let default = default_of(&analysis, part.subject().space(), catalog);
        let calibrated = match part.unknown_partitions() {
            Some(groups) => threshold::of_the_data(part, groups, &default, &accounts)
                .map(|(mechanized, hidden)| (mechanized, Some(hidden))),
            None => {
                let measures = part.measures().iter();
                measures
                    .map(|measure| mechanize(measure, &default, &accounts))
                    .collect::<Result<Vec<_>, _>>()
                    .map(|mechanized| (mechanized, None))
            }
        };
        let (mechanized, hidden_groups) = calibrated.map_err(|refusal| refusal.after(&steps))?;
        for (measure, one) in part.measures().iter().zip(&mechanized) {
            accounts.admit(measure, one).map_err(|refusal| refusal.after(&steps))?;
        }
        parts.push(mechanized);
        hidden.push(hidden_groups);
    }
    Ok(Release { analysis, parts, hidden })
}

/// The parameters of a release as the ledger and the explanation show them.
pub(crate) fn parameters_text(
    parameters: &Parameters,
    loss: &Loss,
    limits: &ContributionBounds,
) -> String {
    let mut shown = Parameters { epsilon: None, rho: None, delta: None, ..parameters.clone() };
    shown.groups = limits.l0.filter(|_| parameters.groups.is_some());
    let mut text = loss_text(loss, parameters.rho.is_some());
    let rest = shown.to_string();
    if !rest.is_empty() {
        text += ", ";
        text += &rest;
    }
    text
}

/// A loss as parameters: ε and δ, or ρ where it was asked for or no ε was named.
pub(crate) fn loss_text(loss: &Loss, in_rho: bool) -> String {
    let mut text = match loss.epsilon().filter(|_| !in_rho) {
        Some(epsilon) => format!("eps={}", decimal_text(epsilon, 12)),
        None => format!("rho={}", decimal_text(loss.rho(), 12)),
    };
    let delta = loss.delta().unwrap_or(loss.rho_delta());
    if let Ok(delta) = Delta::new(delta.clone()) {
        text += &format!(", delta={delta}");
    }
    text
}
