//! Templates: the owner fixes the question, and a caller chooses values of declared domains. No
//! value, no argument and nothing around a call reaches past that.

use std::path::Path;

use hushql::{Analyst, Engine, Reason, Session, Value};

use crate::contract::asked::{done, told, why};

/// `visits` of patients and the public `regions`; the roles `lab` (may call `monthly` and nothing
/// else exists for it), `full` (sees everything), `only` (TEMPLATES ONLY, may call `monthly`, with
/// useless grants) and `eve` (nothing).
async fn engine(folder: &Path) -> Engine {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut visits = "patient,region,fee,day\n".to_owned();
    for id in 0..200 {
        let region = if id % 4 == 0 { "north" } else { "south" };
        visits.push_str(&format!("{id},{region},{},2026-01-{:02}\n", id % 90, 1 + id % 28));
    }
    std::fs::write(at("visits.csv"), visits).unwrap();
    std::fs::write(at("regions.csv"), "name,size\nnorth,1\nsouth,2\n").unwrap();
    let engine = Engine::init(folder.join("v.db")).unwrap();
    let owner = engine.owner();
    for name in ["visits", "regions"] {
        let path = at(&format!("{name}.csv"));
        done(&owner, &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{path}'"))
            .await;
    }
    for sql in [
        "ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 1",
        "ALTER TABLE regions SET PUBLIC",
        "ALTER TABLE visits ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN (0, 90)",
        "CREATE PRIVACY BUDGET masked FOR visits LIMIT (epsilon=400)",
        MONTHLY,
        "CREATE TEMPLATE named(region VARCHAR REFERENCES regions(name)) AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE region = $region",
        "CREATE ROLE lab",
        "CREATE ROLE full",
        "CREATE ROLE eve",
        "CREATE ROLE only TEMPLATES ONLY",
        "GRANT EXECUTE ON TEMPLATE monthly TO lab, only",
        "GRANT EXECUTE ON ALL TEMPLATES TO full",
        "GRANT SELECT ON ALL TABLES TO full, only",
        "GRANT USAGE ON ALL BUDGETS TO full, only",
        "SET GRANTS REQUIRED",
    ] {
        done(&owner, sql).await;
    }
    engine
}

const MONTHLY: &str = "CREATE TEMPLATE monthly(region VARCHAR IN ('north', 'south'), least BIGINT BETWEEN (0, 90), since DATE DEFAULT DATE '2026-01-01') AS SELECT LAPLACE(eps=100) COUNT(*) AS n, LAPLACE(eps=0.5) SUM(fee) AS total FROM visits WHERE region = $region AND fee >= $least AND day >= $since";

fn session(engine: &Engine, name: &str) -> Analyst {
    engine.analyst(name).unwrap()
}

fn spent(engine: &Engine) -> i64 {
    engine.owner().budgets().unwrap().iter().map(|state| state.spent.nano).sum()
}

async fn count(session: &Session, sql: &str) -> i64 {
    let answer = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let column = answer.batches()[0].column(0);
    arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(column).value(0)
}

#[tokio::test]
async fn a_call_is_answered_without_a_grant_on_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = session(&engine, "lab");
    let call = "SELECT * FROM monthly('north', 30, DATE '2026-01-01')";
    assert_eq!(lab.cost(call).unwrap().to_string(), "ε = 100.5");
    let described = lab.prepare(call).unwrap();
    assert_eq!(described.schema().field(1).name(), "total");
    assert_eq!(spent(&engine), 0);
    let expected = (0..200).filter(|id| id % 4 == 0 && id % 90 >= 30).count() as i64;
    assert!((count(&lab, call).await - expected).abs() <= 1);
    assert_eq!(spent(&engine), 100_500_000_000);
    // The same call in other words is the same question, and so is the statement written out.
    for (who, again) in [
        ("lab", "SELECT n FROM monthly('north', 30)"),
        (
            "lab",
            "SELECT n + 0 AS m FROM monthly(least => 30, region => 'north') WHERE n > -9 ORDER BY n LIMIT 5",
        ),
        ("full", "SELECT total FROM monthly('north', 30, since => '2026-01-01')"),
        (
            "full",
            "SELECT LAPLACE(eps=100) COUNT(*) AS n FROM visits WHERE region = 'north' AND fee >= 30 AND day >= DATE '2026-01-01'",
        ),
    ] {
        done(&session(&engine, who), again).await;
        assert_eq!(spent(&engine), 100_500_000_000, "{again}");
    }
    let prepared =
        lab.prepare_with("SELECT n FROM monthly($1, $2)", [Value::from("north"), Value::from(30)]);
    assert_eq!(prepared.unwrap().cost(), hushql::Cost::default());
    let description =
        lab.describe("SELECT * FROM monthly($1, $2, $3)", &[None, None, None]).unwrap();
    assert_eq!(description.schema().fields().len(), 2);
    assert!(description.parameters().iter().all(Option::is_some));
    // The ledger keeps the call for the owner.
    let ledger = done(&engine.owner(), "SELECT analyst, statement FROM hushql.ledger").await;
    assert!(ledger.contains(call), "{ledger}");
}

