//! The progress of a running statement: the percentage of its files that was read.
//!
//! In: the files of a statement, if the session may know their sizes. Out: a percentage while the
//! statement runs.
//!
//! The pace of reading a private file reveals its size, and so its number of rows. Therefore an
//! analyst sees a percentage only for statements that read public tables alone; an owner sees it
//! for all.
//!
//! For a synthetic table, both see the finished rounds and the share of its budget that these
//! spent, because both are released.
//!
//! ```text
//! SELECT … FROM census (public)     an analyst, the owner: 42          SELECT … FROM visits (private)     the owner: 42
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::exec::source::Reading;
use crate::synthetic::Progress;

/// The progress that a session shows of its present statement, if any.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    reading: Arc<Mutex<Weak<Reading>>>,
    rounds: Arc<Mutex<Weak<Rounds>>>,
}

/// The progress of a synthetic table. It is public: a function of released numbers.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<Option<RoundsDone>>);

/// The finished rounds of a synthetic table, and the share of its budget that they spent.
///
/// ```
/// # use hushql_engine as hushql;
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// assert_eq!(session.rounds(), None, "no synthetic table is made");
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundsDone {
    /// The number of finished rounds.
    pub rounds: u32,
    /// The percentage of the budget that was spent, 0 to 100.
    pub percent: u8,
}

impl Rounds {
    /// Sets the progress.
    pub(crate) fn is_at(&self, progress: Progress) {
        let Progress { round, used_nano, total_nano } = progress;
        let share = (u128::from(used_nano) * 100).checked_div(u128::from(total_nano));
        let percent = share.and_then(|share| u8::try_from(share.min(100)).ok()).unwrap_or(100);
        let done = RoundsDone { rounds: round, percent };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Watched {
    /// Shows the progress of this statement, or none, instead of the last one's. It is shown as
    /// long as the result lives.
    pub(crate) fn show(&self, reading: Option<Reading>) -> Option<Arc<Reading>> {
        let reading = reading.map(Arc::new);
        let shown = reading.as_ref().map_or_else(Weak::new, Arc::downgrade);
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        reading
    }

    /// The percentage of the statement that is shown.
    pub(crate) fn percent(&self) -> Option<u8> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?.percent()
    }

    /// Shows the rounds of a synthetic table as long as the result lives.
    pub(crate) fn rounds(&self) -> Arc<Rounds> {
        let rounds = Arc::<Rounds>::default();
        *self.rounds.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&rounds);
        rounds
    }

    /// The progress of the synthetic table that is shown.
    pub(crate) fn rounds_done(&self) -> Option<RoundsDone> {
        let rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        *rounds.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::Engine;

    /// An engine with a private and a public file.
    async fn engine(folder: &std::path::Path) -> Engine {
        for (name, classes) in [("rows.csv", 7), ("open.csv", 5)] {
            let rows: String = (0..20_000).map(|id| format!("{id},{}\n", id % classes)).collect();
            std::fs::write(folder.join(name), format!("id,x\n{rows}")).unwrap();
        }
        let engine = Engine::in_memory().unwrap();
        for statement in [
            format!(
                "CREATE EXTERNAL TABLE p STORED AS CSV LOCATION '{}/rows.csv'",
                folder.display()
            ),
            format!(
                "CREATE EXTERNAL TABLE o STORED AS CSV LOCATION '{}/open.csv'",
                folder.display()
            ),
            "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE".to_owned(),
            "ALTER TABLE p ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 6)".to_owned(),
            "ALTER TABLE o SET PUBLIC".to_owned(),
            "CREATE PRIVACY BUDGET b FOR p LIMIT (epsilon=100)".to_owned(),
        ] {
            engine.owner().execute(&statement).await.unwrap();
        }
        engine
    }

    const RELEASE: &str = "SELECT LAPLACE(eps=1) COUNT(*) FROM p";
    const BOTH: &str = "SELECT LAPLACE(eps=1) COUNT(*) FROM p WHERE x > (SELECT MIN(x) FROM o)";

    #[tokio::test]
    async fn analysts_see_how_far_public_statements_are_and_owners_all() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path()).await;
        let (lab, owner) = (engine.analyst("lab").unwrap(), engine.owner());
        for (session, sql, is_seen) in [
            (&*lab, "SELECT id FROM o", true),
            (&*lab, RELEASE, false),
            (&*lab, BOTH, false),
            (&*owner, RELEASE, true),
            (&*owner, BOTH, true),
        ] {
            let mut rows = session.stream(sql).await.unwrap();
            let first = rows.next().await;
            assert!(first.unwrap().is_ok());
            assert_eq!(session.progress().is_some(), is_seen, "{sql}");
            while rows.next().await.is_some() {}
            drop(rows);
            assert_eq!(session.progress(), None, "{sql}");
        }
        // A session shows neither its earlier statements nor those of other sessions.
        let shown = lab.stream("SELECT id FROM o").await.unwrap();
        assert!(lab.progress().is_some());
        assert_eq!(engine.analyst("other").unwrap().progress(), None);
        let hidden = lab.stream(RELEASE).await.unwrap();
        assert_eq!(lab.progress(), None);
        drop((shown, hidden));
    }
}
