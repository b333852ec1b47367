//! Stage 3: [`Bound`] → [`Analysis`].
//!
//! In: the planned query and the catalog. Out: its private parts, each a sub-plan that ends in one aggregate
//! across privacy units together with everything a mechanism must know (unit, ranges, contribution bounds,
//! sensitivity, public keys), and the public remainder in which every part is a scan of its released table.
//!
//! Nothing is assumed: what the sensitivity relies on is enforced by the rewritten plan (domains at the scan,
//! total expressions, bounded contributions, clamped integer sums). What nobody thought about is refused.
//!
//! ```text
//! Projection n > 3                       Projection n > 3
//!   Aggregate status: LAPLACE count  ⇒     Scan released 0      part 0: Aggregate over enforced rows
//!     Scan adult
//! ```

mod above;
mod below;
mod expr;
mod keys;
mod measure;
mod part;
mod selection;

pub use above::origin::Origin;
pub use below::scalar_subquery::Value;
pub use below::unit::Subject;
pub use below::{MOST_ROWS_OF_A_UNIT, Tables};
pub use expr::domain::{DomainError, typed};
pub(crate) use expr::domain::{enforced, prunes};
pub use keys::lookup::{Lookup, Lookups};
pub use keys::of_part::Keys;
pub use keys::unknown::{DataGroups, Payer};
pub use keys::{KeySpace, MOST_KEYS};
pub use measure::sensitivity::{Limits, Sensitivity, of_sums, range_of_scores};
pub use measure::variance::Moments;
pub use measure::{Gathering, Input, Measure, TermColumns, Use};
pub use part::Part;
pub use selection::by_group::MOST_TERMS;
pub use selection::choice::{Axis, Choice, LineScore, Prices, Prior, Sharing, Source};

pub(crate) use measure::approximate;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};

use crate::bind::{Bound, is_ledger};
use crate::catalog::{Catalog, Privacy, RESERVED};
use crate::dialect::{
    AggregateName, KeysClause, MechanismName, Operand, Selector, hiding_markers, marked,
};
use crate::refusal::{Reason, Refusal};
use above::implicit_bounds::finding_bounds;
use above::null_on_failure::{total_remainder, without_wrapping};
use above::plain_selection::{PlainSelection, plain_selection};
use above::rr_count::estimated;
use above::subquery_semantics::only_true_joins;
use below::relation::{internal, scanned, undeclared};
use keys::unknown::asks_for_threshold;
use part::{CallOf, Context, cut};

/// What a query releases, and how much one unit can change it.
#[derive(Debug)]
pub struct Analysis {
    parts: Vec<Part>,
    remainder: LogicalPlan,
    values: Vec<Value>,
    steps: Vec<String>,
}

impl Analysis {
    /// The private parts, in the order in which they run.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The public remainder, over one released table per part.
    pub fn remainder(&self) -> &LogicalPlan {
        &self.remainder
    }

    /// The released values that later parts use.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// How the analysis went, step by step, for the explanation.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }
}

/// The name under which the remainder scans the released table of part `i`.
pub fn released_name(part: usize) -> String {
    format!("{RESERVED}_released_{part}")
}

/// The part whose released table this is the name of.
pub fn released_part(name: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix("_released_")?.parse().ok()
}

/// Analyzes a bound query against the catalog.
///
/// # Guarantee
/// For every pair of neighbouring databases, and every measure of every part of the result, the integers
/// that the part's enforced plan yields differ by at most the measure's sensitivity (by at most its range,
/// for scores); the remainder reads released and public tables only.
///
/// # Errors
/// A [`Refusal`], with the steps that had succeeded.
pub fn analyze(
    bound: &Bound,
    catalog: &Catalog,
    lookups: &Lookups,
    tables: &dyn Tables,
) -> Result<Analysis, Refusal> {
    finding_bounds(bound, &|bound| analyzed_once(bound, catalog, lookups, tables))
}

