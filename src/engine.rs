//! THE LINE: an [`Engine`] holds a vault and tables, a [`Session`] asks.
//!
//! In: statements as text. Out: answers. [`Session::query`] reads like the life of a query: parse, bind,
//! analyze, choose, prepare, charge, run, answer; each stage takes what only the stage before can make.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
//! let engine = hushql::Engine::demo()?;
//! let session = engine.analyst("lab")?;
//! let answer = session.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?;
//! assert_eq!(answer.receipt().map(|r| r.spent.to_string()), Some("ε = 1".to_owned()));
//! # Ok(()) }
//! ```

use std::path::Path;
use std::sync::{Arc, PoisonError};

use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;

use crate::analysis::{Analysis, Lookups, analyze};
use crate::answer::{Answer, Receipt};
use crate::bind::{Bound, bind};
use crate::catalog::{Catalog, Privacy, Source, Table};
use crate::dialect::{
    ColumnName, ExplainFormat, QueryStatement, ScriptStatement, Statement, parse_within, split,
};
use crate::error::Error;
use crate::exec::{self, PlannedTables, files};
use crate::explain::{Explanation, ledger_texts, threshold_ledger_texts};
use crate::ledger::{
    BudgetQuote, BudgetState, ChargeEntry, ChargeRequest, OWNER, Vault, VaultError, plan_hash,
};
use crate::privacy::{Cost, Notion};
use crate::range::Proposal;
use crate::refusal::{Reason, Refusal};
use crate::release::{Drawn, Release, choose};
use crate::resources::Resources;
use crate::{declare, guard, show, views};

use self::unplanned::unplanned;
use self::visit::at_vault;
pub(crate) use inner::{Inner, Registered};

mod inner;
mod unplanned;
mod visit;

/// A vault, its tables, and the DataFusion session in which queries run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

impl Engine {
    fn new(vault: Vault) -> Result<Self, Error> {
        let (vault, registered) = (Arc::new(vault), Arc::default());
        Self::within(vault, registered, Resources::default())
    }

    fn within(
        vault: Arc<Vault>,
        registered: Registered,
        resources: Resources,
    ) -> Result<Self, Error> {
        let state = resources.session_state()?;
        Ok(Self { inner: Arc::new(Inner { vault, registered, state, resources }) })
    }

    /// The same vault and tables, for sessions whose statements may use so much; those that are there keep theirs.
    ///
    /// # Errors
    /// [`Error::Catalog`] when the folder for what does not fit into memory cannot be used.
    pub fn with_resources(self, resources: Resources) -> Result<Self, Error> {
        let Inner { vault, registered, .. } = &*self.inner;
        Self::within(Arc::clone(vault), Arc::clone(registered), resources)
    }

    /// Makes a new vault file and opens it.
    ///
    /// # Errors
    /// [`Error::Ledger`] when the file exists or cannot be written.
    pub fn init(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::new(Vault::init(path)?)
    }

