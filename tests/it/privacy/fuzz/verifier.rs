//! A second look at what was answered: the finished plans, walked by rules that know nothing of the
//! engine's own check.
//!
//! In: a statement that was paid for. Out: nothing, or where rows of people leave unprotected. The
//! tables of these plans are the test's own: where private rows enter stands a mark of the test,
//! which no stage of the engine looks at. Above every mark stands what bounds a unit's rows (unless
//! each row is one), and at the root of each plan that has one is the privatizing operator, once.
//! What is planned above the releases reads no private table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use hushql::Engine;
use hushql_engine::analysis::analyze;
use hushql_engine::bind::{Sources, bind};
use hushql_engine::dialect::{Size, Statement, parse, pivot_query};
use hushql_engine::exec::{PlannedTables, PrivateTable, prepare, session_state};
use hushql_engine::release::choose;
use hushql_vault::catalog::Catalog;
use hushql_vault::ledger::Vault;

use super::world::{declare, private_tables, public_tables};
use crate::privacy::swap::{Seen, Tap, looked_up};

/// Tables in which every row is a unit: nothing has to bound their rows.
const ROWS_ARE_UNITS: &str = "bids";

/// A private table whose scans are marked.
#[derive(Debug)]
struct Marked(SchemaRef);

#[async_trait::async_trait]
impl TableProvider for Marked {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.0.project(columns)?),
            None => Arc::clone(&self.0),
        };
        Ok(Arc::new(Tap::new(Arc::new(EmptyExec::new(schema)), &Seen::default())))
    }
}

/// The stages, over marked tables under the declarations of the fuzzed engines.
pub struct Verifier {
    catalog: Arc<Catalog>,
    sources: Sources,
    private: BTreeSet<&'static str>,
    public: BTreeMap<&'static str, RecordBatch>,
    state: SessionState,
}

impl Verifier {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("declared.vault");
        declare(&Engine::init(&path).unwrap(), false).await;
        let catalog = Vault::open(&path).unwrap().catalog().unwrap();
        let mut sources = Sources::new();
        let mut private = BTreeSet::new();
        for (name, batch) in private_tables() {
            let table = PrivateTable::new(name, Arc::new(Marked(batch.schema())));
            sources.insert(name.to_owned(), provider_as_source(Arc::new(table)));
            private.insert(name);
        }
        let public: BTreeMap<_, _> = public_tables().into_iter().collect();
        for (name, batch) in &public {
            let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
            sources.insert((*name).to_owned(), provider_as_source(Arc::new(table)));
        }
        Self { catalog, sources, private, public, state: session_state() }
    }

    /// What is wrong with the plans of a statement that an analyst paid for; false where these
    /// tables do not suffice to plan it, or it reads none.
    pub async fn look(&self, sql: &str) -> Result<bool, String> {
        let pivot = pivot_query(sql, &Size::default());
        let pivot = pivot.map_err(|_| "what was paid for is no query".to_owned())?;
        let query = match parse(pivot.as_deref().unwrap_or(sql)) {
            Ok(Statement::Query(query)) => query,
            // Its one plan yields codes, and is looked at where they are counted.
            Ok(Statement::CreateSyntheticTable(_)) => return Ok(false),
            // The columns that it leaves out are those of a declared list.
            Err(_) if pivot.is_some() || sql.to_uppercase().contains("PIVOT") => return Ok(false),
            Ok(_) | Err(_) => return Err("what was paid for is no query".to_owned()),
        };
        // A range is looked for as if none were declared; the ledger is a table of the engine's
        // own.
        if query.range_of.is_some() || sql.to_lowercase().contains("ledger") {
            return Ok(false);
        }
        let bound = bind(query, &self.sources).map_err(|e| format!("not bound: {e}"))?;
        let lookups = looked_up(&bound, &self.catalog, |table| self.public[table].clone());
        let lookups = lookups.map_err(|e| format!("not looked up: {e}"))?;
        let (sources, catalog, state) = (&self.sources, &*self.catalog, &self.state);
        let tables = PlannedTables { sources, catalog, state };
        let analysis = analyze(&bound, catalog, &lookups, &tables);
        let analysis = analysis.map_err(|e| format!("not analyzed: {e}"))?;
        let above = analysis.values().iter().map(|value| value.plan());
        for plan in above.chain([analysis.public_plan()]) {
            self.reads_no_private_table(plan)?;
        }
        let release = choose(analysis, catalog).map_err(|e| format!("not calibrated: {e}"))?;
        let prepared = prepare(&release, state).await.map_err(|e| format!("not planned: {e}"))?;
        let (mut plans, mut marks) = (0, 0);
        for plan in prepared.plans() {
            plans += 1;
            if plan.name() != "PrivatizeExec" {
                return Err(format!("the root of a private part is {}", plan.name()));
            }
            for child in plan.children() {
                marks += protected(child, &Above::default())?;
            }
        }
        // A condition that is never true reads nothing.
        if plans == 0 { Err("nothing was released".to_owned()) } else { Ok(marks > 0) }
    }

    fn reads_no_private_table(&self, plan: &LogicalPlan) -> Result<(), String> {
        let mut read = Vec::new();
        let walked = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && self.private.contains(scan.table_name.table())
            {
                read.push(scan.table_name.to_string());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.map_err(|e| e.to_string())?;
        if read.is_empty() { Ok(()) } else { Err(format!("{read:?} is read above the releases")) }
    }
}

