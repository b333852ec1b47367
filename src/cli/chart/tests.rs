//! Charts of several kinds of answers, in characters and as pictures.

use super::super::view::Margin;
use super::*;

const ROOM: Room = Room { width: 60, height: 20, most: None, ascii: false };

fn column(name: &str, kind: ColumnFormat, errors: Option<Vec<Option<f64>>>) -> AnswerColumn {
    let margin = errors.map(|errors| Margin { errors, confidence: 0.95 });
    AnswerColumn { name: name.to_owned(), kind, margin }
}

fn text(value: &str) -> Cell {
    Cell::Text(value.to_owned())
}

fn number(value: &str) -> Cell {
    Cell::Number(value.to_owned())
}

/// Statuses, and counts with an error.
fn counts(rows: &[(&str, &str)], margin: Option<f64>) -> View {
    let errors = margin.map(|value| vec![Some(value); rows.len()]);
    View {
        columns: vec![
            column("status", ColumnFormat::Text, None),
            column("n", ColumnFormat::Integer, errors),
        ],
        rows: rows.iter().map(|(label, value)| vec![text(label), number(value)]).collect(),
        winners: Vec::new(),
    }
}

fn drawn(view: &View, room: Room) -> String {
    Chart::of(view, ChartShape::Fitting).unwrap().text(room)
}

#[test]
fn bars_are_in_proportion_and_carry_error_bars() {
    let view = counts(&[("a", "10"), ("bb", "5"), ("c", "-2")], Some(2.0));
    // 23 cells for -4 to 12: zero is in the sixth, and a cell is 16/22 wide.
    let expected = "\
n, error bars at 95 %
a        ███████████├─────┤  10 ± 2.00
bb       ████├─────┤          5 ± 2.00
c   ├────┤                   -2 ± 2.00";
    let room = Room { width: 40, ..ROOM };
    assert_eq!(drawn(&view, Room { width: 38, ..room }), expected);
    let bare = drawn(&counts(&[("a", "4"), ("b", "0")], None), room);
    assert!(bare.starts_with("n\na  ████"), "{bare}");
}

#[test]
fn what_has_no_numbers_is_not_drawn() {
    assert_eq!(Chart::of(&counts(&[], Some(1.0)), ChartShape::Fitting), None);
    assert_eq!(Chart::of(&counts(&[("a", "NaN")], Some(1.0)), ChartShape::Fitting), None);
    let none = View { columns: Vec::new(), rows: vec![Vec::new()], winners: Vec::new() };
    assert_eq!(Chart::of(&none, ChartShape::Bars), None);
    let drawable =
        |kinds: [ColumnFormat; 2], shape| can_be_drawn(&kinds.map(|kind| (kind, false)), shape);
    assert_eq!(
        drawable([ColumnFormat::Text, ColumnFormat::Time], ChartShape::Fitting),
        Drawable::WithoutNumbers
    );
    assert_eq!(
        drawable([ColumnFormat::Text, ColumnFormat::Integer], ChartShape::Fitting),
        Drawable::Yes
    );
    assert_eq!(
        drawable([ColumnFormat::Text, ColumnFormat::Integer], ChartShape::Lines),
        Drawable::WithoutAxis
    );
    assert_eq!(
        drawable([ColumnFormat::Time, ColumnFormat::Integer], ChartShape::Lines),
        Drawable::Yes
    );
}

#[test]
fn null_and_nan_are_left_out_and_counted() {
    let view = counts(&[("a", "1"), ("b", "NaN"), ("c", "inf"), ("d", "2")], None);
    let shown = drawn(&view, ROOM);
    assert!(shown.ends_with("\n(2 values that are NULL or no number: not drawn)"), "{shown}");
    let mut one = counts(&[("a", "1")], None);
    one.rows.push(vec![Cell::Null, Cell::Null]);
    assert!(drawn(&one, ROOM).ends_with("(1 value that is NULL or no number: not drawn)"));
}

