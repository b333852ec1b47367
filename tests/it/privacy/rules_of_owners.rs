//! Rules that owners set beside privacy: whom they bind, and what they follow. What they forbid of
//! single statements is in `tests/slt/refuse/hq035_rule.slt` and `tests/redteam/table_rules.txt`.

use std::path::Path;

use hushql::{Analyst, Engine, Error, Reason, Session};

use crate::contract::asked::{cells, done, told, why};

/// `visits` of `people`, through a link; the public `towns`; a view, and a template that does what
/// the rules forbid. The roles `eve` (in `ward`, which is in `clinic`) and `lab`.
async fn engine(folder: &Path) -> Engine {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut visits = "patient,zip,diagnosis,cost\n".to_owned();
    let mut people = "id,sex\n".to_owned();
    for id in 0..100 {
        people.push_str(&format!("{id},{}\n", if id % 2 == 0 { "F" } else { "M" }));
        visits.push_str(&format!("{id},z{},d{},{}\n", id % 3, id % 4, id % 50));
    }
    std::fs::write(at("visits.csv"), visits).unwrap();
    std::fs::write(at("people.csv"), people).unwrap();
    std::fs::write(at("towns.csv"), "code,town,size\nz0,Oslo,1\nz1,Rome,2\nz2,Rome,3\n").unwrap();
    let engine = Engine::init(folder.join("v.db")).unwrap();
    let owner = engine.owner();
    for name in ["people", "visits", "towns"] {
        let path = at(&format!("{name}.csv"));
        done(&owner, &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{path}'"))
            .await;
    }
    for sql in [
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE visits SET PRIVACY UNIT VIA (patient) REFERENCES people(id) MAX ROWS 2",
        "ALTER TABLE towns SET PUBLIC",
        "ALTER TABLE people ALTER COLUMN sex SET PRIVACY DOMAIN IN ('F', 'M')",
        "ALTER TABLE visits ALTER COLUMN zip SET PRIVACY DOMAIN IN ('z0', 'z1', 'z2')",
        "ALTER TABLE visits ALTER COLUMN diagnosis SET PRIVACY DOMAIN IN ('d0', 'd1', 'd2', 'd3')",
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 50)",
        "CREATE PRIVACY BUDGET study FOR people LIMIT (epsilon=1000)",
        "CREATE VIEW dear AS SELECT patient, zip AS place, cost FROM visits WHERE cost > 10",
        "CREATE VIEW flu AS SELECT patient, cost FROM visits WHERE diagnosis = 'd1'",
        "CREATE TEMPLATE by_zip(least BIGINT BETWEEN (0, 50)) AS SELECT zip, LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE cost >= $least AND diagnosis = 'd1' GROUP BY zip",
        "CREATE ROLE clinic",
        "CREATE ROLE ward",
        "CREATE ROLE eve",
        "CREATE ROLE lab",
        "GRANT clinic TO ward",
        "GRANT ward TO eve",
    ] {
        done(&owner, sql).await;
    }
    engine
}

fn session(engine: &Engine, name: &str) -> Analyst {
    engine.analyst(name).unwrap()
}

fn spent(engine: &Engine) -> i64 {
    engine.owner().budgets().unwrap().iter().map(|state| state.spent.nano).sum()
}

async fn is_ruled_out(session: &Session, sql: &str) -> bool {
    match told(session, sql).await {
        Ok(_) => false,
        Err(Error::Refused(refusal)) if refusal.reason() == Reason::Rule => true,
        Err(other) => panic!("{sql}: {other}"),
    }
}

const BY_ZIP: &str = "SELECT zip, LAPLACE(eps=1) COUNT(*) AS n FROM visits GROUP BY zip";
const OF_FLU: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE diagnosis = 'd1'";
const COSTS: &str = "SELECT LAPLACE(eps=1) SUM(cost) AS s FROM visits";

