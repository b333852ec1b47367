//! Creating and dropping views.
//!
//! In: a view from an owner's session. Out: one sentence. The view is planned before it is kept, in the place where it
//! will stand, so that a name it cannot find, a circle or a column without a name is heard of at once; what it reads
//! may change later, and every use plans it again. Privacy rests on none of this.
//!
//! ```text
//! CREATE VIEW grown AS SELECT age FROM adult WHERE age >= 18   →   view grown has 1 column: …
//! ```

use crate::catalog::{CatalogError, View};
use crate::engine::Inner;
use crate::error::Error;
use crate::views::describe;

pub(super) fn create(
    inner: &Inner,
    name: &str,
    columns: &[String],
    query: &str,
    replace: bool,
) -> Result<String, Error> {
    let view = View { name: name.to_owned(), columns: columns.to_vec(), query: query.to_owned() };
    view.check()?;
    let catalog = inner.vault.catalog()?;
    // A name that is taken is told before what is wrong with the query; the vault looks once more.
    if catalog.table(name).is_some() {
        return Err(CatalogError::DuplicateTable { table: view.name }.into());
    }
    if catalog.view(name).is_some() && !replace {
        return Err(CatalogError::DuplicateView { view: view.name }.into());
    }
    let after = catalog.as_ref().clone().with_views([view.clone()]);
    let columns = match describe(inner, &after, &view)?.len() {
        1 => "1 column".to_owned(),
        n => format!("{n} columns"),
    };
    inner.vault.create_view(&view, replace)?;
    Ok(format!(
        "view {name} has {columns}; a query that reads it is treated as if it were written out"
    ))
}

pub(super) fn drop(inner: &Inner, name: &str, if_exists: bool) -> Result<String, Error> {
    let catalog = inner.vault.catalog()?;
    if if_exists && catalog.view(name).is_none() && catalog.table(name).is_none() {
        return Ok(format!("there is no view {name}"));
    }
    inner.vault.drop_view(name)?;
    Ok(format!("view {name} is forgotten; what it read stays as it is"))
}
