//! The files of tests/redteam: attacks as text.
//!
//! In: a file of one family. Out: its attacks in order, each one or several statements with what
//! must happen to each. A file opens with the story of its family in lines of `#`; two of them say
//! `Wrong elsewhere:` and `Stopped by:`, and the paths behind the latter have to exist.
//!
//! ```text
//! on linked                                      the catalog of the attacks below (`declared` before the first)
//! refuse HQ001 | SELECT * FROM adult             an attack of one statement, by the analyst lab
//! {  a budget of one's own                       an attack of several, on a database of its own
//! owner | DROP PRIVACY BUDGET adult              what the owner does must succeed
//! eve refuse HQ003 | CREATE PRIVACY BUDGET …     another analyst
//! }
//! ```
//!
//! What must happen: `refuse CODE` (the code of a refusal, or the kind of another error), `safe`
//! (that, or an answer), `answer`, `free` (an answer that costs nothing and is the same bytes on
//! both databases), `fails` (paid, and ended by the one sentence for what fails above a release).
//! Behind it `rows=3`, `eps=0.5` and `value=0` say how many rows come out, what is charged in all,
//! and what the only cell of the answer is. In a statement, `\u{200b}` is that character, `{{x*9}}`
//! is x nine times, and `@id`, `@name`, `@city` and `@note` are cells of the person who is in one
//! of the databases only.

use std::path::{Path, PathBuf};

use super::world::{CANARY_ID, CITY, NAME, NOTE};

/// What must happen to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Refused with this code or kind (or `any`), nothing read, nothing charged.
    Refuse(String),
    /// Refused likewise, whatever the code, or answered.
    Safe,
    /// Answered.
    Answer,
    /// Answered with the same bytes on both, at no cost.
    Free,
    /// Paid, and ended by the one sentence for what fails while it runs, as a function of released
    /// values may.
    Fails,
    /// Done, by the owner.
    Done,
}

/// One statement of an attack.
#[derive(Debug, Clone)]
pub struct Step {
    pub line: usize,
    pub who: String,
    pub expect: Expect,
    pub rows: Option<usize>,
    /// What is charged, in nano-ε.
    pub eps: Option<i64>,
    pub value: Option<String>,
    pub sql: String,
}

/// Statements that belong together.
#[derive(Debug, Clone)]
pub struct Attack {
    pub title: String,
    pub catalog: String,
    /// Whether nothing that was asked before may matter.
    pub alone: bool,
    pub steps: Vec<Step>,
}

impl Step {
    /// A statement of the analyst `lab`.
    pub fn new(expect: Expect, sql: String) -> Self {
        Self { line: 0, who: "lab".into(), expect, rows: None, eps: None, value: None, sql }
    }
}

/// The folder of the families.
pub fn folder() -> PathBuf {
    // Cargo says where it runs the tests; a test program that was moved knows where it was built.
    let checkout = std::env::var("CARGO_MANIFEST_DIR");
    let checkout = checkout.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&checkout).join("tests/redteam")
}

/// Reads a family.
pub fn read(family: &str) -> Vec<Attack> {
    let path = folder().join(format!("{family}.txt"));
    parse(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// The attacks of a text.
pub fn parse(text: &str) -> Vec<Attack> {
    let mut attacks: Vec<Attack> = Vec::new();
    let mut catalog = "declared".to_owned();
    let mut open: Option<Attack> = None;
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("on ") {
            assert!(open.is_none(), "line {number}: a catalog inside of an attack");
            name.trim().clone_into(&mut catalog);
        } else if let Some(title) = line.strip_prefix('{').filter(|_| open.is_none()) {
            let title = format!("line {number}: {}", title.trim());
            open = Some(Attack { title, catalog: catalog.clone(), alone: true, steps: vec![] });
        } else if line == "}" {
            attacks.push(open.take().unwrap_or_else(|| panic!("line {number}: nothing is open")));
        } else {
            let step = step(number, line);
            match &mut open {
                Some(attack) => attack.steps.push(step),
                None => attacks.push(Attack {
                    title: format!("line {number}"),
                    catalog: catalog.clone(),
                    alone: false,
                    steps: vec![step],
                }),
            }
        }
    }
    assert!(open.is_none(), "an attack is not closed");
    attacks
}

fn step(line: usize, text: &str) -> Step {
    let (head, sql) = text.split_once(" | ").unwrap_or_else(|| panic!("line {line}: {text}"));
    let mut words = head.split_whitespace().peekable();
    let verbs = ["refuse", "safe", "answer", "free", "fails"];
    let who = match words.peek() {
        Some(word) if verbs.contains(word) => "lab".to_owned(),
        _ => words.next().unwrap_or_else(|| panic!("line {line}: nobody")).to_owned(),
    };
    let expect = match words.next() {
        Some("refuse") => match words.next() {
            Some(kind) => Expect::Refuse(kind.to_owned()),
            None => panic!("line {line}: refused how?"),
        },
        Some("safe") => Expect::Safe,
        Some("answer") => Expect::Answer,
        Some("free") => Expect::Free,
        Some("fails") => Expect::Fails,
        None if who == "owner" => Expect::Done,
        other => panic!("line {line}: {other:?}?"),
    };
    let mut step = Step { line, who, ..Step::new(expect, expanded(sql)) };
    for word in words {
        match word.split_once('=') {
            Some(("rows", n)) => step.rows = Some(n.parse().unwrap()),
            Some(("eps", eps)) => step.eps = Some(nano(eps)),
            Some(("value", value)) => step.value = Some(value.to_owned()),
            _ => panic!("line {line}: {word}?"),
        }
    }
    step
}

/// A decimal number in units of 10⁻⁹.
fn nano(text: &str) -> i64 {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{places:0<9}").parse().unwrap()
}

/// A statement with its repetitions, characters and names put in.
pub fn expanded(sql: &str) -> String {
    let mut out = String::new();
    let mut rest = sql;
    while let Some(at) = rest.find("{{") {
        let (before, inside) = rest.split_at(at);
        let end = inside.find("}}").unwrap_or_else(|| panic!("{sql}: a repetition is not closed"));
        let (what, times) = inside[2..end].rsplit_once('*').unwrap();
        out += before;
        out += &what.repeat(times.parse().unwrap());
        rest = &inside[end + 2..];
    }
    out += rest;
    let mut pieces = out.split("\\u{");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_once('}').unwrap();
        text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        text += rest;
    }
    text.replace("@name", &format!("'{NAME}'"))
        .replace("@city", &format!("'{CITY}'"))
        .replace("@note", &format!("'{NOTE}'"))
        .replace("@id", &CANARY_ID.to_string())
}

#[test]
fn attacks_are_read() {
    let attacks = parse(
        "# a story\non bare\nrefuse HQ001 | SELECT '|'\n{ two { of them\nowner | DO\neve safe rows=2 eps=0.25 | X {{(*3}}\\u{200b}\n}",
    );
    let [one, two] = attacks.as_slice() else { panic!("{attacks:?}") };
    assert_eq!((one.alone, one.catalog.as_str(), one.steps.len()), (false, "bare", 1));
    assert_eq!(one.steps[0].expect, Expect::Refuse("HQ001".into()));
    assert_eq!((two.alone, two.steps.len()), (true, 2));
    assert_eq!(two.steps[0].expect, Expect::Done);
    let last = &two.steps[1];
    assert_eq!((last.who.as_str(), last.rows, last.eps), ("eve", Some(2), Some(250_000_000)));
    assert_eq!(last.sql, "X (((\u{200b}");
}
