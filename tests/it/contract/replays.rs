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
    let left_told = receipt.left.iter().find(|(name, _)| name == "b").map(|(_, left)| left.nano);
    assert_eq!(left_told, Some(left(session)), "{sql}");
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
    for session in [&*lab, &*other, &*engine.owner()] {
        assert_eq!(asked(session, ASK).await, (rows.clone(), false));
    }
    assert_eq!(lab.cost(ASK).unwrap(), hushql::Cost::default());
    let explained = done(&other, &format!("EXPLAIN PRIVACY {ASK}")).await;
    assert!(explained.contains("charge 1 paid for this answer: it would be replayed, cost 0"));
    // In other words, and with something else computed above it.
    for sql in [
        "SELECT city, LAPLACE(eps=1.00) COUNT(*) AS n FROM people p WHERE p.age < 90 AND p.age >= 20 GROUP BY p.city",
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT * FROM people WHERE age < 90) q WHERE age >= 20 GROUP BY city",
        "SELECT city, LAPLACE(eps=1) COUNT(1) AS n FROM people WHERE age >= 20 AND age < 90 GROUP BY city",
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

/// Others spend while an answer is shown again and again.
#[tokio::test]
async fn what_is_left_is_told_as_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    for eps in [1.0, 2.0, 0.5] {
        for _ in 0..3 {
            asked(&lab, ASK).await;
        }
        let sql = format!("SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM people WHERE age > {eps}");
        assert!(asked(&other, &sql).await.1);
    }
    let receipt = lab.query(ASK).await.unwrap().receipt().unwrap().clone();
    assert_eq!(receipt.left_text(), "b ε = 5.5, δ = 1e-6");
    assert!(!receipt.to_string().contains("left"), "{receipt}");
}

/// A question reads a table itself, a view of all its columns, or a query that gives another one's
/// name away: it stays the same.
#[tokio::test]
async fn columns_that_are_only_passed_on_change_no_question() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    done(&engine.owner(), "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 2").await;
    done(&engine.owner(), "CREATE VIEW everybody AS SELECT * FROM people").await;
    let lab = engine.analyst("lab").unwrap();
    for question in [
        "SELECT city, LAPLACE(eps=0.1) COUNT(*) FROM people WHERE id < 30 GROUP BY city",
        "SELECT LAPLACE(eps=0.1) COUNT(*) FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY city) r FROM people) s WHERE r = 1",
        "SELECT LAPLACE(eps=0.1) COUNT(*) FROM (SELECT DISTINCT id, city FROM people) s",
        "SELECT LAPLACE(eps=0.1) COUNT(*) FROM (SELECT id, COUNT(*) c FROM people GROUP BY id) s WHERE c > 0",
    ] {
        let (rows, paid) = asked(&lab, question).await;
        assert!(paid, "{question}");
        for people in [
            "everybody",
            "(SELECT * FROM people) p",
            "(SELECT id, city, age AS city_age FROM people) p",
        ] {
            let other = question.replace("FROM people", &format!("FROM {people}"));
            assert_eq!(asked(&lab, &other).await, (rows.clone(), false), "{other}");
        }
    }
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
}

