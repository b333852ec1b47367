//! Every table of a few rows, in every order, under every combination of small bounds.
//!
//! A row is of one of two units, has one of two keys, and a value below the range of the sums or
//! one above it: eight kinds of rows. The tables are all sequences of up to so many rows. A bound
//! on the rows of a unit in all, in one group, and on its groups is 1, 2 or none: 27 combinations,
//! each on five aggregates. So these claims hold of all inputs of this size, and not of a sample.

use std::collections::HashMap;

use super::*;

const KINDS: usize = 8;

/// The unit of a row of this kind.
fn unit(kind: usize) -> i64 {
    if kind & 1 == 0 { 1 } else { 2 }
}

fn row(kind: usize) -> Row {
    Row {
        unit: Some(unit(kind)),
        key: Some(if kind & 2 == 0 { "a" } else { "b" }),
        number: None,
        flag: Some(true),
        integer: Some(if kind & 4 == 0 { -9 } else { 4 }),
        float: None,
        decimal: None,
    }
}

/// Five aggregates under each combination of bounds.
fn every_input() -> Vec<AggregateInput> {
    let (column, filter, grid, lo, hi) = (INTEGER, None, Grid::Integer, -2, 3);
    let bounds = [None, Some(1), Some(2)];
    let mut inputs = Vec::new();
    for (total, per_partition, l0) in bounds.into_iter().flat_map(|total| {
        bounds.into_iter().flat_map(move |rows| bounds.map(|groups| (total, rows, groups)))
    }) {
        let limits = EnforcedBounds { total, per_partition, l0 };
        let kinds = [
            InputKind::CountRows { filter },
            InputKind::CountUnits { filter },
            InputKind::Sum { column, filter, grid, lo, hi },
            InputKind::Mean { column, filter, grid, lo, hi },
            InputKind::Moments { column, filter, grid, lo, hi, shift: 0 },
        ];
        inputs.extend(kinds.map(|kind| AggregateInput::new(kind, limits)));
    }
    inputs
}

/// Holds all tables of up to `most` rows to what is claimed. Returns their number.
async fn hold_all_tables(most: usize) -> usize {
    let inputs = every_input();
    let space = KeySpace::new(&[Arc::new(StringArray::from(vec!["a", "b"]))]).unwrap();
    let mut known: HashMap<Vec<usize>, Vec<Vec<i128>>> = HashMap::new();
    let (mut full, mut full_range) = (0, 0);
    let mut tables: Vec<Vec<usize>> = vec![Vec::new()];
    for length in 0..=most {
        for table in &tables {
            let rows: Vec<Row> = table.iter().map(|kind| row(*kind)).collect();
            let plan = source(&[vec![batch(&rows, &DataType::Int64)]]);
            let got = bounded(plan, (&[KEY], &space, 2), &inputs).await;
            // The order of rows changes nothing. The ordered table comes first.
            let mut ordered = table.clone();
            ordered.sort_unstable();
            if ordered != *table {
                assert_eq!(got, known[&ordered], "{table:?}");
            }
            for gone in [1, 2] {
                let rest: Vec<usize> =
                    table.iter().copied().filter(|kind| unit(*kind) != gone).collect();
                if rest.len() < table.len() {
                    let reached = check_claims(&got, &known[&rest], &inputs);
                    full += reached.0;
                    full_range += reached.1;
                }
            }
            known.insert(table.clone(), got);
        }
        if length < most {
            let longer = |table: &Vec<usize>| {
                let table = table.clone();
                (0..KINDS).map(move |kind| [table.as_slice(), &[kind]].concat())
            };
            tables = tables.iter().flat_map(longer).collect();
        }
    }
    // The bounds are reached, and not only kept.
    assert!(full > 1_000 && full_range > 1_000, "{full} {full_range}");
    known.len()
}

#[tokio::test]
async fn every_table_of_three_rows_keeps_what_is_claimed() {
    assert_eq!(hold_all_tables(3).await, 1 + 8 + 64 + 512);
}

#[tokio::test]
#[ignore = "long: minutes"]
async fn every_table_of_five_rows_keeps_what_is_claimed() {
    assert_eq!(hold_all_tables(5).await, 1 + 8 + 64 + 512 + 4_096 + 32_768);
}
