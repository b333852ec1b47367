//! Statements from a grammar over the dialect: most are well formed, many are answered.
//!
//! In: dice. Out: a statement about the tables of [`super::world`]: releases of all kinds over
//! filters, joins, unions, subqueries and groups by person, and ordinary SQL above them.

use crate::privacy::sensitivity::Dice;

/// What may stand in FROM, and its columns by type.
struct Source {
    sql: &'static str,
    unit: &'static str,
    numbers: &'static [&'static str],
    texts: &'static [&'static str],
    /// Keys with a domain.
    keys: &'static [&'static str],
}

const SOURCES: [Source; 17] = [
    Source {
        sql: "adult",
        unit: "id",
        numbers: &["age", "hours_per_week", "income", "id"],
        texts: &["name", "note", "workclass"],
        keys: &["sex", "status", "race", "age / 40", "age > 50"],
    },
    Source {
        sql: "users",
        unit: "user_id",
        numbers: &["age"],
        texts: &["name", "city"],
        keys: &["age / 60"],
    },
    Source {
        sql: "orders",
        unit: "user_id",
        numbers: &["price", "qty", "order_id"],
        texts: &["city"],
        keys: &["product", "qty", "EXTRACT(QUARTER FROM ts)"],
    },
    Source {
        sql: "bids",
        unit: "bidder",
        numbers: &["bid"],
        texts: &["CAST(bidder AS VARCHAR)"],
        keys: &["bid > 2"],
    },
    Source {
        sql: "visits",
        unit: "patient",
        numbers: &["stay", "fee", "visit"],
        texts: &["note"],
        keys: &["ward", "stay", "paid", "EXTRACT(MONTH FROM day)"],
    },
    Source {
        sql: "purchases",
        unit: "customer",
        numbers: &["total", "no"],
        texts: &["status"],
        keys: &["status"],
    },
    Source {
        sql: "lines",
        unit: "order_no",
        numbers: &["quantity", "price"],
        texts: &["CAST(part AS VARCHAR)"],
        keys: &["part", "quantity"],
    },
    Source {
        sql: "payments",
        unit: "buyer",
        numbers: &["amount"],
        texts: &["CAST(order_no AS VARCHAR)"],
        keys: &["amount > 5"],
    },
    Source {
        sql: "users JOIN orders ON users.user_id = orders.user_id",
        unit: "orders.user_id",
        numbers: &["price", "qty", "age"],
        texts: &["name", "orders.city"],
        keys: &["product"],
    },
    Source {
        sql: "customers c LEFT JOIN purchases p ON p.customer = c.id",
        unit: "c.id",
        numbers: &["balance", "total"],
        texts: &["name", "p.status"],
        keys: &["status"],
    },
    Source {
        sql: "lines JOIN parts ON part = parts.no",
        unit: "order_no",
        numbers: &["quantity", "price"],
        texts: &["supplier"],
        keys: &["label", "supplier"],
    },
    Source {
        sql: "(SELECT user_id, qty, price, city, product FROM orders WHERE qty > 1 UNION ALL SELECT user_id, qty + 1, price, city, product FROM orders) q",
        unit: "user_id",
        numbers: &["qty", "price"],
        texts: &["city"],
        keys: &["product"],
    },
    Source {
        sql: "(SELECT customer, SUM(total) AS spent, COUNT(*) AS n, MAX(no) AS last FROM purchases GROUP BY customer) q",
        unit: "customer",
        numbers: &["spent", "n", "last"],
        texts: &["CAST(n AS VARCHAR)"],
        keys: &["n"],
    },
    Source {
        sql: "(SELECT user_id, qty, price, city, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY price, qty) AS r FROM orders) q",
        unit: "user_id",
        numbers: &["qty", "price", "r"],
        texts: &["city"],
        keys: &["r", "qty"],
    },
    Source {
        sql: "(SELECT DISTINCT user_id, product, qty, city FROM orders) q",
        unit: "user_id",
        numbers: &["qty"],
        texts: &["city"],
        keys: &["product", "qty"],
    },
    Source {
        sql: "nations n LEFT JOIN customers c ON c.nation = n.code",
        unit: "c.id",
        numbers: &["c.balance"],
        texts: &["c.name"],
        keys: &["n.name", "n.code"],
    },
    Source {
        sql: "(SELECT CASE WHEN sex = 'Male' THEN age ELSE hours_per_week END AS m, * FROM adult) q",
        unit: "id",
        numbers: &["m", "age", "income"],
        texts: &["name", "note"],
        keys: &["sex", "status", "m"],
    },
];

