//! What a client is told of a statement before it has values: types, columns, and mistakes.

use super::client::{Client, Said, error_code, texts};
use super::{PASSWORD, Served};

const INT8: u32 = 20;
const TEXT: u32 = 25;
const FLOAT8: u32 = 701;
const DATE: u32 = 1082;

/// A vault with visits, which have a day, a ward and an age.
fn visits() -> Served {
    let study = crate::contract::program::Study::with_people();
    study.write(
        "visits.csv",
        "id,age,ward,day,at\n1,30,east,2020-01-02,2020-01-02 03:04:05\n2,41,west,2020-02-03,2020-02-03 04:05:06\n3,52,east,2021-03-04,2021-03-04 05:06:07\n",
    );
    study
        .owner(
            "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT ROW;
             ALTER TABLE visits ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 100);
             ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('east', 'west', 'north');
             ALTER TABLE visits ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN ('2019-01-01', '2022-12-31');
             ALTER TABLE visits ALTER COLUMN at SET PRIVACY DOMAIN BETWEEN ('2019-01-01 00:00:00', '2022-12-31 00:00:00');
             CREATE PRIVACY BUDGET v FOR visits LIMIT (epsilon=100000, delta=1e-5)
                 PER QUERY (max=50000)",
        )
        .says(0, &[]);
    study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    Served::of(study, &[])
}

fn described(client: &mut Client, sql: &str, types: &[u32]) -> Said {
    client.parse("", sql, types);
    client.describe(b'S', "");
    client.sync()
}

/// The number of charges.
fn charges(client: &mut Client) -> String {
    let said = client.query("SELECT COUNT(*) AS n FROM hushql.ledger WHERE kind = 'paid'");
    texts(&said).concat().concat()
}

fn asked(client: &mut Client, sql: &str, types: &[u32], values: &[&str]) -> Said {
    client.parse("", sql, types);
    let values: Vec<_> = values.iter().map(|value| (0, Some(value.as_bytes()))).collect();
    client.bind("", "", &values, &[]);
    client.execute("", 0);
    client.sync()
}

/// No value is tried, so none can be refused: the types are those of the other side.
#[test]
fn parameters_have_the_types_of_the_other_side() {
    let served = visits();
    let mut lab = served.lab();
    let before = served.study.spent();
    for (condition, expected) in [
        ("age > $1", vec![INT8]),
        ("day BETWEEN $1 AND $2", vec![DATE, DATE]),
        ("$1 <= day AND ward LIKE $2", vec![DATE, TEXT]),
        ("ward ILIKE '%' || $1 || '%'", vec![TEXT]),
        ("ward = $1 OR ward IN ($2, $3)", vec![TEXT; 3]),
        ("age / $1 > 2", vec![INT8]),
        ("age % $1 = 0", vec![INT8]),
        ("EXTRACT(YEAR FROM day) = $1", vec![23]),
        ("age + 0.5 > $1::float8", vec![FLOAT8]),
        ("(age > 30) = $1", vec![16]),
        ("CASE WHEN age > $1 THEN ward = $2 ELSE FALSE END", vec![INT8, TEXT]),
        ("age = ANY($1)", vec![1016]),
        ("ward = ANY($1)", vec![1009]),
        ("ward <> ALL($1)", vec![1009]),
        ("day = ANY($1)", vec![1182]),
        ("ward = ANY($1::text[])", vec![1009]),
    ] {
        let sql = format!("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE {condition}");
        for types in [vec![], vec![0; expected.len()], vec![705; expected.len()]] {
            let said = described(&mut lab, &sql, &types);
            assert_eq!(error_code(&said), None, "{sql}: {said:?}");
            assert_eq!(said.parameter_types(), expected, "{sql}");
            assert_eq!(said.columns(), [("n".to_owned(), INT8)], "{sql}");
        }
    }
    let having = "SELECT ward, LAPLACE(eps=1) COUNT(*) FROM visits GROUP BY ward HAVING LAPLACE(eps=1) COUNT(*) > $1 LIMIT $2";
    let said = described(&mut lab, having, &[]);
    assert_eq!(said.parameter_types(), [INT8, INT8], "{said:?}");
    assert_eq!(served.study.spent(), before);
}

