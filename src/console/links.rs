//! The picture of tables and of the links between them.
//!
//! In: tables, and for each the table that it leads to. Out: an SVG, with the tables whose rows
//! name people on the left, and each other table to the right of the one that it leads to.
//!
//! ```text
//! customers ◀── orders ◀── lines          parts (public)
//! ```

use std::collections::HashMap;
use std::fmt::Write;

use hushql_engine::visible::{line, markup};

/// A table of the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkedTable {
    pub(super) name: String,
    /// What SHOW TABLES says of its privacy.
    pub(super) privacy: String,
    /// The tables that its rows lead to.
    pub(super) leads_to: Vec<String>,
}

/// More tables than this make no picture that helps.
const MOST: usize = 40;

const WIDTH: usize = 190;
const HEIGHT: usize = 48;
const BETWEEN: usize = 70;
const BELOW: usize = 18;

/// The links in words, for who cannot see the picture.
pub(super) fn told(tables: &[LinkedTable]) -> String {
    let links = tables
        .iter()
        .flat_map(|table| table.leads_to.iter().map(|to| format!("{} leads to {to}", table.name)));
    let links: Vec<String> = links.collect();
    match links.is_empty() {
        true => "No table leads to another.".to_owned(),
        false => format!("{}.", links.join("; ")),
    }
}

/// The picture; `None` if no table leads to another, or if there are more than 40 tables.
pub(super) fn picture(tables: &[LinkedTable]) -> Option<String> {
    if tables.len() > MOST || tables.iter().all(|table| table.leads_to.is_empty()) {
        return None;
    }
    let places = places(tables);
    let right = places.values().map(|(x, _)| x + WIDTH).max()?;
    let bottom = places.values().map(|(_, y)| y + HEIGHT).max()?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" font-family=\"system-ui, sans-serif\" font-size=\"14\"><title>{}</title><defs><marker id=\"a\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"#6b7480\"/></marker></defs>",
        right + 10,
        bottom + 10,
        right + 10,
        markup(&line(&told(tables)))
    );
    for table in tables {
        let from = places.get(table.name.as_str());
        for to in &table.leads_to {
            let (Some((x, y)), Some((to_x, to_y))) = (from, places.get(to.as_str())) else {
                continue;
            };
            let (y, to_x, to_y) = (y + HEIGHT / 2, to_x + WIDTH, to_y + HEIGHT / 2);
            // Writing into a text does not fail.
            let _ = write!(
                svg,
                "<path d=\"M{x} {y}C{} {y} {} {to_y} {to_x} {to_y}\" fill=\"none\" stroke=\"#6b7480\" stroke-width=\"1.5\" marker-end=\"url(#a)\"/>",
                x.saturating_sub(BETWEEN / 2),
                to_x + BETWEEN / 2
            );
        }
    }
    for table in tables {
        if let Some(place) = places.get(table.name.as_str()) {
            drawn(&mut svg, table, *place);
        }
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn drawn(svg: &mut String, table: &LinkedTable, (x, y): (usize, usize)) {
    let ground = match table.privacy.starts_with("private") {
        true => "#dbe9f8",
        false => "#eef1f4",
    };
    let _ = write!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"{ground}\" stroke=\"#6b7480\"/><text x=\"{}\" y=\"{}\" font-weight=\"600\" fill=\"#1b1f24\">{}</text><text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#3c4450\">{}</text>",
        x + 10,
        y + 20,
        markup(&shortened(&table.name, 21)),
        x + 10,
        y + 38,
        markup(&shortened(&table.privacy, 30)),
    );
}

/// The first characters of a text in one line.
fn shortened(text: &str, most: usize) -> String {
    let text = line(text);
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => text.into_owned(),
    }
}

/// The upper left corner of each table. Its column is one more than the last column of those that
/// it leads to.
fn places(tables: &[LinkedTable]) -> HashMap<&str, (usize, usize)> {
    let mut columns: HashMap<&str, usize> =
        tables.iter().map(|table| (table.name.as_str(), 0)).collect();
    // Links form no circle, so as many rounds as tables settle all columns.
    for _ in 0..tables.len() {
        for table in tables {
            let behind = table.leads_to.iter().filter_map(|to| columns.get(to.as_str()));
            let column = behind.max().map_or(0, |last| (last + 1).min(tables.len()));
            columns.insert(table.name.as_str(), column);
        }
    }
    let mut heights: HashMap<usize, usize> = HashMap::new();
    let mut places = HashMap::new();
    for table in tables {
        let column = columns.get(table.name.as_str()).copied().unwrap_or(0);
        let row = heights.entry(column).or_insert(0);
        let place = (5 + column * (WIDTH + BETWEEN), 5 + *row * (HEIGHT + BELOW));
        *row += 1;
        places.insert(table.name.as_str(), place);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, leads_to: &[&str]) -> LinkedTable {
        LinkedTable {
            name: name.to_owned(),
            privacy: "private".to_owned(),
            leads_to: leads_to.iter().map(|&to| to.to_owned()).collect(),
        }
    }

    #[test]
    fn a_table_stands_behind_those_that_it_leads_to() {
        let tables =
            [table("lines", &["orders"]), table("people", &[]), table("orders", &["people"])];
        let places = places(&tables);
        assert!(places["people"].0 < places["orders"].0 && places["orders"].0 < places["lines"].0);
        assert_eq!(told(&tables), "lines leads to orders; orders leads to people.");
    }

    #[test]
    fn names_are_no_markup() {
        let tables = [table("<b>", &["\"><script>"]), table("\"><script>", &[])];
        let drawn = picture(&tables).unwrap();
        assert!(!drawn.contains("<b>") && !drawn.contains("<script>"), "{drawn}");
        assert!(drawn.contains("&lt;b&gt;"));
    }

    #[test]
    fn what_leads_nowhere_or_is_too_much_is_not_drawn() {
        assert_eq!(picture(&[table("a", &[])]), None);
        let many: Vec<_> = (0..=MOST).map(|at| table(&at.to_string(), &["0"])).collect();
        assert_eq!(picture(&many), None);
        // A link to a table that the reader does not see draws no line.
        assert!(!picture(&[table("a", &["hidden"])]).unwrap().contains("marker-end"));
    }
}
