//! The model: potentials on the measured sets, fitted by mirror descent so that their marginals are
//! near the measured ones.
//!
//! In: released marginals, each with its noise. Out: for each clique of the junction tree, the
//! expected counts of its cells. Floats are fine: everything is computed from released values, so
//! no privacy rests on it. A fit ends after a known number of steps, when it gains less than 10⁻⁵
//! of its loss, or when it is told to.
//!
//! With potentials θ_c, the expected counts are μ ∝ exp(Σθ_c), with the sum N̂. A step moves each
//! potential against the gradient of L = ½Σw_c‖μ_c − ȳ_c‖², where w_c is the sum of 1/σ² over the
//! measurements of c, and ȳ_c is their weighted mean.

#[cfg(test)]
mod tests;

use super::exp::exp;
use super::float;
use super::junction_tree::Tree;
use super::table::{FactorTable, place, project, spread};
use crate::synthetic::columns::{ColumnSet, index};
use crate::synthetic::door::{Measured, Released};

/// The measurements of one set, and its potential.
#[derive(Debug, Clone)]
struct MeasuredSet {
    columns: ColumnSet,
    /// Σ1/σ².
    weight: f64,
    /// Σy/σ² ÷ Σ1/σ².
    mean: Vec<f64>,
    potential: Vec<f64>,
    /// The clique that holds the set, and for each cell of the clique the cell of the set.
    clique: usize,
    index: Vec<u32>,
}

/// A clique's position in the tree, and its tables.
#[derive(Debug, Clone)]
struct Node {
    columns: ColumnSet,
    cells: usize,
    parent: Option<usize>,
    /// For each cell of the clique, and for each cell of its parent, the cell of the columns that
    /// both share.
    to_shared: Vec<u32>,
    from_parent: Vec<u32>,
    shared: usize,
}

/// The expected counts for given potentials.
#[derive(Debug, Clone)]
struct FitState {
    /// Expected counts of each clique's cells.
    counts: Vec<Vec<f64>>,
    /// Expected counts of each target's cells.
    marginals: Vec<Vec<f64>>,
    loss: f64,
}

/// A graphical model.
#[derive(Debug, Clone)]
pub(in crate::synthetic) struct Model {
    sizes: Vec<usize>,
    total: f64,
    targets: Vec<MeasuredSet>,
    tree: Tree,
    nodes: Vec<Node>,
    counts: Vec<Vec<f64>>,
    /// Σ(Σy)/(Dσ²) and Σ1/(Dσ²): their ratio is the noisy total.
    sums: (f64, f64),
}

impl Model {
    /// The model before any measurement: all columns are independent and uniform.
    pub(in crate::synthetic) fn new(sizes: &[usize]) -> Self {
        let mut model = Self {
            sizes: sizes.to_vec(),
            total: 1.0,
            targets: Vec::new(),
            tree: Tree::new(sizes, std::iter::empty()),
            nodes: Vec::new(),
            counts: Vec::new(),
            sums: (0.0, 0.0),
        };
        model.plant();
        model
    }

    /// The noisy total of all counts, at least 1. It is never the exact number of rows.
    pub(in crate::synthetic) fn total(&self) -> f64 {
        self.total
    }

    /// The junction tree.
    pub(in crate::synthetic) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The measured sets.
    pub(in crate::synthetic) fn measured(&self) -> impl Iterator<Item = &ColumnSet> {
        self.targets.iter().map(|target| &target.columns)
    }

    /// The expected counts of the cliques' cells.
    pub(in crate::synthetic) fn tables(&self) -> Vec<FactorTable> {
        let table = |(node, values): (&Node, &Vec<f64>)| FactorTable {
            columns: node.columns.clone(),
            values: values.clone(),
        };
        self.nodes.iter().zip(&self.counts).map(table).collect()
    }

