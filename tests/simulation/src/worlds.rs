//! The worlds of the gate and of the long run, and one world that is named by its seed.
//!
//! ```text
//! just simulate --seed 7 --steps 20
//! ```

use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio::runtime::Runtime;

use crate::history::{self, Event};
use crate::known::Broken;
use crate::machine::Machine;
use crate::setup::{Setup, Setups};
use crate::shrink::shrink;
use crate::world::{World, runtime};

/// The steps of a world.
const STEPS: usize = 12;

/// One world in so many is compared with that of a neighbour.
const NEIGHBOURS: u64 = 3;

/// Worlds on one machine.
struct Worlds<'a> {
    machine: &'a Machine,
    setups: Setups,
    runtime: Runtime,
}

impl<'a> Worlds<'a> {
    fn new(machine: &'a Machine) -> Self {
        Self { machine, setups: Setups::new(machine), runtime: runtime() }
    }

    /// A world, and what everybody saw in it.
    fn live(
        &mut self,
        seed: u64,
        setup: Setup,
        events: &[Event],
    ) -> (Vec<String>, Vec<String>, Result<bool, Broken>) {
        self.machine.set(seed, 1_700_000_000);
        self.setups.begin(setup, self.machine, &self.runtime);
        let mut world = World::new(self.machine, &self.runtime, setup, seed);
        let lived = world.live(events);
        (world.lines, world.log, lived)
    }

    /// A world, and that of a neighbour if it is one of those that have one.
    fn hold(
        &mut self,
        seed: u64,
        setup: Setup,
        events: &[Event],
    ) -> (Vec<String>, Result<bool, Broken>) {
        let (lines, log, lived) = self.live(seed, setup, events);
        if lived.is_err() || !seed.is_multiple_of(NEIGHBOURS) {
            return (log, lived);
        }
        let (others, _, _) = self.live(seed, Setup { is_neighbour: true, ..setup }, events);
        let differ = lines.iter().zip(&others).find(|(one, other)| one != other);
        let told = match differ {
            Some((one, other)) => format!("{one}\nwith one person less: {other}"),
            None if lines.len() != others.len() => "one of them ended before".to_owned(),
            None => return (log, lived),
        };
        (log, Err(Broken { promise: "neighbours see the same refusals, costs and errors", told }))
    }

    /// Lives through the world of a seed. If it breaks a promise, says the shortest history that
    /// does.
    fn check(&mut self, seed: u64, steps: usize) -> Vec<String> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let setup = Setup::draw(&mut rng);
        let events = history::draw(&mut rng, steps);
        let (log, lived) = self.hold(seed, setup, &events);
        let Err(first) = lived else { return log };
        eprintln!("seed {seed}: {first:?}; now for a shorter history …");
        let broken_at = log.iter().filter(|line| !line.starts_with(' ')).count() - 1;
        let (short, broken) =
            shrink(events, first, |events| self.hold(seed, setup, events).1.map(|_| ()));
        let (log, _) = self.hold(seed, setup, &short);
        panic!(
            "seed {seed}, steps {steps}: broken at step {broken_at}, and in a history of {} steps: {}\n{}\n{}\nrepeat it: just simulate --seed {seed} --steps {steps}",
            short.len(),
            broken.promise,
            log.join("\n"),
            broken.told,
        );
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// The seed of the gate: HUSHQL_SEED, or the number of the day.
fn seed() -> u64 {
    let day = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    number("HUSHQL_SEED").unwrap_or_else(day)
}

/// As many worlds as are asked for, or as fit into the time; each child has its share of the seeds.
fn live_through(test: &str, worlds: u64, time: Duration) {
    let base = seed().wrapping_mul(1_000_000_007);
    println!("HUSHQL_SEED={}", seed());
    let workers = number("SIMULATION_WORKERS").unwrap_or(2);
    Machine::run(test, workers, |machine| {
        let begun = Instant::now();
        let (mut many, mut steps) = (0, BTreeMap::<String, u64>::new());
        let mut all = Worlds::new(machine);
        for at in (machine.worker..worlds).step_by(workers as usize) {
            if begun.elapsed() > time {
                break;
            }
            let log = all.check(base.wrapping_add(at), STEPS);
            many += 1;
            for line in log.iter().filter_map(|line| line.strip_prefix("    ")) {
                let what: String = line.chars().take_while(|c| c.is_alphabetic()).collect();
                *steps.entry(what).or_default() += 1;
            }
        }
        println!("worker {}: {many} worlds in {:.0?}: {steps:?}", machine.worker, begun.elapsed());
    });
}

#[test]
fn worlds_keep_their_promises() {
    live_through("worlds::worlds_keep_their_promises", 2_000, Duration::from_secs(110));
}

#[test]
#[ignore = "long: a million worlds, a day"]
fn a_million_worlds_keep_their_promises() {
    let day = Duration::from_secs(86_400);
    live_through("worlds::a_million_worlds_keep_their_promises", 1_000_000, day);
}

/// The world of `just simulate`.
#[test]
#[ignore = "long: it lives through the world of SIMULATION_SEED, and says everything"]
fn the_world_of_a_seed() {
    let Some(seed) = number("SIMULATION_SEED") else { return };
    let steps = number("SIMULATION_STEPS").map_or(STEPS, |steps| steps as usize);
    Machine::run("worlds::the_world_of_a_seed", 1, |machine| {
        println!("seed {seed}, {steps} steps");
        for line in Worlds::new(machine).check(seed, steps) {
            println!("{line}");
        }
    });
}
