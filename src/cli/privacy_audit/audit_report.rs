//! What an audit says: a few lines for people, or one object of JSON.
//!
//! In: what was charged, and what the runs prove. Out: the bound beside the charge, and a verdict.
//!
//! ```text
//! charged     ε = 1
//! proved      ε ≥ 0.931, with confidence 0.95
//! verdict     nothing speaks against what was charged
//! ```

use serde::Serialize;

use super::telling_event::{Proof, most_provable};

/// An audit that is finished.
#[derive(Debug)]
pub(super) struct AuditReport<'a> {
    pub(super) query: &'a str,
    pub(super) runs: u32,
    pub(super) confidence: f64,
    /// The number of units in which the databases differ.
    pub(super) units: usize,
    /// ε and δ.
    pub(super) charged: (f64, f64),
    /// The ε that the bound is compared with, and the δ that the bound allows.
    pub(super) claimed: (f64, f64),
    /// The most that so many runs can prove.
    pub(super) most: f64,
    pub(super) proof: Proof,
}

#[derive(Debug, Serialize)]
struct JsonReport<'a> {
    query: &'a str,
    runs: u32,
    confidence: f64,
    units: usize,
    charged: JsonAmount,
    claimed_epsilon: f64,
    claimed_delta: f64,
    proved_epsilon: f64,
    most_provable_epsilon: f64,
    event: JsonEvent,
    /// Whether the claim stands; null if the databases are no neighbours.
    holds: Option<bool>,
}

#[derive(Debug, Serialize)]
struct JsonAmount {
    epsilon: f64,
    delta: f64,
}

#[derive(Debug, Serialize)]
struct JsonEvent {
    text: String,
    table: u32,
    neighbour: u32,
    of: u32,
}

impl AuditReport<'_> {
    /// Whether the claim stands; nothing if the databases do not differ in one unit.
    pub(super) fn verdict(&self) -> Option<bool> {
        (self.units == 1).then_some(self.proof.epsilon <= self.claimed.0)
    }

    pub(super) fn json(&self) -> String {
        let Proof { event, counts: [table, neighbour], of, epsilon } = &self.proof;
        let (text, table, neighbour, of) = (event.to_string(), *table, *neighbour, *of);
        let report = JsonReport {
            query: self.query,
            runs: self.runs,
            confidence: self.confidence,
            units: self.units,
            charged: JsonAmount { epsilon: self.charged.0, delta: self.charged.1 },
            claimed_epsilon: self.claimed.0,
            claimed_delta: self.claimed.1,
            proved_epsilon: *epsilon,
            most_provable_epsilon: self.most,
            event: JsonEvent { text, table, neighbour, of },
            holds: self.verdict(),
        };
        serde_json::to_string(&report).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        let Proof { event, counts: [table, neighbour], of, epsilon } = &self.proof;
        let (charged, claimed) = (amount(self.charged), amount(self.claimed));
        let verdict = match self.verdict() {
            None => "none, since the databases do not differ in one unit".to_owned(),
            Some(true) => format!("nothing speaks against {claimed}"),
            Some(false) => format!(
                "BROKEN: {claimed} is not kept. If it were, a run would say so with a probability \
                 of {} at most",
                rounded(1.0 - self.confidence)
            ),
        };
        let lines = [
            ("query", self.query.to_owned()),
            ("neighbours", units_text(self.units)),
            (
                "runs",
                format!(
                    "{0} on each table: {1} chose the event, {of} bound it",
                    self.runs,
                    self.runs - of
                ),
            ),
            ("event", format!("{event}: {table} times on the table, {neighbour} on its neighbour")),
            ("charged", charged),
            (
                "proved",
                format!(
                    "ε ≥ {}, with confidence {}; so many runs can prove {} at most",
                    down(*epsilon),
                    self.confidence,
                    down(self.most)
                ),
            ),
            ("verdict", verdict),
        ];
        let line = |(name, text): (&str, String)| format!("{name:<11} {text}");
        lines.map(line).join("\n")
    }
}