/// What stands above an operator.
#[derive(Debug, Clone, Default)]
struct Above {
    /// Whether a unit's rows are bounded.
    bounded: bool,
    /// The table of the private scan.
    scan: Option<String>,
}

/// The marks below an operator, each of which has to stand below what bounds contributions, in a
/// private scan.
fn protected(plan: &Arc<dyn ExecutionPlan>, above: &Above) -> Result<usize, String> {
    let name = plan.name();
    if plan.downcast_ref::<Tap>().is_some() {
        return match &above.scan {
            None => Err("private rows enter outside of a private scan".to_owned()),
            Some(table) if above.bounded || table == ROWS_ARE_UNITS => Ok(1),
            Some(table) => Err(format!("nothing bounds the rows of {table}")),
        };
    }
    let mut above = above.clone();
    match name {
        "PrivatizeExec" => return Err("a mechanism stands below another".to_owned()),
        "BoundContributionsExec" | "SampleContributionsExec" if above.bounded => {
            return Err(format!("{name} bounds what was bounded"));
        }
        "BoundContributionsExec" | "SampleContributionsExec" => above.bounded = true,
        "PrivateScanExec" => {
            let shown = displayable(plan.as_ref()).one_line().to_string();
            above.scan = shown.trim().rsplit(' ').next().map(str::to_owned);
        }
        // The planner deals the rows of a scan to partitions.
        "RepartitionExec" | "CooperativeExec" => {}
        _ if above.scan.is_some() => return Err(format!("{name} stands in a private scan")),
        _ => {}
    }
    plan.children().into_iter().map(|child| protected(child, &above)).sum()
}

/// A plan that was tampered with is noticed, by this check too.
#[tokio::test]
async fn the_second_look_sees() {
    let verifier = Verifier::new().await;
    let sound = "SELECT LAPLACE(eps=1) SUM(qty) FROM orders WHERE price > 3";
    assert_eq!(verifier.look(sound).await, Ok(true));
    let rows = "SELECT LAPLACE(eps=1) COUNT(*) FROM bids";
    assert_eq!(verifier.look(rows).await, Ok(true));
    assert!(verifier.look("SELECT code FROM wards").await.is_err(), "nothing is released here");

    let scan = async |table: &str| {
        let batch = private_tables().into_iter().find(|(name, _)| *name == table).unwrap().1;
        let table = PrivateTable::new(table, Arc::new(Marked(batch.schema())));
        table.scan(&verifier.state, None, &[], None).await.unwrap()
    };
    let (free, bounded) = (Above::default(), Above { bounded: true, scan: None });
    assert_eq!(protected(&scan("bids").await, &free), Ok(1));
    assert_eq!(protected(&scan("orders").await, &bounded), Ok(1));
    assert!(protected(&scan("orders").await, &free).is_err(), "its rows are not bounded");
    let orders = scan("orders").await;
    let bare = Arc::clone(orders.children()[0]);
    assert!(protected(&bare, &bounded).is_err(), "it is no private scan");
    let plan = LogicalPlanBuilder::scan("orders", Arc::clone(&verifier.sources["orders"]), None);
    let plan = plan.unwrap().build().unwrap();
    assert!(verifier.reads_no_private_table(&plan).is_err());
}
