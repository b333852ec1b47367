//! Random queries above releases: what is made of released numbers is what SQL makes of them.
//!
//! Three releases stand in a WITH; joins, set operations, groups, windows and subqueries are put on
//! them and on a public table, with names that stand for one column here and for another there.
//! SQLite is asked the same over tables that hold what was released: it shares nothing with
//! DataFusion, whose planner and optimizer are tried here too.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::equal::{database, plan};
use super::world::World;
use super::{analyzed, given, state};
use crate::privacy::noiseless::{answer_without_noise, planned_answer_without_noise};
use crate::privacy::sensitivity::Dice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Text,
}

use Type::{Int, Text};

/// A SELECT, and what it shows.
struct Query {
    sql: String,
    columns: Vec<(String, Type)>,
}

/// What is in reach, by names with their table's.
type Scope = Vec<(String, Type)>;

const TABLES: [(&str, &[(&str, Type)]); 4] = [
    ("r0", &[("k", Text), ("n", Int), ("m", Int)]),
    ("r1", &[("k", Int), ("n", Int), ("m", Int)]),
    ("r2", &[("n", Int)]),
    ("w", &[("k", Int), ("a", Int), ("s", Text), ("c", Text)]),
];

const RELEASES: [(&str, &str); 3] = [
    (
        "r0",
        "SELECT s AS k, LAPLACE(eps=1, rows=1000, groups=1000) COUNT(*) AS n, LAPLACE(eps=1, rows=1000, groups=1000) SUM(a) AS m FROM c0 GROUP BY s KEYS ('p', 'q')",
    ),
    (
        "r1",
        "SELECT a AS k, LAPLACE(eps=1, rows=1000, groups=1000) COUNT(*) AS n, LAPLACE(eps=1, rows=1000, groups=1000) SUM(CLAMP(b, 0, 10)) AS m FROM p GROUP BY a KEYS (0, 1, 2, 3, NULL)",
    ),
    ("r2", "SELECT LAPLACE(eps=1, rows=1000, groups=1000) COUNT(*) AS n FROM c1"),
];

struct Gen<'a> {
    dice: &'a mut Dice,
    aliases: usize,
}

