//! Carries out the owner's declarations of tables, units, domains and budgets, and stores them.
//!
//! In: a [`Declaration`] from an owner's session. Out: one sentence. The assumptions of the
//! analysis are checked against the column types, and every plan enforces them again. MAX ROWS and
//! UNIQUE are verified once on the file itself, so that the owner learns if a declaration would
//! drop rows.

use std::sync::PoisonError;

use crate::catalog::describe::per_query_text;
use crate::catalog::{
    Budget, Catalog, FileFormat, Fingerprint, Privacy, Replay, Source, Table, Unit,
};
use crate::dialect::{Accountant, Declaration, LimitClause, Taken, UnitClause};
use crate::error::Error;
use crate::exec::source as files;
use crate::exec::source::OpenFiles;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::owner::altered_table::{alter, has_grown};
use crate::owner::amounts::{Limit, accountant_of, amounts, limit_of, spent_of};
use crate::owner::conversions::file_format;
use crate::owner::declared_columns::column_of;
use crate::owner::promise::warnings;
use crate::owner::remarks::{read_in_utc, version_text};
use crate::owner::slices::left_text;
use crate::privacy::Spend;

mod about_people;
mod altered_table;
mod amounts;
mod budget_partition;
mod conversions;
pub(crate) mod declaration_script;
pub(crate) mod declared_columns;
mod declared_domains;
pub(crate) mod difference;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod exports;
pub(crate) mod grants;
mod months;
mod present_units;
mod privacy_floors;
pub(crate) mod privacy_statement;
mod promise;
pub(crate) mod registry_record;
mod reload;
mod remarks;
pub(crate) mod report_page;
pub(crate) mod roles;
mod row_checks;
mod rules_of_tables;
mod slices;
mod strict;
pub(crate) mod suggest;
pub(crate) mod template_declarations;
mod twins;
pub(crate) mod typed;
mod units;
mod view_declarations;

pub(crate) use twins::may_be_registered;

/// How often a declaration is prepared again if other declarations come in between.
const ATTEMPTS: usize = 8;

/// Carries out a declaration.
///
/// # Guarantee
/// A declaration is checked against the declarations at the time of the write. If another
/// declaration comes in between, it is checked again.
///
/// # Errors
/// The problem with the declaration; [`VaultError::Redeclared`] if other declarations come in
/// between every time.
pub(crate) async fn declare(inner: &Inner, declaration: &Declaration) -> Result<String, Error> {
    inner.forget_kept();
    for _ in 1..ATTEMPTS {
        match attempt(inner, declaration).await {
            Err(error) if error.is_redeclared() => {}
            done => return done,
        }
    }
    attempt(inner, declaration).await
}

