//! Maps the key and the unit of each row to small numbers.

pub(super) mod dense_keys;
pub(super) mod discovered_keys;
pub(super) mod key_space;
pub(super) mod unit_codes;
