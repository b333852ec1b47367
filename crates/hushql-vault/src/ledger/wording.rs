//! Words that the errors of a vault share.
//!
//! In: paths, which may be withheld, and amounts. Out: parts of sentences.

use hushql_privacy::privacy::{Notion, Spend};

use crate::catalog::quoted;

/// The description of files on which a charged query failed.
pub const DRIFTED: &str = "do not fit its declaration: a query was charged and failed on them";

/// A path to append to its noun; nothing if the path is withheld.
pub(super) fn named(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" `{path}`") }
}

/// A path at the beginning of a sentence, or words for a withheld one.
pub(super) fn this(path: &str) -> String {
    if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") }
}

/// A path in a command, or a word for a withheld one.
pub(super) fn path_or<'a>(path: &'a str, word: &'a str) -> &'a str {
    if path.is_empty() { word } else { path }
}

/// The parameter of a release with this cost.
pub(super) fn parameter(cost: &Spend) -> String {
    let name = match cost.notion {
        Notion::Approximate => "eps",
        Notion::Concentrated => "rho",
        Notion::Coupons => "coupons",
    };
    format!("{name}={}", cost.loss_text())
}

/// The advice if only δ is insufficient and the budget has none.
pub(super) fn without_delta(budget: &str, asked: &Spend, left: &Spend) -> String {
    if asked.nano <= left.nano && asked.atto_delta > 0 && left.atto_delta == 0 {
        format!(
            "; it has no delta, but its owner can add some with ALTER PRIVACY BUDGET {} SET LIMIT (…, delta=…), unless it was created with thresholds=0",
            quoted(budget)
        )
    } else {
        String::new()
    }
}

/// What a session may spend, and what is left of it today. The cost of a template's call is fixed.
pub(super) fn cap(most: &Spend, left: &Spend, a_day: bool, template: Option<&str>) -> String {
    match (a_day, template) {
        (true, None) => {
            format!("{most} a day (UTC), of which {left} is left: ask for less, or tomorrow")
        }
        (true, Some(template)) => format!(
            "{most} a day (UTC), of which {left} is left: the owner fixed what a call of {template} costs, so ask tomorrow"
        ),
        (false, None) => format!("{most} on one query: write {} or less", parameter(most)),
        (false, Some(template)) => format!(
            "{most} on one query: the owner fixed what a call of {template} costs, and a session that may spend this on one query can ask it"
        ),
    }
}

/// The advice for a vault of another format.
pub(super) fn other_version(found: i64, known: i64) -> &'static str {
    if found > known {
        ": open it with the newer HushQL that made it"
    } else {
        ": no HushQL upgrades it; create a new vault, and declare budgets there with what is left of the old ones"
    }
}

/// The addition to a refusal if the query also shows earlier releases, which are not part of its
/// cost.
pub fn without_replays(shows_again: bool) -> &'static str {
    if shows_again { ", without those that are shown again" } else { "" }
}
