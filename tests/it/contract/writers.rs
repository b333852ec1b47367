//! Parquet and Arrow files as their writers make them: whichever types a writer chose, a table has
//! the types of SQL, and tables of different writers lead to each other.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal256Array, DurationMillisecondArray, FixedSizeBinaryArray,
    Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
    Time64MicrosecondArray, Time64NanosecondArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, Time64MicrosecondType, i256};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::parquet::arrow::ArrowWriter;
use hushql::{Engine, Session};

use crate::contract::asked::{done, why};

fn write(path: &Path, rows: &RecordBatch) {
    let file = File::create(path).unwrap();
    if path.extension().is_some_and(|end| end == "parquet") {
        let mut file = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        file.write(rows).unwrap();
        file.close().unwrap();
    } else {
        let mut file = FileWriter::try_new(file, &rows.schema()).unwrap();
        file.write(rows).unwrap();
        file.finish().unwrap();
    }
}

/// CREATE of a table from a file, whose name says its format.
fn create(name: &str, columns: &str, path: &Path) -> String {
    let format = path.extension().unwrap().to_str().unwrap();
    format!(
        "CREATE OR REPLACE EXTERNAL TABLE {name} {columns} STORED AS {format} LOCATION '{}'",
        path.display()
    )
}

/// The count of an answer without noise: at this ε another number than the right one has a
/// probability of e⁻²⁰⁰ or less.
async fn count(lab: &Session, rows: &str) -> i64 {
    let sql = format!("SELECT LAPLACE(eps=1000, rows=5) COUNT(*) AS n FROM {rows}");
    let answer = lab.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// An engine whose people are in a CSV file of one column `id`.
async fn people(folder: &Path, ids: &str) -> Engine {
    let path = folder.join("people.csv");
    fs::write(&path, format!("id\n{ids}")).unwrap();
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    done(&owner, &create("people", "", &path)).await;
    done(&owner, "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await;
    done(&owner, "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000000)").await;
    engine
}

/// pandas and Polars write LargeUtf8, Polars views and dictionaries: VARCHAR declares them all, and
/// a link leads from each to a CSV file.
#[tokio::test]
async fn every_text_is_varchar() {
    let folder = tempfile::tempdir().unwrap();
    let engine = people(folder.path(), "a\nb\nd\n").await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let ids: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("c")]));
    let keyed = |value| DataType::Dictionary(Box::new(DataType::UInt32), Box::new(value));
    for format in ["parquet", "arrow"] {
        let path = folder.path().join(format!("visits.{format}"));
        for data_type in [
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            keyed(DataType::Utf8),
            keyed(DataType::LargeUtf8),
        ] {
            let ids = cast(&ids, &data_type).unwrap();
            write(&path, &RecordBatch::try_from_iter([("id", ids)]).unwrap());
            for columns in ["", "(id VARCHAR NOT NULL)"] {
                done(&owner, &create("visits", columns, &path)).await;
                done(&owner, "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id)")
                    .await;
                assert_eq!(count(&lab, "visits").await, 2, "{format} {data_type}");
                assert_eq!(count(&lab, "visits WHERE id LIKE 'a%'").await, 1, "{data_type}");
            }
        }
    }
    let create = create("t", "(id BIGINT)", &folder.path().join("visits.parquet"));
    let refused = why(&owner, &create).await;
    assert!(refused.contains("the file's column is id VARCHAR, not id BIGINT"), "{refused}");
}

/// SPSS, Stata and SAS know no other numbers than DOUBLE; Spark writes INT where pandas writes
/// BIGINT.
#[tokio::test]
async fn numbers_lead_to_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let engine = people(folder.path(), "1\n2\n4\n").await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(3)]));
    for format in ["parquet", "arrow"] {
        let path = folder.path().join(format!("visits.{format}"));
        for data_type in [
            DataType::Int64,
            DataType::Int32,
            DataType::UInt8,
            DataType::Float64,
            DataType::Float32,
        ] {
            let ids = cast(&ids, &data_type).unwrap();
            write(&path, &RecordBatch::try_from_iter([("id", ids)]).unwrap());
            done(&owner, &create("visits", "", &path)).await;
            let told =
                done(&owner, "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id)")
                    .await;
            let is_read = data_type != DataType::Int64;
            assert_eq!(told.contains("id is read as BIGINT"), is_read, "{told}");
            assert_eq!(told.contains("not whole"), data_type.is_floating(), "{told}");
            assert_eq!(count(&lab, "visits").await, 2, "{format} {data_type}");
            let create = done(&owner, "SHOW CREATE TABLE visits").await;
            assert!(create.contains("id BIGINT"), "{create}");
        }
        let ids = cast(&ids, &DataType::UInt64).unwrap();
        write(&path, &RecordBatch::try_from_iter([("id", ids)]).unwrap());
        done(&owner, &create("visits", "", &path)).await;
        let link = "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id)";
        let refused = why(&owner, link).await;
        assert!(refused.contains("id of visits is of type BIGINT UNSIGNED"), "{refused}");
    }
    // A text is read in any type.
    let path = folder.path().join("visits.csv");
    fs::write(&path, "id\n1.0\n2.5\n3.0\n4.0\n").unwrap();
    done(&owner, &create("visits", "", &path)).await;
    done(&owner, "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id)").await;
    assert_eq!(count(&lab, "visits").await, 2);
}

