//! The operators of bounded inputs as plain values, from which another process makes the same
//! operators.
//!
//! In: an operator of the engine below the privatizing one. Out: an [`Operator`] with everything
//! but the inputs and the key of the bounds. DataFusion's own operators have no description here,
//! because DataFusion has one for each. For every operator of a bounded input, [`InputOperator`]
//! says which of the two it is, or that it cannot be sent.
//!
//! ```text
//! BoundContributionsExec   ─▶ InputOperator::Own(Operator)   unit 0, keys [1], the key space, the aggregates and their bounds
//! FilterExec               ─▶ InputOperator::DataFusions
//! StreamingTableExec       ─▶ CannotRunThere                 lines of a CSV file
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::prelude::SessionConfig;
use serde::{Deserialize, Serialize};

use super::key::BoundingKey;
use super::site::CannotRunThere;
use crate::exec::datafusion::limited_joins::LimitedJoinExec;
use crate::exec::datafusion::opaque::OpaqueExec;
use crate::exec::source::{HeldFiles, ReceivedFiles, ShippedFile};
use crate::functions::travelling_values;
use hushql_exec::operator::bound_contributions::{
    AggregateInput, BoundContributionsExec, EnforcedBounds, KeySpace,
};
use hushql_exec::operator::count_places::CountPlacesExec;
use hushql_exec::operator::private_scan::PrivateScanExec;
use hushql_exec::operator::sample_rows::SampleContributionsExec;
use hushql_exec::operator::sum_by_key::SumByKeyExec;

/// What to do about a table that only this process can read.
const AS_FILES: &str = "store its rows as Parquet or Arrow files in a folder or an object store that all workers see, or run without workers";

/// For each table, the most bytes of public rows in memory that travel with a plan.
pub const MOST_BYTES_OF_ROWS: usize = 2 << 20;

/// An operator of a bounded input, in the form in which it is sent.
#[derive(Debug, Clone)]
pub enum InputOperator {
    /// An operator of the engine.
    Own(Operator),
    /// An operator of DataFusion, which describes itself.
    DataFusions,
}

/// An operator of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operator(Described);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Described {
    PrivateScan {
        table: String,
        /// `None` before the charge, for a table that lists its files after it.
        files: Option<Vec<ShippedFile>>,
    },
    /// The files of a public table.
    PublicScan {
        files: Vec<ShippedFile>,
    },
    BoundContributions {
        unit: usize,
        keys: Vec<usize>,
        space: Space,
        inputs: Vec<AggregateInput>,
    },
    SampleContributions {
        unit: usize,
        group: Vec<usize>,
        limits: EnforcedBounds,
        distinct: bool,
    },
    CountPlaces {
        space: Space,
        places: u64,
        filter: Option<usize>,
    },
    SumByKey {
        space: Space,
        inputs: Vec<AggregateInput>,
    },
    Opaque,
    /// A join within the limits of its statement.
    LimitedJoin,
}

/// A key space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Space {
    /// The keys by column; for undeclared keys, empty columns of their types.
    #[serde(with = "travelling_values::columns")]
    columns: Vec<ArrayRef>,
    /// Whether the keys are undeclared.
    of_the_data: bool,
}

impl Space {
    fn of(space: &KeySpace) -> Self {
        Self { columns: space.columns().to_vec(), of_the_data: space.is_of_the_data() }
    }

    fn made(&self) -> Result<KeySpace> {
        match self.of_the_data {
            true => Ok(KeySpace::of_the_data(self.columns.iter().map(Array::data_type))),
            false => KeySpace::new(&self.columns),
        }
    }
}

