//! Between stages 4 and 5: what a query requests from the ledger, and how the ledger would respond.
//!
//! In: a [`Planned`] query. Out: a [`Due`] one: an entry for each release, the cost, and the
//! budgets that the query affects. Releases that were paid for before are left out, and shown
//! again. A quote charges nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::choose::Planned;
use super::row_contents::RowsOf;
use crate::catalog::Replay;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::decoded_draw;
use crate::explain::threshold_ledger_texts;
use crate::ledger::{BudgetQuote, ChargeEntry, ChargeRequest, REFINED, plan_hash};
use crate::privacy::{Cost, Loss, Notion};
use crate::release::CostedDraw;
use crate::release::draw_set::DrawSet;
use crate::release::identity::units;
use crate::release::record::ledger_texts;
use crate::release::replay::PaidBy;

/// A query with its request to the ledger; only [`Session::asked`] makes one.
#[derive(Debug)]
pub(crate) struct Due {
    planned: Planned,
    /// `None` for a free query.
    request: Option<ChargeRequest>,
    cost: Cost,
    to_keep: Vec<ToKeep>,
}

/// Draws that are kept after they are paid for.
#[derive(Debug)]
pub(crate) struct ToKeep {
    pub(super) key: [u8; 32],
    /// The key of its question, if a later draw may build on it.
    pub(super) question: Option<[u8; 32]>,
    pub(super) unit: DrawSet,
    pub(super) rows: RowsOf,
}

/// What happens to releases that were paid for before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaidBefore {
    /// They are shown again.
    Shown,
    /// They are drawn and paid for again; the vault keeps the first draw.
    DrawnAnew,
}

impl Due {
    /// The planned query: what it releases, and by which mechanisms.
    pub(crate) fn planned(&self) -> &Planned {
        &self.planned
    }

    /// The cost, in the notions of the affected budgets; zero for a free query.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// The request to the ledger; `None` for a free query.
    pub(crate) fn request(&self) -> Option<&ChargeRequest> {
        self.request.as_ref()
    }

    pub(super) fn into_parts(self) -> (Planned, Option<ChargeRequest>, Vec<ToKeep>) {
        (self.planned, self.request, self.to_keep)
    }
}

impl Session {
    /// What a planned query requests from the ledger.
    ///
    /// # Errors
    /// A refusal of a release whose loss is too small to count.
    pub(crate) fn asked(&self, planned: Planned, to_keep: Vec<ToKeep>) -> Result<Due, Error> {
        let release = planned.release();
        let mut entries = Vec::new();
        let mut cost = Cost::zero();
        for (part, drawn, loss) in release.charges_by_part() {
            let (mechanism, parameters, sensitivity) = match drawn {
                CostedDraw::Measure(measure, mechanized) => ledger_texts(measure, mechanized),
                CostedDraw::Refined(measure, mechanized) => {
                    let (_, parameters, sensitivity) = ledger_texts(measure, mechanized);
                    (REFINED.to_owned(), parameters, sensitivity)
                }
                CostedDraw::Threshold(hidden, loss) => threshold_ledger_texts(hidden, loss),
            };
            cost = cost.plus(Cost::round_up(&loss)?)?;
            let shared = drawn.is_shared() && loss == Loss::zero();
            let cells = planned.touched(part);
            entries.push(ChargeEntry { mechanism, parameters, sensitivity, loss, shared, cells });
        }
        if entries.is_empty() {
            return Ok(Due { planned, request: None, cost: Cost::default(), to_keep });
        }
        let shows_again = !release.replayed_charges().is_empty();
        self.inner.resources.check_cost(cost, shows_again)?;
        let unit_domains = release.unit_domains();
        let counts: Vec<Notion> = unit_domains
            .iter()
            .flat_map(|unit_domain| planned.catalog().budgets_of(unit_domain))
            .map(|budget| budget.limit.notion)
            .collect();
        let request = ChargeRequest {
            analyst: self.analyst.clone(),
            plan_hash: plan_hash(&release.plan_text()),
            // The caller fills this in when it charges.
            statement: String::new(),
            entries,
            shows_again,
            unit_domains,
            tables: drawn_tables(&planned),
            catalog: Arc::clone(planned.catalog()),
            caps: self.caps,
            built_on: planned.built_on().to_vec(),
        };
        let releases = i64::try_from(request.entries.len()).map_err(|_| Error::Internal)?;
        let cost = cost.in_coupons(releases, &counts).counted_in(&counts);
        Ok(Due { planned, request: Some(request), cost, to_keep })
    }

