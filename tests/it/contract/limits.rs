//! What limits a statement decides nothing about one person, and holds while the statement is
//! planned too.
//!
//! Memory: operators reserve by the block, and the blocks are there before a row is. Time: joins
//! that make many rows of one person's are refused, planning has the statement's clock. Files: rows
//! that do not fit into memory have no name.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hushql::{Analyst, Engine, Error, PrivacyBudget, Resources, Session};

use crate::contract::program::Study;

/// People with five rows each, and one row of person 7 if she is there.
fn people(with_her: bool) -> RecordBatch {
    let ids = (0..40).filter(|id| *id != 7).flat_map(|id| [id; 5]);
    let ids: Vec<i64> = ids.chain(with_her.then_some(7)).collect();
    let xs: ArrayRef = Arc::new(Int64Array::from_iter_values((0..9).cycle().take(ids.len())));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("person {id}"))));
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    let columns = ["x", "y", "z", "v", "w"].map(|name| (name, Arc::clone(&xs)));
    RecordBatch::try_from_iter([("id", ids), ("name", names)].into_iter().chain(columns)).unwrap()
}

/// A public table with so many rows for each of ten keys.
fn keys(rows: i64) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..10 * rows).map(|i| i % 10)));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10 * rows));
    RecordBatch::try_from_iter([("k", keys), ("n", numbers)]).unwrap()
}

async fn session(with_her: bool, resources: Resources) -> Analyst {
    let engine = Engine::builder().resources(resources).in_memory().unwrap();
    engine.register_batch("people", people(with_her)).unwrap();
    engine.register_batch("guests", people(with_her)).unwrap();
    engine.register_batch("once", keys(1)).unwrap();
    engine.register_batch("thrice", keys(3)).unwrap();
    engine.register_batch("many", keys(100)).unwrap();
    for declaration in [
        "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 5",
        "ALTER TABLE guests SET PRIVACY UNIT (id)",
        "CREATE PRIVACY BUDGET g FOR guests LIMIT (epsilon=1000)",
        "ALTER TABLE once SET PUBLIC",
        "ALTER TABLE thrice SET PUBLIC",
        "ALTER TABLE many SET PUBLIC",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000)",
    ] {
        engine.owner().execute(declaration).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

/// How a statement ended, in a word.
fn ended(result: Result<hushql::Answer, Error>) -> String {
    match result {
        Ok(_) => "answered".to_owned(),
        Err(error) => error.code().map_or_else(|| error.to_string(), str::to_owned),
    }
}

/// Queries whose operators keep rows: sorts, groups, joins, windows, bounds.
const KEEPING: [&str; 10] = [
    "SELECT LAPLACE(eps=1) SUM(CLAMP(s, 0, 9)) FROM (SELECT id, SUM(x) OVER (PARTITION BY id ORDER BY y, z, v, w) AS s
     FROM people WHERE id = 7)",
    "SELECT LAPLACE(eps=1) SUM(CLAMP(s, 0, 9)) FROM (SELECT id, name, SUM(x) AS s FROM people WHERE id = 7 GROUP BY id, name)",
    "SELECT LAPLACE(eps=1) SUM(CLAMP(p.x, 0, 9)) FROM people p JOIN people q ON p.id = q.id WHERE p.id = 7",
    "SELECT LAPLACE(eps=1) SUM(CLAMP(p.x, 0, 9)) FROM people p JOIN thrice ON p.x < n WHERE id = 7 AND n < 3",
    "SELECT LAPLACE(eps=1, rows=2) SUM(CLAMP(x, 0, 9)) FROM people WHERE id = 7",
    "SELECT x, LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE id = 7 GROUP BY x KEYS (1, 2, 3)",
    "SELECT EXPONENTIAL(eps=1) MEDIAN(CLAMP(x, 0, 9)) FROM people WHERE id = 7",
    "SELECT EXPONENTIAL(eps=1, rows=2) MEDIAN(CLAMP(x, 0, 9000000)) FROM people WHERE id = 7",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(DISTINCT name) FROM people WHERE id = 7",
    "SELECT CLAMP(x, 0, 8000) AS k, LAPLACE(eps=1) AVG(CLAMP(x, 0, 9)), LAPLACE(eps=1) AVG(CLAMP(y, 0, 9)), LAPLACE(eps=1) AVG(CLAMP(z, 0, 9)),
     LAPLACE(eps=1) VAR_POP(CLAMP(v, 0, 9)), LAPLACE(eps=1) SUM(CLAMP(w, 0, 9)) FROM people WHERE id = 7 GROUP BY k LIMIT 1",
];

