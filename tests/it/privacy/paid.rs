//! What is paid for is answered: every function, aggregate and window function above a released
//! count, with hostile arguments.
//!
//! Each statement is answered, or refused with nothing charged. What fails while it runs was
//! charged for nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use datafusion::execution::SessionStateDefaults;
use hushql::{Analyst, Engine, Error, Session};
use hushql_engine::bind::function_names;

/// Scalar functions with the kinds of their arguments; a function can have several lists.
const SCALARS: [(&str, &str); 131] = [
    ("abs", "i"),
    ("abs", "f"),
    ("abs", "m"),
    ("acos", "f"),
    ("acosh", "f"),
    ("arrow_cast", "iy"),
    ("arrow_cast", "ty"),
    ("arrow_try_cast", "ty"),
    ("arrow_typeof", "i"),
    ("ascii", "t"),
    ("asin", "f"),
    ("asinh", "f"),
    ("atan", "f"),
    ("atan2", "ff"),
    ("atanh", "f"),
    ("bit_length", "t"),
    ("btrim", "t"),
    ("btrim", "tt"),
    ("cast_to_type", "ti"),
    ("cbrt", "f"),
    ("ceil", "f"),
    ("ceil", "m"),
    ("character_length", "t"),
    ("chr", "i"),
    ("coalesce", "ii"),
    ("concat", "tti"),
    ("concat_ws", "ttt"),
    ("contains", "tt"),
    ("cos", "f"),
    ("cosh", "f"),
    ("cot", "f"),
    ("current_date", ""),
    ("current_time", ""),
    ("date_bin", "vs"),
    ("date_bin", "vd"),
    ("date_part", "us"),
    ("date_part", "ud"),
    ("date_part", "uv"),
    ("date_trunc", "us"),
    ("date_trunc", "ud"),
    ("degrees", "f"),
    ("ends_with", "tt"),
    ("exp", "f"),
    ("factorial", "i"),
    ("find_in_set", "tt"),
    ("floor", "f"),
    ("floor", "m"),
    ("from_unixtime", "i"),
    ("from_unixtime", "iz"),
    ("gcd", "ii"),
    ("get_field", "tt"),
    ("greatest", "ii"),
    ("greatest", "ft"),
    ("initcap", "t"),
    ("isnan", "f"),
    ("iszero", "f"),
    ("lcm", "ii"),
    ("least", "tt"),
    ("left", "ti"),
    ("levenshtein", "tt"),
    ("ln", "f"),
    ("log", "f"),
    ("log", "ff"),
    ("log", "mm"),
    ("log10", "f"),
    ("log2", "f"),
    ("lower", "t"),
    ("lpad", "ti"),
    ("lpad", "tit"),
    ("ltrim", "tt"),
    ("make_date", "iii"),
    ("make_time", "iii"),
    ("named_struct", "ti"),
    ("nanvl", "ff"),
    ("now", ""),
    ("nullif", "it"),
    ("nullif", "ii"),
    ("nvl", "ii"),
    ("nvl2", "iii"),
    ("octet_length", "t"),
    ("overlay", "tti"),
    ("overlay", "ttii"),
    ("pi", ""),
    ("power", "ff"),
    ("power", "ii"),
    ("radians", "f"),
    ("random", ""),
    ("regexp_count", "tp"),
    ("regexp_count", "tpi"),
    ("regexp_instr", "tp"),
    ("regexp_instr", "tpii"),
    ("regexp_like", "tp"),
    ("regexp_like", "tpg"),
    ("regexp_match", "tp"),
    ("regexp_match", "tpg"),
    ("regexp_replace", "tpt"),
    ("regexp_replace", "tptg"),
    ("repeat", "ti"),
    ("replace", "ttt"),
    ("reverse", "t"),
    ("right", "ti"),
    ("round", "fi"),
    ("round", "mi"),
    ("round", "ii"),
    ("rpad", "tit"),
    ("rtrim", "tt"),
    ("signum", "f"),
    ("sin", "f"),
    ("sinh", "f"),
    ("split_part", "tti"),
    ("sqrt", "f"),
    ("starts_with", "tt"),
    ("strpos", "tt"),
    ("struct", "it"),
    ("substr", "ti"),
    ("substr", "tii"),
    ("substr_index", "tti"),
    ("tan", "f"),
    ("tanh", "f"),
    ("to_char", "sk"),
    ("to_char", "dk"),
    ("to_date", "t"),
    ("to_date", "tk"),
    ("to_hex", "i"),
    ("to_local_time", "s"),
    ("to_time", "tk"),
    ("to_timestamp", "t"),
    ("to_timestamp", "tk"),
    ("to_timestamp", "f"),
    ("to_timestamp_micros", "tk"),
    ("to_timestamp_millis", "tk"),
];

