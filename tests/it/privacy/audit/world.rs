//! The audited table, and what a statement shows of it.
//!
//! In: rows of everybody, rows of one person, a statement. Out: draws of the released table from
//! one run of the plan, or answers of whole statements, as numbers and names that events are about.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use hushql::Engine;
use hushql_engine::analysis::Lookups;
use hushql_engine::exec::{Draws, session_state};
use hushql_engine::release::Release;
use hushql_vault::catalog::{Privacy, Table, Unit};

use super::sample::Seen;
use crate::privacy::line;

/// One row: a person, two keys with domains, a word without one, numbers with ranges, a bid
/// without.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub id: i64,
    pub g: &'static str,
    pub k: &'static str,
    pub word: &'static str,
    /// 0 to 9.
    pub n: i64,
    /// −5 to 2.5.
    pub x: f64,
    /// 0 to 99.
    pub v: i64,
    pub bid: f64,
}

/// A person at every bound.
pub const EXTREME: Row =
    Row { id: 1, g: "y", k: "b", word: "solo", n: 9, x: -5.0, v: 99, bid: 3.0 };

/// Other people with such a row each.
pub fn crowd(people: usize, row: Row) -> Vec<Row> {
    // Ids below those of other crowds would be the same people.
    let first = 1_000 + row.id * 100_000;
    (0..people).map(|i| Row { id: first + i as i64, ..row }).collect()
}

fn batch(rows: &[Row]) -> RecordBatch {
    let integers = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let floats = |of: fn(&Row) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(of)))
    };
    let words = |of: fn(&Row) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    let columns = [
        ("id", integers(|r| r.id)),
        ("g", words(|r| r.g)),
        ("k", words(|r| r.k)),
        ("word", words(|r| r.word)),
        ("n", integers(|r| r.n)),
        ("x", floats(|r| r.x)),
        ("v", integers(|r| r.v)),
        ("bid", floats(|r| r.bid)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, a)| (name, a, true))).unwrap()
}

fn table(unit: &Unit) -> Table {
    let domain = |column: &str| match column {
        "g" => line::listed(&["x", "y"]),
        "k" => line::listed(&["a", "b", "c", "d"]),
        "n" => line::between("0", "9"),
        "x" => line::between("-5", "2.5"),
        "v" => line::between("0", "99"),
        _ => None,
    };
    line::table("people", &batch(&[]).schema(), Privacy::Private(unit.clone()), domain)
}

/// A statement, and two databases that differ in one person.
#[derive(Debug, Clone)]
pub struct Case {
    pub what: String,
    pub sql: String,
    pub unit: Unit,
    pub base: Vec<Row>,
    pub person: Vec<Row>,
    pub delta: f64,
    pub shown: Shown,
    /// Whether another case has the same mechanism and aggregate in its plainest form.
    pub variant: bool,
}

/// What of the released table events are about.
#[derive(Debug, Clone, Copy)]
pub enum Shown {
    /// Every number, and of several rows their sum, least and largest.
    Numbers,
    /// A mean of values from lo to hi; its ± tells the noisy number of rows, and both the two sums.
    Mean(f64, f64),
    /// What was chosen.
    Chosen,
    /// Groups whose keys are not declared: which of these are there, and their numbers.
    Groups(&'static [&'static str]),
}

impl Case {
    pub fn variant(self) -> Self {
        Self { variant: true, ..self }
    }

    pub fn rows(&self, whole: bool) -> Vec<Row> {
        let person = if whole { &self.person[..] } else { &[] };
        [&self.base[..], person].concat()
    }

    fn release(&self, whole: bool) -> Release {
        let rows = vec![batch(&self.rows(whole))];
        line::release(&self.sql, &table(&self.unit), rows, &Lookups::default())
    }

    /// The plan of this database, run once.
    pub async fn draws(&self, whole: bool) -> Draws {
        Draws::for_part(&self.release(whole), 0, &session_state()).await.unwrap()
    }

