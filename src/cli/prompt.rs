//! The shell's prompts: for a new statement, and for the next line of an unfinished one.
//!
//! In: the remainders of the budgets, and the lines typed so far. Out: text that ends with `> `.
//! Remainders are rounded down.
//!
//! ```text
//! hushql ε 9.0> SELECT COUNT(*)          hushql ε 9.0> SELECT 'a
//!            -> FROM adult;                         '> b';
//! ```

use hushql::privacy::{Notion, Spend};

use super::lex;

/// The prompt, with the smallest remainders of ε, of ρ and of coupons, rounded down.
pub(super) fn prompt(left: &[Spend]) -> String {
    let least = |notion| {
        left.iter().filter(|left| left.notion == notion).min_by_key(|left| left.nano).map(rest)
    };
    let notions = [Notion::Approximate, Notion::Concentrated, Notion::Coupons];
    let parts: String = notions.into_iter().filter_map(least).collect();
    format!("hushql{parts}> ")
}

/// Such as ` ε 9.9`: one decimal place, or two significant digits below a tenth.
fn rest(left: &Spend) -> String {
    const TENTH: i64 = 100_000_000;
    let symbol = left.notion.symbol();
    match left.nano {
        coupons if left.notion == Notion::Coupons => format!(" {symbol} {coupons}"),
        ..=0 => format!(" {symbol} 0.0"),
        nano @ 1..TENTH => {
            let unit = std::iter::successors(Some(1_i64), |unit| unit.checked_mul(10))
                .take_while(|unit| nano / unit >= 10)
                .last()
                .unwrap_or(1);
            let down = Spend { nano: nano - nano % unit, ..*left };
            format!(" {symbol} {}", down.loss_text())
        }
        nano => {
            let tenths = nano / TENTH;
            format!(" {symbol} {}.{}", tenths / 10, tenths % 10)
        }
    }
}

/// The prompt for the next line of a statement, as wide as the first prompt. It shows an open
/// quotation, comment or bracket.
pub(super) fn continuation(prompt: &str, before: &str) -> String {
    let width = prompt.chars().count().saturating_sub(2);
    format!("{:>width$}> ", lex::inside(before).unwrap_or('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epsilon(nano: i64) -> [Spend; 1] {
        [Spend::of_epsilon(nano, 0)]
    }

    #[test]
    fn the_prompt_never_shows_more_than_is_left() {
        assert_eq!(prompt(&[]), "hushql> ");
        assert_eq!(prompt(&epsilon(9_000_000_000)), "hushql ε 9.0> ");
        assert_eq!(prompt(&epsilon(9_999_999_999)), "hushql ε 9.9> ");
        assert_eq!(prompt(&epsilon(12_345_000_000)), "hushql ε 12.3> ");
        assert_eq!(prompt(&epsilon(50_000_000)), "hushql ε 0.05> ");
        assert_eq!(prompt(&epsilon(49_999_998)), "hushql ε 0.049> ");
        assert_eq!(prompt(&epsilon(99)), "hushql ε 0.000000099> ");
        assert_eq!(prompt(&epsilon(0)), "hushql ε 0.0> ");
        assert_eq!(prompt(&[Spend::of_coupons(84, 0)]), "hushql coupons 84> ");
        let both = [(1, 7), (2, 3)].map(|(a, b)| [Spend::of_epsilon(a, 0), Spend::of_rho(b, 0)]);
        assert_eq!(prompt(&both.concat()), "hushql ε 0.000000001 ρ 0.000000003> ");
    }

    #[test]
    fn a_statement_goes_on_under_the_prompt() {
        assert_eq!(continuation("hushql ε 9.0> ", "SELECT 1"), "           -> ");
        assert_eq!(continuation("hushql> ", "SELECT 'a"), "     '> ");
        assert_eq!(continuation("hushql> ", "SELECT ("), "     (> ");
    }
}
