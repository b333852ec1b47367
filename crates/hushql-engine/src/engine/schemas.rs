//! The tables that a session may name, with the types of their columns.
//!
//! In: the declarations. Out: schemas, for programs that show them or fill in queries.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::engine::session::Session;
use crate::engine::visible_catalog::VisibleCatalog;
use crate::error::Error;
use crate::instance::known_schemas::TableSchema;
use crate::views;

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
        Ok(self.schema_list()?.to_vec())
    }

    /// The same, as a list that is shared. It is the same list as long as nothing is declared that
    /// changes it for this session.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # use std::sync::Arc;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// assert!(Arc::ptr_eq(&session.schema_list()?, &session.schema_list()?));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn schema_list(&self) -> Result<Arc<[TableSchema]>, Error> {
        let catalog = self.told(self.inner.catalog_of(&self.analyst))?;
        Ok(self.inner.schemas.of(&self.analyst, &catalog, || self.listed(&catalog)))
    }

    /// The tables and views of a catalog, by name.
    fn listed(&self, catalog: &VisibleCatalog) -> Vec<TableSchema> {
        let tables = catalog.tables().map(|table| {
            let columns = table.columns.iter().map(|c| (c.name.clone(), c.data_type.as_str()));
            TableSchema { name: table.name.clone(), is_view: false, schema: schema(columns) }
        });
        let views = catalog.views().map(|view| {
            let columns = views::describe(&self.inner, catalog, view).unwrap_or_default();
            let columns = columns.iter().map(|c| (c.name.clone(), c.data_type.as_str()));
            TableSchema { name: view.name.clone(), is_view: true, schema: schema(columns) }
        });
        let mut all: Vec<TableSchema> = tables.chain(views).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
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