/// More of them, apart from the others because a list of constants is written with its length.
const MORE: [(&str, &str); 16] = [
    ("encode", "te"),
    ("decode", "te"),
    ("union_tag", "t"),
    ("union_extract", "tt"),
    ("to_timestamp_nanos", "tk"),
    ("to_timestamp_nanos", "i"),
    ("to_timestamp_seconds", "i"),
    ("to_unixtime", "t"),
    ("to_unixtime", "tk"),
    ("translate", "ttt"),
    ("trunc", "fi"),
    ("trunc", "mi"),
    ("try_cast_to_type", "ti"),
    ("upper", "t"),
    ("uuid", ""),
    ("date_diff", "uds"),
];

/// Arguments of a kind: columns first, then constants.
fn arguments(kind: char) -> &'static [&'static str] {
    match kind {
        'i' => &["h.i", "q.n", "-1", "0", "9223372036854775807", "1099511627776", "NULL"],
        'f' => &["h.f", "q.n", "-0.5", "0", "1e308", "CAST('NaN' AS DOUBLE)", "NULL"],
        'm' => &["h.m", "99999999999999999999999999999.5", "-1.5", "NULL"],
        't' => &["h.t", "''", "'('", "'2025-02-30'", "'é漢'", "NULL"],
        'p' => &["h.t", "'('", "'[a-z'", "'a{100000}{100000}'", "'.*'", "''", "NULL"],
        'g' => &["'i'", "h.t", "'q'", "''", "NULL"],
        'u' => {
            &["'month'", "'mont'", "''", "'nanosecond'", "'epoch'", "'millennium'", "h.t", "NULL"]
        }
        'd' => &["h.d", "DATE '2024-02-29'", "NULL"],
        's' => &["h.s", "TIMESTAMP '2024-02-29 12:00:00'", "NULL"],
        'v' => &["INTERVAL '1 day'", "INTERVAL '200000000 years'", "INTERVAL '0 days'"],
        'k' => &["'%Y-%m-%d'", "'YYYY-MM-DD'", "'%Q'", "''", "h.t", "NULL"],
        'z' => &["'UTC'", "'Mars/Olympus'", "h.t", "''", "NULL"],
        'e' => &["'hex'", "'base64'", "'rot13'", "h.t", "NULL"],
        'y' => &["'Int8'", "'Nonsense'", "'Interval(YearMonth)'", "'Timestamp(ns)'"],
        other => panic!("{other}"),
    }
}

/// Calls in which one argument at a time is another one, and some in which all are.
fn calls(name: &str, kinds: &str) -> Vec<String> {
    let options: Vec<&[&str]> = kinds.chars().map(arguments).collect();
    let first = |i: usize| options.iter().map(move |of| of[i.min(of.len() - 1)]);
    let mut lists: Vec<Vec<&str>> = (0..7).map(|i| first(i).collect()).collect();
    for (place, of) in options.iter().enumerate() {
        for argument in *of {
            let mut list: Vec<&str> = first(0).collect();
            list[place] = argument;
            lists.push(list);
        }
    }
    let written: BTreeSet<String> =
        lists.iter().map(|list| format!("{name}({})", list.join(", "))).collect();
    written.into_iter().collect()
}

const COUNT: &str = "(SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people) AS q";

