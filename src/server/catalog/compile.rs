//! Expressions of SQL as nodes, with the columns that they name.
//!
//! In: the syntax tree of an expression, and the columns in scope. Out: a node, and its type. A
//! column that is not in scope is an error. An unknown function has no value.

use std::cell::{Cell, RefCell};

use hushql::Value as Parameter;
use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, OrderByExpr, Query, Subscript,
    UnaryOperator, Value, WindowType,
};

use super::datum::{CatalogType, Datum, Unknown};
use super::functions;
use super::node::{Arithmetic, Comparison, Node, SubqueryRows};
use super::relations::World;

/// A column in scope.
#[derive(Debug, Clone)]
pub(super) struct VisibleColumn {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) kind: CatalogType,
}

/// The scope of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct CatalogScope<'a> {
    pub(super) columns: &'a [VisibleColumn],
    pub(super) outer: Option<&'a CatalogScope<'a>>,
    /// Collects aggregates, if they are allowed here.
    pub(super) aggregates: Option<&'a RefCell<Vec<Aggregate>>>,
    /// Collects windows.
    pub(super) windows: Option<&'a RefCell<Vec<Window>>>,
}

/// An aggregate.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) name: String,
    pub(super) values: Vec<Node>,
    pub(super) order: Vec<Sort>,
    pub(super) distinct: bool,
}

/// `row_number() OVER (PARTITION BY … ORDER BY …)`.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) partition: Vec<Node>,
    pub(super) order: Vec<Sort>,
}

/// One sort key.
#[derive(Debug)]
pub(super) struct Sort {
    pub(super) by: Node,
    pub(super) descends: bool,
    pub(super) nulls_first: bool,
}

/// The names of the columns of a query, with their types.
pub(super) type NamedColumns = Vec<(String, CatalogType)>;

/// A compiled query.
pub(super) struct Compiled {
    pub(super) columns: NamedColumns,
    pub(super) rows: Box<dyn SubqueryRows>,
}

/// Compiles queries within expressions. The compiler of queries implements it.
pub(super) trait Queries {
    fn query(
        &self,
        compiler: &Compiler<'_>,
        query: &Query,
        outer: &CatalogScope<'_>,
    ) -> Result<Compiled, Unknown>;
}

/// Compiles expressions.
pub(super) struct Compiler<'a> {
    pub(super) world: &'a World,
    pub(super) values: &'a [Parameter],
    pub(super) queries: &'a dyn Queries,
    /// Whether anything so far shows that the query is about the catalog.
    pub(super) touched: &'a Cell<bool>,
    pub(super) left: &'a Cell<u32>,
}

/// The most expressions of a query, and the most levels of nesting.
pub(super) const MOST_EXPRESSIONS: u32 = 20_000;
const DEEPEST: u32 = 300;

/// A name as SQL reads it: in lower case unless it is quoted.
pub(super) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The parts of a name.
pub(super) fn parts(name: &ObjectName) -> Result<Vec<String>, Unknown> {
    name.0.iter().map(|part| part.as_ident().map(folded).ok_or(Unknown)).collect()
}

/// A function's name without its schema.
fn function_name(name: &ObjectName) -> Result<String, Unknown> {
    match parts(name)?.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if ["pg_catalog", "information_schema"].contains(&schema.as_str()) => {
            Ok(name.clone())
        }
        _ => Err(Unknown),
    }
}

const AGGREGATES: [&str; 9] =
    ["array_agg", "bool_and", "bool_or", "count", "every", "max", "min", "string_agg", "sum"];

