//! Grants: which roles may ask about which tables, and be charged to which budgets.
//!
//! In: parsed declarations. Out: one sentence each, which also names what a grant still needs; and
//! the grants as statements, for a script. What a grant means is decided in the vault's `sight`.
//!
//! ```text
//! GRANT SELECT ON visits TO lab   →   lab may ask about visits once it may ask about people: GRANT SELECT ON people TO lab
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::{Catalog, Granted, quoted, quoted_analyst};
use crate::dialect::{GrantClause, GrantObjects};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::ledger::Role;

/// Gives grants to roles, or takes them.
///
/// # Errors
/// For a role, table or budget that does not exist, for a view, and for a group that would contain
/// itself.
pub(crate) fn change(inner: &Inner, clause: &GrantClause) -> Result<String, Error> {
    let GrantClause { objects, roles, may } = clause;
    let catalog = inner.vault.catalog()?;
    let granted: Vec<Granted> = match objects {
        GrantObjects::Tables(names) => {
            for name in names {
                not_a_view(&catalog, name, roles)?;
                known(&catalog, name)?;
            }
            names.iter().cloned().map(Granted::Table).collect()
        }
        GrantObjects::AllTables => {
            catalog.tables().map(|table| Granted::Table(table.name.clone())).collect()
        }
        GrantObjects::Budgets(names) => names.iter().cloned().map(Granted::Budget).collect(),
        GrantObjects::AllBudgets => {
            catalog.budgets().map(|budget| Granted::Budget(budget.name.clone())).collect()
        }
        GrantObjects::Roles(names) => names.iter().cloned().map(Granted::Role).collect(),
        GrantObjects::Templates(names) => names.iter().cloned().map(Granted::Template).collect(),
        GrantObjects::AllTemplates => {
            catalog.templates().map(|one| Granted::Template(one.name.clone())).collect()
        }
    };
    let changed = inner.vault.change_grants(roles, &granted, *may)?.len();
    let words: Vec<String> = granted.iter().map(ToString::to_string).collect();
    let to: Vec<String> = roles.iter().map(|role| quoted_analyst(role)).collect();
    let (verb, toward) = if *may { ("granted", "to") } else { ("revoked", "from") };
    let what = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let done = format!("{verb} {toward} {}: {what}", to.join(", "));
    let again = match (changed, may) {
        (0, true) => "; they had it already",
        (0, false) => "; they did not have it",
        (_, _) => "",
    };
    let after = inner.vault.catalog()?;
    let lacking = match may {
        true => roles.iter().find_map(|role| lacking(&after, role, &granted)),
        false => None,
    };
    let is_limited = |role: &String| after.grants().is_templates_only(role);
    let effect = match after.grants().is_required() || roles.iter().all(is_limited) {
        true => "",
        false => "; it counts once grants are required: SET GRANTS REQUIRED",
    };
    Ok(format!("{done}{again}{}{effect}", lacking.unwrap_or_default()))
}

/// Requires grants from now on, or no longer.
///
/// # Errors
/// The vault's own.
pub(super) fn require(inner: &Inner, are_required: bool) -> Result<String, Error> {
    inner.vault.require_grants(are_required)?;
    let catalog = inner.vault.catalog()?;
    let roles = inner.vault.roles()?;
    let without = roles.iter().filter(|role| sees_nothing(&catalog, &role.name));
    let without: Vec<&str> = without.map(|role| role.name.as_str()).collect();
    Ok(match (are_required, without.as_slice()) {
        (false, _) => {
            "grants are not required: everyone sees, and may ask about, every table".to_owned()
        }
        (true, []) => "grants are required: a role sees only what is granted to it".to_owned(),
        (true, without) => format!(
            "grants are required: a role sees only what is granted to it, and nothing is granted to {}",
            without.join(", ")
        ),
    })
}

/// Whether no table and no template exists for a role.
fn sees_nothing(catalog: &Arc<Catalog>, role: &str) -> bool {
    let seen = catalog.seen_by(role, |_| None);
    seen.tables().next().is_none() && seen.templates().next().is_none()
}

/// A grant on a view would say more than the view's tables do.
fn not_a_view(catalog: &Catalog, name: &str, roles: &[String]) -> Result<(), Error> {
    if catalog.view(name).is_none() {
        return Ok(());
    }
    let role = roles.first().map_or_else(String::new, |role| quoted_analyst(role));
    Err(Error::catalog(format!(
        "{name} is a view, which exists for everyone who may ask about all tables that it reads: write GRANT SELECT ON these tables TO {role}"
    )))
}

