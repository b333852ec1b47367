//! Amounts and errors as tuples, which the package turns into its classes.
//!
//! ```text
//! Spend ─▶ ("epsilon", "0.5", "0", "ε = 0.5")
//! ```

use hushql::{Accuracy, Cost, Receipt, Spend};

/// The name of the notion, the loss and the δ as decimals, and everything as text.
pub(crate) type SpendParts = (&'static str, String, String, String);

pub(crate) fn spend(spend: Spend) -> SpendParts {
    (spend.notion.name(), spend.loss_text(), spend.delta_text(), spend.to_string())
}

/// The text, and the parts.
pub(crate) type CostParts = (String, Vec<SpendParts>);

pub(crate) fn cost(cost: Cost) -> CostParts {
    (cost.neat().to_string(), cost.parts().map(spend).collect())
}

/// Column, kind, value and confidence.
pub(crate) type AccuracyParts = (String, String, f64, f64);

pub(crate) fn accuracy(accuracy: &[Accuracy]) -> Vec<AccuracyParts> {
    let parts =
        |one: &Accuracy| (one.column.clone(), one.kind.to_string(), one.value, one.confidence);
    accuracy.iter().map(parts).collect()
}

/// Text, spending, remainder by budget, cells, number, whether it is replayed, the charges that
/// paid for a replay, and those that paid for draws on which numbers are built.
pub(crate) type ReceiptParts =
    (String, CostParts, Vec<(String, SpendParts)>, Vec<String>, i64, bool, [Vec<i64>; 2]);

pub(crate) fn receipt(receipt: &Receipt) -> ReceiptParts {
    let left = receipt.left.iter().map(|(budget, left)| (budget.clone(), spend(*left)));
    (
        receipt.to_string(),
        cost(receipt.spent),
        left.collect(),
        receipt.cells.clone(),
        receipt.sequence,
        receipt.is_replayed,
        [receipt.replayed.clone(), receipt.refined.clone()],
    )
}
