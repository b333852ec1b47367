//! What a program that embeds the library builds: no shell, no server, no TLS.
//!
//! In: the crates that Cargo would build, without the package's default features. Out: those of the
//! shell and the server among them.

use std::env;
use std::path::Path;
use std::process::Command;

/// Crates that the shell or the server brings. Arrow prints tables with an older `comfy-table`,
/// which stays.
const LEFT_OUT: [&str; 14] = [
    "clap v",
    "clap_complete v",
    "clap_mangen v",
    "comfy-table v8",
    "indicatif v",
    "libmimalloc-sys v",
    "mimalloc v",
    "rcgen v",
    "ring v",
    "rustls v",
    "rustyline v",
    "socket2 v",
    "sqllogictest v",
    "tokio-rustls v",
];

/// The crates of a build of the library and all that it needs, tests aside.
fn built(features: &[&str]) -> Vec<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["tree", "-p", "hushql", "-e", "normal", "--prefix", "none", "--locked", "--offline"])
        .args(features)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn an_embedder_builds_no_shell_and_no_server() {
    let (embedded, all) = (built(&["--no-default-features"]), built(&[]));
    for name in LEFT_OUT {
        let is_in = |crates: &[String]| crates.iter().any(|line| line.starts_with(name));
        assert!(!is_in(&embedded), "an embedder builds {name}");
        let is_known = is_in(&all) || name == "tokio-rustls v";
        assert!(is_known, "the program no longer needs {name}: strike it out");
    }
    assert!(embedded.iter().any(|line| line.starts_with("datafusion v")));
}
