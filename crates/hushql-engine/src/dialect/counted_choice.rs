//! Counts in the place of a choice in groups that only the data contain.
//!
//! In: the text of a query that was refused because it chooses one value in each such group. Out:
//! the same query with the number of rows of each group and value, whose largest number in a group
//! says the same. The caller plans it, and shows it only if it is accepted.
//!
//! ```text
//! SELECT zip, EXPONENTIAL(eps=1) MODE(drug) FROM t GROUP BY zip
//!   →  SELECT zip, drug, AUTO(eps=1, delta=1e-6) COUNT(*) FROM t GROUP BY zip, drug
//! ```

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::MechanismName;
use super::script::TokenOffsets;
use super::thresholded::{one_line, word};
use crate::dialect::tokens::{closing, significant, tokens, with_depth};

/// The query with counts; `epsilon` is their cost if the choice states none. `None` if the query
/// has no choice, several, or one with a list, a score or a condition of its own.
pub(crate) fn counted_choice(text: &str, epsilon: &str) -> Option<String> {
    let text = one_line(text)?;
    let tokens = tokens(&text).and_then(significant).ok()?;
    let mut choices = (0..tokens.len()).filter_map(|at| ChoiceTokens::at(&tokens, at));
    let choice = choices.next()?;
    // The tokens of a choice behind its first one are none of another.
    if choices.any(|other| other.begin >= choice.end) {
        return None;
    }
    let place = |at: usize| {
        let token: &TokenWithSpan = tokens.get(at)?;
        let mut offsets = TokenOffsets::in_text(&text);
        Some((offsets.offset(token.span.start), offsets.offset(token.span.end)))
    };
    let slice = |(from, to): (usize, usize)| {
        let last = to.checked_sub(1).filter(|last| *last >= from)?;
        text.get(place(from)?.0..place(last)?.1)
    };
    let value = slice(choice.value)?;
    let cost = match choice.parameters {
        Some(parameters) => slice(parameters)?.to_owned(),
        None => format!("eps={epsilon}"),
    };
    let delta = if cost.to_ascii_lowercase().contains("delta") { "" } else { ", delta=1e-6" };
    let name = match choice.alias {
        Some(alias) => format!(" {}", slice(alias)?),
        None => String::new(),
    };
    let counted = format!("{value}{name}, AUTO({cost}{delta}) COUNT(*)");
    let (begin, end) = (place(choice.begin)?.0, place(choice.end.checked_sub(1)?)?.1);
    let keys = end_of_keys(&tokens, choice.end)?;
    let keys_end = place(keys.checked_sub(1)?)?.1;
    let (before, between, after) =
        (text.get(..begin)?, text.get(end..keys_end)?, text.get(keys_end..)?);
    let key = if choice.is_mode { format!(", {value}") } else { String::new() };
    Some(format!("{before}{counted}{between}{key}{after}"))
}

/// Where a choice stands, in tokens; each range ends before its second number.
struct ChoiceTokens {
    is_mode: bool,
    begin: usize,
    end: usize,
    /// Inside the parentheses of the mechanism.
    parameters: Option<(usize, usize)>,
    value: (usize, usize),
    alias: Option<(usize, usize)>,
}

impl ChoiceTokens {
    /// `ARGMAX EXPONENTIAL(…) x`, `TOP 3 EXPONENTIAL(…) x`, `EXPONENTIAL(…) MODE(x)` or `MODE(x)`.
    fn at(tokens: &[TokenWithSpan], begin: usize) -> Option<Self> {
        let is_selector = |name: &&str| is_word(tokens, begin, name);
        let selector = ["ARGMAX", "TOP"].iter().find(|name| is_selector(name));
        let mut at = match selector {
            Some(&"TOP") => begin + 2,
            Some(_) => begin + 1,
            None => begin,
        };
        let named = tokens.get(at).and_then(word);
        let mechanism = named.and_then(|name| MechanismName::parse(&name.value));
        let mut parameters = None;
        if mechanism.is_some() {
            let end = closing(tokens, at + 1)?;
            parameters = Some((at + 2, end));
            at = end + 1;
        }
        let (is_mode, value, end) = if selector.is_some() {
            mechanism?;
            (false, (at, end_of_item(tokens, at)), end_of_item(tokens, at))
        } else {
            let end = is_word(tokens, at, "MODE").then(|| closing(tokens, at + 1))??;
            (true, (at + 2, end), end + 1)
        };
        let is_named = is_word(tokens, end, "AS");
        let alias = is_named.then_some((end, end + 2));
        let end = alias.map_or(end, |(_, end)| end);
        let is_whole = value.0 < value.1 && ends_item(tokens, end);
        is_whole.then_some(Self { is_mode, begin, end, parameters, value, alias })
    }
}

