//! Templates and their parameters as they are written.
//!
//! In: nothing. Out: the clauses of [`super::template_clauses`]. Literals have no type yet.

use crate::catalog::ParameterType;
use crate::dialect::literal::Literal;

/// A template as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateClause {
    /// The template's name.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<ParameterClause>,
    /// The text of its query.
    pub body: String,
}

/// `region VARCHAR IN ('north', 'south') DEFAULT 'north'`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterClause {
    /// Its name, in lower case.
    pub name: String,
    /// Its type.
    pub data_type: ParameterType,
    /// The values that it may take.
    pub domain: Option<ParameterDomainClause>,
    /// The value of a call that leaves it out.
    pub default: Option<Literal>,
}

/// The values that a parameter may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterDomainClause {
    /// `IN ('north', 'south')`.
    In(Vec<Literal>),
    /// `BETWEEN (0, 90)`.
    Between(Literal, Literal),
    /// `REFERENCES regions(name)`.
    References {
        /// The public table.
        table: String,
        /// Its column.
        column: String,
    },
}
