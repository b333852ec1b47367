//! The ends of the columns of a plan, node by node.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::{
    Expr, Filter, Join, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, Subquery,
    SubqueryAlias, Union,
};

use super::error_interval::{IntervalEnds, Reads, Span, as_float, ends};
use crate::analysis::measure::{Measure, ReleaseKind};
use crate::analysis::outcome::{released_name, released_part};
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::catalog::RESERVED;
use crate::dialect::Finding;

/// The interval of a column of a carried plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum ColumnError {
    /// It contains no noise.
    Exact,
    /// It lies between two other columns of the plan.
    /// It is NULL where a floor hides a number, if `may_be_hidden`.
    Within { lo: usize, hi: usize, numbers: u64, may_be_hidden: bool },
}

/// A plan whose first columns are the original ones, and the intervals of the wanted columns.
pub(super) struct Carried {
    pub(super) plan: LogicalPlan,
    pub(super) known: Vec<Option<ColumnError>>,
}

/// A column whose ends are wanted, and how many released numbers the result depends on.
pub(super) type Want = (usize, u64);

/// Carries the ends of columns through a plan.
pub(super) struct Carrier<'a> {
    parts: &'a [PrivateAggregate],
    among: &'a [u64],
    /// A prefix for the names of its own columns, because one plan can be carried twice.
    purpose: &'static str,
    columns: Cell<usize>,
}

/// Columns to add to a plan.
struct Added<'c> {
    known: Vec<Option<ColumnError>>,
    columns: Vec<Expr>,
    carrier: &'c Carrier<'c>,
    first: usize,
}

impl Added<'_> {
    /// Adds the ends of one wanted column.
    fn push(&mut self, ends: Option<IntervalEnds>) {
        let known = match ends {
            None => None,
            Some(IntervalEnds::Exact) => Some(ColumnError::Exact),
            Some(IntervalEnds::Within(span)) => {
                let Span { lo, hi, numbers, may_be_hidden } = *span;
                let place = self.first + self.columns.len();
                for end in [lo, hi] {
                    self.columns.push(end.alias(self.carrier.name()));
                }
                Some(ColumnError::Within { lo: place, hi: place + 1, numbers, may_be_hidden })
            }
        };
        self.known.push(known);
    }
}

impl<'a> Carrier<'a> {
    pub(super) fn new(
        parts: &'a [PrivateAggregate],
        among: &'a [u64],
        purpose: &'static str,
    ) -> Self {
        Self { parts, among, purpose, columns: Cell::new(0) }
    }

