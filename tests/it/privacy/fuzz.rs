//! Statements that nobody would write: nothing panics, nothing hangs, nothing is told that was not
//! released.
//!
//! Half of the statements come from a grammar over the dialect, half are written ones with pieces
//! out of place. Each runs on two engines whose private tables have nothing in common: one holds
//! marked cells, the other no rows. For every one
//! - no panic, not even one that the engine catches, and no answer later than after 10 seconds;
//! - no failure after the charge but one that is certain, whatever the data, and what is listed
//!   here; those are counted and printed, because nobody wants to pay for them; and no failed check
//!   of the engine;
//! - what is refused is refused in the same words on both, and charges nothing;
//! - what is answered has the same columns on both, and either both are charged the same, or none
//!   is and both answers are the same to the letter: an answer without a receipt owes nothing to
//!   private rows;
//! - what is paid for has a mechanism at the root of each private part, by a check of the finished
//!   plans that is not the engine's own (see [`verifier`]);
//! - no marked cell stands in any byte of an answer, its buffers, its notes, an error or an
//!   explanation.
//!
//! The gate's statements are chosen by the seed; the noise is fresh. A marked key comes out by
//! chance with δ = 10⁻¹⁵ at most per statement: 10⁻¹¹ in all at the gate, 5·10⁻⁹ in the long run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Once;
use std::time::Duration;

use arrow::array::Array;
use futures::FutureExt;
use hushql::{Analyst, Engine, Output, Session};

use crate::privacy::sensitivity::Dice;
use crate::privacy::watch::Watch;
use crate::seed::seed;

mod grammar;
mod mutate;
mod verifier;
mod world;

use grammar::statement;
use mutate::{corpus, mutated};
use verifier::Verifier;
use world::{MARK, MARKED_ID, engine, keeps_marked};

/// Statements that fail one of the engine's own checks, and why: each a part of the statement.
const FAILED_CHECKS: [(&str, &str); 0] = [];

/// What computes for longer has not ended for whoever waits. It is the time of the processor, which
/// the load of the machine does not change; an ordinary statement takes a hundredth of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What has not answered by then waits for something that does not come.
const ASLEEP: Duration = Duration::from_secs(3_600);

/// How long this thread has computed, where the system says so.
fn computed() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

thread_local! {
    /// The panics of this thread, while somebody listens.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs something and gives the words of every panic of this thread meanwhile, caught or not; they
/// are not printed.
async fn overheard<T>(running: impl Future<Output = T>) -> (Option<T>, String) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let noted = PANICS.with_borrow_mut(|panics| {
                panics.as_mut().map(|panics| panics.push(panic.to_string())).is_some()
            });
            if !noted {
                before(panic);
            }
        }));
    });
    PANICS.set(Some(Vec::new()));
    let ran = AssertUnwindSafe(running).catch_unwind().await.ok();
    (ran, PANICS.take().unwrap_or_default().join("\n"))
}

/// What an analyst gets.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    /// Paid for: the columns.
    Paid(String),
    /// Free: everything.
    Free(String),
    /// The kind of error, and its words.
    Failed(String),
    /// The panic's words.
    Panicked(String),
}

impl Got {
    fn failed_late(&self) -> bool {
        matches!(self, Self::Failed(words) if words.starts_with("execution"))
    }
}

struct Look {
    got: Got,
    /// Every byte that was said.
    said: String,
    /// The time of the processor.
    took: Duration,
}

