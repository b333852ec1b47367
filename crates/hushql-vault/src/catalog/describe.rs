//! Describes declarations in words, for everyone who may see them.
//!
//! In: tables, columns, budgets and views. Out: short texts, and for a whole catalog one text for
//! each declared object, so that two catalogs can be compared. No text names the location of a
//! file.
//!
//! ```text
//! table visits          private, unit patient max rows 4
//! column visits.age     between (0, 120)
//! budget study          for visits, limit ε = 2, δ = 0, default 0.1, at most ε = 1
//! ```

use std::collections::BTreeMap;

use hushql_privacy::privacy::{Notion, Spend};

use super::cell::Partition;
use super::{Budget, Catalog, Domain, PerQuery, Privacy, Replay, Slice, Source, Table, Unit, View};

/// The owner of the rows of a table, in words.
pub fn privacy_text(table: &Table) -> String {
    match &table.privacy {
        Privacy::Undeclared => "undeclared: every query is refused".to_owned(),
        Privacy::Public => match table.source {
            Source::Released { .. } => "release table".to_owned(),
            Source::File { .. } | Source::Postgres { .. } | Source::Registered => {
                "public".to_owned()
            }
        },
        Privacy::Private(unit) => format!("private, {}", unit_text(unit)),
    }
}

fn unit_text(unit: &Unit) -> String {
    match unit {
        Unit::Row => "unit row".to_owned(),
        Unit::Column { column, max_rows, unique } => {
            let unique = if *unique { " unique" } else { "" };
            let rows = max_rows.map_or(String::new(), |n| format!(" max rows {n}"));
            format!("unit {column}{unique}{rows}")
        }
        Unit::Month { person, date, max_rows } => {
            let rows = max_rows.map_or(String::new(), |n| format!(" max rows {n}"));
            format!("unit {person} per month of {date}{rows}")
        }
        Unit::Present { column, public } => {
            let with = match public.as_slice() {
                [] => String::new(),
                names => format!(" with {}", names.join(", ")),
            };
            format!("unit {column} unique, presence public{with}")
        }
        Unit::Via(link) => {
            let rows = link.max_rows.map_or(String::new(), |n| format!(" max rows {n}"));
            let (columns, references) = (link.columns.join(", "), link.references.join(", "));
            format!("unit via ({columns}) references {}({references}){rows}", link.table)
        }
    }
}

/// The values that a column may take, in words.
pub fn domain_text(domain: &Domain) -> String {
    match domain {
        Domain::In(values) => {
            let shown: Vec<_> =
                values.iter().map(|v| v.clone().unwrap_or_else(|| "NULL".to_owned())).collect();
            format!("in ({})", shown.join(", "))
        }
        Domain::Between { lo, hi, step, or_null } => {
            let step = step.as_ref().map_or(String::new(), |s| format!(" step {s}"));
            let or_null = if *or_null { " or NULL" } else { "" };
            format!("between ({lo}, {hi}){step}{or_null}")
        }
    }
}

/// A limit. If an accountant derived it from a promise, the promise comes first.
pub fn limit_text(budget: &Budget) -> String {
    match (budget.promise, budget.coupon) {
        (Some(promise), Some(coupon)) => {
            let coupon = Spend::of_epsilon(coupon, 0);
            format!("{promise} by coupons of {coupon}: {}", budget.limit)
        }
        (Some(promise), None) => format!("{promise} by zCDP: {}", budget.limit),
        (None, _) => budget.limit.to_string(),
    }
}

/// The default, minimum and maximum cost of one query, in words.
pub fn per_query_text(budget: &Budget) -> String {
    let PerQuery { default, default_rho, declared_bounds, .. } = budget.per_query;
    let notion = budget.limit.notion;
    let text = |nano: i64| Spend::of_epsilon(nano, 0).loss_text();
    let default = match (default, default_rho, notion) {
        (Some(epsilon), _, Notion::Approximate) => format!("default {}, ", text(epsilon)),
        (Some(epsilon), ..) => format!("default ε = {}, ", text(epsilon)),
        (None, Some(rho), _) => format!("default ρ = {}, ", text(rho)),
        (None, None, _) => String::new(),
    };
    let least = budget.per_query.least(notion);
    let least = least.map_or_else(String::new, |least| format!("at least {least}, "));
    let bounds = if declared_bounds { ", with declared bounds" } else { "" };
    let floor = budget.per_query.floor();
    let floor = floor.map_or_else(String::new, |floor| format!(", floor of people {floor}"));
    format!("{default}{least}at most {}{bounds}{floor}", budget.per_query.most_text(notion))
}

