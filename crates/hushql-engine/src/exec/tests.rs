//! Tests that the privatizing operator keeps its promises, and that `verify` refuses every plan
//! other than the paid one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::datafusion::common::ScalarValue;
use ::datafusion::common::stats::Precision;
use ::datafusion::config::ConfigOptions;
use ::datafusion::datasource::MemTable;
use ::datafusion::physical_expr::PhysicalExpr;
use ::datafusion::physical_expr::expressions::Column as PhysicalColumn;
use ::datafusion::physical_expr::expressions::Literal;
use ::datafusion::physical_plan::empty::EmptyExec;
use ::datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};
use ::datafusion::physical_plan::limit::GlobalLimitExec;
use ::datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use ::datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use ::datafusion::physical_plan::repartition::RepartitionExec;
use ::datafusion::physical_plan::{
    ChildrenPropertiesMode, Distribution, ExecutionPlanProperties, Partitioning,
    ReplaceChildrenOptions,
};
use arrow::array::{Int64Array, RecordBatch};

use super::verify::verify_public;
use super::*;
use crate::analysis::{Lookups, analyze};
use crate::bind::bind;
use crate::catalog::{
    Budget, Column as CatalogColumn, Domain, PerQuery, Privacy, Replay, Source, Table, Unit,
};
use crate::dialect::{Statement, parse};
use crate::ledger::{ChargeEntry, ChargeRequest, Vault};
use crate::privacy::{Loss, Spend};
use crate::release::choose;
use hushql_exec::aggregate::terms::{Term, TermKind, summed};
use hushql_exec::operator;
use hushql_exec::operator::bound_contributions::EnforcedBounds;

fn table(unit: Unit) -> Table {
    let columns = ["id", "x"].map(|name| CatalogColumn {
        name: name.to_owned(),
        data_type: "Int64".to_owned(),
        nullable: true,
        domain: None,
        zone: None,
    });
    Table {
        name: "t".to_owned(),
        source: Source::Registered,
        privacy: Privacy::Private(unit),
        columns: columns.to_vec(),
    }
}

/// A release over a table `t` of three rows.
fn release(sql: &str, unit: Unit) -> Release {
    release_of(sql, &table(unit))
}

fn release_of(sql: &str, table: &Table) -> Release {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(table).unwrap();
    let catalog = vault.catalog().unwrap();
    let values = || Arc::new(Int64Array::from(vec![1, 2, 3])) as _;
    let batch =
        RecordBatch::try_from_iter_with_nullable([("id", values(), true), ("x", values(), true)])
            .unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let source = provider_as_source(Arc::new(PrivateTable::new("t", Arc::new(table))));
    let sources = BTreeMap::from([("t".to_owned(), source)]);
    let Statement::Query(query) = parse(sql).unwrap() else { panic!("{sql}") };
    let bound = bind(query, &sources).unwrap();
    let state = session_state();
    let tables = PlannedTables { sources: &sources, catalog: &catalog, state: &state };
    choose(analyze(&bound, &catalog, &Lookups::default(), &tables).unwrap(), &catalog).unwrap()
}

const COUNT: &str = "SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE x > 1";

fn asked(unit: Unit) -> Release {
    let sql = match unit {
        Unit::Row => COUNT.to_owned(),
        Unit::Column { .. } | Unit::Month { .. } | Unit::Present { .. } | Unit::Via(_) => {
            COUNT.replace("eps=1", "eps=1, rows=1, groups=1")
        }
    };
    release(&sql, unit)
}

async fn prepared(unit: Unit) -> Prepared {
    prepare(&asked(unit), &session_state()).await.unwrap()
}

fn expected(tables: &[String], bounded: bool) -> Expected<'_> {
    Expected { tables, public: false, bounded }
}

fn units() -> [Unit; 2] {
    [Unit::Row, Unit::Column { column: "id".to_owned(), max_rows: None, unique: false }]
}