/// A table whose person is a DOUBLE, in one file and in several, of which one has whole numbers.
#[tokio::test]
async fn a_double_names_people_by_whole_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    fs::create_dir(&below).unwrap();
    let ids: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 1.0, 2.0, 2.5, f64::NAN, 1e300]));
    let rows = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let one = folder.path().join("one.parquet");
    write(&one, &rows);
    write(&below.join("a.parquet"), &rows);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    write(&below.join("b.parquet"), &RecordBatch::try_from_iter([("id", ids)]).unwrap());
    let several = format!(
        "CREATE OR REPLACE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'",
        below.display()
    );
    for (create, rows) in [(create("t", "", &one), 3), (several.clone(), 5)] {
        let engine = Engine::in_memory().unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        done(&owner, &create).await;
        let told = done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 2").await;
        assert!(told.contains("id is read as BIGINT: a value that is not whole"), "{told}");
        done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
        assert_eq!(count(&lab, "t").await, rows);
        assert_eq!(count(&lab, "t WHERE id > 1").await, rows - 2);
        assert_eq!(count(&lab, "t WHERE id IS NULL").await, 0);
        let described = done(&owner, "SHOW CREATE TABLE t").await;
        assert!(described.contains("id BIGINT"), "{described}");
        done(&owner, "ALTER TABLE t REFRESH").await;
        assert_eq!(count(&lab, "t").await, rows);
    }
    // The owner learns how many values name nobody, and where the first one is. NaN is no value.
    for (create, place) in [(create("t", "", &one), ""), (several.clone(), " of a.parquet")] {
        let owner = Engine::in_memory().unwrap().owner();
        done(&owner, &create).await;
        let lost = format!(
            "2 of {} cells of t.id are not BIGINT: read as NULL. The first is `2.5` in row 4{place}",
            if place.is_empty() { 5 } else { 7 }
        );
        for unit in ["(id)", "(id) MAX ROWS 2"] {
            let told = done(&owner, &format!("ALTER TABLE t SET PRIVACY UNIT {unit}")).await;
            assert!(told.contains(&lost), "{told}");
        }
        let refused = why(&owner, "ALTER TABLE t SET STRICT").await;
        assert!(refused.contains("t shall be STRICT") && refused.contains(&lost), "{refused}");
    }
    // Whoever writes BIGINT gets it, and rows in memory keep their type.
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    done(&owner, &create("t", "(id BIGINT)", &one)).await;
    done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id)").await;
    let ids: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    engine.register_batch("m", RecordBatch::try_from_iter([("id", ids)]).unwrap()).unwrap();
    let refused = why(&owner, "ALTER TABLE m SET PRIVACY UNIT (id)").await;
    assert!(refused.contains("declare it as BIGINT if its values are whole"), "{refused}");
}

/// A UUID is a text, in lower case and with hyphens, however its file stores it.
#[tokio::test]
async fn a_uuid_is_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let text = "0b8e7a5c-0001-0203-0405-06070809faff";
    let engine = people(folder.path(), &format!("{text}\n")).await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let bytes = [0x0b_u8, 0x8e, 0x7a, 0x5c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xfa, 0xff];
    let ids = [Some(bytes), None].into_iter();
    let ids: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(ids, 16).unwrap());
    let says = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
    let field = Field::new("id", ids.data_type().clone(), true).with_metadata(says.into());
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![ids]).unwrap();
    for format in ["parquet", "arrow"] {
        let path = folder.path().join(format!("visits.{format}"));
        write(&path, &rows);
        for columns in ["", "(id UUID)"] {
            done(&owner, &create("visits", columns, &path)).await;
            let link = "ALTER TABLE visits SET PRIVACY UNIT VIA (id) REFERENCES people(id)";
            done(&owner, link).await;
            assert_eq!(count(&lab, "visits").await, 1);
            assert_eq!(count(&lab, &format!("visits WHERE id = '{text}'")).await, 1);
        }
    }
}