fn literal(dice: &mut Dice) -> &'static str {
    dice.pick(&["0", "1", "-3", "2.5", "40", "NULL", "100000", "-0.0", "9223372036854775807"])
}

fn number(dice: &mut Dice, of: &Source, depth: usize) -> String {
    if depth == 0 {
        let column = dice.pick(of.numbers);
        return match dice.below(6) {
            0 => format!("CLAMP({column}, -2, 7)"),
            1 => literal(dice).to_owned(),
            _ => column.to_owned(),
        };
    }
    let one = number(dice, of, depth - 1);
    let two = number(dice, of, depth - 1);
    match dice.below(14) {
        0 => format!("({one} + {two})"),
        1 => format!("({one} - {two})"),
        2 => format!("({one} * {two})"),
        3 => format!("({one} / {two})"),
        4 => format!("({one} % {two})"),
        5 => format!("ABS({one})"),
        6 => format!("{}({one}, {two})", dice.pick(&["LEAST", "GREATEST", "COALESCE", "NULLIF"])),
        7 => format!("CASE WHEN {} THEN {one} ELSE {two} END", condition(dice, of, 0)),
        8 => format!(
            "CAST({one} AS {})",
            dice.pick(&["BIGINT", "DOUBLE", "INT", "DECIMAL(10, 2)", "VARCHAR"])
        ),
        9 => format!("CLAMP({one}, {}, {})", literal(dice), literal(dice)),
        10 => format!("CLAMP(CAST({} AS BIGINT), 0, 9)", dice.pick(of.texts)),
        11 => format!("CHARACTER_LENGTH({})", dice.pick(of.texts)),
        12 => {
            format!("{}({one})", dice.pick(&["ROUND", "FLOOR", "CEIL", "TRUNC", "-", "sqrt", "ln"]))
        }
        _ => one,
    }
}

fn text(dice: &mut Dice, of: &Source) -> String {
    let column = dice.pick(of.texts);
    match dice.below(7) {
        0 => format!("UPPER({column})"),
        1 => format!("left({column}, {})", dice.below(40)),
        2 => format!("REVERSE({column})"),
        3 => format!("SUBSTR({column}, 2, 30)"),
        4 => format!("COALESCE({column}, 'none')"),
        _ => column.to_owned(),
    }
}

fn condition(dice: &mut Dice, of: &Source, depth: usize) -> String {
    if depth > 0 {
        let (one, two) = (condition(dice, of, depth - 1), condition(dice, of, depth - 1));
        return match dice.below(4) {
            0 => format!("({one} AND {two})"),
            1 => format!("({one} OR {two})"),
            2 => format!("NOT ({one})"),
            _ => one,
        };
    }
    let depth = usize::from(dice.one_in(3));
    let value = number(dice, of, depth);
    match dice.below(13) {
        0..=2 => {
            format!("{value} {} {}", dice.pick(&["=", "<>", "<", "<=", ">", ">="]), literal(dice))
        }
        3 => format!("{value} BETWEEN {} AND {}", literal(dice), literal(dice)),
        4 => format!("{value} IN (1, {}, 3)", literal(dice)),
        5 => format!("{} LIKE '%a%'", text(dice, of)),
        6 => format!("{} = 'Rome'", text(dice, of)),
        7 => format!("{value} IS {}NULL", dice.pick(&["", "NOT "])),
        8 => format!("{value} IS DISTINCT FROM {}", number(dice, of, 0)),
        9 => format!("{} > {}", of.unit, literal(dice)),
        10 => format!(
            "{} {}IN (SELECT user_id FROM users WHERE age > 30)",
            of.unit,
            dice.pick(&["", "NOT "])
        ),
        11 => format!(
            "EXISTS (SELECT 1 FROM purchases p2 WHERE p2.customer = {} AND p2.total > 2)",
            of.unit
        ),
        _ => format!("{value} > (SELECT {} COUNT(*) FROM bids)", mechanism(dice, "LAPLACE", "")),
    }
}