    /// Opens an existing vault file; never makes one, so that deleting it does not reset a budget.
    ///
    /// # Errors
    /// [`Error::Ledger`] when it is missing, locked, corrupt or not writable.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::new(Vault::open(path)?)
    }

    /// Opens an existing vault file and holds it to its anchor: a small file in another place that every charge
    /// moves, and that notices when the vault was put back to an older copy.
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault is older than its anchor, the anchor is missing, damaged or not
    /// writable, or as [`Engine::open`].
    pub fn open_anchored(path: impl AsRef<Path>, anchor: impl AsRef<Path>) -> Result<Self, Error> {
        Self::new(Vault::open_anchored(path, anchor)?)
    }

    /// Makes an anchor for an existing vault file as it is now, and opens it; see [`Engine::open_anchored`].
    ///
    /// # Errors
    /// [`Error::Ledger`] when the anchor exists or would be in the vault's own folder, or as
    /// [`Engine::open_anchored`].
    pub fn make_anchor(path: impl AsRef<Path>, anchor: impl AsRef<Path>) -> Result<Self, Error> {
        Self::new(Vault::make_anchor(path, anchor)?)
    }

    /// An engine whose vault lives in memory and ends with it.
    ///
    /// # Errors
    /// [`Error::Ledger`] when SQLite cannot start.
    pub fn in_memory() -> Result<Self, Error> {
        Self::new(Vault::in_memory()?)
    }

    /// An engine in memory with the built-in tables `adult`, `bids`, `orders` and `census`, declared and budgeted.
    ///
    /// # Errors
    /// [`Error::Internal`] if the built-in tables contradict their declarations; never in a tested build.
    pub fn demo() -> Result<Self, Error> {
        let engine = Self::in_memory()?;
        for (name, batch) in crate::demo::tables().map_err(|_| Error::Internal)? {
            engine.register_batch(name, batch)?;
        }
        for statement in split(crate::demo::DECLARATIONS)? {
            let Statement::Declare(declaration) = crate::dialect::parse(statement.text())? else {
                return Err(Error::Internal);
            };
            // Registered tables are enforced, not verified, so nothing is read here.
            declare::in_memory(&engine.inner, &declaration)?;
        }
        Ok(engine)
    }

    /// Registers a batch as a table. A new table is undeclared: every query on it is refused until the owner
    /// says whether it is private or public.
    ///
    /// # Errors
    /// [`Error::Catalog`] when the vault knows this table with other columns.
    pub fn register_batch(&self, name: &str, batch: RecordBatch) -> Result<(), Error> {
        let failed = |e| Error::catalog_from(format!("`{name}` cannot be registered"), e);
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(failed)?;
        self.register_table(name, Arc::new(table))
    }

    /// Registers any DataFusion table provider, as [`Engine::register_batch`] does a batch.
    ///
    /// # Errors
    /// [`Error::Catalog`] when the vault knows this table with other columns.
    pub fn register_table(
        &self,
        name: &str,
        provider: Arc<dyn TableProvider>,
    ) -> Result<(), Error> {
        let columns = files::columns_of(&provider.schema());
        files::refuse_reserved(&columns)?;
        let catalog = self.inner.vault.catalog()?;
        match catalog.table(name) {
            None => {
                let table = Table {
                    name: name.to_owned(),
                    source: Source::Registered,
                    privacy: Privacy::Undeclared,
                    columns,
                };
                self.inner.vault.create_table(&table)?;
            }
            Some(known) => {
                let same = known.source == Source::Registered
                    && known.columns.len() == columns.len()
                    && known
                        .columns
                        .iter()
                        .zip(&columns)
                        .all(|(a, b)| a.name == b.name && a.data_type == b.data_type);
                if !same {
                    return Err(Error::catalog(format!(
                        "the vault knows `{name}` with other columns; DROP TABLE {name} first"
                    )));
                }
            }
        }
        let mut registered = self.inner.registered.write().unwrap_or_else(PoisonError::into_inner);
        registered.insert(name.to_owned(), provider);
        Ok(())
    }

    /// The owner's session: declares tables, units, domains and budgets. Its queries are charged like
    /// anyone's.
    pub fn owner(&self) -> Session {
        Session { engine: self.clone(), analyst: OWNER.to_owned() }
    }

    /// An analyst's session.
    ///
    /// # Errors
    /// [`Error::Ledger`] for a name that is not 1 to 64 letters, digits, `_` and `-`, or is the owner's.
    pub fn analyst(&self, name: &str) -> Result<Session, Error> {
        if name.eq_ignore_ascii_case(OWNER) {
            return Err(Error::Ledger(VaultError::AnalystName { name: name.to_owned() }));
        }
        self.inner.vault.ensure_analyst(name)?;
        Ok(Session { engine: self.clone(), analyst: name.to_owned() })
    }
}

/// What a statement gave.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Rows.
    Answer(Answer),
    /// An explanation, as text.
    Explanation(Explanation),
    /// An explanation, to be written as JSON.
    ExplanationJson(Explanation),
    /// One sentence about what was done.
    Done(String),
}

/// One analyst's, or the owner's, conversation with an engine.
#[derive(Debug, Clone)]
pub struct Session {
    engine: Engine,
    analyst: String,
}

impl Session {
    /// Whether this is the owner's session.
    pub fn is_owner(&self) -> bool {
        self.analyst == OWNER
    }

    /// Answers a query: SELECT, with or without releases.
    ///
    /// # Errors
    /// [`Error`]; everything but [`Error::Execution`] is decided before anything is read or charged.
    pub async fn query(&self, sql: &str) -> Result<Answer, Error> {
        let Statement::Query(query) = self.parse(sql)? else {
            let message = "this is no query";
            let hint = "SELECT …, or run it as a statement";
            return Err(Refusal::new(Reason::Statement, "", message, hint).into());
        };
        guard::poll(self.answer(query)).await.unwrap_or(Err(Error::Internal))
    }

