//! Plans private rows; there is no other way to plan them.
//!
//! In: a plan over enforced rows, whose expressions the analysis has made total. Out: a physical plan made by a few rules: only
//! rules that pay off and do not reason about values. Such rules have been wrong. If one is wrong about rows of different
//! people, a bound on one person's contribution fails. Plans above, on released rows, use [`super::public_plans`].
//!
//! ```text
//! logical    hide_casts · compute_constants · push_down_filter · extract_equijoin_predicate · common_sub_expression_eliminate
//!            · forget_dependencies, optimize_projections
//! physical   hide_properties · build_side, join_selection · FilterPushdown · EnsureRequirements
//!            · CombinePartialFinalAggregate · ProjectionPushdown · EnsureCooperative · SanityCheckPlan · limit_joins
//! ```
//!
//! The operators that a finished plan may contain are listed in [`crate::exec::verify`].

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::physical_optimizer::combine_partial_final_agg::CombinePartialFinalAggregate;
use datafusion::physical_optimizer::ensure_coop::EnsureCooperative;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::build_side::BuildSide;
use super::by_name::WhereNamesDiffer;
use super::constants::ComputeConstants;
use super::dependencies::Forget;
use super::limited_joins::LimitJoins;
use super::lossy_casts::HideCasts;
use super::null_keys::NoMoreKeys;
use super::opaque::HideProperties;
use super::{PhysicalRule, Rule};

/// Optimizes and plans private rows.
///
/// # Guarantee
/// No expression changes its type: what the analysis has proved of expressions holds for those that run.
///
/// # Errors
/// DataFusion's planning errors; planning has seen no row.
pub(crate) async fn planned(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let typed =
        state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {})?;
    if typed != *plan {
        return internal_err!("the analyzed plan is not fully typed");
    }
    let optimized = Optimizer::with_rules(rules()).optimize(typed, state, |_, _| {})?;
    let state = SessionStateBuilder::new_from_existing(state.clone())
        .with_physical_optimizer_rules(physical_rules())
        .build();
    state.query_planner().create_physical_plan(&optimized, &state).await
}

/// The logical rules, with the purpose of each.
fn rules() -> Vec<Rule> {
    vec![
        // Casts that lose something, and unbounded `||`, become functions.
        Arc::new(HideCasts),
        // A date minus an interval becomes a date that can prune a file; an operand NULL is resolved here.
        Arc::new(ComputeConstants),
        // Rows are dropped where they are read, and conditions reach their join.
        Arc::new(PushDownFilter::new()),
        // Joins by equal columns become hash joins.
        Arc::new(NoMoreKeys(Arc::new(ExtractEquijoinPredicate::new()))),
        // Common subexpressions of two aggregates in one SELECT are computed once.
        Arc::new(CommonSubexprEliminate::new()),
        // Unused columns are not read.
        Arc::new(Forget),
        Arc::new(OptimizeProjections::new()),
    ]
}

/// The physical rules, with the purpose of each.
fn physical_rules() -> Vec<PhysicalRule> {
    vec![
        Arc::new(HideProperties),
        // Decides which side of a join is kept in memory, and whether both are distributed.
        Arc::new(BuildSide),
        Arc::new(JoinSelection::new()),
        // Row groups of Parquet that cannot contribute a row are not read.
        Arc::new(WhereNamesDiffer(Arc::new(FilterPushdown::new()))),
        // Rows that must meet are brought together, and windows get their order.
        Arc::new(EnsureRequirements::new()),
        // On one partition, an aggregate takes one step.
        Arc::new(CombinePartialFinalAggregate::new()),
        // A join passes on only the columns that are read above it.
        Arc::new(ProjectionPushdown::new()),
        // An operator that never waits still yields to a deadline.
        Arc::new(EnsureCooperative::new()),
        Arc::new(SanityCheckPlan::new()),
        Arc::new(LimitJoins),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new rule needs its purpose here and in the list above.
    #[test]
    fn private_rows_are_planned_by_few_rules() {
        let names: Vec<String> = rules().iter().map(|rule| rule.name().to_owned()).collect();
        let expected = [
            "hide_casts",
            "compute_constants",
            "push_down_filter",
            "extract_equijoin_predicate",
            "common_sub_expression_eliminate",
            "forget_dependencies",
            "optimize_projections",
        ];
        assert_eq!(names, expected);
        let names: Vec<String> =
            physical_rules().iter().map(|rule| rule.name().to_owned()).collect();
        let expected = [
            "hide_properties",
            "build_side",
            "join_selection",
            "FilterPushdown",
            "EnsureRequirements",
            "CombinePartialFinalAggregate",
            "ProjectionPushdown",
            "EnsureCooperative",
            "SanityCheckPlan",
            "limit_joins",
        ];
        assert_eq!(names, expected);
    }
}