/// A mechanism and its parameters.
fn mechanism(dice: &mut Dice, name: &str, bounds: &str) -> String {
    let price = dice.pick(&[
        "eps=1",
        "eps=1",
        "eps=0.001",
        "eps => 0.5",
        "epsilon=1e-3",
        "rho=0.005",
        "within=40",
        "within=9, confidence=0.5, jointly",
        "complete_above=40",
    ]);
    let delta = match name {
        "GAUSSIAN" => dice.pick(&[", delta=1e-16", ", delta=1e-16", ", delta=1e-17", ""]),
        _ => dice.pick(&["", "", "", "", ", delta=1e-16"]),
    };
    let odd = dice.pick(&["", "", "", "", "", "", "", "", ", monotonic=false"]);
    format!("{name}({price}{delta}{bounds}{odd})")
}

fn bounds(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => ", rows=1".to_owned(),
        7 => ", rows=auto".to_owned(),
        6 => format!(", total={}", 1 + dice.below(5)),
        1 => format!(", groups={}", 1 + dice.below(3)),
        2 | 3 => format!(", rows={}, groups={}", 1 + dice.below(3), 1 + dice.below(3)),
        _ => String::new(),
    }
}

fn filter(dice: &mut Dice, of: &Source) -> String {
    match dice.one_in(5) {
        true => format!(" FILTER (WHERE {})", condition(dice, of, 1)),
        false => String::new(),
    }
}

fn aggregate(dice: &mut Dice, of: &Source) -> String {
    let depth = dice.below(3);
    let value = number(dice, of, depth);
    let value = if dice.one_in(3) { value } else { format!("CLAMP({value}, -1, 30)") };
    let call = match dice.below(15) {
        14 => format!("CDF({value}, {})", dice.pick(&["1", "3", "20", "0", "2.5"])),
        13 => format!("MODE({})", text(dice, of)),
        0 | 1 => "COUNT(*)".to_owned(),
        12 => {
            let name = dice.pick(&["CORR", "COVAR", "COVAR_POP", "REGR_SLOPE", "REGR_INTERCEPT"]);
            let other = number(dice, of, depth);
            format!("{name}({value}, CLAMP({other}, -1, 30))")
        }
        2 => format!("COUNT({value})"),
        3 => format!("COUNT(DISTINCT {})", of.unit),
        4 => format!("COUNT(DISTINCT {})", text(dice, of)),
        5 if dice.one_in(3) => format!(
            "{}({}{})",
            dice.pick(&["COUNT", "COUNT", "SUM", "AVG", "STDDEV"]),
            dice.pick(&["", "DISTINCT "]),
            literal(dice)
        ),
        5..=7 => format!("SUM({value})"),
        8 => format!("SUM({value}, contribution_bounds_per_group => (0, 5))"),
        9 => format!("AVG({value}, contribution_bounds_per_row => (0, 5))"),
        10 => format!("{}({value})", dice.pick(&["VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP"])),
        _ => format!("AVG({value})"),
    };
    call + &filter(dice, of)
}

fn number_release(dice: &mut Dice, of: &Source) -> String {
    let bounds = bounds(dice);
    if dice.one_in(5) {
        let name = dice.pick(&["EXPONENTIAL", "PERMUTE_AND_FLIP", "NOISY_MAX", "AUTO"]);
        let depth = usize::from(dice.one_in(3));
        let value = number(dice, of, depth);
        let call = match dice.below(5) {
            4 => {
                let list = dice.pick(&["(0.5)", "(0.1, 0.9)", "(0.2, 0.4, 0.6, 0.8)", "(1, 0)"]);
                format!("QUANTILES({value}, {list})")
            }
            0 => format!("MEDIAN({value})"),
            1 => format!("QUANTILE({value}, {})", dice.pick(&["0", "0.5", "1", "0.99", "1.5"])),
            2 => format!("MIN({value})"),
            _ => format!("MAX({value})"),
        };
        return format!("{} {call}{}", mechanism(dice, name, &bounds), filter(dice, of));
    }
    let name = dice.pick(&["LAPLACE", "LAPLACE", "LAPLACE", "GAUSSIAN", "AUTO"]);
    let release = match dice.one_in(8) {
        true => aggregate(dice, of),
        false => spelled(&mechanism(dice, name, &bounds), &aggregate(dice, of)),
    };
    match dice.below(9) {
        0 => format!("round({release} / 2.0)"),
        1 => format!("CASE WHEN {release} > 3 THEN 'many' END"),
        2 => format!("{release} / {}", literal(dice)),
        3 => format!("CAST({release} AS VARCHAR)"),
        4 => format!("{}({release})", dice.pick(&["error_low", "error_high"])),
        _ => release,
    }
}

