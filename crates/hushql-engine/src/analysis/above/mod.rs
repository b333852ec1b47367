//! The public plan above the releases.
//!
//! In: a query, and later its public plan, after its private aggregates have been cut out. Out: the
//! same plan in forms that the analysis understands (plain SQL selections, estimates from
//! randomized responses, aggregates whose bounds are found first). Nothing in it fails on released
//! values.
//!
//! ```text
//! SELECT status … ORDER BY COUNT(*) DESC LIMIT 1      plain_selection: a selection of one status
//! n / m, with m released                              null_on_failure: NULL where m is 0
//! date_trunc('mont', x)                               failing_calls: refused before the charge
//! JOIN (SELECT k … LIMIT 5) USING (k)                 joined_groups: the join moves above the aggregate
//! HAVING status = 'marid'                             never_met: refused, with the value that was probably meant
//! WITH DIFFERENTIAL_PRIVACY over released rows       nested_options: computed from them, free
//! q JOIN w ON q.k = w.k WHERE w.c = 'q'               unmatched_joins: refused, if no key and no row of w meet
//! ```

pub(crate) mod error_bars;
pub(crate) mod failing_calls;
mod findable;
pub(crate) mod implicit_bounds;
pub(crate) mod joined_groups;
pub(crate) mod nested_options;
pub(crate) mod never_met;
pub(crate) mod null_on_failure;
mod one_row;
pub(crate) mod origin;
pub(crate) mod plain_selection;
pub(crate) mod rr_count;
mod scaled_aggregates;
pub(crate) mod single_group;
pub(crate) mod unmatched_joins;
pub(crate) mod unranged;
