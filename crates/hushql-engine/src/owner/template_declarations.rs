//! Creates and drops templates.
//!
//! In: `CREATE TEMPLATE` and `DROP TEMPLATE` from an owner's session, which has planned the query
//! with values of the domains. Out: one sentence.

use crate::catalog::{CatalogError, Template};
use crate::dialect::{Taken, TemplateClause};
use crate::error::Error;
use crate::instance::Inner;
use crate::templates::{declared, sample_call};

/// The template to store. `None` if one of the name exists and stays.
///
/// # Errors
/// For a taken name, and for a template that contradicts itself.
pub(crate) fn to_create(
    inner: &Inner,
    clause: &TemplateClause,
    taken: Taken,
) -> Result<Option<Template>, Error> {
    let catalog = inner.vault.catalog()?;
    let name = &clause.name;
    // Report a taken name before a problem with the query. The vault checks the name again.
    if catalog.table(name).is_some() {
        return Err(CatalogError::DuplicateTable { table: name.clone() }.into());
    }
    if catalog.view(name).is_some() {
        return Err(CatalogError::IsView { view: name.clone() }.into());
    }
    match (catalog.template(name), taken) {
        (Some(_), Taken::Fail) => {
            Err(CatalogError::DuplicateTemplate { template: name.clone() }.into())
        }
        (Some(_), Taken::Keep) => Ok(None),
        (Some(_), Taken::Replace) | (None, _) => Ok(Some(declared(&catalog, clause)?)),
    }
}

/// Stores a template.
///
/// # Errors
/// As [`to_create`].
pub(super) fn create(
    inner: &Inner,
    clause: &TemplateClause,
    taken: Taken,
) -> Result<String, Error> {
    let name = &clause.name;
    let Some(template) = to_create(inner, clause, taken)? else {
        return Ok(format!("there is a template {name} already; it stays as it is"));
    };
    inner.vault.create_template(&template, taken == Taken::Replace)?;
    let call = sample_call(&template);
    let who = match inner.vault.catalog()?.grants().is_required() {
        true => format!("whom it is for: GRANT EXECUTE ON TEMPLATE {name} TO …"),
        false => "everyone may call it, as long as grants are not required".to_owned(),
    };
    Ok(format!("template {name} is called as {call}; {who}"))
}

pub(super) fn drop(inner: &Inner, name: &str, if_exists: bool) -> Result<String, Error> {
    if if_exists && inner.vault.catalog()?.template(name).is_none() {
        return Ok(format!("there is no template {name}"));
    }
    inner.vault.drop_template(name)?;
    Ok(format!("template {name} is dropped, with its grants; its charges remain"))
}
