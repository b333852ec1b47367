//! A second opinion: SQLite over the rows of a test. It shares nothing with DataFusion, whose own
//! mistakes plain DataFusion makes too.
//!
//! In: tables, and a query of plain SQL. Out: what SQLite answers, or nothing where it lacks what
//! the query is made of: functions of dates, casts, quotients (whole numbers divide otherwise).

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use rusqlite::Connection;
use rusqlite::types::Value;

/// SQLite with these tables. Columns of other types than numbers, texts and truth values are left
/// out: what names them is not answered.
pub fn holding<'a>(tables: impl IntoIterator<Item = (&'a str, RecordBatch)>) -> Connection {
    let sqlite = Connection::open_in_memory().unwrap();
    sqlite.execute_batch("PRAGMA case_sensitive_like = ON").unwrap();
    for (name, batch) in tables {
        let schema = batch.schema();
        let fields = schema.fields().iter().enumerate();
        let known: Vec<_> =
            fields.filter_map(|(i, f)| Some((i, f.name(), affinity(f.data_type())?))).collect();
        let columns: Vec<String> =
            known.iter().map(|(_, name, of)| format!("{name} {of}")).collect();
        sqlite.execute(&format!("CREATE TABLE {name} ({})", columns.join(", ")), []).unwrap();
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO {name} VALUES ({places})");
        for row in 0..batch.num_rows() {
            let row = known.iter().map(|(i, ..)| value(batch.column(*i), row));
            sqlite.execute(&insert, rusqlite::params_from_iter(row)).unwrap();
        }
    }
    sqlite
}

fn affinity(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Boolean => Some("INTEGER"),
        whole if whole.is_integer() => Some("INTEGER"),
        DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) => Some("REAL"),
        text if text.is_string() => Some("TEXT"),
        _ => None,
    }
}

fn value(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    let text = array_value_to_string(column, row).unwrap();
    match affinity(column.data_type()) {
        Some("INTEGER") if text == "true" => Value::Integer(1),
        Some("INTEGER") if text == "false" => Value::Integer(0),
        Some("INTEGER") => Value::Integer(text.parse().unwrap()),
        Some("REAL") => Value::Real(text.parse().unwrap()),
        _ => Value::Text(text),
    }
}

/// The rows of a query, each value as [`canonical`] text and NULL as none; `None` for what SQLite
/// lacks.
pub fn asked(sqlite: &Connection, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
    let sql = translated(sql)?;
    let mut statement = sqlite.prepare(&sql).ok()?;
    let columns = statement.column_count();
    let text = |value: Value| match value {
        Value::Null => None,
        Value::Integer(whole) => Some(canonical(&whole.to_string())),
        Value::Real(real) => Some(canonical(&real.to_string())),
        Value::Text(text) => Some(canonical(&text)),
        Value::Blob(_) => panic!("{sql}: no bytes were put in"),
    };
    let rows = statement.query_map([], |row| {
        (0..columns).map(|i| row.get::<_, Value>(i).map(text)).collect::<Result<Vec<_>, _>>()
    });
    rows.unwrap().collect::<Result<_, _>>().ok()
}

/// For each key the numbers of a query's rows, NULL as 0.
pub fn by_key(sqlite: &Connection, sql: &str, keys: usize) -> Option<BTreeMap<String, Vec<f64>>> {
    let rows = asked(sqlite, sql)?.into_iter().map(|row| {
        let key: Vec<String> = row[..keys].iter().map(|k| k.clone().unwrap_or_default()).collect();
        let number = |text: &Option<String>| text.as_ref().map_or(0.0, |t| t.parse().unwrap());
        (key.join(","), row[keys..].iter().map(number).collect())
    });
    Some(rows.collect())
}

/// One text for one value: numbers in seven digits, truth values as numbers.
pub fn canonical(text: &str) -> String {
    match text {
        "true" => canonical("1"),
        "false" => canonical("0"),
        _ => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => format!("{:.6e}", number + 0.0),
            _ => text.to_owned(),
        },
    }
}

/// Texts of keys, one by one.
pub fn canonical_key(key: &str) -> String {
    key.split(',').map(canonical).collect::<Vec<_>>().join(",")
}

