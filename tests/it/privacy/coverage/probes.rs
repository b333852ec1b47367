//! Questions to the engine about everything there is: what it accepts must be generated.
//!
//! Functions and aggregates are all of DataFusion's, not those that are known to be accepted; each
//! is tried with several argument lists. Operators, types, parts of dates and clauses are those of
//! the language, not of the engine.

use std::collections::BTreeMap;

use datafusion::execution::SessionStateDefaults;
use hushql_engine::dialect::MechanismName;

use super::{Constructs, Gate};
use crate::privacy::relations::{accepted_over_several_tables, over_several_tables};
use crate::privacy::sensitivity::{TYPES, accepted, columns};

/// Everything that some accepted probe is made of, with the probe.
pub fn required(gate: Gate) -> BTreeMap<String, String> {
    let mut required = BTreeMap::new();
    let mut ask = |sql: String, answer: &dyn Fn(&str) -> Option<Constructs>| {
        for construct in answer(&sql).into_iter().flatten() {
            required.entry(construct).or_insert_with(|| sql.clone());
        }
    };
    match gate {
        Gate::One => {
            let counted = expressions().into_iter();
            let counted = counted.map(|e| format!("SELECT LAPLACE(eps=1) COUNT({e}) FROM t"));
            for sql in counted.chain(releases()).chain(choices()).chain(groups()) {
                ask(sql, &accepted);
            }
        }
        Gate::Several => {
            for sql in over_several_tables() {
                ask(sql, &accepted_over_several_tables);
            }
        }
    }
    required
}

/// Expressions over the columns of the one table.
fn expressions() -> Vec<String> {
    const ARGUMENTS: [&str; 27] = [
        "",
        "a",
        "x",
        "c",
        "d",
        "ts",
        "m",
        "f",
        "a, b",
        "x, y",
        "c, s",
        "c, 2",
        "c, 1, 2",
        "c, 'p'",
        "c, 'p', 'q'",
        "'month', d",
        "d, DATE '2024-01-01'",
        "'day', ts",
        "a, 0, 5",
        "x, 2",
        "'p', c",
        "b, a, 3",
        "a, -1",
        "m, 1",
        "x, 0, 5, 2",
        "INTERVAL '2 days', d",
        "ts, '%Y'",
    ];
    const OPERATORS: [&str; 30] = [
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
        "||",
        "&",
        "|",
        "#",
        "^",
        "<<",
        ">>",
        "~",
        "~*",
        "!~",
        "!~*",
        "LIKE",
        "DIV",
        "->",
        "@>",
    ];
    const FORMS: [&str; 48] = [
        "f IS TRUE",
        "f IS NOT TRUE",
        "f IS FALSE",
        "f IS NOT FALSE",
        "f IS UNKNOWN",
        "f IS NOT UNKNOWN",
        "a IS NULL",
        "a IS NOT NULL",
        "NOT f",
        "-a",
        "-x",
        "+a",
        "a BETWEEN 1 AND 3",
        "a NOT BETWEEN 1 AND 3",
        "a IN (1, 2)",
        "a NOT IN (1, 2)",
        "c LIKE 'p%'",
        "c NOT LIKE 'p%'",
        "c ILIKE 'p%'",
        "c NOT ILIKE 'p%'",
        "c LIKE 'p!%' ESCAPE '!'",
        "c LIKE s",
        "c SIMILAR TO 'p'",
        "CASE WHEN f THEN a END",
        "CASE WHEN f THEN a ELSE b END",
        "CASE a WHEN 1 THEN 2 ELSE 3 END",
        "CASE a WHEN 1 THEN 2 END",
        "(a, b) = (1, 2)",
        "(a, b) < (1, 2)",
        "(1, 2) IN ((a, b))",
        "d + INTERVAL '1 day'",
        "DATE '2024-01-01' + INTERVAL '1 day'",
        "d - DATE '2024-01-01'",
        "ts - INTERVAL '1' HOUR",
        "d > ts",
        "TRIM(c)",
        "TRIM(LEADING 'p' FROM c)",
        "SUBSTRING(c FROM 1 FOR 2)",
        "POSITION('p' IN c)",
        "OVERLAY(c PLACING 'p' FROM 1)",
        "EXISTS (SELECT 1 FROM t)",
        "a IN (SELECT a FROM t)",
        "(SELECT MAX(a) FROM t)",
        "a > ALL (SELECT a FROM t)",
        "ARRAY[a, b]",
        "{'k': a}",
        "ROW_NUMBER() OVER (ORDER BY a)",
        "1",
    ];
    const OTHER_TYPES: [&str; 4] = ["DECIMAL(50, 2)", "TIME", "BYTEA", "INTERVAL"];
    const PARTS: [&str; 21] = [
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "doy",
        "dow",
        "isodow",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
        "nanosecond",
        "epoch",
        "isoyear",
        "decade",
        "century",
        "millennium",
        "julian",
        "timezone",
    ];
    let mut names: Vec<String> = Vec::new();
    for function in SessionStateDefaults::default_scalar_functions() {
        names.push(function.name().to_owned());
    }
    names.push("clamp".to_owned());
    names.extend(["date_format", "strftime", "width_bucket"].map(ToOwned::to_owned));
    names.extend(["error_low", "error_high"].map(ToOwned::to_owned));
    names.sort();
    let calls = names.iter().flat_map(|name| {
        // Random and the like are refused by their volatility; all the others have at most four
        // arguments.
        ARGUMENTS.iter().map(move |arguments| format!("{name}({arguments})"))
    });
    let operands = [("a", "b"), ("x", "y"), ("f", "f"), ("c", "s"), ("m", "m"), ("d", "d")];
    let operators = OPERATORS
        .iter()
        .flat_map(|op| operands.iter().map(move |(left, right)| format!("({left} {op} {right})")));
    let casts = TYPES.iter().chain(&OTHER_TYPES).flat_map(|to| {
        ["CAST", "TRY_CAST"].into_iter().flat_map(move |cast| {
            ["a", "x", "c", "d", "ts", "f", "m", "'1'"]
                .into_iter()
                .map(move |from| format!("{cast}({from} AS {to})"))
        })
    });
    let parts = PARTS.iter().flat_map(|part| {
        ["d", "ts"].into_iter().flat_map(move |of| {
            [
                format!("EXTRACT({part} FROM {of})"),
                format!("date_part('{part}', {of})"),
                format!("date_trunc('{part}', {of})"),
            ]
        })
    });
    let columns = columns().into_iter().map(|(name, ..)| name.to_owned());
    calls
        .chain(operators)
        .chain(FORMS.iter().map(|form| (*form).to_owned()))
        .chain(casts)
        .chain(parts)
        .chain(columns)
        .collect()
}

