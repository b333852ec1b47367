//! Calls of templates: the owner's query in the place of the call.
//!
//! In: a query, and the declarations that exist for whoever asks. Out: for a call, the statement
//! with the template's query as a subquery in FROM, over the owner's declarations, because EXECUTE
//! grants this question whatever it reads. Any other query stays as it is.
//!
//! ```text
//! SELECT n FROM monthly('north')   →   SELECT n FROM (SELECT … WHERE region = 'north') AS monthly
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use datafusion::execution::SessionState;

use super::choose::Planned;
use super::declared::{CalledTemplate, DeclaredState};
use crate::analysis::Lookups;
use crate::bind::names::tables_named;
use crate::bind::sources::LEDGER;
use crate::catalog::{Catalog, ParameterDomain, ParameterType, Template, TemplateParameter};
use crate::dialect::{
    Parameters, QueryStatement, ReleaseClause, Show, Statement, TemplateCall, parse,
    parse_template, with_body,
};
use crate::engine::attempts::Attempts;
use crate::engine::session::Session;
use crate::engine::visible_catalog::VisibleCatalog;
use crate::error::Error;
use crate::exec::columns_of_plan;
use crate::exec::source::OpenFiles;
use crate::privacy::Cost;
use crate::refusal::{Reason, Refusal};
use crate::templates::{
    AssignedValue, CallLiterals, assigned, outside, sample_call, short_signature, templates_only,
    trials,
};
use crate::views;

impl Session {
    /// A query as it is planned: the statement around a call with the template's query in it, over
    /// the owner's declarations; any other query over what exists for this session.
    ///
    /// # Guarantee
    /// Only the template's own text names tables of the owner's declarations: the call has literals
    /// for arguments, and around it stands nothing that names a table.
    ///
    /// # Errors
    /// A refusal of an unknown template, and of a value outside of its domain. Nothing was charged.
    pub(super) fn with_template(
        &self,
        query: QueryStatement,
        declared: DeclaredState,
        state: &SessionState,
    ) -> Result<(QueryStatement, DeclaredState), Error> {
        let Some(call) = &query.template else {
            self.may_ask(&query, &declared.catalog)?;
            return Ok((query, declared));
        };
        let template = called(&declared.catalog, call)?.clone();
        let values = assigned(&template, &call.arguments)?;
        for value in &values {
            self.check_referenced(&template, value, &declared, state)?;
        }
        self.expanded(&query, call, &template, &values, &declared)
    }

