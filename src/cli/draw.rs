//! `\plot`: charts of answers in the shell, in characters or as a picture in a file.
//!
//! In: the argument of `\plot`. Out: a chart of the last answer, or of a query, which is charged
//! once, as without a chart. If the shell knows before the charge that a chart cannot be drawn or
//! written, it says so then.
//!
//! ```text
//! \plot                                  the last answer, at no further cost
//! \plot SELECT … GROUP BY …              runs the query
//! \plot lines last TO 'visits.svg'       a picture, in a file as COPY would write it
//! \plot accuracy SELECT …                its error by cost, without running it
//! \plot budget research                  what was spent of it, day by day, and its limit
//! ```

use arrow::datatypes::Schema;
use hushql::{Answer, AnswerFile, Output};

use super::chart::{Chart, ChartShape, Drawable, Room, can_be_drawn};
use super::exec::{self, Interrupt};
use super::failure::Failure;
use super::lex::{self, TokenKind};
use super::output_file;
use super::repl::Shell;
use super::view::{self, View};

/// The size of a chart if that of the terminal is unknown.
const SIZE: (u16, u16) = (80, 24);

/// The data of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChartData<'a> {
    /// The last answer.
    Last,
    /// The answer of a query.
    Query(&'a str),
    /// The errors of a query by its cost.
    Accuracy(&'a str),
    /// The spending of all budgets, or of one.
    Budget(&'a str),
    /// Accuracy without a query.
    Nothing,
}

/// The argument of `\plot`.
#[derive(Debug, PartialEq, Eq)]
struct Request<'a> {
    shape: ChartShape,
    drawn: ChartData<'a>,
    /// The file for a picture, as the user wrote it.
    file: Option<&'a str>,
}

impl Shell {
    /// Draws the requested chart.
    pub(super) async fn plot(&mut self, argument: &str) -> Result<(), Failure> {
        let Request { shape, drawn, file } = request(argument);
        let file = match file {
            Some(written) => Some(self.picture_file(written, drawn)?),
            None => None,
        };
        let (answer, printed) = match drawn {
            ChartData::Accuracy(query) => {
                let forecasts = self.session.forecast(query)?;
                let chart = Chart::of_accuracy(&forecasts).ok_or(Failure::NoErrors)?;
                return self.show_chart(&chart, &[], file);
            }
            ChartData::Budget(name) => {
                let states = self.session.budgets()?;
                let days = self.session.spending()?.into_iter();
                let days: Vec<_> = days.map(|day| (day.budget, day.day, day.spent)).collect();
                let chart = Chart::of_budgets(&states, &days, name).ok_or(Failure::NoSpending)?;
                return self.show_chart(&chart, &[], file);
            }
            ChartData::Nothing => {
                return Err(Failure::Usage("write \\plot accuracy QUERY".to_owned()));
            }
            ChartData::Last => match &self.last {
                Some(answer) => {
                    can_have_shape(&answer.schema(), shape)?;
                    (answer.clone(), true)
                }
                None => return Err(Failure::NothingYet),
            },
            ChartData::Query(query) => match self.asked_for_a_chart(query, shape).await? {
                Some(answer) => (answer, false),
                None => return Ok(()),
            },
        };
        let chart =
            self.printer.paid(&answer, || Ok(Chart::of(&View::for_answer(&answer)?, shape)));
        match chart? {
            Some(chart) => {
                let notes = answer.notes().to_vec();
                self.printer.paid(&answer, || self.show_chart(&chart, &notes, file))?;
                if !printed {
                    self.printer.receipt(&answer);
                }
            }
            // The answer has no rows, or no row with a number.
            None if printed => return Err(Failure::NoBars),
            // The answer is charged, so it is shown as rows if it cannot be drawn.
            None => {
                self.printer.note("there is nothing to plot in this answer");
                self.printer.output(&Output::Answer(answer))?;
            }
        }
        Ok(())
    }

    /// The answer of a query that can be drawn; `None` if it was not run.
    async fn asked_for_a_chart(
        &mut self,
        query: &str,
        shape: ChartShape,
    ) -> Result<Option<Answer>, Failure> {
        let mut interrupt = Interrupt::that_cancels();
        let Some(schema) = exec::schema(&self.session, query, &mut interrupt).await else {
            self.printer.warn("cancelled; nothing was charged");
            return Ok(None);
        };
        can_have_shape(schema?.as_ref(), shape)?;
        let Some(Output::Answer(answer)) = self.ask(query, &mut interrupt).await? else {
            return Ok(None);
        };
        self.last = Some(answer.clone());
        Ok(Some(answer))
    }

    /// The file for a picture, created before anything is charged.
    fn picture_file(
        &self,
        written: &str,
        drawn: ChartData<'_>,
    ) -> Result<(String, AnswerFile), Failure> {
        let name = output_file::name(written)?;
        if !name.to_ascii_lowercase().ends_with(".svg") {
            return Err(Failure::Usage(format!(
                "a chart is written as SVG: name a file that ends with .svg, and not `{name}`"
            )));
        }
        if drawn == ChartData::Last && self.last.is_none() {
            return Err(Failure::NothingYet);
        }
        let file = self.session.create_file(&name)?;
        Ok((name, file))
    }

    /// Writes a chart into its file. Without a file, or if it cannot be written, the terminal shows
    /// the chart.
    fn show_chart(
        &self,
        chart: &Chart,
        notes: &[String],
        file: Option<(String, AnswerFile)>,
    ) -> Result<(), Failure> {
        if let Some((name, mut file)) = file {
            match file.append(&chart.svg(notes)) {
                Ok(()) => {
                    self.printer.note(&format!("written to {name}"));
                    return Ok(());
                }
                Err(error) => self.printer.failure(&error.into())?,
            }
        }
        let (width, height) =
            self.printer.screen.map_or(SIZE, |screen| (screen.width, screen.height));
        let frame = self.printer.frame();
        let room = Room {
            width: usize::from(width),
            height: usize::from(height),
            most: frame.most,
            ascii: frame.ascii,
        };
        self.printer.show(&chart.text(room))
    }
}

/// Whether columns can be drawn in a shape, as far as this is known before there are rows.
fn can_have_shape(schema: &Schema, shape: ChartShape) -> Result<(), Failure> {
    let kinds = schema.fields().iter().map(|field| (view::kind(field.data_type()), false));
    match can_be_drawn(&kinds.collect::<Vec<_>>(), shape) {
        Drawable::Yes => Ok(()),
        Drawable::WithoutNumbers => Err(Failure::NoBars),
        Drawable::WithoutAxis => Err(Failure::Usage(
            "lines need an x-axis: a column of dates, or a first column of numbers with another number beside it".to_owned(),
        )),
    }
}

/// Reads the argument of `\plot`.
fn request(argument: &str) -> Request<'_> {
    let (argument, file) = without_file(argument.trim());
    let (first, rest) = first_word(argument);
    let (shape, argument) = match first.to_ascii_lowercase().as_str() {
        "bars" | "bar" => (ChartShape::Bars, rest),
        "lines" | "line" => (ChartShape::Lines, rest),
        _ => (ChartShape::Fitting, argument),
    };
    let (first, rest) = first_word(argument);
    let drawn = match first.to_ascii_lowercase().as_str() {
        "accuracy" if !rest.is_empty() => ChartData::Accuracy(rest),
        "accuracy" => ChartData::Nothing,
        "budget" if !rest.contains(char::is_whitespace) => ChartData::Budget(rest),
        "" => ChartData::Last,
        "last" if rest.is_empty() => ChartData::Last,
        _ => ChartData::Query(argument),
    };
    Request { shape, drawn, file }
}