async fn attempt(inner: &Inner, declaration: &Declaration) -> Result<String, Error> {
    match declaration {
        Declaration::CreateTable {
            name,
            columns,
            format,
            partitioned_by,
            location,
            options,
            taken,
        } => {
            let catalog = inner.vault.catalog()?;
            let known = catalog.table(name);
            if known.is_some() && *taken == Taken::Keep {
                return Ok(format!("there is a table {name} already; it stays as it is"));
            }
            let table = match format.as_str() {
                "POSTGRES" | "POSTGRESQL" => {
                    let written =
                        files::Served { name, columns, partitioned_by, location, options };
                    files::served(&written).await?
                }
                stored_as => {
                    let is_delta = stored_as == "DELTA";
                    let format =
                        if is_delta { FileFormat::Parquet } else { file_format(stored_as)? };
                    let written = files::WrittenTable {
                        name,
                        columns,
                        format,
                        partitioned_by,
                        location,
                        options,
                    };
                    match is_delta {
                        true => files::declared_version(&written)?,
                        false => files::declared(&written)?,
                    }
                }
            };
            exports::not_in_one(&catalog, &table.source)?;
            strict::check_new(&table, &inner.open_files())?;
            let shown = table.columns.len();
            let proposed =
                files::proposed_options(&table, &inner.open_files(), !columns.is_empty())
                    + &files::floats_notice(&table, &inner.open_files());
            let of_version = version_text(&table);
            let twin =
                of_version + &read_in_utc(&table) + &proposed + &twins::notice(&catalog, &table);
            let until = "it is undeclared until SET PRIVACY UNIT or SET PUBLIC";
            if known.is_some() && *taken == Taken::Replace {
                units::nothing_leads_through(&catalog, name)?;
                inner.vault.replace_table(&catalog, &table)?;
                let carried = carried(inner, &catalog, name)?;
                return Ok(format!(
                    "table {name} is replaced and has {shown} columns; its budgets and its charges remain, and {until}{twin}{carried}"
                ));
            }
            inner.vault.create_table(&table)?;
            Ok(format!("table {name} has {shown} columns; {until}{twin}"))
        }
        Declaration::SetUnit { table, unit, other_people } => {
            let (done, told) = verify_unit(inner, table, unit, other_people).await?;
            Ok(done + &told)
        }
        Declaration::Reload { table } => reload_table(inner, table).await,
        Declaration::SetPublic { table } => {
            let catalog = inner.vault.catalog()?;
            let open = inner.open_files();
            let entry = known(&catalog, table)?;
            let pinned = units::pinned_over_lines(&open, entry)?;
            let mut read = entry.clone();
            pin(&mut read, pinned.clone());
            let unread = strict::unread(&read, &open, true)?;
            files::refuse_fractions(&public(&read), &open, &[], false)?;
            files::refuse_other_keys(&read, &open)?;
            let done = set_public(inner, &catalog, table, pinned)?;
            Ok(done + &unread.text(table))
        }
        Declaration::SetStrict { table, strict } => strict::set(inner, table, *strict),
        Declaration::Refresh { table } => refresh(inner, table).await,
        other => in_memory(inner, other),
    }
}

/// Verifies a unit on its table's present files, and writes it. Returns what was done and misread.
async fn verify_unit(
    inner: &Inner,
    table: &str,
    clause: &UnitClause,
    other_people: &[String],
) -> Result<(String, String), Error> {
    let catalog = inner.vault.catalog()?;
    let entry = known(&catalog, table)?;
    let retyped = units::retyped(&catalog, entry, clause)?;
    let (entry, told) = match &retyped {
        Some((retyped, told)) => (retyped, told.as_str()),
        None => (entry, ""),
    };
    let unit = units::checked(&catalog, entry, clause)?;
    let open = inner.open_files();
    open.fits_its_declaration(entry)?;
    let read = units::read_as(&open, &catalog, entry, &unit)?;
    let entry = &read;
    let unnamed = units::verified(inner, &open, &catalog, entry, &unit).await?;
    // If the rows were read, the owner learns which lines are not rows, and if a column is
    // read in another type, how many values have no such one.
    let reads_rows = unit.max_rows().is_some() || retyped.is_some();
    let unread = strict::unread(entry, &open, reads_rows)?;
    unread.refuse_unreadable(table, &unit)?;
    units::refuse_fractions(&open, &catalog, entry, &unit)?;
    files::refuse_other_keys(entry, &open)?;
    let done = set_unit(inner, &open, &catalog, entry, unit, other_people)?;
    Ok((done, format!("{told}{unnamed}{}", unread.text(table))))
}

/// Verifies a table on its present files, keeps its declarations, and says what ended.
///
/// # Guarantee
/// It verifies at least what REFRESH does: a private table of files is verified and held as by SET
/// PRIVACY UNIT with the unit that it has, also where it has several files, and everything else as
/// by REFRESH. If it fails, the declaration stays as it was.
async fn reload_table(inner: &Inner, table: &str) -> Result<String, Error> {
    let before = inner.vault.catalog()?;
    let entry = known(&before, table)?;
    let reads_unit = matches!(entry.source, Source::File { .. });
    let unit = entry.unit().filter(|_| reads_unit && entry.source.version().is_none());
    let unread = match unit {
        Some(unit) => {
            let others = reload::other_people(inner, &before, entry);
            let clause = reload::clause(unit);
            let (_, unread) = verify_unit(inner, table, &clause, &others).await?;
            inner.vault.refresh(table)?;
            unread
        }
        None => refresh_rows(inner, table).await?,
    };
    let after = inner.vault.catalog()?;
    Ok(reload::told(&before, &after, table) + &unread)
}

