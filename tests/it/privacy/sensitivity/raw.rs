//! Reading the file's own columns, where that is the same, changes no answer.
//!
//! Declared domains are enforced by expressions, which a file cannot be pruned by and which cost time per row.
//! So a comparison is also said of the raw column where it implies that, it is said of the raw column alone where that is the
//! same, and a listed column is grouped by as it is where the key space drops the rest. Each query here stands beside one that means the same and leaves
//! the engine no such choice; on hostile rows both must have the very same integers.

use super::*;

/// The exact integers of a query on these rows.
async fn sums(sql: &str, world: &World, state: &SessionState) -> Vec<Vec<i128>> {
    let analysis = analyzed(sql, world).unwrap_or_else(|| panic!("refused: {sql}"));
    let plan = ExactSums::plan(&analysis.parts()[0], state, [1, 2, 3, 4]).await.unwrap();
    let exact = plan.run(state, 1).await.unwrap().into_iter();
    let vectors = exact.map(|exact| match exact {
        Exact::Vectors(vectors) => vectors,
        Exact::Ladder { .. } | Exact::Lines(_) | Exact::Keys(_) | Exact::Groups(_) => {
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

/// What the filter of the enforced plan compares.
fn compared(sql: &str, world: &World) -> Compared {
    let analysis = analyzed(sql, world).unwrap_or_else(|| panic!("refused: {sql}"));
    let plan = analysis.parts()[0].input().display_indent().to_string();
    let filter = plan.lines().find(|l| l.trim_start().starts_with("Filter:")).unwrap();
    let words: Vec<&str> = filter.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let raw = words.iter().any(|word| word.contains("_raw_"));
    match (raw, words.iter().any(|word| ["a", "x", "s", "d"].contains(word))) {
        (true, true) => Both,
        (true, false) => Raw,
        (false, _) => Enforced,
    }
}

const CONDITIONS: [(&str, Compared); 41] = [
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
    // NaN is none of the values, and what a file says of its floats may hide rows: they are compared above it.
    ("x > -2.5", Enforced),
    ("x < 2.5", Enforced),
    ("x = 0.1", Enforced),
    ("x >= 3.0", Enforced),
    ("x <= -2.5", Enforced),
    ("x >= 0.0", Enforced),
    ("x = 0.0", Enforced),
    // Texts that are not listed are equal to none that is, and may lie between two.
    ("s = 'p'", Raw),
    ("'p' = s", Raw),
    ("s IN ('p', 'q')", Raw),
    ("s IN ('p', 'r')", Enforced),
    ("s <> 'p'", Enforced),
    ("s > 'p'", Enforced),
    // Dates beyond those that functions can handle become NULL.
    ("d < DATE '2024-06-01'", Both),
    ("d BETWEEN DATE '2024-03-01' AND DATE '2024-06-01'", Both),
    ("s = 'q' AND a > 2", Raw),
    ("s = 'q' OR a > 2", Enforced),
];

#[tokio::test]
async fn conditions_mean_the_same_on_raw_columns() {
    let mut dice = Dice(7);
    let state = single_partition();
    let world = world(Unit::Row);
    let from = [
        "FROM t",
        "FROM (SELECT d, s, x, a, b FROM t) q",
        "FROM (SELECT d, s, x, a, b FROM t WHERE a <> 7) q",
    ];
    for round in 0..4 {
        world.swap.set(vec![rows(&mut dice, 60)]);
        for (condition, columns) in CONDITIONS {
            let from = from[round % from.len()];
            let release = "LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) SUM(CLAMP(b, -4, 9)) AS m";
            let bare = format!("SELECT {release} {from} WHERE {condition}");
            let opaque = format!("SELECT {release} {from} WHERE ({condition}) IS TRUE");
            assert_eq!(compared(&bare, &world), columns, "{bare}");
            assert_eq!(compared(&opaque, &world), Enforced, "{opaque}");
            let (bare_sums, opaque_sums) =
                (sums(&bare, &world, &state).await, sums(&opaque, &world, &state).await);
            assert_eq!(bare_sums, opaque_sums, "{bare}");
        }
    }
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
