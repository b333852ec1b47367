//! One table of five rows, chosen among all such tables by the exponential mechanism, so that its
//! rows show the proportions of `adult`.
//!
//! `cargo run --example small_database`
//!
//! For two columns of two values, the example enumerates the whole distribution: 5 rows over the
//! combinations of codes, the score of each table, and the probability with which it is chosen.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;

use arrow::array::AsArray;
use hushql::{Engine, Output};
use num_traits::ToPrimitive;

const EPSILON: f64 = 1.0;
const ROWS: i128 = 5;

/// Sex and income with their values. After these, NULL has a code of its own in each column.
const SEXES: [&str; 2] = ["Male", "Female"];
const INCOMES: [&str; 2] = ["<=50K", ">50K"];
const CELLS: usize = 9;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let make = "CREATE SYNTHETIC TABLE tiny AS SMALL_DATABASE(eps=1, rows=5) SELECT sex, income FROM adult";
    let lab = Engine::demo()?.analyst("lab")?;
    println!("{}", lab.explain(make)?);
    if let Output::Answer(answer) = lab.execute(make).await? {
        println!("{answer}");
    }
    println!("{}", lab.query("SELECT sex, income FROM tiny ORDER BY sex, income").await?);

    // The built-in people are invented, so the distribution of the choice may be shown.
    let adult = hushql::demo::adult()?;
    let column = |name: &str| adult.column_by_name(name).ok_or("adult has no such column");
    let (sexes, incomes) =
        (column("sex")?.as_string::<i32>(), column("income")?.as_string::<i32>());
    let mut counts = [0_i128; CELLS];
    for (sex, income) in sexes.iter().zip(incomes.iter()) {
        let code = |names: [&str; 2], value: Option<&str>| {
            names.iter().position(|name| Some(*name) == value).unwrap_or(2)
        };
        counts[code(SEXES, sex) * 3 + code(INCOMES, income)] += 1;
    }
    let n: i128 = counts.iter().sum();
    let tables = tables(ROWS);
    // The worst count of the pair, as m·count − n·rows: an integer that one row changes by at most
    // 2m − 1.
    let scores: Vec<i128> = tables
        .iter()
        .map(|table| {
            let off = counts.iter().zip(table).map(|(count, rows)| (ROWS * count - n * rows).abs());
            -off.max().unwrap_or(0)
        })
        .collect();
    let best = scores.iter().max().copied().unwrap_or(0);
    let range = 2 * ROWS - 1;
    let weight = |score: &i128| (EPSILON * whole(score - best) / whole(range)).exp();
    let all: f64 = scores.iter().map(weight).sum();
    let chance: f64 = scores.iter().filter(|score| **score == best).map(weight).sum::<f64>() / all;
    println!(
        "{} tables of {ROWS} rows over {CELLS} combinations; range of the score {range}",
        tables.len()
    );
    println!("the best of them is chosen with probability {chance:.4}");
    let at = scores.iter().position(|score| *score == best).ok_or("there is a best table")?;
    let mut shown = BTreeMap::new();
    for (cell, rows) in tables[at].iter().enumerate().filter(|(_, rows)| **rows > 0) {
        let name =
            |names: [&str; 2], code: usize| names.get(code).copied().unwrap_or("NULL").to_owned();
        shown.insert((name(SEXES, cell / 3), name(INCOMES, cell % 3)), (rows, counts[cell]));
    }
    for ((sex, income), (rows, count)) in shown {
        let share = whole(count) / whole(n) * 100.0;
        println!("  {sex:<8}{income:<8}{rows} of {ROWS} rows for {share:.1} % of the people");
    }
    // The article's bound: every count is within (2m − 1)/(mε)·ln(N/β) rows of the best table's.
    let beyond = whole(range) / (whole(ROWS) * EPSILON)
        * (tables.len().to_f64().unwrap_or(f64::NAN) / 0.05).ln();
    println!("every count is within {beyond:.1} rows of the best table's, with 95 %");
    Ok(())
}

/// A number of rows as a float.
fn whole(number: i128) -> f64 {
    number.to_f64().unwrap_or(f64::NAN)
}

/// All ways to distribute this number of rows over the cells.
fn tables(rows: i128) -> Vec<[i128; CELLS]> {
    fn fill(cell: usize, left: i128, table: &mut [i128; CELLS], all: &mut Vec<[i128; CELLS]>) {
        if cell + 1 == CELLS {
            table[cell] = left;
            all.push(*table);
            return;
        }
        for own in 0..=left {
            table[cell] = own;
            fill(cell + 1, left - own, table, all);
        }
    }
    let mut all = Vec::new();
    fill(0, rows, &mut [0; CELLS], &mut all);
    all
}
