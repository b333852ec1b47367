//! Creates and drops templates.
//!
//! In: `CREATE TEMPLATE` and `DROP TEMPLATE` from an owner's session, which has planned the query
//! with values of the domains. Out: one sentence.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sqlparser::ast::Query;

use crate::bind::names::tables_named;
use crate::catalog::{Catalog, CatalogError, Granted, ParameterDomain, Template};
use crate::dialect::{Taken, TemplateClause, parse_template, view_query};
use crate::error::Error;
use crate::instance::Inner;
use crate::templates::{declared, sample_call, trials};
use crate::views;

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
    let mut call = sample_call(&template);
    for parameter in template.parameters.iter().filter(|one| one.default.is_none()) {
        if let Some(ParameterDomain::References { table, column }) = &parameter.domain {
            write!(call, ", with a value of {table}({column}) for {}", parameter.name)
                .map_err(|_| Error::Internal)?;
        }
    }
    let who = match inner.vault.catalog()?.grants().is_required() {
        true => format!("whom it is for: GRANT EXECUTE ON TEMPLATE {name} TO …"),
        false => "everyone may call it, as long as grants are not required".to_owned(),
    };
    Ok(format!("template {name} is called as {call}; {who}"))
}

/// The grants of EXECUTE that end with a table or view, and what is said of them: those on the
/// templates that read it. Another one of its name is another question, which the owner did not
/// grant.
pub(super) fn ended_with(inner: &Inner, catalog: &Catalog, name: &str) -> (Vec<Granted>, String) {
    let (mut ended, mut told) = (Vec::new(), Vec::new());
    for template in catalog.templates().filter(|one| may_read(inner, catalog, one, name)) {
        let granted = Granted::Template(template.name.clone());
        let of = catalog.grants().given().filter(|(_, one)| *one == granted);
        let roles: Vec<String> = of.map(|(role, _)| role.clone()).collect();
        if !roles.is_empty() {
            told.push(format!("{} ({})", template.name, roles.join(", ")));
            ended.push(granted);
        }
    }
    let said = match told.is_empty() {
        true => String::new(),
        false => format!("; EXECUTE on templates that read it ended: {}", told.join(", ")),
    };
    (ended, said)
}

/// Whether a template reads a table or view, itself or through views; true where this is not known.
fn may_read(inner: &Inner, catalog: &Catalog, template: &Template, name: &str) -> bool {
    let refers = |domain: &ParameterDomain| match domain {
        ParameterDomain::References { table, .. } => table == name,
        ParameterDomain::In(_) | ParameterDomain::Between { .. } => false,
    };
    if template.parameters.iter().filter_map(|one| one.domain.as_ref()).any(refers) {
        return true;
    }
    let literals =
        trials(template).into_iter().flat_map(|trial| trial.calls).next().unwrap_or_default();
    let body = parse_template(&template.body, &inner.resources.statement, &literals);
    let Ok(body) = body else { return true };
    let Some(behind) = views::tables_behind(&body.tree, catalog) else { return true };
    // The clauses of releases name tables, too.
    let clauses = || body.releases.iter().any(|release| release.text.contains(name));
    behind.contains(name) || views_of(&body.tree, catalog).contains(name) || clauses()
}

/// The views that a query reads, directly or through others.
fn views_of(query: &Query, catalog: &Catalog) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = tables_named(query);
    while let Some(name) = next.pop() {
        if let Some(view) = catalog.view(&name)
            && found.insert(name)
            && let Ok((query, _)) = view_query(&view.query)
        {
            next.extend(tables_named(&query));
        }
    }
    found
}

pub(super) fn drop(inner: &Inner, name: &str, if_exists: bool) -> Result<String, Error> {
    if if_exists && inner.vault.catalog()?.template(name).is_none() {
        return Ok(format!("there is no template {name}"));
    }
    inner.vault.drop_template(name)?;
    Ok(format!("template {name} is dropped, with its grants; its charges remain"))
}
