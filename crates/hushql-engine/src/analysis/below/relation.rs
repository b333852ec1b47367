//! Rows below a release: an enforced plan, and the facts about it.
//!
//! In: the relations of the operators below. Out: a [`PrivateRelation`]: the plan with total
//! expressions, facts about every column, the owner of the rows, and the hidden columns that
//! identify the unit of each row. One property holds for every relation of private rows, no matter
//! which operators produced it:
//!
//! *If a unit is removed from the database, exactly its rows disappear from the relation; all
//! others stay as they are.* The bounding operator on top then limits what one unit contributes.
//!
//! ```text
//! Scan lineitem ─▶ … + l_orderkey, which leads to a unit ─▶ Join orders ─▶ … + unit ─▶ Filter ─▶ …
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchemaRef, JoinConstraint, NullEquality, ScalarValue, TableReference,
};
use datafusion::logical_expr::expr::{Alias, Between, Cast, InList};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, TableScan, lit,
};
use num_traits::ToPrimitive;

use super::column_origin::{Below, Clamped, Definition, OfRow, OfUnit, Raw, Trace};
use super::unit::UnitScope;
use crate::analysis::below::contradiction;
use crate::analysis::expr::domain::{Change, SameOfRaw};
use crate::analysis::expr::facts::{Scope, constant, holds_exactly, never_null};
use crate::analysis::expr::shape::{readable, type_of};
use crate::analysis::expr::{carried, computable_types, total};
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::analysis::recursion::deeper;
use crate::catalog::{Catalog, Link, RESERVED, Table};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The name of the unit's column in the input of a private aggregate.
pub(crate) fn unit_name() -> String {
    format!("{RESERVED}_unit")
}

/// How the unit of a relation's rows is identified.
#[derive(Debug, Clone)]
pub(crate) enum Owner {
    /// All rows are public.
    Public,
    /// Every row of the private table is a unit.
    Row,
    /// A hidden column identifies the unit. It is never NULL.
    Unit(String),
    /// Hidden columns lead to a row of another table. They are never NULL.
    Link(Pending),
}

/// The hidden columns that lead to another table, and the table's declaration of them.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) table: String,
    pub(crate) columns: Vec<String>,
    pub(crate) link: Link,
}

/// A condition on the file's columns that follows from a condition on the enforced ones.
struct OfRaw {
    said: Expr,
    /// A comparison that drops the values that become NULL. It is not needed if another comparison
    /// drops them.
    beyond: Option<Expr>,
    /// True if both together are equivalent to the original condition.
    is_all: bool,
}

/// True if a comparison on a file's column also drops the values beyond an end, because it compares
/// the same column in the same direction. If this comparison is weaker than the original condition,
/// the condition is also computed on the enforced column, where it does not hold for NULL.
fn leaves_out(said: &Expr, end: &Expr) -> bool {
    let (Expr::BinaryExpr(said), Expr::BinaryExpr(end)) = (said, end) else { return false };
    let alike = |ops: [Operator; 2]| ops.contains(&said.op) && ops.contains(&end.op);
    said.left == end.left
        && (alike([Operator::Lt, Operator::LtEq]) || alike([Operator::Gt, Operator::GtEq]))
}

/// Rows: an enforced plan, and the facts about its columns.
#[derive(Debug, Clone)]
pub(crate) struct PrivateRelation {
    pub(crate) plan: LogicalPlan,
    pub(crate) scope: Scope,
    /// The origin of each column of the scope.
    pub(crate) traces: Vec<Trace>,
    pub(crate) owner: Owner,
    pub(crate) subject: UnitScope,
    /// For some of the tables that are read: the most rows of this relation that come from one of
    /// their rows.
    pub(crate) fans: BTreeMap<String, u64>,
    /// Columns in which no two rows of one unit have the same values, if such columns are known. No
    /// bound relies on it: if a column identifies the unit, the unit's rows are bounded above.
    pub(crate) distinct: Option<Vec<Column>>,
    /// The public tables that are read.
    pub(crate) public: BTreeSet<String>,
}

impl PrivateRelation {
    /// The hidden unit column; `None` if each row is a unit, or the unit has not been resolved yet.
    pub(crate) fn unit_column(&self) -> Option<Column> {
        match &self.owner {
            Owner::Unit(name) => self.hidden(name),
            Owner::Public | Owner::Row | Owner::Link(_) => None,
        }
    }

