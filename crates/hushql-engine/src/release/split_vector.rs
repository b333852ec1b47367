//! Numbers that would share a vector, although some of them were paid for before.
//!
//! In: a release, and which of its draws are replayed. Out: the same release, in which replayed
//! draws share no vector. A number that was drawn alone is recognised only alone. Without this
//! split, an AVG that was paid for would be paid for again as soon as someone asks for a COUNT
//! beside it.
//!
//! ```text
//! AVG(x) was paid for; AVG(x), COUNT(x) are asked for    drawn together: both are paid      apart: AVG is replayed, COUNT is paid
//! ```

use super::cost::OneDraw;
use super::mechanism::Mechanized;
use super::shared_vector::draw_together;
use crate::analysis::PrivateAggregate;

/// The mechanisms of a private aggregate with public groups, as each would be drawn alone.
#[derive(Debug)]
pub(super) struct SplitVector {
    alone: Vec<Mechanized>,
    allowed: OneDraw,
}

impl SplitVector {
    /// Lets measures share vectors. Returns how each would be drawn alone.
    pub(super) fn before_drawing_together(
        part: &PrivateAggregate,
        mechanized: &mut [Mechanized],
        allowed: OneDraw,
    ) -> Self {
        let alone = mechanized.to_vec();
        draw_together(part, mechanized, Vec::new(), &allowed);
        Self { alone, allowed }
    }

    /// Draws alone each number that would share a vector and is not replayed. Returns whether there
    /// was such a number.
    ///
    /// # Guarantee
    /// The charge of each number stays the same, and its noise is that of its own ε.
    pub(super) fn draw_apart(
        &self,
        mechanized: &mut [Mechanized],
        is_shown: impl Fn(usize) -> bool,
    ) -> bool {
        let mut any = false;
        for (at, (one, alone)) in mechanized.iter_mut().zip(&self.alone).enumerate() {
            if one.together.is_some() && !is_shown(at) {
                one.clone_from(alone);
                any = true;
            }
        }
        any
    }

    /// After [`SplitVector::draw_apart`]: draws numbers that are not replayed from shared vectors
    /// again, where this makes the error of each of them smaller.
    ///
    /// # Guarantee
    /// As that of [`draw_together`]. Replayed numbers stay as they were drawn.
    pub(super) fn draw_together_again(
        &self,
        part: &PrivateAggregate,
        mechanized: &mut [Mechanized],
        is_shown: impl Fn(usize) -> bool,
    ) {
        let shown = (0..mechanized.len()).filter(|at| is_shown(*at)).collect();
        draw_together(part, mechanized, shown, &self.allowed);
    }
}
