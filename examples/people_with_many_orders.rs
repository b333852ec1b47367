//! One person's rows in three tables, with very many rows of some people: who is protected, and
//! what a bound costs.
//!
//! `cargo run --example people_with_many_orders [FOLDER]`
//!
//! 4,000 customers have 6,093 orders, and these have items. Most customers have few orders, and ten
//! have 20 to 40. The example asks for orders by region, for the spending of a person, for the
//! number who never ordered, and for revenue by category. Then it asks for one count under nine
//! bounds, and shows next to each what it cuts off, which only invented data allow. At ε = 0.2, a
//! bound of 1 cuts off 3,292 orders, and the declared 40 need noise of ± 599; `rows=8` cuts off
//! 223, with ± 120.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod plot;

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine};
use plot::{Axis, Marks, Panel, Series, Ticks};

const PEOPLE: i64 = 4_000;
/// The `MAX ROWS` of orders. It is known without looking at the data: the shop accepts no more from
/// one customer.
const MOST_ORDERS: i64 = 40;
const REGIONS: [&str; 4] = ["north", "south", "east", "islands"];
const PRODUCTS: [(&str, i64); 6] =
    [("tea", 4), ("tea", 9), ("coffee", 7), ("coffee", 12), ("pots", 25), ("pots", 60)];
const BOUNDS: [i64; 9] = [1, 2, 3, 4, 6, 8, 12, 20, 40];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = shop().await?;
    let orders: Vec<i64> = (0..PEOPLE).map(orders_of).collect();

    println!("How many orders per region? Nobody lives on the islands.");
    let question = "SELECT r.name, LAPLACE(eps=0.5, rows=8, groups=1) COUNT(*) AS orders
        FROM customers c JOIN orders o ON o.customer = c.id JOIN regions r ON c.region = r.code
        GROUP BY r.name";
    println!("{}\n", session.query(question).await?);

    // The inner query makes one row of each person, so no person weighs more than CLAMP allows.
    println!("What does a person spend, of those who buy?");
    let question = "SELECT LAPLACE(eps=0.5) AVG(CLAMP(spent, 0, 1000)) AS spends
        FROM (SELECT o.customer, SUM(p.price * i.quantity) AS spent
              FROM items i JOIN orders o ON i.order_no = o.no JOIN products p ON i.product = p.no
              GROUP BY o.customer)";
    println!("{}\n", session.query(question).await?);

    println!("How many never ordered?");
    let question = "SELECT LAPLACE(eps=0.5) COUNT(*) AS never FROM customers c
        WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)";
    let answer = session.query(question).await?;
    println!("{answer}");
    let never = orders.iter().filter(|n| **n == 0).count();
    println!("made up, so it may be told: {never}; answered {}\n", number(&answer)?);

    println!("What does each category bring in?");
    let question =
        "SELECT p.category, LAPLACE(eps=0.5, rows=6, groups=2) SUM(p.price * i.quantity) AS revenue
        FROM items i JOIN products p ON i.product = p.no GROUP BY p.category";
    println!("{}\n{}\n", session.explain(question)?, session.query(question).await?);

    // A small bound cuts off orders of busy people. A large one needs noise for the busiest
    // possible person.
    let all: i64 = orders.iter().sum();
    println!("{all} orders, at most {} of a person; ε = 0.2 for each answer", most(&orders));
    println!("  rows=      kept       cut   noise ±  together    answer");
    let (mut cuts, mut noises, mut together) = (Vec::new(), Vec::new(), Vec::new());
    for bound in BOUNDS {
        let question = format!("SELECT LAPLACE(eps=0.2, rows={bound}) COUNT(*) AS n FROM orders");
        let answer = session.query(&question).await?;
        let noise = answer.accuracy().first().ok_or("no accuracy")?.value;
        let kept: i64 = orders.iter().map(|n| *n.min(&bound)).sum();
        let (at, cut) = (real(bound)?.log2(), real(all - kept)?);
        let sum = cut + noise;
        let told = number(&answer)?;
        println!("{bound:>7}{kept:>10}{cut:>10}{noise:>10.0}{sum:>10.0}{told:>10}");
        cuts.push((at, cut));
        noises.push((at, noise));
        together.push((at, sum));
    }

    let shares = (0..=MOST_ORDERS).map(|n| {
        let people = orders.iter().filter(|own| **own == n).count();
        Ok((real(n)?, f64::from(u32::try_from(people)?)))
    });
    let names = ["1", "2", "4", "8", "16", "32"];
    let panels = [
        Panel {
            title: "Orders of a person",
            x: Axis { label: "orders", range: -1.0..41.0, ticks: Ticks::Numbers },
            y: Axis { label: "people", range: 0.0..1_400.0, ticks: Ticks::Numbers },
            series: vec![Series {
                label: "people",
                marks: Marks::Bars(0.8),
                points: shares.collect::<Result<_, Box<dyn Error>>>()?,
            }],
        },
        Panel {
            title: "What a bound costs a count of orders, ε = 0.2",
            x: Axis {
                label: "rows= (at most so many of a person)",
                range: 0.0..5.5,
                ticks: Ticks::Names(&names),
            },
            y: Axis { label: "orders", range: 0.0..3_600.0, ticks: Ticks::Numbers },
            series: vec![
                Series { label: "cut off", marks: Marks::Line, points: cuts },
                Series { label: "noise, 95 %", marks: Marks::Line, points: noises },
                Series { label: "together", marks: Marks::Dots, points: together },
            ],
        },
    ];
    println!("plot: {}", plot::draw("people_with_many_orders", &panels)?.display());
    Ok(())
}

