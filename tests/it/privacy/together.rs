//! COUNT, SUM, AVG and variances of one column that are drawn together: what they are, how far off,
//! and when they are not.
//!
//! Draws repeat from seeded generators. Pearson's statistic must stay below its 1 − 10⁻⁷ quantile,
//! and numbers of draws within six deviations; seeds are fixed.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{Float64Type, Int64Type};
use hushql::privacy::parse_decimal;
use hushql::sampler::QueryRng;
use hushql::{Analyst, Engine, Notion, Output};
use hushql_engine::analysis::Lookups;
use hushql_engine::exec::{Draws, session_state};
use hushql_engine::release::{Mechanism, Release};
use hushql_vault::catalog::{Privacy, Unit};

use crate::privacy::line;
use crate::privacy::selection::pearson;

const ROWS: i64 = 120;

/// Numbers from −3 to 5 and some NULL, prices in cents, a flag of 0 and 1, floats with a NaN, and
/// numbers without a domain.
fn batch() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i / 3)));
    let g: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| ["x", "y"][i as usize % 2])));
    let n: ArrayRef =
        Arc::new((0..ROWS).map(|i| (i % 7 != 0).then_some(i % 9 - 3)).collect::<Int64Array>());
    let price = Decimal128Array::from_iter_values((0..ROWS).map(|i| i128::from(i * 37 % 500)));
    let price: ArrayRef = Arc::new(price.with_precision_and_scale(10, 2).unwrap());
    let flag: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i % 2)));
    let f = (0..ROWS).map(|i| if i == 5 { f64::NAN } else { i as f64 / 16.0 });
    let f: ArrayRef = Arc::new(Float64Array::from_iter_values(f));
    let c: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i % 2)));
    let columns =
        [("id", ids), ("g", g), ("n", n), ("price", price), ("flag", flag), ("f", f), ("c", c)];
    RecordBatch::try_from_iter_with_nullable(
        columns.map(|(name, a)| (name, a, !["flag", "id", "c"].contains(&name))),
    )
    .unwrap()
}

fn person() -> Unit {
    Unit::Column { column: "id".to_owned(), max_rows: Some(3), unique: false }
}

fn release(sql: &str, unit: Unit) -> Release {
    let domain = |column: &str| match column {
        "g" => line::listed(&["x", "y"]),
        "n" => line::between("-3", "5"),
        "price" => line::between("0", "5"),
        "flag" => line::between("0", "1"),
        "f" => line::between("0", "8"),
        _ => None,
    };
    let table = line::table("t", &batch().schema(), Privacy::Private(unit), domain);
    line::release(sql, &table, vec![batch()], &Lookups::default())
}

/// Which measures are drawn together.
fn together(sql: &str, unit: Unit) -> Vec<bool> {
    release(sql, unit).mechanisms(0).iter().map(|one| one.together.is_some()).collect()
}

/// The values of each column of one draw, in the first group.
async fn drawn(release: &Release, draws: u32, seed: u64) -> Vec<Vec<f64>> {
    let prepared = Draws::for_part(release, 0, &session_state()).await.unwrap();
    let mut rng = QueryRng::seeded_for_tests(seed);
    let number = |column: &ArrayRef| {
        let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Float64).unwrap();
        column.as_primitive::<Float64Type>().value(0)
    };
    let keys = release.analysis().parts()[0].key_names().len();
    let measures = release.mechanisms(0).len();
    (0..draws)
        .map(|_| {
            let batch = prepared.draw(&mut rng).unwrap();
            batch.columns()[keys..keys + measures].iter().map(number).collect()
        })
        .collect()
}

