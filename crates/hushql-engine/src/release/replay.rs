//! Replay: draws that were paid for before, and are shown again.
//!
//! In: the private aggregates of a release, and the earlier draws of some of its [`DrawSet`]s. Out:
//! the draws that are replayed. One record says what is replayed; it decides both whether a measure
//! is charged and whether it is drawn.
//!
//! ```text
//! COUNT(*) n, SUM(x) s; n was paid for before     n: the earlier column, not charged     s: drawn, and charged
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};

use super::draw_set::{DrawSet, Draws, Of};
use crate::analysis::{Measure, PrivateAggregate, ReleaseKind};

/// The charge that paid for a replayed draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PaidBy {
    /// Its number in the whole ledger.
    pub(crate) charge: i64,
    /// Its number as the ledger shows it to the analyst.
    pub(crate) number: i64,
}

/// The replayed draws of the private aggregates of a release.
#[derive(Debug, Default)]
pub(crate) struct ReplayedPart {
    whole: BTreeMap<usize, RecordBatch>,
    measures: BTreeMap<(usize, usize), Vec<ArrayRef>>,
    /// The charges that paid, by private aggregate and measure.
    charges: BTreeMap<(usize, usize), PaidBy>,
}

impl ReplayedPart {
    /// All that a private aggregate drew, if it is replayed as a whole.
    pub(crate) fn whole(&self, part: usize) -> Option<&RecordBatch> {
        self.whole.get(&part)
    }

    /// The columns of a measure, as [`places`] lists them, if the measure is replayed.
    pub(crate) fn measure(&self, part: usize, measure: usize) -> Option<&[ArrayRef]> {
        self.measures.get(&(part, measure)).map(Vec::as_slice)
    }

    /// True if a measure is replayed.
    pub(super) fn has(&self, part: usize, measure: usize) -> bool {
        self.whole.contains_key(&part) || self.measures.contains_key(&(part, measure))
    }

    /// Replays what a draw set drew and this charge paid for. Returns `None` and changes nothing if
    /// `drawn` does not fit the draw set.
    ///
    /// # Guarantee
    /// Either all draws of the set are replayed, or none.
    pub(super) fn show(
        &mut self,
        parts: &[PrivateAggregate],
        unit: &DrawSet,
        paid: PaidBy,
        drawn: Vec<RecordBatch>,
    ) -> Option<()> {
        if drawn.len() != unit.draws.len() {
            return None;
        }
        let mut more = Self::default();
        for (Draws { part, of }, batch) in unit.draws.iter().zip(drawn) {
            let own = parts.get(*part)?;
            match of {
                Of::All => {
                    let fields = types_of_whole(own);
                    is_of(&batch, &fields).then_some(())?;
                    if own.rows().is_some_and(|rows| u64::try_from(batch.num_rows()) != Ok(rows)) {
                        return None;
                    }
                    let own = (0..own.measures().len()).map(|at| ((*part, at), paid));
                    more.charges.extend(own);
                    more.whole.insert(*part, batch);
                }
                Of::Measures { measures, groups } => {
                    let columns = columns_of(own, measures, groups, &batch)?;
                    for (at, one) in measures.iter().zip(columns) {
                        more.measures.insert((*part, *at), one);
                        more.charges.insert((*part, *at), paid);
                    }
                }
            }
        }
        self.whole.extend(more.whole);
        self.measures.extend(more.measures);
        self.charges.extend(more.charges);
        Some(())
    }

    /// The number of the charge that paid for a measure, as the ledger shows it to the analyst.
    pub(super) fn number(&self, part: usize, measure: usize) -> Option<i64> {
        Some(self.charges.get(&(part, measure))?.number)
    }

    /// The charges that paid for replayed draws, each once, in order.
    pub(super) fn charges(&self) -> Vec<i64> {
        let charges: BTreeSet<i64> = self.charges.values().map(|paid| paid.charge).collect();
        charges.into_iter().collect()
    }

    /// The numbers of these charges, as the ledger shows them to the analyst.
    pub(super) fn numbers(&self) -> Vec<i64> {
        let numbers: BTreeSet<i64> = self.charges.values().map(|paid| paid.number).collect();
        numbers.into_iter().collect()
    }
}

/// The columns of these measures, in the order of the groups of their private aggregate, out of
/// what they drew in the order `groups`. `None` if that does not fit them.
pub(super) fn columns_of(
    part: &PrivateAggregate,
    measures: &[usize],
    groups: &[usize],
    batch: &RecordBatch,
) -> Option<Vec<Vec<ArrayRef>>> {
    let order = rows_of(part, &inverse(groups)?)?;
    let mut columns = batch.columns().iter();
    let mut all = Vec::with_capacity(measures.len());
    for at in measures {
        let measure = part.measures().get(*at)?;
        let types = types_of(measure, released_type(part, *at)?);
        let mut one = Vec::with_capacity(types.len());
        for data_type in types {
            let column = columns.next()?;
            let fits = *column.data_type() == data_type;
            (fits && column.len() == order.len()).then_some(())?;
            one.push(take(column, &order, None).ok()?);
        }
        all.push(one);
    }
    columns.next().is_none().then_some(all)
}