/// The plan that draws, from a query with one private aggregate.
async fn to_draw(unit: Unit) -> ToDraw {
    match prepared(unit).await.parts.remove(0).source {
        PartSource::Drawn(draw) => *draw,
        PartSource::Shown(_) => panic!("nothing was drawn before"),
    }
}

fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    child: Arc<dyn ExecutionPlan>,
) -> Arc<dyn ExecutionPlan> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![child], options).unwrap()
}

/// A charge grants the right to draw, and the first execution of any copy uses it up.
#[tokio::test]
async fn a_release_runs_once_and_only_after_its_charge() {
    let state = session_state();
    for unit in units() {
        let part = to_draw(unit).await;
        let copy = replaced(&part.plan, Arc::clone(part.plan.children()[0]));
        part.key.set(HashKey::new([1; 4]));
        for plan in [&part.plan, &copy] {
            let early = plan.execute(0, state.task_ctx()).map(drop).unwrap_err();
            assert!(early.to_string().contains("after it was charged"), "{early}");
        }
        part.permit.grant(QueryRng::seeded_for_tests(7));
        assert!(part.plan.execute(1, state.task_ctx()).is_err(), "there is no second partition");
        let rows = collect(Arc::clone(&copy), state.task_ctx()).await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        for plan in [&part.plan, &copy] {
            let late = plan.execute(0, state.task_ctx()).map(drop).unwrap_err();
            assert!(late.to_string().contains("runs once"), "{late}");
        }
    }
}

#[tokio::test]
async fn nothing_private_runs_without_a_charge() {
    for unit in units() {
        let asked = asked(unit.clone());
        let ran = run(prepared(unit).await, &asked, None, &session_state()).await;
        let error = ran.map(drop).unwrap_err();
        assert!(error.to_string().contains("after a charge"), "{error}");
    }
}

/// The charge of one release does not permit another.
#[tokio::test]
async fn nobody_pays_for_one_release_and_runs_another() {
    let state = session_state();
    let asked = release(COUNT, Unit::Row);
    let others = [
        COUNT.replace("eps=1", "eps=2"),
        COUNT.replace("x > 1", "x > 2"),
        COUNT.replace("COUNT(*)", "COUNT(*), LAPLACE(eps=1) COUNT(x)"),
    ];
    for (sql, settled) in others.iter().map(|sql| (sql.as_str(), false)).chain([(COUNT, true)]) {
        let charge = || Some(paid(&due(&asked)));
        let other = release(sql, Unit::Row);
        let ran = run(prepare(&other, &state).await.unwrap(), &other, charge(), &state).await;
        let ran = ran.map(drop);
        assert_eq!(ran.is_ok(), settled, "{sql}: {ran:?}");
        // After the charge, the plan of another release is refused, too.
        let ran = run(prepare(&asked, &state).await.unwrap(), &other, charge(), &state).await;
        let ran = ran.map(drop);
        assert_eq!(ran.is_ok(), settled, "{sql}: {ran:?}");
    }
}

/// Pays for the request from a new vault.
fn paid(due: &Due) -> Charge {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&table(Unit::Row)).unwrap();
    let budget = Budget {
        name: "all".to_owned(),
        table: "t".to_owned(),
        limit: Spend::of_epsilon(10_000_000_000, 0),
        promise: None,
        coupon: None,
        per_query: PerQuery::default(),
        replay: Replay::All,
    };
    vault.create_budget(&budget).unwrap();
    let entry = |loss: &Loss| ChargeEntry {
        mechanism: "LAPLACE".to_owned(),
        parameters: "eps=1".to_owned(),
        sensitivity: "l1 1".to_owned(),
        loss: loss.clone(),
        shared: false,
        cells: None,
    };
    let request = ChargeRequest {
        analyst: "lab".to_owned(),
        plan_hash: due.plan_hash,
        statement: String::new(),
        entries: due.losses.iter().map(entry).collect(),
        shows_again: false,
        unit_domains: due.unit_domains.clone(),
        tables: Default::default(),
        catalog: vault.catalog().unwrap(),
        caps: Default::default(),
        built_on: Vec::new(),
    };
    vault.ensure_analyst("lab").unwrap();
    vault.charge(&request).unwrap()
}

