//! The owner's floor of people: with which probability numbers and groups of few people are shown,
//! what they cost, and what is refused.
//!
//! Statements are calibrated and run once on a small table; then only the draw repeats, from a
//! seeded generator. Each share of draws is compared with a bound that it exceeds with probability
//! below 10⁻⁶ if what is claimed holds; seeds are fixed.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use hushql::privacy::{Spend, parse_decimal};
use hushql::sampler::QueryRng;
use hushql::{Engine, Error};
use hushql_engine::analysis::Lookups;
use hushql_engine::exec::{Draws, session_state};
use hushql_engine::release::{Mechanism, Release};
use hushql_vault::catalog::{Budget, PerQuery, Privacy, Replay, Unit};

use crate::contract::asked::{done, why};
use crate::privacy::line;

/// A person, a group, a place without a domain, and a number that may be unknown.
type Row = (i64, &'static str, &'static str, Option<f64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
    let g: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.1)));
    let zip: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2)));
    let x: ArrayRef = Arc::new(rows.iter().map(|r| r.3).collect::<Float64Array>());
    let y = Arc::clone(&x);
    let columns = [("id", ids), ("g", g), ("zip", zip), ("x", x), ("y", y)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, a)| (name, a, name != "id")))
        .unwrap()
}

/// 9 people in group a, 40 in group b, of whom 9 have a number; in group c, one person has 60 rows,
/// and so have none of the others. The places are `few` (9 people) and `many` (40).
fn people() -> Vec<Row> {
    let a = (0..9).map(|id| (id, "a", "few", Some(1.0)));
    let b = (100..140).map(|id| (id, "b", "many", (id < 109).then_some(2.0)));
    let c = (0..20).map(|_| (500, "c", "one", Some(3.0)));
    a.chain(b).chain(c).collect()
}

const DRAWS: u32 = 20_000;

fn budget(min_units: i64, beta: Option<i64>) -> Budget {
    let per_query = PerQuery {
        default: Some(1_000_000_000),
        min_units: Some(min_units),
        min_units_beta: beta,
        ..PerQuery::default()
    };
    Budget {
        name: "b".to_owned(),
        table: "people".to_owned(),
        limit: Spend::of_epsilon(1_000_000_000_000, 500_000_000_000_000_000),
        promise: None,
        coupon: None,
        per_query,
        replay: Replay::Off,
    }
}

fn release(sql: &str, budgets: &[Budget]) -> Release {
    release_of(
        Unit::Column { column: "id".to_owned(), max_rows: Some(20), unique: false },
        sql,
        budgets,
    )
}

fn release_of(unit: Unit, sql: &str, budgets: &[Budget]) -> Release {
    let batches = vec![batch(&people())];
    let is_row = matches!(unit, Unit::Row);
    let domain = |column: &str| match column {
        "id" if is_row => line::between("0", "600"),
        "g" => line::listed(&["a", "b", "c", "d"]),
        "x" => line::between("0", "9"),
        _ => None,
    };
    let table = line::table("people", &batches[0].schema(), Privacy::Private(unit), domain);
    line::release_under(sql, &table, batches, &Lookups::default(), budgets)
}

/// How often a number is shown in each group.
async fn shown(sql: &str, budgets: &[Budget], column: usize, seed: u64) -> Vec<(String, f64)> {
    shown_of(&release(sql, budgets), column, seed).await
}

async fn shown_of(release: &Release, column: usize, seed: u64) -> Vec<(String, f64)> {
    let draws = Draws::for_part(release, 0, &session_state()).await.unwrap();
    let mut rng = QueryRng::seeded_for_tests(seed);
    let mut shown: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for _ in 0..DRAWS {
        let batch = draws.draw(&mut rng).unwrap();
        let keys =
            arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).unwrap();
        let keys = keys.as_string::<i32>();
        for (row, key) in keys.iter().enumerate() {
            let is_shown = batch.column(column).is_valid(row);
            *shown.entry(key.unwrap_or_default().to_owned()).or_default() += u32::from(is_shown);
        }
    }
    shown.into_iter().map(|(key, n)| (key, f64::from(n) / f64::from(DRAWS))).collect()
}

