//! Attacks on two neighbouring databases at once.
//!
//! In: attacks. Out: a report of what went wrong, empty if nothing did. Of each statement
//! everything that an analyst sees is compared between the databases: status, text, columns, what
//! is charged, what it is said to cost, its explanation. What is refused has read no private row,
//! and planned to read none. The cells of the person whom one database lacks are looked for in
//! every byte that was said.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use hushql::{Error, Output, Session};

use super::file::{Attack, Expect, Step};
use super::world::{CANARIES, Database};

/// Everything an analyst sees of a statement but the drawn values.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Answer { columns: String, rows: usize },
    Text(String),
    Failed { code: String, text: String },
    Broken(String),
}

/// What a statement came to: what must be equal, all bytes that were said, the only cell of an
/// answer.
struct Outcome {
    seen: Seen,
    said: String,
    cell: Option<String>,
}

async fn outcome(session: &Session, sql: &str) -> Outcome {
    let run = AssertUnwindSafe(session.execute(sql)).catch_unwind().await;
    let Ok(result) = run else {
        return Outcome { seen: Seen::Broken("panicked".into()), said: String::new(), cell: None };
    };
    let (seen, said, mut cell) = match result {
        Ok(Output::Answer(answer)) => {
            // The columns are the answer's: where noise leaves no row, there may be no batch to
            // ask.
            let columns = format!("{:?}", answer.schema().fields());
            let rows = answer.batches().iter().map(|b| b.num_rows()).sum();
            let mut said = format!("{answer}\n{answer:?}");
            let mut cell = None;
            for batch in answer.batches() {
                write!(said, "{batch:?}").unwrap();
                if rows == 1 && batch.num_columns() == 1 && batch.num_rows() == 1 {
                    let text = arrow::util::display::array_value_to_string(batch.column(0), 0);
                    cell = Some(text.unwrap());
                }
            }
            (Seen::Answer { columns, rows }, said, cell)
        }
        Ok(Output::Explanation(e) | Output::ExplanationJson(e)) => {
            (Seen::Text(e.to_string()), format!("{e}{}", e.to_json()), None)
        }
        Ok(Output::Done(text)) => (Seen::Text(text.clone()), text, None),
        Ok(other) => (Seen::Broken(format!("{other:?}")), String::new(), None),
        Err(error @ (Error::Execution | Error::Internal)) => {
            (Seen::Broken(error.to_string()), error.to_string(), None)
        }
        Err(error) => {
            let said = format!("{error}\n{error:?}\n{}\n{:?}", error.message(), error.hint());
            let code = error.code().unwrap_or_else(|| error.kind()).to_owned();
            let text = format!("{} {said}", error.kind());
            (Seen::Failed { code, text }, said, None)
        }
    };
    if let Some(text) = &mut cell {
        text.truncate(200);
    }
    Outcome { seen, said, cell }
}

/// What is told of a query without running it.
fn told(session: &Session, sql: &str) -> String {
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let explained = match session.explain(sql) {
            Ok(explanation) => format!("{explanation}{}", explanation.to_json()),
            Err(error) => format!("{error}{error:?}"),
        };
        format!("{explained}\n{:?}", session.cost(sql))
    }));
    told.unwrap_or_else(|_| "planning panicked".to_owned())
}

/// What the ledger tells: all of it.
fn books(session: &Session) -> String {
    format!("{:?}", session.budgets().unwrap())
}

fn spent(session: &Session) -> i64 {
    session.budgets().unwrap().iter().map(|b| b.spent.nano).sum()
}

/// Both databases, and the sessions of whoever attacked so far.
struct Pair {
    databases: [Database; 2],
    sessions: BTreeMap<String, [Session; 2]>,
    /// All statements: what an attacker wrote is no leak.
    asked: String,
}

impl Pair {
    async fn new(catalog: &str) -> Self {
        let databases = [Database::new(catalog, true).await, Database::new(catalog, false).await];
        Self { databases, sessions: BTreeMap::new(), asked: String::new() }
    }

    fn sessions(&mut self, who: &str) -> [Session; 2] {
        let databases = &self.databases;
        let made = self.sessions.entry(who.to_owned()).or_insert_with(|| {
            databases.each_ref().map(|database| match who {
                "owner" => database.engine.owner().into(),
                _ => database.engine.analyst(who).unwrap().into(),
            })
        });
        made.clone()
    }

