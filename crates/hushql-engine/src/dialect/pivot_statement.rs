//! PIVOT as a statement, as DuckDB has it.
//!
//! In: a text in which PIVOT begins a statement: the whole one, one behind EXPLAIN or CREATE … AS,
//! or one in parentheses. Out: the text with the query that means the same, with PIVOT in FROM. It
//! is then read like any other: its columns are those of the list behind IN, or of the declared
//! list.
//!
//! ```text
//! PIVOT t ON region USING SUM(x) GROUP BY y ORDER BY y
//!   →  SELECT * FROM (SELECT y, region, x FROM t) PIVOT (SUM(x) FOR region) ORDER BY y
//! WITH p AS (PIVOT t ON region GROUP BY y) SELECT * FROM p
//!   →  WITH p AS (SELECT * FROM (SELECT y, region FROM t) PIVOT (COUNT(*) FOR region)) SELECT * FROM p
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, Statement, visit_expressions};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::script::TokenOffsets;
use super::size::Size;
use crate::dialect::tokens::{significant, tokens, with_depth};
use crate::refusal::{Reason, Refusal};

/// The most PIVOT statements of a text that are read.
const MOST: usize = 16;

/// The text with the queries that its PIVOT statements stand for; `None` if it has none.
///
/// # Errors
/// The refusal of a PIVOT that does not say which column makes columns, or what rows are for.
pub fn pivot_query(text: &str, size: &Size) -> Result<Option<String>, Refusal> {
    // Nearly no text has one.
    if size.check_bytes(text.len()).is_err() || !text.to_ascii_uppercase().contains("PIVOT") {
        return Ok(None);
    }
    let mut read: Option<String> = None;
    for _ in 0..MOST {
        match last_replaced(read.as_deref().unwrap_or(text), size)? {
            Some(next) => read = Some(next),
            None => break,
        }
    }
    Ok(read)
}

/// The text with a query in the place of its last PIVOT statement, which has no other one within.
fn last_replaced(text: &str, size: &Size) -> Result<Option<String>, Refusal> {
    let Ok(tokens) = tokens(text).and_then(significant) else { return Ok(None) };
    if size.check_tokens(&tokens).is_err() {
        return Ok(None);
    }
    let mut offsets = TokenOffsets::in_text(text);
    let places: Vec<(usize, usize)> = tokens
        .iter()
        .map(|token| (offsets.offset(token.span.start), offsets.offset(token.span.end)))
        .collect();
    for at in (0..tokens.len()).rev().filter(|at| is_word(&tokens[*at], "PIVOT")) {
        let end = end_of_statement(&tokens, at);
        let (own, own_places) = (&tokens[at..end], &places[at..end]);
        let is_within = is_behind_parenthesis(&tokens, at) && reads_source(own);
        if !is_within && !begins_statement(&tokens[..at]) {
            continue;
        }
        let (Some(first), Some(last)) = (own_places.first(), own_places.last()) else { continue };
        let written = text.get(first.0..last.1).unwrap_or(text);
        let parts = Parts::read(text, own, own_places);
        let query = parts.as_ref().and_then(Parts::query).ok_or_else(|| no_pivot(written))?;
        let (before, after) = (text.get(..first.0), text.get(last.1..));
        let after =
            after.map(|after| after.trim_end_matches(|c: char| c == ';' || c.is_whitespace()));
        return Ok(before.zip(after).map(|(before, after)| format!("{before}{query}{after}")));
    }
    Ok(None)
}

/// Where the statement that begins at a token ends: at the parenthesis around it, or at the end of
/// the text.
fn end_of_statement(tokens: &[TokenWithSpan], at: usize) -> usize {
    for (i, token, depth) in with_depth(tokens, at) {
        if depth < 0 || depth == 0 && matches!(token.token, Token::SemiColon | Token::EOF) {
            return i;
        }
    }
    tokens.len()
}

/// Whether a statement begins behind these tokens: at the beginning of a text, behind EXPLAIN or
/// CREATE … AS, or behind the queries of WITH.
fn begins_statement(before: &[TokenWithSpan]) -> bool {
    let Some((first, last)) = before.first().zip(before.last()) else { return true };
    let of = |sign: &Token| before.iter().filter(|token| token.token == *sign).count();
    if of(&Token::LParen) != of(&Token::RParen) {
        return false;
    }
    let outside = outside_parentheses(before);
    let has = |word: &str| outside.iter().any(|at| is_word(&before[*at], word));
    if has("SELECT") || has("FROM") {
        return false;
    }
    let explains = |token: &TokenWithSpan| {
        ["EXPLAIN", "PRIVACY", "FORMAT", "TEXT", "JSON"].iter().any(|word| is_word(token, word))
    };
    is_word(first, "EXPLAIN") && before.iter().all(explains)
        || is_word(first, "CREATE") && is_word(last, "AS")
        || has("WITH") && last.token == Token::RParen
}

