//! Reads the dialect through sqlparser's own extension points.
//!
//! A [`Dialect`] whose `parse_prefix` hook reads `LAPLACE(eps=1) COUNT(*)` as an expression, and
//! whose infix hook reads `GROUP BY x KEYS (…)`. Each becomes a call of a reserved function; its
//! number is the position of the clause in [`Clauses`]. The infix hook also reads
//! `IS [NOT] DISTINCT FROM`: sqlparser would take all the rest of the condition as its operand.
//! Upstream: docs/upstream.md, 20. Delete that part when sqlparser has its pull request 2436.

use std::cell::{Cell, RefCell};

use sqlparser::ast::{self as sql, Expr};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::aggregate::aggregate;
use super::ast::{
    AggregateCall, AggregateName, CandidatesClause, KeysClause, MechanismName, Operand, Parameters,
    PriorClause, ReleaseClause, SelectionClause, Selector, marker,
};
use super::consistent::consistent_sets;
use super::fresh::{marked_fresh, starts_fresh};
use super::histogram::{
    Histogram, bare_count, counted, histogram, marked_histogram, starts_histogram,
};
use super::literal::{literal, literal_list};
use super::mode::{mode, starts_mode};
use super::parameters::{mechanism_parameters, options};
use super::power;
use super::value::Value;
use crate::dialect::clauses::{
    Clauses, call, error, folded, keys_marker, number, options_marker, take_word, word_at,
};

/// The dialect: standard SQL with the parser's hooks.
#[derive(Debug)]
pub(crate) struct HushDialect {
    pub(super) clauses: RefCell<Clauses>,
    /// The number of expressions that the parser may still begin.
    attempts: Cell<usize>,
    /// The values of a query's parameters.
    pub(super) values: Vec<Value>,
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

    /// `* EXCLUDE (x)` and `FROM t SELECT x` as in DuckDB, and `* EXCEPT (x)` as in BigQuery.
    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }
    fn supports_from_first_select(&self) -> bool {
        true
    }
    fn supports_select_wildcard_except(&self) -> bool {
        true
    }
    fn supports_projection_trailing_commas(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }
    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        match self.attempts.get().checked_sub(1) {
            Some(left) => self.attempts.set(left),
            None => return Some(Err(ParserError::RecursionLimitExceeded)),
        }
        if starts_fresh(parser) {
            parser.next_token();
            return Some(self.fresh(parser));
        }
        if let Some(head) = release_head(parser) {
            return Some(self.release(parser, &head));
        }
        if let Some(message) = half_a_selector(parser) {
            return Some(error(parser, &message));
        }
        if starts_mode(parser) {
            return Some(self.bare_mode(parser));
        }
        if starts_histogram(parser) {
            return Some(
                histogram(parser)
                    .map(|Histogram { class, filter }| marked_histogram(class, bare_count(filter))),
            );
        }
        if let Some(sets) = consistent_sets(parser) {
            return Some(sets);
        }
        starts_options(parser).then(|| self.options(parser))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if parser.peek_token().token == Token::Caret {
            return Some(Ok(power::PRECEDENCE));
        }
        starts_keys(parser).then_some(Ok(self.prec_value(sqlparser::dialect::Precedence::Or)))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(distinct) = distinct_from(parser) {
            return Some(distinct.operand(parser, expr, precedence));
        }
        starts_keys(parser).then(|| {
            parser.next_token();
            let clause = keys(parser)?;
            let mut clauses = self.clauses.borrow_mut();
            clauses.keys.push(clause);
            Ok(call(keys_marker(clauses.keys.len() - 1), vec![expr.clone()]))
        })
    }
}

/// `IS [NOT] DISTINCT FROM`.
struct DistinctFrom {
    negated: bool,
}

/// `IS [NOT] DISTINCT FROM`, if it comes next. Looks ahead without consuming.
fn distinct_from(parser: &Parser) -> Option<DistinctFrom> {
    let keyword = |n| word_at(parser, n).map(|word| word.keyword);
    let negated = keyword(1) == Some(Keyword::NOT);
    let rest = 1 + usize::from(negated);
    let words = [keyword(0), keyword(rest), keyword(rest + 1)];
    (words == [Keyword::IS, Keyword::DISTINCT, Keyword::FROM].map(Some))
        .then_some(DistinctFrom { negated })
}

