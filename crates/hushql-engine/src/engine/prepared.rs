//! Queries that are examined before they are paid for.
//!
//! In: a query, and values for its parameters. Out: its columns, its cost and its accuracy, before
//! anything is charged and before a private table is read; later its answer. Each execution plans
//! the query again, under the declarations of that moment.
//!
//! ```text
//! prepare ─▶ schema, cost, accuracy, explanation          nothing is charged
//!     └────▶ execute ─▶ plan again, as quoted? ─ yes → charge → run → answer
//!                                               └ no → refused, nothing is charged
//! ```

use arrow::datatypes::SchemaRef;

use super::attempts::Attempts;
use super::query::prepare::Quote;
use crate::answer::{Accuracy, Answer, predicted};
use crate::dialect::{QueryStatement, Statement, Value, parse_with};
use crate::engine::session::{Session, not_a_query};
use crate::engine::stream::AnswerStream;
use crate::error::Error;
use crate::explain::Explanation;
use crate::guard;
use crate::privacy::Cost;
use crate::refusal::{Reason, Refusal};

/// A query that was checked and quoted. It may be executed any number of times.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let query = session.prepare("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult")?;
/// assert_eq!(query.schema().field(0).name(), "n");
/// assert_eq!(query.cost().to_string(), "ε = 0.5");
/// assert!(query.accuracy()[0].value < 10.0);
/// assert!(query.explanation().to_string().contains("LAPLACE"));
///
/// // Nothing has been charged so far.
/// let answer = query.execute().await?;
/// assert_eq!(answer.receipt().map(|receipt| receipt.spent), Some(query.cost()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PreparedQuery {
    session: Session,
    query: QueryStatement,
    accuracy: Vec<Accuracy>,
    explanation: Explanation,
    quoted: Quote,
}

impl PreparedQuery {
    /// The columns of the answer.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let query = session.prepare("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult")?;
    /// assert_eq!(query.schema().field(0).name(), "n");
    /// # Ok(()) }
    /// ```
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.quoted.schema)
    }

    /// The cost of one execution, in the notions of the affected budgets; zero for a free query.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let query = session.prepare("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult")?;
    /// assert_eq!(query.cost().to_string(), "ε = 0.5");
    /// # Ok(()) }
    /// ```
    pub fn cost(&self) -> Cost {
        self.quoted.cost
    }

    /// How accurate the released columns will be, as far as this is known before the draw. It has
    /// no entry for a mean, a variance, or an aggregate whose bound is chosen from the data; their
    /// accuracy comes with the answer.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let query = session.prepare("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult")?;
    /// assert_eq!(query.accuracy()[0].value, 6.0);
    /// # Ok(()) }
    /// ```
    pub fn accuracy(&self) -> &[Accuracy] {
        &self.accuracy
    }

    /// What the query releases, what it costs and how accurate it is, as in [`Session::explain`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let query = session.prepare("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult")?;
    /// println!("{}", query.explanation());
    /// # Ok(()) }
    /// ```
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// Charges the query and answers it. Each execution is charged, and draws new noise.
    ///
    /// The query is planned again under the present declarations. If these change its columns, its
    /// cost, its mechanisms, their sensitivities, or the budgets that pay, nothing is charged.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let query = session.prepare("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult")?;
    /// let (first, second) = (query.execute().await?, query.execute().await?);
    /// println!("{first}\n{second}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Session::query`], and [`Error::Catalog`] if the query no longer matches its quote.
    pub async fn execute(&self) -> Result<Answer, Error> {
        let (session, clock) = (&self.session, self.session.clock());
        let answer = Box::pin(session.answer(self.query.clone(), Some(&self.quoted), &clock));
        session.told(guard::poll(answer).await.unwrap_or(Err(Error::Internal)))
    }

    /// Charges the query and answers it batch by batch; see [`PreparedQuery::execute`] and
    /// [`Session::stream`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let mut rows = session.prepare("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?.stream().await?;
    /// assert_eq!(rows.next().await.expect("one row")?.num_rows(), 1);
    /// assert!(rows.next().await.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PreparedQuery::execute`]; later ones come from the stream.
    pub async fn stream(&self) -> Result<AnswerStream, Error> {
        let (session, clock) = (&self.session, self.session.clock());
        let begun = Box::pin(session.begin(self.query.clone(), Some(&self.quoted), clock));
        let begun = guard::poll(begun);
        session.told(begun.await.unwrap_or(Err(Error::Internal)))
    }
}

impl Session {
    /// Prepares a query: checks it, and tells its cost and its accuracy before anything is charged.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let query = session.prepare("SELECT LAPLACE(eps=0.1) AVG(age) AS mean FROM adult")?;
    /// if query.cost().to_string() == "ε = 0.1" {
    ///     println!("{}", query.execute().await?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`], as [`Session::query`] would give before it charges anything.
    pub fn prepare(&self, sql: &str) -> Result<PreparedQuery, Error> {
        self.prepare_with(sql, [Value::Null; 0])
    }

    /// Prepares a query with values for its parameters `$1`, `$2`, …
    ///
    /// A value becomes a literal of the query before the query is bound, so cost and accuracy are
    /// those of the query with this literal. No value is read as SQL. ε, δ, bounds, keys and
    /// candidates are not parameters.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Value;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult WHERE age > $1 AND status NOT LIKE $2";
    /// let query = session.prepare_with(sql, [Value::from(40), Value::from("Divorced' OR '1")])?;
    /// assert_eq!(query.execute().await?.batches()[0].num_rows(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Session::prepare`], and [`Error::Refused`] if parameters and values do not match.
    pub fn prepare_with<V: Into<Value>>(
        &self,
        sql: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Result<PreparedQuery, Error> {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        self.told(self.prepared(sql, &values))
    }

    fn prepared(&self, sql: &str, values: &[Value]) -> Result<PreparedQuery, Error> {
        let clock = self.clock();
        let size = self.inner.resources.statement;
        let parsed = guard::run(|| {
            let text = self.with_pivot_lists(sql)?;
            self.allowed(self.named(parse_with(&text, &size, values)?))
        })?;
        let Statement::Query(mut query) = parsed else { return Err(not_a_query().into()) };
        if query.range_of.is_some() && !values.is_empty() {
            let message = "this statement takes no parameters";
            return Err(Refusal::new(Reason::Parameter, "$1", message, "no values").into());
        }
        query.text = recorded(sql, values)?;
        let (session, state) = (self.clone(), self.state(&clock));
        clock.blocking(move || {
            // This thread waits for nothing else, so planning gets a new runtime.
            let ready = Attempts::at(|| session.ready(&query, &state, None))?;
            let (due, planned) = (ready.due(), ready.due().planned());
            let explanation = session.explanation(due)?;
            let quoted = ready.quoted();
            let accuracy = match planned.proposal() {
                Some(_) => Vec::new(),
                None => predicted(planned.release(), &quoted.schema),
            };
            Ok(PreparedQuery { session, query, accuracy, explanation, quoted })
        })
    }
}

/// The text that the ledger keeps of a query with these values.
fn recorded(sql: &str, values: &[Value]) -> Result<String, Refusal> {
    let mut text = sql.trim().to_owned();
    for (i, value) in values.iter().enumerate() {
        let before = if i == 0 { "\n-- " } else { ", " };
        text.push_str(&format!("{before}${} = {}", i + 1, value.recorded()?));
    }
    Ok(text)
}
