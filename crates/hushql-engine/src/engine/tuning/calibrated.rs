//! What a setting of a question enforces and how noisy it is, as its analysis says.
//!
//! In: a calibrated release of one number. Out: a [`Calibrated`] setting: the bounds of a person's
//! rows and of values, the noise, the keys, and the threshold of groups that the data name.
//! Everything is read from the release that EXPLAIN would explain.

use std::collections::BTreeSet;

use arrow::array::ArrayRef;
use arrow::util::display::array_value_to_string;
use hushql_exec::operator::bound_contributions::EnforcedBounds;

use crate::analysis::{Compares, Input, Measure, PrivateAggregate, approximate};
use crate::dialect::Finding;
use crate::privacy::{Rational, decimal_text};
use crate::refusal::{Reason, Refusal};
use crate::release::{Predicted, Release};

/// What is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TunedAggregate {
    /// COUNT(*).
    Rows,
    /// COUNT(x).
    Values,
    /// SUM(x).
    Sum,
    /// AVG(x).
    Mean,
}

/// The half width of the noise, with 95 %.
#[derive(Debug, Clone, Copy)]
pub(super) enum NoiseWidth {
    /// Of every group.
    Same(f64),
    /// This divided by the number of rows of a group.
    OverCount(f64),
}

/// What hides groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupThreshold {
    /// The number that is compared.
    pub(super) compares: Compares,
    /// The least number that is shown, in the unit of that number.
    pub(super) at_least: f64,
}

/// An analyzed setting.
#[derive(Debug)]
pub(super) struct Calibrated {
    pub(super) counted: TunedAggregate,
    pub(super) noise: NoiseWidth,
    /// The enforced bounds of a person's rows.
    pub(super) bounds: EnforcedBounds,
    /// The least and the greatest value of a row.
    pub(super) ends: [f64; 2],
    /// The same as they are written in SQL.
    pub(super) written_ends: [String; 2],
    /// The keys that come out; `None` if the data name them.
    pub(super) keys: Option<BTreeSet<String>>,
    pub(super) threshold: Option<GroupThreshold>,
    /// The most rows of one person that the declarations allow.
    pub(super) most_rows: Option<u64>,
    /// True if a column says whose a row is, and people may have several rows.
    pub(super) has_people: bool,
    /// True with GROUP BY.
    pub(super) is_grouped: bool,
}

/// The setting that a release calibrates.
///
/// # Guarantee
/// `bounds` and `ends` are those that the execution of this release enforces.
///
/// # Errors
/// Refuses a release that is more than one number of a private table with known bounds.
pub(super) fn calibrated(release: &Release) -> Result<Calibrated, Refusal> {
    let mut all = release.analysis().parts().iter().flat_map(PrivateAggregate::measures);
    if let Some(found) = all.find(|one| one.clause.finding.is_some() || one.ladder.is_some()) {
        return Err(no_bounds(found));
    }
    let [part] = release.analysis().parts() else {
        return Err(not_tuned("it does not read exactly one private table"));
    };
    let ([measure], [mechanized]) = (part.measures(), release.mechanisms(0)) else {
        return Err(not_tuned("a floor of people or another number is drawn beside it"));
    };
    let counted = match &measure.input {
        Input::Rows => TunedAggregate::Rows,
        Input::Values(_) => TunedAggregate::Values,
        Input::Sum(_) => TunedAggregate::Sum,
        Input::Mean(_) => TunedAggregate::Mean,
        Input::Units
        | Input::Distinct(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => {
            return Err(not_tuned("it is no COUNT, SUM or AVG of rows"));
        }
    };
    let noise = match mechanized.accuracy {
        Predicted::Within(width) => NoiseWidth::Same(width),
        Predicted::WithinOverCount(width) => NoiseWidth::OverCount(width),
        Predicted::Spread { .. }
        | Predicted::Winner { .. }
        | Predicted::WinnerBySize { .. }
        | Predicted::Rank { .. }
        | Predicted::Truthful(_)
        | Predicted::Nothing => return Err(not_tuned("its noise has no known width")),
    };
    let threshold = release.partition_selection(0).map(|hidden| {
        let steps = Rational::from_integer(hidden.at_least().into());
        let at_least = match hidden.compares() {
            Compares::Units | Compares::Rows => approximate(&steps),
            Compares::Values { .. } => approximate(&(steps * measure.grid_unit())),
        };
        GroupThreshold { compares: hidden.compares(), at_least }
    });
    let keys = match part.keys().are_unknown() {
        true => None,
        false => Some(listed_keys(part)?),
    };
    let end = |steps: i128| Rational::from_integer(steps.into()) * measure.grid_unit();
    let (lo, hi) = (end(measure.lo), end(measure.hi));
    let subject = part.subject();
    Ok(Calibrated {
        counted,
        noise,
        bounds: EnforcedBounds {
            total: measure.limits.total,
            per_partition: Some(measure.limits.per_partition),
            l0: measure.limits.l0,
        },
        ends: [approximate(&lo), approximate(&hi)],
        written_ends: [decimal_text(&lo, 9), decimal_text(&hi, 9)],
        keys,
        threshold,
        most_rows: subject.max_rows(),
        has_people: !subject.is_row() && subject.max_rows() != Some(1),
        is_grouped: !part.key_names().is_empty(),
    })
}

/// The keys that come out, as texts.
fn listed_keys(part: &PrivateAggregate) -> Result<BTreeSet<String>, Refusal> {
    let keys = part.keys().all();
    let texts = (0..keys.len()).map(|row| key_text(keys.columns(), row));
    texts.collect::<Option<_>>().ok_or_else(|| not_tuned("its keys have no text"))
}

/// The keys of a row as one text, in which the ends of each key can be told.
pub(super) fn key_text(columns: &[ArrayRef], row: usize) -> Option<String> {
    let mut all = String::new();
    for column in columns {
        if column.is_null(row) {
            all.push('-');
            continue;
        }
        let text = array_value_to_string(column, row).ok()?;
        all.push_str(&format!("{}:{text}", text.len()));
    }
    Some(all)
}

fn not_tuned(why: &str) -> Refusal {
    Refusal::new(
        Reason::NotYet,
        "TUNE",
        format!("the bounds of this question are not tried: {why}"),
        "one COUNT(*), COUNT(x), SUM(x) or AVG(x) of one private table, such as LAPLACE(eps=1) SUM(CLAMP(x, 0, 100))",
    )
}

/// The refusal of an aggregate whose bounds are found on private rows.
fn no_bounds(measure: &Measure) -> Refusal {
    let text = Finding::as_written(&measure.clause.text);
    Refusal::new(
        Reason::NoRange,
        text,
        format!(
            "the values of {text} have no declared range: its bounds would be found on private rows"
        ),
        "CLAMP(x, lo, hi) in the place of x, with ends that are wide enough: TUNE tries narrower ones",
    )
}
