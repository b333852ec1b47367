//! Finds what an owner should fix before analysts ask: in the declarations, in the permissions of
//! files and in the vault.
//!
//! In: an open vault. Out: findings, each with the statement or command that fixes it. The doctor
//! looks at the permissions of files, and at their columns if the format describes these apart from
//! rows. If a file in a folder lacks columns, it names the file. It compares the bytes of public
//! files with those of private ones. No other finding depends on a value. The doctor proposes no
//! bound, domain or MAX ROWS, because a proposal that follows from the rows could reveal one
//! person's row.
//!
//! ```text
//! visits  the table is undeclared, so every query on it is refused   ALTER TABLE visits SUGGEST PRIVACY drafts what to declare
//! ```

use std::fs;
use std::path::Path;
use std::str::FromStr;

use arrow::datatypes::DataType;

use crate::catalog::{Catalog, Column, FileFormat, Privacy, Source, Table, Unit, quoted};
use crate::error::Error;
use crate::exec::source as files;
use crate::instance::Inner;
use crate::owner::declaration_script::{created, declarable};
use crate::owner::reload;
use crate::owner::suggest::names_key_of;
use crate::owner::units::leads_as;
use crate::owner::{grants, privacy_floors, rules_of_tables};
use crate::sql_type::sql_type_of;

/// A problem that the owner should fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The table, column or file.
    pub(crate) about: String,
    /// What is wrong with it.
    pub(crate) finding: String,
    /// The statement or command that fixes it.
    pub(crate) remedy: String,
}

/// All findings: those about the vault first, then those about tables, ordered by name, then those
/// about grants.
///
/// # Errors
/// [`Error::Ledger`] when the vault cannot be read.
pub(crate) fn examine(inner: &Inner) -> Result<Vec<Finding>, Error> {
    let catalog = inner.vault.catalog()?;
    let mut findings = Findings::default();
    let path = inner.vault.path();
    if path != ":memory:" {
        vault(&mut findings, path, inner.vault.is_anchored()?);
    }
    for table in catalog.tables() {
        declared(&mut findings, &catalog, table);
        if let (Some(_), None) = (catalog.table_floor(&table.name), table.unit()) {
            let finding =
                "it has a floor of people and no privacy unit, so that the floor binds nobody";
            let remedy = privacy_floors::statement(&table.name, None);
            findings.add(&table.name, finding, &remedy);
        }
        for [finding, remedy] in rules_of_tables::findings(&catalog, table) {
            findings.add(&table.name, &finding, &remedy);
        }
        file(&mut findings, inner, table);
        links(&mut findings, &catalog, table);
        if let Some(why) = reload::shown_elsewhere(inner, &catalog, table) {
            findings.add(&table.name, &why, &format!("DROP TABLE {}", quoted(&table.name)));
        }
    }
    for [about, finding, remedy] in grants::findings(inner, &catalog)? {
        findings.add(&about, &finding, &remedy);
    }
    Ok(findings.0)
}

fn vault(findings: &mut Findings, path: &str, is_anchored: bool) {
    let written = in_shell(path);
    if permissions(Path::new(path)).is_some_and(|mode| mode & 0o077 != 0) {
        let finding = "other users of this machine may open the vault";
        findings.add(path, finding, &format!("chmod 600 {written}"));
    }
    let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    if permissions(folder).is_some_and(|mode| mode & 0o022 != 0 && mode & 0o1000 == 0) {
        let finding = "other users of this machine may replace files in the vault's folder";
        let shown = folder.to_string_lossy();
        findings.add(&shown, finding, &format!("chmod go-w {}", in_shell(&shown)));
    }
    if !is_anchored {
        let finding = "the vault has no anchor: an older copy in its place would not be noticed";
        findings.add(path, finding, &format!("hushql anchor {written} /ANOTHER/FOLDER/FILE"));
    }
}

