//! Values of the catalog in PostgreSQL's binary format, and arrays in both formats.
//!
//! In: the number of a type, and the text of a value. Out: its bytes; `None` if the text is no
//! value of the type.
//!
//! ```text
//! oid "20"   →   00 00 00 14          name[] "{a}"   →   one dimension, of name, one element
//! ```

use chrono::{DateTime, NaiveDateTime};

use super::numeric;
use super::timestamp;
use super::types::{self, kinds};

/// Appends the bytes of a value.
pub(super) fn write(kind: u32, text: &str, to: &mut Vec<u8>) -> Option<()> {
    match kind {
        kinds::BOOL => to.push(u8::from(text == "t" || text == "true")),
        kinds::INT2 => to.extend_from_slice(&text.parse::<i16>().ok()?.to_be_bytes()),
        kinds::INT4 => to.extend_from_slice(&text.parse::<i32>().ok()?.to_be_bytes()),
        kinds::INT8 => to.extend_from_slice(&text.parse::<i64>().ok()?.to_be_bytes()),
        kinds::OID | 28 | 29 => to.extend_from_slice(&text.parse::<u32>().ok()?.to_be_bytes()),
        // The name of a function stands for its number.
        24 => {
            let number = text.parse().unwrap_or_else(|_| match text {
                "-" => 0,
                name => u32::try_from(types::function_number(name)).unwrap_or(0),
            });
            to.extend_from_slice(&number.to_be_bytes());
        }
        kinds::FLOAT4 => to.extend_from_slice(&text.parse::<f32>().ok()?.to_be_bytes()),
        kinds::FLOAT8 => to.extend_from_slice(&text.parse::<f64>().ok()?.to_be_bytes()),
        kinds::NUMERIC => numeric::write(text, to)?,
        kinds::TIMESTAMPTZ | kinds::TIMESTAMP => {
            let micros = match DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f%#z") {
                Ok(moment) => moment.timestamp_micros(),
                Err(_) => NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f")
                    .ok()?
                    .and_utc()
                    .timestamp_micros(),
            };
            to.extend_from_slice(&timestamp::timestamp(micros).to_be_bytes());
        }
        kinds::INTERVAL => {
            let micros = timestamp::micros_of(text)?;
            to.extend_from_slice(&micros.to_be_bytes());
            // No day and no month.
            to.extend_from_slice(&[0; 8]);
        }
        3802 => {
            to.push(1);
            to.extend_from_slice(text.as_bytes());
        }
        22 | 30 => {
            let words = text.split_whitespace().map(|word| Some(word.to_owned()));
            list(types::element_of(kind), &words.collect::<Vec<_>>(), 0, to)?;
        }
        kind if types::numbered(kind.into()).is_some_and(|(_, is_array)| is_array) => {
            list(types::element_of(kind), &elements(text)?, 1, to)?;
        }
        _ => to.extend_from_slice(text.as_bytes()),
    }
    Some(())
}

/// Appends the beginning of an array of one dimension, or of none if it is empty. Its first element
/// has the number 1.
pub(super) fn head(kind: u32, length: usize, has_nulls: bool, to: &mut Vec<u8>) -> Option<()> {
    head_from(kind, length, has_nulls, 1, to)
}

fn head_from(
    kind: u32,
    length: usize,
    has_nulls: bool,
    first: i32,
    to: &mut Vec<u8>,
) -> Option<()> {
    for number in [i32::from(length > 0), i32::from(has_nulls)] {
        to.extend_from_slice(&number.to_be_bytes());
    }
    to.extend_from_slice(&kind.to_be_bytes());
    if length > 0 {
        for number in [i32::try_from(length).ok()?, first] {
            to.extend_from_slice(&number.to_be_bytes());
        }
    }
    Some(())
}

/// Appends an array.
fn list(kind: u32, elements: &[Option<String>], first: i32, to: &mut Vec<u8>) -> Option<()> {
    let has_nulls = elements.iter().any(Option::is_none);
    head_from(kind, elements.len(), has_nulls, first, to)?;
    for element in elements {
        let Some(text) = element else {
            to.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        };
        let mut cell = Vec::new();
        write(kind, text, &mut cell)?;
        to.extend_from_slice(&i32::try_from(cell.len()).ok()?.to_be_bytes());
        to.append(&mut cell);
    }
    Some(())
}

/// An array as text: `{a,"b c",NULL}`.
pub(super) fn array(elements: &[Option<String>]) -> String {
    let special = |c: char| c.is_whitespace() || ['{', '}', ',', '"', '\\'].contains(&c);
    let is_plain = |text: &str| {
        !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special)
    };
    let each = elements.iter().map(|element| match element {
        None => "NULL".to_owned(),
        Some(text) if is_plain(text) => text.clone(),
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    });
    format!("{{{}}}", each.collect::<Vec<_>>().join(","))
}

/// The elements of `{a,"b c",NULL}`.
pub(super) fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut list, mut one, mut quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    if inner.trim().is_empty() {
        return Some(list);
    }
    let mut end = |one: &mut String, was_quoted: &mut bool| {
        let is_null = !*was_quoted && one.trim().eq_ignore_ascii_case("null");
        let text = if *was_quoted { one.as_str() } else { one.trim() };
        list.push((!is_null).then(|| text.to_owned()));
        one.clear();
        *was_quoted = false;
    };
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => one.push(chars.next()?),
            '"' => (quoted, was_quoted) = (!quoted, true),
            ',' if !quoted => end(&mut one, &mut was_quoted),
            // Around quotes and after a comma, spaces do not belong to an element.
            c if !quoted && c.is_whitespace() && (one.is_empty() || was_quoted) => {}
            c => one.push(c),
        }
    }
    end(&mut one, &mut was_quoted);
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u32, text: &str) -> Option<Vec<u8>> {
        let mut to = Vec::new();
        write(kind, text, &mut to).map(|()| to)
    }

    #[test]
    fn values_have_the_bytes_of_their_types() {
        assert_eq!(bytes(kinds::OID, "4000000000").unwrap(), 4_000_000_000_u32.to_be_bytes());
        assert_eq!(bytes(kinds::INT2, "-2").unwrap(), (-2_i16).to_be_bytes());
        assert_eq!(bytes(18, "r").unwrap(), b"r");
        assert_eq!(
            bytes(kinds::TIMESTAMPTZ, "2000-01-01 00:00:01+00").unwrap(),
            1_000_000_i64.to_be_bytes()
        );
        assert_eq!(bytes(24, "-").unwrap(), [0; 4]);
        let names = bytes(kinds::NAMES, "{a,NULL}").unwrap();
        let ends = [[0, 0, 0, 1].as_slice(), b"a", &[0xff; 4]].concat();
        assert_eq!(
            names,
            [
                [0, 0, 0, 1].as_slice(),
                &[0, 0, 0, 1],
                &[0, 0, 0, 19],
                &[0, 0, 0, 2],
                &[0, 0, 0, 1],
                &ends
            ]
            .concat()
        );
        assert_eq!(bytes(kinds::OIDS, "{}").unwrap().len(), 12);
        // Half an hour before UTC.
        let half = [(-1_800_000_000_i64).to_be_bytes(), [0; 8]].concat();
        assert_eq!(bytes(kinds::INTERVAL, "-00:30:00").unwrap(), half);
        assert_eq!(bytes(kinds::INT4, "four"), None);
    }
}