/// Expressions that are no calls.
const EXPRESSIONS: [&str; 48] = [
    "q.n / h.i",
    "q.n % h.i",
    "q.n * h.i",
    "q.n - h.i",
    "-h.i",
    "h.m * h.m",
    "h.m / 0",
    "h.f / 0",
    "h.i & q.n",
    "h.i << q.n",
    "h.i >> h.i",
    "h.i # 3",
    "h.d + INTERVAL '200000000 years'",
    "h.d - INTERVAL '200000000 years'",
    "h.d + h.i * INTERVAL '1 day'",
    "h.s + INTERVAL '300000 years'",
    "h.s - INTERVAL '300000 years'",
    "h.s - TIMESTAMP '2024-02-29 12:00:00'",
    "h.d - DATE '2024-02-29'",
    "DATE '2024-02-29' + q.n",
    "INTERVAL '100000000 years' + INTERVAL '100000000 years'",
    "h.t || h.t",
    "h.t LIKE h.t",
    "h.t LIKE '%('",
    "h.t LIKE 'a' ESCAPE 'b'",
    "h.t ILIKE h.t",
    "h.t ~ '('",
    "h.t ~ h.t",
    "h.t !~* h.t",
    "h.t -> 'a'",
    "h.t @> h.t",
    "CAST(h.t AS BIGINT)",
    "CAST(h.t AS DATE)",
    "CAST(h.t AS TIMESTAMP)",
    "CAST(h.t AS BOOLEAN)",
    "CAST(h.t AS INTERVAL)",
    "CAST(h.i AS TINYINT)",
    "CAST(h.f AS BIGINT)",
    "CAST(h.f AS DECIMAL(3, 2))",
    "CAST(h.i AS TIMESTAMP)",
    "CAST(h.b AS DATE)",
    "CAST(h.i AS TIME)",
    "TRY_CAST(h.i AS TIME)",
    "TRY_CAST(h.i AS DATE)",
    "TRY_CAST(h.i AS TIMESTAMP)",
    "CAST('x' AS BIGINT)",
    "EXTRACT(CENTURY FROM h.d)",
    "(SELECT i FROM hostile)",
];

/// Aggregates and windows over a released number and public ones.
const AGGREGATES: [&str; 54] = [
    "percentile_cont(h.f, 2)",
    "percentile_cont(h.f, -1)",
    "percentile_cont(h.f, h.f)",
    "percentile_cont(h.f, 0.5)",
    "quantile(h.i, NULL)",
    "approx_percentile_cont(h.f, 3)",
    "median(h.i)",
    "median(h.m)",
    "median(h.d)",
    "nth_value(h.i, 0)",
    "nth_value(h.i, -9223372036854775808)",
    "nth_value(h.i, 2)",
    "nth_value(h.i, h.i)",
    "string_agg(h.t, ',')",
    "string_agg(h.t, h.t)",
    "string_agg(h.t, NULL)",
    "approx_distinct(h.i)",
    "approx_distinct(h.m)",
    "approx_distinct(h.b)",
    "approx_distinct(h.s)",
    "array_agg(h.t)",
    "array_agg(h.i)",
    "avg(h.i)",
    "avg(h.m)",
    "avg(h.m * 10)",
    "avg(h.f)",
    "sum(h.i)",
    "sum(h.m)",
    "sum(h.f)",
    "sum(DISTINCT h.m)",
    "sum(INTERVAL '100000000 years')",
    "sum(h.s - TIMESTAMP '2024-02-29 12:00:00')",
    "avg(h.s - TIMESTAMP '2024-02-29 12:00:00')",
    "count(DISTINCT h.m)",
    "count(DISTINCT h.t)",
    "min(h.t)",
    "max(h.b)",
    "min(h.s)",
    "bit_and(h.i)",
    "bit_xor(h.f)",
    "bool_and(h.b)",
    "bool_or(h.i)",
    "corr(h.f, h.i)",
    "covar_pop(h.f, h.f)",
    "regr_slope(h.f, h.i)",
    "regr_r2(h.f, h.f)",
    "stddev(h.f)",
    "stddev_pop(h.i)",
    "var(h.m)",
    "var_pop(h.f)",
    "first_value(h.t)",
    "last_value(h.d)",
    "any_value(h.t)",
    "grouping(h.t)",
];

