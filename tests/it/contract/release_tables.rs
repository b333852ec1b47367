//! Release tables: paid for once, read for nothing, seen by those who may see them.

use std::path::Path;

use hushql::{Engine, Output, Session};

use crate::contract::asked::{done, why};

/// A vault with 40 people in two cities, and ε = 10 for them.
async fn engine(folder: &Path) -> Engine {
    let people = folder.join("people.csv");
    let mut text = "id,city,age,job\n".to_owned();
    for id in 0..40 {
        let city = if id % 4 == 0 { "Oslo" } else { "Rome" };
        text.push_str(&format!("{id},{city},{},job{id}\n", 20 + id));
    }
    std::fs::write(&people, text).unwrap();
    let engine = Engine::init(folder.join("v.db")).unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", people.display()),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=10, delta=1e-6)",
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

const CREATE: &str = "CREATE RELEASE TABLE cities AS
    SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city";

fn left(session: &Session) -> i64 {
    session.budgets().unwrap()[0].left.nano
}

#[tokio::test]
async fn a_table_is_paid_once_and_read_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(lab.cost(CREATE).unwrap().to_string(), "ε = 1");
    let said = done(&lab, CREATE).await;
    assert!(said.contains("release_table") && said.contains("| cities        | 2    |"), "{said}");
    assert!(said.contains("cost ε = 1 · left b ε = 9"), "{said}");
    let (all, before) = (done(&lab, "SELECT * FROM cities").await, left(&lab));
    for _ in 0..3 {
        assert_eq!(done(&lab, "SELECT * FROM cities").await, all);
    }
    for free in [
        "SELECT city, n * 2 AS twice FROM cities WHERE n > 5 ORDER BY n LIMIT 1",
        "SELECT a.city FROM cities a JOIN cities b ON a.n = b.n",
        "SELECT SUM(n) AS everybody FROM cities",
        "SELECT n FROM cities UNION ALL SELECT 1",
    ] {
        done(&lab, free).await;
        assert_eq!(lab.cost(free).unwrap(), hushql::Cost::default());
    }
    // Joined with private rows as any public table is, in a later statement.
    let joined = "SELECT c.city, LAPLACE(eps=1) COUNT(*) AS m FROM people p JOIN cities c ON p.city = c.city GROUP BY c.city";
    let explained = done(&lab, &format!("EXPLAIN PRIVACY {joined}")).await;
    assert!(explained.contains("Join cities [public, each row once]"), "{explained}");
    assert!(explained.contains("cities: stored, and read at cost 0"), "{explained}");
    assert_eq!(left(&lab), before);
    done(&lab, joined).await;
    assert_eq!(left(&lab), before - 1_000_000_000);
    // What is there is not paid again.
    let again = CREATE.replace("TABLE cities", "TABLE IF NOT EXISTS cities");
    assert_eq!(lab.cost(&again).unwrap(), hushql::Cost::default());
    let kept = done(&lab, &again).await;
    assert_eq!(kept, "release table cities exists already; nothing was charged");
    assert!(why(&lab, CREATE).await.contains("there is a release table `cities` already"));
    assert_eq!(left(&lab), before - 1_000_000_000);
    // Another program finds it as it was.
    drop((lab, engine));
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(done(&lab, "SELECT * FROM cities").await, all);
    let dropped = done(&lab, "DROP RELEASE TABLE cities").await;
    assert_eq!(dropped, "release table cities is dropped; what it cost stays spent");
    assert_eq!(left(&lab), before - 1_000_000_000);
    assert!(why(&lab, "SELECT * FROM cities").await.contains("cities"));
    done(&lab, "DROP RELEASE TABLE IF EXISTS cities").await;
    assert!(why(&lab, "DROP RELEASE TABLE cities").await.contains("no release table `cities`"));
}

#[tokio::test]
async fn the_stored_answer_is_shown_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    done(
        &lab,
        "CREATE RELEASE TABLE t AS SELECT city, LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) AVG(age) AS a, NULLIF(city, 'Rome') AS x
         FROM people GROUP BY city",
    )
    .await;
    let Output::Answer(shown) = lab.execute("SHOW RELEASE TABLE t").await.unwrap() else {
        panic!()
    };
    assert_eq!(shown.schema().fields().len(), 4);
    let kinds: Vec<_> = shown.accuracy().iter().map(|one| one.column.as_str()).collect();
    assert!(kinds.contains(&"n") && kinds.contains(&"a"), "{kinds:?}");
    assert!(shown.errors(1).all(|error| error.is_some_and(|error| error <= 3.0)));
    assert!(shown.errors(2).all(|error| error.is_some()));
    assert!(shown.receipt().is_none());
    let last = shown.notes().last().unwrap();
    assert_eq!(last, "stored by lab: charge 1 paid ε = 2");
    let described = done(&lab, "DESCRIBE t").await;
    assert!(described.contains("with 95 %"), "{described}");
    let statement = done(&lab, "SHOW CREATE RELEASE TABLE t").await;
    assert!(statement.contains("CREATE RELEASE TABLE t AS SELECT city"), "{statement}");
}

