//! Tables in object stores, against a store that the tests start: S3 over plain HTTP, and the same
//! objects as files over HTTP.
//!
//! Objects are known by their ETags: one that is changed, added or removed is noticed, as a file
//! is, and one that changes between two scans of a statement answers nothing. Keys come from the
//! environment and are nowhere else.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::contract::program::{Run, Study};

mod store;

pub(super) use store::Store;
use store::{KEY, Objects, SECRET};

const PERSON: &str = "Vrennikol";

impl Store {
    /// Runs statements where the environment has keys.
    fn run(&self, study: &Study, who: &[&str], sql: &str) -> Run {
        let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
        self.run_with(study, who, sql, &keys)
    }

    fn run_with(&self, study: &Study, who: &[&str], sql: &str, keys: &[(&str, &str)]) -> Run {
        let mut command = study.command(&["study.db", "--format", "csv", "-c", sql]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.args(who).env("AWS_ENDPOINT", &self.address).env("AWS_ALLOW_HTTP", "true");
        let run: Run = command.envs(keys.iter().copied()).output().unwrap().into();
        for text in [&run.out, &run.err] {
            assert!(!text.contains(KEY) && !text.contains(SECRET), "{run:?}");
            assert!(!text.contains(PERSON), "{run:?}");
        }
        run
    }

    fn owner(&self, study: &Study, sql: &str) -> Run {
        self.run(study, &["--owner"], sql)
    }

    fn lab(&self, study: &Study, sql: &str) -> Run {
        self.run(study, &["--analyst", "lab"], sql)
    }
}

fn csv(ids: std::ops::Range<i64>) -> String {
    ids.fold("id,n\n".to_owned(), |mut text, id| {
        writeln!(text, "{id},{}", id % 7).unwrap();
        text
    })
}

fn parquet(ids: std::ops::Range<i64>) -> Vec<u8> {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 7)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let rows = RecordBatch::try_from_iter([("id", ids), ("n", n)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        datafusion::parquet::arrow::ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    bytes
}

/// The bytes of a file with rows of these numbers.
type Make = fn(std::ops::Range<i64>) -> Vec<u8>;

fn plain(ids: std::ops::Range<i64>) -> Vec<u8> {
    csv(ids).into_bytes()
}

fn compressed(ids: std::ops::Range<i64>) -> Vec<u8> {
    zstd::encode_all(csv(ids).as_bytes(), 1).unwrap()
}

const COUNT: &str = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t";
const FAILED: &str = "the query failed";

/// The answer of a query, if there is one, and whether it was charged.
fn counted(store: &Store, study: &Study, sql: &str) -> (Option<i64>, bool) {
    let charges = || {
        let ledger = store.lab(study, "SELECT COUNT(*) AS n FROM hushql.ledger");
        ledger.out.lines().nth(1).unwrap().to_owned()
    };
    let before = charges();
    let run = store.lab(study, sql);
    let answer = run.out.lines().nth(1).map(|line| line.parse().unwrap());
    assert_eq!(answer.is_none(), run.err.contains(FAILED), "{run:?}");
    (answer, charges() != before)
}

#[test]
fn objects_are_read_as_they_were_verified() {
    for (format, end, bytes) in [
        ("CSV", "csv", plain as Make),
        ("CSV", "csv.zst", compressed as Make),
        ("PARQUET", "parquet", parquet as Make),
    ] {
        let (store, study) = (Store::start(), Study::new());
        let name = |k: i64| format!("visits/k={k}/who={PERSON}/a.{end}");
        for k in 0..3 {
            store.put(&name(k), bytes(100 * k..100 * k + 100));
        }
        store.put("visits/_SUCCESS", "");
        store.put("visits/k=0", "");
        store.put("elsewhere/x", "noise");
        let run = store.owner(
            &study,
            &format!(
                "CREATE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (k INT, who) LOCATION 's3://clinic/visits';
                 ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE;
                 ALTER TABLE t ALTER COLUMN k SET PRIVACY DOMAIN BETWEEN (0, 2);
                 CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)"
            ),
        );
        run.says(0, &[]);
        assert_eq!(counted(&store, &study, COUNT), (Some(300), true), "{end}");
        let of_one = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE k = 1";
        assert_eq!(counted(&store, &study, of_one), (Some(100), true), "{end}");
        // Before the charge, nobody asks the store for anything.
        store.set(Objects::forget_requests);
        store.lab(&study, &format!("EXPLAIN PRIVACY {COUNT}")).says(0, &[]);
        store.lab(&study, "SELECT n FROM t").says(3, &[]);
        assert_eq!(store.requests().len(), 0);
        store.put(&name(1), bytes(0..7));
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: changed");
        store.put(&name(1), bytes(100..200));
        assert_eq!(counted(&store, &study, COUNT), (Some(300), true), "{end}: back");
        store.put(&name(3), bytes(300..400));
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: added");
        store.remove(&name(3));
        store.remove(&name(2));
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: removed");
        store.put(&name(2), "");
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: emptied");
        store.put(&name(2), bytes(200..300));
        assert_eq!(counted(&store, &study, COUNT), (Some(300), true), "{end}: back");
        // Without keys, it fails as it does without objects, and the owner is told what is missing.
        let run = store.run_with(&study, &["--analyst", "lab"], COUNT, &[]);
        assert!(run.err.contains(FAILED), "{run:?}");
        let other =
            format!("CREATE EXTERNAL TABLE u STORED AS {format} LOCATION 's3://clinic/elsewhere/'");
        store
            .run_with(&study, &["--owner"], &other, &[])
            .says(1, &["no credentials", "AWS_ACCESS_KEY_ID"]);
        let wrong = [("AWS_ACCESS_KEY_ID", "other"), ("AWS_SECRET_ACCESS_KEY", "wrong")];
        store.run_with(&study, &["--owner"], &other, &wrong).says(1, &["refuses them"]);
        let vault = std::fs::read(study.path("study.db")).unwrap();
        let vault = String::from_utf8_lossy(&vault);
        assert!(!vault.contains(SECRET) && !vault.contains(KEY) && !vault.contains(PERSON));
    }
}

/// An object that changes while a statement reads it, between its check and its scan, and between
/// its scans.
#[test]
fn an_object_that_changes_meanwhile_answers_nothing() {
    for (format, bytes) in [("CSV", plain as Make), ("PARQUET", parquet as Make)] {
        let (store, study) = (Store::start(), Study::new());
        store.put("a.data", bytes(0..50));
        store
            .owner(
                &study,
                &format!(
                    "CREATE EXTERNAL TABLE t STORED AS {format} LOCATION 's3://clinic/a.data';
                     ALTER TABLE t SET PRIVACY UNIT (id);
                     CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)"
                ),
            )
            .says(0, &[]);
        let twice =
            "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t AS a JOIN t AS b ON a.id = b.id";
        assert_eq!(counted(&store, &study, twice), (Some(50), true), "{format}");
        for is_careless in [false, true] {
            let mut failed = 0;
            for reads in 1..12 {
                let next = Some(("a.data".to_owned(), reads, bytes(50..90)));
                store.set(|objects| {
                    objects.then = next;
                    objects.is_careless = is_careless;
                });
                let (answer, is_charged) = counted(&store, &study, twice);
                assert!(is_charged);
                // All rows of one object, or none.
                match answer {
                    None => failed += 1,
                    Some(n) => assert_eq!(n, 50, "{format} after {reads} reads"),
                }
                store.set(|objects| objects.then = None);
                store.put("a.data", bytes(0..50));
            }
            assert!(failed >= 2, "{format}: {failed}");
        }
        store.remove("a.data");
        assert_eq!(counted(&store, &study, twice), (None, true), "{format}: removed");
    }
}

