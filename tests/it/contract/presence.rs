//! People whose presence is public: what is declared, what is exact and free, what becomes dearer
//! or is refused, and that both kinds of neighbours never share an account.

use std::path::Path;

use hushql::{Engine, Session};

use crate::contract::asked::{cells, done, told, why};
use crate::contract::program::Study;

const SURVEY: &str = "id,region,age,income\n1,north,34,2900\n2,north,51,4100\n3,south,29,\n4,south,62,3300\n5,east,45,3700\n6,north,38,2500\n";

const TABLE: &str = "(id BIGINT, region VARCHAR, age BIGINT, income BIGINT) STORED AS CSV LOCATION";

const PRESENT: &str =
    "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region)";

/// An engine over these answers, without a budget.
async fn engine(folder: &Path, survey: &str) -> Engine {
    let file = folder.join("survey.csv");
    std::fs::write(&file, survey).unwrap();
    let engine = Engine::in_memory().unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE survey {TABLE} '{}'", file.display()),
        PRESENT,
        "ALTER TABLE survey ALTER COLUMN region SET PRIVACY DOMAIN IN ('north', 'south', 'east')",
        "ALTER TABLE survey ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (18, 65)",
        "ALTER TABLE survey ALTER COLUMN income SET PRIVACY DOMAIN BETWEEN (0, 9000)",
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

async fn explained(session: &Session, sql: &str) -> String {
    done(session, &format!("EXPLAIN PRIVACY {sql}")).await
}

/// Public columns decide these numbers, so no budget is needed, and nothing is charged; the answers
/// stay the same as everything else is replaced.
#[tokio::test]
async fn what_is_public_is_exact_and_free() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    let lab = engine.analyst("lab").unwrap();
    let other = tempfile::tempdir().unwrap();
    let replaced = SURVEY.replace("51,4100", ",1").replace("29,", "65,9000").replace("45", "18");
    let replaced = self::engine(other.path(), &replaced).await.analyst("lab").unwrap();
    for (sql, expected) in [
        ("SELECT COUNT(*) AS n FROM survey", "6"),
        ("SELECT COUNT(*) AS n FROM survey WHERE region = 'north' AND id > 1", "2"),
        (
            "SELECT COUNT(*) FILTER (WHERE id IN (1, 5)) AS n FROM survey WHERE region <> 'south'",
            "2",
        ),
        ("SELECT COUNT(DISTINCT id) AS n FROM survey WHERE upper(region) = 'NORTH'", "3"),
        ("SELECT SUM(CLAMP(id, 0, 9)) AS n FROM survey", "21"),
        ("SELECT AVG(CLAMP(id, 0, 9)) AS n FROM survey WHERE region = 'north'", "3.0"),
        ("SELECT COUNT(DISTINCT region) AS n FROM survey WHERE id < 5", "2"),
        ("SELECT COUNT(DISTINCT region || 'e') AS n FROM survey WHERE id < 5 HAVING n > 1", "2"),
        ("SELECT VAR_POP(CLAMP(id, 0, 9)) AS n FROM survey WHERE region = 'south'", "0.25"),
        (
            "SELECT LAPLACE(eps=1) CORR(CLAMP(id, 0, 9), 2 * CLAMP(id, 0, 9)) AS n FROM survey WHERE id < 4",
            "1.0",
        ),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM survey", "6"),
        ("SELECT LAPLACE(within=1) COUNT(region) AS n FROM survey", "6"),
        (
            "SELECT GAUSSIAN(rho=1) COUNT(*) AS n FROM (SELECT id AS i FROM survey) q WHERE i < 3",
            "2",
        ),
        (
            "SELECT n FROM (SELECT region, COUNT(*) AS n FROM survey GROUP BY region) q ORDER BY region",
            "1\n3\n2",
        ),
    ] {
        assert_eq!(cells(&lab, sql).await, expected, "{sql}");
        assert_eq!(cells(&replaced, sql).await, expected, "{sql}");
        let shown = explained(&lab, sql).await;
        assert!(shown.contains("exact and free: presence is public"), "{sql}\n{shown}");
        assert!(shown.contains("replace what one row says; id, region stay"), "{sql}\n{shown}");
    }
    let json = done(&lab, "EXPLAIN PRIVACY FORMAT JSON SELECT COUNT(*) AS n FROM survey").await;
    assert!(json.contains(r#""neighbours":{"public":["id","region"],"replace":"id"}"#), "{json}");
    assert!(json.contains(r#""exact":true"#), "{json}");
    // What reads anything else needs a budget.
    let private = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM survey WHERE age > 40";
    assert!(why(&lab, private).await.contains("has no privacy budget"));
    let bare = "SELECT COUNT(*) AS n FROM survey WHERE age > 40";
    assert!(why(&lab, bare).await.contains("HQ012"), "{}", why(&lab, bare).await);
    let owner = engine.owner();
    done(&owner, "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=10) PER QUERY (default=1)")
        .await;
    done(&lab, "SELECT COUNT(*) AS n FROM survey").await;
    assert_eq!(lab.budgets().unwrap()[0].spent.nano, 0);
    // Beside an exact number, the other one has the whole default, and pays alone.
    done(&lab, "SELECT COUNT(*) AS n, SUM(age) AS s FROM survey").await;
    assert_eq!(lab.budgets().unwrap()[0].left.to_string(), "ε = 9");
    done(&lab, "SELECT COUNT(*) AS n, SUM(age) AS s FROM survey").await;
    assert_eq!(lab.budgets().unwrap()[0].left.to_string(), "ε = 9");
    // Nothing was paid for that could be kept.
    let kept = "CREATE RELEASE TABLE r AS SELECT COUNT(*) AS n FROM survey";
    let refused = why(&lab, kept).await;
    assert!(refused.contains("exact numbers alone, so there is nothing to pay for"), "{refused}");
    assert_eq!(lab.budgets().unwrap()[0].left.to_string(), "ε = 9");
}

/// A declaration that leaves out what was public proposes one with all that was.
#[tokio::test]
async fn all_columns_that_were_public_are_proposed() {
    let folder = tempfile::tempdir().unwrap();
    let owner = engine(folder.path(), SURVEY).await.owner();
    done(&owner, "ALTER TABLE survey ALTER COLUMN age SET PUBLIC").await;
    let refused = why(&owner, PRESENT).await;
    let proposed = "SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (age, region)";
    assert!(refused.contains(proposed), "{refused}");
    done(&owner, &format!("ALTER TABLE survey {proposed}")).await;
}

/// What public columns decide takes no share of a cost that OPTIONS or the sets of ROLLUP divide:
/// the other numbers have it, and the charge is what is written.
#[tokio::test]
async fn exact_numbers_take_no_share() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    done(&engine.owner(), "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=100)").await;
    let lab = engine.analyst("lab").unwrap();
    let options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=2)";
    for (sql, scale) in [
        (format!("{options} COUNT(*) AS n, SUM(age) AS s FROM survey"), "scale 32.5 = Δ₁/ε"),
        (format!("{options} region, COUNT(*) AS n, SUM(age) AS s FROM survey GROUP BY ROLLUP (region)"), "scale 65 = Δ₁/ε"),
        ("SELECT LAPLACE(eps=2) COUNT(*) AS n FROM survey GROUP BY ROLLUP (age > 40)".to_owned(), "scale 1 = Δ₁/ε"),
        ("SELECT LAPLACE(eps=2) COUNT(*) AS n FROM survey GROUP BY GROUPING SETS ((region), (age > 40), (income > 5), ())".to_owned(), "scale 2 = Δ₁/ε"),
        (format!("{options} COUNT(*) AS n, SUM(age) AS s FROM survey GROUP BY GROUPING SETS ((region), ())"), "scale 65 = Δ₁/ε"),
    ] {
        let shown = explained(&lab, &sql).await;
        assert!(shown.contains(scale), "{sql}\n{shown}");
        assert!(shown.contains("cost         ε = 2"), "{sql}\n{shown}");
    }
    // An exact number that decides which rows come out is still off by nothing.
    let answer =
        done(&lab, "SELECT region, COUNT(*) AS n FROM survey GROUP BY region HAVING n > 1").await;
    assert!(!answer.contains("no ±"), "{answer}");
}

/// The sensitivities that are shown are those of replacement.
#[tokio::test]
async fn neighbours_replace_what_a_row_says() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    done(&engine.owner(), "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=100)").await;
    let lab = engine.analyst("lab").unwrap();
    for (sql, expected) in [
        ("COUNT(*) AS n FROM survey WHERE age > 40", "Δ₁ = 1"),
        ("COUNT(*) AS n FROM survey WHERE region = 'north' GROUP BY age > 40", "Δ₁ = 2"),
        ("SUM(age) AS n FROM survey", "Δ₁ = 65"),
        ("SUM(COALESCE(age, 40)) AS n FROM survey", "Δ₁ = 47"),
        ("SUM(COALESCE(age, 40)) AS n FROM survey WHERE income > 5", "Δ₁ = 65"),
        ("AVG(COALESCE(age, 40)) AS n FROM survey GROUP BY region", "n public   Δ₁ = 47"),
        ("AVG(age) AS n FROM survey", "Δ₁ = 94"),
        ("AVG(CLAMP(COALESCE(age, 40), 30, 50)) AS n FROM survey", "n public   Δ₁ = 20"),
        ("SUM(CLAMP(COALESCE(age, 40), 30, 50)) AS n FROM survey", "Δ₁ = 20"),
        ("SUM(CLAMP(age, 30, 50)) AS n FROM survey", "Δ₁ = 50"),
        ("VAR_POP(age) AS n FROM survey", "counts as a removal and an addition"),
        ("COUNT(DISTINCT age) AS n FROM survey", "Δ₁ = 1"),
        ("COUNT(DISTINCT age) AS n FROM survey", "a value may be lost, or be new"),
        ("COUNT(DISTINCT region) AS n FROM survey GROUP BY age > 40", "Δ₁ = 2"),
        ("COUNT(*) AS n FROM survey WHERE age > 40", "decides whether a row counts"),
        ("SUM(age) AS n FROM survey", "falls out, as if it were 0"),
        ("SUM(COALESCE(age, 40)) AS n FROM survey", "which changes within its range"),
        ("SUM(age) AS n FROM survey GROUP BY age > 40", "leaves one group for another"),
    ] {
        let sql = format!("SELECT LAPLACE(eps=1) {sql}");
        let shown = explained(&lab, &sql).await;
        assert!(shown.contains(expected), "{sql}\n{shown}");
        assert!(shown.contains("neighbours   "), "{sql}\n{shown}");
        done(&lab, &sql).await;
    }
    // A mean with a public number of rows has the error of one draw.
    let shown =
        explained(&lab, "SELECT LAPLACE(eps=1) AVG(COALESCE(age, 40)) AS n FROM survey").await;
    assert!(shown.contains("within 141/n"), "{shown}");
    for (sql, expected) in [
        ("SELECT EXPONENTIAL(eps=1) MEDIAN(age) AS m FROM survey", "moves along the line"),
        ("SELECT EXPONENTIAL(eps=1) MIN(age) AS m FROM survey", "moves along the line"),
        (
            "SELECT EXPONENTIAL(eps=1) QUANTILES(age, (0.25, 0.75)) AS m FROM survey",
            "counts as a removal and an addition",
        ),
        (
            "SELECT EXPONENTIAL(eps=1) MIN(age) AS m FROM survey GROUP BY income > 5",
            "counts as a removal and an addition",
        ),
        (
            "SELECT ARGMAX EXPONENTIAL(eps=1) region FROM survey GROUP BY region",
            "counts as a removal and an addition",
        ),
    ] {
        let shown = explained(&lab, sql).await;
        assert!(shown.contains(expected), "{sql}\n{shown}");
        done(&lab, sql).await;
    }
    // Randomized response is as everywhere.
    let asked = "SELECT id, RANDOMIZED_RESPONSE(eps=1) CASE WHEN age > 40 THEN 'old' ELSE 'young' END AS a FROM survey GROUP BY id KEYS (1, 2, 9)";
    done(&lab, asked).await;
}

/// Everything for which replacement is not derived is refused, with what to write.
#[tokio::test]
async fn what_is_not_derived_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    let owner = engine.owner();
    done(&owner, "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=100, delta=1e-3) PER QUERY (default=1, default_delta=1e-6)").await;
    done(&owner, "ALTER TABLE survey ALTER COLUMN income DROP PRIVACY DOMAIN").await;
    let lab = engine.analyst("lab").unwrap();
    for sql in [
        "SELECT ARGMAX EXPONENTIAL(eps=1, delta=1e-6) income FROM survey GROUP BY income",
        "SELECT income, LAPLACE(eps=1, delta=1e-6) COUNT(*) AS n FROM survey GROUP BY income",
        "SELECT income, COUNT(*) AS n FROM survey GROUP BY income",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM survey s JOIN survey t ON s.id = t.id",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM survey WHERE id IN (SELECT id FROM survey WHERE age > 4)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT DISTINCT id FROM survey) q",
        "SELECT LAPLACE(eps=1) SUM(n) AS n FROM (SELECT id, COUNT(*) AS n FROM survey GROUP BY id) q",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT id FROM survey UNION ALL SELECT id FROM survey) q",
        "SELECT LAPLACE(eps=1) AVG(CAST(id AS DOUBLE) * income) AS n FROM (SELECT id, LAG(income) OVER (PARTITION BY id ORDER BY age) AS income FROM survey) q",
        "CREATE SYNTHETIC TABLE made AS AIM(eps=1) SELECT region, age FROM survey",
    ] {
        let refused = match sql.starts_with("CREATE") {
            true => why(&owner, sql).await,
            false => why(&lab, sql).await,
        };
        assert!(
            refused.contains("HQ032") && refused.contains("is not derived"),
            "{sql}\n{refused}"
        );
    }
    // Bounds that would be found are a range that is missing.
    let refused = why(&lab, "SELECT SUM(id) AS n FROM survey").await;
    assert!(refused.contains("HQ007") && refused.contains("CLAMP(id, lo, hi)"), "{refused}");
    // What is exact is free each time, so that a release table would keep nothing that was paid.
    let kept =
        "CREATE RELEASE TABLE kept AS SELECT region, COUNT(*) AS n FROM survey GROUP BY region";
    let refused = why(&lab, kept).await;
    assert!(refused.contains("the query itself, which is free"), "{refused}");
    assert_eq!(lab.budgets().unwrap()[0].spent.nano, 0);
}