fn declared(findings: &mut Findings, catalog: &Catalog, table: &Table) {
    let name = quoted(&table.name);
    match &table.privacy {
        Privacy::Undeclared => findings.add(
            &table.name,
            "the table is undeclared, so every query on it is refused",
            &format!("ALTER TABLE {name} SUGGEST PRIVACY drafts what to declare"),
        ),
        Privacy::Public => {}
        Privacy::Private(unit) => {
            let unit_domain = catalog.unit_domain(&table.name).unwrap_or(&table.name);
            if catalog.budgets_of(unit_domain).next().is_none() {
                findings.add(
                    &table.name,
                    "the table is private and has no budget, so every query on it is refused",
                    &format!("CREATE PRIVACY BUDGET {name} FOR {name} LIMIT (epsilon=…)"),
                );
            }
            for column in &table.columns {
                let is_key = unit.columns().contains(&column.name)
                    || catalog
                        .referring(&table.name)
                        .filter_map(|other| other.unit()?.link())
                        .any(|link| link.references.contains(&column.name));
                if let Some(domain) = domain(column).filter(|_| !is_key) {
                    let finding =
                        "the column has no domain, so each query has to write its bounds or keys";
                    let column = quoted(&column.name);
                    findings.add(
                        &format!("{name}.{column}"),
                        finding,
                        &format!(
                            "ALTER TABLE {name} ALTER COLUMN {column} SET PRIVACY DOMAIN {domain}"
                        ),
                    );
                }
            }
        }
    }
}

/// The form of a domain for a column without one. `None` if the column has a domain, or if its type
/// cannot have one.
fn domain(column: &Column) -> Option<&'static str> {
    let data_type = DataType::from_str(&column.data_type).ok()?;
    let form = match data_type {
        DataType::Boolean => "IN (TRUE, FALSE)",
        text if text.is_string() => "IN ('…', '…')",
        number if number.is_numeric() || number.is_temporal() => "BETWEEN … AND …",
        _ => return None,
    };
    column.domain.is_none().then_some(form)
}

fn file(findings: &mut Findings, inner: &Inner, table: &Table) {
    let Source::File { format, location, options, files, .. } = &table.source else { return };
    let is_of_log = table.source.version().is_some();
    if let Some((declared, newest)) = files::newer_version(table) {
        let finding =
            format!("version {declared} of the table is read, and version {newest} exists");
        let remedy =
            format!("ALTER TABLE {} REFRESH takes the newest version", quoted(&table.name));
        findings.add(&table.name, &finding, &remedy);
    }
    if (files.is_some() || *format == FileFormat::Sqlite)
        && let Err(error) = inner.open_files().check_as_owner(table)
    {
        let remedy = if is_of_log {
            "put the files of that version back, or take the newest version: a query on the table is charged and fails"
        } else {
            "put files as they were declared in its place, or declare the table anew: a query on it is charged and fails"
        };
        findings.add(&table.name, &error.message(), remedy);
    }
    if table.source.is_remote() {
        // The permissions of an object store are its own matter.
        return;
    }
    if files.is_some() {
        return folder(findings, table, location);
    }
    if let Some((finding, remedy)) = files::managed_file(table) {
        return findings.add(&table.name, &finding, remedy);
    }
    let (name, written) = (&table.name, in_shell(location));
    let anew = created(table).map_or_else(String::new, |create| {
        create.replacen("CREATE EXTERNAL", "CREATE OR REPLACE EXTERNAL", 1)
    });
    let options: Vec<(String, String)> =
        options.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    // A file that does not describe its columns has only rows, and each of them may be a person's.
    let describes_itself = match format {
        FileFormat::Csv => {
            options.iter().all(|(key, value)| key != "has_header" || value == "true")
        }
        FileFormat::Parquet | FileFormat::Arrow => true,
        FileFormat::Json | FileFormat::Sqlite => false,
    };
    let is_read = match describes_itself {
        true => {
            let (columns, partitioned_by, format) = (&[], &[], *format);
            let options = &options;
            let written =
                files::WrittenTable { name, columns, format, partitioned_by, location, options };
            files::declared(&written).is_ok()
        }
        false => fs::File::open(location).is_ok(),
    };
    if !is_read {
        let finding = "the file of the table cannot be read in its format";
        findings.add(name, finding, &format!("put the file back, or write {anew}"));
        return;
    }
    if describes_itself && let Err(other) = inner.open_files().fits_its_declaration(table) {
        let remedy = format!(
            "CREATE OR REPLACE EXTERNAL TABLE {} STORED AS {format} LOCATION '{}' …",
            quoted(name),
            location.replace('\'', "''")
        );
        findings.add(name, &other.message(), &remedy);
    }
    let Some(mode) = permissions(Path::new(location)) else { return };
    if !table.is_public() && mode & 0o077 != 0 {
        let finding = "other users of this machine may open the file of the table";
        findings.add(name, finding, &format!("chmod 600 {written}"));
    } else if mode & 0o022 != 0 {
        let finding = "other users of this machine may change the file of the table";
        findings.add(name, finding, &format!("chmod go-w {written}"));
    }
}

