//! The lists that PIVOT leaves out, from the declarations.
//!
//! In: the text of a statement. Out: the text with the values of a declared list where PIVOT names
//! only a column, so that its columns follow from the declaration and never from the rows. A PIVOT
//! statement is made the query that it stands for first.

use std::borrow::Cow;

use crate::bind::names::tables_named;
use crate::catalog::{Column, Domain};
use crate::dialect::{OpenPivot, Statement, open_pivots, parse, pivot_query};
use crate::engine::session::Session;
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

impl Session {
    /// The text with every list.
    ///
    /// # Errors
    /// The refusal of a PIVOT by a column without a declared list.
    pub(in crate::engine) fn with_pivot_lists<'a>(
        &self,
        text: &'a str,
    ) -> Result<Cow<'a, str>, Error> {
        let size = &self.inner.resources.statement;
        let statement = pivot_query(text, size)?;
        let word = if statement.is_some() { "ON" } else { "FOR" };
        let mut listed = statement.map_or(Cow::Borrowed(text), Cow::Owned);
        // Places in front of a list stay where they are.
        for open in open_pivots(&listed, size).iter().rev() {
            let column = self.pivot_column(open)?;
            let values = column.as_ref().and_then(declared_values);
            let values = values.ok_or_else(|| no_list(open, word, column.as_ref()))?;
            listed.to_mut().insert_str(open.at, &format!(" IN ({values})"));
        }
        Ok(listed)
    }

    /// The column of that name of the only table of the subquery that has one.
    fn pivot_column(&self, open: &OpenPivot) -> Result<Option<Column>, Error> {
        let Some(name) = &open.column else { return Ok(None) };
        let Statement::Query(subquery) = parse(&open.subquery)? else { return Ok(None) };
        let catalog = self.declared()?.catalog;
        let mut tables = tables_named(&subquery.tree);
        tables.sort();
        tables.dedup();
        let own = tables.iter().filter_map(|table| catalog.table(table)?.column(name));
        let own: Vec<&Column> = own.collect();
        let [column] = own.as_slice() else { return Ok(None) };
        Ok(Some((*column).clone()))
    }
}

/// The declared values of a column, as a list of literals.
fn declared_values(column: &Column) -> Option<String> {
    let Some(Domain::In(values)) = &column.domain else { return None };
    let is_bare = is_bare(column);
    let literal = |value: &Option<String>| match value {
        None => "NULL".to_owned(),
        Some(value) if is_bare => value.clone(),
        Some(value) => format!("'{}'", value.replace('\'', "''")),
    };
    Some(values.iter().map(literal).collect::<Vec<_>>().join(", "))
}

/// True if literals of the column's type have no quotes.
fn is_bare(column: &Column) -> bool {
    let bare = ["Int", "UInt", "Float", "Decimal", "Boolean"];
    bare.iter().any(|kind| column.data_type.starts_with(kind))
}

/// The refusal of a column without a list. `word` is what the statement writes before it.
fn no_list(open: &OpenPivot, word: &str, column: Option<&Column>) -> Refusal {
    let name = &open.name;
    let values = match column {
        Some(Column { domain: Some(Domain::Between { lo, hi, .. }), .. }) => {
            let quote = if column.is_some_and(is_bare) { "" } else { "'" };
            format!("{quote}{lo}{quote}, {quote}{hi}{quote}")
        }
        Some(Column { data_type, .. }) if data_type == "Boolean" => "TRUE, FALSE".to_owned(),
        Some(Column { data_type, .. }) if data_type.starts_with("Date") => {
            "'2025-01-01', '2025-01-02'".to_owned()
        }
        Some(column) if is_bare(column) => "1, 2".to_owned(),
        Some(_) | None => "'a', 'b'".to_owned(),
    };
    Refusal::new(
        Reason::UnknownKeys,
        format!("{word} {name}"),
        format!(
            "PIVOT makes a column for each value of {name}, and no list of them is declared: which values people have is not public"
        ),
        format!("{word} {name} IN ({values}), with the values that you want"),
    )
}