const WINDOWS: [&str; 42] = [
    "nth_value(q.n, 0) OVER (ORDER BY h.i)",
    "nth_value(q.n, -9223372036854775808) OVER (ORDER BY h.i)",
    "nth_value(q.n, 9223372036854775807) OVER (ORDER BY h.i)",
    "nth_value(q.n, h.i) OVER (ORDER BY h.i)",
    "nth_value(q.n, NULL) OVER (ORDER BY h.i)",
    "ntile(0) OVER (ORDER BY h.i)",
    "ntile(-1) OVER (ORDER BY h.i)",
    "ntile(NULL) OVER (ORDER BY h.i)",
    "ntile(h.i) OVER (ORDER BY h.i)",
    "ntile(9223372036854775807) OVER (ORDER BY h.i)",
    "lead(q.n, 1, 'x') OVER (ORDER BY h.i)",
    "lead(q.n, 1, NULL) OVER (ORDER BY h.i)",
    "lead(q.n, 1, h.i) OVER (ORDER BY h.i)",
    "lag(h.t, 1, 5) OVER (ORDER BY h.i)",
    "lag(h.d, 1, 'x') OVER (ORDER BY h.i)",
    "lag(q.n, -9223372036854775808) OVER (ORDER BY h.i)",
    "lead(q.n, 9223372036854775807) OVER (ORDER BY h.i)",
    "lag(q.n, h.i) OVER (ORDER BY h.i)",
    "lag(q.n, 1.5) OVER (ORDER BY h.i)",
    "rank() OVER (ORDER BY h.b)",
    "cume_dist() OVER (ORDER BY h.f)",
    "percent_rank() OVER (ORDER BY h.m)",
    "row_number() OVER (PARTITION BY h.t ORDER BY h.s)",
    "first_value(h.t) OVER (ORDER BY h.f)",
    "avg(h.m) OVER (ORDER BY h.i)",
    "sum(h.m) OVER (ORDER BY h.i)",
    "sum(h.i) OVER (ORDER BY h.i RANGE BETWEEN 9223372036854775807 PRECEDING AND CURRENT ROW)",
    "sum(h.i) OVER (ORDER BY h.i RANGE BETWEEN 5 PRECEDING AND 9223372036854775807 FOLLOWING)",
    "count(*) OVER (ORDER BY h.f RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "count(*) OVER (ORDER BY h.m RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "count(*) OVER (ORDER BY h.d RANGE BETWEEN INTERVAL '200000000 years' PRECEDING AND CURRENT ROW)",
    "count(*) OVER (ORDER BY h.s RANGE BETWEEN INTERVAL '300000 years' PRECEDING AND CURRENT ROW)",
    "count(*) OVER (ORDER BY h.s RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)",
    "count(*) OVER (ORDER BY h.d RANGE BETWEEN CURRENT ROW AND INTERVAL '1 day' FOLLOWING)",
    "count(*) OVER (ORDER BY h.t RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "count(*) OVER (ORDER BY h.b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "percentile_cont(h.f, 2) OVER (ORDER BY h.i)",
    "string_agg(h.t, ',') OVER (ORDER BY h.i)",
    "string_agg(h.t, ',') OVER (ORDER BY h.i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "avg(DISTINCT h.i) OVER (ORDER BY h.i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "sum(h.i) OVER (ORDER BY h.i ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)",
    "rank() OVER (ORDER BY h.i GROUPS BETWEEN 1 FOLLOWING AND CURRENT ROW)",
];

fn hostile() -> RecordBatch {
    let whole = [i64::MIN, i64::MAX, -1, 0, 1, 13, 64, 1_114_112].map(Some);
    let whole: ArrayRef = Arc::new(Int64Array::from_iter(whole.into_iter().chain([None])));
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e308, -1e308, 0.5, 1e-320];
    let floats: ArrayRef =
        Arc::new(Float64Array::from_iter(floats.map(Some).into_iter().chain([None])));
    let texts =
        ["", "a", "(", "é漢", "2025-02-30", "99999999999999999999", "%Q", "month"].map(Some);
    let texts: ArrayRef = Arc::new(StringArray::from_iter(texts.into_iter().chain([None])));
    let days = [-719_162, 2_932_896, 0, 1, 19_782, 106_751, -106_751, 90_000].map(Some);
    let days = Date32Array::from_iter(days.into_iter().chain([None]));
    let moments = [
        -62_135_596_800_000_000_i64,
        253_402_300_799_999_999,
        0,
        1,
        -1,
        1_709_208_000_000_000,
        9_223_372_036_854_775,
        9_300_000_000_000_000,
    ];
    let moments = TimestampMicrosecondArray::from_iter(moments.map(Some).into_iter().chain([None]));
    let most = 10_i128.pow(38) - 1;
    let decimals = [most, -most, most, most, 0, 1, -1, 5].map(Some);
    let decimals = Decimal128Array::from_iter(decimals.into_iter().chain([None]))
        .with_precision_and_scale(38, 8)
        .unwrap();
    let yes = (0..8).map(|i| Some(i % 2 == 0)).chain([None]).collect::<BooleanArray>();
    let columns: [(&str, ArrayRef); 7] = [
        ("i", whole),
        ("f", floats),
        ("t", texts),
        ("d", Arc::new(days)),
        ("s", Arc::new(moments)),
        ("m", Arc::new(decimals)),
        ("b", Arc::new(yes)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true))).unwrap()
}

async fn session() -> Analyst {
    let engine = Engine::in_memory().unwrap();
    let people: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    engine.register_batch("people", RecordBatch::try_from_iter([("id", people)]).unwrap()).unwrap();
    engine.register_batch("hostile", hostile()).unwrap();
    for statement in [
        "ALTER TABLE people SET PRIVACY UNIT ROW",
        "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000000)",
        "ALTER TABLE hostile SET PUBLIC",
    ] {
        engine.owner().execute(statement).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

fn spent(session: &Session) -> i64 {
    session.budgets().unwrap().iter().map(|budget| budget.spent.nano).sum()
}

/// Asks; whether it was answered. What is neither answered nor refused before its charge is an
/// error.
async fn answered(session: &Session, sql: &str) -> Result<bool, String> {
    let before = spent(session);
    match session.query(sql).await {
        Ok(_) => Ok(true),
        Err(Error::Execution) => Err("it failed while it ran".to_owned()),
        Err(Error::Internal) => Err("the engine's own checks failed".to_owned()),
        Err(_) if spent(session) > before => Err("it was charged and refused".to_owned()),
        Err(_) => Ok(false),
    }
}

async fn all_answered_or_free(statements: Vec<String>, least: usize) {
    let session = session().await;
    let (mut wrong, mut answers) = (Vec::new(), 0);
    let asked = statements.len();
    for sql in statements {
        match answered(&session, &sql).await {
            Ok(yes) => answers += usize::from(yes),
            Err(how) => wrong.push(format!("{sql}: {how}")),
        }
    }
    println!("{answers} of {asked} statements were answered");
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(answers >= least, "{answers} of {asked} statements were answered");
}

#[tokio::test]
async fn every_scalar_function_above_a_release_is_answered_or_free() {
    let listed: BTreeSet<&str> = SCALARS.iter().chain(&MORE).map(|(name, _)| *name).collect();
    let known: BTreeSet<String> = function_names().into_iter().collect();
    for function in SessionStateDefaults::default_scalar_functions() {
        let name = function.name();
        assert!(listed.contains(name) || !known.contains(name), "{name} is tried by no call");
    }
    let calls = SCALARS.iter().chain(&MORE).flat_map(|(name, kinds)| calls(name, kinds));
    let asked =
        |call: String| format!("SELECT q.n, {call} AS v FROM {COUNT} CROSS JOIN hostile AS h");
    all_answered_or_free(calls.map(asked).collect(), 700).await;
}

#[tokio::test]
async fn every_operator_and_cast_above_a_release_is_answered_or_free() {
    let asked = |of: &&str| format!("SELECT q.n, {of} AS v FROM {COUNT} CROSS JOIN hostile AS h");
    all_answered_or_free(EXPRESSIONS.iter().map(asked).collect(), 20).await;
}

#[tokio::test]
async fn every_aggregate_above_a_release_is_answered_or_free() {
    let grouped = AGGREGATES.iter().flat_map(|call| {
        ["", " GROUP BY h.b", " GROUP BY h.t", " GROUP BY q.n"].map(|group| {
            format!("SELECT MAX(q.n) AS n, {call} AS v FROM {COUNT} CROSS JOIN hostile AS h{group}")
        })
    });
    all_answered_or_free(grouped.collect(), 100).await;
}

#[tokio::test]
async fn every_window_above_a_release_is_answered_or_free() {
    let asked =
        |call: &&str| format!("SELECT q.n, {call} AS v FROM {COUNT} CROSS JOIN hostile AS h");
    all_answered_or_free(WINDOWS.iter().map(asked).collect(), 10).await;
}
