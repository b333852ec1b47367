//! What a budget promises, in sentences that the people in the data can read.
//!
//! In: a budget as its reader sees it, and the declarations. Out: pairs of a heading and a
//! sentence. Nothing here reads a row. Every number is rounded such that less is promised.
//!
//! ```text
//! protected      One person is protected as a whole: all rows of visits with one value of patient.
//! at most        All answers together reveal at most ε = 5 about one person.
//! conclusion     Whoever believes with 1 % that a person is in the data believes it with at most 59.99 % …
//! ```

use num_traits::Zero;

use crate::catalog::describe::limit_text;
use crate::catalog::{Catalog, CatalogError, Privacy, Table, Unit};
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{BudgetState, OWNER};
use crate::owner::months;
use crate::owner::promise::{Promise, probability_up, promise};
use crate::privacy::Rational;
use crate::privacy::posterior::{percent_up, posterior_but, replacement_loss};

/// The priors for which conclusions are shown, in percent.
const PRIORS: [u8; 3] = [1, 10, 50];

/// What is said where nothing is spent, and exact answers may have shown public columns.
const NOTHING_OF_PRESENT: &str =
    "Nothing is spent so far: no answer has revealed anything that is protected.";

/// What a budget promises.
#[derive(Debug, Clone)]
pub(crate) struct PrivacyStatement {
    /// The budget, as the reader sees it.
    pub(crate) state: BudgetState,
    /// The loss that all answers together have at most.
    pub(crate) most: Promise,
    /// The unit, in one sentence.
    pub(crate) protected: String,
    /// What the promise is about, and what it is not, each with a heading.
    pub(crate) sentences: Vec<(&'static str, String)>,
    /// Whether anything is promised: the table of the budget may have become public.
    pub(crate) is_promised: bool,
}

/// The statement of a budget for a reader.
///
/// # Guarantee
/// Every loss and every belief is at least the true bound. If the owner has lowered the limit below
/// what the reader sees as spent, the larger one counts.
///
/// # Errors
/// [`Error::Catalog`] if the reader knows no budget of this name.
pub(crate) fn statement(
    inner: &Inner,
    budget: &str,
    reader: &str,
) -> Result<PrivacyStatement, Error> {
    let catalog = inner.catalog_of(reader)?;
    let state = inner.vault.budget_for(budget, reader)?;
    let unknown = || CatalogError::UnknownBudget { budget: budget.to_owned() };
    let table = catalog.table(&state.budget.table).ok_or_else(unknown)?;
    let limit = state.budget.limit;
    let mut counted = limit;
    counted.nano = counted.nano.max(state.spent.nano);
    counted.atto_delta = counted.atto_delta.max(state.spent.atto_delta);
    let (most, spent) = (promise(&state.budget, counted), promise(&state.budget, state.spent));
    let (Some(most), Some(spent)) = (most, spent) else { return Err(Error::Internal) };
    if let Some(why) = unprotected(table) {
        let sentences = vec![("not protected", why.clone())];
        return Ok(PrivacyStatement { state, most, protected: why, sentences, is_promised: false });
    }
    let is_row = matches!(table.unit(), Some(Unit::Row));
    let is_month = table.unit().is_some_and(|unit| unit.month().is_some());
    let is_present = table.unit().is_some_and(|unit| unit.present().is_some());
    let protected = protected(&catalog, &state);
    let mut sentences = vec![("protected", protected.clone())];
    sentences.push(("protected", match is_present {
        true => "That a person is in the data is not protected: anyone may know it, and exact answers show it. What is protected is what else the row says.".to_owned(),
        false => "What is protected is whether these rows are in the data at all, and everything that they say.".to_owned(),
    }));
    sentences.push(("from whom", "From everyone who gets answers: all analysts, also together and over all time, and everyone to whom they pass answers on. They may know every row of everyone else, the program and all declarations, and may compute as long as they like.".to_owned()));
    match is_month {
        false => sentences.push(("at most", at_most(&state, &most))),
        true => sentences.extend(months::at_most(&state, &most, counted)),
    }
    sentences.push(match is_present && state.spent.nano == 0 && state.spent.atto_delta == 0 {
        true => ("spent so far", NOTHING_OF_PRESENT.to_owned()),
        false => ("spent so far", spent_so_far(&state, &spent, reader)),
    });
    let who = match (is_row, is_month) {
        (true, _) => "a row",
        (false, false) => "a person",
        (false, true) => "a person in a month",
    };
    sentences.extend(PRIORS.map(|prior| match is_present {
        true => ("conclusion", conclusion_of_present(prior, &most)),
        false => ("conclusion", conclusion(prior, &most, who)),
    }));
    sentences.extend(not_covered(&catalog, &state, reader).map(|text| ("not covered", text)));
    Ok(PrivacyStatement { state, most, protected, sentences, is_promised: true })
}

/// Why a budget protects nobody: its table is not private.
fn unprotected(table: &Table) -> Option<String> {
    let name = &table.name;
    match table.privacy {
        Privacy::Private(_) => None,
        Privacy::Public => Some(format!(
            "Nothing is promised: {name} is public, so anyone may see its rows as they are."
        )),
        Privacy::Undeclared => Some(format!(
            "Nothing is promised: nobody has declared who is protected in {name}, and no question about it is answered."
        )),
    }
}

/// The privacy unit, in words.
fn protected(catalog: &Catalog, state: &BudgetState) -> String {
    let budget = &state.budget;
    let domain = catalog.unit_domain_of(budget).to_owned();
    let unit = catalog.table(&domain).and_then(|table| table.unit());
    let column = match unit {
        Some(Unit::Column { column, .. }) => Some(column.clone()),
        Some(Unit::Month { person, date, .. }) => {
            return format!(
                "One person in one month is protected: all rows of {domain} with one value of {person} and with a {date} in one month. Rows without a {date}, or before 1970 or after 2049, are counted together, apart from the months."
            );
        }
        Some(Unit::Present { column, public }) => {
            let known: Vec<&str> =
                std::iter::once(column).chain(public).map(String::as_str).collect();
            return format!(
                "What one person's row of {domain} says is protected, except for {}, which anyone may know of everyone.",
                known.join(", ")
            );
        }
        Some(Unit::Row | Unit::Via(_)) | None => None,
    };
    let mut linked: Vec<&str> = Vec::new();
    for table in catalog.tables().filter(|table| table.name != domain) {
        if catalog.unit_domain(&table.name) == Some(domain.as_str()) {
            linked.push(&table.name);
        }
    }
    match column {
        None => format!("Each row of {domain} is protected by itself, as if it were one person."),
        Some(column) if linked.is_empty() => format!(
            "One person is protected as a whole: all rows of {domain} with one value of {column}."
        ),
        Some(column) => format!(
            "One person is protected as a whole: all rows of {domain} with one value of {column}, with all rows of {} that lead to them.",
            linked.join(", ")
        ),
    }
}

fn at_most(state: &BudgetState, most: &Promise) -> String {
    let limit = limit_text(&state.budget);
    let converted = if most.is_converted { ", converted and rounded up" } else { "" };
    format!(
        "All answers together reveal at most {} about one person{converted} (the limit: {limit}). What is spent never comes back. When nothing is left, no question is answered any more, unless the owner raises the limit, which SHOW PRIVACY HISTORY shows to everyone.",
        most.text()
    )
}

fn spent_so_far(state: &BudgetState, spent: &Promise, reader: &str) -> String {
    if let ([slice], true) = (state.slices.as_slice(), reader != OWNER) {
        let (amount, left) = (state.spent.neat_up(), state.left.neat_down());
        return format!(
            "Spent so far of the slice of {}: {amount}. Left of it: {left}. What others spend of theirs is not shown here.",
            slice.of
        );
    }
    if state.spent.nano == 0 && state.spent.atto_delta == 0 {
        return "Nothing is spent so far: no answer has revealed anything.".to_owned();
    }
    let (amount, left) = (state.spent.neat_up(), state.left.neat_down());
    let converted = match spent.is_converted {
        true => format!(", which is at most {}", spent.text()),
        false => String::new(),
    };
    format!("Spent so far: {amount}{converted}. Left: {left}.")
}

/// The belief to which a loss can at best raise one of this percentage.
fn belief(prior: u8, epsilon: &Rational, delta: &Rational) -> String {
    let prior = Rational::new(prior.into(), 100.into());
    posterior_but(&prior, epsilon, delta).map_or_else(
        || "anything (nothing is promised about it)".to_owned(),
        |(belief, but)| {
            let but = match but.is_zero() {
                true => String::new(),
                false => format!(", except with probability {} at most", probability_up(&but)),
            };
            format!("at most {}{but}", percent_up(&belief))
        },
    )
}

/// The same where it is public who is in the data. Neighbours replace what a person says, so that
/// the loss is the whole one, and not that of two steps.
fn conclusion_of_present(prior: u8, most: &Promise) -> String {
    format!(
        "Whoever believes with {prior} % that the data say one thing of a person, and not another, believes it after all answers with {}. That the person is in the data is known from the beginning.",
        belief(prior, &most.epsilon, &most.delta)
    )
}

/// What an observer with this prior, in percent, can at best believe after all answers.
fn conclusion(prior: u8, most: &Promise, who: &str) -> String {
    let belief = |epsilon: &Rational, delta: &Rational| belief(prior, epsilon, delta);
    let (twice, delta) = replacement_loss(&most.epsilon, &most.delta);
    format!(
        "Whoever believes with {prior} % that {who} is in the data believes it after all answers with {}. Whoever believes with {prior} % that the data say one thing of {who}, and not another, believes it afterwards with {}.",
        belief(&most.epsilon, &most.delta),
        belief(&twice, &delta)
    )
}

/// What the promise does not say.
fn not_covered<'a>(
    catalog: &'a Catalog,
    state: &BudgetState,
    reader: &str,
) -> impl Iterator<Item = String> + use<'a> {
    let domain = catalog.unit_domain_of(&state.budget);
    let is_row = catalog.table(domain).is_some_and(|table| matches!(table.unit(), Some(Unit::Row)));
    let unit = catalog.table(domain).and_then(Table::unit);
    let is_month = unit.is_some_and(|unit| unit.month().is_some());
    let known = unit.and_then(Unit::present).map(|(person, public)| {
        let others: String = public.iter().map(|name| format!(", {name}")).collect();
        format!(
            "Who is in {domain}, with {person}{others}: exact answers show it, and cost nothing."
        )
    });
    let several = match (is_row, is_month) {
        (true, _) => {
            "A person who has several rows: each of them is protected by itself, so that all together are protected less."
        }
        (false, true) => {
            "A person who has rows in several months: each month is protected by itself, and all together less, as it is said above."
        }
        (false, false) => {
            "A person who appears under several names or numbers counts as several people, and is protected less."
        }
    };
    let public: Vec<&str> = catalog
        .tables()
        .filter(|table| table.is_public())
        .map(|table| table.name.as_str())
        .collect();
    let public = match public.as_slice() {
        [] => None,
        names => {
            Some(format!("What public tables say, which is shown as it is: {}.", names.join(", ")))
        }
    };
    let fixed = [
        "What is true of people in general, and would be learnt without this person just as well: that smoking makes ill, for instance.",
        several,
        "Other data about the same people: tables that do not lead to these people, and what was published elsewhere and is not declared as spent.",
        "Declarations, which are public: names of tables and columns, ranges of values, limits, and facts about everyone, such as MAX ROWS and UNIQUE.",
        "Whoever reads the data themselves: the owner, and everyone who can open the files or the memory of the program.",
        "How long an answer takes, and how much memory it needs.",
    ];
    let lowered = (reader != OWNER && !state.slices.is_empty()).then(|| {
        "What was spent before the owner lowered a limit: it stays spent, also above the limit."
            .to_owned()
    });
    fixed
        .into_iter()
        .map(ToOwned::to_owned)
        .chain(known)
        .chain(public)
        .chain(lowered)
        .collect::<Vec<_>>()
        .into_iter()
}
