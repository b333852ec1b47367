//! The ends of the columns of a plan, node by node.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort,
    SubqueryAlias, Union, Window,
};

use super::interval::{Ends, Span, as_float, ends};
use crate::analysis::measure::ReleaseKind;
use crate::analysis::outcome::{released_name, released_part};
use crate::analysis::part::PrivateAggregate;
use crate::catalog::RESERVED;

/// What is known of a column of a carried plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// No noise is in it.
    Exact,
    /// It lies between two other columns of the plan.
    Within { lo: usize, hi: usize, numbers: u64 },
}

/// A plan whose first columns are those of the original, and what is known of the wanted ones.
pub(super) struct Carried {
    pub(super) plan: LogicalPlan,
    pub(super) known: Vec<Option<Known>>,
}

/// A column, and how many released numbers the result depends on for which its ends are wanted.
pub(super) type Want = (usize, u64);

/// Carries the ends of columns through a plan.
pub(super) struct Carrier<'a> {
    parts: &'a [PrivateAggregate],
    among: &'a [u64],
    columns: usize,
}

/// Columns to add to a plan.
struct Added<'c> {
    known: Vec<Option<Known>>,
    columns: Vec<Expr>,
    carrier: &'c mut usize,
    first: usize,
}

impl Added<'_> {
    /// Adds the ends of one wanted column.
    fn push(&mut self, ends: Option<Ends>) {
        let known = match ends {
            None => None,
            Some(Ends::Exact) => Some(Known::Exact),
            Some(Ends::Within(span)) => {
                let Span { lo, hi, numbers } = *span;
                let place = self.first + self.columns.len();
                for end in [lo, hi] {
                    *self.carrier += 1;
                    self.columns.push(end.alias(format!("{RESERVED}_end_{}", self.carrier)));
                }
                Some(Known::Within { lo: place, hi: place + 1, numbers })
            }
        };
        self.known.push(known);
    }
}

impl<'a> Carrier<'a> {
    pub(super) fn new(parts: &'a [PrivateAggregate], among: &'a [u64]) -> Self {
        Self { parts, among, columns: 0 }
    }

