//! Reading the file's own columns, where that is the same, changes no answer.
//!
//! Declared domains are enforced by expressions, which a file cannot be pruned by and which cost
//! time per row. So a comparison is also said of the raw column where it implies that, it is said
//! of the raw column alone where that is the same, and a listed column is grouped by as it is where
//! the key space drops the rest. Each query here stands beside one that means the same and leaves
//! the engine no such choice; on hostile rows both must have the very same integers.

use arrow::compute::kernels::numeric::neg;

use super::*;

/// The exact integers of a query on these rows.
async fn sums(sql: &str, world: &World, state: &SessionState) -> Vec<Vec<i128>> {
    let analysis = analyzed(sql, world).unwrap_or_else(|| panic!("refused: {sql}"));
    let plan = ExactSums::plan(&analysis.parts()[0], state, [1, 2, 3, 4]).await.unwrap();
    let exact = plan.run(state, 1).await.unwrap().into_iter();
    let vectors = exact.map(|exact| match exact {
        Exact::Vectors(vectors) => vectors,
        Exact::Ladder { .. }
        | Exact::Lines(_)
        | Exact::Keys(_)
        | Exact::Groups(_)
        | Exact::GroupLines(_) => {
            panic!("{sql}")
        }
    });
    vectors.flatten().collect()
}

/// Whether a line of the enforced plan that starts so reads a raw column.
fn reads_raw(sql: &str, line: &str, world: &World) -> bool {
    let analysis = analyzed(sql, world).unwrap_or_else(|| panic!("refused: {sql}"));
    let plan = analysis.parts()[0].input().display_indent().to_string();
    plan.lines().find(|l| l.trim_start().starts_with(line)).is_some_and(|l| l.contains("_raw_"))
}

/// What a filter compares.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Compared {
    Raw,
    Both,
    Enforced,
}

use Compared::{Both, Enforced, Raw};

/// What the filter of the enforced plan compares; `None` if the query is refused.
fn compared(sql: &str, world: &World) -> Option<Compared> {
    let analysis = analyzed(sql, world)?;
    let plan = analysis.parts()[0].input().display_indent().to_string();
    let filter = plan.lines().find(|l| l.trim_start().starts_with("Filter:")).unwrap();
    let words: Vec<&str> = filter.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let raw = words.iter().any(|word| word.contains("_raw_"));
    let names: Vec<&str> = columns().into_iter().map(|(name, ..)| name).collect();
    Some(match (raw, words.iter().any(|word| names.contains(word))) {
        (true, true) => Both,
        (true, false) => Raw,
        (false, _) => Enforced,
    })
}

const CONDITIONS: [(&str, Compared); 107] = [
    ("a = 3", Raw),
    ("a >= 1", Raw),
    ("a > 0", Raw),
    ("a < 10", Raw),
    ("a <= 9", Raw),
    ("3 < a", Raw),
    ("9 >= a", Raw),
    ("a IN (1, 3)", Raw),
    ("a BETWEEN 1 AND 9", Raw),
    ("a >= 10", Raw),
    ("a <= 0", Raw),
    // At the ends, values beyond them count as the ends.
    ("a = 0", Enforced),
    ("a = 10", Enforced),
    ("a >= 0", Enforced),
    ("a <= 10", Enforced),
    ("a < 11", Enforced),
    ("a > -1", Enforced),
    ("a IN (1, 10)", Enforced),
    ("a IN (1, NULL)", Enforced),
    ("a BETWEEN 0 AND 10", Enforced),
    ("a BETWEEN 1 AND 10", Both),
    ("a BETWEEN 0 AND 9", Both),
    ("a <> 3", Enforced),
    ("a NOT IN (1, 3)", Enforced),
    // In the file, NaN is beyond both infinities, and −0.0 before 0.0.
    ("x > -2.5", Raw),
    ("x < 2.5", Raw),
    ("x = 0.1", Raw),
    ("x >= 3.0", Raw),
    ("x <= -2.5", Raw),
    ("x BETWEEN -1.0 AND 2.5", Raw),
    ("x >= 0.0", Raw),
    ("x > 0.0", Raw),
    ("x <= 0.0", Raw),
    ("x < 0.0", Raw),
    ("x = 0.0", Enforced),
    ("x IN (0.1, 0.0)", Enforced),
    ("x <> 0.1", Enforced),
    ("y > 1.0", Raw),
    ("y <= 3.0", Raw),
    ("y < 0", Raw),
    ("y >= 0", Raw),
    ("y = 3", Raw),
    ("y = 0", Enforced),
    ("y BETWEEN -2.5 AND 3", Raw),
    ("y IN (3, 0.1)", Raw),
    ("y > 0.1 AND y >= 0", Raw),
    ("y > 0.1 AND y < 3", Raw),
    ("y > 0.1 AND x < 3", Raw),
    ("y > 0.1 AND y <> 3", Both),
    ("h > 0.5", Raw),
    ("h <= 0", Raw),
    ("h < 0.1", Raw),
    // Texts that are not listed are equal to none that is, and may lie between two.
    ("s = 'p'", Raw),
    ("'p' = s", Raw),
    ("s IN ('p', 'q')", Raw),
    ("s IN ('p', 'r')", Enforced),
    ("s <> 'p'", Enforced),
    ("s > 'p'", Enforced),
    ("ls = 'q'", Raw),
    ("c = 'p'", Raw),
    ("c IN ('p', '12')", Raw),
    ("c < 'p'", Enforced),
    ("vs = 'p'", Raw),
    // Dates beyond those that functions can handle become NULL.
    ("d < DATE '2024-06-01'", Raw),
    ("d >= DATE '2024-03-01'", Raw),
    ("d = DATE '2024-06-01'", Raw),
    ("d BETWEEN DATE '2024-03-01' AND DATE '2024-06-01'", Raw),
    ("d > DATE '2024-01-01' AND d <= DATE '2024-06-01'", Raw),
    ("ts < TIMESTAMP '2024-06-01 00:00:00'", Raw),
    ("ts >= '2024-03-01'", Raw),
    ("t0 > TIMESTAMP '2024-03-01 00:00:00'", Raw),
    ("t3 <= TIMESTAMP '2024-03-01 00:00:00'", Raw),
    ("tn >= TIMESTAMP '2024-03-01 00:00:00'", Raw),
    ("ts > TIMESTAMP '2024-03-01 00:00:00.000000001'", Raw),
    ("d < TIMESTAMP '2024-06-01 00:00:00'", Raw),
    ("d < TIMESTAMP '2024-06-01 12:00:00'", Enforced),
    // Planners compare in a wider type.
    ("i1 < 3", Raw),
    ("i1 < 300", Enforced),
    ("i1 > 0.5", Enforced),
    ("i1 > 2.0", Raw),
    ("i1 IN (1, 3)", Raw),
    ("i1 IN (1, 300)", Enforced),
    ("h IN (0.5, 1)", Raw),
    ("u2 > 4", Raw),
    ("u8 >= 2", Raw),
    ("u8 < 5", Raw),
    ("m > 3", Raw),
    ("m >= CAST(1.25 AS DECIMAL(10, 2))", Raw),
    ("m < CAST(1.255 AS DECIMAL(12, 3))", Enforced),
    ("n >= 3", Raw),
    ("n < 0", Raw),
    ("n = 8", Raw),
    // What has no range is NULL where it does not fit.
    ("b + 9223372036854775807 > 0", Enforced),
    ("2025 - b < 2020", Enforced),
    ("-b <= 3", Enforced),
    ("a * b BETWEEN -9 AND 9", Enforced),
    // The time between two moments.
    ("ts - CAST(t3 AS TIMESTAMP) > INTERVAL '40 days'", Enforced),
    ("INTERVAL '1 month' >= CAST(t0 AS TIMESTAMP) - ts", Enforced),
    ("ts - TIMESTAMP '2024-03-01 00:00:00' < INTERVAL '12 hours'", Enforced),
    ("CAST(d AS TIMESTAMP) - ts NOT BETWEEN INTERVAL '-3 days' AND INTERVAL '2 days'", Enforced),
    ("s = 'q' AND a > 2", Raw),
    ("s = 'q' OR a > 2", Raw),
    ("s = 'q' OR a >= 0", Both),
    ("a = 3 OR a = 0", Both),
    ("NOT (s = 'q' OR a > 2)", Enforced),
    ("s = 'q' AND (a > 2 OR x < 0.0 AND c = 'p')", Raw),
    ("(s = 'q' OR a > 2) AND (s = 'p' OR NOT a < 9)", Both),
];