    /// The statement around a call with the template's query in it, and what it is planned over.
    fn expanded(
        &self,
        query: &QueryStatement,
        call: &TemplateCall,
        template: &Template,
        values: &[AssignedValue<'_>],
        declared: &DeclaredState,
    ) -> Result<(QueryStatement, DeclaredState), Error> {
        let literals: Vec<_> = values.iter().map(AssignedValue::literal).collect();
        let size = &self.inner.resources.statement;
        let catalog = self.inner.catalog_of_template(&declared.catalog, &template.name)?;
        let called =
            |is_hidden| Some(Arc::new(CalledTemplate { name: template.name.clone(), is_hidden }));
        let hidden = DeclaredState {
            catalog: catalog.clone(),
            open: Arc::clone(&declared.open),
            template: called(declared.catalog.is_part()),
            // The owner fixed the question, and rules are the owner's as well.
            rules: Arc::default(),
        };
        let body = parse_template(&template.body, size, &literals);
        let body = body.map_err(|error| hidden.told(error.into()))?;
        not_the_ledger(&body, &catalog).map_err(|refusal| hidden.told(refusal.into()))?;
        let is_hidden = !sees_all(&declared.catalog, &body, &catalog);
        let query = with_body(query, call, body).ok_or(Error::Internal)?;
        Ok((query, DeclaredState { template: called(is_hidden), ..hidden }))
    }

    /// The error of a call as its caller may see it: if the template is answered with other values,
    /// this call is at fault, and not a declaration.
    pub(super) fn told_of_call(
        &self,
        error: Error,
        declared: &DeclaredState,
        state: &SessionState,
    ) -> Error {
        let Some(called) = &declared.template else { return error };
        let template = match &error {
            Error::Refused(_) | Error::Bind(_) | Error::Catalog { .. } | Error::Syntax { .. } => {
                declared.catalog.template(&called.name)
            }
            Error::Budget(_)
            | Error::Ledger(_)
            | Error::Execution
            | Error::LogIn
            | Error::Internal => None,
        };
        let Some(template) = template else { return called.told(error) };
        let Ok((planned, ..)) = self.tried(template, &declared.catalog, false, state) else {
            return called.told(error);
        };
        let name = &called.name;
        let listed = match called.is_hidden {
            true => template.clone(),
            false => self
                .with_listed_domains(template, &declared.catalog, state)
                .unwrap_or_else(|_| template.clone()),
        };
        match error {
            Error::Refused(refusal) if !called.is_hidden => Refusal::new(
                refusal.reason(),
                refusal.clause(),
                format!(
                    "{name} is not answered with these values, or with what stands around it; nothing was charged: {}",
                    refusal.message()
                ),
                sample_call(&listed),
            )
            .into(),
            error if !called.is_hidden => error,
            _ => {
                let schema = columns_of_plan(planned.release().analysis().public_plan());
                let columns: Vec<&str> =
                    schema.fields().iter().map(|field| field.name().as_str()).collect();
                let message = format!(
                    "{name} is not answered with these values, or with what stands around its columns {}; nothing was charged",
                    columns.join(", ")
                );
                Refusal::new(Reason::Clause, name, message, sample_call(template)).into()
            }
        }
    }

    /// Refuses a value that the column of a public table does not have.
    fn check_referenced(
        &self,
        template: &Template,
        value: &AssignedValue<'_>,
        declared: &DeclaredState,
        state: &SessionState,
    ) -> Result<(), Error> {
        let Some(ParameterDomain::References { table, column }) = &value.parameter.domain else {
            return Ok(());
        };
        let catalog = self.inner.catalog_of_template(&declared.catalog, &template.name)?;
        let known = self.referenced(&catalog, (table, column), &declared.open, state)?;
        // The refusal tells of rows that were public when they were read.
        if !self.still_declared(declared)? {
            return Err(Attempts::redeclared());
        }
        match known.contains(&value.value) {
            true => Ok(()),
            false => {
                let mut listed = template.clone();
                let is_hidden = declared.template.as_ref().is_some_and(|called| called.is_hidden);
                let same = |one: &&mut TemplateParameter| one.name == value.parameter.name;
                // A call to paste has a value that the column has.
                if !is_hidden && let Some(one) = listed.parameters.iter_mut().find(same) {
                    one.domain = Some(ParameterDomain::In(known.into_iter().collect()));
                }
                Err(outside(&listed, value.parameter, &value.value).into())
            }
        }
    }

    /// The values of a public table's column, as texts.
    fn referenced(
        &self,
        catalog: &Catalog,
        (table, column): (&String, &String),
        open: &Arc<OpenFiles>,
        state: &SessionState,
    ) -> Result<BTreeSet<String>, Error> {
        let unread = || {
            Error::catalog(format!(
                "the values of {table}({column}) cannot be read: is it still a column of a public table?"
            ))
        };
        let table = catalog.shared_table(table).filter(|table| table.is_public());
        let table = table.filter(|table| table.column(column).is_some()).ok_or_else(unread)?;
        let columns = std::slice::from_ref(column);
        let values = self.read_public(table, columns, open, state)?;
        let values = values.first().ok_or(Error::Internal)?;
        let texts = arrow::compute::cast(values, &DataType::Utf8).map_err(|_| unread())?;
        Ok(texts.as_string::<i32>().iter().flatten().map(ToOwned::to_owned).collect())
    }

    /// The call of a query that has no values yet, with a value of its domain for each; and for
    /// each parameter of the statement the type that the template takes there.
    pub(in crate::engine) fn with_sampled_template(
        &self,
        query: QueryStatement,
        parameters: &mut [Option<DataType>],
    ) -> Result<(QueryStatement, DeclaredState), Error> {
        let declared = self.declared()?;
        let Some(call) = &query.template else {
            self.may_ask(&query, &declared.catalog)?;
            return Ok((query, declared));
        };
        let template = called(&declared.catalog, call)?.clone();
        let values = assigned(&template, &call.arguments)?;
        for value in &values {
            let place = value.later.and_then(|n| parameters.get_mut(n.checked_sub(1)?));
            if let Some(place @ None) = place {
                *place = Some(arrow_type(value));
            }
        }
        self.expanded(&query, call, &template, &values, &declared)
    }

    /// Refuses a query that names a table, if this session may only call templates.
    fn may_ask(&self, query: &QueryStatement, catalog: &VisibleCatalog) -> Result<(), Error> {
        match catalog.grants().is_templates_only(&self.analyst) && names_tables(query) {
            true => Err(templates_only(&self.analyst, catalog).into()),
            false => Ok(()),
        }
    }

    /// Refuses every statement but calls of templates and what shows them, if this session may only
    /// call templates. A statement that reads no table is none of the owner's.
    ///
    /// # Errors
    /// The refusal, with the list of what may be asked.
    pub(in crate::engine) fn allowed(&self, statement: Statement) -> Result<Statement, Error> {
        if !self.inner.is_templates_only(&self.analyst)? {
            return Ok(statement);
        }
        let catalog = self.inner.catalog_of(&self.analyst)?;
        let is_allowed = match &statement {
            Statement::Query(query)
            | Statement::Explain(query)
            | Statement::ExplainPrivacy { query: Ok(query), .. } => !names_tables(query),
            Statement::Copy { query, .. } => query.template.is_some(),
            // A change of the own password is declared, too; all else is refused there.
            Statement::ExplainPrivacy { query: Err(_), .. } | Statement::Declare(_) => true,
            Statement::Show(show) => matches!(show, Show::Templates | Show::Grants(_)),
            Statement::CreateReleaseTable { .. }
            | Statement::CreateSyntheticTable(_)
            | Statement::ExplainSynthetic { .. }
            | Statement::ExplainTuning { .. }
            | Statement::ReleaseTable(_)
            | Statement::BudgetRequest(_) => false,
        };
        match is_allowed {
            true => Ok(statement),
            false => Err(templates_only(&self.analyst, &catalog).into()),
        }
    }

    /// Refuses to store the answer of a call for somebody who may not ask about its tables: a
    /// release table exists for those who may.
    pub(in crate::engine) fn is_seen_through(&self, query: &QueryStatement) -> Result<(), Error> {
        let Some(call) = &query.template else { return Ok(()) };
        let own = self.inner.catalog_of(&self.analyst)?;
        match !own.is_part() || self.is_hidden_from(&own, call) == Some(false) {
            true => Ok(()),
            false => Err(Refusal::new(
                Reason::Statement,
                &call.name,
                "the answer of a template is stored for those who may ask about all of its tables",
                "the call itself: the same call again is shown again, at no cost",
            )
            .into()),
        }
    }

    /// Whether a template reads what its caller may not ask about; `None` if it cannot be called.
    fn is_hidden_from(&self, own: &VisibleCatalog, call: &TemplateCall) -> Option<bool> {
        let template = called(own, call).ok()?;
        let values = assigned(template, &call.arguments).ok()?;
        let literals: Vec<_> = values.iter().map(AssignedValue::literal).collect();
        let whole = self.inner.catalog_of_template(own, &template.name).ok()?;
        let body = parse_template(&template.body, &self.inner.resources.statement, &literals);
        Some(!sees_all(own, &body.ok()?, &whole))
    }

    /// The template with the present values of public columns as lists, to take samples from.
    fn with_listed_domains(
        &self,
        template: &Template,
        catalog: &VisibleCatalog,
        state: &SessionState,
    ) -> Result<Template, Error> {
        let mut listed = template.clone();
        let open = self.inner.open_files();
        for parameter in &mut listed.parameters {
            if let Some(ParameterDomain::References { table, column }) = &parameter.domain {
                let values = self.referenced(catalog, (table, column), &open, state)?;
                parameter.domain = Some(ParameterDomain::In(values.into_iter().collect()));
            }
        }
        Ok(listed)
    }

    /// Plans a template over these declarations with values of its domains, and returns the plan
    /// and the price of the first call. Reads no private row, and charges nothing.
    ///
    /// # Errors
    /// Why a call is refused.
    pub(in crate::engine) fn tried(
        &self,
        template: &Template,
        catalog: &VisibleCatalog,
        all: bool,
        state: &SessionState,
    ) -> Result<(Planned, Cost, Option<Error>), Error> {
        let Statement::Query(outer) = parse(&sample_call(template))? else {
            return Err(Error::Internal);
        };
        let call = outer.template.clone().ok_or(Error::Internal)?;
        let mut first = None;
        let listed = self.with_listed_domains(template, catalog, state)?;
        for trial in trials(&listed).into_iter().take(if all { usize::MAX } else { 1 }) {
            let planned = match self.one_of(template, &trial.calls, (&outer, &call), catalog, state)
            {
                Err(Error::Refused(why))
                    if trial.may_be_excluded && why.reason() == Reason::BadValue =>
                {
                    continue;
                }
                planned => planned?,
            };
            if first.is_none() {
                let due = self.asked(planned, Vec::new())?;
                let over = match self.quote(&due) {
                    Ok(_) => None,
                    Err(error @ Error::Budget(_)) => Some(error),
                    Err(error) => return Err(error),
                };
                let cost = due.cost();
                first = Some((due.into_parts().0, cost, over));
            }
        }
        first.ok_or(Error::Internal)
    }

    /// Plans the first of some calls whose values do not exclude one another.
    fn one_of(
        &self,
        template: &Template,
        calls: &[CallLiterals],
        (outer, call): (&QueryStatement, &TemplateCall),
        catalog: &VisibleCatalog,
        state: &SessionState,
    ) -> Result<Planned, Error> {
        let mut refused = None;
        for literals in calls {
            let body = parse_template(&template.body, &self.inner.resources.statement, literals)?;
            not_the_ledger(&body, catalog)?;
            named_columns(&body)?;
            if !template.parameters.is_empty() {
                costs_what_is_written(&body)?;
            }
            let query = with_body(outer, call, body).ok_or(Error::Internal)?;
            let open = self.inner.open_files();
            let rules = Arc::default();
            let declared = DeclaredState { catalog: catalog.clone(), open, template: None, rules };
            match self.planned_over(query, declared, state) {
                Ok(planned) => return Ok(planned),
                Err(Error::Refused(why)) if why.reason() == Reason::BadValue => {
                    refused.get_or_insert(Error::Refused(why));
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(Error::Internal))
    }
}

/// The type of a parameter's values.
fn arrow_type(value: &AssignedValue<'_>) -> DataType {
    match value.parameter.data_type {
        ParameterType::Varchar => DataType::Utf8,
        ParameterType::Bigint => DataType::Int64,
        ParameterType::Double => DataType::Float64,
        ParameterType::Boolean => DataType::Boolean,
        ParameterType::Date => DataType::Date32,
        ParameterType::Timestamp => {
            DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)
        }
    }
}

fn names_tables(query: &QueryStatement) -> bool {
    query.template.is_none() && (!tables_named(&query.tree).is_empty() || query.range_of.is_some())
}

/// The template that a call names, if it exists for whoever asks.
fn called<'a>(catalog: &'a Catalog, call: &TemplateCall) -> Result<&'a Template, Refusal> {
    catalog.template(&call.name).ok_or_else(|| {
        let known: Vec<String> = catalog
            .templates()
            .map(|template| format!("{}({})", template.name, short_signature(template)))
            .collect();
        let (known, hint) = match (known.as_slice(), catalog.templates().next()) {
            ([], _) | (_, None) => {
                ("no template may be called".to_owned(), "a query over a table".to_owned())
            }
            (known, Some(first)) => {
                (format!("these may be called: {}", known.join("; ")), sample_call(first))
            }
        };
        Refusal::new(
            Reason::Clause,
            &call.name,
            format!(
                "a table function is not part of the dialect, and there is no template {}: {known}",
                call.name
            ),
            hint,
        )
    })
}

