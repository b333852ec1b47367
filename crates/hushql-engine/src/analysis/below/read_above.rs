//! What is read of the rows of a window: by its functions, and by the operators above it.
//!
//! In: an aggregate as it was bound. Out: for each window below it, the columns whose values reach
//! the aggregate or decide about rows. Rows that are equal in them are alike to everything above,
//! so a window that compares them first lets no other column decide which row comes first.
//!
//! ```text
//! SELECT SUM(p) FROM (SELECT LAG(price) OVER (PARTITION BY user_id ORDER BY day) AS p, note FROM t)
//!     user_id, day, price; not note
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::logical_expr::{Distinct, Expr, Join, JoinType, LogicalPlan, Window};

use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::recursion::deeper;

/// The columns that are read of the rows below each window.
#[derive(Debug, Default)]
pub(crate) struct ReadAbove(Vec<(DFSchemaRef, Vec<bool>)>);

impl ReadAbove {
    /// What a plan reads of the rows of its windows, if all of its own columns are read.
    pub(crate) fn of(plan: &LogicalPlan) -> Self {
        let mut read = Self::default();
        read.all(plan);
        read
    }

    /// The places of all columns of a window's rows: first those that are read.
    pub(super) fn first(&self, window: &Window, columns: usize) -> Vec<usize> {
        // A table expression that is named twice has one schema.
        let known = self.0.iter().filter(|(schema, _)| Arc::ptr_eq(schema, &window.schema));
        let known: Vec<&[bool]> = known.map(|(_, read)| read.as_slice()).collect();
        let is_read =
            |at: usize| known.is_empty() || known.iter().any(|read| read.get(at) != Some(&false));
        let (mut places, others): (Vec<_>, Vec<_>) = (0..columns).partition(|at| is_read(*at));
        places.extend(others);
        places
    }

    fn all(&mut self, plan: &LogicalPlan) {
        self.rows(plan, &vec![true; plan.schema().fields().len()]);
    }

    /// Goes down from rows of which some columns are read.
    fn rows(&mut self, plan: &LogicalPlan, read: &[bool]) {
        deeper(|| self.node(plan, read));
    }