/// At every width, with labels of every kind, no line is wider than the terminal.
#[test]
fn lines_keep_to_the_width() {
    let long = "a label that goes on and on and on and on";
    for width in [40, 60, 80, 200] {
        for ascii in [false, true] {
            let room = Room { width, ascii, ..ROOM };
            let rows = [(long, "123456"), ("\u{1b}[2J", "-7"), ("東京都庁東京都庁東京都庁", "3")];
            let shown = drawn(&counts(&rows, Some(50.0)), room);
            for line in shown.lines() {
                assert!(label::width(line) <= width, "{width}: {line}");
            }
            // The title is short; the bars fill the width.
            assert!(shown.lines().skip(1).all(|line| label::width(line) == width), "{shown}");
            assert!(!shown.contains('\u{1b}'), "{shown}");
            let shown = drawn(&days(30, true), room);
            for line in shown.lines() {
                assert!(label::width(line) <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn of_many_bars_both_ends_are_drawn() {
    let rows: Vec<(String, String)> = (0..1000).map(|n| (format!("r{n}"), n.to_string())).collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let view = counts(&rows, Some(3.0));
    let shown = drawn(&view, Room { most: Some(5), ..ROOM });
    assert_eq!(shown.lines().count(), 8, "{shown}");
    assert!(shown.contains("\nr2 ") && shown.contains("\n…\nr998"), "{shown}");
    assert!(shown.ends_with("(5 of 1000 bars; \\rows all draws all)"), "{shown}");
    let picture = Chart::of(&view, ChartShape::Fitting).unwrap().svg(&[]);
    assert_eq!(picture.matches("<rect").count(), 101, "a background and a hundred bars");
    assert!(picture.contains("900 more bars"), "{picture}");
}

/// Counts by day, for one ward or for two.
fn days(count: u32, two: bool) -> View {
    let mut rows = Vec::new();
    for day in 1..=count {
        for ward in if two { &["north", "south"][..] } else { &["north"] } {
            let n = day * 10 + u32::try_from(ward.len()).unwrap();
            rows.push(vec![text(&format!("2024-01-{day:02}")), text(ward), number(&n.to_string())]);
        }
    }
    let errors = vec![Some(9.0); rows.len()];
    View {
        columns: vec![
            column("day", ColumnFormat::Time, None),
            column("ward", ColumnFormat::Text, None),
            column("n", ColumnFormat::Integer, Some(errors)),
        ],
        rows,
        winners: Vec::new(),
    }
}

#[test]
fn dates_are_an_axis_and_texts_are_series() {
    let chart = Chart::of(&days(5, true), ChartShape::Fitting).unwrap();
    let [Panel { title, drawing: Drawing::Lines(lines) }] = chart.panels.as_slice() else {
        panic!("{chart:?}")
    };
    assert_eq!((title.as_str(), lines.across.as_str()), ("n, error bars at 95 %", "day"));
    let names: Vec<_> = lines.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["north", "south"]);
    let shown = chart.text(ROOM);
    for part in ["●", "▲", "┬", "┴", "2024-01-01", "2024-01-05", "x: day", "● north   ▲ south"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // A single place does not make a line, unless the user asks for lines. The user may ask for
    // bars, too.
    let bars = |view: &View, shape| {
        let chart = Chart::of(view, shape).unwrap();
        chart.panels.iter().all(|panel| matches!(panel.drawing, Drawing::Bars(_)))
    };
    assert!(bars(&days(1, false), ChartShape::Fitting) && bars(&days(5, true), ChartShape::Bars));
    assert!(!bars(&days(1, false), ChartShape::Lines));
    assert!(drawn(&days(1, false), ROOM).contains("2024-01-01 · north"));
}

#[test]
fn numbers_are_an_axis_if_they_come_first() {
    let error = || Some(vec![Some(1.0); 3]);
    let rows = |_| vec![number("1"), number("20"), number("3000")];
    let view = |first: AnswerColumn, second: AnswerColumn| View {
        columns: vec![first, second, column("s", ColumnFormat::Number, error())],
        rows: (0..3)
            .map(rows)
            .enumerate()
            .map(|(at, mut row)| {
                row[0] = number(&(3 - at).to_string());
                row
            })
            .collect(),
        winners: Vec::new(),
    };
    // Each number has its own panel, because one is a hundred times the other. The points are in
    // the order of the axis.
    let hours = view(
        column("hour", ColumnFormat::Integer, None),
        column("n", ColumnFormat::Integer, error()),
    );
    let chart = Chart::of(&hours, ChartShape::Fitting).unwrap();
    assert_eq!(chart.panels.len(), 2);
    let Drawing::Lines(lines) = &chart.panels[0].drawing else { panic!("{chart:?}") };
    let places: Vec<_> = lines.points().map(|point| point.label.as_str()).collect();
    assert_eq!(places, ["1", "2", "3"]);
    // A released number cannot be the axis.
    let released = view(
        column("n", ColumnFormat::Integer, error()),
        column("m", ColumnFormat::Integer, error()),
    );
    let chart = Chart::of(&released, ChartShape::Fitting).unwrap();
    assert!(matches!(chart.panels[0].drawing, Drawing::Bars(_)), "{chart:?}");
}

#[test]
fn times_have_a_place() {
    assert_eq!(seconds("1970-01-02"), Some(86_400.0));
    assert_eq!(seconds("1970-01-01T00:00:01.5"), Some(1.5));
    assert_eq!(seconds("1970-01-01T01:00:00+01:00"), Some(0.0));
    assert_eq!(seconds("1969-12-31"), Some(-86_400.0));
    assert_eq!(seconds("noon"), None);
    let mut months = days(3, false);
    for (row, month) in months.rows.iter_mut().zip(["01", "02", "03"]) {
        row[0] = text(&format!("2024-{month}-01T00:00:00"));
    }
    assert!(drawn(&months, ROOM).contains("2024-01-01  "), "midnight is not written");
}

#[test]
fn many_points_and_many_series_have_their_limits() {
    let mut many = days(28, false);
    many.rows =
        (0..1000).map(|n| vec![text("2024-01-01"), text("x"), number(&n.to_string())]).collect();
    for (at, row) in many.rows.iter_mut().enumerate() {
        row[0] = text(&format!("{}-01-01", 1000 + at));
    }
    many.columns[2].margin = Some(Margin { errors: vec![Some(9.0); 1000], confidence: 0.95 });
    let shown = drawn(&many, ROOM);
    assert!(shown.contains("(too many points for error bars)"), "{shown}");
    let mut wards = days(3, false);
    wards.rows = (0..40)
        .map(|n| {
            vec![
                text(&format!("2024-01-0{}", n % 2 + 1)),
                text(&format!("w{}", n / 2)),
                number("1"),
            ]
        })
        .collect();
    wards.columns[2].margin = None;
    let shown = drawn(&wards, ROOM);
    assert!(shown.contains("(8 of 20 series are drawn)"), "{shown}");
}

#[test]
fn ascii_is_ascii() {
    let room = Room { ascii: true, ..ROOM };
    for view in [days(9, true), counts(&[("a · b", "5"), ("c", "-5")], Some(1.5))] {
        let shown = drawn(&view, room);
        let shown = super::super::plain::ascii(&shown);
        assert!(shown.is_ascii(), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= ROOM.width), "{shown}");
    }
}

#[test]
fn errors_are_drawn_by_cost() {
    let session = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
    let sql = "SELECT LAPLACE(eps=0.5) COUNT(*) AS n, EXPONENTIAL(eps=0.5) MEDIAN(age) AS middle FROM adult";
    let forecasts = session.forecast(sql).unwrap();
    let text = Chart::of_accuracy(&forecasts).unwrap().text(ROOM);
    assert!(text.starts_with("n, off by at most with 95 %\nε = 0.0625  ████"), "{text}");
    assert!(text.contains("\n\nmiddle, off by at most so many ranks with 95 %\n"), "{text}");
    assert!(text.lines().all(|line| label::width(line) <= 60), "{text}");
    let bare = session.forecast("SELECT 1");
    assert!(bare.unwrap_err().to_string().contains("no release states an eps"));
    assert_eq!(Chart::of_accuracy(&[]), None);
}

#[test]
fn budgets_are_drawn_day_by_day_up_to_their_limit() {
    let session = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
    let states = session.budgets().unwrap();
    let day = |budget: &str, day: &str, nano| {
        (budget.to_owned(), day.to_owned(), Spend::of_epsilon(nano, 0))
    };
    assert_eq!(Chart::of_budgets(&states, &[], ""), None);
    let one = [day("adult", "2026-03-01", 500_000_000)];
    let text = Chart::of_budgets(&states, &one, "adult").unwrap().text(ROOM);
    assert!(text.starts_with("adult, ε spent of 10\n2026-03-01 "), "{text}");
    assert!(text.contains("\nleft "), "{text}");
    assert_eq!(Chart::of_budgets(&states, &one, "bids"), None);
    let several = [
        day("adult", "2026-03-01", 500_000_000),
        day("adult", "2026-03-04", 1_500_000_000),
        day("bids", "2026-03-02", 250_000_000),
    ];
    let chart = Chart::of_budgets(&states, &several, "").unwrap();
    let text = chart.text(ROOM);
    assert!(text.starts_with("adult, ε spent of 10\n"), "{text}");
    assert!(text.contains("spent") && text.contains("limit"), "{text}");
    assert!(text.contains("\n\nbids, ε spent of 10\n2026-03-02 "), "{text}");
    let sums: Vec<String> = match &chart.panels[0].drawing {
        Drawing::Lines(lines) => {
            lines.series[0].points.iter().map(|point| point.value.to_string()).collect()
        }
        Drawing::Bars(bars) => panic!("{bars:?}"),
    };
    assert_eq!(sums, ["0.5", "2"]);
}

/// Whatever a label contains, the picture has only its own elements.
#[test]
fn a_picture_holds_its_texts_and_nothing_of_theirs() {
    let hostile = "</text><script>alert(1)</script>\"'&\u{0}\u{202e}";
    let long = format!("{hostile}{}", "x".repeat(5000));
    let view = counts(&[(hostile, "10"), (&long, "-3"), ("c", "NaN")], Some(2.0));
    let bars = Chart::of(&view, ChartShape::Fitting).unwrap();
    let mut series = days(3, true);
    for row in &mut series.rows {
        row[1] = text(hostile);
    }
    series.columns[0].name = hostile.to_owned();
    let lines = Chart::of(&series, ChartShape::Fitting).unwrap();
    for picture in [bars.svg(&[hostile.to_owned()]), lines.svg(&[])] {
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
        assert!(!picture.contains("<script") && !picture.contains('\u{0}'), "{picture}");
        assert!(picture.len() < 20_000, "{}", picture.len());
        elements(&picture);
    }
}

/// Reads a document of elements with attributes and texts. Every element that opens closes, and
/// only those of charts occur.
fn elements(picture: &str) {
    let mut open = Vec::new();
    for part in picture.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        assert!(!text.contains(['>', '"']), "{text}");
        for entity in text.split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;", "#39;"]
                    .iter()
                    .any(|known| entity.starts_with(known))
            );
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(
            ["svg", "text", "title", "rect", "line", "circle", "polyline"].contains(&name),
            "{name}"
        );
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
