//! Reloads the tables of a vault, for a job that runs after each load.
//!
//! In: the names of tables, or none for all. Out: a sentence or an error for each, in an order in
//! which tables come after those that they lead to.

use crate::catalog::{Source, Table, quoted};
use crate::engine::output::Output;
use crate::engine::owner_session::Owner;
use crate::error::Error;
use crate::instance::table_names::known;

impl Owner {
    /// Verifies tables again on the files that they have now, as `ALTER TABLE … RELOAD` does for
    /// each: these, or all declared tables that are read from files or a server. A table that
    /// cannot be reloaded stays as it was, and the others are reloaded.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// // The built-in tables are registered by the program, so there is nothing to read again.
    /// assert!(hushql::Engine::demo()?.owner().reload(&[]).await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Bind`] if one of the names is not a table; then nothing is reloaded.
    /// [`Error::Ledger`] when the vault cannot be read.
    pub async fn reload(
        &self,
        tables: &[String],
    ) -> Result<Vec<(String, Result<String, Error>)>, Error> {
        let catalog = self.inner.vault.catalog()?;
        let is_read = |table: &&Table| match &table.source {
            Source::File { .. } | Source::Postgres { .. } => {
                table.is_public() || table.unit().is_some()
            }
            Source::Registered | Source::Released { .. } => false,
        };
        let mut chosen: Vec<&Table> = match tables {
            [] => catalog.tables().filter(is_read).collect(),
            names => names.iter().map(|n| known(&catalog, n)).collect::<Result<_, _>>()?,
        };
        let links = |name: &str| catalog.root(name).map_or(0, |(_, links)| links);
        chosen.sort_by_key(|table| (links(&table.name), table.name.as_str()));
        chosen.dedup_by(|one, other| one.name == other.name);
        let mut done = Vec::new();
        for table in chosen {
            let statement = format!("ALTER TABLE {} RELOAD", quoted(&table.name));
            let told = match self.execute(&statement).await {
                Ok(Output::Done(sentence)) => Ok(sentence),
                Ok(_) => Err(Error::Internal),
                Err(error) => Err(error),
            };
            done.push((table.name.clone(), told));
        }
        Ok(done)
    }
}
