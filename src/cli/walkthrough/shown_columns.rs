//! The columns of a table, as statements show them.
//!
//! In: an owner's session. Out: names, types, domains and roles. Names are data too where a file
//! has no header, so they are looked at before they are shown.
//!
//! ```text
//! DESCRIBE visits  →  patient BIGINT, role "privacy unit" …
//! ```

use arrow::array::{Array, AsArray};
use hushql::{Error, Output, Session};
use hushql_vault::catalog::quoted;

/// A column, as DESCRIBE shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownColumn {
    pub(super) name: String,
    pub(super) sql_type: String,
    pub(super) domain: String,
    pub(super) role: String,
}

/// The columns of a table.
pub(super) async fn described(session: &Session, table: &str) -> Result<Vec<ShownColumn>, Error> {
    let statement = format!("DESCRIBE {}", quoted(table));
    let mut columns = Vec::new();
    for at in 0..4 {
        columns.push(lines_of(session, &statement, at).await?.into_iter());
    }
    let [names, types, domains, roles] = &mut columns[..] else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    while let (Some(name), Some(sql_type), Some(domain), Some(role)) =
        (names.next(), types.next(), domains.next(), roles.next())
    {
        found.push(ShownColumn { name, sql_type, domain, role });
    }
    Ok(found)
}

/// One column of texts of an answer.
pub(super) async fn lines_of(
    session: &Session,
    statement: &str,
    column: usize,
) -> Result<Vec<String>, Error> {
    let Output::Answer(answer) = session.execute(statement).await? else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for batch in answer.batches() {
        let Some(texts) = batch.columns().get(column).and_then(|c| c.as_string_opt::<i32>()) else {
            continue;
        };
        lines.extend((0..texts.len()).map(|at| texts.value(at).to_owned()));
    }
    Ok(lines)
}

/// Whether the name of a column looks like the value of a row: a number, a date, or nothing.
pub(super) fn looks_like_a_value(name: &str) -> bool {
    let name = name.trim();
    let signs = |c: char| c.is_ascii_digit() || "-+./:, T%€$".contains(c);
    name.is_empty()
        || name.parse::<f64>().is_ok()
        || (name.chars().all(signs) && name.chars().any(|c| c.is_ascii_digit()))
        || name.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_no_names() {
        for value in ["", " ", "12", "-3.5", "1e3", "2025-01-03", "12:30:00", "3,50", "ada@x.org"] {
            assert!(looks_like_a_value(value), "{value}");
        }
        for name in ["age", "2025_total", "Q1", "col-1", "patient no.", "é"] {
            assert!(!looks_like_a_value(name), "{name}");
        }
    }

    #[tokio::test]
    async fn columns_are_read_with_their_roles() {
        let engine = hushql::Engine::demo().unwrap();
        let owner: Session = engine.owner().into();
        let columns = described(&owner, "bids").await.unwrap();
        let roles: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.role.as_str())).collect();
        assert!(roles.contains(&("bidder", "privacy unit")), "{roles:?}");
        assert!(columns.iter().any(|c| c.domain.starts_with("between")), "{columns:?}");
    }
}