#[tokio::test]
async fn rules_for_everyone_and_for_every_group_of_a_role_hold_together() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    for sql in [
        "ALTER TABLE visits SET RULES (no_key=(zip))",
        "ALTER TABLE visits SET RULES (no_filter=(diagnosis)) FOR clinic",
        "ALTER TABLE visits SET RULES (aggregates=(count)) FOR eve",
    ] {
        done(&owner, sql).await;
    }
    for (name, ruled_out) in [
        ("lab", [true, false, false]),
        ("anybody", [true, false, false]),
        ("clinic", [true, true, false]),
        ("ward", [true, true, false]),
        ("eve", [true, true, true]),
    ] {
        let session = session(&engine, name);
        for (sql, is_out) in [BY_ZIP, OF_FLU, COSTS].into_iter().zip(ruled_out) {
            assert_eq!(is_ruled_out(&session, sql).await, is_out, "{name}: {sql}");
        }
    }
    // A refusal names whom the rule binds, and costs nothing.
    let before = spent(&engine);
    let eve = session(&engine, "eve");
    assert!(why(&eve, OF_FLU).await.contains("for role clinic"));
    assert!(why(&eve, BY_ZIP).await.contains("the rule no_key=(zip) of table visits for everyone"));
    assert_eq!(spent(&engine), before);
    // The owner is not bound.
    for sql in [BY_ZIP, OF_FLU, COSTS] {
        done(&owner, sql).await;
    }
    done(&owner, "REVOKE ward FROM eve").await;
    assert!(!is_ruled_out(&eve, OF_FLU).await && is_ruled_out(&eve, COSTS).await);
}

#[tokio::test]
async fn a_role_sees_the_rules_that_bind_it_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    for sql in [
        "ALTER TABLE visits SET RULES (no_key=(zip))",
        "ALTER TABLE visits SET RULES (no_filter=(diagnosis)) FOR clinic",
        "ALTER TABLE people SET RULES (no_key=(sex)) FOR lab",
    ] {
        done(&owner, sql).await;
    }
    let explained = format!("EXPLAIN PRIVACY {COSTS}");
    for (name, sees, not) in [
        ("eve", &["no_key=(zip)", "no_filter=(diagnosis)", "role clinic"][..], "sex"),
        ("lab", &["no_key=(zip)", "no_key=(sex)", "role lab"], "clinic"),
    ] {
        let session = session(&engine, name);
        let shown = cells(&session, "SHOW RULES").await;
        assert!(sees.iter().all(|text| shown.contains(text)), "{name}: {shown}");
        let seen = [shown, done(&session, &explained).await].concat();
        assert!(!seen.contains(not), "{name}: {seen}");
        let history = cells(&session, "SHOW PRIVACY HISTORY").await;
        assert!(history.contains("rules of visits: (no_key=(zip))"), "{history}");
        assert!(!history.contains("clinic") && !history.contains("(sex)"), "{name}: {history}");
    }
    let all = cells(&owner, "SHOW RULES").await;
    assert!(["role clinic", "role lab", "everyone"].iter().all(|text| all.contains(text)), "{all}");
    assert!(cells(&owner, "SHOW PRIVACY HISTORY").await.contains("role clinic, rules of visits"));
    // What is not granted does not exist, with its rules.
    done(&owner, "SET GRANTS REQUIRED").await;
    done(&owner, "GRANT SELECT ON people TO lab").await;
    let shown = cells(&session(&engine, "lab"), "SHOW RULES").await;
    assert!(shown.contains("sex") && !shown.contains("visits"), "{shown}");
}

