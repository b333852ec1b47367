//! Shows a replayed answer again without planning its query.
//!
//! In: a statement. Out: its answer, if this analyst saw it before, and everything that it follows
//! from is unchanged. Planning a query and running its public plan takes milliseconds, and a
//! dashboard asks the same every minute.
//!
//! ```text
//! 1st time   plan → charge → draw → keep        paid
//! 2nd time   plan → kept draws → public plan    replayed, and kept by the program if it reads nothing else
//! 3rd time   the same files? public rows? declarations? draws, for this analyst? noted today? ─ yes → the same answer
//!                                                                              └ no → as the 2nd time
//! ```
//!
//! A kept answer was replayed to the same analyst before, so showing it again reveals nothing new,
//! whatever happened since. All checks serve correctness: an answer follows from the statement, the
//! declarations, the draws, the public rows, and the moment. A statement that names a function of
//! the clock, or reads public rows whose changes are not noticed, is planned each time.

use std::sync::Arc;

use super::charge::Paid;
use super::prepare::Quote;
use super::row_contents::RowsOf;
use crate::answer::Answer;
use crate::catalog::{Catalog, Source, Table};
use crate::dialect::QueryStatement;
use crate::engine::session::Session;
use crate::exec::source::OpenFiles;
use crate::instance::Inner;
use crate::instance::answer_cache::{Left, Repeat, SeenMoment};
use crate::ledger::{AskedDraw, Noted, Vault, VaultError};
use crate::release::draw_set::DrawSet;
use crate::release::identity::units;
use crate::views;

/// Everything that an answer in the making will follow from.
pub(super) struct Followed {
    query: QueryStatement,
    open: Arc<OpenFiles>,
    tables: Vec<Table>,
    contents: Vec<(String, String)>,
    asked: Vec<AskedDraw>,
    charges: Vec<i64>,
    catalog: Arc<Catalog>,
}

impl Session {
    /// The kept answer, if everything that it follows from is unchanged.
    ///
    /// # Guarantee
    /// `Some` only if all releases of the statement were paid for, the vault keeps their draws for
    /// this analyst under the present declarations, and the public rows are the same as well; and
    /// only if the ledger says that they were shown again today.
    pub(super) async fn repeated(
        &self,
        query: &QueryStatement,
        quoted: Option<&Quote>,
    ) -> Option<Answer> {
        // Where bounds must be declared, a question that finds some is refused.
        let repeats = Some(&self.inner.repeats).filter(|_| !self.declared_bounds)?;
        let repeat = repeats.of(&self.analyst, &query.text)?;
        let is_quoted = quoted.is_none_or(|quoted| quoted.schema == repeat.answer.schema());
        if repeat.query != *query || !is_quoted {
            return None;
        }
        let (known, inner) = (Arc::clone(&repeat), Arc::clone(&self.inner));
        let (analyst, statement) = (self.analyst.clone(), query.text.clone());
        let look = move |vault: &Vault| as_before(&known, &inner, vault, &analyst, &statement);
        let was_seen = repeat.seen.is(self.inner.vault.moment());
        if !is_unchanged(&repeat, &self.inner, &self.analyst)
            && !self.inner.vault.ask(look).await.unwrap_or(false)
        {
            // If anything is wrong, planning the query reports it.
            self.inner.repeats.forget(&self.analyst, &query.text);
            return None;
        }
        #[cfg(test)]
        self.inner.repeats.shown.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if !was_seen {
            // Something was committed since, so less may be left.
            let names = repeat.left.names();
            repeat.left.set(self.left_now(names).await);
        }
        Some(repeat.answer.clone().with_left(repeat.left.get()))
    }

