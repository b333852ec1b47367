//! What people know of a world, and what they expect of the next outcome.
//!
//! In: outcomes. Out: nothing, or the promise that an outcome breaks. Sums are compared by
//! [`Account`]; here it is the draws: a question that was answered while nothing failed is free
//! from then on, and shows the same numbers.
//!
//! ```text
//! SELECT … ─▶ 17, cost ε = 0.5 ─▶ SELECT … ─▶ 17, free
//!                                           ✗ 18, free · 18, cost ε = 0.5 · refused
//! ```

use std::collections::BTreeMap;

use crate::account::{Account, Paid};
use crate::history::{Question, What, Who};
use crate::outcome::Outcome;

/// A promise that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub promise: &'static str,
    /// What was seen.
    pub told: String,
}

/// What is known of the draws of a question.
#[derive(Debug, Clone, Default)]
struct Draws {
    /// What was shown, one for each draw.
    seen: Vec<String>,
    /// The number of draws that nobody saw, and that may be kept.
    open: usize,
    /// Whether a draw is kept for certain.
    is_kept: bool,
    /// The number of draws at a larger ε that were built on these.
    built: usize,
}

/// A release table, and what was shown of it.
#[derive(Debug, Clone, Default)]
struct Table {
    /// Who made it for certain.
    by: Option<Who>,
    rows: Option<String>,
}

/// What people know; it goes back with a backup.
#[derive(Debug, Clone)]
pub struct Known {
    pub account: Account,
    draws: BTreeMap<Question, Draws>,
    tables: BTreeMap<u8, Table>,
    /// Whether something failed since the program started.
    pub is_hurt: bool,
}

/// Nothing, or the first promise that was broken.
pub type Held = Result<(), Broken>;

/// A promise is broken.
pub fn broken<T>(promise: &'static str, told: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { promise, told: told.into() })
}

impl Known {
    /// What people know when a world begins.
    pub fn new(account: Account) -> Self {
        Self { account, draws: BTreeMap::new(), tables: BTreeMap::new(), is_hurt: false }
    }

    /// Whether a draw of this question is kept for certain.
    pub fn is_kept(&self, question: &Question) -> bool {
        self.draws.get(question).is_some_and(|draws| draws.is_kept)
    }

    fn draws(&mut self, question: &Question) -> &mut Draws {
        self.draws.entry(*question).or_default()
    }

    /// A charge and a draw of which nobody knows whether they exist.
    pub fn open(&mut self, who: Who, question: Question) -> usize {
        self.draws(&question).open += 1;
        self.account.paid.push(Paid { who, question, is_shown: false });
        self.account.paid.len() - 1
    }

    /// The outcome of this charge is known now, and is judged next.
    pub fn close(&mut self, open: usize) {
        let Paid { question, .. } = self.account.paid.remove(open);
        let draws = self.draws(&question);
        draws.open = draws.open.saturating_sub(1);
    }

    /// A lying disk lost power: nothing is kept for certain.
    pub fn forget(&mut self) {
        self.draws.values_mut().for_each(|draws| draws.is_kept = false);
        self.tables.values_mut().for_each(|table| table.by = None);
        self.account.limits.clone_from(&self.account.ever);
    }

    /// Compares the outcome of a question with what may come of it.
    pub fn judge(
        &mut self,
        who: Who,
        question: &Question,
        outcome: &Outcome,
        is_kept: bool,
    ) -> Held {
        let is_calm = !self.is_hurt;
        match outcome {
            Outcome::Answer { rows, cost: None, .. } => {
                let draws = self.draws(question);
                if draws.seen.contains(rows) {
                    return Ok(());
                }
                if draws.open == 0 {
                    return broken("a replay shows what was drawn", outcome.line());
                }
                draws.open -= 1;
                draws.seen.push(rows.clone());
                Ok(())
            }
            Outcome::Answer { rows, cost: Some(cost), .. } => {
                let charged = Question { cost: *cost, ..*question };
                if *cost != question.cost {
                    self.judge_refined(question, *cost)?;
                }
                if is_kept && is_calm {
                    return broken("one release is drawn once", outcome.line());
                }
                if !self.account.may_pay(who, &charged) {
                    return broken("no budget, slice or cell is exceeded", outcome.line());
                }
                let draws = self.draws(question);
                draws.is_kept |= is_calm && question.what != What::Rows;
                draws.seen.push(rows.clone());
                self.account.paid.push(Paid { who, question: charged, is_shown: true });
                Ok(())
            }
            Outcome::Budget(told) if is_kept && is_calm => {
                broken("what was paid for is shown again", told)
            }
            Outcome::Budget(_) if self.account.may_refuse(who, question) => Ok(()),
            Outcome::Budget(told) => {
                broken("a statement is refused for its cost only if it does not fit", told)
            }
            Outcome::Failed(_) | Outcome::Unseen if self.is_hurt => {
                self.open(who, *question);
                Ok(())
            }
            Outcome::Failed(told) | Outcome::Refused(told) | Outcome::Done(told) => {
                broken("an unhurt vault answers", told)
            }
            Outcome::Unseen => Ok(()),
        }
    }