/// Groups that a threshold hides stay hidden.
#[tokio::test]
async fn hidden_groups_stay_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    done(
        &lab,
        "CREATE RELEASE TABLE jobs AS SELECT job, LAPLACE(eps=1, delta=1e-9) COUNT(*) AS n FROM people GROUP BY job",
    )
    .await;
    let rows = lab.query("SELECT * FROM jobs").await.unwrap();
    assert_eq!(rows.batches().iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
    let Output::Answer(shown) = lab.execute("SHOW RELEASE TABLE jobs").await.unwrap() else {
        panic!()
    };
    assert!(shown.notes().iter().any(|note| note.contains("smaller ones are hidden")));
}

/// To those who may not see it, a release table is like one that does not exist, but for its name,
/// which is taken.
#[tokio::test]
async fn others_see_neither_name_nor_contents() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    done(&lab, CREATE).await;
    let missing = |text: String| text.replace("cities", "nowhere");
    for sql in [
        "SELECT * FROM cities",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people p JOIN cities c ON p.city = c.city",
        "DESCRIBE cities",
        "SHOW RELEASE TABLE cities",
        "SHOW CREATE RELEASE TABLE cities",
        "DROP RELEASE TABLE cities",
        "GRANT SELECT ON cities TO other",
        "EXPLAIN SELECT * FROM cities",
    ] {
        let unknown = why(&other, &sql.replace("cities", "nowhere")).await;
        assert_eq!(missing(why(&other, sql).await), unknown, "{sql}");
    }
    for sql in
        ["SHOW TABLES", "SHOW PRIVACY", "SHOW PRIVACY HISTORY", "SELECT * FROM hushql.ledger"]
    {
        assert!(!done(&other, sql).await.contains("cities"), "{sql}");
    }
    assert!(!other.tables().unwrap().iter().any(|(name, _)| name == "cities"));
    assert!(lab.tables().unwrap().iter().any(|(name, _)| name == "cities"));
    assert_eq!(
        done(&other, "DROP RELEASE TABLE IF EXISTS cities").await,
        "there is no release table cities; nothing was dropped"
    );
    let before = left(&other);
    for create in [CREATE, &CREATE.replace("TABLE cities", "TABLE IF NOT EXISTS cities")] {
        assert_eq!(why(&other, create).await, "the name `cities` is taken: choose another one");
    }
    assert_eq!(left(&other), before);
    // The owner sees it, and so do those to whom it is granted.
    let owner = engine.owner();
    let all = done(&lab, "SELECT * FROM cities").await;
    assert_eq!(done(&owner, "SELECT * FROM cities").await, all);
    assert_eq!(
        done(&lab, "GRANT SELECT ON cities TO other").await,
        "analyst other reads release table cities"
    );
    assert_eq!(done(&other, "SELECT * FROM cities").await, all);
    assert!(done(&other, "SHOW TABLES").await.contains("release table of lab"));
    for sql in ["DROP RELEASE TABLE cities", "GRANT SELECT ON cities TO third"] {
        assert!(why(&other, sql).await.contains("only lab and the owner"), "{sql}");
    }
    assert!(why(&other, "SHOW CREATE RELEASE TABLE cities").await.contains("only the creator"));
    done(&owner, "REVOKE SELECT ON cities FROM other").await;
    assert!(why(&other, "SELECT * FROM cities").await.contains("cities"));
    // A declared name is not hidden, and does not hide.
    assert!(
        why(&lab, &CREATE.replace("TABLE cities", "TABLE people")).await.contains("table `people`")
    );
    let hides = "CREATE VIEW cities AS SELECT city FROM people";
    assert!(why(&owner, hides).await.contains("there is a release table `cities` already"));
    done(&owner, "DROP RELEASE TABLE cities").await;
    done(&owner, hides).await;
    assert!(why(&lab, CREATE).await.contains("`cities` is a view"));
}

