//! Queries over the catalog, and their rows.
//!
//! Relations are joined one after the other. A condition is applied as soon as its columns are
//! available, and an equality of two columns finds its rows by an index. The number of rows is
//! bounded.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::aggregates::{aggregated, grouped};
use super::compile::{Aggregate, Extra, NamedColumns, Sort};
use super::datum::{Datum, Row, Unanswered};
use super::kept_relations::{IndexKey, IndexedRows, RowPlaces};
use super::node::{Comparison, Env, Node, SubqueryRows};
use super::order::{number, sort};
use super::set_functions;

/// The most values in the rows of a join, and the most rounds of a recursion.
const MOST_CELLS: usize = 4_000_000;
const MOST_ROUNDS: usize = 100;

/// From this number of rows on, a first source is reduced to the rows that can have partners.
const MANY_ROWS: usize = 500;

/// A query.
#[derive(Debug)]
pub(super) struct CatalogQuery {
    pub(super) columns: NamedColumns,
    pub(super) body: Body,
    /// Over the columns of the answer, and further sort columns after them.
    pub(super) order: Vec<Sort>,
    /// DISTINCT ON: the places of its keys. The first row of each in the order is kept.
    pub(super) first_of: Vec<usize>,
    pub(super) limit: Option<Node>,
    pub(super) offset: Option<Node>,
}

#[derive(Debug)]
pub(super) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Node>>),
    Set {
        left: Box<CatalogQuery>,
        right: Box<CatalogQuery>,
        how: SetOperation,
        all: bool,
    },
    /// `WITH RECURSIVE`: rows, and those that follow from the rows of the previous round.
    Recursive {
        base: Box<CatalogQuery>,
        step: Box<CatalogQuery>,
        work: Rc<RefCell<Vec<Row>>>,
        all: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// SELECT … FROM … WHERE … GROUP BY … HAVING.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) sources: Vec<FromItem>,
    pub(super) filter: Vec<Node>,
    pub(super) groups: Option<Groups>,
    /// Columns that follow those of the sources.
    pub(super) extras: Vec<Extra>,
    /// The selected columns, and sort columns after them.
    pub(super) items: Vec<Node>,
    pub(super) distinct: bool,
}

#[derive(Debug)]
pub(super) struct Groups {
    pub(super) keys: Vec<Node>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) having: Option<Node>,
}

/// A source in FROM or JOIN.
#[derive(Debug)]
pub(super) struct FromItem {
    pub(super) width: usize,
    pub(super) from: From,
    pub(super) join: Join,
    pub(super) on: Vec<Node>,
}

/// How a source is joined with those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Inner,
    Left,
    Right,
    Full,
}

impl Join {
    fn keeps_left(self) -> bool {
        matches!(self, Self::Left | Self::Full)
    }

    fn keeps_right(self) -> bool {
        matches!(self, Self::Right | Self::Full)
    }
}

#[derive(Debug)]
pub(super) enum From {
    /// The rows of a relation, and its number.
    Table(Arc<IndexedRows>, i64),
    Plan {
        plan: Box<CatalogQuery>,
        lateral: bool,
    },
    /// A function that returns rows, or one value.
    Call {
        name: String,
        values: Vec<Node>,
        numbered: bool,
        width: usize,
    },
    Working(Rc<RefCell<Vec<Row>>>),
}

impl CatalogQuery {
    /// For each column of the answer, the relation and the number of the column that it is.
    pub(super) fn origins(&self) -> Vec<Option<(u32, u16)>> {
        let Body::Select(select) = &self.body else { return Vec::new() };
        let origin = |item: &Node| {
            let Node::Column { depth: 0, index } = item else { return None };
            let mut before = 0;
            for source in &select.sources {
                if *index < before + source.width {
                    let From::Table(_, number) = &source.from else { return None };
                    let place = u16::try_from(index - before + 1).ok()?;
                    return Some((u32::try_from(*number).ok()?, place));
                }
                before += source.width;
            }
            None
        };
        select.items.iter().take(self.columns.len()).map(origin).collect()
    }
}