/// Of several releases only those are paid for that were not before, in other places and orders,
/// too.
#[tokio::test]
async fn only_what_is_missing_is_paid() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1000, delta=1e-3)").await;
    let lab = engine.analyst("lab").unwrap();
    let count = "SELECT city, LAPLACE(eps=50) COUNT(*) AS n FROM people GROUP BY city";
    assert!(asked(&lab, count).await.1);
    let both = "SELECT EXPONENTIAL(eps=2) MEDIAN(age) AS m, city, LAPLACE(eps=50) COUNT(*) AS n FROM people GROUP BY city KEYS ('Rome', 'Oslo')";
    assert_eq!(lab.cost(both).unwrap().to_string(), "ε = 2");
    let explained = done(&lab, &format!("EXPLAIN PRIVACY {both}")).await;
    assert!(
        explained.contains("charge 1 paid for it: it would be replayed, cost 0"),
        "{explained}"
    );
    assert!(
        explained.contains("charge 1 paid for a part of this answer: only the rest would be drawn"),
        "{explained}"
    );
    let prepared = lab.prepare(both).unwrap();
    let answer = lab.query(both).await.unwrap();
    let receipt = answer.receipt().unwrap();
    assert_eq!((receipt.spent.to_string().as_str(), receipt.is_replayed), ("ε = 2", false));
    assert_eq!(receipt.replayed, [1]);
    assert!(answer.to_string().contains("replayed in part: charge 1 paid for that"), "{answer}");
    let shown = answer.to_string();
    // The groups are in another order, and have their own numbers: 10 live in Oslo, and 30 in Rome.
    let row = |city: &str| shown.lines().find(|line| line.contains(city)).unwrap().to_owned();
    assert!(row("Oslo").contains(" 10 ") && row("Rome").contains(" 30 "), "{shown}");
    // What was quoted before costs less now.
    let again = prepared.execute().await.unwrap();
    assert!(again.receipt().unwrap().is_replayed);
    assert_eq!(again.batches(), answer.batches());
    assert_eq!(again.receipt().unwrap().replayed.len(), 2);
    // What is shown again is what was drawn, also beside others that are drawn: another draw agrees
    // in one of 4,000 cases.
    let noisy = "SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM people WHERE age > 30";
    let alone = lab.query(noisy).await.unwrap();
    let beside = noisy.replace(" AS n", " AS n, EXPONENTIAL(eps=1) MIN(age) AS lo");
    let beside = lab.query(&beside).await.unwrap();
    assert_eq!(beside.receipt().unwrap().spent.to_string(), "ε = 1");
    assert_eq!(beside.batches()[0].column(0), alone.batches()[0].column(0));
    // A release that is written twice is two draws, of which one was paid for.
    let twice = count.replace(" AS n", " AS n, LAPLACE(eps=50) COUNT(*) AS m");
    assert_eq!(lab.cost(&twice).unwrap().to_string(), "ε = 50");
    assert!(asked(&lab, &twice).await.1 && !asked(&lab, &twice).await.1);
    // FRESH is of one release, with a mechanism and without.
    let fresh = both.replace("EXPONENTIAL", "FRESH EXPONENTIAL");
    assert_eq!(lab.cost(&fresh).unwrap().to_string(), "ε = 2");
    assert!(
        asked(&lab, &fresh).await.1 && asked(&lab, &fresh).await.1 && !asked(&lab, both).await.1
    );
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (default=0.5)").await;
    let bare = "SELECT city, COUNT(*) AS n, LAPLACE(eps=1) COUNT(*) AS m FROM people GROUP BY city";
    assert!(asked(&lab, bare).await.1 && !asked(&lab, bare).await.1);
    let fresh = bare.replace("COUNT(*) AS n", "FRESH COUNT(*) AS n");
    assert_eq!(lab.cost(&fresh).unwrap().to_string(), "ε = 0.5");
    assert!(
        asked(&lab, &fresh).await.1 && asked(&lab, &fresh).await.1 && !asked(&lab, bare).await.1
    );
    for wrong in
        ["SELECT FRESH lower(city) FROM people", "SELECT FRESH COUNT(*) OVER () FROM people"]
    {
        let refused = lab.query(wrong).await.unwrap_err().to_string();
        assert!(refused.contains("FRESH stands before one release"), "{refused}");
    }
}

