//! The databases under attack: one holds a person whom the other lacks, in every table.
//!
//! In: the name of a catalog. Out: an engine whose tables count what is read of them. The last rows
//! of each private table are the person's; these cells are found nowhere else, and must not be
//! found in anything the engine says.
//!
//! | catalog | tables |
//! |---|---|
//! | `declared` | adult, users, orders with units, domains and budgets; regions public; secrets undeclared |
//! | `bare` | the same without domains |
//! | `tight` | the same with small budgets: adult in ε with a default, users in ρ, orders by ZCDP |
//! | `defaults` | `bare` with an ε and a δ for queries that state none |
//! | `floored` | `declared` with an ε and a δ for queries that state none, and floors of people |
//! | `ruled` | `declared` with rules for columns and aggregates |
//! | `present` | survey, in a file, of people whose presence is public: the person says other things in the other database |
//! | `linked` | people, purchases, lines, payments along links; strangers apart; parts public |
//! | `odd` | one table of every type; a person is a text |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    DictionaryArray, Float32Array, Float64Array, Int8Array, Int64Array, ListArray, RecordBatch,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt8Array, UInt64Array,
};
use arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use hushql::Engine;

/// The cells of the person that only one database holds; long enough to appear nowhere by chance.
pub const CANARIES: [&str; 9] = [
    NAME,
    CITY,
    NOTE,
    "canary-craft",
    "canary-grade",
    "918273645546372819",
    "17777777777777777771",
    "31415926535897932384",
    "2037-11-05",
];
pub const CANARY_ID: i64 = 918_273_645_546_372_819;
pub const NAME: &str = "Zyxquorina";
pub const CITY: &str = "Qanaryville";
pub const NOTE: &str = "canary-note";

const UNITS: &str = "
    ALTER TABLE adult SET PRIVACY UNIT (id) UNIQUE;
    ALTER TABLE users SET PRIVACY UNIT (user_id) UNIQUE;
    ALTER TABLE orders SET PRIVACY UNIT (user_id) MAX ROWS 20;
    ALTER TABLE regions SET PUBLIC;";
const LARGE: &str = "
    CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=1000000, delta=0.5);
    CREATE PRIVACY BUDGET users FOR users LIMIT (epsilon=1000000, delta=0.5);
    CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=1000000, delta=0.5);";
const SMALL: &str = "
    CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=2, delta=1e-6) PER QUERY (default=0.1, max=0.5);
    CREATE PRIVACY BUDGET users FOR users LIMIT (rho=0.01, delta=1e-6) PER QUERY (max_rho=0.005);
    CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=1, delta=1e-6) ACCOUNTANT ZCDP;";
const DEFAULTS: &str = "
    CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=1, default_delta=1e-9);
    CREATE PRIVACY BUDGET users FOR users LIMIT (rho=1000000, delta=0.5) PER QUERY (default_rho=0.5, default_delta=1e-9);
    CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=1, default_delta=1e-9);";
const FLOORS: &str = "
    ALTER TABLE adult SET PRIVACY FLOOR 3;
    ALTER TABLE orders SET PRIVACY FLOOR 2 (beta=0.2);
    ALTER PRIVACY BUDGET users SET PER QUERY (default_rho=0.5, min_units=3);";
const RULES: &str = "
    ALTER TABLE adult SET RULES (no_key=(race), no_filter=(age));
    ALTER TABLE orders SET RULES (join_only=(city), aggregates=(count, avg, laplace));";
const DOMAINS: &str = "
    ALTER TABLE adult ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    ALTER TABLE adult ALTER COLUMN hours_per_week SET PRIVACY DOMAIN BETWEEN (0, 99);
    ALTER TABLE adult ALTER COLUMN income SET PRIVACY DOMAIN BETWEEN (0, 1000000);
    ALTER TABLE adult ALTER COLUMN workclass SET PRIVACY DOMAIN IN ('Private', 'State', 'None');
    ALTER TABLE adult ALTER COLUMN education SET PRIVACY DOMAIN IN ('School', 'College', 'none');
    ALTER TABLE adult ALTER COLUMN marital_status SET PRIVACY DOMAIN IN ('Single', 'Married');
    ALTER TABLE adult ALTER COLUMN sex SET PRIVACY DOMAIN IN ('F', 'M');
    ALTER TABLE adult ALTER COLUMN race SET PRIVACY DOMAIN IN ('A', 'B', 'C');
    ALTER TABLE users ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    ALTER TABLE orders ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN (0, 1000);
    ALTER TABLE orders ALTER COLUMN qty SET PRIVACY DOMAIN BETWEEN (0, 10);";
