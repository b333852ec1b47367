//! Synthetic tables: `CREATE SYNTHETIC TABLE` and `DROP SYNTHETIC TABLE`.
//!
//! In: a parser at the verb. Out: the statement: a method with its cost, the options, and a query
//! without releases. Its `Display` writes the method and the options so that they parse back.
//!
//! ```text
//! CREATE SYNTHETIC TABLE s WITH (rows=500) AS AIM(eps=1) SELECT a FROM t   →   s, AIM, eps=1, 500 rows, the query
//! ```

use std::fmt;

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::ast::{QueryStatement, Statement, SyntheticStatement};
use super::declaration::ReleaseTableChange;
use super::declare::word_then;
use super::literal::{literal_list, named_literals};
use super::parser::HushDialect;
use super::synthetic_options::{BucketOption, SyntheticMethod, SyntheticOptions};
use crate::dialect::clauses::{error, expect_word, take_word, word_at};
use crate::dialect::error::DialectError;
use crate::dialect::literal::Literal;
use crate::dialect::query_syntax::{lowered, name, names};
use crate::dialect::value::Value;
use crate::refusal::{Reason, Refusal, nearest};

/// The most bytes that `size` may ask for.
const MOST_BYTES: u64 = 1 << 30;

/// The most sets of columns that a workload may name.
const MOST_SETS: usize = 10_000;

impl fmt::Display for SyntheticStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, if_not_exists, method, options, query } = self;
        let unless = if *if_not_exists { "IF NOT EXISTS " } else { "" };
        write!(f, "CREATE SYNTHETIC TABLE {unless}{}", crate::catalog::quoted(name))?;
        let with = options.with();
        if !with.is_empty() {
            write!(f, " WITH ({with})")?;
        }
        write!(f, " AS {method}({}) {}", options.parameters(), query.tree)
    }
}

/// True if `CREATE SYNTHETIC TABLE` or `DROP SYNTHETIC TABLE` comes next.
pub(super) fn names_synthetic_table(parser: &Parser) -> bool {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    (is(0, "CREATE") || is(0, "DROP")) && is(1, "SYNTHETIC") && is(2, "TABLE")
}

