//! IN and EXISTS below a release, as semi, anti and mark joins.
//!
//! In: a condition with a subquery, over private rows. Out: the rows with a match, or the rows
//! without one; or all rows, with a column that marks the rows with a match. A subquery over public
//! tables is read while the query is planned. A subquery over private tables must match rows of the
//! same unit, by the unit itself or along a declared link. Then whether a row has a match depends
//! only on its own unit.
//!
//! ```text
//! EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND …)     orders ⋉ lineitem, along the link
//! c_custkey NOT IN (SELECT o_custkey FROM orders)                          customer ▷ orders, by unit
//! CASE WHEN EXISTS (…) THEN 1 ELSE 0 END                                   customer with a mark on each row
//! ```

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality, Spans, TableReference};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
};

use super::correlation::{existing, names_outside, selected, single_row};
use super::relation::PrivateRelation;
use crate::analysis::below::pair::{Basis, Pair, combined, in_order, marked};
use crate::analysis::below::public_side::public_keys;
use crate::analysis::below::relation::has_subquery;
use crate::analysis::below::walk::{Tables, Walk};
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::catalog::RESERVED;
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// The rows for which a condition with a subquery holds.
    ///
    /// # Guarantee
    /// Whether a row passes depends on the row, on public rows, and on rows of the same unit.
    pub(crate) fn matched(
        &mut self,
        flow: PrivateRelation,
        whole: &Expr,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let (condition, flipped) = match whole {
            Expr::Not(inner) => (inner.as_ref(), true),
            other => (other, false),
        };
        match condition {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) if !has_subquery(expr) => {
                let negated = *negated != flipped;
                if names_outside(&subquery.subquery)?.is_empty() {
                    let matches = Matches::Value(expr.as_ref().clone());
                    return self.semi(flow, &subquery.subquery, matches, negated, condition);
                }
                if !negated {
                    let (rows, matches) =
                        self.compared_with(expr, &subquery.subquery, condition)?;
                    return self.semi(flow, &rows, matches, negated, condition);
                }
            }
            Expr::Exists(Exists { subquery, negated })
                if single_row(&subquery.subquery).is_none() =>
            {
                let (rows, matches) = self.existing_rows(&subquery.subquery)?;
                return self.semi(flow, &rows, matches, *negated != flipped, condition);
            }
            _ => {}
        }
        let columns = Arc::clone(&flow.scope.schema);
        let (flow, condition) = self.valued_condition(flow, whole)?;
        in_order(flow.filtered(&condition)?, &columns)
    }

    /// INTERSECT and EXCEPT of units: the units of one query that another one has, or has not.
    /// `None` for other joins, and for other columns than units.
    ///
    /// # Guarantee
    /// It is that of IN. No row belongs to NULL, so it does not matter that NULL equals NULL here.
    pub(crate) fn of_both(&mut self, join: &Join) -> Result<Option<PrivateRelation>, NotAnalyzed> {
        let negated = match join.join_type {
            JoinType::LeftSemi => false,
            JoinType::LeftAnti => true,
            JoinType::Inner
            | JoinType::Left
            | JoinType::Right
            | JoinType::Full
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => return Ok(None),
        };
        let [(unit, other)] = join.on.as_slice() else { return Ok(None) };
        let is_set = join.null_equality == NullEquality::NullEqualsNull && join.filter.is_none();
        let is_whole = other.try_as_col().is_some() && join.right.schema().fields().len() == 1;
        if !is_set || !is_whole {
            return Ok(None);
        }
        let flow = match self.rows(&join.left) {
            // Its different rows are not those of units.
            Err(NotAnalyzed::Refused(refusal)) if refusal.clause() == "DISTINCT" => {
                return Ok(None);
            }
            rows => rows?,
        };
        let at = unit.try_as_col().and_then(|own| flow.scope.schema.maybe_index_of_column(own));
        if !at.and_then(|at| flow.scope.facts.get(at)).is_some_and(|facts| facts.is_unit) {
            return Ok(None);
        }
        let subquery = Subquery {
            subquery: Arc::clone(&join.right),
            outer_ref_columns: Vec::new(),
            spans: Spans::new(),
        };
        let condition =
            Expr::InSubquery(InSubquery::new(Box::new(unit.clone()), subquery, negated));
        self.matched(flow, &condition).map(Some)
    }

    /// The rows of EXISTS, and the conditions on them that name outer columns.
    pub(super) fn existing_rows(
        &mut self,
        subquery: &LogicalPlan,
    ) -> Result<(LogicalPlan, Matches), NotAnalyzed> {
        let apart = self.uncorrelated(existing(subquery), false)?;
        Ok((apart.rows, Matches::Conditions(apart.conditions)))
    }

    /// The rows of an IN whose subquery names outer columns, and the conditions on them. The
    /// equality of IN is one of these conditions.
    pub(super) fn compared_with(
        &mut self,
        value: &Expr,
        subquery: &LogicalPlan,
        whole: &Expr,
    ) -> Result<(LogicalPlan, Matches), NotAnalyzed> {
        let Some((column, rows)) = selected(subquery) else { return Err(refused(whole).into()) };
        let apart = self.uncorrelated(rows, false)?;
        // Columns of the outer rows are marked as outer references, as in the other conditions.
        let outer = value.clone().transform_up(|e| {
            let Expr::Column(column) = &e else { return Ok(Transformed::no(e)) };
            let field = Arc::new(Field::new(&column.name, DataType::Null, true));
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column.clone())))
        });
        let outer = outer.map_err(|e| internal(&e))?.data;
        let mut conditions = vec![outer.eq(column)];
        conditions.extend(apart.conditions);
        Ok((apart.rows, Matches::Conditions(conditions)))
    }

    /// The same rows with a column that is true if a row of a subquery matches. Also returns
    /// whether both sides of the first condition are never NULL.
    ///
    /// # Guarantee
    /// Every row is returned exactly once. Its mark depends on the row, on public rows, and on rows
    /// of the same unit.
    pub(super) fn marked(
        &mut self,
        flow: PrivateRelation,
        subquery: &LogicalPlan,
        matches: Matches,
        mark: &str,
    ) -> Result<(PrivateRelation, bool), NotAnalyzed> {
        let other =
            if self.is_public(subquery) { self.pinned(subquery)? } else { self.rows(subquery)? };
        let name = self.fresh("inner");
        let (other, conditions) = renamed(other, &name, matches)?;
        let exact = conditions.first().is_some_and(|condition| {
            let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = condition else { return false };
            is_present(&flow, left) && is_present(&other, right)
        });
        if other.is_public() {
            let (owner, subject, fans) =
                (flow.owner.clone(), flow.subject.clone(), flow.fans.clone());
            let names = public_names(&other);
            self.step(format!("Mark rows with a match in {names} [public]"));
            let pair = Pair { left: other, right: flow, on: Vec::new() };
            let flow = marked(pair, JoinType::RightMark, &conditions, mark)?;
            return Ok((PrivateRelation { owner, subject, fans, ..flow }, exact));
        }
        let basis = self.required_basis(&flow, &other, &conditions)?;
        let (pair, basis) = self.paired(flow, other, basis, JoinType::LeftMark)?;
        let tables = pair.right.subject.tables();
        let subject = pair.left.subject.clone().with_tables(tables);
        self.step(format!(
            "Mark rows with a match in {} [{}]",
            tables.join(", "),
            because(basis, self.whose())
        ));
        let flow = marked(pair, JoinType::LeftMark, &conditions, mark)?;
        Ok((PrivateRelation { subject, ..flow }, exact))
    }

    fn semi(
        &mut self,
        flow: PrivateRelation,
        subquery: &LogicalPlan,
        matches: Matches,
        negated: bool,
        whole: &Expr,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let other =
            if self.is_public(subquery) { self.pinned(subquery)? } else { self.rows(subquery)? };
        // The same table may occur inside and outside the subquery, so the inner one gets a name of
        // its own.
        let name = self.fresh("inner");
        let is_in = matches!(matches, Matches::Value(_));
        let (other, conditions) = renamed(other, &name, matches)?;
        let text = if negated { "Rows without" } else { "Rows with" };
        if other.is_public() {
            let flow = match negated && is_in {
                true => self.not_among_public(flow, &other, &conditions, subquery, whole)?,
                false => flow,
            };
            let kind = if negated { JoinType::RightAnti } else { JoinType::RightSemi };
            let (owner, subject) = (flow.owner.clone(), flow.subject.clone());
            let names = public_names(&other);
            self.step(format!("{text} a match in {names} [public]"));
            let said = match !negated || is_in {
                true => said_by_match(&other, &conditions, negated, self.tables),
                false => Vec::new(),
            };
            let pair = Pair { left: other, right: flow, on: Vec::new() };
            let mut flow = combined(pair, kind, &conditions)?;
            for condition in said {
                flow.scope = flow.scope.narrowed(&condition);
            }
            return Ok(PrivateRelation { owner, subject, ..flow });
        }
        let basis = self.required_basis(&flow, &other, &conditions)?;
        if negated && is_in {
            neither_null(&flow, &other, &conditions, subquery, whole)?;
        }
        // The join must not change the unit of a row, so rows that lead to another table are
        // resolved first.
        let keep = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        let (pair, basis) = self.paired(flow, other, basis, keep)?;
        let subject = pair.left.subject.clone().with_tables(pair.right.subject.tables());
        let tables = pair.right.subject.tables().join(", ");
        self.step(format!("{text} a match in {tables} [{}]", because(basis, self.whose())));
        let flow = combined(pair, keep, &conditions)?;
        Ok(PrivateRelation { subject, ..flow })
    }
}

