//! The exact integers, in the form that the mechanisms take.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{DataFusionError, Result, internal_err};

use crate::grid::failed;

/// The exact integers of a bounded input.
#[derive(Debug, Clone, PartialEq)]
pub enum Gathered {
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

/// The integers at the places of an axis, in the narrowest form that all of them fit.
#[derive(Debug, Clone, PartialEq)]
pub enum Histogram {
    /// All of them fit 32 bits.
    Small(Points<u32, i32>),
    /// All of them fit 64 bits.
    Narrow(Points<u64, i64>),
    /// Integers of up to 128 bits.
    Wide(Points<u64, i128>),
}

/// Places and their integers.
type Points<P, T> = Vec<(P, T)>;

impl Default for Histogram {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Histogram {
    /// Adds an integer at a place.
    pub fn push(&mut self, place: u64, value: i128) {
        while !self.has_pushed(place, value) {
            self.widen();
        }
    }

    /// Adds integers at places, as [`Histogram::push`] adds each.
    ///
    /// # Errors
    /// An error with a constant text for a place below the axis.
    pub fn extend(&mut self, mut places: &[i64], mut values: &[i64]) -> Result<()> {
        loop {
            let taken = match self {
                Self::Small(points) => extend(points, places, values),
                Self::Narrow(points) => extend(points, places, values),
                Self::Wide(points) => extend(points, places, values),
            };
            (places, values) = (&places[taken..], &values[taken..]);
            if places.is_empty() {
                return Ok(());
            }
            if matches!(self, Self::Wide(_)) {
                return Err(failed());
            }
            self.widen();
        }
    }

    /// Adds an integer at a place if both fit. In the widest form, all do.
    fn has_pushed(&mut self, place: u64, value: i128) -> bool {
        match self {
            Self::Small(points) => push(points, place, value),
            Self::Narrow(points) => push(points, place, value),
            Self::Wide(points) => push(points, place, value),
        }
    }

    /// Changes to the next wider form.
    fn widen(&mut self) {
        *self = match self {
            Self::Small(points) => Self::Narrow(widened(points)),
            Self::Narrow(points) => Self::Wide(widened(points)),
            Self::Wide(points) => Self::Wide(std::mem::take(points)),
        }
    }

    /// Its places in ascending order; the integers of equal places, from several partitions, are
    /// added up.
    ///
    /// # Errors
    /// An error with a constant text if a sum does not fit 128 bits.
    pub fn merged(mut self) -> Result<Self> {
        loop {
            let is_merged = match &mut self {
                Self::Small(points) => merge(points, i32::checked_add),
                Self::Narrow(points) => merge(points, i64::checked_add),
                Self::Wide(points) => {
                    merge(points, i128::checked_add).then_some(true).ok_or_else(failed)?
                }
            };
            if is_merged {
                return Ok(self);
            }
            self.widen();
        }
    }

    /// The places and their integers.
    pub fn points(&self) -> Cow<'_, [(u64, i128)]> {
        match self {
            Self::Small(points) => Cow::Owned(widened(points)),
            Self::Narrow(points) => Cow::Owned(widened(points)),
            Self::Wide(points) => Cow::Borrowed(points),
        }
    }
}

fn push<P: TryFrom<u64>, T: TryFrom<i128>>(
    points: &mut Points<P, T>,
    place: u64,
    value: i128,
) -> bool {
    let (Ok(place), Ok(value)) = (place.try_into(), value.try_into()) else { return false };
    points.push((place, value));
    true
}

/// Adds points as long as they fit, and returns their number.
fn extend<P: TryFrom<i64>, T: TryFrom<i64>>(
    points: &mut Points<P, T>,
    places: &[i64],
    values: &[i64],
) -> usize {
    let known = points.len();
    points.reserve(places.len());
    let point =
        |(place, value): (&i64, &i64)| Some((P::try_from(*place).ok()?, T::try_from(*value).ok()?));
    points.extend(places.iter().zip(values).map_while(point));
    points.len() - known
}

fn widened<P: Copy + Into<u64>, T: Copy, W: From<T>>(points: &[(P, T)]) -> Points<u64, W> {
    points.iter().map(|(place, value)| ((*place).into(), W::from(*value))).collect()
}

/// Sorts the places, and merges equal ones. False if a sum does not fit; then some places occur
/// more than once, and the integers of each still add up to the same sum.
fn merge<P: Copy + Ord, T: Copy>(
    points: &mut Points<P, T>,
    sum: impl Fn(T, T) -> Option<T>,
) -> bool {
    // The places of each partition are already sorted, which a stable sort uses.
    points.sort_by_key(|(place, _)| *place);
    let mut merged = 0;
    for at in 0..points.len() {
        let (place, value) = points[at];
        if merged == 0 || points[merged - 1].0 != place {
            points[merged] = (place, value);
            merged += 1;
            continue;
        }
        let Some(both) = sum(points[merged - 1].1, value) else {
            points.drain(merged..at);
            return false;
        };
        points[merged - 1].1 = both;
    }
    points.truncate(merged);
    true
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
        let (near, far, most) = (i128::from(i32::MAX), i128::from(i64::MAX), i128::MAX);
        for (points, sums) in [
            (vec![], vec![]),
            (vec![(3, 1), (1, 2), (3, -4), (2, 0)], vec![(1, 2), (2, 0), (3, -3)]),
            // A sum beyond 64 bits, a summand beyond 64 bits, and a sum that gets small again.
            (vec![(5, far), (4, 1), (5, far)], vec![(4, 1), (5, 2 * far)]),
            (vec![(5, far + 1), (5, -2), (0, 7)], vec![(0, 7), (5, far - 1)]),
            (vec![(5, far), (5, 1), (5, -1)], vec![(5, far)]),
            (vec![(9, most), (8, 1)], vec![(8, 1), (9, most)]),
            // The same at 32 bits, and a place beyond them.
            (vec![(5, near), (4, 1), (5, near)], vec![(4, 1), (5, 2 * near)]),
            (vec![(5, -near), (4, 1), (5, near)], vec![(4, 1), (5, 0)]),
            (vec![(5, near + 1), (5, -2), (0, 7)], vec![(0, 7), (5, near - 1)]),
            (vec![(1 << 32, 3), (0, 7), (1 << 32, 1)], vec![(0, 7), (1 << 32, 4)]),
            (
                vec![(7, 1), (2, 4), (5, near), (7, 1), (5, 1), (5, near), (2, 4), (9, 1), (5, 1)],
                vec![(2, 8), (5, 2 * near + 2), (7, 2), (9, 1)],
            ),
        ] {
            let mut histogram = Histogram::default();
            points.iter().for_each(|(place, value)| histogram.push(*place, *value));
            assert_eq!(histogram.merged().unwrap().points().to_vec(), sums, "{points:?}");
            let places: Vec<i64> = points.iter().map(|(place, _)| (*place).cast_signed()).collect();
            let values: Option<Vec<i64>> =
                points.iter().map(|(_, value)| i64::try_from(*value).ok()).collect();
            let Some(values) = values else { continue };
            let mut histogram = Histogram::default();
            histogram.extend(&places, &values).unwrap();
            assert_eq!(histogram.merged().unwrap().points().to_vec(), sums, "{points:?}");
        }
        assert!(Histogram::default().extend(&[3, -1], &[1, 1]).is_err());
        let mut histogram = Histogram::default();
        (0..2).for_each(|_| histogram.push(1, most));
        assert!(histogram.merged().is_err());
    }
}