/// Noise is drawn once for the whole sum, never once for each partition of the input.
#[tokio::test]
async fn a_release_has_one_partition() {
    for unit in units() {
        let part = to_draw(unit).await;
        assert_eq!(part.plan.output_partitioning().partition_count(), 1);
        let distribution = part.plan.input_distribution_requirements();
        assert!(
            matches!(distribution.child_distribution(0), Some(Distribution::SinglePartition)),
            "{distribution:?}"
        );
        let input = Arc::clone(part.plan.children()[0].children()[0]);
        let input = RepartitionExec::try_new(input, Partitioning::RoundRobinBatch(3)).unwrap();
        let spread = replaced(&part.plan, Arc::new(input));
        part.permit.grant(QueryRng::seeded_for_tests(7));
        let error = spread.execute(0, session_state().task_ctx()).map(drop).unwrap_err();
        assert!(error.to_string().contains("one partition"), "{error}");
    }
}

/// DataFusion's treatment of an operator that overrides nothing. The privatizing operator relies on
/// each of these defaults.
#[tokio::test]
async fn no_optimizer_moves_anything_through_the_operator() {
    for unit in units() {
        let plan = to_draw(unit).await.plan;
        assert_eq!(plan.name(), "PrivatizeExec");
        assert!(!plan.supports_limit_pushdown());
        assert_eq!(plan.fetch(), None);
        assert!(plan.with_fetch(Some(1)).is_none());
        assert_eq!(plan.maintains_input_order(), [false]);
        let config = ConfigOptions::new();
        assert!(plan.repartitioned(4, &config).unwrap().is_none());
        #[allow(deprecated, reason = "what other operators still ask for")]
        let statistics = plan.partition_statistics(None).unwrap();
        assert_eq!(statistics.num_rows, Precision::Absent);
        assert_eq!(statistics.total_byte_size, Precision::Absent);
        for column in &statistics.column_statistics {
            assert_eq!(column.max_value, Precision::Absent);
            assert_eq!(column.null_count, Precision::Absent);
        }
        let column = PhysicalColumn::new(plan.schema().field(0).name(), 0);
        let column: Arc<dyn PhysicalExpr> = Arc::new(column);
        let expression = ProjectionExpr::new(Arc::clone(&column), "y".to_owned());
        let projection = ProjectionExec::try_new([expression], Arc::clone(&plan)).unwrap();
        assert!(plan.try_swapping_with_projection(&projection).unwrap().is_none());
        let filter: Arc<dyn PhysicalExpr> =
            Arc::new(Literal::new(ScalarValue::Boolean(Some(true))));
        for phase in [FilterPushdownPhase::Pre, FilterPushdownPhase::Post] {
            let filters = vec![Arc::clone(&filter), Arc::clone(&column)];
            let pushed = plan.gather_filters_for_pushdown(phase, filters, &config).unwrap();
            let parents = pushed.parent_filters();
            assert_eq!(parents.len(), 1);
            for parent in &parents[0] {
                assert!(matches!(parent.discriminant, PushedDown::No), "{parent:?}");
            }
            assert!(pushed.self_filters().iter().all(Vec::is_empty));
        }
    }
}

