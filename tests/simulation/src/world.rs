//! One world: a program or two over one vault, and what happens to them.
//!
//! In: a setup and events. Out: a line for each event, or the first promise that was broken. After
//! each event the owner looks at the budget, and [`Account`] says whether what they see can be
//! right.
//!
//! ```text
//! order ─▶ statement ─▶ calls ─▶ disk        outcome ─▶ judged by the account
//!                         └─ died? ─▶ power cut? ─▶ opened again
//! ```

use std::fs;
use std::thread;
use std::time::Duration;

use hushql_engine::{BudgetState, Engine, Error, Session};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio::runtime::Runtime;

use crate::disk::{Disk, place};
use crate::history::{Event, How, Question, Trouble, Who, Work};
use crate::known::{Broken, Held, Known, broken};
use crate::machine::{Call, Machine};
use crate::outcome::{Outcome, thousandths};
use crate::setup::Setup;

/// The time of the day at which worlds begin.
const MORNING: i64 = 1_800_000_000;

/// A world.
pub struct World<'a> {
    machine: &'a Machine,
    runtime: &'a Runtime,
    setup: Setup,
    rng: ChaCha20Rng,
    engine: Option<Engine>,
    disk: Disk,
    known: Known,
    backup: Option<(Vec<u8>, Known)>,
    /// Whether a lying disk may have lost something, so that the vault need not open.
    is_lost: bool,
    /// What the owner was told last, of the whole budget.
    told: i64,
    /// What everybody sees, but for the numbers.
    pub lines: Vec<String>,
    /// The whole history.
    pub log: Vec<String>,
}