/// Under OWN, the number of a charge among those of its analyst would tell how often they asked.
#[tokio::test]
async fn readers_apart_see_no_number_of_anothers_charge() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET REPLAY (OWN)").await;
    done(&lab, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people").await;
    done(&lab, CREATE).await;
    done(&lab, "GRANT SELECT ON cities TO other").await;
    for (session, listed, stored) in [
        (&lab, "release table of lab, paid by charge 3", "stored by lab: charge 3 paid ε = 1"),
        (&other, "release table of lab ", "stored by lab, who paid ε = 1"),
    ] {
        let tables = done(session, "SHOW TABLES").await;
        assert!(
            tables.contains(listed) && tables.contains("charge") != (listed.ends_with(' ')),
            "{tables}"
        );
        let shown = done(session, "SHOW RELEASE TABLE cities").await;
        assert!(shown.contains(stored), "{shown}");
    }
}

#[tokio::test]
async fn a_release_table_has_a_statement_of_its_own_to_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let [lab, other] = ["lab", "other"].map(|name| engine.analyst(name).unwrap());
    done(&lab, CREATE).await;
    for session in [&*lab, &*engine.owner()] {
        let refused = why(session, "DROP TABLE cities").await;
        assert!(refused.contains("write: DROP RELEASE TABLE cities"), "{refused}");
    }
    let refused = why(&other, "DROP TABLE cities").await;
    assert_eq!(refused, why(&other, "DROP TABLE nowhere").await);
}

/// What cannot be stored is refused before it is paid for.
#[tokio::test]
async fn what_is_no_table_is_not_charged() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    let before = left(&lab);
    for (query, says) in [
        ("SELECT 1 AS x", "the query releases nothing"),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) COUNT(*) AS n FROM people", "two"),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS \"a.b\" FROM people", "a name without a dot"),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n, NULL AS x FROM people", "CAST(x AS VARCHAR)"),
        ("SELECT age FROM people", "HQ"),
        ("SELECT LAPLACE(eps=99) COUNT(*) AS n FROM people", "budget"),
    ] {
        let create = format!("CREATE RELEASE TABLE t AS {query}");
        let refused = why(&lab, &create).await;
        assert!(refused.contains(says), "{query}: {refused}");
    }
    assert_eq!(left(&lab), before);
    assert!(lab.query("SELECT * FROM t").await.is_err());
}

/// An answer that is too large is charged, shown, and not stored.
#[tokio::test]
async fn an_answer_that_is_too_large_is_shown_instead() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    let wide = "CREATE RELEASE TABLE t AS SELECT age, repeat('x', 60000) AS x, repeat('y', 60000) AS y, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY age";
    let before = left(&lab);
    let Output::Answer(shown) = lab.execute(wide).await.unwrap() else { panic!() };
    let note = shown.notes().last().unwrap();
    assert!(note.starts_with("t was not stored: the answer has more than 8 MiB"), "{note}");
    assert!(shown.receipt().is_some());
    assert_eq!(left(&lab), before - 1_000_000_000);
    assert!(lab.query("SELECT * FROM t").await.is_err());
}

/// A view whose table is gone must not read what an analyst puts in its place.
#[tokio::test]
async fn no_release_table_takes_the_place_that_a_view_reads() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let codes = folder.path().join("codes.csv");
    std::fs::write(&codes, "id,b\n1,a\n").unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE codes STORED AS CSV LOCATION '{}'", codes.display()),
        "ALTER TABLE codes SET PUBLIC",
        "CREATE VIEW names AS SELECT id, b FROM codes",
        "DROP TABLE codes",
    ] {
        done(&engine.owner(), sql).await;
    }
    let eve = engine.analyst("eve").unwrap();
    let before = left(&eve);
    let create = CREATE.replace("TABLE cities", "TABLE codes");
    assert!(why(&eve, &create).await.contains("the name `codes` is taken"));
    assert_eq!(left(&eve), before);
}

/// Analysts are named letter by letter.
#[tokio::test]
async fn a_grant_is_for_the_analyst_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let [lab, upper, lower] = ["lab", "Lab2", "lab2"].map(|name| engine.analyst(name).unwrap());
    done(&lab, CREATE).await;
    done(&lab, "GRANT SELECT ON cities TO Lab2").await;
    done(&upper, "SELECT * FROM cities").await;
    why(&lower, "SELECT * FROM cities").await;
}