    /// Adds one measurement. [`Model::fit`] then changes the model.
    pub(in crate::synthetic) fn add(&mut self, measured: &Released<Measured>) {
        let Measured { columns, values, noise } = measured.get();
        let weight = 1.0 / noise.variance();
        let share = weight / float(values.len().max(1));
        let values: Vec<f64> = values.iter().copied().map(float).collect();
        self.sums.0 += share * values.iter().sum::<f64>();
        self.sums.1 += share;
        self.total = (self.sums.0 / self.sums.1).max(1.0);
        match self.targets.iter_mut().find(|target| target.columns == *columns) {
            Some(target) => {
                let part = weight / (target.weight + weight);
                for (mean, value) in target.mean.iter_mut().zip(&values) {
                    *mean += part * (value - *mean);
                }
                target.weight += weight;
            }
            None => self.targets.push(MeasuredSet {
                columns: columns.clone(),
                weight,
                potential: vec![0.0; values.len()],
                mean: values,
                clique: 0,
                index: Vec::new(),
            }),
        }
        self.plant();
    }

    /// Builds the tree of the measured sets, and the positions of the tables in it.
    fn plant(&mut self) {
        self.tree = Tree::new(&self.sizes, self.targets.iter().map(|target| &target.columns));
        let sizes = &self.sizes;
        let cliques = &self.tree.cliques;
        let node = |clique: &super::junction_tree::Clique| {
            let onto = |from: &ColumnSet| index(from.as_slice(), clique.shared.as_slice(), sizes);
            let parent = clique.parent.and_then(|parent| cliques.get(parent));
            Node {
                columns: clique.columns.clone(),
                cells: clique.columns.cells(sizes),
                parent: clique.parent,
                to_shared: onto(&clique.columns),
                from_parent: parent.map_or_else(Vec::new, |parent| onto(&parent.columns)),
                shared: clique.shared.cells(sizes),
            }
        };
        self.nodes = cliques.iter().map(node).collect();
        for target in &mut self.targets {
            target.clique = self.tree.holding(&target.columns, sizes).unwrap_or(0);
            let columns = self.nodes.get(target.clique).map(|node| node.columns.as_slice());
            target.index = index(columns.unwrap_or(&[]), target.columns.as_slice(), sizes);
        }
        self.counts = self.answer(&self.potentials()).counts;
    }

    fn potentials(&self) -> Vec<Vec<f64>> {
        self.targets.iter().map(|target| target.potential.clone()).collect()
    }

    /// Moves the potentials for at most `steps` steps, or until `over` is true.
    pub(in crate::synthetic) fn fit(&mut self, steps: u32, over: &dyn Fn() -> bool) {
        let mut potentials = self.potentials();
        let mut state = self.answer(&potentials);
        let heaviest = self.targets.iter().map(|target| target.weight).fold(0.0, f64::max);
        let mut rate = 0.2 / (heaviest.max(f64::MIN_POSITIVE) * self.total);
        for _ in 0..steps {
            if over() {
                break;
            }
            let gradients: Vec<Vec<f64>> = (self.targets.iter().zip(&state.marginals))
                .map(|(target, marginal)| {
                    let slope = |(is, should): (&f64, &f64)| target.weight * (is - should);
                    marginal.iter().zip(&target.mean).map(slope).collect()
                })
                .collect();
            let Some((moved, next)) = self.step(&potentials, &gradients, &state, &mut rate) else {
                break;
            };
            let gain = state.loss - next.loss;
            let is_small = gain < 1e-5 * state.loss;
            (potentials, state) = (moved, next);
            if is_small {
                break;
            }
        }
        for (target, potential) in self.targets.iter_mut().zip(potentials) {
            target.potential = potential;
        }
        self.counts = state.counts;
    }

    /// One step. It takes the largest rate, from the given one downwards, that lowers the loss as
    /// much as the gradient promises.
    fn step(
        &self,
        potentials: &[Vec<f64>],
        gradients: &[Vec<f64>],
        state: &FitState,
        rate: &mut f64,
    ) -> Option<(Vec<Vec<f64>>, FitState)> {
        for _ in 0..25 {
            let moved: Vec<Vec<f64>> = (potentials.iter().zip(gradients))
                .map(|(potential, gradient)| {
                    let moved = |(old, slope): (&f64, &f64)| old - *rate * slope;
                    potential.iter().zip(gradient).map(moved).collect()
                })
                .collect();
            let next = self.answer(&moved);
            let promised: f64 = (gradients.iter().zip(&state.marginals).zip(&next.marginals))
                .map(|((gradient, old), new)| {
                    let part = |((slope, old), new): ((&f64, &f64), &f64)| slope * (old - new);
                    gradient.iter().zip(old).zip(new).map(part).sum::<f64>()
                })
                .sum();
            if state.loss - next.loss >= 0.5 * promised && next.loss.is_finite() {
                *rate *= 1.6;
                return Some((moved, next));
            }
            *rate *= 0.5;
        }
        None
    }

