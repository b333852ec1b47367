//! Reads the dialect through sqlparser's own extension points.
//!
//! A [`Dialect`] whose `parse_prefix` hook reads `ARGMAX EXPONENTIAL(eps=1) status` and
//! `LAPLACE(eps=1) COUNT(*)` as expressions, and whose infix hook reads `GROUP BY x KEYS (…)`. Each becomes a
//! call of a reserved function whose number indexes the clause kept beside the tree. No SQL text is patched.

use std::cell::RefCell;

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

use super::ast::{
    AggregateCall, AggregateName, KeysClause, Literal, MechanismName, Operand, Parameters,
    ReleaseClause, Selector, marker,
};
use super::literal::{literal_list, literal_of, named_literals};
use crate::catalog::RESERVED;
use crate::privacy::{Delta, Epsilon};

/// The name of the function that wraps a GROUP BY expression with KEYS.
pub(super) fn keys_marker(n: usize) -> String {
    format!("{RESERVED}_keys_{n}")
}

/// The name of the function that wraps the first item of a SELECT WITH DIFFERENTIAL_PRIVACY.
pub(super) fn options_marker(n: usize) -> String {
    format!("{RESERVED}_options_{n}")
}

/// The number in a reserved function's name, if it is of this kind.
pub(super) fn numbered(name: &str, kind: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix(kind)?.parse().ok()
}

/// `OPTIONS(…)` of GoogleSQL's clause.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Options {
    pub(super) parameters: Parameters,
    pub(super) unit_column: Option<String>,
    pub(super) group_selection: Option<String>,
    pub(super) min_units: Option<u64>,
}

/// What the hooks have read so far, by number.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    pub(super) releases: Vec<ReleaseClause>,
    pub(super) keys: Vec<KeysClause>,
    pub(super) options: Vec<Options>,
}

/// The dialect: standard SQL, and the hooks.
#[derive(Debug, Default)]
pub(super) struct HushDialect {
    pub(super) clauses: RefCell<Clauses>,
}

impl Dialect for HushDialect {
    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Some(head) = release_head(parser) {
            return Some(self.release(parser, &head));
        }
        starts_options(parser).then(|| self.options(parser))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        starts_keys(parser).then_some(Ok(self.prec_value(sqlparser::dialect::Precedence::Or)))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        starts_keys(parser).then(|| {
            parser.next_token();
            let clause = keys(parser)?;
            let mut clauses = self.clauses.borrow_mut();
            clauses.keys.push(clause);
            Ok(call(keys_marker(clauses.keys.len() - 1), vec![expr.clone()]))
        })
    }
}

/// What stands at the beginning of a release.
struct Head {
    selector: Option<&'static str>,
    count: Option<String>,
    words: usize,
    mechanism: MechanismName,
}

fn word_at(parser: &Parser, n: usize) -> Option<Word> {
    match parser.peek_nth_token(n).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}

/// Whether the next tokens begin a release; looks ahead without consuming.
fn release_head(parser: &Parser) -> Option<Head> {
    let first = word_at(parser, 0)?;
    let selector = ["ARGMAX", "ARGMIN", "TOP", "BOTTOM"]
        .into_iter()
        .find(|name| name.eq_ignore_ascii_case(&first.value));
    let (count, words) = match selector {
        None => (None, 0),
        Some("TOP" | "BOTTOM") => match parser.peek_nth_token(1).token {
            Token::Number(count, _) => (Some(count), 2),
            _ => return None,
        },
        Some(_) => (None, 1),
    };
    let mechanism = MechanismName::parse(&word_at(parser, words)?.value)?;
    if parser.peek_nth_token(words + 1).token != Token::LParen {
        return None;
    }
    // A function of the same name stays a function: a release names its parameters, or has an operand.
    let named = word_at(parser, words + 2).is_some()
        && matches!(parser.peek_nth_token(words + 3).token, Token::Eq | Token::RArrow);
    let release = selector.is_some() || named || followed_by_operand(parser, words + 1);
    release.then_some(Head { selector, count, words, mechanism })
}

