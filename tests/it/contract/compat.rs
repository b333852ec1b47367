//! docs/compat.md says what the engine does: each of its rows is a statement of
//! tests/compat/statements.sql, which is run here.
//!
//! The head of the document, up to its first section, is written by hand, and the suites of peers
//! at its end by tests/peers/run.py. All else is made of the statements and of how they end, on the
//! built-in tables. `HUSHQL_COMPAT=write` writes the document; look at the difference before it is
//! committed.
//!
//! ```text
//! -- SELECT * EXCEPT (…) | GoogleSQL                        | construct | from | HushQL | statement, note |
//! SELECT * EXCEPT (share) FROM census;                 →    | SELECT * EXCEPT (…) | GoogleSQL | yes | `SELECT * …` |
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hushql::{Engine, Error, Session};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/compat.md");

/// What begins the part that tests/peers writes.
const SUITES: &str = "\n<!-- peers -->\n";

/// Whose construct it is; ours are there for comparison.
const ORIGINS: [&str; 4] = ["both", "PostgreSQL", "GoogleSQL", "HushQL"];

struct Entry<'a> {
    section: &'a str,
    construct: &'a str,
    origin: &'a str,
    is_for_owners: bool,
    note: &'a str,
    statement: String,
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut section = "";
    // The first paragraph describes the file.
    for line in text.lines().skip_while(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("## ") {
            section = name;
        } else if let Some(head) = line.strip_prefix("-- ") {
            let mut parts = head.split(" | ");
            let construct = parts.next().unwrap();
            let from = parts.next().unwrap_or_else(|| panic!("{line}: from where?"));
            let origin = from.trim_end_matches(", owner");
            assert!(ORIGINS.contains(&origin), "{line}: from where?");
            let note = parts.next().unwrap_or_default();
            assert!(parts.next().is_none(), "{line}: more than a note");
            let is_for_owners = origin != from;
            let statement = String::new();
            entries.push(Entry { section, construct, origin, is_for_owners, note, statement });
        } else if !line.is_empty() {
            let entry = entries.last_mut().expect("a head comes before its statement");
            assert!(entry.statement.is_empty(), "{line}: a second statement");
            line.clone_into(&mut entry.statement);
        }
    }
    entries
}

/// How a statement ends, in the words of the document.
async fn outcome(session: &Session, statement: &str) -> String {
    match session.execute(statement.trim_end_matches(';')).await {
        Ok(_) => "yes".to_owned(),
        Err(Error::Refused(refusal)) if refusal.code() == "HQ032" => "not yet: HQ032".to_owned(),
        Err(Error::Refused(refusal)) => refusal.code().to_owned(),
        Err(Error::Syntax { .. }) => "no syntax".to_owned(),
        Err(Error::Bind(_)) => "no such name".to_owned(),
        Err(other) => panic!("{statement}: {other:?}"),
    }
}

/// The document: its head, how many statements of each section end in which way, and a table for
/// each section.
fn document(head: &str, found: &[(Entry<'_>, String)]) -> String {
    let is_refused = |outcome: &str| outcome.starts_with("HQ");
    let mut text =
        format!("{head}\n## Summary\n\n| section | yes | refused | not yet | unknown |\n");
    text += "|---|---|---|---|---|\n";
    let mut sections: Vec<&str> = found.iter().map(|(entry, _)| entry.section).collect();
    sections.dedup();
    for section in &sections {
        let of_section = || found.iter().filter(|(entry, _)| entry.section == *section);
        let count = |is: &dyn Fn(&str) -> bool| of_section().filter(|(_, end)| is(end)).count();
        let (yes, refused) = (count(&|end| end == "yes"), count(&is_refused));
        let (not_yet, all) = (count(&|end| end.starts_with("not yet")), of_section().count());
        let unknown = all - yes - refused - not_yet;
        writeln!(text, "| {section} | {yes} | {refused} | {not_yet} | {unknown} |").unwrap();
    }
    for section in &sections {
        write!(text, "\n## {section}\n\n").unwrap();
        text += "| construct | from | HushQL | statement, and what to write instead |\n|---|---|---|---|\n";
        for (entry, end) in found.iter().filter(|(entry, _)| entry.section == *section) {
            let cell = |text: &str| text.replace('|', "\\|");
            let Entry { construct, origin, note, statement, .. } = entry;
            let (construct, note) = (cell(construct), cell(note));
            let statement = cell(statement.trim_end_matches(';'));
            let note = if note.is_empty() { note } else { format!(": {note}") };
            writeln!(text, "| {construct} | {origin} | {end} | `{statement}`{note} |").unwrap();
        }
    }
    text
}

#[tokio::test]
async fn the_page_says_what_the_engine_does() {
    let entries = entries(include_str!("../../compat/statements.sql"));
    assert!(entries.len() >= 120, "{} statements", entries.len());
    let constructs: BTreeSet<&str> = entries.iter().map(|entry| entry.construct).collect();
    assert_eq!(constructs.len(), entries.len(), "two rows have one name");
    let engine = Engine::demo().unwrap();
    let (owner, analyst) = (engine.owner(), engine.analyst("reader").unwrap());
    for table in ["adult", "bids", "orders"] {
        let raise = format!("ALTER PRIVACY BUDGET {table} SET LIMIT (epsilon=1000, delta=1e-3)");
        owner.execute(&raise).await.unwrap();
    }
    let mut found = Vec::new();
    for entry in entries {
        let session: &Session = if entry.is_for_owners { &owner } else { &analyst };
        let end = outcome(session, &entry.statement).await;
        found.push((entry, end));
    }
    let written = std::fs::read_to_string(DOCUMENT).unwrap();
    let head = written.split_once("\n## ").expect("the head ends with a section").0;
    let suites = written.find(SUITES).expect("the document ends with the suites of peers");
    let made = document(head, &found) + &written[suites..];
    if std::env::var("HUSHQL_COMPAT").is_ok_and(|word| word == "write") {
        std::fs::write(DOCUMENT, &made).unwrap();
    }
    let wrong: Vec<&str> =
        made.lines().filter(|line| !written.lines().any(|old| old == *line)).collect();
    assert!(made == written, "docs/compat.md differs in:\n{}", wrong.join("\n"));
}
