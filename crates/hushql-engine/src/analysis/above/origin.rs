//! Where an output column comes from, and whether its values decide which rows are returned.
//!
//! In: the public plan above the releases. Out: for an output column, the release whose values it
//! displays, either unchanged or times a bound that was found; and whether a filter, or a LIMIT
//! over an order, uses these values. A stated accuracy holds for a value as it was drawn. Among
//! values that are displayed because they are large, more are off by chance.
//!
//! ```text
//! SELECT city, n, s … HAVING n > 100      n: release 0, chosen by itself       s: release 1
//! ```

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Subquery};

use crate::analysis::outcome::{Analysis, released_part, released_parts};
use crate::analysis::{Measure, PrivateAggregate};
use crate::buckets::BOUND;
use crate::dialect::Finding;

/// The release whose values an output column displays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The index of the private aggregate.
    pub part: usize,
    /// The index of the measure in the private aggregate.
    pub measure: usize,
    /// True if these values decide which rows are returned.
    pub is_chosen_by: bool,
}

/// A column of a released table: the private aggregate, and the column's position.
pub(crate) type Field = (usize, usize);

impl Analysis {
    /// The release whose values an output column displays, either unchanged or converted from units
    /// of a found bound to the argument's own unit.
    ///
    /// # Guarantee
    /// `is_chosen_by` is true if a filter or a LIMIT between the release and the output reads its
    /// values, even through other columns or in a subquery.
    pub fn origin(&self, output: usize) -> Option<Origin> {
        let mut path = Path { parts: &self.parts, readers: Vec::new() };
        let (part, field) = path.origin(&self.public_plan, output)?;
        let own = self.parts.get(part)?;
        let measure = field.checked_sub(own.key_names().len())?;
        // The result of a selection is also a key of its private aggregate.
        let target = own.keys().target_position();
        let reads = |read: &Field| read.0 == part && (read.1 == field || Some(read.1) == target);
        let is_chosen_by = path.readers.iter().any(reads);
        Some(Origin { part, measure, is_chosen_by })
    }

    /// True if an output displays the values of a release, and these values decide which rows are
    /// returned.
    pub fn is_chosen_by(&self, part: usize, measure: usize) -> bool {
        let outputs = 0..self.public_plan.schema().fields().len();
        outputs.filter_map(|output| self.origin(output)).any(|origin| {
            (origin.part, origin.measure, origin.is_chosen_by) == (part, measure, true)
        })
    }

    /// True if an output is computed from released values that decide which rows are shown,
    /// anywhere in the plan. For each private aggregate, `counter` returns the measure that decides
    /// by a threshold.
    pub(crate) fn is_decided(
        &self,
        output: usize,
        counter: &dyn Fn(usize) -> Option<usize>,
    ) -> bool {
        let deciding = deciding(&self.parts, &self.public_plan);
        let decides = |(part, field): &Field| {
            let keys = self.parts.get(*part).map_or(0, |own| own.key_names().len());
            deciding.as_ref().is_none_or(|fields| fields.contains(&(*part, *field)))
                || counter(*part).is_some_and(|measure| keys + measure == *field)
        };
        self.noisy_fields(output).iter().any(decides)
    }

    /// True if an output is computed from released values. Keys are public, except for a key that a
    /// selection chose.
    pub(crate) fn is_noisy(&self, output: usize) -> bool {
        !self.noisy_fields(output).is_empty()
    }

    /// True if an output is computed from a variance, a correlation or a line. Their error follows
    /// from the drawn values.
    pub(crate) fn reads_moments(&self, output: usize) -> bool {
        self.reads(output, &|one| one.moments().is_some() || one.joint().is_some())
    }

    /// True if an output is computed from consistent numbers that are kept at 0 or above.
    pub(crate) fn reads_nonnegative(&self, output: usize) -> bool {
        self.reads(output, &|one| one.clause.consistent.is_some_and(|shape| shape.nonnegative))
    }