/// Whether a word follows the parenthesis that opens at token `n`.
fn followed_by_operand(parser: &Parser, n: usize) -> bool {
    let mut depth = 0_i32;
    for i in n..n + 64 {
        match parser.peek_nth_token(i).token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => {
                return word_at(parser, i + 1)
                    .is_some_and(|w| AggregateName::parse(&w.value).is_some());
            }
            Token::RParen => depth -= 1,
            Token::EOF => return false,
            _ => {}
        }
    }
    false
}

fn starts_options(parser: &mut Parser) -> bool {
    let with = word_at(parser, 0).is_some_and(|w| w.keyword == Keyword::WITH)
        && word_at(parser, 1).is_some_and(|w| w.value.eq_ignore_ascii_case("differential_privacy"));
    if !with {
        return false;
    }
    parser.prev_token();
    let select = word_at(parser, 0).is_some_and(|w| w.keyword == Keyword::SELECT);
    parser.next_token();
    select
}

fn starts_keys(parser: &Parser) -> bool {
    word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("keys"))
        && match parser.peek_nth_token(1).token {
            Token::LParen => true,
            Token::Word(word) => {
                word.quote_style.is_none()
                    && (word.keyword == Keyword::TABLE || word.value.eq_ignore_ascii_case("domain"))
            }
            _ => false,
        }
}

impl HushDialect {
    fn release(&self, parser: &mut Parser, head: &Head) -> Result<Expr, ParserError> {
        for _ in 0..=head.words {
            parser.next_token();
        }
        let parameters = mechanism_parameters(parser, head.mechanism)?;
        let (operand, arguments, filter, text) = match head.selector {
            None => {
                let (call, argument, filter, text) =
                    aggregate(parser, &head.mechanism.to_string())?;
                (Operand::Aggregate(call), argument, filter, text)
            }
            Some(name) => selection(parser, name, head.count.as_deref())?,
        };
        let distinct = match &operand {
            Operand::Aggregate(call) | Operand::Selection { score: call, .. } => call.distinct,
        };
        let mut clauses = self.clauses.borrow_mut();
        let n = clauses.releases.len();
        clauses.releases.push(ReleaseClause {
            mechanism: head.mechanism,
            parameters,
            operand,
            keys: Vec::new(),
            unit_column: None,
            text,
        });
        Ok(aggregate_marker(n, arguments, filter, distinct))
    }

    fn options(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        parser.next_token();
        parser.next_token();
        expect_word(parser, "OPTIONS")?;
        let options = options(parser)?;
        if parser.peek_token().token == Token::Mul {
            return error(parser, "SELECT * cannot be released; name the columns");
        }
        let first = parser.parse_prefix()?;
        let mut clauses = self.clauses.borrow_mut();
        clauses.options.push(options);
        Ok(call(options_marker(clauses.options.len() - 1), vec![first]))
    }
}

