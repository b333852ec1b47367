//! What fails after the charge says one constant thing, and nothing private is in what the engine
//! says of itself.
//!
//! Tables that fail in every way that a source of rows can: with an error, with a panic in a
//! query's own thread or in another one, with rows that never come, with more rows than there is
//! memory. Every message quotes a cell, and the cell must not be found in the error, in its `Debug`
//! or its sources, in the `Debug` of any type, or in the log.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, ArrayData, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::StreamExt;
use hushql::{Analyst, Engine, Error, Resources, Session};

/// A cell that stands nowhere but in the data.
const CANARY: &str = "Zyxquorina";

const QUERY: &str = "SELECT LAPLACE(eps=1) SUM(CLAMP(x, 0, 9)) FROM people WHERE name <> 'nobody'";

fn people(rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    // Long, so that whoever keeps them needs more room than for the numbers.
    let names = (0..rows).map(|i| Some(format!("{CANARY}{i:0300}")));
    let names: ArrayRef = Arc::new(names.collect::<StringArray>());
    RecordBatch::try_from_iter([("id", Arc::clone(&ids)), ("name", names), ("x", ids)]).unwrap()
}

/// How a table fails after its first batch.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Error,
    Panic,
    PanicElsewhere,
    Never,
    Fine,
}

#[derive(Debug)]
struct Failing {
    schema: SchemaRef,
    failure: Failure,
    rows: i64,
    batches: usize,
}

impl PartitionStream for Failing {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let failure = self.failure;
        let (rows, batches) = (self.rows, self.batches);
        let first = futures::stream::iter((0..batches).map(move |_| Ok(people(rows))));
        let then = async move {
            match failure {
                Failure::Error => Some(Err(DataFusionError::Execution(format!("cell {CANARY}")))),
                Failure::Panic => panic!("cell {CANARY}"),
                Failure::PanicElsewhere => {
                    let task = tokio::spawn(async { panic!("cell {CANARY}") });
                    std::panic::resume_unwind(task.await.unwrap_err().into_panic())
                }
                Failure::Never => futures::future::pending().await,
                Failure::Fine => None,
            }
        };
        let rows = first.chain(futures::stream::once(then).filter_map(futures::future::ready));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

/// Three partitions of so many batches.
fn table(failure: Failure, rows: i64, batches: usize) -> Arc<dyn TableProvider> {
    let schema = people(0).schema();
    let one = || {
        let schema = Arc::clone(&schema);
        Arc::new(Failing { schema, failure, rows, batches }) as Arc<dyn PartitionStream>
    };
    let all = (0..3).map(|_| one()).collect();
    Arc::new(StreamingTable::try_new(Arc::clone(&schema), all).unwrap())
}

async fn lab(failure: Failure, rows: i64, resources: Resources) -> Analyst {
    lab_of(table(failure, rows, 1), resources).await
}

async fn lab_of(people: Arc<dyn TableProvider>, resources: Resources) -> Analyst {
    let engine = Engine::builder().resources(resources).in_memory().unwrap();
    engine.register_table("people", people).unwrap();
    for declaration in [
        "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 5",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000)",
    ] {
        engine.owner().execute(declaration).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

fn spent(session: &Session) -> i64 {
    session.budgets().unwrap().iter().map(|b| b.spent.nano).sum()
}

/// Everything that an error shows to whoever prints it.
fn shown(error: &Error) -> String {
    let mut shown =
        format!("{error} {error:?} {error:#?} {:?} {:?}", error.hint(), error.message());
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        shown += &format!("{error} {error:?}");
        source = error.source();
    }
    shown
}

/// As little memory as the query is not refused for.
async fn least(sql: &str) -> Resources {
    let of = |memory| Resources::default().with_memory(Some(memory));
    let error = lab(Failure::Fine, 10, of(1)).await.query(sql).await.map(drop).unwrap_err();
    let hint = error.hint().unwrap();
    let megabytes = hint.split("--memory ").nth(1).and_then(|size| size.strip_suffix("MB"));
    of(megabytes.unwrap().parse::<usize>().unwrap() * 1_000_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_after_the_charge_says_the_same() {
    let quick = Resources::default().with_time(Some(Duration::from_millis(300)));
    let usual = Resources::default;
    let grouped = "SELECT LAPLACE(eps=1) SUM(CLAMP(t, 0, 9)) FROM (SELECT id, SUM(x) AS t FROM people GROUP BY id)";
    let long = "SELECT a.n FROM (SELECT x % 10 AS n, LAPLACE(eps=1) COUNT(*) AS c FROM people GROUP BY x % 10 KEYS (0, 1, 2, 3, 4)) a";
    let short = Resources::default().with_rows(4);
    let mut said = Vec::new();
    for (failure, rows, resources, sql) in [
        (Failure::Error, 10, usual(), QUERY),
        (Failure::Panic, 10, usual(), QUERY),
        (Failure::PanicElsewhere, 10, usual(), QUERY),
        (Failure::Panic, 10, usual(), grouped),
        (Failure::PanicElsewhere, 10, usual(), grouped),
        (Failure::Never, 10, quick, QUERY),
        (Failure::Fine, 200_000, least(QUERY).await, QUERY),
        (Failure::Fine, 200_000, least(grouped).await, grouped),
        (Failure::Fine, 10, short, long),
    ] {
        let session = lab(failure, rows, resources).await;
        let error = session.query(sql).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Execution), "{failure:?} {sql}: {error}");
        assert!(!shown(&error).contains(CANARY), "{failure:?}: {error:?}");
        assert_eq!(spent(&session), 1_000_000_000, "{failure:?}: the charge stands");
        said.push(shown(&error));
        // The session goes on.
        let again = session.query(sql).await.map(drop).unwrap_err();
        assert!(matches!(again, Error::Execution), "{failure:?}: {again}");
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
    // The same tables and limits let an honest query through.
    for (rows, sql) in [(10, QUERY), (10, grouped), (10, long)] {
        lab(Failure::Fine, rows, Resources::default()).await.query(sql).await.unwrap();
    }
}

/// A table that fails while a query is planned fails for every query alike: nothing is read or
/// charged.
#[tokio::test]
async fn a_panic_while_planning_is_an_error_and_free() {
    #[derive(Debug)]
    struct Unplanned(SchemaRef);
    #[async_trait::async_trait]
    impl TableProvider for Unplanned {
        fn schema(&self) -> SchemaRef {
            Arc::clone(&self.0)
        }
        fn table_type(&self) -> datafusion::logical_expr::TableType {
            datafusion::logical_expr::TableType::Base
        }
        async fn scan(
            &self,
            _state: &dyn datafusion::catalog::Session,
            _projection: Option<&Vec<usize>>,
            _filters: &[datafusion::logical_expr::Expr],
            _limit: Option<usize>,
        ) -> datafusion::common::Result<Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            panic!("cell {CANARY}")
        }
    }
    let engine = Engine::in_memory().unwrap();
    engine.register_table("people", Arc::new(Unplanned(people(0).schema()))).unwrap();
    let owner = engine.owner();
    owner.execute("ALTER TABLE people SET PRIVACY UNIT ROW").await.unwrap();
    owner.execute("CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=10)").await.unwrap();
    for error in [
        owner.query(QUERY).await.map(drop).unwrap_err(),
        owner.execute(QUERY).await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Internal), "{error}");
        assert!(!shown(&error).contains(CANARY));
    }
    assert_eq!(spent(&owner), 0);
}

