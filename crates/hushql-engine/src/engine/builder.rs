//! Opens engines.
//!
//! In: the path of a vault, its anchor, limits of statements. Out: an [`Engine`].
//!
//! ```text
//! Engine::builder() ─ anchor, resources ─▶ open(path) | init(path) | in_memory() | demo() ─▶ Engine
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dialect::{Statement, parse, split};
use crate::engine::Engine;
use crate::error::Error;
use crate::exec::SharedVault;
use crate::exec::distributed::Site;
use crate::instance::Inner;
use crate::ledger::{Vault, VaultError};
use crate::owner as declare;
use crate::resources::Resources;

/// Opens an engine. [`Engine::builder`] makes one.
///
/// Its methods set what an engine keeps for life: the anchor of its vault, and the limits of
/// statements. The last call names the vault: [`open`](Self::open), [`init`](Self::init),
/// [`in_memory`](Self::in_memory) or [`demo`](Self::demo).
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, Resources};
///
/// # let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let (vault, anchor) = (folder.path().join("study.db"), elsewhere.path().join("study.anchor"));
/// Engine::builder().anchor(&anchor).init(&vault)?;
/// let engine = Engine::builder()
///     .anchor(&anchor)
///     .resources(Resources::default().with_memory(Some(2 << 30)))
///     .open(&vault)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "an engine is opened by the last call: open, init, in_memory or demo"]
pub struct EngineBuilder {
    anchor: Option<PathBuf>,
    resources: Resources,
    site: Option<Arc<dyn Site>>,
}

impl EngineBuilder {
    /// Opens the vault with its anchor: a small file in another place that every charge updates,
    /// and that reveals when the vault was replaced by an older copy. A vault that has an anchor
    /// opens only with it. [`VaultFile`](crate::VaultFile) adds an anchor to a vault, and removes
    /// it.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// # let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (vault, anchor) = (folder.path().join("study.db"), elsewhere.path().join("study.anchor"));
    /// Engine::builder().anchor(&anchor).init(&vault)?;
    /// assert!(matches!(Engine::open(&vault), Err(Error::Ledger(_))));
    /// let engine = Engine::builder().anchor(&anchor).open(&vault)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn anchor(mut self, path: impl AsRef<Path>) -> Self {
        self.anchor = Some(path.as_ref().to_owned());
        self
    }

    /// Limits each statement to `resources`. Without this call, the limits are those of
    /// [`Resources::default`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Resources};
    ///
    /// let engine = Engine::builder().resources(Resources::default().with_keys(2)).demo()?;
    /// let sql = "SELECT status, LAPLACE(eps=1) COUNT(*) FROM adult GROUP BY status";
    /// let refused = engine.analyst("lab")?.cost(sql).unwrap_err();
    /// assert_eq!(refused.code(), Some("HQ021"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }

    /// Runs the private aggregates of statements at a site.
    #[doc(hidden)]
    pub fn site(mut self, site: Arc<dyn Site>) -> Self {
        self.site = Some(site);
        self
    }

    /// Opens an existing vault file. It never creates one, so that deleting the file does not reset
    /// a budget.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let vault = folder.path().join("study.db");
    /// assert!(matches!(Engine::builder().open(&vault), Err(Error::Ledger(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault is missing, locked, corrupt, not writable or older than its
    /// anchor, and when the anchor is missing, damaged or not writable; [`Error::Catalog`] when the
    /// folder to spill to cannot be used.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Engine, Error> {
        let vault = match &self.anchor {
            Some(anchor) => Vault::open_anchored(path, anchor),
            None => Vault::open(path),
        };
        self.over(vault?)
    }

    /// Opens an existing vault file for [`Engine::dump`] and [`Engine::doctor`]. A vault that
    /// cannot be written, such as a backup on a read-only medium, is opened as well, wherever it
    /// is. Every charge to it then fails.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Engine;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let vault = folder.path().join("study.db");
    /// Engine::init(&vault)?;
    /// let engine = Engine::builder().open_for_upkeep(&vault)?;
    /// assert!(engine.doctor()?.batches()[0].num_rows() > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`EngineBuilder::open`].
    pub fn open_for_upkeep(self, path: impl AsRef<Path>) -> Result<Engine, Error> {
        let path = path.as_ref();
        let vault = match &self.anchor {
            Some(anchor) => Vault::open_anchored(path, anchor),
            None => Vault::open(path),
        };
        let vault = match vault {
            Err(VaultError::ReadOnly { .. }) => Vault::open_to_read(path, self.anchor.as_deref())?,
            opened => opened?,
        };
        self.over(vault)
    }

    /// Creates a new vault file, and its anchor if one is named, and opens it.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let vault = folder.path().join("study.db");
    /// Engine::builder().init(&vault)?;
    /// // A vault is never overwritten.
    /// assert!(matches!(Engine::builder().init(&vault), Err(Error::Ledger(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the file exists or cannot be written, and as
    /// [`VaultFile::make_anchor`](crate::VaultFile::make_anchor); if the anchor fails, the vault
    /// exists without one. [`Error::Catalog`] when the folder to spill to cannot be used.
    pub fn init(self, path: impl AsRef<Path>) -> Result<Engine, Error> {
        let path = path.as_ref();
        let mut vault = Vault::init(path)?;
        if let Some(anchor) = &self.anchor {
            drop(vault);
            vault = Vault::make_anchor(path, anchor)?;
        }
        self.over(vault)
    }

    /// An engine whose vault is in memory and is lost with the engine.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let engine = hushql::Engine::builder().in_memory()?;
    /// assert!(engine.owner().budgets()?.is_empty());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] with an anchor, which a vault in memory cannot have, and when the folder
    /// to spill to cannot be used; [`Error::Ledger`] when SQLite cannot start.
    pub fn in_memory(self) -> Result<Engine, Error> {
        if self.anchor.is_some() {
            return Err(Error::catalog(
                "a vault in memory has no anchor: name the file of a vault, or no anchor",
            ));
        }
        self.over(Vault::in_memory()?)
    }

    /// An engine in memory with the built-in tables `adult`, `bids`, `orders` and `census`,
    /// declared and budgeted.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let engine = hushql::Engine::builder().demo()?;
    /// let tables = engine.analyst("lab")?.tables()?;
    /// assert!(tables.iter().any(|(name, _)| name == "adult"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`EngineBuilder::in_memory`], and [`Error::Internal`] if the built-in tables contradict
    /// their declarations; never in a tested build.
    pub fn demo(self) -> Result<Engine, Error> {
        let engine = self.in_memory()?;
        for (name, batch) in crate::demo::tables().map_err(|_| Error::Internal)? {
            engine.register_batch(name, batch)?;
        }
        for statement in split(crate::demo::DECLARATIONS)? {
            let Statement::Declare(declaration) = parse(statement.text())? else {
                return Err(Error::Internal);
            };
            // Registered tables are enforced, not verified, so nothing is read here.
            declare::in_memory(&engine.inner, &declaration)?;
        }
        Ok(engine)
    }

    fn over(self, vault: Vault) -> Result<Engine, Error> {
        let Self { resources, site, .. } = self;
        let inner = Inner::new(SharedVault::new(vault), Arc::default(), resources, site)?;
        Ok(Engine { inner: Arc::new(inner) })
    }
}

