//! Declares the domains of columns.
//!
//! In: `ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN …` from an owner's session. Out: one
//! sentence. The values of the domain must be written as the column's type is.
//!
//! ```text
//! age BIGINT: BETWEEN (0, 120)          column t.age has a domain
//! age BIGINT: IN ('5')                  '5' is not a value of type BIGINT
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use datafusion::logical_expr::col;

use super::altered_table::alter;
use super::declared_columns::{column_of, data_type};
use super::units;
use crate::analysis::{MOST_KEYS, enforced, typed};
use crate::catalog::{Catalog, Domain};
use crate::dialect::{DomainClause, Literal};
use crate::error::Error;
use crate::exec::columns_of_public;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::sql_type::sql_type;

pub(super) fn set_domain(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    column: &str,
    clause: &DomainClause,
) -> Result<String, Error> {
    units::no_link_leads_to(catalog, table, column)?;
    let found = column_of(known(catalog, table)?, column)?;
    let data_type = data_type(found)?;
    let domain = match clause {
        DomainClause::In(values) => {
            for value in values {
                kind_fits(value, &data_type)?;
            }
            Domain::In(values.iter().map(Literal::text).collect())
        }
        DomainClause::References { table, column } => {
            Domain::In(referenced(inner, catalog, table, column, &data_type)?)
        }
        DomainClause::Between { lo, hi, step, or_null } => {
            let text = |literal: &Literal| {
                kind_fits(literal, &data_type)?;
                literal.text().ok_or_else(|| Error::catalog("NULL cannot be a bound"))
            };
            let step = match step {
                Some(Literal::Number(step)) => Some(step.clone()),
                Some(other) => {
                    return Err(Error::catalog(format!("STEP must be a number, not {other}")));
                }
                None => None,
            };
            Domain::Between { lo: text(lo)?, hi: text(hi)?, step, or_null: *or_null }
        }
    };
    enforced(col(column), &data_type, Some(&domain))?;
    alter(inner, catalog, table, |entry| {
        if let Some(column) = entry.column_mut(column) {
            column.domain = Some(domain);
        }
    })?;
    Ok(format!("column {table}.{column} has a domain"))
}

/// The present distinct values of a public table's column, in order. NULL comes last if a row has
/// it.
fn referenced(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    column: &str,
    data_type: &DataType,
) -> Result<Vec<Option<String>>, Error> {
    let found = known(catalog, table)?;
    column_of(found, column)?;
    if !found.is_public() {
        return Err(Error::catalog(format!(
            "{table} is not public, so its values would reveal who is in it"
        )));
    }
    let unread = || Error::catalog(format!("the rows of {table} cannot be read"));
    let provider =
        inner.provider(&Arc::new(found.clone()), &inner.open_files()).ok_or_else(unread)?;
    let columns = [column.to_owned()];
    let arrays = columns_of_public(provider, &columns, &inner.state).map_err(|_| unread())?;
    let values = arrays.first().ok_or_else(unread)?;
    let texts = arrow::compute::cast(values, &DataType::Utf8).map_err(|_| unread())?;
    let null = (texts.null_count() > 0).then_some(None);
    let texts: BTreeSet<&str> = texts.as_string::<i32>().iter().flatten().collect();
    if texts.len() > MOST_KEYS {
        return Err(Error::catalog(format!(
            "{table}({column}) holds more than {MOST_KEYS} values"
        )));
    }
    for text in &texts {
        typed(text, data_type)?;
    }
    Ok(texts.into_iter().map(|text| Some(text.to_owned())).chain(null).collect())
}

/// Checks that numbers are written as numbers and other values as quoted text. For an integer
/// column, '5' is a mistake.
fn kind_fits(literal: &Literal, data_type: &DataType) -> Result<(), Error> {
    let fits = match literal {
        Literal::Null => true,
        Literal::Number(_) => data_type.is_numeric(),
        Literal::Boolean(_) => *data_type == DataType::Boolean,
        Literal::Text(_) => !data_type.is_numeric() && *data_type != DataType::Boolean,
    };
    if fits {
        Ok(())
    } else {
        let of_text = data_type.is_string() && matches!(literal, Literal::Number(_));
        let advice = match of_text {
            true => {
                "; for a column of numbers write its type, as in CREATE EXTERNAL TABLE t (c DOUBLE, …)"
            }
            false => "",
        };
        Err(Error::catalog(format!(
            "{literal} is not a value of type {}{advice}",
            sql_type(data_type)
        )))
    }
}
