//! The tables that a session may name, with the types of their columns.
//!
//! In: the declarations. Out: schemas, for programs that show them or fill in queries.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::engine::session::Session;
use crate::error::Error;
use crate::views;

/// A table or a view that a session may name.
///
/// ```
/// # use hushql_engine as hushql;
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let adult = &session.schemas()?[0];
/// assert_eq!((adult.name.as_str(), adult.is_view), ("adult", false));
/// assert!(adult.schema.field_with_name("age").is_ok());
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSchema {
    /// The name.
    pub name: String,
    /// Whether it is a view.
    pub is_view: bool,
    /// The columns; empty for a view that can no longer be read.
    pub schema: SchemaRef,
}

impl Session {
    /// The tables and views, by name, with their columns and types. They follow from declarations
    /// alone.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let names: Vec<String> = session.schemas()?.into_iter().map(|table| table.name).collect();
    /// assert!(names.contains(&"adult".to_owned()));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn schemas(&self) -> Result<Vec<TableSchema>, Error> {
        let catalog = self.told(self.inner.catalog_of(&self.analyst))?;
        let tables = catalog.tables().map(|table| {
            let columns = table.columns.iter().map(|c| (c.name.clone(), c.data_type.as_str()));
            TableSchema { name: table.name.clone(), is_view: false, schema: schema(columns) }
        });
        let views = catalog.views().map(|view| {
            let columns = views::describe(&self.inner, &catalog, view).unwrap_or_default();
            let columns = columns.iter().map(|c| (c.name.clone(), c.data_type.as_str()));
            TableSchema { name: view.name.clone(), is_view: true, schema: schema(columns) }
        });
        let mut all: Vec<TableSchema> = tables.chain(views).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// Columns with their types, which the catalog stores by Arrow's names. A type without such a name
/// becomes text.
fn schema<'a>(columns: impl Iterator<Item = (String, &'a str)>) -> SchemaRef {
    let fields = columns.map(|(name, data_type)| {
        let data_type = DataType::from_str(data_type).unwrap_or(DataType::Utf8);
        Field::new(name, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
