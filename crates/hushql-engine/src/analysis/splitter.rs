//! Splits a query: cuts private aggregates out of it, and keeps the public plan above them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Projection,
};

use crate::analysis::above::nested_options::without_mechanisms;
use crate::analysis::above::plain_selection::{PlainSelection, plain_selection};
use crate::analysis::above::rr_count::estimated;
use crate::analysis::below::refusals::undeclared;
use crate::analysis::below::relation::scanned;
use crate::analysis::context::Context;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::analysis::keys::default_delta::offers_keys;
use crate::analysis::keys::unknown::asks_for_threshold;
use crate::analysis::not_analyzed::{CallPlace, NoRange, NotAnalyzed, internal};
use crate::analysis::outcome::{Value, released_name, released_part};
use crate::analysis::private_aggregate::{PrivateAggregate, cut};
use crate::analysis::recursion::deeper;
use crate::bind::grouping_sets::set_of;
use crate::bind::sources::is_ledger;
use crate::catalog::{Privacy, quoted};
use crate::dialect::{AggregateName, KeysClause, MechanismName, Operand, Selector, marked};
use crate::refusal::{Reason, Refusal};

mod scalar_subquery;

pub(crate) struct Splitter<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) parts: Vec<PrivateAggregate>,
    pub(crate) values: Vec<Value>,
    pub(crate) steps: Vec<String>,
    /// The number of sets that share the cost of the aggregate below, if it belongs to one of them.
    pub(crate) sets: Option<u64>,
}

