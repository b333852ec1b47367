//! Groups whose keys are not declared: what they cost, with which probability they come out, and
//! what stays the same on neighbouring databases.
//!
//! Statements are parsed, bound, analyzed, calibrated and run once on a small table; then only the
//! draw repeats, from a seeded generator. Pearson's statistic must stay below its 1 − 10⁻⁷
//! quantile; seeds are fixed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use datafusion::execution::SessionState;
use hushql::privacy::{Loss, Rational, Spend, parse_decimal};
use hushql::sampler::QueryRng;
use hushql::{Engine, Output};
use hushql_engine::analysis::{Compares, Lookups};
use hushql_engine::exec::{Draws, session_state};
use hushql_engine::release::{Mechanism, PartitionSelection, Release};
use hushql_vault::catalog::{Budget, PerQuery, Privacy, Replay, Unit};
use num_traits::ToPrimitive;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::privacy::line;
use crate::privacy::selection::pearson;

mod ranks;

type Rows = Vec<(i64, Option<&'static str>, &'static str, i64)>;

/// Rows of a unit, a postcode without a domain, a letter with one, a number from 0 to 9.
fn batch(rows: &Rows) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
    let zip: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<StringArray>());
    let g: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2)));
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.3)));
    let columns = [("id", ids), ("zip", zip), ("g", g), ("n", n)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, a)| (name, a, true))).unwrap()
}

fn unit(max_rows: Option<u64>) -> Unit {
    Unit::Column { column: "id".to_owned(), max_rows, unique: max_rows.is_none() }
}

fn release_in(sql: &str, unit: Unit, batches: Vec<RecordBatch>) -> Release {
    let domain = |column: &str| match column {
        "g" => line::listed(&["x", "y"]),
        "n" => line::between("0", "9"),
        _ => None,
    };
    let table = line::table("people", &batches[0].schema(), Privacy::Private(unit), domain);
    line::release(sql, &table, batches, &Lookups::default())
}

fn release(sql: &str, unit: Unit) -> Release {
    release_in(sql, unit, vec![batch(&vec![])])
}

/// A budget with a default of ε = 1 and δ = 0.05 for each query, or without the δ.
fn budget(default_delta: Option<i64>) -> Budget {
    Budget {
        name: "b".to_owned(),
        table: "people".to_owned(),
        limit: Spend::of_epsilon(1_000_000_000_000, 500_000_000_000_000_000),
        promise: None,
        coupon: None,
        per_query: PerQuery { default: Some(1_000_000_000), default_delta, ..PerQuery::default() },
        replay: Replay::Off,
    }
}

/// The release of a query under a budget with a default δ of 0.05.
fn by_default(sql: &str, unit: Unit, rows: &Rows) -> Release {
    let batches = vec![batch(rows)];
    let domain = |column: &str| (column == "n").then(|| line::between("0", "9")).flatten();
    let table = line::table("people", &batches[0].schema(), Privacy::Private(unit), domain);
    let delta = Some(50_000_000_000_000_000);
    line::release_under(sql, &table, batches, &Lookups::default(), &[budget(delta)])
}

fn decimal(text: &str) -> Rational {
    parse_decimal(text).unwrap()
}

/// The scale of a Laplace mechanism.
fn scale(mechanism: &Mechanism) -> Rational {
    match mechanism {
        Mechanism::Laplace(noise) => noise.scale().clone(),
        other => panic!("{other:?}"),
    }
}

fn sigma(mechanism: &Mechanism) -> Rational {
    match mechanism {
        Mechanism::Gaussian(noise) => noise.sigma(),
        other => panic!("{other:?}"),
    }
}

fn epsilon(loss: &Loss) -> Rational {
    loss.epsilon().unwrap().clone()
}

fn delta(loss: &Loss) -> Rational {
    loss.delta().unwrap().clone()
}

/// What a query costs in all, its thresholds, and the one that is compared.
fn summary(release: &Release) -> (Rational, Rational, u64, Option<usize>) {
    let hidden = release.partition_selection(0).unwrap();
    (epsilon(&release.loss()), delta(&release.loss()), hidden.at_least(), hidden.counter())
}

