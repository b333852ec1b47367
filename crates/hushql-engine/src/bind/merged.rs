//! Plans joins with USING and NATURAL joins.
//!
//! In: the tables of FROM, whose joins have numbers (see `using`). Out: their plan, in which the
//! name of each merged column belongs to one column alone. Once the whole query is planned,
//! [`shown`] gives the hidden columns their own names again.
//!
//! ```text
//! a JOIN b USING (k)        a.k, a.x, b.__hushql_using0_k, b.y                              k means a.k
//! a RIGHT JOIN b USING (k)  a.__hushql_using0_k, a.x, b.k, b.y                              k means b.k
//! a FULL JOIN b USING (k)   COALESCE of both as k, a.x, b.y, and both under hidden names    k means the COALESCE
//! ```
//!
//! DataFusion's own plan of such a join has two columns with the same name. Its planner reports
//! some of them as ambiguous, takes others for columns of an outer query, and reads the rest from
//! the left side, which is NULL in rows that only the right side has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Column, DFSchema, DataFusionError, JoinType, Result, SchemaError, Span, TableReference,
    not_impl_err, plan_err,
};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, Union,
};
use sqlparser::ast as sql;

use crate::catalog::RESERVED;

/// The joins of a statement that merge columns, and the columns that they hide.
#[derive(Debug, Default)]
pub(super) struct Joins {
    written: Vec<WrittenJoin>,
    hidden: Mutex<BTreeMap<usize, Vec<Hidden>>>,
}

/// A join that merges columns, as the statement writes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenJoin {
    /// True if it merges all columns that both sides have.
    pub(super) is_natural: bool,
    /// True if a `*` shows its columns, so that they need the order of SQL: merged ones first.
    pub(super) is_shown: bool,
}

/// A column that is hidden by a merged column of the same name. A query can address it only with
/// its table.
#[derive(Debug, Clone)]
pub(super) struct Hidden {
    pub(super) table: Option<TableReference>,
    pub(super) name: String,
    /// Its name in the plan.
    pub(super) own: String,
}

impl Joins {
    pub(super) fn new(written: Vec<WrittenJoin>) -> Self {
        Self { written, hidden: Mutex::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The columns that are hidden by the joins planned so far.
    pub(super) fn hidden(&self) -> BTreeMap<usize, Vec<Hidden>> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hide(&self, number: usize, columns: Vec<Hidden>) {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).insert(number, columns);
    }
}

/// The prefix of the hidden names of one side of a join. No query can write it.
fn prefix(number: usize, side: JoinedSide) -> String {
    let side = match side {
        JoinedSide::Left => 0,
        JoinedSide::Right => 1,
    };
    format!("{RESERVED}_using{}_", 2 * number + side)
}

#[derive(Debug, Clone, Copy)]
enum JoinedSide {
    Left,
    Right,
}

/// The number of a join. It is stored before the columns of USING.
pub(super) fn number_of(constraint: &sql::JoinConstraint) -> Option<usize> {
    let sql::JoinConstraint::Using(names) = constraint else { return None };
    let [sql::ObjectNamePart::Identifier(first)] = names.first()?.0.as_slice() else { return None };
    first.value.strip_prefix(RESERVED)?.strip_prefix("_using")?.parse().ok()
}

/// The name that stores a join's number, first in its USING.
pub(super) fn numbered(number: usize) -> sql::ObjectName {
    let name = format!("{RESERVED}_using{number}");
    sql::ObjectName::from(vec![sql::Ident::with_quote('"', name)])
}

/// The text without the prefixes of hidden names.
pub(super) fn without_prefixes(text: &str) -> String {
    let start = format!("{RESERVED}_using");
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(start.as_str()) {
        shown.push_str(before);
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        match digits.strip_prefix('_').filter(|_| digits.len() < after.len()) {
            Some(name) => rest = name,
            None => {
                shown.push_str(&start);
                rest = after;
            }
        }
    }
    shown.push_str(rest);
    shown
}

/// The kind and the constraint of a join, if the dialect has this join.
pub(super) fn parts(
    operator: &mut sql::JoinOperator,
) -> Option<(JoinType, &mut sql::JoinConstraint)> {
    use sql::JoinOperator as J;
    match operator {
        J::Join(on) | J::Inner(on) | J::CrossJoin(on) => Some((JoinType::Inner, on)),
        J::Left(on) | J::LeftOuter(on) => Some((JoinType::Left, on)),
        J::Right(on) | J::RightOuter(on) => Some((JoinType::Right, on)),
        J::FullOuter(on) => Some((JoinType::Full, on)),
        J::Semi(_)
        | J::LeftSemi(_)
        | J::RightSemi(_)
        | J::Anti(_)
        | J::LeftAnti(_)
        | J::RightAnti(_)
        | J::CrossApply
        | J::OuterApply
        | J::AsOf { .. }
        | J::StraightJoin(_)
        | J::ArrayJoin
        | J::LeftArrayJoin
        | J::InnerArrayJoin => None,
    }
}

/// True if one of the joins has a number.
pub(super) fn merges(table: &sql::TableWithJoins) -> bool {
    table.joins.iter().any(|join| {
        let mut operator = join.join_operator.clone();
        parts(&mut operator).is_some_and(|(_, constraint)| number_of(constraint).is_some())
    })
}

/// The plan of tables whose joins merge columns.
///
/// # Errors
/// Errors of the planner: a side does not have a merged column, or has it more than once.
pub(super) fn plan_joins(
    table: sql::TableWithJoins,
    joins: &Joins,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut left = context.plan(table.relation)?;
    for mut join in table.joins {
        let right = context.plan(join.relation)?;
        let Some((kind, constraint)) = parts(&mut join.join_operator) else {
            return not_impl_err!("this kind of join");
        };
        let constraint = constraint.clone();
        let number = number_of(&constraint);
        left = match constraint {
            sql::JoinConstraint::On(condition) => {
                let schema = left.schema().join(right.schema())?;
                let condition = context.sql_to_expr(condition, &schema)?;
                LogicalPlanBuilder::from(left).join_on(right, kind, Some(condition))?.build()?
            }
            sql::JoinConstraint::None => {
                LogicalPlanBuilder::from(left).cross_join(right)?.build()?
            }
            sql::JoinConstraint::Using(names) => match number {
                Some(number) => {
                    let names = names.iter().skip(1).map(|name| column(name, context));
                    let names = names.collect::<Result<Vec<_>>>()?;
                    merged(left, right, kind, &Merging { number, names, joins })?
                }
                None => return plan_err!("a join with USING has its number"),
            },
            sql::JoinConstraint::Natural => return plan_err!("a natural join has its number"),
        };
    }
    Ok(left)
}

/// The plan with the columns that `*` shows. Hidden columns have no name outside of these tables.
pub(super) fn without_hidden(plan: LogicalPlan) -> Result<LogicalPlan> {
    let shown = plan.schema().columns().into_iter().filter(|column| !is_hidden(column));
    let shown: Vec<Expr> = shown.map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(plan))?))
}

