//! The audited statements: for each the database on which one person changes most.
//!
//! In: a mechanism and ε. Out: cases. Where a choice is audited, the others' scores depend on ε:
//! what a person tips must not be so certain that it is never seen.

use hushql_vault::catalog::Unit;

use super::world::{Case, EXTREME, Row, Shown, crowd};

pub const EPSILONS: [&str; 4] = ["0.1", "0.5", "1", "2"];

/// δ of Gaussian noise and of unknown candidates: large enough to be used up before the eyes of an
/// audit.
const DELTA: f64 = 0.01;

fn unique() -> Unit {
    Unit::Column { column: "id".to_owned(), max_rows: None, unique: true }
}

fn several(most: u64) -> Unit {
    Unit::Column { column: "id".to_owned(), max_rows: Some(most), unique: false }
}

/// The parameters of a mechanism of numbers, and its δ.
fn priced(mechanism: &str, eps: &str, bounds: &str) -> (String, f64) {
    match mechanism {
        "GAUSSIAN" => (format!("GAUSSIAN(eps={eps}, delta={DELTA}{bounds})"), DELTA),
        _ => (format!("{mechanism}(eps={eps}{bounds})"), 0.0),
    }
}

/// As many people as e⁻² takes at this ε.
fn margin(eps: &str) -> usize {
    (2.0 / eps.parse::<f64>().unwrap()).round() as usize
}

/// Counts, sums, means and spreads of people with one row each.
pub fn numbers(mechanism: &str, eps: &str) -> Vec<Case> {
    let (release, delta) = priced(mechanism, eps, "");
    let case = |aggregate: &str, rest: &str, base: Vec<Row>, shown: Shown| Case {
        what: format!("{mechanism} {aggregate}{rest}"),
        sql: format!("SELECT {release} {aggregate} AS r FROM people{rest}"),
        unit: unique(),
        base,
        person: vec![EXTREME],
        delta,
        shown,
        variant: false,
    };
    // So many at either end that no noise makes a mean leave the range.
    let low = Row { id: 2, g: "x", k: "a", n: 0, x: 2.5, v: 0, ..EXTREME };
    let spread = || [crowd(300, low), crowd(300, Row { id: 3, x: -1.0, ..EXTREME })].concat();
    let ends = || [crowd(300, low), crowd(300, Row { id: 3, ..EXTREME })].concat();
    vec![
        case("COUNT(*)", "", vec![], Shown::Numbers),
        case("COUNT(*)", " GROUP BY g", crowd(3, low), Shown::Numbers).variant(),
        case("COUNT(*)", " WHERE n > 8", crowd(1, low), Shown::Numbers).variant(),
        case("SUM(n)", "", crowd(2, low), Shown::Numbers),
        case("SUM(x)", "", vec![], Shown::Numbers),
        case("SUM(n * x)", "", vec![], Shown::Numbers).variant(),
        case("AVG(n)", "", ends(), Shown::Mean(0.0, 9.0)),
        case("AVG(x)", "", ends(), Shown::Mean(-5.0, 2.5)).variant(),
        // The person is in the first of three bins, and the others have so many rows that the
        // numbers rise by themselves.
        case("CDF(x, 3)", "", spread(), Shown::Numbers),
        case("COUNT(DISTINCT id)", "", vec![], Shown::Numbers),
        case("COUNT(DISTINCT n)", "", crowd(2, low), Shown::Numbers),
        case("VAR_POP(n)", "", crowd(300, low), Shown::Numbers),
        case("STDDEV(x)", "", crowd(300, low), Shown::Numbers),
        case("COVAR_POP(n, x)", "", crowd(300, low), Shown::Numbers),
        case("COVAR_SAMP(n, x)", "", crowd(300, low), Shown::Numbers),
        case("CORR(n, x)", "", ends(), Shown::Numbers),
        case("REGR_SLOPE(x, n)", "", ends(), Shown::Numbers),
    ]
}