#[test]
fn costs_are_shared_as_they_should() {
    let million = decimal("1e-6");
    let one = decimal("1");
    let of =
        |sql: &str| release(&format!("SELECT zip, {sql} FROM people GROUP BY zip"), unit(None));
    // The query's own numbers of units: nothing is split.
    for count in ["COUNT(DISTINCT id)", "COUNT(*)"] {
        let own = of(&format!("LAPLACE(eps=1, delta=1e-6) {count}"));
        assert_eq!(summary(&own), (one.clone(), million.clone(), 15, Some(0)), "{count}");
        assert_eq!(scale(&own.mechanisms(0)[0].mechanism), one);
        assert!(own.partition_selection(0).unwrap().noise().is_none());
    }
    // Half of ε counts units: τ of 0.5 is 28.
    let sum = of("LAPLACE(eps=1, delta=1e-6) SUM(n)");
    assert_eq!(summary(&sum), (one.clone(), million.clone(), 28, None));
    assert_eq!(scale(&sum.mechanisms(0)[0].mechanism), decimal("18"));
    assert_eq!(scale(sum.partition_selection(0).unwrap().noise().unwrap()), decimal("2"));
    // An odd number of the ledger's units: what is left of ε goes to the sum, and the cost is what
    // was written.
    let odd = of("LAPLACE(eps=0.000000003, delta=1e-6) SUM(n)");
    assert_eq!(epsilon(&odd.loss()), decimal("3e-9"));
    assert_eq!(scale(&odd.mechanisms(0)[0].mechanism), decimal("9") / decimal("2e-9"));
    // What is filtered is not the number of units.
    let filtered = of("LAPLACE(eps=1, delta=1e-6) COUNT(*) FILTER (WHERE n > 2)");
    assert_eq!(summary(&filtered), (one.clone(), million.clone(), 28, None));
    // A number of units beside it is compared, wherever the delta stands.
    let beside = of("LAPLACE(eps=1, delta=1e-6) SUM(n), LAPLACE(eps=2) COUNT(DISTINCT id)");
    assert_eq!(summary(&beside), (decimal("3"), million.clone(), 8, Some(1)));
    assert_eq!(scale(&beside.mechanisms(0)[0].mechanism), decimal("9"));
    // Gaussian noise takes half of δ. Both vectors together are (ε, δ/2)-private: each has half of
    // the ρ.
    let own = of("GAUSSIAN(eps=1, delta=1e-6) COUNT(DISTINCT id)");
    assert_eq!((summary(&own).1, summary(&own).3), (million.clone(), Some(0)));
    let known = |delta: &str| {
        let sql = format!(
            "SELECT g, GAUSSIAN(eps=1, delta={delta}) COUNT(DISTINCT id) FROM people GROUP BY g"
        );
        sigma(&release(&sql, unit(None)).mechanisms(0)[0].mechanism)
    };
    assert_eq!(sigma(&own.mechanisms(0)[0].mechanism), known("5e-7"));
    assert_ne!(known("5e-7"), known("1e-6"));
    let joint = of("GAUSSIAN(eps=1, delta=1e-6) SUM(n)");
    let hidden = joint.partition_selection(0).unwrap();
    let (sum, count) = (sigma(&joint.mechanisms(0)[0].mechanism), sigma(hidden.noise().unwrap()));
    assert_eq!((epsilon(&joint.loss()), delta(&joint.loss())), (one.clone(), million.clone()));
    let ratio = sum / &count;
    assert!(ratio > decimal("8.99") && ratio < decimal("9.01"), "Δ₂ is 9 and 1");
    assert!(count > known("5e-7") * decimal("1.4"));
    assert_eq!(*hidden.delta().value(), decimal("5e-7"));
    // Laplace counts units beside a Gaussian sum, which keeps all of its ε.
    let mixed = of("GAUSSIAN(eps=1, delta=1e-6) SUM(n), LAPLACE(eps=1) COUNT(*)");
    assert_eq!(summary(&mixed).3, Some(1));
    assert_eq!(*mixed.partition_selection(0).unwrap().delta().value(), decimal("5e-7"));
    // Of rows, of which a person may have 20 in one group or in 20, the released number needs no ε
    // of its own, and less than twice the threshold of people. Of 50, it needs more, and people are
    // counted with Gaussian noise.
    let people = |max: u64, sql: &str| {
        release(&format!("SELECT zip, {sql} FROM people GROUP BY zip"), unit(Some(max)))
    };
    let rows = people(20, "LAPLACE(eps=1, delta=1e-6) COUNT(*)");
    assert_eq!(summary(&rows), (one.clone(), million.clone(), 324, Some(0)));
    assert_eq!(scale(&rows.mechanisms(0)[0].mechanism), decimal("20"));
    let hidden = rows.partition_selection(0).unwrap();
    assert!(hidden.compares_rows() && hidden.noise().is_none());
    let tau = |hidden: &PartitionSelection| hidden.others()[0].threshold;
    assert_eq!(tau(hidden), 206);
    let units = people(50, "LAPLACE(eps=1, delta=1e-6) COUNT(*)");
    assert_eq!(summary(&units), (one.clone(), million.clone(), 333, None));
    assert_eq!(scale(&units.mechanisms(0)[0].mechanism), decimal("100"));
    let hidden = units.partition_selection(0).unwrap();
    assert_eq!((tau(hidden), hidden.epsilon().unwrap().value()), (854, &decimal("0.5")));
    assert_eq!(*hidden.delta().value(), decimal("5e-7"));
    let deviation = sigma(hidden.noise().unwrap());
    assert!(deviation > decimal("59") && deviation < decimal("59.1"), "8.35 of √50");
    // A thousand rows in one group would need more than the number of people does.
    let few = people(1000, "LAPLACE(eps=1, delta=1e-6, groups=1) COUNT(*)");
    assert_eq!(summary(&few), (one.clone(), million.clone(), 28, None));
    let hidden = few.partition_selection(0).unwrap();
    assert!(!hidden.compares_rows() && tau(hidden) > 1000);
    // Beside a sum, the number of rows is compared, and the sum keeps its ε.
    let beside = people(20, "LAPLACE(eps=1, delta=1e-6) SUM(n), LAPLACE(eps=1) COUNT(*)");
    assert_eq!(summary(&beside), (decimal("2"), million.clone(), 324, Some(1)));
    assert_eq!(scale(&beside.mechanisms(0)[0].mechanism), decimal("180"));
    // What is asked of the number of people is compared with that.
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, min_privacy_units_per_group=9) zip, COUNT(*) FROM people GROUP BY zip";
    assert_eq!(summary(&release(sql, unit(Some(50)))).3, None);
    // AUTO takes what errs less: Laplace for one group, Gaussian for many.
    let auto = of("AUTO(eps=1, delta=1e-6) COUNT(DISTINCT id)");
    assert!(matches!(auto.mechanisms(0)[0].mechanism, Mechanism::Laplace(_)));
    let sql = "SELECT zip, AUTO(eps=1, delta=1e-6, groups=90) COUNT(DISTINCT id) FROM people GROUP BY zip";
    let many = release(sql, unit(Some(100)));
    assert!(matches!(many.mechanisms(0)[0].mechanism, Mechanism::Gaussian(_)));
    assert_eq!(many.partition_selection(0).unwrap().groups(), 90);
}