/// A release in one of its two spellings. The texts choose, so that the dice fall as before.
fn spelled(mechanism: &str, aggregate: &str) -> String {
    match mechanism.split_once('(') {
        Some((name, parameters)) if (mechanism.len() + aggregate.len()).is_multiple_of(5) => {
            format!("{}({aggregate}, {parameters}", name.to_lowercase())
        }
        _ => format!("{mechanism} {aggregate}"),
    }
}

fn key(dice: &mut Dice, of: &Source) -> String {
    match dice.below(10) {
        0 => text(dice, of),
        1 => number(dice, of, 1),
        2 => of.unit.to_owned(),
        _ => dice.pick(of.keys).to_owned(),
    }
}

fn keys_clause(dice: &mut Dice) -> &'static str {
    dice.pick(&[
        "",
        "",
        "",
        "",
        " KEYS ('a', NULL)",
        " KEYS (1, 2)",
        " KEYS DOMAIN",
        " KEYS TABLE census(status)",
    ])
}

fn numbers(dice: &mut Dice, of: &Source) -> String {
    let keys: Vec<String> = (0..dice.pick(&[0, 0, 1, 1, 2])).map(|_| key(dice, of)).collect();
    let releases: Vec<String> =
        (0..1 + dice.below(3)).map(|i| format!("{} AS r{i}", number_release(dice, of))).collect();
    let listed = [keys.clone(), releases].concat().join(", ");
    let depth = dice.below(2);
    let filtered = match dice.one_in(2) {
        true => format!(" WHERE {}", condition(dice, of, depth)),
        false => String::new(),
    };
    let grouped: Vec<String> =
        keys.iter().map(|key| format!("{key}{}", keys_clause(dice))).collect();
    let grouped = match grouped.is_empty() {
        true => dice.pick(&["", "", "", " GROUP BY ()"]).to_owned(),
        false => format!(" GROUP BY {}", sets(dice, &grouped)),
    };
    let having = dice.pick(&[
        "",
        "",
        "",
        "",
        " HAVING r0 > 2",
        " HAVING COUNT(*) > 2",
        " HAVING GROUPING(status) = 0",
        " HAVING error_low(r0) > 2",
    ]);
    format!("SELECT {listed} FROM {}{filtered}{grouped}{having}{}", of.sql, ending(dice))
}

/// Some keys, as they are or in sets.
fn sets(dice: &mut Dice, keys: &[String]) -> String {
    let (first, all) = (&keys[0], keys.join(", "));
    match dice.below(15) {
        0 => format!("ROLLUP ({all})"),
        7 => format!("ROLLUP ({all}) CONSISTENT"),
        8 => format!("ROLLUP ({all}) CONSISTENT NONNEGATIVE INTEGER"),
        9 => format!("{first}, ROLLUP ({all}) CONSISTENT INTEGER"),
        1 => format!("CUBE ({all})"),
        2 => format!("GROUPING SETS (({all}), ({first}), ())"),
        3 => format!("{first}, ROLLUP ({all})"),
        4 => format!("GROUPING SETS (CUBE ({first}), ({all}), {first})"),
        5 => format!("{all} WITH ROLLUP"),
        6 => format!("ROLLUP (1, ({all}))"),
        _ => all,
    }
}

fn ending(dice: &mut Dice) -> &'static str {
    dice.pick(&[
        "",
        "",
        "",
        " ORDER BY 1",
        " ORDER BY r0 DESC LIMIT 2",
        " ORDER BY error_high(r0) DESC LIMIT 2",
        " LIMIT 1 OFFSET 1",
        " LIMIT 0",
    ])
}

