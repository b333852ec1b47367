//! The links of all Markdown files lead somewhere: relative ones to a file or a folder of the
//! project, and where they name a heading, to one that is there. Each file is a chapter of the book
//! that `just docs` builds.
//!
//! ```text
//! docs/tpch.md: [performance.md](performance.md#tpc-h)        docs/performance.md has a heading "TPC-H"
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The chapters of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Every Markdown file, by its path from the root. Hidden folders and what was built are left out.
fn documents() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting = vec![PathBuf::new()];
    let mut documents = BTreeMap::new();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && name != "target" {
                    waiting.push(path);
                }
            } else if name.ends_with(".md") {
                documents.insert(path, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    documents
}

/// The lines outside of fenced blocks, without what is in backticks.
fn prose(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let lines = text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    });
    lines.map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("``"))
}

/// The targets of links in a text.
fn links(text: &str) -> Vec<String> {
    let of_line = |line: String| {
        let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        ends.map(|(link, _)| link.to_owned()).collect::<Vec<_>>()
    };
    prose(text).flat_map(of_line).collect()
}

/// The ends of links to the headings of a text. A heading that comes again has a number behind it.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_code = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let times = seen.entry(anchor.clone()).or_default();
        anchors.push(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    anchors
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{}: outside", path.display()),
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}

#[test]
fn links_and_headings_are_read() {
    let text = "# A *b*, c\n[x](y.md#z) `[a](b)`\n```sh\n# [n](o)\n```\n## A b c\n[p](q)";
    assert_eq!(links(text), ["y.md#z", "q"]);
    assert_eq!(anchors(text), ["a-b-c", "a-b-c-1"]);
    assert_eq!(plain(Path::new("docs/../src/lib.rs")), Path::new("src/lib.rs"));
}

#[test]
fn every_link_leads_somewhere() {
    let documents = documents();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut wrong, mut found) = (Vec::new(), 0);
    for (document, text) in &documents {
        let folder = document.parent().unwrap();
        for link in links(text) {
            let (target, heading) = link.split_once('#').unwrap_or((&link, ""));
            if target.contains(':') {
                continue;
            }
            found += 1;
            let path = match target {
                "" => document.clone(),
                target => plain(&folder.join(target)),
            };
            let is_there = root.join(&path).exists();
            let has_heading = heading.is_empty()
                || documents
                    .get(&path)
                    .is_some_and(|text| anchors(text).iter().any(|a| a == heading));
            if !is_there || !has_heading {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these links lead nowhere:\n{}", wrong.join("\n"));
    assert!(found > 200, "{found} links");
}

#[test]
fn every_document_is_a_chapter() {
    let documents = documents();
    let summary = Path::new(SUMMARY);
    let chapters: Vec<PathBuf> = links(&documents[summary])
        .iter()
        .map(|link| plain(&Path::new("docs").join(link)))
        .collect();
    for document in documents.keys().filter(|document| document.as_path() != summary) {
        assert!(chapters.contains(document), "{SUMMARY} lacks {}", document.display());
    }
}