impl SubqueryRows for CatalogQuery {
    fn rows(&self, env: &Env<'_>) -> Result<Vec<Row>, Unanswered> {
        let mut rows = match &self.body {
            Body::Select(select) => select.rows(env)?,
            Body::Values(rows) => {
                let row = |row: &Vec<Node>| row.iter().map(|node| node.value(env)).collect();
                rows.iter().map(row).collect::<Result<_, _>>()?
            }
            Body::Set { left, right, how, all } => {
                let (mut left, right) = (left.rows(env)?, right.rows(env)?);
                env.steps.take(left.len() + right.len())?;
                match how {
                    SetOperation::Union => left.extend(right),
                    SetOperation::Intersect | SetOperation::Except => {
                        let right: BTreeSet<Row> = right.into_iter().collect();
                        left.retain(|row| right.contains(row) == (*how == SetOperation::Intersect));
                    }
                }
                if !all {
                    distinct(&mut left, self.columns.len());
                }
                left
            }
            Body::Recursive { base, step, work, all } => recursive(env, (base, step), work, *all)?,
        };
        sort(&mut rows, &self.order, env)?;
        if !self.first_of.is_empty() {
            let mut seen = BTreeSet::new();
            let key = |row: &Row| -> Row {
                self.first_of.iter().filter_map(|place| row.get(*place).cloned()).collect()
            };
            rows.retain(|row| seen.insert(key(row)));
        }
        let count =
            |node: &Option<Node>| match node.as_ref().map(|node| node.value(env)).transpose()? {
                None | Some(Datum::Null) => Ok(None),
                Some(value) => value
                    .int()
                    .and_then(|n| usize::try_from(n).ok())
                    .map(Some)
                    .ok_or(Unanswered::Unclear),
            };
        if let Some(offset) = count(&self.offset)? {
            rows.drain(..offset.min(rows.len()));
        }
        if let Some(limit) = count(&self.limit)? {
            rows.truncate(limit);
        }
        rows.iter_mut().for_each(|row| row.truncate(self.columns.len()));
        Ok(rows)
    }
}

fn recursive(
    env: &Env<'_>,
    (base, step): (&CatalogQuery, &CatalogQuery),
    work: &RefCell<Vec<Row>>,
    all: bool,
) -> Result<Vec<Row>, Unanswered> {
    let mut fresh = base.rows(env)?;
    let mut rows = fresh.clone();
    let mut seen: BTreeSet<Row> = fresh.iter().cloned().collect();
    for _ in 0..MOST_ROUNDS {
        if fresh.is_empty() {
            return Ok(rows);
        }
        let before = work.replace(fresh);
        let found = step.rows(env);
        work.replace(before);
        fresh = found?;
        fresh.retain(|row| seen.insert(row.clone()) || all);
        env.steps.take(fresh.iter().map(Vec::len).sum())?;
        rows.extend(fresh.iter().cloned());
    }
    Err(Unanswered::TooLong)
}

/// Keeps one of several rows that are equal in the first `columns` columns.
fn distinct(rows: &mut Vec<Row>, columns: usize) {
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert(row.iter().take(columns).cloned().collect::<Row>()));
}

impl Select {
    fn rows(&self, env: &Env<'_>) -> Result<Vec<Row>, Unanswered> {
        let mut rows = self.joined(env)?;
        for extra in &self.extras {
            match extra {
                Extra::Number(window) => number(window, &mut rows, env)?,
                Extra::Set { name, values } => rows = expanded(name, values, rows, env)?,
            }
        }
        let mut answer = Vec::new();
        match &self.groups {
            None => {
                for row in &rows {
                    answer.push(self.selected(&Env { row, ..*env })?);
                }
            }
            Some(groups) => {
                for (first, members) in grouped(&groups.keys, rows, env)? {
                    let aggregates =
                        groups.aggregates.iter().map(|one| aggregated(one, &members, env));
                    let aggregates = aggregates.collect::<Result<Row, _>>()?;
                    let here = Env { row: &first, aggregates: &aggregates, ..*env };
                    let having =
                        groups.having.as_ref().map(|node| node.value(&here)).transpose()?;
                    if having.is_none_or(|truth| truth.truth() == Some(true)) {
                        answer.push(self.selected(&here)?);
                    }
                }
            }
        }
        if self.distinct {
            let width = self.items.len();
            distinct(&mut answer, width);
        }
        Ok(answer)
    }

