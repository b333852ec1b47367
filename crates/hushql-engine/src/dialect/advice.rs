//! Advice for common mistakes in a text that does not parse.
//!
//! In: the tokens of a text and the parser's error. Out: what to write instead, with the position
//! of the mistake. If the mistake is not a known one, the parser's error. This module sees only
//! texts that the parser rejected.
//!
//! ```text
//! SELECT LAPLACE COUNT(*) FROM t     Expected: the end of the statement, found: (   →   LAPLACE needs a cost: LAPLACE(eps=1)
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::ast::{AggregateName, MechanismName};
use crate::dialect::error::DialectError;
use crate::dialect::synthetic_options::SyntheticMethod;
use crate::refusal::nearest;

/// The number of tokens before the position of an error that are searched for a mistake.
const REACH: usize = 12;

const SELECTORS: [&str; 4] = ["ARGMAX", "ARGMIN", "TOP", "BOTTOM"];

/// Clauses whose names analysts misspell.
const CLAUSES: [&str; 7] = ["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "KEYS"];

/// The advice for an error of the parser, or the error itself if there is no advice.
pub(super) fn advised(tokens: Vec<TokenWithSpan>, error: DialectError) -> DialectError {
    let DialectError::Syntax { message, position } = &error else { return error };
    if !message.starts_with("Expected: ") {
        return error;
    }
    let tokens = Tokens(tokens);
    let advice = match position {
        Some(place) => tokens.at(*place).and_then(|here| tokens.meant(here)),
        None => tokens.after_all(message),
    };
    advice.unwrap_or(error)
}

/// The tokens of a text, without white space.
struct Tokens(Vec<TokenWithSpan>);

impl Tokens {
    fn at(&self, place: (u64, u64)) -> Option<usize> {
        self.0.iter().position(|token| (token.span.start.line, token.span.start.column) == place)
    }

    fn word(&self, i: usize) -> Option<&Word> {
        match &self.0.get(i)?.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word),
            _ => None,
        }
    }

    /// A word that is not an SQL keyword.
    fn name(&self, i: usize) -> Option<&str> {
        let word = self.word(i).filter(|word| word.keyword == Keyword::NoKeyword)?;
        Some(&word.value)
    }

    fn is(&self, i: usize, token: &Token) -> bool {
        self.0.get(i).is_some_and(|found| found.token == *token)
    }

    fn said(&self, i: usize, message: String) -> Option<DialectError> {
        let start = self.0.get(i)?.span.start;
        Some(DialectError::syntax(message, Some((start.line, start.column))))
    }

    /// The error for a text that ends too early, at the position of its end.
    fn after_all(&self, message: &str) -> Option<DialectError> {
        let expected = message.strip_suffix("found: EOF")?;
        let last = self.0.iter().rev().find(|token| token.token != Token::EOF)?;
        let end = (last.span.end.line, last.span.end.column);
        Some(DialectError::syntax(format!("{expected}found: the end of the statement"), Some(end)))
    }

    /// The advice for a mistake at or before the token at which the parser gave up.
    fn meant(&self, here: usize) -> Option<DialectError> {
        let nearby = (here.saturating_sub(REACH)..=here).rev();
        let of_mechanism = nearby.filter_map(|i| Some((i, self.word(i)?)));
        of_mechanism
            .map(|(i, word)| match MechanismName::parse(&word.value) {
                Some(mechanism) => self.misplaced(mechanism, i, here),
                None => self.misspelt(i),
            })
            .find_map(|advice| advice)
            .or_else(|| self.clause(here))
    }

    /// A mechanism without a cost, or a mechanism after what it releases.
    fn misplaced(&self, name: MechanismName, i: usize, here: usize) -> Option<DialectError> {
        let before = i.checked_sub(1).and_then(|i| self.word(i)).map(|word| word.value.as_str());
        let after_selector = before.is_some_and(|word| is_one_of(word, &SELECTORS));
        if !self.is(i + 1, &Token::LParen) {
            let operand = self.word(i + 1).is_some_and(|word| {
                after_selector
                    || (AggregateName::parse(&word.value).is_some()
                        && self.is(i + 2, &Token::LParen))
            });
            let message = format!("{name} needs a cost in parentheses: write {name}(eps=1)");
            return operand.then(|| self.said(i, message)).flatten();
        }
        if i + 1 != here {
            return None;
        }
        match before.and_then(|word| nearest(word, SELECTORS.into_iter())) {
            Some(selector) if !after_selector => {
                self.said(i - 1, format!("did you mean {selector}?"))
            }
            _ => self.said(i, self.in_front(name, i)),
        }
    }

    /// The advice for a mechanism that follows something else.
    fn in_front(&self, name: MechanismName, i: usize) -> String {
        let before = i.checked_sub(1);
        let word = before.and_then(|i| self.word(i)).map(|word| word.value.to_uppercase());
        let aggregate = word.filter(|word| AggregateName::parse(word).is_some());
        match (aggregate, before.and_then(|i| self.name(i))) {
            (Some(aggregate), _) => {
                format!("write {name} before what it releases: {name}(eps=1) {aggregate}(x)")
            }
            (None, Some(column)) if !is_one_of(column, &SELECTORS) => {
                format!("a comma is missing between {column} and {name}")
            }
            (None, _) => format!("write {name} before what it releases: {}", name.example()),
        }
    }

    /// A word that has the parameters of a mechanism but does not name one.
    fn misspelt(&self, i: usize) -> Option<DialectError> {
        let parameter = self.word(i + 2)?;
        let is_mechanism = self.is(i + 1, &Token::LParen)
            && is_one_of(&parameter.value, &["eps", "epsilon", "rho", "delta"])
            && (self.is(i + 3, &Token::Eq) || self.is(i + 3, &Token::RArrow));
        if !is_mechanism {
            return None;
        }
        let word = self.name(i)?;
        if let Some((name, _)) =
            SyntheticMethod::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word))
        {
            let example = if *name == "SMALL_DATABASE" { "eps=1, rows=5" } else { "eps=1" };
            return self.said(i, format!("{name} makes a table of new rows: write CREATE SYNTHETIC TABLE s AS {name}({example}) SELECT …"));
        }
        let names = || MechanismName::ALL.iter().map(|(name, _)| *name);
        let message = match nearest(word, names()) {
            Some(name) => format!("there is no mechanism {word}; did you mean {name}?"),
            None => {
                let all: Vec<&str> = names().collect();
                format!("there is no mechanism {word}; the mechanisms are {}", all.join(", "))
            }
        };
        self.said(i, message)
    }

    /// A misspelt clause, which the parser reads as a name, or KEYS without keys.
    fn clause(&self, here: usize) -> Option<DialectError> {
        if self.word(here).is_some_and(|word| word.value.eq_ignore_ascii_case("keys")) {
            let message = "KEYS needs its keys: KEYS ('a', 'b'), KEYS TABLE t(c) or KEYS DOMAIN";
            return self.said(here, message.to_owned());
        }
        if self.word(here).is_some_and(|word| word.value.eq_ignore_ascii_case("consistent")) {
            let message = "CONSISTENT stands behind the parentheses of ROLLUP: GROUP BY ROLLUP (a, b) CONSISTENT";
            return self.said(here, message.to_owned());
        }
        if let Some(advice) = self.after_all_columns(here) {
            return Some(advice);
        }
        let before = here.checked_sub(1)?;
        let word = self.name(before)?;
        let clause = nearest(word, CLAUSES.into_iter())?;
        self.said(before, format!("did you mean {clause} instead of {word}?"))
    }

    /// `* RENAME (…)` and similar syntax of other dialects. The parser gives up at the star or
    /// after it.
    fn after_all_columns(&self, here: usize) -> Option<DialectError> {
        let star = if self.is(here, &Token::Mul) { here } else { here.checked_sub(1)? };
        let word = self.word(star + 1).filter(|_| self.is(star, &Token::Mul))?;
        if !is_one_of(&word.value, &["RENAME", "REPLACE", "ILIKE"]) {
            return None;
        }
        let word = word.value.to_uppercase();
        let message = format!(
            "* {word} is not part of the dialect: name the columns, as in SELECT a AS x, b; or leave some out: SELECT * EXCLUDE (a)"
        );
        self.said(star + 1, message)
    }
}

