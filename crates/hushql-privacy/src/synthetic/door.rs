//! The door between the private rows and everything else.
//!
//! In: exact counts, which only the door reads, and questions made of public values. Out:
//! [`Released`] values: noisy counts, and chosen candidates. The door keeps the account and spends
//! at most the charged amount. It derives sensitivities and ranges itself, from the bounds of a
//! unit and the weights of the candidates, so no caller can get them wrong.
//!
//! The score of a candidate c is w_c·(‖x_c − x̂_c‖₁ − β_c), with the exact counts x_c, the model's
//! x̂_c rounded to integers, and a public integer β_c. A unit moves ‖x_c − x̂_c‖₁ by at most Δ₁, up
//! or down. So the changes of two scores differ by at most (w⁽¹⁾ + w⁽²⁾)·Δ₁, with the two largest
//! weights: this is the range of the choice.
//!
//! ```text
//! select([{0,1}: weight 2], the model's answer (3, 1, 0, 2), ρ = 10⁻³)   →  Released(0)
//! measure({0,1}, ρ = 9·10⁻³)                                           →  Released(4, −1, 7, 3)
//! ```

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's numbers are small"
)]
mod tests;

use std::collections::BTreeMap;

use super::columns::{ColumnSet, Count, index};
use super::made::{Failed, Stop, check};
use super::noise::{Chooser, Mode, Noise};
use super::small;
use super::task::{Sensitivity, SyntheticTask};
use crate::sampler::QueryRng;

/// A value that noise or a choice made private. Only the door makes such values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Released<T>(T);

impl<T> Released<T> {
    #[cfg(test)]
    pub(super) fn for_tests(value: T) -> Self {
        Self(value)
    }

    /// The value, which is public.
    pub(super) fn get(&self) -> &T {
        &self.0
    }
}

/// A marginal with noise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Its columns.
    pub(super) columns: ColumnSet,
    /// The noisy counts of all cells, in grid units.
    pub(super) values: Vec<i128>,
    /// The noise of each.
    pub(super) noise: Noise,
}

/// A candidate of a choice, and its weight.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// Its columns.
    pub(super) columns: ColumnSet,
    /// Its weight w, at least 1.
    pub(super) weight: u64,
    /// β: the error that the noise would bring.
    pub(super) bias: i64,
}

/// A model's answer to one marginal: the counts of all cells, in whole grid units. `None` if that
/// would need too much memory. Marginals are requested one by one, and never held together.
pub(super) type Answer<'m> = &'m mut dyn FnMut(&ColumnSet) -> Option<Vec<i64>>;

/// The scores of the candidates that the model answers. They are never released.
struct Scored {
    /// Their indices among the candidates.
    places: Vec<usize>,
    scores: Vec<i128>,
    range: u128,
}

/// The source of the draws.
#[derive(Debug)]
enum Draw<'a> {
    /// The generator of the query.
    Random(&'a mut QueryRng),
    /// A script, in tests.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests make it"))]
    Scripted(Script),
}

/// Replaces the generator in tests. Outside tests it has no variant.
#[cfg(not(test))]
#[derive(Debug)]
enum Script {}

#[cfg(not(test))]
impl Script {
    fn noisy(&mut self, _: &[i64]) -> Result<Vec<i128>, Failed> {
        match *self {}
    }

    fn chosen(&mut self, _: &[i128]) -> Result<usize, Failed> {
        match *self {}
    }
}

#[cfg(test)]
#[derive(Debug)]
enum Script {
    /// No noise, and the best candidate wins.
    Exact,
    /// The releases of another run, in order.
    Replayed(std::collections::VecDeque<Told>),
}

#[cfg(test)]
impl Script {
    fn noisy(&mut self, exact: &[i64]) -> Result<Vec<i128>, Failed> {
        match self {
            Self::Exact => Ok(exact.iter().copied().map(i128::from).collect()),
            Self::Replayed(told) => match told.pop_front() {
                Some(Told::Values(values)) if values.len() == exact.len() => Ok(values),
                other => panic!("not what was released: {other:?}"),
            },
        }
    }

