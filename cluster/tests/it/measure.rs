//! What distribution costs: the times and bytes in docs/scale.md, and how little memory suffices.
//! Run it alone, on a quiet machine: `cargo test --release --manifest-path cluster/Cargo.toml
//! measure -- --ignored --nocapture`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hushql::Error;
use hushql_cluster::{Cluster, Workers};
use hushql_engine::exec::distributed::Site;

use crate::keys::{enrolled, free, started_with};
use crate::study::{Here, HereByUnit, Noted, engine, write_large, write_with_visits};

/// The visits, unless `HUSHQL_ROWS` says so.
const ROWS: i64 = 2_000_000;

fn rows() -> i64 {
    std::env::var("HUSHQL_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(ROWS)
}

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
        println!("{name}, query {i}: {best:.2} s, {:.1} bytes a row", bytes as f64 / rows() as f64);
    }
}

#[ignore = "takes minutes, and prints figures"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    write_large(folder.path(), rows());
    measured("here", folder.path(), Arc::new(HereByUnit)).await;
    // What one worker would do alone runs here.
    for n in [2, 4] {
        let program = Path::new(env!("CARGO_BIN_EXE_hushql-worker"));
        let workers = Workers::start(program, n).unwrap();
        measured(&format!("{n} workers"), folder.path(), Arc::new(workers.site())).await;
        assert!(workers.site().divided_so_far() > 0);
    }
}

/// A hundred million visits of five million patients go through two workers of 300 MB each, which
/// hold what does not fit in files without names, and fail without a folder for these. The integers
/// are those of one process without a limit.
#[ignore = "takes minutes, and gigabytes of disk"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_million_rows_go_through_little_memory() {
    let (folder, spill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_with_visits(folder.path(), 100_000_000);
    let query = "SELECT ward, LAPLACE(eps=1, rows=2) COUNT(*), LAPLACE(eps=1, rows=2) SUM(minutes) FROM visits GROUP BY ward";
    let local = Arc::new(Noted::new(Arc::new(Here)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    let begun = Instant::now();
    here.analyst("lab").unwrap().query(query).await.unwrap();
    println!("here: {:.1} s", begun.elapsed().as_secs_f64());
    let expected = local.taken();
    let ports = [free(), free()];
    let keys = enrolled(folder.path(), &[("w1", ports[0]), ("w2", ports[1])]);
    let spilling = ["--memory", "300MB", "--spill", spill.path().to_str().unwrap()];
    for limits in [&spilling[..2], &spilling[..]] {
        let workers = [("w1.pem", ports[0]), ("w2.pem", ports[1])]
            .map(|(file, port)| started_with(port, &keys.join(file), limits));
        let cluster = Cluster::open(&keys).unwrap();
        cluster.check().await.unwrap();
        let noted = Arc::new(Noted::new(Arc::new(cluster.clone())));
        let there = engine(folder.path(), Arc::clone(&noted) as _).await;
        let begun = Instant::now();
        let answer = there.analyst("lab").unwrap().query(query).await;
        let peaks = workers.each_ref().map(|worker| worker.peak() / 1_000_000);
        println!("{limits:?}: {:.1} s, {peaks:?} MB at most", begun.elapsed().as_secs_f64());
        assert!(cluster.divided_so_far() > 0);
        match limits.len() {
            2 => assert!(matches!(answer.unwrap_err(), Error::Execution)),
            _ => {
                answer.unwrap();
                assert_eq!(noted.taken(), expected);
            }
        }
        assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 0);
    }
}
