//! Folders that drift: a file with other columns arrives after the declaration. One charged query
//! fails, and its failure is noted; until the table is declared again, it is refused before the
//! charge, to whoever may know of that failure.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hushql::{Engine, Error, Session};
use tempfile::TempDir;

use super::draws::declared;
use super::folders::{FILE, bytes, left, put, rows};

/// What drifts: a format, the end of a name, and the bytes of a file that does not fit.
fn kinds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![9]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let typed = RecordBatch::try_from_iter([("id", Arc::clone(&ids)), ("n", texts)]).unwrap();
    let named = RecordBatch::try_from_iter([("id", Arc::clone(&ids)), ("m", ids)]).unwrap();
    vec![
        ("PARQUET", "parquet", bytes("PARQUET", "parquet", &typed)),
        ("PARQUET", "parquet", b"no footer".to_vec()),
        ("ARROW", "arrow", bytes("ARROW", "arrow", &typed)),
        ("ARROW", "arrow", b"\x01noise".to_vec()),
        ("CSV", "csv", bytes("CSV", "csv", &named)),
        ("CSV", "csv.gz", bytes("CSV", "csv.gz", &named)),
        ("CSV", "csv.gz", b"not compressed".to_vec()),
        ("CSV", "csv.zst", b"not compressed".to_vec()),
    ]
}

/// A folder with one file, and its declaration as `t`.
pub(super) fn folder(format: &str, end: &str, replay: &str) -> (TempDir, [String; 5]) {
    let folder = tempfile::tempdir().unwrap();
    put(&folder.path().join(format!("a.{end}")), bytes(format, end, &rows(&[1, 2, 3])));
    let declarations = [
        format!(
            "CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{}'",
            folder.path().display()
        ),
        "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
        "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
        format!("CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000, delta=1e-3) {replay}"),
        "ALTER TABLE t REFRESH".to_owned(),
    ];
    (folder, declarations)
}

pub(super) const ASK: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t";

/// What became of a query.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    Answered,
    /// Charged, and failed with the one sentence.
    Failed,
    /// Refused at no cost.
    Refused,
}

pub(super) async fn ask(session: &Session, sql: &str) -> Seen {
    let before = left(session);
    let outcome = session.query(sql).await;
    let is_charged = left(session) != before;
    match outcome {
        Ok(answer) => {
            assert_eq!(answer.receipt().unwrap().is_replayed, !is_charged, "{sql}");
            Seen::Answered
        }
        Err(Error::Execution) => {
            assert!(is_charged, "{sql}");
            Seen::Failed
        }
        Err(error) => {
            let said = format!("{error} {error:?}");
            assert!(!is_charged && error.code() == Some("HQ028"), "{sql}: {error}");
            assert!(said.contains("a query was charged and failed on them"), "{said}");
            assert!(said.contains("ask the owner to declare them again"), "{said}");
            assert!(!said.contains(FILE), "{said}");
            Seen::Refused
        }
    }
}

/// The entries of the ledger that note a drift, as the owner sees them.
async fn notes(engine: &Engine) -> String {
    let sql = "SELECT analyst, parameters, cost FROM hushql.ledger WHERE kind = 'drifted' ORDER BY sequence";
    let answer = engine.owner().query(sql).await.unwrap();
    arrow::util::pretty::pretty_format_batches(answer.batches()).unwrap().to_string()
}

fn number_of_notes(notes: &str) -> usize {
    notes.matches("table=t").count()
}

