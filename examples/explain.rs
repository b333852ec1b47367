//! Look before you spend: the cost of a query, the accuracy of its answer, and the reason for a
//! refusal.
//!
//! `cargo run --example explain`
//!
//! Explaining reads no private data and costs nothing, so this example prints the same every time.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use hushql::{Engine, Error};

fn main() -> Result<(), Error> {
    let engine = Engine::demo()?;
    let session = engine.analyst("lab")?;

    // One buyer may have 20 orders, so 20 rows of up to 100 each: the noise must hide all of them.
    println!("{}\n", session.explain("SELECT LAPLACE(eps=1) SUM(price) FROM orders")?);

    // The same query, but each buyer counts with at most two orders: less noise, and more is cut
    // off.
    println!("{}\n", session.explain("SELECT LAPLACE(eps=1, rows=2) SUM(price) FROM orders")?);

    // A refused query is explained as far as the analysis came. `order_id` has no declared range.
    println!("{}\n", session.explain("SELECT LAPLACE(within=5) SUM(order_id) FROM orders")?);

    // For programs: the same as one JSON object, and the cost alone.
    let question = "SELECT ARGMAX EXPONENTIAL(eps=0.25) city FROM orders GROUP BY city";
    println!("{}", session.explain(question)?.to_json());
    println!("it would cost {}", session.cost(question)?);
    Ok(())
}
