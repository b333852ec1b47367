//! Attacks that no text can say: queries that are dropped, tables that fail, files that change
//! under a query, and owners who declare while analysts ask.
//!
//! Throughout: what an analyst sees is an answer, a refusal, or one constant sentence; nothing is
//! read before it is charged; what was charged stays charged; and the engine goes on.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use hushql::{Engine, Error, Session};

use super::world::{CANARY_ID, NAME};

const ASK: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t";

/// How a table behaves while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Each batch comes after so many pauses.
    Slow(usize),
    Fails,
    Panics,
    PanicsAtOnce,
}

#[derive(Debug)]
struct Table {
    batch: RecordBatch,
    manner: Manner,
    read: Arc<AtomicUsize>,
}

impl PartitionStream for Table {
    fn schema(&self) -> &SchemaRef {
        self.batch.schema_ref()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.read.fetch_add(1, Ordering::SeqCst);
        assert!(self.manner != Manner::PanicsAtOnce, "{NAME} was here");
        let (batch, manner) = (self.batch.clone(), self.manner);
        let rows = futures::stream::unfold(0, move |at| {
            let batch = batch.clone();
            async move {
                if at == 4 {
                    return None;
                }
                match manner {
                    Manner::Slow(pauses) => {
                        for _ in 0..pauses {
                            tokio::task::yield_now().await;
                        }
                        Some((Ok(batch), at + 1))
                    }
                    Manner::Fails => {
                        let told = format!("Cannot cast string '{NAME}' to value of Int64 type");
                        Some((Err(DataFusionError::Execution(told)), at + 1))
                    }
                    Manner::Panics | Manner::PanicsAtOnce => {
                        panic!("index {CANARY_ID} out of range")
                    }
                }
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(self.batch.schema(), rows))
    }
}

fn rows(ids: &[i64], names: &[&str]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("name", names, true)]).unwrap()
}

async fn declare(engine: &Engine, statements: &[&str]) {
    for statement in statements {
        let done = engine.owner().execute(statement).await;
        done.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
}

async fn engine_with(manner: Manner, read: &Arc<AtomicUsize>) -> Engine {
    let engine = Engine::in_memory().unwrap();
    let batch = rows(&[1, 2, CANARY_ID], &["a", "b", NAME]);
    let table = Table { batch: batch.clone(), manner, read: Arc::clone(read) };
    let table = StreamingTable::try_new(batch.schema(), vec![Arc::new(table)]).unwrap();
    engine.register_table("t", Arc::new(table)).unwrap();
    engine.register_batch("calm", rows(&[1], &["a"])).unwrap();
    declare(
        &engine,
        &[
            "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 4",
            "ALTER TABLE calm SET PRIVACY UNIT ROW",
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000, delta=0.1)",
            "CREATE PRIVACY BUDGET calm FOR calm LIMIT (epsilon=100000)",
        ],
    )
    .await;
    engine
}

fn spent(session: &Session, budget: &str) -> i64 {
    let budgets = session.budgets().unwrap();
    let state = budgets.iter().find(|state| state.budget.name == budget).unwrap();
    state.spent.nano / 1_000_000_000
}

/// An error of the source, or a panic of it, says the same sentence whatever it holds, and is paid.
#[tokio::test]
async fn what_fails_while_it_is_read_says_one_sentence() {
    let mut said = Vec::new();
    for manner in [Manner::Fails, Manner::Panics, Manner::PanicsAtOnce] {
        let read = Arc::default();
        let engine = engine_with(manner, &read).await;
        let lab = engine.analyst("lab").unwrap();
        for (n, sql) in [
            ASK,
            "SELECT name, LAPLACE(eps=1, delta=1e-9) COUNT(*) FROM t GROUP BY name",
            "SELECT ARGMAX EXPONENTIAL(eps=1, delta=1e-9) name FROM t GROUP BY name",
            "SELECT LAPLACE(eps=1) SUM(CLAMP(n, 0, 9)) FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id) q",
        ]
        .into_iter()
        .enumerate()
        {
            let error = lab.query(sql).await.unwrap_err();
            assert!(matches!(error, Error::Execution), "{manner:?} {sql}: {error}");
            said.push(format!("{error}{error:?}{}{:?}", error.message(), error.hint()));
            assert_eq!(spent(&lab, "t"), i64::try_from(n).unwrap() + 1, "{sql}");
        }
        assert!(lab.query("SELECT LAPLACE(eps=1) COUNT(*) FROM calm").await.is_ok(), "{manner:?}");
        let ledger = lab.query("SELECT * FROM hushql.ledger").await.unwrap().to_string();
        said.push(ledger);
    }
    assert!(said.iter().all(|text| !text.contains(NAME) && !text.contains(&CANARY_ID.to_string())));
    said.retain(|text| text.contains("failed"));
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
}