/// The same of people with several rows: the person has more than are counted, in more groups than
/// are.
pub fn of_several_rows(mechanism: &str, eps: &str) -> Vec<Case> {
    let case = |bounds: &str, aggregate: &str, rest: &str, shown: Shown| {
        let (release, delta) = priced(mechanism, eps, bounds);
        let person = (0..10).map(|i| Row {
            g: ["x", "y"][i % 2],
            k: ["a", "b", "c", "d"][i % 4],
            n: if aggregate.contains("DISTINCT n") { i as i64 } else { 9 },
            ..EXTREME
        });
        let low = Row { id: 2, g: "x", k: "a", n: 0, x: 2.5, v: 0, ..EXTREME };
        let base = match shown {
            Shown::Mean(..) => [crowd(300, low), crowd(300, Row { id: 3, ..EXTREME })].concat(),
            _ if aggregate.contains("VAR") => crowd(300, low),
            _ if aggregate.contains("DISTINCT n") => vec![],
            _ => crowd(3, low),
        };
        Case {
            what: format!("{mechanism}(…{bounds}) {aggregate}{rest}"),
            sql: format!("SELECT {release} {aggregate} AS r FROM people{rest}"),
            // A registered table may hold more rows of a person than were declared: plans enforce
            // it.
            unit: several(5),
            base,
            person: person.collect(),
            delta,
            shown,
            variant: false,
        }
    };
    let mut cases = vec![
        case("", "COUNT(*)", "", Shown::Numbers),
        case(", rows=3", "COUNT(*)", "", Shown::Numbers),
        case(", rows=2, groups=2", "COUNT(*)", " GROUP BY g", Shown::Numbers),
        case(", rows=1, groups=3", "COUNT(*)", " GROUP BY k", Shown::Numbers),
        case(", rows=2, groups=1", "SUM(n)", " GROUP BY g", Shown::Numbers),
        case(", total=2", "SUM(n)", " GROUP BY g", Shown::Numbers),
        case(
            ", groups=2",
            "SUM(n, contribution_bounds_per_group => (-2, 3))",
            " GROUP BY g",
            Shown::Numbers,
        ),
        case(", rows=2", "SUM(x)", "", Shown::Numbers),
        case(", rows=2", "CDF(n, 1)", "", Shown::Numbers),
        case(", rows=2", "AVG(n)", "", Shown::Mean(0.0, 9.0)),
        case(", rows=3", "VAR_POP(n)", "", Shown::Numbers),
        case(", rows=3", "COVAR_POP(n, x)", "", Shown::Numbers),
        case(", groups=2", "COUNT(DISTINCT id)", " GROUP BY g", Shown::Numbers),
        case(", rows=3", "COUNT(DISTINCT n)", "", Shown::Numbers),
        case(", rows=2, groups=2", "COUNT(DISTINCT n)", " GROUP BY g", Shown::Numbers),
    ];
    if mechanism != "GAUSSIAN" {
        // A bound is chosen under Laplace noise alone.
        cases.push(case(", rows=auto", "COUNT(*)", "", Shown::Numbers));
        cases.push(case(", rows=auto", "COUNT(*)", " GROUP BY g", Shown::Numbers));
        cases.push(case(", rows=auto", "SUM(n)", " GROUP BY k", Shown::Numbers));
        cases.push(case(", rows=auto", "AVG(n)", "", Shown::Mean(0.0, 9.0)));
    }
    cases
}

