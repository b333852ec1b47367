//! The owner's declarations: CREATE, ALTER and DROP.
//!
//! In: a parser at the verb. Out: a [`Declaration`]. Its names are unresolved, and its literals
//! have no type yet.
//!
//! ```text
//! CREATE EXTERNAL TABLE IF NOT EXISTS t STORED AS CSV LOCATION 't.csv'   →  CreateTable { name: t, taken: Keep, … }
//! ```

use sqlparser::ast::DataType;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::amounts_per_query::PerQueryClause;
use super::budget_clauses::{accountant, floor, limit, per_query, spent};
use super::declaration::{Declaration, DomainClause, Taken};
use super::literal::{literal, literal_list};
use super::parser::HushDialect;
use super::partition;
use super::role_statements::role;
use super::rule_clauses::{for_role, rules};
use super::script::TokenOffsets;
use super::slice_clauses::{alteration, analyst, slices};
use super::template_clauses::create_template;
use super::unit_clause::UnitClause;
use super::view::create_view;
use crate::catalog::{Replay, SpentUnit};
use crate::dialect::clauses::{error, expect_word, take_word, word_at};
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{column_name, column_names, name};
use crate::refusal::{Reason, Refusal};

/// A statement that begins with CREATE, ALTER or DROP.
pub(super) fn declaration(
    parser: &mut Parser,
    dialect: &HushDialect,
    places: TokenOffsets<'_>,
) -> Result<Declaration, DialectError> {
    let verb = parser.next_token().token.to_string().to_lowercase();
    let replace = verb == "create" && take_word(parser, "OR");
    if replace {
        expect_word(parser, "REPLACE")?;
    }
    if take_word(parser, "PRIVACY") {
        expect_word(parser, "BUDGET")?;
        return Ok(budget(parser, &verb, replace)?);
    }
    if !replace && (take_word(parser, "ROLE") || take_word(parser, "USER")) {
        return Ok(role(parser, &verb)?);
    }
    match verb.as_str() {
        "create" if take_word(parser, "EXTERNAL") => {
            expect_word(parser, "TABLE")?;
            Ok(create_table(parser, replace)?)
        }
        "create" if take_word(parser, "VIEW") => {
            let taken = taken(parser, replace)?;
            create_view(parser, dialect, places, taken)
        }
        "create" if take_word(parser, "TEMPLATE") => {
            let taken = taken(parser, replace)?;
            create_template(parser, dialect, places, taken)
        }
        "drop" if take_word(parser, "TEMPLATE") => {
            let if_exists = word_then(parser, "IF", "EXISTS");
            let name = name(parser)?;
            Ok(Declaration::DropTemplate { name, if_exists })
        }
        "alter" if take_word(parser, "TABLE") => Ok(alter_table(parser)?),
        "alter" if take_word(parser, "VAULT") => Ok(alter_vault(parser)?),
        "drop" if take_word(parser, "TABLE") => {
            let if_exists = word_then(parser, "IF", "EXISTS");
            Ok(Declaration::DropTable { name: name(parser)?, if_exists })
        }
        "drop" if take_word(parser, "VIEW") => {
            let if_exists = word_then(parser, "IF", "EXISTS");
            Ok(Declaration::DropView { name: name(parser)?, if_exists })
        }
        _ => Err(Refusal::new(
            Reason::Statement,
            verb.to_uppercase(),
            "only external tables, views, templates, privacy budgets, release tables and roles can be created and dropped",
            "CREATE EXTERNAL TABLE …, CREATE VIEW … AS …, CREATE TEMPLATE …(…) AS …, ALTER TABLE … SET PRIVACY …, CREATE PRIVACY BUDGET …, CREATE RELEASE TABLE … AS SELECT …",
        )
        .into()),
    }
}

/// What happens if the name is taken: OR REPLACE came before, or IF NOT EXISTS may come next.
fn taken(parser: &mut Parser, replace: bool) -> Result<Taken, ParserError> {
    // All three words are needed, because a table may be named `if`.
    let words = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    if !(words(0, "IF") && words(1, "NOT") && words(2, "EXISTS")) {
        return Ok(if replace { Taken::Replace } else { Taken::Fail });
    }
    if replace {
        return error(parser, "write OR REPLACE or IF NOT EXISTS, not both");
    }
    for word in ["IF", "NOT", "EXISTS"] {
        expect_word(parser, word)?;
    }
    Ok(Taken::Keep)
}

