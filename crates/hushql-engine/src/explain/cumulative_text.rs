//! The lines of an explanation about a CDF: its tree of counts, its noise, and its error beside
//! that of a release for each bin.
//!
//! In: the calibrated tree. Out: texts, which follow from the query and the declarations.
//!
//! ```text
//! tree         100 bins in 2 levels: bins, and runs of 18 bins; a row counts once in each level, at 1/2 of ε
//! error        with 95 %: each number is within 17.0 of the bounded aggregate; 100 releases …: 300
//! ```

use serde_json::{Value, json};

use super::number_text::{at_most, equal_to};
use crate::analysis::approximate;
use crate::mechanism::{CountNoise, Cumulative};
use crate::release::cumulative::error_of_separate_releases;
use crate::release::mechanism::{Mechanism, Mechanized};
use crate::visible::rounded;

/// The tree of a CDF; `None` for any other release.
pub(super) fn cumulative_of(mechanized: &Mechanized) -> Option<&Cumulative> {
    if let Mechanism::Cumulative(own) = &mechanized.mechanism { Some(own) } else { None }
}

/// True if the counts have Gaussian noise.
pub(super) fn is_gaussian(own: &Cumulative) -> bool {
    matches!(own.noise(), CountNoise::Gaussian(_))
}

/// The line about the tree.
pub(super) fn tree_line(mechanized: &Mechanized) -> Option<(&'static str, String)> {
    let own = cumulative_of(mechanized)?;
    let tree = own.tree();
    let (bins, levels) = (tree.bins(), tree.levels());
    let ascending = "the numbers are put in ascending order";
    if levels == 1 {
        let text = match bins {
            1 => "one bin, of all rows that have a value".to_owned(),
            _ => format!("{bins} bins are counted, and added up; {ascending}"),
        };
        return Some(("tree", text));
    }
    let mut size = 1_usize;
    let mut sizes = Vec::new();
    for _ in 1..levels {
        size = size.saturating_mul(tree.together()).min(bins);
        sizes.push(size.to_string());
    }
    let share = match own.noise() {
        CountNoise::Laplace(_) => "of ε",
        CountNoise::Gaussian(_) => "of ρ",
    };
    let text = format!(
        "{bins} bins in {levels} levels: bins, and runs of {} bins; a row counts once in each level, at 1/{levels} {share}; each number is estimated from all counts, and {ascending}",
        sizes.join(", ")
    );
    Some(("tree", text))
}

/// The noise of each count.
pub(super) fn noise_text(own: &Cumulative, share: &str) -> String {
    let (tree, counts) = (own.tree(), own.tree().sizes().iter().sum::<usize>());
    let each =
        if counts == 1 { "its count".to_owned() } else { format!("each of {counts} counts") };
    match own.noise() {
        CountNoise::Laplace(noise) => {
            let levels = if tree.levels() > 1 { tree.levels().to_string() } else { String::new() };
            let times =
                if levels.is_empty() { "Δ₁".to_owned() } else { format!("{levels}·Δ₁") };
            format!(
                "discrete Laplace on {each}, scale {}, exact on its grid",
                equal_to(&format!("{times}/{share}"), &at_most(noise.scale()))
            )
        }
        CountNoise::Gaussian(noise) => {
            format!("discrete Gaussian on {each}, σ {}, exact on its grid", at_most(&noise.sigma()))
        }
    }
}

/// The error of the worst bin, beside that of a release for each.
pub(super) fn error_text(own: &Cumulative, within: f64) -> String {
    let bins = own.tree().bins();
    let apart = match error_of_separate_releases(own).filter(|_| bins > 1) {
        Some(apart) => {
            format!("; {bins} releases that share this cost would be within {}", rounded(apart))
        }
        None => String::new(),
    };
    format!("with 95 %: each number is within {} of the bounded aggregate{apart}", rounded(within))
}

/// The fields of a CDF for programs.
pub(super) fn fields(own: &Cumulative) -> Vec<(&'static str, Value)> {
    let noise = match own.noise() {
        CountNoise::Laplace(noise) => ("scale", json!(approximate(noise.scale()))),
        CountNoise::Gaussian(noise) => ("sigma", json!(approximate(&noise.sigma()))),
    };
    let tree = own.tree();
    vec![
        ("bins", json!(tree.bins())),
        ("levels", json!(tree.levels())),
        ("parts_of_a_run", json!((tree.levels() > 1).then(|| tree.together()))),
        noise,
        ("separately_within", json!(error_of_separate_releases(own))),
    ]
}