impl DistinctFrom {
    /// Reads the words and the right operand, which ends before AND, OR and the next IS.
    fn operand(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Result<Expr, ParserError> {
        for _ in 0..3 + usize::from(self.negated) {
            parser.next_token();
        }
        let right = Box::new(parser.parse_subexpr(precedence)?);
        let left = Box::new(left.clone());
        Ok(match self.negated {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        })
    }
}

/// The beginning of a release.
struct ReleaseHead {
    selector: Option<&'static str>,
    count: Option<String>,
    words: usize,
    mechanism: MechanismName,
}

/// The beginning of a release, if one comes next. Looks ahead without consuming.
fn release_head(parser: &Parser) -> Option<ReleaseHead> {
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
    // A function of the same name stays a function: only a release has named parameters or an
    // operand.
    let named = word_at(parser, words + 2).is_some()
        && matches!(parser.peek_nth_token(words + 3).token, Token::Eq | Token::RArrow);
    let release = selector.is_some() || named || followed_by_operand(parser, words + 1);
    release.then_some(ReleaseHead { selector, count, words, mechanism })
}

/// The error for TOP or BOTTOM before either a number or a mechanism, but not both. Such a call has
/// no other meaning in SQL.
fn half_a_selector(parser: &Parser) -> Option<String> {
    let first = word_at(parser, 0)?;
    let selector =
        ["TOP", "BOTTOM"].into_iter().find(|name| name.eq_ignore_ascii_case(&first.value))?;
    let mechanism = |n| {
        let open = parser.peek_nth_token(n + 1).token == Token::LParen;
        word_at(parser, n).is_some_and(|w| open && MechanismName::parse(&w.value).is_some())
    };
    let second = parser.peek_nth_token(1).token;
    let misread = match &second {
        Token::Word(word) if word.keyword == Keyword::NoKeyword => mechanism(1) || mechanism(2),
        Token::Minus => mechanism(3),
        Token::Placeholder(_) => mechanism(2),
        _ => false,
    };
    if misread {
        return Some(format!(
            "{selector} needs a number of candidates: {selector} 3 EXPONENTIAL(eps=1) column"
        ));
    }
    matches!(second, Token::Number(..))
        .then(|| format!("{selector} needs a mechanism: {selector} 3 EXPONENTIAL(eps=1) column"))
}

/// True if an aggregate's name follows the parentheses that open at token `n`.
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
            Token::LParen | Token::Placeholder(_) => true,
            Token::Word(word) => {
                word.quote_style.is_none()
                    && (word.keyword == Keyword::TABLE || word.value.eq_ignore_ascii_case("domain"))
            }
            _ => false,
        }
}

impl Default for HushDialect {
    /// The dialect for a short text.
    fn default() -> Self {
        Self { clauses: RefCell::default(), attempts: Cell::new(100_000), values: Vec::new() }
    }
}

impl HushDialect {
    /// The dialect for a text with this number of tokens.
    ///
    /// If the argument of CAST, POSITION, CEIL or a similar function does not parse, sqlparser
    /// parses it again in another way, at each level of nesting. So the time that a mistake takes
    /// grows exponentially with its depth. A correct text begins fewer expressions than it has
    /// tokens.
    pub(super) fn for_tokens(tokens: usize) -> Self {
        let attempts = Cell::new(tokens.saturating_mul(8).saturating_add(1_000));
        Self { attempts, ..Self::default() }
    }

    /// The same dialect with values for the parameters of a query.
    pub(super) fn with_values(self, values: &[Value]) -> Self {
        Self { values: values.to_vec(), ..self }
    }

    /// True if the parser began too many expressions and gave up.
    pub(super) fn is_exhausted(&self) -> bool {
        self.attempts.get() == 0
    }

    /// A release, or an aggregate without a mechanism, after FRESH.
    fn fresh(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        let before = self.clauses.borrow().releases.len();
        let release = if let Some(head) = release_head(parser) {
            self.release(parser, &head)?
        } else if starts_mode(parser) {
            self.bare_mode(parser)?
        } else if starts_histogram(parser) {
            let Histogram { class, filter } = histogram(parser)?;
            let (operand, arguments) = counted();
            let (default, none) = (MechanismName::Default, Parameters::default());
            let n = self.add(default, none, operand, "count".to_owned());
            marked_histogram(class, aggregate_marker(n, arguments, filter, false))
        } else {
            let at = parser.peek_token().span.start;
            let Some(marked) = marked_fresh(parser.parse_prefix()?) else {
                let how = "FRESH stands before one release: FRESH LAPLACE(eps=1) COUNT(*), or FRESH COUNT(*)";
                return Err(ParserError::ParserError(format!("{how}{at}")));
            };
            marked
        };
        // The new clauses are all of this release, because its arguments contain no release.
        if let Some(own) = self.clauses.borrow_mut().releases.get_mut(before..) {
            own.iter_mut().for_each(|clause| clause.fresh = true);
        }
        Ok(release)
    }

