//! Requests for more of a budget, as they are parsed.
//!
//! In: nothing. Out: the statement of [`super::request_statements`]. Names are unresolved.

use crate::dialect::declaration::LimitClause;

/// A request for more of a budget, or the owner's decision on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetRequestStatement {
    /// `REQUEST PRIVACY BUDGET name ADD (…) REASON 'text'`.
    Ask {
        /// The budget's name.
        budget: String,
        /// What to add to its limit.
        add: Box<LimitClause>,
        /// Why.
        reason: String,
    },
    /// `APPROVE REQUEST n`.
    Approve {
        /// The number of the request.
        number: i64,
    },
    /// `DENY REQUEST n [REASON 'text']`.
    Deny {
        /// The number of the request.
        number: i64,
        /// Why; may be empty.
        reason: String,
    },
}
