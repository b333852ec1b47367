//! `ROLLUP (…) CONSISTENT [NONNEGATIVE] [INTEGER]`: each number is the sum of the numbers below it.
//!
//! In: the tokens of a statement, and later its GROUP BY and releases. Out: a GROUP BY as sqlparser
//! reads it, and the words CONSISTENT and so on at the counts and sums of the SELECT.
//!
//! ```text
//! SELECT region, state, LAPLACE(eps=1) COUNT(*) AS n … GROUP BY ROLLUP (region, state) CONSISTENT INTEGER
//! ```
//!
//! sqlparser reads ROLLUP with its list alone. If the word CONSISTENT follows the list, ROLLUP
//! becomes an ordinary name, so that sqlparser asks the dialect's hook to read it.

use sqlparser::ast::{Expr, GroupByExpr};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{AggregateName, Consistent, Operand, ReleaseClause};
use crate::catalog::RESERVED;
use crate::dialect::clauses::{call, expect_word, numbered, take_word, word_at};
use crate::dialect::error::DialectError;
use crate::refusal::{Reason, Refusal};

const WORD: &str = "consistent";

/// The middle of the name of the function around consistent sets. A number follows, which stands
/// for the words after CONSISTENT.
const KIND: &str = "_consistent_";

/// Makes ROLLUP, CUBE and GROUPING ordinary names where CONSISTENT follows their lists.
pub(super) fn make_names(tokens: &mut [TokenWithSpan]) {
    let mut open: Vec<usize> = Vec::new();
    let mut names: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.token == Token::LParen {
            open.push(at);
        }
        if token.token != Token::RParen {
            continue;
        }
        let Some(from) = open.pop() else { continue };
        let follows = matches!(
            tokens.get(at + 1).map(|token| &token.token),
            Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(WORD)
        );
        if follows {
            // GROUPING SETS is two words.
            names.extend([1, 2].iter().filter_map(|before| from.checked_sub(*before)));
        }
    }
    for at in names {
        if let Some(Token::Word(word)) = tokens.get_mut(at).map(|token| &mut token.token)
            && matches!(word.keyword, Keyword::ROLLUP | Keyword::CUBE | Keyword::GROUPING)
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// The word before CONSISTENT.
enum Sets {
    Rollup,
    Cube,
    Grouping,
}

/// The kind of consistent sets that come next, if they do. Looks ahead without consuming.
fn starts(parser: &Parser) -> Option<Sets> {
    let first = word_at(parser, 0).filter(|word| word.keyword == Keyword::NoKeyword)?;
    let (sets, words) = match first.value.to_lowercase().as_str() {
        "rollup" => (Sets::Rollup, 1),
        "cube" => (Sets::Cube, 1),
        "grouping" if word_at(parser, 1)?.keyword == Keyword::SETS => (Sets::Grouping, 2),
        _ => return None,
    };
    (parser.peek_nth_token(words).token == Token::LParen).then_some(sets)
}

/// Reads consistent sets as a call of a reserved function, if they come next.
pub(super) fn consistent_sets(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let sets = starts(parser)?;
    Some(read(parser, &sets))
}

fn read(parser: &mut Parser, sets: &Sets) -> Result<Expr, ParserError> {
    parser.next_token();
    if matches!(sets, Sets::Grouping) {
        parser.next_token();
    }
    parser.expect_token(&Token::LParen)?;
    let lists = parser.parse_comma_separated(set)?;
    parser.expect_token(&Token::RParen)?;
    expect_word(parser, WORD)?;
    let nonnegative = take_word(parser, "nonnegative");
    let integer = take_word(parser, "integer");
    let number = usize::from(nonnegative) + 2 * usize::from(integer);
    let sets = match sets {
        Sets::Rollup => Expr::Rollup(lists),
        Sets::Cube => Expr::Cube(lists),
        Sets::Grouping => Expr::GroupingSets(lists),
    };
    Ok(call(format!("{RESERVED}{KIND}{number}"), vec![sets]))
}

/// A key, or a list of keys in parentheses.
fn set(parser: &mut Parser) -> Result<Vec<Expr>, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(vec![parser.parse_expr()?]);
    }
    if parser.consume_token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let keys = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(keys)
}