/// What a caller must not read anywhere: of the table, its columns and its budget.
const HIDDEN: [&str; 5] = ["visits", "patient", "fee", "masked", "day >="];

#[tokio::test]
async fn nothing_names_the_table_behind_a_template() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    let lab = session(&engine, "lab");
    let call = "SELECT * FROM monthly('north', 30)";
    let mut said = Vec::new();
    for sql in [
        call,
        "SHOW TEMPLATES",
        "SHOW TABLES",
        "SHOW GRANTS",
        "SHOW PRIVACY",
        "SHOW PRIVACY HISTORY",
        "SHOW PRIVACY BUDGET",
        "SELECT * FROM hushql.ledger",
        "EXPLAIN PRIVACY SELECT * FROM monthly('south', 1)",
        "EXPLAIN PRIVACY FORMAT JSON SELECT * FROM monthly('south', 1)",
        "SELECT * FROM monthly('north', 30)",
    ] {
        said.push((sql, done(&lab, sql).await));
    }
    let price = &said[8].1;
    assert!(price.contains("ε = 100.5") && price.contains("95 %"), "{price}");
    for sql in [
        "SHOW CREATE TEMPLATE monthly",
        "DESCRIBE monthly",
        "SELECT m.x FROM monthly('north', 30) m",
        "SELECT patient2 FROM monthly('north', 30)",
        "SELECT monthly.wrong FROM monthly('north', 30)",
        "SELECT n || total || x FROM monthly('north', 30)",
        "SELECT * FROM named('north')",
        "SELECT * FROM monthly('east', 30)",
        "SELECT * FROM mothly('north', 30)",
        "CREATE RELEASE TABLE mine AS SELECT * FROM monthly('north', 30)",
        "CREATE SYNTHETIC TABLE mine AS AIM(eps=1, delta=1e-9) SELECT * FROM monthly('north', 30)",
        "DROP TEMPLATE monthly",
        "GRANT EXECUTE ON TEMPLATE monthly TO eve",
    ] {
        said.push((sql, why(&lab, sql).await));
    }
    let paid = spent(&engine);
    // Whatever makes the template invalid, the caller reads one sentence.
    for (breaks, repairs) in [
        (
            "ALTER TABLE visits DROP PRIVACY UNIT",
            "ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 1",
        ),
        (
            "ALTER PRIVACY BUDGET masked SET PER QUERY (max=1)",
            "ALTER PRIVACY BUDGET masked DROP PER QUERY",
        ),
        (
            "ALTER PRIVACY BUDGET masked SET LIMIT (epsilon=101)",
            "ALTER PRIVACY BUDGET masked SET LIMIT (epsilon=400)",
        ),
        (
            "DROP PRIVACY BUDGET masked",
            "CREATE PRIVACY BUDGET masked FOR visits LIMIT (epsilon=400)",
        ),
    ] {
        done(&owner, breaks).await;
        said.push((breaks, why(&lab, "SELECT * FROM monthly('south', 3)").await));
        said.push((breaks, done(&lab, "SHOW TEMPLATES").await));
        done(&owner, repairs).await;
        assert_eq!(spent(&engine), paid, "{breaks}");
    }
    for (sql, said) in said {
        let own = said.replace(sql, "");
        for hidden in HIDDEN {
            assert!(!own.contains(hidden), "{sql}: {hidden} in {said}");
        }
    }
    done(&lab, "SELECT * FROM monthly('south', 3)").await;
}