/// Where each row adds something to a sum, in a narrow range, the released sum is compared at the
/// whole ε: its τ takes at most twice as many people as τ of people does, if each adds the least.
#[test]
fn sums_of_a_narrow_range_are_compared_as_released() {
    let one = decimal("1");
    let of = |max: Option<u64>, sql: &str| {
        release(&format!("SELECT zip, {sql} FROM people GROUP BY zip"), unit(max))
    };
    // 3 + 3·ln(10⁶/(1 + e^(−1/3))), which 22 people reach who add 2 each; of people, 28 are needed.
    let sum = of(None, "LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, 2, 3))");
    assert_eq!(summary(&sum), (one.clone(), decimal("1e-6"), 43, Some(0)));
    assert_eq!(scale(&sum.mechanisms(0)[0].mechanism), decimal("3"));
    let hidden = sum.partition_selection(0).unwrap();
    assert_eq!(hidden.compares(), Compares::Values { least: 2, most: 3 });
    assert_eq!((hidden.others().len(), hidden.others()[0].threshold), (1, 28));
    assert!(hidden.noise().is_none());
    // Up to a factor of nearly four between the ends; from there on, people are counted.
    let compares = |max, sql: &str| of(max, sql).partition_selection(0).unwrap().compares();
    let narrow =
        |lo, hi| compares(None, &format!("LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, {lo}, {hi}))"));
    assert_eq!(narrow(2, 7), Compares::Values { least: 2, most: 7 });
    assert_eq!(
        (narrow(2, 8), narrow(1, 4), narrow(0, 1)),
        (Compares::Units, Compares::Units, Compares::Units)
    );
    let wide = of(None, "LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, 1, 9))");
    let hidden = wide.partition_selection(0).unwrap();
    assert_eq!((hidden.at_least(), hidden.others()[0].threshold), (28, 128));
    // What may be 0 or negative never decides, nor a sum of some rows, nor one that an AVG may
    // share its noise with.
    for sql in [
        "LAPLACE(eps=1, delta=1e-6) SUM(n - 9)",
        "LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, 2, 3)) FILTER (WHERE n > 2)",
        "LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, 2, 3)) AS s, LAPLACE(eps=1) AVG(CLAMP(n, 2, 3)) AS a",
        "LAPLACE(eps=1, delta=1e-6) AVG(CLAMP(n, 2, 3)) AS a",
    ] {
        assert_eq!(compares(None, sql), Compares::Units, "{sql}");
    }
    // A number of people that is asked for is compared with one.
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, min_privacy_units_per_group=9) zip, SUM(CLAMP(n, 2, 3)) FROM people GROUP BY zip";
    assert_eq!(
        release(sql, unit(None)).partition_selection(0).unwrap().compares(),
        Compares::Units
    );
    // Under OPTIONS, the sum has the share of the people.
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) zip, SUM(CLAMP(n, 2, 3)) FROM people GROUP BY zip";
    assert_eq!(summary(&release(sql, unit(None))), (one, decimal("1e-6"), 43, Some(0)));
    // Beside a number of rows, whichever takes fewer people.
    let both =
        of(Some(20), "LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, 4, 5)), LAPLACE(eps=0.5) COUNT(*)");
    assert_eq!(
        both.partition_selection(0).unwrap().compares(),
        Compares::Values { least: 4, most: 5 }
    );
    assert_eq!(both.partition_selection(0).unwrap().others().len(), 2);
    let both =
        of(Some(20), "LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(n, 4, 5)), LAPLACE(eps=1) COUNT(*)");
    assert!(both.partition_selection(0).unwrap().compares_rows());
    // Gaussian noise has the whole ρ of (ε, δ/2).
    let gaussian = of(None, "GAUSSIAN(eps=1, delta=1e-6) SUM(CLAMP(n, 4, 5))");
    assert_eq!(summary(&gaussian).3, Some(0));
    assert_eq!(*gaussian.partition_selection(0).unwrap().delta().value(), decimal("5e-7"));
}

