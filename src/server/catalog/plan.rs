//! Queries over the catalog, and their rows.
//!
//! Relations are joined one after the other. A condition is applied as soon as its columns are
//! available, and an equality of two columns finds its rows by an index. The number of rows is
//! bounded.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::compile::{Aggregate, NamedColumns, Sort, Window};
use super::datum::{Datum, Unknown};
use super::functions;
use super::node::{Comparison, Env, Node, SubqueryRows};

/// The most values in the rows of a join, and the most rounds of a recursion.
const MOST_CELLS: usize = 4_000_000;
const MOST_ROUNDS: usize = 100;

type Row = Vec<Datum>;

/// A query.
#[derive(Debug)]
pub(super) struct CatalogQuery {
    pub(super) columns: NamedColumns,
    pub(super) body: Body,
    /// Over the columns of the answer, and further sort columns after them.
    pub(super) order: Vec<Sort>,
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
    pub(super) windows: Vec<Window>,
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
    /// Whether it is a LEFT JOIN.
    pub(super) is_left: bool,
    pub(super) on: Vec<Node>,
}

#[derive(Debug)]
pub(super) enum From {
    Table(Rc<Vec<Row>>),
    Plan {
        plan: Box<CatalogQuery>,
        lateral: bool,
    },
    /// A function that returns rows, or one value.
    Call {
        name: String,
        values: Vec<Node>,
        numbered: bool,
    },
    Working(Rc<RefCell<Vec<Row>>>),
}

impl SubqueryRows for CatalogQuery {
    fn rows(&self, env: &Env<'_>) -> Result<Vec<Row>, Unknown> {
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
        let count =
            |node: &Option<Node>| match node.as_ref().map(|node| node.value(env)).transpose()? {
                None | Some(Datum::Null) => Ok(None),
                Some(value) => {
                    value.int().and_then(|n| usize::try_from(n).ok()).map(Some).ok_or(Unknown)
                }
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
) -> Result<Vec<Row>, Unknown> {
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
    Err(Unknown)
}

/// Keeps one of several rows that are equal in the first `columns` columns.
fn distinct(rows: &mut Vec<Row>, columns: usize) {
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert(row.iter().take(columns).cloned().collect::<Row>()));
}

/// Sorts rows by nodes over them.
fn sort(rows: &mut Vec<Row>, order: &[Sort], env: &Env<'_>) -> Result<(), Unknown> {
    if order.is_empty() {
        return Ok(());
    }
    let mut keyed = Vec::new();
    for row in rows.drain(..) {
        let here = Env { row: &row, ..*env };
        let key = order.iter().map(|sort| sort.by.value(&here)).collect::<Result<Row, _>>()?;
        keyed.push((key, row));
    }
    keyed.sort_by(|(a, _), (b, _)| by(order, a, b));
    rows.extend(keyed.into_iter().map(|(_, row)| row));
    Ok(())
}

/// Compares two rows of sort keys.
fn by(order: &[Sort], a: &Row, b: &Row) -> Ordering {
    let each =
        order.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if sort.nulls_first => Ordering::Less,
            (false, true) if !sort.nulls_first => Ordering::Less,
            (true, false) | (false, true) => Ordering::Greater,
            (false, false) => {
                let order = a.cmp(b);
                if sort.descends { order.reverse() } else { order }
            }
        });
    each.fold(Ordering::Equal, Ordering::then)
}

