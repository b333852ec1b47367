//! The weight of each row: 1, or its share of its unit's total weight.
//!
//! In: the chunks of all partitions, which may have rows of the same unit. Out: the same rows, each
//! with a weight.
//!
//! ```text
//! g = 4: the unit 7 has 3 rows, the unit 8 one      weights ⌊16/3⌋ = 5, 5, 5 and 16
//! ```

use std::collections::HashMap;

use datafusion::common::{Result, internal_err};

use super::chunk::{Chunk, OF_A_NAME};
use super::column::ColumnCodes;
use hushql_privacy::synthetic::Sensitivity;

/// Rows as codes, with their weights in grid units.
#[derive(Debug)]
pub(super) struct Weighed {
    pub(super) rows: usize,
    pub(super) columns: Vec<ColumnCodes>,
    /// The weight of each row; `None` if each weighs 1.
    pub(super) weights: Option<Vec<i64>>,
}

/// The bytes that weighting takes in addition: a weight for each row, and a second copy of the
/// units' names.
pub(super) fn bytes(chunks: &[Chunk]) -> usize {
    let of = |chunk: &Chunk| {
        let weights = chunk.rows.saturating_add(chunk.names.len() * 2).saturating_mul(8);
        weights.saturating_add(chunk.names.len() * OF_A_NAME * 2).saturating_add(chunk.of_names)
    };
    chunks.iter().map(of).fold(0, usize::saturating_add)
}

/// Gives each row its weight.
///
/// # Guarantee
/// Under a sensitivity of persons, the rows of one unit weigh at most 2ᵍ together, and their
/// weights depend on that unit's own rows alone: the rows that are counted for the weights are the
/// rows that get them.
pub(super) fn weighed(
    chunks: Vec<Chunk>,
    sensitivity: Option<Sensitivity>,
) -> Result<Vec<Weighed>> {
    let Some(sensitivity) = sensitivity else {
        let plain = |Chunk { rows, columns, .. }| Weighed { rows, columns, weights: None };
        return Ok(chunks.into_iter().map(plain).collect());
    };
    let mut counts: HashMap<Box<[u8]>, u64> = HashMap::new();
    for chunk in &chunks {
        let mut own = vec![0_u64; chunk.names.len()];
        for unit in &chunk.units {
            match usize::try_from(*unit).ok().and_then(|unit| own.get_mut(unit)) {
                Some(count) => *count += 1,
                None => return internal_err!("every unit has a number"),
            }
        }
        for (name, number) in &chunk.names {
            let rows = usize::try_from(*number).ok().and_then(|number| own.get(number)).copied();
            let rows = rows.unwrap_or(0);
            match counts.get_mut(name) {
                Some(count) => *count += rows,
                None => {
                    counts.insert(name.clone(), rows);
                }
            }
        }
    }
    let mut all = Vec::with_capacity(chunks.len());
    for Chunk { rows, columns, units, names, of_names: _ } in chunks {
        let mut weights = vec![0_i64; names.len()];
        for (name, number) in names {
            let of_unit = counts.get(&name).copied().unwrap_or(0);
            if let Some(weight) = usize::try_from(number).ok().and_then(|n| weights.get_mut(n)) {
                *weight = sensitivity.weight(of_unit);
            }
        }
        let weight = |unit: &u32| {
            let at = usize::try_from(*unit).ok()?;
            weights.get(at).copied()
        };
        let weights: Option<Vec<i64>> = units.iter().map(weight).collect();
        match weights {
            Some(weights) if weights.len() == rows => {
                all.push(Weighed { rows, columns, weights: Some(weights) });
            }
            Some(_) | None => return internal_err!("every row has a unit"),
        }
    }
    Ok(all)
}