fn is_one_of(word: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use crate::dialect::parse;

    #[test]
    fn common_mistakes_get_advice() {
        for (text, says) in [
            (
                "SELECT LAPLACE COUNT(*) FROM t",
                "line 1, column 8: LAPLACE needs a cost in parentheses: write LAPLACE(eps=1)",
            ),
            (
                "SELECT ARGMAX EXPONENTIAL status FROM t GROUP BY status",
                "line 1, column 15: EXPONENTIAL needs a cost in parentheses: write EXPONENTIAL(eps=1)",
            ),
            (
                "SELECT LAPLAC(eps=0.5) COUNT(*) FROM t",
                "line 1, column 8: there is no mechanism LAPLAC; did you mean LAPLACE?",
            ),
            (
                "SELECT ARGMAX EXPONENTAL(eps=1) status FROM t GROUP BY status",
                "line 1, column 15: there is no mechanism EXPONENTAL; did you mean EXPONENTIAL?",
            ),
            (
                "SELECT Aim(eps=1) COUNT(*) FROM t",
                "line 1, column 8: AIM makes a table of new rows: write CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT …",
            ),
            (
                "SELECT hide(rho=1) COUNT(*) FROM t",
                "line 1, column 8: there is no mechanism hide; the mechanisms are EXPONENTIAL, GENERALIZED_EXPONENTIAL, PERMUTE_AND_FLIP, NOISY_MAX, LAPLACE, GAUSSIAN, AUTO, RANDOMIZED_RESPONSE, SAMPLE_AND_AGGREGATE",
            ),
            (
                "SELECT ARGMX EXPONENTIAL(eps=1) status FROM t GROUP BY status",
                "line 1, column 8: did you mean ARGMAX?",
            ),
            (
                "SELECT COUNT(*) LAPLACE(eps=1) FROM t",
                "line 1, column 17: write LAPLACE before what it releases: LAPLACE(eps=1) COUNT(*)",
            ),
            (
                "SELECT COUNT(*) NOISY_MAX(eps=1) FROM t",
                "line 1, column 17: write NOISY_MAX before what it releases: ARGMAX NOISY_MAX(eps=1) status",
            ),
            (
                "SELECT MAX EXPONENTIAL(eps=1) age FROM t",
                "line 1, column 12: write EXPONENTIAL before what it releases: EXPONENTIAL(eps=1) MAX(x)",
            ),
            (
                "SELECT sex LAPLACE(eps=1) COUNT(*) FROM t GROUP BY sex",
                "line 1, column 12: a comma is missing between sex and LAPLACE",
            ),
            (
                "SELECT LAPLACE(eps=1) COUNT(*) FORM t",
                "line 1, column 32: did you mean FROM instead of FORM?",
            ),
            (
                "SELECT a, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY a KEYS",
                "line 1, column 53: KEYS needs its keys: KEYS ('a', 'b'), KEYS TABLE t(c) or KEYS DOMAIN",
            ),
            (
                "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT * rename (a AS b) FROM t)",
                "line 1, column 47: * RENAME is not part of the dialect: name the columns, as in SELECT a AS x, b; or leave some out: SELECT * EXCLUDE (a)",
            ),
            (
                "SELECT * REPLACE (a + 1 AS a) FROM t",
                "line 1, column 10: * REPLACE is not part of the dialect: name the columns, as in SELECT a AS x, b; or leave some out: SELECT * EXCLUDE (a)",
            ),
            (
                "SELECT LAPLACE(eps=1) COUNT(*)\nFROM t WHERE",
                "line 2, column 13: Expected: an expression, found: the end of the statement",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("syntax error at {says}"), "{text}");
        }
    }

    /// A text that only resembles a known mistake keeps the parser's error.
    #[test]
    fn other_mistakes_keep_the_error_of_the_parser() {
        for (text, says) in [
            ("SELECT laplace x FROM t )", "Expected: the end of the statement, found: )"),
            ("SELECT f(a = 1) b c FROM t", "Expected: the end of the statement, found: c"),
            (
                "SELECT LAPLACE(eps=1) COUNT(*) FROM t t2 t3",
                "Expected: the end of the statement, found: t3",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.ends_with(says), "{text}: {error}");
        }
    }
}