/// A query is dropped after any number of steps: it is charged before anything is read, and the
/// charge stands.
#[tokio::test]
async fn a_query_that_is_dropped_is_paid_if_anything_was_read() {
    for sql in [
        ASK,
        "SELECT name, LAPLACE(eps=1, delta=1e-9) COUNT(*) AS n FROM t GROUP BY name",
        "SELECT n FROM (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE name <> 'a') q",
    ] {
        let read = Arc::default();
        let engine = engine_with(Manner::Slow(3), &read).await;
        let lab = engine.analyst("lab").unwrap();
        let (mut dropped, mut unread) = (0, 0);
        for steps in (0..40).chain([80, 160, 320]) {
            let (before, looked) = (spent(&lab, "t"), read.load(Ordering::SeqCst));
            let mut done = false;
            {
                let mut query = pin!(lab.query(sql));
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..steps {
                    if let Poll::Ready(answer) = query.as_mut().poll(&mut context) {
                        answer.unwrap();
                        done = true;
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            let charged = spent(&lab, "t") - before;
            assert!((0..=1).contains(&charged), "{sql}: {steps}: charged {charged}");
            if read.load(Ordering::SeqCst) > looked {
                assert_eq!(charged, 1, "{sql}: read after {steps} steps, and not charged");
            } else {
                unread += 1;
            }
            assert!(charged == 1 || !done, "{sql}: {steps}");
            dropped += usize::from(!done);
        }
        assert!(dropped >= 3 && unread >= 1, "{sql}: {dropped} {unread}");
        // What is left over of dropped queries keeps nobody waiting.
        let answer = tokio::time::timeout(Duration::from_secs(60), lab.query(sql)).await;
        assert!(answer.unwrap().is_ok());
    }
}

/// Of many sessions at once exactly as many are answered as the budget has room for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_epsilon_is_given_once() {
    let engine = engine_with(Manner::Slow(1), &Arc::default()).await;
    declare(&engine, &["ALTER PRIVACY BUDGET t SET LIMIT (epsilon=5, delta=0.1)"]).await;
    let asked: Vec<_> = (0..24)
        .map(|n| {
            let session = engine.analyst(&format!("a{}", n % 5)).unwrap();
            tokio::spawn(async move { session.query(ASK).await })
        })
        .collect();
    let mut answered = 0;
    for one in asked {
        match one.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => assert!(matches!(error, Error::Budget(_)), "{error}"),
        }
    }
    assert_eq!(answered, 5);
    assert_eq!(spent(&engine.owner(), "t"), 5);
}

/// An owner declares, takes back and declares again while analysts ask: no moment shows a row, and
/// each answer is paid.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_moment_between_two_declarations_shows_a_row() {
    let engine = engine_with(Manner::Slow(1), &Arc::default()).await;
    let ended = Arc::new(AtomicBool::new(false));
    let owner = {
        let (engine, ended) = (engine.clone(), Arc::clone(&ended));
        tokio::spawn(async move {
            for round in 0..15 {
                for statement in [
                    "ALTER TABLE t ALTER COLUMN name SET PRIVACY DOMAIN IN ('a', 'b')",
                    "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 1",
                    "ALTER TABLE t SET PRIVACY UNIT ROW",
                    "ALTER TABLE t ALTER COLUMN name DROP PRIVACY DOMAIN",
                    "ALTER PRIVACY BUDGET t SET LIMIT (epsilon=1)",
                    "DROP PRIVACY BUDGET t",
                    "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000, delta=0.1)",
                    "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 4",
                ] {
                    // Some of them contradict what the round before left; that is the owner's to
                    // hear.
                    let _ = engine.owner().execute(statement).await;
                    if round % 3 == 0 {
                        engine.register_batch("calm", rows(&[1, 2], &["a", "b"])).unwrap();
                    }
                    tokio::task::yield_now().await;
                }
            }
            ended.store(true, Ordering::SeqCst);
        })
    };
    let asking: Vec<_> = ["lab", "eve"]
        .into_iter()
        .map(|name| {
            let (session, ended) = (engine.analyst(name).unwrap(), Arc::clone(&ended));
            tokio::spawn(async move {
                let mut answered = 0;
                while !ended.load(Ordering::SeqCst) {
                    for sql in [
                        ASK,
                        "SELECT name, LAPLACE(eps=1) COUNT(*) AS n FROM t GROUP BY name",
                        "SELECT name FROM t",
                        "SELECT COUNT(*) FROM t",
                        "SELECT LAPLACE(eps=1) COUNT(*) FROM calm",
                    ] {
                        match session.query(sql).await {
                            Ok(answer) => {
                                assert!(sql.contains("LAPLACE"), "{sql}: {answer}");
                                assert!(!answer.to_string().contains(NAME), "{sql}: {answer}");
                                answered += 1;
                            }
                            // Whoever declares without end keeps everybody waiting, and charges
                            // nothing.
                            Err(Error::Refused(_) | Error::Budget(_)) => {}
                            Err(Error::Ledger(error)) if error.may_be_tried_again() => {}
                            Err(error) => panic!("{sql}: {error:?}"),
                        }
                    }
                }
                answered
            })
        })
        .collect();
    owner.await.unwrap();
    let mut answered = 0;
    for one in asking {
        answered += one.await.unwrap();
    }
    assert!(answered > 0);
    let ledger = engine.owner().query("SELECT COUNT(*) AS n FROM hushql.ledger").await.unwrap();
    let charged = ledger.batches()[0].column(0).clone();
    let charged = arrow::util::display::array_value_to_string(&charged, 0).unwrap();
    assert_eq!(charged, answered.to_string());
}

