//! What each word of the dialect does: mechanisms, clauses and functions, with an example.
//!
//! In: a word. Out: its [`WordEntry`]. `reference.txt` holds one entry a line. The shell's help and
//! completion read it, and a test runs every example on the built-in tables.
//!
//! ```text
//! about("mean")  →  AVG(x)   The mean; x needs a range.   SELECT LAPLACE(eps=1) AVG(age) AS age FROM adult
//! ```

use std::sync::LazyLock;

/// What one or several words of the dialect do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordEntry {
    names: &'static str,
    /// How it is written, with its arguments.
    pub call: &'static str,
    /// What it does, in a sentence.
    pub sentence: &'static str,
    /// A statement that runs on the built-in tables.
    pub example: &'static str,
}

impl WordEntry {
    fn parse(line: &'static str) -> Option<Self> {
        let mut parts = line.splitn(4, " | ");
        let mut next = || parts.next().filter(|part| !part.is_empty());
        Some(Self { names: next()?, call: next()?, sentence: next()?, example: next()? })
    }

    /// Its names, in capitals.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(", ")
    }
}

static ENTRIES: LazyLock<Vec<WordEntry>> = LazyLock::new(|| {
    let lines = include_str!("reference.txt").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(WordEntry::parse).collect()
});

/// All entries, in the order of their subjects.
pub fn word_entries() -> &'static [WordEntry] {
    &ENTRIES
}

/// The entry of a word, in upper or lower case.
///
/// ```
/// let mean = hushql_engine::dialect::word_entry("mean").unwrap();
/// assert_eq!(mean.call, "AVG(x)");
/// ```
pub fn word_entry(word: &str) -> Option<WordEntry> {
    let has = |entry: &&WordEntry| entry.names().any(|name| name.eq_ignore_ascii_case(word));
    word_entries().iter().find(has).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::function_names;
    use crate::dialect::{AggregateName, MechanismName, SyntheticMethod, calendar_call_names};

    #[test]
    fn every_word_has_one_entry() {
        let lines = include_str!("reference.txt").lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            assert!(WordEntry::parse(line).is_some(), "{line}");
        }
        let mut names: Vec<&str> = word_entries().iter().flat_map(WordEntry::names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a word has two entries");
        for entry in word_entries() {
            assert!(entry.sentence.ends_with('.'), "{entry:?}");
            assert!(entry.names().all(|name| name == name.to_uppercase()), "{entry:?}");
        }
    }

    #[test]
    fn every_function_and_mechanism_has_an_entry() {
        let unsupported =
            |name: &str| matches!(AggregateName::parse(name), Some(AggregateName::Unsupported(_)));
        let mechanisms = MechanismName::ALL.iter().map(|(name, _)| (*name).to_owned());
        let methods = SyntheticMethod::NAMES.iter().map(|(name, _)| (*name).to_owned());
        let aggregates =
            AggregateName::names().filter(|name| !unsupported(name)).map(str::to_owned);
        let calls = calendar_call_names().map(str::to_owned);
        let all = mechanisms.chain(methods).chain(aggregates).chain(calls).chain(function_names());
        // A counter inside of randomized response, and the list of APPROX_QUANTILES, which nobody
        // writes.
        let own = ["rr_count", "ordered_list"];
        let missing: Vec<String> = all
            .filter(|name| !own.contains(&name.as_str()) && word_entry(name).is_none())
            .collect();
        assert!(missing.is_empty(), "reference.txt lacks {missing:?}");
    }
}