#[test]
fn what_is_drawn_together() {
    let of = |list: &str, unit| together(&format!("SELECT {list} FROM t"), unit);
    let all = "LAPLACE(eps=1) COUNT(n), LAPLACE(eps=1) SUM(n), LAPLACE(eps=1) AVG(n)";
    assert_eq!(of(all, Unit::Row), [true; 3]);
    assert_eq!(of(all, person()), [true; 3]);
    // Without a mean, only rows that are units themselves add up to one vector.
    let pair = "LAPLACE(eps=1) COUNT(price), LAPLACE(eps=1) SUM(price)";
    assert_eq!(of(pair, Unit::Row), [true; 2]);
    assert_eq!(of(pair, person()), [false; 2]);
    // COUNT(*) counts rows without a value, unless there are none.
    assert_eq!(of("LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) AVG(n)", Unit::Row), [false; 2]);
    assert_eq!(of("LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) AVG(flag)", Unit::Row), [true; 2]);
    // Without a mean, what is summed has to be what is counted, whatever a column promises.
    assert_eq!(of("LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) SUM(flag)", Unit::Row), [false; 2]);
    // COUNT of floats counts NaN.
    let floats = "LAPLACE(eps=1) COUNT(f), LAPLACE(eps=1) SUM(f), LAPLACE(eps=1) AVG(f)";
    assert_eq!(of(floats, Unit::Row), [false, true, true]);
    assert_eq!(of("LAPLACE(eps=1) COUNT(f), LAPLACE(eps=1) SUM(f)", Unit::Row), [false; 2]);
    for apart in [
        "LAPLACE(eps=1) SUM(n), LAPLACE(eps=1) AVG(price)",
        "LAPLACE(eps=1) SUM(n) FILTER (WHERE n > 0), LAPLACE(eps=1) AVG(n)",
        "LAPLACE(eps=1) SUM(CLAMP(n, 0, 5)), LAPLACE(eps=1) AVG(n)",
        "LAPLACE(eps=1, rows=1) SUM(n), LAPLACE(eps=1) AVG(n)",
        "GAUSSIAN(eps=1, delta=1e-6) SUM(n), LAPLACE(eps=1) AVG(n)",
        "LAPLACE(within=9) SUM(n), LAPLACE(eps=1) AVG(n)",
        "LAPLACE(eps=1, rows=auto) SUM(n), LAPLACE(eps=1) AVG(n)",
        "LAPLACE(eps=1) VAR_POP(n) FILTER (WHERE n > 0), LAPLACE(eps=1) AVG(n)",
        "GAUSSIAN(eps=1, delta=1e-6) VAR_POP(n), LAPLACE(eps=1) AVG(n)",
        "LAPLACE(eps=1) SUM(n)",
    ] {
        let alone = of(apart, person());
        assert!(alone.iter().all(|one| !one), "{apart}");
    }
    // A variance gains most, and nothing else may lose for it.
    let four = format!("{all}, LAPLACE(eps=1) STDDEV(n)");
    assert_eq!(of(&four, Unit::Row), [true; 4]);
    assert_eq!(of(&four, person()), [true; 4]);
    assert_eq!(of("LAPLACE(eps=1) VAR_POP(n), LAPLACE(eps=1) AVG(n)", person()), [true; 2]);
    assert_eq!(of("LAPLACE(eps=1) VAR_SAMP(n), LAPLACE(eps=1) COUNT(n)", person()), [true; 2]);
    let small = "LAPLACE(eps=1) COUNT(n), LAPLACE(eps=1) AVG(n), LAPLACE(eps=0.01) VAR_POP(n)";
    assert_eq!(of(small, person()), [true, true, false]);
    // Floats are rounded before they are squared: of the squares, the mean is not exact.
    assert_eq!(of("LAPLACE(eps=1) VAR_POP(f), LAPLACE(eps=1) AVG(f)", Unit::Row), [false; 2]);
    // A mean of a small ε gains, and a count of a large one would lose.
    let uneven = "LAPLACE(eps=9) COUNT(n), LAPLACE(eps=0.1) AVG(n), LAPLACE(eps=0.1) SUM(n)";
    assert_eq!(of(uneven, person()), [false, true, true]);
    // What states δ pays for the threshold, too; what decides which groups come out has the noise
    // of its threshold.
    let groups = "SELECT g, LAPLACE(eps=1, delta=1e-6) AVG(n), LAPLACE(eps=1) SUM(n) FROM t GROUP BY n % 1000, g";
    assert!(together(groups, person()).iter().all(|one| !one));
    let paid = "SELECT LAPLACE(eps=1, delta=1e-6) COUNT(*), LAPLACE(eps=1) AVG(n), LAPLACE(eps=1) SUM(n) FROM t GROUP BY c";
    assert_eq!(together(paid, person()), [false, true, true]);
    let options = |list: &str| {
        format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) {list} FROM t GROUP BY c"
        )
    };
    assert_eq!(together(&options("AVG(n), SUM(n)"), person()), [true; 2]);
    assert_eq!(together(&options("AVG(n), SUM(n), COUNT(n)"), person()), [true; 3]);
    // The number of rows decides.
    assert_eq!(
        together(&options("COUNT(*), AVG(flag), SUM(flag)"), Unit::Row),
        [false, true, true]
    );
}