    /// True if an output is computed from a measure that meets a condition.
    fn reads(&self, output: usize, is_such: &dyn Fn(&Measure) -> bool) -> bool {
        self.noisy_fields(output).iter().any(|(part, field)| {
            let own = self.parts.get(*part);
            let measure =
                own.and_then(|own| own.measures().get(field.checked_sub(own.key_names().len())?));
            measure.is_some_and(is_such)
        })
    }

    /// The released numbers that an output is computed from. The histogram of a found bound is not
    /// among them: the bound is a scale, and no error counts what it cuts.
    fn noisy_fields(&self, output: usize) -> Vec<Field> {
        let mut fields = noisy_among(&self.parts, sources_of(&self.public_plan, output));
        let finds =
            |measure: &Measure| matches!(measure.clause.finding, Some(Finding::Histogram { .. }));
        fields.retain(|(part, _)| {
            self.parts.get(*part).is_none_or(|own| !own.measures().iter().all(finds))
        });
        fields
    }

    /// True if an order of rows reads a number of a private aggregate that a floor may hide, and
    /// puts NULL first.
    pub(crate) fn has_hidden_first(&self, part: usize) -> bool {
        let Some(own) = self.parts.get(part) else { return false };
        let hides = |(of, field): &Field| {
            let measure = field.checked_sub(own.key_names().len()).filter(|_| *of == part);
            let count = |at| own.people_floor().and_then(|floor| floor.count_of(at));
            measure.is_some_and(|at| count(at).is_some())
        };
        let mut is_found = false;
        // A plan that cannot be walked gets no note.
        let _ = self.public_plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Sort(sort) = node {
                is_found |= sort
                    .expr
                    .iter()
                    .filter(|key| key.nulls_first)
                    .any(|key| noisy(&self.parts, &key.expr, &sort.input).iter().any(&hides));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        is_found
    }

    /// The histogram of a found bound: its private aggregate, the released value that is the bound,
    /// and the smallest noisy count at which a bucket is selected.
    pub(crate) fn histogram(&self, bound: usize) -> Option<(usize, usize, i128)> {
        let least_of = |part: &PrivateAggregate| match part.measures().first()?.clause.finding? {
            Finding::Histogram { bound: own, least, .. } => (own == bound).then_some(least),
            Finding::InUnits { .. } | Finding::InUnitsOfTwo { .. } => None,
        };
        let (part, least) =
            self.parts.iter().enumerate().find_map(|(i, part)| Some((i, least_of(part)?)))?;
        let reads = |plan: &LogicalPlan| released_parts(plan).contains(&part);
        let holds = |plan: &LogicalPlan| plan.schema().has_column_with_unqualified_name(BOUND);
        let value =
            self.values.iter().position(|value| holds(value.plan()) && reads(value.plan()))?;
        Some((part, value, least))
    }
}

/// The released values that filters and LIMITs read, anywhere in a plan; `None` if the plan cannot
/// be walked.
pub(crate) fn deciding(parts: &[PrivateAggregate], plan: &LogicalPlan) -> Option<Vec<Field>> {
    let mut path = Path { parts, readers: Vec::new() };
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            path.read(&filter.predicate, &filter.input);
        }
        if let LogicalPlan::Sort(sort) = node
            && sort.fetch.is_some()
        {
            sort.expr.iter().for_each(|key| path.read(&key.expr, &sort.input));
        }
        if let LogicalPlan::Limit(limit) = node
            && !path.cuts_nothing(limit)
        {
            path.read_orders(&limit.input);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.ok().map(|_| path.readers)
}

/// The released values from which an expression over a plan is computed. Keys are public, except
/// for a key that a selection chose.
pub(crate) fn noisy(parts: &[PrivateAggregate], expr: &Expr, input: &LogicalPlan) -> Vec<Field> {
    noisy_among(parts, sources(expr, input))
}

fn noisy_among(parts: &[PrivateAggregate], sources: Vec<ReadOfReleased>) -> Vec<Field> {
    let mut fields = Path { parts, readers: Vec::new() }.fields(sources);
    fields.retain(|(part, field)| {
        let Some(own) = parts.get(*part) else { return true };
        *field >= own.key_names().len() || own.keys().target_position() == Some(*field)
    });
    fields
}

/// Follows an output column down to the released table from which it comes unchanged: its private
/// aggregate and position.
pub(crate) fn origin(plan: &LogicalPlan, output: usize) -> Option<(usize, usize)> {
    Path { parts: &[], readers: Vec::new() }.origin(plan, output)
}

/// A walk from an output down to its release. It records the fields that decide on the way which
/// rows are returned.
struct Path<'a> {
    parts: &'a [PrivateAggregate],
    readers: Vec<Field>,
}

