//! MEDIAN and QUANTILE of dates, times and timestamps, which are released from private rows alone.
//!
//! In: DataFusion's aggregates, which take numbers. Out: aggregates of the same names that take
//! dates, times and timestamps too, with the type of their argument. Above a private table the
//! analysis makes a choice of them; of public rows and of answers they are refused there, because
//! the engine has no such aggregate. Those of numbers become DataFusion's own again once all types
//! are known.
//!
//! ```text
//! MEDIAN(signed_up)       a DATE
//! MEDIAN(age)             DataFusion's
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::types::{NativeType, logical_date, logical_float64};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Expr, ExprSchemable, LogicalPlan,
    Signature, TypeSignature, TypeSignatureClass, Volatility, WindowFunctionDefinition,
};

/// An aggregate of numbers, and of dates, times and timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentQuantile {
    function: Arc<AggregateUDF>,
    signature: Signature,
}

/// MEDIAN or PERCENTILE_CONT with dates, times and timestamps among its arguments. Another
/// aggregate is returned unchanged.
pub(super) fn with_moments(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let takes_fraction = match function.name() {
        "median" => false,
        "percentile_cont" => true,
        _ => return function,
    };
    let fraction = || {
        let numbers = vec![TypeSignatureClass::Numeric];
        let double = TypeSignatureClass::Native(logical_float64());
        Coercion::new_implicit(double, numbers, NativeType::Float64)
    };
    let moments = [
        TypeSignatureClass::Native(logical_date()),
        TypeSignatureClass::Timestamp,
        TypeSignatureClass::Time,
    ];
    let mut signatures = vec![function.signature().type_signature.clone()];
    for class in moments {
        let mut arguments = vec![Coercion::new_exact(class)];
        arguments.extend(takes_fraction.then(fraction));
        signatures.push(TypeSignature::Coercible(arguments));
    }
    let signature = Signature::one_of(signatures, Volatility::Immutable);
    Arc::new(AggregateUDF::from(MomentQuantile { function, signature }))
}

impl AggregateUDFImpl for MomentQuantile {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.function.state_fields(args)
    }

    fn supports_within_group_clause(&self) -> bool {
        self.function.supports_within_group_clause()
    }
}

/// Makes the medians and quantiles of numbers DataFusion's own again.
///
/// # Errors
/// Those of planning.
pub(super) fn of_numbers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expr| expr.transform_up(|part| Ok(of_number(part, &schema))))
    })?;
    Ok(done.data)
}

fn of_number(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let own = |function: &AggregateUDF, arguments: &[Expr]| {
        let quantile = function.inner().downcast_ref::<MomentQuantile>()?;
        let data_type = arguments.first()?.get_type(schema).ok()?;
        (!data_type.is_temporal()).then(|| Arc::clone(&quantile.function))
    };
    match expr {
        Expr::AggregateFunction(mut call) => match own(&call.func, &call.params.args) {
            Some(function) => {
                call.func = function;
                Transformed::yes(Expr::AggregateFunction(call))
            }
            None => Transformed::no(Expr::AggregateFunction(call)),
        },
        Expr::WindowFunction(mut window) => {
            let found = match &window.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    own(function, &window.params.args)
                }
                WindowFunctionDefinition::WindowUDF(_) => None,
            };
            let is_own = found.is_some();
            if let Some(function) = found {
                window.fun = WindowFunctionDefinition::AggregateUDF(function);
            }
            Transformed::new_transformed(Expr::WindowFunction(window), is_own)
        }
        other => Transformed::no(other),
    }
}

/// True if an expression is the median or a quantile of dates, times or timestamps.
pub(crate) fn is_moment_quantile(expr: &Expr) -> bool {
    let is = |function: &AggregateUDF| function.inner().is::<MomentQuantile>();
    if let Expr::WindowFunction(window) = expr
        && let WindowFunctionDefinition::AggregateUDF(function) = &window.fun
    {
        return is(function);
    }
    matches!(expr, Expr::AggregateFunction(call) if is(&call.func))
}
