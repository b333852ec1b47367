//! A model of the account: two programs charge one vault, keep draws and show them again, while
//! programs die, the power is cut, and an older copy of the file is put in its place.
//!
//! In: the sizes below, and whether a step is broken on purpose. Out: every state that can be
//! reached, each held to the promises of [`AccountModel::properties`]. The model knows nothing of
//! SQL, amounts or noise: each charge costs one, and a draw is known by the charge that paid.
//! README.md says which function of the code each step stands for; a test looks that they exist.
//!
//! ```text
//! Open ─ Ask ─┬─ kept? shown again
//!             └─ Begin ─ Pay ─ Commit ─ Sync ─ MoveAnchor ─ Draw ─ Keep      Crash · PowerCut · Copy · PutBack
//! ```

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use stateright::{Model, Property};

/// What the budget pays for.
pub const LIMIT: u8 = 2;
/// The number of different questions.
pub const QUESTIONS: u8 = 2;
/// The number of programs.
pub const PROGRAMS: usize = 2;
/// How often each program asks.
pub const ASKS: u8 = 2;
/// How often programs die, in all.
pub const CRASHES: u8 = 1;
/// How often the power is cut.
pub const CUTS: u8 = 1;
/// The number of entries between two checkpoints; 256 in the code.
pub const CHECKPOINT: usize = 2;

/// A step that is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// None: the account as it is.
    Nothing,
    /// The charge is handed out after the commit, before anything is known to be on the disk.
    ChargeBeforeSync,
    /// The charge is handed out before the anchor has followed.
    AnchorLags,
    /// The anchor moves before the commit.
    AnchorFirst,
    /// The anchor follows a commit of the other program that is not known to be on the disk.
    AnchorFollowsUnsynced,
    /// The budget is compared with what the program read before it had the write lock.
    SumReadBeforeLock,
    /// A checkpoint holds the sum before its own entry.
    CheckpointBeforeEntry,
    /// A draw is kept before its charge is committed.
    KeptBeforePaid,
}

/// An entry of the ledger. Its number stands for its hash: no two entries ever have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    number: u8,
    question: u8,
    /// The charge whose draw is kept; nothing for a charge.
    keeps: Option<u8>,
}

/// What one commit leaves in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct VaultFile {
    entries: Vec<Entry>,
    /// The sum at every second entry.
    checkpoints: Vec<u8>,
}

/// How far a program has followed the ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Witness {
    entries: usize,
    last: u8,
    spent: u8,
}

/// Where a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not opened the vault.
    Closed,
    /// It may ask.
    Idle,
    /// It joined the queue with a question.
    Waits(u8),
    /// It has the write lock.
    Began(u8),
    /// Its entry is written, and not committed.
    Paid(Entry),
    /// The transaction is committed.
    Committed(Entry),
    /// The commit is on the disk.
    Synced(Entry),
    /// It holds the `Charge`.
    Charged(Entry),
    /// The answer was shown, and its draw may be kept.
    Shown(Entry),
}

/// One program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    phase: Phase,
    witness: Witness,
    asks: u8,
}

/// One state of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    programs: [Program; PROGRAMS],
    file: VaultFile,
    /// The number of entries that a power cut leaves.
    synced: usize,
    /// The number and the place of the entry that the anchor names.
    anchor: Option<(usize, u8)>,
    lock: Option<usize>,
    /// A backup of the file.
    copy: Option<VaultFile>,
    is_put_back: bool,
    /// The charges whose draws were shown.
    shown: BTreeSet<u8>,
    next: u8,
    crashes: u8,
    cuts: u8,
    /// What happened at least once.
    replayed: bool,
    refused: bool,
    noticed: bool,
}

/// One step; the number is that of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Opens the vault.
    Open(usize),
    /// Looks for a kept draw, and joins the queue if there is none.
    Ask(usize, u8),
    /// Takes the write lock, and follows the ledger to its end.
    Begin(usize),
    /// Compares with the budget, and writes the entry and its checkpoint.
    Pay(usize),
    /// Commits.
    Commit(usize),
    /// Syncs the folder.
    Sync(usize),
    /// Moves the anchor to the end of the ledger.
    MoveAnchor(usize),
    /// Draws, and shows the answer.
    Draw(usize),
    /// Keeps the draw, in a transaction of its own.
    Keep(usize),
    /// Leaves the draw unkept.
    Forget(usize),
    /// The program dies.
    Crash(usize),
    /// The machine loses power; what is committed and not synced is lost, or not.
    PowerCut { loses: bool },
    /// Somebody copies the file.
    Copy,
    /// Somebody puts the copy in the place of the file, while no program has it open.
    PutBack,
}

