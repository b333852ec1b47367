//! Read many rows batch by batch: here each row of a public table, next to the noisy number of
//! adults in its age group.
//!
//! `cargo run --example stream`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use hushql::{Engine, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let engine = Engine::demo()?;
    let people: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let ages: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100_000).map(|id| id % 90)));
    let register =
        RecordBatch::try_from_iter([("id", people), ("age", ages)]).expect("two columns");
    engine.register_batch("register", register)?;
    engine.owner().execute("ALTER TABLE register SET PUBLIC").await?;

    // The query is charged, and its noise drawn, before the first batch. The join runs only as far
    // as its rows are read.
    let session = engine.analyst("lab")?;
    let mut rows = session
        .stream(
            "SELECT id, n FROM register
             JOIN (SELECT age >= 40 AS older, LAPLACE(eps=0.5) COUNT(*) AS n FROM adult GROUP BY age >= 40) AS adults
             ON (register.age >= 40) = adults.older",
        )
        .await?;
    if let Some(receipt) = rows.receipt() {
        println!("{receipt}");
    }
    let (mut batches, mut read) = (0, 0);
    while let Some(batch) = rows.next().await {
        batches += 1;
        read += batch?.num_rows();
    }
    println!("{read} rows in {batches} batches");
    Ok(())
}
