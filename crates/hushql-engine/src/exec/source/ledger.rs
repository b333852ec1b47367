//! The ledger as a public table, which reads only the entries that a query needs.
//!
//! In: a vault, and the length of its ledger when the query was planned. Out: batches of the
//! requested columns, a page of entries at a time, in ascending or descending order of their
//! numbers. Filters on `sequence`, LIMIT and ORDER BY `sequence` decide which pages are read. A
//! query that needs only the numbers reads no page, because the numbers have no gaps. The vault
//! verifies each page; if it refuses one, the query ends with that error. An analyst who is kept
//! apart sees only their own entries, with numbers that count only these; this reads all pages.
//!
//! ```text
//! SELECT mechanism FROM hushql.ledger WHERE sequence > 900000 ORDER BY sequence DESC LIMIT 5
//!   LedgerExec: entries 900001 to 1000000, newest first, fetch=5        reads one page of 2048 entries
//! ```

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DataFusionError, Result, ScalarValue, Statistics, internal_datafusion_err, internal_err,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SortOrderPushdownResult,
};
use futures::stream;

use crate::catalog::Catalog;
use crate::exec::shared_vault::{AskError, SharedVault};
use crate::ledger::{Extent, LedgerEntry, OwnEntries, PAGE, VaultError, kind};
use crate::privacy::{Notion, Spend};

/// The column that determines which pages are read.
const SEQUENCE: &str = "sequence";

