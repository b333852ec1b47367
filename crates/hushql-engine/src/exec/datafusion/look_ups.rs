//! Replaces joins along links by look-ups. Their index of a table may be kept for later statements.
//!
//! In: a physical plan before its rows are distributed, for a statement that is charged. Out: the
//! same plan, with a [`LookUpExec`] in place of each hash join that has a suitable side: it
//! consists only of columns of verified files, or of joins of such columns. The plan must identify
//! the rows of that side without reading them, so every operator below is on a list, and every
//! expression is a column or says that a column is not NULL.
//!
//! ```text
//! HashJoinExec: o_orderkey = l_orderkey            LookUpExec: l_orderkey = o_orderkey
//!   orders of customers                       →      lineitem
//!   lineitem                                         orders of customers
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::IsNotNullExpr;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::memory::width;
use super::opaque::OpaqueExec;
use super::sizes::{Sizes, column};
use crate::exec::paid::PaidFor;
use hushql_exec::operator::look_up::{
    By, KeptLookUps, LookUp, LookUpColumns, LookUpExec, OF_A_ROW, RowsIdentity,
};
use hushql_exec::operator::private_scan::PrivateScanExec;

/// Tables with at most this number of rows are indexed as a whole, even for few look-ups.
const FEW: f64 = 4e6;
/// The same limit, if the size of a row is known. A process that asks only once then takes about as
/// long as with a join, or a second longer if the keys are far from each other.
const MANY: f64 = 2e7;
/// The assumed number of bytes of a row in a file that does not state its number of rows.
const IN_A_FILE: u64 = 32;

/// The rule. It does nothing before the charge. Afterwards, only the running time shows whether a
/// table is kept.
#[derive(Debug)]
pub(crate) struct LookUps {
    kept: Option<Arc<KeptLookUps>>,
}

impl LookUps {
    /// The rule for a session. It uses the engine's look-ups if the session's statement is charged.
    pub(crate) fn for_state(state: &SessionState) -> Self {
        let paid = PaidFor::is_given(state.config());
        Self { kept: state.config().get_extension().filter(|_| paid) }
    }
}