/// Every kind of release is paid for once.
#[tokio::test]
async fn every_kind_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let at = |name: &str| folder.path().join(name).display().to_string();
    let visits: String =
        (0..80).map(|i| format!("{},{},{}\n", i % 40, i % 10, ["x", "y"][i % 2])).collect();
    std::fs::write(at("visits.csv"), format!("person,cost,place\n{visits}")).unwrap();
    std::fs::write(at("places.csv"), "name,size\nx,1\ny,2\n").unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}'", at("visits.csv")),
        &format!("CREATE EXTERNAL TABLE places STORED AS CSV LOCATION '{}'", at("places.csv")),
        "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 4",
        "ALTER TABLE places SET PUBLIC",
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 9)",
        "ALTER TABLE visits ALTER COLUMN place SET PRIVACY DOMAIN IN ('x', 'y')",
        "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1000, delta=1e-3)",
    ] {
        done(&engine.owner(), sql).await;
    }
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    for sql in [
        "SELECT ARGMAX EXPONENTIAL(eps=1) city FROM people GROUP BY city",
        "SELECT TOP 2 EXPONENTIAL(eps=1) city FROM people GROUP BY city",
        "SELECT city, ARGMAX EXPONENTIAL(eps=1) age FROM people GROUP BY city, age",
        "SELECT EXPONENTIAL(eps=1) MEDIAN(age) AS m FROM people",
        "SELECT city, EXPONENTIAL(eps=1) QUANTILE(age, 0.9) AS m FROM people GROUP BY city",
        "SELECT city, EXPONENTIAL(eps=1) QUANTILES(age, (0.25, 0.9)) AS m FROM people GROUP BY city",
        "SELECT city, LAPLACE(eps=1) CDF(age, 20) AS m FROM people GROUP BY city",
        "SELECT EXPONENTIAL(eps=1) MIN(age) AS lo, EXPONENTIAL(eps=1) MAX(age) AS hi FROM people",
        "SELECT id, RANDOMIZED_RESPONSE(eps=1) city FROM people GROUP BY id KEYS (1, 2, 3)",
        "SELECT age, LAPLACE(eps=9, delta=1e-4) COUNT(*) AS n FROM (SELECT age / 20 AS age FROM people) q GROUP BY age",
        "SELECT place, LAPLACE(eps=1) COUNT(DISTINCT cost) AS n FROM visits GROUP BY place",
        "SELECT LAPLACE(eps=1) COUNT(DISTINCT person) AS n FROM visits",
        "SELECT LAPLACE(eps=1, rows=auto) COUNT(*) AS n FROM visits",
        "SELECT city, LAPLACE(eps=1) VARIANCE(age) AS v, LAPLACE(eps=1) AVG(age) AS a FROM people GROUP BY city",
        "SELECT LAPLACE(eps=1) CORR(age, id) AS r FROM (SELECT age, CLAMP(id, 0, 99) AS id FROM people) q",
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE city IS NOT NULL GROUP BY ROLLUP(city) CONSISTENT ORDER BY city",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > (SELECT LAPLACE(eps=1) AVG(age) FROM people)",
        "SELECT place, LAPLACE(eps=1) SUM(cost) AS n FROM people JOIN visits ON id = person GROUP BY place",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people LEFT JOIN visits ON id = person AND cost > 3",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN places ON place = name WHERE size > 1",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE place IN (SELECT name FROM places WHERE size > 1)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE person = id)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT id AS p FROM people UNION ALL SELECT person FROM visits) q",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT person, SUM(cost) AS s FROM visits GROUP BY person) q WHERE s > 5",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT DISTINCT person, place FROM visits) q",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(id) AS s FROM people",
        "SELECT LAPLACE(eps=1) COUNT(*) AS a, (SELECT LAPLACE(eps=1) COUNT(*) FROM visits) AS b FROM people",
    ] {
        let first = asked(&lab, sql).await;
        assert!(first.1, "{sql}");
        let again = asked(&other, sql).await;
        assert!(!again.1, "{sql}");
        assert_eq!(again.0, first.0, "{sql}");
        assert_eq!(lab.cost(sql).unwrap(), hushql::Cost::default(), "{sql}");
    }
    // Another public file is another question.
    let join = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN places ON place = name WHERE size > 1";
    std::fs::write(at("places.csv"), "name,size\nx,1\ny,3\n").unwrap();
    assert!(asked(&lab, join).await.1 && !asked(&lab, join).await.1);
}

/// Replays leave one entry of an analyst, a charge and a day, however often a dashboard is
/// refreshed.
#[tokio::test]
async fn refreshing_does_not_fill_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    assert!(asked(&lab, ASK).await.1);
    let entries = async || {
        let count = "SELECT count(*) AS n FROM hushql.ledger WHERE mechanism = 'REPLAY'";
        let answer = lab.query(count).await.unwrap();
        answer
            .to_string()
            .lines()
            .find_map(|line| line.trim_matches(['|', ' ']).parse::<u32>().ok())
    };
    for _ in 0..5 {
        assert!(!asked(&lab, ASK).await.1 && !asked(&other, ASK).await.1);
    }
    // Around midnight, there may be two of each.
    let found = entries().await;
    assert!(found == Some(2) || found == Some(3) || found == Some(4), "{found:?}");
}

