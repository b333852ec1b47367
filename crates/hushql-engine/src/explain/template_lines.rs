//! The explanation of a template's call, for a caller for whom its tables do not exist.
//!
//! In: the cost and the accuracy of a call. Out: an explanation that names nothing else.
//!
//! ```text
//! template    monthly: its owner fixed the question
//! accuracy    n: ± 6.00 with 95 %
//! cost        ε = 0.5
//! ```

use serde_json::json;

use super::Explanation;
use crate::explain::budget_lines::cost_json;
use crate::privacy::Cost;

impl Explanation {
    /// The price of a call and the accuracy of its columns.
    pub(crate) fn of_template(template: &str, cost: Cost, accuracy: &[String]) -> Self {
        let mut lines = vec![("template", format!("{template}: its owner fixed the question"))];
        lines.extend(accuracy.iter().map(|sentence| ("accuracy", sentence.clone())));
        lines.push(("cost", cost.neat().to_string()));
        let json = json!({
            "template": template,
            "accuracy": accuracy,
            "cost": cost_json(cost.neat()),
        });
        Self { lines, json }
    }
}
