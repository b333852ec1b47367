//! Units that are one month of a person: what is declared, which months a statement is charged to,
//! what a load does to them, and that no month of a person loses more than was charged to it.

use std::collections::BTreeSet;
use std::path::Path;

use hushql::{Engine, Session};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::contract::asked::{cells as values, done, told, why};
use crate::contract::program::Study;

/// A visit: who, when, on which ward, at which cost.
type Visit = (u32, &'static str, &'static str, u32);

const VISITS: [Visit; 8] = [
    (1, "2026-01-03", "A", 10),
    (1, "2026-01-31", "B", 20),
    (1, "2026-02-01", "A", 30),
    (2, "2026-02-28", "B", 40),
    (2, "2026-03-01", "A", 50),
    (3, "", "A", 60),
    (3, "1950-05-05", "B", 70),
    (4, "2051-01-01", "B", 80),
];

fn text(visits: &[Visit]) -> String {
    let header = "patient,visited_at,ward,cost\n".to_owned();
    visits
        .iter()
        .fold(header, |all, (id, at, ward, cost)| all + &format!("{id},{at},{ward},{cost}\n"))
}

/// An engine over these visits, with ε = `limit` for each month.
async fn engine(folder: &Path, visits: &[Visit], limit: u32) -> Engine {
    let file = folder.join("visits.csv");
    std::fs::write(&file, text(visits)).unwrap();
    let engine = Engine::in_memory().unwrap();
    for sql in [
        &format!(
            "CREATE EXTERNAL TABLE visits (patient BIGINT, visited_at DATE, ward VARCHAR, cost BIGINT) STORED AS CSV LOCATION '{}'",
            file.display()
        ),
        "ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at) MAX ROWS 4",
        "ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B')",
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "CREATE VIEW recent AS SELECT * FROM visits WHERE visited_at >= DATE '2026-02-01' AND visited_at < DATE '2026-04-01'",
        &format!(
            "CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon={limit}, delta=1e-3) REPLAY (OFF)"
        ),
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

/// The line of an explanation about cells.
async fn cells(session: &Session, sql: &str) -> String {
    let shown = done(session, &format!("EXPLAIN PRIVACY {sql}")).await;
    let lines: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cells "))
        .map(str::trim)
        .collect();
    lines.join("; ")
}

#[tokio::test]
async fn a_statement_is_charged_to_the_months_that_it_can_touch() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 1_000).await;
    let lab = engine.analyst("lab").unwrap();
    let march = "charged to visited_at '2026-03' alone";
    let two = "charged to visited_at '2026-02' and '2026-03' alone";
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM";
    for (condition, expected) in [
        ("visited_at >= DATE '2026-03-01' AND visited_at < DATE '2026-04-01'", march),
        ("visited_at BETWEEN DATE '2026-03-01' AND DATE '2026-03-31'", march),
        ("visited_at > DATE '2026-02-28' AND visited_at <= DATE '2026-03-31' AND cost > 3", march),
        ("visited_at > DATE '2026-02-27' AND visited_at < DATE '2026-04-01'", two),
        ("DATE '2026-03-01' <= visited_at AND DATE '2026-04-01' > visited_at", march),
        ("visited_at = DATE '2026-03-09'", march),
        ("visited_at IN (DATE '2026-03-09', DATE '2026-02-01')", two),
        ("visited_at >= '2026-03-01' AND visited_at < '2026-04-01'", march),
        ("visited_at IS NULL", "charged to visited_at other alone"),
        ("visited_at = DATE '1950-05-05'", "charged to visited_at other alone"),
        (
            "visited_at BETWEEN DATE '2049-12-31' AND DATE '2050-01-01'",
            "charged to visited_at '2049-12' and other alone",
        ),
        (
            "visited_at >= DATE '2049-11-30'",
            "charged to visited_at '2049-11', '2049-12' and other alone",
        ),
        ("visited_at < DATE '1970-02-01'", "charged to visited_at '1970-01' and other alone"),
        (
            "visited_at <= DATE '1970-02-01'",
            "charged to visited_at '1970-01', '1970-02' and other alone",
        ),
    ] {
        let sql = format!("{count} visits WHERE {condition}");
        assert_eq!(cells(&lab, &sql).await, expected, "{condition}");
    }
    let to_april = "charged to visited_at '2026-02', '2026-03' and '2026-04' alone";
    for (condition, expected) in [
        ("DATE_TRUNC('month', visited_at) = DATE '2026-03-01'", march),
        ("DATE '2026-03-01' = DATE_TRUNC('month', visited_at)", march),
        ("DATE_TRUNC('MONTH', visited_at) = TIMESTAMP '2026-03-01 00:00:00'", march),
        ("DATE_TRUNC('day', visited_at) IN (DATE '2026-03-02', DATE '2026-02-27')", two),
        ("DATE_TRUNC('week', visited_at) = DATE '2026-02-23'", two),
        ("DATE_TRUNC('week', visited_at) = DATE '2026-03-02'", march),
        ("DATE_TRUNC('month', visited_at) BETWEEN DATE '2026-02-01' AND DATE '2026-03-01'", two),
        (
            "DATE_TRUNC('month', visited_at) >= DATE '2026-02-01' AND DATE_TRUNC('month', visited_at) < DATE '2026-04-01'",
            two,
        ),
        (
            "DATE_TRUNC('month', visited_at) > DATE '2026-01-31' AND DATE_TRUNC('quarter', visited_at) < DATE '2026-04-01'",
            two,
        ),
        (
            "DATE_TRUNC('year', visited_at) <= DATE '1970-01-01' AND visited_at >= DATE '1970-12-01'",
            "charged to visited_at '1970-12' alone",
        ),
        (
            "DATE_TRUNC('week', visited_at) <= DATE '2026-03-30' AND visited_at > DATE '2026-01-31'",
            to_april,
        ),
    ] {
        let sql = format!("{count} visits WHERE {condition}");
        assert_eq!(cells(&lab, &sql).await, expected, "{condition}");
    }
    let counts = "LAPLACE(eps=1, groups=1) COUNT(*) AS n";
    let february = "visited_at >= DATE '2026-02-01' AND visited_at < DATE '2026-04-01'";
    let by_month = "DATE_TRUNC('month', visited_at)";
    for (sql, expected) in [
        (format!("SELECT {by_month} AS m, {counts} FROM visits WHERE {february} GROUP BY m"), two),
        (
            format!(
                "SELECT {by_month} AS m, LAPLACE(eps=1, rows=auto) COUNT(*) AS n FROM visits WHERE {february} GROUP BY m"
            ),
            two,
        ),
        (
            format!(
                "SELECT {by_month} AS m, {counts} FROM visits GROUP BY m KEYS (DATE '2026-02-01', DATE '2026-03-01')"
            ),
            two,
        ),
        (
            format!(
                "SELECT {by_month} AS m, LAPLACE(eps=1, groups=1) COUNT(DISTINCT patient) AS n FROM visits GROUP BY m KEYS (DATE '2026-03-01')"
            ),
            march,
        ),
        (
            format!(
                "SELECT DATE_TRUNC('week', visited_at) AS w, {counts} FROM visits GROUP BY w KEYS (DATE '2026-02-23')"
            ),
            two,
        ),
        (
            format!(
                "SELECT visited_at AS d, {counts} FROM visits GROUP BY d KEYS (DATE '2026-03-09')"
            ),
            march,
        ),
        (
            format!(
                "SELECT ward, EXTRACT(DAY FROM visited_at) AS d, {counts} FROM visits WHERE {february} GROUP BY ward, d"
            ),
            two,
        ),
    ] {
        assert_eq!(cells(&lab, &sql).await, expected, "{sql}");
    }
    // Where a bound is chosen, keys alone show nothing.
    let chosen = format!(
        "SELECT {by_month} AS m, LAPLACE(eps=1, rows=auto) COUNT(*) AS n FROM visits GROUP BY m KEYS (DATE '2026-03-01')"
    );
    let told = cells(&lab, &chosen).await;
    assert!(told.contains("because nothing shows which months"), "{told}");
    assert!(
        told.contains("write WHERE visited_at >= DATE '2026-03-01' AND visited_at <"),
        "{told}"
    );
    for (sql, expected) in [
        (format!("{count} recent"), two),
        (format!("{count} recent WHERE visited_at > DATE '2026-02-28'"), march),
        (
            format!(
                "{count} (SELECT * FROM recent WHERE visited_at = DATE '2026-03-01' UNION ALL SELECT * FROM recent) u"
            ),
            two,
        ),
        (
            "SELECT ward, LAPLACE(eps=1, groups=1) COUNT(*) AS n FROM recent GROUP BY ward"
                .to_owned(),
            two,
        ),
    ] {
        assert_eq!(cells(&lab, &sql).await, expected, "{sql}");
    }
    for condition in [
        "cost > 3",
        "visited_at >= DATE '2026-03-01' OR cost > 3",
        "NOT visited_at < DATE '2026-03-01'",
        "visited_at <> DATE '2026-03-01'",
        "visited_at IS NOT NULL",
        "EXTRACT(YEAR FROM visited_at) = 2026",
        "DATE_TRUNC('month', visited_at) <> DATE '2026-03-01'",
        "NOT DATE_TRUNC('month', visited_at) = DATE '2026-03-01'",
        "DATE_TRUNC('month', visited_at + INTERVAL '1' MONTH) = DATE '2026-03-01'",
        "DATE_TRUNC('month', COALESCE(visited_at, DATE '2026-03-01')) = DATE '2026-03-01'",
        "visited_at + INTERVAL '1' DAY < DATE '2026-03-01'",
        "COALESCE(visited_at, DATE '2026-03-01') = DATE '2026-03-01'",
    ] {
        let told = cells(&lab, &format!("{count} visits WHERE {condition}")).await;
        assert!(
            told.starts_with(
                "charged to all cells of visited_at, because nothing shows which months"
            ),
            "{condition}: {told}"
        );
    }
}

