//! Truth values as texts.
//!
//! ```text
//! 't', 'Yes', ' on '   →   true        'maybe'   →   none
//! ```

/// The truth value that a text stands for: a word or its beginning, in any case, with blanks around
/// it, as PostgreSQL reads it.
pub(super) fn truth_of(text: &str) -> Option<bool> {
    let word = text.trim_ascii().to_ascii_lowercase();
    match word.as_str() {
        "" => None,
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        word if "true".starts_with(word) || "yes".starts_with(word) => Some(true),
        word if "false".starts_with(word) || "no".starts_with(word) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::truth_of;

    #[test]
    fn texts_are_truth_values_as_in_postgresql() {
        for text in ["t", "TRU", "true", "y", "Yes", "on", "1", " t\n"] {
            assert_eq!(truth_of(text), Some(true), "{text:?}");
        }
        for text in ["f", "False", "n", "no", "of", "off", "0"] {
            assert_eq!(truth_of(text), Some(false), "{text:?}");
        }
        for text in ["", "o", "maybe", "yess", "01", "null"] {
            assert_eq!(truth_of(text), None, "{text:?}");
        }
    }
}