/// `Debug` of an engine once printed its tables, and of a table in memory that is its rows.
#[tokio::test]
async fn debug_shows_no_rows() {
    fn hides(what: &str, shown: &impl Debug) {
        for shown in [format!("{shown:?}"), format!("{shown:#?}")] {
            assert!(!shown.contains(CANARY), "{what}: {shown}");
        }
    }
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("people", people(3)).unwrap();
    let owner = engine.owner();
    owner.execute("ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await.unwrap();
    owner.execute("CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=10)").await.unwrap();
    hides("an engine", &engine);
    hides("a session", &owner);
    hides("an answer", &owner.query(QUERY).await.unwrap());
    hides(
        "what an explanation gives",
        &owner.execute(&format!("EXPLAIN PRIVACY {QUERY}")).await.unwrap(),
    );
    hides("a description", &owner.execute("DESCRIBE people").await.unwrap());

    // The stages are public types too.
    let table =
        datafusion::datasource::MemTable::try_new(people(0).schema(), vec![vec![people(3)]]);
    let table = hushql_engine::exec::PrivateTable::new("people", Arc::new(table.unwrap()));
    hides("a private table", &table);
    let state = hushql_engine::exec::session_state();
    let scan = table.scan(&state, None, &[], None).await.unwrap();
    hides("a private scan", &scan);
    let source = datafusion::datasource::provider_as_source(Arc::new(table));
    let sources = std::iter::once(("people".to_owned(), source)).collect();
    let hushql_engine::dialect::Statement::Query(query) =
        hushql_engine::dialect::parse(QUERY).unwrap()
    else {
        panic!("a query")
    };
    let bound = hushql_engine::bind::bind(query, &sources).unwrap();
    hides("what was bound", &bound);
}

/// A logger that counts the records in which the cell stands.
struct Listener {
    records: AtomicUsize,
    telling: Mutex<Vec<String>>,
}

static LISTENER: Listener =
    Listener { records: AtomicUsize::new(0), telling: Mutex::new(Vec::new()) };

impl log::Log for Listener {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.records.fetch_add(1, Ordering::Relaxed);
        let text = record.args().to_string();
        if text.contains(CANARY) {
            self.telling.lock().unwrap().push(format!("{}: {text}", record.target()));
        }
    }

    fn flush(&self) {}
}