#[tokio::test]
async fn the_finished_plan_is_the_one_that_was_analyzed() {
    for unit in units() {
        let bounded = unit != Unit::Row;
        let plan = to_draw(unit.clone()).await.plan;
        let root = plan.downcast_ref::<PrivatizeExec>().unwrap();
        let specification = Arc::clone(root.specification());
        let message = |plan: &Arc<dyn ExecutionPlan>| {
            verify(plan, &specification, &expected(&["t".to_owned()], bounded))
                .unwrap_err()
                .to_string()
        };
        verify(&plan, &specification, &expected(&["t".to_owned()], bounded)).unwrap();
        let child = Arc::clone(plan.children()[0]);
        let below = Arc::clone(child.children()[0]);

        // The root is missing, hidden, repeated, or another operator.
        assert!(message(&child).contains("its root is CoalescePartitionsExec"));
        let hidden: Arc<dyn ExecutionPlan> =
            Arc::new(GlobalLimitExec::new(Arc::clone(&plan), 0, Some(1)));
        assert!(message(&hidden).contains("its root is GlobalLimitExec"));
        assert!(message(&replaced(&plan, Arc::clone(&plan))).contains("it holds a PrivatizeExec"));
        let other = to_draw(unit).await.plan;
        assert!(message(&other).contains("releases something else"));

        // Literal rows replace the scan.
        let literal = Arc::new(PlaceholderRowExec::new(below.schema()));
        assert!(message(&replaced(&plan, literal)).contains("it holds a PlaceholderRowExec"));
        let batch = RecordBatch::new_empty(below.schema());
        let literal = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let state = session_state();
        let literal = ::datafusion::catalog::TableProvider::scan(&literal, &state, None, &[], None)
            .await
            .unwrap();
        assert!(message(&replaced(&plan, literal)).contains("it holds a DataSourceExec"));

        // Some rows are dropped.
        let limit = Arc::new(GlobalLimitExec::new(Arc::clone(&child), 0, Some(5)));
        assert!(message(&replaced(&plan, limit)).contains("it holds a GlobalLimitExec"));
        let early = Arc::new(CoalescePartitionsExec::new(below).with_fetch(Some(5)));
        assert!(message(&replaced(&plan, early)).contains("stops early"));

        // Another table, and contributions that are bounded twice or never.
        let foreign = verify(&plan, &specification, &expected(&["u".to_owned()], bounded))
            .unwrap_err()
            .to_string();
        assert!(foreign.contains("it reads t"), "{foreign}");
        assert!(verify(&plan, &specification, &expected(&["t".to_owned()], !bounded)).is_err());

        // An empty input is allowed: the analysis knows that a WHERE is never true.
        let empty = replaced(&plan, Arc::new(EmptyExec::new(child.schema())));
        assert_eq!(verify(&empty, &specification, &expected(&["t".to_owned()], false)), Ok(()));
    }
}

/// A plan may bound rows instead of aggregates, but it must bound contributions exactly once.
#[tokio::test]
async fn contributions_are_bounded_once_by_aggregates_or_by_rows() {
    let unit = Unit::Column { column: "id".to_owned(), max_rows: None, unique: false };
    let plan = to_draw(unit).await.plan;
    let root = plan.downcast_ref::<PrivatizeExec>().unwrap();
    let specification = Arc::clone(root.specification());
    let check = |below: Arc<dyn ExecutionPlan>, bounded| {
        let single = Arc::new(CoalescePartitionsExec::new(below));
        verify(&replaced(&plan, single), &specification, &expected(&["t".to_owned()], bounded))
            .map_err(|e| e.to_string())
    };
    let aggregates = Arc::clone(plan.children()[0].children()[0]);
    let rows = Arc::clone(aggregates.children()[0]);
    let limits = EnforcedBounds { total: Some(1), ..EnforcedBounds::default() };
    let keep = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        let (input, key) = (Arc::clone(input), LateKey::default());
        Arc::new(
            operator::sample_rows::SampleContributionsExec::new(input, 0, vec![], limits, key)
                .unwrap(),
        )
    };
    let count = [Term { kind: TermKind::Count, filter: None }];
    let counted = |input| summed(input, &[], &count).unwrap();
    assert_eq!(check(counted(keep(&rows)), true), Ok(()));
    for (below, bounded, times) in [
        (counted(keep(&rows)), false, 1),
        (counted(Arc::clone(&rows)), true, 0),
        (counted(keep(&aggregates)), true, 2),
        (counted(keep(&aggregates)), false, 2),
    ] {
        let message = check(below, bounded).unwrap_err();
        assert!(message.contains(&format!("bounded {times} times")), "{message}");
    }
}

