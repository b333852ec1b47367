//! The documents are true: the commands of the README and of docs/deploying.md run, their outputs
//! are those of the program, their Rust is in the examples, and the files and tests that any
//! document names exist.
//!
//! The fence of a block says how it is checked. `sh` blocks run line by line, in order and in one
//! folder, the README's first. A `text` block is the exact output of the one command before it. In
//! a `console` block answers are random, so digits are compared as digits, but for accuracies of
//! choices and costs. `sql NAME` is saved as NAME. Each `rust` block is part of an example.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The documents whose commands run; the second continues in the folder of the first.
const RUN: [&str; 2] = ["README.md", "docs/deploying.md"];

/// The other documents at the root. Those in `docs` are found.
const OTHERS: [&str; 3] = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// The document whose table promises something in each row.
const GUARANTEES: &str = "docs/guarantees.md";

/// A fenced block.
struct Block {
    fence: String,
    lines: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|e| panic!("{document}: {e}"))
}

/// Every document, by its path from the root.
fn documents() -> Vec<String> {
    let in_docs = ["docs", "docs/decisions"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        entries.map(move |e| format!("{folder}/{}", e.unwrap().file_name().to_str().unwrap()))
    });
    let in_docs = in_docs.filter(|name| name.ends_with(".md"));
    let mut documents: Vec<String> =
        in_docs.chain(["README.md"].into_iter().chain(OTHERS).map(str::to_owned)).collect();
    documents.sort();
    documents
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in read(document).lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(fence), false) => {
                assert!(!fence.is_empty(), "{document}: a block without a language is not checked");
                blocks.push(Block { fence: fence.to_owned(), lines: Vec::new() });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => blocks.last_mut().unwrap().lines.push(line.to_owned()),
            (None, false) => {}
        }
    }
    assert!(!inside, "{document}: the last block never ends");
    blocks
}

