//! Reads statements: queries, EXPLAIN and SHOW. [`super::declare`] reads the owner's declarations.

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::advice::advised;
use super::ast::{ExplainFormat, Statement};
use super::copy::{copies, copy};
use super::declaration::{Show, SpendingBy};
use super::declare::{declaration, word_then};
use super::domain_query::{asks_for_domain, domain_query};
use super::grant_statements::{grant, required, sets_grants};
use super::parser::HushDialect;
use super::release_table::{names_release_table, query_of_release_table, release_table};
use super::request_statements::budget_request;
use super::script::TokenOffsets;
use super::size::too_deep;
use super::slice_clauses::analyst;
use super::synthetic_statement::{created, names_synthetic_table, synthetic_table};
use super::tune_statement::tuned;
use super::value::Value;
use crate::dialect::clauses::{error, expect_word, take_word, word_at};
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{RECURSION_LIMIT, ended, name, query};
use crate::refusal::{Reason, Refusal};

/// SQL statements that no session runs. Any other unknown first word is a misspelling.
const OTHER_STATEMENTS: [&str; 35] = [
    "from",
    "insert",
    "update",
    "delete",
    "merge",
    "truncate",
    "copy",
    "load",
    "unload",
    "set",
    "reset",
    "begin",
    "start",
    "commit",
    "rollback",
    "savepoint",
    "release",
    "prepare",
    "execute",
    "deallocate",
    "declare",
    "fetch",
    "close",
    "analyze",
    "call",
    "do",
    "use",
    "lock",
    "kill",
    "pragma",
    "attach",
    "detach",
    "vacuum",
    "cache",
    "comment",
];

/// Reads one statement from the tokens of a text, which contain no white space, with values for its
/// parameters.
pub(super) fn parse(
    text: &str,
    tokens: Vec<TokenWithSpan>,
    values: &[Value],
) -> Result<Statement, DialectError> {
    let dialect = HushDialect::for_tokens(tokens.len()).with_values(values);
    read(text, tokens, &dialect)
}

/// The same for a statement whose parameters have no values yet.
pub(super) fn parse_unvalued(
    text: &str,
    tokens: Vec<TokenWithSpan>,
) -> Result<Statement, DialectError> {
    let dialect = HushDialect::for_tokens(tokens.len()).without_values();
    read(text, tokens, &dialect)
}

fn read(
    text: &str,
    tokens: Vec<TokenWithSpan>,
    dialect: &HushDialect,
) -> Result<Statement, DialectError> {
    let first = first_word(&tokens);
    let tokens = if first == "table" { every_row(tokens) } else { tokens };
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens);
    let statement = statement(text, &mut parser, &first, dialect);
    // A result counts only if the text was read to its end.
    if dialect.is_exhausted() {
        return Err(too_deep().into());
    }
    statement.map_err(|error| advised(parser.into_tokens(), error))
}

fn statement(
    text: &str,
    parser: &mut Parser,
    first: &str,
    dialect: &HushDialect,
) -> Result<Statement, DialectError> {
    let statement = match first {
        "select" | "with" | "(" | "values" | "from" | "table" => {
            Statement::Query(query(parser, dialect)?)
        }
        "analyze" if asks_for_domain(parser) => Statement::Query(domain_query(parser)?),
        "explain" => explain(text, parser, dialect)?,
        "copy" if copies(parser) => copy(parser, dialect)?,
        "show" | "describe" | "summarize" => Statement::Show(show(parser)?),
        "alter" if suggests(parser) => Statement::Show(suggestion(parser)?),
        "create" | "drop" if names_release_table(parser) => release_table(parser, dialect)?,
        "create" | "drop" if names_synthetic_table(parser) => synthetic_table(parser, dialect)?,
        "grant" | "revoke" => grant(parser)?,
        "set" if sets_grants(parser) => Statement::Declare(Box::new(required(parser)?)),
        "request" | "approve" | "deny" => budget_request(parser, first)?,
        "create" | "alter" | "drop" => {
            let declaration = declaration(parser, dialect, TokenOffsets::in_text(text))?;
            Statement::Declare(Box::new(declaration))
        }
        "" => return Err(DialectError::syntax("there is no statement", None)),
        word if OTHER_STATEMENTS.contains(&word) => return Err(unknown_statement(first).into()),
        _ => {
            let found = parser.peek_token();
            return Ok(parser.expected("a statement, such as SELECT", found)?);
        }
    };
    while parser.consume_token(&Token::SemiColon) {}
    ended(parser)?;
    Ok(statement)
}

