//! The most common marital status of the 32,561 people of `adult`, at ε = 0.001: draws, published
//! draws and exact odds.
//!
//! `cargo run --example marital_status [FOLDER]`
//!
//! In a published run of 200 draws, the first three statuses win 180, 19 and 1 times by the
//! exponential mechanism in the textbooks' calibration, and 192, 8 and 0 times by noisy max. The
//! exact probabilities are 0.8888, 0.1039 and 0.0046, and 0.9785 and 0.0215. The example draws 200
//! times, too.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::collections::BTreeMap;
use std::error::Error;

use arrow::array::AsArray;
use hushql::Engine;
use hushql::mechanism::{Exponential, MechanismError, NoisyMax};
use hushql::sampler::QueryRng;
use plot::{Axis, Marks, Panel, Series, Ticks};

const DRAWS: u32 = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // One answer of each mechanism through SQL. 200 answers would cost, and reveal, ε = 0.2: a
    // histogram of draws suits only public data.
    let session = Engine::demo()?.analyst("lab")?;
    for mechanism in ["EXPONENTIAL(eps=0.001, monotonic=false)", "NOISY_MAX(eps=0.001)"] {
        let question = format!("SELECT ARGMAX {mechanism} status FROM adult GROUP BY status");
        println!("{}\n{}\n", session.explain(&question)?, session.query(&question).await?);
    }

    // The built-in people are invented, so their counts may be shown and plotted.
    let adult = hushql::demo::adult()?;
    let column = adult.column_by_name("status").ok_or("adult has no status")?.as_string::<i32>();
    let mut counts: BTreeMap<&str, i128> = BTreeMap::new();
    for status in column.iter().flatten() {
        *counts.entry(status).or_default() += 1;
    }
    let mut people: Vec<(&str, i128)> = counts.into_iter().collect();
    people.sort_unstable_by_key(|(_, count)| -count);
    let (names, scores): (Vec<&str>, Vec<i128>) = people.into_iter().unzip();

    // R = 2 is the textbook's calibration, `monotonic=false`; noisy max adds noise of scale 1/ε to
    // each count.
    let epsilon = "0.001".parse()?;
    let exponential = Exponential::calibrate(2, &epsilon)?;
    let noisy_max = NoisyMax::calibrate(1, &epsilon)?;
    // A seed makes the plot the same every time. Use none for data about people: the seed reveals
    // the noise.
    let mut rng = QueryRng::seeded_for_tests(200);
    let chosen = tally(names.len(), || exponential.choose(&scores, &mut rng))?;
    let law = exponential.probabilities(&scores);
    let left = show("EXPONENTIAL", &names, &scores, &law, &chosen, [180, 19, 1]);
    let chosen = tally(names.len(), || noisy_max.choose(&scores, &mut rng))?;
    let law = noisy_max.probabilities(&scores);
    let right = show("NOISY_MAX", &names, &scores, &law, &chosen, [192, 8, 0]);
    let path = plot::draw(
        "marital_status",
        &[
            panel("EXPONENTIAL(eps=0.001, monotonic=false)", left),
            panel("NOISY_MAX(eps=0.001)", right),
        ],
    )?;
    println!("plot: {}", path.display());
    Ok(())
}

fn tally(
    candidates: usize,
    mut draw: impl FnMut() -> Result<usize, MechanismError>,
) -> Result<Vec<u32>, MechanismError> {
    let mut chosen = vec![0; candidates];
    for _ in 0..DRAWS {
        chosen[draw()?] += 1;
    }
    Ok(chosen)
}

/// Prints a table. The series of the plot are the published, the drawn and the expected numbers.
fn show(
    mechanism: &str,
    names: &[&str],
    scores: &[i128],
    law: &[f64],
    chosen: &[u32],
    published: [u32; 3],
) -> [Vec<f64>; 3] {
    let published: Vec<u32> = published.into_iter().chain([0; 7]).take(names.len()).collect();
    let (first, best) = (chosen[0], names[0]);
    println!("{mechanism}: {first} of {DRAWS} draws are {best} (published: {})", published[0]);
    println!("  {:<24}{:>8}{:>10}{:>8}{:>11}", "status", "people", "P", "drawn", "published");
    for (i, name) in names.iter().enumerate() {
        let (score, p, drawn, once) = (scores[i], law[i], chosen[i], published[i]);
        println!("  {name:<24}{score:>8}{p:>10.4}{drawn:>8}{once:>11}");
    }
    println!();
    let numbers = |counts: &[u32]| counts.iter().map(|count| f64::from(*count)).collect();
    let expected = law.iter().map(|p| p * f64::from(DRAWS)).collect();
    [numbers(&published), numbers(chosen), expected]
}

fn panel(title: &str, numbers: [Vec<f64>; 3]) -> Panel<'_> {
    // The four rarest are hardly ever chosen.
    let [published, drawn, expected] = numbers.map(|numbers| {
        (0_u32..).zip(numbers).take(3).map(|(i, n)| (f64::from(i), n)).collect::<Vec<_>>()
    });
    let aside =
        |points: Vec<(f64, f64)>, by| points.into_iter().map(|(x, y)| (x + by, y)).collect();
    let names = Ticks::Names(&["Married-civ-spouse", "Never-married", "Divorced"]);
    Panel {
        title,
        x: Axis { label: "status", range: -0.5..2.5, ticks: names },
        y: Axis { label: "times chosen of 200", range: 0.0..210.0, ticks: Ticks::Numbers },
        series: vec![
            Series {
                label: "published",
                marks: Marks::Bars(0.25),
                points: aside(published, -0.15),
            },
            Series { label: "drawn here", marks: Marks::Bars(0.25), points: aside(drawn, 0.15) },
            Series { label: "expected", marks: Marks::Dots, points: expected },
        ],
    }
}