    /// The draws of a query, for tests of how they are recognised.
    #[cfg(test)]
    pub(crate) fn units_of(&self, sql: &str) -> Result<Vec<Vec<u8>>, Error> {
        let crate::dialect::Statement::Query(query) = self.parse(sql)? else {
            return Ok(Vec::new());
        };
        let planned = self.plan(query, &self.state(&self.clock()))?;
        Ok(units(planned.release()).into_iter().map(|unit| unit.body).collect())
    }

    /// Shows earlier draws again where the vault has them. Returns the new draws that can be kept.
    ///
    /// If measures would share a vector, they are looked for a second time, each for itself: a
    /// measure that was drawn alone is shown again, and the others share a vector without it.
    ///
    /// # Errors
    /// The vault's own.
    pub(crate) fn known(
        &self,
        planned: &mut Planned,
        known: PaidBefore,
    ) -> Result<Vec<ToKeep>, Error> {
        if planned.release().analysis().parts().is_empty() || planned.proposal().is_some() {
            return Ok(Vec::new());
        }
        let parts = planned.release().analysis().parts().iter();
        let mut unit_domains = parts.map(|part| part.subject().unit_domain());
        if unit_domains.all(|unit_domain| planned.replay_of(unit_domain) == Replay::Off) {
            return Ok(Vec::new());
        }
        let to_keep = self.show_known(planned, known)?;
        if known == PaidBefore::DrawnAnew
            || to_keep.is_empty()
            || !planned.release_mut().draw_apart()
        {
            return Ok(to_keep);
        }
        self.show_known(planned, known)?;
        planned.release_mut().draw_together_again();
        self.show_known(planned, known)
    }

    /// Looks up the query's draws. Shows those that the vault keeps, if `becomes` says so. Returns
    /// the new draws that can be kept.
    fn show_known(&self, planned: &mut Planned, becomes: PaidBefore) -> Result<Vec<ToKeep>, Error> {
        let (mut known, mut asked) = (Vec::new(), Vec::new());
        for unit in units(planned.release()) {
            let is_off = |unit_domain: &String| planned.replay_of(unit_domain) == Replay::Off;
            if planned.release().shows(&unit) || unit.unit_domains.iter().any(is_off) {
                continue;
            }
            let Some(rows) = RowsOf::unit(&self.inner, planned, &unit) else { continue };
            asked.push(rows.asked(&unit));
            known.push((unit, rows));
        }
        let mut to_keep = Vec::new();
        if asked.is_empty() {
            return Ok(to_keep);
        }
        let kept = self.inner.vault.kept(&asked, &self.analyst, planned.catalog())?;
        for ((unit, rows), kept) in known.into_iter().zip(kept) {
            let Some(kept) = kept else { continue };
            let mut is_shown = becomes == PaidBefore::DrawnAnew && kept.draw.is_some();
            if becomes == PaidBefore::Shown
                && let Some(draw) = kept.draw
                && let Ok(drawn) = decoded_draw(&draw.drawn)
            {
                let charge = draw.charge;
                let paid = PaidBy { charge, number: self.shown_number(charge)? };
                is_shown = planned.release_mut().show(&unit, paid, drawn).is_some();
            }
            if !is_shown {
                to_keep.push(ToKeep { key: kept.key, question: None, unit, rows });
            }
        }
        Ok(to_keep)
    }

    /// What each affected budget would have left after the charge.
    ///
    /// # Errors
    /// [`Error::Budget`] if a budget does not allow the charge, and the vault's own.
    pub(crate) fn quote(&self, due: &Due) -> Result<Vec<BudgetQuote>, Error> {
        self.own_quote(due).map_err(|error| due.planned.told(error))
    }

    /// The same, with an error that may name what does not exist for whoever asks.
    pub(super) fn own_quote(&self, due: &Due) -> Result<Vec<BudgetQuote>, Error> {
        match due.request() {
            Some(request) => Ok(self.inner.vault.quote(request)?),
            None => Ok(Vec::new()),
        }
    }
}

