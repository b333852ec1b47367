//! Operators of DataFusion that this package encodes itself, although DataFusion could.
//!
//! In: an operator with functions in it: a filter, a projection, an aggregate, a join, a window or
//! its order. Out: the same operator, wrapped, so that `datafusion-distributed` passes it to our
//! codec. Otherwise its own codec would encode every function first, and would write only the
//! function's name: parameters of functions would be lost.
//!
//! ```text
//! FilterExec: clamp(x, 0, 9) > 3       Carried
//!   …                             →      …          encoded as FilterExec over EmptyExec, and joined with its input over there
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};

/// An operator with functions in it.
#[derive(Debug)]
pub(crate) struct Carried {
    inner: Arc<dyn ExecutionPlan>,
}

impl Carried {
    /// Wraps every operator of the plan that has functions.
    pub(crate) fn all(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let holds_functions = node.is::<FilterExec>()
                || node.is::<ProjectionExec>()
                || node.is::<AggregateExec>()
                || node.is::<BoundedWindowAggExec>()
                || node.is::<CrossJoinExec>()
                || node.is::<HashJoinExec>()
                || node.is::<NestedLoopJoinExec>()
                || node.is::<SortExec>()
                || node.is::<WindowAggExec>();
            Ok(match holds_functions {
                true => Transformed::yes(Arc::new(Self { inner: node }) as _),
                false => Transformed::no(node),
            })
        })
        .data()
    }

    /// The operator over empty inputs.
    pub(crate) fn alone(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let empty = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
            Arc::new(EmptyExec::new(input.schema()))
        };
        let inputs = self.inner.children().into_iter().map(empty).collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(&self.inner).replace_children(inputs, options)
    }

    /// The operator.
    pub(crate) fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    /// The operator itself, whether it is wrapped or not.
    pub(crate) fn unwrapped(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
        plan.downcast_ref::<Self>().map_or(plan, Self::inner)
    }
}

impl DisplayAs for Carried {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for Carried {
    fn name(&self) -> &'static str {
        "Carried"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.inner.input_distribution_requirements()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inner.children().len() {
            return internal_err!("a carried operator keeps its inputs");
        }
        let inner = Arc::clone(&self.inner).replace_children(children, options)?;
        Ok(Arc::new(Self { inner }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }
}
