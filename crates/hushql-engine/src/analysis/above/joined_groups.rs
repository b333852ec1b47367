//! Private rows that are joined with the groups of a release.
//!
//! In: a query that groups private rows, and joins them with a released subquery by its whole GROUP
//! BY key. Out: the same query without this join below a release. A row has one match at most. If
//! the rows are grouped by the key, too, the join keeps whole groups or none, and it moves above
//! the aggregate. Otherwise, and for numbers of the subquery that the rows are compared with, the
//! row looks up what was released for its key: one value for each key, drawn first. Other joins of
//! private and released rows stay, and are refused.
//!
//! ```text
//! SELECT city, day, COUNT(*) FROM orders JOIN (SELECT city AS c … LIMIT 5) AS top ON city = c GROUP BY city, day
//!   as   SELECT g.* FROM (SELECT city, day, COUNT(*) FROM orders GROUP BY city, day) AS g JOIN (…) AS top ON g.city = c
//! … JOIN (SELECT city AS c, AVG(total) AS mean …) AS m ON city = c WHERE total > m.mean
//!   as   … WHERE total > CASE WHEN city = 'Oslo' THEN (SELECT mean FROM (…) WHERE c = 'Oslo') WHEN … END
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality, Result, ScalarValue, Spans};
use datafusion::logical_expr::expr::{Alias, Case};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    Subquery, lit,
};

use super::single_group::{is_released, key_of_group, number_of_keys};
use crate::analysis::Measure;
use crate::analysis::below::join_conditions::conditions_of;
use crate::analysis::below::only_public;
use crate::analysis::below::relation::has_subquery;
use crate::analysis::expr::shape::type_of;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::analysis::outcome::{Analysis, released_parts};
use crate::bind::Bound;
use crate::catalog::Catalog;
use crate::dialect::Finding;

/// The most released values that rows look up in one join. Each is a small query of its own.
const MOST_LOOKED_UP: usize = 64;

/// Analyzes a part of a query on its own.
pub(crate) type AnalyzesAlone<'a> = &'a dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>;

/// The query without joins of private rows and released groups below a release. `None` if there is
/// none that can be replaced.
pub(crate) fn with_joins_replaced(
    bound: &Bound,
    catalog: &Catalog,
    analyze: AnalyzesAlone<'_>,
) -> Option<Bound> {
    let frame = GroupJoins { bound, catalog, analyze };
    let replaced = bound.plan().clone().transform_down_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        Ok(match frame.replaced(aggregate) {
            Some(replaced) => Transformed::yes(replaced),
            None => Transformed::no(node),
        })
    });
    let replaced = replaced.ok().filter(|replaced| replaced.transformed)?;
    Some(Bound::from_plan(replaced.data, bound.releases().to_vec()))
}

/// The query in which joins are replaced.
struct GroupJoins<'a> {
    bound: &'a Bound,
    catalog: &'a Catalog,
    analyze: AnalyzesAlone<'a>,
}

/// One join of private rows and released groups.
struct GroupJoin<'a> {
    rows: &'a LogicalPlan,
    groups: &'a LogicalPlan,
    /// For each key of the groups, the expression of the rows and the column of the groups that are
    /// equal.
    pairs: Vec<(Expr, Column)>,
    /// The conditions on the rows, or on rows and groups.
    conditions: Vec<Expr>,
    /// The conditions on the groups alone.
    of_groups: Vec<Expr>,
}

