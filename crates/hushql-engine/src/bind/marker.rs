//! The aggregate function that represents a release while its query is planned.
//!
//! In: the number of a release, and its operand. Out: a function with a reserved name. It
//! determines the type of the released column, and is never computed.
//!
//! ```text
//! LAPLACE(eps=1) SUM(price)  →  __hushql_release_0(price): DOUBLE
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result as DataFusionResult, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use super::quantiles::list_of;
use crate::dialect::{AggregateName, Operand, ReleaseClause, marker};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The contents of a release's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReleaseColumn {
    /// A value of the first argument, chosen among candidates or among the ticks of a column.
    Chosen,
    /// A list of such values.
    ChosenList,
    Count,
    /// A list of counts.
    Counts,
    Sum,
    Average,
    Spread,
    Joint,
    Unsupported,
}

/// The aggregate function that represents one release while the query is planned. It never runs:
/// the analysis replaces it, and a plan that still contains one fails before anything is read.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Marker {
    name: String,
    kind: ReleaseColumn,
    /// Set if the release is made consistent with those of other sets: true if its numbers are
    /// whole.
    consistent: Option<bool>,
    signature: Signature,
}

impl Marker {
    pub(super) fn new(n: usize, clause: &ReleaseClause) -> Self {
        let kind = match &clause.operand {
            Operand::Selection(_) | Operand::Response => ReleaseColumn::Chosen,
            Operand::Aggregate(call) => match call.function {
                AggregateName::Count => ReleaseColumn::Count,
                AggregateName::Sum => ReleaseColumn::Sum,
                AggregateName::Avg => ReleaseColumn::Average,
                AggregateName::Spread(_) => ReleaseColumn::Spread,
                AggregateName::Joint(_) => ReleaseColumn::Joint,
                AggregateName::Min
                | AggregateName::Max
                | AggregateName::Median
                | AggregateName::Quantile => ReleaseColumn::Chosen,
                AggregateName::Quantiles => ReleaseColumn::ChosenList,
                AggregateName::Cdf => ReleaseColumn::Counts,
                AggregateName::Revenue | AggregateName::Unsupported(_) => {
                    ReleaseColumn::Unsupported
                }
            },
        };
        let signature = Signature::user_defined(Volatility::Volatile);
        let consistent = clause.consistent.map(|one| one.integer);
        Self { name: marker(n), kind, consistent, signature }
    }

    fn not_a_number(&self, calls: &str, of: &DataType) -> DataFusionError {
        let hint = match of.is_temporal() {
            true => "MEDIAN, MIN or MAX",
            false => "COUNT, or CAST(x AS DOUBLE) where the values of x are written numbers",
        };
        DataFusionError::External(Box::new(Refusal::new(
            Reason::Operand,
            &self.name,
            format!("{calls} take numbers, not {}", sql_type(of)),
            hint,
        )))
    }
}

/// The function that represents a release.
pub(crate) fn marker_function(n: usize, clause: &ReleaseClause) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Marker::new(n, clause)))
}

/// True if the release that a function represents divides its sums. `None` for any other function.
pub(super) fn marker_divides(function: &AggregateUDF) -> Option<bool> {
    let marker = function.inner().downcast_ref::<Marker>()?;
    Some(match marker.kind {
        ReleaseColumn::Average | ReleaseColumn::Spread | ReleaseColumn::Joint => true,
        ReleaseColumn::Chosen
        | ReleaseColumn::ChosenList
        | ReleaseColumn::Count
        | ReleaseColumn::Counts
        | ReleaseColumn::Sum
        | ReleaseColumn::Unsupported => false,
    })
}

/// The type of a released sum over this type. `None` if the type has no sum.
fn sum_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Null => Some(DataType::Int64),
        DataType::Decimal128(_, scale) => Some(DataType::Decimal128(38, *scale)),
        integer if integer.is_integer() => Some(DataType::Int64),
        float if float.is_floating() => Some(DataType::Float64),
        _ => None,
    }
}

impl AggregateUDFImpl for Marker {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, arg_types: &[DataType]) -> DataFusionResult<DataType> {
        let Some(first) = arg_types.first() else { return plan_err!("a release needs an operand") };
        let sum = || sum_type(first).ok_or_else(|| self.not_a_number("SUM and AVG", first));
        match self.kind {
            ReleaseColumn::Chosen => Ok(first.clone()),
            ReleaseColumn::ChosenList => Ok(list_of(first)),
            ReleaseColumn::Count if self.consistent == Some(false) => Ok(DataType::Float64),
            ReleaseColumn::Count => Ok(DataType::Int64),
            ReleaseColumn::Counts => Ok(list_of(&DataType::Int64)),
            ReleaseColumn::Sum => Ok(match (sum()?, self.consistent) {
                (own, None) | (own @ DataType::Int64, Some(true)) => own,
                (_, Some(_)) => DataType::Float64,
            }),
            ReleaseColumn::Average => sum().map(|_| DataType::Float64),
            ReleaseColumn::Spread if first.is_numeric() || first.is_null() => Ok(DataType::Float64),
            ReleaseColumn::Spread => Err(self.not_a_number("VAR and STDDEV", first)),
            ReleaseColumn::Joint => {
                match arg_types.iter().find(|t| !t.is_numeric() && !t.is_null()) {
                    None => Ok(DataType::Float64),
                    Some(other) => Err(self.not_a_number("CORR, COVAR and the regressions", other)),
                }
            }
            ReleaseColumn::Unsupported => Ok(DataType::Float64),
        }
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DataFusionResult<Box<dyn Accumulator>> {
        not_impl_err!("a release is not computed by an aggregate function")
    }

    fn state_fields(
        &self,
        _: StateFieldsArgs,
    ) -> DataFusionResult<Vec<arrow::datatypes::FieldRef>> {
        not_impl_err!("a release is not computed by an aggregate function")
    }
}