/// Under OWN, with a slice, nothing that an analyst sees follows from what others ask: answers,
/// costs, refusals, what is left.
#[tokio::test]
async fn own_answers_tell_nothing_of_others() {
    let mut transcripts = Vec::new();
    for busy in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), "OWN").await;
        for sql in [
            "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1000, delta=1e-6)",
            "ALTER PRIVACY BUDGET b ADD SLICE a LIMIT (epsilon=400)",
            "ALTER PRIVACY BUDGET b ADD SLICE b LIMIT (epsilon=200)",
        ] {
            done(&engine.owner(), sql).await;
        }
        let [a, b] = ["a", "b"].map(|name| engine.analyst(name).unwrap());
        let asks = [
            "SELECT city, LAPLACE(eps=50) COUNT(*) AS n FROM people GROUP BY city",
            "SELECT LAPLACE(eps=50) COUNT(*) AS n FROM people",
            "SELECT city, LAPLACE(eps=50) COUNT(*) AS n FROM people GROUP BY city",
            "SELECT city, LAPLACE(eps=50) COUNT(*) AS n, EXPONENTIAL(eps=1) MEDIAN(age) AS m FROM people WHERE age > 200 GROUP BY city",
            "SELECT LAPLACE(eps=150) COUNT(*) AS n FROM people",
            "SELECT LAPLACE(eps=50) COUNT(*) AS n FROM people",
        ];
        let mut transcript = String::new();
        for ask in asks {
            if busy {
                for ask in asks {
                    let _ = a.query(ask).await;
                }
            }
            // Without the numbers of charges, which all analysts share.
            let said = match b.query(ask).await {
                Ok(answer) => answer.to_string(),
                Err(error) => error.to_string(),
            };
            let said = said.split(" · replayed").next().unwrap().to_owned();
            let is_drawn = ask.contains("MEDIAN");
            let cost = b.cost(ask).map_or_else(|e| e.to_string(), |cost| cost.to_string());
            if is_drawn {
                transcript.push_str(said.lines().last().unwrap());
            } else {
                transcript.push_str(&said);
            }
            transcript.push_str(&format!("\n{cost}\n{:?}\n", b.budgets().unwrap()));
        }
        transcripts.push(transcript);
    }
    assert_eq!(transcripts[0], transcripts[1]);
}

/// Where several miss at once, each pays and shows its own; what was kept first serves all that ask
/// later.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_draw_that_is_kept_serves_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    drop(engine(folder.path(), "ALL").await);
    let open = || Engine::open(folder.path().join("v.db")).unwrap();
    let engines: Vec<Engine> = (0..4).map(|_| open()).collect();
    let asks = engines.iter().enumerate().map(|(i, engine)| {
        let session = engine.analyst(&format!("lab{i}")).unwrap();
        tokio::spawn(async move { session.query(ASK).await.unwrap() })
    });
    let (mut paid, mut shown) = (0, Vec::new());
    for ask in asks.collect::<Vec<_>>() {
        let answer = ask.await.unwrap();
        let receipt = answer.receipt().unwrap().clone();
        paid += i64::from(!receipt.is_replayed);
        shown.push((receipt, answer.batches().to_vec()));
    }
    let lab = open().analyst("late").unwrap();
    assert_eq!(10 - left(&lab) / 1_000_000_000, paid);
    let late = lab.query(ASK).await.unwrap();
    let charge = late.receipt().unwrap().sequence;
    assert!(late.receipt().unwrap().is_replayed);
    let own = shown.iter().find(|(receipt, _)| !receipt.is_replayed && receipt.sequence == charge);
    assert_eq!(own.unwrap().1, late.batches());
}

/// A declaration that touches the table ends what was kept, also one that changes nothing; a file
/// that changed is refused.
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
    // A new budget replays everybody's answers unless its owner says otherwise, and of several the
    // strictest counts.
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