/// Types that few writers choose come as types of SQL.
#[tokio::test]
async fn few_types_are_many() {
    let folder = tempfile::tempdir().unwrap();
    let wide = [Some(i256::from(125)), None];
    let wide = Decimal256Array::from_iter(wide).with_precision_and_scale(30, 2).unwrap();
    let half = cast(&Float64Array::from(vec![1.5, 2.5]), &DataType::Float16).unwrap();
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("id", Arc::new(Int64Array::from(vec![1, 2])), true),
        ("half", half, true),
        ("wide", Arc::new(wide), true),
        ("took", Arc::new(DurationMillisecondArray::from(vec![Some(1_500), None])), true),
        ("at", Arc::new(Time64NanosecondArray::from(vec![Some(30_600_000_000_999), None])), true),
        ("big", Arc::new(UInt64Array::from(vec![1, u64::MAX])), true),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    for format in ["parquet", "arrow"] {
        let path = folder.path().join(format!("t.{format}"));
        write(&path, &rows);
        let engine = Engine::in_memory().unwrap();
        let owner = engine.owner();
        done(&owner, &create("t", "", &path)).await;
        let declared = done(&owner, "SHOW CREATE TABLE t").await;
        let columns = "(id BIGINT, half REAL, wide DECIMAL(30, 2), took BIGINT, at TIME, big BIGINT UNSIGNED)";
        assert!(declared.contains(columns), "{declared}");
        done(&owner, &create("t", columns, &path)).await;
        done(&owner, "ALTER TABLE t SET PUBLIC").await;
        let lab = engine.analyst("lab").unwrap();
        let shown = "SELECT half, wide, took, CAST(at AS VARCHAR) AS at, big FROM t WHERE id = 1";
        let answer = lab.query(shown).await.unwrap().to_string();
        for value in ["1.5", "1.25", "1500000", "08:30:00"] {
            assert!(answer.contains(value), "{format}: {answer}");
        }
        done(&owner, "ALTER TABLE t DROP PRIVACY UNIT").await;
        done(&owner, "ALTER TABLE t SET PRIVACY UNIT (big)").await;
        done(&owner, "ALTER TABLE t ALTER COLUMN wide SET PRIVACY DOMAIN BETWEEN (0, 10)").await;
        done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
        assert_eq!(count(&lab, "t WHERE half > 2").await, 1);
        assert_eq!(count(&lab, "t WHERE took = 1500000 AND wide = 1.25").await, 1);
        lab.query("SELECT LAPLACE(eps=1000, rows=5) SUM(wide) FROM t").await.unwrap();
    }
}

