//! The examples of grammar.md are run, so that the text keeps to what is true.
//!
//! Every block fenced as `sql` is answered, `sql refused` is refused, `sql owner` is run by the
//! owner, in the order of the text and on one engine with the built-in tables. LOCATIONs are files
//! under tests/data. Each word of the syntax, at the end of the text, is in its index.

use std::collections::BTreeSet;

use hushql::{Engine, Error, Session, split_statements};

/// The fenced blocks that begin with `sql`: the line, the words after it, the text.
pub(super) fn blocks(text: &str) -> Vec<(usize, String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, _, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, Some(kind)) => open = Some((number + 1, kind.trim().to_owned(), String::new())),
            (None, None) => {}
        }
    }
    blocks.retain(|(_, kind, _)| kind == "sql" || kind.starts_with("sql "));
    blocks
}

#[tokio::test]
async fn every_example_does_what_the_text_says() {
    let text = include_str!("../../../grammar.md");
    let engine = Engine::demo().unwrap();
    let (owner, analyst) = (engine.owner(), engine.analyst("reader").unwrap());
    // The examples together cost more than the built-in budgets hold.
    for table in ["adult", "bids", "orders"] {
        let raise = format!("ALTER PRIVACY BUDGET {table} SET LIMIT (epsilon=1000, delta=1e-3)");
        owner.execute(&raise).await.unwrap();
    }
    let (mut answered, mut refused) = (0, 0);
    for (line, kind, block) in blocks(text) {
        for statement in split_statements(&block).unwrap() {
            let written = statement.text();
            let session: &Session = if kind == "sql owner" { &owner } else { &analyst };
            let result = session.execute(written).await;
            match (kind.as_str(), result) {
                ("sql" | "sql owner", Ok(_)) => answered += 1,
                ("sql refused", Err(Error::Refused(refusal))) => {
                    // The text names the code behind the statement.
                    let code = refusal.code();
                    assert!(block.contains(code), "line {line}: {written} is refused by {code}");
                    refused += 1;
                }
                (kind, result) => panic!("line {line}, {kind}: {written}: {result:?}"),
            }
        }
    }
    assert!(answered > 20 && refused > 5, "{answered} answered, {refused} refused");
}

/// The words of a text, of two letters or more.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c: char| !c.is_ascii_alphabetic() && c != '_';
    text.split(is_sign).filter(|word| word.len() > 1)
}

#[test]
fn the_index_has_every_word_of_the_syntax() {
    let text = include_str!("../../../grammar.md");
    let index = text.split_once("\n## Index\n").unwrap().1.split_once("\n## ").unwrap().0;
    // Entries are in backticks; the targets of their links are not.
    let listed: BTreeSet<&str> = index.split('`').skip(1).step_by(2).flat_map(words).collect();
    let syntax = text.split_once("\n## Grammar\n").unwrap().1.split("```").nth(1).unwrap();
    let without_comments: String = syntax
        .split("(*")
        .map(|part| part.split_once("*)").map_or(part, |(_, rest)| rest))
        .collect();
    let written: BTreeSet<&str> =
        without_comments.split('"').skip(1).step_by(2).flat_map(words).collect();
    assert!(written.len() > 150, "{} words", written.len());
    let missing: Vec<&&str> = written.difference(&listed).collect();
    assert!(missing.is_empty(), "the index of grammar.md lacks {missing:?}");
}
