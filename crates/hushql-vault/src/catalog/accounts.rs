//! Budgets in the vault: the declared amounts and the spent amounts, in columns of whole numbers.
//!
//! In: an open connection; the caller holds the transaction. Out: the budgets, checked against
//! their seal, or a new row.
//!
//! ```text
//! budget(name, limit_…, …, replay, spent_…)     seal('budgets') = SHA-256 of every declared column, the slices and the partitions
//! ```

use std::collections::BTreeMap;

use hushql_privacy::privacy::{Notion, Spend};
use rusqlite::{Connection, Row, named_params, params};

use super::cell::{self, Partition};
use super::digest::Fields;
use super::seal::{SealedRows, check_seal, set_seal};
use super::{Budget, CatalogError, PerQuery, Replay, Slice, slices};

/// A budget, and the amount spent of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) budget: Budget,
    floor: Spend,
    pub(crate) spent: Spend,
    /// Its slices, by analyst.
    pub(crate) slices: Vec<Slice>,
    /// The partition of its people.
    pub(crate) partition: Option<Partition>,
}

/// All budgets, by name.
///
/// # Errors
/// [`CatalogError::Damaged`] when they differ from their seal.
pub(crate) fn accounts(connection: &Connection) -> Result<Vec<Account>, CatalogError> {
    let accounts = account_rows(connection)?;
    check_seal(connection, SealedRows::Budgets, budgets_digest(&accounts))?;
    Ok(accounts)
}

/// Stores a new budget with `spent` as the amount already spent. The caller has checked it.
///
/// # Errors
/// [`CatalogError::DuplicateBudget`] when the name is taken.
pub(crate) fn insert_budget(
    connection: &Connection,
    budget: &Budget,
    spent: Spend,
) -> Result<(), CatalogError> {
    budget.check_without_limit()?;
    if accounts(connection)?.iter().any(|account| account.budget.name == budget.name) {
        return Err(CatalogError::DuplicateBudget { budget: budget.name.clone() });
    }
    if spent.notion != budget.limit.notion {
        return Err(CatalogError::Uncountable { budget: budget.name.clone() });
    }
    let PerQuery {
        default,
        default_rho,
        default_delta,
        min,
        max,
        max_delta,
        declared_bounds,
        min_units,
        min_units_beta,
    } = budget.per_query;
    connection.execute(
        "INSERT INTO budget VALUES (:name, :table, :notion, :promised_epsilon,
             :promised_delta, :coupon, :limit_loss, :limit_delta, :spent_loss, :spent_delta, :default,
             :default_rho, :default_delta, :min, :max, :max_delta, :declared_bounds,
             :min_units, :min_units_beta, :spent_loss, :spent_delta, :replay)",
        named_params! {
            ":name": budget.name,
            ":table": budget.table,
            ":notion": budget.limit.notion.name(),
            ":promised_epsilon": budget.promise.map(|promise| promise.nano),
            ":promised_delta": budget.promise.map(|promise| promise.atto_delta),
            ":coupon": budget.coupon,
            ":limit_loss": budget.limit.nano,
            ":limit_delta": budget.limit.atto_delta,
            ":default": default,
            ":default_rho": default_rho,
            ":default_delta": default_delta,
            ":min": min,
            ":max": max,
            ":max_delta": max_delta,
            ":declared_bounds": declared_bounds,
            ":min_units": min_units,
            ":min_units_beta": min_units_beta,
            ":spent_loss": spent.nano,
            ":spent_delta": spent.atto_delta,
            ":replay": budget.replay.word(),
        },
    )?;
    reseal_budgets(connection)
}

/// Sets the spent amount of a budget. The caller is the ledger, which has compared it with the
/// limit.
///
/// # Errors
/// [`CatalogError::Store`] when the amount would fall or exceed the limit: the database itself
/// refuses both.
pub(crate) fn set_spent(
    connection: &Connection,
    budget: &str,
    spent: Spend,
) -> Result<(), CatalogError> {
    let changed = connection
        .prepare_cached(
            "UPDATE budget SET spent_loss = ?2, spent_delta = ?3 WHERE name = ?1 AND notion = ?4",
        )?
        .execute(params![budget, spent.nano, spent.atto_delta, spent.notion.name()])?;
    if changed == 1 { Ok(()) } else { Err(SealedRows::Budgets.damage()) }
}

