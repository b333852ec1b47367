//! Releases that are asked again: shown as they were drawn, at no cost, to those who may see them.

use std::path::Path;

use hushql::{Engine, Session};

use crate::contract::asked::done;

fn people(folder: &Path) -> String {
    folder.join("people.csv").display().to_string()
}

fn write(folder: &Path, people_more: usize) {
    let mut text = "id,city,age\n".to_owned();
    for id in 0..40 + people_more {
        text.push_str(&format!("{id},{},{}\n", ["Oslo", "Rome", "Rome", "Rome"][id % 4], 20 + id));
    }
    std::fs::write(people(folder), text).unwrap();
}

/// A vault with 40 people, and ε = 10 for them, whose releases are replayed.
async fn engine(folder: &Path, replay: &str) -> Engine {
    write(folder, 0);
    let engine = Engine::init(folder.join("v.db")).unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", people(folder)),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=10, delta=1e-6)",
        &format!("ALTER PRIVACY BUDGET b SET REPLAY ({replay})"),
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

fn left(session: &Session) -> i64 {
    session.budgets().unwrap()[0].left.nano
}

/// The rows of an answer, and whether it was paid for.
async fn asked(session: &Session, sql: &str) -> (String, bool) {
    let before = left(session);
    let answer = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let receipt = answer.receipt().unwrap();
    let paid = left(session) < before;
    assert_eq!(receipt.is_replayed, !paid, "{sql}");
    assert_eq!(receipt.spent == hushql::Cost::default(), !paid, "{sql}");
    let rows = answer.to_string();
    let rows = rows.lines().filter(|line| !line.starts_with("cost")).collect::<Vec<_>>().join("\n");
    (rows, paid)
}

const ASK: &str = "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age >= 20 AND age < 90 GROUP BY city";

#[tokio::test]
async fn the_same_release_is_paid_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    assert_eq!(lab.cost(ASK).unwrap().to_string(), "ε = 1");
    let (rows, paid) = asked(&lab, ASK).await;
    assert!(paid);
    for session in [&lab, &other, &engine.owner()] {
        assert_eq!(asked(session, ASK).await, (rows.clone(), false));
    }
    assert_eq!(lab.cost(ASK).unwrap(), hushql::Cost::default());
    let explained = done(&other, &format!("EXPLAIN PRIVACY {ASK}")).await;
    assert!(explained.contains("charge 1 paid for this answer: it would be replayed, cost 0"));
    // In other words, and with something else computed above it.
    for sql in [
        "SELECT city, LAPLACE(eps=1.00) COUNT(*) AS n FROM people p WHERE p.age < 90 AND p.age >= 20 GROUP BY p.city",
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT * FROM people WHERE age < 90) q WHERE age >= 20 GROUP BY city",
    ] {
        assert_eq!(asked(&other, sql).await, (rows.clone(), false), "{sql}");
    }
    assert!(!asked(&other, &format!("SELECT n * 2 AS twice FROM ({ASK}) q ORDER BY n")).await.1);
    // The ledger says who was shown what, and which charge paid.
    let ledger = "SELECT analyst, mechanism, parameters, epsilon FROM hushql.ledger WHERE mechanism = 'REPLAY' ORDER BY sequence LIMIT 1";
    let shown = done(&lab, ledger).await;
    assert!(
        shown.contains("lab") && shown.contains("charge=1") && shown.contains("| 0 "),
        "{shown}"
    );
    // Another program finds it, and an exhausted budget shows it.
    drop((lab, other, engine));
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    let lab = engine.analyst("lab").unwrap();
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1, delta=1e-6)").await;
    assert_eq!(left(&lab), 0);
    assert_eq!(asked(&lab, ASK).await, (rows, false));
    assert!(lab.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people").await.is_err());
}

#[tokio::test]
async fn what_is_drawn_otherwise_is_paid_again() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=100, delta=1e-6)").await;
    let lab = engine.analyst("lab").unwrap();
    assert!(asked(&lab, ASK).await.1);
    for other in [
        &ASK.replace("eps=1", "eps=0.5"),
        &ASK.replace("< 90", "< 91"),
        &ASK.replace("COUNT(*)", "SUM(age)"),
        &ASK.replace("LAPLACE(eps=1)", "LAPLACE(eps=1, rows=1)").replace("COUNT(*)", "COUNT(age)"),
        &ASK.replace("n FROM", "n, LAPLACE(eps=1) COUNT(*) AS m FROM"),
        &ASK.replace("GROUP BY city", "GROUP BY city KEYS ('Oslo')"),
        &ASK.replace("LAPLACE(", "GAUSSIAN(delta=1e-8, "),
    ] {
        assert!(asked(&lab, other).await.1, "{other}");
        assert!(!asked(&lab, other).await.1, "{other}");
    }
    // FRESH draws and pays again; what was kept first stays.
    let (rows, _) = asked(&lab, ASK).await;
    let fresh = ASK.replace("LAPLACE", "FRESH LAPLACE");
    assert_eq!(lab.cost(&fresh).unwrap().to_string(), "ε = 1");
    assert!(asked(&lab, &fresh).await.1);
    assert_eq!(asked(&lab, ASK).await, (rows, false));
    let bare = "SELECT FRESH COUNT(*) AS n FROM people";
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (default=0.1)").await;
    assert!(asked(&lab, bare).await.1 && asked(&lab, bare).await.1);
}