/// What a role still lacks before one of these grants has an effect, in words.
fn lacking(catalog: &Catalog, role: &str, granted: &[Granted]) -> Option<String> {
    let grants = catalog.grants();
    let has = |one: &Granted| grants.through(role, one).is_some();
    for one in granted {
        let needs: Vec<Granted> = match one {
            Granted::Table(name) => way(catalog, name),
            Granted::Budget(name) => {
                let Some(budget) = catalog.budget(name) else { continue };
                let of_people = catalog.budgets_of(catalog.unit_domain_of(budget));
                let each = |one: &crate::catalog::Budget| {
                    let mut needs = way(catalog, &one.table);
                    needs.push(Granted::Budget(one.name.clone()));
                    needs
                };
                of_people.flat_map(each).collect()
            }
            Granted::Role(_) | Granted::Template(_) => continue,
        };
        let missing: BTreeSet<Granted> = needs.into_iter().filter(|need| !has(need)).collect();
        if missing.is_empty() {
            continue;
        }
        let statements: Vec<String> = missing
            .iter()
            .map(|need| format!("GRANT {need} TO {}", quoted_analyst(role)))
            .collect();
        return Some(format!("; {one} has an effect for {role} with {}", statements.join("; ")));
    }
    None
}

/// The grants of a table, and of those through which its rows lead to their people.
fn way(catalog: &Catalog, table: &str) -> Vec<Granted> {
    catalog.way_of(table).map(|name| Granted::Table(name.to_owned())).collect()
}

/// The statement after which only what is granted exists for analysts.
pub(crate) const REQUIRED: &str = "SET GRANTS REQUIRED";

/// The statements that give all grants of a vault, and require them if they are required. Roles,
/// tables, budgets and templates must exist before; `has` says of a template whether it will.
pub(super) fn statements(catalog: &Catalog, has: impl Fn(&str) -> bool) -> Vec<String> {
    let grants = catalog.grants();
    let is_of = |granted: &Granted| match granted {
        Granted::Template(name) => has(name),
        Granted::Table(_) | Granted::Budget(_) | Granted::Role(_) => true,
    };
    let given = grants
        .given()
        .filter(|(_, granted)| is_of(granted))
        .map(|(role, granted)| format!("GRANT {granted} TO {}", quoted_analyst(role)));
    let required = grants.is_required().then(|| REQUIRED.to_owned());
    given.chain(required).collect()
}

/// What the owner should know about grants: roles for which nothing exists, and grants without an
/// effect. Each with the statement that changes it.
pub(super) fn findings(inner: &Inner, catalog: &Arc<Catalog>) -> Result<Vec<[String; 3]>, Error> {
    let mut findings = Vec::new();
    let is_limited = |role: &&Role| role.may_log_in && catalog.grants().limits(&role.name);
    for role in inner.vault.roles()?.iter().filter(is_limited) {
        let name = &role.name;
        if sees_nothing(catalog, name) {
            findings.push([
                name.clone(),
                match catalog.grants().is_templates_only(name) {
                    true => "the role may call templates alone, and none is granted to it",
                    false => "no table is granted to the role, so none exists for it",
                }
                .to_owned(),
                match catalog.grants().is_templates_only(name) {
                    true => format!("GRANT EXECUTE ON TEMPLATE … TO {}", quoted_analyst(name)),
                    false => format!("GRANT SELECT ON … TO {}", quoted_analyst(name)),
                },
            ]);
        }
    }
    if !catalog.grants().is_required() {
        return Ok(findings);
    }
    for (role, granted) in catalog.grants().given() {
        if catalog.grants().is_templates_only(role) && !matches!(granted, Granted::Template(_)) {
            continue;
        }
        if let Some(lacking) = lacking(catalog, role, std::slice::from_ref(granted)) {
            let remedy = lacking.split_once(" with ").map_or("", |(_, remedy)| remedy);
            findings.push([
                role.clone(),
                format!("{granted} has no effect for the role alone"),
                remedy.to_owned(),
            ]);
        }
    }
    for table in catalog.tables() {
        let is_given =
            |(_, granted): &(String, Granted)| *granted == Granted::Table(table.name.clone());
        if !catalog.grants().given().any(is_given) {
            findings.push([
                table.name.clone(),
                "the table is granted to no role, so it exists for the owner alone".to_owned(),
                format!("GRANT SELECT ON {} TO …", quoted(&table.name)),
            ]);
        }
    }
    Ok(findings)
}
