//! The shortest way to a private answer: built-in tables, one question, and three things to read
//! from the answer.
//!
//! `cargo run --example quickstart`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use hushql::{Engine, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // Invented tables in memory, with declarations. Nothing is read from disk and nothing is kept.
    let engine = Engine::demo()?;
    let session = engine.analyst("lab")?;

    // A mechanism is written in front of what it releases; `eps` is the cost of the query.
    let answer =
        session.query("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status").await?;

    // An answer prints itself: the rows, their accuracy, and their cost.
    println!("{answer}\n");

    // The same three parts, for a program. The rows are Arrow batches.
    println!("rows: {}", answer.batches().iter().map(|batch| batch.num_rows()).sum::<usize>());
    for accuracy in answer.accuracy() {
        println!("{}: {} {:.2}", accuracy.column, accuracy.kind, accuracy.value);
    }
    if let Some(receipt) = answer.receipt() {
        println!("spent: {}", receipt.spent);
    }
    Ok(())
}
