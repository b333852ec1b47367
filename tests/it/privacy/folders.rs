//! Tables of several files: the names of files and folders are as private as rows, and so is their
//! number.
//!
//! Every format, compressed or not, in a folder, behind a pattern and in folders that hold values:
//! as declared, changed, with a file more or less, or an empty one. What is seen before a charge is
//! the same for no file and for many.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::Int64Type;
use arrow::ipc::writer::FileWriter;
use arrow::json::LineDelimitedWriter;
use arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use flate2::write::GzEncoder;
use hushql::{Engine, Error, Session};

use super::draws::declared;
use crate::contract::program::Study;

/// Formats, and what the name of a file ends with.
pub(super) const KINDS: [(&str, &str); 8] = [
    ("CSV", "csv"),
    ("CSV", "csv.gz"),
    ("CSV", "csv.zst"),
    ("JSON", "json"),
    ("JSON", "json.GZ"),
    ("JSON", "json.zst"),
    ("PARQUET", "parquet"),
    ("ARROW", "arrow"),
];

/// Words that are nowhere but in the names of files and folders.
pub(super) const PERSON: &str = "Zyxquorina";
pub(super) const FILE: &str = "Qworbled";

pub(super) fn rows(ids: &[i64]) -> RecordBatch {
    let numbers = |numbers: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(numbers)) };
    let n = ids.iter().map(|id| id % 7).collect();
    RecordBatch::try_from_iter([("id", numbers(ids.to_vec())), ("n", numbers(n))]).unwrap()
}

/// The bytes of a file with these rows.
pub(super) fn bytes(format: &str, end: &str, rows: &RecordBatch) -> Vec<u8> {
    let mut plain = Vec::new();
    match format {
        "CSV" => WriterBuilder::new().with_header(true).build(&mut plain).write(rows).unwrap(),
        "JSON" => {
            let mut writer = LineDelimitedWriter::new(&mut plain);
            writer.write(rows).unwrap();
            writer.finish().unwrap();
        }
        "ARROW" => {
            let mut writer = FileWriter::try_new(&mut plain, &rows.schema()).unwrap();
            writer.write(rows).unwrap();
            writer.finish().unwrap();
        }
        _ => {
            let mut writer = ArrowWriter::try_new(&mut plain, rows.schema(), None).unwrap();
            writer.write(rows).unwrap();
            writer.close().unwrap();
        }
    }
    match end.to_lowercase().rsplit('.').next() {
        Some("gz") => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&plain).unwrap();
            encoder.finish().unwrap()
        }
        Some("zst") => zstd::encode_all(plain.as_slice(), 1).unwrap(),
        _ => plain,
    }
}

pub(super) fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

pub(super) fn left(lab: &Session) -> String {
    lab.budgets().unwrap()[0].left.to_string()
}

/// The number of rows and the sum of `n`. The noise is 0 but for a chance of less than 1e-70.
async fn counted(lab: &Session) -> Result<(i64, i64), Error> {
    let sql = "SELECT LAPLACE(eps=1000) COUNT(*), LAPLACE(eps=1000) SUM(n) FROM t";
    let answer = lab.query(sql).await?;
    let number = |i: usize| answer.batches()[0].column(i).as_primitive::<Int64Type>().value(0);
    Ok((number(0), number(1)))
}

/// The same, and whether it was charged.
pub(super) async fn charged(lab: &Session) -> (Option<(i64, i64)>, bool) {
    let before = left(lab);
    let counted = match counted(lab).await {
        Ok(counted) => Some(counted),
        Err(Error::Execution) => None,
        Err(other) => panic!("{other}"),
    };
    (counted, left(lab) != before)
}

/// The owner says that the files are those of the declaration: what was noted of others is noted no
/// more.
pub(super) async fn refreshed(engine: &Engine) {
    engine.owner().execute("ALTER TABLE t REFRESH").await.unwrap();
}

pub(super) fn sum(ids: impl IntoIterator<Item = i64>) -> (i64, i64) {
    ids.into_iter().fold((0, 0), |(count, sum), id| (count + 1, sum + id % 7))
}

