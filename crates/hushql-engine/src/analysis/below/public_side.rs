//! The public side of a join: how many of its rows a private row can match, and its keys.
//!
//! In: rows of public tables. Out: numbers and values that are computed from them while the query
//! is planned. They depend on no privacy unit, so they reveal nothing about one.
//!
//! ```text
//! v JOIN d ON v.day + 7 = d.day AND v.k = d.k      as many rows as d has of one (day, k)
//! v JOIN d ON v.day < d.day                        as many rows as d has
//! ```

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};

use super::column_origin::Trace;
use super::join_conditions::equal_columns;
use super::public_conditions::is_known_now;
use super::relation::{Owner, PrivateRelation, has_subquery, named};
use super::unit::UnitScope;
use crate::analysis::below::refusals::several;
use crate::analysis::below::subquery_semantics::only_true_joins;
use crate::analysis::below::walk::{Tables, Walk};
use crate::analysis::expr::domain::enforced;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::Scope;
use crate::analysis::expr::shape::{is_string, is_temporal, is_time, type_of};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::catalog::RESERVED;
use crate::refusal::{Reason, Refusal};

/// The most rows of public tables that are held in memory while a query is planned.
const MOST_PINNED: usize = 1_000_000;

/// The largest number of public rows that one private row matches, if it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiplicity(pub(crate) Option<u64>);

impl Multiplicity {
    pub(crate) fn at_least_one(self) -> Self {
        Self(self.0.map(|n| n.max(1)))
    }

    pub(crate) fn times(self, rows: Option<u64>) -> Option<u64> {
        rows?.checked_mul(self.0?)
    }
}