    fn selected(&self, env: &Env<'_>) -> Result<Row, Unanswered> {
        self.items.iter().map(|item| item.value(env)).collect()
    }

    /// The joined rows of all sources that satisfy the conditions.
    fn joined(&self, env: &Env<'_>) -> Result<Vec<Row>, Unanswered> {
        // If one of them has no rows, the join has none.
        let is_empty = |source: &FromItem| match &source.from {
            From::Table(all, _) => all.rows.is_empty() && source.join == Join::Inner,
            From::Plan { .. } | From::Call { .. } | From::Working(_) => false,
        };
        // A source whose own rows all stay is joined before anything is filtered.
        let held = self.sources.iter().rposition(|source| source.join.keeps_right());
        if held.is_none() && self.sources.iter().any(is_empty) {
            return Ok(Vec::new());
        }
        let reach: Vec<usize> = self.filter.iter().map(reach).collect();
        let total: usize = self.sources.iter().map(|source| source.width).sum();
        let mut first = if held.is_none() { self.partnered(env) } else { None };
        let (mut rows, mut width) = (vec![Vec::new()], 0);
        for (place, source) in self.sources.iter().enumerate() {
            let bound = width + source.width;
            let waits = held.is_some_and(|held| place < held);
            let now: Vec<&Node> = self
                .filter
                .iter()
                .zip(&reach)
                .filter(|(_, reach)| {
                    let needs = if **reach == usize::MAX { total } else { **reach };
                    let is_new = needs > width || (width == 0 && needs == 0);
                    !waits && needs <= bound && (is_new || held == Some(place))
                })
                .map(|(node, _)| node)
                .collect();
            rows = join(source, first.take(), rows, width, &now, env)?;
            width = bound;
        }
        if self.sources.is_empty() {
            let here = Env { row: &[], ..*env };
            for node in &self.filter {
                if node.value(&here)?.truth() != Some(true) {
                    return Ok(Vec::new());
                }
            }
        }
        Ok(rows)
    }

    /// The rows of a large first source that can have partners: those whose value is that of a row
    /// of another inner source that satisfies the conditions on this source alone. `None` if that
    /// leaves out less than half of them, or if a condition fails, which it does again in the join.
    fn partnered(&self, env: &Env<'_>) -> Option<Arc<IndexedRows>> {
        let first = self.sources.first()?;
        let From::Table(all, _) = &first.from else { return None };
        if all.rows.len() < MANY_ROWS {
            return None;
        }
        let mut end = first.width;
        for source in self.sources.iter().skip(1) {
            let columns = end..end + source.width;
            end = columns.end;
            let From::Table(others, _) = &source.from else { continue };
            let conditions = || source.on.iter().chain(&self.filter);
            let own: Vec<&Node> = conditions().filter(|node| is_within(node, &columns)).collect();
            let equal = conditions().find_map(|node| equated(node, first.width, &columns));
            let Some((column, other)) = equal.filter(|_| source.join == Join::Inner) else {
                continue;
            };
            if own.is_empty() || others.rows.len() >= MANY_ROWS {
                continue;
            }
            let (index, mut places) = (all.places(column), BTreeSet::new());
            for row in &others.rows {
                let before = std::iter::repeat_n(Datum::Null, columns.start);
                let row: Row = before.chain(row.iter().cloned()).collect();
                if all_true(&own, &row, env).ok()? {
                    let key = IndexKey::of(row.get(other)?);
                    places.extend(index.get(&key).into_iter().flatten().copied());
                }
            }
            if places.len() < all.rows.len() / 2 {
                let rows = places.into_iter().filter_map(|place| all.rows.get(place).cloned());
                return Some(Arc::new(IndexedRows::new(rows.collect())));
            }
        }
        None
    }
}

