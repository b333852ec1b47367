//! PIVOT without a list of values, whose columns are those of a declared list.
//!
//! In: a text. Out: where lists are missing, and of which column. Whoever knows the declarations
//! puts the lists in, as if the text had them; the text is then read like any other.
//!
//! ```text
//! FROM (SELECT sex, status FROM adult) PIVOT (COUNT(*) FOR sex)      sex, of adult; the list goes before the last )
//! ```

use sqlparser::ast::{Expr, Ident, SelectItem, SetExpr};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::Statement;
use super::script::TokenOffsets;
use super::size::Size;
use crate::dialect::parse;
use crate::dialect::tokens::{closing, partner, significant, tokens};

/// A list that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenPivot {
    /// Where the list goes, in bytes.
    pub(crate) at: usize,
    /// The name that PIVOT uses.
    pub(crate) name: String,
    /// The column of that name, if the subquery passes it on as it is.
    pub(crate) column: Option<String>,
    /// The subquery.
    pub(crate) subquery: String,
}

/// The most PIVOTs of a text whose lists are looked for.
const MOST: usize = 32;

/// The missing lists of a text of at most this size, in order.
pub(crate) fn open_pivots(text: &str, size: &Size) -> Vec<OpenPivot> {
    // Nearly no text has one.
    if size.check_bytes(text.len()).is_err() || !text.to_ascii_uppercase().contains("PIVOT") {
        return Vec::new();
    }
    let Ok(tokens) = tokens(text).and_then(significant) else { return Vec::new() };
    if size.check_tokens(&tokens).is_err() {
        return Vec::new();
    }
    let mut offsets = TokenOffsets::in_text(text);
    // Before and behind each token.
    let places: Vec<(usize, usize)> = tokens
        .iter()
        .map(|token| (offsets.offset(token.span.start), offsets.offset(token.span.end)))
        .collect();
    let pivots = (0..tokens.len()).filter(|at| is_word(&tokens[*at], "PIVOT")).take(MOST);
    pivots.filter_map(|at| open_pivot(text, &tokens, &places, at)).collect()
}

/// `( subquery ) PIVOT ( … FOR name )`, where `at` is PIVOT.
fn open_pivot(
    text: &str,
    tokens: &[TokenWithSpan],
    places: &[(usize, usize)],
    at: usize,
) -> Option<OpenPivot> {
    let end = closing(tokens, at + 1)?;
    let [.., behind, name] = tokens.get(at + 2..end)? else { return None };
    let name = word(name).filter(|_| is_word(behind, "FOR"))?;
    let closed = at.checked_sub(1)?;
    let opened = opening(tokens, closed)?;
    let subquery = text.get(places.get(opened)?.1..places.get(closed)?.0)?.trim().to_owned();
    let column = passed_on(&subquery, &name);
    Some(OpenPivot { at: places.get(end)?.0, name: name.value, column, subquery })
}

/// The column that a subquery shows under a name.
fn passed_on(subquery: &str, name: &Ident) -> Option<String> {
    let Ok(Statement::Query(query)) = parse(subquery) else { return None };
    let SetExpr::Select(select) = query.tree.body.as_ref() else { return None };
    select.projection.iter().find_map(|item| {
        let (expr, shown) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => return None,
        };
        let column = match expr {
            Expr::Identifier(column) => column,
            Expr::CompoundIdentifier(parts) => parts.last()?,
            _ => return None,
        };
        (normalized(shown.unwrap_or(column)) == normalized(name)).then(|| normalized(column))
    })
}

/// A name as the planner compares it.
fn normalized(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    }
}

fn word(token: &TokenWithSpan) -> Option<Ident> {
    match &token.token {
        Token::Word(word) => Some(Ident {
            value: word.value.clone(),
            quote_style: word.quote_style,
            span: token.span,
        }),
        _ => None,
    }
}

fn is_word(token: &TokenWithSpan, text: &str) -> bool {
    word(token).is_some_and(|w| w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
}

/// The parenthesis that the one at `at` closes.
fn opening(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let within = tokens.iter().enumerate().take(at + 1).rev();
    partner(within, &Token::RParen, &Token::LParen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_missing_where_for_ends() {
        let text =
            "SELECT * FROM (SELECT a.sex AS s, x FROM t a WHERE (x) > 1) PIVOT (SUM(x) FOR S)";
        let [open] = open_pivots(text, &Size::default()).try_into().unwrap();
        assert_eq!((&text[open.at..], open.column.as_deref()), (")", Some("sex")));
        assert_eq!(open.name, "S");
        assert!(open.subquery.starts_with("SELECT a.sex") && open.subquery.ends_with("> 1"));
        let computed = "SELECT * FROM (SELECT upper(sex) AS s FROM t) PIVOT (COUNT(*) FOR s)";
        assert_eq!(open_pivots(computed, &Size::default())[0].column, None);
        for whole in [
            "SELECT * FROM (SELECT sex FROM t) PIVOT (COUNT(*) FOR sex IN ('a'))",
            "SELECT 'PIVOT (FOR x)'",
            "SELECT pivot FROM t",
            "PIVOT (",
        ] {
            assert!(open_pivots(whole, &Size::default()).is_empty(), "{whole}");
        }
    }
}
