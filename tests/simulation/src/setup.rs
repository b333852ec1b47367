//! How worlds begin: a vault with a table, a budget and an owner, made once and copied.
//!
//! In: the shape of a budget, whether there is an anchor, whether the ledger is long. Out: the
//! bytes of the vault and of its anchor. All worlds of a child use one file, which is written anew
//! where it is: the vault remembers which file is its home.
//!
//! ```text
//! init ─▶ declare ─▶ bytes ─┬─▶ world 1
//!                           └─▶ world 2 …
//! ```

use std::collections::BTreeMap;
use std::fs;

use hushql_engine::{Engine, Session, VaultFile};
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use tokio::runtime::Runtime;

use crate::account::Account;
use crate::disk::place;
use crate::machine::Machine;

/// The shape of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    Plain,
    Slices,
    Cells,
}

/// The beginning of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    pub shape: Shape,
    /// Whether the vault has an anchor, on another disk.
    pub is_anchored: bool,
    /// Whether the ledger is about to reach its first checkpoint.
    pub is_long: bool,
    /// Whether the syncs of the vault's disk do nothing. Only an anchor can notice what is lost.
    pub lies: bool,
    /// Whether one person is missing.
    pub is_neighbour: bool,
}

/// The files with which a world begins.
#[derive(Debug)]
struct Files {
    vault: Vec<u8>,
    anchor: Option<Vec<u8>>,
}

/// The beginnings of all worlds of a child.
#[derive(Debug)]
pub struct Setups {
    new: Vec<u8>,
    made: BTreeMap<Setup, Files>,
}

/// The limit of the budget, and of the slice, in thousandths.
const LIMIT: i64 = 3_000;
const SLICE: i64 = 1_500;

/// The cost of each of the charges that make a ledger long, and their number.
const SMALL: i64 = 5;
const CHARGES: usize = 126;

/// The charges of one statement.
const AT_ONCE: usize = 21;

impl Setup {
    pub fn draw(rng: &mut ChaCha20Rng) -> Self {
        let shape = [Shape::Plain, Shape::Slices, Shape::Cells][rng.random_range(0..3)];
        let is_anchored = rng.random();
        let is_long = rng.random_range(0..4) == 0;
        let lies = is_anchored && rng.random_range(0..3) == 0;
        Self { shape, is_anchored, is_long, lies, is_neighbour: false }
    }

    /// The account with which the world begins.
    pub fn account(self) -> Account {
        Account {
            limits: vec![LIMIT],
            ever: vec![LIMIT],
            slice: (self.shape == Shape::Slices).then_some(SLICE),
            has_cells: self.shape == Shape::Cells,
            before: if self.is_long { SMALL * CHARGES as i64 } else { 0 },
            paid: Vec::new(),
        }
    }

    fn budget(self) -> String {
        let rest = match self.shape {
            Shape::Plain => String::new(),
            Shape::Slices => format!(" SLICE ann LIMIT (epsilon={})", SLICE as f64 / 1e3),
            Shape::Cells => " PARTITION BY city".to_owned(),
        };
        format!(
            "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon={}) REPLAY (ALL){rest}",
            LIMIT as f64 / 1e3
        )
    }
}

impl Setups {
    /// Makes the file, and the table with and without one person.
    pub fn new(machine: &Machine) -> Self {
        drop(Engine::init(machine.vault()).unwrap());
        for is_neighbour in [false, true] {
            let mut text = "id,city,age\n".to_owned();
            let missing = if is_neighbour { 7 } else { 99 };
            for id in (0..24).filter(|id| *id != missing) {
                let city = ["Oslo", "Rome", "Rome", ""][id % 4];
                text += &format!("{id},{city},{}\n", 18 + id);
            }
            let folder = machine.data().join(is_neighbour.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("people.csv"), text).unwrap();
        }
        let new = fs::read(machine.vault()).unwrap();
        machine.calls();
        Self { new, made: BTreeMap::new() }
    }

    /// Puts the files of a setup in their place.
    pub fn begin(&mut self, setup: Setup, machine: &Machine, runtime: &Runtime) {
        // The disk is honest until the world begins.
        let setup = Setup { lies: false, ..setup };
        if !self.made.contains_key(&setup) {
            let files = self.make(setup, machine, runtime);
            self.made.insert(setup, files);
        }
        let files = &self.made[&setup];
        place(&machine.journal(), None);
        place(&machine.new_anchor(), None);
        place(&machine.anchor(), files.anchor.as_ref());
        place(&machine.vault(), Some(&files.vault));
        machine.calls();
    }

    fn make(&self, setup: Setup, machine: &Machine, runtime: &Runtime) -> Files {
        place(&machine.journal(), None);
        place(&machine.anchor(), None);
        place(&machine.vault(), Some(&self.new));
        let folder = machine.data().join(setup.is_neighbour.to_string());
        let location = folder.join("people.csv").display().to_string();
        {
            let engine = Engine::open(machine.vault()).unwrap();
            let run = |session: &Session, sql: &str| {
                let done = runtime.block_on(session.execute(sql));
                done.unwrap_or_else(|error| panic!("{sql}: {error}"));
            };
            for sql in [
                &format!(
                    "CREATE EXTERNAL TABLE people (id BIGINT, city VARCHAR, age BIGINT) STORED AS CSV LOCATION '{location}'"
                ),
                "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
                "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
                "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
                &setup.budget(),
            ] {
                run(&engine.owner(), sql);
            }
            if setup.is_long {
                // An entry for the charge of each release, and one for its kept draw.
                let bob = engine.analyst("bob").unwrap();
                for at in 0..CHARGES / AT_ONCE {
                    let counts: Vec<String> = (at * AT_ONCE..(at + 1) * AT_ONCE)
                        .map(|n| {
                            let (what, older) = if n < 60 { ("COUNT(*)", n) } else { ("SUM(age)", n - 60) };
                            format!("LAPLACE(eps=0.{SMALL:03}) {what} FILTER (WHERE age > {older}) AS n{n}")
                        })
                        .collect();
                    run(&bob, &format!("SELECT {} FROM people", counts.join(", ")));
                }
            }
        }
        if setup.is_anchored {
            VaultFile::at(machine.vault()).make_anchor(machine.anchor()).unwrap();
        }
        let anchor = setup.is_anchored.then(|| fs::read(machine.anchor()).unwrap());
        Files { vault: fs::read(machine.vault()).unwrap(), anchor }
    }
}
