//! Charts as pictures: SVG, which browsers, editors and word processors show.
//!
//! In: a [`Chart`], and the notes of its answer. Out: an SVG document of fixed width. Every text is
//! escaped. Long texts are cut, and a tooltip has the whole text. Labels come from people who may
//! be hostile to the reader of the file.
//!
//! ```text
//! <svg …><text …>n, error bars at 95 %</text><rect …/><line …/>…</svg>
//! ```

use std::fmt::Write as _;

use hushql_engine::visible;

use super::label::{cut, width};
use super::model::{Bar, Chart, Drawing, LineChart, Point};
use super::scale::{Scale, float};
use super::{bars, lines};

/// The width of a picture, in pixels.
const WIDTH: f64 = 760.0;
/// The margin around the picture.
const EDGE: f64 = 20.0;
/// The font size, and the approximate width of a letter.
const LETTER: f64 = 12.0;
const LETTER_WIDTH: f64 = 6.8;
/// The height of a line of text, and of a bar with the space around it.
const LINE: f64 = 18.0;
const BAR: f64 = 24.0;
/// The height of a drawing with lines.
const GRAPH: f64 = 300.0;
/// The longest label and the longest note, in letters.
const LABEL: usize = 30;
const NOTE: usize = 105;
/// The most bars of a panel. If there are more, the first and the last ones are drawn.
const BARS: usize = 100;

/// Colours that people with colour blindness can distinguish (Okabe and Ito), the darkest first.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6e6e6e", "#000000"];

/// A picture of a chart.
pub(super) fn picture(chart: &Chart, notes: &[String]) -> String {
    let mut canvas = Canvas { body: String::new(), y: EDGE };
    for panel in &chart.panels {
        canvas.y += LINE;
        canvas.heading(&panel.title);
        match &panel.drawing {
            Drawing::Bars(bars) => canvas.bars(bars),
            Drawing::Lines(lines) => canvas.lines(lines),
        }
        canvas.y += LINE / 2.0;
    }
    for note in chart.remarks.iter().chain(notes) {
        canvas.note(note);
    }
    let height = canvas.y + EDGE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"{LETTER}\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
        canvas.body
    )
}

/// Where a text is anchored.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// The elements so far, and the position of the next line.
struct Canvas {
    body: String,
    y: f64,
}

