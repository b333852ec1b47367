//! Stage 8: the answer, with its rows, their accuracy and their cost.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;

use crate::analysis::null_keys::null_key_note;
use crate::analysis::{Compares, EndTold, Origin};
use crate::dialect::Finding;
use crate::exec::{Drawn, at_end};
use crate::privacy::{Delta, Spend};
use crate::release::bounds_that_cut::cut_text;
use crate::release::exact_text::{bound_note, steps_text};
use crate::release::mechanism::Predicted;
use crate::release::mostly_noise::{FEW_ROWS, mostly_noise_below};
use crate::release::{CONFIDENCE, Release};
use crate::visible::{self, rounded};

mod accuracy;
mod consistent_notes;
mod crossed_extremes;
pub(crate) mod drowned;
pub(crate) mod file_answer;
mod floor_notes;
mod found_bounds;
mod moment_notes;
mod receipt;

use accuracy::{is_chosen, rank_kind};
use consistent_notes::consistent_notes;
use drowned::{NumberColumn, Remedy, remedies};
use floor_notes::floor_notes;
use found_bounds::{found_bounds_notes, unit_of};
use moment_notes::moment_notes;

pub use accuracy::{Accuracy, AccuracyKind};
pub use receipt::Receipt;
pub(crate) use receipt::charges_text;

/// The answer to a query. It prints itself as a table, followed by its accuracy and its receipt.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let sql = "SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY status";
/// let answer = session.query(sql).await?;
/// assert_eq!(answer.schema().field(1).name(), "n");
/// assert_eq!(answer.batches()[0].column(0).len(), answer.batches()[0].num_rows());
/// assert!(answer.receipt().is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Answer {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// For each batch and column, the error of each number, if errors are given row by row.
    errors: Vec<Vec<Option<ArrayRef>>>,
    accuracy: Vec<Accuracy>,
    notes: Vec<String>,
    receipt: Option<Box<Receipt>>,
}

impl Answer {
    /// An answer from batches of rows, each with the errors of its columns.
    pub(crate) fn new(head: Head, rows: Vec<(RecordBatch, Vec<Option<ArrayRef>>)>) -> Self {
        let Head { schema, mut accuracy, mut notes, receipt, without_bound, remedies } = head;
        let (batches, errors): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        // For a column that is computed from released numbers, the accuracy is the largest error of
        // its rows.
        for (i, field) in schema.fields().iter().enumerate() {
            let own = errors.iter().filter_map(|columns| columns.get(i)?.as_ref());
            let own = own.filter_map(|errors| errors.as_primitive_opt::<Float64Type>());
            let most = own.flat_map(|errors| errors.iter().flatten()).reduce(f64::max);
            let is_told = accuracy.iter().any(|one: &Accuracy| one.column == *field.name());
            if let (Some(value), false) = (most, is_told) {
                let (column, kind) = (field.name().clone(), AccuracyKind::Within);
                accuracy.push(Accuracy { column, kind, value, confidence: CONFIDENCE });
            }
        }
        for (i, why) in without_bound.iter().enumerate() {
            if let Some(name) = column_without_error(&schema, i, &batches, &errors) {
                notes.push(format!("{name}: no ±, since {why}"));
            }
        }
        let receipt = receipt.map(Box::new);
        let mut answer = Self { schema, batches, errors, accuracy, notes, receipt };
        let columns = remedies.iter().enumerate();
        let drowned = columns.filter_map(|(i, remedy)| answer.numbers(i)?.note(remedy));
        let drowned: Vec<String> = drowned.collect();
        answer.notes.extend(drowned);
        answer
    }

