//! The call of a template, as it is parsed.
//!
//! In: nothing. Out: what [`super::template_call`] finds in the place of a table.

use crate::dialect::literal::Literal;

/// The call of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateCall {
    /// The template's name.
    pub name: String,
    /// Its arguments, in order; those with names come last.
    pub arguments: Vec<TemplateArgument>,
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateArgument {
    /// The name of the parameter, if it is written.
    pub name: Option<String>,
    /// Its value.
    pub value: ArgumentValue,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentValue {
    /// A literal.
    Literal(Literal),
    /// The parameter of the statement at this position, which has no value yet.
    Later(usize),
}
