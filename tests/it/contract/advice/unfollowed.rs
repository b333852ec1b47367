//! Hints whose pieces are not meant to be pasted as they stand, each with its reason.

use hushql::Refusal;

/// What a hint contains, and why nothing in it is a proposal.
const KNOWN: [(&str, &str); 11] = [
    ("%text%", "text stands for the text that is looked for"),
    ("LIKE 'text%'", "text stands for the text that is looked for"),
    ("'pattern'", "pattern stands for the expression that is looked for"),
    ("LIMIT 10", "it takes the place of FETCH with PERCENT, which the clause describes in words"),
    ("each window where it is used", "the example is not of the statement's windows"),
    ("ROLLUP (a, b)", "a and b stand for the keys"),
    ("FROM t GROUP BY x", "t and x stand for the table and the key"),
    ("monthly('north')", "the template is an example"),
    ("'17'", "the status that is asked for is no status, in whatever type"),
    ("CAST(adult.status AS DOUBLE)", "no status is a number"),
    ("CAST((SELECT", "the subquery has a fault of its own, and is named as it is planned"),
];

/// Whether a hint is one of these.
pub(super) fn is_known(refusal: &Refusal) -> bool {
    KNOWN.iter().any(|(words, _)| refusal.hint().contains(words))
}
