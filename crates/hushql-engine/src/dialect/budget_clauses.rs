//! The amounts of privacy budgets: the clauses LIMIT, ACCOUNTANT, PER QUERY and SPENT.
//!
//! In: a parser after the clause's first word. Out: exact amounts, not yet in whole units of the
//! ledger.
//!
//! ```text
//! LIMIT (epsilon=2, delta=1e-6) ACCOUNTANT ZCDP   →   ε = 2, δ = 10⁻⁶, counted in ρ
//! ```

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::amounts_per_query::{FloorClause, PerQueryClause};
use super::declaration::{Accountant, Allowance, LimitClause, SpentClause};
use super::literal::{Literal, named_literals};
use crate::catalog::PrivacyFloor;
use crate::dialect::clauses::{error, expect_word, take_word};
use crate::privacy::{Delta, Epsilon, Rho, parse_decimal};

/// `(epsilon=…, delta=…, rho=…, rho_delta=…)`, which follows SPENT.
pub(super) fn spent(parser: &mut Parser) -> Result<SpentClause, ParserError> {
    let mut clause = SpentClause::default();
    for (name, value) in named_literals(parser, "SPENT (epsilon=3, delta=1e-7)")? {
        let slot = match name.as_str() {
            "epsilon" | "eps" => &mut clause.epsilon,
            "delta" => &mut clause.delta,
            "rho" => &mut clause.rho,
            "rho_delta" => &mut clause.rho_delta,
            "releases" => &mut clause.releases,
            "dearest" => &mut clause.dearest,
            _ => {
                let takes = format!(
                    "SPENT takes epsilon, delta, rho, rho_delta, releases and dearest, not {name}"
                );
                return error(parser, &takes);
            }
        };
        let amount = match &value {
            Literal::Number(text) if !text.starts_with('-') => parse_decimal(text),
            Literal::Number(_) | Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
        };
        if amount.is_none() {
            return error(parser, &format!("{name} is out of range: write a number of at least 0"));
        }
        set(parser, slot, &name, amount)?;
    }
    let SpentClause { epsilon, releases, dearest, .. } = &clause;
    if releases.is_some() != dearest.is_some() || releases.is_some() && epsilon.is_none() {
        let together = "releases and dearest go together, with epsilon: SPENT (epsilon=0.12, releases=3, dearest=0.05)";
        return error(parser, together);
    }
    if releases.as_ref().is_some_and(|releases| !releases.is_integer()) {
        return error(parser, "releases is a whole number");
    }
    match (&clause.epsilon, &clause.rho, &clause.rho_delta) {
        (None, None, _) => error(parser, "SPENT needs epsilon or rho: SPENT (epsilon=3)"),
        (Some(_), None, Some(_)) => {
            error(parser, "rho_delta goes with rho: SPENT (epsilon=3, rho=1, rho_delta=1e-7)")
        }
        (None, Some(_), Some(_)) if clause.delta.is_some() => {
            error(parser, "without epsilon, SPENT has one delta: SPENT (rho=1, delta=1e-7)")
        }
        (None, Some(_), None) => {
            let delta = clause.delta.take();
            Ok(SpentClause { rho_delta: delta, ..clause })
        }
        (Some(_), _, _) | (None, Some(_), Some(_)) => Ok(clause),
    }
}

pub(super) fn limit(parser: &mut Parser) -> Result<LimitClause, ParserError> {
    let (mut epsilon, mut rho, mut delta) = (None, None, None);
    for (name, value) in named_literals(parser, "LIMIT (epsilon=10, delta=1e-6)")? {
        match name.as_str() {
            "epsilon" | "eps" => set(parser, &mut epsilon, &name, parse_epsilon(&value))?,
            "rho" => set(parser, &mut rho, &name, parse_rho(&value))?,
            "delta" => set(parser, &mut delta, &name, parse_delta(&value))?,
            _ => {
                return error(parser, &format!("LIMIT takes epsilon, rho and delta, not {name}"));
            }
        }
    }
    let allowance = match (epsilon, rho) {
        (Some(epsilon), None) => Allowance::Epsilon(epsilon),
        (None, Some(rho)) => Allowance::Rho(rho),
        (None, None) => return error(parser, "LIMIT needs epsilon or rho: LIMIT (epsilon=10)"),
        (Some(_), Some(_)) => {
            return error(
                parser,
                "a budget counts in epsilon or in rho; create a second budget for the other",
            );
        }
    };
    Ok(LimitClause { allowance, delta, accountant: Accountant::Sums })
}