    fn release(&self, parser: &mut Parser, head: &ReleaseHead) -> Result<Expr, ParserError> {
        for _ in 0..=head.words {
            parser.next_token();
        }
        let parameters = mechanism_parameters(parser, head.mechanism)?;
        if head.selector.is_none() && starts_histogram(parser) {
            let Histogram { class, filter } = histogram(parser)?;
            let (operand, arguments) = counted();
            let n = self.add(head.mechanism, parameters, operand, "count".to_owned());
            return Ok(marked_histogram(class, aggregate_marker(n, arguments, filter, false)));
        }
        let is_mode = head.selector.is_none() && starts_mode(parser);
        let (operand, arguments, filter, text) = match head.selector {
            None if is_mode => mode(parser)?,
            None if head.mechanism == MechanismName::RandomizedResponse => {
                let at = parser.peek_token().span.start;
                // Reads a qualified column or the like, but no operator.
                let tightest = self.prec_value(sqlparser::dialect::Precedence::Period);
                let column = parser.parse_subexpr(tightest)?;
                if let Some(aggregate) = aggregate_of(&column) {
                    let how = format!(
                        "RANDOMIZED_RESPONSE releases one value of each row, and {aggregate} combines many rows: write LAPLACE(eps=1) {aggregate}"
                    );
                    return Err(ParserError::ParserError(format!("{how}{at}")));
                }
                let text = name_of(&column);
                (Operand::Response, vec![column], None, text)
            }
            None => {
                let at = parser.peek_token().span.start;
                let mechanism = head.mechanism;
                let expected = match mechanism {
                    MechanismName::Exponential
                    | MechanismName::GeneralizedExponential
                    | MechanismName::PermuteAndFlip
                    | MechanismName::NoisyMax => format!(
                        "ARGMAX before {mechanism}, or a choice after it, such as MEDIAN(x)"
                    ),
                    MechanismName::Laplace
                    | MechanismName::Gaussian
                    | MechanismName::Auto
                    | MechanismName::RandomizedResponse
                    | MechanismName::Default => {
                        format!("an aggregate after {mechanism}, such as COUNT(*)")
                    }
                };
                let (call, argument, filter, text) = aggregate(parser, &expected)?;
                if call.function == AggregateName::Revenue {
                    let how = "REVENUE scores a price: ARGMAX EXPONENTIAL(eps=1) price IN (1, 2) BY REVENUE(bid, price)";
                    return Err(ParserError::ParserError(format!("{how}{at}")));
                }
                (Operand::Aggregate(call), argument, filter, text)
            }
            Some(name) => selection(parser, name, head.count.as_deref())?,
        };
        let distinct = match &operand {
            Operand::Aggregate(call) => call.distinct,
            Operand::Selection(selection) => selection.score.distinct,
            Operand::Response => false,
        };
        let n = self.add(head.mechanism, parameters, operand, text);
        self.clauses.borrow_mut().modes.extend(is_mode.then_some(n));
        Ok(aggregate_marker(n, arguments, filter, distinct))
    }

    /// A MODE without a mechanism.
    fn bare_mode(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        let (operand, arguments, filter, text) = mode(parser)?;
        let n = self.add(MechanismName::Default, Parameters::default(), operand, text);
        self.clauses.borrow_mut().modes.push(n);
        Ok(aggregate_marker(n, arguments, filter, false))
    }

    /// Adds a release and returns its number.
    fn add(
        &self,
        mechanism: MechanismName,
        parameters: Parameters,
        operand: Operand,
        text: String,
    ) -> usize {
        let mut clauses = self.clauses.borrow_mut();
        clauses.releases.push(ReleaseClause {
            mechanism,
            parameters,
            operand,
            keys: Vec::new(),
            unit_column: None,
            grouping: None,
            text,
            finding: None,
            consistent: None,
            fresh: false,
        });
        clauses.releases.len() - 1
    }

