//! Shows the catalog, the budgets and the ledger to everyone. Nothing here depends on private rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};

use super::accounts;
use super::shown_grants;
use super::shown_requests::shown_requests;
use super::shown_rules;
use super::summary::summary;
use super::text_columns::table;
use crate::answer::Answer;
use crate::catalog::cell::Partition;
use crate::catalog::describe::{domain_text, privacy_text};
use crate::catalog::{Catalog, CatalogError, Column, Table, Unit, View, quoted};
use crate::dialect::Show;
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::entry_numbers::is_apart;
use crate::instance::table_names::known;
use crate::ledger::{Declared, Inventory, OWNER, Vault, is_of_another, own_requests};
use crate::owner::declaration_script::{budget_statement, partition_statement, table_statements};
use crate::owner::privacy_statement::statement;
use crate::owner::suggest::suggestions;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type_of;
use crate::views;

/// Answers a SHOW or DESCRIBE of an owner's or an analyst's session.
pub(crate) fn show(inner: &Inner, show: &Show, reader: &str) -> Result<Answer, Error> {
    let (vault, to_owner) = (&inner.vault, reader == OWNER);
    let catalog = inner.catalog_of(reader)?;
    match show {
        Show::Tables => {
            let tables = catalog.tables().map(|t| (t.name.clone(), with_floor(&catalog, t)));
            let views = catalog.views();
            let views = views.map(|v| (v.name.clone(), views::summary(inner, &catalog, v)));
            let mut all: BTreeMap<String, String> = tables.chain(views).collect();
            all.extend(inner.release_table_texts(reader)?);
            table(&[
                ("table", all.keys().cloned().collect()),
                ("privacy", all.values().cloned().collect()),
            ])
        }
        Show::Describe(name) => match catalog.view(name) {
            Some(view) => describe_view(inner, &catalog, view),
            None => {
                let accuracy = inner.release_table_accuracy(name, reader)?;
                describe(&catalog, known(&catalog, name)?, accuracy)
            }
        },
        Show::Summarize(name) => summary(inner, &catalog, name),
        Show::ReleaseTable(name) => inner.show_release_table(name, reader),
        Show::Synthetic(name) => inner.show_synthetic(name, reader),
        Show::CreateReleaseTable(name) => {
            table(&[("statement", vec![inner.release_table_statement(name, reader)?])])
        }
        Show::Templates => Err(Error::Internal),
        Show::Roles
        | Show::CreateTemplate(_)
        | Show::View(_)
        | Show::CreateTable(_)
        | Show::CreateBudget(_)
        | Show::Suggest(_)
            if !to_owner =>
        {
            Err(for_owners(show).into())
        }
        Show::View(name) => match catalog.view(name) {
            Some(view) => table(&[("statement", vec![views::statement(view)])]),
            None if catalog.table(name).is_some() => {
                Err(CatalogError::IsTable { table: name.clone() }.into())
            }
            None => Err(CatalogError::UnknownView { view: name.clone() }.into()),
        },
        Show::CreateTemplate(name) => match catalog.template(name) {
            Some(template) => table(&[("statement", vec![template.statement()])]),
            None => Err(CatalogError::UnknownTemplate { template: name.clone() }.into()),
        },
        Show::CreateTable(name) if inner.release_table_accuracy(name, reader)?.is_some() => {
            table(&[("statement", vec![inner.release_table_statement(name, reader)?])])
        }
        Show::CreateTable(name) => {
            let statements = table_statements(known(&catalog, name)?, &[]);
            table(&[("statement", statements)])
        }
        Show::CreateBudget(name) => {
            let Inventory { catalog, budgets, .. } = vault.inventory()?;
            let found = budgets.iter().find(|(state, _)| state.budget.name == *name);
            let unknown = || CatalogError::UnknownBudget { budget: name.clone() };
            let (state, spent) = found.ok_or_else(unknown)?;
            let created = budget_statement(&state.budget, catalog.slices(name), spent);
            let partition = partition_statement(&catalog, name).and_then(Result::ok);
            table(&[("statement", std::iter::once(created).chain(partition).collect())])
        }
        Show::Suggest(name) => {
            table(&[("statement", suggestions(&catalog, known(&catalog, name)?))])
        }
        Show::Roles => roles(vault, &catalog),
        Show::Grants(of) => shown_grants::grants(inner, of.as_deref(), reader),
        Show::Rules => shown_rules::rules(&catalog, reader),
        Show::Privacy => privacy(vault, &catalog, reader),
        Show::History => history(vault, &catalog, reader),
        Show::Requests => shown_requests(inner, &catalog, reader),
        Show::Statement(name) => {
            let told = statement(inner, name, reader)?.sentences;
            let column = |text: &dyn Fn(&(&str, String)) -> String| told.iter().map(text).collect();
            table(&[
                ("about", column(&|(heading, _)| (*heading).to_owned())),
                ("statement", column(&|(_, sentence)| sentence.clone())),
            ])
        }
        Show::Budget(name) => accounts::budgets(vault, name.as_deref(), reader),
        Show::Spending { budget, by } => {
            let readers = (reader, is_apart(&catalog, reader));
            accounts::spending(vault, budget.as_deref(), *by, readers)
        }
    }
}

