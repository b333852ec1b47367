//! The combinations of keys that rows can have which are joined with public rows.
//!
//! In: keys and conditions over private rows that are joined with public tables. Out: for keys that
//! conditions connect with public rows, the combinations that occur on a row of the join, whatever
//! the private rows are. If no row can occur at all, a refusal before the charge.
//!
//! ```text
//! v JOIN d ON v.day = d.day JOIN w ON v.day = w.day GROUP BY d.label, w.sky     the pairs of one day
//! v LEFT JOIN p ON p.k = v.k WHERE p.x = 1 GROUP BY p.label                     no NULL: x of no match is NULL
//! v JOIN m ON EXTRACT(MONTH FROM v.ts) = m.month GROUP BY m.name                the months of v.ts
//! v JOIN w ON v.k = w.k WHERE w.c = 'q'       no row of w has c = 'q': refused
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::MOST_KEYS;
use super::implied_equalities::implied_equalities;
use super::joined_rows::{Joining, Side, Term};
use super::key_image::{Told, atoms_of, by_day, told};
use super::of_column::{rows_left, with_known_keys};
use super::siblings::SiblingRows;
use super::trial::{Atom, MOST_PARTS, atom, is_late, makes_texts};
use crate::analysis::below::column_origin::Trace;
use crate::analysis::below::relation::{PrivateRelation, has_subquery};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::shape::{parts_of, readable};
use crate::catalog::RESERVED;
use crate::refusal::{Reason, Refusal};

/// A private column with at most this many values is tried with each of them.
const FEW: usize = 4_096;

/// The longest conditions that a refusal quotes.
const MOST_OF_A_CLAUSE: usize = 1_000;

/// The combinations that some keys can have on a row of a join with public rows.
#[derive(Debug)]
pub(super) struct JoinedKeys {
    /// The positions of the keys among the expressions, in ascending order.
    pub(super) places: Vec<usize>,
    pub(super) rows: Vec<Vec<ScalarValue>>,
}

/// The combinations of the keys that conditions connect with public rows. The keys are given with
/// their positions, and with whether NULL is among their own keys.
///
/// # Guarantee
/// On every row of the scope, the keys of each result have one of its combinations; or one of them
/// is NULL or NaN, and this is not among its keys. The combinations depend only on the query, the
/// declarations and public rows.
pub(super) fn joined_keys(
    exprs: &BTreeMap<usize, (Expr, bool)>,
    scope: &Scope,
    traces: &[Trace],
    tables: &dyn Tables,
) -> Vec<JoinedKeys> {
    let rows = RowsOfJoin::new(scope, traces, tables);
    let own = exprs.iter().map(|(place, (expr, _))| (*place, by_day(expr, scope)));
    let own: BTreeMap<usize, Expr> = own.collect();
    let parts = rows.connected(&own).into_iter().filter(|part| !part.places.is_empty());
    let found = parts.filter_map(|part| {
        let wanted = part.places.iter().filter_map(|place| own.get(place)).cloned();
        let wanted: Vec<Expr> = wanted.collect();
        if wanted.iter().any(|expr| parts_of(expr) > MOST_PARTS || is_late(expr)) {
            return None;
        }
        let null_keys = part.places.iter().filter_map(|place| exprs.get(place));
        let null_keys: Vec<bool> = null_keys.map(|(_, null_key)| *null_key).collect();
        let rows = rows.combinations(&part, &wanted, &null_keys)?;
        Some(JoinedKeys { places: part.places.into_iter().collect(), rows })
    });
    found.collect()
}

/// Refuses conditions that no row of the public tables meets, whatever the private rows are.
///
/// # Errors
/// The refusal. It depends only on the query, the declarations and public rows.
pub(crate) fn refuse_unmatched(flow: &PrivateRelation, tables: &dyn Tables) -> Result<(), Refusal> {
    refuse_none(&flow.scope, &flow.traces, tables)?;
    // The conditions below a subquery may name columns that it does not have.
    let mut columns = flow.scope.schema.columns().into_iter().zip(&flow.traces);
    let Some((column, _)) = columns.find(|(_, trace)| trace.of_row.is_some()) else {
        return Ok(());
    };
    let (scope, traces) = (flow.scope.clone(), flow.traces.clone());
    let below = SiblingRows { exprs: vec![Expr::Column(column)], scope, traces }.at_the_bottom();
    refuse_none(&below.scope, &below.traces, tables)
}

fn refuse_none(scope: &Scope, traces: &[Trace], tables: &dyn Tables) -> Result<(), Refusal> {
    let rows = RowsOfJoin::new(scope, traces, tables);
    for part in rows.connected(&BTreeMap::new()) {
        if rows.combinations(&part, &[], &[]).is_none_or(|rows| !rows.is_empty()) {
            continue;
        }
        let written = part.conditions.iter().filter(|one| scope.conditions.contains(one));
        let text = written.map(readable).collect::<Vec<_>>().join(" AND ");
        let is_quoted = !text.is_empty() && text.len() <= MOST_OF_A_CLAUSE;
        return Err(Refusal::new(
            Reason::BadValue,
            if is_quoted { text } else { "a join with public rows".to_owned() },
            "no row can pass: no public row that is joined meets these conditions",
            "conditions that a public row meets; SELECT * FROM the public table shows its rows",
        ));
    }
    Ok(())
}