/// Selections and quantiles among known candidates.
pub fn chosen(mechanism: &str, eps: &str) -> Vec<Case> {
    let margin = margin(eps);
    let case = |selection: &str, base: Vec<Row>, person: Row| {
        let sql = selection.replace("@(", &format!("{mechanism}(eps={eps}, "));
        Case {
            what: selection.replace("@(", &format!("{mechanism}(")).replace("()", ""),
            sql: format!("SELECT {}", sql.replace(", )", ")")),
            unit: unique(),
            base,
            person: vec![person],
            delta: 0.0,
            shown: Shown::Chosen,
            variant: false,
        }
    };
    let of_b = |people: usize| crowd(people, Row { id: 2, ..EXTREME });
    let at = |v: i64, id: i64, people: usize| crowd(people, Row { id, v, ..EXTREME });
    // People at two of the hundred values. The person makes most values, which were exactly right,
    // worse and those behind the second place better: the probability of these grows by nearly all
    // of e^ε.
    let halves = |v: i64, people: usize, w: i64, others: usize| {
        [at(v, 2, people), at(w, 3, others)].concat()
    };
    // MIN and MAX look for the value of this rank.
    let ranked = (2.0 / eps.parse::<f64>().unwrap() * 2_000_f64.ln()).ceil() as usize;
    // The person's k is b, n is 9, v is 99, bid is 3.
    let mut cases = vec![
        case("ARGMAX @() k IN ('a', 'b') FROM people GROUP BY k", of_b(margin), EXTREME),
        case("ARGMAX @() k FROM people GROUP BY k", vec![], EXTREME).variant(),
        case("ARGMIN @() k IN ('a', 'b') FROM people GROUP BY k", of_b(margin), EXTREME).variant(),
        case("g, ARGMAX @() k IN ('a', 'b') FROM people GROUP BY g, k", of_b(margin), EXTREME)
            .variant(),
        case("ARGMAX @() k IN ('a', 'b') BY SUM(n) FROM people GROUP BY k", of_b(margin), EXTREME),
        case(
            "ARGMAX @() k IN ('a', 'b') BY COUNT(DISTINCT id) FROM people GROUP BY k",
            of_b(margin),
            EXTREME,
        ),
        case("TOP 2 @() k IN ('a', 'b', 'c') FROM people GROUP BY k", of_b(margin), EXTREME)
            .variant(),
        case(
            "ARGMAX @() price IN (1, 3) BY REVENUE(bid, price) FROM people",
            of_b(margin),
            EXTREME,
        ),
        case(
            "ARGMAX @() t IN RANGE(0, 99, 1) BY COUNT(*) FILTER (WHERE v >= t) FROM people",
            at(10, 2, 2 * margin),
            Row { v: 10, ..EXTREME },
        )
        .variant(),
        case("@() MEDIAN(v) FROM people", halves(0, 1, 75, 1), EXTREME),
        case("@() QUANTILE(v, 0.9) FROM people", halves(0, 9, 75, 1), EXTREME),
        case("@() MIN(v) FROM people", halves(0, ranked - 2, 25, 2), Row { v: 0, ..EXTREME }),
        case("@() MAX(v) FROM people", halves(99, ranked - 2, 74, 2), EXTREME),
    ];
    // People with several rows: the best of two candidates by two rows each, and a median of two.
    let twice = |selection: &str, base: Vec<Row>| Case {
        unit: several(5),
        person: vec![EXTREME; 6],
        variant: true,
        ..case(selection, base, EXTREME)
    };
    let both = "ARGMAX @(rows=2, groups=1) k IN ('a', 'b') FROM people GROUP BY k";
    cases.push(twice(both, of_b(margin)));
    cases.push(twice("@(rows=2) MEDIAN(v) FROM people", halves(0, 2, 75, 2)));
    cases
}

/// The value in the middle of those of two blocks: the person replaces the value of one of them.
pub fn blocks(eps: &str) -> Vec<Case> {
    let case = |inner: &str, person: Row| Case {
        what: format!("SAMPLE_AND_AGGREGATE MEDIAN of {inner}"),
        sql: format!(
            "SELECT SAMPLE_AND_AGGREGATE(eps={eps}, blocks=2) MEDIAN(m) AS r FROM (SELECT {inner} AS m FROM people) AS q"
        ),
        unit: unique(),
        // The person and the first other one are in one block, the second in the other.
        base: [crowd(1, Row { id: 3, v: 0, ..EXTREME }), crowd(1, Row { id: 5, v: 75, ..EXTREME })]
            .concat(),
        person: vec![person],
        delta: 0.0,
        shown: Shown::Chosen,
        variant: false,
    };
    vec![case("MAX(v)", EXTREME), case("CAST(CLAMP(SUM(v), 0, 99) AS BIGINT)", EXTREME).variant()]
}

