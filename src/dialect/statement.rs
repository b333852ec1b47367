//! Statements: queries, EXPLAIN, SHOW, and the owner's declarations.

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{ExplainFormat, Statement};
use super::declaration::{
    Allowance, Declaration, DomainClause, LimitClause, PerQueryClause, Show, UnitClause,
};
use super::domain_query::{asks_for_domain, domain_query};
use super::literal::{Literal, literal, literal_list, named_literals};
use super::parser::HushDialect;
use super::script::Places;
use super::size::too_deep;
use super::value::Value;
use super::view::create_view;
use crate::dialect::clauses::{error, expect_word, take_word};
use crate::dialect::error::DialectError;
use crate::dialect::query::{RECURSION_LIMIT, ended, name, names, query};
use crate::privacy::{Delta, Epsilon, Rho};
use crate::refusal::{Reason, Refusal};

/// SQL statements that no session runs; any other unknown first word is a misspelling.
const OTHER_STATEMENTS: [&str; 38] = [
    "table",
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
    "grant",
    "revoke",
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

/// Reads one statement from the tokens of a text, without white space, with values for its parameters.
pub(super) fn parse(
    text: &str,
    tokens: Vec<TokenWithSpan>,
    values: &[Value],
) -> Result<Statement, DialectError> {
    let first = first_word(&tokens);
    let dialect = HushDialect::for_tokens(tokens.len()).with_values(values);
    let statement = statement(text, tokens, &first, &dialect);
    // The result of a text that was not read to its end does not count.
    if dialect.is_exhausted() { Err(too_deep().into()) } else { statement }
}

pub(crate) fn statement(
    text: &str,
    tokens: Vec<TokenWithSpan>,
    first: &str,
    dialect: &HushDialect,
) -> Result<Statement, DialectError> {
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens);
    let statement = match first {
        "select" | "with" | "(" | "values" => Statement::Query(query(&mut parser, dialect)?),
        "analyze" if asks_for_domain(&parser) => Statement::Query(domain_query(&mut parser)?),
        "explain" => explain(&mut parser, dialect)?,
        "show" | "describe" => Statement::Show(show(&mut parser)?),
        "create" | "alter" | "drop" => {
            let declaration = declaration(&mut parser, dialect, Places::in_text(text))?;
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
    ended(&parser)?;
    Ok(statement)
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
        "SELECT …, EXPLAIN PRIVACY SELECT …, SHOW TABLES, SHOW PRIVACY; owners also CREATE and ALTER",
    )
}

fn explain(parser: &mut Parser, dialect: &HushDialect) -> Result<Statement, DialectError> {
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
    let asked = if of_domain { domain_query(parser) } else { query(parser, dialect) };
    let query = match asked {
        Ok(query) => Ok(query),
        // A query that is nested too deeply was not read to its end.
        Err(DialectError::Refused(refusal)) if refusal.reason() != Reason::TooLarge => Err(refusal),
        Err(error) => return Err(error),
    };
    Ok(Statement::ExplainPrivacy { query, format })
}

fn show(parser: &mut Parser) -> Result<Show, ParserError> {
    if take_word(parser, "DESCRIBE") {
        return Ok(Show::Describe(name(parser)?));
    }
    expect_word(parser, "SHOW")?;
    if take_word(parser, "TABLES") {
        return Ok(Show::Tables);
    }
    if take_word(parser, "CREATE") {
        expect_word(parser, "VIEW")?;
        return Ok(Show::View(name(parser)?));
    }
    if take_word(parser, "PRIVACY") {
        if take_word(parser, "HISTORY") {
            return Ok(Show::History);
        }
        if !take_word(parser, "BUDGET") {
            return Ok(Show::Privacy);
        }
        let named = !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon);
        return Ok(Show::Budget(if named { Some(name(parser)?) } else { None }));
    }
    error(parser, "SHOW takes TABLES, PRIVACY, PRIVACY BUDGET, PRIVACY HISTORY or CREATE VIEW")
}

