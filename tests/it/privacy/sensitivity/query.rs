//! Random queries over one table: everything that the dialect allows below a release and around it.

use super::{Dice, columns};
use hushql_vault::catalog::Unit;

/// Columns of numbers of all widths.
const NUMBERS: [&str; 13] =
    ["i1", "i2", "i4", "u1", "u2", "u4", "u8", "h", "g", "n", "f2", "w", "CLAMP(u8, 2, 9)"];

/// Types that a cast may lead to.
pub(crate) const TYPES: [&str; 18] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "TINYINT UNSIGNED",
    "SMALLINT UNSIGNED",
    "INT UNSIGNED",
    "BIGINT UNSIGNED",
    "REAL",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(38, 0)",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP(0)",
    "TIMESTAMP WITH TIME ZONE",
];

/// A text.
pub(super) fn text(dice: &mut Dice) -> String {
    let of = dice.pick(&["c", "s", "ls", "vs", "c", "dc"]);
    match dice.below(18) {
        14 => format!("({of} || {})", dice.pick(&["s", "'-p'", "vs", "ls", "a", "d"])),
        15 => format!("CONCAT({of}, {})", dice.pick(&["s", "'-'", "f", "i1", "NULL"])),
        16 => format!("CONCAT_WS({}, {of}, s, vs)", dice.pick(&["'-'", "''", "ls"])),
        9 => format!("REPLACE({of}, 'p', '{}')", dice.pick(&["", "1", "qq"])),
        11 => format!("REGEXP_REPLACE({of}, '{}', 'q')", dice.pick(&["p", "^.", "[a-p]+", "$"])),
        10 => format!("SPLIT_PART({of}, '{}', {})", dice.pick(&["p", "1", ""]), 1 + dice.below(2)),
        0 => format!("{}({of})", dice.pick(&["UPPER", "LOWER", "REVERSE"])),
        1 => format!("{}({of})", dice.pick(&["BTRIM", "LTRIM", "RTRIM"])),
        2 => format!("{}({of}, 'p')", dice.pick(&["BTRIM", "LTRIM", "RTRIM"])),
        3 => format!("{}({of}, {})", dice.pick(&["LEFT", "RIGHT"]), dice.below(3)),
        4 => format!("SUBSTR({of}, {})", 1 + dice.below(3)),
        5 => format!("SUBSTRING({of} FROM 1 FOR {})", dice.below(3)),
        6 => format!("COALESCE({of}, s)"),
        7 => format!("NULLIF({of}, 'p')"),
        8 => format!("(CASE WHEN {} THEN {of} ELSE 'p' END)", predicate(dice, 0)),
        _ => of.to_owned(),
    }
}

/// A number of a text.
fn of_text(dice: &mut Dice) -> String {
    let of = text(dice);
    match dice.below(4) {
        0 => format!("STRPOS({of}, 'p')"),
        3 => format!("REGEXP_COUNT({of}, '{}')", dice.pick(&["p", "", "[^p]"])),
        _ => {
            let name = dice.pick(&["CHARACTER_LENGTH", "OCTET_LENGTH", "BIT_LENGTH", "ASCII"]);
            format!("{name}({of})")
        }
    }
}

const INTERVALS: [&str; 8] = [
    "1 day",
    "1 month",
    "-14 months",
    "3 weeks",
    "36 hours",
    "1 year 2 days",
    "1.5 seconds",
    "200 years",
];

/// A date or timestamp.
pub(super) fn days(dice: &mut Dice) -> String {
    let of = dice.pick(&["d", "ts", "t0", "t3", "tn", "tz", "d", "ts"]);
    match dice.below(8) {
        3 => format!("({of} {} INTERVAL '{}')", dice.pick(&["+", "-"]), dice.pick(&INTERVALS)),
        4 => format!("(INTERVAL '{}' + {of})", dice.pick(&INTERVALS)),
        0 => {
            const PERIODS: [&str; 10] = [
                "microsecond",
                "millisecond",
                "second",
                "minute",
                "hour",
                "day",
                "week",
                "month",
                "quarter",
                "year",
            ];
            format!("DATE_TRUNC('{}', {of})", dice.pick(&PERIODS))
        }
        1 => format!("CAST({of} AS {})", dice.pick(&["DATE", "TIMESTAMP", "TIMESTAMP(0)"])),
        2 => format!("CLAMP({of}, DATE '2024-02-01', DATE '2024-04-01')"),
        _ => of.to_owned(),
    }
}