/// A text in quotes beside a truth value is one, in every place where PostgreSQL 15 reads it so.
#[test]
fn texts_are_truth_values() {
    let served = visits();
    let mut lab = served.lab();
    // Two of the three visits are of people above 40.
    for (condition, expected) in [
        ("(age > 40) = 't'", "2"),
        ("'t' = (age > 40)", "2"),
        ("(age > 40) <> 'f'", "2"),
        ("(age > 40) != ' Off '", "2"),
        ("(age > 40) = 'TRUE'", "2"),
        ("(age > 40) = 'tru'", "2"),
        ("(age > 40) = 'y' AND ward = 'west'", "1"),
        ("(age > 40) = '0'", "1"),
        ("(age > 40) > 'f'", "2"),
        ("(age > 40) IN ('t', 'on')", "2"),
        ("(age > 40) NOT IN ('f')", "2"),
        ("'1' IN (age > 40, ward = 'north')", "2"),
        ("(age > 40) = ANY ('{t,yes}')", "2"),
        ("(age > 40) BETWEEN 't' AND 't'", "2"),
        ("(age > 40) IS DISTINCT FROM 'f'", "2"),
        ("'no' IS NOT DISTINCT FROM (age > 40)", "1"),
        ("CASE age > 40 WHEN 't' THEN TRUE ELSE FALSE END", "2"),
        ("CASE WHEN age > 40 THEN 't' ELSE ward = 'north' END = TRUE", "2"),
        ("CASE WHEN age > 40 THEN ward <> 'north' ELSE 'f' END", "2"),
        ("COALESCE(age > 40, 'f') = 't' AND TRUE", "2"),
        ("COALESCE(age > 40, 'f')", "2"),
        ("NULLIF(age > 40, 'f') IS NOT NULL", "2"),
        ("GREATEST(age > 40, 'f')", "2"),
    ] {
        let sql = format!("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM visits WHERE {condition}");
        assert_eq!(texts(&lab.query(&sql)), [[expected]], "{condition}");
    }
    let public = "SELECT (3 > 2) = 't', (3 > 2) IN ('f'), COALESCE(3 > 2, 'f') = 't', ('t' = 't')";
    assert_eq!(texts(&lab.query(public)), [["t", "f", "t", "t"]]);
    let before = served.study.spent();
    for (condition, word) in [
        ("(age > 40) = 'maybe'", "'maybe' is neither"),
        ("(age > 40) = 'o'", "'o' is neither"),
        ("(age > 40) = ''", "'' is neither"),
        ("(age > 40) IN ('t', 'maybe')", "'maybe' is neither"),
        ("(age > 40) IS DISTINCT FROM 'maybe'", "'maybe' is neither"),
        ("COALESCE(age > 40, 'maybe')", "'maybe' is neither"),
        // A column or a cast is no literal, as in PostgreSQL.
        ("(age > 40) = ward", "is a text"),
        ("(age > 40) = CAST('t' AS VARCHAR)", "is a text"),
        ("(age > 40) = 1", "is a number"),
    ] {
        let said =
            lab.query(&format!("SELECT LAPLACE(eps=1) COUNT(*) FROM visits WHERE {condition}"));
        assert_eq!(error_code(&said).as_deref(), Some("HQ025"), "{condition}");
        let message = said.error_field(b'M').unwrap();
        assert!(message.contains(word), "{condition}: {message}");
    }
    assert_eq!(served.study.spent(), before);
}

/// As PostgreSQL describes them: postgres.js sends a list only where the server says array.
#[test]
fn parameters_of_the_catalog_have_the_types_of_the_other_side() {
    let served = visits();
    let mut lab = served.lab();
    for (sql, expected) in [
        ("SELECT relname FROM pg_class WHERE oid = $1 AND relname = $2", vec![26, 19]),
        ("SELECT 1 FROM information_schema.tables WHERE table_schema = ANY($1)", vec![1003]),
        ("SELECT relname FROM pg_class WHERE oid = ANY($1) LIMIT $2", vec![1028, INT8]),
        ("SELECT relname FROM pg_class WHERE relkind = ANY($1)", vec![1009]),
        ("SELECT relname FROM pg_class WHERE oid = $1::oid AND relname ~ $2", vec![26, TEXT]),
    ] {
        let said = described(&mut lab, sql, &[]);
        assert_eq!(error_code(&said), None, "{sql}: {said:?}");
        assert_eq!(said.parameter_types(), expected, "{sql}");
    }
    let sql = "SELECT relname FROM pg_class WHERE relname = ANY($1) AND relnamespace = $2";
    let said = asked(&mut lab, sql, &[], &["{visits,nothing}", "2200"]);
    assert_eq!(texts(&said), [["visits"]], "{said:?}");
}