/// Carries out declarations that read no file.
pub(crate) fn in_memory(inner: &Inner, declaration: &Declaration) -> Result<String, Error> {
    let catalog = &*inner.vault.catalog()?;
    match declaration {
        Declaration::CreateTable { .. }
        | Declaration::SetStrict { .. }
        | Declaration::Refresh { .. }
        | Declaration::Reload { .. } => Err(Error::Internal),
        Declaration::DropTable { name, if_exists } => {
            if *if_exists && catalog.table(name).is_none() && catalog.view(name).is_none() {
                return Ok(format!("there is no table {name}"));
            }
            units::nothing_leads_through(catalog, name)?;
            known(catalog, name)?;
            let (ended, told) = template_declarations::ended_with(inner, catalog, name);
            inner.vault.drop_table_with(name, &ended)?;
            Ok(format!("table {name} is dropped; its charges remain{told}"))
        }
        Declaration::CreateView { name, columns, query, taken } => {
            view_declarations::create(inner, name, columns, query, *taken)
        }
        Declaration::DropView { name, if_exists } => {
            view_declarations::drop(inner, name, *if_exists)
        }
        Declaration::CreateTemplate { template, taken } => {
            template_declarations::create(inner, template, *taken)
        }
        Declaration::DropTemplate { name, if_exists } => {
            template_declarations::drop(inner, name, *if_exists)
        }
        Declaration::SetUnit { table, unit, other_people } => {
            let unit = units::checked(catalog, known(catalog, table)?, unit)?;
            let open = inner.open_files();
            set_unit(inner, &open, catalog, known(catalog, table)?, unit, other_people)
        }
        Declaration::SetPublic { table } => set_public(inner, catalog, table, None),
        Declaration::SetPublicColumn { table, column } => {
            present_units::set_public(inner, catalog, table, column)
        }
        Declaration::SetAbout { table, people } => {
            about_people::set(inner, catalog, table, *people)
        }
        Declaration::SetFloor { table, floor } => {
            privacy_floors::set(inner, catalog, table, floor.as_ref())
        }
        Declaration::SetRules { table, role, rules } => {
            rules_of_tables::set(inner, catalog, table, role.as_deref(), rules.as_deref())
        }
        Declaration::DropUnit { table } => {
            units::nothing_leads_through(catalog, table)?;
            alter(inner, catalog, table, |entry| without_unit(entry, Privacy::Undeclared))?;
            let carried = carried(inner, catalog, table)?;
            Ok(format!("table {table} is undeclared: every query on it is refused{carried}"))
        }
        Declaration::SetDomain { table, column, domain } => {
            declared_domains::set_domain(inner, catalog, table, column, domain)
        }
        Declaration::DropDomain { table, column } => {
            column_of(known(catalog, table)?, column)?;
            alter(inner, catalog, table, |entry| {
                if let Some(column) = entry.column_mut(column) {
                    column.domain = None;
                }
            })?;
            Ok(format!("column {table}.{column} has no domain"))
        }
        Declaration::SetSpent { table, by, spent, together, unit } => {
            let (spent, by_whom) = (spent_of(spent)?, by.as_deref());
            let vault = &inner.vault;
            let spent = vault.set_spent_of(table, by_whom, spent, together, unit.as_ref())?;
            let people: Vec<&str> =
                std::iter::once(table).chain(together).map(String::as_str).collect();
            let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
            Ok(format!("spent on the people of {}{by}: {spent}", people.join(", ")))
        }
        Declaration::CreateBudget {
            name,
            table,
            limit,
            per_query,
            replay,
            spent,
            slices,
            taken,
        } => {
            if *taken == Taken::Keep && catalog.budget(name).is_some() {
                return slices::keep_budget(
                    inner,
                    catalog,
                    (name, table),
                    spent.as_deref(),
                    slices,
                );
            }
            let Limit { limit, promise, coupon } = limit_of(limit, &limit.accountant)?;
            let per_query = amounts(per_query, limit.notion)?;
            inner.resources.check_least(per_query.least(limit.notion))?;
            let table_of = table.clone();
            let (name_of, replay) = (name.clone(), *replay);
            let budget = Budget {
                name: name_of,
                table: table_of,
                limit,
                promise,
                coupon,
                per_query,
                replay,
            };
            let spent = spent.as_deref().map(spent_of).transpose()?;
            let slices = slices::declared(slices)?;
            let replace = *taken == Taken::Replace;
            let state = inner.vault.put_budget(&budget, spent, &slices, replace)?;
            let warned = warnings(catalog, &state.budget);
            Ok(format!("budget {name} for {table}: {}{warned}", left_text(state.left)))
        }
        Declaration::CreatePartitioned { create, column } => {
            let Declaration::CreateBudget { name, table, taken, .. } = create.as_ref() else {
                return Err(Error::Internal);
            };
            if *taken == Taken::Keep && catalog.budget(name).is_some() {
                return in_memory(inner, create);
            }
            budget_partition::checked(catalog, name, table, column)?;
            let created = in_memory(inner, create)?;
            Ok(format!("{created}; {}", budget_partition::partition(inner, name, column)?))
        }
        Declaration::PartitionBudget { name, column } => match column {
            Some(column) => budget_partition::partition(inner, name, column),
            None => budget_partition::drop(inner, name),
        },
        Declaration::AlterSlice { budget, analyst, change } => {
            slices::alter(inner, budget, analyst, change)
        }
        Declaration::AlterPerQuery { name, per_query } => {
            let Budget { limit, .. } = inner.vault.budget(name)?.budget;
            let per_query = amounts(per_query, limit.notion)?;
            inner.resources.check_least(per_query.least(limit.notion))?;
            inner.vault.set_per_query(name, per_query)?;
            let after = inner.vault.budget(name)?.budget;
            Ok(format!("budget {name}: per query {}", per_query_text(&after)))
        }
        Declaration::SetReplay { name, replay } => {
            inner.vault.set_replay(name, *replay)?;
            Ok(match replay {
                Replay::All => format!(
                    "budget {name}: a release that was paid for is replayed to everyone who asks for it again, at no cost, even one from before this statement"
                ),
                Replay::Own => format!(
                    "budget {name}: a release that was paid for is replayed to those who paid for it, at no cost"
                ),
                Replay::Off => format!("budget {name}: each release is drawn and paid for"),
            })
        }
        Declaration::AlterBudget { name, limit } => {
            // The accountant was fixed when the budget was created. The vault checks that again in
            // its transaction.
            let accountant = accountant_of(&inner.vault.budget(name)?.budget)?;
            let Limit { limit, promise, .. } = limit_of(limit, &accountant)?;
            inner.vault.set_budget_limit(name, limit, promise)?;
            let state = inner.vault.budget(name)?;
            let warned = warnings(catalog, &state.budget);
            Ok(format!("budget {name}: {}{warned}", left_text(state.left)))
        }
        Declaration::SetExport { analyst, folder } => {
            exports::set(inner, analyst, folder.as_deref())
        }
        Declaration::CreateRole { name, options, if_not_exists } => {
            roles::create(inner, name, options, *if_not_exists)
        }
        Declaration::AlterRole { name, options } => roles::alter(inner, name, options),
        Declaration::DropRole { name, if_exists } => roles::drop(inner, name, *if_exists),
        Declaration::Grant(clause) => grants::change(inner, clause),
        Declaration::SetGrants { are_required } => grants::require(inner, *are_required),
        Declaration::DropBudget { name, if_exists } => {
            if *if_exists && catalog.budget(name).is_none() {
                return Ok(format!("there is no budget {name}"));
            }
            inner.vault.drop_budget(name)?;
            Ok(format!("budget {name} is dropped; its charges remain"))
        }
    }
}

