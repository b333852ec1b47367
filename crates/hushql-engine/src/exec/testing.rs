//! The exact inputs of mechanisms, for tests of sensitivities and draws, never for answers. They
//! exist only with the feature `testing`, which no release turns on.
//!
//! In: the caller's own tables and an analysis of them. Out: exact integers, or many draws from one
//! run of the plan. An [`crate::Engine`] gives no access to this.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::draw::draw;
use super::draw::gathered_input::gather;
use super::draw::rungs::OfLadder;
use super::draw::select::{exact_runs, exact_scores};
use super::plan::bounded_inputs;
use super::verify::{Expected, verify_feed};
use super::{single, specification, width};
use crate::analysis::{CandidateSource, InputShape, Keys, Measure, PrivateAggregate};
use crate::exec::draw::draw_plan::Specification;
use crate::grid::failed;
use crate::mechanism::Beyond;
use crate::release::Release;
use crate::sampler::QueryRng;
use hushql_exec::gather::Gathered;
use hushql_exec::operator::bound_contributions::{BoundContributionsExec, HashKey, LateKey};

/// The exact integers of a private aggregate, without noise: the input of its mechanisms.
///
/// Only for tests of the sensitivity, which plan once and run on many databases. An
/// [`crate::Engine`] gives no access to these sums; they come from an
/// [`crate::analysis::outcome::Analysis`] of the caller's own tables.
#[derive(Debug)]
pub struct ExactSums {
    bounded_inputs: Vec<(Again, InputShape, usize)>,
    keys: Keys,
    measures: Vec<(Measure, usize, usize)>,
}

impl ExactSums {
    /// Plans the enforced rows and sums of a private aggregate, and verifies their plans, as for a
    /// paid query.
    ///
    /// # Errors
    /// DataFusion's planning errors, and [`super::VerifyError`].
    pub async fn plan(
        part: &PrivateAggregate,
        state: &SessionState,
        hash: [u64; 4],
    ) -> Result<Self> {
        let key = LateKey::default();
        key.set(HashKey::new(hash));
        let bounded_inputs = bounded_inputs(part, state, &key).await?;
        for bounded_input in &bounded_inputs {
            verify_feed(&bounded_input.plan, &Expected::for_part(part))
                .map_err(|e| DataFusionError::External(Box::new(e)))?;
        }
        let mut measures = Vec::new();
        for (i, measure) in part.measures().iter().enumerate() {
            let Some(bounded_input) =
                bounded_inputs.iter().position(|bounded_input| bounded_input.measures.contains(&i))
            else {
                return internal_err!("every measure has a bounded input");
            };
            let before = bounded_inputs[bounded_input].measures.iter().take_while(|m| **m != i);
            let first = before.filter_map(|m| part.measures().get(*m)).map(Measure::width).sum();
            measures.push((measure.clone(), bounded_input, first));
        }
        let bounded_inputs = bounded_inputs
            .into_iter()
            .map(|bounded_input| {
                let width = width(part, &bounded_input);
                (Again::over(single(bounded_input.plan)), bounded_input.input_shape, width)
            })
            .collect();
        Ok(Self { bounded_inputs, keys: part.keys().clone(), measures })
    }