/// Every mechanism before every aggregate.
fn releases() -> impl Iterator<Item = String> {
    const ARGUMENTS: [&str; 15] = [
        "*",
        "a",
        "a, (0.25, 0.5)",
        "a, 4",
        "a, (0.1, 0.5), contribution_bounds_per_row => (0, 5)",
        "id",
        "DISTINCT id",
        "DISTINCT s",
        "a, 0.5",
        "a, contribution_bounds_per_row => (0, 5)",
        "a, contribution_bounds_per_group => (0, 5)",
        "a, 0.5, contribution_bounds_per_row => (0, 5)",
        "*, contribution_bounds_per_group => (0, 2)",
        "a, b",
        "DISTINCT a",
    ];
    let mut names: Vec<String> =
        ["quantile", "quantiles", "cdf", "variance"].map(str::to_owned).into();
    for function in SessionStateDefaults::default_aggregate_functions() {
        names.push(function.name().to_owned());
    }
    names.sort();
    let mechanisms: Vec<String> = MechanismName::ALL
        .iter()
        .flat_map(|(name, _)| [format!("{name}(eps=1"), format!("{name}(eps=1, delta=0.000001")])
        .collect();
    let calls = names
        .into_iter()
        .flat_map(|name| ARGUMENTS.iter().map(move |arguments| format!("{name}({arguments})")));
    let marked = calls.flat_map(move |call| {
        let marked = mechanisms.iter().map(|m| format!("SELECT {m}) {call} FROM t"));
        let plain = [
            format!("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) {call} FROM t"),
            format!(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.000001) c, {call} FROM t GROUP BY c"
            ),
        ];
        marked.chain(plain).collect::<Vec<_>>()
    });
    let columns = columns().into_iter().flat_map(|(name, ..)| {
        [
            format!("SELECT LAPLACE(eps=1) SUM(CLAMP({name}, 0, 5)) FROM t"),
            format!("SELECT LAPLACE(eps=1) SUM({name}) FROM t"),
            format!("SELECT LAPLACE(eps=1) COUNT(DISTINCT {name}) FROM t"),
            format!("SELECT EXPONENTIAL(eps=1) MEDIAN({name}) FROM t"),
            format!("SELECT {name}, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY {name}"),
            format!(
                "SELECT {name}, LAPLACE(eps=1, delta=0.000001) COUNT(*) FROM t GROUP BY {name}"
            ),
        ]
    });
    let parameters = [
        "eps=1, rows=2",
        "eps=1, groups=2",
        "eps=1, rows=2, groups=1",
        "eps=1, total=2",
        "eps=1, rows=auto",
        "eps=1, monotonic=false",
        "rho=0.1",
        "within=5, confidence=0.9, jointly",
        "complete_above=50",
    ];
    let parameters = parameters.into_iter().flat_map(|parameters| {
        [
            format!("SELECT LAPLACE({parameters}) COUNT(*) FILTER (WHERE a > 1) FROM t"),
            format!("SELECT ARGMAX EXPONENTIAL({parameters}) s FROM t GROUP BY s"),
        ]
    });
    let options = [
        "epsilon=1, max_rows_contributed=2",
        "epsilon=1, max_groups_contributed=2",
        "epsilon=1, privacy_unit_column=id",
        "epsilon=1, group_selection_strategy=PUBLIC_GROUPS",
        "epsilon=1, delta=0.000001, group_selection_strategy=LAPLACE_THRESHOLD",
        "epsilon=1, delta=0.000001, min_privacy_units_per_group=3",
    ];
    let options = options.into_iter().flat_map(|options| {
        ["s", "c"].map(|key| {
            format!(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {key}, COUNT(*) FROM t GROUP BY {key}"
            )
        })
    });
    marked.chain(columns).chain(parameters).chain(options)
}

