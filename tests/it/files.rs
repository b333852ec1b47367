//! Files of columns that few have: what is declared of them can be asked of them, with rows and without.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::ipc::writer::FileWriter;
use hushql::{Engine, Error};

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
        for statement in [
            format!("CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '{}'", path.display()),
            "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE".to_owned(),
            "ALTER TABLE t ALTER COLUMN word SET PRIVACY DOMAIN IN ('x', 'y')".to_owned(),
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100)".to_owned(),
        ] {
            let declared = engine.owner().execute(&statement).await;
            declared.unwrap_or_else(|e| panic!("{statement}: {e}"));
        }
        let lab = engine.analyst("lab").unwrap();
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