/// Runs a line of a document with this build's `hushql` on the path; `None` for what sets up the
/// machine.
fn run(line: &str, folder: &Path) -> Option<Output> {
    let line = match line.strip_prefix("cargo run --release -- ") {
        Some(arguments) => format!("hushql {arguments}"),
        None if line.starts_with("cargo ") => {
            // These would build this very test again; the gate and the reader run them.
            assert!(["cargo test", "cargo install --locked --path ."].contains(&line), "{line}");
            return None;
        }
        None => line.to_owned(),
    };
    let programs = Path::new(env!("CARGO_BIN_EXE_hushql")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .output();
    Some(output.unwrap())
}

/// The exit status that a line promises: 0 unless it says otherwise.
fn promised(line: &str) -> i32 {
    line.rsplit_once("# exit status ").map_or(0, |(_, status)| status.trim().parse().unwrap())
}

/// Both streams as a terminal shows them when the answer comes before the receipt.
fn shown(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// A text in which every number of an answer is 0 and every stretch of spaces or rules is one. How
/// accurate a choice is and what it cost follow from the statement: these lines keep their numbers.
fn shape(text: &str) -> String {
    let is_known = |line: &str| line.starts_with("cost ") || line.contains(": within ");
    let line = |line: &str| match is_known(line) {
        true => line.to_owned(),
        false => shape_of_line(line),
    };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A line in which every number is 0, and every stretch of spaces or rules is one.
pub(crate) fn shape_of_line(text: &str) -> String {
    let mut shape = String::new();
    for mut c in text.trim_end().chars() {
        if c.is_ascii_digit() || (c == '.' && shape.ends_with('0')) {
            c = '0';
        }
        if !("0 ─═".contains(c) && shape.ends_with(c)) {
            shape.push(c);
        }
    }
    shape
}

#[test]
fn shapes_forget_numbers_and_nothing_else() {
    assert_eq!(shape("│ 16005 ┆  6.5 │\n"), shape("│ 9 ┆ 12 │"));
    assert_ne!(shape("│ Male ┆ 6 │"), shape("│ Female ┆ 6 │"));
    assert_ne!(shape("x: within 4.00 of the best"), shape("x: within 4.01 of the best"));
    assert_ne!(shape("1\ncost ε = 1"), shape("2\ncost ε = 2"));
}

#[cfg(unix)]
#[test]
fn commands_do_what_the_documents_say() {
    let folder = TempDir::new().unwrap();
    let (mut commands, mut compared) = (0, 0);
    let mut last: Option<Output> = None;
    for block in RUN.into_iter().flat_map(blocks) {
        match block.fence.split_once(' ').unwrap_or((&block.fence, "")) {
            ("sh", _) => {
                for line in &block.lines {
                    last = run(line, folder.path());
                    if let Some(output) = &last {
                        let status = output.status.code();
                        assert_eq!(status, Some(promised(line)), "{line}\n{}", shown(output));
                        commands += 1;
                    }
                }
                if block.lines.len() > 1 {
                    last = None;
                }
            }
            ("text", _) => {
                let output = last.take().expect("one command comes before its output");
                assert_eq!(shown(&output).trim_end(), block.lines.join("\n"));
                compared += 1;
            }
            ("console", _) => {
                let text = block.lines.join("\n");
                for part in text.split("$ ").skip(1) {
                    let (line, expected) = part.split_once('\n').unwrap();
                    let output = run(line, folder.path()).unwrap();
                    assert_eq!(shape(&shown(&output)), shape(expected), "{line}");
                    compared += 1;
                }
            }
            ("sql", name) => {
                fs::write(folder.path().join(name), block.lines.join("\n")).unwrap();
            }
            ("rust" | "toml", _) => {}
            (other, _) => panic!("no check for a block of {other}"),
        }
    }
    assert!(commands >= 40 && compared >= 6, "{commands} commands, {compared} outputs");
}

#[test]
fn rust_is_taken_from_the_examples() {
    let examples: Vec<String> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).unwrap())
        .map(|text| text.lines().map(str::trim).collect::<Vec<_>>().join("\n"))
        .collect();
    let mut found = 0;
    let blocks: Vec<Block> = RUN.into_iter().flat_map(blocks).collect();
    for block in blocks.iter().filter(|block| block.fence == "rust") {
        let text: Vec<&str> = block.lines.iter().map(|line| line.trim()).collect();
        let text = text.join("\n");
        assert!(examples.iter().any(|example| example.contains(&text)), "in no example:\n{text}");
        found += 1;
    }
    assert!(found > 0, "the documents show no Rust");
}

/// Every file below some folders, by its path from the root.
fn files_below(folders: &[&str]) -> Vec<PathBuf> {
    let mut waiting: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    let mut files = Vec::new();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// Finds tests that documents name as `module::function`, wherever they are.
struct Tests {
    /// The names of each file and its folders, and its text.
    sources: Vec<(Vec<String>, String)>,
}

impl Tests {
    fn find() -> Self {
        let sources = files_below(&["src", "crates", "tests"]).into_iter().filter_map(|path| {
            let rust = path.extension().is_some_and(|extension| extension == "rs");
            let text = rust.then(|| fs::read_to_string(root().join(&path)).unwrap())?;
            let modules = path.with_extension("");
            let modules = modules.iter().map(|part| part.to_str().unwrap().to_owned());
            Some((modules.collect(), text))
        });
        Self { sources: sources.collect() }
    }

    /// Whether a test function of this name is in a file of this name, or below a folder of this
    /// name.
    fn have(&self, module: &str, function: &str) -> bool {
        let head = format!("fn {function}(");
        self.sources.iter().any(|(modules, text)| {
            let mut above = "";
            modules.iter().any(|name| name == module)
                && text.lines().any(|line| {
                    let is_test = above.trim_start().starts_with('#');
                    above = line;
                    is_test && line.contains(&head)
                })
        })
    }
}

/// What is in backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A test's module and function, where a name is written as one: in lower case, and no path of the
/// library.
fn as_test(name: &str) -> Option<(&str, &str)> {
    let part = |text: &str| {
        text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
    };
    let (module, function) = name.split_once("::")?;
    let is_library = module == "hushql";
    (!is_library && part(module) && part(function) && !function.is_empty())
        .then_some((module, function))
}

#[test]
fn names_of_tests_are_recognized() {
    assert_eq!(as_test("silence::debug_shows_no_rows"), Some(("silence", "debug_shows_no_rows")));
    for other in
        ["ledger::", "MechanismName::ALL", "a::b::c", "hushql::arrow", "hushql check", "rows"]
    {
        assert_eq!(as_test(other), None, "{other}");
    }
    let tests = Tests::find();
    assert!(tests.have("readme", "names_of_tests_are_recognized"));
    assert!(!tests.have("silence", "names_of_tests_are_recognized"));
    assert!(!tests.have("readme", "as_test"), "it is a function, and not a test");
}

#[test]
fn named_files_and_tests_exist() {
    let (tests, suites) = (Tests::find(), files_below(&["tests/slt"]));
    let (mut files, mut named) = (0, 0);
    for document in documents() {
        let text = read(&document);
        for line in text.lines().filter(|line| !line.starts_with("```")) {
            for name in quoted(line) {
                if let Some((module, function)) = as_test(name) {
                    assert!(tests.have(module, function), "{document}: no test is called {name}");
                    named += 1;
                } else if Path::new(name).extension().is_some_and(|extension| extension == "slt") {
                    let found = suites.iter().any(|suite| suite.ends_with(name));
                    assert!(
                        found || root().join(name).exists(),
                        "{document}: {name} does not exist"
                    );
                    files += 1;
                } else if ["src/", "crates/", "tests/", "docs/"]
                    .iter()
                    .any(|folder| name.starts_with(folder))
                    && !name.contains([' ', '<'])
                {
                    assert!(root().join(name).exists(), "{document}: {name} does not exist");
                    files += 1;
                }
            }
        }
    }
    assert!(files >= 10 && named >= 60, "{files} files, {named} tests");
}

#[test]
fn every_promise_names_a_test() {
    let text = read(GUARANTEES);
    let rows = text.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 30, "{} promises", rows.len());
    for row in rows {
        assert!(quoted(row).any(|name| as_test(name).is_some()), "no test holds: {row}");
    }
}

/// The tables of a vault as a document writes them, `table(column, …)`, each with its columns.
fn written_tables(document: &str) -> BTreeMap<String, Vec<String>> {
    let blocks = document.split("```").skip(1).step_by(2).filter_map(|b| b.strip_prefix("text\n"));
    let text = blocks.collect::<Vec<_>>().join("\n");
    let tables = text.split(')').filter_map(|one| one.split_once('('));
    let name = |text: &str| text.split_whitespace().last().unwrap().to_owned();
    let columns = |text: &str| text.split(',').map(|c| c.trim().to_owned()).collect();
    tables.map(|(before, inside)| (name(before), columns(inside))).collect()
}

#[test]
fn the_page_on_the_vault_lists_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    drop(hushql::Engine::init(&path).unwrap());
    let vault = rusqlite::Connection::open(&path).unwrap();
    let mut found = BTreeMap::new();
    let mut tables = vault
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        .unwrap();
    let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for name in names.map(Result::unwrap) {
        let mut columns =
            vault.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid").unwrap();
        let columns = columns.query_map([&name], |row| row.get::<_, String>(0)).unwrap();
        found.insert(name.clone(), columns.map(Result::unwrap).collect::<Vec<_>>());
    }
    assert_eq!(written_tables(&read("docs/vault-format.md")), found);
}