/// Mistakes come with Parse, before a client sends a value: pg8000 waits for ever for the answer to
/// a Describe that fails.
#[test]
fn mistakes_come_with_parse() {
    let served = visits();
    let mut lab = served.lab();
    for (sql, code) in [
        ("SELEC $1", "42601"),
        ("SELECT LAPLACE(eps=1) COUNT(*) FROM visits WHERE agee > $1", "42703"),
        ("SELECT LAPLACE(eps=1) COUNT(*) FROM nowhere WHERE age > $1", "42P01"),
        ("SELECT nosuch($1) FROM visits", "42883"),
        ("SELECT LAPLACE(eps=$1) COUNT(*) FROM visits", "42601"),
        ("INSERT INTO visits VALUES ($1)", "HQ003"),
    ] {
        lab.parse("", sql, &[]);
        let said = lab.sync();
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}: {said:?}");
        let message = said.error_field(b'M').unwrap();
        assert!(!message.contains("example") && !message.contains("__hushql"), "{message}");
        assert!(!message.contains("only queries take parameters"), "{message}");
    }
    // What values decide is said when they are there.
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM visits WHERE ward = $1";
    assert_eq!(error_code(&described(&mut lab, sql, &[])), None);
    let said = asked(&mut lab, sql, &[], &["south"]);
    assert_eq!(error_code(&said).as_deref(), Some("HQ025"), "{said:?}");
    let private = "SELECT * FROM visits WHERE age > $1";
    assert_eq!(error_code(&described(&mut lab, private, &[])), None);
    assert_eq!(error_code(&asked(&mut lab, private, &[], &["3"])).as_deref(), Some("HQ001"));
    assert_eq!(served.study.spent().0, 0);
}

#[test]
fn parameters_are_asked_in_the_shapes_of_drivers() {
    let served = visits();
    let mut lab = served.lab();
    const COUNT: &str = "SELECT LAPLACE(eps=100) COUNT(*) AS n FROM visits WHERE";
    for (condition, values, n) in [
        ("day BETWEEN $1 AND $2", &["2020-01-01", "2020-12-31"][..], "2"),
        ("age = ANY($1)", &["{30,52}"], "2"),
        ("ward = ANY($1)", &["{east,\"west\"}"], "3"),
        ("ward <> ALL($1)", &["{east}"], "1"),
        ("ward ILIKE '%' || $1 || '%'", &["EAS"], "2"),
        ("ward ~~ $1", &["w%"], "1"),
        ("age % $1 = 0", &["10"], "1"),
        ("(age > 40) = $1", &["t"], "2"),
        ("EXTRACT(YEAR FROM day) = $1", &["2021"], "1"),
        ("ward = E'east' AND age >= $1", &["31"], "1"),
        ("at >= $1 AND at < $2", &["2020-01-01", "2021-01-01 00:00:00"], "2"),
    ] {
        let said = asked(&mut lab, &format!("{COUNT} {condition}"), &[], values);
        assert_eq!(texts(&said), [[n]], "{condition}: {said:?}");
    }
    // In binary, too.
    let number = |n: i32| n.to_be_bytes();
    let array = [number(1), number(0), number(20), number(2), number(1)].concat();
    let of = |n: i64| [8_i32.to_be_bytes().as_slice(), &n.to_be_bytes()].concat();
    let array = [array, of(30), of(41)].concat();
    lab.parse("", &format!("{COUNT} age = ANY($1)"), &[1016]);
    lab.bind("", "", &[(1, Some(&array))], &[]);
    lab.execute("", 0);
    let said = lab.sync();
    assert_eq!(texts(&said), [["2"]], "{said:?}");
}

