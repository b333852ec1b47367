//! The rows of a plan as bytes: the sources that are read, the conditions, and each column as a
//! function of the sources.
//!
//! In: a plan over private and public tables, or over released ones. Out: [`SourceRows`]. They
//! contain neither the names that a query gives nor the order of its conditions. Each reading of a
//! table, and each operator that makes new rows, has a number, so that columns of two of them are
//! never confused.
//!
//! ```text
//! SELECT x.a FROM t x JOIN s ON x.id = s.id WHERE s.b = 2
//!     sources      t, s          (a set: an inner join is a condition on both)
//!     conditions   s.b = 2, s.id = t.id
//!     columns      t.a
//! ```

use std::collections::{BTreeMap, BTreeSet};

use arrow::row::{RowConverter, SortField};
use datafusion::catalog::MemTable;
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    Aggregate, Distinct, EmptyRelation, Filter, Join, Limit, LogicalPlan, Projection, Sort,
    SubqueryAlias, TableScan, Union, Window,
};
use sha2::{Digest, Sha256};

use super::encoded::EncodedFields;
use super::expr_bytes::{ReadColumns, conditions, of_expr, of_order};
use crate::analysis::released_part;
use crate::catalog::RESERVED;

/// The rows of some sources that satisfy all conditions, and columns computed from them.
pub(super) struct SourceRows {
    /// The sources; every combination of their rows is considered.
    sources: Vec<EncodedFields>,
    conditions: Vec<EncodedFields>,
    /// The columns, as functions of the sources.
    pub(super) columns: Vec<EncodedFields>,
}

impl SourceRows {
    /// One source with its columns.
    fn of(source: EncodedFields, columns: Vec<EncodedFields>) -> Self {
        Self { sources: vec![source], conditions: Vec::new(), columns }
    }

    /// Shortens each encoding to a digest, because an operator above may repeat it.
    fn short(self) -> Self {
        let short = |all: Vec<EncodedFields>| all.into_iter().map(EncodedFields::short).collect();
        Self {
            sources: short(self.sources),
            conditions: short(self.conditions),
            columns: short(self.columns),
        }
    }

    /// The rows without their columns.
    ///
    /// # Guarantee
    /// Two plans with equal bytes have equal rows, in any order, and columns with equal encodings
    /// have equal values there.
    pub(super) fn body(&self) -> EncodedFields {
        let mut all = EncodedFields::of("rows");
        let mut sources: Vec<&EncodedFields> = self.sources.iter().collect();
        // A list, not a set: a source that occurs twice repeats the rows of the others.
        sources.sort();
        all.list(sources);
        all.set(&self.conditions);
        all
    }
}

/// A walk over the plans of one private aggregate, or of one released value.
pub(super) struct IdentityWalk<'a> {
    /// The values that are released earlier, by the names of their functions.
    pub(super) late: &'a BTreeMap<String, EncodedFields>,
    /// The position of a private aggregate among those that are recognised together. `None` if its
    /// released table may not be read.
    pub(super) released: &'a dyn Fn(usize) -> Option<usize>,
    /// The tables that were read.
    pub(super) tables: BTreeSet<String>,
    readings: BTreeMap<String, usize>,
    nodes: usize,
}

impl<'a> IdentityWalk<'a> {
    pub(super) fn new(
        late: &'a BTreeMap<String, EncodedFields>,
        released: &'a dyn Fn(usize) -> Option<usize>,
    ) -> Self {
        let (tables, readings) = (BTreeSet::new(), BTreeMap::new());
        Self { late, released, tables, readings, nodes: 0 }
    }

    /// A new number for an operator that makes new rows.
    fn node(&mut self, kind: &str) -> EncodedFields {
        self.nodes += 1;
        let mut node = EncodedFields::of(kind);
        node.debug(&self.nodes);
        node
    }

    /// The rows of a plan; `None` for an operator that is not understood.
    pub(super) fn rows(&mut self, plan: &LogicalPlan) -> Option<SourceRows> {
        self.written(plan).map(SourceRows::short)
    }

