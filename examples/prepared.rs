//! Prepare a question, look at its cost and accuracy, decide, and only then pay.
//!
//! `cargo run --example prepared`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use hushql::{Engine, Error, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let engine = Engine::demo()?;
    let session = engine.analyst("lab")?;

    // The same question at three costs: what does a better answer cost?
    for eps in ["0.01", "0.1", "1"] {
        let sql = format!("SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM adult");
        let query = session.prepare(&sql)?;
        for accuracy in query.accuracy() {
            println!("{}: within {:.1} of the count", query.cost(), accuracy.value);
        }
    }

    // Values go into a query as values, and are never parsed as SQL. Cost and noise are written in
    // the statement.
    let sql = "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM adult WHERE status = $1 AND age > $2";
    let query = session.prepare_with(sql, [Value::from("Never-married"), Value::from(30)])?;
    println!("\ncolumns: {}", query.schema().field(0).name());
    println!("{}", query.explanation());

    // Nothing has been charged so far. Each execution is charged.
    for _ in 0..2 {
        println!("\n{}", query.execute().await?);
    }

    match session.prepare_with("SELECT LAPLACE(eps=$1) COUNT(*) FROM adult", [0.1]) {
        Err(error) => println!("\n{error}"),
        Ok(_) => println!("\nthis was not to be prepared"),
    }
    Ok(())
}
