//! Files of columns that few have: what is declared of them can be asked of them, with rows and without.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;
use hushql::{Engine, Error};

use crate::privacy::draws::declared;

fn rows(n: usize) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n as i64));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..n).map(|_| "x")));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let times = TimestampMicrosecondArray::from_iter_values((0..n).map(|i| i as i64 * 1_000_000));
    let lists = (0..n).map(|_| Some(vec![Some(1)]));
    RecordBatch::try_from_iter_with_nullable([
        ("id", ids, true),
        ("word", cast(&words, &dictionary).unwrap(), true),
        ("at", Arc::new(times.with_timezone("+02:00")) as ArrayRef, true),
        ("nothing", new_null_array(&DataType::Null, n), true),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)), true),
    ])
    .unwrap()
}

fn write(path: &Path, rows: &RecordBatch) {
    let mut file = FileWriter::try_new(File::create(path).unwrap(), &rows.schema()).unwrap();
    file.write(rows).unwrap();
    file.finish().unwrap();
}

/// Dictionaries and time zones of Arrow files were declared as what they were not read as: each query on them was paid for
/// and then failed, if there was a row.
#[tokio::test]
async fn arrow_files_are_read_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for n in [0, 1, 3] {
        let path = folder.path().join(format!("{n}.arrow"));
        write(&path, &rows(n));
        let engine = Engine::in_memory().unwrap();
        let lab = declared(
            &engine,
            &[
                format!("CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '{}'", path.display()),
                "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned(),
                "ALTER TABLE t ALTER COLUMN word SET PRIVACY DOMAIN IN ('x', 'y')".to_owned(),
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100)".to_owned(),
            ],
        )
        .await;
        for sql in [
            "SELECT LAPLACE(eps=1) COUNT(*) FROM t",
            "SELECT LAPLACE(eps=1) COUNT(word), LAPLACE(eps=1) COUNT(at) FROM t",
            "SELECT word, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY word",
            "SELECT LAPLACE(eps=1) COUNT(nothing) FROM t",
            "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT list, at, word FROM t)",
        ] {
            let answer = lab.query(sql).await;
            assert!(answer.is_ok(), "{n} rows: {sql}: {answer:?}");
        }
        let list = lab.query("SELECT LAPLACE(eps=1) COUNT(list) FROM t").await;
        assert!(matches!(list, Err(Error::Refused(_))), "{list:?}");
    }
}

/// Texts of Parquet files and of CSV files came in two types of Arrow, so that rows could not be joined along a link that had
/// been declared between them: the query was one that the engine's own checks stopped.
#[tokio::test]
async fn text_leads_from_one_format_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let [people, visits, notes] =
        ["people.parquet", "visits.csv", "notes.json"].map(|name| folder.path().join(name));
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["p1", "p2", "p3"]));
    let rows = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let mut file =
        ArrowWriter::try_new(File::create(&people).unwrap(), rows.schema(), None).unwrap();
    file.write(&rows).unwrap();
    file.close().unwrap();
    std::fs::write(&visits, "no,who\nv1,p1\nv2,p1\nv3,p2\nv4,nobody\n").unwrap();
    std::fs::write(&notes, "{\"visit\": \"v1\"}\n{\"visit\": \"v3\"}\n").unwrap();
    let engine = Engine::in_memory().unwrap();
    let lab = declared(
        &engine,
        &[
            format!(
                "CREATE EXTERNAL TABLE people STORED AS PARQUET LOCATION '{}'",
                people.display()
            ),
            format!("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}'", visits.display()),
            format!("CREATE EXTERNAL TABLE notes STORED AS JSON LOCATION '{}'", notes.display()),
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE".to_owned(),
            "ALTER TABLE visits SET PRIVACY UNIT VIA (who) REFERENCES people(id) MAX ROWS 5"
                .to_owned(),
            "ALTER TABLE notes SET PRIVACY UNIT VIA (visit) REFERENCES visits(no) MAX ROWS 5"
                .to_owned(),
            "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000000)".to_owned(),
        ],
    )
    .await;
    // At this ε another number than the right one has a probability of e⁻²⁰⁰ or less.
    for (sql, expected) in [
        ("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM visits", 3),
        ("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM notes", 2),
        ("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM people JOIN visits ON who = id", 3),
        ("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM notes JOIN visits ON visit = no", 2),
        (
            "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM people WHERE id IN (SELECT who FROM visits)",
            2,
        ),
        (
            "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM people WHERE NOT EXISTS (SELECT 1 FROM visits WHERE who = id)",
            1,
        ),
    ] {
        let answer = lab.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let n = answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!(n, expected, "{sql}");
    }
}
