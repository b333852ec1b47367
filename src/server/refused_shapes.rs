//! The queries of tools on the catalog that had no answer, by their shape.
//!
//! In: a query that was refused, the reason, and the name that the client gives itself. Out: a file
//! beside the vault, for the owner alone, and its lines for `hushql doctor`. A shape is a query
//! without its literals and comments. The file grows with new shapes only, and holds a limited
//! number of them.
//!
//! ```text
//! SELECT x FROM pg_class WHERE relname = 'people'   →   select x from pg_class where relname = ?
//! ```

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::statement_kind::{Token, tokens};

/// The most shapes, the most characters of one, and of a client's name.
const MOST_SHAPES: usize = 200;
const LONGEST: usize = 600;
const LONGEST_NAME: usize = 64;

/// A shape of query, as a client asks it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RefusedShape {
    application: String,
    why: String,
    shape: String,
}

/// The shapes since the file was begun, with their counts.
#[derive(Debug)]
pub(super) struct RefusedShapes {
    path: PathBuf,
    counts: Mutex<BTreeMap<RefusedShape, u64>>,
}

/// The file beside a vault.
fn file(vault: &Path) -> PathBuf {
    let mut name = vault.as_os_str().to_owned();
    name.push(".refused");
    name.into()
}

fn read(path: &Path) -> BTreeMap<RefusedShape, u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let shape = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| line.get(name)?.as_str().map(str::to_owned);
        let shape = RefusedShape {
            application: text("application")?,
            why: text("why")?,
            shape: text("shape")?,
        };
        Some((shape, line.get("count")?.as_u64()?))
    };
    text.lines().filter_map(shape).take(MOST_SHAPES).collect()
}

/// What `hushql doctor` says of the file beside a vault, the most frequent shape first.
pub(crate) fn sentences(vault: &Path) -> Vec<String> {
    let mut all: Vec<_> = read(&file(vault)).into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let sentence = |(shape, count): (RefusedShape, u64)| {
        let RefusedShape { application, why, shape } = shape;
        let who = if application.is_empty() { "a client without a name" } else { &application };
        format!("the catalog did not answer {who} ({count} times): {why}: {shape}")
    };
    all.into_iter().map(sentence).collect()
}

impl RefusedShapes {
    /// Goes on with the file beside a vault, if there is one.
    pub(super) fn beside(vault: &Path) -> Self {
        let path = file(vault);
        let counts = Mutex::new(read(&path));
        Self { path, counts }
    }

    /// Counts a query. The file is written for each new shape, and whenever a count has doubled. A
    /// file that cannot be written is no reason to refuse anything.
    pub(super) fn note(&self, application: &str, sql: &str, why: &str) {
        let cut = |text: &str, most: usize| -> String {
            text.chars().filter(|c| !c.is_control()).take(most).collect()
        };
        let shape = RefusedShape {
            application: cut(application, LONGEST_NAME),
            why: cut(why, LONGEST),
            shape: cut(&shape_of(sql), LONGEST),
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST_SHAPES && !counts.contains_key(&shape) {
            return;
        }
        let count = counts.entry(shape).or_default();
        *count = count.saturating_add(1);
        if count.is_power_of_two() {
            let _ = write(&self.path, &counts);
        }
    }
}

fn write(path: &Path, counts: &BTreeMap<RefusedShape, u64>) -> std::io::Result<()> {
    let mut lines = String::new();
    for (RefusedShape { application, why, shape }, count) in counts {
        let line =
            json!({ "application": application, "why": why, "shape": shape, "count": count });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(lines.as_bytes())
}

/// A query without literals, comments and white space.
fn shape_of(sql: &str) -> String {
    let mut shape = String::new();
    let mut was_word = false;
    for token in tokens(sql) {
        let (text, is_word) = match token {
            Token::Word(word) => (word, true),
            Token::Name(name) => (format!("\"{name}\""), true),
            Token::Text(_) | Token::Parameter(_) => ("?".to_owned(), true),
            Token::Sign(c) if c.is_ascii_digit() => {
                if !shape.ends_with('?') {
                    shape.push_str(if was_word { " ?" } else { "?" });
                }
                was_word = true;
                continue;
            }
            Token::Sign(c) => (c.to_string(), false),
        };
        if was_word && is_word {
            shape.push(' ');
        }
        shape.push_str(&text);
        was_word = is_word;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_hold_no_literals() {
        for (sql, shape) in [
            (
                "SELECT  x FROM pg_class WHERE relname = 'people'",
                "select x from pg_class where relname=?",
            ),
            ("select 12, a1 -- note\n from t where b=$1", "select ?,a1 from t where b=?"),
            ("SELECT \"Name\" FROM f(15)", "select \"Name\" from f(?)"),
        ] {
            assert_eq!(shape_of(sql), shape);
        }
    }

    #[test]
    fn the_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let vault = folder.path().join("study.db");
        let shapes = RefusedShapes::beside(&vault);
        for name in ["a", "b"] {
            shapes.note("tool", &format!("SELECT f('{name}') FROM pg_class"), "unknown f");
        }
        let again = RefusedShapes::beside(&vault);
        (0..2).for_each(|_| again.note("tool", "SELECT f('c') FROM pg_class", "unknown f"));
        assert_eq!(
            sentences(&vault),
            ["the catalog did not answer tool (4 times): unknown f: select f(?)from pg_class"]
        );
        (0..300).for_each(|n| again.note("tool", &format!("SELECT a{n}"), "unknown"));
        assert_eq!(sentences(&vault).len(), MOST_SHAPES);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(file(&vault)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
