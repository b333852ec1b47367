//! Rows like those of `adult`, made by AIM at ε = 1, δ = 10⁻⁹, compared with the true ones: two
//! marginals, a correlation, a ranking.
//!
//! `cargo run --example synthetic_adult [FOLDER]`
//!
//! The synthetic table is paid for once. Everything after that is plain SQL over public rows.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use hushql::{Engine, Output, Session};
use plot::{Axis, Marks, Panel, Series, Ticks};

const MAKE: &str = "CREATE SYNTHETIC TABLE people AS AIM(eps=1, delta=1e-9, marginals=2)
    SELECT age, sex, status, income FROM adult";

/// Each query names its table as `t`.
const BY_STATUS: &str = "SELECT status AS name, COUNT(*) AS n FROM t WHERE status IS NOT NULL GROUP BY status ORDER BY n DESC, name";
const BY_AGE: &str = "SELECT CAST(age / 10 * 10 AS VARCHAR) AS name, COUNT(*) AS n FROM t WHERE age BETWEEN 10 AND 89 GROUP BY age / 10 ORDER BY age / 10";
const CORRELATION: &str = "SELECT 'age, never married' AS name, CORR(CAST(age AS DOUBLE), CASE WHEN status = 'Never-married' THEN 1.0 ELSE 0.0 END) AS n FROM t";
const RANKING: &str = "SELECT status AS name, AVG(CASE WHEN income = '>50K' THEN 1.0 ELSE 0.0 END) AS n FROM t WHERE status IN ('Married-civ-spouse', 'Divorced', 'Never-married') GROUP BY status ORDER BY n DESC";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let lab = Engine::demo()?.analyst("lab")?;
    println!("{}", lab.explain(MAKE)?);
    if let Output::Answer(answer) = lab.execute(MAKE).await? {
        println!("{answer}\n");
    }

    // The built-in people are invented, so the truth may be shown.
    let public = Engine::demo()?;
    public.owner().execute("ALTER TABLE adult SET PUBLIC").await?;
    let truth = public.analyst("lab")?;
    let ask = async |question: &str| -> Result<_, Box<dyn Error>> {
        let real = pairs(&truth, &question.replace("FROM t", "FROM adult")).await?;
        let made = pairs(&lab, &question.replace("FROM t", "FROM people")).await?;
        Ok((real, made))
    };

    let (real, made) = ask(BY_STATUS).await?;
    let names: Vec<&str> = real.iter().map(|(name, _)| name.as_str()).collect();
    let status = beside("people by status", &real, &made);
    let (ages, made_ages) = ask(BY_AGE).await?;
    let decades: Vec<&str> = ages.iter().map(|(name, _)| name.as_str()).collect();
    let age = beside("people by age", &ages, &made_ages);
    let (real, made) = ask(CORRELATION).await?;
    println!(
        "correlation of age and being never married: true {:.3}, synthetic {:.3}",
        real[0].1, made[0].1
    );
    let (real, made) = ask(RANKING).await?;
    let order = |pairs: &[(String, f64)]| {
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        names.join(" > ")
    };
    println!("share with more than 50K, true:      {}", order(&real));
    println!("share with more than 50K, synthetic: {}", order(&made));

    let path = plot::draw(
        "synthetic_adult",
        &[panel("status", &names[..3.min(names.len())], status), panel("age", &decades, age)],
    )?;
    println!("plot: {}", path.display());
    Ok(())
}

/// The rows of an answer: a name and a number each.
async fn pairs(session: &Session, sql: &str) -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let answer = session.query(sql).await?;
    let mut all = Vec::new();
    for batch in answer.batches() {
        let names = cast(batch.column(0), &DataType::Utf8)?;
        let numbers = cast(batch.column(1), &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let names = names.as_string::<i32>();
        all.extend(names.iter().flatten().map(str::to_owned).zip(numbers.iter().flatten()));
    }
    Ok(all)
}

/// Prints the true and the synthetic numbers, and returns them in the order of the true ones.
fn beside(title: &str, real: &[(String, f64)], made: &[(String, f64)]) -> [Vec<f64>; 2] {
    println!("{title:<24}{:>8}{:>11}", "true", "synthetic");
    let mut both = [Vec::new(), Vec::new()];
    let mut off = 0.0;
    for (name, number) in real {
        let other = made.iter().find(|(own, _)| own == name).map_or(0.0, |(_, number)| *number);
        println!("  {name:<22}{number:>8}{other:>11}");
        both[0].push(*number);
        both[1].push(other);
        off += (number - other).abs();
    }
    let all: f64 = both[0].iter().sum();
    println!("  off by {:.1} % of the people in all\n", off / all * 50.0);
    both
}

fn panel<'a>(label: &'a str, names: &'a [&'a str], numbers: [Vec<f64>; 2]) -> Panel<'a> {
    let last = f64::from(u32::try_from(names.len()).unwrap_or(1)) - 0.5;
    let highest = numbers.iter().flatten().fold(0.0_f64, |a, b| a.max(*b));
    let [real, made] = numbers.map(|numbers| {
        (0_u32..).zip(numbers).take(names.len()).map(|(i, n)| (f64::from(i), n)).collect::<Vec<_>>()
    });
    let aside =
        |points: Vec<(f64, f64)>, by| points.into_iter().map(|(x, y)| (x + by, y)).collect();
    Panel {
        title: "adult, AIM(eps=1, delta=1e-9)",
        x: Axis { label, range: -0.5..last, ticks: Ticks::Names(names) },
        y: Axis { label: "people", range: 0.0..highest * 1.1, ticks: Ticks::Numbers },
        series: vec![
            Series { label: "true", marks: Marks::Bars(0.3), points: aside(real, -0.17) },
            Series { label: "synthetic", marks: Marks::Bars(0.3), points: aside(made, 0.17) },
        ],
    }
}
