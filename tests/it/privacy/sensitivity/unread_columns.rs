//! Rules and rows: a column that no rule says is used, is not used.
//!
//! Random queries, under a rule for each column that forbids every use. A column is unread if the
//! query passes its rule. Then other values in all unread columns change no exact integer that the
//! mechanisms would be given. A column that the text does not name must be unread.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use hushql_engine::analysis::BindingRules;
use hushql_engine::exec::ExactSums;
use hushql_vault::catalog::{TableRules, Unit};

use super::{
    Dice, World, columns, give_values, on_a_deep_stack, rows, told, units, world, world_of,
};
use super::{groups, query, single_partition};

/// For each column, the rules that forbid all of its uses.
fn forbidding() -> Vec<(&'static str, BindingRules)> {
    let of = |name: &'static str| {
        let all = vec![name.to_owned()];
        let rules = TableRules { no_filter: all.clone(), join_only: all, ..TableRules::default() };
        let world = world_of(Unit::Row, |vault| vault.set_rules("t", None, Some(rules)).unwrap());
        (name, BindingRules::of(&world.catalog, "lab"))
    };
    columns().into_iter().map(|(name, ..)| of(name)).collect()
}

/// The words of a statement, in lower case.
fn words(sql: &str) -> BTreeSet<String> {
    let is_sign = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    sql.to_lowercase().split(is_sign).map(str::to_owned).collect()
}

/// The same rows, with other values in some columns.
fn with_others(dice: &mut Dice, batch: &RecordBatch, unread: &BTreeSet<&str>) -> RecordBatch {
    let fresh = rows(dice, batch.num_rows());
    let schema = batch.schema();
    let fields = schema.fields().iter().enumerate();
    let columns = fields.map(|(at, field)| {
        let from = if unread.contains(field.name().as_str()) { &fresh } else { batch };
        Arc::clone(from.column(at))
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
}

/// Checks a query; the result is the number of columns that it reads, `None` if it is refused.
async fn check(
    sql: &str,
    world: &World,
    rules: &[(&'static str, BindingRules)],
    dice: &mut Dice,
) -> Option<usize> {
    let analysis = told(sql, world)?.1?;
    let named = words(sql);
    let names_all = sql.contains("SELECT *") || sql.contains(".*") || sql.contains("NATURAL");
    let mut unread = BTreeSet::new();
    for (name, own) in rules {
        let passes = own.check_releases(&analysis, &world.catalog).is_ok();
        assert!(passes || names_all || named.contains(*name), "{sql}: {name} is not named");
        if passes && *name != "id" {
            unread.insert(*name);
        }
    }
    let state = single_partition();
    let hash = [dice.roll(), dice.roll(), dice.roll(), dice.roll()];
    give_values(&analysis, hash[0]);
    for part in analysis.parts() {
        let plan = ExactSums::plan(part, &state, hash).await.unwrap();
        for _ in 0..4 {
            let n = 1 + dice.below(12);
            let batch = rows(dice, n);
            world.swap.set(vec![batch.clone()]);
            let full = plan.run(&state, 1).await.unwrap();
            world.swap.set(vec![with_others(dice, &batch, &unread)]);
            let other = plan.run(&state, 1).await.unwrap();
            assert_eq!(full, other, "{sql}\nunread: {unread:?}");
        }
    }
    Some(rules.len() - unread.len())
}

async fn check_many(seed: u64, wanted: usize) -> usize {
    let (mut dice, rules) = (Dice(seed), forbidding());
    let worlds = units().map(world);
    let (mut answered, mut read) = (0, 0);
    for _ in 0..30 * wanted {
        let world = &worlds[dice.below(worlds.len())];
        let sql = match dice.one_in(3) {
            true => groups::grouped(&mut dice, &world.unit),
            false => query(&mut dice, &world.unit),
        };
        if let Some(own) = check(&sql, world, &rules, &mut dice).await {
            answered += 1;
            read += own;
        }
        if answered == wanted {
            break;
        }
    }
    assert_eq!(answered, wanted, "almost everything is refused");
    read
}

#[test]
fn columns_that_pass_a_rule_change_nothing() {
    let seed = crate::seed::seed(0x00_4e_ad);
    let read = on_a_deep_stack(move || async move { check_many(seed, 120).await });
    assert!(read > 300, "only {read} columns were read");
}

/// Rows that a window's order does not tell apart come in the order of what is read of them.
const TIES: [&str; 3] = [
    "SELECT LAPLACE(eps=1, rows=4) SUM(CLAMP(x, -7, 7)) AS r FROM (SELECT t.id, t.b, t.w, \
     LAST_VALUE(x) OVER (PARTITION BY id ORDER BY a ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) AS x \
     FROM t) q WHERE x NOT BETWEEN 0 AND 5",
    "SELECT LAPLACE(eps=1, rows=4) SUM(CLAMP(y, -7, 7)) AS r FROM (SELECT *, \
     ROW_NUMBER() OVER (PARTITION BY id ORDER BY id) AS nth FROM t) q WHERE nth = 1",
    "SELECT LAPLACE(eps=1, rows=4) COUNT(*) AS r FROM (SELECT q.*, \
     LAG(x, 2) OVER (PARTITION BY id ORDER BY h DESC) AS last FROM (SELECT t.*, \
     ROW_NUMBER() OVER (PARTITION BY id ORDER BY s) AS nth FROM t) q) r WHERE nth + last > 2",
];

#[test]
fn unread_columns_break_no_ties() {
    on_a_deep_stack(|| async {
        let (mut dice, rules) = (Dice(0x07_1e_55), forbidding());
        let worlds = units().map(world);
        for sql in TIES {
            let mut answered = 0;
            for world in &worlds {
                for _ in 0..4 {
                    answered += usize::from(check(sql, world, &rules, &mut dice).await.is_some());
                }
            }
            assert!(answered > 0, "{sql}");
        }
    });
}

#[test]
#[ignore = "long: minutes"]
fn columns_that_pass_a_rule_change_nothing_at_length() {
    for seed in 0..10 {
        let read = on_a_deep_stack(move || async move { check_many(seed, 1_000).await });
        assert!(read > 2_000, "only {read} columns were read");
    }
}
