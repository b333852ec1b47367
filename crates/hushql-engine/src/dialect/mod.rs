//! Stage 1: text → [`Statement`].
//!
//! In: one statement of the dialect as text. Out: a [`Statement`], whose queries are plain SQL with
//! one marker for each release, and the release clauses. This stage resolves no names and reads no
//! data. Identifiers that begin with `__hushql` are reserved for the engine, so a statement cannot
//! contain a marker.
//!
//! ```
//! use hushql_engine::dialect::{Statement, parse};
//!
//! let statement = parse("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status")?;
//! let Statement::Query(query) = statement else { unreachable!() };
//! assert_eq!(query.releases[0].text, "status");
//! # Ok::<(), hushql_engine::dialect::DialectError>(())
//! ```

use tokens::{significant, tokens};
use value::bytes_of_values;

mod advice;
pub(crate) mod aggregate;
mod allow;
mod amounts_per_query;
mod asked;
mod ast;
mod budget_clauses;
mod budget_request;
mod calendar_calls;
mod called_template;
mod choice_clauses;
pub(crate) mod clauses;
mod consistent;
mod copy;
mod copy_format;
mod correlated_release;
mod counted_choice;
mod date_patterns;
mod declaration;
mod declare;
mod distinct_from;
mod distinct_on;
mod domain_query;
pub(crate) mod error;
mod fresh;
mod fresh_name;
mod grant_statements;
mod groups;
mod having_names;
mod headings;
mod histogram;
mod implied;
mod literal;
mod literal_condition;
mod lower;
mod markers;
mod markers_as_written;
mod mode;
mod named_candidates;
mod named_differences;
mod number_of_rows;
mod open_pivot;
mod option_shares;
mod option_values;
mod parameter_clauses;
mod parameters;
mod parser;
mod partition;
mod password;
mod pivot;
mod pivot_statement;
mod postgres_names;
mod postgres_spelling;
mod power;
mod quantile_list;
pub(crate) mod query_syntax;
mod reference;
mod release_table;
mod report;
mod request_statements;
mod role_statements;
mod rollup_cube;
mod row_values;
mod rule_clauses;
mod script;
mod size;
mod slice_clauses;
mod spelling;
mod statement;
mod statistics;
mod synthetic_options;
mod synthetic_statement;
mod template_body;
mod template_call;
mod template_clauses;
#[cfg(test)]
mod tests;
mod thresholded;
pub(crate) mod tokens;
mod tunable_text;
pub(crate) mod tune_statement;
mod twice;
mod unit_clause;
mod value;
mod view;
mod windows;
mod written_release;

pub use ast::AggregateCall;
pub use ast::AggregateName;
pub use ast::CandidatesClause;
pub use ast::ColumnName;
pub use ast::ExplainFormat;
pub use ast::Finding;
pub use ast::GroupStrategy;
pub use ast::GroupingClause;
pub use ast::KeysClause;
pub use ast::MechanismName;
pub use ast::Operand;
pub use ast::Parameters;
pub use ast::PriorClause;
pub use ast::QueryStatement;
pub use ast::ReleaseClause;
pub use ast::SelectionClause;
pub use ast::Selector;
pub use ast::Statement;
pub use ast::SyntheticStatement;
pub use ast::TuneStatement;
pub use ast::candidate_marker;
pub use ast::candidate_of;
pub use ast::marked;
pub use ast::marker;
pub use ast::{Consistent, ReleaseInSet};
pub use ast::{Joint, Spread};
pub use budget_request::BudgetRequestStatement;
pub use calendar_calls::calendar_call_names;
pub(crate) use calendar_calls::{moved_times_name, time_between_name};
pub use called_template::{ArgumentValue, TemplateArgument, TemplateCall};
pub use copy_format::{CopyFormat, CopyTarget};
pub use error::DialectError;
pub use literal::Literal;
pub use parameter_clauses::{ParameterClause, ParameterDomainClause, TemplateClause};
pub use password::Password;
pub use pivot_statement::pivot_query;
pub use reference::{WordEntry, word_entries, word_entry};
pub(crate) use rollup_cube::MOST_SETS;
pub(crate) use rule_clauses::OTHER_RELEASES;
pub use script::{ScriptStatement, split};
pub use size::Size;
pub(crate) use size::tables;
pub use synthetic_options::{BucketOption, SyntheticMethod, SyntheticOptions};
pub use tunable_text::TunableText;
pub use value::Value;
pub(crate) use value::decimal;

