//! Where one row's value lies, as far as a release is concerned: by domains and what is written,
//! never by the width of a type.

use super::*;

/// The bounds of the first release of a query.
fn bounds(sql: &str) -> Option<(i128, i128)> {
    let unit = Unit::Column { column: "id".into(), max_rows: Some(3), unique: false };
    let analysis = analyzed(sql, &world(unit))?;
    let measure = &analysis.parts()[0].measures()[0];
    // The histogram of a range that is found has none of its own.
    measure.clause.finding.is_none().then_some((measure.lo, measure.hi))
}

fn bounds_of(call: &str) -> Option<(i128, i128)> {
    bounds(&format!("SELECT LAPLACE(eps=1) {call} FROM t"))
}

/// s and ls are 'p' or 'q', f is true or false.
#[test]
fn casts_and_functions_of_small_domains_have_the_range_of_their_results() {
    for (call, expected) in [
        ("SUM(CAST(f AS INT))", (0, 1)),
        ("AVG(CAST(f AS INT))", (0, 1)),
        ("SUM(CAST(a > 3 AS BIGINT))", (0, 1)),
        ("SUM(CAST(f AS TINYINT) + a)", (0, 11)),
        ("SUM(CHARACTER_LENGTH(s))", (1, 1)),
        ("SUM(ASCII(s))", (112, 113)),
        ("SUM(ASCII(UPPER(ls)))", (80, 81)),
        ("SUM(CHARACTER_LENGTH(CASE WHEN a > 3 THEN s ELSE 'ppp' END))", (1, 3)),
        ("SUM(CHARACTER_LENGTH(COALESCE(s, 'none')))", (1, 4)),
        ("SUM(STRPOS(s, 'q'))", (0, 1)),
        ("SUM(i1)", (-3, 7)),
        ("SUM(CAST(a AS TINYINT))", (0, 10)),
        ("SUM(b % 4)", (-3, 3)),
    ] {
        assert_eq!(bounds_of(call), Some(expected), "{call}");
    }
}

/// Each was answered with the noise of two thousand million, or of a hundred.
#[test]
fn the_width_of_a_type_is_no_range() {
    for call in [
        "SUM(i2)",
        "SUM(u1)",
        "AVG(u4)",
        "SUM(i2 + 1)",
        "SUM(b + 1)",
        "SUM(2025 - b)",
        "SUM(-b)",
        "SUM(a * b)",
        "SUM(ABS(CAST(u1 AS INT)))",
        "SUM(b / 4)",
        "SUM(n)",
        "SUM(CHARACTER_LENGTH(c))",
        "SUM(CAST(b AS TINYINT))",
        "SUM(CAST(y AS INT))",
        "SUM(CAST(c AS INT))",
        "SUM(COALESCE(i2, a))",
        "SUM(GREATEST(u1, a))",
        "SUM(CASE WHEN f THEN u1 ELSE a END)",
        "SUM(i2) FILTER (WHERE i2 > 0)",
        "VAR_POP(u1)",
    ] {
        assert_eq!(bounds_of(call), None, "{call}");
    }
    for call in ["MEDIAN(i2)", "MAX(u1)", "QUANTILE(u4, 0.25)"] {
        assert_eq!(bounds(&format!("SELECT EXPONENTIAL(eps=1) {call} FROM t")), None, "{call}");
    }
    // Without two ends, a sum on a grid may be any number.
    for (inner, of) in [
        ("SUM(i2)", "v"),
        ("MIN(u1)", "v"),
        ("MAX(CAST(i2 AS INT))", "v"),
        ("SUM(y)", "v"),
        ("AVG(y)", "v"),
        ("SUM(GREATEST(y, 0))", "LEAST(v, 5)"),
        ("AVG(GREATEST(y, 0))", "LEAST(v, 5)"),
        ("AVG(LEAST(y, 0))", "GREATEST(v, -5)"),
    ] {
        let sql = format!(
            "SELECT LAPLACE(eps=1) SUM({of}) FROM (SELECT id, {inner} AS v FROM t GROUP BY id) AS q"
        );
        assert_eq!(bounds(&sql), None, "{inner}");
    }
}

/// What has no range for a release is computed with all the same.
#[test]
fn types_bound_what_is_not_released() {
    for (call, expected) in [
        ("SUM(CLAMP(i2 + 1, 0, 9))", (0, 9)),
        ("SUM(CLAMP(u1 * 2 - i2, 0, 9))", (0, 9)),
        ("SUM(i2) FILTER (WHERE i2 BETWEEN 0 AND 5)", (0, 5)),
        ("COUNT(*) FILTER (WHERE i2 + 1 > 3)", (0, 1)),
        ("SUM(CLAMP(-CAST(i2 AS INT), 0, 9))", (0, 9)),
        ("SUM(CLAMP(2025 - b, 0, 9))", (0, 9)),
        ("SUM(LEAST(GREATEST(b, 0) + 1, 9))", (1, 9)),
        ("COUNT(*) FILTER (WHERE -b * a > 3)", (0, 1)),
    ] {
        assert_eq!(bounds_of(call), Some(expected), "{call}");
    }
    for inner in ["SUM(i2)", "SUM(b - a)"] {
        let sql = format!(
            "SELECT LAPLACE(eps=1) SUM(CLAMP(v, 0, 9)) FROM (SELECT id, {inner} AS v FROM t GROUP BY id) AS q"
        );
        assert_eq!(bounds(&sql), Some((0, 9)), "{inner}");
    }
}