impl GroupJoins<'_> {
    /// What takes the place of an aggregate over such a join, with its columns.
    fn replaced(&self, aggregate: &Aggregate) -> Option<LogicalPlan> {
        let join = self.join_below(aggregate)?;
        let rows = join.rows.schema();
        let is_column_of_groups = |key: &Expr| {
            key.try_as_col().is_some_and(|column| join.groups.schema().has_column(column))
        };
        let (shown, mut keys): (Vec<Expr>, Vec<Expr>) =
            aggregate.group_expr.iter().cloned().partition(is_column_of_groups);
        // A key that is named by its column of the groups is that of the rows.
        for (key, column) in &join.pairs {
            if shown.contains(&Expr::Column(column.clone())) && !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        let above = join.pairs.iter().all(|(key, _)| keys.contains(key));
        if !shown.is_empty() && !above || !keys.iter().all(|key| is_over(key, rows)) {
            return None;
        }
        let looked_up = |exprs: &[Expr]| self.looked_up(&join, exprs);
        let conditions = looked_up(&join.conditions)?;
        let calls = looked_up(&aggregate.aggr_expr)?;
        let exists = if above { Vec::new() } else { vec![self.exists(&join)?] };
        let mut input = LogicalPlanBuilder::from(join.rows.clone());
        if let Some(conditions) = conjunction(conditions.into_iter().chain(exists)) {
            input = input.filter(conditions).ok()?;
        }
        let grouped = Aggregate::try_new(Arc::new(input.build().ok()?), keys, calls).ok()?;
        let joined = if above { Some(&join) } else { None };
        with_columns_of(aggregate, &grouped, joined).ok()
    }

    /// The join below an aggregate, if it is one of private rows and released groups.
    fn join_below<'a>(&self, aggregate: &'a Aggregate) -> Option<GroupJoin<'a>> {
        let (mut conditions, mut input) = (Vec::new(), aggregate.input.as_ref());
        while let LogicalPlan::Filter(Filter { predicate, input: below, .. }) = input {
            conditions.extend(split_conjunction_owned(predicate.clone()));
            input = below;
        }
        let LogicalPlan::Join(join) = input else { return None };
        let is_plain = join.join_type == JoinType::Inner
            && join.null_equality == NullEquality::NullEqualsNothing
            && !join.null_aware;
        conditions.extend(conditions_of(join));
        let own = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).chain(&conditions);
        if !is_plain || own.into_iter().any(has_subquery) {
            return None;
        }
        let (left, right) = (join.left.as_ref(), join.right.as_ref());
        let found = self.join_of(left, right, &conditions);
        found.or_else(|| self.join_of(right, left, &conditions))
    }

    /// The join, if these are its groups.
    ///
    /// # Guarantee
    /// The conditions equate every GROUP BY key of the groups with an expression over the rows, so
    /// that at most one group matches a row.
    fn join_of<'a>(
        &self,
        rows: &'a LogicalPlan,
        groups: &'a LogicalPlan,
        conditions: &[Expr],
    ) -> Option<GroupJoin<'a>> {
        let number = number_of_keys(groups, self.bound.releases())?;
        if only_public(rows, self.catalog)
            || only_public(groups, self.catalog)
            || !is_released(groups, self.bound.releases())
        {
            return None;
        }
        let (mut pairs, mut found) = (Vec::new(), BTreeSet::new());
        let (mut left, mut of_groups) = (Vec::new(), Vec::new());
        for condition in conditions {
            match pair(condition, rows.schema(), groups) {
                Some((expr, column, key)) if found.insert(key) => pairs.push((expr, column)),
                Some(_) | None if is_over(condition, groups.schema()) => {
                    of_groups.push(condition.clone());
                }
                Some(_) | None => left.push(condition.clone()),
            }
        }
        let is_whole = found.len() == number;
        is_whole.then_some(GroupJoin { rows, groups, pairs, conditions: left, of_groups })
    }

    /// Expressions over the rows, in which released values replace the columns of the groups.
    fn looked_up(&self, join: &GroupJoin<'_>, exprs: &[Expr]) -> Option<Vec<Expr>> {
        let groups = join.groups.schema();
        let of_groups = |expr: &Expr| -> Vec<Column> {
            let columns = expr.column_refs().into_iter();
            columns.filter(|column| groups.has_column(column)).cloned().collect()
        };
        let columns: BTreeSet<Column> = exprs.iter().flat_map(of_groups).collect();
        let mut values = Vec::new();
        for column in columns {
            let own = join.pairs.iter().find(|(_, key)| *key == column);
            let value = match own {
                Some((expr, _)) => expr.clone(),
                None => self.value_of_key(join, &Expr::Column(column.clone()))?,
            };
            values.push((column, value));
        }
        let replaced = exprs.iter().map(|expr| {
            let replaced = expr.clone().transform_up(|e| {
                let value =
                    e.try_as_col().and_then(|column| values.iter().find(|v| v.0 == *column));
                Ok(match value {
                    Some((_, value)) => Transformed::yes(value.clone()),
                    None => Transformed::no(e),
                })
            });
            replaced.ok().map(|replaced| replaced.data)
        });
        replaced.collect()
    }

    /// True for rows whose key is among the groups.
    fn exists(&self, join: &GroupJoin<'_>) -> Option<Expr> {
        self.value_of_key(join, &lit(true))
    }

    /// What is shown of the group of a row, by the row's key; NULL without a group. Every key has a
    /// release of its own, which is drawn first.
    fn value_of_key(&self, join: &GroupJoin<'_>, shown: &Expr) -> Option<Expr> {
        let mut cases = Vec::new();
        for key in self.keys_of(join)? {
            let equal = |expr: Expr, value: &ScalarValue| expr.eq(lit(value.clone()));
            let (mut here, mut there) = (join.of_groups.clone(), Vec::new());
            for ((expr, column), value) in join.pairs.iter().zip(&key) {
                there.push(equal(expr.clone(), value));
                here.push(equal(Expr::Column(column.clone()), value));
            }
            let group = LogicalPlanBuilder::from(join.groups.clone());
            let group = group.filter(conjunction(here)?).ok()?;
            let group = group.project(vec![shown.clone()]).and_then(LogicalPlanBuilder::build);
            let (subquery, outer_ref_columns) = (Arc::new(group.ok()?), Vec::new());
            let subquery = Subquery { subquery, outer_ref_columns, spans: Spans::new() };
            let value = Expr::ScalarSubquery(subquery);
            cases.push((Box::new(conjunction(there)?), Box::new(value)));
        }
        Some(Expr::Case(Case::new(None, cases, None)))
    }

    /// The keys of the groups, in the order of the pairs. `None` if they are undeclared, if
    /// there are too many, or if rows have keys of another type.
    fn keys_of(&self, join: &GroupJoin<'_>) -> Option<Vec<Vec<ScalarValue>>> {
        let releases = self.bound.releases().to_vec();
        let alone = (self.analyze)(&Bound::from_plan(join.groups.clone(), releases)).ok()?;
        let finds = |one: &Measure| matches!(one.clause.finding, Some(Finding::Histogram { .. }));
        let finds_bounds = |part: &usize| {
            alone.parts().get(*part).is_some_and(|own| own.measures().iter().any(finds))
        };
        let mut shown = released_parts(alone.public_plan());
        shown.retain(|part| !finds_bounds(part));
        let [part] = shown[..] else { return None };
        let keys = alone.parts().get(part)?.keys();
        if keys.are_unknown() || keys.all().len() > MOST_LOOKED_UP {
            return None;
        }
        let mut columns = Vec::new();
        for (expr, column) in &join.pairs {
            let values = keys.all().columns().get(key_of_group(join.groups, column)?)?;
            if type_of(expr, join.rows.schema()).ok()? != *values.data_type() {
                return None;
            }
            columns.push(values);
        }
        let row = |i: usize| -> Option<Vec<ScalarValue>> {
            columns.iter().map(|values| ScalarValue::try_from_array(values, i).ok()).collect()
        };
        let rows: Vec<_> = (0..keys.all().len()).map(row).collect::<Option<_>>()?;
        // NULL equals no key.
        Some(rows.into_iter().filter(|row| !row.iter().any(ScalarValue::is_null)).collect())
    }
}

