//! Declarations as Rust values, for programs that do not write them in SQL.
//!
//! In: a program's description of a file, a unit, a domain or a budget. Out: the [`Declaration`]
//! that the parser makes of the same statement in SQL, so that the same code checks and carries out
//! both. Names are used as they are: a name that SQL writes without quotation marks is in lower
//! case.
//!
//! ```text
//! PrivacyUnit::column("visits", "patient").max_rows(4)
//!     =  ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4
//! ```

use crate::dialect::Declaration as Parsed;
use crate::error::Error;

mod amount;
mod privacy_budget;
mod privacy_domain;
mod privacy_unit;
mod slice;
mod table;

pub use privacy_budget::PrivacyBudget;
pub use privacy_domain::PrivacyDomain;
pub use privacy_unit::PrivacyUnit;
pub use slice::BudgetSlice;
pub use table::ExternalTable;

/// A declaration of an owner: a file as a table, a unit, a domain, a budget, or a public table.
///
/// Create it from [`ExternalTable`], [`PrivacyUnit`], [`PrivacyDomain`], [`PrivacyBudget`] or
/// [`BudgetSlice`], or pass these to [`Owner::declare`](crate::Owner::declare) directly.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Declaration, Engine};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = Engine::demo()?;
/// engine.owner().declare(Declaration::public("census")).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Declaration {
    /// The parsed declaration, or the problem with the description.
    parsed: Result<Parsed, Error>,
}

impl Declaration {
    /// Makes a table public, so that answers may show its rows to anyone:
    /// `ALTER TABLE table SET PUBLIC`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Declaration, Engine};
    ///
    /// let engine = Engine::demo()?;
    /// let sentence = engine.owner().declare(Declaration::public("census")).await?;
    /// assert!(sentence.starts_with("table census is public"));
    /// # Ok(()) }
    /// ```
    pub fn public(table: impl Into<String>) -> Self {
        Self { parsed: Ok(Parsed::SetPublic { table: table.into() }) }
    }

    /// Makes a column public, of a table that is declared by [`PrivacyUnit::presence_public`]:
    /// `ALTER TABLE table ALTER COLUMN column SET PUBLIC`.
    ///
    /// ```
    /// use hushql_engine::Declaration;
    ///
    /// let declaration = Declaration::public_column("survey", "region");
    /// ```
    pub fn public_column(table: impl Into<String>, column: impl Into<String>) -> Self {
        let (table, column) = (table.into(), column.into());
        Self { parsed: Ok(Parsed::SetPublicColumn { table, column }) }
    }

    /// The declaration as the parser makes it of the same statement in SQL.
    ///
    /// # Errors
    /// [`Error::Catalog`] or [`Error::Refused`] for a description that SQL cannot express.
    pub(crate) fn into_parsed(self) -> Result<Parsed, Error> {
        self.parsed
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Schema, TimeUnit};

    use super::privacy_unit::MOST_ROWS;
    use super::*;
    use crate::dialect::{Statement, Value, parse};

    fn same(declaration: impl Into<Declaration>, statement: &str) {
        let Statement::Declare(written) = parse(statement).unwrap() else { panic!("{statement}") };
        let described = declaration.into().into_parsed().unwrap();
        assert_eq!(format!("{described:?}"), format!("{written:?}"), "{statement}");
        assert_eq!(described, *written, "{statement}");
    }