    /// Whether its rows are public.
    pub(crate) fn is_public(&self) -> bool {
        matches!(self.owner, Owner::Public)
    }

    /// A hidden column, with its qualifier at this point.
    pub(crate) fn hidden(&self, name: &str) -> Option<Column> {
        let (qualifier, field) =
            self.plan.schema().iter().find(|(_, field)| field.name() == name)?;
        Some(Column::new(qualifier.cloned(), field.name()))
    }

    /// The hidden columns that every operator passes on.
    pub(crate) fn carried(&self) -> Vec<String> {
        let owner = match &self.owner {
            Owner::Public | Owner::Row => &[][..],
            Owner::Unit(name) => std::slice::from_ref(name),
            Owner::Link(pending) => &pending.columns,
        };
        let raw = self.traces.iter().filter_map(|trace| trace.raw.as_ref().map(|raw| &raw.name));
        let all: BTreeSet<&String> = owner.iter().chain(raw).collect();
        all.into_iter().cloned().collect()
    }

    /// The trace of an expression, if it is an unchanged column.
    pub(crate) fn trace(&self, expr: &Expr) -> Option<&Trace> {
        match expr {
            Expr::Alias(alias) => self.trace(&alias.expr),
            Expr::Column(column) => {
                self.traces.get(self.scope.schema.index_of_column(column).ok()?)
            }
            _ => None,
        }
    }

    /// The column that names a person, if an expression is this column and each month of the person
    /// is a unit.
    pub(crate) fn names_person(&self, expr: &Expr) -> Option<&str> {
        self.subject.month_of()?;
        let (person, origin) = (self.subject.column()?, self.trace(expr)?.origin.as_ref()?);
        let is_it = origin.column == person && origin.table == self.subject.unit_domain();
        is_it.then_some(person)
    }

    /// True if all rows of a unit have the same value of an expression.
    ///
    /// # Guarantee
    /// No bound relies on it, see [`OfUnit`].
    pub(crate) fn is_alike(&self, expr: &Expr) -> bool {
        let alike = |column: &Column| {
            let index = self.scope.schema.maybe_index_of_column(column);
            let is_unit = self.scope.facts_of(column).is_some_and(|facts| facts.is_unit);
            is_unit || index.and_then(|i| self.traces.get(i)).is_some_and(|t| t.of_unit.alike)
        };
        !self.subject.is_row() && expr.column_refs().into_iter().all(alike)
    }

    /// The most rows of a unit on which a predicate holds; `None` if the predicate does not bound
    /// them.
    ///
    /// # Guarantee
    /// No bound relies on it, see [`OfUnit`].
    fn rows_where(&self, predicate: &Expr, narrowed: &Scope) -> Option<u64> {
        if self.subject.is_row() {
            return None;
        }
        let numbered = self.traces.iter().zip(&narrowed.facts).filter_map(|(trace, facts)| {
            let (_, last) = facts.range.bounds().filter(|_| trace.of_unit.numbers)?;
            last.floor().to_integer().to_u64().filter(|rows| *rows > 0)
        });
        let unmatched = split_conjunction(predicate).into_iter().filter_map(|part| {
            let Expr::IsNull(column) = part else { return None };
            self.trace(column)?.of_unit.unmatched
        });
        numbered.chain(unmatched).min()
    }

    /// The columns of these rows, as the base of columns that are computed from them.
    pub(crate) fn below(&self) -> Arc<Below> {
        Arc::new(Below { scope: self.scope.clone(), traces: self.traces.clone() })
    }

    fn raw(&self, expr: &Expr) -> Option<&Raw> {
        self.trace(expr)?.raw.as_ref()
    }

    /// The file's column behind a listed column, with the list. The two differ only where the
    /// listed column is NULL.
    pub(crate) fn raw_of_listed(&self, expr: &Expr) -> Option<(Column, Arc<Vec<ScalarValue>>)> {
        let raw = self.raw(expr)?;
        match &raw.change {
            Change::Nulls(Some(values)) => Some((self.hidden(&raw.name)?, Arc::clone(values))),
            Change::Nulls(None) | Change::Clamp(..) => None,
        }
    }