impl Select {
    fn rows(&self, env: &Env<'_>) -> Result<Vec<Row>, Unknown> {
        let mut rows = self.joined(env)?;
        self.number(&mut rows, env)?;
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

    fn selected(&self, env: &Env<'_>) -> Result<Row, Unknown> {
        self.items.iter().map(|item| item.value(env)).collect()
    }

    /// The joined rows of all sources that satisfy the conditions.
    fn joined(&self, env: &Env<'_>) -> Result<Vec<Row>, Unknown> {
        // If one of them has no rows, the join has none.
        let is_empty = |source: &FromItem| match &source.from {
            From::Table(rows) => rows.is_empty(),
            From::Plan { .. } | From::Call { .. } | From::Working(_) => false,
        };
        if self.sources.iter().any(|source| !source.is_left && is_empty(source)) {
            return Ok(Vec::new());
        }
        let reach: Vec<usize> = self.filter.iter().map(reach).collect();
        let total: usize = self.sources.iter().map(|source| source.width).sum();
        let (mut rows, mut width) = (vec![Vec::new()], 0);
        for source in &self.sources {
            let bound = width + source.width;
            let now: Vec<&Node> = self
                .filter
                .iter()
                .zip(&reach)
                .filter(|(_, reach)| {
                    let needs = if **reach == usize::MAX { total } else { **reach };
                    needs <= bound && (needs > width || (width == 0 && needs == 0))
                })
                .map(|(node, _)| node)
                .collect();
            rows = join(source, rows, width, &now, env)?;
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

    /// Appends the `row_number()` values to each row.
    fn number(&self, rows: &mut [Row], env: &Env<'_>) -> Result<(), Unknown> {
        for window in &self.windows {
            let mut keyed = Vec::new();
            for (at, row) in rows.iter().enumerate() {
                let here = Env { row, ..*env };
                let key = window
                    .partition
                    .iter()
                    .map(|node| node.value(&here))
                    .collect::<Result<Row, _>>()?;
                let order = window
                    .order
                    .iter()
                    .map(|sort| sort.by.value(&here))
                    .collect::<Result<Row, _>>()?;
                keyed.push((key, order, at));
            }
            keyed.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| by(&window.order, x, y)));
            let (mut last, mut number) = (None, 0);
            for (key, _, at) in keyed {
                number = if last.as_ref() == Some(&key) { number + 1 } else { 1 };
                last = Some(key);
                if let Some(row) = rows.get_mut(at) {
                    row.push(Datum::Int(number));
                }
            }
        }
        Ok(())
    }
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

/// Joins the rows so far with a source, and keeps the rows that satisfy the conditions.
fn join(
    source: &FromItem,
    rows: Vec<Row>,
    width: usize,
    filter: &[&Node],
    env: &Env<'_>,
) -> Result<Vec<Row>, Unknown> {
    let fixed = match &source.from {
        From::Table(rows) => Some(Rc::clone(rows)),
        From::Working(rows) => Some(Rc::new(rows.borrow().clone())),
        From::Plan { plan, lateral: false } => Some(Rc::new(plan.rows(&Env { row: &[], ..*env })?)),
        From::Plan { .. } | From::Call { .. } => None,
    };
    let on: Vec<&Node> =
        source.on.iter().chain(filter.iter().copied().filter(|_| !source.is_left)).collect();
    let index = fixed.as_ref().and_then(|rows| RowIndex::of(rows, &on, width));
    let mut joined = Vec::new();
    let all: Vec<usize> = (0..fixed.as_ref().map_or(0, |rows| rows.len())).collect();
    for row in rows {
        let here = Env { row: &row, ..*env };
        let own;
        let (partners, places) = match &fixed {
            Some(fixed) => {
                let places = index.as_ref().map(|index| index.places(&here)).transpose()?;
                (fixed.as_slice(), places.unwrap_or(&all))
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
            let partner = partners.get(*place).ok_or(Unknown)?;
            let both: Row = row.iter().chain(partner).cloned().collect();
            env.steps.take(1 + both.len() / 8)?;
            if all_true(&on, &both, env)? {
                joined.push(both);
            }
        }
        if source.is_left && joined.len() == before {
            let nulls = std::iter::repeat_n(Datum::Null, source.width);
            joined.push(row.iter().cloned().chain(nulls).collect());
        }
        if source.is_left && !filter.is_empty() {
            let mut kept = Vec::new();
            for both in joined.drain(before..) {
                if all_true(filter, &both, env)? {
                    kept.push(both);
                }
            }
            joined.extend(kept);
        }
        if joined.len().saturating_mul(width + source.width) > MOST_CELLS {
            return Err(Unknown);
        }
    }
    Ok(joined)
}

fn all_true(nodes: &[&Node], row: &Row, env: &Env<'_>) -> Result<bool, Unknown> {
    let here = Env { row, ..*env };
    for node in nodes {
        if node.value(&here)?.truth() != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The rows of a source that depends on the current row.
fn rows_of(from: &From, env: &Env<'_>) -> Result<Vec<Row>, Unknown> {
    let (name, values, numbered) = match from {
        From::Plan { plan, .. } => return plan.rows(&Env { row: &[], outer: Some(env), ..*env }),
        From::Table(rows) => return Ok(rows.to_vec()),
        From::Working(rows) => return Ok(rows.borrow().clone()),
        From::Call { name, values, numbered } => (name, values, *numbered),
    };
    let values = values.iter().map(|node| node.value(env)).collect::<Result<Row, _>>()?;
    let cells = match name.as_str() {
        "unnest" => values.first().and_then(Datum::list).unwrap_or_default(),
        "generate_series" => {
            match (values.first().and_then(Datum::int), values.get(1).and_then(Datum::int)) {
                (Some(from), Some(to)) => {
                    env.steps.take(usize::try_from(to.saturating_sub(from)).unwrap_or(0))?;
                    (from..=to).map(Datum::Int).collect()
                }
                _ => Vec::new(),
            }
        }
        "pg_get_keywords" | "pg_show_all_file_settings" => Vec::new(),
        name => vec![functions::call(env.world, name, &values)?],
    };
    env.steps.take(cells.len())?;
    let number =
        |at: usize| numbered.then(|| Datum::Int(i64::try_from(at + 1).unwrap_or(i64::MAX)));
    Ok(cells
        .into_iter()
        .enumerate()
        .map(|(at, cell)| std::iter::once(cell).chain(number(at)).collect())
        .collect())
}

/// An index of rows by the value of one column.
struct RowIndex<'a> {
    other: &'a Node,
    places: HashMap<Option<String>, Vec<usize>>,
}

impl<'a> RowIndex<'a> {
    /// An index for a condition that a column of the new rows equals an expression over the rows so
    /// far.
    fn of(rows: &[Row], on: &[&'a Node], width: usize) -> Option<Self> {
        if rows.len() < 8 {
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
        let mut places: HashMap<Option<String>, Vec<usize>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            places.entry(row.get(column).and_then(Datum::text)).or_default().push(at);
        }
        Some(Self { other, places })
    }

    fn places(&self, env: &Env<'_>) -> Result<&[usize], Unknown> {
        let value = self.other.value(env)?;
        Ok(if value.is_null() {
            &[]
        } else {
            self.places.get(&value.text()).map_or(&[], Vec::as_slice)
        })
    }
}

/// The groups of rows, each with its first row. Without keys, all rows are one group.
fn grouped(keys: &[Node], rows: Vec<Row>, env: &Env<'_>) -> Result<Vec<(Row, Vec<Row>)>, Unknown> {
    if keys.is_empty() {
        return Ok(vec![(rows.first().cloned().unwrap_or_default(), rows)]);
    }
    let mut groups: Vec<(Row, Vec<Row>)> = Vec::new();
    let mut places: HashMap<Vec<Option<String>>, usize> = HashMap::new();
    for row in rows {
        let here = Env { row: &row, ..*env };
        let key = keys
            .iter()
            .map(|node| Ok(node.value(&here)?.text()))
            .collect::<Result<_, Unknown>>()?;
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, members)) => members.push(row),
            None => groups.push((row.clone(), vec![row])),
        }
    }
    Ok(groups)
}

fn aggregated(aggregate: &Aggregate, rows: &[Row], env: &Env<'_>) -> Result<Datum, Unknown> {
    let Aggregate { name, values, order, distinct: once } = aggregate;
    let mut kept = Vec::new();
    for row in rows {
        let here = Env { row, ..*env };
        let values = values.iter().map(|node| node.value(&here)).collect::<Result<Row, _>>()?;
        let key = order.iter().map(|sort| sort.by.value(&here)).collect::<Result<Row, _>>()?;
        kept.push((key, values));
    }
    kept.sort_by(|(a, _), (b, _)| by(order, a, b));
    let between = kept.first().and_then(|(_, values)| values.get(1)).and_then(Datum::text);
    let mut cells: Vec<Datum> = kept
        .into_iter()
        .map(|(_, values)| values.into_iter().next().unwrap_or(Datum::Int(1)))
        .collect();
    if name != "array_agg" {
        cells.retain(|cell| !cell.is_null());
    }
    if *once {
        let mut seen = BTreeSet::new();
        cells.retain(|cell| seen.insert(cell.clone()));
    }
    if cells.is_empty() && name != "count" {
        return Ok(Datum::Null);
    }
    let truths =
        || cells.iter().map(|cell| cell.truth().ok_or(Unknown)).collect::<Result<Vec<_>, _>>();
    Ok(match name.as_str() {
        "count" => Datum::Int(i64::try_from(cells.len()).map_err(|_| Unknown)?),
        "max" => cells.into_iter().max().unwrap_or(Datum::Null),
        "min" => cells.into_iter().min().unwrap_or(Datum::Null),
        "sum" => {
            let sum = cells.iter().try_fold(0_i64, |sum, cell| sum.checked_add(cell.int()?));
            Datum::Int(sum.ok_or(Unknown)?)
        }
        "bool_and" | "every" => Datum::Bool(truths()?.into_iter().all(|truth| truth)),
        "bool_or" => Datum::Bool(truths()?.into_iter().any(|truth| truth)),
        "array_agg" => Datum::List(cells),
        "string_agg" => {
            let texts: Vec<String> = cells.iter().filter_map(Datum::text).collect();
            Datum::Text(texts.join(&between.unwrap_or_default()).into())
        }
        _ => return Err(Unknown),
    })
}