    /// The numbers of a column with their errors; `None` for a column of anything else.
    fn numbers(&self, column: usize) -> Option<NumberColumn<'_>> {
        let name = self.schema.fields().get(column)?.name();
        let mut told = self.accuracy.iter();
        let drawn = told.find(|one| one.column == *name && one.kind == AccuracyKind::Drawn);
        Some(NumberColumn {
            name,
            values: drowned::numbers(&self.batches, column)?,
            errors: self.errors(column).collect(),
            drawn: drawn.map(|one| one.value),
        })
    }

    pub(crate) fn into_parts(self) -> (Head, Vec<RecordBatch>) {
        let Self { schema, batches, errors: _, accuracy, notes, receipt } = self;
        let receipt = receipt.map(|receipt| *receipt);
        let (without_bound, remedies) = (Vec::new(), Vec::new());
        (Head { schema, accuracy, notes, receipt, without_bound, remedies }, batches)
    }

    /// The rows, each batch with the errors of its columns.
    pub(crate) fn rows(&self) -> Vec<(RecordBatch, Vec<Option<ArrayRef>>)> {
        let errors = |i| self.errors.get(i).cloned().unwrap_or_default();
        self.batches.iter().enumerate().map(|(i, batch)| (batch.clone(), errors(i))).collect()
    }

    /// Adds a note.
    #[must_use]
    pub(crate) fn noted(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }

    /// An answer that was read from released numbers, with a note that says how.
    pub(crate) fn proposed(batch: RecordBatch, note: String, receipt: Option<Receipt>) -> Self {
        let (accuracy, notes) = (Vec::new(), vec![note]);
        let errors = Vec::new();
        let receipt = receipt.map(Box::new);
        Self { schema: batch.schema(), batches: vec![batch], errors, accuracy, notes, receipt }
    }

    /// An answer without a mechanism, such as one about the catalog.
    pub(crate) fn public(batch: RecordBatch) -> Self {
        let (accuracy, notes) = (Vec::new(), Vec::new());
        let (schema, errors) = (batch.schema(), Vec::new());
        Self { schema, batches: vec![batch], errors, accuracy, notes, receipt: None }
    }

    /// The rows, in order.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(answer.batches()[0].num_rows(), 1);
    /// # Ok(()) }
    /// ```
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The columns.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(answer.schema().field(0).name(), "n");
    /// # Ok(()) }
    /// ```
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The error of each number of a column, row by row, with 95 %. It covers the noise, not what
    /// bounding contributions and clamping values cut. `None` for NULL, for values that are not
    /// numbers, and if no ± is known. A number that is computed from released ones has the error
    /// that follows from their errors.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT sex, AVG(age) AS mean, COUNT(*) / 1000.0 AS thousands FROM adult GROUP BY sex";
    /// let answer = session.query(sql).await?;
    /// let errors: Vec<Option<f64>> = answer.errors(1).collect();
    /// assert!(errors[0] < errors[1], "there are more men than women in these data");
    /// assert!(answer.errors(2).all(|error| error.is_some_and(|error| error < 0.1)));
    /// # Ok(()) }
    /// ```
    pub fn errors(&self, column: usize) -> impl Iterator<Item = Option<f64>> + '_ {
        let name = self.schema.fields().get(column).map(|field| field.name());
        let within =
            |one: &&Accuracy| Some(&one.column) == name && one.kind == AccuracyKind::Within;
        let all = self.accuracy.iter().find(within).map(|one| one.value);
        self.batches.iter().enumerate().flat_map(move |(i, batch)| {
            let own = self.errors.get(i).and_then(|columns| columns.get(column)?.as_ref());
            let own = own.and_then(|errors| errors.as_primitive_opt::<Float64Type>());
            let values = batch.columns().get(column);
            (0..batch.num_rows()).map(move |row| {
                let is_valid = values.is_some_and(|values| values.is_valid(row));
                let error = match own {
                    Some(own) => own.is_valid(row).then(|| own.value(row)),
                    None => all,
                };
                error.filter(|_| is_valid)
            })
        })
    }

    /// How accurate the released columns are, each in its worst row. A choice by which rows are
    /// chosen has no entry.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(answer.accuracy()[0].value, 6.0);
    /// # Ok(()) }
    /// ```
    pub fn accuracy(&self) -> &[Accuracy] {
        &self.accuracy
    }

    /// What the reader should know beside the rows: which groups are hidden by design, which
    /// columns have no ± and why, and which bounds were drawn. The notes follow from the plan and
    /// from the released values.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY status HAVING n > 1000";
    /// println!("{:?}", session.query(sql).await?.notes());
    /// # Ok(()) }
    /// ```
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The remarks about the rows, one sentence each: the accuracy of the columns, the notes, and
    /// the receipt.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// let remarks: Vec<String> = answer.remarks().collect();
    /// assert!(remarks.iter().any(|remark| remark.contains("cost ε = 0.5")));
    /// # Ok(()) }
    /// ```
    pub fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let accuracy = self.accuracy.iter().filter_map(Accuracy::line);
        let notes = self.notes.iter().map(|note| visible::line(note).into_owned());
        accuracy.chain(notes).chain(self.receipt.iter().map(|receipt| receipt.to_string()))
    }

    /// Replaces what the receipt says is left.
    pub(crate) fn with_left(mut self, left: Vec<(String, Spend)>) -> Self {
        if let Some(receipt) = &mut self.receipt {
            receipt.left = left;
        }
        self
    }

    /// The receipt. `None` if the answer cost nothing.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// let receipt = answer.receipt().expect("the count was charged");
    /// assert_eq!(receipt.spent.to_string(), "ε = 0.5");
    /// # Ok(()) }
    /// ```
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_deref()
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
        self.remarks().try_for_each(|remark| write!(f, "\n{remark}"))
    }
}