/// A condition on the time between two moments.
fn span(dice: &mut Dice) -> String {
    const MOMENTS: [&str; 6] = [
        "ts",
        "CAST(t0 AS TIMESTAMP)",
        "CAST(t3 AS TIMESTAMP)",
        "CAST(d AS TIMESTAMP)",
        "tn",
        "t0",
    ];
    let by = dice.pick(&INTERVALS);
    let other =
        dice.pick(&["TIMESTAMP '2024-03-01 00:00:00'", "CAST(t3 AS TIMESTAMP)", "ts", "t0"]);
    let between = format!("({} - {other})", dice.pick(&MOMENTS));
    match dice.below(4) {
        0 => format!("INTERVAL '{by}' <= {between}"),
        1 => {
            format!("{between} BETWEEN INTERVAL '-{} days' AND INTERVAL '{by}'", 1 + dice.below(90))
        }
        _ => format!("{between} {} INTERVAL '{by}'", dice.pick(&["<", ">=", "=", "<>"])),
    }
}

/// Whether a statement compares the time between two moments with an interval. Plain DataFusion
/// compares months, days and nanoseconds one after the other: 40 days, which are nanoseconds
/// there, are less than one.
pub(crate) fn compares_spans(sql: &str) -> bool {
    let compared = ["<", ">", "=", "BETWEEN"].map(|op| format!("{op} INTERVAL '"));
    compared.iter().any(|text| sql.contains(text)) || sql.contains("' <= (")
}

/// A number of a date.
fn of_days(dice: &mut Dice) -> String {
    const PARTS: [&str; 12] = [
        "year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "hour", "minute",
        "second", "epoch",
    ];
    match dice.below(5) {
        0 => {
            const UNITS: [&str; 9] = [
                "year",
                "quarter",
                "months",
                "WEEK",
                "day",
                "hour",
                "minute",
                "second",
                "millisecond",
            ];
            let name = dice.pick(&["date_diff", "datediff"]);
            format!("{name}('{}', {}, {})", dice.pick(&UNITS), days(dice), days(dice))
        }
        1 => format!("(CAST({} AS DATE) - {})", days(dice), dice.pick(&["d", "DATE '2024-03-01'"])),
        2 => {
            let unit = dice.pick(&["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR"]);
            format!("timestampdiff({unit}, {}, {})", days(dice), days(dice))
        }
        _ => format!("date_part('{}', {})", dice.pick(&PARTS), days(dice)),
    }
}

/// A random numeric expression; often clamped, so that it has a range.
pub(super) fn number(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return match dice.below(3) {
            0 => dice.pick(&NUMBERS).to_owned(),
            _ => dice
                .pick(&[
                    "a",
                    "a",
                    "x",
                    "m",
                    "b",
                    "y",
                    "1",
                    "2.5",
                    "-3",
                    "CLAMP(b, -4, 9)",
                    "CLAMP(y, -1.5, 2)",
                ])
                .to_owned(),
        };
    }
    let one = number(dice, depth - 1);
    let two = number(dice, depth - 1);
    match dice.below(28) {
        // In small letters, since SQLite rounds in another way.
        24 => {
            let name = dice.pick(&["round", "trunc"]);
            format!("{name}({one}, {})", dice.pick(&["-2", "-1", "0", "1", "2"]))
        }
        25 => {
            let bounds = dice.pick(&["-2, 6, 4", "6, -2.5, 3", "0, 0.5, 1"]);
            format!("WIDTH_BUCKET({one}, {bounds})")
        }
        26 => format!("mod({one}, {})", dice.pick(&["3", "-2", "2.5", "0"])),
        27 => format!("({} / {one})", dice.pick(&["m", "n", "CLAMP(n, -9, 9)"])),
        19 => of_text(dice),
        20 => of_days(dice),
        21 => format!("CAST({} AS {})", any(dice), dice.pick(&TYPES)),
        22 => format!("TRY_CAST({} AS {})", any(dice), dice.pick(&TYPES)),
        23 => format!(
            "(CASE {one} WHEN 1 THEN {two} WHEN {two} THEN 3 {} END)",
            dice.pick(&["", "ELSE 2"])
        ),
        0 | 1 => format!("({one} + {two})"),
        2 | 3 => format!("({one} - {two})"),
        4 | 5 => format!("({one} * {two})"),
        6 => format!("({one} / {two})"),
        7 => format!("({one} % {two})"),
        8 => format!("ABS({one})"),
        9 => format!("LEAST({one}, {two})"),
        10 => format!("GREATEST({one}, {two})"),
        11 => format!("COALESCE({one}, {two})"),
        12 => format!("(CASE WHEN {} THEN {one} ELSE {two} END)", predicate(dice, 0)),
        13 => format!("(CASE WHEN {} THEN {one} END)", predicate(dice, 0)),
        14 => format!("CAST({one} AS {})", dice.pick(&TYPES)),
        15 => format!("CLAMP(CAST(c AS {}), -2, 6)", dice.pick(&["BIGINT", "DOUBLE"])),
        16 => format!("(-{one})"),
        17 => format!("NULLIF({one}, {two})"),
        18 => format!("{}({one})", dice.pick(&["FLOOR", "CEIL", "ROUND", "TRUNC"])),
        _ => dice
            .pick(&[
                "EXTRACT(MONTH FROM d)",
                "CHARACTER_LENGTH(s)",
                "CLAMP(CHARACTER_LENGTH(c), 0, 4)",
                "date_part('day', d)",
            ])
            .to_owned(),
    }
}