impl Walk<'_> {
    /// The rows for which NOT IN over public rows can be true: the rows whose value is not NULL. If
    /// there are no public rows, all rows. The public rows are read now.
    ///
    /// # Errors
    /// Refuses a NULL among the public rows: NOT IN is then never true.
    fn not_among_public(
        &self,
        flow: PrivateRelation,
        other: &PrivateRelation,
        conditions: &[Expr],
        subquery: &LogicalPlan,
        whole: &Expr,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let [Expr::BinaryExpr(BinaryExpr { left, right, .. })] = conditions else {
            return Err(lost());
        };
        let refused = |message: &str, hint: String| {
            Err(Refusal::new(Reason::Subquery, readable(whole), message, hint).into())
        };
        let counts =
            vec![count(lit(1_i64)).alias("rows"), count(right.as_ref().clone()).alias("values")];
        let counts = LogicalPlanBuilder::from(other.plan.clone())
            .aggregate(Vec::<Expr>::new(), counts)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let counts = self.tables.read(&counts);
        let number = |i: usize| {
            let column = counts.as_ref()?.columns().get(i)?.as_primitive_opt::<Int64Type>()?;
            column.iter().next().flatten()
        };
        let (Some(rows), Some(values)) = (number(0), number(1)) else {
            let message = "the public rows cannot be read while the query is planned";
            return refused(message, "a simpler query of public tables".to_owned());
        };
        if values < rows {
            let columns = subquery.schema().columns();
            let named = columns.first().map(|column| readable(&Expr::Column(column.clone())));
            let named = named.unwrap_or_default();
            let message =
                "NOT IN is never true where NULL is in the list, as it is in these public rows";
            return refused(message, format!("WHERE {named} IS NOT NULL in the subquery"));
        }
        match rows {
            0 => Ok(flow),
            _ => Ok(flow.filtered(&left.as_ref().clone().is_not_null())?),
        }
    }
}