/// A column of the table: its name, its type, whether it may be NULL, and its values.
type LedgerColumn = (&'static str, DataType, bool, fn(&[ShownEntry]) -> ArrayRef);

/// An entry, and the part of its statement that the reader may see.
struct ShownEntry {
    entry: LedgerEntry,
    statement: Option<String>,
}

/// The index of `statement` among the columns.
const STATEMENT: usize = 13;

/// Every column, in order.
const COLUMNS: [LedgerColumn; 16] = [
    (SEQUENCE, DataType::Int64, false, |entries| numbers(entries, |e| e.sequence)),
    ("charge", DataType::Int64, false, |entries| numbers(entries, |e| e.charge)),
    ("analyst", DataType::Utf8, false, |entries| texts(entries, |e| e.analyst.clone())),
    ("spaces", DataType::Utf8, false, |entries| texts(entries, |e| e.unit_domains.join(", "))),
    ("budgets", DataType::Utf8, false, |entries| texts(entries, |e| e.budgets.join(", "))),
    ("mechanism", DataType::Utf8, false, |entries| texts(entries, |e| e.mechanism.clone())),
    ("parameters", DataType::Utf8, false, |entries| texts(entries, |e| e.parameters.clone())),
    ("sensitivity", DataType::Utf8, false, |entries| texts(entries, |e| e.sensitivity.clone())),
    ("epsilon", DataType::Utf8, true, |entries| {
        amounts(entries, Notion::Approximate, Spend::loss_text)
    }),
    ("delta", DataType::Utf8, true, |entries| {
        amounts(entries, Notion::Approximate, Spend::delta_text)
    }),
    ("rho", DataType::Utf8, true, |entries| {
        amounts(entries, Notion::Concentrated, Spend::loss_text)
    }),
    ("rho_delta", DataType::Utf8, true, |entries| {
        amounts(entries, Notion::Concentrated, Spend::delta_text)
    }),
    ("time", DataType::Timestamp(TimeUnit::Second, None), false, |entries| {
        Arc::new(entries.iter().map(|shown| Some(shown.entry.at)).collect::<TimestampSecondArray>())
    }),
    ("statement", DataType::Utf8, true, |entries| {
        Arc::new(entries.iter().map(|shown| shown.statement.as_deref()).collect::<StringArray>())
    }),
    ("cost", DataType::Utf8, false, |entries| texts(entries, cost)),
    ("kind", DataType::Utf8, false, |entries| texts(entries, |e| kind(e).to_owned())),
];

/// The cost of an entry in people's notation: its ε, or its ρ if it has no ε, and its δ.
fn cost(entry: &LedgerEntry) -> String {
    entry.cost.parts().next().unwrap_or_default().to_string()
}

fn numbers(entries: &[ShownEntry], of: fn(&LedgerEntry) -> i64) -> ArrayRef {
    Arc::new(entries.iter().map(|shown| Some(of(&shown.entry))).collect::<Int64Array>())
}

fn texts(entries: &[ShownEntry], of: fn(&LedgerEntry) -> String) -> ArrayRef {
    Arc::new(entries.iter().map(|shown| Some(of(&shown.entry))).collect::<StringArray>())
}

fn amounts(entries: &[ShownEntry], notion: Notion, of: fn(&Spend) -> String) -> ArrayRef {
    let amounts =
        entries.iter().map(|shown| shown.entry.cost.within(notion).map(|spend| of(&spend)));
    Arc::new(amounts.collect::<StringArray>())
}

/// The vault's error, if reading the ledger made a plan fail.
pub(crate) fn vault_error(error: &DataFusionError) -> Option<VaultError> {
    match error.find_root() {
        DataFusionError::External(source) => {
            source.downcast_ref::<VaultError>().map(VaultError::again)
        }
        _ => None,
    }
}

/// The ledger of a vault, as of the creation of this table.
#[derive(Debug)]
pub(crate) struct LedgerTable {
    vault: SharedVault,
    extent: Extent,
    schema: SchemaRef,
    reader: Arc<str>,
    /// True if the table holds only the reader's own entries.
    apart: bool,
    /// What exists for the reader, if something is hidden.
    seen: Option<LedgerSight>,
}

/// What exists for a reader of the ledger to whom some declarations are hidden.
#[derive(Debug, Clone)]
pub(crate) struct LedgerSight {
    pub(crate) catalog: Arc<Catalog>,
    /// Whether every table that a statement names exists in the catalog.
    pub(crate) names_only: fn(&str, &Catalog) -> bool,
}

impl LedgerTable {
    /// The present ledger; later charges are not in the table. An analyst sees the texts of their
    /// own statements, and the owner sees all texts. A reader who is kept `apart` sees only their
    /// own entries.
    ///
    /// # Errors
    /// [`VaultError`] when the vault cannot be read.
    pub(crate) fn for_reader(
        vault: &SharedVault,
        reader: &str,
        apart: bool,
    ) -> Result<Self, VaultError> {
        let field = |(name, data_type, nullable, _): &LedgerColumn| {
            Field::new(*name, data_type.clone(), *nullable)
        };
        let fields: Vec<Field> = COLUMNS.iter().map(field).collect();
        Ok(Self {
            vault: vault.clone(),
            extent: vault.extent()?,
            schema: Arc::new(Schema::new(fields)),
            reader: reader.into(),
            apart,
            seen: None,
        })
    }

    /// The same table for a reader to whom only these declarations exist: entries about other
    /// tables and budgets are left out.
    pub(crate) fn within(self, seen: LedgerSight) -> Self {
        Self { seen: Some(seen).filter(|seen| seen.catalog.is_part()), ..self }
    }
}

impl LedgerSight {
    /// Whether an entry exists for the reader: its people, its budgets, and the tables that its
    /// statement names. Of a note, only that it was made: its statement is not shown.
    fn has(&self, entry: &LedgerEntry, statement: Option<&str>) -> bool {
        let catalog = &*self.catalog;
        let has_people = entry.unit_domains.iter().all(|name| catalog.table(name).is_some());
        let has_budgets = entry.budgets.iter().all(|name| !catalog.hides_budget(name));
        has_people
            && has_budgets
            && match kind(entry) {
                "paid" => statement.is_some_and(|text| (self.names_only)(text, catalog)),
                // What drifted is named in its parameters.
                other => other != "drifted",
            }
    }
}

#[async_trait]
impl TableProvider for LedgerTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match Range::from_filter(filter) {
            Some(_) if !self.apart => TableProviderFilterPushDown::Exact,
            Some(_) | None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut range = Range { first: 1, last: self.extent.last() };
        for filter in filters {
            let Some(other) = Range::from_filter(filter) else {
                return internal_err!("the ledger got a filter that it cannot apply");
            };
            range = range.within(other);
        }
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..COLUMNS.len()).collect(),
        };
        let scan = Scan {
            vault: self.vault.clone(),
            extent: self.extent,
            reader: Arc::clone(&self.reader),
            schema: Arc::new(self.schema.project(&columns)?),
            columns,
            range,
            newest_first: false,
            fetch: limit,
            own: self.apart.then(|| OwnEntries::of(&self.reader)),
            seen: self.seen.clone(),
        };
        Ok(Arc::new(LedgerExec::new(scan, None)))
    }
}

