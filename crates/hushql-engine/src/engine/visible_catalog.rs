//! What exists for a session: the declarations that it may know of, and its release tables.
//!
//! In: the name of a reader. Out: a [`VisibleCatalog`], which has these tables, views and budgets
//! alone. All look-ups of a session go through one: names in queries, SHOW, completion, hints and
//! charges. So whatever is not granted is absent from them, as if it were not declared. Only the
//! owner's declarations read the whole catalog (test `visible`).
//!
//! ```text
//! SET GRANTS REQUIRED; GRANT SELECT ON visits TO lab      lab: visits      eve: nothing      the owner: everything
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::bind::sources::LEDGER;
use crate::catalog::{Catalog, CatalogError, Privacy, Source, Table, Template, View};
use crate::dialect::view_query;
use crate::engine::Engine;
use crate::engine::attempts::Attempts;
use crate::engine::release_tables::About;
use crate::engine::session::Session;
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{Declared, OWNER, ReleaseTable};
use crate::views;

/// The part of the declarations that exists for a reader. Only [`Inner::catalog_of`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct VisibleCatalog(Arc<Catalog>);

impl VisibleCatalog {
    /// The same part without the declared domain of one column.
    pub(crate) fn without_domain(&self, table: &str, column: &str) -> Self {
        Self(Arc::new(self.0.without_domain(table, column)))
    }
}

impl Deref for VisibleCatalog {
    type Target = Arc<Catalog>;

    fn deref(&self) -> &Arc<Catalog> {
        &self.0
    }
}

/// The names of everything that exists for a session, at one moment.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = hushql::Engine::demo()?;
/// let lab = engine.analyst("lab")?;
/// let before = lab.sight()?;
/// assert!(lab.sight()?.has_all_of(&before));
/// engine.owner().execute("SET GRANTS REQUIRED").await?;
/// assert!(!lab.sight()?.has_all_of(&before));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionSight(BTreeSet<(&'static str, String)>);

impl SessionSight {
    /// True if everything that existed in the earlier sight still exists.
    pub fn has_all_of(&self, earlier: &Self) -> bool {
        earlier.0.is_subset(&self.0)
    }
}

impl Engine {
    /// Prepares the vault to be served to roles: a new one, which has no roles and no charges,
    /// requires grants from now on, unless its owner said `SET GRANTS` before. Returns whether this
    /// call made it so.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let engine = hushql::Engine::in_memory()?;
    /// assert!(engine.begin_serving()?);
    /// assert!(!engine.begin_serving()?);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read or written.
    pub fn begin_serving(&self) -> Result<bool, Error> {
        let vault = &self.inner.vault;
        let is_said = |declared: &Declared| declared.change.starts_with("grants: ");
        let is_new = vault.roles()?.is_empty()
            && vault.extent()?.last() == 0
            && !vault.declarations()?.iter().any(is_said);
        if is_new {
            vault.require_grants(true)?;
        }
        Ok(is_new)
    }
}

impl Session {
    /// The names of all tables, views, templates and budgets that exist for this session now, and
    /// which tables are public. A program that keeps rows for a session compares it with the sight
    /// at which they were read.
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn sight(&self) -> Result<SessionSight, Error> {
        let catalog = self.told(self.inner.catalog_of(&self.analyst))?;
        let tables = catalog.tables().map(|table| ("table", table.name.clone()));
        let views = catalog.views().map(|view| ("view", view.name.clone()));
        let budgets = catalog.budgets().map(|budget| ("budget", budget.name.clone()));
        let templates = catalog.templates().map(|one| ("template", one.name.clone()));
        // Rows of a table that was public are not shown once it is not.
        let public = catalog.tables().filter(|table| table.is_public());
        let public = public.map(|table| ("public table", table.name.clone()));
        let named = tables.chain(views).chain(budgets).chain(templates).chain(public);
        Ok(SessionSight(named.collect()))
    }
}

/// The names of the tables that a view reads, also through other views.
fn read_by(catalog: &Catalog, view: &View) -> Option<BTreeSet<String>> {
    let (query, _) = view_query(&view.query).ok()?;
    let mut names = views::tables_behind(&query, catalog)?;
    names.remove(LEDGER);
    Some(names)
}

impl Inner {
    /// The declarations and the release tables that exist for this reader.
    ///
    /// # Guarantee
    /// Every table, view and budget that the reader may not use is absent.
    pub(crate) fn catalog_of(&self, reader: &str) -> Result<VisibleCatalog, Error> {
        let declared = self.declared_for(reader)?;
        let mut seen = Vec::new();
        for table in self.released_for(reader)? {
            seen.push(Table {
                name: table.name.clone(),
                source: Source::Released { sequence: table.sequence },
                privacy: Privacy::Public,
                columns: About::of(&table)?.columns,
            });
        }
        let takes_defaults = self.vault.takes_defaults(reader)?;
        if seen.is_empty() && takes_defaults {
            return Ok(VisibleCatalog(declared));
        }
        let own = Catalog::clone(&declared).with_released(seen);
        let own = if takes_defaults { own } else { own.without_defaults() };
        Ok(VisibleCatalog(Arc::new(own)))
    }

