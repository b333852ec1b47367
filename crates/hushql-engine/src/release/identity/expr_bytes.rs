//! Expressions as bytes. Columns are replaced by their own encodings, and the names that a query
//! gives are left out.
//!
//! In: an expression, and the encodings of the columns that it reads. Out: bytes that are equal
//! only for expressions with equal values on equal rows. `None` for an expression that is not
//! understood, or that is not a function of its row.
//!
//! ```text
//! x.a > 1 AND b = 2   and   2 = b AND 1 < a      the same bytes
//! ```

use std::collections::BTreeMap;

use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, InList, ScalarFunction, Sort, WindowFunction,
    WindowFunctionParams,
};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, Like, Operator, TryCast, Volatility, WindowFrame,
    WindowFrameBound, WindowFunctionDefinition,
};

use super::encoded::EncodedFields;
use crate::functions::{is_late_value, members_of};

/// The encodings of the columns that an expression reads, and of the values that are released
/// before its rows are read, by name.
#[derive(Clone, Copy)]
pub(super) struct ReadColumns<'a> {
    pub(super) inputs: &'a [(&'a DFSchema, &'a [EncodedFields])],
    pub(super) late: &'a BTreeMap<String, EncodedFields>,
}

impl ReadColumns<'_> {
    /// The encoding of a column. `None` if no input has the column, or several have it.
    fn column(&self, column: &Column) -> Option<EncodedFields> {
        let mut found = self.inputs.iter().filter_map(|(schema, columns)| {
            columns.get(schema.maybe_index_of_column(column)?).cloned()
        });
        let one = found.next()?;
        found.next().is_none().then_some(one)
    }

    fn all<'a>(&self, exprs: impl IntoIterator<Item = &'a Expr>) -> Option<Vec<EncodedFields>> {
        exprs.into_iter().map(|expr| of_expr(expr, *self)).collect()
    }

    fn optional(&self, expr: Option<&Expr>) -> Option<EncodedFields> {
        let mut all = EncodedFields::default();
        match expr {
            Some(expr) => all.optional(Some(&of_expr(expr, *self)?)),
            None => all.optional(None),
        }
        Some(all)
    }

    fn kind<'a>(
        &self,
        kind: &str,
        exprs: impl IntoIterator<Item = &'a Expr>,
    ) -> Option<EncodedFields> {
        let mut all = EncodedFields::of(kind);
        all.list(&self.all(exprs)?);
        Some(all)
    }

    fn sorts(&self, sorts: &[Sort]) -> Option<EncodedFields> {
        let mut all = EncodedFields::default();
        for Sort { expr, asc, nulls_first } in sorts {
            all.nested(&of_expr(expr, *self)?);
            all.debug(&(asc, nulls_first));
        }
        Some(all)
    }
}

/// The order of rows.
pub(super) fn of_order(sorts: &[Sort], scope: ReadColumns<'_>) -> Option<EncodedFields> {
    scope.sorts(sorts)
}

/// The conditions of a conjunction, one by one.
pub(super) fn conditions(predicate: &Expr, scope: ReadColumns<'_>) -> Option<Vec<EncodedFields>> {
    scope.all(split_conjunction(predicate))
}

/// An expression over the columns of a scope, shortened to a digest if it is long.
pub(super) fn of_expr(expr: &Expr, scope: ReadColumns<'_>) -> Option<EncodedFields> {
    written(expr, scope).map(EncodedFields::short)
}