/// Numbers of entries, both ends included; empty if the first is greater than the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: i64,
    last: i64,
}

impl Range {
    const ALL: Self = Self { first: i64::MIN, last: i64::MAX };
    const NONE: Self = Self { first: i64::MAX, last: i64::MIN };

    /// The numbers that satisfy a comparison of `sequence` with a literal; `None` for any other
    /// filter.
    fn from_filter(filter: &Expr) -> Option<Self> {
        let Expr::BinaryExpr(comparison) = filter else { return None };
        let (operator, literal) = match (&*comparison.left, &*comparison.right) {
            (Expr::Column(column), Expr::Literal(literal, _)) if column.name == SEQUENCE => {
                (comparison.op, literal)
            }
            (Expr::Literal(literal, _), Expr::Column(column)) if column.name == SEQUENCE => {
                (comparison.op.swap()?, literal)
            }
            _ => return None,
        };
        let ScalarValue::Int64(Some(n)) = *literal else { return None };
        Some(match operator {
            Operator::Eq => Self { first: n, last: n },
            Operator::GtEq => Self { first: n, ..Self::ALL },
            Operator::LtEq => Self { last: n, ..Self::ALL },
            Operator::Gt => {
                n.checked_add(1).map_or(Self::NONE, |first| Self { first, ..Self::ALL })
            }
            Operator::Lt => n.checked_sub(1).map_or(Self::NONE, |last| Self { last, ..Self::ALL }),
            _ => return None,
        })
    }

    fn within(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    fn holds(self, sequence: i64) -> bool {
        (self.first..=self.last).contains(&sequence)
    }

    /// The number of its elements.
    fn len(self) -> usize {
        let rows = i128::from(self.last) - i128::from(self.first) + 1;
        usize::try_from(rows.max(0)).unwrap_or(usize::MAX)
    }
}

/// Which entries and columns a scan reads, and how.
#[derive(Debug, Clone)]
struct Scan {
    vault: SharedVault,
    extent: Extent,
    reader: Arc<str>,
    /// Indices into [`COLUMNS`], with the schema of these columns.
    columns: Vec<usize>,
    schema: SchemaRef,
    range: Range,
    newest_first: bool,
    fetch: Option<usize>,
    /// Numbers the reader's own entries, if the reader sees only these.
    own: Option<OwnEntries>,
    /// What exists for the reader, if something is hidden.
    seen: Option<LedgerSight>,
}

impl Scan {
    /// The index of `sequence` among the columns.
    fn sequence(&self) -> Option<usize> {
        self.columns.iter().position(|column| *column == 0)
    }

    /// The next batch, and the scan of the rest; `None` at the end.
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        if self.range.len() == 0 || self.fetch == Some(0) {
            return Ok(None);
        }
        let batch = if self.own.is_none() && self.columns.iter().all(|column| *column == 0) {
            self.batch_of_numbers()?
        } else {
            self.batch_of_entries().await?
        };
        if let Some(fetch) = &mut self.fetch {
            *fetch = fetch.saturating_sub(batch.num_rows());
        }
        Ok(Some((batch, self)))
    }

    /// Removes a part from the end of the range that comes next: at most a page, and at most the
    /// rest of the fetch.
    fn take(&mut self, most: i64) -> Range {
        let fetch = self.fetch.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let less = most.min(fetch).saturating_sub(1);
        let Range { first, last } = self.range;
        if self.newest_first {
            let taken = Range { first: first.max(last.saturating_sub(less)), last };
            self.range.last = taken.first.saturating_sub(1);
            taken
        } else {
            let taken = Range { first, last: last.min(first.saturating_add(less)) };
            self.range.first = taken.last.saturating_add(1);
            taken
        }
    }