impl Walk<'_> {
    /// The largest number of rows of a public relation that one private row matches.
    ///
    /// # Guarantee
    /// For every private row, at most this many rows of the public relation have its values in the
    /// columns and expressions that the conditions equate.
    pub(crate) fn multiplicity(
        &self,
        private: &PrivateRelation,
        public: &PrivateRelation,
        conditions: &[Expr],
    ) -> Result<Multiplicity, NotAnalyzed> {
        let keys = equal_columns(private, public, conditions).into_iter();
        let keys: BTreeSet<Column> = keys.map(|(_, key)| key).collect();
        let mut keys: Vec<Expr> = keys.into_iter().map(Expr::Column).collect();
        let by_columns = keys.clone();
        for (value, key) in conditions.iter().filter_map(|one| equated_value(one, private, public))
        {
            if !by_columns.contains(value) && !keys.contains(&key) {
                keys.push(key);
            }
        }
        // Fewer keys bound no fewer rows.
        let batch = match self.most_of_a_key(public, keys)? {
            Some(batch) => batch,
            None => self.most_of_a_key(public, by_columns)?.ok_or_else(|| unread(public))?,
        };
        let most = batch.columns().first().and_then(|c| c.as_primitive_opt::<Int64Type>());
        // The maximum of no rows is NULL.
        let most = most.and_then(|most| most.iter().next().flatten()).unwrap_or(0);
        Ok(Multiplicity(u64::try_from(most).ok()))
    }

    /// The largest number of public rows with one value of all keys, none of which is NULL; `None`
    /// if they cannot be read.
    fn most_of_a_key(
        &self,
        public: &PrivateRelation,
        keys: Vec<Expr>,
    ) -> Result<Option<RecordBatch>, NotAnalyzed> {
        let present = keys.iter().cloned().map(Expr::is_not_null).reduce(Expr::and);
        // Reserved names: a key column may be called n, and a cast of a column has its name.
        let n = format!("{RESERVED}_rows");
        let keys = keys.into_iter().enumerate();
        let keys: Vec<Expr> =
            keys.map(|(i, key)| key.alias(format!("{RESERVED}_key{i}"))).collect();
        let plan = LogicalPlanBuilder::from(public.plan.clone())
            .filter(present.unwrap_or_else(|| lit(true)))
            .and_then(|rows| rows.aggregate(keys, vec![count(lit(1)).alias(&n)]))
            .and_then(|groups| {
                groups.aggregate(
                    Vec::<Expr>::new(),
                    vec![max(Expr::Column(Column::from_name(&n))).alias(&n)],
                )
            })
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        Ok(self.tables.read(&plan))
    }

    /// Public rows that are read now and are fixed in the plan.
    pub(crate) fn pinned(&mut self, plan: &LogicalPlan) -> Result<PrivateRelation, NotAnalyzed> {
        let mut public = self.public_tables(plan);
        let names = public.iter().cloned().collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { "constants".to_owned() } else { names };
        refuse_volatile(plan, &names)?;
        only_true_joins(plan)?;
        let unread = || {
            Refusal::new(
                Reason::NotYet,
                &names,
                format!("the rows of {names} cannot be read while the query is planned"),
                "a simpler query of public tables",
            )
        };
        // Columns of different tables can have the same name, so numbers distinguish them.
        let columns = plan.schema().columns().into_iter().enumerate();
        let columns = columns.map(|(i, c)| Expr::Column(c).alias(format!("c{i}")));
        let limited = LogicalPlanBuilder::from(plan.clone())
            .project(columns)
            .and_then(|rows| rows.limit(0, Some(MOST_PINNED + 1)))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let rows = self.tables.read(&limited).ok_or_else(unread)?;
        if rows.num_rows() > MOST_PINNED {
            return Err(Refusal::new(
                Reason::TooManyKeys,
                &names,
                format!("a subquery of public tables has more than {MOST_PINNED} rows"),
                "conditions or GROUP BY in it that leave fewer",
            )
            .into());
        }
        let source = self.tables.pinned(rows).ok_or_else(unread)?;
        let name = self.fresh("public");
        public.insert(name.clone());
        let scan = LogicalPlanBuilder::scan(TableReference::bare(name), source, None)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let mut columns = Vec::new();
        let mut facts = Vec::new();
        for (from, (qualifier, field)) in
            scan.schema().columns().into_iter().zip(plan.schema().iter())
        {
            let enforced = enforced(Expr::Column(from), field.data_type(), None);
            let (column, known) = enforced.map_err(|_| unread())?;
            columns.push(named(column, qualifier, field.name()));
            facts.push(known);
        }
        let pinned = LogicalPlanBuilder::from(scan)
            .project(columns)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        self.step(format!("Read {names} [public]"));
        let traces = facts.iter().map(|_| Trace { size: 1, ..Trace::default() }).collect();
        Ok(PrivateRelation {
            plan: pinned,
            scope: Scope::new(plan.schema().clone(), facts),
            traces,
            owner: Owner::Public,
            subject: UnitScope::nobody(),
            fans: BTreeMap::new(),
            distinct: None,
            public,
        })
    }

    /// Reads a public relation now.
    pub(crate) fn pinned_flow(
        &mut self,
        flow: PrivateRelation,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let before = self.steps.len();
        let read = self.pinned(&flow.plan)?;
        self.steps.truncate(before);
        // The derived facts hold for the same rows. Hidden columns are dropped.
        crate::analysis::below::pair::in_order(read, &flow.scope.schema.clone()).map(|read| {
            PrivateRelation { scope: flow.scope, traces: flow.traces, public: flow.public, ..read }
        })
    }
}

/// The value of a public row that a condition equates with a value of the private row alone:
/// `d.day` of `v.day + 7 = d.day`; and the same as the join compares it.
///
/// # Guarantee
/// For every private row, all public rows that meet the condition have one value of the result. It
/// is not NULL there.
fn equated_value<'a>(
    condition: &'a Expr,
    private: &PrivateRelation,
    public: &PrivateRelation,
) -> Option<(&'a Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return None;
    };
    let is_over = |expr: &Expr, flow: &PrivateRelation| {
        expr.column_refs().iter().all(|column| flow.scope.schema.is_column_from_schema(column))
    };
    let is_value = |of_public: &Expr| is_over(of_public, public) && !is_over(of_public, private);
    let (of_private, of_public) = [(left, right), (right, left)]
        .into_iter()
        .find(|(one, other)| is_over(one, private) && is_value(other))?;
    // Each row has one value, and the values of public rows are known while the query is planned.
    if !is_known_now(of_public) || of_private.is_volatile() || has_subquery(condition) {
        return None;
    }
    let data_type = type_of(of_public, &public.scope.schema).ok()?;
    let compared_as = type_of(of_private, &private.scope.schema).ok()?;
    // Equal floats can differ: −0.0 and 0.0.
    if data_type != compared_as || !has_one_form(&data_type) {
        return None;
    }
    // What the join compares: a cast that loses digits makes several values equal.
    Some((of_public.as_ref(), exact(of_public, &public.scope).ok()?.expr))
}