    /// Runs any one statement.
    ///
    /// # Errors
    /// [`Error`]; see [`Session::query`]. Declarations are refused outside of the owner's session.
    pub async fn execute(&self, statement: &str) -> Result<Output, Error> {
        let statement = self.parse(statement)?;
        guard::poll(self.run(statement)).await.unwrap_or(Err(Error::Internal))
    }

    fn parse(&self, text: &str) -> Result<Statement, Error> {
        let size = self.engine.inner.resources.statement;
        guard::run(|| Ok(parse_within(text, &size)?))
    }

    async fn run(&self, statement: Statement) -> Result<Output, Error> {
        match statement {
            Statement::Query(query) => self.answer(query).await.map(Output::Answer),
            Statement::ExplainPrivacy { query, format } => {
                let explanation = match query {
                    Ok(query) => self.explained(query)?,
                    Err(refusal) => Explanation::of_refusal(&refusal),
                };
                Ok(match format {
                    ExplainFormat::Text => Output::Explanation(explanation),
                    ExplainFormat::Json => Output::ExplanationJson(explanation),
                })
            }
            Statement::Explain(query) => self.plan_of_public(query).await.map(Output::Answer),
            Statement::Show(show) => {
                show::show(&self.engine.inner, &show, self.is_owner()).map(Output::Answer)
            }
            Statement::Declare(declaration) if self.is_owner() => {
                declare::declare(&self.engine.inner, &declaration).await.map(Output::Done)
            }
            Statement::Declare(_) => Err(Refusal::new(
                Reason::Statement,
                "a declaration",
                "only the owner's session declares tables, views, units, domains and budgets",
                "hushql VAULT --owner",
            )
            .into()),
        }
    }

    /// Explains a query: what it would release, cost and how accurate it would be. Reads nothing, costs nothing.
    ///
    /// # Errors
    /// [`Error`] for a text that is no query; a refused query is explained.
    pub fn explain(&self, query: &str) -> Result<Explanation, Error> {
        match self.parse(query) {
            Ok(Statement::Query(query)) => guard::run(|| self.explained(query)),
            Ok(_) => Err(Error::Syntax { message: "this is no query".into(), position: None }),
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            Err(error) => Err(error),
        }
    }

    /// What a statement would cost, in the notions that the touched budgets count in; zero for what is free.
    ///
    /// # Errors
    /// [`Error`], as [`Session::execute`] would give before reading anything.
    pub fn cost(&self, statement: &str) -> Result<Cost, Error> {
        let Statement::Query(query) = self.parse(statement)? else { return Ok(Cost::default()) };
        guard::run(|| {
            let planned = self.plan(query)?;
            let Some((request, spend)) = self.request(&planned)? else {
                return Ok(Cost::default());
            };
            self.engine.inner.vault.quote(&request)?;
            Ok(spend)
        })
    }

    /// The budgets, with what is spent and left.
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn budgets(&self) -> Result<Vec<BudgetState>, Error> {
        Ok(self.engine.inner.vault.budgets()?)
    }

    /// The tables and views and their columns, by name; of a view that cannot be read any more, no columns.
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn tables(&self) -> Result<Vec<(String, Vec<String>)>, Error> {
        let catalog = self.engine.inner.vault.catalog()?;
        let tables = catalog
            .tables()
            .map(|t| (t.name.clone(), t.columns.iter().map(|c| c.name.clone()).collect()));
        Ok(tables.chain(views::columns(&self.engine.inner, &catalog)).collect())
    }

    /// The life of a query, from its statement to its answer.
    async fn answer(&self, query: QueryStatement) -> Result<Answer, Error> {
        let Inner { vault, state, resources, .. } = &*self.engine.inner;
        let catalog = at_vault(vault, Vault::catalog).await?;
        let planned = self.plan_with(query, catalog)?;
        let request = self.request(&planned)?.map(|(request, _)| Arc::new(request));
        if let Some(request) = request.clone() {
            at_vault(vault, move |vault| vault.quote(&request)).await?;
        }
        self.check_files(&planned)?;
        let prepared = exec::prepare(&planned.release, state)
            .await
            .map_err(|error| unplanned(&planned.release, &error))?;
        let timer = resources.timer();
        let charge = match request {
            Some(request) => Some(at_vault(vault, move |vault| vault.charge(&request)).await?),
            None => None,
        };
        let run = async {
            let free = charge.is_none();
            let (rows, charge) = match exec::run(prepared, charge, state, resources.rows).await {
                Ok(ran) => ran,
                // A query that reads no private row may say that the ledger it reads is damaged.
                Err(error) if free => return exec::vault_error(&error).map(|e| Err(e.into())),
                Err(_) => return None,
            };
            let receipt = charge
                .map(|charge| Receipt { spent: charge.spend(), left: charge.left().to_vec() });
            Some(Ok(match &planned.proposal {
                Some(proposal) => {
                    Answer::proposed(proposal.answer(&rows).ok()?, proposal.rule(), receipt)
                }
                None => Answer::new(rows, &planned.release, receipt),
            }))
        };
        // A panic on some row, an overrun or a failed read would each tell about the rows: one error for all.
        let run = timer.limit(guard::poll(run));
        run.await.flatten().flatten().unwrap_or(Err(Error::Execution))
    }