impl Gen<'_> {
    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    fn column(&mut self, scope: &Scope, of: Type) -> String {
        let fitting: Vec<&String> =
            scope.iter().filter(|(_, own)| *own == of).map(|(name, _)| name).collect();
        match (fitting.is_empty(), of) {
            (false, _) => fitting[self.dice.below(fitting.len())].clone(),
            (true, Int) => "1".to_owned(),
            (true, Text) => "'q'".to_owned(),
        }
    }

    fn value(&mut self, scope: &Scope, of: Type, depth: usize) -> String {
        if depth == 0 || self.dice.one_in(3) {
            return match (self.dice.one_in(8), of) {
                (true, Int) => self.dice.pick(&["0", "2", "NULL"]).to_owned(),
                (true, Text) => self.dice.pick(&["'p'", "''"]).to_owned(),
                _ => self.column(scope, of),
            };
        }
        let one = self.value(scope, of, depth - 1);
        let two = self.value(scope, of, depth - 1);
        match (self.dice.below(5), of) {
            (0, _) => format!("COALESCE({one}, {two})"),
            (1, _) => format!("NULLIF({one}, {two})"),
            (2, _) => {
                format!("CASE WHEN {} THEN {one} ELSE {two} END", self.predicate(scope, 0))
            }
            (3, Int) => format!("({one} + {two})"),
            (_, Int) => format!("({one} - {two})"),
            (3, Text) => format!("UPPER({one})"),
            (_, Text) => format!("({one} || {two})"),
        }
    }

    /// A condition; with a depth it may ask another query.
    fn predicate(&mut self, scope: &Scope, depth: usize) -> String {
        let of = self.dice.pick(&[Int, Int, Text]);
        let (one, two) = (self.value(scope, of, 0), self.value(scope, of, 0));
        if depth > 0 && self.dice.one_in(3) {
            let inner = self.query(depth - 1);
            let z = self.alias();
            let own: Scope =
                inner.columns.iter().map(|(c, of)| (format!("{z}.{c}"), *of)).collect();
            let theirs = self.column(&own, of);
            let from = format!("FROM ({}) AS {z}", inner.sql);
            return match self.dice.below(5) {
                0 => format!("EXISTS (SELECT 1 {from} WHERE {theirs} = {one})"),
                1 => format!("NOT EXISTS (SELECT 1 {from} WHERE {theirs} = {one})"),
                2 => format!("{one} IN (SELECT {theirs} {from})"),
                3 => format!("{one} NOT IN (SELECT {theirs} {from})"),
                _ => format!("{one} >= (SELECT MIN({theirs}) {from})"),
            };
        }
        match self.dice.below(8) {
            0 => format!("{one} IS NULL"),
            1 => format!("{one} IS NOT NULL"),
            2 => format!("{one} IS DISTINCT FROM {two}"),
            3 => format!("{one} <> {two}"),
            4 => {
                let (a, b) = (self.predicate(scope, 0), self.predicate(scope, depth));
                format!("({a} {} {b})", self.dice.pick(&["AND", "OR"]))
            }
            5 => format!("NOT ({})", self.predicate(scope, 0)),
            _ => format!("{one} {} {two}", self.dice.pick(&["=", "<", "<="])),
        }
    }

    /// New names: one may stand for another column than below.
    fn names(&mut self, n: usize) -> Vec<String> {
        let mut pool = vec!["k", "n", "m", "a", "s", "c"];
        (0..n).map(|_| pool.swap_remove(self.dice.below(pool.len())).to_owned()).collect()
    }

    /// What a SELECT shows, of what is in reach.
    fn shown(&mut self, scope: &Scope, n: usize) -> (String, Vec<(String, Type)>) {
        let names = self.names(n);
        let mut list = Vec::new();
        let mut columns = Vec::new();
        for name in names {
            let of = self.dice.pick(&[Int, Int, Text]);
            let depth = self.dice.below(3);
            list.push(format!("{} AS {name}", self.value(scope, of, depth)));
            columns.push((name, of));
        }
        (list.join(", "), columns)
    }

    fn from(&mut self, depth: usize) -> (String, Scope) {
        let (sql, columns) = match depth == 0 || self.dice.one_in(3) {
            true => {
                let (name, columns) = TABLES[self.dice.below(TABLES.len())];
                let columns = columns.iter().map(|(c, of)| ((*c).to_owned(), *of)).collect();
                (name.to_owned(), columns)
            }
            false => {
                let query = self.query(depth - 1);
                (format!("({})", query.sql), query.columns)
            }
        };
        let alias = self.alias();
        let scope = columns.into_iter().map(|(c, of)| (format!("{alias}.{c}"), of)).collect();
        (format!("{sql} AS {alias}"), scope)
    }

    fn joined(&mut self, depth: usize) -> (String, Scope) {
        let (mut sql, mut scope) = self.from(depth);
        if self.dice.one_in(2) {
            let (other, theirs) = self.from(depth);
            let of = self.dice.pick(&[Int, Int, Text]);
            let on = format!("{} = {}", self.column(&scope, of), self.column(&theirs, of));
            scope.extend(theirs);
            let on = match self.dice.one_in(3) {
                true => format!("{on} AND {}", self.predicate(&scope, 0)),
                false => on,
            };
            sql = match self.dice.below(6) {
                0 => format!("{sql} CROSS JOIN {other}"),
                1 | 2 => format!("{sql} LEFT JOIN {other} ON {on}"),
                3 => format!("{sql} RIGHT JOIN {other} ON {on}"),
                4 => format!("{sql} FULL JOIN {other} ON {on}"),
                _ => format!("{sql} JOIN {other} ON {on}"),
            };
        }
        (sql, scope)
    }

    fn query(&mut self, depth: usize) -> Query {
        if depth > 0 && self.dice.one_in(6) {
            let (one, two) = (self.select(depth - 1, 2), self.select(depth - 1, 2));
            let same = one.columns.iter().zip(&two.columns).all(|(a, b)| a.1 == b.1);
            if same {
                let op =
                    self.dice.pick(&["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"]);
                return Query {
                    sql: format!("{} {op} {}", one.sql, two.sql),
                    columns: one.columns,
                };
            }
        }
        let n = 1 + self.dice.below(3);
        self.select(depth, n)
    }

    fn select(&mut self, depth: usize, n: usize) -> Query {
        let (from, scope) = self.joined(depth);
        let condition = match self.dice.one_in(2) {
            true => format!(" WHERE {}", self.predicate(&scope, depth)),
            false => String::new(),
        };
        match self.dice.below(6) {
            0 => {
                let names = self.names(n + 1);
                let of = self.dice.pick(&[Int, Text]);
                let key = self.column(&scope, of);
                let mut columns = vec![(names[0].clone(), of)];
                let mut list = vec![format!("{key} AS {}", names[0])];
                for name in &names[1..n.max(2)] {
                    let of_ = self.value(&scope, Int, 1);
                    let filter = match self.dice.one_in(3) {
                        true => format!(" FILTER (WHERE {})", self.predicate(&scope, 0)),
                        false => String::new(),
                    };
                    let call =
                        self.dice.pick(&["SUM(", "MIN(", "MAX(", "COUNT(", "COUNT(DISTINCT "]);
                    list.push(format!("{call}{of_}){filter} AS {name}"));
                    columns.push((name.clone(), Int));
                }
                let having = self.dice.pick(&["", "", " HAVING COUNT(*) > 1"]);
                let sql = format!(
                    "SELECT {} FROM {from}{condition} GROUP BY {key}{having}",
                    list.join(", ")
                );
                Query { sql, columns }
            }
            1 => {
                let name = self.names(1).remove(0);
                let of_ = self.value(&scope, Int, 1);
                let part = self.column(&scope, Text);
                let order = format!("{} NULLS LAST", self.value(&scope, Int, 0));
                let window = match self.dice.below(4) {
                    0 => format!("SUM({of_}) OVER (PARTITION BY {part})"),
                    1 => format!("RANK() OVER (ORDER BY {order})"),
                    2 => format!("COUNT({of_}) OVER (PARTITION BY {part} ORDER BY {order})"),
                    _ => format!("MAX({of_}) OVER (ORDER BY {order})"),
                };
                let (list, mut columns) = self.shown(&scope, 1);
                if columns[0].0 == name {
                    return Query { sql: format!("SELECT {list} FROM {from}{condition}"), columns };
                }
                columns.push((name.clone(), Int));
                let sql = format!("SELECT {list}, {window} AS {name} FROM {from}{condition}");
                Query { sql, columns }
            }
            2 => {
                let (list, columns) = self.shown(&scope, n);
                Query { sql: format!("SELECT DISTINCT {list} FROM {from}{condition}"), columns }
            }
            3 => {
                let (list, columns) = self.shown(&scope, n);
                let all: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
                let most = 1 + self.dice.below(4);
                let skip = self.dice.pick(&["", " OFFSET 1"]);
                let order: Vec<String> = all.iter().map(|c| format!("{c} NULLS LAST")).collect();
                let (all, order, alias) = (all.join(", "), order.join(", "), self.alias());
                let first = format!("SELECT {list} FROM {from}{condition} ORDER BY {order}");
                let sql = format!("SELECT {all} FROM ({first} LIMIT {most}{skip}) AS {alias}");
                Query { sql, columns }
            }
            _ => {
                let (list, columns) = self.shown(&scope, n);
                Query { sql: format!("SELECT {list} FROM {from}{condition}"), columns }
            }
        }
    }
}

