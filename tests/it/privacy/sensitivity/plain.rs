//! What is computed of rows, before any bound: the values of plain SQL.
//!
//! Random expressions, aggregates of one person's rows and windows over them, on rows whose values
//! lie in their domains. Left out are divisions, since x / 0 is NULL here, CLAMP, which plain SQL
//! does not have, and comparisons of differences with intervals. Where plain SQL fails, as casts
//! do, there is nothing to compare with. What SQLite has too is compared with SQLite.

use arrow::util::display::array_value_to_string;
use datafusion::prelude::SessionContext;
use rusqlite::Connection;

use super::query::{any, compares_spans, days, text};
use super::*;
use crate::privacy::noiseless::plain_session;
use crate::privacy::sqlite;

/// Rows of four people, every value within its column's domain; `tn` tells rows apart.
fn tame(dice: &mut Dice, n: usize) -> RecordBatch {
    let columns = columns().into_iter().map(|(name, kind, data_type, _)| {
        let values: Vec<Value> = (0..n)
            .map(|i| match name {
                "id" => Value::Int(dice.pick(&[1, 2, 3, 4])),
                "tn" => Value::Int(19_723 + i as i64),
                _ if dice.one_in(6) => Value::Null,
                "i4" => Value::Int(dice.pick(&[0, 3, 6, 9])),
                "u8" | "u2" => Value::Int(dice.pick(&[2, 3, 5])),
                "m" => Value::Float(dice.pick(&[-5.25, -0.5, 0.0, 1.25, 7.5])),
                "n" => Value::Float(dice.pick(&[-3.0, 0.0, 8.0])),
                _ => match kind {
                    Kind::Int => Value::Int(dice.below(6) as i64),
                    Kind::Float => Value::Float(dice.pick(&[-1.0, 0.0, 0.5, 1.0, 1.5, 2.0])),
                    Kind::Text => Value::Text(dice.pick(&["p", "q", "p", "q"])),
                    Kind::Time => Value::Int(19_723 + dice.below(366) as i64),
                    Kind::Flag => Value::Int(dice.below(2) as i64),
                },
            })
            .collect();
        column(kind, values.iter(), &data_type)
    });
    RecordBatch::try_new(schema(), columns.collect()).unwrap()
}

/// A random value of one row.
fn value(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => text(dice),
        1 => days(dice),
        2 => predicate(dice, 2),
        3 => any(dice),
        _ => {
            let depth = 1 + dice.below(2);
            number(dice, depth)
        }
    }
}

/// An aggregate of one person's rows.
fn aggregate(dice: &mut Dice) -> String {
    let depth = dice.below(2);
    let call = match dice.below(9) {
        7 => format!("{}({})", dice.pick(&["BOOL_OR", "BOOL_AND"]), predicate(dice, 1)),
        8 => format!("MEDIAN({})", number(dice, depth)),
        0 => format!("COUNT({})", value(dice)),
        1 => format!("COUNT(DISTINCT {})", value(dice)),
        2 | 3 => format!("SUM({})", number(dice, depth)),
        4 => format!("AVG({})", number(dice, depth)),
        5 => format!("MIN({})", value(dice)),
        _ => format!("MAX({})", value(dice)),
    };
    match dice.one_in(2) {
        true => format!("{call} FILTER (WHERE {})", predicate(dice, 1)),
        false => call,
    }
}

/// Orders without ties.
const ORDERS: [&str; 4] =
    ["tn", "tn DESC", "a NULLS LAST, tn", "x DESC NULLS LAST, c NULLS LAST, tn"];