/// What a match in public rows says of a private row: some of its values are among theirs. For NOT
/// IN: its value is not. Longer lists say nothing.
fn said_by_match(
    other: &PrivateRelation,
    conditions: &[Expr],
    negated: bool,
    tables: &dyn Tables,
) -> Vec<Expr> {
    const MOST_LISTED: usize = 1_000;
    let is_inner = |column: &Column| other.scope.schema.is_column_from_schema(column);
    let said = |condition: &Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            return None;
        };
        let inner = |side: &Expr| side.try_as_col().filter(|column| is_inner(column)).cloned();
        let (value, column) = match (inner(left), inner(right)) {
            (None, Some(column)) => (left, column),
            (Some(column), None) => (right, column),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        if value.column_refs().into_iter().any(is_inner) {
            return None;
        }
        let keys = public_keys(tables, &other.plan, &column, MOST_LISTED)?;
        let listed = keys.into_iter().filter(|key| !key.is_null());
        let listed: Vec<Expr> = listed.map(|key| Expr::Literal(key, None)).collect();
        (!listed.is_empty()).then(|| value.as_ref().clone().in_list(listed, negated))
    };
    conditions.iter().filter_map(said).collect()
}

/// Refuses NOT IN if either side may be NULL.
///
/// In SQL, `x NOT IN (…)` does not hold if x is NULL, unless there are no rows, and never holds if
/// one of the values is NULL. Both cases depend on rows of other units. Without NULL, it holds if
/// no row matches.
fn neither_null(
    flow: &PrivateRelation,
    other: &PrivateRelation,
    conditions: &[Expr],
    subquery: &LogicalPlan,
    whole: &Expr,
) -> Result<(), NotAnalyzed> {
    let refused = |what: &str, hint: String| {
        let message = format!(
            "NOT IN where {what} may be NULL depends on the rows of other people: one NULL among them changes the answer"
        );
        Err(Refusal::new(Reason::Subquery, readable(whole), message, hint))
    };
    for condition in conditions {
        let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = condition else {
            return Err(lost());
        };
        if !is_present(flow, left) {
            let value = readable(left);
            return Ok(refused(&value, format!("{value} IS NOT NULL AND {}", readable(whole)))?);
        }
        if !is_present(other, right) {
            let columns = subquery.schema().columns();
            let named = columns.first().map(|column| readable(&Expr::Column(column.clone())));
            let named = named.unwrap_or_default();
            return Ok(refused(&named, format!("WHERE {named} IS NOT NULL in the subquery"))?);
        }
    }
    Ok(())
}