    /// A batch of numbers: every number from the first to the last belongs to an entry.
    fn batch_of_numbers(&mut self) -> Result<RecordBatch> {
        let taken = self.take(PAGE);
        let mut numbers: Vec<i64> = (taken.first..=taken.last).collect();
        if self.newest_first {
            numbers.reverse();
        }
        let rows = numbers.len();
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        self.batch(rows, |_| Arc::clone(&numbers))
    }

    /// The entries of one page that are in the range.
    async fn batch_of_entries(&mut self) -> Result<RecordBatch> {
        let at = if self.newest_first { self.range.last } else { self.range.first };
        let (vault, extent) = (self.vault.clone(), self.extent);
        let (range, newest_first, fetch) = (self.range, self.newest_first, self.fetch);
        let (texts, reader) = (self.columns.contains(&STATEMENT), Arc::clone(&self.reader));
        let (mut own, seen) = (self.own.take(), self.seen.clone());
        // Waiting for the vault must not block other tasks.
        let page = vault.ask(move |vault| {
            let mut entries = vault.page(&extent, at)?;
            entries.retain(|entry| range.holds(entry.sequence));
            if newest_first {
                entries.reverse();
            }
            let read = entries.last().map(|entry| entry.sequence);
            if own.is_some() {
                entries.retain(|entry| entry.analyst == *reader);
            }
            // The vault finds texts by the entries' numbers in the whole ledger, so entries get
            // their own numbers only after this.
            let most = fetch.unwrap_or(usize::MAX);
            // Which entries are left out is decided behind the numbers.
            let shown = if seen.is_some() { entries.len() } else { most.min(entries.len()) };
            let statements = match texts || seen.is_some() {
                true => {
                    let texts =
                        vault.statements(entries.get(..shown).unwrap_or_default(), &reader)?;
                    texts.into_iter().map(Some).collect()
                }
                false => vec![None; shown],
            };
            if let Some(own) = &mut own {
                entries = own.next(entries);
            }
            entries.truncate(shown);
            let mut shown: Vec<(LedgerEntry, Option<String>)> =
                entries.into_iter().zip(statements).collect();
            if let Some(seen) = &seen {
                shown.retain(|(entry, statement)| seen.has(entry, statement.as_deref()));
                for (entry, statement) in &mut shown {
                    // A note does not say which tables its statement names.
                    *statement = statement.take().filter(|_| kind(entry) == "paid");
                }
                shown.truncate(most);
            }
            Ok((shown, own, read))
        });
        let page = page.await.map_err(|error| match error {
            AskError::Vault(error) => DataFusionError::External(Box::new(error)),
            AskError::Ended => internal_datafusion_err!("a page of the ledger was not read"),
        });
        let (shown, own, read) = page?;
        self.own = own;
        let Some(read) = read else {
            return internal_err!("a page of the ledger has entries");
        };
        if self.newest_first {
            self.range.last = read.saturating_sub(1);
        } else {
            self.range.first = read.saturating_add(1);
        }
        let shown = shown.into_iter();
        let shown: Vec<ShownEntry> =
            shown.map(|(entry, statement)| ShownEntry { entry, statement }).collect();
        self.batch(shown.len(), |(_, _, _, values)| values(&shown))
    }

    fn batch(&self, rows: usize, of: impl Fn(&LedgerColumn) -> ArrayRef) -> Result<RecordBatch> {
        let columns = self.columns.iter().filter_map(|column| COLUMNS.get(*column));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, columns.map(of).collect(), &options)?)
    }
}

/// The scan of a ledger, in one partition.
#[derive(Debug)]
pub(crate) struct LedgerExec {
    scan: Scan,
    properties: Arc<PlanProperties>,
}

impl LedgerExec {
    /// A scan that yields rows in `order`, which must agree with its direction. Without `order`,
    /// rows come in the order of the numbers.
    fn new(scan: Scan, order: Option<&[PhysicalSortExpr]>) -> Self {
        let schema = &scan.schema;
        let by_number = scan.sequence().map(|at| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(SEQUENCE, at));
            PhysicalSortExpr::new_default(column)
        });
        let order = order.map(<[_]>::to_vec).or(by_number.map(|by_number| vec![by_number]));
        let known = match order {
            Some(order) => EquivalenceProperties::new_with_orderings(Arc::clone(schema), [order]),
            None => EquivalenceProperties::new(Arc::clone(schema)),
        };
        let properties = PlanProperties::new(
            known,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { scan, properties: Arc::new(properties) }
    }
}

