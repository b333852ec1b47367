//! Quotations and objects over several lines: no one's text moves the rows of others.
//!
//! In: random text files with texts over several lines, their neighbours without one person, and
//! the same files with one person's open quotation mark or bracket. Out: a person changes a count
//! by the person's own rows alone, and an open mark leads to a refusal that the owner sees, or is
//! no row.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine, Error};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::seed::seed;

/// Texts as a writer of CSV quotes them.
const TEXTS: [&str; 8] = [
    "plain",
    "\"a, b\"",
    "\"two\nlines\"",
    "\"two\r\n\r\nlines, \"\"quoted\"\"\"",
    "\"\n\"",
    "\"\"",
    "\"ends with \"\"\"",
    "\"# no comment,\n\"",
];

/// Lines that begin a quotation and do not end it, or end one that was not begun.
const OPEN: [&str; 6] = ["\"open", "\"open, ", "\"two\"\"", "x\"", "\"a\"\"\"\"", "\","];

/// The rows that a query counts in a file, or why its owner is refused.
async fn counted(path: &Path, format: &str, unit: &str) -> Result<i64, Error> {
    declared_and_counted(path, format, "id BIGINT, note VARCHAR", unit).await
}

/// The same for these columns.
async fn declared_and_counted(
    path: &Path,
    format: &str,
    columns: &str,
    unit: &str,
) -> Result<i64, Error> {
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    for statement in [
        format!(
            "CREATE EXTERNAL TABLE t ({columns}) STORED AS {format} LOCATION '{}'",
            path.display()
        ),
        format!("ALTER TABLE t SET PRIVACY UNIT {unit}"),
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)".to_owned(),
    ] {
        owner.execute(&statement).await?;
    }
    Ok(count(&engine.analyst("lab").unwrap()).await.unwrap())
}

/// A number whose noise is 0 but with a probability of e⁻²⁰⁰.
async fn count(lab: &Analyst) -> Result<i64, Error> {
    let answer = lab.query("SELECT LAPLACE(eps=50000) COUNT(*) AS n FROM t").await?;
    Ok(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0))
}

/// A record of a person, in CSV or JSON.
fn record(format: &str, id: usize, text: &str) -> String {
    match format {
        "CSV" => format!("{id},{text}\n"),
        _ => {
            let text = text.trim_matches('"').replace("\"\"", "'");
            let object = serde_json::json!({"id": id, "note": text});
            let pretty = serde_json::to_string_pretty(&object).unwrap();
            if id.is_multiple_of(2) { format!("{pretty}\n") } else { format!("{object}\n") }
        }
    }
}

fn header(format: &str) -> &'static str {
    if format == "CSV" { "id,note\n" } else { "" }
}

/// Well-formed files without one person's records have the other rows, under each declaration.
#[tokio::test]
async fn a_person_changes_a_count_by_the_own_rows() {
    let mut rng = ChaCha20Rng::seed_from_u64(seed(5_502));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    for round in 0..8 {
        let format = ["CSV", "JSON"][round % 2];
        let records: Vec<String> = (0..rng.random_range(3..20))
            .map(|id| record(format, id, TEXTS.choose(&mut rng).unwrap()))
            .collect();
        let gone = rng.random_range(0..records.len());
        let mut without = records.clone();
        without.remove(gone);
        for unit in ["(id) UNIQUE", "ROW"] {
            for records in [&records, &without] {
                let text = header(format).to_owned() + &records.concat();
                std::fs::write(&path, &text).unwrap();
                let found = counted(&path, format, unit).await.unwrap();
                assert_eq!(found, records.len() as i64, "{unit}: {text}");
            }
        }
    }
}

/// One person opens a quotation or an object among others whose texts go over several lines. The
/// declaration is refused, or the rows of the others are all there.
#[tokio::test]
async fn an_open_quotation_moves_nobody_else() {
    let mut rng = ChaCha20Rng::seed_from_u64(seed(5_503));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let mut refused = 0;
    for round in 0..48 {
        let format = ["CSV", "JSON"][round % 2];
        // Also files whose texts are all in one line, where one open line is no row.
        let texts = if round % 3 == 0 { &TEXTS[..2] } else { &TEXTS[..] };
        let mut records: Vec<String> = (0..rng.random_range(2..12))
            .map(|id| match (format, round % 3) {
                ("JSON", 0) => record(format, 2 * id + 1, texts.choose(&mut rng).unwrap()),
                _ => record(format, id, texts.choose(&mut rng).unwrap()),
            })
            .collect();
        let others = records.len() as i64;
        let open = match format {
            "CSV" => format!("99,{}\n", OPEN.choose(&mut rng).unwrap()),
            _ => ["{\"id\": 99,\n", "{\n", "[\n", "{\"id\": 99, \"note\": \"x\n"][round % 4]
                .to_owned(),
        };
        records.insert(rng.random_range(0..=records.len()), open);
        let text = header(format).to_owned() + &records.concat();
        std::fs::write(&path, &text).unwrap();
        match counted(&path, format, ["ROW", "(id) UNIQUE"][round % 2]).await {
            Ok(found) => assert!((others..=others + 1).contains(&found), "{found}: {text}"),
            Err(error) => {
                let said = error.to_string();
                let knows =
                    ["open quotation mark", "nor a document of objects", "unit of t cannot"];
                assert!(knows.iter().any(|part| said.contains(part)), "{said}: {text}");
                refused += 1;
            }
        }
    }
    assert!((5..43).contains(&refused), "{refused} of 48 were refused");
}