/// The account, or a broken one.
#[derive(Debug, Clone)]
pub struct AccountModel {
    /// What is broken.
    pub broken: Broken,
}

impl VaultFile {
    fn append(&mut self, entry: Entry, broken: Broken) {
        let before = self.spent();
        self.entries.push(entry);
        if self.entries.len().is_multiple_of(CHECKPOINT) {
            let sum = match broken {
                Broken::CheckpointBeforeEntry => before,
                _ => self.spent(),
            };
            self.checkpoints.push(sum);
        }
    }

    /// What all entries cost, counted one by one.
    fn spent(&self) -> u8 {
        self.entries.iter().map(Entry::cost).sum()
    }

    fn cut_to(&mut self, entries: usize) {
        self.entries.truncate(entries);
        self.checkpoints.truncate(entries / CHECKPOINT);
    }

    fn has(&self, place: usize, number: u8) -> bool {
        place.checked_sub(1).and_then(|i| self.entries.get(i)).is_some_and(|e| e.number == number)
    }
}

impl Entry {
    fn cost(&self) -> u8 {
        u8::from(self.keeps.is_none())
    }
}

impl Witness {
    /// Follows the ledger to its end, from the newest checkpoint if it has seen nothing; nothing if
    /// the ledger is not the one that it followed.
    fn advance(self, file: &VaultFile) -> Option<Self> {
        if self.entries > 0 && !file.has(self.entries, self.last) {
            return None;
        }
        let mut at = self;
        if at.entries == 0 && !file.checkpoints.is_empty() {
            at.entries = file.checkpoints.len() * CHECKPOINT;
            at.spent = *file.checkpoints.last()?;
        }
        for entry in file.entries.get(at.entries..)? {
            at.spent += entry.cost();
        }
        at.entries = file.entries.len();
        at.last = file.entries.last().map_or(0, |entry| entry.number);
        Some(at)
    }
}

impl World {
    fn program(&mut self, at: usize) -> &mut Program {
        &mut self.programs[at]
    }

    /// Whether the file has the entry that the anchor names.
    fn is_anchored(&self) -> bool {
        self.anchor.is_none_or(|(place, number)| self.file.has(place, number))
    }

    fn follow_with_anchor(&mut self) {
        self.anchor = self.file.entries.last().map(|e| (self.file.entries.len(), e.number));
    }

    /// A program that dies loses what it had not committed.
    fn die(&mut self, at: usize) {
        if self.lock == Some(at) {
            self.lock = None;
        }
        *self.program(at) =
            Program { phase: Phase::Closed, witness: Witness::default(), ..self.programs[at] };
    }

    /// Where a statement goes on after its commit.
    fn after(phase: Phase, entry: Entry, broken: Broken) -> Phase {
        match (phase, broken) {
            (Phase::Committed(_), Broken::ChargeBeforeSync) => Phase::Charged(entry),
            (Phase::Synced(_), Broken::AnchorLags) => Phase::Charged(entry),
            (phase, _) => phase,
        }
    }
}

