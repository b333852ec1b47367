//! Below a release: private rows, operator by operator.
//!
//! In: the plan under an aggregate. Out: the same rows in a plan in which every assumption is enforced, with
//! the privacy unit carried along as a hidden column and facts about every other. One arm per operator; an
//! operator that is not known to keep rows apart by unit is refused.
//!
//! ```text
//! Scan adult ─▶ domains ─▶ Filter (unit IS NOT NULL) ─▶ Projection + unit ─▶ …
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, DataFusionError, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{Alias, Between, InList};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, SubqueryAlias,
    TableScan,
};

use super::deeper;
use super::enforce::{Change, enforced, is_someone};
use super::expression::{readable, total};
use super::facts::{Scope, constant};
use super::subject::Subject;
use crate::catalog::{Catalog, Privacy, RESERVED, Table, Unit};

use crate::refusal::{Reason, Refusal};

/// The name of the hidden column that carries the unit.
pub(super) fn unit_name() -> String {
    format!("{RESERVED}_unit")
}

/// Private rows: an enforced plan, and what is known of its columns.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) plan: LogicalPlan,
    pub(super) scope: Scope,
    pub(super) subject: Subject,
    /// How many nodes each column's expression has when written over the scan: planners write it so.
    sizes: Vec<usize>,
    /// For each column of the scope, the hidden column that it was enforced from, where it is still that.
    raw: Vec<Option<Raw>>,
}

/// A column as the file holds it: under a hidden name, out of reach of every expression.
///
/// Nothing relies on it. It only lets a file be pruned, and lets groups outside of a list be dropped by the
/// key space instead of row by row.
#[derive(Debug, Clone)]
struct Raw {
    name: String,
    change: Change,
}

/// The ends that values beyond them become.
pub(super) type Clamped = (ScalarValue, ScalarValue);

impl Flow {
    /// The hidden unit column; `None` when the unit is the row.
    pub(super) fn unit_column(&self) -> Option<Column> {
        self.subject.column()?;
        self.hidden(&unit_name())
    }

    fn hidden(&self, name: &str) -> Option<Column> {
        let (qualifier, field) =
            self.plan.schema().iter().find(|(_, field)| field.name() == name)?;
        Some(Column::new(qualifier.cloned(), field.name()))
    }

    fn raw(&self, expr: &Expr) -> Option<&Raw> {
        match expr {
            Expr::Alias(alias) => self.raw(&alias.expr),
            Expr::Column(column) => {
                self.raw.get(self.scope.schema.index_of_column(column).ok()?)?.as_ref()
            }
            _ => None,
        }
    }

    /// The file's own column behind a listed one, with the list: they differ where the list has NULL only.
    pub(super) fn raw_of_listed(&self, expr: &Expr) -> Option<(Column, Arc<Vec<ScalarValue>>)> {
        let raw = self.raw(expr)?;
        match &raw.change {
            Change::Nulls(Some(values)) => Some((self.hidden(&raw.name)?, Arc::clone(values))),
            Change::Nulls(None) | Change::Clamp(..) => None,
        }
    }

    /// The file's own column behind one that is clamped, with the ends.
    pub(super) fn raw_of_clamped(&self, expr: &Expr) -> Option<(Column, Clamped)> {
        let raw = self.raw(expr)?;
        match &raw.change {
            Change::Clamp(lo, hi) => Some((self.hidden(&raw.name)?, (lo.clone(), hi.clone()))),
            Change::Nulls(_) => None,
        }
    }

    /// What a predicate says about columns of the file itself, as far as comparisons with literals go.
    ///
    /// # Guarantee
    /// Every row that satisfies the predicate satisfies this, so it changes no answer. And were it wrong, it
    /// would be one more condition on single rows, which no bound depends on.
    fn said_of_raw(&self, predicate: &Expr) -> Option<Expr> {
        let column = |expr: &Expr| {
            let raw = self.raw(expr)?;
            Some((Expr::Column(self.hidden(&raw.name)?), &raw.change))
        };
        let compared = |expr: &Expr, op: Operator, literal: &Expr| {
            let (raw, change) = column(expr)?;
            let value = constant(literal)?;
            let keeps = change.keeps(op, &value);
            let literal = Box::new(Expr::Literal(value, None));
            keeps.then(|| Expr::BinaryExpr(BinaryExpr::new(Box::new(raw), op, literal)))
        };
        let mut said = Vec::new();
        for conjunct in split_conjunction(predicate) {
            match conjunct {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                    let swapped = || compared(right, op.swap()?, left);
                    said.extend(compared(left, *op, right).or_else(swapped));
                }
                Expr::Between(Between { expr, negated: false, low, high }) => {
                    said.extend(compared(expr, Operator::GtEq, low));
                    said.extend(compared(expr, Operator::LtEq, high));
                }
                Expr::InList(InList { expr, list, negated: false }) => {
                    let all = list.iter().all(|one| compared(expr, Operator::Eq, one).is_some());
                    if let (true, Some((raw, _))) = (all, column(expr)) {
                        said.push(Expr::InList(InList::new(Box::new(raw), list.clone(), false)));
                    }
                }
                _ => {}
            }
        }
        conjunction(said)
    }
}