    fn chosen(&mut self, scores: &[i128]) -> Result<usize, Failed> {
        match self {
            Self::Exact => {
                let best = scores.iter().max();
                scores.iter().position(|score| Some(score) == best).ok_or(Failed::Fault)
            }
            Self::Replayed(told) => match told.pop_front() {
                Some(Told::Index(index)) if index < scores.len() => Ok(index),
                other => panic!("not what was released: {other:?}"),
            },
        }
    }
}

/// The releases and questions of a run, kept in tests only.
#[cfg(not(test))]
#[derive(Debug, Default)]
pub(super) struct Log {}

#[cfg(not(test))]
impl Log {
    fn values(&mut self, _: &[i128]) {}
    fn index(&mut self, _: usize) {}
    fn candidate(&mut self, _: &Candidate, _: &[i64]) {}
    fn sets(&mut self, _: &[ColumnSet]) {}
}

#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) told: Vec<Told>,
    /// The model's answer to each candidate, and the sets of each count.
    pub(super) asked: Vec<Vec<(ColumnSet, Vec<i64>)>>,
}

#[cfg(test)]
impl Log {
    fn values(&mut self, values: &[i128]) {
        self.told.push(Told::Values(values.to_vec()));
    }

    fn index(&mut self, index: usize) {
        self.told.push(Told::Index(index));
    }

    fn candidate(&mut self, candidate: &Candidate, model: &[i64]) {
        self.asked.push(vec![(candidate.columns.clone(), model.to_vec())]);
    }

    fn sets(&mut self, sets: &[ColumnSet]) {
        self.asked.push(sets.iter().map(|set| (set.clone(), Vec::new())).collect());
    }
}

/// A release of a run.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Told {
    /// Noisy counts.
    Values(Vec<i128>),
    /// A choice.
    Index(usize),
}

/// The door.
pub(super) struct Door<'a> {
    counts: &'a dyn Count,
    sizes: &'a [usize],
    sensitivity: Sensitivity,
    mode: Mode,
    total: u64,
    left: u64,
    most_held: usize,
    kept: BTreeMap<ColumnSet, Vec<i64>>,
    draw: Draw<'a>,
    stop: Stop<'a>,
    pub(super) log: Log,
}

impl<'a> Door<'a> {
    /// A door to these rows, for a charged task. It shuts when the statement is over.
    pub(super) fn new(
        task: &'a SyntheticTask,
        counts: &'a dyn Count,
        rng: &'a mut QueryRng,
        stop: Stop<'a>,
    ) -> Self {
        Self { stop, ..Self::with(task, counts, Draw::Random(rng)) }
    }

    fn with(task: &'a SyntheticTask, counts: &'a dyn Count, draw: Draw<'a>) -> Self {
        Self {
            counts,
            sizes: &task.sizes,
            sensitivity: task.sensitivity,
            mode: task.budget.into(),
            total: task.budget.nano(),
            left: task.budget.nano(),
            most_held: task.most_held,
            kept: BTreeMap::new(),
            draw,
            stop: &|| false,
            log: Log::default(),
        }
    }

    /// A door without noise, where the best wins: it shows a method with exact answers.
    #[cfg(test)]
    pub(super) fn exact(task: &'a SyntheticTask, counts: &'a dyn Count) -> Self {
        Self::with(task, counts, Draw::Scripted(Script::Exact))
    }

    /// A door that releases what another run released, whatever the rows are.
    #[cfg(test)]
    pub(super) fn replaying(
        task: &'a SyntheticTask,
        counts: &'a dyn Count,
        told: Vec<Told>,
    ) -> Self {
        Self::with(task, counts, Draw::Scripted(Script::Replayed(told.into())))
    }

