//! The columns of JSON files, from the keys of their objects.
//!
//! In: the objects of one or several files. Out: a column for each key that occurs anywhere in
//! them, with the type of its first values. A key that an object lacks is NULL there. Lists and
//! objects within objects are columns of texts.
//!
//! ```text
//! {"id": 1, "x": 2} ⏎ {"id": 2, "x": 0.5, "y": "a"}     →   id BIGINT, x DOUBLE, y VARCHAR
//! {"id": 1} ⏎ {"id": {"n": 1}}                          →   an error that names id and line 2
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::Value;

use super::json_objects::{begins_array, is_open, read_object};
use super::lenient::TextFormat;
use super::open_files::OpenFile;
use crate::catalog::quoted;
use crate::error::Error;
use crate::functions::has_offset;

/// The number of rows from which the types of a CSV file are inferred, and of values from which the
/// type of a key is.
pub(super) const INFERRED_ROWS: usize = 10_000;

/// The zone of a column whose cells have offsets.
pub(super) const OFFSETS: &str = "offsets";

/// The most columns of a table whose columns are not declared.
const MOST_KEYS: usize = 10_000;

/// The keys of objects, in the order in which they occur, and what their values are.
#[derive(Debug, Default)]
pub(super) struct JsonKeys {
    keys: Vec<(String, KeyValues)>,
    positions: BTreeMap<String, usize>,
    /// The first line that is not an object.
    misfit: Option<u64>,
}

/// What the first values of a key are.
#[derive(Debug, Default)]
struct KeyValues {
    seen: usize,
    has_truths: bool,
    has_whole_numbers: bool,
    has_fractions: bool,
    has_texts: bool,
    /// Whether a text is a moment with an offset.
    has_offset: bool,
    /// The first number, text or truth value, with its line.
    scalar: Option<(&'static str, u64)>,
    /// The first list or object, with its line.
    nested: Option<(&'static str, u64)>,
}

impl KeyValues {
    fn add(&mut self, value: &Value, line: u64) {
        self.seen += 1;
        match value {
            Value::Null => {}
            Value::Array(_) => drop(self.nested.get_or_insert(("a list", line))),
            Value::Object(_) => drop(self.nested.get_or_insert(("an object", line))),
            Value::Bool(_) => {
                self.has_truths = true;
                self.scalar.get_or_insert(("a truth value", line));
            }
            Value::Number(number) => {
                self.has_whole_numbers |= number.is_i64();
                self.has_fractions |= !number.is_i64();
                self.scalar.get_or_insert(("a number", line));
            }
            Value::String(text) => {
                self.has_texts = true;
                self.has_offset |= has_offset(text);
                self.scalar.get_or_insert(("a text", line));
            }
        }
    }

    fn data_type(&self) -> DataType {
        let is_number = self.has_whole_numbers || self.has_fractions;
        match (self.has_texts || self.nested.is_some(), self.has_truths, is_number) {
            (false, true, false) => DataType::Boolean,
            (false, false, true) if self.has_fractions => DataType::Float64,
            (false, false, true) => DataType::Int64,
            (true, _, _) | (false, true, true) | (false, false, false) => DataType::Utf8,
        }
    }
}

impl JsonKeys {
    /// The keys of the first objects of files, or of all of their objects.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn of(
        files: &[(Arc<OpenFile>, TextFormat)],
        most: Option<usize>,
    ) -> io::Result<Self> {
        let mut found = Self::default();
        let mut left = most;
        for (held, shape) in files {
            let shape = shape.clone().over_lines(is_document(held, shape)?);
            let mut lines = shape.lines(held.reader())?;
            while left != Some(0)
                && let Some(line) = lines.next()?
            {
                left = left.map(|left| left - 1);
                let object = read_object(line);
                let number = lines.first_line();
                match object {
                    Some(object) => found.add(&object, number),
                    None => drop(found.misfit.get_or_insert(number)),
                }
            }
            if let Some(line) = lines.broken() {
                found.misfit.get_or_insert(line);
            }
        }
        Ok(found)
    }

    fn add(&mut self, object: &serde_json::Map<String, Value>, line: u64) {
        for (key, value) in object {
            let position = match self.positions.get(key) {
                Some(position) => *position,
                None => {
                    self.positions.insert(key.clone(), self.keys.len());
                    self.keys.push((key.clone(), KeyValues::default()));
                    self.keys.len() - 1
                }
            };
            match self.keys.get_mut(position) {
                Some((_, values)) if values.seen < INFERRED_ROWS => values.add(value, line),
                Some(_) | None => {}
            }
        }
    }

    /// Whether an object has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.positions.contains_key(key)
    }

