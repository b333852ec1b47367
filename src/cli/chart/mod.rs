//! Charts of answers: bars, or lines, with error bars.
//!
//! In: a [`View`] of an answer. Out: a [`Chart`], which [`text`](Chart::text) draws for a terminal
//! and [`svg`](Chart::svg) as a picture. A chart shows the answer and its published accuracy, never
//! anything exact.
//!
//! A column of dates, or a first column of numbers, is the x-axis of lines, and each combination of
//! the other keys is a series. Without such a column there is a bar for each row. Numbers with a ±
//! are drawn; if there are none, all numbers. NULL and NaN are left out, and a remark says how
//! many.
//!
//! ```text
//! status, n ± 3             →  bars, one for each status
//! day, ward, n ± 3          →  lines over the days, a series for each ward
//! status, n ± 3, mean ± 1   →  two panels of bars
//! ```

mod bars;
mod label;
mod lines;
mod model;
mod scale;
mod svg;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use hushql::{Accuracy, AccuracyKind, BudgetState, Forecast, Spend};
use hushql_engine::visible;

use self::model::{Bar, Drawing, LineChart, Panel, Point, Series};
pub(super) use self::model::{Chart, Room};
use super::table::shown_with;
use super::view::{AnswerColumn, Cell, ColumnFormat, View, percent};

/// The most series of one panel.
const SERIES: usize = 8;
/// Numbers beyond this are not drawn: the difference of two of them may overflow.
const LARGEST: f64 = 1e300;

/// The requested shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChartShape {
    /// The shape that suits the columns.
    Fitting,
    Bars,
    Lines,
}

impl Chart {
    /// The chart of an answer; `None` if there is nothing to draw.
    pub(super) fn of(view: &View, shape: ChartShape) -> Option<Self> {
        let kinds: Vec<_> = view.columns.iter().map(|c| (c.kind, c.margin.is_some())).collect();
        let axis = match shape {
            ChartShape::Bars => None,
            ChartShape::Fitting | ChartShape::Lines => axis(&kinds),
        };
        let values = values(&kinds, axis);
        let mut remarks = Vec::new();
        let lines = axis.and_then(|x| lines(view, x, &values, &mut remarks));
        // A single place on the axis does not make a line, unless the user asks for lines.
        let is_line = |panel: &Panel| match &panel.drawing {
            Drawing::Lines(lines) => shape == ChartShape::Lines || lines.has_width(),
            Drawing::Bars(_) => true,
        };
        let panels = match lines.filter(|panels| panels.iter().all(is_line)) {
            Some(panels) => panels,
            None => {
                remarks.clear();
                bars_of(view, &values, axis)
            }
        };
        let drawn: usize = panels.iter().map(Panel::len).sum();
        let missing = (view.rows.len() * values.len()).saturating_sub(drawn);
        if missing > 0 && remarks.is_empty() {
            let (is, are) = match missing {
                1 => ("value", "is"),
                _ => ("values", "are"),
            };
            remarks.push(format!("{missing} {is} that {are} NULL or no number: not drawn"));
        }
        (drawn > 0).then_some(Self { panels, remarks })
    }

    /// The errors of the columns of a query at several costs; `None` if no error is known
    /// beforehand.
    pub(super) fn of_accuracy(forecasts: &[Forecast]) -> Option<Self> {
        let mut columns: Vec<(&str, AccuracyKind)> = Vec::new();
        for one in forecasts.iter().flat_map(|forecast| &forecast.accuracy) {
            let column = (one.column.as_str(), one.kind);
            if unit_of(one.kind).is_some() && !columns.contains(&column) {
                columns.push(column);
            }
        }
        let panel = |(column, kind): (&str, AccuracyKind)| {
            let error = |forecast: &Forecast| {
                let own = |one: &&Accuracy| one.column == column && one.kind == kind;
                let value = forecast.accuracy.iter().find(own)?.value;
                let text = visible::rounded(value);
                Some(Bar { label: forecast.cost.to_string(), value, margin: None, text })
            };
            let title = format!("{}, {} with 95 %", visible::line(column), unit_of(kind)?);
            let drawing = Drawing::Bars(forecasts.iter().filter_map(error).collect());
            Some(Panel { title, drawing })
        };
        let panels: Vec<_> = columns.into_iter().filter_map(panel).collect();
        (!panels.is_empty()).then_some(Self { panels, remarks: Vec::new() })
    }