    /// All declarations, for the query of a template that exists in this part of them: EXECUTE
    /// grants its question, whatever it reads. Release tables are not among them.
    ///
    /// # Errors
    /// [`CatalogError::UnknownTemplate`] if the template does not exist in this part; that the
    /// declarations changed, if they did.
    pub(crate) fn catalog_of_template(
        &self,
        seen: &VisibleCatalog,
        template: &str,
    ) -> Result<VisibleCatalog, Error> {
        let unknown = || CatalogError::UnknownTemplate { template: template.to_owned() };
        seen.template(template).ok_or_else(unknown)?;
        let whole = self.vault.catalog()?;
        // A grant of an earlier state counts no longer.
        match whole.version().is(&seen.version()) {
            true => Ok(VisibleCatalog(whole)),
            false => Err(Attempts::redeclared()),
        }
    }

    /// True if this reader may call templates, and nothing else.
    pub(crate) fn is_templates_only(&self, reader: &str) -> Result<bool, Error> {
        Ok(reader != OWNER && self.vault.catalog()?.grants().is_templates_only(reader))
    }

    /// All declarations with a template that is not stored yet, for the owner who creates it.
    pub(crate) fn catalog_with(&self, template: &Template) -> Result<VisibleCatalog, Error> {
        let whole = Catalog::clone(&*self.vault.catalog()?);
        Ok(VisibleCatalog(Arc::new(whole.with_templates([template.clone()]))))
    }

    /// The declarations that exist for this reader.
    pub(super) fn declared_for(&self, reader: &str) -> Result<Arc<Catalog>, Error> {
        let whole = self.vault.catalog()?;
        Ok(match reader != OWNER && whole.grants().limits(reader) {
            true => self.parts.of(&whole, reader, |view| read_by(&whole, view)),
            false => whole,
        })
    }

    /// The release tables that exist for this reader: those that it may read, as long as it may ask
    /// about every table from which they come.
    pub(crate) fn released_for(&self, reader: &str) -> Result<Vec<ReleaseTable>, Error> {
        let (declared, released) = (self.declared_for(reader)?, self.vault.release_tables()?);
        let is_open = reader == OWNER || !declared.is_part();
        let mut seen = Vec::new();
        for table in released.iter().filter(|table| table.is_seen_by(reader)) {
            let about = About::of(table)?;
            let sees = |name: &String| declared.table(name).is_some();
            let is_there = about.ended(&declared).next().is_none() && about.from.iter().all(sees);
            if is_open || is_there {
                seen.push(table.clone());
            }
        }
        Ok(seen)
    }

    /// Refuses the name of a new release table that something has which exists for this reader. The
    /// vault refuses all other taken names without saying what has them.
    pub(crate) fn is_free_for(&self, name: &str, reader: &str) -> Result<(), Error> {
        let catalog = self.catalog_of(reader)?;
        let name = name.to_owned();
        if catalog.template(&name).is_some() {
            return Err(CatalogError::IsTemplate { template: name }.into());
        }
        match (catalog.table(&name).map(|table| &table.source), catalog.view(&name)) {
            (Some(Source::Released { .. }), _) => {
                Err(CatalogError::DuplicateReleaseTable { table: name }.into())
            }
            (Some(Source::File { .. } | Source::Postgres { .. } | Source::Registered), _) => {
                Err(CatalogError::DuplicateTable { table: name }.into())
            }
            (None, Some(_)) => Err(CatalogError::IsView { view: name }.into()),
            (None, None) => Ok(()),
        }
    }

    /// The declared tables among these names, and those from which the release tables among them
    /// come, each with the number of its last declaration.
    pub(crate) fn origins(
        &self,
        names: BTreeSet<String>,
        reader: &str,
    ) -> Result<BTreeMap<String, i64>, Error> {
        let (released, catalog) = (self.released_for(reader)?, self.declared_for(reader)?);
        let mut origins = BTreeMap::new();
        let mut add = |name: String, number: i64| {
            let known = origins.entry(name).or_insert(number);
            *known = number.min(*known);
        };
        for name in names {
            match released.iter().find(|table| table.name == name) {
                Some(table) => About::of(table)?.origins().for_each(|(name, n)| add(name, n)),
                None => {
                    let number = catalog.declared_number(&name);
                    add(name, number);
                }
            }
        }
        origins.remove(LEDGER);
        Ok(origins)
    }
}
