//! Sums that no bound cuts are the answers of plain SQL over the same tables.
//!
//! In every query `!` stands where a mechanism would. Rows that belong to nobody are left out of
//! the plain tables, as they are dropped by the engine. Plain SQL is DataFusion's, and SQLite's
//! where it has what a query is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateDefaults;
use hushql_engine::exec::Exact;
use hushql_engine::release::choose;
use hushql_vault::catalog::Link;
use num_traits::ToPrimitive;
use rusqlite::Connection;

use super::plain::PlainClamp;
use super::rows::{Database, Row, Value};
use super::world::{Plan, Relation, Role, Types, World, fields};
use super::{Planned, analyzed, state, told};
use crate::privacy::coverage::Constructs;
use crate::privacy::noiseless::plain_session;
use crate::privacy::sensitivity::Dice;
use crate::privacy::sqlite;

/// p, whose `u` is the person; c0 leads to p by `u`; c1 leads to c0 by (`k`, `j`); w is public.
const QUERIES: [&str; 120] = [
    "SELECT !COUNT(*), !SUM(c0.a) FROM p, c0, w WHERE p.u = c0.l1 AND w.a = p.a AND w.b = c0.b",
    "SELECT !COUNT(*) FROM p, c0, c1, w, w AS v WHERE p.u = c0.l1 AND c1.l1 = c0.k AND c1.l2 = c0.j AND w.a = p.a AND w.k = v.k AND v.b = c1.b",
    "SELECT k, !COUNT(*) FROM (SELECT l1, upper(s) AS k FROM c0) AS q GROUP BY k",
    "SELECT k, !COUNT(*), !SUM(a) FROM (SELECT l1, a, a / 2 * 2 AS k FROM c0 WHERE a > 1) AS q WHERE k < 5 GROUP BY k",
    "SELECT upper(k) AS v, !COUNT(*) FROM (SELECT l1, s || '-' AS k FROM c0) AS q GROUP BY upper(k)",
    "SELECT k, !COUNT(*) FROM (SELECT l1, MAX(s || 'x') AS k FROM c0 GROUP BY l1) AS q GROUP BY k",
    "SELECT k, !COUNT(*) FROM (SELECT l1, upper(s) AS k FROM c0 GROUP BY l1, upper(s)) AS q GROUP BY k",
    "SELECT k, !COUNT(*) FROM (SELECT u, upper(s) AS k FROM p UNION ALL SELECT l1, s || 'x' FROM c0) AS q GROUP BY k",
    "SELECT v, !COUNT(*) FROM p LEFT JOIN (SELECT l1, a, upper(s) AS v FROM c0) AS q ON p.u = q.l1 AND q.a > 3 GROUP BY v",
    "SELECT k, !COUNT(*) FROM (SELECT l1, LAG(s) OVER (PARTITION BY l1 ORDER BY a, b, s, x) AS k FROM c0) AS q GROUP BY k",
    "SELECT !COUNT(*), !SUM(a) FROM c0 WHERE TRY_CAST(a * 50 AS TINYINT) > 100",
    "SELECT !COUNT(*) FROM c0 WHERE TRY_CAST(a * 50 AS TINYINT) = 50 OR TRY_CAST(a * 50 AS TINYINT) < 0",
    "SELECT !COUNT(*) FROM c0 WHERE NOT (100 >= TRY_CAST(a * 50 AS TINYINT))",
    "SELECT !COUNT(*) FROM c0 WHERE TRY_CAST(a * 50 AS TINYINT) NOT IN (0, 50)",
    "SELECT !COUNT(*) FILTER (WHERE TRY_CAST(a * 50 AS TINYINT) > 30), !COUNT(*) FROM c0",
    "SELECT !COUNT(*) FROM (SELECT u, TRY_CAST(a * 50 AS TINYINT) AS n FROM p) AS q WHERE n > 100",
    "SELECT !COUNT(*) FROM p JOIN c0 ON p.u = c0.l1 AND TRY_CAST(c0.a * 50 AS TINYINT) > 30",
    "SELECT !COUNT(*) FROM c0 WHERE (a IS DISTINCT FROM 3) AND b > 2",
    "SELECT !COUNT(*) FROM c0 WHERE l1 NOT IN (SELECT u FROM p WHERE a > 4)",
    "SELECT !COUNT(*) FROM p WHERE u NOT IN (SELECT l1 FROM c0 GROUP BY l1 HAVING COUNT(*) > 1)",
    "SELECT !COUNT(*) FROM p WHERE u NOT IN (SELECT l1 FROM c0 WHERE a > 2 UNION ALL SELECT u FROM p WHERE a > 5)",
    "SELECT !SUM(CAST(f AS INT)), !COUNT(*) FROM p",
    "SELECT !COUNT(*) FROM p",
    "SELECT !COUNT(*), !SUM(a), !SUM(x), !COUNT(DISTINCT u) FROM p",
    "SELECT !COUNT(*), !SUM(a), !COUNT(DISTINCT l1) FROM c0",
    "SELECT !COUNT(*), !SUM(x) FROM c1",
    "SELECT s, !COUNT(*), !SUM(a) FROM c0 GROUP BY s",
    "SELECT a, !COUNT(*) FROM c1 GROUP BY a",
    "SELECT !COUNT(*), !SUM(c0.a), !SUM(p.a) FROM p JOIN c0 ON p.u = c0.l1",
    "SELECT !COUNT(*), !SUM(c0.a) FROM p, c0 WHERE p.u = c0.l1 AND p.a > 3",
    "SELECT !COUNT(*), !SUM(c1.a) FROM c0 JOIN c1 ON c1.l1 = c0.k AND c1.l2 = c0.j",
    "SELECT !COUNT(*) FROM c1, p, c0 WHERE c1.l1 = c0.k AND c1.l2 = c0.j AND c0.l1 = p.u",
    "SELECT !COUNT(*), !SUM(p.x) FROM p JOIN c0 ON p.u = c0.l1 JOIN c1 ON c1.l1 = c0.k AND c0.j = c1.l2",
    "SELECT p.s, !COUNT(*) FROM c1 JOIN c0 ON c1.l1 = c0.k AND c1.l2 = c0.j JOIN p ON c0.l1 = p.u GROUP BY p.s",
    "SELECT !COUNT(*) FROM p JOIN c0 ON p.u = c0.l1 AND p.a < c0.a",
    "SELECT !COUNT(*), !SUM(t.a) FROM c0 AS t JOIN c0 AS v ON t.l1 = v.l1",
    "SELECT !COUNT(*), !SUM(b.a) FROM p AS a, p AS b WHERE a.u = b.u",
    "SELECT !COUNT(*) FROM c1 AS t JOIN c1 AS v ON t.l1 = v.l1 AND t.l2 = v.l2",
    "SELECT !COUNT(*) FROM c0 JOIN w ON c0.a = w.a",
    "SELECT !COUNT(*), !SUM(c0.a) FROM c0, w WHERE c0.a = w.a AND w.b > 1",
    "SELECT w.a, !COUNT(*) FROM c0 JOIN w ON c0.a = w.a GROUP BY w.a",
    "SELECT w.c, !COUNT(*), !SUM(p.a) FROM p JOIN w ON p.a = w.a JOIN c0 ON c0.l1 = p.u GROUP BY w.c",
    "SELECT !COUNT(*) FROM p, w",
    "SELECT !COUNT(*) FROM p JOIN w ON p.a < w.a",
    "SELECT !COUNT(*), !COUNT(w.c) FROM c0 LEFT JOIN w ON c0.a = w.a",
    "SELECT !COUNT(*), !COUNT(c0.c), !SUM(c0.a) FROM p LEFT JOIN c0 ON p.u = c0.l1",
    "SELECT !COUNT(*), !SUM(p.a) FROM p LEFT JOIN c0 ON p.u = c0.l1 AND c0.a > 4",
    "SELECT !COUNT(*), !SUM(p.a) FROM c0 RIGHT JOIN p ON p.u = c0.l1",
    "SELECT !COUNT(*), !SUM(p.a) FROM c0 LEFT JOIN p ON p.u = c0.l1 AND p.a > 5",
    "SELECT !COUNT(*), !COUNT(c1.a) FROM c0 LEFT JOIN c1 ON c1.l1 = c0.k AND c1.l2 = c0.j",
    "SELECT !COUNT(*) FROM p LEFT JOIN c0 ON p.u = c0.l1 WHERE c0.l1 IS NULL",
    "SELECT !COUNT(*), !SUM(a) FROM p WHERE u IN (SELECT l1 FROM c0)",
    "SELECT !COUNT(*), !SUM(a) FROM p WHERE u NOT IN (SELECT l1 FROM c0 WHERE a > 2)",
    "SELECT !COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u)",
    "SELECT !COUNT(*) FROM p WHERE NOT EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u)",
    "SELECT !COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u AND c0.a > p.a)",
    "SELECT !COUNT(*), !SUM(a) FROM c0 WHERE NOT EXISTS (SELECT 1 FROM c1 WHERE c1.l1 = c0.k AND c1.l2 = c0.j)",
    "SELECT !COUNT(*) FROM c0 WHERE EXISTS (SELECT 1 FROM c1 WHERE c1.l1 = c0.k AND c1.l2 = c0.j AND c1.a = c0.a)",
    "SELECT !COUNT(*) FROM c0 WHERE c0.l1 IN (SELECT u FROM p WHERE a > 3)",
    "SELECT !COUNT(*) FROM c0 WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.u = c0.l1 AND p.a > 3)",
    "SELECT !COUNT(*) FROM c1 WHERE EXISTS (SELECT 1 FROM c0 WHERE c1.l1 = c0.k AND c1.l2 = c0.j AND c0.a > 2)",
    "SELECT !COUNT(*) FROM c0 WHERE a IN (SELECT a FROM w)",
    "SELECT !COUNT(*) FROM c0 WHERE EXISTS (SELECT 1 FROM w WHERE w.a = c0.a AND w.b > 0)",
    "SELECT !COUNT(*) FROM c0 WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.a = c0.a)",
    "SELECT !COUNT(*) FROM p WHERE u IN (SELECT l1 FROM c0 WHERE a IN (SELECT a FROM w))",
    "SELECT !COUNT(*) FROM p WHERE u IN (SELECT l1 FROM c0 GROUP BY l1 HAVING COUNT(*) > 1)",
    "SELECT !COUNT(*), !SUM(n) FROM (SELECT l1, COUNT(*) AS n FROM c0 GROUP BY l1) AS q",
    "SELECT !SUM(n), !SUM(m) FROM (SELECT l1, SUM(a) AS n, SUM(x) AS m FROM c0 GROUP BY l1) AS q",
    "SELECT !SUM(n), !SUM(m) FROM (SELECT l1, MIN(a) AS n, MAX(x) AS m FROM c0 GROUP BY l1) AS q",
    "SELECT !SUM(n) FROM (SELECT l1, COUNT(DISTINCT s) AS n FROM c0 GROUP BY l1) AS q",
    "SELECT !SUM(n) FROM (SELECT l1, COUNT(DISTINCT s) FILTER (WHERE b > 2) AS n FROM c0 GROUP BY l1) AS q",
    "SELECT !SUM(n) FROM (SELECT l1, SUM(a) FILTER (WHERE b > 2) AS n FROM c0 GROUP BY l1) AS q",
    "SELECT !COUNT(*), !SUM(n) FROM (SELECT l1, s, COUNT(*) AS n FROM c0 GROUP BY l1, s) AS q",
    "SELECT s, !SUM(n) FROM (SELECT l1, s, COUNT(*) AS n FROM c0 GROUP BY l1, s) AS q GROUP BY s",
    "SELECT !COUNT(*) FROM (SELECT l1, COUNT(*) AS n FROM c0 GROUP BY l1 HAVING COUNT(*) >= 2) AS q",
    "SELECT !SUM(n) FROM (SELECT p.u, COUNT(c0.k) AS n FROM p LEFT JOIN c0 ON p.u = c0.l1 GROUP BY p.u) AS q",
    "SELECT n, !COUNT(*) FROM (SELECT p.u, COUNT(c0.l1) AS n FROM p LEFT JOIN c0 ON p.u = c0.l1 GROUP BY p.u) AS q GROUP BY n",
    "SELECT !SUM(n) FROM (SELECT p.u, COUNT(*) AS n FROM p, c0, c1 WHERE p.u = c0.l1 AND c1.l1 = c0.k AND c1.l2 = c0.j GROUP BY p.u) AS q",
    "SELECT !COUNT(*), !SUM(q.n) FROM p JOIN (SELECT l1, COUNT(*) AS n FROM c0 GROUP BY l1) AS q ON p.u = q.l1",
    "SELECT !COUNT(*) FROM (SELECT DISTINCT l1 FROM c0) AS q",
    "SELECT !COUNT(*) FROM (SELECT DISTINCT l1, s, a FROM c0) AS q",
    "SELECT !COUNT(*), !SUM(a) FROM (SELECT u, a FROM p UNION ALL SELECT l1, a FROM c0) AS q",
    "SELECT !COUNT(*), !COUNT(n) FROM (SELECT u, 1 AS n FROM p UNION ALL SELECT l1, NULL FROM c0) AS q",
    "SELECT !COUNT(n) FROM (SELECT u, a AS n FROM p UNION ALL SELECT l1, COUNT(*) FROM c0 GROUP BY l1) AS q",
    "SELECT !COUNT(*) FROM (SELECT DISTINCT u, s FROM (SELECT u, s FROM p UNION ALL SELECT l1, s FROM c0) AS q) AS r",
    "SELECT !SUM(n) FROM (SELECT u, COUNT(*) AS n FROM (SELECT u, a FROM p UNION ALL SELECT l1, a FROM c0) AS q GROUP BY u) AS r",
    "SELECT !COUNT(*), !SUM(a) FROM (SELECT l1, a, ROW_NUMBER() OVER (PARTITION BY l1 ORDER BY a DESC) AS n FROM c0) AS q WHERE n = 1",
    "SELECT !SUM(n) FROM (SELECT l1, RANK() OVER (PARTITION BY l1 ORDER BY a) AS n FROM c0) AS q",
    "SELECT !SUM(CASE WHEN p.a > c0.a THEN 2 ELSE 1 END) FROM p JOIN c0 ON p.u = c0.l1",
    "SELECT !SUM(COALESCE(c0.a, p.a)), !COUNT(*) FILTER (WHERE c0.a > 1) FROM p LEFT JOIN c0 ON p.u = c0.l1",
    "SELECT !COUNT(*), !SUM(a) FROM p WHERE a > 5 OR EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u AND c0.a > p.a)",
    "SELECT !COUNT(*) FROM p WHERE NOT (a > 5 OR u IN (SELECT l1 FROM c0))",
    "SELECT !COUNT(*) FROM p WHERE (u IN (SELECT l1 FROM c0 WHERE a > 3)) = (a > 4)",
    "SELECT !COUNT(*) FROM p WHERE a > 8 OR u NOT IN (SELECT l1 FROM c0 WHERE a > 2)",
    "SELECT !SUM(CASE WHEN EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u AND c0.a > 4) THEN 2 ELSE 1 END) FROM p",
    "SELECT !COUNT(*) FILTER (WHERE u IN (SELECT l1 FROM c0 WHERE a > 3)), !COUNT(*) FROM p",
    "SELECT EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u), !COUNT(*), !SUM(a) FROM p GROUP BY 1",
    "SELECT !COUNT(*) FILTER (WHERE m), !COUNT(*) FROM (SELECT u, NOT EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u AND c0.b > 5) AS m FROM p) AS q",
    "SELECT !COUNT(*) FROM c0 WHERE b > 7 OR EXISTS (SELECT 1 FROM c1 WHERE c1.l1 = c0.k AND c1.l2 = c0.j AND c1.a >= c0.a)",
    "SELECT !COUNT(*) FROM c1 WHERE b > 7 OR EXISTS (SELECT 1 FROM c0 WHERE c1.l1 = c0.k AND c1.l2 = c0.j AND c0.a > 2)",
    "SELECT !COUNT(*) FROM c0 WHERE b > 7 OR a IN (SELECT a FROM w)",
    "SELECT !COUNT(*) FROM c0 WHERE b > 7 OR NOT EXISTS (SELECT 1 FROM w WHERE w.a = c0.a AND w.b <> c0.b)",
    "SELECT !COUNT(*) FROM c0 WHERE b > 7 OR EXISTS (SELECT 1 FROM w WHERE w.a > c0.a AND w.b < c0.b)",
    "SELECT !COUNT(*) FROM p WHERE a IN (SELECT c0.a FROM c0 WHERE c0.l1 = p.u)",
    "SELECT !COUNT(*) FROM p WHERE (SELECT COUNT(*) FROM c0 WHERE c0.l1 = p.u) > 2",
    "SELECT !COUNT(*) FROM p WHERE (SELECT COUNT(*) FROM c0 WHERE c0.l1 = p.u AND c0.a > 3) = 0",
    "SELECT !COUNT(*) FROM p WHERE (SELECT MAX(c0.a) FROM c0 WHERE c0.l1 = p.u) > p.a",
    "SELECT !COUNT(*) FROM p WHERE (SELECT MIN(c0.a) FROM c0 WHERE c0.l1 = p.u AND c0.b > 4) IS NULL",
    "SELECT !SUM((SELECT COUNT(*) FROM c0 WHERE c0.l1 = p.u)), !SUM((SELECT SUM(c0.a) FROM c0 WHERE c0.l1 = p.u)) FROM p",
    "SELECT !SUM(n) FROM (SELECT u, (SELECT COUNT(*) * 2 + 1 FROM c0 WHERE c0.l1 = p.u) AS n FROM p) AS q",
    "SELECT !COUNT(*) FROM c0 WHERE a >= (SELECT MAX(t.a) FROM c0 AS t WHERE t.l1 = c0.l1)",
    "SELECT !COUNT(*) FROM c0 WHERE (SELECT COUNT(*) FROM w WHERE w.a = c0.a) > 0",
    "SELECT !COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u GROUP BY c0.l1 HAVING COUNT(*) > 2)",
    "SELECT !COUNT(*) FROM p WHERE NOT EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u GROUP BY c0.s HAVING COUNT(*) > 1)",
    "SELECT !COUNT(*) FROM p WHERE EXISTS (SELECT COUNT(*) FROM c0 WHERE c0.l1 = p.u HAVING COUNT(*) < 2)",
    "SELECT !COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u GROUP BY c0.l1 HAVING MAX(c0.a) > p.a)",
    "SELECT !COUNT(*) FROM p WHERE u IN (SELECT l1 FROM c0 GROUP BY l1 HAVING SUM(a) > 8)",
    "SELECT !COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = p.u AND EXISTS (SELECT 1 FROM c1 WHERE c1.l1 = c0.k AND c1.l2 = c0.j AND c1.a > p.a))",
    "SELECT !COUNT(*), !COUNT(c0.k), !COUNT(c1.l1) FROM p LEFT JOIN c0 ON c0.l1 = p.u LEFT JOIN c1 ON c1.l1 = c0.k AND c1.l2 = c0.j",
    "SELECT !COUNT(DISTINCT c0.l1), !COUNT(*) FROM p LEFT JOIN c0 ON c0.l1 = p.u LEFT JOIN c1 ON c1.l1 = c0.k AND c1.l2 = c0.j",
];

