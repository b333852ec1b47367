//! sqlx and tokio-postgres.
//!
//! In: the place, a question and the name of the driver. Out: one line of JSON for each step.

use std::future::Future;
use std::time::{Duration, Instant};

use serde_json::json;
use time::macros::{date, datetime};

mod by_sqlx;
mod by_tokio_postgres;

pub type Failed = Box<dyn std::error::Error + Send + Sync>;
pub type Done = Result<(), Failed>;

pub struct Place {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub question: String,
}

/// The version of a crate, as Cargo.lock pins it.
pub fn version(name: &str) {
    let (_, rest) = include_str!("../Cargo.lock")
        .split_once(&format!("name = \"{name}\"\n"))
        .unwrap_or_default();
    println!("{{\"step\": \"version\", \"version\": {}}}", json!(rest.split('"').nth(1)));
}

/// Runs a step, and says how it went.
pub async fn step(name: &str, run: impl Future<Output = Done>) -> bool {
    let done = run.await;
    match &done {
        Ok(()) => println!("{{\"step\": {}}}", json!(name)),
        Err(error) => {
            // What the server said is behind what the driver says.
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(error) = source {
                text = format!("{text}: {error}");
                source = error.source();
            }
            println!("{{\"step\": {}, \"error\": {}}}", json!(name), json!(text));
        }
    }
    done.is_ok()
}

pub fn expect(condition: bool, message: impl Into<String>) -> Done {
    if condition { Ok(()) } else { Err(message.into().into()) }
}

pub fn equal<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Done {
    expect(found == wanted, format!("found {found:?} instead of {wanted:?}"))
}

/// A value for a parameter.
#[derive(Clone)]
pub enum Value {
    Whole(i64),
    Fraction(f64),
    Text(&'static str),
    Truth(bool),
    Day(time::Date),
    Moment(time::PrimitiveDateTime),
    Texts(Vec<String>),
    Nothing,
}

/// A question with parameters, and the whole numbers of its first column.
pub struct Asked {
    pub name: &'static str,
    pub sql: String,
    pub values: Vec<Value>,
    pub found: Vec<i64>,
}

pub fn questions(question: &str) -> Vec<Asked> {
    use Value::{Day, Fraction, Moment, Nothing, Text, Texts, Truth, Whole};
    let people = |name, rest: &str, values: Vec<Value>, found: i64| Asked {
        name,
        sql: format!("{question} WHERE {rest}"),
        values,
        found: vec![found],
    };
    let other = |name, sql: &str, values: Vec<Value>, found: &[i64]| Asked {
        name,
        sql: sql.to_owned(),
        values,
        found: found.to_vec(),
    };
    let cities = || Texts(vec!["Rome".to_owned(), "Bonn".to_owned()]);
    vec![
        people(
            "between",
            "day BETWEEN $1 AND $2",
            vec![Day(date!(2024 - 02 - 01)), Day(date!(2024 - 03 - 01))],
            30,
        ),
        people("like", "city LIKE $1", vec![Text("R%")], 100),
        people("operator of like", "city ~~ $1", vec![Text("R%")], 100),
        people("ilike", "city ILIKE '%' || $1 || '%'", vec![Text("OS")], 100),
        other(
            "having",
            "SELECT count(*) AS n, city FROM people GROUP BY city HAVING count(*) > $1 ORDER BY city",
            vec![Whole(10)],
            &[100, 100],
        ),
        people("division", "age / $1 = 2", vec![Whole(30)], 60),
        people("remainder", "age % $1 = 0", vec![Whole(3)], 66),
        people("year", "extract(year FROM day)::float8 = $1", vec![Fraction(2024.0)], 200),
        people("time", "seen >= $1", vec![Moment(datetime!(2024-01-05 0:00))], 105),
        people("fraction", "wage > $1", vec![Fraction(150.5)], 100),
        people("boolean", "ok = $1", vec![Truth(true)], 100),
        people("comparison", "(age > 30) = $1", vec![Truth(true)], 118),
        people("list", "age IN ($1, $2)", vec![Whole(3), Whole(4)], 6),
        people("any", "city = ANY($1)", vec![cities()], 100),
        people("any of a cast", "city = ANY($1::text[])", vec![cities()], 100),
        people("null", "age > $1", vec![Nothing], 0),
        other(
            "case",
            "SELECT sum(CASE WHEN age > $1 THEN 1 ELSE 0 END)::bigint AS n FROM people",
            vec![Whole(30)],
            &[118],
        ),
        people("escape", r"city LIKE E'R\x25' AND age < $1", vec![Whole(90)], 100),
        other(
            "chart",
            "SELECT count(*) AS n, date_trunc('month', day) AS m FROM people WHERE day >= $1 AND day < $2 GROUP BY 2 ORDER BY 2",
            vec![Day(date!(2024 - 01 - 01)), Day(date!(2024 - 04 - 01))],
            &[30, 29, 31],
        ),
        other("limit", "SELECT k FROM numbers ORDER BY k LIMIT $1", vec![Whole(3)], &[0, 1, 2]),
        other(
            "limit with a type",
            "SELECT k FROM numbers WHERE k > $1 ORDER BY k LIMIT 2::bigint",
            vec![Whole(7)],
            &[8, 9],
        ),
        other(
            "distinct on",
            "SELECT DISTINCT ON (k / 10) k FROM numbers WHERE k < $1 ORDER BY k / 10, k",
            vec![Whole(25)],
            &[0, 10, 20],
        ),
        other("probe", "SELECT age FROM people WHERE 1 = 0 AND age > $1", vec![Whole(3)], &[]),
    ]
}

/// It takes a minute, and little memory.
pub const LONG: &str = "SELECT count(*) AS n FROM numbers a, numbers b, numbers c, numbers d WHERE concat(a.k, '-', b.k, '-', c.k, '-', d.k) LIKE '%9_8%7-%6%'";
pub const TABLES: &str = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 ORDER BY table_name";
pub const COLUMNS: &str = "SELECT a.attnum::bigint FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.relname = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
pub const NAMES: &str = "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0";
pub const TYPES: &str =
    "SELECT count(*) AS n, avg(age)::float8 AS mean, city FROM people GROUP BY city";
pub const CURSOR: &str =
    "DECLARE c SCROLL CURSOR FOR SELECT k FROM numbers WHERE k < $1 ORDER BY k";
pub const INSERT: &str = "INSERT INTO few SELECT $1::bigint WHERE 1 = 0";
pub const UNKNOWN: &str = "SELECT nothing FROM people";
pub const PREVIEW: &str = "SELECT * FROM people LIMIT 10";
pub const SPENT: &str = "SELECT count(*) AS n FROM few";

/// What takes a minute was given up after half a second.
pub fn is_soon(begun: Instant) -> Done {
    expect(begun.elapsed() < Duration::from_secs(20), "it went on after its end")
}

#[tokio::main]
async fn main() -> Done {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, password, question, tool] =
        <[String; 6]>::try_from(words).map_err(|_| "HOST PORT USER PASSWORD QUESTION TOOL")?;
    let place = Place { host, port: port.parse()?, user, password, question };
    match tool.as_str() {
        "sqlx" => by_sqlx::tried(&place).await,
        _ => by_tokio_postgres::tried(&place).await,
    }
    Ok(())
}