/// A whole number, a text, or NULL.
fn value(column: &dyn Array, i: usize) -> Value {
    if column.is_null(i) || *column.data_type() == DataType::Null {
        return Value::Null;
    }
    let text = array_value_to_string(column, i).unwrap();
    match (column.data_type().is_numeric(), text.parse()) {
        (true, Ok(whole)) => Value::Integer(whole),
        _ => Value::Text(text),
    }
}

/// The rows, each as a text.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|i| batch.columns().iter().map(|c| value(c, i)).collect())
    });
    in_order(rows)
}

fn in_order(rows: impl Iterator<Item = Vec<Value>>) -> Vec<String> {
    let mut rows: Vec<String> = rows.map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    rows
}

/// SQLite, with tables that hold what was released.
async fn released(world: &World) -> Connection {
    let sqlite = Connection::open_in_memory().unwrap();
    let mut tables = vec![("w", vec![world.public("w")])];
    for (name, sql) in RELEASES {
        let rows = answer_without_noise(&analyzed(sql, world).unwrap(), &state(1, 8_192)).await;
        tables.push((name, rows));
    }
    for (name, batches) in tables {
        let schema = batches[0].schema();
        let columns: Vec<String> = schema
            .fields()
            .iter()
            .map(|field| {
                let of = if field.data_type().is_integer() { "INTEGER" } else { "TEXT" };
                format!("{} {of}", field.name())
            })
            .collect();
        sqlite.execute(&format!("CREATE TABLE {name} ({})", columns.join(", ")), []).unwrap();
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO {name} VALUES ({places})");
        for batch in &batches {
            for i in 0..batch.num_rows() {
                let row = batch.columns().iter().map(|column| value(column, i));
                sqlite.execute(&insert, rusqlite::params_from_iter(row)).unwrap();
            }
        }
    }
    sqlite
}