pub(super) fn clamped(dice: &mut Dice) -> String {
    let depth = dice.below(3);
    let expr = number(dice, depth);
    match dice.below(4) {
        0 => expr,
        1 => format!("CLAMP({expr}, -3, 5)"),
        2 => format!("CLAMP({expr}, 0, 2)"),
        _ => format!("CLAMP({expr}, -7, -1)"),
    }
}

pub(super) fn predicate(dice: &mut Dice, depth: usize) -> String {
    if depth > 0 && dice.one_in(2) {
        let (one, two) = (predicate(dice, depth - 1), predicate(dice, depth - 1));
        return match dice.below(3) {
            0 => format!("({one} AND {two})"),
            1 => format!("({one} OR {two})"),
            _ => format!("(NOT {one})"),
        };
    }
    let value = number(dice, 0);
    match dice.below(25) {
        24 => span(dice),
        14 => {
            format!("{}({}, 'p')", dice.pick(&["STARTS_WITH", "ENDS_WITH", "CONTAINS"]), text(dice))
        }
        15 => {
            let (not, like) = (dice.pick(&["", "NOT "]), dice.pick(&["LIKE", "ILIKE"]));
            format!("{} {not}{like} '{}'", text(dice), dice.pick(&["p%", "%1%", "_"]))
        }
        16 => format!(
            "({}) IS {}",
            predicate(dice, 0),
            dice.pick(&["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN"])
        ),
        17 => format!("{value} NOT BETWEEN 0 AND 5"),
        18 => format!("{} NOT IN ('p', 'q')", text(dice)),
        19 => format!("{} {} {}", text(dice), dice.pick(&["=", "<>", "<", ">="]), text(dice)),
        20 => format!("{} {} DATE '2024-06-01'", days(dice), dice.pick(&["=", "<>", "<", ">="])),
        21 => format!("{} < DATE '2024-01-01' + INTERVAL '3 month'", days(dice)),
        22 => format!("({value} IS NOT DISTINCT FROM {})", number(dice, 0)),
        23 => format!("{} IS {}NULL", any(dice), dice.pick(&["", "NOT "])),
        0 => format!("{value} > {}", dice.pick(&["0", "2", "-1", "9223372036854775807"])),
        1 => format!("{value} <= {}", dice.pick(&["0", "2.5", "-1"])),
        2 => format!("{value} BETWEEN 0 AND 5"),
        3 => format!("a IN (1, 3, {})", dice.pick(&["10", "NULL", "b"])),
        4 => "c LIKE '%p%'".to_owned(),
        5 => "s = 'p'".to_owned(),
        6 => dice
            .pick(&[
                "s IS NOT NULL",
                "REGEXP_LIKE(s, '^p')",
                "REGEXP_LIKE(c, 'p|q')",
                "REGEXP_INSTR(s, 'p') > 1",
            ])
            .to_owned(),
        7 => "c = 12".to_owned(),
        8 => "id > 2".to_owned(),
        9 => "f".to_owned(),
        10 => dice
            .pick(&["f IS NOT TRUE", "f IS NOT TRUE", "f = 'yes'", "COALESCE(f, 'f') IN ('t')"])
            .to_owned(),
        11 => "d < DATE '2024-06-01'".to_owned(),
        12 => "UPPER(c) = 'P'".to_owned(),
        _ => format!("({value} IS DISTINCT FROM b)"),
    }
}