/// DataFusion logs plans and decisions; an application that keeps its log at the finest level keeps
/// no rows with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_tells_no_rows() {
    log::set_logger(&LISTENER).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    for (failure, rows) in [(Failure::Fine, 100), (Failure::Error, 10), (Failure::Panic, 10)] {
        let session = lab(failure, rows, Resources::default()).await;
        let _ = session.query(QUERY).await;
        let _ = session
            .query("SELECT LAPLACE(eps=1, delta=1e-6) COUNT(*) FROM people GROUP BY name")
            .await;
        let _ = session.query("SELECT name FROM people").await;
    }
    log::set_max_level(log::LevelFilter::Off);
    assert!(LISTENER.records.load(Ordering::Relaxed) > 0, "nothing was logged at all");
    let telling = LISTENER.telling.lock().unwrap();
    assert!(telling.is_empty(), "{telling:?}");
}

/// What is in a folder, and below; it may be gone a moment later.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        found.extend(files(&path));
        found.push(path);
    }
    found
}

/// How many files without a name this process has open below a folder: what does not fit into
/// memory has none.
fn nameless(folder: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    open.filter(|file| file.starts_with(folder) && file.to_string_lossy().ends_with("(deleted)"))
        .count()
}

/// Whether files were written below a folder while something ran; none that has a name has a byte.
async fn writes<T>(folder: &Path, running: impl Future<Output = T>) -> (T, bool) {
    let (done, folder) = (Arc::new(AtomicBool::new(false)), folder.to_owned());
    let watch = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut seen = false;
            while !done.load(Ordering::Relaxed) {
                let sizes = files(&folder).into_iter().filter_map(|path| path.metadata().ok());
                assert!(sizes.filter(|file| file.is_file()).all(|file| file.len() == 0));
                seen |= nameless(&folder) > 0;
                std::thread::sleep(Duration::from_millis(1));
            }
            seen
        }
    });
    let result = running.await;
    done.store(true, Ordering::Relaxed);
    (result, watch.join().unwrap())
}

/// What does not fit into memory is written only where the owner says, and is gone with the query,
/// however it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spilled_rows_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sql = "SELECT LAPLACE(eps=1) SUM(CLAMP(t, 0, 9)) FROM (SELECT id, name, SUM(x) AS t FROM people GROUP BY id, name)";
    // Three of these sizes are too small for the 10,000 groups of a partition and enough for what
    // merges them from files.
    let (mut written, mut answered) = (0, 0);
    for memory in [2, 6, 9, 12, 16, 24, 1024] {
        let (memory, spill) = (Some(memory << 20), Some(folder.to_owned()));
        let resources = Resources::default().with_memory(memory).with_spill(spill);
        let session = lab_of(table(Failure::Fine, 10_000, 4), resources).await;
        let (answer, wrote) = writes(folder, session.query(sql)).await;
        written += usize::from(wrote);
        answered += usize::from(answer.is_ok());
        drop((answer, session));
        // Tasks of a query that failed may still be leaving.
        for _ in 0..500 {
            if files(folder).is_empty() && nameless(folder) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((files(folder), nameless(folder)), (Vec::<PathBuf>::new(), 0));
    }
    assert!(written > 0 || !cfg!(target_os = "linux"), "nothing was written, which proves nothing");
    assert!(answered > 0, "nothing was answered");
}

/// Whether bytes stand anywhere in an array, in what it shows or only keeps.
fn keeps(data: &ArrayData, marked: &[u8]) -> bool {
    let stands = |buffer: &Buffer| buffer.windows(marked.len()).any(|bytes| bytes == marked);
    data.buffers().iter().any(stands) || data.child_data().iter().any(|child| keeps(child, marked))
}