/// A random comparison of a narrowing cast with a literal: of a whole number from 0 to 10, and of
/// what is given as it is.
pub fn narrowed(
    dice: &mut crate::privacy::sensitivity::Dice,
    whole: &str,
    decimal: Option<&str>,
) -> String {
    let of_decimal = decimal.filter(|_| dice.one_in(2));
    let (cast, literals) = match of_decimal {
        Some(decimal) => (format!("TRY_CAST({decimal} AS BIGINT)"), ["0", "1", "-5", "7"]),
        None => (format!("TRY_CAST({whole} * 50 AS TINYINT)"), ["100", "50", "0", "-1"]),
    };
    let literal = dice.pick(&literals);
    match dice.below(9) {
        0 => format!("{cast} IN ({literal}, 50, 7)"),
        1 => format!("{cast} NOT IN ({literal}, 50)"),
        2 => format!("({cast} IS DISTINCT FROM {literal})"),
        3 => format!("{literal} < {cast}"),
        4 => format!("NOT ({cast} > {literal})"),
        _ => format!("{cast} {} {literal}", dice.pick(&["=", "<>", "<", ">", ">="])),
    }
}

/// Whether these are the operands of [`narrowed`], and no texts or dates.
fn is_narrowed(operand: &str) -> bool {
    operand.ends_with(" * 50") || operand == "m"
}

/// The same query for SQLite: CLAMP and TRY_CAST written out.
fn translated(sql: &str) -> Option<String> {
    let other = [" / ", " % ", "ILIKE", "interval"];
    if other.iter().any(|word| sql.contains(word)) {
        return None;
    }
    let calls = [sql.find("TRY_CAST("), sql.find("CAST("), sql.find("CLAMP(")];
    let Some(at) = calls.into_iter().flatten().min() else { return Some(sql.to_owned()) };
    let open = at + sql[at..].find('(')?;
    let arguments = arguments(&sql[open + 1..])?;
    let rest = &sql[open + 1 + arguments.iter().map(|a| a.len() + 1).sum::<usize>()..];
    let written = match (&sql[at..open], arguments.as_slice()) {
        ("CLAMP", [x, lo, hi]) => format!("MIN(MAX({}, {lo}), {hi})", translated(x)?),
        ("TRY_CAST", [cast]) => {
            let (x, to) = cast.rsplit_once(" AS ")?;
            let (lo, hi) = match to {
                "TINYINT" => (i64::from(i8::MIN), i64::from(i8::MAX)),
                "BIGINT" => (i64::MIN + 1, i64::MAX),
                _ => return None,
            };
            let x = Some(x).filter(|x| is_narrowed(x))?;
            // SQLite cuts decimals off where a cast rounds them.
            let x = if to == "BIGINT" { format!("ROUND({x})") } else { x.to_owned() };
            format!(
                "(CASE WHEN CAST({x} AS INTEGER) BETWEEN {lo} AND {hi} THEN CAST({x} AS INTEGER) END)"
            )
        }
        _ => return None,
    };
    Some(format!("{}{written}{}", &sql[..at], translated(rest)?))
}

/// The arguments up to the closing bracket, as they are written.
fn arguments(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut quoted, mut from) = (0, false, 0);
    let mut arguments = Vec::new();
    for (i, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => {
                arguments.push(&text[from..i]);
                return Some(arguments);
            }
            ')' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    None
}

#[test]
fn queries_are_written_for_sqlite() {
    assert_eq!(
        translated("SELECT CLAMP(CLAMP(a, 0, 2), -1, 1), COUNT(*) FROM t").unwrap(),
        "SELECT MIN(MAX(MIN(MAX(a,  0),  2),  -1),  1), COUNT(*) FROM t"
    );
    assert_eq!(
        translated("a AND TRY_CAST(t1.a * 50 AS TINYINT) > 3").unwrap(),
        "a AND (CASE WHEN CAST(t1.a * 50 AS INTEGER) BETWEEN -128 AND 127 THEN CAST(t1.a * 50 AS INTEGER) END) > 3"
    );
    assert_eq!(translated("TRY_CAST(s AS TINYINT) > 3"), None);
    assert_eq!(translated("CAST(a AS TINYINT) > 3"), None);
}
