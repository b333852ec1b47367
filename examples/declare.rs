//! A study with files: a vault on disk, a CSV file, the declarations of its owner, and a budget
//! that runs out.
//!
//! `cargo run --example declare`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fmt::Write as _;
use std::path::Path;

use hushql::{Engine, Error, Output, split_statements};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let people = folder.path().join("people.csv");
    std::fs::write(&people, csv())?;

    // A vault is one file: declarations and ledger. `init` never replaces one by accident, so that
    // deleting a vault does not silently refill the budget.
    let vault = folder.path().join("study.db");
    let engine = Engine::init(&vault)?;
    let owner = engine.owner();
    for statement in split_statements(&declarations(&people))? {
        if let Output::Done(sentence) = owner.execute(statement.text()).await? {
            println!("owner: {sentence}");
        }
    }

    // Later, another program opens the vault, which remembers everything.
    let engine = Engine::open(&vault)?;
    let lab = engine.analyst("lab")?;
    // Without FRESH, the second time would replay the first answer, and cost nothing.
    let question = "SELECT FRESH LAPLACE(eps=0.4) AVG(age) AS age FROM people WHERE smoker = 'yes'";
    for _ in 0..2 {
        let answer = lab.query(question).await?;
        println!(
            "lab:   answered; {}",
            answer.receipt().map_or(String::new(), ToString::to_string)
        );
    }

    // 0.8 of 1 is spent. The third query costs more than the remainder and is not answered; the
    // refusal itself costs nothing.
    match lab.query(question).await {
        Err(Error::Budget(reason)) => println!("lab:   {reason}"),
        other => return Err(format!("the budget should have run out: {other:?}").into()),
    }
    for state in lab.budgets()? {
        println!("{}: spent {}, left {}", state.budget.name, state.spent, state.left);
    }
    Ok(())
}

/// The declarations that an owner writes into a file and runs with
/// `hushql study.db --owner -f FILE`.
fn declarations(people: &Path) -> String {
    let location = people.display().to_string().replace('\'', "''");
    format!(
        "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{location}';
         ALTER TABLE people SET PRIVACY UNIT ROW;
         ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
         ALTER TABLE people ALTER COLUMN smoker SET PRIVACY DOMAIN IN ('yes', 'no');
         CREATE PRIVACY BUDGET study FOR people LIMIT (epsilon=1) PER QUERY (max=0.5);"
    )
}

/// 3,000 people, a third of whom smoke.
fn csv() -> String {
    let mut text = "id,age,smoker\n".to_owned();
    for id in 0..3_000 {
        let smoker = if id % 3 == 0 { "yes" } else { "no" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{id},{},{smoker}", 18 + id * 7 % 70);
    }
    text
}