    fn added(&self, first: usize) -> Added<'_> {
        Added { known: Vec::new(), columns: Vec::new(), carrier: self, first }
    }

    /// A name that no other column has.
    pub(super) fn name(&self) -> String {
        self.columns.set(self.columns.get() + 1);
        format!("{RESERVED}_{}_{}", self.purpose, self.columns.get())
    }

    /// The interval of a subquery as a value. A bound that was found is the scale of what is added
    /// up under it, and no error counts what it cuts.
    fn value(&self, subquery: &Subquery, numbers: u64) -> Option<IntervalEnds> {
        if !subquery.outer_ref_columns.is_empty() {
            return None;
        }
        if self.is_found_bound(&subquery.subquery) {
            return Some(IntervalEnds::Exact);
        }
        let carried = self.carry(&subquery.subquery, &[(0, numbers)])?;
        Some(match carried.known.first().copied().flatten()? {
            ColumnError::Exact => IntervalEnds::Exact,
            ColumnError::Within { lo, hi, numbers, may_be_hidden } => {
                let end = |place| {
                    let column = Expr::Column(nth(&carried.plan, place)?).alias(self.name());
                    let plan = Projection::try_new(vec![column], Arc::new(carried.plan.clone()));
                    let plan = Arc::new(LogicalPlan::Projection(plan.ok()?));
                    Some(Expr::ScalarSubquery(Subquery { subquery: plan, ..subquery.clone() }))
                };
                IntervalEnds::within(end(lo)?, end(hi)?, numbers).hidden_if(may_be_hidden)
            }
        })
    }

    /// True if a value is computed from the histograms of found bounds alone.
    fn is_found_bound(&self, plan: &LogicalPlan) -> bool {
        let (mut scans, mut histograms) = (0_usize, 0_usize);
        let walked = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let part = released_part(scan.table_name.table());
                let part = part.and_then(|part| self.parts.get(part));
                let finds = |measure: &Measure| {
                    matches!(measure.clause.finding, Some(Finding::Histogram { .. }))
                };
                scans += 1;
                histograms += usize::from(part.is_some_and(|own| own.measures().iter().all(finds)));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.is_ok() && scans > 0 && scans == histograms
    }

    /// The plan with further columns for the ends of the wanted columns; `None` if no such plan can
    /// be built.
    pub(super) fn carry(&self, plan: &LogicalPlan, wants: &[Want]) -> Option<Carried> {
        if wants.is_empty() {
            return Some(Carried { plan: plan.clone(), known: Vec::new() });
        }
        if let LogicalPlan::TableScan(scan) = plan {
            let own = scan.projected_schema.fields().len();
            return match released_part(scan.table_name.table()) {
                Some(part) => self.released(part, own, wants),
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
        Carried { plan: plan.clone(), known: vec![Some(ColumnError::Exact); wants.len()] }
    }

    /// A released table. The plan reads its first columns. Each number is within its ± at the
    /// wanted confidence.
    fn released(&self, part: usize, read: usize, wants: &[Want]) -> Option<Carried> {
        let own = self.parts.get(part)?;
        let (keys, measures) = (own.key_names().len(), own.measures().len());
        let schema = with_errors(own, self.among);
        let source = Arc::new(LogicalTableSource::new(schema));
        let scan = LogicalPlanBuilder::scan(released_name(part), source, None).ok()?;
        let scan = scan.build().ok()?;
        let schema = Arc::clone(scan.schema());
        let columns = schema.columns();
        let mut all: Vec<Expr> = columns.iter().take(read).cloned().map(Expr::Column).collect();
        let among = self.among;
        let mut added = self.added(all.len());
        for (column, numbers) in wants {
            let Some(measure) = column.checked_sub(keys) else {
                added.push(own.keys().target_position().is_none().then_some(IntervalEnds::Exact));
                continue;
            };
            let is_number = own
                .measures()
                .get(measure)
                .is_some_and(|measure| matches!(measure.release_kind, ReleaseKind::Number(_)));
            let level = among.iter().position(|one| one == numbers)?;
            let off = columns.get(keys + measures + level * measures + measure)?;
            let value = as_float(Expr::Column(columns.get(*column)?.clone()), &schema);
            let may_be_hidden =
                own.people_floor().is_some_and(|floor| floor.count_of(measure).is_some());
            let within = |value: Expr| {
                let off = || Expr::Column(off.clone());
                let ends = IntervalEnds::within(value.clone() - off(), value + off(), 1);
                ends.hidden_if(may_be_hidden)
            };
            added.push(value.filter(|_| is_number).map(within));
        }
        let Added { known, columns, .. } = added;
        all.extend(columns);
        let plan = Projection::try_new(all, Arc::new(scan)).ok()?;
        Some(Carried { plan: LogicalPlan::Projection(plan), known })
    }

    /// The columns of an input that some expressions read, as wanted columns.
    pub(super) fn read(exprs: &[(&Expr, u64)], schema: &DFSchema) -> Option<Vec<Want>> {
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

    fn projected(&self, projection: &Projection, wants: &[Want]) -> Option<Carried> {
        let made: Option<Vec<(&Expr, u64)>> =
            wants.iter().map(|(i, numbers)| Some((projection.expr.get(*i)?, *numbers))).collect();
        let made = made?;
        let below_wants = Self::read(&made, projection.input.schema())?;
        let below = self.carry(&projection.input, &below_wants)?;
        let mut columns = projection.expr.clone();
        let mut added = self.added(columns.len());
        for (expr, numbers) in made {
            added.push(ends_over(self, &below, &below_wants, expr, numbers));
        }
        let Added { known, columns: more, .. } = added;
        columns.extend(more);
        let plan = Projection::try_new(columns, Arc::new(below.plan)).ok()?;
        Some(Carried { plan: LogicalPlan::Projection(plan), known })
    }

    /// A join on columns without noise.
    fn joined(&self, join: &Join, wants: &[Want]) -> Option<Carried> {
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
        let is_public = on.all(|known| matches!(known, Some(ColumnError::Exact)));
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

    /// A union whose branches return the ends of the same columns. In a branch without noise, both
    /// ends are the number itself.
    fn united(&self, union: &Union, wants: &[Want]) -> Option<Carried> {
        let carried: Option<Vec<Carried>> =
            union.inputs.iter().map(|input| self.carry(input, wants)).collect();
        let carried = carried?;
        let own = union.schema.fields().len();
        let (mut known, mut ends_of) = (Vec::new(), vec![Vec::new(); carried.len()]);
        for (w, (column, _)) in wants.iter().enumerate() {
            let each: Vec<_> =
                carried.iter().map(|one| one.known.get(w).copied().flatten()).collect();
            let noisy = each.iter().any(|known| matches!(known, Some(ColumnError::Within { .. })));
            if each.iter().any(Option::is_none) {
                known.push(None);
                continue;
            }
            if !noisy {
                known.push(Some(ColumnError::Exact));
                continue;
            }
            let place = own + ends_of.first().map_or(0, Vec::len);
            let (mut most, mut is_hidden) = (0, false);
            for ((one, known), ends) in carried.iter().zip(each).zip(&mut ends_of) {
                let at = |i: usize| Some(Expr::Column(nth(&one.plan, i)?));
                match known? {
                    ColumnError::Exact => {
                        let value = as_float(at(*column)?, one.plan.schema())?;
                        ends.extend([value.clone(), value]);
                    }
                    ColumnError::Within { lo, hi, numbers, may_be_hidden } => {
                        most = most.max(numbers);
                        is_hidden |= may_be_hidden;
                        ends.extend([at(lo)?, at(hi)?]);
                    }
                }
            }
            let (lo, hi) = (place, place + 1);
            let within = ColumnError::Within { lo, hi, numbers: most, may_be_hidden: is_hidden };
            known.push(Some(within));
        }
        let more = ends_of.first().map_or(0, Vec::len);
        let names: Vec<String> = (0..more).map(|_| self.name()).collect();
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

    /// The most rows of a plan over released tables, if this is public.
    pub(super) fn rows(&self, plan: &LogicalPlan) -> Option<u64> {
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

/// The intervals that an expression over a carried plan reads.
struct Over<'a> {
    carrier: &'a Carrier<'a>,
    below: &'a Carried,
    wants: &'a [Want],
    numbers: u64,
}

impl Reads for Over<'_> {
    fn column(&self, column: &Column) -> Option<IntervalEnds> {
        let i = self.below.plan.schema().maybe_index_of_column(column)?;
        let place = self.wants.iter().position(|want| *want == (i, self.numbers))?;
        Some(match self.below.known.get(place).copied().flatten()? {
            ColumnError::Exact => IntervalEnds::Exact,
            ColumnError::Within { lo, hi, numbers, may_be_hidden } => {
                let end = |place| Some(Expr::Column(nth(&self.below.plan, place)?));
                IntervalEnds::within(end(lo)?, end(hi)?, numbers).hidden_if(may_be_hidden)
            }
        })
    }

    fn value(&self, subquery: &Subquery) -> Option<IntervalEnds> {
        self.carrier.value(subquery, self.numbers)
    }
}

/// The ends of an expression over a carried plan.
pub(super) fn ends_over(
    carrier: &Carrier<'_>,
    below: &Carried,
    wants: &[Want],
    expr: &Expr,
    numbers: u64,
) -> Option<IntervalEnds> {
    ends(expr, below.plan.schema(), &Over { carrier, below, wants, numbers })
}

/// The positions of the ends, moved by the number of further columns.
pub(super) fn shifted(known: ColumnError, by: usize) -> ColumnError {
    match known {
        ColumnError::Exact => ColumnError::Exact,
        ColumnError::Within { lo, hi, numbers, may_be_hidden } => {
            ColumnError::Within { lo: lo + by, hi: hi + by, numbers, may_be_hidden }
        }
    }
}

/// The columns of a plan in another order, with their names.
pub(super) fn in_order(
    plan: LogicalPlan,
    order: impl Iterator<Item = usize>,
) -> Option<LogicalPlan> {
    let columns: Option<Vec<Expr>> = order.map(|i| Some(Expr::Column(nth(&plan, i)?))).collect();
    let plan = Projection::try_new(columns?, Arc::new(plan)).ok()?;
    Some(LogicalPlan::Projection(plan))
}

/// A released table, followed by the ± of each measure, once for each count in `among`.
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