/// One query pays for the failure, and everybody is refused until the table is declared again. What
/// was paid for before is replayed.
#[tokio::test]
async fn a_failure_is_paid_for_once() {
    for (format, end, other) in kinds() {
        let (folder, declarations) = folder(format, end, "REPLAY (ALL)");
        let drifted = folder.path().join(format!("{FILE}.{end}"));
        let engine = Engine::in_memory().unwrap();
        let lab = declared(&engine, &declarations).await;
        let eve = engine.analyst("eve").unwrap();
        assert_eq!(ask(&lab, ASK).await, Seen::Answered, "{end}");
        put(&drifted, &other);
        // Before the charge, nobody looks.
        assert!(lab.explain(&ASK.replace("n FROM", "m FROM t WHERE id > 1 --")).is_ok());
        let fresh = ["id > 0", "id > 1", "id > 2"].map(|which| format!("{ASK} WHERE {which}"));
        assert_eq!(ask(&lab, &fresh[0]).await, Seen::Failed, "{end}");
        for session in [&*lab, &*eve, &*engine.owner()] {
            for sql in &fresh {
                assert_eq!(ask(session, sql).await, Seen::Refused, "{end}");
            }
            assert!(session.prepare(&fresh[1]).is_err());
            assert_eq!(ask(session, ASK).await, Seen::Answered, "it was paid for before");
        }
        assert_eq!(number_of_notes(&notes(&engine).await), 1);
        // The file goes, and nothing but a declaration ends it; none is taken while the file is
        // there.
        let owner = engine.owner();
        for statement in ["ALTER TABLE t SET PRIVACY UNIT ROW", "ALTER TABLE t REFRESH"] {
            let refused = owner.execute(statement).await.unwrap_err().to_string();
            assert!(refused.contains(FILE), "{refused}");
            assert_eq!(ask(&lab, &fresh[1]).await, Seen::Refused);
        }
        fs::remove_file(&drifted).unwrap();
        assert_eq!(ask(&eve, &fresh[1]).await, Seen::Refused, "{end}");
        owner.execute("ALTER TABLE t REFRESH").await.unwrap();
        assert_eq!(ask(&eve, &fresh[1]).await, Seen::Answered, "{end}");
        // The next drift is another one.
        put(&drifted, &other);
        assert_eq!(ask(&eve, &fresh[2]).await, Seen::Failed, "{end}");
        assert_eq!(ask(&lab, &fresh[2]).await, Seen::Refused, "{end}");
        fs::remove_file(&drifted).unwrap();
        owner.execute("ALTER TABLE t SET PRIVACY UNIT ROW").await.unwrap();
        assert_eq!(ask(&lab, &fresh[2]).await, Seen::Answered, "{end}");
    }
}

/// Where replays are each analyst's own, so are failures: nobody learns from a refusal what
/// somebody else asked.
#[tokio::test]
async fn under_own_each_pays_for_the_failure() {
    for replay in ["REPLAY (OWN)", "REPLAY (OFF)"] {
        let (folder, declarations) = folder("PARQUET", "parquet", replay);
        let engine = Engine::in_memory().unwrap();
        let lab = declared(&engine, &declarations).await;
        let eve = engine.analyst("eve").unwrap();
        put(&folder.path().join(format!("{FILE}.parquet")), "no footer");
        assert_eq!(ask(&lab, ASK).await, Seen::Failed);
        assert_eq!(ask(&lab, ASK).await, Seen::Refused);
        assert_eq!(ask(&eve, ASK).await, Seen::Failed);
        assert_eq!(ask(&eve, ASK).await, Seen::Refused);
        assert_eq!(ask(&engine.owner(), ASK).await, Seen::Failed);
        assert_eq!(ask(&engine.owner(), ASK).await, Seen::Refused);
        assert_eq!(number_of_notes(&notes(&engine).await), 3);
    }
}

/// A new role has no failures of the one that had its name before.
#[tokio::test]
async fn a_new_role_has_no_failures() {
    let (folder, declarations) = folder("PARQUET", "parquet", "REPLAY (OWN)");
    let engine = Engine::in_memory().unwrap();
    declared(&engine, &declarations).await;
    let owner = engine.owner();
    put(&folder.path().join(format!("{FILE}.parquet")), "no footer");
    for _ in 0..2 {
        owner.execute("CREATE ROLE ann").await.unwrap();
        let ann = engine.analyst("ann").unwrap();
        assert_eq!(ask(&ann, ASK).await, Seen::Failed);
        assert_eq!(ask(&ann, ASK).await, Seen::Refused);
        owner.execute("DROP ROLE ann").await.unwrap();
    }
    assert_eq!(number_of_notes(&notes(&engine).await), 2);
}

