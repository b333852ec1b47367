//! Randomized response: everyone on a public roster says whether they smoke, truthfully with
//! probability e^ε/(e^ε + 1).
//!
//! `cargo run --example randomized_response [FOLDER]`
//!
//! At ε = 1 that probability is 0.73. The example shows the curve, the answers of SQL, and the
//! estimate that follows from them at no further cost. A person without a row answers by a fair
//! coin.
//!
//! Warner 1965 describes the case of two answers.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use hushql::mechanism::Exponential;
use hushql::{Analyst, Engine};
use plot::{Axis, Marks, Panel, Series, Ticks};

/// The roster's entries; every tenth has no row in the survey.
const ROSTER: i64 = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = survey().await?;
    let question = |epsilon: &str| {
        format!(
            "SELECT id, RANDOMIZED_RESPONSE(eps={epsilon}) smoker FROM survey GROUP BY id KEYS TABLE roster(id)"
        )
    };
    println!("{}\n", session.explain(&question("1"))?);

    println!("    ε    P(truth)    truthful     absent: yes   yes minus no (true)");
    let (mut drawn, mut whole) = (Vec::new(), 0_u32);
    for epsilon in ["0.5", "1", "2", "3"] {
        let answer = session.query(&question(epsilon)).await?;
        let (mut truthful, mut present, mut absent_yes, mut absent, mut yes) = (0, 0, 0, 0, 0);
        for batch in answer.batches() {
            let ids = batch.column(0).as_primitive::<Int64Type>();
            let answers = batch.column(1).as_string::<i32>();
            for (id, answer) in ids.iter().flatten().zip(answers.iter().flatten()) {
                yes += u32::from(answer == "yes");
                // The survey is invented, so the example may show who spoke the truth.
                let (all, hits) = match truth(id) {
                    Some(_) => (&mut present, &mut truthful),
                    None => (&mut absent, &mut absent_yes),
                };
                *all += 1;
                *hits += u32::from(answer == truth(id).unwrap_or("yes"));
            }
        }
        whole = present + absent;
        let p = truth_at(epsilon)?;
        let share = f64::from(truthful) / f64::from(present);
        let uniform = f64::from(absent_yes) / f64::from(absent);
        // The expected number of yes exceeds half of the roster by (2p − 1)/2 times (smokers −
        // others), because a person without a row adds one half. The estimate uses only released
        // answers, so it costs nothing more.
        let estimate = (2.0 * f64::from(yes) - f64::from(whole)) / (2.0 * p - 1.0);
        let all = majority();
        println!("{epsilon:>5}{p:>12.4}{share:>12.4}{uniform:>16.4}{estimate:>15.0} ({all})");
        drawn.push((epsilon.parse::<f64>()?, share));
    }
    println!("{whole} answers each time, one for each entry of the roster");

    let mut curve = Vec::new();
    for tenth in 1..=50_u32 {
        curve.push((f64::from(tenth) / 10.0, truth_at(&format!("{}.{}", tenth / 10, tenth % 10))?));
    }
    let panel = Panel {
        title: "Randomized response: share of truthful answers",
        x: Axis { label: "ε", range: 0.0..5.0, ticks: Ticks::Numbers },
        y: Axis { label: "truthful", range: 0.4..1.25, ticks: Ticks::Numbers },
        series: vec![
            Series { label: "exp(ε)/(exp(ε) + 1)", marks: Marks::Line, points: curve },
            Series { label: "SQL, 1,800 rows", marks: Marks::Dots, points: drawn },
        ],
    };
    println!("plot: {}", plot::draw("randomized_response", &[panel])?.display());
    Ok(())
}

/// The exponential mechanism between one's own answer, scored 1, and the other: exp(ε)/(exp(ε) +
/// 1).
fn truth_at(epsilon: &str) -> Result<f64, Box<dyn Error>> {
    Ok(Exponential::calibrate(1, &epsilon.parse()?)?.probabilities(&[1, 0])[0])
}

/// The truthful answer of a person; `None` for a person without a row.
fn truth(id: i64) -> Option<&'static str> {
    (id % 10 != 9).then_some(if id % 4 == 0 { "yes" } else { "no" })
}

/// The number of smokers minus that of the others.
fn majority() -> i64 {
    (0..ROSTER).filter_map(truth).map(|answer| if answer == "yes" { 1 } else { -1 }).sum()
}

async fn survey() -> Result<Analyst, Box<dyn Error>> {
    let engine = Engine::in_memory()?;
    let everyone: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROSTER));
    engine.register_batch("roster", RecordBatch::try_from_iter([("id", everyone)])?)?;
    let (ids, answers): (Vec<i64>, Vec<&str>) =
        (0..ROSTER).filter_map(|id| Some((id, truth(id)?))).unzip();
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    let answers: ArrayRef = Arc::new(StringArray::from(answers));
    let survey = RecordBatch::try_from_iter([("id", ids), ("smoker", answers)])?;
    engine.register_batch("survey", survey)?;
    let owner = engine.owner();
    owner.execute("ALTER TABLE roster SET PUBLIC").await?;
    owner.execute("ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE").await?;
    let domain = "ALTER TABLE survey ALTER COLUMN smoker SET PRIVACY DOMAIN IN ('yes', 'no')";
    owner.execute(domain).await?;
    owner.execute("CREATE PRIVACY BUDGET survey FOR survey LIMIT (epsilon=10)").await?;
    Ok(engine.analyst("lab")?)
}
