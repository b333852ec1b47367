//! Queries about people with ten rows each: on texts without a domain, over links, and with bounds
//! that the engine chooses.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::ParquetReadOptions;
use hushql::Engine;
use tokio::runtime::Runtime;

use crate::duckdb::DuckDb;
use crate::{CITIES, Sides, Table};

const COUNTRIES: i64 = 20;

/// Writes every person once, with a country.
fn write_members(path: &str, people: i64) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..people));
    let country = |i: i64| format!("country {}", i % COUNTRIES);
    let countries: ArrayRef = Arc::new(StringArray::from_iter_values((0..people).map(country)));
    let batch = RecordBatch::try_from_iter([("person", ids), ("country", countries)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn open<'a>(directory: &Path, data: &str, table: &Table, runtime: &'a Runtime) -> Sides<'a> {
    let members = directory.join("members.parquet").to_str().unwrap().to_owned();
    write_members(&members, table.size.people);
    let engine = Engine::in_memory().unwrap();
    let countries = (0..COUNTRIES).map(|i| format!("'country {i}'")).collect::<Vec<_>>().join(", ");
    for statement in [
        format!("CREATE EXTERNAL TABLE members STORED AS PARQUET LOCATION '{members}'"),
        format!("CREATE EXTERNAL TABLE orders STORED AS PARQUET LOCATION '{data}'"),
        "ALTER TABLE members SET PRIVACY UNIT (person) UNIQUE".to_owned(),
        "ALTER TABLE orders SET PRIVACY UNIT VIA (person) REFERENCES members(person) MAX ROWS 50"
            .to_owned(),
        format!("ALTER TABLE members ALTER COLUMN country SET PRIVACY DOMAIN IN ({countries})"),
        format!(
            "ALTER TABLE orders ALTER COLUMN city_id SET PRIVACY DOMAIN BETWEEN (0, {})",
            CITIES - 1
        ),
        "CREATE PRIVACY BUDGET b FOR members LIMIT (epsilon=1000000, delta=0.5)".to_owned(),
    ] {
        runtime.block_on(engine.owner().execute(&statement)).unwrap();
    }
    let sides = Sides::of(engine.analyst("bench").unwrap(), data, runtime);
    let options = ParquetReadOptions::default();
    runtime.block_on(sides.plain.register_parquet("members", &members, options)).unwrap();
    let files = [("sales", data), ("members", members.as_str())];
    Sides { duckdb: DuckDb::start(files).map(RefCell::new), ..sides }
}

pub(crate) fn people(table: &mut Table, directory: &Path, data: &str, runtime: &Runtime) {
    let sides = open(directory, data, table, runtime);
    for (what, private, plain) in [
        (
            "COUNT(DISTINCT person)",
            "SELECT LAPLACE(eps=1) COUNT(DISTINCT person) FROM orders",
            "SELECT COUNT(DISTINCT person) FROM sales",
        ),
        (
            "COUNT(*) by 100 unknown texts, 5 groups of 10 rows",
            "SELECT city, LAPLACE(eps=1, delta=1e-6, groups=5, rows=10) COUNT(*) FROM orders GROUP BY city",
            "SELECT city, COUNT(*) FROM sales GROUP BY city",
        ),
        (
            "COUNT(*) by 100,000 unknown pairs of texts",
            "SELECT city, shop, LAPLACE(eps=1, delta=1e-6) COUNT(*) FROM orders GROUP BY city, shop",
            "SELECT city, shop, COUNT(*) FROM sales GROUP BY city, shop",
        ),
        (
            "ARGMAX of 100 unknown texts",
            "SELECT ARGMAX EXPONENTIAL(eps=1, delta=1e-6) city FROM orders GROUP BY city",
            "SELECT city, COUNT(*) AS n FROM sales GROUP BY city ORDER BY n DESC LIMIT 1",
        ),
        (
            "COUNT(*) by country, joined",
            "SELECT country, LAPLACE(eps=1) COUNT(*) FROM orders JOIN members USING (person) GROUP BY country",
            "SELECT country, COUNT(*) FROM sales JOIN members USING (person) GROUP BY country",
        ),
        (
            "SUM and AVG by 100 integers, bounds found",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_rows_contributed=50) city_id, SUM(price), AVG(price) FROM orders GROUP BY city_id",
            "SELECT city_id, SUM(price), AVG(price) FROM sales GROUP BY city_id",
        ),
    ] {
        let times = sides.fastest(private, plain, table.size.runs.min(3));
        table.ratio(what, "", times);
    }
}
