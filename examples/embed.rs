//! A table of your own in a program: register it, declare it as its owner, ask as an analyst.
//!
//! `cargo run --example embed`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hushql::{Engine, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::in_memory()?; // Engine::open("study.db")? keeps declarations and charges
    engine.register_batch("visits", visits()?)?; // or register_table, with any DataFusion TableProvider

    // The owner declares the privacy unit, what the columns hold, and how much may be learnt.
    let owner = engine.owner();
    for statement in [
        "ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4",
        "ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('north', 'south', 'east')",
        "ALTER TABLE visits ALTER COLUMN minutes SET PRIVACY DOMAIN BETWEEN (0, 120)",
        "CREATE PRIVACY BUDGET study FOR visits LIMIT (epsilon=2)",
    ] {
        owner.execute(statement).await?;
    }

    // The analyst asks. All three wards come out, including the one without visits.
    let lab = engine.analyst("lab")?;
    let answer =
        lab.query("SELECT ward, LAPLACE(eps=0.5) COUNT(*) AS n FROM visits GROUP BY ward").await?;
    println!("{answer}\n");

    // The variant of an error says what to do; a refusal also says what to write instead.
    match lab.query("SELECT ward, COUNT(*) FROM visits GROUP BY ward").await {
        Err(Error::Refused(refusal)) => println!("{refusal}"),
        other => return Err(format!("this was not to be answered: {other:?}").into()),
    }
    Ok(())
}

/// 2,000 patients with four visits each.
fn visits() -> Result<RecordBatch, arrow::error::ArrowError> {
    let rows = 0..8_000_i64;
    let patient = Int64Array::from_iter_values(rows.clone().map(|row| row / 4));
    let ward = rows.clone().map(|row| if row % 3 == 0 { "north" } else { "south" });
    let ward = StringArray::from_iter_values(ward);
    let minutes = Int64Array::from_iter_values(rows.map(|row| 5 + row * 7 % 90));
    RecordBatch::try_from_iter([
        ("patient", Arc::new(patient) as ArrayRef),
        ("ward", Arc::new(ward) as ArrayRef),
        ("minutes", Arc::new(minutes) as ArrayRef),
    ])
}
