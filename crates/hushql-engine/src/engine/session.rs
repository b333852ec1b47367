//! A session of the owner or of an analyst: it asks queries, tells their cost and accuracy
//! beforehand, and what the budgets have left.

use std::sync::Arc;

use crate::answer::Answer;
use crate::catalog::Catalog;
use crate::dialect::{Declaration, ExplainFormat, Show, Statement};
use crate::engine::attempts::Attempts;
use crate::engine::logged_in::LoggedIn;
use crate::engine::output::Output;
use crate::engine::progress::{RoundsDone, Watched};
use crate::error::Error;
use crate::explain::Explanation;
use crate::instance::Inner;
use crate::instance::entry_numbers::is_apart;
use crate::ledger::{BudgetState, ChargeCaps, OWNER};
use crate::privacy::Cost;
use crate::refusal::{Reason, Refusal};
use crate::resources::Clock;
use crate::{guard, owner as declare, views, visible};

/// The methods of both the [`Owner`](crate::Owner) and an [`Analyst`](crate::Analyst): to ask
/// queries, to look before paying, and to see what is left.
///
/// Both dereference to a `Session`, so these methods are called on them directly, and a function
/// for either of them takes `&Session`. A program that learns at run time who asks, such as a
/// server, keeps a `Session`, which is made [`From`] one of them. An analyst's errors are
/// [`Error::for_analyst`].
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, Error, Session};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// async fn count(session: &Session) -> Result<(), Error> {
///     let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM adult";
///     assert_eq!(session.cost(sql)?.to_string(), "ε = 1");
///     assert!(session.explain(sql)?.to_string().contains("LAPLACE"));
///     println!("{}", session.query(sql).await?);
///     for state in session.budgets()? {
///         println!("{}: {} left", state.budget.name, state.left);
///     }
///     Ok(())
/// }
///
/// let engine = Engine::demo()?;
/// let (owner, lab) = (engine.owner(), engine.analyst("lab")?);
/// count(&owner).await?;
/// count(&lab).await?;
///
/// let asks_as_owner = std::env::args().any(|argument| argument == "--owner");
/// let session: Session = if asks_as_owner { owner.into() } else { lab.into() };
/// count(&session).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
    pub(crate) analyst: String,
    pub(crate) watched: Watched,
    /// The password of the user who logged in, if one did.
    pub(crate) logged_in: Option<LoggedIn>,
    /// True if bounds must be declared or written, and are never found.
    pub(crate) declared_bounds: bool,
    /// True if numbers are built on kept draws of themselves with a smaller ε.
    pub(crate) refines: bool,
    /// The most that this session may spend, beside the budgets.
    pub(crate) caps: ChargeCaps,
    /// True if columns without a name are called as PostgreSQL calls them.
    pub(crate) postgres_names: bool,
}

fn in_format(explanation: Explanation, format: ExplainFormat) -> Output {
    match format {
        ExplainFormat::Text => Output::Explanation(explanation),
        ExplainFormat::Json => Output::ExplanationJson(explanation),
    }
}

/// The refusal of any other statement in the place of a query.
pub(super) fn not_a_query() -> Refusal {
    let hint = "SELECT …; other statements run with `execute`";
    Refusal::new(Reason::Statement, "", "this statement is not a query", hint)
}

impl Session {
    /// The same session, which finds the bounds of sums, means, variances, quantiles and extremes
    /// that have none, or refuses these with HQ007. Sessions find bounds unless this says
    /// otherwise.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Session};
    ///
    /// let session = Session::from(Engine::demo()?.analyst("lab")?);
    /// let sql = "SELECT SUM(order_id) FROM orders";
    /// assert!(session.cost(sql).is_ok());
    /// assert!(session.with_found_bounds(false).cost(sql).is_err());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    #[must_use]
    pub fn with_found_bounds(self, find: bool) -> Self {
        Self { declared_bounds: !find, ..self }
    }

