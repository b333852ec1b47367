//! Objects of a store in every layout that folders have, with the checks of `folders`: every kind
//! of file, compressed or not, in a folder, behind a pattern and under keys that hold values; an
//! object that is changed, added, removed or emptied; names that would be something else in a text,
//! and that are nowhere.
//!
//! A store is found through the environment, so each test runs itself once more, with an
//! environment of its own, and all of its statements in that process.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use hushql::Engine;

use super::draws::declared;
use super::folders::{FILE, KINDS, PERSON, bytes, charged, free, refreshed, rows, sum};
use super::objects::Store;

async fn private(engine: &Engine, create: String, unit: &str) -> hushql::Analyst {
    declared(
        engine,
        &[
            create,
            format!("ALTER TABLE t SET PRIVACY UNIT {unit}"),
            "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
            "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
        ],
    )
    .await
}

/// What `folders::files_are_read_together_and_known_together` says of files.
#[tokio::test]
async fn objects_are_read_together_and_known_together() {
    let Some(store) = Store::of_the_environment(
        "privacy::object_layouts::objects_are_read_together_and_known_together",
    ) else {
        return;
    };
    for (kind, (format, end)) in KINDS.into_iter().enumerate() {
        for layout in ["folder", "pattern", "keys"] {
            for unit in ["(id) UNIQUE", "ROW"] {
                let what = format!("{format} {end} {layout} {unit}");
                let root = format!("{kind}/{layout}/{}", unit.len());
                let (one, other, more) = match layout {
                    "keys" => ("k=1/a", "k=2/b", "k=3/c"),
                    _ => ("a", "b", "c"),
                };
                let name = |name: &str| format!("{root}/{name}.{end}");
                let all: Vec<i64> = (0..300).collect();
                let [first, second, third] = [&all[..100], &all[100..200], &all[200..]]
                    .map(|ids| bytes(format, end, &rows(ids)));
                store.put(&name(one), &first);
                store.put(&name(other), &second);
                store.put(&format!("{root}/_SUCCESS"), "nothing");
                store.put(&format!("{root}/.part.crc"), "nothing");
                store.put(&format!("{root}/{one}.tmp"), "half of a file");
                store.put(&format!("{root}2/a.{end}"), &third);
                let (location, partitioned) = match layout {
                    "pattern" => (format!("{root}/*.{end}"), ""),
                    "keys" => (format!("{root}/"), " PARTITIONED BY (k INT)"),
                    _ => (format!("{root}/"), ""),
                };
                let create = format!(
                    "CREATE EXTERNAL TABLE t STORED AS {format}{partitioned} LOCATION 's3://clinic/{location}'"
                );
                let engine = Engine::in_memory().unwrap();
                let lab = private(&engine, create, unit).await;
                let two = Some(sum(0..200));
                assert_eq!(charged(&lab).await, (two, true), "{what}");
                let is_verified = unit != "ROW";
                let now = |expected: (i64, i64)| (Some(expected).filter(|_| !is_verified), true);
                store.put(&name(one), &third);
                assert_eq!(charged(&lab).await, now(sum(100..300)), "{what}: changed");
                store.put(&name(one), &first);
                refreshed(&engine).await;
                assert_eq!(charged(&lab).await, (two, true), "{what}: written again");
                store.put(&name(more), &third);
                assert_eq!(charged(&lab).await, now(sum(0..300)), "{what}: added");
                store.remove(&name(more));
                refreshed(&engine).await;
                assert_eq!(charged(&lab).await, (two, true), "{what}: removed again");
                store.remove(&name(other));
                assert_eq!(charged(&lab).await, now(sum(0..100)), "{what}: removed");
                store.put(&name(other), &second);
                refreshed(&engine).await;
                // As of files: an object without a byte has no rows, whatever its format.
                store.put(&name(other), "");
                let is_text = end == "json";
                assert_eq!(charged(&lab).await, now(sum(0..100)), "{what}: emptied");
                store.put(&name(other), &second);
                refreshed(&engine).await;
                store.put(&name(other), "\u{1}noise");
                let noise = charged(&lab).await;
                assert!(
                    noise.1 && (noise.0.is_none() || is_text && !is_verified),
                    "{what}: {noise:?}"
                );
                store.put(&name(other), &second);
                let again = format!("ALTER TABLE t SET PRIVACY UNIT {unit}");
                engine.owner().execute(&again).await.unwrap();
                assert_eq!(charged(&lab).await, (two, true), "{what}: back");
                // All of them are gone: an empty table, which is not the one that was verified.
                store.remove(&name(one));
                store.remove(&name(other));
                assert_eq!(charged(&lab).await, now((0, 0)), "{what}: gone");
                store.put(&name(one), &first);
                store.put(&name(other), &second);
                refreshed(&engine).await;
                assert_eq!(charged(&lab).await, (two, true), "{what}: back");
            }
        }
    }
}