/// The months of a template's call follow from its values, and its price is the same for all.
#[tokio::test]
async fn a_template_is_charged_to_the_months_of_its_values() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 1_000).await;
    let created = done(
        &engine.owner(),
        "CREATE TEMPLATE monthly(first DATE BETWEEN (DATE '2026-01-01', DATE '2026-12-01'), past DATE BETWEEN (DATE '2026-01-01', DATE '2027-01-01')) AS
         SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE visited_at >= $first AND visited_at < $past",
    )
    .await;
    let call = "SELECT * FROM monthly(DATE '2026-01-01', DATE '2027-01-01')";
    assert!(created.contains(call) && created.contains("each call costs ε = 1"), "{created}");
    let lab = engine.analyst("lab").unwrap();
    for (values, expected) in [
        ("DATE '2026-03-01', DATE '2026-04-01'", "charged to visited_at '2026-03' alone"),
        (
            "past => DATE '2026-04-01', first => '2026-02-28'",
            "charged to visited_at '2026-02' and '2026-03' alone",
        ),
        ("'2026-11-30', '2026-12-01'", "charged to visited_at '2026-11' alone"),
    ] {
        let sql = format!("SELECT * FROM monthly({values})");
        assert_eq!(cells(&lab, &sql).await, expected, "{sql}");
        done(&lab, &sql).await;
    }
    let spent = spent(&lab).await;
    for (cell, expected) in [("2026-03", 2.0), ("2026-02", 1.0), ("2026-11", 1.0), ("2026-12", 0.0)]
    {
        assert!((spent_on(&spent, cell) - expected).abs() < 1e-9, "{cell}: {spent:?}");
    }
    let refused = why(&lab, "SELECT * FROM monthly('2026-04-01', '2026-03-01')").await;
    assert!(
        refused.contains("nothing was charged: no row can pass")
            && !refused.contains("declaration"),
        "{refused}"
    );
}