/// Ten million orders of a million people in 99,856 groups, of which the one of rank r has a share
/// in proportion to 1/r, and of people as in docs/performance.md: how many groups come out where a
/// person counts with 50 orders, with rows as they are released and with people counted apart.
#[test]
#[ignore = "long: half a minute"]
fn most_of_ten_million_orders_come_out_in_groups() {
    const GROUPS: usize = 99_856;
    let (people, rows) = (1_000_000_u32, 50_u64);
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let mut sums: Vec<f64> = (1..=GROUPS).map(|rank| 1.0 / rank as f64).collect();
    for i in 1..GROUPS {
        sums[i] += sums[i - 1];
    }
    let (mut kept, mut units) = (vec![0_u64; GROUPS], vec![0_u64; GROUPS]);
    for rank in 0..people {
        let law = 1.5 + 3.024 * (f64::from(people) / (f64::from(rank) + 0.5)).powf(2.0 / 3.0);
        let orders = if rank == 0 { 90_000 } else { law as usize };
        let mut own: BTreeMap<usize, u64> = BTreeMap::new();
        for _ in 0..orders {
            let at = rng.random_range(0.0..sums[GROUPS - 1]);
            *own.entry(sums.partition_point(|sum| *sum <= at).min(GROUPS - 1)).or_default() += 1;
        }
        // Groups are served one after another, in an order of chance.
        let mut own: Vec<(u64, usize, u64)> =
            own.into_iter().map(|(group, n)| (rng.random(), group, n)).collect();
        own.sort_unstable();
        let mut left = rows;
        for (i, (_, group, n)) in own.into_iter().enumerate() {
            let served = n.min(left);
            left -= served;
            kept[group] += served;
            units[group] += u64::from(i < 50);
        }
    }
    let people = |max: u64, sql: &str| {
        release(&format!("SELECT zip, {sql} FROM people GROUP BY zip"), unit(Some(max)))
    };
    let by_units = people(50, "LAPLACE(eps=1, delta=1e-6) COUNT(*)");
    let hidden = by_units.partition_selection(0).unwrap();
    let deviation = sigma(hidden.noise().unwrap()).to_f64().unwrap();
    // The expected number, by the normal and the Laplace law.
    let normal = |x: f64| 0.5 * complement_of_erf(x / deviation / 2_f64.sqrt());
    let laplace = |x: f64| match x > 0.0 {
        true => (-x / 50.0).exp() / 2.0,
        false => 1.0 - (x / 50.0).exp() / 2.0,
    };
    let shown = |of: &[u64], threshold: u64, above: &dyn Fn(f64) -> f64| -> f64 {
        of.iter().map(|n| above(threshold as f64 - 0.5 - *n as f64)).sum()
    };
    let apart = shown(&units, hidden.threshold(), &normal);
    let released = shown(&kept, hidden.others()[0].threshold, &laplace);
    println!("{apart:.0} groups by people, {released:.0} by rows as they are released");
    assert!(apart > 1_400.0 && released < 1_000.0, "{apart} {released}");
}

/// 1 − erf(x), within 1.2·10⁻⁷ (Numerical Recipes, 6.2).
fn complement_of_erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let series = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let sum = series.iter().rev().fold(0.0, |sum, c| sum * t + c);
    let tail = t * (sum - x * x).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}

#[test]
fn options_share_epsilon_with_the_threshold() {
    let million = decimal("1e-6");
    let of = |list: &str, options: &str| {
        let sql = format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) zip, {list} FROM people GROUP BY zip"
        );
        release(&sql, unit(None))
    };
    let three = of("SUM(n), AVG(n)", "epsilon=1, delta=1e-6");
    let third = decimal("0.333333333");
    assert_eq!(epsilon(&three.loss()), third.clone() * decimal("3"));
    assert_eq!(delta(&three.loss()), million);
    assert_eq!(epsilon(three.partition_selection(0).unwrap().loss().unwrap()), third);
    // SUM and AVG are read of one vector, which has both their shares.
    assert_eq!(scale(&three.mechanisms(0)[0].mechanism), decimal("9") / (third * decimal("2")));
    // The number of units is among them: δ is for the threshold, which costs no ε.
    let two = of("SUM(n), COUNT(*)", "epsilon=1, delta=1e-6");
    assert_eq!(summary(&two), (decimal("1"), million.clone(), 28, Some(1)));
    let asked = of("COUNT(*)", "epsilon=1, delta=1e-6, min_privacy_units_per_group=40");
    assert_eq!(summary(&asked), (decimal("1"), million.clone(), 40, Some(0)));
    let idle = of(
        "COUNT(*)",
        "epsilon=1, delta=1e-6, min_privacy_units_per_group=4, group_selection_strategy=LAPLACE_THRESHOLD",
    );
    assert_eq!(summary(&idle), (decimal("1"), million.clone(), 15, Some(0)));
    // What is marked costs what it says, on top, and is held to the same number.
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group=50) zip, LAPLACE(eps=1, delta=1e-6) COUNT(*) FROM people GROUP BY zip";
    assert_eq!(release(sql, unit(None)).partition_selection(0).unwrap().at_least(), 50);
    let on_top = of("SUM(n), LAPLACE(eps=1) COUNT(*) AS c", "epsilon=1, delta=1e-6");
    assert_eq!(summary(&on_top), (decimal("2"), million, 15, Some(1)));
    assert_eq!(scale(&on_top.mechanisms(0)[0].mechanism), decimal("9"));
}