/// Rows as the bytes of a file.
fn file(format: &str, batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    match format {
        "CSV" => arrow::csv::Writer::new(&mut bytes).write(batch).unwrap(),
        "JSON" => {
            let mut writer = arrow::json::LineDelimitedWriter::new(&mut bytes);
            writer.write(batch).unwrap();
            writer.finish().unwrap();
        }
        "PARQUET" => {
            let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
            writer.write(batch).unwrap();
            writer.close().unwrap();
        }
        _ => {
            let mut writer =
                arrow::ipc::writer::FileWriter::try_new(&mut bytes, batch.schema_ref());
            let writer = writer.as_mut().unwrap();
            writer.write(batch).unwrap();
            writer.finish().unwrap();
        }
    }
    bytes
}

/// What an analyst sees of a query over files: never more than a status and a constant text.
async fn seen(session: &Session, sql: &str, path: &Path) -> String {
    let text = match session.query(sql).await {
        Ok(_) => "answered".to_owned(),
        Err(error @ (Error::Refused(_) | Error::Execution | Error::Budget(_))) => {
            format!("{error}{error:?}")
        }
        Err(error) => panic!("{sql}: {error:?}"),
    };
    assert!(!text.contains(NAME) && !text.contains(path.to_str().unwrap()), "{text}");
    text
}

/// Lets a file change without a declaration.
const LIVE: &str = " OPTIONS ('content_hash' 'false')";

