//! Answers batch by batch: the same rows, the same limits, the same looks at declarations as an
//! answer in one piece.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use futures::{Stream, StreamExt};
use hushql::{Analyst, AnswerStream, Engine, Error, Resources};

use crate::contract::prepared::{reason, spent};

const ROWS: i64 = 50_000;

fn numbers() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id % 100)));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id % 3)));
    RecordBatch::try_from_iter([("id", ids), ("k", keys), ("x", values)]).unwrap()
}

/// A private table `p` and a public one, `t`, of fifty thousand rows.
async fn engine(resources: Resources) -> Engine {
    let engine = Engine::builder().resources(resources).in_memory().unwrap();
    engine.register_batch("p", numbers()).unwrap();
    engine.register_batch("t", numbers()).unwrap();
    for declaration in [
        "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE p ALTER COLUMN k SET PRIVACY DOMAIN IN (0, 1, 2)",
        "ALTER TABLE t SET PUBLIC",
        "CREATE PRIVACY BUDGET b FOR p LIMIT (epsilon=100)",
    ] {
        engine.owner().execute(declaration).await.unwrap();
    }
    engine
}

/// Rows that need an answer of many batches: each number of the public table with its class's noisy
/// count.
const MANY: &str = "SELECT t.id, n FROM t JOIN
    (SELECT k, LAPLACE(eps=1) COUNT(*) AS n FROM p GROUP BY k) AS counts ON t.k = counts.k";

/// Rows of a released table pass a filter in their order, however many batches they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn released_keys_come_in_order_in_many_batches() {
    let engine = engine(Resources::default()).await;
    let domain = "ALTER TABLE p ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 49999)";
    engine.owner().execute(domain).await.unwrap();
    let lab = engine.analyst("lab").unwrap();
    let sql = "SELECT x, LAPLACE(eps=1) COUNT(*) AS n FROM p GROUP BY x HAVING n > -1000";
    for _ in 0..10 {
        let answer = lab.query(sql).await.unwrap();
        let keys = answer
            .batches()
            .iter()
            .flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(keys.eq(0..50_000), "some batches came before others");
    }
}

async fn lab(resources: Resources) -> Analyst {
    engine(resources).await.analyst("lab").unwrap()
}

/// What is left of a stream: its rows, and its error if it has one.
async fn rest(mut stream: AnswerStream) -> (usize, Option<Error>) {
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(batch) => rows += batch.num_rows(),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing comes after an error");
                return (rows, Some(error));
            }
        }
    }
    (rows, None)
}

#[tokio::test]
async fn a_stream_gives_the_rows_of_the_answer() {
    let lab = lab(Resources::default()).await;
    let sql = "SELECT id, k + 1 AS next FROM t WHERE k < 2 ORDER BY id DESC";
    let answer = lab.query(sql).await.unwrap();
    let stream = lab.stream(sql).await.unwrap();
    assert_eq!((stream.schema(), stream.receipt()), (answer.schema(), None));
    let batches: Vec<RecordBatch> = stream.map(Result::unwrap).collect().await;
    assert!(batches.len() > 1, "the rows come in pieces");
    let one = |batches: &[RecordBatch]| concat_batches(&answer.schema(), batches).unwrap();
    assert_eq!(one(&batches), one(answer.batches()));
}

/// Everything but the rows is known when the stream begins, and what it draws it draws once.
#[tokio::test]
async fn a_stream_is_charged_and_drawn_before_its_first_row() {
    let lab = lab(Resources::default()).await;
    let stream = lab.stream(MANY).await.unwrap();
    assert_eq!(spent(&lab), 1_000_000_000);
    let receipt = stream.receipt().unwrap();
    assert_eq!((receipt.spent.to_string(), receipt.left.len()), ("ε = 1".to_owned(), 1));
    let batches: Vec<RecordBatch> = stream.map(Result::unwrap).collect().await;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!((rows as i64, spent(&lab)), (ROWS, 1_000_000_000));
    let mut counts: Vec<i64> = Vec::new();
    for batch in &batches {
        counts.extend(batch.column(1).as_primitive::<Int64Type>().values());
    }
    counts.sort_unstable();
    counts.dedup();
    assert!(counts.len() <= 3, "{counts:?}");

    // Whoever does not read on has paid; so has a prepared query, each time.
    drop(lab.stream(MANY).await.unwrap());
    let prepared = lab.prepare(MANY).unwrap();
    assert_eq!(rest(prepared.stream().await.unwrap()).await.0 as i64, ROWS);
    assert_eq!(spent(&lab), 3_000_000_000);
    assert!(matches!(lab.stream("SELECT id FROM p").await, Err(Error::Refused(_))));
    assert!(lab.stream("SHOW PRIVACY BUDGETS").await.is_err());
    assert_eq!(spent(&lab), 3_000_000_000);
}

/// What is read off all rows together comes in one piece.
#[tokio::test]
async fn a_range_is_a_stream_of_one_row() {
    let lab = lab(Resources::default()).await;
    let stream = lab.stream("ANALYZE PRIVACY DOMAIN p(x) WITH (eps=1)").await.unwrap();
    assert_eq!(stream.notes().len(), 1);
    let (rows, error) = rest(stream).await;
    assert_eq!((rows, error.is_none()), (1, true));
}

#[tokio::test]
async fn a_stream_keeps_to_the_limits_of_its_statement() {
    // An answer of more rows than are allowed ends where it passes them.
    let few = lab(Resources::default().with_rows(20_000)).await;
    let sql = "SELECT id FROM t";
    assert!(matches!(few.query(sql).await, Err(Error::Execution)));
    let (rows, error) = rest(few.stream(sql).await.unwrap()).await;
    assert!(rows <= 20_000 && matches!(error, Some(Error::Execution)), "{rows}: {error:?}");
    let (rows, error) = rest(few.stream("SELECT id FROM t LIMIT 20000").await.unwrap()).await;
    assert_eq!((rows, error.is_none()), (20_000, true));

    // So does one that is read too slowly: the statement's time goes on.
    let quick = lab(Resources::default().with_time(Some(Duration::from_secs(3)))).await;
    let mut stream = quick.stream("SELECT id FROM t").await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert!(matches!(rest(stream).await.1, Some(Error::Execution)));
}

/// Rows of a table that is public no longer do not leave, though others have.
#[tokio::test]
async fn a_stream_ends_where_its_table_becomes_private() {
    for sql in ["SELECT id FROM t", MANY] {
        let engine = engine(Resources::default()).await;
        let lab = engine.analyst("lab").unwrap();
        let mut stream = lab.stream(sql).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        let private = "ALTER TABLE t SET PRIVACY UNIT (id)";
        engine.owner().execute(private).await.unwrap();
        let (rows, error) = rest(stream).await;
        let error = error.unwrap().to_string();
        assert!(rows == 0 && error.contains("t was declared anew"), "{sql}: {rows}, {error}");
    }
}

/// A stream may be read by another task.
#[tokio::test]
async fn a_stream_goes_to_another_task() {
    fn sent(stream: impl Stream<Item = Result<RecordBatch, Error>> + Send + 'static) {
        drop(stream);
    }
    let lab = lab(Resources::default()).await;
    let stream = lab.stream("SELECT id FROM t").await.unwrap();
    let task = tokio::spawn(rest(stream));
    assert_eq!(task.await.unwrap().0 as i64, ROWS);
    let refused = lab.stream("SELECT LAPLACE(eps=1000) COUNT(*) FROM p").await.unwrap_err();
    assert_eq!(reason(&refused), None, "{refused}");
    sent(lab.stream("SELECT 1").await.unwrap());
}