/// A changed file of a private table is found behind the charge: which files there are is not
/// looked at before.
#[tokio::test]
async fn files_are_read_together_and_known_together() {
    for (format, end) in KINDS {
        for layout in ["folder", "pattern", "keys"] {
            for unit in ["(id) UNIQUE", "ROW"] {
                let what = format!("{format} {end} {layout} {unit}");
                let folder = tempfile::tempdir().unwrap();
                let (one, other, more) = match layout {
                    "keys" => ("k=1/a", "k=2/b", "k=3/c"),
                    _ => ("a", "b", "c"),
                };
                let path = |name: &str| folder.path().join(format!("{name}.{end}"));
                let all: Vec<i64> = (0..300).collect();
                let [first, second, third] = [&all[..100], &all[100..200], &all[200..]]
                    .map(|ids| bytes(format, end, &rows(ids)));
                put(&path(one), &first);
                put(&path(other), &second);
                put(&folder.path().join("_SUCCESS"), "nothing");
                put(&folder.path().join(".part.crc"), "nothing");
                put(&path(one).with_extension("tmp"), "half of a file");
                let root = folder.path().display();
                let (location, partitioned) = match layout {
                    "pattern" => (format!("{root}/*.{end}"), ""),
                    "keys" => (root.to_string(), " PARTITIONED BY (k INT)"),
                    _ => (root.to_string(), ""),
                };
                let engine = Engine::in_memory().unwrap();
                let lab = declared(
                    &engine,
                    &[
                        format!("CREATE EXTERNAL TABLE t STORED AS {format}{partitioned} LOCATION '{location}'"),
                        format!("ALTER TABLE t SET PRIVACY UNIT {unit}"),
                        "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
                        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
                    ],
                )
                .await;
                let two = Some(sum(0..200));
                assert_eq!(charged(&lab).await, (two, true), "{what}");
                let is_verified = unit != "ROW";
                let now = |expected: (i64, i64)| (Some(expected).filter(|_| !is_verified), true);
                put(&path(one), &third);
                assert_eq!(charged(&lab).await, now(sum(100..300)), "{what}: changed");
                put(&path(one), &first);
                refreshed(&engine).await;
                assert_eq!(charged(&lab).await, (two, true), "{what}: written again");
                put(&path(more), &third);
                assert_eq!(charged(&lab).await, now(sum(0..300)), "{what}: added");
                fs::remove_file(path(more)).unwrap();
                refreshed(&engine).await;
                assert_eq!(charged(&lab).await, (two, true), "{what}: removed again");
                fs::remove_file(path(other)).unwrap();
                assert_eq!(charged(&lab).await, now(sum(0..100)), "{what}: removed");
                put(&path(other), &second);
                refreshed(&engine).await;
                // A file without a byte has no rows, whatever its format.
                put(&path(other), "");
                assert_eq!(charged(&lab).await, now(sum(0..100)), "{what}: emptied");
                put(&path(other), &second);
                refreshed(&engine).await;
                let is_text = end == "json";
                put(&path(other), "\u{1}noise");
                let noise = charged(&lab).await;
                assert!(
                    noise.1 && (noise.0.is_none() || is_text && !is_verified),
                    "{what}: {noise:?}"
                );
                put(&path(other), &second);
                let again = format!("ALTER TABLE t SET PRIVACY UNIT {unit}");
                engine.owner().execute(&again).await.unwrap();
                assert_eq!(charged(&lab).await, (two, true), "{what}: declared again");
                fs::remove_file(path(other)).unwrap();
                symlink(path(one), path(other)).unwrap();
                assert_eq!(charged(&lab).await, (None, true), "{what}: a link");
                fs::remove_file(path(other)).unwrap();
                put(&path(other), &second);
                refreshed(&engine).await;
                assert_eq!(charged(&lab).await, (two, true), "{what}: back");
                fs::rename(folder.path(), folder.path().with_extension("away")).unwrap();
                // Whether the folder is there follows from no file in it, and costs nothing.
                let (before, gone) = (left(&lab), counted(&lab).await.unwrap_err());
                assert!(gone.to_string().contains("cannot be read"), "{what}: gone: {gone}");
                assert_eq!(left(&lab), before, "{what}: gone");
                fs::rename(folder.path().with_extension("away"), folder.path()).unwrap();
                assert_eq!(charged(&lab).await, (two, true), "{what}: back");
            }
        }
    }
}

/// Whatever an analyst may see without a charge.
pub(super) async fn free(lab: &Session) -> Vec<String> {
    let mut seen = Vec::new();
    for sql in [
        "SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        "SELECT who, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY who",
        "SELECT year, LAPLACE(eps=1) COUNT(*) FROM t WHERE year > 2024 GROUP BY year",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM t JOIN p ON t.id = p.code WHERE p.code > 3",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM t AS a JOIN t AS b ON a.id = b.id",
        "SELECT year, LAPLACE(eps=1, delta=1e-6) COUNT(*) FROM t GROUP BY year",
        "SELECT * FROM t",
        "SELECT nothing FROM t",
        "SELECT LAPLACE(eps=1000000) COUNT(*) FROM t",
    ] {
        match lab.explain(sql) {
            Ok(explained) => seen.push(format!("{explained} {}", explained.to_json())),
            Err(error) => seen.push(format!("{error} {error:?}")),
        }
        seen.push(format!("{:?}", lab.cost(sql)));
    }
    for sql in [
        "EXPLAIN SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE year > 2024",
        "EXPLAIN PRIVACY FORMAT JSON SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        "EXPLAIN PRIVACY ANALYZE PRIVACY DOMAIN t(n) WITH (eps=0.1)",
        "SHOW TABLES",
        "SHOW PRIVACY",
        "SHOW PRIVACY BUDGET",
        "DESCRIBE t",
        "SHOW CREATE TABLE t",
        "SELECT mechanism, parameters, sensitivity, statement FROM hushql.ledger",
        "SELECT LAPLACE(eps=1000000000) COUNT(*) FROM t",
    ] {
        seen.push(match lab.execute(sql).await {
            Ok(output) => format!("{output:?}"),
            Err(error) => format!("{error} {error:?}"),
        });
    }
    seen
}

fn with_folders(root: &Path, format: &str, end: &str, folders: usize) {
    fs::create_dir_all(root).unwrap();
    for i in 0..folders {
        let ids: Vec<i64> = (0..50).map(|n| n + 50 * i64::try_from(i).unwrap()).collect();
        let path = format!("year=20{}/who={PERSON}%20{i}/{FILE}-{i}.{end}", 20 + i % 9);
        put(&root.join(path), bytes(format, end, &rows(&ids)));
    }
}