/// A file is cut, emptied, filled with noise, replaced by another one, by a folder, by nothing,
/// between two questions: the same is seen whether the person is in it or not, and what is refused
/// is free.
#[tokio::test]
async fn a_file_that_changes_tells_nothing_about_a_person() {
    let whole = rows(&[1, 2, 3, CANARY_ID], &["a", "b", "c", NAME]);
    for format in ["CSV", "JSON", "PARQUET", "ARROW"] {
        let mut stories = Vec::new();
        // The file may change, or is held to its declaration.
        for (people, options) in [(4, LIVE), (3, LIVE), (4, ""), (3, "")] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t");
            let good = file(format, &whole.slice(0, people));
            fs::write(&path, &good).unwrap();
            let engine = Engine::in_memory().unwrap();
            let location = path.display();
            let columns =
                if format == "CSV" || format == "JSON" { "(id BIGINT, name VARCHAR)" } else { "" };
            declare(
                &engine,
                &[
                    &format!(
                        "CREATE EXTERNAL TABLE t {columns} STORED AS {format} LOCATION '{location}'{options}"
                    ),
                    "ALTER TABLE t SET PRIVACY UNIT ROW",
                    "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000) REPLAY (OFF)",
                ],
            )
            .await;
            let lab = engine.analyst("lab").unwrap();
            let mut story = Vec::new();
            let other = file(format, &rows(&[5], &["e"]));
            let renamed = file(format, &rows(&[5], &["e"]).project(&[0]).unwrap());
            for (what, bytes) in [
                ("as declared", good.clone()),
                ("of other rows", other),
                ("of fewer columns", renamed),
                ("empty", Vec::new()),
                ("cut at the end", good[..good.len() - 1].to_vec()),
                ("cut to its head", good[..8].to_vec()),
                ("noise", (0..2_000_u32).map(|i| (i * i % 251) as u8).collect()),
                ("twice", [good.clone(), good.clone()].concat()),
                ("back", good.clone()),
            ] {
                fs::write(&path, bytes).unwrap();
                let before = spent(&lab, "t");
                let text = seen(&lab, ASK, &path).await;
                let charged = spent(&lab, "t") - before;
                assert_eq!(charged == 0, text.contains("HQ028"), "{format} {what}: {text}");
                story.push((what, text, charged));
            }
            fs::remove_file(&path).unwrap();
            story.push(("gone", seen(&lab, ASK, &path).await, spent(&lab, "t")));
            fs::create_dir(&path).unwrap();
            story.push(("a folder", seen(&lab, ASK, &path).await, spent(&lab, "t")));
            fs::remove_dir(&path).unwrap();
            std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
            story.push(("a link", seen(&lab, ASK, &path).await, spent(&lab, "t")));
            fs::remove_file(&path).unwrap();
            fs::write(&path, &good).unwrap();
            story.push(("back", seen(&lab, ASK, &path).await, spent(&lab, "t")));
            stories.push(story);
        }
        assert_eq!(stories[0], stories[1], "{format}");
        assert_eq!(stories[2], stories[3], "{format}");
        for story in &stories {
            assert_eq!(story.last().unwrap().1, "answered", "{format}");
        }
        let refused = stories[2].iter().filter(|(_, text, _)| text.contains("HQ028")).count();
        assert_eq!(refused, stories[2].len() - 3, "{format}: {:?}", stories[2]);
    }
}

/// Another process writes the file again and again, in place and by renaming, while analysts ask:
/// they see an answer, the refusal of a changed file, or the sentence for what failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_that_is_written_while_it_is_read_tells_nothing() {
    let whole = rows(&[1, 2, 3, CANARY_ID], &["a", "b", "c", NAME]);
    for format in ["CSV", "PARQUET"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let good = file(format, &whole);
        fs::write(&path, &good).unwrap();
        let engine = Engine::in_memory().unwrap();
        let location = path.display();
        let columns = if format == "CSV" { "(id BIGINT, name VARCHAR)" } else { "" };
        declare(
            &engine,
            &[
                &format!(
                    "CREATE EXTERNAL TABLE t {columns} STORED AS {format} LOCATION '{location}'"
                ),
                "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000)",
            ],
        )
        .await;
        let ended = Arc::new(AtomicBool::new(false));
        let writer = {
            let (path, good, ended) = (path.clone(), good.clone(), Arc::clone(&ended));
            std::thread::spawn(move || {
                let mut n = 0_usize;
                while !ended.load(Ordering::SeqCst) {
                    n += 1;
                    match n % 4 {
                        0 => fs::write(&path, &good[..n % good.len()]).unwrap(),
                        1 => fs::write(&path, &good).unwrap(),
                        2 => {
                            fs::write(path.with_extension("new"), &good).unwrap();
                            fs::rename(path.with_extension("new"), &path).unwrap();
                        }
                        _ => {
                            let _ = fs::remove_file(&path);
                        }
                    }
                    std::thread::sleep(Duration::from_micros(300));
                }
                fs::write(&path, &good).unwrap();
            })
        };
        let lab = engine.analyst("lab").unwrap();
        for _ in 0..150 {
            seen(&lab, ASK, &path).await;
        }
        ended.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        assert_eq!(seen(&lab, ASK, &path).await, "answered", "{format}");
    }
}

