//! The formats of tables, and how rows in a format that is not read become files that are.
//!
//! In: the name of a format, as STORED AS has it. Out: the format, or a refusal with a command of a
//! program that reads it.
//!
//! ```text
//! STORED AS AVRO     →     COPY (FROM read_avro('t.avro')) TO 't.parquet', in DuckDB
//! ```

use crate::catalog::FileFormat;
use crate::error::Error;

/// What the owner of rows in another format does.
fn conversion_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "AVRO" => {
            "write its rows as Parquet, as DuckDB does: COPY (FROM read_avro('t.avro')) TO 't.parquet'"
        }
        "ORC" => {
            "write its rows as Parquet, as pyarrow does: parquet.write_table(orc.read_table('t.orc'), 't.parquet')"
        }
        "ICEBERG" => {
            "write its present rows as Parquet, as DuckDB does: COPY (FROM iceberg_scan('folder')) TO 'rows.parquet'"
        }
        "HUDI" => {
            "write its present rows as Parquet, as Spark does: spark.read.format('hudi').load('folder').write.parquet('rows')"
        }
        "MYSQL" | "MARIADB" => {
            "write its rows as Parquet, as DuckDB does: ATTACH 'host=… database=…' AS db (TYPE mysql); COPY (FROM db.t) TO 't.parquet'"
        }
        "TSV" => {
            "write STORED AS CSV, and OPTIONS ('delimiter' '\\t') unless the name ends with .tsv"
        }
        _ => return None,
    })
}

/// The format of a table that is stored under this name.
///
/// # Errors
/// [`Error::Catalog`] for other names, with a way to convert what is stored so.
pub(super) fn file_format(name: &str) -> Result<FileFormat, Error> {
    match name {
        "CSV" => Ok(FileFormat::Csv),
        "PARQUET" => Ok(FileFormat::Parquet),
        "JSON" | "NDJSON" => Ok(FileFormat::Json),
        "ARROW" => Ok(FileFormat::Arrow),
        "SQLITE" => Ok(FileFormat::Sqlite),
        other => Err(Error::catalog(match conversion_of(other) {
            Some(convert) => format!("a table is not stored as {other} here: {convert}"),
            None => {
                format!(
                    "a table is stored as CSV, PARQUET, JSON, ARROW, DELTA, SQLITE or POSTGRES, not {other}"
                )
            }
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::conversion_of;

    #[test]
    fn other_formats_have_a_way_out() {
        for (name, words) in [
            ("AVRO", "read_avro"),
            ("ORC", "orc.read_table"),
            ("ICEBERG", "iceberg_scan"),
            ("MYSQL", "TYPE mysql"),
            ("TSV", r"'delimiter' '\t'"),
        ] {
            assert!(conversion_of(name).is_some_and(|text| text.contains(words)), "{name}");
        }
        assert_eq!(conversion_of("XLSX"), None);
    }
}
