//! The accuracy of numbers that are made consistent.
//!
//! In: the hierarchies of a query, and the mechanisms of their levels. Out: for each level, the
//! variance of its noise, which is the weight of its numbers, and their error after they are made
//! to add up. Nothing of this depends on the data.
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
    /// What is done to the numbers.
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
    /// The accuracy of its numbers as drawn, before they are made consistent.
    pub(crate) drawn: Predicted,
    /// The number of levels.
    pub(crate) of: usize,
    pub(crate) shape: WholeNumbers,
    /// The value of a step.
    unit: f64,
    deviation: Deviation,
}

impl FittedLevel {
    /// True if this is the level of the given measure.
    pub(crate) fn is_of(&self, part: usize, measure: usize) -> bool {
        (self.part, self.measure) == (part, measure)
    }

    /// The accuracy of its numbers: with 95 % confidence, `among` of them are all within it.
    /// Numbers that are kept from falling below 0 have no known accuracy.
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

/// How the numbers of all hierarchies are made consistent. Also replaces the accuracy of each
/// level's mechanism by the accuracy of consistent numbers.
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
            | Mechanism::Cumulative(_)
            | Mechanism::ChosenBound(_)
            | Mechanism::Exact => return None,
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
