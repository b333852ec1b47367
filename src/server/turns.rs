//! Decides when the password of a log-in is checked: for one network, one after the other, and
//! later after each failure.
//!
//! In: the networks of log-ins. Out: a [`Turn`] for each, after a wait, or `None` if too many
//! log-ins of one network already wait. The wait comes before the check, and is the same for a
//! right and a wrong password. So an attacker who hangs up early, or opens many connections at
//! once, guesses no faster. A network without failures waits only for its own concurrent log-ins.
//!
//! ```text
//! a network   wrong ─ 0.1 s ─ wrong ─ 0.2 s ─ wrong ─ 0.4 s ─ right        others   right, right, right
//! ```

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The wait after a first failure. Each further failure doubles it.
const DELAY: Duration = Duration::from_millis(100);
const DOUBLINGS: u32 = 4;

/// How long failures are remembered, and for how many networks.
const MEMORY: Duration = Duration::from_secs(600);
const REMEMBERED: usize = 10_000;

/// The most waiting log-ins, for a network without failures, for one with failures, and in all;
/// each has a thread. Even after the most failures, the last one of a network is checked before its
/// time to log in is over.
const WAITING_OF_A_NETWORK: usize = 20;
const WAITING_AFTER_FAILURES: usize = 5;
pub(super) const WAITING: usize = 100;

/// How often a waiting log-in checks whether its client has gone.
const LOOK: Duration = Duration::from_millis(100);

/// The turns of all networks.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: Mutex<Queues>,
    /// Signals that a turn has ended.
    over: Condvar,
}

#[derive(Debug, Default)]
struct Queues {
    of: HashMap<Option<IpAddr>, Queue>,
    waiting: usize,
    tickets: u64,
    is_closed: bool,
}

/// The log-ins of one network.
#[derive(Debug, Default)]
struct Queue {
    failures: u32,
    /// The time of the last failure.
    failed: Option<Instant>,
    /// The waiting log-ins, in order.
    tickets: VecDeque<u64>,
    is_judging: bool,
}

impl Queue {
    /// Forgets old failures.
    fn forget(&mut self, now: Instant) {
        if self.failed.is_some_and(|failed| now.saturating_duration_since(failed) >= MEMORY) {
            (self.failures, self.failed) = (0, None);
        }
    }

    /// How long the next log-in has to wait because of earlier failures.
    fn wait(&self, now: Instant) -> Duration {
        let Some(failed) = self.failed else { return Duration::ZERO };
        let doublings = self.failures.saturating_sub(1).min(DOUBLINGS);
        let due = failed.checked_add(DELAY.saturating_mul(1 << doublings));
        due.map_or(DELAY, |due| due.saturating_duration_since(now))
    }

    fn fail(&mut self, now: Instant) {
        self.forget(now);
        (self.failures, self.failed) = (self.failures.saturating_add(1), Some(now));
    }

    fn is_idle(&self) -> bool {
        self.tickets.is_empty() && !self.is_judging
    }

    fn most(&self) -> usize {
        if self.failures > 0 { WAITING_AFTER_FAILURES } else { WAITING_OF_A_NETWORK }
    }
}

/// The turn of one log-in. No other log-in of its network is checked before this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    network: Option<IpAddr>,
}

impl Turn<'_> {
    /// Records that the password was wrong.
    pub(super) fn failed(self) {
        let mut queues = self.turns.queues();
        let now = Instant::now();
        if queues.of.len() >= REMEMBERED {
            queues.make_room(now);
        }
        if let Some(queue) = queues.of.get_mut(&self.network) {
            queue.fail(now);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        if let Some(queue) = queues.of.get_mut(&self.network) {
            queue.is_judging = false;
        }
        queues.tidy(self.network);
        self.turns.over.notify_all();
    }
}

impl Queues {
    /// Forgets networks whose failures are old, and if there are too many networks, those with the
    /// oldest failures.
    fn make_room(&mut self, now: Instant) {
        self.of.values_mut().for_each(|queue| queue.forget(now));
        self.of.retain(|_, queue| queue.failures > 0 || !queue.is_idle());
        while self.of.len() > REMEMBERED {
            let idle = self.of.iter().filter(|(_, queue)| queue.is_idle());
            let oldest = idle.min_by_key(|(_, queue)| queue.failed).map(|(network, _)| *network);
            let Some(oldest) = oldest else { return };
            self.of.remove(&oldest);
        }
    }

    /// Forgets a network without failures and without waiting log-ins.
    fn tidy(&mut self, network: Option<IpAddr>) {
        if self.of.get(&network).is_some_and(|queue| queue.failures == 0 && queue.is_idle()) {
            self.of.remove(&network);
        }
    }
}