#[tokio::test]
async fn columns_are_followed_through_views_links_and_public_tables() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    done(&owner, "ALTER TABLE visits SET RULES (no_key=(zip), no_filter=(diagnosis))").await;
    done(&owner, "ALTER TABLE people SET RULES (no_key=(sex))").await;
    for (sql, is_out) in [
        ("SELECT place, LAPLACE(eps=1) COUNT(*) AS n FROM dear GROUP BY place", true),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM dear", false),
        // A view is bound as its text is.
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM flu", true),
        // The rules of all tables that are read hold.
        (
            "SELECT sex, LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN people ON patient = id GROUP BY sex",
            true,
        ),
        (
            "SELECT LAPLACE(eps=1) SUM(cost) AS s FROM visits JOIN people ON patient = id WHERE sex = 'F'",
            false,
        ),
        // What a public table says of a zip is a key of zip.
        (
            "SELECT town, LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN towns ON zip = code GROUP BY town",
            true,
        ),
        (
            "SELECT town, LAPLACE(eps=1) COUNT(*) AS n FROM visits, towns WHERE zip = code GROUP BY town",
            true,
        ),
        (
            "SELECT LAPLACE(eps=1) SUM(CLAMP(size, 0, 9)) AS n FROM (SELECT patient, size FROM visits JOIN towns ON zip = code) AS q",
            false,
        ),
        (
            "SELECT t, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT (SELECT MAX(town) FROM towns WHERE code = zip) AS t FROM visits) AS q GROUP BY t",
            true,
        ),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE zip = 'z1'", false),
        (
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE patient = id AND diagnosis = 'd1')",
            true,
        ),
        (
            "SELECT e, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT EXISTS (SELECT 1 FROM visits WHERE patient = id AND zip = 'z1') AS e FROM people) AS q GROUP BY e",
            true,
        ),
        // An expression that compares zip with what comes out tells as much as a join.
        (
            "SELECT code, LAPLACE(eps=1) COUNT(*) FILTER (WHERE zip = code) AS n FROM visits CROSS JOIN towns GROUP BY code",
            true,
        ),
        (
            "SELECT town, LAPLACE(eps=1) COUNT(*) FILTER (WHERE zip LIKE code) AS n FROM visits CROSS JOIN towns GROUP BY town",
            true,
        ),
        (
            "SELECT c, LAPLACE(eps=1) SUM(CASE WHEN zip = c THEN 1 ELSE 0 END) AS n FROM visits CROSS JOIN (VALUES ('z0'), ('z1')) AS v(c) GROUP BY c",
            true,
        ),
        (
            "SELECT c, LAPLACE(eps=1) SUM(h) AS n FROM (SELECT patient, c, CASE WHEN zip = c THEN 1 ELSE 0 END AS h FROM visits CROSS JOIN (VALUES ('z0'), ('z1')) AS v(c)) AS q GROUP BY c",
            true,
        ),
        (
            "SELECT c, LAPLACE(eps=1) SUM(CAST(zip = c AS BIGINT)) AS n FROM visits CROSS JOIN (VALUES ('z0'), ('z1')) AS v(c) GROUP BY c",
            true,
        ),
        // What a condition found stands in what it tells apart.
        (
            "SELECT k, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT patient, 'a' AS k FROM visits WHERE zip = 'z0' UNION ALL SELECT patient, 'b' FROM visits WHERE zip = 'z1') AS q GROUP BY k KEYS ('a', 'b')",
            true,
        ),
        (
            "SELECT k, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT a.id, CASE WHEN b.patient IS NULL THEN 'no' ELSE 'yes' END AS k FROM people AS a LEFT JOIN (SELECT patient FROM visits WHERE zip = 'z0') AS b ON a.id = b.patient) AS q GROUP BY k KEYS ('no', 'yes')",
            true,
        ),
        (
            "SELECT k, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT patient, COUNT(*) AS k FROM (SELECT patient FROM visits UNION ALL SELECT patient FROM visits WHERE zip = 'z0') AS u GROUP BY patient) AS q GROUP BY k KEYS (1, 2)",
            true,
        ),
        (
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT patient, 'a' AS k FROM visits WHERE zip = 'z0' UNION ALL SELECT patient, 'b' FROM visits WHERE zip = 'z1') AS q",
            false,
        ),
        (
            "SELECT cost > 10 AS dear, LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT patient, cost FROM visits WHERE zip = 'z0' UNION ALL SELECT patient, cost FROM visits WHERE zip = 'z1') AS q GROUP BY cost > 10",
            false,
        ),
        (
            "SELECT town, LAPLACE(eps=1) COUNT(*) FILTER (WHERE cost > size) AS n FROM visits CROSS JOIN towns GROUP BY town",
            false,
        ),
        (
            "SELECT cost > 10 AS dear, LAPLACE(eps=1) COUNT(*) FILTER (WHERE zip = 'z1') AS n FROM visits GROUP BY cost > 10",
            false,
        ),
    ] {
        let ended = told(&lab, sql).await;
        let ruled_out = matches!(&ended, Err(Error::Refused(own)) if own.reason() == Reason::Rule);
        assert_eq!(ruled_out, is_out, "{sql}: {ended:?}");
    }
    // Where a column may do nothing but join, what it finds is free, and what equals it is not.
    done(&owner, "ALTER TABLE visits SET RULES (join_only=(zip))").await;
    for (sql, is_out) in [
        (
            "SELECT town, LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN towns ON zip = code GROUP BY town",
            false,
        ),
        (
            "SELECT town, LAPLACE(eps=1) COUNT(*) AS n FROM visits, towns WHERE zip = code GROUP BY town",
            false,
        ),
        (
            "SELECT code, LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN towns ON zip = code GROUP BY code",
            true,
        ),
        (
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN towns ON zip = code WHERE code = 'z1'",
            true,
        ),
        // So is what is computed from the same column of the same rows.
        (
            "SELECT r, LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN (SELECT code, code AS r FROM towns) AS q ON zip = code GROUP BY r",
            true,
        ),
        (
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN (SELECT code, lower(code) AS r FROM towns) AS q ON zip = code WHERE r = 'z1'",
            true,
        ),
        (
            "SELECT r, LAPLACE(eps=1) COUNT(zip) AS n FROM (SELECT code, code AS r FROM towns) AS q LEFT JOIN visits ON zip = code GROUP BY r",
            true,
        ),
        (
            "SELECT r, LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN (SELECT code, town AS r FROM towns) AS q ON zip = code GROUP BY r",
            false,
        ),
        (
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN (SELECT 'z1' AS code) AS one ON zip = code",
            true,
        ),
        ("SELECT LAPLACE(eps=1) COUNT(zip) AS n FROM visits", true),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT zip, cost FROM visits) AS q", false),
    ] {
        assert_eq!(is_ruled_out(&lab, sql).await, is_out, "{sql}");
    }
    // Nor does it join what the query has left of the other column, or has computed.
    for (towns, is_out) in [
        ("(SELECT * FROM towns WHERE code = 'z1')", true),
        ("(SELECT * FROM towns WHERE code IN ('z0') AND size > 0)", true),
        ("(SELECT * FROM (SELECT code, town FROM towns) AS a WHERE a.code > 'z0')", true),
        ("(SELECT NULLIF(code, 'z1') AS code FROM towns)", true),
        ("(SELECT CASE WHEN town = 'Rome' THEN code END AS code FROM towns)", true),
        ("(SELECT code || '' AS code FROM towns)", true),
        ("(SELECT code FROM towns ORDER BY code LIMIT 1)", true),
        (
            "(SELECT code FROM towns WHERE code = 'z1' UNION ALL SELECT code FROM towns WHERE code = 'z2')",
            true,
        ),
        ("(SELECT code FROM towns JOIN (VALUES ('z1')) AS v(c) ON code = c)", true),
        (
            "(SELECT a.code FROM towns AS a JOIN (SELECT code FROM towns WHERE code = 'z1') AS b ON a.code = b.code)",
            true,
        ),
        ("(SELECT code FROM towns WHERE code IN (SELECT code FROM towns WHERE size = 1))", true),
        // A literal among the values of the table is one that the query writes.
        ("(SELECT code FROM towns WHERE size < 0 UNION ALL SELECT 'z1')", true),
        // Other columns of the joined table are free, before the join as after it.
        ("(SELECT * FROM towns WHERE town = 'Rome')", false),
        ("(SELECT code AS code, size + 1 AS more FROM towns)", false),
    ] {
        for sql in [
            format!(
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN {towns} AS t ON zip = t.code"
            ),
            format!(
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits, {towns} AS t WHERE zip = t.code"
            ),
            format!(
                "WITH t AS {towns} SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits JOIN t ON t.code = zip"
            ),
        ] {
            let ended = told(&lab, &sql).await;
            let ruled_out =
                matches!(&ended, Err(Error::Refused(own)) if own.reason() == Reason::Rule);
            assert_eq!(ruled_out, is_out, "{sql}: {ended:?}");
        }
    }
    for condition in ["code = 'z1' AND zip = code", "zip = code AND code = 'z1'"] {
        let sql =
            format!("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits, towns WHERE {condition}");
        assert!(is_ruled_out(&lab, &sql).await, "{sql}");
    }
}

