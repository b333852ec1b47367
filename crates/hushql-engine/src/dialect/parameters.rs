//! The parameters of mechanisms, and the options of GoogleSQL's clause.
//!
//! In: a parser before `(`. Out: exact values, each in its range and given once.
//!
//! ```text
//! (eps=1, rows=2)  →  Parameters { epsilon: Some(1), rows: Some(2), … }
//! ```

use num_traits::{One, Signed, ToPrimitive, Zero};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::ast::{GroupStrategy, MechanismName, Parameters};
use super::literal::{literal, named_literals, remaining_literals};
use super::option_values::named_options;
use crate::dialect::clauses::{Options, error, word_at};
use crate::dialect::literal::Literal;
use crate::privacy::{Delta, Epsilon, Rational, Rho, decimal_text, parse_decimal};
use crate::refusal::nearest;

/// What is wrong with a number that is no ε and no ρ.
pub(super) const EPSILON_RANGE: &str = "must be a number from 1e-12 to 1000000";

/// The parameters after a mechanism's name.
pub(super) fn mechanism_parameters(
    parser: &mut Parser,
    mechanism: MechanismName,
) -> Result<Parameters, ParserError> {
    let named = named_literals(parser, &format!("{mechanism}(eps=1)"))?;
    checked(parser, named)
}

/// The parameters after the operand of a mechanism that is called like a function, up to the
/// closing parenthesis. The first one is ε if it has no name.
pub(super) fn called_parameters(
    parser: &mut Parser,
    mechanism: MechanismName,
) -> Result<Parameters, ParserError> {
    if parser.consume_token(&Token::RParen) {
        return Ok(Parameters::default());
    }
    parser.expect_token(&Token::Comma)?;
    let example = format!("{mechanism}(COUNT(*), 1)");
    let is_named = word_at(parser, 0).is_some();
    let mut named = Vec::new();
    if !is_named {
        named.push(("eps".to_owned(), literal(parser)?));
        if parser.consume_token(&Token::RParen) {
            return checked(parser, named);
        }
        parser.expect_token(&Token::Comma)?;
    }
    named.extend(remaining_literals(parser, &example)?);
    checked(parser, named)
}

fn checked(parser: &Parser, named: Vec<(String, Literal)>) -> Result<Parameters, ParserError> {
    let mut parameters = Parameters::default();
    for (name, value) in named {
        let problem = match name.as_str() {
            "monotonic" => match value {
                Literal::Boolean(b) => give(&mut parameters.monotonic, b),
                _ => Some("must be TRUE or FALSE".to_owned()),
            },
            "rows" if is_auto(&value) => match parameters.rows {
                Some(_) => Some("is given twice".to_owned()),
                None => std::mem::replace(&mut parameters.rows_auto, true)
                    .then(|| "is given twice".to_owned()),
            },
            "rows" if parameters.rows_auto => Some("is given twice".to_owned()),
            "within" => match decimal(&value).filter(|within| !within.is_negative()) {
                Some(within) => give(&mut parameters.within, within),
                None => Some("must be a number of at least 0".to_owned()),
            },
            "blocks" => match decimal(&value).and_then(|blocks| whole(&blocks)) {
                Some(blocks) => give(&mut parameters.blocks, blocks),
                None => Some("must be a whole number from 2 to 65536".to_owned()),
            },
            "complete_above" => give_count(&mut parameters.complete_above, &value),
            "confidence" => match decimal(&value).filter(is_a_probability) {
                Some(confidence) => give(&mut parameters.confidence, confidence),
                None => Some(
                    "must be a number between 0 and 1 of at most 40 digits, such as 0.95"
                        .to_owned(),
                ),
            },
            "jointly" => match value {
                Literal::Boolean(true) => std::mem::replace(&mut parameters.jointly, true)
                    .then(|| "is given twice".to_owned()),
                _ => Some("has no value: write jointly alone, or leave it out".to_owned()),
            },
            _ => shared_parameter(&mut parameters, &name, &value)
                .unwrap_or_else(|| Some(no_parameter(&name))),
        };
        if let Some(problem) = problem {
            return error(parser, &format!("{name} {problem}"));
        }
    }
    one_cost(parser, &parameters)?;
    Ok(parameters)
}

/// True if the bound is `auto`, so that the release chooses it.
fn is_auto(value: &Literal) -> bool {
    value.text().is_some_and(|text| text.eq_ignore_ascii_case("auto"))
}

/// What is wrong with an unknown parameter, after its name.
fn no_parameter(name: &str) -> String {
    const KNOWN: [&str; 12] = [
        "eps",
        "rho",
        "delta",
        "rows",
        "groups",
        "total",
        "blocks",
        "monotonic",
        "within",
        "complete_above",
        "confidence",
        "jointly",
    ];
    match nearest(name, KNOWN.into_iter()) {
        Some(known) => format!("is not a parameter of a mechanism; did you mean {known}?"),
        None => format!("is not a parameter of a mechanism; write one of {}", KNOWN.join(", ")),
    }
}

