//! Evaluates expressions while a query is planned, on the rows that a join of public rows with
//! possible private rows has.
//!
//! In: sides, each with some rows: the rows of a public table, or the values that a private column
//! can have; and conditions over them. Out: the distinct combinations of values that expressions
//! have on rows that meet all conditions. The sides are joined one by one, and only the columns
//! that are still needed are kept.
//!
//! ```text
//! d: (1, 'mon'), (2, 'tue')   w: (2, 'rain')   v.day: 1, 2, NULL     d.day = v.day AND w.day = v.day
//!   (d.label, w.sky)          ('tue', 'rain')
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, ScalarValue, TableReference};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlanBuilder, Operator, lit};

use super::trial::{MOST_TRIED, distinct_keys, makes_texts};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::shape::type_of;
use crate::catalog::RESERVED;
use crate::functions::without_nan;

/// The largest number of rows that a join of two sides on equal columns may have.
const MOST_JOINED: usize = 4 * MOST_TRIED;

/// The most rows for which expressions are tried that make long texts from short ones.
const MOST_TEXTS: usize = 1_000;

/// An expression whose values are the values of a column here.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    pub(crate) expr: Expr,
    /// The column's name, which no other term has.
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) facts: Facts,
    /// True if NULL counts here even if no condition names the term. Public rows have the NULLs
    /// that they have; for a private column, NULL is tried in any case.
    pub(crate) null_counts: bool,
}

/// Some terms, and the rows that they have together.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) terms: Vec<Term>,
    pub(crate) rows: RecordBatch,
}