    fn added(&mut self, first: usize) -> Added<'_> {
        Added { known: Vec::new(), columns: Vec::new(), carrier: &mut self.columns, first }
    }

    /// The plan with the ends of the wanted columns behind its own; `None` where no plan can be made.
    pub(super) fn carry(&mut self, plan: &LogicalPlan, wants: &[Want]) -> Option<Carried> {
        if wants.is_empty() {
            return Some(Carried { plan: plan.clone(), known: Vec::new() });
        }
        if let LogicalPlan::TableScan(scan) = plan {
            return match released_part(scan.table_name.table()) {
                Some(part) => self.released(part, wants),
                None => Some(Self::exact(plan, wants)),
            };
        }
        if matches!(plan, LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_)) {
            return Some(Self::exact(plan, wants));
        }
        if let LogicalPlan::Projection(projection) = plan {
            return self.projected(projection, wants);
        }
        if let LogicalPlan::Filter(filter) = plan {
            let below = self.carry(&filter.input, wants)?;
            let filter = Filter::try_new(filter.predicate.clone(), Arc::new(below.plan)).ok()?;
            return Some(Carried { plan: LogicalPlan::Filter(filter), ..below });
        }
        if let LogicalPlan::Sort(sort) = plan {
            let below = self.carry(&sort.input, wants)?;
            let input = Arc::new(below.plan);
            let sort = Sort { expr: sort.expr.clone(), input, fetch: sort.fetch };
            return Some(Carried { plan: LogicalPlan::Sort(sort), known: below.known });
        }
        if let LogicalPlan::Limit(limit) = plan {
            let below = self.carry(&limit.input, wants)?;
            let limit = Limit { input: Arc::new(below.plan), ..limit.clone() };
            return Some(Carried { plan: LogicalPlan::Limit(limit), known: below.known });
        }
        if let LogicalPlan::SubqueryAlias(alias) = plan {
            let below = self.carry(&alias.input, wants)?;
            let named = SubqueryAlias::try_new(Arc::new(below.plan), alias.alias.clone()).ok()?;
            return Some(Carried { plan: LogicalPlan::SubqueryAlias(named), known: below.known });
        }
        if let LogicalPlan::Window(window) = plan {
            return self.windowed(window, wants);
        }
        if let LogicalPlan::Aggregate(aggregate) = plan {
            return self.aggregated(aggregate, wants);
        }
        if let LogicalPlan::Join(join) = plan {
            return self.joined(join, wants);
        }
        if let LogicalPlan::Union(union) = plan {
            return self.united(union, wants);
        }
        Some(Carried { plan: plan.clone(), known: vec![None; wants.len()] })
    }

    /// Public rows have no noise.
    fn exact(plan: &LogicalPlan, wants: &[Want]) -> Carried {
        Carried { plan: plan.clone(), known: vec![Some(Known::Exact); wants.len()] }
    }

    /// A released table: each number within its ± at the wanted confidence.
    fn released(&mut self, part: usize, wants: &[Want]) -> Option<Carried> {
        let own = self.parts.get(part)?;
        let (keys, measures) = (own.key_names().len(), own.measures().len());
        let schema = with_errors(own, self.among);
        let source = Arc::new(LogicalTableSource::new(schema));
        let scan = LogicalPlanBuilder::scan(released_name(part), source, None).ok()?;
        let scan = scan.build().ok()?;
        let schema = Arc::clone(scan.schema());
        let columns = schema.columns();
        let mut all: Vec<Expr> =
            columns.iter().take(keys + measures).cloned().map(Expr::Column).collect();
        let among = self.among;
        let mut added = self.added(all.len());
        for (column, numbers) in wants {
            let Some(measure) = column.checked_sub(keys) else {
                added.push(own.keys().target_position().is_none().then_some(Ends::Exact));
                continue;
            };
            let is_number = own
                .measures()
                .get(measure)
                .is_some_and(|measure| matches!(measure.release_kind, ReleaseKind::Number(_)));
            let level = among.iter().position(|one| one == numbers)?;
            let off = columns.get(keys + measures + level * measures + measure)?;
            let value = as_float(Expr::Column(columns.get(*column)?.clone()), &schema);
            let within = |value: Expr| {
                let off = || Expr::Column(off.clone());
                Ends::within(value.clone() - off(), value + off(), 1)
            };
            added.push(value.filter(|_| is_number).map(within));
        }
        let Added { known, columns, .. } = added;
        all.extend(columns);
        let plan = Projection::try_new(all, Arc::new(scan)).ok()?;
        Some(Carried { plan: LogicalPlan::Projection(plan), known })
    }

    /// The wanted columns of an input: all columns of some expressions.
    fn read(exprs: &[(&Expr, u64)], schema: &DFSchema) -> Option<Vec<Want>> {
        let mut wants = Vec::new();
        for (expr, numbers) in exprs {
            for column in expr.column_refs() {
                let want = (schema.maybe_index_of_column(column)?, *numbers);
                if !wants.contains(&want) {
                    wants.push(want);
                }
            }
        }
        Some(wants)
    }

    fn projected(&mut self, projection: &Projection, wants: &[Want]) -> Option<Carried> {
        let made: Option<Vec<(&Expr, u64)>> =
            wants.iter().map(|(i, numbers)| Some((projection.expr.get(*i)?, *numbers))).collect();
        let made = made?;
        let below_wants = Self::read(&made, projection.input.schema())?;
        let below = self.carry(&projection.input, &below_wants)?;
        let mut columns = projection.expr.clone();
        let mut added = self.added(columns.len());
        for (expr, numbers) in made {
            added.push(ends_over(&below, &below_wants, expr, numbers));
        }
        let Added { known, columns: more, .. } = added;
        columns.extend(more);
        let plan = Projection::try_new(columns, Arc::new(below.plan)).ok()?;
        Some(Carried { plan: LogicalPlan::Projection(plan), known })
    }

    /// Window functions over public partitions and orders, of which the result never falls where an argument grows.
    fn windowed(&mut self, window: &Window, wants: &[Want]) -> Option<Carried> {
        let inputs = window.input.schema().fields().len();
        let rows = self.rows(&window.input);
        let call = |i: usize| -> Option<&WindowFunction> {
            let called = bare(window.window_expr.get(i.checked_sub(inputs)?)?);
            if let Expr::WindowFunction(call) = called { Some(call) } else { None }
        };
        let mut below_wants: Vec<Want> = Vec::new();
        for (i, numbers) in wants {
            let read = match call(*i) {
                None if *i < inputs => vec![(*i, *numbers)],
                None => Vec::new(),
                Some(call) => {
                    let orders = call.params.order_by.iter().map(|sort| &sort.expr);
                    let read = call.params.args.iter().chain(&call.params.partition_by);
                    let read: Vec<_> = read.chain(orders).map(|e| (e, *numbers)).collect();
                    Self::read(&read, window.input.schema())?
                }
            };
            below_wants.extend(read);
        }
        below_wants.dedup();
        let below = self.carry(&window.input, &below_wants)?;
        let hidden = below.plan.schema().fields().len() - inputs;
        let own = window.window_expr.len();
        let schema = window.input.schema();
        let mut known = Vec::new();
        let mut more: Vec<Expr> = Vec::new();
        for (i, numbers) in wants {
            let Some(call) = call(*i) else {
                let place = below_wants.iter().position(|want| *want == (*i, *numbers));
                let found = place.and_then(|place| below.known.get(place).copied().flatten());
                known.push(found.map(|found| shifted(found, own)));
                continue;
            };
            let over = |e: &Expr| ends_over(&below, &below_wants, e, *numbers);
            let params = &call.params;
            let orders = params.order_by.iter().map(|sort| &sort.expr);
            let public = params.partition_by.iter().chain(orders);
            let public = public.chain(params.args.iter().skip(1));
            let is_public = public.into_iter().all(|e| matches!(over(e), Some(Ends::Exact)));
            let times = match call.fun.name() {
                "sum" | "avg" | "min" | "max" => rows,
                "lag" | "lead" | "first_value" | "last_value" => Some(1),
                _ => None,
            };
            let first = params.args.first().filter(|_| is_public && params.filter.is_none());
            let Some((Ends::Within(span), times)) = first.and_then(over).zip(times) else {
                known.push(None);
                continue;
            };
            let Span { lo, hi, numbers } = *span;
            let place = inputs + own + hidden + more.len();
            for end in [lo, hi] {
                let mut call = call.clone();
                let mut args = vec![end];
                args.extend(params.args.get(1).cloned());
                args.extend(params.args.get(2).and_then(|other| as_float(other.clone(), schema)));
                call.params.args = args;
                self.columns += 1;
                let name = format!("{RESERVED}_end_{}", self.columns);
                more.push(Expr::WindowFunction(Box::new(call)).alias(name));
            }
            let numbers = numbers.checked_mul(times)?;
            known.push(Some(Known::Within { lo: place, hi: place + 1, numbers }));
        }
        let calls = window.window_expr.iter().cloned().chain(more).collect::<Vec<_>>();
        let all = inputs + hidden + calls.len();
        let plan = Window::try_new(calls, Arc::new(below.plan)).ok()?;
        // The input's own columns, the calls' own, and all ends behind them.
        let first = (0..inputs).chain(inputs + hidden..inputs + hidden + own);
        let order = first.chain(inputs..inputs + hidden).chain(inputs + hidden + own..all);
        let plan = in_order(LogicalPlan::Window(plan), order)?;
        Some(Carried { plan, known })
    }

    /// Sums, means and extremes of released numbers over public groups.
    fn aggregated(&mut self, aggregate: &Aggregate, wants: &[Want]) -> Option<Carried> {
        let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let rows = self.rows(&aggregate.input);
        let call = |i: usize| -> Option<&AggregateFunction> {
            let called = bare(aggregate.aggr_expr.get(i.checked_sub(groups)?)?);
            if let Expr::AggregateFunction(call) = called { Some(call) } else { None }
        };
        let mut below_wants: Vec<Want> = Vec::new();
        for (i, numbers) in wants {
            let args = call(*i).map_or(&[][..], |call| &call.params.args);
            let read = aggregate.group_expr.iter().chain(args).map(|e| (e, *numbers));
            for want in Self::read(&read.collect::<Vec<_>>(), aggregate.input.schema())? {
                if !below_wants.contains(&want) {
                    below_wants.push(want);
                }
            }
        }
        let below = self.carry(&aggregate.input, &below_wants)?;
        let mut known = Vec::new();
        let mut more: Vec<Expr> = Vec::new();
        for (i, numbers) in wants {
            let over = |e: &Expr| ends_over(&below, &below_wants, e, *numbers);
            let is_public =
                aggregate.group_expr.iter().all(|e| matches!(over(e), Some(Ends::Exact)));
            let Some(call) = call(*i) else {
                known.push(is_public.then_some(Known::Exact));
                continue;
            };
            let params = &call.params;
            let plain = !params.distinct && params.filter.is_none() && params.order_by.is_empty();
            let read = params.args.iter().chain(params.filter.as_deref());
            let is_exact = |e: &Expr| matches!(over(e), Some(Ends::Exact));
            if is_public && params.order_by.is_empty() && read.into_iter().all(is_exact) {
                known.push(Some(Known::Exact));
                continue;
            }
            let grows = matches!(call.func.name(), "sum" | "avg" | "min" | "max");
            let [arg] = params.args.as_slice() else {
                known.push(None);
                continue;
            };
            let (true, Some(Ends::Within(span)), Some(rows)) =
                (is_public && plain && grows, over(arg), rows)
            else {
                known.push(None);
                continue;
            };
            let Span { lo, hi, numbers } = *span;
            let place = aggregate.schema.fields().len() + more.len();
            for end in [lo, hi] {
                let mut call = call.clone();
                call.params.args = vec![end];
                self.columns += 1;
                let name = format!("{RESERVED}_end_{}", self.columns);
                more.push(Expr::AggregateFunction(call).alias(name));
            }
            let numbers = numbers.checked_mul(rows)?;
            known.push(Some(Known::Within { lo: place, hi: place + 1, numbers }));
        }
        let calls = aggregate.aggr_expr.iter().cloned().chain(more).collect();
        let groups = aggregate.group_expr.clone();
        let plan = Aggregate::try_new(Arc::new(below.plan), groups, calls).ok()?;
        Some(Carried { plan: LogicalPlan::Aggregate(plan), known })
    }

    /// A join on columns without noise.
    fn joined(&mut self, join: &Join, wants: &[Want]) -> Option<Carried> {
        let kept = matches!(
            join.join_type,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
        );
        if !kept {
            return Some(Carried {
                plan: LogicalPlan::Join(join.clone()),
                known: vec![None; wants.len()],
            });
        }
        let left_columns = join.left.schema().fields().len();
        let right_columns = join.right.schema().fields().len();
        let level = wants.first()?.1;
        let side = |first: Option<&Expr>, exprs: Vec<&Expr>, schema: &DFSchema| {
            let compared = exprs.into_iter().flat_map(Expr::column_refs);
            let filtered = first.into_iter().flat_map(Expr::column_refs);
            let filtered = filtered.filter(|column| schema.maybe_index_of_column(column).is_some());
            let columns = compared.chain(filtered);
            columns.map(|c| Some((schema.maybe_index_of_column(c)?, level))).collect()
        };
        let filter = join.filter.as_ref();
        let on = join.on.iter().map(|(l, _)| l).collect();
        let conditions: Option<Vec<Want>> = side(filter, on, join.left.schema());
        let mut left_wants = conditions?;
        let compared = left_wants.len();
        let on = join.on.iter().map(|(_, r)| r).collect();
        let conditions: Option<Vec<Want>> = side(filter, on, join.right.schema());
        let mut right_wants = conditions?;
        let also = right_wants.len();
        for (i, numbers) in wants {
            match i.checked_sub(left_columns) {
                None => left_wants.push((*i, *numbers)),
                Some(i) => right_wants.push((i, *numbers)),
            }
        }
        let left = self.carry(&join.left, &left_wants)?;
        let right = self.carry(&join.right, &right_wants)?;
        let (left_known, right_known) = (left.known.iter(), right.known.iter());
        let mut on = left_known.clone().take(compared).chain(right_known.clone().take(also));
        let is_public = on.all(|known| matches!(known, Some(Known::Exact)));
        let left_all = left.plan.schema().fields().len();
        let right_all = right.plan.schema().fields().len();
        let (mut lefts, mut rights) = (left_known.skip(compared), right_known.skip(also));
        let hidden = left_all - left_columns;
        let known = wants.iter().map(|(i, _)| {
            let found = match *i < left_columns {
                true => shifted(lefts.next().copied().flatten()?, right_columns),
                false => shifted(rights.next().copied().flatten()?, left_columns + hidden),
            };
            Some(found).filter(|_| is_public)
        });
        let known = known.collect();
        let schema =
            build_join_schema(left.plan.schema(), right.plan.schema(), &join.join_type).ok()?;
        let plan = Join {
            left: Arc::new(left.plan),
            right: Arc::new(right.plan),
            schema: Arc::new(schema),
            ..join.clone()
        };
        let first = (0..left_columns).chain(left_all..left_all + right_columns);
        let rest = (left_columns..left_all).chain(left_all + right_columns..left_all + right_all);
        let plan = in_order(LogicalPlan::Join(plan), first.chain(rest))?;
        Some(Carried { plan, known })
    }

    /// Branches that give the ends of the same columns; a branch without noise gives the numbers themselves.
    fn united(&mut self, union: &Union, wants: &[Want]) -> Option<Carried> {
        let carried: Option<Vec<Carried>> =
            union.inputs.iter().map(|input| self.carry(input, wants)).collect();
        let carried = carried?;
        let own = union.schema.fields().len();
        let (mut known, mut ends_of) = (Vec::new(), vec![Vec::new(); carried.len()]);
        for (w, (column, _)) in wants.iter().enumerate() {
            let each: Vec<_> =
                carried.iter().map(|one| one.known.get(w).copied().flatten()).collect();
            let noisy = each.iter().any(|known| matches!(known, Some(Known::Within { .. })));
            if each.iter().any(Option::is_none) {
                known.push(None);
                continue;
            }
            if !noisy {
                known.push(Some(Known::Exact));
                continue;
            }
            let place = own + ends_of.first().map_or(0, Vec::len);
            let mut most = 0;
            for ((one, known), ends) in carried.iter().zip(each).zip(&mut ends_of) {
                let at = |i: usize| Some(Expr::Column(nth(&one.plan, i)?));
                match known? {
                    Known::Exact => {
                        let value = as_float(at(*column)?, one.plan.schema())?;
                        ends.extend([value.clone(), value]);
                    }
                    Known::Within { lo, hi, numbers } => {
                        most = most.max(numbers);
                        ends.extend([at(lo)?, at(hi)?]);
                    }
                }
            }
            known.push(Some(Known::Within { lo: place, hi: place + 1, numbers: most }));
        }
        let more = ends_of.first().map_or(0, Vec::len);
        let names: Vec<String> = (0..more)
            .map(|_| {
                self.columns += 1;
                format!("{RESERVED}_end_{}", self.columns)
            })
            .collect();
        let mut inputs = Vec::with_capacity(carried.len());
        for (one, ends) in carried.into_iter().zip(ends_of) {
            let columns = one.plan.schema().columns().into_iter().take(own).map(Expr::Column);
            let ends = ends.into_iter().zip(&names).map(|(end, name)| end.alias(name));
            let all = columns.chain(ends).collect();
            let plan = Projection::try_new(all, Arc::new(one.plan)).ok()?;
            inputs.push(Arc::new(LogicalPlan::Projection(plan)));
        }
        let fields = union.schema.iter().map(|(q, field)| (q.cloned(), Arc::clone(field)));
        let ends = names.iter().map(|name| {
            let field = Field::new(name, DataType::Float64, true);
            (None, Arc::new(field))
        });
        let schema = DFSchema::new_with_metadata(
            fields.chain(ends).collect(),
            union.schema.metadata().clone(),
        );
        let plan = Union { inputs, schema: Arc::new(schema.ok()?) };
        Some(Carried { plan: LogicalPlan::Union(plan), known })
    }

    /// The most rows of a plan over released tables, where that is public.
    fn rows(&self, plan: &LogicalPlan) -> Option<u64> {
        if let LogicalPlan::TableScan(scan) = plan {
            return self.parts.get(released_part(scan.table_name.table())?)?.rows();
        }
        let passes = matches!(
            plan,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Aggregate(_)
        );
        let union = matches!(plan, LogicalPlan::Union(_));
        let inputs = plan.inputs().into_iter().map(|input| self.rows(input));
        match passes || union {
            true => inputs.reduce(|a, b| a?.checked_add(b?))?,
            false => None,
        }
    }
}

