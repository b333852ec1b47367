//! Moments outside the calendar: exact in comparisons and intervals; NULL in texts, date parts and
//! keys.
//!
//! In: a total expression and its facts. The range in the facts tells whether a value can leave the
//! years 0001 to 9999. Out: the same expression within these years.
//!
//! ```text
//! valid_to + INTERVAL '1 day' > DATE '2024-06-01'        true of 9999-12-31
//! CAST(valid_to + INTERVAL '1 day' AS VARCHAR)           NULL of 9999-12-31
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::facts::{Facts, KeySource, Scope, type_range};
use super::interval::Interval;
use super::shape::{Total, not_allowed, type_of};
use crate::functions::{
    in_calendar as moved_in_calendar, in_calendar_function, is_in_calendar, reach_of_moments,
    sound, temporal_limits,
};
use crate::refusal::Refusal;

/// The moments of a type that can be moved and compared exactly; `None` for other types.
pub(crate) fn reach(data_type: &DataType) -> Option<Interval> {
    let (first, last) = reach_of_moments(data_type)?;
    Some(Interval::integer_range(first, last))
}

/// True if some moments of a range are outside the calendar; false for other types.
pub(crate) fn leaves(range: &Interval, data_type: &DataType) -> bool {
    let calendar = temporal_limits(data_type).and_then(|_| type_range(data_type));
    calendar.is_some_and(|calendar| !range.is_within(&calendar))
}

/// The same expression, but NULL for moments outside the calendar.
///
/// # Errors
/// Refuses an expression without a type.
pub(crate) fn in_calendar(total: Total, scope: &Scope) -> Result<Total, Refusal> {
    // Only the types of moments matter here.
    let data_type = type_of(&total.expr, &scope.schema)?;
    if !leaves(&total.facts.always, &data_type) {
        return Ok(total);
    }
    if matches!(total.expr, Expr::Literal(..)) {
        let null = ScalarValue::try_new_null(&data_type);
        let null = null.map_err(|_| not_allowed(&total.expr, "this type has no NULL"))?;
        return Ok(Total { facts: Facts::of_literal(&null), expr: Expr::Literal(null, None) });
    }
    let expr = match leaves(&total.facts.known(), &data_type) {
        true => moved_in_calendar(total.expr),
        false => sound(total.expr, &data_type),
    };
    Ok(Total { expr, facts: total.facts.in_calendar(&data_type) })
}

/// True if a plan over private rows turns moments into NULL because an interval can move them out
/// of the calendar.
pub(crate) fn cuts_moments(plan: &LogicalPlan) -> bool {
    let is_cut = |part: &Expr| {
        let cuts = |call: &ScalarFunction| call.func == in_calendar_function();
        Ok(matches!(part, Expr::ScalarFunction(call) if cuts(call)))
    };
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            found |= expr.exists(is_cut)?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && found
}

impl Facts {
    /// The facts of the same values, where moments outside the calendar are NULL.
    pub(crate) fn in_calendar(mut self, data_type: &DataType) -> Self {
        if let Some(KeySource::Values(values)) = &self.keys
            && !values.iter().all(is_kept)
        {
            let kept = values.iter().filter(|key| is_kept(key)).cloned();
            self.keys = Some(KeySource::Values(Arc::new(kept.collect())));
            self.null_key = true;
        }
        let Some(calendar) = type_range(data_type).filter(|_| leaves(&self.always, data_type))
        else {
            return self;
        };
        Self {
            null_key: self.null_key || leaves(&self.known(), data_type),
            range: self.range.intersect(&calendar),
            always: self.always.intersect(&calendar),
            nullable: true,
            ..self
        }
    }
}

/// The keys without moments outside the calendar. If there were any, NULL replaces them and comes
/// last.
pub(crate) fn keys_in_calendar(keys: Vec<ScalarValue>) -> Vec<ScalarValue> {
    if keys.iter().all(is_kept) {
        return keys;
    }
    let null = keys.first().and_then(|key| ScalarValue::try_new_null(&key.data_type()).ok());
    keys.into_iter().filter(|key| is_kept(key) && !key.is_null()).chain(null).collect()
}

/// The key, or NULL if it is a moment outside the calendar.
pub(crate) fn key_in_calendar(key: ScalarValue) -> Option<ScalarValue> {
    if is_kept(&key) { Some(key) } else { ScalarValue::try_new_null(&key.data_type()).ok() }
}

fn is_kept(key: &ScalarValue) -> bool {
    key.is_null() || temporal_limits(&key.data_type()).is_none() || is_in_calendar(key)
}