/// Nothing is verified where each row is a unit, or where people may have any number of rows; the
/// file is the declared one all the same, so its answers are shown again.
#[tokio::test]
async fn tables_without_bounds_are_replayed() {
    for unit in ["ROW", "(id)"] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), "ALL").await;
        let owner = engine.owner();
        let declare = format!("ALTER TABLE people SET PRIVACY UNIT {unit}");
        done(&owner, "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=100, delta=1e-6)").await;
        done(&owner, &declare).await;
        let lab = engine.analyst("lab").unwrap();
        let ask = "SELECT LAPLACE(eps=1, rows=1) COUNT(*) AS n FROM people WHERE age < 90";
        let (shown, paid) = asked(&lab, ask).await;
        assert!(paid, "{unit}");
        assert_eq!(asked(&lab, ask).await, (shown, false), "{unit}");
        // Whatever the file holds, a declaration ends replays: they would tell whether anybody
        // joined.
        for again in [declare.as_str(), "ALTER TABLE people REFRESH"] {
            done(&owner, again).await;
            assert!(asked(&lab, ask).await.1, "{again}");
            assert!(!asked(&lab, ask).await.1, "{again}");
        }
        write(folder.path(), 1);
        let refused = lab.query(ask).await.unwrap_err();
        assert_eq!(refused.code(), Some("HQ028"), "{refused}");
        assert!(refused.to_string().contains("ALTER TABLE people REFRESH"), "{refused}");
        done(&owner, "ALTER TABLE people REFRESH").await;
        assert!(asked(&lab, ask).await.1 && !asked(&lab, ask).await.1, "{unit}");
    }
}

/// A table whose rows may change under the same declaration is not replayed, unless its owner
/// states when they do.
#[tokio::test]
async fn live_tables_are_replayed_after_refresh() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let rows = format!(
        "CREATE EXTERNAL TABLE live STORED AS CSV LOCATION '{}' OPTIONS ('content_hash' 'false')",
        people(folder.path())
    );
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
    let live = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM live";
    let replayed = async || lab.query(live).await.unwrap().receipt().unwrap().is_replayed;
    for end in [
        "ALTER TABLE live REFRESH",
        "ALTER TABLE live SET PRIVACY UNIT ROW OTHER PEOPLE THAN people",
    ] {
        let said = done(&engine.owner(), "ALTER TABLE live REFRESH").await;
        assert!(said.contains("until its next declaration"), "{said}");
        assert!(!replayed().await);
        assert!(replayed().await && replayed().await);
        done(&engine.owner(), end).await;
        assert!(!replayed().await, "{end}");
    }
    // The other declaration took the statement back.
    assert!(!replayed().await);
    let refused = lab.execute("ALTER TABLE live REFRESH").await.unwrap_err();
    assert_eq!(refused.code(), Some("HQ003"), "{refused}");
}

/// Rows that a program registers again may be others.
#[tokio::test]
async fn rows_registered_again_are_new() {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    let engine = Engine::in_memory().unwrap();
    let rows = |n: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n));
        RecordBatch::try_from_iter([("id", ids)]).unwrap()
    };
    engine.register_batch("t", rows(30)).unwrap();
    for sql in [
        "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
        "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000)",
        "ALTER PRIVACY BUDGET b SET REPLAY (ALL)",
        "ALTER TABLE t REFRESH",
    ] {
        done(&engine.owner(), sql).await;
    }
    let lab = engine.analyst("lab").unwrap();
    let count = "SELECT LAPLACE(eps=50) COUNT(*) AS n FROM t";
    assert!(asked(&lab, count).await.1 && !asked(&lab, count).await.1);
    engine.register_batch("t", rows(60)).unwrap();
    let (shown, paid) = asked(&lab, count).await;
    assert!(paid && shown.contains("60"), "{shown}");
    assert!(asked(&lab, count).await.1);
    done(&engine.owner(), "ALTER TABLE t REFRESH").await;
    assert!(asked(&lab, count).await.1 && !asked(&lab, count).await.1);
}