impl InputOperator {
    /// Describes an operator of a bounded input, for a session with this configuration. Before the
    /// charge, the files of some tables are unknown, and no description may be sent.
    ///
    /// # Guarantee
    /// [`Operator::made`] of an operator of the engine yields the same rows as the operator, if its
    /// inputs yield the same rows.
    ///
    /// # Errors
    /// Why it cannot be sent: it is not on the list, or reads a table that only this process can
    /// read.
    pub fn of(
        plan: &Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
    ) -> Result<Self, CannotRunThere> {
        let own = |described| Ok(Self::Own(Operator(described)));
        if let Some(scan) = plan.downcast_ref::<PrivateScanExec>() {
            return own(scanned(scan, config)?);
        }
        if let Some(bounded) = plan.downcast_ref::<BoundContributionsExec>() {
            let (unit, keys, space, inputs) = bounded.parts();
            refuse_floats(plan, unit)?;
            let (keys, inputs) = (keys.to_vec(), inputs.to_vec());
            let space = Space::of(space);
            return own(Described::BoundContributions { unit, keys, space, inputs });
        }
        if let Some(sampled) = plan.downcast_ref::<SampleContributionsExec>() {
            let (unit, group, limits, distinct) = sampled.parts();
            refuse_floats(plan, unit)?;
            let group = group.to_vec();
            return own(Described::SampleContributions { unit, group, limits, distinct });
        }
        if let Some(counted) = plan.downcast_ref::<CountPlacesExec>() {
            let (space, places, filter) = counted.parts();
            return own(Described::CountPlaces { space: Space::of(space), places, filter });
        }
        if let Some(summed) = plan.downcast_ref::<SumByKeyExec>() {
            let (space, inputs) = summed.parts();
            let (space, inputs) = (Space::of(space), inputs.to_vec());
            return own(Described::SumByKey { space, inputs });
        }
        if plan.is::<OpaqueExec>() {
            return own(Described::Opaque);
        }
        if plan.is::<LimitedJoinExec>() {
            return own(Described::LimitedJoin);
        }
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            // Sources of private tables are below their scans, and described with them.
            return match source.data_source().downcast_ref::<MemorySourceConfig>() {
                Some(rows) => travels(rows).map(|()| Self::DataFusions),
                None => own(Described::PublicScan { files: held(plan, config)? }),
            };
        }
        let known = plan.is::<AggregateExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.is::<CooperativeExec>()
            || plan.is::<EmptyExec>()
            || plan.is::<FilterExec>()
            || plan.is::<ProjectionExec>()
            || plan.is::<RepartitionExec>()
            || plan.is::<BoundedWindowAggExec>()
            || plan.is::<CrossJoinExec>()
            || plan.is::<HashJoinExec>()
            || plan.is::<NestedLoopJoinExec>()
            || plan.is::<SortExec>()
            || plan.is::<SortPreservingMergeExec>()
            || plan.is::<UnionExec>()
            || plan.is::<WindowAggExec>();
        match known {
            true => Ok(Self::DataFusions),
            false => Err(refused(plan)),
        }
    }
}

/// The position of the unit in the input of an operator that bounds contributions; `None` for other
/// operators.
pub fn bounded_unit(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let bounded = plan.downcast_ref::<BoundContributionsExec>().map(|bounded| bounded.parts().0);
    bounded.or_else(|| plan.downcast_ref::<SampleContributionsExec>().map(|kept| kept.parts().0))
}

/// A scan with the files that it reads.
fn scanned(scan: &PrivateScanExec, config: &SessionConfig) -> Result<Described, CannotRunThere> {
    let table = scan.table().to_owned();
    let only_here = || {
        let problem = format!("workers cannot read the table {table}");
        CannotRunThere::new(problem, AS_FILES)
    };
    if !scan.is_read_elsewhere() {
        return Err(only_here());
    }
    let mut source = Arc::clone(scan.unprotected());
    while let [below] = source.children().as_slice() {
        let below = Arc::clone(below);
        source = below;
    }
    let files = if source.is::<EmptyExec>() {
        Some(Vec::new())
    } else if source.is::<DataSourceExec>() {
        let held = config.get_extension::<HeldFiles>();
        Some(held.and_then(|held| held.shipped(&source)).ok_or_else(only_here)?)
    } else if scan.is_listed_when_paid() {
        None
    } else {
        return Err(only_here());
    };
    Ok(Described::PrivateScan { table, files })
}

/// The files of a public table.
fn held(
    scan: &Arc<dyn ExecutionPlan>,
    config: &SessionConfig,
) -> Result<Vec<ShippedFile>, CannotRunThere> {
    let held = config.get_extension::<HeldFiles>();
    held.and_then(|held| held.shipped(scan)).ok_or_else(|| {
        CannotRunThere::new("workers cannot read a public table of this query", AS_FILES)
    })
}

/// Checks that public rows in memory are few enough to travel with a plan.
fn travels(rows: &MemorySourceConfig) -> Result<(), CannotRunThere> {
    let bytes: usize =
        rows.partitions().iter().flatten().map(RecordBatch::get_array_memory_size).sum();
    match bytes <= MOST_BYTES_OF_ROWS {
        true => Ok(()),
        false => Err(CannotRunThere::new(
            "a public table of this query has more than 2 MiB of rows in memory, which do not travel to workers",
            AS_FILES,
        )),
    }
}

