//! The owner's declarations: CREATE, ALTER and DROP.
//!
//! In: a parser at the verb. Out: a [`Declaration`], whose names are unresolved and whose literals have no type yet.
//!
//! ```text
//! CREATE EXTERNAL TABLE IF NOT EXISTS t STORED AS CSV LOCATION 't.csv'   →  CreateTable { name: t, taken: Keep, … }
//! ```

use sqlparser::ast::DataType;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::declaration::{
    Accountant, Allowance, Declaration, DomainClause, LimitClause, PerQueryClause, SpentClause,
    Taken, UnitClause,
};
use super::literal::{Literal, literal, literal_list, named_literals};
use super::parser::HushDialect;
use super::script::Places;
use super::view::create_view;
use crate::dialect::clauses::{error, expect_word, take_word, word_at};
use crate::dialect::error::DialectError;
use crate::dialect::query::{name, names};
use crate::privacy::{Delta, Epsilon, Rho, parse_decimal};
use crate::refusal::{Reason, Refusal};

/// A statement that begins with CREATE, ALTER or DROP.
pub(super) fn declaration(
    parser: &mut Parser,
    dialect: &HushDialect,
    places: Places<'_>,
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
    match verb.as_str() {
        "create" if take_word(parser, "EXTERNAL") => {
            expect_word(parser, "TABLE")?;
            Ok(create_table(parser, replace)?)
        }
        "create" if take_word(parser, "VIEW") => {
            let taken = taken(parser, replace)?;
            create_view(parser, dialect, places, taken)
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
            "only external tables, views and privacy budgets can be created and dropped",
            "CREATE EXTERNAL TABLE …, CREATE VIEW … AS …, ALTER TABLE … SET PRIVACY …, CREATE PRIVACY BUDGET …",
        )
        .into()),
    }
}