/// A condition as an expression over the rows, the column of the groups that it equals, and the
/// place of this column among the GROUP BY keys.
fn pair(condition: &Expr, rows: &DFSchema, groups: &LogicalPlan) -> Option<(Expr, Column, usize)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return None;
    };
    let one = |own: &Expr, other: &Expr| {
        let column = other.try_as_col().filter(|column| groups.schema().has_column(column))?;
        let key = key_of_group(groups, column)?;
        let is_of_rows = is_over(own, rows) && !own.column_refs().is_empty();
        is_of_rows.then(|| (own.clone(), column.clone(), key))
    };
    one(left, right).or_else(|| one(right, left))
}

/// True if an expression reads these columns alone.
fn is_over(expr: &Expr, schema: &DFSchema) -> bool {
    expr.column_refs().into_iter().all(|column| schema.has_column(column))
}

/// The groups, joined with the released ones if there are some, with the columns of the aggregate
/// as it was written.
fn with_columns_of(
    written: &Aggregate,
    grouped: &Aggregate,
    join: Option<&GroupJoin<'_>>,
) -> Result<LogicalPlan> {
    let own = grouped.schema.columns();
    let place = |key: &Expr| grouped.group_expr.iter().position(|own| own == key);
    let mut columns: Vec<Expr> = Vec::new();
    for key in &written.group_expr {
        let own = place(key).and_then(|place| own.get(place)).cloned();
        columns.push(own.map_or_else(|| key.clone(), Expr::Column));
    }
    columns.extend(own.iter().skip(grouped.group_expr.len()).cloned().map(Expr::Column));
    let columns = columns.into_iter().zip(written.schema.iter());
    let columns: Vec<Expr> = columns
        .map(|(expr, (qualifier, field))| {
            let (relation, name) = (qualifier.cloned(), field.name().clone());
            let is_same = expr
                .try_as_col()
                .is_some_and(|column| column.name == name && column.relation == relation);
            match is_same {
                true => expr,
                false => {
                    Expr::Alias(Alias { expr: Box::new(expr), relation, name, metadata: None })
                }
            }
        })
        .collect();
    let mut plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped.clone()));
    if let Some(join) = join {
        let keys = join.pairs.iter().filter_map(|(key, _)| own.get(place(key)?).cloned());
        let on: (Vec<Column>, Vec<Column>) =
            (keys.collect(), join.pairs.iter().map(|(_, column)| column.clone()).collect());
        plan = plan.join(join.groups.clone(), JoinType::Inner, on, None)?;
        if let Some(conditions) = conjunction(join.of_groups.clone()) {
            plan = plan.filter(conditions)?;
        }
    }
    plan.project(columns)?.build()
}
