//! The input columns of a private aggregate: the unit, the group keys and the arguments of its
//! measures.
//!
//! In: keys and arguments over private rows, one by one. Out: one projection in which every
//! operator finds its column by position. `keys` adds the keys of GROUP BY, and `measure` adds the
//! arguments.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use crate::analysis::below::column_origin::Clamped;
use crate::analysis::below::relation::{PrivateRelation, unit_name};
use crate::analysis::expr::facts::Facts;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::bind::quoting::name_of_column;
use crate::catalog::RESERVED;

/// A group key: its name, type and facts.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) facts: Facts,
    /// True if its keys are computed. A release may then ask for the keys in the data instead.
    pub(crate) computed: bool,
    /// The keys that rows can have if they meet the conditions of the query; `None` if the
    /// conditions do not determine them.
    pub(crate) passing: Option<Vec<ScalarValue>>,
    /// Its index among the columns.
    pub(crate) column: usize,
    /// The unchecked column of the key in the file, and the list to which it is restricted.
    pub(crate) raw: Option<(Column, Arc<Vec<ScalarValue>>)>,
    /// The unchecked column of the key in the file, and the ends to which it is clamped, if it
    /// holds integers.
    pub(crate) clamped: Option<(Column, Clamped)>,
}

/// The input columns of a private aggregate, in the order in which its operators read them.
pub(crate) struct InputColumns {
    expressions: Vec<Expr>,
    first_argument: usize,
}

impl InputColumns {
    pub(crate) fn new(flow: &PrivateRelation) -> Self {
        let unit: Vec<_> = flow
            .unit_column()
            .map(|column| Expr::Column(column).alias(unit_name()))
            .into_iter()
            .collect();
        Self { first_argument: unit.len(), expressions: unit }
    }

    /// Adds a key, and returns its index in the input.
    pub(crate) fn key(&mut self, expr: Expr) -> usize {
        let index = self.expressions.len();
        self.expressions.push(expr.alias(key_name(index)));
        self.first_argument += 1;
        index
    }

    /// Groups by the unchecked column of the file, if the key space drops the values that the list
    /// would turn into NULL.
    ///
    /// # Guarantee
    /// The rows of every key stay the same. All keys are listed, and no key is NULL. Rows whose
    /// value is not a key do not count.
    pub(crate) fn drop_strangers_late(&mut self, group: &Group, keys: &[ScalarValue]) {
        let Some((raw, list)) = &group.raw else { return };
        let list: HashSet<&ScalarValue> = list.iter().collect();
        if !keys.is_empty()
            && keys.iter().all(|key| !key.is_null() && list.contains(key))
            && let Some(column) = self.expressions.get_mut(group.column)
        {
            *column = Expr::Column(raw.clone()).alias(key_name(group.column));
        }
    }

    /// Groups by the unchecked column of the file. The keys are clamped after the groups are added
    /// up.
    ///
    /// # Guarantee
    /// The groups of the raw values that clamp to one value together contain exactly the rows of
    /// that value. So nothing changes if rows are only added up. The result states how to clamp the
    /// keys afterwards.
    pub(crate) fn clamp_late(&mut self, group: &Group) -> Option<Clamped> {
        let (raw, ends) = group.clamped.as_ref()?;
        let column = self.expressions.get_mut(group.column)?;
        *column = Expr::Column(raw.clone()).alias(key_name(group.column));
        Some(ends.clone())
    }

    /// Reads the unchecked column of the file in place of an argument that a fixed sum clamps
    /// anyway.
    ///
    /// # Guarantee
    /// The sum clamps every value to grid integers that enclose the argument's range, and skips
    /// NULL and NaN. It therefore differs from the sum of the enforced column only in the rounding
    /// of ends that are not grid integers.
    pub(crate) fn sum_raw(&mut self, column: usize, expr: &Expr, flow: &PrivateRelation) {
        if let Some((raw, _)) = flow.raw_of_clamped(expr)
            && let Some(argument) = self.expressions.get_mut(column)
        {
            *argument = Expr::Column(raw).alias(argument_name(column));
        }
    }

    /// Adds an argument, and returns its index in the input.
    pub(crate) fn argument(&mut self, expr: Expr) -> usize {
        let index = self.expressions.len();
        self.expressions.push(expr.alias(argument_name(index)));
        index
    }

    /// Keeps each argument once, and returns the new index of every column.
    ///
    /// # Guarantee
    /// The expression at an old index stands at its new index. The unit and the keys keep their
    /// indices.
    pub(crate) fn dedup(&mut self) -> Vec<usize> {
        let mut known: HashMap<Expr, usize> = HashMap::new();
        let (mut kept, mut moved) = (Vec::new(), Vec::new());
        for (index, expr) in std::mem::take(&mut self.expressions).into_iter().enumerate() {
            let own = expr.clone().unalias();
            let at = match index < self.first_argument {
                true => kept.len(),
                false => *known.entry(own).or_insert(kept.len()),
            };
            if at == kept.len() {
                kept.push(expr);
            }
            moved.push(at);
        }
        self.expressions = kept;
        moved
    }

    pub(crate) fn build(mut self, flow: &PrivateRelation) -> Result<LogicalPlan, NotAnalyzed> {
        if self.expressions.is_empty() {
            // COUNT(*) of a whole table reads no column, but a projection must have one.
            let one = Expr::Literal(ScalarValue::Int64(Some(1)), None);
            self.argument(one);
        }
        LogicalPlanBuilder::from(flow.plan.clone())
            .project(self.expressions)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))
    }
}

fn argument_name(column: usize) -> String {
    format!("{RESERVED}_argument_{column}")
}

fn key_name(column: usize) -> String {
    format!("{RESERVED}_key_{column}")
}

/// What the calls ask of the keys.
#[derive(Debug)]
pub(crate) struct KeyRequest {
    /// True if a roster lists the units that respond.
    pub(crate) roster: bool,
    /// True if a δ is stated.
    pub(crate) states_delta: bool,
    /// True if a δ is stated for Laplace noise, which uses it only for unknown keys.
    pub(crate) of_the_data: bool,
    /// The keys as written.
    pub(crate) names: Vec<String>,
}

/// A key as the heading of a column. It need not parse as part of a statement.
pub(crate) fn key_heading(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => column.name.clone(),
        _ => readable(expr),
    }
}

/// A key as written.
pub(crate) fn key_text(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => name_of_column(&column.name),
        _ => readable(expr),
    }
}