async fn look(session: &Session, sql: &str) -> Look {
    let start = computed();
    let (ran, panics) = overheard(session.execute(sql)).await;
    let took = computed().zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
    let (got, said) = match ran {
        Some(Ok(Output::Answer(answer))) => {
            let mut said = format!("{answer}\n{answer:?}");
            for batch in answer.batches() {
                write!(said, "{batch:?}").unwrap();
                if batch.columns().iter().any(|column| keeps_marked(&column.to_data())) {
                    write!(said, "in a buffer: {MARK}").unwrap();
                }
            }
            let columns = format!("{:?}", answer.schema().fields());
            match answer.receipt() {
                Some(receipt) => (Got::Paid(format!("{columns}\n{}", receipt.spent)), said),
                None => (Got::Free(timeless(&format!("{columns}\n{answer}"))), said),
            }
        }
        Some(Ok(Output::Explanation(e) | Output::ExplanationJson(e))) => {
            let said = format!("{e}{}", e.to_json());
            (Got::Free(said.clone()), said)
        }
        Some(Ok(Output::Done(text))) => (Got::Free(text.clone()), text),
        Some(Ok(other)) => panic!("{sql}: {other:?}"),
        Some(Err(error)) => {
            let mut said = format!("{error}\n{error:?}\n{}\n{:?}", error.message(), error.hint());
            let mut source = std::error::Error::source(&error);
            while let Some(inner) = source {
                write!(said, "\n{inner}\n{inner:?}").unwrap();
                source = inner.source();
            }
            let kind = error.code().unwrap_or(error.kind());
            (Got::Failed(format!("{kind} {error}")), said)
        }
        None => (Got::Panicked(panics.clone()), panics.clone()),
    };
    let got = if panics.is_empty() { got } else { Got::Panicked(panics) };
    Look { got, said, took }
}

/// Two engines, and what happened to the statements that they were given.
struct Fuzz {
    engines: [Engine; 2],
    sessions: [Analyst; 2],
    watch: Watch,
    verifier: Verifier,
    wrong: Vec<String>,
    kinds: BTreeMap<String, usize>,
}

impl Fuzz {
    async fn new() -> Self {
        let engines = [engine(true).await, engine(false).await];
        let sessions = engines.each_ref().map(|engine| engine.analyst("lab").unwrap());
        let (watch, verifier) = (Watch::new(ASLEEP), Verifier::new().await);
        Self { engines, sessions, watch, verifier, wrong: Vec::new(), kinds: BTreeMap::new() }
    }

    async fn run(&mut self, sql: &str, explain: bool) {
        self.watch.start(sql);
        let before = self.sessions[0].budgets().unwrap();
        let [whole, other] =
            [look(&self.sessions[0], sql).await, look(&self.sessions[1], sql).await];
        let after = self.sessions.each_ref().map(|session| session.budgets().unwrap());
        let lower = sql.to_lowercase();
        let late = [&whole, &other].iter().any(|look| look.got.failed_late());
        let known = late && before != after[0] && self.always_fails(sql).await;
        if known {
            println!("paid for, and failed: {sql}");
            *self.kinds.entry("paid, and failed".to_owned()).or_default() += 1;
        } else if !self.alike(sql, &whole.got, &other.got).await {
            self.wrong
                .push(format!("seen differently:\n{:?}\n{:?}\n    {sql}", whole.got, other.got));
        }
        let mut wrong = |what: &str| self.wrong.push(format!("{what}\n    {sql}"));
        if after[0] != after[1] {
            wrong("charged differently");
        }
        for look in [&whole, &other] {
            if look.took > PATIENCE {
                wrong(&format!("took {:?}", look.took));
            }
            let said = look.said.to_lowercase();
            if said.contains(MARK) || said.contains(&MARKED_ID.to_string()) {
                wrong(&format!("a marked cell is told: {}", look.said));
            }
            let charged = before != after[0];
            match &look.got {
                Got::Panicked(words) => wrong(&format!("panicked: {words}")),
                // A division by zero of public numbers fails, and costs nothing.
                got if got.failed_late() && (known || !charged) => {}
                got if got.failed_late() => wrong("failed after the charge"),
                Got::Failed(words) if words.starts_with("internal") => {
                    if !FAILED_CHECKS.iter().any(|(part, _)| lower.contains(part)) {
                        wrong("failed a check of the engine");
                    }
                }
                Got::Failed(_) if charged => wrong("refused, and charged"),
                Got::Free(_) if charged => wrong("charged without a receipt"),
                Got::Paid(_) if !charged => wrong("a receipt without a charge"),
                Got::Failed(_) | Got::Free(_) | Got::Paid(_) => {}
            }
        }
        let kind = match &whole.got {
            Got::Paid(_) => "paid",
            Got::Free(_) => "free",
            Got::Failed(words) => words.split_whitespace().next().unwrap_or_default(),
            Got::Panicked(_) => "panicked",
        };
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        if kind == "paid" {
            match self.verifier.look(sql).await {
                Ok(true) => *self.kinds.entry("verified".to_owned()).or_default() += 1,
                Ok(false) => {}
                Err(what) => {
                    self.wrong.push(format!("a plan that protects nobody: {what}\n    {sql}"))
                }
            }
        }
        if explain {
            let after = self.sessions[0].budgets().unwrap();
            let texts = self.sessions.each_ref().map(|session| {
                let explained = std::panic::catch_unwind(AssertUnwindSafe(|| session.explain(sql)));
                match explained {
                    Ok(Ok(e)) => format!("{e}{}", e.to_json()),
                    Ok(Err(e)) => format!("{e}{e:?}"),
                    Err(_) => "panicked".to_owned(),
                }
            });
            let mut wrong = |what: &str| self.wrong.push(format!("{what}\n    EXPLAIN {sql}"));
            if texts[0] != texts[1] && !reads_the_clock(sql) {
                wrong(&format!("explained differently:\n{}\n{}", texts[0], texts[1]));
            }
            let lower = texts[0].to_lowercase();
            if lower.contains(MARK) || lower.contains(&MARKED_ID.to_string()) || lower == "panicked"
            {
                wrong(&texts[0]);
            }
            if self.sessions[0].budgets().unwrap() != after {
                wrong("an explanation was charged");
            }
        }
    }