/// Another role of a name that was dropped has nothing of what the first one had, and what that
/// spent stays spent.
#[tokio::test]
async fn a_new_role_under_a_dropped_name_inherits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    for sql in [
        "CREATE ROLE lab PASSWORD 'correct horse'",
        "ALTER PRIVACY BUDGET b SET REPLAY (OWN)",
        "ALTER PRIVACY BUDGET b ADD SLICE lab LIMIT (epsilon=6)",
    ] {
        done(&owner, sql).await;
    }
    let [lab, eve] = ["lab", "eve"].map(|name| engine.analyst(name).unwrap());
    done(&lab, CREATE).await;
    done(&lab, "GRANT SELECT ON cities TO eve").await;
    done(&eve, "CREATE RELEASE TABLE young AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age < 30").await;
    done(&eve, "GRANT SELECT ON young TO lab").await;
    let secret = "SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people WHERE job = 'job7'";
    done(&lab, secret).await;
    assert!(done(&lab, secret).await.contains("replayed"));
    let texts = "SELECT statement FROM hushql.ledger ORDER BY sequence";
    assert!(done(&lab, texts).await.contains("job7"));
    let stored = done(&eve, "SELECT * FROM cities").await;
    let spent = left(&lab);
    done(&owner, "DROP ROLE lab").await;
    done(&owner, "CREATE ROLE lab PASSWORD 'another horse'").await;
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(left(&lab), spent);
    for sql in ["SELECT * FROM cities", "SELECT * FROM young", "SHOW RELEASE TABLE cities"] {
        assert!(why(&lab, sql).await.contains(sql.rsplit(' ').next().unwrap()), "{sql}");
    }
    assert!(why(&lab, "DROP RELEASE TABLE cities").await.contains("no release table"));
    assert!(why(&lab, "GRANT SELECT ON cities TO lab").await.contains("no release table"));
    let shown = done(&lab, texts).await;
    assert!(!shown.contains("job7") && !shown.contains("cities"), "{shown}");
    // The owner and whom it was granted to have it as before, and it may be granted again.
    for session in [&*owner, &*eve] {
        assert_eq!(done(session, "SELECT * FROM cities").await, stored);
    }
    assert!(done(&owner, texts).await.contains("job7"));
    done(&owner, "GRANT SELECT ON cities TO lab").await;
    assert_eq!(done(&lab, "SELECT * FROM cities").await, stored);
    assert!(why(&lab, "DROP RELEASE TABLE cities").await.contains("cities"));
    // What is asked from now on is its own: paid once, shown again, with its text.
    assert!(!done(&lab, secret).await.contains("replayed"));
    assert_eq!(left(&lab), spent - 500_000_000);
    assert!(done(&lab, secret).await.contains("replayed"));
    assert!(done(&lab, texts).await.contains("job7"));
    done(&lab, "CREATE RELEASE TABLE mine AS SELECT LAPLACE(eps=0.25) COUNT(*) AS n FROM people")
        .await;
    done(&lab, "SELECT * FROM mine").await;
    drop((lab, eve, owner, engine));
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    let lab = engine.analyst("lab").unwrap();
    done(&lab, "SELECT * FROM mine").await;
    assert!(why(&lab, "SELECT * FROM young").await.contains("young"));
    hushql_vault::ledger::Vault::open(folder.path().join("v.db")).unwrap().verify().unwrap();
}

/// What costs nothing adds little to the vault, whatever its text, and what is paid keeps a short
/// text.
#[tokio::test]
async fn long_texts_do_not_fill_the_vault() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    let size = || std::fs::metadata(folder.path().join("v.db")).unwrap().len();
    let text = |round: usize| {
        let comment = format!("{round}").repeat(900_000);
        format!("{CREATE} -- {comment}")
    };
    done(&lab, &text(1)).await;
    done(&lab, "DROP RELEASE TABLE cities").await;
    let before = size();
    for round in 2..6 {
        assert!(done(&lab, &text(round)).await.contains("replayed"));
        assert!(done(&lab, "SHOW CREATE RELEASE TABLE cities").await.contains("LAPLACE"));
        done(&lab, "DROP RELEASE TABLE cities").await;
    }
    assert!(size() <= before + (256 << 10), "{before} to {}", size());
    let before = size();
    let long =
        format!("SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM people -- {}", "z".repeat(900_000));
    done(&lab, &long).await;
    assert!(size() <= before + (64 << 10), "{before} to {}", size());
    let shown = done(&lab, "SELECT statement FROM hushql.ledger WHERE mechanism = 'LAPLACE'").await;
    assert!(shown.contains("zzz") && shown.contains("bytes in all, sha256:"), "{}", shown.len());
    assert!(shown.len() < 40_000);
    hushql_vault::ledger::Vault::open(folder.path().join("v.db")).unwrap().verify().unwrap();
}