const PRESENT: &str = "
    ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region);
    ALTER TABLE survey ALTER COLUMN region SET PRIVACY DOMAIN IN ('north', 'south');
    ALTER TABLE survey ALTER COLUMN sex SET PRIVACY DOMAIN IN ('F', 'M');
    ALTER TABLE survey ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (18, 65);
    CREATE PRIVACY BUDGET panel FOR survey LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=1, default_delta=1e-9);";
const LINKS: &str = "
    ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE;
    ALTER TABLE purchases SET PRIVACY UNIT VIA (customer) REFERENCES people(id) MAX ROWS 3;
    ALTER TABLE lines SET PRIVACY UNIT VIA (order_no) REFERENCES purchases(no) MAX ROWS 4;
    ALTER TABLE payments SET PRIVACY UNIT VIA (order_no, buyer) REFERENCES purchases(no, customer) MAX ROWS 5;
    ALTER TABLE strangers SET PRIVACY UNIT (id);
    ALTER TABLE parts SET PUBLIC;
    ALTER TABLE people ALTER COLUMN balance SET PRIVACY DOMAIN BETWEEN (-100, 200);
    ALTER TABLE purchases ALTER COLUMN total SET PRIVACY DOMAIN BETWEEN (0, 1000);
    ALTER TABLE purchases ALTER COLUMN status SET PRIVACY DOMAIN IN ('open', 'done');
    ALTER TABLE lines ALTER COLUMN quantity SET PRIVACY DOMAIN BETWEEN (0, 20);
    CREATE PRIVACY BUDGET shop FOR people LIMIT (epsilon=1000000, delta=0.5);
    CREATE PRIVACY BUDGET apart FOR strangers LIMIT (epsilon=1000000, delta=0.5);";
const ODD: &str = "
    ALTER TABLE odd SET PRIVACY UNIT (who) MAX ROWS 2;
    ALTER TABLE odd ALTER COLUMN u8 SET PRIVACY DOMAIN BETWEEN (0, 200);
    ALTER TABLE odd ALTER COLUMN i8 SET PRIVACY DOMAIN BETWEEN (-100, 100);
    ALTER TABLE odd ALTER COLUMN d2 SET PRIVACY DOMAIN BETWEEN (-50, 50);
    ALTER TABLE odd ALTER COLUMN f32 SET PRIVACY DOMAIN BETWEEN (-1, 1);
    ALTER TABLE odd ALTER COLUMN f64 SET PRIVACY DOMAIN BETWEEN (-1000, 1000);
    ALTER TABLE odd ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN ('2020-01-01', '2036-12-31');
    ALTER TABLE odd ALTER COLUMN flag SET PRIVACY DOMAIN IN (TRUE, FALSE);
    CREATE PRIVACY BUDGET odd FOR odd LIMIT (epsilon=1000000, delta=0.5);";

