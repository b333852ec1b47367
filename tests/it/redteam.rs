//! Attacks on the engine, on two neighbouring databases at once: one holds a person that the other lacks.
//!
//! What is refused is refused with the same bytes on both and charges nothing; what is answered has the
//! same columns on both. The cells of that person are found nowhere else, and must not be found in anything
//! that the engine says.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use hushql::{Engine, Error, Output, Session};

use crate::program::shared;

/// The cells of the person that only one database holds; long enough to appear nowhere by chance.
const CANARIES: [&str; 6] = [
    "Zyxquorina",
    "canary-craft",
    "Qanaryville",
    "canary-note",
    "canary-grade",
    "918273645546372819",
];
const CANARY_ID: i64 = 918_273_645_546_372_819;

const DECLARATIONS: &str = "
    ALTER TABLE adult SET PRIVACY UNIT (id) UNIQUE;
    ALTER TABLE adult ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    ALTER TABLE adult ALTER COLUMN hours_per_week SET PRIVACY DOMAIN BETWEEN (0, 99);
    ALTER TABLE adult ALTER COLUMN income SET PRIVACY DOMAIN BETWEEN (0, 1000000);
    ALTER TABLE adult ALTER COLUMN workclass SET PRIVACY DOMAIN IN ('Private', 'State', 'None');
    ALTER TABLE adult ALTER COLUMN education SET PRIVACY DOMAIN IN ('School', 'College', 'none');
    ALTER TABLE adult ALTER COLUMN marital_status SET PRIVACY DOMAIN IN ('Single', 'Married');
    ALTER TABLE adult ALTER COLUMN sex SET PRIVACY DOMAIN IN ('F', 'M');
    ALTER TABLE adult ALTER COLUMN race SET PRIVACY DOMAIN IN ('A', 'B', 'C');
    CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=1000000, delta=0.5);
    ALTER TABLE users SET PRIVACY UNIT (user_id) UNIQUE;
    ALTER TABLE users ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    CREATE PRIVACY BUDGET users FOR users LIMIT (epsilon=1000000, delta=0.5);
    ALTER TABLE orders SET PRIVACY UNIT (user_id) MAX ROWS 20;
    ALTER TABLE orders ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN (0, 1000);
    ALTER TABLE orders ALTER COLUMN qty SET PRIVACY DOMAIN BETWEEN (0, 10);
    CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=1000000, delta=0.5);
    ALTER TABLE regions SET PUBLIC";

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(values.iter().map(|v| (*v != "NULL").then_some(*v)).collect::<StringArray>())
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn batch(columns: Vec<(&str, ArrayRef)>, rows: usize) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array.slice(0, rows), true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The tables; the last row of each is the person's who is in one database only.
fn tables(whole: bool) -> [(&'static str, RecordBatch); 4] {
    let rows = if whole { 6 } else { 5 };
    let adult = batch(
        vec![
            ("id", integers(&[1, 2, 3, 7, 9, CANARY_ID])),
            ("age", integers(&[30, 39, 40, 200, -1, 50])),
            ("name", texts(&["Ann", "Bob", "12", "NULL", "", "Zyxquorina"])),
            ("workclass", texts(&["Private", "State", "None", "Private", "else", "canary-craft"])),
            ("education", texts(&["School", "College", "none", "School", "NULL", "canary-grade"])),
            ("marital_status", texts(&["Single", "Married", "Single", "NULL", "else", "Married"])),
            ("occupation", texts(&["Baker", "Smith", "Baker", "NULL", "Smith", "canary-craft"])),
            ("race", texts(&["A", "B", "C", "A", "Z", "B"])),
            ("sex", texts(&["F", "M", "F", "M", "NULL", "F"])),
            ("hours_per_week", integers(&[40, 20, 99, 0, i64::MAX, i64::MIN])),
            ("income", integers(&[10, 70_000, 0, i64::MIN, 999_999, 1_000_000_000_000])),
            ("note", texts(&["x", "2021-02-03", "12", "NULL", "-", "canary-note"])),
        ],
        rows,
    );
    let users = batch(
        vec![
            ("user_id", integers(&[1, 2, 3, 7, 9, CANARY_ID])),
            ("name", texts(&["Ann", "Bob", "12", "NULL", "", "Zyxquorina"])),
            ("age", integers(&[30, 39, 40, 99, -1, 50])),
            ("city", texts(&["Rome", "Oslo", "Rome", "NULL", "Paris", "Qanaryville"])),
        ],
        rows,
    );
    let ts = [0, 1_700_000_000_000_000, i64::MAX, i64::MIN, 5, 77];
    let floats = [1.5, f64::NAN, f64::INFINITY, -0.0, 1e308, 913.37];
    let orders = batch(
        vec![
            ("order_id", integers(&[1, 2, 3, 4, 5, CANARY_ID])),
            ("user_id", integers(&[1, 1, 2, 3, 7, CANARY_ID])),
            ("price", Arc::new(Float64Array::from(floats.to_vec()))),
            ("qty", integers(&[0, 1, 10, 11, -5, i64::MAX])),
            ("city", texts(&["Rome", "Oslo", "Rome", "NULL", "Paris", "Qanaryville"])),
            ("ts", Arc::new(TimestampMicrosecondArray::from(ts.to_vec()))),
        ],
        rows,
    );
    let regions =
        batch(vec![("code", integers(&[1, 2, 3])), ("label", texts(&["one", "two", "three"]))], 3);
    [("adult", adult), ("users", users), ("orders", orders), ("regions", regions)]
}

async fn database(whole: bool) -> Engine {
    let engine = Engine::in_memory().unwrap();
    for (name, batch) in tables(whole) {
        engine.register_batch(name, batch).unwrap();
    }
    let owner = engine.owner();
    for statement in hushql::split_statements(DECLARATIONS).unwrap() {
        owner.execute(&statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    engine
}

/// What must happen to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Refuse,
    Safe,
    Answer,
}

/// Everything an analyst sees of a statement but the drawn values.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Columns(String),
    Text(String),
    Failed(String),
}

/// Runs a statement; also gives every byte that was said.
async fn seen(session: &Session, sql: &str) -> (Seen, String) {
    match session.execute(sql).await {
        Ok(Output::Answer(answer)) => {
            let schema = answer.batches().first().map(|b| format!("{:?}", b.schema().fields()));
            let mut said = format!("{answer}\n{answer:?}");
            for batch in answer.batches() {
                write!(said, "{batch:?}").unwrap();
            }
            (Seen::Columns(schema.unwrap_or_default()), said)
        }
        Ok(Output::Explanation(e) | Output::ExplanationJson(e)) => {
            (Seen::Text(e.to_string()), format!("{e}{}", e.to_json()))
        }
        Ok(Output::Done(text)) => (Seen::Text(text.clone()), text),
        Ok(other) => panic!("{sql}: {other:?}"),
        Err(error) => {
            assert!(!matches!(error, Error::Execution | Error::Internal), "{sql}: {error}");
            let said = format!("{error}\n{:?}\n{}\n{:?}", error, error.message(), error.hint());
            (Seen::Failed(format!("{} {error}", error.kind())), said)
        }
    }
}

fn explanation(session: &Session, sql: &str) -> String {
    match session.explain(sql) {
        Ok(explanation) => format!("{explanation}{}", explanation.to_json()),
        Err(error) => format!("{error}{error:?}"),
    }
}

/// Runs statements on both databases and gathers what is wrong.
async fn attack(statements: &[(String, Expect, String)]) {
    let engines = [database(true).await, database(false).await];
    let sessions = engines.each_ref().map(|engine| engine.analyst("lab").unwrap());
    let mut wrong = String::new();
    let mut everything = String::new();
    for (label, expect, sql) in statements {
        let mut fail = |what: &str| writeln!(wrong, "{label}: {what}\n    {sql}").unwrap();
        let texts = sessions.each_ref().map(|session| explanation(session, sql));
        if texts[0] != texts[1] {
            fail(&format!("explained differently:\n{}\n{}", texts[0], texts[1]));
        }
        everything.extend(texts);
        let before = sessions[0].budgets().unwrap();
        let (on_whole, said) = seen(&sessions[0], sql).await;
        everything += &said;
        let after = sessions[0].budgets().unwrap();
        let (on_less, said) = seen(&sessions[1], sql).await;
        everything += &said;
        if on_whole != on_less {
            fail(&format!("seen differently:\n{on_whole:?}\n{on_less:?}"));
        }
        if after != sessions[1].budgets().unwrap() {
            fail("charged differently");
        }
        let failed = matches!(on_whole, Seen::Failed(_));
        if failed && before != after {
            fail("refused, and charged");
        }
        match expect {
            Expect::Refuse if !failed => fail("answered"),
            Expect::Answer if failed => fail(&format!("refused: {on_whole:?}")),
            Expect::Refuse | Expect::Safe | Expect::Answer => {}
        }
        if let Some(canary) = CANARIES.iter().find(|canary| everything.contains(*canary)) {
            fail(&format!("told `{canary}`"));
            everything.clear();
        }
        everything.clear();
    }
    for session in &sessions {
        let (_, ledger) = seen(session, "SELECT * FROM hushql.ledger").await;
        let (_, show) = seen(session, "SHOW PRIVACY").await;
        for canary in CANARIES {
            assert!(!ledger.contains(canary) && !show.contains(canary), "{canary}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn expect(word: &str) -> Expect {
    match word {
        "refuse" => Expect::Refuse,
        "safe" => Expect::Safe,
        "answer" => Expect::Answer,
        other => panic!("{other}?"),
    }
}

#[tokio::test]
async fn our_own_attacks_fail() {
    let mut categories = BTreeSet::new();
    let statements: Vec<_> = include_str!("../redteam.txt")
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let [category, word, sql] =
                line.splitn(3, " | ").collect::<Vec<_>>().try_into().unwrap();
            categories.insert(category.to_owned());
            (format!("line {}, {category}", number + 1), expect(word), sql.to_owned())
        })
        .collect();
    assert_eq!(categories.len(), 17, "{categories:?}");
    attack(&statements).await;
}

/// Says a record of the shared corpus in the dialect: `/*@dp LAPLACE(eps=1)*/` stands anywhere in the SELECT list
/// there, and in front of an aggregate here; a score and a number of winners are parameters there.
fn in_dialect(sql: &str) -> String {
    let mut pieces = sql.split("/*@dp ");
    let mut said = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (mechanism, rest) = piece.split_once("*/").unwrap();
        if let Some((head, score)) = mechanism.split_once(", score=") {
            let score = score.strip_suffix(')').unwrap();
            let (target, rest) = rest.split_once(" FROM").unwrap();
            said += &format!("{head}){target} BY {score} FROM{rest}");
        } else if let Some(head) = mechanism.strip_suffix(", k=5)") {
            said += &format!("{}){rest}", head.replace("ARGMAX", "TOP 5"));
        } else if mechanism.starts_with("ARGMAX") {
            said += &format!("{mechanism}{rest}");
        } else {
            let calls = ["COUNT(", "SUM(", "AVG(", "array_agg("];
            let at = calls.iter().filter_map(|call| rest.find(call)).min().unwrap_or(0);
            said += &format!("{}{mechanism} {}", &rest[..at], &rest[at..]);
        }
    }
    said
}

/// Left as a comment there is no mechanism (and no default), and the statement must be refused.
#[tokio::test]
async fn the_shared_attacks_fail() {
    let Some(text) = shared("redteam/corpus.jsonl") else {
        println!("skipped: there is no ../shared/redteam/corpus.jsonl beside this checkout");
        return;
    };
    // They expect a division to be refused; here it is total, NULL where the divisor is 0.
    const TOTAL_HERE: [&str; 2] = ["RT-095", "RT-097"];
    let mut statements = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| record[name].as_str().unwrap().to_owned();
        let (id, category, sql) = (field("id"), field("category"), field("sql"));
        let expected = match category.as_str() {
            "control" => Expect::Answer,
            _ if TOTAL_HERE.contains(&id.as_str()) => Expect::Safe,
            _ => expect(&field("expect")),
        };
        let marked = in_dialect(&sql);
        if marked != sql {
            statements.push((format!("{id} {category}, unmarked"), Expect::Refuse, sql));
        }
        statements.push((format!("{id} {category}"), expected, marked));
    }
    assert!(statements.len() > 100, "{}", statements.len());
    attack(&statements).await;
}