/// The condition that decides which rows of the subquery match.
pub(super) enum Matches {
    /// Its only column must equal this value.
    Value(Expr),
    /// Conditions in which outer columns are marked.
    Conditions(Vec<Expr>),
}

/// A relation under a unique name, and the conditions rewritten to that name.
pub(super) fn renamed(
    inner: PrivateRelation,
    name: &str,
    matches: Matches,
) -> Result<(PrivateRelation, Vec<Expr>), NotAnalyzed> {
    let before = inner.scope.schema.columns();
    let columns: Vec<Expr> = before.iter().cloned().map(Expr::Column).collect();
    // Columns of different tables can have the same name, so numbers distinguish them.
    let fields = inner.scope.schema.fields().iter().enumerate();
    let fields = fields.map(|(i, f)| f.as_ref().clone().with_name(format!("{name}_{i}")));
    let arrow = Schema::new(fields.collect::<Vec<_>>());
    let bare = DFSchema::try_from(arrow.clone()).map_err(|e| internal(&e))?;
    let alias = TableReference::bare(name.to_owned());
    let qualified = DFSchema::try_from_qualified_schema(alias.clone(), &arrow);
    let qualified = Arc::new(qualified.map_err(|e| internal(&e))?);
    let after = qualified.columns();
    let renamed = inner.projected(&columns, &Arc::new(bare))?.named(&alias, &qualified)?;
    let conditions = match matches {
        Matches::Value(value) => {
            let [column] = after.as_slice() else { return Err(lost()) };
            vec![value.eq(Expr::Column(column.clone()))]
        }
        Matches::Conditions(conditions) => {
            let meant = |e: Expr| {
                Ok(match e {
                    Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
                    Expr::Column(column) => {
                        let new = before.iter().position(|b| *b == column);
                        match new.and_then(|i| after.get(i)) {
                            Some(new) => Transformed::yes(Expr::Column(new.clone())),
                            None => Transformed::no(Expr::Column(column)),
                        }
                    }
                    other => Transformed::no(other),
                })
            };
            let all = conditions.into_iter().map(|c| c.transform(meant).map(|t| t.data));
            all.collect::<Result<_, _>>().map_err(|e| internal(&e))?
        }
    };
    Ok((renamed, conditions))
}

/// The names of a relation's public tables. Rows that were read while planning have no name to
/// show.
pub(super) fn public_names(flow: &PrivateRelation) -> String {
    let names = flow.public.iter().filter(|name| !name.starts_with(RESERVED));
    names.cloned().collect::<Vec<_>>().join(", ")
}

/// The reason why rows of a subquery match only rows of the same unit, in words.
pub(super) fn because(basis: Basis, whose: &str) -> String {
    match basis {
        Basis::Compared => format!("rows of one {whose}"),
        Basis::LeftLeads | Basis::RightLeads => "along the declared link".to_owned(),
    }
}

/// True if an expression is a column that is never NULL.
fn is_present(flow: &PrivateRelation, expr: &Expr) -> bool {
    flow.trace(expr).is_some_and(|trace| trace.present)
}

pub(super) fn refused(expr: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(expr),
        "a subquery below a release takes rows of the same unit, by a condition on its own rows, or public rows",
        "EXISTS (SELECT 1 FROM t WHERE t.unit = outer.unit AND …), (SELECT MAX(t.x) FROM t WHERE t.unit = outer.unit), or x > (SELECT LAPLACE(eps=1) AVG(x) FROM t), which releases the value",
    )
}