    #[test]
    fn descriptions_are_what_the_parser_reads() {
        same(Declaration::public("nations"), "ALTER TABLE nations SET PUBLIC");
        same(PrivacyUnit::row("people"), "ALTER TABLE people SET PRIVACY UNIT ROW");
        same(
            PrivacyUnit::column("p", "id").unique().max_rows(3).other_people_than("q"),
            "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE MAX ROWS 3 OTHER PEOPLE THAN q",
        );
        same(
            PrivacyUnit::presence_public("p", "id", ["region", "sex"]),
            "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region, sex)",
        );
        same(
            PrivacyUnit::presence_public("p", "id", [""; 0]).other_people_than("q"),
            "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC OTHER PEOPLE THAN q",
        );
        same(
            Declaration::public_column("p", "region"),
            "ALTER TABLE p ALTER COLUMN region SET PUBLIC",
        );
        same(
            PrivacyUnit::via("o", ["a", "b"], "p", ["x", "y"]).max_rows(50),
            "ALTER TABLE o SET PRIVACY UNIT VIA (a, b) REFERENCES p(x, y) MAX ROWS 50",
        );
        same(
            PrivacyDomain::values("t", "c", [Value::from("it's"), Value::Null]),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN IN ('it''s', NULL)",
        );
        same(
            PrivacyDomain::values("t", "c", [true]),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN IN (TRUE)",
        );
        same(
            PrivacyDomain::between("t", "c", -5, 0.25),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (-5, 0.25)",
        );
        same(
            PrivacyDomain::stepped("t", "c", 0, 10, 0.5),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (0, 10) STEP 0.5",
        );
        same(
            PrivacyDomain::stepped("t", "c", 0, 10, 0.5).or_null(),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (0, 10) STEP 0.5 OR NULL",
        );
        same(
            PrivacyDomain::values("t", "c", [1]).or_null(),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN IN (1, NULL)",
        );
        same(
            PrivacyDomain::references("t", "c", "wards", "name"),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN REFERENCES wards(name)",
        );
        same(
            PrivacyBudget::epsilon("b", "t", 0.1)
                .delta(1e-6)
                .zcdp()
                .default_epsilon(0.05)
                .default_delta(1e-9)
                .min_rho(0.001)
                .max_rho(0.3)
                .max_delta(1e-7)
                .declared_bounds(),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=0.1, delta=1e-6) ACCOUNTANT ZCDP PER QUERY (default=0.05, default_delta=1e-9, min_rho=0.001, max_rho=0.3, max_delta=1e-7, bounds=declared)",
        );
        same(
            PrivacyBudget::epsilon("b", "t", 0.1).delta(1e-6).zcdp_without_thresholds(),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=0.1, delta=1e-6) ACCOUNTANT ZCDP (thresholds=0)",
        );
        same(
            PrivacyBudget::epsilon("b", "t", 2.0).delta(1e-6).coupons(0.05).default_epsilon(0.05),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=2, delta=1e-6) ACCOUNTANT COUPONS (epsilon=0.05) PER QUERY (default=0.05)",
        );
        same(
            PrivacyBudget::epsilon("b", "t", 2.0).delta(1e-6).coupons_without_thresholds(0.05),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=2, delta=1e-6) ACCOUNTANT COUPONS (epsilon=0.05, thresholds=0)",
        );
        same(
            PrivacyBudget::rho("b", "t", 2.0).default_rho(0.5).min_epsilon(1e-4).max_epsilon(1.0),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (rho=2) PER QUERY (default_rho=0.5, min=0.0001, max=1)",
        );
        same(
            PrivacyBudget::rho("b", "t", 2.0)
                .slice(BudgetSlice::rho("b", "lab", 0.5).delta(1e-7))
                .slice(BudgetSlice::coupons("b", "Eve-2", 3)),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (rho=2) SLICE lab LIMIT (rho=0.5, delta=1e-7) SLICE \"Eve-2\" LIMIT (coupons=3)",
        );
        same(
            BudgetSlice::epsilon("b", "lab", 0.1),
            "ALTER PRIVACY BUDGET b ADD SLICE lab LIMIT (epsilon=0.1)",
        );
        same(
            BudgetSlice::epsilon("b", "lab", 0.1).resized(),
            "ALTER PRIVACY BUDGET b ALTER SLICE lab SET LIMIT (epsilon=0.1)",
        );
        same(BudgetSlice::dropped("b", "lab"), "ALTER PRIVACY BUDGET b DROP SLICE lab");
        same(
            ExternalTable::csv("t", "a'b.csv").header(false).delimiter('|').content_hash(true),
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a''b.csv' OPTIONS (has_header FALSE, delimiter '|', content_hash TRUE)",
        );
        same(
            ExternalTable::csv("t", "a")
                .quote(None)
                .comment('#')
                .null_value("NA")
                .decimal(',')
                .date_format("%d.%m.%Y")
                .compression("gzip")
                .strict(true),
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a' OPTIONS (quote '', comment '#', null_value 'NA', decimal ',', date_format '%d.%m.%Y', compression 'gzip', strict TRUE)",
        );
        same(
            ExternalTable::csv("t", "a").quote('\'').escape('\\'),
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a' OPTIONS (quote '''', escape '\\')",
        );
        same(
            ExternalTable::parquet("t", "a"),
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'a'",
        );
        same(ExternalTable::json("t", "a"), "CREATE EXTERNAL TABLE t STORED AS JSON LOCATION 'a'");
        let columns = [
            ("a", DataType::Boolean),
            ("b", DataType::Int8),
            ("c", DataType::Int16),
            ("d", DataType::Int32),
            ("e", DataType::Int64),
            ("f", DataType::Float32),
            ("g", DataType::Float64),
            ("h", DataType::Utf8),
            ("i", DataType::Date32),
            ("j", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("k", DataType::Decimal128(10, 2)),
        ];
        let fields = columns.map(|(name, t)| arrow::datatypes::Field::new(name, t, true));
        same(
            ExternalTable::arrow("t", "a").columns(&Schema::new(fields.to_vec())),
            "CREATE EXTERNAL TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f REAL, g DOUBLE PRECISION, h TEXT, i DATE, j TIMESTAMP, k DECIMAL(10, 2)) STORED AS ARROW LOCATION 'a'",
        );
    }

    #[test]
    fn descriptions_that_sql_could_not_say_are_refused() {
        fn refused(declaration: impl Into<Declaration>) {
            let parsed = declaration.into().into_parsed();
            assert!(matches!(parsed, Err(Error::Catalog { .. } | Error::Refused(_))), "{parsed:?}");
        }
        refused(PrivacyUnit::row("t").max_rows(2));
        refused(PrivacyUnit::row("t").unique());
        refused(PrivacyUnit::presence_public("t", "c", ["d"]).max_rows(1));
        refused(PrivacyUnit::presence_public("t", "c", ["d"]).unique());
        refused(PrivacyUnit::column("t", "c").max_rows(0));
        refused(PrivacyUnit::column("t", "c").max_rows(MOST_ROWS + 1));
        refused(PrivacyUnit::via("t", ["a"], "u", ["x", "y"]));
        refused(PrivacyUnit::via("t", [""; 0], "u", [""; 0]));
        refused(PrivacyUnit::via("t", ["a"], "u", ["x"]).unique());
        refused(PrivacyDomain::values("t", "c", [""; 0]));
        refused(PrivacyDomain::values("t", "c", ["__hushql_x"]));
        refused(PrivacyDomain::between("t", "c", 0, f64::INFINITY));
        for amount in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            refused(PrivacyBudget::epsilon("b", "t", amount));
            refused(PrivacyBudget::rho("b", "t", amount));
            refused(PrivacyBudget::epsilon("b", "t", 1.0).delta(amount));
        }
        refused(BudgetSlice::epsilon("b", "lab", 0.0));
        refused(BudgetSlice::rho("b", "lab", 1.0).delta(f64::NAN));
        refused(BudgetSlice::coupons("b", "lab", 0));
        refused(PrivacyBudget::epsilon("b", "t", 1.0).slice(BudgetSlice::dropped("b", "lab")));
        refused(PrivacyBudget::epsilon("b", "t", 1.0).zcdp());
        refused(PrivacyBudget::rho("b", "t", 1.0).delta(1e-6).zcdp());
        refused(PrivacyBudget::epsilon("b", "t", 1.0).coupons(0.1));
        refused(PrivacyBudget::rho("b", "t", 1.0).delta(1e-6).coupons(0.1));
        refused(PrivacyBudget::epsilon("b", "t", 1.0).delta(1e-6).zcdp().coupons(0.1));
        refused(ExternalTable::csv("t", "a").column("c", DataType::LargeBinary));
    }
}