#[test]
fn statements_are_prepared_in_sql_as_well() {
    let served = visits();
    let mut lab = served.lab();
    let sql = "PREPARE p (int, text) AS SELECT LAPLACE(eps=100) COUNT(*) AS n FROM visits WHERE age > $1 AND ward = $2";
    assert_eq!(lab.query(sql).tags(), ["PREPARE"]);
    assert_eq!(texts(&lab.query("EXECUTE p (40, 'east')")), [["1"]]);
    assert_eq!(texts(&lab.query("EXECUTE p ('20', 'east')")), [["2"]]);
    assert_eq!(error_code(&lab.query("EXECUTE p (40)")).as_deref(), Some("42601"));
    assert_eq!(error_code(&lab.query("EXECUTE p ('x', 'east')")).as_deref(), Some("22P02"));
    assert_eq!(error_code(&lab.query("EXECUTE q (1)")).as_deref(), Some("26000"));
    assert_eq!(
        error_code(&lab.query("PREPARE r AS SELECT oops FROM visits")).as_deref(),
        Some("42703")
    );
    assert_eq!(lab.query("DEALLOCATE p").tags(), ["DEALLOCATE"]);
    assert_eq!(charges(&mut lab), "2");
}

#[test]
fn cursors_take_parameters_and_go_back() {
    let served = visits();
    let mut lab = served.lab();
    lab.query("BEGIN");
    let sql = "DECLARE c CURSOR FOR SELECT ward, LAPLACE(eps=100) COUNT(*) AS n FROM visits WHERE age > $1 GROUP BY ward ORDER BY ward";
    let said = asked(&mut lab, sql, &[], &["1"]);
    assert_eq!(said.tags(), ["DECLARE CURSOR"], "{said:?}");
    let ward = |said: &Said| texts(said).into_iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    for (step, expected) in [
        ("FETCH 2 FROM c", &["east", "north"][..]),
        ("FETCH BACKWARD 1 FROM c", &["east"]),
        ("FETCH LAST FROM c", &["west"]),
        ("FETCH FIRST FROM c", &["east"]),
        ("FETCH ABSOLUTE 2 FROM c", &["north"]),
        ("FETCH NEXT FROM c", &["west"]),
        ("FETCH NEXT FROM c", &[]),
        ("FETCH BACKWARD ALL FROM c", &["west", "north", "east"]),
        ("FETCH ALL FROM c", &["east", "north", "west"]),
    ] {
        assert_eq!(ward(&lab.query(step)), expected, "{step}");
    }
    lab.query("COMMIT");
    assert_eq!(charges(&mut lab), "1");
}

/// A cursor is declared before a driver says how it reads the rows: each FETCH chooses its formats.
#[test]
fn cursors_are_fetched_in_binary() {
    let served = visits();
    let mut lab = served.lab();
    lab.query("BEGIN");
    let sql = "DECLARE c SCROLL CURSOR FOR SELECT ward, LAPLACE(eps=100) COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward";
    assert_eq!(lab.query(sql).tags(), ["DECLARE CURSOR"]);
    let fetched = |lab: &mut Client, step: &str, formats: &[i16]| {
        lab.parse("", &format!("FETCH {step} FROM c"), &[]);
        lab.bind("", "", &[], formats);
        lab.describe(b'P', "");
        lab.execute("", 0);
        let said = lab.sync();
        assert_eq!(error_code(&said), None, "{step}: {said:?}");
        said.rows()
    };
    let row = |ward: &str, n: &[u8]| vec![Some(ward.as_bytes().to_vec()), Some(n.to_vec())];
    let [none, one, two] = [0_i64, 1, 2].map(i64::to_be_bytes);
    assert_eq!(fetched(&mut lab, "1", &[1]), [row("east", &two)]);
    assert_eq!(fetched(&mut lab, "ALL", &[0, 1]), [row("north", &none), row("west", &one)]);
    assert_eq!(fetched(&mut lab, "PRIOR", &[1, 0]), [row("west", b"1")]);
    let back = [row("north", &none), row("east", &two)];
    assert_eq!(fetched(&mut lab, "BACKWARD ALL", &[1]), back);
    assert_eq!(fetched(&mut lab, "ABSOLUTE 9", &[1]), Vec::<Vec<Option<Vec<u8>>>>::new());
    assert_eq!(fetched(&mut lab, "LAST", &[]), [row("west", b"1")]);
    lab.query("COMMIT");
    // The rows of a portal were encoded when it ran.
    lab.query("BEGIN");
    lab.parse("s", "SELECT LAPLACE(eps=100) COUNT(*) AS n FROM visits", &[]);
    lab.bind("p", "s", &[], &[1]);
    lab.execute("p", 0);
    lab.parse("", "FETCH FIRST FROM p", &[]);
    lab.bind("", "", &[], &[0]);
    lab.execute("", 0);
    assert_eq!(error_code(&lab.sync()).as_deref(), Some("0A000"));
    lab.query("ROLLBACK");
    assert_eq!(charges(&mut lab), "2");
}