/// The tables of a catalog, with the person or without, and the statements that declare them.
pub fn declared(
    catalog: &str,
    whole: bool,
) -> (Vec<(&'static str, RecordBatch)>, Vec<&'static str>) {
    match catalog {
        "declared" => (tables(whole), vec![UNITS, DOMAINS, LARGE]),
        "bare" => (tables(whole), vec![UNITS, LARGE]),
        "defaults" => (tables(whole), vec![UNITS, DEFAULTS]),
        "floored" => (tables(whole), vec![UNITS, DOMAINS, DEFAULTS, FLOORS]),
        "ruled" => (tables(whole), vec![UNITS, DOMAINS, LARGE, RULES]),
        "tight" => (tables(whole), vec![UNITS, DOMAINS, SMALL]),
        "present" => (Vec::new(), vec![PRESENT]),
        "linked" => (linked(whole), vec![LINKS]),
        "odd" => (odd(whole), vec![ODD]),
        other => panic!("there is no catalog {other}"),
    }
}

/// An engine under attack.
#[derive(Debug)]
pub struct Database {
    pub engine: Engine,
    reads: Arc<AtomicUsize>,
    /// The folder of tables in files.
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// The database of a catalog, with the person or without.
    pub async fn new(catalog: &str, whole: bool) -> Self {
        let engine = Engine::in_memory().unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let (tables, declarations) = declared(catalog, whole);
        for (name, batch) in tables {
            if name == "regions" || name == "parts" {
                engine.register_batch(name, batch).unwrap();
            } else {
                let table = Counted::new(&batch, Arc::clone(&reads));
                engine.register_table(name, Arc::new(table)).unwrap();
            }
        }
        let owner = engine.owner();
        let mut folder = None;
        if catalog == "present" {
            let kept = tempfile::tempdir().unwrap();
            let file = kept.path().join("survey.csv");
            std::fs::write(&file, survey(whole)).unwrap();
            let sql = format!("{CREATE_SURVEY} '{}'", file.display());
            owner.execute(&sql).await.unwrap();
            folder = Some(kept);
        }
        for statement in hushql::split_statements(&declarations.join("\n")).unwrap() {
            owner
                .execute(statement.text())
                .await
                .unwrap_or_else(|e| panic!("{}: {e}", statement.text()));
        }
        Self { engine, reads, _folder: folder }
    }

    /// How often a private table was planned to be read, or read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

/// The beginning of the declaration of a survey's file.
pub(super) const CREATE_SURVEY: &str = "CREATE EXTERNAL TABLE survey (id BIGINT, region VARCHAR, sex VARCHAR, age BIGINT, name VARCHAR, note VARCHAR) STORED AS CSV LOCATION";

/// People of whom anyone knows that they are there; the last one says other things in the other
/// database.
pub(super) fn survey(whole: bool) -> String {
    let last = match whole {
        true => format!("5,north,F,,{NAME},{NOTE}"),
        false => "5,north,M,99,Bob,-".to_owned(),
    };
    format!(
        "id,region,sex,age,name,note\n1,north,F,34,Ann,x\n2,south,M,51,Bob,\n3,south,,17,Ann,y\n4,,F,40,,-\n{last}\n"
    )
}

/// A table that counts its scans, and what is read by them.
#[derive(Debug)]
pub struct Counted {
    inner: StreamingTable,
    reads: Arc<AtomicUsize>,
}

impl Counted {
    pub fn new(batch: &RecordBatch, reads: Arc<AtomicUsize>) -> Self {
        let rows = Arc::new(Rows { batch: batch.clone(), reads: Arc::clone(&reads) });
        Self { inner: StreamingTable::try_new(batch.schema(), vec![rows]).unwrap(), reads }
    }
}

#[async_trait]
impl TableProvider for Counted {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.scan(state, projection, filters, limit).await
    }
}

#[derive(Debug)]
struct Rows {
    batch: RecordBatch,
    reads: Arc<AtomicUsize>,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        self.batch.schema_ref()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let batches = futures::stream::iter([Ok(self.batch.clone())]);
        Box::pin(RecordBatchStreamAdapter::new(self.batch.schema(), batches))
    }
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(values.iter().map(|v| (*v != "NULL").then_some(*v)).collect::<StringArray>())
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn batch(columns: Vec<(&str, ArrayRef)>, rows: usize) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array.slice(0, rows), true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The tables of one kind of people; the last row of each private one is the person's.
pub fn tables(whole: bool) -> Vec<(&'static str, RecordBatch)> {
    let rows = if whole { 6 } else { 5 };
    let adult = batch(
        vec![
            ("id", integers(&[1, 2, 3, 7, 9, CANARY_ID])),
            ("age", integers(&[30, 39, 40, 200, -1, 50])),
            ("name", texts(&["Ann", "Bob", "12", "NULL", "", NAME])),
            ("workclass", texts(&["Private", "State", "None", "Private", "else", "canary-craft"])),
            ("education", texts(&["School", "College", "none", "School", "NULL", "canary-grade"])),
            ("marital_status", texts(&["Single", "Married", "Single", "NULL", "else", "Married"])),
            ("occupation", texts(&["Baker", "Smith", "Baker", "NULL", "Smith", "canary-craft"])),
            ("race", texts(&["A", "B", "C", "A", "Z", "B"])),
            ("sex", texts(&["F", "M", "F", "M", "NULL", "F"])),
            ("hours_per_week", integers(&[40, 20, 99, 0, i64::MAX, i64::MIN])),
            ("income", integers(&[10, 70_000, 0, i64::MIN, 999_999, 1_000_000_000_000])),
            ("note", texts(&["x", "2021-02-03", "12", "NULL", "-", NOTE])),
        ],
        rows,
    );
    let users = batch(
        vec![
            ("user_id", integers(&[1, 2, 3, 7, 9, CANARY_ID])),
            ("name", texts(&["Ann", "Bob", "12", "NULL", "", NAME])),
            ("age", integers(&[30, 39, 40, 99, -1, 50])),
            ("city", texts(&["Rome", "Oslo", "Rome", "NULL", "Paris", CITY])),
        ],
        rows,
    );
    let ts = [0, 1_700_000_000_000_000, i64::MAX, i64::MIN, 5, 77];
    let floats = [1.5, f64::NAN, f64::INFINITY, -0.0, 1e308, 913.37];
    let orders = batch(
        vec![
            ("order_id", integers(&[1, 2, 3, 4, 5, CANARY_ID])),
            ("user_id", integers(&[1, 1, 2, 3, 7, CANARY_ID])),
            ("price", Arc::new(Float64Array::from(floats.to_vec()))),
            ("qty", integers(&[0, 1, 10, 11, -5, i64::MAX])),
            ("city", texts(&["Rome", "Oslo", "Rome", "NULL", "Paris", CITY])),
            ("ts", Arc::new(TimestampMicrosecondArray::from(ts.to_vec()))),
        ],
        rows,
    );
    let regions =
        batch(vec![("code", integers(&[1, 2, 3])), ("label", texts(&["one", "two", "three"]))], 3);
    let secrets = batch(
        vec![("id", integers(&[1, 2, 3, 7, 9, CANARY_ID])), ("note", adult.column(11).clone())]
            .into_iter()
            .map(|(name, array)| (name, array.slice(0, rows)))
            .collect(),
        rows,
    );
    vec![
        ("adult", adult),
        ("users", users),
        ("orders", orders),
        ("regions", regions),
        ("secrets", secrets),
    ]
}

/// People in several tables, some of whose rows lead to nobody; the last rows of each are the
/// person's.
fn linked(whole: bool) -> Vec<(&'static str, RecordBatch)> {
    let optional =
        |values: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let rows = |all: usize, theirs: usize| if whole { all } else { all - theirs };
    let c = Some(CANARY_ID);
    let people = batch(
        vec![
            ("id", optional(&[Some(1), Some(2), Some(0), Some(-1), None, None, c])),
            ("town", texts(&["Rome", "Oslo", "Rome", "", "NULL", "Paris", CITY])),
            ("balance", integers(&[5, -100, i64::MAX, 0, 7, 7, 150])),
        ],
        rows(7, 1),
    );
    let purchases = batch(
        vec![
            (
                "no",
                optional(&[Some(10), Some(11), Some(12), None, Some(14), Some(15), c, Some(99)]),
            ),
            ("customer", optional(&[Some(1), Some(1), Some(2), Some(2), None, Some(404), c, c])),
            (
                "total",
                Arc::new(Float64Array::from(vec![
                    1.5,
                    f64::NAN,
                    -0.0,
                    1e300,
                    5e-324,
                    7.0,
                    913.37,
                    500.0,
                ])),
            ),
            ("status", texts(&["open", "done", "open", "NULL", "else", "open", "done", NOTE])),
        ],
        rows(8, 2),
    );
    let lines = batch(
        vec![
            ("order_no", optional(&[Some(10), Some(10), Some(11), None, Some(14), c, c, Some(99)])),
            ("part", integers(&[1, 2, 3, 1, 2, 1, 2, CANARY_ID])),
            ("quantity", integers(&[1, 2, 20, -3, i64::MIN, 20, 19, 18])),
        ],
        rows(8, 3),
    );
    let payments = batch(
        vec![
            ("order_no", optional(&[Some(10), Some(11), Some(12), None, c, Some(99)])),
            ("buyer", optional(&[Some(1), Some(2), Some(2), Some(2), c, c])),
            ("amount", integers(&[1, 2, 3, 4, 5, 6])),
        ],
        rows(6, 2),
    );
    let strangers =
        batch(vec![("id", optional(&[Some(1), Some(2), None])), ("age", integers(&[5, 6, 7]))], 3);
    let parts =
        batch(vec![("no", integers(&[1, 2, 3])), ("label", texts(&["nut", "bolt", "nut"]))], 3);
    vec![
        ("people", people),
        ("purchases", purchases),
        ("lines", lines),
        ("payments", payments),
        ("strangers", strangers),
        ("parts", parts),
    ]
}

/// Columns of many types, at their edges; the last two rows are the person's. The people differ by
/// what a sloppy comparison takes for equal: a leading zero, a blank at either end, a letter in two
/// encodings.
fn odd(whole: bool) -> Vec<(&'static str, RecordBatch)> {
    let rows = if whole { 9 } else { 7 };
    let who = ["1", "01", "1 ", " 1", "\u{e9}", "e\u{301}", "NULL", NAME, NAME];
    let keys = ["k", "l", "k", "NULL", "", "l", "k", NOTE, "k"];
    let dictionary: DictionaryArray<Int32Type> =
        keys.iter().map(|v| (*v != "NULL").then_some(*v)).collect();
    let decimal = |values: [i128; 9], precision, scale| -> ArrayRef {
        let array = Decimal128Array::from(values.to_vec());
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    let most = 10_i128.pow(38) - 1;
    let pi = 31_415_926_535_897_932_384_i128;
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..9).map(|i| (i % 3 != 1).then(|| vec![Some(i), None, (i > 6).then_some(CANARY_ID)])),
    );
    let odd = batch(
        vec![
            ("who", texts(&who)),
            ("u8", Arc::new(UInt8Array::from(vec![0, 1, 200, 255, 7, 8, 9, 250, 3]))),
            (
                "u64",
                Arc::new(UInt64Array::from(vec![
                    0,
                    1,
                    u64::MAX,
                    1 << 63,
                    5,
                    6,
                    7,
                    17_777_777_777_777_777_771,
                    9,
                ])),
            ),
            ("i8", Arc::new(Int8Array::from(vec![0, 127, -128, 1, 2, 3, 4, 100, -100]))),
            (
                "f32",
                Arc::new(Float32Array::from(vec![
                    0.5,
                    f32::NAN,
                    f32::INFINITY,
                    -0.0,
                    1e-45,
                    f32::MAX,
                    1.0,
                    -f32::NAN,
                    0.25,
                ])),
            ),
            (
                "f64",
                Arc::new(Float64Array::from(vec![
                    1e308,
                    -1e308,
                    f64::NAN,
                    5e-324,
                    -0.0,
                    0.1,
                    999.0,
                    f64::NEG_INFINITY,
                    1000.0,
                ])),
            ),
            ("d38", decimal([0, 1, most, -most, 5, 6, 7, pi, 9], 38, 0)),
            ("d2", decimal([0, 1, 4_999, -5_001, 5, 6, 7, 4_242, 9], 12, 2)),
            (
                "day",
                Arc::new(Date32Array::from(vec![
                    0,
                    19_000,
                    i32::MAX,
                    i32::MIN,
                    1,
                    2,
                    3,
                    24_780,
                    5,
                ])),
            ),
            (
                "day64",
                Arc::new(Date64Array::from(vec![0, 1, i64::MAX, i64::MIN, 5, 6, 7, 86_400_001, 9])),
            ),
            (
                "at",
                Arc::new(
                    TimestampNanosecondArray::from(vec![
                        0,
                        1,
                        i64::MAX,
                        i64::MIN,
                        5,
                        6,
                        7,
                        CANARY_ID,
                        9,
                    ])
                    .with_timezone("Europe/Rome"),
                ),
            ),
            (
                "clock",
                Arc::new(Time64MicrosecondArray::from(vec![
                    0,
                    1,
                    -1,
                    2,
                    3,
                    4,
                    5,
                    86_399_999_999,
                    7,
                ])),
            ),
            ("kind", Arc::new(dictionary)),
            (
                "bytes",
                Arc::new(BinaryArray::from_vec(vec![
                    b"",
                    b"\xff",
                    b"a",
                    b"\0",
                    b"b",
                    b"c",
                    b"d",
                    NOTE.as_bytes(),
                    b"f",
                ])),
            ),
            (
                "flag",
                Arc::new(BooleanArray::from(vec![
                    Some(true),
                    None,
                    Some(false),
                    None,
                    Some(true),
                    None,
                    None,
                    Some(true),
                    None,
                ])),
            ),
            ("list", Arc::new(lists)),
        ],
        rows,
    );
    vec![("odd", odd)]
}

/// The canaries are where the attacks look: the one database holds them, the other does not.
#[test]
fn the_canaries_are_planted() {
    let text = |whole| {
        let batches = [tables(whole), linked(whole), odd(whole)].concat();
        let cells = |batch| arrow::util::pretty::pretty_format_batches(&[batch]).unwrap();
        batches.into_iter().map(|(_, batch)| cells(batch).to_string()).collect::<String>()
    };
    let (whole, less) = (text(true), text(false));
    for canary in CANARIES {
        assert!(whole.contains(canary) && !less.contains(canary), "{canary}");
    }
}

/// The counters count: an answer reads, and a refusal does not.
#[tokio::test]
async fn reading_is_noticed() {
    let database = Database::new("declared", true).await;
    let lab = database.engine.analyst("lab").unwrap();
    assert!(lab.query("SELECT name FROM adult").await.is_err());
    assert_eq!(database.reads(), 0);
    lab.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await.unwrap();
    assert!(database.reads() >= 2);
}
