//! Which columns of private tables a query uses, and for what: as keys, in conditions, to join
//! rows, in aggregates.
//!
//! In: the rows below a release, as they were bound, with views, common table expressions and
//! subqueries in their places. Out: the [`Uses`](column_uses::Uses). The walk has one arm for each
//! operator and each expression, and no other: what it does not know, it does not pass.
//!
//! ```text
//! SELECT z, COUNT(*) FROM (SELECT substr(zip, 1, 2) AS z FROM visits WHERE age > 3) GROUP BY z
//!     zip: key        age: condition
//! ```

use std::collections::BTreeSet;

use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Join, JoinType, LogicalPlan, Operator, TableScan,
};

use crate::analysis::below::relation::scanned;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, lost};
use crate::analysis::recursion::deeper;
use column_uses::{Lineage, TableColumn, UseKind};
use usage_walk::{RowsUsed, UsageWalk};

mod carrying_functions;
pub(crate) mod column_uses;
mod expression_uses;
pub(crate) mod release_uses;
pub(crate) mod rule_check;
mod usage_walk;

impl UsageWalk<'_> {
    /// Where the columns of some rows come from. Records what their operators do with columns.
    ///
    /// # Errors
    /// A fault for an operator that no rule for rows below a release allows.
    fn rows(&mut self, plan: &LogicalPlan) -> Result<RowsUsed, NotAnalyzed> {
        deeper(|| {
            let asked = std::mem::take(&mut self.asked);
            let rows = self.node(plan);
            let own = std::mem::replace(&mut self.asked, asked);
            let mut rows = rows?;
            rows.tables.extend(own);
            Ok(rows)
        })
    }

    fn node(&mut self, plan: &LogicalPlan) -> Result<RowsUsed, NotAnalyzed> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Filter(filter) => {
                let mut rows = self.rows(&filter.input)?;
                let stands_on_join = stands_on_join(&filter.input);
                for condition in split_conjunction(&filter.predicate) {
                    self.row_condition(condition, &mut rows, stands_on_join)?;
                }
                Ok(rows)
            }
            LogicalPlan::Projection(projection) => {
                let rows = self.rows(&projection.input)?;
                let columns = projection.expr.iter().map(|expr| self.value(expr, &rows));
                let columns = columns.collect::<Result<_, _>>()?;
                Ok(rows.with(projection.schema.clone(), columns))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let rows = self.rows(&alias.input)?;
                Ok(RowsUsed { schema: alias.schema.clone(), ..rows })
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => {
                let mut all: Option<RowsUsed> = None;
                for input in &union.inputs {
                    let rows = self.rows(input)?;
                    all = Some(match all {
                        None => RowsUsed { schema: union.schema.clone(), ..rows },
                        Some(sum) => together(sum, &rows),
                    });
                }
                all.ok_or_else(lost)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let rows = self.rows(input)?;
                for (column, lineage) in rows.schema.columns().iter().zip(&rows.columns) {
                    self.uses.used(lineage, UseKind::Key, &format!("DISTINCT {}", column.name));
                }
                Ok(rows)
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let rows = self.rows(&on.input)?;
                for key in &on.on_expr {
                    self.key(key, &rows)?;
                }
                for sort in on.sort_expr.iter().flatten() {
                    self.condition(&sort.expr, &rows)?;
                }
                let columns = on.select_expr.iter();
                let columns = columns.map(|expr| Ok(self.value(expr, &rows)?.made()));
                let columns = columns.collect::<Result<_, NotAnalyzed>>()?;
                Ok(rows.with(on.schema.clone(), columns))
            }
            LogicalPlan::Aggregate(aggregate) => self.per_person(aggregate),
            LogicalPlan::Window(window) => {
                let rows = self.rows(&window.input)?;
                let mut columns = rows.columns.clone();
                for expr in &window.window_expr {
                    columns.push(counted(self.value(expr, &rows)?, &rows));
                }
                Ok(rows.with(window.schema.clone(), columns))
            }
            LogicalPlan::Sort(sort) => {
                let rows = self.rows(&sort.input)?;
                for key in &sort.expr {
                    self.condition(&key.expr, &rows)?;
                }
                Ok(rows)
            }
            LogicalPlan::Limit(limit) => {
                let mut rows = self.rows(&limit.input)?;
                rows.columns.iter_mut().for_each(|column| column.is_made = true);
                Ok(rows)
            }
            LogicalPlan::Values(values) => Ok(constants(&values.schema)),
            LogicalPlan::EmptyRelation(empty) => Ok(constants(&empty.schema)),
            LogicalPlan::Subquery(subquery) => self.rows(&subquery.subquery),
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
            | LogicalPlan::RecursiveQuery(_) => Err(lost()),
        }
    }

    fn scan(&mut self, scan: &TableScan) -> Result<RowsUsed, NotAnalyzed> {
        let table = scanned(scan, self.catalog);
        let private = table.filter(|table| !table.is_public());
        let schema = scan.projected_schema.clone();
        self.scans = self.scans.saturating_add(1);
        let number = self.scans;
        let lineage = |name: &String| Lineage {
            columns: private
                .map(|table| TableColumn { table: table.name.clone(), column: name.clone() })
                .into_iter()
                .collect(),
            public: match private {
                Some(_) => BTreeSet::new(),
                None => BTreeSet::from([(number, name.clone())]),
            },
            reads_private: private.is_some(),
            reads_public: private.is_none(),
            ..Lineage::default()
        };
        let columns = schema.fields().iter().map(|field| lineage(field.name())).collect();
        let tables = private.map(|table| table.name.clone()).into_iter().collect();
        let (decided, told) = (BTreeSet::new(), BTreeSet::new());
        let mut rows = RowsUsed { schema, columns, tables, decided, told };
        for filter in &scan.filters {
            self.row_condition(filter, &mut rows, false)?;
        }
        Ok(rows)
    }

    /// A group key: all of its columns are keys.
    fn key(&mut self, expr: &Expr, rows: &RowsUsed) -> Result<Lineage, NotAnalyzed> {
        let lineage = self.value(expr, rows)?;
        self.uses.used(&lineage, UseKind::Key, &readable(expr));
        Ok(lineage)
    }

    /// An aggregate of the rows of one person. A released one is public: it is looked at by itself.
    fn per_person(&mut self, aggregate: &Aggregate) -> Result<RowsUsed, NotAnalyzed> {
        if aggregate.aggr_expr.iter().any(|expr| CallOf::marker(expr).is_some()) {
            return Ok(constants(&aggregate.schema));
        }
        let rows = self.rows(&aggregate.input)?;
        let mut columns = Vec::with_capacity(aggregate.schema.fields().len());
        for key in &aggregate.group_expr {
            columns.push(self.key(key, &rows)?);
        }
        for call in &aggregate.aggr_expr {
            columns.push(counted(self.value(call, &rows)?, &rows));
        }
        let fields = aggregate.schema.fields().len();
        if columns.len() != fields {
            // The sets of a grouping have more columns than expressions.
            columns = vec![Lineage::of_all(&columns); fields];
        }
        Ok(rows.with(aggregate.schema.clone(), columns))
    }

    fn join(&mut self, join: &Join) -> Result<RowsUsed, NotAnalyzed> {
        let (left, right) = (self.rows(&join.left)?, self.rows(&join.right)?);
        let mut columns = left.columns.clone();
        columns.extend(right.columns.iter().cloned());
        let schema = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                join.schema.clone()
            }
            JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => left.schema.join(&right.schema).map_err(|_| lost())?.into(),
        };
        let own = [left.decided.clone(), right.decided.clone()];
        let tables = left.tables.into_iter().chain(right.tables).collect();
        let decided = left.decided.into_iter().chain(right.decided).collect();
        let told = left.told.into_iter().chain(right.told).collect();
        let mut rows = RowsUsed { schema, columns, tables, decided, told };
        let mut decides = Lineage::default();
        for (one, other) in &join.on {
            decides.add(&self.joined(one, other, &mut rows)?);
        }
        for condition in join.filter.iter().flat_map(split_conjunction) {
            decides.add(&self.row_condition(condition, &mut rows, true)?);
        }
        padded(join.join_type, &mut rows, left.columns.len(), &own);
        let columns = std::mem::take(&mut rows.columns);
        let shown = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => columns,
            JoinType::LeftSemi | JoinType::LeftAnti => {
                columns.into_iter().take(left.columns.len()).collect()
            }
            JoinType::RightSemi | JoinType::RightAnti => {
                columns.into_iter().skip(left.columns.len()).collect()
            }
            JoinType::LeftMark => {
                let own = columns.into_iter().take(left.columns.len());
                own.chain([decides]).collect()
            }
            JoinType::RightMark => {
                let own = columns.into_iter().skip(left.columns.len());
                own.chain([decides]).collect()
            }
        };
        Ok(rows.with(join.schema.clone(), shown))
    }

    /// A condition of WHERE, HAVING or ON. It joins rows if it equates two columns of a join. Rows
    /// of public tables that are found by private values are computed from these.
    fn row_condition(
        &mut self,
        condition: &Expr,
        rows: &mut RowsUsed,
        stands_on_join: bool,
    ) -> Result<Lineage, NotAnalyzed> {
        if let Some((one, other)) = equated(condition).filter(|_| stands_on_join) {
            return self.joined(one, other, rows);
        }
        // A comparison in a condition on rows finds these rows, and no others.
        let compared = self.compared.clone();
        let lineage = self.condition(condition, rows)?;
        self.compared = compared;
        self.found_by(&lineage, rows);
        rows.decided.extend(lineage.columns.iter().cloned());
        let columns = condition.column_refs();
        let decides = |at: usize, rows: &RowsUsed| {
            columns.iter().any(|column| rows.schema.maybe_index_of_column(column) == Some(at))
        };
        let all = has_subquery(condition);
        for at in 0..rows.columns.len() {
            let is_made = all || decides(at, rows);
            if let Some(column) = rows.columns.get_mut(at) {
                column.is_made |= is_made;
            }
        }
        Ok(lineage)
    }

    /// Rows are joined where two expressions are equal.
    fn joined(
        &mut self,
        one: &Expr,
        other: &Expr,
        rows: &mut RowsUsed,
    ) -> Result<Lineage, NotAnalyzed> {
        let sides = [self.value(one, rows)?, self.value(other, rows)?];
        let both = Lineage::of_all(&sides);
        let text = format!("{} = {}", readable(one), readable(other));
        let is_of_tables =
            |side: &Lineage| side.reads_private || side.reads_public && !side.reads_written;
        let are_of_tables = sides.iter().all(is_of_tables);
        // Where the query decided which values are left to be joined, the join decides, too.
        let is_joined_only = both.columns.iter().any(|column| self.join_only.contains(column));
        let joins = are_of_tables && !(both.is_made && is_joined_only);
        let kind = match (column(one), column(other), joins) {
            (Some(_), Some(_), true) => UseKind::Join,
            // An equality with a value that the query writes, or of something computed, is a
            // condition.
            (Some(_) | None, Some(_) | None, _) => UseKind::Condition,
        };
        self.uses.used(&both, kind, &text);
        self.found_by(&both, rows);
        for equal in [one, other] {
            let at = column(equal).and_then(|column| rows.schema.maybe_index_of_column(column));
            let Some(lineage) = at.and_then(|at| rows.columns.get_mut(at)) else { continue };
            lineage.is_made |= both.is_made || kind == UseKind::Condition;
            // What equals a column is that column.
            if kind == UseKind::Join {
                lineage.columns.extend(both.columns.iter().cloned());
            }
        }
        match kind == UseKind::Join {
            // So is what is computed from the same column of the same public rows.
            true => {
                let is_same = |lineage: &&mut Lineage| !lineage.public.is_disjoint(&both.public);
                for lineage in rows.columns.iter_mut().filter(is_same) {
                    lineage.columns.extend(both.columns.iter().cloned());
                }
            }
            false => rows.decided.extend(both.columns.iter().cloned()),
        }
        Ok(both)
    }

    /// Rows of public tables, or of the query itself, that a condition finds by private values:
    /// their columns are computed from these values, unless these may do nothing but join.
    fn found_by(&self, condition: &Lineage, rows: &mut RowsUsed) {
        if !condition.is_mixed() || condition.columns.is_empty() {
            return;
        }
        let finds: Vec<&TableColumn> =
            condition.columns.iter().filter(|column| !self.join_only.contains(column)).collect();
        for lineage in rows.columns.iter_mut().filter(|lineage| !lineage.reads_private) {
            lineage.columns.extend(finds.iter().copied().cloned());
        }
    }
}