/// Rows of a join: the conditions that hold on each of them, and where their columns come from.
struct RowsOfJoin<'a> {
    scope: &'a Scope,
    traces: &'a [Trace],
    tables: &'a dyn Tables,
    conditions: Vec<Expr>,
}

/// Keys, conditions and columns that are connected with public rows.
#[derive(Default)]
struct Connected {
    places: BTreeSet<usize>,
    conditions: Vec<Expr>,
    columns: BTreeSet<Column>,
}

/// One reading of public rows.
struct PublicReading {
    plan: Arc<LogicalPlan>,
    /// The columns of the scope, with their names in the plan.
    columns: Vec<(Column, Column)>,
    /// True if a row without a match is among the rows: all columns are NULL there.
    padded: bool,
    /// True if only some columns are NULL on a row without a match.
    mixed: bool,
}

impl<'a> RowsOfJoin<'a> {
    fn new(scope: &'a Scope, traces: &'a [Trace], tables: &'a dyn Tables) -> Self {
        let is_tried = |condition: &&Expr| {
            parts_of(condition) <= MOST_PARTS
                && !is_late(condition)
                && !makes_texts(condition)
                && !has_subquery(condition)
                && !condition.is_volatile()
        };
        let conditions = scope.conditions.iter().filter(is_tried);
        let mut conditions: Vec<Expr> = conditions.map(|one| by_day(one, scope)).collect();
        let implied = implied_equalities(&conditions, scope);
        conditions.extend(implied);
        Self { scope, traces, tables, conditions }
    }

    fn trace(&self, column: &Column) -> Option<&Trace> {
        self.traces.get(self.scope.schema.maybe_index_of_column(column)?)
    }

    fn is_public(&self, column: &Column) -> bool {
        self.trace(column).is_some_and(|trace| trace.public.is_some())
    }

    /// The readings of public rows that some columns come from.
    fn sources(&self, columns: &BTreeSet<Column>) -> Vec<PublicReading> {
        let mut sources: Vec<PublicReading> = Vec::new();
        for column in columns {
            let Some(trace) = self.trace(column) else { continue };
            let Some((plan, name)) = trace.public.clone() else { continue };
            let padded = trace.padded;
            let named = (column.clone(), name);
            match sources.iter_mut().find(|source| Arc::ptr_eq(&source.plan, &plan)) {
                Some(source) => {
                    source.mixed |= source.padded != padded;
                    source.columns.push(named);
                }
                None => {
                    sources.push(PublicReading { plan, columns: vec![named], padded, mixed: false })
                }
            }
        }
        sources
    }