impl Canvas {
    /// Adds an element, whose texts are already escaped.
    fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, most: usize) {
        let short = cut(text, most, false);
        let whole = if short == text { String::new() } else { tooltip(text) };
        self.add(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\" fill=\"#222222\">{}{whole}</text>",
            anchor.name(),
            escaped(&short)
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, thick: f64) {
        self.add(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{thick}\"/>"
        ));
    }

    fn heading(&mut self, title: &str) {
        let y = self.y - LINE / 3.0;
        self.add(&format!(
            "<text x=\"{EDGE:.1}\" y=\"{y:.1}\" font-weight=\"bold\" fill=\"#222222\">{}</text>",
            escaped(&cut(title, NOTE - 10, false))
        ));
    }

    /// A note. Long ones are broken at spaces.
    fn note(&mut self, note: &str) {
        let mut line = String::new();
        let note = visible::line(note);
        let mut lines = Vec::new();
        for word in note.split(' ') {
            if !line.is_empty() && width(&line) + 1 + width(word) > NOTE {
                lines.push(std::mem::take(&mut line));
            }
            line = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        }
        lines.push(line);
        for line in lines {
            self.y += LINE;
            self.text((EDGE, self.y - LINE / 3.0), Anchor::Start, &line, NOTE);
        }
    }

    fn bars(&mut self, all: &[Bar]) {
        let left_out = all.len().saturating_sub(BARS);
        let (first, last) = all.split_at(if left_out > 0 { BARS / 2 } else { all.len() });
        let last = last.get(left_out.min(last.len())..).unwrap_or_default();
        let value = |bar: &Bar| match bar.margin {
            Some(margin) => format!("{} ± {}", bar.text, visible::rounded(margin)),
            None => bar.text.clone(),
        };
        let longest =
            |texts: &mut dyn Iterator<Item = usize>| float(texts.max().unwrap_or(0).min(LABEL));
        let labels = longest(&mut all.iter().map(|bar| width(&visible::line(&bar.label))));
        let values = longest(&mut all.iter().map(|bar| width(&value(bar))));
        let start = EDGE + labels * LETTER_WIDTH + 8.0;
        let end = WIDTH - EDGE - values * LETTER_WIDTH - 12.0;
        let scale = bars::scale(all);
        let x = |value: f64| start + scale.share(value) * (end - start);
        let rows = first.len() + last.len() + usize::from(left_out > 0);
        let (top, bottom) = (self.y, self.y + float(rows) * BAR);
        self.grid(scale, &x, (top, bottom));
        let mut y = top;
        for (at, bar) in first.iter().chain(last).enumerate() {
            if left_out > 0 && at == BARS / 2 {
                let said = format!("… {left_out} more bars …");
                self.text((start, y + BAR * 0.67), Anchor::Start, &said, LABEL);
                y += BAR;
            }
            let (tip, middle) = (x(bar.value), y + BAR / 2.0);
            let (from, to) = (tip.min(x(0.0)), tip.max(x(0.0)));
            self.add(&format!(
                "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" fill-opacity=\"0.75\">{}</rect>",
                y + 4.0,
                to - from,
                BAR - 8.0,
                COLOURS[0],
                tooltip(&format!("{}: {}", bar.label, value(bar)))
            ));
            if let Some(margin) = bar.margin {
                let (low, high) = (x(bar.value - margin), x(bar.value + margin));
                self.line((low, middle), (high, middle), "#222222", 1.5);
                for end in [low, high] {
                    self.line((end, middle - 4.0), (end, middle + 4.0), "#222222", 1.5);
                }
            }
            self.text((start - 8.0, y + BAR * 0.67), Anchor::End, &bar.label, LABEL);
            self.text((WIDTH - EDGE, y + BAR * 0.67), Anchor::End, &value(bar), LABEL);
            y += BAR;
        }
        self.line((x(0.0), top), (x(0.0), bottom), "#222222", 1.0);
        self.y = bottom + LINE + 4.0;
    }

    /// The ticks of an x-axis of numbers.
    fn grid(&mut self, scale: Scale, x: &dyn Fn(f64) -> f64, (top, bottom): (f64, f64)) {
        for (value, text) in scale.ticks(5) {
            self.line((x(value), top), (x(value), bottom), "#dddddd", 1.0);
            self.text((x(value), bottom + LINE - 3.0), Anchor::Middle, &text, LABEL);
        }
    }

    fn lines(&mut self, lines: &LineChart) {
        if lines.series.len() > 1 {
            self.legend(lines);
        }
        let down = lines::scale(lines);
        let ticks = down.ticks(6);
        let widest = ticks.iter().map(|(_, text)| width(text)).max().unwrap_or(0);
        let (left, right) = (EDGE + float(widest) * LETTER_WIDTH + 10.0, WIDTH - EDGE - 10.0);
        let (top, bottom) = (self.y + 6.0, self.y + 6.0 + GRAPH);
        let y = |value: f64| bottom - down.share(value) * GRAPH;
        for (value, text) in ticks {
            self.line((left, y(value)), (right, y(value)), "#dddddd", 1.0);
            self.text((left - 6.0, y(value) + 4.0), Anchor::End, &text, LABEL);
        }
        let places = lines.places();
        let across = Scale::of(places.iter().map(|point| (point.x, point.x)));
        let x = |point: &Point| left + across.share(point.x) * (right - left);
        let mut free = f64::NEG_INFINITY;
        for point in places {
            let half = float(width(&point.label).min(LABEL)) * LETTER_WIDTH / 2.0;
            // A label begins after the one before it, and ends within the picture.
            if x(point) - half >= free && x(point) + half <= WIDTH - 2.0 {
                self.line((x(point), bottom), (x(point), bottom + 5.0), "#222222", 1.0);
                self.text((x(point), bottom + LINE), Anchor::Middle, &point.label, LABEL);
                free = x(point) + half + 3.0 * LETTER_WIDTH;
            }
        }
        for (series, colour) in lines.series.iter().zip(COLOURS) {
            let mut path = String::new();
            for point in &series.points {
                let _ = write!(path, "{:.1},{:.1} ", x(point), y(point.value));
            }
            self.add(&format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.trim_end()
            ));
            for point in &series.points {
                self.point((x(point), y(point.value)), point, &y, &series.name, colour);
            }
        }
        self.line((left, bottom), (right, bottom), "#222222", 1.0);
        self.line((left, top), (left, bottom), "#222222", 1.0);
        self.text(((left + right) / 2.0, bottom + 2.0 * LINE), Anchor::Middle, &lines.across, NOTE);
        self.y = bottom + 2.0 * LINE + 6.0;
    }

    /// A point and its error bar.
    fn point(
        &mut self,
        (x, y): (f64, f64),
        point: &Point,
        height: &dyn Fn(f64) -> f64,
        name: &str,
        colour: &str,
    ) {
        let mut said = format!("{name}, {}: {}", point.label, point.value);
        if let Some(margin) = point.margin {
            let (top, bottom) = (height(point.value + margin), height(point.value - margin));
            self.line((x, top), (x, bottom), colour, 1.0);
            for end in [top, bottom] {
                self.line((x - 3.0, end), (x + 3.0, end), colour, 1.0);
            }
            let _ = write!(said, " ± {}", visible::rounded(margin));
        }
        self.add(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\">{}</circle>",
            tooltip(&said)
        ));
    }

    fn legend(&mut self, lines: &LineChart) {
        let mut x = EDGE;
        self.y += LINE;
        for (series, colour) in lines.series.iter().zip(COLOURS) {
            let room = float(width(&series.name).min(LABEL)) * LETTER_WIDTH + 36.0;
            if x > EDGE && x + room > WIDTH - EDGE {
                (x, self.y) = (EDGE, self.y + LINE);
            }
            let y = self.y - LINE / 3.0;
            self.add(&format!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
                y - 9.0
            ));
            self.text((x + 16.0, y), Anchor::Start, &series.name, LABEL);
            x += room;
        }
    }
}

/// The full text for a cut one, up to a thousand characters.
fn tooltip(text: &str) -> String {
    format!("<title>{}</title>", escaped(&cut(text, 1000, false)))
}

/// A text in XML. Characters that XML does not allow, or that control a display, are spelled out.
fn escaped(text: &str) -> String {
    visible::markup(&visible::line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escaped("</text><script>&'\""), "&lt;/text&gt;&lt;script&gt;&amp;&#39;&quot;");
        assert_eq!(escaped("a\u{0}\u{202e}\u{ffff}"), "a\\u{0}\\u{202e}\u{fffd}");
    }
}
