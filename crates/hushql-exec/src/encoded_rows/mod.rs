//! Coded rows: private rows as public codes, which answer only counts.
//!
//! In: a plan whose rows are already bounded, and the rules that code its columns. Out: the rows as
//! codes, which answer counts over sets of columns. The rows are read once, so that all counts are
//! of the same rows.
//!
//! ```text
//! read                                            what is counted
//!   SampleContributionsExec (unit = column)         codes per column, a weight per row
//!     …enforced rows: unit, age, city
//! ```

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::deadline::Deadline;
use super::operator::bound_contributions::at_once;
use crate::codes::Encoder;
use chunk::{Chunk, CodingReader};
use hushql_privacy::synthetic::Sensitivity;

mod chunk;
mod column;
mod count;
mod joint;
mod weigh;

pub use count::CodedRows;

/// The limits of reading and counting.
#[derive(Debug)]
pub struct ReadingLimits {
    /// Ends the work when no caller waits any more.
    pub deadline: Deadline,
    /// The bytes that counts, models and generated rows will take; public.
    pub memory: usize,
}

/// How rows are coded.
#[derive(Debug)]
pub struct Coding {
    /// The encoder of each column.
    pub encoders: Vec<Encoder>,
    /// The number of codes of each column, including that of NULL.
    pub sizes: Vec<usize>,
    /// The weighting of the rows of one unit; `None` if each row weighs 1. With a weighting, the
    /// first column of the rows is the unit.
    pub sensitivity: Option<Sensitivity>,
}

/// Reads all rows of a plan into codes.
///
/// # Errors
/// Any error while running. The error may quote values, so it must never reach an analyst.
pub async fn encode_rows(
    plan: &Arc<dyn ExecutionPlan>,
    Coding { encoders, sizes, sensitivity }: Coding,
    context: &Arc<TaskContext>,
    ReadingLimits { deadline, memory }: ReadingLimits,
) -> Result<CodedRows> {
    let encoders = Arc::new(encoders);
    let is_weighed = sensitivity.is_some();
    let first = usize::from(is_weighed);
    let unit = is_weighed.then(|| plan.schema().field(0).data_type().clone());
    // Memory that does not depend on the rows is reserved first: if there is too little, the
    // statement fails before a row is read.
    let pool = context.memory_pool();
    let all = MemoryConsumer::new("synthetic rows").register(pool);
    all.try_grow(memory)?;
    let mut readers = Vec::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let rows = plan.execute(partition, Arc::clone(context))?;
        let reserved = MemoryConsumer::new(format!("coded rows[{partition}]")).register(pool);
        let reader = CodingReader::new(Arc::clone(&encoders), first, unit.as_ref(), reserved)?;
        readers.push((rows, reader));
    }
    // Codes count as memory of the statement, like rows that operators keep.
    let read = at_once(readers, |(mut rows, mut reader)| async move {
        while let Some(batch) = rows.next().await {
            reader.read(&batch?)?;
        }
        Ok(reader.finish())
    });
    let (chunks, mut reserved): (Vec<Chunk>, Vec<MemoryReservation>) =
        read.await?.into_iter().unzip();
    if is_weighed {
        all.try_grow(weigh::bytes(&chunks))?;
    }
    reserved.push(all);
    let weighed = weigh::weighed(chunks, sensitivity)?;
    let coded = CodedRows::new(weighed, sizes, deadline, reserved);
    coded.map_err(|error| DataFusionError::External(Box::new(error)))
}