/// Nothing that is free depends on which files a private table has.
#[tokio::test]
async fn what_is_free_is_the_same_for_no_file_and_for_many() {
    for (format, end) in KINDS {
        let (folder, mut stories) = (tempfile::tempdir().unwrap(), Vec::new());
        let root = folder.path().join("t");
        for folders in [0, 1, 2, 30] {
            let _ = fs::remove_dir_all(&root);
            with_folders(&root, format, end, folders);
            put(&folder.path().join("p.csv"), "code\n1\n7\n");
            let engine = Engine::in_memory().unwrap();
            let lab = declared(
                &engine,
                &[
                    format!("CREATE EXTERNAL TABLE t (id BIGINT, n BIGINT) STORED AS {format} PARTITIONED BY (year INT, who) LOCATION '{}'", root.display()),
                    "ALTER TABLE t SET PRIVACY UNIT (who) MAX ROWS 60".to_owned(),
                    "ALTER TABLE t ALTER COLUMN year SET PRIVACY DOMAIN BETWEEN (2020, 2030)".to_owned(),
                    "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
                    format!("CREATE EXTERNAL TABLE p STORED AS CSV LOCATION '{}'", folder.path().join("p.csv").display()),
                    "ALTER TABLE p SET PUBLIC".to_owned(),
                    "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000, delta=1e-3) REPLAY (OFF)".to_owned(),
                ],
            )
            .await;
            let mut story = free(&lab).await;
            // What is paid for leaves the same entries behind.
            let (counted, is_charged) = charged(&lab).await;
            // With sixty rows of a person, the noise is above 5 with a chance of e⁻⁸³.
            let (n, _) = counted.unwrap();
            assert!(is_charged && (n - 50 * folders as i64).abs() <= 5, "{format} {folders}: {n}");
            story.extend(free(&lab).await);
            // As does what fails.
            put(&root.join(format!("year=1/who={PERSON}/{FILE}.{end}")), "\u{1}noise");
            assert_eq!(charged(&lab).await, (None, true), "{format} {folders}");
            story.extend(free(&lab).await);
            for text in &story {
                assert!(!text.contains(PERSON) && !text.contains(FILE), "{format}: {text}");
            }
            stories.push(story);
        }
        for story in &stories {
            assert_eq!(*story, stories[0], "{format}");
        }
    }
}

/// The values of folders' names are rows' values: keys, units, filters, NULL.
#[tokio::test]
async fn folders_give_values() {
    for (format, end) in [KINDS[1], KINDS[3], KINDS[6], KINDS[7]] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, ids) in [
            ("year=2025/who=Ann%20Lee/a", 0..3),
            ("year=2025/who=it's%0A\"quoted\"/a", 3..5),
            ("year=2026/who=Ann%20Lee/b", 5..9),
            ("year=__HIVE_DEFAULT_PARTITION__/who=Ann%20Lee/c", 9..14),
            ("year=none/who=/d", 14..20),
        ] {
            let ids: Vec<i64> = ids.collect();
            put(&root.join(format!("{name}.{end}")), bytes(format, end, &rows(&ids)));
        }
        let engine = Engine::in_memory().unwrap();
        let lab = declared(
            &engine,
            &[
                format!("CREATE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (year INT, who) LOCATION '{}'", root.display()),
                "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned(),
                "ALTER TABLE t ALTER COLUMN year SET PRIVACY DOMAIN BETWEEN 2024 AND 2026 OR NULL".to_owned(),
                "ALTER TABLE t ALTER COLUMN who SET PRIVACY DOMAIN IN ('Ann Lee', 'it''s\n\"quoted\"', NULL)".to_owned(),
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
            ],
        )
        .await;
        for (sql, expected) in [
            (
                "SELECT year, LAPLACE(eps=1000) COUNT(*) AS n FROM t GROUP BY year ORDER BY n",
                "2024 0,2025 5,2026 4,NULL 11",
            ),
            (
                "SELECT who, LAPLACE(eps=1000) COUNT(*) AS n FROM t GROUP BY who ORDER BY n",
                "it's\n\"quoted\" 2,NULL 6,Ann Lee 12",
            ),
            (
                "SELECT year, LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE year >= 2026 GROUP BY year ORDER BY n",
                "2026 4",
            ),
            (
                "SELECT LAPLACE(eps=1000) COUNT(*) AS a, LAPLACE(eps=1000) COUNT(year) AS b FROM t",
                "20 9",
            ),
            (
                "SELECT who, LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE id < 4 AND year = 2025 GROUP BY who ORDER BY n",
                "NULL 0,it's\n\"quoted\" 1,Ann Lee 3",
            ),
        ] {
            let answer = lab.query(sql).await.unwrap_or_else(|e| panic!("{format} {sql}: {e}"));
            let mut found = Vec::new();
            for batch in answer.batches() {
                for row in 0..batch.num_rows() {
                    let cells = batch.columns().iter().map(|column| {
                        let cell =
                            arrow::util::display::array_value_to_string(column, row).unwrap();
                        if column.is_null(row) { "NULL".to_owned() } else { cell }
                    });
                    found.push(cells.collect::<Vec<_>>().join(" "));
                }
            }
            let (mut found, mut expected) =
                (found, expected.split(',').map(str::to_owned).collect::<Vec<_>>());
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{format} {sql}");
        }
    }
}