#[tokio::test]
async fn templates_and_release_tables_are_the_owners_choice() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    done(&owner, "ALTER TABLE visits SET RULES (no_key=(zip), no_filter=(diagnosis))").await;
    let called = "SELECT zip, n FROM by_zip(10)";
    done(&lab, called).await;
    assert!(!done(&lab, &format!("EXPLAIN PRIVACY {called}")).await.contains("no_key"));
    assert!(done(&lab, "SHOW TEMPLATES").await.contains("by_zip"));
    // A template is made while rules are there, too.
    let other = "CREATE TEMPLATE other(c BIGINT BETWEEN (0, 9)) AS SELECT zip, LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE cost > $c GROUP BY zip";
    done(&owner, other).await;
    done(&lab, "SELECT n FROM other(1)").await;
    // What came out is no longer a column of the table.
    done(&owner, &format!("CREATE RELEASE TABLE kept AS {BY_ZIP}")).await;
    done(&owner, "GRANT SELECT ON kept TO lab").await;
    done(&lab, "SELECT zip, n FROM kept WHERE zip = 'z1'").await;
    assert!(is_ruled_out(&lab, &format!("CREATE RELEASE TABLE own AS {BY_ZIP}")).await);
    let made = "CREATE SYNTHETIC TABLE made AS AIM(eps=1) SELECT zip, diagnosis FROM visits";
    assert!(is_ruled_out(&lab, made).await);
    assert!(done(&lab, &format!("EXPLAIN PRIVACY {made}")).await.contains("HQ035"));
    done(&owner, made).await;
}

