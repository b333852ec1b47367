//! Queries that try to reach other people's rows, over many hostile databases.
//!
//! Each of them must be refused or keep to one unit; which of the two is the analysis's to choose.

use super::rows::{Database, Row, Value};
use super::world::{Plan, Role};
use super::{Planned, Run, Seen, analyzed, state};
use crate::privacy::sensitivity::Dice;

/// p has a person `u` and the key (`k`, `j`); c0 leads to p, and c1 to c0, by (`l1`, `l2`).
const QUERIES: [&str; 32] = [
    // Two rows of one person: a column of each. Together they are the key of another person's row.
    "FROM p AS a JOIN p AS b ON a.u = b.u JOIN c0 AS c ON c.l1 = a.k AND c.l2 = b.j",
    "FROM p AS a, p AS b, c0 AS c WHERE c.l1 = a.k AND c.l2 = b.j AND a.u = b.u",
    "FROM p AS a JOIN p AS b ON a.u = b.u LEFT JOIN c0 AS c ON c.l1 = a.k AND c.l2 = b.j",
    "FROM p AS a JOIN p AS b ON a.u = b.u WHERE EXISTS (SELECT 1 FROM c0 AS c WHERE c.l1 = a.k AND c.l2 = b.j)",
    "FROM p AS a JOIN p AS b ON a.u = b.u WHERE NOT EXISTS (SELECT 1 FROM c0 AS c WHERE c.l1 = a.k AND c.l2 = b.j)",
    "FROM c0 AS c WHERE EXISTS (SELECT 1 FROM p AS a JOIN p AS b ON a.u = b.u WHERE c.l1 = a.k AND c.l2 = b.j)",
    "FROM c0 AS c WHERE NOT EXISTS (SELECT 1 FROM p AS a, p AS b WHERE a.u = b.u AND c.l1 = a.k AND c.l2 = b.j)",
    "FROM (SELECT DISTINCT a.u, a.k, b.j FROM p AS a JOIN p AS b ON a.u = b.u) AS q JOIN c0 AS c ON c.l1 = q.k AND c.l2 = q.j",
    "FROM (SELECT a.u, a.k, b.j FROM p AS a JOIN p AS b ON a.u = b.u) AS q JOIN c0 AS c ON c.l1 = q.k AND c.l2 = q.j",
    "FROM (SELECT a.u, a.k, b.j, COUNT(*) AS n FROM p AS a JOIN p AS b ON a.u = b.u GROUP BY a.u, a.k, b.j) AS q JOIN c0 AS c ON c.l1 = q.k AND c.l2 = q.j",
    "FROM c0 AS c RIGHT JOIN (SELECT a.u, a.k, b.j FROM p AS a JOIN p AS b ON a.u = b.u) AS q ON c.l1 = q.k AND c.l2 = q.j",
    "FROM c0 AS a JOIN c0 AS b ON a.l1 = b.l1 AND a.l2 = b.l2 JOIN c1 AS c ON c.l1 = a.k AND c.l2 = b.j",
    "FROM p AS a JOIN c0 AS c ON c.l1 = a.k AND c.l2 = a.j JOIN c0 AS d ON d.l1 = a.k AND d.l2 = a.j JOIN c1 AS e ON e.l1 = c.k AND e.l2 = d.j",
    "FROM c1 AS e JOIN c0 AS c ON e.l1 = c.k AND e.l2 = c.j WHERE EXISTS (SELECT 1 FROM p AS a WHERE a.k = c.l1 AND a.j = c.l2 AND a.a > 3)",
    // A column of a link that leads elsewhere, or half of a link.
    "FROM c0 AS c JOIN c1 AS e ON e.l1 = c.l1 AND e.l2 = c.l2",
    "FROM c0 AS c JOIN c1 AS e ON e.l1 = c.k",
    "FROM c0 AS a JOIN c0 AS b ON a.l1 = b.l1",
    "FROM c0 AS a JOIN c0 AS b ON a.l1 = b.l2 AND a.l2 = b.l1",
    "FROM c0 AS a LEFT JOIN c0 AS b ON a.l1 = b.l1 AND a.l2 = b.l2 JOIN c1 AS e ON e.l1 = b.k AND e.l2 = b.j",
    "FROM p AS a LEFT JOIN p AS b ON a.u = b.u AND b.a > 2 JOIN c0 AS c ON c.l1 = b.k AND c.l2 = b.j",
    "FROM p AS a WHERE a.k IN (SELECT c.l1 FROM c0 AS c)",
    "FROM p AS a WHERE (a.u = 'x' OR a.u IN (SELECT b.u FROM p AS b WHERE b.a > 3))",
    "FROM (SELECT a.u FROM p AS a EXCEPT SELECT b.u FROM p AS b WHERE b.a > 3) AS q",
    "FROM (SELECT a.u FROM p AS a INTERSECT SELECT b.u FROM p AS b JOIN c0 AS c ON c.l1 = b.k AND c.l2 = b.j) AS q",
    "FROM (SELECT a.k FROM p AS a EXCEPT SELECT c.l1 FROM c0 AS c) AS q",
    // A window is a function of a multiset: rows that are equal but for what a domain hides.
    "FROM (SELECT a.u, a.a, ROW_NUMBER() OVER (PARTITION BY a.u ORDER BY a.s) * 4611686018427387904 AS k FROM p AS a) AS q WHERE q.k > 4",
    "FROM (SELECT a.u, a.a, a.s, LAG(a.a) OVER (PARTITION BY a.u ORDER BY a.s) AS k FROM p AS a) AS q WHERE q.a = 10 AND q.k > 4",
    // Functions over one order that need more of it, or less: they once shared the first one's, and
    // chance chose.
    "FROM (SELECT a.u, RANK() OVER (PARTITION BY a.u ORDER BY a.s) AS n, LAG(a.a) OVER (PARTITION BY a.u ORDER BY a.s) AS k FROM p AS a) AS q WHERE q.n < 9 AND q.k > 4",
    "FROM (SELECT a.u, COUNT(a.b) OVER (PARTITION BY a.u ORDER BY ABS(a.a)) AS n, MAX(a.b) OVER (PARTITION BY a.u ORDER BY ABS(a.a) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS k FROM p AS a) AS q WHERE q.n > 1 AND q.k > 4",
    // A count in a frame is said to grow over everybody's rows, and what passes a division to be
    // one number.
    "FROM (SELECT q.u, COUNT(*) OVER (PARTITION BY q.u, q.c ORDER BY q.u) AS n FROM (SELECT a.u, COUNT(*) OVER (PARTITION BY a.u, a.f ORDER BY a.a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM p AS a) AS q) AS r WHERE r.n > 2",
    "FROM (SELECT q.u, RANK() OVER (PARTITION BY q.u ORDER BY q.m) AS n FROM (SELECT a.u, a.s, MAX(a.a) AS m FROM p AS a GROUP BY a.u, a.s) AS q WHERE q.m / 2 = 5) AS r WHERE r.n > 1",
    "FROM (SELECT q.u, q.m, COUNT(*) AS n FROM (SELECT a.u, a.s, MAX(a.a) AS m FROM p AS a GROUP BY a.u, a.s) AS q WHERE q.m / 2 = 5 GROUP BY q.u, q.m) AS r WHERE r.n > 1",
];