impl Turns {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a log-in; `None` if too many already wait, if the turn would come
    /// after `deadline`, if the client has gone, or if the server stops.
    ///
    /// # Guarantee
    /// No two turns of one network overlap, and the whole wait lies between a failure and the next
    /// turn.
    pub(super) fn wait(
        &self,
        network: Option<IpAddr>,
        deadline: Instant,
        has_gone: &dyn Fn() -> bool,
    ) -> Option<Turn<'_>> {
        let mut queues = self.queues();
        let is_full = queues.waiting >= WAITING;
        queues.tickets = queues.tickets.wrapping_add(1);
        let ticket = queues.tickets;
        let now = Instant::now();
        let queue = queues.of.entry(network).or_default();
        queue.forget(now);
        let has_to_wait = !queue.is_idle() || !queue.wait(now).is_zero();
        if has_to_wait && (is_full || queue.tickets.len() >= queue.most()) {
            return None;
        }
        queue.tickets.push_back(ticket);
        queues.waiting = queues.waiting.saturating_add(1);
        loop {
            let now = Instant::now();
            let is_over = queues.is_closed || now >= deadline || has_gone();
            let queue = queues.of.entry(network).or_default();
            let is_next = !queue.is_judging && queue.tickets.front() == Some(&ticket);
            let left = deadline.saturating_duration_since(now);
            let pause = if is_next { queue.wait(now).min(left) } else { left };
            if is_over || (is_next && pause.is_zero()) {
                queue.tickets.retain(|one| *one != ticket);
                queue.is_judging |= !is_over;
                queues.waiting = queues.waiting.saturating_sub(1);
                if is_over {
                    queues.tidy(network);
                    self.over.notify_all();
                    return None;
                }
                return Some(Turn { turns: self, network });
            }
            let woken = self.over.wait_timeout(queues, pause.min(LOOK));
            queues = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends all waits; there are no more turns.
    pub(super) fn close(&self) {
        self.queues().is_closed = true;
        self.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn each_failure_doubles_the_wait_of_its_network() {
        let mut queue = Queue::default();
        let now = Instant::now();
        assert!(queue.wait(now).is_zero());
        let waits: Vec<u128> = (0..6)
            .map(|_| {
                queue.fail(now);
                queue.wait(now).as_millis()
            })
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 1600]);
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        assert_eq!(queue.wait(after(1)).as_millis(), 600);
        assert!(queue.wait(after(2)).is_zero());
        queue.forget(after(599));
        assert_eq!(queue.failures, 6);
        queue.forget(after(600));
        assert_eq!((queue.failures, queue.failed), (0, None));
    }

    /// A right password waits as long as a wrong one, and does not shorten the wait of later
    /// log-ins.
    #[test]
    fn a_network_with_failures_waits_and_others_do_not() {
        let turns = Turns::default();
        for _ in 0..3 {
            turns.wait(address(1), later(), &|| false).unwrap().failed();
        }
        let left = |last: u8| {
            let queues = turns.queues();
            queues.of.get(&address(last)).map_or(Duration::ZERO, |queue| queue.wait(Instant::now()))
        };
        assert!(left(1) > Duration::ZERO);
        assert_eq!(left(2), Duration::ZERO);
        // Its turn would not come before its deadline.
        assert!(turns.wait(address(1), Instant::now(), &|| false).is_none());
        assert!(turns.wait(address(2), later(), &|| false).is_some());
        let turn = turns.wait(address(1), later(), &|| false).unwrap();
        assert_eq!(left(1), Duration::ZERO);
        drop(turn);
        assert_eq!(turns.queues().of.get(&address(1)).unwrap().failures, 3);
        turns.wait(address(1), later(), &|| false).unwrap().failed();
        assert!(left(1) > Duration::from_millis(400));
        assert!(!turns.queues().of.contains_key(&address(2)));
        assert_eq!(turns.queues().waiting, 0);
    }

    #[test]
    fn of_one_network_one_is_judged_after_the_other() {
        let (turns, inside) = (Turns::default(), AtomicUsize::new(0));
        let judged = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let turn = turns.wait(address(1), later(), &|| false).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    thread::sleep(Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    judged.fetch_add(1, Ordering::SeqCst);
                    drop(turn);
                });
            }
        });
        assert_eq!(judged.into_inner(), 16);
        assert!(turns.queues().of.is_empty());
    }

    /// If a client opens many connections, few of them wait, and the others are rejected without a
    /// check. Other networks are not delayed.
    #[test]
    fn few_of_a_network_wait() {
        let turns = Turns::default();
        turns.wait(address(1), later(), &|| false).unwrap().failed();
        let held = turns.wait(address(1), later(), &|| false).unwrap();
        let (refused, judged) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| match turns.wait(address(1), later(), &|| false) {
                    Some(_) => judged.fetch_add(1, Ordering::SeqCst),
                    None => refused.fetch_add(1, Ordering::SeqCst),
                });
            }
            while refused.load(Ordering::SeqCst) < 35 {
                thread::yield_now();
            }
            assert!(turns.wait(address(2), later(), &|| false).is_some());
            assert_eq!(judged.load(Ordering::SeqCst), 0);
            drop(held);
        });
        assert_eq!((refused.into_inner(), judged.into_inner()), (35, 5));
    }

    /// If a client hangs up, its password is not checked, and other log-ins of the network take its
    /// place.
    #[test]
    fn whoever_has_gone_waits_no_more() {
        let turns = Turns::default();
        turns.wait(address(1), later(), &|| false).unwrap().failed();
        assert!(turns.wait(address(1), later(), &|| true).is_none());
        let queues = turns.queues();
        let queue = queues.of.get(&address(1)).unwrap();
        assert!(queue.is_idle() && queue.failures == 1 && queues.waiting == 0);
    }

    #[test]
    fn nobody_waits_for_a_server_that_stops() {
        let turns = Turns::default();
        let held = turns.wait(address(1), later(), &|| false).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.wait(address(1), later(), &|| false).is_none());
            while turns.queues().waiting == 0 {
                thread::yield_now();
            }
            turns.close();
            assert!(waiting.join().unwrap());
        });
        drop(held);
    }

    #[test]
    fn the_oldest_failures_are_forgotten_first() {
        let turns = Turns::default();
        let networks = u32::try_from(REMEMBERED).unwrap() + 3;
        let of = |number: u32| Some(IpAddr::V4(number.into()));
        for number in 0..networks {
            turns.wait(of(number), later(), &|| false).unwrap().failed();
        }
        let queues = turns.queues();
        assert!(queues.of.len() <= REMEMBERED + 1);
        assert!(!queues.of.contains_key(&of(0)));
        assert!(queues.of.contains_key(&of(networks - 1)) && queues.of.contains_key(&of(5)));
    }
}
