//! Answers in files: by owners anywhere, by analysts in their export folder alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Float64Type};
use arrow::ipc::reader::FileReader;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::program::{Run, Study};

/// A study whose analyst `lab` has an export folder `out`.
fn study() -> Study {
    let study = Study::with_people();
    fs::create_dir(study.path("out")).unwrap();
    study.owner("ALTER VAULT SET EXPORT FOLDER 'out' FOR lab").says(0, &["may be written into"]);
    study
}

fn copied(study: &Study, to: &str) -> Run {
    study.lab(&format!(
        "COPY (SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city) TO '{to}'"
    ))
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn answers_are_written_in_every_format() {
    let study = study();
    for (name, starts) in [
        ("a.csv", "city,n\n"),
        ("a.json", "{\"city\":"),
        ("a.parquet", "PAR1"),
        ("a.arrow", "ARROW1"),
    ] {
        let run = copied(&study, name);
        run.says(0, &["cost ε = 1"]);
        assert!(run.out.contains(name), "{run:?}");
        let bytes = fs::read(study.path("out").join(name)).unwrap();
        assert!(bytes.starts_with(starts.as_bytes()), "{name}: {bytes:?}");
    }
    let csv = fs::read_to_string(study.path("out").join("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    // What was written is a table like any other file.
    study
        .owner(
            "COPY (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 50) TO 'of owner.parquet';
             COPY (SELECT 1 AS x WHERE FALSE) TO 'empty.csv';
             CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'of owner.parquet';
             ALTER TABLE t SET PUBLIC; SELECT n FROM t;
             COPY t TO 'again.arrow';
             CREATE EXTERNAL TABLE u STORED AS ARROW LOCATION 'again.arrow';
             ALTER TABLE u SET PUBLIC; SELECT n FROM u",
        )
        .says(0, &[]);
    assert_eq!(fs::read_to_string(study.path("empty.csv")).unwrap(), "x\n");
}

/// The schema and the rows of a Parquet or Arrow file, and what its metadata says.
fn read(path: &Path) -> (RecordBatch, BTreeMap<String, String>) {
    let file = fs::File::open(path).unwrap();
    let mut said = BTreeMap::new();
    let (schema, batches) = if path.extension().is_some_and(|end| end == "parquet") {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let entries = builder.metadata().file_metadata().key_value_metadata().unwrap();
        said.extend(entries.iter().map(|one| (one.key.clone(), one.value.clone().unwrap())));
        let schema = builder.schema().clone();
        assert!(
            said.iter()
                .all(|(key, _)| key == "ARROW:schema" || schema.metadata().contains_key(key))
        );
        (schema, builder.build().unwrap().collect::<Result<Vec<_>, _>>().unwrap())
    } else {
        let reader = FileReader::try_new(file, None).unwrap();
        said.extend(reader.schema().metadata().clone());
        (reader.schema(), reader.collect::<Result<Vec<_>, _>>().unwrap())
    };
    said.retain(|key, _| key.starts_with("hushql."));
    (concat_batches(&schema, &batches).unwrap(), said)
}

/// A file of Parquet or Arrow says what its answer cost and how accurate it is, and has the ± of
/// each number where that is asked for.
#[test]
fn files_hold_types_errors_and_receipts() {
    let study = study();
    let sql = "SELECT city, LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) SUM(age) AS age, CAST(NULL AS DATE) AS day \
               FROM people GROUP BY city";
    for name in ["e.parquet", "e.arrow"] {
        let copy = format!("COPY ({sql}) TO '{name}' OPTIONS ('errors' 'true')");
        study.lab(&copy).says(0, &[]);
        let (rows, said) = read(&study.path("out").join(name));
        let schema = rows.schema();
        let columns: Vec<(&str, &DataType)> =
            schema.fields().iter().map(|f| (f.name().as_str(), f.data_type())).collect();
        let expected = [
            ("city", &DataType::Utf8),
            ("n", &DataType::Int64),
            ("n_error", &DataType::Float64),
            ("age", &DataType::Int64),
            ("age_error", &DataType::Float64),
            ("day", &DataType::Date32),
        ];
        assert_eq!(columns, expected, "{name}");
        let numbers = |column: usize| rows.column(column).as_primitive::<Float64Type>().clone();
        assert!(numbers(2).iter().all(|error| error == Some(3.0)), "{rows:?}");
        // The sums have a ± of their own, which is not that of the counts.
        let is_own = |error: f64| error > 0.0 && (error - 3.0).abs() > 0.001;
        assert!(numbers(4).iter().flatten().all(is_own), "{rows:?}");
        assert_eq!(rows.column(5).null_count(), rows.num_rows());
        assert!(said.contains_key("hushql.charge"), "{name}: {said:?}");
        let accuracy = said.get("hushql.accuracy").map_or("", String::as_str);
        assert!(accuracy.contains("n: ± 3"), "{said:?}");
        assert_eq!(said.get("hushql.cost").map(String::as_str), Some("ε = 2"), "{said:?}");
        // What is left changes with each charge, and is no property of the answer.
        assert!(!said.values().any(|text| text.contains("left")), "{said:?}");
    }
    // The errors as columns of texts.
    let copy = format!("COPY ({sql}) TO 'e.csv' OPTIONS ('errors' 'true')");
    study.lab(&copy).says(0, &[]);
    let csv = fs::read_to_string(study.path("out/e.csv")).unwrap();
    assert!(csv.starts_with("city,n,n_error,age,age_error,day\n"), "{csv}");
    assert!(csv.lines().nth(1).is_some_and(|line| line.contains(",3.0,")), "{csv}");
    // An answer of public rows was not charged, and has no ±.
    study.owner("COPY (SELECT 'a' AS x) TO 'public.arrow' OPTIONS (errors TRUE)").says(0, &[]);
    let (rows, said) = read(&study.path("public.arrow"));
    assert_eq!((rows.num_columns(), said.len()), (1, 0), "{said:?}");
}

/// A column with the name of another one's errors is refused before the charge.
#[test]
fn names_of_errors_are_not_taken_twice() {
    let study = study();
    let before = study.spent();
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) AVG(age) AS n_error FROM people";
    let copy = |options: &str| study.lab(&format!("COPY ({sql}) TO 'a.csv' {options}"));
    copy("OPTIONS ('errors' 'true')").says(1, &["a column is called n_error", "with AS"]);
    copy("OPTIONS ('header' 'true')").says(1, &["COPY has one option"]);
    assert_eq!(study.spent(), before);
    assert!(names(&study.path("out")).is_empty());
    copy("OPTIONS ('errors' 'false')").says(0, &["cost ε = 2"]);
}

/// Whatever the name is: it is refused before the charge, and nothing is made outside of the
/// folder.
#[test]
fn names_lead_nowhere_else() {
    let study = study();
    let before = (study.spent(), names(study.folder()));
    for name in [
        "../a.csv",
        "/tmp/hushql-export-attack.csv",
        "./a.csv",
        "sub/a.csv",
        ".a.csv",
        "..csv",
        "a\\b.csv",
        "a\n.csv",
        "-a.csv",
        "~/a.csv",
        "a.csv/../../b.csv",
    ] {
        copied(&study, name).says(3, &["HQ003"]);
    }
    copied(&study, "a.txt").says(1, &["ends with .csv, .json, .parquet or .arrow"]);
    copied(&study, &format!("{}.csv", "a".repeat(300))).says(3, &["HQ003"]);
    assert_eq!((study.spent(), names(study.folder())), before);
    assert!(names(&study.path("out")).is_empty());
    assert!(!Path::new("/tmp/hushql-export-attack.csv").exists());
}

/// What Parquet has no type for was charged, and lost.
#[test]
fn what_a_format_lacks_is_not_charged() {
    let study = study();
    let before = study.spent();
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) AS n, INTERVAL '1' DAY AS span FROM people";
    let run = study.lab(&format!("COPY ({sql}) TO 'a.parquet'"));
    run.says(1, &["Parquet has no type for the column span", "CAST(span AS VARCHAR)"]);
    assert_eq!(study.spent(), before);
    assert!(names(&study.path("out")).is_empty());
    study.lab(&format!("COPY ({sql}) TO 'a.csv'")).says(0, &["cost ε = 1"]);
}

/// Nothing is overwritten, and nothing is paid for what would be.
#[test]
fn no_file_is_overwritten() {
    let study = study();
    study.write("out/a.csv", "mine");
    let before = study.spent();
    copied(&study, "a.csv").says(1, &["`a.csv` exists already"]);
    assert_eq!(study.spent(), before);
    assert_eq!(fs::read_to_string(study.path("out/a.csv")).unwrap(), "mine");
    study.owner("COPY (SELECT 1 AS x) TO 'out/a.csv'").says(1, &["exists already"]);
    assert_eq!(fs::read_to_string(study.path("out/a.csv")).unwrap(), "mine");
}

/// A query that is refused, or that no budget pays, leaves no file.
#[test]
fn a_query_that_fails_leaves_no_file() {
    let study = study();
    for (query, status) in [
        ("SELECT age FROM people", 3),
        ("SELECT LAPLACE(eps=40000) COUNT(*), LAPLACE(eps=40000) AVG(age) FROM people", 3),
        ("SELECT nothing FROM people", 1),
    ] {
        let run = study.lab(&format!("COPY ({query}) TO 'a.csv'"));
        assert!(run.status == status || run.status == 4, "{run:?}");
        assert!(names(&study.path("out")).is_empty(), "{query}");
    }
    study.owner("DROP PRIVACY BUDGET b").says(0, &[]);
    copied(&study, "a.csv").says(3, &[]);
    assert!(names(&study.path("out")).is_empty());
}

/// Links in the folder are not followed, wherever they lead; a folder on the way that became a link
/// is none.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let study = study();
    study.write("secret.csv", "secret");
    symlink(study.path("secret.csv"), study.path("out/there.csv")).unwrap();
    symlink(study.path("nothing.csv"), study.path("out/dangling.csv")).unwrap();
    symlink(study.folder(), study.path("out/folder.csv")).unwrap();
    let before = study.spent();
    // Whether what a link names exists cannot be told.
    let said: Vec<String> = ["there.csv", "dangling.csv", "folder.csv"]
        .iter()
        .map(|name| {
            let run = copied(&study, name);
            run.says(1, &["exists already"]);
            run.err.replace(name, "X")
        })
        .collect();
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    assert_eq!(fs::read_to_string(study.path("secret.csv")).unwrap(), "secret");
    assert!(!study.path("nothing.csv").exists());
    // The folder itself is exchanged for a link to one that holds the vault.
    fs::rename(study.path("out"), study.path("was")).unwrap();
    symlink(study.folder(), study.path("out")).unwrap();
    copied(&study, "b.csv").says(1, &["the export folder cannot be used"]);
    assert!(!study.path("b.csv").exists());
    // Or to one that holds nothing at all.
    fs::remove_file(study.path("out")).unwrap();
    fs::create_dir(study.path("elsewhere")).unwrap();
    symlink(study.path("elsewhere"), study.path("out")).unwrap();
    copied(&study, "b.csv").says(1, &["the export folder cannot be used"]);
    assert!(!study.path("elsewhere/b.csv").exists());
    fs::remove_file(study.path("out")).unwrap();
    let gone = copied(&study, "b.csv");
    gone.says(1, &["the export folder cannot be used"]);
    assert!(!gone.err.contains("out"), "{gone:?}");
    assert_eq!(study.spent(), before);
}

