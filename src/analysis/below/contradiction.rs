//! Filters that the declared domains prove false.
//!
//! In: a filter over columns whose values are listed. Out: a refusal if no row can pass it, with the value that was probably
//! meant. Domains are public, so this costs nothing; the answer would be noise around zero, at the full price.
//!
//! ```text
//! channel IN ('web', 'app')        WHERE channel = 'Web'        write 'web'
//! ```

use std::sync::Arc;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::analysis::expr::facts::{KeySource, Scope, constant};
use crate::analysis::expr::shape::readable;
use crate::refusal::{Reason, Refusal, nearest};

/// Refuses a filter with a comparison that holds for none of its column's listed texts.
///
/// # Errors
/// The refusal.
pub(crate) fn check(predicate: &Expr, scope: &Scope) -> Result<(), Refusal> {
    for conjunct in split_conjunction(predicate) {
        if let Some((column, wanted)) = equal_to_texts(conjunct)
            && let Some(listed) = listed_texts(column, scope)
            && !wanted.iter().any(|text| listed.contains(text))
        {
            return Err(refusal(conjunct, column, &wanted, &listed));
        }
    }
    Ok(())
}

/// The column and the texts of `column = 'text'` and `column IN ('text', …)`.
fn equal_to_texts(conjunct: &Expr) -> Option<(&Column, Vec<String>)> {
    let text = |value: &Expr| constant(value)?.try_as_str()?.map(str::to_owned);
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct {
        return match (left.try_as_col(), right.try_as_col()) {
            (Some(column), None) => Some((column, vec![text(right)?])),
            (None, Some(column)) => Some((column, vec![text(left)?])),
            (Some(_), Some(_)) | (None, None) => None,
        };
    }
    if let Expr::InList(InList { expr, list, negated: false }) = conjunct {
        return Some((expr.try_as_col()?, list.iter().map(text).collect::<Option<_>>()?));
    }
    None
}

/// The texts that a column can hold; `None` if they are not listed.
fn listed_texts(column: &Column, scope: &Scope) -> Option<Vec<String>> {
    let facts = scope.facts_of(column)?;
    let Some(KeySource::Values(values)) = &facts.keys else { return None };
    let text = |value: &ScalarValue| value.try_as_str()?.map(str::to_owned);
    let values = Arc::clone(values);
    values.iter().filter(|value| !value.is_null()).map(text).collect()
}

fn refusal(conjunct: &Expr, column: &Column, wanted: &[String], listed: &[String]) -> Refusal {
    const MOST_SHOWN: usize = 8;
    let quoted = |text: &String| format!("'{}'", text.replace('\'', "''"));
    let meant = wanted.iter().find_map(|text| nearest(text, listed.iter().map(String::as_str)));
    let shown: Vec<String> = listed.iter().take(MOST_SHOWN).map(quoted).collect();
    let among = shown.join(", ") + if listed.len() > MOST_SHOWN { ", …" } else { "" };
    let name = &column.name;
    Refusal::new(
        Reason::BadValue,
        readable(conjunct),
        format!("no row can pass this filter: {name} is one of {among}"),
        match meant {
            Some(meant) => format!("{name} = {}", quoted(&meant)),
            None => format!("{name} IN ({among})"),
        },
    )
}