fn declaration(
    parser: &mut Parser,
    dialect: &HushDialect,
    places: Places<'_>,
) -> Result<Declaration, DialectError> {
    let verb = parser.next_token().token.to_string().to_lowercase();
    if take_word(parser, "PRIVACY") {
        expect_word(parser, "BUDGET")?;
        return Ok(budget(parser, &verb)?);
    }
    match verb.as_str() {
        "create" if take_word(parser, "EXTERNAL") => {
            expect_word(parser, "TABLE")?;
            Ok(create_table(parser)?)
        }
        "create" if take_word(parser, "VIEW") => create_view(parser, dialect, places, false),
        "create" if take_word(parser, "OR") => {
            expect_word(parser, "REPLACE")?;
            expect_word(parser, "VIEW")?;
            create_view(parser, dialect, places, true)
        }
        "alter" if take_word(parser, "TABLE") => Ok(alter_table(parser)?),
        "drop" if take_word(parser, "TABLE") => Ok(Declaration::DropTable { name: name(parser)? }),
        "drop" if take_word(parser, "VIEW") => {
            let if_exists = word_then(parser, "IF", "EXISTS");
            Ok(Declaration::DropView { name: name(parser)?, if_exists })
        }
        _ => Err(Refusal::new(
            Reason::Statement,
            verb.to_uppercase(),
            "only external tables, views and privacy budgets can be created and dropped",
            "CREATE EXTERNAL TABLE …, CREATE VIEW … AS …, ALTER TABLE … SET PRIVACY …, CREATE PRIVACY BUDGET …",
        )
        .into()),
    }
}

