//! What one answer does not show: that every group and every query draws anew, and that a query
//! which fails while it runs does not say why.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use hushql::{Analyst, Engine, Error, Session};

/// Runs the owner's statements; then a session of an analyst.
pub async fn declared(engine: &Engine, statements: &[impl AsRef<str>]) -> Analyst {
    for statement in statements.iter().map(AsRef::as_ref) {
        engine.owner().execute(statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    engine.analyst("lab").unwrap()
}

/// One person, with a row in each of two groups.
async fn one_person() -> Analyst {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 1]));
    let groups: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let engine = Engine::in_memory().unwrap();
    let batch = RecordBatch::try_from_iter([("id", ids), ("g", groups)]).unwrap();
    engine.register_batch("people", batch).unwrap();
    declared(
        &engine,
        &[
            "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 2",
            "ALTER TABLE people ALTER COLUMN g SET PRIVACY DOMAIN IN ('a', 'b')",
            "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=100000)",
        ],
    )
    .await
}

/// The numbers of both groups, as often as 40 times.
async fn answers(session: &Session, sql: &str) -> Vec<[i64; 2]> {
    let mut answers = Vec::new();
    for _ in 0..40 {
        let answer = session.query(sql).await.unwrap();
        let numbers = answer.batches()[0].column(1).as_primitive::<Int64Type>().clone();
        answers.push([numbers.value(0), numbers.value(1)]);
    }
    answers
}

/// Noise that two groups shared would go out of their difference. Of noise of scale 2 two draws are
/// equal with probability below 0.15, and 40 times with probability below 10⁻³².
#[tokio::test]
async fn every_group_has_noise_of_its_own() {
    let session = one_person().await;
    let answers =
        answers(&session, "SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY g").await;
    assert!(answers.iter().any(|[a, b]| a != b), "{answers:?}");
}

/// Which group of a person counts is drawn for each query: were it always the same one, who asks
/// twice would know. With a fresh key all 40 queries choose the same group with probability 2⁻³⁹,
/// below 10⁻¹¹. At ε = 1000 the noise is 0.
#[tokio::test]
async fn every_query_bounds_under_a_key_of_its_own() {
    let session = one_person().await;
    let sql = "SELECT g, LAPLACE(eps=1000, rows=1, groups=1) COUNT(*) AS n FROM people GROUP BY g";
    let answers: BTreeSet<_> = answers(&session, sql).await.into_iter().collect();
    assert_eq!(answers, BTreeSet::from([[0, 1], [1, 0]]));
}

/// Rows that cannot be read, for a reason that quotes one of them.
#[derive(Debug)]
struct Unreadable(SchemaRef);

impl PartitionStream for Unreadable {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let cell = Err(DataFusionError::Execution("Mia's 70000 is no number".to_owned()));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), stream::iter([cell])))
    }
}

/// One constant sentence, without a source, and the charge stands: else a failure would be an
/// answer for nothing.
#[tokio::test]
async fn a_query_that_fails_while_it_runs_does_not_say_why() {
    let schema = Arc::new(Schema::new(vec![Field::new("salary", DataType::Int64, true)]));
    let rows = Unreadable(Arc::clone(&schema));
    let table = StreamingTable::try_new(schema, vec![Arc::new(rows)]).unwrap();
    let engine = Engine::in_memory().unwrap();
    engine.register_table("staff", Arc::new(table)).unwrap();
    let session = declared(
        &engine,
        &[
            "ALTER TABLE staff SET PRIVACY UNIT ROW",
            "CREATE PRIVACY BUDGET staff FOR staff LIMIT (epsilon=10)",
        ],
    )
    .await;
    let error = session.query("SELECT LAPLACE(eps=1) COUNT(salary) FROM staff").await.unwrap_err();
    let mut told = format!("{error} {error:?} {:?}", error.hint());
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        write!(told, " {inner} {inner:?}").unwrap();
        source = inner.source();
    }
    assert!(matches!(error, Error::Execution) && !told.contains("Mia"), "{told}");
    let spent: Vec<String> =
        session.budgets().unwrap().iter().map(|b| b.spent.to_string()).collect();
    assert_eq!(spent, ["ε = 1"]);
}
