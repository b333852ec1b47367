//! The content of a chart, before it is drawn.
//!
//! In: labels, numbers and their errors, as [`Chart::of`](super::Chart::of) finds them in an
//! answer. Out: panels, each with its own scale.
//!
//! ```text
//! Chart ─▶ Panel "n, error bars at 95 %" ─▶ Bars [Rome 12 ± 3, …] or Lines [north: (day, 12 ± 3), …]
//! ```

/// The drawings of an answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Chart {
    pub(super) panels: Vec<Panel>,
    /// Says what is not drawn.
    pub(super) remarks: Vec<String>,
}

/// One drawing, with its own scale.
#[derive(Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) drawing: Drawing,
}

#[derive(Debug, PartialEq)]
pub(super) enum Drawing {
    Bars(Vec<Bar>),
    Lines(LineChart),
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    /// Its error margin.
    pub(super) margin: Option<f64>,
    /// The value as the answer writes it.
    pub(super) text: String,
}

/// Lines over one x-axis.
#[derive(Debug, PartialEq)]
pub(super) struct LineChart {
    /// The name of the x-axis.
    pub(super) across: String,
    pub(super) series: Vec<Series>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// The points, in the order of the x-axis.
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    /// The place on the x-axis as the answer writes it.
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) margin: Option<f64>,
}

/// The room for a drawing in characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// The most bars. If there are more, the first and the last ones are drawn.
    pub(crate) most: Option<usize>,
    /// Whether to draw with ASCII signs only.
    pub(crate) ascii: bool,
}

impl Panel {
    /// The number of values.
    pub(super) fn len(&self) -> usize {
        match &self.drawing {
            Drawing::Bars(bars) => bars.len(),
            Drawing::Lines(lines) => lines.series.iter().map(|series| series.points.len()).sum(),
        }
    }
}

impl LineChart {
    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// Whether there are at least two places on the x-axis.
    pub(super) fn has_width(&self) -> bool {
        let mut places = self.points().map(|point| point.x);
        let first = places.next();
        first.is_some_and(|first| places.any(|x| x.total_cmp(&first).is_ne()))
    }

    /// The places on the x-axis, in order, each once.
    pub(super) fn places(&self) -> Vec<&Point> {
        let mut places: Vec<_> = self.points().collect();
        places.sort_by(|a, b| a.x.total_cmp(&b.x));
        places.dedup_by(|a, b| a.x.total_cmp(&b.x).is_eq());
        places
    }
}

impl LineChart {
    /// Removes the times of day if all of them are midnight.
    pub(super) fn shorten(&mut self) {
        const MIDNIGHT: [&str; 3] = ["T00:00:00Z", "T00:00:00", " 00:00:00"];
        for midnight in MIDNIGHT {
            if self.points().all(|point| point.label.ends_with(midnight)) {
                for point in self.series.iter_mut().flat_map(|series| &mut series.points) {
                    let length = point.label.len() - midnight.len();
                    point.label.truncate(length);
                }
            }
        }
    }
}