impl PhysicalOptimizerRule for LookUps {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(kept) = &self.kept else { return Ok(plan) };
        let sizes = Sizes::Read.for_plan(&plan);
        plan.transform_up(|node| {
            let look_up =
                node.downcast_ref::<HashJoinExec>().and_then(|j| in_place(j, kept, sizes));
            Ok(match look_up {
                Some(look_up) => Transformed::yes(Arc::new(look_up) as _),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "look_ups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The look-up that replaces a join.
///
/// # Guarantee
/// It yields the same rows: the join has one pair of equal columns, where NULL equals nothing, and
/// no other condition.
fn in_place(join: &HashJoinExec, kept: &Arc<KeptLookUps>, sizes: Sizes) -> Option<LookUpExec> {
    let [(left, right)] = join.on() else { return None };
    let (left, right) = (column(left)?, column(right)?);
    let key = |side: &Arc<dyn ExecutionPlan>, at| side.schema().fields().get(at).cloned();
    let (own, other) = (key(join.left(), left)?, key(join.right(), right)?);
    let plain = own.data_type() == other.data_type()
        && join.filter().is_none()
        && !join.contains_projection()
        && !join.null_aware
        && join.fetch().is_none()
        && join.null_equality() == NullEquality::NullEqualsNothing;
    if !plain {
        return None;
    }
    let by = |of_rows, of_table: usize, columns, table: &Arc<dyn ExecutionPlan>| {
        // The same rows have one index for each key column.
        let identity = identity(table)?.then(&format!("by {of_table}"));
        let schema = table.schema();
        let is_key = LookUp::takes(schema.fields().get(of_table)?.data_type());
        is_key.then(|| By { of_rows, of_table, columns, kept: Arc::clone(kept), identity })
    };
    let (rows, table, by) = match join.join_type() {
        JoinType::Inner => {
            let first = by(right, left, LookUpColumns::TableThenRows, join.left());
            let first = first.filter(|by| is_worth_it(join.left(), by, join.right(), sizes));
            match first {
                Some(by) => (join.right(), join.left(), by),
                None => {
                    let by = by(left, right, LookUpColumns::RowsThenTable, join.right())?;
                    (join.left(), join.right(), by)
                }
            }
        }
        JoinType::LeftSemi => {
            (join.left(), join.right(), by(left, right, LookUpColumns::Rows, join.right())?)
        }
        JoinType::RightSemi => {
            (join.right(), join.left(), by(right, left, LookUpColumns::Rows, join.left())?)
        }
        JoinType::Left
        | JoinType::Right
        | JoinType::Full
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => return None,
    };
    if !is_worth_it(table, &by, rows, sizes) {
        return None;
    }
    Some(LookUpExec::new(Arc::clone(rows), Arc::clone(table), by, join.schema()))
}

/// Whether a table is worth an index: it fits into the memory for look-ups, and it is small, or no
/// larger than the table of the rows that look it up.
fn is_worth_it(
    table: &Arc<dyn ExecutionPlan>,
    by: &By,
    rows: &Arc<dyn ExecutionPlan>,
    sizes: Sizes,
) -> bool {
    let (table_rows, rows) = match sizes {
        Sizes::Read => (sizes.estimate(table).rows, sizes.estimate(rows).rows),
        Sizes::Declared => {
            let rows = u32::try_from(by.identity.bytes() / IN_A_FILE).unwrap_or(u32::MAX);
            (f64::from(rows), 0.0)
        }
    };
    let width = width(&table.schema()).saturating_add(OF_A_ROW);
    let width = f64::from(u32::try_from(width).unwrap_or(u32::MAX));
    let most = f64::from(u32::try_from(by.kept.most()).unwrap_or(u32::MAX));
    let columns = table.schema();
    let is_exact = columns.fields().iter().all(|of| of.data_type().primitive_width().is_some());
    let few = if is_exact && sizes == Sizes::Read { MANY } else { FEW };
    table_rows * width <= most && (table_rows <= few || table_rows <= rows)
}

/// Identifies the rows that a plan yields, if the plan alone determines them.
fn identity(plan: &Arc<dyn ExecutionPlan>) -> Option<RowsIdentity> {
    if let Some(scan) = plan.downcast_ref::<PrivateScanExec>() {
        let schema = scan.schema();
        let columns = schema.fields().iter().map(|field| (field.name(), field.data_type()));
        let columns: Vec<_> = columns.collect();
        return Some(RowsIdentity::of_file(scan.pinned()?.clone(), &format!("{columns:?}")));
    }
    if plan.is::<OpaqueExec>() {
        return plan.children().into_iter().next().and_then(identity);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let conjuncts = split_conjunction(filter.predicate());
        let present: Vec<usize> = conjuncts.into_iter().map(not_null).collect::<Option<_>>()?;
        let passed = filter.projection().as_ref().map(|passed| passed.to_vec());
        if filter.fetch().is_some() {
            return None;
        }
        return Some(identity(filter.input())?.then(&format!("present {present:?} {passed:?}")));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let columns = projection.expr().iter().map(|of| column(&of.expr));
        let columns: Vec<usize> = columns.collect::<Option<_>>()?;
        return Some(identity(projection.input())?.then(&format!("columns {columns:?}")));
    }
    if let Some(look_up) = plan.downcast_ref::<LookUpExec>() {
        let By { of_rows, of_table, columns, identity: table, .. } = look_up.by();
        let step = format!("look up {of_rows} {of_table} {columns:?}");
        return Some(identity(look_up.rows())?.with(table.clone(), &step));
    }
    None
}

/// The column of which this condition says that it is not NULL.
fn not_null(condition: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    column(condition.downcast_ref::<IsNotNullExpr>()?.arg())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit};
    use datafusion::physical_plan::{collect, displayable};

    use super::*;
    use crate::exec::datafusion::private_plans::planned;
    use crate::exec::source::Pinned;
    use crate::exec::{PrivateTable, session_state};

    fn table(name: &str, pinned: bool, rows: &[(i64, i64)]) -> LogicalPlan {
        let of = |value: fn(&(i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
        };
        let columns =
            [(format!("{name}_k"), of(|row| row.0)), (format!("{name}_v"), of(|row| row.1))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let mut table = PrivateTable::new(name, Arc::new(table));
        if pinned {
            let stamp = format!("{name} of today");
            table = table
                .in_file(Arc::new(move || Some(Pinned::new(stamp.clone(), 100, Arc::new(())))));
        }
        let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None);
        scan.unwrap().build().unwrap()
    }

    /// Items of orders of people, joined like the chain of a link.
    fn led(pinned: bool, kind: JoinType, condition: Option<Expr>) -> LogicalPlan {
        let people = table("people", pinned, &[(7, 0), (8, 0)]);
        let orders = table("orders", pinned, &[(1, 7), (2, 8), (3, 9), (4, 7)]);
        let orders = LogicalPlanBuilder::from(orders)
            .filter(col("orders_k").is_not_null().and(col("orders_v").is_not_null()))
            .and_then(|orders| orders.project([col("orders_v"), col("orders_k")]))
            .unwrap();
        let orders = match condition {
            Some(condition) => orders.filter(condition).unwrap(),
            None => orders,
        };
        let keys = (vec!["people_k"], vec!["orders_v"]);
        let orders = LogicalPlanBuilder::from(people)
            .join(orders.build().unwrap(), JoinType::RightSemi, keys, None)
            .and_then(LogicalPlanBuilder::build)
            .unwrap();
        let items = table("items", false, &[(1, 10), (1, 20), (3, 30), (4, 40), (5, 50)]);
        let keys = (vec!["orders_k"], vec!["items_k"]);
        let plan = LogicalPlanBuilder::from(orders).join(items, kind, keys, None);
        plan.and_then(LogicalPlanBuilder::build).unwrap()
    }

    async fn shown(plan: &LogicalPlan, state: &SessionState) -> (String, usize) {
        let plan = planned(plan, state, 1).await.unwrap();
        let shown = displayable(plan.as_ref()).indent(true).to_string();
        let rows = collect(plan, state.task_ctx()).await.unwrap();
        (shown, rows.iter().map(RecordBatch::num_rows).sum())
    }

    /// After the charge, rows find their unit in an index of verified files, and the index is used
    /// again.
    #[tokio::test]
    async fn links_are_looked_up_after_the_charge() {
        let kept = Arc::<KeptLookUps>::default();
        let mut state = session_state();
        state.config_mut().set_extension(Arc::clone(&kept));
        let chain = led(true, JoinType::Inner, None);
        let (before, rows) = shown(&chain, &state).await;
        assert_eq!((before.contains("LookUpExec"), rows, kept.len()), (false, 3, 0), "{before}");
        let paid = PaidFor::for_tests().within(&state);
        for _ in 0..2 {
            let (plan, rows) = shown(&chain, &paid).await;
            assert_eq!((plan.matches("HashJoinExec").count(), rows), (0, 3), "{plan}");
            assert_eq!(plan.matches(" LookUpExec").count(), 2, "{plan}");
            // The index of the orders, and that of the people in them.
            assert_eq!(kept.len(), 2);
        }
        let (plan, rows) = shown(&chain, &PaidFor::for_tests().within(&session_state())).await;
        assert_eq!((plan.contains("LookUpExec"), rows), (false, 3), "an engine that keeps nothing");
    }

    /// The same columns of the same rows have an index for each key.
    #[tokio::test]
    async fn an_index_is_found_by_its_key_too() {
        let kept = Arc::<KeptLookUps>::default();
        let mut state = session_state();
        state.config_mut().set_extension(Arc::clone(&kept));
        let paid = PaidFor::for_tests().within(&state);
        for (key, expected) in [("orders_k", 1), ("orders_v", 2), ("orders_k", 1)] {
            let orders = table("orders", true, &[(1, 7), (2, 8), (3, 9), (4, 7)]);
            let asked = table("asked", false, &[(2, 0), (7, 0), (11, 0)]);
            let keys = (vec!["asked_k"], vec![key]);
            let plan = LogicalPlanBuilder::from(asked).join(orders, JoinType::Inner, keys, None);
            let (plan, rows) =
                shown(&plan.and_then(LogicalPlanBuilder::build).unwrap(), &paid).await;
            assert_eq!((plan.matches(" LookUpExec").count(), rows), (1, expected), "{plan}");
        }
        assert_eq!(kept.len(), 2);
    }

    /// Rows that the plan alone does not determine are joined again.
    #[tokio::test]
    async fn nothing_else_is_looked_up() {
        let kept = Arc::<KeptLookUps>::default();
        let mut state = session_state();
        state.config_mut().set_extension(Arc::clone(&kept));
        let paid = PaidFor::for_tests().within(&state);
        for (plan, look_ups, expected) in [
            (led(false, JoinType::Inner, None), 0, 3),
            // The filtered orders are joined again; the index of the people, to whom they lead, is
            // kept.
            (led(true, JoinType::Inner, Some(col("orders_v").gt(lit(7_i64)))), 1, 0),
            (led(true, JoinType::Left, None), 1, 4),
            (led(true, JoinType::Right, None), 1, 5),
            (led(true, JoinType::RightAnti, None), 1, 2),
            (led(true, JoinType::RightSemi, None), 2, 3),
        ] {
            let (plan, rows) = shown(&plan, &paid).await;
            assert_eq!((plan.matches(" LookUpExec").count(), rows), (look_ups, expected), "{plan}");
        }
    }
}