/// Every selector and mechanism, with every kind of candidates and scores.
fn choices() -> Vec<String> {
    const OF_KEYS: [&str; 6] = ["s", "s IN ('p', 'q')", "c", "a IN RANGE(0, 4, 2)", "f", "a % 3"];
    const SCORES: [&str; 11] = [
        "",
        "COUNT(*)",
        "COUNT(b)",
        "COUNT(DISTINCT id)",
        "COUNT(DISTINCT d)",
        "SUM(a)",
        "AVG(a)",
        "MIN(a)",
        "SUM(a) FILTER (WHERE f)",
        "VAR_POP(a)",
        "CORR(a, b)",
    ];
    const NAMED: [&str; 5] =
        ["IN (0, 1, 3)", "IN RANGE(0, 4, 1)", "IN RANGE(0, 4)", "IN ('p', 'q')", ""];
    const NAMED_SCORES: [&str; 14] = [
        "REVENUE(a, n)",
        "REVENUE(x, n, CLAMP(b, 0, 2))",
        "COUNT(*) FILTER (WHERE a >= n)",
        "COUNT(*) FILTER (WHERE a < n)",
        "SUM(a) FILTER (WHERE x <= n)",
        "SUM(CLAMP(x - n, -1, 1))",
        "COUNT(*) FILTER (WHERE a = n)",
        "COUNT(DISTINCT id) FILTER (WHERE a <> n)",
        "COUNT(*) FILTER (WHERE s = n)",
        "REVENUE(a, n) FILTER (WHERE f)",
        "AVG(a * n)",
        "COUNT(DISTINCT d) FILTER (WHERE a > n)",
        "COUNT(a * n)",
        "SUM(CLAMP(a * n, 0, 5))",
    ];
    let selectors = ["ARGMAX", "ARGMIN", "TOP 2", "BOTTOM 2"];
    let choosers: Vec<&str> = MechanismName::ALL.iter().map(|(name, _)| *name).collect();
    let mut all = Vec::new();
    for selector in selectors {
        for chooser in &choosers {
            for delta in ["", ", delta=0.000001"] {
                for target in OF_KEYS {
                    let key = target.split(" IN ").next().unwrap_or_default();
                    all.push(format!(
                        "SELECT {selector} {chooser}(eps=1{delta}) {target} FROM t GROUP BY {key}"
                    ));
                    all.push(format!(
                        "SELECT g, {selector} {chooser}(eps=1{delta}, rows=1, groups=2) {target} FROM (SELECT id, f AS g, a, b, s, c, f FROM t) AS q GROUP BY g, {key}"
                    ));
                }
            }
        }
        for score in SCORES {
            let by = if score.is_empty() { String::new() } else { format!(" BY {score}") };
            for target in ["s", "c IN ('p')", "a % 3"] {
                let key = target.split(" IN ").next().unwrap_or_default();
                all.push(format!(
                    "SELECT {selector} EXPONENTIAL(eps=1) {target}{by} FROM t GROUP BY {key}"
                ));
            }
            all.push(format!(
                "SELECT {selector} EXPONENTIAL(eps=1, delta=0.000001) c{by} FROM t GROUP BY c"
            ));
        }
    }
    for candidates in NAMED {
        for score in NAMED_SCORES {
            for prior in ["", " PRIOR LOG_UNIFORM"] {
                all.push(format!(
                    "SELECT ARGMAX EXPONENTIAL(eps=1) n {candidates} BY {score}{prior} FROM t"
                ));
            }
        }
    }
    for target in ["s", "c", "c IN ('p', 'q')"] {
        let key = target.split(" IN ").next().unwrap_or_default();
        all.push(format!(
            "SELECT ARGMAX EXPONENTIAL(eps=1) {target} PRIOR shares(word, weight) FROM t GROUP BY {key}"
        ));
    }
    all.push("SELECT id, RANDOMIZED_RESPONSE(eps=1) s FROM t GROUP BY id KEYS (1, 2)".to_owned());
    all.push("SELECT ARGMAX EXPONENTIAL(eps=1) price IN RANGE(0.5, 3) BY REVENUE(x, price) PRIOR LOG_UNIFORM FROM t".to_owned());
    all
}

