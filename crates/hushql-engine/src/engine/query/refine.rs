//! Between stages 4 and 5: which draws are built on draws that the vault keeps.
//!
//! In: a planned query, and its draws that will be kept. Out: the same query. A number that the
//! analyst paid for with a smaller ε is built on that draw, and is charged the difference. Only
//! draws of the analyst who asks are looked for, so that the price tells nothing about the
//! questions of others. Nothing here depends on private rows: a kept draw was shown to the analyst.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::choose::Planned;
use super::request::ToKeep;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::decoded_draw;
use crate::ledger::ChargeCaps;
use crate::privacy::{Epsilon, Notion, Rational};
use crate::release::replay::PaidBy;

/// The names under which a kept draw has the key of its question, and its ε.
const QUESTION: &str = "hushql.question";
const EPSILON: &str = "hushql.epsilon";

/// Whether numbers that were paid for with a smaller ε are built on those draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Builds {
    /// They are, where that is sound.
    OnKept,
    /// They are drawn and paid for by themselves.
    OnNothing,
}

impl Builds {
    /// What a session does that refines, or does not.
    pub(super) fn by_default(refines: bool) -> Self {
        if refines { Self::OnKept } else { Self::OnNothing }
    }
}

impl Session {
    /// Builds draws on kept ones where that costs less, and names the question of each draw on
    /// which a later one may build.
    ///
    /// # Guarantee
    /// Each kept draw is used for one draw at most: questions have different keys in one statement,
    /// and the charge takes the draw. Only where every budget that is charged counts in ε, and no
    /// cap bounds what the session may reveal.
    ///
    /// # Errors
    /// The vault's own.
    pub(super) fn refine(
        &self,
        planned: &mut Planned,
        to_keep: &mut [ToKeep],
        builds: Builds,
    ) -> Result<(), Error> {
        let questions = |one: &ToKeep| {
            let question = one.unit.question.as_ref()?;
            Some(one.rows.asked_as(&one.unit, &question.body))
        };
        let (mut places, mut asked) = (Vec::new(), Vec::new());
        for one in to_keep.iter_mut() {
            if let Some(question) = questions(one) {
                places.push(one);
                asked.push(question);
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let is_paid_apart = builds == Builds::OnNothing || !self.pays_the_rest(planned);
        let found = self.inner.vault.refinable(&asked, &self.analyst, planned.catalog())?;
        for (one, found) in places.into_iter().zip(found) {
            let (Some(found), Some(own)) = (found, &one.unit.question) else { continue };
            one.question = Some(found.question);
            let Some((built_on, kept)) = found.found else { continue };
            let Some((before, drawn)) = read_back(&found.question, &kept.drawn) else { continue };
            let paid = PaidBy { charge: kept.charge, number: self.shown_number(kept.charge)? };
            if before.value() >= own.epsilon.value() {
                // The draw with the least noise stays the one to build on.
                one.question = None;
                planned.release_mut().note_finer(&one.unit, paid, before);
            } else if !is_paid_apart {
                let refined = planned.release_mut().refine(&one.unit, (paid, &before), &drawn);
                if refined.is_some() {
                    planned.build_on(built_on);
                }
            }
        }
        Ok(())
    }

    /// True if the difference of both ε pays for a draw that is built on another one, in every
    /// budget that the query is charged to.
    fn pays_the_rest(&self, planned: &Planned) -> bool {
        let domains = planned.release().unit_domains();
        let budgets = domains.iter().flat_map(|domain| planned.catalog().budgets_of(domain));
        let mut kinds = budgets.map(|budget| {
            budget.limit.notion == Notion::Approximate
                && budget.promise.is_none()
                && budget.coupon.is_none()
        });
        self.caps == ChargeCaps::default() && kinds.all(|is_in_epsilon| is_in_epsilon)
    }
}

/// What a draw set drew, as the vault keeps it: with its question and ε, if a later draw may build
/// on it.
pub(super) fn answering(drawn: Vec<RecordBatch>, one: &ToKeep) -> Vec<RecordBatch> {
    let (Some(key), Some(question)) = (&one.question, &one.unit.question) else { return drawn };
    let told = HashMap::from([
        (QUESTION.to_owned(), hexadecimal(key)),
        (EPSILON.to_owned(), question.epsilon.value().to_string()),
    ]);
    let named = |batch: RecordBatch| {
        let schema = batch.schema().as_ref().clone().with_metadata(told.clone());
        batch.clone().with_schema(Arc::new(schema)).unwrap_or(batch)
    };
    drawn.into_iter().map(named).collect()
}

/// The ε of a kept draw of this question, and what it drew; `None` for another draw.
fn read_back(question: &[u8; 32], drawn: &[u8]) -> Option<(Epsilon, Vec<RecordBatch>)> {
    let drawn = decoded_draw(drawn).ok()?;
    let [batch] = drawn.as_slice() else { return None };
    let schema = batch.schema();
    let told = schema.metadata();
    (*told.get(QUESTION)? == hexadecimal(question)).then_some(())?;
    let epsilon = Epsilon::new(told.get(EPSILON)?.parse::<Rational>().ok()?).ok()?;
    Some((epsilon, drawn))
}

fn hexadecimal(key: &[u8; 32]) -> String {
    key.iter().fold(String::with_capacity(64), |mut all, byte| {
        // Writing to a String cannot fail.
        let _ = write!(all, "{byte:02x}");
        all
    })
}
