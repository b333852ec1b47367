//! What privacy costs in time: the same queries with and without it, in one run.
//!
//! Makes a Parquet file of 10 million rows in a temporary directory, runs the same queries on
//! HushQL and plain DataFusion by turns, and prints a Markdown table of ratios next to their
//! limits. Ratios compare the fastest run of each side, which a busy machine disturbs least; the
//! file is read from the page cache. If Python has the package `duckdb`, DuckDB runs the plain
//! query, too.
//!
//! ```text
//! cargo bench --bench ratios              everything, several minutes
//! cargo bench --bench ratios -- count     the sections whose name contains "count"
//! cargo bench --bench ratios -- --test    everything on small tables, to check that it runs
//! cargo bench --bench ratios -- tpch --scale=10           the queries of TPC-H at another scale factor
//! cargo bench --bench ratios -- growth --rows=100000000   a million, ten million and as many rows, a row's share of the time
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a bench fails by panicking, prints its findings, and asks plain DataFusion for comparison"
)]

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use duckdb::DuckDb;
use hushql::mechanism::{Exponential, Gaussian, Laplace, NoisyMax, PermuteAndFlip};
use hushql::privacy::{Delta, Epsilon, Rational};
use hushql::sampler::QueryRng;
use hushql::{Analyst, Engine};
use mimalloc::MiMalloc;
use tokio::runtime::{Builder, Runtime};

#[cfg(all(unix, feature = "serve"))]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the client of the tests, of which a bench needs a part"
)]
#[path = "../tests/it/contract/server/client.rs"]
mod client;
#[path = "ratios/duckdb.rs"]
mod duckdb;
#[path = "ratios/orders.rs"]
mod orders;
#[path = "ratios/people.rs"]
mod people;
#[path = "ratios/refresh.rs"]
mod refresh;
#[path = "ratios/synthetic.rs"]
mod synthetic;
#[path = "ratios/tpch.rs"]
mod tpch;
#[cfg(all(unix, feature = "serve"))]
#[path = "ratios/wire.rs"]
mod wire;

/// The same allocator as in the program, for both sides.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The same stack size as in the program: statements need no second stack.
const STACK: usize = 96 << 20;

fn main() {
    std::thread::Builder::new().stack_size(STACK).spawn(measure).unwrap().join().unwrap();
}

/// The same runtime as in the program.
fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build().unwrap()
}

fn measure() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    if has("--peak") {
        return peak(&arguments[1..]);
    }
    // `cargo test` runs benches without `--bench`.
    let size = if has("--bench") && !has("--test") { Size::FULL } else { Size::TINY };
    let (scale, most) = (argument("--scale=", &arguments), argument("--rows=", &arguments));
    let wanted: Vec<String> = arguments.into_iter().filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(&**w));

    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let mut table = Table::new(size);
    let of_data = ["count", "sum", "filter", "unit", "bounded", "people", "memory"];
    if of_data.into_iter().any(is_wanted) {
        let place = Place::make(directory.path(), size, &runtime);
        let sides = Sides::open(&place, &runtime);
        if is_wanted("count") {
            counts(&mut table, &sides);
        }
        if is_wanted("sum") {
            sums(&mut table, &sides);
        }
        if is_wanted("filter") {
            filters(&mut table, &sides);
        }
        if is_wanted("unit") {
            units(&mut table, &sides);
        }
        if is_wanted("bounded") {
            bounded(&mut table, &sides);
        }
        drop(sides);
        if is_wanted("people") {
            people::people(&mut table, directory.path(), &place.data, &runtime);
        }
        if is_wanted("memory") {
            memory(&mut table, &place);
        }
    }
    if is_wanted("orders") {
        orders::questions(&mut table, directory.path(), &runtime);
    }
    // A hundred million rows take a minute to generate, so they have to be requested.
    if let (true, Some(most)) = (is_wanted("growth"), most) {
        growth(&mut table, directory.path(), most, &runtime);
    }
    tpch::queries(&mut table, directory.path(), scale, &runtime, is_wanted);
    if is_wanted("statement") {
        statements(&mut table, directory.path(), &runtime);
    }
    if is_wanted("refresh") {
        refresh::dashboard(&mut table, directory.path(), &runtime);
    }
    if is_wanted("synthetic") {
        synthetic::tables(&mut table, directory.path(), size.rows, &runtime);
    }
    #[cfg(all(unix, feature = "serve"))]
    if is_wanted("wire") {
        wire::throughput(&mut table, directory.path(), &runtime);
    }
    if is_wanted("noise") {
        noise(&mut table);
    }
    if is_wanted("selection") {
        selection(&mut table);
        several(&mut table);
    }
    if is_wanted("price") {
        prices(&mut table, &runtime);
    }
}

