//! The rules for what runs on released and public rows: DataFusion's own, in its order.
//!
//! In: the public plan of a statement, or a plan over public tables alone. Out: what DataFusion makes of it. Rules that lead to
//! wrong rows have a companion that keeps the case from them; each companion has a file of its own.
//!
//! ```text
//! hide_casts · … · forget_dependencies, eliminate_join · … · null_keys_apart, wide_keys_are_conditions, eliminate_cross_join · …
//! ```

use std::sync::Arc;

use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use super::build_side::BuildSide;
use super::by_name::{BY_NAME, WhereNamesDiffer};
use super::dependencies::Forget;
use super::limited_joins::LimitJoins;
use super::lossy_casts::HideCasts;
use super::null_keys::{Apart, NoMoreKeys};
use super::opaque::HideProperties;
use super::wide_keys::NoWideKeys;
use super::{PhysicalRule, Rule};

/// The rule that makes keys of a join's conditions.
const MAKES_KEYS: &str = "extract_equijoin_predicate";

/// The rule that merges joins.
const MERGES: &str = "eliminate_cross_join";

/// The rules that read which columns determine which.
const BELIEVE: [&str; 4] = [
    "replace_distinct_aggregate",
    "eliminate_join",
    "eliminate_duplicated_expr",
    "optimize_projections",
];

/// The logical rules.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = vec![Arc::new(HideCasts)];
    let all = Optimizer::new().rules;
    let last = all.iter().find(|rule| rule.name() == MAKES_KEYS).cloned();
    for rule in all {
        if BELIEVE.contains(&rule.name()) {
            rules.push(Arc::new(Forget));
        }
        if rule.name() == MERGES {
            rules.push(Arc::new(Apart));
            rules.push(Arc::new(NoWideKeys));
        }
        rules.push(match rule.name() == MAKES_KEYS {
            true => Arc::new(NoMoreKeys(rule)),
            false => rule,
        });
    }
    rules.extend(last.map(|rule| Arc::new(NoMoreKeys(rule)) as Rule));
    rules
}

/// The physical rules.
///
/// # Guarantee
/// None answers an aggregate from a file's statistics.
pub(super) fn physical_rules() -> Vec<PhysicalRule> {
    let mut rules: Vec<PhysicalRule> = PhysicalOptimizer::new()
        .rules
        .into_iter()
        .filter(|rule| rule.name() != "aggregate_statistics")
        .map(|rule| match rule.name().starts_with(BY_NAME) {
            true => Arc::new(WhereNamesDiffer(rule)),
            false => rule,
        })
        .collect();
    rules.insert(0, Arc::new(HideProperties));
    // Before the rules that place rows in partitions, which joins are turned round for.
    let joins = rules.iter().position(|rule| rule.name() == "join_selection").unwrap_or(0);
    rules.insert(joins, Arc::new(BuildSide));
    rules.push(Arc::new(LimitJoins));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DataFusion may call its rules otherwise one day: then they would be left as they are.
    #[test]
    fn the_rules_are_there() {
        let names: Vec<String> = rules().iter().map(|rule| rule.name().to_owned()).collect();
        for name in BELIEVE {
            let at = names.iter().position(|known| known == name);
            let at = at.unwrap_or_else(|| panic!("{name} in {names:?}"));
            assert_eq!(names[at - 1], "forget_dependencies", "{name}");
        }
        assert!(names.iter().any(|name| name == MAKES_KEYS), "{names:?}");
        let at = names.iter().position(|name| name == MERGES).unwrap();
        assert_eq!(names[at - 2..at], ["null_keys_apart", "wide_keys_are_conditions"]);
        assert_eq!(names.last().unwrap(), MAKES_KEYS);
        assert_eq!(names[0], "hide_casts");
    }

    /// A COUNT(*) answered from a Parquet footer would be exact and free.
    #[test]
    fn statistics_answer_no_aggregate() {
        let rules = physical_rules();
        let names: Vec<_> = rules.iter().map(|rule| rule.name()).collect();
        assert!(!names.contains(&"aggregate_statistics"), "{names:?}");
        let at = |name| names.iter().position(|known| *known == name).unwrap();
        assert_eq!(at("build_side") + 1, at("join_selection"));
        let all = PhysicalOptimizer::new().rules;
        assert_eq!(all.iter().filter(|rule| rule.name().starts_with(BY_NAME)).count(), 2);
        assert!(all.iter().any(|r| r.name() == "aggregate_statistics"), "the rule has a new name");
    }
}
