//! Shrinks a history that breaks a promise, as long as the same promise is broken.
//!
//! In: events, and a way to live through them. Out: events of which none can be left out.

use crate::history::Event;
use crate::known::Broken;

/// The shortest history that was found, with what it breaks.
pub fn shrink(
    events: Vec<Event>,
    first: Broken,
    mut lives: impl FnMut(&[Event]) -> Result<(), Broken>,
) -> (Vec<Event>, Broken) {
    let (mut events, mut broken) = (events, first);
    let mut is_shorter = true;
    while is_shorter {
        is_shorter = false;
        for at in (0..events.len()).rev() {
            let mut fewer = events.clone();
            fewer.remove(at);
            match lives(&fewer) {
                Err(again) if again.promise == broken.promise => {
                    (events, broken, is_shorter) = (fewer, again, true);
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    (events, broken)
}