/// `ACCOUNTANT ZCDP`, or `ACCOUNTANT COUPONS (epsilon=0.05)`, each with or without `thresholds=0`,
/// after the limit of a new budget.
pub(super) fn accountant(
    parser: &mut Parser,
    limit: LimitClause,
) -> Result<LimitClause, ParserError> {
    if !take_word(parser, "ACCOUNTANT") {
        return Ok(limit);
    }
    let coupons = take_word(parser, "COUPONS");
    if !coupons && !take_word(parser, "ZCDP") {
        let known = "the accountants are ZCDP and COUPONS (epsilon=0.05); without one, charges are added up";
        return error(parser, known);
    }
    let (mut thresholds, mut each) = (true, None);
    if parser.peek_token().token == Token::LParen {
        let form = if coupons { "COUPONS (epsilon=0.05)" } else { "ZCDP (thresholds=0)" };
        for (name, value) in named_literals(parser, &format!("ACCOUNTANT {form}"))? {
            match name.as_str() {
                "thresholds" if matches!(&value, Literal::Number(zero) if zero == "0") => {
                    thresholds = false;
                }
                "epsilon" | "eps" if coupons => {
                    set(parser, &mut each, &name, parse_epsilon(&value))?;
                }
                _ if coupons => return error(parser, COUPONS_TAKE),
                _ => return error(parser, ZCDP_TAKES),
            }
        }
    }
    let accountant = match (coupons, each) {
        (false, _) => Accountant::Zcdp { thresholds },
        (true, Some(epsilon)) => Accountant::Coupons { epsilon, thresholds },
        (true, None) => {
            let needed = "ACCOUNTANT COUPONS needs the epsilon that one release costs at most: ACCOUNTANT COUPONS (epsilon=0.05)";
            return error(parser, needed);
        }
    };
    match (&limit.allowance, &limit.delta) {
        (Allowance::Epsilon(_), Some(_)) => Ok(LimitClause { accountant, ..limit }),
        (Allowance::Epsilon(_), None) if coupons => {
            error(parser, "ACCOUNTANT COUPONS needs a delta: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Epsilon(_), None) => {
            error(parser, "ACCOUNTANT ZCDP needs a delta: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Rho(_), _) if coupons => {
            error(parser, "coupons are for a limit in epsilon: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Rho(_), _) => {
            error(parser, "a budget in rho needs no ACCOUNTANT: it adds up rho")
        }
    }
}

const ZCDP_TAKES: &str = "ACCOUNTANT ZCDP takes thresholds=0, which leaves no delta to releases that need one of their own; without it, they have half";
const COUPONS_TAKE: &str = "ACCOUNTANT COUPONS takes the epsilon of one release, and thresholds=0, which leaves no delta to releases that need one of their own; without it, they have half";

pub(super) fn per_query(parser: &mut Parser) -> Result<PerQueryClause, ParserError> {
    expect_word(parser, "QUERY")?;
    let mut clause = PerQueryClause::default();
    for (name, value) in named_literals(parser, "PER QUERY (default=0.1, max=1)")? {
        match name.as_str() {
            "default" => set(parser, &mut clause.default, &name, parse_epsilon(&value))?,
            "default_rho" => set(parser, &mut clause.default_rho, &name, parse_rho(&value))?,
            "min" => set(parser, &mut clause.min, &name, parse_epsilon(&value))?,
            "min_rho" => set(parser, &mut clause.min_rho, &name, parse_rho(&value))?,
            "max" => set(parser, &mut clause.max, &name, parse_epsilon(&value))?,
            "max_rho" => set(parser, &mut clause.max_rho, &name, parse_rho(&value))?,
            "default_delta" => set(parser, &mut clause.default_delta, &name, parse_delta(&value))?,
            "max_delta" => set(parser, &mut clause.max_delta, &name, parse_delta(&value))?,
            "bounds" => {
                set(parser, &mut clause.declared_bounds, &name, parse_bounds(&value))?;
            }
            "min_units" => set(parser, &mut clause.min_units, &name, parse_people(&value))?,
            "min_units_beta" => {
                set(parser, &mut clause.min_units_beta, &name, parse_delta(&value))?;
            }
            _ => {
                return error(
                    parser,
                    &format!(
                        "PER QUERY takes default, default_rho, default_delta, min, min_rho, max, max_rho, max_delta, bounds, min_units and min_units_beta, not {name}"
                    ),
                );
            }
        }
    }
    Ok(clause)
}

/// True for `declared`, false for `found`.
fn parse_bounds(value: &Literal) -> Option<bool> {
    let word = value.text()?;
    let is = |known: &str| word.eq_ignore_ascii_case(known);
    (is("declared") || is("found")).then(|| is("declared"))
}

/// A floor: a number of people.
fn parse_people(value: &Literal) -> Option<u64> {
    let people = value.text()?.parse::<u64>().ok()?;
    (2..=PrivacyFloor::MOST).contains(&people).then_some(people)
}

/// `n [(beta=0.01)]`, which follows FLOOR.
pub(super) fn floor(parser: &mut Parser) -> Result<FloorClause, ParserError> {
    let people = parser.parse_literal_uint()?;
    if !(2..=PrivacyFloor::MOST).contains(&people) {
        let range = range_of("min_units");
        return error(parser, &format!("a floor is {range}"));
    }
    let mut beta = None;
    if parser.peek_token().token == Token::LParen {
        for (name, value) in named_literals(parser, "SET PRIVACY FLOOR 10 (beta=0.01)")? {
            match name.as_str() {
                "beta" => set(parser, &mut beta, &name, parse_delta(&value))?,
                _ => return error(parser, &format!("FLOOR takes beta, not {name}")),
            }
        }
    }
    Ok(FloorClause { people, beta })
}

pub(super) fn parse_epsilon(value: &Literal) -> Option<Epsilon> {
    value.text()?.parse().ok()
}

pub(super) fn parse_rho(value: &Literal) -> Option<Rho> {
    value.text()?.parse().ok()
}

pub(super) fn parse_delta(value: &Literal) -> Option<Delta> {
    value.text()?.parse().ok()
}

/// The allowed range of an amount with this name.
fn range_of(name: &str) -> &'static str {
    match name {
        "bounds" => "bounds=declared or bounds=found",
        "min_units" => "a number of people from 2 to 1099511627776",
        "delta" | "default_delta" | "max_delta" | "beta" | "min_units_beta" => {
            "a number between 0 and 1, at least 1e-18"
        }
        "coupons" => "a whole number from 1 to 4294967295",
        _ => "a number from 1e-12 to 1000000",
    }
}

pub(super) fn set<T>(
    parser: &Parser,
    slot: &mut Option<T>,
    name: &str,
    value: Option<T>,
) -> Result<(), ParserError> {
    let Some(value) = value else {
        let range = range_of(name);
        return error(parser, &format!("{name} is out of range: write {range}"));
    };
    if slot.replace(value).is_some() {
        return error(parser, &format!("{name} is given twice"));
    }
    Ok(())
}