    /// The check whether the statement is over.
    pub(super) fn stop(&self) -> Stop<'a> {
        self.stop
    }

    /// The part of the budget that was used, in billionths.
    pub(super) fn used(&self) -> u64 {
        self.total.saturating_sub(self.left)
    }

    /// The noise of a measurement at this share. Public.
    ///
    /// # Errors
    /// [`Failed::Mechanism`] when the noise cannot be drawn.
    pub(super) fn noise(&self, share: u64) -> Result<Noise, Failed> {
        Ok(Noise::calibrate(self.mode, self.sensitivity, share)?)
    }

    /// Subtracts a share from the budget.
    fn pay(&mut self, share: u64) -> Result<(), Failed> {
        self.left = self.left.checked_sub(share).ok_or(Failed::Fault)?;
        Ok(())
    }

    /// The noisy counts of these marginals, each at this share; the rows are read once for all.
    ///
    /// # Guarantee
    /// As private as one share for each marginal: a unit moves each by at most Δ₁, and Δ₂ in the
    /// Euclidean norm.
    ///
    /// # Errors
    /// [`Failed`] when the shares exceed the rest of the budget, the rows cannot be counted, or
    /// noise cannot be drawn.
    pub(super) fn measure(
        &mut self,
        sets: &[ColumnSet],
        share: u64,
    ) -> Result<Vec<Released<Measured>>, Failed> {
        let noise = self.noise(share)?;
        for _ in sets {
            self.pay(share)?;
        }
        self.look(sets)?;
        let mut measured = Vec::new();
        for set in sets {
            check(self.stop)?;
            let exact = self.kept.get(set).ok_or(Failed::Fault)?;
            let values = self.draw.noisy(exact, &noise)?;
            self.log.values(&values);
            let columns = set.clone();
            measured.push(Released(Measured { columns, values, noise: noise.clone() }));
        }
        Ok(measured)
    }

    /// The noisy total of all counts: a marginal of no column, which has one cell.
    ///
    /// # Guarantee
    /// As private as the share: one unit moves the total by at most Δ₁ = Δ₂.
    ///
    /// # Errors
    /// As [`Door::measure`].
    pub(super) fn measure_total(&mut self, share: u64) -> Result<Released<Measured>, Failed> {
        let noise = self.noise(share)?;
        self.pay(share)?;
        let first = ColumnSet::new([0]);
        self.look(std::slice::from_ref(&first))?;
        let exact = self.kept.get(&first).ok_or(Failed::Fault)?;
        let number = exact.iter().fold(0, |sum, count| i64::saturating_add(sum, *count));
        let values = self.noisy(&[number], &noise)?;
        Ok(Released(Measured { columns: ColumnSet::new([]), values, noise }))
    }

    /// The noisy count of one cell of a marginal.
    ///
    /// # Guarantee
    /// As [`Door::measure_total`].
    ///
    /// # Errors
    /// As [`Door::measure`].
    pub(super) fn measure_cell(
        &mut self,
        set: &ColumnSet,
        cell: usize,
        share: u64,
    ) -> Result<Released<i128>, Failed> {
        let noise = self.noise(share)?;
        self.pay(share)?;
        self.look(std::slice::from_ref(set))?;
        let number = self.kept.get(set).and_then(|exact| exact.get(cell)).copied();
        let values = self.noisy(&[number.ok_or(Failed::Fault)?], &noise)?;
        Ok(Released(values.first().copied().ok_or(Failed::Fault)?))
    }

    /// Adds noise.
    fn noisy(&mut self, exact: &[i64], noise: &Noise) -> Result<Vec<i128>, Failed> {
        let values = self.draw.noisy(exact, noise)?;
        self.log.values(&values);
        Ok(values)
    }

    /// Chooses a candidate, most likely one that the model answers worst. Returns its index.
    ///
    /// # Guarantee
    /// As private as the share, for the range that [`range`] derives. The set of candidates that
    /// the model answers is a function of released values. A single candidate is chosen without a
    /// draw, and without reading the rows.
    ///
    /// # Errors
    /// [`Failed`] when the share exceeds the rest of the budget, the rows cannot be counted, there
    /// is no candidate, the choice cannot be drawn, or the statement is over.
    pub(super) fn select(
        &mut self,
        candidates: &[Candidate],
        answer: Answer<'_>,
        share: u64,
    ) -> Result<Released<usize>, Failed> {
        self.pay(share)?;
        if candidates.len() == 1 {
            return Ok(Released(0));
        }
        let Scored { places, scores, range } = self.scored(candidates, answer)?;
        let chosen = match places.len() {
            1 => 0,
            _ => *self.choose(&scores, range, share)?.get(),
        };
        Ok(Released(places.get(chosen).copied().ok_or(Failed::Fault)?))
    }

    /// The scores, which are never released, and their range.
    fn scored(&mut self, candidates: &[Candidate], answer: Answer<'_>) -> Result<Scored, Failed> {
        let mut scored = Scored { places: Vec::new(), scores: Vec::new(), range: 0 };
        let mut place = 0;
        for batch in batches(candidates, self.sizes, self.most_held) {
            let sets: Vec<ColumnSet> = batch.iter().map(|c| c.columns.clone()).collect();
            self.look(&sets)?;
            for candidate in batch {
                check(self.stop)?;
                if let Some(model) = answer(&candidate.columns) {
                    self.log.candidate(candidate, &model);
                    let exact = self.kept.get(&candidate.columns).ok_or(Failed::Fault)?;
                    scored.scores.push(score(candidate, &model, exact).ok_or(Failed::Fault)?);
                    scored.places.push(place);
                }
                place += 1;
            }
        }
        let weights = scored.places.iter().filter_map(|at| candidates.get(*at)).map(|c| c.weight);
        scored.range = range(weights, self.sensitivity);
        Ok(scored)
    }

    /// Chooses a cell of these marginals, most likely one that the model answers worst by |x − x̂|.
    /// Returns its number.
    ///
    /// # Guarantee
    /// As [`Door::select`], with the weight 1 for each cell. Cells are numbered through all
    /// marginals.
    ///
    /// # Errors
    /// As [`Door::select`]; also if the model does not answer a marginal.
    pub(super) fn select_cell(
        &mut self,
        candidates: &[Candidate],
        answer: Answer<'_>,
        share: u64,
    ) -> Result<Released<usize>, Failed> {
        self.pay(share)?;
        let mut scores = Vec::new();
        for batch in batches(candidates, self.sizes, self.most_held) {
            let sets: Vec<ColumnSet> = batch.iter().map(|c| c.columns.clone()).collect();
            self.look(&sets)?;
            for candidate in batch {
                check(self.stop)?;
                let model = answer(&candidate.columns).ok_or(Failed::Fault)?;
                self.log.candidate(candidate, &model);
                let exact = self.kept.get(&candidate.columns).ok_or(Failed::Fault)?;
                let gap = |(x, y): (&i64, &i64)| i128::from(x.abs_diff(*y));
                scores.extend(exact.iter().zip(&model).map(gap));
            }
        }
        self.choose(&scores, range([1, 1], self.sensitivity), share)
    }

    /// Chooses a table of `rows` rows, most likely one that answers the cells of these marginals
    /// well. Returns its number among all such tables.
    ///
    /// # Guarantee
    /// As private as the share: one row moves two scores by amounts that differ by at most 2m − 1,
    /// and a unit is worth Δ₁ rows. Scores depend on the number of rows, which is the sum of exact
    /// counts and is never released.
    ///
    /// # Errors
    /// As [`Door::select`].
    pub(super) fn select_database(
        &mut self,
        sets: &[ColumnSet],
        rows: u32,
        share: u64,
    ) -> Result<Released<usize>, Failed> {
        self.pay(share)?;
        let (scores, range) = self.scored_databases(sets, rows)?;
        let chooser = Chooser::exponential(self.mode, range, share)?;
        self.chosen(&scores, &chooser)
    }

    /// The scores, which are never released, and their range.
    fn scored_databases(
        &mut self,
        sets: &[ColumnSet],
        rows: u32,
    ) -> Result<(Vec<i128>, u128), Failed> {
        self.look(sets)?;
        let counts: Option<Vec<&[i64]>> =
            sets.iter().map(|set| self.kept.get(set).map(Vec::as_slice)).collect();
        let all: Vec<usize> = (0..self.sizes.len()).collect();
        let of: Vec<Vec<u32>> =
            sets.iter().map(|set| index(&all, set.as_slice(), self.sizes)).collect();
        let cells = ColumnSet::new(all).cells(self.sizes);
        let counts = counts.ok_or(Failed::Fault)?;
        let scores = small::scores(&counts, &of, cells, rows, self.stop);
        Ok((
            scores.ok_or(Failed::Stopped)?,
            small::range(rows).saturating_mul(self.sensitivity.l1().into()),
        ))
    }

    fn choose(
        &mut self,
        scores: &[i128],
        range: u128,
        share: u64,
    ) -> Result<Released<usize>, Failed> {
        let chooser = Chooser::calibrate(self.mode, range, share)?;
        self.chosen(scores, &chooser)
    }

    fn chosen(&mut self, scores: &[i128], chooser: &Chooser) -> Result<Released<usize>, Failed> {
        let index = self.draw.chosen(scores, chooser)?;
        self.log.index(index);
        Ok(Released(index))
    }

    /// Counts these sets in one pass over the rows, if there is room to keep the counts. It
    /// releases nothing.
    ///
    /// # Errors
    /// [`Failed::Count`] when the rows cannot be counted.
    pub(super) fn prepare(&mut self, sets: &[ColumnSet]) -> Result<(), Failed> {
        let cells = sets.iter().map(|set| set.cells(self.sizes)).fold(0, usize::saturating_add);
        if cells > self.most_held { Ok(()) } else { self.look(sets) }
    }

    /// Counts the sets that are not kept. Sets of earlier questions make room.
    fn look(&mut self, sets: &[ColumnSet]) -> Result<(), Failed> {
        let mut missing: Vec<ColumnSet> =
            sets.iter().filter(|set| !self.kept.contains_key(set)).cloned().collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let cells = |sets: &mut dyn Iterator<Item = &ColumnSet>| -> usize {
            sets.map(|set| set.cells(self.sizes)).fold(0, usize::saturating_add)
        };
        if cells(&mut self.kept.keys().chain(&missing)) > self.most_held {
            self.kept.retain(|set, _| sets.contains(set));
        }
        check(self.stop)?;
        self.log.sets(&missing);
        let counted = self.counts.count(&missing)?;
        if counted.len() != missing.len() {
            return Err(Failed::Fault);
        }
        for (set, counts) in missing.into_iter().zip(counted) {
            if counts.len() != set.cells(self.sizes) {
                return Err(Failed::Fault);
            }
            self.kept.insert(set, counts);
        }
        Ok(())
    }
}