#[test]
fn the_shared_notation_is_understood() {
    for (theirs, ours) in [
        ("SELECT /*@dp LAPLACE(eps=1)*/ COUNT(*) FROM t", "SELECT  LAPLACE(eps=1) COUNT(*) FROM t"),
        (
            "SELECT /*@dp LAPLACE(eps=1)*/ k, SUM(x) FROM t",
            "SELECT  k, LAPLACE(eps=1) SUM(x) FROM t",
        ),
        ("SELECT /*@dp ARGMAX AUTO(eps=1, k=5)*/ k FROM t", "SELECT TOP 5 AUTO(eps=1) k FROM t"),
        (
            "SELECT /*@dp ARGMAX AUTO(eps=1, score=AVG(x))*/ k FROM t",
            "SELECT ARGMAX AUTO(eps=1) k BY AVG(x) FROM t",
        ),
    ] {
        assert_eq!(in_dialect(theirs), ours);
    }
}

/// The canaries are where the attacks look: the one database holds them, the other does not.
#[test]
fn the_canaries_are_planted() {
    let text = |whole| format!("{:?}", tables(whole));
    for canary in CANARIES {
        assert!(text(true).contains(canary) && !text(false).contains(canary), "{canary}");
        assert!(!include_str!("../redteam.txt").contains(canary));
    }
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redteam.txt").exists());
}
