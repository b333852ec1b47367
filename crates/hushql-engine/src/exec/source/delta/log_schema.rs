//! The columns of a table of Delta Lake, and what its protocol asks of a reader.
//!
//! In: the protocol and the metadata of a version. Out: the [`LogColumns`], or the refusal of what
//! this program does not know. What a reader has to know is a list, and so is what is known here.
//!
//! ```text
//! {"name":"id","type":"long",…}                     id BIGINT
//! {"name":"id","type":"long","metadata":{"delta.columnMapping.physicalName":"col-5f…",…}}   id BIGINT, col-5f… in the files
//! {"name":"tags","type":{"type":"array",…},…}       a column that is not read: ARRAY
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use arrow::datatypes::{DataType, TimeUnit};
use serde::Deserialize;
use serde_json::Value;

use super::actions::{Protocol, TableMetadata};
use super::log_error::unreadable;

/// The features of tables that are read as they are meant.
const KNOWN: [&str; 6] = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
];

const MAPPING: &str = "delta.columnMapping.mode";
const PHYSICAL: &str = "delta.columnMapping.physicalName";

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::exec::source) struct LogColumn {
    pub(in crate::exec::source) name: String,
    /// Its name in the files, and among the values of partitions.
    pub(in crate::exec::source) physical: String,
    /// Its type, as files have it; for a type that is not read, its name.
    pub(in crate::exec::source) data_type: Result<DataType, String>,
    /// Whether the log has its values, one for each file.
    pub(in crate::exec::source) is_partition: bool,
}

#[derive(Deserialize)]
struct StructType {
    fields: Vec<StructField>,
}