/// Consumes these two words if they come next. A view may be named `if`, so one word is not enough.
pub(super) fn word_then(parser: &mut Parser, first: &str, second: &str) -> bool {
    let is = |n: usize, word: &str| matches!(&parser.peek_nth_token(n).token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    is(0, first) && is(1, second) && take_word(parser, first) && take_word(parser, second)
}

fn create_table(parser: &mut Parser, replace: bool) -> Result<Declaration, ParserError> {
    let taken = taken(parser, replace)?;
    let table = name(parser)?;
    let mut columns = Vec::new();
    if parser.consume_token(&Token::LParen) {
        loop {
            columns.push((column_name(parser)?, parser.parse_data_type()?));
            // Each column may hold NULL, whatever its file or its program says.
            if !parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
                let _ = parser.parse_keyword(Keyword::NULL);
            }
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
        _ => return parser.expected("CSV, PARQUET, JSON, ARROW, DELTA, SQLITE or POSTGRES", at),
    };
    let partitioned_by = match word_then(parser, "PARTITIONED", "BY") {
        true => partitions(parser)?,
        false => Vec::new(),
    };
    expect_word(parser, "LOCATION")?;
    let location = parser.parse_literal_string()?;
    let options = options(parser)?;
    Ok(Declaration::CreateTable {
        name: table,
        columns,
        format,
        partitioned_by,
        location,
        options,
        taken,
    })
}

/// `OPTIONS ('delimiter' ';', has_header TRUE)`: lower-case names with the texts of their values.
/// Empty if the next word is another one.
pub(super) fn options(parser: &mut Parser) -> Result<Vec<(String, String)>, ParserError> {
    let mut options = Vec::new();
    if !take_word(parser, "OPTIONS") {
        return Ok(options);
    }
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
            return Ok(options);
        }
    }
}

/// `(year INT, name)`, which follows PARTITIONED BY.
fn partitions(parser: &mut Parser) -> Result<Vec<(String, Option<DataType>)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut partitions = Vec::new();
    loop {
        let column = name(parser)?;
        let is_typed = !matches!(parser.peek_token().token, Token::Comma | Token::RParen);
        let data_type = if is_typed { Some(parser.parse_data_type()?) } else { None };
        partitions.push((column, data_type));
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(&Token::RParen)?;
            return Ok(partitions);
        }
    }
}

fn alter_table(parser: &mut Parser) -> Result<Declaration, ParserError> {
    let table = name(parser)?;
    if take_word(parser, "ALTER") {
        take_word(parser, "COLUMN");
        let column = column_name(parser)?;
        if take_word(parser, "DROP") {
            expect_word(parser, "PRIVACY")?;
            expect_word(parser, "DOMAIN")?;
            return Ok(Declaration::DropDomain { table, column });
        }
        expect_word(parser, "SET")?;
        if take_word(parser, "PUBLIC") {
            return Ok(Declaration::SetPublicColumn { table, column });
        }
        expect_word(parser, "PRIVACY")?;
        expect_word(parser, "DOMAIN")?;
        return Ok(Declaration::SetDomain { table, column, domain: domain(parser)? });
    }
    if take_word(parser, "DROP") {
        if take_word(parser, "STRICT") {
            return Ok(Declaration::SetStrict { table, strict: false });
        }
        if take_word(parser, "ABOUT") {
            return Ok(Declaration::SetAbout { table, people: None });
        }
        if take_word(parser, "RULES") {
            let role = for_role(parser)?;
            return Ok(Declaration::SetRules { table, role, rules: None });
        }
        expect_word(parser, "PRIVACY")?;
        if take_word(parser, "FLOOR") {
            return Ok(Declaration::SetFloor { table, floor: None });
        }
        take_word(parser, "UNIT");
        return Ok(Declaration::DropUnit { table });
    }
    if take_word(parser, "REFRESH") {
        return Ok(Declaration::Refresh { table });
    }
    if take_word(parser, "RELOAD") {
        return Ok(Declaration::Reload { table });
    }
    expect_word(parser, "SET")?;
    if take_word(parser, "PUBLIC") {
        return Ok(Declaration::SetPublic { table });
    }
    if take_word(parser, "STRICT") {
        return Ok(Declaration::SetStrict { table, strict: true });
    }
    if take_word(parser, "ABOUT") {
        return Ok(Declaration::SetAbout { table, people: Some(about_people(parser)?) });
    }
    if take_word(parser, "RULES") {
        let rules = rules(parser)?;
        let role = rules.role.clone();
        return Ok(Declaration::SetRules { table, role, rules: Some(Box::new(rules)) });
    }
    expect_word(parser, "PRIVACY")?;
    if take_word(parser, "SPENT") {
        let spent = Box::new(spent(parser)?);
        let unit = spent_unit(parser)?;
        let by = if take_word(parser, "BY") { Some(analyst(parser)?) } else { None };
        let together = match word_then(parser, "TOGETHER", "WITH") {
            true => some_names(parser)?,
            false => Vec::new(),
        };
        return Ok(Declaration::SetSpent { table, by, spent, together, unit });
    }
    if take_word(parser, "FLOOR") {
        return Ok(Declaration::SetFloor { table, floor: Some(floor(parser)?) });
    }
    expect_word(parser, "UNIT")?;
    let unit = unit(parser)?;
    let mut other_people = Vec::new();
    if take_word(parser, "OTHER") {
        expect_word(parser, "PEOPLE")?;
        expect_word(parser, "THAN")?;
        other_people = some_names(parser)?;
    }
    Ok(Declaration::SetUnit { table, unit, other_people })
}

