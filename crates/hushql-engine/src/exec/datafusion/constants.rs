//! Computes expressions without columns while a private plan is made, and turns `coalesce` into a
//! CASE.
//!
//! In: a plan. Out: the same plan, in which an operator on literals becomes a literal, and a
//! comparison or calculation with NULL becomes NULL. DataFusion has one rule that does this and
//! also reasons about values in many other ways; private plans run without it. They need three of
//! its effects, which this rule provides:
//!
//! - `DATE '1998-12-01' - INTERVAL '90 days'` is a date, so that a filter can prune files.
//! - `x > NULL AND x > 5` is never true. The rule that moves filters keeps the stricter of two
//!   comparisons, and treats NULL as the least value: it would keep `x > 5`. (docs/upstream.md, 5.
//!   Delete this part when that rule handles NULL.)
//! - DataFusion cannot run `coalesce`, only rewrite it.
//!
//! ```text
//! shipped <= DATE '1998-12-01' - INTERVAL '90 days'     →    shipped <= DATE '1998-09-02'
//! coalesce(a, b)                                         →    CASE WHEN a IS NOT NULL THEN a ELSE b END
//! ```

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, Volatility, when,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;

use crate::functions::is_late_value;

/// Computes expressions without columns.
#[derive(Debug)]
pub(super) struct ComputeConstants;

impl OptimizerRule for ComputeConstants {
    fn name(&self) -> &str {
        "compute_constants"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up(|node| {
            let schema = match &node {
                LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
                other => merge_schema(&other.inputs()),
            };
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let computed = expr.transform_up(|e| computed(e, &schema))?;
                Ok(computed.update_data(|e| name.restore(e)))
            })
        })
    }
}

fn computed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(cases) = as_cases(&expr)? {
        return Ok(Transformed::yes(cases));
    }
    let value = match is_null(&expr) {
        true => ScalarValue::try_new_null(&expr.get_type(schema)?).ok(),
        false => is_constant(&expr).then(|| value(&expr, schema)).flatten(),
    };
    Ok(match value {
        Some(value) => Transformed::yes(Expr::Literal(value, None)),
        None => Transformed::no(expr),
    })
}

/// `coalesce` as a CASE.
fn as_cases(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(call) = expr else { return Ok(None) };
    if call.func.name() != "coalesce" {
        return Ok(None);
    }
    let Some((last, before)) = call.args.split_last() else { return Ok(None) };
    let mut cases = last.clone();
    for arg in before.iter().rev() {
        cases = when(arg.clone().is_not_null(), arg.clone()).otherwise(cases)?;
    }
    Ok(Some(cases))
}

/// Whether an operator is NULL because one of its operands always is.
fn is_null(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return false };
    let null = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.is_null());
    let strict = matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::Plus
            | Operator::Minus
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo
    );
    strict && (null(left) || null(right))
}

/// Whether an expression is an operator or function of literals alone, and never changes.
fn is_constant(expr: &Expr) -> bool {
    let literal = |e: &Expr| matches!(e, Expr::Literal(..));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => literal(left) && literal(right),
        Expr::Cast(Cast { expr, .. })
        | Expr::TryCast(TryCast { expr, .. })
        | Expr::Negative(expr) => literal(expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let immutable = func.signature().volatility == Volatility::Immutable;
            immutable && !is_late_value(func) && args.iter().all(literal)
        }
        _ => false,
    }
}

/// The value of an expression without columns; `None` if it fails or has another type.
fn value(expr: &Expr, schema: &DFSchema) -> Option<ScalarValue> {
    let no_columns = Arc::new(Schema::empty());
    let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let physical = create_physical_expr(expr, &DFSchema::empty(), &properties, &context).ok()?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(no_columns, Vec::new(), &options).ok()?;
    let value = match physical.evaluate(&row).ok()? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0).ok()?,
    };
    (value.data_type() == expr.get_type(schema).ok()?).then_some(value)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::functions::expr_fn::coalesce;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use datafusion::optimizer::Optimizer;
    use datafusion::physical_plan::collect;

    use super::*;
    use crate::exec::datafusion::private_plans::planned;
    use crate::exec::session_state;

    fn rows() -> LogicalPlanBuilder {
        let x: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(7), None]));
        let batch = RecordBatch::try_from_iter([("x", x)]).unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(table)), None).unwrap()
    }

    /// Both conditions together are never true, so the 7 must not come out.
    #[tokio::test]
    async fn a_comparison_with_null_is_never_true() {
        let null = || Expr::Literal(ScalarValue::Int64(None), None);
        let state = session_state();
        for (condition, expected) in [
            (col("x").gt(null()).and(col("x").gt(lit(5_i64))), 0),
            (col("x").lt(lit(9_i64)).and(col("x").lt(null() + lit(1_i64))), 0),
            (col("x").gt(lit(2_i64)).and(col("x").gt(lit(5_i64))), 1),
        ] {
            let plan = rows().filter(condition.clone()).unwrap().build().unwrap();
            let plan = planned(&plan, &state, 1).await.unwrap();
            let found = collect(plan, state.task_ctx()).await.unwrap();
            let found: usize = found.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(found, expected, "{condition}");
        }
    }

    #[tokio::test]
    async fn coalesce_is_computed() {
        let state = session_state();
        let column = coalesce(vec![col("x"), col("x"), lit(-1_i64)]).alias("y");
        let plan = rows().project([column]).unwrap().build().unwrap();
        let found =
            collect(planned(&plan, &state, 1).await.unwrap(), state.task_ctx()).await.unwrap();
        let shown = pretty_format_batches(&found).unwrap().to_string();
        assert!(
            ["| y  |", "| 3  |", "| 7  |", "| -1 |"].iter().all(|row| shown.contains(row)),
            "{shown}"
        );
    }

    #[test]
    fn dates_less_intervals_are_dates() {
        let date = || Expr::Literal(ScalarValue::Date32(Some(10_561)), None);
        let days = Expr::Literal(ScalarValue::new_interval_mdn(0, 90, 0), None);
        let plan = rows().project([(date() - days).alias("d")]).unwrap().build().unwrap();
        let rules = Optimizer::with_rules(vec![Arc::new(ComputeConstants)]);
        let plan = rules.optimize(plan, &session_state(), |_, _| {}).unwrap();
        let LogicalPlan::Projection(projection) = plan else { panic!("{plan}") };
        let shown = format!("{:?}", projection.expr);
        assert!(shown.contains("Date32(\"1998-09-02\")"), "{shown}");
    }
}
