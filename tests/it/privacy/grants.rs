//! What is not granted does not exist: whatever a role without a grant tries, the answer, its code
//! and its cost are those for a name that nothing has.

use std::path::Path;

use hushql::{Analyst, Engine, Output, Session};

use crate::contract::asked::{cells, done, why};

/// Public `codes` and `people` with `visits`, the budgets `main` for the people and `masked` for
/// `hidden`, and the views `stays` of visits and `adults` of people. The roles `lab` (granted:
/// people, codes, main), `eve` (nothing), `all` (everything), and the group `clinic`.
async fn engine(folder: &Path) -> Engine {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut people = "id,city,age\n".to_owned();
    let mut visits = "person,cost,ward\n".to_owned();
    for id in 0..40 {
        let city = if id % 4 == 0 { "Oslo" } else { "Rome" };
        people.push_str(&format!("{id},{city},{}\n", 20 + id));
        visits.push_str(&format!("{id},{},a\n", id % 9));
    }
    std::fs::write(at("people.csv"), people).unwrap();
    std::fs::write(at("visits.csv"), visits).unwrap();
    std::fs::write(at("hidden.csv"), "id,x\n1,2\n2,3\n").unwrap();
    std::fs::write(at("codes.csv"), "city,size\nOslo,1\nRome,2\n").unwrap();
    std::fs::write(at("secret.csv"), "city,weight\nOslo,1\nRome,2\n").unwrap();
    let engine = Engine::init(folder.join("v.db")).unwrap();
    let owner = engine.owner();
    for name in ["people", "visits", "hidden", "codes", "secret"] {
        let path = at(&format!("{name}.csv"));
        done(&owner, &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{path}'"))
            .await;
    }
    for sql in [
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 2",
        "ALTER TABLE hidden SET PRIVACY UNIT ROW",
        "ALTER TABLE codes SET PUBLIC",
        "ALTER TABLE secret SET PUBLIC",
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 9)",
        "CREATE PRIVACY BUDGET main FOR people LIMIT (epsilon=50, delta=1e-6) PER QUERY (default=1)",
        "CREATE PRIVACY BUDGET masked FOR hidden LIMIT (epsilon=50, delta=1e-6)",
        "CREATE VIEW stays AS SELECT person, cost FROM visits",
        "CREATE VIEW longer AS SELECT person FROM stays WHERE cost > 3",
        "CREATE VIEW adults AS SELECT id, city FROM people WHERE age >= 18",
        "CREATE ROLE lab",
        "CREATE ROLE eve",
        "CREATE ROLE all_of_it",
        "CREATE ROLE clinic NOLOGIN",
        "GRANT SELECT ON people, codes TO lab, clinic",
        "GRANT USAGE ON BUDGET main TO lab, clinic",
        "GRANT SELECT ON ALL TABLES TO all_of_it",
        "GRANT USAGE ON ALL BUDGETS TO all_of_it",
        "SET GRANTS REQUIRED",
    ] {
        done(&owner, sql).await;
    }
    engine
}

fn session(engine: &Engine, name: &str) -> Analyst {
    engine.analyst(name).unwrap()
}

/// The outcome of a statement: its answer, or its code and sentence; and what it would cost, how it
/// is described and prepared.
async fn outcome(session: &Session, sql: &str) -> String {
    let ran = match session.execute(sql).await {
        Ok(output) => format!("{output:?}"),
        Err(error) => format!("{:?} {error}", error.code()),
    };
    let said = |error: hushql::Error| format!("{:?} {error}", error.code());
    let cost = session.cost(sql).map_or_else(said, |cost| cost.to_string());
    let explained = session.explain(sql).map_or_else(said, |explained| explained.to_string());
    let described = session
        .describe(sql, &[])
        .map_or_else(said, |description| format!("{:?}", description.schema()));
    let prepared =
        session.prepare(sql).map_or_else(said, |prepared| format!("{:?}", prepared.schema()));
    let forecast = session.forecast(sql).map_or_else(said, |forecast| format!("{forecast:?}"));
    [ran, cost, explained, described, prepared, forecast].join("\n")
}