impl Side {
    /// A side with these values of its terms.
    pub(crate) fn new(terms: Vec<Term>, values: Vec<ArrayRef>) -> Option<Self> {
        let fields = terms.iter().map(|term| Field::new(&term.name, term.data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Some(Self { terms, rows: RecordBatch::try_new(schema, values).ok()? })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    fn has(&self, name: &str) -> bool {
        self.terms.iter().any(|term| term.name == name)
    }

    fn scan(&self, tables: &dyn Tables) -> Option<LogicalPlanBuilder> {
        let first = self.terms.first()?;
        let table = TableReference::bare(format!("{RESERVED}_rows_of_{}", first.name));
        LogicalPlanBuilder::scan(table, tables.pinned(self.rows.clone())?, None).ok()
    }
}

/// A condition over terms.
#[derive(Debug, Clone)]
struct Met {
    expr: Expr,
    names: BTreeSet<String>,
}

/// What remains to be joined.
pub(crate) struct Joining<'a> {
    tables: &'a dyn Tables,
    sides: Vec<Side>,
    conditions: Vec<Met>,
    wanted: Vec<Met>,
    /// The terms of private columns whose NULLs count only where no key is NULL without reason.
    unnamed: BTreeSet<String>,
}

impl<'a> Joining<'a> {
    /// Sides with conditions, and the expressions that are wanted. Conditions that name other
    /// columns are ignored; `None` if a wanted expression does.
    pub(crate) fn new(
        sides: Vec<Side>,
        conditions: &[Expr],
        wanted: &[Expr],
        tables: &'a dyn Tables,
    ) -> Option<Self> {
        let terms: Vec<&Term> = sides.iter().flat_map(|side| &side.terms).collect();
        let conditions: Vec<Met> =
            conditions.iter().filter_map(|condition| over_terms(condition, &terms)).collect();
        let wanted = wanted.iter().map(|expr| over_terms(expr, &terms)).collect::<Option<_>>()?;
        let named: BTreeSet<&String> = conditions.iter().flat_map(|met| &met.names).collect();
        let is_unnamed = |term: &&&Term| !term.null_counts && !named.contains(&term.name);
        let unnamed = terms.iter().filter(is_unnamed).map(|term| term.name.clone()).collect();
        Some(Self { tables, conditions, wanted, unnamed, sides })
    }

    /// The distinct combinations of the wanted expressions' values. For each of them, `null_keys`
    /// tells whether NULL is among its own keys. `None` if there are too many to try.
    ///
    /// # Guarantee
    /// Each row that combines one row of each side and meets the conditions has one of these
    /// combinations; or one of them is NULL or NaN, and this is not among its keys.
    pub(crate) fn combinations(mut self, null_keys: &[bool]) -> Option<Vec<Vec<ScalarValue>>> {
        let mut joined: Option<Side> = None;
        while let Some(next) = self.next_side(joined.as_ref()) {
            let side = self.sides.remove(next);
            let is_wanted = side.terms.iter().any(|term| self.is_wanted(&term.name));
            let larger = match &joined {
                None => self.filtered(&side),
                Some(known) => self.joined(known, &side),
            };
            match larger {
                Some(larger) if larger.len() == 0 => return Some(Vec::new()),
                Some(larger) => joined = Some(larger),
                None if is_wanted || joined.is_none() => return None,
                // Without this side and its conditions, more combinations remain.
                None => self.conditions.retain(|met| !met.names.iter().any(|n| side.has(n))),
            }
        }
        // Sides that no condition connects exclude rows only if they have none themselves.
        if !self.sides.is_empty() {
            let rest = Joining { wanted: Vec::new(), ..self };
            let (tables, unnamed) = (rest.tables, rest.unnamed.clone());
            let none = rest.combinations(&[]).is_some_and(|rows| rows.is_empty());
            return match (none, joined) {
                (true, _) => Some(Vec::new()),
                (false, Some(joined)) => values(&joined, &self.wanted, null_keys, &unnamed, tables),
                (false, None) => None,
            };
        }
        values(&joined?, &self.wanted, null_keys, &self.unnamed, self.tables)
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted.names.contains(name))
    }

    /// The side to join next: one that a condition connects, equal columns first, or one that is
    /// wanted; of several, the smallest. `None` if nothing connects the others.
    fn next_side(&self, joined: Option<&Side>) -> Option<usize> {
        let rank = |side: &Side| {
            let wanted = side.terms.iter().any(|term| self.is_wanted(&term.name));
            let Some(joined) = joined else { return Some(u8::from(!wanted)) };
            let touches = |met: &&Met| {
                met.names.iter().any(|name| joined.has(name))
                    && met.names.iter().any(|name| side.has(name))
            };
            let met: Vec<&Met> = self.conditions.iter().filter(touches).collect();
            let is_whole = |met: &&&Met| met.names.iter().all(|n| joined.has(n) || side.has(n));
            if met.iter().filter(is_whole).any(|met| self.equates(met, joined, side).is_some()) {
                return Some(0);
            }
            if met.iter().any(|met| is_whole(&met)) {
                return Some(1);
            }
            if !met.is_empty() {
                return Some(2);
            }
            wanted.then_some(3)
        };
        let ranked = self.sides.iter().enumerate();
        let ranked = ranked.filter_map(|(i, side)| Some(((rank(side)?, side.len()), i)));
        ranked.min().map(|(_, i)| i)
    }

    /// The two sides of an equality that connects two sides on columns of one type.
    fn equates(&self, met: &Met, left: &Side, right: &Side) -> Option<(Expr, Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left: l, op: Operator::Eq, right: r }) = &met.expr else {
            return None;
        };
        let within = |expr: &Expr, side: &Side| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|column| side.has(&column.name))
        };
        let (l, r) = if within(l, left) && within(r, right) {
            (l, r)
        } else if within(l, right) && within(r, left) {
            (r, l)
        } else {
            return None;
        };
        let made = |expr: &Expr, side: &Side| {
            let scope = scope_of(side.scan(self.tables)?.schema(), &[side])?;
            let made = exact(expr, &scope).ok()?.expr;
            let data_type = type_of(&made, &scope.schema).ok()?;
            // Equal floats can differ: −0.0 and 0.0.
            (!data_type.is_floating()).then_some((made, data_type))
        };
        let ((l, from), (r, to)) = (made(l, left)?, made(r, right)?);
        (from == to).then_some((l, r))
    }

    /// The rows of one side that meet the conditions on it alone.
    fn filtered(&mut self, side: &Side) -> Option<Side> {
        let plan = side.scan(self.tables)?;
        self.reduced(plan, &[side], &[])
    }

    /// The rows of two sides that meet the conditions on them; `None` if there are too many.
    fn joined(&mut self, left: &Side, right: &Side) -> Option<Side> {
        // Conditions on the new side alone leave fewer rows to join.
        let right = &self.filtered(right)?;
        if right.len() == 0 {
            return Some(right.clone());
        }
        let found: Vec<(Met, (Expr, Expr))> = self
            .conditions
            .iter()
            .filter(|met| met.names.iter().all(|n| left.has(n) || right.has(n)))
            .filter_map(|met| Some((met.clone(), self.equates(met, left, right)?)))
            .collect();
        let (used, on): (Vec<Met>, Vec<(Expr, Expr)>) = found.into_iter().unzip();
        let (l, r) = (left.scan(self.tables)?, right.scan(self.tables)?);
        let pairs = left.len().checked_mul(right.len())?;
        let plan = match on.is_empty() {
            true if pairs > MOST_TRIED => return None,
            true => l.cross_join(r.build().ok()?).ok()?,
            false => {
                let on: (Vec<Expr>, Vec<Expr>) = on.into_iter().unzip();
                l.join_with_expr_keys(r.build().ok()?, JoinType::Inner, on, None).ok()?
            }
        };
        if pairs > MOST_JOINED && self.count(&plan)? > MOST_JOINED {
            return None;
        }
        self.reduced(plan, &[left, right], &used)
    }

    /// The number of rows of a plan, as far as it matters here.
    fn count(&self, plan: &LogicalPlanBuilder) -> Option<usize> {
        let plan = plan.clone().limit(0, Some(MOST_JOINED + 1)).ok()?;
        let plan = plan.aggregate(Vec::<Expr>::new(), vec![count(lit(1))]).ok()?;
        let rows = self.tables.read(&plan.build().ok()?)?;
        let counted = rows.columns().first()?.as_primitive_opt::<Int64Type>()?;
        usize::try_from(counted.iter().next()??).ok()
    }

    /// The distinct rows of a plan that meet the conditions on its terms, with the terms that are
    /// still needed.
    fn reduced(
        &mut self,
        mut plan: LogicalPlanBuilder,
        sides: &[&Side],
        used: &[Met],
    ) -> Option<Side> {
        let scope = scope_of(plan.schema(), sides)?;
        let is_here = |name: &String| sides.iter().any(|side| side.has(name));
        let (here, later): (Vec<Met>, Vec<Met>) =
            self.conditions.drain(..).partition(|met| met.names.iter().all(is_here));
        self.conditions = later;
        for met in here.iter().filter(|met| used.iter().all(|used| used.expr != met.expr)) {
            // A condition that cannot be made total excludes nothing here.
            if let Ok(made) = exact(&met.expr, &scope) {
                plan = plan.filter(made.expr).ok()?;
            }
        }
        let is_needed = |name: &String| {
            self.is_wanted(name)
                || self.unnamed.contains(name) && !self.wanted.is_empty()
                || self.conditions.iter().any(|met| met.names.contains(name))
        };
        let all: Vec<&Term> = sides.iter().flat_map(|side| &side.terms).collect();
        let mut terms: Vec<Term> =
            all.iter().filter(|term| is_needed(&term.name)).map(|term| (*term).clone()).collect();
        // One column tells whether there is a row.
        if terms.is_empty() {
            terms.extend(all.first().map(|term| (*term).clone()));
        }
        let columns = terms.iter().map(|term| column_of(&scope.schema, &term.name));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let plan = plan.project(columns).and_then(LogicalPlanBuilder::distinct).ok()?;
        let plan = plan.limit(0, Some(MOST_TRIED + 1)).and_then(LogicalPlanBuilder::build).ok()?;
        let rows = self.tables.read(&plan)?;
        (rows.num_rows() <= MOST_TRIED).then_some(Side { terms, rows })
    }
}

