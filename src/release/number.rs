//! Numbers: counts, sums and means with Laplace or Gaussian noise.
//!
//! In: a measure, its sensitivity, the mechanism asked for, what it may cost. Out: the calibrated mechanism, its
//! loss and its error, or a refusal. Assumes that the sensitivity holds; the release then has exactly that loss.
//!
//! ```text
//! LAPLACE(eps=1) COUNT(*), Δ₁ = 1  →  discrete Laplace of scale 1, ε = 1, within 3 with 95 %
//! ```

use num_bigint::BigInt;

use super::{Mechanism, Mechanized, Predicted, too_noisy, unused};
use crate::analysis::{Measure, Sensitivity, approximate};
use crate::dialect::MechanismName;
use crate::mechanism::{Gaussian, Laplace};
use crate::privacy::{Delta, Epsilon, Loss, Rational};
use crate::refusal::{Reason, Refusal};

/// The mechanism of a number.
///
/// # Guarantee
/// The noise is calibrated to the measure's own sensitivity; its scale is never below what ε (and δ) call for.
pub(super) fn number(
    measure: &Measure,
    sensitivity: Sensitivity,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let too_noisy = |error| too_noisy(text, &error);
    let laplace = || -> Result<Mechanized, Refusal> {
        let laplace = Laplace::calibrate(sensitivity.l1, epsilon).map_err(too_noisy)?;
        let accuracy = within(measure, &|beta| laplace.error_at(beta));
        Ok(Mechanized {
            mechanism: Mechanism::Laplace(laplace),
            loss: Loss::pure(epsilon),
            accuracy,
            rank: None,
        })
    };
    let gaussian = |delta: &Delta| -> Result<Mechanized, Refusal> {
        // The two parts of a mean move together, in a plane; a count or sum of one group on a line.
        let on_a_line = measure.limits.groups == Some(1) && !measure.is_mean();
        let gaussian = Gaussian::calibrate(sensitivity.l2_squared, on_a_line, epsilon, delta)
            .map_err(too_noisy)?;
        let accuracy = within(measure, &|beta| gaussian.error_at(beta));
        Ok(Mechanized {
            mechanism: Mechanism::Gaussian(gaussian),
            loss: Loss::approximate(epsilon, delta),
            accuracy,
            rank: None,
        })
    };
    match name {
        MechanismName::Laplace => match delta {
            None => laplace(),
            Some(_) => Err(unused("delta", name, "Laplace noise over known keys needs no delta")),
        },
        MechanismName::Gaussian => match delta {
            Some(delta) => gaussian(delta),
            None => Err(Refusal::new(
                Reason::NoDelta,
                name,
                "Gaussian noise cannot be purely ε-private; it needs a delta",
                format!(
                    "GAUSSIAN(eps={epsilon}, delta=1e-6) {text}, or LAPLACE(eps={epsilon}) {text}"
                ),
            )),
        },
        MechanismName::Auto | MechanismName::Default => {
            let pure = laplace()?;
            let Some(delta) = delta else { return Ok(pure) };
            match gaussian(delta) {
                Ok(approximate) if size(approximate.accuracy) < size(pure.accuracy) => {
                    Ok(approximate)
                }
                Ok(_) | Err(_) => Ok(pure),
            }
        }
        MechanismName::Exponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::RandomizedResponse => Err(Refusal::new(
            Reason::Operand,
            text,
            format!("{name} chooses among candidates; {text} is a number"),
            format!("LAPLACE(eps={epsilon}) {text}"),
        )),
    }
}

fn size(accuracy: Predicted) -> f64 {
    match accuracy {
        Predicted::Within(t) | Predicted::WithinOverCount(t) => t,
        Predicted::Winner { worst, .. } | Predicted::Rank { worst, .. } => worst,
        Predicted::Truthful(_) | Predicted::Nothing => f64::INFINITY,
    }
}

/// The accuracy of a number from its noise's error at a failure probability, in grid units.
///
/// # Guarantee
/// A count or sum is off by more with probability at most 5 %. A mean L + w·A/(A+B) whose parts are each off
/// by at most t is off by at most t/n̂, n̂ = (Â+B̂)/w: |Â·B − A·B̂| ≤ t(A+B), divided by (A+B)(Â+B̂)/w; both
/// parts hold together with 95 % when each fails with at most 2.5 %.
fn within(measure: &Measure, error_at: &dyn Fn(&Rational) -> u128) -> Predicted {
    let unit = measure.grid_unit();
    let in_units =
        |steps: u128| approximate(&(Rational::from_integer(BigInt::from(steps)) * &unit));
    let beta = |of: i32| Rational::new(1.into(), of.into());
    if measure.is_mean() {
        Predicted::WithinOverCount(in_units(error_at(&beta(40))))
    } else {
        Predicted::Within(in_units(error_at(&beta(20))))
    }
}