/// A default δ is as one that a release states: the same mechanisms, thresholds and losses, once
/// for a GROUP BY, whatever its releases are.
#[test]
fn a_default_delta_is_as_one_that_is_written() {
    let keys = "upper(zip)";
    for (plain, written) in [
        ("COUNT(*)", "AUTO(eps=1, delta=0.05) COUNT(*)"),
        ("COUNT(DISTINCT id)", "AUTO(eps=1, delta=0.05) COUNT(DISTINCT id)"),
        ("SUM(n)", "AUTO(eps=1, delta=0.05) SUM(n)"),
        ("SUM(n), COUNT(*)", "AUTO(eps=0.5) SUM(n), AUTO(eps=0.5, delta=0.05) COUNT(*)"),
        ("SUM(n), COUNT(n)", "AUTO(eps=0.5) SUM(n), AUTO(eps=0.5, delta=0.05) COUNT(n)"),
        ("LAPLACE(eps=2) SUM(n)", "LAPLACE(eps=2, delta=0.05) SUM(n)"),
        (
            "LAPLACE(eps=2) SUM(n), COUNT(*)",
            "LAPLACE(eps=2) SUM(n), AUTO(eps=1, delta=0.05) COUNT(*)",
        ),
        ("GAUSSIAN(eps=2, delta=1e-6) SUM(n)", "GAUSSIAN(eps=2, delta=1e-6) SUM(n)"),
    ] {
        for max in [None, Some(1), Some(20)] {
            let of = |list: &str| {
                let sql = format!("SELECT {keys}, {list} FROM people GROUP BY {keys}");
                by_default(&sql, unit(max), &vec![])
            };
            let (plain_release, written_release) = (of(plain), of(written));
            let both = [&plain_release, &written_release];
            let [own, other] = both.map(|release| {
                let hidden = release.partition_selection(0).unwrap();
                let drawn = release.mechanisms(0).iter().map(|one| format!("{:?}", one.mechanism));
                let drawn: Vec<String> = drawn.collect();
                let threshold = (hidden.threshold(), hidden.counter(), hidden.delta().clone());
                (drawn, threshold, format!("{:?}", hidden.noise()), release.loss())
            });
            assert_eq!(own, other, "{plain} with {max:?}");
            let stated = if plain == written { "1e-6" } else { "0.05" };
            assert_eq!(delta(&plain_release.loss()), decimal(stated), "{plain}");
        }
    }
    // Keys alone are selected by a count of units, at the whole of both defaults.
    for sql in ["SELECT DISTINCT zip FROM people", "SELECT zip FROM people GROUP BY zip"] {
        let (one, twenty) =
            (by_default(sql, unit(None), &vec![]), by_default(sql, unit(Some(20)), &vec![]));
        assert_eq!(summary(&one), (decimal("1"), decimal("0.05"), 4, Some(0)), "{sql}");
        let hidden = twenty.partition_selection(0).unwrap();
        assert_eq!((hidden.groups(), hidden.compares()), (20, Compares::Units), "{sql}");
        assert_eq!(epsilon(&twenty.loss()), decimal("1"), "{sql}");
        assert_eq!(delta(&twenty.loss()), decimal("0.05"), "{sql}");
    }
    // Each GROUP BY takes the δ once, the sets of one together.
    let two = "SELECT zip, COUNT(*) FROM people GROUP BY zip UNION ALL SELECT g, COUNT(*) FROM people GROUP BY g";
    assert_eq!(delta(&by_default(two, unit(None), &vec![]).loss()), decimal("0.1"));
    let sets = "SELECT zip, g, COUNT(*) FROM people GROUP BY CUBE (zip, g)";
    let sets = by_default(sets, unit(None), &vec![]);
    // Four sets share it.
    assert_eq!(delta(&sets.loss()), decimal("0.05"));
    // Public keys take none of it.
    let known = by_default("SELECT n, COUNT(*) FROM people GROUP BY n", unit(None), &vec![]);
    assert!(known.partition_selection(0).is_none());
    assert_eq!(known.loss().delta().cloned().unwrap_or_default(), decimal("0"));
}

const DRAWS: u32 = 40_000;

/// What came out in each draw, by key: the last column, or nothing.
async fn drawn(sql: &str, unit: Unit, rows: &Rows, seed: u64) -> Vec<BTreeMap<String, i64>> {
    let release = release_in(sql, unit, vec![batch(rows)]);
    let draws = Draws::for_part(&release, 0, &session_state()).await.unwrap();
    let mut rng = QueryRng::seeded_for_tests(seed);
    (0..DRAWS)
        .map(|_| {
            let batch = draws.draw(&mut rng).unwrap();
            let values = batch.column(1).as_primitive::<Int64Type>().clone();
            let name = |row| match batch.column(0).is_null(row) {
                true => "NULL".to_owned(),
                false => array_value_to_string(batch.column(0), row).unwrap(),
            };
            (0..batch.num_rows()).map(|row| (name(row), values.value(row))).collect()
        })
        .collect()
}

/// A key of one person alone comes out with the default δ at most: the count of units for the keys
/// alone follows the same cut law as a released one.
#[tokio::test]
async fn keys_alone_follow_the_cut_law() {
    let alpha = (-1.0_f64).exp();
    let above = |x: i32| match x {
        1.. => alpha.powi(x) / (1.0 + alpha),
        _ => 1.0 - alpha.powi(1 - x) / (1.0 + alpha),
    };
    for sql in
        ["SELECT DISTINCT zip FROM people", "SELECT zip, COUNT(*) AS n FROM people GROUP BY zip"]
    {
        let release = by_default(sql, unit(None), &postcodes());
        let draws = Draws::for_part(&release, 0, &session_state()).await.unwrap();
        let mut rng = QueryRng::seeded_for_tests(5);
        let mut shown = BTreeMap::<Option<String>, u32>::new();
        for _ in 0..DRAWS {
            let batch = draws.draw(&mut rng).unwrap();
            for key in batch.column(0).as_string::<i32>() {
                *shown.entry(key.map(str::to_owned)).or_default() += 1;
            }
        }
        for (key, count) in [(Some("a"), 5), (Some("b"), 1), (None, 6)] {
            let seen = f64::from(shown.get(&key.map(str::to_owned)).copied().unwrap_or_default());
            let expected = above(4 - count);
            let cells = [(seen, expected), (f64::from(DRAWS) - seen, 1.0 - expected)];
            pearson(sql, cells.into_iter(), f64::from(DRAWS));
        }
    }
    assert!(above(3) <= 0.05);
}

/// How many of the draws show a key with a value that holds.
fn seen(draws: &[BTreeMap<String, i64>], key: &str, holds: impl Fn(i64) -> bool) -> f64 {
    draws.iter().filter(|draw| draw.get(key).is_some_and(|v| holds(*v))).count() as f64
}

/// 5 people in one postcode, 1 in another, 6 of none.
fn postcodes() -> Rows {
    let zips = [[Some("a"); 5].to_vec(), vec![Some("b")], [None; 6].to_vec()].concat();
    (1..).zip(zips).map(|(id, zip)| (id, zip, "x", 1)).collect()
}

