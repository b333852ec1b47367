//! Two relations that are joined: the reason why the join keeps to one unit, and the joined
//! relation.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlanBuilder, Operator};

use crate::analysis::below::column_origin::{OfUnit, Trace};
use crate::analysis::below::join_conditions::{equal_columns, widened};
use crate::analysis::below::relation::{PrivateRelation, equal, without_null};
use crate::analysis::expr::facts::{Facts, Scope, never_null};
use crate::analysis::expr::total;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};

/// The reason why rows of two private relations match only rows of the same unit.
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
    /// Hidden columns that must be equal, in addition to the conditions.
    pub(crate) on: Vec<(Expr, Expr)>,
}

/// Joins two relations on total conditions. The result has the owner, the subject and the fans of
/// the left relation; the caller sets the correct ones.
pub(crate) fn combined(
    pair: Pair,
    kind: JoinType,
    conditions: &[Expr],
) -> Result<PrivateRelation, NotAnalyzed> {
    let Pair { left, right, mut on } = pair;
    let schema = left.scope.schema.join(&right.scope.schema).map_err(|e| internal(&e))?;
    let facts = left.scope.facts.iter().chain(&right.scope.facts).cloned().collect();
    let mut scope = Scope::new(Arc::new(schema), facts);
    let mut filter: Option<Expr> = None;
    for condition in conditions {
        let one = std::slice::from_ref(condition);
        let pair = equal_columns(&left, &right, one).into_iter().next();
        if let (Some((l, r)), true) = (pair, is_of_columns(condition)) {
            on.push((Expr::Column(l), Expr::Column(r)));
        } else {
            let total = total(condition, &scope)?.expr;
            filter = Some(filter.map_or(total.clone(), |all| all.and(total)));
        }
    }
    let plan = equal(left.plan.clone(), right.plan.clone(), on, filter, kind)?;
    if matches!(kind, JoinType::LeftMark | JoinType::RightMark) {
        let public = left.public.union(&right.public).cloned().collect();
        let kept = if kind == JoinType::LeftMark { left } else { right };
        return Ok(PrivateRelation { plan, public, ..kept });
    }
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
            facts.null_key = true;
            facts.is_unit = false;
        }
        let rows = left.subject.max_rows();
        for condition in conditions {
            // The condition holds on all rows with a match.
            without_null(&mut others, &right.scope, condition);
        }
        let units = right.scope.facts.iter().map(|facts| facts.is_unit);
        let unmatched = |(t, is_unit): (Trace, bool)| {
            let of_unit = OfUnit { unmatched: rows.filter(|_| t.present), ..OfUnit::default() };
            let unit_or_null = is_unit || t.unit_or_null;
            Trace { raw: None, present: false, padded: true, unit_or_null, of_unit, ..t }
        };
        others = others.into_iter().zip(units).map(unmatched).collect();
        let also = matched_or_null(&right, conditions, &scope);
        scope.conditions.extend(also);
    }
    for trace in traces.iter_mut().chain(others.iter_mut().filter(|_| kind != JoinType::Left)) {
        // The join can repeat a row, so only `alike` still holds.
        trace.of_unit = OfUnit { alike: trace.of_unit.alike, ..OfUnit::default() };
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
    Ok(PrivateRelation { plan, scope, traces, distinct: None, public, ..left })
}

/// Conditions that hold on every row of a left join with public rows: a column that no match leaves
/// NULL is NULL, or the row meets a condition of the join.
fn matched_or_null(right: &PrivateRelation, conditions: &[Expr], scope: &Scope) -> Vec<Expr> {
    let is_right = |column: &&Column| right.scope.schema.is_column_from_schema(column);
    let present = |condition: &Expr| {
        let equated = if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) =
            condition
        {
            [left, right].into_iter().filter_map(|side| widened(side, &scope.schema)).find(is_right)
        } else {
            None
        };
        equated.or_else(|| never_null(condition).into_iter().find(is_right)).cloned()
    };
    if !right.is_public() {
        return Vec::new();
    }
    let Some(column) = conditions.iter().find_map(present) else { return Vec::new() };
    let or_null = |condition: &Expr| Expr::Column(column.clone()).is_null().or(condition.clone());
    conditions.iter().map(or_null).collect()
}

/// True if a condition compares two columns without a cast.
fn is_of_columns(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = condition else { return false };
    left.try_as_col().is_some() && right.try_as_col().is_some()
}

/// The rows of one of two relations, each once, with a column that is true if a row of the other
/// relation matches.
///
/// # Guarantee
/// The relation has exactly the rows of the marked one (the left one for [`JoinType::LeftMark`],
/// the right one for [`JoinType::RightMark`]), and all its facts still hold. The column is never
/// NULL.
pub(crate) fn marked(
    pair: Pair,
    kind: JoinType,
    conditions: &[Expr],
    name: &str,
) -> Result<PrivateRelation, NotAnalyzed> {
    let kept = if kind == JoinType::LeftMark { &pair.left } else { &pair.right };
    let columns = kept.plan.schema().columns();
    let flow = combined(pair, kind, conditions)?;
    // The join adds the mark as its last column, with a name that other columns may have.
    let mark = flow.plan.schema().columns().pop().ok_or_else(lost)?;
    let mut list: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    list.push(Expr::Column(mark).alias(name));
    let plan = LogicalPlanBuilder::from(flow.plan.clone())
        .project(list)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|e| internal(&e))?;
    let field = Field::new(name, DataType::Boolean, false);
    let field = DFSchema::try_from(Schema::new(vec![field])).map_err(|e| internal(&e))?;
    let schema = flow.scope.schema.join(&field).map_err(|e| internal(&e))?;
    let mut scope = Scope { schema: Arc::new(schema), ..flow.scope.clone() };
    scope.facts.push(Facts { nullable: false, ..Facts::of_type(&DataType::Boolean) });
    let mut traces = flow.traces.clone();
    traces.push(Trace { size: 1, ..Trace::default() });
    Ok(PrivateRelation { plan, scope, traces, ..flow })
}

/// The traces of a relation. For a public relation, they also record where its columns come from.
/// Its rows are read as they are, so nothing follows from the rows below them.
pub(crate) fn traced(flow: &PrivateRelation) -> Vec<Trace> {
    if !flow.is_public() {
        return flow.traces.clone();
    }
    let plan = Arc::new(flow.plan.clone());
    let columns = flow.scope.schema.columns().into_iter();
    let traced = flow.traces.iter().zip(columns).map(|(trace, column)| Trace {
        public: trace.public.clone().or_else(|| Some((Arc::clone(&plan), column))),
        of_row: None,
        ..trace.clone()
    });
    traced.collect()
}

impl PrivateRelation {
    /// Public rows after a join. Their columns now come from the joined rows, and no longer from
    /// single tables.
    pub(crate) fn with_one_source(mut self) -> Self {
        for trace in &mut self.traces {
            trace.public = None;
        }
        self
    }
}

/// The relation with its columns in the order of a schema that has all of them, or some of them.
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
    let mut scope = Scope { schema: Arc::clone(schema), facts, ..flow.scope };
    let is_here = |column: &Column| schema.is_column_from_schema(column);
    scope.conditions.retain(|condition| condition.column_refs().into_iter().all(is_here));
    let distinct = flow.distinct.filter(|columns| columns.iter().all(is_here));
    Ok(PrivateRelation { scope, traces, distinct, ..flow })
}
