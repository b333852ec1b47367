//! Limits the size of a statement, before it is parsed and before its tables are planned.
//!
//! In: a text, and the tree that it parses to. Out: nothing, or a refusal that depends on the text
//! alone. Each operator can nest an expression by one level, and each use of a WITH query repeats
//! it, so the limits bound the depth and the width of the plan.
//!
//! ```
//! use hushql_engine::dialect::{Size, parse_within};
//!
//! let size = Size { operators: 3, ..Size::default() };
//! assert!(parse_within("SELECT 1 + 2 + 3 + 4", &size).is_ok());
//! assert!(parse_within("SELECT 1 + 2 + 3 + 4 + 5", &size).is_err());
//! ```

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, Query, Visit, Visitor};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::refusal::{Reason, Refusal};

/// The most levels of subqueries in expressions that a query may have.
const MOST_SUBQUERIES: usize = 8;

/// The largest size of a statement.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, Resources, Size};
///
/// let small = Resources::default().with_statement(Size { operators: 2, ..Size::default() });
/// let session = Engine::builder().resources(small).demo()?.analyst("lab")?;
/// let refused = session.prepare("SELECT 1 + 2 + 3 + 4").unwrap_err();
/// assert_eq!(refused.code(), Some("HQ034"));
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes of text.
    pub bytes: usize,
    /// Operators, such as `+`, `=`, `AND`, `IN` and `UNION`; the parser limits brackets.
    pub operators: usize,
    /// Tables, counted at each use. Each use of a WITH query or view counts all of its tables.
    pub tables: u64,
}

impl Default for Size {
    /// A megabyte, five hundred operators, a hundred tables.
    fn default() -> Self {
        Self { bytes: 1 << 20, operators: 500, tables: 100 }
    }
}

impl Size {
    pub(super) fn check_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.bytes {
            return Err(too_large(
                format!("the statement has more than {} bytes", self.bytes),
                "shorter lists; put a long list of keys into a public table: KEYS TABLE table(column)",
            ));
        }
        Ok(())
    }

    pub(super) fn check_tokens(&self, tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
        if operators(tokens) > self.operators {
            return Err(too_large(
                format!("the statement has more than {} operators", self.operators),
                "x IN (…) instead of a long chain of OR, a column of a table instead of a long sum",
            ));
        }
        Ok(())
    }

    /// Refuses a tree whose expanded WITH queries name too many tables. Also refuses a tree whose
    /// expressions nest too many queries, because the planner plans the content of each level about
    /// twice.
    ///
    /// # Errors
    /// The refusal.
    #[doc(hidden)]
    pub fn check_tree(&self, tree: &Query) -> Result<(), Refusal> {
        let Count { total, deepest, .. } = count(tree, &|_| 1);
        if deepest > MOST_SUBQUERIES {
            return Err(too_large(
                format!(
                    "the query nests more than {MOST_SUBQUERIES} levels of subqueries in expressions"
                ),
                "WITH name AS (…) for the inner subqueries, or a join",
            ));
        }
        self.check_written_out(total, 0)
    }

    /// Refuses a query that names too many tables once its WITH queries and views are expanded, or
    /// whose views have too many operators.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_written_out(&self, tables: u64, operators: usize) -> Result<(), Refusal> {
        if tables > self.tables {
            return Err(too_large(
                format!(
                    "the query names more than {} tables, with those of a WITH query or view counted at each use",
                    self.tables
                ),
                "fewer UNION ALL and joins of the same WITH query, or a filter or GROUP BY over one table",
            ));
        }
        if operators > self.operators {
            return Err(too_large(
                format!(
                    "the views that the query reads have more than {} operators, counted at each use",
                    self.operators
                ),
                "a query over fewer views, or the same view fewer times",
            ));
        }
        Ok(())
    }
}

/// The number of operators in a text.
pub(super) fn operators(tokens: &[TokenWithSpan]) -> usize {
    tokens.iter().filter(|token| is_operator(&token.token)).count()
}

/// The refusal of a statement that is nested more deeply than the parser allows.
pub(super) fn too_deep() -> Refusal {
    too_large(
        "the statement is nested too deeply".to_owned(),
        "fewer brackets, and WITH name AS (…) for inner queries",
    )
}

