//! Between stages 4 and 5: what a query requests from the ledger, and how the ledger would respond.
//!
//! In: a [`Planned`] query. Out: a [`Due`] one: an entry for each release, the cost, and the budgets that the query
//! touches. A quote charges nothing.

use std::sync::Arc;

use super::choose::Planned;
use crate::catalog::Source;
use crate::engine::session::Session;
use crate::error::Error;
use crate::explain::threshold_ledger_texts;
use crate::ledger::{BudgetQuote, ChargeEntry, ChargeRequest, Kept, plan_hash};
use crate::privacy::{Cost, Loss, Notion};
use crate::release::Drawn;
use crate::release::identity::Identity;
use crate::release::record::ledger_texts;

/// A query with its request to the ledger; only [`Session::asked`] makes one.
#[derive(Debug)]
pub(crate) struct Due {
    planned: Planned,
    /// `None` for a free query.
    request: Option<ChargeRequest>,
    cost: Cost,
    /// The key of what it draws, and what is kept for it, if it can be replayed.
    kept: Option<Kept>,
}

impl Due {
    /// The planned query: what it releases, and by which mechanisms.
    pub(crate) fn planned(&self) -> &Planned {
        &self.planned
    }

    /// The cost, in the notions that the touched budgets count in; zero for a free query.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// The request to the ledger; `None` for a free query.
    pub(crate) fn request(&self) -> Option<&ChargeRequest> {
        self.request.as_ref()
    }

    /// The number of the charge that paid for what is shown again, if nothing is drawn.
    pub(crate) fn replayed(&self) -> Option<i64> {
        Some(self.kept.as_ref()?.draw.as_ref()?.charge)
    }

    pub(super) fn into_parts(self) -> (Planned, Option<ChargeRequest>, Option<Kept>) {
        (self.planned, self.request, self.kept)
    }
}

impl Session {
    /// What a planned query requests from the ledger.
    ///
    /// # Errors
    /// A refusal of a release whose loss is too small to count.
    pub(crate) fn asked(&self, planned: Planned) -> Result<Due, Error> {
        let release = planned.release();
        let mut entries = Vec::new();
        let mut cost = Cost::zero();
        for (part, drawn, loss) in release.charges_by_part() {
            let (mechanism, parameters, sensitivity) = match drawn {
                Drawn::Measure(measure, mechanized) => ledger_texts(measure, mechanized),
                Drawn::Threshold(hidden, loss) => threshold_ledger_texts(hidden, loss),
            };
            cost = cost.plus(Cost::round_up(&loss)?)?;
            let shared = drawn.is_shared() && loss == Loss::zero();
            let cells = planned.touched(part);
            entries.push(ChargeEntry { mechanism, parameters, sensitivity, loss, shared, cells });
        }
        if entries.is_empty() {
            return Ok(Due { planned, request: None, cost: Cost::default(), kept: None });
        }
        self.inner.resources.check_cost(cost)?;
        let unit_domains = release.unit_domains();
        let counts: Vec<Notion> = unit_domains
            .iter()
            .flat_map(|unit_domain| planned.catalog().budgets_of(unit_domain))
            .map(|budget| budget.limit.notion)
            .collect();
        let request = ChargeRequest {
            analyst: self.analyst.clone(),
            plan_hash: plan_hash(&release.plan_text()),
            // The caller that charges it fills this in.
            statement: String::new(),
            entries,
            unit_domains,
            catalog: Arc::clone(planned.catalog()),
        };
        let releases = i64::try_from(request.entries.len()).map_err(|_| Error::Internal)?;
        let cost = cost.in_coupons(releases, &counts).counted_in(&counts);
        Ok(Due { planned, request: Some(request), cost, kept: None })
    }

    /// What a query draws, for tests of what is recognised.
    #[cfg(test)]
    pub(crate) fn identity_of(&self, sql: &str) -> Result<Option<Vec<u8>>, Error> {
        let crate::dialect::Statement::Query(query) = self.parse(sql)? else { return Ok(None) };
        let planned = self.plan(query, &self.state(&self.clock()))?;
        Ok(Identity::of(planned.release()).map(|identity| identity.body))
    }

    /// The same request, or none where what was drawn before is shown again. Only tables of files that are known by their
    /// properties are replayed: others may have changed under the same declaration.
    ///
    /// # Errors
    /// The vault's own.
    pub(crate) fn unless_kept(&self, due: Due) -> Result<Due, Error> {
        let planned = &due.planned;
        if due.request.is_none() || planned.proposal().is_some() {
            return Ok(due);
        }
        let Some(identity) = Identity::of(planned.release()) else { return Ok(due) };
        let is_pinned = |name: &String| {
            let table = planned.catalog().table(name);
            table.is_some_and(|t| matches!(t.source, Source::File { fingerprint: Some(_), .. }))
        };
        if !identity.tables.iter().all(is_pinned) {
            return Ok(due);
        }
        let kept = self.inner.vault.kept(
            (&identity.body, &identity.tables),
            &planned.release().unit_domains(),
            &self.analyst,
            planned.catalog(),
        )?;
        Ok(match kept.as_ref().is_some_and(|kept| kept.draw.is_some()) {
            true => Due { request: None, cost: Cost::default(), kept, ..due },
            false => Due { kept, ..due },
        })
    }