impl AccountModel {
    fn step(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Open(p) => self.open(world, p),
            Step::Ask(p, question) => {
                let kept = |e: &&Entry| e.keeps.is_some() && e.question == question;
                let kept = world.file.entries.iter().find(kept).and_then(|entry| entry.keeps);
                world.program(p).asks += 1;
                match kept {
                    Some(charge) => {
                        world.replayed = true;
                        world.shown.insert(charge);
                    }
                    None => {
                        let witness = world.programs[p].witness.advance(&world.file);
                        world.program(p).witness = witness.unwrap_or_default();
                        world.program(p).phase = Phase::Waits(question);
                    }
                }
                Some(())
            }
            Step::Begin(p) => self.begin(world, p),
            Step::Pay(p) => self.pay(world, p),
            Step::Commit(p) => {
                let Phase::Paid(entry) = world.programs[p].phase else { return None };
                world.file.append(entry, self.broken);
                world.lock = None;
                world.program(p).witness = world.programs[p].witness.advance(&world.file)?;
                let phase = World::after(Phase::Committed(entry), entry, self.broken);
                world.program(p).phase = phase;
                Some(())
            }
            Step::Sync(p) => {
                let Phase::Committed(entry) = world.programs[p].phase else { return None };
                world.synced = world.file.entries.len();
                let phase = World::after(Phase::Synced(entry), entry, self.broken);
                world.program(p).phase = phase;
                Some(())
            }
            Step::MoveAnchor(p) => {
                let Phase::Synced(entry) = world.programs[p].phase else { return None };
                // It waits for the write lock: two programs must not move the anchor at once.
                if world.lock.is_some() || !world.is_anchored() {
                    return None;
                }
                // What the other program committed in the meantime is synced first.
                if self.broken != Broken::AnchorFollowsUnsynced {
                    world.synced = world.file.entries.len();
                }
                if self.broken != Broken::AnchorFirst {
                    world.follow_with_anchor();
                }
                world.program(p).phase = Phase::Charged(entry);
                Some(())
            }
            Step::Draw(p) => {
                let Phase::Charged(entry) = world.programs[p].phase else { return None };
                world.shown.insert(entry.number);
                world.program(p).phase = Phase::Shown(entry);
                Some(())
            }
            Step::Keep(p) => self.keep(world, p),
            Step::Forget(p) => {
                world.program(p).phase = Phase::Idle;
                Some(())
            }
            Step::Crash(p) => {
                world.crashes += 1;
                world.die(p);
                Some(())
            }
            Step::PowerCut { loses } => {
                world.cuts += 1;
                (0..PROGRAMS).for_each(|p| world.die(p));
                if loses {
                    world.file.cut_to(world.synced);
                }
                world.synced = world.file.entries.len();
                Some(())
            }
            Step::Copy => {
                world.copy = Some(world.file.clone());
                Some(())
            }
            Step::PutBack => {
                world.file = world.copy.clone()?;
                world.synced = world.file.entries.len();
                world.is_put_back = true;
                Some(())
            }
        }
    }

    /// Opens the vault, unless it lacks the anchor's entry.
    fn open(&self, world: &mut World, p: usize) -> Option<()> {
        if !world.is_anchored() {
            world.noticed = true;
            return Some(());
        }
        world.program(p).witness = Witness::default().advance(&world.file)?;
        world.program(p).phase = Phase::Idle;
        Some(())
    }

    fn begin(&self, world: &mut World, p: usize) -> Option<()> {
        let Phase::Waits(question) = world.programs[p].phase else { return None };
        if world.lock.is_some() {
            return None;
        }
        let advanced = world.programs[p].witness.advance(&world.file);
        match advanced.filter(|_| world.is_anchored()) {
            Some(witness) => {
                world.lock = Some(p);
                if self.broken != Broken::SumReadBeforeLock {
                    world.program(p).witness = witness;
                }
                world.program(p).phase = Phase::Began(question);
            }
            None => world.die(p),
        }
        Some(())
    }

    fn pay(&self, world: &mut World, p: usize) -> Option<()> {
        let Phase::Began(question) = world.programs[p].phase else { return None };
        if world.programs[p].witness.spent >= LIMIT {
            world.refused = true;
            world.lock = None;
            world.program(p).phase = Phase::Idle;
            return Some(());
        }
        world.next += 1;
        let entry = Entry { number: world.next, question, keeps: None };
        match self.broken {
            Broken::AnchorFirst => {
                world.anchor = Some((world.file.entries.len() + 1, entry.number));
            }
            Broken::KeptBeforePaid => {
                world.next += 1;
                let kept = Entry { number: world.next, question, keeps: Some(entry.number) };
                world.file.append(kept, self.broken);
            }
            _ => {}
        }
        world.program(p).phase = Phase::Paid(entry);
        Some(())
    }

    /// One transaction, with its sync and the move of the anchor: what it loses when it is
    /// interrupted is a draw that is not kept.
    fn keep(&self, world: &mut World, p: usize) -> Option<()> {
        let Phase::Shown(charge) = world.programs[p].phase else { return None };
        if world.lock.is_some() {
            return None;
        }
        let advanced = world.programs[p].witness.advance(&world.file);
        if advanced.is_none() || !world.is_anchored() {
            world.die(p);
            return Some(());
        }
        world.next += 1;
        let keeps = Some(charge.number);
        let entry = Entry { number: world.next, question: charge.question, keeps };
        world.file.append(entry, self.broken);
        world.synced = world.file.entries.len();
        if self.broken != Broken::AnchorLags {
            world.follow_with_anchor();
        }
        world.program(p).witness = advanced?.advance(&world.file)?;
        world.program(p).phase = Phase::Idle;
        Some(())
    }

    /// The steps of one program.
    fn of_program(world: &World, p: usize, steps: &mut Vec<Step>) {
        let program = &world.programs[p];
        match program.phase {
            Phase::Closed => steps.push(Step::Open(p)),
            Phase::Idle if program.asks < ASKS => {
                steps.extend((0..QUESTIONS).map(|question| Step::Ask(p, question)));
            }
            Phase::Idle => {}
            Phase::Waits(_) => steps.push(Step::Begin(p)),
            Phase::Began(_) => steps.push(Step::Pay(p)),
            Phase::Paid(_) => steps.push(Step::Commit(p)),
            Phase::Committed(_) => steps.push(Step::Sync(p)),
            Phase::Synced(_) => steps.push(Step::MoveAnchor(p)),
            Phase::Charged(_) => steps.push(Step::Draw(p)),
            Phase::Shown(_) => steps.extend([Step::Keep(p), Step::Forget(p)]),
        }
        if program.phase != Phase::Closed && world.crashes < CRASHES {
            steps.push(Step::Crash(p));
        }
    }
}