fn is_hidden(column: &Column) -> bool {
    column.name.starts_with(RESERVED) && without_prefixes(&column.name) != column.name
}

/// A column that USING names.
fn column(name: &sql::ObjectName, context: &dyn RelationPlannerContext) -> Result<Column> {
    let [sql::ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return plan_err!("USING takes names of columns, each without its table: USING (k)");
    };
    let mut column = Column::from_name(context.normalize_ident(name.clone()));
    if let Some(span) = Span::try_from_sqlparser_span(name.span) {
        column.spans_mut().add_span(span);
    }
    Ok(column)
}

/// One join that merges columns.
struct Merging<'a> {
    number: usize,
    /// The columns of USING; empty in a natural join.
    names: Vec<Column>,
    joins: &'a Joins,
}

/// The plan of one join. No other column has the name of a merged one.
fn merged(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    merging: &Merging<'_>,
) -> Result<LogicalPlan> {
    let Merging { number, names, joins } = merging;
    let Some(written) = joins.written.get(*number).copied() else {
        return plan_err!("a join that merges columns has its number");
    };
    let common = if written.is_natural { common(&left, &right)? } else { names.clone() };
    let mut seen = BTreeSet::new();
    if let Some(twice) = common.iter().find(|column| !seen.insert(column.name.clone())) {
        return plan_err!("USING names {} twice: name it once", twice.name);
    }
    let lefts = common.iter().map(|name| only(&left, name)).collect::<Result<Vec<_>>>()?;
    let rights = common.iter().map(|name| only(&right, name)).collect::<Result<Vec<_>>>()?;
    let (hides_left, hides_right) = match kind {
        JoinType::Inner | JoinType::Left => (false, true),
        JoinType::Right => (true, false),
        JoinType::Full => (true, true),
        JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => return not_impl_err!("this kind of join"),
    };
    let (mut left, mut right, mut lefts, mut rights) = (left, right, lefts, rights);
    let mut hidden = Vec::new();
    if hides_left {
        (left, lefts) = renamed(left, &lefts, &prefix(*number, JoinedSide::Left), &mut hidden)?;
    }
    if hides_right {
        (right, rights) =
            renamed(right, &rights, &prefix(*number, JoinedSide::Right), &mut hidden)?;
    }
    joins.hide(*number, hidden);
    let joined = LogicalPlanBuilder::from(left)
        .join(right, kind, (lefts.clone(), rights.clone()), None)?
        .build()?;
    let values: Vec<Expr> = match kind {
        JoinType::Full => {
            // A table of its own keeps it apart from the columns that it combines.
            let table = TableReference::bare(format!("USING {number}"));
            let pairs = lefts.into_iter().zip(rights).zip(&common);
            let both = pairs.map(|((l, r), name)| {
                coalesce(vec![Expr::Column(l), Expr::Column(r)])
                    .alias_qualified(Some(table.clone()), name.name.clone())
            });
            both.collect()
        }
        _ if !written.is_shown => return Ok(joined),
        JoinType::Right => rights.into_iter().map(Expr::Column).collect(),
        _ => lefts.into_iter().map(Expr::Column).collect(),
    };
    in_order(joined, values, kind != JoinType::Full)
}

