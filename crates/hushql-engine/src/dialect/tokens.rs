//! Splits texts into tokens.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::consistent::make_names;
use crate::catalog::RESERVED;
use crate::dialect::error::DialectError;

pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, DialectError> {
    Ok(Tokenizer::new(&crate::dialect::parser::HushDialect::default(), text)
        .tokenize_with_location()?)
}

/// Drops white space, makes an escaped text a text, TOP an ordinary name, and ROLLUP too if
/// CONSISTENT follows, and refuses the engine's reserved names.
pub(crate) fn significant(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, DialectError> {
    let mut kept = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        match &mut token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => {
                keep_ours(&word.value, token.span.start)?;
                // sqlparser would read TOP as a clause of SELECT even if it is the name of a
                // column.
                if word.keyword == sqlparser::keywords::Keyword::TOP {
                    word.keyword = sqlparser::keywords::Keyword::NoKeyword;
                }
            }
            // A text like any other: its escapes have been read.
            Token::EscapedStringLiteral(text) => {
                keep_ours(text, token.span.start)?;
                token.token = Token::SingleQuotedString(std::mem::take(text));
            }
            // sqlparser also accepts quoted strings as aliases.
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::NationalStringLiteral(text)
            | Token::UnicodeStringLiteral(text)
            | Token::TripleSingleQuotedString(text)
            | Token::TripleDoubleQuotedString(text) => keep_ours(text, token.span.start)?,
            Token::DollarQuotedString(text) => keep_ours(&text.value, token.span.start)?,
            _ => {}
        }
        kept.push(token);
    }
    make_names(&mut kept);
    Ok(kept)
}

/// Refuses a name that is reserved for the engine.
pub(crate) fn keep_ours(name: &str, at: Location) -> Result<(), DialectError> {
    if name.to_lowercase().starts_with(RESERVED) {
        return Err(DialectError::syntax(
            format!("names that begin with {RESERVED} belong to the engine"),
            Some((at.line, at.column)),
        ));
    }
    Ok(())
}

/// The parenthesis that closes the one at `at`, if there is one.
pub(super) fn closing(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let within = tokens.iter().enumerate().skip(at);
    partner(within, &Token::LParen, &Token::RParen)
}

/// Where what the first token begins has its end.
pub(super) fn partner<'a>(
    tokens: impl Iterator<Item = (usize, &'a TokenWithSpan)>,
    begin: &Token,
    end: &Token,
) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, token) in tokens {
        if token.token == *begin {
            depth += 1;
        } else if token.token == *end {
            depth = depth.checked_sub(1)?;
        }
        if depth == 0 {
            return (token.token == *end).then_some(i);
        }
    }
    None
}

/// The tokens from a place on. Each has the number of parentheses that are open behind it; less
/// than 0 if one is closed that opened before this place.
pub(super) fn with_depth(
    tokens: &[TokenWithSpan],
    from: usize,
) -> impl Iterator<Item = (usize, &TokenWithSpan, i64)> {
    let mut depth = 0_i64;
    tokens.iter().enumerate().skip(from).map(move |(at, token)| {
        depth += match token.token {
            Token::LParen => 1,
            Token::RParen => -1,
            _ => 0,
        };
        (at, token, depth)
    })
}