/// Randomized response, and candidates that are not declared.
pub fn others(eps: &str) -> Vec<Case> {
    let epsilon: f64 = eps.parse().unwrap();
    // Of four values, and of a hundred.
    let response = |column: &str| Case {
        what: format!("RANDOMIZED_RESPONSE {column}, who has a row"),
        sql: format!(
            "SELECT id, RANDOMIZED_RESPONSE(eps={eps}) {column} FROM people GROUP BY id KEYS (1)"
        ),
        unit: unique(),
        base: vec![],
        person: vec![EXTREME],
        delta: 0.0,
        shown: Shown::Chosen,
        variant: false,
    };
    let mut cases = vec![response("k"), response("v").variant()];
    // Noise on all counts, of which the best are shown; the person's k is b.
    cases.push(Case {
        what: "TOP 2 AUTO k IN ('a', 'b', 'c'), by noise on every count".to_owned(),
        sql: format!("SELECT TOP 2 AUTO(eps={eps}) k IN ('a', 'b', 'c') FROM people GROUP BY k"),
        base: crowd(margin(eps), Row { id: 2, k: "a", ..EXTREME }),
        variant: true,
        ..response("k")
    });
    // Noise on all counts and a threshold.
    let base = crowd(margin(eps), Row { id: 2, word: "crowd", ..EXTREME });
    for (what, word) in [("who is alone", "solo"), ("who is one of many", "crowd")] {
        cases.push(Case {
            what: format!("a list of 2 of unknown candidates by noise on every count, {what}"),
            sql: format!(
                "SELECT TOP 2 AUTO(eps={eps}, delta={DELTA}) word FROM people GROUP BY word"
            ),
            unit: unique(),
            base: base.clone(),
            person: vec![Row { word, ..EXTREME }],
            delta: DELTA,
            shown: Shown::Chosen,
            variant: true,
        });
    }
    for mechanism in ["EXPONENTIAL", "PERMUTE_AND_FLIP"] {
        // As many as the score of "none stands out".
        let none = (1.0 + (1.0 / DELTA).ln() / epsilon).ceil() as usize;
        let base = crowd(none, Row { id: 2, word: "crowd", ..EXTREME });
        for (what, word) in [("who is alone", "solo"), ("who is one of many", "crowd")] {
            cases.push(Case {
                what: format!("{mechanism} of unknown candidates, {what}"),
                sql: format!(
                    "SELECT ARGMAX {mechanism}(eps={eps}, delta={DELTA}) word FROM people GROUP BY word"
                ),
                unit: unique(),
                base: base.clone(),
                person: vec![Row { word, ..EXTREME }],
                delta: DELTA,
                shown: Shown::Chosen,
                variant: word != "solo",
            });
        }
        cases.push(Case {
            what: format!("{mechanism} of unknown candidates, alone in two of a list of 2"),
            sql: format!(
                "SELECT TOP 2 {mechanism}(eps={eps}, delta={DELTA}, groups=2) word FROM people GROUP BY word"
            ),
            unit: several(5),
            base,
            person: vec![EXTREME, Row { word: "alone", ..EXTREME }],
            delta: DELTA,
            shown: Shown::Chosen,
            variant: true,
        });
    }
    cases
}

/// Groups whose keys are not declared: the person alone in one or two of them, or one of many.
pub fn grouped(eps: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (mechanism, aggregate) in [
        ("LAPLACE", "COUNT(DISTINCT id)"),
        ("LAPLACE", "SUM(n)"),
        ("LAPLACE", "AVG(n)"),
        ("GAUSSIAN", "COUNT(DISTINCT id)"),
        ("GAUSSIAN", "SUM(n)"),
    ] {
        let case = |what: &str, groups: u64, words: &[&'static str]| Case {
            what: format!("{mechanism} {aggregate}, groups of the data, {what}"),
            sql: format!(
                "SELECT word, {mechanism}(eps={eps}, delta={DELTA}, rows=1, groups={groups}) {aggregate} AS r FROM people GROUP BY word"
            ),
            unit: several(5),
            base: crowd(8, Row { id: 2, word: "crowd", ..EXTREME }),
            person: words.iter().map(|word| Row { word, ..EXTREME }).collect(),
            delta: DELTA,
            shown: Shown::Groups(&["solo", "alone", "crowd"]),
            variant: false,
        };
        cases.push(case("who is alone", 1, &["solo"]));
        cases.push(case("who is one of many", 1, &["crowd"]).variant());
        cases.push(case("alone in two", 2, &["solo", "alone"]).variant());
    }
    cases
}
