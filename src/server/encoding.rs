//! The encodings of a client's texts.
//!
//! In: texts of the client, and texts for it. Out: the same in UTF-8, and in the client's encoding.
//! A character that an encoding does not have becomes `?`, in names, values and messages.
//! PostgreSQL fails instead; here the answer is paid for at that time, so it has to arrive.
//!
//! ```text
//! LATIN1:  "Ærø 5 €"   →   c6 72 f8 20 35 20 3f
//! ```

use std::borrow::Cow;

/// An encoding that clients may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Utf8,
    /// The bytes are the first 256 characters of Unicode.
    Latin1,
    /// The same, with [`WINDOWS`] from byte 128 on.
    Windows,
}

/// The characters of the bytes 128 to 159 in Windows-1252. A byte without one is a control
/// character, as in LATIN1.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// What stands for a character that an encoding does not have.
const MISSING: u8 = b'?';

/// The name of an encoding in PostgreSQL, if clients may ask for it under this one. A client that
/// asks for SQL_ASCII gets the bytes of UTF-8.
pub(super) fn named(name: &str) -> Option<&'static str> {
    let letters = name.trim_matches('\'').chars().filter(char::is_ascii_alphanumeric);
    match letters.collect::<String>().to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Some("UTF8"),
        "sqlascii" => Some("SQL_ASCII"),
        "latin1" | "iso88591" => Some("LATIN1"),
        "win1252" | "windows1252" => Some("WIN1252"),
        _ => None,
    }
}

impl Encoding {
    /// The encoding of a setting's value.
    pub(super) fn of(setting: &str) -> Self {
        match named(setting) {
            Some("LATIN1") => Self::Latin1,
            Some("WIN1252") => Self::Windows,
            _ => Self::Utf8,
        }
    }

    /// The bytes of a text of UTF-8 for the client. Other bytes stay as they are.
    pub(super) fn encoded(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Utf8 || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        match std::str::from_utf8(text) {
            Ok(text) => Cow::Owned(text.chars().map(|c| self.byte(c)).collect()),
            Err(_) => Cow::Borrowed(text),
        }
    }

    /// The text of a client's bytes; `None` if they are not of the encoding.
    pub(super) fn decoded(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Self::Latin1 | Self::Windows => {
                Some(bytes.iter().map(|byte| self.character(*byte)).collect())
            }
        }
    }

    fn byte(self, c: char) -> u8 {
        let known = match self {
            Self::Windows => WINDOWS.iter().position(|known| *known == c).map(|at| at + 128),
            Self::Utf8 | Self::Latin1 => None,
        };
        let byte = match known {
            Some(at) => u8::try_from(at).ok(),
            None => u8::try_from(c).ok().filter(|byte| self.character(*byte) == c),
        };
        byte.unwrap_or(MISSING)
    }

    fn character(self, byte: u8) -> char {
        let place = usize::from(byte).checked_sub(128);
        let windows = place.filter(|_| self == Self::Windows).and_then(|at| WINDOWS.get(at));
        windows.copied().unwrap_or(char::from(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_character_and_back() {
        for encoding in [Encoding::Latin1, Encoding::Windows] {
            for byte in 0..=255 {
                let text = encoding.decoded(&[byte]).unwrap();
                assert_eq!(*encoding.encoded(text.as_bytes()), [byte], "{encoding:?}");
            }
        }
        assert_eq!(Encoding::Utf8.decoded(&[0xe9]), None);
        assert_eq!(Encoding::Windows.decoded(&[0x80]).as_deref(), Some("€"));
    }

    #[test]
    fn what_an_encoding_lacks_is_a_question_mark() {
        assert_eq!(*Encoding::Latin1.encoded("Ærø 5 €".as_bytes()), *b"\xc6r\xf8 5 ?");
        assert_eq!(*Encoding::Windows.encoded("5 €, 日".as_bytes()), *b"5 \x80, ?");
        assert_eq!(*Encoding::Windows.encoded("\u{80}".as_bytes()), *b"?");
        assert_eq!(*Encoding::Utf8.encoded("日".as_bytes()), *"日".as_bytes());
    }

    #[test]
    fn encodings_have_names() {
        for (name, known) in [
            ("utf-8", Some("UTF8")),
            ("'UNICODE'", Some("UTF8")),
            ("SQL_ASCII", Some("SQL_ASCII")),
            ("ISO-8859-1", Some("LATIN1")),
            ("latin1", Some("LATIN1")),
            ("Windows-1252", Some("WIN1252")),
            ("LATIN2", None),
            ("EUC_JP", None),
        ] {
            assert_eq!(named(name), known, "{name}");
        }
    }
}