#[tokio::test]
async fn a_rule_holds_for_what_was_asked_before() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    let eve = session(&engine, "eve");
    let prepared = lab.prepare(BY_ZIP).unwrap();
    for _ in 0..3 {
        done(&lab, BY_ZIP).await;
        done(&eve, BY_ZIP).await;
    }
    let before = spent(&engine);
    done(&owner, "ALTER TABLE visits SET RULES (no_key=(zip)) FOR lab").await;
    for _ in 0..2 {
        assert!(is_ruled_out(&lab, BY_ZIP).await);
        // The same answer is shown to whom no rule binds.
        done(&eve, BY_ZIP).await;
    }
    let refused = prepared.execute().await.unwrap_err();
    assert_eq!(refused.code(), Some("HQ035"), "{refused}");
    assert_eq!(spent(&engine), before);
    // The restart of a program changes nothing about that.
    drop((prepared, engine, owner, lab, eve));
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    assert!(is_ruled_out(&session(&engine, "lab"), BY_ZIP).await);
    done(&engine.owner(), "ALTER TABLE visits DROP RULES FOR lab").await;
    done(&session(&engine, "lab"), BY_ZIP).await;
    assert_eq!(spent(&engine), before);
}

#[tokio::test]
async fn bounds_that_are_found_and_ranges_show_values() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab) = (engine.owner(), session(&engine, "lab"));
    done(&owner, "ALTER TABLE visits ALTER COLUMN cost DROP PRIVACY DOMAIN").await;
    done(&lab, &format!("EXPLAIN PRIVACY {COSTS}")).await;
    done(&owner, "ALTER TABLE visits SET RULES (no_key=(cost))").await;
    let found = why(&lab, COSTS).await;
    assert!(found.contains("HQ035") && found.contains("CLAMP(cost"), "{found}");
    assert!(is_ruled_out(&lab, "ANALYZE PRIVACY DOMAIN visits(cost) WITH (eps=0.5)").await);
    done(&lab, "SELECT LAPLACE(eps=1) SUM(CLAMP(cost, 0, 50)) AS s FROM visits").await;
    done(&owner, "ALTER TABLE visits SET RULES (no_filter=(cost), aggregates=(sum))").await;
    done(&lab, COSTS).await;
}

#[tokio::test]
async fn a_table_takes_its_rules_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    done(&owner, "ALTER TABLE visits SET RULES (no_key=(zip)) FOR lab").await;
    let error = why(&owner, "DROP ROLE lab").await;
    assert!(error.contains("ALTER TABLE visits DROP RULES FOR lab"), "{error}");
    done(&owner, "ALTER TABLE visits DROP PRIVACY UNIT").await;
    let findings = format!("{:?}", engine.doctor().unwrap().batches());
    assert!(findings.contains("it has rules for role lab and no privacy unit"), "{findings}");
    assert!(findings.contains("ALTER TABLE visits DROP RULES FOR lab"), "{findings}");
    // They wait for the next unit, also in another vault.
    assert!(cells(&owner, "SHOW RULES").await.contains("zip"));
    let dumped = engine.dump().unwrap();
    assert!(
        dumped.contains("-- The table visits is about nobody now. Once it has a privacy unit: ALTER TABLE visits SET RULES (no_key=(zip)) FOR lab;"),
        "{dumped}"
    );
    done(&owner, "DROP TABLE visits").await;
    let path = folder.path().join("visits.csv").display().to_string();
    done(&owner, &format!("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{path}'")).await;
    done(
        &owner,
        "ALTER TABLE visits SET PRIVACY UNIT VIA (patient) REFERENCES people(id) MAX ROWS 2",
    )
    .await;
    done(&owner, "DROP ROLE lab").await;
    assert!(!cells(&owner, "SHOW RULES").await.contains("zip"));
}