/// A chain of composite links below people with several rows.
fn chain(dice: &mut Dice) -> Plan {
    loop {
        let plan = Plan::random(dice);
        let leads = |table: usize, to: usize| {
            plan.relations.get(table).and_then(|t| t.link()).is_some_and(|(parent, link)| {
                parent == to && link.references == ["k".to_owned(), "j".to_owned()]
            })
        };
        let many = matches!(plan.relations[0].role, Role::Person { unique: false, .. })
            && plan.relations[0].max_rows() != Some(1);
        if many && leads(1, 0) && leads(2, 1) {
            return plan;
        }
    }
}

#[tokio::test]
async fn nobody_is_reached_through_the_rows_of_another() {
    let mut dice = Dice(0xbad);
    let mut seen = Seen::default();
    for _ in 0..2 {
        let plan = chain(&mut dice);
        let world = plan.open(1);
        for query in QUERIES {
            let text = if plan.text { query.to_owned() } else { query.replace("'x'", "7") };
            let sql = format!("SELECT LAPLACE(eps=1, rows=4, groups=1) COUNT(*) {text}");
            let Ok(analysis) = analyzed(&sql, &world) else { continue };
            let hash = [1, 2, 3, 4];
            // Joined batches of few rows take much memory.
            let cuts: &[usize] = if query.contains("OVER") { &[8_192, 1, 2, 3] } else { &[8_192] };
            for &cut in cuts {
                let part = &analysis.parts()[0];
                let planned = Planned::new(part, state(1, cut), hash).await.unwrap();
                let (plan, world, planned, sql) = (&plan, &world, &planned, sql.as_str());
                let run = Run { plan, world, part, which: 0, planned, sql, hash, cut };
                run.databases(&mut dice, 60, &mut seen).await;
            }
            seen.answered += 1;
        }
    }
    assert!(seen.answered >= 20, "{} of the queries were planned", seen.answered);
}

