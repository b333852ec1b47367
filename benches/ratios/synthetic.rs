//! Synthetic tables of many rows: 14 columns with the codes of Adult, from a Parquet file.
//!
//! A statement reads the rows once, and counts all 91 pairs of columns in one pass over their
//! codes. With `marginals=1` it reads the same rows and counts only single columns, so the
//! difference is the time for pairs, models and rounds.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::parquet::arrow::ArrowWriter;
use hushql::Engine;
use tokio::runtime::Runtime;

use super::Table;

/// The number of values of each column.
const SIZES: [i64; 14] = [74, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2];

/// A row's values. Some columns depend on others.
fn value(row: i64, column: usize) -> i64 {
    let mixed = |n: i64| {
        n.wrapping_mul(6_364_136_223_846_793_005).rotate_left(29).wrapping_mul(0x9e37_79b9)
    };
    let at = i64::try_from(column).unwrap();
    let own = mixed(row * 16 + at).rem_euclid(1 << 20);
    let before = mixed(row * 16 + at / 2).rem_euclid(1 << 20);
    (if own % 3 == 0 { own } else { before }) % SIZES[column]
}

fn write(path: &Path, rows: i64) {
    let batch = |first: i64, last: i64| {
        let column = |at: usize| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((first..last).map(|row| value(row, at))))
        };
        let columns = (0..SIZES.len()).map(|at| (format!("c{at}"), column(at)));
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let schema = batch(0, 0).schema();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, None).unwrap();
    let mut first = 0;
    while first < rows {
        let last = (first + 100_000).min(rows);
        writer.write(&batch(first, last)).unwrap();
        first = last;
    }
    writer.close().unwrap();
}

pub(crate) fn tables(table: &mut Table, directory: &Path, rows: i64, runtime: &Runtime) {
    let path = directory.join("coded.parquet");
    write(&path, rows);
    let engine = Engine::in_memory().unwrap();
    let owner = |sql: &str| runtime.block_on(engine.owner().execute(sql)).map(drop).unwrap();
    owner(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", path.display()));
    owner("ALTER TABLE t SET PRIVACY UNIT ROW");
    for (at, size) in SIZES.iter().enumerate() {
        owner(&format!(
            "ALTER TABLE t ALTER COLUMN c{at} SET PRIVACY DOMAIN BETWEEN (0, {})",
            size - 1
        ));
    }
    owner("CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000, delta=1e-6)");
    let lab = engine.analyst("lab").unwrap();
    let columns: Vec<String> = (0..SIZES.len()).map(|at| format!("c{at}")).collect();
    let made = |marginals: u32, turn: usize| {
        let sql = format!(
            "CREATE SYNTHETIC TABLE s{marginals}_{turn} WITH (rows=1000) AS AIM(eps=1, delta=1e-9, marginals={marginals}) SELECT {} FROM t",
            columns.join(", ")
        );
        let start = Instant::now();
        runtime.block_on(lab.execute(&sql)).unwrap();
        start.elapsed()
    };
    let best = |marginals: u32| (0..3).map(|turn| made(marginals, turn)).min().unwrap();
    let (single, pairs): (Duration, Duration) = (best(1), best(2));
    let name = |what: &str| format!("synthetic: {rows} rows of 14 columns, {what}");
    table.time(name("single columns"), "", single);
    table.time(name("all 91 pairs"), "", pairs);
    table.time(name("pairs, models and rounds"), "≤ 5 s", pairs.saturating_sub(single));
}
