//! What an owner does for a whole vault: writes its declarations out, and finds what to repair.
//!
//! In: an engine. Out: a script of statements, or findings. No row is read.

use crate::answer::Answer;
use crate::catalog::quoted;
use crate::engine::Engine;
use crate::engine::text_columns::table;
use crate::error::Error;
use crate::owner;
use crate::owner::doctor::Finding;

impl Engine {
    /// Whether the disk may have lost writes to the vault: a sync failed, and later reads of the
    /// file may come from memory alone. All statements fail until the program is started again, so
    /// a program that serves others should end. After any other failure, such as a full disk, the
    /// engine opens the vault again by itself.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// assert!(!hushql::Engine::in_memory()?.needs_restart());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn needs_restart(&self) -> bool {
        self.inner.vault.is_lost()
    }

    /// A script of statements that rebuilds the vault's declarations, with what is spent. In the
    /// vault that runs it, at least as much is spent as in this one, and earlier spending there
    /// stays. The script has no passwords of roles.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let script = hushql::Engine::demo()?.dump()?;
    /// assert!(script.contains("ALTER TABLE adult SET PRIVACY UNIT ROW;"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn dump(&self) -> Result<String, Error> {
        owner::dump::dump(&self.inner, false, &self.invalid_template_names()?)
    }

    /// The script of [`Engine::dump`], with the verifiers of roles' passwords. A reader of the
    /// script can try passwords, so protect it like the vault.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let engine = hushql::Engine::demo()?;
    /// engine.owner().execute("CREATE ROLE lab LOGIN PASSWORD 'correct horse'").await?;
    /// assert!(engine.dump()?.contains("CREATE ROLE lab LOGIN;"));
    /// assert!(engine.dump_with_verifiers()?.contains("CREATE ROLE lab LOGIN PASSWORD 'SCRAM-SHA-256$4096:"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn dump_with_verifiers(&self) -> Result<String, Error> {
        owner::dump::dump(&self.inner, true, &self.invalid_template_names()?)
    }

    /// What an owner should repair before analysts ask: a row for each finding, with the statement
    /// or command that repairs it. It looks at declarations, at the permissions of files and at the
    /// names of their columns, and never at values.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let findings = hushql::Engine::demo()?.doctor()?;
    /// let columns = findings.batches()[0].schema();
    /// assert_eq!(columns.field(2).name(), "remedy");
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn doctor(&self) -> Result<Answer, Error> {
        let mut found = owner::doctor::examine(&self.inner)?;
        found.extend(self.invalid_templates()?.into_iter().map(|(about, why)| Finding {
            remedy: format!("CREATE OR REPLACE TEMPLATE {}(…) AS …", quoted(&about)),
            finding: format!("no call of the template is answered: {why}"),
            about,
        }));
        let column = |of: fn(&Finding) -> &String| found.iter().map(of).cloned().collect();
        table(&[
            ("about", column(|finding| &finding.about)),
            ("finding", column(|finding| &finding.finding)),
            ("remedy", column(|finding| &finding.remedy)),
        ])
    }
}
