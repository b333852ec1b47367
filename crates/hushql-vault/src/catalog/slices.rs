//! Slices of budgets: the most that one analyst may spend of a budget.
//!
//! In: a budget, an analyst and a limit in the measure of the budget. Out: a row beside the budget,
//! under the same seal. The slices of a budget together never exceed its limit. Everyone else
//! shares the rest.
//!
//! ```text
//! research  LIMIT (epsilon=10)     lab  LIMIT (epsilon=3)     eve  LIMIT (epsilon=2)     everyone else: ε = 5
//! ```

use std::collections::BTreeMap;
use std::fmt;

use hushql_privacy::privacy::{Notion, Spend};
use rusqlite::Connection;

use super::budget::check_limit;
use super::digest::Fields;
use super::{Budget, CatalogError};

/// The most that an analyst may spend of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The analyst.
    pub analyst: String,
    /// The most that the analyst may ever spend, in the measure of the budget.
    pub limit: Spend,
}

/// The analysts who have a share of a budget.
///
/// ```
/// use hushql_vault::catalog::SliceOf;
///
/// assert_eq!(SliceOf::Analyst("lab".to_owned()).to_string(), "lab");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceOf {
    /// An analyst with a slice of their own.
    Analyst(String),
    /// All analysts without a slice, and the owner.
    EveryoneElse,
}

impl fmt::Display for SliceOf {
    /// The analyst, or `everyone else`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Analyst(analyst) => f.write_str(analyst),
            Self::EveryoneElse => f.write_str("everyone else"),
        }
    }
}

/// The payer of a query: a budget, or someone's slice of it.
pub fn payer(budget: &str, slice: Option<&SliceOf>) -> String {
    match slice {
        None => format!("the privacy budget `{budget}`"),
        Some(SliceOf::Analyst(analyst)) => {
            format!("the slice `{analyst}` of the privacy budget `{budget}`")
        }
        Some(SliceOf::EveryoneElse) => {
            format!("what the slices of the privacy budget `{budget}` leave to everyone else")
        }
    }
}

/// The table of slices. The notion of a slice is that of its budget.
pub(crate) const SCHEMA: &str = "
CREATE TABLE slice (
    budget TEXT NOT NULL REFERENCES budget (name),
    analyst TEXT NOT NULL CHECK (length(analyst) BETWEEN 1 AND 64),
    limit_loss INTEGER NOT NULL CHECK (limit_loss > 0),
    limit_delta INTEGER NOT NULL CHECK (limit_delta >= 0),
    PRIMARY KEY (budget, analyst)
) STRICT, WITHOUT ROWID;
";

/// The slices of each budget, by analyst, in the notion of the budget. A slice whose budget has no
/// notion is damage.
pub(super) fn rows(
    connection: &Connection,
    notions: &BTreeMap<String, Notion>,
) -> Result<BTreeMap<String, Vec<Slice>>, CatalogError> {
    let mut statement = connection.prepare_cached(
        "SELECT budget, analyst, limit_loss, limit_delta FROM slice ORDER BY budget, analyst",
    )?;
    let mut rows = statement.query([])?;
    let mut slices: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let budget: String = row.get(0)?;
        let notion = notions.get(&budget).copied().unwrap_or_default();
        let limit = Spend { notion, nano: row.get(2)?, atto_delta: row.get(3)? };
        slices.entry(budget).or_default().push(Slice { analyst: row.get(1)?, limit });
    }
    Ok(slices)
}

/// Adds the slices of one budget to the digest of all budgets.
pub(super) fn into_digest(fields: &mut Fields, slices: &[Slice]) {
    fields.text(&slices.len().to_string());
    for Slice { analyst, limit } in slices {
        fields.text(analyst);
        fields.integer(limit.nano);
        fields.integer(limit.atto_delta);
    }
}

/// Checks the slices of a budget that has, or gets, this limit.
///
/// # Guarantee
/// `Ok` only if each slice is in the measure of the budget and more than nothing, and all of them
/// together are within the limit, in ε, ρ or coupons and in δ.
///
/// # Errors
/// [`CatalogError::Slice`].
pub(crate) fn check<'a>(
    budget: &Budget,
    limit: Spend,
    slices: impl IntoIterator<Item = &'a Slice>,
) -> Result<(), CatalogError> {
    let refuse = |reason: String| CatalogError::Slice { budget: budget.name.clone(), reason };
    let mut sum = Spend { nano: 0, atto_delta: 0, ..limit };
    for slice in slices {
        if slice.limit.notion != limit.notion {
            let notion = limit.notion.name();
            return Err(refuse(format!(
                "they count as their budget does, in {notion}: write LIMIT ({notion}=…)"
            )));
        }
        check_limit(&budget.name, slice.limit)?;
        sum = sum.plus(slice.limit).map_err(|_| refuse("the amounts are too large".to_owned()))?;
    }
    if limit.pays(sum) {
        return Ok(());
    }
    Err(refuse(format!("they add up to {sum}, and its limit is {limit}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{PerQuery, Replay};

    #[test]
    fn slices_together_are_within_the_limit() {
        let budget = |limit: Spend| Budget {
            name: "b".to_owned(),
            table: "t".to_owned(),
            limit,
            promise: None,
            coupon: None,
            per_query: PerQuery::default(),
            replay: Replay::All,
        };
        let checked = |limit: Spend, slices: &[Spend]| {
            let slices =
                slices.iter().map(|limit| Slice { analyst: "a".to_owned(), limit: *limit });
            check(&budget(limit), limit, &slices.collect::<Vec<_>>()).map_err(|e| e.to_string())
        };
        let epsilon = Spend::of_epsilon;
        assert_eq!(checked(epsilon(5, 5), &[]), Ok(()));
        assert_eq!(checked(epsilon(5, 5), &[epsilon(2, 4), epsilon(3, 1)]), Ok(()));
        for sum in [[epsilon(2, 4), epsilon(4, 0)], [epsilon(2, 4), epsilon(3, 2)]] {
            assert!(checked(epsilon(5, 5), &sum).unwrap_err().contains("add up to"));
        }
        assert!(checked(epsilon(5, 5), &[epsilon(0, 1)]).unwrap_err().contains("greater than 0"));
        let other = checked(epsilon(5, 5), &[Spend::of_rho(1, 0)]).unwrap_err();
        assert!(other.contains("LIMIT (epsilon=…)"), "{other}");
        let large = checked(epsilon(i64::MAX, 0), &[epsilon(i64::MAX, 0), epsilon(1, 0)]);
        assert!(large.unwrap_err().contains("too large"));
    }
}
