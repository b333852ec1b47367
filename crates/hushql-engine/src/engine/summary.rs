//! SUMMARIZE: a table's columns with what their declarations say of the values.
//!
//! In: a table or a view. Out: DuckDB's columns of the same statement. The ends of a range and the
//! number of listed values are those of the declaration; everything that only rows could tell is
//! NULL. So the statement reads no row and costs nothing.
//!
//! ```text
//! SUMMARIZE adult     age BIGINT, min 0, max 120; status VARCHAR, approx_unique 7; avg, std, q25 … NULL
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};

use crate::answer::Answer;
use crate::catalog::{Catalog, Column, Domain};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::sql_type::sql_type_of;
use crate::views;

/// What is declared of one column.
#[derive(Default)]
struct Summary {
    name: String,
    data_type: String,
    ends: Option<(String, String)>,
    values: Option<i64>,
}

impl Summary {
    fn new(name: String, data_type: String, declared: Option<&Column>) -> Self {
        match declared.and_then(|column| column.domain.as_ref()) {
            None => Self { name, data_type, ..Self::default() },
            Some(Domain::Between { lo, hi, .. }) => {
                Self { name, data_type, ends: Some((lo.clone(), hi.clone())), values: None }
            }
            Some(Domain::In(values)) => {
                let listed: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
                let values = i64::try_from(listed.len()).ok();
                Self { name, data_type, ends: ends(&listed), values }
            }
        }
    }
}

/// The least and the greatest of listed values: of numbers by size, of others as texts.
fn ends(listed: &[&str]) -> Option<(String, String)> {
    let numbers: Option<Vec<f64>> = listed.iter().map(|text| text.parse().ok()).collect();
    let mut ordered: Vec<(Option<f64>, &str)> = match numbers {
        Some(numbers) => numbers.into_iter().map(Some).zip(listed.iter().copied()).collect(),
        None => listed.iter().map(|text| (None, *text)).collect(),
    };
    ordered.sort_by(|(a, left), (b, right)| match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(b),
        (None | Some(_), _) => left.cmp(right),
    });
    let (first, last) = ordered.first().zip(ordered.last())?;
    Some((first.1.to_owned(), last.1.to_owned()))
}

/// Answers SUMMARIZE.
///
/// # Errors
/// For a name that no table and no view has.
pub(super) fn summary(inner: &Inner, catalog: &Catalog, name: &str) -> Result<Answer, Error> {
    let columns: Vec<Summary> = match catalog.view(name) {
        Some(view) => {
            let columns = views::describe(inner, catalog, view)?;
            let summaries = columns.iter().map(|column| {
                let declared = column.of.map(|(_, declared)| declared);
                Summary::new(column.name.clone(), sql_type_of(&column.data_type), declared)
            });
            summaries.collect()
        }
        None => {
            let of = |column: &Column| {
                Summary::new(column.name.clone(), sql_type_of(&column.data_type), Some(column))
            };
            known(catalog, name)?.columns.iter().map(of).collect()
        }
    };
    let rows = columns.len();
    let texts = |of: &dyn Fn(&Summary) -> Option<String>| -> ArrayRef {
        Arc::new(columns.iter().map(of).collect::<StringArray>())
    };
    let end = |of: fn(&(String, String)) -> &String| {
        texts(&move |column: &Summary| column.ends.as_ref().map(|ends| of(ends).clone()))
    };
    let untold = || -> ArrayRef { Arc::new(StringArray::new_null(rows)) };
    let answer: [(&str, ArrayRef); 12] = [
        ("column_name", texts(&|column| Some(column.name.clone()))),
        ("column_type", texts(&|column| Some(column.data_type.clone()))),
        ("min", end(|ends| &ends.0)),
        ("max", end(|ends| &ends.1)),
        (
            "approx_unique",
            Arc::new(columns.iter().map(|column| column.values).collect::<Int64Array>()),
        ),
        ("avg", untold()),
        ("std", untold()),
        ("q25", untold()),
        ("q50", untold()),
        ("q75", untold()),
        ("count", Arc::new(Int64Array::new_null(rows))),
        ("null_percentage", Arc::new(Float64Array::new_null(rows))),
    ];
    let batch = RecordBatch::try_from_iter(answer).map_err(|_| Error::Internal)?;
    let note = "what rows tell is NULL here: a mean is SELECT AVG(x) FROM t, and has its cost";
    Ok(Answer::public(batch).noted(note.to_owned()))
}
