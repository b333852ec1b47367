//! The time between two timestamps, as the argument of an aggregate: a number of seconds.
//!
//! In: a plan before the planner's coercion, in which the arguments of aggregates that are
//! differences stand in a call of their own, and so do columns that a subquery computes as one.
//! Out: the plan without these calls. Differences of timestamps are seconds, as EXTRACT(EPOCH FROM
//! b - a) is. All others, such as those of dates and of numbers, stay as they are.
//!
//! ```text
//! AVG(ended - started)      AVG(CAST(date_diff('microsecond', started, ended) AS DOUBLE) / 1000000)
//! AVG(due - lent)           two dates: days
//! ```

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, not_impl_err, plan_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::dialect::time_between_name;
use crate::functions::date_diff_function;

/// The call around a difference, while a query is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeBetween {
    name: String,
    signature: Signature,
}

impl Default for TimeBetween {
    fn default() -> Self {
        Self { name: time_between_name(), signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimeBetween {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The name of the difference: the call is not written.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [difference] => Ok(difference.schema_name().to_string()),
            _ => plan_err!("a difference has one value"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Duration(_) | DataType::Interval(_)] => Ok(DataType::Float64),
            [other] => Ok(other.clone()),
            _ => plan_err!("a difference has one value"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("differences are computed without this call")
    }
}

/// The plan without these calls.
///
/// # Errors
/// Those of planning.
pub(super) fn without_calls(plan: LogicalPlan) -> Result<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|part| Ok(without_call(part, &schema)))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(done.data)
}

fn without_call(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.inner().is::<TimeBetween>() => {
            match call.args.pop() {
                Some(difference) => Transformed::yes(in_seconds(difference, schema)),
                None => Transformed::no(Expr::ScalarFunction(call)),
            }
        }
        other => Transformed::no(other),
    }
}

/// The expression that stands in such a call.
pub(super) fn operand(call: &ScalarFunction) -> Option<&Expr> {
    call.args.first().filter(|_| call.func.inner().is::<TimeBetween>())
}

/// A difference of timestamps in seconds; any other expression as it is.
pub(super) fn in_seconds(difference: Expr, schema: &DFSchema) -> Expr {
    let is_span = difference
        .get_type(schema)
        .is_ok_and(|own| matches!(own, DataType::Duration(_) | DataType::Interval(_)));
    match difference {
        // A duration that nobody turned into seconds below.
        Expr::Column(_) if is_span => {
            let of = |x: Expr, to: DataType| Expr::Cast(Cast::new(Box::new(x), to));
            let span = of(difference, DataType::Duration(TimeUnit::Microsecond));
            of(of(span, DataType::Int64), DataType::Float64) / lit(1_000_000.0)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) if is_span => {
            let between = date_diff_function().call(vec![lit("microsecond"), *right, *left]);
            Expr::Cast(Cast::new(Box::new(between), DataType::Float64)) / lit(1_000_000.0)
        }
        other => other,
    }
}
