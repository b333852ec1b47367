//! Checks the declaration of a table's privacy unit, and verifies it on files.
//!
//! In: a unit clause from an owner's session. Out: a [`Unit`] for the catalog. Columns that
//! identify a person or lead to one must exist, have the same comparable types on both sides, and
//! have no domain. A chain of links must end at a column that identifies the person. MAX ROWS is
//! verified once on a file, so that the owner learns at once if a declaration would drop rows;
//! every plan enforces it again. The target of a link must be unique, which is verified on the
//! rows. For a file this remains true, because the file must not change. For other tables it may
//! become false, and no claim relies on it: see `resolved` in `crate::analysis`.
//!
//! ```text
//! lineitem VIA (l_orderkey) → orders(o_orderkey) VIA (o_custkey) → customer(c_custkey)      unit domain: customer
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::catalog::{Catalog, FileFormat, Fingerprint, Link, Source, Table, Unit, quoted};
use crate::dialect::UnitClause;
use crate::error::Error;
use crate::exec::source::{self as files, OpenFiles, hashes_content, may_change};
use crate::functions::{counts_as_whole, has_months, widens};
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::owner::declared_columns::{column_of, data_type};
use crate::owner::present_units;
use crate::owner::row_checks::{self, most_alike, qualified, scan, unverified, with_person};
use crate::sql_type::sql_type;

/// The unit of a clause, checked against the catalog.
pub(super) fn checked(
    catalog: &Catalog,
    table: &Table,
    clause: &UnitClause,
) -> Result<Unit, Error> {
    let unit = match clause {
        UnitClause::Row => Unit::Row,
        UnitClause::Column { column, unique, max_rows } => {
            comparable(table, column)?;
            Unit::Column { column: column.clone(), max_rows: *max_rows, unique: *unique }
        }
        UnitClause::Month { person, date, max_rows } => {
            comparable(table, person)?;
            has_months_of(table, date)?;
            let (person, date) = (person.clone(), date.clone());
            Unit::Month { person, date, max_rows: *max_rows }
        }
        UnitClause::Present { column, public } => {
            comparable(table, column)?;
            present_units::unit(table, column, public)?
        }
        UnitClause::Via { columns, table: to, references, max_rows } => {
            linked(catalog, table, columns, to, references)?;
            Unit::Via(Link {
                columns: columns.clone(),
                table: to.clone(),
                references: references.clone(),
                max_rows: *max_rows,
            })
        }
    };
    keeps_links(catalog, table, &unit)?;
    Ok(unit)
}

/// The table with the columns of a unit clause in the types in which people are compared, and what
/// its owner is told; `None` if they have them already. A DOUBLE that identifies people is read as
/// BIGINT, and a column that leads to another one in the type of that column, if each of its values
/// has one there. Only the columns of files are read in other types.
///
/// # Guarantee
/// Each row is read by itself, before the table has a unit: a DOUBLE that is not whole, or exceeds
/// 2⁵³, is NULL and belongs to nobody, so that no two people become one, and no row of one person
/// decides how the rows of another are read. See `file_values` in `crate::functions`.
pub(super) fn retyped(
    catalog: &Catalog,
    table: &Table,
    clause: &UnitClause,
) -> Result<Option<(Table, String)>, Error> {
    let Source::File { format, .. } = &table.source else { return Ok(None) };
    let mut types = Vec::new();
    match clause {
        UnitClause::Row => {}
        UnitClause::Column { column, .. }
        | UnitClause::Month { person: column, .. }
        | UnitClause::Present { column, .. } => {
            let is = data_type(column_of(table, column)?)?;
            if counts_as_whole(&is, &DataType::Int64) {
                types.push((column, DataType::Int64));
            }
        }
        UnitClause::Via { columns, table: to, references, .. } => {
            let target = known(catalog, to)?;
            for (column, reference) in columns.iter().zip(references) {
                let is = data_type(column_of(table, column)?)?;
                let into = data_type(column_of(target, reference)?)?;
                if is != into && leads_as(&is, &into, *format) {
                    types.push((column, into));
                }
            }
        }
    }
    // The type of a column to which other tables lead stays as it is.
    let is_led_to = |column: &&String| no_link_leads_to(catalog, &table.name, column).is_err();
    if types.is_empty() || types.iter().any(|(column, _)| is_led_to(column)) {
        return Ok(None);
    }
    let (mut read, mut told) = (table.clone(), String::new());
    for (name, to) in types {
        let Some(column) = read.column_mut(name) else { continue };
        let was = data_type(column)?;
        column.data_type = to.to_string();
        told.push_str(&format!("; {name} is read as {}", sql_type(&to)));
        if counts_as_whole(&was, &to) {
            told.push_str(
                ": a value that is not whole, or exceeds 2^53, is NULL there and belongs to nobody",
            );
        }
    }
    Ok(Some((read, told)))
}

