//! The rows of one partition as codes.
//!
//! In: batches of bounded rows. Out: for each column the code of each row, and if rows are
//! weighted, a number for the unit of each row. No memory is allocated for single rows: codes
//! gather in one buffer for each batch, and are kept in as few bytes as they need.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::column::ColumnCodes;
use crate::codes::Encoder;
use crate::operator::bound_contributions::canonical;

/// Rows as codes.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) rows: usize,
    /// For each column the code of each row.
    pub(super) columns: Vec<ColumnCodes>,
    /// The number of each row's unit; empty if rows are not weighted.
    pub(super) units: Vec<u32>,
    /// The number of each unit.
    pub(super) names: HashMap<Box<[u8]>, u32>,
    /// The bytes of the names.
    pub(super) of_names: usize,
}

/// The bytes of a name in addition to its text: its slot in a table, and the overhead of its
/// allocation.
pub(super) const OF_A_NAME: usize = 64;

impl Chunk {
    /// The bytes in use.
    fn bytes(&self) -> usize {
        let codes: usize = self.columns.iter().map(ColumnCodes::bytes).sum();
        let names = self.names.capacity() * OF_A_NAME + self.of_names;
        codes + self.units.capacity() * 4 + names
    }
}

/// Codes the rows of one partition.
pub(super) struct CodingReader {
    encoders: Arc<Vec<Encoder>>,
    /// The place of the first coded column.
    first: usize,
    /// Encodes units, so that equal units have equal bytes.
    units: Option<RowConverter>,
    chunk: Chunk,
    /// The codes of one column of a batch.
    codes: Vec<u16>,
    reserved: MemoryReservation,
}

impl CodingReader {
    /// A reader of rows whose coded columns begin at `first`. If `unit` is a type, the unit comes
    /// before them.
    pub(super) fn new(
        encoders: Arc<Vec<Encoder>>,
        first: usize,
        unit: Option<&DataType>,
        reserved: MemoryReservation,
    ) -> Result<Self> {
        let units = match unit {
            Some(unit) => Some(RowConverter::new(vec![SortField::new(unit.clone())])?),
            None => None,
        };
        let columns = encoders.iter().map(|encoder| ColumnCodes::new(encoder.len())).collect();
        let chunk = Chunk { columns, ..Chunk::default() };
        Ok(Self { encoders, first, units, chunk, codes: Vec::new(), reserved })
    }

    /// Reads one batch.
    ///
    /// # Errors
    /// If there is no memory left for its codes.
    pub(super) fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        let Self { encoders, first, units, chunk, codes, reserved } = self;
        if batch.num_columns() != *first + encoders.len() {
            return internal_err!("rows have a column for each code");
        }
        let values = batch.columns().iter().skip(*first);
        for ((encoder, values), column) in encoders.iter().zip(values).zip(&mut chunk.columns) {
            codes.clear();
            encoder.encode(values, codes)?;
            if column.extend(codes).is_err() {
                return internal_err!("every code is below the size of its column");
            }
        }
        chunk.rows += batch.num_rows();
        if let (Some(units), Some(own)) = (units, batch.columns().first()) {
            // Floats that compare equal are one unit, as in the operator that bounds its rows.
            for unit in &units.convert_columns(&[canonical(own)])? {
                let next = u32::try_from(chunk.names.len());
                let number = match chunk.names.get(unit.as_ref()) {
                    Some(number) => *number,
                    None => {
                        let Ok(next) = next else {
                            return internal_err!("there are more units than numbers");
                        };
                        chunk.of_names += unit.as_ref().len();
                        chunk.names.insert(unit.as_ref().into(), next);
                        next
                    }
                };
                chunk.units.push(number);
            }
        }
        if chunk.columns.iter().any(|column| column.len() != chunk.rows) {
            return internal_err!("every row has a code in every column");
        }
        reserved.try_resize(chunk.bytes())
    }

    /// The codes, and the memory that is reserved for them.
    pub(super) fn finish(self) -> (Chunk, MemoryReservation) {
        (self.chunk, self.reserved)
    }
}