fn selection(dice: &mut Dice, of: &Source) -> String {
    let selector =
        dice.pick(&["ARGMAX", "ARGMAX", "ARGMIN", "TOP 2", "BOTTOM 3", "TOP 0", "TOP 100"]);
    let name = dice.pick(&[
        "EXPONENTIAL",
        "EXPONENTIAL",
        "GENERALIZED_EXPONENTIAL",
        "PERMUTE_AND_FLIP",
        "NOISY_MAX",
        "AUTO",
    ]);
    let bounds = bounds(dice);
    let mechanism = mechanism(dice, name, &bounds);
    let filtered = match dice.one_in(3) {
        true => format!(" WHERE {}", condition(dice, of, 0)),
        false => String::new(),
    };
    if dice.one_in(3) {
        let list = dice.pick(&[
            "(1, 2, 5)",
            "RANGE(0, 10, 1)",
            "RANGE(0.5, 3)",
            "RANGE(1, 1000000, 0.5)",
            "(DATE '2025-01-01')",
        ]);
        let value = number(dice, of, 1);
        let score = match dice.below(5) {
            0 => format!("REVENUE({value}, p)"),
            1 => format!("REVENUE({value}, p, {})", number(dice, of, 0)),
            2 => format!("COUNT(*) FILTER (WHERE {value} >= p)"),
            3 => format!("SUM(CLAMP({value} - p, -5, 5))"),
            _ => format!("SUM(ABS({value} - p))"),
        };
        let prior = dice.pick(&["", "", "", " PRIOR LOG_UNIFORM"]);
        return format!(
            "SELECT {selector} {mechanism} p IN {list} BY {score}{prior} FROM {}{filtered}",
            of.sql
        );
    }
    let target = key(dice, of);
    let score = match dice.below(4) {
        0 => format!(" BY {}", aggregate(dice, of)),
        _ => String::new(),
    };
    let list =
        dice.pick(&["", "", "", " IN ('tea', 'wine')", " IN (1, 2, 3)", " IN RANGE(0, 9, 1)"]);
    let prior = dice.pick(&["", "", "", "", " PRIOR census(status, share)", " PRIOR LOG_UNIFORM"]);
    let outer = match dice.one_in(4) {
        true => Some(key(dice, of)),
        false => None,
    };
    let (shown, grouped) = match &outer {
        Some(outer) => (format!("{outer}, "), format!("{outer}, {target}")),
        None => (String::new(), target.clone()),
    };
    format!(
        "SELECT {shown}{selector} {mechanism} {target}{list}{score}{prior} FROM {}{filtered} GROUP BY {grouped}",
        of.sql
    )
}

/// Bare aggregates: the PER QUERY default, or OPTIONS.
fn plain(dice: &mut Dice, of: &Source) -> String {
    let options = match dice.below(6) {
        0 => String::new(),
        1 => "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) ".to_owned(),
        2 => "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-16, max_groups_contributed=2) "
            .to_owned(),
        3 => "WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=0.01, max_rows_contributed=3) ".to_owned(),
        4 => "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3/2, delta=1e-16, max_groups_contributed=2, group_selection_epsilon=1/4,) "
            .to_owned(),
        _ => format!(
            "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.1, delta=1e-16, min_privacy_units_per_group={}, group_selection_strategy={}, max_groups_contributed=1) ",
            dice.below(9),
            dice.pick(&["PUBLIC_GROUPS", "LAPLACE_THRESHOLD"])
        ),
    };
    let n = 1 + dice.below(2);
    let aggregates: Vec<String> =
        (0..n).map(|i| format!("{} AS r{i}", aggregate(dice, of))).collect();
    let key = key(dice, of);
    match dice.below(3) {
        0 => format!("SELECT {options}{} FROM {}", aggregates.join(", "), of.sql),
        1 => format!(
            "SELECT {options}{key} FROM {} GROUP BY {key} ORDER BY {} DESC LIMIT {}",
            of.sql,
            aggregate(dice, of),
            dice.below(4)
        ),
        _ => format!(
            "SELECT {options}{key}, {} FROM {} GROUP BY {}{}",
            aggregates.join(", "),
            of.sql,
            sets(dice, std::slice::from_ref(&key)),
            ending(dice)
        ),
    }
}

