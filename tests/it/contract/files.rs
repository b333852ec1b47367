//! Files of columns that few have: what is declared of them can be asked of them, with rows and
//! without.

use std::fs::File;
use std::io::Write;
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
use flate2::write::GzEncoder;
use hushql::{Engine, Error};

use crate::contract::asked::done;
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

/// Dictionaries and time zones of Arrow files were declared as what they were not read as: each
/// query on them was paid for and then failed, if there was a row.
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

/// Texts of Parquet files and of CSV files came in two types of Arrow, so that rows could not be
/// joined along a link that had been declared between them: the query was one that the engine's own
/// checks stopped.
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

/// The bytes as gzip, in two members, which is what is left of two files that were put together.
fn gzip(text: &str) -> Vec<u8> {
    let (first, second) = text.split_at(text.len() / 2);
    let member = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    [member(first), member(second)].concat()
}

/// Text files are read as if they were not compressed, whether their name or an option says how
/// they are.
#[tokio::test]
async fn compressed_text_is_read_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let csv: String = (0..20_000).map(|i| format!("{i},{}\n", i % 7)).collect();
    let csv = format!("id,n\n{csv}");
    let json: String = (0..20_000).map(|i| format!("{{\"id\":{i},\"n\":{}}}\n", i % 7)).collect();
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 3).unwrap();
    for (name, bytes, format, options) in [
        ("a.csv.gz", gzip(&csv), "CSV", ""),
        ("b.csv.ZST", zstd(&csv), "CSV", ""),
        ("c", gzip(&csv), "CSV", " OPTIONS ('compression' 'gzip')"),
        ("d.csv.gz", csv.clone().into_bytes(), "CSV", " OPTIONS ('format.compression' 'NONE')"),
        ("e.json.gz", gzip(&json), "JSON", ""),
        ("f.json", zstd(&json), "JSON", " OPTIONS ('compression' 'zstd')"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let engine = Engine::in_memory().unwrap();
        let location = path.display();
        let lab = declared(
            &engine,
            &[
                format!(
                    "CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{location}'{options}"
                ),
                "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned(),
                "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)".to_owned(),
            ],
        )
        .await;
        // The noise is 0 but for a chance of less than 1e-7000.
        let sql = "SELECT LAPLACE(eps=100000) COUNT(*), LAPLACE(eps=100000) SUM(n) FROM t";
        let answer = lab.query(sql).await.unwrap();
        let number = |i: usize| answer.batches()[0].column(i).as_primitive::<Int64Type>().value(0);
        let sum: i64 = (0..20_000).map(|i| i % 7).sum();
        assert_eq!((number(0), number(1)), (20_000, sum), "{name}");
        // It is another file, as any would be.
        std::fs::write(&path, gzip("id,n\n1,2\n")).unwrap();
        assert!(lab.query(sql).await.unwrap_err().to_string().contains("changed"), "{name}");
    }
}