/// Ways around the domain, the question, and the call. `{}` is replaced by nothing that exists.
const ATTACKS: [&str; 40] = [
    "SELECT * FROM monthly('east', 30)",
    "SELECT * FROM monthly('NORTH', 30)",
    "SELECT * FROM monthly('north ', 30)",
    "SELECT * FROM monthly('north'' OR ''1''=''1', 30)",
    "SELECT * FROM monthly('north'') OR (''1''=''1', 30)",
    "SELECT * FROM monthly('$least', 30)",
    "SELECT * FROM monthly('north' || '', 30)",
    "SELECT * FROM monthly(E'north\\'', 30)",
    "SELECT * FROM monthly(NULL, 30)",
    "SELECT * FROM monthly(DEFAULT, 30)",
    "SELECT * FROM monthly('north', 30 + 0)",
    "SELECT * FROM monthly('north', -1)",
    "SELECT * FROM monthly('north', 91)",
    "SELECT * FROM monthly('north', 30.5)",
    "SELECT * FROM monthly('north', '30')",
    "SELECT * FROM monthly('north', '30'::BIGINT)",
    "SELECT * FROM monthly('north', CAST('30' AS BIGINT))",
    "SELECT * FROM monthly('north', TRUE)",
    "SELECT * FROM monthly('north', 9223372036854775808)",
    "SELECT * FROM monthly('north', 30, '2026-02-30')",
    "SELECT * FROM monthly('north', 30, DATE '2026-01-01', 1)",
    "SELECT * FROM monthly('north', 30, eps => 1)",
    "SELECT * FROM monthly('north', (SELECT 30))",
    "SELECT * FROM monthly((SELECT MAX(region) FROM visits), 30)",
    "SELECT * FROM monthly(region, 30)",
    "SELECT * FROM monthly(\"region\", 30)",
    "SELECT * FROM monthly($region, 30)",
    "SELECT * FROM monthly($1, 30)",
    "SELECT COUNT(*) FROM monthly('north', 30)",
    "SELECT LAPLACE(eps=1) SUM(n) FROM monthly('north', 30)",
    "SELECT n FROM monthly('north', 30) GROUP BY n",
    "SELECT n FROM monthly('north', 30) WHERE n > (SELECT COUNT(*) FROM visits)",
    "SELECT n FROM monthly('north', 30) UNION ALL SELECT fee FROM visits",
    "SELECT n FROM monthly('north', 30), visits",
    "SELECT n FROM monthly('north', 30) JOIN monthly('south', 30) ON TRUE",
    "WITH visits AS (SELECT 1 AS fee) SELECT * FROM monthly('north', 30)",
    "SELECT * FROM (SELECT * FROM monthly('north', 30)) q",
    "SELECT visits.fee FROM monthly('north', 30)",
    "SELECT fee FROM monthly('north', 30) visits",
    "SELECT * FROM monthly",
];

#[tokio::test]
async fn no_value_and_nothing_around_a_call_reaches_past_the_template() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for role in ["lab", "only", "full"] {
        let session = session(&engine, role);
        for attack in ATTACKS {
            let refused = told(&session, attack).await;
            assert!(refused.is_err(), "{role}: {attack}: {refused:?}");
            assert!(session.prepare(attack).is_err(), "{role}: {attack}");
        }
        for value in ["east", "north' OR '1'='1", "'north'", "$least", ""] {
            let asked = session.prepare_with("SELECT * FROM monthly($1, 30)", [value]);
            assert_eq!(asked.unwrap_err().code(), Some(Reason::Parameter.code()), "{value}");
        }
    }
    assert_eq!(spent(&engine), 0);
    let said = why(&session(&engine, "lab"), "SELECT * FROM monthly('east', 30)").await;
    for part in
        ["'east' is not a value of region", "IN ('north', 'south')", "SELECT * FROM monthly("]
    {
        assert!(said.contains(part), "{said}");
    }
}

/// What a role that is limited to templates may not ask: all but templates.
const BESIDE: [&str; 22] = [
    "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits",
    "SELECT DISTINCT region FROM visits",
    "SELECT * FROM regions",
    "SELECT * FROM hushql.ledger",
    "EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits",
    "EXPLAIN SELECT * FROM regions",
    "ANALYZE PRIVACY DOMAIN visits(fee) WITH (eps=0.1)",
    "COPY (SELECT * FROM regions) TO 'x.csv'",
    "COPY (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits) TO 'x.csv'",
    "CREATE RELEASE TABLE mine AS SELECT * FROM monthly('north', 30)",
    "CREATE SYNTHETIC TABLE mine AS AIM(eps=1, delta=1e-9) SELECT fee FROM visits",
    "SHOW TABLES",
    "SHOW PRIVACY",
    "SHOW PRIVACY BUDGET",
    "SHOW PRIVACY HISTORY",
    "DESCRIBE visits",
    "SUMMARIZE visits",
    "SELECT * FROM seen",
    "REQUEST PRIVACY BUDGET masked ADD (epsilon=1) REASON 'more'",
    "DROP RELEASE TABLE mine",
    "GRANT SELECT ON mine TO eve",
    "SELECT (SELECT COUNT(*) FROM regions) AS n",
];