/// The distinct values of expressions on some rows.
fn values(
    rows: &Side,
    wanted: &[Met],
    null_keys: &[bool],
    unnamed: &BTreeSet<String>,
    tables: &dyn Tables,
) -> Option<Vec<Vec<ScalarValue>>> {
    if wanted.is_empty() {
        // Whether there is a row is all that is asked.
        return Some(vec![Vec::new(); rows.len().min(1)]);
    }
    if rows.len() > MOST_TEXTS && wanted.iter().any(|wanted| makes_texts(&wanted.expr)) {
        return None;
    }
    let plan = rows.scan(tables)?;
    let scope = scope_of(plan.schema(), &[rows])?;
    let mut columns = Vec::new();
    for (i, wanted) in wanted.iter().enumerate() {
        let made = exact(&wanted.expr, &scope).ok()?.expr;
        let data_type = type_of(&made, &scope.schema).ok()?;
        columns.push(without_nan(made, &data_type).alias(format!("value{i}")));
    }
    let unnamed = rows.terms.iter().filter(|term| unnamed.contains(&term.name));
    let present = unnamed.map(|term| Some(column_of(&scope.schema, &term.name)?.is_not_null()));
    let named = present.collect::<Option<Vec<_>>>()?.into_iter().reduce(Expr::and);
    columns.push(named.unwrap_or_else(|| lit(true)).alias("named"));
    distinct_keys(plan, columns, null_keys, tables)
}

/// The scope of joined sides.
fn scope_of(schema: &DFSchemaRef, sides: &[&Side]) -> Option<Scope> {
    let facts = sides.iter().flat_map(|side| &side.terms).map(|term| term.facts.clone());
    let facts: Vec<Facts> = facts.map(|facts| Facts { nullable: true, ..facts }).collect();
    (facts.len() == schema.fields().len()).then(|| Scope::new(schema.clone(), facts))
}

/// The column of a term, as a schema qualifies it.
fn column_of(schema: &DFSchemaRef, name: &str) -> Option<Expr> {
    let mut columns = schema.columns().into_iter();
    columns.find(|column| column.name == name).map(Expr::Column)
}

/// An expression over terms; `None` if it names other columns.
fn over_terms(expr: &Expr, terms: &[&Term]) -> Option<Met> {
    let mut names = BTreeSet::new();
    let mut is_whole = true;
    let rewritten = expr.clone().transform_down(|part| {
        if let Some(term) = terms.iter().find(|term| term.expr == part) {
            names.insert(term.name.clone());
            let column = Expr::Column(Column::from_name(&term.name));
            return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
        }
        is_whole &= part.try_as_col().is_none();
        Ok(Transformed::no(part))
    });
    let expr = rewritten.ok().filter(|_| is_whole)?.data;
    Some(Met { expr, names })
}