/// Another program opens the vault afterwards; two queries that are charged at once note one
/// failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_noted_in_the_vault() {
    let (folder, declarations) = folder("PARQUET", "parquet", "REPLAY (ALL)");
    let place = tempfile::tempdir().unwrap();
    let vault = place.path().join("study.db");
    let engine = Engine::init(&vault).unwrap();
    let lab = declared(&engine, &declarations).await;
    put(&folder.path().join(format!("{FILE}.parquet")), "no footer");
    let two = ["id > 0", "id > 1"].map(|which| {
        let (lab, sql) = (lab.clone(), format!("{ASK} WHERE {which}"));
        tokio::spawn(async move { lab.query(&sql).await.map(drop) })
    });
    for one in two {
        let error = one.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Execution) || error.code() == Some("HQ028"), "{error}");
    }
    assert_eq!(number_of_notes(&notes(&engine).await), 1);
    drop((lab, engine));
    let again = Engine::open(&vault).unwrap();
    assert_eq!(ask(&again.analyst("eve").unwrap(), ASK).await, Seen::Refused);
    assert_eq!(number_of_notes(&notes(&again).await), 1);
}

/// A synthetic table fails on it, too, and is refused.
#[tokio::test]
async fn synthetic_tables_fail_once() {
    let (folder, declarations) = folder("PARQUET", "parquet", "REPLAY (ALL)");
    let engine = Engine::in_memory().unwrap();
    let lab = declared(&engine, &declarations).await;
    let make = "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT n FROM t";
    put(&folder.path().join(format!("{FILE}.parquet")), "no footer");
    let before = left(&lab);
    assert!(matches!(lab.execute(make).await, Err(Error::Execution)));
    let after = left(&lab);
    assert_ne!(before, after);
    assert_eq!(lab.execute(make).await.unwrap_err().code(), Some("HQ028"));
    assert_eq!(ask(&lab, ASK).await, Seen::Refused);
    assert_eq!(left(&lab), after);
}

/// A link among the files stays until somebody takes it away. A folder that is gone is told for
/// nothing: it follows from no file.
#[tokio::test]
async fn a_link_is_noted_and_a_folder_that_is_gone_is_told() {
    let (folder, declarations) = folder("PARQUET", "parquet", "REPLAY (ALL)");
    let engine = Engine::in_memory().unwrap();
    let lab = declared(&engine, &declarations).await;
    let away: &Path = &folder.path().with_extension("away");
    fs::rename(folder.path(), away).unwrap();
    let before = left(&lab);
    for _ in 0..2 {
        let gone = lab.query(ASK).await.unwrap_err();
        assert_eq!(gone.code(), Some("HQ028"));
        assert!(gone.to_string().contains("the files of t cannot be read"), "{gone}");
    }
    assert_eq!(left(&lab), before);
    fs::rename(away, folder.path()).unwrap();
    assert_eq!(number_of_notes(&notes(&engine).await), 0);
    let link = folder.path().join("b.parquet");
    std::os::unix::fs::symlink("a.parquet", &link).unwrap();
    assert_eq!(ask(&lab, ASK).await, Seen::Failed, "a link");
    fs::remove_file(&link).unwrap();
    assert_eq!(ask(&lab, ASK).await, Seen::Refused, "a link");
    engine.owner().execute("ALTER TABLE t REFRESH").await.unwrap();
    assert_eq!(ask(&lab, ASK).await, Seen::Answered);
    assert_eq!(number_of_notes(&notes(&engine).await), 1);
}

