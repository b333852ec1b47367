//! Remembers what was found for the texts of one column, by their views.
//!
//! In: the views of a column, and a search. Out: what the search found for each text. A column that was stored as a
//! dictionary has one view for each distinct text, so that most texts are neither hashed nor compared. Equal views are
//! equal texts within one column only. It guarantees the result of the search for every text.
//!
//! ```text
//! let mut seen = Seen::new(false);
//! column.views().iter().enumerate().map(|(row, view)| seen.of(*view, || texts.contains(column.value(row))))
//! ```

/// The number of remembered views: a power of two, small enough for the processor's cache.
const SEEN: usize = 1 << 10;

/// No view is this one: its text would be longer than a column can hold.
const NO_VIEW: u128 = u128::MAX;

/// What was found for the views of one column.
pub(crate) struct Seen<T>(Vec<(u128, T)>);

impl<T: Copy> Seen<T> {
    /// Nothing is found yet; `any` fills the places and is never a result.
    pub(crate) fn new(any: T) -> Self {
        Self(vec![(NO_VIEW, any); SEEN])
    }

    /// What the search finds for the text of this view.
    pub(crate) fn of(&mut self, view: u128, find: impl FnOnce() -> T) -> T {
        let folded = (view ^ (view >> 64)) & u128::from(u64::MAX);
        // The golden ratio in 64 bits; the middle of the product depends on all bits.
        let mixed = (folded * 0x9e37_79b9_7f4a_7c15) >> 54 & 0x3ff;
        let slot = &mut self.0[usize::try_from(mixed).unwrap_or(0)];
        if slot.0 != view {
            *slot = (view, find());
        }
        slot.1
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_VIEW, SEEN, Seen};

    #[test]
    fn every_view_has_its_own_result() {
        let mut seen = Seen::new(0);
        let views: Vec<u128> =
            (0..4_000).map(|i| i * ((1 << 64) + 3)).chain([NO_VIEW - 1]).collect();
        let mut searches = 0;
        for _ in 0..3 {
            for view in views.iter().flat_map(|view| [view, view]) {
                let found = seen.of(*view, || {
                    searches += 1;
                    view.wrapping_mul(7)
                });
                assert_eq!(found, view.wrapping_mul(7));
            }
        }
        // A view is searched once in a row at most, and few of them are remembered all the time.
        assert!(searches <= 3 * views.len() && searches > 2 * (views.len() - SEEN), "{searches}");
        let mut few = Seen::new(0);
        let mut searches = 0;
        for view in (0..1_000).map(|i| i % 5) {
            few.of(view, || {
                searches += 1;
                1
            });
        }
        assert!(searches <= 10, "{searches}");
    }
}