    fn written(&mut self, plan: &LogicalPlan) -> Option<SourceRows> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => self.rows(input),
            // The order of rows does not change a sum.
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => self.rows(input),
            LogicalPlan::Limit(limit) => self.limited(limit),
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let mut rows = self.rows(input)?;
                let inputs = [(input.schema().as_ref(), rows.columns.as_slice())];
                let more = conditions(predicate, self.scope(&inputs))?;
                rows.conditions.extend(more);
                Some(rows)
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                let rows = self.rows(input)?;
                let inputs = [(input.schema().as_ref(), rows.columns.as_slice())];
                let scope = self.scope(&inputs);
                let columns = expr.iter().map(|expr| of_expr(expr, scope));
                let columns = columns.collect::<Option<_>>()?;
                Some(SourceRows { columns, ..rows })
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let rows = self.rows(input)?;
                let node = self.node("distinct");
                let mut source = node.clone().with(&rows.body());
                source.set(&rows.columns);
                let columns = rows.columns.iter().map(|column| node.clone().with(column));
                Some(SourceRows::of(source, columns.collect()))
            }
            LogicalPlan::Union(Union { inputs, .. }) => {
                let mut branches = Vec::with_capacity(inputs.len());
                let mut width = 0;
                for input in inputs {
                    let rows = self.rows(input)?;
                    width = rows.columns.len();
                    let mut branch = rows.body();
                    branch.list(&rows.columns);
                    branches.push(branch);
                }
                let node = self.node("union");
                let mut source = node.clone();
                source.list(&branches);
                let column = |at: usize| {
                    let mut column = node.clone();
                    column.debug(&at);
                    column
                };
                Some(SourceRows::of(source, (0..width).map(column).collect()))
            }
            LogicalPlan::Window(Window { input, window_expr, .. }) => {
                let rows = self.rows(input)?;
                // A condition above a window does not mean the same below it.
                let node = self.node("window");
                let source = node.clone().with(&rows.body());
                let inputs = [(input.schema().as_ref(), rows.columns.as_slice())];
                let scope = self.scope(&inputs);
                let own = window_expr.iter().map(|expr| of_expr(expr, scope));
                let own = own.map(|expr| Some(node.clone().with(&expr?)));
                let own = own.collect::<Option<Vec<_>>>()?;
                Some(SourceRows::of(source, rows.columns.iter().cloned().chain(own).collect()))
            }
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema })
                if schema.fields().is_empty() =>
            {
                Some(SourceRows::of(EncodedFields::of("one row"), Vec::new()))
            }
            LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Distinct(Distinct::On(_))
            | LogicalPlan::Values(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => None,
        }
    }

    /// The first rows in an order, in plans of released values.
    fn limited(&mut self, limit: &Limit) -> Option<SourceRows> {
        let Limit { skip, fetch, input } = limit;
        let rows = self.rows(input)?;
        let node = self.node("first");
        let mut source = node.clone().with(&rows.body());
        if let LogicalPlan::Sort(Sort { expr, input, .. }) = input.as_ref() {
            let inputs = [(input.schema().as_ref(), rows.columns.as_slice())];
            source.nested(&of_order(expr, self.scope(&inputs))?);
        }
        for number in [skip, fetch] {
            let number = match number {
                Some(number) => Some(of_expr(number, self.scope(&[]))?),
                None => None,
            };
            source.optional(number.as_ref());
        }
        // A condition above the limit does not mean the same below it.
        Some(SourceRows::of(source, rows.columns))
    }

    fn scope<'b>(&'b self, inputs: &'b [(&'b DFSchema, &'b [EncodedFields])]) -> ReadColumns<'b> {
        ReadColumns { inputs, late: self.late }
    }

    /// A table, a released table, or public rows that were read for the plan.
    fn scan(&mut self, scan: &TableScan) -> Option<SourceRows> {
        let name = scan.table_name.table();
        if scan.fetch.is_some() || !scan.filters.is_empty() || scan.table_name.schema().is_some() {
            return None;
        }
        let reading = self.readings.entry(name.to_owned()).or_default();
        *reading += 1;
        let reading = *reading;
        let by_place = |source: EncodedFields| {
            let whole = scan.source.schema();
            let places =
                scan.projection.clone().unwrap_or_else(|| (0..whole.fields().len()).collect());
            let column = |place: &usize| {
                let mut column = source.clone();
                column.debug(place);
                column
            };
            let columns = places.iter().map(column).collect();
            SourceRows::of(source, columns)
        };
        if let Some(part) = released_part(name) {
            let mut source = EncodedFields::of("released");
            source.debug(&((self.released)(part)?, reading));
            return Some(by_place(source));
        }
        if name.starts_with(RESERVED) {
            let node = self.node("public rows");
            return Some(by_place(node.with(&read_before(scan)?)));
        }
        self.tables.insert(name.to_owned());
        let mut source = EncodedFields::of("table");
        source.text(name);
        source.debug(&reading);
        let column = |name: &str| {
            let mut column = source.clone();
            column.text(name);
            column
        };
        let fields = scan.projected_schema.fields().iter();
        let columns = fields.map(|field| column(field.name())).collect();
        Some(SourceRows::of(source, columns))
    }

    fn join(&mut self, join: &Join) -> Option<SourceRows> {
        let Join { left, right, on, filter, join_type, null_equality, null_aware, .. } = join;
        let (of_left, of_right) = (self.rows(left)?, self.rows(right)?);
        let sides = [
            (left.schema().as_ref(), of_left.columns.as_slice()),
            (right.schema().as_ref(), of_right.columns.as_slice()),
        ];
        let equal = match null_equality {
            NullEquality::NullEqualsNothing => "=",
            NullEquality::NullEqualsNull => "is not distinct from",
        };
        let mut all = Vec::new();
        for (own, other) in on {
            let own = of_expr(own, self.scope(&sides[..1]))?;
            let other = of_expr(other, self.scope(&sides[1..]))?;
            all.push(equality(equal, own, other));
        }
        if let Some(filter) = filter {
            all.extend(conditions(filter, self.scope(&sides))?);
        }
        if *join_type == JoinType::Inner {
            if *null_aware {
                return None;
            }
            let mut rows = of_left;
            rows.sources.extend(of_right.sources);
            rows.conditions.extend(of_right.conditions);
            rows.conditions.extend(all);
            rows.columns.extend(of_right.columns);
            return Some(rows);
        }
        let node = self.node("join");
        let mut source = node.clone();
        source.debug(&(join_type, null_aware));
        source.nested(&of_left.body());
        source.nested(&of_right.body());
        source.set(&all);
        // Without a match, the columns of the other side are NULL, whatever their expressions.
        let padded = |columns: Vec<EncodedFields>, side: &str| -> Vec<EncodedFields> {
            let mut node = node.clone();
            node.text(side);
            columns.iter().map(|column| node.clone().with(column)).collect()
        };
        let marked = |columns: Vec<EncodedFields>| -> Vec<EncodedFields> {
            let mut mark = node.clone();
            mark.text("mark");
            columns.into_iter().chain([mark]).collect()
        };
        let (own, other) = (of_left.columns, of_right.columns);
        let columns = match join_type {
            JoinType::Inner => return None,
            JoinType::Left => [own, padded(other, "right")].concat(),
            JoinType::Right => [padded(own, "left"), other].concat(),
            JoinType::Full => [padded(own, "left"), padded(other, "right")].concat(),
            JoinType::LeftSemi | JoinType::LeftAnti => own,
            JoinType::RightSemi | JoinType::RightAnti => other,
            JoinType::LeftMark => marked(own),
            JoinType::RightMark => marked(other),
        };
        Some(SourceRows::of(source, columns))
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Option<SourceRows> {
        let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
        let rows = self.rows(input)?;
        let node = self.node("group");
        let inputs = [(input.schema().as_ref(), rows.columns.as_slice())];
        let scope = self.scope(&inputs);
        let of = |expr| of_expr(expr, scope);
        let keys = group_expr.iter().map(of).collect::<Option<Vec<_>>>()?;
        let values = aggr_expr.iter().map(of).collect::<Option<Vec<_>>>()?;
        let mut source = node.clone().with(&rows.body());
        source.set(&keys);
        // Without keys there is one row even if the input is empty.
        source.debug(&keys.is_empty());
        let columns = keys.iter().chain(&values).map(|column| node.clone().with(column));
        Some(SourceRows::of(source, columns.collect()))
    }
}

