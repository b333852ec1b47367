//! What all sessions of an engine share: the vault, the tables, and DataFusion's session.
//!
//! In: registered and declared tables. Out: the provider of each table's rows, and the open files
//! of each statement.

pub(crate) mod answer_cache;
pub(crate) mod entry_numbers;
pub(crate) mod known_parts;
pub(crate) mod known_schemas;
pub(crate) mod table_names;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::catalog::TableProvider;
use datafusion::execution::SessionState;

use crate::catalog::{Source, Table};
use crate::error::Error;
use crate::exec::distributed::{Site, place};
use crate::exec::source as files;
use crate::exec::source::{HeldFiles, OpenFiles};
use crate::exec::{KeptColumns, KeptLookUps, KeptPublic, SharedVault};
use crate::instance::answer_cache::Repeats;
use crate::instance::known_parts::KnownParts;
use crate::instance::known_schemas::KnownSchemas;
use crate::resources::Resources;
use crate::sampler::QueryRng;

/// The tables that a program registered, by name.
pub(crate) type Registered = Arc<RwLock<HashMap<String, Arc<dyn TableProvider>>>>;

/// The vault, the tables, and DataFusion's session, in which queries run.
pub(crate) struct Inner {
    pub(crate) vault: SharedVault,
    pub(crate) registered: Registered,
    /// A random name for the tables that this program registered.
    program: [u8; 16],
    pub(crate) state: SessionState,
    pub(crate) resources: Resources,
    files: Arc<HeldFiles>,
    look_ups: Option<Arc<KeptLookUps>>,
    columns: Option<Arc<KeptColumns>>,
    /// What planning has read from public tables.
    public: Arc<KeptPublic>,
    /// Answers that were replayed as a whole.
    pub(crate) repeats: Repeats,
    /// What exists for each reader.
    pub(crate) parts: KnownParts,
    /// The tables and columns of each reader.
    pub(crate) schemas: KnownSchemas,
}

