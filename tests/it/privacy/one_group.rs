//! Units whose keys come from a table with one row for each, where the table has more rows all the
//! same.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use hushql::Engine;

/// A unit is counted in one group, as the noise assumes, although its table has two countries for
/// it. Files are verified when a unit is declared; tables of a program are not. The noise is 0, but
/// for a chance of less than 1e-20.
#[tokio::test]
async fn a_unit_with_two_values_is_in_one_group() {
    let engine = Engine::in_memory().unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2]));
    let countries: ArrayRef = Arc::new(StringArray::from(vec!["DE", "FR", "DE"]));
    let customers = RecordBatch::try_from_iter([("id", ids), ("country", countries)]).unwrap();
    let buyers: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2, 2]));
    let orders = RecordBatch::try_from_iter([("customer_id", buyers)]).unwrap();
    engine.register_batch("customers", customers.slice(1, 2)).unwrap();
    engine.register_batch("orders", orders).unwrap();
    for declaration in [
        "ALTER TABLE customers SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE orders SET PRIVACY UNIT VIA (customer_id) REFERENCES customers(id) MAX ROWS 5",
        "ALTER TABLE customers ALTER COLUMN country SET PRIVACY DOMAIN IN ('DE', 'FR')",
        "CREATE PRIVACY BUDGET customers FOR customers LIMIT (epsilon=1000000)",
    ] {
        engine.owner().execute(declaration).await.unwrap();
    }
    engine.register_batch("customers", customers).unwrap();
    let sql = "SELECT c.country, LAPLACE(eps=10000) COUNT(DISTINCT c.id) AS n FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.country";
    let answer = engine.analyst("lab").unwrap().query(sql).await.unwrap();
    let mut counted = 0;
    for batch in answer.batches() {
        let counts = cast(batch.column(1), &DataType::Int64).unwrap();
        let counts = counts.as_primitive::<Int64Type>();
        counted += (0..counts.len()).map(|i| counts.value(i)).sum::<i64>();
    }
    assert_eq!(counted, 2);
}
