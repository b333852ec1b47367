//! Expressions of SQL as nodes, with the columns that they name.
//!
//! In: the syntax tree of an expression, and the columns in scope. Out: a node, and its type. A
//! column that is not in scope is an error. An unknown function has no value.

use std::cell::{Cell, RefCell};

use hushql::Value as Parameter;
use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, OrderByExpr, Query, Subscript,
    UnaryOperator, Value, WindowType,
};

use super::super::types;
use super::datum::{CatalogType, Datum, Unanswered};
use super::functions;
use super::met::Met;
use super::node::{Arithmetic, Comparison, Node, SubqueryRows};
use super::operators::{binary, cast, comparison, is_null, unified};
use super::relations::World;
use super::set_functions;

/// A column in scope.
#[derive(Debug, Clone)]
pub(super) struct VisibleColumn {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) kind: CatalogType,
    /// Whether it is one that each table of the catalog has, beside those of `*`.
    pub(super) is_system: bool,
    /// Whether it is the second of two that USING joins.
    pub(super) is_merged: bool,
}

/// The scope of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct CatalogScope<'a> {
    pub(super) columns: &'a [VisibleColumn],
    pub(super) outer: Option<&'a CatalogScope<'a>>,
    /// Collects aggregates, if they are allowed here.
    pub(super) aggregates: Option<&'a RefCell<Vec<Aggregate>>>,
    /// Collects what follows the columns of the sources, if that is allowed here.
    pub(super) extras: Option<&'a RefCell<Vec<Extra>>>,
}

/// An aggregate.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) name: String,
    pub(super) values: Vec<Node>,
    pub(super) order: Vec<Sort>,
    pub(super) distinct: bool,
    pub(super) filter: Option<Node>,
}

/// A column that is computed after the sources are joined.
#[derive(Debug)]
pub(super) enum Extra {
    Number(Window),
    /// A function in the list of SELECT that returns rows.
    Set {
        name: String,
        values: Vec<Node>,
    },
}

/// `rank() OVER (PARTITION BY … ORDER BY …)`.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) function: String,
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
    ) -> Result<Compiled, Unanswered>;
}

/// Compiles expressions.
pub(super) struct Compiler<'a> {
    pub(super) world: &'a World,
    pub(super) values: &'a [Parameter],
    pub(super) queries: &'a dyn Queries,
    /// Whether anything so far shows that the query is about the catalog.
    pub(super) touched: &'a Cell<bool>,
    pub(super) left: &'a Cell<u32>,
    /// The types of what parameters are compared with.
    pub(super) met: &'a Met,
}

/// The most expressions of a query, and the most levels of nesting.
pub(super) const MOST_EXPRESSIONS: u32 = 20_000;
const DEEPEST: u32 = 300;

/// A name as SQL reads it: in lower case unless it is quoted.
pub(super) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The parts of a name.
pub(super) fn parts(name: &ObjectName) -> Result<Vec<String>, Unanswered> {
    name.0.iter().map(|part| part.as_ident().map(folded).ok_or(Unanswered::Unclear)).collect()
}

/// A function's name without its schema.
fn function_name(name: &ObjectName) -> Result<String, Unanswered> {
    match parts(name)?.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if ["pg_catalog", "information_schema"].contains(&schema.as_str()) => {
            Ok(name.clone())
        }
        _ => Err(Unanswered::Unclear),
    }
}

const AGGREGATES: [&str; 14] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "max",
    "min",
    "string_agg",
    "sum",
];

