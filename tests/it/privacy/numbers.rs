//! Variances, standard deviations and counts of different values: without noise they are SQL's, and
//! the ± of a variance holds as often as it says.
//!
//! A statement is parsed, bound, analyzed, calibrated and run once; then only the draw repeats,
//! from a seeded generator. What it should be is computed by DataFusion from the same rows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::prelude::SessionContext;
use hushql::sampler::QueryRng;
use hushql_engine::analysis::Lookups;
use hushql_engine::exec::{Draws, session_state};
use hushql_vault::catalog::{Privacy, Unit};

use crate::privacy::line;

/// 240 rows of 60 people, four each, every value within its column's domain.
fn rows() -> RecordBatch {
    let n = 240_i64;
    let mixed = |i: i64, m: i64| (i * i * 7 + i * 13 + 5).rem_euclid(m);
    let some = |i: i64, value: i64| (i % 11 != 3).then_some(value);
    let words = ["tea", "wine", "milk", "a word too long for a view"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..n).map(|i| i / 4)))),
        (
            "g",
            Arc::new(StringArray::from_iter_values((0..n).map(|i| ["x", "y"][(i % 2) as usize]))),
        ),
        ("n", Arc::new((0..n).map(|i| some(i, mixed(i, 100))).collect::<Int64Array>())),
        (
            "x",
            Arc::new(Float64Array::from_iter_values((0..n).map(|i| mixed(i, 997) as f64 / 100.0))),
        ),
        (
            "m",
            Arc::new(
                (0..n)
                    .map(|i| some(i, mixed(i, 4_001) - 2_000).map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        (
            "s",
            Arc::new(
                (0..n)
                    .map(|i| some(i, mixed(i, 4)).map(|w| words[w as usize]))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "d",
            Arc::new(
                (0..n).map(|i| some(i, mixed(i, 30)).map(|d| d as i32)).collect::<Date32Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

async fn draws(sql: &str, unit: &Unit) -> Draws {
    let domain = |column: &str| match column {
        "g" => line::listed(&["x", "y"]),
        "n" => line::between("0", "100"),
        "x" => line::between("0", "10"),
        "m" => line::between("-20", "20.01"),
        _ => None,
    };
    let table = line::table("t", &rows().schema(), Privacy::Private(unit.clone()), domain);
    let release = line::release(sql, &table, vec![rows()], &Lookups::default());
    Draws::for_part(&release, 0, &session_state()).await.unwrap()
}

/// The values of some columns as floats, NULL as NaN.
fn floats(columns: &[ArrayRef]) -> Vec<f64> {
    let column = |column: &ArrayRef| -> Vec<f64> {
        let column = cast(column, &DataType::Float64).unwrap();
        column.as_primitive::<Float64Type>().iter().map(|x| x.unwrap_or(f64::NAN)).collect()
    };
    columns.iter().flat_map(column).collect()
}

/// What DataFusion says: the aggregates by `g`, or of all rows.
#[allow(clippy::disallowed_methods, reason = "compared with plain SQL, on rows that nobody owns")]
async fn plainly(aggregates: &str, condition: &str, grouped: bool) -> Vec<f64> {
    let context = SessionContext::new();
    context.register_batch("t", rows()).unwrap();
    let sql = match grouped {
        true => format!("SELECT g, {aggregates} FROM t {condition} GROUP BY g ORDER BY g"),
        false => format!("SELECT {aggregates} FROM t {condition}"),
    };
    let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
    let first = usize::from(grouped);
    let all = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    floats(&all.columns()[first..])
}

fn units() -> [Unit; 2] {
    [Unit::Row, Unit::Column { column: "id".to_owned(), max_rows: Some(4), unique: false }]
}

/// At the highest cost there is, noise on counts and on squares of whole numbers is 0, but for a
/// chance of less than 10⁻¹⁰ each; on the finer grids of the others it is too small to matter.
const DEAR: &str = "LAPLACE(eps=1000000)";

#[tokio::test]
async fn without_noise_they_are_those_of_plain_sql() {
    let aggregates = [
        ("VAR_POP(n)", 1e-9),
        ("VAR_SAMP(n)", 1e-9),
        ("STDDEV(n)", 1e-9),
        ("STDDEV_POP(m)", 2e-5),
        ("VAR_SAMP(m)", 2e-5),
        // Floats are rounded to a part in 2²⁰ of their range.
        ("VAR_POP(x)", 2e-5),
        ("STDDEV(x * 2)", 2e-5),
        ("VAR_POP(n) FILTER (WHERE x > 4)", 1e-9),
        ("CORR(n, n)", 1e-6),
        ("COVAR_POP(n, n % 7)", 1e-9),
        ("COVAR_SAMP(n, n % 11)", 1e-9),
        ("REGR_SLOPE(n % 10, n)", 1e-6),
        ("REGR_INTERCEPT(n % 10, n)", 1e-6),
        ("REGR_R2(n % 10, n) FILTER (WHERE x > 1)", 1e-6),
        // Of squared floats there are at least 2¹⁰ steps, of others at least 2¹⁷.
        ("CORR(x, x + n)", 2e-2),
        ("CORR(x, m)", 2e-2),
        ("COVAR(x, x * 2)", 1e-4),
        ("REGR_SLOPE(x, x * x)", 2e-2),
        ("COUNT(DISTINCT n)", 0.0),
        ("COUNT(DISTINCT m)", 0.0),
        ("COUNT(DISTINCT s)", 0.0),
        ("COUNT(DISTINCT d)", 0.0),
        ("COUNT(DISTINCT n > 50)", 0.0),
        ("COUNT(DISTINCT s) FILTER (WHERE n < 30)", 0.0),
        ("COUNT(DISTINCT n % 7)", 0.0),
    ];
    let mut rng = QueryRng::seeded_for_tests(1);
    for unit in units() {
        for grouped in [false, true] {
            for condition in ["", "WHERE n <> 17"] {
                let wanted: Vec<&str> = aggregates.iter().map(|(sql, _)| *sql).collect();
                let expected = plainly(&wanted.join(", "), condition, grouped).await;
                let dear: Vec<String> = wanted.iter().map(|sql| format!("{DEAR} {sql}")).collect();
                let keys = if grouped { ("g, ", " GROUP BY g") } else { ("", "") };
                let sql =
                    format!("SELECT {}{} FROM t {condition}{}", keys.0, dear.join(", "), keys.1);
                let batch = draws(&sql, &unit).await.draw(&mut rng).unwrap();
                let first = usize::from(grouped);
                let got = floats(&batch.columns()[first..first + wanted.len()]);
                assert_eq!(got.len(), expected.len());
                let groups = got.len() / wanted.len();
                for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    let (what, tolerance) = aggregates[i / groups];
                    let off = (got - expected).abs();
                    assert!(
                        off <= tolerance * expected.abs().max(1.0) && expected.abs() > 0.0,
                        "{unit:?} {what} {condition} {grouped}: {got} for {expected}"
                    );
                }
            }
        }
    }
}

/// A miss has a chance of at most 5 %: of 4,000 draws more than 270 miss with a chance below 10⁻⁶.
#[tokio::test]
async fn a_variance_is_within_its_own_bound() {
    let mut rng = QueryRng::seeded_for_tests(2);
    let mechanisms =
        ["LAPLACE(eps=1)", "GAUSSIAN(eps=1, delta=0.000001)", "LAPLACE(eps=0.1)", "AUTO(eps=3)"];
    for mechanism in mechanisms {
        for aggregate in ["VAR_POP(n)", "VAR_SAMP(x)", "STDDEV_POP(m)", "STDDEV(n)"] {
            let truth = plainly(aggregate, "", false).await[0];
            let sql = format!("SELECT {mechanism} {aggregate} AS v FROM t");
            let drawn = draws(&sql, &Unit::Row).await;
            let (mut misses, mut told, mut narrow) = (0, 0, 0);
            for _ in 0..4_000 {
                let batch = drawn.draw(&mut rng).unwrap();
                // The answer's ± is the last, hidden column.
                let [value, within] = floats(batch.columns())[..] else { panic!("{sql}") };
                told += usize::from(!value.is_nan());
                misses += usize::from((value - truth).abs() > within + 1e-4);
                narrow += usize::from(within < truth);
            }
            assert!(misses <= 270, "{sql}: {misses} misses");
            assert!(told == 4_000 || mechanism.contains("0.1"), "{sql}: {told}");
            assert!(narrow > 3_900 || mechanism != "AUTO(eps=3)", "{sql}: {narrow}");
        }
    }
}

/// As for variances. Where nothing bounds what came out, the ± says so.
#[tokio::test]
async fn a_statistic_of_two_columns_is_within_its_own_bound() {
    let mut rng = QueryRng::seeded_for_tests(3);
    let mechanisms = ["LAPLACE(eps=1)", "GAUSSIAN(eps=1, delta=0.000001)", "LAPLACE(eps=20)"];
    let aggregates = [
        "CORR(n, n % 50)",
        "CORR(x, m)",
        "COVAR_POP(n, x)",
        "COVAR_SAMP(m, n)",
        "REGR_SLOPE(n % 50, n)",
        "REGR_INTERCEPT(x, n)",
        "REGR_R2(n, n % 50)",
    ];
    for mechanism in mechanisms {
        for aggregate in aggregates {
            let truth = plainly(aggregate, "", false).await[0];
            let sql = format!("SELECT {mechanism} {aggregate} AS v FROM t");
            let drawn = draws(&sql, &Unit::Row).await;
            let (mut misses, mut told, mut bounded) = (0, 0, 0);
            for _ in 0..4_000 {
                let batch = drawn.draw(&mut rng).unwrap();
                let [value, within] = floats(batch.columns())[..] else { panic!("{sql}") };
                told += usize::from(!value.is_nan());
                // Values are rounded to 2¹⁰ steps of their range, at least.
                misses += usize::from((value - truth).abs() > within + 1e-2);
                bounded += usize::from(within.is_finite());
            }
            assert!(misses <= 270, "{sql}: {misses} misses");
            assert!(told > 3_600, "{sql}: {told}");
            assert!(bounded == 4_000 || mechanism != "LAPLACE(eps=20)", "{sql}: {bounded}");
        }
    }
}