/// A folder of a person may be the person.
#[tokio::test]
async fn a_folder_may_be_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    with_folders(folder.path(), "PARQUET", "parquet", 30);
    let engine = Engine::in_memory().unwrap();
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET PARTITIONED BY (year INT, who) LOCATION '{}'",
        folder.path().display()
    );
    let lab = declared(
        &engine,
        &[
            create.as_str(),
            "ALTER TABLE t SET PRIVACY UNIT (who) MAX ROWS 50",
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)",
        ],
    )
    .await;
    let owner = engine.owner();
    let fewer = owner.execute("ALTER TABLE t SET PRIVACY UNIT (who) MAX ROWS 49").await;
    assert!(fewer.unwrap_err().to_string().contains("more than 49 rows"));
    let one_row = "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) FROM t";
    let answer = lab.query(one_row).await.unwrap();
    assert_eq!(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0), 30);
    let as_key = lab.query("SELECT who, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY who").await;
    assert!(matches!(as_key, Err(Error::Refused(_))), "{as_key:?}");
}

/// No file is an empty table.
#[tokio::test]
async fn no_file_is_an_empty_table() {
    for (format, end) in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let location = format!("{}/*.{end}", folder.path().display());
        let owner = Engine::in_memory().unwrap().owner();
        let untyped = format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{location}'");
        let refused = owner.execute(&untyped).await.unwrap_err().to_string();
        assert!(refused.contains("no file") && refused.contains("(column TYPE, …)"), "{refused}");
        let engine = Engine::in_memory().unwrap();
        let lab = declared(
            &engine,
            &[
                format!("CREATE EXTERNAL TABLE t (id BIGINT, n BIGINT) STORED AS {format} LOCATION '{location}'"),
                "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
                "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
            ],
        )
        .await;
        assert_eq!(charged(&lab).await, (Some((0, 0)), true), "{format}");
        put(&folder.path().join(format!("x.{end}")), bytes(format, end, &rows(&[1, 2, 3])));
        assert_eq!(charged(&lab).await, (Some((3, 6)), true), "{format}");
        fs::remove_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        assert_eq!(charged(&lab).await, (Some((0, 0)), true), "{format}");
    }
}

/// Writers make BIGINT of a column of floats where a file has no fractions. Another column is
/// another table: the owner learns which file has it, and an analyst nothing but that a charged
/// query failed.
#[tokio::test]
async fn whole_numbers_among_floats_are_floats_and_other_columns_are_told_to_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(format!("{name}.parquet"));
    let floats = |n: &[f64]| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n.len() as i64));
        let n: ArrayRef = Arc::new(Float64Array::from(n.to_vec()));
        RecordBatch::try_from_iter([("id", ids), ("n", n)]).unwrap()
    };
    let of = |rows: &RecordBatch| bytes("PARQUET", "parquet", rows);
    put(&path("a"), of(&rows(&[1, 2, 3])));
    put(&path("b"), of(&floats(&[0.5, 2.5])));
    put(&path("c"), "");
    let engine = Engine::in_memory().unwrap();
    let lab = declared(
        &engine,
        &[
            format!(
                "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'",
                folder.path().display()
            ),
            "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
            "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 10)".to_owned(),
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
        ],
    )
    .await;
    let asked = async |of: &str| {
        let sql = format!("SELECT LAPLACE(eps=100000) {of} FROM t");
        lab.query(&sql)
            .await
            .map(|answer| pretty_format_batches(answer.batches()).unwrap().to_string())
    };
    assert!(asked("COUNT(*) FILTER (WHERE n >= 2)").await.unwrap().contains("| 3 "));
    // 1 + 2 + 3 + 0.5 + 2.5, with noise of 0.0001: it is 0.01 away with a probability of less than
    // 1e-43.
    let sum = asked("SUM(n) AS s").await.unwrap();
    assert!(sum.contains("| 9.00") || sum.contains("| 8.99"), "{sum}");
    put(&path("d"), of(&floats(&[4.0])));
    put(&path("e"), of(&rows(&[4])));
    assert!(asked("COUNT(*)").await.unwrap().contains("| 7 "));

    let ids: ArrayRef = Arc::new(Int64Array::from(vec![9]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let other = RecordBatch::try_from_iter([("id", ids), ("n", texts)]).unwrap();
    put(&path(FILE), of(&other));
    assert!(matches!(asked("COUNT(*)").await, Err(Error::Execution)));
    let owner = engine.owner();
    for statement in ["ALTER TABLE t SET PRIVACY UNIT ROW", "ALTER TABLE t REFRESH"] {
        let refused = owner.execute(statement).await.unwrap_err().to_string();
        assert!(
            refused.contains(FILE) && refused.contains("n VARCHAR in the place of n DOUBLE"),
            "{refused}"
        );
    }
    fs::remove_file(path(FILE)).unwrap();
    owner.execute("ALTER TABLE t SET PRIVACY UNIT ROW").await.unwrap();
}

/// A file with DOUBLE among files with BIGINT, and a declaration that says BIGINT: no fraction is
/// NULL without a word. A charged query fails for a file that nobody verified.
#[tokio::test]
async fn fractions_among_whole_numbers_are_never_lost() {
    let floats = |n: &[f64]| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n.len() as i64));
        let n: ArrayRef = Arc::new(Float64Array::from(n.to_vec()));
        RecordBatch::try_from_iter([("id", ids), ("n", n)]).unwrap()
    };
    for (format, end) in [KINDS[6], KINDS[7]] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(format!("{name}.{end}"));
        put(&path("a"), bytes(format, end, &rows(&[1, 2, 3])));
        let root = folder.path().display();
        let create = |columns: &str| {
            format!(
                "CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS {format} LOCATION '{root}'"
            )
        };
        let engine = Engine::in_memory().unwrap();
        let lab = declared(
            &engine,
            &[
                create(""),
                "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
                "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 10)".to_owned(),
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
            ],
        )
        .await;
        let owner = engine.owner();
        let refused = async |sql: &str, words: &[&str]| {
            let text = owner.execute(sql).await.unwrap_err().to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{format} {sql}: {text}");
        };
        assert_eq!(charged(&lab).await, (Some(sum(1..=3)), true), "{format}");
        // Its values are whole, which nobody looked for.
        put(&path(FILE), bytes(format, end, &floats(&[2.0])));
        assert_eq!(charged(&lab).await, (None, true), "{format}: added");
        let noted = counted(&lab).await.unwrap_err();
        assert_eq!(noted.code(), Some("HQ028"), "{format}: {noted}");
        assert!(!noted.to_string().contains(FILE), "{format}: {noted}");
        let words = [FILE, "n", "BIGINT", "DOUBLE"];
        refused("ALTER TABLE t SET PRIVACY UNIT ROW", &words).await;
        refused("ALTER TABLE t REFRESH", &words).await;
        let findings = format!("{:?}", owner.execute("SHOW TABLES").await);
        assert!(!findings.contains(FILE));
        // Files that are held are verified.
        put(&path(FILE), bytes(format, end, &floats(&[2.0, f64::NAN])));
        put(&path("a"), bytes(format, end, &rows(&[3, 4])));
        owner.execute("ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await.unwrap();
        assert_eq!(charged(&lab).await, (Some((4, 9)), true), "{format}: whole");
        owner.execute("ALTER TABLE t REFRESH").await.unwrap();
        put(&path(FILE), bytes(format, end, &floats(&[2.0, 2.5])));
        let words = [FILE, "the first is 2.5 in row 2", "n DOUBLE"];
        refused("ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE", &words).await;
        // The same for whoever declares BIGINT, and for all to see.
        owner.execute("DROP PRIVACY BUDGET t").await.unwrap();
        owner.execute("ALTER TABLE t SET PRIVACY UNIT ROW").await.unwrap_err();
        let told = owner.execute(&create("(id BIGINT, n BIGINT)")).await;
        let told = format!("{:?}", told.unwrap());
        assert!(told.contains("n is DOUBLE in the file of"), "{told}");
        refused("ALTER TABLE t SET PUBLIC", &words).await;
        put(&path(FILE), bytes(format, end, &floats(&[2.0])));
        owner.execute("ALTER TABLE t SET PUBLIC").await.unwrap();
        let shown = lab.query("SELECT SUM(n) AS s FROM t").await.unwrap();
        let shown = pretty_format_batches(shown.batches()).unwrap().to_string();
        assert!(shown.contains("| 9 "), "{shown}");
        put(&path(FILE), bytes(format, end, &floats(&[2.5])));
        let gone = lab.query("SELECT SUM(n) AS s FROM t").await.unwrap_err();
        assert_eq!(gone.code(), Some("HQ028"), "{gone}");
        refused("ALTER TABLE t REFRESH", &[FILE, "n DOUBLE in the place of n BIGINT"]).await;
        // Among floats, whole numbers are floats.
        owner.execute(&create("(id BIGINT, n DOUBLE)")).await.unwrap();
        owner.execute("ALTER TABLE t SET PUBLIC").await.unwrap();
        let shown = lab.query("SELECT SUM(n) AS s FROM t").await.unwrap();
        let shown = pretty_format_batches(shown.batches()).unwrap().to_string();
        assert!(shown.contains("9.5"), "{shown}");
    }
}