/// Times of the day are compared and taken apart, whichever unit their file has. What is no time of
/// a day is NULL.
#[tokio::test]
async fn times_are_compared_and_taken_apart() {
    let folder = tempfile::tempdir().unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let hour = 3_600_000_000;
    let micros = vec![Some(8 * hour), Some(23 * hour + 59_000_000), None, Some(25 * hour)];
    let micros: ArrayRef = Arc::new(Time64MicrosecondArray::from(micros));
    let nanos =
        vec![Some(8 * hour * 1_000), Some((23 * hour + 59_000_000) * 1_000 + 1), None, Some(-1)];
    let nanos: ArrayRef = Arc::new(Time64NanosecondArray::from(nanos));
    for (format, at) in
        [("parquet", &micros), ("arrow", &micros), ("parquet", &nanos), ("arrow", &nanos)]
    {
        let path = folder.path().join(format!("t.{format}"));
        let rows = [("id", Arc::clone(&ids), true), ("at", Arc::clone(at), true)];
        write(&path, &RecordBatch::try_from_iter_with_nullable(rows).unwrap());
        let engine = Engine::in_memory().unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        done(&owner, &create("t", "", &path)).await;
        done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
        done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
        for (condition, rows) in [
            ("at >= TIME '08:00'", 2),
            ("at > '08:00:00'", 1),
            ("at BETWEEN TIME '00:00:00' AND TIME '12:00:00'", 1),
            ("at IN ('08:00:00')", 1),
            ("EXTRACT(HOUR FROM at) = 23", 1),
            ("EXTRACT(SECOND FROM at) = 59", 1),
            ("at IS NULL", 2),
        ] {
            assert_eq!(count(&lab, &format!("t WHERE {condition}")).await, rows, "{condition}");
        }
        let hours =
            "SELECT EXTRACT(HOUR FROM at) AS h, LAPLACE(eps=1000) COUNT(*) AS n FROM t GROUP BY h";
        assert!(lab.query(hours).await.unwrap().batches()[0].num_rows() >= 24);
        let refused =
            why(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE at < TIME '25:00'").await;
        assert!(refused.contains("'25:00' is not a value of type TIME"), "{refused}");
        let refused =
            why(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE EXTRACT(DAY FROM at) = 1").await;
        assert!(refused.contains("only hour, minute and second"), "{refused}");
    }
}

/// The owner learns what is wrong with a file, and what to do.
#[tokio::test]
async fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let rows = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    for name in ["t.parquet", "t.arrow"] {
        write(&path(name), &rows);
        let bytes = fs::read(path(name)).unwrap();
        fs::write(path(&format!("cut-{name}")), &bytes[..bytes.len() - 20]).unwrap();
    }
    let file = File::create(path("stream.arrow")).unwrap();
    let mut stream = StreamWriter::try_new(file, &rows.schema()).unwrap();
    stream.write(&rows).unwrap();
    stream.finish().unwrap();
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\n", "a".repeat(64));
    fs::write(path("pointer.parquet"), pointer).unwrap();
    fs::write(path("secret.parquet"), b"PARE and then bytes that nobody can read PARE").unwrap();
    fs::write(path("old.arrow"), b"FEA1 and then a table of the first version FEA1").unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    for (name, reason) in [
        ("cut-t.parquet", "is cut off: its end is missing"),
        ("cut-t.arrow", "is cut off: its end is missing"),
        ("stream.arrow", "is a stream of Arrow and not a file"),
        ("pointer.parquet", "is a pointer of Git LFS and not the file"),
        ("secret.parquet", "is encrypted: write it again without encryption"),
        ("old.arrow", "is in the first version of Feather"),
    ] {
        let refused = why(&owner, &create("t", "", &path(name))).await;
        assert!(refused.contains(reason) && refused.contains(name), "{name}: {refused}");
    }
    // A page that cannot be read is found in its column.
    let mut bytes = fs::read(path("t.parquet")).unwrap();
    for byte in &mut bytes[4..30] {
        *byte = 0xff;
    }
    fs::write(path("page.parquet"), &bytes).unwrap();
    let refused = why(&owner, &create("t", "", &path("page.parquet"))).await;
    assert!(refused.contains("the column `id` of"), "{refused}");
    // A number of 128 bits, as Polars has it: Arrow's reader would panic.
    let bytes = fs::read(path("t.arrow")).unwrap();
    let wide = (0..bytes.len() - 4).filter(|at| bytes[*at..at + 4] == 64_i32.to_le_bytes());
    let mut named = 0;
    for at in wide {
        let mut bytes = bytes.clone();
        bytes[at] = 128;
        fs::write(path("wide.arrow"), &bytes).unwrap();
        if let Err(refused) = owner.execute(&create("t", "", &path("wide.arrow"))).await {
            named += usize::from(refused.to_string().contains("a column `id` of a type"));
        }
    }
    assert!(named > 0);
}

/// The fields of structs are columns: with domains, conditions and keys, in one file and in several
/// whose writers order and store them differently. The field of a NULL is NULL.
#[tokio::test]
async fn fields_of_structs_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    fs::create_dir_all(below.join("year=2025")).unwrap();
    let city: ArrayRef =
        Arc::new(StringArray::from(vec![Some("Oslo"), Some("Rome"), None, Some("Rome")]));
    let zip: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), Some(4)]));
    let at: ArrayRef = Arc::new(Float64Array::from(vec![7.0, 7.5, f64::NAN, 9.0]));
    let whole = |narrow: bool| -> RecordBatch {
        let zip = match narrow {
            true => cast(&zip, &DataType::Int32).unwrap(),
            false => Arc::clone(&zip),
        };
        let city = match narrow {
            true => cast(&city, &DataType::LargeUtf8).unwrap(),
            false => Arc::clone(&city),
        };
        let at = StructArray::from(vec![(
            Arc::new(Field::new("person", DataType::Float64, true)),
            Arc::clone(&at),
        )]);
        let at: ArrayRef = Arc::new(at);
        let fields = vec![
            (Arc::new(Field::new("city", city.data_type().clone(), true)), city),
            (Arc::new(Field::new("zip", zip.data_type().clone(), true)), zip),
            (Arc::new(Field::new("at", at.data_type().clone(), true)), at),
        ];
        let (fields, columns): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        let nulls = NullBuffer::from(vec![true, true, true, false]);
        let address: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, Some(nulls)));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let tags = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1)]); 4]);
        let tags: ArrayRef = Arc::new(tags);
        let rows = [("id", ids, true), ("address", address, true), ("tags", tags, true)];
        RecordBatch::try_from_iter_with_nullable(rows).unwrap()
    };
    for format in ["parquet", "arrow"] {
        let path = folder.path().join(format!("t.{format}"));
        write(&path, &whole(false));
        for (name, narrow) in [("a", false), ("b", true)] {
            write(&below.join("year=2025").join(format!("{name}.{format}")), &whole(narrow));
        }
        let several = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (year INT) LOCATION '{}/**/*.{format}'",
            below.display()
        );
        for (create, times) in [(create("t", "", &path), 1), (several, 2)] {
            let engine = Engine::in_memory().unwrap();
            let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
            done(&owner, &create).await;
            let declared = done(&owner, "SHOW CREATE TABLE t").await;
            assert!(declared.contains("t"), "{declared}");
            done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 2").await;
            let domain = "ALTER TABLE t ALTER COLUMN address.city SET PRIVACY DOMAIN IN ('Oslo', 'Rome', NULL)";
            done(&owner, domain).await;
            let domain = "ALTER TABLE t ALTER COLUMN address.zip SET PRIVACY DOMAIN BETWEEN (0, 9)";
            done(&owner, domain).await;
            done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
            for (condition, rows) in [
                ("address.city = 'Rome'", 1),
                ("address['city'] = 'Oslo'", 1),
                ("t.address.city IS NULL", 2),
                ("\"address.zip\" >= 2", 2),
                ("address.zip IS NULL", 1),
                ("address.at.person > 7", 1),
                ("address.at['person'] IS NULL", 2),
                ("id > 0", 4),
            ] {
                let sql = format!("t WHERE {condition}");
                assert_eq!(count(&lab, &sql).await, rows * times, "{format}: {condition}");
            }
            let by = "SELECT address.city, LAPLACE(eps=1000, rows=5) COUNT(*) AS n, LAPLACE(eps=1000, rows=5) SUM(address.zip) AS zips FROM t GROUP BY address.city ORDER BY n, zips";
            let answer = lab.query(by).await.unwrap();
            let answer = &answer.batches()[0];
            let of =
                |column: usize| answer.column(column).as_primitive::<Int64Type>().values().to_vec();
            let expected = [vec![1, 1, 2], vec![1, 2, 3]];
            assert_eq!(
                [of(1), of(2)],
                expected.map(|all| all.iter().map(|n| n * times).collect::<Vec<_>>())
            );
            let plain = "SELECT s.address.city FROM (SELECT * FROM t) s GROUP BY s.address.city";
            assert!(lab.query(plain).await.is_err());
            let refused =
                why(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE tags IS NULL").await;
            assert!(
                refused.contains("values of type BIGINT[] cannot be computed with"),
                "{refused}"
            );
            done(&owner, "ALTER TABLE t REFRESH").await;
            assert_eq!(count(&lab, "t WHERE address.zip = 2").await, times);
        }
    }
    // A field names people, also one that is a DOUBLE.
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let path = folder.path().join("t.parquet");
    let columns = "(id BIGINT, address.city VARCHAR, address.zip BIGINT, address.at.person DOUBLE)";
    let refused = why(&owner, &create("t", columns, &path)).await;
    assert!(refused.contains("the file has 5 columns, not 4"), "{refused}");
    done(&owner, &create("t", "", &path)).await;
    let told = done(&owner, "ALTER TABLE t SET PRIVACY UNIT (address.at.person) UNIQUE").await;
    let lost = "1 of 2 cells of t.\"address.at.person\" is not BIGINT: read as NULL. The first is `7.5` in row 2";
    assert!(told.contains(lost), "{told}");
    done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
    assert_eq!(count(&lab, "t").await, 1);
}

