//! Conditions above a release that no group can meet.
//!
//! In: the plan above the releases, and the keys of each release. Out: a refusal of a filter that
//! is never true, and of a comparison with a text that no group has, with the value that was
//! probably meant. The check costs nothing: keys are public, and the statement is the analyst's
//! own. Without it, the answer would be empty or wrong at the full price.
//!
//! ```text
//! sex IN ('Male', 'Female')      HAVING sex = 'Femal'                        write 'Female'
//!                                CASE WHEN sex = 'Femal' THEN …              write 'Female'
//!                                HAVING COUNT(*) > 100 AND COUNT(*) < 50     the number is at least 101
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{merge_schema, split_conjunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Union};

use crate::analysis::PrivateAggregate;
use crate::analysis::below::contradiction;
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::{Facts, KeySource, Scope, constant, rational};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{is_string, readable};
use crate::analysis::expr::unlisted_constants::check_listed;
use crate::analysis::keys::key_image::never_holds;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::outcome::released_part;
use crate::analysis::recursion::deeper;
use crate::bind::quoting::name_of_column;
use crate::refusal::{Reason, Refusal};

/// The most keys of a column that are inspected.
const MOST_LOOKED_AT: usize = 10_000;

/// Refuses filters above releases that no row passes, and comparisons of keys with texts that are
/// not keys.
///
/// # Guarantee
/// Depends only on the query, the declarations and public tables.
///
/// # Errors
/// The first such refusal.
pub(crate) fn no_impossible_condition(
    plan: &LogicalPlan,
    parts: &[PrivateAggregate],
    tables: &dyn Tables,
) -> Result<(), NotAnalyzed> {
    if parts.is_empty() {
        return Ok(());
    }
    Known { parts, tables }.facts(plan).map(|_| ())
}

/// What is known about the rows above releases.
struct Known<'a> {
    parts: &'a [PrivateAggregate],
    tables: &'a dyn Tables,
}

impl Known<'_> {
    /// The facts of a plan's columns. Checks its conditions and the conditions below it first.
    fn facts(&self, plan: &LogicalPlan) -> Result<Vec<Facts>, NotAnalyzed> {
        deeper(|| self.facts_of_node(plan))
    }

    fn facts_of_node(&self, plan: &LogicalPlan) -> Result<Vec<Facts>, NotAnalyzed> {
        let inputs: Vec<Vec<Facts>> =
            plan.inputs().into_iter().map(|input| self.facts(input)).collect::<Result<_, _>>()?;
        let below: Vec<Facts> = inputs.iter().flatten().cloned().collect();
        let schema = Arc::new(merge_schema(&plan.inputs()));
        // The branches of a union have the same columns.
        let scope = (schema.fields().len() == below.len()).then(|| Scope::new(schema, below));
        if let Some(scope) = &scope {
            self.check(plan, scope)?;
        }
        self.check_subqueries(plan)?;
        let facts = self.of_outputs(plan, inputs, scope);
        let fields = plan.schema().fields();
        Ok(match facts.filter(|facts| facts.len() == fields.len()) {
            Some(facts) => facts,
            None => fields.iter().map(|field| Facts::of_type(field.data_type())).collect(),
        })
    }

    /// Checks the conditions of one node.
    fn check(&self, plan: &LogicalPlan, scope: &Scope) -> Result<(), NotAnalyzed> {
        if let LogicalPlan::Filter(filter) = plan {
            contradiction::check(&filter.predicate, scope)?;
            for condition in split_conjunction(&filter.predicate) {
                if let Some(column) = never_null(condition, scope) {
                    return Err(no_null(condition, column).into());
                }
                if never_holds(condition, scope, self.tables) == Some(true) {
                    return Err(no_group_passes(condition).into());
                }
            }
        }
        let mut found = Ok(());
        let walked = plan.apply_expressions(|expr| {
            expr.apply(|part| {
                found = check_listed(part, scope);
                Ok(match found {
                    Ok(()) => TreeNodeRecursion::Continue,
                    Err(_) => TreeNodeRecursion::Stop,
                })
            })
        });
        walked.map_err(|e| internal(&e))?;
        Ok(found?)
    }

    /// Checks the subqueries in a node's expressions.
    fn check_subqueries(&self, plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
        let mut subqueries = Vec::new();
        let walked = plan.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarSubquery(subquery)
                | Expr::InSubquery(InSubquery { subquery, .. })
                | Expr::Exists(Exists { subquery, .. })
                | Expr::SetComparison(SetComparison { subquery, .. }) = part
                {
                    subqueries.push(Arc::clone(&subquery.subquery));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        });
        walked.map_err(|e| internal(&e))?;
        subqueries.iter().try_for_each(|subquery| self.facts(subquery).map(|_| ()))
    }

    /// The facts of a node's columns; `None` if only their types are known.
    fn of_outputs(
        &self,
        plan: &LogicalPlan,
        inputs: Vec<Vec<Facts>>,
        scope: Option<Scope>,
    ) -> Option<Vec<Facts>> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let part = self.parts.get(released_part(scan.table_name.table())?)?;
                let fields = scan.projected_schema.fields().iter().enumerate();
                let of = |i| part.keys().of_column(i);
                Some(fields.map(|(i, field)| of_keys(of(i), field.data_type())).collect())
            }
            LogicalPlan::Projection(projection) => {
                let scope = scope?;
                Some(projection.expr.iter().map(|expr| of_expr(expr, &scope)).collect())
            }
            LogicalPlan::Aggregate(aggregate) => {
                let scope = scope?;
                let fields = aggregate.schema.fields().iter();
                let keys = aggregate.group_expr.iter().map(|key| of_expr(key, &scope));
                let rest = fields.skip(keys.len()).map(|field| Facts::of_type(field.data_type()));
                Some(keys.chain(rest).collect())
            }
            LogicalPlan::Window(_) => {
                let below = inputs.into_iter().next()?;
                let fields = plan.schema().fields().iter().skip(below.len());
                let rest = fields.map(|field| Facts::of_type(field.data_type()));
                Some(below.into_iter().chain(rest).collect())
            }
            LogicalPlan::Filter(filter) => Some(scope?.narrowed(&filter.predicate).facts),
            LogicalPlan::Join(join) => {
                let [left, right] = <[Vec<Facts>; 2]>::try_from(inputs).ok()?;
                let (left_padded, right_padded) = match join.join_type {
                    JoinType::Inner => (false, false),
                    JoinType::Left => (false, true),
                    JoinType::Right => (true, false),
                    JoinType::Full => (true, true),
                    JoinType::LeftSemi
                    | JoinType::RightSemi
                    | JoinType::LeftAnti
                    | JoinType::RightAnti
                    | JoinType::LeftMark
                    | JoinType::RightMark => return None,
                };
                Some([padded(left, left_padded), padded(right, right_padded)].concat())
            }
            LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Distinct(_) => inputs.into_iter().next(),
            LogicalPlan::Union(union) => of_union(union, &inputs),
            LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => None,
        }
    }
}

