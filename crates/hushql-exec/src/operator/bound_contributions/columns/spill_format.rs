//! Held batches as Arrow arrays, for a file.
//!
//! In: a held batch. Out: a batch of its units, places and numbers, in a schema that depends on the
//! aggregates alone; and back. It guarantees that a batch comes back as it was packed: the same
//! rows with the same units, places, numbers and flags.
//!
//! ```text
//! units: 7, 7, 9    places: 0, OUTSIDE, 3    lanes: [1250, 0, 999999], passing 1 0 1
//! ─▶  unit UInt64   place UInt32             lane0 Int32: 1250, NULL, 999999
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int8Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, UInt32Array, UInt64Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Int8Type, Int16Type, Int32Type, Int64Type, Schema, SchemaRef,
    UInt32Type, UInt64Type,
};
use datafusion::common::Result;

use super::grid_values::{Lane, LaneNumbers, ValueSources, Width};
use super::held_batches::{HeldBatch, KeyPlaces};
use crate::aggregate::fixed_sum::SUM_TYPE;
use crate::grid::failed;
use crate::operator::bound_contributions::keys::unit_codes::HeldUnits;

/// The schema of packed batches.
pub(in crate::operator::bound_contributions) fn schema(sources: &ValueSources) -> SchemaRef {
    let fixed =
        [Field::new("unit", DataType::UInt64, false), Field::new("place", DataType::UInt32, false)];
    let lanes = sources.list.iter().enumerate().map(|(i, source)| {
        let data_type = match source.width() {
            None => DataType::Boolean,
            Some(Width::Byte) => DataType::Int8,
            Some(Width::Half) => DataType::Int16,
            Some(Width::Short) => DataType::Int32,
            Some(Width::Narrow) => DataType::Int64,
            Some(Width::Wide) => SUM_TYPE,
        };
        Field::new(format!("lane{i}"), data_type, true)
    });
    Arc::new(Schema::new(fixed.into_iter().chain(lanes).collect::<Vec<_>>()))
}

impl HeldBatch {
    /// The batch as arrays.
    ///
    /// # Errors
    /// An error with a constant text if the lanes are not those of `sources`.
    pub(in crate::operator::bound_contributions) fn pack(
        self,
        sources: &ValueSources,
    ) -> Result<RecordBatch> {
        let (mut units, mut places) = (Vec::new(), Vec::new());
        self.units.codes(&mut units);
        match &self.places {
            Some(own) => own.read(&mut places),
            None => places.resize(self.rows, 0),
        }
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(units)), Arc::new(UInt32Array::from(places))];
        for Lane { passing, numbers } in self.lanes {
            columns.push(match numbers {
                LaneNumbers::None => {
                    Arc::new(BooleanArray::new(BooleanBuffer::new_unset(self.rows), passing))
                }
                LaneNumbers::Byte(numbers) => Arc::new(Int8Array::new(numbers.into(), passing)),
                LaneNumbers::Half(numbers) => Arc::new(Int16Array::new(numbers.into(), passing)),
                LaneNumbers::Short(numbers) => Arc::new(Int32Array::new(numbers.into(), passing)),
                LaneNumbers::Narrow(numbers) => Arc::new(Int64Array::new(numbers.into(), passing)),
                LaneNumbers::Wide(numbers) => {
                    let numbers = Decimal128Array::new(numbers.into(), passing);
                    Arc::new(numbers.with_precision_and_scale(38, 0)?)
                }
            });
        }
        RecordBatch::try_new(schema(sources), columns).map_err(|_| failed())
    }

    /// The batch that was packed.
    ///
    /// # Errors
    /// An error with a constant text for a batch of another form.
    pub(in crate::operator::bound_contributions) fn unpack(batch: &RecordBatch) -> Result<Self> {
        let [units, places, lanes @ ..] = batch.columns() else { return Err(failed()) };
        let units = units.as_primitive_opt::<UInt64Type>().ok_or_else(failed)?;
        let places = places.as_primitive_opt::<UInt32Type>().ok_or_else(failed)?;
        let lane = |lane: &ArrayRef| {
            let numbers = match lane.data_type() {
                DataType::Boolean => LaneNumbers::None,
                DataType::Int8 => {
                    LaneNumbers::Byte(lane.as_primitive::<Int8Type>().values().to_vec())
                }
                DataType::Int16 => {
                    LaneNumbers::Half(lane.as_primitive::<Int16Type>().values().to_vec())
                }
                DataType::Int32 => {
                    LaneNumbers::Short(lane.as_primitive::<Int32Type>().values().to_vec())
                }
                DataType::Int64 => {
                    LaneNumbers::Narrow(lane.as_primitive::<Int64Type>().values().to_vec())
                }
                DataType::Decimal128(..) => {
                    LaneNumbers::Wide(lane.as_primitive::<Decimal128Type>().values().to_vec())
                }
                _ => return Err(failed()),
            };
            Ok(Lane { passing: lane.nulls().cloned(), numbers })
        };
        let lanes: Vec<Lane> = lanes.iter().map(lane).collect::<Result<_>>()?;
        let units = HeldUnits::Codes(units.values().to_vec());
        let places = KeyPlaces::Wide(places.values().to_vec());
        let bytes = units.size() + places.size() + lanes.iter().map(Lane::size).sum::<usize>();
        Ok(Self { units, places: Some(places), lanes, rows: batch.num_rows(), bytes })
    }
}
