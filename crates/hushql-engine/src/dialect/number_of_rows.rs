//! The number of rows after LIMIT and OFFSET, which drivers write with a cast.
//!
//! In: a query. Out: the same query, with the number alone.
//!
//! ```text
//! LIMIT 10::bigint OFFSET CAST(5 AS int)   →   LIMIT 10 OFFSET 5
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, DataType, Expr, VisitMut, VisitorMut};

/// Writes each number of rows without its cast.
pub(super) fn respell_rows(query: &mut sql::Query) {
    let _: ControlFlow<()> = VisitMut::visit(query, &mut Rows);
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<()> {
        let rows = match &mut query.limit_clause {
            Some(sql::LimitClause::LimitOffset { limit, offset, limit_by: _ }) => {
                [limit.as_mut(), offset.as_mut().map(|offset| &mut offset.value)]
            }
            Some(sql::LimitClause::OffsetCommaLimit { offset, limit }) => {
                [Some(offset), Some(limit)]
            }
            None => [None, None],
        };
        for rows in rows.into_iter().flatten() {
            *rows = uncast(rows).clone();
        }
        ControlFlow::Continue(())
    }
}

/// A number of rows without parentheses and casts to whole numbers.
pub(crate) fn uncast(rows: &Expr) -> &Expr {
    match rows {
        Expr::Nested(inner) => uncast(inner),
        Expr::Cast { expr, data_type, array: false, format: None, .. } if is_whole(data_type) => {
            uncast(expr)
        }
        other => other,
    }
}

fn is_whole(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::SmallInt(None)
            | DataType::Int(None)
            | DataType::Integer(None)
            | DataType::BigInt(None)
            | DataType::Int2(None)
            | DataType::Int4(None)
            | DataType::Int8(None)
    )
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    #[test]
    fn rows_are_numbers_without_casts() {
        for (written, expected) in [
            ("LIMIT 10::bigint", "LIMIT 10"),
            ("LIMIT CAST((7) AS INTEGER) OFFSET 2::int8", "LIMIT 7 OFFSET 2"),
            ("LIMIT (3)", "LIMIT 3"),
        ] {
            let parsed = parse(&format!("SELECT a FROM t {written}"));
            let Ok(Statement::Query(query)) = parsed else { panic!("{written}: {parsed:?}") };
            assert_eq!(query.tree.to_string(), format!("SELECT a FROM t {expected}"));
        }
        // A cast that changes the number is not taken.
        assert!(parse("SELECT a FROM t LIMIT 1.5::int").is_err());
        assert!(parse("SELECT a FROM t LIMIT '1'::text").is_err());
    }
}
