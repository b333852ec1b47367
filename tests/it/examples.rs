//! Every example runs, leaves with 0 and prints what it is there to show.
//!
//! `cargo test` builds the examples beside the tests; a run of this binary alone (`--test it`) finds those
//! of the last whole run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What each example must print, whatever the noise.
const SHOWN: [(&str, &[&str]); 4] = [
    (
        "declare",
        &["owner: budget study for people: ε = 1 left", "does not suffice", "left ε = 0.2"],
    ),
    ("embed", &["north", "south", "east", "HQ012 refused"]),
    ("explain", &["Δ₁ = 2000", "Δ₁ = 200\n", "HQ007", "it would cost ε = 0.25"]),
    ("quickstart", &["Married-civ-spouse", "rows: 1", "status: winner 4.94", "spent: ε = 1"]),
];

/// The names of the files in `examples/`, sorted.
fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// `target/PROFILE/examples/NAME`, seen from `target/PROFILE/deps/it-…`.
fn binary(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    let binary = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(binary.exists(), "example {name} is not built; `cargo test` without --test builds it");
    binary
}

#[test]
fn every_example_runs_and_shows_its_point() {
    assert_eq!(sources(), SHOWN.map(|(name, _)| name.to_owned()), "examples and what they show");
    for (name, shown) in SHOWN {
        let output = Command::new(binary(name)).output().unwrap();
        let (text, errors) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {errors}");
        for part in shown {
            assert!(text.contains(part), "{name} does not print {part:?}:\n{text}");
        }
    }
}

/// What is said to be deterministic is: nothing of the data or of the noise is in an explanation.
#[test]
fn explanations_are_the_same_every_time() {
    let run = || Command::new(binary("explain")).output().unwrap().stdout;
    assert_eq!(run(), run());
}