/// Attempts on a name `{t}`: of a private table, a public one, or a view.
const ATTEMPTS: [&str; 47] = [
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {t}",
    "SELECT COUNT(*) AS n FROM {t}",
    "SELECT * FROM {t}",
    "TABLE {t}",
    "SELECT {t}.cost FROM {t}",
    "SELECT 1 AS x FROM {t} WHERE false",
    "SELECT * FROM public.{t}",
    "SELECT * FROM hushql.{t}",
    "SELECT * FROM \"{t}\"",
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people p JOIN {t} v ON v.person = p.id",
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people, {t}",
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE id IN (SELECT person FROM {t})",
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people p WHERE EXISTS (SELECT 1 FROM {t} v WHERE v.person = p.id)",
    "WITH x AS (SELECT * FROM {t}) SELECT LAPLACE(eps=1) COUNT(*) AS n FROM x",
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT * FROM {t}) q",
    "SELECT id FROM people UNION ALL SELECT person FROM {t}",
    "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS TABLE {t}(city)",
    "SELECT PERMUTE_AND_FLIP(eps=1) MEDIAN(age) AS m FROM people, {t}",
    "SELECT TOP 1 PERMUTE_AND_FLIP(eps=1) city BY COUNT(*) PRIOR {t}(city, weight) FROM people GROUP BY city",
    "SELECT city FROM codes WHERE city IN (SELECT city FROM {t})",
    "SELECT (SELECT LAPLACE(eps=1) COUNT(*) FROM {t}) AS n FROM codes",
    "EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {t}",
    "EXPLAIN PRIVACY FORMAT JSON SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {t}",
    "EXPLAIN SELECT * FROM {t}",
    "ANALYZE PRIVACY DOMAIN {t}(cost) WITH (eps=0.1)",
    "DESCRIBE {t}",
    "SHOW COLUMNS FROM {t}",
    "SUMMARIZE {t}",
    "SHOW CREATE TABLE {t}",
    "SHOW CREATE VIEW {t}",
    "SHOW RELEASE TABLE {t}",
    "SHOW SYNTHETIC {t}",
    "SHOW CREATE RELEASE TABLE {t}",
    "ALTER TABLE {t} SUGGEST PRIVACY",
    "ALTER TABLE {t} SET PUBLIC",
    "DROP TABLE {t}",
    "DROP VIEW {t}",
    "DROP RELEASE TABLE {t}",
    "DROP RELEASE TABLE IF EXISTS {t}",
    "DROP SYNTHETIC TABLE IF EXISTS {t}",
    "GRANT SELECT ON {t} TO eve",
    "REVOKE SELECT ON {t} FROM lab",
    "COPY (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {t}) TO 'x.csv'",
    "COPY {t} TO 'x.csv'",
    "CREATE RELEASE TABLE mine AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {t}",
    "CREATE SYNTHETIC TABLE mine AS AIM(eps=1, delta=1e-9) SELECT cost FROM {t}",
    "EXPLAIN PRIVACY CREATE SYNTHETIC TABLE mine AS AIM(eps=1, delta=1e-9) SELECT cost FROM {t}",
];

/// Attempts on the name `{b}` of a budget.
const ON_BUDGETS: [&str; 8] = [
    "SHOW PRIVACY BUDGET {b}",
    "SHOW PRIVACY BUDGET {b} BY ANALYST",
    "SHOW PRIVACY BUDGET {b} BY DAY",
    "SHOW PRIVACY BUDGET {b} BY MONTH",
    "SHOW PRIVACY BUDGET {b} BY CELL",
    "SHOW CREATE BUDGET {b}",
    "GRANT USAGE ON BUDGET {b} TO eve",
    "ALTER PRIVACY BUDGET {b} SET LIMIT (epsilon=100)",
];

/// What lists names.
const LISTS: [&str; 10] = [
    "SHOW TABLES",
    "SHOW PRIVACY",
    "SHOW PRIVACY HISTORY",
    "SHOW PRIVACY BUDGET",
    "SHOW PRIVACY BUDGET BY ANALYST",
    "SHOW PRIVACY BUDGET BY DAY",
    "SHOW PRIVACY BUDGET BY CELL",
    "SHOW GRANTS",
    "SELECT * FROM hushql.ledger",
    "SELECT COUNT(*) AS n FROM hushql.ledger",
];

