//! The accounts of budgets: what is spent and left, by whom, when, and how long the rest lasts at
//! the present pace.
//!
//! In: the state of the budgets as the reader sees it, and the ledger. Out: answers. Nothing here
//! depends on private rows. If a budget has slices, an analyst sees only their own share.
//!
//! ```text
//! SHOW PRIVACY BUDGET research               ε = 4 spent in all, ε = 6 left, 1 in the last 7 days: 42 days
//! SHOW PRIVACY BUDGET research BY ANALYST    lab ε = 3, eve ε = 1
//! SHOW PRIVACY BUDGET research BY MONTH      2026-02 ε = 3, 2026-03 ε = 1
//! SHOW PRIVACY BUDGET research BY CELL       Oslo ε = 1, Rome ε = 3, (other) ε = 0
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int64Array, StringArray};
use chrono::DateTime;
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::text_columns::{answer, table};
use crate::answer::Answer;
use crate::catalog::describe::{limit_text, per_query_text};
use crate::catalog::{Cell, SliceOf};
use crate::dialect::SpendingBy;
use crate::error::Error;
use crate::ledger::{BudgetState, CellState, SliceState, Spent, SpentLately, Vault};
use crate::mechanism::epsilon_of_rho;
use crate::privacy::{Delta, Rational, Spend, decimal_text};

/// The number of past days whose pace a forecast continues.
const PACE: i64 = 7;
/// The longest forecast in days; nobody plans further ahead.
const LONG: i64 = 3_650;

/// All budgets, or one of them.
pub(super) fn budgets(vault: &Vault, name: Option<&str>, reader: &str) -> Result<Answer, Error> {
    let states = states(vault, name, reader)?;
    let lately = vault.spent_lately(&states, reader, PACE)?;
    let column = |of: &dyn Fn(&BudgetState) -> String| states.iter().map(of).collect::<Vec<_>>();
    let forecasts = states.iter().zip(&lately).map(|(state, lately)| {
        let cells = vault.cells_for(&state.budget.name, reader)?;
        forecast_of(state.left, &cells, lately)
    });
    table(&[
        ("budget", column(&|s| s.budget.name.clone())),
        ("table", column(&|s| s.budget.table.clone())),
        ("limit", column(&limits_text)),
        ("spent", column(&spent_text)),
        ("left", column(&|s| s.left.neat_down().to_string())),
        ("per_query", column(&|s| per_query_text(&s.budget))),
        ("forecast", forecasts.collect::<Result<_, Error>>()?),
    ])
}

/// The spending of all budgets or one of them, by analyst or by time. A reader who is kept apart
/// sees the sum of all others, and not who they are.
pub(super) fn spending(
    vault: &Vault,
    name: Option<&str>,
    by: SpendingBy,
    (reader, is_apart): (&str, bool),
) -> Result<Answer, Error> {
    let states = states(vault, name, reader)?;
    if by == SpendingBy::Cell {
        return by_cell(vault, &states, reader);
    }
    let spent = vault.spent_by_day(&states, reader)?;
    match by {
        SpendingBy::Cell => Err(Error::Internal),
        SpendingBy::Analyst => by_analyst(&states, &spent, is_apart.then_some(reader)),
        SpendingBy::Day => by_time(
            &spent,
            |day| day,
            |days| {
                let days = days.iter().map(|day| i32::try_from(*day).ok());
                ("day", Arc::new(days.collect::<Date32Array>()) as ArrayRef)
            },
        ),
        SpendingBy::Month => by_time(&spent, month, |months| {
            let months = months.iter().map(|month| month_text(*month));
            ("month", Arc::new(StringArray::from_iter_values(months)) as ArrayRef)
        }),
    }
}

fn states(vault: &Vault, name: Option<&str>, reader: &str) -> Result<Vec<BudgetState>, Error> {
    Ok(match name {
        Some(name) => vec![vault.budget_for(name, reader)?],
        None => vault.budgets_for(reader)?,
    })
}

/// The cells of budgets whose people have cells.
fn by_cell(vault: &Vault, states: &[BudgetState], reader: &str) -> Result<Answer, Error> {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for BudgetState { budget, .. } in states {
        let all = vault.cells_for(&budget.name, reader)?;
        // Months that follow each other with the same amounts are one line.
        let alike = |one: &CellState, next: &CellState| {
            let both = one.is_month && next.is_month;
            both && (one.spent, one.left) == (next.spent, next.left)
        };
        for run in all.chunk_by(alike) {
            let [CellState { column, spent, left, .. }, ..] = run else { continue };
            let text = |state: &CellState| match &state.cell {
                Cell::Value(value) => value.clone(),
                Cell::Other => "(other)".to_owned(),
            };
            let shown = match run {
                [one] => text(one),
                [first, .., last] => format!("{} to {}", text(first), text(last)),
                [] => continue,
            };
            let (spent, left) = (spent.neat_up().to_string(), left.neat_down().to_string());
            rows.push([budget.name.clone(), column.clone(), shown, spent, left]);
        }
    }
    let column = |at: usize| rows.iter().filter_map(|row| row.get(at)).cloned().collect();
    table(&[
        ("budget", column(0)),
        ("column", column(1)),
        ("cell", column(2)),
        ("spent", column(3)),
        ("left", column(4)),
    ])
}