    /// The same session, which builds a number that it paid for with a smaller ε on that draw, and
    /// pays the difference; or draws it by itself, and pays all of its ε. Sessions refine unless
    /// this says otherwise. Draws that are made by themselves are independent of one another.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Session};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// # let path = std::env::temp_dir().join(format!("hushql-refined-{}.csv", std::process::id()));
    /// # std::fs::write(&path, "id\n1\n2\n3\n").expect("a folder for such files");
    /// let engine = Engine::in_memory()?;
    /// # engine.owner().execute(&format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", path.display())).await?;
    /// // people is a file that is held to its bytes.
    /// engine.owner().execute("ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await?;
    /// engine.owner().execute("CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=5)").await?;
    /// let session = Session::from(engine.analyst("lab")?);
    /// session.query("SELECT LAPLACE(eps=0.5) COUNT(*) FROM people").await?;
    /// let better = "SELECT LAPLACE(eps=2) COUNT(*) FROM people";
    /// assert_eq!(session.cost(better)?.to_string(), "ε = 1.5");
    /// assert_eq!(session.with_refined_draws(false).cost(better)?.to_string(), "ε = 2");
    /// # std::fs::remove_file(&path).expect("the file is there");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_refined_draws(self, refine: bool) -> Self {
        Self { refines: refine, ..self }
    }

    /// The same session, which spends at most these caps, whatever its statements name. The cap of
    /// a day counts all charges of the analyst on that day (UTC), those of other sessions included.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{ChargeCaps, CostCap, Engine, Session, Spend};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let tenth = CostCap { epsilon: Some(Spend::of_epsilon(100_000_000, 0)), rho: None };
    /// let caps = ChargeCaps { statement: Some(tenth), day: Some(tenth), stated: None };
    /// let agent = Session::from(Engine::demo()?.analyst("agent")?).with_caps(caps);
    /// let sql = |epsilon: f64| format!("SELECT LAPLACE(eps={epsilon}) COUNT(*) FROM adult");
    /// assert!(agent.query(&sql(0.2)).await.is_err());
    /// assert!(agent.query(&sql(0.08)).await.is_ok());
    /// let refused = agent.query(&sql(0.09)).await.unwrap_err();
    /// assert!(refused.to_string().contains("ε = 0.1 a day (UTC), of which ε = 0.02 is left"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_caps(self, caps: ChargeCaps) -> Self {
        Self { caps, ..self }
    }

    /// The same session, which calls columns without a name as PostgreSQL does, by their function:
    /// `count` instead of `count(*)`. Programs that read rows by names expect these.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Session};
    ///
    /// let session = Session::from(Engine::demo()?.analyst("lab")?).with_postgres_names(true);
    /// let query = session.prepare("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?;
    /// assert_eq!(query.schema().field(0).name(), "count");
    /// # Ok::<(), hushql::Error>(())
    /// ```
    #[must_use]
    pub fn with_postgres_names(self, postgres_names: bool) -> Self {
        Self { postgres_names, ..self }
    }

    /// A statement whose columns have the names that this session gives them.
    pub(super) fn named(&self, mut statement: Statement) -> Statement {
        if let (true, Statement::Query(query)) = (self.postgres_names, &mut statement) {
            let names = std::mem::take(&mut query.names);
            if query.headings.is_empty() {
                query.headings = vec![None; names.len()];
            }
            for (heading, name) in query.headings.iter_mut().zip(names) {
                *heading = name.or(heading.take());
            }
        }
        statement
    }

    /// Whether this is the owner's session.
    pub(crate) fn is_owner(&self) -> bool {
        self.analyst == OWNER
    }

    /// The percentage, 0 to 99, of its files that the running statement of this session has read.
    /// `None` while no statement runs, for a statement that reads no file, and in an analyst's
    /// session for a statement that reads a private table, because the percentage would reveal the
    /// table's size.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// assert_eq!(session.progress(), None);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn progress(&self) -> Option<u8> {
        self.watched.percent()
    }

    /// The progress of the synthetic table that this session is making: its rounds, and the share
    /// of its budget that they spent. `None` while no table is made, and until the first round is
    /// over.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// assert_eq!(session.rounds(), None);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn rounds(&self) -> Option<RoundsDone> {
        self.watched.rounds_done()
    }

    /// Answers a query: SELECT, with or without releases.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(answer.batches()[0].num_rows(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`]; everything but [`Error::Execution`] is decided before anything is read or
    /// charged.
    pub async fn query(&self, sql: &str) -> Result<Answer, Error> {
        let clock = self.clock();
        let Statement::Query(query) = self.parse(sql)? else {
            return Err(not_a_query().into());
        };
        self.told(
            guard::poll(Box::pin(self.answer(query, None, &clock)))
                .await
                .unwrap_or(Err(Error::Internal)),
        )
    }

    /// Runs one statement of any kind.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = hushql::Engine::demo()?.owner();
    /// owner.execute("CREATE PRIVACY BUDGET small FOR adult LIMIT (epsilon=1)").await?;
    /// let budgets = owner.budgets()?;
    /// assert!(budgets.iter().any(|state| state.budget.name == "small"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`]; see [`Session::query`]. Declarations are refused outside of the owner's session.
    pub async fn execute(&self, statement: &str) -> Result<Output, Error> {
        let clock = self.clock();
        let parsed = self.parse(statement)?;
        let run = guard::poll(Box::pin(self.run(parsed, &clock)));
        self.told(run.await.unwrap_or(Err(Error::Internal)))
    }

    /// The result as this session may see it: an analyst's errors do not tell where the vault is.
    pub(crate) fn told<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if self.is_owner() { result } else { result.map_err(Error::for_analyst) }
    }

    /// The clock of a statement that begins now.
    pub(super) fn clock(&self) -> Clock {
        self.inner.resources.clock()
    }

    pub(super) async fn run(&self, statement: Statement, clock: &Clock) -> Result<Output, Error> {
        match statement {
            Statement::Query(query) => self.answer(query, None, clock).await.map(Output::Answer),
            Statement::Copy { query, to } => {
                self.copied(*query, &to, clock).await.map(Output::Answer)
            }
            Statement::CreateReleaseTable { name, if_not_exists, query } => {
                self.kept((name, if_not_exists), *query, clock).await
            }
            Statement::CreateSyntheticTable(statement) => self.synthesized(&statement, clock).await,
            Statement::ExplainSynthetic { statement, format } => {
                let (session, state) = (self.clone(), self.state(clock));
                let explained = move || session.explained_rows(&statement, &state);
                let explanation = clock.aside(explained).await?;
                Ok(in_format(explanation, format))
            }
            Statement::ExplainTuning { statement, format } => {
                self.tuned(&statement, clock).await.map(|told| in_format(told, format))
            }
            Statement::ReleaseTable(change) => self.change_release_table(&change).await,
            Statement::ExplainPrivacy { query, format } => {
                let explanation = match query {
                    Ok(query) => {
                        let (session, state) = (self.clone(), self.state(clock));
                        clock.aside(move || session.explained(&query, &state)).await?
                    }
                    Err(refusal) => Explanation::of_refusal(&refusal),
                };
                Ok(in_format(explanation, format))
            }
            Statement::Explain(query) => {
                let (session, state) = (self.clone(), self.state(clock));
                let plan = clock.aside(move || session.plan_of_public(query, &state));
                plan.await.map(Output::Answer)
            }
            Statement::Show(Show::Templates) => {
                let (session, state) = (self.clone(), self.state(clock));
                clock.aside(move || session.shown_templates(&state)).await.map(Output::Answer)
            }
            Statement::Show(show) => {
                crate::engine::show::show(&self.inner, &show, &self.analyst).map(Output::Answer)
            }
            Statement::BudgetRequest(statement) => self.decide(&statement).map(Output::Done),
            Statement::Declare(declaration) if self.is_owner() => {
                self.inner.drops_no_release_table(&declaration, &self.analyst)?;
                let price = self.price_of_new(&declaration, clock).await?;
                let done = declare::declare(&self.inner, &declaration).await? + &price;
                Ok(Output::Done(visible::line(&done).into_owned()))
            }
            Statement::Declare(declaration) => {
                self.inner.drops_no_release_table(&declaration, &self.analyst)?;
                match self.change_own_password(&declaration)? {
                    Some(done) => Ok(Output::Done(done)),
                    None => Err(Refusal::new(
                        Reason::Statement,
                        "a declaration",
                        "only the owner's session declares tables, views, units, domains and budgets",
                        "hushql VAULT --owner",
                    )
                    .into()),
                }
            }
        }
    }

    /// What a call of a new template costs, in words; empty for any other declaration. A template
    /// whose calls would be refused is refused itself.
    async fn price_of_new(&self, declared: &Declaration, clock: &Clock) -> Result<String, Error> {
        let Declaration::CreateTemplate { template, taken } = declared else {
            return Ok(String::new());
        };
        let (session, state) = (self.clone(), self.state(clock));
        let (template, taken) = (template.clone(), *taken);
        clock.aside(move || session.plan_template(&template, taken, &state)).await
    }

    /// Explains a query: what it would release, cost and how accurate it would be. Reads nothing,
    /// costs nothing.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let explanation = session.explain("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?;
    /// assert!(explanation.to_string().contains("LAPLACE"));
    /// // A refused query is explained, too.
    /// println!("{}", session.explain("SELECT age FROM adult")?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`] for a text that is not a query; a refused query is explained.
    pub fn explain(&self, query: &str) -> Result<Explanation, Error> {
        let clock = self.clock();
        match self.parse(query) {
            Ok(Statement::Query(asked)) => {
                let (session, state) = (self.clone(), self.state(&clock));
                self.told(clock.blocking(move || session.explained(&asked, &state)))
            }
            Ok(Statement::CreateSyntheticTable(statement)) => {
                let (session, state) = (self.clone(), self.state(&clock));
                self.told(clock.blocking(move || session.explained_rows(&statement, &state)))
            }
            Ok(_) => Err(not_a_query().into()),
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            Err(error) => Err(error),
        }
    }

    /// The cost of a statement, in the notions of the affected budgets; zero for a free statement.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(eps=1) COUNT(*), LAPLACE(eps=0.5) AVG(age) FROM adult";
    /// assert_eq!(session.cost(sql)?.to_string(), "ε = 1.5");
    /// assert_eq!(session.cost("SELECT 1")?, hushql::Cost::default());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`], as [`Session::execute`] would give before reading anything.
    pub fn cost(&self, statement: &str) -> Result<Cost, Error> {
        let clock = self.clock();
        let query = match self.parse(statement)? {
            Statement::CreateReleaseTable { name, if_not_exists: true, .. }
                if self.told(self.inner.sees_release_table(&name, &self.analyst))? =>
            {
                return Ok(Cost::default());
            }
            Statement::CreateSyntheticTable(statement) => {
                let (session, state) = (self.clone(), self.state(&clock));
                return self.told(clock.blocking(move || session.cost_of_rows(&statement, &state)));
            }
            Statement::Query(query) => query,
            Statement::Copy { query, .. } | Statement::CreateReleaseTable { query, .. } => *query,
            Statement::ReleaseTable(_)
            | Statement::BudgetRequest(_)
            | Statement::ExplainSynthetic { .. }
            | Statement::ExplainTuning { .. }
            | Statement::ExplainPrivacy { .. }
            | Statement::Explain(_)
            | Statement::Declare(_)
            | Statement::Show(_) => return Ok(Cost::default()),
        };
        let (session, state) = (self.clone(), self.state(&clock));
        self.told(clock.blocking(move || {
            Attempts::at(|| {
                let due = session.due(&query, &state)?;
                session.quote(&due)?;
                Ok(due.cost())
            })
        }))
    }

    /// The budgets, with what is spent and left. If a budget has slices, an analyst sees only their
    /// own share, and the owner sees all.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// for state in session.budgets()? {
    ///     println!("{}: {} left", state.budget.name, state.left);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn budgets(&self) -> Result<Vec<BudgetState>, Error> {
        self.told(self.inner.vault.budgets_for(&self.analyst).map_err(Error::from))
    }

    /// The tables and views and their columns, by name; a view that can no longer be read has no
    /// columns.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let tables = session.tables()?;
    /// let (name, columns) = &tables[0];
    /// assert_eq!(name, "adult");
    /// assert!(columns.contains(&"age".to_owned()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn tables(&self) -> Result<Vec<(String, Vec<String>)>, Error> {
        let catalog = self.told(self.inner.catalog_of(&self.analyst))?;
        let tables = catalog
            .tables()
            .map(|t| (t.name.clone(), t.columns.iter().map(|c| c.name.clone()).collect()));
        Ok(tables.chain(views::columns(&self.inner, &catalog)).collect())
    }

    /// The number of an entry, as this session sees it.
    ///
    /// # Errors
    /// The vault's own.
    pub(crate) fn shown_number(&self, sequence: i64) -> Result<i64, Error> {
        self.inner.shown_number(sequence, &self.analyst)
    }

    /// The same for a charge that was just made under these declarations. It never fails: if the
    /// vault can no longer be read, it is 0, which is no entry's number.
    pub(crate) fn number_of_charge(&self, sequence: i64, charged: &Catalog) -> i64 {
        match is_apart(charged, &self.analyst) {
            true => self.inner.vault.own_number(sequence, &self.analyst).unwrap_or_default(),
            false => sequence,
        }
    }
}