/// What was drawn alone is shown again where it would be drawn together with others; those are paid
/// for, together.
#[tokio::test]
async fn numbers_that_were_drawn_alone_are_not_paid_again() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let lab = engine.analyst("lab").unwrap();
    let (mean, count, sum) =
        ("LAPLACE(eps=1) AVG(age)", "LAPLACE(eps=1) COUNT(age)", "LAPLACE(eps=1) SUM(age)");
    let of = |releases: &[&str]| {
        let columns: Vec<String> = releases
            .iter()
            .zip(["a", "b", "c"])
            .map(|(one, name)| format!("{one} AS {name}"))
            .collect();
        format!("SELECT {} FROM people", columns.join(", "))
    };
    let explained = done(&lab, &format!("EXPLAIN PRIVACY {}", of(&[mean, count]))).await;
    assert!(explained.contains("drawn together"), "{explained}");
    let first = async |sql: &str| {
        let answer = lab.query(sql).await.unwrap();
        let column = answer.batches()[0].column(0).clone();
        (column, answer.receipt().unwrap().spent.to_string())
    };
    let (drawn, cost) = first(&of(&[mean])).await;
    assert_eq!(cost, "ε = 1");
    let prepared = lab.prepare(&of(&[mean, count])).unwrap();
    assert_eq!(prepared.cost().to_string(), "ε = 1");
    let with_count = of(&[mean, count]);
    assert_eq!(lab.cost(&with_count).unwrap().to_string(), "ε = 1");
    assert_eq!(first(&with_count).await, (drawn.clone(), "ε = 1".to_owned()));
    // Both are known now, each as it was drawn.
    assert!(!asked(&lab, &of(&[count])).await.1 && !asked(&lab, &with_count).await.1);
    assert!(prepared.execute().await.unwrap().receipt().unwrap().is_replayed);
    assert_eq!(first(&of(&[mean, count, sum])).await, (drawn.clone(), "ε = 1".to_owned()));
    // What is asked for with FRESH is drawn and paid alone.
    let fresh = of(&[mean, &format!("FRESH {count}")]);
    assert_eq!(first(&fresh).await, (drawn, "ε = 1".to_owned()));
    // What was drawn together is known together; in another statement it is another draw.
    let filtered = format!("{} WHERE age < 50", of(&[mean, count]));
    let quoted = lab.prepare(&filtered).unwrap();
    assert_eq!(quoted.cost().to_string(), "ε = 2");
    let alone = format!("{} WHERE age < 50", of(&[count]));
    assert!(asked(&lab, &alone).await.1);
    // It was quoted as drawn together, and one of both costs nothing now.
    let answer = quoted.execute().await.unwrap();
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 1");
    assert!(!asked(&lab, &filtered).await.1);
}

/// FRESH before an aggregate is a matter of its own SELECT.
#[tokio::test]
async fn fresh_is_of_one_select() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let places = folder.path().join("places.csv");
    std::fs::write(&places, "name,size\nx,1\ny,2\n").unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE places STORED AS CSV LOCATION '{}'", places.display()),
        "ALTER TABLE places SET PUBLIC",
        "ALTER PRIVACY BUDGET b SET PER QUERY (default=0.5)",
    ] {
        done(&engine.owner(), sql).await;
    }
    let lab = engine.analyst("lab").unwrap();
    for sql in [
        "SELECT COUNT(*) AS n, (SELECT FRESH AVG(age) FROM people) AS a FROM places",
        "SELECT COUNT(*) AS n FROM places WHERE size > (SELECT FRESH AVG(age) FROM people)",
        "SELECT COUNT(*) AS n FROM places ORDER BY n + (SELECT FRESH AVG(age) FROM people)",
    ] {
        assert_eq!(lab.cost(sql).unwrap().to_string(), "ε = 0.5", "{sql}");
        assert!(asked(&lab, sql).await.1 && asked(&lab, sql).await.1, "{sql}");
    }
}

/// What is charged now reaches the minimum by itself, and what is shown again does not count.
#[tokio::test]
async fn the_minimum_is_that_of_what_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let minimum = "ALTER PRIVACY BUDGET b SET PER QUERY (min=1)";
    done(&engine.owner(), minimum).await;
    let lab = engine.analyst("lab").unwrap();
    let count = "LAPLACE(eps=0.6) COUNT(*) AS n";
    let of = |releases: &str| format!("SELECT {releases} FROM people");
    assert!(lab.query(&of(count)).await.is_err());
    let sum = "LAPLACE(eps=0.6) SUM(age + 0) AS s";
    assert!(asked(&lab, &of(&format!("{count}, {sum}"))).await.1);
    let spent = left(&lab);
    for rest in [
        "EXPONENTIAL(eps=0.6) MEDIAN(age) AS m",
        "LAPLACE(eps=0.000001) AVG(age) AS m",
        "LAPLACE(eps=0.1) COUNT(age) AS m, LAPLACE(eps=0.1) AVG(age) AS o",
        "FRESH LAPLACE(eps=0.6) COUNT(*) AS m",
        "(SELECT LAPLACE(eps=0.6) SUM(age + 2) FROM people) AS m",
    ] {
        let sql = of(&format!("{count}, {rest}"));
        let error = lab.query(&sql).await.unwrap_err().to_string();
        assert!(error.contains("takes at least ε = 1 per query: write eps=1 or more"), "{error}");
        assert!(error.ends_with(", without those that are shown again"), "{error}");
        assert_eq!(lab.cost(&sql).unwrap_err().to_string(), error);
        assert_eq!(lab.prepare(&sql).unwrap_err().to_string(), error);
    }
    // The least ε of every statement.
    let sql = of(&format!("{count}, LAPLACE(eps=1e-9) AVG(age) AS m"));
    let refused = lab.query(&sql).await.unwrap_err();
    assert_eq!(refused.code(), Some("HQ026"), "{refused}");
    assert!(refused.to_string().contains("without those that are shown again"), "{refused}");
    assert_eq!(left(&lab), spent);
    let answer = lab.query(&of(&format!("{count}, LAPLACE(eps=1) AVG(age) AS m"))).await.unwrap();
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 1");
    // What is shown again alone costs nothing, and reaches nothing.
    assert!(!asked(&lab, &of(count)).await.1);
    assert!(!asked(&lab, &of(&format!("{sum}, {count}"))).await.1);
    assert!(lab.query(&of("EXPONENTIAL(eps=0.6) MAX(age) AS m")).await.is_err());
}