/// At ε = 1 and δ = 0.05, τ is 4. A released number follows the Laplace law cut at 4, NULL is a key
/// like any other, and the postcode of one person comes out with probability e⁻³/(1 + e⁻¹) =
/// 0.0364.
#[tokio::test]
async fn released_numbers_follow_the_cut_law() {
    let alpha = (-1.0_f64).exp();
    let law = |x: i64| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(x.unsigned_abs() as i32);
    let above = |x: i64| match x {
        1.. => alpha.powi(x as i32) / (1.0 + alpha),
        _ => 1.0 - alpha.powi(1 - x as i32) / (1.0 + alpha),
    };
    let sql =
        "SELECT zip, LAPLACE(eps=1, delta=0.05) COUNT(DISTINCT id) AS n FROM people GROUP BY zip";
    let draws = drawn(sql, unit(None), &postcodes(), 1).await;
    assert!(draws.iter().flat_map(BTreeMap::values).all(|n| *n >= 4));
    for (key, count) in [("a", 5), ("b", 1), ("NULL", 6)] {
        let mut cells: Vec<(f64, f64)> = (4..8)
            .map(|n| (seen(&draws, key, |v| v == n), law(n - count)))
            .chain([(seen(&draws, key, |v| v >= 8), above(8 - count))])
            .collect();
        cells.push((f64::from(DRAWS) - seen(&draws, key, |_| true), 1.0 - above(4 - count)));
        pearson(key, cells.into_iter(), f64::from(DRAWS));
    }
    assert!((above(3) - 0.036_4).abs() < 1e-4);
    // Units are counted for the threshold alone, at half of ε: the same odds, whatever the sums
    // are.
    let sql = "SELECT zip, LAPLACE(eps=2, delta=0.05) SUM(n) AS s FROM people GROUP BY zip";
    let draws = drawn(sql, unit(None), &postcodes(), 2).await;
    for (key, count) in [("a", 5), ("b", 1), ("NULL", 6)] {
        let out = seen(&draws, key, |_| true);
        let cells = [(out, above(4 - count)), (f64::from(DRAWS) - out, 1.0 - above(4 - count))];
        pearson(key, cells.into_iter(), f64::from(DRAWS));
    }
    // A sum is compared as it is released: of 4 to 5 a person, at a scale of 5, from 5 +
    // 5·ln(20/(1 + e^(−1/5))) on.
    let sql =
        "SELECT zip, LAPLACE(eps=1, delta=0.05) SUM(CLAMP(n, 4, 5)) AS s FROM people GROUP BY zip";
    let sums = drawn(sql, unit(None), &postcodes(), 6).await;
    assert!(sums.iter().flat_map(BTreeMap::values).all(|s| *s >= 17));
    let beta = (-0.2_f64).exp();
    let above_of_sum = |x: i64| match x {
        1.. => beta.powi(x as i32) / (1.0 + beta),
        _ => 1.0 - beta.powi(1 - x as i32) / (1.0 + beta),
    };
    for (key, sum) in [("a", 20), ("b", 4), ("NULL", 24)] {
        let of = |from: i64| above_of_sum(from - sum);
        let ends = [17, 20, 24, 30];
        let mut cells: Vec<(f64, f64)> = ends
            .windows(2)
            .map(|w| (seen(&sums, key, |v| v >= w[0] && v < w[1]), of(w[0]) - of(w[1])))
            .chain([(seen(&sums, key, |v| v >= 30), of(30))])
            .collect();
        cells.push((f64::from(DRAWS) - seen(&sums, key, |_| true), 1.0 - of(17)));
        pearson(key, cells.into_iter(), f64::from(DRAWS));
    }
    // Where all values of a group are NULL, it is as if it had no rows.
    let sql = "SELECT zip, LAPLACE(eps=1, delta=0.9) SUM(CASE WHEN zip = 'a' THEN CLAMP(n, 4, 5) END) AS s FROM people GROUP BY zip";
    let hidden = release(sql, unit(None));
    assert_eq!(hidden.partition_selection(0).unwrap().counter(), Some(0));
    let sums = drawn(sql, unit(None), &postcodes(), 7).await;
    assert!(seen(&sums, "a", |_| true) > 0.0);
    assert_eq!((seen(&sums, "b", |_| true), seen(&sums, "NULL", |_| true)), (0.0, 0.0));
    // Seeing a group says nothing of the noise of its sum.
    let high = seen(&draws, "a", |s| s > 5) / seen(&draws, "a", |_| true);
    let low = seen(&draws, "a", |s| s < 5) / seen(&draws, "a", |_| true);
    assert!((high - low).abs() < 0.04, "{high} {low}: 5 deviations");
}

