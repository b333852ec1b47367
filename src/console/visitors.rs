//! Who is logged in: sessions, each behind a secret in a cookie, with the answers that it saw.
//!
//! In: sessions of the engine. Out: the same for requests that carry the secret. A session ends
//! after half an hour without a request, after twelve hours, and when its role may no longer log
//! in. Only hashes of secrets are kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hushql::sampler::QueryRng;
use hushql::{Answer, Session, SessionSight};
use sha2::{Digest, Sha256};

/// A session without a request for so long ends.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// The longest session.
const WHOLE: Duration = Duration::from_secs(12 * 60 * 60);

/// The most answers that a session keeps for the reader, and the most bytes of them.
const MOST_ANSWERS: usize = 20;
const MOST_BYTES: usize = 32 << 20;

/// An answer that was shown, with its statement.
#[derive(Debug, Clone)]
pub(super) struct SeenAnswer {
    pub(super) number: u64,
    pub(super) sql: String,
    pub(super) answer: Arc<Answer>,
    /// What existed for the session before it asked.
    sight: SessionSight,
}

/// Someone who is logged in.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) session: Session,
    /// The role; `None` for the owner.
    pub(super) role: Option<String>,
    /// What every form of this session carries, so that no other page can send one.
    pub(super) form_token: String,
    since: Instant,
    last: Mutex<Instant>,
    seen: Mutex<(u64, VecDeque<SeenAnswer>)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Visitor {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WHOLE
            || now.saturating_duration_since(*locked(&self.last)) >= IDLE
    }

    /// Keeps an answer for the reader, and returns its number. `sight` is what existed before it
    /// was asked.
    pub(super) fn keep(&self, sql: &str, answer: Answer, sight: SessionSight) -> u64 {
        let mut seen = locked(&self.seen);
        let (number, answers) = &mut *seen;
        *number = number.saturating_add(1);
        let (number, answer) = (*number, Arc::new(answer));
        answers.push_back(SeenAnswer { number, sql: sql.to_owned(), answer, sight });
        let size = |one: &SeenAnswer| {
            one.answer.batches().iter().map(|b| b.get_array_memory_size()).sum::<usize>()
        };
        while answers.len() > 1
            && (answers.len() > MOST_ANSWERS
                || answers.iter().map(size).sum::<usize>() > MOST_BYTES)
        {
            answers.pop_front();
        }
        number
    }

    /// A kept answer.
    pub(super) fn seen(&self, number: u64) -> Option<SeenAnswer> {
        self.all_seen().into_iter().find(|one| one.number == number)
    }

    /// The kept answers, the last one first. They are forgotten once something no longer exists for
    /// the session that existed when they were asked.
    pub(super) fn all_seen(&self) -> Vec<SeenAnswer> {
        let Ok(now) = self.session.sight() else { return Vec::new() };
        let mut seen = locked(&self.seen);
        seen.1.retain(|one| now.has_all_of(&one.sight));
        seen.1.iter().rev().cloned().collect()
    }
}

/// All who are logged in, by the hash of their secret.
#[derive(Debug, Default)]
pub(super) struct Visitors(Mutex<HashMap<[u8; 32], Arc<Visitor>>>);

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// A secret that nobody guesses; `None` if the system has no randomness.
pub(super) fn secret() -> Option<String> {
    let (one, other) = (QueryRng::nonce().ok()?, QueryRng::nonce().ok()?);
    Some(one.iter().chain(&other).map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two secrets are the same. The time does not depend on where they differ.
pub(super) fn same_secret(one: &str, other: &str) -> bool {
    let differs = |(a, b): (&u8, &u8)| a ^ b;
    hash(one).iter().zip(&hash(other)).map(differs).fold(0, |all, byte| all | byte) == 0
}

impl Visitors {
    /// Lets someone in, and returns the secret for the cookie. If the role has `most` sessions, its
    /// least recent one ends.
    pub(super) fn enter(
        &self,
        session: Session,
        role: Option<String>,
        most: usize,
    ) -> Option<String> {
        let (secret, form_token, now) = (secret()?, secret()?, Instant::now());
        let last = Mutex::new(now);
        let seen = Mutex::default();
        let visitor = Visitor { session, role, form_token, since: now, last, seen };
        let mut all = locked(&self.0);
        all.retain(|_, visitor| !visitor.is_over(now));
        let same: Vec<_> = all.iter().filter(|(_, one)| one.role == visitor.role).collect();
        if same.len() >= most.max(1) {
            let oldest = same.iter().min_by_key(|(_, one)| *locked(&one.last));
            if let Some(key) = oldest.map(|(key, _)| **key) {
                all.remove(&key);
            }
        }
        all.insert(hash(&secret), Arc::new(visitor));
        Some(secret)
    }

    /// Who carries this secret.
    pub(super) fn find(&self, secret: &str) -> Option<Arc<Visitor>> {
        let now = Instant::now();
        let mut all = locked(&self.0);
        let key = hash(secret);
        let visitor = Arc::clone(all.get(&key)?);
        if visitor.is_over(now) {
            all.remove(&key);
            return None;
        }
        *locked(&visitor.last) = now;
        Some(visitor)
    }

    /// Ends a session.
    pub(super) fn leave(&self, secret: &str) {
        locked(&self.0).remove(&hash(secret));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> Session {
        hushql::Engine::demo().unwrap().analyst("lab").unwrap().into()
    }

    #[test]
    fn a_role_has_so_many_sessions_and_no_more() {
        let visitors = Visitors::default();
        let enter = |role: &str| visitors.enter(lab(), Some(role.to_owned()), 2).unwrap();
        let (first, other) = (enter("lab"), enter("team"));
        let (second, third) = (enter("lab"), enter("lab"));
        assert!(visitors.find(&first).is_none());
        for secret in [&second, &third, &other] {
            assert!(visitors.find(secret).is_some());
        }
        visitors.leave(&second);
        assert!(visitors.find(&second).is_none() && visitors.find("").is_none());
    }

    #[test]
    fn sessions_end() {
        let visitors = Visitors::default();
        let secret = visitors.enter(lab(), None, 1).unwrap();
        let visitor = visitors.find(&secret).unwrap();
        let now = Instant::now();
        assert!(!visitor.is_over(now + IDLE / 2) && visitor.is_over(now + IDLE));
        *locked(&visitor.last) = now + WHOLE;
        assert!(visitor.is_over(now + WHOLE));
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same_secret("abc", "abc"));
        assert!(!same_secret("abc", "abd") && !same_secret("", "a"));
        assert_ne!(secret(), secret());
    }
}
