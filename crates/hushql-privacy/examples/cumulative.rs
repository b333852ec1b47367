//! Errors of cumulative distributions at equal ε: one CDF, a count for each bin's end, and a
//! histogram that is added up.
//!
//! In: a column of a CSV file with whole numbers, and its range. Out: for 10, 100 and 1,000 bins at
//! ε = 1 and one row a person, the stated ± with 95 %, how far the worst of the numbers is off on
//! average over 1,000 draws, and how far all of them are on average.
//!
//! ```sh
//! cargo run --release -p hushql-privacy --example cumulative -- adult.csv age 0 100
//! ```

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::error::Error;

use hushql_privacy::mechanism::{Cumulative, Laplace};
use hushql_privacy::privacy::{Epsilon, Rational};
use hushql_privacy::sampler::QueryRng;

const DRAWS: u32 = 1_000;

/// How far the numbers of each draw are off: the worst and the mean, added up over all draws.
#[derive(Default)]
struct Off {
    worst: f64,
    mean: f64,
}

impl Off {
    fn add(&mut self, drawn: &[i128], exact: &[i128]) {
        let off = drawn.iter().zip(exact).map(|(drawn, exact)| drawn.abs_diff(*exact));
        let off: Vec<f64> =
            off.map(|off| f64::from(u32::try_from(off).unwrap_or(u32::MAX))).collect();
        self.worst += off.iter().copied().fold(0.0, f64::max) / f64::from(DRAWS);
        let numbers = f64::from(u32::try_from(off.len()).unwrap_or(u32::MAX));
        self.mean += off.iter().sum::<f64>() / numbers / f64::from(DRAWS);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [file, column, lo, hi] = words.as_slice() else { return Err("FILE COLUMN LO HI".into()) };
    let (lo, hi): (i128, i128) = (lo.parse()?, hi.parse()?);
    let values = column_of(&std::fs::read_to_string(file)?, column)?;
    let (beta, one): (Rational, Epsilon) = (Rational::new(1.into(), 20.into()), "1".parse()?);
    let mut rng = QueryRng::from_os()?;
    println!(
        "{} rows; ±, worst, mean of a CDF, of n counts at ε/n, of a histogram added up",
        values.len()
    );
    for bins in [10_usize, 100, 1_000] {
        let wide = i128::try_from(bins)?;
        let mut counts = vec![0_i128; bins];
        for value in &values {
            // The first bin whose end lo + (hi − lo)·i/n is at or above the value.
            let above = ((*value).clamp(lo, hi) - lo) * wide;
            let bin = usize::try_from((above + hi - lo - 1) / (hi - lo))?.saturating_sub(1);
            *counts.get_mut(bin).ok_or("a bin")? += 1;
        }
        let exact = running(&counts);
        let own = Cumulative::laplace(bins, 1, &one)?;
        let each = Laplace::calibrate(u128::try_from(bins)?, &one)?;
        let flat = Laplace::calibrate(1, &one)?;
        let (mut list, mut counted, mut added) = (Off::default(), Off::default(), Off::default());
        for _ in 0..DRAWS {
            list.add(&own.draw(&counts, &mut rng)?, &exact);
            let alone: Vec<i128> = exact.iter().map(|count| count + each.draw(&mut rng)).collect();
            counted.add(&alone, &exact);
            let noisy: Vec<i128> = counts.iter().map(|count| count + flat.draw(&mut rng)).collect();
            added.add(&running(&noisy), &exact);
        }
        println!(
            "{bins:>5}: {} levels, runs of {}; ± {}, {:.1}, {:.1}; ± {}, {:.0}, {:.0}; {:.1}, {:.1}",
            own.tree().levels(),
            own.tree().together(),
            own.error_at(&beta),
            list.worst,
            list.mean,
            each.error_at(&beta),
            counted.worst,
            counted.mean,
            added.worst,
            added.mean
        );
    }
    Ok(())
}

/// The sums of the first numbers.
fn running(counts: &[i128]) -> Vec<i128> {
    let mut sum = 0;
    let add = |count: &i128| {
        sum += count;
        sum
    };
    counts.iter().map(add).collect()
}

fn column_of(text: &str, name: &str) -> Result<Vec<i128>, Box<dyn Error>> {
    let mut lines = text.lines();
    let heads = lines.next().ok_or("no line")?.split(',');
    let place = heads.map(str::trim).position(|head| head == name).ok_or("no such column")?;
    let value =
        |line: &str| Ok(line.split(',').nth(place).ok_or("a short line")?.trim().parse()?);
    lines.filter(|line| !line.is_empty()).map(value).collect()
}