#[tokio::test]
async fn a_limited_role_asks_templates_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let owner = engine.owner();
    done(&owner, "CREATE VIEW seen AS SELECT region FROM visits").await;
    for required in ["SET GRANTS REQUIRED", "SET GRANTS NOT REQUIRED"] {
        done(&owner, required).await;
        let only = session(&engine, "only");
        for sql in BESIDE {
            let said = why(&only, sql).await;
            assert!(
                said.contains("only may call templates, and nothing else: monthly("),
                "{sql}: {said}"
            );
            assert!(only.prepare(sql).is_err() && only.describe(sql, &[]).is_err(), "{sql}");
        }
        assert!(only.tables().unwrap().is_empty() && only.budgets().unwrap().is_empty());
        assert_eq!(only.templates().unwrap().len(), 1);
        done(&only, "SELECT 1 AS x").await;
        done(&only, "SHOW TEMPLATES").await;
        done(&only, "EXPLAIN PRIVACY SELECT * FROM monthly('north', 30)").await;
        done(&only, "SELECT n FROM monthly('north', 30)").await;
        // A template that is not granted is none of its templates, whether grants are required.
        assert!(why(&only, "SELECT * FROM named('north')").await.contains("no template named"));
    }
    let only = session(&engine, "only");
    done(&owner, "ALTER ROLE only NOT TEMPLATES ONLY").await;
    done(&only, "SELECT * FROM regions").await;
    done(&owner, "ALTER ROLE only TEMPLATES ONLY").await;
    why(&only, "SELECT * FROM regions").await;
    // Another role of the name is not limited, and has no grants.
    done(&owner, "DROP ROLE only").await;
    done(&owner, "CREATE ROLE only").await;
    done(&only, "SELECT * FROM regions").await;
}

#[tokio::test]
async fn a_grant_ends_with_its_template_and_domains_follow_public_rows() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab, full) = (engine.owner(), session(&engine, "lab"), session(&engine, "full"));
    assert!(
        why(&session(&engine, "eve"), "SELECT * FROM monthly('north', 1)")
            .await
            .contains("no template")
    );
    done(&full, "SELECT * FROM named('north')").await;
    let said = why(&full, "SELECT * FROM named('east')").await;
    assert!(said.contains("REFERENCES regions(name)"), "{said}");
    // A call to paste has a value that the column has.
    assert!(said.contains("SELECT * FROM named('north')"), "{said}");
    // Replaced, it keeps its grants; dropped, it loses them.
    done(&owner, &MONTHLY.replace("CREATE", "CREATE OR REPLACE").replace("eps=100", "eps=2")).await;
    assert_eq!(lab.cost("SELECT * FROM monthly('south', 1)").unwrap().to_string(), "ε = 2.5");
    done(&owner, "DROP TEMPLATE monthly").await;
    done(&owner, MONTHLY).await;
    assert!(why(&lab, "SELECT * FROM monthly('south', 1)").await.contains("no template"));
    done(&owner, "GRANT EXECUTE ON TEMPLATE monthly TO lab").await;
    done(&owner, "REVOKE EXECUTE ON TEMPLATE monthly FROM lab").await;
    assert!(lab.templates().unwrap().is_empty());
    // A domain that is no longer public is none: the owner reads why, and so does the doctor.
    done(&owner, "ALTER TABLE regions SET PRIVACY UNIT ROW").await;
    let paid = spent(&engine);
    assert!(why(&owner, "SELECT * FROM named('north')").await.contains("regions"));
    assert_eq!(spent(&engine), paid);
    done(&owner, "ALTER TABLE visits DROP PRIVACY UNIT").await;
    let found = engine.doctor().unwrap().to_string();
    assert!(found.contains("no call of the template is answered"), "{found}");
    let script = engine.dump().unwrap();
    assert!(script.contains("-- The template monthly cannot be created as it is"), "{script}");
    assert!(!script.contains("\nGRANT EXECUTE"), "{script}");
}

