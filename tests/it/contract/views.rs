//! Views are the queries that stand behind them: explained, priced, answered and refused as if
//! written out, and none of their names means anything else than it says in the view.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use hushql::{Engine, Session};

use crate::contract::asked::{told, why};

/// What no column, name or refusal may show: it is in the rows of a private table, and in the text
/// of a view.
const CANARY: &str = "Tweety";

async fn owned(engine: &Engine, statements: &[&str]) {
    for statement in statements {
        if let Err(error) = engine.owner().execute(statement).await {
            panic!("{statement}: {error}");
        }
    }
}

/// The numbers in the first column of an answer, in order.
async fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let answer = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut numbers = Vec::new();
    for batch in answer.batches() {
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        numbers.extend(column.iter().flatten());
    }
    numbers.sort_unstable();
    numbers
}

fn one_column(name: &str, values: &[i64]) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([(name, column)]).unwrap()
}

/// The public tables t(x) of 1, 2, 3 and u(x) of 10, 20.
async fn public() -> Engine {
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("t", one_column("x", &[1, 2, 3])).unwrap();
    engine.register_batch("u", one_column("x", &[10, 20])).unwrap();
    owned(&engine, &["ALTER TABLE t SET PUBLIC", "ALTER TABLE u SET PUBLIC"]).await;
    engine
}

/// The views of the tests on the built-in tables, and their queries.
const VIEWS: [(&str, &str); 11] = [
    ("grown", "SELECT id, age, sex, status FROM adult WHERE age >= 18"),
    ("older", "SELECT age + 1 AS age, status AS s FROM grown WHERE sex = 'Female'"),
    ("spent", "SELECT user_id AS buyer, SUM(price) AS total FROM orders GROUP BY user_id"),
    (
        "cheap",
        "SELECT user_id, product, price * qty AS paid FROM orders WHERE price < 10 ORDER BY paid",
    ),
    ("buyers", "SELECT DISTINCT user_id FROM cheap"),
    ("shares", "SELECT status, share * 2 AS twice FROM census WHERE share > 10"),
    ("by_status", "SELECT status, COUNT(*) AS n FROM adult GROUP BY status"),
    ("few", "SELECT age FROM adult LIMIT 10"),
    ("mixed", "SELECT a.age, c.share FROM adult a JOIN census c ON a.status = c.status"),
    ("both", "WITH g AS (SELECT age FROM grown) SELECT age FROM g UNION ALL SELECT age FROM g"),
    ("paid", "SELECT * FROM hushql.ledger"),
];

async fn demo() -> Engine {
    let engine = Engine::demo().unwrap();
    for (name, query) in VIEWS {
        owned(&engine, &[&format!("CREATE VIEW {name} AS {query}")]).await;
    }
    engine
}

/// A query with every view as the subquery that it is; `FROM v` becomes `FROM (…) AS v`.
fn written_out(query: &str) -> String {
    let mut text = query.to_owned();
    for (name, body) in VIEWS.iter().rev() {
        for word in ["FROM ", "JOIN ", ", "] {
            for (mark, alias) in [(" AS ", ""), (" ", name), (")", name), (";", name)] {
                let (from, view) = (format!("{word}{name}{mark}"), format!("{word}({body})"));
                let to = match alias {
                    "" => format!("{view} AS "),
                    alias => format!("{view} AS {alias}{mark}"),
                };
                text = text.replace(&from, &to);
            }
        }
    }
    text
}

