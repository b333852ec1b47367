//! Tables in an object store: workers ask the store for the versions that the driver found, with
//! keys of their own environment.
//!
//! A store is found through the environment, so the test runs itself once more with an environment
//! of its own, which its workers inherit.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hushql::{Engine, Error};
use hushql_cluster::Workers;

use crate::equal::program;
use crate::study::{HereByUnit, Noted, QUERIES, engine, engine_at, write};

#[allow(dead_code, reason = "the tests of the main crate use all of it")]
#[path = "../../../tests/it/privacy/objects/store.rs"]
mod store;

use store::{KEY, Objects, Store};

const FOLDER: &str = "s3://clinic/study";

/// Puts the files below a folder into the store, under their names.
fn put(store: &Store, folder: &Path, below: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}/{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => put(store, &entry.path(), &name),
            false => store.put(&name, fs::read(entry.path()).unwrap()),
        }
    }
}

/// Statements over objects have the integers of statements over files in one process. An object
/// that was replaced after the driver found it is not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn workers_read_the_versions_of_objects_that_were_found() {
    let Some(store) =
        Store::of_the_environment("objects::workers_read_the_versions_of_objects_that_were_found")
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    put(&store, folder.path(), "study");
    let local = Arc::new(Noted::new(Arc::new(HereByUnit)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    let workers = Workers::start(program(), 2).unwrap();
    let noted = Arc::new(Noted::new(Arc::new(workers.site())));
    let there = engine_at(FOLDER, Engine::builder().site(Arc::clone(&noted) as _)).await;
    for query in QUERIES {
        here.analyst("lab").unwrap().query(query).await.unwrap();
        let before = workers.site().divided_so_far();
        store.set(Objects::forget_requests);
        let answer = there.analyst("lab").unwrap().query(query).await;
        answer.unwrap_or_else(|e| panic!("{query}: {e}"));
        assert_eq!(noted.taken(), local.taken(), "{query}");
        assert!(workers.site().divided_so_far() > before, "{query} was not divided");
        assert!(store.requests().iter().any(|request| request.starts_with("GET /clinic/study")));
    }

    // The driver reads the two parts of a footer, and what workers ask for is another object then,
    // as long as the first: one number in it is 36 and not 37. They notice by the answer to their
    // condition, or by its tag where the store does not heed conditions.
    let spent = || format!("{:?}", there.owner().budgets().unwrap());
    let guests = fs::read(folder.path().join("guests/0.parquet")).unwrap();
    let mut other = guests.clone();
    let number = other.windows(8).position(|bytes| bytes == 37_i64.to_le_bytes()).unwrap();
    other[number] = 36;
    for (eps, is_careless) in [(2, false), (3, true)] {
        let asked = format!("SELECT LAPLACE(eps={eps}) SUM(minutes) FROM guests");
        let (before, divided) = (spent(), workers.site().divided_so_far());
        store.put("study/guests/0.parquet", &guests);
        store.set(|objects| {
            objects.is_careless = is_careless;
            objects.then = Some(("study/guests/0.parquet".to_owned(), 2, other.clone()));
        });
        let failed = there.analyst("lab").unwrap().query(&asked).await.unwrap_err();
        assert!(matches!(failed, Error::Execution), "{failed}");
        assert_ne!(spent(), before);
        assert!(workers.site().divided_so_far() > divided, "the workers were asked");
        assert!(noted.taken().is_empty());
    }
}

/// Workers whose environment has no keys read nothing, and nobody learns more than that it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn workers_need_keys_of_their_own() {
    let Some(store) = Store::of_the_environment("objects::workers_need_keys_of_their_own") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    put(&store, folder.path(), "study");
    // The program `env` starts a worker without the keys that this process has.
    let without = folder.path().join("worker");
    let script =
        format!("#!/bin/sh\nexec env -u AWS_ACCESS_KEY_ID '{}' \"$@\"\n", program().display());
    fs::write(&without, script).unwrap();
    let mut rights = fs::metadata(&without).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o700);
    fs::set_permissions(&without, rights).unwrap();
    let workers = Workers::start(&without, 2).unwrap();
    let there = engine_at(FOLDER, Engine::builder().site(Arc::new(workers.site()))).await;
    let asked = "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits";
    let failed = there.analyst("lab").unwrap().query(asked).await.unwrap_err();
    assert!(matches!(failed, Error::Execution), "{failed}");
    let text = failed.to_string();
    assert!(!text.contains("s3:") && !text.contains(KEY), "{text}");
}