    /// Inserts the caller's operator between all enforced rows and the operators that bound and add
    /// them, so that a test that examines both runs the rows once. The caller's operator must pass
    /// rows on, and never answer from rows that it kept. False if the rows are not bounded in one
    /// place; then nothing is inserted.
    ///
    /// # Errors
    /// DataFusion's errors while the plan is put together.
    pub fn tapped(
        mut self,
        tap: impl FnOnce(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>,
    ) -> Result<(Self, bool)> {
        for (bounded_input, input_shape, _) in &mut self.bounded_inputs {
            if let (InputShape::Sums, [bounding]) =
                (*input_shape, bounded_input.plan.children().as_slice())
                && bounding.downcast_ref::<BoundContributionsExec>().is_some()
                && let [rows] = bounding.children().as_slice()
            {
                let rows = tap(Arc::clone(*rows));
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                let bounding = Arc::clone(*bounding).replace_children(vec![rows], options)?;
                *bounded_input = Again { plan: single(bounding), keeps: bounded_input.keeps };
                return Ok((self, true));
            }
        }
        Ok((self, false))
    }

    /// For each measure its vectors of integers: perturbed numbers by column and key, scores of
    /// choices by outer group and candidate. `rank` is the r of MIN and MAX. Undeclared keys come
    /// with their names.
    ///
    /// # Errors
    /// Any error while running; an analyzed private aggregate must not cause one.
    pub async fn run(&self, state: &SessionState, rank: u64) -> Result<Vec<Exact>> {
        let mut gathered: Vec<Gathered> = Vec::new();
        for (plan, input_shape, columns) in &self.bounded_inputs {
            let rows = plan.ready()?.execute(0, state.task_ctx())?;
            let first = gathered.first();
            gathered.push(gather(rows, *input_shape, &self.keys, *columns, first).await?);
        }
        self.measures
            .iter()
            .map(|(measure, bounded_input, first)| {
                let own = gathered.get(*bounded_input).ok_or_else(failed)?;
                let counter =
                    self.bounded_inputs.first().map(|(_, input_shape, _)| match input_shape {
                        InputShape::Groups { counter } => *counter,
                        InputShape::Sums
                        | InputShape::Distinct
                        | InputShape::Places
                        | InputShape::Keys => 0,
                    });
                if let (Some(choice), Some(Gathered::Groups { keys, sums })) =
                    (measure.choice(), gathered.first())
                {
                    let counts = sums.get(counter.unwrap_or(0)).ok_or_else(failed)?;
                    let lines = named(keys, counts.len())?.into_iter().zip(counts).enumerate();
                    let lines = lines.map(|(group, (name, count))| {
                        let runs = exact_runs(choice, own, &self.keys, group, rank);
                        Ok((name, (*count, runs.map_err(|_| failed())?)))
                    });
                    return lines.collect::<Result<_>>().map(Exact::GroupLines);
                }
                exact(measure, own, *first, counter.unwrap_or(0), &self.keys, rank)
            })
            .collect()
    }
}

/// A plan that runs many times, each time over the present tables.
#[derive(Debug)]
struct Again {
    plan: Arc<dyn ExecutionPlan>,
    /// Whether an operator may keep rows from a run: a join would answer from the tables of the
    /// last run.
    keeps: bool,
}

impl Again {
    fn over(plan: Arc<dyn ExecutionPlan>) -> Self {
        let keeps = keeps(plan.as_ref());
        Self { plan, keeps }
    }