/// The single file of a table that may change.
#[tokio::test]
async fn fractions_of_one_file_that_may_change_fail_a_charged_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    put(&path, bytes("PARQUET", "parquet", &rows(&[1, 2, 3])));
    let engine = Engine::in_memory().unwrap();
    let lab = declared(
        &engine,
        &[
            format!(
                "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}' OPTIONS ('content_hash' 'false')",
                path.display()
            ),
            "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
            "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 10)".to_owned(),
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
        ],
    )
    .await;
    assert_eq!(charged(&lab).await, (Some(sum(1..=3)), true));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let n: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.0]));
    let floats = RecordBatch::try_from_iter([("id", ids), ("n", n)]).unwrap();
    put(&path, bytes("PARQUET", "parquet", &floats));
    // One person's fraction is no reason for a refusal that costs nothing.
    assert_eq!(charged(&lab).await, (None, true));
    let noted = counted(&lab).await.unwrap_err();
    assert_eq!(noted.code(), Some("HQ028"), "{noted}");
    let refused = engine.owner().execute("ALTER TABLE t SET PRIVACY UNIT ROW").await.unwrap_err();
    assert!(refused.to_string().contains("t.n is declared as BIGINT"), "{refused}");
}

/// Polars keeps the key of a folder in its files. The folder's name is the value of all rows, and
/// the declaration verifies that the rows agree.
#[tokio::test]
async fn keys_of_folders_may_also_be_in_the_files() {
    let with_years = |ids: &[i64], years: Vec<Option<i64>>| {
        let numbers = |of: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(of)) };
        let years: ArrayRef = Arc::new(Int64Array::from(years));
        RecordBatch::try_from_iter_with_nullable([
            ("id", numbers(ids.to_vec()), true),
            ("year", years, true),
            ("n", numbers(ids.iter().map(|id| id % 7).collect()), true),
        ])
        .unwrap()
    };
    for (format, end) in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = |year: &str| folder.path().join(format!("year={year}/{FILE}.{end}"));
        let of = |ids: &[i64], years| bytes(format, end, &with_years(ids, years));
        put(&path("2025"), of(&[1, 2, 3], vec![Some(2025); 3]));
        put(&path("2026"), of(&[4, 5], vec![Some(2026); 2]));
        put(&path("__HIVE_DEFAULT_PARTITION__"), of(&[6], vec![None]));
        // A file of another writer does not have it.
        put(&path("2024"), bytes(format, end, &rows(&[7, 8])));
        let root = folder.path().display();
        for columns in ["", "(id BIGINT, n BIGINT)", "(id BIGINT, year INT, n BIGINT)"] {
            let engine = Engine::in_memory().unwrap();
            let create = format!(
                "CREATE EXTERNAL TABLE t {columns} STORED AS {format} PARTITIONED BY (year INT) LOCATION '{root}'"
            );
            let lab = declared(
                &engine,
                &[
                    create.as_str(),
                    "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
                    "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)",
                    "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)",
                ],
            )
            .await;
            let owner = engine.owner();
            let what = format!("{format} {end} {columns}");
            assert_eq!(charged(&lab).await, (Some(sum(1..=8)), true), "{what}");
            let of_year = async |year: i64| {
                let sql =
                    format!("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE year = {year}");
                let answer = lab.query(&sql).await.unwrap();
                answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0)
            };
            assert_eq!((of_year(2025).await, of_year(2024).await), (3, 2), "{what}");
            // A row that contradicts its folder is refused where the owner declares, and in a
            // query its folder decides.
            owner.execute("ALTER TABLE t SET PRIVACY UNIT ROW").await.unwrap();
            put(&path("2026"), of(&[4, 5], vec![Some(2026), Some(2025)]));
            assert_eq!(charged(&lab).await, (Some(sum(1..=8)), true), "{what}");
            assert_eq!((of_year(2025).await, of_year(2026).await), (3, 2), "{what}");
            for statement in ["SET PRIVACY UNIT ROW", "REFRESH", "SET PRIVACY UNIT (id) UNIQUE"] {
                let statement = format!("ALTER TABLE t {statement}");
                let refused = owner.execute(&statement).await.unwrap_err().to_string();
                let place = match format {
                    "CSV" => "line 3 of",
                    _ => "2 of",
                };
                for word in [place, "has 2025 as year", "folder says 2026", FILE] {
                    assert!(refused.contains(word), "{what} {statement}: {refused}");
                }
            }
            let history = format!("{:?}", owner.execute("SHOW PRIVACY HISTORY").await.unwrap());
            assert!(!history.contains("folder says"), "{history}");
            put(&path("2026"), of(&[4, 5], vec![Some(2026), None]));
            match owner.execute("ALTER TABLE t REFRESH").await {
                // This writer leaves a key without a value out, which contradicts nothing.
                Ok(_) => assert_eq!(format, "JSON", "{what}"),
                Err(refused) => {
                    assert!(refused.to_string().contains("has NULL as year"), "{what}: {refused}");
                }
            }
            put(&path("2026"), of(&[4, 5], vec![Some(2026); 2]));
            owner.execute("ALTER TABLE t REFRESH").await.unwrap();
        }
    }
}