/// A batch as texts in which no cell and no name can control the terminal that shows them.
fn spelled_out(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let options = FormatOptions::default().with_null("NULL");
    let texts = |array: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
        // `is_null` would not do: it is false for every entry of a column of type NULL.
        let nulls = array.logical_nulls();
        let text = |row| match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            // An empty cell would look like an empty text.
            true => Ok(Some("NULL".to_owned())),
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

/// What is known about an answer before its first row.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) schema: SchemaRef,
    pub(crate) accuracy: Vec<Accuracy>,
    pub(crate) notes: Vec<String>,
    pub(crate) receipt: Option<Receipt>,
    /// For each column, why it has no error, in case it has none on any row.
    pub(crate) without_bound: Vec<&'static str>,
    /// For each column, what to write if its numbers drown.
    pub(crate) remedies: Vec<Remedy>,
}

impl Head {
    pub(crate) fn new(drawn: &Drawn, release: &Release, receipt: Option<Receipt>) -> Self {
        let outputs = 0..drawn.schema.fields().len();
        let accuracy = outputs.flat_map(|output| accuracy(release, output, drawn)).collect();
        let schema = SchemaRef::clone(&drawn.schema);
        let outputs = 0..drawn.schema.fields().len();
        let without_bound = outputs.map(|output| release.without_bound(output)).collect();
        let (notes, remedies) = (notes(release, drawn), remedies(release, drawn));
        Self { schema, accuracy, notes, receipt, without_bound, remedies }
    }

    /// The same without remarks, which would name tables and columns of the query.
    pub(crate) fn without_remarks(mut self) -> Self {
        self.notes.clear();
        self.remedies.clear();
        self.without_bound.clear();
        self
    }
}

/// The name of a column of numbers that should have errors, but has none on any row.
fn column_without_error<'a>(
    schema: &'a SchemaRef,
    column: usize,
    batches: &[RecordBatch],
    errors: &[Vec<Option<ArrayRef>>],
) -> Option<&'a str> {
    let mut numbers = false;
    for (batch, errors) in batches.iter().zip(errors) {
        let own = errors.get(column)?.as_ref()?;
        if own.null_count() < own.len() {
            return None;
        }
        let values = batch.columns().get(column)?;
        numbers |= values.null_count() < values.len();
    }
    numbers.then(|| schema.field(column).name().as_str())
}

