//! Columns that a SELECT lists twice: the second one gets its own name.
//!
//! In: a query as parsed. Out: the same query, in which no SELECT list repeats an expression
//! without an alias, nor the alias of another expression. The planner identifies columns by their
//! names, and would refuse a repeated one. It also names a cast after the expression that it casts,
//! so a column and its casts are named by their headings. The new name occurs nowhere else in the
//! query, so no other part changes its meaning.
//!
//! ```text
//! SELECT sex, sex, upper(sex), upper(sex)   →   SELECT sex, sex AS "sex_1", upper(sex), upper(sex) AS "upper(sex)_1"
//! SELECT age, CAST(age AS DOUBLE)           →   SELECT age, CAST(age AS DOUBLE) AS "CAST(age AS DOUBLE)"
//! SELECT income AS age, age                 →   SELECT income AS age, age AS "age_1"
//! ```

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, Ident, SelectItem, Visit, VisitMut, VisitorMut};

use super::headings::{folded, heading};
use crate::dialect::clauses::numbered;

/// Names the repeated columns of each SELECT.
pub(super) fn name_repeated(query: &mut sql::Query) {
    let mut names = UsedNames::default();
    let _ = Visit::visit(query, &mut names);
    let _ = VisitMut::visit(query, &mut Naming(names.0));
}

/// The names that occur in a query.
#[derive(Default)]
struct UsedNames(BTreeSet<String>);

impl sql::Visitor for UsedNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => {
                self.0.insert(ident.value.to_lowercase());
            }
            Expr::CompoundIdentifier(parts) => {
                self.0.extend(parts.iter().map(|part| part.value.to_lowercase()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &sql::Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.0.insert(alias.value.to_lowercase());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Gives columns names that are not yet among these.
struct Naming(BTreeSet<String>);

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut sql::Select) -> ControlFlow<()> {
        let is_of_one_table = matches!(select.from.as_slice(), [one] if one.joins.is_empty());
        let listed = ListedColumns::of(select, is_of_one_table);
        let (mut seen, mut named) = (BTreeSet::new(), BTreeSet::new());
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let written = plainly_named(&folded(without_options(expr)));
            let text_of = |expr: &Expr| match expr {
                // With one table, a column is the same with and without its table's name.
                Expr::CompoundIdentifier(parts) if is_of_one_table => {
                    parts.last().map_or_else(String::new, ToString::to_string)
                }
                other => other.to_string(),
            };
            let is_listed = listed.has(&written);
            let is_new = seen.insert(text_of(&written));
            let is_named_anew = named.insert(text_of(&without_casts(&written)));
            let alias = match (is_new && !is_listed, is_named_anew) {
                (false, _) => self.another(&written),
                (true, false) => self.own(&written),
                (true, true) => continue,
            };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        ControlFlow::Continue(())
    }
}

/// What a SELECT list names beside expressions without an alias.
struct ListedColumns {
    /// Every column of FROM.
    all: bool,
    /// The tables of which it lists every column.
    tables: BTreeSet<String>,
    /// The aliases of other expressions.
    aliases: BTreeSet<String>,
}

impl ListedColumns {
    fn of(select: &sql::Select, is_of_one_table: bool) -> Self {
        let (mut all, mut tables, mut aliases) = (false, BTreeSet::new(), BTreeSet::new());
        let is_whole = |options: &sql::WildcardAdditionalOptions| {
            options.opt_exclude.is_none() && options.opt_except.is_none()
        };
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(options) => all |= is_whole(options),
                SelectItem::QualifiedWildcard(of, options) if is_whole(options) => {
                    all |= is_of_one_table;
                    tables.insert(of.to_string().trim_end_matches(".*").to_lowercase());
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    aliases.insert(plain_name(alias));
                }
                SelectItem::UnnamedExpr(_)
                | SelectItem::ExprWithAliases { .. }
                | SelectItem::QualifiedWildcard(..) => {}
            }
        }
        Self { all, tables, aliases }
    }

    /// Whether a column is among these, by itself or by its name.
    fn has(&self, column: &Expr) -> bool {
        let (table, name) = match column {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] => (Some(table), name),
                _ => return self.all,
            },
            _ => return false,
        };
        self.all
            || table.is_some_and(|table| self.tables.contains(&table.to_string().to_lowercase()))
            || self.aliases.contains(&plain_name(name))
    }
}

/// A name as the planner compares it: without quotes, and in small letters unless it is quoted.
fn plain_name(name: &Ident) -> String {
    if name.quote_style.is_none() { name.value.to_lowercase() } else { name.value.clone() }
}

