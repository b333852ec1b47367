//! The declarations of a vault, and what is spent, as a script that rebuilds them.
//!
//! In: one state of the vault. Out: statements in an order in which each can be run: what was
//! spent, which needs no table; tables after those that they lead to; budgets; views after those
//! that they read; roles; grants. Names may be hostile, so they are quoted in statements and
//! escaped in comments, which end with their line. The verifiers of passwords are written only on
//! request.
//!
//! # Guarantee
//! After the script has run in a vault, at least as much is spent there on the people of each name
//! as in this vault, and names whose charges count together do so there. If more is spent there
//! already, that remains.
//!
//! ```text
//! CREATE EXTERNAL TABLE visits (patient BIGINT, …) STORED AS CSV LOCATION '/data/visits.csv';
//! ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4;
//! CREATE PRIVACY BUDGET study FOR visits LIMIT (epsilon=5) SPENT (epsilon=1, rho=0.462117158);
//! ```

use std::collections::BTreeSet;
use std::sync::PoisonError;

use crate::catalog::{Catalog, Fingerprint, Source, Table, View, quoted, quoted_analyst};
use crate::dialect::view_query;
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{Inventory, Role, Spending};
use crate::owner::declaration_script::{
    budget_statement, partition_statement, spent_clause, table_statements,
};
use crate::owner::{grants, privacy_floors, roles, rules_of_tables, twins};
use crate::views::{named, statement};
use crate::visible;

/// The script, with or without the verifiers of roles' passwords. `invalid` has the templates that
/// later declarations have made invalid, which cannot be created anywhere. It reads the bytes of
/// files only to find tables with the same rows.
///
/// # Errors
/// [`Error::Ledger`] when the vault cannot be read.
pub(crate) fn dump(
    inner: &Inner,
    with_verifiers: bool,
    invalid: &BTreeSet<String>,
) -> Result<String, Error> {
    let Inventory { catalog, budgets, people, roles: roles_of } = inner.vault.inventory()?;
    let mut script = DumpScript::default();
    script.comment("The declarations of a vault of HushQL. Run them as the owner of a new vault:");
    script.comment("  hushql NEW.db --owner -f FILE");
    if with_verifiers && roles_of.iter().any(Role::has_password) {
        script.comment(
            "It has verifiers, from which the passwords of roles can be guessed: keep it as you keep the vault.",
        );
    }
    for (names, spent) in &people {
        for statement in spending_statements(&catalog, names, spent) {
            script.statement(&statement);
        }
    }
    tables(inner, &catalog, &mut script);
    for (state, spent) in &budgets {
        let slices = catalog.slices(&state.budget.name);
        let statement = budget_statement(&state.budget, slices, spent);
        match catalog.table(&state.budget.table).is_some_and(|table| table.unit().is_some()) {
            true => {
                script.statement(&statement);
                match partition_statement(&catalog, &state.budget.name) {
                    Some(Ok(partition)) => script.statement(&partition),
                    Some(Err(partition)) => {
                        script.comment(&format!("When its people have cells: {partition};"));
                    }
                    None => {}
                }
            }
            false => script.comment(&format!("When its table has a privacy unit: {statement};")),
        }
    }
    views(&catalog, &mut script);
    for template in catalog.templates() {
        match invalid.contains(&template.name) {
            false => script.statement(&template.statement()),
            true => script.comment(&format!(
                "The template {} cannot be created as it is, and neither can its grants: {};",
                template.name,
                template.statement()
            )),
        }
    }
    for table in inner.vault.release_tables()?.iter() {
        script.comment(&format!(
            "The release table {0} of {1} stays in this vault, and what it cost is among what is spent: COPY (SELECT * FROM {2}) TO 'file.csv' writes its rows.",
            table.name,
            table.creator,
            quoted(&table.name)
        ));
    }
    for role in &roles_of {
        let is_limited = catalog.grants().is_templates_only(&role.name);
        script.statement(&roles::statement(role, with_verifiers, is_limited));
    }
    for table in catalog.tables() {
        rules_of(&mut script, &catalog, table, true);
    }
    let is_valid = |name: &str| !invalid.contains(name);
    for statement in grants::statements(&catalog, is_valid) {
        script.statement(&statement);
    }
    if !with_verifiers && !roles_of.is_empty() {
        script.comment(
            "Roles have no passwords here. Before they log in: ALTER ROLE name PASSWORD 'a long one'; hushql dump --verifiers carries passwords over.",
        );
    }
    for export in catalog.exports() {
        script.statement(&format!(
            "ALTER VAULT SET EXPORT FOLDER '{}' FOR \"{}\"",
            export.export_folder.replace('\'', "''"),
            export.analyst
        ));
    }
    Ok(script.text)
}