impl<'a> World<'a> {
    /// A world over files that are in their place.
    pub fn new(machine: &'a Machine, runtime: &'a Runtime, setup: Setup, seed: u64) -> Self {
        machine.set(seed, MORNING);
        let mut disk = Disk::of(machine);
        disk.lies = setup.lies;
        Self {
            machine,
            runtime,
            setup,
            rng: ChaCha20Rng::seed_from_u64(seed),
            engine: None,
            disk,
            known: Known::new(setup.account()),
            backup: None,
            is_lost: false,
            told: 0,
            lines: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Lets everything happen; `false` if the world ended before, as it may.
    pub fn live(&mut self, events: &[Event]) -> Result<bool, Broken> {
        self.log.push(format!("{:?}", self.setup));
        self.start()?;
        for event in events {
            self.log.push(event.to_string());
            self.happen(event)?;
            if self.engine.is_none() {
                self.note("the vault is refused for good", "");
                return Ok(false);
            }
            self.look()?;
        }
        Ok(true)
    }

    /// Writes down what was seen; `more` are numbers, which depend on people.
    fn note(&mut self, line: &str, more: &str) {
        self.log.push(format!("    {line} {more}"));
        self.lines.push(line.replace(&self.setup.is_neighbour.to_string(), "…"));
    }

    fn happen(&mut self, event: &Event) -> Held {
        match event {
            Event::Do(who, work, trouble) => self.work(*who, work, trouble.as_ref()),
            Event::Meanwhile(who, question, at, other, second) => {
                self.meanwhile((*who, *question), at, (*other, *second))
            }
            Event::Restart => self.restart(None),
            Event::PowerCut(luck) => self.restart(Some(*luck)),
            Event::Clock(seconds) => {
                self.machine.jump(*seconds);
                Ok(())
            }
            Event::Backup => {
                self.copy();
                Ok(())
            }
            Event::PutBack => self.put_back(),
        }
    }

    /// Runs a statement; a call of it fails.
    fn work(&mut self, who: Who, work: &Work, trouble: Option<&Trouble>) -> Held {
        let sql = work.sql();
        let session = match work {
            Work::Limit(_) => self.engine().map(|engine| Session::from(engine.owner())),
            _ => self.engine().and_then(|engine| asking(engine, who)),
        };
        self.machine.order(trouble);
        let outcome =
            Outcome::of(session.and_then(|session| self.runtime.block_on(session.execute(&sql))));
        let calls = self.machine.calls();
        self.disk.follow(&calls);
        let happened = trouble.filter(|trouble| happened(trouble, &calls));
        self.known.is_hurt |= happened.is_some();
        let died = happened.filter(|trouble| trouble.how.ends());
        if died.is_some() {
            // What a program does that has ended has no effect.
            self.engine = None;
        }
        self.machine.order(None);
        let outcome = if died.is_some() { Outcome::Unseen } else { outcome };
        self.note(&outcome.without_rows(), &outcome.cells());
        match work {
            Work::Ask(question) => {
                let is_kept = self.known.is_kept(question);
                self.known.judge(who, question, &outcome, is_kept)?;
            }
            Work::Keep(n, question) => self.known.judge_table(who, *n, question, &outcome)?,
            Work::Read(n) => self.known.judge_read(who, *n, &outcome)?,
            Work::Limit(limit) => self.known.judge_limit(*limit, &outcome)?,
        }
        died.map_or(Ok(()), |trouble| self.restart(trouble.cut))
    }

    /// A statement stands still before a call, while somebody copies the vault and another program
    /// runs a statement.
    fn meanwhile(
        &mut self,
        (who, question): (Who, Question),
        at: &Trouble,
        (other, second): (Who, Question),
    ) -> Held {
        let first = self.engine().and_then(|engine| asking(engine, who));
        let Ok(first) = first else { return Ok(()) };
        let before = self.known.is_kept(&question);
        self.machine.order(Some(at));
        let (mut met, mut judged) = (None, Ok(()));
        let outcome = thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let runtime = runtime();
                Outcome::of(runtime.block_on(first.execute(&question.sql())))
            });
            let mut calls = Vec::new();
            while !asked.is_finished() && !calls.iter().any(|call: &Call| call.name == "paused") {
                thread::sleep(Duration::from_millis(1));
                calls = self.machine.calls_so_far();
            }
            if !asked.is_finished() && !holds_lock(&calls) {
                let open = self.known.open(who, question);
                self.copy();
                let outcome = self.in_other_program(other, &second);
                let is_kept = self.known.is_kept(&second);
                judged = self.known.judge(other, &second, &outcome, is_kept);
                self.known.close(open);
                met = Some(outcome);
            }
            self.machine.order(None);
            asked.join().unwrap()
        });
        let calls = self.machine.calls();
        self.disk.follow(&calls);
        if let Some(met) = met {
            self.note(&format!("meanwhile {}", met.without_rows()), &met.cells());
        }
        judged?;
        self.note(&outcome.without_rows(), &outcome.cells());
        self.known.judge(who, &question, &outcome, before)
    }

    /// Somebody copies the vault, at a moment at which no program holds a lock on it.
    fn copy(&mut self) {
        let bytes = fs::read(self.machine.vault()).unwrap();
        self.backup = Some((bytes, self.known.clone()));
    }

    fn in_other_program(&self, who: Who, question: &Question) -> Outcome {
        let asked = self.opened().and_then(|engine| {
            let session = asking(&engine, who)?;
            self.runtime.block_on(session.execute(&question.sql()))
        });
        Outcome::of(asked)
    }

    /// The owner looks at the budget.
    fn look(&mut self) -> Held {
        let seen = self.engine().and_then(|engine| engine.owner().budgets());
        let seen = match seen {
            Err(_) if self.known.is_hurt => {
                // A server that lost its vault ends, and is started again.
                self.restart(None)?;
                match &self.engine {
                    Some(engine) => engine.owner().budgets(),
                    None => return Ok(()),
                }
            }
            seen => seen,
        };
        self.disk.follow(&self.machine.calls());
        match seen {
            Ok(budgets) => self.compare(&budgets[0]),
            Err(error) => broken("an unhurt vault tells its budgets", error.to_string()),
        }
    }

    fn compare(&mut self, told: &BudgetState) -> Held {
        let (spent, limit) = (thousandths(told.spent.nano), thousandths(told.budget.limit.nano));
        let account = &self.known.account;
        let text = format!("{spent} of {limit}, {account:?}");
        if !account.limits.contains(&limit) {
            return broken("a limit is what the owner set", text);
        }
        if spent < account.most(None, false) {
            return broken("what was shown was charged, and is still there", text);
        }
        if !account.fits(None, spent) {
            return broken("nobody is charged for nothing", text);
        }
        if spent < self.told {
            return broken("no sum falls", text);
        }
        if account.ever.iter().all(|limit| spent > *limit) {
            return broken("no budget, slice or cell is exceeded", text);
        }
        for (who, slice) in [Who::Ann, Who::Bob].into_iter().zip(&told.slices) {
            if !account.fits(Some(who), thousandths(slice.spent.nano)) {
                return broken("a slice has what its analyst was charged", format!("{told:?}"));
            }
        }
        self.told = spent;
        Ok(())
    }

    fn engine(&self) -> Result<&Engine, Error> {
        self.engine.as_ref().ok_or(Error::Internal)
    }

    fn opened(&self) -> Result<Engine, Error> {
        let builder = Engine::builder();
        let builder = match self.setup.is_anchored {
            true => builder.anchor(self.machine.anchor()),
            false => builder,
        };
        builder.open(self.machine.vault())
    }

    /// Ends the program, cuts the power if told to, and starts it again.
    fn restart(&mut self, cut: Option<u32>) -> Held {
        self.engine = None;
        if let Some(luck) = cut {
            self.disk.cut(self.machine, &mut self.rng, luck);
            self.told = self.known.account.most(None, false);
            self.is_lost |= self.setup.lies;
            if self.setup.lies {
                self.known.forget();
            }
        }
        self.start()
    }

    /// Starts the program. Without an engine afterwards, the vault is refused for good.
    fn start(&mut self) -> Held {
        let opened = self.opened();
        self.disk.follow(&self.machine.calls());
        self.known.is_hurt = false;
        match opened {
            Ok(engine) => self.engine = Some(engine),
            Err(error) if self.is_lost => self.note(&format!("refused: {error}"), ""),
            Err(error) => return broken("a vault opens after any crash", error.to_string()),
        }
        Ok(())
    }

    /// Writes the backup over the vault, and starts the program.
    fn put_back(&mut self) -> Held {
        let Some((bytes, known)) = self.backup.clone() else { return Ok(()) };
        self.engine = None;
        let machine = self.machine;
        let [vault, journal] = [machine.vault(), machine.journal()];
        let [present, present_journal] = [&vault, &journal].map(|path| fs::read(path).ok());
        place(&journal, None);
        place(&vault, Some(&bytes));
        let shown = |known: &Known| known.account.paid.iter().filter(|p| p.is_shown).count();
        let is_older = shown(&known) < shown(&self.known);
        match self.opened() {
            Ok(_) if self.setup.is_anchored && is_older => {
                return broken("a backup that is put back is noticed", "the vault opened");
            }
            Ok(engine) => {
                self.engine = Some(engine);
                self.known = known;
                self.told = self.known.account.most(None, false);
                self.known.is_hurt = false;
                self.note("opened", "");
            }
            Err(error) if self.setup.is_anchored => {
                self.note(&format!("refused: {error}"), "");
                place(&vault, present.as_ref());
                place(&journal, present_journal.as_ref());
                self.start()?;
            }
            Err(error) => return broken("a backup opens", error.to_string()),
        }
        let lies = self.disk.lies;
        machine.calls();
        self.disk = Disk::of(machine);
        self.disk.lies = lies;
        Ok(())
    }
}

/// A runtime on the thread that calls it.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn name(who: Who) -> &'static str {
    match who {
        Who::Ann => "ann",
        Who::Bob => "bob",
    }
}

/// Whether the call that was to fail was made.
fn happened(trouble: &Trouble, calls: &[Call]) -> bool {
    let is_it = |call: &&Call| {
        let name = call.name.trim_start_matches('!');
        let is_key = name != "entropy" || call.detail == 32;
        name == trouble.call && call.file == trouble.file && is_key
    };
    calls.iter().filter(is_it).count() >= trouble.which as usize && trouble.how != How::Pause
}

/// Whether a program holds a lock on the vault: the shared one is taken first and given up last.
fn holds_lock(calls: &[Call]) -> bool {
    let locks = calls.iter().filter(|call| call.name == "lock" && call.file == 'd');
    let mut held = false;
    for lock in locks {
        match lock.detail {
            // The first byte of the shared lock, for reading.
            2 => held = true,
            // All bytes, given up.
            29 => held = false,
            _ => {}
        }
    }
    held
}

/// The session of an analyst.
fn asking(engine: &Engine, who: Who) -> Result<Session, Error> {
    Ok(Session::from(engine.analyst(name(who))?))
}
