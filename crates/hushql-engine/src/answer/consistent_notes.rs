//! The notes of an answer about numbers that are made consistent.

use crate::release::Release;

/// One note for each hierarchy of consistent numbers.
pub(crate) fn consistent_notes(release: &Release) -> Vec<String> {
    let parts = release.analysis().parts();
    let mut notes = Vec::new();
    let mut known = Vec::new();
    for fit in release.fits() {
        let Some(top) = fit.levels.first() else { continue };
        let Some(part) = parts.get(top.part) else { continue };
        let Some(measure) = part.measures().get(top.measure) else { continue };
        let shape = match (fit.shape.nonnegative, fit.shape.integer) {
            (false, false) => "",
            (true, false) => ", and none is below 0",
            (false, true) => ", and all are whole",
            (true, true) => ", all are whole and none is below 0",
        };
        notes.push(format!(
            "{}: made consistent from the noisy numbers of all sets: each group is the sum of those below it{shape}",
            measure.clause.text
        ));
        if known.contains(&top.part) {
            continue;
        }
        known.push(top.part);
        let left = part.measures().iter().filter(|one| one.clause.consistent.is_none());
        notes.extend(left.map(|one| {
            let text = &one.clause.text;
            format!("{text}: left as it was drawn, because that of a group is not the sum of those of smaller groups")
        }));
    }
    notes
}
