//! The errors of a setting on the rows of a stand-in.
//!
//! In: the rows, and the bounds and noise that a setting has. Out: how far the bounded numbers are
//! from the whole ones, the noise, and the groups that a threshold hides. The bounded numbers are
//! what the execution of the question would add up, without noise: a person's groups in the order
//! of a hash, and of a group with more rows than may count, that share of its sum.

use super::calibrated::{Calibrated, GroupThreshold, NoiseWidth, TunedAggregate};
use super::stand_in_rows::{StandInRows, TriedRow};
use crate::analysis::Compares;
use crate::explain::tuning_lines::SettingErrors;

/// What is added up for a group.
#[derive(Debug, Clone, Copy, Default)]
struct GroupSums {
    /// All rows, those with a value, and the sum of their values.
    rows: f64,
    count: f64,
    sum: f64,
    /// The same of what is kept.
    kept_rows: f64,
    kept_count: f64,
    kept_sum: f64,
    /// The people with kept rows.
    people: f64,
}

/// The errors of a setting: means over its groups.
///
/// # Guarantee
/// The bounds are those of the setting, as its release enforces them.
pub(super) fn errors_of(rows: &StandInRows, setting: &Calibrated) -> SettingErrors {
    let sums = bounded(rows, setting);
    let (mut bias, mut noise, mut error) = (0.0, 0.0, 0.0);
    let (mut shown, mut all, mut lost) = (0.0, 0.0, 0);
    for group in &sums {
        let Some((whole, cut, width)) = numbers(group, setting) else { continue };
        all += 1.0;
        if setting.threshold.is_some_and(|threshold| is_hidden(group, &threshold)) {
            lost += 1;
            error += whole.abs();
            continue;
        }
        shown += 1.0;
        bias += (cut - whole).abs();
        noise += width;
        error += (cut - whole).abs() + width;
    }
    let mean = |sum: f64, of: f64| if of > 0.0 { sum / of } else { 0.0 };
    SettingErrors {
        bias: mean(bias, shown),
        noise: mean(noise, shown),
        error: mean(error, all),
        lost,
        hides_all: all > 0.0 && shown == 0.0,
    }
}

/// The number of a group, the bounded one, and the half width of its noise. A group without values
/// has no mean.
fn numbers(group: &GroupSums, setting: &Calibrated) -> Option<(f64, f64, f64)> {
    let width = match setting.noise {
        NoiseWidth::Same(width) => width,
        NoiseWidth::OverCount(width) => width / group.kept_count,
    };
    match setting.counted {
        TunedAggregate::Rows => Some((group.rows, group.kept_rows, width)),
        TunedAggregate::Values => Some((group.count, group.kept_count, width)),
        TunedAggregate::Sum => Some((group.sum, group.kept_sum, width)),
        TunedAggregate::Mean if group.kept_count > 0.0 => {
            Some((group.sum / group.count, group.kept_sum / group.kept_count, width))
        }
        TunedAggregate::Mean => None,
    }
}

/// True if the exact number that is compared is below the threshold, so that noise shows the group
/// less than half of the time.
fn is_hidden(group: &GroupSums, threshold: &GroupThreshold) -> bool {
    let compared = match threshold.compares {
        Compares::Units => group.people,
        Compares::Rows => group.kept_rows,
        Compares::Values { .. } => group.kept_sum,
    };
    compared < threshold.at_least
}

/// The sums of all groups, with and without bounds.
fn bounded(rows: &StandInRows, setting: &Calibrated) -> Vec<GroupSums> {
    let mut sums = vec![GroupSums::default(); rows.groups()];
    let by_person = rows.rows().chunk_by(|a, b| rows.has_people() && a.person == b.person);
    for person in by_person {
        let groups: Vec<&[TriedRow]> = person.chunk_by(|a, b| a.group == b.group).collect();
        for group in &groups {
            if let Some(sums) = sums_of(&mut sums, group) {
                let [count, sum] = added_up(group, None);
                sums.rows += amount(group.len());
                sums.count += count;
                sums.sum += sum;
            }
        }
        // Rows that belong to no person are not bounded.
        let kept: Vec<(&[TriedRow], u64)> = match rows.has_people() {
            true => setting.bounds.keep(groups.into_iter(), |group| group.len()).collect(),
            false => groups.into_iter().map(|group| (group, u64::MAX)).collect(),
        };
        for (group, kept) in kept {
            let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(group.len());
            let Some(sums) = sums_of(&mut sums, group) else { continue };
            let [count, sum] = added_up(group, Some(setting.ends));
            let kept = amount(kept);
            let share = if kept < count { kept / count } else { 1.0 };
            sums.kept_rows += kept;
            sums.kept_count += count * share;
            sums.kept_sum += sum * share;
            sums.people += 1.0;
        }
    }
    sums
}

fn sums_of<'a>(sums: &'a mut [GroupSums], group: &[TriedRow]) -> Option<&'a mut GroupSums> {
    sums.get_mut(usize::try_from(group.first()?.group).ok()?)
}

/// The number of values, and their sum between these ends.
fn added_up(group: &[TriedRow], ends: Option<[f64; 2]>) -> [f64; 2] {
    let values = group.iter().map(|row| row.value).filter(|value| !value.is_nan());
    values.fold([0.0, 0.0], |[count, sum], value| {
        let value = ends.map_or(value, |[lo, hi]| value.max(lo).min(hi));
        [count + 1.0, sum + value]
    })
}

/// A number of rows.
fn amount(rows: usize) -> f64 {
    u32::try_from(rows).map_or(f64::INFINITY, f64::from)
}