/// `SET EXPORT FOLDER 'path' FOR analyst` or `DROP EXPORT FOLDER FOR analyst`, which follows ALTER
/// VAULT.
fn alter_vault(parser: &mut Parser) -> Result<Declaration, ParserError> {
    let sets = take_word(parser, "SET");
    if !sets {
        expect_word(parser, "DROP")?;
    }
    expect_word(parser, "EXPORT")?;
    expect_word(parser, "FOLDER")?;
    let folder = if sets { Some(parser.parse_literal_string()?) } else { None };
    expect_word(parser, "FOR")?;
    let analyst = analyst(parser)?;
    Ok(Declaration::SetExport { analyst, folder })
}

/// `a, b`.
fn some_names(parser: &mut Parser) -> Result<Vec<String>, ParserError> {
    let mut names = vec![name(parser)?];
    while parser.consume_token(&Token::Comma) {
        names.push(name(parser)?);
    }
    Ok(names)
}

/// `UNIT (person) PER MONTH OF (date)` or `PRESENCE PUBLIC`: the units for which amounts were
/// spent. `None` if neither comes next.
fn spent_unit(parser: &mut Parser) -> Result<Option<SpentUnit>, ParserError> {
    if word_then(parser, "PRESENCE", "PUBLIC") {
        return Ok(Some(SpentUnit::Present));
    }
    if !take_word(parser, "UNIT") {
        return Ok(None);
    }
    match unit(parser)? {
        UnitClause::Month { person, date, max_rows: None } => {
            Ok(Some(SpentUnit::Months { person, date }))
        }
        UnitClause::Month { .. }
        | UnitClause::Row
        | UnitClause::Column { .. }
        | UnitClause::Present { .. }
        | UnitClause::Via { .. } => error(
            parser,
            "SPENT names its unit only for months: SPENT (epsilon=1) UNIT (patient) PER MONTH OF (visited_at), and for people whose presence is public: SPENT (epsilon=1) PRESENCE PUBLIC",
        ),
    }
}

/// The clause after SET PRIVACY UNIT, up to OTHER PEOPLE.
fn unit(parser: &mut Parser) -> Result<UnitClause, ParserError> {
    if take_word(parser, "ROW") {
        return Ok(UnitClause::Row);
    }
    if take_word(parser, "VIA") {
        let columns = column_names(parser)?;
        expect_word(parser, "REFERENCES")?;
        let table = name(parser)?;
        let references = column_names(parser)?;
        if columns.len() != references.len() {
            return error(
                parser,
                "VIA needs the same number of columns on both sides: VIA (a) REFERENCES t(b)",
            );
        }
        return Ok(UnitClause::Via { columns, table, references, max_rows: max_rows(parser)? });
    }
    parser.expect_token(&Token::LParen)?;
    let column = column_name(parser)?;
    if parser.peek_token().token == Token::Comma {
        return error(
            parser,
            "a unit is one column; for several columns, write VIA (a, b) REFERENCES people(a, b)",
        );
    }
    parser.expect_token(&Token::RParen)?;
    let unique = take_word(parser, "UNIQUE");
    if take_word(parser, "PER") {
        if unique {
            return error(
                parser,
                "UNIQUE says that a person has one row in all: with PER MONTH OF, write MAX ROWS 1 for one row a month",
            );
        }
        expect_word(parser, "MONTH")?;
        expect_word(parser, "OF")?;
        parser.expect_token(&Token::LParen)?;
        let date = column_name(parser)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(UnitClause::Month { person: column, date, max_rows: max_rows(parser)? });
    }
    if take_word(parser, "PRESENCE") {
        expect_word(parser, "PUBLIC")?;
        if !unique {
            return error(
                parser,
                "PRESENCE PUBLIC is for people with one row each: write (id) UNIQUE PRESENCE PUBLIC",
            );
        }
        let public = match take_word(parser, "WITH") {
            true => column_names(parser)?,
            false => Vec::new(),
        };
        return Ok(UnitClause::Present { column, public });
    }
    Ok(UnitClause::Column { column, unique, max_rows: max_rows(parser)? })
}