/// What happens to what has the name already: OR REPLACE came before, or IF NOT EXISTS comes next.
fn taken(parser: &mut Parser, replace: bool) -> Result<Taken, ParserError> {
    // A table may be named `if`.
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

/// Whether these two words come next; if so, consumes them. A view may be named `if`.
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
        _ => return parser.expected("CSV, PARQUET, JSON, ARROW or POSTGRES", at),
    };
    let partitioned_by = match word_then(parser, "PARTITIONED", "BY") {
        true => partitions(parser)?,
        false => Vec::new(),
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
    if take_word(parser, "SPENT") {
        let spent = Box::new(spent(parser)?);
        let together = match word_then(parser, "TOGETHER", "WITH") {
            true => some_names(parser)?,
            false => Vec::new(),
        };
        return Ok(Declaration::SetSpent { table, spent, together });
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

/// `SET EXPORT FOLDER 'path' FOR analyst` or `DROP EXPORT FOLDER FOR analyst`, which follows ALTER VAULT.
fn alter_vault(parser: &mut Parser) -> Result<Declaration, ParserError> {
    let sets = take_word(parser, "SET");
    if !sets {
        expect_word(parser, "DROP")?;
    }
    expect_word(parser, "EXPORT")?;
    expect_word(parser, "FOLDER")?;
    let folder = if sets { Some(parser.parse_literal_string()?) } else { None };
    expect_word(parser, "FOR")?;
    // Names of analysts are not those of tables: their letters are as they are.
    let analyst = parser.parse_identifier()?.value;
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
            let spent = match take_word(parser, "SPENT") {
                true => Some(Box::new(spent(parser)?)),
                false => None,
            };
            Ok(Declaration::CreateBudget { name: budget, table, limit, per_query, spent, taken })
        }
        "alter" => {
            let budget = name(parser)?;
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
            if !take_word(parser, "LIMIT") {
                return error(
                    parser,
                    "ALTER PRIVACY BUDGET takes SET LIMIT (…), SET PER QUERY (…) or DROP PER QUERY",
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

/// `(epsilon=…, delta=…, rho=…, rho_delta=…)`, which follows SPENT.
fn spent(parser: &mut Parser) -> Result<SpentClause, ParserError> {
    let mut clause = SpentClause::default();
    for (name, value) in named_literals(parser, "SPENT (epsilon=3, delta=1e-7)")? {
        let slot = match name.as_str() {
            "epsilon" | "eps" => &mut clause.epsilon,
            "delta" => &mut clause.delta,
            "rho" => &mut clause.rho,
            "rho_delta" => &mut clause.rho_delta,
            "releases" => &mut clause.releases,
            "dearest" => &mut clause.dearest,
            _ => {
                let takes = format!(
                    "SPENT takes epsilon, delta, rho, rho_delta, releases and dearest, not {name}"
                );
                return error(parser, &takes);
            }
        };
        let amount = match &value {
            Literal::Number(text) if !text.starts_with('-') => parse_decimal(text),
            Literal::Number(_) | Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
        };
        set(parser, slot, &name, amount)?;
    }
    let SpentClause { epsilon, releases, dearest, .. } = &clause;
    if releases.is_some() != dearest.is_some() || releases.is_some() && epsilon.is_none() {
        let together = "releases and dearest go together, with epsilon: SPENT (epsilon=0.12, releases=3, dearest=0.05)";
        return error(parser, together);
    }
    if releases.as_ref().is_some_and(|releases| !releases.is_integer()) {
        return error(parser, "releases is a whole number");
    }
    match (&clause.epsilon, &clause.rho, &clause.rho_delta) {
        (None, None, _) => error(parser, "SPENT needs epsilon or rho: SPENT (epsilon=3)"),
        (Some(_), None, Some(_)) => {
            error(parser, "rho_delta goes with rho: SPENT (epsilon=3, rho=1, rho_delta=1e-7)")
        }
        (None, Some(_), Some(_)) if clause.delta.is_some() => {
            error(parser, "without epsilon, SPENT has one delta: SPENT (rho=1, delta=1e-7)")
        }
        (None, Some(_), None) => {
            let delta = clause.delta.take();
            Ok(SpentClause { rho_delta: delta, ..clause })
        }
        (Some(_), _, _) | (None, Some(_), Some(_)) => Ok(clause),
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
    Ok(LimitClause { allowance, delta, accountant: Accountant::Sums })
}

/// `ACCOUNTANT ZCDP`, or `ACCOUNTANT COUPONS (epsilon=0.05)`, each with or without `thresholds=0`, after the limit of a new budget.
fn accountant(parser: &mut Parser, limit: LimitClause) -> Result<LimitClause, ParserError> {
    if !take_word(parser, "ACCOUNTANT") {
        return Ok(limit);
    }
    let coupons = take_word(parser, "COUPONS");
    if !coupons && !take_word(parser, "ZCDP") {
        let known = "the accountants are ZCDP and COUPONS (epsilon=0.05); without one, charges are added up";
        return error(parser, known);
    }
    let (mut thresholds, mut each) = (true, None);
    if parser.peek_token().token == Token::LParen {
        let form = if coupons { "COUPONS (epsilon=0.05)" } else { "ZCDP (thresholds=0)" };
        for (name, value) in named_literals(parser, &format!("ACCOUNTANT {form}"))? {
            match name.as_str() {
                "thresholds" if matches!(&value, Literal::Number(zero) if zero == "0") => {
                    thresholds = false;
                }
                "epsilon" | "eps" if coupons => {
                    set(parser, &mut each, &name, parse_epsilon(&value))?;
                }
                _ if coupons => return error(parser, COUPONS_TAKE),
                _ => return error(parser, ZCDP_TAKES),
            }
        }
    }
    let accountant = match (coupons, each) {
        (false, _) => Accountant::Zcdp { thresholds },
        (true, Some(epsilon)) => Accountant::Coupons { epsilon, thresholds },
        (true, None) => {
            let needed = "ACCOUNTANT COUPONS needs the epsilon that one release costs at most: ACCOUNTANT COUPONS (epsilon=0.05)";
            return error(parser, needed);
        }
    };
    match (&limit.allowance, &limit.delta) {
        (Allowance::Epsilon(_), Some(_)) => Ok(LimitClause { accountant, ..limit }),
        (Allowance::Epsilon(_), None) if coupons => {
            error(parser, "ACCOUNTANT COUPONS needs a delta: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Epsilon(_), None) => {
            error(parser, "ACCOUNTANT ZCDP needs a delta: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Rho(_), _) if coupons => {
            error(parser, "coupons are for a limit in epsilon: LIMIT (epsilon=2, delta=1e-6)")
        }
        (Allowance::Rho(_), _) => {
            error(parser, "a budget in rho needs no ACCOUNTANT: it adds up rho")
        }
    }
}

const ZCDP_TAKES: &str = "ACCOUNTANT ZCDP takes thresholds=0, which leaves no delta to releases that need one of their own; without it, they have half";
const COUPONS_TAKE: &str = "ACCOUNTANT COUPONS takes the epsilon of one release, and thresholds=0, which leaves no delta to releases that need one of their own; without it, they have half";

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