    /// The file's column behind a clamped column, with the ends.
    pub(crate) fn raw_of_clamped(&self, expr: &Expr) -> Option<(Column, Clamped)> {
        let raw = self.raw(expr)?;
        match &raw.change {
            Change::Clamp(lo, hi) => Some((self.hidden(&raw.name)?, (lo.clone(), hi.clone()))),
            Change::Nulls(_) => None,
        }
    }

    /// Removes the cast that a planner added around an expression (`CAST(x AS BIGINT) < 5`), and
    /// converts the values that it is compared with to the expression's own type.
    ///
    /// # Guarantee
    /// On every row, a comparison with the returned values is true if and only if the original
    /// comparison is true.
    fn uncast<'a>(
        &self,
        expr: &'a Expr,
        values: Vec<ScalarValue>,
    ) -> Option<(&'a Expr, Vec<ScalarValue>)> {
        let compared = type_of(expr, &self.scope.schema).ok()?;
        if values.iter().any(|value| value.data_type() != compared) {
            return None;
        }
        let Expr::Cast(Cast { expr: inner, .. }) = expr else { return Some((expr, values)) };
        let own = type_of(inner, &self.scope.schema).ok()?;
        let narrowed = |value: ScalarValue| {
            let narrow = value.cast_to(&own).ok()?;
            (narrow.cast_to(&compared).ok()? == value).then_some(narrow)
        };
        let values = values.into_iter().map(narrowed).collect::<Option<_>>()?;
        holds_exactly(&compared, &own).then_some((inner, values))
    }

    /// The condition on the file's column that follows from a conjunct that compares a column with
    /// literals.
    ///
    /// # Guarantee
    /// Every row that satisfies the conjunct satisfies the result. If `is_all` is true, no other
    /// row does.
    fn said_of_raw(&self, conjunct: &Expr) -> Option<OfRaw> {
        let column = |expr: &Expr| {
            let raw = self.raw(expr)?;
            Some((Expr::Column(self.hidden(&raw.name)?), &raw.change))
        };
        let compared = |expr: &Expr, op: Operator, literal: &Expr| {
            let (expr, values) = self.uncast(expr, vec![constant(literal)?])?;
            let (raw, change) = column(expr)?;
            let [value] = <[ScalarValue; 1]>::try_from(values).ok()?;
            let comparison = |(op, value)| {
                let literal = Box::new(Expr::Literal(value, None));
                Expr::BinaryExpr(BinaryExpr::new(Box::new(raw.clone()), op, literal))
            };
            if let Some(SameOfRaw { literal, beyond }) = change.same(op, &value) {
                let (said, beyond) = (comparison((op, literal)), beyond.map(comparison));
                return Some(OfRaw { said, beyond, is_all: true });
            }
            let keeps = change.keeps(op, &value);
            keeps.then(|| OfRaw { said: comparison((op, value)), beyond: None, is_all: false })
        };
        match conjunct {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let swapped = || compared(right, op.swap()?, left);
                compared(left, *op, right).or_else(swapped)
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let low = compared(expr, Operator::GtEq, low);
                match (low, compared(expr, Operator::LtEq, high)) {
                    // A value that becomes NULL is beyond one of the two ends.
                    (Some(low), Some(high)) => Some(OfRaw {
                        said: low.said.and(high.said),
                        beyond: None,
                        is_all: low.is_all && high.is_all,
                    }),
                    (low, high) => low.or(high).map(|end| OfRaw { is_all: false, ..end }),
                }
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let (expr, values) =
                    self.uncast(expr, list.iter().map(constant).collect::<Option<_>>()?)?;
                let (raw, change) = column(expr)?;
                let is_all = change.lists(&values);
                if !is_all && !values.iter().all(|value| change.keeps(Operator::Eq, value)) {
                    return None;
                }
                let list = values.into_iter().map(|value| Expr::Literal(value, None)).collect();
                let said = Expr::InList(InList::new(Box::new(raw), list, false));
                Some(OfRaw { said, beyond: None, is_all })
            }
            _ => None,
        }
    }

    /// A condition that is true exactly where a predicate is true. It uses the file's columns where
    /// an equivalent comparison exists.
    ///
    /// # Errors
    /// As [`total`].
    fn true_alike(&self, predicate: &Expr) -> Result<Expr, Refusal> {
        if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = predicate
            && matches!(op, Operator::And | Operator::Or)
        {
            let side = |of| deeper(|| self.true_alike(of)).map(Box::new);
            return Ok(Expr::BinaryExpr(BinaryExpr::new(side(left)?, *op, side(right)?)));
        }
        match self.said_of_raw(predicate) {
            Some(OfRaw { said, beyond: None, is_all: true }) => Ok(said),
            Some(OfRaw { said, beyond: Some(beyond), is_all: true }) => Ok(said.and(beyond)),
            Some(_) | None => Ok(total(predicate, &self.scope)?.expr),
        }
    }

    /// The rows where a predicate holds.
    pub(crate) fn filtered(self, predicate: &Expr) -> Result<Self, NotAnalyzed> {
        self.size(predicate)?;
        contradiction::check(predicate, &self.scope)?;
        let (mut of_raw, mut beyond, mut enforced) = (Vec::new(), Vec::new(), Vec::new());
        for conjunct in split_conjunction(predicate) {
            // The expression is also checked if it is not computed, so that a refusal does not
            // depend on the shortcut.
            let total = total(conjunct, &self.scope)?;
            let raw = self.said_of_raw(conjunct);
            if !raw.as_ref().is_some_and(|raw| raw.is_all) {
                let is_or =
                    matches!(conjunct, Expr::BinaryExpr(either) if either.op == Operator::Or);
                enforced.push(if is_or { self.true_alike(conjunct)? } else { total.expr });
            }
            if let Some(raw) = raw {
                of_raw.push(raw.said);
                beyond.extend(raw.beyond);
            }
        }
        beyond.retain(|end| !of_raw.iter().any(|said| leaves_out(said, end)));
        let condition = conjunction(of_raw.into_iter().chain(beyond).chain(enforced));
        let scope = self.scope.narrowed(predicate);
        let mut traces = self.traces.clone();
        without_null(&mut traces, &scope, predicate);
        let subject = match (self.rows_where(predicate, &scope), self.subject.max_rows()) {
            (Some(rows), most) if most.is_none_or(|most| rows < most) => {
                self.subject.clone().with_rows(Some(rows))
            }
            _ => self.subject.clone(),
        };
        let plan = LogicalPlanBuilder::from(self.plan)
            .filter(condition.unwrap_or_else(|| lit(true)))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        Ok(Self { plan, scope, traces, subject, ..self })
    }

    /// Computed columns, with the names of a schema.
    pub(crate) fn projected(
        self,
        expressions: &[Expr],
        schema: &DFSchemaRef,
    ) -> Result<Self, NotAnalyzed> {
        let mut rewritten = Vec::with_capacity(expressions.len() + 1);
        let mut facts = Vec::with_capacity(expressions.len());
        let mut traces = Vec::with_capacity(expressions.len());
        let below = self.below();
        let computed = |expression: &Expr| Trace {
            definition: Some(Definition::new(expression, &below)),
            ..Trace::default()
        };
        for (expression, (qualifier, field)) in expressions.iter().zip(schema.iter()) {
            let size = self.size(expression)?;
            let trace = self.trace(expression).cloned().unwrap_or_else(|| computed(expression));
            let of_unit = OfUnit { alike: self.is_alike(expression), ..trace.of_unit };
            let expr = expression.clone().unalias_nested().data;
            let of_row = Some(Arc::new(OfRow { expr, below: Arc::clone(&below) }));
            traces.push(Trace { size, of_unit, of_row, ..trace });
            let total = carried(expression, &self.scope)?;
            rewritten.push(named(total.expr, qualifier, field.name()));
            facts.push(total.facts);
        }
        let before = Self { traces, ..self };
        for name in before.carried() {
            let column = before.hidden(&name).ok_or_else(lost)?;
            rewritten.push(named(Expr::Column(column), None, &name));
        }
        let plan = LogicalPlanBuilder::from(before.plan)
            .project(rewritten)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let same = |column: &Column| {
            let is_it =
                |made: &Expr| made.clone().unalias_nested().data.try_as_col() == Some(column);
            expressions.iter().position(is_it)
        };
        let columns = schema.columns();
        let kept = |column: &Column| same(column).and_then(|i| columns.get(i).cloned());
        let distinct = before.distinct.as_ref();
        let distinct = distinct.and_then(|all| all.iter().map(kept).collect());
        let scope = before.scope.restated(Scope::new(Arc::clone(schema), facts), same);
        Ok(Self { plan, scope, distinct, ..before })
    }

    /// The same rows under another table name.
    pub(crate) fn named(
        self,
        alias: &TableReference,
        schema: &DFSchemaRef,
    ) -> Result<Self, NotAnalyzed> {
        let plan = LogicalPlanBuilder::from(self.plan)
            .alias(alias.clone())
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let same = |column: &Column| self.scope.schema.maybe_index_of_column(column);
        let columns = schema.columns();
        let kept = |column: &Column| same(column).and_then(|i| columns.get(i).cloned());
        let distinct = self.distinct.as_ref();
        let distinct = distinct.and_then(|all| all.iter().map(kept).collect());
        let renamed = Scope::new(Arc::clone(schema), self.scope.facts.clone());
        let scope = self.scope.restated(renamed, same);
        Ok(Self { plan, scope, distinct, ..self })
    }

    /// The number of nodes of an expression when it is written over the scan.
    ///
    /// # Errors
    /// Refuses an expression beyond a limit. Nested subqueries can double the size at every level.
    fn size(&self, expr: &Expr) -> Result<usize, Refusal> {
        const MOST: usize = 10_000;
        let mut nodes = 0_usize;
        let counted = expr.apply(|node| {
            let column = match node.try_as_col() {
                Some(column) => self.scope.schema.maybe_index_of_column(column),
                None => None,
            };
            let own = column.and_then(|i| self.traces.get(i)).map_or(1, |trace| trace.size);
            nodes = nodes.saturating_add(own);
            Ok(TreeNodeRecursion::Continue)
        });
        match counted {
            Ok(_) if nodes <= MOST => Ok(nodes),
            Ok(_) | Err(_) => Err(Refusal::new(
                Reason::Partial,
                "",
                format!("an expression is larger than {MOST} parts when written over the table"),
                "fewer nested subqueries that use a column twice",
            )),
        }
    }
}