/// The number after a flag.
fn argument<T: FromStr>(flag: &str, arguments: &[String]) -> Option<T> {
    arguments.iter().find_map(|argument| argument.strip_prefix(flag)?.parse().ok())
}

/// The sizes of the measurements.
#[derive(Clone, Copy)]
struct Size {
    rows: i64,
    people: i64,
    /// Rows of a row group, which one thread reads.
    row_group: usize,
    /// Timed runs for each query and side.
    runs: usize,
    statements: usize,
    draws: usize,
    candidates: &'static [usize],
}

impl Size {
    const FULL: Self = Self {
        rows: 10_000_000,
        people: 1_000_000,
        row_group: 1 << 20,
        runs: 7,
        statements: 200,
        draws: 1_000_000,
        candidates: &[1_000, 10_000, 100_000, 1_000_000],
    };
    const TINY: Self = Self {
        rows: 20_000,
        people: 2_000,
        row_group: 1 << 20,
        runs: 1,
        statements: 3,
        draws: 1_000,
        candidates: &[1_000],
    };

    /// The group keys of the sections that run many queries for each.
    fn keys(self) -> &'static [(&'static str, &'static str)] {
        if self.runs > 1 { &KEYS } else { &KEYS[..1] }
    }
}

/// The results, printed as they come.
struct Table {
    size: Size,
}

impl Table {
    fn new(size: Size) -> Self {
        println!("| what | bound | measured | CPU | private | plain | DuckDB |");
        println!("|---|---|---|---|---|---|---|");
        Self { size }
    }

    fn row(
        &mut self,
        what: impl Display,
        bound: &str,
        measured: impl Display,
        detail: [String; 2],
    ) {
        let [private, plain] = detail;
        println!("| {what} | {bound} | {measured} | | {private} | {plain} | |");
    }

    fn ratio(&mut self, what: impl Display, bound: &str, times: Times) {
        let Times { private, plain, duckdb } = times;
        let ratio = private.wall.as_secs_f64() / plain.wall.as_secs_f64();
        let cpu = private.cpu.as_secs_f64() / plain.cpu.as_secs_f64();
        let duckdb = duckdb.map(shown).unwrap_or_default();
        println!(
            "| {what} | {bound} | {ratio:.2} × | {cpu:.2} × | {private} | {plain} | {duckdb} |"
        );
    }

    fn time(&mut self, what: impl Display, bound: &str, measured: Duration) {
        self.row(what, bound, shown(measured), [String::new(), String::new()]);
    }
}

/// The fastest run of each side.
#[derive(Clone, Copy)]
struct Times {
    private: Spent,
    plain: Spent,
    duckdb: Option<Duration>,
}

/// The time of runs: the shortest wall time, and the least time of all processors together, which
/// other programs disturb less.
#[derive(Clone, Copy)]
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Spent {
    const MOST: Self = Self { wall: Duration::MAX, cpu: Duration::MAX };

    fn of<T>(run: impl FnOnce() -> T) -> Self {
        let before = cpu();
        let wall = timed(run);
        Self { wall, cpu: cpu().saturating_sub(before) }
    }

    fn min(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

impl Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (CPU {})", shown(self.wall), shown(self.cpu))
    }
}