/// Writes a unit after checking it and verifying it on the file.
fn set_unit(
    inner: &Inner,
    open: &OpenFiles,
    catalog: &Catalog,
    entry: &Table,
    unit: Unit,
    other_people: &[String],
) -> Result<String, Error> {
    for other in other_people {
        known(catalog, other)?;
    }
    // Hold the lock until the unit is written, so that the compared tables stay registered.
    let providers = inner.registered.read().unwrap_or_else(PoisonError::into_inner);
    twins::may_be_private(&providers, catalog, entry, &unit, other_people)?;
    let table = &entry.name;
    let shown = match &unit {
        Unit::Row => "its unit is the row".to_owned(),
        Unit::Column { column, .. } => format!("its unit is {column}"),
        Unit::Month { person, date, .. } => format!("its unit is {person} in one month of {date}"),
        Unit::Present { column, public } => present_units::shown(column, public),
        Unit::Via(link) => {
            let unit_domain = catalog.unit_domain(&link.table).unwrap_or(&link.table);
            format!("its unit is that of {unit_domain}, reached through {}", link.table)
        }
    };
    keep_unit(inner, open, catalog, entry, unit)?;
    let carried = carried(inner, catalog, table)?;
    Ok(format!("table {table} is private; {shown}{carried}"))
}