/// Queries that ask what the engine accepts over several tables.
pub(crate) fn over_several_tables() -> Vec<String> {
    const MORE: [&str; 14] = [
        "SELECT !COUNT(*) FROM c0 FULL JOIN p ON p.u = c0.l1",
        "SELECT !COUNT(*) FROM w LEFT JOIN c0 ON c0.a = w.a",
        "SELECT w.a, !COUNT(*) FROM w LEFT JOIN c0 ON c0.a = w.a GROUP BY w.a",
        "SELECT !COUNT(*) FROM c0 RIGHT JOIN w ON c0.a = w.a",
        "SELECT !COUNT(*) FROM c0 CROSS JOIN w",
        "SELECT !COUNT(*) FROM c0 JOIN w USING (a)",
        "SELECT !COUNT(*) FROM c0 NATURAL JOIN w",
        "SELECT !COUNT(*) FROM c0 JOIN (SELECT a, COUNT(*) AS n FROM w GROUP BY a) AS v ON c0.a = v.a",
        "SELECT !COUNT(*) FROM c0 JOIN (SELECT a FROM w ORDER BY a LIMIT 2) AS v ON c0.a = v.a",
        "SELECT !COUNT(*) FROM c0 JOIN (SELECT DISTINCT a FROM w) AS v ON c0.a = v.a",
        "SELECT !COUNT(*) FROM c0 WHERE a > (SELECT MAX(a) FROM w)",
        "SELECT !COUNT(*) FROM c0 WHERE a NOT IN (SELECT a FROM w WHERE a IS NOT NULL)",
        "SELECT k, !COUNT(*) FROM c0 GROUP BY k KEYS TABLE w(k)",
        "WITH q AS (SELECT l1, a FROM c0) SELECT !COUNT(*), !SUM(q.a) FROM q JOIN p ON p.u = q.l1",
    ];
    let inner = SessionStateDefaults::default_aggregate_functions();
    let inner = inner.iter().flat_map(|function| {
        let name = function.name().to_owned();
        ["a", "x", "DISTINCT a", "a, b", "a, 0.5", "a) FILTER (WHERE b > 1"].map(|arguments| {
            let call = format!("{name}({arguments})");
            format!("SELECT !COUNT(n) FROM (SELECT l1, {call} AS n FROM c0 GROUP BY l1) AS q")
        })
    });
    let frames = [
        "",
        " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        " RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
        " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    ];
    let windows = SessionStateDefaults::default_window_functions();
    let windows = windows.iter().map(|function| function.name().to_owned());
    let aggregates = SessionStateDefaults::default_aggregate_functions();
    let aggregates = aggregates.iter().map(|function| function.name().to_owned());
    let windows: Vec<String> = windows.chain(aggregates).collect();
    let windows = windows.iter().flat_map(|name| {
        frames.iter().flat_map(move |frame| {
            ["", "a", "x", "a, 2"].map(|arguments| {
                format!(
                    "SELECT !COUNT(n) FROM (SELECT l1, {name}({arguments}) OVER (PARTITION BY l1 ORDER BY a{frame}) AS n FROM c0) AS q"
                )
            })
        })
    });
    let fixed = QUERIES.iter().chain(&MORE).map(|query| (*query).to_owned());
    let all = fixed.chain(inner).chain(windows);
    all.map(|query| query.replace('!', "LAPLACE(eps=1, rows=4, groups=3) ")).collect()
}

/// What a query over several tables is made of, if it is accepted and has a price.
pub(crate) fn accepted_over_several_tables(sql: &str) -> Option<Constructs> {
    thread_local! {
        static ASKED: World = plan(&mut Dice(0xe9)).open(1);
    }
    ASKED.with(|world| {
        let (made_of, analysis) = told(sql, world).ok()?;
        choose(analysis.ok()?, &world.catalog).ok().map(|_| made_of)
    })
}

pub(super) fn plan(dice: &mut Dice) -> Plan {
    let types = Types::plain(false);
    let link = |columns: &[&str], table: &str, references: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        Link {
            columns: own(columns),
            table: table.to_owned(),
            references: own(references),
            max_rows: Some(50),
        }
    };
    let mut relation = |name: &str, own: &[&'static str], role: Role| {
        let public = matches!(role, Role::Public);
        // Every domain is declared: a schema that left one out would have no ranges.
        let fields = loop {
            let fields = fields(dice, &types, own, public);
            if public || fields.iter().filter(|f| f.domain.is_some()).count() == 4 {
                break fields;
            }
        };
        Relation { name: name.to_owned(), fields, role }
    };
    let relations = vec![
        relation("p", &["u"], Role::Person { max_rows: None, unique: true }),
        relation("c0", &["l1", "l2"], Role::Child { parent: 0, link: link(&["l1"], "p", &["u"]) }),
        relation(
            "c1",
            &["l1", "l2"],
            Role::Child { parent: 1, link: link(&["l1", "l2"], "c0", &["k", "j"]) },
        ),
        relation("w", &[], Role::Public),
    ];
    let public = BTreeMap::from([(3, (0..5).map(|i| tame(dice, &relations[3], i)).collect())]);
    Plan { relations, public, text: false }
}