/// A random query; the engine may refuse it.
pub(super) fn query(dice: &mut Dice, unit: &Unit) -> String {
    let bounds = match (unit, dice.below(8)) {
        (Unit::Row, _) | (_, 0) => String::new(),
        (_, 1) => ", rows=1".to_owned(),
        (_, 2) => ", groups=2".to_owned(),
        (_, 7) => dice.pick(&[", rows=auto", ", rows=auto", ", rows=auto, total=5"]).to_owned(),
        (_, 5) => format!(", total={}", 1 + dice.below(4)),
        (_, 6) => format!(", rows=2, total={}, groups={}", 1 + dice.below(4), 1 + dice.below(3)),
        (_, 3) => format!(", rows={}, groups={}", 1 + dice.below(3), 1 + dice.below(3)),
        _ => ", rows=2, groups=1".to_owned(),
    };
    let filter = |dice: &mut Dice| {
        if dice.one_in(4) {
            format!(" FILTER (WHERE {})", predicate(dice, 1))
        } else {
            String::new()
        }
    };
    let aggregate = |dice: &mut Dice| {
        let call = match dice.below(22) {
            21 => {
                let bins = dice.pick(&["1", "2", "3", "7", "40"]);
                let of = dice.pick(&["a", "x", "d", "ts", "m", "CLAMP(y, -1.5, 2)"]).to_owned();
                let of = if dice.one_in(2) { of } else { clamped(dice) };
                format!("CDF({of}, {bins}{})", per(dice, "row"))
            }
            19 | 20 => {
                let name = dice.pick(&[
                    "CORR",
                    "COVAR",
                    "COVAR_POP",
                    "COVAR_SAMP",
                    "REGR_SLOPE",
                    "REGR_INTERCEPT",
                    "REGR_R2",
                ]);
                format!("{name}({}, {})", clamped(dice), clamped(dice))
            }
            0 => dice.pick(&["COUNT(*)", "COUNT(*)", "count_if(x > 1)"]).to_owned(),
            1 | 16 => format!("COUNT({})", any(dice)),
            2 => "COUNT(DISTINCT id)".to_owned(),
            3..=5 => format!("SUM({})", clamped(dice)),
            6..=7 => format!("COUNT(DISTINCT {})", any(dice)),
            8..=10 | 18 => {
                let name = dice.pick(&["VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_POP"]);
                format!("{name}({}{})", clamped(dice), per(dice, "row"))
            }
            12..=14 => {
                let (name, how) = (dice.pick(&["SUM", "AVG"]), dice.pick(&["row", "group"]));
                format!("{name}({}{})", number(dice, 1), per(dice, how))
            }
            15 => {
                let of = dice.pick(&["*", "*", "a", "c"]);
                format!("COUNT({of}, contribution_bounds_per_group => (0, {}))", 1 + dice.below(3))
            }
            17 => {
                format!("COUNT({}, contribution_bounds_per_row => (0, 1))", dice.pick(&["*", "a"]))
            }
            _ => format!("AVG({})", clamped(dice)),
        };
        format!("{call}{}", filter(dice))
    };
    let condition = match dice.below(20) {
        0 => {
            let one = dice.pick(&["COUNT(*)", "AVG(a)", "SUM(CLAMP(b, 0, 5))"]);
            format!(" WHERE a > (SELECT LAPLACE(eps=1, rows=2) {one} FROM t)")
        }
        1..10 => format!(" WHERE {}", predicate(dice, 2)),
        _ => String::new(),
    };
    let from = from(dice);
    if dice.one_in(2) {
        return selection(dice, &bounds, &from, &condition, &filter);
    }
    let from = match dice.below(12) {
        0 => "(SELECT * EXCEPT (a), a, COALESCE(upper(s), 'none') || ls AS made, a / 2 AS half FROM t) AS t"
            .to_owned(),
        _ => from,
    };
    let made = from.contains("AS made");
    let (keys, group) = match dice.below(3) {
        0 if made => {
            let key = dice.pick(&["made", "half", "lower(made)", "half * 2", "made, half"]);
            (String::new(), format!(" GROUP BY {key}"))
        }
        0 => {
            let key = dice.pick(&["i1", "i4", "u2", "u8", "g", "ls", "f", "d"]);
            (format!("{key}, "), format!(" GROUP BY {key}"))
        }
        _ => {
            let (keys, group) = dice.pick(&[
                ("", ""),
                ("", ""),
                ("s, ", " GROUP BY s"),
                ("a, ", " GROUP BY a"),
                ("c, ", " GROUP BY c KEYS ('p', 'r', NULL)"),
                ("c, ", " GROUP BY c KEYS TABLE shares(word)"),
                ("f, s, ", " GROUP BY f, s"),
                ("s, ", " GROUP BY s KEYS DOMAIN"),
                ("", " GROUP BY a % 2"),
                ("", " GROUP BY EXTRACT(MONTH FROM d)"),
                ("", " GROUP BY date_trunc('month', d)"),
                ("", " GROUP BY CAST(CAST(d AS TIMESTAMP) AS DATE)"),
                ("", " GROUP BY COALESCE(upper(s), 'none')"),
                ("", " GROUP BY date_trunc('week', ts)"),
                ("", " GROUP BY date_bin(INTERVAL '3 days', d)"),
                ("", " GROUP BY date_bin(INTERVAL '5 hours', ts, '2025-01-01')"),
                ("", " GROUP BY strftime(d, '%b %d')"),
                ("", " GROUP BY to_char(ts, 'HH24')"),
                ("", " GROUP BY to_char(d, 'MON Day')"),
                ("", " GROUP BY isodow(d)"),
                ("", " GROUP BY timestampdiff(MONTH, d, DATE '2025-03-01')"),
                ("", " GROUP BY date_format(ts, '%H')"),
                ("HISTOGRAM(a, 2), ", ""),
                ("HISTOGRAM(CLAMP(y, -2, 2), 3), f, ", " GROUP BY f"),
                ("", " GROUP BY a / 3 * 3"),
                ("", " GROUP BY FLOOR(CLAMP(y, -5, 5) / 2) * 2"),
                ("", " GROUP BY s || '-' || f"),
                ("", " GROUP BY CONCAT(s, ls)"),
                ("", " GROUP BY round(a, -1)"),
                ("", " GROUP BY round(CLAMP(y, -5, 5), 1)"),
                ("", " GROUP BY trunc(m, 1)"),
                ("", " GROUP BY width_bucket(x, -2, 2, 3)"),
                ("", " GROUP BY width_bucket(y, 2, -2, 3)"),
                ("", " GROUP BY CASE WHEN b > 3 THEN 'high' ELSE 'low' END"),
                ("s, f, ", " GROUP BY ROLLUP (s, f)"),
                ("s, GROUPING(f, s) AS g, ", " GROUP BY CUBE (s, f)"),
                ("s, ", " GROUP BY s, ROLLUP (c KEYS ('p', NULL), f)"),
                ("f, ", " GROUP BY GROUPING SETS ((f), (s, f), (f), ())"),
                ("", " GROUP BY GROUPING SETS ((a % 2), (s KEYS DOMAIN, a % 2), ROLLUP (i4))"),
                ("", " GROUP BY GROUPING SETS (())"),
                ("s, ", " GROUP BY GROUPING SETS ((s), (s))"),
                ("f, ", " GROUP BY ROLLUP (f) CONSISTENT"),
                ("", " GROUP BY ROLLUP (b > 3, a % 2) CONSISTENT NONNEGATIVE INTEGER"),
            ]);
            (keys.to_owned(), group.to_owned())
        }
    };
    if dice.one_in(5) {
        let option = match (unit, dice.below(6)) {
            (Unit::Row, _) | (_, 0) => "",
            (_, 1) => ", max_rows_contributed=2",
            (_, 2) => ", max_groups_contributed=2",
            (_, 3) => ", max_rows_contributed=3, max_groups_contributed=1, privacy_unit_column=id",
            (_, 4) => ", group_selection_strategy=PUBLIC_GROUPS, max_groups_contributed=2",
            _ => ", delta=0.000001, max_groups_contributed=2",
        };
        let call = if dice.one_in(2) { quantile(dice, &filter) } else { aggregate(dice) };
        return format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1{option}) {keys}{call} AS r0, {} AS r1 FROM {from}{condition}{group}",
            aggregate(dice)
        );
    }
    if dice.one_in(40) {
        let of = dice.pick(&["s", "ls", "(a > 3)", "CASE WHEN x > 1 THEN 'high' ELSE 'low' END"]);
        return format!(
            "SELECT id, RANDOMIZED_RESPONSE(eps=1) {of} AS r0 FROM {from}{condition} GROUP BY id KEYS (1, 2, 3)"
        );
    }
    let releases: Vec<String> = (0..1 + dice.below(3))
        .map(|i| match dice.below(3) {
            0 => {
                let chooser = dice.pick(&CHOOSERS);
                format!("{chooser}(eps=1{bounds}) {} AS r{i}", quantile(dice, &filter))
            }
            _ => {
                let mechanism = dice.pick(&[
                    "LAPLACE(eps=1",
                    "LAPLACE(eps=1",
                    "LAPLACE(rho=0.1",
                    "AUTO(eps=1",
                    "AUTO(eps=1, delta=0.000001",
                    "GAUSSIAN(eps=1, delta=0.000001",
                ]);
                format!("{mechanism}{bounds}) {} AS r{i}", aggregate(dice))
            }
        })
        .collect();
    let releases = releases.join(", ");
    format!("SELECT {keys}{releases} FROM {from}{condition}{group}")
}

