//! Shortens batches in which expressions make long texts.
//!
//! In: a finished plan. Out: the number of rows that its batches may have, so that the texts from
//! its expressions fit into a few megabytes, and the number of bytes of these texts. Both follow
//! from the expressions alone, never from rows, because a batch that is cut or refused for its
//! contents would reveal them.
//!
//! The attack prevented: 8,192 rows of 65,536 bytes are half a gigabyte in each operator that
//! copies them, which no memory pool counts. Above a join, all of them can come from a single row.
//!
//! ```text
//! Projection: upper(city)                       8,192 rows: a scan holds no less
//! Projection: lpad(x, 10, '0')                  8,192 rows of 40 bytes
//! Projection: repeat(city, n)                   128 rows of 65,536 bytes
//! Projection: upper(city), above a join         128 rows of 65,536 bytes
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr,
    IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};

use crate::functions::MOST_OF_A_CELL;
use hushql_exec::operator::look_up::LookUpExec;

/// The most bytes in a batch of texts that expressions make.
const BUDGET: usize = 8 << 20;

/// Up to this number of bytes, a text counts as no longer than a number.
const SHORT: usize = 128;

/// A scan's memory accounts for results that are up to this many times as long as a text in a
/// column.
const FEW_TIMES: usize = 4;

/// The texts that the expressions of a plan make from one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MadeTexts {
    /// An upper bound of the bytes of all these texts.
    bytes: usize,
}

impl MadeTexts {
    pub(crate) fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self { bytes: TextWalk::default().plan(plan).bytes }
    }

    /// The number of rows in a batch, `most` or fewer.
    pub(crate) fn rows(self, most: usize) -> usize {
        match BUDGET.checked_div(self.bytes) {
            Some(rows) => rows.max(1).min(most),
            None => most,
        }
    }

    /// The bytes of the texts of one batch.
    pub(crate) fn of_a_batch(self, most: usize) -> usize {
        self.rows(most).saturating_mul(self.bytes)
    }

    /// The larger of two.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes) }
    }
}

/// The rule: filters collect no more rows than the plan's batches may have. It runs after all other
/// rules.
#[derive(Debug)]
pub(crate) struct SmallBatches;

