//! The identity of one measure as bytes: what is added up or chosen, and by which mechanism.
//!
//! In: a measure, its mechanism, and the encodings of the columns of its rows. Out: bytes that are
//! equal only for equal draws on equal rows. They contain neither the text of the release nor the
//! name of its column.

use super::encoded::EncodedFields;
use crate::analysis::{
    CandidateAxis, CandidateSource, Choice, Input, JointMoments, Ladder, LineScore, Measure,
    ReleaseKind, TermColumns, VarianceMoments,
};
use crate::dialect::MechanismName;
use crate::mechanism::quantile::many::parts_of_a_tick;
use crate::release::mechanism::{Mechanized, Together, Vector};

/// The identity of the draws of one measure: what is asked, and the mechanism that answers.
pub(super) fn of_measure(
    measure: &Measure,
    mechanized: &Mechanized,
    column: &dyn Fn(usize) -> Option<EncodedFields>,
) -> Option<EncodedFields> {
    let mut all = of_question(measure, column)?;
    let Mechanized { mechanism, loss, accuracy, rank, instead: _, together } = mechanized;
    all.debug(mechanism);
    all.debug(loss);
    // Consistent numbers are drawn like others; the accuracy that they have is not part of the
    // draw.
    all.debug(&measure.clause.consistent.is_none().then_some(accuracy));
    all.debug(rank);
    all.nested(&of_together(together.as_ref()));
    Some(all)
}

/// The identity of what is added up or chosen. Two measures with equal bytes have the same exact
/// numbers on equal rows if no bound cuts any of them, and the same sensitivity.
pub(super) fn of_question(
    measure: &Measure,
    column: &dyn Fn(usize) -> Option<EncodedFields>,
) -> Option<EncodedFields> {
    let Measure {
        clause,
        column: _,
        data_type,
        input,
        filter,
        grid,
        lo,
        hi,
        limits,
        release_kind,
        ladder,
        replaced,
    } = measure;
    let mut all = EncodedFields::of("measure");
    // Randomized response answers for the entries of a roster; any other choice answers for its
    // rows.
    all.debug(&(clause.mechanism == MechanismName::RandomizedResponse));
    all.debug(data_type);
    all.nested(&of_input(input, column)?);
    all.nested(&optional(*filter, column)?);
    all.debug(grid);
    all.debug(&(lo, hi));
    all.debug(limits);
    // Keys of earlier vaults stay as they are.
    if let Some(replaced) = replaced {
        all.debug(replaced);
    }
    // It does not matter which of the measures chooses the bound: all measures that share it are
    // recognised together.
    all.debug(&ladder.as_ref().map(|ladder| Ladder { follows: None, ..ladder.clone() }));
    match release_kind {
        ReleaseKind::Number(sensitivity) => {
            all.text("number");
            all.debug(sensitivity);
        }
        ReleaseKind::Choice(choice) => {
            all.text("choice");
            all.nested(&of_choice(choice)?);
        }
    }
    Some(all)
}

fn optional(
    at: Option<usize>,
    column: &dyn Fn(usize) -> Option<EncodedFields>,
) -> Option<EncodedFields> {
    let mut all = EncodedFields::default();
    match at {
        Some(at) => all.optional(Some(&column(at)?)),
        None => all.optional(None),
    }
    Some(all)
}

fn of_input(
    input: &Input,
    column: &dyn Fn(usize) -> Option<EncodedFields>,
) -> Option<EncodedFields> {
    let of = |kind: &str, at: usize| Some(EncodedFields::of(kind).with(&column(at)?));
    match input {
        Input::Rows => Some(EncodedFields::of("rows")),
        Input::Units => Some(EncodedFields::of("units")),
        Input::Values(at) => of("values", *at),
        Input::Distinct(at) => of("distinct", *at),
        Input::Sum(at) => of("sum", *at),
        Input::Mean(at) => of("mean", *at),
        Input::SumPerUnit(at) => of("sum per unit", *at),
        Input::MeanPerUnit(at) => of("mean per unit", *at),
        Input::Moments(VarianceMoments { column: at, shift, spread }) => {
            let mut all = of("moments", *at)?;
            all.debug(&(shift, spread));
            Some(all)
        }
        Input::Joint(JointMoments { column: at, pairs, joint }) => {
            let mut all = of("joint", *at)?;
            all.debug(&(pairs, joint));
            Some(all)
        }
        Input::Terms { kind, columns } => {
            // The kind is encoded once, with a placeholder for its column: each term has its own
            // column.
            let kind = of_input(kind, &|_| Some(EncodedFields::of("of the term")))?;
            let mut all = EncodedFields::of("terms").with(&kind);
            for TermColumns { lo, hi, value, filter } in columns {
                all.debug(&(lo, hi));
                all.nested(&optional(*value, column)?);
                all.nested(&optional(*filter, column)?);
            }
            Some(all)
        }
        Input::Bins { place, bins } => {
            let mut all = of("bins", *place)?;
            all.debug(bins);
            Some(all)
        }
        Input::Places { place, weight } => {
            let mut all = of("places", *place)?;
            all.nested(&optional(*weight, column)?);
            Some(all)
        }
    }
}

fn of_choice(choice: &Choice) -> Option<EncodedFields> {
    let Choice {
        selector,
        rounds,
        outer,
        source,
        prior,
        range,
        largest,
        l1,
        sizes,
        sharing,
        unit,
        tried,
        missing,
    } = choice;
    let mut all = EncodedFields::default();
    all.debug(&(selector, rounds, outer, prior));
    all.debug(&(range, largest, l1, sizes, sharing, unit, tried));
    // Keys of earlier vaults stay as they are.
    if let Some(missing) = missing {
        all.debug(missing);
    }
    match source {
        CandidateSource::Keys(candidates) => {
            all.text("keys");
            all.debug(candidates);
        }
        CandidateSource::Each(axis) => {
            all.text("each");
            all.nested(&of_axis(axis)?);
        }
        CandidateSource::Line { axis, score } => {
            all.text("line");
            all.nested(&of_axis(axis)?);
            all.debug(score);
            if let LineScore::Quantiles(_) = score {
                all.debug(&parts_of_a_tick(axis.count()));
            }
        }
        CandidateSource::Unknown { per_unit } => {
            all.text("unknown");
            all.debug(per_unit);
        }
    }
    Some(all)
}

/// Encodes each value, because the text of a long column leaves out its middle.
fn of_axis(axis: &CandidateAxis) -> Option<EncodedFields> {
    let mut all = EncodedFields::default();
    match axis {
        CandidateAxis::Listed(values) => {
            all.text("listed");
            all.column(values)?;
        }
        CandidateAxis::Ticks(ticks) => {
            all.text("ticks");
            all.debug(ticks);
        }
    }
    Some(all)
}

/// How a number is read from a shared vector. The places and texts of the other numbers are left
/// out, because all numbers of a vector are recognised together.
fn of_together(together: Option<&Together>) -> EncodedFields {
    let mut all = EncodedFields::default();
    let Some(Together { vector, part, lo, width, unit, others: _, in_rho }) = together else {
        return all;
    };
    all.text(match vector {
        Vector::Mean(_) => "mean",
        Vector::Sums { .. } => "sums",
        Vector::Moments(_) => "moments",
    });
    all.debug(&(part, lo, width, unit, in_rho));
    all
}