    fn ready(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::clone(&self.plan);
        if self.keeps { reset_plan_states(plan) } else { Ok(plan) }
    }
}

/// Whether the plan has an operator that may not start afresh at each run.
fn keeps(plan: &dyn ExecutionPlan) -> bool {
    const AFRESH: [&str; 7] = [
        "BoundContributionsExec",
        "CoalescePartitionsExec",
        "CooperativeExec",
        "FilterExec",
        "PrivateScanExec",
        "ProjectionExec",
        "StreamingTableExec",
    ];
    !AFRESH.contains(&plan.name()) || plan.children().iter().any(|child| keeps(child.as_ref()))
}

/// The exact integers of one measure.
#[derive(Debug, Clone, PartialEq)]
pub enum Exact {
    /// By column (or outer group), then by key (or candidate).
    Vectors(Vec<Vec<i128>>),
    /// Under each bound of a ladder, by column and key; with the number of units, and of units
    /// beyond each bound.
    Ladder {
        /// By bound, column and key.
        under: Vec<Vec<Vec<i128>>>,
        /// The units that add anything, and by bound the units beyond it.
        beyond: Beyond,
    },
    /// By outer group, the scores of a long candidate axis as runs: each with its first candidate,
    /// its length, the score of the first candidate, and the difference between neighbours.
    Lines(Vec<ScoredRuns>),
    /// Undeclared keys as text, in order, with their scores.
    Keys(Vec<(String, i128)>),
    /// Undeclared groups by their keys as text, with their number of units and one measure's
    /// integers.
    Groups(BTreeMap<String, (i128, Vec<i128>)>),
    /// Undeclared groups by their keys as text, with their number of units and the scores of a
    /// candidate axis as runs, as in [`Exact::Lines`].
    GroupLines(BTreeMap<String, (i128, ScoredRuns)>),
}

/// Runs of scores: each with its first candidate, its length, the score of the first candidate, and
/// the difference between neighbours.
pub type ScoredRuns = Vec<(u64, u64, i128, i128)>;

/// The keys of undeclared groups as text.
fn named(keys: &[ArrayRef], groups: usize) -> Result<Vec<String>> {
    let name = |group: usize| {
        let of = |column: &ArrayRef| Ok(ScalarValue::try_from_array(column, group)?.to_string());
        Ok(keys.iter().map(of).collect::<Result<Vec<_>>>()?.join(", "))
    };
    (0..groups).map(name).collect()
}

/// The most scores to list one by one.
const MOST_LISTED: u64 = 1_000;

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
            if let Some(ladder) = &measure.ladder {
                let own = OfLadder::new(sums, first, ladder, measure.parts())?;
                let under = (0..ladder.rungs.len()).map(|rung| own.under(rung));
                let under = under.collect::<Result<_>>()?;
                return Ok(Exact::Ladder { under, beyond: own.beyond()? });
            }
            let own = sums.get(first..first + measure.width()).ok_or_else(failed)?;
            Ok(Exact::Vectors(own.to_vec()))
        }
        // The bins of a CDF, with the groups in the place of keys.
        (None, Gathered::Places(groups)) => {
            let mut bins = vec![vec![0; groups.len()]; measure.bins().ok_or_else(failed)?];
            for (group, own) in groups.iter().enumerate() {
                for (place, rows) in own.points().iter() {
                    let place = usize::try_from(*place).map_err(|_| failed())?;
                    *bins
                        .get_mut(place)
                        .and_then(|bin| bin.get_mut(group))
                        .ok_or_else(failed)? += *rows;
                }
            }
            Ok(Exact::Vectors(bins))
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
            let counts = sums.get(counter).ok_or_else(failed)?;
            for (i, (count, name)) in counts.iter().zip(named(keys, counts.len())?).enumerate() {
                let own = sums.get(first..first + measure.width()).ok_or_else(failed)?;
                let own = own.iter().filter_map(|sums| sums.get(i).copied()).collect();
                groups.insert(name, (*count, own));
            }
            Ok(Exact::Groups(groups))
        }
        (Some(choice), gathered) if matches!(&choice.source, CandidateSource::Line { axis, .. } if axis.count() > MOST_LISTED) => {
            (0..keys.outer().len())
                .map(|group| exact_runs(choice, gathered, keys, group, rank))
                .collect::<Result<_, _>>()
                .map(Exact::Lines)
                .map_err(|_| failed())
        }
        (Some(choice), gathered) => (0..keys.outer().len())
            .map(|group| exact_scores(choice, gathered, first, keys, group, rank))
            .collect::<Result<_, _>>()
            .map(Exact::Vectors)
            .map_err(|_| failed()),
        (None, _) => internal_err!("numbers are sums of keys"),
    }
}

/// A release whose exact integers were computed once, for many draws.
#[derive(Debug)]
pub struct Draws {
    specification: Arc<Specification>,
    gathered: Vec<Gathered>,
}

impl Draws {
    /// Plans and runs the bounded inputs of a private aggregate.
    ///
    /// # Errors
    /// Any error while planning or running.
    pub async fn for_part(release: &Release, part: usize, state: &SessionState) -> Result<Self> {
        let Some(analyzed) = release.analysis().parts().get(part) else {
            return internal_err!("a release has its parts");
        };
        let key = LateKey::default();
        key.set(HashKey::new([1, 2, 3, 4]));
        let bounded_inputs = bounded_inputs(analyzed, state, &key).await?;
        let specification = specification(release, part, &bounded_inputs)?;
        let mut gathered: Vec<Gathered> = Vec::new();
        for (bounded_input, (input_shape, columns)) in
            bounded_inputs.into_iter().zip(&specification.bounded_inputs)
        {
            let rows = single(bounded_input.plan).execute(0, state.task_ctx())?;
            let (keys, first) = (&specification.keys, gathered.first());
            gathered.push(gather(rows, *input_shape, keys, *columns, first).await?);
        }
        Ok(Self { specification, gathered })
    }

    /// One draw of the released table.
    ///
    /// # Errors
    /// Any error of a mechanism.
    pub fn draw(&self, rng: &mut QueryRng) -> Result<RecordBatch> {
        draw(&self.specification, &self.gathered, rng).map_err(|_| failed())
    }
}
