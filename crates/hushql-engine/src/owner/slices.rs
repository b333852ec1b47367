//! Slices of budgets: from the clause of their owner to the vault.
//!
//! In: the clause of a slice. Out: the slice in whole units of the ledger, and one sentence about
//! it.
//!
//! ```text
//! ALTER PRIVACY BUDGET research ADD SLICE lab LIMIT (epsilon=3)
//!     →   budget research: slice lab has ε = 3 left; everyone else has ε = 7 left
//! ```

use crate::catalog::{Catalog, CatalogError, Slice, SliceOf};
use crate::dialect::{SliceAlteration, SliceClause, SpentClause};
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{Elsewhere, SliceChange};
use crate::owner::amounts::{slice_of, spent_of};
use crate::privacy::Spend;

/// The slices of a new budget, each with the least that its analyst has already spent.
pub(super) fn declared(clauses: &[SliceClause]) -> Result<Vec<(Slice, Option<Elsewhere>)>, Error> {
    let read = |clause: &SliceClause| {
        let spent = clause.spent.as_deref().map(spent_of).transpose()?;
        Ok((slice_of(&clause.analyst, &clause.limit)?, spent))
    };
    clauses.iter().map(read).collect()
}

/// Adds, changes or drops a slice.
pub(super) fn alter(
    inner: &Inner,
    budget: &str,
    analyst: &str,
    alteration: &SliceAlteration,
) -> Result<String, Error> {
    let change = match alteration {
        SliceAlteration::Add(limit) => SliceChange::Add(slice_of(analyst, limit)?),
        SliceAlteration::SetLimit(limit) => SliceChange::SetLimit(slice_of(analyst, limit)?),
        SliceAlteration::Drop => SliceChange::Drop(analyst.to_owned()),
    };
    let is_known = inner.vault.analysts()?.iter().any(|known| known == analyst);
    let state = inner.vault.change_slice(budget, &change)?;
    let left = |of: &SliceOf| state.slice(of).map_or(state.left, |slice| slice.left);
    let others = left(&SliceOf::EveryoneElse);
    Ok(match alteration {
        SliceAlteration::Drop => {
            format!("budget {budget}: slice {analyst} is dropped; everyone else has {others} left")
        }
        SliceAlteration::Add(_) | SliceAlteration::SetLimit(_) => {
            let own = left(&SliceOf::Analyst(analyst.to_owned()));
            let note = match is_known {
                true => String::new(),
                false => format!("; nobody has asked as {analyst} yet"),
            };
            format!(
                "budget {budget}: slice {analyst} has {own} left; everyone else has {others} left{note}"
            )
        }
    })
}

/// IF NOT EXISTS for an existing budget: it stays as it is, except that SPENT may add to what was
/// spent.
pub(super) fn keep_budget(
    inner: &Inner,
    catalog: &Catalog,
    (name, table): (&str, &str),
    spent: Option<&SpentClause>,
    slices: &[SliceClause],
) -> Result<String, Error> {
    let of_slices =
        slices.iter().filter_map(|slice| Some((&slice.analyst, slice.spent.as_deref()?)));
    let mut amounts: Vec<(Option<&str>, &SpentClause)> =
        of_slices.map(|(analyst, spent)| (Some(analyst.as_str()), spent)).collect();
    amounts.extend(spent.map(|spent| (None, spent)));
    if !amounts.is_empty() {
        match catalog.budget(name) {
            Some(known) if known.table != table => {
                let (budget, table) = (name.to_owned(), known.table.clone());
                return Err(CatalogError::OtherTable { budget, table }.into());
            }
            Some(_) | None => {}
        }
    }
    for (by, spent) in amounts {
        inner.vault.set_spent(table, by, spent_of(spent)?, &[])?;
    }
    let left = left_text(inner.vault.budget(name)?.left);
    Ok(format!("there is a budget {name} already; it stays as it is: {left}"))
}

/// What is left of a budget, in words for its owner.
pub(super) fn left_text(left: Spend) -> String {
    match left.nano {
        0 => format!(
            "{left} left: the limit is spent already, so no query is answered until the budget is raised or dropped"
        ),
        _ => format!("{left} left"),
    }
}
