//! `block_of(blocks, unit, …)`: the block of a privacy unit, a whole number below `blocks`.
//!
//! In: the number of blocks, and the columns that identify a unit. Out: for each row the number of
//! its unit's block. The block depends on the values alone: never on other rows, on their order, on
//! batches or on partitions. It never fails on a value.
//!
//! ```text
//! block_of(64, 4711)      17, in every query and on every machine
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

static BLOCK_OF: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(BlockOf::new())));

/// The golden ratio in 64 bits, and the digits of π: keys that nobody chose.
const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3];

/// The function behind [`block_of`].
pub(super) fn block_of_function() -> Arc<ScalarUDF> {
    Arc::clone(&BLOCK_OF)
}

/// The block of the unit that these columns identify.
///
/// # Guarantee
/// Rows with equal values of equal types have the same block, in every scan, query and process. It
/// is not NULL, at least 0, and less than `blocks`, for any values. Privacy needs nothing more: the
/// keys of the hash are public, and a person can choose a block only for their own rows.
pub fn block_of(blocks: u32, unit: Vec<Expr>) -> Expr {
    let mut arguments = vec![lit(i64::from(blocks))];
    arguments.extend(unit);
    BLOCK_OF.call(arguments)
}

/// A bijective scattering of 64 bits: the last step of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn of_integer(value: i64) -> u64 {
    mix(mix(value.cast_unsigned() ^ KEYS[0]).wrapping_add(KEYS[1]))
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut state = mix(length ^ KEYS[1]);
    for chunk in bytes.chunks(8) {
        let mut word = [0_u8; 8];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        state = mix(state.wrapping_add(KEYS[0]) ^ u64::from_le_bytes(word)).wrapping_add(KEYS[1]);
    }
    mix(state)
}

/// The block of a hash: each has an equal share of all hashes, but for one hash.
fn block(hash: u64, blocks: u32) -> i64 {
    i64::try_from((u128::from(hash) * u128::from(blocks)) >> 64).unwrap_or(0)
}

/// The block of each row.
fn blocks_of(blocks: u32, unit: &[ArrayRef], rows: usize) -> Result<Int64Array> {
    // A unit has one hash, whether or not NULL is in its batch.
    if let [one] = unit
        && one.data_type().is_signed_integer()
    {
        let values = cast(one, &DataType::Int64)?;
        let hash = |value: Option<i64>| value.map_or_else(|| of_bytes(&[]), of_integer);
        let values = values.as_primitive::<Int64Type>().iter();
        return Ok(values.map(|value| block(hash(value), blocks)).collect());
    }
    let fields = unit.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let encoded = RowConverter::new(fields)?.convert_columns(unit)?;
    if encoded.num_rows() != rows {
        return exec_err!("block_of takes as many values as there are rows");
    }
    Ok(encoded.iter().map(|row| block(of_bytes(row.data()), blocks)).collect())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BlockOf {
    signature: Signature,
}

impl BlockOf {
    fn new() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for BlockOf {
    fn name(&self) -> &'static str {
        "block_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Int64, _, ..] => Ok(DataType::Int64),
            _ => plan_err!("block_of takes a number of blocks and the columns of a unit"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(ScalarValue::Int64(Some(blocks))), unit @ ..] =
            args.args.as_slice()
        else {
            return exec_err!("block_of takes a number of blocks and the columns of a unit");
        };
        let Ok(blocks) = u32::try_from(*blocks) else {
            return exec_err!("block_of takes a number of blocks");
        };
        let unit = unit.iter().map(|column| column.to_array(args.number_rows));
        let unit = unit.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(Arc::new(blocks_of(blocks, &unit, args.number_rows)?)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array, StringArray, StringViewArray};

    use super::*;

    fn of(blocks: u32, unit: &[ArrayRef]) -> Vec<i64> {
        blocks_of(blocks, unit, unit[0].len()).unwrap().values().to_vec()
    }

    #[test]
    fn a_block_depends_on_its_own_unit_alone() {
        let all = (-500..500).collect::<Vec<i64>>();
        let together = of(7, &[Arc::new(Int64Array::from(all.clone()))]);
        for (value, block) in all.iter().zip(&together) {
            assert_eq!(of(7, &[Arc::new(Int64Array::from(vec![*value]))]), [*block]);
            let short = Int32Array::from(vec![i32::try_from(*value).unwrap()]);
            assert_eq!(of(7, &[Arc::new(short)]), [*block], "{value} in 32 bits");
        }
        assert!(together.iter().all(|block| (0..7).contains(block)));
        let names: Vec<String> = all.iter().map(|value| format!("person {value}")).collect();
        let together = of(7, &[Arc::new(StringArray::from(names.clone()))]);
        for (name, block) in names.iter().zip(&together) {
            let alone = StringViewArray::from(vec![name.as_str()]);
            assert_eq!(of(7, &[Arc::new(alone)]), [*block], "{name}");
        }
    }

    #[test]
    fn blocks_have_about_equal_shares() {
        let units = 64_000;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..units));
        let texts = (0..units).map(|unit| format!("{unit}"));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let row: Vec<ArrayRef> = vec![
            Arc::new(Float64Array::from_iter_values((0..units).map(|_| 0.5))),
            Arc::clone(&numbers),
        ];
        for unit in [vec![numbers], vec![texts], row] {
            let mut counts = [0_i64; 64];
            for block in of(64, &unit) {
                counts[usize::try_from(block).unwrap()] += 1;
            }
            // 1,000 each, with a deviation of 31.4.
            assert!(counts.iter().all(|count| (840..1160).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn one_block_has_all_units_and_null_changes_no_other() {
        let units: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(-1)]));
        assert_eq!(of(1, std::slice::from_ref(&units)), [0, 0, 0]);
        let alone = |unit| of(1_000, &[Arc::new(Int64Array::from(vec![unit]))])[0];
        assert_eq!(of(1_000, &[units]), [alone(Some(3)), alone(None), alone(Some(-1))]);
    }
}