/// Whether a column of a file may be read in the type of the column to which it leads.
pub(super) fn leads_as(is: &DataType, into: &DataType, format: FileFormat) -> bool {
    let numbers = (is.is_integer() || counts_as_whole(is, &DataType::Int64)) && into.is_integer();
    match format {
        // A number without a value in the other type leads to nobody.
        FileFormat::Csv | FileFormat::Json | FileFormat::Sqlite => numbers,
        FileFormat::Parquet | FileFormat::Arrow => {
            numbers && (widens(is, into) || counts_as_whole(is, into))
        }
    }
}

/// Checks a link.
fn linked(
    catalog: &Catalog,
    table: &Table,
    columns: &[String],
    to: &str,
    references: &[String],
) -> Result<(), Error> {
    let target = known(catalog, to)?;
    let root = catalog.root(to).map(|(root, _)| root);
    let named = root.filter(|root| matches!(root.unit(), Some(Unit::Column { .. })));
    let Some(root) = named else {
        if let Some((person, date)) = root.and_then(|root| root.unit()?.month()) {
            return Err(Error::catalog(format!(
                "a unit of {to} is one month of {date} of {person}, and a link leads to a person and to no month: declare the unit of {} by columns of its own",
                table.name
            )));
        }
        if root.and_then(|root| root.unit()?.present()).is_some() {
            return Err(Error::catalog(format!(
                "who is in {to} is public, and what a person may change in tables that lead there is not derived: declare the unit of {} by columns of its own",
                table.name
            )));
        }
        return Err(Error::catalog(format!(
            "{to} does not lead to a column that identifies a person: write ALTER TABLE {} SET PRIVACY UNIT (column) first",
            quoted(to)
        )));
    };
    if root.name == table.name || to == table.name {
        return Err(Error::catalog(format!("the chain of {} leads in a circle", table.name)));
    }
    for (column, reference) in columns.iter().zip(references) {
        comparable(table, column)?;
        comparable(target, reference)?;
        let (from, into) =
            (data_type(column_of(table, column)?)?, data_type(column_of(target, reference)?)?);
        // All texts of files and servers are read in one type.
        let are_read = [table, target].iter().all(|t| !matches!(t.source, Source::Registered));
        if from != into && !(from.is_string() && into.is_string() && are_read) {
            return Err(Error::catalog(format!(
                "{column} of {} is of type {}, {reference} of {to} of type {}, but a link joins equal types{}",
                table.name,
                sql_type(&from),
                sql_type(&into),
                advice(&from, &into, to)
            )));
        }
        if column_of(target, reference)?.domain.is_some() {
            return Err(Error::catalog(format!(
                "{reference} of {to} has a domain, but the target of a link cannot have one: write ALTER TABLE {} ALTER COLUMN {} DROP PRIVACY DOMAIN",
                quoted(to),
                quoted(reference)
            )));
        }
    }
    Ok(())
}

/// What the owner of a link between two types of numbers writes.
fn advice(from: &DataType, into: &DataType, to: &str) -> String {
    let is_number = |data_type: &DataType| data_type.is_integer() || data_type.is_floating();
    if !is_number(from) || !is_number(into) {
        return String::new();
    }
    format!(
        ": declare {} with the wider one, as in CREATE OR REPLACE EXTERNAL TABLE {} (column BIGINT, …)",
        to,
        quoted(to)
    )
}

/// Refuses floats, booleans and columns with a domain, because units and links are compared and
/// hashed as they are.
fn comparable(table: &Table, column: &str) -> Result<(), Error> {
    let data_type = data_type(column_of(table, column)?)?;
    let allowed = data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Date32
                | DataType::Decimal128(..)
        );
    if !allowed {
        let write = match data_type.is_floating() {
            true => ": declare it as BIGINT if its values are whole",
            false => "",
        };
        return Err(Error::catalog(format!(
            "a unit is identified by an integer, string, date or decimal, not by {column} of type {}{write}",
            sql_type(&data_type),
        )));
    }
    Ok(())
}

