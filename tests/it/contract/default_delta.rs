//! The δ that a budget states for keys that only the data contain: who pays it, how often, and what
//! the answer says of it.

use arrow::array::RecordBatch;
use hushql::{Analyst, Engine};
use tempfile::TempDir;

use crate::contract::asked::{done, why};

/// 400 people with an address: half of them at one place, many at another, ten alone.
struct Study {
    engine: Engine,
    lab: Analyst,
    _folder: TempDir,
}

impl Study {
    async fn new(per_query: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = |id: i64| match id {
            0..200 => "post.example".to_owned(),
            200..390 => "mail.example".to_owned(),
            id => format!("home{id}.example"),
        };
        let rows = (0..400).map(|id| format!("{id},p{id}@{},{}\n", place(id), 20 + id % 50));
        let file = folder.path().join("people.csv");
        std::fs::write(&file, format!("id,email,age\n{}", rows.collect::<String>())).unwrap();
        let engine = Engine::init(folder.path().join("v.db")).unwrap();
        for statement in [
            &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", file.display()),
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (18, 90)",
            &format!(
                "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000, delta=1e-4) {per_query}"
            ),
        ] {
            done(&engine.owner(), statement).await;
        }
        let lab = engine.analyst("lab").unwrap();
        Self { engine, lab, _folder: folder }
    }
}

const DEFAULTS: &str = "PER QUERY (default=4, default_delta=1e-7)";
const BY_PLACE: &str =
    "SELECT split_part(email, '@', 2) AS place, COUNT(*) AS n FROM people GROUP BY place";

#[tokio::test]
async fn small_groups_stay_hidden_and_the_answer_says_what_was_used() {
    let Study { lab, .. } = &Study::new(DEFAULTS).await;
    let answer = lab.query(BY_PLACE).await.unwrap();
    let text = answer.to_string();
    assert!(text.contains("post.example") && text.contains("mail.example"), "{text}");
    assert!(!text.contains("home"), "{text}");
    let [note, ..] = answer.notes() else { panic!("{text}") };
    assert_eq!(
        note,
        "groups come out from a noisy number of 6 units on; smaller ones are hidden; δ = 1e-7 is the budget's default"
    );
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 4, δ = 1e-7");
    // What a release states is not the budget's.
    let sql = "SELECT split_part(email, '@', 2) AS place, LAPLACE(eps=4, delta=1e-8) COUNT(*) AS n FROM people GROUP BY place";
    let answer = lab.query(sql).await.unwrap();
    assert!(answer.notes().iter().all(|note| !note.contains("default")), "{answer}");
    let keys = lab.query("SELECT DISTINCT split_part(email, '@', 2) AS place FROM people").await;
    let keys = keys.unwrap();
    assert_eq!(keys.schema().fields().len(), 1);
    let rows: usize = keys.batches().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 2, "{keys}");
    let chosen = "SELECT split_part(email, '@', 2) AS place FROM people GROUP BY place ORDER BY COUNT(*) DESC LIMIT 1";
    let chosen = lab.query(chosen).await.unwrap();
    let said = chosen.notes().iter().any(|note| note.ends_with("δ = 1e-7 is the budget's default"));
    assert!(said, "{chosen}");
}

/// Each statement with what it costs: the δ once for a GROUP BY, however many releases it has.
#[tokio::test]
async fn a_group_by_takes_the_default_once() {
    let Study { lab, .. } = &Study::new(DEFAULTS).await;
    for (sql, cost) in [
        (BY_PLACE, "ε = 4, δ = 1e-7"),
        (
            "SELECT email, COUNT(*), AVG(age), SUM(age) FROM people GROUP BY email",
            "ε = 3.999999999, δ = 1e-7",
        ),
        (
            "SELECT email, LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) SUM(age) FROM people GROUP BY email",
            "ε = 2, δ = 1e-7",
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) email, COUNT(*), SUM(age) FROM people GROUP BY email",
            "ε = 1, δ = 1e-7",
        ),
        ("SELECT email, COUNT(*) FROM people GROUP BY ROLLUP (email)", "ε = 4, δ = 5e-8"),
        ("SELECT DISTINCT email FROM people", "ε = 4, δ = 1e-7"),
        (
            "SELECT DISTINCT email FROM people UNION ALL SELECT DISTINCT lower(email) FROM people",
            "ε = 4, δ = 2e-7",
        ),
        (
            "SELECT email FROM people GROUP BY email ORDER BY COUNT(*) DESC LIMIT 2",
            "ε = 4, δ = 1e-7",
        ),
        ("SELECT age, COUNT(*) FROM people GROUP BY age", "ε = 4"),
        (
            "SELECT email, LAPLACE(eps=1, delta=1e-9) COUNT(*), SUM(age) FROM people GROUP BY email",
            "ε = 5, δ = 1e-9",
        ),
    ] {
        assert_eq!(lab.cost(sql).unwrap().to_string(), cost, "{sql}");
        let before = lab.budgets().unwrap()[0].left;
        let answer = lab.query(sql).await.unwrap();
        assert_eq!(answer.receipt().unwrap().spent.to_string(), cost, "{sql}");
        let after = lab.budgets().unwrap()[0].left;
        let spent = answer.receipt().unwrap().spent;
        let approximate = spent.within(hushql::Notion::Approximate).unwrap();
        assert_eq!(before.nano - after.nano, approximate.nano, "{sql}");
        assert_eq!(before.atto_delta - after.atto_delta, approximate.atto_delta, "{sql}");
    }
}

/// What was paid for is shown again, to the same question at the same default alone.
#[tokio::test]
async fn replays_know_the_default() {
    let Study { engine, lab, .. } = &Study::new(DEFAULTS).await;
    for sql in
        [BY_PLACE, "SELECT DISTINCT email FROM people", "SELECT email FROM people GROUP BY email"]
    {
        let first = lab.query(sql).await.unwrap();
        for _ in 0..3 {
            let again = lab.query(sql).await.unwrap();
            assert!(again.receipt().unwrap().is_replayed, "{sql}");
            assert_eq!(again.batches(), first.batches(), "{sql}");
            assert_eq!(again.notes(), first.notes(), "{sql}");
        }
    }
    let left = || lab.budgets().unwrap()[0].left;
    let before = left();
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (default=4, default_delta=1e-8)")
        .await;
    lab.query(BY_PLACE).await.unwrap();
    assert_eq!(before.atto_delta - left().atto_delta, 10_000_000_000);
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (default=4)").await;
    assert!(why(lab, BY_PLACE).await.contains("HQ008"));
    assert!(why(lab, "SELECT DISTINCT email FROM people").await.contains("HQ001"));
}

/// A budget that has no δ left refuses, and so does a maximum below what several groupings take.
#[tokio::test]
async fn limits_hold_for_defaults() {
    let study = Study::new("PER QUERY (default=4, default_delta=1e-7, max_delta=1e-7)").await;
    let lab = &study.lab;
    lab.query(BY_PLACE).await.unwrap();
    let two =
        "SELECT DISTINCT email FROM people UNION ALL SELECT DISTINCT lower(email) FROM people";
    let said = why(lab, two).await;
    assert!(said.contains("δ = 2e-7"), "{said}");
}
