//! The README is true: its commands run, its outputs are those of the program, its Rust is in the examples,
//! and the files and tests that it names exist.
//!
//! How a block is held to its word depends on what stands behind the fence: `sh` blocks run line by line in
//! one folder, in order; a `text` block is the exact output of the one command before it; in a `console`
//! block answers are random, so digits are compared as digits; `sql NAME` is saved as NAME before what
//! follows; each `rust` block is part of an example.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A fenced block.
struct Block {
    fence: String,
    lines: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in readme().lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(fence), false) => {
                assert!(!fence.is_empty(), "a block without a language is held to nothing");
                blocks.push(Block { fence: fence.to_owned(), lines: Vec::new() });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => blocks.last_mut().unwrap().lines.push(line.to_owned()),
            (None, false) => {}
        }
    }
    assert!(!inside, "the last block never ends");
    blocks
}

/// Runs a line of the README with this build's `hushql` on the path; `None` for what sets up the machine.
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

/// A text in which every number is 0 and every stretch of spaces or rules is one.
fn shape(text: &str) -> String {
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
}

#[cfg(unix)]
#[test]
fn commands_do_what_the_readme_says() {
    let folder = TempDir::new().unwrap();
    let (mut commands, mut compared) = (0, 0);
    let mut last: Option<Output> = None;
    for block in blocks() {
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
                let output = last.take().expect("one command stands before its output");
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
                std::fs::write(folder.path().join(name), block.lines.join("\n")).unwrap();
            }
            ("rust" | "toml", _) => {}
            (other, _) => panic!("nothing holds a block of {other} to its word"),
        }
    }
    assert!(commands >= 10 && compared >= 3, "{commands} commands, {compared} outputs");
}

#[test]
fn rust_is_taken_from_the_examples() {
    let examples: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).unwrap())
        .map(|text| text.lines().map(str::trim).collect::<Vec<_>>().join("\n"))
        .collect();
    let mut found = 0;
    for block in blocks().iter().filter(|block| block.fence == "rust") {
        let text: Vec<&str> = block.lines.iter().map(|line| line.trim()).collect();
        let text = text.join("\n");
        assert!(examples.iter().any(|example| example.contains(&text)), "in no example:\n{text}");
        found += 1;
    }
    assert!(found > 0, "the README shows no Rust");
}

#[test]
fn named_files_and_tests_exist() {
    let text = readme();
    let (mut files, mut tests) = (0, 0);
    for line in text.lines() {
        let mut file = None;
        // What stands in backticks is at the odd places.
        for name in line.split('`').skip(1).step_by(2) {
            if ["src/", "tests/", "examples/"].iter().any(|folder| name.starts_with(folder)) {
                let path = found(name).unwrap_or_else(|| panic!("{name} does not exist"));
                files += 1;
                file = Some(path).filter(|path| path.is_file());
            } else if let (Some(path), true) = (&file, is_test_name(name)) {
                let source = std::fs::read_to_string(path).unwrap();
                assert!(
                    source.contains(&format!("fn {name}(")),
                    "{} has no {name}",
                    path.display()
                );
                tests += 1;
            }
        }
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let ours = link.starts_with("src/") || link.starts_with("examples/");
            assert!(!ours || root().join(link).exists(), "{link} does not exist");
        }
    }
    assert!(files > 20 && tests >= 10, "{files} files, {tests} tests");
}

/// A file of the project. A file of the integration tests may be named without the folder that holds it.
fn found(name: &str) -> Option<PathBuf> {
    let test = name.strip_prefix("tests/it/").into_iter();
    let folders =
        test.flat_map(|file| ["contract", "privacy"].map(|f| format!("tests/it/{f}/{file}")));
    std::iter::once(name.to_owned()).chain(folders).map(|n| root().join(n)).find(|p| p.exists())
}

fn is_test_name(name: &str) -> bool {
    let part = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    name.contains('_') && name.bytes().all(part)
}
