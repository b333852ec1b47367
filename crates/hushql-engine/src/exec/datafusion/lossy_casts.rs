//! Hides casts that lose something, and `||`, from DataFusion.
//!
//! In: a plan. Out: the same plan, in which CAST and TRY_CAST become functions if they can make two
//! values equal, fail on a value, or change the order. DataFusion moves a cast from a compared
//! column to the literal, in the optimizer and again when it reads Parquet files, as if no cast
//! lost anything: it would turn `CAST(id AS TINYINT) > 100` into `id > 100`.
//!
//! ```text
//! CAST(age AS BIGINT) = 5          stays: age = 5 is the same
//! CAST(score AS BIGINT) = 5        a function of score: 5.5 is one of the values
//! ```
//!
//! `||` also becomes a function, which makes no text longer than a cell may be.
//!
//! Upstream: docs/upstream.md, 6. Delete when a cast is moved only if it loses nothing; the part
//! about `||` stays (18).

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::functions::{cast_value, joined, opaque_cast, rounds};

/// Turns casts that lose something into functions. It is the first of all rules.
#[derive(Debug)]
pub(crate) struct HideCasts;

impl OptimizerRule for HideCasts {
    fn name(&self) -> &str {
        "hide_casts"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|node| {
            let schema = match &node {
                // The filters of a scan refer to the whole table.
                LogicalPlan::TableScan(scan) => DFSchema::try_from_qualified_schema(
                    scan.table_name.clone(),
                    &scan.source.schema(),
                )?,
                other => merge_schema(&other.inputs()),
            };
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let hidden = expr.transform_up(|e| Ok(hidden(e, &schema)))?;
                Ok(hidden.update_data(|e| name.restore(e)))
            })
        })
    }
}

/// Functions that DataFusion simplifies to casts, and whether a failed cast is NULL.
const CALLED: [(&str, bool); 4] = [
    ("arrow_cast", false),
    ("arrow_try_cast", true),
    ("cast_to_type", false),
    ("try_cast_to_type", true),
];

/// The operand of a call that becomes a cast, its type, and whether a failed cast is NULL.
fn called(expr: &Expr, schema: &DFSchema) -> Option<(Expr, DataType, bool)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let (_, safe) = CALLED.into_iter().find(|(name, _)| *name == call.func.name())?;
    Some((call.args.first()?.clone(), expr.get_type(schema).ok()?, safe))
}

fn hidden(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if let Some((inner, to, safe)) = called(&expr, schema) {
        let widens = inner.get_type(schema).is_ok_and(|from| widens(&from, &to));
        return if widens || matches!(inner, Expr::Literal(..)) {
            Transformed::no(expr)
        } else {
            Transformed::yes(opaque_cast(inner, &to, safe))
        };
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = &expr
        && let Ok(to) = expr.get_type(schema)
        && to.is_string()
    {
        return Transformed::yes(joined(left.as_ref().clone(), right.as_ref().clone(), &to));
    }
    let (inner, field, safe) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        other => return Transformed::no(other),
    };
    // A literal is rounded as a column would be.
    if let Expr::Literal(value, _) = inner.as_ref()
        && rounds(&value.data_type(), field.data_type())
        && let Ok(value) = cast_value(value, field.data_type())
    {
        return Transformed::yes(Expr::Literal(value, None));
    }
    // Any other cast of a literal is computed during planning.
    let is_literal = matches!(*inner, Expr::Literal(..));
    let widens = inner.get_type(schema).is_ok_and(|from| widens(&from, field.data_type()));
    if !is_literal && !widens {
        return Transformed::yes(opaque_cast(*inner, field.data_type(), safe));
    }
    Transformed::no(match safe {
        true => Expr::TryCast(TryCast { expr: inner, field }),
        false => Expr::Cast(Cast { expr: inner, field }),
    })
}

/// Whether each value of one type has a distinct value in the other, in the same order.
///
/// Large whole numbers are only approximate as floats; DataFusion moves no cast between whole
/// numbers and floats.
fn widens(from: &DataType, to: &DataType) -> bool {
    let text = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    };
    if from == to || *from == DataType::Null || (text(from) && text(to)) {
        return true;
    }
    match (from, to) {
        (whole, DataType::Float64) => whole.is_integer() || *whole == DataType::Float32,
        (whole, DataType::Float32) => whole.is_integer(),
        (DataType::Decimal128(digits, scale), DataType::Decimal128(more, finer)) => {
            let before = |digits: &u8, scale: &i8| i16::from(*digits) - i16::from(*scale);
            0 <= *scale && scale <= finer && before(digits, scale) <= before(more, finer)
        }
        (whole, DataType::Decimal128(digits, scale)) if whole.is_integer() => {
            *scale >= 0 && digits_of(whole) <= i16::from(*digits) - i16::from(*scale)
        }
        (DataType::Date32, DataType::Date64) => true,
        (narrow, wide) if narrow.is_integer() && wide.is_integer() => {
            match (narrow.is_unsigned_integer(), wide.is_unsigned_integer()) {
                (true, true) | (false, false) => narrow.primitive_width() <= wide.primitive_width(),
                (true, false) => narrow.primitive_width() < wide.primitive_width(),
                (false, true) => false,
            }
        }
        _ => false,
    }
}