fn is_behind_parenthesis(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    before.is_some_and(|before| before.token == Token::LParen)
}

/// Whether tokens that begin with PIVOT go on with a source and ON. A table of that name goes on
/// with a join.
fn reads_source(own: &[TokenWithSpan]) -> bool {
    let outside = outside_parentheses(own);
    let place = |word: &str| outside.iter().copied().find(|at| is_word(&own[*at], word));
    match (place("ON"), place("JOIN")) {
        (Some(on), join) => on > 1 && join.is_none_or(|join| join > on),
        (None, _) => false,
    }
}

fn no_pivot(text: &str) -> Refusal {
    Refusal::new(
        Reason::Statement,
        text.trim(),
        "PIVOT makes a column for each value of one column, and a row for each value of the columns behind GROUP BY; without GROUP BY, rows would be for all other columns of the table together; ORDER BY and LIMIT may follow, no other clause may, and no aggregate reads a column of GROUP BY",
        "PIVOT t ON region USING SUM(x) GROUP BY y; or SELECT y, SUM(x) FILTER (WHERE region = 'a') AS a, SUM(x) FILTER (WHERE region = 'b') AS b FROM t GROUP BY y",
    )
}

/// The parts of the statement, as they are written.
struct Parts<'a> {
    source: &'a str,
    column: &'a str,
    /// The list behind IN, with its parentheses.
    list: Option<&'a str>,
    aggregates: &'a str,
    keys: &'a str,
    /// ORDER BY and LIMIT.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    /// Reads the tokens of a statement, which begin with PIVOT, with their places in the text.
    fn read(text: &'a str, tokens: &[TokenWithSpan], places: &[(usize, usize)]) -> Option<Self> {
        let end = tokens.len();
        let outside = outside_parentheses(tokens);
        let find = |word: &str, from: usize, to: usize| {
            let is_found = |at: &usize| tokens.get(*at).is_some_and(|token| is_word(token, word));
            (from..to).find(|at| outside.contains(at) && is_found(at))
        };
        let on = find("ON", 1, end)?;
        let group = find("GROUP", on, end)?;
        if !tokens.get(group + 1).is_some_and(|token| is_word(token, "BY")) {
            return None;
        }
        let using = find("USING", on, group);
        let rest = find("ORDER", group, end).or_else(|| find("LIMIT", group, end)).unwrap_or(end);
        let on_end = using.unwrap_or(group);
        let listed = find("IN", on, on_end);
        let slice = |from: usize, to: usize| {
            let last = to.checked_sub(1).filter(|last| *last >= from)?;
            text.get(places.get(from)?.0..places.get(last)?.1)
        };
        Some(Self {
            source: slice(1, on)?,
            column: slice(on + 1, listed.unwrap_or(on_end))?,
            list: match listed {
                Some(at) => Some(slice(at + 1, on_end)?),
                None => None,
            },
            aggregates: match using {
                Some(at) => slice(at + 1, group)?,
                None => "COUNT(*)",
            },
            keys: slice(group + 2, rest)?,
            rest: if rest < end { slice(rest, end)? } else { "" },
        })
    }

    /// The query. `None` if the keys, or what makes columns, are no columns, or if an aggregate
    /// reads one of them: PIVOT in FROM has rows for the columns that no aggregate reads.
    fn query(&self) -> Option<String> {
        let Self { source, column, list, aggregates, keys, rest } = self;
        let [pivoted] = <[Ident; 1]>::try_from(columns(column)?).ok()?;
        let mut names = columns(keys)?;
        names.push(pivoted.clone());
        let keys = names.len();
        for read in columns_read(aggregates)? {
            match names.iter().position(|own| folded(own) == folded(&read)) {
                Some(at) if at < keys => return None,
                Some(_) => {}
                None => names.push(read),
            }
        }
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let list = list.map_or_else(String::new, |list| format!(" IN {list}"));
        let query = format!(
            "SELECT * FROM (SELECT {} FROM {source}) PIVOT ({aggregates} FOR {pivoted}{list}) {rest}",
            names.join(", ")
        );
        Some(query.trim_end().to_owned())
    }
}

/// The columns of a list of columns. `None` if something else is in it.
fn columns(list: &str) -> Option<Vec<Ident>> {
    let column = |item: SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name),
        _ => None,
    };
    selected(list)?.into_iter().map(column).collect()
}

/// The columns that a list of aggregates reads.
fn columns_read(aggregates: &str) -> Option<Vec<Ident>> {
    let mut read = Vec::new();
    for item in selected(aggregates)? {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return None;
        };
        let _: ControlFlow<()> = visit_expressions(&expr, |part| {
            if let Expr::Identifier(name) = part {
                read.push(name.clone());
            }
            ControlFlow::Continue(())
        });
    }
    Some(read)
}