/// A person alone in each of 8 postcodes, counted in at most C: one of the postcodes comes out with
/// probability at most δ. Of 40,000 turns of chance 0.05 at most, more than 0.05 +
/// 6·√(0.05·0.95/40,000) = 0.0566 is met with probability below 10⁻⁸. Gaussian noise leaves δ/2 to
/// the threshold: 0.025 + 6·√(0.025·0.975/40,000) = 0.0297.
#[tokio::test]
async fn a_person_alone_stays_hidden() {
    let zips = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let of = |zips: &[&'static str]| -> Rows {
        zips.iter().map(|zip| (1, Some(*zip), "x", 1)).collect()
    };
    let rows = of(&zips);
    for (release, most) in [
        ("LAPLACE(eps=1, delta=0.05, groups=1) COUNT(DISTINCT id)", 0.0566),
        ("LAPLACE(eps=1, delta=0.05, groups=3) COUNT(DISTINCT id)", 0.0566),
        ("LAPLACE(eps=8, delta=0.05) COUNT(DISTINCT id)", 0.0566),
        ("LAPLACE(eps=9, delta=0.05, rows=1, groups=3) COUNT(*)", 0.0566),
        ("LAPLACE(eps=9, delta=0.05, groups=3) SUM(n)", 0.0566),
        ("GAUSSIAN(eps=9, delta=0.05, groups=3) COUNT(DISTINCT id)", 0.0297),
        ("GAUSSIAN(eps=9, delta=0.05, groups=3) SUM(n)", 0.0297),
    ] {
        let sql = format!("SELECT zip, {release} AS r FROM people GROUP BY zip");
        let draws = drawn(&sql, unit(Some(8)), &rows, 3).await;
        let out = draws.iter().filter(|draw| !draw.is_empty()).count() as f64;
        assert!(out <= most * f64::from(DRAWS), "{sql}: {out}");
    }
    // Where rows are compared: one in each postcode, all in one, and in between.
    let some = ["a", "a", "a", "b", "b", "c", "c", "d"];
    for zips in [&zips, &["a"; 8], &some] {
        for (release, most) in [
            ("LAPLACE(eps=1, delta=0.05) COUNT(*)", 0.0566),
            ("LAPLACE(eps=2, delta=0.05, groups=3, rows=2) COUNT(*)", 0.0566),
            ("LAPLACE(eps=2, delta=0.05) COUNT(*)", 0.0566),
            ("LAPLACE(eps=1, delta=0.05, groups=3, rows=2) COUNT(*)", 0.0566),
            ("GAUSSIAN(eps=1, delta=0.05, groups=8, rows=2) COUNT(*)", 0.0297),
            ("LAPLACE(eps=1, delta=0.05) SUM(n), LAPLACE(eps=2) COUNT(*)", 0.0566),
        ] {
            let sql = format!("SELECT zip, {release} AS r FROM people GROUP BY zip");
            let hidden = self::release(&sql, unit(Some(8)));
            assert!(hidden.partition_selection(0).unwrap().compares_rows(), "{sql}");
            let draws = drawn(&sql, unit(Some(8)), &of(zips), 5).await;
            let out = draws.iter().filter(|draw| !draw.is_empty()).count() as f64;
            assert!(out <= most * f64::from(DRAWS), "{sql}: {out}");
        }
    }
    // Where sums are compared: of a person who adds the most.
    for zips in [&zips, &["a"; 8], &some] {
        let rows: Rows = zips.iter().map(|zip| (1, Some(*zip), "x", 9)).collect();
        for (release, most) in [
            ("LAPLACE(eps=1, delta=0.05, groups=1, rows=1) SUM(CLAMP(n, 4, 9))", 0.0566),
            ("LAPLACE(eps=1, delta=0.05, groups=1, rows=3) SUM(CLAMP(n, 8, 9))", 0.0566),
            ("LAPLACE(eps=2, delta=0.05, groups=3, rows=1) SUM(CLAMP(n, 8, 9))", 0.0566),
            ("LAPLACE(eps=2, delta=0.05) SUM(CLAMP(n, 8, 9))", 0.0566),
            ("GAUSSIAN(eps=1, delta=0.05, groups=8, rows=1) SUM(CLAMP(n, 8, 9))", 0.0297),
        ] {
            let sql = format!("SELECT zip, {release} AS r FROM people GROUP BY zip");
            let hidden = self::release(&sql, unit(Some(8)));
            assert_eq!(hidden.partition_selection(0).unwrap().counter(), Some(0), "{sql}");
            let draws = drawn(&sql, unit(Some(8)), &rows, 8).await;
            let out = draws.iter().filter(|draw| !draw.is_empty()).count() as f64;
            assert!(out <= most * f64::from(DRAWS), "{sql}: {out}");
        }
    }
    // Enforced before anything is counted: in one of eight groups, not in all of them.
    let sql = "SELECT zip, LAPLACE(eps=1, delta=0.9, groups=1) COUNT(DISTINCT id) AS n FROM people GROUP BY zip";
    let draws = drawn(sql, unit(Some(8)), &rows, 4).await;
    let keys: std::collections::BTreeSet<_> = draws.iter().flat_map(BTreeMap::keys).collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
}

fn with_partitions(partitions: usize, rows: usize) -> SessionState {
    let mut state = session_state();
    state.config_mut().options_mut().execution.target_partitions = partitions;
    state
        .config_mut()
        .options_mut()
        .set("datafusion.execution.batch_size", &rows.to_string())
        .unwrap();
    state
}