fn account_rows(connection: &Connection) -> Result<Vec<Account>, CatalogError> {
    let mut statement = connection.prepare_cached(
        "SELECT name, table_name, notion, promised_epsilon, promised_delta, coupon_epsilon,
             limit_loss, limit_delta, floor_loss, floor_delta, default_epsilon, default_rho,
             default_delta, min_loss, max_loss, max_delta, declared_bounds, min_units,
             min_units_beta, spent_loss, spent_delta, replay
         FROM budget ORDER BY name",
    )?;
    let mut rows = statement.query([])?;
    let mut accounts = Vec::new();
    while let Some(row) = rows.next()? {
        let notion: String = row.get("notion")?;
        let notion = [Notion::Approximate, Notion::Concentrated, Notion::Coupons]
            .into_iter()
            .find(|known| known.name() == notion)
            .ok_or_else(|| SealedRows::Budgets.damage())?;
        let replay = Replay::of_word(&row.get::<_, String>("replay")?);
        let promise: (Option<i64>, Option<i64>) =
            (row.get("promised_epsilon")?, row.get("promised_delta")?);
        accounts.push(Account {
            budget: Budget {
                name: row.get("name")?,
                table: row.get("table_name")?,
                limit: spend(row, notion, "limit")?,
                promise: promise.0.zip(promise.1).map(|(nano, atto)| Spend::of_epsilon(nano, atto)),
                coupon: row.get("coupon_epsilon")?,
                per_query: PerQuery {
                    default: row.get("default_epsilon")?,
                    default_rho: row.get("default_rho")?,
                    default_delta: row.get("default_delta")?,
                    min: row.get("min_loss")?,
                    max: row.get("max_loss")?,
                    max_delta: row.get("max_delta")?,
                    declared_bounds: row.get("declared_bounds")?,
                    min_units: row.get("min_units")?,
                    min_units_beta: row.get("min_units_beta")?,
                },
                replay: replay.ok_or_else(|| SealedRows::Budgets.damage())?,
            },
            floor: spend(row, notion, "floor")?,
            spent: spend(row, notion, "spent")?,
            slices: Vec::new(),
            partition: None,
        });
    }
    let notion = |account: &Account| (account.budget.name.clone(), account.budget.limit.notion);
    let mut slices = slices::rows(connection, &accounts.iter().map(notion).collect())?;
    let mut partitions: BTreeMap<String, Partition> = cell::rows(connection)?.into_iter().collect();
    for account in &mut accounts {
        account.partition = partitions.remove(&account.budget.name);
        account.slices = slices.remove(&account.budget.name).unwrap_or_default();
    }
    if !slices.is_empty() || !partitions.is_empty() {
        return Err(SealedRows::Budgets.damage());
    }
    Ok(accounts)
}

/// The amount in the columns of this name.
fn spend(row: &Row<'_>, notion: Notion, name: &str) -> Result<Spend, rusqlite::Error> {
    let column = |part: &str| row.get(format!("{name}_{part}").as_str());
    Ok(Spend { notion, nano: column("loss")?, atto_delta: column("delta")? })
}

/// Covers all columns of a budget except the spent amount, which the ledger proves.
fn budgets_digest(accounts: &[Account]) -> [u8; 32] {
    let mut fields = Fields::new("hushql budgets 1");
    for Account { budget, floor, spent: _, slices, partition } in accounts {
        let PerQuery {
            default,
            default_rho,
            default_delta,
            min,
            max,
            max_delta,
            declared_bounds,
            min_units,
            min_units_beta,
        } = budget.per_query;
        fields.text(&budget.name);
        fields.text(&budget.table);
        fields.text(budget.limit.notion.name());
        fields.optional(budget.promise.map(|promise| promise.nano));
        fields.optional(budget.promise.map(|promise| promise.atto_delta));
        fields.optional(budget.coupon);
        for amount in [budget.limit, *floor] {
            fields.integer(amount.nano);
            fields.integer(amount.atto_delta);
        }
        for amount in [default, default_rho, default_delta, min, max, max_delta] {
            fields.optional(amount);
        }
        fields.integer(declared_bounds.into());
        fields.optional(min_units);
        fields.optional(min_units_beta);
        fields.text(budget.replay.word());
        slices::into_digest(&mut fields, slices);
        cell::into_digest(&mut fields, partition.as_ref());
    }
    fields.digest()
}

/// Seals the present budgets.
pub(crate) fn reseal_budgets(connection: &Connection) -> Result<(), CatalogError> {
    set_seal(connection, SealedRows::Budgets, budgets_digest(&account_rows(connection)?))
}