/// Each costs what it says, errs less than alone, and has the noise of the vector at the sum of the
/// ε.
#[test]
fn costs_stay_and_errors_shrink() {
    let list = ["COUNT(n)", "SUM(n)", "AVG(n)"].map(|call| format!("LAPLACE(eps=0.5) {call}"));
    for unit in [Unit::Row, person()] {
        let rows = if unit == Unit::Row { 1 } else { 3 };
        let all = release(&format!("SELECT {} FROM t", list.join(", ")), unit.clone());
        assert_eq!(*all.loss().epsilon().unwrap(), parse_decimal("1.5").unwrap());
        for (one, call) in all.mechanisms(0).iter().zip(&list) {
            assert_eq!(*one.loss.epsilon().unwrap(), parse_decimal("0.5").unwrap());
            let Mechanism::Laplace(noise) = &one.mechanism else { panic!("{one:?}") };
            // w = 8.
            assert_eq!(
                *noise.scale(),
                parse_decimal("8").unwrap() * parse_decimal(&rows.to_string()).unwrap()
                    / parse_decimal("1.5").unwrap()
            );
            let alone = release(&format!("SELECT {call} FROM t"), unit.clone());
            let error = |of: &hushql_engine::release::Mechanized| match of.accuracy {
                hushql_engine::release::Predicted::Within(error)
                | hushql_engine::release::Predicted::WithinOverCount(error) => error,
                other => panic!("{other:?}"),
            };
            assert!(error(one) < error(&alone.mechanisms(0)[0]), "{call}");
        }
    }
}

/// Over a flag, w = 1: COUNT = A + B and SUM = A, whose noises are those of one vector at ε = 2,
/// with the sum's own law and that of a sum of two.
#[tokio::test]
async fn draws_follow_the_law_of_one_vector() {
    let sql = "SELECT LAPLACE(eps=1) COUNT(flag) AS c, LAPLACE(eps=1) SUM(flag) AS s FROM t";
    let release = release(sql, Unit::Row);
    let draws = drawn(&release, 60_000, 11).await;
    let alpha = (-2.0_f64).exp();
    let law = |x: i64| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(i32::try_from(x.abs()).unwrap());
    let pairs = |x: i64| (-60..=60).map(|y| law(y) * law(x - y)).sum::<f64>();
    for (column, exact, law) in [(0, ROWS, &pairs as &dyn Fn(i64) -> f64), (1, ROWS / 2, &law)] {
        let seen =
            |x: i64| draws.iter().filter(|draw| draw[column] as i64 - exact == x).count() as f64;
        let mut cells: Vec<(f64, f64)> = (-2..=2).map(|x| (seen(x), law(x))).collect();
        let (rest, mass) =
            cells.iter().fold((60_000.0, 1.0), |(n, p), cell| (n - cell.0, p - cell.1));
        cells.push((rest, mass));
        pearson(&format!("column {column}"), cells.into_iter(), 60_000.0);
    }
    // A and B are independent: the covariance of COUNT and SUM is the variance of A.
    let variance = 2.0 * alpha / (1.0 - alpha).powi(2);
    let all = draws.len() as f64;
    let covariance = draws
        .iter()
        .map(|draw| (draw[0] - ROWS as f64) * (draw[1] - ROWS as f64 / 2.0))
        .sum::<f64>()
        / all;
    assert!((covariance - variance).abs() < 6.0 * variance * 3.0 / all.sqrt(), "{covariance}");
}

