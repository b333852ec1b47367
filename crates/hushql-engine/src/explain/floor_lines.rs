//! The lines of an explanation about an owner's floor of people.
//!
//! In: the counts of people that decide which numbers are shown, and the threshold of unknown
//! groups. Out: lines of an explanation, and JSON: the floor, who set it, what it costs, and how
//! often half as many people are shown. Nothing here depends on rows.

use serde_json::{Value, json};

use crate::analysis::PrivateAggregate;
use crate::catalog::FloorOf;
use crate::explain::number_text::number;
use crate::release::exact_text::exact;
use crate::release::mechanism::Mechanism;
use crate::release::people_limits::{PeopleLimit, half_shown, people_noise};
use crate::release::{Release, loss_text};
use crate::visible::rounded;

/// The lines about the floors of a private aggregate.
pub(super) fn floor_lines(release: &Release, at: usize) -> Vec<(&'static str, String)> {
    let Some(part) = release.analysis().parts().get(at) else { return Vec::new() };
    let mut lines = Vec::new();
    for limit in release.people_limits(at) {
        let PeopleLimit { floor, at_least, .. } = limit;
        let people = floor.floor.people;
        let half = half_of(release, at, limit).map_or_else(String::new, |(half, shown)| {
            format!(", one of {half} with {} %", percent(shown))
        });
        let price = price(release, at, limit.count);
        lines.push((
            "floor",
            format!(
                "{people} people, set by {}: {} is NULL unless a noisy count of the people behind it is at least {at_least}; the count costs \
                 {price} of the price; a number of fewer than {people} people is shown with {} % at most{half}",
                floor.set_by,
                limit.numbers(part).join(", "),
                percent_of_beta(floor),
            ),
        ));
    }
    if let Some((floor, at_least, half)) = of_groups(release, at, part) {
        let people = floor.floor.people;
        let half = half.map_or_else(String::new, |(half, shown)| {
            format!("; one of {half} people comes out with {} %", percent(shown))
        });
        lines.push((
            "floor",
            format!(
                "{people} people, set by {}: groups of fewer people do not come out, except with the δ of the threshold, which is {at_least} = \
                 τ + {people} − 2 or more, at no further cost{half}",
                floor.set_by
            ),
        ));
    }
    lines
}

/// The floors of a private aggregate as JSON.
pub(super) fn floors_json(release: &Release, at: usize) -> Vec<Value> {
    let Some(part) = release.analysis().parts().get(at) else { return Vec::new() };
    let half_json = |half: Option<(u64, f64)>| {
        half.map(|(people, shown)| json!({ "people": people, "probability": shown }))
    };
    let numbers = release.people_limits(at).iter().map(|limit| {
        let loss = release.mechanisms(at).get(limit.count).map(|one| &one.loss);
        json!({
            "people": limit.floor.floor.people,
            "set_by": limit.floor.set_by,
            "beta": number(&limit.floor.floor.beta_text()),
            "decides": limit.numbers(part),
            "at_least": limit.at_least,
            "epsilon": loss.and_then(|loss| loss.epsilon()).map(|epsilon| number(&exact(epsilon))),
            "half": half_json(half_of(release, at, limit)),
        })
    });
    let mut all: Vec<Value> = numbers.collect();
    all.extend(of_groups(release, at, part).map(|(floor, at_least, half)| {
        json!({
            "people": floor.floor.people,
            "set_by": floor.set_by,
            "decides": "groups",
            "at_least": at_least,
            "half": half_json(half),
        })
    }));
    all
}

/// What a count costs.
fn price(release: &Release, at: usize, count: usize) -> String {
    let one = release.mechanisms(at).get(count);
    one.map_or_else(String::new, |one| loss_text(&one.loss, one.loss.epsilon().is_none()))
}

/// Half of a floor's people, and the probability that a number of them is shown.
type HalfShown = (u64, f64);

/// The same for a number.
fn half_of(release: &Release, at: usize, limit: &PeopleLimit) -> Option<HalfShown> {
    let noise = people_noise(&release.mechanisms(at).get(limit.count)?.mechanism)?;
    Some(half_shown(noise, limit.floor.floor.people, limit.at_least))
}

/// The floor of unknown groups, the least noisy number of people of a group that is shown, and how
/// often half of the floor comes out.
fn of_groups<'a>(
    release: &'a Release,
    at: usize,
    part: &'a PrivateAggregate,
) -> Option<(&'a FloorOf, u64, Option<HalfShown>)> {
    let hidden = release.partition_selection(at)?;
    let floors = &part.people_floor()?.floors;
    let floor = floors.iter().max_by_key(|own| own.floor.people)?;
    let counter = hidden.counter().and_then(|i| release.mechanisms(at).get(i));
    let noise: Option<&Mechanism> = hidden.noise().or(counter.map(|one| &one.mechanism));
    let half = noise.and_then(people_noise);
    let half = half.map(|noise| half_shown(noise, floor.floor.people, hidden.at_least()));
    Some((floor, hidden.at_least(), half))
}

fn percent_of_beta(floor: &FloorOf) -> String {
    percent(floor.floor.beta_text().parse().unwrap_or(1.0))
}

/// A probability in percent.
fn percent(probability: f64) -> String {
    rounded(probability * 100.0)
}
