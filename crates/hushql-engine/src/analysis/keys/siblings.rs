//! The keys that remain under conditions on other columns of a subquery:
//! `WHERE y = 2025 GROUP BY d`, where y and d are computed from one row.
//!
//! In: a key over the columns of a subquery, and the conditions above it. Out: the keys of the same
//! expression over the rows below the subquery, with the conditions rewritten for these rows.
//!
//! ```text
//! SELECT d, … FROM (SELECT ts::date AS d, EXTRACT(YEAR FROM ts) AS y FROM t) AS s WHERE y = 2025 GROUP BY d
//!   as      ts::date      where EXTRACT(YEAR FROM ts) = 2025
//! SELECT q, m.name, … FROM (SELECT EXTRACT(MONTH FROM ts) AS x, EXTRACT(QUARTER FROM ts) AS q FROM t) AS s JOIN m ON s.x = m.month
//!   as      EXTRACT(QUARTER FROM ts), m.name      where EXTRACT(MONTH FROM ts) = m.month
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::logical_expr::Expr;

use super::key_image::{key_image, keys_that_pass};
use super::of_column::with_known_keys;
use crate::analysis::below::column_origin::{Below, OfRow, Trace};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::{KeySource, Scope};
use crate::catalog::RESERVED;

/// The largest number of nested subqueries that are inspected.
const DEEPEST: usize = 8;

/// The keys that an expression can have on rows that meet the conditions on other columns of their
/// subquery; `None` if these conditions do not restrict it.
///
/// # Guarantee
/// On every row of the scope the expression is NULL, NaN, or one of the keys. The keys depend only
/// on the query, the declarations and public rows.
pub(crate) fn keys_by_siblings(
    expr: &Expr,
    scope: &Scope,
    traces: &[Trace],
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    let (mut expr, mut scope, mut traces) = (expr.clone(), scope.clone(), traces.to_vec());
    for _ in 0..DEEPEST {
        let below = below(std::slice::from_ref(&expr), &scope, &traces)?;
        let written = written_below(&expr, &scope, &traces, &below)?;
        let said = scope.conditions.iter();
        let said = said.filter_map(|one| written_below(one, &scope, &traces, &below));
        let said: Vec<Expr> = said.collect();
        let others = |condition: &Expr| {
            let own = written.column_refs();
            condition.column_refs().iter().any(|column| own.contains(column))
        };
        let names_another = scope.conditions.iter().any(|condition| {
            let own = expr.column_refs();
            condition.column_refs().iter().any(|column| !own.contains(column))
        });
        let is_new = names_another && said.iter().any(others);
        expr = written;
        scope = below.scope.clone();
        scope.conditions.extend(said);
        traces = below.traces.clone();
        if is_new {
            let known = with_known_keys(&expr, &scope, &traces, tables);
            if let Some(column) = expr.try_as_col() {
                return keys_that_pass(column, &known, tables);
            }
            let KeySource::Values(keys) = key_image(&expr, &known, tables)? else { return None };
            return Some(keys.to_vec());
        }
    }
    None
}

/// Some expressions over rows, and what is known about these rows.
#[derive(Clone)]
pub(crate) struct SiblingRows {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) scope: Scope,
    pub(crate) traces: Vec<Trace>,
}

impl SiblingRows {
    /// The same expressions over the rows further below, as long as all their columns are computed
    /// from one row there.
    ///
    /// # Guarantee
    /// For every row of this source, the result has a row on which its expressions have the same
    /// values. That row meets the conditions of the result's scope.
    pub(crate) fn at_the_bottom(mut self) -> Self {
        for _ in 0..DEEPEST {
            match self.below() {
                Some(below) => self = below,
                None => break,
            }
        }
        self
    }

    /// As [`Self::at_the_bottom`], without the loss of conditions that also name other columns: the
    /// columns of the rows below stand beside those of these rows.
    ///
    /// # Guarantee
    /// For every row of this source, the result has a row on which its expressions have the same
    /// values, and these columns too. That row meets the conditions of the result's scope.
    pub(crate) fn with_all_conditions(mut self) -> Self {
        let mut replaced = Vec::new();
        for _ in 0..DEEPEST {
            let next = match self.loses_nothing().then(|| self.below()).flatten() {
                Some(below) => below,
                None => match self.opened(&mut replaced) {
                    Some(opened) => opened,
                    None => break,
                },
            };
            self = next;
        }
        let known = |column: &&Column| self.scope.schema.is_column_from_schema(column);
        replaced.retain(|one| one.column_refs().iter().all(known));
        self.scope.conditions.extend(replaced);
        self
    }

    /// True if all conditions are conditions on one row below.
    fn loses_nothing(&self) -> bool {
        let Some(below) = below(&self.exprs, &self.scope, &self.traces) else { return false };
        let is_below = |one| written_below(one, &self.scope, &self.traces, &below).is_some();
        self.scope.conditions.iter().all(is_below)
    }