/// The maximum holds for what is charged now, too.
#[tokio::test]
async fn the_maximum_is_that_of_what_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    let lab = engine.analyst("lab").unwrap();
    let count = "LAPLACE(eps=1) COUNT(*) AS n";
    assert!(asked(&lab, &format!("SELECT {count} FROM people")).await.1);
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (max=0.5)").await;
    let lab = engine.analyst("lab").unwrap();
    for (rest, is_paid) in [("0.5", true), ("0.6", false)] {
        let sql = format!("SELECT {count}, LAPLACE(eps={rest}) AVG(age) AS a FROM people");
        assert_eq!(lab.query(&sql).await.is_ok(), is_paid, "{rest}");
    }
    assert!(!asked(&lab, &format!("SELECT {count} FROM people")).await.1);
}

/// Plain SQL is answered whatever was asked before: a share of the default is less than the
/// minimum, and then all is drawn anew.
#[tokio::test]
async fn plain_sql_reaches_the_minimum_that_is_its_default() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "ALL").await;
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (default=0.4, min=0.4)").await;
    let lab = engine.analyst("lab").unwrap();
    let spent = async |sql: &str| {
        let answer = lab.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        answer.receipt().unwrap().spent.to_string()
    };
    assert_eq!(spent("SELECT COUNT(*) AS n, AVG(age) AS a FROM people").await, "ε = 0.4");
    for sql in [
        "SELECT COUNT(*) AS n, SUM(age + 0) AS s FROM people",
        "SELECT AVG(age + 0) AS a, COUNT(*) AS n FROM people",
        "SELECT COUNT(*) AS n, MEDIAN(age) AS m FROM people",
    ] {
        assert_eq!(lab.cost(sql).unwrap().to_string(), "ε = 0.4", "{sql}");
        assert_eq!(spent(sql).await, "ε = 0.4", "{sql}");
        // By now each release of it was drawn.
        assert!(!asked(&lab, sql).await.1, "{sql}");
    }
    // A part that reaches the minimum by itself is drawn alone.
    assert_eq!(spent("SELECT COUNT(*) AS n FROM people").await, "ε = 0.4");
    let both = "SELECT COUNT(*) AS n, LAPLACE(eps=0.4) SUM(age + 2) AS s FROM people";
    assert_eq!(spent(both).await, "ε = 0.4");
    assert!(!asked(&lab, "SELECT AVG(age) AS a, COUNT(*) AS n FROM people").await.1);
}

/// A release table of a replayed answer costs nothing, a prepared query too, and the answer has the
/// same ±.
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

/// The text of a binary value ends after ten bytes, and two values with the same beginning were one
/// to the key.
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

/// A budget that is replaced replays nothing until its owner says so, and texts of replays do not
/// fill the vault.
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
    if is_busy {
        done(&other, ASK).await;
    }
    done(&lab, "CREATE SYNTHETIC TABLE made AS AIM(eps=0.5) SELECT city FROM people").await;
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
        for sql in ["SHOW RELEASE TABLE kept", "SHOW SYNTHETIC made"] {
            let shown = done(&lab, sql).await;
            seen.extend(shown.lines().filter(|line| line.contains("charge")).map(str::to_owned));
        }
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
