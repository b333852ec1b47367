//! What docs/coming-from.md writes for HushQL is run, and each system has five questions.
//!
//! A system is a heading `## System`, a question `### question` below it: one block of the other
//! system, then blocks of `sql` or `sql owner`. All run in the order of the text, on one engine
//! with the built-in tables.

use hushql::{Engine, Session, split_statements};

use super::grammar::blocks;

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/coming-from.md")).unwrap()
}

#[tokio::test]
async fn every_statement_is_answered() {
    let engine = Engine::demo().unwrap();
    let (owner, analyst) = (engine.owner(), engine.analyst("newcomer").unwrap());
    let mut answered = 0;
    for (line, kind, block) in blocks(&document()) {
        let session: &Session = match kind.as_str() {
            "sql owner" => &owner,
            "sql" => &analyst,
            other => panic!("line {line}: no block of {other}"),
        };
        for statement in split_statements(&block).unwrap() {
            let written = statement.text();
            let result = session.execute(written).await;
            result.unwrap_or_else(|e| panic!("line {line}: {written}: {e}"));
            answered += 1;
        }
    }
    assert!(answered >= 50, "{answered} statements");
}

#[test]
fn each_system_has_five_questions_with_both_sides() {
    let document = document();
    let systems: Vec<&str> = document.split("\n## ").skip(1).collect();
    assert_eq!(systems.len(), 7);
    for system in systems {
        let name = system.lines().next().unwrap();
        let questions: Vec<&str> = system.split("\n### ").skip(1).collect();
        assert_eq!(questions.len(), 5, "{name}");
        for question in questions {
            let kinds: Vec<&str> = question
                .lines()
                .filter_map(|line| line.strip_prefix("```"))
                .filter(|kind| !kind.is_empty())
                .collect();
            let (there, here) = kinds.split_first().unwrap();
            assert!(!there.starts_with("sql"), "{name}: {question}");
            let ours = !here.is_empty() && here.iter().all(|kind| kind.starts_with("sql"));
            assert!(ours, "{name}: {question}");
        }
    }
}