/// A folder that holds what HushQL reads or keeps is no export folder, whichever of them came
/// first.
#[test]
fn export_folders_hold_nothing_else() {
    let study = study();
    fs::create_dir_all(study.path("data/below")).unwrap();
    study.write("data/below/t.csv", "x\n1\n");
    study.owner("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'data/below/t.csv'").says(0, &[]);
    for folder in ["data", "data/below", ".", "/"] {
        let sql = format!("ALTER VAULT SET EXPORT FOLDER '{folder}' FOR lab");
        study.owner(&sql).says(1, &["cannot be an export folder"]);
    }
    for folder in ["nothing", "people.csv"] {
        let sql = format!("ALTER VAULT SET EXPORT FOLDER '{folder}' FOR lab");
        study.owner(&sql).says(1, &["there is no folder"]);
    }
    // A table whose file an analyst could exchange.
    study.write("out/mine.csv", "x\n1\n");
    study
        .owner("CREATE EXTERNAL TABLE mine STORED AS CSV LOCATION 'out/mine.csv'")
        .says(1, &["in the export folder of lab"]);
    // The folder to spill to.
    fs::create_dir_all(study.path("spill/below")).unwrap();
    for folder in ["spill", "spill/below"] {
        let sql = format!("ALTER VAULT SET EXPORT FOLDER '{folder}' FOR lab");
        let run = study.run(&["study.db", "--spill", "spill", "--owner", "-c", &sql]);
        run.says(1, &["the folder to spill to"]);
    }
    let spilled =
        ["study.db", "--spill", "out", "--analyst", "lab", "-c", "COPY (SELECT 1 AS x) TO 'a.csv'"];
    study.run(&spilled).says(1, &["the export folder cannot be used"]);
    // The anchor.
    study.run(&["anchor", "study.db", "out/a.anchor"]).says(0, &[]);
    let anchored = [
        "study.db",
        "--anchor",
        "out/a.anchor",
        "--analyst",
        "lab",
        "-c",
        "COPY (SELECT 1 AS x) TO 'a.csv'",
    ];
    study.run(&anchored).says(1, &["the export folder cannot be used"]);
    assert_eq!(names(&study.path("out")), ["a.anchor", "mine.csv"]);
}