/// A grant is one of a question: another table or view of the name is another question.
#[tokio::test]
async fn a_grant_ends_with_the_table_or_view_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, lab, full) = (engine.owner(), session(&engine, "lab"), session(&engine, "full"));
    for sql in [
        "CREATE VIEW cheap AS SELECT * FROM visits WHERE fee < 50",
        "CREATE TEMPLATE few() AS SELECT LAPLACE(eps=100) COUNT(*) AS n FROM cheap",
        "GRANT EXECUTE ON TEMPLATE few TO lab",
    ] {
        done(&owner, sql).await;
    }
    // Who may ask about all that it reads may also keep its answer.
    done(&owner, "GRANT EXECUTE ON TEMPLATE few TO full").await;
    done(&full, "CREATE RELEASE TABLE kept AS SELECT * FROM monthly('north', 1)").await;
    assert!(
        why(&lab, "CREATE RELEASE TABLE own AS SELECT * FROM few()")
            .await
            .contains("may ask about all of its tables")
    );
    count(&lab, "SELECT * FROM few()").await;
    let said = done(&owner, "DROP VIEW cheap").await;
    assert!(said.contains("EXECUTE on templates that read it ended: few (full, lab)"), "{said}");
    done(&owner, "CREATE VIEW cheap AS SELECT * FROM visits").await;
    assert!(why(&lab, "SELECT * FROM few()").await.contains("no template few"));
    count(&lab, "SELECT n FROM monthly('north', 1)").await;
    done(&owner, "DROP PRIVACY BUDGET masked").await;
    let said = done(&owner, "DROP TABLE visits").await;
    assert!(said.contains("monthly (full, lab, only)") && said.contains("named (full)"), "{said}");
    assert!(lab.templates().unwrap().is_empty());
}

#[tokio::test]
async fn a_template_is_tried_before_it_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (owner, full) = (engine.owner(), session(&engine, "full"));
    for (sql, part) in [
        ("CREATE TEMPLATE t() AS SELECT fee FROM visits", "HQ001"),
        ("CREATE TEMPLATE t() AS SELECT LAPLACE(eps=1) COUNT(*) FROM visits", "has no name"),
        ("CREATE TEMPLATE t() AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM missing", "missing"),
        (
            "CREATE TEMPLATE t(a BIGINT) AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits",
            "a is not in the query",
        ),
        (
            "CREATE TEMPLATE t() AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE fee > $a",
            "$a is not a parameter",
        ),
        (
            "CREATE TEMPLATE t(a DOUBLE) AS SELECT LAPLACE(eps=$a) COUNT(*) AS n FROM visits",
            "parameter is not allowed here",
        ),
        // A value would decide the price: the caller's, a hundred thousand times as much.
        (
            "CREATE TEMPLATE t(x BIGINT BETWEEN (1, 100000)) AS SELECT LAPLACE(within=100) SUM(LEAST(fee, $x)) AS n FROM visits",
            "costs the same for all values",
        ),
        ("CREATE TEMPLATE t() AS SELECT * FROM hushql.ledger", "ledger"),
        ("CREATE TEMPLATE t() AS SELECT n FROM monthly('north', 1)", "calls no other template"),
        ("CREATE TEMPLATE visits() AS SELECT 1 AS n", "table `visits` already"),
        (MONTHLY, "template `monthly` already"),
        ("CREATE VIEW monthly AS SELECT 1 AS n", "is a template"),
        ("DROP TABLE monthly", "is a template"),
        ("DROP VIEW monthly", "is a template"),
        ("GRANT EXECUTE ON TEMPLATE missing TO lab", "no template `missing`"),
        ("DROP TEMPLATE missing", "no template `missing`"),
    ] {
        let said = why(&owner, sql).await;
        assert!(said.contains(part), "{sql}: {said}");
    }
    done(&owner, "DROP TEMPLATE IF EXISTS missing").await;
    let kept = MONTHLY.replace("TEMPLATE", "TEMPLATE IF NOT EXISTS");
    assert!(done(&owner, &kept).await.contains("stays as it is"));
    assert!(why(&full, "CREATE TEMPLATE t() AS SELECT 1 AS n").await.contains("only the owner"));
    let shown = done(&full, "SHOW TEMPLATES").await;
    assert!(shown.contains("ε = 100.5") && shown.contains("n BIGINT"), "{shown}");
    let created = done(&owner, "SHOW CREATE TEMPLATE monthly").await;
    assert!(created.contains("CREATE OR REPLACE TEMPLATE monthly(region VARCHAR IN"), "{created}");
    let roles = done(&owner, "SHOW ROLES").await;
    assert!(roles.contains("templates_only"), "{roles}");
    // A dump rebuilds templates, their grants and limited roles.
    let script = engine.dump().unwrap();
    let other = Engine::in_memory().unwrap();
    for statement in hushql::split_statements(&script).unwrap() {
        done(&other.owner(), statement.text()).await;
    }
    assert_eq!(other.dump().unwrap(), script);
    assert!(script.contains("CREATE ROLE only LOGIN TEMPLATES ONLY"), "{script}");
    assert!(script.contains("GRANT EXECUTE ON TEMPLATE monthly TO lab"), "{script}");
    // What a dump says is what the vault has, grants on single tables too.
    assert!(owner.plan(&script).await.unwrap().is_nothing());
}
