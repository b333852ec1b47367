//! The columns that a query mentions.
//!
//! In: the plan under a release. Out: the names of all columns that an expression mentions, or that
//! an operator reads by position (windows do: all columns break ties). Tables may declare many
//! columns and long lists of values, and a query reads few of them. A column that is not mentioned
//! needs no domain: its facts come from its type alone, and claim less. So a name that is missing
//! here could cause a refusal or change an answer, but never break a guarantee.
//!
//! ```text
//! SELECT city, COUNT(*) FROM sales WHERE day < 7 GROUP BY city      city, day
//! ```

use std::collections::BTreeSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Names of columns, of any table.
#[derive(Debug, Default)]
pub(crate) struct Mentioned(BTreeSet<String>);

impl Mentioned {
    /// The columns that a plan mentions, and those that it returns.
    pub(crate) fn of(plan: &LogicalPlan) -> Self {
        let mut names = Self::default();
        names.fields(plan);
        // The walk cannot fail, because its closures do not.
        let _ = plan.apply_with_subqueries(|node| {
            names.node(node);
            Ok(TreeNodeRecursion::Continue)
        });
        names
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn node(&mut self, node: &LogicalPlan) {
        let _ = node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
                    self.name(&column.name);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        });
        let only_by_name = matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Aggregate(_)
        );
        if !only_by_name {
            node.inputs().into_iter().for_each(|input| self.fields(input));
        }
    }

    fn fields(&mut self, plan: &LogicalPlan) {
        plan.schema().fields().iter().for_each(|field| self.name(field.name()));
    }

    fn name(&mut self, name: &str) {
        if !self.0.contains(name) {
            self.0.insert(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::Result;
    use datafusion::functions_window::expr_fn::row_number;
    use datafusion::logical_expr::{
        ExprFunctionExt, JoinType, LogicalPlanBuilder, col, in_subquery, lit, table_scan,
    };

    use super::*;

    fn scan(table: &str) -> Result<LogicalPlanBuilder> {
        let fields = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int64, true));
        table_scan(Some(table), &Schema::new(fields.to_vec()), None)
    }

    fn names(plan: LogicalPlanBuilder) -> Vec<String> {
        Mentioned::of(&plan.build().unwrap()).0.into_iter().collect()
    }

    /// Expressions mention columns by name, also in subqueries.
    #[test]
    fn columns_are_mentioned_by_expressions() -> Result<()> {
        let one = |plan: LogicalPlanBuilder| plan.project([lit(1).alias("one")]);
        assert_eq!(names(one(scan("t")?)?), ["one"]);
        assert_eq!(names(one(scan("t")?.filter(col("b").gt(lit(1)))?)?), ["b", "one"]);
        assert_eq!(names(scan("t")?.project([(col("c") + lit(1)).alias("d")])?), ["c", "d"]);
        let within = scan("s")?.filter(col("c").gt(lit(1)))?.project([col("a")])?.build()?;
        let plan = scan("t")?.filter(in_subquery(col("b"), within.into()))?;
        assert_eq!(names(one(plan)?), ["a", "b", "c", "one"]);
        let inner = scan("s")?.build()?;
        let on = (vec!["t.a"], vec!["s.b"]);
        let joined = scan("t")?.join(inner, JoinType::Inner, on, None)?;
        assert_eq!(names(one(joined)?), ["a", "b", "one"]);
        Ok(())
    }

    /// Operators that read columns by position mention all of them, and so does a subquery whose
    /// column has no name outside.
    #[test]
    fn columns_are_mentioned_by_their_place() -> Result<()> {
        let one = |plan: LogicalPlanBuilder| plan.project([lit(1).alias("one")]);
        let all = ["a", "b", "c", "one"];
        assert_eq!(names(scan("t")?), ["a", "b", "c"]);
        assert_eq!(names(one(scan("t")?.distinct()?)?), all);
        assert_eq!(names(one(scan("t")?.union(scan("s")?.build()?)?)?), all);
        let row_number = ExprFunctionExt::order_by(row_number(), vec![col("a").sort(true, false)]);
        assert_eq!(names(one(scan("t")?.window([row_number.build()?])?)?), all);
        let within = scan("s")?.build()?;
        let plan = scan("t")?.filter(in_subquery(lit(1), within.into()))?;
        assert_eq!(names(one(plan)?), all);
        Ok(())
    }
}