/// Public files are listed when they are asked for, and their trouble has no names either.
#[tokio::test]
async fn public_files_are_read_as_they_are() {
    for (format, end) in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(format!("k={name}/{FILE}.{end}"));
        put(&path("1"), bytes(format, end, &rows(&[1, 2])));
        let engine = Engine::in_memory().unwrap();
        let lab = declared(
            &engine,
            &[
                format!("CREATE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (k INT) LOCATION '{}'", folder.path().display()),
                "ALTER TABLE t SET PUBLIC".to_owned(),
            ],
        )
        .await;
        let shown = async || {
            let answer = lab
                .query("SELECT k, COUNT(*) AS n, SUM(n) AS s FROM t GROUP BY k ORDER BY k")
                .await?;
            Ok::<_, Error>(pretty_format_batches(answer.batches()).unwrap().to_string())
        };
        assert!(shown().await.unwrap().contains("| 1 | 2 | 3 |"), "{format}");
        put(&path("2"), bytes(format, end, &rows(&[3, 4, 5])));
        let both = shown().await.unwrap().replace("3  |", "3 |");
        assert!(both.contains("| 1 | 2 | 3 |") && both.contains("| 2 | 3 | 12 |"), "{both}");
        symlink("/etc/hostname", path("2").with_extension("link")).unwrap();
        let error = shown().await.unwrap_err();
        assert!(error.to_string().contains("the files of t cannot be read"), "{error}");
        assert!(!format!("{error} {error:?}").contains(FILE), "{error:?}");
    }
}

fn says(owner: &Study, sql: &str, words: &[&str]) {
    let run = owner.owner(sql);
    run.says(1, words);
    assert!(!run.err.contains(PERSON) && !run.err.contains(FILE), "{}", run.err);
}

