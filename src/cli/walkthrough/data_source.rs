//! Which arguments of `init` are data, and the statement that makes a table of each.
//!
//! In: the paths and addresses of the command line. Out: the vault's path, and for each of the
//! others a name for its table and a CREATE EXTERNAL TABLE. Only names of files are looked at.
//!
//! ```text
//! data/Visits 2025.csv   →  visits_2025   CREATE EXTERNAL TABLE visits_2025 STORED AS CSV LOCATION 'data/Visits 2025.csv'
//! ```

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use hushql_vault::catalog::quoted;

use super::super::arguments::Begun;
use super::super::failure::Failure;

/// What files of each ending are stored as. The engine says how those after the first ten are
/// converted.
const ENDINGS: [(&str, &str); 22] = [
    ("csv", "CSV"),
    ("tsv", "CSV"),
    ("json", "JSON"),
    ("jsonl", "JSON"),
    ("ndjson", "JSON"),
    ("parquet", "PARQUET"),
    ("pq", "PARQUET"),
    ("arrow", "ARROW"),
    ("feather", "ARROW"),
    ("ipc", "ARROW"),
    ("xlsx", "XLSX"),
    ("xls", "XLS"),
    ("ods", "ODS"),
    ("sav", "SAV"),
    ("dta", "DTA"),
    ("sas7bdat", "SAS7BDAT"),
    ("rds", "RDS"),
    ("avro", "AVRO"),
    ("orc", "ORC"),
    ("duckdb", "DUCKDB"),
    ("sqlite", "SQLITE"),
    ("xml", "XML"),
];

/// The endings that a person may write, for messages.
const KNOWN: &str = ".csv, .tsv, .json, .jsonl, .parquet or .arrow";

/// Words that name no table without quotes.
const RESERVED: [&str; 24] = [
    "all", "as", "by", "case", "cross", "end", "except", "from", "group", "having", "join", "left",
    "limit", "order", "right", "select", "set", "table", "union", "user", "using", "values",
    "where", "with",
];

/// The most entries of a folder that are looked at to find what it holds.
const ENTRIES: usize = 10_000;

/// Data that becomes a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct DataSource {
    /// The name of the table.
    pub(super) table: String,
    /// As the person wrote it.
    pub(super) written: String,
    /// The statement that makes the table.
    pub(super) create: String,
}

/// A vault, and the data that it is to declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Plan {
    pub(in crate::cli) vault: PathBuf,
    pub(in crate::cli) data: Vec<DataSource>,
}

/// Reads the arguments: one may be a vault, the others are data.
///
/// # Errors
/// A sentence if two of them are no data, or if it is not clear how data are stored.
pub(in crate::cli) fn plan(begun: &Begun) -> Result<Plan, Failure> {
    let (data, vaults): (Vec<&String>, Vec<&String>) =
        begun.paths.iter().partition(|path| is_data(path));
    let data = data.into_iter().map(|path| source(path, begun)).collect::<Result<Vec<_>, _>>()?;
    if let Some(twice) = data.iter().enumerate().find_map(|(at, one)| {
        data[..at].iter().any(|other| other.table == one.table).then_some(one)
    }) {
        return Err(Failure::Usage(format!(
            "two arguments would both be the table {}: rename one, or declare it with SQL",
            twice.table
        )));
    }
    let vault = match (vaults.as_slice(), data.first()) {
        ([vault], _) => PathBuf::from(vault),
        ([], Some(first)) => PathBuf::from(format!("{}.db", first.table)),
        ([], None) | ([_, _, ..], _) => {
            return Err(Failure::Usage(format!(
                "only one argument of init is a vault; data are folders, patterns, addresses, or files that end with {KNOWN}: {} are neither",
                vaults.iter().map(|path| path.as_str()).collect::<Vec<_>>().join(" and ")
            )));
        }
    };
    let alone = begun.yes || begun.unit.is_some() || begun.no_header || begun.table.is_some();
    if data.is_empty() && alone {
        return Err(Failure::Usage(
            "--yes, --unit, --no-header and --table are about data: name a file, as in hushql init mydata.csv --yes"
                .to_owned(),
        ));
    }
    Ok(Plan { vault, data })
}

