//! Which key and which unit each row has, as small numbers.

pub(super) mod dense_keys;
pub(super) mod discovered_keys;
pub(super) mod key_space;
pub(super) mod unit_codes;
