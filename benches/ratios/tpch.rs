//! Queries of TPC-H: joins along links and with public tables, with contributions bounded by
//! customer.
//!
//! The tables are Parquet files, generated once per run. HushQL runs the queries in tests/tpch,
//! plain DataFusion the same queries without mechanisms.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use hushql::{Engine, split_statements};
use tokio::runtime::Runtime;

use super::duckdb::DuckDb;
use super::{Sides, Table};

#[path = "../../tests/it/contract/tpch/made.rs"]
mod made;

macro_rules! query {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../tests/tpch/", $name, ".sql")),
            include_str!(concat!("../../tests/tpch/plain/", $name, ".sql")),
        )
    };
}

const QUERIES: [(&str, &str, &str); 14] = [
    query!("q01"),
    query!("q04"),
    query!("q05"),
    query!("q06"),
    query!("q07"),
    query!("q08"),
    query!("q09"),
    query!("q12"),
    query!("q13"),
    query!("q14"),
    query!("q15"),
    query!("q19"),
    query!("q21"),
    query!("q22"),
];

const DECLARATIONS: &str = include_str!("../../tests/tpch/declare.sql");

/// Runs each selected query (`tpch-q01` and so on) on both sides by turns.
pub(super) fn queries(
    table: &mut Table,
    directory: &Path,
    scale: Option<f64>,
    runtime: &Runtime,
    is_wanted: impl Fn(&str) -> bool,
) {
    let wanted = QUERIES.into_iter().filter(|(name, ..)| is_wanted(&format!("tpch-{name}")));
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        return;
    }
    // With fewer suppliers, there may be none in the nations that some queries name.
    let (usual, text) =
        if table.size.runs > 1 { (1.0, 300 * 1024 * 1024) } else { (0.01, 30 * 1024) };
    let scale = scale.unwrap_or(usual);
    let engine = Engine::in_memory().unwrap();
    let plain = SessionContext::new();
    let mut files = Vec::new();
    for made::Made { name, schema, batches } in made::tables(scale, text) {
        let path = directory.join(format!("{name}.parquet"));
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), schema, None).unwrap();
        for batch in batches {
            writer.write(&batch).unwrap();
        }
        writer.close().unwrap();
        let path = path.to_str().unwrap();
        let create = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'");
        runtime.block_on(engine.owner().execute(&create)).unwrap();
        let options = ParquetReadOptions::default();
        runtime.block_on(plain.register_parquet(name, path, options)).unwrap();
        files.push((name, path.to_owned()));
    }
    for statement in split_statements(DECLARATIONS).unwrap() {
        runtime.block_on(engine.owner().execute(statement.text())).unwrap();
    }
    let raised = "ALTER PRIVACY BUDGET shop SET LIMIT (epsilon=1000000, delta=1e-5)";
    runtime.block_on(engine.owner().execute(raised)).unwrap();
    let files = files.iter().map(|(name, path)| (*name, path.as_str()));
    let duckdb = DuckDb::start(files).map(RefCell::new);
    let sides = Sides { private: engine.analyst("bench").unwrap(), plain, duckdb, runtime };
    for (name, private, plain) in wanted {
        // Keys without rows come out on one side only, so the numbers of rows are not compared.
        let times = sides.fastest(private, plain, table.size.runs.min(5));
        table.ratio(format!("TPC-H {name}, scale factor {scale}"), "", times);
    }
}