/// A call of a function of ours in the tree.
pub(super) fn call(name: String, arguments: Vec<Expr>) -> Expr {
    Expr::Function(sql::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: sql::FunctionArguments::None,
        args: sql::FunctionArguments::List(sql::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|e| sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(e)))
                .collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The marker call of release `n`: an aggregate function of its arguments and FILTER.
pub(super) fn aggregate_marker(
    n: usize,
    arguments: Vec<Expr>,
    filter: Option<Box<Expr>>,
    distinct: bool,
) -> Expr {
    let mut expr = call(marker(n), arguments);
    if let Expr::Function(function) = &mut expr {
        function.filter = filter;
        if let (true, sql::FunctionArguments::List(list)) = (distinct, &mut function.args) {
            list.duplicate_treatment = Some(sql::DuplicateTreatment::Distinct);
        }
    }
    expr
}

type SelectionParts = (Operand, Vec<Expr>, Option<Box<Expr>>, String);

/// `status [IN (…)] [BY score] [PRIOR …]` after the mechanism.
fn selection(
    parser: &mut Parser,
    name: &str,
    count: Option<&str>,
) -> Result<SelectionParts, ParserError> {
    let count = match count.map(str::parse::<u64>) {
        Some(Ok(0) | Err(_)) => return error(parser, "TOP and BOTTOM take a whole number"),
        Some(Ok(k)) => k,
        None => 1,
    };
    let selector = match name {
        "ARGMAX" => Selector::ArgMax,
        "ARGMIN" => Selector::ArgMin,
        "TOP" => Selector::Top(count),
        _ => Selector::Bottom(count),
    };
    let binds_tighter_than_in = parser.dialect_precedence_between();
    let target = parser.parse_subexpr(binds_tighter_than_in)?;
    let candidates = if parser.parse_keyword(Keyword::IN) {
        if word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("range")) {
            return error(parser, "candidates IN RANGE(…) are not built yet; list them: IN (1, 2)");
        }
        Some(literal_list(parser)?)
    } else {
        None
    };
    let text = target.to_string();
    let mut arguments = vec![target];
    let (score, filter, by) = if parser.parse_keyword(Keyword::BY) {
        let (score, argument, filter, by) = aggregate(parser, "BY")?;
        arguments.extend(argument);
        let arguments = by.find('(').map_or("", |at| &by[at..]);
        (score.clone(), filter, format!("{}{arguments}", score.function))
    } else {
        arguments.push(number("1"));
        (AggregateCall::count_star(), None, "COUNT(*)".to_owned())
    };
    if word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("prior"))
        && word_at(parser, 1).is_some()
    {
        return error(parser, "PRIOR is not built yet; without it the prior is uniform");
    }
    Ok((Operand::Selection { selector, candidates, score, by }, arguments, filter, text))
}

type AggregateParts = (AggregateCall, Vec<Expr>, Option<Box<Expr>>);

type NamedParts = (AggregateCall, Vec<Expr>, Option<Box<Expr>>, String);

/// The name of an aggregate's column: the call as written, its name in lower case, without named bounds.
pub(super) fn column_name(function: &sql::Function) -> String {
    let mut named = function.clone();
    let name = function.name.to_string().to_lowercase();
    named.name = ObjectName::from(vec![Ident::new(name)]);
    if let sql::FunctionArguments::List(list) = &mut named.args {
        list.args.retain(|argument| !matches!(argument, sql::FunctionArg::Named { .. }));
    }
    named.to_string()
}

/// Exactly one aggregate call, with its FILTER and its name.
fn aggregate(parser: &mut Parser, after: &str) -> Result<NamedParts, ParserError> {
    let at = parser.peek_token();
    let expr = parser.parse_prefix()?;
    let Expr::Function(function) = expr else {
        return parser.expected(&format!("an aggregate after {after}, such as COUNT(*)"), at);
    };
    let text = column_name(&function);
    match aggregate_call(function) {
        Ok((call, arguments, filter)) => Ok((call, arguments, filter, text)),
        Err(message) => Err(ParserError::ParserError(format!("{message}{}", at.span.start))),
    }
}