impl DisplayAs for LedgerExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scan { range: Range { first, last }, newest_first, fetch, own, .. } = &self.scan;
        match own {
            None => write!(f, "LedgerExec: entries {first} to {last}")?,
            Some(_) => write!(f, "LedgerExec: own entries")?,
        }
        if *newest_first {
            write!(f, ", newest first")?;
        }
        fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }
}

impl ExecutionPlan for LedgerExec {
    fn name(&self) -> &'static str {
        "LedgerExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("LedgerExec has no input") }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = stream::try_unfold(self.scan.clone(), Scan::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.scan.schema), batches)))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.scan.schema);
        if self.scan.own.is_some() {
            return Ok(Arc::new(unknown));
        }
        let rows = self.scan.range.len().min(self.scan.fetch.unwrap_or(usize::MAX));
        Ok(Arc::new(unknown.with_num_rows(Precision::Exact(rows))))
    }

    fn fetch(&self) -> Option<usize> {
        self.scan.fetch
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let scan = Scan { fetch: limit, ..self.scan.clone() };
        Some(Arc::new(Self { scan, properties: Arc::clone(&self.properties) }))
    }

    /// Entries have distinct numbers, so further sort keys have no effect.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let column = order.first().and_then(|first| first.expr.downcast_ref::<Column>());
        let by_number = column.is_some_and(|column| Some(column.index()) == self.scan.sequence());
        // A scan that stops early would return other entries in the other direction.
        if !by_number || self.scan.fetch.is_some() || self.scan.own.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let newest_first = order.first().is_some_and(|first| first.options.descending);
        let scan = Scan { newest_first, ..self.scan.clone() };
        Ok(SortOrderPushdownResult::Exact { inner: Arc::new(Self::new(scan, Some(order))) })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "DataFusion's own plan of written SQL is looked at")]
mod tests {
    use std::path::Path;

    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::displayable;
    use datafusion::prelude::SessionContext;
    use tempfile::TempDir;

    use super::*;
    use crate::catalog::{Budget, PerQuery, Privacy, Replay, Source, Table, Unit};
    use crate::exec::session_state;
    use crate::ledger::{ChargeEntry, ChargeRequest, Vault, plan_hash};
    use crate::privacy::Loss;

    const ENTRIES: usize = 5_000;

    fn charge(vault: &Vault, entries: usize) {
        let entry = |i: usize| ChargeEntry {
            mechanism: ["LAPLACE", "EXPONENTIAL"][i % 2].to_owned(),
            parameters: format!("eps=0.{}", i % 7),
            sensitivity: "1".to_owned(),
            loss: Loss::pure(&"0.000001".parse().unwrap()),
            shared: false,
            cells: None,
        };
        let paid = vault.charge(&ChargeRequest {
            analyst: "lab".to_owned(),
            plan_hash: plan_hash("plan"),
            entries: (0..entries).map(entry).collect(),
            shows_again: false,
            unit_domains: vec!["adult".to_owned()],
            tables: Default::default(),
            statement: "SELECT 1".to_owned(),
            catalog: vault.catalog().unwrap(),
            caps: Default::default(),
            built_on: Vec::new(),
        });
        assert!(paid.is_ok(), "{paid:?}");
    }

    fn vault() -> (TempDir, SharedVault) {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::init(folder.path().join("study.db")).unwrap();
        let table = Table {
            name: "adult".to_owned(),
            source: Source::Registered,
            privacy: Privacy::Private(Unit::Row),
            columns: Vec::new(),
        };
        vault.create_table(&table).unwrap();
        let budget = Budget {
            name: "research".to_owned(),
            table: "adult".to_owned(),
            limit: Spend::of_epsilon(10_000_000_000, 0),
            promise: None,
            coupon: None,
            per_query: PerQuery::default(),
            replay: Replay::All,
        };
        vault.create_budget(&budget).unwrap();
        charge(&vault, ENTRIES);
        (folder, SharedVault::new(vault))
    }