/// True if equal values of a type are the same value for GROUP BY.
fn has_one_form(data_type: &DataType) -> bool {
    data_type.is_integer()
        || is_string(data_type)
        || is_temporal(data_type)
        || is_time(data_type)
        || matches!(data_type, DataType::Boolean | DataType::Decimal128(..))
}

/// The value of a subquery over public tables: the value of its row, or NULL if it has no row.
///
/// # Errors
/// Refuses several rows, rows that cannot be read, and rows that change from call to call.
pub(crate) fn public_value(tables: &dyn Tables, plan: &LogicalPlan) -> Result<Expr, NotAnalyzed> {
    refuse_volatile(plan, "a subquery as a value")?;
    only_true_joins(plan)?;
    let rows = tables.read(plan).ok_or_else(|| {
        Refusal::new(
            Reason::NotYet,
            "a subquery as a value",
            "the public rows cannot be read while the query is planned",
            "a literal in its place",
        )
    })?;
    let value = match (rows.num_rows(), rows.columns().first()) {
        (1, Some(values)) => ScalarValue::try_from_array(values, 0),
        (0, Some(values)) => ScalarValue::try_new_null(values.data_type()),
        (_, _) => return Err(several().into()),
    };
    Ok(Expr::Literal(value.map_err(|e| internal(&e))?, None))
}

/// Refuses public rows that could differ each time the query is planned.
pub(crate) fn refuse_volatile(plan: &LogicalPlan, names: &str) -> Result<(), NotAnalyzed> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })
    .map_err(|e| internal(&e))?;
    if found {
        return Err(Refusal::new(
            Reason::Volatile,
            names,
            "rows that change from call to call are not allowed below a release",
            "a literal in place of the function",
        )
        .into());
    }
    Ok(())
}

fn unread(flow: &PrivateRelation) -> Refusal {
    let names = flow.public.iter().cloned().collect::<Vec<_>>().join(", ");
    Refusal::new(
        Reason::NotYet,
        &names,
        format!("the rows of {names} cannot be read while the query is planned"),
        "another public table",
    )
}

/// The distinct values of a public column, in order, NULL last; `None` if there are more than
/// `most`.
pub(crate) fn public_keys(
    tables: &dyn Tables,
    plan: &LogicalPlan,
    column: &Column,
    most: usize,
) -> Option<Vec<ScalarValue>> {
    let rows = public_rows(tables, plan, std::slice::from_ref(column), most)?;
    Some(rows.into_iter().flatten().collect())
}

/// The distinct rows of public columns, in order, NULL last; `None` if there are more than `most`.
pub(crate) fn public_rows(
    tables: &dyn Tables,
    plan: &LogicalPlan,
    columns: &[Column],
    most: usize,
) -> Option<Vec<Vec<ScalarValue>>> {
    let keys: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
    let order = keys.iter().cloned().map(|key| key.sort(true, false)).collect::<Vec<_>>();
    let plan = LogicalPlanBuilder::from(plan.clone())
        .project(keys)
        .and_then(LogicalPlanBuilder::distinct)
        .and_then(|keys| keys.sort(order))
        .and_then(|keys| keys.limit(0, Some(most.saturating_add(1))))
        .and_then(LogicalPlanBuilder::build)
        .ok()?;
    let rows = tables.read(&plan)?;
    if rows.num_rows() > most {
        return None;
    }
    let row = |i| rows.columns().iter().map(|c| ScalarValue::try_from_array(c, i).ok()).collect();
    (0..rows.num_rows()).map(row).collect()
}
