//! TPC-H on workers: joins along links, with public tables, semi-joins and anti-joins.
//!
//! The files of tests/tpch say how each query is asked, and what is declared. Each answered query
//! has the integers of one process on one, two and four workers, for the same key.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use hushql::{Engine, split_statements};
use hushql_cluster::Workers;
use hushql_engine::exec::distributed::Site;

use crate::equal::program;
use crate::study::{Here, Integers, Noted};

#[path = "../../../tests/it/contract/tpch/made.rs"]
mod made;

const SCALE: f64 = 0.01;

/// Enough text for comments that repeat rarely.
const TEXT: i32 = 300 * 1024;

/// The queries that are answered, and how many of their parts do not depend on what was drawn
/// before.
const ANSWERED: [(&str, usize); 14] = [
    ("q01", 9),
    ("q04", 9),
    ("q05", 9),
    ("q06", 9),
    ("q07", 9),
    ("q08", 9),
    ("q09", 9),
    ("q12", 9),
    ("q13", 9),
    ("q14", 9),
    ("q15", 9),
    ("q19", 9),
    ("q21", 9),
    // Customers with more than a noisy average.
    ("q22", 1),
];

const TABLES: [&str; 8] =
    ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

fn text(name: &str) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tpch");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn write(folder: &Path) {
    for made::Made { name, schema, batches } in made::tables(SCALE, TEXT) {
        let properties =
            WriterProperties::builder().set_max_row_group_row_count(Some(2_000)).build();
        let file = File::create(folder.join(format!("{name}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).unwrap();
        batches.for_each(|batch| writer.write(&batch).unwrap());
        writer.close().unwrap();
    }
}

async fn engine(folder: &Path, site: Arc<dyn Site>) -> Engine {
    let engine = Engine::builder().site(site).in_memory().unwrap();
    let folder = folder.display();
    let tables = TABLES.map(|name| {
        format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{folder}/{name}.parquet'")
    });
    let declared = text("declare.sql");
    let declared = split_statements(&declared).unwrap();
    let declared = declared.iter().map(|statement| statement.text().to_owned());
    let raised = "ALTER PRIVACY BUDGET shop SET LIMIT (epsilon=1000000, delta=1e-3)".to_owned();
    for statement in tables.into_iter().chain(declared).chain([raised]) {
        engine.owner().execute(&statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    engine
}

async fn asked(engine: &Engine, noted: &Noted, name: &str, parts: usize) -> Integers {
    let query = text(&format!("{name}.sql"));
    let answer = engine.analyst("lab").unwrap().query(&query).await;
    answer.unwrap_or_else(|e| panic!("{name}: {e}"));
    noted.taken().into_iter().take(parts).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn workers_find_the_integers_of_one_process_in_tpch() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let local = Arc::new(Noted::new(Arc::new(Here)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    let mut expected = Vec::new();
    for (name, parts) in ANSWERED {
        let integers = asked(&here, &local, name, parts).await;
        assert!(integers.iter().any(|all| !all.is_empty()), "{name} finds nothing");
        expected.push(integers);
    }
    for n in [1, 2, 4] {
        let workers = Workers::start(program(), n).unwrap();
        let noted = Arc::new(Noted::new(Arc::new(workers.site())));
        let there = engine(folder.path(), Arc::clone(&noted) as _).await;
        for ((name, parts), expected) in ANSWERED.into_iter().zip(&expected) {
            let before = workers.site().divided_so_far();
            assert_eq!(asked(&there, &noted, name, parts).await, *expected, "{n} workers: {name}");
            let divided = workers.site().divided_so_far() - before;
            assert!(n == 1 || divided > 0, "{n} workers: {name} was not divided");
        }
    }
}
