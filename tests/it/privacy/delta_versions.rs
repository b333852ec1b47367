//! STORED AS DELTA: the rows of one version of a table of Delta Lake, the one that was the newest
//! at the declaration, and nothing that its log says about values of rows.
//!
//! The logs are written by hand, as Spark writes them, and the files by Arrow.

#![allow(clippy::needless_pass_by_value, reason = "values are written where they are used")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float32Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use hushql::{Analyst, Engine};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::draws::declared;
use super::drift::{ASK, Seen, ask};
use super::folders::{charged, left, put, rows, sum};
use crate::contract::program::Study;

/// A table of Delta Lake in a folder.
pub(super) struct Lake {
    _place: Option<TempDir>,
    pub(super) folder: PathBuf,
    versions: usize,
}

const COLUMNS: &str = r#"{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"n","type":"long","nullable":true,"metadata":{}}"#;

impl Lake {
    pub(super) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("visits");
        Self { folder, versions: 0, _place: Some(place) }
    }

    /// Writes a version with these actions.
    pub(super) fn commit(&mut self, actions: &[Value]) {
        let lines = actions.iter().fold(String::new(), |mut lines, action| {
            writeln!(lines, "{action}").unwrap();
            lines
        });
        put(&self.log(&format!("{:020}.json", self.versions)), lines);
        self.versions += 1;
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join("_delta_log").join(name)
    }

    /// Writes a file, and the action that adds it.
    pub(super) fn add(&self, name: &str, rows: &RecordBatch, values: Value) -> Value {
        let mut bytes = Vec::new();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(50)).build();
        let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties)).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        put(&self.folder.join(name), &bytes);
        json!({"add": {
            "path": name.replace('%', "%25").replace(' ', "%20"),
            "partitionValues": values,
            "size": bytes.len(),
            "modificationTime": 0,
            "dataChange": true,
            // No word of this is true.
            "stats": "{\"numRecords\":9000,\"minValues\":{\"id\":70000,\"n\":50},\"maxValues\":{\"id\":70000,\"n\":60},\"nullCount\":{\"id\":9,\"n\":9}}",
        }})
    }

    pub(super) fn create(&self) -> String {
        format!("CREATE EXTERNAL TABLE t STORED AS DELTA LOCATION '{}'", self.folder.display())
    }

    /// What CREATE says of the folder, if it refuses it.
    async fn refusal(&self, columns: &str) -> String {
        let owner = Engine::in_memory().unwrap().owner();
        let create = self.create().replace("TABLE t", &format!("TABLE t {columns}"));
        owner.execute(&create).await.unwrap_err().to_string()
    }
}

pub(super) fn protocol(features: &[&str]) -> Value {
    match features {
        [] => json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        features => json!({"protocol": {
            "minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": features, "writerFeatures": features,
        }}),
    }
}

pub(super) fn metadata(fields: &str, by: &[&str], configuration: Value) -> Value {
    json!({"metaData": {
        "id": "0", "format": {"provider": "parquet", "options": {}},
        "schemaString": format!("{{\"type\":\"struct\",\"fields\":[{fields}]}}"),
        "partitionColumns": by, "configuration": configuration, "createdTime": 0,
    }})
}

fn field(name: &str, data_type: &str) -> String {
    json!({"name": name, "type": data_type, "nullable": true, "metadata": {}}).to_string()
}

fn remove(add: &Value) -> Value {
    json!({"remove": {"path": add["add"]["path"], "deletionTimestamp": 0, "dataChange": true}})
}

/// Ids 0 to 199 in two files; the second version has 100 to 149 in place of the second one.
fn deleted() -> Lake {
    let mut lake = Lake::new();
    let ids: Vec<i64> = (0..200).collect();
    let first = lake.add("a b.parquet", &rows(&ids[..100]), json!({}));
    let second = lake.add("b%20.parquet", &rows(&ids[100..]), json!({}));
    lake.commit(&[protocol(&[]), metadata(COLUMNS, &[], json!({})), first, second.clone()]);
    let rest = lake.add("c.parquet", &rows(&ids[100..150]), json!({}));
    lake.commit(&[json!({"commitInfo": {"operation": "DELETE"}}), remove(&second), rest]);
    lake
}

const PRIVATE: [&str; 3] = [
    "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 1",
    "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)",
    "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (ALL)",
];