    /// The keys, conditions and columns that are connected with each other and with public rows.
    fn connected(&self, exprs: &BTreeMap<usize, Expr>) -> Vec<Connected> {
        let columns = |expr: &Expr| expr.column_refs().into_iter().cloned().collect();
        let mut parts: Vec<Connected> = Vec::new();
        let keys = exprs.iter().map(|(place, expr)| Connected {
            places: BTreeSet::from([*place]),
            columns: columns(expr),
            ..Connected::default()
        });
        let conditions = self.conditions.iter().map(|condition| Connected {
            conditions: vec![condition.clone()],
            columns: columns(condition),
            ..Connected::default()
        });
        let all: Vec<Connected> = keys.chain(conditions).collect();
        let named: BTreeSet<Column> = all.iter().flat_map(|one| one.columns.clone()).collect();
        let sources = self.sources(&named).into_iter().map(|source| Connected {
            columns: source.columns.into_iter().map(|(column, _)| column).collect(),
            ..Connected::default()
        });
        for mut one in all.into_iter().chain(sources.collect::<Vec<_>>()) {
            let touches = |part: &Connected| !part.columns.is_disjoint(&one.columns);
            let (joined, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(touches);
            for part in joined {
                one.places.extend(part.places);
                one.conditions.extend(part.conditions);
                one.columns.extend(part.columns);
            }
            parts = rest;
            parts.push(one);
        }
        let is_known = |part: &Connected| {
            part.columns.iter().any(|column| self.is_public(column)) && !part.conditions.is_empty()
        };
        parts.retain(is_known);
        parts
    }

    /// The combinations of connected keys.
    fn combinations(
        &self,
        part: &Connected,
        wanted: &[Expr],
        null_keys: &[bool],
    ) -> Option<Vec<Vec<ScalarValue>>> {
        let mut conditions = part.conditions.clone();
        let mut sides = self.public_sides(part)?;
        if sides.iter().any(|side| side.len() == 0) {
            return Some(Vec::new());
        }
        sides.extend(self.private_sides(part, wanted, &mut conditions));
        Joining::new(sides, &conditions, wanted, self.tables)?.combinations(null_keys)
    }

    /// The public rows. A reading with too many rows is left out.
    fn public_sides(&self, part: &Connected) -> Option<Vec<Side>> {
        let mut sides = Vec::new();
        for source in self.sources(&part.columns) {
            if source.mixed {
                continue;
            }
            let side = self.public_side(&source, sides.len());
            sides.extend(side);
        }
        (!sides.is_empty()).then_some(sides)
    }

    fn public_side(&self, source: &PublicReading, number: usize) -> Option<Side> {
        let name = |i: usize| format!("{RESERVED}_public{number}_{i}");
        let left = rows_left(&source.plan, self.scope, self.traces, self.tables);
        let columns = source.columns.iter().enumerate();
        let columns = columns.map(|(i, (_, own))| Expr::Column(own.clone()).alias(name(i)));
        let plan = LogicalPlanBuilder::from(left.as_ref().clone())
            .project(columns)
            .and_then(LogicalPlanBuilder::distinct)
            .and_then(|rows| rows.limit(0, Some(MOST_KEYS + 1)))
            .and_then(LogicalPlanBuilder::build)
            .ok()?;
        let rows = self.tables.read(&plan)?;
        if rows.num_rows() > MOST_KEYS {
            return None;
        }
        let rows = if source.padded { with_row_of_nulls(&rows)? } else { rows };
        let terms = source.columns.iter().zip(rows.columns()).enumerate();
        let terms = terms.map(|(i, ((column, _), values))| Term {
            expr: Expr::Column(column.clone()),
            name: name(i),
            data_type: values.data_type().clone(),
            facts: Facts::of_type(values.data_type()),
            null_counts: true,
        });
        let terms: Vec<Term> = terms.collect();
        Side::new(terms, rows.columns().to_vec())
    }

    /// The values of the private columns. Conditions that these values do not decide are removed.
    fn private_sides(
        &self,
        part: &Connected,
        wanted: &[Expr],
        conditions: &mut Vec<Expr>,
    ) -> Vec<Side> {
        let mut atoms: Vec<Atom> = Vec::new();
        for column in part.columns.iter().filter(|column| !self.is_public(column)) {
            let own = Expr::Column(column.clone());
            let scope = with_known_keys(&own, self.scope, self.traces, self.tables);
            if let Some(few) = atom(&own, &scope).filter(|few| few.values.len() <= FEW) {
                atoms.push(few);
                continue;
            }
            let names = |expr: &&Expr| expr.column_refs().contains(column);
            let keys: Vec<Expr> = wanted.iter().filter(names).cloned().collect();
            let keys = if keys.is_empty() { vec![lit(true)] } else { keys };
            let about: Vec<Expr> = conditions.iter().filter(names).cloned().collect();
            let told_of: Vec<&Expr> = about.iter().collect();
            let found = told(column, &keys, &told_of, &scope, self.tables);
            if let Some(Told { atom, left_out }) = found
                && left_out.len() < about.len()
            {
                conditions.retain(|condition| !left_out.contains(&condition));
                atoms.push(atom);
                continue;
            }
            // The smallest enclosing expressions with few values take its place.
            for expr in about.iter().chain(&keys) {
                let enclosing = enclosing(expr, column, &scope);
                for one in enclosing.into_iter().filter(|one| one.values.len() <= FEW) {
                    if atoms.iter().all(|known| known.expr != one.expr) {
                        atoms.push(one);
                    }
                }
            }
        }
        let sides = atoms.into_iter().enumerate().filter_map(|(i, atom)| {
            let term = Term {
                expr: atom.expr,
                name: format!("{RESERVED}_private{i}"),
                data_type: atom.data_type,
                facts: atom.facts,
                null_counts: atom.null_key,
            };
            Side::new(vec![term], vec![atom.values])
        });
        sides.collect()
    }
}

/// The smallest expressions around a column that have few values.
fn enclosing(expr: &Expr, column: &Column, scope: &Scope) -> Vec<Atom> {
    let columns = expr.column_refs();
    if !columns.contains(column) || expr.try_as_col().is_some() {
        return Vec::new();
    }
    if columns.len() == 1
        && let Some(found) = atoms_of(expr, scope)
    {
        return found;
    }
    let mut found = Vec::new();
    for child in children(expr) {
        found.extend(enclosing(&child, column, scope));
    }
    found
}

fn children(expr: &Expr) -> Vec<Expr> {
    let mut all = Vec::new();
    let walked = expr.apply_children(|child| {
        all.push(child.clone());
        Ok(TreeNodeRecursion::Continue)
    });
    if walked.is_ok() { all } else { Vec::new() }
}

/// The same rows, and one in which all columns are NULL.
fn with_row_of_nulls(rows: &RecordBatch) -> Option<RecordBatch> {
    let one = |values: &ArrayRef| {
        let null = new_null_array(values.data_type(), 1);
        concat(&[values.as_ref(), null.as_ref()]).ok()
    };
    let columns = rows.columns().iter().map(one).collect::<Option<Vec<_>>>()?;
    let schema = rows.schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone());
    let fields: Vec<Field> = fields.map(|field| field.with_nullable(true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows() + 1));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).ok()
}