impl Model for AccountModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let program = Program { phase: Phase::Closed, witness: Witness::default(), asks: 0 };
        vec![World {
            programs: [program.clone(), program],
            file: VaultFile::default(),
            synced: 0,
            anchor: None,
            lock: None,
            copy: None,
            is_put_back: false,
            shown: BTreeSet::new(),
            next: 0,
            crashes: 0,
            cuts: 0,
            replayed: false,
            refused: false,
            noticed: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        (0..PROGRAMS).for_each(|p| Self::of_program(world, p, steps));
        if world.cuts < CUTS {
            steps.extend([true, false].map(|loses| Step::PowerCut { loses }));
        }
        if world.copy.is_none() && world.lock.is_none() {
            steps.push(Step::Copy);
        }
        let is_closed = world.programs.iter().all(|program| program.phase == Phase::Closed);
        if is_closed && world.copy.is_some() && !world.is_put_back {
            steps.push(Step::PutBack);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, step)?;
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(
                "what was shown is in the ledger of every open program",
                |_, world| {
                    let is_open = world.programs.iter().any(|one| one.phase != Phase::Closed);
                    let is_there = |charge: &u8| {
                        let mut charges = world.file.entries.iter().filter(|e| e.keeps.is_none());
                        charges.any(|entry| entry.number == *charge)
                    };
                    !is_open || world.shown.iter().all(is_there)
                },
            ),
            Property::<Self>::always("what was shown is on the disk", |_, world| {
                let synced = world.file.entries.get(..world.synced).unwrap_or_default();
                let is_there = |charge: &u8| synced.iter().any(|entry| entry.number == *charge);
                world.is_put_back || world.shown.iter().all(is_there)
            }),
            Property::<Self>::always("no more is shown than the budget pays for", |_, world| {
                world.shown.len() <= usize::from(LIMIT)
            }),
            Property::<Self>::always("no more is charged than the budget has", |_, world| {
                world.file.spent() <= LIMIT
            }),
            Property::<Self>::always("every checkpoint is the sum of its entries", |_, world| {
                world.file.checkpoints.iter().enumerate().all(|(i, sum)| {
                    let entries = world.file.entries.get(..(i + 1) * CHECKPOINT);
                    entries.is_some_and(|all| all.iter().map(Entry::cost).sum::<u8>() == *sum)
                })
            }),
            Property::<Self>::always("a kept draw was paid for before it was kept", |_, world| {
                world.file.entries.iter().enumerate().all(|(at, entry)| {
                    let Some(charge) = entry.keeps else { return true };
                    let paid = |e: &Entry| e.number == charge && e.question == entry.question;
                    world.file.entries.iter().take(at).any(paid)
                })
            }),
            Property::<Self>::always(
                "the anchor is never ahead of a file that nobody replaced",
                |_, world| world.is_put_back || world.is_anchored(),
            ),
            Property::<Self>::sometimes("an answer is shown again", |_, world| world.replayed),
            Property::<Self>::sometimes("a budget is used up", |_, world| world.refused),
            Property::<Self>::sometimes("an older copy is noticed", |_, world| world.noticed),
            Property::<Self>::sometimes("two programs are charged", |_, world| {
                world.shown.len() == usize::from(LIMIT) && !world.replayed
            }),
        ]
    }
}
