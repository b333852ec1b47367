//! Scores of named candidates over columns of few values: their range is the most by which one row
//! changes two of them differently.

use super::*;

/// The scores, the range of each, and how many rows were tried; `None` where the range is that of
/// the score.
const SCORES: [(&str, u128, Option<usize>); 16] = [
    // Rows of a in 0..10, and NULL.
    ("t IN (2, 4, 6) BY SUM(ABS(a - t))", 4, Some(12)),
    ("t IN (2, 4, 6) BY SUM(a - t)", 4, Some(12)),
    ("t IN (0, 10) BY SUM(ABS(a - t))", 10, None),
    ("t IN (2, 4, 6) BY SUM(ABS(a - t)) FILTER (WHERE a > t)", 4, Some(12)),
    ("t IN (2, 4, 6) BY SUM(ABS(a - t)) FILTER (WHERE f)", 4, Some(36)),
    ("t IN (2, 3) BY SUM(CASE WHEN f THEN a * t ELSE a END)", 10, Some(36)),
    ("t IN (2, 3) BY SUM(a * t) FILTER (WHERE a < 4)", 3, Some(12)),
    ("t IN (2, 3) BY SUM(CLAMP(a, t, 9))", 1, Some(12)),
    ("t IN (7, 8) BY SUM(a % t)", 7, None),
    ("t IN (5, 50) BY SUM(i1 + t)", 45, Some(12)),
    ("t IN (1, 2) BY SUM(u2 * t - a)", 9, Some(108)),
    ("t IN (1, 2) BY COUNT(*) FILTER (WHERE a = t OR a > 2)", 1, None),
    ("t IN (1, 2) BY COUNT(*) FILTER (WHERE a > 2 OR t > 0)", 0, None),
    // Too many values, a column without a range, and arithmetic of floats.
    ("t IN (1, 2) BY SUM(CLAMP(b + t, 0, 9))", 0, None),
    ("t IN (1, 2) BY SUM(ABS(x - t))", 0, None),
    ("t IN (1, 2) BY SUM(CLAMP(CAST(a AS DOUBLE) / t, 0, 9))", 0, None),
];

fn choice_of(analysis: &Analysis) -> &Choice {
    analysis.parts()[0].measures()[0].choice().unwrap()
}

#[test]
fn scores_of_few_values_have_the_range_of_their_differences() {
    for (score, range, tried) in SCORES {
        let sql = format!("SELECT ARGMIN EXPONENTIAL(eps=1) {score} FROM t");
        let Some(analysis) = analyzed(&sql, &world(Unit::Row)) else {
            assert_eq!(range, 0, "{sql}");
            continue;
        };
        let choice = choice_of(&analysis);
        assert_eq!(choice.tried, tried, "{sql}");
        if range > 0 {
            assert_eq!(choice.range, range, "{sql}");
        }
        // The rows of a unit that has several are bounded score by score.
        for unit in units().into_iter().filter(|unit| *unit != Unit::Row) {
            if let Some(analysis) = analyzed(&sql, &world(unit)) {
                assert_eq!(choice_of(&analysis).tried, None, "{sql}");
            }
        }
    }
}

/// Each row of the domains, and rows beyond them, is added to an empty table and to a full one: no
/// two scores change more differently than is claimed, and some do so by as much.
#[tokio::test]
async fn no_row_changes_two_scores_more_differently() {
    let world = world(Unit::Row);
    let state = single_partition();
    for (score, _, tried) in SCORES {
        let sql = format!("SELECT ARGMIN EXPONENTIAL(eps=1) {score} FROM t");
        let Some(analysis) = analyzed(&sql, &world).filter(|_| tried.is_some()) else { continue };
        let part = &analysis.parts()[0];
        let plan = ExactSums::plan(part, &state, [1, 2, 3, 4]).await.unwrap();
        let mut most = 0;
        let mut dice = Dice(11);
        for before in [0, 7] {
            let others = rows(&mut dice, before);
            world.swap.set(vec![others.clone()]);
            let without = plan.run(&state, 1).await.unwrap();
            for one in single_rows() {
                world.swap.set(vec![concat_batches(&others.schema(), [&others, &one]).unwrap()]);
                let full = plan.run(&state, 1).await.unwrap();
                let (Exact::Vectors(full), Exact::Vectors(without)) = (&full[0], &without[0])
                else {
                    panic!("{sql}")
                };
                let changes: Vec<i128> = changes(full, without).into_iter().flatten().collect();
                let difference = changes.iter().max().unwrap() - changes.iter().min().unwrap();
                most = most.max(difference.unsigned_abs());
            }
        }
        let claimed = choice_of(&analysis).range;
        assert!(most <= claimed, "{sql}\n{most} is more than {claimed}");
        assert_eq!(most, claimed, "{sql}\nthe claim is sharp");
    }
}

/// Rows with each combination of values inside and just outside of the domains of the columns that
/// are scored.
fn single_rows() -> Vec<RecordBatch> {
    let mut dice = Dice(12);
    let mut all = Vec::new();
    for a in (-1..=11).map(Value::Int).chain([Value::Null]) {
        for other in [-4, 2, 7, 9].map(Value::Int).into_iter().chain([Value::Null]) {
            for flag in [Value::Int(0), Value::Int(1), Value::Null] {
                let drawn = rows(&mut dice, 1);
                let cells = columns().into_iter().zip(drawn.columns());
                let cells = cells.map(|((name, kind, data_type, _), drawn)| match name {
                    "a" => column(kind, [&a].into_iter(), &data_type),
                    "i1" | "u2" if name == "i1" || !matches!(other, Value::Int(-4)) => {
                        column(kind, [&other].into_iter(), &data_type)
                    }
                    "f" => column(kind, [&flag].into_iter(), &data_type),
                    _ => Arc::clone(drawn),
                });
                all.push(RecordBatch::try_new(schema(), cells.collect()).unwrap());
            }
        }
    }
    all
}
