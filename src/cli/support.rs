//! What a question to the project needs: versions, and what kinds of things a vault holds.
//!
//! In: the program, or an open vault. Out: lines of text. They hold no name, path, amount or value,
//! so they can be sent to anybody.
//!
//! ```text
//! hushql 0.1.0
//! target            x86_64-linux-gnu
//! DataFusion        55.2.0
//! ```

use std::env::consts;
use std::fmt::Write;
use std::path::Path;

use hushql::{Engine, split_statements, versions};
use hushql_vault::ledger::vault_format;

use super::failure::Failure;

/// The version of the program; with `verbose`, also those of its parts.
pub(super) fn version(verbose: bool) -> String {
    let mut text = format!("hushql {}", env!("CARGO_PKG_VERSION"));
    if !verbose {
        return text;
    }
    let library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    let library = if cfg!(target_os = "linux") { format!("-{library}") } else { String::new() };
    line(&mut text, "target", &format!("{}-{}{library}", consts::ARCH, consts::OS));
    let profile = if cfg!(debug_assertions) { "for development" } else { "for release" };
    line(&mut text, "built", profile);
    for (part, version) in versions() {
        line(&mut text, part, &version);
    }
    let server = if cfg!(feature = "serve") { "PostgreSQL 3.0" } else { "none" };
    line(&mut text, "wire", server);
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing into a String does not fail.
    let _ = write!(text, "\n{name:<18}{value}");
}

/// What was done to a vault that has the present format, and which programs make such vaults.
pub(super) fn upgraded(vault: &Path) -> String {
    let (format, since) = vault_format();
    format!(
        "vault {} has the present format, {format}, in which HushQL {since} and newer make vaults; \
         nothing had to be changed",
        vault.display()
    )
}

/// The beginnings of the statements of a script that make things, with the name of their kind.
const KINDS: [(&str, &str); 7] = [
    ("CREATE EXTERNAL TABLE", "tables of files"),
    ("CREATE PRIVACY BUDGET", "budgets"),
    ("CREATE ROLE", "roles"),
    ("CREATE OR REPLACE VIEW", "views"),
    ("CREATE OR REPLACE TEMPLATE", "templates"),
    ("CREATE RELEASE TABLE", "release tables"),
    ("CREATE SYNTHETIC TABLE", "synthetic tables"),
];

/// The versions, and how many things of each kind the vault declares.
pub(super) fn described(engine: &Engine) -> Result<String, Failure> {
    let mut text = version(true);
    let script = engine.dump()?;
    let statements = split_statements(&script)?;
    for (begins, kind) in KINDS {
        let is = |text: &str| text.trim_start().starts_with(begins);
        let count = statements.iter().filter(|statement| is(statement.text())).count();
        line(&mut text, kind, &count.to_string());
    }
    let findings: usize = engine.doctor()?.batches().iter().map(|b| b.num_rows()).sum();
    line(&mut text, "findings", &format!("{findings} (hushql doctor VAULT shows them)"));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_what_the_program_is_made_of() {
        assert_eq!(version(false), concat!("hushql ", env!("CARGO_PKG_VERSION")));
        let text = version(true);
        for part in ["target", "DataFusion", "SQLite", "vault format", "features", "wire"] {
            assert!(text.lines().any(|line| line.starts_with(part)), "{part}: {text}");
        }
    }

    /// Names of tables, budgets and roles are the owner's.
    #[tokio::test]
    async fn support_is_told_kinds_and_no_names() {
        let engine = Engine::demo().unwrap();
        let owner = engine.owner();
        owner.execute("CREATE ROLE dr_jones LOGIN PASSWORD 'correct horse'").await.unwrap();
        owner.execute("CREATE VIEW dr_view AS SELECT age FROM adult").await.unwrap();
        let template = "CREATE TEMPLATE dr_asks(a BIGINT BETWEEN (0, 9)) AS SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM adult WHERE age > $a";
        owner.execute(template).await.unwrap();
        let text = described(&engine).unwrap();
        assert!(
            text.contains("roles             1\n") && text.contains("budgets           3\n"),
            "{text}"
        );
        assert!(text.contains("views             1\n"), "{text}");
        assert!(text.contains("templates         1\n"), "{text}");
        for name in ["dr_jones", "dr_view", "dr_asks", "adult", "bids", "orders", "epsilon"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }
}
