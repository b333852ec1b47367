//! `EXPLAIN PRIVACY TUNE`: tries ε and bounds on rows that nobody has to protect.
//!
//! In: a question about a private table, and the name of a stand-in: a release table, a synthetic
//! table or a public one. Out: for each setting, what its bounds cut of the stand-in's rows, and
//! the noise that the question would have under it. Each setting is a text that is read and
//! analyzed like any question, so its noise is that of EXPLAIN, and the text that is proposed is
//! the one that was tried. Nothing is drawn and nothing is charged.
//!
//! ```text
//! SELECT LAPLACE(eps=1) SUM(price) FROM orders     on invented_orders
//!   ⇒ eps=1, rows=2, CLAMP 0..25    bias 812, noise ± 150
//!     eps=1                         bias 0, noise ± 5990
//! ```

use std::sync::Arc;

use datafusion::execution::SessionState;

use crate::catalog::{Catalog, Table, Unit, quoted};
use crate::dialect::{Statement, TuneStatement};
use crate::engine::attempts::Attempts;
use crate::engine::session::{Session, not_a_query};
use crate::error::Error;
use crate::explain::Explanation;
use crate::explain::tuning_lines::{TunedSetting, Tuning};
use crate::instance::table_names::known;
use crate::refusal::{Reason, Refusal};
use crate::resources::Clock;
use calibrated::{Calibrated, calibrated};
use errors_on_rows::errors_of;
use setting_grid::{SettingGrid, TrialSetting};
use stand_in_rows::StandInRows;

mod calibrated;
mod errors_on_rows;
mod setting_grid;
mod stand_in_rows;

/// A question as it is written, analyzed, and how the rows of its stand-in are read.
struct Tunable {
    written: Calibrated,
    /// The column of the stand-in that says whose a row is.
    unit: Option<String>,
    /// Why there is none, if people have several rows.
    without_unit: Option<String>,
}

impl Session {
    /// Tries the bounds of a question on the rows of a stand-in.
    ///
    /// # Guarantee
    /// What is explained is a function of the statement, the declarations and the stand-in's rows.
    /// These are read by a query of this session without a release, for single rows, so that they
    /// are rows of a public table, which this session may read. The rows of the question's own
    /// table are never read, and its files are not opened.
    pub(super) async fn tuned(
        &self,
        statement: &TuneStatement,
        clock: &Clock,
    ) -> Result<Explanation, Error> {
        match Box::pin(self.tuning(statement, clock)).await {
            Ok(tuning) => Ok(Explanation::of_tuning(&tuning)),
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            Err(error) => Err(error),
        }
    }

    async fn tuning(&self, statement: &TuneStatement, clock: &Clock) -> Result<Tuning, Error> {
        let (session, state) = (self.clone(), self.state(clock));
        let statement = Arc::new(statement.clone());
        let (asked, planning) = (Arc::clone(&statement), state.clone());
        let tunable = clock.aside(move || session.tunable(&asked, &planning)).await?;
        let query = statement.rows(tunable.unit.as_deref());
        let stream = Box::pin(self.begin(query, None, clock.clone())).await?;
        let keys = tunable.written.keys.as_ref();
        let rows = StandInRows::read(stream, tunable.unit.is_some(), keys).await?;
        let session = self.clone();
        clock.aside(move || session.tried_settings(&statement, &tunable, &rows, &state)).await
    }

    /// The question as it is written, if its stand-in may be read and its bounds may be tried.
    fn tunable(&self, statement: &TuneStatement, state: &SessionState) -> Result<Tunable, Error> {
        let catalog = self.declared()?.catalog;
        let stand_in = known(&catalog, &statement.stand_in)?;
        is_unprotected(stand_in, statement)?;
        let table = known(&catalog, &statement.table)?;
        let written = self.setting(statement.text.as_written(), state)?;
        if !written.has_people {
            return Ok(Tunable { written, unit: None, without_unit: None });
        }
        let unit = unit_column(&catalog, table);
        let shared = unit.clone().filter(|unit| stand_in.column(unit).is_some());
        let without_unit = match (&unit, &shared) {
            (_, Some(_)) => None,
            (Some(unit), None) => Some(format!(
                "{} has no column {}, so nothing says which of its rows are one person's",
                quoted(&stand_in.name),
                quoted(unit)
            )),
            (None, None) => Some(format!("no column of {} holds its unit", quoted(&table.name))),
        };
        if written.threshold.is_some() && shared.is_none() {
            return Err(hides_people(&stand_in.name).into());
        }
        Ok(Tunable { written, unit: shared, without_unit })
    }