/// One row of each person in each month is a row of one unit.
#[tokio::test]
async fn a_person_and_a_month_are_a_group_of_one_unit() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 900_000).await;
    let lab = engine.analyst("lab").unwrap();
    let each = "(SELECT patient, DATE_TRUNC('month', visited_at) AS m, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY patient, m) q";
    for (sql, expected) in [
        (format!("SELECT LAPLACE(eps=10000) COUNT(*) AS n FROM {each}"), "7"),
        (format!("SELECT LAPLACE(eps=10000) SUM(n) AS n FROM {each}"), "8"),
        (format!("SELECT LAPLACE(eps=10000) COUNT(*) AS n FROM {each} WHERE n > 1"), "1"),
        (format!("SELECT LAPLACE(eps=10000) COUNT(DISTINCT patient) AS n FROM {each} WHERE cost = 30"), "1"),
        (
            "SELECT LAPLACE(eps=10000, rows=4) COUNT(*) AS n FROM (SELECT patient, visited_at, COUNT(*) AS n FROM visits GROUP BY patient, visited_at) q".to_owned(),
            "8",
        ),
    ] {
        assert_eq!(values(&lab, &sql).await, expected, "{sql}");
    }
    let explained =
        done(&lab, &format!("EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {each}"))
            .await;
    assert!(explained.contains("Δ₁ = 1\n"), "{explained}");
    // The conditions of the subquery show the months.
    let march = each.replace("visits GROUP", "recent WHERE visited_at > DATE '2026-02-28' GROUP");
    let told = cells(&lab, &format!("SELECT LAPLACE(eps=1) AVG(n) AS n FROM {march}")).await;
    assert_eq!(told, "charged to visited_at '2026-03' alone");
    // What a refusal proposes is answered.
    let refused = why(&lab, "SELECT LAPLACE(eps=1) AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) q").await;
    assert!(
        refused.contains("GROUP BY patient, DATE_TRUNC('month', visited_at) in the subquery"),
        "{refused}"
    );
    // A domain moves dates of several months to its ends.
    done(&engine.owner(), "ALTER TABLE visits ALTER COLUMN visited_at SET PRIVACY DOMAIN BETWEEN (DATE '2026-01-15', DATE '2026-03-20')").await;
    let refused = why(&lab, &format!("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM {each}")).await;
    assert!(
        refused.contains("mixes the rows of several months") && !refused.contains("DATE_TRUNC"),
        "{refused}"
    );
}

/// The forecast is that of the month that runs out first, not of the sum of all months.
#[tokio::test]
async fn the_forecast_is_that_of_the_dearest_month() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 8).await;
    let lab = engine.analyst("lab").unwrap();
    let account = async || values(&lab, "SHOW PRIVACY BUDGET b").await;
    assert!(account().await.ends_with("nothing was spent in the last 7 days"));
    let of = |month: u32| {
        format!(
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE visited_at = DATE '2026-{month:02}-01'"
        )
    };
    for month in 1..=9 {
        done(&lab, &of(month)).await;
    }
    // Seven times as much is left of each as was spent of it in a week.
    assert!(
        account()
            .await
            .ends_with("at the pace of the last 7 days: 49 days, for visited_at '2026-01'"),
        "{}",
        account().await
    );
    done(&lab, &of(3)).await;
    assert!(
        account()
            .await
            .ends_with("at the pace of the last 7 days: 21 days, for visited_at '2026-03'"),
        "{}",
        account().await
    );
    done(&lab, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits").await;
    assert!(
        account()
            .await
            .ends_with("at the pace of the last 7 days: 11 days, for visited_at '2026-03'"),
        "{}",
        account().await
    );
    // After a declaration, what the dearest month has spent counts for all of them.
    done(
        &engine.owner(),
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 90)",
    )
    .await;
    assert!(
        account().await.ends_with("at the pace of the last 7 days: 11 days"),
        "{}",
        account().await
    );
}