/// A window over one person's rows, in an order without ties.
fn window(dice: &mut Dice) -> String {
    const FRAMES: [&str; 6] = [
        "",
        "",
        " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        " ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
        " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    ];
    let depth = dice.below(2);
    let (call, frame) = match dice.below(10) {
        0 => (dice.pick(&["ROW_NUMBER()", "RANK()", "DENSE_RANK()", "NTILE(2)"]).to_owned(), ""),
        1 => (dice.pick(&["PERCENT_RANK()", "CUME_DIST()"]).to_owned(), ""),
        2 => {
            let more = dice.pick(&["", "", ", 2", ", 1, NULL"]);
            (format!("{}({}{more})", dice.pick(&["LAG", "LEAD"]), value(dice)), "")
        }
        3 => (
            format!("{}({})", dice.pick(&["FIRST_VALUE", "LAST_VALUE"]), value(dice)),
            dice.pick(&FRAMES),
        ),
        4 => (format!("NTH_VALUE({}, 2)", value(dice)), dice.pick(&FRAMES)),
        5 => (format!("COUNT({})", value(dice)), dice.pick(&FRAMES)),
        6 => (format!("{}({})", dice.pick(&["MIN", "MAX"]), value(dice)), dice.pick(&FRAMES)),
        _ => {
            (format!("{}({})", dice.pick(&["SUM", "AVG"]), number(dice, depth)), dice.pick(&FRAMES))
        }
    };
    let by = dice.pick(&["id", "id", "id, s", "id, a"]);
    let order = dice.pick(&ORDERS);
    format!("{call} OVER (PARTITION BY {by} ORDER BY {order}{frame})")
}

/// Values of rows or of people, as a subquery of `id` and `v`.
fn random_values(dice: &mut Dice) -> String {
    let condition = match dice.below(4) {
        0 | 1 => format!(" WHERE {}", predicate(dice, 1)),
        2 => format!(" WHERE {}", sqlite::narrowed(dice, "a", Some("m"))),
        _ => String::new(),
    };
    match dice.below(8) {
        0..=2 => format!("SELECT id, {} AS v FROM t{condition}", value(dice)),
        3 | 4 => {
            let by = dice.pick(&["id", "id", "id, s", "id, a, f", "id, UPPER(c)"]);
            let having = dice.pick(&["", "", " HAVING COUNT(*) > 2"]);
            format!("SELECT id, {} AS v FROM t{condition} GROUP BY {by}{having}", aggregate(dice))
        }
        5 => format!("SELECT DISTINCT id, {} AS v FROM t{condition}", value(dice)),
        6 => format!("SELECT id, {} AS v FROM t{condition}", window(dice)),
        _ => format!(
            "SELECT id, v FROM (SELECT id, {} AS v, {} AS o FROM t{condition}) AS p WHERE o IS NOT NULL",
            window(dice),
            window(dice)
        ),
    }
}

/// The values that are not NULL, as texts, in order.
fn texts(batches: &[RecordBatch], at: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for batch in batches {
        let column = batch.column(at);
        for i in (0..batch.num_rows()).filter(|i| column.is_valid(*i)) {
            let text = array_value_to_string(column, i).unwrap();
            // Here is one 0.
            texts.push(if text == "-0.0" { "0.0".to_owned() } else { text });
        }
    }
    texts.sort_unstable();
    texts
}

#[allow(clippy::disallowed_methods, reason = "compared with plain SQL, on rows that nobody owns")]
async fn plainly(sql: &str, rows: &RecordBatch) -> datafusion::common::Result<Vec<String>> {
    let context = plain_session(sql);
    context.register_batch("t", rows.clone())?;
    Ok(texts(&context.sql(sql).await?.collect().await?, 1))
}

/// SQLite over the same rows, with a whole number in the place of `tn` where that puts them in
/// order.
fn second(rows: &RecordBatch) -> Connection {
    let days = rows.column_by_name("tn").unwrap();
    let days: ArrayRef = cast(days, &DataType::Int64).unwrap();
    let mut fields: Vec<_> = rows.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.push(Field::new("ordinal", DataType::Int64, true));
    let mut columns = rows.columns().to_vec();
    columns.push(days);
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    sqlite::holding([("t", rows)])
}

/// The values that are not NULL by SQLite, if it has what they are made of.
fn by_sqlite(sql: &str, second: &Connection) -> Option<Vec<String>> {
    // The mean of decimals has four more digits than they have, and no others. DataFusion makes
    // `x NOT IN (1) AND x IN (1, NULL)` NULL where it is false; see docs/upstream.md, 29. SQLite
    // rounds what its shortest text says, and to no place before the point.
    let rounds = sql.contains("round(") || sql.contains("trunc(");
    // It writes a truth value as a number.
    let joins_flags = sql.contains("CONCAT(") && sql.contains(", f)");
    if rounds || joins_flags || sql.matches("a IN (1, 3, ").count() > 1 {
        return None;
    }
    let mut words = sql.split(|c: char| !c.is_alphanumeric());
    if sql.contains("AVG(") && words.any(|word| ["m", "n"].contains(&word)) {
        return None;
    }
    let mut sql = sql.to_owned();
    for order in ORDERS {
        let order = format!("ORDER BY {order}");
        sql = sql.replace(&order, &order.replace("tn", "ordinal"));
    }
    let rows = sqlite::asked(second, &sql)?.into_iter();
    let mut values: Vec<String> = rows.filter_map(|mut row| row.swap_remove(1)).collect();
    values.sort_unstable();
    Some(values)
}

#[derive(Debug, Default)]
struct Compared {
    refused: usize,
    failed: usize,
    equal: usize,
    values: usize,
    /// Compared with SQLite too, and of these the ones with a cast that loses something.
    twice: usize,
    narrowed: usize,
    signed: usize,
}

async fn compared(seed: u64, wanted: usize) -> Compared {
    let mut dice = Dice(seed);
    let state = single_partition();
    let context = SessionContext::new_with_state(state);
    let unit = Unit::Column { column: "id".into(), max_rows: Some(100), unique: false };
    let world = world(unit);
    let mut seen = Compared::default();
    while seen.equal < wanted {
        let sql = random_values(&mut dice);
        let released = format!("SELECT LAPLACE(eps=1) COUNT(v) FROM ({sql}) AS q");
        if [" / ", " % ", "CLAMP("].iter().any(|odd| sql.contains(odd)) || compares_spans(&sql) {
            continue;
        }
        // The scale of a rounded decimal follows from its places, which plain DataFusion knows
        // after it has simplified casts only.
        let of_decimals = sql
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| ["m", "n", "DECIMAL"].contains(&word));
        if sql.contains("round(") && of_decimals {
            continue;
        }
        let Some(analysis) = analyzed(&released, &world) else {
            seen.refused += 1;
            continue;
        };
        let part = &analysis.parts()[0];
        let rows = tame(&mut dice, 40);
        let Ok(plain) = plainly(&sql, &rows).await else {
            seen.failed += 1;
            continue;
        };
        let second = second(&rows);
        world.swap.set(vec![rows]);
        let own = context.execute_logical_plan(part.input().clone()).await.unwrap();
        let own = texts(&own.collect().await.unwrap(), part.arguments_start());
        let expected = by_sqlite(&sql, &second);
        // Casts round, as those of PostgreSQL and of SQLite here, and a decimal beside a float is a
        // float; plain DataFusion cuts numbers off, and makes a decimal of both.
        let rounds = ["INT)", "UNSIGNED)", "TIMESTAMP(0)"].iter().any(|to| sql.contains(to));
        // Plain DataFusion takes whole numbers of fewer than 64 bits for nanoseconds, not seconds.
        let seconds = ["i1", "i2", "i4", "u1", "u2", "u4"]
            .iter()
            .any(|number| sql.contains(&format!("CAST({number} AS TIMESTAMP")));
        // Plain DataFusion has two zeros, which SQLite and HushQL do not.
        if own != plain && !rounds && !of_decimals && !seconds {
            seen.signed += 1;
            let makes_zeros =
                ["(-", " * ", "round(", "trunc("].iter().any(|zero| sql.contains(zero));
            assert!(
                makes_zeros && seen.signed <= 1 + wanted / 200,
                "{seed}: {sql}\n{own:?}\n{plain:?}"
            );
        }
        if let Some(expected) = expected {
            let mut own: Vec<String> = own.iter().map(|text| sqlite::canonical(text)).collect();
            own.sort_unstable();
            assert_eq!(own, expected, "{seed}, SQLite: {sql}");
            seen.twice += 1;
            seen.narrowed += usize::from(sql.contains("TRY_CAST("));
        }
        seen.equal += 1;
        seen.values += plain.len();
    }
    seen
}

