//! Statements with a δ, so that their groups may come from the data.
//!
//! In: the text of a query that was refused because its group keys are not declared. Out: the texts
//! that state a δ, in the order in which they are worth trying. The caller plans each of them, and
//! shows only one that is accepted.
//!
//! ```text
//! SELECT city, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY city      LAPLACE(eps=1, delta=1e-6)
//! SELECT city, COUNT(*) FROM t GROUP BY city                     SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) city, …
//! SELECT city, LAPLACE(eps=1) MEDIAN(x) FROM t GROUP BY city     EXPONENTIAL(eps=1, delta=1e-6)
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::ast::{AggregateName, MechanismName};
use super::script::TokenOffsets;
use crate::dialect::tokens::{significant, tokens};

/// The most places for a δ that are tried.
const MOST: usize = 4;

/// The statements with δ = 10⁻⁶ in one place each: among the parameters of a mechanism, in OPTIONS,
/// or in new OPTIONS or a new mechanism that cost `epsilon`. A mechanism that cannot release what
/// it stands before is replaced. Each statement is one line.
pub(crate) fn thresholded(text: &str, epsilon: &str) -> Vec<String> {
    let Some(text) = one_line(text) else { return Vec::new() };
    let Ok(tokens) = tokens(&text).and_then(significant) else { return Vec::new() };
    let at = |token: &TokenWithSpan| {
        let mut offsets = TokenOffsets::in_text(&text);
        (offsets.offset(token.span.start), offsets.offset(token.span.end))
    };
    let parameters = (0..tokens.len()).filter_map(|i| parameters_at(&tokens, i));
    let parameters: Vec<StatedParameters<'_>> = parameters.take(MOST).collect();
    let with_delta = |own: &StatedParameters<'_>, name: Option<&str>| {
        let (begin, end) = (at(own.name), at(own.end).0);
        let named = text.get(begin.0..begin.1)?;
        let inside = text.get(begin.1..end)?;
        let (before, after) = (text.get(..begin.0)?, text.get(end..)?);
        Some(format!("{before}{}{inside}, delta=1e-6{after}", name.unwrap_or(named)))
    };
    if !parameters.is_empty() {
        let as_named = parameters.iter().map(|own| with_delta(own, None));
        let others = parameters.iter().filter(|own| own.adds_noise_or_looks_at_all);
        let chosen = others.map(|own| with_delta(own, Some("EXPONENTIAL")));
        return as_named.chain(chosen).flatten().collect();
    }
    let insert = |at: usize, added: &str| {
        let (before, after) = text.split_at_checked(at)?;
        Some(format!("{before}{added}{after}"))
    };
    let options = format!(" WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={epsilon}, delta=1e-6)");
    let selects = tokens.iter().filter(|token| keyword(token) == Some(Keyword::SELECT));
    let options = selects.take(MOST).map(|token| insert(at(token).1, &options));
    let mechanism = format!("AUTO(eps={epsilon}, delta=1e-6) ");
    let calls = (0..tokens.len()).filter(|i| is_aggregate(&tokens, *i)).take(MOST);
    let calls = calls.filter_map(|i| tokens.get(i)).map(|token| insert(at(token).0, &mechanism));
    options.chain(calls).flatten().collect()
}

pub(super) fn word(token: &TokenWithSpan) -> Option<&Word> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}

pub(super) fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    word(token).map(|word| word.keyword)
}

/// Whether the call of an aggregate begins at this token.
fn is_aggregate(tokens: &[TokenWithSpan], at: usize) -> bool {
    let name = tokens.get(at).and_then(word);
    let is_call = tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen);
    is_call && name.is_some_and(|name| AggregateName::parse(&name.value).is_some())
}

/// Parameters that may state a δ and state none.
struct StatedParameters<'a> {
    /// The name before them.
    name: &'a TokenWithSpan,
    /// The parenthesis that closes them.
    end: &'a TokenWithSpan,
    /// True for a mechanism whose place the exponential mechanism may take.
    adds_noise_or_looks_at_all: bool,
}

/// The parameters that begin at this word, if they contain no δ.
fn parameters_at(tokens: &[TokenWithSpan], at: usize) -> Option<StatedParameters<'_>> {
    let token = tokens.get(at)?;
    let name = word(token)?;
    let adds_noise_or_looks_at_all = match MechanismName::parse(&name.value) {
        Some(
            MechanismName::Laplace
            | MechanismName::Gaussian
            | MechanismName::GeneralizedExponential
            | MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax,
        ) => true,
        Some(MechanismName::Auto | MechanismName::Exponential) => false,
        Some(
            MechanismName::RandomizedResponse
            | MechanismName::SampleAndAggregate
            | MechanismName::Default,
        ) => return None,
        None if name.value.eq_ignore_ascii_case("OPTIONS") => false,
        None => return None,
    };
    if tokens.get(at + 1)?.token != Token::LParen {
        return None;
    }
    let parameters = tokens.get(at + 2..)?;
    let end = parameters.iter().find(|token| token.token == Token::RParen)?;
    let inside = parameters.iter().take_while(|token| token.token != Token::RParen);
    let names_delta = inside.filter_map(word).any(|word| word.value.eq_ignore_ascii_case("delta"));
    (!names_delta).then_some(StatedParameters { name: token, end, adds_noise_or_looks_at_all })
}

/// The text in one line. `None` if a comment or a quoted text spans several lines.
pub(super) fn one_line(text: &str) -> Option<String> {
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
                    "SELECT a, EXPONENTIAL(eps=1, delta=1e-6) COUNT(*),   LAPLACE(eps=2) SUM(x) FROM t GROUP BY a",
                    "SELECT a, LAPLACE(eps=1) COUNT(*),   EXPONENTIAL(eps=2, delta=1e-6) SUM(x) FROM t GROUP BY a",
                ][..],
            ),
            (
                "SELECT 'é', a, COUNT(*) FROM (SELECT a FROM t) GROUP BY a",
                &[
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, delta=1e-6) 'é', a, COUNT(*) FROM (SELECT a FROM t) GROUP BY a",
                    "SELECT 'é', a, COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, delta=1e-6) a FROM t) GROUP BY a",
                    "SELECT 'é', a, AUTO(eps=0.5, delta=1e-6) COUNT(*) FROM (SELECT a FROM t) GROUP BY a",
                ],
            ),
            (
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) a, COUNT(*) FROM t GROUP BY a",
                &[
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) a, COUNT(*) FROM t GROUP BY a",
                ],
            ),
            (
                "SELECT a, exponential(eps=1) MEDIAN(x) FROM t GROUP BY a",
                &["SELECT a, exponential(eps=1, delta=1e-6) MEDIAN(x) FROM t GROUP BY a"],
            ),
            ("SELECT a -- names\n, COUNT(*) FROM t GROUP BY a", &[]),
            ("SELECT 'a\nb', COUNT(*) FROM t GROUP BY a", &[]),
        ] {
            assert_eq!(thresholded(text, "0.5"), expected, "{text}");
        }
    }
}