/// Programs ask for columns by a query without rows. It is free, and checks names and rights.
#[test]
fn probes_have_columns_and_no_row() {
    let served = visits();
    let mut lab = served.lab();
    for sql in [
        "SELECT * FROM visits WHERE 0 = 1",
        "SELECT * FROM visits WHERE (1 = 0) LIMIT 10",
        "SELECT * FROM visits LIMIT 0",
        "SELECT * FROM public.visits AS v WHERE FALSE AND v.age > 3",
        "SELECT * FROM hushql.public.visits LIMIT 0",
        "TABLE visits LIMIT 0",
    ] {
        let said = lab.query(sql);
        assert_eq!(error_code(&said), None, "{sql}: {said:?}");
        let names: Vec<String> = said.columns().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["id", "age", "ward", "day", "at"], "{sql}");
        assert_eq!(said.tags(), ["SELECT 0"], "{sql}");
    }
    let question = "SELECT ward, LAPLACE(eps=1) COUNT(*) AS n FROM visits GROUP BY ward";
    for sql in [
        format!("SELECT * FROM ({question}) AS q WHERE 1 = 0"),
        format!("SELECT * FROM ({question}) AS q LIMIT 0"),
        "SELECT ward, COUNT(*) AS n FROM visits WHERE 0 = 1 GROUP BY ward".to_owned(),
    ] {
        let said = lab.query(&sql);
        let expected = [("ward".to_owned(), TEXT), ("n".to_owned(), INT8)];
        assert_eq!(said.columns(), expected, "{sql}: {said:?}");
        assert_eq!(said.tags(), ["SELECT 0"], "{sql}");
    }
    for rest in ["", " ORDER BY 1", " ORDER BY n DESC, s"] {
        let sql = format!("SELECT COUNT(*) AS n, SUM(age) AS s FROM visits WHERE 0 = 1{rest}");
        let said = lab.query(&sql);
        assert_eq!(texts(&said), [["0", ""]], "{sql}: {said:?}");
    }
    let said = lab.query("SELECT DISTINCT COUNT(*) AS n FROM visits WHERE 0 = 1");
    assert_eq!(texts(&said), [["0"]], "{said:?}");
    for (sql, code) in [
        ("SELECT oops FROM visits WHERE 0 = 1", "42703"),
        ("SELECT * FROM nowhere LIMIT 0", "42P01"),
        ("CREATE RELEASE TABLE r AS SELECT COUNT(*) AS n FROM visits WHERE 0 = 1", "HQ003"),
        // A domain that rules out all rows is no literal.
        ("SELECT LAPLACE(eps=1) COUNT(*) FROM visits WHERE age > 200", "HQ025"),
        ("SELECT * FROM (SELECT * FROM visits WHERE 0 = 1) AS q", "HQ001"),
    ] {
        let said = lab.query(sql);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}: {said:?}");
    }
    assert_eq!(served.study.spent().0, 0);
}

/// The values of a list to choose from are those of the declaration.
#[test]
fn values_of_a_domain_come_from_the_declaration() {
    let served = visits();
    let mut lab = served.lab();
    for (sql, expected) in [
        ("SELECT DISTINCT ward FROM visits ORDER BY ward", &["east", "north", "west"][..]),
        (
            "SELECT ward AS ward FROM public.visits GROUP BY ward ORDER BY ward LIMIT 2",
            &["east", "north"],
        ),
        (
            "SELECT \"visits\".\"ward\" AS \"ward\" FROM \"public\".\"visits\" GROUP BY \"visits\".\"ward\" ORDER BY \"visits\".\"ward\" DESC",
            &["west", "north", "east"],
        ),
        (
            "SELECT DISTINCT v.ward AS w FROM visits AS v WHERE v.ward LIKE '%st' ORDER BY 1",
            &["east", "west"],
        ),
        (
            "SELECT ward FROM visits WHERE ward <> 'east' GROUP BY ward ORDER BY ward",
            &["north", "west"],
        ),
    ] {
        let said = lab.query(sql);
        let values: Vec<String> = texts(&said).concat();
        assert_eq!(values, expected, "{sql}: {said:?}");
        let notices = said.notices().concat();
        assert!(notices.contains("values of the declared domain of visits.ward"), "{notices}");
    }
    assert_eq!(served.study.spent().0, 0);
    // Anything else would pass for data.
    for sql in [
        "SELECT DISTINCT ward FROM visits WHERE age > 50",
        "SELECT COUNT(*) FROM (SELECT DISTINCT ward FROM visits) AS q",
        "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 1",
        "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*)",
        "SELECT DISTINCT ward, age FROM visits",
        "SELECT DISTINCT ward FROM (SELECT ward FROM visits LIMIT 1) AS q",
        "SELECT DISTINCT upper(ward) FROM visits",
        "SELECT ward FROM visits",
    ] {
        let said = lab.query(sql);
        assert!(error_code(&said).is_some(), "{sql}: {said:?}");
    }
    assert_eq!(served.study.spent().0, 0);
}

