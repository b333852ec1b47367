//! The rules of a table: `SET RULES (…) [FOR role]`.
//!
//! In: a parser behind RULES. Out: the rules with unresolved columns, and aggregates by their first
//! names.
//!
//! ```text
//! SET RULES (no_key=(zip), aggregates=(count, mean)) FOR lab   →   no_key: zip, aggregates: count, avg, for lab
//! ```

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::ast::{AggregateName, MechanismName};
use super::slice_clauses::analyst;
use crate::catalog::TableRules;
use crate::dialect::clauses::{error, take_word};
use crate::dialect::query_syntax::{column_names, name, names};

/// What `aggregates` may list besides aggregates and mechanisms: choices, and synthetic tables.
pub(crate) const OTHER_RELEASES: [&str; 5] = ["argmax", "argmin", "top", "bottom", "synthetic"];

const EXAMPLE: &str = "SET RULES (no_key=(zip), no_filter=(diagnosis), join_only=(region_id), aggregates=(count, avg))";

/// `(no_key=(…), no_filter=(…), join_only=(…), aggregates=(…)) [FOR role]`.
pub(super) fn rules(parser: &mut Parser) -> Result<TableRules, ParserError> {
    let mut rules = TableRules::default();
    let mut given: Vec<String> = Vec::new();
    parser.expect_token(&Token::LParen)?;
    loop {
        let rule = name(parser)?;
        if given.contains(&rule) {
            return error(parser, &format!("{rule} is given twice"));
        }
        parser.expect_token(&Token::Eq)?;
        match rule.as_str() {
            "no_key" => rules.no_key = once_each(parser, column_names)?,
            "no_filter" => rules.no_filter = once_each(parser, column_names)?,
            "join_only" => rules.join_only = once_each(parser, column_names)?,
            "aggregates" => rules.aggregates = aggregates(parser)?,
            _ => {
                return error(
                    parser,
                    &format!(
                        "RULES takes no_key, no_filter, join_only and aggregates, not {rule}: {EXAMPLE}"
                    ),
                );
            }
        }
        given.push(rule);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    rules.role = for_role(parser)?;
    Ok(rules)
}

/// `[FOR role]`.
pub(super) fn for_role(parser: &mut Parser) -> Result<Option<String>, ParserError> {
    if take_word(parser, "FOR") { analyst(parser).map(Some) } else { Ok(None) }
}

/// A list of names, each of which is there once.
fn once_each(
    parser: &mut Parser,
    read: fn(&mut Parser) -> Result<Vec<String>, ParserError>,
) -> Result<Vec<String>, ParserError> {
    let mut names = read(parser)?;
    names.sort();
    names.dedup();
    Ok(names)
}

/// The aggregates, mechanisms and other releases of a list, by their first names.
fn aggregates(parser: &mut Parser) -> Result<Vec<String>, ParserError> {
    let mut listed = Vec::new();
    for written in names(parser)? {
        let Some(known) = release_named(&written) else {
            return error(
                parser,
                &format!(
                    "aggregates lists aggregates such as count, sum and avg, mechanisms such as laplace, and argmax, argmin, top, bottom, randomized_response and synthetic, not {written}"
                ),
            );
        };
        if !listed.contains(&known) {
            listed.push(known);
        }
    }
    Ok(listed)
}

/// The first name of an aggregate, a mechanism or another release.
fn release_named(written: &str) -> Option<String> {
    let aggregate = AggregateName::parse(written).and_then(|aggregate| match aggregate {
        AggregateName::Unsupported(_) | AggregateName::Revenue => None,
        AggregateName::Count
        | AggregateName::Sum
        | AggregateName::Avg
        | AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Spread(_)
        | AggregateName::Joint(_) => Some(aggregate.to_string().to_lowercase()),
    });
    let mechanism = || MechanismName::parse(written).map(|own| own.to_string().to_lowercase());
    let other =
        || OTHER_RELEASES.iter().find(|name| **name == written).map(|name| (*name).to_owned());
    aggregate.or_else(mechanism).or_else(other)
}
