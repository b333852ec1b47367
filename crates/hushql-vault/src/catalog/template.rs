//! Templates as they are stored: a name, typed parameters with their domains, and the text of a
//! query.
//!
//! In: the declaration of an owner's session, which the caller has parsed and planned. Out: plain
//! data. A template has no rows, unit or budget. When it is called, its text is parsed again, and
//! each parameter becomes a literal of the syntax tree.
//!
//! ```
//! use hushql_vault::catalog::{ParameterDomain, ParameterType, Template, TemplateParameter};
//!
//! let region = TemplateParameter {
//!     name: "region".to_owned(),
//!     data_type: ParameterType::Varchar,
//!     domain: Some(ParameterDomain::In(vec!["north".to_owned(), "south".to_owned()])),
//!     default: None,
//! };
//! assert_eq!(region.to_string(), "region VARCHAR IN ('north', 'south')");
//! ```

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CatalogError, quoted};
use crate::catalog::name::check_name;

/// The most parameters of a template.
pub const MOST_PARAMETERS: usize = 32;

/// A template as the owner created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The name that calls use.
    #[serde(rename = "template")]
    pub name: String,
    /// Its parameters, in the order of a call.
    pub parameters: Vec<TemplateParameter>,
    /// The text of its query, in which `$name` stands for a parameter.
    pub body: String,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateParameter {
    /// Its name, in lower case.
    pub name: String,
    /// Its type.
    pub data_type: ParameterType,
    /// The values that it may take; `None` for all values of its type.
    pub domain: Option<ParameterDomain>,
    /// The value of a call that leaves it out, as canonical text.
    pub default: Option<String>,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    /// A text.
    Varchar,
    /// A whole number of 64 bits.
    Bigint,
    /// A number.
    Double,
    /// TRUE or FALSE.
    Boolean,
    /// A day.
    Date,
    /// A moment without a time zone.
    Timestamp,
}

impl ParameterType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Varchar, Self::Bigint, Self::Double, Self::Boolean, Self::Date, Self::Timestamp];

    /// True if its values are written in quotes.
    pub fn is_quoted(self) -> bool {
        match self {
            Self::Varchar | Self::Date | Self::Timestamp => true,
            Self::Bigint | Self::Double | Self::Boolean => false,
        }
    }

    /// A value of this type as SQL writes it.
    pub fn literal(self, value: &str) -> String {
        let text = || format!("'{}'", value.replace('\'', "''"));
        match self {
            Self::Varchar => text(),
            Self::Date | Self::Timestamp => format!("{self} {}", text()),
            Self::Boolean => value.to_uppercase(),
            Self::Bigint | Self::Double => value.to_owned(),
        }
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Varchar => "VARCHAR",
            Self::Bigint => "BIGINT",
            Self::Double => "DOUBLE",
            Self::Boolean => "BOOLEAN",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
        })
    }
}

/// The values that a parameter may take. They are public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ParameterDomain {
    /// These values, as canonical texts.
    In(Vec<String>),
    /// All values from `lo` to `hi`, both included.
    Between {
        /// The least value, as canonical text.
        lo: String,
        /// The greatest value, as canonical text.
        hi: String,
    },
    /// The values of a public table's column, at the time of the call.
    References {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
}

impl TemplateParameter {
    /// Its domain as CREATE TEMPLATE writes it; empty without a domain.
    pub fn domain_text(&self) -> String {
        let literal = |value: &String| self.data_type.literal(value);
        match &self.domain {
            None => String::new(),
            Some(ParameterDomain::In(values)) => {
                format!("IN ({})", values.iter().map(literal).collect::<Vec<_>>().join(", "))
            }
            Some(ParameterDomain::Between { lo, hi }) => {
                format!("BETWEEN ({}, {})", literal(lo), literal(hi))
            }
            Some(ParameterDomain::References { table, column }) => {
                format!("REFERENCES {}({})", quoted(table), quoted(column))
            }
        }
    }
}

impl fmt::Display for TemplateParameter {
    /// As CREATE TEMPLATE writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", quoted(&self.name), self.data_type)?;
        if self.domain.is_some() {
            write!(f, " {}", self.domain_text())?;
        }
        match &self.default {
            Some(value) => write!(f, " DEFAULT {}", self.data_type.literal(value)),
            None => Ok(()),
        }
    }
}

impl Template {
    /// Its parameters as CREATE TEMPLATE writes them, without the parentheses.
    pub fn signature(&self) -> String {
        self.parameters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The statement that creates it.
    pub fn statement(&self) -> String {
        format!(
            "CREATE OR REPLACE TEMPLATE {}({}) AS {}",
            quoted(&self.name),
            self.signature(),
            self.body
        )
    }

    /// Checks that the template does not contradict itself; the caller parses its query.
    ///
    /// # Errors
    /// [`CatalogError::Name`] for an unusable name, [`CatalogError::Template`] for a repeated
    /// parameter and for too many.
    pub fn check(&self) -> Result<(), CatalogError> {
        check_name(&self.name)?;
        let refuse = |reason| Err(CatalogError::Template { template: self.name.clone(), reason });
        if self.parameters.len() > MOST_PARAMETERS {
            return refuse(format!("a template has at most {MOST_PARAMETERS} parameters"));
        }
        let mut seen = BTreeSet::new();
        for parameter in &self.parameters {
            check_name(&parameter.name)?;
            if !seen.insert(&parameter.name) {
                return refuse(format!("it has two parameters `{}`", parameter.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str) -> TemplateParameter {
        TemplateParameter {
            name: name.to_owned(),
            data_type: ParameterType::Date,
            domain: Some(ParameterDomain::Between {
                lo: "2026-01-01".to_owned(),
                hi: "2026-12-31".to_owned(),
            }),
            default: Some("2026-02-01".to_owned()),
        }
    }

    #[test]
    fn templates_contradict_themselves() {
        let template = |name: &str, parameters: &[&str]| Template {
            name: name.to_owned(),
            parameters: parameters.iter().map(|name| parameter(name)).collect(),
            body: "SELECT 1 AS n".to_owned(),
        };
        let monthly = template("monthly", &["since", "until"]);
        assert!(monthly.check().is_ok());
        assert_eq!(
            monthly.statement(),
            "CREATE OR REPLACE TEMPLATE monthly(since DATE BETWEEN (DATE '2026-01-01', DATE '2026-12-31') DEFAULT DATE '2026-02-01', until DATE BETWEEN (DATE '2026-01-01', DATE '2026-12-31') DEFAULT DATE '2026-02-01') AS SELECT 1 AS n"
        );
        for name in ["", "a.v", "__HushQL_v"] {
            assert!(matches!(template(name, &[]).check(), Err(CatalogError::Name { .. })));
        }
        let twice = template("t", &["a", "a"]).check();
        assert!(matches!(twice, Err(CatalogError::Template { .. })), "{twice:?}");
        let many: Vec<String> = (0..=MOST_PARAMETERS).map(|i| format!("p{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(template("t", &many).check().is_err());
    }
}
