//! What a budget promises where a unit is one month of a person, and what this adds up to for
//! somebody who stays.
//!
//! In: a budget, and what all answers reveal about one unit at most. Out: sentences. Nothing here
//! reads a row. Every number is rounded such that less is promised.
//!
//! ```text
//! LIMIT (epsilon=1)     one month: ε = 1; a year: ε = 12
//! LIMIT (rho=0.01)      one month: ρ = 0.01; a year: 144·ρ, or 12·ρ if each question is about one month
//! ```

use num_traits::Zero;

use crate::catalog::describe::limit_text;
use crate::ledger::BudgetState;
use crate::mechanism::epsilon_of_rho;
use crate::owner::promise::Promise;
use crate::privacy::posterior::group_loss;
use crate::privacy::{Delta, Notion, Rational, Spend};

/// The months of somebody who stays for a year.
const YEAR: u32 = 12;

/// The δ, in 10⁻¹⁸, of losses that are converted: 10⁻⁶.
const CONVERTED_AT: i64 = 1_000_000_000_000;

/// What all answers reveal at most: about one month of a person, and about a year.
pub(super) fn at_most(
    state: &BudgetState,
    most: &Promise,
    counted: Spend,
) -> Vec<(&'static str, String)> {
    let limit = limit_text(&state.budget);
    let converted = if most.is_converted { ", converted and rounded up" } else { "" };
    let month = format!(
        "All answers together reveal at most {} about one person in one month{converted} (the limit of each month: {limit}). What is spent on a month never comes back, and a month about which nothing was asked has all of its limit left. When nothing is left of a month, no question that reads it is answered any more, unless the owner raises the limit, which SHOW PRIVACY HISTORY shows to everyone.",
        most.text()
    );
    let mut sentences = vec![("at most", month), ("at most", in_a_year(most, counted))];
    if let Some(narrow) = of_single_months(counted) {
        let sentence = format!(
            "If each question is about one month only, they reveal at most {} about a person with rows in {YEAR} months.",
            narrow.text()
        );
        sentences.push(("at most", sentence));
    }
    sentences
}

/// What a year of one person adds up to.
fn in_a_year(most: &Promise, counted: Spend) -> String {
    let who = format!("a person with rows in {YEAR} months, such as the months of a year");
    match year(most, counted) {
        Some(all) => format!(
            "About {who}, they reveal at most {}: each of the months is protected by itself, and {YEAR} of them add up. For each further month, it is more.",
            all.text()
        ),
        None => format!(
            "About {who}, nothing is promised: the δ of one month grows with each further one, and reaches 1."
        ),
    }
}

/// The loss of a person with rows in a year of months. `None` if nothing is known of it.
///
/// # Guarantee
/// Such a person is as many units. To remove them one by one costs the loss of each, as
/// [`group_loss`] adds it up, whatever the questions read. In ρ, a question that reads all of the
/// months costs the square of their number.
fn year(most: &Promise, counted: Spend) -> Option<Promise> {
    let is_pure_rho = counted.notion == Notion::Concentrated && counted.atto_delta == 0;
    if is_pure_rho {
        let months = Rational::from_integer((YEAR * YEAR).into());
        return in_epsilon(&(counted.loss() * months));
    }
    let (epsilon, delta) = group_loss(&most.epsilon, &most.delta, YEAR);
    let one = Rational::from_integer(1.into());
    (delta < one).then_some(Promise { epsilon, delta, is_converted: most.is_converted })
}

/// The loss of the same person if no question reads two months, where that is less.
///
/// # Guarantee
/// Each question then changes with one unit of the person, and the losses of different questions
/// compose: in ρ, they add up. What costs ε has ρ = ε²/2, and the squares of amounts that add up to
/// the limit of a month add up to at most its square.
fn of_single_months(counted: Spend) -> Option<Promise> {
    let months = Rational::from_integer(YEAR.into());
    if counted.atto_delta != 0 {
        return None;
    }
    let loss = counted.loss();
    match counted.notion {
        Notion::Concentrated => in_epsilon(&(loss * months)),
        Notion::Approximate => {
            let half = Rational::new(1.into(), 2.into());
            let composed = in_epsilon(&(&loss * &loss * half * &months))?;
            (composed.epsilon < loss * months).then_some(composed)
        }
        Notion::Coupons => None,
    }
}

fn in_epsilon(rho: &Rational) -> Option<Promise> {
    let delta = Spend::of_epsilon(0, CONVERTED_AT).delta();
    let epsilon = epsilon_of_rho(rho, &Delta::new(delta.clone()).ok()?).ok()?;
    let delta = if rho.is_zero() { Rational::zero() } else { delta };
    Some(Promise { epsilon, delta, is_converted: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(counted: Spend, most: (i64, i64)) -> [String; 2] {
        let most = Spend::of_epsilon(most.0, most.1);
        let most = Promise { epsilon: most.loss(), delta: most.delta(), is_converted: false };
        let text = |promise: Option<Promise>| promise.map_or("-".to_owned(), |p| p.text());
        [text(year(&most, counted)), text(of_single_months(counted))]
    }

    #[test]
    fn a_year_is_twelve_units() {
        const ONE: i64 = 1_000_000_000;
        let epsilon = Spend::of_epsilon(ONE, 0);
        assert_eq!(told(epsilon, (ONE, 0)), ["ε = 12", "-"]);
        // δ · (e^12 − 1)/(e − 1) = 94 720 δ: more than twelve times.
        let [year, _] = told(Spend::of_epsilon(ONE, 1_000_000_000), (ONE, 1_000_000_000));
        assert!(
            year.starts_with("ε = 12, δ = 0.0000947") || year.starts_with("ε = 12, δ = 9.47"),
            "{year}"
        );
        let much = Spend::of_epsilon(ONE, 1_000_000_000_000_000);
        assert_eq!(told(much, (ONE, 1_000_000_000_000_000)), ["-", "-"]);
        // 144 ρ for questions about the whole year, 12 ρ for those about single months.
        let [year, single] = told(Spend::of_rho(10_000_000, 0), (0, 0));
        assert_eq!([year, single], ["ε = 9.614, δ = 1e-6", "ε = 2.366, δ = 1e-6"]);
    }
}