/// True if an expression reads columns of one source, and nothing else of the query.
fn is_within(node: &Node, columns: &Range<usize>) -> bool {
    let (mut reads_own, mut reads_others) = (false, false);
    node.walk(&mut |node| match node {
        Node::Column { depth: 0, index } if columns.contains(index) => reads_own = true,
        Node::Column { depth: 0, .. } => reads_others = true,
        _ => {}
    });
    reads_own && !reads_others && reach(node) < usize::MAX
}

/// The column of the first source, and the column of another source, that a condition equates.
fn equated(node: &Node, first: usize, columns: &Range<usize>) -> Option<(usize, usize)> {
    let Node::Compare(Comparison::Equal, a, b) = node else { return None };
    let (Node::Column { depth: 0, index: a }, Node::Column { depth: 0, index: b }) = (&**a, &**b)
    else {
        return None;
    };
    let fits = |a: usize, b: usize| (a < first && columns.contains(&b)).then_some((a, b));
    fits(*a, *b).or_else(|| fits(*b, *a))
}

/// Each row once for each value of a function in the list of SELECT, with the value after it.
fn expanded(
    name: &str,
    values: &[Node],
    rows: Vec<Row>,
    env: &Env<'_>,
) -> Result<Vec<Row>, Unanswered> {
    let mut all = Vec::new();
    for row in rows {
        let here = Env { row: &row, ..*env };
        let values = values.iter().map(|node| node.value(&here)).collect::<Result<Row, _>>()?;
        for found in set_functions::rows(env, name, &values, 1)? {
            all.push(row.iter().cloned().chain(found).collect());
        }
    }
    Ok(all)
}

/// The number of first columns of its own query that an expression needs; all of them if it
/// contains a query, which may name any.
fn reach(node: &Node) -> usize {
    let mut reach = 0;
    node.walk(&mut |node| match node {
        Node::Column { depth: 0, index } => reach = reach.max(index + 1),
        Node::Exists(_) | Node::Scalar(_) | Node::ListOf(_) | Node::InQuery(..) => {
            reach = usize::MAX
        }
        _ => {}
    });
    reach
}

/// Joins the rows so far with a source, and keeps the rows that satisfy the conditions. `given` are
/// the rows of the source that may do so, if they are known.
fn join(
    source: &FromItem,
    given: Option<Arc<IndexedRows>>,
    rows: Vec<Row>,
    width: usize,
    filter: &[&Node],
    env: &Env<'_>,
) -> Result<Vec<Row>, Unanswered> {
    let fixed = match &source.from {
        From::Table(all, _) => Some(given.unwrap_or_else(|| Arc::clone(all))),
        From::Working(rows) => Some(Arc::new(IndexedRows::new(rows.borrow().clone()))),
        From::Plan { plan, lateral: false } => {
            Some(Arc::new(IndexedRows::new(plan.rows(&Env { row: &[], ..*env })?)))
        }
        From::Plan { .. } | From::Call { .. } => None,
    };
    let on: Vec<&Node> = source
        .on
        .iter()
        .chain(filter.iter().copied().filter(|_| source.join == Join::Inner))
        .collect();
    let index = fixed.as_ref().and_then(|all| RowIndex::of(all, &on, width));
    let (mut joined, mut matched) = (Vec::new(), BTreeSet::new());
    // With an index, not all places are tried.
    let tried = fixed.as_ref().filter(|_| index.is_none()).map_or(0, |all| all.rows.len());
    let all: Vec<usize> = (0..tried).collect();
    for row in rows {
        let here = Env { row: &row, ..*env };
        let own;
        let (partners, places) = match &fixed {
            Some(fixed) => {
                let places = index.as_ref().map(|index| index.places(&here)).transpose()?;
                (fixed.rows.as_slice(), places.unwrap_or(&all))
            }
            None => {
                own = rows_of(&source.from, &here)?;
                (own.as_slice(), &[][..])
            }
        };
        let found_here = fixed.is_some();
        let every: Vec<usize> = if found_here { Vec::new() } else { (0..partners.len()).collect() };
        let places = if found_here { places } else { &every };
        let before = joined.len();
        for place in places {
            let partner = partners.get(*place).ok_or(Unanswered::Unclear)?;
            env.steps.take(1 + (row.len() + partner.len()) / 8)?;
            // The rows of the first source are compared where they are.
            let fits = match row.is_empty() {
                true => all_true(&on, partner, env)?.then(|| partner.clone()),
                false => {
                    let both: Row = row.iter().chain(partner).cloned().collect();
                    all_true(&on, &both, env)?.then_some(both)
                }
            };
            if let Some(both) = fits {
                joined.push(both);
                if source.join.keeps_right() {
                    matched.insert(*place);
                }
            }
        }
        if source.join.keeps_left() && joined.len() == before {
            let nulls = std::iter::repeat_n(Datum::Null, source.width);
            joined.push(row.iter().cloned().chain(nulls).collect());
        }
        if source.join != Join::Inner && !filter.is_empty() {
            let mut kept = Vec::new();
            for both in joined.drain(before..) {
                if all_true(filter, &both, env)? {
                    kept.push(both);
                }
            }
            joined.extend(kept);
        }
        if joined.len().saturating_mul(width + source.width) > MOST_CELLS {
            return Err(Unanswered::TooLong);
        }
    }
    if let (true, Some(fixed)) = (source.join.keeps_right(), &fixed) {
        let places = fixed.rows.iter().enumerate();
        for (_, row) in places.filter(|(place, _)| !matched.contains(place)) {
            let nulls = std::iter::repeat_n(Datum::Null, width);
            let both: Row = nulls.chain(row.iter().cloned()).collect();
            if all_true(filter, &both, env)? {
                joined.push(both);
            }
        }
    }
    Ok(joined)
}