    fn options(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        parser.next_token();
        parser.next_token();
        let options = options(parser)?;
        let mut first = None;
        if parser.peek_token().token != Token::Mul {
            // The first word of a column may be followed by more of its name.
            let prefix = parser.parse_prefix()?;
            first = Some(parser.parse_compound_expr(prefix, Vec::new())?);
        }
        let Some(first) = first.filter(|_| parser.peek_token().token != Token::Period) else {
            return error(parser, "SELECT * cannot be released; name the columns");
        };
        let mut clauses = self.clauses.borrow_mut();
        clauses.options.push(options);
        Ok(call(options_marker(clauses.options.len() - 1), vec![first]))
    }
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
        Some(Ok(0) | Err(_)) => {
            return error(parser, &format!("{name} takes a whole number of at least 1"));
        }
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
    let at = parser.peek_token().span.start;
    let target = parser.parse_subexpr(binds_tighter_than_in)?;
    if let Some(aggregate) = aggregate_of(&target) {
        let how = format!(
            "{selector} chooses among candidates; {aggregate} is one number: LAPLACE(eps=1) {aggregate}"
        );
        return Err(ParserError::ParserError(format!("{how}{at}")));
    }
    let candidates = candidates(parser)?;
    let text = name_of(&target);
    let mut arguments = vec![target];
    let (score, filter, by) = if parser.parse_keyword(Keyword::BY) {
        let (score, argument, filter, by) =
            aggregate(parser, "an aggregate after BY, such as COUNT(*)")?;
        arguments.extend(argument);
        let arguments = by.find('(').map_or("", |at| &by[at..]);
        (score.clone(), filter, format!("{}{arguments}", score.function))
    } else {
        arguments.push(number("1"));
        (AggregateCall::count_star(), None, "COUNT(*)".to_owned())
    };
    let prior = prior(parser)?;
    if prior.is_some() && word_at(parser, 0).is_some_and(|w| w.keyword == Keyword::BY) {
        return error(parser, "write PRIOR after BY");
    }
    let selection = SelectionClause { selector, candidates, named: false, score, by, prior };
    Ok((Operand::Selection(Box::new(selection)), arguments, filter, text))
}

/// `IN (…)` or `IN RANGE(lo, hi [, step])`, if it comes next.
fn candidates(parser: &mut Parser) -> Result<Option<CandidatesClause>, ParserError> {
    if !parser.parse_keyword(Keyword::IN) {
        return Ok(None);
    }
    if !take_word(parser, "range") {
        return Ok(Some(CandidatesClause::List(literal_list(parser)?)));
    }
    parser.expect_token(&Token::LParen)?;
    let lo = literal(parser)?;
    parser.expect_token(&Token::Comma)?;
    let hi = literal(parser)?;
    let step = match parser.consume_token(&Token::Comma) {
        true => Some(literal(parser)?),
        false => None,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(Some(CandidatesClause::Range { lo, hi, step }))
}

/// `PRIOR table(key, weight)` or `PRIOR LOG_UNIFORM`, if it comes next.
fn prior(parser: &mut Parser) -> Result<Option<PriorClause>, ParserError> {
    let starts = word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("prior"));
    let log = word_at(parser, 1).is_some_and(|w| w.value.eq_ignore_ascii_case("log_uniform"));
    let table = parser.peek_nth_token(2).token == Token::LParen
        && matches!(parser.peek_nth_token(1).token, Token::Word(_));
    if !starts || !(log || table) {
        return Ok(None);
    }
    parser.next_token();
    if log {
        parser.next_token();
        return Ok(Some(PriorClause::LogUniform));
    }
    let table = folded(&parser.parse_identifier()?);
    parser.expect_token(&Token::LParen)?;
    let key = folded(&parser.parse_identifier()?);
    parser.expect_token(&Token::Comma)?;
    let weight = folded(&parser.parse_identifier()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Some(PriorClause::Table { table, key, weight }))
}

pub(crate) fn keys(parser: &mut Parser) -> Result<KeysClause, ParserError> {
    if parser.parse_keyword(Keyword::TABLE) {
        let table = folded(&parser.parse_identifier()?);
        parser.expect_token(&Token::LParen)?;
        let column = folded(&parser.parse_identifier()?);
        parser.expect_token(&Token::RParen)?;
        return Ok(KeysClause::Table { table, column });
    }
    if word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("domain")) {
        parser.next_token();
        return Ok(KeysClause::Domain);
    }
    Ok(KeysClause::List(literal_list(parser)?))
}

/// An operand as text. For a bare name, the name of its column.
fn name_of(operand: &Expr) -> String {
    match operand {
        Expr::Identifier(ident) => folded(ident),
        other => other.to_string(),
    }
}

/// The operand, if it is an aggregate instead of a column.
fn aggregate_of(operand: &Expr) -> Option<&Expr> {
    match operand {
        Expr::Function(call) if call.over.is_none() => {
            AggregateName::parse(&call.name.to_string()).map(|_| operand)
        }
        _ => None,
    }
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
