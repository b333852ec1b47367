//! The privacy unit of a release in words.

use crate::analysis::UnitScope;

pub(super) fn unit_text(subject: &UnitScope) -> String {
    let unit_domain = subject.unit_domain();
    if let (Some(blocks), Some(column)) = (subject.blocks(), subject.column()) {
        return format!(
            "{column} of {unit_domain} (add/remove one with all its rows, which are in one of {blocks} blocks)"
        );
    }
    match subject.column() {
        None => format!("row of {unit_domain} (add/remove one)"),
        Some(column) if subject.public().is_some() => {
            let known = subject.public().unwrap_or_default().join(", ");
            format!(
                "{column} of {unit_domain} (presence public: replace what one row says; {known} stay, one row each)"
            )
        }
        Some(column) => {
            let rows =
                subject.max_rows().map_or("any number".to_owned(), |n| format!("at most {n}"));
            match subject.month_of() {
                None => {
                    format!("{column} of {unit_domain} (add/remove one with all its rows, {rows})")
                }
                Some(date) => format!(
                    "{column} of {unit_domain} in one month of {date} (add/remove one month of one {column} with all its rows, {rows})"
                ),
            }
        }
    }
}
