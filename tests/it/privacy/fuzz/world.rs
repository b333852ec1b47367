//! The fuzzed engines: the same catalog over two entirely different databases.
//!
//! One holds a few hostile rows in every private table, with a marked word in every text column and
//! a marked number in every key; in the other the private tables are empty. The public tables are
//! the same. What is decided before the charge, and what costs nothing, cannot differ between them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::array::{ArrayData, DictionaryArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use hushql::{Engine, split_statements};

/// What marks the cells that nothing may show; no statement holds it, and it is too long to stand
/// within a view.
pub const MARK: &str = "zyxquorina-canary";
pub const MARKED_ID: i64 = 918_273_645_546_372_819;

/// δ so small, and ε so low, that a marked cell is not shown by chance: 5·10⁶ statements of δ =
/// 10⁻¹⁶ come to 5·10⁻¹⁰.
const DECLARATIONS: &str = "
    ALTER TABLE adult SET PRIVACY UNIT (id) UNIQUE;
    ALTER TABLE adult ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    ALTER TABLE adult ALTER COLUMN hours_per_week SET PRIVACY DOMAIN BETWEEN (0, 99);
    ALTER TABLE adult ALTER COLUMN income SET PRIVACY DOMAIN BETWEEN (0, 1000000);
    ALTER TABLE adult ALTER COLUMN status SET PRIVACY DOMAIN IN ('Divorced', 'Widowed', 'Separated', NULL);
    ALTER TABLE adult ALTER COLUMN sex SET PRIVACY DOMAIN IN ('Female', 'Male');
    ALTER TABLE adult ALTER COLUMN race SET PRIVACY DOMAIN IN ('White', 'Black');
    CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=0.1, max=6, max_delta=1e-15);
    ALTER TABLE users SET PRIVACY UNIT (user_id) UNIQUE;
    ALTER TABLE users ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    CREATE PRIVACY BUDGET users FOR users LIMIT (epsilon=1000000, delta=0.5) ACCOUNTANT COUPONS (epsilon=6) PER QUERY (max_delta=1e-15);
    ALTER TABLE orders SET PRIVACY UNIT (user_id) MAX ROWS 4;
    ALTER TABLE orders ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN (0, 1000);
    ALTER TABLE orders ALTER COLUMN qty SET PRIVACY DOMAIN BETWEEN (0, 10);
    ALTER TABLE orders ALTER COLUMN product SET PRIVACY DOMAIN IN ('tea', 'milk', 'wine', 'bread');
    ALTER TABLE orders ALTER COLUMN ts SET PRIVACY DOMAIN BETWEEN (TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP '2025-12-31 23:59:59');
    CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=0.1, max=6, max_delta=1e-15);
    ALTER TABLE bids SET PRIVACY UNIT ROW;
    ALTER TABLE bids ALTER COLUMN bid SET PRIVACY DOMAIN BETWEEN (0, 5) STEP 0.01;
    CREATE PRIVACY BUDGET bids FOR bids LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=0.1, min=0.01, max=6, max_delta=1e-15);
    ALTER TABLE customers SET PRIVACY UNIT (id) UNIQUE;
    ALTER TABLE purchases SET PRIVACY UNIT VIA (customer) REFERENCES customers(id) MAX ROWS 3;
    ALTER TABLE lines SET PRIVACY UNIT VIA (order_no) REFERENCES purchases(no) MAX ROWS 4;
    ALTER TABLE payments SET PRIVACY UNIT VIA (order_no, buyer) REFERENCES purchases(no, customer) MAX ROWS 5;
    ALTER TABLE customers ALTER COLUMN balance SET PRIVACY DOMAIN BETWEEN (-100, 200);
    ALTER TABLE purchases ALTER COLUMN status SET PRIVACY DOMAIN IN ('open', 'done');
    ALTER TABLE purchases ALTER COLUMN total SET PRIVACY DOMAIN BETWEEN (0, 1000);
    ALTER TABLE lines ALTER COLUMN part SET PRIVACY DOMAIN IN (7, 8, 9);
    ALTER TABLE lines ALTER COLUMN quantity SET PRIVACY DOMAIN BETWEEN (0, 20);
    CREATE PRIVACY BUDGET shop FOR customers LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=0.1, max=6, max_delta=1e-15);
    ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4;
    ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B', 'C', NULL);
    ALTER TABLE visits ALTER COLUMN stay SET PRIVACY DOMAIN BETWEEN (0, 30);
    ALTER TABLE visits ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN (0, 1000) STEP 0.25;
    ALTER TABLE visits ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN (DATE '2025-01-01', DATE '2025-12-31');
    CREATE PRIVACY BUDGET clinic FOR visits LIMIT (rho=1000000, delta=0.5) PER QUERY (default_rho=0.01, min_rho=0.000001, max_rho=6, max_delta=1e-15);
    ALTER TABLE wards SET PUBLIC;
    ALTER TABLE nations SET PUBLIC;
    ALTER TABLE parts SET PUBLIC;
    ALTER TABLE census SET PUBLIC;
    ALTER TABLE regions SET PUBLIC;
    ALTER TABLE roster SET PUBLIC";

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(values.iter().map(|v| (*v != i64::MIN + 1).then_some(*v)).collect::<Int64Array>())
}