/// One month of a person counts as one person, however many rows are in it; several months of a
/// person count once, too.
#[tokio::test]
async fn a_month_of_a_person_adds_one_person_to_a_count() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 1_000_000).await;
    let lab = engine.analyst("lab").unwrap();
    let months = "visited_at >= DATE '2026-01-01' AND visited_at < DATE '2026-04-01'";
    let by_month = "DATE_TRUNC('month', visited_at)";
    for (sql, range) in [
        (
            format!(
                "SELECT LAPLACE(eps=1) COUNT(DISTINCT patient) AS n FROM visits WHERE {months}"
            ),
            1,
        ),
        (
            format!(
                "SELECT LAPLACE(eps=1) COUNT(DISTINCT CAST(patient AS VARCHAR)) AS n FROM visits WHERE {months}"
            ),
            1,
        ),
        (
            format!(
                "SELECT {by_month} AS m, LAPLACE(eps=1) COUNT(DISTINCT patient) AS n FROM visits WHERE {months} GROUP BY m"
            ),
            1,
        ),
        (
            format!(
                "SELECT ward, LAPLACE(eps=1) COUNT(DISTINCT patient) AS n FROM visits WHERE {months} GROUP BY ward"
            ),
            2,
        ),
        (
            format!(
                "SELECT {by_month} AS m, ward, LAPLACE(eps=1) COUNT(DISTINCT patient) AS n FROM visits WHERE {months} GROUP BY m, ward"
            ),
            4,
        ),
        (
            format!(
                "SELECT {by_month} AS m, LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE {months} GROUP BY m"
            ),
            4,
        ),
        (format!("SELECT LAPLACE(eps=1) COUNT(DISTINCT ward) AS n FROM visits WHERE {months}"), 2),
        (format!("SELECT LAPLACE(eps=1) COUNT(DISTINCT cost) AS n FROM visits WHERE {months}"), 4),
    ] {
        let explained = done(&lab, &format!("EXPLAIN PRIVACY {sql}")).await;
        assert!(explained.contains(&format!("Δ₁ = {range}\n")), "{sql}: {explained}");
    }
    // Two patients came in these months, one of them in January and in February.
    let loud = |sql: &str| sql.replace("eps=1", "eps=10000");
    let all =
        format!("SELECT LAPLACE(eps=1) COUNT(DISTINCT patient) AS n FROM visits WHERE {months}");
    assert_eq!(values(&lab, &loud(&all)).await, "2");
    let each = format!(
        "SELECT n FROM (SELECT {by_month} AS m, LAPLACE(eps=1) COUNT(DISTINCT patient) AS n FROM visits WHERE {months} GROUP BY m) q ORDER BY m"
    );
    assert_eq!(values(&lab, &loud(&each)).await, "1\n2\n1");
}

/// A date that a domain moves to one of its ends is in the month of the file's date.
#[tokio::test]
async fn the_ends_of_a_domain_are_in_all_months_beyond_them() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 1_000).await;
    done(&engine.owner(), "ALTER TABLE visits ALTER COLUMN visited_at SET PRIVACY DOMAIN BETWEEN (DATE '2026-01-15', DATE '2026-03-20')").await;
    let lab = engine.analyst("lab").unwrap();
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE visited_at";
    let february =
        cells(&lab, &format!("{count} BETWEEN DATE '2026-02-01' AND DATE '2026-02-28'")).await;
    assert_eq!(february, "charged to visited_at '2026-02' alone");
    // 675 months up to January 2026, and those that are in no calendar.
    let first = cells(&lab, &format!("{count} < DATE '2026-02-01'")).await;
    assert!(first.ends_with("and 668 more alone"), "{first}");
    let last = cells(&lab, &format!("{count} >= DATE '2026-03-05'")).await;
    assert!(
        last.starts_with("charged to visited_at '2026-03', '2026-04'")
            && last.ends_with("and 281 more alone"),
        "{last}"
    );
    assert!(cells(&lab, &format!("{count} IS NULL")).await.contains("all cells"));
    let month = |op: &str| {
        format!(
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE DATE_TRUNC('month', visited_at) {op}"
        )
    };
    let february = cells(&lab, &month("= DATE '2026-02-01'")).await;
    assert_eq!(february, "charged to visited_at '2026-02' alone");
    for (op, end) in [
        ("= DATE '2026-01-01'", "and 668 more alone"),
        ("< DATE '2026-02-01'", "and 668 more alone"),
        ("= DATE '2026-03-01'", "and 281 more alone"),
        ("> DATE '2026-02-28'", "and 281 more alone"),
    ] {
        let told = cells(&lab, &month(op)).await;
        assert!(told.ends_with(end), "{op}: {told}");
    }
    let single = cells(&lab, &format!("{count} = DATE '2026-01-15'")).await;
    assert!(single.contains("more alone"), "{single}");
}

#[tokio::test]
async fn each_month_has_its_own_limit() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 2).await;
    let lab = engine.analyst("lab").unwrap();
    let of = |eps: &str, month: u32| {
        let next = month + 1;
        format!(
            "SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM visits WHERE visited_at >= DATE '2026-{month:02}-01' AND visited_at < DATE '2026-{next:02}-01'"
        )
    };
    for month in 1..=6 {
        done(&lab, &of("1.5", month)).await;
        let refused = why(&lab, &of("1", month)).await;
        assert!(
            refused.starts_with(&format!(
                "for visited_at '2026-{month:02}', the privacy budget `b` does not suffice"
            )),
            "{refused}"
        );
    }
    // A question about all months needs what the dearest one has left.
    let all = "SELECT LAPLACE(eps=0.75) COUNT(*) AS n FROM visits";
    assert!(why(&lab, all).await.contains("does not suffice"));
    done(&lab, &all.replace("0.75", "0.5")).await;
    done(&lab, &of("1.5", 9)).await;
    // A month without rows is answered as any other.
    done(
        &lab,
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE visited_at = DATE '2040-01-01'",
    )
    .await;
    // January to June have ε = 0 left, and so has no other month.
    let account = done(&lab, "SHOW PRIVACY BUDGET b").await;
    assert!(account.contains("nothing is left, for visited_at '2026-01'"), "{account}");
    let shown = done(&lab, "SHOW PRIVACY BUDGET b BY CELL").await;
    assert!(shown.contains("2026-01 to 2026-06") && shown.contains("(other)"), "{shown}");
    let statement = done(&lab, "SHOW PRIVACY STATEMENT FOR b").await;
    for part in [
        "One person in one month is protected",
        "ε = 2, δ = 1e-3 about one person in one month",
        "rows in 12 months",
    ] {
        assert!(statement.contains(part), "{part}: {statement}");
    }
}

