//! Tables of SQLite files: read by their declared types, held like other files, and never written.

use std::fs;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hushql::{Engine, Error, Session};
use rusqlite::Connection;

use crate::contract::asked::{done, why};

fn database(path: &Path, sql: &str) -> Connection {
    let database = Connection::open(path).unwrap();
    database.execute_batch(sql).unwrap();
    database
}

fn create(name: &str, columns: &str, path: &Path, options: &str) -> String {
    format!(
        "CREATE OR REPLACE EXTERNAL TABLE {name} {columns} STORED AS SQLITE LOCATION '{}' {options}",
        path.display()
    )
}

/// At this ε another number than the right one has a probability of e⁻²⁰⁰ or less.
async fn count(lab: &Session, rows: &str) -> i64 {
    let sql = format!("SELECT LAPLACE(eps=1000, rows=5) COUNT(*) AS n FROM {rows}");
    let answer = lab.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0)
}

const PEOPLE: &str = "
    CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, born DATE);
    INSERT INTO people VALUES (1, 'Ann', '1990-01-05'), (2, 'Bob', '1985-12-31'), (3, NULL, NULL);
    CREATE TABLE visits (person INT, fee DECIMAL(8, 2), at DATETIME, kind VARCHAR(9), paid BOOLEAN);
    INSERT INTO visits VALUES
        (1, 12.5, '2024-01-05 10:30', 'a', 1), (1, 7, '2024-01-06', 'it''s', 0),
        (2, '3.25', NULL, '', 1), (9, 1, '2024-01-05 10:30:00', 'b', 1);
    CREATE INDEX of_person ON visits (person);";

/// Two tables of a file, one of which leads to the other.
#[tokio::test]
async fn tables_of_a_file_lead_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a clinic's%20db?.db");
    drop(database(&path, PEOPLE));
    let location = path.display().to_string().replace('\'', "''");
    let path = Path::new(&location);
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    done(&owner, &create("people", "", path, "")).await;
    done(&owner, &create("v", "", path, "OPTIONS ('table' 'VISITS')")).await;
    done(&owner, "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await;
    let told = done(
        &owner,
        "ALTER TABLE v SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 5",
    )
    .await;
    assert!(!told.contains("read as NULL"), "{told}");
    done(&owner, "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000000) REPLAY (OFF)")
        .await;
    for (rows, expected) in [
        ("people", 3),
        ("people WHERE born < DATE '1990-01-01'", 1),
        ("people WHERE name IS NULL", 1),
        ("v", 3),
        ("v WHERE paid", 2),
        ("v WHERE fee = 3.25 AND kind = ''", 1),
        ("v WHERE at >= TIMESTAMP '2024-01-05 10:30:00'", 2),
        ("v WHERE kind = 'it''s'", 1),
        ("v JOIN people ON v.person = people.id WHERE people.name = 'Ann'", 2),
    ] {
        assert_eq!(count(&lab, rows).await, expected, "{rows}");
    }
    // What the owner declared is written so that it can be declared again.
    let declared = done(&owner, "SHOW CREATE TABLE v").await;
    assert!(declared.contains("STORED AS SQLITE") && declared.contains("'visits'"), "{declared}");
    assert!(declared.contains("fee DECIMAL(8, 2), at TIMESTAMP"), "{declared}");
    // The same table under another name is about the same people; another one is not.
    done(&owner, &create("twin", "", path, "OPTIONS ('table' 'people')")).await;
    let refused = why(&owner, "ALTER TABLE twin SET PUBLIC").await;
    assert!(refused.contains("the file of twin is that of people"), "{refused}");
    assert!(!refused.contains("that of v"), "{refused}");
    done(&owner, "DROP TABLE twin").await;
    // Nothing was written beside the file.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// SQLite lets any value stand in any column. What is none of the declared type is NULL, and told.
#[tokio::test]
async fn values_are_read_as_they_are_declared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    drop(database(
        &path,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INT, x REAL, d DATE, s TEXT, \"odd \"\"name\"\"\" TEXT, b BLOB);
         INSERT INTO t VALUES (1, 5, 2.5, '2024-01-05', 'a', 'x', x'00'),
             (2, 'A7', 1e300, '2024-01-05 10:30', 7, 'y', NULL),
             (3, 2.0, 'none', 19727, x'616263', 'z', NULL), (4, 2.5, 9e999, NULL, 1.5, NULL, NULL);",
    ));
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let refused = why(&owner, &create("t", "", &path, "")).await;
    assert!(
        refused.contains("b is BLOB") && refused.contains("(id BIGINT, n BIGINT, x DOUBLE, d DATE"),
        "{refused}"
    );
    let columns =
        "(\"odd \"\"name\"\"\" VARCHAR, n BIGINT, x DOUBLE, d DATE, s VARCHAR, id BIGINT)";
    done(&owner, &create("t", columns, &path, "")).await;
    let told = done(&owner, "ALTER TABLE t SET PUBLIC").await;
    for words in [
        "2 of 4 cells of t.n are not BIGINT: read as NULL. The first is `A7` in row 2: declare VARCHAR",
        "1 of 3 cells of t.x is not DOUBLE: read as NULL. The first is `none` in row 3",
        "1 of 3 cells of t.d is not DATE: read as NULL. The first is `19727` in row 3",
        "1 of 3 cells of t.d has a time of day, which DATE leaves out. The first is `2024-01-05 10:30:00` in row 2: declare TIMESTAMP",
        "1 of 4 cells of t.s is not VARCHAR: read as NULL. The first is `a BLOB` in row 3",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let sums = "SELECT COUNT(*) AS r, SUM(n) AS n, COUNT(x) AS x, COUNT(DISTINCT d) AS d, MAX(s) AS s, MAX(\"odd \"\"name\"\"\") AS o FROM t";
    let answer = lab.query(sums).await.unwrap().to_string();
    let row: Vec<&str> = answer.lines().filter(|line| line.contains(" z ")).collect();
    assert!(row.len() == 1, "{answer}");
    let cells: Vec<&str> =
        row[0].split(['|', '│']).map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells, ["4", "7", "2", "1", "a", "z"], "{answer}");
    let refused = why(&owner, "ALTER TABLE t SET STRICT").await;
    assert!(
        refused.contains("t shall be STRICT") && refused.contains("`A7` in row 2"),
        "{refused}"
    );
}