/// Whether an argument is data, and not the path of a vault.
fn is_data(path: &str) -> bool {
    path.contains("://")
        || path.contains(['*', '?', '['])
        || stored_as(path).is_some()
        || Path::new(path).is_dir()
        || is_other_file(Path::new(path))
}

/// Whether this is a file, and no database of SQLite, as vaults are. An empty file is none either.
fn is_other_file(path: &Path) -> bool {
    let mut head = [0; 16];
    let Ok(mut file) = File::open(path) else { return false };
    path.is_file() && file.read_exact(&mut head).is_ok() && &head != b"SQLite format 3\0"
}

/// How a file is stored, by the ending of its name.
fn stored_as(path: &str) -> Option<&'static str> {
    let lower = path.to_lowercase();
    let lower = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst")).unwrap_or(&lower);
    let ending = lower.rsplit(['/', '\\']).next()?.rsplit_once('.')?.1;
    ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, stored)| *stored)
}

/// The statement that makes a table of a file.
///
/// # Errors
/// A sentence if it is not clear how the file is stored.
#[cfg(feature = "console")]
pub(in crate::cli) fn table_of_file(path: &str) -> Result<String, String> {
    let begun = Begun { paths: Vec::new(), yes: false, unit: None, no_header: false, table: None };
    source(path, &begun).map(|source| source.create).map_err(|failure| failure.message())
}

fn source(path: &str, begun: &Begun) -> Result<DataSource, Failure> {
    let is_server = path.starts_with("postgres://") || path.starts_with("postgresql://");
    let (stored, named) = match (is_server, &begun.table) {
        (true, None) => {
            return Err(Failure::Usage(
                "a postgres:// address names a database: add --table SCHEMA.NAME for the table or view in it"
                    .to_owned(),
            ));
        }
        (true, Some(table)) => ("POSTGRES", table.rsplit('.').next().unwrap_or(table)),
        (false, _) => (format_of(path)?, stem(path)),
    };
    let table = table_name(named);
    let mut options = Vec::new();
    if stored == "CSV" && begun.no_header {
        options.push("'has_header' 'false'".to_owned());
    }
    if let (true, Some(table)) = (is_server, &begun.table) {
        options.push(format!("table {}", text(table)));
    }
    let options = match options.is_empty() {
        true => String::new(),
        false => format!(" OPTIONS ({})", options.join(", ")),
    };
    let create = format!(
        "CREATE EXTERNAL TABLE IF NOT EXISTS {} STORED AS {stored} LOCATION {}{options}",
        quoted(&table),
        text(path)
    );
    Ok(DataSource { table, written: path.to_owned(), create })
}

/// A text of SQL.
pub(super) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn format_of(path: &str) -> Result<&'static str, Failure> {
    if let Some(stored) = stored_as(path) {
        return Ok(stored);
    }
    let sentence = match Path::new(path).is_dir() {
        true => match stored_in(Path::new(path)).as_slice() {
            [one] => return Ok(one),
            [] => format!("the folder {path} holds no file that ends with {KNOWN}"),
            [_, _, ..] => format!(
                "the folder {path} holds files of several kinds: name one kind with a pattern, as in '{path}/*.csv'"
            ),
        },
        false if path.contains(['*', '?', '[']) => {
            format!("end the pattern {path} as its files end, with {KNOWN}")
        }
        false => format!(
            "{path} is no vault, and its name does not say how it is stored: let it end with {KNOWN}"
        ),
    };
    Err(Failure::Usage(sentence))
}

/// How the files of a folder are stored, at any depth. Hidden ones do not count.
fn stored_in(folder: &Path) -> Vec<&'static str> {
    let (mut waiting, mut found, mut seen) = (vec![folder.to_owned()], Vec::new(), 0);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            let name = entry.file_name().to_string_lossy().into_owned();
            if seen > ENTRIES || name.starts_with(['.', '_']) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(_) => found.extend(stored_as(&name).filter(|stored| !found.contains(stored))),
                Err(_) => {}
            }
        }
    }
    found
}