impl Compiler<'_> {
    /// The node of an expression, and its type.
    pub(super) fn node(
        &self,
        expr: &Expr,
        scope: &CatalogScope<'_>,
    ) -> Result<(Node, CatalogType), Unknown> {
        self.at(expr, scope, 0)
    }

    fn at(
        &self,
        expr: &Expr,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<(Node, CatalogType), Unknown> {
        let left = self.left.get().checked_sub(1).filter(|_| depth < DEEPEST);
        self.left.set(left.ok_or(Unknown)?);
        let of = |expr: &Expr| self.at(expr, scope, depth + 1);
        let boxed = |expr: &Expr| of(expr).map(|(node, _)| Box::new(node));
        let nodes = |list: &[Expr]| {
            list.iter().map(|expr| of(expr).map(|(node, _)| node)).collect::<Result<Vec<_>, _>>()
        };
        let negated = |node: Node, yes: bool| if yes { Node::Not(Box::new(node)) } else { node };
        let query = |query: &Query| self.queries.query(self, query, scope);
        let bool = |node: Node| Ok((node, CatalogType::Bool));
        match expr {
            Expr::Identifier(name) => {
                self.named(None, &folded(name), scope, name.quote_style.is_some())
            }
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [.., table, name] => self.named(Some(&folded(table)), &folded(name), scope, true),
                _ => Err(Unknown),
            },
            Expr::Nested(inner) => of(inner),
            Expr::Collate { expr, .. } => of(expr),
            Expr::Value(value) => self.constant(&value.value),
            Expr::IsNull(inner) => bool(Node::IsNull(boxed(inner)?)),
            Expr::IsNotNull(inner) => bool(Node::Not(Box::new(Node::IsNull(boxed(inner)?)))),
            Expr::IsTrue(inner) => bool(Node::IsTrue(boxed(inner)?, true)),
            Expr::IsNotTrue(inner) => bool(Node::Not(Box::new(Node::IsTrue(boxed(inner)?, true)))),
            Expr::IsFalse(inner) => bool(Node::IsTrue(boxed(inner)?, false)),
            Expr::IsNotFalse(inner) => {
                bool(Node::Not(Box::new(Node::IsTrue(boxed(inner)?, false))))
            }
            Expr::IsDistinctFrom(a, b) => bool(Node::Distinct(boxed(a)?, boxed(b)?)),
            Expr::IsNotDistinctFrom(a, b) => {
                bool(Node::Not(Box::new(Node::Distinct(boxed(a)?, boxed(b)?))))
            }
            Expr::InList { expr, list, negated: no } => {
                bool(negated(Node::In(boxed(expr)?, nodes(list)?), *no))
            }
            Expr::InSubquery { expr, subquery, negated: no } => {
                bool(negated(Node::InQuery(boxed(expr)?, query(subquery)?.rows), *no))
            }
            Expr::Between { expr, negated: no, low, high } => {
                let low = Node::Compare(Comparison::AtLeast, boxed(expr)?, boxed(low)?);
                let high = Node::Compare(Comparison::AtMost, boxed(expr)?, boxed(high)?);
                bool(negated(Node::And(Box::new(low), Box::new(high)), *no))
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                let escape = escape_char.as_ref().map(|value| value.to_string());
                let pattern = self.pattern(pattern, escape.as_deref(), scope, depth)?;
                let how = Comparison::Like { negated: *negated, folded: false };
                bool(Node::Compare(how, boxed(expr)?, Box::new(pattern)))
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                let how = Comparison::Like { negated: *negated, folded: true };
                bool(Node::Compare(how, boxed(expr)?, boxed(pattern)?))
            }
            Expr::BinaryOp { left, op, right } => Self::binary(op, of(left)?, of(right)?),
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.each(compare_op, boxed(left)?, right, false, scope, depth)
            }
            Expr::AllOp { left, compare_op, right } => {
                self.each(compare_op, boxed(left)?, right, true, scope, depth)
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => bool(Node::Not(boxed(expr)?)),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let zero = Box::new(Node::Constant(Datum::Int(0)));
                Ok((Node::Add(zero, boxed(expr)?, Arithmetic::Minus), CatalogType::Int))
            }
            Expr::Cast { expr, data_type, .. } => {
                let (node, _) = of(expr)?;
                let (node, kind) = cast(node, data_type);
                if matches!(&node, Node::Cast(to, _) if to.starts_with("reg")) {
                    self.touched.set(true);
                }
                Ok((node, kind))
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut list = vec![of(expr)?.0];
                for part in substring_from.iter().chain(substring_for) {
                    list.push(of(part)?.0);
                }
                Ok((Node::Call("substring".to_owned(), list), CatalogType::Text))
            }
            Expr::Trim { trim_what, expr, .. } => {
                let mut list = vec![of(expr)?.0];
                if let Some(part) = trim_what {
                    list.push(of(part)?.0);
                }
                Ok((Node::Call("trim".to_owned(), list), CatalogType::Text))
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                let operand = operand.as_ref().map(|expr| boxed(expr)).transpose()?;
                let (mut arms, mut kinds) = (Vec::new(), Vec::new());
                for arm in conditions {
                    let (then, kind) = of(&arm.result)?;
                    kinds.extend((!is_null(&then)).then_some(kind));
                    arms.push((of(&arm.condition)?.0, then));
                }
                let other = else_result.as_ref().map(|expr| of(expr)).transpose()?;
                kinds.extend(
                    other.as_ref().filter(|(node, _)| !is_null(node)).map(|(_, kind)| *kind),
                );
                let other = other.map(|(node, _)| Box::new(node));
                let kind = kinds.first().copied().unwrap_or(CatalogType::Text);
                Ok((Node::Case { operand, arms, other }, kind))
            }
            Expr::Exists { subquery, negated: no } => {
                bool(negated(Node::Exists(query(subquery)?.rows), *no))
            }
            Expr::Subquery(inner) => {
                let Compiled { columns, rows } = query(inner)?;
                let kind = columns.first().ok_or(Unknown)?.1;
                Ok((Node::Scalar(rows), kind))
            }
            Expr::Array(Array { elem, .. }) => Ok((Node::List(nodes(elem)?), CatalogType::Text)),
            Expr::CompoundFieldAccess { root, access_chain } => {
                let (mut node, rest) = match (&**root, access_chain.split_first()) {
                    // `table.column[n]`.
                    (
                        Expr::Identifier(table),
                        Some((AccessExpr::Dot(Expr::Identifier(name)), rest)),
                    ) => (self.named(Some(&folded(table)), &folded(name), scope, true)?.0, rest),
                    (root, _) => (of(root)?.0, access_chain.as_slice()),
                };
                for access in rest {
                    node = match access {
                        AccessExpr::Subscript(Subscript::Index { index }) => {
                            Node::Element(Box::new(node), boxed(index)?)
                        }
                        AccessExpr::Subscript(Subscript::Slice { .. }) | AccessExpr::Dot(_) => {
                            Node::Unknown
                        }
                    };
                }
                Ok((node, CatalogType::Text))
            }
            Expr::Function(function) => self.function(function, scope, depth),
            // It may be in a part of the query that has no rows.
            _ => Ok((Node::Unknown, CatalogType::Text)),
        }
    }

    /// A column, or a word that is a function call.
    fn named(
        &self,
        table: Option<&str>,
        name: &str,
        scope: &CatalogScope<'_>,
        quoted: bool,
    ) -> Result<(Node, CatalogType), Unknown> {
        let (mut at, mut depth) = (Some(scope), 0);
        while let Some(here) = at {
            let fits = |column: &VisibleColumn| {
                column.name == name && table.is_none_or(|table| column.table == table)
            };
            if let Some(index) = here.columns.iter().position(fits) {
                let kind = here.columns.get(index).map_or(CatalogType::Text, |column| column.kind);
                return Ok((Node::Column { depth, index }, kind));
            }
            (at, depth) = (here.outer, depth + 1);
        }
        // In PostgreSQL, the column of a scalar function has the name of the function's alias.
        if table.is_none() && !quoted && functions::is_about_the_catalog(name) {
            self.touched.set(true);
            return Ok((Node::Call(name.to_owned(), Vec::new()), functions::kind(name)));
        }
        Err(Unknown)
    }

    fn constant(&self, value: &Value) -> Result<(Node, CatalogType), Unknown> {
        let (datum, kind) = match value {
            Value::Null => (Datum::Null, CatalogType::Text),
            Value::Boolean(value) => (Datum::Bool(*value), CatalogType::Bool),
            Value::Number(digits, _) => match digits.parse() {
                Ok(number) => (Datum::Int(number), CatalogType::Int),
                Err(_) => (Datum::from(digits.as_str()), CatalogType::Text),
            },
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                (Datum::from(text.as_str()), CatalogType::Text)
            }
            Value::Placeholder(name) => {
                let number: usize = name.trim_start_matches('$').parse().map_err(|_| Unknown)?;
                let value =
                    number.checked_sub(1).and_then(|n| self.values.get(n)).ok_or(Unknown)?;
                match value {
                    Parameter::Null => (Datum::Null, CatalogType::Text),
                    Parameter::Boolean(value) => (Datum::Bool(*value), CatalogType::Bool),
                    Parameter::Integer(value) => (Datum::Int(*value), CatalogType::Int),
                    Parameter::Text(text) => (Datum::from(text.as_str()), CatalogType::Text),
                    Parameter::Float(value) => {
                        (Datum::from(value.to_string().as_str()), CatalogType::Text)
                    }
                    _ => return Err(Unknown),
                }
            }
            _ => return Err(Unknown),
        };
        Ok((Node::Constant(datum), kind))
    }

    /// The pattern of a LIKE, with backslash as the escape character.
    fn pattern(
        &self,
        pattern: &Expr,
        escape: Option<&str>,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<Node, Unknown> {
        let (node, _) = self.at(pattern, scope, depth + 1)?;
        match escape.map(|escape| escape.trim_matches('\'')) {
            None | Some("\\") => Ok(node),
            Some(escape) if escape.chars().count() == 1 => {
                let list = [escape, "\\"].map(|text| Node::Constant(text.into()));
                let list = std::iter::once(node).chain(list).collect();
                Ok(Node::Call("replace".to_owned(), list))
            }
            Some(_) => Err(Unknown),
        }
    }

    fn each(
        &self,
        op: &BinaryOperator,
        left: Box<Node>,
        right: &Expr,
        all: bool,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<(Node, CatalogType), Unknown> {
        let comparison = comparison(op).ok_or(Unknown)?;
        let list = match right {
            Expr::Subquery(inner) => Node::ListOf(self.queries.query(self, inner, scope)?.rows),
            other => self.at(other, scope, depth + 1)?.0,
        };
        Ok((Node::Each { comparison, left, list: Box::new(list), all }, CatalogType::Bool))
    }

    fn binary(
        op: &BinaryOperator,
        left: (Node, CatalogType),
        right: (Node, CatalogType),
    ) -> Result<(Node, CatalogType), Unknown> {
        let (left, right) = (Box::new(left.0), Box::new(right.0));
        if let Some(how) = comparison(op) {
            return Ok((Node::Compare(how, left, right), CatalogType::Bool));
        }
        let how = match op {
            BinaryOperator::And => return Ok((Node::And(left, right), CatalogType::Bool)),
            BinaryOperator::Or => return Ok((Node::Or(left, right), CatalogType::Bool)),
            BinaryOperator::StringConcat => {
                return Ok((Node::Concat(left, right), CatalogType::Text));
            }
            BinaryOperator::Plus => Arithmetic::Plus,
            BinaryOperator::Minus => Arithmetic::Minus,
            BinaryOperator::Multiply => Arithmetic::Times,
            BinaryOperator::Divide => Arithmetic::Over,
            BinaryOperator::Modulo => Arithmetic::Modulo,
            BinaryOperator::BitwiseAnd => Arithmetic::And,
            _ => return Ok((Node::Unknown, CatalogType::Text)),
        };
        Ok((Node::Add(left, right, how), CatalogType::Int))
    }

    /// The sort key of an ORDER BY expression.
    pub(super) fn sort(&self, by: &OrderByExpr, scope: &CatalogScope<'_>) -> Result<Sort, Unknown> {
        Ok(sorted(by, self.node(&by.expr, scope)?.0))
    }

    fn function(
        &self,
        function: &Function,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<(Node, CatalogType), Unknown> {
        let name = function_name(&function.name)?;
        let (args, clauses, distinct) = match &function.args {
            FunctionArguments::None => (&[][..], &[][..], false),
            FunctionArguments::List(list) => {
                (list.args.as_slice(), list.clauses.as_slice(), list.duplicate_treatment.is_some())
            }
            FunctionArguments::Subquery(inner) if name == "array" => {
                return Ok((
                    Node::ListOf(self.queries.query(self, inner, scope)?.rows),
                    CatalogType::Text,
                ));
            }
            FunctionArguments::Subquery(_) => return Err(Unknown),
        };
        if functions::is_about_the_catalog(&name) {
            self.touched.set(true);
        }
        let is_aggregate = AGGREGATES.contains(&name.as_str());
        // Aggregates cannot be nested.
        let inner =
            CatalogScope { aggregates: scope.aggregates.filter(|_| !is_aggregate), ..*scope };
        let mut values = Vec::new();
        let mut first = None;
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    let (node, kind) = self.at(expr, &inner, depth + 1)?;
                    first = first.or_else(|| (!is_null(&node)).then_some(kind));
                    values.push(node);
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => {}
                _ => return Ok((Node::Unknown, CatalogType::Text)),
            }
        }
        if let Some(over) = &function.over {
            return self.window(&name, over, scope);
        }
        let kind = match name.as_str() {
            "coalesce" | "nullif" | "max" | "min" | "greatest" | "least" => {
                first.unwrap_or(CatalogType::Text)
            }
            name => functions::kind(name),
        };
        if !is_aggregate {
            return Ok((Node::Call(name, values), kind));
        }
        let Some(aggregates) = scope.aggregates else { return Err(Unknown) };
        let mut order = Vec::new();
        for clause in clauses {
            match clause {
                FunctionArgumentClause::OrderBy(by) => {
                    for by in by {
                        order.push(self.sort(by, &inner)?);
                    }
                }
                _ => return Err(Unknown),
            }
        }
        if function.filter.is_some() {
            return Err(Unknown);
        }
        let mut aggregates = aggregates.borrow_mut();
        aggregates.push(Aggregate { name, values, order, distinct });
        Ok((Node::Aggregate(aggregates.len() - 1), kind))
    }

    /// The only window function is `row_number()`. Its column follows those in scope.
    fn window(
        &self,
        name: &str,
        over: &WindowType,
        scope: &CatalogScope<'_>,
    ) -> Result<(Node, CatalogType), Unknown> {
        let (Some(windows), WindowType::WindowSpec(spec), "row_number") =
            (scope.windows, over, name)
        else {
            return Ok((Node::Unknown, CatalogType::Int));
        };
        let inner = CatalogScope { windows: None, ..*scope };
        let mut window = Window { partition: Vec::new(), order: Vec::new() };
        for expr in &spec.partition_by {
            window.partition.push(self.node(expr, &inner)?.0);
        }
        for by in &spec.order_by {
            window.order.push(self.sort(by, &inner)?);
        }
        let mut windows = windows.borrow_mut();
        windows.push(window);
        Ok((
            Node::Column { depth: 0, index: scope.columns.len() + windows.len() - 1 },
            CatalogType::Int,
        ))
    }
}

