//! An answer as cells of text, from which every output format starts.
//!
//! In: an [`Answer`]. Out: columns with their accuracies, and rows of [`Cell`]s. This module
//! neither rounds nor cuts values; only accuracies are rounded to three significant digits.
//!
//! ```text
//! Answer { batches, accuracy } ─▶ View { columns: [status, n ± 3], rows: [[Divorced, 4440], …] }
//! ```

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hushql::{AccuracyKind, Answer};
use hushql_engine::visible::rounded;

/// An answer that is ready for output.
#[derive(Debug)]
pub(super) struct View {
    /// The columns, in order.
    pub(super) columns: Vec<AnswerColumn>,
    /// The rows; each as long as `columns`.
    pub(super) rows: Vec<Vec<Cell>>,
    /// One line about the accuracy of each winner.
    pub(super) winners: Vec<String>,
}

/// One column of an answer.
#[derive(Debug)]
pub(super) struct AnswerColumn {
    /// Its name.
    pub(super) name: String,
    /// Whether it contains numbers.
    pub(super) kind: ColumnFormat,
    /// The errors of its values.
    pub(super) margin: Option<Margin>,
}

/// The kinds of columns, which have different formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnFormat {
    /// Whole numbers.
    Integer,
    /// Other numbers.
    Number,
    /// Dates and times.
    Time,
    /// Everything else.
    Text,
}

impl ColumnFormat {
    /// Whether its values are numbers.
    pub(super) fn is_numeric(self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }
}

/// The errors of a column's values: with probability `confidence`, the error of a value is at most
/// that of its row.
#[derive(Debug, Clone)]
pub(super) struct Margin {
    /// The largest error of each row; `None` if it is unknown.
    pub(super) errors: Vec<Option<f64>>,
    /// The probability.
    pub(super) confidence: f64,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    /// NULL
    Null,
    /// TRUE or FALSE
    Boolean(bool),
    /// A number, in decimal.
    Number(String),
    /// Anything else: text, dates, times.
    Text(String),
}

impl Cell {
    /// The value as text, without quotes.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Null => "NULL",
            Self::Boolean(true) => "true",
            Self::Boolean(false) => "false",
            Self::Number(text) | Self::Text(text) => text,
        }
    }
}

impl View {
    /// The columns of an answer, without its rows.
    pub(super) fn without_rows(answer: &Answer) -> Self {
        let schema = answer.schema();
        let columns = schema.fields().iter().enumerate().map(|(i, field)| AnswerColumn {
            name: field.name().clone(),
            kind: kind(field.data_type()),
            margin: margin(answer, i, field.name()),
        });
        Self { columns: columns.collect(), rows: Vec::new(), winners: winners(answer) }
    }

    /// The same columns with some rows of the answer, of which `first` is the number of the first.
    pub(super) fn with_rows(&self, rows: &RecordBatch, first: usize) -> Result<Self, ArrowError> {
        let columns = self.columns.iter().map(|column| {
            let margin = column.margin.as_ref().map(|margin| Margin {
                errors: margin.errors.iter().skip(first).take(rows.num_rows()).copied().collect(),
                confidence: margin.confidence,
            });
            AnswerColumn { name: column.name.clone(), kind: column.kind, margin }
        });
        let rows = rows_of(rows)?;
        Ok(Self { columns: columns.collect(), rows, winners: Vec::new() })
    }

    /// Converts an answer.
    pub(super) fn for_answer(answer: &Answer) -> Result<Self, ArrowError> {
        let mut rows = Vec::new();
        for batch in answer.batches() {
            rows.append(&mut rows_of(batch)?);
        }
        Ok(Self { rows, ..Self::without_rows(answer) })
    }
}

fn rows_of(batch: &RecordBatch) -> Result<Vec<Vec<Cell>>, ArrowError> {
    let cells = batch.columns().iter().map(|array| cells(array).map(Vec::into_iter));
    let mut cells = cells.collect::<Result<Vec<_>, _>>()?;
    let row = |_| cells.iter_mut().filter_map(Iterator::next).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}

/// The kind of a column with values of a type.
pub(super) fn kind(data_type: &DataType) -> ColumnFormat {
    match data_type {
        data_type if data_type.is_integer() => ColumnFormat::Integer,
        data_type if data_type.is_numeric() => ColumnFormat::Number,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => ColumnFormat::Time,
        _ => ColumnFormat::Text,
    }
}

fn cells(array: &dyn Array) -> Result<Vec<Cell>, ArrowError> {
    // NULL within lists is written as it is outside of them.
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array, &options)?;
    // Not `is_null`, which is false for every row of a column of the type NULL.
    let nulls = array.logical_nulls();
    let booleans = array.as_any().downcast_ref::<BooleanArray>();
    let numeric = kind(array.data_type()).is_numeric();
    let cell = |row| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(Cell::Null);
        }
        if let Some(booleans) = booleans {
            return Ok(Cell::Boolean(booleans.value(row)));
        }
        let text = formatter.value(row).try_to_string()?;
        Ok(if numeric { Cell::Number(text) } else { Cell::Text(text) })
    };
    (0..array.len()).map(cell).collect()
}