fn is_word(tokens: &[TokenWithSpan], at: usize, text: &str) -> bool {
    tokens.get(at).and_then(word).is_some_and(|word| word.value.eq_ignore_ascii_case(text))
}

/// Whether an item of a SELECT list ends before this token.
fn ends_item(tokens: &[TokenWithSpan], at: usize) -> bool {
    is_word(tokens, at, "FROM") || tokens.get(at).is_some_and(|next| next.token == Token::Comma)
}

/// Where the expression that begins here ends: at the end of its item, or where another clause of
/// the choice or its name begins.
fn end_of_item(tokens: &[TokenWithSpan], begin: usize) -> usize {
    for (at, _, depth) in with_depth(tokens, begin) {
        let clause = ["AS", "IN", "BY", "PRIOR"].iter().any(|name| is_word(tokens, at, name));
        if depth < 0 || depth == 0 && (clause || ends_item(tokens, at)) {
            return at;
        }
    }
    tokens.len()
}

/// Where the keys of the GROUP BY end that belongs to a SELECT list from which `from` is left.
fn end_of_keys(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut grouped = false;
    for (at, token, depth) in with_depth(tokens, from) {
        let ends = ["HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION"];
        let is_over = depth < 0 || depth == 0 && ends.iter().any(|name| is_word(tokens, at, name));
        if is_over || matches!(token.token, Token::EOF | Token::SemiColon) {
            return grouped.then_some(at);
        }
        grouped |= depth == 0 && is_word(tokens, at, "GROUP");
    }
    grouped.then_some(tokens.len())
}

#[cfg(test)]
mod tests {
    use super::counted_choice;

    #[test]
    fn a_choice_becomes_counts_of_its_values() {
        for (text, expected) in [
            (
                "SELECT a, EXPONENTIAL(eps=1) MODE(b) AS m FROM t GROUP BY a ORDER BY a;",
                "SELECT a, b AS m, AUTO(eps=1, delta=1e-6) COUNT(*) FROM t GROUP BY a, b ORDER BY a",
            ),
            (
                "SELECT mode(upper(b)), a FROM (SELECT a, b FROM t) AS q GROUP BY a",
                "SELECT upper(b), AUTO(eps=0.5, delta=1e-6) COUNT(*), a FROM (SELECT a, b FROM t) AS q GROUP BY a, upper(b)",
            ),
            (
                "SELECT a, TOP 3 EXPONENTIAL(rho=0.1, delta=1e-5) b FROM t WHERE x > 3 GROUP BY a, b",
                "SELECT a, b, AUTO(rho=0.1, delta=1e-5) COUNT(*) FROM t WHERE x > 3 GROUP BY a, b",
            ),
            (
                "SELECT * FROM (SELECT a, ARGMAX NOISY_MAX(eps=1) b AS c FROM t GROUP BY a, b) AS q",
                "SELECT * FROM (SELECT a, b AS c, AUTO(eps=1, delta=1e-6) COUNT(*) FROM t GROUP BY a, b) AS q",
            ),
        ] {
            assert_eq!(counted_choice(text, "0.5").as_deref(), Some(expected), "{text}");
        }
        for text in [
            "SELECT a, COUNT(*) FROM t GROUP BY a",
            "SELECT a, MODE(b) FROM t",
            "SELECT a, MODE(b), MODE(c) FROM t GROUP BY a",
            "SELECT a, MODE(b) FILTER (WHERE c) FROM t GROUP BY a",
            "SELECT a, ARGMAX EXPONENTIAL(eps=1) b IN (1, 2) FROM t GROUP BY a, b",
            "SELECT a, ARGMAX EXPONENTIAL(eps=1) b BY SUM(x) FROM t GROUP BY a, b",
            "SELECT top, argmax, mode FROM t GROUP BY a",
            "SELECT a, MODE(",
        ] {
            assert_eq!(counted_choice(text, "1"), None, "{text}");
        }
    }
}