/// Files that are not one table are refused when they are declared.
#[test]
fn files_of_several_tables_are_refused() {
    let study = Study::new();
    let csv = |name: &str, text: &str| put(&study.path(name), text);
    csv(&format!("header/{FILE}1.csv"), "id,n\n1,2\n");
    csv(&format!("header/{FILE}2.csv"), "n,id\n1,2\n");
    csv("width/a.csv", "1,2\n");
    csv("width/b.csv", "1,2,3\n");
    csv(&format!("keys/who={PERSON}/{FILE}.csv"), "id\n1\n");
    csv(&format!("some/who={PERSON}/{FILE}.csv"), "id\n1\n");
    csv(&format!("some/{FILE}.csv"), "id\n2\n");
    csv("own/id=1/a.csv", "id\n1\n");
    csv("own_json/id=1/a.json", "{\"id\": 1}\n");
    csv("with_one/id=1/a.csv", "id,n\n1,2\n");
    csv("link/a.csv", "id\n1\n");
    symlink("a.csv", study.path("link").join(FILE)).unwrap();
    put(&study.path("types/a.parquet"), bytes("PARQUET", "parquet", &rows(&[1])));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let other = RecordBatch::try_from_iter([("id", names)]).unwrap();
    put(&study.path(&format!("types/{FILE}.parquet")), bytes("PARQUET", "parquet", &other));
    put(&study.path("noise/a.parquet"), "noise");
    let create = "CREATE EXTERNAL TABLE t STORED AS CSV";
    for (sql, words) in [
        (format!("{create} LOCATION 'header'"), ["`header` is not one table", "other columns"]),
        (format!("{create} LOCATION 'width' OPTIONS ('has_header' 'false')"), ["not one table", "columns"]),
        (format!("{create} LOCATION 'keys'"), ["write PARTITIONED BY (who)", "before LOCATION"]),
        (format!("{create} PARTITIONED BY (who, day) LOCATION 'keys'"), ["PARTITIONED BY (day)", "below a folder `day=…`"]),
        (format!("{create} PARTITIONED BY (who) LOCATION 'some'"), ["PARTITIONED BY (who)", "below a folder"]),
        (format!("{create} PARTITIONED BY (id) LOCATION 'own'"), ["a file of `own` has no column of its own", "besides those of PARTITIONED BY"]),
        ("CREATE EXTERNAL TABLE t STORED AS JSON PARTITIONED BY (id) LOCATION 'own_json'".to_owned(), ["no column of its own", ""]),
        (format!("{create} PARTITIONED BY (who) LOCATION 'link/a.csv'"), ["is one file", "leave it out"]),
        (format!("{create} LOCATION 'link'"), ["is a link", "not followed"]),
        (format!("{create} LOCATION 'nothing/*.csv'"), ["there is no readable folder `nothing`", ""]),
        (format!("{create} LOCATION 'link/[.csv'"), ["is not a pattern", "**"]),
        (format!("{create} LOCATION 'link/*/../../*'"), ["is not a pattern", ""]),
        ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'types'".to_owned(), ["not one table", "columns"]),
        ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'noise'".to_owned(), ["a file of `noise` is not a PARQUET file", ""]),
        ("CREATE EXTERNAL TABLE t (id INT) STORED AS CSV PARTITIONED BY (who BLOB) LOCATION 'keys'".to_owned(), ["cannot be of type", "BLOB"]),
    ] {
        says(&study, &sql, &words);
    }
    for rest in [
        "LOCATION 'width/[a].csv' OPTIONS ('has_header' 'false')",
        // One cell is left of each line, and the delimiter is a comma nevertheless.
        "PARTITIONED BY (id) LOCATION 'with_one'",
    ] {
        study.owner(&format!("{create} {rest}; DROP TABLE t")).says(0, &[]);
    }
}

/// One person's folder is in no text of the program, and in no byte of the vault.
#[test]
fn names_are_nowhere() {
    let study = Study::new();
    let root = study.path("data");
    with_folders(&root, "PARQUET", "parquet", 4);
    let hostile = format!("year=2025/who={PERSON}'\"\n--;\u{1b}[31m/{FILE}\n.parquet");
    put(&root.join(hostile), bytes("PARQUET", "parquet", &rows(&[900, 901])));
    study
        .owner(
            "CREATE EXTERNAL TABLE t STORED AS PARQUET PARTITIONED BY (year INT, who) LOCATION 'data';
             ALTER TABLE t SET PRIVACY UNIT (who) MAX ROWS 60;
             ALTER TABLE t ALTER COLUMN year SET PRIVACY DOMAIN BETWEEN (2020, 2030);
             CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000, delta=1e-5) REPLAY (OFF)",
        )
        .says(0, &[]);
    let asked = [
        "SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        "SELECT year, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY year",
        "EXPLAIN SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        "EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        "SELECT who FROM t",
        "SELECT * FROM hushql.ledger",
        "SHOW PRIVACY; SHOW TABLES; SHOW PRIVACY HISTORY; DESCRIBE t; SHOW PRIVACY BUDGET",
        "SHOW CREATE TABLE t; ALTER TABLE t SUGGEST PRIVACY",
    ];
    let mut outputs = Vec::new();
    let ask = |outputs: &mut Vec<String>| {
        for sql in asked {
            for who in [&["--analyst", "lab"][..], &["--owner"]] {
                for format in ["table", "json", "csv"] {
                    let mut arguments = vec!["study.db", "--format", format, "-c", sql];
                    arguments.extend(who);
                    let run = study.run(&arguments);
                    outputs.push(format!("{sql} {} {}", run.out, run.err));
                }
            }
        }
        for arguments in [&["dump", "study.db"][..], &["check", "study.db"]] {
            let run = study.run(arguments);
            outputs.push(format!("{arguments:?} {} {}", run.out, run.err));
        }
        // The owner is told which file has other columns, in letters that steer no terminal.
        let doctor = study.run(&["doctor", "study.db"]);
        assert!(!doctor.out.contains('\u{1b}') && !doctor.err.contains('\u{1b}'), "{doctor:?}");
        outputs
            .push(String::from_utf8_lossy(&fs::read(study.path("study.db")).unwrap()).into_owned());
    };
    ask(&mut outputs);
    put(&root.join(format!("year=1/who={PERSON}/{FILE}")), "noise");
    ask(&mut outputs);
    let again = study.owner("ALTER TABLE t SET PRIVACY UNIT (who) MAX ROWS 60");
    assert_ne!(again.status, 0);
    assert!(!again.out.contains('\u{1b}') && !again.err.contains('\u{1b}'), "{again:?}");
    symlink("/etc", root.join(format!("{FILE}-link"))).unwrap();
    ask(&mut outputs);
    assert!(outputs.len() > 150);
    for output in outputs {
        assert!(!output.contains(PERSON) && !output.contains(FILE), "{output}");
    }
    // The words are where they should be, or nothing was looked for.
    assert!(format!("{:?}", walk(&root)).contains(PERSON));
}