fn spent(engine: &Engine) -> Vec<i64> {
    engine.owner().budgets().unwrap().iter().map(|state| state.spent.nano).collect()
}

#[tokio::test]
async fn what_is_not_granted_is_as_if_it_were_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let before = spent(&engine);
    for (role, hidden) in [
        ("lab", &["visits", "hidden", "secret", "stays", "longer"][..]),
        ("eve", &["visits", "people", "codes", "adults", "hidden"]),
        ("nobody", &["visits", "people", "codes", "adults", "hidden"]),
    ] {
        let session = session(&engine, role);
        for name in hidden {
            // As long, so that places in the text are the same.
            let missing = &"zyxwvutsrq"[..name.len()];
            for attempt in ATTEMPTS {
                let asked = outcome(&session, &attempt.replace("{t}", name)).await;
                let other = outcome(&session, &attempt.replace("{t}", missing)).await;
                // The attempt may name the table elsewhere, too.
                let other = other.replace(name, missing);
                assert_eq!(asked.replace(name, missing), other, "{role}: {attempt} of {name}");
            }
        }
        for attempt in ON_BUDGETS {
            let asked = outcome(&session, &attempt.replace("{b}", "masked")).await;
            let other = outcome(&session, &attempt.replace("{b}", "zyxwvu")).await;
            assert_eq!(asked.replace("masked", "zyxwvu"), other, "{role}: {attempt}");
        }
        assert_eq!(spent(&engine), before, "{role}");
    }
}

