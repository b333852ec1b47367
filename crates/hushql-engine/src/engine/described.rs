//! Describes a query before its parameters have values: its columns, and the types of its
//! parameters.
//!
//! In: a query. Out: a [`Description`]. It follows from the query and the declarations alone: no
//! value is tried, so none can be refused, and no file is read. Whether the query can be answered
//! is decided when it has values.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult WHERE age BETWEEN $1 AND $2
//!     columns  n BIGINT            parameters  BIGINT, BIGINT
//! ```

use arrow::datatypes::{DataType, SchemaRef};

use crate::bind::{Bound, Unbound, bind_unvalued};
use crate::dialect::{QueryStatement, Statement, parse_unvalued};
use crate::engine::query::declared::DeclaredState;
use crate::engine::session::{Session, not_a_query};
use crate::error::Error;
use crate::exec::{columns_of_plan, under};
use crate::guard;
use crate::instance::table_names::suggesting;
use crate::views;

/// The columns of a query, and the types of its parameters.
///
/// ```
/// # use hushql_engine as hushql;
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let sql = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult WHERE age > $1";
/// let description = session.describe(sql, &[None])?;
/// assert_eq!(description.schema().field(0).name(), "n");
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    schema: SchemaRef,
    parameters: Vec<Option<DataType>>,
}

impl Description {
    /// The columns of the answer.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let description = session.describe("SELECT age + $1 AS x FROM adult", &[None])?;
    /// assert_eq!(description.schema().field(0).name(), "x");
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The type of each parameter: the given one, or the one that the query expects. `None` if the
    /// query takes any value there.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use arrow::datatypes::DataType;
    ///
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE status LIKE $1 AND age < $2";
    /// let description = session.describe(sql, &[None, Some(DataType::Float64)])?;
    /// assert_eq!(description.parameters()[1], Some(DataType::Float64));
    /// assert!(description.parameters()[0].is_some());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn parameters(&self) -> &[Option<DataType>] {
        &self.parameters
    }
}

impl Session {
    /// Describes a query before its parameters have values. `types` are those that are known, one
    /// for each parameter.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult WHERE age BETWEEN $1 AND $2";
    /// assert_eq!(session.describe(sql, &[None, None])?.parameters().len(), 2);
    /// // An unknown name is an error, and a value that no row has is none yet.
    /// assert!(session.describe("SELECT no_column FROM adult", &[]).is_err());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error`] for a text that is not a query, for unknown names and types that do not fit, and
    /// for tables that this session may not name.
    pub fn describe(&self, sql: &str, types: &[Option<DataType>]) -> Result<Description, Error> {
        let clock = self.clock();
        let (session, sql, types) = (self.clone(), sql.to_owned(), types.to_vec());
        self.told(clock.blocking(move || guard::run(|| session.described(&sql, types))))
    }

    fn described(
        &self,
        sql: &str,
        mut parameters: Vec<Option<DataType>>,
    ) -> Result<Description, Error> {
        self.inner.vault.check_clock()?;
        let size = self.inner.resources.statement;
        let Statement::Query(query) =
            self.allowed(self.named(parse_unvalued(&self.with_pivot_lists(sql)?, &size)?))?
        else {
            return Err(not_a_query().into());
        };
        if query.range_of.is_some() {
            // The range has columns of its own, and takes no parameters.
            return Ok(Description { schema: self.prepare(sql)?.schema(), parameters });
        }
        let (query, declared) = self.with_sampled_template(query, &mut parameters)?;
        if parameters.contains(&None) {
            // What is wrong with the types is said below, where they are complete.
            if let Ok(bound) = self.bound_unvalued(query.clone(), &parameters, &declared)
                && let Ok(expected) = bound.expected_types()
            {
                for (n, data_type) in expected {
                    if let Some(place @ None) = n.checked_sub(1).and_then(|n| parameters.get_mut(n))
                    {
                        *place = Some(data_type);
                    }
                }
            }
        }
        let headings = query.headings.clone();
        let bound = self.bound_unvalued(query, &parameters, &declared);
        let bound = bound.map_err(|error| declared.told(error))?;
        let schema = under(&columns_of_plan(bound.plan()), &headings);
        Ok(Description { schema, parameters })
    }

    /// The query with its names and types resolved, under the present declarations.
    fn bound_unvalued(
        &self,
        query: QueryStatement,
        parameters: &[Option<DataType>],
        declared: &DeclaredState,
    ) -> Result<Bound, Error> {
        self.inner.resources.statement.check_tree(&query.tree)?;
        let (catalog, open) = (&declared.catalog, &declared.open);
        let sources = self.inner.sources(&query.tree, catalog, &self.analyst, open)?;
        let views = views::named(&query.tree, catalog);
        let types: Vec<DataType> = parameters.iter().map(as_given).collect();
        bind_unvalued(query, &sources, &types).map_err(|error| match error {
            Unbound::Mistake(mistake) => Error::Bind(suggesting(mistake, catalog)),
            Unbound::Refused(refusal) => Error::Refused(refusal.over_views(&views)),
        })
    }
}

/// The type of the literal that a value of this type becomes. A moment becomes a text.
fn as_given(expected: &Option<DataType>) -> DataType {
    match expected {
        None => DataType::Null,
        Some(DataType::Boolean) => DataType::Boolean,
        Some(known) if known.is_integer() => DataType::Int64,
        Some(known) if known.is_floating() => DataType::Float64,
        Some(known) if known.is_decimal() => DataType::Decimal128(38, 10),
        Some(_) => DataType::Utf8,
    }
}