/// The notes for the reader of the rows.
fn notes(release: &Release, drawn: &Drawn) -> Vec<String> {
    let analysis = release.analysis();
    let hidden = analysis.parts().iter().enumerate().filter_map(|(i, part)| {
        let hidden = release.partition_selection(i)?;
        let least = steps_text(part, hidden.counter(), hidden.at_least());
        let measure = hidden.counter().and_then(|i| part.measures().get(i));
        let note = match (hidden.compares(), measure) {
            (Compares::Values { .. }, Some(measure)) => format!(
                "groups come out from a noisy {} of {least} on; those of smaller sums are hidden",
                measure.clause.text
            ),
            (Compares::Rows, _) => format!(
                "groups come out from a noisy number of {least} rows on; smaller ones are hidden"
            ),
            (Compares::Units | Compares::Values { .. }, _) => format!(
                "groups come out from a noisy number of {least} units on; smaller ones are hidden"
            ),
        };
        let by_default = part.default_delta();
        Some(note + &by_default.map_or_else(String::new, |delta| format!("; {}", by_budget(delta))))
    });
    let outputs = 0..drawn.schema.fields().len();
    let chosen = outputs.filter_map(|output| {
        let origin = analysis.origin(output).filter(|origin| is_chosen(release, origin))?;
        let name = drawn.schema.field(output).name();
        let one = release.mechanisms(origin.part).get(origin.measure)?;
        Some(match within(release, output, origin, one.accuracy, drawn) {
            Some(value) => format!(
                "{name}: no ±, since {name} itself decides which rows are shown: it was drawn within {} with {} %, but what is shown \
                 because it came out large is off by more, more often",
                rounded(value),
                CONFIDENCE * 100.0
            ),
            None => format!(
                "{name}: how accurate it is cannot be said, since {name} itself decides which rows are shown"
            ),
        })
    });
    let bounds = found_bounds_notes(release, drawn);
    let outputs = 0..drawn.schema.fields().len();
    let computed = outputs.filter_map(|output| {
        let field = drawn.schema.field(output);
        // Ranks and row numbers have this type.
        let is_number = field.data_type().is_numeric() && *field.data_type() != DataType::UInt64;
        let why = release.without_error(output).filter(|_| is_number)?;
        Some(format!("{}: no ±, since {why}", field.name()))
    });
    let outputs = 0..drawn.schema.fields().len();
    let numbers = outputs.flat_map(|output| number_notes(release, drawn, output));
    let ends = analysis.called_ends().map_or(&[][..], |called| &called.told);
    let ends = ends.iter().filter_map(EndTold::note);
    let consistent = consistent_notes(release);
    let notes = hidden
        .chain(chosen)
        .chain(consistent)
        .chain(computed)
        .chain(numbers)
        .chain(ends)
        .chain(moment_notes(analysis))
        .chain(bounds);
    let mut notes: Vec<String> = notes.chain(chosen_bounds(release, drawn)).collect();
    notes.extend((0..analysis.parts().len()).flat_map(|part| {
        [floor_notes(release, part), crossed_extremes::notes(release, drawn, part)].concat()
    }));
    notes.extend(null_key_note(analysis.parts()));
    let choices = analysis.parts().iter().filter(|part| part.unknown_partitions().is_none());
    notes.extend(choices.filter_map(|part| {
        let (delta, measure) = (part.default_delta()?, part.measures().first()?);
        Some(format!(
            "{}: chosen among values of many people; {}",
            measure.clause.text,
            by_budget(delta)
        ))
    }));
    // SELECT, HAVING and ORDER BY may name the same sum. Each is a release, and their notes are
    // equal.
    let mut said = BTreeSet::new();
    notes.retain(|note| said.insert(note.clone()));
    notes
}

/// Who states a δ that the query does not.
fn by_budget(delta: &Delta) -> String {
    format!("δ = {delta} is the budget's default")
}

/// The notes on one number: where it is mostly noise, and what its bounds cut.
fn number_notes(release: &Release, drawn: &Drawn, output: usize) -> impl Iterator<Item = String> {
    let notes = release.analysis().origin(output).and_then(|origin| {
        let part = release.analysis().parts().get(origin.part)?;
        let measure = part.measures().get(origin.measure)?;
        let accuracy = release.mechanisms(origin.part).get(origin.measure)?.accuracy;
        let name = drawn.schema.field(output).name();
        let few = mostly_noise_below(measure, accuracy).filter(|rows| *rows >= FEW_ROWS).map(|below| {
            format!("{name}: mostly noise where fewer than {below} rows are behind it: its ± is then as large as its range")
        });
        let cut = cut_text(part, measure, accuracy);
        let cut = cut.map(|most| format!("{name}: counts at most {most}; the ± does not include what is cut"));
        let end = is_at_end(drawn, origin, part.measures().len()).then(|| {
            format!("{name}: no ±, since a number is the end of its type, at which larger ones stop: SUM(CAST(x AS DECIMAL(38, 0))) has more room")
        });
        Some([few, cut, end])
    });
    notes.into_iter().flatten().flatten()
}

/// True if a released number of a measure is an end of its type, where larger numbers are cut off.
fn is_at_end(drawn: &Drawn, origin: Origin, measures: usize) -> bool {
    let columns = drawn.released.get(origin.part).map_or(&[][..], RecordBatch::columns);
    let first = columns.len().checked_sub(measures);
    let values = first.and_then(|first| columns.get(first + origin.measure));
    values.and_then(at_end).is_some()
}

/// The notes on bounds that a release has chosen.
fn chosen_bounds<'a>(release: &'a Release, drawn: &'a Drawn) -> impl Iterator<Item = String> + 'a {
    let parts = release.analysis().parts().iter().zip(&drawn.rungs);
    parts.enumerate().flat_map(|(at, (part, rungs))| {
        let measures = part.measures().iter().zip(release.mechanisms(at)).zip(rungs);
        measures.filter_map(|((measure, one), rung)| bound_note(measure, one, (*rung)?))
    })
}