/// Tools parse what they send by PostgreSQL's grammar, so a mechanism can be called like a
/// function.
#[test]
fn mechanisms_are_called_like_functions() {
    let served = visits();
    let mut lab = served.lab();
    for (called, written) in [
        ("laplace(count(*), 0.5)", "LAPLACE(eps=0.5) COUNT(*)"),
        ("laplace(sum(age), eps => 0.5)", "LAPLACE(eps=0.5) SUM(age)"),
        (
            "laplace(count(DISTINCT ward), 1, rows => 3)",
            "LAPLACE(eps=1, rows=3) COUNT(DISTINCT ward)",
        ),
        ("gaussian(avg(age), 1, delta => 1e-6)", "GAUSSIAN(eps=1, delta=1e-6) AVG(age)"),
        ("exponential(median(age), 2)", "EXPONENTIAL(eps=2) MEDIAN(age)"),
        (
            "laplace(count(*) FILTER (WHERE age > 40), 1)",
            "LAPLACE(eps=1) COUNT(*) FILTER (WHERE age > 40)",
        ),
    ] {
        let explained = |lab: &mut Client, call: &str| {
            let said = lab.query(&format!("EXPLAIN PRIVACY SELECT {call} FROM visits"));
            assert_eq!(error_code(&said), None, "{call}: {said:?}");
            texts(&said)
        };
        assert_eq!(explained(&mut lab, called), explained(&mut lab, written), "{called}");
    }
    // A question that was paid for is the same question in the other spelling.
    let said = lab.query("SELECT laplace(count(*), 100) FROM visits");
    assert_eq!(
        (texts(&said), said.columns()),
        (vec![vec!["3".to_owned()]], vec![("count".to_owned(), INT8)])
    );
    let before = charges(&mut lab);
    let said = lab.query("SELECT LAPLACE(eps=100) COUNT(*) FROM visits");
    assert_eq!(texts(&said), [["3"]]);
    assert_eq!(charges(&mut lab), before);
}

/// Rows are read by the names that PostgreSQL gives.
#[test]
fn aggregates_are_called_by_their_functions() {
    let served = visits();
    let mut lab = served.lab();
    let sql = "SELECT ward, LAPLACE(eps=100) COUNT(*), LAPLACE(eps=100) SUM(age) FROM visits GROUP BY ward";
    let names: Vec<String> = lab.query(sql).columns().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ward", "count", "sum"]);
    let parameters =
        "SELECT ward, LAPLACE(eps=100) COUNT(*) FILTER (WHERE age > $1) FROM visits GROUP BY ward";
    let told = described(&mut lab, parameters, &[]).columns();
    lab.bind("", "", &[(0, Some(b"40"))], &[]);
    lab.describe(b'P', "");
    assert_eq!(lab.sync().columns(), told);
    assert_eq!(told[1].0, "count");
}

/// Superset counts the rows of a question with a LIMIT: those that it shows.
#[test]
fn rows_of_a_question_are_counted() {
    let served = visits();
    served.study.owner("ALTER PRIVACY BUDGET v SET PER QUERY (default=100)").says(0, &[]);
    let mut lab = served.lab();
    let question = "SELECT ward AS ward, COUNT(*) AS n FROM visits GROUP BY ward";
    assert_eq!(lab.query(question).rows().len(), 3);
    let before = charges(&mut lab);
    for (limit, rows) in [(100, "3"), (2, "2")] {
        let sql =
            format!("SELECT COUNT(*) AS rowcount FROM ({question} LIMIT {limit}) AS rowcount_qry");
        let said = lab.query(&sql);
        assert_eq!(texts(&said), [[rows]], "{said:?}");
    }
    // The question was paid for.
    assert_eq!(charges(&mut lab), before);
    // Without a LIMIT it is a question about the wards that have visits, as before.
    let said = lab.query(&format!("SELECT COUNT(*) AS n FROM ({question}) AS q"));
    assert_eq!(error_code(&said), None, "{said:?}");
}