/// Every declared object with its text.
pub fn texts(catalog: &Catalog) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for table in catalog.tables() {
        texts.insert(format!("table {}", table.name), privacy_text(table));
        if let Some(people) = catalog.about_people(&table.name) {
            texts.insert(format!("people of {}", table.name), format!("about {people}"));
        }
        if let Some(floor) = catalog.table_floor(&table.name) {
            texts.insert(format!("floor of {}", table.name), format!("{floor} people"));
        }
        for rules in catalog.table_rules(&table.name) {
            // A change of a role is shown to owners alone.
            let about = match &rules.role {
                Some(role) => format!("role {role}, rules of {}", table.name),
                None => format!("rules of {}", table.name),
            };
            texts.insert(about, rules.to_string());
        }
        for column in &table.columns {
            if let Some(domain) = &column.domain {
                texts.insert(format!("column {}.{}", table.name, column.name), domain_text(domain));
            }
        }
    }
    for View { name, columns, query } in catalog.views() {
        let columns = match columns.is_empty() {
            true => String::new(),
            false => format!("({}) ", columns.join(", ")),
        };
        texts.insert(format!("view {name}"), format!("{columns}as {query}"));
    }
    for template in catalog.templates() {
        let text = format!("({}) as {}", template.signature(), template.body);
        texts.insert(format!("template {}", template.name), text);
    }
    for budget in catalog.budgets() {
        let (limit, per_query) = (limit_text(budget), per_query_text(budget));
        let replay = match budget.replay {
            Replay::All => String::new(),
            other @ (Replay::Own | Replay::Off) => format!(", replay {}", other.word()),
        };
        let text = format!("for {}, limit {limit}, per query {per_query}{replay}", budget.table);
        texts.insert(format!("budget {}", budget.name), text);
        if let Some(Partition { table, column, since }) = catalog.partition(&budget.name) {
            let text = format!("by {column} of {table}, cells begin behind entry {since}");
            texts.insert(format!("partition of {}", budget.name), text);
        }
        for Slice { analyst, limit } in catalog.slices(&budget.name) {
            texts.insert(format!("slice {analyst} of {}", budget.name), format!("limit {limit}"));
        }
    }
    texts
}

/// The changes from one catalog to another, one line each; removed objects come first.
pub fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    let removed = removed.map(|name| format!("{name}: dropped"));
    let changed = after.iter().filter(|(name, text)| before.get(*name) != Some(*text));
    removed.chain(changed.map(|(name, text)| format!("{name}: {text}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_one_query_is_described_from_least_to_most() {
        let summary = |limit: Spend, per_query: PerQuery| {
            let (name, table) = ("b".to_owned(), "t".to_owned());
            per_query_text(&Budget {
                name,
                table,
                limit,
                promise: None,
                coupon: None,
                per_query,
                replay: Replay::All,
            })
        };
        let (epsilon, rho) = (Spend::of_epsilon(9, 0), Spend::of_rho(9, 0));
        let none = PerQuery::default();
        let least = PerQuery { min: Some(1_000_000), ..none };
        let all = PerQuery { default: Some(2_000_000), max: Some(2_000_000_000), ..least };
        assert_eq!(summary(epsilon, none), "at most anything");
        assert_eq!(summary(epsilon, least), "at least ε = 0.001, at most anything");
        assert_eq!(summary(epsilon, all), "default 0.002, at least ε = 0.001, at most ε = 2");
        assert_eq!(summary(rho, all), "default ε = 0.002, at least ρ = 0.001, at most ρ = 2");
    }

    #[test]
    fn only_changes_are_described() {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let before = texts(&[("budget b", "limit 1"), ("table t", "public"), ("view v", "x")]);
        let after = texts(&[("budget b", "limit 2"), ("table t", "public"), ("table u", "public")]);
        assert_eq!(
            changes(&before, &after),
            ["view v: dropped", "budget b: limit 2", "table u: public"]
        );
        assert!(changes(&after, &after).is_empty());
    }
}
