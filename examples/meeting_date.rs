//! A date for a meeting from calendars that stay private: the slot in which the fewest of 60 people
//! are busy.
//!
//! `cargo run --example meeting_date [FOLDER]`
//!
//! `rows=1` says that one row of a person in each slot is enough. Without it, one person could
//! change the count of a slot by eight, and the answer would be an eighth as accurate. The example
//! prints both explanations and the odds of every slot.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use hushql::mechanism::Exponential;
use hushql::sampler::QueryRng;
use hushql::{Analyst, Engine};
use plot::{Axis, Marks, Panel, Series, Ticks};

const DRAWS: u32 = 10_000;
const PEOPLE: i64 = 60;
/// The slots, and how many of twelve people are busy in each.
const SLOTS: [(&str, i64); 8] = [
    ("Mon 9", 11),
    ("Mon 14", 9),
    ("Tue 9", 8),
    ("Tue 14", 4),
    ("Wed 9", 7),
    ("Wed 14", 5),
    ("Thu 9", 3),
    ("Thu 14", 10),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = calendars().await?;
    // The declarations allow all eight rows of a person in one slot, so a person could change its
    // count by 8.
    let slots = "slot BY COUNT(*) FILTER (WHERE busy) FROM calendar GROUP BY slot";
    println!("{}\n", session.explain(&format!("SELECT ARGMIN EXPONENTIAL(eps=0.2) {slots}"))?);
    // One row for each person and slot shows that the person is busy, and makes the answer eight
    // times as accurate.
    let question = format!("SELECT ARGMIN EXPONENTIAL(eps=0.2, rows=1) {slots}");
    println!("{}\n{}\n", session.explain(&question)?, session.query(&question).await?);

    // The calendars are invented, so the odds may be shown. Fewer is better, so the scores are
    // negative.
    let count = |slot: &(&str, i64)| (0..PEOPLE).filter(|p| busy(*p, slot.1)).count();
    let numbers: Vec<u32> =
        SLOTS.iter().map(|slot| u32::try_from(count(slot))).collect::<Result<_, _>>()?;
    let scores: Vec<i128> = numbers.iter().map(|busy| -i128::from(*busy)).collect();
    let narrow = Exponential::calibrate(1, &"0.2".parse()?)?;
    let law = narrow.probabilities(&scores);
    let wide = Exponential::calibrate(8, &"0.2".parse()?)?.probabilities(&scores);
    // A seed makes the plot the same every time. Use none for data about people: the seed reveals
    // the noise.
    let mut rng = QueryRng::seeded_for_tests(12);
    let mut chosen = [0_u32; SLOTS.len()];
    for _ in 0..DRAWS {
        chosen[narrow.choose(&scores, &mut rng)?] += 1;
    }
    println!("slot      busy  P with rows=1     drawn    P without rows");
    for (i, (slot, _)) in SLOTS.iter().enumerate() {
        println!("{slot:<8}{:>6}{:>16.4}{:>10}{:>18.4}", numbers[i], law[i], chosen[i], wide[i]);
    }
    println!("Thu 9 was drawn {} times of {DRAWS}", chosen[6]);

    let names = SLOTS.map(|(slot, _)| slot);
    let at = |values: Vec<f64>| (0_u32..).zip(values).map(|(i, y)| (f64::from(i), y)).collect();
    let shares = chosen.iter().map(|n| f64::from(*n) / f64::from(DRAWS)).collect();
    let panel = |title, label, top, series| Panel {
        title,
        x: Axis { label: "slot", range: -0.6..7.6, ticks: Ticks::Names(&names) },
        y: Axis { label, range: 0.0..top, ticks: Ticks::Numbers },
        series,
    };
    let people = at(numbers.into_iter().map(f64::from).collect());
    let panels = [
        panel(
            "Who is busy (60 people)",
            "people",
            70.0,
            vec![Series { label: "busy", marks: Marks::Bars(0.7), points: people }],
        ),
        panel(
            "What is chosen, ε = 0.2",
            "share",
            1.0,
            vec![
                Series { label: "drawn, rows=1", marks: Marks::Bars(0.7), points: at(shares) },
                Series { label: "exact, rows=1", marks: Marks::Dots, points: at(law) },
                Series { label: "exact, without rows", marks: Marks::Dots, points: at(wide) },
            ],
        ),
    ];
    println!("plot: {}", plot::draw("meeting_date", &panels)?.display());
    Ok(())
}

fn busy(person: i64, of_twelve: i64) -> bool {
    // Each person's week is different: the multiplier spreads the people over the twelfths.
    (person * 7 + of_twelve) % 12 < of_twelve
}

async fn calendars() -> Result<Analyst, Box<dyn Error>> {
    let engine = Engine::in_memory()?;
    let rows: Vec<(i64, &(&str, i64))> =
        (0..PEOPLE).flat_map(|person| SLOTS.iter().map(move |slot| (person, slot))).collect();
    let person = Int64Array::from_iter_values(rows.iter().map(|(person, _)| *person));
    let slot = StringArray::from_iter_values(rows.iter().map(|(_, slot)| slot.0));
    let busy: BooleanArray = rows.iter().map(|(p, slot)| Some(busy(*p, slot.1))).collect();
    let columns: [(&str, ArrayRef); 3] =
        [("person", Arc::new(person)), ("slot", Arc::new(slot)), ("busy", Arc::new(busy))];
    engine.register_batch("calendar", RecordBatch::try_from_iter(columns)?)?;
    let names = SLOTS.map(|(slot, _)| format!("'{slot}'")).join(", ");
    let owner = engine.owner();
    owner.execute("ALTER TABLE calendar SET PRIVACY UNIT (person) MAX ROWS 8").await?;
    let domain = format!("ALTER TABLE calendar ALTER COLUMN slot SET PRIVACY DOMAIN IN ({names})");
    owner.execute(&domain).await?;
    owner.execute("CREATE PRIVACY BUDGET calendar FOR calendar LIMIT (epsilon=1)").await?;
    Ok(engine.analyst("lab")?)
}
