//! The lines of an explanation about budgets, and about what a release takes from them.
//!
//! In: quotes of budgets and a cost. Out: the text of a line, and JSON.

use serde_json::{Value, json};

use crate::explain::number_text::number;
use crate::ledger::BudgetQuote;
use crate::privacy::{Cost, Spend};

pub(super) fn budget_json(quote: &BudgetQuote) -> Value {
    let mut json = json!({
        "name": quote.budget,
        "left": spend_json(quote.limit.minus(quote.spent)),
        "after": spend_json(left_after(quote)),
    });
    if let (Some(slice), Value::Object(map)) = (&quote.slice, &mut json) {
        map.insert("slice".to_owned(), json!(slice.to_string()));
    }
    json
}

pub(super) fn budget_text(quote: &BudgetQuote) -> String {
    let left = quote.limit.minus(quote.spent).neat_down();
    let symbol = quote.limit.notion.symbol();
    let after = left_after(quote).neat_down();
    let delta = |spend: Spend| {
        if quote.limit.atto_delta == 0 {
            String::new()
        } else {
            format!(", δ {}", spend.delta_text())
        }
    };
    format!(
        "{}{}: {symbol} {}{} left → {symbol} {}{} after{}{}",
        quote.budget,
        slice_and_cell(quote),
        left.loss_text(),
        delta(left),
        after.loss_text(),
        delta(after),
        match (quote.promise, quote.coupon) {
            (Some(promise), Some(coupon)) => {
                format!(" (coupons of {} for {promise})", Spend::of_epsilon(coupon, 0))
            }
            (Some(promise), None) => format!(" (zCDP for {promise})"),
            (None, _) => String::new(),
        },
        match more_of_the_price(quote) {
            Some(1) => ", and 1 more question of this price fits".to_owned(),
            Some(more) => format!(", and {more} more questions of this price fit"),
            None => String::new(),
        },
    )
}

/// How many more questions of the same price to the same cells fit afterwards; `None` where all
/// cells pay, and where nothing is paid.
fn more_of_the_price(quote: &BudgetQuote) -> Option<i64> {
    quote.cell.as_ref()?;
    let (price, left) = (quote.after.minus(quote.spent), left_after(quote));
    let of_loss = left.nano.checked_div(price.nano);
    of_loss.into_iter().chain(left.atto_delta.checked_div(price.atto_delta)).min()
}

/// What would be left after the charge.
fn left_after(quote: &BudgetQuote) -> Spend {
    quote.limit.minus(quote.after)
}

/// The analyst whose slice of a budget pays, and the cell.
fn slice_and_cell(quote: &BudgetQuote) -> String {
    let slice = quote.slice.as_ref().map(|slice| format!(", slice of {slice}"));
    let cell = quote.cell.as_ref().map(|cell| format!(", {cell}"));
    slice.into_iter().chain(cell).collect()
}

fn spend_json(spend: Spend) -> Value {
    json!({ spend.notion.name(): number(&spend.loss_text()), "delta": number(&spend.delta_text()) })
}

/// The cost as JSON. The first notion has the fields of an amount; each further notion has its own
/// name, and its δ is `<notion>_delta`.
pub(super) fn cost_json(cost: Cost) -> Value {
    let mut parts = cost.parts();
    let mut object = spend_json(parts.next().unwrap_or_default());
    for part in parts {
        let Value::Object(map) = &mut object else { break };
        let name = part.notion.name();
        map.insert(name.to_owned(), number(&part.loss_text()));
        map.insert(format!("{name}_delta"), number(&part.delta_text()));
    }
    object
}