/// A file that is cut short fails as a whole, with the sentence that says nothing, and what is no
/// such file is refused when it is declared.
#[tokio::test]
async fn damaged_compression_is_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let csv: String = (0..200_000).map(|i| format!("{i},{}\n", i * 7_919 % 10_007)).collect();
    let whole = gzip(&format!("id,n\n{csv}"));
    let path = folder.path().join("t.csv.gz");
    std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    let engine = Engine::in_memory().unwrap();
    let created = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", path.display());
    let lab = declared(
        &engine,
        &[
            created.clone(),
            "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=9)".to_owned(),
        ],
    )
    .await;
    let failed = lab.query("SELECT LAPLACE(eps=1) COUNT(*) FROM t").await.unwrap_err();
    assert!(matches!(failed, Error::Execution), "{failed:?}");
    let owner = Engine::in_memory().unwrap().owner();
    for (bytes, options, says) in [
        (b"id,n\n1,2\n".to_vec(), "", "cannot be read"),
        (whole.clone(), " OPTIONS ('compression' 'brotli')", "'gzip', 'zstd' or 'none'"),
        (whole.clone(), " OPTIONS ('compression' 'zstd')", "cannot be read"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let refused = owner.execute(&format!("{created}{options}")).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
}

/// An open quotation ends with its line, so that no text hides the rows of others; the owner is
/// told where rows were read.
#[tokio::test]
async fn lines_that_are_no_rows_are_told_to_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let over = "1 row of t goes over several lines: the first begins in line 3, and the longest has 2 lines";
    let one = "1 line of t with an open quotation mark belongs to nobody and is in no answer: the first is line 3.";
    let wide = "1 line of t with another number of cells than its 2 columns belongs to nobody and is in no answer: the first is line 4, with 3 cells";
    let broken = "2 lines of t without a JSON object belong to nobody and are in no answer: the first is line 2";
    let foreign = "1 line of t has cells that are not UTF-8, and those are NULL: the first is line";
    let behind = "1 line of t has text behind a quotation mark that ends a cell, which is read with it: the first is line 2. OPTIONS ('escape' '\\') reads";
    for (name, bytes, told) in [
        ("a.csv", &b"id,note\n1,one\n2,\"two\nlines\"\n"[..], vec![over]),
        ("b.csv", b"id,note\n1,one\n2,S\xfcd\n", vec![foreign]),
        ("c.csv", b"id,note\n1,S\xfcd\n\"2\n3,4,5\n", vec![one, wide, foreign]),
        ("d.csv", b"id,note\n1,one\n\n2,\"t,w\"\"o\"\n", vec![]),
        ("e.json", b"{\"id\": 1, \"note\": \"x\"}\n[1]\n{\"id\"", vec![broken]),
        ("f.csv", b"id,note\n1,\"a \\\"b\\\" c\"\n2,6\" by 4\"\n3,\"\"\n", vec![behind]),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let format = if name.ends_with("csv") { "CSV" } else { "JSON" };
        let create = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (id BIGINT, note VARCHAR) STORED AS {format} LOCATION '{}'",
            path.display()
        );
        done(&owner, &create).await;
        let unread = done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id)").await;
        assert!(!unread.contains(" of t "), "{name}: {unread}");
        let said = done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
        assert!(told.iter().all(|text| said.contains(text)), "{name}: {said}");
        assert_eq!(said.matches(" of t ").count(), told.len(), "{name}: {said}");
    }
}

/// Cells that are no values of their column's type are NULL, and their owner is told how many where
/// the rows were read.
#[tokio::test]
async fn cells_that_do_not_fit_are_told_to_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let decimal = "2 of 3 cells of t.sev are not BIGINT: read as NULL. The first is `68,30` in line 2: declare VARCHAR, or OPTIONS ('null_value' …) or ('decimal' ',')";
    let sev = "1 of 3 cells of t.sev is not BIGINT: read as NULL. The first is `5.5` in line 2";
    let day = "1 of 2 cells of t.day is not DATE: read as NULL. The first is `11/22/2025` in line 2: declare VARCHAR, or OPTIONS ('date_format' …)";
    for (name, bytes, told) in [
        ("a.csv", "id,sev,day\n1,5.0,2025-01-02\n2,,\n3, 4 , 2025-01-03 \n", vec![]),
        ("b.csv", "id,sev,day\n1,\"68,30\",2025-01-02\n2,x,\n3,4,2025-01-03\n", vec![decimal]),
        ("c.csv", "id,sev,day\n1,5.5,11/22/2025\n2,1e3,\n3,4,2025-01-03\n", vec![sev, day]),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let create = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (id BIGINT, sev BIGINT, day DATE) STORED AS CSV LOCATION '{}'",
            path.display()
        );
        done(&owner, &create).await;
        let said = done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
        assert!(told.iter().all(|text| said.contains(text)), "{name}: {said}");
        assert_eq!(said.matches(": read as NULL").count(), told.len(), "{name}: {said}");
        // The history has the declaration alone.
        let history = owner.query("SELECT * FROM hushql.ledger").await.unwrap().to_string();
        assert!(!history.contains("cell"), "{history}");
    }
}