fn too_large(message: String, hint: &str) -> Refusal {
    Refusal::new(Reason::TooLarge, "", message, hint)
}

/// True if a token can add a level to an expression or query.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::XOR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::BETWEEN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::RLIKE
                | Keyword::REGEXP
                | Keyword::DIV
                | Keyword::MOD
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::OVERLAPS
        ),
        Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::HexStringLiteral(_)
        | Token::Comma
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::SemiColon
        | Token::EOF
        | Token::Whitespace(_) => false,
        // Every other token between words joins them.
        _ => true,
    }
}

/// The number of tables that a query names after each WITH query is expanded; saturates. `behind`
/// gives the number of tables for a name that is not a WITH query.
pub(crate) fn tables(tree: &Query, behind: &dyn Fn(&str) -> u64) -> u64 {
    count(tree, behind).total
}

fn count<'a>(tree: &Query, behind: &'a dyn Fn(&str) -> u64) -> Count<'a> {
    let (frames, total, depth, deepest) = (Vec::new(), 0, 0, 0);
    let mut count = Count { frames, total, behind, depth, deepest };
    let _ = tree.visit(&mut count);
    count
}

/// Counts tables and levels, including those that a query repeats.
struct Count<'a> {
    /// The queries that are being visited, innermost last.
    frames: Vec<QueryFrame>,
    /// The number of tables that the query names after each WITH query is expanded; saturates.
    total: u64,
    behind: &'a dyn Fn(&str) -> u64,
    /// The number of enclosing expressions that hold queries, and the largest number so far.
    depth: usize,
    deepest: usize,
}

#[derive(Default)]
struct QueryFrame {
    tables: u64,
    /// The WITH queries of this query that are already counted.
    named: HashMap<String, u64>,
    /// The WITH queries that are not counted yet, in the order in which they are visited.
    coming: Vec<(String, *const Query)>,
}