/// What a draw set drew, out of all that the private aggregates drew. `None` if it is missing.
pub(super) fn drawn_by(
    parts: &[PrivateAggregate],
    unit: &DrawSet,
    all: &[RecordBatch],
) -> Option<Vec<RecordBatch>> {
    let draws = unit.draws.iter().map(|Draws { part, of }| {
        let (own, batch) = (parts.get(*part)?, all.get(*part)?);
        match of {
            Of::All => Some(batch.clone()),
            Of::Measures { measures, groups } => {
                let order = rows_of(own, groups)?;
                (batch.num_rows() == order.len()).then_some(())?;
                let mut columns = Vec::new();
                for at in measures {
                    for place in places(own, *at) {
                        columns.push(take(batch.columns().get(place)?, &order, None).ok()?);
                    }
                }
                of_columns(columns)
            }
        }
    });
    draws.collect()
}

/// A batch of these columns, with placeholders as names.
fn of_columns(columns: Vec<ArrayRef>) -> Option<RecordBatch> {
    let field = |(i, column): (usize, &ArrayRef)| {
        Field::new(format!("c{i}"), column.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).ok()
}

/// True if the columns of a batch have these types.
fn is_of(batch: &RecordBatch, types: &[DataType]) -> bool {
    batch.columns().iter().map(|column| column.data_type()).eq(types)
}

/// The inverse of a permutation.
fn inverse(groups: &[usize]) -> Option<Vec<usize>> {
    let mut back = vec![None; groups.len()];
    for (at, group) in groups.iter().enumerate() {
        *back.get_mut(*group)? = Some(at);
    }
    back.into_iter().collect()
}

/// The rows of these groups. A choice of several rounds has one row for each round.
fn rows_of(part: &PrivateAggregate, groups: &[usize]) -> Option<UInt64Array> {
    let per_group = match &part.measures().first()?.release_kind {
        ReleaseKind::Number(_) => 1,
        ReleaseKind::Choice(choice) => choice.rounds,
    };
    let mut rows = Vec::new();
    for group in groups {
        let first = u64::try_from(*group).ok()?.checked_mul(per_group)?;
        rows.extend(first..first.checked_add(per_group)?);
    }
    Some(UInt64Array::from(rows))
}

/// True if a column beside the measure's own carries its accuracy: the rows behind a mean, or the ±
/// of a variance.
fn has_beside(measure: &Measure) -> bool {
    measure.is_mean() || measure.moments().is_some() || measure.joint().is_some()
}

/// The positions of a measure's columns among all that its private aggregate draws: its own column,
/// the one that carries its accuracy, and the position of the bound that was chosen for it.
pub(crate) fn places(part: &PrivateAggregate, at: usize) -> Vec<usize> {
    let (keys, measures) = (part.key_names().len(), part.measures());
    let Some(measure) = measures.get(at) else { return Vec::new() };
    let before =
        |has: &dyn Fn(&Measure) -> bool| measures.iter().take(at).filter(|m| has(m)).count();
    let has_rung = |measure: &Measure| measure.ladder.is_some();
    let beside = measures.iter().filter(|measure| has_beside(measure)).count();
    let mut places = vec![keys + at];
    if has_beside(measure) {
        places.push(keys + measures.len() + before(&has_beside));
    }
    if has_rung(measure) {
        places.push(keys + measures.len() + beside + before(&has_rung));
    }
    places
}

fn released_type(part: &PrivateAggregate, at: usize) -> Option<DataType> {
    let schema = part.released_schema();
    Some(schema.fields().get(part.key_names().len() + at)?.data_type().clone())
}

/// The types of a measure's columns, in the order of [`places`].
fn types_of(measure: &Measure, own: DataType) -> Vec<DataType> {
    let beside = usize::from(has_beside(measure)) + usize::from(measure.ladder.is_some());
    [vec![own], vec![DataType::Float64; beside]].concat()
}

/// The types of all columns that a private aggregate draws.
fn types_of_whole(part: &PrivateAggregate) -> Vec<DataType> {
    let schema = part.released_schema();
    let own = schema.fields().iter().map(|field| field.data_type().clone());
    let beside = part.measures().iter().filter(|measure| has_beside(measure)).count();
    let rungs = part.measures().iter().filter(|measure| measure.ladder.is_some()).count();
    own.chain(vec![DataType::Float64; beside + rungs]).collect()
}