fn margin(answer: &Answer, column: usize, name: &str) -> Option<Margin> {
    let within = |kind| matches!(kind, AccuracyKind::Within);
    let found = answer.accuracy().iter().find(|a| a.column == name && within(a.kind))?;
    Some(Margin { errors: answer.errors(column).collect(), confidence: found.confidence })
}

fn winners(answer: &Answer) -> Vec<String> {
    let winner =
        |kind| matches!(kind, AccuracyKind::Winner | AccuracyKind::Rank | AccuracyKind::BlockRank);
    let average = |kind| matches!(kind, AccuracyKind::Average);
    let all = answer.accuracy();
    let line = |worst: &hushql::Accuracy| {
        let mean = all.iter().find(|a| a.column == worst.column && average(a.kind));
        let of = match worst.kind {
            AccuracyKind::Rank => "rows of the rank asked for",
            AccuracyKind::BlockRank => "values of blocks of the middle",
            _ => "of the best",
        };
        winner_line(&worst.column, of, worst.value, worst.confidence, mean.map(|a| a.value))
    };
    let truthful = |a: &hushql::Accuracy| match a.kind {
        AccuracyKind::Truthful => {
            Some(format!("{}: each answer truthful with {} %", a.column, rounded(a.value * 100.0)))
        }
        AccuracyKind::OwnRows => Some(format!(
            "{}: no other candidate is better by more than {} of its own rows ({})",
            a.column,
            rounded(a.value),
            percent(a.confidence)
        )),
        kind => winner(kind).then(|| line(a)),
    };
    all.iter().filter_map(truthful).collect()
}

/// The accuracy of a winner, such as `status: within 4.00 of the best (95 %), 1.95 on average`.
fn winner_line(
    column: &str,
    of: &str,
    worst: f64,
    confidence: f64,
    average: Option<f64>,
) -> String {
    let (worst, percent) = (rounded(worst), percent(confidence));
    let average =
        average.map_or_else(String::new, |value| format!(", {} on average", rounded(value)));
    format!("{column}: within {worst} {of} ({percent}){average}")
}

/// A confidence such as `95 %`.
pub(super) fn percent(confidence: f64) -> String {
    format!("{} %", confidence * 100.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray, NullArray,
    };
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn a_confidence_is_a_percentage() {
        assert_eq!(percent(0.95), "95 %");
        assert_eq!(percent(0.999), "99.9 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn winners_have_a_line() {
        assert_eq!(
            winner_line("status", "of the best", 4.9416, 0.95, Some(1.9459)),
            "status: within 4.94 of the best (95 %), 1.95 on average"
        );
        assert_eq!(
            winner_line("x", "of the best", 10.0, 0.99, None),
            "x: within 10.0 of the best (99 %)"
        );
    }

    #[tokio::test]
    async fn a_best_price_is_told_in_its_own_rows() {
        let session = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
        let sql = "SELECT ARGMAX AUTO(eps=0.1) price IN RANGE(0.01, 20, 0.01) BY REVENUE(bid, price) FROM bids";
        let answer = session.query(sql).await.unwrap();
        let line = "price: no other candidate is better by more than 420 of its own rows";
        assert_eq!(View::for_answer(&answer).unwrap().winners, [format!("{line} (95 %)")]);
        assert!(answer.to_string().contains(&format!("\n{line} with 95 %")), "{answer}");
    }

    #[test]
    fn values_become_cells() {
        let decimal = Decimal128Array::from(vec![12_345]).with_precision_and_scale(10, 2).unwrap();
        let columns: [(ArrayRef, Cell); 8] = [
            (Arc::new(NullArray::new(1)), Cell::Null),
            (
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([
                    Some(1),
                    None,
                ])])),
                Cell::Text("[1, NULL]".to_owned()),
            ),
            (Arc::new(Int64Array::from(vec![i64::MIN])), Cell::Number(i64::MIN.to_string())),
            (Arc::new(Int64Array::from(vec![None])), Cell::Null),
            (Arc::new(Float64Array::from(vec![1.5])), Cell::Number("1.5".to_owned())),
            (Arc::new(decimal), Cell::Number("123.45".to_owned())),
            (Arc::new(Date32Array::from(vec![0])), Cell::Text("1970-01-01".to_owned())),
            (Arc::new(BooleanArray::from(vec![true])), Cell::Boolean(true)),
        ];
        for (array, cell) in columns {
            assert_eq!(cells(&array).unwrap(), [cell]);
        }
    }
}