/// Times of the day have domains and are keys, texts and choices, or the refusal says what to
/// write.
#[tokio::test]
async fn times_have_domains() {
    let folder = tempfile::tempdir().unwrap();
    let hour = 3_600_000_000;
    // The last one is no time of a day, which is NULL and not the end of a range.
    let times = [8, 8, 9, 12, 23, 25].map(|hours| Some(hours * hour));
    let at: ArrayRef = Arc::new(Time64MicrosecondArray::from(times.to_vec()));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=6));
    for format in ["parquet", "arrow", "csv"] {
        let path = folder.path().join(format!("t.{format}"));
        match format {
            "csv" => {
                fs::write(&path, "id,at\n1,08:00\n2,08:00:00\n3,09:00\n4,12:00\n5,23:00\n6,25:00\n")
                    .unwrap()
            }
            _ => write(
                &path,
                &RecordBatch::try_from_iter([("id", Arc::clone(&ids)), ("at", Arc::clone(&at))])
                    .unwrap(),
            ),
        }
        let engine = Engine::in_memory().unwrap();
        let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
        done(&owner, &create("t", "(id BIGINT, at TIME)", &path)).await;
        done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
        done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
        let distinct = "SELECT LAPLACE(eps=1000, rows=5) COUNT(DISTINCT at) AS n FROM t";
        let answer = lab.query(distinct).await.unwrap();
        assert_eq!(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0), 4);
        assert_eq!(count(&lab, "t WHERE CAST(at AS VARCHAR) LIKE '08:00%'").await, 2, "{format}");
        // A quantile lies between two of the rows' times.
        for (choice, hours) in [("MIN(at)", 0..9), ("MEDIAN(at)", 8..13), ("MAX(at)", 12..24)] {
            let sql = format!("SELECT EXPONENTIAL(eps=1000, rows=5) {choice} AS x FROM t");
            let answer = lab.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            let x = answer.batches()[0].column(0).as_primitive::<Time64MicrosecondType>().value(0);
            assert!(hours.contains(&(x / hour)), "{format} {choice}: {answer}");
        }
        let refused = why(&lab, "SELECT at, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY at").await;
        assert!(refused.contains("EXTRACT(HOUR FROM at)"), "{refused}");
        let listed = "SELECT at, LAPLACE(eps=1000, rows=5) COUNT(*) AS n FROM t GROUP BY at KEYS ('08:00', '12:00')";
        assert_eq!(lab.query(listed).await.unwrap().batches()[0].num_rows(), 2);
        // A domain of listed times makes keys.
        let domain = "ALTER TABLE t ALTER COLUMN at SET PRIVACY DOMAIN";
        done(&owner, &format!("{domain} IN ('08:00', TIME '12:00', NULL)")).await;
        let keys =
            "SELECT at, LAPLACE(eps=1000, rows=5) COUNT(*) AS n FROM t GROUP BY at ORDER BY n";
        let answer = lab.query(keys).await.unwrap();
        let n = answer.batches()[0].column(1).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(n, [1, 2, 3], "{format}");
        let declared = done(&owner, "SHOW CREATE TABLE t").await;
        assert!(declared.contains("IN ('08:00', '12:00', NULL)"), "{declared}");
        // A range moves times to its ends, and no more.
        done(&owner, &format!("{domain} BETWEEN ('08:30', '22:00')")).await;
        assert_eq!(count(&lab, "t WHERE at = '08:30'").await, 2, "{format}");
        assert_eq!(count(&lab, "t WHERE at = TIME '22:00'").await, 1, "{format}");
        assert_eq!(count(&lab, "t WHERE at >= '12:00'").await, 2, "{format}");
        assert_eq!(count(&lab, "t WHERE at IS NULL").await, 1, "{format}");
        assert_eq!(count(&lab, "t WHERE CLAMP(at, TIME '10:00', TIME '11:00') = '10:00'").await, 3);
        let refused = why(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE at < '08:30'").await;
        assert!(refused.contains("at lies between '08:30:00' and '22:00:00'"), "{refused}");
        let refused = why(&lab, "SELECT LAPLACE(eps=1) SUM(at) FROM t").await;
        assert!(refused.contains("TIME"), "{refused}");
        for (wrong, says) in [
            ("BETWEEN ('08:30', '25:00')", "'25:00' is not a value of type TIME"),
            ("BETWEEN ('08:30', '23:59:60')", "'23:59:60' is not a value of type TIME"),
            ("BETWEEN ('08:30', '08:00')", "are reversed"),
            ("BETWEEN ('08:00', '12:00') STEP 1", "EXTRACT(HOUR FROM"),
            ("IN (8, 12)", "8 is not a value of type TIME"),
        ] {
            let refused = why(&owner, &format!("{domain} {wrong}")).await;
            assert!(refused.contains(says), "{wrong}: {refused}");
        }
    }
}
