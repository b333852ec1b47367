//! Coded rows: private rows as public codes, of which nothing can be asked but counts.
//!
//! In: a plan whose rows are bounded already, and the rules that give codes to its columns. Out:
//! the rows as codes, which answer with counts over sets of columns. The rows are read once, so
//! that all counts are of the same rows.
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

/// What reading and counting may take.
#[derive(Debug)]
pub struct ReadingLimits {
    /// When nobody waits any more.
    pub deadline: Deadline,
    /// Bytes that counts, models and rows made will take; public.
    pub memory: usize,
}

/// How rows are coded.
#[derive(Debug)]
pub struct Coding {
    /// What gives codes to each column.
    pub encoders: Vec<Encoder>,
    /// How many codes each column has, with that of NULL.
    pub sizes: Vec<usize>,
    /// What the rows of one unit weigh together, if they are weighed; their first column is the
    /// unit then.
    pub sensitivity: Option<Sensitivity>,
}

/// Reads all rows of a plan into codes.
///
/// # Errors
/// Whatever fails while running. The error may quote cells: it must never reach an analyst.
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
    // What is known without a row is there, or it fails before a row is read.
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
    // Codes, too, count as memory of the statement, as rows do that operators keep.
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