#[tokio::test]
async fn nothing_lists_or_suggests_what_is_not_granted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let all = session(&engine, "all_of_it");
    // The control: names that the lists do have for somebody else.
    done(&all, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits").await;
    done(&all, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM hidden").await;
    let seen = done(&all, "SHOW TABLES").await;
    let names = ["visits", "hidden", "secret", "stays", "longer", "masked"];
    assert!(names[..5].iter().all(|name| seen.contains(name)), "{seen}");
    let lab = session(&engine, "lab");
    for sql in LISTS {
        let said = done(&lab, sql).await;
        assert!(!names.iter().any(|name| said.contains(name)), "{sql}: {said}");
    }
    let tables: Vec<String> = lab.tables().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(tables, ["codes", "people", "adults"]);
    let schemas: Vec<String> = lab.schemas().unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(schemas, ["adults", "codes", "people"]);
    assert_eq!(lab.budgets().unwrap().len(), 1);
    assert!(session(&engine, "eve").tables().unwrap().is_empty());
    assert!(session(&engine, "eve").budgets().unwrap().is_empty());
    for sql in
        ["SELECT * FROM visit", "DESCRIBE stay", "SELECT * FROM hiddn", "SHOW PRIVACY BUDGET maske"]
    {
        assert!(!why(&lab, sql).await.contains("did you mean"), "{sql}");
    }
    assert!(why(&lab, "SELECT * FROM peopl").await.contains("did you mean"));
    // A number of the history that is missing would tell of what was declared.
    let history = done(&lab, "SHOW PRIVACY HISTORY").await;
    let rows = history.lines().filter(|line| line.contains("owner")).count();
    assert!(history.contains(&format!("| {rows} ")), "{history}");
    // So would a number of a charge: it is the first of its analyst.
    done(&lab, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people").await;
    let own = done(&lab, "SELECT sequence, charge, statement FROM hushql.ledger").await;
    assert!(own.contains("| 1        | 1      | SELECT LAPLACE"), "{own}");
}

/// A budget that a role may not use is neither charged nor skipped.
#[tokio::test]
async fn a_budget_without_usage_is_no_budget() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";
    done(&lab, count).await;
    done(&owner, "REVOKE USAGE ON BUDGET main FROM lab").await;
    let refused = outcome(&lab, count).await;
    done(&owner, "DROP PRIVACY BUDGET main").await;
    assert_eq!(refused, outcome(&lab, count).await);
    done(&owner, "CREATE PRIVACY BUDGET main FOR people LIMIT (epsilon=50, delta=1e-6)").await;
    // A new budget of the same name is another one.
    assert_eq!(refused, outcome(&lab, count).await);
    done(&owner, "GRANT USAGE ON BUDGET main TO lab").await;
    done(&lab, count).await;
    // A second budget of the same people is charged as well, so it has to be usable, too.
    done(&owner, "CREATE PRIVACY BUDGET tight FOR visits LIMIT (epsilon=9)").await;
    let before = spent(&engine);
    assert!(
        why(&lab, "SELECT FRESH LAPLACE(eps=1) COUNT(*) AS n FROM people")
            .await
            .contains("no privacy budget")
    );
    let said = done(&owner, "GRANT USAGE ON BUDGET tight TO lab").await;
    assert!(said.contains("GRANT SELECT ON visits TO lab"), "{said}");
    assert!(why(&lab, count).await.contains("no privacy budget"));
    assert_eq!(spent(&engine), before);
    done(&owner, "GRANT SELECT ON visits TO lab").await;
    assert!(done(&lab, "SHOW PRIVACY BUDGET").await.contains("tight"));
    done(&lab, "SELECT FRESH LAPLACE(eps=1) COUNT(*) AS n FROM people").await;
    let after = spent(&engine);
    let grown = after.iter().zip(&before).filter(|(now, then)| now > then).count();
    assert_eq!(grown, 2, "{before:?} {after:?}");
}

/// What was made before a REVOKE shows nothing after it.
#[tokio::test]
async fn a_revoke_ends_what_was_made_before() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    done(&owner, "GRANT SELECT ON visits, secret TO lab").await;
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits";
    let prepared = lab.prepare(count).unwrap();
    let public = lab.prepare("SELECT city FROM secret").unwrap();
    for _ in 0..3 {
        done(&lab, count).await;
    }
    for sql in [
        "CREATE RELEASE TABLE kept AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits",
        "CREATE RELEASE TABLE viewed AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM stays",
        "CREATE RELEASE TABLE again AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people CROSS JOIN kept",
        "CREATE RELEASE TABLE keyed AS SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS TABLE secret(city)",
        "CREATE RELEASE TABLE free AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people",
        "CREATE SYNTHETIC TABLE like_them AS AIM(eps=1, delta=1e-9) SELECT cost FROM visits",
        "GRANT SELECT ON kept TO clinic",
    ] {
        done(&lab, sql).await;
    }
    let missing = why(&lab, "SELECT * FROM zyxw").await;
    let sight = lab.sight().unwrap();
    done(&owner, "REVOKE SELECT ON visits, secret FROM lab").await;
    assert!(!lab.sight().unwrap().has_all_of(&sight));
    let before = spent(&engine);
    for name in ["visits", "stays", "kept", "viewed", "again", "keyed", "like_them", "secret"] {
        let said = why(&lab, &format!("SELECT * FROM {name}")).await;
        assert_eq!(said.replace(name, "zyxw"), missing, "{name}");
        assert!(!done(&lab, "SHOW TABLES").await.contains(name), "{name}");
    }
    assert_eq!(why(&lab, count).await.replace("visits", "zyxw"), {
        why(&lab, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM zyxw").await
    });
    assert!(prepared.execute().await.is_err());
    assert!(public.execute().await.is_err());
    assert_eq!(spent(&engine), before);
    // Only what is about people remains in its ledger.
    let ledger = done(&lab, "SELECT statement FROM hushql.ledger").await;
    assert!(ledger.contains("FROM people") && !ledger.contains("visits"), "{ledger}");
    // The group to which the answer was granted may not ask about its table either.
    assert!(why(&session(&engine, "clinic"), "SELECT * FROM kept").await.contains("kept"));
    done(&lab, "SELECT * FROM free").await;
    // A name that is taken does not tell by what.
    for name in ["visits", "kept", "hidden", "longer"] {
        let create = format!(
            "CREATE RELEASE TABLE {name} AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people"
        );
        assert_eq!(
            why(&lab, &create).await,
            format!("the name `{name}` is taken: choose another one")
        );
    }
    // And everything is there again with the grant.
    done(&owner, "GRANT SELECT ON visits, secret TO lab").await;
    for name in ["kept", "viewed", "again", "keyed", "like_them"] {
        done(&lab, &format!("SELECT * FROM {name}")).await;
    }
    assert!(prepared.execute().await.is_ok());
}

/// A release table comes from the table that had the name when it was made. Another table of this
/// name once brought it back for whoever may ask about the new one.
#[tokio::test]
async fn a_release_table_does_not_follow_the_name_of_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    done(&owner, "GRANT SELECT ON visits TO lab").await;
    for sql in [
        "CREATE RELEASE TABLE kept AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits",
        "CREATE RELEASE TABLE again AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people CROSS JOIN kept",
        "CREATE RELEASE TABLE free AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people",
        "CREATE SYNTHETIC TABLE like_them AS AIM(eps=1, delta=1e-9) SELECT cost FROM visits",
    ] {
        done(&lab, sql).await;
    }
    // A table that is replaced is the same one.
    let path = folder.path().join("visits.csv").display().to_string();
    let create = format!("EXTERNAL TABLE visits STORED AS CSV LOCATION '{path}'");
    let unit = "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 2";
    done(&owner, &format!("CREATE OR REPLACE {create}")).await;
    done(&owner, unit).await;
    done(&lab, "SELECT * FROM kept").await;
    assert!(!cells(&owner, "SHOW TABLES").await.contains("dropped since"));
    for sql in
        ["DROP TABLE visits", &format!("CREATE {create}"), unit, "GRANT SELECT ON visits TO lab"]
    {
        done(&owner, sql).await;
    }
    for name in ["kept", "again", "like_them"] {
        let missing = why(&lab, "SELECT * FROM zyxw").await.replace("zyxw", name);
        assert_eq!(why(&lab, &format!("SELECT * FROM {name}")).await, missing);
        assert!(!done(&lab, "SHOW TABLES").await.contains(name), "{name}");
        // The owner still has it, and is told.
        done(&owner, &format!("SELECT * FROM {name}")).await;
    }
    done(&lab, "SELECT * FROM free").await;
    let shown = cells(&owner, "SHOW TABLES").await;
    assert_eq!(shown.matches("made from visits, dropped since").count(), 3, "{shown}");
    let Output::Answer(kept) = owner.execute("SHOW RELEASE TABLE kept").await.unwrap() else {
        panic!("no answer");
    };
    assert!(kept.notes().iter().any(|note| note == "made from visits, dropped since"), "{kept}");
    // What is made of the new table exists.
    let anew = "CREATE RELEASE TABLE anew AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits";
    done(&lab, anew).await;
    done(&lab, "SELECT * FROM anew").await;
    drop((engine, owner, lab));
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    let lab = session(&engine, "lab");
    assert!(why(&lab, "SELECT * FROM kept").await.contains("kept"));
    done(&lab, "SELECT * FROM anew").await;
}