    /// Everything that the answer to a query follows from; `None` if that is more than its
    /// statement, the declarations and kept draws.
    pub(super) fn followed(&self, paid: &Paid, query: &QueryStatement) -> Option<Followed> {
        let planned = paid.planned();
        let charges = planned.release().replayed_charges();
        let is_free = !paid.is_charged() && !charges.is_empty();
        // A session that must declare its bounds asks another question with the same text.
        let is_usual = !self.declared_bounds;
        if !is_usual || !is_free || planned.proposal().is_some() || !planned.is_timeless() {
            return None;
        }
        let (catalog, open) = (planned.catalog(), planned.open());
        let mut names = views::tables_behind(&query.tree, catalog)?;
        let units = units(planned.release());
        names.extend(units.iter().flat_map(|unit| unit.tables.iter().cloned()));
        names.extend(planned.public_tables().map(|table| table.name.clone()));
        let known = |name: &String| catalog.table(name).filter(|table| is_still(table)).cloned();
        let tables = names.iter().map(known).collect::<Option<Vec<Table>>>()?;
        let asked = |unit: &DrawSet| Some(RowsOf::unit(&self.inner, planned, unit)?.asked(unit));
        Some(Followed {
            query: query.clone(),
            contents: contents(&self.inner, &tables, open)?,
            asked: units.iter().map(asked).collect::<Option<_>>()?,
            open: Arc::clone(open),
            tables,
            charges,
            catalog: Arc::clone(catalog),
        })
    }

    /// Keeps an answer for the next time.
    pub(super) async fn keep_answer(&self, followed: Followed, answer: &Answer) {
        let Followed { query, open, tables, contents: before, asked, charges, catalog } = followed;
        // A public table that changed meanwhile may be in the answer in its old or in its new
        // state.
        if !answer.receipt().is_some_and(|receipt| receipt.is_replayed)
            || contents(&self.inner, &tables, &open).as_ref() != Some(&before)
        {
            return;
        }
        let (analyst, of, asking) = (self.analyst.clone(), Arc::clone(&catalog), asked.clone());
        let found = move |vault: &Vault| vault.kept(&asking, &analyst, &of);
        let Ok(kept) = self.inner.vault.ask(found).await else { return };
        // Each draw must be the one that is shown, and the charges must be theirs.
        let mut paid = Vec::new();
        for one in &kept {
            let Some(draw) = one.as_ref().and_then(|kept| kept.draw.as_ref()) else { return };
            paid.push(draw.charge);
        }
        paid.sort_unstable();
        paid.dedup();
        if paid == charges {
            let answer = answer.clone();
            let contents = before;
            let left = answer.receipt().map_or_else(Vec::new, |receipt| receipt.left.clone());
            let (seen, left) = (SeenMoment::default(), Left::new(left));
            let repeat = Repeat {
                query,
                catalog,
                tables,
                contents,
                asked,
                kept,
                charges,
                answer,
                seen,
                left,
            };
            self.inner.repeats.keep(&self.analyst, repeat);
        }
    }
}

/// Whether a few properties of files show what [`as_before`] would find, without a transaction and
/// another thread: nothing was committed since it last looked, and the answer reads only private
/// tables with one file each.
fn is_unchanged(known: &Repeat, inner: &Inner, analyst: &str) -> bool {
    let is_one_file = |table: &Table| match &table.source {
        Source::File { files, .. } => files.is_none() && !table.is_public(),
        Source::Registered | Source::Postgres { .. } | Source::Released { .. } => false,
    };
    if !known.tables.iter().all(is_one_file) || !known.seen.is(inner.vault.moment()) {
        return false;
    }
    let open = inner.open_files();
    known.tables.iter().all(|table| open.check(table).is_ok())
        && inner
            .vault
            .takes_defaults(analyst)
            .is_ok_and(|takes| takes == known.catalog.has_defaults())
        && known.seen.is(inner.vault.moment())
        && open.is_unchanged()
}

