//! Stage 7: the answer: rows, how accurate they are, and what they cost.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;

use crate::exec::Rows;
use crate::privacy::{Cost, Spend};
use crate::release::{CONFIDENCE, Predicted, Release};
use crate::visible;

/// What an accuracy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccuracyKind {
    /// The column's numbers are within the value of the bounded aggregate.
    Within,
    /// The winner's score is within the value of the best score.
    Winner,
    /// The value's rank is within the value of the best rank that a candidate has, in rows.
    Rank,
    /// On average the winner's score, or the value's rank, is within the value of the best.
    Average,
    /// The value is the probability with which each answer is the entry's own.
    Truthful,
}

impl fmt::Display for AccuracyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Within => "within",
            Self::Winner => "winner",
            Self::Rank => "rank",
            Self::Average => "average",
            Self::Truthful => "truthful",
        })
    }
}

/// How accurate one released column is. It speaks of the noise alone: what bounding contributions and
/// clamping values cut is not in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// The answer's column.
    pub column: String,
    /// What the value says.
    pub kind: AccuracyKind,
    /// The bound, in the column's or the score's own unit.
    pub value: f64,
    /// The probability with which it holds; 0.95, or 1 for an average or a probability.
    pub confidence: f64,
}

/// What a query cost and what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// What was charged, in the notions that the touched budgets count in.
    pub spent: Cost,
    /// What every touched budget has left, by name.
    pub left: Vec<(String, Spend)>,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cost {}", self.spent)?;
        for (budget, left) in &self.left {
            write!(f, " · left {} {left}", visible::line(budget))?;
        }
        Ok(())
    }
}

/// The answer to a query.
#[derive(Debug, Clone)]
pub struct Answer {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    accuracy: Vec<Accuracy>,
    notes: Vec<String>,
    receipt: Option<Receipt>,
}

impl Answer {
    pub(crate) fn new(rows: Rows, release: &Release, receipt: Option<Receipt>) -> Self {
        let accuracy = (0..rows.schema.fields().len())
            .flat_map(|output| accuracy(release, output, &rows))
            .collect();
        let notes = notes(release);
        Self { schema: rows.schema, batches: rows.batches, accuracy, notes, receipt }
    }

    /// An answer that was read off released numbers, with a note of how.
    pub(crate) fn proposed(batch: RecordBatch, note: String, receipt: Option<Receipt>) -> Self {
        let (accuracy, notes) = (Vec::new(), vec![note]);
        Self { schema: batch.schema(), batches: vec![batch], accuracy, notes, receipt }
    }

    /// An answer that no mechanism made: a look at the catalog.
    pub(crate) fn public(batch: RecordBatch) -> Self {
        let (accuracy, notes) = (Vec::new(), Vec::new());
        Self { schema: batch.schema(), batches: vec![batch], accuracy, notes, receipt: None }
    }

    /// The rows, in order.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// How accurate the released columns are; columns computed from them have no entry.
    pub fn accuracy(&self) -> &[Accuracy] {
        &self.accuracy
    }

    /// What is not in the rows by design: groups of few units. The same whatever the data.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What it cost; `None` for what cost nothing.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let empty = RecordBatch::new_empty(self.schema());
        let batches =
            if self.batches.is_empty() { std::slice::from_ref(&empty) } else { &self.batches };
        let batches: Result<Vec<_>, _> = batches.iter().map(spelled_out).collect();
        let table =
            batches.and_then(|batches| pretty_format_batches(&batches).map(|t| t.to_string()));
        f.write_str(&table.map_err(|_| fmt::Error)?)?;
        for accuracy in &self.accuracy {
            let Accuracy { column, kind, value, confidence } = accuracy;
            let column = visible::line(column);
            match kind {
                AccuracyKind::Within => {
                    write!(f, "\n{column}: ± {} with {} %", short(*value), confidence * 100.0)?;
                }
                AccuracyKind::Winner => write!(
                    f,
                    "\n{column}: within {} of the best score with {} %",
                    short(*value),
                    confidence * 100.0
                )?,
                AccuracyKind::Rank => write!(
                    f,
                    "\n{column}: within {} rows of the rank asked for with {} %",
                    short(*value),
                    confidence * 100.0
                )?,
                AccuracyKind::Average => {
                    write!(f, "\n{column}: within {} of the best on average", short(*value))?;
                }
                AccuracyKind::Truthful => {
                    write!(f, "\n{column}: each answer truthful with {} %", short(value * 100.0))?;
                }
            }
        }
        for note in &self.notes {
            write!(f, "\n{}", visible::line(note))?;
        }
        if let Some(receipt) = &self.receipt {
            write!(f, "\n{receipt}")?;
        }
        Ok(())
    }
}

