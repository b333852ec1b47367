//! Replaces the engine's marker names, which users must never see, with the releases as written.
//!
//! In: a text that may contain markers, and the releases. Out: the same text in the user's words.
//!
//! ```text
//! __hushql_release_0(adult.status, 1) AS w  →  status AS w
//! ```

use super::ast::{ReleaseClause, candidate_of, marked};
use crate::catalog::RESERVED;
use crate::dialect::markers::parameter_of;
use crate::refusal::Refusal;

/// A text in which each marker is replaced by the release as written.
pub(crate) fn in_releases_words(text: &str, releases: &[ReleaseClause]) -> String {
    let mut rest = text;
    let mut text = String::with_capacity(rest.len());
    while let Some(start) = rest.find(RESERVED) {
        text.push_str(&rest[..start]);
        let name = &rest[start..];
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        let number = marked(&name[..end]).or(candidate_of(&name[..end]));
        let release = number.and_then(|n| releases.get(n));
        let parameter = parameter_of(&name[..end]).map(|n| format!("${n}"));
        let subquery = name[RESERVED.len()..].starts_with("_inner_");
        let other = if subquery { "a column of the subquery" } else { "a release" };
        let other = parameter.as_deref().unwrap_or(other);
        text.push_str(release.map_or(other, |r| r.text.as_str()));
        rest = &name[end..];
        // A column of a hidden table is hidden, too.
        if let Some(column) = rest.strip_prefix('.').filter(|column| column.starts_with(RESERVED)) {
            rest = column.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        }
        if rest.starts_with('(') {
            rest = &rest[closing(rest)..];
        }
    }
    text.push_str(rest);
    text
}

/// The offset after the parenthesis that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth <= 1 => return i + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// A refusal in which each marker is replaced by the release as written.
pub(crate) fn hiding_markers(refusal: &Refusal, releases: &[ReleaseClause]) -> Refusal {
    let words = |text| in_releases_words(text, releases);
    let hidden = Refusal::new(
        refusal.reason(),
        words(refusal.clause()),
        words(refusal.message()),
        words(refusal.hint()),
    );
    hidden.after(refusal.derivation())
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    use super::*;

    #[test]
    fn markers_become_what_was_written() {
        let query = "SELECT ARGMAX EXPONENTIAL(eps=1) p IN (1, 2) BY SUM(x * p) FROM t";
        let Ok(Statement::Query(query)) = parse(query) else { panic!() };
        let told = |text: &str| in_releases_words(text, &query.releases);
        assert_eq!(told("__hushql_release_0(t.x, sum((1))) AS w"), "p AS w");
        assert_eq!(told("x + __hushql_candidate_0() > 1"), "x + p > 1");
        assert_eq!(told("__hushql_release_7(x"), "a release");
        assert_eq!(told("nothing (of ours)"), "nothing (of ours)");
        assert_eq!(told("__hushql_release_0"), "p");
        assert_eq!(told("t.x > __hushql_parameter_2()"), "t.x > $2");
        // The text once contained "a release.a release".
        let compared = "t.id = __hushql_inner_3.__hushql_inner_3_0 AND t.x > 1";
        assert_eq!(told(compared), "t.id = a column of the subquery AND t.x > 1");
    }

    #[test]
    fn a_release_within_a_release_is_written_out() {
        for (query, text) in [
            (
                "SELECT LAPLACE(eps=1) SUM(x) FILTER (WHERE x > (SELECT LAPLACE(eps=1) AVG(x) FROM t)) FROM t",
                "sum(x) FILTER (WHERE x > (SELECT avg(x) FROM t))",
            ),
            (
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(x) FILTER (WHERE x > (SELECT LAPLACE(eps=1) AVG(x) FROM t)) FROM t",
                "sum(x) FILTER (WHERE x > (SELECT avg(x) FROM t))",
            ),
        ] {
            let Ok(Statement::Query(query)) = parse(query) else { panic!("{query}") };
            assert!(query.releases.iter().any(|one| one.text == text), "{:?}", query.releases);
        }
    }
}
