//! Statements from those that are written down: the examples, suites and attacks, with pieces out
//! of place.
//!
//! In: a corpus of statements. Out: one with words left out, doubled, exchanged or taken from
//! another. Prices are made small first: at a high price an answer may be exact, and so may be a
//! marked cell.

use crate::privacy::sensitivity::Dice;

/// Every statement of grammar.md, of the suites and of the attacks.
pub fn corpus() -> Vec<String> {
    let mut statements = Vec::new();
    let mut fenced = false;
    let mut block = String::new();
    for line in include_str!("../../../../grammar.md").lines() {
        if let Some(kind) = line.strip_prefix("```") {
            fenced = !fenced && kind.starts_with("sql");
            if !fenced {
                let all = hushql::split_statements(&block).unwrap_or_default();
                statements.extend(all.iter().map(|statement| statement.text().to_owned()));
                block.clear();
            }
        } else if fenced {
            block += line;
            block.push('\n');
        }
    }
    let attacks = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redteam");
    for file in std::fs::read_dir(attacks).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        statements.extend(lines.filter_map(|line| Some(line.split_once(" | ")?.1.to_owned())));
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let mut files: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for record in text.split("\n\n") {
            let mut lines = record
                .lines()
                .skip_while(|line| !line.starts_with("statement ") && !line.starts_with("query "));
            if lines.next().is_some() {
                let sql: Vec<&str> = lines.take_while(|line| *line != "----").collect();
                statements.push(sql.join("\n"));
            }
        }
    }
    statements.retain(|statement| !statement.trim().is_empty());
    statements.sort();
    statements.dedup();
    statements
}

/// Signs of two characters.
const SIGNS: [&str; 8] = ["<>", "<=", ">=", "=>", "!=", "||", "::", "->"];

/// Words, numbers, strings and signs; comments and blanks are left out.
pub fn tokens(sql: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = sql.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        if c.is_whitespace() {
            continue;
        }
        let mut end = start + c.len_utf8();
        if word(c) {
            while let Some((i, next)) = rest.next_if(|(_, next)| word(*next)) {
                end = i + next.len_utf8();
            }
            // 1e-6 is one number.
            let number = c.is_ascii_digit() && sql[..end].ends_with(['e', 'E']);
            if number && sql[end..].starts_with('-') {
                rest.next();
                end += 1;
                while let Some((i, next)) = rest.next_if(|(_, next)| word(*next)) {
                    end = i + next.len_utf8();
                }
            }
        } else if c == '\'' || c == '"' {
            while let Some((i, next)) = rest.next() {
                end = i + next.len_utf8();
                // Doubled, it stands for itself.
                if next == c && rest.next_if(|(_, again)| *again == c).is_none() {
                    break;
                }
            }
        } else if c == '-' && sql[end..].starts_with('-') {
            while rest.next_if(|(_, next)| *next != '\n').is_some() {}
            continue;
        } else if SIGNS.iter().any(|sign| sql[start..].starts_with(sign)) {
            rest.next();
            end += 1;
        }
        tokens.push(sql[start..end].to_owned());
    }
    tokens
}

/// Prices above 1 become 1, and a δ 10⁻¹⁶.
pub fn made_cheap(tokens: &mut [String]) {
    for i in 0..tokens.len().saturating_sub(2) {
        let name = tokens[i].to_lowercase();
        if !matches!(tokens[i + 1].as_str(), "=" | "=>") {
            continue;
        }
        let value = &mut tokens[i + 2];
        if matches!(name.as_str(), "eps" | "epsilon" | "rho")
            && value.parse::<f64>().is_ok_and(|price| price > 1.0)
        {
            *value = "1".to_owned();
        } else if name == "delta" && value.parse::<f64>().is_ok_and(|d| d > 0.0 && d < 1.0) {
            *value = "1e-16".to_owned();
        }
    }
}

