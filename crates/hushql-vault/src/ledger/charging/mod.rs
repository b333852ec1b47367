//! Charges: the comparison with budgets, the queue for the vault, and the moves of charges with
//! tables.

pub(crate) mod caps;
pub(crate) mod carried;
pub(crate) mod cell_charges;
pub(crate) mod charge;
pub(crate) mod month_accounts;
pub(crate) mod moves;
pub(crate) mod presence_accounts;
pub(crate) mod queue;
pub(crate) mod slice_shares;