/// A sum of amounts, and the number of charges in it.
type AmountSum = Option<(Spend, i64)>;

fn plus(sum: AmountSum, one: &Spent) -> Result<AmountSum, Error> {
    Ok(Some(match sum {
        Some((spend, charges)) => (spend.plus(one.spend)?, charges.saturating_add(one.charges)),
        None => (one.spend, one.charges),
    }))
}

fn by_time(
    spent: &[Spent],
    period: fn(i64) -> i64,
    column: impl FnOnce(&[i64]) -> (&'static str, ArrayRef),
) -> Result<Answer, Error> {
    let mut sums: BTreeMap<(&str, i64), AmountSum> = BTreeMap::new();
    for one in spent {
        let key = (one.budget.as_str(), period(one.day));
        let sum = plus(sums.get(&key).copied().flatten(), one)?;
        sums.insert(key, sum);
    }
    let periods: Vec<i64> = sums.keys().map(|(_, period)| *period).collect();
    let sums_of = || sums.values().copied().flatten();
    let budgets = StringArray::from_iter_values(sums.keys().map(|(budget, _)| budget));
    let amounts =
        StringArray::from_iter_values(sums_of().map(|(spend, _)| spend.neat_up().to_string()));
    let charges = Int64Array::from_iter_values(sums_of().map(|(_, charges)| charges));
    let columns: [(&str, ArrayRef); 4] = [
        ("budget", Arc::new(budgets)),
        column(&periods),
        ("spent", Arc::new(amounts)),
        ("queries", Arc::new(charges)),
    ];
    answer(columns.into_iter())
}

/// The number of months from January of year 0 to the month of a day.
fn month(day: i64) -> i64 {
    use chrono::Datelike;
    let date = DateTime::from_timestamp(day.saturating_mul(86_400), 0).unwrap_or_default();
    i64::from(date.year()).saturating_mul(12).saturating_add(i64::from(date.month0()))
}

fn month_text(month: i64) -> String {
    format!("{:04}-{:02}", month.div_euclid(12), month.rem_euclid(12).saturating_add(1))
}

/// The spending of each slice, of everyone else, and of each analyst without a slice.
fn by_analyst(
    states: &[BudgetState],
    spent: &[Spent],
    apart: Option<&str>,
) -> Result<Answer, Error> {
    let everyone_else = SliceOf::EveryoneElse.to_string();
    let mut rows: Vec<[String; 6]> = Vec::new();
    for state in states {
        let budget = &state.budget.name;
        let mut sums: BTreeMap<&str, AmountSum> = BTreeMap::new();
        for one in spent.iter().filter(|one| one.budget == *budget) {
            let analyst = match apart {
                Some(reader) if reader != one.analyst => everyone_else.as_str(),
                Some(_) | None => one.analyst.as_str(),
            };
            let sum = plus(sums.get(analyst).copied().flatten(), one)?;
            sums.insert(analyst, sum);
        }
        for SliceState { of, limit, spent, left, .. } in &state.slices {
            let charges = match of {
                SliceOf::Analyst(analyst) => {
                    sums.remove(analyst.as_str()).flatten().map_or(0, |(_, charges)| charges)
                }
                SliceOf::EveryoneElse => sums.values().flatten().map(|(_, charges)| charges).sum(),
            };
            rows.push([
                budget.clone(),
                of.to_string(),
                limit.to_string(),
                spent.neat_up().to_string(),
                left.neat_down().to_string(),
                charges.to_string(),
            ]);
        }
        // Their row is there already, with the limit.
        let has_rest = state.slices.iter().any(|slice| slice.of == SliceOf::EveryoneElse);
        if has_rest && apart.is_some() {
            sums.remove(everyone_else.as_str());
        }
        for (analyst, sum) in sums {
            let Some((spend, charges)) = sum else { continue };
            rows.push([
                budget.clone(),
                analyst.to_owned(),
                String::new(),
                spend.neat_up().to_string(),
                String::new(),
                charges.to_string(),
            ]);
        }
    }
    let column = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.cloned().collect::<Vec<_>>()
    };
    table(&[
        ("budget", column(0)),
        ("analyst", column(1)),
        ("slice", column(2)),
        ("spent", column(3)),
        ("left", column(4)),
        ("queries", column(5)),
    ])
}