#[derive(Deserialize)]
struct StructField {
    name: String,
    #[serde(rename = "type")]
    data_type: Value,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

/// Refuses a table that asks its readers for something else than what is known here.
///
/// # Errors
/// A sentence for the owner, with the name of the feature.
pub(super) fn is_known(protocol: &Protocol) -> io::Result<()> {
    let version = protocol.min_reader_version;
    let features = match (version, &protocol.reader_features) {
        (1 | 2, _) => return Ok(()),
        (3, Some(features)) => features,
        _ => {
            return Err(unreadable(format!(
                "its readers have to know version {version} of the protocol, and this program knows 3"
            )));
        }
    };
    match features.iter().find(|feature| !is_known_feature(feature)) {
        None => Ok(()),
        Some(feature) => Err(unreadable(format!(
            "it has the feature {feature}, which this program does not know"
        ))),
    }
}

fn is_known_feature(name: &str) -> bool {
    // What was widened before its feature had its name is read in the same way.
    KNOWN.contains(&name) || name == "typeWidening-preview"
}

/// The columns of a table, in their order.
///
/// # Errors
/// A sentence for the owner about a description that cannot be read.
pub(super) fn columns_of(
    protocol: &Protocol,
    metadata: &TableMetadata,
) -> io::Result<Vec<LogColumn>> {
    if metadata.format.provider != "parquet" {
        return Err(unreadable(format!(
            "its files are in the format {}, not in Parquet",
            metadata.format.provider
        )));
    }
    let is_mapped = is_mapped(protocol, metadata)?;
    let schema: StructType = serde_json::from_str(&metadata.schema_string).map_err(|error| {
        unreadable(format!("its log has a schema that cannot be read: {error}"))
    })?;
    let mut columns = Vec::new();
    for StructField { name, data_type, metadata: of_field } in schema.fields {
        let physical = match (is_mapped, of_field.get(PHYSICAL)) {
            (false, _) => name.clone(),
            (true, Some(Value::String(physical))) => physical.clone(),
            (true, _) => {
                return Err(unreadable(format!("its log maps the column `{name}` to no name")));
            }
        };
        let is_partition = metadata.partition_columns.contains(&name);
        columns.push(LogColumn { physical, data_type: type_of(&data_type), is_partition, name });
    }
    are_distinct(&columns, &metadata.partition_columns)?;
    Ok(columns)
}

/// Whether columns have other names in the files.
fn is_mapped(protocol: &Protocol, metadata: &TableMetadata) -> io::Result<bool> {
    let mode = metadata.configuration.get(MAPPING).and_then(Option::as_deref).unwrap_or("none");
    let mut features = protocol.reader_features.iter().flatten();
    let may_be =
        protocol.min_reader_version == 2 || features.any(|feature| feature == "columnMapping");
    match mode {
        "none" => Ok(false),
        "name" if may_be => Ok(true),
        _ => Err(unreadable(format!(
            "its columns are mapped by {MAPPING}={mode}, and this program knows the mode `name`"
        ))),
    }
}

/// Refuses two columns of one name, upper and lower case aside, and partitions by no column.
fn are_distinct(columns: &[LogColumn], partition_columns: &[String]) -> io::Result<()> {
    let mut names = BTreeSet::new();
    for column in columns {
        for name in [format!("name {}", column.name), format!("file {}", column.physical)] {
            if !names.insert(name.to_lowercase()) {
                return Err(unreadable(format!("its log has two columns `{}`", column.name)));
            }
        }
    }
    let is_column = |name: &&String| columns.iter().any(|column| column.name == **name);
    match partition_columns.iter().find(|name| !is_column(name)) {
        None => Ok(()),
        Some(name) => {
            Err(unreadable(format!("its log partitions by `{name}`, which is no column")))
        }
    }
}

/// The type of a column, or the name of a type that is not read.
fn type_of(written: &Value) -> Result<DataType, String> {
    let name = match written {
        Value::String(name) => name.as_str(),
        Value::Object(nested) => {
            let name = nested.get("type").and_then(Value::as_str).unwrap_or("nested");
            return Err(name.to_uppercase());
        }
        _ => return Err("unknown".to_owned()),
    };
    Ok(match name {
        "string" => DataType::Utf8,
        "long" => DataType::Int64,
        "integer" => DataType::Int32,
        "short" => DataType::Int16,
        "byte" => DataType::Int8,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "boolean" => DataType::Boolean,
        "date" => DataType::Date32,
        "binary" => DataType::Binary,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => return decimal(name).ok_or_else(|| name.to_uppercase()),
    })
}

fn decimal(name: &str) -> Option<DataType> {
    let (digits, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let digits: u8 = digits.trim().parse().ok()?;
    let scale: u8 = scale.trim().parse().ok()?;
    let is_one = (1..=38).contains(&digits) && scale <= digits;
    is_one.then(|| i8::try_from(scale).ok().map(|scale| DataType::Decimal128(digits, scale)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::source::delta::actions::DataFormat;

    fn protocol(version: u64, features: Option<&[&str]>) -> Protocol {
        let features = features.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Protocol { min_reader_version: version, reader_features: features }
    }

    fn metadata(fields: &str, configuration: &[(&str, &str)], by: &[&str]) -> TableMetadata {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), Some((*value).to_owned()));
        TableMetadata {
            format: DataFormat { provider: "parquet".to_owned() },
            schema_string: format!("{{\"type\":\"struct\",\"fields\":[{fields}]}}"),
            partition_columns: by.iter().map(|name| (*name).to_owned()).collect(),
            configuration: configuration.iter().map(pair).collect(),
        }
    }

    #[test]
    fn features_are_known_or_refused_by_name() {
        for (version, features) in [
            (1, None),
            (2, None),
            (3, Some(&[][..])),
            (3, Some(&KNOWN[..])),
            (3, Some(&["typeWidening-preview"])),
        ] {
            assert!(is_known(&protocol(version, features)).is_ok(), "{version} {features:?}");
        }
        for (version, features, expected) in [
            (0, None, "version 0"),
            (3, None, "version 3"),
            (4, Some(&[][..]), "version 4"),
            (3, Some(&["v2Checkpoint", "variantType"]), "the feature variantType"),
            (3, Some(&["catalogManaged"]), "the feature catalogManaged"),
        ] {
            let refused = is_known(&protocol(version, features)).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn types_are_read_or_named() {
        let text = |name: &str| Value::String(name.to_owned());
        for (name, expected) in [
            ("long", Ok(DataType::Int64)),
            ("decimal(12,2)", Ok(DataType::Decimal128(12, 2))),
            ("decimal(38, 0)", Ok(DataType::Decimal128(38, 0))),
            ("decimal(39,0)", Err("DECIMAL(39,0)".to_owned())),
            ("decimal(2,3)", Err("DECIMAL(2,3)".to_owned())),
            ("variant", Err("VARIANT".to_owned())),
            ("void", Err("VOID".to_owned())),
        ] {
            assert_eq!(type_of(&text(name)), expected, "{name}");
        }
        let nested = serde_json::json!({"type": "map", "keyType": "string"});
        assert_eq!(type_of(&nested), Err("MAP".to_owned()));
    }

    #[test]
    fn columns_have_their_names_in_the_files() {
        let id = r#"{"name":"id","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}}"#;
        let year = r#"{"name":"year","type":"integer","metadata":{}}"#;
        let both = format!("{id},{year}");
        let plain = columns_of(&protocol(1, None), &metadata(&both, &[], &["year"])).unwrap();
        assert_eq!(plain[0].physical, "id");
        assert!(plain[1].is_partition && !plain[0].is_partition);
        let by_name = [(MAPPING, "name")];
        let mapped = columns_of(&protocol(2, None), &metadata(id, &by_name, &[])).unwrap();
        assert_eq!(mapped[0].physical, "col-1");
        for (version, fields, configuration, by, expected) in [
            (1, id, &by_name[..], &[][..], "mode `name`"),
            (2, id, &[(MAPPING, "id")], &[], "mode=id"),
            (2, both.as_str(), &by_name, &[], "`year` to no name"),
            (1, id, &[], &["year"], "partitions by `year`"),
            (1, &format!("{year},{}", year.replace("year", "Year")), &[], &[], "two columns"),
            (1, "{", &[], &[], "schema that cannot be read"),
        ] {
            let refused =
                columns_of(&protocol(version, None), &metadata(fields, configuration, by));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