/// The CPU time of all threads of this process so far; zero if the system does not report it.
fn cpu() -> Duration {
    #[cfg(unix)]
    if let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) {
        let of = |time: nix::sys::time::TimeVal| {
            let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
            Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0))
                + Duration::from_micros(micros)
        };
        return of(usage.user_time()) + of(usage.system_time());
    }
    Duration::ZERO
}

fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// The file, and the vault that declares it three times: each row as a unit, a person with many
/// rows, and a person with few rows.
struct Place {
    data: String,
    vault: String,
}

const CITIES: i64 = 100;
const SHOPS: i64 = 1_000;

fn city(i: i64) -> String {
    format!("City of the number {i}")
}

fn shop(i: i64) -> String {
    format!("shop {i}")
}

impl Place {
    fn make(directory: &Path, size: Size, runtime: &Runtime) -> Self {
        let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
        let place = Self { data: path("sales.parquet"), vault: path("bench.db") };
        write_sales(&place.data, size);
        place.declare(&Engine::init(&place.vault).unwrap(), runtime);
        place
    }

    fn declare(&self, engine: &Engine, runtime: &Runtime) {
        let owner = engine.owner();
        let list = |name: fn(i64) -> String, n| {
            (0..n).map(|i| format!("'{}'", name(i))).collect::<Vec<_>>().join(", ")
        };
        for (table, unit) in [
            ("by_row", "ROW"),
            ("by_person", "(person) OTHER PEOPLE THAN by_row"),
            ("by_buyer", "(person) MAX ROWS 50 OTHER PEOPLE THAN by_row, by_person"),
        ] {
            let domain = |column: &str, domain: String| {
                format!("ALTER TABLE {table} ALTER COLUMN {column} SET PRIVACY DOMAIN {domain}")
            };
            for statement in [
                format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{}'", self.data),
                format!("ALTER TABLE {table} SET PRIVACY UNIT {unit}"),
                domain("city", format!("IN ({})", list(city, CITIES))),
                domain("shop", format!("IN ({})", list(shop, SHOPS))),
                domain("city_id", format!("BETWEEN (0, {})", CITIES - 1)),
                domain("shop_id", format!("BETWEEN (0, {})", SHOPS - 1)),
                domain("day", "BETWEEN (0, 99)".to_owned()),
                domain("qty", "BETWEEN (0, 20)".to_owned()),
                domain("price", "BETWEEN (0, 500)".to_owned()),
                format!("CREATE PRIVACY BUDGET {table} FOR {table} LIMIT (epsilon=1000000)"),
            ] {
                runtime.block_on(owner.execute(&statement)).unwrap();
            }
        }
    }
}

/// SplitMix64: the same file every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((z ^ (z >> 31)) >> 1).unwrap() % n
    }
}

/// A table of sales: person, place (as text and as number), day (ascending), amount.
fn write_sales(path: &str, size: Size) {
    let mut dice = Dice(1);
    let mut writer: Option<ArrowWriter<File>> = None;
    let mut start = 0;
    while start < size.rows {
        let n = (size.rows - start).min(1 << 18);
        let mut column = |below: i64| (0..n).map(|_| dice.below(below)).collect::<Vec<i64>>();
        let (person, city_id, shop_id) = (column(size.people), column(CITIES), column(SHOPS));
        let (qty, cents) = (column(21), column(50_001));
        let integers = |v: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(v.to_vec())) };
        let texts = |v: &[i64], name: fn(i64) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(v.iter().map(|i| name(*i))))
        };
        let day: Vec<i64> = (start..start + n).map(|row| row * 100 / size.rows).collect();
        let price: ArrayRef =
            Arc::new(Float64Array::from_iter_values(cents.iter().map(|c| *c as f64 / 100.0)));
        let batch = RecordBatch::try_from_iter([
            ("person", integers(&person)),
            ("city", texts(&city_id, city)),
            ("shop", texts(&shop_id, shop)),
            ("city_id", integers(&city_id)),
            ("shop_id", integers(&shop_id)),
            ("day", integers(&day)),
            ("qty", integers(&qty)),
            ("price", price),
        ])
        .unwrap();
        let writer = writer.get_or_insert_with(|| {
            let properties = WriterProperties::builder();
            let properties = properties.set_max_row_group_row_count(Some(size.row_group)).build();
            let file = File::create(path).unwrap();
            ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap()
        });
        writer.write(&batch).unwrap();
        start += n;
    }
    writer.unwrap().close().unwrap();
}