/// Takes an aggregate's function call apart; the error is a sentence without a position.
pub(super) fn aggregate_call(function: sql::Function) -> Result<AggregateParts, String> {
    let sql::Function {
        name,
        uses_odbc_syntax,
        parameters,
        args,
        filter,
        null_treatment,
        over,
        within_group,
    } = function;
    let written = name.to_string();
    let Some(function) = AggregateName::parse(&written) else {
        return Err(format!(
            "{written} is no aggregate that can be released; COUNT, SUM and AVG are"
        ));
    };
    if over.is_some() {
        return Err("a release cannot be a window function; leave out OVER".to_owned());
    }
    if uses_odbc_syntax
        || parameters != sql::FunctionArguments::None
        || null_treatment.is_some()
        || !within_group.is_empty()
    {
        return Err(format!("{written} takes an argument and FILTER, nothing else"));
    }
    let sql::FunctionArguments::List(sql::FunctionArgumentList {
        duplicate_treatment,
        args,
        clauses,
    }) = args
    else {
        return Err(format!("{written} needs an argument"));
    };
    if !clauses.is_empty() {
        return Err(format!("{written} takes no ORDER BY, LIMIT or other clause inside"));
    }
    let mut parsed = AggregateCall {
        function,
        star: false,
        distinct: duplicate_treatment == Some(sql::DuplicateTreatment::Distinct),
        bounds_per_group: None,
        bounds_per_row: None,
    };
    let mut arguments = Vec::new();
    for argument in args {
        match argument {
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(expr)) => arguments.push(expr),
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Wildcard) => {
                parsed.star = true;
                arguments.push(number("1"));
            }
            sql::FunctionArg::Named {
                name: bound,
                arg: sql::FunctionArgExpr::Expr(Expr::Tuple(pair)),
                operator: sql::FunctionArgOperator::RightArrow,
            } => {
                let slot = match bound.value.to_lowercase().as_str() {
                    "contribution_bounds_per_group" => &mut parsed.bounds_per_group,
                    "contribution_bounds_per_row" => &mut parsed.bounds_per_row,
                    other => return Err(format!("{written} takes no argument named {other}")),
                };
                let [lo, hi] = pair.as_slice() else {
                    return Err(format!("{bound} takes two numbers: (lo, hi)"));
                };
                let bounds = literal_of(lo).zip(literal_of(hi));
                if slot.replace(bounds.ok_or(format!("{bound} takes two literals"))?).is_some() {
                    return Err(format!("{bound} is given twice"));
                }
            }
            other => return Err(format!("{written} does not take the argument {other}")),
        }
    }
    let expected = match function {
        AggregateName::Unsupported(_) => arguments.len().max(1),
        AggregateName::Count | AggregateName::Sum | AggregateName::Avg => 1,
    };
    if arguments.len() != expected || (parsed.star && function != AggregateName::Count) {
        return Err(format!("{written} takes one argument"));
    }
    Ok((parsed, arguments, filter))
}

fn mechanism_parameters(
    parser: &mut Parser,
    mechanism: MechanismName,
) -> Result<Parameters, ParserError> {
    let mut parameters = Parameters::default();
    for (name, value) in named_literals(parser, &format!("{mechanism}(eps=1)"))? {
        let problem = match name.as_str() {
            "monotonic" => match value {
                Literal::Boolean(b) => give(&mut parameters.monotonic, b),
                _ => Some("is TRUE or FALSE".to_owned()),
            },
            "rho" => Some("needs a concentrated budget, which is not built yet; write eps".into()),
            _ => shared_parameter(&mut parameters, &name, &value)
                .unwrap_or_else(|| Some("is no parameter of a mechanism".to_owned())),
        };
        if let Some(problem) = problem {
            return error(parser, &format!("{name} {problem}"));
        }
    }
    Ok(parameters)
}

fn options(parser: &mut Parser) -> Result<Options, ParserError> {
    let mut options = Options::default();
    for (name, value) in named_literals(parser, "OPTIONS(epsilon=1)")? {
        let problem = match name.as_str() {
            "privacy_unit_column" => match value.text() {
                Some(text) => give(&mut options.unit_column, text),
                None => Some("names a column".to_owned()),
            },
            "max_groups_contributed" => give_count(&mut options.parameters.groups, &value),
            "max_rows_contributed" => give_count(&mut options.parameters.total_rows, &value),
            "min_privacy_units_per_group" => give_count(&mut options.min_units, &value),
            "group_selection_strategy" => match value.text().map(|text| text.to_uppercase()) {
                Some(text) if ["LAPLACE_THRESHOLD", "PUBLIC_GROUPS"].contains(&text.as_str()) => {
                    give(&mut options.group_selection, text)
                }
                _ => Some("is LAPLACE_THRESHOLD or PUBLIC_GROUPS".to_owned()),
            },
            "rho" => Some("needs a concentrated budget, which is not built yet".to_owned()),
            _ => shared_parameter(&mut options.parameters, &name, &value)
                .unwrap_or_else(|| Some("is no option".to_owned())),
        };
        if let Some(problem) = problem {
            return error(parser, &format!("{name} {problem}"));
        }
    }
    Ok(options)
}

