//! Creating and dropping views.
//!
//! In: a view from an owner's session. Out: one sentence. The view is planned before it is stored,
//! so that the owner learns at once about an unknown name, a circle or a column without a name. The
//! tables that it reads may change later, so each use plans it again. Privacy depends on none of
//! this.
//!
//! ```text
//! CREATE VIEW grown AS SELECT age FROM adult WHERE age >= 18   →   view grown has 1 column: …
//! ```

use crate::catalog::{CatalogError, View};
use crate::dialect::Taken;
use crate::error::Error;
use crate::instance::Inner;
use crate::owner::template_declarations::ended_with;
use crate::views::describe;

pub(super) fn create(
    inner: &Inner,
    name: &str,
    columns: &[String],
    query: &str,
    taken: Taken,
) -> Result<String, Error> {
    let view = View { name: name.to_owned(), columns: columns.to_vec(), query: query.to_owned() };
    view.check()?;
    let catalog = inner.vault.catalog()?;
    // Report a taken name before a problem with the query. The vault checks the name again.
    if catalog.table(name).is_some() {
        return Err(CatalogError::DuplicateTable { table: view.name }.into());
    }
    match (catalog.view(name), taken) {
        (Some(_), Taken::Fail) => {
            return Err(CatalogError::DuplicateView { view: view.name }.into());
        }
        (Some(_), Taken::Keep) => {
            return Ok(format!("there is a view {name} already; it stays as it is"));
        }
        (Some(_), Taken::Replace) | (None, _) => {}
    }
    let after = catalog.as_ref().clone().with_views([view.clone()]);
    let columns = match describe(inner, &after, &view)?.len() {
        1 => "1 column".to_owned(),
        n => format!("{n} columns"),
    };
    inner.vault.create_view(&view, taken == Taken::Replace)?;
    Ok(format!(
        "view {name} has {columns}; each query that reads it is treated as if the view were a subquery"
    ))
}

pub(super) fn drop(inner: &Inner, name: &str, if_exists: bool) -> Result<String, Error> {
    let catalog = inner.vault.catalog()?;
    if if_exists && catalog.view(name).is_none() && catalog.table(name).is_none() {
        return Ok(format!("there is no view {name}"));
    }
    let (ended, told) = ended_with(inner, &catalog, name);
    inner.vault.drop_view_with(name, &ended)?;
    Ok(format!("view {name} is dropped; the tables that it read do not change{told}"))
}
