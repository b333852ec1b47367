//! Remembers the results of a search for the texts of one column, by their views.
//!
//! In: the views of one column after the other, and a search. Out: the result of the search for
//! each text. If a column was stored as a dictionary, each distinct text has one view, so most
//! texts are neither hashed nor compared. Equal views mean equal texts only within one column. It
//! guarantees the result of the search for every text.
//!
//! ```text
//! let mut seen = ViewCache::of_one_column(false);
//! column.views().iter().enumerate().map(|(row, view)| seen.of(*view, || texts.contains(column.value(row))))
//! ```

/// The number of remembered views is two to this power: a thousand texts seldom share a slot, and
/// the processor's cache has room for them.
const BITS: u32 = 13;

/// The same for a single column, which has few rows: filling more slots first would take too long.
const FEW_BITS: u32 = 10;

/// The results for the views of one column.
pub(crate) struct ViewCache<T> {
    /// Empty until a column begins.
    found: Vec<CachedResult<T>>,
    /// The number of the column; 0 before the first column.
    column: u32,
    bits: u32,
    any: T,
}

#[derive(Clone, Copy)]
struct CachedResult<T> {
    view: u128,
    column: u32,
    result: T,
}

impl<T: Copy> ViewCache<T> {
    /// For columns that each [begin](Self::begin). `any` fills the slots, and is never a result.
    pub(crate) fn new(any: T) -> Self {
        Self { found: Vec::new(), column: 0, bits: BITS, any }
    }

    /// For a single column.
    pub(crate) fn of_one_column(any: T) -> Self {
        let mut seen = Self { bits: FEW_BITS, ..Self::new(any) };
        seen.begin();
        seen
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        self.found.capacity() * size_of::<CachedResult<T>>()
    }

    /// Begins the next column, whose views follow.
    pub(crate) fn begin(&mut self) {
        let nothing = CachedResult { view: 0, column: 0, result: self.any };
        self.column = self.column.wrapping_add(1);
        if self.found.is_empty() || self.column == 0 {
            self.found.clear();
            self.found.resize(1 << self.bits, nothing);
            self.column = 1;
        }
    }

    /// The result of the search for the text of this view. A column must have begun.
    pub(crate) fn of(&mut self, view: u128, find: impl FnOnce() -> T) -> T {
        // The position of a text in its buffer comes last, so that texts at even distances get
        // distant slots.
        let folded = halves_of(view).rotate_left(32);
        // The golden ratio in 64 bits.
        let mixed = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - self.bits);
        let own = usize::try_from(mixed).ok().and_then(|at| self.found.get_mut(at));
        let Some(own) = own else { return find() };
        if own.view != view || own.column != self.column {
            *own = CachedResult { view, column: self.column, result: find() };
        }
        own.result
    }
}

/// The two halves of a view, combined.
#[expect(clippy::cast_possible_truncation, reason = "each half fits")]
fn halves_of(view: u128) -> u64 {
    (view >> 64) as u64 ^ view as u64
}

#[cfg(test)]
mod tests {
    use super::{BITS, ViewCache};

    #[test]
    fn every_view_has_its_own_result() {
        let mut seen = ViewCache::new(0);
        seen.begin();
        let views: Vec<u128> =
            (0..20_000).map(|i| i * ((1 << 64) + 3)).chain([u128::MAX, u128::MAX - 1]).collect();
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
        // A run of one view is searched at most once, and only few views are remembered all the
        // time.
        assert!(
            searches <= 3 * views.len() && searches > 2 * (views.len() - (1 << BITS)),
            "{searches}"
        );
        let mut few = ViewCache::of_one_column(0);
        let mut searches = 0;
        for view in (0..1_000).map(|i| i % 5) {
            few.of(view, || {
                searches += 1;
                1
            });
        }
        assert!(searches <= 10, "{searches}");
    }

    /// A result in one column is not used for another, even if there are too many columns to
    /// number.
    #[test]
    fn a_view_is_another_text_in_another_column() {
        let mut seen = ViewCache::new(0);
        for round in 1..100 {
            seen.begin();
            if round == 50 {
                seen.column = u32::MAX;
            }
            for view in [0, 1, 7, 1 << 80] {
                assert_eq!([seen.of(view, || round), seen.of(view, || -1)], [round; 2]);
            }
        }
        assert_eq!(seen.column, 49);
    }

    /// Texts of a dictionary lie at even distances. Of a thousand, nearly all are remembered.
    #[test]
    fn a_thousand_texts_of_a_dictionary_are_remembered() {
        for length in [13_u128, 22, 23, 64, 100] {
            let mut seen = ViewCache::new(0);
            seen.begin();
            let mut searches = 0;
            for i in (0..20).flat_map(|_| 0..1_000) {
                // The parts of a view, from its last bits on: the length, the first four bytes, the
                // buffer, and the position in it.
                let view = length | 0x706f_6853 << 32 | (i * (length + 4)) << 96;
                seen.of(view, || {
                    searches += 1;
                    1
                });
            }
            assert!(searches < 5_000, "{length} {searches}");
        }
    }
}
