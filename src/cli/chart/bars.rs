//! Horizontal bars with error bars, in characters.
//!
//! In: bars, and the room for them. Out: one line for each: label, bar, value.
//!
//! ```text
//! Divorced       ██████████├──┤              4440 ± 3.00
//! Never-married  █████████████████████├──┤  10683 ± 3.00
//! ```

use hushql_engine::visible;

use super::label::{self, cut, width};
use super::model::{Bar, Room};
use super::scale::Scale;

/// The longest label, in columns; longer labels are cut.
const LABEL: usize = 24;
/// Labels are cut to this width at most, however narrow the terminal is.
const SHORTEST: usize = 6;
/// The least number of columns for the bars.
const LEAST: usize = 10;
/// The spaces between label, bar and value.
const GAPS: usize = 4;

/// Draws bars. If there are too many, only the first and the last ones.
pub(super) fn text(bars: &[Bar], room: Room) -> String {
    let value = |bar: &Bar| {
        let text = match bar.margin {
            Some(margin) => format!("{} ± {}", bar.text, visible::rounded(margin)),
            None => bar.text.clone(),
        };
        cut(&text, room.width, room.ascii)
    };
    let longest =
        |texts: &mut dyn Iterator<Item = String>| texts.map(|text| width(&text)).max().unwrap_or(0);
    let values = longest(&mut bars.iter().map(value));
    let most = room.width.saturating_sub(values + GAPS + LEAST).clamp(SHORTEST, LABEL);
    let label = |bar: &Bar| cut(&bar.label, most, room.ascii);
    let labels = longest(&mut bars.iter().map(label));
    let cells = room.width.saturating_sub(labels + values + GAPS).max(LEAST);
    let scale = scale(bars);
    let line = |bar: &Bar| {
        format!(
            "{}  {}  {}",
            label::left(&label(bar), labels),
            strip(scale, cells, bar.value, bar.margin),
            label::right(&value(bar), values)
        )
    };
    let count = bars.len();
    match room.most.filter(|most| *most < count) {
        Some(most) => {
            let (first, last) = (most.div_ceil(2), most / 2);
            let shown = bars.iter().take(first).map(line);
            let shown = shown.chain(["…".to_owned()]);
            let shown = shown.chain(bars.iter().skip(count - last).map(line));
            let note = format!("({most} of {count} bars; \\rows all draws all)");
            shown.chain([note]).collect::<Vec<_>>().join("\n")
        }
        None => bars.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

/// The scale of bars. It includes zero, where bars begin.
pub(super) fn scale(bars: &[Bar]) -> Scale {
    let ends = bars.iter().map(|bar| {
        let reach = bar.margin.unwrap_or(0.0);
        (bar.value - reach, bar.value + reach)
    });
    Scale::of(ends).with_zero()
}

/// A bar from zero to its value, with its error bar over it.
fn strip(scale: Scale, cells: usize, value: f64, margin: Option<f64>) -> String {
    let cell = |value: f64| scale.cell(value, cells);
    let (zero, tip) = (cell(0.0), cell(value));
    let (from, to) = (zero.min(tip), zero.max(tip));
    let error = margin.map(|margin| (cell(value - margin), cell(value + margin)));
    let glyph = |at: usize| match error {
        Some((left, right)) if left == right && at == left => '┼',
        Some((left, _)) if at == left => '├',
        Some((_, right)) if at == right => '┤',
        Some((left, right)) if (left..right).contains(&at) => '─',
        _ if (from..=to).contains(&at) && value.abs() > 0.0 => '█',
        _ if at == zero => '│',
        _ => ' ',
    };
    (0..cells).map(glyph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_has_its_bar_and_its_error() {
        let scale = Scale { low: -4.0, high: 12.0 };
        // 23 cells: zero is in the sixth, and a cell is 16/22 wide.
        assert_eq!(strip(scale, 23, 10.0, Some(2.0)), "     ███████████├─────┤");
        assert_eq!(strip(scale, 23, -2.0, Some(2.0)), "├────┤                 ");
        assert_eq!(strip(scale, 23, 10.0, Some(0.0)), "     ██████████████┼   ");
        assert_eq!(strip(Scale { low: 0.0, high: 4.0 }, 9, 2.0, None), "█████    ");
        assert_eq!(strip(Scale { low: 0.0, high: 4.0 }, 9, 0.0, None), "│        ");
        assert_eq!(strip(Scale { low: 0.0, high: 0.0 }, 9, 0.0, None), "│        ");
    }
}
