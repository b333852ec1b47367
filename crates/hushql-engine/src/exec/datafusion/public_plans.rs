//! The rules for plans over released and public rows: DataFusion's own, in its order.
//!
//! In: the public plan of a statement, or a plan over public tables alone. Out: DataFusion's plan
//! for it. Each rule that can give wrong rows has a companion that hides the case from it; each
//! companion has its own file.
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
use super::made_texts::SmallBatches;
use super::null_matching_joins::{NoMoreKeys, NullKeyBarrier};
use super::opaque::HideProperties;
use super::wide_keys::NoWideKeys;
use super::{PhysicalRule, Rule};

/// The rule that turns a join's conditions into keys.
const MAKES_KEYS: &str = "extract_equijoin_predicate";

/// The rule that merges joins.
const MERGES: &str = "eliminate_cross_join";

/// The rules that read functional dependencies.
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
            rules.push(Arc::new(NullKeyBarrier));
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
/// No rule answers an aggregate from a file's statistics.
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
    // This rule stands before those that partition rows, because they depend on the sides of the
    // joins.
    let joins = rules.iter().position(|rule| rule.name() == "join_selection").unwrap_or(0);
    rules.insert(joins, Arc::new(BuildSide::of_others()));
    rules.push(Arc::new(LimitJoins));
    rules.push(Arc::new(SmallBatches));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DataFusion may rename its rules; a renamed rule would lose its companion.
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
