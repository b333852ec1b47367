//! LIKE and the operators of regular expressions, as functions.
//!
//! In: a text and a pattern. Out: whether the text matches. As functions they can be tried before
//! the charge, and return NULL if a pattern from a column is invalid ([`super::or_null`]); the
//! operators would fail.
//!
//! ```text
//! name ~ '('      the pattern cannot be read: refused before the charge
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::kernels::comparison::{ilike, like, regexp_is_match};
use arrow::compute::{cast, not};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

/// How a text is compared with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matching {
    /// Whether the pattern is a regular expression instead of a LIKE pattern.
    pub(crate) is_regular: bool,
    /// Whether upper and lower case are equal.
    pub(crate) ignores_case: bool,
    /// Whether the result is negated.
    pub(crate) is_negated: bool,
}

/// The comparison of an expression, its text and its pattern; `None` for other expressions.
pub fn matching(expr: &Expr) -> Option<(Matching, &Expr, &Expr)> {
    if let Expr::Like(Like { negated, expr, pattern, escape_char: None, case_insensitive }) = expr {
        let how =
            Matching { is_regular: false, ignores_case: *case_insensitive, is_negated: *negated };
        return Some((how, expr, pattern));
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let regular =
        |ignores_case, is_negated| Matching { is_regular: true, ignores_case, is_negated };
    let how = match op {
        Operator::RegexMatch => regular(false, false),
        Operator::RegexIMatch => regular(true, false),
        Operator::RegexNotMatch => regular(false, true),
        Operator::RegexNotIMatch => regular(true, true),
        _ => return None,
    };
    Some((how, left, right))
}

/// The function of a text and a pattern.
pub fn matched(how: Matching) -> Arc<ScalarUDF> {
    // DataFusion treats two calls with equal names and operands as the same value.
    let name = format!(
        "matched{}{}{}",
        if how.is_regular { "_regexp" } else { "_like" },
        if how.ignores_case { "_any_case" } else { "" },
        if how.is_negated { "_not" } else { "" },
    );
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Matched { name, how, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Matched {
    name: String,
    how: Matching,
    signature: Signature,
}

impl ScalarUDFImpl for Matched {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let [text, pattern] = args.args.as_slice() else {
            return exec_err!("a text is compared with one pattern");
        };
        let matched: ArrayRef = Arc::new(self.of(&views(text, rows)?, &views(pattern, rows)?)?);
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&matched, 0)?),
            false => ColumnarValue::Array(matched),
        })
    }
}

impl Matched {
    fn of(&self, texts: &StringViewArray, patterns: &StringViewArray) -> Result<BooleanArray> {
        let Matching { is_regular, ignores_case, is_negated } = self.how;
        let matched = match (is_regular, ignores_case) {
            (false, false) => like(texts, patterns)?,
            (false, true) => ilike(texts, patterns)?,
            (true, false) => regexp_is_match(texts, patterns, None::<&StringViewArray>)?,
            (true, true) => {
                let flags = StringViewArray::from(vec!["i"; texts.len()]);
                regexp_is_match(texts, patterns, Some(&flags))?
            }
        };
        Ok(if is_negated { not(&matched)? } else { matched })
    }
}

fn views(operand: &ColumnarValue, rows: usize) -> Result<StringViewArray> {
    let column = cast(&operand.to_array(rows)?, &DataType::Utf8View)?;
    Ok(column.as_string_view().clone())
}