    /// The columns of all keys.
    ///
    /// # Errors
    /// [`Error::Catalog`] if no line is an object, if there are very many keys, or if a key has
    /// lists or objects beside other values.
    pub(super) fn columns(&self, shown: &str) -> Result<SchemaRef, Error> {
        if self.keys.is_empty() {
            return Err(Error::catalog(match self.misfit {
                Some(line) => format!(
                    "{shown} is not a JSON file: line {line} is no object; each line is one, or the file is an array of objects"
                ),
                None => format!("{shown} is not a JSON file: it has no object with a key"),
            }));
        }
        if self.keys.len() > MOST_KEYS {
            let all = self.keys.len();
            return Err(Error::catalog(format!(
                "the objects of {shown} have {all} keys: name those that are columns, with their types"
            )));
        }
        let mixed = self.keys.iter().find_map(|(key, values)| {
            let ((scalar, of_scalar), (nested, of_nested)) = (values.scalar?, values.nested?);
            Some(format!(
                "the key {} of {shown} has {nested} in line {of_nested} and {scalar} in line {of_scalar}: name the columns with their types, and declare it VARCHAR, which holds the JSON text of lists and objects",
                quoted(key)
            ))
        });
        if let Some(mixed) = mixed {
            return Err(Error::catalog(mixed));
        }
        Ok(self.schema(KeyValues::data_type))
    }

    /// The keys with the zones of their moments: those with offsets have one.
    pub(super) fn with_offsets(&self) -> SchemaRef {
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(OFFSETS.into()));
        self.schema(|values| if values.has_offset { zoned.clone() } else { DataType::Utf8 })
    }

    fn schema(&self, data_type: impl Fn(&KeyValues) -> DataType) -> SchemaRef {
        let fields = self.keys.iter().map(|(key, values)| Field::new(key, data_type(values), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Whether a JSON file is a document, as its first lines show: an array of objects, or objects over
/// several lines.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn is_document(held: &Arc<OpenFile>, shape: &TextFormat) -> io::Result<bool> {
    let mut lines = shape.clone().over_lines(false).lines(held.reader())?;
    let mut next = || {
        loop {
            match lines.next()? {
                Some(line) if line.trim_ascii().is_empty() => {}
                Some(line) => {
                    let is_object = read_object(line).is_some();
                    return Ok::<_, io::Error>(Some((
                        begins_array(line),
                        is_open(line),
                        is_object,
                    )));
                }
                None => return Ok(None),
            }
        }
    };
    Ok(match next()? {
        None => false,
        Some((true, true, _)) => true,
        // A whole array may be one broken line among others.
        Some((true, false, _)) => next()?.is_none(),
        Some((false, false, _)) => false,
        // An object that a line does not end may be broken, and others follow in lines of theirs.
        Some((false, true, _)) => next()?.is_some_and(|(_, _, is_object)| !is_object),
    })
}

#[cfg(test)]
mod tests {
    use super::super::compressed::Compression;
    use super::*;

    fn found(text: &str) -> (JsonKeys, bool) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let held = Arc::new(OpenFile::open(file.path().to_str().unwrap(), 0).unwrap());
        let shape = TextFormat::Json { compression: Compression::Uncompressed, over_lines: false };
        let document = is_document(&held, &shape).unwrap();
        (JsonKeys::of(&[(held, shape)], None).unwrap(), document)
    }

    #[track_caller]
    fn columns(text: &str, expected: &str, document: bool) {
        let (keys, is_document) = found(text);
        let columns = match keys.columns("`t`") {
            Ok(schema) => {
                let all = schema.fields().iter();
                all.map(|field| format!("{} {}", field.name(), field.data_type()))
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            Err(error) => error.to_string(),
        };
        assert!(columns.contains(expected), "{text}: {columns}");
        assert_eq!(is_document, document, "{text}");
    }

    #[test]
    fn keys_are_columns_wherever_they_occur() {
        columns("{\"b\":1,\"a\":true}\n", "a Boolean, b Int64", false);
        columns("{\"a\":1}\n{\"a\":0.5}\n{\"a\":null}", "a Float64", false);
        columns("{\"a\":1}\n{\"a\":\"x\"}\n", "a Utf8", false);
        columns("{\"a\":18446744073709551615}\n", "a Float64", false);
        columns("{\"a\":true}\n{\"a\":1}\n", "a Utf8", false);
        columns("{\"a\":null}\n{\"a\":NaN}\n", "a Utf8", false);
        columns("{\"a\":[1]}\n{\"a\":{}}\n", "a Utf8", false);
        let late: String = (0..10_001).map(|i| format!("{{\"a\":{i}}}\n")).collect();
        columns(&format!("{late}{{\"a\":\"x\",\"late\":0.5}}\n"), "a Int64, late Float64", false);
    }

    #[test]
    fn documents_are_known_by_their_beginning() {
        columns("[\n{\"a\":1},\n{\"a\":2}\n]\n", "a Int64", true);
        columns("[{\"a\":1},{\"b\":2}]", "a Int64, b Int64", true);
        columns("{\n  \"a\": {\n    \"b\": 1\n  }\n}\n", "a Utf8", true);
        // A broken line is no document.
        columns("{\"a\": \n{\"b\":1}\n", "b Int64", false);
        columns("[1]\n{\"b\":1}\n", "b Int64", false);
    }

    #[test]
    fn what_has_no_columns_is_said_with_its_line() {
        columns(
            "{\"a\":1}\n{\"b\":2}\n{\"a\":{\"n\":1}}\n",
            "the key a of `t` has an object in line 3 and a number in line 1",
            false,
        );
        columns("\nx\n", "line 2 is no object", false);
        columns("[1,\n2]\n", "line 1 is no object", true);
        columns("{}\n", "no object with a key", false);
    }
}