/// The merged columns, then the others from left to right. With `is_all`, hidden columns have
/// aliases that no query can write. Such a projection only gives `*` its order, and is dropped
/// after `*` has named the columns.
fn in_order(joined: LogicalPlan, merged: Vec<Expr>, is_all: bool) -> Result<LogicalPlan> {
    let rest = joined.schema().columns().into_iter().map(|column| {
        let (table, name) = (column.relation.clone(), column.name.clone());
        let is_marked = is_all && is_hidden(&column);
        let own = Expr::Column(column);
        if is_marked { own.alias_qualified(table, name) } else { own }
    });
    let rest: Vec<Expr> = rest.filter(|column| !merged.contains(column)).collect();
    let all = merged.into_iter().chain(rest).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(all, Arc::new(joined))?))
}

/// The names that both sides of a natural join have, in the order of the left side.
fn common(left: &LogicalPlan, right: &LogicalPlan) -> Result<Vec<Column>> {
    let right: BTreeSet<String> = right.schema().columns().into_iter().map(|c| c.name).collect();
    let mut common: Vec<Column> = Vec::new();
    for column in left.schema().columns() {
        if right.contains(&column.name) && !common.iter().any(|known| known.name == column.name) {
            common.push(Column::from_name(column.name));
        }
    }
    if common.is_empty() {
        return plan_err!(
            "NATURAL JOIN joins rows that agree in the columns of the same name, and these tables have none in common: write JOIN … ON a.x = b.y, or CROSS JOIN for all pairs"
        );
    }
    Ok(common)
}

/// The only column of this name.
fn only(side: &LogicalPlan, name: &Column) -> Result<Column> {
    let schema: &DFSchema = side.schema();
    let found = schema.qualified_fields_with_unqualified_name(&name.name);
    let error = match found.as_slice() {
        [one] => return Ok(Column::from(*one)),
        [] => SchemaError::FieldNotFound {
            field: Box::new(name.clone()),
            valid_fields: schema.columns(),
        },
        _ => {
            return plan_err!(
                "USING ({0}) is ambiguous: more than one table before the join has a column {0}; write the condition with ON",
                name.name
            );
        }
    };
    Err(DataFusionError::SchemaError(Box::new(error), Box::new(None)))
}

/// A side of a join in which these columns have hidden names, and the columns under these names.
fn renamed(
    side: LogicalPlan,
    columns: &[Column],
    prefix: &str,
    hidden: &mut Vec<Hidden>,
) -> Result<(LogicalPlan, Vec<Column>)> {
    let own = |column: &Column| prefix.to_owned() + &column.name;
    let all = side.schema().columns().into_iter().map(|column| {
        let (table, name) = (column.relation.clone(), own(&column));
        let is_hidden = columns.contains(&column);
        let column = Expr::Column(column);
        if is_hidden { column.alias_qualified(table, name) } else { column }
    });
    let all = all.collect();
    let side = LogicalPlan::Projection(Projection::try_new(all, Arc::new(side))?);
    hidden.extend(columns.iter().map(|column| Hidden {
        table: column.relation.clone(),
        name: column.name.clone(),
        own: own(column),
    }));
    let renamed = columns.iter().map(|column| Column::new(column.relation.clone(), own(column)));
    Ok((side, renamed.collect()))
}