/// What the planner may still say about a plan that the analysis built: nothing about data.
pub(super) fn internal(error: &DataFusionError) -> Refusal {
    Refusal::new(
        Reason::Operator,
        "",
        format!("the query cannot be planned: {}", error.strip_backtrace()),
        "a simpler form of the same question",
    )
}

/// The table that a scan reads, as the catalog knows it.
pub(super) fn scanned<'a>(scan: &TableScan, catalog: &'a Catalog) -> Option<&'a Table> {
    match &scan.table_name {
        TableReference::Bare { table } => catalog.table(table),
        TableReference::Partial { .. } | TableReference::Full { .. } => None,
    }
}

/// Walks the rows under a release.
///
/// # Guarantee
/// In the resulting plan each row stems from one row of the private table and carries its unit, so one unit
/// contributes at most the rows it has in the table; every expression is total, every column obeys its facts.
///
/// # Errors
/// A refusal for every operator, expression and table that is not on the allow-list.
pub(super) fn rows(
    plan: &LogicalPlan,
    catalog: &Catalog,
    steps: &mut Vec<String>,
) -> Result<Flow, Refusal> {
    deeper(|| rows_of(plan, catalog, steps))
}

fn rows_of(
    plan: &LogicalPlan,
    catalog: &Catalog,
    steps: &mut Vec<String>,
) -> Result<Flow, Refusal> {
    match plan {
        LogicalPlan::TableScan(scan) => scan_rows(scan, plan, catalog, steps),
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let flow = rows(input, catalog, steps)?;
            filtered(flow, predicate, steps)
        }
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let flow = rows(input, catalog, steps)?;
            projected(flow, expr, schema)
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, schema, .. }) => {
            let flow = rows(input, catalog, steps)?;
            let plan = LogicalPlanBuilder::from(flow.plan)
                .alias(alias.clone())
                .and_then(LogicalPlanBuilder::build)
                .map_err(|e| internal(&e))?;
            let scope = Scope { schema: Arc::clone(schema), facts: flow.scope.facts };
            Ok(Flow { plan, scope, ..flow })
        }
        LogicalPlan::Join(_) => Err(Refusal::new(
            Reason::Join,
            "JOIN",
            "joins below a release are not built yet: a join can repeat one person's rows without bound",
            "the release over one table; join released answers above it",
        )),
        LogicalPlan::Union(_) => Err(operator("UNION", "one release per branch, added above")),
        LogicalPlan::Distinct(_) => {
            Err(operator("DISTINCT", "COUNT(DISTINCT unit), or GROUP BY the columns"))
        }
        LogicalPlan::Sort(_) => Err(operator("ORDER BY", "ORDER BY outside, on released columns")),
        LogicalPlan::Limit(_) => Err(operator("LIMIT", "LIMIT outside, on released rows")),
        LogicalPlan::Window(_) => Err(operator("a window function", "an aggregate with GROUP BY")),
        LogicalPlan::Aggregate(_) => Err(operator(
            "GROUP BY",
            "the mechanism in front of the inner aggregate: a release of releases is not one",
        )),
        LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => {
            Err(operator("VALUES", "the aggregate without a mechanism: constants need none"))
        }
        LogicalPlan::Subquery(_) => Err(operator("a subquery", "the query without it")),
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
            Err(operator("this operator", "SELECT … FROM one table WHERE … below the release"))
        }
    }
}

fn operator(name: &str, hint: &str) -> Refusal {
    Refusal::new(
        Reason::Operator,
        name,
        format!("{name} below a release could let one person change many rows"),
        hint,
    )
}

