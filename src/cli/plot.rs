//! Horizontal bars with error bars, in plain text.
//!
//! In: a [`View`] of a grouped numeric answer and a width. Out: one line per row: label, bar, value. The
//! bars show the answer and its published accuracy, never anything exact.
//!
//! ```text
//! Divorced       ██████████├──┤              4440 ± 3.00
//! Never-married  █████████████████████├──┤  10683 ± 3.00
//! ```

use hushql::{Accuracy, AccuracyKind, Forecast, visible};

use super::table::shown_with;
use super::view::{Cell, View, percent};

/// The longest label, in characters; longer labels are cut.
const LABEL: usize = 24;
/// The least number of columns for the bars.
const LEAST: usize = 10;

/// One bar.
#[derive(Debug, PartialEq)]
struct Bar {
    label: String,
    value: f64,
    /// Its error margin.
    margin: Option<f64>,
    text: String,
}

/// Draws the first released numeric column, or else the first numeric column, against the columns beside it.
///
/// Returns `None` if there is nothing to draw.
pub(super) fn plot(view: &View, width: u16) -> Option<String> {
    let numeric = |with_margin: bool| {
        let fits =
            |c: &super::view::Column| c.kind.is_numeric() && (c.margin.is_some() || !with_margin);
        view.columns.iter().position(fits)
    };
    let index = numeric(true).or_else(|| numeric(false))?;
    let column = view.columns.get(index)?;
    let rows = view.rows.iter().enumerate();
    let bars: Vec<_> = rows.filter_map(|(place, row)| bar(view, place, row, index)).collect();
    if bars.is_empty() {
        return None;
    }
    let name = visible::line(&column.name);
    let title = match &column.margin {
        Some(margin) => format!("{name}, error bars at {}", percent(margin.confidence)),
        None => name.into_owned(),
    };
    Some(format!("{title}\n{}", draw(&bars, usize::from(width))))
}

/// Draws the error of each column at several costs, the columns below each other.
///
/// Returns `None` if no error is known beforehand.
pub(super) fn accuracy(forecasts: &[Forecast], width: u16) -> Option<String> {
    let mut columns: Vec<(&str, AccuracyKind)> = Vec::new();
    for one in forecasts.iter().flat_map(|forecast| &forecast.accuracy) {
        let column = (one.column.as_str(), one.kind);
        if unit_of(one.kind).is_some() && !columns.contains(&column) {
            columns.push(column);
        }
    }
    let drawn = columns.into_iter().filter_map(|(column, kind)| {
        let error = |forecast: &Forecast| {
            let own = |one: &&Accuracy| one.column == column && one.kind == kind;
            let value = forecast.accuracy.iter().find(own)?.value;
            let text = visible::rounded(value);
            Some(Bar { label: forecast.cost.to_string(), value, margin: None, text })
        };
        let bars: Vec<_> = forecasts.iter().filter_map(error).collect();
        let title = format!("{}, {} with 95 %", visible::line(column), unit_of(kind)?);
        Some(format!("{title}\n{}", draw(&bars, usize::from(width))))
    });
    let drawn: Vec<_> = drawn.collect();
    (!drawn.is_empty()).then(|| drawn.join("\n\n"))
}

/// What an error at 95 % is one of; `None` for other kinds of accuracy.
fn unit_of(kind: AccuracyKind) -> Option<&'static str> {
    match kind {
        AccuracyKind::Within | AccuracyKind::Drawn => Some("off by at most"),
        AccuracyKind::Winner => Some("below the best score by at most"),
        AccuracyKind::OwnRows => Some("below the best by at most so many of its own rows"),
        AccuracyKind::Rank => Some("off by at most so many ranks"),
        _ => None,
    }
}

fn bar(view: &View, place: usize, row: &[Cell], index: usize) -> Option<Bar> {
    let Cell::Number(text) = row.get(index)? else { return None };
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let label = row.iter().zip(&view.columns).enumerate();
    let label = label.filter(|(at, (_, column))| *at != index && column.margin.is_none());
    let label: Vec<_> = label.map(|(_, (cell, _))| cell.text()).collect();
    let column = view.columns.get(index)?;
    let margin = column.margin.as_ref();
    let margin = margin.and_then(|margin| margin.errors.get(place).copied().flatten());
    let margin = margin.filter(|error| error.is_finite());
    let text = shown_with(column.kind, row.get(index)?, margin);
    Some(Bar { label: cut(&label.join(" · ")), value, margin, text })
}

/// At most [`LABEL`] characters, without control characters.
fn cut(label: &str) -> String {
    let clean: String = label.chars().map(|c| if visible::steers(c) { '?' } else { c }).collect();
    if clean.chars().count() <= LABEL {
        return clean;
    }
    clean.chars().take(LABEL - 1).chain(['…']).collect()
}