/// Writes a unit, with the fingerprints of the files on which it was declared.
fn keep_unit(
    inner: &Inner,
    open: &OpenFiles,
    catalog: &Catalog,
    entry: &Table,
    unit: Unit,
) -> Result<(), Error> {
    let found = units::fingerprint(open, catalog, entry, &unit)?;
    let of_target = units::fingerprint_of_target(open, catalog, &unit)?;
    let mut table = Table { privacy: Privacy::Private(unit), ..entry.clone() };
    if let Source::File { fingerprint, .. } = &mut table.source {
        *fingerprint = found.map(|found| units::read_alike(found, fingerprint.as_ref()));
    }
    let has_grown = has_grown(open, catalog, &table)?;
    let grown = has_grown.then_some(entry.name.as_str());
    let mut changed = vec![table];
    if let Some((target, fingerprint)) = of_target {
        let mut target = known(catalog, &target)?.clone();
        pin(&mut target, Some(fingerprint));
        changed.push(target);
    }
    Ok(inner.vault.alter_grown(catalog, &changed, grown)?)
}

/// Removes the unit of a table. Its file may change from then on.
fn without_unit(table: &mut Table, privacy: Privacy) {
    table.privacy = privacy;
    pin(table, None);
}

/// Holds the bytes of a table's files, or lets them change. Those of a version of a log never do.
fn pin(table: &mut Table, pinned: Option<Fingerprint>) {
    if table.source.version().is_some() {
        return;
    }
    if let Source::File { fingerprint, .. } = &mut table.source {
        *fingerprint = pinned;
    }
}

/// Makes a table public. Its file may change, unless it is pinned for records over several lines.
fn set_public(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    pinned: Option<Fingerprint>,
) -> Result<String, Error> {
    units::nothing_leads_through(catalog, table)?;
    let providers = inner.registered.read().unwrap_or_else(PoisonError::into_inner);
    twins::may_be_public(&providers, catalog, known(catalog, table)?)?;
    alter(inner, catalog, table, |entry| {
        without_unit(entry, Privacy::Public);
        pin(entry, pinned);
    })?;
    Ok(format!("table {table} is public: answers may show its rows to anyone"))
}

fn public(table: &Table) -> Table {
    Table { privacy: Privacy::Public, ..table.clone() }
}

/// Takes the present rows of a table as the declared ones, and verifies the unit of a single file.
async fn refresh(inner: &Inner, table: &str) -> Result<String, Error> {
    let told = refresh_rows(inner, table).await?;
    Ok(format!(
        "table {table} is refreshed: releases of its earlier rows are no longer replayed; new releases are, until its next declaration{told}"
    ))
}