fn of(shown: &[(String, f64)], key: &str) -> f64 {
    shown.iter().find(|(known, _)| known == key).map_or(0.0, |(_, share)| *share)
}

/// A share of 20,000 draws with probability 0.05 each exceeds 0.0577 = 0.05 + 5·√(0.05·0.95/20,000)
/// with probability below 10⁻⁶; with probability 0.01 it exceeds 0.0137, five deviations and a
/// correction for skewness.
#[tokio::test]
async fn fewer_people_are_shown_with_beta_at_most() {
    let strict = Some(10_000_000_000_000_000);
    for (beta, most) in [(None, 0.0577), (strict, 0.0137)] {
        let budgets = [budget(10, beta)];
        let sql = "SELECT g, LAPLACE(eps=1, groups=1) COUNT(*) AS n FROM people GROUP BY g";
        let all = shown(sql, &budgets, 1, 1).await;
        assert!(of(&all, "a") <= most && of(&all, "c") < 0.01 && of(&all, "d") < 0.01, "{all:?}");
        assert!(of(&all, "b") > 0.999, "{all:?}");
        // Nine of the forty people of b have a number.
        for sum in ["SUM(x)", "AVG(x)", "COUNT(x)", "VAR_POP(x)"] {
            let sql =
                format!("SELECT g, LAPLACE(eps=1, groups=1) {sum} AS s FROM people GROUP BY g");
            let all = shown(&sql, &budgets, 1, 2).await;
            assert!(of(&all, "a") <= most && of(&all, "b") <= most, "{sql}: {all:?}");
            // The most that β allows is used: nine people are shown now and then.
            assert!(of(&all, "a") > most / 20.0, "{sql}: {all:?}");
        }
        let sql = "SELECT g, LAPLACE(eps=1, groups=1) COUNT(*) FILTER (WHERE id = 117) AS n FROM people GROUP BY g";
        let all = shown(sql, &budgets, 1, 3).await;
        assert!(of(&all, "b") < 0.01, "{all:?}");
        // Zeros for all others leave out whom FILTER leaves out.
        let one = "CASE WHEN id = 117 THEN 1 ELSE 0 END";
        for (number, from) in [
            (format!("SUM({one})"), "people".to_owned()),
            (format!("AVG({one})"), "people".to_owned()),
            ("SUM(CAST(id = 117 AS INT))".to_owned(), "people".to_owned()),
            ("SUM(z)".to_owned(), format!("(SELECT g, {one} AS z FROM people) AS t")),
        ] {
            let sql =
                format!("SELECT g, LAPLACE(eps=1, groups=1) {number} AS n FROM {from} GROUP BY g");
            let all = shown(&sql, &budgets, 1, 5).await;
            assert!(of(&all, "b") < 0.01, "{sql}: {all:?}");
        }
        let sql = "SELECT g, GAUSSIAN(rho=0.1, groups=1) AVG(x) AS n FROM people GROUP BY g";
        let all = shown(sql, &[rho_budget(beta)], 1, 4).await;
        assert!(of(&all, "a") <= most && of(&all, "b") <= most, "{all:?}");
    }
}

