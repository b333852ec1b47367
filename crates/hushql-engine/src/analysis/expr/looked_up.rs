//! Regular expressions over listed values: evaluated while the query is planned, and looked up on
//! rows.
//!
//! In: a call over a text whose values can be listed, and literals. Out: a CASE that maps each
//! value to its result. No pattern is evaluated on rows, so the cost or the failure of a pattern
//! does not depend on them.
//!
//! ```text
//! regexp_replace(job, '-.*', '')     CASE job WHEN 'Craft-repair' THEN 'Craft' WHEN 'Sales' THEN 'Sales' … END
//! ```

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Case, ScalarFunction};

use super::facts::Scope;
use super::image::{evaluated, values};
use crate::analysis::expr::shape::{Total, readable};
use crate::refusal::{Reason, Refusal};

/// The functions that are looked up. Their results are numbers, texts or conditions.
const LOOKED_UP: [&str; 4] = ["regexp_count", "regexp_instr", "regexp_like", "regexp_replace"];

/// The longest result, in bytes.
const LONGEST: usize = 1_024;

/// The call as a CASE over its text's values, if the function uses a regular expression. `None` for
/// other functions, and if the values cannot be listed.
///
/// # Guarantee
/// On every row the CASE has the value of the call: the text is a listed value or NULL, and for
/// NULL both are NULL. The CASE depends only on the domains and the statement.
///
/// # Errors
/// Refuses a pattern that is not valid, and results that are too long.
pub(super) fn looked_up(
    call: &ScalarFunction,
    args: &[Total],
    whole: &Expr,
    scope: &Scope,
) -> Result<Option<Expr>, Refusal> {
    if !LOOKED_UP.contains(&call.func.name()) {
        return Ok(None);
    }
    let listed: Option<Vec<_>> = args.iter().map(|arg| values(&arg.expr, scope)).collect();
    let Some(listed) = listed else { return Ok(None) };
    let [texts, others @ ..] = listed.as_slice() else { return Ok(None) };
    let is_one = |values: &Vec<ScalarValue>| matches!(values.as_slice(), [one] if !one.is_null());
    // A literal text needs no lookup, because the planner has already computed the result.
    if texts.len() < 2 || !others.iter().all(is_one) {
        return Ok(None);
    }
    let results = evaluated(call, &listed, whole, scope).filter(|all| all.len() == texts.len());
    let results = results.ok_or_else(|| {
        Refusal::new(
            Reason::BadValue,
            readable(whole),
            "this regular expression cannot be read",
            "another pattern: '^a' begins with a, 'a|b' has a or b, '[0-9]+' has digits",
        )
    })?;
    if results.iter().any(|result| result.try_as_str().flatten().is_some_and(|t| t.len() > LONGEST))
    {
        return Err(Refusal::new(
            Reason::TooLarge,
            readable(whole),
            format!("its results have more than {LONGEST} bytes"),
            "a shorter replacement",
        ));
    }
    let literal = |value: &ScalarValue| Box::new(Expr::Literal(value.clone(), None));
    let found = texts.iter().zip(&results).filter(|(text, _)| !text.is_null());
    let found = found.map(|(text, result)| (literal(text), literal(result))).collect();
    let text = args.first().map(|arg| Box::new(arg.expr.clone()));
    Ok(Some(Expr::Case(Case::new(text, found, None))))
}