/// The explanation is that of the query written out, to the letter: sensitivity, noise, cost,
/// derivation.
#[tokio::test]
async fn a_view_is_its_query() {
    let engine = demo().await;
    let lab = engine.analyst("lab").unwrap();
    let (mut explained, mut refused) = (0, 0);
    for query in [
        "SELECT LAPLACE(eps=1) COUNT(*) FROM grown;",
        "SELECT sex, LAPLACE(eps=1) SUM(age) AS s FROM grown WHERE status LIKE 'M%' GROUP BY sex;",
        "SELECT g.status, GAUSSIAN(eps=1, delta=1e-7) AVG(g.age) AS a FROM grown AS g GROUP BY g.status;",
        "SELECT ARGMAX EXPONENTIAL(eps=1) status FROM grown GROUP BY status;",
        "SELECT EXPONENTIAL(eps=1) MEDIAN(age) FROM older;",
        "SELECT s, LAPLACE(eps=1) COUNT(*) AS n FROM older GROUP BY s ORDER BY n DESC LIMIT 2;",
        "SELECT LAPLACE(eps=1) AVG(total) AS mean FROM spent;",
        "SELECT product, LAPLACE(eps=1, groups=2) SUM(paid) AS s FROM cheap GROUP BY product;",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM spent JOIN buyers ON buyer = user_id;",
        "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM cheap WHERE user_id IN (SELECT buyer FROM spent WHERE total > 20);",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT buyer FROM spent UNION ALL SELECT user_id FROM buyers) AS v;",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM adult JOIN shares ON adult.status = shares.status;",
        "SELECT LAPLACE(eps=1) SUM(age) FROM mixed;",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM both;",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) status, COUNT(*) AS n, AVG(age) AS a FROM grown GROUP BY status;",
        "SELECT status, COUNT(*) AS n FROM grown GROUP BY status;",
        "SELECT status, n FROM by_status WHERE n > 100;",
        "SELECT AVG(share) AS a FROM shares AS x JOIN census ON x.status = census.status;",
        "WITH w AS (SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM grown GROUP BY status) SELECT w.n FROM w JOIN shares ON w.status = shares.status;",
        // Refused, and for the same reason.
        "SELECT age FROM grown;",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM few;",
        "SELECT LAPLACE(within=5) SUM(id) FROM grown;",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM by_status;",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM grown AS a JOIN grown AS b ON a.age = b.age;",
        "SELECT LAPLACE(eps=1) SUM(twice) FROM shares;",
        "SELECT buyer, LAPLACE(eps=1) COUNT(*) AS n FROM spent GROUP BY buyer;",
    ] {
        let written = written_out(query);
        assert!(written.matches('(').count() > query.matches('(').count(), "{written}");
        for head in ["EXPLAIN PRIVACY", "EXPLAIN PRIVACY FORMAT JSON"] {
            let of_view = told(&lab, &format!("{head} {query}")).await.unwrap();
            let of_text = told(&lab, &format!("{head} {written}")).await.unwrap();
            match lab.cost(&written) {
                Ok(cost) => {
                    assert_eq!(of_view, of_text, "{query}\n{written}");
                    assert_eq!(lab.cost(query).unwrap(), cost, "{query}");
                    explained += 1;
                }
                Err(error) => {
                    let other = lab.cost(query).unwrap_err();
                    assert_eq!(other.code(), error.code(), "{query}: {other}");
                    assert!(error.code().is_some(), "{written}: {error}");
                    assert_eq!(other.message(), error.message(), "{query}");
                    assert_eq!(other.hint(), error.hint(), "{query}");
                    // The refusal names the view, which the query written out has not.
                    assert!(other.to_string().contains(" over the view "), "{other}");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!((explained, refused), (2 * 19, 2 * 7));
}

/// A view holds no release. Where it holds plain aggregates, which a query over it releases at the
/// default cost, equal ones are one release, as in a CTE that is used twice: one draw and one
/// charge.
#[tokio::test]
async fn a_view_used_twice_is_drawn_once() {
    let engine = demo().await;
    let lab = engine.analyst("lab").unwrap();
    let once = lab.cost("SELECT n FROM by_status").unwrap();
    let twice = "SELECT a.n - b.n AS zero FROM by_status a JOIN by_status b ON a.status = b.status";
    assert_eq!(lab.cost(twice).unwrap(), once);
    assert_eq!(numbers(&lab, twice).await, vec![0; 7]);
    let spent =
        |session: &Session| session.budgets().unwrap().iter().map(|b| b.spent.nano).sum::<i64>();
    assert_eq!(spent(&lab), 100_000_000);
    let paid = told(&lab, "SELECT COUNT(*) AS n FROM paid").await.unwrap();
    assert!(paid.contains('1'), "the ledger is read through a view: {paid}");
}

/// What the query that reads a view defines is not seen from inside of the view, nor the reverse.
#[tokio::test]
async fn names_of_a_view_are_its_own() {
    let engine = public().await;
    owned(
        &engine,
        &[
            "CREATE VIEW v AS SELECT x FROM t",
            "CREATE VIEW w AS WITH u AS (SELECT x + 100 AS x FROM t) SELECT x FROM u",
            "CREATE VIEW own AS WITH own AS (SELECT x FROM u) SELECT x FROM own",
            "CREATE VIEW \"V\" AS SELECT x FROM u",
            "CREATE VIEW through AS WITH t AS (SELECT 7 AS x) SELECT v.x FROM v JOIN t ON t.x = 7",
        ],
    )
    .await;
    let lab = engine.analyst("lab").unwrap();
    for (query, expected) in [
        ("SELECT x FROM v", &[1, 2, 3][..]),
        // A CTE of the query that is named like a table of the view.
        ("WITH t AS (SELECT 100 AS x) SELECT x FROM v", &[1, 2, 3]),
        ("WITH t AS (SELECT 100 AS x) SELECT v.x FROM v, t", &[1, 2, 3]),
        ("WITH t AS (SELECT 100 AS x), q AS (SELECT x FROM v) SELECT x FROM q", &[1, 2, 3]),
        (
            "WITH t AS (SELECT 5 AS x) SELECT x FROM (SELECT x FROM (SELECT x FROM v) s) r",
            &[1, 2, 3],
        ),
        // A CTE of the query that is named like the view: the nearer one is meant.
        ("WITH v AS (SELECT 8 AS x) SELECT x FROM v", &[8]),
        ("WITH v AS (SELECT x + 1 AS x FROM v) SELECT x FROM v", &[2, 3, 4]),
        (
            "SELECT x FROM (WITH v AS (SELECT 8 AS x) SELECT x FROM v) s UNION ALL SELECT x FROM v",
            &[1, 2, 3, 8],
        ),
        // A CTE of the view stays in the view.
        ("SELECT x FROM w", &[101, 102, 103]),
        ("SELECT u.x FROM u JOIN w ON w.x = 101", &[10, 20]),
        ("WITH u AS (SELECT 9 AS x) SELECT u.x FROM u JOIN w ON w.x = 101", &[9]),
        ("SELECT x FROM own", &[10, 20]),
        ("SELECT x FROM through", &[1, 2, 3]),
        // Aliases of the query.
        ("SELECT v.x FROM u AS t JOIN v ON t.x = 10", &[1, 2, 3]),
        ("SELECT t.x FROM v AS t JOIN t AS v ON t.x = v.x", &[1, 2, 3]),
        ("SELECT v.x FROM u AS v", &[10, 20]),
        ("SELECT a.x FROM v a JOIN v b ON a.x < b.x", &[1, 1, 2]),
        ("SELECT x FROM t WHERE x IN (SELECT v.x FROM v WHERE v.x > t.x - 1 AND v.x > 2)", &[3]),
        // Cases and quotes, as for tables.
        ("SELECT X FROM V", &[1, 2, 3]),
        ("SELECT x FROM \"v\"", &[1, 2, 3]),
        ("SELECT x FROM \"V\"", &[10, 20]),
        ("SELECT public.v.x FROM public.v", &[1, 2, 3]),
        ("WITH \"V\" AS (SELECT 8 AS x) SELECT x FROM V", &[1, 2, 3]),
    ] {
        assert_eq!(numbers(&lab, query).await, expected, "{query}");
    }
    for query in ["SELECT x FROM other.v", "SELECT x FROM hushql.v", "SELECT x FROM \"w.v\""] {
        assert!(why(&lab, query).await.contains(": there is no table"), "{query}");
    }
    assert_eq!(
        why(&lab, "SELECT x FROM throug").await,
        "at line 1, column 15: there is no table `throug`; did you mean `through`?"
    );
}

/// What a view reads may be dropped and another thing be made of that name. Then the view means
/// that, or fails by its own name; it never takes a column from the query that reads it.
#[tokio::test]
async fn what_a_view_reads_is_looked_up_when_it_is_used() {
    let engine = public().await;
    owned(&engine, &["CREATE VIEW v AS SELECT x FROM t", "CREATE VIEW w AS SELECT x FROM v"]).await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    owned(&engine, &["DROP TABLE t"]).await;
    let gone = "in the view `v`: there is no table `t`";
    for query in ["SELECT x FROM v", "SELECT w.x FROM u JOIN w ON u.x = w.x", "DESCRIBE w"] {
        assert_eq!(why(&lab, query).await, gone, "{query}");
    }
    assert!(told(&lab, "SHOW TABLES").await.unwrap().contains(gone));
    assert_eq!(numbers(&lab, "WITH v AS (SELECT 1 AS x) SELECT x FROM v").await, [1]);

    // A view of that name, which would lead back.
    let circle = why(&owner, "CREATE VIEW t AS SELECT x FROM w").await;
    assert_eq!(circle, "the view `t` leads to itself: `t`, `w`, `v`, `t`");
    owned(&engine, &["CREATE VIEW t AS SELECT x + 1 AS x FROM u"]).await;
    assert_eq!(numbers(&lab, "SELECT x FROM w").await, [11, 21]);
    let circle = why(&owner, "CREATE OR REPLACE VIEW t AS SELECT x FROM w").await;
    assert_eq!(circle, "the view `t` leads to itself: `t`, `w`, `v`, `t`");
    assert!(why(&owner, "CREATE OR REPLACE VIEW v AS SELECT x FROM v").await.contains("`v`, `v`"));
    assert_eq!(numbers(&lab, "SELECT x FROM w").await, [11, 21], "a refused view changes nothing");

    // A table without the column, read below a query that has one of this name.
    owned(&engine, &["DROP VIEW t"]).await;
    engine.register_batch("t", one_column("y", &[5])).unwrap();
    owned(&engine, &["ALTER TABLE t SET PUBLIC"]).await;
    for query in [
        "SELECT x FROM u WHERE EXISTS (SELECT 1 FROM v)",
        "SELECT x FROM u WHERE x = (SELECT MAX(w.x) FROM w)",
        "WITH t AS (SELECT 1 AS x) SELECT x FROM v",
    ] {
        let error = why(&lab, query).await;
        assert!(error.starts_with("in the view `v`: there is no column `x`"), "{query}: {error}");
        assert!(!error.contains("line"), "{error}");
    }
}

/// The names of columns are those that the view gives, else those of its query as it is when it is
/// used.
#[tokio::test]
async fn columns_are_those_of_the_query() {
    let engine = public().await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    owned(
        &engine,
        &[
            "CREATE VIEW a (One, \"Two\") AS SELECT x, x * 2 FROM t",
            "CREATE VIEW s AS SELECT * FROM t",
        ],
    )
    .await;
    assert_eq!(numbers(&lab, "SELECT \"Two\" FROM a WHERE one > 1").await, [4, 6]);
    assert_eq!(numbers(&lab, "SELECT q FROM a AS b(p, q)").await, [2, 4, 6]);
    assert_eq!(numbers(&lab, "SELECT a.* FROM a WHERE a.one = 1").await, [1]);
    for (view, error) in [
        ("b (x) AS SELECT x, x AS y FROM t", "the view `b` names 1 columns, and its query has 2"),
        (
            "b (x, y, z) AS SELECT x, x AS y FROM t",
            "the view `b` names 3 columns, and its query has 2",
        ),
        (
            "b (x, x) AS SELECT x, x AS y FROM t",
            "the view `b` cannot be created: it has two columns `x`",
        ),
        (
            "b AS SELECT t.x, u.x FROM t, u",
            "the view `b` has two columns named x: give each its own alias with AS",
        ),
        ("b AS SELECT y FROM t", "in the view `b`: there is no column `y`"),
        ("b AS SELECT x FROM nowhere", "in the view `b`: there is no table `nowhere`"),
        ("b AS SELECT x FROM b", "the view `b` leads to itself: `b`, `b`"),
        (
            "b AS SELECT table_name FROM information_schema.tables",
            "in the view `b`: there is no table",
        ),
        ("a AS SELECT x FROM t", "there is a view `a` already"),
        ("t AS SELECT x FROM u", "there is a table `t` already"),
    ] {
        let said = why(&owner, &format!("CREATE VIEW {view}")).await;
        assert!(said.starts_with(error), "{view}: {said}");
    }
    // `*` is what the table has now.
    owned(&engine, &["DROP TABLE t"]).await;
    let (x, y): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![4])), Arc::new(Int64Array::from(vec![40])));
    engine.register_batch("t", RecordBatch::try_from_iter([("x", x), ("y", y)]).unwrap()).unwrap();
    owned(&engine, &["ALTER TABLE t SET PUBLIC"]).await;
    assert_eq!(numbers(&lab, "SELECT y FROM s").await, [40]);
    let tables = lab.tables().unwrap();
    let of = |name: &str| tables.iter().find(|(table, _)| table == name).unwrap().1.clone();
    assert_eq!(of("s"), ["x", "y"]);
    assert_eq!(of("a"), ["One".to_lowercase(), "Two".to_owned()]);
}