/// The last name of a path without its endings; of a pattern, that of the folder.
fn stem(path: &str) -> &str {
    let mut parts = path.split(['/', '\\']).filter(|part| !part.is_empty()).rev();
    let is_plain = |part: &&str| !part.contains(['*', '?', '[']) && *part != "." && *part != "..";
    let name = parts.find(is_plain).unwrap_or("data");
    let end = name.find('.').filter(|at| *at > 0).unwrap_or(name.len());
    &name[..end]
}

/// A name of a table that needs no quotes.
fn table_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    match name.chars().next() {
        None => "data".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("t_{name}"),
        Some(_) if RESERVED.contains(&name) => format!("{name}_data"),
        Some(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(paths: &[&str]) -> Begun {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Begun { paths, yes: false, unit: None, no_header: false, table: None }
    }

    fn create(paths: &[&str]) -> Result<(String, Vec<String>), String> {
        let plan = plan(&begun(paths)).map_err(|failure| failure.to_string())?;
        let vault = plan.vault.display().to_string();
        Ok((vault, plan.data.into_iter().map(|source| source.create).collect()))
    }

    #[test]
    fn data_become_tables_and_vaults_do_not() {
        let statement = |table: &str, stored: &str, location: &str| {
            format!(
                "CREATE EXTERNAL TABLE IF NOT EXISTS {table} STORED AS {stored} LOCATION '{location}'"
            )
        };
        assert_eq!(create(&["study.db"]).unwrap(), ("study.db".to_owned(), vec![]));
        for (path, vault, table, stored) in [
            ("a/Visits 2025.csv", "visits_2025.db", "visits_2025", "CSV"),
            ("2025.tsv.gz", "t_2025.db", "t_2025", "CSV"),
            ("logs/*.jsonl", "logs.db", "logs", "JSON"),
            ("s3://bucket/stays/", "", "", ""),
            ("Ünïcode.parquet", "n_code.db", "n_code", "PARQUET"),
            ("order.csv", "order_data.db", "order_data", "CSV"),
        ] {
            if table.is_empty() {
                assert!(create(&[path]).is_err(), "{path}");
                continue;
            }
            let expected = (vault.to_owned(), vec![statement(table, stored, path)]);
            assert_eq!(create(&[path]).unwrap(), expected);
        }
        let several = create(&["b.csv", "study.db", "it's.parquet"]).unwrap();
        assert_eq!(several.0, "study.db");
        assert_eq!(several.1[1], statement("it_s", "PARQUET", "it''s.parquet"));
        assert!(create(&["a.csv", "x/a.csv"]).unwrap_err().contains("both be the table a"));
        assert!(create(&["one.db", "two.db"]).unwrap_err().contains("one.db and two.db"));
        assert!(create(&["postgres://u@h/d"]).unwrap_err().contains("--table"));
        assert!(create(&["data/*"]).unwrap_err().contains("end the pattern"));
    }

    #[test]
    fn a_folder_is_what_its_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        assert!(create(&[&path]).unwrap_err().contains("holds no file"));
        fs::create_dir(folder.path().join("year=2025")).unwrap();
        fs::write(folder.path().join("year=2025/part.parquet"), "").unwrap();
        fs::write(folder.path().join("_SUCCESS.csv"), "").unwrap();
        assert!(create(&[&path]).unwrap().1[0].contains("STORED AS PARQUET"));
        fs::write(folder.path().join("more.csv"), "").unwrap();
        assert!(create(&[&path]).unwrap_err().contains("several kinds"));
        let other = folder.path().join("notes.txt");
        fs::write(&other, "a note of twenty bytes").unwrap();
        let other = other.to_str().unwrap().to_owned();
        assert!(create(&[&other]).unwrap_err().contains("does not say how it is stored"));
    }
}