/// Two people whose texts were written without quotes, one beginning with a quotation mark and one
/// ending with it, hide nobody between them: by RFC 4180 they would leave one of 1,001 rows.
#[tokio::test]
async fn two_marks_hide_nobody_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let between: String = (1..1_000).map(|id| format!("{id},text {id}\n")).collect();
    let first = format!("id,note\n0,\"begins\n{between}");
    std::fs::write(&path, &first).unwrap();
    assert_eq!(counted(&path, "CSV", "ROW").await.unwrap(), 999);
    std::fs::write(&path, format!("{first}1000,ends\"\n")).unwrap();
    let refused = counted(&path, "CSV", "ROW").await.unwrap_err().to_string();
    assert!(refused.contains("line 3 is within quotes and reads like a row"), "{refused}");
}

/// What else the rows between two marks hold does not matter: a row is somebody's if the cell that
/// names its person can be read, and each row is if rows are people.
#[tokio::test]
async fn rows_of_other_cells_are_not_hidden_either() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let rows = |cells: &dyn Fn(usize) -> String| (1..200).map(cells).collect::<String>();
    let strange: String = rows(&|id| format!("{id},x{id},text\n"));
    let unread: String = rows(&|id| format!("x{id},{id},text\n"));
    let objects: String = rows(&|id| format!("{{\"id\": {id}, \"stay\": {id}}}\n"));
    let nested: String = rows(&|id| format!("{{\"junk\":\n{{\"id\": {id}}}\n}}\n"));
    let unnamed: String = rows(&|id| format!("{{\"stay\": {id}}}\n"));
    let between = |rows: &str| format!("id,stay,note\n0,1,\"begins\n{rows}200,1,5'11\"\n");
    let csv = "within quotes and reads like a row";
    let json = "is within an object and reads like a row";
    for (format, unit, text, expected) in [
        ("CSV", "(id) UNIQUE", between(&strange), Some(csv)),
        ("CSV", "(id) MAX ROWS 2", between(&strange), Some(csv)),
        ("CSV", "ROW", between(&strange), Some(csv)),
        // Rows that no reading gives to a person may be a text; a row is a person by itself. With
        // one open line, the lines are read.
        ("CSV", "(id) UNIQUE", between(&unread), None),
        ("CSV", "ROW", between(&unread), Some(csv)),
        ("JSON", "(id) UNIQUE", format!("{nested}{objects}"), Some(json)),
        ("JSON", "ROW", nested.clone(), Some(json)),
        (
            "JSON",
            "(id) MAX ROWS 3",
            "[{\"id\": 0, \"x\":\n{\"id\": 1},\n\"y\": 2}]\n".to_owned(),
            Some(json),
        ),
        ("JSON", "(id) UNIQUE", format!("{{\"id\": 0, \"x\":\n{{\"a\": 1}}\n}}\n{objects}"), None),
        ("JSON", "ROW", format!("{{\"id\": 0, \"x\":\n{{\"a\": 1}}\n}}\n{unnamed}"), None),
    ] {
        std::fs::write(&path, &text).unwrap();
        let columns = if format == "CSV" {
            "id BIGINT, stay INT, note VARCHAR"
        } else {
            "id BIGINT, stay INT"
        };
        match (declared_and_counted(&path, format, columns, unit).await, expected) {
            (Err(error), Some(said)) => {
                let error = error.to_string();
                assert!(error.contains(said) && error.contains("'line_breaks' 'true'"), "{error}");
            }
            (Ok(_), None) => {}
            (found, _) => panic!("{format} {unit}: {found:?} of {}", &text[..120]),
        }
    }
}

/// No query reads a file over lines that is not the declared one: every change is refused, also one
/// that keeps the size and the time of modification.
#[tokio::test]
async fn a_changed_file_is_never_read_over_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let text = "id,note\n1,\"two\nlines\"\n2,b\n3,c\n";
    for options in ["", "OPTIONS ('content_hash' 'true')"] {
        std::fs::write(&path, text).unwrap();
        let engine = Engine::in_memory().unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        for statement in [
            format!(
                "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}' {options}",
                path.display()
            ),
            "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned(),
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)".to_owned(),
        ] {
            owner.execute(&statement).await.unwrap();
        }
        assert_eq!(count(&lab).await.unwrap(), 3);
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        for other in
            ["id,note\n1,\"two\nlines\n\"2,b\n3,c\n", "id,note\n1,\"two\nlines\"\n2,\"\n3,c\n"]
        {
            assert_eq!(other.len(), text.len());
            std::fs::write(&path, other).unwrap();
            std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(modified)
                .unwrap();
            let refused =
                lab.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE id > 0").await;
            assert!(refused.unwrap_err().to_string().contains("was changed"), "{options}");
        }
        // The declared bytes are read again.
        std::fs::write(&path, text).unwrap();
        let found = lab.query("SELECT LAPLACE(eps=50000) COUNT(*) AS n FROM t WHERE id > 0").await;
        assert_eq!(found.unwrap().batches()[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    }
}