/// Records the columns that are never NULL where a predicate holds.
pub(crate) fn without_null(traces: &mut [Trace], scope: &Scope, predicate: &Expr) {
    for column in never_null(predicate) {
        let index = scope.schema.maybe_index_of_column(column);
        if let Some(trace) = index.and_then(|i| traces.get_mut(i)) {
            trace.present = true;
        }
    }
}

/// The table that a scan reads, from the catalog.
pub(crate) fn scanned<'a>(scan: &TableScan, catalog: &'a Catalog) -> Option<&'a Table> {
    match &scan.table_name {
        TableReference::Bare { table } => catalog.table(table),
        TableReference::Partial { .. } | TableReference::Full { .. } => None,
    }
}

/// An expression with the name of the original column.
pub(crate) fn named(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    Expr::Alias(Alias {
        expr: Box::new(expr),
        relation: qualifier.cloned(),
        name: name.to_owned(),
        metadata: None,
    })
}

/// A conjunction as text for a step of the explanation.
pub(crate) fn told(conditions: &[Expr]) -> String {
    conditions.iter().map(readable).collect::<Vec<_>>().join(" AND ")
}

/// A join of two plans on equal expressions.
pub(crate) fn equal(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    kind: JoinType,
) -> Result<LogicalPlan, NotAnalyzed> {
    for (one, other) in &on {
        computable_types::check(one, left.schema())?;
        computable_types::check(other, right.schema())?;
        let (of, is) = (type_of(one, left.schema())?, type_of(other, right.schema())?);
        if of != is {
            return Err(unlike(other, &of, &is).into());
        }
    }
    Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        filter,
        kind,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )
    .map(LogicalPlan::Join)
    .map_err(|e| internal(&e))
}

/// True if an expression contains a subquery.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
        ))
    })
    .unwrap_or(true)
}

pub(crate) fn unlike(key: &Expr, of: &DataType, is: &DataType) -> Refusal {
    Refusal::new(
        Reason::Join,
        readable(key),
        format!(
            "rows are joined on values of one type, and here one side has {} and the other {}",
            sql_type(of),
            sql_type(is),
        ),
        "files of one format for tables that lead to one another, or registered tables with columns of one type",
    )
}