/// A declaration that touches the table ends what was kept, also one that changes nothing; a file that changed is refused.
#[tokio::test]
async fn declarations_end_replays() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=100, delta=1e-6)").await;
    let lab = engine.analyst("lab").unwrap();
    assert!(asked(&lab, ASK).await.1);
    // Budgets and views are no part of it.
    done(&engine.owner(), "CREATE VIEW v AS SELECT age FROM people").await;
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (max=50)").await;
    assert!(!asked(&lab, ASK).await.1);
    for declared in [
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 98)",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
    ] {
        done(&engine.owner(), declared).await;
        assert!(asked(&lab, ASK).await.1, "{declared}");
        assert!(!asked(&lab, ASK).await.1, "{declared}");
    }
    // The file is another one: neither drawn nor replayed before it is declared, and then drawn.
    write(folder.path(), 1);
    let refused = lab.query(ASK).await.unwrap_err();
    assert_eq!(refused.code(), Some("HQ028"), "{refused}");
    done(&engine.owner(), "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await;
    assert!(asked(&lab, ASK).await.1);
    // The old file is back, and declared once more: a new version.
    write(folder.path(), 0);
    done(&engine.owner(), "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await;
    assert!(asked(&lab, ASK).await.1);
}

#[tokio::test]
async fn whose_answers_are_replayed() {
    for mode in ["ALL", "OWN", "OFF"] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), mode).await;
        let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
        assert!(asked(&lab, ASK).await.1);
        assert_eq!(asked(&other, ASK).await.1, mode != "ALL");
        assert_eq!(asked(&lab, ASK).await.1, mode == "OFF");
        assert_eq!(asked(&other, ASK).await.1, mode == "OFF");
    }
    // A new budget replays everybody's answers unless its owner says otherwise, and of several the strictest counts.
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let lab = engine.analyst("lab").unwrap();
    assert!(asked(&lab, ASK).await.1);
    let third = "PRIVACY BUDGET c FOR people LIMIT (epsilon=99, delta=1e-6)";
    done(&engine.owner(), &format!("CREATE {third} REPLAY (OFF)")).await;
    assert!(asked(&lab, ASK).await.1);
    let texts = done(&engine.owner(), "SHOW CREATE PRIVACY BUDGET c").await;
    assert!(texts.contains("REPLAY (OFF)"), "{texts}");
    done(&engine.owner(), "ALTER PRIVACY BUDGET c SET REPLAY (ALL)").await;
    assert!(!asked(&lab, ASK).await.1);
    done(&engine.owner(), &format!("CREATE OR REPLACE {third} REPLAY (OFF)")).await;
    assert!(asked(&lab, ASK).await.1);
    done(&engine.owner(), &format!("CREATE OR REPLACE {third}")).await;
    assert!(!asked(&lab, ASK).await.1);
    done(&engine.owner(), "DROP PRIVACY BUDGET c").await;
    assert!(!asked(&lab, ASK).await.1);
}

/// A table whose rows may change under the same declaration is not replayed.
#[tokio::test]
async fn live_tables_are_not_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let rows =
        format!("CREATE EXTERNAL TABLE live STORED AS CSV LOCATION '{}'", people(folder.path()));
    for sql in [
        rows.as_str(),
        "ALTER TABLE live SET PRIVACY UNIT ROW OTHER PEOPLE THAN people",
        "CREATE PRIVACY BUDGET r FOR live LIMIT (epsilon=10)",
        "ALTER PRIVACY BUDGET r SET REPLAY (ALL)",
    ] {
        done(&engine.owner(), sql).await;
    }
    let lab = engine.analyst("lab").unwrap();
    for _ in 0..2 {
        let answer = lab.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM live").await.unwrap();
        assert!(!answer.receipt().unwrap().is_replayed);
    }
}

/// A release table of a replayed answer costs nothing, a prepared query too, and the answer has the same ±.
#[tokio::test]
async fn replays_are_answers() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    let mean = "SELECT city, LAPLACE(eps=1) AVG(age) AS a, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city";
    let prepared = other.prepare(mean).unwrap();
    assert_eq!(prepared.cost().to_string(), "ε = 2");
    let first = lab.query(mean).await.unwrap();
    let before = left(&lab);
    let again = prepared.execute().await.unwrap();
    assert!(again.receipt().unwrap().is_replayed);
    assert_eq!(first.batches(), again.batches());
    assert_eq!(first.accuracy(), again.accuracy());
    assert_eq!(first.errors(1).collect::<Vec<_>>(), again.errors(1).collect::<Vec<_>>());
    let stored = done(&other, &format!("CREATE RELEASE TABLE r AS {mean}")).await;
    assert!(stored.contains("cost ε = 0 · replayed: charge 1 paid for it"), "{stored}");
    assert_eq!(left(&lab), before);
    let rows = other.query("SELECT a, n FROM r").await.unwrap();
    let columns = |batch: &arrow::array::RecordBatch| batch.columns()[..2].to_vec();
    let shown = first.batches()[0].project(&[1, 2]).unwrap();
    assert_eq!(columns(&rows.batches()[0]), columns(&shown));
}