/// A statement that creates or drops a synthetic table.
pub(super) fn synthetic_table(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<Statement, DialectError> {
    if word_at(parser, 0).is_some_and(|verb| verb.value.eq_ignore_ascii_case("CREATE")) {
        return Ok(Statement::CreateSyntheticTable(Box::new(created(parser, dialect)?)));
    }
    for word in ["DROP", "SYNTHETIC", "TABLE"] {
        expect_word(parser, word)?;
    }
    let if_exists = word_then(parser, "IF", "EXISTS");
    let name = name(parser)?;
    Ok(Statement::ReleaseTable(ReleaseTableChange::DropSynthetic { name, if_exists }))
}

/// `CREATE SYNTHETIC TABLE …`.
pub(super) fn created(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<SyntheticStatement, DialectError> {
    for word in ["CREATE", "SYNTHETIC", "TABLE"] {
        expect_word(parser, word)?;
    }
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    let if_not_exists = is(0, "IF") && is(1, "NOT") && is(2, "EXISTS");
    if if_not_exists {
        for word in ["IF", "NOT", "EXISTS"] {
            expect_word(parser, word)?;
        }
    }
    let name = name(parser)?;
    let mut options = SyntheticOptions::default();
    if take_word(parser, "WITH") {
        with_options(parser, &mut options)?;
    }
    // AS may be missing; the rest is read anyway, so that the error can show the whole statement.
    let is_method =
        |word: &str| SyntheticMethod::NAMES.iter().any(|(name, _)| word.eq_ignore_ascii_case(name));
    let without_as = word_at(parser, 0).is_some_and(|word| is_method(&word.value));
    if !without_as {
        parser.expect_keyword(Keyword::AS)?;
    }
    let method = method(parser)?;
    if parser.peek_token().token == Token::LParen {
        parameters(parser, method, &mut options)?;
    }
    let (tree, clauses) = lowered(parser, dialect)?;
    let within = clauses.releases.first().map(|release| release.text.clone());
    let options_of = (!clauses.options.is_empty()).then(|| "WITH DIFFERENTIAL_PRIVACY".to_owned());
    if let Some(within) = within.or(options_of) {
        return Err(Refusal::new(
            Reason::Place,
            within,
            format!("{method} releases the rows of its query as a whole, and another release stands inside it"),
            format!("AS {method}(eps=1) SELECT columns FROM the table, without a mechanism inside"),
        )
        .into());
    }
    let null_values = dialect.values.contains(&Value::Null);
    let (releases, headings, names) = (Vec::new(), Vec::new(), Vec::new());
    let (range_of, text) = (None, String::new());
    let query = QueryStatement {
        tree,
        releases,
        range_of,
        null_values,
        headings,
        names,
        limited: None,
        template: None,
        text,
    };
    let name_of = |found: &str| {
        Refusal::new(
            Reason::Clause,
            found,
            "options of a synthetic table stand before AS",
            "CREATE SYNTHETIC TABLE s WITH (rows=1000) AS AIM(eps=1) SELECT …",
        )
    };
    if word_at(parser, 0).is_some_and(|word| word.value.eq_ignore_ascii_case("WITH")) {
        return Err(name_of("WITH").into());
    }
    let statement = SyntheticStatement { name, if_not_exists, method, options, query };
    if without_as {
        let why = format!("AS is missing before {method}");
        return Err(Refusal::new(Reason::Clause, method, why, statement.to_string()).into());
    }
    Ok(statement)
}

fn method(parser: &mut Parser) -> Result<SyntheticMethod, ParserError> {
    let all = || SyntheticMethod::NAMES.iter().map(|(name, _)| *name);
    let Some(word) = word_at(parser, 0) else {
        let found = parser.peek_token();
        return parser.expected("AUTO, AIM, MWEM or SMALL_DATABASE after AS", found);
    };
    let known = SyntheticMethod::NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(&word.value));
    let Some((_, method)) = known else {
        let meant = nearest(&word.value, all()).map(|name| format!("; did you mean {name}?"));
        let meant = meant.unwrap_or_default();
        return error(
            parser,
            &format!("a synthetic table is made by AUTO, AIM, MWEM or SMALL_DATABASE{meant}"),
        );
    };
    parser.next_token();
    Ok(*method)
}

/// `(eps=1, delta=1e-9, marginals=2)`.
fn parameters(
    parser: &mut Parser,
    method: SyntheticMethod,
    options: &mut SyntheticOptions,
) -> Result<(), ParserError> {
    for (name, value) in named_literals(parser, &format!("{method}(eps=1)"))? {
        let text = match &value {
            Literal::Number(text) => text.as_str(),
            Literal::Text(_) | Literal::Boolean(_) | Literal::Null => "",
        };
        let number = "must be a number from 1e-12 to 1000000";
        let problem = match name.as_str() {
            "eps" | "epsilon" => give(&mut options.epsilon, text.parse().ok(), number),
            "rho" => give(&mut options.rho, text.parse().ok(), number),
            "delta" => give(
                &mut options.delta,
                text.parse().ok(),
                "must be a number between 0 and 1, at least 1e-18",
            ),
            "marginals" => give(
                &mut options.marginals,
                whole(&value, 1, 8),
                "must be a whole number from 1 to 8: the number of columns in each set",
            ),
            "rounds" => {
                give(&mut options.rounds, whole(&value, 1, 1_000), "must be from 1 to 1000")
            }
            "rows" => give(
                &mut options.bound,
                whole(&value, 1, 1 << 32),
                "must be a whole number of at least 1",
            ),
            _ => {
                const KNOWN: [&str; 6] = ["eps", "rho", "delta", "marginals", "rounds", "rows"];
                Some(match nearest(&name, KNOWN.into_iter()) {
                    Some(known) => {
                        format!("is not a parameter of {method}; did you mean {known}?")
                    }
                    None => {
                        format!("is not a parameter of {method}; write one of {}", KNOWN.join(", "))
                    }
                })
            }
        };
        if let Some(problem) = problem {
            return error(parser, &format!("{name} {problem}"));
        }
    }
    if options.epsilon.is_some() && options.rho.is_some() {
        return error(parser, "eps and rho measure the same cost; write only one of them");
    }
    if options.delta.is_some() && options.epsilon.is_none() {
        return error(parser, "delta belongs to eps: write eps=1, delta=1e-9");
    }
    Ok(())
}

/// `(rows=…, workload=…, size=…, weights=…, buckets=…)`.
fn with_options(parser: &mut Parser, options: &mut SyntheticOptions) -> Result<(), ParserError> {
    const KNOWN: [&str; 5] = ["rows", "workload", "size", "weights", "buckets"];
    parser.expect_token(&Token::LParen)?;
    let mut given = Vec::new();
    loop {
        let at = parser.peek_token();
        let Some(word) = word_at(parser, 0) else {
            return parser.expected("an option, as in rows=1000", at);
        };
        let option = word.value.to_lowercase();
        if !KNOWN.contains(&option.as_str()) {
            let meant = match nearest(&option, KNOWN.into_iter()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("write one of {}", KNOWN.join(", ")),
            };
            return error(
                parser,
                &format!("{option} is not an option of a synthetic table; {meant}"),
            );
        }
        if given.contains(&option) {
            return error(parser, &format!("{option} is given twice"));
        }
        parser.next_token();
        parser.expect_token(&Token::Eq)?;
        match option.as_str() {
            "rows" => {
                let at = parser.peek_token();
                let rows = super::literal::literal(parser)?;
                let Some(rows) = whole(&rows, 1, 1 << 32) else {
                    return parser.expected("a whole number of at least 1 after rows=", at);
                };
                options.rows = Some(rows);
            }
            "workload" => options.workload = workload(parser)?,
            "size" => {
                let at = parser.peek_token();
                let Some(bytes) = bytes(&super::literal::literal(parser)?) else {
                    return parser.expected("a size such as '1MB' after size=", at);
                };
                options.size = Some(bytes);
            }
            "weights" => {
                if !take_word(parser, "PERSON") {
                    return error(parser, "weights takes PERSON: each unit counts as one");
                }
                options.per_person = true;
            }
            _ => options.buckets = buckets(parser)?,
        }
        given.push(option);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(())
}

/// `((age, sex), (status))`.
fn workload(parser: &mut Parser) -> Result<Vec<Vec<String>>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut sets = vec![names(parser)?];
    while parser.consume_token(&Token::Comma) {
        sets.push(names(parser)?);
        if sets.len() > MOST_SETS {
            return error(parser, &format!("a workload has at most {MOST_SETS} sets of columns"));
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(sets)
}

/// `(age (0, 18, 65), gain LOG 20)`.
fn buckets(parser: &mut Parser) -> Result<Vec<(String, BucketOption)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut all: Vec<(String, BucketOption)> = Vec::new();
    loop {
        let column = name(parser)?;
        if all.iter().any(|(known, _)| *known == column) {
            return error(parser, &format!("the buckets of {column} are given twice"));
        }
        let own = if take_word(parser, "LOG") {
            let at = parser.peek_token();
            match whole(&super::literal::literal(parser)?, 1, 1_000) {
                Some(buckets) => BucketOption::Log(buckets),
                None => return parser.expected("a number of buckets from 1 to 1000", at),
            }
        } else {
            BucketOption::From(literal_list(parser)?)
        };
        all.push((column, own));
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(all)
}

/// What is wrong with a value. `None` if it is accepted.
fn give<T>(slot: &mut Option<T>, value: Option<T>, must: &str) -> Option<String> {
    match value {
        None => Some(must.to_owned()),
        Some(value) => slot.replace(value).is_some().then(|| "is given twice".to_owned()),
    }
}

fn whole(value: &Literal, least: u64, most: u64) -> Option<u64> {
    match value {
        Literal::Number(text) => text.parse().ok().filter(|n| (least..=most).contains(n)),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    }
}

/// `'1MB'`, `'500 KB'`, `'4096'` or a number, in bytes.
fn bytes(value: &Literal) -> Option<u64> {
    let text = match value {
        Literal::Number(text) | Literal::Text(text) => text.trim().to_uppercase(),
        Literal::Boolean(_) | Literal::Null => return None,
    };
    let units = [("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let unit = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, unit) = unit.unwrap_or((text.as_str(), 1));
    let bytes = number.trim().parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=MOST_BYTES).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Show, parse};

    fn created(text: &str) -> SyntheticStatement {
        match parse(text) {
            Ok(Statement::CreateSyntheticTable(statement)) => *statement,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn synthetic_tables_are_read_and_spelled() {
        for (text, spelled) in [
            (
                "create synthetic table People as aim(eps=1, delta=1e-9, marginals=2) select age, sex from adult where age >= 18;",
                "CREATE SYNTHETIC TABLE people AS AIM(eps=1, delta=0.000000001, marginals=2) SELECT age, sex FROM adult WHERE age >= 18",
            ),
            (
                "CREATE SYNTHETIC TABLE IF NOT EXISTS s WITH (rows=50000, workload=((age, sex), (\"Status\")), size='1MB', weights=person, buckets=(age (0, 18, 65), gain LOG 20)) AS AUTO(rho=0.015) SELECT 1 AS x",
                "CREATE SYNTHETIC TABLE IF NOT EXISTS s WITH (rows=50000, workload=((age, sex), (\"Status\")), size='1000000', weights=PERSON, buckets=(age (0, 18, 65), gain LOG 20)) AS AUTO(rho=0.015) SELECT 1 AS x",
            ),
            (
                "CREATE SYNTHETIC TABLE tiny AS SMALL_DATABASE(eps=1, rows=5) SELECT sex, income FROM adult",
                "CREATE SYNTHETIC TABLE tiny AS SMALL_DATABASE(eps=1, rows=5) SELECT sex, income FROM adult",
            ),
        ] {
            let statement = created(text);
            assert_eq!(statement.to_string().replace("delta=1e-9", "delta=0.000000001"), spelled);
            let again = created(&statement.to_string());
            assert_eq!(
                (again.options, again.method, again.name),
                (statement.options, statement.method, statement.name)
            );
        }
        assert!(
            matches!(parse("SHOW SYNTHETIC s"), Ok(Statement::Show(Show::Synthetic(s))) if s == "s")
        );
        assert!(matches!(
            parse("DROP SYNTHETIC TABLE IF EXISTS s"),
            Ok(Statement::ReleaseTable(ReleaseTableChange::DropSynthetic { if_exists: true, .. }))
        ));
        assert!(matches!(
            parse("EXPLAIN PRIVACY CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT a FROM t"),
            Ok(Statement::ExplainSynthetic { .. })
        ));
    }

    /// The error shows the whole statement, with AS in its place.
    #[test]
    fn a_forgotten_as_is_written() {
        let text = "CREATE SYNTHETIC TABLE s WITH (rows=5) aim(eps=1) SELECT a FROM t WHERE a > 2";
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains("AS is missing before AIM"), "{error}");
        let corrected =
            "CREATE SYNTHETIC TABLE s WITH (rows=5) AS AIM(eps=1) SELECT a FROM t WHERE a > 2";
        assert!(error.contains(corrected), "{error}");
        assert!(parse(corrected).is_ok());
    }

    #[test]
    fn what_is_no_synthetic_table_is_refused() {
        for text in [
            "CREATE SYNTHETIC TABLE s",
            "CREATE SYNTHETIC TABLE s AS SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIMM(eps=1) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(eps=1, rho=1) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(rho=1, delta=1e-9) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(eps=1, eps=2) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(eps=1, groups=2) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT LAPLACE(eps=1) COUNT(*) FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=5) a FROM t",
            "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT a FROM t WITH (rows=5)",
            "CREATE SYNTHETIC TABLE s WITH (rows=0) AS AIM(eps=1) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s WITH (row=1) AS AIM(eps=1) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s WITH (rows=1, rows=1) AS AIM(eps=1) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s WITH (weights=ROWS) AS AIM(eps=1) SELECT a FROM t",
            "CREATE SYNTHETIC TABLE s WITH (size='1TB') AS AIM(eps=1) SELECT a FROM t",
            "DROP SYNTHETIC TABLE",
            "SHOW SYNTHETIC",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