/// NULL among integers.
const NONE: i64 = i64::MIN + 1;

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

/// The texts, and in place of `!` a marked one.
fn texts(column: &str, values: &[&str]) -> ArrayRef {
    let marked = format!("{MARK}-{column}-that-nobody-may-read");
    let value = |v: &&str| match *v {
        "!" => Some(marked.clone()),
        "NULL" => None,
        v => Some(v.to_owned()),
    };
    Arc::new(values.iter().map(value).collect::<StringArray>())
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn private() -> Vec<(&'static str, Columns)> {
    let notes = texts("note", &["x", "2021-02-03", "12", "NULL", "!", "!"]);
    // Views keep what they are cut from.
    let notes: StringViewArray = cast(&notes, &DataType::Utf8View).unwrap().to_data().into();
    let jobs = texts("occupation", &["Sales", "!", "NULL", "1e3", "true", "Sales"]);
    let jobs: DictionaryArray<Int32Type> =
        cast(&jobs, &DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()))
            .unwrap()
            .to_data()
            .into();
    let adult: Columns = vec![
        ("id", integers(&[1, 2, 3, NONE, 9, MARKED_ID])),
        ("age", integers(&[30, 39, 40, 200, -1, i64::MAX])),
        ("name", texts("name", &["Ann", "Bob", "12", "NULL", "", "!"])),
        ("workclass", texts("workclass", &["Private", "", "None", "Private", "!", "!"])),
        ("status", texts("status", &["Divorced", "Widowed", "NULL", "else", "!", "Separated"])),
        ("occupation", Arc::new(jobs)),
        ("race", texts("race", &["White", "Black", "NULL", "else", "!", "White"])),
        ("sex", texts("sex", &["Female", "Male", "Male", "!", "NULL", "Female"])),
        ("hours_per_week", integers(&[40, 20, 99, 0, i64::MAX, i64::MIN])),
        ("income", integers(&[10, 70_000, NONE, i64::MIN, 999_999, MARKED_ID])),
        ("note", Arc::new(notes)),
    ];
    let users: Columns = vec![
        ("user_id", integers(&[1, 2, 3, 7, NONE, MARKED_ID])),
        ("name", texts("name", &["Ann", "Bob", "12", "NULL", "", "!"])),
        ("age", integers(&[30, 39, 40, 99, -1, 50])),
        ("city", texts("city", &["Rome", "Oslo", "Rome", "NULL", "!", "!"])),
    ];
    let times = [1_740_000_000_000_000, 0, i64::MAX, i64::MIN, 5, 1_750_000_000_000_000];
    let odd = [1.5, f64::NAN, f64::INFINITY, -0.0, 1e308, -5e-324];
    let orders: Columns = vec![
        ("order_id", integers(&[1, 2, 3, 4, 5, MARKED_ID])),
        ("user_id", integers(&[1, 1, 1, 1, 1, MARKED_ID])),
        ("product", texts("product", &["tea", "milk", "wine", "!", "NULL", "tea"])),
        ("price", floats(&odd)),
        ("qty", integers(&[0, 1, 10, 11, -5, i64::MAX])),
        ("city", texts("city", &["Rome", "Oslo", "Rome", "NULL", "!", "!"])),
        ("ts", Arc::new(TimestampMicrosecondArray::from(times.to_vec()))),
    ];
    let bids: Columns = vec![
        ("bidder", integers(&[1_001, 1_002, 1_003, MARKED_ID])),
        ("bid", floats(&[0.0, 4.999_999, f64::NAN, f64::NEG_INFINITY])),
    ];
    let customers: Columns = vec![
        ("id", integers(&[1, 2, 3, MARKED_ID])),
        ("name", texts("name", &["Ada", "NULL", "", "!"])),
        ("nation", integers(&[1, 2, NONE, i64::MAX])),
        ("balance", floats(&[100.5, f64::NAN, -1e300, 20.0])),
    ];
    let purchases: Columns = vec![
        ("no", integers(&[11, 12, 13, 14, 15, MARKED_ID])),
        ("customer", integers(&[1, 1, 1, 1, 99, MARKED_ID])),
        ("day", Arc::new(Date32Array::from(vec![20_100, 20_101, i32::MAX, i32::MIN, 0, 1]))),
        ("total", floats(&odd)),
        ("status", texts("status", &["open", "done", "!", "NULL", "open", "!"])),
    ];
    let lines: Columns = vec![
        ("order_no", integers(&[11, 11, 12, 15, 77, MARKED_ID])),
        ("part", integers(&[7, 8, 9, 7, 7, NONE])),
        ("quantity", integers(&[1, i64::MAX, -4, 20, 3, 2])),
        ("price", floats(&odd)),
    ];
    let payments: Columns = vec![
        ("order_no", integers(&[11, 12, MARKED_ID])),
        ("buyer", integers(&[1, 2, MARKED_ID])),
        ("amount", floats(&[10.0, f64::NAN, f64::INFINITY])),
    ];
    let visits: Columns = vec![
        ("visit", integers(&[1, 2, 3, 4, 5, 6])),
        ("patient", integers(&[10, 10, 10, 10, 10, MARKED_ID])),
        ("ward", texts("ward", &["A", "B", "NULL", "else", "!", "C"])),
        ("stay", integers(&[3, 0, 31, -1, NONE, 30])),
        ("fee", floats(&odd)),
        ("day", Arc::new(Date32Array::from(vec![20_100, 20_101, i32::MAX, i32::MIN, 0, 20_200]))),
        ("note", texts("note", &["knee", "NULL", "2025-02-30", "!", "7", "!"])),
        ("paid", Arc::new(BooleanArray::from(vec![true, false, true, true, false, true]))),
    ];
    let undeclared: Columns =
        vec![("id", integers(&[1, MARKED_ID])), ("word", texts("word", &["open", "!"]))];
    vec![
        ("adult", adult),
        ("users", users),
        ("orders", orders),
        ("bids", bids),
        ("customers", customers),
        ("purchases", purchases),
        ("lines", lines),
        ("payments", payments),
        ("visits", visits),
        ("undeclared", undeclared),
    ]
}