/// What SQLite answers.
fn asked(sqlite: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = sqlite.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|i| row.get(i)).collect())?;
    Ok(in_order(rows.collect::<rusqlite::Result<Vec<Vec<Value>>>>()?.into_iter()))
}

#[derive(Debug, Default)]
struct Tried {
    refused: usize,
    /// Refused before anything is charged, since DataFusion has no plan.
    unplanned: usize,
    equal: usize,
    rows: usize,
}

async fn tried(seed: u64, wanted: usize) -> Tried {
    let mut dice = Dice(seed);
    let plan = plan(&mut dice);
    let world = plan.open(1);
    world.set(&database(&mut dice, &plan), 8_192);
    let sqlite = released(&world).await;
    let state = state(1, 8_192);
    let with: Vec<String> =
        RELEASES.iter().map(|(name, sql)| format!("{name} AS ({sql})")).collect();
    let with = with.join(", ");
    let mut tried = Tried::default();
    while tried.equal < wanted {
        let depth = 1 + dice.below(2);
        let query = Gen { dice: &mut dice, aliases: 0 }.query(depth);
        let Ok(analysis) = analyzed(&format!("WITH {with} {}", query.sql), &world) else {
            tried.refused += 1;
            continue;
        };
        let Ok(own) = planned_answer_without_noise(&analysis, &state).await else {
            tried.unplanned += 1;
            continue;
        };
        let own = rows(&own);
        let expected = asked(&sqlite, &query.sql).unwrap_or_else(|e| panic!("{e}: {}", query.sql));
        assert_eq!(own, expected, "{seed}: {}", query.sql);
        tried.equal += 1;
        tried.rows += own.len();
    }
    tried
}

#[tokio::test]
async fn queries_above_releases_are_those_of_sqlite() {
    let tried = tried(1, 200).await;
    println!("{tried:?}");
    assert!(tried.rows > 200, "{tried:?}");
}

/// The long run: `cargo test --release --test it those_of_sqlite -- --ignored --nocapture`;
/// RELATIONS_SEED changes it.
#[tokio::test]
#[ignore = "long: an hour"]
async fn twenty_thousand_queries_above_releases_are_those_of_sqlite() {
    let first = given("RELATIONS_SEED", 1_000);
    for seed in first..first + 100 {
        println!("{seed}: {:?}", tried(seed, 200).await);
    }
}
