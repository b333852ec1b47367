//! A session: the statements of an analyst or of the owner.
//!
//! In: statements as text, and values. Out: running statements (`Running`), or facts about them
//! before they run.

use std::sync::Arc;

use hushql::{Error, Output, Value};
use pyo3::prelude::*;

use crate::open_vault::OpenVault;
use crate::running::{Done, Given, Running, Task, blocking};
use crate::told::{self, AccuracyParts, CostParts, SpendParts};

/// The session of an analyst or of the owner.
#[pyclass(frozen, module = "hushql._hushql")]
pub(crate) struct Session {
    vault: Arc<OpenVault>,
    number: u64,
}

impl Session {
    pub(crate) fn new(vault: Arc<OpenVault>, number: u64) -> Self {
        Self { vault, number }
    }

    fn get(&self, py: Python<'_>) -> PyResult<hushql::Session> {
        self.vault.session(py, self.number)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.vault.forget(self.number);
    }
}

/// A parameter value, as the package normalizes it.
#[derive(FromPyObject)]
pub(crate) enum Parameter {
    Boolean(bool),
    Integer(i64),
    /// The digits of a decimal.
    Decimal {
        digits: String,
    },
    Float(f64),
    Text(String),
}

impl From<Parameter> for Value {
    fn from(parameter: Parameter) -> Self {
        match parameter {
            Parameter::Boolean(value) => Self::from(value),
            Parameter::Integer(value) => Self::from(value),
            Parameter::Decimal { digits } => Self::Decimal(digits),
            Parameter::Float(value) => Self::from(value),
            Parameter::Text(value) => Self::from(value),
        }
    }
}

/// A query with parameters. It is prepared on a thread that may block.
async fn asked(
    session: hushql::Session,
    sql: String,
    values: Vec<Value>,
) -> Result<hushql::Answer, Error> {
    if values.is_empty() {
        return session.query(&sql).await;
    }
    let prepare = move || session.prepare_with(&sql, values);
    let prepared = tokio::task::spawn_blocking(prepare).await;
    prepared.unwrap_or(Err(Error::Internal))?.execute().await
}

/// Runs the statements of a script one after the other, and returns the result of the last one.
async fn executed(session: hushql::Session, script: String) -> Result<Option<Done>, Error> {
    let mut last = None;
    for statement in hushql::split_statements(&script)? {
        let output = session.execute(statement.text()).await;
        last = Some(match output.map_err(|error| error.in_script(&statement))? {
            Output::Answer(answer) => Done::Answer(Box::new(answer)),
            Output::Explanation(explanation) | Output::ExplanationJson(explanation) => {
                Done::Explanation(explanation.to_string(), explanation.to_json())
            }
            Output::Done(sentence) => Done::Said(sentence),
            _ => return Err(Error::Internal),
        });
    }
    Ok(last)
}

/// A budget: name, table, limit, spending and remainder.
type BudgetParts = (String, String, SpendParts, SpendParts, SpendParts);

#[pymethods]
impl Session {
    /// Starts a query.
    fn start(
        &self,
        py: Python<'_>,
        sql: String,
        values: Vec<Option<Parameter>>,
    ) -> PyResult<Running> {
        let values = values.into_iter().map(|value| value.map_or(Value::Null, Value::from));
        let (session, values) = (self.get(py)?, values.collect());
        let answer = asked(session.clone(), sql, values);
        let task = Task::start(py, async { Ok(Done::Answer(Box::new(answer.await?))) })?;
        Ok(Running::new(task, session))
    }

    /// Starts a script. An empty script has no result.
    fn start_script(&self, py: Python<'_>, script: String) -> PyResult<Running> {
        let session = self.get(py)?;
        let done = executed(session.clone(), script);
        let nothing = || Done::Said(String::new());
        let task = Task::start(py, async move { Ok(done.await?.unwrap_or_else(nothing)) })?;
        Ok(Running::new(task, session))
    }

    fn execute(&self, py: Python<'_>, script: String) -> PyResult<Given> {
        let done = Task::start(py, executed(self.get(py)?, script))?.wait(py)?;
        Ok(done.map_or_else(|| Given::Said(String::new()), Given::from))
    }

    fn explain(&self, py: Python<'_>, sql: String) -> PyResult<(String, String)> {
        let session = self.get(py)?;
        let explanation = blocking(py, move || session.explain(&sql))?;
        Ok((explanation.to_string(), explanation.to_json()))
    }

    fn cost(&self, py: Python<'_>, sql: String) -> PyResult<CostParts> {
        let session = self.get(py)?;
        blocking(py, move || session.cost(&sql)).map(told::cost)
    }

    fn forecast(
        &self,
        py: Python<'_>,
        sql: String,
    ) -> PyResult<Vec<(CostParts, Vec<AccuracyParts>)>> {
        let session = self.get(py)?;
        let forecasts = blocking(py, move || session.forecast(&sql))?;
        let parts =
            forecasts.iter().map(|one| (told::cost(one.cost), told::accuracy(&one.accuracy)));
        Ok(parts.collect())
    }

    fn budgets(&self, py: Python<'_>) -> PyResult<Vec<BudgetParts>> {
        let session = self.get(py)?;
        let states = blocking(py, move || session.budgets())?;
        let parts = states.into_iter().map(|state| {
            let amounts = (state.budget.limit, state.spent, state.left);
            let (limit, spent, left) =
                (told::spend(amounts.0), told::spend(amounts.1), told::spend(amounts.2));
            (state.budget.name, state.budget.table, limit, spent, left)
        });
        Ok(parts.collect())
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<String>)>> {
        let session = self.get(py)?;
        blocking(py, move || session.tables())
    }
}