/// Private rows whose names are canaries, and views over them.
async fn canaries() -> Engine {
    let engine = Engine::in_memory().unwrap();
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let name: ArrayRef = Arc::new(StringArray::from(vec![CANARY, "Bob"]));
    let people = RecordBatch::try_from_iter([("id", id), ("name", name)]).unwrap();
    engine.register_batch("people", people.clone()).unwrap();
    engine.register_batch("unsaid", people).unwrap();
    let secret =
        format!("CREATE VIEW secret AS SELECT id, name FROM people WHERE name <> '{CANARY}'");
    let constant = format!("CREATE VIEW constant AS SELECT id, '{CANARY}' AS word FROM people");
    owned(
        &engine,
        &[
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=10)",
            "CREATE VIEW all_of_them AS SELECT * FROM people",
            "CREATE VIEW nobody_said AS SELECT * FROM unsaid",
            &secret,
            &constant,
        ],
    )
    .await;
    engine
}

/// An analyst reads views and looks at their columns, and that is all.
#[tokio::test]
async fn analysts_make_no_views() {
    let engine = canaries().await;
    let lab = engine.analyst("lab").unwrap();
    for sql in [
        "CREATE VIEW mine AS SELECT name FROM people",
        "CREATE OR REPLACE VIEW all_of_them AS SELECT 1 AS id",
        "DROP VIEW all_of_them",
        "DROP VIEW IF EXISTS nothing",
        "SHOW CREATE VIEW all_of_them",
        "SHOW CREATE VIEW nothing",
    ] {
        assert!(why(&lab, sql).await.starts_with("HQ003"), "{sql}");
    }
    for sql in
        ["SELECT * FROM all_of_them", "SELECT name FROM secret", "SELECT MAX(name) FROM secret"]
    {
        let error = why(&lab, sql).await;
        assert!(error.starts_with("HQ0") && !error.contains(CANARY), "{sql}: {error}");
    }
    assert!(
        why(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM nobody_said").await.starts_with("HQ002")
    );
    assert!(why(&lab, "SELECT * FROM nobody_said").await.starts_with("HQ002"));
    assert_eq!(lab.budgets().unwrap()[0].spent.nano, 0);
    assert!(told(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM secret").await.is_ok());
    for sql in [
        "SHOW TABLES",
        "SHOW PRIVACY",
        "DESCRIBE all_of_them",
        "DESCRIBE secret",
        "DESCRIBE constant",
    ] {
        let shown = told(&lab, sql).await.unwrap();
        assert!(!shown.contains(CANARY) && !shown.contains("Bob"), "{sql}: {shown}");
    }
    let names = lab.tables().unwrap();
    assert!(!format!("{names:?}").contains(CANARY), "{names:?}");
    let said = told(&engine.owner(), "SHOW CREATE VIEW secret").await.unwrap();
    assert!(said.contains(CANARY), "an owner sees what was written: {said}");
}

/// Whatever declares something of a table refuses a view, and changes nothing.
#[tokio::test]
async fn nothing_is_declared_of_a_view() {
    let engine = canaries().await;
    let owner = engine.owner();
    let before = told(&owner, "SHOW PRIVACY").await.unwrap();
    for sql in [
        "ALTER TABLE secret SET PUBLIC",
        "ALTER TABLE secret SET PRIVACY UNIT ROW",
        "ALTER TABLE secret SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE secret DROP PRIVACY UNIT",
        "ALTER TABLE secret ALTER COLUMN name SET PRIVACY DOMAIN IN ('Bob')",
        "ALTER TABLE secret ALTER COLUMN name DROP PRIVACY DOMAIN",
        "ALTER TABLE unsaid SET PRIVACY UNIT VIA (id) REFERENCES secret(id)",
        "ALTER TABLE unsaid ALTER COLUMN name SET PRIVACY DOMAIN REFERENCES secret(name)",
        "CREATE PRIVACY BUDGET more FOR secret LIMIT (epsilon=1000)",
        "DROP TABLE secret",
        "CREATE EXTERNAL TABLE secret STORED AS CSV LOCATION 'tests/data/wards.csv'",
    ] {
        let error = why(&owner, sql).await;
        assert!(
            error.starts_with("`secret` is a view: it has no rows, unit or domains"),
            "{sql}: {error}"
        );
    }
    let error = engine.register_batch("secret", one_column("x", &[1])).unwrap_err();
    assert!(error.to_string().starts_with("`secret` is a view"), "{error}");
    assert_eq!(before, told(&owner, "SHOW PRIVACY").await.unwrap());
    assert_eq!(why(&owner, "DROP VIEW people").await, "`people` is a table, not a view");
    assert_eq!(why(&owner, "DROP VIEW IF EXISTS people").await, "`people` is a table, not a view");
    assert_eq!(why(&owner, "DROP VIEW peopl").await, "there is no view `peopl`");
    // What clauses read beside a query is a table.
    for (sql, code) in [
        ("ANALYZE PRIVACY DOMAIN secret(id) WITH (eps=1)", "HQ014 refused: secret is a view"),
        (
            "SELECT name, LAPLACE(eps=1) COUNT(*) FROM people GROUP BY name KEYS TABLE secret(name)",
            "HQ008 refused: secret is a view",
        ),
        (
            "SELECT ARGMAX EXPONENTIAL(eps=1) name PRIOR secret(name, id) FROM people GROUP BY name",
            "HQ008 refused: secret is a view",
        ),
    ] {
        let error = why(&owner, sql).await;
        assert!(error.starts_with(code), "{sql}: {error}");
    }
}

/// Views in a vault on disk, and files as tables.
#[tokio::test]
async fn views_are_there_when_the_vault_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let engine = Engine::init(&path).unwrap();
    owned(
        &engine,
        &[
            "CREATE EXTERNAL TABLE wards STORED AS CSV LOCATION 'tests/data/wards.csv'",
            "ALTER TABLE wards SET PUBLIC",
            "CREATE VIEW large (named, beds) AS SELECT title, beds FROM wards WHERE beds > 15 AND title <> 'it''s'",
            "CREATE VIEW \"The Large\" AS SELECT * FROM large",
        ],
    )
    .await;
    let lab = engine.analyst("lab").unwrap();
    let query = "SELECT SUM(beds) AS beds FROM \"The Large\"";
    let beds = numbers(&lab, query).await;
    drop((lab, engine));
    let engine = Engine::open(&path).unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    assert_eq!(numbers(&lab, query).await, beds);
    let shown = told(&owner, "SHOW CREATE VIEW large").await.unwrap();
    let text = "CREATE OR REPLACE VIEW large (named, beds) AS SELECT title, beds FROM wards WHERE beds > 15 AND title <> 'it''s'";
    assert!(shown.contains(text), "{shown}");
    // What is shown can be said again.
    owned(
        &engine,
        &[text, "DROP VIEW IF EXISTS \"The Large\"", "DROP VIEW IF EXISTS \"The Large\""],
    )
    .await;
    assert!(why(&lab, query).await.contains(": there is no table `The Large`"));
    assert!(numbers(&lab, "SELECT beds FROM large").await.iter().all(|beds| *beds > 15));
}

/// A query that reads too much through views ends before it is planned.
#[tokio::test]
async fn views_do_not_explode() {
    let engine = public().await;
    let owner = engine.owner();
    owned(&engine, &["CREATE VIEW v0 AS SELECT x FROM t", "CREATE VIEW d0 AS SELECT x FROM t"])
        .await;
    let mut large = None;
    for i in 1..40 {
        let sql =
            format!("CREATE VIEW v{i} AS SELECT a.x FROM v{0} a JOIN v{0} b ON a.x = b.x", i - 1);
        if let Err(error) = owner.execute(&sql).await {
            large = Some((i, error.to_string()));
            break;
        }
    }
    let (i, error) = large.unwrap();
    assert_eq!(i, 7, "{error}");
    assert!(error.starts_with("HQ034 refused: the query names more than 100 tables"), "{error}");
    let mut deep = None;
    for i in 1..40 {
        let sql = format!("CREATE VIEW d{i} AS SELECT x FROM d{} WHERE x > 0", i - 1);
        if let Err(error) = owner.execute(&sql).await {
            deep = Some((i, error.to_string()));
            break;
        }
    }
    let (i, error) = deep.unwrap();
    assert_eq!(i, 32, "{error}");
    assert!(
        error.contains("HQ034 refused: the view `d32` leads through more than 32 views"),
        "{error}"
    );
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(numbers(&lab, "SELECT x FROM d31").await, [1, 2, 3]);
    let many = ["v5"; 4].join(" CROSS JOIN ");
    let error = why(&lab, &format!("SELECT COUNT(*) AS n FROM {many}")).await;
    assert!(error.starts_with("HQ034"), "{error}");
    let cte = "WITH a AS (SELECT x FROM v5), b AS (SELECT x FROM a UNION ALL SELECT x FROM a)";
    let error = why(&lab, &format!("{cte} SELECT COUNT(*) AS n FROM b, b AS c")).await;
    assert!(error.starts_with("HQ034"), "{error}");
}

/// The deepest views over a private table end in an answer or a refusal on the stack that they
/// have.
#[tokio::test]
async fn deep_views_over_people_are_answered() {
    let engine = Engine::demo().unwrap();
    owned(&engine, &["CREATE VIEW d0 AS SELECT age, sex FROM adult"]).await;
    for i in 1..32 {
        let sql = format!(
            "CREATE VIEW d{i} AS SELECT age, sex FROM (SELECT age, sex FROM d{}) AS s WHERE age > {i}",
            i - 1
        );
        owned(&engine, &[&sql]).await;
    }
    let lab = engine.analyst("lab").unwrap();
    let query = "SELECT sex, LAPLACE(eps=1) COUNT(*) AS n FROM d31 GROUP BY sex";
    assert_eq!(lab.cost(query).unwrap().to_string(), "ε = 1");
    assert_eq!(lab.query(query).await.unwrap().batches()[0].num_rows(), 2);
}

/// Plain EXPLAIN is for owners and public tables, and a view is what it reads.
#[tokio::test]
async fn plain_explain_goes_through_views() {
    let engine = demo().await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    assert!(told(&owner, "EXPLAIN SELECT * FROM shares").await.unwrap().contains("census"));
    for (session, sql) in [
        (&*lab, "EXPLAIN SELECT * FROM shares"),
        (&*lab, "EXPLAIN SELECT LAPLACE(eps=1) COUNT(*) FROM grown"),
        (&*owner, "EXPLAIN SELECT LAPLACE(eps=1) COUNT(*) FROM grown"),
        (&*owner, "EXPLAIN SELECT n FROM by_status"),
    ] {
        assert!(why(session, sql).await.starts_with("HQ003"), "{sql}");
    }
}
