//! The integers of workers are those of one process, for the same key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hushql::Error;
use hushql_cluster::Workers;

use crate::study::{Here, HereByUnit, Integers, Noted, QUERIES, REFUSED, engine, write};

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hushql-worker"))
}

/// On one, two and four workers, every statement has the integers of one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn workers_find_the_integers_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let local = Arc::new(Noted::new(Arc::new(HereByUnit)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    let (mut expected, mut refused) = (Vec::new(), Vec::new());
    for query in QUERIES {
        if let Err(error) = here.analyst("lab").unwrap().query(query).await {
            refused.push(format!("{query}: {error}"));
        }
        expected.push(local.taken());
        let found = expected.last().is_some_and(|all: &Integers| {
            !all.is_empty() && all.iter().all(|integers| !integers.is_empty())
        });
        if !found {
            refused.push(format!("{query} finds nothing"));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    let plain = Arc::new(Noted::new(Arc::new(Here)));
    let engine_here = engine(folder.path(), Arc::clone(&plain) as _).await;
    for (query, expected) in QUERIES.iter().zip(&expected) {
        engine_here.analyst("lab").unwrap().query(query).await.unwrap();
        assert_eq!(plain.taken(), *expected, "without partitions by unit: {query}");
    }
    for n in [1, 2, 4] {
        let workers = Workers::start(program(), n).unwrap();
        let noted = Arc::new(Noted::new(Arc::new(workers.site())));
        let there = engine(folder.path(), Arc::clone(&noted) as _).await;
        for (query, expected) in QUERIES.iter().zip(&expected) {
            let before = workers.site().divided_so_far();
            let answer = there.analyst("lab").unwrap().query(query).await;
            answer.unwrap_or_else(|e| panic!("{n} workers: {query}: {e}"));
            assert_eq!(noted.taken(), *expected, "{n} workers: {query}");
            let divided = workers.site().divided_so_far() - before;
            // What one worker would do alone runs here.
            assert!(n == 1 || divided > 0, "{n} workers: {query} was not divided");
        }
    }
}

/// What workers do not take is refused with a sentence, and costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent_is_refused_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let workers = Workers::start(program(), 1).unwrap();
    let engine = engine(folder.path(), Arc::new(workers.site())).await;
    let spent = || format!("{:?}", engine.owner().budgets().unwrap());
    let before = spent();
    for (query, part) in REFUSED {
        let refused = engine.analyst("lab").unwrap().query(query).await.unwrap_err();
        assert_eq!(refused.code(), Some("HQ018"), "{query}: {refused}");
        assert!(refused.to_string().contains(part), "{query}: {refused}");
    }
    assert_eq!(spent(), before);
}

/// Without its workers, a statement fails with the constant sentence, and its charge stays. While
/// one is left, it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_workers_fail_a_statement_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let mut workers = Workers::start(program(), 2).unwrap();
    let own = engine(folder.path(), Arc::new(workers.site())).await;
    let query = |rows: u32| format!("SELECT LAPLACE(eps=1, rows={rows}) COUNT(*) FROM visits");
    own.analyst("lab").unwrap().query(&query(2)).await.unwrap();
    workers.kill(1).unwrap();
    own.analyst("lab").unwrap().query(&query(3)).await.unwrap();
    workers.kill(0).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let spent = || format!("{:?}", own.owner().budgets().unwrap());
    let before = spent();
    let failed = own.analyst("lab").unwrap().query(&query(4)).await.unwrap_err();
    assert!(matches!(failed, Error::Execution), "{failed}");
    assert_ne!(spent(), before);
}