    /// The spending of all budgets, or of the one with this name, day by day, and its limit; `None`
    /// if nothing was spent. `days` holds a budget, a day and an amount each.
    pub(super) fn of_budgets(
        states: &[BudgetState],
        days: &[(String, String, Spend)],
        name: &str,
    ) -> Option<Self> {
        let meant = states.iter().filter(|state| name.is_empty() || state.budget.name == name);
        let panels: Vec<_> = meant.filter_map(|state| spending(state, days)).collect();
        (!panels.is_empty()).then_some(Self { panels, remarks: Vec::new() })
    }

    /// The chart in characters. If the room has at least forty columns, no line is wider than the
    /// room.
    pub(super) fn text(&self, room: Room) -> String {
        let panel = |panel: &Panel| {
            let drawn = match &panel.drawing {
                Drawing::Bars(bars) => bars::text(bars, room),
                Drawing::Lines(lines) => lines::text(lines, room),
            };
            format!("{}\n{drawn}", label::cut(&panel.title, room.width, room.ascii))
        };
        let mut text = self.panels.iter().map(panel).collect::<Vec<_>>().join("\n\n");
        for remark in &self.remarks {
            text.push_str(&format!("\n({remark})"));
        }
        text
    }

    /// The chart as a picture. The notes, such as those about hidden groups, are written below it.
    pub(super) fn svg(&self, notes: &[String]) -> String {
        svg::picture(self, notes)
    }
}

/// Whether something can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawable {
    Yes,
    WithoutNumbers,
    /// Lines are wanted, but no column can be their x-axis.
    WithoutAxis,
}

/// Whether columns of these kinds, each with or without a ±, can be drawn, as far as this is known
/// before there are rows.
pub(super) fn can_be_drawn(kinds: &[(ColumnFormat, bool)], shape: ChartShape) -> Drawable {
    match shape {
        _ if !kinds.iter().any(|(kind, _)| kind.is_numeric()) => Drawable::WithoutNumbers,
        ChartShape::Lines if axis(kinds).is_none() => Drawable::WithoutAxis,
        ChartShape::Lines | ChartShape::Bars | ChartShape::Fitting => Drawable::Yes,
    }
}

/// The column of the x-axis: the first one of dates, otherwise the first column if other columns
/// are numbers.
fn axis(kinds: &[(ColumnFormat, bool)]) -> Option<usize> {
    let numbers = kinds.iter().filter(|(kind, _)| kind.is_numeric()).count();
    let dates = kinds.iter().position(|(kind, _)| *kind == ColumnFormat::Time);
    match kinds.first() {
        _ if dates.is_some() => dates.filter(|_| numbers > 0),
        Some((kind, false)) if kind.is_numeric() && numbers > 1 => Some(0),
        Some(_) | None => None,
    }
}

/// The columns to draw: released numbers, otherwise all numbers, except the x-axis.
fn values(kinds: &[(ColumnFormat, bool)], axis: Option<usize>) -> Vec<usize> {
    let of = |released: bool| {
        let fits = move |(at, (kind, margin)): &(usize, &(ColumnFormat, bool))| {
            kind.is_numeric() && Some(*at) != axis && (*margin || !released)
        };
        kinds.iter().enumerate().filter(fits).map(|(at, _)| at).collect::<Vec<_>>()
    };
    Some(of(true)).filter(|released| !released.is_empty()).unwrap_or_else(|| of(false))
}

/// The meaning of an error at 95 %; `None` for other kinds of accuracy.
fn unit_of(kind: AccuracyKind) -> Option<&'static str> {
    match kind {
        AccuracyKind::Within | AccuracyKind::Drawn => Some("off by at most"),
        AccuracyKind::Winner => Some("below the best score by at most"),
        AccuracyKind::OwnRows => Some("below the best by at most so many of its own rows"),
        AccuracyKind::Rank | AccuracyKind::BlockRank => Some("off by at most so many ranks"),
        _ => None,
    }
}