/// A batch as texts, in which no cell and no name steers the terminal that shows them.
fn spelled_out(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let options = FormatOptions::default();
    let texts = |array: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
        let text = |row| match array.is_null(row) {
            true => Ok(None),
            false => {
                let text = formatter.value(row).try_to_string()?;
                Ok(Some(visible::line(&text).into_owned()))
            }
        };
        let texts = (0..array.len()).map(text).collect::<Result<StringArray, ArrowError>>()?;
        Ok(Arc::new(texts))
    };
    let name = |field: &Arc<Field>| Field::new(visible::line(field.name()), DataType::Utf8, true);
    let schema = Schema::new(batch.schema().fields().iter().map(name).collect::<Vec<_>>());
    let columns = batch.columns().iter().map(texts).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(Arc::new(schema), columns)
}

/// A number with three significant digits, for people; [`Accuracy`] holds the exact bound.
pub(crate) fn short(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return value.max(0.0).to_string();
    }
    let magnitude = value.log10().floor();
    let step = 10_f64.powf(magnitude - 2.0);
    let rounded = (value / step).round() * step;
    let places = (2.0 - magnitude).max(0.0);
    format!("{rounded:.*}", decimals(places))
}

/// A small whole float as a number of digits.
fn decimals(places: f64) -> usize {
    (0..=20_u8).find(|n| f64::from(*n) >= places).map_or(20, usize::from)
}

/// What the reader of the rows should know beside them.
fn notes(release: &Release) -> Vec<String> {
    let hidden = (0..release.analysis().parts().len()).filter_map(|i| release.hidden_groups(i));
    hidden
        .map(|hidden| {
            format!(
                "groups come out from a noisy number of {} units on; smaller ones are hidden",
                hidden.at_least()
            )
        })
        .collect()
}

fn accuracy(release: &Release, output: usize, rows: &Rows) -> Vec<Accuracy> {
    let Some((part, measure)) = release.analysis().origin(output) else { return Vec::new() };
    let Some(mechanized) = release.mechanisms(part).get(measure) else { return Vec::new() };
    let column = rows.schema.field(output).name();
    let one =
        |kind, value, confidence| Accuracy { column: column.clone(), kind, value, confidence };
    match mechanized.accuracy {
        Predicted::Within(value) => vec![one(AccuracyKind::Within, value, CONFIDENCE)],
        Predicted::WithinOverCount(value) => {
            // For the group with the fewest rows, by the noisy count: the bound holds for every group.
            let least = rows.mean_rows.get(part).and_then(|m| m.get(measure)).copied().flatten();
            match least {
                Some(n) if n.is_finite() => {
                    vec![one(AccuracyKind::Within, value / n, CONFIDENCE)]
                }
                Some(_) | None => Vec::new(),
            }
        }
        Predicted::Spread { .. } => {
            // Every group has a ± of its own; the largest holds for all.
            let most = rows.mean_rows.get(part).and_then(|m| m.get(measure)).copied().flatten();
            let most = most.filter(|within| within.is_finite());
            most.map(|within| one(AccuracyKind::Within, within, CONFIDENCE)).into_iter().collect()
        }
        Predicted::Rank { worst, average } => vec![
            one(AccuracyKind::Rank, worst, CONFIDENCE),
            one(AccuracyKind::Average, average, 1.0),
        ],
        Predicted::Winner { worst, average } => vec![
            one(AccuracyKind::Winner, worst, CONFIDENCE),
            one(AccuracyKind::Average, average, 1.0),
        ],
        Predicted::Truthful(value) => vec![one(AccuracyKind::Truthful, value, 1.0)],
        Predicted::Nothing => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn accuracies_have_three_digits() {
        for (value, text) in [
            (4.941_642, "4.94"),
            (1.945_910, "1.95"),
            (3.0, "3.00"),
            (0.001_234, "0.00123"),
            (123_456.0, "123000"),
            (0.0, "0"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }
}
