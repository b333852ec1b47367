//! The function that represents a candidate of a choice while its query is planned.
//!
//! In: the candidates as written. Out: a function without arguments, of their type.
//!
//! ```text
//! p IN (1, 2) BY SUM(x * p)   →   __hushql_candidate_0(), BIGINT
//! ```

use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;

use super::placeholder::Placeholder;
use crate::dialect::{CandidatesClause, Literal, candidate_marker};

/// The function that represents the candidates of release `n`. The analysis replaces it by each
/// candidate.
pub(super) fn candidate_function(n: usize, candidates: &CandidatesClause) -> Placeholder {
    Placeholder::new(candidate_marker(n), type_of_candidates(candidates), Volatility::Immutable)
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
