//! `string_agg` and `array_agg`, which gather all values of a group, within a limit.
//!
//! In: an aggregate that keeps all of its values. Out: the same aggregate, which fails before it
//! keeps more than 16 MiB for one group, or emits more than 128 MiB for one window. Such aggregates
//! see public and released rows only.
//!
//! The attack prevented: `string_agg(x, ',') OVER (ORDER BY i)` emits all values before each row. A
//! thousand rows then make gigabytes, and no memory pool counts emitted values.
//!
//! ```text
//! string_agg(name, ', ')                     'Ann, Bob'
//! string_agg(repeat(name, 10000), '')        fails from 16 MiB on
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, ReversedUDAF, Signature,
};

/// The most bytes that one group may keep.
const MOST_KEPT: usize = 16 << 20;

/// The most bytes that one accumulator may emit, counted once for each row of a window.
const MOST_EMITTED: usize = 128 << 20;

/// The aggregate within its limit. An aggregate that does not keep its values is returned
/// unchanged.
pub fn gathered(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "array_agg" | "string_agg" => Arc::new(AggregateUDF::from(Gathered { function })),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathered {
    function: Arc<AggregateUDF>,
}

impl Gathered {
    fn limited(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(Limited { inner, kept: 0, emitted: 0 })
    }
}

impl AggregateUDFImpl for Gathered {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.function.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.function.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(self.limited(self.function.accumulator(args)?))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.function.state_fields(args)
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        // So that each group has an accumulator of its own, which counts the group's values.
        false
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(self.limited(self.function.create_sliding_accumulator(args)?))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered =
            self.function.as_ref().clone().with_beneficial_ordering(beneficial_ordering)?;
        Ok(ordered.map(|function| {
            Arc::new(Self { function: Arc::new(function) }) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.function.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.function.reverse_udf() {
            ReversedUDAF::Reversed(function) => ReversedUDAF::Reversed(gathered(function)),
            other @ (ReversedUDAF::Identical | ReversedUDAF::NotSupported) => other,
        }
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.function.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.function.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.function.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// An accumulator that counts the bytes that it keeps and emits.
#[derive(Debug)]
struct Limited {
    inner: Box<dyn Accumulator>,
    kept: usize,
    emitted: usize,
}

impl Limited {
    /// Counts more values before they are kept.
    fn keep(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.kept = self.kept.saturating_add(bytes_of(values));
        within(self.kept, MOST_KEPT)
    }

    /// Counts one more value before it is emitted.
    fn emit(&mut self) -> Result<()> {
        self.emitted = self.emitted.saturating_add(self.kept);
        within(self.emitted, MOST_EMITTED)
    }
}

fn within(bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    Err(DataFusionError::ResourcesExhausted(
        "the values of a group take too much memory".to_owned(),
    ))
}

fn bytes_of(values: &[ArrayRef]) -> usize {
    values.iter().map(bytes_of_column).fold(0, usize::saturating_add)
}

/// The bytes of the rows of a column. A slice of a larger column counts only its own rows.
pub fn bytes_of_column(column: &ArrayRef) -> usize {
    let of_views = |views: &[u128]| {
        // The low half of a view is the length of its text.
        let texts = views.iter().map(|view| view & u128::from(u32::MAX)).sum::<u128>();
        let texts = usize::try_from(texts).unwrap_or(usize::MAX);
        texts.saturating_add(size_of_val(views))
    };
    match column.data_type() {
        DataType::Utf8View => of_views(column.as_string_view().views()),
        DataType::BinaryView => of_views(column.as_binary_view().views()),
        _ => {
            let own = column.to_data().get_slice_memory_size();
            own.unwrap_or_else(|_| column.get_array_memory_size())
        }
    }
}

impl Accumulator for Limited {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.keep(values)?;
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.emit()?;
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size().saturating_add(size_of_val(self))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.emit()?;
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.keep(states)?;
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)?;
        self.kept = self.kept.saturating_sub(bytes_of(values));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateDefaults;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The bytes of all results; `None` if the query fails.
    #[expect(clippy::disallowed_methods, reason = "written SQL, without a table")]
    async fn answered(sql: &str) -> Option<i64> {
        let context = SessionContext::new();
        for function in SessionStateDefaults::default_aggregate_functions() {
            context.register_udaf(gathered(function).as_ref().clone());
        }
        let rows = context.sql(sql).await.unwrap().collect().await.ok()?;
        let column = arrow::compute::cast(rows.first()?.column(0), &DataType::Int64).unwrap();
        Some(column.as_primitive::<arrow::datatypes::Int64Type>().value(0))
    }

    #[tokio::test]
    async fn a_group_keeps_so_much_and_no_more() {
        let rows = "(SELECT a.i * 10 + b.i AS i, repeat('x', 20000) AS x
                     FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) a(i),
                          (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) b(i)) t";
        for (value, expected) in [
            ("length(string_agg(x, ', '))", Some(2_000_198)),
            ("length(string_agg(x, ', ' ORDER BY i DESC))", Some(2_000_198)),
            ("length(string_agg(DISTINCT x, ', '))", Some(20_000)),
            ("CASE WHEN array_agg(x) IS NOT NULL THEN 1 END", Some(1)),
            ("length(string_agg(concat(x, x, x, x, x, x, x, x, x), ', '))", None),
            ("length(string_agg(concat(x, x, x, x, x, x, x, x, x), ', ' ORDER BY i))", None),
            ("CASE WHEN array_agg(concat(x, x, x, x, x, x, x, x, x)) IS NOT NULL THEN 1 END", None),
        ] {
            assert_eq!(answered(&format!("SELECT {value} FROM {rows}")).await, expected, "{value}");
        }
        // 50 times 50 and 50 times 100 texts are 150 MB, and 1 + 2 + … + 100 texts are 101 MB.
        for (window, expected) in [("ORDER BY i % 2", None), ("ORDER BY i", Some(100))] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT string_agg(x, ',') OVER ({window}) AS s FROM {rows}) q WHERE s > ''"
            );
            assert_eq!(answered(&sql).await, expected, "{window}");
        }
        let more = "(SELECT a.i FROM (VALUES (0), (1)) a(i))";
        let sql = format!(
            "SELECT count(*) FROM (SELECT string_agg(x, ',') OVER (ORDER BY t.i, m.i) AS s FROM {rows}, {more} m) q WHERE s > ''"
        );
        assert_eq!(answered(&sql).await, None);
    }
}
