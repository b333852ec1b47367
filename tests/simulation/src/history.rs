//! Histories: what happens in a world, in the order in which it happens.
//!
//! In: a seed and a number of steps. Out: events. None of them depends on what comes of an earlier
//! one, so that a history from which events are taken is a history, too.
//!
//! ```text
//! seed 7 ─▶ ann asks SELECT … · die at sync f 2, power cut · backup · bob asks SELECT … · put back
//! ```

use std::fmt;

use rand::RngExt;
use rand_chacha::ChaCha20Rng;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Where a budget has slices, she has one.
    Ann,
    Bob,
}

/// The people of one city, who have an account of their own where budgets have cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum City {
    Oslo,
    Rome,
}

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Count,
    Sum,
    /// Rows that are made up: a synthetic table, which is drawn anew each time.
    Rows,
}

/// A question with one release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// Its ε, in thousandths.
    pub cost: i64,
    /// Of people older than this.
    pub older: u32,
    /// Of this city; of all without one.
    pub city: Option<City>,
    pub what: What,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Eio,
    Enospc,
    /// This write and all later ones find no space.
    Full,
    /// Half of a write.
    Short,
    /// The program ends before, within or after the call.
    Die,
    DieHalf,
    DieAfter,
    /// The program stands still while another one works.
    Pause,
}

/// One call of a statement fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The call's name in the shim.
    pub call: &'static str,
    /// Its file in the shim.
    pub file: char,
    /// Which of these calls, from 1.
    pub which: u32,
    pub how: How,
    /// If the program ends: whether the power is cut, and how much of what was not synced is kept,
    /// in 100.
    pub cut: Option<u32>,
}

/// What a statement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Asks.
    Ask(Question),
    /// Creates a release table of this number, or a synthetic one.
    Keep(u8, Question),
    /// Reads a release table or a synthetic one.
    Read(u8),
    /// The owner sets the limit of the budget, in thousandths.
    Limit(i64),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A statement, and what fails meanwhile.
    Do(Who, Work, Option<Trouble>),
    /// A statement of one program, while that of another stands still before a call. The vault is
    /// copied before.
    Meanwhile(Who, Question, Trouble, Who, Question),
    /// The program ends and starts again.
    Restart,
    /// The power is cut while nothing happens; what was not synced is kept with this luck.
    PowerCut(u32),
    /// The clock jumps by seconds.
    Clock(i64),
    /// Somebody copies the file of the vault.
    Backup,
    /// Somebody writes the copy over the file, while no program has it open.
    PutBack,
}

impl How {
    /// Its name in the shim.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eio => "eio",
            Self::Enospc => "enospc",
            Self::Full => "full",
            Self::Short => "short",
            Self::Die => "die",
            Self::DieHalf => "die-half",
            Self::DieAfter => "die-after",
            Self::Pause => "pause",
        }
    }

    /// Whether the program ends.
    pub fn ends(self) -> bool {
        matches!(self, Self::Die | Self::DieHalf | Self::DieAfter)
    }
}

impl Question {
    /// The question in SQL.
    pub fn sql(&self) -> String {
        let Self { cost, older, city, what } = self;
        let cost = *cost as f64 / 1e3;
        let what = match what {
            What::Count => format!("SELECT LAPLACE(eps={cost}) COUNT(*) AS n"),
            What::Sum => format!("SELECT LAPLACE(eps={cost}) SUM(age) AS n"),
            What::Rows => format!("AIM(eps={cost}) SELECT city"),
        };
        let city = city.map_or_else(String::new, |city| format!(" AND city = '{city:?}'"));
        format!("{what} FROM people WHERE age > {older}{city}")
    }

    fn draw(rng: &mut ChaCha20Rng) -> Self {
        Self {
            cost: [100, 250, 500, 700][rng.random_range(0..4)],
            older: rng.random_range(0..3) * 10,
            city: [None, Some(City::Oslo), Some(City::Rome)][rng.random_range(0..3)],
            what: if rng.random_range(0..4) == 0 { What::Sum } else { What::Count },
        }
    }
}

impl Work {
    /// The statement in SQL.
    pub fn sql(&self) -> String {
        match self {
            Self::Ask(question) => question.sql(),
            Self::Keep(n, question) => {
                let kind = if question.what == What::Rows { "SYNTHETIC" } else { "RELEASE" };
                format!("CREATE {kind} TABLE r{n} AS {}", question.sql())
            }
            Self::Read(n) => format!("SELECT * FROM r{n}"),
            Self::Limit(limit) => {
                format!("ALTER PRIVACY BUDGET b SET LIMIT (epsilon={})", *limit as f64 / 1e3)
            }
        }
    }
}