/// True if an expression asks rows of its own.
fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
        ))
    };
    expr.exists(is_one).unwrap_or(true)
}

/// The two sides of an equality.
fn equated(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(binary) = condition else { return None };
    let is_pair = binary.op == Operator::Eq
        && column(&binary.left)?.relation != column(&binary.right)?.relation;
    is_pair.then_some((&*binary.left, &*binary.right))
}

/// The column that an expression is, apart from its type.
fn column(expr: &Expr) -> Option<&datafusion::common::Column> {
    if let Expr::Alias(alias) = expr {
        return column(&alias.expr);
    }
    if let Expr::Cast(cast) = expr {
        return column(&cast.expr);
    }
    if let Expr::Column(column) = expr { Some(column) } else { None }
}

/// True if rows come directly from a join, whose conditions may be in WHERE.
fn stands_on_join(plan: &LogicalPlan) -> bool {
    if let LogicalPlan::Filter(filter) = plan {
        return stands_on_join(&filter.input);
    }
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}

/// Rows of which no column comes from a private table.
fn constants(schema: &DFSchemaRef) -> RowsUsed {
    let columns = vec![Lineage::default(); schema.fields().len()];
    let (tables, decided, told) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    RowsUsed { schema: schema.clone(), columns, tables, decided, told }
}

