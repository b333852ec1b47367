//! Calls of templates: `SELECT … FROM monthly('north', least => 30)`.
//!
//! In: the tree of a query, with values for its own parameters. Out: the template's name with its
//! arguments. Each argument is one literal.
//!
//! Around a call stand only the parts of a query that compute from released rows: columns, plain
//! functions of values, WHERE, ORDER BY and LIMIT. So the owner alone decides what is released.

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, TableFactor};

use super::called_template::{ArgumentValue, TemplateArgument, TemplateCall};
use super::literal::{Literal, literal_of};
use super::markers::parameter_of;
use crate::dialect::clauses::{Clauses, folded};
use crate::dialect::error::DialectError;
use crate::refusal::{Reason, Refusal};

/// The functions that may stand around a call: each computes one value from values.
const AROUND: [&str; 12] = [
    "abs", "ceil", "coalesce", "concat", "floor", "greatest", "least", "lower", "nullif", "round",
    "trim", "upper",
];

/// The call that a query consists of. Its arguments leave the tree, so that the rest names the
/// template as it would name a table. `None` for any other query.
///
/// # Errors
/// A refusal of anything around the call that would be more than to compute from its rows, and of
/// an argument that is not a literal.
pub(crate) fn take_call(
    tree: &mut sql::Query,
    clauses: &Clauses,
) -> Result<Option<TemplateCall>, DialectError> {
    let sql::SetExpr::Select(select) = tree.body.as_mut() else { return Ok(None) };
    let [sql::TableWithJoins { relation, joins }] = select.from.as_mut_slice() else {
        return Ok(None);
    };
    let TableFactor::Table { name, args, .. } = relation else { return Ok(None) };
    let ([part], Some(arguments)) = (name.0.as_slice(), args.as_ref()) else { return Ok(None) };
    // A word of SQL, which the reader refuses with what to write.
    let named = part.as_ident().map(folded).filter(|name| name != "unnest");
    let Some(template) = named else { return Ok(None) };
    let call = TemplateCall { name: template, arguments: arguments_of(arguments)? };
    let is_alone = joins.is_empty();
    *args = None;
    let is_plain = is_alone && tree.with.is_none() && computes_only(tree, clauses);
    match is_plain {
        true => Ok(Some(call)),
        false => Err(around(&call.name).into()),
    }
}

fn around(template: &str) -> Refusal {
    Refusal::new(
        Reason::Clause,
        template,
        format!(
            "around the template {template} stand only columns of its answer, WHERE, ORDER BY, LIMIT, and the functions {}: its owner fixed the question",
            AROUND.map(str::to_uppercase).join(", ")
        ),
        format!("SELECT * FROM {template}(…), and the rest over the rows that you get"),
    )
}

/// Whether everything around the call computes one row from one row.
fn computes_only(tree: &sql::Query, clauses: &Clauses) -> bool {
    let sql::SetExpr::Select(select) = tree.body.as_ref() else { return false };
    let is_ungrouped = match &select.group_by {
        sql::GroupByExpr::Expressions(keys, modifiers) => keys.is_empty() && modifiers.is_empty(),
        sql::GroupByExpr::All(_) => false,
    };
    let is_simple = is_ungrouped
        && select.having.is_none()
        && select.qualify.is_none()
        && select.distinct.is_none()
        && clauses.releases.is_empty()
        && clauses.keys.is_empty()
        && clauses.options.is_empty();
    is_simple && sql::Visit::visit(tree, &mut RowByRow { queries: 0 }).is_continue()
}

struct RowByRow {
    queries: usize,
}

impl sql::Visitor for RowByRow {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &sql::Query) -> ControlFlow<()> {
        self.queries += 1;
        if self.queries > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.to_string().to_lowercase();
        let is_known = AROUND.contains(&name.as_str()) || parameter_of(&name).is_some();
        match is_known && function.over.is_none() && function.filter.is_none() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

fn arguments_of(written: &sql::TableFunctionArgs) -> Result<Vec<TemplateArgument>, DialectError> {
    let mut arguments: Vec<TemplateArgument> = Vec::new();
    for argument in &written.args {
        let (name, expr) = match argument {
            sql::FunctionArg::Named { name, arg: sql::FunctionArgExpr::Expr(expr), .. } => {
                (Some(folded(name)), expr)
            }
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(expr)) => (None, expr),
            other => return Err(no_literal(&other.to_string()).into()),
        };
        if name.is_none() && arguments.last().is_some_and(|last| last.name.is_some()) {
            return Err(Refusal::new(
                Reason::Parameter,
                expr.to_string(),
                "an argument without a name stands behind one with a name",
                "the arguments with names last: monthly('north', least => 30)",
            )
            .into());
        }
        let value = argument_value(expr).ok_or_else(|| no_literal(&expr.to_string()))?;
        arguments.push(TemplateArgument { name, value });
    }
    match written.settings {
        None => Ok(arguments),
        Some(_) => Err(no_literal("SETTINGS").into()),
    }
}