/// A name as names are compared.
fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// What a SELECT with this list selects. `None` if any other clause stands in it.
fn selected(list: &str) -> Option<Vec<SelectItem>> {
    let parsed = Parser::parse_sql(&GenericDialect {}, &format!("SELECT {list}")).ok()?;
    let [Statement::Query(query)] = <[Statement; 1]>::try_from(parsed).ok()? else { return None };
    let written = query.to_string();
    let Query { body, .. } = *query;
    let SetExpr::Select(select) = *body else { return None };
    let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    (written == format!("SELECT {}", items.join(", "))).then_some(select.projection)
}

/// The tokens outside of all parentheses.
fn outside_parentheses(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let outside = with_depth(tokens, 0).filter(|(_, token, depth)| {
        *depth == 0 && !matches!(token.token, Token::LParen | Token::RParen)
    });
    outside.map(|(at, ..)| at).collect()
}

fn is_word(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pivot_statement_is_a_query() {
        let of = |text: &str| pivot_query(text, &Size::default()).unwrap();
        for (text, query) in [
            (
                "PIVOT t ON region USING SUM(x) AS s, COUNT(*) GROUP BY y, \"Z\" ORDER BY y LIMIT 3;",
                "SELECT * FROM (SELECT y, \"Z\", region, x FROM t) PIVOT (SUM(x) AS s, COUNT(*) FOR region) ORDER BY y LIMIT 3",
            ),
            (
                "pivot (SELECT a, b FROM t GROUP BY a, b) v on a in ('p', 'q') group by b",
                "SELECT * FROM (SELECT b, a FROM (SELECT a, b FROM t GROUP BY a, b) v) PIVOT (COUNT(*) FOR a IN ('p', 'q'))",
            ),
            (
                "explain privacy PIVOT t ON a GROUP BY b;",
                "explain privacy SELECT * FROM (SELECT b, a FROM t) PIVOT (COUNT(*) FOR a)",
            ),
            (
                "CREATE VIEW v AS PIVOT t ON a GROUP BY b",
                "CREATE VIEW v AS SELECT * FROM (SELECT b, a FROM t) PIVOT (COUNT(*) FOR a)",
            ),
            (
                "WITH p AS (PIVOT t ON a GROUP BY b LIMIT 2) SELECT * FROM p JOIN q ON p.b = q.b",
                "WITH p AS (SELECT * FROM (SELECT b, a FROM t) PIVOT (COUNT(*) FOR a) LIMIT 2) SELECT * FROM p JOIN q ON p.b = q.b",
            ),
            (
                "WITH p AS (SELECT a, b FROM t) PIVOT p ON a GROUP BY b",
                "WITH p AS (SELECT a, b FROM t) SELECT * FROM (SELECT b, a FROM p) PIVOT (COUNT(*) FOR a)",
            ),
            (
                "SELECT * FROM (PIVOT t ON a GROUP BY b), (PIVOT (PIVOT t ON a GROUP BY b) ON c GROUP BY d)",
                "SELECT * FROM (SELECT * FROM (SELECT b, a FROM t) PIVOT (COUNT(*) FOR a)), (SELECT * FROM (SELECT d, c FROM (SELECT * FROM (SELECT b, a FROM t) PIVOT (COUNT(*) FOR a))) PIVOT (COUNT(*) FOR c))",
            ),
        ] {
            assert_eq!(of(text).as_deref(), Some(query), "{text}");
        }
        for text in [
            "SELECT 1",
            "PIVOTS",
            "SELECT pivot FROM t",
            "",
            "SELECT COUNT(pivot) FROM t",
            "SELECT * FROM (pivot p JOIN q ON p.a = q.a) WHERE (pivot.x) > 3",
            "SELECT * FROM t AS pivot JOIN q ON pivot.a = q.a GROUP BY x",
            "SELECT * FROM (SELECT a, b FROM t) PIVOT (COUNT(*) FOR a IN (1))",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        for text in [
            "PIVOT t ON region USING SUM(x)",
            "PIVOT t",
            "EXPLAIN PRIVACY PIVOT t ON a",
            "WITH p AS (PIVOT t ON a) SELECT * FROM p",
            "PIVOT t ON upper(region) GROUP BY y",
            "PIVOT t ON a, b USING SUM(x) GROUP BY y",
            "PIVOT t ON a USING SUM(x) GROUP BY upper(y)",
            "PIVOT t ON a USING SUM(y) GROUP BY y",
            "PIVOT t ON a USING COUNT(A) GROUP BY y",
            "PIVOT t ON a USING SUM(x) AS s GROUP BY y HAVING s > 4",
            "PIVOT t ON a USING SUM(x) GROUP BY DISTINCT y",
            "PIVOT t ON a USING SUM(x) GROUP BY y OFFSET 8",
            "PIVOT t ON a USING SUM(x) GROUP BY y FETCH FIRST 1 ROW ONLY",
            "PIVOT t ON a USING SUM(x) WHERE x > 3 GROUP BY y",
        ] {
            assert!(pivot_query(text, &Size::default()).is_err(), "{text}");
        }
    }
}