fn response(dice: &mut Dice, of: &Source) -> String {
    let value = match dice.below(3) {
        0 => format!("({})", condition(dice, of, 0)),
        1 => format!("CASE WHEN {} THEN 'yes' ELSE 'no' END", condition(dice, of, 0)),
        _ => key(dice, of),
    };
    let keys = dice.pick(&["KEYS (1, 2, 3)", "KEYS TABLE roster(id)", "", "KEYS (NULL)"]);
    let inner = format!(
        "SELECT {}, RANDOMIZED_RESPONSE(eps=1) {value} AS w FROM {} GROUP BY {} {keys}",
        of.unit, of.sql, of.unit
    );
    match dice.below(3) {
        0 => format!("SELECT w, count(*) FROM ({inner}) GROUP BY w"),
        1 => format!(
            "SELECT RR_COUNT(w, {}, 1) FROM ({inner})",
            dice.pick(&["'yes'", "TRUE", "1", "NULL"])
        ),
        _ => inner,
    }
}

/// Raw rows, in all the ways one might ask.
fn raw(dice: &mut Dice, of: &Source) -> String {
    let (text, number) = (text(dice, of), number(dice, of, 1));
    match dice.below(8) {
        0 => format!("SELECT {text}, {number} FROM {}", of.sql),
        1 => format!("SELECT * FROM {} ORDER BY {number} LIMIT 1", of.sql),
        2 => format!("SELECT label FROM regions WHERE label IN (SELECT {text} FROM {})", of.sql),
        3 => format!("SELECT (SELECT MAX({text}) FROM {}) AS m", of.sql),
        4 => format!("SELECT label FROM regions UNION SELECT {text} FROM {}", of.sql),
        5 => format!("SELECT r.label, {text} FROM regions r, {}", of.sql),
        6 => format!("SELECT {} {text} FROM {}", mechanism(dice, "LAPLACE", ""), of.sql),
        _ => format!("SELECT string_agg({text}, ',') FROM {} GROUP BY {number}", of.sql),
    }
}

fn query(dice: &mut Dice, depth: usize) -> String {
    let of = &SOURCES[dice.below(SOURCES.len())];
    let one = match dice.below(12) {
        0..=4 => numbers(dice, of),
        5..=7 => selection(dice, of),
        8 | 9 => plain(dice, of),
        10 => response(dice, of),
        _ => raw(dice, of),
    };
    if depth == 0 || !dice.one_in(4) {
        return one;
    }
    match dice.below(7) {
        0 => format!("WITH q AS ({one}) SELECT * FROM q"),
        1 => format!("WITH q AS ({one}) SELECT a.*, b.* FROM q a JOIN q b ON TRUE"),
        2 => format!("SELECT count(*) AS n FROM ({one}) z"),
        3 => format!("({one}) UNION ALL ({})", query(dice, depth - 1)),
        4 => format!(
            "SELECT w.title, z.* FROM wards w LEFT JOIN ({one}) z ON TRUE WHERE w.beds > 10"
        ),
        5 => format!("SELECT beds FROM wards WHERE beds > ({one})"),
        _ => format!("SELECT *, row_number() OVER () AS place FROM ({one}) z"),
    }
}

