//! The price of privacy for a seller: the mean revenue that a private price loses, for ε from 0.001
//! to 100.
//!
//! `cargo run --example revenue_loss [FOLDER]`
//!
//! The best price for the 2,000 built-in `bids` makes 1,680. A private price loses 495 of that at
//! ε = 0.001, 2.70 at ε = 1, and next to nothing from ε = 10 on. HushQL's own bound on the average
//! depends only on the number of prices, not on the bids: 31.0 at ε = 1.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;

use arrow::array::AsArray;
use arrow::datatypes::Float64Type;
use hushql::Engine;
use hushql::mechanism::{Exponential, PriceGrid};
use hushql::privacy::parse_decimal;
use hushql::sampler::QueryRng;
use plot::{Axis, Marks, Panel, Series, Ticks};

const DRAWS: u32 = 2_000;
const EPSILONS: [&str; 11] =
    ["0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30", "100"];

fn main() -> Result<(), Box<dyn Error>> {
    let session = Engine::demo()?.analyst("lab")?;
    let question = "SELECT ARGMAX EXPONENTIAL(eps=1) price IN RANGE(0.01, 5, 0.01) BY REVENUE(bid, price) FROM bids";
    println!("{}\n", session.explain(question)?);

    // The same candidates and bids, computed here: the built-in bidders are invented, so their
    // losses may be shown.
    let decimal = |text| parse_decimal(text).ok_or("no decimal");
    let (least, most) = (decimal("0.01")?, decimal("5")?);
    let prices = hushql::Ticks::decimal(&least, &most, &least).ok_or("no prices")?;
    let bids = hushql::demo::bids()?;
    let bids = bids.column_by_name("bid").ok_or("bids has no bid")?.as_primitive::<Float64Type>();
    let places: Vec<(u64, i128)> =
        bids.iter().flatten().map(|bid| (prices.at_or_below(bid), 1)).collect();
    let grid = PriceGrid::new(1, 1, prices.count())?; // in cents
    let runs = grid.revenue_runs(&places)?;
    let revenue: Vec<i128> = runs
        .runs
        .iter()
        .flat_map(|run| (0..run.count).map(|j| run.score + run.step * i128::from(j)))
        .collect();
    let best = revenue.iter().copied().max().unwrap_or(0);
    let lost: Vec<f64> = revenue.iter().map(|revenue| money(best - revenue)).collect();
    println!(
        "best revenue {:.2} from {} bidders, {} prices",
        money(best),
        places.len(),
        lost.len()
    );

    println!("{:>9}{:>14}{:>14}{:>14}", "ε", "mean loss", "of 2,000", "at most");
    let (mut exact, mut drawn, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    // A seed makes the plot the same every time. Use none for data about people: the seed reveals
    // the noise.
    let mut rng = QueryRng::seeded_for_tests(77);
    for epsilon in EPSILONS {
        let mechanism = Exponential::calibrate(grid.range(1)?, &epsilon.parse()?)?;
        let law = mechanism.probabilities(&revenue);
        let mean: f64 = law.iter().zip(&lost).map(|(p, lost)| p * lost).sum();
        let mut sum = 0.0;
        for _ in 0..DRAWS {
            let tick = runs.tick(mechanism.choose_runs(&runs.runs, &mut rng)?).ok_or("no tick")?;
            sum += lost[usize::try_from(tick)?];
        }
        let observed = sum / f64::from(DRAWS);
        // The engine's own bound on the average, from cents. It depends only on the number of
        // prices, not on the bids.
        let bound = mechanism.expected_error(lost.len()) / 100.0;
        println!("{epsilon:>9}{mean:>14.3}{observed:>14.3}{bound:>14.3}");
        // A price loses at most everything, and a logarithmic axis cannot show a loss of almost 0.
        let at = epsilon.parse::<f64>()?.log10();
        let point = |loss: f64| (loss >= 1e-3).then_some((at, loss.log10()));
        exact.extend(point(mean));
        drawn.extend(point(observed));
        bounds.extend(point(bound.min(money(best))));
    }
    let panel = Panel {
        title: "Mean revenue loss of a private price (2,000 bidders, 500 prices)",
        x: Axis { label: "ε", range: -3.1..2.1, ticks: Ticks::Powers },
        y: Axis { label: "revenue lost", range: -3.0..4.0, ticks: Ticks::Powers },
        series: vec![
            Series { label: "exact", marks: Marks::Line, points: exact },
            Series { label: "mean of 2,000 draws", marks: Marks::Dots, points: drawn },
            Series { label: "HushQL's bound, or all", marks: Marks::Line, points: bounds },
        ],
    };
    println!("plot: {}", plot::draw("revenue_loss", &[panel])?.display());
    Ok(())
}

fn money(cents: i128) -> f64 {
    i32::try_from(cents).map_or(f64::NAN, |cents| f64::from(cents) / 100.0)
}
