//! A file of declarations as code: what differs from the vault, and carrying it out.
//!
//! In: a script that declares. Out: a plan, or what was done. The script is first run in an empty
//! vault in memory, so a mistake in it is found before anything changes.
//!
//! ```text
//! hushql apply study.db study.sql --plan   →   ALTER PRIVACY BUDGET study SET LIMIT (epsilon=6)
//! hushql apply study.db study.sql          →   1 statement is carried out; again: nothing to do
//! ```

use std::collections::BTreeMap;
use std::fmt;

use crate::dialect::{
    Declaration, GrantClause, GrantObjects, ReleaseTableChange, Statement, parse, split,
};
use crate::engine::Engine;
use crate::engine::builder::EngineBuilder;
use crate::engine::output::Output;
use crate::engine::owner_session::Owner;
use crate::error::Error;
use crate::owner as declare;
use crate::owner::difference::difference;
use crate::owner::grants::REQUIRED;
use crate::visible;

/// What a script changes in a vault.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyPlan {
    /// The statements that are to be run, in order, as they may be shown: without passwords.
    pub statements: Vec<String>,
    /// What the vault has and the script does not name. It stays.
    pub only_here: Vec<String>,
    /// The statements to run.
    to_run: Vec<String>,
}

/// Passwords are left out.
impl fmt::Debug for ApplyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { statements, only_here, to_run: _ } = self;
        let mut shown = f.debug_struct("ApplyPlan");
        shown.field("statements", statements).field("only_here", only_here);
        shown.finish_non_exhaustive()
    }
}

impl ApplyPlan {
    /// True if the vault is as the script says.
    pub fn is_nothing(&self) -> bool {
        self.to_run.is_empty()
    }
}

impl Owner {
    /// What a script of declarations changes in this vault. Nothing is changed. Files of tables are
    /// read, as their declarations do.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = hushql::Engine::in_memory()?.owner();
    /// let script = "CREATE VIEW one AS SELECT 1 AS n";
    /// assert_eq!(owner.plan(script).await?.statements.len(), 1);
    /// owner.apply(script).await?;
    /// assert!(owner.plan(script).await?.is_nothing());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`] for a statement that declares nothing, or that fails in an empty vault, with its
    /// line; [`Error::Ledger`] when the vault cannot be read.
    pub async fn plan(&self, script: &str) -> Result<ApplyPlan, Error> {
        let resources = self.inner.resources.clone();
        let aside = EngineBuilder::default().resources(resources).in_memory()?;
        let roles = run_aside(&aside, script).await?;
        let found = difference(&aside.inner, &self.inner)?;
        let (mut to_run, mut statements) = (found.statements.clone(), found.statements);
        for role in &found.new_roles {
            for text in roles.get(role).into_iter().flatten() {
                to_run.push(text.clone());
                statements.push(without_password(text));
            }
        }
        // What is new must not be there for everyone before it is granted to some.
        let (required, given): (Vec<String>, Vec<String>) =
            found.grants.into_iter().partition(|grant| grant == REQUIRED);
        for run in [&mut to_run, &mut statements] {
            run.splice(0..0, required.iter().cloned());
            run.extend(given.iter().cloned());
        }
        Ok(ApplyPlan { statements, only_here: found.only_here, to_run })
    }

    /// Carries out what [`Owner::plan`] finds, and returns it. Each statement is whole. If one
    /// fails, those before it stay, and running the script again continues there.
    ///
    /// # Errors
    /// As [`Owner::plan`]; and the first statement that fails, with how many were carried out.
    pub async fn apply(&self, script: &str) -> Result<ApplyPlan, Error> {
        let plan = self.plan(script).await?;
        for (done, statement) in plan.to_run.iter().enumerate() {
            match self.execute(statement).await {
                Ok(Output::Done(_)) => {}
                Ok(_) => return Err(Error::Internal),
                Err(error) => {
                    return Err(Error::catalog(format!(
                        "{done} of {} statements are carried out, and the next one fails: {}: {error}",
                        plan.to_run.len(),
                        without_password(statement)
                    )));
                }
            }
        }
        Ok(plan)
    }
}