/// A line of the spending of a budget up to each day, and one of its limit. If all was spent on one
/// day, bars.
fn spending(state: &BudgetState, days: &[(String, String, Spend)]) -> Option<Panel> {
    // An analyst with a slice of the budget has the slice's limit.
    let limit = match state.slices.as_slice() {
        [share] => share.limit,
        _ => state.budget.limit,
    };
    let number = |spend: Spend| spend.loss_text().parse::<f64>().ok();
    let mut points = Vec::new();
    let mut sum = 0.0;
    for (_, day, spent) in days.iter().filter(|(budget, ..)| *budget == state.budget.name) {
        sum += number(*spent)?;
        points.push(Point { x: seconds(day)?, label: day.clone(), value: sum, margin: None });
    }
    let at_limit = |point: &Point| Some(Point { value: number(limit)?, ..point.clone() });
    let limits = points.iter().map(at_limit).collect::<Option<Vec<_>>>()?;
    let title = format!(
        "{}, {} spent of {}",
        visible::line(&state.budget.name),
        limit.notion.symbol(),
        limit.loss_text()
    );
    let drawing = match points.as_slice() {
        [] => return None,
        [one] => {
            let bar = |label: &str, spend: Spend, value: f64| {
                let text = spend.loss_text();
                Bar { label: label.to_owned(), value, margin: None, text }
            };
            let left = state.left.neat_down();
            let spent = bar(&one.label, state.spent.neat_up(), one.value);
            Drawing::Bars(vec![spent, bar("left", left, number(left)?)])
        }
        _ => {
            let series = |name: &str, points| Series { name: name.to_owned(), points };
            let series = vec![series("spent", points), series("limit", limits)];
            Drawing::Lines(LineChart { across: "day".to_owned(), series })
        }
    };
    Some(Panel { title, drawing })
}

/// A panel of bars for each column.
fn bars_of(view: &View, values: &[usize], axis: Option<usize>) -> Vec<Panel> {
    let panel = |index: &usize| {
        let column = view.columns.get(*index)?;
        let rows = view.rows.iter().enumerate();
        let keys = keys(view, values, None);
        let bar = |(place, row): (usize, &Vec<Cell>)| {
            let (value, margin) = value(view, place, *index)?;
            let text = shown_with(column.kind, row.get(*index)?, margin);
            Some(Bar { label: joined(row, &keys), value, margin, text })
        };
        let bars: Vec<_> = rows.filter_map(bar).collect();
        let panel = Panel { title: title(&[column]), drawing: Drawing::Bars(bars) };
        (panel.len() > 0).then_some(panel)
    };
    // If the x-axis is the only number, it is drawn itself.
    let own: Vec<usize> = axis.into_iter().filter(|_| values.is_empty()).collect();
    values.iter().chain(&own).filter_map(panel).collect()
}

