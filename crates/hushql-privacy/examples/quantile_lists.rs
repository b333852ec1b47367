//! Errors of lists of quantiles at equal ε: one release for all of them, and a release for each.
//!
//! In: a column of a CSV file with whole numbers, its range and a step, or the word `amounts` and a
//! number of log-normal amounts from 0 to 100 in steps of 0.01. Out: for lists of 1 to 9 fractions
//! i/(k + 1) at ε = 1, how many rows lie between the rank of an answer and the wanted rank, on
//! average over the list and 1,000 draws. The rows of a value have all of their ranks.
//!
//! ```sh
//! cargo run --release -p hushql-privacy --example quantile_lists -- adult.csv age 17 90 1
//! cargo run --release -p hushql-privacy --example quantile_lists -- amounts 200000
//! ```

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::collections::BTreeMap;
use std::error::Error;

use hushql_privacy::mechanism::quantile::range;
use hushql_privacy::mechanism::{Exponential, Fractions, ManyQuantiles, Rank};
use hushql_privacy::privacy::{Epsilon, Rational};
use hushql_privacy::sampler::QueryRng;

const DRAWS: u32 = 1_000;

type Histogram = Vec<(u64, i128)>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (histogram, last) = match words.as_slice() {
        ["amounts", rows] => (amounts(rows.parse()?), 10_000),
        [file, column, lo, hi, step] => {
            let (lo, hi, step): (u64, u64, u64) = (lo.parse()?, hi.parse()?, step.parse()?);
            let values = column_of(&std::fs::read_to_string(file)?, column)?;
            let tick = |value: &u64| ((*value).clamp(lo, hi) - lo) / step;
            (histogram(values.iter().map(tick)), (hi - lo) / step)
        }
        _ => return Err("FILE COLUMN LO HI STEP, or amounts ROWS".into()),
    };
    let rows: i128 = histogram.iter().map(|(_, rows)| *rows).sum();
    println!("{rows} rows, {} ticks", last + 1);
    println!("{:>2} {:>16} {:>16} {:>6}", "k", "a release each", "one release", "ratio");
    let mut rng = QueryRng::from_os()?;
    for k in [1, 3, 5, 9] {
        let nums: Vec<u64> = (1..=k).collect();
        let fractions = Fractions::new(nums, k + 1).ok_or("fractions")?;
        let (mut each, mut list) = (Vec::new(), Vec::new());
        let share: Epsilon = Epsilon::new(Rational::new(1.into(), k.into()))?;
        let whole = Exponential::calibrate(2, &"1".parse()?)?;
        let many = ManyQuantiles::new(&whole, &fractions, last)?;
        for _ in 0..DRAWS {
            let mut alone = Vec::new();
            for num in fractions.nums() {
                let rank = Rank::Fraction { num: *num, den: fractions.den() };
                let mechanism = Exponential::calibrate(range(rank, 1)?, &share)?;
                let points = histogram.iter().copied();
                alone.push(mechanism.choose_quantile(points, last, rank, &mut rng)?);
            }
            each.push(off(&histogram, &fractions, &alone));
            list.push(off(&histogram, &fractions, &many.choose(&histogram, &mut rng)?));
        }
        let ([each, about_each], [list, about_list]) = (mean(&each), mean(&list));
        let ratio = if list > 0.0 { format!("{:.1}", each / list) } else { "—".to_owned() };
        println!("{k:>2} {each:>9.2} ± {about_each:.2} {list:>9.2} ± {about_list:.2} {ratio:>6}");
    }
    Ok(())
}

fn histogram(ticks: impl Iterator<Item = u64>) -> Histogram {
    let mut rows = BTreeMap::new();
    ticks.for_each(|tick| *rows.entry(tick).or_insert(0) += 1);
    rows.into_iter().collect()
}

fn column_of(text: &str, column: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut lines = text.lines();
    let names = lines.next().ok_or("no header")?;
    let at = names.split(',').position(|name| name.trim() == column).ok_or("no such column")?;
    let cell = |line: &str| line.split(',').nth(at).and_then(|cell| cell.trim().parse().ok());
    Ok(lines.filter_map(cell).collect())
}

/// Log-normal amounts (2.5, 1), in hundredths, by the central limit of twelve uniform numbers.
fn amounts(rows: u64) -> Histogram {
    let mut state = 20_261_120_u64;
    let mut uniform = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[allow(clippy::cast_precision_loss, reason = "53 bits")]
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    };
    let mut tick = |_| {
        let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10,000")]
        let tick = ((2.5 + normal).exp() * 100.0).round().clamp(0.0, 10_000.0) as u64;
        tick
    };
    histogram((0..rows).map(&mut tick))
}

/// The mean distance of the answers' ranks from the wanted ones, in rows.
#[allow(clippy::cast_precision_loss, reason = "an error is a float")]
fn off(histogram: &Histogram, fractions: &Fractions, answers: &[u64]) -> f64 {
    let below = |tick: u64| -> i128 {
        histogram.iter().take_while(|(own, _)| *own < tick).map(|(_, rows)| *rows).sum()
    };
    let rows = below(u64::MAX) as f64;
    let one = |(num, answer): (&u64, &u64)| {
        let wanted = rows * *num as f64 / fractions.den() as f64;
        (below(*answer) as f64 - wanted).max(wanted - below(answer + 1) as f64).max(0.0)
    };
    fractions.nums().iter().zip(answers).map(one).sum::<f64>() / answers.len() as f64
}

/// The mean, and its standard error.
fn mean(values: &[f64]) -> [f64; 2] {
    let n = f64::from(DRAWS);
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    [mean, (variance / n).sqrt()]
}