/// A row whose values lie in every domain, and whose sums are exact; `i` is its key.
fn tame(dice: &mut Dice, relation: &Relation, i: i64) -> Row {
    let fields = relation.fields.iter();
    let values = fields.map(|field| match field.name {
        "u" => Value::Int(i),
        "k" => Value::Int(i / 2),
        "j" => Value::Int(i % 2),
        "l1" | "l2" => Value::Null,
        _ if dice.one_in(8) => Value::Null,
        "a" | "b" => Value::Int(dice.below(11) as i64),
        "x" | "y" => Value::Float(dice.pick(&[-2.5, 0.0, 0.25, 1.5, 3.0])),
        "d" => Value::Int(19_723 + dice.below(366) as i64),
        "f" => Value::Int(dice.below(2) as i64),
        _ => Value::Text(dice.pick(&["p", "q"])),
    });
    values.collect()
}

pub(super) fn database(dice: &mut Dice, plan: &Plan) -> Database {
    let sizes = [9, 20, 25, 0];
    let mut tables: Vec<Vec<Row>> = Vec::new();
    for (relation, size) in plan.relations.iter().zip(sizes) {
        let mut rows: Vec<Row> = (0..size).map(|i| tame(dice, relation, i)).collect();
        if let Some((parent, link)) = relation.link() {
            for row in &mut rows {
                let to = &tables[parent][dice.below(tables[parent].len())];
                for (own, reference) in link.columns.iter().zip(&link.references) {
                    row[relation.at(own)] = to[plan.relations[parent].at(reference)];
                }
                if dice.one_in(6) {
                    row[relation.at("l1")] = dice.pick(&[Value::Null, Value::Int(77)]);
                }
            }
        }
        tables.push(rows);
    }
    Database { tables, honest: true }
}