    fn context(table: Arc<dyn TableProvider>) -> SessionContext {
        let context = SessionContext::new_with_state(session_state());
        context.register_table("ledger", table).unwrap();
        context
    }

    async fn rows(context: &SessionContext, sql: &str) -> String {
        let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
        arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
    }

    async fn plan(context: &SessionContext, sql: &str) -> String {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        displayable(plan.as_ref()).indent(false).to_string()
    }

    #[tokio::test]
    async fn it_is_the_table_of_all_its_entries() {
        let (_folder, vault) = vault();
        let table = LedgerTable::for_reader(&vault, "lab", false).unwrap();
        let entries = vault.entries().unwrap();
        let statements = vault.statements(&entries, "lab").unwrap();
        assert!(statements.iter().all(|text| text == "SELECT 1"));
        let others = vault.statements(&entries[..1], "eve").unwrap().remove(0);
        assert!(others.starts_with("sha256:") && others.len() == 71, "{others}");
        let shown = entries.into_iter().zip(statements);
        let shown: Vec<ShownEntry> =
            shown.map(|(entry, text)| ShownEntry { entry, statement: Some(text) }).collect();
        let columns = COLUMNS.iter().map(|(_, _, _, values)| values(&shown)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&table.schema), columns).unwrap();
        let whole = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let (read, whole) = (context(Arc::new(table)), context(Arc::new(whole)));
        // Charges after the planning of a query are not in its table.
        charge(&vault, 10);
        for sql in [
            "SELECT * FROM ledger ORDER BY sequence",
            "SELECT * FROM ledger ORDER BY sequence DESC",
            "SELECT max(sequence), min(sequence), count(*), sum(sequence) FROM ledger",
            "SELECT count(*) FROM ledger",
            "SELECT count(*) FROM ledger WHERE sequence > 4990",
            "SELECT sequence FROM ledger ORDER BY sequence DESC LIMIT 3 OFFSET 2",
            "SELECT sequence, mechanism FROM ledger ORDER BY sequence DESC LIMIT 3",
            "SELECT mechanism, sequence FROM ledger ORDER BY sequence, mechanism DESC LIMIT 3000",
            "SELECT parameters FROM ledger WHERE sequence = 4096",
            "SELECT parameters FROM ledger WHERE 4096 >= sequence AND sequence > 4090 ORDER BY sequence",
            "SELECT * FROM ledger WHERE sequence BETWEEN 2047 AND 2050 ORDER BY sequence DESC",
            "SELECT * FROM ledger WHERE sequence >= 4999 AND mechanism = 'LAPLACE' ORDER BY sequence",
            "SELECT * FROM ledger WHERE sequence > 9000",
            "SELECT * FROM ledger WHERE sequence < 1 OR sequence = 17",
            "SELECT * FROM ledger WHERE sequence > 9223372036854775807",
            "SELECT * FROM ledger WHERE sequence = 1 AND sequence = 2",
            "SELECT sequence FROM ledger WHERE sequence <> 2 ORDER BY sequence LIMIT 2",
            "SELECT mechanism, parameters, count(*) FROM ledger GROUP BY 1, 2 ORDER BY 1, 2",
            "SELECT mechanism, rank() OVER (ORDER BY sequence DESC) AS r FROM ledger ORDER BY r LIMIT 4",
            "SELECT a.sequence FROM ledger a JOIN ledger b ON a.sequence = b.sequence + 4998 ORDER BY 1",
            "SELECT parameters FROM ledger WHERE charge = (SELECT max(charge) FROM ledger) ORDER BY sequence LIMIT 2",
            "SELECT epsilon, delta, rho, rho_delta FROM ledger ORDER BY parameters, sequence LIMIT 5",
        ] {
            assert_eq!(rows(&read, sql).await, rows(&whole, sql).await, "{sql}");
        }
        let limited = rows(&read, "SELECT sequence, analyst FROM ledger LIMIT 4000").await;
        assert_eq!(limited.lines().count(), 4_000 + 4);
    }

    #[tokio::test]
    async fn the_newest_entries_are_read_from_the_end() {
        let (_folder, vault) = vault();
        let context = context(Arc::new(LedgerTable::for_reader(&vault, "lab", false).unwrap()));
        for (sql, reads) in [
            (
                "SELECT * FROM ledger ORDER BY sequence DESC LIMIT 5",
                "1 to 5000, newest first, fetch=5",
            ),
            (
                "SELECT * FROM ledger ORDER BY sequence DESC, charge LIMIT 5",
                "newest first, fetch=5",
            ),
            ("SELECT analyst FROM ledger ORDER BY sequence LIMIT 5", "1 to 5000, fetch=5"),
            ("SELECT analyst FROM ledger LIMIT 5", "1 to 5000, fetch=5"),
            ("SELECT * FROM ledger WHERE sequence > 4000 AND sequence <= 4100", "4001 to 4100"),
            ("SELECT max(sequence) FROM ledger WHERE 10 > sequence", "1 to 9"),
        ] {
            let plan = plan(&context, sql).await;
            assert!(
                plan.contains(&format!("LedgerExec: entries {reads}")) || plan.contains(reads),
                "{sql}: {plan}"
            );
            assert!(!plan.contains("SortExec"), "{sql}: {plan}");
        }
    }

    fn alter(path: &Path, sql: &str) {
        let triggers = "DROP TRIGGER ledger_is_never_changed; DROP TRIGGER ledger_is_never_deleted";
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch(triggers).unwrap();
        other.execute_batch(sql).unwrap();
    }

    /// Entries before the newest checkpoint are verified when they are read, not when a vault is
    /// opened.
    #[tokio::test]
    async fn damaged_entries_are_not_shown() {
        let (folder, vault) = vault();
        let context = context(Arc::new(LedgerTable::for_reader(&vault, "lab", false).unwrap()));
        alter(
            &folder.path().join("study.db"),
            "UPDATE ledger SET parameters = 'eps=9' WHERE sequence = 77",
        );
        let newest = "SELECT parameters FROM ledger ORDER BY sequence DESC LIMIT 1";
        assert!(rows(&context, newest).await.contains("eps=0."));
        for sql in [
            "SELECT parameters FROM ledger",
            "SELECT parameters FROM ledger WHERE sequence = 5",
            "SELECT count(DISTINCT parameters) FROM ledger",
        ] {
            let error = context.sql(sql).await.unwrap().collect().await.unwrap_err();
            let message = vault_error(&error).map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains("the chain of its ledger is broken"), "{sql}: {error}");
        }
    }

    #[test]
    fn filters_are_ranges_of_numbers_or_none() {
        use datafusion::prelude::{col, lit};
        let sequence = || col("sequence");
        let range = |first, last| Some(Range { first, last });
        let (least, most) = (i64::MIN, i64::MAX);
        for (filter, expected) in [
            (sequence().eq(lit(5_i64)), range(5, 5)),
            (sequence().gt(lit(5_i64)), range(6, most)),
            (sequence().gt_eq(lit(5_i64)), range(5, most)),
            (sequence().lt(lit(5_i64)), range(least, 4)),
            (sequence().lt_eq(lit(5_i64)), range(least, 5)),
            (lit(5_i64).lt(sequence()), range(6, most)),
            (lit(5_i64).gt_eq(sequence()), range(least, 5)),
            (sequence().gt(lit(most)), Some(Range::NONE)),
            (sequence().lt(lit(least)), Some(Range::NONE)),
            (sequence().not_eq(lit(5_i64)), None),
            (sequence().eq(lit(5_i32)), None),
            (sequence().eq(lit(ScalarValue::Int64(None))), None),
            (sequence().eq(col("charge")), None),
            (col("charge").eq(lit(5_i64)), None),
            (sequence().gt(lit(1_i64)).or(sequence().lt(lit(0_i64))), None),
        ] {
            assert_eq!(Range::from_filter(&filter), expected, "{filter}");
        }
        assert_eq!(Range::NONE.len(), 0);
        assert_eq!(Range::ALL.len(), usize::MAX);
    }
}
