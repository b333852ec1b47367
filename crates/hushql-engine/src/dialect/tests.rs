use super::*;

fn query(text: &str) -> QueryStatement {
    match parse(text) {
        Ok(Statement::Query(query)) => query,
        other => panic!("{text}: {other:?}"),
    }
}

fn syntax(text: &str) -> String {
    match parse(text) {
        Err(DialectError::Syntax { message, .. }) => message,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_release_becomes_one_marker() {
    let query = query("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status");
    assert_eq!(query.releases.len(), 1);
    assert_eq!(
        query.tree.to_string(),
        "SELECT __hushql_release_0(status, 1) AS \"status\" FROM adult GROUP BY status"
    );
}

#[test]
fn names_are_contextual() {
    for text in [
        "SELECT top, prior, laplace, argmax, auto, keys FROM t",
        "SELECT laplace(1), auto(x) FROM t",
        "SELECT top FROM t ORDER BY top",
    ] {
        assert!(query(text).releases.is_empty(), "{text}");
    }
}

#[test]
fn a_mechanism_binds_tighter_than_an_operator() {
    let query = query("SELECT 1 + LAPLACE(eps=0.5) SUM(x * 2) FILTER (WHERE y > 0) * 3 FROM t");
    assert_eq!(
        query.tree.to_string(),
        "SELECT 1 + __hushql_release_0(x * 2) FILTER (WHERE y > 0) * 3 \
         AS \"1 + sum(x * 2) FILTER (WHERE y > 0) * 3\" FROM t"
    );
}

#[test]
fn keys_are_taken_out_of_group_by() {
    let query = query("SELECT a, LAPLACE(eps=1) COUNT(*) n FROM t GROUP BY b, a KEYS ('x', NULL)");
    assert_eq!(query.tree.to_string(), "SELECT a, __hushql_release_0(1) AS n FROM t GROUP BY b, a");
    let keys = KeysClause::List(vec![Literal::Text("x".into()), Literal::Null]);
    assert_eq!(query.releases[0].keys, vec![None, Some(keys)]);
}

/// KEYS and OPTIONS once affected subqueries, which have a GROUP BY of their own.
#[test]
fn keys_and_options_belong_to_one_select() {
    let inner = "(SELECT SUM(d) FROM (SELECT LAPLACE(eps=1) COUNT(*) d FROM adult GROUP BY sex) z)";
    let query = query(&format!(
        "SELECT status, LAPLACE(eps=1) COUNT(*) c, {inner} m FROM adult GROUP BY status KEYS ('x')"
    ));
    assert_eq!(query.releases.len(), 2, "the sum of released values is no release");
    assert_eq!(query.releases.iter().filter(|r| r.keys.is_empty()).count(), 1);
}

#[test]
fn options_imply_releases_and_share_epsilon() {
    let query = query(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=2, \
         privacy_unit_column=id) status, COUNT(*), \
         AVG(age, contribution_bounds_per_group => (17, 90)) FROM adult GROUP BY status",
    );
    assert_eq!(query.releases.len(), 2);
    assert_eq!(query.releases[0].parameters.to_string(), "eps=0.5, groups=2");
    assert_eq!(query.releases[0].text, "count(*)");
    let Operand::Aggregate(call) = &query.releases[1].operand else { panic!() };
    assert!(call.bounds_per_group.is_some());
}

#[test]
fn bad_parameters_are_errors_with_a_position() {
    for (text, expected) in [
        ("SELECT LAPLACE(eps=0) COUNT(*) FROM t", "eps must be"),
        ("SELECT LAPLACE(eps=-0.0) COUNT(*) FROM t", "eps must be"),
        ("SELECT LAPLACE(eps=NaN) COUNT(*) FROM t", "eps must be"),
        ("SELECT LAPLACE(eps=1, eps=2) COUNT(*) FROM t", "eps is given twice"),
        ("SELECT LAPLACE(EPS=1, \"eps\"=0.001) COUNT(*) FROM t", "eps is given twice"),
        ("SELECT LAPLACE(eps=1+1) COUNT(*) FROM t", "one literal"),
        ("SELECT LAPLACE(eps=(SELECT 1)) COUNT(*) FROM t", "a literal"),
        ("SELECT GAUSSIAN(eps=1, delta=2) COUNT(*) FROM t", "delta must be"),
        ("SELECT LAPLACE(eps=1, lower=0) COUNT(*) FROM t", "lower is not a parameter"),
        ("SELECT LAPLACE(0.5) COUNT(*) FROM t", "a named parameter"),
        ("SELECT LAPLACE(eps=1) array_agg(x) FROM t", "not an aggregate that can be released"),
        ("SELECT LAPLACE(eps=1) x FROM t", "an aggregate after LAPLACE"),
        ("SELECT LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) COUNT(*) FROM t", "alias"),
        ("SELECT __hushql_release_0(1) FROM t", "belong to the engine"),
        ("SELECT \"__HUSHQL_release_0\"(1) FROM t", "belong to the engine"),
        // sqlparser reads a quoted string as an alias, which once forged the hidden unit column.
        ("SELECT age AS '__hushql_unit' FROM t", "belong to the engine"),
        ("WITH t('__hushql_unit') AS (SELECT 1) SELECT 1 FROM t", "belong to the engine"),
        ("SELECT x FROM t WHERE x KEYS (1)", "write KEYS after"),
        ("", "no statement"),
        ("SELECT 1; SELECT 2", "the end of the statement"),
    ] {
        let message = syntax(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
    let Err(DialectError::Syntax { position, .. }) = parse("SELECT x\nFROM t WHERE )") else {
        panic!()
    };
    assert_eq!(position.map(|(line, _)| line), Some(2));
}

#[test]
fn dropped_clauses_are_refused() {
    for text in [
        "SELECT 1 FROM t TABLESAMPLE (10 PERCENT)",
        "SELECT 1 FROM t FOR UPDATE",
        "SELECT DISTINCT ON (x) x FROM t",
        "SELECT x FROM t, LATERAL (SELECT 1) s",
        "WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r",
        "SELECT name COLLATE \"C\" FROM t",
        "SELECT x FROM t FETCH FIRST 10 PERCENT ROWS ONLY",
        "SELECT x FROM t ORDER BY x FETCH FIRST 1 ROW WITH TIES",
        "SELECT x FROM t LIMIT 3 FETCH FIRST 1 ROW ONLY",
        "SELECT x FROM t a JOIN u b",
        "SELECT x FROM (t a LEFT JOIN u b) WHERE a.x = b.x",
        "BEGIN",
        "COPY t FROM 'x'",
        "INSERT INTO t VALUES (1)",
        "SET x = 1",
        "EXPLAIN ANALYZE SELECT 1",
        "CREATE TABLE v AS SELECT 1",
    ] {
        assert!(matches!(parse(text), Err(DialectError::Refused(_))), "{text}: {:?}", parse(text));
    }
}

/// The parser reads a mistake inside CAST or POSITION again at each level, so thirty levels never
/// finished.
#[test]
fn mistakes_deep_inside_are_found_soon() {
    for head in ["CAST(", "POSITION(", "CEIL(", "SUBSTRING(", "INTERVAL ", "CONVERT(", "ARRAY["] {
        for levels in [20, 45, 400] {
            let text = format!("SELECT {}", head.repeat(levels));
            assert!(parse(&text).is_err(), "{head}");
        }
    }
    let right = format!("SELECT {}x{} FROM t", "CAST(CEIL(".repeat(11), ") AS DOUBLE)".repeat(11));
    assert!(parse(&right).is_ok(), "{:?}", parse(&right));
}

#[test]
fn declarations_parse() {
    for text in [
        "CREATE EXTERNAL TABLE adult STORED AS CSV LOCATION 'adult.csv' OPTIONS ('has_header' 'true')",
        "CREATE EXTERNAL TABLE a (id BIGINT, x DOUBLE) STORED AS PARQUET LOCATION 'a.parquet'",
        "CREATE EXTERNAL TABLE a STORED AS CSV PARTITIONED BY (year INT, \"Who\", price DECIMAL(9, 2)) LOCATION 'a/**/*.csv'",
        "CREATE EXTERNAL TABLE a (partitioned INT) STORED AS JSON partitioned by (by) LOCATION 'a' OPTIONS ('content_hash' 'true')",
        "CREATE EXTERNAL TABLE a (id INT) STORED AS POSTGRES LOCATION 'postgresql://u@h/d' OPTIONS (table 's.\"T\"')",
        "ALTER TABLE adult SET PRIVACY UNIT ROW",
        "ALTER TABLE visits SET PRIVACY UNIT (patient_id) MAX ROWS 20;",
        "ALTER TABLE customer SET PRIVACY UNIT (c) UNIQUE",
        "ALTER TABLE visits SET PRIVACY UNIT (p) PER MONTH OF (\"at\") MAX ROWS 3 OTHER PEOPLE THAN a",
        "ALTER TABLE visits SET PRIVACY UNIT (per) per month of (month)",
        "ALTER TABLE visits SET PRIVACY SPENT (epsilon=1) UNIT (p) PER MONTH OF (at) BY lab",
        "ALTER TABLE survey SET PRIVACY UNIT (id) unique presence public",
        "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region, \"Sex\") OTHER PEOPLE THAN a",
        "ALTER TABLE survey SET PRIVACY UNIT (presence) UNIQUE",
        "ALTER TABLE survey ALTER COLUMN region SET PUBLIC",
        "ALTER TABLE survey SET PRIVACY SPENT (epsilon=1) PRESENCE PUBLIC BY lab",
        "ALTER TABLE b SET PRIVACY UNIT ROW OTHER PEOPLE THAN a, \"A b\"",
        "ALTER TABLE b SET PRIVACY UNIT VIA (x) REFERENCES c(y) MAX ROWS 2 other people than a;",
        "ALTER TABLE nation SET PUBLIC",
        "ALTER TABLE nation REFRESH",
        "ALTER TABLE nation SET STRICT",
        "ALTER TABLE nation DROP STRICT",
        "ALTER TABLE adult DROP PRIVACY UNIT",
        "ALTER TABLE adult ALTER COLUMN status SET PRIVACY DOMAIN IN ('a', NULL)",
        "ALTER TABLE bids ALTER COLUMN bid SET PRIVACY DOMAIN BETWEEN (0, 5) STEP 0.01",
        "ALTER TABLE bids ALTER COLUMN bid SET PRIVACY DOMAIN BETWEEN (0, 5) STEP 0.01 OR NULL",
        "ALTER TABLE o ALTER COLUMN ts SET PRIVACY DOMAIN BETWEEN (TIMESTAMP '2025-01-01', DATE '2025-12-31')",
        "ALTER TABLE o ALTER COLUMN ts DROP PRIVACY DOMAIN",
        "ALTER TABLE o ALTER COLUMN ts SET PRIVACY DOMAIN BETWEEN DATE '2025-01-01' AND DATE '2025-12-31' OR NULL",
        "ALTER TABLE o ALTER x SET PRIVACY DOMAIN BETWEEN -5 AND 5 STEP 0.5",
        "ALTER TABLE o SET PRIVACY SPENT (epsilon=0, delta=2, rho=1e3, rho_delta=0)",
        "ALTER TABLE o SET PRIVACY SPENT (rho=1) TOGETHER WITH \"A b\", c;",
        "CREATE EXTERNAL TABLE IF NOT EXISTS a STORED AS CSV LOCATION 'a.csv'",
        "CREATE EXTERNAL TABLE if (not_exists INT) STORED AS CSV LOCATION 'a.csv'",
        "CREATE OR REPLACE EXTERNAL TABLE a STORED AS CSV LOCATION 'a.csv'",
        "CREATE OR REPLACE PRIVACY BUDGET r FOR a LIMIT (rho=1) SPENT (rho=1, delta=1e-7)",
        "CREATE PRIVACY BUDGET IF NOT EXISTS r FOR a LIMIT (epsilon=1) PER QUERY (max=1) SPENT (epsilon=1)",
        "ALTER PRIVACY BUDGET r SET PER QUERY (default=0.1)",
        "ALTER PRIVACY BUDGET r DROP PER QUERY",
        "ALTER PRIVACY BUDGET r ADD SLICE lab LIMIT (epsilon=1, delta=1e-7)",
        "ALTER PRIVACY BUDGET r ALTER SLICE \"Eve-2\" SET LIMIT (rho=0.1)",
        "ALTER PRIVACY BUDGET r SLICE lab SET LIMIT (coupons=3)",
        "ALTER PRIVACY BUDGET r DROP SLICE lab",
        "ALTER PRIVACY BUDGET partition PARTITION BY \"by\"",
        "ALTER PRIVACY BUDGET r DROP PARTITION",
        "CREATE PRIVACY BUDGET r FOR a LIMIT (epsilon=2) SLICE lab LIMIT (epsilon=1) PARTITION BY region",
        "CREATE PRIVACY BUDGET r FOR a LIMIT (epsilon=2) SPENT (epsilon=1) SLICE lab LIMIT (epsilon=1) SPENT (epsilon=0.5) SLICE eve LIMIT (epsilon=1)",
        "ALTER TABLE a SET PRIVACY SPENT (epsilon=1) BY lab TOGETHER WITH b",
        "DROP PRIVACY BUDGET IF EXISTS r",
        "DROP TABLE IF EXISTS adult",
        "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
        "CREATE PRIVACY BUDGET r FOR adult LIMIT (epsilon=10, delta=1e-6) PER QUERY (default=0.1, max=1)",
        "CREATE PRIVACY BUDGET r FOR adult LIMIT (epsilon=10) PER QUERY (min=1e-4, max=1)",
        "CREATE PRIVACY BUDGET r FOR adult LIMIT (rho=1) PER QUERY (min_rho => 1e-4)",
        "ALTER PRIVACY BUDGET r SET LIMIT (epsilon=20)",
        "DROP PRIVACY BUDGET r",
        "DROP TABLE adult",
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE VIEW v (a, b) AS (SELECT 1, 2);",
        "DROP VIEW IF EXISTS v",
        "DROP VIEW if",
        "ALTER TABLE t RELOAD",
        "ALTER TABLE t SET ABOUT 5 PEOPLE",
        "ALTER TABLE t DROP ABOUT",
    ] {
        assert!(matches!(parse(text), Ok(Statement::Declare(_))), "{text}: {:?}", parse(text));
    }
    for text in [
        "SHOW TABLES",
        "SHOW PRIVACY",
        "SHOW PRIVACY BUDGET r",
        "SHOW PRIVACY STATEMENT FOR r",
        "SHOW PRIVACY REQUESTS",
        "DESCRIBE adult",
        "SHOW CREATE VIEW v",
        "SHOW CREATE TABLE v",
        "SHOW CREATE BUDGET v",
        "SHOW CREATE PRIVACY BUDGET privacy",
        "alter table \"A b\" suggest privacy;",
        "ALTER TABLE suggest SUGGEST PRIVACY",
    ] {
        assert!(matches!(parse(text), Ok(Statement::Show(_))), "{text}");
    }
}

#[test]
fn mistakes_in_declarations_are_errors() {
    for (text, expected) in [
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "not both"),
        ("CREATE OR REPLACE PRIVACY BUDGET IF NOT EXISTS b FOR t LIMIT (rho=1)", "not both"),
        ("ALTER PRIVACY BUDGET b SET x", "SET PER QUERY"),
        ("ALTER PRIVACY BUDGET b ADD SLICE a LIMIT (delta=0.1)", "needs epsilon, rho or coupons"),
        (
            "ALTER PRIVACY BUDGET b ADD SLICE a LIMIT (epsilon=1, rho=1)",
            "counts as its budget does",
        ),
        (
            "ALTER PRIVACY BUDGET b ADD SLICE a LIMIT (coupons=0)",
            "coupons is out of range: write a whole number from 1 to",
        ),
        (
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1e8)",
            "write a number from 1e-12 to 1000000",
        ),
        ("ALTER PRIVACY BUDGET b SET LIMIT (rho=1, delta=2)", "write a number between 0 and 1"),
        (
            "ALTER PRIVACY BUDGET b SET PER QUERY (max=1e7)",
            "max is out of range: write a number from",
        ),
        ("SHOW PRIVACY BUDGET b BY YEAR", "BY MONTH or BY CELL"),
        ("ALTER PRIVACY BUDGET b PARTITION region", "BY"),
        ("CREATE PRIVACY BUDGET b FOR t LIMIT (rho=1) PARTITION BY", "identifier"),
        ("ALTER PRIVACY BUDGET IF EXISTS b SET LIMIT (rho=1)", "SET"),
        ("ALTER TABLE t ALTER c SET PRIVACY DOMAIN BETWEEN 1, 2", "AND"),
        ("ALTER TABLE t ALTER c SET PRIVACY DOMAIN BETWEEN (1 AND 2)", ","),
        ("ALTER TABLE t ALTER c SET PRIVACY DOMAIN BETWEEN 1 AND x", "a literal"),
        ("CREATE PRIVACY BUDGET b FOR t LIMIT (rho=1) SPENT (sigma=1)", "not sigma"),
        (
            "CREATE PRIVACY BUDGET b FOR t LIMIT (rho=1) SPENT (rho=-1)",
            "rho is out of range: write a number of at least 0",
        ),
        ("CREATE PRIVACY BUDGET b FOR t LIMIT (rho=1) SPENT (rho='1')", "rho is out of range"),
        ("CREATE PRIVACY BUDGET b FOR t LIMIT (rho=1) SPENT (rho=1, rho=2)", "given twice"),
        (
            "CREATE PRIVACY BUDGET b FOR t LIMIT (rho=1) SPENT (rho=1, delta=0, rho_delta=0)",
            "one delta",
        ),
        ("ALTER TABLE t SET PRIVACY SPENT (epsilon=1) TOGETHER WITH", "identifier"),
        ("ALTER TABLE t SUGGEST", "PRIVACY"),
        ("ALTER TABLE t SUGGEST PRIVACY x", "the end of the statement"),
    ] {
        let message = syntax(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

/// The operand of `IS DISTINCT FROM` once contained all the rest of the condition, with AND and OR.
#[test]
fn distinct_from_ends_before_and() {
    for (written, read) in [
        ("a IS DISTINCT FROM 1 AND b", "(a IS DISTINCT FROM 1) AND (b)"),
        ("a IS NOT DISTINCT FROM b + 1 OR c", "(a IS NOT DISTINCT FROM b + 1) OR (c)"),
        ("NOT a IS DISTINCT FROM b AND c", "(NOT a IS DISTINCT FROM b) AND (c)"),
        ("a IS DISTINCT FROM b = c AND d", "(a IS DISTINCT FROM (b = c)) AND (d)"),
        ("a + 1 IS DISTINCT FROM b IS NULL", "((a + 1) IS DISTINCT FROM b) IS NULL"),
    ] {
        let tree = |condition: &str| {
            let mut tree = query(&format!("SELECT x FROM t WHERE {condition}")).tree;
            let _ = sqlparser::ast::visit_expressions_mut(&mut tree, |e| {
                while let sqlparser::ast::Expr::Nested(inner) = e {
                    *e = inner.as_ref().clone();
                }
                std::ops::ControlFlow::<()>::Continue(())
            });
            format!("{tree:?}")
        };
        // Only the positions in the text differ.
        let bare = |tree: String| {
            tree.split("Location(")
                .map(|part| part.split_once(')').map_or(part, |(_, rest)| rest).to_owned())
                .collect::<String>()
        };
        assert_eq!(bare(tree(written)), bare(tree(read)), "{written}");
    }
}

#[test]
fn sets_of_keys_are_spelled_out() {
    for (written, sets) in [
        ("ROLLUP (a, b)", "(a, b), (a), ()"),
        ("ROLLUP ((a, b), c)", "(a, b, c), (a, b), ()"),
        ("CUBE (a, b)", "(a, b), (a), (b), ()"),
        ("CUBE (a, (b, c), d)", "(a, b, c, d), (a, b, c), (a, d), (a), (b, c, d), (b, c), (d), ()"),
        ("c, ROLLUP (a), GROUPING SETS ((b), ())", "(c, a, b), (c, a), (c, b), (c)"),
        ("GROUPING SETS (a, (b, c), ROLLUP (a, (b, c)), CUBE (d))", {
            "(a), (b, c), (a, b, c), (a), (), (d), ()"
        }),
        ("()", "()"),
        ("(), a", "(a)"),
        ("ROLLUP (2, 1)", "(b, a), (b), ()"),
        ("a, b WITH ROLLUP", "(a, b), (a), ()"),
        ("b WITH CUBE", "(b), ()"),
    ] {
        let query =
            query(&format!("SELECT a, b, LAPLACE(eps=1) COUNT(*) n FROM t GROUP BY {written}"));
        let expected = format!("GROUP BY GROUPING SETS ({sets})");
        assert!(query.tree.to_string().ends_with(&expected), "{written}: {}", query.tree);
    }
    let listed = query("SELECT LAPLACE(eps=1) COUNT(*) FROM t GROUP BY ROLLUP (a KEYS ('x'), b)");
    let keys = Some(KeysClause::List(vec![Literal::Text("x".into())]));
    assert_eq!(listed.releases[0].keys, [keys.clone(), None, keys]);
    let most = query("SELECT LAPLACE(eps=1) COUNT(*) FROM t GROUP BY CUBE (a, b, c, d, e, f)");
    assert_eq!(most.tree.to_string().matches('(').count(), 3 + 64);
    // A parameter is always a value, never a position.
    let given = [Value::Integer(1)];
    let sql = "SELECT a, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY GROUPING SETS (ROLLUP ($1), (a))";
    assert!(matches!(parse_with(sql, &Size::default(), &given), Err(DialectError::Refused(_))));
}
