//! Two relations that are joined: the basis of the join, and the relation of their pairs.

use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::{Expr, JoinType};

use crate::analysis::below::join_conditions::equal_columns;
use crate::analysis::below::relation::{PrivateRelation, Trace, equal, without_null};
use crate::analysis::expr::facts::Scope;
use crate::analysis::expr::total;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};

/// Why rows of two private relations match only rows of the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The right rows lead to the left rows, and have their unit.
    RightLeads,
    /// The left rows lead to the right rows, and have their unit.
    LeftLeads,
    /// Equal columns determine the unit; the hidden units are compared.
    Compared,
}

/// Two relations that an operator joins.
pub(crate) struct Pair {
    pub(crate) left: PrivateRelation,
    pub(crate) right: PrivateRelation,
    /// Hidden columns that are compared in addition to the conditions.
    pub(crate) on: Vec<(Expr, Expr)>,
}

/// Joins two relations on total conditions. Owner, subject and fans are those of the left one; the caller sets them.
pub(crate) fn combined(
    pair: Pair,
    kind: JoinType,
    conditions: &[Expr],
) -> Result<PrivateRelation, NotAnalyzed> {
    let Pair { left, right, mut on } = pair;
    let schema = left.scope.schema.join(&right.scope.schema).map_err(|e| internal(&e))?;
    let facts = left.scope.facts.iter().chain(&right.scope.facts).cloned().collect();
    let mut scope = Scope::new(Arc::new(schema), facts);
    let pairs = equal_columns(&left, &right, conditions);
    on.extend(pairs.iter().map(|(l, r)| (Expr::Column(l.clone()), Expr::Column(r.clone()))));
    let mut filter: Option<Expr> = None;
    for condition in conditions {
        let one = std::slice::from_ref(condition);
        if equal_columns(&left, &right, one).is_empty() {
            let total = total(condition, &scope)?.expr;
            filter = Some(filter.map_or(total.clone(), |all| all.and(total)));
        }
    }
    let plan = equal(left.plan.clone(), right.plan.clone(), on, filter, kind)?;
    let semi = matches!(
        kind,
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti
    );
    if semi {
        let keeps_left = matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti);
        let public = left.public.union(&right.public).cloned().collect();
        let kept = if keeps_left { left } else { right };
        return Ok(PrivateRelation { plan, public, ..kept });
    }
    scope.conditions.clone_from(&left.scope.conditions);
    let mut traces = traced(&left);
    let mut others = traced(&right);
    if kind == JoinType::Left {
        for facts in scope.facts.iter_mut().skip(left.scope.facts.len()) {
            facts.nullable = true;
            facts.is_unit = false;
        }
        let unmatched = |t| Trace { raw: None, origin: None, present: false, ..t };
        others = others.into_iter().map(unmatched).collect();
    }
    traces.append(&mut others);
    if kind == JoinType::Inner {
        scope.conditions.extend_from_slice(&right.scope.conditions);
        for condition in conditions {
            scope = scope.narrowed(condition);
            without_null(&mut traces, &scope, condition);
        }
    }
    let public = left.public.union(&right.public).cloned().collect();
    Ok(PrivateRelation { plan, scope, traces, public, ..left })
}

/// The traces of a relation; for a public one, they record where its columns come from.
pub(crate) fn traced(flow: &PrivateRelation) -> Vec<Trace> {
    if !flow.is_public() {
        return flow.traces.clone();
    }
    let plan = Arc::new(flow.plan.clone());
    let columns = flow.scope.schema.columns().into_iter();
    let traced = flow.traces.iter().zip(columns).map(|(trace, column)| Trace {
        public: trace.public.clone().or_else(|| Some((Arc::clone(&plan), column))),
        ..trace.clone()
    });
    traced.collect()
}

/// The relation with its columns in the order of a schema that has the same columns.
pub(crate) fn in_order(
    flow: PrivateRelation,
    schema: &DFSchemaRef,
) -> Result<PrivateRelation, NotAnalyzed> {
    let places = schema.columns();
    let places: Option<Vec<usize>> =
        places.iter().map(|column| flow.scope.schema.maybe_index_of_column(column)).collect();
    let places = places.ok_or_else(lost)?;
    let facts = places.iter().filter_map(|i| flow.scope.facts.get(*i).cloned()).collect();
    let traces = places.iter().filter_map(|i| flow.traces.get(*i).cloned()).collect();
    let scope = Scope { schema: Arc::clone(schema), facts, ..flow.scope };
    Ok(PrivateRelation { scope, traces, ..flow })
}