/// Words that go where no one expects them.
const ODD: [&str; 44] = [
    "NULL",
    "TRUE",
    "''",
    "0",
    "-1",
    "9223372036854775808",
    "1e308",
    "1e-320",
    "NaN",
    "*",
    "(",
    ")",
    ",",
    ".",
    "DISTINCT",
    "ALL",
    "OVER",
    "FILTER",
    "WITH",
    "RECURSIVE",
    "LATERAL",
    "UNION",
    "EXCEPT",
    "CASE",
    "END",
    "KEYS",
    "DOMAIN",
    "TABLE",
    "IN",
    "BY",
    "PRIOR",
    "TOP",
    "ARGMAX",
    "LAPLACE",
    "GAUSSIAN",
    "AUTO",
    "EXPONENTIAL",
    "RANDOMIZED_RESPONSE",
    "delta",
    "rows",
    "groups",
    "__hushql",
    "\"\"",
    "/*",
];

/// A name, a word in capitals, a number, a string, or a sign of its own.
fn kind(word: &str) -> (u8, Option<char>) {
    match word.chars().next() {
        Some(c) if c.is_ascii_digit() => (0, None),
        Some(c) if c.is_uppercase() => (1, None),
        Some(c) if c.is_alphabetic() => (2, None),
        Some('\'') => (3, None),
        Some(_) if ["<", ">", "=", "<=", ">=", "<>"].contains(&word) => (4, None),
        Some('+' | '-' | '*' | '/' | '%') => (5, None),
        other => (6, other),
    }
}

/// A statement of the corpus with a piece or two out of place.
pub fn mutated(dice: &mut Dice, corpus: &[String]) -> String {
    let pick = |dice: &mut Dice| tokens(&corpus[dice.below(corpus.len())]);
    let mut words = pick(dice);
    for _ in 0..1 + dice.below(2) {
        if words.is_empty() {
            break;
        }
        let (i, j) = (dice.below(words.len()), dice.below(words.len()));
        match dice.below(14) {
            0 | 1 => {
                words.remove(i);
            }
            2 => words.insert(i, words[i].clone()),
            3 => words.swap(i, j),
            4 => {
                // A piece of another statement, in place of a word or beside it.
                let other = pick(dice);
                let from = dice.below(other.len().max(1)).min(other.len());
                let to = (from + 1 + dice.below(8)).min(other.len());
                let end = if dice.one_in(2) { i + 1 } else { i };
                words.splice(i..end, other[from..to].iter().cloned());
            }
            5 => words[i] = dice.pick(&ODD).to_owned(),
            6 => words.insert(i, dice.pick(&ODD).to_owned()),
            7 => {
                // A stretch of it again.
                let (from, to) = (i.min(j), i.max(j));
                let stretch = words[from..to].to_vec();
                let at = dice.below(words.len());
                words.splice(at..at, stretch);
            }
            _ => {
                // One word for another of its kind, of another statement: that often parses.
                let other: Vec<String> =
                    pick(dice).into_iter().filter(|word| kind(word) == kind(&words[i])).collect();
                if !other.is_empty() {
                    words[i] = other[dice.below(other.len())].clone();
                }
            }
        }
    }
    made_cheap(&mut words);
    words.join(" ")
}

#[test]
fn words_are_told_apart() {
    let sql = "SELECT LAPLACE(eps=1000, delta => 1e-6) \"a b\".x -- no\n FROM t WHERE s = 'it''s' AND y<>2.5";
    let mut words = tokens(sql);
    let expected = [
        "SELECT", "LAPLACE", "(", "eps", "=", "1000", ",", "delta", "=>", "1e-6", ")", "\"a b\"",
        ".x", "FROM", "t", "WHERE", "s", "=", "'it''s'", "AND", "y", "<>", "2.5",
    ];
    assert_eq!(words, expected);
    made_cheap(&mut words);
    assert_eq!((words[5].as_str(), words[9].as_str()), ("1", "1e-16"));
    let corpus = corpus();
    assert!(corpus.len() > 600, "{}", corpus.len());
    assert!(
        corpus.iter().any(|s| s.contains("REVENUE")) && corpus.iter().any(|s| s.contains("VIA"))
    );
}