/// The decimal digits of the longest number of an integer type.
fn digits_of(data_type: &DataType) -> i16 {
    match data_type.primitive_width() {
        Some(1) => 3,
        Some(2) => 5,
        Some(4) => 10,
        _ => 20,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch};
    use arrow::array::{Date32Array, TimestampSecondArray};
    use arrow::datatypes::Int64Type;
    use datafusion::logical_expr::simplify::SimplifyContext;
    use datafusion::optimizer::simplify_expressions::ExprSimplifier;
    use datafusion::prelude::{SessionContext, col, lit};

    use super::*;
    use crate::exec::session_state;

    /// Without the rule, each of these queries returns the answer for the column without its cast.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows without owners"
    )]
    #[tokio::test]
    async fn narrowing_casts_stay_where_they_are() {
        let context = SessionContext::new_with_state(session_state());
        let scores: Vec<i128> = vec![490, 500, 550, 599, 600, -50];
        let scores = Decimal128Array::from(scores).with_precision_and_scale(5, 2).unwrap();
        let ids = vec![5, 100, 101, 127, 128, 300];
        let seconds = vec![0, 1, 2, 86_399, 86_400, -1];
        let columns: [(&str, ArrayRef); 4] = [
            ("score", Arc::new(scores)),
            ("id", Arc::new(Int64Array::from(ids))),
            ("at", Arc::new(TimestampSecondArray::from(seconds))),
            ("day", Arc::new(Date32Array::from(vec![0, 1, 2, 3, 4, 5]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        context.register_batch("t", rows).unwrap();
        for (condition, expected) in [
            ("CAST(score AS BIGINT) = 5", 2),
            ("CAST(score AS BIGINT) IN (5, 6)", 5),
            ("5 < CAST(score AS BIGINT)", 3),
            ("TRY_CAST(id AS TINYINT) > 100", 2),
            ("TRY_CAST(id AS TINYINT) IS DISTINCT FROM 5", 5),
            ("CAST(score AS DECIMAL(4, 1)) = 5.5", 1),
            ("CAST(at AS DATE) = DATE '1970-01-01'", 4),
            (
                "arrow_cast(at, 'Timestamp(Millisecond, None)') >= arrow_cast('1970-01-01T00:00:00.500', 'Timestamp(Millisecond, None)')",
                4,
            ),
            ("y > 100", 2),
            ("CAST(id AS DOUBLE) = 100", 1),
            ("CAST(id AS DECIMAL(22, 2)) = 100.5", 0),
        ] {
            let from = "(SELECT *, TRY_CAST(id AS TINYINT) AS y FROM t)";
            let query = format!("SELECT COUNT(*) FROM {from} WHERE {condition}");
            let batches = context.sql(&query).await.unwrap().collect().await.unwrap();
            let found = batches[0].column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(found, expected, "{condition}");
        }
    }

    /// Without the limit, twenty subqueries make a gigabyte from one cell.
    #[expect(clippy::disallowed_methods, reason = "a test of the session, over no table")]
    #[tokio::test]
    async fn nothing_grows_by_being_joined_with_itself() {
        let context = SessionContext::new_with_state(session_state());
        let doubled = |times: usize| {
            (0..times).fold("(VALUES ('ab'), (NULL), ('c')) AS t(x)".to_owned(), |from, i| {
                format!("(SELECT x || x AS x FROM {from}) AS t{i}")
            })
        };
        for (times, lengths) in [
            (1, [Some(4), None, Some(2)]),
            (15, [Some(65_536), None, Some(32_768)]),
            (16, [None, None, Some(65_536)]),
            (20, [None, None, None]),
        ] {
            let query = format!("SELECT CAST(length(x) AS BIGINT) AS n FROM {}", doubled(times));
            let batches = context.sql(&query).await.unwrap().collect().await.unwrap();
            let found: Vec<_> = batches[0].column(0).as_primitive::<Int64Type>().iter().collect();
            assert_eq!(found, lengths, "{times}");
        }
        let query = "SELECT 'a' || 7 || NULL IS NULL AND 'a' || 7 = 'a7' AS b";
        let batches = context.sql(query).await.unwrap().collect().await.unwrap();
        assert!(batches[0].column(0).as_boolean().value(0));
    }

    /// Whole numbers lose digits as floats. Their casts stay, because DataFusion never moves them.
    #[test]
    fn casts_to_floats_are_never_moved() {
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
            "x",
            DataType::Int64,
            true,
        )]);
        let schema = Arc::new(DFSchema::try_from(schema).unwrap());
        let context = SimplifyContext::builder().with_schema(schema).build();
        let cast = Expr::Cast(Cast::new(Box::new(col("x")), DataType::Float64));
        let compared = cast.eq(lit(9_007_199_254_740_992.0_f64));
        let simplified = ExprSimplifier::new(context).simplify(compared.clone()).unwrap();
        assert_eq!(simplified, compared);
    }

    #[test]
    fn only_lossless_casts_widen() {
        use DataType::{
            Date32, Date64, Decimal128, Int8, Int16, Int64, UInt8, UInt64, Utf8, Utf8View,
        };
        for (from, to) in [
            (Int8, Int64),
            (UInt8, Int16),
            (Int64, Decimal128(20, 0)),
            (Decimal128(5, 2), Decimal128(7, 3)),
            (Date32, Date64),
            (Utf8, Utf8View),
        ] {
            assert!(widens(&from, &to), "{from} {to}");
            assert!(!widens(&to, &from) || from.is_string(), "{to} {from}");
        }
        for (from, to) in [
            (Int8, UInt64),
            (UInt8, Int8),
            (UInt64, Int64),
            (Int64, Decimal128(20, 2)),
            (Decimal128(5, 2), Decimal128(9, 1)),
            (Decimal128(5, 2), Decimal128(5, 3)),
            (Decimal128(5, -2), Decimal128(9, 0)),
            (Utf8, Int64),
        ] {
            assert!(!widens(&from, &to), "{from} {to}");
        }
    }
}