    fn node(&mut self, plan: &LogicalPlan, read: &[bool]) {
        match plan {
            LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => {}
            LogicalPlan::Filter(filter) => {
                self.also(&filter.input, read, [&filter.predicate]);
            }
            LogicalPlan::Projection(projection) => {
                self.computed(&projection.input, kept(&projection.expr, read));
            }
            LogicalPlan::SubqueryAlias(alias) => self.rows(&alias.input, read),
            LogicalPlan::Join(join) => self.join(join, read),
            LogicalPlan::Union(union) => {
                union.inputs.iter().for_each(|input| self.rows(input, read));
            }
            LogicalPlan::Distinct(Distinct::All(input)) => self.all(input),
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let orders = on.sort_expr.iter().flatten().map(|sort| &sort.expr);
                let own = on.on_expr.iter().chain(orders);
                self.computed(&on.input, own.chain(kept(&on.select_expr, read)));
            }
            LogicalPlan::Aggregate(aggregate) => {
                let (keys, calls) = (&aggregate.group_expr, &aggregate.aggr_expr);
                let is_release = calls.iter().any(|call| CallOf::marker(call).is_some());
                let own = match read.get(keys.len()..) {
                    // The sets of a grouping have more columns than expressions.
                    Some(own) if own.len() == calls.len() && !is_release => own,
                    _ => &vec![true; calls.len()],
                };
                self.computed(&aggregate.input, keys.iter().chain(kept(calls, own)));
            }
            LogicalPlan::Window(window) => {
                let columns = window.input.schema().fields().len();
                let Some((input, own)) = read.split_at_checked(columns) else {
                    return self.all(&window.input);
                };
                let read = self.reading(&window.input, input, kept(&window.window_expr, own));
                self.0.push((Arc::clone(&window.schema), read.clone()));
                self.rows(&window.input, &read);
            }
            LogicalPlan::Sort(sort) => {
                self.also(&sort.input, read, sort.expr.iter().map(|key| &key.expr));
            }
            LogicalPlan::Limit(limit) => self.rows(&limit.input, read),
            LogicalPlan::Subquery(subquery) => self.all(&subquery.subquery),
            LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => {
                plan.inputs().into_iter().for_each(|input| self.all(input));
            }
        }
    }

    fn join(&mut self, join: &Join, read: &[bool]) {
        let (left, right) = (join.left.schema(), join.right.schema());
        let (of_left, of_right) = (left.fields().len(), right.fields().len());
        let none = |columns: usize| vec![false; columns];
        let (left_read, right_read) = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                let (left_read, right_read) = read.split_at_checked(of_left).unwrap_or_default();
                (left_read.to_vec(), right_read.to_vec())
            }
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (read.get(..of_left).unwrap_or_default().to_vec(), none(of_right))
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (none(of_left), read.get(..of_right).unwrap_or_default().to_vec())
            }
        };
        let pairs = join.on.iter().flat_map(|(left, right)| [left, right]);
        let conditions: Vec<&Expr> = pairs.chain(&join.filter).collect();
        self.also(&join.left, &left_read, conditions.iter().copied());
        self.also(&join.right, &right_read, conditions);
    }

    /// Goes down to rows of which only expressions are read.
    fn computed<'a>(&mut self, input: &LogicalPlan, exprs: impl IntoIterator<Item = &'a Expr>) {
        let none = vec![false; input.schema().fields().len()];
        self.also(input, &none, exprs);
    }

    /// Goes down to rows of which some columns and expressions are read.
    fn also<'a>(
        &mut self,
        input: &LogicalPlan,
        read: &[bool],
        exprs: impl IntoIterator<Item = &'a Expr>,
    ) {
        let read = self.reading(input, read, exprs);
        self.rows(input, &read);
    }

    /// The columns that are read if expressions are read, too.
    fn reading<'a>(
        &mut self,
        input: &LogicalPlan,
        read: &[bool],
        exprs: impl IntoIterator<Item = &'a Expr>,
    ) -> Vec<bool> {
        let mut read = read.to_vec();
        for expr in exprs {
            // The walk cannot fail, because its closure does not.
            let _ = expr.apply(|part| {
                mark(part, input.schema(), &mut read);
                if let Some(subquery) = subquery_of(part) {
                    self.all(subquery);
                    mark_outer(subquery, input.schema(), &mut read);
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        read
    }
}

/// The expressions whose results are read.
fn kept<'a>(exprs: &'a [Expr], read: &'a [bool]) -> impl Iterator<Item = &'a Expr> {
    exprs.iter().zip(read).filter_map(|(expr, read)| read.then_some(expr))
}

fn subquery_of(expr: &Expr) -> Option<&LogicalPlan> {
    if let Expr::Exists(exists) = expr {
        return Some(&exists.subquery.subquery);
    }
    if let Expr::InSubquery(within) = expr {
        return Some(&within.subquery.subquery);
    }
    let Expr::ScalarSubquery(value) = expr else { return None };
    Some(&value.subquery)
}

fn mark(expr: &Expr, schema: &DFSchema, read: &mut [bool]) {
    if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr
        && let Some(at) = schema.maybe_index_of_column(column)
        && let Some(one) = read.get_mut(at)
    {
        *one = true;
    }
}

/// Marks what a subquery reads of the rows around it.
fn mark_outer(subquery: &LogicalPlan, around: &DFSchema, read: &mut [bool]) {
    let _ = subquery.apply_with_subqueries(|node| {
        let _ = node.apply_expressions(|expr| {
            expr.apply(|part| {
                if matches!(part, Expr::OuterReferenceColumn(..)) {
                    mark(part, around, read);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        });
        Ok(TreeNodeRecursion::Continue)
    });
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::Result;
    use datafusion::functions_window::expr_fn::row_number;
    use datafusion::logical_expr::{ExprFunctionExt, LogicalPlanBuilder, col, lit, table_scan};

    use super::*;

    /// Rows of a, b, c, d with their numbers in the order of a.
    fn numbered(table: &str) -> Result<LogicalPlanBuilder> {
        let fields = ["a", "b", "c", "d"].map(|name| Field::new(name, DataType::Int64, true));
        let rows = table_scan(Some(table), &Schema::new(fields.to_vec()), None)?;
        let number = ExprFunctionExt::order_by(row_number(), vec![col("a").sort(true, false)]);
        rows.window([number.build()?.alias(format!("{table}_n"))])
    }

    /// The columns of each window, those that are read before a bar.
    fn read(plan: LogicalPlanBuilder) -> Result<Vec<String>> {
        let plan = plan.build()?;
        let all = ReadAbove::of(&plan);
        let mut found = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Window(window) = node {
                let read = all.0.iter().find(|(schema, _)| Arc::ptr_eq(schema, &window.schema));
                let count = read.map_or(0, |(_, read)| read.iter().filter(|one| **one).count());
                let columns = window.input.schema().columns();
                let name = |at: &usize| columns[*at].name.clone();
                let mut names: Vec<String> =
                    all.first(window, columns.len()).iter().map(name).collect();
                names.insert(count, "|".to_owned());
                found.push(names.concat());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        found.sort();
        Ok(found)
    }

    #[test]
    fn columns_are_read_by_what_is_kept() -> Result<()> {
        assert_eq!(read(numbered("t")?)?, ["abcd|"]);
        assert_eq!(read(numbered("t")?.project([col("t_n")])?)?, ["a|bcd"]);
        assert_eq!(read(numbered("t")?.project([col("d")])?)?, ["d|abc"]);
        let filtered = numbered("t")?.filter(col("c").gt(lit(1)))?.project([col("b")])?;
        assert_eq!(read(filtered)?, ["bc|ad"]);
        assert_eq!(read(numbered("t")?.distinct()?.project([col("t_n")])?)?, ["abcd|"]);
        let unread = numbered("t")?.project([col("b"), col("c")])?.project([col("c")])?;
        assert_eq!(read(unread)?, ["c|abd"]);
        Ok(())
    }

    /// A join reads the columns of its conditions on both sides, and a subquery those of the rows
    /// around it.
    #[test]
    fn columns_are_read_by_joins_and_subqueries() -> Result<()> {
        let on = (vec!["t.b"], vec!["s.c"]);
        let joined = numbered("t")?.join(numbered("s")?.build()?, JoinType::Inner, on, None)?;
        assert_eq!(read(joined.project([col("t.d")])?)?, ["bd|ac", "c|abd"]);
        let outer = Expr::OuterReferenceColumn(
            Arc::new(Field::new("c", DataType::Int64, true)),
            datafusion::common::Column::new(Some("t"), "c"),
        );
        let within = numbered("s")?.filter(col("b").eq(outer))?.project([col("d")])?.build()?;
        let within = datafusion::logical_expr::exists(within.into());
        let found = read(numbered("t")?.filter(within)?.project([col("b")])?)?;
        assert_eq!(found, ["bc|ad", "bd|ac"]);
        Ok(())
    }
}