/// The same rows with floats of the other sign, NaN among them.
fn negative(rows: &RecordBatch) -> RecordBatch {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Float32 | DataType::Float64 => neg(column).unwrap(),
        _ => Arc::clone(column),
    });
    RecordBatch::try_new(rows.schema(), columns.collect()).unwrap()
}

#[tokio::test]
async fn conditions_mean_the_same_on_raw_columns() {
    let mut dice = Dice(7);
    let state = single_partition();
    let world = world(Unit::Row);
    let from = ["FROM t", "FROM (SELECT * FROM t) q", "FROM (SELECT * FROM t WHERE a <> 7) q"];
    let mut others = Vec::new();
    for round in 0..4 {
        let rows = rows(&mut dice, 60);
        world.swap.set(vec![negative(&rows), rows]);
        for (condition, columns) in CONDITIONS {
            let from = from[round % from.len()];
            let release = "LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) SUM(CLAMP(b, -4, 9)) AS m";
            let bare = format!("SELECT {release} {from} WHERE {condition}");
            let opaque = format!("SELECT {release} {from} WHERE ({condition}) IS TRUE");
            let found = [compared(&bare, &world), compared(&opaque, &world)];
            if found != [Some(columns), Some(Enforced)] {
                others.push((bare, found));
                continue;
            }
            let (bare_sums, opaque_sums) =
                (sums(&bare, &world, &state).await, sums(&opaque, &world, &state).await);
            assert_eq!(bare_sums, opaque_sums, "{bare}");
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}

#[tokio::test]
async fn listed_keys_mean_the_same_on_raw_columns() {
    let mut dice = Dice(8);
    let state = single_partition();
    for unit in [Unit::Row, Unit::Column { column: "id".into(), max_rows: Some(9), unique: false }]
    {
        let world = world(unit);
        for _ in 0..4 {
            world.swap.set(vec![rows(&mut dice, 60)]);
            let by = |keys: &str| {
                format!("SELECT s, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY s KEYS ({keys})")
            };
            // With NULL among the keys, what is not listed has a group of its own.
            let (raw, enforced) = (by("'p', 'q'"), by("'p', 'q', NULL"));
            assert!(reads_raw(&raw, "Projection:", &world));
            assert!(!reads_raw(&enforced, "Projection:", &world));
            let limits_bind = matches!(world.unit, Unit::Column { .. });
            let (raw, enforced) =
                (sums(&raw, &world, &state).await, sums(&enforced, &world, &state).await);
            if !limits_bind {
                assert_eq!(raw[0][..], enforced[0][..2]);
            }
            assert!(raw[0].iter().all(|n| *n > 0), "{raw:?}");
            // A key outside of the list has no rows, though the file has some.
            assert!(analyzed(&by("'p', 'r'"), &world).is_none());
        }
    }
}