fn walk(folder: &Path) -> impl Debug {
    let read = |folder: &Path| {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>()
    };
    read(folder).iter().filter(|path| path.is_dir()).flat_map(|path| read(path)).collect::<Vec<_>>()
}

/// A file that two tables have would give its people two budgets.
#[test]
fn a_file_in_common_is_noticed() {
    let study = Study::new();
    with_folders(&study.path("a"), "CSV", "csv", 3);
    put(
        &study.path("b/lone.csv"),
        fs::read(study.path(&format!("a/year=2021/who={PERSON}%201/{FILE}-1.csv"))).unwrap(),
    );
    put(&study.path("b/other.csv"), "id,n\n7000,1\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE a STORED AS CSV PARTITIONED BY (year INT, who) LOCATION 'a';
             ALTER TABLE a SET PRIVACY UNIT (id) UNIQUE;
             CREATE EXTERNAL TABLE b STORED AS CSV LOCATION 'b';
             CREATE EXTERNAL TABLE c STORED AS CSV PARTITIONED BY (who) LOCATION 'a/year=2021/*';
             CREATE EXTERNAL TABLE d STORED AS CSV LOCATION 'b/other.csv'",
        )
        .says(0, &[]);
    says(
        &study,
        "ALTER TABLE b SET PUBLIC",
        &["a file of b has the same bytes as one of a", "private"],
    );
    says(
        &study,
        "ALTER TABLE c SET PRIVACY UNIT ROW",
        &["a file of c is one of a", "OTHER PEOPLE THAN a"],
    );
    study.owner("ALTER TABLE d SET PUBLIC").says(0, &[]);
    // Whoever may write answers among the files would add rows.
    fs::create_dir_all(study.path("a/out")).unwrap();
    for folder in ["a/out", "a", "."] {
        let sql = format!("ALTER VAULT SET EXPORT FOLDER '{folder}' FOR lab");
        says(&study, &sql, &["cannot be an export folder"]);
    }
    fs::create_dir_all(study.path("out/below")).unwrap();
    study.owner("ALTER VAULT SET EXPORT FOLDER 'out' FOR lab").says(0, &[]);
    for folder in ["out", "out/below", "."] {
        put(&study.path(folder).join("x.csv"), "id\n1\n");
        let sql =
            format!("CREATE EXTERNAL TABLE x (id INT) STORED AS CSV LOCATION '{folder}/x*.csv'");
        says(&study, &sql, &["export folder of lab"]);
    }
}

/// What was declared is declared again by its dump: folders with hostile names, patterns, columns
/// of folders.
#[test]
fn a_dump_declares_the_same_files() {
    let study = Study::new();
    with_folders(&study.path("it's [odd]*"), "JSON", "json", 2);
    with_folders(&study.path("p"), "PARQUET", "parquet", 2);
    fs::create_dir(study.path("none")).unwrap();
    study
        .owner(
            "CREATE EXTERNAL TABLE a STORED AS JSON PARTITIONED BY (year INT, \"who\" VARCHAR) LOCATION 'it''s [odd]*';
             CREATE EXTERNAL TABLE b STORED AS JSON PARTITIONED BY (who) LOCATION 'it''s [[]odd[]][*]/year=2020/who=*' OPTIONS ('content_hash' 'true');
             CREATE EXTERNAL TABLE c (who DATE, id BIGINT, n BIGINT) STORED AS PARQUET PARTITIONED BY (year, who) LOCATION 'p/**/*.parquet';
             CREATE EXTERNAL TABLE d (id BIGINT) STORED AS ARROW LOCATION 'none'",
        )
        .says(0, &[]);
    let dump = study.run(&["dump", "study.db"]);
    dump.says(0, &[]);
    assert!(dump.out.contains("PARTITIONED BY (year INT, who VARCHAR) LOCATION"), "{}", dump.out);
    study.write("dump.sql", &dump.out);
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let again = study.run(&["dump", "other.db"]);
    let statements = |text: &str| {
        text.lines().filter(|line| line.contains("EXTERNAL")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(statements(&again.out), statements(&dump.out));
    assert_eq!(statements(&dump.out).len(), 4);
    let described = study.run(&["study.db", "--owner", "--format", "csv", "-c", "DESCRIBE c"]);
    let names: Vec<&str> =
        described.out.lines().skip(1).filter_map(|l| l.split(',').next()).collect();
    assert_eq!(names, ["id", "n", "year", "who"]);
    File::open(study.path("none")).unwrap();
}