/// A table that claims to have applied a filter, and has not, is not believed.
#[tokio::test]
async fn a_table_that_lies_about_its_filters_is_not_believed() {
    #[derive(Debug)]
    struct Liar(Arc<dyn TableProvider>);

    #[async_trait::async_trait]
    impl TableProvider for Liar {
        fn schema(&self) -> SchemaRef {
            self.0.schema()
        }

        fn table_type(&self) -> datafusion::logical_expr::TableType {
            self.0.table_type()
        }

        fn supports_filters_pushdown(
            &self,
            filters: &[&datafusion::logical_expr::Expr],
        ) -> datafusion::common::Result<Vec<datafusion::logical_expr::TableProviderFilterPushDown>>
        {
            let exact = datafusion::logical_expr::TableProviderFilterPushDown::Exact;
            Ok(vec![exact; filters.len()])
        }

        async fn scan(
            &self,
            state: &dyn datafusion::catalog::Session,
            projection: Option<&Vec<usize>>,
            _filters: &[datafusion::logical_expr::Expr],
            _limit: Option<usize>,
        ) -> datafusion::common::Result<Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            self.0.scan(state, projection, &[], None).await
        }
    }

    let engine = Engine::in_memory().unwrap();
    let batch = rows(&[1, 2, 3], &["a", "b", "a"]);
    let table = datafusion::datasource::MemTable::try_new(batch.schema(), vec![vec![batch]]);
    engine.register_table("t", Arc::new(Liar(Arc::new(table.unwrap())))).unwrap();
    declare(
        &engine,
        &[
            "ALTER TABLE t SET PRIVACY UNIT ROW",
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000)",
        ],
    )
    .await;
    // Noise of this cost is 0 but with probability e^-1000.
    let sql = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE name = 'a' AND id < 3";
    let answer = engine.analyst("lab").unwrap().query(sql).await.unwrap();
    let n = arrow::util::display::array_value_to_string(answer.batches()[0].column(0), 0).unwrap();
    assert_eq!(n, "1");
}

/// Whoever builds two draws on one kept draw, and pays the difference twice, learns more than is
/// charged. So every way is tried at once: sessions, statements that were prepared before, other
/// words, views, and a role that is made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_draw_is_built_on_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, "id,city\n1,Oslo\n2,Rome\n3,Rome\n").unwrap();
    let engine = Engine::init(folder.path().join("v.db")).unwrap();
    declare(
        &engine,
        &[
            &format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", path.display()),
            "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000)",
            "CREATE VIEW everyone AS SELECT * FROM t",
            "CREATE ROLE lab",
        ],
    )
    .await;
    let ask = |eps: f64, form: usize| match form % 4 {
        0 => format!("SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM t"),
        1 => format!("SELECT LAPLACE(eps={eps}) COUNT(*) + 1 AS m FROM everyone AS x"),
        2 => format!("SELECT AUTO(eps={eps}) COUNT(*) FROM (SELECT city FROM t) q"),
        _ => format!("SELECT LAPLACE(eps={eps}) COUNT(1) AS ones FROM t"),
    };
    let mut charged = std::collections::BTreeMap::new();
    let mut used = std::collections::BTreeSet::new();
    let (mut epsilon, mut refined, mut remade) = (1_i64, 0, 0);
    for round in 0..8 {
        if round == 5 {
            declare(&engine, &["DROP ROLE lab", "CREATE ROLE lab"]).await;
            remade = epsilon - 1;
        }
        // What is prepared now is quoted over the draw that is kept now.
        let steps: Vec<i64> = (0..5).map(|step| epsilon + step).collect();
        epsilon += 5;
        let price = |step: &i64| *step as f64 / 8.0;
        let lab = engine.analyst("lab").unwrap();
        let prepared: Vec<_> = steps
            .iter()
            .enumerate()
            .map(|(form, step)| lab.prepare(&ask(price(step), form)).unwrap())
            .collect();
        let asked = prepared.into_iter().zip(&steps).map(|(prepared, step)| {
            let (lab, sql) = (engine.analyst("lab").unwrap(), ask(price(step), round));
            let is_prepared = step % 2 == 0;
            tokio::spawn(async move {
                match is_prepared {
                    // Its quote may be over.
                    true => prepared.execute().await.ok(),
                    false => Some(lab.query(&sql).await.unwrap()),
                }
            })
        });
        let asked: Vec<_> = asked.collect();
        for (step, answer) in steps.iter().zip(asked) {
            let Some(answer) = answer.await.unwrap() else { continue };
            let receipt = answer.receipt().unwrap();
            assert!(!receipt.is_replayed, "{receipt}");
            let mut own = *step;
            for charge in &receipt.refined {
                assert!(used.insert(*charge), "charge {charge} is built on twice: {receipt}");
                let before = charged[charge];
                assert!(before > remade, "a new role builds on nothing of the old one: {receipt}");
                own -= before;
                refined += 1;
            }
            charged.insert(receipt.sequence, *step);
            assert_eq!(receipt.spent.to_string(), format!("ε = {}", price(&own)));
        }
    }
    assert!(refined >= 6, "{refined}");
    // What was charged is the ε of the draws on which nothing is built.
    let whole: i64 =
        charged.iter().filter(|(charge, _)| !used.contains(charge)).map(|(_, e)| e).sum();
    let spent = engine.owner().budgets().unwrap()[0].spent.nano;
    assert_eq!(spent, whole * 125_000_000);
}