/// An expression whose names have quotes only where these change the name.
fn plainly_named(expr: &Expr) -> Expr {
    struct Quotes;
    impl VisitorMut for Quotes {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let names = match expr {
                Expr::Identifier(name) => std::slice::from_mut(name),
                Expr::CompoundIdentifier(parts) => parts.as_mut_slice(),
                _ => &mut [],
            };
            for name in names {
                let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                if name.value.chars().all(is_plain) {
                    name.quote_style = None;
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut plain = expr.clone();
    let _ = VisitMut::visit(&mut plain, &mut Quotes);
    plain
}

impl Naming {
    /// The heading of an expression as its name. If the query has that name already, a similar one.
    fn own(&mut self, expr: &Expr) -> Ident {
        let own = name_of(expr);
        match self.0.insert(own.to_lowercase()) {
            true => Ident::with_quote('"', own),
            false => self.another(expr),
        }
    }

    /// A name similar to that of an expression, which the query does not contain yet.
    fn another(&mut self, expr: &Expr) -> Ident {
        let own = name_of(expr);
        let mut number = 1_usize;
        let mut name = format!("{own}_{number}");
        while !self.0.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{own}_{number}");
        }
        Ident::with_quote('"', name)
    }
}

/// The name of an expression, before a number is added.
fn name_of(expr: &Expr) -> String {
    let own = match expr {
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|last| last.value.clone()),
        other => heading(other),
    };
    own.unwrap_or_else(|| "column".to_owned())
}

/// An expression without its casts.
fn without_casts(expr: &Expr) -> Expr {
    struct Casts;
    impl VisitorMut for Casts {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: inner, .. } = expr {
                *expr = inner.as_ref().clone();
            }
            ControlFlow::Continue(())
        }
    }
    let mut bare = expr.clone();
    let _ = VisitMut::visit(&mut bare, &mut Casts);
    bare
}

/// An expression without the mark that OPTIONS before it leave, and without brackets around it.
fn without_options(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => without_options(inner),
        Expr::Function(sql::Function {
            name,
            args: sql::FunctionArguments::List(sql::FunctionArgumentList { args, .. }),
            ..
        }) if numbered(&name.to_string(), "_options_").is_some() => match args.as_slice() {
            [sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(inner))] => inner,
            _ => expr,
        },
        _ => expr,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn a_repeated_column_has_another_name() {
        for (written, expected) in [
            ("SELECT g, g FROM t", "SELECT g, g AS \"g_1\" FROM t"),
            ("SELECT g, G, (g) FROM t", "SELECT g, G AS \"g_1\", (g) AS \"g_2\" FROM t"),
            ("SELECT t.g, g FROM t", "SELECT t.g, g AS \"g_1\" FROM t"),
            ("SELECT g, g FROM t ORDER BY g_1", "SELECT g, g AS \"g_2\" FROM t ORDER BY g_1"),
            ("SELECT g, g, x AS g_1 FROM t", "SELECT g, g AS \"g_2\", x AS g_1 FROM t"),
            ("SELECT a + 1, A+1", "SELECT a + 1, A + 1 AS \"a + 1_1\""),
            ("SELECT *, g FROM t", "SELECT *, g AS \"g_1\" FROM t"),
            ("SELECT a.g, * FROM a, b", "SELECT a.g AS \"g_1\", * FROM a, b"),
            ("SELECT * EXCLUDE (g), g FROM t", "SELECT * EXCLUDE (g), g FROM t"),
            ("SELECT t.*, t.g FROM t", "SELECT t.*, t.g AS \"g_1\" FROM t"),
            ("SELECT t.*, g FROM t", "SELECT t.*, g AS \"g_1\" FROM t"),
            ("SELECT a.*, a.g, b.g FROM a, b", "SELECT a.*, a.g AS \"g_1\", b.g FROM a, b"),
            ("SELECT g, \"g\" FROM t", "SELECT g, \"g\" AS \"g_1\" FROM t"),
            (
                "SELECT \"t\".g, upper(\"g\"), upper(g) FROM t",
                "SELECT \"t\".g, upper(\"g\"), upper(g) AS \"upper(g)_1\" FROM t",
            ),
            // The name of a column is the alias of another.
            ("SELECT k AS n, n FROM t", "SELECT k AS n, n AS \"n_1\" FROM t"),
            ("SELECT t.n, k AS \"n\" FROM t", "SELECT t.n AS \"n_1\", k AS \"n\" FROM t"),
            ("SELECT k AS \"N\", n FROM t", "SELECT k AS \"N\", n FROM t"),
            ("SELECT 1 FROM (SELECT g, g) q", "SELECT 1 FROM (SELECT g, g AS \"g_1\") q"),
            // A cast is named after the expression that it casts.
            ("SELECT g, CAST(g AS INT)", "SELECT g, CAST(g AS INT) AS \"CAST(g AS INT)\""),
            (
                "SELECT CAST(g AS INT), g::TEXT, CAST(g AS INT) FROM t",
                "SELECT CAST(g AS INT), g::TEXT AS \"g::TEXT\", CAST(g AS INT) AS \"CAST(g AS INT)_1\" FROM t",
            ),
            ("SELECT CAST(g AS INT), CAST(h AS INT)", "SELECT CAST(g AS INT), CAST(h AS INT)"),
            // Other columns, other letters, and names that are given.
            ("SELECT a.g, b.g FROM a JOIN b USING (g)", "SELECT a.g, b.g FROM a JOIN b USING(g)"),
            ("SELECT g, \"G\", g AS h FROM t", "SELECT g, \"G\", g AS h FROM t"),
        ] {
            let mut parsed = Parser::parse_sql(&GenericDialect {}, written).unwrap();
            let [sql::Statement::Query(query)] = parsed.as_mut_slice() else { panic!("{written}") };
            name_repeated(query);
            assert_eq!(query.to_string(), expected, "{written}");
        }
    }
}