#[tokio::test]
async fn what_is_not_derived_for_months_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 10).await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    for sql in [
        "SELECT LAPLACE(eps=1) AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) q",
        "SELECT LAPLACE(eps=1) AVG(n) FROM (SELECT patient, ward, COUNT(*) AS n FROM visits GROUP BY patient, ward) q",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT DISTINCT patient, ward FROM visits) q",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT patient, ROW_NUMBER() OVER (PARTITION BY patient ORDER BY cost) AS k FROM visits) q WHERE k = 1",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient AND a.visited_at = b.visited_at",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits a LEFT JOIN visits b ON a.patient = b.patient",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits WHERE patient IN (SELECT patient FROM visits WHERE ward = 'B')",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits a WHERE EXISTS (SELECT 1 FROM visits b WHERE b.patient = a.patient AND b.ward = 'B')",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM visits a WHERE cost > (SELECT MAX(cost) FROM visits b WHERE b.patient = a.patient AND b.ward = 'B')",
        "SELECT patient, LAPLACE(eps=1, delta=1e-6) COUNT(*) FROM visits GROUP BY patient",
        "SELECT patient, LAPLACE(eps=1) COUNT(*) FROM visits GROUP BY patient KEYS (1, 2)",
        "SELECT patient + 0 AS p, LAPLACE(eps=1, delta=1e-3) COUNT(*) AS n FROM visits GROUP BY patient + 0",
        "SELECT p, LAPLACE(eps=1, delta=1e-3) COUNT(*) AS n FROM (SELECT CAST(patient AS VARCHAR) AS p FROM visits) q GROUP BY p",
        "SELECT LAPLACE(eps=0.1) AVG(n) FROM (SELECT patient, DATE_TRUNC('week', visited_at) AS w, COUNT(*) AS n FROM visits GROUP BY patient, w) q",
        "SELECT LAPLACE(eps=0.1) AVG(n) FROM (SELECT patient, EXTRACT(MONTH FROM visited_at) AS m, COUNT(*) AS n FROM visits GROUP BY patient, m) q",
        "SELECT LAPLACE(eps=0.1) AVG(n) FROM (SELECT DATE_TRUNC('month', visited_at) AS m, COUNT(*) AS n FROM visits GROUP BY m) q",
        "SELECT LAPLACE(eps=0.1) AVG(n) FROM (SELECT patient, DATE_TRUNC('month', COALESCE(visited_at, DATE '2026-01-01')) AS m, COUNT(*) AS n FROM visits GROUP BY patient, m) q",
    ] {
        let refused = told(&lab, sql).await;
        let refused = refused.expect_err(sql).to_string();
        assert!(
            refused.contains("month") || refused.contains("names a person"),
            "{sql}: {refused}"
        );
    }
    for (sql, part) in [
        ("ALTER PRIVACY BUDGET b DROP PARTITION", "each month is a unit of its own"),
        ("ALTER PRIVACY BUDGET b PARTITION BY ward", "its cells are the months of visited_at"),
        ("ALTER TABLE visits SET PRIVACY FLOOR 10", "counts people"),
        ("ALTER PRIVACY BUDGET b SET PER QUERY (min_units=10)", "counts people"),
        ("ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (ward)", "DATE or TIMESTAMP"),
        (
            "ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (patient)",
            "DATE or TIMESTAMP",
        ),
        (
            "ALTER TABLE visits SET PRIVACY UNIT (patient) UNIQUE PER MONTH OF (visited_at)",
            "MAX ROWS 1",
        ),
        (
            "ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at) MAX ROWS 1",
            "has more than 1 rows",
        ),
        (
            "CREATE PRIVACY BUDGET c FOR visits LIMIT (epsilon=1) RENEW EVERY MONTH",
            "a budget does not renew",
        ),
        ("ALTER PRIVACY BUDGET b SET RENEW EVERY MONTH", "a budget does not renew"),
        (
            "ALTER TABLE visits SET PRIVACY SPENT (epsilon=1) TOGETHER WITH others",
            "charges there are not charges to a month",
        ),
    ] {
        let refused = why(&owner, sql).await;
        assert!(refused.contains(part), "{sql}: {refused}");
    }
    // A person's own number may be counted, month by month.
    done(&lab, "SELECT LAPLACE(eps=1, groups=4) COUNT(DISTINCT patient) AS n FROM visits").await;
}

