//! The catalog inside a vault: tables and views as JSON, budgets as columns of whole numbers.
//!
//! An open SQLite connection and a declaration go in, rows come out; the caller holds the
//! transaction. Every write of declared rows also writes their *seal*, a digest over all of them,
//! and every read checks it. If a failing disk alters, drops or revives a row, the next read
//! notices and fails. Anyone who can write the file can write the seal, too.
//!
//! A budget stores the spent amount beside the declared one, both in the one notion in which it
//! counts: its *loss* is an ε, a ρ or a number of coupons. Only the ledger increases the spent
//! amount. Two constraints of the table hold even if this program has a defect: the spent amount
//! never falls, and never rises beyond the limit.
//!
//! ```text
//! declared_table(name, body): tables, views, templates, and export folders under names that no table can have
//!                                            seal('tables')   = SHA-256 of every name and body
//! joined_space(space, other)                 also in seal('tables')
//! table_version, refreshed_table              seal('versions'), see `numbers`
//! role_grant, grants_required, templates_only  seal('grants'), see `grants`
//! budget(name, limit_…, …, spent_…)          seal('budgets')  = SHA-256 of every declared column, the slices and the partitions
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::grants::{self, Granted};
use super::numbers::{self, numbers};
use super::{Catalog, CatalogError, CatalogVersion, ExportFolder, Table, Template, View};
use crate::catalog::about_people::AboutPeople;
use crate::catalog::month_units::{MonthUnit, MonthsOfTable};
use crate::catalog::privacy_floor::{PrivacyFloor, TableFloor};
use crate::catalog::public_presence::PresenceOfTable;
use crate::catalog::table_rules::{RulesOfTable, TableRules};
use crate::catalog::version::Joined;

pub(crate) use super::accounts::{Account, accounts, insert_budget, reseal_budgets, set_spent};
pub(crate) use super::digest::Fields;
pub(crate) use super::seal::{SealedRows, check_seal, seal, set_seal};