fn analyzed_once(
    bound: &Bound,
    catalog: &Catalog,
    lookups: &Lookups,
    tables: &dyn Tables,
) -> Result<Analysis, Refusal> {
    let context = Context { bound, catalog, lookups, tables };
    let mut cutter = Cutter { context, parts: Vec::new(), values: Vec::new(), steps: Vec::new() };
    let remainder = match cutter.public(bound.plan()) {
        Ok(remainder) => remainder,
        Err(refusal) => {
            return Err(hiding_markers(&refusal.after(&cutter.steps), bound.releases()));
        }
    };
    if has_marker(&remainder) {
        return Err(Refusal::new(
            Reason::Place,
            "a release",
            "a release stands where none can",
            "the release in the SELECT list, HAVING or ORDER BY of a query over a private table",
        )
        .after(&cutter.steps));
    }
    only_true_joins(bound.plan())?;
    let remainder = match cutter.parts.is_empty() {
        true => without_wrapping(remainder)?,
        false => total_remainder(remainder)?,
    };
    Ok(Analysis { parts: cutter.parts, remainder, values: cutter.values, steps: cutter.steps })
}

struct Cutter<'a> {
    context: Context<'a>,
    parts: Vec<Part>,
    values: Vec<Value>,
    steps: Vec<String>,
}