/// The text of a binary value ends after ten bytes, and two values with the same beginning were one to the key.
#[tokio::test]
async fn constants_are_told_apart_to_their_last_byte() {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
    use datafusion::parquet::arrow::ArrowWriter;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.parquet");
    let [one, two] = [1, 2].map(|last| [[7; 12].to_vec(), vec![last]].concat());
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..30));
    let keys = (0..30).map(|id| if id < 10 { one.as_slice() } else { two.as_slice() });
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(keys));
    let batch = RecordBatch::try_from_iter([("id", ids), ("k", keys)]).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let engine = Engine::init(folder.path().join("v.db")).unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", path.display()),
        "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
        "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000)",
        "ALTER PRIVACY BUDGET b SET REPLAY (ALL)",
    ] {
        done(&engine.owner(), sql).await;
    }
    let lab = engine.analyst("lab").unwrap();
    let of = |key: &[u8]| {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("SELECT LAPLACE(eps=50) COUNT(*) AS n FROM t WHERE k = X'{key}'")
    };
    let (ten, twenty) = (asked(&lab, &of(&one)).await, asked(&lab, &of(&two)).await);
    assert!(
        ten.1 && twenty.1 && ten.0.contains("10") && twenty.0.contains("20"),
        "{ten:?} {twenty:?}"
    );
    assert_eq!(asked(&lab, &of(&one)).await, (ten.0, false));
}

/// A budget that is replaced replays nothing until its owner says so, and texts of replays do not fill the vault.
#[tokio::test]
async fn replays_leave_little_behind() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let lab = engine.analyst("lab").unwrap();
    assert!(asked(&lab, ASK).await.1);
    let size = || std::fs::metadata(folder.path().join("v.db")).unwrap().len();
    let before = size();
    for i in 0..20 {
        let long = format!("{ASK} /* {i} {} */", "x".repeat(50_000));
        assert!(!asked(&lab, &long).await.1);
    }
    assert!(size() < before + 200_000, "{} {before}", size());
}

/// What lab sees of an own afternoon, while another analyst works or not.
async fn afternoon(is_busy: bool) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "OWN").await;
    for analyst in ["lab", "other"] {
        let slice =
            format!("ALTER PRIVACY BUDGET b ADD SLICE {analyst} LIMIT (epsilon=4, delta=1e-7)");
        done(&engine.owner(), &slice).await;
    }
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    let kept = "CREATE RELEASE TABLE kept AS SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people";
    let mut seen = Vec::new();
    for _ in 0..3 {
        if is_busy {
            for sql in [ASK, ASK, &kept.replace("TABLE kept", "TABLE theirs")] {
                done(&other, sql).await;
            }
            done(&other, "DROP RELEASE TABLE theirs").await;
        }
        let answer = lab.query(ASK).await.unwrap();
        let receipt = answer.receipt().unwrap();
        seen.push(format!("{receipt} {}", receipt.sequence));
        for sql in [
            "SELECT sequence, charge, analyst, mechanism, parameters, budgets, cost, kind, statement FROM hushql.ledger ORDER BY sequence DESC",
            "SELECT COUNT(*) AS n FROM hushql.ledger",
            "SELECT sequence, kind FROM hushql.ledger WHERE sequence > 1 LIMIT 3",
            "SHOW PRIVACY BUDGET",
            "SHOW PRIVACY BUDGET BY ANALYST",
            "SHOW TABLES",
            &format!("EXPLAIN PRIVACY {ASK}"),
        ] {
            seen.push(format!("{sql}\n{}", done(&lab, sql).await));
        }
        let made = lab.execute(kept).await.map(|_| ()).map_err(|error| error.to_string());
        seen.push(format!("{made:?}"));
    }
    seen.push(done(&lab, "DROP RELEASE TABLE kept").await);
    seen.push(done(&lab, "SELECT sequence, parameters FROM hushql.ledger").await);
    let charge = lab.query(ASK).await.unwrap().receipt().unwrap().sequence;
    seen.push(
        done(&lab, &format!("SELECT kind FROM hushql.ledger WHERE sequence = {charge}")).await,
    );
    // Its owner sees the whole of it.
    let all = done(&engine.owner(), "SELECT DISTINCT analyst FROM hushql.ledger").await;
    assert_eq!(all.contains("other"), is_busy, "{all}");
    seen
}

#[tokio::test]
async fn analysts_who_are_kept_apart_see_nothing_of_each_other() {
    let (alone, beside) = (afternoon(false).await, afternoon(true).await);
    assert_eq!(alone.len(), beside.len());
    for (alone, beside) in alone.iter().zip(&beside) {
        assert_eq!(alone, beside);
    }
    assert!(alone.iter().any(|text| text.contains("replayed")), "{alone:?}");
}