/// The two sides of the comparison, over one file.
struct Sides<'a> {
    private: Analyst,
    plain: SessionContext,
    duckdb: Option<RefCell<DuckDb>>,
    runtime: &'a Runtime,
}

impl<'a> Sides<'a> {
    fn open(place: &Place, runtime: &'a Runtime) -> Self {
        // In memory: the cost of a durable charge has a line of its own, and depends on the disk.
        let engine = Engine::in_memory().unwrap();
        place.declare(&engine, runtime);
        Self::of(engine.analyst("bench").unwrap(), &place.data, runtime)
    }

    fn of(private: Analyst, data: &str, runtime: &'a Runtime) -> Self {
        let plain = SessionContext::new();
        let options = ParquetReadOptions::default();
        runtime.block_on(plain.register_parquet("sales", data, options)).unwrap();
        let duckdb = DuckDb::start([("sales", data)]).map(RefCell::new);
        Self { private, plain, duckdb, runtime }
    }

    fn private(&self, sql: &str) -> usize {
        let answer = self.runtime.block_on(self.private.query(&anew(sql))).unwrap();
        answer.batches().iter().map(RecordBatch::num_rows).sum()
    }

    fn plain(&self, sql: &str) -> usize {
        let rows = async { self.plain.sql(sql).await.unwrap().collect().await.unwrap() };
        self.runtime.block_on(rows).iter().map(RecordBatch::num_rows).sum()
    }

    /// The fastest run of each side. Both must answer with the same number of rows.
    fn race(&self, private: &str, plain: &str, runs: usize) -> Times {
        assert_eq!(self.private(private), self.plain(plain), "{private}");
        self.fastest(private, plain, runs)
    }

    /// The fastest run of each side. They take turns, after one run that is not timed.
    fn fastest(&self, private: &str, plain: &str, runs: usize) -> Times {
        self.private(private);
        self.plain(plain);
        let of_duckdb = || self.duckdb.as_ref().and_then(|duckdb| duckdb.borrow_mut().time(plain));
        let mut times = Times { private: Spent::MOST, plain: Spent::MOST, duckdb: of_duckdb() };
        for _ in 0..runs {
            times.private = times.private.min(Spent::of(|| self.private(private)));
            times.plain = times.plain.min(Spent::of(|| self.plain(plain)));
            times.duckdb = times.duckdb.min(of_duckdb());
        }
        times
    }
}

/// The same query with a slightly larger ε each time, so that no answer is replayed.
fn anew(sql: &str) -> String {
    static ASKED: AtomicU32 = AtomicU32::new(1);
    let asked = ASKED.fetch_add(1, Ordering::Relaxed);
    ["eps=1", "epsilon=1", "epsilon=8"]
        .into_iter()
        .fold(sql.to_owned(), |sql, amount| sql.replace(amount, &format!("{amount}.{asked:05}")))
}

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

const KEYS: [(&str, &str); 4] = [
    ("city_id", "100 integers"),
    ("shop_id", "1,000 integers"),
    ("city", "100 texts"),
    ("shop", "1,000 texts"),
];

/// One row is one unit: noise on counts.
fn counts(table: &mut Table, sides: &Sides<'_>) {
    for (key, keys) in KEYS {
        let times = sides.race(
            &format!("SELECT {key}, LAPLACE(eps=1) COUNT(*) FROM by_row GROUP BY {key}"),
            &format!("SELECT {key}, COUNT(*) FROM sales GROUP BY {key}"),
            table.size.runs,
        );
        table.ratio(format!("COUNT(*) by {keys}"), "≤ 1.10 ×", times);
    }
}

