//! What the answers of one table showed, as numbers and as texts that events are about.
//!
//! In: answers, run by run. Out: for each run the number of rows, each number with its ±, sums and
//! extremes of each column, and the whole answer as a text. A number is known by its column and by
//! the texts of its row, so that groups are compared with themselves. What a run does not show
//! counts as −∞.
//!
//! ```text
//! city  n ± 95 %
//! Rome  2 6        →   rows 1 · n of Rome 2 · ± of n of Rome 6 · the answer is Rome, 2
//! ```

use std::collections::BTreeMap;

use super::super::view::{Cell, View};

/// The most numbers of an answer that are compared.
const MOST_NUMBERS: usize = 2_000;

/// The longest answer that is compared as a text.
const MOST_TEXT: usize = 2_000;

/// What one run showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SeenAnswer {
    pub(super) numbers: BTreeMap<String, f64>,
    pub(super) text: String,
}

/// What all runs on one table showed.
#[derive(Debug, Default)]
pub(super) struct SeenAnswers {
    /// For each number, its value in each run; −∞ where a run did not show it.
    pub(super) numbers: BTreeMap<String, Vec<f64>>,
    /// For each run, its whole answer.
    pub(super) texts: Vec<String>,
}

impl SeenAnswer {
    /// What an answer shows.
    pub(super) fn of(view: &View) -> Self {
        let mut seen = Self::default();
        let mut columns: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        seen.tell("rows".to_owned(), view.rows.iter().fold(0.0, |rows, _| rows + 1.0));
        if view.rows.is_empty() {
            "without rows".clone_into(&mut seen.text);
        }
        for (at, row) in view.rows.iter().enumerate() {
            let cells = || view.columns.iter().zip(row);
            let texts = cells().filter(|(column, _)| !column.kind.is_numeric());
            let group: Vec<&str> = texts.map(|(_, cell)| cell.text()).collect();
            let of_group = match group.is_empty() {
                true if view.rows.len() == 1 => String::new(),
                true => format!(" of row {}", at + 1),
                false => format!(" of {}", group.join(", ")),
            };
            for (column, cell) in cells().filter(|(column, _)| column.kind.is_numeric()) {
                let value = number(cell);
                columns.entry(&column.name).or_default().push(value);
                let error = column.margin.as_ref().and_then(|margin| *margin.errors.get(at)?);
                seen.tell(format!("± of {}{of_group}", column.name), error.unwrap_or(f64::NAN));
                seen.tell(format!("{}{of_group}", column.name), value);
            }
            let line: Vec<&str> = row.iter().map(Cell::text).collect();
            if seen.text.len() < MOST_TEXT {
                let sign = if at > 0 { "; " } else { "" };
                seen.text += &format!("{sign}{}", line.join(", "));
            }
        }
        for (name, values) in columns.into_iter().filter(|(_, values)| values.len() > 1) {
            let finite = || values.iter().copied().filter(|value| value.is_finite());
            seen.tell(format!("sum of all {name}"), finite().sum::<f64>() + 0.0);
            seen.tell(format!("least {name}"), finite().fold(f64::INFINITY, f64::min));
            seen.tell(format!("largest {name}"), finite().fold(f64::NEG_INFINITY, f64::max));
        }
        seen
    }

    /// What a statement shows that failed after its charge.
    pub(super) fn failed(message: &str) -> Self {
        Self { numbers: BTreeMap::new(), text: format!("no answer: {message}") }
    }

    fn tell(&mut self, name: String, value: f64) {
        if value > f64::NEG_INFINITY {
            self.numbers.insert(name, value);
        }
    }
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number(text) => text.parse().unwrap_or(f64::NAN),
        Cell::Null | Cell::Boolean(_) | Cell::Text(_) => f64::NAN,
    }
}

impl SeenAnswers {
    /// Adds a run.
    pub(super) fn push(&mut self, seen: SeenAnswer) {
        let runs = self.texts.len();
        for (name, value) in seen.numbers {
            if self.numbers.len() < MOST_NUMBERS || self.numbers.contains_key(&name) {
                let values = self.numbers.entry(name).or_default();
                values.resize(runs, f64::NEG_INFINITY);
                values.push(value);
            }
        }
        self.texts.push(seen.text);
    }

    /// Makes every number as long as there are runs.
    pub(super) fn complete(mut self) -> Self {
        let runs = self.texts.len();
        for values in self.numbers.values_mut() {
            values.resize(runs, f64::NEG_INFINITY);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::view::{AnswerColumn, ColumnFormat};
    use super::*;

    fn column(name: &str, kind: ColumnFormat) -> AnswerColumn {
        AnswerColumn { name: name.to_owned(), kind, margin: None }
    }

    #[test]
    fn numbers_are_those_of_their_group() {
        let row =
            |city: &str, n: &str| vec![Cell::Text(city.to_owned()), Cell::Number(n.to_owned())];
        let view = View {
            columns: vec![column("city", ColumnFormat::Text), column("n", ColumnFormat::Integer)],
            rows: vec![row("Rome", "2"), row("Oslo", "-3")],
            winners: Vec::new(),
        };
        let seen = SeenAnswer::of(&view);
        assert_eq!(seen.text, "Rome, 2; Oslo, -3");
        let told = [
            ("largest n", 2.0),
            ("least n", -3.0),
            ("n of Oslo", -3.0),
            ("n of Rome", 2.0),
            ("rows", 2.0),
            ("sum of all n", -1.0),
        ];
        assert_eq!(seen.numbers, told.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn what_a_run_does_not_show_is_below_everything() {
        let mut seen = SeenAnswers::default();
        let run = |name: &str| SeenAnswer {
            numbers: [(name.to_owned(), 1.0)].into(),
            text: name.to_owned(),
        };
        ["a", "b", "a"].into_iter().for_each(|name| seen.push(run(name)));
        let seen = seen.complete();
        let missing = f64::NEG_INFINITY;
        assert_eq!(seen.numbers["a"], [1.0, missing, 1.0]);
        assert_eq!(seen.numbers["b"], [missing, 1.0, missing]);
        assert_eq!(seen.texts.len(), 3);
    }
}
