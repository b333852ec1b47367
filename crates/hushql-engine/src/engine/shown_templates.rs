//! SHOW TEMPLATES: which questions may be asked, and what each costs.
//!
//! In: the templates that exist for a session. Out: a row for each, with its parameters, its
//! columns, its cost and its accuracy, planned with values of its domains. Nothing is charged, and
//! no private row is read. A template that a later declaration has made invalid says so.
//!
//! ```text
//! template   parameters                               columns    cost      accuracy                note
//! monthly    region VARCHAR IN ('north', 'south')     n BIGINT   ε = 0.5   n: ± 6.00 with 95 %
//! ```

use std::collections::BTreeSet;

use datafusion::execution::SessionState;

use super::text_columns::table;
use crate::answer::{Answer, predicted_lines};
use crate::catalog::{CatalogError, Template};
use crate::dialect::{Taken, TemplateClause};
use crate::engine::Engine;
use crate::engine::attempts::Attempts;
use crate::engine::query::declared::CalledTemplate;
use crate::engine::session::Session;
use crate::engine::visible_catalog::VisibleCatalog;
use crate::error::Error;
use crate::exec::columns_of_plan;
use crate::owner::template_declarations::to_create;
use crate::sql_type::sql_type;
use crate::templates::{sample_call, short_signature};

/// A template as programs list it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateSignature {
    /// Its name.
    pub name: String,
    /// The names and types of its parameters, and the default of each, as SQL writes it.
    pub parameters: Vec<(String, String, Option<String>)>,
    /// A call with values of its domains.
    pub example: String,
}

impl Session {
    /// The templates that this session may call, by name.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let engine = hushql::Engine::demo()?;
    /// let create = "CREATE TEMPLATE older(than BIGINT BETWEEN (0, 90)) AS SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult WHERE age > $than";
    /// engine.owner().execute(create).await?;
    /// let lab = engine.analyst("lab")?;
    /// assert_eq!(lab.templates()?[0].example, "SELECT * FROM older(0)");
    /// assert_eq!(lab.query("SELECT n FROM older(40)").await?.batches()[0].num_rows(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn templates(&self) -> Result<Vec<TemplateSignature>, Error> {
        let catalog = self.told(self.inner.catalog_of(&self.analyst))?;
        let signature = |template: &Template| TemplateSignature {
            name: template.name.clone(),
            parameters: template
                .parameters
                .iter()
                .map(|one| {
                    let default = one.default.as_ref().map(|value| one.data_type.literal(value));
                    (one.name.clone(), one.data_type.to_string(), default)
                })
                .collect(),
            example: sample_call(template),
        };
        Ok(catalog.templates().map(signature).collect())
    }

    /// Plans a new template with values of its domains, before it is stored. Returns its price, and
    /// what is wrong with its budget now.
    ///
    /// # Errors
    /// Why no call of it would be answered.
    pub(super) fn plan_template(
        &self,
        clause: &TemplateClause,
        taken: Taken,
        state: &SessionState,
    ) -> Result<String, Error> {
        let Some(template) = to_create(&self.inner, clause, taken)? else {
            return Ok(String::new());
        };
        let catalog = self.inner.catalog_with(&template)?;
        let failed = |error: Error| match error {
            error @ (Error::Budget(_) | Error::Ledger(_) | Error::Internal | Error::Execution) => {
                error
            }
            Error::Refused(refusal) => Error::Refused(refusal.over_template(&template.name)),
            other => Error::catalog_from(
                CatalogError::Template {
                    template: template.name.clone(),
                    reason: other.to_string(),
                }
                .to_string(),
                other,
            ),
        };
        let tried = Attempts::at(|| self.tried(&template, &catalog, true, state));
        let (_, cost, over) = tried.map_err(failed)?;
        let over = over.map_or_else(String::new, |error| format!("; now {error}"));
        Ok(format!("; each call costs {}{over}", cost.neat()))
    }

    /// A row for each template.
    pub(super) fn shown_templates(&self, state: &SessionState) -> Result<Answer, Error> {
        let own = self.inner.catalog_of(&self.analyst)?;
        let mut rows: Vec<[String; 6]> = Vec::new();
        for template in own.templates() {
            let (name, parameters) = (template.name.clone(), short_signature(template));
            let found = self.inner.catalog_of_template(&own, &name);
            let found = found.and_then(|whole| self.price(template, &whole, own.is_part(), state));
            rows.push(match found {
                Ok([columns, cost, accuracy, note]) => {
                    [name, parameters, columns, cost, accuracy, note]
                }
                Err(error) => {
                    let [columns, cost, accuracy] = [const { String::new() }; 3];
                    [name, parameters, columns, cost, accuracy, error.to_string()]
                }
            });
        }
        let names = ["template", "parameters", "columns", "cost", "accuracy", "note"];
        let column =
            |at: usize| rows.iter().filter_map(|row| row.get(at)).cloned().collect::<Vec<String>>();
        let columns: Vec<(&str, Vec<String>)> =
            names.into_iter().enumerate().map(|(at, name)| (name, column(at))).collect();
        table(&columns)
    }

    /// The columns, the cost and the accuracy of a call, and what is wrong with it.
    fn price(
        &self,
        template: &Template,
        whole: &VisibleCatalog,
        is_hidden: bool,
        state: &SessionState,
    ) -> Result<[String; 4], Error> {
        let called = CalledTemplate { name: template.name.clone(), is_hidden };
        let tried = Attempts::at(|| self.tried(template, whole, false, state));
        let (planned, cost, over) = tried.map_err(|error| called.told(error))?;
        let release = planned.release();
        let schema = columns_of_plan(release.analysis().public_plan());
        let columns: Vec<String> = schema
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), sql_type(field.data_type())))
            .collect();
        let accuracy = predicted_lines(release, &schema);
        let note = over.map_or_else(String::new, |error| called.told(error).to_string());
        Ok([columns.join(", "), cost.neat().to_string(), accuracy.join("; "), note])
    }
}

impl Engine {
    /// The templates that later declarations have made invalid, each with the reason.
    pub(super) fn invalid_templates(&self) -> Result<Vec<(String, String)>, Error> {
        let owner = self.owner();
        let clock = owner.clock();
        let (session, state) = (owner.0.clone(), owner.state(&clock));
        clock.blocking(move || {
            let own = session.inner.catalog_of(&session.analyst)?;
            let mut invalid = Vec::new();
            for template in own.templates() {
                let whole = session.inner.catalog_of_template(&own, &template.name)?;
                if let Err(error) = Attempts::at(|| session.tried(template, &whole, true, &state)) {
                    invalid.push((template.name.clone(), error.to_string()));
                }
            }
            Ok(invalid)
        })
    }

    /// The names of [`Engine::invalid_templates`].
    pub(super) fn invalid_template_names(&self) -> Result<BTreeSet<String>, Error> {
        Ok(self.invalid_templates()?.into_iter().map(|(name, _)| name).collect())
    }
}