/// Keys of groups, and what rows may stand below a release.
fn groups() -> impl Iterator<Item = String> {
    const KEYS: [&str; 16] = [
        "s",
        "c KEYS TABLE shares(word)",
        "c KEYS ('p', NULL)",
        "s KEYS DOMAIN",
        "c KEYS DOMAIN",
        "a, s",
        "f",
        "a % 2",
        "EXTRACT(MONTH FROM d)",
        "CASE WHEN a > 3 THEN 'high' ELSE 'low' END",
        "ROLLUP(s, f)",
        "ROLLUP(c KEYS ('p', NULL), s)",
        "ROLLUP(CASE WHEN a > 3 THEN 'high' ELSE 'low' END) CONSISTENT",
        "CUBE((s, f), c)",
        "GROUPING SETS ((s), (f, s), (s))",
        "GROUPING SETS (())",
    ];
    const FROM: [&str; 14] = [
        "(SELECT id, a + 1 AS a, s FROM t WHERE a < 9) AS q",
        "(SELECT DISTINCT id, a, s FROM t) AS q",
        "(SELECT id, s, COUNT(*) AS a FROM t GROUP BY id, s) AS q",
        "(SELECT id, s, COUNT(*) FILTER (WHERE f) AS a FROM t GROUP BY id, s HAVING COUNT(*) > 1) AS q",
        "(SELECT id, a, s FROM t UNION ALL SELECT id, b, c FROM t) AS q",
        "(SELECT id, a, s FROM t UNION SELECT id, b, c FROM t) AS q",
        "(SELECT id, s, ROW_NUMBER() OVER (PARTITION BY id ORDER BY a) AS a FROM t) AS q",
        "(SELECT id, a, s FROM t ORDER BY a LIMIT 3) AS q",
        "(SELECT t.id, t.a, u.s FROM t JOIN t AS u ON t.id = u.id) AS q",
        "(SELECT t.id, t.a, t.s FROM t LEFT JOIN t AS u ON t.id = u.id AND u.a > 3) AS q",
        "(SELECT id, a, s FROM t WHERE id IN (SELECT id FROM t WHERE a > 3)) AS q",
        "(SELECT id, a, s FROM t WHERE NOT EXISTS (SELECT 1 FROM t AS u WHERE u.id = t.id AND u.a > 3)) AS q",
        "(SELECT id, a, s FROM t EXCEPT SELECT id, b, c FROM t) AS q",
        "(VALUES (1, 2, 'p')) AS q(id, a, s)",
    ];
    let keys = KEYS.iter().flat_map(|keys| {
        [
            "LAPLACE(eps=1)",
            "LAPLACE(eps=1, delta=0.000001, groups=2)",
            "GAUSSIAN(eps=1, delta=0.000001)",
        ]
        .map(|m| format!("SELECT {m} COUNT(*) FROM t GROUP BY {keys}"))
    });
    let rows = FROM.iter().map(|from| {
        format!(
            "SELECT s, LAPLACE(eps=1, rows=2, groups=2) SUM(CLAMP(a, 0, 5)) FROM {from} GROUP BY s"
        )
    });
    keys.chain(rows)
}
