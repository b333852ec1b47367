//! The integers of workers are those of one process, for the same key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hushql::Error;
use hushql_cluster::Workers;

use crate::study::{HereByUnit, Integers, Noted, QUERIES, REFUSED, engine, write};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hushql-worker"))
}

/// On one, two and four workers, every statement has the integers of one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn workers_find_the_integers_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let local = Arc::new(Noted::new(Arc::new(HereByUnit)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    let mut expected = Vec::new();
    for query in QUERIES {
        let answer = here.analyst("lab").unwrap().query(query).await;
        answer.unwrap_or_else(|e| panic!("{query}: {e}"));
        expected.push(local.taken());
        let found = expected.last().is_some_and(|all: &Integers| {
            !all.is_empty() && all.iter().all(|integers| !integers.is_empty())
        });
        assert!(found, "{query} finds nothing");
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

/// Without its workers, a statement fails with the constant sentence, and its charge stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_workers_fail_a_statement_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let mut workers = Workers::start(program(), 2).unwrap();
    let own = engine(folder.path(), Arc::new(workers.site())).await;
    let query = "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits";
    own.analyst("lab").unwrap().query(query).await.unwrap();
    workers.kill(1).unwrap();
    let spent = || format!("{:?}", own.owner().budgets().unwrap());
    let before = spent();
    let failed =
        own.analyst("lab").unwrap().query(&query.replace("rows=2", "rows=3")).await.unwrap_err();
    assert!(matches!(failed, Error::Execution), "{failed}");
    assert_ne!(spent(), before);
}

/// A worker that is lost while a statement runs changes no integer: the statement ends with the right ones, or fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_worker_that_is_lost_changes_no_integer() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let query = QUERIES[3];
    let local = Arc::new(Noted::new(Arc::new(HereByUnit)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    here.analyst("lab").unwrap().query(query).await.unwrap();
    let expected = local.taken();
    let (mut lost, mut answered) = (0, 0);
    for milliseconds in [0, 2, 5, 10, 20, 40, 80, 160, 2_000] {
        let mut workers = Workers::start(program(), 3).unwrap();
        let noted = Arc::new(Noted::new(Arc::new(workers.site())));
        let there = engine(folder.path(), Arc::clone(&noted) as _).await;
        let spent = || format!("{:?}", there.owner().budgets().unwrap());
        let before = spent();
        let lab = there.analyst("lab").unwrap();
        let asked = tokio::spawn(async move { lab.query(query).await });
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        workers.kill(1).unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(60), asked).await;
        match answer.expect("it ends").unwrap() {
            Ok(_) => {
                assert_eq!(noted.taken(), expected, "{milliseconds} ms");
                answered += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::Execution), "{milliseconds} ms: {error}");
                assert_eq!(noted.taken(), Integers::new(), "{milliseconds} ms");
                lost += 1;
            }
        }
        assert_ne!(spent(), before, "{milliseconds} ms");
    }
    assert!(lost > 0 && answered > 0, "{lost} {answered}");
}