/// The refusal of a statement that shows an owner's declarations.
fn for_owners(show: &Show) -> Refusal {
    let (what, why, instead) = match show {
        Show::CreateTable(name) => (
            "SHOW CREATE TABLE",
            "only owners see where the rows of a table are",
            format!("DESCRIBE {}, or SHOW PRIVACY", quoted(name)),
        ),
        Show::CreateBudget(name) => (
            "SHOW CREATE BUDGET",
            "only owners see the declarations of budgets",
            format!("SHOW PRIVACY BUDGET {}", quoted(name)),
        ),
        Show::CreateTemplate(_) => (
            "SHOW CREATE TEMPLATE",
            "only owners see the text of a template",
            "SHOW TEMPLATES".to_owned(),
        ),
        Show::Roles => {
            ("SHOW ROLES", "only owners see who may log in", "SHOW PRIVACY BUDGET".to_owned())
        }
        Show::Suggest(name) => (
            "SUGGEST PRIVACY",
            "only owners declare",
            format!("DESCRIBE {}, or SHOW PRIVACY", quoted(name)),
        ),
        Show::View(name) => (
            "SHOW CREATE VIEW",
            "only owners see the text of a view",
            format!("DESCRIBE {}, or EXPLAIN PRIVACY of a query that reads it", quoted(name)),
        ),
        Show::Tables
        | Show::Templates
        | Show::Grants(_)
        | Show::Rules
        | Show::Privacy
        | Show::Budget(_)
        | Show::Spending { .. }
        | Show::History
        | Show::Statement(_)
        | Show::Requests
        | Show::ReleaseTable(_)
        | Show::Synthetic(_)
        | Show::CreateReleaseTable(_)
        | Show::Summarize(_)
        | Show::Describe(_) => (
            "SHOW CREATE VIEW",
            "only owners see the text of a view",
            "EXPLAIN PRIVACY of a query that reads it".to_owned(),
        ),
    };
    Refusal::new(Reason::Statement, what, why, instead)
}

/// One text column.
pub(crate) fn lines<'a>(name: &str, lines: impl Iterator<Item = &'a str>) -> Result<Answer, Error> {
    table(&[(name, lines.map(ToOwned::to_owned).collect())])
}

/// The columns of a table; those of a release table with their accuracies.
fn describe(
    catalog: &Catalog,
    described: &Table,
    accuracy: Option<Vec<String>>,
) -> Result<Answer, Error> {
    let columns = &described.columns;
    // Months are the unit's own cells, whether or not there is a budget.
    let cells = catalog.cells_of(&described.name).filter(|cells| !cells.are_months);
    let cells = cells.map(|cells| cells.column);
    let role = |column: &Column| match cells {
        Some(cells) if cells == column.name => "cells".to_owned(),
        Some(_) | None => role(described, column),
    };
    let roles = || columns.iter().map(role).collect();
    table(&[
        ("column", columns.iter().map(|c| c.name.clone()).collect()),
        ("type", columns.iter().map(column_type).collect()),
        ("domain", columns.iter().map(column_domain).collect()),
        ("role", accuracy.unwrap_or_else(roles)),
    ])
}

/// The type of a column, and whether its moments are converted to UTC because its files name a
/// zone.
fn column_type(column: &Column) -> String {
    let in_utc = if column.zone.is_some() { " (read in UTC)" } else { "" };
    sql_type_of(&column.data_type) + in_utc
}

fn column_domain(column: &Column) -> String {
    column.domain.as_ref().map_or(String::new(), domain_text)
}

fn role(table: &Table, column: &Column) -> String {
    match table.unit() {
        Some(Unit::Month { date, .. }) if *date == column.name => "month of the unit".to_owned(),
        Some(Unit::Present { public, .. }) if public.contains(&column.name) => "public".to_owned(),
        Some(unit) if !unit.columns().contains(&column.name) => String::new(),
        Some(Unit::Present { .. }) => "privacy unit, presence public".to_owned(),
        Some(Unit::Month { date, .. }) => format!("privacy unit in one month of {date}"),
        Some(Unit::Column { .. }) => "privacy unit".to_owned(),
        Some(Unit::Via(link)) => format!("leads to {}", link.table),
        Some(Unit::Row) | None => String::new(),
    }
}