/// The same. Returns which version is read, and what is not read.
async fn refresh_rows(inner: &Inner, table: &str) -> Result<String, Error> {
    let catalog = inner.vault.catalog()?;
    let entry = known(&catalog, table)?;
    let open = inner.open_files();
    let newest = entry.source.version().map(|_| files::newest_version(entry)).transpose()?;
    let newest = newest.unwrap_or_else(|| entry.clone());
    reload::may_be_read_anew(inner, &catalog, &newest)?;
    let (mut unread, mut taken) = (files::Unread::default(), String::new());
    match (&entry.source, entry.unit()) {
        (source @ Source::File { .. }, unit) if source.version().is_some() => {
            if let Some(unit) = unit {
                units::verified(inner, &open, &catalog, &newest, unit).await?;
            }
            let reads_rows = unit.is_none_or(|unit| unit.max_rows().is_some());
            unread = strict::unread(&newest, &open, reads_rows)?;
            if let Some(unit) = unit {
                unread.refuse_unreadable(table, unit)?;
                units::refuse_fractions(&open, &catalog, &newest, unit)?;
            } else if newest.is_public() {
                files::refuse_fractions(&newest, &open, &[], false)?;
            }
            taken = version_text(&newest);
            inner.vault.alter_tables(&catalog, &[newest])?;
        }
        (Source::File { files: Some(_), .. }, _) => {
            open.check_as_owner(entry)?;
            unread = strict::unread(entry, &open, false)?;
            files::refuse_other_keys(entry, &open)?;
        }
        (Source::File { files: None, .. }, Some(unit)) => {
            open.fits_its_declaration(entry)?;
            let entry = &units::read_as(&open, &catalog, entry, unit)?;
            units::verified(inner, &open, &catalog, entry, unit).await?;
            unread = strict::unread(entry, &open, unit.max_rows().is_some())?;
            unread.refuse_unreadable(table, unit)?;
            units::refuse_fractions(&open, &catalog, entry, unit)?;
            keep_unit(inner, &open, &catalog, entry, unit.clone())?;
        }
        (Source::File { files: None, fingerprint, .. }, None) => {
            open.fits_its_declaration(entry)?;
            let pinned = match entry.is_public() {
                true => units::pinned_over_lines(&open, entry)?,
                false => None,
            };
            let mut read = entry.clone();
            pin(&mut read, pinned.clone());
            if entry.is_public() {
                files::refuse_fractions(&read, &open, &[], false)?;
            }
            let is_pinned = pinned.is_some() || fingerprint.is_some();
            unread = strict::unread(&read, &open, entry.is_public() && is_pinned)?;
            if entry.is_public() && is_pinned {
                alter(inner, &catalog, table, |entry| pin(entry, pinned))?;
            }
        }
        (Source::Postgres { .. } | Source::Registered | Source::Released { .. }, _) => {}
    }
    inner.vault.refresh(table)?;
    Ok(format!("{taken}{}", unread.text(table)))
}

/// The remark for the owner if a declaration joins the charges of tables.
fn carried(inner: &Inner, before: &Catalog, table: &str) -> Result<String, Error> {
    let after = inner.vault.catalog()?;
    let people = |catalog: &Catalog| catalog.people(catalog.unit_domain(table).unwrap_or(table));
    let counted: Vec<String> = people(&after).into_iter().collect();
    let is_new = counted.len() > 1 && people(before) != people(&after);
    Ok(match is_new {
        true => format!("; charges for {} count together from now on", counted.join(", ")),
        false => String::new(),
    })
}

/// The amount that a clause writes, in whole units of the ledger.
pub(crate) fn requested_amount(add: &LimitClause) -> Result<Spend, Error> {
    Ok(limit_of(add, &Accountant::Sums)?.limit)
}

/// What the owner is told about the limit of a budget.
pub(crate) fn limit_warnings(inner: &Inner, budget: &Budget) -> Result<String, Error> {
    Ok(warnings(&*inner.vault.catalog()?, budget))
}