/// Sorts by a node.
pub(super) fn sorted(by: &OrderByExpr, node: Node) -> Sort {
    let descends = by.options.asc == Some(false);
    Sort { by: node, descends, nulls_first: by.options.nulls_first.unwrap_or(descends) }
}

fn is_null(node: &Node) -> bool {
    matches!(node, Node::Constant(Datum::Null))
}

fn comparison(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::Unequal,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::AtMost,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::AtLeast,
        BinaryOperator::PGLikeMatch => Comparison::Like { negated: false, folded: false },
        BinaryOperator::PGNotLikeMatch => Comparison::Like { negated: true, folded: false },
        BinaryOperator::PGILikeMatch => Comparison::Like { negated: false, folded: true },
        BinaryOperator::PGNotILikeMatch => Comparison::Like { negated: true, folded: true },
        BinaryOperator::PGRegexMatch => Comparison::Regex { negated: false, folded: false },
        BinaryOperator::PGRegexNotMatch => Comparison::Regex { negated: true, folded: false },
        BinaryOperator::PGRegexIMatch => Comparison::Regex { negated: false, folded: true },
        BinaryOperator::PGRegexNotIMatch => Comparison::Regex { negated: true, folded: true },
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("~") => Comparison::Regex { negated: false, folded: false },
            Some("!~") => Comparison::Regex { negated: true, folded: false },
            Some("=") => Comparison::Equal,
            Some("<>") => Comparison::Unequal,
            _ => return None,
        },
        _ => return None,
    })
}

/// A cast, and its type. If a number that stands for an object becomes a text, the text is the
/// object's name.
fn cast(node: Node, to: &DataType) -> (Node, CatalogType) {
    let written = to.to_string().to_lowercase();
    let bare = written.strip_prefix("pg_catalog.").unwrap_or(&written).replace('"', "");
    let is_array = bare.ends_with("[]");
    let name = bare.split('(').next().unwrap_or_default().to_owned();
    let kind = match name.as_str() {
        "regclass" | "regtype" | "oid" | "int" | "int2" | "int4" | "int8" | "integer"
        | "bigint" | "smallint" => CatalogType::Int,
        "bool" | "boolean" => CatalogType::Bool,
        _ => CatalogType::Text,
    };
    let is_text = kind == CatalogType::Text && !is_array;
    match node {
        Node::Cast(of, inner) if is_text && ["regclass", "regtype"].contains(&of.as_str()) => {
            (Node::Shown(of, inner), CatalogType::Text)
        }
        node => (Node::Cast(name, Box::new(node)), kind),
    }
}