/// Whether everything that an answer follows from is unchanged, and the ledger notes that it was
/// shown again.
fn as_before(
    known: &Repeat,
    inner: &Inner,
    vault: &Vault,
    analyst: &str,
    statement: &str,
) -> Result<bool, VaultError> {
    let open = inner.open_files();
    if vault.takes_defaults(analyst)? != known.catalog.has_defaults() {
        return Ok(false);
    }
    if !known.tables.iter().all(|table| open.check(table).is_ok())
        || contents(inner, &known.tables, &open).as_ref() != Some(&known.contents)
    {
        return Ok(false);
    }
    // If nothing was committed since, the vault would say the same again.
    if !known.seen.is(vault.moment()) {
        let Repeat { asked, charges, catalog, .. } = known;
        let (kept, noted) = vault.kept_and_noted(asked, analyst, charges, catalog)?;
        if kept != known.kept {
            return Ok(false);
        }
        match noted {
            Noted::At(moment) => known.seen.set(moment),
            Noted::Not => vault.replayed(analyst, statement, charges, catalog)?,
        }
    }
    Ok(open.is_unchanged())
}

/// The contents of the tables that are public or registered.
fn contents(inner: &Inner, tables: &[Table], open: &OpenFiles) -> Option<Vec<(String, String)>> {
    RowsOf::of(inner, tables, open).map(|rows| rows.contents)
}

