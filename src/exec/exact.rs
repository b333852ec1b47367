//! What mechanisms would be given: for tests of sensitivities and of draws, never for answers.
//!
//! In: one's own tables and an analysis of them. Out: exact integers, or many draws from one run of the plan.
//! Nothing that an [`crate::Engine`] hands out leads here.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;

use super::bound::{HashKey, LateKey};
use super::choose::exact_scores;
use super::draw::draw;
use super::feed::feeds;
use super::gather::{Gathered, gather};
use super::physical::Specification;
use super::{single, specification, width};
use crate::analysis::{Gathering, Keys, Measure, Part};
use crate::grid::failed;
use crate::release::Release;
use crate::sampler::QueryRng;

/// The exact integers of a part, without noise: what its mechanisms would be given.
///
/// For tests of the sensitivity alone, which plan once and run on many databases. Nothing that an
/// [`crate::Engine`] hands out leads here: it takes an [`crate::analysis::Analysis`] of one's own tables.
#[doc(hidden)]
#[derive(Debug)]
pub struct ExactSums {
    feeds: Vec<(Arc<dyn ExecutionPlan>, Gathering, usize)>,
    keys: Keys,
    measures: Vec<(Measure, usize, usize)>,
}

impl ExactSums {
    /// Plans the part's enforced rows and sums, as a paid query would.
    ///
    /// # Errors
    /// What DataFusion says while planning.
    pub async fn plan(part: &Part, state: &SessionState, hash: [u64; 4]) -> Result<Self> {
        let key = LateKey::default();
        key.set(HashKey::new(hash));
        let feeds = feeds(part, state, &key).await?;
        let mut measures = Vec::new();
        for (i, measure) in part.measures().iter().enumerate() {
            let Some(feed) = feeds.iter().position(|feed| feed.measures.contains(&i)) else {
                return internal_err!("every measure has a feed");
            };
            let before = feeds[feed].measures.iter().take_while(|m| **m != i);
            let first = before.filter_map(|m| part.measures().get(*m)).map(Measure::width).sum();
            measures.push((measure.clone(), feed, first));
        }
        let feeds = feeds
            .into_iter()
            .map(|feed| {
                let width = width(part, &feed);
                (single(feed.plan), feed.gathering, width)
            })
            .collect();
        Ok(Self { feeds, keys: part.keys().clone(), measures })
    }

    /// For each measure its vectors of integers: what is perturbed, by column and key; what chooses, by outer
    /// group and candidate. `rank` is the r of MIN and MAX. Keys that only the data know come with their names.
    ///
    /// # Errors
    /// Whatever fails while running; for an analyzed part, nothing may.
    pub async fn run(&self, state: &SessionState, rank: u64) -> Result<Vec<Exact>> {
        let mut gathered = Vec::new();
        for (plan, gathering, columns) in &self.feeds {
            // A join keeps what it has built, and would answer from the tables of the last run.
            let rows = reset_plan_states(Arc::clone(plan))?.execute(0, state.task_ctx())?;
            gathered.push(gather(rows, *gathering, &self.keys, *columns).await?);
        }
        self.measures
            .iter()
            .map(|(measure, feed, first)| {
                let own = gathered.get(*feed).ok_or_else(failed)?;
                let counter = self.feeds.get(*feed).map(|(_, gathering, _)| match gathering {
                    Gathering::Groups { counter } => *counter,
                    Gathering::Sums | Gathering::Distinct | Gathering::Places | Gathering::Keys => {
                        0
                    }
                });
                exact(measure, own, *first, counter.unwrap_or(0), &self.keys, rank)
            })
            .collect()
    }
}

/// The exact integers of one measure.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub enum Exact {
    /// By column (or outer group), then by key (or candidate).
    Vectors(Vec<Vec<i128>>),
    /// Keys that only the data know, as text, in order, with their scores.
    Keys(Vec<(String, i128)>),
    /// Groups that only the data know, by their keys as text: their number of units, and one measure's integers.
    Groups(BTreeMap<String, (i128, Vec<i128>)>),
}

fn exact(
    measure: &Measure,
    gathered: &Gathered,
    first: usize,
    counter: usize,
    keys: &Keys,
    rank: u64,
) -> Result<Exact> {
    match (measure.choice(), gathered) {
        (None, Gathered::Sums(sums)) => {
            let own = sums.get(first..first + measure.width()).ok_or_else(failed)?;
            Ok(Exact::Vectors(own.to_vec()))
        }
        (Some(_), Gathered::Keys { values, sums }) => {
            let mut named = Vec::new();
            for (i, sum) in sums.iter().enumerate() {
                let values = values.as_ref().ok_or_else(failed)?;
                let name = ScalarValue::try_from_array(values, i)?;
                named.push((name.to_string(), *sum));
            }
            named.sort();
            Ok(Exact::Keys(named))
        }
        (None, Gathered::Groups { keys, sums }) => {
            let mut groups = BTreeMap::new();
            for (i, count) in sums.get(counter).ok_or_else(failed)?.iter().enumerate() {
                let name = keys
                    .iter()
                    .map(|column| Ok(ScalarValue::try_from_array(column, i)?.to_string()))
                    .collect::<Result<Vec<_>>>()?;
                let own = sums.get(first..first + measure.width()).ok_or_else(failed)?;
                let own = own.iter().filter_map(|sums| sums.get(i).copied()).collect();
                groups.insert(name.join(", "), (*count, own));
            }
            Ok(Exact::Groups(groups))
        }
        (Some(choice), gathered) => (0..keys.outer().len())
            .map(|group| exact_scores(choice, gathered, first, keys, group, rank))
            .collect::<Result<_, _>>()
            .map(Exact::Vectors)
            .map_err(|_| failed()),
        (None, _) => internal_err!("numbers are sums of keys"),
    }
}

/// A release whose exact integers were computed once, to be drawn from many times.
#[doc(hidden)]
#[derive(Debug)]
pub struct Draws {
    specification: Arc<Specification>,
    gathered: Vec<Gathered>,
}

impl Draws {
    /// Plans and runs the feeds of a part.
    ///
    /// # Errors
    /// Whatever fails while planning or running.
    pub async fn of(release: &Release, part: usize, state: &SessionState) -> Result<Self> {
        let Some(analyzed) = release.analysis().parts().get(part) else {
            return internal_err!("a release has its parts");
        };
        let key = LateKey::default();
        key.set(HashKey::new([1, 2, 3, 4]));
        let feeds = feeds(analyzed, state, &key).await?;
        let specification = specification(release, part, &feeds)?;
        let mut gathered = Vec::new();
        for (feed, (gathering, columns)) in feeds.into_iter().zip(&specification.feeds) {
            let rows = single(feed.plan).execute(0, state.task_ctx())?;
            gathered.push(gather(rows, *gathering, &specification.keys, *columns).await?);
        }
        Ok(Self { specification, gathered })
    }

    /// One draw of the released table.
    ///
    /// # Errors
    /// Whatever a mechanism refuses.
    pub fn draw(&self, rng: &mut QueryRng) -> Result<RecordBatch> {
        draw(&self.specification, &self.gathered, rng).map_err(|_| failed())
    }
}