/// The values `v` of a subquery of `id` and `v`.
async fn ours(
    sql: &str,
    rows: &RecordBatch,
    context: &SessionContext,
    world: &World,
) -> Vec<String> {
    let released = format!("SELECT LAPLACE(eps=1) COUNT(v) FROM ({sql}) AS q");
    let Some(analysis) = analyzed(&released, world) else { panic!("refused: {released}") };
    let part = &analysis.parts()[0];
    world.swap.set(vec![rows.clone()]);
    let own = context.execute_logical_plan(part.input().clone()).await.unwrap();
    texts(&own.collect().await.unwrap(), part.arguments_start())
}

/// Without a domain, whole numbers have a range as wide as their types, and are summed without loss
/// all the same.
#[tokio::test]
async fn means_of_whole_numbers_of_wide_types_are_exact() {
    let context = SessionContext::new_with_state(single_partition());
    let world = world(Unit::Column { column: "id".into(), max_rows: Some(100), unique: false });
    let rows = tame(&mut Dice(2), 40);
    let second = second(&rows);
    for call in ["AVG(i2 * u4)", "AVG(i1 * u4 * u2)", "SUM(1.0 * i2 * u4)", "AVG(u4 * 1024)"] {
        let sql = format!("SELECT id, {call} AS v FROM t GROUP BY id");
        let own = ours(&sql, &rows, &context, &world).await;
        let mut own: Vec<String> = own.iter().map(|text| sqlite::canonical(text)).collect();
        own.sort_unstable();
        assert_eq!(Some(own), by_sqlite(&sql, &second), "{sql}");
    }
}

