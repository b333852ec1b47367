//! Completes the names of files after `\i`, `\o`, `\g` and `LOCATION '`.
//!
//! In: the text before the cursor. Out: the paths that begin with the typed text, in the form that
//! these commands take: the rest of the line, without quotes. Names that begin with a dot are
//! offered only after a dot, and names with characters that control a terminal never.
//!
//! ```text
//! \i decl⇥ → declare.sql      \o out/⇥ → out/a.csv, out/b.csv      SELECT … \g an⇥ → answers/
//! ```

use std::fs;
use std::path::Path;

use hushql_engine::visible;

use super::commands::{self, Complements};
use super::lex::{self, TokenKind};

/// The paths that complete the end of a line, and the position where the path begins; `None` if the
/// line expects no file. `before` holds the earlier lines of the statement.
pub(super) fn complete(before: &str, typed: &str) -> Option<(usize, Vec<String>)> {
    let path = path_in(before, typed)?;
    let start = typed.len().checked_sub(path.len())?;
    let (folder, name) = path.rfind('/').map_or(("", path), |at| path.split_at(at + 1));
    let entries = fs::read_dir(if folder.is_empty() { Path::new(".") } else { Path::new(folder) });
    let mut found: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let own = entry.file_name().into_string().ok()?;
            let is_offered = own.starts_with(name)
                && !own.contains(visible::steers)
                && own.trim() == own
                && (name.starts_with('.') || !own.starts_with('.'));
            let slash = if entry.path().is_dir() { "/" } else { "" };
            is_offered.then(|| format!("{folder}{own}{slash}"))
        })
        .collect();
    found.sort_unstable();
    Some((start, found))
}

/// The path at the end of a line, if the line takes one.
fn path_in<'a>(before: &str, typed: &'a str) -> Option<&'a str> {
    let is_command = before.is_empty() && typed.starts_with('\\');
    if is_command {
        let (name, argument) = typed.split_once(char::is_whitespace)?;
        let takes_file = matches!(commands::complements(name), Complements::File);
        return takes_file.then(|| argument.trim_start());
    }
    let whole = format!("{before}\n{typed}");
    let pieces = lex::pieces(&whole);
    if let Some(last) = pieces.last().filter(|last| last.open && last.kind == TokenKind::Text) {
        let path = last.text.strip_prefix('\'')?;
        let mut words = pieces.iter().rev().skip(1).filter(|piece| piece.kind != TokenKind::Space);
        let is_location =
            words.next().is_some_and(|piece| piece.text.eq_ignore_ascii_case("LOCATION"));
        let is_path = is_location && !path.contains(['\'', '\n']) && typed.ends_with(path);
        return is_path.then(|| typed.get(typed.len() - path.len()..)).flatten();
    }
    let (_, file, behind) = lex::ended_by_g(&whole)?;
    // The `\g` is in the line of the cursor, and the file follows after a space.
    let is_here = behind.is_empty() && typed.trim_end().ends_with(file);
    let path = typed.get(typed.rfind("\\g")? + 2..)?;
    (is_here && path.starts_with(char::is_whitespace)).then(|| path.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_what_follows_the_command() {
        for (before, typed, path) in [
            ("", "\\i ", Some("")),
            ("", "\\i  a b/c", Some("a b/c")),
            ("", "\\include x", Some("x")),
            ("", "\\o x.c", Some("x.c")),
            ("", "\\g x", Some("x")),
            ("", "SELECT 1 \\g x y", Some("x y")),
            ("SELECT 1", "\\g ", Some("")),
            ("SELECT 1", "FROM t \\g out/", Some("out/")),
            ("", "\\i", None),
            ("", "\\d x", None),
            ("", "SELECT 1 \\g", None),
            ("", "SELECT '\\g x", None),
            ("SELECT '", "\\i x", None),
            ("", "SELECT 1 FROM t", None),
            ("", "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '", Some("")),
            ("CREATE EXTERNAL TABLE t", "STORED AS CSV location 'a b/c", Some("a b/c")),
            ("", "SELECT 'location 'x", None),
            ("", "SELECT 'LOCATION", None),
            ("LOCATION '", "x", None),
        ] {
            assert_eq!(path_in(before, typed), path, "{before:?} {typed:?}");
        }
    }

    #[test]
    fn names_of_files_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        for name in ["declare.sql", "data b.csv", ".hidden", "od\u{202e}d", " d"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("days")).unwrap();
        let at = |typed: &str| {
            let line = format!("\\i {root}/{typed}");
            let (start, found) = complete("", &line).unwrap();
            assert_eq!(start, 3);
            let name = |path: String| path.replacen(&format!("{root}/"), "", 1);
            found.into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(at(""), ["data b.csv", "days/", "declare.sql"]);
        assert_eq!(at("da"), ["data b.csv", "days/"]);
        assert_eq!(at("data "), ["data b.csv"]);
        assert_eq!(at("."), [".hidden"]);
        assert_eq!(at("o"), [""; 0]);
        assert_eq!(at("nothing/"), [""; 0]);
        assert!(!complete("", "\\i ").unwrap().1.is_empty(), "of this folder");
    }
}