fn sums(table: &mut Table, sides: &Sides<'_>) {
    for (key, keys) in table.size.keys() {
        for call in ["SUM(qty)", "AVG(qty)", "SUM(price)", "AVG(price)"] {
            let times = sides.race(
                &format!("SELECT {key}, LAPLACE(eps=1) {call} FROM by_row GROUP BY {key}"),
                &format!("SELECT {key}, {call} FROM sales GROUP BY {key}"),
                table.size.runs,
            );
            table.ratio(format!("{call} by {keys}"), "≤ 1.5 ×", times);
        }
    }
}

/// WHERE on a column by which the file is sorted, and on others.
fn filters(table: &mut Table, sides: &Sides<'_>) {
    for (condition, what) in [
        ("day = 42", "one day of 100, sorted by day"),
        ("day BETWEEN 10 AND 19", "ten days of 100, sorted by day"),
        ("qty >= 15", "qty ≥ 15"),
        ("city = 'City of the number 7'", "one city of 100"),
        ("price < 25", "price < 25"),
    ] {
        let times = sides.race(
            &format!("SELECT LAPLACE(eps=1) COUNT(*) FROM by_row WHERE {condition}"),
            &format!("SELECT COUNT(*) FROM sales WHERE {condition}"),
            table.size.runs,
        );
        table.ratio(format!("COUNT(*) of {what}"), "", times);
    }
}

/// The contributions of a person are bounded, compared with the two aggregates that bound them in
/// plain SQL.
fn units(table: &mut Table, sides: &Sides<'_>) {
    for (key, keys) in table.size.keys() {
        for (call, inner, outer) in [
            ("COUNT(*)", "COUNT(*)", "SUM(v)"),
            ("COUNT(DISTINCT person)", "COUNT(*)", "COUNT(*)"),
            ("SUM(qty)", "SUM(qty)", "SUM(v)"),
            ("AVG(qty)", "COUNT(qty) AS n, SUM(qty)", "SUM(v) / SUM(n)"),
        ] {
            let bounds = if call.contains("DISTINCT") { "groups=5" } else { "rows=2, groups=5" };
            let times = sides.race(
                &format!(
                    "SELECT {key}, LAPLACE(eps=1, {bounds}) {call} FROM by_person GROUP BY {key}"
                ),
                &format!(
                    "SELECT {key}, {outer} FROM (SELECT person, {key}, {inner} AS v FROM sales \
                     GROUP BY person, {key}) GROUP BY {key}"
                ),
                table.size.runs,
            );
            table.ratio(format!("{call} by {keys}, per person"), "≤ 0.5 ×", times);
        }
    }
}

/// Hardly any person exceeds the bound of 50 rows, compared with the queries without any bound.
fn bounded(table: &mut Table, sides: &Sides<'_>) {
    let city = "city, ";
    for (what, by, calls, plain) in [
        ("COUNT(*)", "", vec!["COUNT(*)"], None),
        ("COUNT(*)", city, vec!["COUNT(*)"], None),
        ("SUM(qty)", city, vec!["SUM(qty)"], None),
        ("SUM and AVG of price", city, vec!["SUM(price)", "AVG(price)"], None),
        (
            "ten aggregates",
            city,
            vec![
                "COUNT(*)",
                "COUNT(qty)",
                "SUM(qty)",
                "AVG(qty)",
                "SUM(price)",
                "AVG(price)",
                "SUM(qty * 2)",
                "SUM(day)",
                "AVG(day)",
                "COUNT(day)",
            ],
            None,
        ),
        ("MEDIAN(price)", "", vec!["EXPONENTIAL(eps=1) MEDIAN(price)"], Some("MEDIAN(price)")),
        ("MEDIAN(price)", city, vec!["EXPONENTIAL(eps=1) MEDIAN(price)"], Some("MEDIAN(price)")),
        ("ARGMAX city", "", vec!["ARGMAX EXPONENTIAL(eps=1) city"], Some("city, COUNT(*)")),
    ] {
        let keys = by.trim_end_matches(", ");
        let group = |of: &str| match of {
            "" => String::new(),
            of => format!(" GROUP BY {of}"),
        };
        let choice = what.starts_with("ARGMAX");
        let private = format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) {by}{} FROM by_buyer{}",
            calls.join(", "),
            group(if choice { "city" } else { keys }),
        );
        let plain = format!(
            "SELECT {by}{} FROM sales{}",
            plain.map_or(calls.join(", "), str::to_owned),
            group(if choice { "city" } else { keys }),
        );
        let times = sides.fastest(&private, &plain, table.size.runs.min(5));
        let by = if by.is_empty() { "" } else { " by 100 texts" };
        table.ratio(format!("{what}{by}, at most 50 rows per person"), "", times);
    }
}

