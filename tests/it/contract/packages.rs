//! The crates can be published: Cargo packs each of them, in the order of publishing, and each
//! package holds its licence and its README, and no data of tests.
//!
//! In: the manifests of the workspace. Out: the files that `cargo package` lists. Nothing is built:
//! the gate compiles the same files.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The crates, each after those that it needs.
const ORDER: [&str; 5] =
    ["hushql-privacy", "hushql-vault", "hushql-exec", "hushql-engine", "hushql"];

/// The most bytes of one file, and of a package as it is uploaded.
const FILE: u64 = 1 << 20;
const PACKAGE: u64 = 4 << 20;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder(name: &str) -> std::path::PathBuf {
    if name == "hushql" { root().to_owned() } else { root().join("crates").join(name) }
}

fn manifest(name: &str) -> String {
    fs::read_to_string(folder(name).join("Cargo.toml")).unwrap()
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--offline"])
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_crate_comes_after_what_it_needs() {
    let mut earlier = BTreeSet::new();
    for name in ORDER {
        let manifest = manifest(name);
        let needed = manifest.split_once("\n[dependencies]\n").unwrap().1;
        let needed = needed.split("\n[").next().unwrap();
        for other in ORDER {
            let line = format!("{other}.workspace = true");
            if needed.lines().any(|l| l == line) {
                assert!(earlier.contains(other), "{name} needs {other}, which is published later");
            }
        }
        earlier.insert(name);
    }
    // Guests are not published as crates.
    for guest in ["python", "cluster"] {
        let manifest = fs::read_to_string(root().join(guest).join("Cargo.toml")).unwrap();
        assert!(manifest.contains("\npublish = false\n"), "{guest} would be published");
    }
}

#[test]
fn each_package_has_what_users_need_and_nothing_else() {
    for name in ORDER {
        let listed = cargo(&["package", "--list", "--allow-dirty", "-p", name]);
        let files: BTreeSet<&str> = listed.lines().collect();
        for file in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
            assert!(files.contains(file), "{name} lacks {file}");
        }
        for file in files {
            let belongs = file.starts_with("src/")
                || file.starts_with("examples/") && file.ends_with(".rs")
                || !file.contains('/');
            assert!(belongs, "{name} has {file}");
            // What Cargo makes itself is in no folder of ours.
            let size = fs::metadata(folder(name).join(file)).map_or(0, |file| file.len());
            assert!(size <= FILE, "{name}: {file} has {size} bytes");
        }
        let manifest = manifest(name);
        for key in ["description", "readme", "documentation", "categories"] {
            assert!(manifest.contains(&format!("\n{key} = ")), "{name} lacks {key}");
        }
        let licence = fs::read(folder(name).join("LICENSE")).unwrap();
        assert_eq!(licence, fs::read(root().join("LICENSE")).unwrap(), "{name}");
    }
}

#[test]
fn cargo_packs_all_of_them() {
    let target = tempfile::tempdir().unwrap();
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--quiet"];
    arguments.extend(["--target-dir", target.path().to_str().unwrap()]);
    arguments.extend(ORDER.iter().flat_map(|name| ["-p", name]));
    cargo(&arguments);
    for name in ORDER {
        let package = format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let size = fs::metadata(target.path().join(&package)).unwrap().len();
        assert!(size > 10_000 && size <= PACKAGE, "{package} has {size} bytes");
    }
}

#[test]
fn the_oldest_compiler_is_the_one_of_the_gate() {
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let channel = format!("channel = \"{oldest}.0\"\n");
    assert!(toolchain.contains(&channel), "{oldest} is promised, and no gate tries it");
    for text in ["README.md", "CONTRIBUTING.md", "docs/python.md", "python/README.md"] {
        let document = fs::read_to_string(root().join(text)).unwrap();
        assert!(document.contains(&format!("{oldest} or newer")), "{text} names another compiler");
    }
}
