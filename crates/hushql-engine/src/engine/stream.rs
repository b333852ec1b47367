//! An answer whose rows come batch by batch.
//!
//! In: a query whose private aggregates have run. Out: its rows as a stream. All noise is drawn and
//! everything is charged before the first batch; the rest is the plan over released and public
//! tables, which runs only as far as its reader asks.
//!
//! ```text
//! parse … charge ─▶ draw ─▶ AnswerStream: accuracy, notes, receipt
//!                              └─▶ next ─▶ next ─▶ … ─▶ None
//! ```

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use crate::answer::{Accuracy, Answer, Head, Receipt};
use crate::dialect::Statement;
use crate::engine::session::{Session, not_a_query};
use crate::error::Error;
use crate::guard;

/// The answer to a query, as a [`Stream`] of batches.
///
/// The query is charged, and its noise drawn, before the stream exists. The statement's time limit
/// also covers reading the stream. A stream that is dropped early costs as much as one that is read
/// to the end.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let mut rows = session.stream("SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY status").await?;
/// println!("{}", rows.receipt().expect("the counts were charged"));
/// assert_eq!(rows.accuracy()[0].column, "n");
/// let mut groups = 0;
/// while let Some(batch) = rows.next().await {
///     groups += batch?.num_rows();
/// }
/// assert_eq!(groups, 7);
/// # Ok(()) }
/// ```
pub struct AnswerStream {
    head: Head,
    batches: BoxStream<'static, Result<RecordBatch, Error>>,
}

impl AnswerStream {
    pub(super) fn new(
        head: Head,
        batches: impl Stream<Item = Result<RecordBatch, Error>> + Send + 'static,
    ) -> Self {
        Self { head, batches: batches.boxed() }
    }

    /// The stream of a complete answer.
    pub(super) fn done(answer: Answer) -> Self {
        let (head, batches) = answer.into_parts();
        Self::new(head, futures::stream::iter(batches.into_iter().map(Ok)))
    }

    /// The next rows; `None` after the last, and after an error.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let mut rows = session.stream("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// while let Some(batch) = rows.next().await {
    ///     println!("{} rows", batch?.num_rows());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Execution`] if the rest cannot be computed, is too large or takes too long;
    /// [`Error::Catalog`] if a table that was read as a public one was declared anew.
    pub async fn next(&mut self) -> Option<Result<RecordBatch, Error>> {
        self.batches.next().await
    }

    /// The columns.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let rows = session.stream("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(rows.schema().field(0).name(), "n");
    /// # Ok(()) }
    /// ```
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.head.schema)
    }

    /// How accurate the released columns are, as in [`Answer::accuracy`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let rows = session.stream("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(rows.accuracy()[0].value, 6.0);
    /// # Ok(()) }
    /// ```
    pub fn accuracy(&self) -> &[Accuracy] {
        &self.head.accuracy
    }

    /// Notes for the reader, as in [`Answer::notes`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let rows = session.stream("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert!(rows.notes().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn notes(&self) -> &[String] {
        &self.head.notes
    }

    /// What the query cost; `None` for a free query.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let rows = session.stream("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert!(rows.receipt().is_some());
    /// # Ok(()) }
    /// ```
    pub fn receipt(&self) -> Option<&Receipt> {
        self.head.receipt.as_ref()
    }
}

impl Stream for AnswerStream {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next_unpin(context)
    }
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream").field("head", &self.head).finish_non_exhaustive()
    }
}

impl Session {
    /// Answers a query batch by batch. This suits public tables and joins with them, which may have
    /// many rows.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let mut rows = session.stream("SELECT LAPLACE(eps=0.5) COUNT(*) FROM adult").await?;
    /// assert_eq!(rows.next().await.expect("one row")?.num_rows(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Session::query`]; later ones come from the stream.
    pub async fn stream(&self, sql: &str) -> Result<AnswerStream, Error> {
        let clock = self.clock();
        let Statement::Query(query) = self.parse(sql)? else {
            return Err(not_a_query().into());
        };
        let begun = guard::poll(Box::pin(self.begin(query, None, clock)));
        self.told(begun.await.unwrap_or(Err(Error::Internal)))
    }
}