/// Refuses months of a column without dates, and of rows that may change unnoticed.
fn has_months_of(table: &Table, date: &str) -> Result<(), Error> {
    let data_type = data_type(column_of(table, date)?)?;
    if !has_months(&data_type) {
        return Err(Error::catalog(format!(
            "the month of a row is that of a DATE or TIMESTAMP, not of {date} of type {}",
            sql_type(&data_type)
        )));
    }
    match &table.source {
        Source::File { .. } => Ok(()),
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => {
            Err(Error::catalog(format!(
                "the rows of {} are not in files, so that nothing tells when one of them moves to another month: copy them into a file, and write CREATE EXTERNAL TABLE … STORED AS PARQUET LOCATION '…'",
                table.name
            )))
        }
    }
}

/// Refuses to change the unit domain of tables that lead through this one.
fn keeps_links(catalog: &Catalog, table: &Table, unit: &Unit) -> Result<(), Error> {
    let unit_domain = match unit {
        Unit::Row => None,
        Unit::Column { .. } => Some(table.name.as_str()),
        // A link leads to a person, and not to one of their months.
        Unit::Month { .. } => None,
        // What a person may change in the tables that lead here is not derived.
        Unit::Present { .. } => None,
        Unit::Via(link) => catalog.unit_domain(&link.table),
    };
    match catalog
        .referring(&table.name)
        .find(|other| catalog.unit_domain(&other.name) != unit_domain)
    {
        Some(other) => Err(referred(table, &other.name)),
        None => Ok(()),
    }
}

/// Refuses to remove the unit of a table while others lead through it.
pub(super) fn nothing_leads_through(catalog: &Catalog, table: &str) -> Result<(), Error> {
    match catalog.referring(table).next() {
        Some(other) => Err(referred(known(catalog, table)?, &other.name)),
        None => Ok(()),
    }
}

fn referred(table: &Table, other: &str) -> Error {
    Error::catalog(format!(
        "{other} reaches its unit through {}; write ALTER TABLE {} DROP PRIVACY UNIT first",
        table.name,
        quoted(other)
    ))
}

/// Refuses a domain on a column to which links lead.
pub(super) fn no_link_leads_to(catalog: &Catalog, table: &str, column: &str) -> Result<(), Error> {
    let leads = |other: &&Table| {
        let link = other.unit().and_then(Unit::link);
        link.is_some_and(|link| link.references.iter().any(|reference| reference == column))
    };
    match catalog.referring(table).find(leads) {
        Some(other) => Err(Error::catalog(format!(
            "{} leads to {column}, and the target of a link cannot have a domain",
            other.name
        ))),
        None => Ok(()),
    }
}

/// Verifies the declaration of a unit on its files. Returns what its owner is told of their rows.
pub(super) async fn verified(
    inner: &Inner,
    open: &Arc<OpenFiles>,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
) -> Result<String, Error> {
    if matches!(unit, Unit::Row) {
        return Ok(String::new());
    }
    if let Some(link) = unit.link() {
        leads_to_one_row(inner, open, known(catalog, &link.table)?, &link.references).await?;
    }
    for link in catalog.referring(&table.name).filter_map(|other| other.unit()?.link()) {
        leads_to_one_row(inner, open, table, &link.references).await?;
    }
    let (Some(most), Source::File { .. }) = (unit.max_rows(), &table.source) else {
        return Ok(String::new());
    };
    let rows = scan(inner, open, table)?;
    let (rows, person) = with_person(inner, open, catalog, table, unit, rows)?;
    if most_alike(inner, table, rows.clone(), vec![person.clone()]).await? > most {
        return Err(Error::catalog(format!(
            "a unit of {} has more than {most} rows; declare a larger MAX ROWS, or none, and bound each query with rows=m",
            table.name
        )));
    }
    match unit.present() {
        Some((column, _)) => row_checks::unnamed(inner, table, column, rows, person).await,
        None => Ok(String::new()),
    }
}

/// Verifies that the target columns of links are unique in their table.
async fn leads_to_one_row(
    inner: &Inner,
    open: &Arc<OpenFiles>,
    target: &Table,
    columns: &[String],
) -> Result<(), Error> {
    let keys = columns.iter().map(|c| qualified(&target.name, c)).collect();
    if most_alike(inner, target, scan(inner, open, target)?, keys).await? > 1 {
        return Err(Error::catalog(format!(
            "({}) of {} contains a value twice, but a link must lead to one row",
            columns.join(", "),
            target.name
        )));
    }
    Ok(())
}

/// Refuses floats in columns of whole numbers, unless the declaration holds the files and their
/// values are whole. This may block.
///
/// # Errors
/// [`Error::Catalog`] with the file, the column and the first value.
pub(super) fn refuse_fractions(
    open: &OpenFiles,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
) -> Result<(), Error> {
    let are_held = fingerprint(open, catalog, table, unit)?.is_some();
    files::refuse_fractions(table, open, unit.columns(), are_held)
}

