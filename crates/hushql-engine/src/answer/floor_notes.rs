//! The notes on numbers and groups that an owner's floor of people hides.
//!
//! In: a release. Out: one sentence for each count that decides. It follows from the statement and
//! the declarations, and does not tell whether anything is hidden.

use crate::release::Release;
use crate::release::people_limits::PeopleLimit;

/// The notes on a private aggregate.
pub(super) fn floor_notes(release: &Release, at: usize) -> Vec<String> {
    let Some(part) = release.analysis().parts().get(at) else { return Vec::new() };
    let Some(own) = part.people_floor() else { return Vec::new() };
    let numbers = release.people_limits(at).iter().map(|limit| {
        let PeopleLimit { at_least, floor, .. } = limit;
        format!(
            "{}: NULL where a noisy count of the people behind it is below {at_least}; {} sets a floor of {} people",
            limit.numbers(part).join(", "),
            floor.set_by,
            floor.floor.people
        )
    });
    let mut notes: Vec<String> = numbers.collect();
    if release.analysis().has_hidden_first(at) {
        notes.push(
            "numbers that the floor hides are NULL and come first in this order: write NULLS LAST behind DESC"
                .to_owned(),
        );
    }
    let largest = own.floors.iter().max_by_key(|own| own.floor.people);
    if let (Some(_), Some(floor)) = (part.unknown_partitions(), largest) {
        notes.push(format!(
            "{} sets a floor of {} people: groups of fewer are hidden",
            floor.set_by, floor.floor.people
        ));
    }
    notes
}
