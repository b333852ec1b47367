//! Brings together what the readers of several partitions numbered each for itself.
//!
//! In: what was held of each partition. Out: the names of all units and keys, and the parts. Integers are units by their own
//! value, and listed keys have their places from the start. Other units, and keys of the data, were numbered in order of
//! arrival: each part but the first gets the numbers of all.
//!
//! ```text
//! part 0: a → 0, b → 1        all: a → 0, b → 1, c → 2
//! part 1: c → 0, a → 1        part 1 is renumbered: 0 → 2, 1 → 0
//! ```

use std::sync::Arc;

use arrow::row::Rows;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::columns::Columns;
use super::hold::{Held, Holder, Places};
use super::keys::{Located, OUTSIDE};
use super::partial::AggregateInput;
use super::task::Task;
use super::units::UnitNames;
use crate::grid::failed;

/// What is the same for all parts.
pub(super) struct Names {
    pub(super) task: Arc<Task>,
    pub(super) units: UnitNames,
    pub(super) keys: Located,
    /// See [`Located::names`].
    pub(super) of_keys: Option<Rows>,
}

/// What was held of one partition, and the memory that is reserved for it.
pub(super) struct Part {
    pub(super) held: Vec<Held>,
    pub(super) columns: Option<Columns>,
    pub(super) reservation: MemoryReservation,
    pub(super) bytes: usize,
    /// The new number of each unit and of each key, where they have one.
    units: Option<Vec<u64>>,
    keys: Option<Vec<u32>>,
}

/// Puts all parts together.
///
/// # Errors
/// A constant text if nothing was held, and for more keys than 32 bits can count.
pub(super) fn together(
    holders: Vec<(Holder, MemoryReservation)>,
) -> Result<(Arc<Names>, Vec<Part>)> {
    let (mut parts, mut all) = (Vec::new(), None);
    for (holder, reservation) in holders {
        let bytes = holder.size();
        let Holder { task, index, codes, held, columns, .. } = holder;
        let (units, keys) = match &mut all {
            None => {
                all = Some((task, index, codes));
                (None, None)
            }
            Some((_, all_keys, all_units)) => (all_units.absorb(codes)?, all_keys.absorb(index)?),
        };
        parts.push(Part { held, columns, reservation, bytes, units, keys });
    }
    let (task, index, codes) = all.ok_or_else(failed)?;
    let keys = index.finish()?;
    let bounded = task.inputs.iter().any(AggregateInput::is_bounded);
    let (units, of_keys) = (codes.finish(bounded)?, keys.names()?);
    Ok((Arc::new(Names { task, units, keys, of_keys }), parts))
}

impl Part {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.held.iter().map(|held| held.rows).sum()
    }

    /// Gives units and keys the numbers that they have in all parts.
    ///
    /// # Errors
    /// A constant text for one without a number.
    pub(super) fn renumber(&mut self, names: &Names) -> Result<()> {
        let (units, keys) = (self.units.take(), self.keys.take());
        let (mut codes, mut places) = (Vec::new(), Vec::new());
        if let Some(units) = &units {
            self.held.iter_mut().try_for_each(|held| held.units.renumber(units, &mut codes))?;
        }
        let Some(keys) = &keys else { return Ok(()) };
        for own in self.held.iter_mut().filter_map(|held| held.places.as_mut()) {
            own.read(&mut places);
            for place in places.iter_mut().filter(|place| **place != OUTSIDE) {
                *place = *keys.get(*place as usize).ok_or_else(failed)?;
            }
            *own = Places::new(&places, names.keys.len);
        }
        self.columns.iter_mut().try_for_each(|columns| columns.renumber(keys, names.keys.len))
    }
}
