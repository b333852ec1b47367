//! Statements with a δ, so that their groups may come from the data.
//!
//! In: the text of a query that was refused because its group keys are not declared. Out: the texts
//! that state a δ, in the order in which they are worth trying. The caller plans each of them, and
//! shows only one that is accepted.
//!
//! ```text
//! SELECT city, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY city      LAPLACE(eps=1, delta=1e-6)
//! SELECT city, COUNT(*) FROM t GROUP BY city                     SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) city, …
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::ast::MechanismName;
use super::script::TokenOffsets;
use crate::dialect::tokens::{significant, tokens};

/// The most places for a δ that are tried.
const MOST: usize = 4;

/// The statements with δ = 10⁻⁶ in one place each: among the parameters of a mechanism, in OPTIONS,
/// or in new OPTIONS that cost `epsilon`. Each statement is one line.
pub(crate) fn thresholded(text: &str, epsilon: &str) -> Vec<String> {
    let Some(text) = one_line(text) else { return Vec::new() };
    let Ok(tokens) = tokens(&text).and_then(significant) else { return Vec::new() };
    let parameters: Vec<&TokenWithSpan> =
        (0..tokens.len()).filter_map(|i| end_of_parameters(&tokens, i)).collect();
    let new = format!(" WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={epsilon}, delta=1e-6)");
    let insertions: Vec<(usize, &str)> = if parameters.is_empty() {
        let selects = tokens.iter().filter(|token| keyword(token) == Some(Keyword::SELECT));
        selects
            .take(MOST)
            .map(|token| (TokenOffsets::in_text(&text).offset(token.span.end), new.as_str()))
            .collect()
    } else {
        let ends = parameters.into_iter().take(MOST);
        ends.map(|token| (TokenOffsets::in_text(&text).offset(token.span.start), ", delta=1e-6"))
            .collect()
    };
    let inserted = |(at, added): (usize, &str)| {
        let (before, after) = text.split_at_checked(at)?;
        Some(format!("{before}{added}{after}"))
    };
    insertions.into_iter().filter_map(inserted).collect()
}

fn word(token: &TokenWithSpan) -> Option<&Word> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    word(token).map(|word| word.keyword)
}

/// The closing parenthesis of the parameters that begin at this word, if they contain no δ.
fn end_of_parameters(tokens: &[TokenWithSpan], at: usize) -> Option<&TokenWithSpan> {
    let name = word(tokens.get(at)?)?;
    let mechanism = MechanismName::parse(&name.value);
    let takes_delta = match mechanism {
        Some(MechanismName::Laplace | MechanismName::Gaussian | MechanismName::Auto) => true,
        Some(_) => false,
        None => name.value.eq_ignore_ascii_case("OPTIONS"),
    };
    if !takes_delta || tokens.get(at + 1)?.token != Token::LParen {
        return None;
    }
    let parameters = tokens.get(at + 2..)?;
    let end = parameters.iter().find(|token| token.token == Token::RParen)?;
    let inside = parameters.iter().take_while(|token| token.token != Token::RParen);
    let names_delta = inside.filter_map(word).any(|word| word.value.eq_ignore_ascii_case("delta"));
    (!names_delta).then_some(end)
}

/// The text in one line. `None` if a comment or a quoted text spans several lines.
fn one_line(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(';');
    if text.contains('\n') && text.contains("--") {
        return None;
    }
    let mut quote = None;
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        quote = match (quote, c) {
            (None, '\'' | '"') => Some(c),
            (Some(open), close) if open == close => None,
            (open, _) => open,
        };
        match (c.is_control(), quote) {
            (true, Some(_)) => return None,
            (true, None) => line.push(' '),
            (false, _) => line.push(c),
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_is_stated_in_each_place() {
        for (text, expected) in [
            (
                "SELECT a, LAPLACE(eps=1) COUNT(*),\n  LAPLACE(eps=2) SUM(x) FROM t GROUP BY a;",
                &[
                    "SELECT a, LAPLACE(eps=1, delta=1e-6) COUNT(*),   LAPLACE(eps=2) SUM(x) FROM t GROUP BY a",
                    "SELECT a, LAPLACE(eps=1) COUNT(*),   LAPLACE(eps=2, delta=1e-6) SUM(x) FROM t GROUP BY a",
                ][..],
            ),
            (
                "SELECT 'é', a, COUNT(*) FROM (SELECT a FROM t) GROUP BY a",
                &[
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, delta=1e-6) 'é', a, COUNT(*) FROM (SELECT a FROM t) GROUP BY a",
                    "SELECT 'é', a, COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, delta=1e-6) a FROM t) GROUP BY a",
                ],
            ),
            (
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) a, COUNT(*) FROM t GROUP BY a",
                &[
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) a, COUNT(*) FROM t GROUP BY a",
                ],
            ),
            ("SELECT a -- names\n, COUNT(*) FROM t GROUP BY a", &[]),
            ("SELECT 'a\nb', COUNT(*) FROM t GROUP BY a", &[]),
        ] {
            assert_eq!(thresholded(text, "0.5"), expected, "{text}");
        }
    }
}