/// The private tables whose rows a query will draw from.
fn drawn_tables(planned: &Planned) -> BTreeSet<String> {
    let parts = planned.release().analysis().parts();
    let drawn = planned.release().charges_by_part().filter_map(|(part, ..)| parts.get(part));
    drawn.flat_map(|part| part.subject().tables()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::PaidBefore;
    use crate::{Engine, Session};

    /// `people(id, age, city, job)`, their `visits(person, cost, place)`, the public
    /// `places(name, size)`, and the view `grown`.
    async fn engine() -> (tempfile::TempDir, Engine) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("people.csv"), "id,age,city,job\n1,30,Oslo,a\n2,40,Rome,b\n").unwrap();
        std::fs::write(at("visits.csv"), "person,cost,place\n1,3,x\n1,5,y\n2,9,x\n").unwrap();
        std::fs::write(at("places.csv"), "name,size\nx,1\ny,2\n").unwrap();
        let engine = Engine::in_memory().unwrap();
        for sql in [
            &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", at("people.csv")),
            &format!("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}'", at("visits.csv")),
            &format!("CREATE EXTERNAL TABLE places STORED AS CSV LOCATION '{}'", at("places.csv")),
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people (id) MAX ROWS 4",
            "ALTER TABLE places SET PUBLIC",
            "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
            "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
            "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 9)",
            "ALTER TABLE visits ALTER COLUMN place SET PRIVACY DOMAIN IN ('x', 'y')",
            "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=9, delta=1e-6)",
            "CREATE VIEW grown AS SELECT city AS town, age AS years FROM people WHERE age >= 18",
        ] {
            engine.owner().execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        (folder, engine)
    }

    /// The contents of a private file are not part of a key, because they would reveal whether
    /// somebody joined. The contents of a public file are.
    #[tokio::test]
    async fn keys_follow_from_declarations_and_public_rows() {
        let join = "SELECT LAPLACE(eps=1) SUM(size) AS n FROM (SELECT CLAMP(size, 0, 3) AS size FROM visits JOIN places ON place = name) q";
        let mut all = Vec::new();
        for change in ["none", "people", "places"] {
            let (folder, engine) = engine().await;
            let more = |name: &str, row: &str| {
                let path = folder.path().join(name);
                let rows = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, format!("{rows}{row}\n")).unwrap();
            };
            match change {
                "people" => more("people.csv", "3,50,Rome,c"),
                "places" => more("places.csv", "z,3"),
                _ => {}
            }
            for sql in [
                "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
                "ALTER PRIVACY BUDGET b SET REPLAY (ALL)",
            ] {
                engine.owner().execute(sql).await.unwrap();
            }
            let lab = engine.analyst("lab").unwrap();
            let keys = |sql: &str| {
                let crate::dialect::Statement::Query(query) = lab.parse(sql).unwrap() else {
                    panic!("{sql}");
                };
                let due = lab.due(&query, &lab.state(&lab.clock())).unwrap();
                due.to_keep.iter().map(|one| one.key).collect::<Vec<_>>()
            };
            all.push(["SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people", join].map(keys));
        }
        let [none, people, places] = all.as_slice() else { panic!("three vaults") };
        assert!(none.iter().all(|keys| keys.len() == 1));
        assert_eq!(none, people);
        assert_eq!(none[0], places[0]);
        assert_ne!(none[1], places[1]);
    }

    fn units(session: &Session, sql: &str) -> Vec<Vec<u8>> {
        session.units_of(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    #[tokio::test]
    async fn equal_draws_are_recognised_in_other_words() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        for same in [
            &[
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age >= 18 AND city = 'Oslo'",
                "SELECT LAPLACE(eps=1.0) COUNT(*) AS m FROM people WHERE city = 'Oslo' AND age >= 18",
                "SELECT LAPLACE(eps=1) COUNT(*) + 1 AS more FROM people p WHERE p.age >= 18 AND 'Oslo' = p.city",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE 18 <= age AND city = 'Oslo' AND 18 <= age",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM grown WHERE town = 'Oslo'",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT * FROM people WHERE age >= 18) q WHERE city = 'Oslo'",
            ][..],
            &[
                "SELECT city, LAPLACE(eps=1) AVG(age) AS n FROM people GROUP BY city",
                "SELECT x.city AS c, LAPLACE(eps=1) AVG(x.age) FROM people x GROUP BY x.city ORDER BY 1 LIMIT 1",
                "SELECT city, LAPLACE(eps=1) AVG(age) AS n FROM people GROUP BY city KEYS ('Rome', 'Oslo')",
            ],
            &[
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age IN (1, 2, 3)",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age IN (3, 1, 2)",
            ],
            &[
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age = 5 OR city = 'Oslo' OR job LIKE 'a%'",
                "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job LIKE 'a%' OR (city = 'Oslo' OR 5 = age)",
            ],
            &[
                "SELECT place, LAPLACE(eps=1) SUM(cost) AS n FROM people JOIN visits ON id = person WHERE age > 3 GROUP BY place",
                "SELECT v.place, LAPLACE(eps=1) SUM(v.cost) AS s FROM people p, visits v WHERE p.age > 3 AND v.person = p.id GROUP BY v.place",
            ],
            // Measures that share a chosen bound are shown together.
            &[
                "SELECT LAPLACE(eps=1, rows=auto) COUNT(cost) AS n, LAPLACE(eps=1, rows=auto) SUM(cost) AS s FROM visits",
                "SELECT LAPLACE(eps=1, rows=auto) SUM(v.cost) AS a, LAPLACE(eps=1, rows=auto) COUNT(v.cost) AS b FROM visits v",
            ],
        ] {
            let first = units(&lab, same[0]);
            assert_eq!(first.len(), 1, "{}", same[0]);
            for sql in same {
                assert_eq!(units(&lab, sql), first, "{sql}");
            }
        }
    }

    /// Each of these is recognised when it is asked again, and all of them are different.
    const DIFFERENT: &[&str] = &[
        "SELECT city, job, LAPLACE(eps=1, delta=1e-8) COUNT(*) AS n FROM people GROUP BY city KEYS ('Oslo'), job",
        "SELECT city, job, LAPLACE(eps=1, delta=1e-8) COUNT(*) AS n FROM people GROUP BY city KEYS ('Rome'), job",
        "SELECT city, job, LAPLACE(eps=1, delta=1e-8) COUNT(*) AS n FROM people GROUP BY city, job",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people",
        "SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people",
        "SELECT LAPLACE(eps=1, rows=1) COUNT(age) AS n FROM people",
        "SELECT GAUSSIAN(eps=1, delta=1e-7) COUNT(*) AS n FROM people",
        "SELECT GAUSSIAN(eps=1, delta=1e-8) COUNT(*) AS n FROM people",
        "SELECT LAPLACE(eps=1) SUM(age) AS n FROM people",
        "SELECT LAPLACE(eps=1) AVG(age) AS n FROM people",
        "SELECT LAPLACE(eps=1) STDDEV(age) AS n FROM people",
        "SELECT LAPLACE(eps=1) SUM(CLAMP(age, 0, 50)) AS n FROM people",
        "SELECT LAPLACE(eps=1) COUNT(*) FILTER (WHERE age > 30) AS n FROM people",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 30",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 31",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age < 30",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age >= 30",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 30 OR city = 'Oslo'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 30 AND city = 'Oslo'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE city = 'Oslo'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE city = 'Rome'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job LIKE 'a%'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job NOT LIKE 'a%'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job ILIKE 'a%'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE (age > 30) IS FALSE",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE (age > 30) IS NOT FALSE",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE (age > 30) IS UNKNOWN",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE CASE WHEN age > 3 THEN city END = 'Oslo'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job IN ('a', 'b')",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE job IN ('a\"), Utf8(\"b')",
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city",
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS ('Oslo')",
        "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS ('Rome')",
        // Selections.
        "SELECT ARGMAX EXPONENTIAL(eps=1) city FROM people GROUP BY city",
        "SELECT ARGMAX EXPONENTIAL(eps=0.5) city FROM people GROUP BY city",
        "SELECT ARGMIN EXPONENTIAL(eps=1) city FROM people GROUP BY city",
        "SELECT ARGMAX PERMUTE_AND_FLIP(eps=1) city FROM people GROUP BY city",
        "SELECT TOP 2 EXPONENTIAL(eps=1) city FROM people GROUP BY city",
        "SELECT ARGMAX EXPONENTIAL(eps=1) city BY SUM(age) FROM people GROUP BY city",
        "SELECT ARGMAX EXPONENTIAL(eps=1) job IN ('a', 'b') FROM people GROUP BY job",
        "SELECT ARGMAX EXPONENTIAL(eps=1) job IN ('a', 'c') FROM people GROUP BY job",
        "SELECT ARGMAX EXPONENTIAL(eps=1, delta=1e-8) job FROM people GROUP BY job",
        "SELECT EXPONENTIAL(eps=1) MEDIAN(age) AS m FROM people",
        "SELECT EXPONENTIAL(eps=1) QUANTILE(age, 0.25) AS m FROM people",
        "SELECT EXPONENTIAL(eps=1) QUANTILES(age, (0.25)) AS m FROM people",
        "SELECT EXPONENTIAL(eps=1) QUANTILES(age, (0.25, 0.5)) AS m FROM people",
        "SELECT EXPONENTIAL(eps=1) QUANTILES(age, (0.25, 0.75)) AS m FROM people",
        "SELECT LAPLACE(eps=1) CDF(age, 4) AS m FROM people",
        "SELECT LAPLACE(eps=1) CDF(age, 5) AS m FROM people",
        "SELECT LAPLACE(eps=1) CDF(CLAMP(age, 0, 50), 5) AS m FROM people",
        "SELECT LAPLACE(eps=1) CDF(age, 5) FILTER (WHERE id > 3) AS m FROM people",
        "SELECT city, LAPLACE(eps=1) CDF(age, 5) AS m FROM people GROUP BY city",
        "SELECT EXPONENTIAL(eps=1) MIN(age) AS m FROM people",
        "SELECT EXPONENTIAL(eps=1) MAX(age) AS m FROM people",
        "SELECT city, EXPONENTIAL(eps=1) MEDIAN(age) AS m FROM people GROUP BY city",
        "SELECT city, ARGMAX EXPONENTIAL(eps=1) age FROM people GROUP BY city, age",
        "SELECT id, RANDOMIZED_RESPONSE(eps=1) city FROM people GROUP BY id KEYS (1, 2)",
        "SELECT id, RANDOMIZED_RESPONSE(eps=1) city FROM people GROUP BY id KEYS (1, 2, 3)",
        // Thresholds.
        "SELECT job, LAPLACE(eps=1, delta=1e-8) COUNT(*) AS n FROM people GROUP BY job",
        "SELECT job, LAPLACE(eps=1, delta=1e-7) COUNT(*) AS n FROM people GROUP BY job",
        "SELECT job, LAPLACE(eps=1, delta=1e-8) SUM(age) AS n FROM people GROUP BY job",
        "SELECT job, LAPLACE(eps=1, delta=1e-8) COUNT(*) AS n, LAPLACE(eps=1) SUM(age) AS s FROM people GROUP BY job",
        "SELECT job, LAPLACE(eps=1, delta=1e-8) COUNT(DISTINCT id) AS n FROM people GROUP BY job",
        "SELECT job, city, LAPLACE(eps=1, delta=1e-8) COUNT(DISTINCT id) AS n FROM people GROUP BY job, city",
        "SELECT job, city, LAPLACE(eps=1, delta=1e-8) COUNT(DISTINCT id) AS n FROM people GROUP BY job, city KEYS ('Oslo')",
        "SELECT job, age, LAPLACE(eps=1, delta=1e-8) COUNT(DISTINCT id) AS n FROM people GROUP BY job, age KEYS (30)",
        "SELECT job, age, LAPLACE(eps=1, delta=1e-8) COUNT(DISTINCT id) AS n FROM people GROUP BY job, age KEYS (31)",
        // Distinct values, chosen bounds.
        "SELECT LAPLACE(eps=1) COUNT(DISTINCT place) AS n FROM visits",
        "SELECT LAPLACE(eps=1) COUNT(DISTINCT person) AS n FROM visits",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits",
        "SELECT LAPLACE(eps=1, rows=auto) COUNT(*) AS n FROM visits",
        "SELECT LAPLACE(eps=1, rows=auto) SUM(cost) AS n FROM visits",
        "SELECT LAPLACE(eps=1, rows=auto) COUNT(cost) AS n, LAPLACE(eps=1, rows=auto) SUM(cost) AS s FROM visits",
        "SELECT LAPLACE(eps=2, rows=auto) COUNT(cost) AS n, LAPLACE(eps=1, rows=auto) SUM(cost) AS s FROM visits",
        "SELECT LAPLACE(eps=1, rows=2) COUNT(*) AS n FROM visits",
        "SELECT LAPLACE(eps=1) SUM(cost) AS n FROM visits",
        // Joins: along the link, with public rows, of a table with itself, and outer joins.
        "SELECT LAPLACE(eps=1) SUM(cost) AS n FROM people JOIN visits ON id = person",
        "SELECT LAPLACE(eps=1) SUM(cost) AS n FROM people JOIN visits ON id = person WHERE city = 'Oslo'",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people a JOIN people b ON a.id = b.id WHERE a.age > 3",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people LEFT JOIN visits ON id = person",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people LEFT JOIN visits ON id = person AND cost > 3",
        "SELECT LAPLACE(eps=1) SUM(size) AS n FROM (SELECT CLAMP(size, 0, 3) AS size FROM visits JOIN places ON place = name) q",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE person = id)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE NOT EXISTS (SELECT 1 FROM visits WHERE person = id)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE place IN (SELECT name FROM places WHERE size > 1)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE place IN (SELECT name FROM places WHERE size > 0)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people LEFT JOIN (SELECT person, COALESCE(cost, 0) AS c FROM visits) v ON id = person WHERE (c = 0) IS TRUE",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people LEFT JOIN visits ON id = person WHERE (COALESCE(cost, 0) = 0) IS TRUE",
        // Rows that are computed below the release.
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) a JOIN (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) b ON a.person = b.person WHERE a.n > 1",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) a JOIN (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) b ON a.person = b.person WHERE b.n > 1",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT id AS p FROM people UNION ALL SELECT person FROM visits) q",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT person, SUM(cost) AS s FROM visits GROUP BY person) q WHERE s > 5",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT person, COUNT(*) AS s FROM visits GROUP BY person) q WHERE s > 2",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM (SELECT DISTINCT person, place FROM visits) q",
        // Released values.
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > (SELECT LAPLACE(eps=1) AVG(age) FROM people)",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > (SELECT LAPLACE(eps=1) AVG(age) + 1 FROM people)",
    ];

    #[tokio::test]
    async fn other_draws_are_others() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let identities: Vec<_> = DIFFERENT.iter().map(|sql| units(&lab, sql)).collect();
        for (i, one) in identities.iter().enumerate() {
            assert!(!one.is_empty(), "{}", DIFFERENT[i]);
            assert_eq!(*one, units(&lab, DIFFERENT[i]), "{}", DIFFERENT[i]);
            for (j, other) in identities.iter().enumerate().skip(i + 1) {
                // Several releases of a GROUP BY may share some draws with another query.
                assert_ne!(one, other, "{} / {}", DIFFERENT[i], DIFFERENT[j]);
            }
        }
        // A declared domain is part of what is drawn.
        let sum = "SELECT LAPLACE(eps=1) SUM(age) AS n FROM people";
        let before = units(&lab, sum);
        let declare = "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 98)";
        engine.owner().execute(declare).await.unwrap();
        assert_ne!(units(&lab, sum), before);
    }

    /// Each release is recognised for itself. A second occurrence is another draw, and releases
    /// that one draw decides together form one set.
    #[tokio::test]
    async fn releases_are_units() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let count =
            "SELECT city, GAUSSIAN(eps=1, delta=1e-8) COUNT(*) AS n FROM people GROUP BY city";
        let median = "SELECT city, EXPONENTIAL(eps=1) MEDIAN(age) AS m FROM people GROUP BY city";
        let [one, other] = [count, median].map(|sql| units(&lab, sql).remove(0));
        let both = "SELECT city, EXPONENTIAL(eps=1) MEDIAN(age), GAUSSIAN(eps=1, delta=1e-8) COUNT(*) FROM people GROUP BY city";
        assert_eq!(units(&lab, both), [other.clone(), one.clone()]);
        let twice = count.replace(" AS n", " AS n, GAUSSIAN(eps=1, delta=1e-8) COUNT(*) AS m");
        let twice = units(&lab, &twice);
        assert!(twice.len() == 2 && twice[0] == one && twice[1] != one);
        let fresh =
            count.replace(" AS n", " AS n, FRESH GAUSSIAN(eps=1, delta=1e-8) COUNT(*) AS m");
        assert_eq!(units(&lab, &fresh), [one]);
        // One draw decides which groups come out.
        let hidden = "SELECT job, LAPLACE(eps=1, delta=1e-8) COUNT(*), LAPLACE(eps=1) SUM(age) FROM people GROUP BY job";
        assert_eq!(units(&lab, hidden).len(), 1);
        assert_eq!(
            units(&lab, &hidden.replace("LAPLACE(eps=1) S", "FRESH LAPLACE(eps=1) S")),
            Vec::<Vec<u8>>::new()
        );
        // Releases that read one vector, and a release that reads a released value.
        let fused = "SELECT LAPLACE(eps=1) SUM(age), LAPLACE(eps=1) AVG(age) FROM people";
        assert_eq!(units(&lab, fused).len(), 1);
        let swapped = "SELECT LAPLACE(eps=1) AVG(age), LAPLACE(eps=1) SUM(age) FROM people";
        assert_eq!(units(&lab, swapped), units(&lab, fused));
        let inner = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > (SELECT LAPLACE(eps=1) AVG(age) FROM people)";
        assert_eq!(units(&lab, inner).len(), 1);
        assert!(units(&lab, &inner.replace("(SELECT LAPLACE", "(SELECT FRESH LAPLACE")).is_empty());
    }

    /// A query that was planned before a REFRESH is neither looked up nor charged after it.
    /// Otherwise it would draw the old rows, and be kept as a draw of the new ones.
    #[tokio::test]
    async fn a_refresh_ends_what_was_planned() {
        let (_folder, engine) = engine().await;
        engine.owner().execute("ALTER PRIVACY BUDGET b SET REPLAY (ALL)").await.unwrap();
        let lab = engine.analyst("lab").unwrap();
        let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";
        let crate::dialect::Statement::Query(query) = lab.parse(count).unwrap() else {
            panic!("{count}");
        };
        let state = lab.state(&lab.clock());
        let due = lab.due(&query, &state).unwrap();
        assert!(lab.quote(&due).is_ok());
        let mut planned = lab.plan(query, &state).unwrap();
        engine.owner().execute("ALTER TABLE people REFRESH").await.unwrap();
        assert!(lab.quote(&due).is_err_and(|error| error.is_redeclared()));
        assert!(
            lab.known(&mut planned, PaidBefore::Shown).is_err_and(|error| error.is_redeclared())
        );
    }

    /// A query that depends on the clock is another question each time.
    #[tokio::test]
    async fn the_clock_is_not_recognised() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        assert!(units(&lab, "SELECT 1 AS x").is_empty());
        let now = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > EXTRACT(year FROM now()) - 2000";
        assert_ne!(units(&lab, now), units(&lab, now));
    }

    /// A value that is used in many places is written in each. So a key grows with the statement,
    /// and not with the product of its levels.
    #[tokio::test]
    async fn keys_of_nested_statements_are_short() {
        let (_folder, engine) = engine().await;
        let lab = engine.analyst("lab").unwrap();
        let mut rows = "SELECT person, cost AS x FROM visits".to_owned();
        for _ in 0..3 {
            let sum = vec!["x"; 20].join(" + ");
            rows = format!(
                "SELECT person, MAX(x) AS x FROM (SELECT person, CLAMP({sum}, 0, 9) AS x FROM ({rows}) a) b GROUP BY person"
            );
        }
        let sql = format!("SELECT LAPLACE(eps=1) SUM(CLAMP(x, 0, 9)) AS n FROM ({rows}) q");
        let all = units(&lab, &sql);
        assert_eq!(all.len(), 1);
        assert!(all[0].len() < 10_000, "{}", all[0].len());
    }
}