/// Sets a parameter that mechanisms and OPTIONS share; the inner value is what is wrong with it.
fn shared_parameter(
    parameters: &mut Parameters,
    name: &str,
    value: &Literal,
) -> Option<Option<String>> {
    let text = match value {
        Literal::Number(text) => text.as_str(),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => "",
    };
    match name {
        "eps" | "epsilon" => Some(match text.parse::<Epsilon>() {
            Ok(epsilon) => give(&mut parameters.epsilon, epsilon),
            Err(_) => Some("must be a number from 1e-12 to 1000000".to_owned()),
        }),
        "delta" => Some(match text.parse::<Delta>() {
            Ok(delta) => give(&mut parameters.delta, delta),
            Err(_) => Some("must be a number between 0 and 1, at least 1e-18".to_owned()),
        }),
        "groups" => Some(give_count(&mut parameters.groups, value)),
        "rows" => Some(give_count(&mut parameters.rows, value)),
        _ => None,
    }
}

fn give<T>(slot: &mut Option<T>, value: T) -> Option<String> {
    slot.replace(value).is_some().then(|| "is given twice".to_owned())
}

fn give_count(slot: &mut Option<u64>, value: &Literal) -> Option<String> {
    let count = match value {
        Literal::Number(text) => text.parse::<u64>().ok().filter(|n| (1..=1 << 32).contains(n)),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    };
    match count {
        Some(count) => give(slot, count),
        None => Some("must be a whole number of at least 1".to_owned()),
    }
}

fn keys(parser: &mut Parser) -> Result<KeysClause, ParserError> {
    if parser.parse_keyword(Keyword::TABLE) {
        let table = parser.parse_identifier()?.value;
        parser.expect_token(&Token::LParen)?;
        let column = parser.parse_identifier()?.value;
        parser.expect_token(&Token::RParen)?;
        return Ok(KeysClause::Table { table, column });
    }
    if word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("domain")) {
        parser.next_token();
        return Ok(KeysClause::Domain);
    }
    Ok(KeysClause::List(literal_list(parser)?))
}

fn number(text: &str) -> Expr {
    Expr::Value(sql::Value::Number(text.to_owned(), false).into())
}

/// The next word must be this one.
pub(super) fn expect_word(parser: &mut Parser, word: &str) -> Result<(), ParserError> {
    let token = parser.next_token();
    match &token.token {
        Token::Word(found) if found.value.eq_ignore_ascii_case(word) => Ok(()),
        _ => parser.expected(word, token),
    }
}

/// Whether the next word is this one; consumes it then.
pub(super) fn take_word(parser: &mut Parser, word: &str) -> bool {
    let found = word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case(word));
    if found {
        parser.next_token();
    }
    found
}

/// An error at the current position.
pub(super) fn error<T>(parser: &Parser, message: &str) -> Result<T, ParserError> {
    let at = parser.peek_token().span.start;
    Err(ParserError::ParserError(format!("{message}{at}")))
}

/// The precedence of IN, which ends a selection's target.
trait BetweenPrecedence {
    fn dialect_precedence_between(&self) -> u8;
}

impl BetweenPrecedence for Parser<'_> {
    fn dialect_precedence_between(&self) -> u8 {
        HushDialect::default().prec_value(sqlparser::dialect::Precedence::Between)
    }
}