async fn private(engine: &Engine, lake: &Lake) -> Analyst {
    let create = lake.create();
    let statements: Vec<&str> = std::iter::once(create.as_str()).chain(PRIVATE).collect();
    declared(engine, &statements).await
}

/// The rows of a public table, as text.
async fn shown(lake: &Lake, sql: &str) -> String {
    let engine = Engine::in_memory().unwrap();
    let lab = declared(&engine, &[lake.create(), "ALTER TABLE t SET PUBLIC".to_owned()]).await;
    let answer = lab.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    pretty_format_batches(answer.batches()).unwrap().to_string()
}

/// The cells of such a table, row by row.
fn cells(table: &str) -> Vec<Vec<&str>> {
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(1);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Whoever was deleted is in no answer, and whoever comes later only after REFRESH. An answer
/// belongs to its version.
#[tokio::test]
async fn a_declaration_reads_its_version() {
    let mut lake = deleted();
    let engine = Engine::in_memory().unwrap();
    let lab = private(&engine, &lake).await;
    let present = (Some(sum(0..150)), true);
    assert_eq!(charged(&lab).await, present);
    assert_eq!(charged(&lab).await, (present.0, false), "replayed");
    let more: Vec<i64> = (200..230).collect();
    let added = lake.add("d.parquet", &rows(&more), json!({}));
    lake.commit(&[added]);
    assert_eq!(charged(&lab).await, (present.0, false), "a newer version");
    let fresh = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE id >= 190";
    let few = lab.query(fresh).await.unwrap();
    assert!(format!("{:?}", few.batches()[0].column(0)).contains("\n  0,\n"), "{few:?}");
    let owner = engine.owner();
    let said = owner.execute("ALTER TABLE t REFRESH").await.unwrap();
    assert!(format!("{said:?}").contains("version 2 of its log"), "{said:?}");
    let all = (Some(sum((0..150).chain(200..230))), true);
    assert_eq!(charged(&lab).await, all);
    // A version that the unit does not fit is not taken.
    let twice = lake.add("e.parquet", &rows(&[7, 7]), json!({}));
    lake.commit(&[twice]);
    let refused = owner.execute("ALTER TABLE t REFRESH").await.unwrap_err().to_string();
    assert!(refused.contains("more than 1 rows"), "{refused}");
    assert_eq!(charged(&lab).await, (all.0, false));
    // What declares the table again declares its newest version.
    let dump = engine.dump().unwrap();
    assert!(dump.contains("t (id BIGINT, n BIGINT) STORED AS DELTA LOCATION"), "{dump}");
}

/// The unit does not choose the version: it is the one of CREATE.
#[tokio::test]
async fn a_unit_is_declared_on_the_version_of_the_declaration() {
    let mut lake = deleted();
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    let said = owner.execute(&lake.create()).await.unwrap();
    assert!(format!("{said:?}").contains("version 1 of its log is read"), "{said:?}");
    let added = lake.add("d.parquet", &rows(&[999]), json!({}));
    lake.commit(&[added]);
    let lab = declared(&engine, &PRIVATE).await;
    assert_eq!(charged(&lab).await, (Some(sum(0..150)), true));
    for unit in ["ROW", "(id) MAX ROWS 2"] {
        owner.execute(&format!("ALTER TABLE t SET PRIVACY UNIT {unit}")).await.unwrap();
        assert_eq!(charged(&lab).await.0, Some(sum(0..150)), "{unit}");
    }
    owner.execute("ALTER TABLE t SET PUBLIC").await.unwrap();
    let answer = lab.query("SELECT COUNT(*) AS n, MAX(id) AS most FROM t").await.unwrap();
    let text = pretty_format_batches(answer.batches()).unwrap().to_string();
    assert_eq!(cells(&text), [["150", "149"]]);
}

/// What a log says of values is not believed: a count, a least or a largest value of a file answers
/// no query and skips no file.
#[tokio::test]
async fn statistics_of_the_log_answer_nothing() {
    let lake = deleted();
    for (sql, expected) in [
        ("SELECT COUNT(*) FROM t", "150"),
        ("SELECT COUNT(id) FROM t", "150"),
        ("SELECT MIN(id) FROM t", "0"),
        ("SELECT MAX(n) FROM t", "6"),
        ("SELECT COUNT(*) FROM t WHERE id < 10", "10"),
        ("SELECT COUNT(*) FROM t WHERE n IS NULL", "0"),
        ("SELECT COUNT(*) FROM t WHERE id > 60000", "0"),
    ] {
        assert_eq!(cells(&shown(&lake, sql).await), [[expected]], "{sql}");
    }
}

/// The values of partitions are the log's, in the types of its columns, whatever the names of the
/// folders are.
#[tokio::test]
async fn partitions_have_the_values_of_the_log() {
    let mut lake = Lake::new();
    let fields = [field("ward", "string"), field("day", "date"), field("id", "long")];
    let fields = [fields.join(","), field("fee", "decimal(6,2)"), field("n", "long")].join(",");
    let by = ["ward", "day", "fee"];
    let value = |ward: Value, day: Value, fee: Value| json!({"ward": ward, "day": day, "fee": fee});
    let adds = [
        lake.add(
            "ward=x/a.parquet",
            &rows(&[1]),
            value(json!("b c"), json!("2024-02-29"), json!("1.50")),
        ),
        lake.add("ward=x/b.parquet", &rows(&[2]), value(json!(null), json!(""), json!(null))),
        lake.add(
            "c%.parquet",
            &rows(&[3]),
            value(json!("a/'b'"), json!("1969-12-31"), json!("-2")),
        ),
    ];
    let mut actions = vec![protocol(&[]), metadata(&fields, &by, json!({}))];
    actions.extend(adds);
    lake.commit(&actions);
    let table = shown(&lake, "SELECT id, n, ward, day, fee FROM t ORDER BY id").await;
    assert_eq!(
        cells(&table),
        [
            ["1", "1", "b c", "2024-02-29", "1.50"],
            ["2", "2", "", "", ""],
            ["3", "3", "a/'b'", "1969-12-31", "-2.00"],
        ]
    );
    let table = shown(&lake, "SELECT COUNT(*) FROM t WHERE ward IS NULL AND fee IS NULL").await;
    assert_eq!(cells(&table), [["1"]]);
    let bad = lake.add("d.parquet", &rows(&[4]), value(json!("a"), json!("soon"), json!("1")));
    lake.commit(&[bad]);
    let refused = lake.refusal("").await;
    assert!(refused.contains("a value of `day` that is not DATE: `soon`"), "{refused}");
    // The column may be left out.
    let owner = Engine::in_memory().unwrap().owner();
    let some = lake.create().replace("TABLE t", "TABLE t (id BIGINT, ward VARCHAR)");
    owner.execute(&some).await.unwrap();
    let lacking = lake.add("e.parquet", &rows(&[5]), json!({"ward": "a"}));
    lake.commit(&[lacking]);
    let refused = lake.refusal("").await;
    assert!(refused.contains("no value of `day`"), "{refused}");
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter(columns.iter().map(|(name, column)| (*name, Arc::clone(column))))
        .unwrap()
}

/// Columns that came later are NULL in earlier files, those that went are not read, narrower types
/// are widened, and a file may have its columns in any order.
#[tokio::test]
async fn columns_that_changed_are_read_as_the_log_says() {
    let mut lake = Lake::new();
    let old = batch(&[
        ("gone", Arc::new(StringArray::from(vec!["x", "y"]))),
        (
            "fee",
            Arc::new(Decimal128Array::from(vec![150, -25]).with_precision_and_scale(6, 2).unwrap()),
        ),
        ("score", Arc::new(Float32Array::from(vec![0.5, 2.0]))),
        ("n", Arc::new(Int32Array::from(vec![4, 5]))),
        ("id", Arc::new(Int16Array::from(vec![1, 2]))),
    ]);
    let new = batch(&[
        ("id", Arc::new(Int64Array::from(vec![5_000_000_000, 4]))),
        ("n", Arc::new(Int64Array::from(vec![6, 1]))),
        ("ward", Arc::new(StringArray::from(vec![Some("a"), None]))),
        (
            "fee",
            Arc::new(
                Decimal128Array::from(vec![1_234_567_890, 1])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("score", Arc::new(arrow::array::Float64Array::from(vec![0.1, 1e300]))),
    ]);
    let fields = [
        field("id", "long"),
        field("n", "long"),
        field("ward", "string"),
        field("fee", "decimal(10,2)"),
        field("score", "double"),
    ]
    .join(",");
    let adds = [lake.add("a.parquet", &old, json!({})), lake.add("b.parquet", &new, json!({}))];
    let [first, second] = adds;
    lake.commit(&[protocol(&["typeWidening"]), metadata(&fields, &[], json!({})), first, second]);
    let table = shown(&lake, "SELECT id, n, ward, fee, score FROM t ORDER BY id").await;
    assert_eq!(
        cells(&table),
        [
            ["1", "4", "", "1.50", "0.5"],
            ["2", "5", "", "-0.25", "2.0"],
            ["4", "1", "", "0.01", "1e300"],
            ["5000000000", "6", "a", "12345678.90", "0.1"],
        ]
    );
    for (filter, expected) in [
        ("ward IS NULL", "3"),
        ("ward = 'a'", "1"),
        ("ward IS DISTINCT FROM 'a'", "3"),
        ("fee > 0", "3"),
        ("id > 2", "2"),
        ("COALESCE(ward, 'none') = 'none'", "3"),
    ] {
        let sql = format!("SELECT COUNT(*) FROM t WHERE {filter}");
        assert_eq!(cells(&shown(&lake, &sql).await), [[expected]], "{filter}");
    }
    let engine = Engine::in_memory().unwrap();
    let lab = private(&engine, &lake).await;
    let sql = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE ward IS NULL";
    let answer = lab.query(sql).await.unwrap();
    let text = pretty_format_batches(answer.batches()).unwrap().to_string();
    assert_eq!(cells(&text), [["3"]]);
    // A wider type than the log's is none of its values.
    let wrong = batch(&[("id", Arc::new(StringArray::from(vec!["1"])))]);
    let wrong = lake.add("c.parquet", &wrong, json!({}));
    lake.commit(&[wrong]);
    let refused = lake.refusal("").await;
    assert!(refused.contains("`c.parquet` has the column `id` as VARCHAR"), "{refused}");
}

/// Columns under other names in the files, as after RENAME COLUMN.
#[tokio::test]
async fn mapped_columns_have_the_names_of_the_log() {
    let mut lake = Lake::new();
    let mapped = |name: &str, physical: &str, data_type: &str| {
        json!({"name": name, "type": data_type, "nullable": true, "metadata": {
            "delta.columnMapping.id": 1, "delta.columnMapping.physicalName": physical,
        }})
        .to_string()
    };
    let fields = [
        mapped("n", "col-1", "long"),
        mapped("id", "n", "long"),
        mapped("later", "col-3", "long"),
        mapped("ward", "col-4", "string"),
    ]
    .join(",");
    let configuration = json!({"delta.columnMapping.mode": "name"});
    let file = batch(&[
        // Not the column `n` of the table.
        ("n", Arc::new(Int64Array::from(vec![1, 2]))),
        ("col-1", Arc::new(Int64Array::from(vec![5, 6]))),
        ("ward", Arc::new(StringArray::from(vec!["not", "this"]))),
    ]);
    let add = lake.add("a.parquet", &file, json!({"col-4": "west"}));
    let mode = metadata(&fields, &["ward"], configuration);
    lake.commit(&[protocol(&["columnMapping"]), mode, add]);
    let table =
        shown(&lake, "SELECT id, n, later, ward FROM t WHERE n > 5 OR id = 1 ORDER BY id").await;
    assert_eq!(cells(&table), [["1", "5", "", "west"], ["2", "6", "", "west"]]);
    let engine = Engine::in_memory().unwrap();
    let lab = private(&engine, &lake).await;
    assert_eq!(charged(&lab).await, (Some((2, 11)), true));
    let other = metadata(&fields, &["ward"], json!({"delta.columnMapping.mode": "id"}));
    lake.commit(&[other]);
    let refused = lake.refusal("").await;
    assert!(refused.contains("delta.columnMapping.mode=id"), "{refused}");
}

/// A text of five digits for each four bytes, as logs have it.
fn as_text(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 85] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    let mut text = String::new();
    for four in padded.chunks(4) {
        let number = u32::from_be_bytes(four.try_into().unwrap());
        let digit = |power: u32| DIGITS[(number / 85_u32.pow(power) % 85) as usize] as char;
        text.extend((0..5).rev().map(digit));
    }
    text
}

/// A deletion vector in the text of the log.
fn vector(deleted: &[u16]) -> Value {
    let mut bytes = 1_681_511_377_u32.to_le_bytes().to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(12_346_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(0_u16.to_le_bytes());
    bytes.extend(u16::try_from(deleted.len() - 1).unwrap().to_le_bytes());
    bytes.extend(16_u32.to_le_bytes());
    bytes.extend(deleted.iter().flat_map(|row| row.to_le_bytes()));
    json!({
        "storageType": "i", "pathOrInlineDv": as_text(&bytes),
        "sizeInBytes": bytes.len(), "cardinality": deleted.len(),
    })
}

/// Rows that a deletion vector deletes are in no answer, whichever row groups a filter leaves.
#[tokio::test]
async fn deleted_rows_of_a_file_are_not_read() {
    let mut lake = Lake::new();
    let ids: Vec<i64> = (0..200).collect();
    let whole = lake.add("a.parquet", &rows(&ids), json!({}));
    let mut cut = whole.clone();
    let deleted: Vec<u16> = [0, 1, 49, 50, 120].into_iter().chain(150..200).collect();
    cut["add"]["deletionVector"] = vector(&deleted);
    let created = [protocol(&["deletionVectors"]), metadata(COLUMNS, &[], json!({}))];
    lake.commit(&[created.as_slice(), std::slice::from_ref(&whole)].concat());
    lake.commit(&[remove(&whole), cut.clone()]);
    let kept: Vec<i64> =
        ids.iter().copied().filter(|id| deleted.iter().all(|row| i64::from(*row) != *id)).collect();
    let engine = Engine::in_memory().unwrap();
    let lab = private(&engine, &lake).await;
    assert_eq!(charged(&lab).await, (Some(sum(kept.clone())), true));
    for (filter, expected) in [
        ("id >= 0", kept.len()),
        ("id < 50", 47),
        ("id BETWEEN 40 AND 60", 19),
        ("id >= 150", 0),
        ("id = 120", 0),
        ("id = 121", 1),
        ("n = 1", kept.iter().filter(|id| **id % 7 == 1).count()),
    ] {
        for sql in ["COUNT(*)", "COUNT(n)", "COUNT(DISTINCT id)"] {
            let sql = format!("SELECT {sql} FROM t WHERE {filter}");
            assert_eq!(cells(&shown(&lake, &sql).await), [[expected.to_string()]], "{sql}");
        }
        let private = format!("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE {filter}");
        let answer = lab.query(&private).await.unwrap();
        let text = pretty_format_batches(answer.batches()).unwrap().to_string();
        assert_eq!(cells(&text), [[expected.to_string()]], "{filter}");
    }
    assert_eq!(cells(&shown(&lake, "SELECT COUNT(*) FROM t").await), [[kept.len().to_string()]]);
    // Another vector of the same file replaces the first one.
    let mut more = whole.clone();
    more["add"]["deletionVector"] = vector(&[7]);
    let mut before = remove(&whole);
    before["remove"]["deletionVector"] = cut["add"]["deletionVector"].clone();
    lake.commit(&[before, more.clone()]);
    assert_eq!(cells(&shown(&lake, "SELECT COUNT(*) FROM t").await), [["199"]]);
    // Without the removal, the log has the file twice.
    more["add"]["deletionVector"] = vector(&[8]);
    lake.commit(&[more.clone()]);
    let refused = lake.refusal("").await;
    assert!(refused.contains("`a.parquet` twice"), "{refused}");
    fs::remove_file(lake.log(&format!("{:020}.json", 3))).unwrap();
    lake.versions = 3;
    more["add"]["deletionVector"] = vector(&[200]);
    let mut before = remove(&whole);
    before["remove"]["deletionVector"] = vector(&[7]);
    lake.commit(&[before, more.clone()]);
    let refused = lake.refusal("").await;
    assert!(refused.contains("rows of `a.parquet` that are behind its end"), "{refused}");
}

/// A file of the version that is gone or another one: one query pays, everybody else is refused
/// before the charge, until the owner takes the newest version.
#[tokio::test]
async fn a_version_that_is_gone_drifts() {
    for what in ["vacuum", "replaced", "longer", "log", "values", "link"] {
        let mut lake = Lake::new();
        let fields = [COLUMNS.to_owned(), field("ward", "string")].join(",");
        let add = lake.add("a.parquet", &rows(&[1, 2, 3]), json!({"ward": "a"}));
        lake.commit(&[protocol(&[]), metadata(&fields, &["ward"], json!({})), add.clone()]);
        let engine = Engine::in_memory().unwrap();
        let lab = private(&engine, &lake).await;
        let newer = lake.add("b.parquet", &rows(&[1, 2, 3, 4]), json!({"ward": "b"}));
        let mut changed = vec![protocol(&[]), metadata(&fields, &["ward"], json!({}))];
        match what {
            "vacuum" => fs::remove_file(lake.folder.join("a.parquet")).unwrap(),
            "replaced" => drop(lake.add("a.parquet", &rows(&[1, 2, 4]), json!({}))),
            "longer" => put(&lake.folder.join("a.parquet"), "more bytes"),
            "link" => {
                let to = lake.folder.join("b.parquet");
                fs::remove_file(lake.folder.join("a.parquet")).unwrap();
                std::os::unix::fs::symlink(to, lake.folder.join("a.parquet")).unwrap();
            }
            _ => {
                let mut other = add.clone();
                match what {
                    "values" => other["add"]["partitionValues"]["ward"] = json!("z"),
                    _ => other = newer.clone(),
                }
                changed.push(other);
                lake.versions = 0;
                lake.commit(&changed);
            }
        }
        assert_eq!(ask(&lab, ASK).await, Seen::Failed, "{what}");
        assert_eq!(ask(&lab, ASK).await, Seen::Refused, "{what}");
        lake.commit(&[remove(&add), newer]);
        engine.owner().execute("ALTER TABLE t REFRESH").await.unwrap();
        assert_eq!(charged(&lab).await, (Some(sum(1..5)), true), "{what}");
    }
}

/// A checkpoint stands for the commits before it, in one file, in parts, or with sidecars.
#[tokio::test]
async fn checkpoints_stand_for_earlier_versions() {
    for form in ["classic", "parts", "json", "sidecars"] {
        let mut lake = deleted();
        let kept = |name: &str| {
            let size = fs::metadata(lake.folder.join(name)).unwrap().len();
            let path = name.replace(' ', "%20");
            json!({"add": {"path": path, "partitionValues": {}, "size": size, "dataChange": false}})
        };
        let files = [kept("a b.parquet"), kept("c.parquet")];
        let described = [protocol(&["v2Checkpoint"]), metadata(COLUMNS, &[], json!({}))];
        let id = "01234567-89ab-cdef-0123-456789abcdef";
        let name = |rest: &str| lake.log(&format!("{:020}.checkpoint.{rest}", 1));
        match form {
            "classic" => checkpoint(&name("parquet"), &[described.as_slice(), &files].concat()),
            "parts" => {
                checkpoint(&name("0000000001.0000000002.parquet"), &described);
                checkpoint(&name("0000000002.0000000002.parquet"), &files);
            }
            "json" => {
                let mut lines = vec![json!({"checkpointMetadata": {"version": 1}})];
                lines.extend(described.iter().chain(&files).cloned());
                let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
                put(&name(&format!("{id}.json")), lines.join("\n"));
            }
            _ => {
                let sidecar = json!({"sidecar": {"path": "of 1.parquet", "sizeInBytes": 1}});
                checkpoint(&lake.log("_sidecars/of 1.parquet"), &files);
                let manifest = [described.as_slice(), &[sidecar]].concat();
                checkpoint(&name(&format!("{id}.parquet")), &manifest);
            }
        }
        // A checkpoint that is being written is not looked at where the commits are there.
        put(&lake.log(&format!("{:020}.checkpoint.{id}.parquet", 0)), "half of it");
        for version in [0, 1] {
            let sql = "SELECT COUNT(*), SUM(n) FROM t";
            let (count, n) = sum(0..150);
            let expected = [[count.to_string(), n.to_string()]];
            assert_eq!(cells(&shown(&lake, sql).await), expected, "{form} {version}");
            fs::remove_file(lake.log(&format!("{version:020}.json"))).unwrap();
        }
        let last = lake.add("d.parquet", &rows(&[500]), json!({}));
        let gone = lake.versions;
        lake.commit(&[last, remove(&files[0])]);
        assert_eq!(cells(&shown(&lake, "SELECT COUNT(*) FROM t").await), [["51"]], "{form}");
        lake.versions = gone + 2;
        lake.commit(&[]);
        let refused = lake.refusal("").await;
        assert!(refused.contains("version 3 is missing from its log"), "{refused}");
    }
}

/// Writes actions as a checkpoint in Parquet, with columns that only writers of statistics read.
fn checkpoint(path: &Path, actions: &[Value]) {
    use arrow::datatypes::{DataType, Field, Fields, Schema};
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let of = |name: &str, fields: Vec<Field>| {
        Field::new(name, DataType::Struct(Fields::from(fields)), true)
    };
    let map = |name: &str| {
        let entries = vec![Field::new("key", DataType::Utf8, false), text("value")];
        let entries = Field::new("key_value", DataType::Struct(Fields::from(entries)), false);
        Field::new(name, DataType::Map(Arc::new(entries), false), true)
    };
    let list = |name: &str| Field::new(name, DataType::new_list(DataType::Utf8, true), true);
    let schema = Arc::new(Schema::new(vec![
        of("txn", vec![text("appId"), number("version")]),
        of(
            "add",
            vec![
                text("path"),
                map("partitionValues"),
                number("size"),
                Field::new("dataChange", DataType::Boolean, true),
                text("stats"),
                of("stats_parsed", vec![number("numRecords")]),
            ],
        ),
        of("remove", vec![text("path"), number("deletionTimestamp")]),
        of(
            "metaData",
            vec![
                text("id"),
                of("format", vec![text("provider"), map("options")]),
                text("schemaString"),
                list("partitionColumns"),
                map("configuration"),
            ],
        ),
        of(
            "protocol",
            vec![
                Field::new("minReaderVersion", DataType::Int32, true),
                Field::new("minWriterVersion", DataType::Int32, true),
                list("readerFeatures"),
                list("writerFeatures"),
            ],
        ),
        of("sidecar", vec![text("path"), number("sizeInBytes")]),
    ]));
    let mut lines: Vec<String> = actions.iter().map(Value::to_string).collect();
    // A tombstone, which says nothing of the files that are there.
    lines.push(r#"{"remove":{"path":"b%2520.parquet","deletionTimestamp":1}}"#.to_owned());
    let lines = lines.join("\n");
    let reader = arrow::json::ReaderBuilder::new(Arc::clone(&schema)).build(lines.as_bytes());
    let rows: Vec<RecordBatch> = reader.unwrap().map(Result::unwrap).collect();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    rows.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    put(path, bytes);
}

/// What is not known here is refused by its name, with what to write.
#[tokio::test]
async fn what_is_not_read_is_refused_by_name() {
    let table = |protocol: Value, metadata: Value, more: &[Value]| {
        let mut lake = Lake::new();
        let add = lake.add("a.parquet", &rows(&[1]), json!({}));
        lake.commit(&[[protocol, metadata, add].as_slice(), more].concat());
        lake
    };
    let plain = || metadata(COLUMNS, &[], json!({}));
    let nested = json!({"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": true}, "nullable": true, "metadata": {}});
    let tags = metadata(&format!("{nested},{COLUMNS}"), &[], json!({}));
    let add = |path: &str| json!({"add": {"path": path, "partitionValues": {}, "size": 1}});
    let lake = table(protocol(&[]), tags, &[]);
    let refused = lake.refusal("").await;
    assert!(
        refused.contains("a column `tags` of type ARRAY")
            && refused.contains("CREATE EXTERNAL TABLE t (id BIGINT, n BIGINT) STORED AS DELTA"),
        "{refused}"
    );
    let owner = Engine::in_memory().unwrap().owner();
    let some = lake.create().replace("TABLE t", "TABLE t (n BIGINT, id BIGINT)");
    owner.execute(&some).await.unwrap();
    for (lake, columns, expected) in [
        (table(protocol(&["variantType"]), plain(), &[]), "", "the feature variantType"),
        (table(protocol(&[]), plain(), &[json!({"manifest": {}})]), "", "unknown field `manifest`"),
        (
            table(protocol(&[]), plain(), &[add("../b.parquet")]),
            "",
            "outside of the table's folder",
        ),
        (
            table(protocol(&[]), plain(), &[add("/etc/b.parquet")]),
            "",
            "outside of the table's folder",
        ),
        (
            table(protocol(&[]), plain(), &[add("s3://x/b.parquet")]),
            "",
            "outside of the table's folder",
        ),
        (table(protocol(&[]), plain(), &[add("b.parquet")]), "", "removed, as VACUUM does"),
        (table(protocol(&[]), plain(), &[add("a.parquet")]), "", "twice"),
        (table(protocol(&[]), plain(), &[remove(&add("a.parquet"))]), "", "adds and removes"),
        (table(protocol(&[]), plain(), &[]), "(id BIGINT, m INT)", "no column `m`; it has id, n"),
        (table(protocol(&[]), plain(), &[]), "(id VARCHAR)", "column `id` as BIGINT, not VARCHAR"),
        (table(protocol(&[]), plain(), &[]), "(id INT)", "column `id` as BIGINT, not INT"),
    ] {
        let refused = lake.refusal(columns).await;
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
    let lake = deleted();
    let owner = Engine::in_memory().unwrap().owner();
    let file = lake.folder.join("c.parquet");
    let other = lake.folder.parent().unwrap();
    let at = |place: &Path| format!("STORED AS DELTA LOCATION '{}'", place.display());
    for (rest, expected) in [
        (at(&file), "is a file"),
        (at(other), "it has no folder _delta_log"),
        ("STORED AS DELTA LOCATION 's3://bucket/visits'".to_owned(), "copy the folder"),
        (
            format!("STORED AS DELTA PARTITIONED BY (n) LOCATION '{}'", lake.folder.display()),
            "leave PARTITIONED BY out",
        ),
        (format!("{} OPTIONS ('delimiter' ';')", at(&lake.folder)), "have no option `delimiter`"),
        (format!("{} OPTIONS ('content_hash' 'false')", at(&lake.folder)), "REFRESH takes"),
        (format!("STORED AS ICEBERG LOCATION '{}'", other.display()), "iceberg_scan"),
        (format!("STORED AS PARQUET LOCATION '{}'", lake.folder.display()), "STORED AS DELTA"),
    ] {
        let sql = format!("CREATE EXTERNAL TABLE t {rest}");
        let refused = owner.execute(&sql).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{sql}: {refused}");
    }
}

/// The doctor says that a newer version exists, and what is wrong with the declared one.
#[test]
fn the_doctor_knows_newer_versions() {
    let study = Study::new();
    let mut lake = Lake { folder: study.path("visits"), versions: 0, _place: None };
    let add = lake.add("a.parquet", &rows(&[1, 2]), json!({}));
    lake.commit(&[protocol(&[]), metadata(COLUMNS, &[], json!({})), add.clone()]);
    study
        .owner(
            "CREATE EXTERNAL TABLE t STORED AS DELTA LOCATION 'visits';
             ALTER TABLE t SET PRIVACY UNIT ROW;
             CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=10)",
        )
        .says(0, &[]);
    let doctor = || {
        let run = study.run(&["doctor", "study.db"]);
        format!("{}{}", run.out, run.err)
    };
    assert!(!doctor().contains("of the table is read"), "{}", doctor());
    let newer = lake.add("b.parquet", &rows(&[3]), json!({}));
    lake.commit(&[remove(&add), newer]);
    let said = doctor();
    assert!(said.contains("version 0 of the table is read, and version 1 exists"), "{said}");
    assert!(said.contains("ALTER TABLE t REFRESH takes the newest version"), "{said}");
    fs::remove_file(lake.folder.join("a.parquet")).unwrap();
    let said = doctor();
    assert!(said.contains("the files of t cannot be read"), "{said}");
    study.owner("ALTER TABLE t REFRESH").says(0, &[]);
    assert!(!doctor().contains("of the table is read"), "{}", doctor());
}

/// Before the charge, nobody looks: a query is planned and refused alike for any files.
#[tokio::test]
async fn nothing_is_read_before_the_charge() {
    let lake = deleted();
    let engine = Engine::in_memory().unwrap();
    let lab = private(&engine, &lake).await;
    assert!(lab.prepare(ASK).is_ok());
    for name in ["a b.parquet", "b%20.parquet", "c.parquet"] {
        fs::remove_file(lake.folder.join(name)).unwrap();
    }
    fs::remove_dir_all(lake.folder.join("_delta_log")).unwrap();
    let budget = left(&lab);
    assert!(lab.prepare(ASK).is_ok());
    assert_eq!(left(&lab), budget);
    assert_eq!(ask(&lab, ASK).await, Seen::Failed);
}