/// A view's columns; a column that is an unchanged table column has the domain and role of that
/// column.
fn describe_view(inner: &Inner, catalog: &Catalog, view: &View) -> Result<Answer, Error> {
    let columns = views::describe(inner, catalog, view)?;
    let of = |text: fn(&Table, &Column) -> String| {
        let text = |of: Option<(&Table, &Column)>| of.map_or(String::new(), |(t, c)| text(t, c));
        columns.iter().map(|column| text(column.of)).collect::<Vec<_>>()
    };
    table(&[
        ("column", columns.iter().map(|c| c.name.clone()).collect()),
        ("type", columns.iter().map(|c| sql_type_of(&c.data_type)).collect()),
        ("domain", of(|_, column| column_domain(column))),
        ("role", of(role)),
    ])
}

/// The history of declarations that exist for the reader. Only owners see the queries of views and
/// templates.
fn history(vault: &Vault, catalog: &Catalog, reader: &str) -> Result<Answer, Error> {
    let mut declared = existing(vault.declarations()?, catalog, reader);
    let to_owner = reader == OWNER;
    // What others ask of the owner is theirs and the owner's to know.
    let own = own_requests(&declared, reader);
    declared.retain(|declared| to_owner || !is_of_another(declared, &own));
    // Only the owner may know who else may log in.
    declared.retain(|declared| to_owner || !declared.change.starts_with("role "));
    let change = |change: &str| match change.split_once(": ") {
        Some((view, query)) if view.starts_with("view ") && query != "dropped" && !to_owner => {
            format!("{view}: declared")
        }
        Some((template, text))
            if template.starts_with("template ") && text != "dropped" && !to_owner =>
        {
            format!("{template}: declared")
        }
        // The number of entries would reveal how much others asked.
        Some((partition, _)) if partition.starts_with("partition of ") && !to_owner => {
            change.split(", cells begin ").next().unwrap_or_default().to_owned()
        }
        _ => change.to_owned(),
    };
    let columns: [(&str, ArrayRef); 4] = [
        ("sequence", Arc::new(Int64Array::from_iter_values(declared.iter().map(|d| d.sequence)))),
        ("time", seconds(declared.iter().map(|d| Some(d.at)))),
        ("analyst", Arc::new(StringArray::from_iter_values(declared.iter().map(|d| &d.analyst)))),
        (
            "change",
            Arc::new(StringArray::from_iter_values(declared.iter().map(|d| change(&d.change)))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
    Ok(Answer::public(batch))
}

/// The changes of what exists in this part of the declarations, with numbers of their own; all
/// changes, if the reader sees the whole.
///
/// # Guarantee
/// The result does not depend on changes of what does not exist in this part: neither by rows nor
/// by gaps between their numbers. A table, a view or a budget shows no changes of an earlier one of
/// its name, no change names a table that does not exist in this part, and of slices only the
/// reader's own is there.
fn existing(declared: Vec<Declared>, catalog: &Catalog, reader: &str) -> Vec<Declared> {
    if !catalog.is_part() {
        return declared;
    }
    let mut shown: Vec<Declared> = Vec::new();
    for one in declared {
        let (object, text) = one.change.split_once(": ").unwrap_or((&one.change, ""));
        let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
        let is_dropped = text == "dropped";
        let budget_has = |name: &str, begins: &str| {
            let budget = catalog.budget(name);
            budget.is_some_and(|budget| text.starts_with(&begins.replace("{}", &budget.table)))
        };
        let exists = match kind {
            "table" => {
                catalog.table(name).is_some() && (is_dropped || names_only_known(text, catalog))
            }
            "column" => catalog.tables().any(|table| {
                let column = name.strip_prefix(&table.name).and_then(|n| n.strip_prefix('.'));
                column.is_some_and(|column| table.column(column).is_some())
            }),
            "rules" => name.strip_prefix("of ").is_some_and(|name| catalog.table(name).is_some()),
            "view" => catalog.view(name).is_some(),
            "template" => catalog.template(name).is_some(),
            "budget" if is_dropped => catalog.budget(name).is_some(),
            "budget" => budget_has(name, "for {}, limit "),
            "partition" => name.strip_prefix("of ").is_some_and(|name| {
                catalog.budget(name).is_some() && (is_dropped || partition_is_known(text, catalog))
            }),
            "slice" => name
                .rsplit_once(" of ")
                .is_some_and(|(of, name)| of == reader && catalog.budget(name).is_some()),
            _ => false,
        };
        match (exists, is_dropped, kind) {
            (true, true, "table" | "view" | "template" | "budget") => {
                shown.retain(|earlier| !is_about(&earlier.change, kind, name));
            }
            (true, ..) => shown.push(one),
            (false, ..) => {}
        }
    }
    for (number, one) in (1..).zip(&mut shown) {
        one.sequence = number;
    }
    shown
}

/// Whether a change is one of this object, or of what belongs to it.
fn is_about(change: &str, kind: &str, name: &str) -> bool {
    let object = change.split_once(": ").map_or(change, |(object, _)| object);
    match kind {
        "table" => {
            object == format!("table {name}")
                || object == format!("rules of {name}")
                || object.starts_with(&format!("column {name}."))
        }
        "budget" => {
            let slice = object.strip_prefix("slice ").and_then(|slice| slice.rsplit_once(" of "));
            object == format!("budget {name}")
                || object == format!("partition of {name}")
                || slice.is_some_and(|(_, budget)| budget == name)
        }
        _ => object == format!("{kind} {name}"),
    }
}

/// Whether the privacy of a table, in words, leads to no table that does not exist here.
fn names_only_known(text: &str, catalog: &Catalog) -> bool {
    let leads = text.starts_with("private, unit via (");
    !leads || catalog.tables().any(|table| text.contains(&format!(") references {}(", table.name)))
}

/// Whether the cells of a budget, in words, are by a column of a table that exists here.
fn partition_is_known(text: &str, catalog: &Catalog) -> bool {
    catalog.tables().any(|table| text.contains(&format!(" of {}, cells begin", table.name)))
}

/// The roles: who may log in, until when, and whose queries may leave their cost to the defaults of
/// budgets.
fn roles(vault: &Vault, catalog: &Catalog) -> Result<Answer, Error> {
    let roles = vault.roles()?;
    let takes_defaults = roles.iter().map(|role| Some(role.takes_defaults));
    let templates_only =
        roles.iter().map(|role| Some(catalog.grants().is_templates_only(&role.name)));
    let columns: [(&str, ArrayRef); 5] = [
        ("role", Arc::new(StringArray::from_iter_values(roles.iter().map(|role| &role.name)))),
        (
            "may_log_in",
            Arc::new(
                roles
                    .iter()
                    .map(|role| Some(role.may_log_in && role.has_password()))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("valid_until", seconds(roles.iter().map(|role| role.valid_until))),
        ("takes_defaults", Arc::new(takes_defaults.collect::<BooleanArray>())),
        ("templates_only", Arc::new(templates_only.collect::<BooleanArray>())),
    ];
    // If all times are NULL, only the fields can say that they may be NULL.
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    Ok(Answer::public(batch.map_err(|_| Error::Internal)?))
}

/// Moments in seconds since 1970 as timestamps in UTC.
fn seconds(moments: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(moments.collect::<TimestampSecondArray>().with_timezone("UTC"))
}

/// The owner of the rows of a table, and its floor of people, in words.
fn with_floor(catalog: &Catalog, table: &Table) -> String {
    let floor = catalog.table_floor(&table.name);
    let floor = floor.map_or_else(String::new, |floor| format!(", floor of people {floor}"));
    privacy_text(table) + &floor
}

fn privacy(vault: &Vault, catalog: &Catalog, reader: &str) -> Result<Answer, Error> {
    let states = vault.budgets_for(reader)?;
    let mut rows: Vec<(String, &str, String)> = Vec::new();
    for table in catalog.tables() {
        rows.push((table.name.clone(), "table", with_floor(catalog, table)));
        for column in &table.columns {
            if let Some(domain) = &column.domain {
                let name = format!("{}.{}", table.name, column.name);
                rows.push((name, "domain", domain_text(domain)));
            }
        }
        for state in states.iter().filter(|s| s.budget.table == table.name) {
            rows.push((state.budget.name.clone(), "budget", accounts::budget_text(state)));
            if let Some(Partition { table, column, .. }) = catalog.partition(&state.budget.name) {
                rows.push((state.budget.name.clone(), "cells", format!("by {column} of {table}")));
            }
        }
    }
    table(&[
        ("name", rows.iter().map(|r| r.0.clone()).collect()),
        ("kind", rows.iter().map(|r| r.1.to_owned()).collect()),
        ("declared", rows.iter().map(|r| r.2.clone()).collect()),
    ])
}

#[cfg(test)]
mod tests {
    use crate::{Engine, Output};

    #[tokio::test]
    async fn who_may_log_in_is_the_owners_to_know() {
        let engine = Engine::in_memory().unwrap();
        let create = "CREATE ROLE zora LOGIN PASSWORD 'correct horse battery'";
        engine.owner().execute(create).await.unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        for (session, sees) in [(&*owner, true), (&*lab, false)] {
            let Output::Answer(history) = session.execute("SHOW PRIVACY HISTORY").await.unwrap()
            else {
                panic!("no answer");
            };
            assert_eq!(history.to_string().contains("zora"), sees, "{history}");
        }
    }
}