/// What a connection holds from before a REVOKE is forgotten: cursors, portals and prepared
/// statements. What tools ask of the catalog follows the grants.
#[test]
fn a_revoke_reaches_open_connections() {
    let served = visits();
    let mut lab = served.lab();
    let privilege = "SELECT has_table_privilege('visits', 'SELECT') AS may";
    let listed = "SELECT relname, array_to_string(relacl, ' ') AS acl FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = 2200 ORDER BY 1";
    assert_eq!(texts(&lab.query(privilege)), [["t"]]);
    assert_eq!(texts(&lab.query(listed)), [["people", "lab=r/owner"], ["visits", "lab=r/owner"]]);
    let sql = "SELECT ward, LAPLACE(eps=1) COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward";
    lab.query("BEGIN");
    assert_eq!(lab.query(&format!("DECLARE c CURSOR FOR {sql}")).tags(), ["DECLARE CURSOR"]);
    assert_eq!(lab.query("FETCH 1 FROM c").rows().len(), 1);
    lab.parse("p", sql, &[]);
    lab.describe(b'S', "p");
    lab.bind("portal", "p", &[], &[]);
    assert!(error_code(&lab.sync()).is_none());
    // A grant of everything changes nothing.
    served
        .study
        .owner(
            "GRANT SELECT ON ALL TABLES TO lab; GRANT USAGE ON ALL BUDGETS TO lab; SET GRANTS REQUIRED",
        )
        .says(0, &["grants are required"]);
    assert_eq!(lab.query("FETCH 1 FROM c").rows().len(), 1);
    let spent = || served.study.owner("SHOW PRIVACY BUDGET").out;
    let before = spent();
    served.study.owner("REVOKE SELECT ON visits FROM lab").says(0, &[]);
    assert_eq!(error_code(&lab.query("FETCH 1 FROM c")).as_deref(), Some("34000"));
    lab.query("ROLLBACK");
    lab.execute("portal", 0);
    assert_eq!(error_code(&lab.sync()).as_deref(), Some("34000"));
    lab.describe(b'S', "p");
    let described = lab.sync();
    assert!(error_code(&described).is_some() && described.rows().is_empty(), "{described:?}");
    for sql in [
        sql,
        privilege,
        "SELECT 'visits'::regclass",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people, visits",
        "DESCRIBE visits",
    ] {
        let [gone, missing] =
            [sql.to_owned(), sql.replace("visits", "nosuch")].map(|sql| lab.query(&sql));
        let words = |said: &Said| {
            let each = said.0.iter().map(|(kind, body)| {
                format!("{} {}", char::from(*kind), String::from_utf8_lossy(body))
            });
            each.collect::<Vec<String>>().join("|")
        };
        assert_eq!(words(&gone).replace("visits", "nosuch"), words(&missing), "{sql}");
        assert!(error_code(&gone).is_some(), "{sql}");
    }
    assert_eq!(texts(&lab.query(listed)), [["people", "lab=r/owner"]]);
    for catalog in [
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
        "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT table_name FROM information_schema.table_privileges",
        "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'public'",
    ] {
        assert_eq!(texts(&lab.query(catalog)), [["people"]], "{catalog}");
    }
    assert_eq!(spent(), before);
}

/// Nothing was held before it, so there was nothing to compare with.
#[test]
fn the_first_cursor_of_a_connection_ends_with_its_grant() {
    let served = visits();
    served
        .study
        .owner(
            "GRANT SELECT ON ALL TABLES TO lab; GRANT USAGE ON ALL BUDGETS TO lab; SET GRANTS REQUIRED",
        )
        .says(0, &["grants are required"]);
    let mut lab = served.lab();
    let sql = "SELECT ward, LAPLACE(eps=1) COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward";
    let opened = lab.query(&format!("DECLARE c SCROLL CURSOR WITH HOLD FOR {sql}"));
    assert_eq!(opened.tags(), ["DECLARE CURSOR"]);
    served.study.owner("REVOKE SELECT ON visits FROM lab").says(0, &[]);
    assert_eq!(error_code(&lab.query("FETCH ALL FROM c")).as_deref(), Some("34000"));
}

