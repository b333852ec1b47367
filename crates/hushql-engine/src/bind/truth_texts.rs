//! Reads a text literal beside truth values as true or false, as PostgreSQL does.
//!
//! In: the sides of a comparison, or a plan before casts are added. Out: the same, with TRUE or
//! FALSE for each such literal. Other texts stay as they are, and are refused later. Only types and
//! literals matter, not rows.
//!
//! ```text
//! (age > 30) = 't'              (age > 30) = TRUE
//! paid IN ('no', 'off')         paid IN (FALSE, FALSE)
//! COALESCE(paid, 'f')           COALESCE(paid, FALSE)
//! status = 't'                  the same: status is a text
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    Between, Case, InList, InSubquery, ScalarFunction, SetComparison, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Subquery};
use sqlparser::ast::BinaryOperator;

use super::comparisons::{ValueKind, is_null, kind, text_of};

/// The truth value that a text stands for, as PostgreSQL reads it: a word or its beginning, in any
/// case, with blanks around it. `None` if it stands for none.
pub fn truth_of(text: &str) -> Option<bool> {
    let word = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']).to_ascii_lowercase();
    match word.as_str() {
        "" => None,
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        word if "true".starts_with(word) || "yes".starts_with(word) => Some(true),
        word if "false".starts_with(word) || "no".starts_with(word) => Some(false),
        _ => None,
    }
}

/// Reads the operands of a comparison before the planner makes an expression of it.
#[derive(Debug)]
pub(super) struct TruthTexts;

impl ExprPlanner for TruthTexts {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let (mut left, mut right) = (within_operand(left, schema)?, within_operand(right, schema)?);
        let compares = matches!(
            op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        if compares {
            read_all(&mut [&mut left, &mut right], schema);
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// An operand, which may contain COALESCE or CASE. The operands of operators within it are done.
fn within_operand(operand: Expr, schema: &DFSchema) -> Result<Expr> {
    let enter = |part: Expr| {
        let is_done = matches!(part, Expr::BinaryExpr(_));
        let way = if is_done { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
        Ok(Transformed::new(part, false, way))
    };
    let read = operand.transform_down_up(enter, |mut part| {
        let changed = within(&mut part, schema);
        Ok(Transformed::new_transformed(part, changed))
    })?;
    Ok(read.data)
}

/// Reads text literals beside truth values in lists, BETWEEN, CASE, COALESCE and the like.
///
/// # Errors
/// Those of the walk, which has none of its own.
pub(super) fn with_truth_literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_changed = false;
    let read = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let read = expr.transform_up(|mut part| {
                let changed = within(&mut part, &schema);
                Ok(Transformed::new_transformed(part, changed))
            })?;
            Ok(read.update_data(|expr| name.restore(expr)))
        })?;
        has_changed |= node.transformed;
        // The types of the inputs may have changed, too.
        match has_changed {
            true => node.map_data(LogicalPlan::recompute_schema),
            false => Ok(node),
        }
    })?;
    Ok(read.data)
}

/// Reads the literals of one expression. True if one changed.
fn within(expr: &mut Expr, schema: &DFSchema) -> bool {
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr {
        return matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
            && read_all(&mut [&mut **left, &mut **right], schema);
    }
    if let Expr::Between(Between { expr, low, high, .. }) = expr {
        return read_all(&mut [&mut **expr, &mut **low, &mut **high], schema);
    }
    if let Expr::InList(InList { expr, list, .. }) = expr {
        let mut all: Vec<&mut Expr> = vec![&mut **expr];
        all.extend(list);
        return read_all(&mut all, schema);
    }
    if let Expr::Case(case) = expr {
        return of_case(case, schema);
    }
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = expr {
        // The first argument of NVL2 is only tested for NULL.
        let from = usize::from(func.name() == "nvl2");
        let mut own: Vec<&mut Expr> = args.iter_mut().skip(from).collect();
        return CHOOSING.contains(&func.name()) && read_all(&mut own, schema);
    }
    if let Expr::WindowFunction(call) = expr {
        return with_default(call, schema);
    }
    if let Expr::InSubquery(InSubquery { expr, subquery, .. })
    | Expr::SetComparison(SetComparison { expr, subquery, .. }) = expr
    {
        return is_of_truth_values(subquery) && read(expr);
    }
    false
}

/// Functions that return one of their arguments, or compare them.
const CHOOSING: [&str; 6] = ["coalesce", "nvl", "nvl2", "nullif", "greatest", "least"];

/// Reads the literals that CASE compares with its operand, and those that it chooses from.
fn of_case(case: &mut Case, schema: &DFSchema) -> bool {
    let (mut compared, mut chosen) = (Vec::new(), Vec::new());
    for (when, then) in &mut case.when_then_expr {
        compared.push(&mut **when);
        chosen.push(&mut **then);
    }
    chosen.extend(case.else_expr.as_deref_mut());
    let base = case.expr.as_deref_mut().is_some_and(|base| {
        compared.push(base);
        read_all(&mut compared, schema)
    });
    read_all(&mut chosen, schema) | base
}

/// Reads the default of LAG and LEAD of a truth value.
fn with_default(call: &mut WindowFunction, schema: &DFSchema) -> bool {
    let name = call.fun.name().to_lowercase();
    match call.params.args.as_mut_slice() {
        [x, _, default] if name == "lag" || name == "lead" => read_all(&mut [x, default], schema),
        _ => false,
    }
}

/// True if the only column of a subquery has truth values.
fn is_of_truth_values(subquery: &Subquery) -> bool {
    let fields = subquery.subquery.schema().fields();
    fields.first().and_then(|field| ValueKind::new(field.data_type())) == Some(ValueKind::Boolean)
}

/// Reads the text literals among values that meet, if one value is true or false, and every other
/// one too, NULL, or a text literal. True if one changed.
fn read_all(meeting: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let mut has_truth = false;
    let fit = meeting.iter().all(|expr| {
        let is_truth = kind(expr, schema) == Some(ValueKind::Boolean);
        has_truth |= is_truth;
        is_truth || is_null(expr) || text_of(expr).is_some()
    });
    let mut changed = false;
    for expr in meeting.iter_mut().filter(|_| fit && has_truth) {
        changed |= read(expr);
    }
    changed
}

/// Replaces a text literal by the truth value that it stands for. True if it is one.
fn read(expr: &mut Expr) -> bool {
    let Some(value) = text_of(expr).and_then(truth_of) else { return false };
    *expr = Expr::Literal(ScalarValue::from(value), None);
    true
}

#[cfg(test)]
mod tests {
    use super::truth_of;

    /// The spellings that PostgreSQL 15 takes, and some that it does not.
    #[test]
    fn texts_are_truth_values_as_in_postgresql() {
        for text in ["t", "tr", "tru", "true", "TRUE", "y", "ye", "Yes", "on", "1", " \tt\n"] {
            assert_eq!(truth_of(text), Some(true), "{text:?}");
        }
        for text in ["f", "fa", "fals", "False", "n", "no", "of", "off", "OFF", "0", " f "] {
            assert_eq!(truth_of(text), Some(false), "{text:?}");
        }
        for text in ["", " ", "o", "maybe", "yess", "truee", "2", "01", "-1", "null", "t t"] {
            assert_eq!(truth_of(text), None, "{text:?}");
        }
    }
}