/// In groups whose keys are not declared, too: a group of all rows comes out, and its numbers have
/// the noise of the vector.
#[tokio::test]
async fn groups_of_the_data_have_one_vector() {
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, delta=0.01) AVG(flag) AS a, SUM(flag) AS s FROM t GROUP BY c / 1000";
    let release = release(sql, Unit::Row);
    assert!(release.mechanisms(0).iter().all(|one| one.together.is_some()));
    assert_eq!(*release.loss().epsilon().unwrap(), parse_decimal("3").unwrap());
    let draws = drawn(&release, 60_000, 13).await;
    // Two shares of three, at w = 1.
    let alpha = (-2.0_f64).exp();
    let law = |x: i64| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(i32::try_from(x.abs()).unwrap());
    let seen = |x: i64| draws.iter().filter(|draw| draw[1] as i64 - ROWS / 2 == x).count() as f64;
    let mut cells: Vec<(f64, f64)> = (-2..=2).map(|x| (seen(x), law(x))).collect();
    let (rest, mass) = cells.iter().fold((60_000.0, 1.0), |(n, p), cell| (n - cell.0, p - cell.1));
    cells.push((rest, mass));
    pearson("a sum of a group of the data", cells.into_iter(), 60_000.0);
    // The mean is that of the same vector: A/(A + B), with A the sum.
    let fits = |draw: &Vec<f64>| {
        let all = draw[1] / draw[0];
        (all - all.round()).abs() < 1e-6
    };
    assert!(draws.iter().filter(|draw| draw[0] > 0.0 && draw[0] < 1.0).all(fits));
}

/// The exact values of column n in a group of rows.
fn exact(rows: impl Iterator<Item = i64>) -> [f64; 3] {
    let values: Vec<i64> = rows.filter(|i| i % 7 != 0).map(|i| i % 9 - 3).collect();
    let (count, sum) = (values.len() as f64, values.iter().sum::<i64>() as f64);
    [count, sum, sum / count]
}

/// Released numbers are around the exact ones, within their ± but for at most 5 %, and fit each
/// other.
#[tokio::test]
async fn numbers_are_within_their_error_and_fit_each_other() {
    for unit in [Unit::Row, person()] {
        for (keys, exact) in [("", exact(0..ROWS)), ("g", exact((0..ROWS).step_by(2)))] {
            let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {keys}") };
            let key = if keys.is_empty() { String::new() } else { format!("{keys}, ") };
            let sql = format!(
                "SELECT {key}LAPLACE(eps=2) COUNT(n) AS c, LAPLACE(eps=1) SUM(n) AS s, LAPLACE(eps=3) AVG(n) AS a FROM t{group}"
            );
            let release = release(&sql, unit.clone());
            assert!(release.mechanisms(0).iter().all(|one| one.together.is_some()), "{sql}");
            let draws = drawn(&release, 20_000, 12).await;
            let errors: Vec<f64> = release
                .mechanisms(0)
                .iter()
                .map(|one| match one.accuracy {
                    hushql_engine::release::Predicted::Within(error) => error,
                    hushql_engine::release::Predicted::WithinOverCount(error) => error,
                    other => panic!("{other:?}"),
                })
                .collect();
            let n = draws.len() as f64;
            for column in 0..3 {
                let error = |draw: &Vec<f64>| match column {
                    2 => errors[2] / draw[0],
                    column => errors[column],
                };
                let is_far =
                    |draw: &&Vec<f64>| (draw[column] - exact[column]).abs() > error(draw) * 1.02;
                let far = draws.iter().filter(is_far).count() as f64;
                assert!(far <= n * 0.05 + 6.0 * (n * 0.05 * 0.95).sqrt(), "{sql} {column}: {far}");
                let mean = draws.iter().map(|draw| draw[column]).sum::<f64>() / n;
                let spread =
                    draws.iter().map(|draw| (draw[column] - mean).powi(2)).sum::<f64>() / n;
                let off = (mean - exact[column]).abs();
                // A mean is a quotient of noisy numbers, whose own mean is a little off.
                let bias = if column == 2 { 0.02 } else { 0.0 };
                assert!(off <= 6.0 * (spread / n).sqrt() + bias, "{sql} {column}: {mean}");
            }
            // SUM is AVG times a number that COUNT is within a half of, and rounded.
            let fits = |draw: &Vec<f64>| {
                (draw[1] - draw[2] * draw[0]).abs() <= draw[2].abs() * 0.5 + 0.501
            };
            assert!(draws.iter().filter(|draw| draw[2].abs() < 2.9).all(fits), "{sql}");
        }
    }
}

