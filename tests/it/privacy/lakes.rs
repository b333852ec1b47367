//! Files of tables whose metadata say which files hold rows: Delta Lake, Iceberg and Hudi keep
//! those of deleted rows for a while. Read as plain Parquet files, they would bring back people who
//! were deleted.

use std::fs;
use std::path::Path;

use hushql::{Engine, Error};

use super::draws::declared;
use super::drift::{ASK, Seen, ask, folder};
use super::folders::{bytes, put, rows};
use crate::contract::program::Study;

/// Formats, and what is in the folder of such a table beside its data.
const LAKES: [(&str, &str); 4] = [
    ("Delta Lake", "_delta_log/00000000000000000000.json"),
    ("Iceberg", "metadata/v1.metadata.json"),
    ("Iceberg", "metadata/00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.gz.metadata.json"),
    ("Hudi", ".hoodie/hoodie.properties"),
];

fn parquet(ids: &[i64]) -> Vec<u8> {
    bytes("PARQUET", "parquet", &rows(ids))
}

fn lake(root: &Path, metadata: &str) {
    put(&root.join(metadata), "{}");
    put(&root.join("a.parquet"), parquet(&[1, 2]));
    put(&root.join("data/year=2025/b.parquet"), parquet(&[3]));
}

/// Wherever the location points: into the table's folder, to one file, or to a folder above it.
#[tokio::test]
async fn files_of_a_lake_are_no_parquet_table() {
    for (name, metadata) in LAKES {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("lake/visits");
        lake(&root, metadata);
        put(&place.path().join("lake/other/c.parquet"), parquet(&[4]));
        put(&place.path().join("lake/visits/notes.csv"), "id,n\n1,2\n");
        let owner = Engine::in_memory().unwrap().owner();
        let create = async |format: &str, at: &str, by: &str| {
            let location = place.path().join(at);
            let sql = format!(
                "CREATE EXTERNAL TABLE t STORED AS {format} {by} LOCATION '{}'",
                location.display()
            );
            let done = owner.execute(&sql).await;
            if done.is_ok() {
                owner.execute("DROP TABLE t").await.unwrap();
            }
            done.map(drop).map_err(|error: Error| error.to_string())
        };
        for (at, by) in [
            ("lake/visits", ""),
            ("lake/visits/*.parquet", ""),
            ("lake/visits/data", "PARTITIONED BY (year INT)"),
            ("lake/visits/data/year=2025", ""),
            ("lake/visits/data/year=2025/b.parquet", ""),
            ("lake/visits/a.parquet", ""),
            ("lake", ""),
            ("lake/**/a.parquet", ""),
            (".", ""),
        ] {
            let refused = create("PARQUET", at, by).await.unwrap_err();
            assert!(refused.contains(&format!("part of a table of {name}")), "{at}: {refused}");
            assert!(refused.contains("deleted rows") && refused.contains("write the"), "{refused}");
        }
        // What is beside it is not part of it, and neither are texts.
        create("PARQUET", "lake/other", "").await.unwrap();
        create("PARQUET", "lake/oth*/*", "").await.unwrap();
        create("CSV", "lake/visits/notes.csv", "").await.unwrap();
        create("CSV", "lake/**/*.csv", "").await.unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    put(&place.path().join("t/metadata/notes.json"), "{}");
    put(&place.path().join("t/data/a.parquet"), parquet(&[1]));
    put(&place.path().join("t/data/metadata"), "a file");
    let owner = Engine::in_memory().unwrap().owner();
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}/t/*/*.parquet'",
        place.path().display()
    );
    owner.execute(&sql).await.unwrap();
}

/// A folder that becomes such a table after it was declared drifts: one query pays, and the owner
/// is told.
#[tokio::test]
async fn a_folder_that_becomes_a_lake_drifts() {
    for (name, metadata) in LAKES {
        let (folder, declarations) = folder("PARQUET", "parquet", "REPLAY (ALL)");
        let engine = Engine::in_memory().unwrap();
        let lab = declared(&engine, &declarations).await;
        put(&folder.path().join(metadata), "{}");
        // Before the charge, nobody looks.
        assert!(lab.prepare(ASK).is_ok());
        assert_eq!(ask(&lab, ASK).await, Seen::Failed, "{name}");
        assert_eq!(ask(&lab, ASK).await, Seen::Refused, "{name}");
        let owner = engine.owner();
        for statement in ["ALTER TABLE t SET PRIVACY UNIT ROW", "ALTER TABLE t REFRESH"] {
            let refused = owner.execute(statement).await.unwrap_err().to_string();
            assert!(refused.contains(&format!("are part of a table of {name}")), "{refused}");
        }
        fs::remove_file(folder.path().join(metadata)).unwrap();
        fs::remove_dir(folder.path().join(metadata).parent().unwrap()).unwrap();
        owner.execute("ALTER TABLE t REFRESH").await.unwrap();
        assert_eq!(ask(&lab, ASK).await, Seen::Answered, "{name}");
    }
}

/// So does a single file. No row is needed to see it, so nothing is charged.
#[test]
fn a_single_file_of_a_lake_is_refused() {
    for (name, metadata) in LAKES {
        let study = Study::new();
        put(&study.path("t/a.parquet"), parquet(&[1, 2]));
        put(&study.path("u/b.parquet"), parquet(&[7, 8, 9]));
        study
            .owner(
                "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 't/a.parquet';
                 ALTER TABLE t SET PRIVACY UNIT ROW;
                 CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=10);
                 CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION 'u';
                 ALTER TABLE u SET PUBLIC",
            )
            .says(0, &[]);
        put(&study.path("t").join(metadata), "{}");
        put(&study.path("u").join(metadata), "{}");
        let part = format!("part of a table of {name}");
        for statement in [
            "ALTER TABLE t SET PRIVACY UNIT ROW",
            "ALTER TABLE t REFRESH",
            "SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        ] {
            study.owner(statement).says(3, &[&format!("the file of t is {part}")]);
        }
        study.owner("SELECT COUNT(*) FROM u").says(3, &[&format!("the files of u are {part}")]);
        let spent = study.owner("SELECT COUNT(*) AS n FROM hushql.ledger WHERE kind = 'charge'");
        assert!(spent.out.contains("│ 0 │"), "{}", spent.out);
        let doctor = study.run(&["doctor", "study.db"]);
        let said = format!("{}{}", doctor.out, doctor.err);
        assert_eq!(said.matches(&part).count(), 2, "{said}");
    }
}