/// `n PEOPLE`, which follows ABOUT.
fn about_people(parser: &mut Parser) -> Result<u64, ParserError> {
    let people = parser.parse_literal_uint()?;
    expect_word(parser, "PEOPLE")?;
    match people {
        0 => error(parser, "ABOUT n PEOPLE takes at least 1"),
        people if people > 1 << 40 => error(parser, "ABOUT n PEOPLE takes at most 1099511627776"),
        people => Ok(people),
    }
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
        let column = column_name(parser)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(DomainClause::References { table, column });
    }
    expect_word(parser, "BETWEEN")?;
    let (lo, hi) = if parser.consume_token(&Token::LParen) {
        let lo = literal(parser)?;
        parser.expect_token(&Token::Comma)?;
        let hi = literal(parser)?;
        parser.expect_token(&Token::RParen)?;
        (lo, hi)
    } else {
        let lo = literal(parser)?;
        parser.expect_keyword(Keyword::AND)?;
        (lo, literal(parser)?)
    };
    let step = if take_word(parser, "STEP") { Some(literal(parser)?) } else { None };
    let or_null = parser.parse_keywords(&[Keyword::OR, Keyword::NULL]);
    Ok(DomainClause::Between { lo, hi, step, or_null })
}

fn budget(parser: &mut Parser, verb: &str, replace: bool) -> Result<Declaration, ParserError> {
    match verb {
        "create" => {
            let taken = taken(parser, replace)?;
            let budget = name(parser)?;
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
            let replay = match take_word(parser, "REPLAY") {
                true => replay(parser)?,
                false => Replay::default(),
            };
            let spent = match take_word(parser, "SPENT") {
                true => Some(Box::new(spent(parser)?)),
                false => None,
            };
            let slices = slices(parser)?;
            no_renewal(parser)?;
            let name = budget;
            let create = Declaration::CreateBudget {
                name,
                table,
                limit,
                per_query,
                replay,
                spent,
                slices,
                taken,
            };
            partition::of_new(parser, create)
        }
        "alter" => {
            let budget = name(parser)?;
            if let Some(altered) = alteration(parser, &budget)? {
                return Ok(altered);
            }
            if let Some(altered) = partition::alteration(parser, &budget)? {
                return Ok(altered);
            }
            if take_word(parser, "DROP") {
                expect_word(parser, "PER")?;
                expect_word(parser, "QUERY")?;
                let per_query = Box::default();
                return Ok(Declaration::AlterPerQuery { name: budget, per_query });
            }
            expect_word(parser, "SET")?;
            if take_word(parser, "PER") {
                let per_query = Box::new(per_query(parser)?);
                return Ok(Declaration::AlterPerQuery { name: budget, per_query });
            }
            if take_word(parser, "REPLAY") {
                return Ok(Declaration::SetReplay { name: budget, replay: replay(parser)? });
            }
            no_renewal(parser)?;
            if !take_word(parser, "LIMIT") {
                return error(
                    parser,
                    "ALTER PRIVACY BUDGET takes SET LIMIT (…), SET PER QUERY (…), DROP PER QUERY, SET REPLAY (…), ADD SLICE …, ALTER SLICE …, DROP SLICE …, PARTITION BY column or DROP PARTITION",
                );
            }
            let limit = Box::new(limit(parser)?);
            if take_word(parser, "ACCOUNTANT") {
                return error(
                    parser,
                    "the accountant of a budget cannot change after its creation",
                );
            }
            Ok(Declaration::AlterBudget { name: budget, limit })
        }
        _ => {
            let if_exists = word_then(parser, "IF", "EXISTS");
            Ok(Declaration::DropBudget { name: name(parser)?, if_exists })
        }
    }
}

/// Refuses RENEW, which no budget has: a clock gives nothing back to the people in the data.
fn no_renewal(parser: &mut Parser) -> Result<(), ParserError> {
    if !take_word(parser, "RENEW") {
        return Ok(());
    }
    error(
        parser,
        "a budget does not renew: the same rows would be asked about again each month, and what they lost adds up. Where a unit is one month of a person, each new month has a limit of its own: write ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at), and the budget without RENEW",
    )
}

/// `(ALL | OWN | OFF)`, which follows REPLAY.
fn replay(parser: &mut Parser) -> Result<Replay, ParserError> {
    parser.expect_token(&Token::LParen)?;
    match Replay::of_word(&name(parser)?) {
        Some(replay) => parser.expect_token(&Token::RParen).map(|_| replay),
        None => error(parser, "REPLAY takes ALL, OWN or OFF"),
    }
}