/// The plan in which each hidden column has its own name again.
///
/// # Guarantee
/// The rows and columns stay the same. Nothing in the plan depends on the numbers of joins, so a
/// query with USING means the same plan as one with ON.
pub(super) fn shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    let shown = plan.transform_up_with_subqueries(|node| {
        if let LogicalPlan::Projection(projection) = &node
            && (only_renames(projection) || only_orders(projection))
        {
            return Ok(Transformed::yes(projection.input.as_ref().clone()));
        }
        let node = node.map_expressions(|expr| expr.transform_up(shown_expr))?.data;
        let node = match node {
            LogicalPlan::Union(Union { inputs, schema }) => {
                let fields = schema.iter().map(|(table, field)| {
                    let name = without_prefixes(field.name());
                    (table.cloned(), Arc::new(field.as_ref().clone().with_name(name)))
                });
                let metadata = schema.metadata().clone();
                let schema = DFSchema::new_with_metadata(fields.collect(), metadata)?;
                LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) })
            }
            // The builder renames a column if the alias would give two columns the same name.
            LogicalPlan::SubqueryAlias(alias) => {
                LogicalPlanBuilder::from(alias.input).alias(alias.alias)?.build()?
            }
            other => other.recompute_schema()?,
        };
        Ok(Transformed::yes(node))
    })?;
    Ok(shown.data)
}

/// True if a projection only hides columns of a join's side; they have their own names again by
/// now.
fn only_renames(projection: &Projection) -> bool {
    let columns = projection.input.schema().columns();
    let renames = projection.expr.iter().zip(&columns).filter(|(expr, column)| {
        let Expr::Alias(alias) = expr else { return false };
        alias.expr.as_ref() == &Expr::Column((*column).clone())
            && alias.relation == column.relation
            && alias.name != column.name
            && without_prefixes(&alias.name) == column.name
    });
    let same = projection.expr.iter().zip(&columns);
    let same = same.filter(|(expr, column)| **expr == Expr::Column((*column).clone()));
    let renamed = renames.count();
    renamed > 0 && renamed + same.count() == columns.len() && projection.expr.len() == columns.len()
}

/// True if a projection only orders the columns of a join for `*`.
fn only_orders(projection: &Projection) -> bool {
    let mut marked = 0;
    let columns = projection.expr.iter().all(|expr| {
        let Expr::Alias(alias) = expr else { return expr.try_as_col().is_some() };
        let Expr::Column(column) = alias.expr.as_ref() else { return false };
        marked += 1;
        is_hidden(column) && alias.name == column.name && alias.relation == column.relation
    });
    columns && marked > 0
}

/// An expression in which columns have their own names.
fn shown_expr(expr: Expr) -> Result<Transformed<Expr>> {
    let subquery = |subquery: Subquery| -> Result<Subquery> {
        let Subquery { subquery, outer_ref_columns, spans } = subquery;
        let columns = outer_ref_columns.into_iter();
        let columns = columns.map(|column| Ok(column.transform_up(shown_expr)?.data));
        let outer_ref_columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Subquery { subquery, outer_ref_columns, spans })
    };
    let shown = match expr {
        Expr::Column(mut column) => {
            column.name = without_prefixes(&column.name);
            Expr::Column(column)
        }
        Expr::OuterReferenceColumn(field, mut column) => {
            column.name = without_prefixes(&column.name);
            let name = without_prefixes(field.name());
            Expr::OuterReferenceColumn(Arc::new(field.as_ref().clone().with_name(name)), column)
        }
        Expr::Alias(mut alias) => {
            alias.name = without_prefixes(&alias.name);
            Expr::Alias(alias)
        }
        Expr::ScalarSubquery(one) => Expr::ScalarSubquery(subquery(one)?),
        Expr::Exists(mut exists) => {
            exists.subquery = subquery(exists.subquery)?;
            Expr::Exists(exists)
        }
        Expr::InSubquery(mut among) => {
            among.subquery = subquery(among.subquery)?;
            Expr::InSubquery(among)
        }
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::yes(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_prefixes() {
        let (left, right) = (prefix(3, JoinedSide::Left), prefix(12, JoinedSide::Right));
        assert_ne!(left, prefix(3, JoinedSide::Right));
        for (text, shown) in [
            (format!("{left}k"), "k".to_owned()),
            (format!("b.{left}k + {right}x"), "b.k + x".to_owned()),
            (format!("{RESERVED}_sets"), format!("{RESERVED}_sets")),
            (format!("{RESERVED}_using_k"), format!("{RESERVED}_using_k")),
            (format!("{RESERVED}_using7"), format!("{RESERVED}_using7")),
            ("k".to_owned(), "k".to_owned()),
        ] {
            assert_eq!(without_prefixes(&text), shown);
        }
        assert_eq!(number_of(&sql::JoinConstraint::Using(vec![numbered(7)])), Some(7));
        assert_eq!(number_of(&sql::JoinConstraint::Natural), None);
    }
}