    /// Registers this database as a table of an engine, with a budget for many statements.
    pub async fn register(&self, engine: &Engine, table: &str, whole: bool) {
        engine.register_batch(table, batch(&self.rows(whole))).unwrap();
        let unit = match &self.unit {
            Unit::Column { max_rows: Some(most), .. } => format!("(id) MAX ROWS {most}"),
            _ => "(id) UNIQUE".to_owned(),
        };
        let domains = [
            ("g", "IN ('x', 'y')"),
            ("k", "IN ('a', 'b', 'c', 'd')"),
            ("n", "BETWEEN (0, 9)"),
            ("x", "BETWEEN (-5, 2.5)"),
            ("v", "BETWEEN (0, 99)"),
        ];
        let limit = "LIMIT (epsilon=1000000, delta=0.99)";
        let mut statements = vec![
            format!("ALTER TABLE {table} SET PRIVACY UNIT {unit}"),
            format!("CREATE PRIVACY BUDGET of_{table} FOR {table} {limit}"),
        ];
        statements.extend(domains.map(|(column, domain)| {
            format!("ALTER TABLE {table} ALTER COLUMN {column} SET PRIVACY DOMAIN {domain}")
        }));
        for statement in statements {
            engine.owner().execute(&statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
        }
    }

    /// What one released table shows; of hidden columns nothing, if it is an answer.
    pub fn seen(&self, batch: &RecordBatch) -> Seen {
        // The place of a chosen bound is among them.
        let hidden = |name: &str| ["rows", "within", "rung"].iter().any(|of| name.starts_with(of));
        let schema = batch.schema();
        let numeric: Vec<Vec<f64>> = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .filter(|(field, _)| {
                let of = field.data_type();
                (of.is_numeric() || matches!(of, DataType::List(_))) && field.name() != "id"
            })
            .map(|(_, column)| floats(column))
            .collect();
        match self.shown {
            Shown::Numbers => {
                let mut numbers = Vec::new();
                for column in &numeric {
                    numbers.extend(column);
                    if column.len() > 1 {
                        numbers.push(column.iter().sum());
                        numbers.push(column.iter().copied().fold(f64::INFINITY, f64::min));
                        numbers.push(column.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                    }
                }
                Seen { numbers, name: None }
            }
            Shown::Mean(lo, hi) => {
                let mean = numeric[0][0];
                let mut numbers = vec![mean];
                if let Some(rows) = numeric.get(1).map(|rows| rows[0]) {
                    assert!(hidden(schema.fields().last().unwrap().name()), "{schema:?}");
                    numbers.extend([rows, rows * (mean - lo), rows * (hi - mean)]);
                    numbers.extend(numeric.get(2).map(|rungs| rungs[0]));
                }
                Seen { numbers, name: None }
            }
            Shown::Chosen => {
                let last = batch.columns().last().unwrap();
                let text = |row| match last.is_null(row) {
                    true => "NULL".to_owned(),
                    false => array_value_to_string(last, row).unwrap(),
                };
                let name = (0..batch.num_rows()).map(text).collect::<Vec<_>>().join(" ");
                // What may come out in any number of rows is told by its name alone.
                let ordered = last.data_type().is_numeric() && batch.num_rows() == 1;
                let numbers = if ordered { floats(last) } else { Vec::new() };
                Seen { numbers, name: Some(name) }
            }
            Shown::Groups(keys) => {
                let names = batch.column(0).as_string::<i32>();
                let place = |key: &str| (0..batch.num_rows()).find(|i| names.value(*i) == key);
                let places: Vec<Option<usize>> = keys.iter().map(|key| place(key)).collect();
                let mut numbers = vec![places.iter().flatten().count() as f64];
                for column in &numeric {
                    let value = |at: &Option<usize>| at.map_or(f64::NEG_INFINITY, |i| column[i]);
                    numbers.extend(places.iter().map(value));
                }
                Seen { numbers, name: None }
            }
        }
    }
}

/// A column as floats, NULL as −∞.
fn floats(column: &ArrayRef) -> Vec<f64> {
    let column = match column.data_type() {
        DataType::Float64 => Arc::clone(column),
        // The numbers of all lists, one after another.
        DataType::List(_) => return floats(column.as_list::<i32>().values()),
        _ => cast(column, &DataType::Float64).unwrap(),
    };
    let column = column.as_primitive::<Float64Type>();
    column.iter().map(|x| x.unwrap_or(f64::NEG_INFINITY)).collect()
}