/// Whether an answer over this table may be shown again without asking a server or listing a
/// folder. Kept draws need no private rows; for public rows, it must be quick to see that they are
/// the same.
fn is_still(table: &Table) -> bool {
    match (&table.source, table.is_public()) {
        (Source::File { .. } | Source::Registered, false)
        | (Source::File { files: None, .. }, true) => true,
        (Source::File { files: Some(_), .. } | Source::Registered, true)
        | (Source::Postgres { .. } | Source::Released { .. }, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use tempfile::TempDir;

    use crate::{Engine, Session};

    const COUNT: &str = "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people WHERE age > 30";

    /// A vault in a file, with `people(id, age, city)`, the public `places` and a view of people.
    async fn engine() -> (TempDir, Engine) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("people.csv"), "id,age,city\n1,30,Oslo\n2,40,Rome\n3,50,Rome\n").unwrap();
        std::fs::write(at("places.csv"), "name,size\nOslo,1\nRome,2\n").unwrap();
        let engine = Engine::init(at("study.db")).unwrap();
        for sql in [
            &*format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", at("people.csv")),
            &format!("CREATE EXTERNAL TABLE places STORED AS CSV LOCATION '{}'", at("places.csv")),
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE places SET PUBLIC",
            "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
            "CREATE VIEW old AS SELECT * FROM people WHERE age > 30",
            "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=100, delta=1e-5) REPLAY (ALL)",
        ] {
            engine.owner().execute(sql).await.unwrap();
        }
        (folder, engine)
    }

    fn shown(engine: &Engine) -> usize {
        engine.inner.repeats.shown.load(Ordering::SeqCst)
    }

    /// Whether the answer was paid for before.
    async fn is_replayed(session: &Session, sql: &str) -> bool {
        session.query(sql).await.unwrap().receipt().unwrap().is_replayed
    }

    /// Asks three times: the answer is paid for, then replayed, then shown again.
    async fn thrice(engine: &Engine, session: &Session, sql: &str) {
        let before = shown(engine);
        let answers = [
            session.query(sql).await.unwrap(),
            session.query(sql).await.unwrap(),
            session.query(sql).await.unwrap(),
        ];
        assert_eq!(shown(engine), before + 1, "{sql}");
        assert_eq!(answers[0].batches(), answers[2].batches());
        assert_eq!(answers[1].receipt(), answers[2].receipt());
        assert_eq!(answers[1].to_string(), answers[2].to_string());
    }

    #[tokio::test]
    async fn an_answer_is_shown_again_and_the_ledger_says_so() {
        let (_folder, engine) = engine().await;
        let [lab, eve] = ["lab", "eve"].map(|name| engine.analyst(name).unwrap());
        thrice(&engine, &lab, COUNT).await;
        // Another analyst gets their own note, and nothing else of the first analyst's.
        assert!(is_replayed(&eve, COUNT).await && shown(&engine) == 1);
        assert!(is_replayed(&eve, COUNT).await && shown(&engine) == 2);
        let kinds =
            "SELECT analyst, kind FROM hushql.ledger WHERE kind <> 'kept' ORDER BY sequence";
        let said = engine.owner().query(kinds).await.unwrap().to_string();
        let paid: Vec<&str> = said.lines().filter(|line| line.contains("paid")).collect();
        let replayed: Vec<&str> = said.lines().filter(|line| line.contains("replayed")).collect();
        assert!(paid.len() == 1 && replayed.len() == 2, "{said}");
        // Another text is another statement, and another value is another question.
        assert!(is_replayed(&lab, &COUNT.replace("n FROM", "m FROM")).await);
        assert!(!is_replayed(&lab, &COUNT.replace("30", "31")).await);
        assert_eq!(shown(&engine), 2);
    }

    #[tokio::test]
    async fn parameters_belong_to_the_statement() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let sql = COUNT.replace("30", "$1");
        for (value, expected) in [(30, false), (30, true), (30, true), (31, false), (30, true)] {
            let query = lab.prepare_with(&sql, [value]).unwrap();
            let answer = query.execute().await.unwrap();
            assert_eq!(answer.receipt().unwrap().is_replayed, expected, "{value}");
        }
        assert_eq!(shown(&engine), 2);
    }

    /// After any declaration the query is planned again, and paid for if necessary.
    #[tokio::test]
    async fn declarations_end_it() {
        for (change, still_replayed) in [
            ("ALTER PRIVACY BUDGET b SET REPLAY (OFF)", false),
            ("ALTER PRIVACY BUDGET b SET REPLAY (OWN)", true),
            ("ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 98)", false),
            ("ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE", false),
            ("CREATE PRIVACY BUDGET c FOR people LIMIT (epsilon=9) REPLAY (OFF)", false),
            ("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=101, delta=1e-5)", true),
        ] {
            let (folder, engine) = engine().await;
            let lab = engine.analyst("lab").unwrap();
            thrice(&engine, &lab, COUNT).await;
            // By another program.
            let other = Engine::open(folder.path().join("study.db")).unwrap();
            other.owner().execute(change).await.unwrap();
            assert_eq!(is_replayed(&lab, COUNT).await, still_replayed, "{change}");
            assert_eq!(shown(&engine), 1, "{change}");
        }
    }

    /// Under OWN, an analyst no longer sees the answers of others that ALL allowed.
    #[tokio::test]
    async fn answers_of_others_end_with_all() {
        let (_folder, engine) = engine().await;
        let [lab, eve] = ["lab", "eve"].map(|name| engine.analyst(name).unwrap());
        lab.query(COUNT).await.unwrap();
        assert!(is_replayed(&eve, COUNT).await && is_replayed(&eve, COUNT).await);
        assert_eq!(shown(&engine), 1);
        engine.owner().execute("ALTER PRIVACY BUDGET b SET REPLAY (OWN)").await.unwrap();
        assert!(!is_replayed(&eve, COUNT).await);
        assert_eq!(shown(&engine), 1);
    }

    #[tokio::test]
    async fn what_is_asked_afresh_or_reads_anything_else_is_planned() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let release = "CREATE RELEASE TABLE r AS SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people";
        lab.execute(release).await.unwrap();
        for sql in [
            "SELECT FRESH LAPLACE(eps=0.1) COUNT(*) AS n FROM people",
            "SELECT LAPLACE(eps=0.1) COUNT(*) AS n, FRESH LAPLACE(eps=0.1) COUNT(*) AS m FROM people",
            "SELECT now() AS t, LAPLACE(eps=0.1) COUNT(*) AS n FROM people",
            "SELECT CURRENT_DATE AS d, LAPLACE(eps=0.1) COUNT(*) AS n FROM people",
            "SELECT r.n AS m, q.n FROM r, (SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people) q",
            "SELECT k, n FROM (SELECT COUNT(*) AS k FROM hushql.ledger) l, (SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people) q",
        ] {
            for _ in 0..3 {
                lab.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            assert_eq!(shown(&engine), 0, "{sql}");
        }
    }

    /// Statements over views and public tables.
    const WITH_PUBLIC: [&str; 5] = [
        "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM old",
        "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people WHERE city IN (SELECT name FROM places)",
        "SELECT city, LAPLACE(eps=0.1) COUNT(*) AS n FROM people GROUP BY city KEYS TABLE places(name)",
        "SELECT name, n FROM places, (SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people) q",
        "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM large_places",
    ];

    #[tokio::test]
    async fn views_and_public_tables_are_looked_through() {
        let (folder, engine) = engine().await;
        let view = "CREATE VIEW large_places AS SELECT * FROM people WHERE city IN (SELECT name FROM places WHERE size > 1)";
        engine.owner().execute(view).await.unwrap();
        let lab = engine.analyst("lab").unwrap();
        for sql in WITH_PUBLIC {
            thrice(&engine, &lab, sql).await;
        }
        assert_eq!(shown(&engine), 5);
        // Other public rows make another question, if the query reads them.
        let places = folder.path().join("places.csv");
        std::fs::write(&places, "name,size\nOslo,1\nRome,2\nBonn,3\n").unwrap();
        for sql in WITH_PUBLIC {
            assert_eq!(is_replayed(&lab, sql).await, sql.ends_with("old") || sql.contains(" q"));
        }
        assert_eq!(shown(&engine), 6);
        let sql =
            "SELECT name, n FROM places, (SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people) q";
        assert_eq!(
            lab.query(sql).await.unwrap().batches().iter().map(|b| b.num_rows()).sum::<usize>(),
            3
        );
        // Another view with the same name makes another question, too.
        for change in ["DROP VIEW old", "CREATE VIEW old AS SELECT * FROM people WHERE age > 31"] {
            engine.owner().execute(change).await.unwrap();
        }
        assert!(!is_replayed(&lab, WITH_PUBLIC[0]).await);
    }

    /// Registered rows are shown again as long as the owner says that they are the same.
    #[tokio::test]
    async fn registered_rows_are_shown_again_under_refresh() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let ids: arrow::array::ArrayRef =
            std::sync::Arc::new(arrow::array::Int64Array::from(vec![1, 2]));
        let batch = arrow::array::RecordBatch::try_from_iter([("person", ids)]).unwrap();
        engine.register_batch("calls", batch.clone()).unwrap();
        for sql in [
            "ALTER TABLE calls SET PRIVACY UNIT VIA (person) REFERENCES people (id) MAX ROWS 4",
            "ALTER TABLE calls REFRESH",
        ] {
            engine.owner().execute(sql).await.unwrap();
        }
        let sql = "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM calls";
        thrice(&engine, &lab, sql).await;
        engine.owner().execute("ALTER TABLE calls REFRESH").await.unwrap();
        assert!(!is_replayed(&lab, sql).await && is_replayed(&lab, sql).await);
        engine.register_batch("calls", batch).unwrap();
        assert!(!is_replayed(&lab, sql).await);
        assert_eq!(shown(&engine), 1);
    }

    #[tokio::test]
    async fn a_changed_file_is_noticed() {
        let (folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        thrice(&engine, &lab, COUNT).await;
        let path = folder.path().join("people.csv");
        std::fs::write(&path, "id,age,city\n1,30,Oslo\n2,40,Rome\n4,60,Rome\n5,70,Rome\n").unwrap();
        assert!(lab.query(COUNT).await.unwrap_err().to_string().contains("was changed"));
        assert_eq!(shown(&engine), 1);
    }

    /// If the vault no longer keeps a draw, it is drawn and paid for again.
    #[tokio::test]
    async fn what_is_forgotten_is_paid_for() {
        let (folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        thrice(&engine, &lab, COUNT).await;
        let vault = rusqlite::Connection::open(folder.path().join("study.db")).unwrap();
        vault.execute("DELETE FROM kept_draw", []).unwrap();
        drop(vault);
        assert!(!is_replayed(&lab, COUNT).await);
        assert_eq!(shown(&engine), 1);
    }
}