impl Cutter<'_> {
    /// Rewrites what stands above the releases; the first private scan without one is refused.
    fn public(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan, Refusal> {
        deeper(|| self.public_node(plan))
    }

    fn public_node(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan, Refusal> {
        match plan {
            LogicalPlan::Aggregate(aggregate) if self.is_private(&aggregate.input) => {
                self.released(aggregate)
            }
            LogicalPlan::Aggregate(aggregate) => {
                if aggregate.aggr_expr.iter().any(|e| CallOf::marker(e).is_some()) {
                    return Err(Refusal::new(
                        Reason::Operand,
                        aggregate.aggr_expr.first().map(ToString::to_string).unwrap_or_default(),
                        "no private table stands below this release, so it would only add noise",
                        "the aggregate without a mechanism",
                    ));
                }
                self.descend(plan)
            }
            LogicalPlan::TableScan(scan) => {
                match scanned(scan, self.context.catalog).map(|t| &t.privacy) {
                    Some(Privacy::Private(_)) => Err(exact(&scan.table_name.to_string())),
                    Some(Privacy::Undeclared) => Err(undeclared(&scan.table_name.to_string())),
                    Some(Privacy::Public) => Ok(plan.clone()),
                    None if is_ledger(&scan.table_name) => Ok(plan.clone()),
                    None => Err(undeclared(&scan.table_name.to_string())),
                }
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_) => {
                self.refuse_target_beside_selection(plan)?;
                self.descend(plan)
            }
            LogicalPlan::Limit(_) => match plain_selection(plan) {
                Some(plain)
                    if self.is_private(&plain.aggregate.input)
                        && self.names_no_mechanism(&plain) =>
                {
                    self.chosen(&plain, plan)
                }
                Some(_) | None => self.descend(plan),
            },
            LogicalPlan::Join(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(_) => self.descend(plan),
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
            | LogicalPlan::RecursiveQuery(_) => Err(Refusal::new(
                Reason::Statement,
                plan.display(),
                "this operator is not part of the dialect",
                "SELECT …",
            )),
        }
    }

    /// The target of a selection is its answer; beside it, it would be the key of every candidate.
    fn refuse_target_beside_selection(&self, plan: &LogicalPlan) -> Result<(), Refusal> {
        let mut below = plan;
        let aggregate = loop {
            below = match below {
                LogicalPlan::Aggregate(aggregate) => break aggregate,
                LogicalPlan::Filter(filter) => &filter.input,
                LogicalPlan::Window(window) => &window.input,
                LogicalPlan::Sort(sort) => &sort.input,
                LogicalPlan::Projection(projection) if std::ptr::eq(below, plan) => {
                    &projection.input
                }
                _ => return Ok(()),
            };
        };
        let releases = self.context.bound.releases();
        let target = aggregate.aggr_expr.iter().find_map(|e| {
            let operand = &releases.get(CallOf::marker(e)?)?.operand;
            let selects = matches!(operand, Operand::Selection(selection) if !selection.named);
            let target = CallOf::function(e)?.params.args.first().filter(|_| selects)?;
            aggregate.group_expr.iter().position(|key| key == target)
        });
        let Some(target) = target.and_then(|i| aggregate.schema.columns().get(i).cloned()) else {
            return Ok(());
        };
        if plan.expressions().iter().all(|e| !e.column_refs().contains(&target)) {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::WinnerPerGroup,
            &target.name,
            format!("{} is what the selection beside it chooses", target.name),
            "the selection alone: its column is the chosen key",
        ))
    }

    /// Rewrites the inputs of a node, and the subqueries in its expressions.
    fn descend(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan, Refusal> {
        let mut refusal = None;
        let mut rewrite = |child: LogicalPlan| match self.public(&child) {
            Ok(rewritten) => Ok(Transformed::yes(rewritten)),
            Err(error) => {
                refusal = Some(error);
                Ok(Transformed::new(child, false, TreeNodeRecursion::Stop))
            }
        };
        let rewritten = plan
            .clone()
            .map_children(&mut rewrite)
            .and_then(|t| t.data.map_subqueries(&mut rewrite));
        match (refusal, rewritten) {
            (Some(refusal), _) => Err(refusal),
            (None, Ok(rewritten)) => {
                self.refuse_long_scalars(&rewritten.data)?;
                estimated(rewritten.data, &self.parts)
            }
            (None, Err(error)) => Err(internal(&error)),
        }
    }

    /// Refuses a scalar subquery that is known to have several rows, which would fail only when it is paid for.
    fn refuse_long_scalars(&self, plan: &LogicalPlan) -> Result<(), Refusal> {
        let mut long = None;
        let outcome = plan.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::ScalarSubquery(subquery) = e {
                    long = long.or(self.several_rows(&subquery.subquery));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        });
        outcome.map_err(|e| internal(&e))?;
        let Some(rows) = long else { return Ok(()) };
        let rows = match rows {
            u64::MAX => "as many as there are groups".to_owned(),
            rows => rows.to_string(),
        };
        Err(Refusal::new(
            Reason::Place,
            "a subquery as a value",
            format!("a value is one row, and this subquery has {rows}"),
            "the subquery in FROM, or ARGMAX in place of TOP, or no GROUP BY",
        ))
    }

    /// How many rows a rewritten plan has, where it shows a released table whole and that has several.
    fn several_rows(&self, plan: &LogicalPlan) -> Option<u64> {
        match plan {
            LogicalPlan::Projection(projection) => self.several_rows(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => self.several_rows(&alias.input),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.several_rows(&sort.input),
            LogicalPlan::TableScan(scan) => {
                let part = self.parts.get(released_part(scan.table_name.table())?)?;
                if part.data_groups().is_some() {
                    return Some(u64::MAX);
                }
                Some(part.rows()?).filter(|rows| *rows > 1)
            }
            _ => None,
        }
    }

    /// The part of an aggregate: the one that was cut from it, or a new one.
    fn part(&mut self, aggregate: &Aggregate, plain: Option<Selector>) -> Result<usize, Refusal> {
        // A CTE that is used twice is planned twice; copies of one release are one draw.
        if let Some(index) = self.parts.iter().position(|part| part.is_of(aggregate, plain)) {
            return Ok(index);
        }
        let valued = self.with_values(aggregate)?;
        let part = cut(&valued, plain, &self.context, &mut self.steps)?.of(aggregate);
        self.parts.push(part);
        Ok(self.parts.len() - 1)
    }

    /// Whether the aggregate by which keys are ordered leaves the mechanism to the engine, and can be a score.
    /// What cannot is released for each key, and sorted as released.
    fn names_no_mechanism(&self, plain: &PlainSelection<'_>) -> bool {
        let scores = |name| matches!(name, Some(AggregateName::Count | AggregateName::Sum));
        plain.aggregate.aggr_expr.iter().all(|e| match CallOf::marker(e) {
            None => {
                let function = CallOf::function(e).map(|call| call.func.name());
                scores(function.and_then(AggregateName::parse))
            }
            Some(n) => self.context.bound.releases().get(n).is_some_and(|r| {
                let Operand::Aggregate(call) = &r.operand else { return false };
                let listed = |keys: &Option<_>| !matches!(keys, Some(KeysClause::Table { .. }));
                r.mechanism == MechanismName::Default
                    && !r.grouping.as_ref().is_some_and(|g| asks_for_threshold(g))
                    && scores(Some(call.function))
                    && r.keys.iter().all(listed)
            }),
        })
    }

    /// Replaces keys ordered by an aggregate that is not shown by a selection among them.
    fn chosen(
        &mut self,
        plain: &PlainSelection<'_>,
        whole: &LogicalPlan,
    ) -> Result<LogicalPlan, Refusal> {
        let index = self.part(plain.aggregate, Some(plain.selector))?;
        let schema = self.parts[index].released_schema();
        let name = released_name(index);
        // The release's own column, which stands behind the key's: its accuracy is known by it.
        let released = schema.fields().last().map(|field| field.name().clone());
        let key = Expr::Column(Column::new(
            Some(TableReference::bare(name.clone())),
            released.unwrap_or_default(),
        ));
        let expressions: Vec<Expr> = whole
            .schema()
            .iter()
            .map(|(qualifier, field)| {
                Expr::Alias(Alias {
                    expr: Box::new(key.clone()),
                    relation: qualifier.cloned(),
                    name: field.name().clone(),
                    metadata: None,
                })
            })
            .collect();
        LogicalPlanBuilder::scan(name, Arc::new(LogicalTableSource::new(schema)), None)
            .and_then(|scan| scan.project(expressions))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))
    }

    /// Replaces an aggregate over private rows by a scan of its released table.
    fn released(&mut self, aggregate: &Aggregate) -> Result<LogicalPlan, Refusal> {
        let index = self.part(aggregate, None)?;
        let part = &self.parts[index];
        let name = released_name(index);
        let source = Arc::new(LogicalTableSource::new(part.released_schema()));
        let columns = part.released_schema();
        let expressions: Vec<Expr> = aggregate
            .schema
            .iter()
            .zip(columns.fields())
            .map(|((qualifier, field), released)| {
                Expr::Alias(Alias {
                    expr: Box::new(Expr::Column(Column::new(
                        Some(TableReference::bare(name.clone())),
                        released.name(),
                    ))),
                    relation: qualifier.cloned(),
                    name: field.name().clone(),
                    metadata: None,
                })
            })
            .collect();
        LogicalPlanBuilder::scan(name.clone(), source, None)
            .and_then(|scan| scan.project(expressions))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))
    }

    /// Whether a plan reads a private or undeclared table anywhere, also in subqueries.
    fn is_private(&self, plan: &LogicalPlan) -> bool {
        let mut found = false;
        let outcome = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(table) = scanned(scan, self.context.catalog)
                && !table.is_public()
            {
                found = true;
                return Ok(TreeNodeRecursion::Stop);
            }
            // What an inner release lets out is public.
            if let LogicalPlan::Aggregate(inner) = node
                && inner.aggr_expr.iter().any(|e| CallOf::marker(e).is_some())
            {
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found || outcome.is_err()
    }
}

/// Runs a step of a recursive walk with enough stack left for it: a deep query ends in an answer or a
/// refusal, not in an abort.
fn deeper<T>(step: impl FnOnce() -> T) -> T {
    const RED_ZONE: usize = 256 * 1024;
    const MORE: usize = 4 * 1024 * 1024;
    stacker::maybe_grow(RED_ZONE, MORE, step)
}

fn exact(table: &str) -> Refusal {
    Refusal::new(
        Reason::Exact,
        table,
        format!("{table} is private, and this query would show its rows or exact values"),
        format!(
            "SELECT LAPLACE(eps=1) COUNT(*) FROM {table}, or ARGMAX EXPONENTIAL(eps=1) column … GROUP BY column"
        ),
    )
}

fn has_marker(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let outcome = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::AggregateFunction(call) = e {
                    found |= marked(call.func.name()).is_some();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    found || outcome.is_err()
}
