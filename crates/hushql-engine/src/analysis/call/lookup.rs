//! The public tables that clauses name: `KEYS TABLE states(code)`, `PRIOR census(status, share)`.
//!
//! In: the releases of a query. Out: the columns that they need, and the values of these columns
//! once they are read. Only public tables are read, so the values depend on no privacy unit.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::catalog::{Catalog, quoted};
use crate::dialect::{KeysClause, Literal, Operand, PriorClause, ReleaseClause};
use crate::refusal::{Reason, Refusal};

/// Columns of a public table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// The table.
    pub table: String,
    /// Its columns, in the order in which they are needed.
    pub columns: Vec<String>,
}

/// The public columns that a query's clauses name, with their values.
#[derive(Debug, Default)]
pub struct Lookups(BTreeMap<Lookup, Vec<ArrayRef>>);

impl Lookups {
    /// The columns that the clauses of a query name.
    ///
    /// # Errors
    /// Refuses a table that is not public: its values would reveal who is in it.
    pub fn needed(
        releases: &[ReleaseClause],
        catalog: &Catalog,
    ) -> Result<BTreeSet<Lookup>, Refusal> {
        let mut needed = BTreeSet::new();
        for release in releases {
            for keys in release.keys.iter().flatten() {
                if let KeysClause::Table { table, column } = keys {
                    needed.insert(Lookup { table: table.clone(), columns: vec![column.clone()] });
                }
            }
            if let Operand::Selection(selection) = &release.operand
                && let Some(PriorClause::Table { table, key, weight }) = &selection.prior
            {
                let columns = vec![key.clone(), weight.clone()];
                needed.insert(Lookup { table: table.clone(), columns });
            }
        }
        for lookup in &needed {
            check(lookup, catalog)?;
        }
        Ok(needed)
    }

    /// Stores the values of a lookup: one array per column.
    pub fn insert(&mut self, lookup: Lookup, values: Vec<ArrayRef>) {
        self.0.insert(lookup, values);
    }

    /// The literals of one column of a lookup, in the order of its rows.
    ///
    /// # Errors
    /// Refuses a value that is not a literal of the dialect, and a lookup that has not been read.
    pub(crate) fn literals(&self, lookup: &Lookup, column: usize) -> Result<Vec<Literal>, Refusal> {
        let unread = || {
            Refusal::new(
                Reason::NotYet,
                &lookup.table,
                format!("{} cannot be read while the query is planned", lookup.table),
                "a list of literals",
            )
        };
        let array = self.0.get(lookup).and_then(|arrays| arrays.get(column)).ok_or_else(unread)?;
        let options = FormatOptions::default();
        let texts = ArrayFormatter::try_new(array, &options).map_err(|_| unread())?;
        (0..array.len())
            .map(|row| {
                if array.is_null(row) {
                    return Ok(Literal::Null);
                }
                let text = texts.value(row).try_to_string().map_err(|_| unread())?;
                literal(text, array.data_type()).ok_or_else(unread)
            })
            .collect()
    }
}

fn check(lookup: &Lookup, catalog: &Catalog) -> Result<(), Refusal> {
    let Lookup { table, columns } = lookup;
    if catalog.view(table).is_some() {
        return Err(Refusal::new(
            Reason::UnknownKeys,
            table,
            format!("{table} is a view, and keys are read from a table itself"),
            "a public table, or a list of literals",
        ));
    }
    let Some(found) = catalog.table(table) else {
        return Err(Refusal::new(
            Reason::UnknownKeys,
            table,
            format!("there is no table {table}"),
            "a public table, or a list of literals",
        ));
    };
    if !found.is_public() {
        return Err(Refusal::new(
            Reason::UnknownKeys,
            table,
            format!("{table} is not public, so its values would reveal who is in it"),
            format!(
                "a public table: ALTER TABLE {} SET PUBLIC in an owner's session, if its rows are not secret",
                quoted(table)
            ),
        ));
    }
    if let [key, weight] = columns.as_slice()
        && key == weight
    {
        return Err(Refusal::new(
            Reason::BadValue,
            format!("PRIOR {table}({key}, {weight})"),
            "the key and the weight of a prior are two columns",
            format!("PRIOR {table}({key}, …), with the column of the weights"),
        ));
    }
    match columns.iter().find(|column| found.column(column).is_none()) {
        Some(column) => Err(Refusal::new(
            Reason::UnknownKeys,
            format!("{table}({})", columns.join(", ")),
            format!("{table} has no column {column}"),
            "one of the table's columns",
        )),
        None => Ok(()),
    }
}

/// A value as a literal.
fn literal(text: String, data_type: &DataType) -> Option<Literal> {
    if *data_type == DataType::Boolean {
        return Some(Literal::Boolean(text == "true"));
    }
    if data_type.is_numeric() {
        return Some(Literal::Number(text));
    }
    (data_type.is_string() || data_type.is_temporal()).then_some(Literal::Text(text))
}
