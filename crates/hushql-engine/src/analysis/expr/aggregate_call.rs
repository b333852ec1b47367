//! The call inside an aggregate expression, and its release.
//!
//! In: an expression of an aggregate, as it was bound. Out: its call, below aliases, and the number
//! of its release.
//!
//! ```text
//! LAPLACE(eps=1) SUM(x) AS total, the first release     SUM(x), release 0
//! SUM(x)                                                SUM(x), no release
//! ```

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;

use crate::dialect::marked;

/// Access to the call inside an aggregate expression.
pub(crate) struct CallOf;

impl CallOf {
    pub(crate) fn function(expr: &Expr) -> Option<&AggregateFunction> {
        match expr {
            Expr::AggregateFunction(call) => Some(call),
            Expr::Alias(alias) => Self::function(&alias.expr),
            _ => None,
        }
    }

    /// The release that an aggregate expression represents.
    pub(crate) fn marker(expr: &Expr) -> Option<usize> {
        marked(Self::function(expr)?.func.name())
    }
}