/// Lines over the x-axis, with one panel for all columns of a similar size; `None` if no row has a
/// place on the axis.
fn lines(
    view: &View,
    axis: usize,
    values: &[usize],
    remarks: &mut Vec<String>,
) -> Option<Vec<Panel>> {
    let across = view.columns.get(axis)?;
    let keys = keys(view, values, Some(axis));
    let places: Vec<_> = view.rows.iter().map(|row| place(across.kind, row.get(axis)?)).collect();
    let mut panels: Vec<(f64, Vec<&AnswerColumn>, Vec<Series>)> = Vec::new();
    for index in values {
        let column = view.columns.get(*index)?;
        let mut series: Vec<Series> = Vec::new();
        for (at, row) in view.rows.iter().enumerate() {
            let Some((x, label)) = places.get(at).cloned().flatten() else { continue };
            let Some((value, margin)) = value(view, at, *index) else { continue };
            let key = joined(row, &keys);
            let name = match (key.is_empty(), values.len()) {
                (true, _) => column.name.clone(),
                (false, 1) => key,
                (false, _) => format!("{} · {key}", column.name),
            };
            let point = Point { x, label, value, margin };
            match series.iter_mut().find(|one| one.name == name) {
                Some(one) => one.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        let sizes = series.iter().flat_map(|one| &one.points).map(|point| point.value.abs());
        let size = sizes.fold(0.0, f64::max);
        let near = |(other, ..): &&mut (f64, Vec<&AnswerColumn>, Vec<Series>)| {
            size <= *other * 10.0 && *other <= size * 10.0
        };
        match panels.iter_mut().find(near) {
            Some((_, columns, all)) => {
                columns.push(column);
                all.extend(series);
            }
            None => panels.push((size, vec![column], series)),
        }
    }
    let panels: Vec<_> = panels
        .into_iter()
        .filter(|(.., series)| !series.is_empty())
        .map(|(_, columns, mut series)| {
            if series.len() > SERIES {
                remarks.push(format!("{SERIES} of {} series are drawn", series.len()));
                series.truncate(SERIES);
            }
            series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
            let across = visible::line(&across.name).into_owned();
            let mut lines = LineChart { across, series };
            lines.shorten();
            Panel { title: title(&columns), drawing: Drawing::Lines(lines) }
        })
        .collect();
    (!panels.is_empty()).then_some(panels)
}

/// The columns that identify a row: those that are neither drawn, nor the x-axis, nor released.
fn keys(view: &View, values: &[usize], axis: Option<usize>) -> Vec<usize> {
    let columns = view.columns.iter().enumerate();
    let is_key = |at: usize, column: &AnswerColumn| {
        !values.contains(&at) && Some(at) != axis && column.margin.is_none()
    };
    columns.filter(|(at, column)| is_key(*at, column)).map(|(at, _)| at).collect()
}

fn joined(row: &[Cell], keys: &[usize]) -> String {
    let cells = keys.iter().filter_map(|at| row.get(*at));
    let cells: Vec<_> = cells.map(|cell| visible::line(cell.text())).collect();
    cells.join(" · ")
}

fn title(columns: &[&AnswerColumn]) -> String {
    let names: Vec<_> = columns.iter().map(|column| visible::line(&column.name)).collect();
    let names = names.join(", ");
    match columns.iter().find_map(|column| column.margin.as_ref()) {
        Some(margin) => format!("{names}, error bars at {}", percent(margin.confidence)),
        None => names,
    }
}

/// A number that can be drawn, and its error.
fn value(view: &View, place: usize, column: usize) -> Option<(f64, Option<f64>)> {
    let Cell::Number(text) = view.rows.get(place)?.get(column)? else { return None };
    let value = text.parse::<f64>().ok().filter(|value| value.abs() < LARGEST)?;
    let margin = view.columns.get(column)?.margin.as_ref();
    let margin = margin.and_then(|margin| margin.errors.get(place).copied().flatten());
    Some((value, margin.filter(|error| error.abs() < LARGEST)))
}

/// A place on the x-axis, and its label.
fn place(kind: ColumnFormat, cell: &Cell) -> Option<(f64, String)> {
    let text = match cell {
        Cell::Number(text) | Cell::Text(text) => text,
        Cell::Null | Cell::Boolean(_) => return None,
    };
    let x = match kind {
        ColumnFormat::Integer | ColumnFormat::Number => text.parse().ok()?,
        ColumnFormat::Time => seconds(text)?,
        ColumnFormat::Text => return None,
    };
    (x.abs() < LARGEST).then(|| (x, visible::line(text).into_owned()))
}

/// Parses a date or timestamp of an answer into seconds since 1970.
fn seconds(text: &str) -> Option<f64> {
    /// A day number beyond every calendar.
    const FAR: i64 = 1 << 50;
    let date = || text.parse::<NaiveDate>().ok().and_then(|date| date.and_hms_opt(0, 0, 0));
    let time = || text.parse::<NaiveDateTime>().ok().or_else(date).map(|time| time.and_utc());
    let zoned = || DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    let time = time().or_else(zoned)?;
    let (seconds, nanoseconds) = (time.timestamp(), time.timestamp_subsec_nanos());
    let whole = Some(seconds).filter(|seconds| seconds.abs() < FAR)?;
    // Exact below 2^53.
    let whole = whole.to_string().parse::<f64>().ok()?;
    Some(whole + f64::from(nanoseconds) / 1e9)
}

#[cfg(test)]
mod tests;
