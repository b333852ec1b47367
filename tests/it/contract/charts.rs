//! `\plot` in the shell: charts of released results, in characters at every width and as pictures,
//! each charged once.

use std::fs;

use super::program::Study;
use super::terminal::Terminal;

const BY_CITY: &str = "SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city";

#[test]
fn a_chart_fits_every_width() {
    let by_status =
        "\\plot SELECT status, LAPLACE(eps=0.01) COUNT(*) AS n FROM adult GROUP BY status\r";
    let by_month = "\\plot SELECT date_trunc('month', ts) AS month, LAPLACE(eps=0.05) COUNT(*) AS n FROM orders GROUP BY 1\r";
    for (width, locale) in [(60, "C.UTF-8"), (80, "C.UTF-8"), (200, "C.UTF-8"), (60, "C")] {
        let Some(mut terminal) = Terminal::demo(width, &[("LC_ALL", locale), ("NO_COLOR", "1")])
        else {
            return;
        };
        let is_ascii = locale == "C";
        terminal.press(by_status);
        terminal.until("n, error bars at 95 %\r\n");
        let bars = terminal.until("cost");
        let (bar, tick) = if is_ascii { ("####", "+/- ") } else { ("████", "├") };
        assert!(bars.contains(bar) && bars.contains(tick), "{width}: {bars}");
        terminal.press(by_month);
        terminal.until("n, error bars at 95 %\r\n");
        let lines = terminal.until("x: month");
        assert!(
            lines.contains("2025-01-01") && lines.contains(if is_ascii { '*' } else { '●' }),
            "{lines}"
        );
        // Notes have the width that they need.
        let drawn = |line: &&str| !line.contains("exceeds half of it");
        for line in bars.lines().chain(lines.lines()).filter(drawn) {
            assert!(
                line.trim_end_matches('\r').chars().count() <= usize::from(width),
                "{width}: {line}"
            );
        }
        assert!(!is_ascii || (bars.is_ascii() && lines.is_ascii()), "{bars}{lines}");
        let all = terminal.leave();
        assert!(!all.contains("\u{1b}[1;36m"), "NO_COLOR");
    }
}

#[test]
fn a_chart_is_charged_once_and_drawn_again_for_free() {
    let Some(mut terminal) = Terminal::open(Study::with_people(), "study.db --owner", 80, &[])
    else {
        return;
    };
    terminal.press("\\plot\r");
    terminal.until("there is no answer yet");
    terminal.press(&format!("\\plot {BY_CITY} TO 'cities.svg'\r"));
    terminal.until("written to cities.svg");
    terminal.until("cost ε = 1");
    assert_eq!(terminal.study().spent().0, 1);
    let picture = fs::read_to_string(terminal.study().path("cities.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains(">Rome<"), "{picture}");
    for again in ["\\plot\r", "\\plot last\r", "\\plot bars last;\r"] {
        terminal.press(again);
        terminal.until("n, error bars at 95 %");
        terminal.until("Rome");
    }
    terminal.press("\\plot last TO 'again.svg'\r");
    terminal.until("written to again.svg");
    assert_eq!(fs::read_to_string(terminal.study().path("again.svg")).unwrap(), picture);
    assert_eq!(terminal.study().spent().0, 1);
    // An answer that was shown as rows can be drawn, too.
    terminal.press(&format!("{BY_CITY};\r"));
    terminal.until("cost");
    terminal.press("\\plot\r");
    terminal.until("n, error bars at 95 %");
    assert_eq!(terminal.study().spent().0, 2);
    terminal.leave();
}

/// What is known not to work costs nothing.
#[test]
fn what_cannot_be_drawn_or_written_is_not_charged() {
    let Some(mut terminal) = Terminal::open(Study::with_people(), "study.db --owner", 80, &[])
    else {
        return;
    };
    terminal.study().write("there.svg", "mine");
    let choice = "SELECT ARGMAX EXPONENTIAL(eps=1) city FROM people GROUP BY city";
    for (command, said) in [
        (format!("\\plot {choice}\r"), "needs a numeric column"),
        (format!("\\plot {choice} TO 'a.svg'\r"), "needs a numeric column"),
        (format!("\\plot lines {BY_CITY}\r"), "lines need an x-axis"),
        ("\\plot accuracy\r".to_owned(), "write \\plot accuracy QUERY"),
        ("\\plot budget\r".to_owned(), "nothing was charged to a budget of this name"),
        (format!("\\plot {BY_CITY} TO 'there.svg'\r"), "`there.svg` exists already"),
        (format!("\\plot {BY_CITY} TO 'a.png'\r"), "a chart is written as SVG"),
        (format!("\\plot {BY_CITY} TO 'no/such/folder.svg'\r"), "cannot be created"),
        ("\\plot DROP PRIVACY BUDGET b\r".to_owned(), "this statement is not a query"),
        ("\\plot SELECT age FROM people\r".to_owned(), "HQ001"),
    ] {
        terminal.press(&command);
        terminal.until(said);
    }
    assert_eq!(terminal.study().spent().0, 0);
    assert_eq!(fs::read_to_string(terminal.study().path("there.svg")).unwrap(), "mine");
    assert!(!terminal.study().path("a.svg").exists());
    // Without rows, the answer is shown as it is, and no picture is left.
    terminal.press("\\plot SELECT 1 AS x WHERE FALSE TO 'none.svg'\r");
    terminal.until("there is nothing to plot in this answer");
    terminal.until("(no rows)");
    terminal.leave();
}