/// Declarations that contradict public presence are refused, in either order.
#[tokio::test]
async fn what_contradicts_public_presence_is_not_declared() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    let owner = engine.owner();
    let file = folder.path().join("calls.csv");
    std::fs::write(&file, "person,minutes\n1,3\n").unwrap();
    for sql in [
        &format!(
            "CREATE EXTERNAL TABLE calls (person BIGINT, minutes BIGINT) STORED AS CSV LOCATION '{}'",
            file.display()
        ),
        "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=10)",
    ] {
        done(&owner, sql).await;
    }
    for (sql, expected) in [
        ("ALTER TABLE survey SET PRIVACY UNIT (id) PRESENCE PUBLIC", "(id) UNIQUE PRESENCE PUBLIC"),
        (
            "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (nothing)",
            "nothing",
        ),
        (
            "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (id)",
            "named twice",
        ),
        ("ALTER TABLE survey SET PRIVACY UNIT (region) UNIQUE PRESENCE PUBLIC", "more than 1 rows"),
        (
            "ALTER TABLE calls SET PRIVACY UNIT VIA (person) REFERENCES survey(id)",
            "who is in survey is public",
        ),
        ("ALTER TABLE survey SET PRIVACY FLOOR 10", "hides how many people there are"),
        ("ALTER PRIVACY BUDGET b SET PER QUERY (min_units=10)", "hides how many people there are"),
        ("ALTER PRIVACY BUDGET b PARTITION BY region", "neighbours replace"),
        ("ALTER TABLE calls ALTER COLUMN minutes SET PUBLIC", "UNIQUE PRESENCE PUBLIC WITH"),
        ("ALTER TABLE survey ALTER COLUMN nothing SET PUBLIC", "nothing"),
    ] {
        let refused = why(&owner, sql).await;
        assert!(refused.contains(expected), "{sql}\n{refused}");
    }
    let done_so = done(&owner, "ALTER TABLE survey ALTER COLUMN age SET PUBLIC").await;
    assert!(done_so.contains("column survey.age is public"), "{done_so}");
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(cells(&lab, "SELECT COUNT(*) AS n FROM survey WHERE age > 40").await, "3");
    let described = done(&lab, "DESCRIBE survey").await;
    assert!(described.contains("privacy unit, presence public"), "{described}");
    // Rows that name nobody are in no answer, and the owner is told of them.
    let nobody = tempfile::tempdir().unwrap();
    let file = nobody.path().join("survey.csv");
    std::fs::write(&file, SURVEY.replace("\n3,", "\n,").replace("\n5,", "\n,")).unwrap();
    let other = Engine::in_memory().unwrap();
    let table = format!("CREATE EXTERNAL TABLE survey {TABLE} '{}'", file.display());
    done(&other.owner(), &table).await;
    let told = done(&other.owner(), PRESENT).await;
    assert!(told.contains("in 2 rows of survey, id is NULL: they belong to nobody"), "{told}");
    let lab = other.analyst("lab").unwrap();
    assert_eq!(cells(&lab, "SELECT COUNT(*) AS n FROM survey").await, "4");
    // What a person says could make a line unreadable, and exact counts would tell.
    let broken = tempfile::tempdir().unwrap();
    let file = broken.path().join("survey.csv");
    std::fs::write(&file, SURVEY.replace("29,", "29,1,2")).unwrap();
    let other = Engine::in_memory().unwrap().owner();
    done(&other, &format!("CREATE EXTERNAL TABLE survey {TABLE} '{}'", file.display())).await;
    assert!(why(&other, PRESENT).await.contains("needs every line of survey to be a row"));
    // Rows that nothing holds.
    let rows = arrow::array::RecordBatch::try_from_iter([(
        "id",
        std::sync::Arc::new(arrow::array::Int64Array::from(vec![1])) as arrow::array::ArrayRef,
    )]);
    let third = Engine::in_memory().unwrap();
    third.register_batch("survey", rows.unwrap()).unwrap();
    let refused =
        why(&third.owner(), "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC")
            .await;
    assert!(refused.contains("are not in files"), "{refused}");
}