/// True if a reserved function marks consistent sets.
pub(super) fn is_mark(name: &str) -> bool {
    numbered(name, KIND).is_some()
}

/// Takes the mark off a GROUP BY. `None` if it has no mark.
///
/// # Errors
/// A refusal of sets that are not nested: those of CUBE, GROUPING SETS and several ROLLUPs. Their
/// smaller sets do not add up to the larger ones.
pub(super) fn take_consistent(group_by: &mut GroupByExpr) -> Result<Option<Consistent>, Refusal> {
    let GroupByExpr::Expressions(items, modifiers) = group_by else { return Ok(None) };
    let mut found = None;
    for item in items.iter_mut() {
        let Some((number, sets)) = unmarked(item) else { continue };
        if !matches!(sets, Expr::Rollup(_)) {
            return Err(not_nested(&sets.to_string()));
        }
        let is_second = found.is_some();
        found = Some(Consistent { nonnegative: number % 2 == 1, integer: number >= 2, of: 0 });
        *item = sets;
        if is_second {
            return Err(not_nested("two ROLLUPs"));
        }
    }
    let others = items
        .iter()
        .filter(|item| matches!(item, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_)));
    if found.is_some() && (others.count() > 1 || !modifiers.is_empty()) {
        return Err(not_nested("a ROLLUP beside other sets"));
    }
    Ok(found)
}

fn unmarked(item: &Expr) -> Option<(usize, Expr)> {
    let Expr::Function(function) = item else { return None };
    let number = numbered(&function.name.to_string(), KIND)?;
    let sqlparser::ast::FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [sqlparser::ast::FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(sets))] => {
            Some((number, sets.clone()))
        }
        _ => None,
    }
}

fn not_nested(sets: &str) -> Refusal {
    Refusal::new(
        Reason::Operator,
        "CONSISTENT",
        format!(
            "CONSISTENT takes the sets of one ROLLUP, and {} is more than that: its numbers do not add up along one line",
            in_words(sets)
        ),
        "GROUP BY ROLLUP (a, b) CONSISTENT, or the sets without CONSISTENT",
    )
}

/// The name of the sets in a refusal.
fn in_words(sets: &str) -> &str {
    match sets {
        cube if cube.starts_with("CUBE") => "CUBE",
        sets if sets.starts_with("GROUPING SETS") => "GROUPING SETS",
        other => other,
    }
}

/// Makes the counts and sums of a SELECT consistent. Its other releases stay as they are drawn.
///
/// # Errors
/// A refusal if there is no count or sum, and a syntax error if there is no release.
pub(super) fn attach(
    consistent: Option<Consistent>,
    releases: &mut [ReleaseClause],
    own: &[usize],
) -> Result<(), DialectError> {
    let Some(consistent) = consistent else { return Ok(()) };
    let mut left = None;
    let mut any = false;
    for n in own {
        let Some(release) = releases.get_mut(*n) else { continue };
        if adds_up(&release.operand) {
            release.consistent = Some(consistent);
            any = true;
        } else {
            left = left.or_else(|| Some(release.text.clone()));
        }
    }
    match left {
        _ if any => Ok(()),
        None => Err(DialectError::syntax("CONSISTENT needs a release in the SELECT list", None)),
        Some(text) => Err(Refusal::new(
            Reason::Operand,
            &text,
            format!("CONSISTENT makes counts and sums add up, and {text} of a group is not the sum of those of smaller groups"),
            "COUNT(*), COUNT(x) or SUM(x) beside it, or ROLLUP (…) without CONSISTENT",
        )
        .into()),
    }
}

/// True if the number of a group is the sum of the numbers of the groups that divide it.
fn adds_up(operand: &Operand) -> bool {
    let Operand::Aggregate(call) = operand else { return false };
    match call.function {
        AggregateName::Count => !call.distinct,
        AggregateName::Sum => !call.distinct,
        AggregateName::Avg
        | AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Spread(_)
        | AggregateName::Joint(_)
        | AggregateName::Unsupported(_) => false,
    }
}