/// Where each row is a person, COUNT(*), SUM, AVG and STDDEV share a vector, and the count that
/// decides about them is a draw of its own.
#[tokio::test]
async fn numbers_of_rows_that_are_units_are_held_back_by_another_draw() {
    let budgets = [budget(10, None)];
    for numbers in [
        "COUNT(*) AS n, LAPLACE(eps=1) AVG(CLAMP(id, 1, 600))",
        "COUNT(*) AS n, LAPLACE(eps=1) STDDEV_POP(CLAMP(id, 1, 600))",
        "SUM(CLAMP(id, 1, 600)) AS n, LAPLACE(eps=1) AVG(CLAMP(id, 1, 600))",
    ] {
        let sql = format!("SELECT g, LAPLACE(eps=1) {numbers} AS m FROM people GROUP BY g");
        let release = release_of(Unit::Row, &sql, &budgets);
        for column in [1, 2] {
            let all = shown_of(&release, column, 6).await;
            assert!(of(&all, "a") <= 0.0577 && of(&all, "b") > 0.999, "{sql}: {all:?}");
        }
    }
}

fn rho_budget(beta: Option<i64>) -> Budget {
    let per_query = PerQuery { min_units: Some(10), min_units_beta: beta, ..PerQuery::default() };
    Budget { limit: Spend::of_rho(1_000_000_000_000, 0), per_query, ..budget(10, beta) }
}

/// A number that is shown has the law of its noise: the count that decides is another draw. Where
/// each row is a person, the number may be read from a vector, and the count is not.
#[tokio::test]
async fn what_is_shown_is_not_selected_by_its_size() {
    let budgets = [budget(38, None)];
    let unit = Unit::Column { column: "id".to_owned(), max_rows: Some(20), unique: false };
    for (unit, numbers, variance) in [
        // Scale 1 at ε = 1: the variance is 1.84.
        (unit, "LAPLACE(eps=2, groups=1) COUNT(DISTINCT id) AS n", 1.84),
        (Unit::Row, "LAPLACE(eps=2) COUNT(*) AS n, LAPLACE(eps=2) AVG(id)", 4.0),
        (Unit::Row, "LAPLACE(eps=2) COUNT(id) AS n, LAPLACE(eps=2) SUM(id)", 4.0),
    ] {
        let sql = format!("SELECT g, {numbers} FROM people GROUP BY g");
        let release = release_of(unit, &sql, &budgets);
        let draws = Draws::for_part(&release, 0, &session_state()).await.unwrap();
        let mut rng = QueryRng::seeded_for_tests(7);
        let (mut sum, mut n) = (0.0, 0.0);
        for _ in 0..DRAWS {
            let batch = draws.draw(&mut rng).unwrap();
            let column = batch.column(1).as_primitive::<arrow::datatypes::Int64Type>();
            if column.is_valid(1) {
                sum += column.value(1) as f64;
                n += 1.0;
            }
        }
        assert!(n > 0.2 * f64::from(DRAWS) && n < 0.8 * f64::from(DRAWS), "{sql}: {n}");
        // A mean of n draws is within 6·√(variance/n) except with a probability below 10⁻⁶.
        let mean = sum / n;
        assert!((mean - 40.0_f64).abs() < 6.0 * (variance / n).sqrt(), "{sql}: {mean}");
    }
}

/// τ = 15 for ε = 1, δ = 10⁻⁶ and one group: 23 for a floor of ten people.
#[tokio::test]
async fn unknown_groups_below_the_floor_are_hidden_by_delta() {
    let sql = "SELECT zip, LAPLACE(eps=1, delta=1e-6, groups=1) COUNT(DISTINCT id) AS n FROM people GROUP BY zip";
    let under = release(sql, &[budget(10, None)]);
    let hidden = under.partition_selection(0).unwrap();
    assert_eq!((hidden.threshold(), hidden.at_least(), hidden.floor()), (15, 23, 10));
    assert!(under.analysis().parts()[0].people_floor().unwrap().counts.is_empty());
    // What the analyst asks for can only raise it.
    for (asked, least) in [(5, 23), (40, 40)] {
        let sql = format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=1, min_privacy_units_per_group={asked}) zip, COUNT(DISTINCT id) AS n FROM people GROUP BY zip"
        );
        let release = release(&sql, &[budget(10, None)]);
        assert_eq!(release.partition_selection(0).unwrap().at_least(), least, "{asked}");
    }
    // δ = 0.05 can be seen in 20,000 draws.
    let sql =
        "SELECT zip, LAPLACE(eps=1, delta=0.05, groups=1) COUNT(*) AS n FROM people GROUP BY zip";
    let all = shown(sql, &[budget(10, None)], 1, 5).await;
    assert!(
        of(&all, "few") <= 0.0577 && of(&all, "one") < 0.01 && of(&all, "many") > 0.99,
        "{all:?}"
    );
    // A larger δ does not replace the owner's β.
    let sql =
        "SELECT zip, LAPLACE(eps=1, delta=0.3, groups=1) COUNT(*) AS n FROM people GROUP BY zip";
    let all = shown(sql, &[budget(10, None)], 1, 8).await;
    assert!(of(&all, "few") <= 0.0577 && of(&all, "many") > 0.99, "{all:?}");
}