/// The statements that declare what was spent on people, under these names.
pub(super) fn spending_statements(
    catalog: &Catalog,
    names: &BTreeSet<String>,
    spent: &Spending,
) -> Vec<String> {
    let mut statements = Vec::new();
    let mut others = names.iter();
    let Some(first) = others.next() else { return statements };
    // What was charged for months of people is so in the other vault, too.
    let months = catalog.month_names().find(|(name, ..)| *name == first.as_str());
    let months = months.map_or_else(String::new, |(_, person, date)| {
        format!(" UNIT ({}) PER MONTH OF ({})", quoted(person), quoted(date))
    });
    // And so is what was charged for what people say whose presence is public.
    let present = if catalog.counts_present(first) { " PRESENCE PUBLIC" } else { "" };
    let months = months + present;
    let others: Vec<String> = others.map(|name| quoted(name)).collect();
    // Each slice comes before the whole, so that the whole adds only what no slice spent.
    for (by, spent) in &spent.by {
        if let Some(spent) = spent_clause(*spent) {
            let (first, by) = (quoted(first), quoted_analyst(by));
            statements
                .push(format!("ALTER TABLE {first} SET PRIVACY SPENT {spent}{months} BY {by}"));
        }
    }
    // SPENT in a budget's own statement would come too late if that statement, or one that it
    // needs, cannot be run.
    let spent = match (spent_clause(spent.all), others.as_slice()) {
        (Some(spent), _) => spent,
        (None, []) => return statements,
        (None, _) => "(epsilon=0)".to_owned(),
    };
    let together = match others.as_slice() {
        [] => String::new(),
        _ => format!(" TOGETHER WITH {}", others.join(", ")),
    };
    let first = quoted(first);
    statements.push(format!("ALTER TABLE {first} SET PRIVACY SPENT {spent}{months}{together}"));
    statements
}

/// Writes tables after those that they lead to.
fn tables(inner: &Inner, catalog: &Catalog, script: &mut DumpScript) {
    for (table, others) in tables_in_order(inner, catalog) {
        if matches!(table.source, Source::Registered) {
            script.comment(&format!(
                "The table {} is registered by a program, which has to do so first.",
                table.name
            ));
        }
        for statement in table_statements(table, &others) {
            script.statement(&statement);
        }
        let is_domain = catalog.unit_domain(&table.name) == Some(table.name.as_str());
        if let Some(people) = catalog.about_people(&table.name).filter(|_| is_domain) {
            let name = quoted(&table.name);
            script.statement(&format!("ALTER TABLE {name} SET ABOUT {people} PEOPLE"));
        }
        if let Some(floor) = catalog.table_floor(&table.name) {
            of_unit(script, table, &privacy_floors::statement(&table.name, Some(floor)));
        }
        rules_of(script, catalog, table, false);
    }
}

/// A statement about a table with a privacy unit. What it declares is kept for the next unit, and
/// cannot be declared without one.
fn of_unit(script: &mut DumpScript, table: &Table, statement: &str) {
    match table.unit() {
        Some(_) => script.statement(statement),
        None => script.comment(&format!(
            "The table {} is about nobody now. Once it has a privacy unit: {statement};",
            table.name
        )),
    }
}