/// What was charged for one kind of neighbours bounds nothing for the other one.
#[tokio::test]
async fn a_name_that_was_charged_keeps_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    let owner = engine.owner();
    let lab = engine.analyst("lab").unwrap();
    let person = "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE";
    done(&owner, "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=2)").await;
    // Exact answers leave no charge, and so a declaration is enough.
    done(&lab, "SELECT COUNT(*) FILTER (WHERE id = 3) AS n FROM survey").await;
    let refused = why(&owner, person).await;
    assert!(refused.contains("protects what people say"), "{refused}");
    let narrow = format!("{person} PRESENCE PUBLIC");
    done(&owner, "ALTER TABLE survey ALTER COLUMN income SET PUBLIC").await;
    for narrower in [PRESENT, &narrow] {
        let refused = why(&owner, narrower).await;
        assert!(refused.contains("was public, and exact answers may have shown it"), "{refused}");
    }
    let wide = format!("{narrow} WITH (region, income)");
    done(&owner, &wide).await;
    // The same rows under another name cannot protect what this one shows.
    let file = folder.path().join("survey.csv");
    done(&owner, &format!("CREATE EXTERNAL TABLE twin {TABLE} '{}'", file.display())).await;
    let twin = person.replace("TABLE survey", "TABLE twin") + " OTHER PEOPLE THAN survey";
    let refused = why(&owner, &twin).await;
    assert!(refused.contains("cannot protect that: query survey"), "{refused}");
    done(&owner, "DROP TABLE twin").await;
    done(&lab, "SELECT LAPLACE(eps=1) SUM(age) AS n FROM survey").await;
    let refused = why(&owner, person).await;
    assert!(refused.contains("protects what people say"), "{refused}");
    done(&owner, "DROP PRIVACY BUDGET b").await;
    done(&owner, "DROP TABLE survey").await;
    done(&owner, &format!("CREATE EXTERNAL TABLE survey {TABLE} '{}'", file.display())).await;
    assert!(why(&owner, person).await.contains("protects what people say"));
    assert!(why(&owner, PRESENT).await.contains("income was public"));
    done(&owner, &wide).await;
    done(&owner, "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=2)").await;
    assert_eq!(lab.budgets().unwrap()[0].left.to_string(), "ε = 1");

    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    let file = folder.path().join("survey.csv");
    std::fs::write(&file, SURVEY).unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE survey {TABLE} '{}'", file.display()),
        person,
        "ALTER TABLE survey ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (18, 65)",
        "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=2)",
    ] {
        done(&owner, sql).await;
    }
    let lab = engine.analyst("lab").unwrap();
    done(&lab, "SELECT LAPLACE(eps=1) SUM(age) AS n FROM survey").await;
    let refused = why(&owner, PRESENT).await;
    assert!(refused.contains("one budget never mixes them"), "{refused}");
    assert!(told(&lab, "SELECT COUNT(*) AS n FROM survey").await.is_err());
}

