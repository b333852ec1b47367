//! Files as tables without a line of SQL from the owner: registered, declared with Rust values,
//! then queried.
//!
//! `cargo run --example register_files`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use datafusion::parquet::arrow::ArrowWriter;
use hushql::{
    Declaration, Engine, ExternalTable, PrivacyBudget, PrivacyDomain, PrivacyUnit, Reason,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (people, visits) = (folder.path().join("people.csv"), folder.path().join("visits.parquet"));
    let wards = folder.path().join("wards.csv");
    std::fs::write(&people, people_csv())?;
    std::fs::write(&wards, "ward\neast\nnorth\nsouth\n")?;
    write_visits(&visits)?;

    // A program with an Engine acts for the owner. A file that changes after it is declared is
    // refused.
    let engine = Engine::in_memory()?; // Engine::init("study.db")? keeps the declarations
    engine.register_csv("wards", &wards).await?;
    engine.register_parquet("visits", &visits).await?;

    // The owner's session takes the same declarations as values, here with the types of the
    // columns.
    let owner = engine.owner();
    let table = ExternalTable::csv("people", &people)
        .delimiter(';')
        .column("id", DataType::Int64)
        .column("age", DataType::Int64);
    println!("owner: {}", owner.declare(table).await?);

    // A table that is registered but not declared answers nothing.
    let lab = engine.analyst("lab")?;
    let question = "SELECT LAPLACE(eps=0.5) COUNT(*) FROM visits";
    match lab.query(question).await {
        Err(hushql::Error::Refused(refusal)) if refusal.reason() == Reason::Undeclared => {
            println!("lab:   {}", refusal.message());
        }
        other => return Err(format!("this was not to be answered: {other:?}").into()),
    }

    for declaration in [
        Declaration::public("wards"),
        PrivacyUnit::column("people", "id").unique().into(),
        PrivacyUnit::via("visits", ["patient"], "people", ["id"]).max_rows(4).into(),
        PrivacyDomain::between("people", "age", 0, 120).into(),
        PrivacyDomain::references("visits", "ward", "wards", "ward").into(),
        PrivacyBudget::epsilon("study", "people", 2.0).max_epsilon(1.0).into(),
    ] {
        println!("owner: {}", owner.declare(declaration).await?);
    }

    // People and their visits belong to the same units, so both queries are charged to the same
    // budget.
    for question in [
        "SELECT ward, LAPLACE(eps=0.5) COUNT(*) AS visits FROM visits GROUP BY ward",
        "SELECT LAPLACE(eps=0.5) AVG(age) AS age FROM people",
    ] {
        println!("\n{}", lab.query(question).await?);
    }
    Ok(())
}

/// 2,000 people.
fn people_csv() -> String {
    let mut text = "id;age\n".to_owned();
    for id in 0..2_000 {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{id};{}", 18 + id * 7 % 70);
    }
    text
}

/// Four visits for each person.
fn write_visits(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let rows = 0..8_000_i64;
    let patient = Int64Array::from_iter_values(rows.clone().map(|row| row / 4));
    let ward = rows.map(|row| if row % 3 == 0 { "north" } else { "south" });
    let ward = StringArray::from_iter_values(ward);
    let batch = RecordBatch::try_from_iter([
        ("patient", Arc::new(patient) as ArrayRef),
        ("ward", Arc::new(ward) as ArrayRef),
    ])?;
    let mut writer = ArrowWriter::try_new(std::fs::File::create(path)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}