/// The ends of an expression over a carried plan.
fn ends_over(below: &Carried, wants: &[Want], expr: &Expr, numbers: u64) -> Option<Ends> {
    let schema = below.plan.schema();
    ends(expr, schema, &|column| {
        let i = schema.maybe_index_of_column(column)?;
        let place = wants.iter().position(|want| *want == (i, numbers))?;
        Some(match below.known.get(place).copied().flatten()? {
            Known::Exact => Ends::Exact,
            Known::Within { lo, hi, numbers } => {
                let end = |place| Some(Expr::Column(nth(&below.plan, place)?));
                Ends::within(end(lo)?, end(hi)?, numbers)
            }
        })
    })
}

/// An expression without its names.
fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

/// The ends behind further columns.
fn shifted(known: Known, by: usize) -> Known {
    match known {
        Known::Exact => Known::Exact,
        Known::Within { lo, hi, numbers } => Known::Within { lo: lo + by, hi: hi + by, numbers },
    }
}

/// The columns of a plan in another order, under their names.
fn in_order(plan: LogicalPlan, order: impl Iterator<Item = usize>) -> Option<LogicalPlan> {
    let columns: Option<Vec<Expr>> = order.map(|i| Some(Expr::Column(nth(&plan, i)?))).collect();
    let plan = Projection::try_new(columns?, Arc::new(plan)).ok()?;
    Some(LogicalPlan::Projection(plan))
}

/// A released table, and behind it, for each number of numbers, the ± of each measure.
pub(super) fn with_errors(part: &PrivateAggregate, among: &[u64]) -> SchemaRef {
    let released = part.released_schema();
    let measures = part.measures().len();
    let errors = among.iter().flat_map(|numbers| {
        (0..measures).map(move |i| {
            let name = format!("{RESERVED}_off_{i}_{numbers}");
            Arc::new(Field::new(name, DataType::Float64, true))
        })
    });
    Arc::new(Schema::new(released.fields().iter().cloned().chain(errors).collect::<Vec<_>>()))
}

/// A column of a plan by its position.
pub(super) fn nth(plan: &LogicalPlan, i: usize) -> Option<Column> {
    plan.schema().columns().get(i).cloned()
}
