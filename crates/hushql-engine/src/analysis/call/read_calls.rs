//! The calls of an aggregate node, read from the plan.
//!
//! In: an aggregate over private rows, and the clauses of the query's releases. Out: one [`Call`]
//! for each aggregate of the node. An aggregate without a mechanism has the default cost of a
//! budget. A node without aggregates shows its keys alone: its call counts units, to select the
//! keys.
//!
//! ```text
//! SELECT zip, SUM(x), LAPLACE(eps=1) COUNT(*) … GROUP BY zip      SUM(x) bare, COUNT(*) as release 0
//! SELECT DISTINCT zip                                             the keys of zip, by a count of units
//! ```

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Expr, lit};

use arrow::datatypes::DataType;

use super::Call;
use crate::analysis::below::refusals::only_table;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::bind::Bound;
use crate::dialect::aggregate::instead_of;
use crate::dialect::{
    AggregateCall, AggregateName, Literal, MechanismName, Operand, Parameters, ReleaseClause,
    marked,
};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::in_literals;

/// The aggregate's expressions as releases. Bare aggregates use the default mechanism.
pub(crate) fn releases(aggregate: &Aggregate, bound: &Bound) -> Result<Vec<Call>, Refusal> {
    if aggregate.aggr_expr.is_empty() {
        return Ok(vec![keys_alone()]);
    }
    let fields = aggregate.schema.fields().iter().skip(aggregate.group_expr.len());
    if let (Some(expr), true) =
        (aggregate.aggr_expr.last(), fields.len() != aggregate.aggr_expr.len())
    {
        // An aggregate without a column would be neither shown nor paid for.
        return Err(no_call(expr));
    }
    let mut calls = Vec::new();
    for (expr, field) in aggregate.aggr_expr.iter().zip(fields) {
        let Some(function) = CallOf::function(expr) else { return Err(no_call(expr)) };
        let release = marked(function.func.name());
        let clause = match release {
            Some(n) => bound.releases().get(n).cloned().ok_or_else(|| no_call(expr))?,
            None => bare_clause_of(function, expr)?,
        };
        if !function.params.order_by.is_empty() || function.params.null_treatment.is_some() {
            return Err(no_call(expr));
        }
        calls.push(Call {
            release,
            clause,
            params: function.params.clone(),
            column: field.name().clone(),
            data_type: field.data_type().clone(),
        });
    }
    Ok(calls)
}

/// The call that selects keys that are shown alone: the number of units of each, with one row of a
/// unit in a group.
fn keys_alone() -> Call {
    let clause = ReleaseClause {
        parameters: Parameters { rows: Some(1), ..Parameters::default() },
        ..bare_clause(AggregateCall::count_star(), KEYS_ALONE.to_owned())
    };
    let params = AggregateFunctionParams {
        args: vec![lit(1_i64)],
        distinct: false,
        filter: None,
        order_by: Vec::new(),
        null_treatment: None,
    };
    let (column, data_type) = (KEYS_ALONE.to_owned(), DataType::Int64);
    Call { release: None, clause, params, column, data_type }
}

/// What selects keys that are shown alone, in explanations and in the ledger.
const KEYS_ALONE: &str = "keys";

/// The refusal of the distinct values of a private table.
pub(crate) fn distinct_values(aggregate: &Aggregate) -> Refusal {
    let keys: Vec<String> = aggregate.group_expr.iter().map(readable).collect();
    let keys = keys.join(", ");
    let hint = match only_table(&aggregate.input) {
        Some(table) => {
            format!("SELECT {keys}, LAPLACE(eps=1) COUNT(*) FROM {table} GROUP BY {keys}")
        }
        None => format!("LAPLACE(eps=1) COUNT(*) beside {keys} in the SELECT list"),
    };
    Refusal::new(
        Reason::Exact,
        "GROUP BY",
        "the distinct values of a private table are not released",
        hint,
    )
}

fn no_call(expr: &Expr) -> Refusal {
    Refusal::new(
        Reason::Operand,
        readable(expr),
        format!("{} cannot be released", readable(expr)),
        CallOf::function(expr).and_then(instead).unwrap_or_else(|| {
            "COUNT, SUM, AVG or STDDEV with a mechanism in front: LAPLACE(eps=1) COUNT(*)"
                .to_owned()
        }),
    )
}

/// An example of SQL with an argument in place of `x`.
fn with_argument(example: &str, argument: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut written = String::with_capacity(example.len());
    for word in example.split_inclusive(|c| !is_word(c)) {
        match word.strip_prefix('x') {
            Some(rest) if !rest.contains(is_word) => written += &format!("{argument}{rest}"),
            Some(_) | None => written += word,
        }
    }
    written
}

