//! Answers, prices and errors as JSON that a program reads.
//!
//! In: what a session returns. Out: objects. A number with an error is an object of both, so that
//! neither travels alone. A number that a double cannot hold exactly is a text.
//!
//! ```text
//! {"columns": ["city", "n"], "rows": [["Oslo", {"value": 120, "error": 3.0}]], "confidence": 0.95,
//!  "receipt": {"cost": "ε = 0.1", "charge": 17, "replayed": false, "left": {"study": "ε = 0.9"}}, "notes": []}
//! ```

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hushql::{Accuracy, AccuracyKind, Answer, Error, PreparedQuery, Receipt};
use serde_json::{Map, Number, Value, json};

/// An answer with its errors, its receipt and its notes.
///
/// # Errors
/// An error of Arrow, if a value has no text.
pub(super) fn answer(answer: &Answer) -> Result<Value, ArrowError> {
    let schema = answer.schema();
    let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
    let has_error: Vec<bool> = names.iter().map(|name| is_within(answer, name)).collect();
    let errors: Vec<Vec<Option<f64>>> =
        (0..names.len()).map(|column| answer.errors(column).collect()).collect();
    let (mut rows, mut first) = (Vec::new(), 0_usize);
    for batch in answer.batches() {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().enumerate().map(|(i, column)| {
                let value = column.get(row).cloned().unwrap_or_default();
                let error = errors.get(i).and_then(|of| of.get(first.saturating_add(row)));
                match has_error.get(i) {
                    Some(true) => {
                        let error = error.copied().flatten().map_or(Value::Null, double);
                        json!({ "value": value, "error": error })
                    }
                    Some(false) | None => value,
                }
            });
            rows.push(Value::Array(cells.collect()));
        }
        first = first.saturating_add(batch.num_rows());
    }
    let mut all = Map::new();
    all.insert("columns".to_owned(), json!(names));
    all.insert("rows".to_owned(), Value::Array(rows));
    all.insert("accuracy".to_owned(), accuracy(answer.accuracy()));
    all.insert("notes".to_owned(), json!(answer.notes()));
    all.insert("receipt".to_owned(), answer.receipt().map_or(Value::Null, receipt));
    Ok(Value::Object(all))
}

fn is_within(answer: &Answer, name: &str) -> bool {
    let is = |one: &Accuracy| one.column == name && matches!(one.kind, AccuracyKind::Within);
    answer.accuracy().iter().any(is)
}

fn accuracy(all: &[Accuracy]) -> Value {
    let one = |one: &Accuracy| {
        json!({
            "column": one.column,
            "kind": one.kind.to_string(),
            "value": double(one.value),
            "confidence": one.confidence,
        })
    };
    all.iter().map(one).collect()
}

fn receipt(receipt: &Receipt) -> Value {
    let left = receipt
        .left
        .iter()
        .map(|(budget, left)| (budget.clone(), Value::String(left.neat_down().to_string())));
    json!({
        "cost": receipt.spent.neat().to_string(),
        "charge": receipt.sequence,
        "replayed": receipt.is_replayed,
        "left": left.collect::<Map<_, _>>(),
    })
}

/// What a query would cost, and how accurate it would be.
pub(super) fn price(prepared: &PreparedQuery) -> Value {
    let columns = prepared.schema();
    let columns: Vec<&String> = columns.fields().iter().map(|field| field.name()).collect();
    let explanation = prepared.explanation().to_json();
    json!({
        "cost": prepared.cost().neat().to_string(),
        "columns": columns,
        "accuracy": accuracy(prepared.accuracy()),
        "explanation": serde_json::from_str::<Value>(&explanation).unwrap_or(Value::String(explanation)),
    })
}

/// An error, with what to write instead.
pub(super) fn error(error: &Error) -> Value {
    json!({
        "kind": error.kind(),
        "code": error.code(),
        "message": error.message(),
        "instead": error.hint(),
    })
}

/// The values of a batch, column by column.
fn columns(batch: &RecordBatch) -> Result<Vec<Vec<Value>>, ArrowError> {
    batch.columns().iter().map(|column| values(column)).collect()
}

fn values(array: &dyn Array) -> Result<Vec<Value>, ArrowError> {
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array, &options)?;
    // Not `is_null`, which is false for every row of a column of the type NULL.
    let nulls = array.logical_nulls();
    let value = |row: usize| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(Value::Null);
        }
        if let DataType::Boolean = array.data_type() {
            return Ok(Value::Bool(array.as_boolean().value(row)));
        }
        let text = formatter.value(row).try_to_string()?;
        Ok(if array.data_type().is_numeric() { number(text) } else { Value::String(text) })
    };
    (0..array.len()).map(value).collect()
}

/// A number, or its text if a double does not hold all its digits.
fn number(text: String) -> Value {
    const SAFE: u64 = 1 << 53;
    if let Ok(whole) = text.parse::<i64>() {
        return if whole.unsigned_abs() <= SAFE { Value::from(whole) } else { Value::String(text) };
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(number) if digits <= 15 || number.to_string() == text => Value::Number(number),
        Some(_) | None => Value::String(text),
    }
}

fn double(value: f64) -> Value {
    Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        let is = |text: &str| number(text.to_owned());
        assert_eq!(is("17"), json!(17));
        assert_eq!(is("9007199254740993"), json!("9007199254740993"));
        assert_eq!(is("-2.50"), json!(-2.5));
        assert_eq!(is("999999999999.999999"), json!("999999999999.999999"));
        assert_eq!(is("inf"), json!("inf"));
        assert_eq!(is("0.1"), json!(0.1));
    }

    #[tokio::test]
    async fn no_number_travels_without_its_error() {
        let lab = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
        let sql = "SELECT sex, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY sex";
        let told = answer(&lab.query(sql).await.unwrap()).unwrap();
        for row in told["rows"].as_array().unwrap() {
            assert!(row[0].is_string() && row[1]["value"].is_i64() && row[1]["error"].is_f64());
        }
        assert_eq!(told["receipt"]["cost"], json!("ε = 1"));
        assert_eq!(told["columns"], json!(["sex", "n"]));
        let priced = price(&lab.prepare(sql).unwrap());
        assert_eq!(priced["accuracy"][0]["column"], json!("n"));
        let refused = lab.prepare("SELECT age FROM adult").unwrap_err();
        let refused = error(&refused);
        assert_eq!(refused["code"], json!("HQ001"));
        assert!(refused["instead"].is_string());
    }
}
