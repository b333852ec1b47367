//! Hints whose pieces are not meant to be pasted as they stand, each with its reason.

use hushql::Refusal;

/// What a hint contains, and why nothing in it is a proposal.
const KNOWN: [(&str, &str); 6] = [
    ("%text%", "text stands for the text that is looked for"),
    ("LIKE 'text%'", "text stands for the text that is looked for"),
    ("'pattern'", "pattern stands for the expression that is looked for"),
    ("LIMIT 10", "it takes the place of FETCH with PERCENT, which the clause describes in words"),
    ("each window where it is used", "the example is not of the statement's windows"),
    ("ROLLUP (a, b)", "a and b stand for the keys"),
];

/// Whether a hint is one of these.
pub(super) fn is_known(refusal: &Refusal) -> bool {
    KNOWN.iter().any(|(words, _)| refusal.hint().contains(words))
}
