//! The names that PostgreSQL gives to columns without one: programs read rows by them.
//!
//! In: a query as parsed, before its parameters have values. Out: for each column of the answer the
//! name of its function, or `None` for a column that keeps its heading. A name that two columns
//! would have is given to neither. Only the server uses them.
//!
//! ```text
//! SELECT sex, COUNT(*), AVG(age)::int, age > $1   →   None, count, avg, ?column?
//! ```

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, SelectItem, Visit, Visitor};

use super::ast::{ReleaseClause, marked};
use crate::catalog::RESERVED;
use crate::dialect::clauses::folded;
use crate::dialect::headings::shown;

/// The names of a query's columns. Empty if a `*` stands for columns.
pub(super) fn postgres_names(
    query: &sql::Query,
    releases: &[ReleaseClause],
) -> Vec<Option<String>> {
    let Some(projection) = shown(&query.body) else { return Vec::new() };
    let (mut names, mut times) = (Vec::new(), BTreeMap::<String, usize>::new());
    for item in projection {
        let (name, is_given) = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => (Some(folded(ident)), true),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                (parts.last().map(folded), true)
            }
            SelectItem::UnnamedExpr(expr) => (name(expr, releases), false),
            SelectItem::ExprWithAlias { alias, .. } => (Some(folded(alias)), true),
            SelectItem::ExprWithAliases { .. }
            | SelectItem::QualifiedWildcard(..)
            | SelectItem::Wildcard(_) => return Vec::new(),
        };
        *times.entry(name.clone().unwrap_or_default()).or_default() += 1;
        names.push((name, is_given));
    }
    let once = |name: &String| times.get(name) == Some(&1);
    names.into_iter().map(|(name, is_given)| name.filter(|n| !is_given && once(n))).collect()
}

/// The name of one column; `None` if its heading names it well.
fn name(expr: &Expr, releases: &[ReleaseClause]) -> Option<String> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => name(inner, releases),
        Expr::Function(function) => {
            let written = function.name.0.last().map(ToString::to_string)?.to_lowercase();
            match marked(&written) {
                // OPTIONS and the like stand around their first column.
                None if written.starts_with(RESERVED) => name(first_argument(function)?, releases),
                None => Some(written),
                // The text of a choice is its column.
                Some(n) => {
                    let (called, _) = releases.get(n)?.text.split_once('(')?;
                    let is_word = called.chars().all(|c| c.is_alphanumeric() || c == '_');
                    is_word.then(|| called.to_lowercase())
                }
            }
        }
        Expr::Case { .. } => Some("case".to_owned()),
        Expr::Extract { .. } => Some("extract".to_owned()),
        Expr::Ceil { .. } => Some("ceil".to_owned()),
        Expr::Floor { .. } => Some("floor".to_owned()),
        Expr::Substring { .. } => Some("substring".to_owned()),
        Expr::Trim { .. } => Some("btrim".to_owned()),
        Expr::Position { .. } => Some("position".to_owned()),
        // A heading would show the value.
        other => has_parameter(other).then(|| "?column?".to_owned()),
    }
}

fn first_argument(function: &sql::Function) -> Option<&Expr> {
    let sql::FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first() {
        Some(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(first))) => Some(first),
        _ => None,
    }
}

/// Whether an expression contains a parameter.
fn has_parameter(expr: &Expr) -> bool {
    struct Parameters;
    impl Visitor for Parameters {
        type Break = ();

        fn pre_visit_value(&mut self, value: &sql::ValueWithSpan) -> ControlFlow<()> {
            match value.value {
                sql::Value::Placeholder(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Parameters).is_break()
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Size, Statement, Value, parse_with};

    fn names(text: &str, values: &[Value]) -> Vec<Option<String>> {
        match parse_with(text, &Size::default(), values).unwrap() {
            Statement::Query(query) => query.names,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn columns_are_called_by_their_functions() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            names("SELECT sex, COUNT(*), LAPLACE(eps=1) AVG(age)::int, age + 1 FROM t", &[]),
            [None, some("count"), some("avg"), None]
        );
        // Names that repeat, and those that others have, are left to the headings.
        assert_eq!(names("SELECT SUM(a), SUM(b), COUNT(*) FROM t", &[])[2], some("count"));
        assert_eq!(names("SELECT SUM(a), SUM(b) FROM t", &[]), [None, None]);
        assert_eq!(names("SELECT x AS count, COUNT(*) FROM t", &[]), [None, None]);
        let options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM t";
        assert_eq!(names(options, &[]), [some("count")]);
        assert_eq!(names("SELECT *, COUNT(*) FROM t", &[]), []);
        assert_eq!(names("SELECT ARGMAX EXPONENTIAL(eps=1) sex FROM t", &[]), [None]);
        assert_eq!(
            names("SELECT age > $1, CASE WHEN a THEN 1 END FROM t", &[40.into()]),
            [some("?column?"), some("case")]
        );
    }
}