fn public() -> Vec<(&'static str, Columns)> {
    vec![
        (
            "wards",
            vec![
                ("code", texts("", &["A", "B", "C", "D"])),
                ("title", texts("", &["Surgery", "Bones", "Children", "Dialysis"])),
                ("beds", integers(&[20, 12, 30, 8])),
            ],
        ),
        (
            "nations",
            vec![
                ("code", integers(&[1, 2, 3])),
                ("name", texts("", &["Norway", "Chile", "Kenya"])),
                ("region", texts("", &["north", "south", "NULL"])),
            ],
        ),
        (
            "parts",
            vec![
                ("no", integers(&[7, 7, 8, NONE])),
                ("label", texts("", &["bolt", "bolt", "nut", "NULL"])),
                ("supplier", texts("", &["x", "y", "x", "x"])),
            ],
        ),
        (
            "census",
            vec![
                ("status", texts("", &["Divorced", "Widowed", "Married"])),
                ("share", floats(&[0.5, 0.0, 2.25])),
            ],
        ),
        ("regions", vec![("code", integers(&[1, 2])), ("label", texts("", &["one", "two"]))]),
        ("roster", vec![("id", integers(&[1, 2, 3, 10]))]),
    ]
}

fn batch(columns: Columns) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The private tables, with their hostile rows.
pub fn private_tables() -> Vec<(&'static str, RecordBatch)> {
    private().into_iter().map(|(name, columns)| (name, batch(columns))).collect()
}

/// The public tables.
pub fn public_tables() -> Vec<(&'static str, RecordBatch)> {
    public().into_iter().map(|(name, columns)| (name, batch(columns))).collect()
}

/// An engine in memory; `whole` says whether its private tables have rows.
pub async fn engine(whole: bool) -> Engine {
    let engine = Engine::in_memory().unwrap();
    declare(&engine, whole).await;
    engine
}

/// Registers the tables, and declares what they are.
pub async fn declare(engine: &Engine, whole: bool) {
    for (name, batch) in private_tables() {
        let batch = if whole { batch } else { RecordBatch::new_empty(batch.schema()) };
        engine.register_batch(name, batch).unwrap();
    }
    for (name, batch) in public_tables() {
        engine.register_batch(name, batch).unwrap();
    }
    let owner = engine.owner();
    for statement in split_statements(DECLARATIONS).unwrap() {
        owner
            .execute(statement.text())
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", statement.text()));
    }
}

/// Whether marked bytes stand anywhere in an array, in what it shows or only keeps.
pub fn keeps_marked(data: &ArrayData) -> bool {
    let found = |bytes: &[u8]| bytes.windows(MARK.len()).any(|w| w == MARK.as_bytes());
    data.buffers().iter().any(|buffer| found(buffer.as_slice()))
        || data.child_data().iter().any(keeps_marked)
}

#[test]
fn the_private_tables_are_marked() {
    for (name, batch) in private_tables() {
        let text = format!("{batch:?}");
        assert!(text.contains(MARK) || text.contains(&MARKED_ID.to_string()), "{name}");
    }
    let (_, adult) = private().into_iter().next().unwrap();
    assert!(adult.iter().filter(|(_, array)| keeps_marked(&array.to_data())).count() >= 6);
}
