//! How the project writes: phrases that it does not use, and how long a line of a comment may be.
//!
//! In: the texts of the project. Out: a list of what breaks a rule, with what to write. The list of
//! phrases is in one place, [`PHRASES`]. CONTRIBUTING.md says how we write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A phrase, and what to write in its place.
const PHRASES: [(&str, &str); 18] = [
    ("only the data know", "whose keys are not declared; undeclared"),
    ("only the rows know", "undeclared"),
    ("that there is not", "that does not exist"),
    ("nobody's", "belongs to no privacy unit"),
    ("for nobody", "when its statement is cancelled"),
    ("whoever counts", "the counter"),
    ("whoever it is", "the client"),
    ("what is larger", "larger statements"),
    ("ever after", "from then on"),
    ("that is none", "that is not one"),
    ("which is none", "which is not one"),
    ("is how many", "the number of"),
    ("of which each", "each of them"),
    ("of its own size", "its own sensitivity"),
    ("one has to have left", "each must have enough left"),
    ("what was wrong says", "supplies the cause"),
    ("half the ε is twice", "halving ε doubles"),
    ("made-up rows", "invented rows"),
];

/// Comments are wrapped at this column.
const WIDTH: usize = 100;

/// Files with an extension below folders of the project, by their paths from its root.
fn texts(folders: &[&str], extension: &str) -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    let mut texts = BTreeMap::new();
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                // What Cargo builds; there is a module of this name, too.
                let is_built = name == "target" && !folder.iter().any(|part| part == "src");
                if !name.starts_with('.') && !is_built {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                texts.insert(path, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    texts
}

/// How often each phrase occurs in a text, whatever the case and wherever its lines break.
fn found(text: &str) -> Vec<usize> {
    let signs = ["///", "//!", "//", "\\"];
    let words = text.split_whitespace().filter(|word| !signs.contains(word));
    let text = words.collect::<Vec<_>>().join(" ").to_lowercase();
    PHRASES.iter().map(|(phrase, _)| text.matches(phrase).count()).collect()
}

#[test]
fn phrases_are_found_over_lines() {
    let text = "/// Groups that Only the\n    /// data know, for nobody.";
    let counts = found(text);
    let of = |phrase: &str| counts[PHRASES.iter().position(|(p, _)| *p == phrase).unwrap()];
    assert_eq!((of("only the data know"), of("for nobody"), of("nobody's")), (1, 1, 0));
}

#[test]
fn documents_have_none_of_the_phrases() {
    let mut wrong = Vec::new();
    for (path, text) in texts(&[""], "md") {
        // The table of CONTRIBUTING.md quotes what we do not write; a decision has its subject.
        let is_quoted = |line: &str| path.ends_with("CONTRIBUTING.md") && line.starts_with('|');
        let lines: Vec<&str> = text.lines().filter(|line| !is_quoted(line)).collect();
        for ((phrase, instead), times) in PHRASES.iter().zip(found(&lines.join("\n"))) {
            if times > 0 {
                wrong.push(format!("{}: \"{phrase}\": write {instead}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_source_has_none_of_the_phrases() {
    let mut wrong = Vec::new();
    for (path, text) in texts(&["src", "crates", "tests", "cluster", "python"], "rs") {
        // This file has the list.
        let is_list = path.ends_with("tests/it/voice.rs");
        for ((phrase, instead), times) in PHRASES.iter().zip(found(&text)) {
            if times > 0 && !is_list {
                wrong.push(format!("{}: \"{phrase}\": write {instead}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines of comments that are too long, although they could be wrapped: not in a fenced block
/// or a table, not aligned by several spaces, and with a space to break at.
fn too_long(text: &str) -> Vec<usize> {
    let mut long = Vec::new();
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let Some(comment) = start.strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        is_fenced ^= comment.starts_with("```");
        let indent = line.chars().count() - comment.chars().count();
        let breaks = comment.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| at);
        let can_break =
            breaks.map(|at| indent + comment[..at].chars().count()).any(|at| at <= WIDTH);
        let is_kept = is_fenced || comment.starts_with(['|', '#']) || comment.contains("  ");
        if line.chars().count() > WIDTH && can_break && !is_kept {
            long.push(number + 1);
        }
    }
    long
}

#[test]
fn long_comments_are_found() {
    let long = "word ".repeat(30);
    let kept = format!("//! {}\n//! | {long} |\n//! a     {long}", "x".repeat(120));
    let text = format!(
        "/// {long}\n{kept}\n//! ```text\n//! {long}\n//! ```\n    // {long}\nlet x = 1; // {long}"
    );
    assert_eq!(too_long(&text), [1, 8]);
}

#[test]
fn comments_are_wrapped() {
    let folders = ["src", "crates", "tests", "cluster", "python", "examples", "benches"];
    let mut lines = Vec::new();
    for (path, text) in texts(&folders, "rs") {
        lines.extend(too_long(&text).iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(
        lines.is_empty(),
        "{} lines of comments are longer than {WIDTH}; .ci/wrap wraps them. The first:\n{}",
        lines.len(),
        lines[..lines.len().min(20)].join("\n")
    );
}
