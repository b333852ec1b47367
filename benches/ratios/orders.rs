//! Questions over a table as shops have it: few people have many rows, and rows come in any order.
//!
//! Ten million orders of a million people, up to 90,000 of one person; numbers of people are
//! shuffled. Each question is asked of an engine that keeps no decoded columns, and of one that
//! kept those of an earlier statement; and of plain DataFusion, once as it is and once with
//! `SUM(user_id)` beside it, which reads the column that bounding has to read.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array, RecordBatch};
use arrow::array::{StringArray, StringViewArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use hushql::{Analyst, Engine, Resources};
use tokio::runtime::Runtime;

use crate::duckdb::DuckDb;
use crate::{Dice, Spent, Table, Times, anew};

/// An engine with less memory than a gibibyte keeps no columns.
const LITTLE: usize = (1 << 30) - 1;

const CITIES: usize = 100;
const CATEGORIES: usize = 1_000;
const FIRST_DAY: i32 = 19_358;
const DAYS: i64 = 730;

/// What is asked: the private select list, the plain one, and what follows the table.
const QUESTIONS: [(&str, &str, &str, &str); 13] = [
    ("COUNT(*) by 100 cities", "city, LAPLACE(eps=1, BOUND) COUNT(*)", "city, COUNT(*)", CITY),
    ("SUM by city", "city, LAPLACE(eps=1, BOUND) SUM(amount)", "city, SUM(amount)", CITY),
    ("AVG by city", "city, LAPLACE(eps=1, BOUND) AVG(amount)", "city, AVG(amount)", CITY),
    ("SUM by city, bounds found", "city, LAPLACE(eps=1, BOUND) SUM(qty)", "city, SUM(qty)", CITY),
    (
        "COUNT(*) by 1,000 unknown categories",
        "category, LAPLACE(eps=1, delta=1e-6, groups=5, BOUND) COUNT(*)",
        "category, COUNT(*)",
        " GROUP BY category",
    ),
    ("MEDIAN", "EXPONENTIAL(eps=1, BOUND) MEDIAN(amount)", "MEDIAN(amount)", ""),
    (
        "MEDIAN by city",
        "city, EXPONENTIAL(eps=1, BOUND) MEDIAN(amount)",
        "city, MEDIAN(amount)",
        CITY,
    ),
    ("ARGMAX city", "ARGMAX EXPONENTIAL(eps=1, BOUND) city", "city, COUNT(*)", CITY),
    (
        "SUM by city, rows=auto",
        "city, LAPLACE(eps=1, rows=auto) SUM(amount)",
        "city, SUM(amount)",
        CITY,
    ),
    (
        "COUNT(*) under two conditions",
        "LAPLACE(eps=1, BOUND) COUNT(*)",
        "COUNT(*)",
        " WHERE qty >= 5 AND amount < 20",
    ),
    (
        "COUNT(*) by month",
        "date_trunc('month', ts) AS m, LAPLACE(eps=1, BOUND) COUNT(*)",
        "date_trunc('month', ts) AS m, COUNT(*)",
        " GROUP BY m",
    ),
    ("people", "LAPLACE(eps=1) COUNT(DISTINCT user_id)", "COUNT(DISTINCT user_id)", ""),
    (
        "COUNT(*) by segment, joined",
        "segment, LAPLACE(eps=1, BOUND) COUNT(*)",
        "segment, COUNT(*)",
        " JOIN users USING (user_id) GROUP BY segment",
    ),
];

const CITY: &str = " GROUP BY city";

/// Numbers below `values.len() + 1`, the first ones more often: the sums of their probabilities.
fn zipf(values: usize, power: f64) -> Vec<f64> {
    let weights = (1..=values).map(|rank| 1.0 / (rank as f64).powf(power));
    let mut sum = 0.0;
    let sums = weights.map(|weight| {
        sum += weight;
        sum
    });
    let sums: Vec<f64> = sums.collect();
    sums.into_iter().map(|part| part / sum).collect()
}

impl Dice {
    /// A number from 0 to 1.
    fn share(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    fn of(&mut self, sums: &[f64]) -> usize {
        let share = self.share();
        sums.partition_point(|sum| *sum <= share).min(sums.len() - 1)
    }

    /// Mostly from 3 to 40, at most 100.
    fn amount(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.share(), self.share());
        let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        ((2.5 + normal).exp().clamp(0.0, 100.0) * 100.0).round() / 100.0
    }
}

/// The person of each row: everybody once, and the other rows by a power law; shuffled.
#[expect(clippy::cast_possible_truncation, reason = "a share of the people")]
fn people_of(rows: i64, people: i64, dice: &mut Dice) -> Vec<i64> {
    let more = (people..rows).map(|_| (people as f64 * dice.share().powi(3)) as i64);
    let mut all: Vec<i64> = (0..people).chain(more.collect::<Vec<_>>()).collect();
    for last in (1..all.len()).rev() {
        let other = dice.below(i64::try_from(last).unwrap() + 1);
        all.swap(last, usize::try_from(other).unwrap());
    }
    all
}

fn write(path: &Path, batches: impl Iterator<Item = RecordBatch>) {
    let mut writer: Option<ArrowWriter<File>> = None;
    for batch in batches {
        let writer = writer.get_or_insert_with(|| {
            let properties = WriterProperties::builder()
                .set_max_row_group_row_count(Some(1_000_000))
                .set_compression(Compression::ZSTD(ZstdLevel::default()));
            let file = File::create(path).unwrap();
            ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap()
        });
        writer.write(&batch).unwrap();
    }
    writer.unwrap().close().unwrap();
}

fn write_orders(path: &Path, rows: i64, people: i64) {
    let mut dice = Dice(5);
    let all = people_of(rows, people, &mut dice);
    let (cities, categories) = (zipf(CITIES, 0.8), zipf(CATEGORIES, 1.05));
    let batch = |own: &[i64]| {
        let texts = |name: &str, sums: &[f64], dice: &mut Dice| -> ArrayRef {
            let text = |_: &i64| format!("{name}_{}", dice.of(sums));
            Arc::new(StringArray::from_iter_values(own.iter().map(text)))
        };
        let (city, category) =
            (texts("city", &cities, &mut dice), texts("cat", &categories, &mut dice));
        let amount = Float64Array::from_iter_values(own.iter().map(|_| dice.amount()));
        let mut small = |below: i64| i32::try_from(dice.below(below)).unwrap();
        let qty = Int32Array::from_iter_values(own.iter().map(|_| 1 + small(10)));
        let ts = Date32Array::from_iter_values(own.iter().map(|_| FIRST_DAY + small(DAYS)));
        RecordBatch::try_from_iter([
            ("user_id", Arc::new(Int64Array::from(own.to_vec())) as ArrayRef),
            ("city", city),
            ("category", category),
            ("amount", Arc::new(amount)),
            ("qty", Arc::new(qty)),
            ("ts", Arc::new(ts)),
        ])
        .unwrap()
    };
    write(path, all.chunks(1 << 18).map(batch));
}

fn write_users(path: &Path, people: i64) {
    let ids = Int64Array::from_iter_values(0..people);
    let segment = |i: i64| ["A", "B", "C", "D"][usize::try_from(i * 7 % 4).unwrap()];
    let segments = StringViewArray::from_iter_values((0..people).map(segment));
    let columns: [(&str, ArrayRef); 2] =
        [("user_id", Arc::new(ids)), ("segment", Arc::new(segments))];
    write(path, std::iter::once(RecordBatch::try_from_iter(columns).unwrap()));
}

/// An analyst of the orders, in an engine with this memory.
fn analyst(files: [&str; 2], memory: Option<usize>, runtime: &Runtime) -> Analyst {
    let resources = Resources::default();
    let resources = match memory {
        Some(_) => resources.with_memory(memory),
        None => resources,
    };
    let engine = Engine::builder().resources(resources).in_memory().unwrap();
    let cities = (0..CITIES).map(|i| format!("'city_{i}'")).collect::<Vec<_>>().join(", ");
    let domain = |table: &str, column: &str, domain: String| {
        format!("ALTER TABLE {table} ALTER COLUMN {column} SET PRIVACY DOMAIN {domain}")
    };
    let [orders, users] = files;
    for statement in [
        format!("CREATE EXTERNAL TABLE users STORED AS PARQUET LOCATION '{users}'"),
        format!("CREATE EXTERNAL TABLE orders STORED AS PARQUET LOCATION '{orders}'"),
        "ALTER TABLE users SET PRIVACY UNIT (user_id) UNIQUE".to_owned(),
        "ALTER TABLE orders SET PRIVACY UNIT VIA (user_id) REFERENCES users(user_id) MAX ROWS 100000"
            .to_owned(),
        domain("users", "segment", "IN ('A', 'B', 'C', 'D')".to_owned()),
        domain("orders", "city", format!("IN ({cities})")),
        domain("orders", "amount", "BETWEEN (0, 100)".to_owned()),
        domain("orders", "ts", "BETWEEN (DATE '2023-01-01', DATE '2024-12-30')".to_owned()),
        "CREATE PRIVACY BUDGET b FOR users LIMIT (epsilon=1000000, delta=0.5)".to_owned(),
    ] {
        runtime.block_on(engine.owner().execute(&statement)).unwrap();
    }
    engine.analyst("bench").unwrap()
}

/// Everybody who is asked.
struct Asked<'a> {
    reading: Analyst,
    keeping: Analyst,
    plain: SessionContext,
    duckdb: Option<RefCell<DuckDb>>,
    runtime: &'a Runtime,
}

