//! Answers that were replayed as a whole. The program keeps them, in case the same analyst asks the
//! same again.
//!
//! In: an answer, and everything from which it followed. Out: the same. Nothing is checked here:
//! `query::cached_answer` compares what an answer followed from with the present state of the
//! vault. A kept answer was already shown to its analyst.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::answer::Answer;
use crate::catalog::{Catalog, Table};
use crate::dialect::QueryStatement;
use crate::ledger::{AskedDraw, DrawLookUp, Moment};
use crate::privacy::Spend;

/// The most bytes of all answers, and of one answer. If there are more, all answers are forgotten.
const MOST_BYTES: usize = 16 << 20;
pub(crate) const MOST_BYTES_OF_ONE: usize = 64 << 10;

/// An answer, and everything from which it followed.
pub(crate) struct Repeat {
    /// The statement, with the values of its parameters.
    pub(crate) query: QueryStatement,
    /// The declarations with which it was planned.
    pub(crate) catalog: Arc<Catalog>,
    /// The tables that it reads, directly and through views.
    pub(crate) tables: Vec<Table>,
    /// The contents of those tables that are public or registered.
    pub(crate) contents: Vec<(String, String)>,
    /// Its draws.
    pub(crate) asked: Vec<AskedDraw>,
    /// The kept records of these draws.
    pub(crate) kept: Vec<Option<DrawLookUp>>,
    /// The charges that paid for them.
    pub(crate) charges: Vec<i64>,
    pub(crate) answer: Answer,
    /// The moment at which the vault last confirmed all this, and recorded that the answer was
    /// shown on that day.
    pub(crate) seen: SeenMoment,
    /// What was left of its budgets at that moment.
    pub(crate) left: Left,
}

/// A moment of the vault. `None` if the vault is not a file.
#[derive(Debug, Default)]
pub(crate) struct SeenMoment(Mutex<Option<Moment>>);

impl SeenMoment {
    /// True if the stored moment is this one.
    pub(crate) fn is(&self, now: Option<Moment>) -> bool {
        now.is_some() && *self.0.lock().unwrap_or_else(PoisonError::into_inner) == now
    }

    /// Stores this moment.
    pub(crate) fn set(&self, now: Option<Moment>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// What is left of budgets, by name.
#[derive(Debug)]
pub(crate) struct Left(Mutex<Vec<(String, Spend)>>);

impl Left {
    pub(crate) fn new(left: Vec<(String, Spend)>) -> Self {
        Self(Mutex::new(left))
    }

    pub(crate) fn get(&self) -> Vec<(String, Spend)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, left: Vec<(String, Spend)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.get().into_iter().map(|(name, _)| name).collect()
    }
}

/// Debug output would show answers, so it leaves them out.
impl fmt::Debug for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeat").finish_non_exhaustive()
    }
}

impl Repeat {
    /// About how many bytes it takes beside its text.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.answer.batches().iter().map(|batch| batch.get_array_memory_size());
        let kept = self.kept.iter().flatten().flat_map(|kept| &kept.draw);
        let kept = kept.map(|draw| draw.drawn.len());
        let asked = self.asked.iter().map(|asked| asked.identity.len());
        rows.chain(kept).chain(asked).sum()
    }
}

type Kepts = (HashMap<(String, String), Arc<Repeat>>, usize);

/// The kept answers of an engine, by analyst and text.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    kept: Mutex<Kepts>,
    /// How often a kept answer was shown.
    #[cfg(test)]
    pub(crate) shown: std::sync::atomic::AtomicUsize,
}

impl Repeats {
    fn kept(&self) -> MutexGuard<'_, Kepts> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept answer to this text of this analyst.
    pub(crate) fn of(&self, analyst: &str, text: &str) -> Option<Arc<Repeat>> {
        let key = (analyst.to_owned(), text.to_owned());
        self.kept().0.get(&key).cloned()
    }

    /// Keeps an answer, unless it is too large.
    pub(crate) fn keep(&self, analyst: &str, repeat: Repeat) {
        let text = repeat.query.text.clone();
        // The syntax tree of a statement takes several times the size of its text.
        let bytes = repeat.bytes().saturating_add(text.len().saturating_mul(16));
        if bytes > MOST_BYTES_OF_ONE {
            return;
        }
        let mut kept = self.kept();
        if kept.1.saturating_add(bytes) > MOST_BYTES {
            *kept = Kepts::default();
        }
        kept.1 = kept.1.saturating_add(bytes);
        kept.0.insert((analyst.to_owned(), text), Arc::new(repeat));
    }

    /// Forgets the answer to this text of this analyst.
    pub(crate) fn forget(&self, analyst: &str, text: &str) {
        self.kept().0.remove(&(analyst.to_owned(), text.to_owned()));
    }
}