/// The rules of a table that bind everyone, or those that bind roles.
fn rules_of(script: &mut DumpScript, catalog: &Catalog, table: &Table, of_roles: bool) {
    for statement in rules_of_tables::statements(catalog, table, of_roles) {
        of_unit(script, table, &statement);
    }
}

/// Tables after those that they lead to, each with the earlier ones that have its rows and are
/// about other people.
pub(super) fn tables_in_order<'a>(
    inner: &Inner,
    catalog: &'a Catalog,
) -> Vec<(&'a Table, Vec<String>)> {
    let providers = inner.registered.read().unwrap_or_else(PoisonError::into_inner);
    let links = |name: &str| catalog.root(name).map_or(0, |(_, links)| links);
    let mut tables: Vec<_> = catalog.tables().collect();
    tables.sort_by_key(|table| (links(&table.name), table.name.as_str()));
    let mut written = BTreeSet::new();
    let mut ordered = Vec::new();
    for table in tables {
        let mut others = twins::other_people(&providers, catalog, table);
        others.retain(|other| {
            written.contains(other)
                && catalog.table(other).is_some_and(|other| declared_alike(table, other))
        });
        written.insert(table.name.clone());
        ordered.push((table, others));
    }
    ordered
}

/// Whether two tables with the same rows had them when they were declared, so that their owner has
/// said that they are about other people. Files may have come to hold the same bytes since.
fn declared_alike(one: &Table, other: &Table) -> bool {
    match (&one.source, &other.source) {
        (
            Source::File { location, fingerprint, .. },
            Source::File { location: of_other, fingerprint: its, .. },
        ) => {
            let is_same = |(one, other): (&Fingerprint, &Fingerprint)| {
                one.files.is_none() && other.files.is_none() && one.sha256 == other.sha256
            };
            location == of_other || fingerprint.as_ref().zip(its.as_ref()).is_some_and(is_same)
        }
        (Source::File { .. } | Source::Postgres { .. } | Source::Registered, _) => true,
        (Source::Released { .. }, _) => false,
    }
}

/// Writes views after those that they read. A view whose query is no longer valid, or that leads to
/// itself, cannot be created anywhere.
fn views(catalog: &Catalog, script: &mut DumpScript) {
    let (ordered, left) = views_in_order(catalog);
    for view in ordered {
        script.statement(&statement(view));
    }
    for view in left {
        script.comment(&format!("The view {} cannot be created as it is.", view.name));
    }
}

/// Views after those that they read, and those that cannot be created anywhere.
pub(super) fn views_in_order(catalog: &Catalog) -> (Vec<&View>, Vec<&View>) {
    let mut left: Vec<&View> = catalog.views().collect();
    let mut written: BTreeSet<String> = BTreeSet::new();
    let mut ordered = Vec::new();
    loop {
        let (ready, later): (Vec<&View>, Vec<&View>) = left.into_iter().partition(|view| {
            let read = view_query(&view.query).map(|(query, _)| named(&query, catalog));
            read.is_ok_and(|read| read.iter().all(|name| written.contains(name)))
        });
        written.extend(ready.iter().map(|view| view.name.clone()));
        left = later;
        if ready.is_empty() {
            break;
        }
        ordered.extend(ready);
    }
    (ordered, left)
}

/// The script as a text of statements and comments.
#[derive(Default)]
struct DumpScript {
    text: String,
}

impl DumpScript {
    fn statement(&mut self, statement: &str) {
        self.text.push_str(statement);
        // The text of a view may end with a comment, so the semicolon is on a line of its own.
        self.text.push_str(if statement.contains("--") { "\n;\n" } else { ";\n" });
    }

    fn comment(&mut self, comment: &str) {
        self.text.push_str("-- ");
        self.text.push_str(&visible::line(comment));
        self.text.push('\n');
    }
}
