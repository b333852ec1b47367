//! The recipes of docs/cookbook.md are run, and its index has all of them.
//!
//! A recipe is a heading `### question` with a block of `sql` below it. The block `sql owner` at
//! the head declares what the recipes ask. All run in the order of the text, on one engine with the
//! built-in tables. The examples of the shell's help are run, too.

use std::collections::BTreeSet;

use hushql::{Engine, Session, split_statements};
use hushql_engine::dialect::word_entries;

use super::grammar::blocks;

const TEXT: &str = include_str!("../../../docs/cookbook.md");

/// The questions: the headings of the recipes, in order.
fn questions(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

#[tokio::test]
async fn every_recipe_is_answered() {
    let engine = Engine::demo().unwrap();
    let (owner, analyst) = (engine.owner(), engine.analyst("reader").unwrap());
    let mut answered = 0;
    for (line, kind, block) in blocks(TEXT) {
        let session: &Session = match kind.as_str() {
            "sql owner" => &owner,
            "sql" => &analyst,
            other => panic!("line {line}: a recipe is no block of {other}"),
        };
        for statement in split_statements(&block).unwrap() {
            let written = statement.text();
            let result = session.execute(written).await;
            result.unwrap_or_else(|e| panic!("line {line}: {written}: {e}"));
            answered += usize::from(kind == "sql");
        }
    }
    assert!(answered >= 80, "{answered} statements");
}

#[test]
fn the_index_has_every_question_and_each_has_a_recipe() {
    let index = TEXT.split_once("\n## Index\n").unwrap().1.split_once("\n## ").unwrap().0;
    let listed: Vec<&str> = index
        .split("](#")
        .filter_map(|before| before.rsplit_once('[').map(|(_, name)| name))
        .collect();
    let questions = questions(TEXT);
    let missing: Vec<_> = questions.iter().filter(|question| !listed.contains(question)).collect();
    assert!(missing.is_empty(), "the index lacks {missing:?}");
    let different: BTreeSet<&str> = questions.iter().copied().collect();
    assert_eq!(different.len(), questions.len(), "a question is asked twice");
    assert!(questions.len() >= 80, "{} questions", questions.len());
    for recipe in TEXT.split("\n### ").skip(1) {
        assert!(recipe.contains("\n```sql\n"), "no recipe: {recipe}");
    }
}

#[tokio::test]
async fn every_example_of_the_help_is_answered() {
    let engine = Engine::demo().unwrap();
    let (owner, analyst) = (engine.owner(), engine.analyst("reader").unwrap());
    for table in ["adult", "bids", "orders"] {
        let raise = format!("ALTER PRIVACY BUDGET {table} SET LIMIT (epsilon=1000, delta=1e-3)");
        owner.execute(&raise).await.unwrap();
    }
    for entry in word_entries() {
        let result = analyst.execute(entry.example).await;
        result.unwrap_or_else(|e| panic!("{}: {e}", entry.example));
        if entry.example.starts_with("CREATE SYNTHETIC TABLE made_up") {
            analyst.execute("DROP SYNTHETIC TABLE made_up").await.unwrap();
        }
    }
    assert!(word_entries().len() >= 100);
}
