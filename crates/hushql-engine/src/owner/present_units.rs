//! People whose presence is public: `SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC`, and the columns
//! that anyone may know of them.
//!
//! In: an owner's clause, checked against the catalog. Out: the unit, or a refusal.
//!
//! ```text
//! SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region)      who is in it, and where they live, is public
//! ALTER COLUMN sex SET PUBLIC                                     … and sex
//! ```

use crate::catalog::{Catalog, Privacy, Source, Table, Unit, quoted};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::owner::altered_table::alter;
use crate::owner::declared_columns::column_of;

/// The unit of a clause, if the table may have it: its rows are in files that the declaration
/// verifies and holds.
///
/// # Errors
/// [`Error::Catalog`] for other tables, and for public columns that do not exist.
pub(super) fn unit(table: &Table, column: &str, public: &[String]) -> Result<Unit, Error> {
    match &table.source {
        Source::File { .. } => {}
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => {
            return Err(Error::catalog(format!(
                "the rows of {} are not in files, so that nothing holds that everyone has one row: copy them into a file, and write CREATE EXTERNAL TABLE … STORED AS PARQUET LOCATION '…'",
                table.name
            )));
        }
    }
    for name in public {
        column_of(table, name)?;
    }
    Ok(Unit::Present { column: column.to_owned(), public: public.to_vec() })
}

/// Makes a column of such people public, too.
///
/// # Errors
/// [`Error::Catalog`] if the table's people are protected in another way, or the column does not
/// exist.
pub(super) fn set_public(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    column: &str,
) -> Result<String, Error> {
    let entry = known(catalog, table)?;
    column_of(entry, column)?;
    let name = quoted(table);
    let Some((person, public)) = entry.unit().and_then(Unit::present) else {
        let by = match entry.unit().and_then(Unit::column) {
            Some(person) => quoted(person),
            None => "id".to_owned(),
        };
        return Err(Error::catalog(format!(
            "a column is public where everyone may know who is in {table}: write ALTER TABLE {name} SET PRIVACY UNIT ({by}) UNIQUE PRESENCE PUBLIC WITH ({}), or ALTER TABLE {name} SET PUBLIC if it is about nobody",
            quoted(column)
        )));
    };
    let is_known = person == column || public.iter().any(|known| known == column);
    let more = (!is_known).then(|| column.to_owned());
    let public = public.iter().cloned().chain(more).collect();
    let unit = Unit::Present { column: person.to_owned(), public };
    alter(inner, catalog, table, |entry| entry.privacy = Privacy::Private(unit))?;
    Ok(format!(
        "column {table}.{column} is public: answers may show whose row has which value there"
    ))
}

/// The unit in the answer to its declaration.
pub(super) fn shown(column: &str, public: &[String]) -> String {
    let and: String = public.iter().map(|name| format!(", {name}")).collect();
    format!("who is in it is public, with {column}{and}; what else a row says is protected")
}