    /// Whether a statement fails after its charge each time, on either database: then nothing is
    /// told by that it does.
    async fn always_fails(&self, sql: &str) -> bool {
        let mut failed = true;
        for _ in 0..6 {
            // Both are charged as often.
            for session in &self.sessions {
                failed &= look(session, sql).await.got.failed_late();
            }
        }
        failed
    }

    /// Whether both got the same. Free answers may come in any order, and some public ones differ
    /// from time to time.
    async fn alike(&self, sql: &str, whole: &Got, other: &Got) -> bool {
        if whole == other {
            return true;
        }
        if let (Got::Failed(whole), Got::Failed(other)) = (whole, other)
            && reads_the_clock(sql)
        {
            // A refusal shows the moment at which the statement was read.
            let spoken = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
            return spoken(whole) == spoken(other);
        }
        let (Got::Free(whole), Got::Free(other)) = (whole, other) else { return false };
        let lower = sql.to_lowercase();
        let of_its_own = ["random", "uuid", "now(", "now (", "current_", "ledger", "today"];
        if of_its_own.iter().any(|word| lower.contains(word)) {
            return true;
        }
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let (whole, other) = (sorted(whole), sorted(other));
        if whole == other {
            return true;
        }
        // The same database gives now this answer, now that.
        for _ in 0..10 {
            match look(&self.sessions[0], sql).await.got {
                Got::Free(again) if sorted(&again) == whole => {}
                _ => return true,
            }
        }
        false
    }

    /// What was wrong.
    fn end(self, what: &str, at_least_paid: usize) -> Vec<String> {
        println!("{what}: {:?}", self.kinds);
        let paid = self.kinds.get("paid").copied().unwrap_or(0);
        assert!(paid >= at_least_paid, "only {paid} statements were paid for: {:?}", self.kinds);
        let verified = self.kinds.get("verified").copied().unwrap_or(0);
        assert!(verified > paid / 2, "only {verified} plans were looked at: {:?}", self.kinds);
        drop(self.engines);
        self.wrong
    }
}

/// Whether a statement says when it is read, which is another moment in each session.
fn reads_the_clock(sql: &str) -> bool {
    let sql = sql.to_lowercase();
    ["current_time", "localtime", "now (", "now("].iter().any(|word| sql.contains(word))
}

fn nothing_is(wrong: &[String]) {
    let told: Vec<&str> = wrong.iter().take(40).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), told.join("\n\n"));
}

/// Runs a future where everything that it spawns stays on this thread, and panics are noted.
fn on_this_thread<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn of_the_grammar(seed: u64, statements: usize) -> Vec<String> {
    let mut dice = Dice(seed);
    let mut fuzz = Fuzz::new().await;
    for i in 0..statements {
        fuzz.run(&statement(&mut dice), i % 5 == 0).await;
    }
    fuzz.end("of the grammar", statements / 20)
}