/// Whether these two words come next; if so, consumes them. A view may be named `if`.
fn word_then(parser: &mut Parser, first: &str, second: &str) -> bool {
    let is = |n: usize, word: &str| matches!(&parser.peek_nth_token(n).token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    is(0, first) && is(1, second) && take_word(parser, first) && take_word(parser, second)
}

fn create_table(parser: &mut Parser) -> Result<Declaration, ParserError> {
    let table = name(parser)?;
    let mut columns = Vec::new();
    if parser.consume_token(&Token::LParen) {
        loop {
            columns.push((name(parser)?, parser.parse_data_type()?));
            if !parser.consume_token(&Token::Comma) {
                parser.expect_token(&Token::RParen)?;
                break;
            }
        }
    }
    expect_word(parser, "STORED")?;
    parser.expect_keyword(Keyword::AS)?;
    let at = parser.next_token();
    let format = match &at.token {
        Token::Word(word) => word.value.to_uppercase(),
        _ => return parser.expected("CSV, PARQUET, JSON or ARROW", at),
    };
    expect_word(parser, "LOCATION")?;
    let location = parser.parse_literal_string()?;
    let mut options = Vec::new();
    if take_word(parser, "OPTIONS") {
        parser.expect_token(&Token::LParen)?;
        loop {
            let key = match parser.peek_token().token {
                Token::SingleQuotedString(_) => parser.parse_literal_string()?,
                _ => name(parser)?,
            };
            let _ = parser.consume_token(&Token::Eq);
            let value = literal(parser)?;
            options.push((key.to_lowercase(), value.text().unwrap_or_default()));
            if !parser.consume_token(&Token::Comma) {
                parser.expect_token(&Token::RParen)?;
                break;
            }
        }
    }
    Ok(Declaration::CreateTable { name: table, columns, format, location, options })
}

fn alter_table(parser: &mut Parser) -> Result<Declaration, ParserError> {
    let table = name(parser)?;
    if take_word(parser, "ALTER") {
        take_word(parser, "COLUMN");
        let column = name(parser)?;
        if take_word(parser, "DROP") {
            expect_word(parser, "PRIVACY")?;
            expect_word(parser, "DOMAIN")?;
            return Ok(Declaration::DropDomain { table, column });
        }
        expect_word(parser, "SET")?;
        expect_word(parser, "PRIVACY")?;
        expect_word(parser, "DOMAIN")?;
        return Ok(Declaration::SetDomain { table, column, domain: domain(parser)? });
    }
    if take_word(parser, "DROP") {
        expect_word(parser, "PRIVACY")?;
        take_word(parser, "UNIT");
        return Ok(Declaration::DropUnit { table });
    }
    expect_word(parser, "SET")?;
    if take_word(parser, "PUBLIC") {
        return Ok(Declaration::SetPublic { table });
    }
    expect_word(parser, "PRIVACY")?;
    expect_word(parser, "UNIT")?;
    let unit = unit(parser)?;
    let mut other_people = Vec::new();
    if take_word(parser, "OTHER") {
        expect_word(parser, "PEOPLE")?;
        expect_word(parser, "THAN")?;
        other_people.push(name(parser)?);
        while parser.consume_token(&Token::Comma) {
            other_people.push(name(parser)?);
        }
    }
    Ok(Declaration::SetUnit { table, unit, other_people })
}

/// The clause after SET PRIVACY UNIT, up to OTHER PEOPLE.
fn unit(parser: &mut Parser) -> Result<UnitClause, ParserError> {
    if take_word(parser, "ROW") {
        return Ok(UnitClause::Row);
    }
    if take_word(parser, "VIA") {
        let columns = names(parser)?;
        expect_word(parser, "REFERENCES")?;
        let table = name(parser)?;
        let references = names(parser)?;
        if columns.len() != references.len() {
            return error(
                parser,
                "VIA needs the same number of columns on both sides: VIA (a) REFERENCES t(b)",
            );
        }
        return Ok(UnitClause::Via { columns, table, references, max_rows: max_rows(parser)? });
    }
    parser.expect_token(&Token::LParen)?;
    let column = name(parser)?;
    if parser.peek_token().token == Token::Comma {
        return error(
            parser,
            "a unit is one column; for several columns, write VIA (a, b) REFERENCES people(a, b)",
        );
    }
    parser.expect_token(&Token::RParen)?;
    let unique = take_word(parser, "UNIQUE");
    Ok(UnitClause::Column { column, unique, max_rows: max_rows(parser)? })
}

fn max_rows(parser: &mut Parser) -> Result<Option<u64>, ParserError> {
    if !take_word(parser, "MAX") {
        return Ok(None);
    }
    expect_word(parser, "ROWS")?;
    match parser.parse_literal_uint()? {
        0 => error(parser, "MAX ROWS must be at least 1"),
        rows if rows > 1 << 32 => error(parser, "MAX ROWS must be at most 4294967296"),
        rows => Ok(Some(rows)),
    }
}

fn domain(parser: &mut Parser) -> Result<DomainClause, ParserError> {
    if parser.parse_keyword(Keyword::IN) {
        return Ok(DomainClause::In(literal_list(parser)?));
    }
    if take_word(parser, "REFERENCES") {
        let table = name(parser)?;
        parser.expect_token(&Token::LParen)?;
        let column = name(parser)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(DomainClause::References { table, column });
    }
    expect_word(parser, "BETWEEN")?;
    parser.expect_token(&Token::LParen)?;
    let lo = literal(parser)?;
    parser.expect_token(&Token::Comma)?;
    let hi = literal(parser)?;
    parser.expect_token(&Token::RParen)?;
    let step = if take_word(parser, "STEP") { Some(literal(parser)?) } else { None };
    let or_null = parser.parse_keywords(&[Keyword::OR, Keyword::NULL]);
    Ok(DomainClause::Between { lo, hi, step, or_null })
}

pub(crate) fn budget(parser: &mut Parser, verb: &str) -> Result<Declaration, ParserError> {
    let budget = name(parser)?;
    match verb {
        "create" => {
            expect_word(parser, "FOR")?;
            let table = name(parser)?;
            expect_word(parser, "LIMIT")?;
            let limit = limit(parser)?;
            let limit = Box::new(accountant(parser, limit)?);
            let per_query = if take_word(parser, "PER") {
                per_query(parser)?
            } else {
                PerQueryClause::default()
            };
            let per_query = Box::new(per_query);
            Ok(Declaration::CreateBudget { name: budget, table, limit, per_query })
        }
        "alter" => {
            expect_word(parser, "SET")?;
            expect_word(parser, "LIMIT")?;
            let limit = Box::new(limit(parser)?);
            if take_word(parser, "ACCOUNTANT") {
                return error(
                    parser,
                    "the accountant of a budget cannot change after its creation",
                );
            }
            Ok(Declaration::AlterBudget { name: budget, limit })
        }
        _ => Ok(Declaration::DropBudget { name: budget }),
    }
}

fn limit(parser: &mut Parser) -> Result<LimitClause, ParserError> {
    let (mut epsilon, mut rho, mut delta) = (None, None, None);
    for (name, value) in named_literals(parser, "LIMIT (epsilon=10, delta=1e-6)")? {
        match name.as_str() {
            "epsilon" | "eps" => set(parser, &mut epsilon, &name, parse_epsilon(&value))?,
            "rho" => set(parser, &mut rho, &name, parse_rho(&value))?,
            "delta" => set(parser, &mut delta, &name, parse_delta(&value))?,
            _ => {
                return error(parser, &format!("LIMIT takes epsilon, rho and delta, not {name}"));
            }
        }
    }
    let allowance = match (epsilon, rho) {
        (Some(epsilon), None) => Allowance::Epsilon(epsilon),
        (None, Some(rho)) => Allowance::Rho(rho),
        (None, None) => return error(parser, "LIMIT needs epsilon or rho: LIMIT (epsilon=10)"),
        (Some(_), Some(_)) => {
            return error(
                parser,
                "a budget counts in epsilon or in rho; create a second budget for the other",
            );
        }
    };
    Ok(LimitClause { allowance, delta, zcdp: false, thresholds: true })
}

/// `ACCOUNTANT ZCDP`, or `ACCOUNTANT ZCDP (thresholds=0)`, after the limit of a new budget.
fn accountant(parser: &mut Parser, limit: LimitClause) -> Result<LimitClause, ParserError> {
    if !take_word(parser, "ACCOUNTANT") {
        return Ok(limit);
    }
    if !take_word(parser, "ZCDP") {
        return error(parser, "the only accountant is ZCDP; without it, charges are added up");
    }
    let mut thresholds = true;
    if parser.peek_token().token == Token::LParen {
        for (name, value) in named_literals(parser, "ACCOUNTANT ZCDP (thresholds=0)")? {
            if name != "thresholds" || !matches!(&value, Literal::Number(zero) if zero == "0") {
                return error(
                    parser,
                    "ACCOUNTANT ZCDP takes thresholds=0, which leaves no delta to releases that need one of their own; without it, they have half",
                );
            }
            thresholds = false;
        }
    }
    match (&limit.allowance, &limit.delta) {
        (Allowance::Epsilon(_), Some(_)) => Ok(LimitClause { zcdp: true, thresholds, ..limit }),
        (Allowance::Epsilon(_), None) => {
            error(parser, "ACCOUNTANT ZCDP needs a delta: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Rho(_), _) => {
            error(parser, "a budget in rho needs no ACCOUNTANT: it adds up rho")
        }
    }
}

fn per_query(parser: &mut Parser) -> Result<PerQueryClause, ParserError> {
    expect_word(parser, "QUERY")?;
    let mut clause = PerQueryClause::default();
    for (name, value) in named_literals(parser, "PER QUERY (default=0.1, max=1)")? {
        match name.as_str() {
            "default" => set(parser, &mut clause.default, &name, parse_epsilon(&value))?,
            "default_rho" => set(parser, &mut clause.default_rho, &name, parse_rho(&value))?,
            "min" => set(parser, &mut clause.min, &name, parse_epsilon(&value))?,
            "min_rho" => set(parser, &mut clause.min_rho, &name, parse_rho(&value))?,
            "max" => set(parser, &mut clause.max, &name, parse_epsilon(&value))?,
            "max_rho" => set(parser, &mut clause.max_rho, &name, parse_rho(&value))?,
            "default_delta" => set(parser, &mut clause.default_delta, &name, parse_delta(&value))?,
            "max_delta" => set(parser, &mut clause.max_delta, &name, parse_delta(&value))?,
            _ => {
                return error(
                    parser,
                    &format!(
                        "PER QUERY takes default, default_rho, default_delta, min, min_rho, max, max_rho and max_delta, not {name}"
                    ),
                );
            }
        }
    }
    Ok(clause)
}

fn parse_epsilon(value: &Literal) -> Option<Epsilon> {
    value.text()?.parse().ok()
}

fn parse_rho(value: &Literal) -> Option<Rho> {
    value.text()?.parse().ok()
}

fn parse_delta(value: &Literal) -> Option<Delta> {
    value.text()?.parse().ok()
}

fn set<T>(
    parser: &Parser,
    slot: &mut Option<T>,
    name: &str,
    value: Option<T>,
) -> Result<(), ParserError> {
    let Some(value) = value else {
        return error(parser, &format!("{name} is out of range"));
    };
    if slot.replace(value).is_some() {
        return error(parser, &format!("{name} is given twice"));
    }
    Ok(())
}