/// `SumByKeyExec` adds up rows only where each row is a privacy unit: neither below nor above the
/// operators that bound contributions.
#[tokio::test]
async fn rows_that_are_added_up_are_units_of_their_own() {
    let [row, person] = units();
    let (own, plan) = (to_draw(row).await.plan, to_draw(person).await.plan);
    let below =
        |plan: &Arc<dyn ExecutionPlan>| Arc::clone(plan.children()[0].children()[0].children()[0]);
    let sum = |input| -> Arc<dyn ExecutionPlan> {
        let count = operator::bound_contributions::AggregateInput::new(
            operator::bound_contributions::InputKind::CountRows { filter: None },
            EnforcedBounds::default(),
        );
        let keys = operator::bound_contributions::KeySpace::global();
        Arc::new(operator::sum_by_key::SumByKeyExec::new(input, keys, vec![count]).unwrap())
    };
    let (limits, key) =
        (EnforcedBounds { total: Some(1), ..Default::default() }, LateKey::default());
    let kept =
        operator::sample_rows::SampleContributionsExec::new(below(&plan), 0, vec![], limits, key);
    let kept: Arc<dyn ExecutionPlan> = Arc::new(kept.unwrap());
    let check = |below: Arc<dyn ExecutionPlan>, bounded| {
        let tables = ["t".to_owned()];
        verify::verify_feed(&below, &expected(&tables, bounded)).map_err(|e| e.to_string())
    };
    assert_eq!(check(sum(below(&own)), false), Ok(()));
    assert_eq!(check(Arc::clone(&kept), true), Ok(()));
    for below in [sum(below(&plan)), sum(Arc::clone(&kept))] {
        let message = check(below, true).unwrap_err();
        assert!(message.contains("it holds a SumByKeyExec"), "{message}");
    }
}

/// Where each row is a privacy unit, keys are clamped before they are looked up.
#[tokio::test]
async fn keys_beyond_their_ends_count_for_the_ends() {
    for (ends, expected) in [
        ((2, 3), vec![2, 1]),
        ((1, 3), vec![1, 1, 1]),
        ((-4, -3), vec![0, 3]),
        ((2, 2), vec![3]),
        ((7, 8), vec![3, 0]),
    ] {
        let mut table = table(Unit::Row);
        table.columns[1].domain = Some(Domain::Between {
            lo: ends.0.to_string(),
            hi: ends.1.to_string(),
            step: None,
            or_null: false,
        });
        let release = release_of("SELECT x, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY x", &table);
        let part = &release.analysis().parts()[0];
        assert!(part.late_clamps().iter().any(Option::is_some));
        let exact = ExactSums::plan(part, &session_state(), [1, 2, 3, 4]).await.unwrap();
        let found = exact.run(&session_state(), 0).await.unwrap();
        assert_eq!(found, [Exact::Vectors(vec![expected])]);
    }
}

/// An operator above a private scan is as private as the scan, at any distance.
#[tokio::test]
async fn the_public_remainder_reads_no_private_table() {
    for unit in units() {
        let plan = to_draw(unit).await.plan;
        let mut deep = 0;
        let mut node = &plan;
        loop {
            let error = verify_public(node).unwrap_err().to_string();
            assert!(error.contains("its public plan reads t"), "{error}");
            let [child] = node.children()[..] else { panic!("{} has one input", node.name()) };
            if node.is::<PrivateScanExec>() {
                // Below the marked scan are the operators of the table itself.
                assert_eq!(verify_public(child), Ok(()));
                break;
            }
            (node, deep) = (child, deep + 1);
        }
        assert!(deep >= 3, "the scan is {deep} operators deep");
    }
}
