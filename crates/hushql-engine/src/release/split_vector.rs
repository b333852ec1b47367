//! Numbers that would be drawn together, where some of them were paid for before.
//!
//! In: a release, and what of it is shown again. Out: the same release, in which what is shown
//! again is drawn together with nothing. A number that was drawn alone is recognised alone: without
//! this, an AVG that was paid for would be paid for once more as soon as somebody asks for the
//! COUNT beside it.
//!
//! ```text
//! AVG(x) was paid for; AVG(x), COUNT(x) are asked for    drawn together: both are paid      apart: AVG is shown again, COUNT is paid
//! ```

use super::cost::OneDraw;
use super::mechanism::Mechanized;
use super::shared_vector::draw_together;
use crate::analysis::PrivateAggregate;

/// The mechanisms of a private aggregate with public groups, each drawn for itself.
#[derive(Debug)]
pub(super) struct SplitVector {
    alone: Vec<Mechanized>,
    allowed: OneDraw,
}

impl SplitVector {
    /// Lets measures be drawn together; the result is how they would be drawn alone.
    pub(super) fn before_drawing_together(
        part: &PrivateAggregate,
        mechanized: &mut [Mechanized],
        allowed: OneDraw,
    ) -> Self {
        let alone = mechanized.to_vec();
        draw_together(part, mechanized, Vec::new(), &allowed);
        Self { alone, allowed }
    }

    /// Draws each number alone that would be drawn together with others and is not shown again; the
    /// result is whether there was any.
    ///
    /// # Guarantee
    /// Each is charged what it was charged before, and its noise is that of its own ε.
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

    /// Draws numbers together where all of them err less, after [`SplitVector::draw_apart`]: those
    /// that are not shown again.
    ///
    /// # Guarantee
    /// That of [`draw_together`]; what is shown again stays as it was drawn.
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