    /// Stages 2 to 4.
    fn plan(&self, query: QueryStatement) -> Result<Planned, Error> {
        self.plan_with(query, self.engine.inner.vault.catalog()?)
    }

    fn plan_with(
        &self,
        query: QueryStatement,
        mut catalog: Arc<Catalog>,
    ) -> Result<Planned, Error> {
        self.engine.inner.resources.statement.check_tree(&query.tree)?;
        let range_of = query.range_of.clone();
        if let Some(ColumnName { table, column }) = &range_of {
            views::refuse_range(&catalog, table)?;
            // What was declared of the values would answer in their place.
            catalog = Arc::new(catalog.without_domain(table, column));
        }
        let sources = self.engine.inner.sources(&query.tree, &catalog)?;
        let over = views::named(&query.tree, &catalog);
        let bound: Bound = bind(query, &sources).map_err(|e| show::suggesting(e, &catalog))?;
        let lookups = self.look_up(&bound, &catalog)?;
        let state = &self.engine.inner.state;
        let tables = PlannedTables { sources: &sources, catalog: &catalog, state };
        let analysis: Analysis = analyze(&bound, &catalog, &lookups, &tables)
            .map_err(|refusal| refusal.over_views(&over))?;
        self.engine.inner.resources.check_keys(&analysis)?;
        let release: Release = choose(analysis, &catalog)?;
        let proposal = range_of.map(|column| self.proposal(&release, column, &catalog));
        Ok(Planned { proposal: proposal.transpose()?, release, catalog })
    }

    /// How the answer to `ANALYZE PRIVACY DOMAIN` is read off its histogram.
    fn proposal(
        &self,
        release: &Release,
        column: ColumnName,
        catalog: &Catalog,
    ) -> Result<Proposal, Error> {
        let table = catalog.table(&column.table).ok_or(Error::Internal)?;
        let provider = self.engine.inner.provider(table).ok_or(Error::Internal)?;
        let schema = provider.schema();
        let field = schema.field_with_name(&column.column).map_err(|_| Error::Internal)?;
        Proposal::of(release, column, field.data_type().clone()).ok_or(Error::Internal)
    }

    /// The public tables that clauses name, read before the analysis.
    fn look_up(&self, bound: &Bound, catalog: &Catalog) -> Result<Lookups, Error> {
        let mut lookups = Lookups::default();
        for lookup in Lookups::needed(bound.releases(), catalog)? {
            let table = catalog.table(&lookup.table).ok_or(Error::Internal)?;
            files::check(table)?;
            let provider = self.engine.inner.provider(table).ok_or(Error::Internal)?;
            let values =
                exec::columns_of_public(provider, &lookup.columns, &self.engine.inner.state)
                    .map_err(|_| Error::catalog(format!("`{}` cannot be read", lookup.table)))?;
            lookups.insert(lookup, values);
        }
        Ok(lookups)
    }