/// A statement in words says that presence is public.
#[tokio::test]
async fn a_statement_says_that_presence_is_public() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    done(&engine.owner(), "CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=1)").await;
    let shown = cells(&engine.analyst("lab").unwrap(), "SHOW PRIVACY STATEMENT FOR b").await;
    for expected in [
        "except for id, region, which anyone may know of everyone",
        "That a person is in the data is not protected",
        "believes it after all answers with at most 2.6",
        "no answer has revealed anything that is protected",
        "Who is in survey, with id, region: exact answers show it",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

/// A dump rebuilds the declaration, its public columns, and what was spent.
#[test]
fn public_presence_is_dumped() {
    let study = Study::new();
    study.write("survey.csv", SURVEY);
    study
        .owner(&format!(
            "CREATE EXTERNAL TABLE survey {TABLE} 'survey.csv'; {PRESENT};
             ALTER TABLE survey ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (18, 65);
             CREATE PRIVACY BUDGET b FOR survey LIMIT (epsilon=5)"
        ))
        .says(0, &["who is in it is public, with id, region"]);
    study.lab("SELECT LAPLACE(eps=3) SUM(age) AS n FROM survey").says(0, &[]);
    study.owner("ALTER TABLE survey RELOAD").says(0, &[]);
    let dump = study.run(&["dump", "study.db"]);
    dump.says(0, &[]);
    for part in [
        "SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region);",
        "SPENT (epsilon=3",
        "PRESENCE PUBLIC",
    ] {
        assert!(dump.out.contains(part), "{}", dump.out);
    }
    study.write("dump.sql", &dump.out);
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let other = |sql: &str| study.run(&["other.db", "--analyst", "lab", "-c", sql]);
    let counted = other("SELECT COUNT(*) AS n FROM survey");
    assert!(counted.out.contains("│ 6 ┆"), "{}", counted.out);
    other("SELECT LAPLACE(eps=3) SUM(age) AS n FROM survey").says(4, &[]);
    study.run(&["check", "other.db"]).says(0, &["is sound"]);
}

/// A response that is replaced changes two scores, so that its ρ is that of a pure ε, and not that
/// of a range of ε, which elsewhere is a quarter.
#[tokio::test]
async fn responses_cost_a_pure_epsilon() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), SURVEY).await;
    let owner = engine.owner();
    done(&owner, "CREATE PRIVACY BUDGET b FOR survey LIMIT (rho=10)").await;
    let lab = engine.analyst("lab").unwrap();
    let asked = "SELECT id, RANDOMIZED_RESPONSE(eps=1) CASE WHEN age > 40 THEN 'old' ELSE 'young' END AS a FROM survey GROUP BY id KEYS (1, 2)";
    // ε·tanh(ε/2), rounded up.
    let shown = explained(&lab, asked).await;
    assert!(shown.contains("0.462117158"), "{shown}");
}