/// Arrays of texts keep the bytes that they were taken from. A choice among unknown candidates that
/// was won by nobody, or groups without the hidden ones, once came with every text of the column
/// behind them, for programs to read.
#[tokio::test]
async fn answers_hold_no_byte_that_they_do_not_show() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..41));
    let notes: Vec<String> = (0..41)
        .map(|i| match i {
            40 => format!("{CANARY}, which nobody else has written"),
            _ => format!("what many people have written, number {}", i % 2),
        })
        .collect();
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let notes = cast(&StringArray::from(notes.clone()), &data_type).unwrap();
        assert!(keeps(&notes.to_data(), CANARY.as_bytes()), "{data_type}");
        let batch = RecordBatch::try_from_iter([("id", Arc::clone(&ids)), ("note", notes)]);
        let engine = Engine::in_memory().unwrap();
        engine.register_batch("people", batch.unwrap()).unwrap();
        for declaration in [
            "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 1",
            "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000, delta=1e-3)",
        ] {
            engine.owner().execute(declaration).await.unwrap();
        }
        let session = engine.analyst("lab").unwrap();
        for (sql, rows) in [
            ("SELECT ARGMAX EXPONENTIAL(eps=10, delta=1e-6) note FROM people GROUP BY note", 1),
            ("SELECT ARGMAX EXPONENTIAL(eps=1e-3, delta=1e-9) note FROM people GROUP BY note", 1),
            ("SELECT TOP 2 PERMUTE_AND_FLIP(eps=20, delta=1e-6) note FROM people GROUP BY note", 2),
            ("SELECT note, LAPLACE(eps=50, delta=1e-6) COUNT(*) AS n FROM people GROUP BY note", 2),
            (
                "SELECT note, GAUSSIAN(eps=50, delta=1e-6) COUNT(*) AS n FROM people GROUP BY note LIMIT 1",
                1,
            ),
        ] {
            let answer = session.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            let shown: usize = answer.batches().iter().map(RecordBatch::num_rows).sum();
            assert_eq!(shown, rows, "{sql}: {answer}");
            for column in answer.batches().iter().flat_map(RecordBatch::columns) {
                assert!(!keeps(&column.to_data(), CANARY.as_bytes()), "{data_type}: {sql}");
            }
        }
    }
}

/// Where the vault, its anchor and the data are is for whoever runs the program; sentences for
/// analysts named the paths.
#[tokio::test]
async fn analysts_are_told_no_path() {
    let folder = tempfile::tempdir().unwrap();
    let (hidden, safe) = (folder.path().join(CANARY), folder.path().join("safe").join(CANARY));
    std::fs::create_dir_all(&hidden).unwrap();
    std::fs::create_dir_all(&safe).unwrap();
    let (vault, anchor, data) =
        (hidden.join("study.db"), safe.join("anchor"), hidden.join("p.csv"));
    std::fs::write(&data, "id,x\n1,2\n2,3\n").unwrap();
    let engine = Engine::builder().anchor(&anchor).init(&vault).unwrap();
    let owner = engine.owner();
    let lab = engine.analyst("lab").unwrap();
    for declaration in [
        format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", data.display()),
        "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 1".to_owned(),
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=100)".to_owned(),
    ] {
        owner.execute(&declaration).await.unwrap();
    }
    let query = "SELECT LAPLACE(eps=1) SUM(CLAMP(x, 0, 9)) FROM people";
    lab.query(query).await.unwrap();
    let mut seen = 0;
    let mut tells_nothing = |what: &str, errors: Vec<Error>| {
        for error in errors {
            assert!(!shown(&error).contains(CANARY), "{what}: {error:?}");
            seen += 1;
        }
    };
    // A data file that has changed, or gone.
    for change in ["id,x\n1,2\n1,3\n", "id,y\n1,2\n"] {
        std::fs::write(&data, change).unwrap();
        tells_nothing("a changed file", vec![lab.query(query).await.map(drop).unwrap_err()]);
    }
    std::fs::remove_file(&data).unwrap();
    tells_nothing("a missing file", vec![lab.query(query).await.map(drop).unwrap_err()]);
    std::fs::write(&data, "id,x\n1,2\n2,3\n").unwrap();
    // An anchor that is gone or damaged, each found by a handle of its own.
    let kept = std::fs::read(&anchor).unwrap();
    for damage in [None, Some(b"no anchor".as_slice())] {
        let lab = Engine::builder().anchor(&anchor).open(&vault).unwrap().analyst("lab").unwrap();
        match damage {
            None => std::fs::remove_file(&anchor).unwrap(),
            Some(bytes) => std::fs::write(&anchor, bytes).unwrap(),
        }
        let mut errors = vec![lab.query(query).await.map(drop).unwrap_err()];
        errors.push(lab.execute(query).await.map(drop).unwrap_err());
        errors.extend(lab.budgets().map(drop).err());
        tells_nothing("an anchor", errors);
        std::fs::write(&anchor, &kept).unwrap();
    }
    // A vault that was moved away, or is something else now.
    std::fs::rename(&vault, hidden.join("elsewhere.db")).unwrap();
    let moved = vec![
        lab.query(query).await.map(drop).unwrap_err(),
        lab.execute("ANALYZE PRIVACY DOMAIN people(x) WITH (eps=0.1)").await.map(drop).unwrap_err(),
        engine.analyst("new").map(drop).unwrap_err(),
    ];
    tells_nothing("a moved vault", moved);
    assert!(seen >= 10, "{seen}");
    // Its owner is told which.
    let error = Engine::open(&vault).map(drop).unwrap_err();
    assert!(error.to_string().contains(CANARY), "{error}");
    let error = engine.owner().query(query).await.map(drop).unwrap_err();
    assert!(error.to_string().contains(CANARY), "{error}");
}