/// The statement costs what it costs without a floor.
#[tokio::test]
async fn the_count_is_inside_of_the_price() {
    let one = parse_decimal("1").unwrap();
    for sql in [
        "SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY g",
        "SELECT g, LAPLACE(eps=0.4) SUM(x) AS s, LAPLACE(eps=0.6) AVG(x) AS a FROM people GROUP BY g",
        "SELECT g, LAPLACE(eps=0.4) COUNT(*) AS s, LAPLACE(eps=0.6) AVG(x) AS a FROM people GROUP BY g",
        "SELECT COUNT(*) AS n FROM people",
        "SELECT LAPLACE(eps=1) SUM(x) FILTER (WHERE g = 'a') AS n FROM people",
        "SELECT zip, LAPLACE(eps=1, delta=1e-6) SUM(x) AS s FROM people GROUP BY zip",
    ] {
        let under = release(sql, &[budget(10, None)]);
        assert_eq!(*under.loss().epsilon().unwrap(), one, "{sql}");
        assert!(under.analysis().parts()[0].people_floor().is_some());
    }
    // Numbers over the same people share one count.
    let sql = "SELECT g, LAPLACE(eps=1) SUM(x) AS s, LAPLACE(eps=1) AVG(x) AS a, LAPLACE(eps=1) COUNT(x) AS n FROM people GROUP BY g";
    let under = release(sql, &[budget(10, None)]);
    let floor = under.analysis().parts()[0].people_floor().unwrap();
    assert_eq!(floor.counts.len(), 1);
    assert_eq!((floor.counts[0].measure, floor.counts[0].of.clone()), (3, vec![0, 1, 2]));
    let Mechanism::Laplace(noise) = &under.mechanisms(0)[3].mechanism else { panic!() };
    // Half of ε = 1, for at most four groups of a unit.
    assert_eq!(*noise.scale(), parse_decimal("8").unwrap());
    assert_eq!(*under.loss().epsilon().unwrap(), parse_decimal("3").unwrap());
}

/// The people in a file: answers about registered rows are not kept.
async fn engine(floor: &str) -> (Engine, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let shown = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    let rows = people().into_iter().map(|(id, g, zip, x)| {
        let x = shown(x);
        format!("{id},{g},{zip},{x},{x}\n")
    });
    let file = folder.path().join("people.csv");
    std::fs::write(&file, format!("id,g,zip,x,y\n{}", rows.collect::<String>())).unwrap();
    let engine = Engine::init(folder.path().join("v.db")).unwrap();
    for statement in [
        &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", file.display()),
        "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 20",
        "ALTER TABLE people ALTER COLUMN g SET PRIVACY DOMAIN IN ('a', 'b', 'c')",
        "ALTER TABLE people ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 9)",
        "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=100000, delta=0.1) PER QUERY (default=1, default_delta=1e-6)",
        floor,
    ] {
        done(&engine.owner(), statement).await;
    }
    (engine, folder)
}