impl Path<'_> {
    fn origin(&mut self, plan: &LogicalPlan, output: usize) -> Option<Field> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let mut expr = projection.expr.get(output)?;
                while let Expr::Alias(alias) = expr {
                    expr = &alias.expr;
                }
                if let Expr::Column(column) = expr {
                    let below = projection.input.schema().maybe_index_of_column(column)?;
                    return self.origin(&projection.input, below);
                }
                self.scaled(expr, &projection.input)
            }
            LogicalPlan::Filter(filter) => {
                self.read(&filter.predicate, &filter.input);
                self.origin(&filter.input, output)
            }
            LogicalPlan::Sort(sort) => {
                if sort.fetch.is_some() {
                    sort.expr.iter().for_each(|key| self.read(&key.expr, &sort.input));
                }
                self.origin(&sort.input, output)
            }
            LogicalPlan::Limit(limit) => {
                if !self.cuts_nothing(limit) {
                    self.read_orders(&limit.input);
                }
                self.origin(&limit.input, output)
            }
            LogicalPlan::SubqueryAlias(alias) => self.origin(&alias.input, output),
            LogicalPlan::TableScan(scan) => {
                released_part(scan.table_name.table()).map(|part| (part, output))
            }
            _ => None,
        }
    }

    /// The release that an expression converts back to its own unit: a release with found bounds,
    /// directly below the expression that the engine added.
    fn scaled(&mut self, expr: &Expr, input: &LogicalPlan) -> Option<Field> {
        let columns: Vec<&Column> = expr.column_refs().into_iter().collect();
        let [column] = columns.as_slice() else { return None };
        let (part, field) = directly(input, input.schema().maybe_index_of_column(column)?)?;
        let own = self.parts.get(part)?;
        let measure = own.measures().get(field.checked_sub(own.key_names().len())?)?;
        measure.clause.finding.is_some_and(Finding::is_in_units).then_some((part, field))
    }

    /// Records the fields on which an expression over a plan depends.
    fn read(&mut self, expr: &Expr, input: &LogicalPlan) {
        let found = sources(expr, input);
        self.readers.extend(self.fields(found));
    }

    /// Records the fields on which the orders below a LIMIT depend.
    fn read_orders(&mut self, plan: &LogicalPlan) {
        if let LogicalPlan::Sort(sort) = plan {
            sort.expr.iter().for_each(|key| self.read(&key.expr, &sort.input));
        }
        for input in plan.inputs() {
            self.read_orders(input);
        }
    }

    fn fields(&self, sources: Vec<ReadOfReleased>) -> Vec<Field> {
        let all = |part: usize| {
            let measures = self.parts.get(part).map_or(0, |own| own.measures().len());
            let keys = self.parts.get(part).map_or(0, |own| own.key_names().len());
            (0..keys + measures).map(move |field| (part, field))
        };
        let each = sources.into_iter().map(|read| match read {
            ReadOfReleased::Field(field) => vec![field],
            ReadOfReleased::PrivateAggregate(part) => all(part).collect(),
        });
        each.flatten().collect()
    }

    /// True if a LIMIT admits all rows.
    fn cuts_nothing(&self, limit: &Limit) -> bool {
        let (None, Some(Expr::Literal(ScalarValue::Int64(Some(fetch)), _))) =
            (limit.skip.as_deref(), limit.fetch.as_deref())
        else {
            return false;
        };
        let mut below = limit.input.as_ref();
        let rows = loop {
            below = match below {
                LogicalPlan::Projection(projection) => &projection.input,
                LogicalPlan::Filter(filter) => &filter.input,
                LogicalPlan::Sort(sort) => &sort.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::TableScan(scan) => {
                    let part = released_part(scan.table_name.table());
                    break part.and_then(|i| self.parts.get(i)).and_then(PrivateAggregate::rows);
                }
                _ => break None,
            };
        };
        rows.is_some_and(|rows| u64::try_from(*fetch).is_ok_and(|fetch| rows <= fetch))
    }
}