/// The fastest runs for one question.
struct Fastest {
    reading: Spent,
    keeping: Spent,
    plain: Spent,
    beside: Spent,
    duckdb: Option<std::time::Duration>,
}

impl Asked<'_> {
    fn private(&self, analyst: &Analyst, sql: &str) -> Spent {
        let sql = anew(sql);
        Spent::of(|| self.runtime.block_on(analyst.query(&sql)).unwrap())
    }

    fn plain(&self, sql: &str) -> Spent {
        let rows = async { self.plain.sql(sql).await.unwrap().collect().await.unwrap() };
        Spent::of(|| self.runtime.block_on(rows))
    }

    /// All take turns, after one run that is not timed.
    fn fastest(&self, private: &str, [plain, beside]: [&str; 2], runs: usize) -> Fastest {
        let of_duckdb = || self.duckdb.as_ref().and_then(|duckdb| duckdb.borrow_mut().time(plain));
        let once = || Fastest {
            reading: self.private(&self.reading, private),
            keeping: self.private(&self.keeping, private),
            plain: self.plain(plain),
            beside: self.plain(beside),
            duckdb: of_duckdb(),
        };
        once();
        let mut all = once();
        for _ in 1..runs {
            let next = once();
            all.reading = all.reading.min(next.reading);
            all.keeping = all.keeping.min(next.keeping);
            all.plain = all.plain.min(next.plain);
            all.beside = all.beside.min(next.beside);
            all.duckdb = all.duckdb.min(next.duckdb);
        }
        all
    }
}