impl Engine {
    /// Opens engines with an anchor, with other limits of statements, or both.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use std::time::Duration;
    ///
    /// use hushql::{Engine, Resources};
    ///
    /// let quick = Resources::default().with_time(Some(Duration::from_secs(10)));
    /// let engine = Engine::builder().resources(quick).demo()?;
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Creates a new vault file and opens it; short for [`EngineBuilder::init`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("study.db");
    /// Engine::init(&path)?;
    /// // A vault is never overwritten.
    /// assert!(matches!(Engine::init(&path), Err(Error::Ledger(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the file exists or cannot be written.
    pub fn init(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().init(path)
    }

    /// Opens an existing vault file; short for [`EngineBuilder::open`]. It never creates one, so
    /// that deleting the file does not reset a budget.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("study.db");
    /// assert!(matches!(Engine::open(&path), Err(Error::Ledger(_))));
    /// Engine::init(&path)?;
    /// let engine = Engine::open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when it is missing, locked, corrupt or not writable, or has an anchor.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(path)
    }

    /// An engine with a vault in memory, which is lost with the engine; short for
    /// [`EngineBuilder::in_memory`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let engine = hushql::Engine::in_memory()?;
    /// assert!(engine.owner().budgets()?.is_empty());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when SQLite cannot start.
    pub fn in_memory() -> Result<Self, Error> {
        Self::builder().in_memory()
    }

    /// An engine in memory with the built-in tables `adult`, `bids`, `orders` and `census`,
    /// declared and budgeted; short for [`EngineBuilder::demo`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let tables: Vec<String> = session.tables()?.into_iter().map(|(name, _)| name).collect();
    /// assert!(tables.contains(&"adult".to_owned()));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Internal`] if the built-in tables contradict their declarations; never in a tested
    /// build.
    pub fn demo() -> Result<Self, Error> {
        Self::builder().demo()
    }
}
