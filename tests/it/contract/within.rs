//! `within`: the least cost at which the error that EXPLAIN promises is the one that was asked for.
//!
//! Costs are compared with the formulas of the tails, and with what one unit of the ledger less
//! would promise. Draws are compared with the confidence.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine, Session};
use serde_json::Value;

/// 400 people with a row for each of 4 keys, under a budget in ε and one in ρ.
async fn session(limit: &str) -> Analyst {
    let engine = Engine::in_memory().unwrap();
    let ids = Int64Array::from_iter_values((0..1_600).map(|n| n / 4));
    let keys = StringArray::from_iter_values((0..1_600).map(|n| ["a", "b", "c", "d"][n % 4]));
    let x = Int64Array::from_iter_values((0..1_600).map(|n| n % 10));
    let columns: [(&str, ArrayRef); 3] =
        [("id", Arc::new(ids)), ("k", Arc::new(keys)), ("x", Arc::new(x))];
    engine.register_batch("t", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    let owner = engine.owner();
    let budget = format!("CREATE PRIVACY BUDGET t FOR t LIMIT ({limit})");
    for sql in [
        "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 8",
        "ALTER TABLE t ALTER COLUMN k SET PRIVACY DOMAIN IN ('a', 'b', 'c', 'd')",
        "ALTER TABLE t ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 9)",
        &budget,
    ] {
        owner.execute(sql).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

fn explained(lab: &Session, sql: &str) -> Value {
    let explained = lab.explain(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    serde_json::from_str(&explained.to_json()).unwrap()
}

/// The cost in units of the ledger, of `epsilon` or `rho`. Explanations show it as people write it.
fn nano(lab: &Session, sql: &str, notion: &str) -> i64 {
    let cost = lab.cost(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).to_string();
    let sign = if notion == "rho" { "ρ = " } else { "ε = " };
    let amount = cost.split(sign).nth(1).unwrap_or_else(|| panic!("{sql}: {cost}"));
    let amount = amount.split([' ', ',']).next().unwrap();
    (amount.parse::<f64>().unwrap() * 1e9).round() as i64
}

/// The error at 95 % that a query promises.
fn promised(lab: &Session, sql: &str) -> f64 {
    lab.prepare(sql).unwrap().accuracy()[0].value
}

#[tokio::test]
async fn costs_are_those_of_the_tails() {
    let lab = session("epsilon=100000").await;
    for (sql, expected) in [
        ("LAPLACE(within=100, rows=1) COUNT(DISTINCT id) FROM t", 29_807_177),
        ("LAPLACE(within=1) COUNT(DISTINCT id) FROM t", 1_765_464_906),
        ("LAPLACE(within=0) COUNT(DISTINCT id) FROM t", 3_663_561_647),
        ("LAPLACE(within=0.5) COUNT(DISTINCT id) FROM t", 3_663_561_647),
        ("AUTO(within=100) COUNT(DISTINCT id) FROM t", 29_807_177),
        ("LAPLACE(within=100, total=20) COUNT(*) FROM t", 596_143_527 * 2 / 5),
    ] {
        let found = nano(&lab, &format!("SELECT {sql}"), "epsilon");
        // Eight rows a person bound more than a total of twenty.
        let tolerance = i64::from(sql.contains("total")) * expected / 1_000;
        assert!((found - expected).abs() <= tolerance, "{sql}: {found}");
    }
    let exact = |sql: &str| nano(&lab, sql, "epsilon") as f64 / 1e9;
    // Of four groups, each of which a person is in, each draw has 1 − 0.95^(1/4).
    let alone = "SELECT k, LAPLACE(within=50, groups=1, rows=1) COUNT(*) AS n FROM t GROUP BY k";
    let together = alone.replace("50,", "50, jointly,");
    let tail = |epsilon: f64| 2.0 * (-51.0 * epsilon).exp() / (1.0 + (-epsilon).exp());
    for (sql, beta) in [(alone, 0.05), (&together, 1.0 - 0.95_f64.powf(0.25))] {
        let epsilon = exact(sql);
        assert!(tail(epsilon) <= beta && tail(epsilon - 1e-9) > beta, "{sql}: {epsilon}");
    }
    let sure = alone.replace("50,", "50, confidence=0.999,");
    let epsilon = exact(&sure);
    assert!(tail(epsilon) <= 0.001 && tail(epsilon - 1e-9) > 0.001, "{sure}: {epsilon}");
    // The winner of four is within ten of the best but with odds of 3·e^(−11ε/R), R = 1.
    let chosen = "SELECT ARGMAX EXPONENTIAL(within=10, groups=1, rows=1) k FROM t GROUP BY k";
    let epsilon = exact(chosen);
    let odds = (3.0_f64 * 0.95 / 0.05).ln() / 11.0;
    assert!((epsilon - odds).abs() < 3e-9, "{epsilon} {odds}");
}

/// The cost that is found promises what was asked; one unit of the ledger less does not.
#[tokio::test]
async fn one_unit_less_would_not_do() {
    let lab = session("epsilon=100000, delta=0.1").await;
    for (release, within, rest) in [
        ("LAPLACE({}) COUNT(*)", "37", "FROM t"),
        ("LAPLACE({}, rows=2) SUM(x)", "400.5", "FROM t"),
        ("LAPLACE({}) COUNT(DISTINCT x)", "3", "FROM t"),
        ("GAUSSIAN({}, delta=1e-6) COUNT(*)", "60", "FROM t"),
        ("ARGMAX PERMUTE_AND_FLIP({}) k", "20", "FROM t GROUP BY k"),
        ("ARGMAX NOISY_MAX({}) k", "20", "FROM t GROUP BY k"),
        ("ARGMAX AUTO({}) k", "20", "FROM t GROUP BY k"),
        ("TOP 2 EXPONENTIAL({}) k", "20", "FROM t GROUP BY k"),
        ("TOP 3 AUTO({}) k", "20", "FROM t GROUP BY k"),
        ("EXPONENTIAL({}) MEDIAN(x)", "25", "FROM t"),
        ("EXPONENTIAL({}) QUANTILE(x, 0.9)", "25", "FROM t"),
        ("EXPONENTIAL({}) MAX(x)", "40", "FROM t"),
        ("ARGMAX EXPONENTIAL({}) p IN RANGE(1, 9, 1) BY REVENUE(x, p)", "90", "FROM t"),
        ("LAPLACE({}, delta=1e-6) COUNT(DISTINCT id)", "7", "FROM t GROUP BY x * 1000"),
        ("LAPLACE({}, delta=1e-6, rows=1) SUM(x)", "70", "FROM t GROUP BY x * 1000"),
        ("GAUSSIAN({}, delta=1e-6, rows=1) SUM(x)", "70", "FROM t GROUP BY x * 1000"),
    ] {
        let with = |cost: &str| format!("SELECT {} {rest}", release.replace("{}", cost));
        let asked = with(&format!("within={within}"));
        let cost = nano(&lab, &asked, "epsilon");
        let within: f64 = within.parse().unwrap();
        assert!(promised(&lab, &asked) <= within, "{asked}");
        let at =
            |nano: i64| with(&format!("eps={}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000));
        let apart = promised(&lab, &at(cost)) - promised(&lab, &asked);
        assert!(apart.abs() < 1e-9, "{asked}: {apart}");
        assert!(promised(&lab, &at(cost - 1)) > within, "{asked}: {cost}");
    }
}

#[tokio::test]
async fn budgets_in_rho_pay_for_the_smaller_rho() {
    let lab = session("rho=1000, delta=0.1").await;
    let gaussian = nano(&lab, "SELECT GAUSSIAN(within=100) COUNT(DISTINCT id) FROM t", "rho");
    // σ² = 2629.357 at most.
    // The sampler's σ is on a grid, and rounded up.
    assert!((190_161..=190_164).contains(&gaussian), "{gaussian}");
    let auto = nano(&lab, "SELECT AUTO(within=100) COUNT(DISTINCT id) FROM t", "rho");
    let laplace = nano(&lab, "SELECT LAPLACE(within=100) COUNT(DISTINCT id) FROM t", "rho");
    assert!(auto == gaussian && laplace > 2 * gaussian, "{auto} {laplace}");
    // At a high ε, Laplace noise costs less.
    let auto = nano(&lab, "SELECT AUTO(within=0) COUNT(DISTINCT id) FROM t", "rho");
    let laplace = nano(&lab, "SELECT LAPLACE(within=0) COUNT(DISTINCT id) FROM t", "rho");
    let gaussian = nano(&lab, "SELECT GAUSSIAN(within=0) COUNT(DISTINCT id) FROM t", "rho");
    assert_eq!(auto, laplace.min(gaussian), "{laplace} {gaussian}");
    // Among known candidates, ρ is spent on the exponential mechanism.
    let found = explained(&lab, "SELECT ARGMAX AUTO(within=10) k FROM t GROUP BY k");
    assert_eq!(found["releases"][0]["mechanism"], "EXPONENTIAL");
}

/// Each of n draws misses with a probability of at most β = 0.1: more than nβ + 6·√(nβ(1−β)) + 6 do
/// with less than 10⁻⁷.
#[tokio::test]
async fn draws_are_as_near_as_was_asked() {
    let lab = session("epsilon=1000000").await;
    let mut missed = [0, 0];
    let rounds: u32 = 100;
    for _ in 0..rounds {
        let sql = "SELECT k, x, LAPLACE(within=12, confidence=0.9) COUNT(*) AS n, LAPLACE(within=12, confidence=0.9, jointly) COUNT(*) AS m FROM t GROUP BY k, x";
        let answer = lab.query(sql).await.unwrap();
        let mut far = false;
        for batch in answer.batches() {
            let of = |column: usize| batch.column(column).as_primitive::<Int64Type>().values();
            let rows = batch.column(0).as_string::<i32>().iter().flatten().zip(of(1)).enumerate();
            for (row, (key, x)) in rows {
                // Of the even keys, the rows are even.
                let is_even = |key: &str| key == "a" || key == "c";
                let exact = if is_even(key) == (x % 2 == 0) { 80 } else { 0 };
                let is_far = |n: i64| (n - exact).abs() > 12;
                missed[0] += usize::from(is_far(of(2)[row]));
                far |= is_far(of(3)[row]);
            }
        }
        missed[1] += usize::from(far);
    }
    for (missed, draws) in missed.into_iter().zip([40 * rounds, rounds]) {
        let (missed, draws) = (missed as f64, f64::from(draws));
        let spread = 6.0 * (draws * 0.09).sqrt() + 6.0;
        assert!(missed <= draws * 0.1 + spread, "{missed} of {draws}");
        // The least cost wastes little: nearly as many miss as may.
        assert!(missed >= draws * 0.08 - spread, "{missed} of {draws}");
    }
}

/// A table of `groups` groups with `units` people each, of whom each is in one group with as many
/// rows as `rows` says.
async fn in_groups(groups: i64, units: i64, rows: i64) -> Analyst {
    let engine = Engine::in_memory().unwrap();
    let all = 0..groups * units * rows;
    let ids = Int64Array::from_iter_values(all.clone().map(|n| n / rows));
    let keys = Int64Array::from_iter_values(all.map(|n| n / rows / units));
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("k", Arc::new(keys))];
    engine.register_batch("t", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    for sql in [
        &format!("ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS {rows}"),
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000, delta=0.1)",
    ] {
        engine.owner().execute(sql).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

/// P(X > t) of discrete Gaussian noise.
fn gaussian_tail(t: u64, sigma: f64) -> f64 {
    let weight = |x: u64| (-((x * x) as f64) / (2.0 * sigma * sigma)).exp();
    let last = (sigma * 12.0) as u64 + 2;
    let total: f64 = 1.0 + 2.0 * (1..=last).map(weight).sum::<f64>();
    (t + 1..=last.max(t)).map(weight).sum::<f64>() / total
}

/// The cost that is found lets groups of N come out, by its τ and the tail of its noise; one unit
/// of the ledger less does not.
#[tokio::test]
async fn one_unit_less_would_hide_more() {
    for rows in [1_i64, 3] {
        let lab = in_groups(2, 2, rows).await;
        // At most so many groups: as many as rows.
        let spread = rows as f64;
        // Units are counted as they are released, or with half of ε.
        for (release, share) in [("COUNT(DISTINCT id)", 1.0), ("SUM(CLAMP(id, 0, 1))", 0.5)] {
            for (units, confidence) in [(60, "0.95"), (17, "0.95"), (400, "0.5"), (90, "0.999")] {
                let with = |asked: &str| {
                    format!(
                        "SELECT k, LAPLACE({asked}, delta=1e-6) {release} AS n FROM t GROUP BY k"
                    )
                };
                let asked = with(&format!("complete_above={units}, confidence={confidence}"));
                let cost = nano(&lab, &asked, "epsilon");
                let beta = 1.0 - confidence.parse::<f64>().unwrap();
                // A σ is told in five digits, rounded up: the cost must show enough with a little
                // less, and one unit less too little with a little more.
                let shows = |nano: i64, told: f64| {
                    let sql =
                        with(&format!("eps={}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000));
                    let threshold = &explained(&lab, &sql)["releases"][0]["threshold"];
                    let least =
                        threshold["at_least"].as_u64().unwrap_or_else(|| panic!("{threshold}"));
                    let decay = -(nano as f64 * share).floor() / 1e9 / spread;
                    let laplace = |t: u64| ((t + 1) as f64 * decay).exp() / (1.0 + decay.exp());
                    let text = lab.explain(&sql).unwrap().to_string();
                    let below = match text.split_once("discrete Gaussian, σ ≤ ") {
                        Some((_, rest)) => {
                            let sigma: f64 = rest.split(',').next().unwrap().parse().unwrap();
                            let sigma = sigma * told;
                            (0..).find(|t| gaussian_tail(*t, sigma) <= beta).unwrap()
                        }
                        None => (0..).find(|t| laplace(*t) <= beta).unwrap(),
                    };
                    least + below <= units
                };
                assert!(shows(cost, 0.9999) && !shows(cost - 1, 1.0), "{asked}: {cost}");
            }
        }
    }
    // Of the rule book: at ε = 1, τ = 15 and t = 2.
    let lab = in_groups(2, 2, 1).await;
    let asked = |n: u64| {
        format!(
            "SELECT k, LAPLACE(complete_above={n}, delta=1e-6) COUNT(DISTINCT id) AS n FROM t GROUP BY k"
        )
    };
    assert!(nano(&lab, &asked(17), "epsilon") <= 1_000_000_000);
    assert!(nano(&lab, &asked(16), "epsilon") > 1_000_000_000);
}

/// Of 400 groups, each of which stays hidden with a probability of at most 0.05, more than 52 do
/// with less than 10⁻⁷; and of 2,000, of which at least one in a hundred does, since the least cost
/// wastes little, fewer than 4 do with less than 10⁻⁵.
#[tokio::test]
async fn groups_come_out_as_often_as_was_asked() {
    let lab = in_groups(400, 30, 2).await;
    for release in ["COUNT(DISTINCT id)", "COUNT(*)", "SUM(CLAMP(id, 0, 1))"] {
        let sql = format!(
            "SELECT k, LAPLACE(complete_above=30, delta=1e-6) {release} AS n FROM t GROUP BY k"
        );
        let mut all = 0;
        for _ in 0..5 {
            let answer = lab.query(&sql).await.unwrap();
            let shown: usize = answer.batches().iter().map(RecordBatch::num_rows).sum();
            let hidden = 400 - shown;
            assert!(hidden <= 52, "{sql}: {hidden}");
            all += hidden;
        }
        // Rows are two for each person, so that more come out where rows are compared.
        assert!(all >= 4 || release == "COUNT(*)", "{sql}: {all}");
    }
}

/// The noise has a scale of 4·10¹⁸, so one sum in ten is an end of BIGINT; of 200 none is with a
/// probability of 10⁻⁹.
#[tokio::test]
async fn a_sum_at_the_end_of_its_type_has_no_margin() {
    let engine = Engine::in_memory().unwrap();
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        ("x", Arc::new(Int64Array::from(vec![5, 7]))),
    ];
    engine.register_batch("t", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    for sql in [
        "ALTER TABLE t SET PRIVACY UNIT (id)",
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000)",
    ] {
        engine.owner().execute(sql).await.unwrap();
    }
    let lab = engine.analyst("lab").unwrap();
    let sum = "SUM(CLAMP(x, 0, 1000000000000))";
    let mut ends = 0;
    for n in 0..200 {
        let of = format!("FRESH LAPLACE(eps=1, rows=4000000) {sum}");
        let sql = match n % 2 {
            0 => format!("SELECT {of} AS s FROM t"),
            _ => format!("SELECT s, s / 2 AS half FROM (SELECT {of} AS s FROM t) q"),
        };
        let answer = lab.query(&sql).await.unwrap();
        let s = answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0);
        let is_end = s == i64::MIN || s == i64::MAX;
        assert_eq!(answer.accuracy().is_empty(), is_end, "{sql}: {:?}", answer.accuracy());
        let said = "s: no ±, since a number is the end of its type";
        let is_said = answer.notes().iter().any(|note| note.starts_with(said));
        assert_eq!(is_said, is_end, "{sql}: {:?}", answer.notes());
        ends += usize::from(is_end);
    }
    assert!(ends > 0);
}
