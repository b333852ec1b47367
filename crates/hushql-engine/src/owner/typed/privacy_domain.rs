//! Privacy domains.
//!
//! In: the values of a column, as a program describes them. Out: the declaration that SET PRIVACY
//! DOMAIN parses to.
//!
//! ```text
//! PrivacyDomain::between("visits", "minutes", 0, 120)
//!     =  ALTER TABLE visits ALTER COLUMN minutes SET PRIVACY DOMAIN BETWEEN (0, 120)
//! ```

use super::Declaration;
use crate::dialect::{Declaration as Parsed, DomainClause, Literal, Value};
use crate::error::Error;

/// The values that a column may hold: `ALTER TABLE … ALTER COLUMN … SET PRIVACY DOMAIN`.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, PrivacyDomain};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = Engine::demo()?;
/// let owner = engine.owner();
/// owner.declare(PrivacyDomain::between("orders", "price", 0, 100)).await?;
/// owner.declare(PrivacyDomain::values("orders", "city", ["Paris", "Oslo"])).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PrivacyDomain {
    table: String,
    column: String,
    values: DomainValues,
    or_null: bool,
}

#[derive(Debug, Clone)]
enum DomainValues {
    Listed(Vec<Value>),
    Between { lo: Value, hi: Value },
    References { table: String, column: String },
    Stepped { lo: Value, hi: Value, step: Value },
}

impl PrivacyDomain {
    /// These values: `IN (…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyDomain};
    ///
    /// let engine = Engine::demo()?;
    /// engine.owner().declare(PrivacyDomain::values("orders", "city", ["Paris", "Oslo"])).await?;
    /// # Ok(()) }
    /// ```
    pub fn values<V: Into<Value>>(
        table: impl Into<String>,
        column: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = DomainValues::Listed(values.into_iter().map(Into::into).collect());
        Self { table: table.into(), column: column.into(), values, or_null: false }
    }

    /// Every value between two bounds: `BETWEEN (lo, hi)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyDomain};
    ///
    /// let engine = Engine::demo()?;
    /// engine.owner().declare(PrivacyDomain::between("orders", "price", 0, 99.5)).await?;
    /// # Ok(()) }
    /// ```
    pub fn between(
        table: impl Into<String>,
        column: impl Into<String>,
        lo: impl Into<Value>,
        hi: impl Into<Value>,
    ) -> Self {
        let values = DomainValues::Between { lo: lo.into(), hi: hi.into() };
        Self { table: table.into(), column: column.into(), values, or_null: false }
    }

    /// The values between two bounds in steps: `BETWEEN (lo, hi) STEP step`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyDomain};
    ///
    /// let engine = Engine::demo()?;
    /// engine.owner().declare(PrivacyDomain::stepped("adult", "age", 0, 120, 10)).await?;
    /// # Ok(()) }
    /// ```
    pub fn stepped(
        table: impl Into<String>,
        column: impl Into<String>,
        lo: impl Into<Value>,
        hi: impl Into<Value>,
        step: impl Into<Value>,
    ) -> Self {
        let values = DomainValues::Stepped { lo: lo.into(), hi: hi.into(), step: step.into() };
        Self { table: table.into(), column: column.into(), values, or_null: false }
    }

    /// The present values of a public table's column: `REFERENCES table(column)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, RecordBatch, StringArray};
    /// use hushql::{Declaration, Engine, PrivacyDomain};
    ///
    /// # let name: ArrayRef = Arc::new(StringArray::from(vec!["Paris", "Oslo"]));
    /// # let engine = Engine::demo()?;
    /// # engine.register_batch("cities", RecordBatch::try_from_iter([("name", name)])?)?;
    /// let owner = engine.owner();
    /// owner.declare(Declaration::public("cities")).await?;
    /// owner.declare(PrivacyDomain::references("orders", "city", "cities", "name")).await?;
    /// # Ok(()) }
    /// ```
    pub fn references(
        table: impl Into<String>,
        column: impl Into<String>,
        public_table: impl Into<String>,
        public_column: impl Into<String>,
    ) -> Self {
        let values =
            DomainValues::References { table: public_table.into(), column: public_column.into() };
        Self { table: table.into(), column: column.into(), values, or_null: false }
    }

    /// Also NULL: `BETWEEN (lo, hi) OR NULL`. Rows without a value are then a group of their own.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyDomain};
    ///
    /// let engine = Engine::demo()?;
    /// engine.owner().declare(PrivacyDomain::between("adult", "age", 0, 120).or_null()).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn or_null(self) -> Self {
        Self { or_null: true, ..self }
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let Self { table, column, values, or_null } = self;
        let domain = match values {
            DomainValues::Listed(values) if values.is_empty() => {
                return Err(Error::catalog("a domain lists at least one value"));
            }
            DomainValues::Listed(values) => {
                let literals = values.iter().map(Value::literal);
                let mut literals = literals.collect::<Result<Vec<Literal>, _>>()?;
                if or_null && !literals.contains(&Literal::Null) {
                    literals.push(Literal::Null);
                }
                DomainClause::In(literals)
            }
            DomainValues::References { .. } if or_null => {
                return Err(Error::catalog("REFERENCES lists what the public table holds"));
            }
            DomainValues::References { table, column } => {
                DomainClause::References { table, column }
            }
            DomainValues::Between { lo, hi } => {
                DomainClause::Between { lo: lo.literal()?, hi: hi.literal()?, step: None, or_null }
            }
            DomainValues::Stepped { lo, hi, step } => DomainClause::Between {
                lo: lo.literal()?,
                hi: hi.literal()?,
                step: Some(step.literal()?),
                or_null,
            },
        };
        Ok(Parsed::SetDomain { table, column, domain })
    }
}

impl From<PrivacyDomain> for Declaration {
    fn from(domain: PrivacyDomain) -> Self {
        Self { parsed: domain.parsed() }
    }
}
