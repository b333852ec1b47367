//! The people behind numbers, under an owner's floor: what is claimed of their counts, and who is
//! counted.

use hushql_engine::analysis::{Input, PrivateAggregate};
use hushql_engine::exec::Exact;
use hushql_vault::catalog::{Budget, PerQuery, Replay, Unit};
use hushql_vault::ledger::Vault;

use super::{Seen, World, changes, check, on_a_deep_stack, query, run_in, world_of};
use hushql::privacy::Spend;

/// Units that no hostile table gives more rows than they may have, except under UNIQUE, where one
/// row of a unit is in one group anyway.
fn units() -> [Unit; 4] {
    let column = |max_rows, unique| Unit::Column { column: "id".to_owned(), max_rows, unique };
    [Unit::Row, column(None, true), column(Some(20), false), column(None, false)]
}

fn floored(unit: Unit) -> World {
    let budget = |vault: &Vault| {
        let per_query =
            PerQuery { default: Some(1_000_000_000), min_units: Some(2), ..PerQuery::default() };
        let budget = Budget {
            name: "b".to_owned(),
            table: "t".to_owned(),
            limit: Spend::of_epsilon(1_000_000_000_000, 500_000_000_000_000_000),
            promise: None,
            coupon: None,
            per_query,
            replay: Replay::Off,
        };
        vault.create_budget(&budget).unwrap();
    };
    world_of(unit, budget)
}

/// The claims of all measures, and: whoever changes a number is counted behind it, once; whoever is
/// counted behind a number of rows changes it.
fn check_people(sql: &str, part: &PrivateAggregate, full: &[Exact], without: &[Exact]) -> f64 {
    let tightest = check(sql, part, full, without);
    let floor = part.people_floor().unwrap_or_else(|| panic!("{sql}: no floor"));
    if part.unknown_partitions().is_some() {
        return tightest;
    }
    let moved = |at: usize| match (&full[at], &without[at]) {
        (Exact::Vectors(full), Exact::Vectors(without)) => changes(full, without),
        other => panic!("{sql}: {other:?}"),
    };
    for number in 0..part.measures().len() {
        assert!(floor.is_count(number) || floor.count_of(number).is_some(), "{sql}: {number}");
    }
    for count in &floor.counts {
        let people = moved(count.measure).remove(0);
        assert!(people.iter().all(|n| [0, 1].contains(n)), "{sql}: {people:?}");
        for number in &count.of {
            let measure = &part.measures()[*number];
            let counts = matches!(measure.input, Input::Rows | Input::Values(_) | Input::Units);
            for vector in moved(*number) {
                for (key, (change, person)) in vector.iter().zip(&people).enumerate() {
                    assert!(*change == 0 || *person == 1, "{sql}: key {key} of {measure:?}");
                    assert!(!counts || *person == 0 || *change > 0, "{sql}: key {key}");
                }
            }
        }
    }
    tightest
}

/// Random queries under a floor, with a seed of the day: see [`check_people`]. Most are refused.
#[test]
#[ignore = "long: minutes"]
fn numbers_under_a_floor_have_their_people_counted() {
    let seed = crate::seed::seed(0xf1_00_12);
    let seen: Seen = on_a_deep_stack(move || async move {
        run_in(units().map(floored).into(), seed, (50, 20_000), 8, query, check_people).await
    });
    seen.report();
}