pub(crate) use counted_choice::counted_choice;
pub(crate) use domain_query::magnitude_name;
pub(crate) use literal_condition::{NoRow, no_row};
pub(crate) use markers::{parameter_marker, parameter_of};
pub(crate) use markers_as_written::{hiding_markers, in_releases_words};
pub(crate) use open_pivot::{OpenPivot, open_pivots};
pub(crate) use template_body::{typed_literal, with_body};
pub(crate) use thresholded::thresholded;
pub(crate) use view::view_query;

pub use amounts_per_query::{FloorClause, PerQueryClause};
pub use declaration::{
    Accountant, Allowance, Declaration, DomainClause, GrantClause, GrantObjects, LimitClause,
    ReleaseTableChange, RoleClause, Show, SliceAlteration, SliceAmount, SliceClause, SliceLimit,
    SpendingBy, SpentClause, Taken,
};
pub use unit_clause::UnitClause;

/// Reads one statement of at most the default size; a `;` at its end is allowed.
///
/// # Errors
/// See [`parse_within`].
pub fn parse(text: &str) -> Result<Statement, DialectError> {
    parse_within(text, &Size::default())
}

/// Reads one statement of at most this size; a `;` at its end is allowed.
///
/// # Errors
/// [`DialectError::Syntax`] with the position, or [`DialectError::Refused`] for SQL clauses that
/// the dialect leaves out and for statements that are too large.
pub fn parse_within(text: &str, size: &Size) -> Result<Statement, DialectError> {
    parse_with(text, size, &[])
}

/// Reads one statement, with values for the parameters `$1`, `$2`, … of a query. Each value becomes
/// a literal of the syntax tree before any other code reads the tree.
///
/// # Errors
/// See [`parse_within`]. Also a refusal if parameters and values do not match, or if a clause of
/// the dialect contains a parameter.
pub fn parse_with(text: &str, size: &Size, values: &[Value]) -> Result<Statement, DialectError> {
    let beside: usize = values.iter().map(Value::bytes).sum();
    size.check_bytes(text.len().saturating_add(beside))?;
    let tokens = significant(tokens(text)?)?;
    size.check_bytes(text.len().saturating_add(bytes_of_values(&tokens, values)))?;
    size.check_tokens(&tokens)?;
    with_room(|| statement::parse(text, tokens, values)).map(|read| read.with_text(text))
}

/// Reads one statement before its parameters have values. Each parameter becomes a call of a
/// function that represents it.
///
/// # Errors
/// See [`parse_within`]. Also a refusal if a clause of the dialect contains a parameter.
pub(crate) fn parse_unvalued(text: &str, size: &Size) -> Result<Statement, DialectError> {
    size.check_bytes(text.len())?;
    let tokens = significant(tokens(text)?)?;
    size.check_tokens(&tokens)?;
    with_room(|| statement::parse_unvalued(text, tokens)).map(|read| read.with_text(text))
}

/// Reads the query of a template, with a literal for each of its parameters.
///
/// # Errors
/// See [`parse_within`]. Also a refusal of a parameter that the template does not have, and of one
/// that its query does not use.
pub(crate) fn parse_template(
    body: &str,
    size: &Size,
    literals: &[(String, sqlparser::ast::Expr)],
) -> Result<QueryStatement, DialectError> {
    with_room(|| template_body::template_query(body, size, literals))
}

/// Runs the parser. In a debug build it uses 40 KiB of stack for each level of brackets.
fn with_room<T>(parse: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(4 << 20, 16 << 20, parse)
}