/// How long the rest of a budget lasts if the pace stays. Where people have cells, this is how long
/// the rest of the cell lasts that runs out first.
fn forecast_of(left: Spend, cells: &[CellState], lately: &SpentLately) -> Result<String, Error> {
    let mut first: Option<(i64, &CellState, Spend)> = None;
    for cell in cells {
        let own = match lately.cells.get(&cell.cell) {
            Some(own) => lately.all.plus(*own).map_err(|_| Error::Internal)?,
            None => lately.all,
        };
        let lasts = match cell.left.nano {
            0 => 0,
            _ => lasts(cell.left, own, PACE).unwrap_or(i64::MAX),
        };
        if first.is_none_or(|(least, ..)| lasts < least) {
            first = Some((lasts, cell, own));
        }
    }
    Ok(match (first, cells) {
        (Some((_, cell, own)), [one, others @ ..]) => {
            let told = forecast(cell.left, own, PACE);
            let are_alike = lately.cells.is_empty() && others.iter().all(|c| c.left == one.left);
            match are_alike {
                true => told,
                false => format!("{told}, for {} {}", cell.column, cell.cell),
            }
        }
        (None, _) | (_, []) => forecast(left, lately.all, PACE),
    })
}

/// The days that the rest lasts if `lately` was spent in the last `days` days, and the pace stays.
fn lasts(left: Spend, lately: Spend, days: i64) -> Option<i64> {
    let lasts = |left: i64, lately: i64| {
        let whole = BigInt::from(left) * BigInt::from(days);
        (lately > 0).then(|| (whole / BigInt::from(lately)).to_i64().unwrap_or(i64::MAX))
    };
    let of_loss = lasts(left.nano, lately.nano);
    of_loss.into_iter().chain(lasts(left.atto_delta, lately.atto_delta)).min()
}

/// How long the rest lasts, in words.
fn forecast(left: Spend, lately: Spend, days: i64) -> String {
    if left.nano == 0 {
        return "nothing is left".to_owned();
    }
    let pace = format!("at the pace of the last {days} days");
    match lasts(left, lately, days) {
        None => format!("nothing was spent in the last {days} days"),
        Some(0) => format!("{pace}: less than a day"),
        Some(1) => format!("{pace}: 1 day"),
        Some(lasts) if lasts > LONG => format!("{pace}: more than 10 years"),
        Some(lasts) => format!("{pace}: {lasts} days"),
    }
}

/// The limit, and the slices that the reader sees; an analyst sees only their own.
fn limits_text(state: &BudgetState) -> String {
    let slices = state.slices.iter().map(|slice| format!("; {}: {}", slice.of, slice.limit));
    slices.fold(limit_text(&state.budget), |text, slice| text + &slice)
}

/// A budget in one line.
pub(super) fn budget_text(state: &BudgetState) -> String {
    format!("for {}: limit {}, left {}", state.budget.table, limits_text(state), state.left)
}

/// The spent amount and, under ACCOUNTANT ZCDP, the corresponding ε, rounded up to three digits.
fn spent_text(state: &BudgetState) -> String {
    let by_zcdp = state.budget.promise.filter(|_| state.budget.coupon.is_none());
    let epsilon = by_zcdp.and_then(|promise| {
        // Thresholds have half of the δ, if they have any; the other half turns ρ into ε.
        let parts = if state.budget.limit.atto_delta > 0 { 2 } else { 1 };
        let delta = Delta::new(Spend { atto_delta: promise.atto_delta / parts, ..promise }.delta());
        epsilon_of_rho(&state.spent.loss(), &delta.ok()?).ok()
    });
    let thousand = Rational::from_integer(1000.into());
    match epsilon {
        Some(epsilon) => {
            let up = (epsilon * &thousand).ceil() / thousand;
            format!("{} (ε ≤ {})", state.spent.neat_up(), decimal_text(&up, 3))
        }
        None => state.spent.neat_up().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_continues_the_pace() {
        let told = |left, lately| forecast(left, lately, PACE);
        let epsilon = Spend::of_epsilon;
        assert_eq!(told(epsilon(12, 0), epsilon(7, 0)), "at the pace of the last 7 days: 12 days");
        assert_eq!(told(epsilon(13, 0), epsilon(14, 0)), "at the pace of the last 7 days: 6 days");
        assert_eq!(told(epsilon(2, 0), epsilon(14, 0)), "at the pace of the last 7 days: 1 day");
        assert_eq!(
            told(epsilon(1, 0), epsilon(14, 0)),
            "at the pace of the last 7 days: less than a day"
        );
        // Here, δ is used up first.
        assert_eq!(told(epsilon(100, 3), epsilon(7, 7)), "at the pace of the last 7 days: 3 days");
        assert_eq!(
            told(epsilon(i64::MAX, 0), epsilon(1, 0)),
            "at the pace of the last 7 days: more than 10 years"
        );
        assert_eq!(told(epsilon(5, 0), epsilon(0, 0)), "nothing was spent in the last 7 days");
        assert_eq!(told(epsilon(0, 0), epsilon(5, 0)), "nothing is left");
    }

    #[test]
    fn days_are_in_months() {
        let text = |day| month_text(month(day));
        assert_eq!([0, 30, 31, 365].map(text), ["1970-01", "1970-01", "1970-02", "1971-01"]);
        assert_eq!(text(20_513), "2026-03");
        assert_eq!(text(-1), "1969-12");
    }
}
