//! Units that are one month of a person: no claim is exceeded when one month of one person goes,
//! whatever else this person has.

use chrono::{Datelike, NaiveDate};
use hushql_vault::catalog::Unit;

use super::{Check, Query, Seen, World, check, groups, on_a_deep_stack, query, run_in, world};

/// The months of dates in `d`, which has a domain, and of moments in `t0`, which has none.
fn worlds() -> Vec<World> {
    let unit = |date: &str, max_rows| Unit::Month {
        person: "id".to_owned(),
        date: date.to_owned(),
        max_rows,
    };
    vec![
        world(unit("d", None)),
        world(unit("d", Some(2))),
        world(unit("t0", Some(5))),
        world(unit("ts", None)),
    ]
}

/// The month in which a day since 1970 is; `None` beyond the years 1 to 9999.
pub(super) fn month_of(day: i64) -> Option<(i32, u32)> {
    let first = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
    let date = first.checked_add_signed(chrono::TimeDelta::try_days(day)?)?;
    (1..=9999).contains(&date.year()).then(|| (date.year(), date.month()))
}

fn runs(seed: u64, wanted: usize, pairs: usize) -> Seen {
    let mut seen = Seen::default();
    for (query, check) in [(query as Query, check as Check), (groups::grouped as Query, check)] {
        seen.add(on_a_deep_stack(move || async move {
            run_in(worlds(), seed, (wanted, 400 * wanted), pairs, query, check).await
        }));
    }
    seen
}

#[test]
fn claims_hold_where_one_month_of_a_person_goes() {
    let seen = runs(0x0031_u64, 14, 6);
    assert!(seen.pairs > 100, "{} pairs, {} tight", seen.pairs, seen.tight);
}

/// The same with many queries, and a seed of the day.
#[test]
#[ignore = "long: minutes"]
fn claims_hold_where_one_month_of_a_person_goes_at_length() {
    runs(crate::seed::seed(0x003e_u64), 1_000, 12).report();
}
