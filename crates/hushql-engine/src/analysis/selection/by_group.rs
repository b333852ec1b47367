//! Selections among named candidates. Each candidate has a sum of its own, unless the candidates
//! share an axis.
//!
//! In: a selection whose target is a new name. Out: its measure. Each candidate replaces the name
//! in the score as a literal, so the ranges are derived from exactly the expressions that run.
//!
//! ```text
//! t IN (1, 2) BY SUM(abs(x - t))  →  SUM(abs(x - 1)), SUM(abs(x - 2))
//! ```

use super::by_rank::{on_line, revenue, threshold};
use super::candidates::of_name;
use crate::analysis::call::Call;
use crate::analysis::measure::Measure;
use crate::analysis::measure::measure_frame::MeasureFrame;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::analysis::selection::candidate_expr::mentions;
use crate::analysis::selection::each::each;
use crate::dialect::{AggregateName, SelectionClause};
use crate::refusal::{Reason, Refusal};

/// A selection among named candidates.
pub(crate) fn named(
    call: &Call,
    clause: &SelectionClause,
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.clone();
    if frame.flow.scope.schema.fields().iter().any(|field| *field.name() == text) {
        return Err(Refusal::new(
            Reason::Target,
            &text,
            format!("{text} is also a column; choose another name, or group by it"),
            format!("… FROM t GROUP BY {text}, or a new name for the candidate"),
        )
        .into());
    }
    let axis = of_name(clause, &text, &call.data_type)?;
    let score = call.params.args.get(1);
    let filter = call.params.filter.as_deref();
    match clause.score.function {
        AggregateName::Revenue => revenue(call, clause, axis, frame),
        AggregateName::Count | AggregateName::Sum => {
            let in_score = score.is_some_and(mentions);
            let score = &clause.score;
            let adds_rows = score.star || score.function == AggregateName::Sum;
            let on_one_line = adds_rows && !score.distinct && score.bounds_per_group.is_none();
            match (in_score, filter) {
                (false, Some(predicate)) if mentions(predicate) => {
                    match threshold(predicate, frame)? {
                        Some(threshold) if on_one_line => {
                            on_line(call, clause, axis, &threshold, frame)
                        }
                        Some(_) | None => each(call, clause, &axis, frame),
                    }
                }
                (true, _) => each(call, clause, &axis, frame),
                (false, _) => Err(Refusal::new(
                    Reason::Score,
                    &text,
                    format!(
                        "the score does not mention {text}, so every candidate scores the same"
                    ),
                    format!(
                        "BY COUNT(*) FILTER (WHERE x >= {text}), or BY SUM of an expression with {text}"
                    ),
                )
                .into()),
            }
        }
        AggregateName::Avg
        | AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Spread(_)
        | AggregateName::Joint(_)
        | AggregateName::Unsupported(_) => Err(Refusal::new(
            Reason::Score,
            &text,
            format!(
                "{} cannot score candidates: one person can change it too much",
                clause.score.function
            ),
            "BY SUM(…), COUNT(*) FILTER (WHERE …) or REVENUE(bid, price)",
        )
        .into()),
    }
}