async fn out_of_place(seed: u64, statements: usize) -> Vec<String> {
    let mut dice = Dice(seed);
    let mut written = corpus();
    // Two engines store answers with different noise, and reading them is free.
    let drawn = ["RELEASE TABLE", "statuses", "SYNTHETIC", "likenesses"];
    written.retain(|sql| !drawn.iter().any(|word| sql.contains(word)));
    written.extend((0..400).map(|_| statement(&mut dice)));
    let mut fuzz = Fuzz::new().await;
    for i in 0..statements {
        fuzz.run(&mutated(&mut dice, &written), i % 5 == 0).await;
    }
    fuzz.end("out of place", statements / 100)
}

#[test]
fn statements_of_the_grammar() {
    nothing_is(&on_this_thread(of_the_grammar(seed(0xf022), 2_000)));
}

#[test]
fn statements_with_pieces_out_of_place() {
    nothing_is(&on_this_thread(out_of_place(seed(0xf023), 2_000)));
}

/// 5 million statements, or as many as HUSHQL_FUZZ_STATEMENTS says; the seed is HUSHQL_FUZZ_SEED.
#[test]
#[ignore = "long: hours"]
fn millions_of_statements() {
    let number =
        |name: &str, or: u64| std::env::var(name).ok().map_or(or, |text| text.parse().unwrap());
    let rounds = number("HUSHQL_FUZZ_STATEMENTS", 5_000_000).div_ceil(5_000);
    let seed = number("HUSHQL_FUZZ_SEED", 1);
    let mut wrong = Vec::new();
    for round in 0..rounds {
        // Fresh engines for each: no budget runs out, and ledgers stay short.
        let seed = seed + 2 * round;
        for found in [
            on_this_thread(of_the_grammar(seed, 2_500)),
            on_this_thread(out_of_place(seed + 1, 2_500)),
        ] {
            found.iter().for_each(|what| println!("{what}"));
            wrong.extend(found);
        }
    }
    nothing_is(&wrong);
}

/// What an owner says, with pieces out of place, on an engine of its own: what it makes public is
/// public. No panic, no failed check, nothing that does not end.
#[test]
fn declarations_with_pieces_out_of_place() {
    on_this_thread(async {
        let words = ["CREATE", "ALTER", "DROP", "SHOW", "DESCRIBE", "EXPLAIN", "ANALYZE"];
        let mut written = corpus();
        written.retain(|sql| words.iter().any(|word| sql.starts_with(word)));
        let mut dice = Dice(0xf024);
        let watch = Watch::new(ASLEEP);
        for _ in 0..3 {
            let engine = engine(true).await;
            let owner = engine.owner();
            for _ in 0..400 {
                let sql = mutated(&mut dice, &written);
                watch.start(&sql);
                let look = look(&owner, &sql).await;
                match look.got {
                    Got::Panicked(words) => panic!("{sql}: {words}"),
                    Got::Failed(words) => assert!(
                        !words.starts_with("internal") && !words.starts_with("execution"),
                        "{sql}: {words}"
                    ),
                    Got::Free(_) | Got::Paid(_) => {}
                }
                assert!(look.took < PATIENCE, "{sql}: {:?}", look.took);
            }
        }
    });
}

/// A text without moments such as `2026-11-24T00:12:11Z`: two databases are made one after the
/// other, and the history of declarations names the second of each.
fn timeless(text: &str) -> String {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00Z";
    let (mut rest, mut all) = (text, String::with_capacity(text.len()));
    while let Some(first) = rest.chars().next() {
        let bytes = rest.as_bytes();
        let is_moment = bytes.len() >= SHAPE.len()
            && bytes.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            });
        let length = if is_moment { SHAPE.len() } else { first.len_utf8() };
        all.push_str(if is_moment { "a moment" } else { &rest[..length] });
        rest = &rest[length..];
    }
    all
}

#[test]
fn moments_are_left_out_and_dates_are_not() {
    let text = "| 2026-11-24T00:12:11Z | 2026-11-24 | ε 2026-11-24T00:12:1 |";
    assert_eq!(timeless(text), "| a moment | 2026-11-24 | ε 2026-11-24T00:12:1 |");
}