    /// What each touched budget would have left after the charge.
    ///
    /// # Errors
    /// [`Error::Budget`] if a budget does not allow the charge, and the vault's own.
    pub(crate) fn quote(&self, due: &Due) -> Result<Vec<BudgetQuote>, Error> {
        match due.request() {
            Some(request) => Ok(self.inner.vault.quote(request)?),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, Session};

    /// The identity of a statement over `people(id, age, city)` and the view `grown`.
    async fn engine() -> (tempfile::TempDir, Engine) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.csv");
        std::fs::write(&path, "id,age,city,job\n1,30,Oslo,a\n2,40,Rome,b\n").unwrap();
        let engine = Engine::in_memory().unwrap();
        for sql in [
            &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", path.display()),
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
            "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
            "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=9, delta=1e-6)",
            "CREATE VIEW grown AS SELECT city AS town, age AS years FROM people WHERE age >= 18",
        ] {
            engine.owner().execute(sql).await.unwrap();
        }
        (folder, engine)
    }

    fn identity(session: &Session, sql: &str) -> Option<Vec<u8>> {
        session.identity_of(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    #[tokio::test]
    async fn equal_draws_are_recognised_in_other_words() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        for same in [
            &[
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age >= 18 AND city = 'Oslo'",
                "SELECT LAPLACE(eps=1.0) COUNT(*) AS m FROM people WHERE city = 'Oslo' AND age >= 18",
                "SELECT LAPLACE(eps=1) COUNT(*) + 1 AS more FROM people p WHERE p.age >= 18 AND p.city = 'Oslo'",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM grown WHERE town = 'Oslo'",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT * FROM people WHERE age >= 18) q WHERE city = 'Oslo'",
            ][..],
            &[
                "SELECT city, LAPLACE(eps=1) AVG(age) AS n FROM people GROUP BY city",
                "SELECT x.city AS c, LAPLACE(eps=1) AVG(x.age) FROM people x GROUP BY x.city ORDER BY 1 LIMIT 1",
            ],
            &[
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age IN (1, 2, 3)",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age IN (3, 1, 2)",
            ],
        ] {
            let first = identity(&lab, same[0]);
            assert!(first.is_some(), "{}", same[0]);
            for sql in same {
                assert_eq!(identity(&lab, sql), first, "{sql}");
            }
        }
    }

    #[tokio::test]
    async fn other_draws_are_others() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let different = [
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people",
            "SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people",
            "SELECT LAPLACE(eps=1, rows=1) COUNT(age) AS n FROM people",
            "SELECT GAUSSIAN(eps=1, delta=1e-7) COUNT(*) AS n FROM people",
            "SELECT GAUSSIAN(eps=1, delta=1e-8) COUNT(*) AS n FROM people",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) COUNT(*) AS m FROM people",
            "SELECT LAPLACE(eps=1) SUM(age) AS n FROM people",
            "SELECT LAPLACE(eps=1) AVG(age) AS n FROM people",
            "SELECT LAPLACE(eps=1) SUM(CLAMP(age, 0, 50)) AS n FROM people",
            "SELECT LAPLACE(eps=1) COUNT(*) FILTER (WHERE age > 30) AS n FROM people",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 30",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 31",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age >= 30",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 30 OR city = 'Oslo'",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE city = 'Oslo'",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE city = 'Rome'",
            "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city",
            "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS ('Oslo')",
            "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS ('Rome')",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job IN ('a', 'b')",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job IN ('a\"), Utf8(\"b')",
        ];
        let identities: Vec<_> = different.iter().map(|sql| identity(&lab, sql)).collect();
        for (i, one) in identities.iter().enumerate() {
            assert!(one.is_some(), "{}", different[i]);
            for (j, other) in identities.iter().enumerate().skip(i + 1) {
                assert_ne!(one, other, "{} / {}", different[i], different[j]);
            }
        }
        // A declared domain is part of what is drawn.
        let sum = "SELECT LAPLACE(eps=1) SUM(age) AS n FROM people";
        let before = identity(&lab, sum);
        let declare = "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 98)";
        engine.owner().execute(declare).await.unwrap();
        assert_ne!(identity(&lab, sum), before);
    }

    #[tokio::test]
    async fn what_is_not_simple_has_no_identity() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        for sql in [
            "SELECT 1 AS x",
            "SELECT ARGMAX EXPONENTIAL(eps=1) city FROM people GROUP BY city",
            "SELECT EXPONENTIAL(eps=1) MEDIAN(age) FROM people",
            "SELECT age, LAPLACE(eps=1, delta=1e-8) COUNT(*) AS n FROM people GROUP BY age + 0",
            "SELECT LAPLACE(eps=1) COUNT(DISTINCT city) AS n FROM people",
            "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people a JOIN people b ON a.id = b.id",
        ] {
            if let Ok(identity) = lab.identity_of(sql) {
                assert_eq!(identity, None, "{sql}");
            }
        }
    }
}