/// Whether a reader may ask about all tables that a template reads, and use all of their budgets.
/// Then nothing of the answer is to be withheld.
fn sees_all(own: &Catalog, body: &QueryStatement, whole: &Catalog) -> bool {
    if !own.is_part() {
        return true;
    }
    let Some(names) = views::tables_behind(&body.tree, whole) else { return false };
    let is_usable = |name: &String| {
        let budgets = whole.unit_domain(name).into_iter().flat_map(|d| whole.budgets_of(d));
        own.table(name).is_some() && budgets.into_iter().all(|b| own.budget(&b.name).is_some())
    };
    // The clauses of releases name tables, too: keys and priors.
    let is_plain = Lookups::needed(&body.releases, own).is_ok();
    is_plain && names.iter().all(is_usable)
}

/// Refuses a cost that follows from an accuracy: values of a call could change it, and a template
/// costs the same for all values.
fn costs_what_is_written(body: &QueryStatement) -> Result<(), Refusal> {
    let goal = |release: &&ReleaseClause| {
        let Parameters { within, complete_above, .. } = &release.parameters;
        within.is_some() || complete_above.is_some()
    };
    match body.releases.iter().find(goal) {
        None => Ok(()),
        Some(release) => Err(Refusal::new(
            Reason::Parameter,
            &release.text,
            "its cost follows from an accuracy and from what is added up, and a template costs the same for all values of its parameters",
            "eps=… or rho=… in place of within=… and complete_above=…",
        )),
    }
}

/// Refuses the ledger in a template: it shows each caller something else.
fn not_the_ledger(body: &QueryStatement, catalog: &Catalog) -> Result<(), Refusal> {
    let names = views::tables_behind(&body.tree, catalog).unwrap_or_default();
    match names.contains(LEDGER) {
        false => Ok(()),
        true => Err(Refusal::new(
            Reason::SystemTable,
            LEDGER,
            "a template does not read the ledger, which is another one for each caller",
            "SELECT * FROM hushql.ledger, asked by the caller",
        )),
    }
}

/// Refuses a query with a column without a name, because calls name its columns.
fn named_columns(body: &QueryStatement) -> Result<(), Refusal> {
    let unnamed = body.headings.iter().position(Option::is_some);
    match unnamed.or_else(|| body.names.iter().position(Option::is_some)) {
        None => Ok(()),
        Some(at) => Err(Refusal::new(
            Reason::Clause,
            format!("column {}", at + 1),
            format!("column {} of the template has no name, and calls name its columns", at + 1),
            "AS and a name behind the expression: LAPLACE(eps=0.5) COUNT(*) AS n",
        )),
    }
}
