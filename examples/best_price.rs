//! The price that sells best, from bids of 1, 1, 1 and 3.01, where a price just above 1 loses three
//! of four buyers.
//!
//! `cargo run --example best_price [FOLDER]`
//!
//! The example prints the explanation of one private price, the revenue around the jumps of the
//! curve, and the odds of a price in each part of it. The plot shows the revenue curve, and for ε =
//! 0.01, 1 and 5 the density of the private price beside 10,000 draws. Four bidders are too few for
//! any useful ε, and `EXPLAIN PRIVACY` says so beforehand: within 87.5 of a best revenue of 4.
//!
//! The bids are those of Dwork and Roth 2014, section 3.4.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use hushql::Engine;
use hushql::mechanism::{Exponential, PriceGrid};
use hushql::sampler::QueryRng;
use plot::{Axis, Marks, Panel, Series, Ticks};

const DRAWS: u32 = 10_000;
/// Prices from 0 to 3.5 in steps of 1/10,000, and the number of prices up to 1, to 3.01 and in all.
const ENDS: [usize; 3] = [10_001, 30_101, 35_001];
const MOST: u128 = 35_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = sellers().await?;
    let question =
        "SELECT ARGMAX EXPONENTIAL(eps=1) price IN RANGE(0, 3.5) BY REVENUE(bid, price) FROM bids";
    println!("{}\n{}\n", session.explain(question)?, session.query(question).await?);

    // A bid buys at all prices up to it. So all prices between two bids form one run, however fine
    // the grid is.
    let grid = PriceGrid::new(0, 1, 35_001)?;
    let ticks = grid.revenue_runs(&[(10_001, 3), (30_101, 1)])?;
    let runs = ticks.runs.iter();
    let revenue: Vec<i128> =
        runs.flat_map(|run| (0..run.count).map(|j| run.score + run.step * i128::from(j))).collect();
    for price in [10_000, 10_001, 30_100, 30_101] {
        println!(
            "revenue at {:.4}: {:.4}",
            money(i128::from(price)),
            money(revenue[usize::try_from(price)?])
        );
    }
    let curve = (0..).zip(&revenue).step_by(10).map(|(p, u)| (money(p), money(*u))).collect();
    let mut panels = vec![panel("Revenue of {1, 1, 1, 3.01}", "revenue", 4.4)];
    panels[0].series.push(Series { label: "revenue", marks: Marks::Line, points: curve });

    println!("\nprobability of a price in            (0, 1]  (1, 3.01]  (3.01, 3.5]");
    // A seed makes the plot the same every time. Use none for data about people: the seed reveals
    // the noise.
    let mut rng = QueryRng::seeded_for_tests(301);
    let pictures =
        [("0.01", "ε = 0.01: nearly uniform", 0.5), ("1", "ε = 1", 0.5), ("5", "ε = 5", 1.6)];
    for (epsilon, title, height) in pictures {
        // The published plots use exp(ε·u/2Δ) with Δ = 3.5, which is `monotonic=false`: R = 2Δ.
        let textbook = Exponential::calibrate(2 * MOST, &epsilon.parse()?)?;
        let law = textbook.probabilities(&revenue);
        let mut bins = vec![0_u32; 35];
        let mut drawn = [0_u32; 3];
        for _ in 0..DRAWS {
            let tick = ticks.tick(textbook.choose_runs(&ticks.runs, &mut rng)?).ok_or("no tick")?;
            let tick = usize::try_from(tick)?;
            bins[tick.saturating_sub(1) / 1_000] += 1;
            drawn[ENDS.iter().position(|end| tick < *end).ok_or("no segment")?] += 1;
        }
        segments(&format!("ε = {epsilon}, textbook, R = 7"), &parts(&law));
        segments(
            &format!("ε = {epsilon}, {DRAWS} draws"),
            &drawn.map(|n| f64::from(n) / f64::from(DRAWS)),
        );
        // Densities per unit of money: a tick is 1/10,000 of it, a bin 1/10.
        let density = (0..).zip(&law).step_by(10).map(|(p, mass)| (money(p), mass * 1e4)).collect();
        let bins = (0..)
            .zip(bins)
            .map(|(i, n)| (0.05 + 0.1 * f64::from(i), 10.0 * f64::from(n) / f64::from(DRAWS)));
        let mut picture = panel(title, "density", height);
        picture.series = vec![
            Series { label: "10,000 draws", marks: Marks::Bars(0.1), points: bins.collect() },
            Series { label: "exact", marks: Marks::Line, points: density },
        ];
        panels.push(picture);
    }
    let own = Exponential::calibrate(grid.range(1)?, &"1".parse()?)?;
    segments("ε = 1, HushQL, R = 3.5", &parts(&own.probabilities(&revenue)));
    println!("plot: {}", plot::draw("best_price", &panels)?.display());
    Ok(())
}

/// Four bidders in memory, with declarations.
async fn sellers() -> Result<hushql::Analyst, Box<dyn Error>> {
    let engine = Engine::in_memory()?;
    let bidder: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let bid: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 1.0, 1.0, 3.01]));
    engine
        .register_batch("bids", RecordBatch::try_from_iter([("bidder", bidder), ("bid", bid)])?)?;
    let owner = engine.owner();
    owner.execute("ALTER TABLE bids SET PRIVACY UNIT (bidder) UNIQUE").await?;
    owner.execute("ALTER TABLE bids ALTER COLUMN bid SET PRIVACY DOMAIN BETWEEN (0, 3.5)").await?;
    owner.execute("CREATE PRIVACY BUDGET sale FOR bids LIMIT (epsilon=1)").await?;
    Ok(engine.analyst("lab")?)
}

fn money(units: i128) -> f64 {
    i32::try_from(units).map_or(f64::NAN, |units| f64::from(units) / 1e4)
}

fn parts(law: &[f64]) -> [f64; 3] {
    let below = ENDS.map(|end| law.iter().take(end).sum::<f64>());
    [below[0], below[1] - below[0], below[2] - below[1]]
}

fn segments(what: &str, shares: &[f64; 3]) {
    println!("{what:<36} {:>6.3} {:>10.3} {:>12.3}", shares[0], shares[1], shares[2]);
}

fn panel<'a>(title: &'a str, label: &'a str, height: f64) -> Panel<'a> {
    let x = Axis { label: "price", range: 0.0..3.5, ticks: Ticks::Numbers };
    let y = Axis { label, range: 0.0..height, ticks: Ticks::Numbers };
    Panel { title, x, y, series: Vec::new() }
}
