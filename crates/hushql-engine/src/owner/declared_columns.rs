//! The columns of a declared table, and their types.

use arrow::datatypes::DataType;
use std::str::FromStr;

use crate::bind::BindError;
use crate::catalog::Table;
use crate::error::Error;
use crate::refusal::nearest;

pub(crate) fn column_of<'a>(
    table: &'a Table,
    column: &str,
) -> Result<&'a crate::catalog::Column, Error> {
    table.column(column).ok_or_else(|| {
        let suggestion = nearest(column, table.columns.iter().map(|c| c.name.as_str()));
        BindError::UnknownColumn { name: format!("{}.{column}", table.name), suggestion }.into()
    })
}

/// The Arrow type of a catalog column.
pub(crate) fn data_type(column: &crate::catalog::Column) -> Result<DataType, Error> {
    DataType::from_str(&column.data_type)
        .map_err(|e| Error::catalog_from(format!("column {} has an unknown type", column.name), e))
}