/// What was charged for whole people bounds nothing for months, and the other way round.
#[tokio::test]
async fn a_name_that_was_charged_keeps_the_kind_of_its_unit() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &VISITS, 10).await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let count = "SELECT LAPLACE(eps=1, rows=4) COUNT(*) AS n FROM visits";
    let person = "ALTER TABLE visits SET PRIVACY UNIT (patient)";
    let month = "ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at)";
    // Nothing was charged yet.
    done(&owner, person).await;
    done(&owner, month).await;
    done(&owner, person).await;
    done(&lab, count).await;
    assert!(why(&owner, month).await.contains("was charged for other units"));
    assert!(why(&owner, "ALTER TABLE visits SET PRIVACY SPENT (epsilon=1) UNIT (patient) PER MONTH OF (visited_at)").await.contains("for other units"));
    let folder = tempfile::tempdir().unwrap();
    let engine = self::engine(folder.path(), &VISITS, 10).await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    done(&lab, count).await;
    assert!(why(&owner, person).await.contains("protects one month of a person"));
    assert!(
        why(&owner, "ALTER TABLE visits SET PRIVACY UNIT ROW").await.contains("protects one month")
    );
    // Neither does the name forget it without the table.
    done(&owner, "DROP PRIVACY BUDGET b").await;
    done(&owner, "DROP TABLE visits").await;
    let file = folder.path().join("visits.csv");
    done(&owner, &format!("CREATE EXTERNAL TABLE visits (patient BIGINT, visited_at DATE, ward VARCHAR, cost BIGINT) STORED AS CSV LOCATION '{}'", file.display())).await;
    assert!(why(&owner, person).await.contains("protects one month of a person"));
    done(&owner, month).await;
    done(&owner, "CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=2)").await;
    assert_eq!(lab.budgets().unwrap()[0].left.to_string(), "ε = 1");
}

/// A load keeps the months only where all earlier rows are unchanged.
#[test]
fn months_go_on_where_a_file_has_grown() {
    let study = Study::new();
    let of = |month: u32| {
        format!(
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE visited_at >= DATE '2026-{month:02}-01' AND visited_at < DATE '2026-{:02}-01'",
            month + 1
        )
    };
    study.write("visits.csv", text(&VISITS));
    study
        .owner(
            "CREATE EXTERNAL TABLE visits (patient BIGINT, visited_at DATE, ward VARCHAR, cost BIGINT) STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at) MAX ROWS 4;
             CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=1)",
        )
        .says(0, &["its unit is patient in one month of visited_at"]);
    study.lab(&of(1)).says(0, &["charged to visited_at '2026-01' alone"]);
    study.lab(&of(1).replace("AS n", "AS m")).says(0, &[]);
    // A row comes late, and a month begins.
    let grown = text(&VISITS) + "5,2026-02-15,A,1\n5,2026-04-01,A,1\n";
    study.write("visits.csv", &grown);
    study.lab(&of(2)).says(3, &["the file of visits was changed"]);
    study
        .owner("ALTER TABLE visits RELOAD")
        .says(0, &["Its earlier rows are unchanged, so each month keeps what was charged to it"]);
    study.lab(&of(1).replace("eps=1", "eps=0.5")).says(4, &["for visited_at '2026-01'"]);
    study.lab(&of(2)).says(0, &[]);
    study.lab(&of(4)).says(0, &[]);
    // An earlier row has changed: what was charged to the dearest month counts for all.
    study.write("visits.csv", grown.replace("1,2026-01-03,A", "1,2026-01-04,A"));
    study.owner("ALTER TABLE visits RELOAD").says(0, &["the cells of budget b by visited_at, because rows of the earlier file are not all unchanged"]);
    study.lab(&of(5)).says(4, &["for visited_at '2026-05'"]);
    study.run(&["check", "study.db"]).says(0, &["is sound"]);
}

/// A folder keeps the months where each of its earlier files is there, with others beside them.
#[test]
fn months_go_on_where_a_folder_has_more_files() {
    let study = Study::new();
    let of = |month: u32, eps: &str| {
        format!(
            "SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM visits WHERE visited_at >= DATE '2026-{month:02}-01' AND visited_at < DATE '2026-{:02}-01'",
            month + 1
        )
    };
    let rows =
        |month: u32, patient: u32| format!("patient,visited_at\n{patient},2026-{month:02}-03\n");
    std::fs::create_dir(study.folder().join("visits")).unwrap();
    for month in [3, 5] {
        study.write(&format!("visits/{month}.csv"), rows(month, 1));
    }
    study
        .owner(
            "CREATE EXTERNAL TABLE visits (patient BIGINT, visited_at DATE) STORED AS CSV LOCATION 'visits';
             ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at) MAX ROWS 4;
             CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=1)",
        )
        .says(0, &[]);
    study.lab(&of(3, "1")).says(0, &["charged to visited_at '2026-03' alone"]);
    // Two months come late, one of them before and one between the others by name.
    for month in [2, 4] {
        study.write(&format!("visits/{month}.csv"), rows(month, 2));
    }
    let kept = "Its earlier rows are unchanged, so each month keeps what was charged to it";
    study.owner("ALTER TABLE visits RELOAD").says(0, &[kept]);
    study.lab(&of(3, "0.5")).says(4, &["for visited_at '2026-03'"]);
    study.lab(&of(4, "1")).says(0, &[]);
    // Files that were written again, with the same bytes, before one whose name is behind them.
    study.write("visits/6.csv", rows(6, 2));
    for (month, patient) in [(2, 2), (3, 1), (4, 2), (5, 1)] {
        study.write(&format!("visits/{month}.csv"), rows(month, patient));
    }
    study.owner("ALTER TABLE visits RELOAD").says(0, &[kept]);
    study.lab(&of(5, "1")).says(0, &[]);
    // A file that has changed, or has another name.
    let ended = "because not every earlier file is there under its name and with its bytes";
    study.write("visits/7.csv", rows(7, 2));
    study.write("visits/6.csv", rows(6, 3));
    study.owner("ALTER TABLE visits RELOAD").says(0, &[ended]);
    study.lab(&of(8, "0.5")).says(4, &["for visited_at '2026-08'"]);
    study.run(&["check", "study.db"]).says(0, &["is sound"]);
}