/// Refuses units that are floats: equal floats can have different bits, and partitioning would
/// separate them.
fn refuse_floats(plan: &Arc<dyn ExecutionPlan>, unit: usize) -> Result<(), CannotRunThere> {
    let input = plan.children().into_iter().next().map(|input| input.schema());
    let field = input.as_ref().and_then(|schema| schema.fields().get(unit));
    match field.is_some_and(|field| !field.data_type().is_floating()) {
        true => Ok(()),
        false => Err(CannotRunThere::new(
            "people that a column of floats names cannot be divided among workers",
            "declare the privacy unit by a column of whole numbers or text, or run without workers",
        )),
    }
}

/// Why an operator cannot be sent.
fn refused(plan: &Arc<dyn ExecutionPlan>) -> CannotRunThere {
    let name = plan.name();
    let what = match name {
        _ if name.contains("Streaming") => {
            return CannotRunThere::new(
                "workers cannot read a public table of this query",
                AS_FILES,
            );
        }
        _ => "a part of this query does not run on workers yet",
    };
    CannotRunThere::new(what, "ask without it, or run without workers")
}

/// Opens the files of a scan.
fn receive(files: &[ShippedFile], context: &TaskContext) -> Result<()> {
    let Some(received) = context.session_config().get_extension::<ReceivedFiles>() else {
        return internal_err!("files are received by a session for them");
    };
    files.iter().try_for_each(|file| received.receive(file))
}

impl Operator {
    /// Makes the operator over these inputs, in the process that received it, with this key for its
    /// bounds. Opens its files.
    ///
    /// # Errors
    /// A planning error for inputs that do not fit; an error if a file cannot be opened, or is not
    /// the described one.
    pub fn made(
        &self,
        inputs: &[Arc<dyn ExecutionPlan>],
        key: Option<&BoundingKey>,
        context: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = inputs else {
            return internal_err!("an operator that is sent has one input");
        };
        let input = Arc::clone(input);
        let late = || match key {
            Some(key) => Ok(key.late()),
            None => internal_err!("bounds have a key"),
        };
        Ok(match &self.0 {
            Described::PrivateScan { files: None, .. } => {
                return plan_err!("the files of a table are listed before they are read");
            }
            Described::PrivateScan { table, files: Some(files) } => {
                receive(files, context)?;
                Arc::new(PrivateScanExec::received(table.clone(), input))
            }
            Described::BoundContributions { unit, keys, space, inputs } => {
                let (keys, space, inputs) = (keys.clone(), space.made()?, inputs.clone());
                Arc::new(BoundContributionsExec::new(input, *unit, keys, space, inputs, late()?)?)
            }
            Described::SampleContributions { unit, group, limits, distinct: false } => {
                let group = group.clone();
                Arc::new(SampleContributionsExec::new(input, *unit, group, *limits, late()?)?)
            }
            Described::SampleContributions { unit, group, limits, distinct: true } => {
                let group = group.clone();
                Arc::new(SampleContributionsExec::distinct(input, *unit, group, *limits, late()?)?)
            }
            Described::CountPlaces { space, places, filter } => {
                Arc::new(CountPlacesExec::new(input, space.made()?, *places, *filter)?)
            }
            Described::SumByKey { space, inputs } => {
                Arc::new(SumByKeyExec::new(input, space.made()?, inputs.clone())?)
            }
            Described::PublicScan { files } => {
                receive(files, context)?;
                input
            }
            Described::Opaque => Arc::new(OpaqueExec::new(input)),
            Described::LimitedJoin => Arc::new(LimitedJoinExec::new(input)),
        })
    }

    /// Whether it scans a table, together with everything below it.
    pub fn is_scan(&self) -> bool {
        match &self.0 {
            Described::PrivateScan { .. } | Described::PublicScan { .. } => true,
            Described::BoundContributions { .. }
            | Described::SampleContributions { .. }
            | Described::CountPlaces { .. }
            | Described::SumByKey { .. }
            | Described::Opaque
            | Described::LimitedJoin => false,
        }
    }

    /// Whether its description is complete: before the charge, a table may lack its files.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            Described::PrivateScan { files, .. } => files.is_some(),
            Described::BoundContributions { .. }
            | Described::SampleContributions { .. }
            | Described::CountPlaces { .. }
            | Described::SumByKey { .. }
            | Described::PublicScan { .. }
            | Described::Opaque
            | Described::LimitedJoin => true,
        }
    }
}