fn draw(bars: &[Bar], width: usize) -> String {
    let value_text = |bar: &Bar| match bar.margin {
        Some(margin) => format!("{} ± {}", bar.text, visible::rounded(margin)),
        None => bar.text.clone(),
    };
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let labels = longest(&mut bars.iter().map(|bar| bar.label.chars().count()));
    let values = longest(&mut bars.iter().map(|bar| value_text(bar).chars().count()));
    let cells = width.saturating_sub(labels + values + 4).max(LEAST);
    let reach = |bar: &Bar| bar.margin.unwrap_or(0.0);
    let low = bars.iter().map(|bar| bar.value - reach(bar)).fold(0.0, f64::min);
    let high = bars.iter().map(|bar| bar.value + reach(bar)).fold(0.0, f64::max);
    let scale = Scale { low, high, cells };
    let line = |bar: &Bar| {
        let (label, strip, value) =
            (&bar.label, scale.strip(bar.value, bar.margin), value_text(bar));
        format!("{label:<labels$}  {strip}  {value:>values$}")
    };
    bars.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Values from `low` to `high` on a strip of `cells` characters.
struct Scale {
    low: f64,
    high: f64,
    cells: usize,
}

impl Scale {
    /// The cell that contains a value.
    fn cell(&self, value: f64) -> usize {
        let last = self.cells.saturating_sub(1);
        let width = (self.high - self.low).max(f64::MIN_POSITIVE);
        let share = (value - self.low) / width;
        // Counting the borders below the value avoids a conversion from float to integer.
        let passed = |cell: &usize| {
            u32::try_from(*cell).is_ok_and(|c| f64::from(c) <= share * last_as_float(last))
        };
        (1..=last).filter(passed).count()
    }

    fn strip(&self, value: f64, margin: Option<f64>) -> String {
        let (zero, tip) = (self.cell(0.0), self.cell(value));
        let (from, to) = (zero.min(tip), zero.max(tip));
        let error = margin.map(|margin| (self.cell(value - margin), self.cell(value + margin)));
        let glyph = |cell: usize| match error {
            Some((left, right)) if left == right && cell == left => '┼',
            Some((left, _)) if cell == left => '├',
            Some((_, right)) if cell == right => '┤',
            Some((left, right)) if (left..right).contains(&cell) => '─',
            _ if (from..=to).contains(&cell) && value.abs() > 0.0 => '█',
            _ if cell == zero => '│',
            _ => ' ',
        };
        (0..self.cells).map(glyph).collect()
    }
}

fn last_as_float(last: usize) -> f64 {
    u32::try_from(last).map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::super::view::{Column, Kind, Margin};
    use super::*;

    fn view(rows: &[(&str, &str)], margin: Option<f64>) -> View {
        let margin =
            margin.map(|value| Margin { errors: vec![Some(value); rows.len()], confidence: 0.95 });
        let row = |(label, value): &(&str, &str)| {
            vec![Cell::Text((*label).to_owned()), Cell::Number((*value).to_owned())]
        };
        View {
            columns: vec![
                Column { name: "status".to_owned(), kind: Kind::Text, margin: None },
                Column { name: "n".to_owned(), kind: Kind::Integer, margin },
            ],
            rows: rows.iter().map(row).collect(),
            winners: Vec::new(),
        }
    }

    #[test]
    fn bars_are_in_proportion_and_carry_error_bars() {
        // 23 cells for -4 to 12: zero is in the sixth, and a unit is 22/16 of a cell.
        let view = view(&[("a", "10"), ("bb", "5"), ("c", "-2")], Some(2.0));
        let expected = "\
n, error bars at 95 %
a        ███████████├─────┤  10 ± 2.00
bb       ████├─────┤          5 ± 2.00
c   ├────┤                   -2 ± 2.00";
        assert_eq!(plot(&view, 38).unwrap(), expected);
    }

    #[test]
    fn without_accuracy_there_are_only_bars() {
        let view = view(&[("a", "4"), ("b", "2"), ("c", "0")], None);
        let expected = "\
n
a  █████████  4
b  █████      2
c  │          0";
        // Each cell covers half a unit: 8 steps from 0 to 4, and the cell of zero itself.
        assert_eq!(draw_at(&view, 9), expected);
    }

    fn draw_at(view: &View, cells: usize) -> String {
        let bars = view.rows.iter().enumerate();
        let bars: Vec<_> = bars.filter_map(|(i, row)| bar(view, i, row, 1)).collect();
        let scale = Scale { low: 0.0, high: 4.0, cells };
        let line =
            |bar: &Bar| format!("{}  {}  {}", bar.label, scale.strip(bar.value, None), bar.text);
        let lines: Vec<_> = bars.iter().map(line).collect();
        format!("n\n{}", lines.join("\n"))
    }

    #[test]
    fn errors_are_drawn_by_cost() {
        let session = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
        let sql = "SELECT LAPLACE(eps=0.5) COUNT(*) AS n, EXPONENTIAL(eps=0.5) MEDIAN(age) AS middle FROM adult";
        let forecasts = session.forecast(sql).unwrap();
        let text = accuracy(&forecasts, 60).unwrap();
        assert!(text.starts_with("n, off by at most with 95 %\nε = 0.0625  ████"), "{text}");
        assert!(text.contains("\n\nmiddle, off by at most so many ranks with 95 %\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let bare = session.forecast("SELECT 1");
        assert!(bare.unwrap_err().to_string().contains("no release states an eps"));
        assert_eq!(accuracy(&[], 60), None);
    }

    #[test]
    fn what_has_no_numbers_is_not_drawn() {
        assert_eq!(plot(&view(&[], Some(1.0)), 80), None);
        let text = View { columns: Vec::new(), rows: vec![Vec::new()], winners: Vec::new() };
        assert_eq!(plot(&text, 80), None);
    }

    #[test]
    fn a_line_keeps_to_the_width() {
        let long = "a label that goes on and on and on";
        let text = plot(&view(&[(long, "123456"), ("\u{1b}[2J", "-7")], Some(50.0)), 60).unwrap();
        assert!(text.lines().skip(1).all(|line| line.chars().count() == 60), "{text}");
        assert!(text.contains("a label that goes on an…") && !text.contains('\u{1b}'), "{text}");
    }
}