/// Debug output leaves out tables, because tables in memory would show their rows.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("resources", &self.resources).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn new(
        vault: SharedVault,
        registered: Registered,
        resources: Resources,
        site: Option<Arc<dyn Site>>,
    ) -> Result<Self, Error> {
        let mut state = resources.session_state()?;
        let files = Arc::<HeldFiles>::default();
        // If private aggregates run elsewhere, nothing is kept here for them.
        let here = site.is_none();
        let look_ups = here.then(|| KeptLookUps::within(&state.runtime_env().memory_pool));
        let look_ups = look_ups.flatten().map(Arc::new);
        if let Some(look_ups) = &look_ups {
            state.config_mut().set_extension(Arc::clone(look_ups));
        }
        let columns = here.then(|| KeptColumns::within(&state.runtime_env().memory_pool));
        let columns = columns.flatten().map(Arc::new);
        if let Some(columns) = &columns {
            state.config_mut().set_extension(Arc::clone(columns));
        }
        let public = Arc::<KeptPublic>::default();
        state.config_mut().set_extension(Arc::clone(&public));
        if let Some(site) = site {
            place(&mut state, site, &files);
        }
        files::register(&files, state.runtime_env()).map_err(|_| Error::Internal)?;
        let program = QueryRng::nonce().map_err(|_| Error::Internal)?;
        let (repeats, parts) = (Repeats::default(), KnownParts::default());
        let schemas = KnownSchemas::default();
        Ok(Self {
            vault,
            registered,
            program,
            state,
            resources,
            files,
            look_ups,
            columns,
            public,
            repeats,
            parts,
            schemas,
        })
    }

    /// Forgets what was kept of declared files, and closes them.
    pub(crate) fn forget_kept(&self) {
        self.look_ups.iter().for_each(|look_ups| look_ups.clear());
        self.columns.iter().for_each(|columns| columns.clear());
        self.public.clear();
    }

    /// The files of a new statement; none of them is open yet.
    pub(crate) fn open_files(&self) -> Arc<OpenFiles> {
        Arc::new(OpenFiles::new(&self.files))
    }

    /// A name for the rows that this program registered as a table. No other program has the same
    /// name for its rows.
    pub(crate) fn registration(&self, table: &str) -> Option<String> {
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        let rows = registered.get(table)?;
        Some(format!("{:x?} {:p}", self.program, Arc::as_ptr(rows)))
    }

    /// The provider of a table's rows. `None` for a table that is not registered, and for a file of
    /// an unknown format.
    pub(crate) fn provider(
        &self,
        table: &Arc<Table>,
        open: &Arc<OpenFiles>,
    ) -> Option<Arc<dyn TableProvider>> {
        match &table.source {
            Source::Registered => {
                let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
                registered.get(&table.name).cloned()
            }
            Source::File { .. } | Source::Postgres { .. } => files::provider(table, open).ok(),
            Source::Released { sequence } => {
                files::stored(&self.vault, *sequence, &table.columns).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::parquet::arrow::ArrowWriter;

    use crate::instance::Inner;
    use crate::{Engine, Resources};

    const DECLARED: [&str; 6] = [
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE orders SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 9",
        "ALTER TABLE items SET PRIVACY UNIT VIA (of_order) REFERENCES orders(number) MAX ROWS 9",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=900000)",
        "ALTER PRIVACY BUDGET b SET PER QUERY (default=10000, max=10000)",
        "ALTER TABLE items ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN 0 AND 9",
    ];

    async fn asked(engine: &Engine) -> String {
        let lab = engine.analyst("lab").unwrap();
        let answer = lab
            .query("SELECT FRESH COUNT(*) AS n, FRESH SUM(price) AS p FROM items")
            .await
            .unwrap();
        let row = &answer.batches()[0];
        let cell =
            |i: usize| arrow::util::display::array_value_to_string(row.column(i), 0).unwrap();
        format!("{} {}", cell(0), cell(1))
    }

    /// Decoded columns are kept while their file stays as it is, and a statement checks it all the
    /// same. A scan that may skip rows keeps none of them.
    #[tokio::test]
    async fn columns_are_kept_from_one_statement_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let rows = |from: i64| -> Vec<i64> { (from..from + 500).collect() };
        let batch = |from: i64| {
            let columns = [("id", rows(0)), ("age", rows(from))];
            let columns = columns
                .map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef, true));
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        };
        for format in ["CSV", "PARQUET"] {
            let path = folder.path().join(format);
            let write = |from: i64| {
                let (batch, file) = (batch(from), fs::File::create(&path).unwrap());
                match format {
                    "CSV" => arrow::csv::Writer::new(file).write(&batch).unwrap(),
                    _ => {
                        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
                        writer.write(&batch).unwrap();
                        writer.close().unwrap();
                    }
                }
            };
            write(0);
            let resources = Resources::default().with_memory(Some(8 << 30));
            let engine = Engine::builder().resources(resources).in_memory().unwrap();
            let owner = engine.owner();
            let unit = "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE";
            for statement in [
                format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{}'", path.display()),
                unit.to_owned(),
                "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=900000)".to_owned(),
                "ALTER PRIVACY BUDGET b SET PER QUERY (default=90000, max=90000)".to_owned(),
            ] {
                owner.execute(&statement).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            let lab = engine.analyst("lab").unwrap();
            let kept = || engine.inner.columns.as_ref().map_or(0, |columns| columns.len());
            let sql = "SELECT FRESH COUNT(*) AS n FROM t WHERE age >= 450";
            let count = async || -> Result<i64, crate::Error> {
                let answer = lab.query(sql).await?;
                Ok(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0))
            };
            // A reader of Parquet may leave out rows below 450.
            let first = if format == "CSV" { 2 } else { 0 };
            assert_eq!((count().await.unwrap(), kept()), (50, first), "{format}");
            let all = "SELECT FRESH COUNT(*) AS n, FRESH SUM(CLAMP(age, 0, 999)) AS s FROM t";
            for _ in 0..2 {
                let answer = lab.query(all).await.unwrap();
                let sum = answer.batches()[0].column(1).as_primitive::<Int64Type>().value(0);
                assert_eq!((sum, kept()), (124_750, 2), "{format}");
            }
            assert_eq!((count().await.unwrap(), kept()), (50, 2), "{format}");
            write(100);
            assert_eq!(count().await.unwrap_err().code(), Some("HQ028"), "{format}");
            owner.execute(unit).await.unwrap();
            assert_eq!(kept(), 0);
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            for _ in 0..2 {
                assert_eq!(count().await.unwrap(), 150, "{format}");
            }
        }
    }

    /// Links are kept while their files stay as they are, until the next declaration. An engine
    /// with little memory keeps none.
    #[tokio::test]
    async fn links_are_kept_from_one_statement_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("{}/{name}.csv", folder.path().display());
        let written = Instant::now();
        fs::write(path("people"), "id\n1\n2\n").unwrap();
        fs::write(path("orders"), "number,person\n10,1\n20,2\n30,3\n").unwrap();
        // The order 30 leads to no person, and there is no order 40.
        fs::write(path("items"), "of_order,price\n10,1\n10,2\n20,3\n30,4\n40,5\n,6\n").unwrap();
        let within = |memory| Resources::default().with_memory(Some(memory));
        let engine = Engine::builder().resources(within(8 << 30)).in_memory().unwrap();
        let owner = engine.owner();
        for name in ["people", "orders", "items"] {
            let path = path(name);
            let create = format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{path}'");
            owner.execute(&create).await.unwrap();
        }
        for statement in DECLARED {
            owner.execute(statement).await.unwrap();
        }
        let kept = || engine.inner.look_ups.as_ref().map_or(0, |look_ups| look_ups.len());
        // Files that were changed just now could be changed again without a trace. A busy machine
        // may take longer than that.
        assert_eq!(asked(&engine).await, "3 6");
        assert!(kept() == 0 || written.elapsed() > Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        for _ in 0..2 {
            assert_eq!((asked(&engine).await.as_str(), kept()), ("3 6", 2));
        }
        owner.execute("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1000000)").await.unwrap();
        assert_eq!(kept(), 0);
        assert_eq!((asked(&engine).await.as_str(), kept()), ("3 6", 2));
        // Order 20 becomes the first person's, in place and as another file. An item of order 30
        // belongs to her, too.
        let moved = "number,person\n10,1\n20,1\n30,1\n";
        fs::write(path("orders"), moved).unwrap();
        let lab = engine.analyst("lab").unwrap();
        let refused = lab.query("SELECT COUNT(*) FROM items").await.unwrap_err();
        assert_eq!(refused.code(), Some("HQ028"), "{refused}");
        for statement in &DECLARED[1..3] {
            owner.execute(statement).await.unwrap();
        }
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            assert_eq!((asked(&engine).await.as_str(), kept()), ("4 10", 2));
        }
        // One file as two tables, whose columns have swapped names.
        fs::write(path("map"), "1,2,1\n2,1,1\n").unwrap();
        fs::write(path("more"), "of_order,price\n1,1\n2,2\n").unwrap();
        for (name, columns) in [("x", "number, person, z"), ("y", "z, number, person")] {
            let columns = columns.replace(',', " BIGINT,");
            let (map, more) = (path("map"), path("more"));
            for statement in [
                format!(
                    "CREATE EXTERNAL TABLE {name} ({columns} BIGINT) STORED AS CSV LOCATION '{map}' OPTIONS ('has_header' 'false')"
                ),
                format!("CREATE EXTERNAL TABLE of_{name} STORED AS CSV LOCATION '{more}'"),
                format!(
                    "ALTER TABLE {name} SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 2"
                ),
                format!(
                    "ALTER TABLE of_{name} SET PRIVACY UNIT VIA (of_order) REFERENCES {name}(number) MAX ROWS 2"
                ),
            ] {
                owner.execute(&statement).await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        // The two rows of x belong to two people. Those of y belong to one person, who keeps one
        // row.
        for (table, expected) in [("of_x", 2), ("of_y", 1)] {
            let query = format!("SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM {table}");
            let answer = lab.query(&query).await.unwrap();
            let count = answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!((count, kept() >= 2), (expected, true), "{table}");
        }
        let Inner { vault, registered, .. } = &*engine.inner;
        let limited = Inner::new(vault.clone(), Arc::clone(registered), within(1 << 30), None);
        let limited = Engine { inner: Arc::new(limited.unwrap()) };
        for _ in 0..2 {
            assert_eq!(asked(&limited).await, "4 10");
            assert!(limited.inner.look_ups.is_none());
        }
    }

    /// How often the rows of a public file repeat a key is read once for each state of the file,
    /// until the next declaration.
    #[tokio::test]
    async fn what_planning_reads_of_public_files_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("{}/{name}.csv", folder.path().display());
        fs::write(path("visits"), "kind\n1\n2\n2\n").unwrap();
        fs::write(path("kinds"), "number,name\n1,a\n2,b\n").unwrap();
        let engine = Engine::in_memory().unwrap();
        let owner = engine.owner();
        for name in ["visits", "kinds"] {
            let path = path(name);
            let create = format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{path}'");
            owner.execute(&create).await.unwrap();
        }
        for statement in [
            "ALTER TABLE visits SET PRIVACY UNIT ROW",
            "ALTER TABLE kinds SET PUBLIC",
            "CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=900000)",
        ] {
            owner.execute(statement).await.unwrap();
        }
        let explained = || {
            let lab = engine.analyst("lab").unwrap();
            let sql = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN kinds ON kind = number";
            lab.explain(sql).unwrap().to_string()
        };
        let kept = || engine.inner.public.len();
        // Files that were changed just now could be changed again without a trace.
        let once = explained();
        assert_eq!(kept(), 0);
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        for _ in 0..2 {
            assert_eq!((explained(), kept()), (once.clone(), 1));
        }
        // The same file has another row now.
        fs::write(path("kinds"), "number,name\n1,a\n2,b\n2,c\n").unwrap();
        let twice = explained();
        assert_ne!(twice, once);
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        for _ in 0..2 {
            assert_eq!((explained(), kept()), (twice.clone(), 2));
        }
        // Another file takes its place.
        fs::write(path("other"), "number,name\n1,a\n2,b\n").unwrap();
        fs::rename(path("other"), path("kinds")).unwrap();
        assert_eq!(explained(), once);
        owner.execute("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1000000)").await.unwrap();
        assert_eq!(kept(), 0);
    }
}