/// A person with ten thousand rows in a table, beside others with few.
#[tokio::test]
async fn one_person_with_ten_thousand_rows() {
    let mut dice = Dice(0x10_000);
    let mut seen = Seen::default();
    let plan = chain(&mut dice);
    let world = plan.open(1);
    for (table, body) in [
        (0, "FROM p AS t"),
        (0, "FROM (SELECT u, s, COUNT(*) AS n, SUM(a) AS a FROM p GROUP BY u, s) AS t"),
        (0, "FROM (SELECT u, a, ROW_NUMBER() OVER (PARTITION BY u ORDER BY x) AS n FROM p) AS t"),
        (1, "FROM p JOIN c0 AS t ON t.l1 = p.k AND t.l2 = p.j"),
        (1, "FROM p AS t LEFT JOIN c0 ON c0.l1 = t.k AND c0.l2 = t.j"),
        (1, "FROM p AS t WHERE EXISTS (SELECT 1 FROM c0 WHERE c0.l1 = t.k AND c0.l2 = t.j)"),
        (2, "FROM p, c0 AS t, c1 WHERE t.l1 = p.k AND t.l2 = p.j AND c1.l1 = t.k AND c1.l2 = t.j"),
        (2, "FROM c1 AS t"),
    ] {
        for aggregate in ["COUNT(*)", "SUM(CLAMP(t.a, -3, 5))"] {
            let sql = format!("SELECT LAPLACE(eps=1, rows=3, groups=1) {aggregate} {body}");
            let analysis = analyzed(&sql, &world).unwrap();
            let planned =
                Planned::new(&analysis.parts()[0], state(1, 8_192), [1, 2, 3, 4]).await.unwrap();
            let run = Run {
                plan: &plan,
                world: &world,
                part: &analysis.parts()[0],
                which: 0,
                planned: &planned,
                sql: &sql,
                hash: [1, 2, 3, 4],
                cut: 8_192,
            };
            let mut database = Database::random(&mut dice, &plan);
            let owners = database.owners(&plan);
            let Some(i) = owners[table].iter().position(|owners| owners.len() == 1) else {
                continue;
            };
            let mut row: Row = database.tables[table][i].clone();
            for n in 0..10_000 {
                row[plan.relations[table].at("a")] = Value::Int(n % 12);
                row[plan.relations[table].at("b")] = Value::Int(n);
                database.tables[table].push(row.clone());
            }
            database.honest = false;
            run.all_neighbours(&mut dice, &database, &mut seen).await;
        }
    }
    assert!(seen.pairs > 20, "{} pairs", seen.pairs);
}