fn no_literal(written: &str) -> Refusal {
    Refusal::new(
        Reason::Parameter,
        written,
        "an argument of a template is one literal, never an expression or a query",
        "a number, 'a text', TRUE, FALSE, DATE '2026-01-31', or a parameter such as $1",
    )
}

/// The literal of an argument. It may be cast to the type that its parameter has, as drivers write
/// it; what it is then compared with is the domain of the parameter.
fn argument_value(expr: &Expr) -> Option<ArgumentValue> {
    match expr {
        Expr::Nested(inner) => argument_value(inner),
        Expr::Cast { expr, data_type, array: false, format: None, .. } if is_text(data_type) => {
            argument_value(expr)
        }
        // A text that is cast to a number would be another value.
        Expr::Cast { expr, data_type, array: false, format: None, .. } if is_plain(data_type) => {
            argument_value(expr)
                .filter(|value| !matches!(value, ArgumentValue::Literal(Literal::Text(_))))
        }
        Expr::Function(function) => {
            parameter_of(&function.name.to_string()).map(ArgumentValue::Later)
        }
        Expr::TypedString(typed) if !is_text(&typed.data_type) => None,
        other => literal_of(other).map(ArgumentValue::Literal),
    }
}

/// Whether the values of a type are written in quotes.
fn is_text(data_type: &sql::DataType) -> bool {
    use sql::DataType as T;
    matches!(data_type, T::Varchar(None) | T::Text | T::Date | T::Timestamp(None, _))
}

/// Whether the values of a type are written without quotes.
fn is_plain(data_type: &sql::DataType) -> bool {
    use sql::DataType as T;
    matches!(
        data_type,
        T::Int(None)
            | T::Integer(None)
            | T::Int4(None)
            | T::Int8(None)
            | T::BigInt(None)
            | T::Double(_)
            | T::DoublePrecision
            | T::Float8
            | T::Boolean
            | T::Bool
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};

    fn call(text: &str) -> Result<Option<TemplateCall>, String> {
        match parse(text) {
            Ok(Statement::Query(query)) => Ok(query.template),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn calls_are_read() {
        let read = call(
            "SELECT n + 1 AS m, ROUND(n) FROM Monthly('no''rth', 30, since => DATE '2026-01-01') q WHERE n > 3 ORDER BY n LIMIT 2",
        );
        let read = read.unwrap().unwrap();
        assert_eq!((read.name.as_str(), read.arguments.len()), ("monthly", 3));
        let values: Vec<String> = read
            .arguments
            .iter()
            .map(|argument| match &argument.value {
                ArgumentValue::Literal(literal) => literal.to_string(),
                ArgumentValue::Later(n) => format!("${n}"),
            })
            .collect();
        assert_eq!(values, ["'no''rth'", "30", "'2026-01-01'"]);
        assert_eq!(read.arguments[2].name.as_deref(), Some("since"));
        assert!(call("SELECT * FROM m()").unwrap().is_some());
        assert!(call("SELECT * FROM m('2026-01-01'::date, -5)").unwrap().is_some());
        assert!(
            call("SELECT * FROM m(30::INTEGER, CAST(-5 AS BIGINT), TRUE::BOOLEAN)")
                .unwrap()
                .is_some()
        );
        assert!(call("SELECT * FROM m").unwrap().is_none());
    }

    #[test]
    fn nothing_else_stands_around_a_call() {
        for text in [
            "SELECT COUNT(*) FROM m()",
            "SELECT SUM(n) FROM m()",
            "SELECT LAPLACE(eps=1) COUNT(*) FROM m()",
            "SELECT n FROM m() GROUP BY n",
            "SELECT n FROM m() GROUP BY n KEYS (1)",
            "SELECT DISTINCT n FROM m()",
            "SELECT n FROM m() HAVING n > 1",
            "SELECT n, ROW_NUMBER() OVER (ORDER BY n) FROM m()",
            "SELECT n, (SELECT COUNT(*) FROM visits) FROM m()",
            "SELECT n FROM m() WHERE n IN (SELECT age FROM visits)",
            "SELECT n FROM m() WHERE EXISTS (SELECT 1 FROM visits)",
            "SELECT n FROM m() ORDER BY (SELECT 1)",
            "SELECT * FROM m(), visits",
            "SELECT * FROM m() JOIN visits ON TRUE",
            "SELECT * FROM m() UNION ALL SELECT age FROM visits",
            "SELECT * FROM (SELECT * FROM m())",
            "WITH v AS (SELECT * FROM visits) SELECT * FROM m()",
            "SELECT * FROM m(1 + 1)",
            "SELECT * FROM m((SELECT 1))",
            "SELECT * FROM m(n)",
            "SELECT * FROM m(\"n\")",
            "SELECT * FROM m(*)",
            "SELECT * FROM m(a => 1, 2)",
            "SELECT * FROM m(CAST('5' AS BIGINT))",
            "SELECT * FROM m(x'00')",
            "SELECT * FROM m(LOWER('A'))",
            "SELECT * FROM public.m(1)",
            "CREATE VIEW v AS SELECT * FROM m()",
        ] {
            assert!(call(text).is_err(), "{text}");
        }
    }
}