/// Runs a script in an empty vault. Returns the statements about each role, as written.
async fn run_aside(aside: &Engine, script: &str) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut roles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for statement in split(script)? {
        let (line, _) = statement.place();
        let at = |error: Error| Error::catalog(format!("line {line} of the script: {error}"));
        let parsed = parse(statement.text()).map_err(|e| at(e.into()))?;
        let Some(declaration) = declaration_of(parsed) else {
            return Err(at(Error::catalog(
                "a file of declarations has nothing else: run it with hushql VAULT --owner -f FILE",
            )));
        };
        match declaration.as_ref() {
            Declaration::CreateRole { name, .. } | Declaration::AlterRole { name, .. } => {
                roles.entry(name.clone()).or_default().push(statement.text().to_owned());
            }
            Declaration::Refresh { table } | Declaration::Reload { table } => {
                return Err(at(Error::catalog(format!(
                    "a file of declarations says how a vault is, and reloads nothing: leave this line out, and write hushql reload VAULT {table} after each load"
                ))));
            }
            Declaration::DropTable { .. }
            | Declaration::DropView { .. }
            | Declaration::DropTemplate { .. }
            | Declaration::DropUnit { .. }
            | Declaration::DropDomain { .. }
            | Declaration::DropBudget { .. }
            | Declaration::DropRole { .. }
            | Declaration::Grant(GrantClause { may: false, .. })
            | Declaration::SetGrants { are_required: false } => {
                return Err(at(Error::catalog(format!(
                    "a file of declarations says how a vault is, and takes nothing away: leave this line out, and run it once: hushql VAULT --owner -c \"{}\"",
                    visible::line(statement.text())
                ))));
            }
            // What these declare is compared. A new variant needs a comparison in `difference`.
            Declaration::CreateTable { .. }
            | Declaration::CreateView { .. }
            | Declaration::CreateTemplate { .. }
            | Declaration::SetUnit { .. }
            | Declaration::SetPublic { .. }
            | Declaration::SetPublicColumn { .. }
            | Declaration::SetStrict { .. }
            | Declaration::SetAbout { .. }
            | Declaration::SetFloor { .. }
            | Declaration::SetRules { .. }
            | Declaration::SetDomain { .. }
            | Declaration::SetSpent { .. }
            | Declaration::CreateBudget { .. }
            | Declaration::CreatePartitioned { .. }
            | Declaration::PartitionBudget { .. }
            | Declaration::AlterSlice { .. }
            | Declaration::AlterPerQuery { .. }
            | Declaration::SetReplay { .. }
            | Declaration::AlterBudget { .. }
            | Declaration::SetExport { .. }
            | Declaration::Grant(_)
            | Declaration::SetGrants { .. } => {}
        }
        declare::declare(&aside.inner, &declaration).await.map_err(at)?;
    }
    Ok(roles)
}

/// The declaration of a statement. SELECT on one name for one role may mean a release table, but a
/// file of declarations names tables alone.
fn declaration_of(statement: Statement) -> Option<Box<Declaration>> {
    match statement {
        Statement::Declare(declaration) => Some(declaration),
        Statement::ReleaseTable(ReleaseTableChange::Grant { name, analyst, may }) => {
            let (objects, roles) = (GrantObjects::Tables(vec![name]), vec![analyst]);
            Some(Box::new(Declaration::Grant(GrantClause { objects, roles, may })))
        }
        _ => None,
    }
}

/// A statement as it may be shown.
fn without_password(statement: &str) -> String {
    let upper = statement.to_ascii_uppercase();
    match upper.find("PASSWORD") {
        Some(at) if upper.contains("ROLE") || upper.contains("USER") => {
            format!("{}PASSWORD '…'", statement.get(..at).unwrap_or_default())
        }
        Some(_) | None => statement.to_owned(),
    }
}
