//! Declarations beside queries: in every order, at every moment, and of the same rows twice.
//!
//! Tables here meddle: while a query plans or reads them, an owner declares something. What is
//! charged, and what leaves, must be what the declarations of one moment allow.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as Planner, TableProvider};
use datafusion::common::Result as Planned;
use datafusion::datasource::MemTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::{catalog::streaming::StreamingTable, error::DataFusionError};
use hushql::{Engine, Error, Output, Owner, Session};

fn ids(n: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n));
    let other: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n).map(|i| i % 3)));
    RecordBatch::try_from_iter([("id", column), ("k", other)]).unwrap()
}

async fn said(session: &Session, sql: &str) -> Result<String, Error> {
    match session.execute(sql).await? {
        Output::Answer(answer) => Ok(answer.to_string()),
        Output::Done(text) => Ok(text),
        other => Ok(format!("{other:?}")),
    }
}

async fn all(session: &Session, statements: &[&str]) {
    for sql in statements {
        said(session, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

/// What is spent of a budget, in 10⁻⁹.
fn spent(session: &Session, budget: &str) -> i64 {
    let states = session.budgets().unwrap();
    states.iter().find(|s| s.budget.name == budget).unwrap().spent.nano
}

const ONE: i64 = 1_000_000_000;

/// A strict budget, made before its table was linked, once let everything pass that a wider one
/// held.
#[tokio::test]
async fn a_budget_binds_after_its_table_was_linked() {
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("people", ids(9)).unwrap();
    engine.register_batch("visits", ids(9)).unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    all(
        &owner,
        &[
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 2",
            "CREATE PRIVACY BUDGET strict FOR visits LIMIT (epsilon=1) PER QUERY (max=0.2)",
            "CREATE PRIVACY BUDGET wide FOR people LIMIT (epsilon=100)",
            "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id) MAX ROWS 2",
        ],
    )
    .await;
    let refused = said(&lab, "SELECT LAPLACE(eps=50) COUNT(*) FROM visits").await.unwrap_err();
    assert!(matches!(refused, Error::Budget(_)), "{refused}");
    // They are the same people, whichever table is read.
    let refused = said(&lab, "SELECT LAPLACE(eps=0.3) COUNT(*) FROM people").await.unwrap_err();
    assert!(refused.to_string().contains("`strict` allows ε = 0.2 per query"), "{refused}");
    said(&lab, "SELECT LAPLACE(eps=0.2) COUNT(*) FROM people").await.unwrap();
    assert_eq!((spent(&lab, "strict"), spent(&lab, "wide")), (ONE / 5, ONE / 5));
    // It keeps that when it leaves them, and they keep it.
    let left = said(&owner, "ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 2").await.unwrap();
    assert!(left.ends_with("charges for people, visits count together from now on"));
    assert_eq!((spent(&lab, "strict"), spent(&lab, "wide")), (ONE / 5, ONE / 5));
    said(&lab, "SELECT LAPLACE(eps=0.2) COUNT(*) FROM visits").await.unwrap();
    assert_eq!((spent(&lab, "strict"), spent(&lab, "wide")), (2 * ONE / 5, 2 * ONE / 5));
}

/// Declarations in every order that they can be made in; at the end both budgets bind, and hold
/// what was charged.
#[tokio::test]
async fn budgets_bind_whatever_was_declared_first() {
    let steps = [
        ("ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE", &[][..]),
        ("ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 2", &[]),
        ("CREATE PRIVACY BUDGET wide FOR people LIMIT (epsilon=100)", &[0]),
        ("CREATE PRIVACY BUDGET strict FOR visits LIMIT (epsilon=3)", &[1]),
        ("ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id) MAX ROWS 2", &[0, 1]),
        ("SELECT LAPLACE(eps=1) COUNT(*) FROM people", &[0]),
        ("SELECT LAPLACE(eps=1) COUNT(*) FROM visits", &[1]),
    ];
    let (mut orders, mut paid_in_all) = (0, 0);
    let mut stack: Vec<Vec<usize>> = vec![Vec::new()];
    while let Some(order) = stack.pop() {
        if order.len() < steps.len() {
            for (next, (_, needed)) in steps.iter().enumerate() {
                if !order.contains(&next) && needed.iter().all(|s| order.contains(s)) {
                    stack.push([&order[..], &[next]].concat());
                }
            }
            continue;
        }
        orders += 1;
        let engine = Engine::in_memory().unwrap();
        engine.register_batch("people", ids(9)).unwrap();
        engine.register_batch("visits", ids(9)).unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        let mut paid = 0;
        for step in &order {
            match steps[*step].0 {
                // Without a budget nothing is charged.
                query if query.starts_with("SELECT") => {
                    paid += i64::from(said(&lab, query).await.is_ok());
                }
                declaration => all(&owner, &[declaration]).await,
            }
        }
        let both = (spent(&lab, "strict"), spent(&lab, "wide"));
        assert_eq!(both, (paid * ONE, paid * ONE), "{order:?}");
        let most = format!("SELECT LAPLACE(eps={}.1) COUNT(*) FROM", 3 - paid);
        for table in ["people", "visits"] {
            let refused = said(&lab, &format!("{most} {table}")).await.unwrap_err();
            assert!(
                refused.to_string().contains("`strict` does not suffice"),
                "{order:?}: {refused}"
            );
        }
        paid_in_all += paid;
    }
    assert!(orders > 100 && paid_in_all > orders, "{orders} orders, {paid_in_all} charges");
}

/// What an owner says when a table is planned, and what when its rows are read; each once.
#[derive(Debug, Clone, Default)]
struct Meddling {
    when_planned: Arc<Mutex<Option<(Owner, &'static str)>>>,
    when_read: Arc<Mutex<Option<(Owner, &'static str)>>>,
    fails: bool,
}

async fn meddle(slot: &Mutex<Option<(Owner, &'static str)>>) {
    let said = slot.lock().unwrap().take();
    if let Some((owner, sql)) = said {
        owner.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

#[derive(Debug)]
struct Rows {
    batch: RecordBatch,
    meddling: Meddling,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        self.batch.schema_ref()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (batch, meddling) = (self.batch.clone(), self.meddling.clone());
        let rows = futures::stream::once(async move {
            meddle(&meddling.when_read).await;
            if meddling.fails {
                Err(DataFusionError::Execution("no row".into()))
            } else {
                Ok(batch)
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(self.batch.schema(), rows))
    }
}

#[derive(Debug)]
struct Meddler {
    rows: StreamingTable,
    meddling: Meddling,
}

#[async_trait]
impl TableProvider for Meddler {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Planner,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Planned<Arc<dyn ExecutionPlan>> {
        meddle(&self.meddling.when_planned).await;
        self.rows.scan(state, projection, filters, limit).await
    }
}

/// Registers a table that meddles.
fn register(engine: &Engine, name: &str, meddling: &Meddling) {
    let rows = Arc::new(Rows { batch: ids(9), meddling: meddling.clone() });
    let rows = StreamingTable::try_new(ids(9).schema(), vec![rows]).unwrap();
    let meddler = Meddler { rows, meddling: meddling.clone() };
    engine.register_table(name, Arc::new(meddler)).unwrap();
}

/// A query that was planned before its table was linked was charged to the people that it had
/// before.
#[tokio::test]
async fn a_charge_is_for_the_people_of_its_moment() {
    let engine = Engine::in_memory().unwrap();
    let meddling = Meddling::default();
    register(&engine, "visits", &meddling);
    engine.register_batch("people", ids(9)).unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    all(
        &owner,
        &[
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 2",
            "CREATE PRIVACY BUDGET strict FOR visits LIMIT (epsilon=10)",
            "CREATE PRIVACY BUDGET wide FOR people LIMIT (epsilon=10)",
        ],
    )
    .await;
    let link = "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id) MAX ROWS 2";
    *meddling.when_planned.lock().unwrap() = Some((owner.clone(), link));
    let answer = said(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM visits").await.unwrap();
    assert!(meddling.when_planned.lock().unwrap().is_none(), "{answer}");
    let ledger = said(&lab, "SELECT spaces, budgets FROM hushql.ledger").await.unwrap();
    assert!(ledger.contains("people") && ledger.contains("strict, wide"), "{ledger}");
    assert_eq!((spent(&lab, "strict"), spent(&lab, "wide")), (ONE, ONE));
    // A budget that is made in between binds too.
    let strict = "CREATE PRIVACY BUDGET late FOR people LIMIT (epsilon=2) PER QUERY (max=0.5)";
    *meddling.when_planned.lock().unwrap() = Some((owner.clone(), strict));
    let refused = said(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM visits").await.unwrap_err();
    assert!(refused.to_string().contains("`late`"), "{refused}");
    assert_eq!((spent(&lab, "strict"), spent(&lab, "late")), (ONE, ONE));
}

/// Queries and declarations at once: every answer is paid for by everyone who must be charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_that_race_with_declarations_are_charged_right() {
    for round in 0..25 {
        let engine = Engine::in_memory().unwrap();
        engine.register_batch("people", ids(9)).unwrap();
        engine.register_batch("visits", ids(9)).unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        all(
            &owner,
            &[
                "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
                "ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 2",
                "CREATE PRIVACY BUDGET strict FOR visits LIMIT (epsilon=100)",
                "CREATE PRIVACY BUDGET wide FOR people LIMIT (epsilon=100)",
            ],
        )
        .await;
        let asking = tokio::spawn({
            let lab = lab.clone();
            async move {
                let mut answers = 0;
                for _ in 0..4 {
                    let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM visits";
                    answers += i64::from(said(&lab, sql).await.is_ok());
                }
                answers
            }
        });
        tokio::time::sleep(Duration::from_micros(500 * round)).await;
        let link = "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id) MAX ROWS 2";
        all(&owner, &[link]).await;
        let answers = asking.await.unwrap();
        assert!(answers > 0, "round {round}");
        let ledger = said(&lab, "SELECT spaces FROM hushql.ledger").await.unwrap();
        let before = ledger.lines().filter(|line| line.contains("visits")).count();
        let after = ledger.lines().filter(|line| line.contains("people")).count();
        assert_eq!(i64::try_from(before + after).unwrap(), answers, "{ledger}");
        assert_eq!((spent(&lab, "strict"), spent(&lab, "wide")), (answers * ONE, answers * ONE));
    }
}

/// An exact count of a table that had been public was once answered long after the table had become
/// private.
#[tokio::test]
async fn what_became_private_while_it_was_read_is_not_answered() {
    let private = "ALTER TABLE t SET PRIVACY UNIT (id)";
    for (declared, fails) in [
        (private, false),
        (private, true),
        ("ALTER TABLE t DROP PRIVACY UNIT", false),
        ("DROP TABLE t", false),
    ] {
        for planned in [true, false] {
            let engine = Engine::in_memory().unwrap();
            let meddling = Meddling { fails, ..Meddling::default() };
            register(&engine, "t", &meddling);
            engine.register_batch("p", ids(9)).unwrap();
            let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
            all(
                &owner,
                &[
                    "ALTER TABLE t SET PUBLIC",
                    "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE",
                    "CREATE PRIVACY BUDGET b FOR p LIMIT (epsilon=100)",
                ],
            )
            .await;
            let slot = if planned { &meddling.when_planned } else { &meddling.when_read };
            *slot.lock().unwrap() = Some((owner.clone(), declared));
            let error = said(&lab, "SELECT COUNT(*) AS n, SUM(k) FROM t").await.unwrap_err();
            assert!(slot.lock().unwrap().is_none(), "{declared}: nothing was read");
            let says = error.to_string();
            assert_eq!(
                says,
                "the table t was declared anew while it was read as a public one, so this answer is withheld",
                "{declared}"
            );
            assert!(said(&lab, "SELECT COUNT(*) FROM t").await.is_err());
        }
    }
}

/// So is what was paid for, where a public table that it was joined with is not public any more.
#[tokio::test]
async fn what_was_paid_for_is_withheld_too() {
    let withheld = "is withheld; what was charged stays charged";
    for (sql, says, charged) in [
        // How often it multiplies rows is read for the plan, and whether a key meets a row.
        ("SELECT LAPLACE(eps=1) COUNT(*) FROM p JOIN t ON p.k = t.id", "t is declared neither", 2),
        (
            "WITH n AS (SELECT k, LAPLACE(eps=1) COUNT(*) AS c FROM p GROUP BY k) SELECT n.c, t.id FROM n JOIN t ON n.k = t.id",
            "t is declared neither",
            2,
        ),
        (
            "WITH n AS (SELECT k, LAPLACE(eps=1) COUNT(*) AS c FROM p GROUP BY k) SELECT n.c, t.id FROM n CROSS JOIN t",
            withheld,
            3,
        ),
    ] {
        let engine = Engine::in_memory().unwrap();
        let meddling = Meddling::default();
        register(&engine, "t", &meddling);
        engine.register_batch("p", ids(9)).unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        all(
            &owner,
            &[
                "ALTER TABLE t SET PUBLIC",
                "ALTER TABLE t ALTER COLUMN id SET PRIVACY DOMAIN BETWEEN (0, 8)",
                "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE",
                "ALTER TABLE p ALTER COLUMN k SET PRIVACY DOMAIN IN (0, 1, 2)",
                "CREATE PRIVACY BUDGET b FOR p LIMIT (epsilon=100)",
            ],
        )
        .await;
        let first = said(&lab, sql).await;
        let Ok(_) = first else { panic!("{sql}: {first:?}") };
        // What changes elsewhere is no reason.
        let elsewhere = "CREATE PRIVACY BUDGET another FOR p LIMIT (epsilon=50)";
        *meddling.when_read.lock().unwrap() = Some((owner.clone(), elsewhere));
        said(&lab, sql).await.unwrap();
        let private = "ALTER TABLE t DROP PRIVACY UNIT";
        *meddling.when_read.lock().unwrap() = Some((owner.clone(), private));
        let error = said(&lab, sql).await.unwrap_err().to_string();
        assert!(error.contains(says), "{sql}: {error}");
        assert_eq!(spent(&lab, "b"), charged * ONE);
    }
}

/// Keys are read from a public table before anything is charged; if it becomes private meanwhile,
/// they are not used.
#[tokio::test]
async fn keys_of_a_table_that_became_private_are_not_used() {
    let engine = Engine::in_memory().unwrap();
    let meddling = Meddling::default();
    register(&engine, "keys", &meddling);
    engine.register_batch("p", ids(9)).unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    all(
        &owner,
        &[
            "ALTER TABLE keys SET PUBLIC",
            "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE",
            "CREATE PRIVACY BUDGET b FOR p LIMIT (epsilon=100)",
        ],
    )
    .await;
    let sql = "SELECT k, LAPLACE(eps=1) COUNT(*) AS n FROM p GROUP BY k KEYS TABLE keys(id)";
    said(&lab, sql).await.unwrap();
    for reads in [false, true] {
        all(&owner, &["ALTER TABLE keys SET PUBLIC"]).await;
        let slot = if reads { &meddling.when_read } else { &meddling.when_planned };
        *slot.lock().unwrap() = Some((owner.clone(), "ALTER TABLE keys SET PRIVACY UNIT (id)"));
        let refused = said(&lab, sql).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
    }
    // Nor are they quoted by a refusal, which takes no charge that could notice.
    let ticks = "ALTER TABLE p ALTER COLUMN k SET PRIVACY DOMAIN BETWEEN (-1000, 1000) STEP 1000";
    all(&owner, &["ALTER TABLE keys SET PUBLIC", ticks]).await;
    let quotes = said(&lab, sql).await.unwrap_err().to_string();
    assert!(quotes.contains("is not a tick"), "{quotes}");
    for reads in [false, true] {
        all(&owner, &["ALTER TABLE keys SET PUBLIC"]).await;
        let slot = if reads { &meddling.when_read } else { &meddling.when_planned };
        *slot.lock().unwrap() = Some((owner.clone(), "ALTER TABLE keys SET PRIVACY UNIT (id)"));
        let refused = said(&lab, sql).await.unwrap_err().to_string();
        assert!(refused.contains("keys is not public"), "{refused}");
    }
    all(&owner, &["ALTER TABLE p ALTER COLUMN k DROP PRIVACY DOMAIN"]).await;
    // Nor does a domain list them.
    all(&owner, &["ALTER TABLE keys SET PUBLIC"]).await;
    *meddling.when_read.lock().unwrap() =
        Some((owner.clone(), "ALTER TABLE keys DROP PRIVACY UNIT"));
    let domain = "ALTER TABLE p ALTER COLUMN k SET PRIVACY DOMAIN REFERENCES keys(id)";
    let refused = said(&owner, domain).await.unwrap_err();
    assert!(refused.to_string().contains("keys is not public"), "{refused}");
    assert_eq!(spent(&lab, "b"), ONE);
}

/// One file, under other names and as a copy, is one file's people.
#[tokio::test]
async fn a_file_is_declared_once_for_its_people() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("a.csv"), "id,k\n1,1\n2,2\n").unwrap();
    fs::write(path("copy.csv"), "id,k\n1,1\n2,2\n").unwrap();
    fs::hard_link(path("a.csv"), path("hard.csv")).unwrap();
    std::os::unix::fs::symlink(path("a.csv"), path("soft.csv")).unwrap();
    fs::write(path("other.csv"), "id,k\n1,1\n2,3\n").unwrap();
    for name in ["a", "copy", "hard", "soft", "other"] {
        let engine = Engine::in_memory().unwrap();
        let owner = engine.owner();
        let create = |table: &str, file: &str| {
            let file = path(&format!("{file}.csv"));
            format!("CREATE EXTERNAL TABLE {table} STORED AS CSV LOCATION '{file}'")
        };
        all(&owner, &[&create("a", "a"), "ALTER TABLE a SET PRIVACY UNIT (id)"]).await;
        let told = said(&owner, &create("b", name)).await.unwrap();
        let private = "ALTER TABLE b SET PRIVACY UNIT (id)";
        if name == "other" {
            assert!(!told.contains("the file of b"), "{told}");
            all(&owner, &[private, "ALTER TABLE b SET PUBLIC"]).await;
            continue;
        }
        assert!(told.contains("; the file of b ") && told.ends_with("which is private"), "{told}");
        let refused = said(&owner, private).await.unwrap_err().to_string();
        let (_, remedy) = refused.split_once("other people, write ").unwrap();
        assert_eq!(remedy, format!("{private} OTHER PEOPLE THAN a"), "{name}");
        let refused = said(&owner, "ALTER TABLE b SET PUBLIC").await.unwrap_err().to_string();
        assert!(refused.contains("its rows cannot be public under another name"), "{refused}");
        // The same people: their charges are summed, whatever the table is called.
        let link = "ALTER TABLE b SET PRIVACY UNIT VIA (id) REFERENCES a(id)";
        all(&owner, &[link]).await;
        all(&owner, &["ALTER TABLE b DROP PRIVACY UNIT", remedy]).await;
        // And the other way round: what is public stays so only if no other table of its rows is
        // private.
        all(&owner, &["ALTER TABLE b DROP PRIVACY UNIT", "ALTER TABLE a SET PUBLIC"]).await;
        let refused = said(&owner, remedy).await.unwrap_err().to_string();
        assert!(
            refused.contains("a is public, so anyone can read these private rows there"),
            "{refused}"
        );
        all(&owner, &["ALTER TABLE b SET PUBLIC"]).await;
    }
}

/// Of tables that a program registers, one provider is one table's rows.
#[tokio::test]
async fn a_provider_is_declared_once_for_its_people() {
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    let provider = |n| -> Arc<dyn TableProvider> {
        Arc::new(MemTable::try_new(ids(n).schema(), vec![vec![ids(n)]]).unwrap())
    };
    let people = provider(9);
    engine.register_table("a", Arc::clone(&people)).unwrap();
    engine.register_table("b", Arc::clone(&people)).unwrap();
    all(&owner, &["ALTER TABLE a SET PRIVACY UNIT (id)"]).await;
    for refused in ["ALTER TABLE b SET PUBLIC", "ALTER TABLE b SET PRIVACY UNIT (id)"] {
        let says = said(&owner, refused).await.unwrap_err().to_string();
        assert!(says.starts_with("b is registered with the rows of a, and"), "{says}");
    }
    all(&owner, &["ALTER TABLE b SET PRIVACY UNIT (id) OTHER PEOPLE THAN a"]).await;
    let unknown = "ALTER TABLE b SET PRIVACY UNIT (id) OTHER PEOPLE THAN a, nobody";
    assert!(said(&owner, unknown).await.is_err());
    // What is public, or other people's, does not become theirs behind the owner's back.
    engine.register_table("c", provider(5)).unwrap();
    engine.register_table("d", provider(5)).unwrap();
    all(&owner, &["ALTER TABLE c SET PUBLIC", "ALTER TABLE d SET PRIVACY UNIT (id)"]).await;
    for name in ["c", "d"] {
        let refused = engine.register_table(name, Arc::clone(&people)).unwrap_err();
        assert!(refused.to_string().contains("cannot be registered with the rows of"), "{refused}");
        engine.register_table(name, provider(6)).unwrap();
    }
    engine.register_table("b", Arc::clone(&people)).unwrap();
}

/// Everyone sees who changed which limit when; what an owner wrote into a view is for owners, and
/// what an analyst asked is for that analyst and the owner.
#[tokio::test]
async fn the_history_is_for_everyone_and_texts_are_for_their_authors() {
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("people", ids(9)).unwrap();
    let owner = engine.owner();
    all(
        &owner,
        &[
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "CREATE PRIVACY BUDGET study FOR people LIMIT (epsilon=2)",
            "ALTER PRIVACY BUDGET study SET LIMIT (epsilon=5)",
            "CREATE VIEW few AS SELECT id FROM people WHERE k = 1",
        ],
    )
    .await;
    let (lab, eve) = (engine.analyst("lab").unwrap(), engine.analyst("eve").unwrap());
    let history = "SHOW PRIVACY HISTORY";
    for session in [&*owner, &*lab] {
        let shown = said(session, history).await.unwrap();
        for limit in ["limit ε = 2,", "limit ε = 5,"] {
            assert!(shown.contains(&format!("budget study: for people, {limit}")), "{shown}");
        }
    }
    assert!(said(&owner, history).await.unwrap().contains("WHERE k = 1"));
    let shown = said(&lab, history).await.unwrap();
    assert!(!shown.contains("WHERE k = 1") && shown.contains("view few: declared"), "{shown}");

    let ask = "SELECT LAPLACE(eps=1) COUNT(*) FROM people WHERE k = 2";
    said(&lab, ask).await.unwrap();
    let ledger = "SELECT statement, time IS NOT NULL AS dated FROM hushql.ledger";
    for session in [&*owner, &*lab] {
        assert!(said(session, ledger).await.unwrap().contains(ask));
    }
    let shown = said(&eve, ledger).await.unwrap();
    assert!(
        !shown.contains("k = 2") && shown.contains("sha256:") && shown.contains("true"),
        "{shown}"
    );
}