    /// The same rows together with the rows below from which their columns are computed. The
    /// expressions and conditions name columns of these. The conditions that they replace are
    /// added to `replaced`.
    fn opened(&self, replaced: &mut Vec<Expr>) -> Option<Self> {
        let Self { exprs, scope, traces } = self;
        let mut belows: Vec<Arc<Below>> = Vec::new();
        for column in exprs.iter().chain(&scope.conditions).flat_map(Expr::column_refs) {
            let Some(own) = of_row(column, scope, traces) else { continue };
            if belows.iter().all(|known| !Arc::ptr_eq(known, &own.below)) {
                belows.push(Arc::clone(&own.below));
            }
        }
        if belows.is_empty() {
            return None;
        }
        let fields = scope.schema.iter().map(|(of, field)| (of.cloned(), Arc::clone(field)));
        let mut fields: Vec<_> = fields.collect();
        let mut all = self.clone();
        let mut places = Vec::new();
        for below in &belows {
            // Columns of different rows may have one name.
            let table = TableReference::bare(format!("{RESERVED}_below{}", fields.len()));
            places.push(table.clone());
            for (i, (_, field)) in below.scope.schema.iter().enumerate() {
                let field = field.as_ref().clone().with_name(format!("c{i}"));
                fields.push((Some(table.clone()), Arc::new(field)));
            }
            all.scope.facts.extend(below.scope.facts.iter().cloned());
            all.traces.extend(below.traces.iter().cloned());
        }
        let schema = DFSchema::new_with_metadata(fields, scope.schema.metadata().clone());
        all.scope.schema = Arc::new(schema.ok()?);
        let renamed = |expr: &Expr, place: usize| {
            let (below, table) = (belows.get(place)?, places.get(place)?);
            let name = |column: &Column| {
                let index = below.scope.schema.maybe_index_of_column(column)?;
                Some(Expr::Column(Column::new(Some(table.clone()), format!("c{index}"))))
            };
            with_columns(expr, &name)
        };
        let moved = |column: &Column| {
            let own = of_row(column, scope, traces)?;
            let place = belows.iter().position(|below| Arc::ptr_eq(below, &own.below))?;
            renamed(&own.expr, place)
        };
        let written = |expr: &Expr| {
            with_columns(expr, &|column| {
                moved(column).or_else(|| Some(Expr::Column(column.clone())))
            })
        };
        all.exprs = exprs.iter().map(written).collect::<Option<_>>()?;
        all.scope.conditions.clear();
        for condition in &scope.conditions {
            let own = written(condition)?;
            if own != *condition {
                replaced.push(condition.clone());
            }
            all.scope.conditions.push(own);
        }
        for (place, below) in belows.iter().enumerate() {
            let own = below.scope.conditions.iter().map(|one| renamed(one, place));
            all.scope.conditions.extend(own.flatten());
        }
        Some(all)
    }

    fn below(&self) -> Option<Self> {
        let Self { exprs, scope, traces } = self;
        let below = below(exprs, scope, traces)?;
        let written = |expr| written_below(expr, scope, traces, &below);
        let exprs = exprs.iter().map(written).collect::<Option<Vec<_>>>()?;
        let mut scope_below = below.scope.clone();
        scope_below.conditions.extend(scope.conditions.iter().filter_map(written));
        Some(Self { exprs, scope: scope_below, traces: below.traces.clone() })
    }
}

/// The rows below, if all columns of some expressions are computed from one row of them.
fn below(exprs: &[Expr], scope: &Scope, traces: &[Trace]) -> Option<Arc<Below>> {
    let mut found: Option<Arc<Below>> = None;
    for column in exprs.iter().flat_map(Expr::column_refs) {
        let own = &of_row(column, scope, traces)?.below;
        if found.as_ref().is_some_and(|known| !Arc::ptr_eq(known, own)) {
            return None;
        }
        found = Some(Arc::clone(own));
    }
    found
}

/// The expression of a column over one row below.
fn of_row<'a>(column: &Column, scope: &Scope, traces: &'a [Trace]) -> Option<&'a OfRow> {
    let trace = traces.get(scope.schema.maybe_index_of_column(column)?)?;
    trace.of_row.as_deref().filter(|_| !trace.padded)
}

/// An expression over the rows below; `None` if one of its columns comes from elsewhere.
fn written_below(expr: &Expr, scope: &Scope, traces: &[Trace], below: &Arc<Below>) -> Option<Expr> {
    with_columns(expr, &|column| {
        let own = of_row(column, scope, traces)?;
        Arc::ptr_eq(&own.below, below).then(|| own.expr.clone())
    })
}

/// An expression with other expressions in place of its columns; `None` if a column has none.
fn with_columns(expr: &Expr, own: &dyn Fn(&Column) -> Option<Expr>) -> Option<Expr> {
    let mut is_whole = true;
    let written = expr.clone().transform_up(|part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let own = own(column);
        is_whole &= own.is_some();
        Ok(own.map_or_else(|| Transformed::no(part.clone()), Transformed::yes))
    });
    written.ok().filter(|_| is_whole).map(|written| written.data)
}