/// `TABLE t …` as `SELECT * FROM t …`. The parser would lose what follows the name.
fn every_row(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if let Some(span) = tokens.first().map(|token| token.span) {
        let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        tokens.splice(0..1, words.map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

fn first_word(tokens: &[TokenWithSpan]) -> String {
    match tokens.first().map(|t| &t.token) {
        Some(Token::Word(word)) => word.value.to_lowercase(),
        Some(Token::EOF) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn unknown_statement(word: &str) -> Refusal {
    Refusal::new(
        Reason::Statement,
        word.to_uppercase(),
        "HushQL does not run this kind of statement",
        "SELECT …, EXPLAIN PRIVACY SELECT …, COPY (SELECT …) TO 'file.csv', SHOW TABLES, SHOW PRIVACY; owners also CREATE and ALTER",
    )
}

fn explain(
    text: &str,
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<Statement, DialectError> {
    expect_word(parser, "EXPLAIN")?;
    let privacy = take_word(parser, "PRIVACY");
    let mut format = ExplainFormat::Text;
    if privacy && take_word(parser, "FORMAT") {
        format = if take_word(parser, "JSON") {
            ExplainFormat::Json
        } else {
            expect_word(parser, "TEXT")?;
            ExplainFormat::Text
        };
    }
    if privacy && take_word(parser, "TUNE") {
        return match tuned(text, parser, dialect) {
            Ok(statement) => {
                Ok(Statement::ExplainTuning { statement: Box::new(statement), format })
            }
            Err(error) => explained_refusal(error, format),
        };
    }
    let of_domain = privacy && asks_for_domain(parser);
    for option in ["ANALYZE", "VERBOSE"] {
        if of_domain {
            break;
        }
        if take_word(parser, option) {
            return Err(Refusal::new(
                Reason::Statement,
                format!("EXPLAIN {option}"),
                "an explanation never shows results of running the query",
                "EXPLAIN PRIVACY SELECT …",
            )
            .into());
        }
    }
    if !privacy {
        return Ok(Statement::Explain(query(parser, dialect)?));
    }
    if names_synthetic_table(parser) {
        return match created(parser, dialect) {
            Ok(statement) => {
                Ok(Statement::ExplainSynthetic { statement: Box::new(statement), format })
            }
            Err(error) => explained_refusal(error, format),
        };
    }
    let asked = if of_domain {
        domain_query(parser)
    } else if names_release_table(parser) {
        query_of_release_table(parser, dialect)
    } else {
        query(parser, dialect)
    };
    match asked {
        Ok(query) => Ok(Statement::ExplainPrivacy { query: Ok(query), format }),
        Err(error) => explained_refusal(error, format),
    }
}

/// The explanation of a refusal. A statement that is nested too deeply was not read to its end.
fn explained_refusal(
    error: DialectError,
    format: ExplainFormat,
) -> Result<Statement, DialectError> {
    match error {
        DialectError::Refused(refusal) if refusal.reason() != Reason::TooLarge => {
            Ok(Statement::ExplainPrivacy { query: Err(refusal), format })
        }
        error => Err(error),
    }
}

fn show(parser: &mut Parser) -> Result<Show, ParserError> {
    if take_word(parser, "DESCRIBE") {
        return Ok(Show::Describe(name(parser)?));
    }
    if take_word(parser, "SUMMARIZE") {
        take_word(parser, "TABLE");
        return Ok(Show::Summarize(name(parser)?));
    }
    expect_word(parser, "SHOW")?;
    if take_word(parser, "TABLES") {
        return Ok(Show::Tables);
    }
    if take_word(parser, "COLUMNS") {
        if !take_word(parser, "FROM") {
            expect_word(parser, "IN")?;
        }
        return Ok(Show::Describe(name(parser)?));
    }
    if take_word(parser, "ROLES") {
        return Ok(Show::Roles);
    }
    if take_word(parser, "TEMPLATES") {
        return Ok(Show::Templates);
    }
    if take_word(parser, "RULES") {
        return Ok(Show::Rules);
    }
    if take_word(parser, "GRANTS") {
        let of = if take_word(parser, "FOR") { Some(analyst(parser)?) } else { None };
        return Ok(Show::Grants(of));
    }
    if word_then(parser, "RELEASE", "TABLE") {
        return Ok(Show::ReleaseTable(name(parser)?));
    }
    if take_word(parser, "SYNTHETIC") {
        take_word(parser, "TABLE");
        return Ok(Show::Synthetic(name(parser)?));
    }
    if take_word(parser, "CREATE") {
        if word_then(parser, "RELEASE", "TABLE") {
            return Ok(Show::CreateReleaseTable(name(parser)?));
        }
        if take_word(parser, "TABLE") {
            return Ok(Show::CreateTable(name(parser)?));
        }
        if word_then(parser, "PRIVACY", "BUDGET") || take_word(parser, "BUDGET") {
            return Ok(Show::CreateBudget(name(parser)?));
        }
        if take_word(parser, "TEMPLATE") {
            return Ok(Show::CreateTemplate(name(parser)?));
        }
        expect_word(parser, "VIEW")?;
        return Ok(Show::View(name(parser)?));
    }
    if take_word(parser, "PRIVACY") {
        if take_word(parser, "HISTORY") {
            return Ok(Show::History);
        }
        if take_word(parser, "REQUESTS") {
            return Ok(Show::Requests);
        }
        if word_then(parser, "STATEMENT", "FOR") {
            return Ok(Show::Statement(name(parser)?));
        }
        if !take_word(parser, "BUDGET") {
            return Ok(Show::Privacy);
        }
        return budget(parser);
    }
    error(
        parser,
        "SHOW takes TABLES, TEMPLATES, COLUMNS FROM name, ROLES, GRANTS, PRIVACY, PRIVACY BUDGET, PRIVACY HISTORY, PRIVACY STATEMENT FOR name, PRIVACY REQUESTS, RELEASE TABLE, SYNTHETIC, CREATE TABLE, CREATE BUDGET, CREATE VIEW, CREATE TEMPLATE or CREATE RELEASE TABLE",
    )
}

/// `[name] [BY ANALYST | BY DAY | BY MONTH | BY CELL]` after SHOW PRIVACY BUDGET. A budget may be
/// named `by`.
fn budget(parser: &mut Parser) -> Result<Show, ParserError> {
    let by = |parser: &mut Parser| {
        let known = [
            ("ANALYST", SpendingBy::Analyst),
            ("DAY", SpendingBy::Day),
            ("MONTH", SpendingBy::Month),
            ("CELL", SpendingBy::Cell),
        ];
        known.into_iter().find(|(word, _)| word_then(parser, "BY", word)).map(|(_, by)| by)
    };
    let ends = |parser: &Parser| matches!(parser.peek_token().token, Token::EOF | Token::SemiColon);
    if let Some(by) = by(parser) {
        return Ok(Show::Spending { budget: None, by });
    }
    let named = if ends(parser) { None } else { Some(name(parser)?) };
    match by(parser) {
        Some(by) => Ok(Show::Spending { budget: named, by }),
        None if ends(parser) => Ok(Show::Budget(named)),
        None => error(parser, "SHOW PRIVACY BUDGET takes BY ANALYST, BY DAY, BY MONTH or BY CELL"),
    }
}

/// True if the text begins with ALTER TABLE name SUGGEST.
fn suggests(parser: &Parser) -> bool {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|w| w.value.eq_ignore_ascii_case(word))
    };
    is(1, "TABLE") && is(3, "SUGGEST")
}

/// `ALTER TABLE name SUGGEST PRIVACY`.
fn suggestion(parser: &mut Parser) -> Result<Show, ParserError> {
    expect_word(parser, "ALTER")?;
    expect_word(parser, "TABLE")?;
    let table = name(parser)?;
    expect_word(parser, "SUGGEST")?;
    expect_word(parser, "PRIVACY")?;
    Ok(Show::Suggest(table))
}
