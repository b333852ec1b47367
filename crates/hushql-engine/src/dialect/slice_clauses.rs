//! Slices of privacy budgets: the clauses of CREATE and ALTER PRIVACY BUDGET.
//!
//! In: a parser at the clause. Out: the analyst whose slice it is, its limit, and what was spent of
//! it.
//!
//! ```text
//! ADD SLICE lab LIMIT (epsilon=3, delta=1e-7)     →  AlterSlice { analyst: "lab", change: Add(ε = 3, δ = 10⁻⁷) }
//! ```

use sqlparser::parser::{Parser, ParserError};

use super::budget_clauses::{parse_delta, parse_epsilon, parse_rho, set, spent};
use super::declaration::{Declaration, SliceAlteration, SliceAmount, SliceClause, SliceLimit};
use super::literal::{Literal, named_literals};
use crate::dialect::clauses::{error, expect_word, take_word, word_at};
use crate::privacy::parse_decimal;

/// `SLICE analyst LIMIT (…) [SPENT (…)]`, any number of times.
pub(super) fn slices(parser: &mut Parser) -> Result<Vec<SliceClause>, ParserError> {
    let mut slices: Vec<SliceClause> = Vec::new();
    while take_word(parser, "SLICE") {
        let analyst = analyst(parser)?;
        expect_word(parser, "LIMIT")?;
        let limit = limit(parser)?;
        let spent = match take_word(parser, "SPENT") {
            true => Some(Box::new(spent(parser)?)),
            false => None,
        };
        if slices.iter().any(|slice| slice.analyst == analyst) {
            return error(parser, "an analyst has one slice of a budget");
        }
        slices.push(SliceClause { analyst, limit, spent });
    }
    Ok(slices)
}

/// `ADD SLICE …`, `[ALTER] SLICE … SET LIMIT …` or `DROP SLICE …` after the name of a budget.
/// `None` for anything else.
pub(super) fn alteration(
    parser: &mut Parser,
    budget: &str,
) -> Result<Option<Declaration>, ParserError> {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    let verb = ["ADD", "ALTER", "DROP"].into_iter().find(|verb| is(0, verb) && is(1, "SLICE"));
    if verb.is_none() && !is(0, "SLICE") {
        return Ok(None);
    }
    if let Some(verb) = verb {
        expect_word(parser, verb)?;
    }
    expect_word(parser, "SLICE")?;
    let analyst = analyst(parser)?;
    let change = match verb {
        Some("DROP") => SliceAlteration::Drop,
        Some("ADD") => {
            expect_word(parser, "LIMIT")?;
            SliceAlteration::Add(limit(parser)?)
        }
        Some(_) | None => {
            expect_word(parser, "SET")?;
            expect_word(parser, "LIMIT")?;
            SliceAlteration::SetLimit(limit(parser)?)
        }
    };
    Ok(Some(Declaration::AlterSlice { budget: budget.to_owned(), analyst, change }))
}

/// The name of an analyst, with its letters as written.
pub(super) fn analyst(parser: &mut Parser) -> Result<String, ParserError> {
    Ok(parser.parse_identifier()?.value)
}

/// `(epsilon=…, delta=…)`, `(rho=…, delta=…)` or `(coupons=…, delta=…)` after LIMIT of a slice.
fn limit(parser: &mut Parser) -> Result<SliceLimit, ParserError> {
    let (mut amount, mut delta) = (None, None);
    for (name, value) in named_literals(parser, "LIMIT (epsilon=3, delta=1e-7)")? {
        let read = match name.as_str() {
            "epsilon" | "eps" => parse_epsilon(&value).map(SliceAmount::Epsilon),
            "rho" => parse_rho(&value).map(SliceAmount::Rho),
            "coupons" => coupons(&value).map(SliceAmount::Coupons),
            "delta" => {
                set(parser, &mut delta, &name, parse_delta(&value))?;
                continue;
            }
            _ => {
                let takes =
                    format!("LIMIT of a slice takes epsilon, rho, coupons and delta, not {name}");
                return error(parser, &takes);
            }
        };
        if amount.is_some() {
            return error(parser, "a slice counts as its budget does: in epsilon, rho or coupons");
        }
        set(parser, &mut amount, &name, read)?;
    }
    match amount {
        Some(amount) => Ok(SliceLimit { amount, delta }),
        None => error(
            parser,
            "LIMIT of a slice needs epsilon, rho or coupons, as its budget counts: LIMIT (epsilon=3)",
        ),
    }
}

/// A whole number of coupons, at least one.
fn coupons(value: &Literal) -> Option<u32> {
    let Literal::Number(text) = value else { return None };
    let number = parse_decimal(text).filter(|number| number.is_integer())?;
    u32::try_from(number.to_integer()).ok().filter(|number| *number > 0)
}