impl Compiler<'_> {
    /// The node of an expression, and its type.
    pub(super) fn node(
        &self,
        expr: &Expr,
        scope: &CatalogScope<'_>,
    ) -> Result<(Node, CatalogType), Unanswered> {
        self.at(expr, scope, 0)
    }

    fn at(
        &self,
        expr: &Expr,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<(Node, CatalogType), Unanswered> {
        let left = self.left.get().checked_sub(1).filter(|_| depth < DEEPEST);
        self.left.set(left.ok_or(Unanswered::TooLong)?);
        let of = |expr: &Expr| self.at(expr, scope, depth + 1);
        let boxed = |expr: &Expr| of(expr).map(|(node, _)| Box::new(node));
        let nodes = |list: &[Expr]| {
            list.iter().map(|expr| of(expr).map(|(node, _)| node)).collect::<Result<Vec<_>, _>>()
        };
        let negated = |node: Node, yes: bool| if yes { Node::Not(Box::new(node)) } else { node };
        let query = |query: &Query| self.queries.query(self, query, scope);
        let bool = |node: Node| Ok((node, CatalogType::BOOL));
        match expr {
            Expr::Identifier(name) => {
                self.named(None, &folded(name), scope, name.quote_style.is_some())
            }
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [.., table, name] => self.named(Some(&folded(table)), &folded(name), scope, true),
                _ => Err(Unanswered::Unclear),
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
                let (node, kind) = of(expr)?;
                list.iter().for_each(|value| self.met.compared(value, kind));
                bool(negated(Node::In(Box::new(node), nodes(list)?), *no))
            }
            Expr::InSubquery { expr, subquery, negated: no } => {
                bool(negated(Node::InQuery(boxed(expr)?, query(subquery)?.rows), *no))
            }
            Expr::Between { expr, negated: no, low, high } => {
                let kind = of(expr)?.1;
                [low, high].iter().for_each(|value| self.met.compared(value, kind));
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
            Expr::BinaryOp { left, op, right } => {
                let (one, other) = (of(left)?, of(right)?);
                self.met.both(op, (left, one.1), (right, other.1));
                binary(op, one, other)
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.each(compare_op, of(left)?, right, false, scope, depth)
            }
            Expr::AllOp { left, compare_op, right } => {
                self.each(compare_op, of(left)?, right, true, scope, depth)
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => bool(Node::Not(boxed(expr)?)),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let zero = Box::new(Node::Constant(Datum::Int(0)));
                let (node, kind) = of(expr)?;
                Ok((Node::Add(zero, Box::new(node), Arithmetic::Minus), kind))
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => of(expr),
            Expr::Tuple(list) => Ok((Node::List(nodes(list)?), CatalogType(2249))),
            Expr::TypedString(typed) => {
                let node = self.constant(&typed.value.value)?.0;
                Ok(cast(node, &typed.data_type))
            }
            Expr::Position { expr, r#in } => {
                let list = vec![of(r#in)?.0, of(expr)?.0];
                Ok((Node::Call("strpos".to_owned(), list), CatalogType::INT4))
            }
            Expr::Extract { field: DateTimeField::Epoch, expr: span, .. } => match &**span {
                Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
                    let times = vec![of(left)?.0, of(right)?.0];
                    Ok((Node::Call(functions::SECONDS.to_owned(), times), CatalogType::NUMERIC))
                }
                _ => Ok((Node::Unknown(Unanswered::part(expr)), CatalogType::NUMERIC)),
            },
            Expr::Interval(interval) => {
                let (node, _) = of(&interval.value)?;
                Ok((node, CatalogType(1186)))
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
                Ok((Node::Call("substring".to_owned(), list), CatalogType::TEXT))
            }
            Expr::Trim { trim_what, expr, .. } => {
                let mut list = vec![of(expr)?.0];
                if let Some(part) = trim_what {
                    list.push(of(part)?.0);
                }
                Ok((Node::Call("trim".to_owned(), list), CatalogType::TEXT))
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                let operand = operand.as_ref().map(|expr| boxed(expr)).transpose()?;
                let (mut whens, mut thens) = (Vec::new(), Vec::new());
                for arm in conditions {
                    whens.push(of(&arm.condition)?.0);
                    thens.push(of(&arm.result)?);
                }
                let other = else_result.as_ref().map(|expr| of(expr)).transpose()?;
                let kind = unified(thens.iter().chain(&other));
                let other = other.map(|(node, _)| Box::new(node));
                let arms = whens.into_iter().zip(thens.into_iter().map(|(node, _)| node)).collect();
                Ok((Node::Case { operand, arms, other }, kind))
            }
            Expr::Exists { subquery, negated: no } => {
                bool(negated(Node::Exists(query(subquery)?.rows), *no))
            }
            Expr::Subquery(inner) => {
                let Compiled { columns, rows } = query(inner)?;
                let kind = columns.first().ok_or(Unanswered::Unclear)?.1;
                Ok((Node::Scalar(rows), kind))
            }
            Expr::Array(Array { elem, .. }) => {
                let list = elem.iter().map(of).collect::<Result<Vec<_>, _>>()?;
                let kind = unified(list.iter()).array();
                Ok((Node::List(list.into_iter().map(|(node, _)| node).collect()), kind))
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let ((mut node, mut kind), rest) = match (&**root, access_chain.split_first()) {
                    // `table.column[n]`.
                    (
                        Expr::Identifier(table),
                        Some((AccessExpr::Dot(Expr::Identifier(name)), rest)),
                    ) => (self.named(Some(&folded(table)), &folded(name), scope, true)?, rest),
                    (root, _) => (of(root)?, access_chain.as_slice()),
                };
                for access in rest {
                    (node, kind) = match access {
                        AccessExpr::Subscript(Subscript::Index { index }) => {
                            (Node::Element(Box::new(node), boxed(index)?), kind.element())
                        }
                        AccessExpr::Dot(Expr::Identifier(name)) => {
                            let name = folded(name);
                            let kind = set_functions::field(&name);
                            (Node::Field(Box::new(node), name), kind)
                        }
                        AccessExpr::Subscript(Subscript::Slice { .. }) | AccessExpr::Dot(_) => {
                            (Node::Unknown(Unanswered::part(expr)), kind)
                        }
                    };
                }
                Ok((node, kind))
            }
            Expr::Function(function) => self.function(function, scope, depth),
            // It may be in a part of the query that has no rows.
            _ => Ok((Node::Unknown(Unanswered::part(expr)), CatalogType::TEXT)),
        }
    }

    /// A column, or a word that is a function call.
    fn named(
        &self,
        table: Option<&str>,
        name: &str,
        scope: &CatalogScope<'_>,
        quoted: bool,
    ) -> Result<(Node, CatalogType), Unanswered> {
        let (mut at, mut depth) = (Some(scope), 0);
        while let Some(here) = at {
            let fits = |column: &VisibleColumn| {
                column.name == name && table.is_none_or(|table| column.table == table)
            };
            if let Some(index) = here.columns.iter().position(fits) {
                let kind = here.columns.get(index).map_or(CatalogType::TEXT, |column| column.kind);
                return Ok((Node::Column { depth, index }, kind));
            }
            (at, depth) = (here.outer, depth + 1);
        }
        // In PostgreSQL, the column of a scalar function has the name of the function's alias.
        if table.is_none() && !quoted && functions::is_about_the_catalog(name) {
            self.touched.set(true);
            return Ok((Node::Call(name.to_owned(), Vec::new()), functions::kind(name, None)));
        }
        // The name of a source is its row.
        let of_source = |column: &&VisibleColumn| column.table == name && !column.is_system;
        if table.is_none() && scope.columns.iter().any(|column| of_source(&column)) {
            let columns = scope.columns.iter().enumerate().filter(|(_, column)| of_source(column));
            let columns = columns.map(|(index, column)| {
                (column.name.as_str().into(), Node::Column { depth: 0, index })
            });
            return Ok((Node::Record(columns.collect()), CatalogType(2249)));
        }
        Err(match table {
            Some(table) => Unanswered::column(&format!("{table}.{name}")),
            None => Unanswered::column(name),
        })
    }

    fn constant(&self, value: &Value) -> Result<(Node, CatalogType), Unanswered> {
        let (datum, kind) = match value {
            Value::Null => (Datum::Null, CatalogType::TEXT),
            Value::Boolean(value) => (Datum::Bool(*value), CatalogType::BOOL),
            Value::Number(digits, _) => match digits.parse::<i64>() {
                Ok(number) if i32::try_from(number).is_ok() => {
                    (Datum::Int(number), CatalogType::INT4)
                }
                Ok(number) => (Datum::Int(number), CatalogType::INT8),
                Err(_) => (Datum::from(digits.as_str()), CatalogType::NUMERIC),
            },
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                (Datum::from(text.as_str()), CatalogType::TEXT)
            }
            Value::Placeholder(name) => {
                let number: usize =
                    name.trim_start_matches('$').parse().map_err(|_| Unanswered::Unclear)?;
                let value = number
                    .checked_sub(1)
                    .and_then(|n| self.values.get(n))
                    .ok_or(Unanswered::Unclear)?;
                match value {
                    Parameter::Null => (Datum::Null, CatalogType::TEXT),
                    Parameter::Boolean(value) => (Datum::Bool(*value), CatalogType::BOOL),
                    Parameter::Integer(value) => (Datum::Int(*value), CatalogType::INT8),
                    Parameter::Text(text) => (Datum::from(text.as_str()), CatalogType::TEXT),
                    Parameter::Float(value) => {
                        (Datum::from(value.to_string().as_str()), CatalogType::TEXT)
                    }
                    _ => return Err(Unanswered::Unclear),
                }
            }
            _ => return Err(Unanswered::Unclear),
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
    ) -> Result<Node, Unanswered> {
        let (node, _) = self.at(pattern, scope, depth + 1)?;
        match escape.map(|escape| escape.trim_matches('\'')) {
            None | Some("\\") => Ok(node),
            Some(escape) if escape.chars().count() == 1 => {
                let list = [escape, "\\"].map(|text| Node::Constant(text.into()));
                let list = std::iter::once(node).chain(list).collect();
                Ok(Node::Call("replace".to_owned(), list))
            }
            Some(_) => Err(Unanswered::Unclear),
        }
    }

    fn each(
        &self,
        op: &BinaryOperator,
        (left, kind): (Node, CatalogType),
        right: &Expr,
        all: bool,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<(Node, CatalogType), Unanswered> {
        let comparison = comparison(op).ok_or_else(|| Unanswered::part(op))?;
        let list = match right {
            Expr::Subquery(inner) => Node::ListOf(self.queries.query(self, inner, scope)?.rows),
            other => {
                self.met.compared_with_each(other, kind);
                self.at(other, scope, depth + 1)?.0
            }
        };
        let (left, list) = (Box::new(left), Box::new(list));
        Ok((Node::Each { comparison, left, list, all }, CatalogType::BOOL))
    }

    /// The sort key of an ORDER BY expression.
    pub(super) fn sort(
        &self,
        by: &OrderByExpr,
        scope: &CatalogScope<'_>,
    ) -> Result<Sort, Unanswered> {
        Ok(sorted(by, self.node(&by.expr, scope)?.0))
    }

    fn function(
        &self,
        function: &Function,
        scope: &CatalogScope<'_>,
        depth: u32,
    ) -> Result<(Node, CatalogType), Unanswered> {
        let name = function_name(&function.name)?;
        let (args, clauses, distinct) = match &function.args {
            FunctionArguments::None => (&[][..], &[][..], false),
            FunctionArguments::List(list) => {
                (list.args.as_slice(), list.clauses.as_slice(), list.duplicate_treatment.is_some())
            }
            FunctionArguments::Subquery(inner) if name == "array" => {
                let Compiled { columns, rows } = self.queries.query(self, inner, scope)?;
                let kind = columns.first().map_or(CatalogType::TEXT, |(_, kind)| *kind);
                return Ok((Node::ListOf(rows), kind.array()));
            }
            FunctionArguments::Subquery(_) => return Err(Unanswered::Unclear),
        };
        if functions::is_about_the_catalog(&name) {
            self.touched.set(true);
        }
        let is_aggregate = AGGREGATES.contains(&name.as_str());
        // Aggregates cannot be nested.
        let inner =
            CatalogScope { aggregates: scope.aggregates.filter(|_| !is_aggregate), ..*scope };
        let (mut values, mut kinds) = (Vec::new(), Vec::new());
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    let (node, kind) = self.at(expr, &inner, depth + 1)?;
                    kinds.extend((!is_null(&node)).then_some(kind));
                    values.push(node);
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => {}
                _ => return Ok((Node::Unknown(Unanswered::part(function)), CatalogType::TEXT)),
            }
        }
        if let Some(over) = &function.over {
            return self.window(&name, over, scope);
        }
        if name == "pg_typeof" {
            let kind = kinds.first().copied().unwrap_or(CatalogType::UNKNOWN);
            return Ok((
                Node::Constant(Datum::from(types::formatted(kind.0.into()).as_str())),
                CatalogType::TEXT,
            ));
        }
        if let (true, Some(extras)) = (set_functions::is_set(&name), scope.extras) {
            let columns = set_functions::columns(&name, &kinds);
            let kind = match columns.as_slice() {
                [(_, kind)] => *kind,
                _ => CatalogType(2249),
            };
            let mut extras = extras.borrow_mut();
            extras.push(Extra::Set { name, values });
            return Ok((
                Node::Column { depth: 0, index: scope.columns.len() + extras.len() - 1 },
                kind,
            ));
        }
        let kind = functions::kind(&name, kinds.first().copied());
        if !is_aggregate {
            return Ok((Node::Call(name, values), kind));
        }
        let Some(aggregates) = scope.aggregates else {
            return Err(Unanswered::Said("42803", format!("{name} cannot stand here")));
        };
        let mut order = Vec::new();
        for clause in clauses {
            match clause {
                FunctionArgumentClause::OrderBy(by) => {
                    for by in by {
                        order.push(self.sort(by, &inner)?);
                    }
                }
                _ => return Err(Unanswered::part(function)),
            }
        }
        let filter = function.filter.as_ref().map(|filter| self.at(filter, &inner, depth + 1));
        let filter = filter.transpose()?.map(|(node, _)| node);
        let mut aggregates = aggregates.borrow_mut();
        aggregates.push(Aggregate { name, values, order, distinct, filter });
        Ok((Node::Aggregate(aggregates.len() - 1), kind))
    }

    /// The window functions are those that number rows. Their columns follow those in scope.
    fn window(
        &self,
        name: &str,
        over: &WindowType,
        scope: &CatalogScope<'_>,
    ) -> Result<(Node, CatalogType), Unanswered> {
        let (Some(extras), WindowType::WindowSpec(spec), "row_number" | "rank" | "dense_rank") =
            (scope.extras, over, name)
        else {
            let why = Unanswered::part(format!("{name}(…) OVER"));
            return Ok((Node::Unknown(why), CatalogType::INT8));
        };
        let inner = CatalogScope { extras: None, ..*scope };
        let function = name.to_owned();
        let mut window = Window { function, partition: Vec::new(), order: Vec::new() };
        for expr in &spec.partition_by {
            window.partition.push(self.node(expr, &inner)?.0);
        }
        for by in &spec.order_by {
            window.order.push(self.sort(by, &inner)?);
        }
        let mut extras = extras.borrow_mut();
        extras.push(Extra::Number(window));
        Ok((
            Node::Column { depth: 0, index: scope.columns.len() + extras.len() - 1 },
            CatalogType::INT8,
        ))
    }
}

/// Sorts by a node.
pub(super) fn sorted(by: &OrderByExpr, node: Node) -> Sort {
    let descends = by.options.asc == Some(false);
    Sort { by: node, descends, nulls_first: by.options.nulls_first.unwrap_or(descends) }
}