/// The same queries on a million rows, ten million, and so on up to `most`, to measure the time of
/// one row. Row groups are small, so that both threads have rows to read in each file.
fn growth(table: &mut Table, directory: &Path, most: i64, runtime: &Runtime) {
    let sizes = std::iter::successors(Some(1_000_000), |rows| Some(rows * 10));
    for rows in sizes.take_while(|rows| *rows <= most) {
        let folder = tempfile::tempdir_in(directory).unwrap();
        let size = Size { rows, people: rows / 10, row_group: 122_880, ..table.size };
        let place = Place::make(folder.path(), size, runtime);
        let sides = Sides::open(&place, runtime);
        for (what, private, plain) in [
            ("COUNT(*)", "city, LAPLACE(eps=1) COUNT(*)", "city, COUNT(*)"),
            ("SUM(qty)", "city, LAPLACE(eps=1) SUM(qty)", "city, SUM(qty)"),
            ("MEDIAN(price)", "city, EXPONENTIAL(eps=1) MEDIAN(price)", "city, MEDIAN(price)"),
        ] {
            let times = sides.fastest(
                &format!("SELECT {private} FROM by_buyer GROUP BY city"),
                &format!("SELECT {plain} FROM sales GROUP BY city"),
                match rows {
                    ..=1_000_000 => 25,
                    1_000_001..=10_000_000 => 5,
                    _ => 3,
                },
            );
            let each = times.private.wall.as_secs_f64() / rows as f64;
            let what = format!("{what} by 100 texts, {rows} rows, {:.1} ns a row", each * 1e9);
            table.ratio(what, "within 20 % a row", times);
        }
    }
}

