//! The transcripts of docs/tutorial.md are what the program prints.
//!
//! A `sh` block is run. A `console` block is a command behind `$` and everything that a person sees
//! afterwards; what was typed stands behind `>`. The same lines are typed again, and the output is
//! compared: numbers of answers as digits, since they are random.

#![cfg(unix)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::readme::shape_of_line;

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tutorial.md")).unwrap()
}

/// The fenced blocks: their language and their lines.
fn blocks(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(fence) if !is_inside => {
                blocks.push((fence, Vec::new()));
                is_inside = true;
            }
            Some(_) => is_inside = false,
            None if is_inside => blocks.last_mut().unwrap().1.push(line),
            None => {}
        }
    }
    blocks
}

/// What was typed on a line of a transcript: `[1] > 2` is 2.
fn typed(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix('[') {
        Some(rest) => rest.split_once("] ")?.1,
        None => line,
    };
    let typed = rest.strip_prefix('>')?;
    (typed.is_empty() || typed.starts_with(' ')).then(|| typed.trim())
}

fn run(line: &str, input: &str, folder: &Path) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_hushql")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut child = Command::new("sh")
        .args(["-c", &format!("{line} 2>&1")])
        .current_dir(folder)
        .envs([("PATH", path.as_str()), ("HUSHQL_CONFIG", "")])
        .env_remove("HUSHQL_ANALYST")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{line}\n{text}");
    text
}

/// A line of an answer, with its numbers and widths forgotten. Other lines are exact.
fn shape(line: &str) -> String {
    let is_random = line.starts_with(['│', '┌', '├', '╞', '└']) || line.contains('±');
    if is_random { shape_of_line(line) } else { line.trim_end().to_owned() }
}

#[test]
fn the_transcript_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for (fence, lines) in blocks(&document()) {
        match fence {
            "sh" => lines.iter().for_each(|line| drop(run(line, "", folder.path()))),
            "console" => {
                let (command, expected) = lines.split_first().unwrap();
                let command = command.strip_prefix("$ ").unwrap();
                let input: String = expected
                    .iter()
                    .filter_map(|line| typed(line))
                    .map(|t| format!("{t}\n"))
                    .collect();
                let printed = run(command, &input, folder.path());
                let printed: Vec<String> = printed.trim_end().lines().map(shape).collect();
                let expected: Vec<String> = expected.iter().map(|line| shape(line)).collect();
                let expected = expected.join("\n");
                assert_eq!(printed.join("\n"), expected.trim_end(), "{command}");
                compared += 1;
            }
            other => panic!("no check for a block of {other}"),
        }
    }
    assert!(compared >= 4, "{compared} commands");
}

#[test]
fn what_was_typed_is_found() {
    assert_eq!(typed("[(patient)] > "), Some(""));
    assert_eq!(typed("[none] > 4"), Some("4"));
    assert_eq!(typed(">"), Some(""));
    assert_eq!(typed("│ 5 > 4 │"), None);
}