fn scan_rows(
    scan: &TableScan,
    plan: &LogicalPlan,
    catalog: &Catalog,
    steps: &mut Vec<String>,
) -> Result<Flow, Refusal> {
    let name = scan.table_name.to_string();
    let (table, unit) = match scanned(scan, catalog).map(|t| (t, &t.privacy)) {
        Some((table, Privacy::Private(unit))) => (table, unit.clone()),
        Some((_, Privacy::Undeclared)) => return Err(undeclared(&name)),
        Some((_, Privacy::Public)) | None => {
            return Err(Refusal::new(
                Reason::Operand,
                &name,
                format!("{name} is public; a mechanism would only add noise"),
                "the aggregate without a mechanism",
            ));
        }
    };
    let mut expressions = Vec::new();
    let mut facts = Vec::new();
    let mut raw = Vec::new();
    let mut hidden = Vec::new();
    for (i, (qualifier, field)) in scan.projected_schema.iter().enumerate() {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let domain = table.column(field.name()).and_then(|c| c.domain.as_ref());
        let enforced = enforced(column.clone(), field.data_type(), domain);
        let (expr, mut known) = enforced.map_err(|error| {
            Refusal::new(
                Reason::BadValue,
                field.name(),
                error.to_string(),
                "a domain of the column's own type",
            )
        })?;
        known.is_unit = unit.column() == Some(field.name());
        expressions.push(expr.alias_qualified(qualifier.cloned(), field.name()));
        let change = Change::of(field.data_type(), domain, &known);
        raw.push(change.map(|change| Raw { name: format!("{RESERVED}_raw_{i}"), change }));
        if let Some(Some(Raw { name, .. })) = raw.last() {
            hidden.push(column.alias_qualified(Some(scan.table_name.clone()), name));
        }
        facts.push(known);
    }
    expressions.append(&mut hidden);
    let mut builder = LogicalPlanBuilder::from(plan.clone());
    if let Some(column) = unit.column() {
        let column = Column::new(Some(scan.table_name.clone()), column);
        builder =
            builder.filter(is_someone(Expr::Column(column.clone()))).map_err(|e| internal(&e))?;
        let hidden =
            Expr::Column(column).alias_qualified(Some(scan.table_name.clone()), unit_name());
        expressions.push(hidden);
    }
    let plan = builder
        .project(expressions)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|e| internal(&e))?;
    let subject = match &unit {
        Unit::Row => Subject::of_rows(&table.name),
        Unit::Column { column, .. } => {
            Subject::of_column(&table.name, &table.name, column, unit.max_rows())
        }
    };
    steps.push(format!("Scan {name} [{}]", subject.rows_text()));
    let scope = Scope { schema: Arc::clone(&scan.projected_schema), facts };
    let sizes = vec![1; scope.facts.len()];
    Ok(Flow { plan, scope, subject, sizes, raw })
}

/// The refusal of a table that nobody declared.
pub(super) fn undeclared(name: &str) -> Refusal {
    Refusal::new(
        Reason::Undeclared,
        name,
        format!("{name} is declared neither private nor public"),
        format!("ALTER TABLE {name} SET PRIVACY UNIT …, or SET PUBLIC, in an owner's session"),
    )
}

fn filtered(flow: Flow, predicate: &Expr, steps: &mut Vec<String>) -> Result<Flow, Refusal> {
    size(predicate, &flow)?;
    let total = total(predicate, &flow.scope)?;
    let scope = flow.scope.narrowed(predicate);
    let condition = match flow.said_of_raw(predicate) {
        Some(said) => said.and(total.expr),
        None => total.expr,
    };
    let plan = LogicalPlanBuilder::from(flow.plan)
        .filter(condition)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|e| internal(&e))?;
    steps.push(format!("Filter {}", readable(predicate)));
    Ok(Flow { plan, scope, ..flow })
}

fn projected(flow: Flow, expressions: &[Expr], schema: &DFSchemaRef) -> Result<Flow, Refusal> {
    let mut rewritten = Vec::with_capacity(expressions.len() + 1);
    let mut facts = Vec::with_capacity(expressions.len());
    let mut sizes = Vec::with_capacity(expressions.len());
    for (expression, (qualifier, field)) in expressions.iter().zip(schema.iter()) {
        sizes.push(size(expression, &flow)?);
        let total = total(expression, &flow.scope)?;
        rewritten.push(named(total.expr, qualifier, field.name()));
        facts.push(total.facts);
    }
    if let Some(unit) = flow.unit_column() {
        rewritten.push(named(Expr::Column(unit), None, &unit_name()));
    }
    let raw: Vec<_> = expressions.iter().map(|e| flow.raw(e).cloned()).collect();
    for name in raw.iter().flatten().map(|raw| raw.name.as_str()).collect::<BTreeSet<_>>() {
        if let Some(column) = flow.hidden(name) {
            rewritten.push(named(Expr::Column(column), None, name));
        }
    }
    let plan = LogicalPlanBuilder::from(flow.plan)
        .project(rewritten)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|e| internal(&e))?;
    let scope = Scope { schema: Arc::clone(schema), facts };
    Ok(Flow { plan, scope, sizes, raw, ..flow })
}

/// The nodes of an expression, written over the scan.
///
/// # Errors
/// A refusal beyond a limit: nested subqueries can double it at every level.
fn size(expr: &Expr, flow: &Flow) -> Result<usize, Refusal> {
    const MOST: usize = 10_000;
    let mut nodes = 0_usize;
    let counted = expr.apply(|node| {
        let column = match node.try_as_col() {
            Some(column) => flow.scope.schema.maybe_index_of_column(column),
            None => None,
        };
        let own = column.and_then(|i| flow.sizes.get(i)).copied().unwrap_or(1);
        nodes = nodes.saturating_add(own);
        Ok(TreeNodeRecursion::Continue)
    });
    match counted {
        Ok(_) if nodes <= MOST => Ok(nodes),
        Ok(_) | Err(_) => Err(Refusal::new(
            Reason::Partial,
            "",
            format!("an expression is larger than {MOST} parts when written over the table"),
            "fewer nested subqueries that use a column twice",
        )),
    }
}

/// An expression under the name that the original column has.
fn named(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    Expr::Alias(Alias {
        expr: Box::new(expr),
        relation: qualifier.cloned(),
        name: name.to_owned(),
        metadata: None,
    })
}