/// A grant to a name that is no role would wait for whoever takes the name.
#[tokio::test]
async fn an_owner_grants_release_tables_to_roles() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    done(&owner, "CREATE RELEASE TABLE kept AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people")
        .await;
    let said = why(&owner, "GRANT SELECT ON kept TO zyx").await;
    assert!(said.contains("there is no role `zyx`"), "{said}");
    done(&owner, "GRANT SELECT ON kept TO lab").await;
    done(&session(&engine, "lab"), "SELECT * FROM kept").await;
    done(&owner, "REVOKE SELECT ON kept FROM zyx").await;
    // Without roles, analysts have names alone.
    let without = Engine::demo().unwrap();
    let owner = without.owner();
    done(&owner, "CREATE RELEASE TABLE kept AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult")
        .await;
    done(&owner, "GRANT SELECT ON kept TO zyx").await;
}

#[tokio::test]
async fn a_grant_ends_with_its_role_and_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";
    let eve = session(&engine, "eve");
    let denied = why(&eve, count).await;
    done(&owner, "GRANT clinic TO eve").await;
    done(&eve, count).await;
    assert!(done(&eve, "SHOW GRANTS").await.contains("clinic"));
    let circle = why(&owner, "GRANT eve TO clinic").await;
    assert!(circle.contains("has the grants of `clinic` already"), "{circle}");
    done(&owner, "REVOKE clinic FROM eve").await;
    assert_eq!(why(&eve, count).await, denied);
    done(&owner, "GRANT clinic TO eve").await;
    done(&owner, "DROP ROLE clinic").await;
    assert_eq!(why(&eve, count).await, denied);
    for sql in [
        "CREATE ROLE clinic",
        "GRANT SELECT ON people TO clinic",
        "GRANT USAGE ON BUDGET main TO clinic",
    ] {
        done(&owner, sql).await;
    }
    assert_eq!(why(&eve, count).await, denied);
    done(&owner, "DROP ROLE lab").await;
    done(&owner, "CREATE ROLE lab").await;
    assert_eq!(why(&session(&engine, "lab"), count).await, denied);
    // The public table under the name of a dropped one is another table.
    let codes = folder.path().join("codes.csv");
    done(&owner, "GRANT SELECT ON codes TO eve").await;
    done(&eve, "SELECT * FROM codes").await;
    done(&owner, "DROP TABLE codes").await;
    let gone = why(&eve, "SELECT * FROM codes").await;
    let create =
        format!("CREATE EXTERNAL TABLE codes STORED AS CSV LOCATION '{}'", codes.display());
    done(&owner, &create).await;
    done(&owner, "ALTER TABLE codes SET PUBLIC").await;
    assert_eq!(why(&eve, "SELECT * FROM codes").await, gone);
    // Nothing is required any more: everyone sees everything, as before.
    let said = done(&owner, "SET GRANTS NOT REQUIRED").await;
    assert!(said.contains("every table"), "{said}");
    done(&eve, "SELECT * FROM codes").await;
    done(&eve, count).await;
}