fn open<'a>(directory: &Path, table: &Table, runtime: &'a Runtime) -> Asked<'a> {
    let [orders, users] = ["orders.parquet", "users.parquet"].map(|name| directory.join(name));
    write_orders(&orders, table.size.rows, table.size.people);
    write_users(&users, table.size.people);
    let files = [&orders, &users].map(|path| path.to_str().unwrap());
    let plain = SessionContext::new();
    for (name, path) in ["orders", "users"].into_iter().zip(files) {
        let options = ParquetReadOptions::default();
        runtime.block_on(plain.register_parquet(name, path, options)).unwrap();
    }
    let duckdb = DuckDb::start([("orders", files[0]), ("users", files[1])]).map(RefCell::new);
    Asked {
        reading: analyst(files, Some(LITTLE), runtime),
        keeping: analyst(files, None, runtime),
        plain,
        duckdb,
        runtime,
    }
}

pub(crate) fn questions(table: &mut Table, directory: &Path, runtime: &Runtime) {
    let asked = open(directory, table, runtime);
    for bound in [50, 1_000] {
        let (mut read, mut kept) = (Vec::new(), Vec::new());
        for (what, private, plain, rest) in QUESTIONS {
            let private = private.replace("BOUND", &format!("rows={bound}"));
            let private = format!("SELECT {private} FROM orders{rest}");
            let of = |list: &str| format!("SELECT {list} FROM orders{rest}");
            let beside = of(&format!("{plain}, SUM(user_id)"));
            let runs = table.size.runs.min(5);
            let fastest = asked.fastest(&private, [&of(plain), &beside], runs);
            let Fastest { reading, keeping, plain, beside, duckdb } = fastest;
            read.push((reading, beside));
            kept.push((keeping, plain));
            let what = format!("{what}, at most {bound} rows of a person");
            let times = |private, plain| Times { private, plain, duckdb };
            table.ratio(format!("{what}, read; beside SUM"), "≤ 1.25 ×", times(reading, beside));
            table.ratio(format!("{what}, read"), "", times(reading, plain));
            table.ratio(format!("{what}, kept"), "≤ 2 ×", times(keeping, plain));
        }
        for (what, all) in [("read; beside SUM", read), ("kept", kept)] {
            let ratio = |(private, plain): &(Spent, Spent)| {
                (private.wall.as_secs_f64() / plain.wall.as_secs_f64()).ln()
            };
            let mean = (all.iter().map(ratio).sum::<f64>() / all.len() as f64).exp();
            let what = format!("geometric mean, at most {bound} rows of a person, {what}");
            table.row(what, "", format!("{mean:.2} ×"), [String::new(), String::new()]);
        }
    }
}
