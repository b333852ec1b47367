//! The corpus of attacks that projects of this kind share, where it is beside the checkout.
//!
//! In: records whose mechanisms stand in comments. Out: statements of the dialect, run like our
//! own; and the records as they are, which have no mechanism and must be refused.

use super::attack;
use super::file::{Attack, Expect, Step};
use crate::contract::program::shared;

/// Says a record of the shared corpus in the dialect: `/*@dp LAPLACE(eps=1)*/` stands anywhere in
/// the SELECT list there, and in front of an aggregate here; a score and a number of winners are
/// parameters there.
fn in_dialect(sql: &str) -> String {
    let mut pieces = sql.split("/*@dp ");
    let mut said = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (mechanism, rest) = piece.split_once("*/").unwrap();
        if let Some((head, score)) = mechanism.split_once(", score=") {
            let score = score.strip_suffix(')').unwrap();
            let (target, rest) = rest.split_once(" FROM").unwrap();
            said += &format!("{head}){target} BY {score} FROM{rest}");
        } else if let Some(head) = mechanism.strip_suffix(", k=5)") {
            said += &format!("{}){rest}", head.replace("ARGMAX", "TOP 5"));
        } else if mechanism.starts_with("ARGMAX") {
            said += &format!("{mechanism}{rest}");
        } else {
            let calls = ["COUNT(", "SUM(", "AVG(", "array_agg("];
            let at = calls.iter().filter_map(|call| rest.find(call)).min().unwrap_or(0);
            said += &format!("{}{mechanism} {}", &rest[..at], &rest[at..]);
        }
    }
    said
}

/// Left as a comment there is no mechanism (and no default), and the statement must be refused.
#[tokio::test]
async fn the_shared_attacks_fail() {
    let Some(text) = shared("redteam/corpus.jsonl") else {
        println!("skipped: there is no ../shared/redteam/corpus.jsonl beside this checkout");
        return;
    };
    // They expect a division to be refused; here it is total, NULL where the divisor is 0.
    const TOTAL_HERE: [&str; 2] = ["RT-095", "RT-097"];
    // They expect a sum without a range to be refused; here half of its cost finds one.
    const FOUND_HERE: [&str; 3] = ["RT-178", "RT-244", "RT-247"];
    // No row is asked for, or the values that the owner declared: neither needs a release.
    const FREE_HERE: [&str; 2] = ["RT-224", "RT-263"];
    let mut attacks = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| record[name].as_str().unwrap().to_owned();
        let (id, category, sql) = (field("id"), field("category"), field("sql"));
        let refused = || Expect::Refuse("any".into());
        let expected = match (category.as_str(), field("expect").as_str()) {
            ("control", _) => Expect::Answer,
            _ if [&TOTAL_HERE[..], &FOUND_HERE].concat().contains(&id.as_str()) => Expect::Safe,
            (_, "refuse") => refused(),
            (_, "safe") => Expect::Safe,
            (_, other) => panic!("{other}?"),
        };
        let mut add = |title: String, expect: Expect, sql: String| {
            let steps = vec![Step::new(expect, sql)];
            attacks.push(Attack { title, catalog: "declared".into(), alone: false, steps });
        };
        let marked = in_dialect(&sql);
        if marked != sql {
            let bare = if FREE_HERE.contains(&id.as_str()) { Expect::Safe } else { refused() };
            add(format!("{id} {category}, unmarked"), bare, sql);
        }
        add(format!("{id} {category}"), expected, marked);
    }
    assert!(attacks.len() > 100, "{}", attacks.len());
    let wrong = attack::run(&attacks).await;
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_shared_notation_is_understood() {
    for (theirs, ours) in [
        ("SELECT /*@dp LAPLACE(eps=1)*/ COUNT(*) FROM t", "SELECT  LAPLACE(eps=1) COUNT(*) FROM t"),
        (
            "SELECT /*@dp LAPLACE(eps=1)*/ k, SUM(x) FROM t",
            "SELECT  k, LAPLACE(eps=1) SUM(x) FROM t",
        ),
        ("SELECT /*@dp ARGMAX AUTO(eps=1, k=5)*/ k FROM t", "SELECT TOP 5 AUTO(eps=1) k FROM t"),
        (
            "SELECT /*@dp ARGMAX AUTO(eps=1, score=AVG(x))*/ k FROM t",
            "SELECT ARGMAX AUTO(eps=1) k BY AVG(x) FROM t",
        ),
    ] {
        assert_eq!(in_dialect(theirs), ours);
    }
}