impl Trouble {
    /// The calls of a statement that can fail.
    const CALLS: [(&'static str, char, u32); 13] = [
        ("write", 'd', 4),
        ("write", 'j', 4),
        ("sync", 'd', 2),
        ("sync", 'j', 2),
        ("sync", 'f', 4),
        ("unlink", 'j', 2),
        ("open", 'j', 2),
        ("lock", 'd', 12),
        ("entropy", '-', 1),
        ("write", 'a', 2),
        ("sync", 'a', 2),
        ("rename", 'a', 2),
        ("sync", 'g', 2),
    ];

    fn draw(rng: &mut ChaCha20Rng) -> Self {
        let (call, file, most) = Self::CALLS[rng.random_range(0..Self::CALLS.len())];
        let hows = match call {
            "write" => &[How::Eio, How::Enospc, How::Full, How::Short, How::Die, How::DieHalf][..],
            _ => &[How::Eio, How::Die, How::DieAfter],
        };
        let how = hows[rng.random_range(0..hows.len())];
        let luck = [0, 30, 60, 100][rng.random_range(0..4)];
        let cut = (how.ends() && rng.random_range(0..3) > 0).then_some(luck);
        Self { call, file, which: rng.random_range(1..=most), how, cut }
    }

    /// A moment at which a program may stand still: one of the vault's own calls. Those of SQLite
    /// may hold locks of the process, which is that of the other program, too.
    fn pause(rng: &mut ChaCha20Rng) -> Self {
        let calls = [
            ("statx", 'd', 12),
            ("open", 'j', 12),
            ("sync", 'f', 6),
            ("entropy", '-', 1),
            ("write", 'a', 2),
            ("rename", 'a', 2),
            ("sync", 'g', 2),
        ];
        let (call, file, most) = calls[rng.random_range(0..calls.len())];
        Self { call, file, which: rng.random_range(1..=most), how: How::Pause, cut: None }
    }
}

/// The events of a world.
pub fn draw(rng: &mut ChaCha20Rng, steps: usize) -> Vec<Event> {
    (0..steps).map(|_| event(rng)).collect()
}

fn event(rng: &mut ChaCha20Rng) -> Event {
    let who = |rng: &mut ChaCha20Rng| [Who::Ann, Who::Bob][rng.random_range(0..2)];
    match rng.random_range(0..100) {
        0..4 => Event::Restart,
        4..13 => Event::PowerCut([0, 30, 60, 100][rng.random_range(0..4)]),
        13..17 => Event::Clock([-86_400, -3_600, 1, 86_400, 40_000_000][rng.random_range(0..5)]),
        17..22 => Event::Backup,
        22..27 => Event::PutBack,
        27..37 => Event::Meanwhile(
            who(rng),
            Question::draw(rng),
            Trouble::pause(rng),
            who(rng),
            Question::draw(rng),
        ),
        _ => {
            let work = match rng.random_range(0..20) {
                0..2 => Work::Keep(rng.random_range(0..3), Question::draw(rng)),
                2 => {
                    let question = Question { city: None, what: What::Rows, ..Question::draw(rng) };
                    Work::Keep(rng.random_range(0..3), question)
                }
                3..5 => Work::Read(rng.random_range(0..3)),
                5..7 => Work::Limit(rng.random_range(2..8) * 500),
                _ => Work::Ask(Question::draw(rng)),
            };
            let trouble = (rng.random_range(0..3) == 0).then(|| Trouble::draw(rng));
            Event::Do(who(rng), work, trouble)
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, file, which, how, cut } = self;
        write!(f, "{} at {call} {file} {which}", how.name())?;
        match cut {
            Some(luck) => write!(f, ", power cut, {luck} % kept"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(who, work, trouble) => {
                match work {
                    Work::Limit(_) => write!(f, "owner: {}", work.sql()),
                    _ => write!(f, "{who:?}: {}", work.sql()),
                }?;
                trouble.iter().try_for_each(|trouble| write!(f, " · {trouble}"))
            }
            Self::Meanwhile(who, question, at, other, second) => write!(
                f,
                "{who:?}: {} · {at} · meanwhile {other:?} in another program: {}",
                question.sql(),
                second.sql()
            ),
            Self::Restart => write!(f, "restart"),
            Self::PowerCut(luck) => write!(f, "power cut, {luck} % kept"),
            Self::Clock(seconds) => write!(f, "the clock jumps by {seconds} s"),
            Self::Backup => write!(f, "backup"),
            Self::PutBack => write!(f, "the backup is put back"),
        }
    }
}