/// The part of a released table that an expression reads.
#[derive(Debug, Clone, Copy)]
enum ReadOfReleased {
    /// One column.
    Field(Field),
    /// All columns of a private aggregate.
    PrivateAggregate(usize),
}

/// The field that a column displays unchanged, if no row is dropped in between.
fn directly(plan: &LogicalPlan, output: usize) -> Option<Field> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let Expr::Column(column) = projection.expr.get(output)?.clone().unalias() else {
                return None;
            };
            directly(&projection.input, projection.input.schema().maybe_index_of_column(&column)?)
        }
        LogicalPlan::TableScan(scan) => {
            released_part(scan.table_name.table()).map(|part| (part, output))
        }
        _ => None,
    }
}

/// The fields on which an expression over a plan depends, including computed columns and
/// subqueries.
fn sources(expr: &Expr, input: &LogicalPlan) -> Vec<ReadOfReleased> {
    let mut columns: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
    let mut found = Vec::new();
    let mut within = |subquery: &Subquery| {
        found.extend(
            released_parts(&subquery.subquery).into_iter().map(ReadOfReleased::PrivateAggregate),
        );
        for outer in &subquery.outer_ref_columns {
            if let Expr::OuterReferenceColumn(_, column) = outer {
                columns.push(column.clone());
            }
        }
    };
    let walked = expr.apply(|e| {
        if let Expr::ScalarSubquery(subquery)
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::Exists(Exists { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) = e
        {
            within(subquery);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if walked.is_err() {
        found.extend(released_parts(input).into_iter().map(ReadOfReleased::PrivateAggregate));
    }
    for column in columns {
        match input.schema().maybe_index_of_column(&column) {
            Some(i) => found.extend(sources_of(input, i)),
            None => found
                .extend(released_parts(input).into_iter().map(ReadOfReleased::PrivateAggregate)),
        }
    }
    found
}

/// The fields on which a plan's output depends.
fn sources_of(plan: &LogicalPlan, output: usize) -> Vec<ReadOfReleased> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let expr = projection.expr.get(output);
            expr.map_or_else(Vec::new, |expr| sources(expr, &projection.input))
        }
        LogicalPlan::Filter(filter) => sources_of(&filter.input, output),
        LogicalPlan::Sort(sort) => sources_of(&sort.input, output),
        LogicalPlan::Limit(limit) => sources_of(&limit.input, output),
        LogicalPlan::SubqueryAlias(alias) => sources_of(&alias.input, output),
        LogicalPlan::TableScan(scan) => {
            let part = released_part(scan.table_name.table());
            part.map(|part| ReadOfReleased::Field((part, output))).into_iter().collect()
        }
        // The window's own columns come after the columns that pass through it. They depend on the
        // fields that their calls read, in all rows. Keys decide which rows there are, and so do
        // conditions, which are recorded elsewhere.
        LogicalPlan::Window(window) => {
            let inputs = window.input.schema().fields().len();
            match output.checked_sub(inputs) {
                None => sources_of(&window.input, output),
                Some(own) => {
                    let call = window.window_expr.get(own);
                    call.map_or_else(Vec::new, |call| sources(call, &window.input))
                }
            }
        }
        // Each column of a union comes from the branches' columns at the same position.
        LogicalPlan::Union(union) => {
            union.inputs.iter().flat_map(|input| sources_of(input, output)).collect()
        }
        other => released_parts(other).into_iter().map(ReadOfReleased::PrivateAggregate).collect(),
    }
}