/// People, three visits of each, and public kinds of visits.
async fn clinic(people: i64) -> Engine {
    let engine = Engine::in_memory().unwrap();
    let numbers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let ages = (0..people).map(|i| i % 90).collect();
    let people_rows = [("id", numbers((0..people).collect())), ("age", numbers(ages))].into_iter();
    engine.register_batch("persons", RecordBatch::try_from_iter(people_rows).unwrap()).unwrap();
    let visits = [
        ("person", numbers((0..3 * people).map(|i| i / 3).collect())),
        ("kind", numbers((0..3 * people).map(|i| i % 4).collect())),
        ("amount", numbers((0..3 * people).map(|i| i % 10).collect())),
    ];
    engine.register_batch("visits", RecordBatch::try_from_iter(visits).unwrap()).unwrap();
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let kinds = [("kind", numbers((0..4).collect())), ("name", names)];
    engine.register_batch("kinds", RecordBatch::try_from_iter(kinds).unwrap()).unwrap();
    for declaration in [
        "ALTER TABLE persons SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES persons(id) MAX ROWS 5",
        "ALTER TABLE kinds SET PUBLIC",
        "CREATE PRIVACY BUDGET b FOR persons LIMIT (epsilon=1000)",
    ] {
        engine.owner().execute(declaration).await.unwrap();
    }
    engine
}

/// After the charge, joins are planned by the numbers of rows. All that is shown before, and the
/// charge, is the same for ten people and for thirty thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_of_tables_are_not_shown() {
    const STATEMENTS: [&str; 7] = [
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits v JOIN persons p ON v.person = p.id WHERE p.age > 30",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits v JOIN persons p ON v.person = p.id JOIN kinds k ON k.kind = v.kind WHERE k.name = 'a'",
        "SELECT k.name, LAPLACE(eps=1) SUM(CLAMP(v.amount, 0, 9)) AS s FROM visits v JOIN kinds k ON k.kind = v.kind GROUP BY k.name",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM persons WHERE id IN (SELECT person FROM visits WHERE amount > 3)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM persons p LEFT JOIN visits v ON v.person = p.id WHERE v.amount > 2",
        "SELECT v.person FROM visits v JOIN persons p ON v.person = p.id",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits v JOIN visits w ON v.amount = w.amount",
    ];
    let mut all = Vec::new();
    for people in [10, 30_000] {
        let session = clinic(people).await.analyst("lab").unwrap();
        let (mut told, mut answered) = (Vec::new(), 0);
        for sql in STATEMENTS {
            match session.explain(sql) {
                Ok(explanation) => told.push(format!("{explanation} {}", explanation.to_json())),
                Err(error) => told.push(shown(&error)),
            }
            told.push(match session.cost(sql) {
                Ok(cost) => format!("{cost:?}"),
                Err(error) => shown(&error),
            });
            match session.query(sql).await {
                Ok(answer) => {
                    answered += 1;
                    told.push(format!("{:?}", answer.receipt().map(|receipt| receipt.spent)));
                }
                Err(error) => told.push(shown(&error)),
            }
            told.push(spent(&session).to_string());
        }
        assert_eq!(answered, 5);
        let ledger = "SELECT charge, spaces, budgets, mechanism, parameters, sensitivity, epsilon, delta, statement FROM hushql.ledger";
        let ledger = session.query(ledger).await.unwrap();
        told.push(pretty_format_batches(ledger.batches()).unwrap().to_string());
        all.push(told);
    }
    let [small, large] = all.as_slice() else { panic!("two databases") };
    for (small, large) in small.iter().zip(large) {
        assert_eq!(small, large);
    }
}