/// Whatever no count of people holds back is refused, with what to write, and costs nothing.
#[tokio::test]
async fn what_no_count_holds_back_is_refused() {
    let (engine, _folder) = engine("ALTER TABLE people SET PRIVACY FLOOR 10").await;
    let lab = engine.analyst("lab").unwrap();
    let before = lab.budgets().unwrap()[0].left;
    for sql in [
        "SELECT ARGMAX EXPONENTIAL(eps=1) g FROM people GROUP BY g",
        "SELECT g FROM people GROUP BY g ORDER BY COUNT(*) DESC LIMIT 1",
        "SELECT EXPONENTIAL(eps=1) MEDIAN(x) FROM people",
        "SELECT EXPONENTIAL(eps=1) MAX(x) FROM people",
        "SELECT LAPLACE(eps=1) COUNT(DISTINCT zip) FROM people",
        "SELECT LAPLACE(eps=1) CORR(x, x + 1) FROM people",
        "SELECT LAPLACE(eps=1, rows=auto) COUNT(*) FROM people",
        "SELECT g, LAPLACE(eps=1, total=3) COUNT(*) FROM people GROUP BY g",
        "SELECT LAPLACE(within=5) COUNT(*) FROM people",
        "SELECT SUM(y) FROM people",
        "SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY ROLLUP (g) CONSISTENT",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) zip, SUM(x) AS n FROM people GROUP BY zip",
        "CREATE SYNTHETIC TABLE made AS AIM(eps=1) SELECT g FROM people",
    ] {
        let error = match sql.starts_with("CREATE") {
            true => why(&lab, sql).await,
            false => lab.query(sql).await.unwrap_err().to_string(),
        };
        assert!(
            error.contains("table people shows no number of fewer than 10 people"),
            "{sql}: {error}"
        );
    }
    let ranged = engine.owner();
    let error = why(&ranged, "ANALYZE PRIVACY DOMAIN people.x WITH (eps=1)").await;
    assert!(!error.is_empty(), "{error}");
    assert_eq!(lab.budgets().unwrap()[0].left, before, "nothing is charged");
    assert!(matches!(
        lab.query("SELECT EXPONENTIAL(eps=1) MAX(x) FROM people").await,
        Err(Error::Refused(_))
    ));
}

/// Replays, notes and explanations name the floor; a change of it ends replays.
#[tokio::test]
async fn answers_and_explanations_name_the_floor() {
    let (engine, _folder) = engine("ALTER TABLE people SET PRIVACY FLOOR 10").await;
    let lab = engine.analyst("lab").unwrap();
    let sql =
        "SELECT g, LAPLACE(eps=2) COUNT(*) AS n, LAPLACE(eps=2) AVG(x) AS a FROM people GROUP BY g";
    let first = lab.query(sql).await.unwrap();
    let again = lab.query(sql).await.unwrap();
    assert!(again.receipt().unwrap().is_replayed, "{again}");
    assert_eq!((first.batches(), first.notes()), (again.batches(), again.notes()));
    let notes = first.notes().join("\n");
    assert!(notes.contains("table people sets a floor of 10 people"), "{notes}");
    let explained = lab.explain(sql).unwrap();
    let text = explained.to_string();
    assert!(text.contains("floor        10 people, set by table people: "), "{text}");
    assert!(explained.to_json().contains("\"set_by\":\"table people\""), "{}", explained.to_json());
    // What it advises to write has the whole cost of a number, half of which counts the people.
    assert!(text.contains("LAPLACE(eps=2, rows=1) count(*)"), "{text}");
    assert!(text.contains("LAPLACE(eps=2, rows=1) avg(x)"), "{text}");
    done(&engine.owner(), "ALTER TABLE people SET PRIVACY FLOOR 12").await;
    assert!(!lab.query(sql).await.unwrap().receipt().unwrap().is_replayed);
    done(&engine.owner(), "ALTER TABLE people DROP PRIVACY FLOOR").await;
    let free = lab.query(sql).await.unwrap();
    assert!(free.notes().iter().all(|note| !note.contains("floor")), "{free}");
    assert!(free.batches().iter().all(|batch| batch.column(1).null_count() == 0), "{free}");
    // A script does not lose the floor of a table that is about nobody for a while.
    let owner = engine.owner();
    done(&owner, "ALTER TABLE people SET PRIVACY FLOOR 12").await;
    let floor = "ALTER TABLE people SET PRIVACY FLOOR 12";
    assert!(engine.dump().unwrap().contains(&format!("\n{floor}")));
    done(&owner, "ALTER TABLE people DROP PRIVACY UNIT").await;
    let script = engine.dump().unwrap();
    assert!(script.contains(&format!("Once it has a privacy unit: {floor}")), "{script}");
}

