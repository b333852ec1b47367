//! The function that represents a candidate of a choice while its query is planned.
//!
//! In: the candidates as written. Out: a function without arguments, of their type.
//!
//! ```text
//! p IN (1, 2) BY SUM(x * p)   →   __hushql_candidate_0(), BIGINT
//! ```

use arrow::datatypes::DataType;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::dialect::{CandidatesClause, Literal, candidate_marker};

/// The function that represents a candidate while the query is planned. It never runs, because the
/// analysis replaces it by each candidate.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    name: String,
    data_type: DataType,
    signature: Signature,
}

impl Candidate {
    /// The candidates of release `n`.
    pub(super) fn new(n: usize, candidates: &CandidatesClause) -> Self {
        let data_type = type_of_candidates(candidates);
        let signature = Signature::nullary(Volatility::Immutable);
        Self { name: candidate_marker(n), data_type, signature }
    }
}

/// The type of candidates that are not values of a column: integers, other numbers, Booleans or
/// texts.
fn type_of_candidates(candidates: &CandidatesClause) -> DataType {
    let literals: Vec<&Literal> = match candidates {
        CandidatesClause::List(list) => list.iter().collect(),
        // A range without a step contains all numbers between its bounds.
        CandidatesClause::Range { step: None, .. } => return DataType::Float64,
        CandidatesClause::Range { lo, hi, step: Some(step) } => vec![lo, hi, step],
    };
    let mut data_type = DataType::Null;
    for literal in literals {
        let own = match literal {
            Literal::Number(text) if text.parse::<i64>().is_ok() => DataType::Int64,
            Literal::Number(_) => DataType::Float64,
            Literal::Text(_) => DataType::Utf8,
            Literal::Boolean(_) => DataType::Boolean,
            Literal::Null => continue,
        };
        data_type = match (data_type, own) {
            (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => {
                DataType::Float64
            }
            // The kinds are mixed: a later check reports the literals that are not values of this
            // type.
            (_, own) => own,
        };
    }
    data_type
}

impl ScalarUDFImpl for Candidate {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("a candidate is replaced by its value before anything runs")
    }
}