/// The facts of a key of a release. For unknown keys and for numbers, the facts of the type.
fn of_keys(keys: &[ScalarValue], data_type: &DataType) -> Facts {
    let of_type = Facts::of_type(data_type);
    if !(1..=MOST_LOOKED_AT).contains(&keys.len()) {
        return of_type;
    }
    let there = || keys.iter().filter(|key| !key.is_null());
    let points: Option<Vec<_>> = there().map(rational).collect();
    let hull = points.filter(|points| !points.is_empty()).map(|points| {
        let points = points.into_iter().map(Interval::point);
        points.fold(Interval::empty(), |hull, point| hull.union(&point))
    });
    let facts = hull.map_or(of_type, |hull| Facts::ranged(hull, true));
    let nullable = there().count() < keys.len();
    Facts { keys: Some(KeySource::Values(Arc::new(keys.to_vec()))), nullable, ..facts }
}

/// The facts of one side of a join. If the side is padded, its columns can be NULL.
fn padded(mut side: Vec<Facts>, is_padded: bool) -> Vec<Facts> {
    side.iter_mut().for_each(|facts| facts.nullable |= is_padded);
    side
}

/// The column of `column IS NULL`, if each group has a key and no key is NULL.
fn never_null<'a>(condition: &'a Expr, scope: &Scope) -> Option<&'a Column> {
    let Expr::IsNull(of) = condition else { return None };
    let facts = scope.facts_of(of.try_as_col()?)?;
    let is_listed = matches!(facts.keys, Some(KeySource::Values(_)));
    of.try_as_col().filter(|_| is_listed && !facts.nullable)
}

/// The facts of a column, a constant, or a text cast to another text type. For all other
/// expressions, the facts of the type.
fn of_expr(expr: &Expr, scope: &Scope) -> Facts {
    let data_type = expr.get_type(scope.schema.as_ref()).unwrap_or(DataType::Null);
    if let Expr::Alias(alias) = expr {
        return of_expr(&alias.expr, scope);
    }
    if let Some(value) = constant(expr) {
        return Facts::of_literal(&value);
    }
    if let Expr::Cast(cast) = expr
        && is_string(&data_type)
        && cast.expr.get_type(scope.schema.as_ref()).is_ok_and(|from| is_string(&from))
    {
        return of_expr(&cast.expr, scope);
    }
    let known = expr.try_as_col().and_then(|column| scope.facts_of(column));
    known.cloned().unwrap_or_else(|| Facts::of_type(&data_type))
}

/// The facts of a union's columns. Each column has the keys of all branches.
fn of_union(union: &Union, inputs: &[Vec<Facts>]) -> Option<Vec<Facts>> {
    let columns = union.schema.fields().iter().enumerate();
    let column = |(i, data_type): (usize, &DataType)| {
        let branches = inputs.iter().map(|input| input.get(i)).collect::<Option<Vec<_>>>()?;
        let mut keys = Vec::new();
        let mut all = Facts::of_type(data_type);
        let nullable = branches.iter().any(|facts| facts.nullable);
        let mut hull = Interval::empty();
        for facts in branches {
            hull = hull.union(&facts.range);
            match &facts.keys {
                Some(KeySource::Values(own)) => keys.extend(own.iter().cloned()),
                // A branch that is only NULL has no list of keys.
                None if facts.null_key && facts.range.is_empty() => {}
                Some(KeySource::Integers(..) | KeySource::Ticks(_)) | None => {
                    return Some(Facts { nullable, ..all });
                }
            }
        }
        all.range = hull;
        all.nullable = nullable;
        all.keys = (!keys.is_empty()).then(|| KeySource::Values(Arc::new(keys)));
        Some(all)
    };
    columns.map(|(i, field)| column((i, field.data_type()))).collect()
}

fn no_null(condition: &Expr, column: &Column) -> Refusal {
    let name = name_of_column(&column.name);
    Refusal::new(
        Reason::BadValue,
        readable(condition),
        format!(
            "no group can pass this filter: NULL is not a key of {name}, and rows with NULL are in no group"
        ),
        format!("WHERE {name} IS NULL before GROUP BY, or GROUP BY COALESCE({name}, …)"),
    )
}

fn no_group_passes(condition: &Expr) -> Refusal {
    Refusal::new(
        Reason::BadValue,
        readable(condition),
        "no group can pass this filter: none of the released keys meets it",
        "a condition that one of the keys meets, or the query without it",
    )
}