/// The rows of a union: each column comes from that column of all inputs. Where they are not the
/// same column, its value tells of which input a row is, and so what their conditions found.
fn together(mut sum: RowsUsed, rows: &RowsUsed) -> RowsUsed {
    sum.decided.extend(rows.decided.iter().cloned());
    sum.told.extend(rows.told.iter().chain(&sum.decided).cloned());
    for (one, other) in sum.columns.iter_mut().zip(&rows.columns) {
        let is_same = one == other && !one.is_constant();
        // A literal among the values of a table is a value that the query writes.
        let is_written = one.is_constant() || other.is_constant();
        one.add(other);
        one.reads_written |= is_written;
        if !is_same {
            one.columns.extend(sum.decided.iter().cloned());
        }
    }
    sum.tables.extend(rows.tables.iter().cloned());
    sum
}

/// What is computed of several rows: how many they are tells of which branches of a union they are.
fn counted(mut value: Lineage, rows: &RowsUsed) -> Lineage {
    value.columns.extend(rows.told.iter().cloned());
    value
}

/// The sides of an outer join that may have no row: whether they have one tells what the conditions
/// on them, and those of ON, found. `own` are the conditions of each side.
fn padded(kind: JoinType, rows: &mut RowsUsed, left: usize, own: &[BTreeSet<TableColumn>; 2]) {
    let is_padded = match kind {
        JoinType::Left => [false, true],
        JoinType::Right => [true, false],
        JoinType::Full => [true, true],
        JoinType::Inner
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => [false, false],
    };
    let [of_left, of_right] = own;
    for (at, lineage) in rows.columns.iter_mut().enumerate() {
        let (is_padded, others) = match at < left {
            true => (is_padded[0], of_right.difference(of_left)),
            false => (is_padded[1], of_left.difference(of_right)),
        };
        if is_padded {
            let others: BTreeSet<&TableColumn> = others.collect();
            let found = rows.decided.iter().filter(|column| !others.contains(column));
            lineage.columns.extend(found.cloned());
        }
    }
}