/// The database without the rows of nobody.
pub(super) fn owned(database: &Database, plan: &Plan) -> Database {
    let owners = database.owners(plan);
    let tables = database.tables.iter().zip(&owners).map(|(rows, owners)| {
        let owned = rows.iter().zip(owners).filter(|(_, owners)| !owners.is_empty());
        owned.map(|(row, _)| row.clone()).collect()
    });
    Database { tables: tables.collect(), honest: true }
}

pub(super) type Answer = BTreeMap<String, Vec<f64>>;

/// SQLite over the tables of a database.
pub(super) fn second(plan: &Plan, database: &Database) -> Connection {
    let tables = plan.relations.iter().enumerate().map(|(i, relation)| {
        let rows = plan.public.get(&i).unwrap_or(&database.tables[i]);
        (relation.name.as_str(), relation.batch(rows))
    });
    sqlite::holding(tables)
}

/// The same answer with its keys as SQLite's come out.
pub(super) fn canonical(answer: &Answer) -> Answer {
    let keyed = answer.iter().map(|(key, numbers)| (sqlite::canonical_key(key), numbers.clone()));
    keyed.collect()
}

/// What plain DataFusion answers: for each key the numbers, nothing as 0.
pub(super) async fn plain(
    sql: &str,
    plan: &Plan,
    database: &Database,
    keys: usize,
) -> datafusion::common::Result<Answer> {
    let context = plain_session(sql);
    context.register_udf(PlainClamp::function());
    for (i, relation) in plan.relations.iter().enumerate() {
        let rows = plan.public.get(&i).unwrap_or(&database.tables[i]);
        let table = MemTable::try_new(relation.schema(), vec![vec![relation.batch(rows)]]);
        context.register_table(relation.name.as_str(), Arc::new(table.unwrap())).unwrap();
    }
    let planned = context.state().create_logical_plan(sql).await?;
    let frame = context.execute_logical_plan(planned).await?;
    Ok(by_key(&frame.collect().await?, keys))
}