impl Draw<'_> {
    fn noisy(&mut self, exact: &[i64], noise: &Noise) -> Result<Vec<i128>, Failed> {
        match self {
            Self::Random(rng) => {
                let noisy = |count: &i64| i128::from(*count).saturating_add(noise.draw(rng));
                Ok(exact.iter().map(noisy).collect())
            }
            Self::Scripted(script) => script.noisy(exact),
        }
    }

    fn chosen(&mut self, scores: &[i128], chooser: &Chooser) -> Result<usize, Failed> {
        match self {
            Self::Random(rng) => Ok(chooser.choose(scores, rng)?),
            Self::Scripted(script) => script.chosen(scores),
        }
    }
}

/// Groups of candidates whose counts can be kept together.
fn batches<'c>(candidates: &'c [Candidate], sizes: &[usize], most: usize) -> Vec<&'c [Candidate]> {
    let (mut batches, mut start, mut cells) = (Vec::new(), 0, 0_usize);
    for (at, candidate) in candidates.iter().enumerate() {
        let more = candidate.columns.cells(sizes);
        if at > start && cells.saturating_add(more) > most {
            batches.push(&candidates[start..at]);
            (start, cells) = (at, 0);
        }
        cells = cells.saturating_add(more);
    }
    batches.push(&candidates[start..]);
    batches
}

/// w·(‖x − x̂‖₁ − β), exactly; `None` if the model has another number of cells.
pub(super) fn score(candidate: &Candidate, model: &[i64], exact: &[i64]) -> Option<i128> {
    if exact.len() != model.len() {
        return None;
    }
    let gaps = exact.iter().zip(model).map(|(x, y)| i128::from(x.abs_diff(*y)));
    let distance: i128 = gaps.sum();
    Some((distance - i128::from(candidate.bias)) * i128::from(candidate.weight))
}

/// R: the largest difference between the changes of two scores on neighbouring databases, for
/// candidates of these weights.
///
/// # Guarantee
/// Each score moves by at most its weight times Δ₁, up or down. So two scores move apart by at most
/// (w⁽¹⁾ + w⁽²⁾)·Δ₁. This is attained if one distance grows and the other falls.
pub(super) fn range(weights: impl IntoIterator<Item = u64>, sensitivity: Sensitivity) -> u128 {
    let (mut first, mut second) = (0, 0);
    for weight in weights {
        if weight > first {
            (first, second) = (weight, first);
        } else if weight > second {
            second = weight;
        }
    }
    (u128::from(first) + u128::from(second)) * u128::from(sensitivity.l1())
}
