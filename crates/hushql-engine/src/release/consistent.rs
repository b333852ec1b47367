//! Numbers that are made consistent: how accurate they are.
//!
//! In: the hierarchies of a query, and the mechanisms of their levels. Out: for each level the
//! variance of its noise, by which numbers are weighed, and how far its numbers are off after they
//! were made to add up. Everything is known before anything is read.
//!
//! ```text
//! ROLLUP (city) CONSISTENT, ten cities, scale 40 each     as drawn: within 120     the total: 113, a city: 114
//! ```

use super::mechanism::{Mechanism, Mechanized, Predicted};
use crate::analysis::{Analysis, Hierarchy, approximate};
use crate::hierarchy::{Deviation, Law, WholeNumbers};

/// How the numbers of one hierarchy are made consistent.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    /// What becomes of the numbers.
    pub(crate) shape: WholeNumbers,
    /// Its levels, the largest groups first.
    pub(crate) levels: Vec<FittedLevel>,
}

/// One level of it.
#[derive(Debug, Clone)]
pub(crate) struct FittedLevel {
    pub(crate) part: usize,
    pub(crate) measure: usize,
    /// The variance of its noise.
    pub(crate) variance: f64,
    /// How accurate its numbers are as they are drawn.
    pub(crate) drawn: Predicted,
    /// How many levels there are.
    pub(crate) of: usize,
    pub(crate) shape: WholeNumbers,
    /// The value of a step.
    unit: f64,
    deviation: Deviation,
}

impl FittedLevel {
    /// Whether it is the level of this measure.
    pub(crate) fn is_of(&self, part: usize, measure: usize) -> bool {
        (self.part, self.measure) == (part, measure)
    }

    /// How accurate its numbers are, where `among` numbers are within it together with 95 %;
    /// nothing is known of what is kept from falling below 0.
    ///
    /// # Guarantee
    /// A number is off by more with probability at most 0.05/`among`: see [`Deviation::within`].
    pub(crate) fn accuracy_among(&self, among: u64) -> Predicted {
        if self.shape.nonnegative {
            return Predicted::Nothing;
        }
        let beta = 0.05 / approximate(&crate::privacy::Rational::from_integer(among.max(1).into()));
        Predicted::Within(self.deviation.within(beta) * self.unit)
    }
}

/// How the numbers of all hierarchies are made consistent; the mechanisms of their levels have the
/// accuracy of that from now on.
pub(super) fn fits(analysis: &Analysis, mechanized: &mut [Vec<Mechanized>]) -> Vec<Fit> {
    let fits: Vec<Fit> = analysis
        .hierarchies()
        .iter()
        .filter_map(|hierarchy| fit(analysis, hierarchy, mechanized))
        .collect();
    for level in fits.iter().flat_map(|fit| &fit.levels) {
        let own = mechanized.get_mut(level.part).and_then(|part| part.get_mut(level.measure));
        if let Some(own) = own {
            own.accuracy = level.accuracy_among(1);
        }
    }
    fits
}

fn fit(analysis: &Analysis, hierarchy: &Hierarchy, mechanized: &[Vec<Mechanized>]) -> Option<Fit> {
    let shape =
        WholeNumbers { nonnegative: hierarchy.shape.nonnegative, integer: hierarchy.shape.integer };
    let mut of_levels = Vec::with_capacity(hierarchy.levels.len());
    for (part, measure) in &hierarchy.levels {
        let own = analysis.parts().get(*part)?.measures().get(*measure)?;
        let one = mechanized.get(*part)?.get(*measure)?;
        let law = match &one.mechanism {
            Mechanism::Laplace(noise) => Law::Laplace(approximate(noise.scale())),
            Mechanism::Gaussian(noise) => Law::Gaussian(approximate(&noise.sigma())),
            Mechanism::Exponential(_)
            | Mechanism::Generalized(_)
            | Mechanism::PermuteAndFlip(_)
            | Mechanism::NoisyMax(_)
            | Mechanism::Unknown(..)
            | Mechanism::NoisyKeys(_)
            | Mechanism::ChosenBound(_) => return None,
        };
        of_levels.push((law, approximate(&own.grid_unit()), one.accuracy));
    }
    let unit = of_levels.first()?.1;
    let laws: Vec<Law> = of_levels.iter().map(|level| level.0).collect();
    let integer = shape.integer.then_some(unit);
    let deviations = Deviation::of(&hierarchy.tree, &laws, integer);
    let levels = hierarchy.levels.iter().zip(of_levels).zip(deviations);
    let levels = levels.map(|(((part, measure), (law, _, drawn)), deviation)| FittedLevel {
        part: *part,
        measure: *measure,
        variance: law.variance(),
        drawn,
        of: hierarchy.levels.len(),
        shape,
        unit,
        deviation,
    });
    Some(Fit { shape, levels: levels.collect() })
}