/// For each key its numbers, nothing as 0.
pub(super) fn by_key(rows: &[RecordBatch], keys: usize) -> Answer {
    let mut answer = Answer::new();
    for batch in rows {
        let numbers = |column: &ArrayRef| cast(column, &DataType::Float64).unwrap();
        let numbers: Vec<ArrayRef> = batch.columns()[keys..].iter().map(numbers).collect();
        for i in 0..batch.num_rows() {
            let key = key_text(&batch.columns()[..keys], i);
            let row = numbers.iter().map(|c| c.as_primitive::<Float64Type>().iter().nth(i));
            answer.insert(key, row.map(|n| n.flatten().unwrap_or(0.0)).collect());
        }
    }
    answer
}

fn key_text(keys: &[ArrayRef], i: usize) -> String {
    let texts = keys.iter().map(|key| array_value_to_string(key, i).unwrap());
    texts.collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn sums_that_no_bound_cuts_are_plain_answers() {
    let mut dice = Dice(0xe9);
    let plan = plan(&mut dice);
    let world = plan.open(1);
    let databases: Vec<Database> = (0..5).map(|_| database(&mut dice, &plan)).collect();
    let seconds: Vec<Connection> =
        databases.iter().map(|database| second(&plan, &owned(database, &plan))).collect();
    let (mut refused, mut full, mut twice) = (Vec::new(), 0, 0);
    for query in QUERIES {
        let sql = query.replace('!', "LAPLACE(eps=1, rows=1000, groups=1000) ");
        let analysis = match analyzed(&sql, &world) {
            Ok(analysis) => analysis,
            Err(refusal) => {
                refused.push(format!("{query}\n  {refusal}"));
                continue;
            }
        };
        let planned =
            Planned::new(&analysis.parts()[0], state(1, 8_192), [1, 2, 3, 4]).await.unwrap();
        let part = &analysis.parts()[0];
        let keys = part.key_names().len();
        for (database, second) in databases.iter().zip(&seconds) {
            world.set(database, 8_192);
            let unpriced = query.replace('!', "");
            let plainly = plain(&unpriced, &plan, &owned(database, &plan), keys).await;
            // SQLite has NULL first where an order does not say.
            let by_sqlite = match query.contains(" OVER ") {
                true => None,
                false => sqlite::by_key(second, &unpriced, keys),
            };
            twice += usize::from(plainly.is_ok() && by_sqlite.is_some());
            let expected = match (plainly, by_sqlite) {
                (Ok(expected), None) => canonical(&expected),
                // Plain DataFusion forgets the row of an aggregate over no rows.
                (Ok(_), Some(by_sqlite)) if query.contains("EXISTS (SELECT COUNT(*)") => by_sqlite,
                (Ok(expected), Some(by_sqlite)) => {
                    let expected = canonical(&expected);
                    assert_eq!(expected, by_sqlite, "{query}");
                    expected
                }
                // Plain DataFusion cannot run every subquery.
                (Err(_), Some(by_sqlite)) => by_sqlite,
                (Err(error), None) => panic!("{query}: {error}"),
            };
            let exact = planned.exact().await;
            let space = part.keys().all();
            for i in 0..space.len() {
                let key = key_text(space.columns(), i);
                let own = part.measures().iter().zip(&exact).map(|(measure, exact)| {
                    let Exact::Vectors(vectors) = exact else { panic!("{query}") };
                    let unit = measure.grid_unit().to_f64().unwrap();
                    vectors[0][i] as f64 * unit
                });
                let own: Vec<f64> = own.collect();
                let none = vec![0.0; own.len()];
                let expected = expected.get(&sqlite::canonical_key(&key));
                assert_eq!(&own, expected.unwrap_or(&none), "{query}\n{key}");
                full += usize::from(own[0] != 0.0);
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(full > 300, "{full} answers were not zero");
    println!("{twice} of them compared with SQLite");
    assert!(twice > 300, "{twice} answers were SQLite's too");
}