    /// What a release asks of the ledger; `None` for a query that releases nothing.
    fn request(&self, planned: &Planned) -> Result<Option<(ChargeRequest, Cost)>, Error> {
        let Planned { release, catalog, .. } = planned;
        let mut entries = Vec::new();
        let mut cost = Cost::zero();
        for drawn in release.draws() {
            let (mechanism, parameters, sensitivity) = match drawn {
                Drawn::Measure(measure, mechanized) => ledger_texts(measure, mechanized),
                Drawn::Hiding(hidden, loss) => threshold_ledger_texts(hidden, loss),
            };
            let loss = drawn.loss().clone();
            cost = cost.plus(Cost::round_up(&loss)?)?;
            entries.push(ChargeEntry { mechanism, parameters, sensitivity, loss });
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let spaces = release.spaces();
        let plan_hash = plan_hash(&release.plan_text());
        let analyst = self.analyst.clone();
        let counts: Vec<Notion> = spaces
            .iter()
            .flat_map(|space| catalog.budgets_of(space))
            .map(|budget| budget.limit.notion)
            .collect();
        let cost = cost.counted_in(&counts);
        Ok(Some((ChargeRequest { analyst, plan_hash, entries, spaces }, cost)))
    }

    /// A file that is no longer the declared one is refused before anything is charged.
    fn check_files(&self, planned: &Planned) -> Result<(), Error> {
        for part in planned.release.analysis().parts() {
            for name in part.subject().tables() {
                files::check(planned.catalog.table(name).ok_or(Error::Internal)?)?;
            }
            // What was read while the query was planned is no file any more.
            for table in part.public().iter().filter_map(|name| planned.catalog.table(name)) {
                files::check(table)?;
            }
        }
        for table in public_tables(planned.release.analysis(), &planned.catalog) {
            files::check(table)?;
        }
        Ok(())
    }

    fn explained(&self, query: QueryStatement) -> Result<Explanation, Error> {
        let planned = match self.plan(query) {
            Ok(planned) => planned,
            Err(Error::Refused(refusal)) => return Ok(Explanation::of_refusal(&refusal)),
            Err(error) => return Err(error),
        };
        let Some((request, cost)) = self.request(&planned)? else {
            return Ok(Explanation::of(&planned.release, Cost::default(), &[]));
        };
        let explained = |quotes: &[BudgetQuote]| {
            let explanation = Explanation::of(&planned.release, cost, quotes);
            match &planned.proposal {
                Some(proposal) => explanation.with_range(&proposal.rule()),
                None => explanation,
            }
        };
        match self.engine.inner.vault.quote(&request).map_err(Error::from) {
            Ok(quotes) => Ok(explained(&quotes)),
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            Err(error @ Error::Budget(_)) => Ok(explained(&[]).over_budget(&error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// DataFusion's plan of a query over public tables.
    async fn plan_of_public(&self, query: QueryStatement) -> Result<Answer, Error> {
        let planned = self.plan(query)?;
        if !planned.release.analysis().parts().is_empty() || !self.is_owner() {
            return Err(Refusal::new(
                Reason::Statement,
                "EXPLAIN",
                "the plain plan is shown to owners, of public tables only",
                "EXPLAIN PRIVACY SELECT …",
            )
            .into());
        }
        let plan = planned.release.analysis().remainder();
        let plan = self.engine.inner.state.optimize(plan);
        let plan = plan.map_err(|error| unplanned(&planned.release, &error))?;
        show::lines("plan", plan.display_indent().to_string().lines())
    }
}

struct Planned {
    release: Release,
    /// Where a range is asked for.
    proposal: Option<Proposal>,
    catalog: Arc<Catalog>,
}

/// The public tables that the remainder reads.
fn public_tables<'a>(
    analysis: &'a Analysis,
    catalog: &'a Catalog,
) -> impl Iterator<Item = &'a Table> {
    let mut names = Vec::new();
    let _ = analysis.remainder().apply_with_subqueries(|node| {
        if let datafusion::logical_expr::LogicalPlan::TableScan(scan) = node {
            names.push(scan.table_name.table().to_owned());
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    names.into_iter().filter_map(|name| catalog.table(&name))
}

/// Splits a script into its statements.
///
/// # Errors
/// [`Error::Syntax`] when a quotation or comment never ends.
pub fn split_statements(script: &str) -> Result<Vec<ScriptStatement>, Error> {
    Ok(split(script)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An analyst who called himself `owner` was once given the owner's session, and declared tables public.
    #[test]
    fn no_analyst_is_called_owner() {
        let engine = Engine::in_memory().unwrap();
        for name in ["owner", "Owner", "OWNER"] {
            assert!(engine.analyst(name).is_err(), "{name}");
        }
        assert!(!engine.analyst("lab").unwrap().is_owner());
    }

    /// The shell once asked for consent to a price that the budget does not allow, and then refused.
    #[test]
    fn a_price_is_told_only_if_it_can_be_paid() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        let cost = |eps| session.cost(&format!("SELECT LAPLACE(eps={eps}) COUNT(*) FROM adult"));
        assert_eq!(cost(5).unwrap().to_string(), "ε = 5");
        assert!(matches!(cost(20), Err(Error::Budget(_))), "{:?}", cost(20));
    }
}