/// A dump rebuilds the months, and what was spent on the dearest one counts for all.
#[test]
fn months_are_dumped() {
    let study = Study::new();
    study.write("visits.csv", text(&VISITS));
    study
        .owner(
            "CREATE EXTERNAL TABLE visits (patient BIGINT, visited_at DATE, ward VARCHAR, cost BIGINT) STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at);
             CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=5)",
        )
        .says(0, &[]);
    let of = |eps: &str, month: &str| {
        format!(
            "SELECT LAPLACE(eps={eps}, rows=4) COUNT(*) AS n FROM visits WHERE visited_at = DATE '{month}-01'"
        )
    };
    study.lab(&of("3", "2026-01")).says(0, &[]);
    study.lab(&of("4", "2026-02")).says(0, &[]);
    let dump = study.run(&["dump", "study.db"]);
    dump.says(0, &[]);
    for part in [
        "SET PRIVACY UNIT (patient) PER MONTH OF (visited_at);",
        "SPENT (epsilon=4",
        "UNIT (patient) PER MONTH OF (visited_at)",
    ] {
        assert!(dump.out.contains(part), "{}", dump.out);
    }
    study.write("dump.sql", &dump.out);
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let other = |sql: &str| study.run(&["other.db", "--analyst", "lab", "-c", sql]);
    other(&of("1", "2026-03")).says(0, &[]);
    other(&of("0.5", "2026-03")).says(4, &["for visited_at '2026-03'"]);
    study.run(&["check", "other.db"]).says(0, &["is sound"]);
}

/// So much that there is no noise.
const EPSILON: f64 = 10_000.0;

fn rows(answer: &str) -> Vec<&str> {
    answer.lines().filter(|line| !line.starts_with("cost")).collect()
}

/// The month of a date, as a cell is called.
fn cell_of(date: &str) -> &str {
    match date.get(..7) {
        Some(month) if ("1970-01".."2050-01").contains(&month) => month,
        Some(_) | None => "(other)",
    }
}

/// Where ε was spent: the first month of each line, its last one, and the amount.
async fn spent(session: &Session) -> Vec<(String, String, f64)> {
    let shown = done(session, "SHOW PRIVACY BUDGET b BY CELL").await;
    let line = |line: &str| {
        let cells = line.split(['|', '│']).map(str::trim).filter(|cell| !cell.is_empty());
        let [_, _, cell, spent, _]: [&str; 5] = cells.collect::<Vec<_>>().try_into().unwrap();
        let (first, last) = cell.split_once(" to ").unwrap_or((cell, cell));
        let amount = spent.trim_start_matches("ε = ").split(',').next().unwrap();
        (first.to_owned(), last.to_owned(), amount.parse().unwrap())
    };
    shown.lines().filter(|shown| shown.contains("visited_at")).map(line).collect()
}

fn spent_on(spent: &[(String, String, f64)], cell: &str) -> f64 {
    let own =
        spent.iter().find(|(first, last, _)| (first.as_str()..=last.as_str()).contains(&cell));
    own.unwrap_or_else(|| panic!("{cell}: {spent:?}")).2
}

/// Random statements over tables of a few rows. Whoever's month changes an answer without noise, as
/// the month is removed, has paid for it in this month; no other month of this person has to.
#[tokio::test]
async fn whose_month_changes_an_answer_has_paid_for_it() {
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    let (mut narrow, mut changed) = (0, 0);
    for domain in [None, Some("BETWEEN (DATE '2026-01-20', DATE '2026-03-10')")] {
        for _ in 0..4 {
            let dates = [
                "2026-01-03",
                "2026-01-31",
                "2026-02-01",
                "2026-02-28",
                "2026-03-01",
                "2026-04-01",
                "",
                "1950-05-05",
                "2051-01-01",
            ];
            let mut visits: Vec<Visit> = Vec::new();
            for _ in 0..rng.random_range(3..=6) {
                let ward = if rng.random_range(0..2) == 0 { "A" } else { "B" };
                visits.push((
                    rng.random_range(1..=2),
                    dates[rng.random_range(0..dates.len())],
                    ward,
                    rng.random_range(0..99),
                ));
            }
            let open = async |visits: &[Visit]| {
                let folder = tempfile::tempdir().unwrap();
                let engine = engine(folder.path(), visits, 900_000).await;
                if let Some(domain) = domain {
                    done(
                        &engine.owner(),
                        &format!(
                            "ALTER TABLE visits ALTER COLUMN visited_at SET PRIVACY DOMAIN {domain}"
                        ),
                    )
                    .await;
                }
                (engine, folder)
            };
            let (whole, _folder) = open(&visits).await;
            // Units are months of the calendar; dates beyond it are apart by month, in one cell.
            let unit = |(id, date, ..): &Visit| (*id, date.get(..7).unwrap_or_default());
            let units: BTreeSet<_> = visits.iter().map(unit).collect();
            let mut without = Vec::new();
            for gone in units {
                let left: Vec<Visit> =
                    visits.iter().filter(|visit| unit(visit) != gone).copied().collect();
                without.push((gone, open(&left).await));
            }
            let lab = whole.analyst("lab").unwrap();
            for _ in 0..16 {
                let sql = statement(&mut rng);
                let before = spent(&lab).await;
                let answer = match lab.query(&sql).await {
                    Ok(answer) => answer.to_string(),
                    Err(error) => {
                        assert_ne!(error.exit_status(), 4, "{sql}: {error}");
                        continue;
                    }
                };
                let after = spent(&lab).await;
                let charged = |cell: &str| spent_on(&after, cell) - spent_on(&before, cell);
                narrow += usize::from(charged("1999-01") == 0.0);
                for ((id, month), (engine, _)) in &without {
                    let own = engine.analyst("lab").unwrap().query(&sql).await.unwrap().to_string();
                    if rows(&own) != rows(&answer) {
                        changed += 1;
                        let cell = cell_of(month);
                        assert!(charged(cell) >= EPSILON, "{sql}\n{id} in {month}: {after:?}");
                    }
                }
            }
        }
    }
    assert!(narrow > 20 && changed > 40, "{narrow} {changed}");
}