impl Splitter<'_> {
    /// Rewrites the plan above the releases. Refuses the first private scan without a release.
    pub(crate) fn public(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan, NotAnalyzed> {
        deeper(|| self.public_node(plan))
    }

    fn public_node(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan, NotAnalyzed> {
        let sets = self.sets.take();
        match plan {
            LogicalPlan::Aggregate(aggregate) if self.is_private(&aggregate.input) => {
                let so_far = self.so_far();
                match self.released(aggregate, sets) {
                    Err(NotAnalyzed::ManyUnits(refusal)) if names_no_release(aggregate) => {
                        self.undo(so_far);
                        self.above_release(plan, aggregate, refusal)
                    }
                    released => released,
                }
            }
            LogicalPlan::Aggregate(aggregate) => {
                if names_no_release(aggregate) {
                    return self.descend(plan);
                }
                match without_mechanisms(aggregate, self.context.bound.releases())? {
                    Some(plain) => {
                        self.steps
                            .push("OPTIONS above released rows: computed from them".to_owned());
                        self.descend(&LogicalPlan::Aggregate(plain))
                    }
                    None => Err(nothing_private(aggregate).into()),
                }
            }
            LogicalPlan::TableScan(scan) => {
                match scanned(scan, self.context.catalog).map(|t| &t.privacy) {
                    Some(Privacy::Private(_)) => Err(exact(&scan.table_name.to_string()).into()),
                    Some(Privacy::Undeclared) => {
                        Err(undeclared(&scan.table_name.to_string()).into())
                    }
                    Some(Privacy::Public) => Ok(plan.clone()),
                    None if is_ledger(&scan.table_name) => Ok(plan.clone()),
                    None => Err(undeclared(&scan.table_name.to_string()).into()),
                }
            }
            LogicalPlan::Projection(projection) => {
                self.refuse_target_beside_selection(plan)?;
                self.sets = set_of(projection).or(sets);
                self.descend(plan)
            }
            LogicalPlan::Filter(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
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
            | LogicalPlan::Values(_) => self.descend(plan),
            LogicalPlan::Distinct(distinct) => {
                let counted = |refusal| counted_values(refusal, distinct.input());
                let so_far = self.so_far();
                match self.descend(plan) {
                    Err(NotAnalyzed::Refused(refusal)) if refusal.reason() == Reason::Exact => {
                        self.undo(so_far);
                        self.distinct_keys(distinct, sets, counted(refusal))
                    }
                    rewritten => rewritten.map_err(|refused| refused.said(counted)),
                }
            }
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
            )
            .into()),
        }
    }

    /// Handles an aggregate without a mechanism over an inner aggregate that mixes the rows of many
    /// units. The inner one is released at the default cost, and the outer one is computed from the
    /// released numbers.
    fn above_release(
        &mut self,
        plan: &LogicalPlan,
        aggregate: &Aggregate,
        refusal: Refusal,
    ) -> Result<LogicalPlan, NotAnalyzed> {
        let so_far = self.so_far();
        match self.descend(plan) {
            Ok(rewritten) => {
                let calls = aggregate.aggr_expr.iter().map(|e| e.schema_name().to_string());
                let calls: Vec<String> = calls.collect();
                for part in self.parts.iter_mut().skip(so_far[0]) {
                    part.aggregate_above(calls.join(", "));
                }
                Ok(rewritten)
            }
            Err(NotAnalyzed::Fault(fault)) => Err(NotAnalyzed::Fault(fault)),
            // The caller finds its bounds, and comes back.
            Err(NotAnalyzed::NoRange(missing @ NoRange { call: Some(CallPlace::Bare(_)), .. })) => {
                self.undo(so_far);
                Err(NotAnalyzed::NoRange(missing))
            }
            Err(NotAnalyzed::Refused(_) | NotAnalyzed::NoRange(_) | NotAnalyzed::ManyUnits(_)) => {
                self.undo(so_far);
                Err(NotAnalyzed::ManyUnits(refusal))
            }
        }
    }

    /// Distinct rows of private tables as groups of which only the keys are shown. `refusal` is
    /// that of the rows themselves; it stays if no budget offers a δ for keys, or the keys are
    /// public.
    fn distinct_keys(
        &mut self,
        distinct: &Distinct,
        sets: Option<u64>,
        refusal: Refusal,
    ) -> Result<LogicalPlan, NotAnalyzed> {
        let Distinct::All(input) = distinct else { return Err(refusal.into()) };
        if !offers_keys(self.context.catalog) {
            return Err(refusal.into());
        }
        let keys = input.schema().columns().into_iter().map(Expr::Column).collect();
        let aggregate = Aggregate::try_new(Arc::clone(input), keys, Vec::new());
        let aggregate = aggregate.map_err(|e| internal(&e))?;
        let so_far = self.so_far();
        self.released(&aggregate, sets).map_err(|error| match error {
            NotAnalyzed::Refused(own) if own.reason() == Reason::Exact => {
                self.undo(so_far);
                refusal.into()
            }
            error => error,
        })
    }

    /// The numbers of private aggregates, values and steps so far.
    fn so_far(&self) -> [usize; 3] {
        [self.parts.len(), self.values.len(), self.steps.len()]
    }

    /// Removes what was added since then, so that nothing that failed is released or charged.
    fn undo(&mut self, [parts, values, steps]: [usize; 3]) {
        self.parts.truncate(parts);
        self.values.truncate(values);
        self.steps.truncate(steps);
    }

    /// Refuses a SELECT that shows a selection together with its target. The selection already
    /// returns the chosen value of the target; beside it, the target would be the key of every
    /// candidate.
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
    fn descend(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan, NotAnalyzed> {
        let mut failed = None;
        let mut rewrite = |child: LogicalPlan| match self.public(&child) {
            Ok(rewritten) => Ok(Transformed::yes(rewritten)),
            Err(error) => {
                failed = Some(error);
                Ok(Transformed::new(child, false, TreeNodeRecursion::Stop))
            }
        };
        let rewritten = plan
            .clone()
            .map_children(&mut rewrite)
            .and_then(|t| t.data.map_subqueries(&mut rewrite));
        match (failed, rewritten) {
            (Some(error), _) => Err(error),
            (None, Ok(rewritten)) => {
                self.refuse_long_scalars(&rewritten.data)?;
                estimated(rewritten.data, &self.parts)
            }
            (None, Err(error)) => Err(internal(&error)),
        }
    }

    /// Refuses a scalar subquery that is known to have several rows. Otherwise it would fail only
    /// after the charge.
    fn refuse_long_scalars(&self, plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
        let mut long = None;
        let outcome = plan.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::ScalarSubquery(subquery) = e {
                    long = long.or(self.rows(&subquery.subquery).filter(|rows| *rows > 1));
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
        )
        .into())
    }

    /// A lower bound on the number of rows of a rewritten plan that shows whole released tables.
    fn rows(&self, plan: &LogicalPlan) -> Option<u64> {
        match plan {
            LogicalPlan::Projection(projection) => self.rows(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => self.rows(&alias.input),
            LogicalPlan::Union(union) => {
                let known = union.inputs.iter().filter_map(|input| self.rows(input));
                Some(known.fold(0, u64::saturating_add))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.rows(&sort.input),
            LogicalPlan::TableScan(scan) => {
                let part = self.parts.get(released_part(scan.table_name.table())?)?;
                if part.unknown_partitions().is_some() {
                    return Some(u64::MAX);
                }
                part.rows()
            }
            _ => None,
        }
    }

    /// The private aggregate for an aggregate: the one already cut from an equal aggregate, or a
    /// new one.
    fn part(
        &mut self,
        aggregate: &Aggregate,
        plain: Option<Selector>,
        sets: Option<u64>,
    ) -> Result<usize, NotAnalyzed> {
        // A CTE that is used twice is planned twice, but copies of one release are one draw.
        if let Some(index) = self.parts.iter().position(|part| part.is_of(aggregate, plain)) {
            return Ok(index);
        }
        let valued = self.with_values(aggregate)?;
        let part = cut(&valued, plain, sets, &self.context, &mut self.steps);
        // What chooses a key is a score: the bounds of scores are not found.
        let written = if plain.is_none() { Some(aggregate) } else { None };
        let part = part.map_err(|error| error.in_node(written))?;
        let part = part.cut_from(aggregate);
        self.parts.push(part);
        Ok(self.parts.len() - 1)
    }

    /// True if the aggregate that orders the keys leaves the mechanism to the engine and can be a
    /// score. Any other aggregate is released for each key, and the released numbers are sorted.
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

    /// Replaces keys that are ordered by a hidden aggregate with a selection among these keys.
    fn chosen(
        &mut self,
        plain: &PlainSelection<'_>,
        whole: &LogicalPlan,
    ) -> Result<LogicalPlan, NotAnalyzed> {
        let index = self.part(plain.aggregate, Some(plain.selector), None)?;
        let schema = self.parts[index].released_schema();
        let name = released_name(index);
        // The release's own column stands behind the key's column, and carries its accuracy.
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

    /// Replaces an aggregate over private rows with a scan of its released table.
    fn released(
        &mut self,
        aggregate: &Aggregate,
        sets: Option<u64>,
    ) -> Result<LogicalPlan, NotAnalyzed> {
        let index = self.part(aggregate, None, sets)?;
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

    /// True if a plan reads a private or undeclared table, also in a subquery.
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
            // The output of an inner release is public.
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

/// The refusal of a mechanism over released or public rows.
fn nothing_private(aggregate: &Aggregate) -> Refusal {
    Refusal::new(
        Reason::Operand,
        aggregate.aggr_expr.first().map(ToString::to_string).unwrap_or_default(),
        "no private table stands below this release, so it would only add noise",
        "the aggregate without a mechanism",
    )
}

/// True if no aggregate of the node is written with a mechanism.
fn names_no_release(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().all(|e| CallOf::marker(e).is_none())
}

/// The refusal of distinct values, with a query that counts the rows of each value.
fn counted_values(refusal: Refusal, values: &LogicalPlan) -> Refusal {
    const MOST: usize = 3;
    let LogicalPlan::Projection(Projection { expr, input, .. }) = values else { return refusal };
    if refusal.reason() != Reason::Exact || expr.len() > MOST {
        return refusal;
    }
    let columns = expr.iter().map(readable).collect::<Vec<_>>().join(", ");
    let table = refusal.clause();
    let written = quoted(table);
    let condition = if let LogicalPlan::Filter(filter) = input.as_ref()
        && matches!(*filter.input, LogicalPlan::TableScan(_))
    {
        format!(" WHERE {}", readable(&filter.predicate))
    } else {
        String::new()
    };
    let message = format!(
        "{}; the values that their domains allow come out with how many rows have each",
        refusal.message()
    );
    let hint = format!(
        "SELECT {columns}, LAPLACE(eps=1) COUNT(*) FROM {written}{condition} GROUP BY {columns}"
    );
    Refusal::new(Reason::Exact, table, message, hint)
}

pub(crate) fn exact(table: &str) -> Refusal {
    Refusal::new(
        Reason::Exact,
        table,
        format!("{table} is private, and this query would show its rows or exact values"),
        format!(
            "SELECT LAPLACE(eps=1) COUNT(*) FROM {}, or ARGMAX EXPONENTIAL(eps=1) column … GROUP BY column",
            quoted(table)
        ),
    )
}

pub(crate) fn has_marker(plan: &LogicalPlan) -> bool {
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
