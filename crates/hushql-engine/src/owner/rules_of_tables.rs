//! ALTER TABLE … SET RULES: which questions about a table an owner wants to answer.
//!
//! In: a private table, and rules. Out: one sentence, and the statements that declare rules again.
//!
//! ```text
//! ALTER TABLE visits SET RULES (no_key=(zip)) FOR lab   →   visits has rules for role lab: (no_key=(zip)); …
//! ```

use crate::catalog::{Catalog, Table, TableRules, quoted};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::owner::declared_columns::column_of;

/// Sets the rules of a table for one audience, or drops them.
///
/// # Errors
/// [`Error::Catalog`] if the table has no privacy unit, or a column or the role does not exist.
pub(super) fn set(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    role: Option<&str>,
    rules: Option<&TableRules>,
) -> Result<String, Error> {
    let entry = known(catalog, table)?;
    let Some(rules) = rules else {
        inner.vault.set_rules(table, role, None)?;
        let dropped = TableRules { role: role.map(ToOwned::to_owned), ..TableRules::default() };
        return Ok(format!("table {table} has no rules for {}", dropped.audience()));
    };
    if entry.unit().is_none() {
        let name = quoted(table);
        return Err(Error::catalog(format!(
            "table {table} has no privacy unit, and rules are for private tables: write ALTER TABLE {name} SET PRIVACY UNIT (column) first"
        )));
    }
    for (_, columns) in rules.of_columns() {
        for column in columns {
            column_of(entry, column)?;
        }
    }
    let contradiction = rules
        .join_only
        .iter()
        .find(|column| rules.no_key.contains(column) || rules.no_filter.contains(column));
    if let Some(column) = contradiction {
        return Err(Error::catalog(format!(
            "join_only says of {column} already that it is no key and no condition: write it in join_only alone"
        )));
    }
    inner.vault.set_rules(table, role, Some(rules.clone()))?;
    Ok(format!(
        "table {table} has rules for {}: {rules}; they bind analysts, neither the owner's statements nor calls of templates, and add nothing to what privacy is promised",
        rules.audience()
    ))
}

/// The rules of a table for one audience, without columns that the table does not have.
fn of_its_columns(rules: &TableRules, table: &Table) -> TableRules {
    let mut own = rules.clone();
    for columns in [&mut own.no_key, &mut own.no_filter, &mut own.join_only] {
        columns.retain(|column| table.column(column).is_some());
    }
    own
}

/// The statements that declare the rules of a table, for a script.
///
/// `of_roles` selects those that bind roles, which come after the roles; the others bind everyone.
/// Rules of a table without a unit are kept for the next one, and cannot be declared before.
pub(super) fn statements(catalog: &Catalog, table: &Table, of_roles: bool) -> Vec<String> {
    let all = catalog.table_rules(&table.name).iter();
    let all = all.filter(|rules| rules.role.is_some() == of_roles);
    let own = all.map(|rules| of_its_columns(rules, table)).filter(TableRules::is_some);
    own.map(|rules| rules.statement(&table.name)).collect()
}

/// The statements that turn the rules of one state of a table into those of another, each with
/// whether it names a role.
pub(super) fn difference(table: &str, wanted: &Catalog, present: &Catalog) -> Vec<(bool, String)> {
    let (wanted, present) = (wanted.table_rules(table), present.table_rules(table));
    let gone = present.iter().filter(|own| !wanted.iter().any(|one| one.role == own.role));
    let new = wanted.iter().filter(|own| !present.contains(own));
    let dropped = gone.map(|rules| (rules.role.is_some(), rules.drop_statement(table)));
    dropped.chain(new.map(|rules| (rules.role.is_some(), rules.statement(table)))).collect()
}

/// What an owner should know of the rules of a table: the finding, and the statement that ends it.
pub(super) fn findings(catalog: &Catalog, table: &Table) -> Vec<[String; 2]> {
    let mut findings = Vec::new();
    for rules in catalog.table_rules(&table.name) {
        let audience = rules.audience();
        if table.unit().is_none() {
            let finding = format!(
                "it has rules for {audience} and no privacy unit, so that the rules bind nobody"
            );
            findings.push([finding, rules.drop_statement(&table.name)]);
            continue;
        }
        let own = of_its_columns(rules, table);
        if own != *rules {
            let remedy = match own.is_some() {
                true => own.statement(&table.name),
                false => rules.drop_statement(&table.name),
            };
            let finding = format!("its rules for {audience} name columns that it does not have");
            findings.push([finding, remedy]);
        }
    }
    findings
}