fn written(expr: &Expr, scope: ReadColumns<'_>) -> Option<EncodedFields> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, scope),
        Expr::Column(column) => scope.column(column),
        Expr::Literal(value, _) => {
            let mut all = EncodedFields::of("literal");
            all.scalar(value)?;
            Some(all)
        }
        Expr::BinaryExpr(binary) => of_binary(binary, scope),
        Expr::Like(like) => of_like("like", like, scope),
        Expr::SimilarTo(like) => of_like("similar to", like, scope),
        Expr::Not(inner) => scope.kind("not", [inner.as_ref()]),
        Expr::IsNotNull(inner) => scope.kind("is not null", [inner.as_ref()]),
        Expr::IsNull(inner) => scope.kind("is null", [inner.as_ref()]),
        Expr::IsTrue(inner) => scope.kind("is true", [inner.as_ref()]),
        Expr::IsFalse(inner) => scope.kind("is false", [inner.as_ref()]),
        Expr::IsUnknown(inner) => scope.kind("is unknown", [inner.as_ref()]),
        Expr::IsNotTrue(inner) => scope.kind("is not true", [inner.as_ref()]),
        Expr::IsNotFalse(inner) => scope.kind("is not false", [inner.as_ref()]),
        Expr::IsNotUnknown(inner) => scope.kind("is not unknown", [inner.as_ref()]),
        Expr::Negative(inner) => scope.kind("negative", [inner.as_ref()]),
        Expr::Between(Between { expr, negated, low, high }) => {
            let kind = if *negated { "not between" } else { "between" };
            scope.kind(kind, [expr.as_ref(), low.as_ref(), high.as_ref()])
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let mut all = EncodedFields::of("case");
            all.nested(&scope.optional(expr.as_deref())?);
            all.nested(&scope.optional(else_expr.as_deref())?);
            let branches = when_then_expr.iter().flat_map(|(when, then)| [&**when, &**then]);
            all.list(&scope.all(branches)?);
            Some(all)
        }
        Expr::Cast(Cast { expr, field }) => {
            let mut all = scope.kind("cast", [expr.as_ref()])?;
            all.debug(field.data_type());
            Some(all)
        }
        Expr::TryCast(TryCast { expr, field }) => {
            let mut all = scope.kind("try_cast", [expr.as_ref()])?;
            all.debug(field.data_type());
            Some(all)
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            if is_late_value(func) {
                return scope.late.get(func.name()).cloned();
            }
            // A function that depends on the clock has another value next time.
            if func.signature().volatility != Volatility::Immutable {
                return None;
            }
            if let Some(members) = members_of(func) {
                let mut all = scope.kind("listed", args)?;
                let one = |member: &ScalarValue| {
                    let mut one = EncodedFields::default();
                    one.scalar(member).map(|()| one)
                };
                all.set(&members.iter().map(one).collect::<Option<Vec<_>>>()?);
                return Some(all);
            }
            let mut all = EncodedFields::of("function");
            all.text(func.name());
            // The parameters of our own functions are fields of their types, so `Debug` shows them.
            all.debug(func);
            all.list(&scope.all(args)?);
            Some(all)
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } =
                params;
            if func.signature().volatility != Volatility::Immutable {
                return None;
            }
            let mut all = EncodedFields::of("aggregate");
            all.text(func.name());
            all.debug(func);
            all.debug(&(distinct, null_treatment));
            all.list(&scope.all(args)?);
            all.nested(&scope.optional(filter.as_deref())?);
            all.nested(&scope.sorts(order_by)?);
            Some(all)
        }
        Expr::WindowFunction(window) => of_window(window, scope),
        Expr::InList(InList { expr, list, negated }) => {
            let mut all = scope.kind(if *negated { "not in" } else { "in" }, [expr.as_ref()])?;
            all.set(&scope.all(list)?);
            Some(all)
        }
        Expr::ScalarVariable(..)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::ScalarSubquery(_)
        | Expr::GroupingSet(_)
        | Expr::Placeholder(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Unnest(_)
        | Expr::HigherOrderFunction(_)
        | Expr::Lambda(_)
        | Expr::LambdaVariable(_) => None,
        #[expect(deprecated, reason = "the variant exists until DataFusion drops it")]
        Expr::Wildcard { .. } => None,
    }
}

/// AND and OR are sets of their operands, the sides of = and <> may be swapped, and < is encoded as
/// >.
fn of_binary(binary: &BinaryExpr, scope: ReadColumns<'_>) -> Option<EncodedFields> {
    let BinaryExpr { left, op, right } = binary;
    if matches!(op, Operator::And | Operator::Or) {
        let mut members = Vec::new();
        gather(binary, *op, &mut members);
        let mut all = EncodedFields::of("binary");
        all.debug(op);
        all.set(&scope.all(members)?);
        return Some(all);
    }
    let (mut left, mut right) = (of_expr(left, scope)?, of_expr(right, scope)?);
    let op = match op {
        Operator::Lt => Operator::Gt,
        Operator::LtEq => Operator::GtEq,
        other => *other,
    };
    let is_turned = op != binary.op;
    let has_sides = !matches!(op, Operator::Eq | Operator::NotEq);
    if is_turned || (!has_sides && right < left) {
        std::mem::swap(&mut left, &mut right);
    }
    let mut all = EncodedFields::of("binary");
    all.debug(&op);
    Some(all.with(&left).with(&right))
}

/// The operands of a tree of one operator.
fn gather<'a>(binary: &'a BinaryExpr, op: Operator, members: &mut Vec<&'a Expr>) {
    for side in [&binary.left, &binary.right] {
        match side.as_ref() {
            Expr::BinaryExpr(inner) if inner.op == op => gather(inner, op, members),
            other => members.push(other),
        }
    }
}

fn of_like(kind: &str, like: &Like, scope: ReadColumns<'_>) -> Option<EncodedFields> {
    let Like { negated, expr, pattern, escape_char, case_insensitive } = like;
    let mut all = scope.kind(kind, [expr.as_ref(), pattern.as_ref()])?;
    all.debug(&(negated, escape_char, case_insensitive));
    Some(all)
}

fn of_window(window: &WindowFunction, scope: ReadColumns<'_>) -> Option<EncodedFields> {
    let WindowFunction { fun, params } = window;
    let WindowFunctionParams {
        args,
        partition_by,
        order_by,
        window_frame,
        filter,
        null_treatment,
        distinct,
    } = params;
    let mut all = EncodedFields::of("window");
    let volatility = match fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            all.text(function.name());
            all.debug(function);
            function.signature().volatility
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            all.text(function.name());
            all.debug(function);
            function.signature().volatility
        }
    };
    if volatility != Volatility::Immutable {
        return None;
    }
    all.debug(&(null_treatment, distinct));
    all.list(&scope.all(args)?);
    all.list(&scope.all(partition_by)?);
    all.nested(&scope.sorts(order_by)?);
    all.nested(&scope.optional(filter.as_deref())?);
    let WindowFrame { units, start_bound, end_bound, .. } = window_frame;
    all.debug(units);
    for bound in [start_bound, end_bound] {
        match bound {
            WindowFrameBound::Preceding(value) => {
                all.text("preceding");
                all.scalar(value)?;
            }
            WindowFrameBound::CurrentRow => all.text("current row"),
            WindowFrameBound::Following(value) => {
                all.text("following");
                all.scalar(value)?;
            }
        }
    }
    Some(all)
}
