//! `FRESH` before an aggregate without a mechanism.
//!
//! In: a call as it was parsed after FRESH. Out: the same call under a reserved name, until its
//! SELECT is lowered, because only then the cost of the aggregate is known. Before a mechanism,
//! FRESH needs no such name: the release clause exists already.
//!
//! ```text
//! SELECT FRESH COUNT(*) AS n, SUM(x) AS s FROM t      n is drawn again, s is replayed if it was paid for
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::ast::AggregateName;
use super::clauses::word_at;
use super::fresh_name::{fresh_name, without_fresh};
use super::named_candidates::of_this_select;
use super::spelling::respelled;

/// The words that may stand between a column and a parenthesis.
const BEHIND_COLUMNS: [Keyword; 20] = [
    Keyword::AND,
    Keyword::BETWEEN,
    Keyword::ELSE,
    Keyword::EXCEPT,
    Keyword::FROM,
    Keyword::HAVING,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::INTERSECT,
    Keyword::IS,
    Keyword::JOIN,
    Keyword::LIKE,
    Keyword::NOT,
    Keyword::ON,
    Keyword::OR,
    Keyword::THEN,
    Keyword::UNION,
    Keyword::USING,
    Keyword::WHEN,
    Keyword::WHERE,
];

/// True if FRESH stands directly before a release or an aggregate. A column may be named `fresh`.
pub(super) fn starts_fresh(parser: &Parser) -> bool {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    let selects = ["ARGMAX", "ARGMIN", "TOP", "BOTTOM"].into_iter().any(|word| is(1, word));
    // `fresh` may be a column. If the next word continues an expression, no call follows.
    let calls = word_at(parser, 1).is_some_and(|word| !BEHIND_COLUMNS.contains(&word.keyword))
        && parser.peek_nth_token(2).token == Token::LParen;
    is(0, "FRESH") && (selects || calls)
}

/// Marks a call of an aggregate. `None` for any other expression.
pub(super) fn marked_fresh(mut expr: Expr) -> Option<Expr> {
    let Expr::Function(function) = &mut expr else { return None };
    respelled(function);
    let name = function.name.to_string();
    if function.over.is_some() || AggregateName::parse(&name).is_none() {
        return None;
    }
    function.name = ObjectName::from(vec![Ident::new(fresh_name(&name))]);
    Some(expr)
}

/// Takes the mark off a call, which has its own name again. Returns whether there was a mark.
pub(super) fn take_mark(function: &mut sql::Function) -> bool {
    let name = function.name.to_string();
    let Some(own) = without_fresh(&name) else { return false };
    function.name = ObjectName::from(vec![Ident::new(own)]);
    true
}

/// True if an expression has a marked call in its own SELECT. Subqueries are SELECTs of their own.
pub(super) fn has_mark(expr: &Expr) -> bool {
    let found = of_this_select(&mut expr.clone(), |expr| match expr {
        Expr::Function(function) if without_fresh(&function.name.to_string()).is_some() => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
