//! The objects of a JSON text: one in each line, or anywhere in a document.
//!
//! In: a line, or the bytes of a document one after the other. Out: an object, or where a document
//! has none. A document is an array of objects, or objects with blanks between them.
//!
//! ```text
//! {"id": 1, "x": NaN}                        an object whose x is NULL
//! [{"id": 1}, ⏎ {"id": 2}]                   a document of two objects
//! { ⏎ "id": 1 ⏎ } ⏎ { ⏎ "id": 2 ⏎ }          a document of two objects
//! [{"id": 1}, 2]                             no document of objects
//! ```

/// The object in a text, if the text is one. NaN and the infinities, which are no JSON and which
/// some writers use, are NULL.
pub(super) fn read_object(text: &[u8]) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_slice(text).ok().or_else(|| serde_json::from_slice(&without_nan(text)?).ok())
}

/// The names of numbers that are no JSON.
const NOT_FINITE: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// A text with `null` in place of NaN and the infinities outside of strings; `None` if it has none.
fn without_nan(text: &[u8]) -> Option<Vec<u8>> {
    let mut written = Vec::with_capacity(text.len());
    let (mut rest, mut string, mut is_found) = (text, StringState::default(), false);
    while let [byte, behind @ ..] = rest {
        let is_outside = !string.is_open;
        let name = NOT_FINITE.iter().find(|name| is_outside && rest.starts_with(name));
        if let Some(name) = name {
            written.extend_from_slice(b"null");
            rest = rest.get(name.len()..).unwrap_or_default();
            is_found = true;
            continue;
        }
        string.step(*byte);
        written.push(*byte);
        rest = behind;
    }
    is_found.then_some(written)
}

/// The values of an object with their keys in quotes, as the object has them. A parsed fraction has
/// 17 digits at most.
pub(super) struct WrittenValues<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> WrittenValues<'a> {
    /// The digits of the number under a key; the last one counts if the key occurs twice.
    pub(super) fn number(&self, key: &str) -> Option<&'a str> {
        let is_key = |written: &[u8]| match written {
            [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => plain == key.as_bytes(),
            escaped => serde_json::from_slice::<String>(escaped).is_ok_and(|name| name == key),
        };
        let (_, text) = self.0.iter().rev().find(|(written, _)| is_key(written))?;
        let text = text.trim_ascii_start();
        let ends = |byte: &u8| matches!(byte, b',' | b'}') || byte.is_ascii_whitespace();
        std::str::from_utf8(text.get(..text.iter().position(ends)?)?).ok()
    }
}

/// The values of an object as it has them.
pub(super) fn written_values(object: &[u8]) -> WrittenValues<'_> {
    let (mut depth, mut string, mut from) = (0_usize, StringState::default(), 0);
    let mut name: &[u8] = &[];
    let mut found = Vec::new();
    for (at, byte) in object.iter().enumerate() {
        let was_open = string.is_open;
        string.step(*byte);
        match byte {
            b'"' if !was_open => from = at,
            b'"' if !string.is_open => name = object.get(from..=at).unwrap_or_default(),
            _ if was_open => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => found.push((name, object.get(at + 1..).unwrap_or_default())),
            _ => {}
        }
    }
    WrittenValues(found)
}

/// Whether the bytes of a JSON text are within a string.
#[derive(Debug, Default)]
struct StringState {
    is_open: bool,
    is_escaped: bool,
}

impl StringState {
    fn step(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_open => self.is_escaped = true,
            b'"' => self.is_open = !self.is_open,
            _ => {}
        }
    }
}

/// Whether a line begins an object or an array and does not end it.
pub(super) fn is_open(line: &[u8]) -> bool {
    let begins = line.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['));
    let is_cut = |text: &[u8]| {
        let whole = serde_json::from_slice::<serde::de::IgnoredAny>(text);
        whole.err().map(|error| error.is_eof())
    };
    begins
        && match is_cut(line) {
            None => false,
            Some(true) => true,
            Some(false) => without_nan(line).is_some_and(|text| is_cut(&text) == Some(true)),
        }
}

/// Whether a line begins an array that has an object in it, or does not end.
pub(super) fn begins_array(line: &[u8]) -> bool {
    match line.trim_ascii_start() {
        [b'[', behind @ ..] => is_open(line) || behind.trim_ascii_start().first() == Some(&b'{'),
        _ => false,
    }
}

/// What a byte of a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentByte {
    /// It stands between objects.
    Between,
    /// It belongs to an object.
    OfObject,
    /// It ends an object.
    EndsObject,
    /// It can stand in no document of objects.
    Misplaced,
}

/// The place in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentPlace {
    Beginning,
    /// Behind an object that is in no array.
    Sequence,
    /// In an array, where an object must follow, or may.
    Element {
        is_first: bool,
    },
    /// In an array, behind an object.
    Separator,
    /// Behind an array.
    End,
}

/// Finds the objects of a document, byte by byte.
#[derive(Debug)]
pub(super) struct DocumentState {
    place: DocumentPlace,
    depth: u64,
    string: StringState,
}

impl Default for DocumentState {
    fn default() -> Self {
        Self { place: DocumentPlace::Beginning, depth: 0, string: StringState::default() }
    }
}