/// A vault that is served before it has roles and charges begins with grants that are required; one
/// with a role keeps its rule.
#[test]
fn a_new_vault_is_served_with_grants() {
    let study = crate::contract::program::Study::with_people();
    let served = Served::of(study, &[]);
    served.study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    let mut lab = served.lab();
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";
    assert_eq!(error_code(&lab.query(count)).as_deref(), Some("42P01"));
    served
        .study
        .owner("GRANT SELECT ON people TO lab; GRANT USAGE ON BUDGET b TO lab")
        .says(0, &[]);
    assert!(error_code(&lab.query(count)).is_none());
    let history = ["study.db", "--owner", "-c", "SHOW PRIVACY HISTORY"];
    assert!(served.study.run(&history).out.contains("grants: required"));
    let served = Served::with(&[]);
    assert!(error_code(&served.lab().query(count)).is_none());
}

/// A role that is limited to templates is told their columns and types, and calls them with values.
#[test]
fn templates_are_described_and_called_with_values() {
    let study = crate::contract::program::Study::with_people();
    study
        .owner(&format!(
            "CREATE TEMPLATE older(place VARCHAR IN ('Oslo', 'Rome'), than BIGINT BETWEEN (0, 90), since DATE DEFAULT DATE '2026-01-01') AS
                 SELECT LAPLACE(eps=100) COUNT(*) AS n FROM people WHERE city = $place AND age > $than AND $since > DATE '2000-01-01';
             CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}' TEMPLATES ONLY;
             GRANT EXECUTE ON TEMPLATE older TO lab"
        ))
        .says(0, &[]);
    let served = Served::of(study, &[]);
    let mut lab = served.lab();
    for sql in [
        "SELECT * FROM older($1, $2, $3)",
        "SELECT n FROM older($1, than => $2, since => $3) WHERE n > -9",
    ] {
        let said = described(&mut lab, sql, &[]);
        assert_eq!(error_code(&said), None, "{sql}: {said:?}");
        assert_eq!(said.parameter_types(), [TEXT, INT8, DATE], "{sql}");
        assert_eq!(said.columns(), [("n".to_owned(), INT8)], "{sql}");
    }
    for (values, code) in [
        (["Oslo", "91", "2026-01-01"], "HQ029"),
        (["Oslo' OR '1'='1", "30", "2026-01-01"], "HQ029"),
        (["Paris", "30", "2026-01-01"], "HQ029"),
    ] {
        let said = asked(&mut lab, "SELECT * FROM older($1, $2, $3)", &[], &values);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{values:?}: {said:?}");
    }
    for sql in ["SELECT LAPLACE(eps=1) COUNT(*) FROM people", "SHOW TABLES", "SELECT * FROM people"]
    {
        assert_eq!(error_code(&lab.query(sql)).as_deref(), Some("HQ003"), "{sql}");
    }
    let said =
        asked(&mut lab, "SELECT * FROM older($1, $2, $3)", &[], &["Oslo", "0", "2026-01-01"]);
    assert_eq!(texts(&said).len(), 1, "{said:?}");
    assert_eq!(texts(&lab.query("SELECT n FROM older('Oslo', 0)")), texts(&said));
    // As psql's \df asks.
    let functions = lab.query(
        "SELECT n.nspname as \"Schema\", p.proname as \"Name\", pg_catalog.pg_get_function_result(p.oid) as \"Result data type\",
           pg_catalog.pg_get_function_arguments(p.oid) as \"Argument data types\",
           CASE p.prokind WHEN 'a' THEN 'agg' WHEN 'w' THEN 'window' WHEN 'p' THEN 'proc' ELSE 'func' END as \"Type\"
         FROM pg_catalog.pg_proc p LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
         WHERE pg_catalog.pg_function_is_visible(p.oid) AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
         ORDER BY 1, 2, 4",
    );
    let arguments = "place text, than bigint, since date DEFAULT DATE '2026-01-01'";
    assert_eq!(texts(&functions), [["public", "older", "SETOF record", arguments, "func"]]);
}