/// What holds for columns holds for whatever else was verified on the files: one charge finds out
/// that they are others.
#[tokio::test]
async fn other_files_are_paid_for_once() {
    let content = [("(id) UNIQUE", "false"), ("(id) MAX ROWS 3", "false"), ("ROW", "true")];
    for (unit, hash) in content {
        for event in ["arrives", "is replaced", "goes"] {
            let (folder, mut declarations) = folder("CSV", "csv", "REPLAY (ALL)");
            put(&folder.path().join("b.csv"), bytes("CSV", "csv", &rows(&[7, 8])));
            declarations[0] = format!("{} OPTIONS ('content_hash' '{hash}')", declarations[0]);
            declarations[1] = format!("ALTER TABLE t SET PRIVACY UNIT {unit}");
            let engine = Engine::in_memory().unwrap();
            let lab = declared(&engine, &declarations).await;
            let what = format!("{unit} {event}");
            let fresh = ["id > 0", "id > 1", "id > 2"].map(|which| format!("{ASK} WHERE {which}"));
            assert_eq!(ask(&lab, ASK).await, Seen::Answered, "{what}");
            match event {
                "arrives" => put(&folder.path().join("c.csv"), "id,n\n9,1\n"),
                "is replaced" => put(&folder.path().join("b.csv"), "id,n\n9,1\n"),
                _ => fs::remove_file(folder.path().join("b.csv")).unwrap(),
            }
            // Nothing is seen of it before the first charge.
            for sql in &fresh {
                assert!(lab.cost(sql).is_ok() && lab.prepare(sql).is_ok(), "{what}");
                assert!(!lab.explain(sql).unwrap().to_string().contains("charged and failed"));
            }
            assert_eq!(ask(&lab, &fresh[0]).await, Seen::Failed, "{what}");
            for sql in &fresh {
                assert_eq!(ask(&lab, sql).await, Seen::Refused, "{what}");
                let explained = lab.explain(sql).unwrap().to_string();
                assert!(explained.contains("charged and failed"), "{what}: {explained}");
                assert!(explained.contains("SET PRIVACY UNIT"), "{what}: {explained}");
                assert_eq!(lab.cost(sql).unwrap_err().code(), Some("HQ028"), "{what}");
                assert!(lab.prepare(sql).is_err(), "{what}");
            }
            assert_eq!(ask(&lab, ASK).await, Seen::Answered, "{what}: it was paid for before");
            assert_eq!(number_of_notes(&notes(&engine).await), 1);
            engine.owner().execute(&declarations[1]).await.unwrap();
            assert_eq!(ask(&lab, &fresh[1]).await, Seen::Answered, "{what}");
        }
    }
}

/// So are files whose beginning or end fits, and whose rows are damaged: in a folder, and alone.
#[tokio::test]
async fn damaged_rows_are_paid_for_once() {
    let many: Vec<i64> = (0..5_000).collect();
    for is_folder in [true, false] {
        let (folder, mut declarations) = folder("PARQUET", "parquet", "REPLAY (ALL)");
        let whole = bytes("PARQUET", "parquet", &rows(&many));
        // The pages of the column that is read, and the footer stays.
        let mut damaged = whole.clone();
        damaged[4..whole.len() / 2].fill(0xff);
        let place = folder.path().join(format!("{FILE}.parquet"));
        put(&place, &whole);
        if !is_folder {
            declarations[0] = declarations[0].replace(
                &format!("'{}'", folder.path().display()),
                &format!("'{}' OPTIONS ('content_hash' 'false')", place.display()),
            );
        }
        let engine = Engine::in_memory().unwrap();
        let lab = declared(&engine, &declarations).await;
        put(&place, &damaged);
        let fresh = [0, 1, 2]
            .map(|least| format!("SELECT LAPLACE(eps=1) SUM(n) AS s FROM t WHERE id >= {least}"));
        assert_eq!(ask(&lab, &fresh[0]).await, Seen::Failed, "{is_folder}");
        assert_eq!(ask(&lab, &fresh[1]).await, Seen::Refused, "{is_folder}");
        put(&place, &whole);
        assert_eq!(ask(&lab, &fresh[1]).await, Seen::Refused, "{is_folder}");
        engine.owner().execute("ALTER TABLE t REFRESH").await.unwrap();
        assert_eq!(ask(&lab, &fresh[2]).await, Seen::Answered, "{is_folder}");
    }
}