#[test]
fn each_analyst_has_a_folder_of_their_own() {
    let study = study();
    let ask = ["study.db", "--analyst", "other", "-c", "COPY (SELECT 1 AS x) TO 'a.csv'"];
    study.run(&ask).says(3, &["HQ003", "no export folder"]);
    study.lab("ALTER VAULT SET EXPORT FOLDER '/' FOR lab").says(3, &["HQ003"]);
    study.lab("ALTER VAULT DROP EXPORT FOLDER FOR lab").says(3, &["HQ003"]);
    study.owner("ALTER VAULT SET EXPORT FOLDER 'out' FOR owner").says(1, &[]);
    // The history says that there is one, and not where.
    let history = study.lab("SHOW PRIVACY HISTORY").out;
    assert!(history.contains("export folder of lab: declared"), "{history}");
    assert!(!history.contains("/out"), "{history}");
    let dump = study.run(&["dump", "study.db"]).out;
    assert!(
        dump.contains("ALTER VAULT SET EXPORT FOLDER '") && dump.contains("FOR \"lab\";"),
        "{dump}"
    );
    study.run(&["check", "study.db"]).says(0, &["is sound"]);
    study.owner("ALTER VAULT DROP EXPORT FOLDER FOR lab").says(0, &[]);
    copied(&study, "a.csv").says(3, &["no export folder"]);
    // No name of a statement is that of an export folder.
    study.owner("ALTER VAULT SET EXPORT FOLDER 'out' FOR lab").says(0, &[]);
    for sql in [
        "DROP TABLE \".export lab\"",
        "DROP VIEW \".export lab\"",
        "CREATE VIEW \".export lab\" AS SELECT 1 AS x",
        "ALTER TABLE \".export lab\" SET PUBLIC",
        "DESCRIBE \".export lab\"",
    ] {
        assert_eq!(study.owner(sql).status, 1, "{sql}");
    }
    copied(&study, "a.csv").says(0, &[]);
}

/// While an analyst exchanges the folder for a link to another and back, nothing is written into
/// the other.
#[cfg(unix)]
#[test]
fn a_race_writes_nothing_elsewhere() {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    let study = study();
    fs::create_dir(study.path("target")).unwrap();
    let (out, moved) = (study.path("out"), study.path("moved"));
    let (target, stop) = (study.path("target"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if fs::rename(&out, &moved).is_ok() {
                    symlink(&target, &out).unwrap();
                    std::thread::yield_now();
                    fs::remove_file(&out).unwrap();
                    fs::rename(&moved, &out).unwrap();
                }
            }
        });
        for round in 0..12 {
            let sql: String =
                (0..8).map(|i| format!("COPY (SELECT 1 AS x) TO 'r{round}_{i}.csv';")).collect();
            let ask = ["study.db", "--analyst", "lab", "--keep-going", "-c", &sql];
            let run = study.run(&ask);
            assert!(run.status <= 1, "{run:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(names(&target).is_empty(), "{:?}", names(&target));
}