/// The one number of an answer.
fn number(answer: &hushql::Answer) -> Result<i64, Box<dyn Error>> {
    let batch = answer.batches().iter().find(|batch| batch.num_rows() == 1).ok_or("no row")?;
    let column = batch.column(0).as_primitive_opt::<Int64Type>().ok_or("no integer")?;
    Ok(column.value(0))
}

fn real(n: i64) -> Result<f64, Box<dyn Error>> {
    Ok(f64::from(i32::try_from(n)?))
}

fn most(orders: &[i64]) -> i64 {
    orders.iter().copied().max().unwrap_or(0)
}

/// A number that looks random and is the same every time.
fn mixed(n: i64) -> i64 {
    let square = n.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(29);
    (square.wrapping_mul(0x1405_7b7e_f767_814f) >> 33) & 0x3fff_ffff
}

/// Three of ten people never order, most of the others order one to three times, and ten people
/// order very often.
fn orders_of(person: i64) -> i64 {
    let chance = mixed(person);
    if person % 400 == 7 {
        return 20 + chance % 21;
    }
    match chance % 100 {
        0..30 => 0,
        30..60 => 1,
        60..80 => 2,
        80..92 => 3,
        92..97 => 4,
        _ => 5 + chance / 100 % 4,
    }
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, Box<dyn Error>> {
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

async fn shop() -> Result<Analyst, Box<dyn Error>> {
    let engine = Engine::in_memory()?;
    let customers: Vec<i64> = (0..PEOPLE).flat_map(|p| (0..orders_of(p)).map(move |_| p)).collect();
    // An order has one to four items.
    let numbers = 0..i64::try_from(customers.len())?;
    let items: Vec<(i64, i64)> = numbers
        .clone()
        .flat_map(|no| (0..=mixed(no) % 4).map(move |i| (no, mixed(no * 4 + i))))
        .collect();
    let product = |chance: i64| chance / 8 % 6;
    let regions = Arc::new(StringArray::from_iter_values(REGIONS));
    let category = Arc::new(StringArray::from_iter_values(PRODUCTS.iter().map(|p| p.0)));
    let tables = [
        (
            "customers",
            vec![
                ("id", integers(0..PEOPLE)),
                ("region", integers((0..PEOPLE).map(|person| mixed(person) / 1_000 % 3))),
            ],
        ),
        ("orders", vec![("no", integers(numbers)), ("customer", integers(customers))]),
        (
            "items",
            vec![
                ("order_no", integers(items.iter().map(|(no, _)| *no))),
                ("product", integers(items.iter().map(|(_, chance)| product(*chance)))),
                ("quantity", integers(items.iter().map(|(_, chance)| 1 + chance % 4))),
            ],
        ),
        ("regions", vec![("code", integers(0..4)), ("name", regions)]),
        (
            "products",
            vec![
                ("no", integers(0..6)),
                ("category", category),
                ("price", integers(PRODUCTS.iter().map(|p| p.1))),
            ],
        ),
    ];
    for (name, columns) in tables {
        engine.register_batch(name, table(columns)?)?;
    }

    let owner = engine.owner();
    for statement in [
        // An item leads to its order, and an order to its customer: all three are rows of that
        // person.
        "ALTER TABLE customers SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE orders SET PRIVACY UNIT VIA (customer) REFERENCES customers(id) MAX ROWS 40",
        "ALTER TABLE items SET PRIVACY UNIT VIA (order_no) REFERENCES orders(no) MAX ROWS 160",
        "ALTER TABLE items ALTER COLUMN quantity SET PRIVACY DOMAIN BETWEEN (1, 4)",
        "ALTER TABLE regions SET PUBLIC",
        "ALTER TABLE products SET PUBLIC",
        "ALTER TABLE products ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN (0, 100)",
        // One budget for the people, for queries on any of their tables.
        "CREATE PRIVACY BUDGET shop FOR customers LIMIT (epsilon=4)",
    ] {
        owner.execute(statement).await?;
    }
    Ok(engine.analyst("lab")?)
}
