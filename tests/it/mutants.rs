//! The seeded bugs of tests/mutants are kept: each still applies to the source, and names a test
//! that is there.
//!
//! Whether the tests kill them is another matter, which takes hours and is looked at before a
//! release: `tests/mutants/run`. Here nothing is built, so that a change of the source hears at
//! once which of them it has made stale.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The patches, in order.
fn patches() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("tests/mutants")).unwrap();
    let mut patches: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    patches.retain(|path| path.extension().is_some_and(|e| e == "patch"));
    let mut patches: Vec<(String, String)> = patches
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let number = |name: &str| name.split('-').next().unwrap().parse::<usize>().unwrap();
    patches.sort_by_key(|(name, _)| number(name));
    patches
}

/// The paths of all tests below a folder of sources, as the test program names them.
fn tests_below(folder: &Path, module: &str, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let inside = match stem {
            "lib" | "main" | "mod" => module.to_owned(),
            stem => format!("{module}{stem}::"),
        };
        if path.is_dir() {
            tests_below(&path, &inside, names);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let (mut nested, mut is_test) = (String::new(), false);
            for line in text.lines().map(str::trim_start) {
                if line == "mod tests {" {
                    nested = "tests::".to_owned();
                }
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
                if let (true, Some(function)) = (is_test, function) {
                    let name: String =
                        function.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    names.insert(format!("{inside}{nested}{name}"));
                    is_test = false;
                }
            }
        }
    }
}

/// The unit tests of each crate that the library is made of, and of the simulation.
fn crates() -> impl Iterator<Item = (String, BTreeSet<String>)> {
    let below = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let all = below.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path));
    let others = [("hushql", ""), ("hushql-simulation", "tests/simulation")];
    all.chain(others.map(|(name, path)| (name.to_owned(), root().join(path)))).map(
        |(name, path)| {
            let mut tests = BTreeSet::new();
            tests_below(&path.join("src"), "", &mut tests);
            (name, tests)
        },
    )
}

#[test]
fn every_seeded_bug_names_a_test_that_is_there() {
    let mut integration = BTreeSet::new();
    tests_below(&root().join("tests/it"), "", &mut integration);
    let libraries: BTreeMap<String, BTreeSet<String>> = crates().collect();
    assert!(
        libraries["hushql-engine"]
            .contains("exec::datafusion::public_plans::tests::statistics_answer_no_aggregate")
    );
    assert!(integration.contains("mutants::every_seeded_bug_names_a_test_that_is_there"));
    let patches = patches();
    assert!(patches.len() >= 40, "{} patches", patches.len());
    for (i, (name, text)) in patches.iter().enumerate() {
        let number = format!("{:02}-", i + 1);
        assert!(name.starts_with(&number), "{name}: its number is {number}");
        let (told, diff) = text.split_once("\ndiff --git ").unwrap_or_else(|| {
            panic!("{name} is told in a few lines, and then changes the source");
        });
        let diff = format!("diff --git {diff}");
        assert!(told.len() > 80, "{name} does not say what it is");
        let killers: Vec<_> = told.lines().filter_map(|l| l.strip_prefix("kills: ")).collect();
        let [killer] = killers.as_slice() else { panic!("{name} has {killers:?}") };
        let of_a_crate = killer.strip_prefix("-p ").and_then(|rest| rest.split_once(' '));
        let (package, killer) = of_a_crate.unwrap_or(("hushql", killer));
        let (tests, filter) = match (
            killer.strip_prefix("--lib "),
            killer.strip_prefix("--test it "),
        ) {
            (Some(filter), _) => (&libraries[package], filter),
            (None, Some(filter)) => (&integration, filter),
            (None, None) => panic!(
                "{name} is killed by `{killer}`: --lib FILTER, -p CRATE --lib FILTER, or --test it FILTER"
            ),
        };
        assert!(
            tests.iter().any(|test| test.contains(filter)),
            "{name}: no test is called {filter}"
        );
        let changed = diff.lines().filter_map(|line| line.strip_prefix("diff --git a/"));
        for file in changed.map(|line| line.split(' ').next().unwrap()) {
            let is_source = file.starts_with("src/") || file.starts_with("crates/");
            assert!(is_source, "{name} changes {file}");
        }
    }
}

/// Without git, or outside of its tree (an unpacked archive, a copy that is mutated already), there
/// is nothing to compare with.
#[test]
fn every_seeded_bug_still_applies() {
    let git =
        |arguments: &[&str]| Command::new("git").args(arguments).current_dir(root()).output().ok();
    let has_tree = root().join(".git").exists()
        && git(&["rev-parse", "--is-inside-work-tree"]).is_some_and(|o| o.status.success());
    if !has_tree {
        println!("skipped: seeded bugs are applied by git, and this is no tree of its");
        return;
    }
    let mut stale = Vec::new();
    for (name, _) in patches() {
        let output = git(&["apply", "--check", &format!("tests/mutants/{name}")]).unwrap();
        if !output.status.success() {
            stale.push(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    assert!(stale.is_empty(), "write these anew for the changed source:\n{}", stale.join("\n"));
}
