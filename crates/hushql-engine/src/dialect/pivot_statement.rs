//! PIVOT as a statement, as DuckDB has it.
//!
//! In: a text that begins with PIVOT. Out: the query that means the same, with PIVOT in FROM. It is
//! then read like any other: its columns are those of the list behind IN, or of the declared list.
//!
//! ```text
//! PIVOT t ON region USING SUM(x) GROUP BY y ORDER BY y
//!   →  SELECT * FROM (SELECT y, region, x FROM t) PIVOT (SUM(x) FOR region) ORDER BY y
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, Statement, visit_expressions};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::script::TokenOffsets;
use super::size::Size;
use crate::dialect::tokens::{significant, tokens};
use crate::refusal::{Reason, Refusal};

/// The query that a PIVOT statement stands for; `None` for every other text.
///
/// # Errors
/// The refusal of a PIVOT that does not say which column makes columns, or what rows are for.
pub(crate) fn pivot_query(text: &str, size: &Size) -> Result<Option<String>, Refusal> {
    let begins = text.trim_start().get(..5).is_some_and(|word| word.eq_ignore_ascii_case("PIVOT"));
    if !begins || size.check_bytes(text.len()).is_err() {
        return Ok(None);
    }
    let Ok(tokens) = tokens(text).and_then(significant) else { return Ok(None) };
    if size.check_tokens(&tokens).is_err() || !tokens.first().is_some_and(|t| is_word(t, "PIVOT")) {
        return Ok(None);
    }
    match Parts::read(text, &tokens).as_ref().map(Parts::query) {
        Some(Some(query)) => Ok(Some(query)),
        Some(None) | None => Err(no_pivot(text)),
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
    fn read(text: &'a str, tokens: &[TokenWithSpan]) -> Option<Self> {
        let mut offsets = TokenOffsets::in_text(text);
        let places: Vec<(usize, usize)> = tokens
            .iter()
            .map(|token| (offsets.offset(token.span.start), offsets.offset(token.span.end)))
            .collect();
        let end = match tokens.last()?.token {
            Token::SemiColon | Token::EOF => tokens.len().checked_sub(1)?,
            _ => tokens.len(),
        };
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
    let mut depth = 0_i64;
    let mut outside = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 => outside.push(at),
            _ => {}
        }
    }
    outside
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
        ] {
            assert_eq!(of(text).as_deref(), Some(query), "{text}");
        }
        for text in ["SELECT 1", "PIVOTS", "SELECT pivot FROM t", ""] {
            assert_eq!(of(text), None, "{text}");
        }
        for text in [
            "PIVOT t ON region USING SUM(x)",
            "PIVOT t",
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