/// A statement about a role, with its options in any order and number.
fn role(dice: &mut Dice) -> String {
    const OPTIONS: [&str; 11] = [
        "LOGIN",
        "NOLOGIN",
        "DEFAULTS",
        "NODEFAULTS",
        "PASSWORD 'a long one'",
        "ENCRYPTED PASSWORD 'it''s a long one'",
        "PASSWORD 'SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='",
        "VALID UNTIL '2099-01-01 12:00'",
        "VALID UNTIL 'infinity'",
        "WITH",
        "PASSWORD",
    ];
    let role = dice.pick(&["ROLE", "USER"]);
    let name = dice.pick(&["lab", "\"co-lab\"", "Eve", "owner", "\"a b\""]);
    let begin = match dice.below(9) {
        6 => {
            return dice
                .pick(&[
                    "SHOW GRANTS",
                    "SHOW GRANTS FOR lab",
                    "SHOW TEMPLATES",
                    "SHOW CREATE TEMPLATE older",
                    "DROP TEMPLATE IF EXISTS older",
                    "CREATE OR REPLACE TEMPLATE older(than BIGINT BETWEEN (0, 90) DEFAULT 18) AS SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM adult WHERE age > $than",
                    "CREATE TEMPLATE IF NOT EXISTS t(s VARCHAR IN ('Male')) AS SELECT COUNT(*) AS n FROM adult WHERE sex = $s AND age > $a",
                    "SELECT * FROM older(20)",
                    "SELECT n + 1 AS m FROM older(than => 91) WHERE n > 0",
                    "SELECT COUNT(*) FROM older(20), adult",
                    "SET GRANTS REQUIRED",
                    "SET GRANTS NOT REQUIRED",
                ])
                .to_owned();
        }
        7 | 8 => {
            let what = dice.pick(&[
                "SELECT ON adult",
                "SELECT ON ALL TABLES",
                "SELECT ON adult, nobody",
                "USAGE ON BUDGET shop",
                "USAGE ON ALL BUDGETS",
                "EXECUTE ON TEMPLATE older",
                "EXECUTE ON ALL TEMPLATES",
                "Eve",
                "lab, \"co-lab\"",
                "ALL ON adult",
            ]);
            let (verb, toward) = dice.pick(&[("GRANT", "TO"), ("REVOKE", "FROM")]);
            let more = dice.pick(&["", ", lab"]);
            return format!("{verb} {what} {toward} {name}{more}");
        }
        0 => return format!("DROP {role} {name}"),
        1 => return format!("DROP {role} IF EXISTS {name}"),
        2 => return "SHOW ROLES".to_owned(),
        3 => format!("CREATE {role} {name}"),
        4 => format!("CREATE {role} IF NOT EXISTS {name} WITH"),
        _ => format!("ALTER {role} {name}"),
    };
    let options: Vec<&str> = (0..dice.below(4)).map(|_| dice.pick(&OPTIONS)).collect();
    format!("{begin} {}", options.join(" "))
}

