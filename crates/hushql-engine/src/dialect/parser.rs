//! Reads the dialect through sqlparser's own extension points.
//!
//! A [`Dialect`] whose `parse_prefix` hook reads `LAPLACE(eps=1) COUNT(*)` as an expression, and
//! whose infix hook reads `GROUP BY x KEYS (…)`. Each becomes a call of a reserved function; its
//! number is the position of the clause in [`Clauses`]. A mechanism may also be called like a
//! function, `laplace(count(*), 1)`, for tools that parse what they send.

use std::cell::{Cell, RefCell};

use sqlparser::ast::{self as sql, Expr};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::aggregate::aggregate;
use super::ast::{
    AggregateName, KeysClause, MechanismName, Operand, Parameters, ReleaseClause, marker,
};
use super::choice_clauses::{SelectionParts, aggregate_of, name_of, selection};
use super::consistent::consistent_sets;
use super::distinct_from::distinct_from;
use super::fresh::{marked_fresh, starts_fresh};
use super::histogram::{
    Histogram, bare_count, counted, histogram, marked_histogram, starts_histogram,
};
use super::literal::literal_list;
use super::markers_as_written::in_releases_words;
use super::mode::{mode, starts_mode};
use super::parameters::{called_parameters, mechanism_parameters, options};
use super::power;
use super::value::Value;
use crate::dialect::clauses::{Clauses, call, error, folded, keys_marker, options_marker, word_at};

/// The dialect: standard SQL with the parser's hooks.
#[derive(Debug)]
pub(crate) struct HushDialect {
    pub(super) clauses: RefCell<Clauses>,
    /// The number of expressions that the parser may still begin.
    attempts: Cell<usize>,
    /// The values of a query's parameters.
    pub(super) values: Vec<Value>,
    /// True if the parameters of a query have no values yet.
    pub(super) is_unvalued: bool,
    /// The literals in the place of parameters with names, in the query of a template.
    pub(super) named: Option<Vec<(String, Expr)>>,
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

    fn supports_string_escape_constant(&self) -> bool {
        true
    }
    fn supports_array_typedef_with_brackets(&self) -> bool {
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
        if let Some(mechanism) = called_mechanism(parser) {
            return Some(self.called(parser, mechanism));
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

/// The mechanism, if a call of one around an aggregate comes next: `laplace(count(*), 1)`. Looks
/// ahead without consuming.
fn called_mechanism(parser: &Parser) -> Option<MechanismName> {
    let mechanism = MechanismName::parse(&word_at(parser, 0)?.value)?;
    let opens = |n: usize| parser.peek_nth_token(n).token == Token::LParen;
    let operand = word_at(parser, 2)?;
    let is_aggregate = opens(3) && AggregateName::parse(&operand.value).is_some();
    let is_other = opens(3)
        && ["mode", "histogram", "count_if", "countif", "percentile_cont"]
            .iter()
            .any(|name| operand.value.eq_ignore_ascii_case(name));
    let is_response = mechanism == MechanismName::RandomizedResponse;
    (opens(1) && (is_aggregate || is_other || is_response)).then_some(mechanism)
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
        Self {
            clauses: RefCell::default(),
            attempts: Cell::new(100_000),
            values: Vec::new(),
            is_unvalued: false,
            named: None,
        }
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

    /// The same dialect for a query whose parameters have no values yet.
    pub(super) fn without_values(self) -> Self {
        Self { is_unvalued: true, ..self }
    }

    /// The same dialect for the query of a template, with a literal for each parameter.
    pub(super) fn with_named(self, literals: &[(String, Expr)]) -> Self {
        Self { named: Some(literals.to_vec()), ..self }
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
        } else if let Some(mechanism) = called_mechanism(parser) {
            self.called(parser, mechanism)?
        } else if starts_mode(parser) {
            self.bare_mode(parser)?
        } else if starts_histogram(parser) {
            let Histogram { class, filter } = histogram(parser)?;
            let (operand, arguments) = counted();
            let (default, none) = (MechanismName::Default, Parameters::default());
            let n = self.add(default, none, operand, "count");
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
            let n = self.add(head.mechanism, parameters, operand, "count");
            return Ok(marked_histogram(class, aggregate_marker(n, arguments, filter, false)));
        }
        let read = match head.selector {
            None => self.operand(parser, head.mechanism)?,
            Some(name) => {
                // The target ends before IN.
                let tighter = self.prec_value(sqlparser::dialect::Precedence::Between);
                (selection(parser, (name, head.count.as_deref()), tighter)?, false)
            }
        };
        Ok(self.marked(head.mechanism, parameters, read))
    }

    /// `laplace(count(*), 1)`: a mechanism with its operand and its parameters as a call.
    fn called(&self, parser: &mut Parser, mechanism: MechanismName) -> Result<Expr, ParserError> {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        if starts_histogram(parser) {
            let Histogram { class, filter } = histogram(parser)?;
            let parameters = called_parameters(parser, mechanism)?;
            let (operand, arguments) = counted();
            let n = self.add(mechanism, parameters, operand, "count");
            return Ok(marked_histogram(class, aggregate_marker(n, arguments, filter, false)));
        }
        let read = self.operand(parser, mechanism)?;
        let parameters = called_parameters(parser, mechanism)?;
        Ok(self.marked(mechanism, parameters, read))
    }

    /// What a mechanism without a selector releases, and whether it is a MODE.
    fn operand(
        &self,
        parser: &mut Parser,
        mechanism: MechanismName,
    ) -> Result<(SelectionParts, bool), ParserError> {
        if starts_mode(parser) {
            return Ok((mode(parser)?, true));
        }
        let at = parser.peek_token().span.start;
        if mechanism == MechanismName::RandomizedResponse {
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
            return Ok(((Operand::Response, vec![column], None, text), false));
        }
        let expected = match mechanism {
            MechanismName::Exponential
            | MechanismName::GeneralizedExponential
            | MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax => {
                format!("ARGMAX before {mechanism}, or a choice after it, such as MEDIAN(x)")
            }
            MechanismName::SampleAndAggregate => {
                format!("MEDIAN(x) after {mechanism}, with x from the query of a block")
            }
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
        Ok(((Operand::Aggregate(call), argument, filter, text), false))
    }

    /// Adds a release, and returns its marker.
    fn marked(
        &self,
        mechanism: MechanismName,
        parameters: Parameters,
        (parts, is_mode): (SelectionParts, bool),
    ) -> Expr {
        let (operand, arguments, filter, text) = parts;
        let distinct = match &operand {
            Operand::Aggregate(call) => call.distinct,
            Operand::Selection(selection) => selection.score.distinct,
            Operand::Response => false,
        };
        let n = self.add(mechanism, parameters, operand, &text);
        self.clauses.borrow_mut().modes.extend(is_mode.then_some(n));
        aggregate_marker(n, arguments, filter, distinct)
    }

    /// A MODE without a mechanism.
    fn bare_mode(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        let (operand, arguments, filter, text) = mode(parser)?;
        let n = self.add(MechanismName::Default, Parameters::default(), operand, &text);
        self.clauses.borrow_mut().modes.push(n);
        Ok(aggregate_marker(n, arguments, filter, false))
    }

    /// Adds a release and returns its number.
    fn add(
        &self,
        mechanism: MechanismName,
        parameters: Parameters,
        operand: Operand,
        text: &str,
    ) -> usize {
        let mut clauses = self.clauses.borrow_mut();
        // A subquery in the text may hold a release of its own.
        let text = in_releases_words(text, &clauses.releases);
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
            set: None,
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