fn equality(kind: &str, own: EncodedFields, other: EncodedFields) -> EncodedFields {
    let (own, other) = if other < own { (other, own) } else { (own, other) };
    let mut all = EncodedFields::of("binary");
    // The name that a condition of WHERE has.
    all.text(if kind == "=" { "Eq" } else { kind });
    all.with(&own).with(&other)
}

/// The digest of public rows that were read for the plan, in any order.
fn read_before(scan: &TableScan) -> Option<EncodedFields> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<MemTable>()?;
    let mut rows: Vec<Vec<u8>> = Vec::new();
    let schema = scan.source.schema();
    let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).ok()?;
    for partition in &table.batches {
        for batch in partition.try_read().ok()?.iter() {
            let own = converter.convert_columns(batch.columns()).ok()?;
            rows.extend(own.iter().map(|row| row.as_ref().to_vec()));
        }
    }
    rows.sort_unstable();
    let mut digest = Sha256::new();
    for row in &rows {
        digest.update(u64::try_from(row.len()).ok()?.to_be_bytes());
        digest.update(row);
    }
    let mut all = EncodedFields::of("contents");
    schema.fields().iter().for_each(|field| all.debug(field.data_type()));
    all.debug(&rows.len());
    all.bytes(&digest.finalize());
    Some(all)
}