/// The peak memory of processes that run one query each.
fn memory(table: &mut Table, place: &Place) {
    let peak_of = |side: &str, sql: &str| -> u64 {
        let program = std::env::current_exe().unwrap();
        let source = if side == "private" { &place.vault } else { &place.data };
        let output = Command::new(program).args(["--peak", side, source, sql]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    for (what, private, plain) in [
        (
            "peak memory, COUNT(*) by 1,000 integers",
            "SELECT shop_id, LAPLACE(eps=1) COUNT(*) FROM by_row GROUP BY shop_id",
            "SELECT shop_id, COUNT(*) FROM sales GROUP BY shop_id",
        ),
        (
            "peak memory, the same per person",
            "SELECT shop_id, LAPLACE(eps=1, rows=2, groups=5) COUNT(*) FROM by_person GROUP BY shop_id",
            "SELECT shop_id, SUM(v) FROM (SELECT person, shop_id, COUNT(*) AS v FROM sales \
             GROUP BY person, shop_id) GROUP BY shop_id",
        ),
        (
            "peak memory, COUNT(*) by 100 texts, at most 50 rows per person",
            "SELECT city, LAPLACE(eps=1) COUNT(*) FROM by_buyer GROUP BY city",
            "SELECT city, COUNT(*) FROM sales GROUP BY city",
        ),
        (
            "peak memory, MEDIAN(price) by 100 texts, at most 50 rows per person",
            "SELECT city, EXPONENTIAL(eps=1) MEDIAN(price) FROM by_buyer GROUP BY city",
            "SELECT city, MEDIAN(price) FROM sales GROUP BY city",
        ),
    ] {
        let (private, plain) = (peak_of("private", private), peak_of("plain", plain));
        if plain == 0 {
            continue; // This system does not report it.
        }
        let detail = [private, plain].map(|kib| format!("{} MB", kib / 1_000));
        table.row(what, "≤ 1.2 ×", format!("{:.2} ×", private as f64 / plain as f64), detail);
    }
}

/// The child process of `memory`: runs a query, and prints its own peak in kB (0 if unknown).
fn peak(arguments: &[String]) {
    let [side, source, sql] = arguments else { panic!("--peak SIDE SOURCE SQL") };
    let runtime = runtime();
    runtime.block_on(async {
        if side == "private" {
            let session = Engine::open(source).unwrap().analyst("bench").unwrap();
            session.query(sql).await.unwrap();
        } else {
            let context = SessionContext::new();
            let options = ParquetReadOptions::default();
            context.register_parquet("sales", source, options).await.unwrap();
            context.sql(sql).await.unwrap().collect().await.unwrap();
        }
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", line.and_then(|l| l.split_whitespace().next()).unwrap_or("0"));
}

/// The cost of a statement that reads very little: a table of ten rows.
fn statements(table: &mut Table, directory: &Path, runtime: &Runtime) {
    let engines = [
        ("vault in memory", Engine::in_memory().unwrap()),
        ("vault on disk", Engine::init(directory.join("small.db")).unwrap()),
    ];
    let sql = "SELECT LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) SUM(x) FROM ten GROUP BY k";
    let n = table.size.statements;
    for (vault, engine) in engines {
        let column = |f: fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..10).map(f)))
        };
        let batch = RecordBatch::try_from_iter([("k", column(|i| i % 3)), ("x", column(|i| i))]);
        engine.register_batch("ten", batch.unwrap()).unwrap();
        for statement in [
            "ALTER TABLE ten SET PRIVACY UNIT ROW",
            "ALTER TABLE ten ALTER COLUMN k SET PRIVACY DOMAIN BETWEEN (0, 2)",
            "ALTER TABLE ten ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 9)",
            "CREATE PRIVACY BUDGET ten FOR ten LIMIT (epsilon=1000000)",
        ] {
            runtime.block_on(engine.owner().execute(statement)).unwrap();
        }
        let session = engine.analyst("bench").unwrap();
        let planning = median(n, || session.cost(sql).unwrap());
        let whole = median(n, || runtime.block_on(session.query(&anew(sql))).unwrap());
        table.time(format!("a statement up to its price, {vault}"), "", planning);
        let bound = "≤ 5 ms median, but for the disk";
        table.time(format!("a statement, text to answer, {vault}"), bound, whole);
    }
    let mut file = File::create(directory.join("synced")).unwrap();
    let sync = median(n, || {
        file.write_all(&[7; 4_096]).unwrap();
        file.sync_all().unwrap();
    });
    table.time("the disk: 4 kB written and synced", "", sync);
}

fn median<T>(n: usize, mut run: impl FnMut() -> T) -> Duration {
    let mut times: Vec<_> = (0..n).map(|_| timed(&mut run)).collect();
    times.sort_unstable();
    times[n / 2]
}

fn noise(table: &mut Table) {
    let n = table.size.draws;
    let mut rng = QueryRng::from_os().unwrap();
    let per_value = |total: Duration| total.div_f64(n as f64);
    let epsilon = epsilon("0.1");
    for (change, what) in [(1_u128, "counts"), (500 << 30, "sums on a fine grid")] {
        let laplace = Laplace::calibrate(change, &epsilon).unwrap();
        let time = timed(|| (0..n).map(|_| laplace.draw(&mut rng)).fold(0, i128::wrapping_add));
        table.time(format!("Laplace noise for {what}, a value"), "≤ 200 ns", per_value(time));
        let delta = Delta::new(number("0.000001")).unwrap();
        let gaussian = Gaussian::calibrate(change * change, None, &epsilon, &delta).unwrap();
        let time = timed(|| (0..n).map(|_| gaussian.draw(&mut rng)).fold(0, i128::wrapping_add));
        table.time(format!("Gaussian noise for {what}, a value"), "", per_value(time));
    }
}

