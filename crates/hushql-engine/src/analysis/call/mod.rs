//! The calls of a query that release something, and what they read besides the plan.
//!
//! In: the clause of a release, and its call as it was bound. Out: a [`Call`]; the public tables
//! that clauses name ([`lookup`]); the columns of keys and arguments ([`input_columns`]). Keys,
//! measures and selections read them.
//!
//! ```text
//! TOP 3 status, planned for SELECT status … ORDER BY COUNT(*) DESC LIMIT 3      COUNT(*), which chooses a key
//! ```

use arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunctionParams;

use crate::analysis::expr::shape::readable;
use crate::dialect::{
    CandidatesClause, GroupStrategy, KeysClause, Operand, ReleaseClause, SelectionClause, Selector,
};

pub(crate) mod input_columns;
pub(crate) mod lookup;
pub(crate) mod read_calls;
pub(crate) mod unit_counts;

/// A release's clause with its call in the plan.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The number of the release; `None` for a bare aggregate.
    pub(crate) release: Option<usize>,
    pub(crate) clause: ReleaseClause,
    pub(crate) params: AggregateFunctionParams,
    pub(crate) column: String,
    pub(crate) data_type: DataType,
}

impl Call {
    /// Turns the call of a number into a selection of keys with that number as the score.
    pub(crate) fn choose(&mut self, selector: Selector, target: &Expr, data_type: &DataType) {
        let Operand::Aggregate(score) = &self.clause.operand else { return };
        let by = self.clause.text.clone();
        let candidates = match self.clause.keys.first() {
            Some(Some(KeysClause::List(list))) => Some(CandidatesClause::List(list.clone())),
            Some(Some(KeysClause::Domain | KeysClause::Table { .. }) | None) | None => None,
        };
        self.clause.keys.clear();
        let selection = SelectionClause {
            selector,
            candidates,
            named: false,
            score: score.clone(),
            by,
            prior: None,
        };
        self.clause.text = match target {
            Expr::Column(column) => column.name.clone(),
            other => readable(other),
        };
        self.clause.operand = Operand::Selection(Box::new(selection));
        self.params.args.insert(0, target.clone());
        self.data_type = data_type.clone();
    }

    /// Drops the options for unknown groups: the whole table is one group, which is known.
    pub(crate) fn without_threshold(&mut self) {
        let Some(grouping) = self.clause.grouping.as_mut() else { return };
        grouping.min_units = None;
        grouping.strategy = grouping.strategy.filter(|strategy| *strategy == GroupStrategy::Public);
    }

    /// The clause of a selection whose candidates are the values of a group key.
    pub(crate) fn key_selection(&self) -> Option<&SelectionClause> {
        match &self.clause.operand {
            Operand::Selection(selection) if !selection.named => Some(selection),
            Operand::Selection(_) | Operand::Aggregate(_) | Operand::Response => None,
        }
    }
}