/// Numbers of the vector of a variance are around the exact ones, within their ± but for at most 5
/// %, each with less error than alone, and the noise has the scale of the variance alone at the sum
/// of the ε.
#[tokio::test]
async fn numbers_of_the_vector_of_a_variance_are_within_their_error() {
    for unit in [Unit::Row, person()] {
        let rows = if unit == Unit::Row { 1 } else { 3 };
        let list = ["COUNT(n)", "SUM(n)", "AVG(n)", "VAR_POP(n)"]
            .map(|call| format!("LAPLACE(eps=2) {call}"));
        let release_of = |list: &str| release(&format!("SELECT {list} FROM t"), unit.clone());
        let all = release_of(&list.join(", "));
        assert_eq!(*all.loss().epsilon().unwrap(), parse_decimal("8").unwrap());
        let mut errors = Vec::new();
        for (one, call) in all.mechanisms(0).iter().zip(&list) {
            assert!(one.together.is_some(), "{call}");
            let Mechanism::Laplace(noise) = &one.mechanism else { panic!("{one:?}") };
            // w² = 64, and rows of a unit, over 8.
            assert_eq!(*noise.scale(), parse_decimal(&(8 * rows).to_string()).unwrap(), "{call}");
            let error = |of: &hushql_engine::release::Mechanized| match of.accuracy {
                hushql_engine::release::Predicted::Within(error)
                | hushql_engine::release::Predicted::WithinOverCount(error)
                | hushql_engine::release::Predicted::Spread { noise: error } => error,
                other => panic!("{other:?}"),
            };
            let alone = error(&release_of(call).mechanisms(0)[0]);
            assert!(error(one) <= alone, "{call}: {} {alone}", error(one));
            errors.push(error(one));
        }
        let [count, sum, mean] = exact(0..ROWS);
        let values: Vec<f64> =
            (0..ROWS).filter(|i| i % 7 != 0).map(|i| (i % 9 - 3) as f64).collect();
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let exact = [count, sum, mean, variance];
        let draws = drawn(&all, 20_000, 14).await;
        let n = draws.len() as f64;
        for column in 0..4 {
            let error = |draw: &Vec<f64>| match column {
                2 => errors[2] / draw[0],
                // τ·w²/n, and a little for its square.
                3 => 64.0 * (errors[3] / draw[0] + (1.5 * errors[3] / draw[0]).powi(2)),
                column => errors[column],
            };
            let is_far =
                |draw: &&Vec<f64>| (draw[column] - exact[column]).abs() > error(draw) * 1.02;
            let far = draws.iter().filter(is_far).count() as f64;
            assert!(far <= n * 0.05 + 6.0 * (n * 0.05 * 0.95).sqrt(), "{column}: {far}");
            let mean = draws.iter().map(|draw| draw[column]).sum::<f64>() / n;
            let spread = draws.iter().map(|draw| (draw[column] - mean).powi(2)).sum::<f64>() / n;
            // Quotients of noisy numbers are a little off.
            let bias = if column >= 2 { 0.05 } else { 0.0 };
            let off = (mean - exact[column]).abs();
            assert!(off <= 6.0 * (spread / n).sqrt() + bias, "{column}: {mean}");
        }
    }
}

/// Over a flag, w = 1: COUNT = A + B + C, three noises at ε = 2 and no rounding. The variance of a
/// sample of this size is off by more than a tenth with a probability below 10⁻⁹.
#[tokio::test]
async fn all_three_parts_have_noise() {
    let sql = "SELECT LAPLACE(eps=1) COUNT(flag) AS c, LAPLACE(eps=1) VAR_POP(flag) AS v FROM t";
    let release = release(sql, Unit::Row);
    assert!(release.mechanisms(0).iter().all(|one| one.together.is_some()));
    let draws = drawn(&release, 60_000, 15).await;
    let alpha = (-2.0_f64).exp();
    let variance = 3.0 * 2.0 * alpha / (1.0 - alpha).powi(2);
    let seen = draws.iter().map(|draw| (draw[0] - ROWS as f64).powi(2)).sum::<f64>() / 60_000.0;
    assert!((seen - variance).abs() < 0.1 * variance, "{seen} {variance}");
}

