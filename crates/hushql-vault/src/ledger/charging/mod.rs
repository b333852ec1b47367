//! Charges: the comparison with budgets, the queue for the vault, and the moves of charges with
//! tables.

pub(crate) mod carried;
pub(crate) mod cells;
pub(crate) mod charge;
pub(crate) mod moves;
pub(crate) mod queue;
pub(crate) mod slices;