/// People who are reached through a folder are refused with it.
#[tokio::test]
async fn what_leads_through_the_files_is_refused_too() {
    let (folder, mut declarations) = folder("CSV", "csv", "REPLAY (ALL)");
    declarations[1] = "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned();
    let visits = tempfile::tempdir().unwrap();
    put(&visits.path().join("v.csv"), "who,cost\n1,5\n2,6\n");
    let visited = [
        format!(
            "CREATE EXTERNAL TABLE v STORED AS CSV LOCATION '{}/v.csv'",
            visits.path().display()
        ),
        "ALTER TABLE v SET PRIVACY UNIT VIA (who) REFERENCES t(id)".to_owned(),
    ];
    let engine = Engine::in_memory().unwrap();
    let all: Vec<String> = declarations[..4].iter().chain(&visited).cloned().collect();
    let lab = declared(&engine, &all).await;
    put(&folder.path().join("b.csv"), "id,n\n9,1\n");
    let of_visits = ["cost > 0", "cost > 1"]
        .map(|which| format!("SELECT LAPLACE(eps=1, rows=2) COUNT(*) AS n FROM v WHERE {which}"));
    assert_eq!(ask(&lab, &of_visits[0]).await, Seen::Failed);
    assert_eq!(ask(&lab, &of_visits[1]).await, Seen::Refused);
    assert_eq!(ask(&lab, ASK).await, Seen::Refused);
}

/// A public folder is looked at before the charge, and nothing is noted.
#[tokio::test]
async fn public_folders_are_refused_before() {
    let (folder, mut declarations) = folder("PARQUET", "parquet", "");
    let engine = Engine::in_memory().unwrap();
    declarations[1] = "ALTER TABLE t SET PUBLIC".to_owned();
    let lab = declared(&engine, &declarations[..2]).await;
    let drifted = folder.path().join(format!("{FILE}.parquet"));
    put(&drifted, "no footer");
    let ask = "SELECT COUNT(*) AS n FROM t";
    for _ in 0..2 {
        let error = lab.query(ask).await.unwrap_err();
        assert!(error.code() == Some("HQ028") && !error.to_string().contains("charged"), "{error}");
    }
    fs::remove_file(&drifted).unwrap();
    lab.query(ask).await.unwrap();
    assert_eq!(number_of_notes(&notes(&engine).await), 0);
}

/// Files without a byte, and texts without a line, have no rows.
#[tokio::test]
async fn what_holds_nothing_has_no_rows() {
    for (format, end) in [("PARQUET", "parquet"), ("CSV", "csv"), ("CSV", "csv.gz")] {
        let (folder, declarations) = folder(format, end, "REPLAY (OFF)");
        let engine = Engine::in_memory().unwrap();
        let lab = declared(&engine, &declarations).await;
        put(&folder.path().join(format!("b.{end}")), "");
        if end == "csv.gz" {
            let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            put(&folder.path().join(format!("c.{end}")), empty.finish().unwrap());
        }
        assert_eq!(ask(&lab, ASK).await, Seen::Answered, "{end}");
        engine.owner().execute("ALTER TABLE t SET PRIVACY UNIT ROW").await.unwrap();
        assert_eq!(ask(&lab, ASK).await, Seen::Answered, "{end}");
    }
}

/// REFRESH does not vouch for files whose verified constraints hold no more.
#[tokio::test]
async fn a_refresh_looks_at_verified_files() {
    let (folder, mut declarations) = folder("CSV", "csv", "REPLAY (OFF)");
    declarations[1] = "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned();
    let engine = Engine::in_memory().unwrap();
    let lab = declared(&engine, &declarations).await;
    put(&folder.path().join("b.csv"), bytes("CSV", "csv", &rows(&[1, 4])));
    assert_eq!(ask(&lab, ASK).await, Seen::Failed);
    assert_eq!(ask(&lab, ASK).await, Seen::Refused);
    let owner = engine.owner();
    let refused = owner.execute("ALTER TABLE t REFRESH").await.unwrap_err().to_string();
    assert!(refused.contains("were changed since MAX ROWS or UNIQUE was verified"), "{refused}");
    fs::remove_file(folder.path().join("b.csv")).unwrap();
    owner.execute("ALTER TABLE t REFRESH").await.unwrap();
    assert_eq!(ask(&lab, ASK).await, Seen::Answered);
}