impl DocumentState {
    /// What the next byte is.
    pub(super) fn step(&mut self, byte: u8) -> DocumentByte {
        if self.depth > 0 {
            return self.inside(byte);
        }
        let place = match (self.place, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => return DocumentByte::Between,
            (DocumentPlace::Beginning, b'[') => DocumentPlace::Element { is_first: true },
            (DocumentPlace::Element { is_first: true } | DocumentPlace::Separator, b']') => {
                DocumentPlace::End
            }
            (DocumentPlace::Separator, b',') => DocumentPlace::Element { is_first: false },
            (DocumentPlace::Beginning | DocumentPlace::Sequence, b'{') => {
                self.depth = 1;
                self.place = DocumentPlace::Sequence;
                return DocumentByte::OfObject;
            }
            (DocumentPlace::Element { .. }, b'{') => {
                self.depth = 1;
                self.place = DocumentPlace::Separator;
                return DocumentByte::OfObject;
            }
            _ => return DocumentByte::Misplaced,
        };
        self.place = place;
        DocumentByte::Between
    }

    fn inside(&mut self, byte: u8) -> DocumentByte {
        if !self.string.is_open {
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        self.string.step(byte);
        if self.depth == 0 { DocumentByte::EndsObject } else { DocumentByte::OfObject }
    }

    /// Whether the object that ended last is in an array.
    pub(super) fn is_in_array(&self) -> bool {
        self.place == DocumentPlace::Separator
    }

    /// Whether a document may end here.
    pub(super) fn may_end(&self) -> bool {
        let is_between = match self.place {
            DocumentPlace::Beginning | DocumentPlace::Sequence | DocumentPlace::End => true,
            DocumentPlace::Element { .. } | DocumentPlace::Separator => false,
        };
        self.depth == 0 && is_between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_json_are_null() {
        for (text, expected) in [
            (
                r#"{"a": NaN, "b": [1, -Infinity], "c": Infinity}"#,
                Some(r#"{"a":null,"b":[1,null],"c":null}"#),
            ),
            (
                r#"{"a": "NaN", "b": "\"NaN", "c": NaN}"#,
                Some(r#"{"a":"NaN","b":"\"NaN","c":null}"#),
            ),
            (r#"{"a": 1}"#, Some(r#"{"a":1}"#)),
            (r#"{"a": xNaN}"#, None),
            (r#"{"a": NaNs}"#, None),
            (r#"{NaN: 1}"#, None),
            (r#"{"a": "NaN}"#, None),
            ("NaN", None),
        ] {
            let found = read_object(text.as_bytes());
            let found = found.map(|object| serde_json::Value::Object(object).to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_found_as_they_are_written() {
        let object = r#"{"a": {"b": 1}, "b": 10.00 , "\"c\u0041\":": 0.10, "a": [2], "d":-1e3}"#;
        for (key, expected) in
            [("b", Some("10.00")), ("\"cA\":", Some("0.10")), ("d", Some("-1e3")), ("e", None)]
        {
            assert_eq!(written_values(object.as_bytes()).number(key), expected, "{key}");
        }
    }

    /// The objects of a document; `None` if it is none.
    fn objects(text: &str) -> Option<Vec<String>> {
        let (mut state, mut found, mut object) = (DocumentState::default(), vec![], vec![]);
        for byte in text.bytes() {
            match state.step(byte) {
                DocumentByte::Between => {}
                DocumentByte::OfObject => object.push(byte),
                DocumentByte::EndsObject => {
                    object.push(byte);
                    found.push(String::from_utf8(std::mem::take(&mut object)).unwrap());
                }
                DocumentByte::Misplaced => return None,
            }
        }
        state.may_end().then_some(found)
    }

    #[test]
    fn documents_are_arrays_or_sequences_of_objects() {
        for (text, expected) in [
            (r#"[{"a": "]}\"{"}, {"b": [{}]}]"#, Some(vec![r#"{"a": "]}\"{"}"#, r#"{"b": [{}]}"#])),
            ("{\n\"a\": 1\n}\n{\"a\": 2} {}", Some(vec!["{\n\"a\": 1\n}", "{\"a\": 2}", "{}"])),
            (" [ ] ", Some(vec![])),
            ("", Some(vec![])),
            ("[{}", None),
            ("[{},]", None),
            ("[{} {}]", None),
            ("[,{}]", None),
            ("[{}] {}", None),
            ("{}, {}", None),
            ("{} []", None),
            ("[[{}]]", None),
            ("[{}, 2]", None),
            ("{\"a\": \"}", None),
        ] {
            let found = objects(text);
            let found =
                found.as_ref().map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_line_may_begin_more_than_a_line() {
        for (line, expected) in [
            ("{", (true, false)),
            ("[", (true, true)),
            ("{\"a\": \"x", (true, false)),
            ("[{\"a\": 1},", (true, true)),
            ("[{\"a\": NaN},", (true, true)),
            ("{\"a\": NaN}", (false, false)),
            ("[{\"a\": 1}]", (false, true)),
            ("[1]", (false, false)),
            ("{\"a\": 1},", (false, false)),
            ("{\"a\": 1}", (false, false)),
            ("\"a\": 1,", (false, false)),
            ("\"a", (false, false)),
        ] {
            assert_eq!(
                (is_open(line.as_bytes()), begins_array(line.as_bytes())),
                expected,
                "{line}"
            );
        }
    }
}