/// The time between two moments is compared by its length, where a month has 30 days.
#[tokio::test]
async fn differences_are_compared_by_their_length() {
    let context = SessionContext::new_with_state(single_partition());
    let world = world(Unit::Column { column: "id".into(), max_rows: Some(100), unique: false });
    let rows = tame(&mut Dice(3), 60);
    let days = |days: i64| days * 86_400_000_000;
    let mut told = BTreeSet::new();
    for (x, y) in [
        ("ts", "CAST(t3 AS TIMESTAMP)"),
        ("CAST(d AS TIMESTAMP)", "ts"),
        ("CAST(t0 AS TIMESTAMP)", "TIMESTAMP '2024-03-01 12:00:00'"),
    ] {
        let length = format!("date_diff('microsecond', {y}, {x})");
        let mut pairs = vec![(
            format!("{x} - {y} NOT BETWEEN INTERVAL '-26 days' AND INTERVAL '3 weeks'"),
            format!("{length} NOT BETWEEN {} AND {}", days(-26), days(21)),
        )];
        for op in ["<", "<=", ">", ">=", "=", "<>"] {
            for (by, length_of) in [
                ("30 days", days(30)),
                ("-2 months", days(-60)),
                ("1 month 3 days", days(33)),
                ("0 days", 0),
                ("36 hours", days(3) / 2),
            ] {
                pairs.push((
                    format!("{x} - {y} {op} INTERVAL '{by}'"),
                    format!("{length} {op} {length_of}"),
                ));
                pairs.push((
                    format!("INTERVAL '{by}' {op} {x} - {y}"),
                    format!("{length_of} {op} {length}"),
                ));
            }
        }
        for (compared, counted) in pairs {
            let of = |value: &str| format!("SELECT id, ({value}) AS v FROM t");
            let own = ours(&of(&compared), &rows, &context, &world).await;
            assert_eq!(own, ours(&of(&counted), &rows, &context, &world).await, "{compared}");
            told.extend(own);
        }
    }
    assert_eq!(told, ["false", "true"].map(str::to_owned).into());
}

/// What SQLite has under other names.
const THEIRS: [(&str, &str); 7] = [
    ("TRUNC((g - 1) * 0.25)", "(g - g)"),
    ("CEIL((g - 1) * 0.25)", "(g > 1)"),
    ("g / -2", "g * -0.5"),
    ("CAST(g AS FLOAT)", "g"),
    ("CAST(-g AS FLOAT)", "-g"),
    ("TRY_CAST('-0' AS DOUBLE)", "0"),
    ("(g - 1) % 1", "(CASE WHEN g IN (-1, 0, 1, 2) THEN 0 ELSE g - 1 END)"),
];

/// SQL has one zero. Comparisons of DataFusion have two, and a negative, a product, a remainder, a
/// rounded value and a cast make the second.
#[tokio::test]
async fn a_computed_zero_equals_zero() {
    let context = SessionContext::new_with_state(single_partition());
    let world = world(Unit::Column { column: "id".into(), max_rows: Some(100), unique: false });
    let rows = tame(&mut Dice(1), 40);
    let second = second(&rows);
    let zeros = [
        "-g",
        "g * -1",
        "-1 * CAST(g AS FLOAT)",
        "g / -2",
        "(g - 1) % 1",
        "ROUND((g - 1) * 0.25)",
        "TRUNC((g - 1) * 0.25)",
        "CEIL((g - 1) * 0.25)",
        "CAST(-g AS FLOAT)",
        "TRY_CAST('-0' AS DOUBLE) * g",
        "-0.0 * g",
        "-(-g)",
        "CASE WHEN g > -5 THEN -g END",
    ];
    for zero in zeros {
        for equal in [
            format!("{zero} = 0"),
            format!("{zero} >= 0 AND {zero} <= 0"),
            format!("{zero} IN (0, 7)"),
            format!("0 BETWEEN {zero} AND 0"),
            format!("CASE {zero} WHEN 0 THEN TRUE END"),
            format!("NULLIF({zero}, 0) IS NULL AND g IS NOT NULL"),
        ] {
            let sql = format!("SELECT id, 3 AS v FROM t WHERE {equal}");
            let own = ours(&sql, &rows, &context, &world).await;
            let theirs =
                THEIRS.iter().fold(sql.clone(), |sql, (own, theirs)| sql.replace(own, theirs));
            let expected = sqlite::asked(&second, &theirs).expect(&theirs);
            assert!(!own.is_empty() && own.len() == expected.len(), "{own:?}, {expected:?}: {sql}");
        }
    }
}

#[tokio::test]
async fn values_of_rows_are_those_of_plain_sql() {
    let seen = compared(1, 500).await;
    println!("{seen:?}");
    assert!(seen.values > 5_000, "{seen:?}");
    assert!(seen.twice > 100 && seen.narrowed > 30, "{seen:?}");
}

/// The long run: `cargo test --release --test it those_of_plain_sql -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "long: half an hour"]
async fn values_of_rows_are_those_of_plain_sql_in_50000_queries() {
    for seed in 100..150 {
        println!("{seed}: {:?}", compared(seed, 1_000).await);
    }
}
