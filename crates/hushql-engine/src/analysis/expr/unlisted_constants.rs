//! Constants that no row can have: `status = 'Femal'`, where the domain of status lists its values.
//!
//! In: a comparison of a listed column with texts, at any place: below OR, in CASE, in the
//! condition of a join. Out: a refusal if one of the texts is not listed, with the value that was
//! probably meant. The check costs nothing, because domains are public. Without it, a wrong answer
//! would cost the full price. Another check refuses filters that no row can pass.

use std::sync::Arc;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::calendar::reach;
use super::facts::{Facts, KeySource, Scope, constant, rational, type_range};
use super::shape::{Total, not_allowed, readable};
use crate::functions::MOST_OF_A_CONSTANT;
use crate::refusal::{Reason, Refusal, nearest};

/// Refuses `column = 'text'`, `column <> 'text'`, `column [NOT] IN ('text', …)` and
/// `CASE column WHEN 'text' …` with a text that is not listed.
///
/// # Errors
/// A text that is not listed.
pub(crate) fn check_listed(whole: &Expr, scope: &Scope) -> Result<(), Refusal> {
    if let Expr::Case(Case { expr: Some(of), when_then_expr, else_expr: _ }) = whole {
        return when_then_expr.iter().try_for_each(|(when, _)| {
            let equal = BinaryExpr::new(of.clone(), Operator::Eq, when.clone());
            check_listed(&Expr::BinaryExpr(equal), scope)
        });
    }
    let positive = match whole {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::NotEq | Operator::IsDistinctFrom,
            right,
        }) => {
            let equal = BinaryExpr::new(left.clone(), Operator::Eq, right.clone());
            Expr::BinaryExpr(equal)
        }
        Expr::InList(list) => Expr::InList(InList { negated: false, ..list.clone() }),
        other => other.clone(),
    };
    let Some((column, wanted)) = equal_to_texts(&positive) else { return Ok(()) };
    let Some(listed) = listed_texts(column, scope) else { return Ok(()) };
    let Some(stranger) = wanted.iter().find(|text| !listed.contains(text)) else { return Ok(()) };
    let name = &column.name;
    let (shown, is_cut) = (listed.iter().take(MOST_SHOWN), listed.len() > MOST_SHOWN);
    let shown: Vec<String> = shown.map(|text| quoted(text)).collect();
    let among = shown.join(", ") + if is_cut { ", …" } else { "" };
    let hint = match nearest(stranger, listed.iter().map(String::as_str)) {
        Some(meant) => format!("{} in place of {}", quoted(&meant), quoted(stranger)),
        // One list of texts is often written for several tables. So a text in it that resembles no
        // value of this column is accepted.
        None if wanted.len() > 1 => return Ok(()),
        None => format!("one of {among} in place of {}", quoted(stranger)),
    };
    Err(Refusal::new(
        Reason::BadValue,
        readable(whole),
        format!("no row has {} as {name}, which is one of {among}", quoted(stranger)),
        hint,
    ))
}

/// The most listed texts that a refusal shows.
const MOST_SHOWN: usize = 8;

/// A text as SQL writes it.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The column and the texts of `column = 'text'`, `column IS NOT DISTINCT FROM 'text'` and
/// `column IN ('text', …)`.
pub(crate) fn equal_to_texts(conjunct: &Expr) -> Option<(&Column, Vec<String>)> {
    let text = |value: &Expr| constant(value)?.try_as_str()?.map(str::to_owned);
    if let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq | Operator::IsNotDistinctFrom,
        right,
    }) = conjunct
    {
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
pub(crate) fn listed_texts(column: &Column, scope: &Scope) -> Option<Vec<String>> {
    let facts = scope.facts_of(column)?;
    let Some(KeySource::Values(values)) = &facts.keys else { return None };
    let text = |value: &ScalarValue| value.try_as_str()?.map(str::to_owned);
    let values = Arc::clone(values);
    values.iter().filter(|value| !value.is_null()).map(text).collect()
}

/// A constant as a total expression. It becomes NULL if it is a moment beyond reach, or a decimal
/// with too many digits.
pub(super) fn literal(value: ScalarValue) -> Result<Total, Refusal> {
    let bytes = match &value {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes))
        | ScalarValue::FixedSizeBinary(_, Some(bytes)) => bytes.len(),
        other => other.try_as_str().flatten().map_or(0, str::len),
    };
    if bytes > MOST_OF_A_CONSTANT {
        return Err(Refusal::new(
            Reason::TooLarge,
            "a constant",
            format!(
                "a constant below a release has at most {MOST_OF_A_CONSTANT} bytes, and this one has more"
            ),
            "a column in its place, or its first characters: left(x, 20) = '…'",
        ));
    }
    let is_kept = match (reach(&value.data_type()), rational(&value)) {
        (Some(reach), Some(moment)) => reach.contains(&moment),
        _ => in_range(&value),
    };
    let value = if is_kept {
        value
    } else {
        let null = ScalarValue::try_new_null(&value.data_type());
        null.map_err(|_| not_allowed(&Expr::Literal(value, None), "this type has no NULL"))?
    };
    let facts = Facts::of_literal(&value);
    Ok(Total { expr: Expr::Literal(value, None), facts })
}

/// True if a constant lies in the range of its type, or its type has no range.
pub(super) fn in_range(value: &ScalarValue) -> bool {
    match (type_range(&value.data_type()), rational(value)) {
        (Some(limits), Some(point)) => limits.contains(&point),
        _ => true,
    }
}
