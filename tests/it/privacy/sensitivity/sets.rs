//! The sets of ROLLUP, CUBE and GROUPING SETS: what a unit changes in all of them together is
//! within what was written.
//!
//! Each query has one Laplace release of eps=1. Its sets are parts of their own, and the loss of a
//! pair of neighbours is, added up over all parts, Δ₁ over the scale of the part's noise. It may
//! not exceed 1, exactly.

use hushql::privacy::Rational;
use hushql_engine::analysis::ReleaseKind;
use hushql_engine::exec::Exact;
use hushql_engine::release::{Mechanism, choose};

use super::{
    Dice, ExactSums, World, analyzed, changes, neighbours, rows, single_partition, units, world,
};

/// The loss of one pair in all parts of a query.
async fn loss(sql: &str, world: &World, seed: u64, pairs: usize) -> Option<(usize, Rational)> {
    let analysis = analyzed(sql, world)?;
    let parts = analysis.parts().len();
    let release = choose(analysis, &world.catalog).ok()?;
    let state = single_partition();
    let mut dice = Dice(seed);
    let mut plans = Vec::new();
    for part in release.analysis().parts() {
        plans.push(ExactSums::plan(part, &state, [seed, 2, 3, 4]).await.unwrap());
    }
    let mut most = Rational::from_integer(0.into());
    for _ in 0..pairs {
        let n = 1 + dice.below(10);
        let batch = rows(&mut dice, n);
        let mut all: Vec<Vec<Vec<Exact>>> = Vec::new();
        let others = neighbours(&batch, &world.unit);
        for table in std::iter::once(batch).chain(others) {
            world.swap.set(vec![table]);
            let mut one = Vec::new();
            for plan in &plans {
                one.push(plan.run(&state, 1).await.unwrap_or_else(|e| panic!("{sql}\n{e}")));
            }
            all.push(one);
        }
        let (full, others) = all.split_first().unwrap();
        for without in others {
            let mut sum = Rational::from_integer(0.into());
            for (i, part) in release.analysis().parts().iter().enumerate() {
                for (m, measure) in part.measures().iter().enumerate() {
                    assert!(matches!(measure.release_kind, ReleaseKind::Number(_)), "{sql}");
                    let Mechanism::Laplace(noise) = &release.mechanisms(i)[m].mechanism else {
                        panic!("Laplace noise: {sql}")
                    };
                    let (Exact::Vectors(full), Exact::Vectors(without)) =
                        (&full[i][m], &without[i][m])
                    else {
                        panic!("numbers: {sql}")
                    };
                    let changes = changes(full, without);
                    let l1: u128 = changes.iter().flatten().map(|c| c.unsigned_abs()).sum();
                    sum += Rational::from_integer(l1.into()) / noise.scale();
                }
            }
            assert!(sum <= Rational::from_integer(1.into()), "{sql}\n{sum} is more than 1");
            most = most.max(sum);
        }
    }
    Some((parts, most))
}

#[tokio::test]
async fn all_sets_together_lose_what_was_written() {
    const GROUPS: [(&str, usize); 9] = [
        ("ROLLUP (s, f)", 3),
        ("CUBE (s, f)", 4),
        ("f, ROLLUP (s)", 2),
        ("GROUPING SETS ((s), (f, s), (s), (s, f), ())", 3),
        ("CUBE (s, f, i4)", 8),
        ("ROLLUP (c KEYS ('p', NULL), s)", 3),
        ("GROUPING SETS ((f), (f))", 1),
        ("GROUPING SETS (ROLLUP (s, f), (i4))", 4),
        // What is computed from the drawn numbers changes nothing.
        ("ROLLUP (CASE WHEN a > 3 THEN 'high' ELSE 'low' END) CONSISTENT NONNEGATIVE INTEGER", 2),
    ];
    const CALLS: [&str; 4] =
        ["COUNT(*)", "SUM(CLAMP(b, -2, 3))", "COUNT(DISTINCT id)", "SUM(a) FILTER (WHERE f)"];
    let worlds = units().map(world);
    let (mut asked, mut near) = (0, 0);
    for (i, world) in worlds.iter().enumerate() {
        for (group, sets) in GROUPS {
            for (j, call) in CALLS.iter().enumerate() {
                for bounds in ["", ", rows=2, groups=2"] {
                    let sql = format!(
                        "SELECT LAPLACE(eps=1{bounds}) {call} AS n FROM t GROUP BY {group}"
                    );
                    let seed = (100 * i + j) as u64;
                    let Some((parts, most)) = loss(&sql, world, seed, 3).await else { continue };
                    assert_eq!(parts, sets, "{sql}");
                    asked += 1;
                    near += usize::from(
                        most * Rational::from_integer(2.into()) >= Rational::from_integer(1.into()),
                    );
                }
            }
        }
    }
    println!("{asked} queries, {near} near what was written");
    assert!(asked > 100 && near * 4 > asked, "{asked} asked, {near} near");
}
