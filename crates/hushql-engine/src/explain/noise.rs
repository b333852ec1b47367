//! The noise of a number in an explanation: its norm, its scale, and the requested accuracy.
//!
//! In: a measure and its mechanism. Out: texts of an explanation, which follow from the query and
//! the declarations.
//!
//! ```text
//! noise        discrete Laplace, scale 2 = Δ₁/ε, exact on its grid
//! asked        within 100 with 95 % confidence: eps=0.029807177 is the least cost
//! ```

use super::cumulative_text;
use super::ladder;
use super::number_text::{at_most, equal_to};
use crate::analysis::{Measure, ReleaseKind, Sensitivity, approximate};
use crate::dialect::Parameters;
use crate::mechanism::Laplace;
use crate::privacy::{Rational, decimal_text};
use crate::release::loss_text;
use crate::release::mechanism::{Mechanism, Mechanized, Together, VectorMember};
use crate::release::record::sensitivity_text;
use crate::visible::rounded;

/// The norm to which the noise is calibrated.
pub(super) fn norm_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let ReleaseKind::Number(sensitivity) = &measure.release_kind else { return String::new() };
    match &mechanized.mechanism {
        Mechanism::Gaussian(_) => euclidean_text(measure, sensitivity),
        Mechanism::Cumulative(own) if cumulative_text::is_gaussian(own) => {
            euclidean_text(measure, sensitivity)
        }
        Mechanism::ChosenBound(_) => ladder::norm_text(measure),
        Mechanism::Exact => "Δ₁ = 0".to_owned(),
        Mechanism::Cumulative(_)
        | Mechanism::Laplace(_)
        | Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_) => format!("Δ₁ = {}", sensitivity_text(measure, sensitivity.l1)),
    }
}

fn euclidean_text(measure: &Measure, sensitivity: &Sensitivity) -> String {
    let shown = rounded(euclidean(measure, sensitivity));
    let trimmed = shown.trim_end_matches('0').trim_end_matches('.');
    format!("Δ₂ = {}", if shown.contains('.') { trimmed } else { &shown })
}

/// Δ₂ as a number to display.
pub(super) fn euclidean(measure: &Measure, sensitivity: &Sensitivity) -> f64 {
    let unit = measure.noise_unit();
    let squared = Rational::from_integer(sensitivity.l2_squared.into()) * &unit * &unit;
    approximate(&squared).sqrt()
}

pub(super) fn noise_text(measure: &Measure, mechanized: &Mechanized, share: &str) -> String {
    let scaled = |scale: &Rational| at_most(&(scale * measure.noise_unit()));
    let both = match (measure.moments(), measure.joint()) {
        (Some(_), _) => " on all three sums",
        (None, Some(_)) => " on all these sums",
        (None, None) if measure.knows_rows() => " on the first sum",
        (None, None) if measure.is_mean() => " on both sums",
        (None, None) => "",
    };
    match &mechanized.mechanism {
        Mechanism::Laplace(m) if mechanized.together.is_some() => {
            mechanized.together.as_ref().map_or_else(String::new, |vector| together_text(m, vector))
        }
        Mechanism::Laplace(m) => {
            format!(
                "discrete Laplace{both}, scale {}, exact on its grid",
                equal_to(&format!("Δ₁/{share}"), &scaled(m.scale()))
            )
        }
        Mechanism::Gaussian(m) => {
            format!("discrete Gaussian{both}, σ {}, exact on its grid", scaled(&m.sigma()))
        }
        Mechanism::ChosenBound(chosen) => ladder::noise_text(measure, chosen),
        Mechanism::Exact => "none".to_owned(),
        Mechanism::Cumulative(own) => cumulative_text::noise_text(own, share),
        Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_) => String::new(),
    }
}

/// The noise of a shared vector, how the number is computed from it, and which numbers share it.
fn together_text(noise: &Laplace, together: &Together) -> String {
    let read = match (together.part, together.of_moments()) {
        (VectorMember::Count, false) => "(A + B)/(hi − lo)",
        (VectorMember::Sum, false) if together.lo == 0 => "A",
        (VectorMember::Sum, false) => "A + lo·(A + B)/(hi − lo)",
        (VectorMember::Mean, false) => "lo + (hi − lo)·A/(A + B)",
        (VectorMember::Count, true) => "S/w²",
        (VectorMember::Sum, true) if together.lo == 0 => "(B + 2C)/2w",
        (VectorMember::Sum, true) => "(B + 2C)/2w + lo·S/w²",
        (VectorMember::Mean, true) => "lo + w·(B + 2C)/2S",
        (VectorMember::Spread, _) => {
            "w²·(4AC − B²)/4S², or its root, over n − 1 where that is asked for"
        }
    };
    let on = match together.of_moments() {
        false => "A = Σ(x − lo) and B = Σ(hi − x)",
        true => {
            "A = Σ(w − X)², B = Σ2X(w − X) and C = ΣX² (X = x − lo, w = hi − lo, S = A + B + C)"
        }
    };
    format!(
        "drawn together with {}, at {}: discrete Laplace, scale {}, on {on}; this is {read}",
        together.others.join(", "),
        if together.in_rho {
            "the ε whose ρ is the sum of theirs"
        } else {
            "the sum of their ε"
        },
        at_most(&(noise.scale() * &together.unit)).trim_start_matches("= "),
    )
}

/// The requested accuracy, and the cost that it takes.
pub(super) fn asked_text(measure: &Measure, mechanized: &Mechanized) -> Option<String> {
    let Parameters { within, complete_above, confidence, jointly, .. } = &measure.clause.parameters;
    let asked = match (within.as_ref().map(|within| decimal_text(within, 40)), complete_above) {
        (Some(within), None) => format!("within {within}"),
        (None, Some(units)) => format!("every group of {units} units or more to come out"),
        (Some(within), Some(units)) => {
            format!("within {within}, and every group of {units} units or more to come out")
        }
        (None, None) => return None,
    };
    let percent = confidence.clone().unwrap_or_else(|| Rational::new(19.into(), 20.into()))
        * Rational::from_integer(100.into());
    let together = if *jointly { ", all groups together" } else { "" };
    Some(format!(
        "{asked} with {} % confidence{together}: {} is the least cost",
        decimal_text(&percent, 40),
        loss_text(&mechanized.loss, false)
    ))
}
