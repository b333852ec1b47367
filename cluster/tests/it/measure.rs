//! What distribution costs: the times and bytes in docs/scale.md. Run it alone, on a quiet machine:
//! `cargo test --release --manifest-path cluster/Cargo.toml measure -- --ignored --nocapture`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hushql::exec::elsewhere::Site;
use hushql_cluster::Workers;

use crate::study::{HereByUnit, engine, write_large};

const ROWS: i64 = 2_000_000;

const ASKED: [&str; 5] = [
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits",
    "SELECT ward, LAPLACE(eps=1, rows=2) COUNT(*), LAPLACE(eps=1, rows=2) SUM(minutes), LAPLACE(eps=1, rows=2) AVG(fee) FROM visits GROUP BY ward",
    "SELECT diagnosis, LAPLACE(eps=1, delta=0.001, rows=2, groups=2) COUNT(*) FROM visits GROUP BY diagnosis",
    "SELECT drug, LAPLACE(eps=1, rows=3) SUM(dose) FROM drugs GROUP BY drug",
    "SELECT floor, LAPLACE(eps=1, rows=2, groups=2) COUNT(*) FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY floor KEYS (1, 2)",
];

/// The bytes that the loopback interface has received so far.
fn moved() -> u64 {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let line = text.lines().find(|line| line.trim_start().starts_with("lo:"));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

async fn measured(name: &str, folder: &Path, site: Arc<dyn Site>) {
    let engine = engine(folder, site).await;
    for (i, query) in ASKED.iter().enumerate() {
        let mut best = f64::INFINITY;
        let mut bytes = 0;
        for round in 0..3 {
            // Another limit each time, so that nothing is shown again.
            let query = query.replace("eps=1,", &format!("eps={},", 2 + round));
            let (before, begun) = (moved(), Instant::now());
            engine.analyst("lab").unwrap().query(&query).await.unwrap();
            best = best.min(begun.elapsed().as_secs_f64());
            bytes = moved() - before;
        }
        println!("{name}, query {i}: {best:.2} s, {:.1} bytes a row", bytes as f64 / ROWS as f64);
    }
}

#[ignore = "takes minutes, and prints figures"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    write_large(folder.path(), ROWS);
    measured("here", folder.path(), Arc::new(HereByUnit)).await;
    // What one worker would do alone runs here.
    for n in [2, 4] {
        let program = Path::new(env!("CARGO_BIN_EXE_hushql-worker"));
        let workers = Workers::start(program, n).unwrap();
        measured(&format!("{n} workers"), folder.path(), Arc::new(workers.site())).await;
        assert!(workers.site().divided_so_far() > 0);
    }
}
