//! Rewrites the planner's messages in the words of the language.
//!
//! In: a message of DataFusion about names and types. Out: what is wrong with the query, and what
//! to write. A message that is unknown here keeps its sentence, with types as SQL writes them and
//! without dumps of the planner's structures. The planner has seen no data.
//!
//! ```text
//! Order by column out of bounds, specified: 3, max: 2     ORDER BY 3: the query shows 2 columns; write …
//! ```

use crate::catalog::quoted;
use crate::sql_type::in_literals;

/// The message if nothing more specific is known.
pub(super) const UNFIT: &str = "the types in this query do not fit together: write CAST(x AS DOUBLE), or a literal of the type that it is beside";

/// The planner's message if the arguments match no signature of a function. The call follows in
/// quotes.
const NO_SIGNATURE: &str = "No function matches the given name and argument types '";

/// The planner's names of types, and SQL's.
const TYPES: [(&str, &str); 27] = [
    ("LargeUtf8", "VARCHAR"),
    ("Utf8View", "VARCHAR"),
    ("Utf8", "VARCHAR"),
    ("String", "VARCHAR"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("Int8", "TINYINT"),
    ("Int16", "SMALLINT"),
    ("Int32", "INT"),
    ("Int64", "BIGINT"),
    ("Integer", "INT"),
    ("Float16", "DOUBLE"),
    ("Float32", "REAL"),
    ("Float64", "DOUBLE"),
    ("Float", "DOUBLE"),
    ("Boolean", "BOOLEAN"),
    ("Decimal", "DECIMAL"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
    ("Date32", "DATE"),
    ("Date64", "DATE"),
    ("Date", "DATE"),
    ("Timestamp", "TIMESTAMP"),
    ("Time32", "TIME"),
    ("Time64", "TIME"),
];

/// The engine's text for a message of the planner.
pub(super) fn said(sentence: &str) -> String {
    let plain = without_class(sentence);
    if plain.contains(NO_SIGNATURE) {
        return signature(plain);
    }
    known(plain).unwrap_or_else(|| in_types(without_dump(plain)))
}

/// A message without the names of error classes before it.
fn without_class(sentence: &str) -> &str {
    const CLASSES: [&str; 6] = [
        "Error during planning: ",
        "Schema error: ",
        "Execution error: ",
        "This feature is not implemented: ",
        "Arrow error: ",
        "Parser error: ",
    ];
    let mut rest = sentence;
    while let Some(without) = CLASSES.iter().find_map(|class| rest.strip_prefix(class)) {
        rest = without;
    }
    rest
}

/// The messages that analysts meet, each with what to write.
fn known(sentence: &str) -> Option<String> {
    if let Some((_, last)) = sentence.rsplit_once("coercion failed with: ") {
        return Some(said(last));
    }
    if sentence.starts_with("Order by column out of bounds") {
        let (n, columns) =
            (number_after(sentence, "specified: ")?, number_after(sentence, "max: ")?);
        return Some(no_column("ORDER BY", n, columns));
    }
    if sentence.starts_with("Cannot find column with position") {
        let n = number_after(sentence, "position ")?;
        return Some(no_column("GROUP BY", n, number_after(sentence, " to ")?));
    }
    if sentence.starts_with("Projections require unique expression names") {
        let name = sentence.split('"').nth(1)?;
        let (of, alias) = name.rsplit_once(" AS ").unwrap_or(("", name));
        // The planner names a cast after the expression that it casts.
        let parentheses = |sign: char| alias.matches(sign).count();
        let cast = of.strip_prefix("CAST(").filter(|_| parentheses('(') < parentheses(')'));
        let name = in_literals(cast.filter(|_| alias.ends_with(')')).unwrap_or(alias));
        let places: Vec<u64> = sentence
            .split("at position ")
            .skip(1)
            .filter_map(|rest| number_after(rest, ""))
            .collect();
        let [first, second] = places.as_slice() else { return None };
        return Some(format!(
            "columns {} and {} are both named {name}: give one its own alias, as in {name} AS other",
            first + 1,
            second + 1
        ));
    }
    if sentence.starts_with("Ambiguous reference to unqualified field") {
        let name = sentence.rsplit_once(" field ")?.1;
        let name = if name.starts_with('"') { name.to_owned() } else { quoted(name) };
        return Some(format!(
            "several tables have a column {name}: write the table or its alias in front of it, as in t.{name}"
        ));
    }
    if sentence.starts_with("Schema contains duplicate qualified field name") {
        let table = sentence.rsplit(' ').next()?.split('.').next()?;
        return Some(format!(
            "two tables are named {table}: give one its own alias, as in {table} AS other"
        ));
    }
    if let Some((_, name)) = sentence.split_once(" and unqualified field name ")
        && let Some(name) = name.strip_suffix(" which would be ambiguous")
    {
        let name = name.trim_matches('"');
        return Some(format!(
            "two columns are named {0}: give one its own alias, as in {0} AS other",
            quoted(name)
        ));
    }
    if sentence.starts_with("Cannot create filter with non-boolean predicate") {
        let what = in_literals(sentence.split('\'').nth(1)?);
        let of = in_types(sentence.rsplit(' ').next()?);
        return Some(format!(
            "a condition is true or false, and {what} is of type {of}: write a comparison, such as {what} IS NOT NULL"
        ));
    }
    if let Some(name) = sentence
        .strip_prefix("WITH query name \"")
        .and_then(|rest| rest.strip_suffix("\" specified more than once"))
    {
        return Some(format!("WITH names two queries {name}: give one another name"));
    }
    if let Some(what) = sentence
        .strip_prefix("HAVING clause references: ")
        .and_then(|rest| rest.split_once(" must appear in the GROUP BY clause"))
    {
        let what = in_literals(what.0);
        return Some(format!(
            "HAVING looks at groups, and {what} is neither a key of GROUP BY nor an aggregate: write WHERE {what}"
        ));
    }
    if let Some(of) =
        sentence.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ")
    {
        let of = in_types(of);
        return Some(format!(
            "NOT takes a condition, and not {of}: write NOT (x = 'a'), or x <> 'a'"
        ));
    }
    if let Some(of) = sentence.strip_prefix("Join condition must be boolean type, but got ") {
        let of = in_types(of);
        return Some(format!("ON takes a condition, and not {of}: write ON a.x = b.x"));
    }
    if sentence.starts_with("Too many columns! The subquery should only return one column") {
        let columns = sentence.split_once(": ").map_or("", |(_, columns)| columns);
        return Some(format!(
            "a subquery as a value shows one column, and this one shows several: {columns}"
        ));
    }
    if let Some(name) = sentence.strip_prefix("Unsupported SQL type ") {
        return Some(format!(
            "there is no type {name}: write INT, BIGINT, DOUBLE, DECIMAL(10, 2), VARCHAR, BOOLEAN, DATE or TIMESTAMP"
        ));
    }
    if let Some(name) = sentence.strip_prefix("Invalid qualifier ") {
        return Some(format!("this query has no table `{name}`"));
    }
    if sentence.starts_with("Invalid input syntax for type interval") {
        let text = sentence.split('"').nth(1)?;
        return Some(format!(
            "'{text}' is not an interval: write a number and a unit, as in INTERVAL '1 day'"
        ));
    }
    if sentence.starts_with("Source table contains") {
        let (columns, names) =
            (number_after(sentence, "contains ")?, number_after(sentence, "only ")?);
        return Some(format!(
            "the table has {columns} columns, and {names} names are given to them: write as many names as columns"
        ));
    }
    let fixed =
        FIXED.iter().find(|(start, _)| sentence.starts_with(start) || sentence.ends_with(start));
    fixed.map(|(_, said)| (*said).to_owned())
}

/// Messages whose beginning or end is always the same.
const FIXED: [(&str, &str); 20] = [
    (
        "For SELECT DISTINCT, ORDER BY expressions",
        "with DISTINCT, ORDER BY names columns of the SELECT list: write their position or alias, as in SELECT DISTINCT lower(x) AS y FROM t ORDER BY y",
    ),
    ("Fail to find the coerced type", UNFIT),
    (
        "Correlated scalar subquery in the GROUP BY clause must also be in the aggregate expressions",
        "a subquery that names columns of the outer query is not a key of GROUP BY: compute it below, as in SELECT n, LAPLACE(eps=1) COUNT(*) FROM (SELECT (SELECT COUNT(*) FROM b WHERE b.x = a.x) AS n FROM a) AS t GROUP BY n",
    ),
    (
        "Aggregate functions are not allowed in the WHERE clause",
        "WHERE looks at single rows, before anything is counted: write the condition after GROUP BY, as in HAVING COUNT(*) > 10",
    ),
    (
        "Aggregate function calls cannot be nested",
        "an aggregate cannot contain another: compute the inner one below, as in SELECT MAX(n) FROM (SELECT x, COUNT(*) AS n FROM t GROUP BY x) AS counts",
    ),
    (
        "UNION queries have different number of columns",
        "both sides of UNION show the same number of columns: write NULL where one has none",
    ),
    ("Substring without for/from is not valid", "substr takes a position: write substr(x, 1, 3)"),
    ("Unary operator '-' only supports", "- takes numbers: write -CAST(x AS DOUBLE)"),
    (
        "Inconsistent data length across values list",
        "the rows of VALUES have different numbers of values: write as many in each, NULL where one is missing",
    ),
    (
        "QUALIFY clause requires window functions",
        "QUALIFY looks at window functions, and this query has none: write WHERE or HAVING",
    ),
    ("concat does not support zero arguments", "concat takes texts: write concat(x, y)"),
    ("coalesce must have at least one argument", "coalesce takes values: write COALESCE(x, 0)"),
    ("Cannot infer common argument type for", UNFIT),
    ("Cannot automatically convert", UNFIT),
    ("Cannot infer common string type for", UNFIT),
    ("Cannot coerce arithmetic expression", UNFIT),
    ("Cannot get result type for temporal operation", UNFIT),
    ("There isn't a common type to coerce", UNFIT),
    ("Can not find compatible types to compare", UNFIT),
    (
        "Failed to coerce then",
        "the branches of CASE have types that do not fit together: write CAST(x AS VARCHAR) in one of them",
    ),
];

fn no_column(clause: &str, n: u64, columns: u64) -> String {
    let shows = if columns == 1 { "1 column" } else { &format!("{columns} columns") };
    let from = if columns == 1 { "1".to_owned() } else { format!("a number from 1 to {columns}") };
    format!(
        "{clause} {n} names no column, because the query shows {shows}: write {from}, or the name of a column"
    )
}

/// The number after some words.
fn number_after(sentence: &str, words: &str) -> Option<u64> {
    let rest = match words {
        "" => sentence,
        words => sentence.split_once(words)?.1,
    };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The signatures of a function that was called with other arguments, or what to write instead of
/// the call.
fn signature(sentence: &str) -> String {
    let (why, call) = sentence.split_once(NO_SIGNATURE).unwrap_or((sentence, ""));
    let call = in_types(call.split('\'').next().unwrap_or_default());
    if let Some(said) = called(&call) {
        return said;
    }
    let takes: Vec<String> = sentence
        .split_once("Candidate functions:")
        .map_or("", |(_, candidates)| candidates)
        .lines()
        .map(str::trim)
        .filter(|candidate| !candidate.is_empty() && !candidate.contains("UserDefined"))
        .map(in_types)
        .collect();
    if takes.is_empty() {
        // The engine's own functions report their message after a chain of prefixes.
        let own = why.rsplit("Error during planning: ").next().unwrap_or(why);
        let own = own.trim_end_matches([' ', '.']);
        return known(own).unwrap_or_else(|| in_types(own));
    }
    const MOST: usize = 4;
    let mut different: Vec<String> = Vec::new();
    for one in takes {
        if !different.contains(&one) {
            different.push(one);
        }
    }
    let (shown, more) = different.split_at(different.len().min(MOST));
    let more = match more.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("no function accepts {call}; there is {}{more}", shown.join(", "))
}

/// The first type of `DECIMAL(38, 2), VARCHAR)`.
fn first_argument(arguments: &str) -> &str {
    let mut open = 0_usize;
    let end = arguments.find(|sign| {
        let ends = open == 0 && matches!(sign, ',' | ')');
        match sign {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            _ => {}
        }
        ends
    });
    end.and_then(|end| arguments.get(..end)).unwrap_or(arguments)
}

/// What to write instead of a call, by its name and the types of its arguments.
fn called(call: &str) -> Option<String> {
    let (name, arguments) = call.split_once('(')?;
    let first = first_argument(arguments);
    let is = |names: &[&str]| names.contains(&name);
    let upper = name.to_uppercase();
    let moment = first.starts_with("DATE") || first.starts_with("TIMESTAMP");
    let rank = |name: &str| {
        if name == "PERCENTILE_CONT" { "QUANTILE".to_owned() } else { name.to_owned() }
    };
    if is(&["sum", "avg", "mean"]) && first == "BOOLEAN" {
        return Some(match name {
            "sum" => "SUM takes numbers: write COUNT(*) FILTER (WHERE x) for how many rows meet x".to_owned(),
            _ => "AVG takes numbers: write AVG(CASE WHEN x THEN 1 ELSE 0 END) for the share of rows that meet x".to_owned(),
        });
    }
    if is(&["percentile_cont"]) && moment && arguments.contains(", ") {
        return Some("the fraction of QUANTILE is a number: write QUANTILE(x, 0.9)".to_owned());
    }
    if is(&["percentile_cont"]) && !arguments.contains(", ") {
        return Some("QUANTILE takes a value and a fraction: write QUANTILE(x, 0.9)".to_owned());
    }
    if is(&[
        "sum",
        "avg",
        "mean",
        "median",
        "percentile_cont",
        "stddev",
        "stddev_pop",
        "var",
        "var_pop",
    ]) {
        if arguments.contains(", ") && name != "percentile_cont" {
            return Some(format!("{upper} takes one value: write {upper}(x)"));
        }
        let hint = match (first, moment) {
            ("", _) => format!("write {upper}(x)"),
            (_, true) => "write MEDIAN(x) for the middle of dates".to_owned(),
            (span, false) if span.starts_with("Duration") || span.starts_with("Interval") => {
                return Some(format!(
                    "{} takes numbers, not the time between timestamps: write EXTRACT(EPOCH FROM b - a), in seconds, in place of b - a",
                    rank(&upper)
                ));
            }
            (_, false) => format!(
                "write {upper}(CAST(x AS DOUBLE)) if the texts are numbers, or COUNT(DISTINCT x)"
            ),
        };
        return Some(match first {
            "" => format!("{upper} takes a number: {hint}"),
            _ => format!("{} takes numbers, not {first}: {hint}", rank(&upper)),
        });
    }
    if is(&["date_part"]) {
        return Some(format!(
            "EXTRACT takes a date or timestamp: write EXTRACT(YEAR FROM CAST(x AS DATE)); there is {call}"
        ));
    }
    if is(&["date_trunc"]) {
        return Some(
            "date_trunc takes a unit and a date or timestamp: write date_trunc('month', x)"
                .to_owned(),
        );
    }
    if is(&[
        "upper",
        "lower",
        "trim",
        "btrim",
        "ltrim",
        "rtrim",
        "reverse",
        "length",
        "character_length",
        "left",
        "right",
        "starts_with",
        "contains",
        "split_part",
        "replace",
        "substr",
    ]) && !first.starts_with("VARCHAR")
        && !first.is_empty()
    {
        return Some(format!(
            "{upper} takes texts, not {first}: write {upper}(CAST(x AS VARCHAR))"
        ));
    }
    if is(&["coalesce", "nvl", "ifnull"]) && first != arguments.trim_end_matches(')') {
        let second = match first {
            "DATE" => "DATE '2025-01-01'".to_owned(),
            "TIMESTAMP" => "TIMESTAMP '2025-01-01 00:00:00'".to_owned(),
            _ => format!("CAST(y AS {first})"),
        };
        return Some(format!(
            "{upper} takes values of one type, and not {}: write {upper}(x, {second})",
            arguments.trim_end_matches(')').replacen(", ", " beside ", 1),
        ));
    }
    if is(&["nullif"]) {
        return Some("NULLIF takes two values: write NULLIF(x, 0)".to_owned());
    }
    None
}

/// Why a constant cannot be read: `'x' is not INT` for
/// `Cannot cast string 'x' to value of Int32 type`.
pub(crate) fn of_a_constant(why: &str) -> String {
    const SENTENCES: [[&str; 3]; 2] =
        [["Cannot cast string ", " to value of ", " type"], ["Can't cast value ", " to type ", ""]];
    let why = why.strip_prefix("Error during planning: ").unwrap_or(why);
    let parts = SENTENCES.iter().find_map(|[start, between, end]| {
        let (value, of) = why.strip_prefix(start)?.rsplit_once(between)?;
        Some((value, of.strip_suffix(end)?))
    });
    parts.map_or_else(|| why.to_owned(), |(value, of)| format!("{value} is not {}", in_types(of)))
}

/// A message with types as SQL writes them.
fn in_types(message: &str) -> String {
    let mut said = String::with_capacity(message.len());
    let mut rest = message;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(word);
        let known = TYPES.iter().find(|(own, _)| *own == name);
        said.push_str(known.map_or(name, |(_, sql)| sql));
        rest = after;
        // Skips the time unit in parentheses.
        if ["Timestamp", "Time32", "Time64"].contains(&name)
            && let Some(unit) = rest.strip_prefix('(')
        {
            rest = unit.split_once(')').map_or(rest, |(_, after)| after);
        }
        let other = rest.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (between, after) = rest.split_at(other);
        said.push_str(between);
        rest = after;
    }
    said
}

/// A message without the debug output of the planner's structures at its end.
fn without_dump(sentence: &str) -> &str {
    match sentence.split_once(" { ") {
        // The last word before the brace is the structure's name.
        Some((before, _)) => before.rsplit_once(' ').map_or(before, |(before, _)| before),
        None => sentence,
    }
}