const CHOOSERS: [&str; 5] =
    ["EXPONENTIAL", "PERMUTE_AND_FLIP", "NOISY_MAX", "AUTO", "GENERALIZED_EXPONENTIAL"];

/// Named bounds.
fn per(dice: &mut Dice, what: &str) -> String {
    let bounds = dice.pick(&["(-2, 3)", "(0, 2.5)", "(1, 4)", "(-7, -1)"]);
    format!(", contribution_bounds_per_{what} => {bounds}")
}

/// The rows of t under the same names, in one of many ways.
fn from(dice: &mut Dice) -> String {
    let names: Vec<&str> = columns().iter().map(|(name, ..)| *name).collect();
    let listed = |changed: &[(&str, &str)]| -> String {
        let one = |name: &&str| match changed.iter().find(|(changed, _)| changed == name) {
            Some((_, by)) => format!("{by} AS {name}"),
            None => format!("t.{name}"),
        };
        names.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let (not, predicate) = (dice.pick(&["", "NOT "]), predicate(dice, 0));
    let rows = match dice.below(30) {
        0 | 1 => format!("SELECT {} FROM t WHERE a < 9", listed(&[("a", "a + 1"), ("x", "x * 2")])),
        2 | 3 => format!("SELECT {} FROM t", listed(&[("id", "a % 3")])),
        4 => format!(
            "SELECT DISTINCT {} FROM t WHERE {predicate}",
            listed(&[("y", "a"), ("b", "3")])
        ),
        5 => {
            let other = listed(&[("a", "b"), ("b", "a"), ("x", "h"), ("s", "ls"), ("c", "vs")]);
            format!(
                "SELECT {} FROM t UNION ALL SELECT {other} FROM t WHERE {predicate}",
                listed(&[])
            )
        }
        6 => {
            let having = dice.pick(&["", " HAVING COUNT(*) > 1"]);
            format!(
                "SELECT id, s, c, BOOL_OR(f) AS f, COUNT(*) FILTER (WHERE {predicate}) AS a, COUNT(DISTINCT b) AS b, AVG(CLAMP(y, -3, 4)) AS x, SUM(x) AS y, MIN(m) AS m, MAX(d) AS d FROM t GROUP BY id, s, c{having}"
            )
        }
        7 => {
            let others = ["id", "s", "c", "f"];
            let real = dice.pick(&["SUM(x)", "SUM(y)", "AVG(y)", "SUM(CAST(b AS DOUBLE) * y)"]);
            let spread = dice.pick(&["STDDEV", "STDDEV_POP", "VAR_SAMP", "VAR_POP"]);
            let call = |name: &&str| match *name {
                name if others.contains(&name) => name.to_owned(),
                "a" => format!("COUNT(*) FILTER (WHERE {predicate}) AS a"),
                "b" => "COUNT(DISTINCT b) AS b".to_owned(),
                "x" => "AVG(CLAMP(y, -3, 4)) AS x".to_owned(),
                "y" => format!("{real} AS y"),
                "g" => format!("{spread}(CLAMP(y, -1, 3)) AS g"),
                "m" => "MEDIAN(m) AS m".to_owned(),
                "h" => "MEDIAN(x) AS h".to_owned(),
                "i2" => "SUM(i2) AS i2".to_owned(),
                "d" => "ANY_VALUE(d) AS d".to_owned(),
                name => format!("{}({name}) AS {name}", if name < "i" { "MIN" } else { "MAX" }),
            };
            let list: Vec<String> = names.iter().map(call).collect();
            let having = dice.pick(&["", " HAVING COUNT(*) > 1"]);
            format!("SELECT {} FROM t GROUP BY id, s, c, f{having}", list.join(", "))
        }
        8 | 9 => {
            let call = dice.pick(&[
                "ROW_NUMBER()",
                "RANK()",
                "DENSE_RANK()",
                "LAG(a)",
                "LAG(a, 2)",
                "LEAD(a, 3, -4)",
                "FIRST_VALUE(a)",
                "COUNT(c)",
                "MAX(a)",
                "SUM(a)",
            ]);
            let order = dice.pick(&["a", "x DESC", "c, d", "ts", "dc", "tz DESC NULLS LAST"]);
            let window = format!("{call} OVER (PARTITION BY id ORDER BY {order})");
            let call =
                dice.pick(&["LAST_VALUE(x)", "AVG(CLAMP(y, -3, 4))", "SUM(CLAMP(x, -1, 2))"]);
            let last = format!(
                "{call} OVER (PARTITION BY id ORDER BY {order} ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)"
            );
            format!("SELECT {} FROM t", listed(&[("b", window.as_str()), ("x", last.as_str())]))
        }
        10 | 11 => {
            let join = dice.pick(&["JOIN", "LEFT JOIN"]);
            let list = listed(&[("b", "u.b"), ("c", "u.c"), ("y", "u.y"), ("ts", "u.ts")]);
            format!("SELECT {list} FROM t {join} t AS u ON t.id = u.id AND u.a > t.i1")
        }
        12 => format!(
            "SELECT {} FROM t WHERE id {not}IN (SELECT id FROM t WHERE {predicate})",
            listed(&[])
        ),
        13 => format!(
            "SELECT {} FROM t WHERE {not}EXISTS (SELECT 1 FROM t AS u WHERE u.id = t.id AND u.b > t.a)",
            listed(&[])
        ),
        _ => return "t".to_owned(),
    };
    format!("({rows}) q")
}

/// A random value that can be told apart; floats cannot.
pub(super) fn any(dice: &mut Dice) -> String {
    match dice.below(8) {
        4 => text(dice),
        5 => days(dice),
        6 => predicate(dice, 0),
        7 => dice.pick(&["bn", "dc", "f2", "w", "tz", "id"]).to_owned(),
        0 => number(dice, 1),
        1 => format!("(CASE WHEN {} THEN c ELSE s END)", predicate(dice, 0)),
        _ => dice
            .pick(&["s", "c", "d", "f", "m", "a", "b", "UPPER(c)", "b % 3", "CAST(x AS BIGINT)"])
            .to_owned(),
    }
}

fn quantile(dice: &mut Dice, filter: &dyn Fn(&mut Dice) -> String) -> String {
    let of = match dice.below(3) {
        0 => dice
            .pick(&[
                "a",
                "d",
                "x",
                "m",
                "h",
                "g",
                "i1",
                "i4",
                "u8",
                "ts",
                "CLAMP(y, -1.5, 2)",
                "CAST(CAST(d AS TIMESTAMP) AS DATE)",
                "CAST(DATE_TRUNC('month', d) AS DATE)",
            ])
            .to_owned(),
        _ => format!("CAST(CLAMP({}, -3, 5) AS BIGINT)", number(dice, 1)),
    };
    let of = if dice.one_in(3) { format!("{of}{}", per(dice, "row")) } else { of };
    let fraction = dice.pick(&["0", "0.1", "0.75", "1"]);
    let call = match dice.below(6) {
        0 => format!("MIN({of})"),
        1 => format!("MAX({of})"),
        3 => match of.split_once(", contribution") {
            Some((of, bounds)) => format!("QUANTILES({of}, (0.1, 0.5), contribution{bounds})"),
            None => format!("QUANTILES({of}, (0.25, 0.5, 0.75))"),
        },
        5 => match of.split_once(", contribution") {
            Some((of, bounds)) => format!("QUANTILE({of}, {fraction}, contribution{bounds})"),
            None => format!("PERCENTILE_CONT({of}, {fraction})"),
        },
        2 if !of.contains("=>") => format!("QUANTILE({of}, {fraction})"),
        _ => format!("MEDIAN({of})"),
    };
    format!("{call}{}", filter(dice))
}

/// A random selection.
fn selection(
    dice: &mut Dice,
    bounds: &str,
    from: &str,
    condition: &str,
    filter: &dyn Fn(&mut Dice) -> String,
) -> String {
    let selector = dice.pick(&["ARGMAX", "ARGMIN", "TOP 2", "BOTTOM 3"]);
    let mechanism = dice.pick(&CHOOSERS);
    let textbook = format!("{bounds}{}", dice.pick(&["", "", "", ", monotonic=false"]));
    let bounds = textbook.as_str();
    let (keys, group) =
        dice.pick(&[("", ""), ("", ""), ("f, ", " GROUP BY f"), ("s, ", " GROUP BY s")]);
    match dice.below(7) {
        0 => {
            let candidates = dice.pick(&[
                "(0, 1, 1.5, 3)",
                "RANGE(0, 5, 0.5)",
                "(2)",
                "RANGE(3, 4, 0.5)",
                "RANGE(0.5, 3)",
            ]);
            let (mechanism, prior) = dice.pick(&[
                ("EXPONENTIAL", ""),
                ("EXPONENTIAL", " PRIOR LOG_UNIFORM"),
                ("GENERALIZED_EXPONENTIAL", ""),
                ("AUTO", ""),
            ]);
            let bid = dice.pick(&["x", "a", "m", "b", "CLAMP(y, -1, 4)"]);
            let quantity = dice.pick(&["", "", ", CLAMP(b, 0, 3)", ", CLAMP(x, -2, 2)"]);
            format!(
                "SELECT {keys}{selector} {mechanism}(eps=1{bounds}) p IN {candidates} BY REVENUE({bid}, p{quantity}){}{prior} FROM {from}{condition}{group}",
                filter(dice)
            )
        }
        1 => {
            let candidates = dice.pick(&[
                "(-1, 0, 4)",
                "RANGE(-2, 5, 1)",
                "RANGE(-1, 3, 0.5)",
                "(0.5, 2)",
                "RANGE(-1, 4)",
            ]);
            let op = dice.pick(&[">=", ">", "<", "<="]);
            let score = match dice.below(2) {
                0 => "COUNT(*)".to_owned(),
                _ => format!("SUM({})", clamped(dice)),
            };
            let value = number(dice, 1);
            format!(
                "SELECT {keys}{selector} {mechanism}(eps=1{bounds}) t IN {candidates} BY {score} FILTER (WHERE {value} {op} t) FROM {from}{condition}{group}"
            )
        }
        2 => {
            let candidates = dice.pick(&["(1, 2, 5)", "RANGE(0, 3, 1)", "(0.5, 2)"]);
            let score = match dice.below(11) {
                8 => format!("SUM(t * {}){}", clamped(dice), filter(dice)),
                9 => format!("SUM(CASE WHEN a = t THEN t * {} ELSE 0 END)", clamped(dice)),
                10 => format!("SUM({}) FILTER (WHERE a <= t AND x > -2)", clamped(dice)),
                5 => format!("COUNT(a * t){}", filter(dice)),
                6 => format!("COUNT(DISTINCT {}) FILTER (WHERE a > t)", any(dice)),
                7 => format!(
                    "SUM({}) FILTER (WHERE {} AND a <> t)",
                    clamped(dice),
                    predicate(dice, 0)
                ),
                0 => "COUNT(*) FILTER (WHERE a = t)".to_owned(),
                1 => "SUM(CLAMP(x - t, -3, 4))".to_owned(),
                2 => format!("SUM(CLAMP(a * t, 0, 5)){}", filter(dice)),
                3 => format!("SUM({}) FILTER (WHERE x * t > 1)", clamped(dice)),
                _ => "COUNT(DISTINCT id) FILTER (WHERE a <> t)".to_owned(),
            };
            format!(
                "SELECT {keys}{selector} {mechanism}(eps=1{bounds}) t IN {candidates} BY {score} FROM {from}{condition}{group}"
            )
        }
        3 => {
            let score = match dice.below(5) {
                4 => format!("COUNT({})", any(dice)),
                0 => "COUNT(*)".to_owned(),
                1 => format!("SUM({})", clamped(dice)),
                2 => format!("COUNT(DISTINCT {})", any(dice)),
                _ => "COUNT(DISTINCT id)".to_owned(),
            };
            let filter = if score.contains("DISTINCT id") { String::new() } else { filter(dice) };
            let key = dice.pick(&["c", "b", "d", "vs", "ts", "u4", "n", "dc", "CAST(m AS INT)"]);
            let selector = dice.pick(&["ARGMAX", "TOP 2"]);
            let mechanism = dice.pick(&["EXPONENTIAL", "PERMUTE_AND_FLIP"]);
            format!(
                "SELECT {selector} {mechanism}(eps=1, delta=0.000001{bounds}) {key} BY {score}{filter} FROM {from}{condition} GROUP BY {key}"
            )
        }
        _ => {
            let score = match dice.below(5) {
                0 => String::new(),
                1 => " BY COUNT(DISTINCT id)".to_owned(),
                4 => format!(" BY COUNT(DISTINCT {})", any(dice)),
                2 => format!(" BY COUNT({})", number(dice, 1)),
                _ => format!(" BY SUM({})", clamped(dice)),
            };
            let score = if score.is_empty() { score } else { score + &filter(dice) };
            let (target, list) = dice.pick(&[
                ("s", ""),
                ("a", ""),
                ("c", " IN ('p', 'q', '12')"),
                ("f", ""),
                ("a % 3", ""),
                ("s", " IN ('q', NULL)"),
                ("a", " IN RANGE(0, 8, 2)"),
                ("i1", ""),
                ("ls", ""),
                ("vs", " IN ('p', '12')"),
            ]);
            let prior = match (target, mechanism) {
                ("s" | "c" | "ls" | "vs", "EXPONENTIAL") => {
                    dice.pick(&["", "", " PRIOR shares(word, weight)"])
                }
                _ => "",
            };
            // Without a list, the keys of the prior are the candidates.
            let list = if prior.is_empty() || dice.one_in(2) { list } else { "" };
            let (outer, group) = match dice.below(3) {
                0 if target != "f" => ("f, ", format!("f, {target}")),
                1 if target != "f" => ("f, ", format!("{target}, f")),
                _ => ("", target.to_owned()),
            };
            format!(
                "SELECT {outer}{selector} {mechanism}(eps=1{bounds}) {target}{list}{score}{prior} FROM {from}{condition} GROUP BY {group}"
            )
        }
    }
}
