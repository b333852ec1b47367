//! The queries that the server answers in a second, and the cost of the wire.
//!
//! The program serves a table of ten rows from a process of its own. Each of several connections
//! sends its next query as soon as it gets an answer. All queries use the simple protocol over TCP
//! on this machine, without TLS, so clients and server share its cores. *Paid* queries are charged
//! one by one and draw new noise; *kept* ones are charged and kept for replays; *replayed* ones
//! were paid for before. The overhead is the median time on one connection minus that of the same
//! query through the library.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hushql::Engine;
use tokio::runtime::Runtime;

use super::client::Client;
use super::{Table, shown};

const PASSWORD: &str = "correct horse battery";

/// The number of connections that query at the same time.
const CONNECTIONS: usize = 16;

/// The query with a number.
type Question = fn(usize) -> String;

/// A query that is charged each time.
fn paid(_: usize) -> String {
    "SELECT FRESH LAPLACE(eps=0.001) COUNT(*) AS n FROM people WHERE age > 30".to_owned()
}

/// A query that was never asked before.
fn kept(number: usize) -> String {
    format!("SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM people WHERE id < {number} + 1000")
}

/// One of the queries of a dashboard.
fn replayed(number: usize) -> String {
    let age = 20 + number % 10;
    format!(
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) AVG(age) AS a FROM people WHERE age > {age} GROUP BY city ORDER BY n DESC"
    )
}

/// The serving program. It ends when this is dropped.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn start(directory: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_hushql"))
            .args(["serve", "wire.db", "--listen", "127.0.0.1:0"])
            .args(["--connections-per-role", "100"])
            .current_dir(directory)
            .env("HUSHQL_CONFIG", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("the server ended").unwrap();
            if let Some((_, rest)) = line.split_once("listening on 127.0.0.1:") {
                break rest.split(' ').next().unwrap().parse().unwrap();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, port }
    }
}

impl Served {
    /// The server's time on all processors, if the system reports it. Other work on the machine
    /// changes it little.
    fn processor(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        // After the name in brackets, the 12th and 13th fields are times in user and system mode,
        // in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn declared(directory: &Path, runtime: &Runtime) {
    let cities = ["Oslo", "Rome"];
    let rows: String =
        (0..10).map(|id| format!("{id},{},{}\n", 25 + 3 * id, cities[id % 2])).collect();
    let file = directory.join("ten.csv");
    fs::write(&file, format!("id,age,city\n{rows}")).unwrap();
    let engine = Engine::init(directory.join("wire.db").to_str().unwrap()).unwrap();
    for sql in [
        &*format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", file.display()),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000, delta=1e-6) REPLAY (ALL)",
        &format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'"),
    ] {
        runtime.block_on(engine.owner().execute(sql)).unwrap();
    }
    // A file older than a second is recognised by its size and times alone.
    std::thread::sleep(Duration::from_millis(1_100));
}

/// The times of all answers that the connections got in this time, sorted.
fn times(port: u16, connections: usize, time: Duration, question: Question) -> Vec<Duration> {
    let asks = move |connection: usize| {
        let mut lab = Client::log_in(port, "lab", PASSWORD).unwrap();
        let (begun, mut times) = (Instant::now(), Vec::new());
        while begun.elapsed() < time {
            let sql = question(times.len() * connections + connection);
            let asked = Instant::now();
            let said = lab.query(&sql);
            assert!(!said.rows().is_empty(), "{sql}: {:?}", said.error_field(b'M'));
            times.push(asked.elapsed());
        }
        times
    };
    let asking: Vec<_> =
        (0..connections).map(|number| std::thread::spawn(move || asks(number))).collect();
    let mut all: Vec<Duration> =
        asking.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    all.sort();
    all
}

fn quantile(times: &[Duration], of: f64) -> Duration {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
    let at = (times.len() as f64 * of) as usize;
    times[at.min(times.len() - 1)]
}

pub(crate) fn throughput(table: &mut Table, directory: &Path, runtime: &Runtime) {
    declared(directory, runtime);
    let time = Duration::from_secs(if table.size.runs > 1 { 10 } else { 1 });
    let served = Served::start(directory);
    let kinds: [(&str, &str, Question); 3] =
        [("paid", "≥ 500", paid), ("paid and kept", "", kept), ("replayed", "≥ 5,000", replayed)];
    let mut medians = Vec::new();
    for (name, bound, question) in kinds {
        // A warm-up, which makes plans, opens files and starts the day's records of replays.
        times(served.port, 2, time / 5, question);
        let before = served.processor();
        let all = times(served.port, CONNECTIONS, time, question);
        let spent = before.and_then(|before| served.processor()?.checked_sub(before));
        let rate = all.len() as f64 / time.as_secs_f64();
        let detail = [0.5, 0.99].map(|of| format!("p{} {}", of * 100.0, shown(quantile(&all, of))));
        table.row(
            format!("wire: {name} questions a second, {CONNECTIONS} connections"),
            bound,
            format!("{rate:.0}"),
            detail,
        );
        if let Some(spent) = spent {
            let each = spent.div_f64(all.len() as f64);
            let none = [String::new(), String::new()];
            table.row(
                format!("wire: processor time of the server for a {name} question"),
                "",
                shown(each),
                none,
            );
        }
        medians.push(quantile(&times(served.port, 1, time / 2, question), 0.5));
    }
    drop(served);
    let engine = Engine::open(directory.join("wire.db").to_str().unwrap()).unwrap();
    let lab = engine.analyst("lab").unwrap();
    for ((name, _, question), wire) in kinds.into_iter().zip(medians) {
        let (begun, mut own) = (Instant::now(), Vec::new());
        while begun.elapsed() < time / 2 {
            // Numbers that were not used before, because each query may have to be new.
            let sql = question(own.len() + 10_000_000);
            let asked = Instant::now();
            runtime.block_on(lab.query(&sql)).unwrap();
            own.push(asked.elapsed());
        }
        own.sort();
        let own = quantile(&own, 0.5);
        table.row(
            format!("wire: what it adds to a {name} question"),
            "≤ 1 ms",
            shown(wire.saturating_sub(own)),
            [shown(wire), shown(own)],
        );
    }
}