    /// The expected counts for potentials: belief propagation in logarithms.
    fn answer(&self, potentials: &[Vec<f64>]) -> FitState {
        let mut beliefs: Vec<Vec<f64>> =
            self.nodes.iter().map(|node| vec![0.0; node.cells]).collect();
        for (target, potential) in self.targets.iter().zip(potentials) {
            if let Some(belief) = beliefs.get_mut(target.clique) {
                spread(belief, &target.index, potential);
            }
        }
        // Collect: from the leaves to the root, each clique sends its parent the logarithm of its
        // sums. The messages are kept.
        let mut told: Vec<Vec<f64>> = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let Some(mut belief) = beliefs.get_mut(at).map(std::mem::take) else { continue };
            let sums = exponentials(&mut belief, &node.to_shared, node.shared);
            if let Some(parent) = node.parent.and_then(|parent| beliefs.get_mut(parent)) {
                let logs: Vec<f64> =
                    sums.iter().map(|(top, sum)| top + sum.max(f64::MIN_POSITIVE).ln()).collect();
                spread(parent, &node.from_parent, &logs);
            }
            told[at] = sums.into_iter().map(|(_, sum)| sum).collect();
            beliefs[at] = belief;
        }
        // Distribute: each clique takes from its parent the sums of the columns that they share.
        for (at, node) in self.nodes.iter().enumerate() {
            let factors: Vec<f64> = match node.parent {
                Some(parent) => {
                    let mut sums = vec![0.0; node.shared];
                    project(&beliefs[parent], &node.from_parent, &mut sums);
                    let ratio = |(sum, own): (&f64, &f64)| sum / own.max(f64::MIN_POSITIVE);
                    sums.iter().zip(&told[at]).map(ratio).collect()
                }
                None => told[at].iter().map(|own| self.total / own).collect(),
            };
            for (value, cell) in beliefs[at].iter_mut().zip(&node.to_shared) {
                *value *= factors.get(place(*cell)).copied().unwrap_or(0.0);
            }
        }
        let (mut marginals, mut loss) = (Vec::with_capacity(self.targets.len()), 0.0);
        for target in &self.targets {
            let mut marginal = vec![0.0; target.mean.len()];
            if let Some(belief) = beliefs.get(target.clique) {
                project(belief, &target.index, &mut marginal);
            }
            let square = |(is, should): (&f64, &f64)| (is - should) * (is - should);
            let squares: f64 = marginal.iter().zip(&target.mean).map(square).sum();
            loss += 0.5 * target.weight * squares;
            marginals.push(marginal);
        }
        FitState { counts: beliefs, marginals, loss }
    }
}

/// Turns logarithms into exponentials, relative to the largest of those that share a cell. Returns
/// the largest and the sum for each cell.
fn exponentials(logs: &mut [f64], index: &[u32], cells: usize) -> Vec<(f64, f64)> {
    let mut sums = vec![(f64::NEG_INFINITY, 0.0); cells];
    for (log, cell) in logs.iter().zip(index) {
        if let Some((top, _)) = sums.get_mut(place(*cell)) {
            *top = top.max(*log);
        }
    }
    for (log, cell) in logs.iter_mut().zip(index) {
        *log -= sums.get(place(*cell)).map_or(0.0, |(top, _)| *top);
    }
    for log in logs.iter_mut() {
        *log = exp(*log);
    }
    for (value, cell) in logs.iter().zip(index) {
        if let Some((_, sum)) = sums.get_mut(place(*cell)) {
            *sum += value;
        }
    }
    sums
}