fn number(text: &str) -> Rational {
    hushql::privacy::parse_decimal(text).unwrap()
}

fn epsilon(text: &str) -> Epsilon {
    Epsilon::new(number(text)).unwrap()
}

/// One choice among many scores. Those near the best decide how long it takes.
fn selection(table: &mut Table) {
    let mut rng = QueryRng::from_os().unwrap();
    for n in table.size.candidates {
        let mut dice = Dice(2);
        let spread: Vec<i128> = (0..*n).map(|_| dice.below(1_000_000).into()).collect();
        let epsilon = epsilon("1");
        let exponential = Exponential::calibrate(1, &epsilon).unwrap();
        let flip = PermuteAndFlip::calibrate(1, &epsilon).unwrap();
        let noisy = NoisyMax::calibrate(1, &epsilon).unwrap();
        let runs = table.size.runs;
        let mut row = |name: &str, choose: &mut dyn FnMut(&mut QueryRng) -> usize| {
            let time = median(runs, || choose(&mut rng));
            table.time(format!("{name} among {n} candidates"), "≤ 100 ms for 1,000,000", time);
        };
        row("EXPONENTIAL", &mut |rng| exponential.choose(&spread, rng).unwrap());
        row("PERMUTE_AND_FLIP", &mut |rng| flip.choose(&spread, rng).unwrap());
        row("NOISY_MAX", &mut |rng| noisy.choose(&spread, rng).unwrap());
    }
}

/// The ten best of many.
fn several(table: &mut Table) {
    let mut rng = QueryRng::from_os().unwrap();
    let mut dice = Dice(3);
    let n = table.size.candidates.last().copied().unwrap().min(100_000);
    let scores: Vec<i128> = (0..n).map(|_| dice.below(1_000_000).into()).collect();
    let exponential = Exponential::calibrate(10, &epsilon("1")).unwrap();
    let time = median(table.size.runs, || {
        let mut left = scores.clone();
        for _ in 0..10 {
            let winner = exponential.choose(&left, &mut rng).unwrap();
            left.swap_remove(winner);
        }
        left.len()
    });
    table.time(format!("TOP 10 EXPONENTIAL among {n} candidates"), "", time);
}

/// The best price as a whole statement. Its time depends on the bids, not on the ticks.
fn prices(table: &mut Table, runtime: &Runtime) {
    let full = table.size.runs > 1;
    let most = if full { 1_000_000 } else { 1_000 };
    for (bids, ticks) in [
        (most, 1_000),
        (most, 1_000_000),
        (most, 1_000_000_000),
        (most / 10, 1_000_000_000),
        (most / 100, 1_000_000_000),
    ] {
        let mut dice = Dice(4);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..bids));
        let bid: ArrayRef = Arc::new(Float64Array::from_iter_values(
            (0..bids).map(|_| dice.below(1_000_000_000) as f64 / 1e6),
        ));
        let engine = Engine::in_memory().unwrap();
        let batch = RecordBatch::try_from_iter([("bidder", ids), ("bid", bid)]).unwrap();
        engine.register_batch("auction", batch).unwrap();
        for statement in [
            "ALTER TABLE auction SET PRIVACY UNIT ROW",
            "CREATE PRIVACY BUDGET auction FOR auction LIMIT (epsilon=1000000)",
        ] {
            runtime.block_on(engine.owner().execute(statement)).unwrap();
        }
        let session = engine.analyst("bench").unwrap();
        let sql = format!(
            "SELECT ARGMAX EXPONENTIAL(eps=1) price IN RANGE({0}, 1000, {0}) BY REVENUE(bid, price) FROM auction",
            1_000.0 / ticks as f64
        );
        let time = median(table.size.runs.min(3), || {
            runtime.block_on(session.query(&anew(&sql))).unwrap()
        });
        table.time(format!("the best of {ticks} prices for {bids} bids"), "≤ 2 s", time);
    }
}