/// Rows in other orders, batches and partitions give the very same answer from the same seed:
/// sorted by key, NULL last.
#[tokio::test]
async fn nothing_depends_on_the_order_of_rows() {
    let zips = [Some("m"), Some("a"), None, Some("zz"), Some("b"), Some("")];
    let mut rows: Rows = Vec::new();
    for id in 0..400_i64 {
        for j in 0..1 + id % 5 {
            let zip = zips[usize::try_from((id * 7 + j * j) % 6).unwrap()];
            rows.push((id, zip, if j % 3 == 0 { "y" } else { "x" }, (id + j) % 10));
        }
    }
    for list in [
        "LAPLACE(eps=1, delta=0.001, rows=1, groups=2) COUNT(*) AS c, LAPLACE(eps=1) AVG(n) AS a",
        "LAPLACE(eps=1, delta=0.001, groups=2, rows=2) SUM(n) AS s",
        "LAPLACE(eps=1, delta=0.001, groups=2, rows=2) SUM(CLAMP(n, 8, 9)) AS s",
        "LAPLACE(eps=2, delta=0.001) COUNT(*) AS c",
        "GAUSSIAN(eps=1, delta=0.001, groups=2) AVG(n) AS a",
    ] {
        for keys in ["zip", "g, zip", "zip, g", "n * 1.5"] {
            let sql = format!("SELECT {list} FROM people GROUP BY {keys}");
            let mut answers = Vec::new();
            for (partitions, size, turned) in
                [(1, 8192, false), (1, 3, true), (2, 7, false), (7, 100, true), (4, 8192, true)]
            {
                let mut rows = rows.clone();
                if turned {
                    rows.reverse();
                    rows.rotate_left(101);
                }
                let whole = batch(&rows);
                let half = whole.num_rows() / 2;
                let batches =
                    vec![whole.slice(half, whole.num_rows() - half), whole.slice(0, half)];
                let release = release_in(&sql, unit(Some(5)), batches);
                let state = with_partitions(partitions, size);
                let draws = Draws::for_part(&release, 0, &state).await.unwrap();
                let answer = draws.draw(&mut QueryRng::seeded_for_tests(9)).unwrap();
                assert!(answer.num_rows() > 1, "{sql}");
                answers.push(answer);
            }
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{sql}");
            if keys == "zip" {
                let column = answers[0].column(0).as_string::<i32>().clone();
                let order: Vec<_> = column.iter().collect();
                let mut sorted = order.clone();
                sorted.sort_by_key(|key| (key.is_none(), *key));
                assert_eq!(order, sorted);
            }
        }
    }
}

async fn engine(rows: &Rows, unit: &str) -> Engine {
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("people", batch(rows)).unwrap();
    for statement in [
        format!("ALTER TABLE people SET PRIVACY UNIT {unit}"),
        "ALTER TABLE people ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 9)".to_owned(),
        "ALTER TABLE people ALTER COLUMN g SET PRIVACY DOMAIN IN ('x', 'y')".to_owned(),
        "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=100000, delta=0.9) PER QUERY (default=1)"
            .to_owned(),
    ] {
        engine.owner().execute(&statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    engine
}

/// The same status, columns, explanation, notes and charge, with a person's group, without it, and
/// without anybody.
#[tokio::test]
async fn neighbours_look_alike() {
    let full = [postcodes(), vec![(99, Some("alone"), "y", 9)]].concat();
    let databases = [full.clone(), full[..full.len() - 1].to_vec(), vec![]];
    for unit in ["(id) UNIQUE", "(id) MAX ROWS 3", "ROW"] {
        let count = if unit == "ROW" { "COUNT(*)" } else { "COUNT(DISTINCT id)" };
        for sql in [
            format!("SELECT zip, LAPLACE(eps=1, delta=1e-6) {count} AS c FROM people GROUP BY zip"),
            format!("SELECT zip, LAPLACE(eps=1, delta=0.3, groups=2) {count} AS c FROM people GROUP BY zip HAVING c > 0 ORDER BY c DESC LIMIT 2"),
            "SELECT g, zip, LAPLACE(eps=1, delta=1e-6) AVG(n) AS a FROM people GROUP BY g, zip".to_owned(),
            "SELECT g, zip, LAPLACE(eps=1, delta=1e-6) COUNT(*) AS n FROM people GROUP BY g, zip".to_owned(),
            "SELECT g, zip, LAPLACE(eps=1, delta=0.3) SUM(CLAMP(n, 8, 9)) AS n FROM people GROUP BY g, zip".to_owned(),
            "SELECT upper(zip) AS z, GAUSSIAN(eps=1, delta=1e-6) SUM(n) AS s FROM people WHERE n > 0 GROUP BY z".to_owned(),
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) zip, COUNT(*) AS c, AVG(n) AS a FROM people GROUP BY zip".to_owned(),
            format!("WITH c AS (SELECT zip, LAPLACE(eps=1, delta=1e-6) {count} AS v FROM people GROUP BY zip) SELECT count(*) AS k, sum(a.v - b.v) AS z FROM c a JOIN c b ON a.zip = b.zip"),
            "SELECT zip, LAPLACE(eps=1) COUNT(*) FROM people GROUP BY zip".to_owned(),
            "SELECT zip, EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(n) FROM people GROUP BY zip".to_owned(),
            "SELECT (SELECT LAPLACE(eps=1, delta=1e-6) COUNT(*) AS c FROM people GROUP BY zip) AS v".to_owned(),
        ] {
            let mut looks = Vec::new();
            for rows in &databases {
                let session = engine(rows, unit).await.analyst("lab").unwrap();
                let explained = session.explain(&sql).unwrap().to_string();
                let look = match session.execute(&sql).await {
                    Ok(Output::Answer(answer)) => {
                        let receipt = answer.receipt().unwrap().to_string();
                        // Whether a number is mostly noise follows from what was released.
                        let notes = answer.notes().iter();
                        let notes = notes.filter(|note| !note.contains("exceeds half of it"));
                        let notes = notes.cloned().collect::<Vec<_>>().join("\n");
                        if !sql.contains("k,") {
                            assert!(answer.batches().iter().all(|b| b.num_rows() <= 4), "{sql}");
                        }
                        format!("{:?}\n{receipt}\n{notes}", answer.schema())
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => error.to_string(),
                };
                looks.push(format!("{explained}\n{look}"));
            }
            assert!(looks.iter().all(|look| *look == looks[0]), "{sql}\n{looks:#?}");
        }
    }
}
