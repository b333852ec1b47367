//! Marginals of a model over columns that are in no clique together.
//!
//! In: calibrated tables of a junction tree. Out: the model's counts for any set of columns. Along
//! the tree, each clique sends a message to the next one: a table of the wanted columns behind it
//! and of the columns that both cliques share. The product of the cliques on the way is never
//! built. The floats come from the model alone.
//!
//! ```text
//! cliques {0,1} and {1,2}, wanted {0,2}:  Σ over 1 of μ(0,1)·μ(1,2)/μ(1)
//! ```

use std::borrow::Cow;
use std::collections::HashMap;

use super::fit::Model;
use super::junction_tree::Tree;
use super::table::{FactorTable, place, project};
use crate::synthetic::columns::{ColumnSet, index};

/// The largest number of values in a table on the way. Sets that need more are not answered.
const MOST_NUMBERS: usize = 1 << 24;

/// A table of what a clique and the cliques behind it know: for each cell of `rows`, the cells of
/// `behind`.
#[derive(Debug, Clone)]
struct CliqueIndex {
    rows: Vec<usize>,
    behind: Vec<usize>,
    values: Vec<f64>,
}

/// The answers of a model at one point in time.
#[derive(Debug, Clone)]
pub(in crate::synthetic) struct KeptAnswers {
    tree: Tree,
    tables: Vec<FactorTable>,
}

impl KeptAnswers {
    /// The model's present state.
    pub(in crate::synthetic) fn of(model: &Model) -> Self {
        Self { tree: model.tree().clone(), tables: model.tables() }
    }

    /// One table of all columns.
    pub(in crate::synthetic) fn whole(table: &FactorTable, sizes: &[usize]) -> Self {
        Self { tree: Tree::new(sizes, [&table.columns].into_iter()), tables: vec![table.clone()] }
    }

    /// The number of cells of its tables.
    pub(in crate::synthetic) fn cells(&self) -> usize {
        self.tables.iter().map(|table| table.values.len()).fold(0, usize::saturating_add)
    }
}

/// The paths through a model's tree, and the messages found on them.
pub(in crate::synthetic) struct Paths<'m> {
    sizes: &'m [usize],
    tables: Cow<'m, [FactorTable]>,
    tree: &'m Tree,
    /// For each clique, its neighbours.
    next: Vec<Vec<usize>>,
    /// The message of a clique to a neighbour about these columns.
    told: HashMap<(usize, usize, ColumnSet), CliqueIndex>,
    /// The number of values in `told`, and its limit. The limit also holds for a table on the way.
    held: usize,
    most: usize,
}

impl<'m> Paths<'m> {
    /// The paths of this model, with at most `most` values on them.
    pub(in crate::synthetic) fn new(model: &'m Model, sizes: &'m [usize], most: usize) -> Self {
        Self::of(model.tree(), Cow::Owned(model.tables()), sizes, most)
    }

    /// The paths of a kept model.
    pub(in crate::synthetic) fn kept(
        kept: &'m KeptAnswers,
        sizes: &'m [usize],
        most: usize,
    ) -> Self {
        Self::of(&kept.tree, Cow::Borrowed(&kept.tables), sizes, most)
    }

    fn of(tree: &'m Tree, tables: Cow<'m, [FactorTable]>, sizes: &'m [usize], most: usize) -> Self {
        let cliques = &tree.cliques;
        let mut next = vec![Vec::new(); cliques.len()];
        for (at, clique) in cliques.iter().enumerate() {
            if let Some(parent) = clique.parent {
                next[at].push(parent);
                next[parent].push(at);
            }
        }
        let most = most.min(MOST_NUMBERS);
        Self { sizes, tables, tree, next, told: HashMap::new(), held: 0, most }
    }

    /// The model's counts of a set of columns; `None` if a table on the way would be too large.
    pub(in crate::synthetic) fn marginal(&mut self, set: &ColumnSet) -> Option<Vec<f64>> {
        if let Some(at) = self.tree.holding(set, self.sizes) {
            return Some(self.tables.get(at)?.onto(set, self.sizes));
        }
        // The search starts at the clique that holds the last column. Sets that share the other
        // columns then share messages.
        let last = ColumnSet::new(set.as_slice().last().copied());
        let root = self.tree.holding(&last, self.sizes)?;
        let known = self.known(root, None, set)?;
        // The cells in the order of the set's columns.
        let from: Vec<usize> = known.rows.iter().chain(&known.behind).copied().collect();
        let index = index(&from, set.as_slice(), self.sizes);
        let mut values = vec![0.0; set.cells(self.sizes)];
        project(&known.values, &index, &mut values);
        Some(values)
    }