/// Checks the permissions of the folder of a table with several files.
fn folder(findings: &mut Findings, table: &Table, location: &str) {
    let (name, written) = (&table.name, in_shell(location));
    if !fs::metadata(location).is_ok_and(|metadata| metadata.is_dir()) {
        findings.add(name, "the folder of the table cannot be read", "put the folder back");
        return;
    }
    let Some(mode) = permissions(Path::new(location)) else { return };
    if !table.is_public() && mode & 0o077 != 0 {
        let finding = "other users of this machine may list the folder of the table";
        findings.add(name, finding, &format!("chmod 700 {written}"));
    } else if mode & 0o022 != 0 {
        let finding = "other users of this machine may put files into the folder of the table";
        findings.add(name, finding, &format!("chmod go-w {written}"));
    }
}

/// Finds columns that seem to lead to another table but have the wrong type for it.
fn links(findings: &mut Findings, catalog: &Catalog, table: &Table) {
    if table.is_public() {
        return;
    }
    for target in catalog.tables().filter(|target| target.name != table.name) {
        let Some(Unit::Column { column: id, .. }) = target.unit() else { continue };
        let Some(id) = target.column(id) else { continue };
        let declared = table.unit().and_then(Unit::link).filter(|link| link.table == target.name);
        for column in &table.columns {
            let leads = match declared {
                Some(link) => link.columns.contains(&column.name),
                None => names_key_of(&column.name, &target.name, &id.name),
            };
            if leads && !can_lead(table, column, id) {
                findings.add(
                    &format!("{}.{}", quoted(&table.name), quoted(&column.name)),
                    &format!(
                        "the column is of type {}, and {}.{} of type {}: a link joins equal types",
                        typed(column),
                        quoted(&target.name),
                        quoted(&id.name),
                        typed(id)
                    ),
                    &retyped(table, column, id),
                );
            }
        }
    }
}

/// Whether a column may be declared to lead to another one.
fn can_lead(table: &Table, column: &Column, id: &Column) -> bool {
    let types = [column, id].map(|column| DataType::from_str(&column.data_type));
    let (Source::File { format, .. }, [Ok(is), Ok(into)]) = (&table.source, types) else {
        return column.data_type == id.data_type;
    };
    is == into || (is.is_string() && into.is_string()) || leads_as(&is, &into, *format)
}

/// The type of a column, for a message.
fn typed(column: &Column) -> String {
    sql_type_of(&column.data_type)
}

/// How to give a column the type of another column.
fn retyped(table: &Table, column: &Column, like: &Column) -> String {
    let is_csv = matches!(table.source, Source::File { format: FileFormat::Csv, .. });
    let can_be = DataType::from_str(&like.data_type).ok().as_ref().and_then(declarable);
    let mut changed = table.clone();
    if let Some(column) = changed.column_mut(&column.name) {
        column.data_type.clone_from(&like.data_type);
    }
    match created(&changed).filter(|_| is_csv && can_be.is_some()) {
        Some(create) => format!(
            "{}, and declare its unit and domains again",
            create.replacen("CREATE EXTERNAL", "CREATE OR REPLACE EXTERNAL", 1)
        ),
        None => format!("write the rows again with {} as {}", quoted(&column.name), typed(like)),
    }
}

/// The permissions of a file or folder. `None` if the system has none.
#[cfg(unix)]
fn permissions(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(fs::metadata(path).ok()?.permissions().mode())
}

#[cfg(not(unix))]
fn permissions(_path: &Path) -> Option<u32> {
    None
}

/// A path as a shell reads it.
fn in_shell(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '=');
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, about: &str, finding: &str, remedy: &str) {
        let (about, finding, remedy) = (about.to_owned(), finding.to_owned(), remedy.to_owned());
        self.0.push(Finding { about, finding, remedy });
    }
}

#[cfg(test)]
mod tests {
    use super::in_shell;

    #[test]
    fn paths_are_written_for_a_shell() {
        for (path, written) in [
            ("/data/a-1_b.csv", "/data/a-1_b.csv"),
            ("-rf", "./-rf"),
            ("a b", "'a b'"),
            ("it's; rm $HOME", "'it'\\''s; rm $HOME'"),
        ] {
            assert_eq!(in_shell(path), written);
        }
    }
}