/// With ten megabytes for a sort's first row, and none without, `--memory` and `--spill` told
/// whether a person was there. So did the totals of thousands of keys, which were reserved with the
/// first row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_memory_limit_tells_whether_a_person_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for spill in [None, Some(folder.path().to_owned())] {
        let (mut refused, mut answered) = (0, 0);
        for memory in [1, 500, 1_000, 2_000, 4_000, 8_000, 12_000, 20_000, 50_000, 5_000_000] {
            let memory = Some(memory * 1_000);
            let resources = Resources::default().with_memory(memory).with_spill(spill.clone());
            let (with, without) =
                (session(true, resources.clone()).await, session(false, resources).await);
            for sql in KEEPING {
                let (one, other) = (ended(with.query(sql).await), ended(without.query(sql).await));
                assert_eq!(one, other, "{memory:?} {spill:?} {sql}");
                assert!(one == "answered" || one == "HQ034", "{memory:?} {spill:?} {sql}: {one}");
                refused += usize::from(one == "HQ034");
                answered += usize::from(one == "answered");
            }
        }
        assert!(refused >= KEEPING.len() && answered >= KEEPING.len(), "{refused} {answered}");
    }
}

/// The codes of rows are no part of the memory that is limited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_memory_limit_tells_whose_row_a_synthetic_table_has() {
    let (mut refused, mut answered) = (0, 0);
    for memory in [1, 1_000, 8_000, 20_000, 50_000, 5_000_000] {
        let resources = Resources::default().with_memory(Some(memory * 1_000));
        let (with, without) = (session(true, resources.clone()), session(false, resources));
        let (with, without) = (with.await, without.await);
        for (i, query) in [
            "AIM(eps=1) SELECT CLAMP(x, 0, 9) AS c FROM people WHERE id = 7",
            "AIM(eps=1) SELECT CLAMP(p.x, 0, 9) AS c, CLAMP(p.x, 0, 9) AS d FROM people p JOIN many ON p.x >= 0 WHERE id = 7",
        ]
        .iter()
        .enumerate()
        {
            let sql = format!("CREATE SYNTHETIC TABLE s{i} AS {query}");
            let ends = async |session: &Session| match session.execute(&sql).await {
                Ok(_) => "answered".to_owned(),
                Err(error) => error.code().map_or_else(|| error.to_string(), str::to_owned),
            };
            let (one, other) = (ends(&with).await, ends(&without).await);
            assert_eq!(one, other, "{memory} {sql}");
            assert!(one == "answered" || one == "HQ034", "{memory} {sql}: {one}");
            refused += usize::from(one == "HQ034");
            answered += usize::from(one == "answered");
        }
    }
    assert!(refused >= 2 && answered >= 2, "{refused} {answered}");
}