/// The bytes of the file are held. What is beside it and not in it is refused, and so is what
/// SQLite would compute.
#[tokio::test]
async fn what_is_not_in_the_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    drop(database(&path, PEOPLE));
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    done(&owner, &create("people", "(id BIGINT, name VARCHAR)", &path, "")).await;
    done(&owner, "ALTER TABLE people SET PRIVACY UNIT (id)").await;
    done(&owner, "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000000) REPLAY (OFF)")
        .await;
    assert_eq!(count(&lab, "people").await, 3);
    let asked = async || {
        let sql = "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM people";
        lab.query(sql).await.map(drop).unwrap_err()
    };
    let writer = database(
        &path,
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; INSERT INTO people VALUES (4, 'Zyxquorina', NULL);",
    );
    let refused = asked().await;
    assert_eq!(refused.code(), Some("HQ028"), "{refused}");
    let refused = why(&owner, "ALTER TABLE people REFRESH").await;
    assert!(refused.contains("has changes beside it"), "{refused}");
    let refused = why(&owner, &create("other", "", &path, "OPTIONS ('table' 'visits')")).await;
    assert!(refused.contains("PRAGMA wal_checkpoint(TRUNCATE)"), "{refused}");
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    let changed = asked().await.to_string();
    assert!(changed.contains("was changed since its rows were declared"), "{changed}");
    drop(writer);
    done(&owner, "ALTER TABLE people REFRESH").await;
    assert_eq!(count(&lab, "people").await, 4);
    drop(database(
        &path,
        "CREATE VIEW seen AS SELECT * FROM people;
         CREATE TABLE twice (id INT, n INT, m INT AS (n * 2) STORED);
         CREATE TABLE names (a TEXT); DROP TABLE visits;",
    ));
    for (columns, options, says) in [
        ("", "('table' 'seen')", "is a view or a virtual table"),
        ("", "('table' 'sqlite_schema')", "has no table"),
        ("", "('table' 'twice')", "m is computed by SQLite on each read"),
        ("(id INT, m INT)", "('table' 'twice')", "m is computed by SQLite"),
        ("(id INT, k INT)", "('table' 'twice')", "has no column k; it has id, n, m"),
        ("", "('table' 'names; DROP TABLE people')", "has no table"),
        ("", "('table' 'visits')", "it has names, people, twice"),
        ("", "('table' 'names', 'content_hash' 'false')", "leave ('content_hash' 'false') out"),
        ("", "('delimiter' ',')", "SQLITE files have no option `delimiter`; they take table"),
    ] {
        let refused =
            why(&owner, &create("other", columns, &path, &format!("OPTIONS {options}"))).await;
        assert!(refused.contains(says), "{says}: {refused}");
    }
    let refused = why(&owner, &create("other", "", folder.path(), "")).await;
    assert!(refused.contains("is not one file of this machine"), "{refused}");
    let text = folder.path().join("t.csv");
    fs::write(&text, "id\n1\n").unwrap();
    let refused = why(&owner, &create("other", "", &text, "")).await;
    assert!(refused.contains("is not an SQLITE file"), "{refused}");
    let vault = folder.path().join("vault.db");
    Engine::init(&vault).unwrap();
    let refused = why(&owner, &create("other", "", &vault, "")).await;
    assert!(refused.contains("is a vault"), "{refused}");
}

/// A damaged file says nothing of its rows.
#[tokio::test]
async fn a_damaged_file_fails_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let rows: String =
        (0..3_000).map(|i| format!("INSERT INTO t VALUES ({i}, 'Zyxquorina {i}');")).collect();
    drop(database(&path, &format!("BEGIN; CREATE TABLE t (id INT, s TEXT); {rows} COMMIT;")));
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xfe);
    fs::write(&path, bytes).unwrap();
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    done(&owner, &create("t", "", &path, "")).await;
    done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id)").await;
    done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)").await;
    let failed = lab.query("SELECT LAPLACE(eps=1, rows=1) COUNT(*) AS n FROM t").await.unwrap_err();
    assert!(matches!(failed, Error::Execution), "{failed:?}");
    assert!(!format!("{failed} {failed:?}").contains("Zyxquorina"));
    // It would fail again, so it is refused before the next charge.
    let noted = lab.query("SELECT LAPLACE(eps=1, rows=1) COUNT(*) AS n FROM t").await.unwrap_err();
    assert_eq!(noted.code(), Some("HQ028"), "{noted}");
}
