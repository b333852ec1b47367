//! The parameters of a release, in the parentheses of its mechanism: a cost or an accuracy, and
//! bounds.
//!
//! In: values that the parser has checked. Out: text that parses back to them.
//!
//! ```text
//! Parameters { epsilon: Some(1), rows: Some(2), … }  ⇄  eps=1, rows=2
//! ```

use std::fmt;

use crate::privacy::{Delta, Epsilon, Rational, Rho, decimal_text};

/// The parameters in a mechanism's parentheses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters {
    /// The cost.
    pub epsilon: Option<Epsilon>,
    /// The cost in ρ, instead of ε.
    pub rho: Option<Rho>,
    /// The failure probability.
    pub delta: Option<Delta>,
    /// A unit counts in at most this many groups.
    pub groups: Option<u64>,
    /// A unit counts with at most this many rows in a group.
    pub rows: Option<u64>,
    /// `rows=auto`: the bound on a unit's whole contribution is chosen by the release, which pays
    /// for it.
    pub rows_auto: bool,
    /// A unit counts with at most this many rows in all.
    pub total_rows: Option<u64>,
    /// The number of blocks into which people are divided.
    pub blocks: Option<u32>,
    /// `monotonic=false`: calibrate by twice the largest change of a score.
    pub monotonic: Option<bool>,
    /// The requested accuracy, in units of the answer, instead of a cost.
    pub within: Option<Rational>,
    /// Groups with at least this many units come out. It is asked for instead of a cost, or beside
    /// `within`, whose cost it may raise.
    pub complete_above: Option<u64>,
    /// The confidence of `within` and `complete_above`, between 0 and 1; 0.95 if absent.
    pub confidence: Option<Rational>,
    /// True if the confidence holds for all groups together.
    pub jointly: bool,
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                parts.push(format!("{name}={value}"));
            }
        };
        part("eps", self.epsilon.as_ref().map(ToString::to_string));
        part("rho", self.rho.as_ref().map(ToString::to_string));
        part("delta", self.delta.as_ref().map(ToString::to_string));
        part("groups", self.groups.map(|n| n.to_string()));
        part("rows", self.rows.map(|n| n.to_string()));
        part("rows", self.rows_auto.then(|| "auto".to_owned()));
        part("total", self.total_rows.map(|n| n.to_string()));
        part("blocks", self.blocks.map(|n| n.to_string()));
        part("monotonic", self.monotonic.map(|b| b.to_string()));
        part("within", self.within.as_ref().map(|within| decimal_text(within, 40)));
        part("complete_above", self.complete_above.map(|n| n.to_string()));
        part("confidence", self.confidence.as_ref().map(|part| decimal_text(part, 40)));
        if self.jointly {
            parts.push("jointly".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}