/// What to write instead of an aggregate that cannot be released. Some regression aggregates are
/// counts, means and variances of the rows where both values are known.
fn instead(function: &AggregateFunction) -> Option<String> {
    let name = function.func.name();
    if let (Some(instead), false) = (instead_of(name), name == "regr_count") {
        let instead = instead.trim_start_matches("write ");
        return Some(match function.params.args.first() {
            Some(Expr::Cast(cast)) => with_argument(instead, &readable(&cast.expr)),
            Some(argument) => with_argument(instead, &readable(argument)),
            None => instead.to_owned(),
        });
    }
    let [y, x] = function.params.args.as_slice() else { return None };
    let of = |arg: &Expr| match arg {
        Expr::Cast(cast) => readable(&cast.expr),
        other => readable(other),
    };
    let (y, x) = (of(y), of(x));
    let both = format!("FILTER (WHERE {x} IS NOT NULL AND {y} IS NOT NULL)");
    Some(match name {
        "regr_count" => format!("LAPLACE(eps=1) COUNT(*) {both}"),
        "regr_avgx" => format!("LAPLACE(eps=1) AVG({x}) {both}"),
        "regr_avgy" => format!("LAPLACE(eps=1) AVG({y}) {both}"),
        "regr_sxx" => {
            format!("LAPLACE(eps=1) VAR_POP({x}) {both} * LAPLACE(eps=1) COUNT(*) {both}")
        }
        "regr_syy" => {
            format!("LAPLACE(eps=1) VAR_POP({y}) {both} * LAPLACE(eps=1) COUNT(*) {both}")
        }
        "regr_sxy" => {
            format!("LAPLACE(eps=1) COVAR_POP({y}, {x}) * LAPLACE(eps=1) COUNT(*) {both}")
        }
        _ => return None,
    })
}

/// A bare aggregate, which the budget's default mechanism may release.
pub(crate) fn bare_clause_of(
    function: &AggregateFunction,
    expr: &Expr,
) -> Result<ReleaseClause, Refusal> {
    let name = AggregateName::parse(function.func.name()).ok_or_else(|| no_call(expr))?;
    let star = name == AggregateName::Count
        && !function.params.distinct
        && matches!(function.params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null());
    let (fractions, expected) = match (name, function.params.args.as_slice()) {
        (AggregateName::Quantile, [_, fraction]) => {
            (vec![literal_number(fraction).ok_or_else(|| no_call(expr))?], 2)
        }
        (AggregateName::Quantiles, [_, fractions @ ..]) => {
            let literals = fractions.iter().map(literal_number).collect::<Option<Vec<_>>>();
            (literals.ok_or_else(|| no_literals(expr))?, fractions.len() + 1)
        }
        (AggregateName::Cdf, [_, bins]) => {
            (vec![literal_number(bins).ok_or_else(|| no_bins(expr))?], 2)
        }
        (AggregateName::Unsupported(_), args) => (Vec::new(), args.len()),
        (AggregateName::Joint(_), _) => (Vec::new(), 2),
        _ => (Vec::new(), 1),
    };
    if function.params.args.len() != expected {
        return Err(no_call(expr));
    }
    let call = AggregateCall {
        star,
        distinct: function.params.distinct,
        fractions,
        ..AggregateCall::for_function(name)
    };
    let text = match star {
        true => "count(*)".to_owned(),
        false if has_nested_operators(expr) => readable(expr),
        false => in_literals(&expr.schema_name().to_string()),
    };
    Ok(bare_clause(call, text))
}

/// A number that stands in a call. The planner casts whole numbers.
fn literal_number(expr: &Expr) -> Option<Literal> {
    let cast = if let Expr::Cast(cast) = expr { cast.expr.as_ref() } else { expr };
    let Expr::Literal(value, _) = cast else { return None };
    Some(Literal::Number(value.to_string()))
}

fn no_bins(expr: &Expr) -> Refusal {
    let x = CallOf::function(expr).and_then(|call| call.params.args.first().map(readable));
    let x = x.unwrap_or_else(|| "x".to_owned());
    Refusal::new(
        Reason::BadValue,
        readable(expr),
        "the number of bins of CDF is a number that stands in the query",
        format!("CDF({x}, 100)"),
    )
}

fn no_literals(expr: &Expr) -> Refusal {
    let x = CallOf::function(expr).and_then(|call| call.params.args.first().map(readable));
    let x = x.unwrap_or_else(|| "x".to_owned());
    Refusal::new(
        Reason::BadValue,
        readable(expr),
        "the fractions of QUANTILES are numbers that stand in the query",
        format!("QUANTILES({x}, (0.25, 0.5, 0.75))"),
    )
}

/// True if an operator has the result of another one as an operand. The planner's names leave out
/// the parentheses around it.
fn has_nested_operators(expr: &Expr) -> bool {
    let is_operator = |e: &Expr| matches!(e, Expr::BinaryExpr(_));
    expr.exists(|e| {
        let Expr::BinaryExpr(binary) = e else { return Ok(false) };
        Ok(is_operator(&binary.left) || is_operator(&binary.right))
    })
    .unwrap_or(true)
}

/// The clause of an aggregate without a mechanism.
fn bare_clause(call: AggregateCall, text: String) -> ReleaseClause {
    ReleaseClause {
        mechanism: MechanismName::Default,
        parameters: Parameters::default(),
        operand: Operand::Aggregate(call),
        keys: Vec::new(),
        unit_column: None,
        grouping: None,
        text,
        finding: None,
        consistent: None,
        set: None,
        fresh: false,
    }
}
