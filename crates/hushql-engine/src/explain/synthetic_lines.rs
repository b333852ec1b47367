//! The explanation of a synthetic table: codes, noise, how far one unit changes them, and the cost.
//!
//! In: a planned synthetic table, and the quotes of budgets. Out: an [`Explanation`]. Nothing in it
//! depends on rows.

use serde_json::json;

use super::budget_lines::{budget_json, budget_text, cost_json};
use super::{Explanation, derivation_tree, unit_text};
use crate::ledger::BudgetQuote;
use crate::privacy::Cost;
use crate::release::synthetic_release::SyntheticRelease;
use crate::synthetic::Method;
use crate::visible::rounded;

impl Explanation {
    /// The explanation of a synthetic table that is allowed. The vault keeps at most `most` rows of
    /// it.
    pub(crate) fn for_synthetic(
        release: &SyntheticRelease,
        most: usize,
        cost: Cost,
        quotes: &[BudgetQuote],
    ) -> Self {
        let (rows, task) = (release.rows(), release.task());
        let noise = release.noise_text();
        let mut lines = vec![("unit", unit_text(rows.subject()))];
        lines.push(("synthetic", format!("{}({})", release.method(), release.parameters())));
        for column in rows.columns() {
            lines.push(("codes", format!("{}: {}", column.name, column.codes.text())));
        }
        lines.push((
            "noise",
            match (release.noise_text(), release.is_gaussian()) {
                ("no", _) => {
                    "none: the exponential mechanism chooses among all tables of so many rows"
                        .to_owned()
                }
                (noise, true) => format!(
                    "{noise}, on counts of marginals; the exponential mechanism chooses them"
                ),
                (noise, false) => {
                    format!("{noise}, on counts of marginals; permute-and-flip chooses them")
                }
            },
        ));
        let bounded = match (release.most(), rows.is_weighed()) {
            (None, _) => String::new(),
            (Some(1), _) => "; one row of each unit counts".to_owned(),
            (Some(most), true) => {
                format!("; the rows of each unit, at most {most}, share the weight of one")
            }
            (Some(most), false) => format!("; at most {most} rows of each unit count"),
        };
        lines.push(("sensitivity", format!("{}{bounded}", release.sensitivity_text())));
        let sets = task.workload.len();
        let marginals =
            if sets == 1 { "1 marginal".to_owned() } else { format!("{sets} marginals") };
        let count = match (task.method, task.rows) {
            (Method::SmallDatabase { rows }, _) => format!("{rows}, which tell proportions"),
            (Method::Aim | Method::Mwem { .. }, Some(rows)) => rows.to_string(),
            (Method::Aim | Method::Mwem { .. }, None) => {
                format!("as many as the noisy number says, at most {most}")
            }
        };
        match release.plan().beyond_best() {
            Some(beyond) => {
                lines.push(("workload", marginals));
                lines.push(("error", format!(
                    "with 95 %: each of their counts, in proportion to the table's rows, errs by at most {} rows more than in the best table",
                    rounded(beyond)
                )));
            }
            None => lines.push((
                "workload",
                format!("{marginals}; the model has at most {} bytes", task.most_bytes),
            )),
        }
        lines.push(("rows", count.clone()));
        lines.push(("cost", cost.neat().to_string()));
        for quote in quotes {
            lines.push(("budget", budget_text(quote)));
        }
        let mut steps = rows.steps().to_vec();
        steps.push(format!("Privatize marginals by {}", release.method()));
        lines.push(("derivation", steps.join(" → ")));
        let codes = rows.columns().iter().map(|column| {
            json!({ "column": column.name, "codes": column.codes.len(), "text": column.codes.text() })
        });
        let json = json!({
            "synthetic": {
                "method": release.method().to_string(),
                "parameters": release.parameters(),
                "codes": codes.collect::<Vec<_>>(),
                "noise": noise,
                "sensitivity": release.sensitivity_text(),
                "rows_per_unit": release.most(),
                "marginals": sets,
                "bytes": task.most_bytes,
                "beyond_best": release.plan().beyond_best(),
                "rows": count,
            },
            "cost": cost_json(cost),
            "budgets": quotes.iter().map(budget_json).collect::<Vec<_>>(),
            "derivation": derivation_tree(&steps),
        });
        Self { lines, json }
    }
}
