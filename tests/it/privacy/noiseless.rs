//! Whole answers without noise: the exact integers of the parts stand where drawn numbers would.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, TableScanBuilder};
use datafusion::optimizer::Optimizer;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use hushql_engine::analysis::{
    Analysis, CandidateSource as Candidates, Measure, PrivateAggregate, ReleaseKind, released_part,
};
use hushql_engine::exec::{Exact, ExactSums};
use hushql_engine::grid::Grid;
use num_traits::ToPrimitive;

/// Plain DataFusion without the rules that were found to change answers: see
/// `crates/hushql-engine/src/exec/datafusion/public_plans.rs`. Casts of a query that has any are
/// left where they are, see `crates/hushql-engine/src/exec/datafusion/lossy_casts.rs`: such queries
/// are not simplified, and fail where they would have to be.
pub fn plain_session(sql: &str) -> SessionContext {
    const WRONG: [&str; 5] = [
        "extract_equijoin_predicate",
        "eliminate_cross_join",
        "eliminate_join",
        "eliminate_duplicated_expr",
        "optimize_projections",
    ];
    let moves_casts = |name: &str| name == "simplify_expressions" && sql.contains("CAST(");
    let wrong = |name: &str| WRONG.contains(&name) || moves_casts(name);
    let rules = Optimizer::new().rules.into_iter().filter(|rule| !wrong(rule.name()));
    let state = SessionStateBuilder::new().with_default_features();
    SessionContext::new_with_state(state.with_optimizer_rules(rules.collect()).build())
}

/// The rows that a query would answer if there were no noise; of choices the best.
pub async fn answer_without_noise(analysis: &Analysis, state: &SessionState) -> Vec<RecordBatch> {
    planned_answer_without_noise(analysis, state).await.unwrap()
}

/// The same; an error where there is no plan for it.
pub async fn planned_answer_without_noise(
    analysis: &Analysis,
    state: &SessionState,
) -> Result<Vec<RecordBatch>> {
    let mut released = Vec::new();
    for (i, part) in analysis.parts().iter().enumerate() {
        for value in analysis.values().iter().filter(|value| value.before() == i) {
            let rows = over(value.plan(), &released, state).await?;
            value.give(&rows).unwrap();
        }
        let plan = ExactSums::plan(part, state, [5, 6, 7, 8]).await.unwrap();
        released.push(without_noise(part, &plan.run(state, 1).await.unwrap()));
    }
    over(analysis.public_plan(), &released, state).await
}

/// The rows of a plan over released tables.
async fn over(
    plan: &LogicalPlan,
    released: &[RecordBatch],
    state: &SessionState,
) -> Result<Vec<RecordBatch>> {
    let plan = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(part) = released_part(scan.table_name.table()) else {
            return Ok(Transformed::no(node));
        };
        let rows = released[part].clone();
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        let source = provider_as_source(Arc::new(table));
        let scan = TableScanBuilder::new(scan.table_name.clone(), source)
            .with_projection(scan.projection.clone())
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    let context = SessionContext::new_with_state(state.clone());
    let plan = plan.unwrap().data;
    let plan = context.execute_logical_plan(plan).await?.create_physical_plan().await?;
    Ok(collect(plan, context.task_ctx()).await.unwrap())
}

/// The released table of a part in which the exact integers stand for the drawn ones.
fn without_noise(part: &PrivateAggregate, exact: &[Exact]) -> RecordBatch {
    let mut keys = part.keys().outer().columns().to_vec();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (measure, exact) in part.measures().iter().zip(exact) {
        let Exact::Vectors(exact) = exact else { panic!("{measure:?}") };
        match &measure.release_kind {
            ReleaseKind::Number(_) => columns.push(numbers(measure, exact)),
            ReleaseKind::Choice(choice) => {
                let Candidates::Keys(candidates) = &choice.source else { panic!("{choice:?}") };
                let [scores] = exact.as_slice() else { panic!("one group: {choice:?}") };
                let best = scores.iter().max().unwrap();
                let best = scores.iter().position(|score| score == best).unwrap();
                let target = part.keys().target_position().unwrap();
                let all = &part.keys().all().columns()[target];
                let row = part.keys().row(0, candidates[best]);
                let row = UInt64Array::from(vec![u64::try_from(row).unwrap()]);
                let winner = arrow::compute::take(all, &row, None).unwrap();
                keys.insert(target, Arc::clone(&winner));
                columns.push(winner);
            }
        }
    }
    keys.append(&mut columns);
    RecordBatch::try_new(part.released_schema(), keys).unwrap()
}

fn numbers(measure: &Measure, exact: &[Vec<i128>]) -> ArrayRef {
    let unit = measure.grid_unit().to_f64().unwrap();
    if let [above, below] = exact {
        assert!(measure.is_mean(), "{measure:?}");
        let (lo, hi) = (measure.lo as f64, measure.hi as f64);
        let mean = |(a, b): (&i128, &i128)| {
            let all = a + b;
            (all > 0).then(|| (lo + (hi - lo) * (*a as f64) / (all as f64)) * unit)
        };
        return Arc::new(above.iter().zip(below).map(mean).collect::<Float64Array>());
    }
    let values = exact[0].iter().copied();
    match (&measure.data_type, measure.grid) {
        (DataType::Int64, Grid::Integer) => {
            Arc::new(Int64Array::from_iter_values(values.map(|v| i64::try_from(v).unwrap())))
        }
        (DataType::Decimal128(precision, scale), Grid::Decimal { scale: grid }) => {
            assert_eq!(*scale, grid, "{measure:?}");
            let array = Decimal128Array::from_iter_values(values);
            Arc::new(array.with_precision_and_scale(*precision, *scale).unwrap())
        }
        (DataType::Float64, _) => {
            Arc::new(Float64Array::from_iter_values(values.map(|v| v as f64 * unit)))
        }
        other => panic!("{other:?}"),
    }
}
