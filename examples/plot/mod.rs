//! The plots of the examples: panels of lines, dots and bars, written as one SVG.
//!
//! In: panels, and a folder as the program's first argument (by default the one for temporary
//! files). Out: the file `NAME.svg` in it, and its path. The points must be public or invented: a
//! plot adds no noise.
//!
//! ```text
//! draw("name", &[Panel { title, x: Axis { … }, y: Axis { … }, series: vec![Series { label, marks, points }] }])
//! ```

#![allow(dead_code, reason = "no example needs all kinds of marks and axes")]

use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, DrawingArea, IntoDrawingArea, LineSeries, RGBColor,
    Rectangle, SVGBackend, SeriesLabelPosition, WHITE,
};

/// Blue, vermilion, green: people with colour blindness can distinguish them, too.
const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115)];

/// How the points of a series are drawn.
pub(crate) enum Marks {
    Line,
    Dots,
    /// Bars from 0, with this width, around each x.
    Bars(f64),
}

pub(crate) struct Series<'a> {
    pub(crate) label: &'a str,
    pub(crate) marks: Marks,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The labels at the ticks of an axis.
pub(crate) enum Ticks<'a> {
    Numbers,
    /// The axis holds logarithms; the ticks show the powers of ten.
    Powers,
    /// The names of 0, 1, 2, ….
    Names(&'a [&'a str]),
}

pub(crate) struct Axis<'a> {
    pub(crate) label: &'a str,
    pub(crate) range: Range<f64>,
    pub(crate) ticks: Ticks<'a>,
}

impl Axis<'_> {
    fn text(&self, at: f64) -> String {
        let whole = (at - at.round()).abs() < 1e-9;
        match self.ticks {
            Ticks::Numbers => {
                let text = format!("{at:.4}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Ticks::Powers if whole => format!("{}", 10_f64.powf(at.round())),
            Ticks::Names(names) if whole => {
                let named = (0_u32..).zip(names).find(|(i, _)| (f64::from(*i) - at).abs() < 0.5);
                named.map_or(String::new(), |(_, name)| (*name).to_owned())
            }
            Ticks::Powers | Ticks::Names(_) => String::new(),
        }
    }
}

pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: Axis<'a>,
    pub(crate) y: Axis<'a>,
    pub(crate) series: Vec<Series<'a>>,
}

impl Panel<'_> {
    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn Error>> {
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(self.x.range.clone(), self.y.range.clone())?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x.label).y_desc(self.y.label).max_light_lines(0);
        mesh.x_label_formatter(&|x| self.x.text(*x))
            .y_label_formatter(&|y| self.y.text(*y))
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let points = series.points.iter().copied();
            let drawn = match series.marks {
                Marks::Line => {
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                }
                Marks::Dots => {
                    chart.draw_series(points.map(|at| Circle::new(at, 4, colour.filled())))?
                }
                Marks::Bars(width) => chart.draw_series(points.map(|(x, y)| {
                    let corners = [(x - width / 2.0, 0.0), (x + width / 2.0, y)];
                    Rectangle::new(corners, colour.mix(0.4).filled())
                }))?,
            };
            let key = move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled());
            drawn.label(series.label).legend(key);
        }
        let mut labels = chart.configure_series_labels();
        labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8));
        labels.border_style(BLACK.mix(0.3)).draw()?;
        Ok(())
    }
}

/// Writes the panels, two in a row, and prints the path.
pub(crate) fn draw(name: &str, panels: &[Panel<'_>]) -> Result<PathBuf, Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let (columns, rows) = (panels.len().clamp(1, 2), panels.len().div_ceil(2).max(1));
    let size = (560 * u32::try_from(columns)?, 400 * u32::try_from(rows)?);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (area, panel) in area.split_evenly((rows, columns)).iter().zip(panels) {
            panel.draw(area)?;
        }
        area.present()?;
    }
    let path = folder.join(format!("{name}.svg"));
    std::fs::write(&path, svg)?;
    Ok(path)
}
