//! `report_format => 'JSON'`: a released number with its error and its bounds, as one text.
//!
//! In: the marker of a release, in place of the aggregate. Out: an expression on released values,
//! which costs nothing further.
//!
//! ```text
//! COUNT(*, report_format => 'JSON')  →  {"result":{"value":9,"noise_confidence_interval":{…}}}
//! ```

use sqlparser::ast::{
    self as sql, DataType, Expr, FunctionArg, FunctionArguments, Ident, SelectItem,
};

use super::aggregate::column_name;
use super::ast::{AggregateCall, AggregateName};
use super::clauses::call;
use super::literal::Literal;

/// The name of the argument.
pub(super) const REPORT: &str = "report_format";

/// Names a column that is nothing but a report after its aggregate.
pub(super) fn name_reports(projection: &mut [SelectItem]) {
    for item in projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let Expr::Function(function) = &*expr else { continue };
        if has_argument(function, REPORT) {
            let alias = Ident::with_quote('"', column_name(function));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Whether a call has a named argument.
pub(super) fn has_argument(function: &sql::Function, wanted: &str) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    list.args.iter().any(|argument| match argument {
        FunctionArg::Named { name, .. } => name.value.eq_ignore_ascii_case(wanted),
        FunctionArg::ExprNamed { .. } | FunctionArg::Unnamed(_) => false,
    })
}

/// The report of a release: its value, and what is known of it without a look at any row.
pub(super) fn report(marker: &Expr, aggregate: &AggregateCall) -> Expr {
    let mut parts = vec![text("{\"result\":{\"value\":"), shown(marker.clone())];
    if has_error(aggregate) {
        parts.push(text(",\"noise_confidence_interval\":{\"lower_bound\":"));
        parts.push(shown(call("error_low".to_owned(), vec![marker.clone()])));
        parts.push(text(",\"upper_bound\":"));
        parts.push(shown(call("error_high".to_owned(), vec![marker.clone()])));
        parts.push(text(",\"confidence_level\":0.95}"));
    }
    parts.push(text("}"));
    let bounds = aggregate.bounds_per_group.as_ref().or(aggregate.bounds_per_row.as_ref());
    if let Some((Literal::Number(lo), Literal::Number(hi))) = bounds {
        parts.push(text(&format!(
            ",\"bounding_report\":{{\"lower_bound\":{lo},\"upper_bound\":{hi}}}"
        )));
    }
    parts.push(text("}"));
    call("concat".to_owned(), parts)
}

/// Whether noise is added to the number. A choice has no error.
fn has_error(aggregate: &AggregateCall) -> bool {
    match aggregate.function {
        AggregateName::Count
        | AggregateName::Sum
        | AggregateName::Avg
        | AggregateName::Spread(_)
        | AggregateName::Joint(_) => true,
        AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Unsupported(_) => false,
    }
}

fn text(text: &str) -> Expr {
    Expr::Value(sql::Value::SingleQuotedString(text.to_owned()).into())
}

/// A number as JSON has it: `null` where it is NULL.
fn shown(number: Expr) -> Expr {
    let written = Expr::Cast {
        kind: sql::CastKind::Cast,
        expr: Box::new(number),
        data_type: DataType::Varchar(None),
        array: false,
        format: None,
    };
    call("coalesce".to_owned(), vec![written, text("null")])
}