/// What is refused for its memory says how much it takes, and with so much it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_memory_limit_says_how_much_is_needed() {
    let limited = |memory| Resources::default().with_memory(Some(memory));
    for sql in KEEPING {
        let error = session(true, limited(1)).await.query(sql).await.unwrap_err();
        assert_eq!(error.code(), Some("HQ034"), "{error}");
        let hint = error.hint().unwrap();
        let megabytes = hint.split("--memory ").nth(1).and_then(|m| m.strip_suffix("MB")).unwrap();
        let needed = megabytes.parse::<usize>().unwrap() * 1_000_000;
        let cores = std::thread::available_parallelism().unwrap().get();
        assert!(needed < cores * 10_000_000, "{sql}: {hint}");
        let (with, without) = (session(true, limited(needed)), session(false, limited(needed)));
        with.await.query(sql).await.unwrap();
        without.await.query(sql).await.unwrap();
    }
    let lab = session(true, limited(1)).await;
    lab.query(KEEPING[0]).await.unwrap_err();
    assert_eq!(lab.budgets().unwrap()[0].spent.nano, 0);
}

/// With a folder for files, what takes several times the memory is answered; without one, it fails
/// as everything after the charge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_rows_than_fit_into_memory_are_answered() {
    let (people, each) = (100_000, 12);
    let ids: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..people * each).map(|i| i * 7_919 % people)));
    let places: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..people * each).map(|i| format!("place {}", i % 10)),
    ));
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..people * each).map(|i| i * 104_729 % 6_000_000)));
    let rows = [("id", ids), ("place", places), ("number", numbers)];
    let rows = RecordBatch::try_from_iter(rows).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let places = (0..10).map(|i| format!("'place {i}'")).collect::<Vec<_>>().join(", ");
    let by_place = format!("GROUP BY place KEYS ({places})");
    let queries = [
        // Everybody is within the bounds, nobody, and by groups that are not declared.
        format!("SELECT place, LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) SUM(CLAMP(number, 0, 6000000)) FROM visits {by_place}"),
        format!("SELECT place, LAPLACE(eps=1, rows=3, groups=2) SUM(CLAMP(number, 0, 6000000)) FROM visits {by_place}"),
        "SELECT place, LAPLACE(eps=1, delta=1e-6, rows=3, groups=2) COUNT(*) FROM visits GROUP BY place".to_owned(),
        format!("SELECT place, EXPONENTIAL(eps=1) MEDIAN(CLAMP(number, 0, 6000000)) FROM visits {by_place}"),
        format!("SELECT place, EXPONENTIAL(eps=1, rows=3) MEDIAN(CLAMP(number, 0, 6000000)) FROM visits {by_place}"),
    ];
    let mut failed = 0;
    for spill in [Some(folder.path().to_owned()), None] {
        let has_folder = spill.is_some();
        let resources = Resources::default().with_memory(Some(16_000_000)).with_spill(spill);
        let engine = Engine::builder().resources(resources).in_memory().unwrap();
        engine.register_batch("visits", rows.clone()).unwrap();
        for declaration in [
            "ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 12",
            "CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=1000, delta=0.1)",
        ] {
            engine.owner().execute(declaration).await.unwrap();
        }
        let lab = engine.analyst("lab").unwrap();
        for sql in &queries {
            let result = lab.query(sql).await;
            assert!(result.is_ok() || !has_folder, "{sql}: {:?}", result.err());
            failed += usize::from(result.is_err());
        }
    }
    assert!(failed >= 3, "the memory suffices for {} of {} in any case", 5 - failed, queries.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// 28 joins with two or three rows a key made 2²⁸ rows of one person's, and a time-out told which.
#[tokio::test]
async fn joins_that_multiply_one_person_are_refused() {
    let lab = session(true, Resources::default()).await;
    let joined = |table: &str, times: usize| {
        let joins = (0..times).map(|i| format!(" JOIN {table} t{i} ON t{i}.k = p.x"));
        format!("SELECT LAPLACE(eps=1) COUNT(*) FROM people p{}", joins.collect::<String>())
    };
    for sql in [joined("once", 28), joined("thrice", 9), joined("many", 2)] {
        lab.explain(&sql).unwrap().to_string();
        assert!(lab.cost(&sql).is_ok(), "{sql}");
    }
    let begun = Instant::now();
    let error = lab.query(&joined("thrice", 28)).await.unwrap_err();
    assert_eq!(error.code(), Some("HQ034"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let text = error.to_string();
    for said in ["thrice: 3 times", "people: 5 rows", "100000 are allowed", "GROUP BY key"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // Without an equal key every row meets every one; also on the outer side, and in a subquery.
    for sql in [
        "SELECT LAPLACE(eps=1) COUNT(*) FROM people p JOIN many a ON a.n > p.x JOIN many b ON b.n > p.x",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM people p LEFT JOIN many a ON a.n > p.x LEFT JOIN many b ON b.n > p.x",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM people WHERE id IN
         (SELECT id FROM people p JOIN many a ON a.n > p.x JOIN many b ON b.n > p.x)",
    ] {
        assert_eq!(lab.cost(sql).unwrap_err().code(), Some("HQ034"), "{sql}");
    }
    // Of guests nobody says how many rows one has: what joins make of one is counted.
    let of_guests = |times| {
        joined("thrice", times).replace("eps=1", "eps=1, rows=5").replace("people", "guests")
    };
    assert!(lab.cost(&of_guests(10)).is_ok());
    let error = lab.cost(&of_guests(11)).unwrap_err();
    assert_eq!(error.code(), Some("HQ034"), "{error}");
    let eight = (1..8).map(|i| format!(" JOIN people p{i} ON p{i}.id = p.id"));
    let sql = format!("SELECT LAPLACE(eps=1) COUNT(*) FROM people p{}", eight.collect::<String>());
    assert_eq!(lab.cost(&sql).unwrap_err().code(), Some("HQ034"), "{sql}");
    // Who owns the data may allow more.
    let more = Resources::default().with_rows_of_a_unit(u64::MAX);
    assert!(session(true, more).await.cost(&sql).is_ok());
    let fewer = Resources::default().with_rows_of_a_unit(10);
    let error = session(true, fewer).await.cost(&joined("thrice", 1)).unwrap_err();
    assert_eq!(error.code(), Some("HQ034"), "{error}");
}

/// Whether a statement fails is told at any price; at an ε of 10⁻¹² it could be asked without end.
#[tokio::test]
async fn no_statement_is_nearly_free() {
    let lab = session(true, Resources::default()).await;
    for eps in ["1e-12", "1e-9", "0.000000999"] {
        let sql = format!("SELECT LAPLACE(eps={eps}) COUNT(*) FROM people");
        let error = lab.query(&sql).await.unwrap_err();
        assert_eq!(error.code(), Some("HQ026"), "{error}");
        assert!(error.to_string().contains("at least ε = 0.000001 here"), "{error}");
        assert_eq!(lab.cost(&sql).unwrap_err().code(), Some("HQ026"));
        assert!(lab.explain(&sql).unwrap().to_string().contains("HQ026"));
    }
    lab.query("SELECT LAPLACE(eps=0.000001) COUNT(*) FROM people").await.unwrap();
    // The releases of a statement together.
    let two = "SELECT LAPLACE(eps=5e-7) COUNT(*) AS n, LAPLACE(eps=5e-7) SUM(CLAMP(x, 0, 1)) AS s FROM people";
    lab.query(two).await.unwrap();
    assert_eq!(lab.budgets().unwrap()[0].spent.nano, 2_000);
}

/// The number of the engine holds for every statement; the least of a budget can only ask for more.
#[tokio::test]
async fn a_budget_raises_the_least_and_never_lowers_it() {
    let coarse = Resources::default().with_least_epsilon(1_000_000);
    let lab = session(true, coarse.clone()).await;
    let error = lab.query("SELECT LAPLACE(eps=0.0009) COUNT(*) FROM people").await.unwrap_err();
    assert_eq!(error.code(), Some("HQ026"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("study.db");
    let engine = Engine::init(&vault).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    engine.register_batch("people", batch.clone()).unwrap();
    let owner = engine.owner();
    owner.execute("ALTER TABLE people SET PRIVACY UNIT ROW").await.unwrap();
    let budget = |min: f64| PrivacyBudget::epsilon("b", "people", 2.0).min_epsilon(min);
    owner.declare(budget(1e-5)).await.unwrap();
    let lab = engine.analyst("lab").unwrap();
    let below = "SELECT LAPLACE(eps=0.000009) COUNT(*) FROM people";
    let error = lab.query(below).await.unwrap_err();
    assert!(error.to_string().contains("`b` takes at least ε = 0.00001 per query"), "{error}");
    assert!(lab.explain(below).unwrap().to_string().contains("write eps=0.00001 or more"));
    lab.query("SELECT LAPLACE(eps=0.00001) COUNT(*) FROM people").await.unwrap();

    // Whoever runs the engine with a larger number binds budgets that were declared under a smaller
    // one.
    drop((engine, owner, lab));
    let engine = Engine::builder().resources(coarse).open(&vault).unwrap();
    engine.register_batch("people", batch).unwrap();
    let lab = engine.analyst("lab").unwrap();
    let error = lab.query("SELECT LAPLACE(eps=0.00001) COUNT(*) FROM people").await.unwrap_err();
    assert_eq!(error.code(), Some("HQ026"), "{error}");
    engine.owner().execute("DROP PRIVACY BUDGET b").await.unwrap();
    let error = engine.owner().declare(budget(1e-5)).await.unwrap_err();
    assert!(error.to_string().contains("write min=0.001 or more, or leave min out"), "{error}");
    engine.owner().declare(budget(1e-3)).await.unwrap();
}

/// Planning reads public rows: a cross join of four tables was read to its end, whatever the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planning_has_the_statements_clock() {
    let quick = Resources::default().with_time(Some(Duration::from_millis(1_500)));
    let lab = session(true, quick).await;
    let crossed = "SELECT LAPLACE(eps=1) COUNT(*) FROM people p JOIN
        (SELECT a.k FROM many a, many b, many c, many d) t ON t.k = p.x";
    let within = Duration::from_secs(20);
    let begun = Instant::now();
    assert_eq!(lab.cost(crossed).unwrap_err().code(), Some("HQ034"));
    assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
    let begun = Instant::now();
    let error = lab.query(crossed).await.unwrap_err();
    assert_eq!(error.code(), Some("HQ034"), "{error}");
    assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(lab.explain(crossed).is_err());
    assert!(lab.execute(&format!("EXPLAIN PRIVACY {crossed}")).await.is_err());
    assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
    assert_eq!(lab.budgets().unwrap()[0].spent.nano, 0);
    // What runs is ended too.
    let begun = Instant::now();
    let public = "SELECT COUNT(*) FROM many a, many b, many c, many d";
    assert!(matches!(lab.query(public).await, Err(Error::Execution)));
    assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
}

/// One query planned the same public rows again and again.
#[tokio::test]
async fn many_joins_are_planned_soon() {
    let lab = session(true, Resources::default()).await;
    let joins = (0..12).map(|i| format!(" JOIN thrice t{i} ON t{i}.n = p.x")).collect::<String>();
    let chained =
        (1..5).map(|i| format!(" JOIN thrice u{i} ON u{i}.k = u{}.k", i - 1)).collect::<String>();
    for sql in [
        format!("SELECT LAPLACE(eps=1) COUNT(*) FROM people p{joins}"),
        format!(
            "SELECT LAPLACE(eps=1) COUNT(*) FROM people p JOIN thrice u0 ON u0.k = p.x{chained}"
        ),
    ] {
        let begun = Instant::now();
        lab.explain(&sql).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?} {sql}", begun.elapsed());
    }
}

/// Limits are there without a flag, and a flag lifts them.
#[test]
fn limits_are_there_by_default() {
    let usual = Resources::default();
    assert!(usual.memory.is_some_and(|bytes| bytes > 1 << 20));
    assert_eq!((usual.time, usual.rows), (Some(Duration::from_secs(300)), 1_000_000));
    let study = Study::with_people();
    let ask = |flags: &[&str], sql: &str| {
        let of = ["study.db", "--analyst", "lab", "-c", sql];
        study.run(&[&of[..], flags].concat())
    };
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM people";
    ask(&[], sql).says(0, &[]);
    ask(&["--memory", "none", "--timeout", "none", "--max-rows", "none"], sql).says(0, &[]);
    ask(&["--memory", "nothing"], sql).says(2, &["or `none`"]);
    let long = ask(&["--timeout", "30"], "SELECT length(repeat('x', 100000)) AS n");
    long.says(0, &[]);
    assert!(long.out.contains("NULL") || !long.out.contains("100000"), "{long:?}");
}

/// A study whose table does not fit into a few megabytes.
#[cfg(target_os = "linux")]
fn wide() -> Study {
    let study = Study::new();
    let rows = (0..120_000).map(|i| format!("{i},Zyxquorina{i:0200}\n"));
    study.write("wide.csv", format!("id,name\n{}", rows.collect::<String>()));
    study
        .owner(
            "CREATE EXTERNAL TABLE wide (id BIGINT, name VARCHAR) STORED AS CSV LOCATION 'wide.csv' OPTIONS ('has_header' 'true');
             ALTER TABLE wide SET PRIVACY UNIT (id) MAX ROWS 5;
             CREATE PRIVACY BUDGET b FOR wide LIMIT (epsilon=1000);",
        )
        .says(0, &[]);
    study
}

/// The files without a name that a process has open below a folder, with how many bytes they have.
#[cfg(target_os = "linux")]
fn nameless(process: &Child, folder: &Path) -> Vec<u64> {
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.id()));
    let open = open.into_iter().flatten().flatten().filter(|entry| {
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        link.starts_with(folder) && link.to_string_lossy().ends_with("(deleted)")
    });
    open.filter_map(|entry| Some(std::fs::metadata(entry.path()).ok()?.len())).collect()
}

/// Files with rows once stayed when the process was ended by a signal.
#[cfg(target_os = "linux")]
#[test]
fn no_signal_leaves_rows_behind() {
    let study = wide();
    let folder = study.folder().join("spill");
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT id, name, COUNT(*) AS n FROM wide GROUP BY id, name) WHERE n > 0";
    for signal in ["TERM", "INT", "KILL"] {
        let mut spilled = false;
        for _ in 0..5 {
            let flags = ["--memory", "16MB", "--spill", "spill"];
            let of = ["study.db", "--analyst", "lab", "-c", sql];
            let mut child = study.command(&[&of[..], &flags].concat()).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                let named: Vec<_> =
                    std::fs::read_dir(&folder).into_iter().flatten().flatten().collect();
                let rows = named.iter().filter_map(|entry| entry.metadata().ok());
                assert!(rows.map(|file| file.len()).all(|bytes| bytes == 0), "{named:?}");
                if nameless(&child, &folder).into_iter().any(|bytes| bytes > 0) {
                    spilled = true;
                    let process = child.id().to_string();
                    let kill = Command::new("kill").args(["-s", signal, &process]).status();
                    assert!(kill.unwrap().success());
                    child.wait().unwrap();
                }
            }
            if child.wait().unwrap().code() == Some(3) {
                // A machine with so many cores that this memory is refused.
                return;
            }
            if spilled {
                break;
            }
        }
        assert!(spilled, "nothing was written, which proves nothing");
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert!(left.iter().all(|file| file.metadata().unwrap().len() == 0), "{signal}: {left:?}");
    }
    // The next start removes what has a name; ours had rows in none.
    let leftover = folder.join("hushql-spill-1-2-3");
    std::fs::write(&leftover, "").unwrap();
    let flags = ["study.db", "--analyst", "lab", "--spill", "spill", "-c", "SELECT 1"];
    study.run(&flags).says(0, &[]);
    assert!(!leftover.exists());
}
