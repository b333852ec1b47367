//! The tiers of tests are what tests/README.md says: quick leaves out the privacy battery, and long
//! says why a test is long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files of a folder and of those in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

#[test]
fn quick_leaves_out_the_privacy_battery() {
    let modules = fs::read_to_string(root().join("tests/it/privacy/mod.rs")).unwrap();
    let modules = modules.lines().filter_map(|line| line.strip_prefix("pub(crate) mod "));
    let mut expected: BTreeSet<String> =
        modules.map(|module| format!("privacy::{}::", module.trim_end_matches(';'))).collect();
    expected.insert("contract::examples::".to_owned());
    let config = fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
    let skipped =
        config.split("\"--skip\", \"").skip(1).map(|rest| rest.split('"').next().unwrap());
    assert_eq!(skipped.map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn long_tests_say_how_long() {
    let (mut long, mut other) = (0, Vec::new());
    for path in sources(&root().join("tests/it")) {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("#[ignore")) {
            match line.starts_with("#[ignore = \"long: ") {
                true => long += 1,
                false => other.push(format!("{}: {line}", path.display())),
            }
        }
    }
    assert!(long > 15, "{long} tests are long");
    assert!(other.is_empty(), "ignored, and not long:\n{}", other.join("\n"));
}