/// OPTIONS and its options, if they are there.
pub(super) fn options(parser: &mut Parser) -> Result<Options, ParserError> {
    let mut options = Options::default();
    let stands = word_at(parser, 0).is_some_and(|word| word.value.eq_ignore_ascii_case("OPTIONS"));
    if !stands || parser.peek_nth_token(1).token != Token::LParen {
        return Ok(options);
    }
    parser.next_token();
    for (name, value) in named_options(parser, "OPTIONS(epsilon=1)")? {
        let problem = match name.as_str() {
            "privacy_unit_column" => match value.text() {
                Some(text) => give(&mut options.unit_column, text),
                None => Some("must name a column".to_owned()),
            },
            "rows" | "max_rows_contributed" if is_auto(&value) => Some(
                "is chosen by a mechanism alone: write LAPLACE(eps=1, rows=auto) COUNT(*) without OPTIONS".to_owned(),
            ),
            // A threshold and Gaussian noise need a delta; without one, there is neither.
            "delta" if decimal(&value).is_some_and(|delta| delta.is_zero()) => None,
            "max_groups_contributed" => give_count(&mut options.parameters.groups, &value),
            "max_rows_contributed" => give_count(&mut options.parameters.total_rows, &value),
            "min_privacy_units_per_group" => give_count(&mut options.min_units, &value),
            "group_selection_epsilon" => match epsilon(&value) {
                Some(own) => give(&mut options.threshold, own),
                None => Some(EPSILON_RANGE.to_owned()),
            },
            "group_selection_strategy" => {
                let word = value.text().unwrap_or_default().to_uppercase();
                match word.as_str() {
                    "LAPLACE_THRESHOLD" => give(&mut options.strategy, GroupStrategy::Threshold),
                    "PUBLIC_GROUPS" => give(&mut options.strategy, GroupStrategy::Public),
                    _ => Some("must be LAPLACE_THRESHOLD or PUBLIC_GROUPS".to_owned()),
                }
            }
            _ => shared_parameter(&mut options.parameters, &name, &value)
                .unwrap_or_else(|| Some("is not an option of OPTIONS".to_owned())),
        };
        if let Some(problem) = problem {
            return error(parser, &format!("{name} {problem}"));
        }
    }
    one_cost(parser, &options.parameters)?;
    Ok(options)
}

fn one_cost(parser: &Parser, parameters: &Parameters) -> Result<(), ParserError> {
    if parameters.epsilon.is_some() && parameters.rho.is_some() {
        return error(parser, "eps and rho measure the same cost; write only one of them");
    }
    let is_priced = parameters.epsilon.is_some() || parameters.rho.is_some();
    if parameters.within.is_some() && is_priced {
        return error(
            parser,
            "within asks for the least cost that is as accurate as that; write within, or eps or rho",
        );
    }
    if parameters.complete_above.is_some() && is_priced {
        return error(
            parser,
            "complete_above asks for the least cost at which large groups come out; write complete_above, or eps or rho",
        );
    }
    let asks = parameters.within.is_some() || parameters.complete_above.is_some();
    if parameters.confidence.is_some() && !asks || parameters.jointly && parameters.within.is_none()
    {
        return error(
            parser,
            "confidence and jointly say how sure within is: write within=100, confidence=0.95",
        );
    }
    Ok(())
}

/// The exact value of a number.
fn decimal(value: &Literal) -> Option<Rational> {
    match value {
        // A number is accepted only if its text keeps every digit.
        Literal::Number(text) => parse_decimal(text)
            .filter(|value| parse_decimal(&decimal_text(value, 40)).as_ref() == Some(value)),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    }
}

/// A number of blocks.
fn whole(value: &Rational) -> Option<u32> {
    const BLOCKS: std::ops::RangeInclusive<u32> = 2..=65_536;
    let whole = value.is_integer().then(|| value.to_integer().to_u32()).flatten();
    whole.filter(|blocks| BLOCKS.contains(blocks))
}

fn is_a_probability(value: &Rational) -> bool {
    value.is_positive() && *value < Rational::one()
}

/// Sets a parameter that mechanisms and OPTIONS share. The inner value says what is wrong with it.
fn shared_parameter(
    parameters: &mut Parameters,
    name: &str,
    value: &Literal,
) -> Option<Option<String>> {
    let text = match value {
        Literal::Number(text) => text.as_str(),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => "",
    };
    match name {
        "eps" | "epsilon" => Some(match epsilon(value) {
            Some(epsilon) => give(&mut parameters.epsilon, epsilon),
            None => Some(EPSILON_RANGE.to_owned()),
        }),
        "rho" => Some(match text.parse::<Rho>() {
            Ok(rho) => give(&mut parameters.rho, rho),
            Err(_) => Some(EPSILON_RANGE.to_owned()),
        }),
        "delta" => Some(match text.parse::<Delta>() {
            Ok(delta) => give(&mut parameters.delta, delta),
            Err(_) => Some("must be a number between 0 and 1, at least 1e-18".to_owned()),
        }),
        "groups" => Some(give_count(&mut parameters.groups, value)),
        "rows" => Some(give_count(&mut parameters.rows, value)),
        "total" => Some(give_count(&mut parameters.total_rows, value)),
        _ => None,
    }
}

/// The ε that a literal states.
pub(super) fn epsilon(value: &Literal) -> Option<Epsilon> {
    match value {
        Literal::Number(text) => text.parse().ok(),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    }
}

fn give<T>(slot: &mut Option<T>, value: T) -> Option<String> {
    slot.replace(value).is_some().then(|| "is given twice".to_owned())
}

fn give_count(slot: &mut Option<u64>, value: &Literal) -> Option<String> {
    let count = match value {
        Literal::Number(text) => text.parse::<u64>().ok().filter(|n| (1..=1 << 32).contains(n)),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    };
    match count {
        Some(count) => give(slot, count),
        None => Some("must be a whole number of at least 1".to_owned()),
    }
}