/// What stands above a hidden number sees NULL.
#[tokio::test]
async fn nothing_above_sees_a_hidden_number() {
    let (engine, _folder) = engine("ALTER TABLE people SET PRIVACY FLOOR 1000").await;
    let lab = engine.analyst("lab").unwrap();
    for sql in [
        "SELECT SUM(n) AS s FROM (SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY g) q",
        "SELECT LAPLACE(eps=1) COUNT(*) + 1 AS s FROM people",
        "SELECT LAPLACE(eps=1) AVG(x) AS s FROM people",
        "SELECT LAPLACE(eps=1) SUM(x) / LAPLACE(eps=1) COUNT(x) AS s FROM people",
        "SELECT LAPLACE(eps=1) STDDEV(x) AS s FROM people",
    ] {
        let answer = lab.query(sql).await.unwrap();
        let batch = &answer.batches()[0];
        assert_eq!(batch.column(0).null_count(), 1, "{sql}: {answer}");
    }
    let sql = "SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY g HAVING n > -1000000";
    let rows: usize =
        lab.query(sql).await.unwrap().batches().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 0);
}

/// A value in place of a hidden number, and a sum that leaves it out, have no ±: it would be that
/// of the shown numbers alone. What is NULL with the number keeps its ±.
#[tokio::test]
async fn what_leaves_hidden_numbers_out_has_no_error() {
    let (engine, _folder) = engine("ALTER TABLE people SET PRIVACY FLOOR 10").await;
    let lab = engine.analyst("lab").unwrap();
    let grouped = "(SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY g) q";
    for (select, has_error) in [
        (format!("SUM(n) AS s FROM {grouped}"), false),
        (format!("AVG(n) AS s FROM {grouped}"), false),
        (format!("g, n / SUM(n) OVER () AS s FROM {grouped}"), false),
        (format!("g, COALESCE(n, 0) AS s FROM {grouped}"), false),
        (format!("g, GREATEST(n, 0) AS s FROM {grouped}"), false),
        (format!("g, LAG(n, 1, 0) OVER (ORDER BY g) AS s FROM {grouped}"), false),
        (format!("g, n * 2 AS s FROM {grouped}"), true),
        (format!("g, ABS(n) + 1 AS s FROM {grouped}"), true),
        (format!("g, LAG(n) OVER (ORDER BY g) AS s FROM {grouped}"), true),
        ("SUM(n) AS s FROM (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people) q".to_owned(), true),
    ] {
        let sql = format!("SELECT {select}");
        let answer = lab.query(&sql).await.unwrap();
        let column = answer.schema().index_of("s").unwrap();
        let known = answer.errors(column).flatten().count();
        assert_eq!(known > 0, has_error, "{sql}: {answer}");
    }
    let sql = "SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY g ORDER BY n DESC";
    for (sql, is_said) in [(sql.to_owned(), true), (format!("{sql} NULLS LAST"), false)] {
        let notes = lab.query(&sql).await.unwrap().notes().join("\n");
        assert_eq!(notes.contains("come first in this order"), is_said, "{sql}: {notes}");
    }
}