#[tokio::test]
async fn owners_see_all_grants_and_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    let said = done(&owner, "GRANT SELECT ON visits TO eve").await;
    assert!(said.contains("GRANT SELECT ON people TO eve"), "{said}");
    // It exists for eve with the table through which it leads to its people.
    assert!(session(&engine, "eve").tables().unwrap().is_empty());
    done(&owner, "GRANT SELECT ON people TO eve").await;
    assert_eq!(session(&engine, "eve").tables().unwrap().len(), 5);
    for (sql, says) in [
        ("GRANT SELECT ON vists TO eve", "did you mean `visits`"),
        ("GRANT SELECT ON stays TO eve", "is a view"),
        ("GRANT SELECT ON visits TO ever", "there is no role `ever`"),
        ("GRANT SELECT ON visits, zyx TO eve", "there is no table `zyx`"),
        ("GRANT USAGE ON BUDGET zyx TO eve", "there is no privacy budget `zyx`"),
        ("GRANT zyx TO eve", "there is no role `zyx`"),
        ("SHOW GRANTS FOR zyx", "there is no role `zyx`"),
    ] {
        let said = why(&owner, sql).await;
        assert!(said.contains(says), "{sql}: {said}");
    }
    let all = done(&owner, "SHOW GRANTS").await;
    assert!(["all_of_it", "eve", "lab", "clinic"].iter().all(|role| all.contains(role)), "{all}");
    let own = done(&owner, "SHOW GRANTS FOR lab").await;
    assert!(own.contains("people") && own.contains("main") && !own.contains("visits"), "{own}");
    let lab = session(&engine, "lab");
    assert_eq!(done(&lab, "SHOW GRANTS").await, done(&lab, "SHOW GRANTS FOR lab").await);
    let [known, unknown] = ["eve", "zyx"].map(|role| format!("SHOW GRANTS FOR {role}"));
    assert_eq!(why(&lab, &known).await, why(&lab, &unknown).await);
    // Every change is in the history, for the owner alone.
    let history = done(&owner, "SHOW PRIVACY HISTORY").await;
    assert!(history.contains("role eve: SELECT ON visits granted"), "{history}");
    assert!(!done(&lab, "SHOW PRIVACY HISTORY").await.contains("role"));
}