/// One statement.
pub fn statement(dice: &mut Dice) -> String {
    match dice.below(41) {
        40 => role(dice),
        0 => dice.pick(&["SHOW TABLES", "SHOW PRIVACY", "SHOW PRIVACY BUDGET shop", "DESCRIBE adult", "DESCRIBE nobody", "SHOW CREATE TABLE adult", "SHOW CREATE BUDGET shop", "ALTER TABLE orders SUGGEST PRIVACY", "ALTER PRIVACY BUDGET shop SET PER QUERY (max=1)", "ALTER TABLE adult SET PRIVACY SPENT (epsilon=1) TOGETHER WITH users", "CREATE PRIVACY BUDGET few FOR adult LIMIT (epsilon=2, delta=1e-6) ACCOUNTANT COUPONS (epsilon=0.05)", "CREATE OR REPLACE EXTERNAL TABLE adult STORED AS CSV LOCATION 'x'", "CREATE EXTERNAL TABLE parts STORED AS PARQUET PARTITIONED BY (year INT, who) LOCATION '/etc/*/x?[ab].parquet'", "CREATE EXTERNAL TABLE lake (id BIGINT) STORED AS DELTA LOCATION '/etc/visits'", "CREATE EXTERNAL TABLE far STORED AS POSTGRES LOCATION 'postgresql://u:p@h/d' OPTIONS (table 'a.b')", "CREATE EXTERNAL TABLE near (id INT) STORED AS SQLITE LOCATION '/etc/x.db' OPTIONS ('table' 'a')", "DROP TABLE IF EXISTS nobody", "SHOW PRIVACY BUDGET shop BY ANALYST", "SHOW PRIVACY BUDGET BY ANALYST", "ALTER PRIVACY BUDGET shop ADD SLICE lab LIMIT (epsilon=3, delta=1e-7)", "ALTER PRIVACY BUDGET shop ALTER SLICE \"Eve-2\" SET LIMIT (rho=1)", "ALTER PRIVACY BUDGET shop DROP SLICE lab", "ALTER PRIVACY BUDGET shop SET REPLAY (OWN)", "CREATE PRIVACY BUDGET own FOR adult LIMIT (epsilon=2) REPLAY (OFF) SPENT (epsilon=1)", "CREATE PRIVACY BUDGET parts FOR adult LIMIT (epsilon=2) SLICE lab LIMIT (epsilon=1) SPENT (epsilon=0.5)", "ALTER TABLE adult SET PRIVACY SPENT (epsilon=1) BY lab", "DROP RELEASE TABLE IF EXISTS nobody", "DROP RELEASE TABLE adult", "GRANT SELECT ON adult TO lab2", "REVOKE SELECT ON nobody FROM lab2", "SHOW RELEASE TABLE adult", "SHOW CREATE RELEASE TABLE nobody", "CREATE RELEASE TABLE adult AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult", "CREATE RELEASE TABLE kept AS SELECT 1 AS x", "ALTER PRIVACY BUDGET shop PARTITION BY status", "ALTER PRIVACY BUDGET shop DROP PARTITION", "CREATE PRIVACY BUDGET cells FOR adult LIMIT (epsilon=2) PARTITION BY status", "SHOW PRIVACY BUDGET shop BY CELL", "SHOW PRIVACY BUDGET BY CELL", "DROP SYNTHETIC TABLE IF EXISTS nobody", "DROP SYNTHETIC TABLE adult", "SHOW SYNTHETIC adult", "CREATE SYNTHETIC TABLE made AS AIM(eps=1) SELECT age FROM undeclared", "CREATE SYNTHETIC TABLE made WITH (rows=5, size='1KB', weights=PERSON, buckets=(fee (0, 5), stay LOG 3)) AS MWEM(rho=1, rounds=2) SELECT fee, stay FROM visits", "ALTER TABLE adult REFRESH", "ALTER TABLE adult RELOAD", "ALTER TABLE adult SET ABOUT 50 PEOPLE", "ALTER TABLE adult SET PRIVACY FLOOR 9 (beta=0.1)", "ALTER TABLE visits DROP PRIVACY FLOOR", "ALTER TABLE adult SET RULES (no_key=(sex), no_filter=(age), join_only=(id), aggregates=(count, laplace))", "ALTER TABLE adult SET RULES (no_key=(a.b)) FOR \"Eve-2\"", "ALTER TABLE visits DROP RULES FOR lab", "SHOW RULES", "SHOW PRIVACY STATEMENT FOR shop", "SHOW PRIVACY REQUESTS", "REQUEST PRIVACY BUDGET shop ADD (epsilon=1) REASON 'more'", "APPROVE REQUEST 1", "DENY REQUEST 1 REASON 'no'", "SELECT FRESH COUNT(*) AS n, LAPLACE(eps=1) SUM(age) AS s FROM adult", "SELECT FRESH LAPLACE(eps=1) COUNT(*) AS n FROM adult", "EXPLAIN PRIVACY TUNE SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits ON visits", "EXPLAIN PRIVACY TUNE SELECT ward, LAPLACE(eps=1, delta=1e-6) SUM(CLAMP(fee, 0, 9)) AS n FROM visits GROUP BY ward ON undeclared", "EXPLAIN PRIVACY FORMAT JSON TUNE SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits ON parts", "EXPLAIN PRIVACY TUNE SELECT status, AUTO(rho=1) AVG(age) FROM adult GROUP BY 1 KEYS ('a') ON census"]).to_owned(),
        1 => {
            let column = dice.pick(&["adult(income)", "orders(price)", "lines(quantity)", "users(name)", "bids(bid)", "visits(fee)", "undeclared(id)"]);
            let bounds = bounds(dice);
            format!("ANALYZE PRIVACY DOMAIN {column} WITH (eps=0.5{bounds})")
        }
        2 => "SELECT analyst, mechanism, epsilon, parameters FROM hushql.ledger ORDER BY sequence DESC LIMIT 3".to_owned(),
        3 | 4 => {
            let format = dice.pick(&["", "FORMAT JSON ", "FORMAT TEXT "]);
            let stored = dice.pick(&["", "", "CREATE RELEASE TABLE kept AS ", "CREATE SYNTHETIC TABLE made AS AIM(eps=1) ", "CREATE SYNTHETIC TABLE made WITH (rows=9, weights=PERSON) AS AUTO(eps=1, delta=1e-9) ", "CREATE SYNTHETIC TABLE made AS SMALL_DATABASE(eps=1, rows=2) "]);
            format!("EXPLAIN PRIVACY {format}{stored}{}", query(dice, 1))
        }
        5 => format!("EXPLAIN {}", query(dice, 1)),
        _ => query(dice, 1),
    }
}
