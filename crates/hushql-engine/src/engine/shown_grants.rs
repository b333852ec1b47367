//! SHOW GRANTS: who may ask about what.
//!
//! In: the grants, and a reader. Out: to the owner all grants, or those of one role; to a role what
//! exists for itself, by which it learns nothing that it does not see anyway.
//!
//! ```text
//! lab   SELECT   visits
//! eve   SELECT   visits     by clinic
//! ```

use super::text_columns::table;
use crate::answer::Answer;
use crate::catalog::{Catalog, Granted};
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::OWNER;
use crate::refusal::{Reason, Refusal};

/// The note while grants have no effect.
const NOT_REQUIRED: &str =
    "grants are not required: every role sees, and may ask about, every table";

/// The grants of a role, or all grants.
///
/// # Errors
/// For a role that does not exist; and for a role that asks about another one, which is told the
/// same whether or not it exists.
pub(super) fn grants(inner: &Inner, of: Option<&str>, reader: &str) -> Result<Answer, Error> {
    let whole = inner.vault.catalog()?;
    let rows: Vec<[String; 4]> = match of {
        None if reader == OWNER => {
            let given = whole.grants().given();
            given.map(|(role, granted)| row(role, granted, String::new())).collect()
        }
        None => effective(&whole, reader),
        Some(of) if of == reader && reader != OWNER => effective(&whole, reader),
        Some(of) if reader == OWNER => {
            if !inner.vault.roles()?.iter().any(|role| role.name == of) {
                return Err(
                    crate::catalog::CatalogError::UnknownRole { role: of.to_owned() }.into()
                );
            }
            effective(&whole, of)
        }
        Some(_) => {
            return Err(Refusal::new(
                Reason::Statement,
                "SHOW GRANTS FOR",
                "only owners see what others may ask about",
                "SHOW GRANTS",
            )
            .into());
        }
    };
    let column =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).cloned().collect::<Vec<String>>();
    let answer = table(&[
        ("role", column(0)),
        ("privilege", column(1)),
        ("on", column(2)),
        ("through", column(3)),
    ])?;
    Ok(match whole.grants().is_required() {
        true => answer,
        false => answer.noted(NOT_REQUIRED.to_owned()),
    })
}

fn row(role: &str, granted: &Granted, through: String) -> [String; 4] {
    let privilege = match granted {
        Granted::Table(_) => "SELECT",
        Granted::Budget(_) => "USAGE",
        Granted::Role(_) => "MEMBER",
        Granted::Template(_) => "EXECUTE",
    };
    [role.to_owned(), privilege.to_owned(), granted.name().to_owned(), through]
}

/// The tables, budgets and templates that exist for a role, and its groups.
fn effective(whole: &Catalog, role: &str) -> Vec<[String; 4]> {
    let grants = whole.grants();
    let tables = whole.tables().map(|table| Granted::Table(table.name.clone()));
    let budgets = whole.budgets().map(|budget| Granted::Budget(budget.name.clone()));
    let templates = whole.templates().map(|one| Granted::Template(one.name.clone()));
    let given =
        tables.chain(budgets).chain(templates).filter(|granted| whole.is_for(role, granted));
    let objects = given.map(|granted| {
        let through = grants.through(role, &granted).filter(|through| *through != role);
        row(role, &granted, through.unwrap_or_default().to_owned())
    });
    let groups = grants.groups_of(role).into_iter().filter(|group| *group != role);
    let groups = groups.map(|group| row(role, &Granted::Role(group.to_owned()), String::new()));
    objects.chain(groups).collect()
}
