//! The reference: what has to hold, in few lines that know nothing of the engine's code.
//!
//! In: what was asked, and what came of it. Out: whether an answer, a refusal or a sum can be
//! right. A charge is *shown* if somebody saw its answer, and *open* if a fault hides what became
//! of it: it may count, and need not.
//!
//! ```text
//! shown ≤ sum that is told ≤ shown + open        an answer needs room for shown alone, a refusal fills it with open
//! ```

use crate::history::{City, Question, Who};

/// A charge: the question has what it cost, which is less than its ε if it was built on a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paid {
    pub who: Who,
    pub question: Question,
    pub is_shown: bool,
}

/// A budget with all that may have been charged to it, in thousandths of ε.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The limit; several if a fault hides which one it is.
    pub limits: Vec<i64>,
    /// All limits that there ever were: one that is lowered takes nothing back, and a lying disk
    /// may bring an old one back, since an anchor covers charges alone.
    pub ever: Vec<i64>,
    /// Ann's slice.
    pub slice: Option<i64>,
    /// Whether each city has an account of its own.
    pub has_cells: bool,
    /// What was charged to everybody before the world began, by Bob.
    pub before: i64,
    pub paid: Vec<Paid>,
}

/// Where sums are compared: one of the cells, which the third city stands for, too.
const CELLS: [Option<City>; 3] = [None, Some(City::Oslo), Some(City::Rome)];

impl Account {
    /// What is spent in a cell, by one analyst or by all: at least, or at most.
    fn sum(&self, who: Option<Who>, cell: Option<City>, with_open: bool) -> i64 {
        let is_in = |paid: &&Paid| {
            let of_cell = !self.has_cells || paid.question.city.is_none_or(|c| Some(c) == cell);
            of_cell && who.is_none_or(|who| paid.who == who) && (with_open || paid.is_shown)
        };
        let before = if who == Some(Who::Ann) { 0 } else { self.before };
        before + self.paid.iter().filter(is_in).map(|paid| paid.question.cost).sum::<i64>()
    }

    /// The dearest cell.
    pub fn most(&self, who: Option<Who>, with_open: bool) -> i64 {
        CELLS.map(|cell| self.sum(who, cell, with_open)).into_iter().max().unwrap_or_default()
    }

    /// Whether the budget, and the share of the analyst, pay for a question in each of its cells.
    fn pays(&self, who: Who, question: &Question, limit: i64, with_open: bool) -> bool {
        let cells = CELLS.into_iter().filter(|cell| match (self.has_cells, question.city) {
            (true, Some(city)) => *cell == Some(city),
            _ => true,
        });
        cells.into_iter().all(|cell| {
            let share = match (self.slice, who) {
                (Some(slice), Who::Ann) => slice - self.sum(Some(who), cell, with_open),
                (Some(slice), Who::Bob) => limit - slice - self.sum(Some(who), cell, with_open),
                (None, _) => limit,
            };
            question.cost <= share.min(limit - self.sum(None, cell, with_open))
        })
    }

    /// Whether an answer may be paid for.
    pub fn may_pay(&self, who: Who, question: &Question) -> bool {
        self.limits.iter().any(|limit| self.pays(who, question, *limit, false))
    }

    /// Whether a question may be refused for want of budget.
    pub fn may_refuse(&self, who: Who, question: &Question) -> bool {
        self.limits.iter().any(|limit| !self.pays(who, question, *limit, true))
    }

    /// Whether a limit may be set: slices have to leave what everybody else has spent.
    pub fn may_limit(&self, limit: i64) -> bool {
        self.slice.is_none_or(|slice| limit - slice >= self.most(Some(Who::Bob), false))
    }

    /// Whether a sum that the owner is told can be right.
    pub fn fits(&self, who: Option<Who>, told: i64) -> bool {
        (self.most(who, false)..=self.most(who, true)).contains(&told)
    }
}
