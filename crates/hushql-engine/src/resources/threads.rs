//! Threads with deep stacks, which later statements use again.
//!
//! In: work. Out: nothing; the work runs on a thread of its own. A new thread with a deep stack
//! costs more than most statements take to plan: the system maps the stack, fills the pages that
//! are touched, and unmaps it on every core. So a thread that has finished its work waits some time
//! for more.
//!
//! ```text
//! start(work) ─▶ an idle thread, or a new one ─▶ work ─▶ idle ─▶ (nothing for 10 s) ─▶ ends
//! ```

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, ThreadId};
use std::time::Duration;

use crate::guard;

type Work = Box<dyn FnOnce() + Send>;

/// Threads of one process that wait for work. The last one has waited for the shortest time.
struct Idle {
    process: u32,
    threads: Vec<(ThreadId, Sender<Work>)>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, threads: Vec::new() });

/// The most idle threads, and how long each of them waits.
const MOST: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// The idle threads of this process. After a fork, the child has its parent's list but none of its
/// threads.
fn idle() -> MutexGuard<'static, Idle> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if idle.process != process {
        *idle = Idle { process, threads: Vec::new() };
    }
    idle
}

/// Runs work on a thread of its own, with a deep stack.
///
/// # Errors
/// The system's error if it has no more threads.
pub(super) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut work: Work = Box::new(work);
    // The thread that has waited for the shortest time has the warmest caches.
    let mut next = idle().threads.pop();
    while let Some((_, thread)) = next {
        match thread.send(work) {
            Ok(()) => return Ok(()),
            Err(unsent) => work = unsent.0,
        }
        next = idle().threads.pop();
    }
    let (thread, more) = channel();
    let serving = move || serve(work, &thread, &more);
    Builder::new().name("hushql".to_owned()).stack_size(guard::DEEP).spawn(serving).map(drop)
}

/// Runs the first work, and then waits for more.
fn serve(first: Work, own: &Sender<Work>, more: &Receiver<Work>) {
    first();
    let id = thread::current().id();
    loop {
        {
            let mut idle = idle();
            if idle.threads.len() >= MOST {
                return;
            }
            idle.threads.push((id, own.clone()));
        }
        let work = match more.recv_timeout(PATIENCE) {
            Ok(work) => work,
            Err(_) => {
                let mut idle = idle();
                if let Some(at) = idle.threads.iter().position(|(known, _)| *known == id) {
                    idle.threads.remove(at);
                    return;
                }
                drop(idle);
                // Another thread has just taken this one from the list, and will send work.
                let Ok(work) = more.recv() else { return };
                work
            }
        };
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Threads are used again, waiting work does not block other work, and a panic ends only its
    /// own thread.
    #[test]
    fn threads_are_used_again() {
        let (tell, told) = channel();
        let mut threads = HashSet::new();
        for _ in 0..200 {
            let tell = tell.clone();
            start(move || tell.send(thread::current().id()).unwrap()).unwrap();
            threads.insert(told.recv().unwrap());
            // The thread sends its result before it is idle.
            thread::sleep(Duration::from_millis(1));
        }
        assert!(threads.len() < 100, "{}", threads.len());
        let (release, held) = channel::<()>();
        let waits: Vec<_> = (0..100).map(|_| tell.clone()).collect();
        let held = std::sync::Arc::new(Mutex::new(held));
        for tell in waits {
            let held = std::sync::Arc::clone(&held);
            start(move || {
                let _ = held.lock().unwrap().recv();
                tell.send(thread::current().id()).unwrap();
            })
            .unwrap();
        }
        start(|| panic!("a test")).unwrap();
        let own = tell.clone();
        start(move || own.send(thread::current().id()).unwrap()).unwrap();
        told.recv().unwrap();
        drop(release);
        let at_once: HashSet<_> = (0..100).map(|_| told.recv().unwrap()).collect();
        assert_eq!(at_once.len(), 100);
    }

    #[test]
    fn their_stacks_are_deep() {
        let (tell, told) = channel();
        start(move || tell.send(stacker::remaining_stack()).unwrap()).unwrap();
        // On systems other than Linux, it may not be known.
        assert!(told.recv().unwrap().is_none_or(|left| left > 64 << 20));
    }
}