async fn engine(limit: &str) -> (Engine, Analyst) {
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("t", batch()).unwrap();
    for statement in [
        "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 3".to_owned(),
        "ALTER TABLE t ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (-3, 5)".to_owned(),
        "ALTER TABLE t ALTER COLUMN flag SET PRIVACY DOMAIN BETWEEN (0, 1)".to_owned(),
        format!("CREATE PRIVACY BUDGET t FOR t LIMIT ({limit})"),
    ] {
        engine.owner().execute(&statement).await.unwrap();
    }
    let lab = engine.analyst("lab").unwrap();
    (engine, lab)
}

/// Where ρ is charged, the sum of two ε would cost more than both: the vector has the ε whose ρ is
/// the sum of theirs, and each still errs less than alone.
#[tokio::test]
async fn budgets_in_rho_draw_at_the_sum_of_both() {
    let sql = "SELECT LAPLACE(eps=1) SUM(flag) AS s, LAPLACE(eps=1) AVG(flag) AS a FROM t";
    // w = 1 and three rows: 3/2, and 3/x with x·tanh(x/2) = 2·tanh(1/2).
    for (limit, scale) in [("epsilon=9", 1.5), ("rho=9, delta=1e-6", 2.035_855)] {
        let (_, lab) = engine(limit).await;
        let explained = lab.explain(sql).unwrap();
        assert!(explained.to_string().contains("drawn together with avg(flag)"), "{explained}");
        let told: serde_json::Value = serde_json::from_str(&explained.to_json()).unwrap();
        let own = told["releases"][0]["scale"].as_f64().unwrap();
        assert!((own - scale).abs() < 1e-3, "{limit}: {own}");
        let answer = lab.query(sql).await.unwrap();
        let values = answer.batches()[0].column(0).as_primitive::<Int64Type>().clone();
        assert_eq!(values.len(), 1);
        assert_eq!(answer.errors(0).flatten().count(), 1);
        // Two prices of a release alone, in either notion.
        let alone = lab.cost("SELECT LAPLACE(eps=1) SUM(flag) AS s FROM t").unwrap();
        let spent = answer.receipt().unwrap().spent;
        let notion =
            if limit.starts_with("rho") { Notion::Concentrated } else { Notion::Approximate };
        let (spent, twice) =
            (spent.within(notion).unwrap(), doubled(alone).within(notion).unwrap());
        // One draw is rounded once.
        assert!([twice.nano, twice.nano - 1].contains(&spent.nano), "{limit}: {spent:?}");
        assert_eq!(spent.atto_delta, twice.atto_delta);
    }
}

fn doubled(cost: hushql::Cost) -> hushql::Cost {
    cost.plus(cost).unwrap()
}

/// A budget that is created later counts what was drawn together as the one draw that it was: its ρ
/// is that of the sum of the ε, and coupons of a smaller ε do not pay for it.
#[tokio::test]
async fn later_budgets_count_one_draw() {
    let (engine, lab) = engine("epsilon=9").await;
    let owner = engine.owner();
    lab.query("SELECT LAPLACE(eps=0.5) SUM(flag) AS s, LAPLACE(eps=0.5) AVG(flag) AS a FROM t")
        .await
        .unwrap();
    owner.execute("CREATE PRIVACY BUDGET r FOR t LIMIT (rho=5)").await.unwrap();
    let Output::Answer(shown) = owner.execute("SHOW PRIVACY BUDGET r").await.unwrap() else {
        panic!("SHOW has rows");
    };
    let shown = shown.to_string();
    // tanh(1/2), and not twice 0.5·tanh(1/4) = 0.2449.
    assert!(shown.contains("0.462117"), "{shown}");
    let coupons = |epsilon: &str| {
        format!(
            "CREATE PRIVACY BUDGET c FOR t LIMIT (epsilon=9, delta=1e-6) ACCOUNTANT COUPONS (epsilon={epsilon})"
        )
    };
    let refused = owner.execute(&coupons("0.5")).await.unwrap_err().to_string();
    assert!(refused.contains("0.5"), "{refused}");
    owner.execute(&coupons("1")).await.unwrap();
}