/// A random statement whose conditions on dates stand anywhere.
fn statement(rng: &mut ChaCha20Rng) -> String {
    let mut pick = |of: &[&str]| of[rng.random_range(0..of.len())].to_owned();
    let dates = [
        "DATE '2026-01-15'",
        "DATE '2026-01-31'",
        "DATE '2026-02-01'",
        "DATE '2026-03-01'",
        "DATE '2026-03-10'",
        "DATE '1960-01-01'",
        "DATE '2050-06-01'",
    ];
    let (low, high) = (pick(&dates), pick(&dates));
    let condition = pick(&[
        "visited_at >= {L} AND visited_at < {H}",
        "visited_at > {L} AND visited_at <= {H}",
        "visited_at BETWEEN {L} AND {H}",
        "visited_at < {H}",
        "visited_at <= {H} AND cost > 20",
        "{L} < visited_at",
        "visited_at = {L}",
        "visited_at IN ({L}, {H})",
        "visited_at IS NULL",
        "visited_at IS NULL OR visited_at < {H}",
        "visited_at <> {L}",
        "NOT visited_at < {L}",
        "COALESCE(visited_at, {L}) = {L}",
        "cost > 10",
        "visited_at >= {L} AND ward = 'A'",
        "(visited_at < {H}) = (cost > 30)",
        "DATE_TRUNC('month', visited_at) = {H}",
        "DATE_TRUNC('week', visited_at) <= {H} AND visited_at > {L}",
        "DATE_TRUNC('quarter', visited_at) BETWEEN {L} AND {H}",
        "{L} > DATE_TRUNC('year', visited_at)",
    ]);
    let from = pick(&[
        "visits WHERE {P}",
        "visits WHERE {P}",
        "(SELECT * FROM visits WHERE {P}) q",
        "recent WHERE {P}",
        "(SELECT * FROM visits WHERE {P} UNION ALL SELECT * FROM recent) u",
        "(SELECT cost, ward, visited_at AS at FROM visits WHERE {P}) q WHERE at >= {L}",
    ]);
    let (from, e) = (from.replace("{P}", &condition), EPSILON);
    let asked = pick(&[
        "SELECT LAPLACE(eps={E}) COUNT(*) AS n FROM {F}",
        "SELECT LAPLACE(eps={E}) SUM(cost) AS n FROM {F}",
        "SELECT ward, LAPLACE(eps={E}, groups=2) COUNT(*) AS n FROM {F} GROUP BY ward",
        "SELECT visited_at, LAPLACE(eps={E}, groups=2) COUNT(*) AS n FROM visits GROUP BY visited_at KEYS ({L}, {H})",
        "SELECT DATE_TRUNC('month', visited_at) AS m, LAPLACE(eps={E}, groups=2) COUNT(*) AS n FROM visits GROUP BY m KEYS ({L}, DATE '2026-02-01')",
        "SELECT DATE_TRUNC('week', visited_at) AS m, LAPLACE(eps={E}, groups=2) COUNT(*) AS n FROM visits WHERE {P} GROUP BY m KEYS (DATE '2025-12-29', DATE '2026-02-23')",
        "SELECT DATE_TRUNC('month', visited_at) AS m, ward, LAPLACE(eps={E}, groups=2) COUNT(DISTINCT patient) AS n FROM {F} GROUP BY m KEYS (DATE '2026-01-01', DATE '2026-02-01'), ward",
        "SELECT LAPLACE(eps={E}) COUNT(DISTINCT patient) AS n FROM visits WHERE {P}",
        "SELECT LAPLACE(eps={E}, rows=2) SUM(n) AS n FROM (SELECT patient, DATE_TRUNC('month', visited_at) AS m, SUM(cost) AS n FROM {F} GROUP BY patient, m) q",
        "SELECT EXTRACT(MONTH FROM visited_at) AS m, LAPLACE(eps={E}, groups=2) COUNT(*) AS n FROM visits WHERE {P} GROUP BY m",
    ]);
    let sql = asked.replace("{F}", &from).replace("{P}", &condition).replace("{E}", &e.to_string());
    sql.replace("{L}", &low).replace("{H}", &high)
}
