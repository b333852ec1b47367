//! The histogram behind `ANALYZE PRIVACY DOMAIN` against brute force.
//!
//! Every column of numbers, every unit: one unit moves the counts by no more than was derived, and
//! each value is counted in the one bucket whose ends hold it.

use arrow::datatypes::{Float64Type, Int64Type};

use super::*;

fn question(column: &str, bounds: &str) -> String {
    format!("ANALYZE PRIVACY DOMAIN t({column}) WITH (eps=1{bounds})")
}

#[tokio::test]
async fn one_unit_moves_a_histogram_by_no_more_than_was_derived() {
    let mut dice = Dice(0xb0c3);
    let state = single_partition();
    let (mut asked, mut tight) = (0, 0);
    for world in units().map(world) {
        for column in ["a", "b", "x", "y", "m"] {
            for bounds in ["", ", rows=2", ", groups=1", ", rows=1, groups=3"] {
                let sql = question(column, bounds);
                let Some(analysis) = analyzed(&sql, &world) else { continue };
                let hash = [dice.roll(), dice.roll(), dice.roll(), dice.roll()];
                let plan = ExactSums::plan(&analysis.parts()[0], &state, hash).await.unwrap();
                let mut tightest = 0.0_f64;
                for _ in 0..6 {
                    let batch = rows(&mut dice, 16);
                    world.swap.set(vec![batch.clone()]);
                    let full = plan.run(&state, 1).await.unwrap();
                    for neighbour in neighbours(&batch, &world.unit) {
                        world.swap.set(vec![neighbour]);
                        let without = plan.run(&state, 1).await.unwrap();
                        tightest = tightest.max(check(&sql, &analysis.parts()[0], &full, &without));
                    }
                }
                asked += 1;
                tight += usize::from(tightest >= 0.5);
            }
        }
    }
    assert!(asked > 80 && tight * 2 > asked, "{tight} of {asked} came near their claim");
}

/// The counts of a column's buckets, and what they should be by the definition.
#[tokio::test]
async fn every_value_is_counted_in_its_own_bucket() {
    let mut dice = Dice(0xb0c4);
    let state = single_partition();
    let world = world(Unit::Row);
    for column in ["b", "y"] {
        let sql = question(column, "");
        let analysis = analyzed(&sql, &world).unwrap();
        let plan = ExactSums::plan(&analysis.parts()[0], &state, [1, 2, 3, 4]).await.unwrap();
        for _ in 0..5 {
            let batch = rows(&mut dice, 60);
            world.swap.set(vec![batch.clone()]);
            let counted = plan.run(&state, 1).await.unwrap();
            let [Exact::Vectors(counted)] = counted.as_slice() else { panic!("{counted:?}") };
            let counted: Vec<i128> = counted.iter().flatten().copied().collect();
            let mut wanted = vec![0; counted.len()];
            let values = batch.column_by_name(column).unwrap();
            if let Some(integers) = values.as_primitive_opt::<Int64Type>() {
                // 63 magnitudes below 0, 0 itself, 63 above; the least integer is with those of 63
                // bits.
                for v in integers.iter().flatten() {
                    let bits = i64::from((64 - v.unsigned_abs().leading_zeros()).min(63));
                    wanted[usize::try_from(63 + bits * v.signum()).unwrap()] += 1;
                }
                assert_eq!(counted.len(), 127);
            } else {
                for v in values.as_primitive::<Float64Type>().iter().flatten() {
                    let magnitude = (0..=97).find(|j| v.abs() < 2_f64.powi(j - 33)).unwrap_or(98);
                    let magnitude = i64::from(if v == 0.0 { 0 } else { magnitude.max(1) });
                    let sign = if v < 0.0 { -1 } else { 1 };
                    if !v.is_nan() {
                        wanted[usize::try_from(98 + sign * magnitude).unwrap()] += 1;
                    }
                }
                assert_eq!(counted.len(), 197);
            }
            assert_eq!(counted, wanted, "{column}");
        }
    }
}