fn all_true(nodes: &[&Node], row: &[Datum], env: &Env<'_>) -> Result<bool, Unanswered> {
    let here = Env { row, ..*env };
    for node in nodes {
        if node.value(&here)?.truth() != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The rows of a source that depends on the current row.
fn rows_of(from: &From, env: &Env<'_>) -> Result<Vec<Row>, Unanswered> {
    let (name, values, numbered, width) = match from {
        From::Plan { plan, .. } => return plan.rows(&Env { row: &[], outer: Some(env), ..*env }),
        From::Table(all, _) => return Ok(all.rows.clone()),
        From::Working(rows) => return Ok(rows.borrow().clone()),
        From::Call { name, values, numbered, width } => (name, values, *numbered, *width),
    };
    let values = values.iter().map(|node| node.value(env)).collect::<Result<Row, _>>()?;
    let mut rows = set_functions::rows(env, name, &values, width - usize::from(numbered))?;
    env.steps.take(rows.len())?;
    if numbered {
        rows.iter_mut().zip(1..).for_each(|(row, number)| row.push(Datum::Int(number)));
    }
    Ok(rows)
}

/// An index of rows by the value of one column.
struct RowIndex<'a> {
    other: &'a Node,
    places: Arc<RowPlaces>,
}

impl<'a> RowIndex<'a> {
    /// An index for a condition that a column of the new rows equals an expression over the rows so
    /// far.
    fn of(all: &IndexedRows, on: &[&'a Node], width: usize) -> Option<Self> {
        if all.rows.len() < 8 {
            return None;
        }
        let new = |node: &Node| match node {
            Node::Column { depth: 0, index } => index.checked_sub(width),
            _ => None,
        };
        let found = on.iter().find_map(|node| match node {
            Node::Compare(Comparison::Equal, a, b) => match (new(a), new(b)) {
                (Some(column), None) if reach(b) <= width => Some((column, &**b)),
                (None, Some(column)) if reach(a) <= width => Some((column, &**a)),
                _ => None,
            },
            _ => None,
        });
        let (column, other) = found?;
        Some(Self { other, places: all.places(column) })
    }

    fn places(&self, env: &Env<'_>) -> Result<&[usize], Unanswered> {
        let value = self.other.value(env)?;
        Ok(if value.is_null() {
            &[]
        } else {
            self.places.get(&IndexKey::of(&value)).map_or(&[], Vec::as_slice)
        })
    }
}