/// The distance from the bounded aggregate that the drawn number keeps with 95 %.
fn within(
    release: &Release,
    output: usize,
    origin: Origin,
    predicted: Predicted,
    drawn: &Drawn,
) -> Option<f64> {
    let Origin { part, measure, .. } = origin;
    let least = drawn.mean_rows.get(part).and_then(|m| m.get(measure)).copied().flatten();
    let least = least.filter(|n| n.is_finite());
    let rung = drawn.rungs.get(part).and_then(|rungs| rungs.get(measure)).copied().flatten();
    let under =
        rung.and_then(|rung| release.accuracies_under_bounds(part, measure, 1).get(rung).copied());
    let predicted = under.unwrap_or(predicted);
    let value = match predicted {
        Predicted::Within(value) => value,
        // The bound of the group with the fewest rows, by the noisy count, holds for every group.
        Predicted::WithinOverCount(value) => value / least?,
        // Every group has its own ±. The largest holds for all groups.
        Predicted::Spread { .. } => least?,
        Predicted::Winner { .. }
        | Predicted::WinnerBySize { .. }
        | Predicted::Rank { .. }
        | Predicted::Truthful(_)
        | Predicted::Nothing => return None,
    };
    let measures = release.analysis().parts().get(part)?.measures();
    if is_at_end(drawn, origin, measures.len()) {
        return None;
    }
    let own = measures.get(measure)?;
    let Some(unit) = unit_of(own, release, drawn) else { return Some(value) };
    // A sum of whole numbers is rounded to a whole number when it is converted back to its own
    // unit.
    let is_whole = drawn.schema.field(output).data_type().is_integer();
    let rounding = if is_whole { 0.5 } else { 0.0 };
    Some(value * unit + rounding).filter(|value| value.is_finite())
}

/// The accuracy of an answer, as far as it is known before anything is drawn.
pub(crate) fn predicted(release: &Release, schema: &SchemaRef) -> Vec<Accuracy> {
    let analysis = release.analysis();
    let (mean_rows, rungs) = (Vec::new(), Vec::new());
    let (released, values) = (Vec::new(), Vec::new());
    let (schema, batches) = (SchemaRef::clone(schema), Vec::new());
    let drawn = Drawn { schema, mean_rows, rungs, released, values, batches };
    // If an aggregate's bound is drawn, its unit is not known yet.
    let in_units = |origin: Origin| {
        let measure = analysis.parts().get(origin.part)?.measures().get(origin.measure)?;
        Some(measure.clause.finding.is_some_and(Finding::is_in_units))
    };
    (0..drawn.schema.fields().len())
        .filter(|output| analysis.origin(*output).and_then(in_units) == Some(false))
        .flat_map(|output| accuracy(release, output, &drawn))
        .collect()
}

/// How accurate the columns of an answer will be, one sentence each.
pub(crate) fn predicted_lines(release: &Release, schema: &SchemaRef) -> Vec<String> {
    predicted(release, schema).iter().filter_map(Accuracy::line).collect()
}

fn accuracy(release: &Release, output: usize, drawn: &Drawn) -> Vec<Accuracy> {
    let Some(origin) = release.analysis().origin(output) else { return Vec::new() };
    let mechanized = release.mechanisms(origin.part).get(origin.measure);
    let Some(predicted) = mechanized.map(|one| one.accuracy) else { return Vec::new() };
    let column = drawn.schema.field(output).name();
    let one =
        |kind, value, confidence| Accuracy { column: column.clone(), kind, value, confidence };
    let chosen = is_chosen(release, &origin);
    match predicted {
        Predicted::Within(_) | Predicted::WithinOverCount(_) | Predicted::Spread { .. } => {
            let kind = if chosen { AccuracyKind::Drawn } else { AccuracyKind::Within };
            let value = within(release, output, origin, predicted, drawn);
            value.map(|value| one(kind, value, CONFIDENCE)).into_iter().collect()
        }
        _ if chosen => Vec::new(),
        Predicted::Rank { worst, average } => vec![
            one(rank_kind(release, &origin), worst, CONFIDENCE),
            one(AccuracyKind::Average, average, 1.0),
        ],
        Predicted::Winner { worst, average } => vec![
            one(AccuracyKind::Winner, worst, CONFIDENCE),
            one(AccuracyKind::Average, average, 1.0),
        ],
        Predicted::WinnerBySize { rows, .. } => {
            vec![one(AccuracyKind::OwnRows, rows, CONFIDENCE)]
        }
        Predicted::Truthful(value) => vec![one(AccuracyKind::Truthful, value, 1.0)],
        Predicted::Nothing => Vec::new(),
    }
}