    /// What this clique and the cliques behind it know about the columns of a set, for each cell of
    /// the columns that it shares with `to`.
    fn known(&mut self, at: usize, to: Option<usize>, set: &ColumnSet) -> Option<CliqueIndex> {
        let own = self.tables.get(at)?.columns.clone();
        let shared = to.map_or_else(|| ColumnSet::new([]), |to| self.shared(at, to));
        let mut asked = Vec::new();
        for from in self.next.get(at)?.clone() {
            if Some(from) == to {
                continue;
            }
            let here = |column: &usize| !own.contains(*column);
            let behind = self.behind(from, at, set).into_iter().filter(here);
            let behind = ColumnSet::new(behind);
            if behind.len() > 0 {
                asked.push((from, behind));
            }
        }
        // The necessary rows: columns of the set, shared columns, and columns of messages.
        let of_set = |column: &&usize| set.contains(**column);
        let kept: Vec<usize> = own.as_slice().iter().filter(of_set).copied().collect();
        let needed = |rest: &[(usize, ColumnSet)], paths: &Self| {
            let told = rest.iter().map(|(from, _)| paths.shared(*from, at));
            let all = told.flat_map(|set| set.as_slice().to_vec());
            ColumnSet::new(all.chain(kept.iter().copied()).chain(shared.as_slice().to_vec()))
        };
        let rows = needed(&asked, self);
        let mut known = CliqueIndex {
            values: self.tables.get(at)?.onto(&rows, self.sizes),
            rows: rows.as_slice().to_vec(),
            behind: Vec::new(),
        };
        for turn in 0..asked.len() {
            let (from, behind) = asked.get(turn)?.clone();
            let key = (from, at, behind);
            let told = match self.told.remove(&key) {
                Some(told) => {
                    self.held = self.held.saturating_sub(told.values.len());
                    told
                }
                None => {
                    let mut told = self.known(from, Some(at), &key.2)?;
                    self.make_conditional(&mut told, from, at)?;
                    told
                }
            };
            let rows = needed(asked.get(turn + 1..)?, self);
            known = join(&known, &told, rows.as_slice(), self.sizes, self.most)?;
            self.keep(key, told);
        }
        // Shared columns of the set stay in the rows; the others go behind.
        Some(if to.is_some() { split(&known, shared.as_slice(), self.sizes) } else { known })
    }

    /// Keeps a message. Earlier messages make room.
    fn keep(&mut self, key: (usize, usize, ColumnSet), told: CliqueIndex) {
        if self.held.saturating_add(told.values.len()) > self.most {
            self.told.clear();
            self.held = 0;
        }
        self.held = self.held.saturating_add(told.values.len());
        self.told.insert(key, told);
    }

    /// Divides a message by the counts of the shared columns.
    fn make_conditional(&self, told: &mut CliqueIndex, from: usize, at: usize) -> Option<()> {
        let sums = self.tables.get(at)?.onto(&self.shared(from, at), self.sizes);
        let width = told.values.len().checked_div(sums.len())?;
        for (row, sum) in told.values.chunks_mut(width.max(1)).zip(sums) {
            let factor = if sum > 0.0 { 1.0 / sum } else { 0.0 };
            row.iter_mut().for_each(|value| *value *= factor);
        }
        Some(())
    }

    /// The columns that two neighbours share.
    fn shared(&self, at: usize, to: usize) -> ColumnSet {
        let cliques = &self.tree.cliques;
        let below =
            if cliques.get(at).and_then(|clique| clique.parent) == Some(to) { at } else { to };
        cliques.get(below).map_or_else(|| ColumnSet::new([]), |clique| clique.shared.clone())
    }

    /// The columns of a set in a clique or in the cliques behind it.
    fn behind(&self, at: usize, to: usize, set: &ColumnSet) -> Vec<usize> {
        let (mut found, mut open) = (Vec::new(), vec![(at, to)]);
        while let Some((at, to)) = open.pop() {
            let Some(table) = self.tables.get(at) else { continue };
            let columns = set.as_slice().iter().filter(|column| table.columns.contains(**column));
            found.extend(columns.copied());
            let next = self.next.get(at).into_iter().flatten().filter(|next| **next != to);
            open.extend(next.map(|next| (*next, at)));
        }
        found
    }
}

/// Joins a table with a message, for the rows that are still necessary.
fn join(
    known: &CliqueIndex,
    told: &CliqueIndex,
    rows: &[usize],
    sizes: &[usize],
    most: usize,
) -> Option<CliqueIndex> {
    let cells = |columns: &[usize]| ColumnSet::new(columns.iter().copied()).cells(sizes);
    let (wide, more) = (cells(&known.behind), cells(&told.behind));
    let numbers = cells(rows).checked_mul(wide)?.checked_mul(more)?;
    if numbers > most {
        return None;
    }
    let (to_rows, to_told) =
        (index(&known.rows, rows, sizes), index(&known.rows, &told.rows, sizes));
    let mut values = vec![0.0; numbers];
    for (cell, (row, tells)) in to_rows.iter().zip(&to_told).enumerate() {
        let (row, tells) = (place(*row), place(*tells));
        let Some(tells) = told.values.get(tells * more..(tells + 1) * more) else { continue };
        let known = known.values.get(cell * wide..(cell + 1) * wide)?;
        let sums = values.get_mut(row * wide * more..(row + 1) * wide * more)?;
        for (factor, sums) in known.iter().zip(sums.chunks_mut(more.max(1))) {
            if *factor != 0.0 {
                for (sum, told) in sums.iter_mut().zip(tells) {
                    *sum += factor * told;
                }
            }
        }
    }
    let behind = known.behind.iter().chain(&told.behind).copied().collect();
    Some(CliqueIndex { rows: rows.to_vec(), behind, values })
}

/// Keeps these columns as rows, and puts the others behind.
fn split(known: &CliqueIndex, rows: &[usize], sizes: &[usize]) -> CliqueIndex {
    let moved = known.rows.iter().filter(|column| !rows.contains(column));
    let behind: Vec<usize> = moved.chain(&known.behind).copied().collect();
    let from: Vec<usize> = known.rows.iter().chain(&known.behind).copied().collect();
    let to: Vec<usize> = rows.iter().chain(&behind).copied().collect();
    let index = index(&from, &to, sizes);
    let mut values = vec![0.0; known.values.len()];
    project(&known.values, &index, &mut values);
    CliqueIndex { rows: rows.to_vec(), behind, values }
}