/// The table as a declaration of its unit reads it, and every query after it: over lines if the
/// declaration reads the files to their end, finds them well formed, and holds their bytes. Such
/// files are then compared with the fingerprint that this call takes.
///
/// # Errors
/// [`Error::Catalog`] if the files can be read neither by lines nor over lines, or if their records
/// go over lines and the declaration does not read and hold them.
pub(super) fn read_as(
    open: &OpenFiles,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
) -> Result<Table, Error> {
    let mut read = unverified(table);
    let is_read = unit.max_rows().is_some();
    let held = if is_read { fingerprint(open, catalog, &read, unit)? } else { None };
    let Some(mut held) = held else {
        files::refuse_unread_documents(&read, open)?;
        return Ok(read);
    };
    held.over_lines = files::reads_over_lines(&read, open, Some(unit))?;
    if let (true, Source::File { fingerprint, .. }) = (held.over_lines, &mut read.source) {
        *fingerprint = Some(held);
    }
    Ok(read)
}

/// The fingerprint of a public file whose records go over several lines; `None` for all other
/// tables, whose files may change.
///
/// # Errors
/// As [`read_as`].
pub(super) fn pinned_over_lines(
    open: &OpenFiles,
    table: &Table,
) -> Result<Option<Fingerprint>, Error> {
    let read = unverified(table);
    let Source::File { options, files: None, .. } = &read.source else {
        files::refuse_unread_documents(&read, open)?;
        return Ok(None);
    };
    if may_change(options) {
        files::refuse_unread_documents(&read, open)?;
        return Ok(None);
    }
    if !files::reads_over_lines(&read, open, None)? {
        return Ok(None);
    }
    let held = open.fingerprint(&read.source)?;
    Ok(Some(Fingerprint { over_lines: true, ..held }))
}

/// A fingerprint of files that are read as those of an earlier one, if they have the same bytes.
pub(super) fn read_alike(found: Fingerprint, before: Option<&Fingerprint>) -> Fingerprint {
    let over_lines =
        before.is_some_and(|before| before.over_lines && before.sha256 == found.sha256);
    Fingerprint { over_lines, ..found }
}

/// The fingerprint of a table's files. A single file has one, unless it cannot be read or its owner
/// lets it change. A file must have one if the declaration was verified on it, if the owner fixed
/// its bytes, or if its people are partitioned.
///
/// # Errors
/// [`Error::Catalog`] if a file that needs one cannot be read, or if a file is written in the
/// meantime.
pub(super) fn fingerprint(
    open: &OpenFiles,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
) -> Result<Option<Fingerprint>, Error> {
    let Source::File { options, files, fingerprint: held, .. } = &table.source else {
        return Ok(None);
    };
    // The declaration of a version holds its files.
    if table.source.version().is_some() {
        return Ok(held.clone());
    }
    let is_target = catalog.referring(&table.name).next().is_some();
    let is_partitioned = catalog.is_partitioned(&table.name) || unit.month().is_some();
    if unit.is_bounded() || is_target || is_partitioned || hashes_content(options) {
        return open.fingerprint(&table.source).map(Some);
    }
    if files.is_some() || may_change(options) || !open.is_readable(&table.source) {
        return Ok(None);
    }
    open.fingerprint(&table.source).map(Some).map_err(|error| {
        Error::catalog(format!(
            "{}; a file that is written all the time is declared with OPTIONS ('content_hash' 'false')",
            error.message()
        ))
    })
}

/// The fingerprint of a link's target file, whose columns were verified to be unique. If the
/// catalog has a fingerprint, the file must still match it.
pub(super) fn fingerprint_of_target(
    open: &OpenFiles,
    catalog: &Catalog,
    unit: &Unit,
) -> Result<Option<(String, Fingerprint)>, Error> {
    let Some(link) = unit.link() else { return Ok(None) };
    let target = known(catalog, &link.table)?;
    match &target.source {
        Source::File { fingerprint: None, .. } => {
            Ok(Some((target.name.clone(), open.fingerprint(&target.source)?)))
        }
        Source::File { .. } => {
            open.check_as_owner(target)?;
            match open.is_unchanged() {
                true => Ok(None),
                false => Err(Error::catalog(format!(
                    "the file of {} changed while it was verified; run the statement again",
                    target.name
                ))),
            }
        }
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => Ok(None),
    }
}
