//! The junction tree of sets of columns: cliques that hold each set, joined so that the cliques of
//! each column are connected.
//!
//! In: sets of columns and sizes. Out: the tree, in an order in which each clique comes after its
//! parent. It is a function of public values, so its size may decide which sets compete.
//!
//! ```text
//! {0,1}, {1,2}, {0,2}, {2,3}   →   {0,1,2} — {2} — {2,3}
//! ```

use crate::synthetic::columns::ColumnSet;

/// The largest number of columns: a set is kept in the bits of one integer.
pub(in crate::synthetic) const MOST_COLUMNS: usize = 128;

/// A clique and its parent.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::synthetic) struct Clique {
    /// Its columns.
    pub(in crate::synthetic) columns: ColumnSet,
    /// Its parent; `None` for the first clique.
    pub(in crate::synthetic) parent: Option<usize>,
    /// The columns that it shares with its parent.
    pub(in crate::synthetic) shared: ColumnSet,
}

/// A junction tree.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::synthetic) struct Tree {
    /// The cliques, each after its parent.
    pub(in crate::synthetic) cliques: Vec<Clique>,
}

/// The bits of a set.
fn bits(set: &ColumnSet) -> u128 {
    set.as_slice().iter().filter(|c| **c < MOST_COLUMNS).fold(0, |bits, c| bits | (1_u128 << c))
}

/// The columns of bits.
fn members(bits: u128) -> impl Iterator<Item = usize> {
    (0..MOST_COLUMNS).filter(move |column| bits >> column & 1 == 1)
}

/// The graph in which the columns of one set are neighbours. Each column is its own neighbour, too.
fn graph<'s>(columns: usize, sets: impl Iterator<Item = &'s ColumnSet>) -> Vec<u128> {
    let mut neighbours: Vec<u128> = (0..columns.min(MOST_COLUMNS)).map(|c| 1 << c).collect();
    for set in sets {
        join(&mut neighbours, bits(set));
    }
    neighbours
}

fn join(neighbours: &mut [u128], set: u128) {
    for column in members(set) {
        if let Some(known) = neighbours.get_mut(column) {
            *known |= set;
        }
    }
}

/// The cliques of a triangulation. Columns are eliminated one after the other, the one with the
/// smallest clique first.
fn cliques(mut neighbours: Vec<u128>, sizes: &[usize]) -> Vec<u128> {
    let cells = |set: u128| -> usize {
        let size = |column: usize| sizes.get(column).copied().unwrap_or(1);
        members(set).map(size).fold(1, usize::saturating_mul)
    };
    let mut costs: Vec<usize> = neighbours.iter().map(|set| cells(*set)).collect();
    let mut open: Vec<usize> = (0..neighbours.len()).collect();
    let mut found: Vec<u128> = Vec::new();
    while let Some(at) = (0..open.len()).min_by_key(|at| (costs[open[*at]], open[*at])) {
        let column = open.remove(at);
        let clique = neighbours[column];
        if !found.iter().any(|other| clique & !other == 0) {
            found.push(clique);
        }
        let rest = clique & !(1_u128 << column);
        for other in members(rest) {
            neighbours[other] = (neighbours[other] | rest) & !(1_u128 << column);
            costs[other] = cells(neighbours[other]);
        }
    }
    found
}

impl Tree {
    /// The tree of these sets over columns of these sizes. It contains each column.
    pub(in crate::synthetic) fn new<'s>(
        sizes: &[usize],
        sets: impl Iterator<Item = &'s ColumnSet>,
    ) -> Self {
        let found = cliques(graph(sizes.len(), sets), sizes);
        // A maximum-weight spanning tree, weighted by the number of shared columns, is a junction
        // tree.
        let mut waiting: Vec<usize> = (0..found.len()).collect();
        let mut placed: Vec<usize> = Vec::new();
        let mut tree: Vec<Clique> = Vec::new();
        while !waiting.is_empty() {
            let mut best = (0, 0, None);
            let mut most = None;
            for (at, clique) in waiting.iter().enumerate() {
                for (place, other) in placed.iter().enumerate() {
                    let shared = (found[*clique] & found[*other]).count_ones();
                    if most.is_none_or(|most| shared > most) {
                        most = Some(shared);
                        best = (at, *other, Some(place));
                    }
                }
            }
            let (at, other, parent) = best;
            let clique = waiting.remove(at);
            let shared = if parent.is_some() { found[clique] & found[other] } else { 0 };
            placed.push(clique);
            tree.push(Clique {
                columns: ColumnSet::new(members(found[clique])),
                parent,
                shared: ColumnSet::new(members(shared)),
            });
        }
        Self { cliques: tree }
    }

    /// The number of cells of its tables.
    pub(in crate::synthetic) fn cells(&self, sizes: &[usize]) -> usize {
        let cells = self.cliques.iter().map(|clique| clique.columns.cells(sizes));
        cells.fold(0, usize::saturating_add)
    }

    /// The smallest clique that holds a set.
    pub(in crate::synthetic) fn holding(&self, set: &ColumnSet, sizes: &[usize]) -> Option<usize> {
        let holds = |at: &usize| set.is_within(&self.cliques[*at].columns);
        let cells = |at: &usize| self.cliques[*at].columns.cells(sizes);
        (0..self.cliques.len()).filter(holds).min_by_key(cells)
    }

    /// For each of these sets: the number of cells of the tree that holds this set, too.
    pub(in crate::synthetic) fn cells_with<'s>(
        sizes: &[usize],
        sets: impl Iterator<Item = &'s ColumnSet>,
        more: &[&ColumnSet],
    ) -> Vec<usize> {
        let known = graph(sizes.len(), sets);
        let with = |set: &&ColumnSet| {
            let mut neighbours = known.clone();
            join(&mut neighbours, bits(set));
            let cells = cliques(neighbours, sizes).into_iter().map(|clique| {
                let size = |column: usize| sizes.get(column).copied().unwrap_or(1);
                members(clique).map(size).fold(1, usize::saturating_mul)
            });
            cells.fold(0, usize::saturating_add)
        };
        more.iter().map(with).collect()
    }
}