#[test]
fn stores_without_versions_and_keys_in_locations_are_refused() {
    let (store, study) = (Store::start(), Study::new());
    store.put("a/x.csv", csv(0..3));
    store.put("a/y.csv", csv(5..8));
    store.set(|objects| objects.tag = "W/".to_owned());
    let create = |name: &str, location: &str| {
        store.owner(
            &study,
            &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{location}'"),
        )
    };
    create("t", "s3://clinic/a/").says(1, &["strong ETag"]);
    store.set(|objects| objects.tag.clear());
    create("t", &format!("s3://{KEY}:{SECRET}@clinic/a/")).says(1, &["holds no credentials"]);
    create("t", &format!("{}/clinic/a/x.csv?X-Amz-Signature={SECRET}", store.address))
        .says(1, &["no signature"]);
    create("t", "s3://clinic/nothing/").says(1, &["no file in"]);
    create("t", "s3://clinic/a/[.csv").says(1, &["not a pattern"]);
    create("a", "s3://clinic/a/*.csv").says(0, &["table a has 2 columns"]);
    create("one", "s3://clinic/a/x.csv").says(0, &[]);
    // A file over HTTP, with the same bytes.
    store.set(|objects| objects.asks_for_keys = false);
    create("web", &format!("{}/clinic/a/x.csv", store.address)).says(0, &[]);
    create("web2", &format!("{}/clinic/a/", store.address)).says(1, &["HTTP has no folders"]);
    let run = store.owner(&study, "ALTER TABLE web SET PUBLIC; SELECT COUNT(*) AS n FROM web");
    run.says(0, &[]);
    assert!(run.out.ends_with("n\n3\n"), "{run:?}");
    store.put("a/x.csv", csv(0..4));
    assert!(store.lab(&study, "SELECT COUNT(*) AS n FROM web").out.ends_with("n\n4\n"));
    store.owner(&study, "ALTER TABLE a SET PRIVACY UNIT (id) UNIQUE").says(1, &["web", "public"]);
    store.owner(&study, "DROP TABLE web; ALTER TABLE a SET PRIVACY UNIT (id) UNIQUE").says(0, &[]);
    store
        .owner(&study, "ALTER TABLE one SET PUBLIC")
        .says(1, &["a file of one is one of a", "private"]);
    let dump =
        store.run_with(&study, &["--owner"], "SHOW CREATE TABLE a; SHOW CREATE TABLE one", &[]);
    for location in ["LOCATION 's3://clinic/a/*.csv'", "LOCATION 's3://clinic/a/x.csv'"] {
        assert!(dump.out.contains(location), "{dump:?}");
    }
    let mut doctor = study.command(&["doctor", "study.db"]);
    let doctor: Run = doctor.output().unwrap().into();
    assert!(!doctor.out.contains("cannot be read"), "{doctor:?}");
}