impl PhysicalOptimizerRule for SmallBatches {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let made = MadeTexts::of_plan(&plan);
        if made == MadeTexts::default() {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let small = |filter: &FilterExec| {
                let rows = made.rows(filter.batch_size());
                (rows < filter.batch_size()).then(|| filter.with_batch_size(rows)).transpose()
            };
            let filter = node.downcast_ref::<FilterExec>().map(small).transpose()?;
            Ok(match filter.flatten() {
                Some(filter) => Transformed::yes(Arc::new(filter)),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "small_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A walk over a plan.
#[derive(Debug, Default, Clone, Copy)]
struct TextWalk {
    /// The number of bytes so far.
    bytes: usize,
    /// Whether a join below may have multiplied rows.
    is_joined: bool,
}

impl TextWalk {
    /// Adds the texts of a plan.
    fn plan(self, plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut walk = self;
        let mut is_joined = is_join(plan);
        for child in plan.children() {
            let below = Self { is_joined: false, ..walk }.plan(child);
            walk.bytes = below.bytes;
            is_joined |= below.is_joined;
        }
        walk.is_joined = is_joined;
        if is_join(plan) {
            // The join copies these columns; it does not copy texts in views.
            let copied =
                plan.schema().fields().iter().filter(|field| is_copied(field.data_type())).count();
            walk.bytes = walk.bytes.saturating_add(copied.saturating_mul(MOST_OF_A_CELL));
        }
        let inputs = plan.children();
        let schema = match inputs.as_slice() {
            [input] => Some(input.schema()),
            _ => None,
        };
        // The closure never fails, so the walk does not.
        let _ = plan.apply_expressions(&mut |expr| {
            walk.expr(expr, schema.as_deref());
            Ok(TreeNodeRecursion::Continue)
        });
        walk
    }

    /// Adds the texts that an expression and its operands make, and returns the size of its result.
    fn expr(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: Option<&Schema>) -> Size {
        if let Some(column) = expr.downcast_ref::<Column>() {
            let field = schema.and_then(|schema| schema.fields().get(column.index()));
            return match field {
                Some(field) if !has_length(field.data_type()) => Size::default(),
                Some(_) | None => Size { times: 1, bytes: 0 },
            };
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let size = Size { times: 0, bytes: literal_bytes(literal.value()) };
            return self.made(size);
        }
        let operands: Vec<Size> =
            expr.children().into_iter().map(|operand| self.expr(operand, schema)).collect();
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            let result = call.return_type();
            return match has_length(result) {
                true if hands_on(call.name()) && !is_copied(result) => Size::sum(&operands),
                true => self.made(of_call(call, &operands)),
                false => Size::default(),
            };
        }
        let is_short = expr.is::<BinaryExpr>()
            || expr.is::<InListExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<LikeExpr>()
            || expr.is::<NegativeExpr>()
            || expr.is::<NotExpr>();
        if is_short {
            return Size::default();
        }
        let all = Size::sum(&operands);
        if expr.is::<CaseExpr>() {
            let result = schema.and_then(|schema| expr.data_type(schema).ok());
            // All views of a text share it.
            return match result.is_some_and(|result| !is_copied(&result)) {
                true => all,
                false => self.made(all),
            };
        }
        if expr.is::<CastExpr>() || expr.is::<TryCastExpr>() {
            // A number makes a short text.
            return self.made(all.plus(Size { times: 0, bytes: SHORT }));
        }
        if is_number(expr) {
            return Size::default();
        }
        // An unknown expression may make a text as long as a cell may be.
        self.made(Size::UNKNOWN)
    }

    /// Counts a new text of this size.
    fn made(&mut self, size: Size) -> Size {
        let is_scanned = size.times <= FEW_TIMES && !self.is_joined;
        let of_columns = match is_scanned {
            true => 0,
            false => size.times.saturating_mul(MOST_OF_A_CELL),
        };
        let bytes = size.bytes.saturating_add(of_columns).min(MOST_OF_A_CELL);
        if bytes > SHORT {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        size
    }
}

/// The length of a result: `times` the longest text of the columns, plus `bytes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    times: usize,
    bytes: usize,
}

impl Size {
    const UNKNOWN: Self = Self { times: usize::MAX, bytes: 0 };

    fn plus(self, other: Self) -> Self {
        Self {
            times: self.times.saturating_add(other.times),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn by(self, times: usize) -> Self {
        Self { times: self.times.saturating_mul(times), bytes: self.bytes.saturating_mul(times) }
    }

    fn sum(sizes: &[Self]) -> Self {
        sizes.iter().fold(Self::default(), |sum, size| sum.plus(*size))
    }
}

/// The size of a function's result. A function that is not listed makes a text that is no longer
/// than its arguments together, or a short one.
fn of_call(call: &ScalarFunctionExpr, operands: &[Size]) -> Size {
    let operand = |i: usize| operands.get(i).copied().unwrap_or_default();
    let literal = |i: usize| call.args().get(i)?.downcast_ref::<Literal>().map(Literal::value);
    let number = |i: usize| literal(i).and_then(whole);
    let text = |i: usize| literal(i).and_then(|value| value.try_as_str().flatten());
    let characters = |n: Option<usize>| match n {
        Some(n) => Size { times: 0, bytes: n.saturating_mul(4) },
        None => operand(0),
    };
    let all = Size::sum(operands).plus(Size { times: 0, bytes: SHORT });
    match call.name() {
        "repeat" => number(1).map_or(Size::UNKNOWN, |n| operand(0).by(n)),
        "lpad" | "rpad" => number(1).map_or(Size::UNKNOWN, |n| characters(Some(n))),
        "replace" => match (text(1), text(2)) {
            (Some(old), Some(new)) => {
                operand(0).by(new.len().checked_div(old.len()).map_or(1, |n| n.saturating_add(1)))
            }
            _ => Size::UNKNOWN,
        },
        "regexp_replace" => match text(2) {
            Some("") => operand(0),
            Some(_) | None => Size::UNKNOWN,
        },
        "concat_ws" => all.plus(operand(0).by(operands.len())),
        "translate" => operand(0).by(4),
        "initcap" | "lower" | "upper" => operand(0).by(3),
        "encode" => operand(0).by(2),
        "to_char" | "strftime" | "date_format" => operand(1).by(20).plus(all),
        "regexp_match" => Size::UNKNOWN,
        "left" | "right" => characters(number(1)),
        "substr" => characters(number(2)),
        _ => all,
    }
}

/// Whether a function returns one of its arguments, so that views share the text.
fn hands_on(name: &str) -> bool {
    matches!(name, "coalesce" | "greatest" | "least" | "nullif" | "nvl" | "nvl2" | "sound")
        || name.starts_with("listed_")
}

/// A literal integer that is not negative.
fn whole(value: &ScalarValue) -> Option<usize> {
    let ScalarValue::Int64(Some(number)) = value.cast_to(&DataType::Int64).ok()? else {
        return None;
    };
    usize::try_from(number).ok()
}

fn literal_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes))
        | ScalarValue::FixedSizeBinary(_, Some(bytes)) => bytes.len(),
        other => match has_length(&other.data_type()) && !other.is_null() {
            true => other.size(),
            false => 0,
        },
    }
}

/// Whether values of a type have different lengths.
fn has_length(data_type: &DataType) -> bool {
    data_type.primitive_width().is_none()
        && !matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Whether an expression is the number of a subquery, which all rows share, or the condition that a
/// join or a limit hands to the scan below.
fn is_number(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_fixed = || expr.data_type(&Schema::empty()).is_ok_and(|result| !has_length(&result));
    expr.is::<DynamicFilterPhysicalExpr>() || (expr.is::<ScalarSubqueryExpr>() && is_fixed())
}

/// Whether values of a type are copied with their rows.
fn is_copied(data_type: &DataType) -> bool {
    has_length(data_type) && !matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// Whether one row of an input may be in many rows of an operator.
fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<LookUpExec>()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::exec::session_state;

    /// The plan of a query over two small tables, whose texts `t` are views and whose texts `s` are
    /// not.
    #[expect(clippy::disallowed_methods, reason = "the plan of written SQL is looked at")]
    async fn plan(sql: &str) -> Arc<dyn ExecutionPlan> {
        let context = SessionContext::new_with_state(session_state());
        for (table, n, t, s) in [("a", "n", "t", "s"), ("b", "m", "u", "v")] {
            let columns: [(&str, ArrayRef); 3] = [
                (n, Arc::new(Int64Array::from(vec![1, 2, 3]))),
                (t, Arc::new(StringViewArray::from(vec!["x", "y", "z"]))),
                (s, Arc::new(StringArray::from(vec!["x", "y", "z"]))),
            ];
            context.register_batch(table, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        }
        context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    }

    #[tokio::test]
    async fn batches_are_small_where_texts_are_long() {
        for (sql, rows) in [
            ("SELECT t, n + 1 FROM a", 8_192),
            ("SELECT upper(t), trim(s), concat(t, '!') FROM a", 8_192),
            ("SELECT lpad(t, 10, '0'), substr(t, 1, 5), repeat('ab', 30) FROM a", 8_192),
            ("SELECT replace(t, 'ab', 'c') FROM a WHERE t LIKE 'x%'", 8_192),
            ("SELECT n / (SELECT MAX(m) FROM b) FROM a", 8_192),
            ("SELECT n FROM a WHERE n < (SELECT AVG(m) FROM b)", 8_192),
            ("SELECT repeat(t, n) FROM a", 128),
            ("SELECT n FROM a WHERE repeat(t, n) LIKE '%z'", 128),
            ("SELECT repeat(t, 100) FROM a", 128),
            ("SELECT repeat(t, n) AS x, rpad(t, 60000) AS y FROM a", 66),
            ("SELECT repeat(upper(t), n) FROM a", 128),
            ("SELECT replace(t, 'a', s) FROM a", 128),
            ("SELECT COUNT(*) FROM a GROUP BY repeat(t, n)", 128),
            ("SELECT n FROM a ORDER BY repeat(t, n)", 128),
            ("SELECT repeat('x', 60000) FROM a", 139),
            // A join copies views, and not their texts.
            ("SELECT t, u, n FROM a JOIN b ON n = m", 8_192),
            ("SELECT CASE WHEN n > 1 THEN t ELSE u END FROM a JOIN b ON n = m", 8_192),
            ("SELECT substr(t, 1, 2), n * 2 FROM a JOIN b ON n = m WHERE u LIKE 'x%'", 8_192),
            ("SELECT upper(t) FROM a JOIN b ON n = m", 128),
            ("SELECT n FROM a JOIN b ON n = m WHERE reverse(t || u) = 'yx'", 64),
            ("SELECT v FROM a JOIN b ON n = m", 128),
        ] {
            let plan = plan(sql).await;
            let found = MadeTexts::of_plan(&plan).rows(8_192);
            // An operator may compute a text twice.
            let is_as_expected =
                found == rows || (rows < 8_192 && (rows / 2..=rows).contains(&found));
            assert!(is_as_expected, "{sql}: {found}");
            // Filters collect no more.
            let mut filters = Vec::new();
            plan.apply(|node| {
                filters.extend(node.downcast_ref::<FilterExec>().map(FilterExec::batch_size));
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
            assert!(filters.iter().all(|filter| *filter <= rows), "{sql}: {filters:?}");
        }
    }
}