/// What `lab` is told, without times, which pass, and without drawn numbers.
async fn told(engine: &Engine) -> Vec<String> {
    let lab = session(engine, "lab");
    let mut told = Vec::new();
    for sql in LISTS.into_iter().chain(["SHOW PRIVACY REQUESTS"]) {
        let said = done(&lab, sql).await;
        let cells = said.lines().map(|line| {
            let cells = line
                .split('|')
                .map(str::trim)
                .filter(|cell| !cell.contains(':') || !cell.starts_with("20"));
            cells.collect::<Vec<_>>().join("|")
        });
        told.push(format!("{sql}: {}", cells.collect::<Vec<_>>().join("\n")));
    }
    told
}

/// Two vaults that differ in what is hidden from a role look the same to it: its history, the
/// numbers of charges and requests, and who else spends.
#[tokio::test]
async fn what_is_hidden_leaves_no_trace_in_numbers_and_history() {
    let mut outcomes = Vec::new();
    for has_hidden in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path()).await;
        let owner = engine.owner();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("notes.csv"), "person,note\n1,a\n2,b\n").unwrap();
        let notes =
            format!("CREATE EXTERNAL TABLE notes STORED AS CSV LOCATION '{}'", at("notes.csv"));
        let others =
            format!("CREATE EXTERNAL TABLE others STORED AS CSV LOCATION '{}'", at("people.csv"));
        done(&owner, &notes).await;
        if has_hidden {
            for sql in [
                others.as_str(),
                "ALTER TABLE others SET PRIVACY UNIT (id) UNIQUE OTHER PEOPLE THAN people",
                "ALTER TABLE notes SET PRIVACY UNIT VIA (person) REFERENCES others(id) MAX ROWS 9",
                "CREATE PRIVACY BUDGET later FOR hidden LIMIT (epsilon=7)",
                "ALTER PRIVACY BUDGET later ADD SLICE eve LIMIT (epsilon=2)",
                "DROP PRIVACY BUDGET later",
                "CREATE VIEW both AS SELECT x FROM hidden",
                "DROP VIEW both",
                "GRANT SELECT ON hidden TO eve",
                "GRANT USAGE ON BUDGET masked TO eve",
            ] {
                done(&owner, sql).await;
            }
            for k in 1..5 {
                let asked = format!("SELECT LAPLACE(eps=0.{k}) COUNT(*) AS n FROM hidden");
                done(&session(&engine, "eve"), &asked).await;
            }
            done(
                &session(&engine, "eve"),
                "REQUEST PRIVACY BUDGET masked ADD (epsilon=1) REASON 'more'",
            )
            .await;
        }
        for sql in [
            "ALTER TABLE notes SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 9",
            "CREATE PRIVACY BUDGET later FOR people LIMIT (epsilon=20)",
            "CREATE VIEW both AS SELECT id FROM people",
            "GRANT SELECT ON notes TO lab",
            "GRANT USAGE ON BUDGET later TO lab, eve",
            "GRANT SELECT ON people TO eve",
            "GRANT USAGE ON BUDGET main TO eve",
        ] {
            done(&owner, sql).await;
        }
        let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";
        done(&session(&engine, "eve"), count).await;
        let lab = session(&engine, "lab");
        let mut told = vec![lab.explain(count).unwrap().to_string()];
        let answer = lab.query(count).await.unwrap();
        told.push(answer.receipt().unwrap().to_string());
        assert!(told[1].contains("replayed: another analyst paid for it"), "{}", told[1]);
        done(&lab, "CREATE RELEASE TABLE mine AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people")
            .await;
        done(&lab, "SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people").await;
        told.push(done(&lab, "REQUEST PRIVACY BUDGET main ADD (epsilon=1) REASON 'more'").await);
        assert!(told[2].contains("request 1:"), "{}", told[2]);
        told.extend(self::told(&engine).await);
        outcomes.push(told);
    }
    let (without, with) = (&outcomes[0], &outcomes[1]);
    for (without, with) in without.iter().zip(with) {
        assert_eq!(without, with);
    }
    let names_eve =
        |told: &&String| told.split(|c: char| !c.is_alphanumeric()).any(|word| word == "eve");
    let named: Vec<&String> = without.iter().filter(names_eve).collect();
    assert!(named.is_empty(), "{named:#?}");
}