    /// Runs a statement, and reports what is wrong.
    async fn step(&mut self, step: &Step, wrong: &mut String, label: &str) {
        let sql = &step.sql;
        let mut shown: String = sql.chars().take(300).collect();
        if shown.len() < sql.len() {
            shown += " …";
        }
        let mut fail = |what: &str| {
            writeln!(wrong, "{label} (line {}): {what}\n    {shown}", step.line).unwrap();
        };
        let sessions = self.sessions(&step.who);
        self.asked += sql;
        let mut everything = String::new();
        if step.who != "owner" {
            let reads = self.databases.each_ref().map(Database::reads);
            let texts = sessions.each_ref().map(|session| told(session, sql));
            if texts[0] != texts[1] {
                fail(&format!("explained differently:\n{}\n{}", texts[0], texts[1]));
            }
            if texts[0].contains("panicked") {
                fail("planning panicked");
            }
            if self.databases.each_ref().map(Database::reads) != reads {
                fail("an explanation read private rows");
            }
            everything.extend(texts);
        }
        let mut outcomes = Vec::new();
        let mut books_after = Vec::new();
        for (session, database) in sessions.iter().zip(&self.databases) {
            let (reads, before, money) = (database.reads(), books(session), spent(session));
            let outcome = outcome(session, sql).await;
            let after = books(session);
            if matches!(outcome.seen, Seen::Failed { .. }) && step.who != "owner" {
                if database.reads() != reads {
                    fail("refused, and read private rows");
                }
                if after != before {
                    fail("refused, and charged");
                }
            }
            let charged = spent(session) - money;
            if step.eps.is_some_and(|eps| eps != charged) {
                fail(&format!("charged {charged} nano-ε"));
            }
            if step.expect == Expect::Free && after != before {
                fail("charged");
            }
            everything += &outcome.said;
            outcomes.push(outcome);
            books_after.push(after);
        }
        if books_after[0] != books_after[1] {
            fail("charged differently");
        }
        let [whole, less] = outcomes.as_slice() else { return };
        self.compare(step, whole, less, &mut fail);
        let canary = CANARIES.iter().find(|c| everything.contains(*c) && !sql.contains(*c));
        if let Some(canary) = canary.filter(|_| step.who != "owner") {
            fail(&format!("told `{canary}`"));
        }
    }

    fn compare(&self, step: &Step, whole: &Outcome, less: &Outcome, fail: &mut impl FnMut(&str)) {
        // Where groups are not declared, their number is random.
        let rows_are_public = !step.sql.contains("delta") && !step.sql.contains("HAVING");
        let equal = match (&whole.seen, &less.seen) {
            (Seen::Answer { columns: a, rows: x }, Seen::Answer { columns: b, rows: y }) => {
                a == b && (x == y || !rows_are_public)
            }
            (a, b) => a == b,
        };
        if !equal {
            fail(&format!("seen differently:\n{:?}\n{:?}", whole.seen, less.seen));
        }
        for Outcome { seen, cell, .. } in [whole, less] {
            match seen {
                Seen::Broken(how)
                    if step.expect == Expect::Fails && *how == Error::Execution.to_string() => {}
                Seen::Broken(how) => fail(&format!("broken: {how}")),
                _ if step.expect == Expect::Fails => fail("did not fail"),
                _ => {}
            }
            if let (Some(expected), Seen::Answer { rows, .. }) = (step.rows, seen)
                && expected != *rows
            {
                fail(&format!("{rows} rows"));
            }
            if step.value.is_some() && step.value != *cell {
                fail(&format!("the value is {cell:?}"));
            }
        }
        match (&step.expect, &whole.seen) {
            (Expect::Refuse(kind), Seen::Failed { code, .. }) if code == kind || kind == "any" => {}
            (Expect::Refuse(_), Seen::Failed { code, text }) => {
                fail(&format!("refused as {code}: {text}"));
            }
            (Expect::Refuse(_), seen) => fail(&format!("answered: {seen:?}")),
            (Expect::Answer | Expect::Free | Expect::Done, Seen::Failed { text, .. }) => {
                fail(&format!("refused: {text}"));
            }
            (Expect::Free, _) if whole.said != less.said => {
                fail(&format!("said differently:\n{}\n{}", whole.said, less.said));
            }
            _ => {}
        }
    }

    /// What stays behind when the attacks are over.
    async fn look_back(&mut self, wrong: &mut String) {
        let sessions = self.sessions("lab");
        let mut texts = Vec::new();
        for session in &sessions {
            let mut text = String::new();
            // All but when: the clock goes on between the two.
            let ledger = "SELECT sequence, charge, analyst, spaces, budgets, mechanism, parameters, sensitivity, epsilon, delta, rho, rho_delta, statement FROM hushql.ledger";
            for sql in [ledger, "SHOW PRIVACY", "SHOW TABLES"] {
                text += &outcome(session, sql).await.said;
            }
            texts.push(text);
        }
        if texts[0] != texts[1] {
            writeln!(wrong, "the books differ:\n{}\n{}", texts[0], texts[1]).unwrap();
        }
        let mut canaries = CANARIES.iter().filter(|canary| !self.asked.contains(**canary));
        if let Some(canary) = canaries.find(|canary| texts[0].contains(**canary)) {
            writeln!(wrong, "the books tell `{canary}`").unwrap();
        }
    }
}

/// Runs attacks; the report is empty if all of them failed.
pub async fn run(attacks: &[Attack]) -> String {
    let mut wrong = String::new();
    let mut shared: BTreeMap<String, Pair> = BTreeMap::new();
    for attack in attacks {
        let mut alone;
        let pair = if attack.alone {
            alone = Pair::new(&attack.catalog).await;
            &mut alone
        } else {
            if !shared.contains_key(&attack.catalog) {
                shared.insert(attack.catalog.clone(), Pair::new(&attack.catalog).await);
            }
            shared.get_mut(&attack.catalog).unwrap()
        };
        for step in &attack.steps {
            pair.step(step, &mut wrong, &attack.title).await;
        }
        if attack.alone {
            pair.look_back(&mut wrong).await;
        }
    }
    for pair in shared.values_mut() {
        pair.look_back(&mut wrong).await;
    }
    wrong
}