impl Visitor for Count<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        let coming = with.map(|cte| (folded(&cte.alias.name), std::ptr::from_ref(&*cte.query)));
        self.frames.push(QueryFrame { coming: coming.collect(), ..QueryFrame::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(done) = self.frames.pop() else { return ControlFlow::Break(()) };
        match self.frames.last_mut() {
            Some(outer) => {
                let place = outer.coming.iter().position(|(_, one)| std::ptr::eq(*one, query));
                match place {
                    Some(place) => {
                        let (name, _) = outer.coming.swap_remove(place);
                        outer.named.insert(name, done.tables);
                    }
                    None => outer.tables = outer.tables.saturating_add(done.tables),
                }
            }
            None => self.total = done.tables,
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.depth += usize::from(holds_query(expr));
        self.deepest = self.deepest.max(self.depth);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.depth -= usize::from(holds_query(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = match relation.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Some(folded(name)),
            _ => None,
        };
        let within = name.map(|name| {
            let named = self.frames.iter().rev().find_map(|frame| frame.named.get(&name).copied());
            named.unwrap_or_else(|| (self.behind)(&name))
        });
        if let Some(frame) = self.frames.last_mut() {
            frame.tables = frame.tables.saturating_add(within.unwrap_or(1).max(1));
        }
        ControlFlow::Continue(())
    }
}

fn holds_query(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse, parse_within};

    fn named(sql: &str) -> u64 {
        let Ok(Statement::Query(query)) = parse(sql) else { panic!("{sql}") };
        tables(&query.tree, &|_| 1)
    }

    #[test]
    fn a_with_query_counts_wherever_it_is_used() {
        assert_eq!(named("SELECT 1"), 0);
        assert_eq!(named("SELECT 1 FROM a, b JOIN (SELECT 1 FROM a) c ON TRUE"), 3);
        assert_eq!(
            named("SELECT 1 FROM a WHERE x IN (SELECT y FROM b) AND EXISTS (SELECT 1 FROM c)"),
            3
        );
        assert_eq!(named("WITH a AS (SELECT 1 FROM x, y) SELECT 1 FROM a, a, b"), 5);
        assert_eq!(
            named(
                "WITH a AS (SELECT 1 FROM x, y), b AS (SELECT 1 FROM a, a) SELECT 1 FROM b, B, \"B\""
            ),
            9
        );
        let inner = "WITH a AS (SELECT 1 FROM x, y) SELECT 1 FROM (WITH a AS (SELECT 1 FROM a, a) SELECT 1 FROM a) q, a";
        assert_eq!(named(inner), 6);
    }

    #[test]
    fn what_stands_behind_a_name_counts_wherever_the_name_does() {
        let Ok(Statement::Query(query)) = parse(
            "WITH a AS (SELECT 1 FROM v, \"V\"), v AS (SELECT 1 FROM a, a) SELECT 1 FROM v, V, s.v",
        ) else {
            panic!()
        };
        // The WITH query v reads a twice, and a reads the view v and a table.
        assert_eq!(tables(&query.tree, &|name| if name == "v" { 10 } else { 1 }), 2 * 2 * 11 + 1);
    }

    /// If each WITH query is the union of the previous one with itself, each doubles the plan:
    /// thirty of them read a billion tables.
    #[test]
    fn what_doubles_saturates() {
        let mut sql = "WITH c0 AS (SELECT x FROM t)".to_owned();
        for i in 0..80 {
            sql += &format!(", c{} AS (SELECT x FROM c{i} UNION ALL SELECT x FROM c{i})", i + 1);
        }
        assert_eq!(named(&format!("{sql} SELECT 1 FROM c80")), u64::MAX);
        assert_eq!(named(&format!("{sql} SELECT 1 FROM c20")), 1 << 20);
    }

    #[test]
    fn operators_are_counted_and_lists_are_not() {
        let size = Size { operators: 2, ..Size::default() };
        let list = vec!["1"; 5_000].join(", ");
        assert!(parse_within(&format!("SELECT 1 FROM t WHERE x IN ({list})"), &size).is_ok());
        for chain in [
            "a + b - c * d",
            "NOT NOT NOT a",
            "a || b || c || d",
            "a = 1 AND b",
            "a::int::int::int",
        ] {
            let refused = parse_within(&format!("SELECT 1 FROM t WHERE {chain} OR x"), &size);
            assert!(refused.is_err(), "{chain}");
        }
    }

    /// Each level multiplied the time to parse or plan by 1.5, so thirty levels never finished.
    #[test]
    fn what_is_tried_twice_at_each_level_is_not_tried_forever() {
        for (open, close) in [
            ("CAST(", " AS INT)"),
            ("FLOOR(", ")"),
            ("CASE WHEN ", " THEN 1 END"),
            ("TRIM(", ")"),
            ("((", "))"),
        ] {
            for levels in [12, 45, 400] {
                let open = open.repeat(levels);
                // Unclosed, and closed.
                let _ = parse(&format!("SELECT {open}x FROM t"));
                let _ = parse(&format!("SELECT {open}x{} FROM t", close.repeat(levels)));
                let _ = parse(&format!("SELECT 1 FROM {open}"));
            }
        }
        let nested = |n: usize| {
            let (open, close) = ("EXISTS (SELECT 1 FROM t WHERE ".repeat(n), ")".repeat(n));
            let Ok(Statement::Query(query)) =
                parse(&format!("SELECT 1 FROM t WHERE {open}TRUE{close}"))
            else {
                panic!("{n}")
            };
            Size::default().check_tree(&query.tree).is_ok()
        };
        assert!(nested(8) && !nested(9));
    }

    /// Trees are dropped and compared recursively, so a long chain must not become a tree: it once
    /// ended the process.
    #[test]
    fn a_long_chain_is_refused_before_it_is_a_tree() {
        let chain = vec!["1"; 300_000].join("+");
        assert!(parse(&format!("SELECT {chain} FROM t")).is_err());
        let brackets = format!("SELECT {}1{} FROM t", "(".repeat(10_000), ")".repeat(10_000));
        assert!(parse(&brackets).is_err());
        assert!(parse(&format!("SELECT {} 1 FROM t", "- ".repeat(100_000))).is_err());
    }
}