fn put_folders(store: &Store, root: &str, (format, end): (&str, &str), folders: usize) {
    for i in 0..folders {
        let ids: Vec<i64> = (0..50).map(|n| n + 50 * i64::try_from(i).unwrap()).collect();
        let name = format!("{root}/year=20{}/who={PERSON}%20{i}/{FILE}-{i}.{end}", 20 + i % 9);
        store.put(&name, bytes(format, end, &rows(&ids)));
    }
}

/// What `folders::what_is_free_is_the_same_for_no_file_and_for_many` says of files.
#[tokio::test]
async fn what_is_free_is_the_same_for_no_object_and_for_many() {
    let Some(store) = Store::of_the_environment(
        "privacy::object_layouts::what_is_free_is_the_same_for_no_object_and_for_many",
    ) else {
        return;
    };
    for (kind, (format, end)) in KINDS.into_iter().enumerate() {
        let mut stories = Vec::new();
        let root = format!("t{kind}");
        store.put("p.csv", "code\n1\n7\n");
        for folders in [0, 1, 2, 30] {
            store.set(|objects| objects.clear(&root));
            put_folders(&store, &root, (format, end), folders);
            let engine = Engine::in_memory().unwrap();
            let lab = declared(
                &engine,
                &[
                    format!("CREATE EXTERNAL TABLE t (id BIGINT, n BIGINT) STORED AS {format} PARTITIONED BY (year INT, who) LOCATION 's3://clinic/{root}/'"),
                    "ALTER TABLE t SET PRIVACY UNIT (who) MAX ROWS 60".to_owned(),
                    "ALTER TABLE t ALTER COLUMN year SET PRIVACY DOMAIN BETWEEN (2020, 2030)".to_owned(),
                    "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
                    "CREATE EXTERNAL TABLE p STORED AS CSV LOCATION 's3://clinic/p.csv'".to_owned(),
                    "ALTER TABLE p SET PUBLIC".to_owned(),
                    "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000, delta=1e-3) REPLAY (OFF)".to_owned(),
                ],
            )
            .await;
            // Of a private table, nothing is asked for: not even whether there are objects.
            store.set(|objects| objects.forget_requests());
            let mut story = free(&lab).await;
            let asked = store.requests();
            assert!(!asked.iter().any(|request| request.contains(&root)), "{asked:?}");
            let (counted, is_charged) = charged(&lab).await;
            let (n, _) = counted.unwrap();
            assert!(is_charged && (n - 50 * folders as i64).abs() <= 5, "{format} {folders}: {n}");
            story.extend(free(&lab).await);
            store.put(&format!("{root}/year=1/who={PERSON}/{FILE}.{end}"), "\u{1}noise");
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

/// The rows of a name and a count.
fn named(batch: &RecordBatch) -> Vec<String> {
    let counts = batch.column(1).as_primitive::<Int64Type>();
    let name = |row| array_value_to_string(batch.column(0), row).unwrap();
    (0..batch.num_rows()).map(|row| format!("{} {}", name(row), counts.value(row))).collect()
}

/// Keys of names are values of rows, whatever is in them; a name that no path may have makes the
/// query fail, and is in no text.
#[tokio::test]
async fn hostile_names_are_values_and_nowhere() {
    let Some(store) =
        Store::of_the_environment("privacy::object_layouts::hostile_names_are_values_and_nowhere")
    else {
        return;
    };
    for (kind, (format, end)) in KINDS.into_iter().enumerate() {
        let root = format!("h{kind}");
        for (name, ids) in [
            ("year=2025/who=Ann%20Lee/a", 0..3),
            ("year=2025/who=it's%0A\"quoted\"&<b>/a", 3..5),
            ("year=2026/who=Ann%20Lee/b", 5..9),
            ("year=__HIVE_DEFAULT_PARTITION__/who=Ann%20Lee/c", 9..14),
            ("year=none/who=é/d", 14..20),
        ] {
            let ids: Vec<i64> = ids.collect();
            store.put(&format!("{root}/{name}.{end}"), bytes(format, end, &rows(&ids)));
        }
        let engine = Engine::in_memory().unwrap();
        let lab = declared(
            &engine,
            &[
                format!("CREATE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (year INT, who) LOCATION 's3://clinic/{root}/'"),
                "ALTER TABLE t SET PRIVACY UNIT ROW".to_owned(),
                "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
                "ALTER TABLE t ALTER COLUMN who SET PRIVACY DOMAIN IN ('Ann Lee', 'it''s\n\"quoted\"&<b>', 'é')".to_owned(),
                "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)".to_owned(),
            ],
        )
        .await;
        let answer = lab
            .query("SELECT who, LAPLACE(eps=1000) COUNT(*) AS n FROM t GROUP BY who ORDER BY n")
            .await
            .unwrap();
        let shown: Vec<String> = answer.batches().iter().flat_map(named).collect();
        assert_eq!(shown, ["it's\n\"quoted\"&<b> 2", "é 6", "Ann Lee 12"], "{format} {end}");
        // An object that is named like a person, in ways that break texts, between a statement and
        // the next.
        for hostile in [
            format!("{PERSON}\n{FILE}"),
            format!("{PERSON}'\"; DROP TABLE t; --{FILE}"),
            format!("{PERSON}//{FILE}"),
            format!("../{PERSON}/{FILE}"),
            format!("{PERSON}\\\u{202e}{FILE}"),
        ] {
            let name = format!("{root}/year=2026/who={PERSON}/{hostile}.{end}");
            store.put(&name, "\u{1}noise");
            let before = charged(&lab).await;
            assert!(before.1, "{format} {hostile:?}");
            let error = lab.query("SELECT LAPLACE(eps=1000) COUNT(*) FROM t").await;
            let mut said = free(&lab).await;
            said.push(format!("{error:?}"));
            let other = format!(
                "CREATE EXTERNAL TABLE u STORED AS {format} PARTITIONED BY (year INT, who) LOCATION 's3://clinic/{root}/'"
            );
            let declared = engine.owner().execute(&other).await;
            said.push(format!("{declared:?}"));
            if declared.is_ok() {
                engine.owner().execute("DROP TABLE u").await.unwrap();
            }
            for text in said {
                assert!(!text.contains(PERSON) && !text.contains(FILE), "{format}: {text}");
            }
            store.remove(&name);
        }
        let whole = charged(&lab).await;
        assert_eq!(whole.0.map(|(n, _)| n), Some(20), "{format}");
    }
}

/// What `folders::public_files_are_read_as_they_are` and `folders::no_file_is_an_empty_table` say
/// of files.
#[tokio::test]
async fn public_and_missing_objects_are_read_as_they_are() {
    let Some(store) = Store::of_the_environment(
        "privacy::object_layouts::public_and_missing_objects_are_read_as_they_are",
    ) else {
        return;
    };
    for (kind, (format, end)) in KINDS.into_iter().enumerate() {
        let root = format!("p{kind}");
        let name = |key: &str| format!("{root}/k={key}/{FILE}.{end}");
        let untyped = format!(
            "CREATE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (k INT) LOCATION 's3://clinic/{root}/'"
        );
        let owner = Engine::in_memory().unwrap().owner();
        let refused = owner.execute(&untyped).await.unwrap_err().to_string();
        assert!(refused.contains("no file") && refused.contains("(column TYPE, …)"), "{refused}");
        store.put(&name("1"), bytes(format, end, &rows(&[1, 2])));
        let engine = Engine::in_memory().unwrap();
        let lab = declared(&engine, &[untyped, "ALTER TABLE t SET PUBLIC".to_owned()]).await;
        let shown = async || {
            let sql = "SELECT k, COUNT(*) AS n, SUM(n) AS s FROM t GROUP BY k ORDER BY k";
            let answer = lab.query(sql).await?;
            let shown = arrow::util::pretty::pretty_format_batches(answer.batches()).unwrap();
            Ok::<_, hushql::Error>(shown.to_string().replace("3  |", "3 |"))
        };
        assert!(shown().await.unwrap().contains("| 1 | 2 | 3 |"), "{format}");
        store.put(&name("2"), bytes(format, end, &rows(&[3, 4, 5])));
        let both = shown().await.unwrap();
        assert!(both.contains("| 1 | 2 | 3 |") && both.contains("| 2 | 3 | 12 |"), "{both}");
        store.set(|objects| objects.weaken(true));
        let error = shown().await.unwrap_err();
        store.set(|objects| objects.weaken(false));
        assert!(error.to_string().contains("the files of t cannot be read"), "{error}");
        assert!(!format!("{error} {error:?}").contains(FILE), "{error:?}");
        store.set(|objects| objects.clear(&root));
        let none = shown().await.unwrap();
        assert!(!none.contains("| 1 |"), "{none}");
    }
}
