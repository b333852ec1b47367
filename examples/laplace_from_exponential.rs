//! Laplace noise as an exponential mechanism with the score −|f − r|, and why that takes twice the
//! noise.
//!
//! `cargo run --example laplace_from_exponential [FOLDER]`
//!
//! A choice among numbers r with that score gives Laplace noise around f = 3.5, but of scale 2Δ/ε:
//! one person moves the scores on the two sides of f in opposite directions. The noise that HushQL
//! adds to numbers needs only Δ/ε. Two histograms show the factor 2.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;

use hushql::Engine;
use hushql::mechanism::{Exponential, Laplace, ScoredRun, TickRuns};
use hushql::privacy::{Epsilon, decimal_text};
use hushql::sampler::QueryRng;
use plot::{Axis, Marks, Panel, Series, Ticks};

const DRAWS: u32 = 10_000;
/// Answers are in tenths: f is 3.5, and one person moves it by Δ = 1, which is ten tenths.
const F: i128 = 35;
const DELTA: u128 = 10;
/// Candidates reach this far from f on both sides. Beyond it lies e^−20 of the weight.
const REACH: u64 = 400;

fn main() -> Result<(), Box<dyn Error>> {
    // The engine's own noise for numbers: a count gets the scale Δ₁/ε, and not twice that.
    let session = Engine::demo()?.analyst("lab")?;
    println!("{}\n", session.explain("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?);

    // When f moves by Δ, the scores on one side rise by Δ and those on the other fall by Δ. They
    // move 2Δ apart, so R = 2Δ is the true range of this score, and not only the textbook's
    // cautious bound.
    let epsilon: Epsilon = "1".parse()?;
    let exponential = Exponential::calibrate(2 * DELTA, &epsilon)?;
    let laplace = Laplace::calibrate(DELTA, &epsilon)?;
    let reach = i128::from(REACH);
    let candidates = TickRuns {
        runs: vec![
            ScoredRun { count: REACH, score: -reach, step: 1, weight: 1 },
            ScoredRun { count: REACH + 1, score: 0, step: -1, weight: 1 },
        ],
        first: vec![0, REACH],
    };
    let ratio = laplace.scale() * exponential.exponent();
    println!("scale of the noise, exponential over Laplace: {}", decimal_text(&ratio.recip(), 6));

    // A seed makes the plot the same every time. Use none for data about people: the seed reveals
    // the noise.
    let mut rng = QueryRng::seeded_for_tests(35);
    let (mut chosen, mut noised) = (Vec::new(), Vec::new());
    for _ in 0..DRAWS {
        let at = exponential.choose_runs(&candidates.runs, &mut rng)?;
        let tick = candidates.tick(at).ok_or("no candidate")?;
        chosen.push(F + i128::from(tick) - reach);
        noised.push(F + laplace.draw(&mut rng));
    }

    let scores: Vec<i128> = (-reach..=reach).map(|distance: i128| -distance.abs()).collect();
    let law = exponential.probabilities(&scores);
    let answers = || (0..).map(|tick: i128| F + tick - reach);
    println!("mean distance from 3.5:  exact   of 10,000 draws");
    let exact: f64 = answers().zip(&law).map(|(r, p)| p * distance(r)).sum();
    println!("  exponential {:>16.4} {:>12.4}", exact, mean_distance(&chosen));
    // P(x) ∝ exp(−|x|/10) on all integers: the weights sum to (1 + e^−0.1)/(1 − e^−0.1).
    let total = (1.0 + (-0.1_f64).exp()) / (1.0 - (-0.1_f64).exp());
    let weight = |r: i128| (-distance(r)).exp() / total;
    let exact: f64 = answers().zip(&law).map(|(r, _)| weight(r) * distance(r)).sum();
    println!("  Laplace     {:>16.4} {:>12.4}", exact, mean_distance(&noised));

    let curve = |p: &dyn Fn(usize, i128) -> f64| -> Vec<(f64, f64)> {
        answers().take(scores.len()).enumerate().map(|(i, r)| (tenths(r), 10.0 * p(i, r))).collect()
    };
    let panels = [
        panel("Exponential mechanism, ∝ exp(−ε|f − r|/2Δ)", bars(&chosen), curve(&|i, _| law[i])),
        panel("Discrete Laplace, ∝ exp(−ε|f − r|/Δ)", bars(&noised), curve(&|_, r| weight(r))),
    ];
    println!("plot: {}", plot::draw("laplace_from_exponential", &panels)?.display());
    Ok(())
}

fn tenths(r: i128) -> f64 {
    i32::try_from(r).map_or(f64::NAN, |r| f64::from(r) / 10.0)
}

fn distance(r: i128) -> f64 {
    tenths(r - F).abs()
}

fn mean_distance(answers: &[i128]) -> f64 {
    answers.iter().map(|r| distance(*r)).sum::<f64>() / f64::from(DRAWS)
}

/// Densities of bins of half a unit, with five tenths each, around −6.5, −6, …, 13.5.
fn bars(answers: &[i128]) -> Vec<(f64, f64)> {
    let bin = |i: i128| {
        let inside = answers.iter().filter(|r| (*r - F + 2).div_euclid(5) == i).count();
        let share = u32::try_from(inside).map_or(f64::NAN, f64::from) / f64::from(DRAWS);
        (tenths(F + 5 * i), share / 0.5)
    };
    (-20..=20).map(bin).collect()
}

fn panel(title: &str, bars: Vec<(f64, f64)>, curve: Vec<(f64, f64)>) -> Panel<'_> {
    Panel {
        title,
        x: Axis { label: "answer; the truth is 3.5", range: -6.5..13.5, ticks: Ticks::Numbers },
        y: Axis { label: "density", range: 0.0..0.55, ticks: Ticks::Numbers },
        series: vec![
            Series { label: "10,000 draws", marks: Marks::Bars(0.5), points: bars },
            Series { label: "exact", marks: Marks::Line, points: curve },
        ],
    }
}