fn first_word(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, rest.trim_start())
}

/// Takes `TO 'file'` from the end of a text.
fn without_file(text: &str) -> (&str, Option<&str>) {
    let pieces = lex::pieces(text);
    // A doubled quote reads as two adjacent quotations.
    let texts =
        pieces.iter().rev().take_while(|piece| piece.kind == TokenKind::Text && !piece.open);
    let length: usize = texts.clone().map(|piece| piece.text.len()).sum();
    let before = pieces.iter().rev().skip(texts.count());
    let mut words = before.filter(|piece| piece.kind != TokenKind::Space);
    let is_to = words.next().is_some_and(|piece| piece.text.eq_ignore_ascii_case("to"));
    let (query, file) = text.split_at_checked(text.len() - length).unwrap_or((text, ""));
    if file.is_empty() || !is_to {
        return (text, None);
    }
    let query = query.trim_end();
    let query = query.get(..query.len().saturating_sub(2)).unwrap_or_default();
    (query.trim_end().trim_end_matches(';').trim_end(), Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_plot_is_read() {
        let read = |text| {
            let Request { shape, drawn, file } = request(text);
            (shape, drawn, file)
        };
        let query = "SELECT a, 'x to y' FROM t";
        for (text, expected) in [
            ("", (ChartShape::Fitting, ChartData::Last, None)),
            ("last", (ChartShape::Fitting, ChartData::Last, None)),
            ("bars", (ChartShape::Bars, ChartData::Last, None)),
            ("LINES last TO 'a.svg'", (ChartShape::Lines, ChartData::Last, Some("'a.svg'"))),
            ("TO 'it''s.svg'", (ChartShape::Fitting, ChartData::Last, Some("'it''s.svg'"))),
            ("SELECT a, 'x to y' FROM t", (ChartShape::Fitting, ChartData::Query(query), None)),
            (
                "bars SELECT a, 'x to y' FROM t; to 'b.svg'",
                (ChartShape::Bars, ChartData::Query(query), Some("'b.svg'")),
            ),
            (
                "accuracy SELECT a, 'x to y' FROM t",
                (ChartShape::Fitting, ChartData::Accuracy(query), None),
            ),
            ("SELECT 'to' 'x'", (ChartShape::Fitting, ChartData::Query("SELECT 'to' 'x'"), None)),
            ("accuracy", (ChartShape::Fitting, ChartData::Nothing, None)),
            ("budget", (ChartShape::Fitting, ChartData::Budget(""), None)),
            (
                "Budget study TO 'a.svg'",
                (ChartShape::Fitting, ChartData::Budget("study"), Some("'a.svg'")),
            ),
            ("last one", (ChartShape::Fitting, ChartData::Query("last one"), None)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
