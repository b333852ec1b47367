//! Lines with error bars, in characters.
//!
//! In: series of points, and the room for them. Out: a grid with a mark for each point, dots
//! between them, and axes.
//!
//! ```text
//! 400 ┤        ┬
//!     │      · ●
//! 200 ┤  ┬·    ┴
//!     │  ●
//!   0 ┤  ┴
//!     └───────────
//!     2024    2025
//! ```

use super::label::{self, cut, width};
use super::model::{LineChart, Point, Room};
use super::scale::{Scale, float, nearest_below};

/// The marks of the series, in order. Each has an ASCII form.
const MARKS: [char; 8] = ['●', '▲', '■', '◆', '○', '△', '□', '◇'];
/// The longest label of the y-axis.
const LABEL: usize = 12;
/// The least and the most lines of the grid.
const HEIGHT: (usize, usize) = (6, 20);
/// The lines of a terminal outside of the grid: title, axis, labels, legend, receipt, prompt.
const AROUND: usize = 8;

/// Draws lines.
pub(super) fn text(lines: &LineChart, room: Room) -> String {
    let height = room.height.saturating_sub(AROUND).clamp(HEIGHT.0, HEIGHT.1);
    let down = scale(lines);
    // About one tick for three lines.
    let about = u32::try_from(height / 3).unwrap_or(4);
    let row_of = |value: f64| height - 1 - down.cell(value, height);
    let ticks: Vec<(usize, String)> = down
        .ticks(about)
        .into_iter()
        .map(|(value, text)| (row_of(value), cut(&text, LABEL, room.ascii)))
        .collect();
    let margin = ticks.iter().map(|(_, text)| width(text)).max().unwrap_or(0);
    let columns = room.width.saturating_sub(margin + 3).max(10);
    let mut grid = vec![vec![' '; columns]; height];
    let across = Scale::of(lines.points().map(|point| (point.x, point.x)));
    let column_of = |point: &Point| across.cell(point.x, columns);
    let mut put = |row: usize, column: usize, sign: char| {
        if let Some(cell) = grid.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell = sign;
        }
    };
    for series in &lines.series {
        for pair in series.points.windows(2) {
            let [from, to] = pair else { continue };
            let (start, end) = (column_of(from), column_of(to));
            for column in start..=end {
                let share = float(column - start) / float((end - start).max(1));
                put(row_of(from.value + (to.value - from.value) * share), column, '·');
            }
        }
    }
    let crowded = lines.series.iter().any(|series| series.points.len() > columns / 2);
    let errors = lines.points().filter(|point| point.margin.is_some() && !crowded);
    for (point, error) in errors.filter_map(|point| Some((point, point.margin?))) {
        let (top, bottom) = (row_of(point.value + error), row_of(point.value - error));
        for row in top..=bottom {
            let sign = match row {
                _ if top == bottom => '│',
                _ if row == top => '┬',
                _ if row == bottom => '┴',
                _ => '│',
            };
            put(row, column_of(point), sign);
        }
    }
    for (series, mark) in lines.series.iter().zip(MARKS) {
        for point in &series.points {
            put(row_of(point.value), column_of(point), mark);
        }
    }
    let mut drawn: Vec<String> = Vec::new();
    for (row, cells) in grid.iter().enumerate() {
        let tick = ticks.iter().find(|(at, _)| *at == row);
        let (text, sign) = tick.map_or(("", '│'), |(_, text)| (text, '┤'));
        let cells: String = cells.iter().collect();
        drawn.push(format!("{} {sign} {cells}", label::right(text, margin)).trim_end().to_owned());
    }
    let axis = "─".repeat(columns + 1);
    drawn.push(format!("{} └{axis}", " ".repeat(margin)));
    drawn.push(format!("{}   {}", " ".repeat(margin), places(lines, columns, room.ascii)));
    drawn.extend(legend(lines, room, crowded));
    drawn.join("\n")
}

/// The scale of the y-axis, error bars included.
pub(super) fn scale(lines: &LineChart) -> Scale {
    let ends = lines.points().map(|point| {
        let reach = point.margin.unwrap_or(0.0);
        (point.value - reach, point.value + reach)
    });
    Scale::of(ends).for_lines()
}

/// Labels of some places on the x-axis, with enough distance for their texts: always the first
/// place, and the last one if there is room.
fn places(lines: &LineChart, columns: usize, ascii: bool) -> String {
    let places = lines.places();
    let across = Scale::of(places.iter().map(|point| (point.x, point.x)));
    let text = |point: &Point| cut(&point.label, columns / 2, ascii);
    let widest = places.iter().map(|point| width(&text(point))).max().unwrap_or(0);
    let about = (columns / (widest + 4).max(1)).max(2);
    let mut line = String::new();
    for n in 0..about {
        // Evenly spaced places. Each is the last one at or before its position.
        let wanted = nearest_below(float(n) / float(about - 1), columns - 1);
        let near = |point: &&&Point| across.cell(point.x, columns) <= wanted;
        let Some(point) = places.iter().rev().find(near) else { continue };
        let text = text(point);
        let start = across.cell(point.x, columns).min(columns.saturating_sub(width(&text)));
        let taken = width(&line);
        if taken == 0 || start > taken {
            line = label::left(&line, start) + &text;
        }
    }
    line
}

/// The meaning of the marks, if there are several, and the name of the x-axis.
fn legend(lines: &LineChart, room: Room, crowded: bool) -> Vec<String> {
    let mut legend = vec![cut(&format!("x: {}", lines.across), room.width, room.ascii)];
    if lines.series.len() > 1 {
        let mut line = String::new();
        for (series, mark) in lines.series.iter().zip(MARKS) {
            let name = format!("{mark} {}", cut(&series.name, room.width.min(32) - 2, room.ascii));
            if !line.is_empty() && width(&line) + 3 + width(&name) > room.width {
                legend.push(std::mem::take(&mut line));
            }
            line = if line.is_empty() { name } else { format!("{line}   {name}") };
        }
        legend.push(line);
    }
    if crowded && lines.points().any(|point| point.margin.is_some()) {
        legend.push(cut("(too many points for error bars)", room.width, room.ascii));
    }
    legend
}