/// The tables of the catalog and of the seals.
///
/// `floor_…` is the spent amount when the limit was last set. If a limit is set below that amount,
/// the floor keeps the constraint true and still forbids any further spending. `joined_space` holds
/// the pairs of unit domains whose charges count for each other's people; see
/// [`super::unit_domains`].
pub(crate) const SCHEMA: &str = "
CREATE TABLE seal (
    kind TEXT PRIMARY KEY NOT NULL CHECK (kind IN ('tables', 'budgets', 'analysts', 'ledger', 'history', 'home', 'answers', 'roles', 'versions', 'grants')),
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT, WITHOUT ROWID;

CREATE TABLE declared_table (
    name TEXT PRIMARY KEY NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE joined_space (
    space TEXT NOT NULL,
    other TEXT NOT NULL,
    PRIMARY KEY (space, other),
    CONSTRAINT in_order CHECK (space < other)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER spaces_stay_joined BEFORE DELETE ON joined_space
BEGIN SELECT RAISE(ABORT, 'what was joined is never parted'); END;

CREATE TRIGGER joined_spaces_stay_as_they_are BEFORE UPDATE ON joined_space
BEGIN SELECT RAISE(ABORT, 'what was joined is never parted'); END;

CREATE TABLE budget (
    name TEXT PRIMARY KEY NOT NULL,
    table_name TEXT NOT NULL REFERENCES declared_table (name),
    notion TEXT NOT NULL CHECK (notion IN ('epsilon', 'rho', 'coupons')),
    promised_epsilon INTEGER CHECK (promised_epsilon > 0),
    promised_delta INTEGER CHECK (promised_delta > 0),
    coupon_epsilon INTEGER CHECK (coupon_epsilon > 0),
    limit_loss INTEGER NOT NULL CHECK (limit_loss > 0),
    limit_delta INTEGER NOT NULL CHECK (limit_delta >= 0),
    floor_loss INTEGER NOT NULL CHECK (floor_loss >= 0),
    floor_delta INTEGER NOT NULL CHECK (floor_delta >= 0),
    default_epsilon INTEGER CHECK (default_epsilon > 0),
    default_rho INTEGER CHECK (default_rho > 0),
    default_delta INTEGER CHECK (default_delta >= 0),
    min_loss INTEGER CHECK (min_loss > 0),
    max_loss INTEGER CHECK (max_loss > 0),
    max_delta INTEGER CHECK (max_delta >= 0),
    declared_bounds INTEGER NOT NULL CHECK (declared_bounds IN (0, 1)),
    min_units INTEGER CHECK (min_units >= 2),
    min_units_beta INTEGER CHECK (min_units_beta > 0),
    spent_loss INTEGER NOT NULL CHECK (spent_loss >= 0),
    spent_delta INTEGER NOT NULL CHECK (spent_delta >= 0),
    replay TEXT NOT NULL CHECK (replay IN ('ALL', 'OWN', 'OFF')),
    CONSTRAINT promise CHECK ((promised_epsilon IS NULL) = (promised_delta IS NULL)
        AND (promised_epsilon IS NULL OR notion IN ('rho', 'coupons'))),
    CONSTRAINT coupon CHECK ((coupon_epsilon IS NULL) = (notion <> 'coupons')
        AND (coupon_epsilon IS NULL OR promised_epsilon IS NOT NULL)),
    CONSTRAINT cap_loss CHECK (spent_loss <= max(limit_loss, floor_loss)),
    CONSTRAINT cap_delta CHECK (spent_delta <= max(limit_delta, floor_delta))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER budget_never_refunds BEFORE UPDATE ON budget
WHEN NEW.spent_loss < OLD.spent_loss OR NEW.spent_delta < OLD.spent_delta
BEGIN SELECT RAISE(ABORT, 'spent budget is never given back'); END;

CREATE TRIGGER budget_counts_as_it_did BEFORE UPDATE ON budget
WHEN NEW.notion IS NOT OLD.notion
    OR (NEW.promised_epsilon IS NULL) IS NOT (OLD.promised_epsilon IS NULL)
    OR NEW.coupon_epsilon IS NOT OLD.coupon_epsilon
BEGIN SELECT RAISE(ABORT, 'how a budget counts never changes'); END;
";

/// Seals a catalog without rows.
pub(crate) fn reseal(connection: &Connection) -> Result<(), CatalogError> {
    reseal_tables(connection)?;
    numbers::reseal(connection)?;
    grants::reseal(connection)?;
    reseal_budgets(connection)
}

/// All declarations.
///
/// # Errors
/// [`CatalogError::Damaged`] when rows differ from their seals or contradict themselves.
pub(crate) fn load(connection: &Connection) -> Result<Catalog, CatalogError> {
    let rows = checked_table_rows(connection)?;
    let (mut tables, mut views, mut exports) = (Vec::new(), Vec::new(), Vec::new());
    let (mut about, mut templates) = (Vec::new(), Vec::new());
    let (mut floors, mut rules) = (Vec::new(), Vec::new());
    let (mut months, mut present) = (Vec::new(), Vec::new());
    for (name, body) in &rows {
        let (own, checked) = match read(body)? {
            DeclaredRow::Table(table) => {
                let read = (table.name.clone(), table.check());
                tables.push(*table);
                read
            }
            DeclaredRow::View(view) => {
                let read = (view.name.clone(), view.check());
                views.push(view);
                read
            }
            DeclaredRow::Template(template) => {
                let read = (template.name.clone(), template.check());
                templates.push(template);
                read
            }
            DeclaredRow::Export(export) => {
                let key = ExportFolder::key(&export.analyst);
                exports.push(export);
                (key, Ok(()))
            }
            DeclaredRow::About(row) => {
                let key = AboutPeople::key(&row.about_table);
                about.push(row);
                (key, Ok(()))
            }
            DeclaredRow::Floor(row) => {
                let read = (TableFloor::key(&row.floor_table), sound(row.floor.is_sound()));
                floors.push(row);
                read
            }
            DeclaredRow::Rules(row) => {
                let read = (RulesOfTable::key(&row.rules_table), sound(row.is_sound()));
                rules.push(row);
                read
            }
            DeclaredRow::Present(row) => {
                let key = PresenceOfTable::key(&row.present_table);
                present.push(row);
                (key, Ok(()))
            }
            DeclaredRow::Months(row) => {
                let read = (MonthsOfTable::key(&row.month_table), sound(row.is_sound()));
                months.push(row);
                read
            }
        };
        if own != *name || checked.is_err() {
            return Err(SealedRows::Tables.damage());
        }
    }
    let accounts = accounts(connection)?;
    let slices: Vec<_> =
        accounts.iter().map(|a| (a.budget.name.clone(), a.slices.clone())).collect();
    let partition = |a: &Account| Some((a.budget.name.clone(), a.partition.clone()?));
    let partitions: Vec<_> = accounts.iter().filter_map(partition).collect();
    let budgets = accounts.into_iter().map(|account| account.budget);
    let joined = Joined::from_pairs(joined_rows(connection)?);
    let catalog =
        Catalog::new(tables, budgets).with_views(views).with_exports(exports).with_about(about);
    let catalog = catalog.with_floors(floors).with_slices(slices).with_partitions(partitions);
    let catalog = catalog.with_templates(templates).with_rules(rules).with_months(months);
    let catalog = catalog.with_present(present);
    let catalog = catalog.with_grants(grants::load(connection)?);
    Ok(catalog.kept_as(version(connection)?, joined, numbers(connection)?))
}

/// Refuses a row that contradicts itself.
fn sound(is_sound: bool) -> Result<(), CatalogError> {
    if is_sound { Ok(()) } else { Err(SealedRows::Tables.damage()) }
}

/// The version of the present declarations.
pub(crate) fn version(connection: &Connection) -> Result<CatalogVersion, CatalogError> {
    Ok(CatalogVersion::sealed([
        seal(connection, SealedRows::Tables)?,
        seal(connection, SealedRows::Budgets)?,
        seal(connection, SealedRows::Versions)?,
        seal(connection, SealedRows::Grants)?,
    ]))
}

/// The declared table of this name.
pub(crate) fn table<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Table, CatalogError> {
    catalog.table(name).ok_or_else(|| no_table(catalog, name))
}

/// The error when no table has this name.
pub fn no_table(catalog: &Catalog, name: &str) -> CatalogError {
    match (catalog.view(name), catalog.template(name)) {
        (Some(_), _) => CatalogError::IsView { view: name.to_owned() },
        (None, Some(_)) => CatalogError::IsTemplate { template: name.to_owned() },
        (None, None) => CatalogError::UnknownTable { table: name.to_owned() },
    }
}

/// Stores a new table.
///
/// # Errors
/// [`CatalogError::DuplicateTable`] when a table has the name, [`CatalogError::IsView`] when a view
/// has it.
pub(crate) fn insert_table(connection: &Connection, table: &Table) -> Result<(), CatalogError> {
    table.check()?;
    match declared(connection, &table.name)? {
        None => {}
        Some(DeclaredRow::Table(_)) => {
            return Err(CatalogError::DuplicateTable { table: table.name.clone() });
        }
        Some(DeclaredRow::View(_)) => {
            return Err(CatalogError::IsView { view: table.name.clone() });
        }
        Some(DeclaredRow::Template(_)) => {
            return Err(CatalogError::IsTemplate { template: table.name.clone() });
        }
        Some(
            DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Rules(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        ) => {
            return Err(SealedRows::Tables.damage());
        }
    }
    connection.execute(
        "INSERT INTO declared_table (name, body) VALUES (?1, ?2)",
        params![table.name, body(table)?],
    )?;
    grants::forget(connection, &Granted::Table(table.name.clone()))?;
    reseal_tables(connection)
}

/// Replaces the declaration of an existing table.
///
/// # Errors
/// [`CatalogError::UnknownTable`] when it does not exist.
pub(crate) fn update_table(connection: &Connection, table: &Table) -> Result<(), CatalogError> {
    table.check()?;
    refuse_view(connection, &table.name)?;
    let changed = connection.execute(
        "UPDATE declared_table SET body = ?2 WHERE name = ?1",
        params![table.name, body(table)?],
    )?;
    if changed != 1 {
        return Err(CatalogError::UnknownTable { table: table.name.clone() });
    }
    reseal_tables(connection)
}

/// Stores the export folder of an analyst in place of the earlier one, or deletes it.
pub(crate) fn set_export(
    connection: &Connection,
    analyst: &str,
    folder: Option<&str>,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    let key = ExportFolder::key(analyst);
    match folder {
        Some(folder) => {
            let (analyst, export_folder) = (analyst.to_owned(), folder.to_owned());
            store_row(connection, &key, &ExportFolder { analyst, export_folder })?;
        }
        None => {
            connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
        }
    }
    reseal_tables(connection)
}

/// Stores the number of a table's people in place of the earlier one, or deletes it.
pub(crate) fn set_about(
    connection: &Connection,
    table: &str,
    people: Option<u64>,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    let key = AboutPeople::key(table);
    match people {
        Some(people) => {
            let about_table = table.to_owned();
            store_row(connection, &key, &AboutPeople { about_table, people })?;
        }
        None => {
            connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
        }
    }
    reseal_tables(connection)
}

/// Stores the floor of a table in place of the earlier one, or deletes it.
pub(crate) fn set_floor(
    connection: &Connection,
    table: &str,
    floor: Option<PrivacyFloor>,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    let key = TableFloor::key(table);
    match floor {
        Some(floor) => {
            let floor_table = table.to_owned();
            store_row(connection, &key, &TableFloor { floor_table, floor })?;
        }
        None => {
            connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
        }
    }
    reseal_tables(connection)
}

/// Stores the rules of a table for one audience in place of the earlier ones, or deletes them.
pub(crate) fn set_rules(
    connection: &Connection,
    table: &str,
    role: Option<&str>,
    rules: Option<TableRules>,
) -> Result<(), CatalogError> {
    let mut all = match declared(connection, &RulesOfTable::key(table))? {
        Some(DeclaredRow::Rules(row)) => row.rules,
        Some(
            DeclaredRow::Table(_)
            | DeclaredRow::View(_)
            | DeclaredRow::Template(_)
            | DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        ) => return Err(SealedRows::Tables.damage()),
        None => Vec::new(),
    };
    all.retain(|own| own.role.as_deref() != role);
    all.extend(rules);
    all.sort_by(|one, other| one.role.cmp(&other.role));
    let key = RulesOfTable::key(table);
    if all.is_empty() {
        connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
    } else {
        let row = RulesOfTable { rules_table: table.to_owned(), rules: all };
        store_row(connection, &key, &row)?;
    }
    reseal_tables(connection)
}

/// Stores that charges on a name count by months, or forgets it.
pub(crate) fn set_months(
    connection: &Connection,
    table: &str,
    months: Option<MonthUnit>,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    let key = MonthsOfTable::key(table);
    match months {
        Some(months) => {
            let row = MonthsOfTable { month_table: table.to_owned(), months };
            store_row(connection, &key, &row)?;
        }
        None => {
            connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
        }
    }
    reseal_tables(connection)
}

/// Deletes the declaration of a table that has no budgets.
///
/// # Errors
/// [`CatalogError::UnknownTable`] when it does not exist, [`CatalogError::HasBudgets`] while it has
/// budgets.
pub(crate) fn delete_table(connection: &Connection, name: &str) -> Result<(), CatalogError> {
    refuse_view(connection, name)?;
    let budgets: Vec<String> = accounts(connection)?
        .into_iter()
        .filter(|account| account.budget.table == name)
        .map(|account| account.budget.name)
        .collect();
    if !budgets.is_empty() {
        return Err(CatalogError::HasBudgets { table: name.to_owned(), budgets });
    }
    if connection.execute("DELETE FROM declared_table WHERE name = ?1", [name])? != 1 {
        return Err(CatalogError::UnknownTable { table: name.to_owned() });
    }
    grants::forget(connection, &Granted::Table(name.to_owned()))?;
    for key in [AboutPeople::key(name), TableFloor::key(name), RulesOfTable::key(name)] {
        connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
    }
    reseal_tables(connection)
}

fn body(declared: &impl Serialize) -> Result<String, CatalogError> {
    // A map with text keys and integers always serializes, but the type requires an error.
    serde_json::to_string(declared).map_err(|_| SealedRows::Tables.damage())
}

/// Stores a declaration under a name, in place of an earlier one. The caller seals the tables.
pub(super) fn store_row(
    connection: &Connection,
    name: &str,
    declared: &impl Serialize,
) -> Result<(), CatalogError> {
    connection.execute(
        "INSERT INTO declared_table (name, body) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET body = excluded.body",
        params![name, body(declared)?],
    )?;
    Ok(())
}

/// The declaration in a row of `declared_table`. Tables, views, templates and export folders have
/// different fields, and none accepts a field of another.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum DeclaredRow {
    Table(Box<Table>),
    View(View),
    Template(Template),
    Export(ExportFolder),
    About(AboutPeople),
    Floor(TableFloor),
    Rules(RulesOfTable),
    Months(MonthsOfTable),
    Present(PresenceOfTable),
}

fn read(body: &str) -> Result<DeclaredRow, CatalogError> {
    serde_json::from_str(body).map_err(|_| SealedRows::Tables.damage())
}

/// The declaration of this name.
pub(super) fn declared(
    connection: &Connection,
    name: &str,
) -> Result<Option<DeclaredRow>, CatalogError> {
    checked_table_rows(connection)?.get(name).map(|body| read(body)).transpose()
}

/// Refuses the name of a view or template. Otherwise its row would be changed or deleted as a
/// table.
fn refuse_view(connection: &Connection, name: &str) -> Result<(), CatalogError> {
    match declared(connection, name)? {
        Some(DeclaredRow::View(_)) => Err(CatalogError::IsView { view: name.to_owned() }),
        Some(DeclaredRow::Template(_)) => {
            Err(CatalogError::IsTemplate { template: name.to_owned() })
        }
        Some(
            DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Rules(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        ) => Err(CatalogError::UnknownTable { table: name.to_owned() }),
        Some(DeclaredRow::Table(_)) | None => Ok(()),
    }
}

fn table_rows(connection: &Connection) -> Result<BTreeMap<String, String>, CatalogError> {
    let mut statement =
        connection.prepare_cached("SELECT name, body FROM declared_table ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The stored tables, checked. Writers check them too, because a new seal must not cover damaged
/// rows.
pub(super) fn checked_table_rows(
    connection: &Connection,
) -> Result<BTreeMap<String, String>, CatalogError> {
    let rows = table_rows(connection)?;
    check_seal(connection, SealedRows::Tables, tables_digest(&joined_rows(connection)?, &rows))?;
    Ok(rows)
}

fn tables_digest(joined: &[(String, String)], rows: &BTreeMap<String, String>) -> [u8; 32] {
    let mut fields = Fields::new("hushql tables 1");
    // The number of pairs comes first, so that a pair cannot be taken for a table.
    fields.text(&joined.len().to_string());
    for (name, body) in joined.iter().map(|(one, other)| (one, other)).chain(rows) {
        fields.text(name);
        fields.text(body);
    }
    fields.digest()
}

pub(super) fn reseal_tables(connection: &Connection) -> Result<(), CatalogError> {
    let digest = tables_digest(&joined_rows(connection)?, &table_rows(connection)?);
    set_seal(connection, SealedRows::Tables, digest)
}

/// The pairs of unit domains that were ever joined, in order.
pub(crate) fn joined_rows(connection: &Connection) -> Result<Vec<(String, String)>, CatalogError> {
    let mut statement =
        connection.prepare_cached("SELECT space, other FROM joined_space ORDER BY space, other")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
