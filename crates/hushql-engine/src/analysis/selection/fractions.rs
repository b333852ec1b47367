//! The fractions of QUANTILES.
//!
//! In: the numbers of a list as they are written. Out: how the list is scored, or a refusal with a
//! list that can be.
//!
//! ```text
//! (0.25, 0.5)      1/4 and 2/4
//! (0.5, 0.25)      refused: (0.25, 0.5)
//! (0, 0.5)         refused: MIN(x), QUANTILES(x, (0.5))
//! ```

use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::analysis::measure::choice::LineScore;
use crate::dialect::Literal;
use crate::dialect::aggregate::argument_of;
use crate::mechanism::{Fractions, MOST_FRACTIONS};
use crate::privacy::{Rational, decimal_text, parse_decimal};
use crate::refusal::{Reason, Refusal};

/// The largest denominator of a fraction.
const MOST_DENOMINATOR: u64 = 1_000_000_000;

/// The digits of a fraction.
const DIGITS: u32 = 9;

/// How a list of fractions is scored. One alone is a quantile like any other.
///
/// # Errors
/// Fractions that are not between 0 and 1, have more than nine digits, or do not ascend, and lists
/// that are too long.
pub(super) fn several(written: &[Literal], text: &str) -> Result<LineScore, Refusal> {
    let x = argument_of(text);
    let refuse = |message: &str, hint: String| {
        Err(Refusal::new(Reason::BadValue, text, message.to_owned(), hint))
    };
    if written.len() > MOST_FRACTIONS {
        let message = format!("a list has at most {MOST_FRACTIONS} quantiles");
        return refuse(&message, format!("QUANTILES({x}, (0.1, 0.25, 0.5, 0.75, 0.9))"));
    }
    let number = |literal: &Literal| match literal {
        Literal::Number(number) => parse_decimal(number),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    };
    let exact = |q: &Rational| q.denom().to_u64().is_some_and(|den| den <= MOST_DENOMINATOR);
    let numbers: Option<Vec<Rational>> = written.iter().map(number).collect();
    let inside = |q: &Rational| !q.is_negative() && *q <= Rational::one() && exact(q);
    let Some(numbers) = numbers.filter(|all| all.iter().all(inside)) else {
        let message = "the fractions lie between 0 and 1, with at most nine digits";
        return refuse(message, format!("QUANTILES({x}, (0.25, 0.5, 0.75))"));
    };
    let mut ordered = numbers.clone();
    ordered.sort();
    ordered.dedup();
    let between: Vec<Rational> =
        ordered.iter().filter(|q| !q.is_zero() && !q.is_one()).cloned().collect();
    if between.len() != ordered.len() {
        let first = ordered.first().filter(|q| q.is_zero()).map(|_| format!("MIN({x})"));
        let list = (!between.is_empty()).then(|| format!("QUANTILES({x}, {})", listed(&between)));
        let last = ordered.last().filter(|q| q.is_one()).map(|_| format!("MAX({x})"));
        let all: Vec<String> = [first, list, last].into_iter().flatten().collect();
        let message = "the quantiles of 0 and 1 are the least and the greatest value, each a release of its own";
        return refuse(message, all.join(", "));
    }
    if ordered != numbers {
        let message = "the fractions of a list ascend, each once";
        return refuse(message, format!("QUANTILES({x}, {})", listed(&ordered)));
    }
    let den = numbers.iter().try_fold(1_u64, |den, q| Some(den.lcm(&q.denom().to_u64()?)));
    let fractions = den.and_then(|den| {
        let num = |q: &Rational| (q * Rational::from_integer(den.into())).to_integer().to_u64();
        Fractions::new(numbers.iter().map(num).collect::<Option<_>>()?, den)
    });
    let Some(fractions) = fractions else {
        let message = "a list has one quantile or more";
        return refuse(message, format!("QUANTILES({x}, (0.25, 0.5, 0.75))"));
    };
    Ok(match fractions.nums() {
        [num] => LineScore::Quantile { num: *num, den: fractions.den() },
        [..] => LineScore::Quantiles(fractions),
    })
}

fn listed(fractions: &[Rational]) -> String {
    let texts: Vec<String> = fractions.iter().map(|q| decimal_text(q, DIGITS)).collect();
    format!("({})", texts.join(", "))
}