    /// An answer that costs less than its ε is built on a draw of the rest, and at most one is
    /// built on each draw.
    fn judge_refined(&mut self, question: &Question, cost: i64) -> Held {
        let before = Question { cost: question.cost - cost, ..*question };
        let draws = self.draws(&before);
        if question.what == What::Rows || draws.built >= draws.seen.len() + draws.open {
            return broken("an answer costs its ε", format!("{cost}, {draws:?} of {before:?}"));
        }
        draws.built += 1;
        Ok(())
    }

    /// Compares the outcome of CREATE RELEASE TABLE, or SYNTHETIC, with what may come of it.
    pub fn judge_table(&mut self, who: Who, n: u8, question: &Question, outcome: &Outcome) -> Held {
        let known = self.tables.get(&n).cloned();
        match outcome {
            // Its rows are shown to nobody yet.
            Outcome::Answer { .. } if known.as_ref().is_none_or(|table| table.by.is_none()) => {
                let by = (!self.is_hurt).then_some(who);
                self.tables.insert(n, Table { by, rows: None });
                let is_kept = self.is_kept(question);
                self.judge_cost(who, question, outcome, is_kept)
            }
            Outcome::Answer { .. } => broken("a release table is made once", outcome.line()),
            Outcome::Refused(_) if known.is_some() => Ok(()),
            Outcome::Failed(_) | Outcome::Unseen if self.is_hurt => {
                self.tables.entry(n).or_default();
                self.open(who, *question);
                Ok(())
            }
            other => {
                let is_kept = self.is_kept(question);
                self.judge(who, question, other, is_kept)
            }
        }
    }

    /// As [`Known::judge`], of an answer whose rows nobody saw.
    fn judge_cost(&mut self, who: Who, question: &Question, outcome: &Outcome, kept: bool) -> Held {
        let Outcome::Answer { cost, .. } = outcome else { return Ok(()) };
        if cost.is_none() {
            return match question.what {
                What::Rows => broken("a synthetic table is paid for", outcome.line()),
                What::Count | What::Sum => Ok(()),
            };
        }
        let shown = self.draws(question).seen.len();
        self.judge(who, question, outcome, kept)?;
        let draws = self.draws(question);
        draws.seen.truncate(shown);
        draws.open += 1;
        Ok(())
    }

    /// Compares what is read of a release table with what was read before.
    pub fn judge_read(&mut self, who: Who, n: u8, outcome: &Outcome) -> Held {
        let is_hurt = self.is_hurt;
        let Some(table) = self.tables.get_mut(&n) else {
            return match outcome {
                Outcome::Answer { .. } => {
                    broken("a release table that nobody made", outcome.line())
                }
                _ => Ok(()),
            };
        };
        match outcome {
            Outcome::Answer { rows, cost, .. } => {
                if table.rows.get_or_insert_with(|| rows.clone()) != rows || cost.is_some() {
                    return broken("a release table stays as it was", outcome.line());
                }
                Ok(())
            }
            Outcome::Failed(_) | Outcome::Unseen if is_hurt => Ok(()),
            _ if table.by == Some(who) => broken("a release table is there", outcome.line()),
            _ => Ok(()),
        }
    }

    /// Compares the outcome of a new limit with what may come of it.
    pub fn judge_limit(&mut self, limit: i64, outcome: &Outcome) -> Held {
        let (is_hurt, account) = (self.is_hurt, &mut self.account);
        if matches!(outcome, Outcome::Done(_) | Outcome::Failed(_) | Outcome::Unseen) {
            account.ever.push(limit);
        }
        match outcome {
            Outcome::Done(_) if !account.may_limit(limit) => {
                broken("slices leave what others have spent", outcome.line())
            }
            Outcome::Done(_) => {
                account.limits = vec![limit];
                Ok(())
            }
            Outcome::Failed(_) | Outcome::Unseen if is_hurt => {
                account.limits.push(limit);
                Ok(())
            }
            Outcome::Refused(_) if account.slice.is_some() => Ok(()),
            other => broken("an unhurt vault declares", other.line()),
        }
    }
}