    /// A text of the question, analyzed.
    fn setting(&self, sql: &str, state: &SessionState) -> Result<Calibrated, Error> {
        let Statement::Query(query) = self.parse(sql)? else { return Err(not_a_query().into()) };
        let planned = Attempts::at(|| self.plan(query.clone(), state))?;
        Ok(calibrated(planned.release())?)
    }

    /// Every setting of the grid, with its errors on the rows of the stand-in.
    fn tried_settings(
        &self,
        statement: &TuneStatement,
        tunable: &Tunable,
        rows: &StandInRows,
        state: &SessionState,
    ) -> Result<Tuning, Error> {
        let release = statement.query.releases.first().ok_or(Error::Internal)?;
        let grid = SettingGrid::around(release, &tunable.written, tunable.unit.is_some(), rows);
        let mut settings = Vec::new();
        for trial in grid.trials() {
            let sql = statement.text.with(&trial.parameters, trial.ends.as_ref());
            let calibrated = match self.setting(&sql, state) {
                Ok(calibrated) => calibrated,
                Err(Error::Refused(refusal)) if refusal.reason() == Reason::TooNoisy => continue,
                Err(error) => return Err(error),
            };
            let errors = errors_of(rows, &calibrated);
            let TrialSetting { parameters, ends, doublings } = trial;
            settings.push(TunedSetting { parameters, ends, doublings, errors, sql });
        }
        Ok(Tuning {
            operand: release.text.clone(),
            table: statement.table.clone(),
            stand_in: statement.stand_in.clone(),
            rows: rows.len(),
            left_out: rows.left_out(),
            groups: rows.groups(),
            has_threshold: tunable.written.threshold.is_some(),
            unit: tunable.unit.clone(),
            without_unit: tunable.without_unit.clone(),
            settings,
        })
    }
}

/// Refuses a stand-in with rows of people.
fn is_unprotected(stand_in: &Table, statement: &TuneStatement) -> Result<(), Refusal> {
    if stand_in.is_public() {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::Exact,
        &stand_in.name,
        format!(
            "bounds are tried on rows that nobody has to protect, and {} is neither public nor a release table: what is cut of its rows would be told without noise",
            quoted(&stand_in.name)
        ),
        format!(
            "CREATE SYNTHETIC TABLE invented AS AIM(eps=1) SELECT … FROM {}, and then TUNE … ON invented; or ON a table that is SET PUBLIC",
            quoted(&statement.table)
        ),
    ))
}

/// The refusal of a threshold whose groups cannot be tried.
fn hides_people(stand_in: &str) -> Refusal {
    Refusal::new(
        Reason::UnknownKeys,
        "GROUP BY",
        format!(
            "groups of few people are hidden, and {} does not say which of its rows are one person's",
            quoted(stand_in)
        ),
        "GROUP BY x KEYS (…) with the keys, or ON a public table with the column of the unit",
    )
}

/// The column of a table that says whose a row is, by itself.
fn unit_column(catalog: &Catalog, table: &Table) -> Option<String> {
    match table.unit()? {
        Unit::Column { column, .. } | Unit::Present { column, .. } => Some(column.clone()),
        Unit::Via(link) => {
            let ([own], [referenced]) = (link.columns.as_slice(), link.references.as_slice())
            else {
                return None;
            };
            match catalog.table(&link.table)?.unit()? {
                Unit::Column { column, .. } if column == referenced => Some(own.clone()),
                Unit::Row
                | Unit::Column { .. }
                | Unit::Month { .. }
                | Unit::Present { .. }
                | Unit::Via(_) => None,
            }
        }
        Unit::Row | Unit::Month { .. } => None,
    }
}
