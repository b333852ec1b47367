//! The headings of columns without a name: their expressions as written.
//!
//! In: a query as parsed, before it is lowered. Out: for each column of the answer the text of its
//! expression, or `None` if the column has a name. The planner has names of its own for such
//! columns: it adds the tables of columns and drops casts. A query can refer to these names; only
//! the answer shows the headings.
//!
//! ```text
//! SELECT sex, CAST(AVG(age) AS INT) …   →   [None, Some("CAST(avg(age) AS INT)")]
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, Ident, SelectItem, SetExpr};

use crate::catalog::RESERVED;

/// The longest heading, in characters. A longer expression has the planner's name instead.
const LONGEST: usize = 120;

/// The headings of a query's columns. Empty if a `*` stands for columns.
pub(super) fn headings(query: &sql::Query) -> Vec<Option<String>> {
    let Some(projection) = shown(&query.body) else { return Vec::new() };
    let heading = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => Some(heading(expr)),
        SelectItem::ExprWithAlias { .. } => Some(None),
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    };
    projection.iter().map(heading).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// The SELECT list that names the columns of a query: that of its first SELECT.
pub(crate) fn shown(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(query) => shown(&query.body),
        SetExpr::SetOperation { left, .. } => shown(left),
        SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => None,
    }
}

/// The text of an expression as it was written, with names in lower case. `None` for a name, a
/// subquery or a release.
pub(super) fn heading(expr: &Expr) -> Option<String> {
    if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_)) {
        return None;
    }
    let text = folded(expr).to_string();
    // A release has the text of its clause, which replaces its marker later.
    (!text.contains(RESERVED) && text.chars().count() <= LONGEST).then_some(text)
}

/// An expression with names in lower case.
pub(super) fn folded(expr: &Expr) -> Expr {
    let mut written = expr.clone();
    let _ = sql::visit_expressions_mut(&mut written, |e| {
        match e {
            Expr::Identifier(ident) => fold(ident),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(fold),
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let sql::ObjectNamePart::Identifier(ident) = part {
                        fold(ident);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    written
}

/// Unquoted names are lower case, as in queries.
fn fold(ident: &mut Ident) {
    if ident.quote_style.is_none() {
        ident.value = ident.value.to_lowercase();
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    fn headings(text: &str) -> Vec<Option<String>> {
        match parse(text).unwrap() {
            Statement::Query(query) => query.headings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn columns_are_headed_by_what_was_written() {
        for (written, heading) in [
            ("AVG(age)", "avg(age)"),
            ("a.Age + 1", "a.age + 1"),
            ("round(AVG(age),2)", "round(avg(age), 2)"),
            ("CAST(AVG(age) AS INT)", "CAST(avg(age) AS INT)"),
            ("COUNT(DISTINCT \"Age\")", "count(DISTINCT \"Age\")"),
            ("count(*) FILTER (WHERE age>30)", "count(*) FILTER (WHERE age > 30)"),
            ("'Age'", "'Age'"),
        ] {
            let text = format!("SELECT sex, {written}, age AS x FROM t AS a GROUP BY sex");
            assert_eq!(headings(&text), [None, Some(heading.to_owned()), None], "{written}");
        }
        // A listed column has its own name; a `*` stands for any number of columns.
        assert_eq!(headings("SELECT *, 1 + 1 FROM t"), []);
        assert_eq!(headings("SELECT (SELECT 1), a.x FROM t AS a"), [None, None]);
        assert_eq!(headings("SELECT LAPLACE(eps=1) COUNT(*) FROM t"), [None]);
        assert_eq!(
            headings("SELECT 1 + 1 FROM t UNION ALL SELECT 2 FROM t"),
            [Some("1 + 1".to_owned())]
        );
        assert_eq!(headings(&format!("SELECT {} FROM t", ["x"; 99].join(" + "))), [None]);
    }
}
