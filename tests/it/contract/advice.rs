//! One advice is enough: what the hint of a refusal proposes is answered.
//!
//! Every statement of the suites of refusals and explanations, of the attacks and of the everyday
//! questions is asked. Where it is refused, the hint is followed once: as a whole statement, as a
//! piece in the place of the clause, or as an owner's declaration, after which the same statement
//! is asked again. Nothing is charged: a query counts as answered when it is ready to be charged.
//! A statement may have another fault beside the one that the hint is about. A hint is wrong if all
//! that it proposes is refused at the same place again, or for what the hint itself says.

mod corpus;
mod proposals;
mod unfollowed;

use hushql::{Error, Reason, Refusal};

use crate::seed::Share;
use corpus::{Source, Stage};
use proposals::proposals;

/// What owners say; the statement is asked again after it.
const DECLARES: [&str; 4] = ["ALTER ", "CREATE ", "DROP ", "REFRESH "];

fn starts_with(sql: &str, words: &[&str]) -> bool {
    words.iter().any(|word| sql.get(..word.len()).is_some_and(|h| h.eq_ignore_ascii_case(word)))
}

/// Whether a proposal leads to an answer; otherwise what happened.
async fn leads(stage: &mut Stage, who: &str, sql: &str, proposal: &str) -> Result<(), Error> {
    let sets = starts_with(proposal, &["SET "]);
    if sets || starts_with(proposal, &DECLARES) {
        let mut again = stage.again().await;
        again.ask(if sets { who } else { "owner" }, proposal).await?;
        return match starts_with(sql, &DECLARES) || starts_with(sql, &["ANALYZE "]) {
            true => Ok(()),
            false => again.ask(who, sql).await,
        };
    }
    stage.ask(who, proposal).await
}

/// What became of hints.
#[derive(Default)]
struct Followed {
    /// Those that were answered.
    answered: usize,
    /// Those of which nothing can be asked: they have letters for what only the asker knows, or
    /// say in words what to change, or the statement has another fault as well.
    words: usize,
    wrong: Vec<String>,
    /// The stage of the last source. If nothing was declared on it, the next one may use it.
    stage: Option<Stage>,
}

impl Followed {
    /// Follows a refusal. It was wrong if nothing is answered, and what the hint says, or the place
    /// that it was to mend, is refused.
    async fn follow(&mut self, stage: &mut Stage, who: &str, sql: &str, refusal: &Refusal) {
        let (mut wrong, mut has_another_fault) = (None, false);
        for proposal in proposals(sql, refusal.clause(), refusal.hint()) {
            match leads(stage, who, sql, &proposal.sql).await {
                Ok(()) => {
                    self.answered += 1;
                    return;
                }
                Err(Error::Refused(next)) => {
                    let is_same =
                        (next.clause(), next.message()) == (refusal.clause(), refusal.message());
                    // An owner gives a table a budget, whatever the statement says.
                    if is_same || proposal.has(next.clause()) && next.reason() != Reason::NoBudget {
                        let next = next.to_string().replace('\n', "\n    ");
                        wrong.get_or_insert(format!("{}\n    {next}", proposal.sql));
                    } else {
                        // What stands where it cannot is no proposal.
                        has_another_fault |= ![Reason::Clause, Reason::Place, Reason::Statement]
                            .contains(&next.reason());
                    }
                }
                Err(_) => {}
            }
        }
        let is_known = has_another_fault || unfollowed::is_known(refusal);
        match wrong.filter(|_| !is_known) {
            Some(next) => self.wrong.push(format!("{sql}\n  {refusal}\n  {next}")),
            None => self.words += 1,
        }
    }

    /// Follows the hints of a source. Of statements that change nothing, those that the share does
    /// not take are not asked.
    async fn source(&mut self, source: &Source, share: &mut Share) {
        let mut stage = self.stage.take().filter(Stage::is_untouched);
        for step in source.steps() {
            let takes = share.takes_next();
            if !takes && step.only_asks() {
                continue;
            }
            let mut here = Stage::of(&step, stage.take()).await;
            if let (Err(Error::Refused(refusal)), true) =
                (here.ask(&step.who, &step.sql).await, takes)
            {
                let refusal = here.shown(&step.who, &step.sql, refusal).await;
                self.follow(&mut here, &step.who, &step.sql, &refusal).await;
            }
            stage = Some(here);
        }
        self.stage = stage;
    }
}

/// Follows the hints of a share of the statements of a share of the sources.
async fn hints(mut sources: Share, mut statements: Share) {
    let mut followed = Followed::default();
    for source in corpus::sources() {
        if sources.takes_next() {
            let before = followed.answered;
            followed.source(&source, &mut statements).await;
            println!("{source:?}: {} answered", followed.answered - before);
        }
    }
    let Followed { answered, words, wrong, .. } = followed;
    println!("{answered} hints are answered, {words} propose nothing that is whole");
    assert!(wrong.is_empty(), "{} hints:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(answered > 0, "no hint is answered");
}

#[tokio::test]
async fn hints_lead_to_answers() {
    hints(Share::one_in(4), Share::one_in(5)).await;
}

#[tokio::test]
#[ignore = "long: ten minutes"]
async fn all_hints_lead_to_answers() {
    hints(Share::all(), Share::all()).await;
}
