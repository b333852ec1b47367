//! What an expression does with columns.
//!
//! In: an expression over rows below a release, and where the values of their columns come from.
//! Out: where its value comes from; the uses are recorded on the way. Every kind of expression is
//! listed: what is not known to carry a value on is a condition on it.

use datafusion::common::Column;
use datafusion::logical_expr::expr::{
    AggregateFunction, Case, WindowFunction, WindowFunctionDefinition,
};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::carrying_functions::carries_on;
use super::column_uses::{CallUse, Lineage, UseKind};
use super::usage_walk::{RowsUsed, UsageWalk};
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, lost};
use crate::analysis::recursion::deeper;
use crate::dialect::AggregateName;

/// The functions with OVER that aggregate nothing.
const NEIGHBOURS: [&str; 8] =
    ["cume_dist", "dense_rank", "lag", "lead", "ntile", "percent_rank", "rank", "row_number"];

/// How the value of an expression follows from its operands.
enum Shape<'a> {
    /// It follows from no row.
    Constant,
    Column(&'a Column),
    /// A column of the rows around a subquery.
    Outer(&'a Column),
    /// It is its operand under another name, or as another type.
    Same(Vec<&'a Expr>),
    /// It is computed from its operands.
    Carries(Vec<&'a Expr>),
    /// It is computed from two operands, and has no value where the second one is zero.
    Divides(&'a Expr, &'a Expr),
    /// A function carries its operands on.
    Function(Vec<&'a Expr>),
    /// It tells whether something holds of its operands.
    Condition(Vec<&'a Expr>),
    Case(&'a Case),
    /// The rows of a subquery decide, and an operand that is compared with them, if there is one.
    Subquery(&'a LogicalPlan, Option<&'a Expr>),
    /// The value of a subquery.
    Scalar(&'a LogicalPlan),
    Aggregate(&'a AggregateFunction),
    Window(&'a WindowFunction),
    /// No rule for rows below a release allows it.
    Unknown,
}

fn shape(expr: &Expr) -> Shape<'_> {
    match expr {
        Expr::Alias(alias) => Shape::Same(vec![&alias.expr]),
        Expr::Column(column) => Shape::Column(column),
        Expr::OuterReferenceColumn(_, column) => Shape::Outer(column),
        Expr::Literal(..) | Expr::ScalarVariable(..) | Expr::Placeholder(_) => Shape::Constant,
        Expr::Cast(cast) => Shape::Same(vec![&cast.expr]),
        Expr::TryCast(cast) => Shape::Carries(vec![&cast.expr]),
        Expr::Negative(inner) => Shape::Carries(vec![inner]),
        Expr::BinaryExpr(binary) => {
            let operands = vec![&*binary.left, &*binary.right];
            match (is_arithmetic(binary.op), is_division(binary.op)) {
                (_, true) => Shape::Divides(&binary.left, &binary.right),
                (true, false) => Shape::Carries(operands),
                (false, false) => Shape::Condition(operands),
            }
        }
        Expr::Not(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsNotUnknown(inner) => Shape::Condition(vec![inner]),
        Expr::Like(like) | Expr::SimilarTo(like) => {
            Shape::Condition(vec![&like.expr, &like.pattern])
        }
        Expr::Between(between) => {
            Shape::Condition(vec![&between.expr, &between.low, &between.high])
        }
        Expr::InList(list) => {
            Shape::Condition(std::iter::once(&*list.expr).chain(&list.list).collect())
        }
        Expr::Case(case) => Shape::Case(case),
        Expr::ScalarFunction(call) => {
            let operands = call.args.iter().collect();
            match carries_on(&call.func) {
                true => Shape::Function(operands),
                false => Shape::Condition(operands),
            }
        }
        Expr::GroupingSet(set) => Shape::Same(set.distinct_expr()),
        Expr::Exists(exists) => Shape::Subquery(&exists.subquery.subquery, None),
        Expr::InSubquery(asked) => Shape::Subquery(&asked.subquery.subquery, Some(&asked.expr)),
        Expr::SetComparison(asked) => Shape::Subquery(&asked.subquery.subquery, Some(&asked.expr)),
        Expr::ScalarSubquery(subquery) => Shape::Scalar(&subquery.subquery),
        Expr::AggregateFunction(call) => Shape::Aggregate(call),
        Expr::WindowFunction(call) => Shape::Window(call),
        Expr::Unnest(_)
        | Expr::HigherOrderFunction(_)
        | Expr::Lambda(_)
        | Expr::LambdaVariable(_) => Shape::Unknown,
        #[expect(deprecated, reason = "the variant exists, and must be listed")]
        Expr::Wildcard { .. } => Shape::Unknown,
    }
}

/// True if an operator has no value where its second operand is zero.
fn is_division(operator: Operator) -> bool {
    [Operator::Divide, Operator::IntegerDivide, Operator::Modulo].contains(&operator)
}

/// True if an operator computes a value of two others.
fn is_arithmetic(operator: Operator) -> bool {
    match operator {
        Operator::Plus
        | Operator::Minus
        | Operator::Multiply
        | Operator::Divide
        | Operator::Modulo
        | Operator::IntegerDivide
        | Operator::StringConcat => true,
        Operator::Eq
        | Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::And
        | Operator::Or
        | Operator::IsDistinctFrom
        | Operator::IsNotDistinctFrom
        | Operator::RegexMatch
        | Operator::RegexIMatch
        | Operator::RegexNotMatch
        | Operator::RegexNotIMatch
        | Operator::LikeMatch
        | Operator::ILikeMatch
        | Operator::NotLikeMatch
        | Operator::NotILikeMatch
        | Operator::BitwiseAnd
        | Operator::BitwiseOr
        | Operator::BitwiseXor
        | Operator::BitwiseShiftRight
        | Operator::BitwiseShiftLeft
        | Operator::AtArrow
        | Operator::ArrowAt
        | Operator::Arrow
        | Operator::LongArrow
        | Operator::HashArrow
        | Operator::HashLongArrow
        | Operator::AtAt
        | Operator::HashMinus
        | Operator::AtQuestion
        | Operator::Question
        | Operator::QuestionAnd
        | Operator::QuestionPipe
        | Operator::Colon => false,
    }
}

/// Where the value of a column comes from. If no table has it, the query wrote its rows.
fn of_column(lineage: &Lineage) -> Lineage {
    let is_written = !lineage.reads_private && !lineage.reads_public;
    Lineage { reads_written: lineage.reads_written || is_written, ..lineage.clone() }
}

impl UsageWalk<'_> {
    /// Where the value of an expression comes from. Records what its parts do with columns.
    pub(super) fn value(&mut self, expr: &Expr, rows: &RowsUsed) -> Result<Lineage, NotAnalyzed> {
        deeper(|| match shape(expr) {
            Shape::Constant => Ok(Lineage::default()),
            Shape::Column(column) => rows.column(column).map(of_column).ok_or_else(lost),
            Shape::Outer(column) => {
                let found = self.around.iter().rev().find_map(|rows| rows.column(column));
                found.map(of_column).ok_or_else(lost)
            }
            Shape::Same(operands) => self.values(operands, rows),
            Shape::Carries(operands) => Ok(self.values(operands, rows)?.made()),
            Shape::Divides(one, other) => {
                let mut lineage = self.value(one, rows)?;
                lineage.add(&self.condition(other, rows)?);
                Ok(lineage.made())
            }
            Shape::Function(operands) => {
                let lineage = self.values(operands, rows)?;
                self.compares(&lineage);
                Ok(lineage.made())
            }
            Shape::Condition(operands) => {
                let lineage = self.values(operands, rows)?;
                self.decides(&lineage, expr);
                Ok(lineage.made())
            }
            Shape::Case(case) => Ok(self.case(case, rows)?.made()),
            Shape::Subquery(plan, compared) => {
                let (mut lineage, columns) = self.subquery(plan, rows)?;
                lineage.add(&columns);
                lineage.add(&self.values(compared, rows)?);
                self.decides(&lineage, expr);
                Ok(lineage.made())
            }
            Shape::Scalar(plan) => {
                let (mut lineage, columns) = self.subquery(plan, rows)?;
                lineage.add(&columns);
                Ok(lineage.made())
            }
            Shape::Aggregate(call) => Ok(self.inner_call(call, &readable(expr), rows)?.made()),
            Shape::Window(call) => Ok(self.window_call(call, &readable(expr), rows)?.made()),
            Shape::Unknown => Err(lost()),
        })
    }

    /// Records that an expression tells whether something holds of values.
    fn decides(&mut self, lineage: &Lineage, expr: &Expr) {
        self.uses.used(lineage, UseKind::Condition, &readable(expr));
        self.compares(lineage);
    }

    /// Where several values come from, together.
    pub(super) fn values<'e>(
        &mut self,
        all: impl IntoIterator<Item = &'e Expr>,
        rows: &RowsUsed,
    ) -> Result<Lineage, NotAnalyzed> {
        let mut sum = Lineage::default();
        for one in all {
            sum.add(&self.value(one, rows)?);
        }
        Ok(sum)
    }

    /// A condition: all of its columns decide.
    pub(super) fn condition(
        &mut self,
        expr: &Expr,
        rows: &RowsUsed,
    ) -> Result<Lineage, NotAnalyzed> {
        let lineage = self.value(expr, rows)?;
        self.decides(&lineage, expr);
        Ok(lineage)
    }

    /// The arguments of an aggregate. What is counted decides which rows are, unless it is a
    /// column.
    pub(super) fn arguments(
        &mut self,
        function: &str,
        all: &[Expr],
        rows: &RowsUsed,
    ) -> Result<Vec<Lineage>, NotAnalyzed> {
        let counts = AggregateName::parse(function) == Some(AggregateName::Count);
        let is_column = |expr: &Expr| expr.clone().unalias().try_as_col().is_some();
        let argument = |expr: &Expr| match counts && !is_column(expr) {
            true => self.condition(expr, rows),
            false => self.value(expr, rows),
        };
        all.iter().map(argument).collect()
    }

    fn case(&mut self, case: &Case, rows: &RowsUsed) -> Result<Lineage, NotAnalyzed> {
        let mut lineage = Lineage::default();
        for condition in case.expr.iter().chain(case.when_then_expr.iter().map(|(when, _)| when)) {
            lineage.add(&self.condition(condition, rows)?);
        }
        let results = case.when_then_expr.iter().map(|(_, then)| &**then);
        let results = results.chain(case.else_expr.as_deref());
        lineage.add(&self.values(results, rows)?);
        Ok(lineage)
    }

    /// A subquery in an expression: the columns that its clauses use, and those that it shows.
    fn subquery(
        &mut self,
        plan: &LogicalPlan,
        rows: &RowsUsed,
    ) -> Result<(Lineage, Lineage), NotAnalyzed> {
        let before = self.uses.columns.len();
        self.around.push(rows.clone());
        let inner = self.rows(plan);
        self.around.pop();
        let inner = inner?;
        // Whatever its clauses use decides its value, and so may public rows that they compare.
        let reads_private = !inner.tables.is_empty();
        let mut used = Lineage { reads_private, reads_public: true, ..Lineage::default() };
        used.columns.extend(self.uses.columns.iter().skip(before).map(|own| own.column.clone()));
        self.asked.extend(inner.tables);
        Ok((used, Lineage::of_all(&inner.columns)))
    }

    /// An aggregate that is not released: of the rows of one person, or in a window.
    fn inner_call(
        &mut self,
        call: &AggregateFunction,
        text: &str,
        rows: &RowsUsed,
    ) -> Result<Lineage, NotAnalyzed> {
        let params = &call.params;
        let arguments = self.arguments(call.func.name(), &params.args, rows)?;
        let mut lineage = Lineage::of_all(&arguments);
        self.uses.used(&lineage, UseKind::Argument, text);
        if params.distinct {
            self.uses.used(&lineage, UseKind::Key, text);
        }
        let decides = params.filter.iter().map(|filter| &**filter);
        for condition in decides.chain(params.order_by.iter().map(|sort| &sort.expr)) {
            lineage.add(&self.condition(condition, rows)?);
        }
        self.called(call.func.name(), None, text, rows);
        Ok(lineage)
    }

    /// A call with OVER: its partitions are keys, and its order decides.
    fn window_call(
        &mut self,
        call: &WindowFunction,
        text: &str,
        rows: &RowsUsed,
    ) -> Result<Lineage, NotAnalyzed> {
        let params = &call.params;
        let arguments = self.arguments(call.fun.name(), &params.args, rows)?;
        let mut lineage = Lineage::of_all(&arguments);
        let keys = self.values(&params.partition_by, rows)?;
        self.uses.used(&keys, UseKind::Key, text);
        let decides = params.filter.iter().map(|filter| &**filter);
        for condition in decides.chain(params.order_by.iter().map(|sort| &sort.expr)) {
            let own = self.condition(condition, rows)?;
            lineage.add(&own);
        }
        match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                self.uses.used(&lineage, UseKind::Argument, text);
                if params.distinct {
                    self.uses.used(&lineage, UseKind::Key, text);
                }
                self.called(function.name(), None, text, rows);
            }
            // FIRST_VALUE and its like are aggregates. The others number rows, or pass on the value
            // of a neighbour.
            WindowFunctionDefinition::WindowUDF(function)
                if NEIGHBOURS.contains(&function.name()) => {}
            WindowFunctionDefinition::WindowUDF(function) => {
                self.called(function.name(), None, text, rows);
            }
        }
        lineage.add(&keys);
        Ok(lineage)
    }

    /// Records the call of an aggregate by a name that SQL gives it.
    pub(super) fn called(
        &mut self,
        name: &str,
        mechanism: Option<String>,
        text: &str,
        rows: &RowsUsed,
    ) {
        let first = AggregateName::parse(name).map(|own| own.to_string());
        let name = first.as_deref().unwrap_or(name).to_lowercase();
        let tables = rows.tables.clone();
        self.uses.calls.push(CallUse { name, mechanism, tables, text: text.to_owned() });
    }
}