/// ε, with its δ if it has one.
fn amount((epsilon, delta): (f64, f64)) -> String {
    match delta > 0.0 {
        true => format!("ε = {epsilon}, δ = {delta}"),
        false => format!("ε = {epsilon}"),
    }
}

/// Three places, towards less.
fn down(epsilon: f64) -> String {
    format!("{:.3}", (epsilon * 1e3).floor() / 1e3)
}

/// A small probability without the dust of its subtraction.
fn rounded(probability: f64) -> f64 {
    format!("{probability:.3e}").parse().unwrap_or(probability)
}

fn units_text(units: usize) -> String {
    match units {
        1 => "1 unit differs".to_owned(),
        units => format!("{units} units differ"),
    }
}

/// The warning about databases that do not differ in one unit.
pub(super) fn not_neighbours(units: usize) -> Option<String> {
    match units {
        1 => None,
        0 => Some(
            "warning: the two databases have the same rows of all people, so no run can tell them \
             apart; take all rows of one person out of one of them"
                .to_owned(),
        ),
        units => Some(format!(
            "warning: the databases differ in {units} units, and neighbours differ in one: the \
             bound speaks of {units} people, so there is no verdict"
        )),
    }
}

/// The warning about runs that could not notice a promise that is broken.
pub(super) fn too_few(
    runs: u32,
    most: f64,
    claimed: f64,
    delta: f64,
    alpha: f64,
) -> Option<String> {
    if most > claimed {
        return None;
    }
    let mut enough = runs.max(2);
    while most_provable(enough / 2, delta, alpha) <= claimed && enough < u32::MAX / 2 {
        enough *= 2;
    }
    Some(format!(
        "warning: {runs} runs can prove ε ≥ {} at most, whatever they show, which is no more than \
         ε = {claimed}: nothing can be found; {}",
        down(most),
        match enough < u32::MAX / 2 {
            true => format!("write --runs {enough}, or more"),
            false => "audit the query at a smaller ε".to_owned(),
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::super::telling_event::Event;
    use super::*;

    fn report(units: usize, epsilon: f64) -> AuditReport<'static> {
        let event = Event::Above("n".to_owned(), 0.0);
        AuditReport {
            query: "SELECT 1",
            runs: 10_000,
            confidence: 0.95,
            units,
            charged: (1.0, 0.0),
            claimed: (1.0, 0.0),
            most: 7.2,
            proof: Proof { event, counts: [2_500, 910], of: 5_000, epsilon },
        }
    }

    #[test]
    fn verdicts_compare_with_the_claim() {
        assert_eq!(report(1, 0.9319).verdict(), Some(true));
        assert!(report(1, 0.9319).text().contains("ε ≥ 0.931, with confidence 0.95"));
        let broken = report(1, 1.4);
        assert_eq!(broken.verdict(), Some(false));
        assert!(broken.text().contains("a probability of 0.05 at most"), "{}", broken.text());
        assert_eq!(report(2, 1.4).verdict(), None);
        let json: serde_json::Value = serde_json::from_str(&broken.json()).unwrap();
        assert_eq!(
            (json["holds"].as_bool(), json["proved_epsilon"].as_f64()),
            (Some(false), Some(1.4))
        );
        assert_eq!(json["event"]["neighbour"], 910);
        let claimed = AuditReport { claimed: (1.0, 0.05), ..report(1, 0.9) };
        assert!(claimed.text().contains("nothing speaks against ε = 1, δ = 0.05"));
    }

    #[test]
    fn too_few_runs_are_named() {
        let most = most_provable(5, 0.0, 0.05);
        let warning = too_few(10, most, 2.0, 0.0, 0.05).unwrap();
        assert!(warning.contains("write --runs 80"), "{warning}");
        assert!(most_provable(40, 0.0, 0.05) > 2.0);
        assert!(too_few(10_000, most_provable(5_000, 0.0, 0.05), 2.0, 0.0, 0.05).is_none());
        let never = too_few(10_000, 7.0, 1_000.0, 0.0, 0.05).unwrap();
        assert!(never.contains("a smaller ε"), "{never}");
    }
}
