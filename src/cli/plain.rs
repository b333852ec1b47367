//! ASCII signs for terminals whose locale has no other characters.
//!
//! In: text for people. Out: the same text, with ASCII for the signs that the program itself writes
//! (borders, ±, ε). Other characters, such as those of names and cells, stay unchanged. Files and
//! pipes always get UTF-8.
//!
//! ```text
//! │ n ┆ ± 95 % │  →  | n | +/- 95 % |          cost ε = 1 · left adult ε = 9  →  cost eps = 1 - left adult eps = 9
//! ```

use std::borrow::Cow;

/// Each sign of the program, and its ASCII form. Borders and bars keep their width.
const SIGNS: [(char, &str); 69] = [
    ('─', "-"),
    ('│', "|"),
    ('┆', "|"),
    ('═', "="),
    ('┌', "+"),
    ('┬', "+"),
    ('┐', "+"),
    ('├', "|"),
    ('┼', "+"),
    ('┤', "|"),
    ('└', "+"),
    ('┴', "+"),
    ('┘', "+"),
    ('╞', "+"),
    ('╪', "+"),
    ('╡', "+"),
    ('█', "#"),
    ('▏', "|"),
    ('▎', "|"),
    ('▍', "|"),
    ('▌', "|"),
    ('▋', "#"),
    ('▊', "#"),
    ('▉', "#"),
    ('●', "*"),
    ('▲', "^"),
    ('■', "#"),
    ('◆', "@"),
    ('○', "o"),
    ('△', "A"),
    ('□', "%"),
    ('◇', "x"),
    ('…', "..."),
    ('·', "-"),
    ('±', "+/-"),
    ('ε', "eps"),
    ('δ', "delta"),
    ('ρ', "rho"),
    ('τ', "tau"),
    ('σ', "sigma"),
    ('μ', "mu"),
    ('π', "pi"),
    ('Δ', "Delta"),
    ('Σ', "Sum"),
    ('→', "->"),
    ('←', "<-"),
    ('↦', "->"),
    ('≤', "<="),
    ('≥', ">="),
    ('≠', "<>"),
    ('≈', "~"),
    ('∝', "~"),
    ('∞', "inf"),
    ('×', "x"),
    ('⌊', "floor("),
    ('⌋', ")"),
    ('⌈', "ceil("),
    ('⌉', ")"),
    ('√', "sqrt "),
    ('₀', "0"),
    ('₁', "1"),
    ('₂', "2"),
    ('₋', "-"),
    ('²', "^2"),
    ('⁰', "^0"),
    ('−', "-"),
    ('–', "-"),
    ('“', "\""),
    ('”', "\""),
];

/// Whether the locale has only ASCII characters: a locale is set, and it is not UTF-8.
///
/// If none is set, as in most containers, terminals show UTF-8 anyway.
pub(super) fn is_wanted() -> bool {
    is_wanted_by(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).ok()))
}

/// The first variable that is set decides.
fn is_wanted_by(variables: [Option<String>; 3]) -> bool {
    let locale = variables.into_iter().flatten().find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
}

/// A text with ASCII signs.
pub(super) fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match SIGNS.iter().find(|(sign, _)| *sign == c) {
            Some((_, ascii)) => plain.push_str(ascii),
            None => plain.push(c),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_become_ascii_and_names_stay() {
        let text = "│ Zoë ┆ 5 ± 3.00 │ cost ε = 1 · left δ = 1e-5 → …";
        assert_eq!(ascii(text), "| Zoë | 5 +/- 3.00 | cost eps = 1 - left delta = 1e-5 -> ...");
        assert_eq!(ascii("n"), "n");
        for (at, (sign, plain)) in SIGNS.iter().enumerate() {
            assert!(!sign.is_ascii() && plain.is_ascii());
            assert!(SIGNS.iter().skip(at + 1).all(|(other, _)| other != sign), "{sign}");
        }
    }

    #[test]
    fn the_locale_decides() {
        let wanted = |values: [&str; 3]| {
            is_wanted_by(values.map(|value| (value != "-").then(|| value.to_owned())))
        };
        assert!(wanted(["C", "-", "en_US.UTF-8"]));
        assert!(wanted(["-", "-", "de_DE.ISO-8859-1"]));
        assert!(wanted(["", "POSIX", "C.UTF-8"]));
        assert!(!wanted(["-", "-", "-"]));
        assert!(!wanted(["", "", "C.UTF-8"]));
        assert!(!wanted(["-", "en_US.utf8", "C"]));
    }
}
