//! Exact integers in the form that the mechanisms take.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{DataFusionError, Result, internal_err};

use crate::grid::failed;

/// The exact integers of a bounded input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Gathered {
    /// One vector for each column of integers, one entry for each key.
    Sums(Vec<Vec<i128>>),
    /// For every outer group, its places in ascending order, each once, with their integers.
    Places(Vec<Histogram>),
    /// The keys in the data, each once, with their integers.
    Keys {
        /// The keys; `None` if there are none.
        values: Option<ArrayRef>,
        /// Their integers.
        sums: Vec<i128>,
    },
    /// The groups that contain a unit of the data, each once, in the order of their keys.
    Groups {
        /// The key columns; empty if there are no groups.
        keys: Vec<ArrayRef>,
        /// One vector for each column of integers, one entry for each group.
        sums: Vec<Vec<i128>>,
    },
}

/// The integers at the places of an axis, in half the space where all of them fit 64 bits, as counts do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Histogram {
    Narrow(Vec<(u64, i64)>),
    Wide(Vec<(u64, i128)>),
}

impl Histogram {
    /// Adds an integer at a place.
    pub(crate) fn push(&mut self, place: u64, value: i128) {
        match self {
            Self::Narrow(points) => match i64::try_from(value) {
                Ok(value) => points.push((place, value)),
                Err(_) => {
                    let mut points = widened(points);
                    points.push((place, value));
                    *self = Self::Wide(points);
                }
            },
            Self::Wide(points) => points.push((place, value)),
        }
    }

    /// Its places in ascending order; the integers of equal places, from several partitions, are added up.
    ///
    /// # Errors
    /// A constant text if a sum does not fit 128 bits.
    pub(crate) fn merged(self) -> Result<Self> {
        match self {
            Self::Narrow(points) => match merged(points, i64::checked_add) {
                Ok(points) => Ok(Self::Narrow(points)),
                Err(points) => Self::Wide(widened(&points)).merged(),
            },
            Self::Wide(points) => {
                merged(points, i128::checked_add).map(Self::Wide).map_err(|_| failed())
            }
        }
    }

    /// The places and their integers.
    pub(crate) fn points(&self) -> Cow<'_, [(u64, i128)]> {
        match self {
            Self::Narrow(points) => Cow::Owned(widened(points)),
            Self::Wide(points) => Cow::Borrowed(points),
        }
    }
}

fn widened(points: &[(u64, i64)]) -> Vec<(u64, i128)> {
    points.iter().map(|(place, value)| (*place, i128::from(*value))).collect()
}

/// Integers at places.
type Points<T> = Vec<(u64, T)>;

/// The places in ascending order, each once; the places in order as they were, if a sum does not fit.
fn merged<T: Copy>(
    mut points: Points<T>,
    sum: impl Fn(T, T) -> Option<T>,
) -> std::result::Result<Points<T>, Points<T>> {
    // Each partition's places are in order already, which a stable sort makes use of.
    points.sort_by_key(|(place, _)| *place);
    let fits = points.chunk_by(|(a, _), (b, _)| a == b).all(|equal| {
        let values = equal.iter().map(|(_, value)| *value);
        values.map(Some).reduce(|a, b| sum(a?, b?)).flatten().is_some()
    });
    if !fits {
        return Err(points);
    }
    points.dedup_by(|other, first| {
        let same = other.0 == first.0;
        if same {
            first.1 = sum(first.1, other.1).unwrap_or(first.1);
        }
        same
    });
    Ok(points)
}

/// Visits a column of counts or raw sums; NULL is 0.
pub(crate) fn each_integer(
    column: &ArrayRef,
    mut visit: impl FnMut(usize, i128) -> Result<()>,
) -> Result<()> {
    match column.data_type() {
        DataType::Int64 => {
            for (row, value) in column.as_primitive::<Int64Type>().iter().enumerate() {
                visit(row, i128::from(value.unwrap_or(0)))?;
            }
        }
        DataType::Decimal128(..) => {
            for (row, value) in column.as_primitive::<Decimal128Type>().iter().enumerate() {
                visit(row, value.unwrap_or(0))?;
            }
        }
        _ => return internal_err!("a release reads counts and raw sums"),
    }
    Ok(())
}

pub(crate) fn add(entry: &mut i128, value: i128) -> Result<(), DataFusionError> {
    *entry = entry.checked_add(value).ok_or_else(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order and the size of the integers, each place has their sum.
    #[test]
    fn the_integers_of_a_place_are_added_up() {
        let (far, most) = (i128::from(i64::MAX), i128::MAX);
        for (points, sums) in [
            (vec![], vec![]),
            (vec![(3, 1), (1, 2), (3, -4), (2, 0)], vec![(1, 2), (2, 0), (3, -3)]),
            // A sum beyond 64 bits, a summand beyond, and one that comes back.
            (vec![(5, far), (4, 1), (5, far)], vec![(4, 1), (5, 2 * far)]),
            (vec![(5, far + 1), (5, -2), (0, 7)], vec![(0, 7), (5, far - 1)]),
            (vec![(5, far), (5, 1), (5, -1)], vec![(5, far)]),
            (vec![(9, most), (8, 1)], vec![(8, 1), (9, most)]),
        ] {
            let mut histogram = Histogram::Narrow(Vec::new());
            points.iter().for_each(|(place, value)| histogram.push(*place, *value));
            assert_eq!(histogram.merged().unwrap().points().to_vec(), sums, "{points:?}");
        }
        let mut histogram = Histogram::Narrow(Vec::new());
        (0..2).for_each(|_| histogram.push(1, most));
        assert!(histogram.merged().is_err());
    }
}
