//! Scans, and the joins along the chain that leads from a table to its unit.
//!
//! In: a scan as the planner made it, and the table's declaration. Out: its rows, and hidden
//! columns that identify the unit or lead to it. The declared domain of every column that the query
//! mentions is enforced. If the unit is needed and the query does not join the tables that lead to
//! it, [`Walk::resolved`] adds the joins. Rows whose chain leads nowhere belong to no privacy unit
//! and are dropped.
//!
//! ```text
//! lineitem (l_orderkey) ⋈ orders (o_orderkey, o_custkey) ⋉ customer (c_custkey)      unit = o_custkey
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, TableScan};

use super::column_origin::{OfUnit, Origin, Raw, Trace};
use super::relation::{Owner, Pending, PrivateRelation, scanned};
use super::unit::UnitScope;
use crate::analysis::below::refusals::{not_private, undeclared};
use crate::analysis::below::relation::equal;
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::computable_types;
use crate::analysis::expr::domain::{Change, enforced, is_someone};
use crate::analysis::expr::facts::Scope;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::catalog::{Link, Privacy, Table, Unit};
use crate::functions::month_unit;
use crate::refusal::{Reason, Refusal};

/// The rows that connect the referenced columns of a link with the unit.
struct Chain {
    plan: LogicalPlan,
    keys: Vec<String>,
    /// The unit's column; `None` if the only key is the unit itself.
    unit: Option<String>,
}

impl Walk<'_> {
    /// The enforced rows of a table.
    pub(crate) fn scan(
        &mut self,
        scan: &TableScan,
        plan: &LogicalPlan,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let name = scan.table_name.to_string();
        let table = scanned(scan, self.catalog).ok_or_else(|| not_private(&name, true))?;
        let unit = match &table.privacy {
            Privacy::Private(unit) => Some(unit.clone()),
            Privacy::Public => None,
            Privacy::Undeclared => return Err(not_private(&name, false).into()),
        };
        let own = ScanColumns { table, scan: &scan.table_name };
        let mut expressions = Vec::new();
        let (mut facts, mut traces) = (Vec::new(), Vec::new());
        let mut hidden = Vec::new();
        let reading = self.reading();
        let of_unit = unit.as_ref().map_or(&[][..], Unit::columns);
        for (qualifier, field) in scan.projected_schema.iter() {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            // All columns of a public table are read: it may be read as a whole while the query is
            // planned.
            let is_read = unit.is_none() || self.mentioned.has(field.name());
            let domain = table.column(field.name()).filter(|_| is_read);
            let domain = domain.and_then(|column| column.domain.as_ref());
            let enforced = enforced(column.clone(), field.data_type(), domain);
            let (expr, mut known) = enforced.map_err(|error| {
                Refusal::new(
                    Reason::BadValue,
                    field.name(),
                    error.to_string(),
                    "a domain of the column's own type",
                )
            })?;
            known.is_unit = self.names_unit(table, field.name());
            expressions.push(expr.alias_qualified(qualifier.cloned(), field.name()));
            let change = Change::for_domain(field.data_type(), domain, &known)
                .filter(|_| unit.is_some() && is_read);
            let raw = change.map(|change| Raw { name: self.fresh("raw"), change });
            if let Some(Raw { name, .. }) = &raw {
                hidden.push(column.alias_qualified(Some(scan.table_name.clone()), name));
            }
            let origin = Origin { table: table.name.clone(), column: field.name().clone() };
            traces.push(Trace {
                size: 1,
                raw,
                origin: unit.as_ref().map(|_| origin),
                reading,
                public: None,
                present: of_unit.contains(field.name()),
                of_unit: OfUnit {
                    alike: unit.as_ref().is_some_and(|unit| is_alike(unit, field.name())),
                    ..OfUnit::default()
                },
                padded: false,
                unit_or_null: false,
                definition: None,
                of_row: None,
            });
            facts.push(known);
        }
        expressions.append(&mut hidden);
        let mut builder = LogicalPlanBuilder::from(plan.clone());
        let mut carry = Vec::new();
        for column in of_unit {
            let column = own.column(column);
            computable_types::check(&column, plan.schema())?;
            builder = builder.filter(is_someone(column.clone())).map_err(|e| internal(&e))?;
            let name = self.fresh("unit");
            // The month is that of the date in the file, whatever domain is declared for it: no
            // declaration moves a row from one unit to another.
            let unit = match unit.as_ref().and_then(Unit::month) {
                Some((_, date)) => month_unit(column, own.column(date)),
                None => column,
            };
            expressions.push(unit.alias_qualified(Some(scan.table_name.clone()), &name));
            carry.push(name);
        }
        let plan = builder
            .project(expressions)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let (owner, subject) = self.owned(table, unit.as_ref(), carry)?;
        if unit.is_some() {
            self.step(format!("Scan {name} [{}]", subject.rows_text()));
        } else {
            self.step(format!("Scan {name} [public]"));
        }
        let scope = Scope::new(Arc::clone(&scan.projected_schema), facts);
        let public = match unit {
            None => BTreeSet::from([table.name.clone()]),
            Some(_) => BTreeSet::new(),
        };
        let fans = BTreeMap::from([(table.name.clone(), 1)]);
        let distinct = None;
        Ok(PrivateRelation { plan, scope, traces, owner, subject, fans, distinct, public })
    }

    /// The owner of a table's rows, from its hidden columns.
    fn owned(
        &self,
        table: &Table,
        unit: Option<&Unit>,
        carry: Vec<String>,
    ) -> Result<(Owner, UnitScope), NotAnalyzed> {
        let Some(unit) = unit else { return Ok((Owner::Public, UnitScope::nobody())) };
        let name = &table.name;
        Ok(match unit {
            Unit::Row => (Owner::Row, UnitScope::of_rows(name)),
            Unit::Column { column, .. } => {
                let subject = UnitScope::of_column(name, name, column, unit.max_rows());
                (Owner::Unit(carry.into_iter().next().ok_or_else(lost)?), subject)
            }
            Unit::Present { column, public } => {
                let subject = UnitScope::of_column(name, name, column, unit.max_rows());
                let unit = carry.into_iter().next().ok_or_else(lost)?;
                (Owner::Unit(unit), subject.with_public(column, public))
            }
            Unit::Month { person, date, .. } => {
                let subject = UnitScope::of_column(name, name, person, unit.max_rows());
                let unit = carry.into_iter().next().ok_or_else(lost)?;
                (Owner::Unit(unit), subject.per_month_of(date))
            }
            Unit::Via(link) => {
                let (root, column) = self.root_of(table)?;
                let names = link.columns.iter().filter(|own| self.names_unit(table, own)).cloned();
                let subject = UnitScope::of_column(&root.name, name, column, unit.max_rows())
                    .with_names(names);
                let pending = Pending { table: name.clone(), columns: carry, link: link.clone() };
                (Owner::Link(pending), subject)
            }
        })
    }

    /// The table at the end of a chain, and its column that identifies the unit.
    fn root_of(&self, table: &Table) -> Result<(&Table, &str), Refusal> {
        let root = self.catalog.root(&table.name).map(|(root, _)| root);
        let named = root.and_then(|root| Some((root, root.unit()?.column()?)));
        named.ok_or_else(|| {
            Refusal::new(
                Reason::Undeclared,
                &table.name,
                format!("the chain from {} to its unit is broken", table.name),
                "the owner declares the tables of the chain again",
            )
        })
    }

    /// True if a column of a table holds the unit itself, on every row that has a unit. The person
    /// of a month is not the unit: rows of a person in several months are those of several units.
    fn names_unit(&self, table: &Table, column: &str) -> bool {
        match table.unit() {
            Some(Unit::Column { column: unit, .. } | Unit::Present { column: unit, .. }) => {
                unit == column
            }
            Some(Unit::Via(Link { columns, table: to, references, .. })) => {
                let leads = columns.iter().zip(references).find(|(own, _)| *own == column);
                let target = self.catalog.table(to);
                leads.zip(target).is_some_and(|((_, to), target)| self.names_unit(target, to))
            }
            Some(Unit::Row | Unit::Month { .. }) | None => false,
        }
    }

    /// The same rows with their unit. If the query does not join along the chain, this adds the
    /// joins.
    ///
    /// # Guarantee
    /// Every row that remains has a unit to which the declared chain leads. A link was checked when
    /// it was declared: each key led to one row. For files, this check still holds; for other
    /// tables it may no longer hold, and nothing relies on it. If units share a key, a row that
    /// refers to this key appears once for each of these units. Each copy depends on the shared row
    /// and on one unit's rows, and counts among the rows of that unit, which are bounded above. So
    /// if a unit is removed, with the rows that lead to no other unit, exactly its own rows
    /// disappear from here. (Leaving shared rows out instead would let one person hide the rows of
    /// all others whose keys that person also holds.)
    pub(crate) fn resolved(
        &mut self,
        flow: PrivateRelation,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let Owner::Link(pending) = &flow.owner else { return Ok(flow) };
        let Pending { table, columns, link } = pending.clone();
        let mut tables = Vec::new();
        let chain = self.chain(&link, &mut tables, 0)?;
        let own = columns.iter().map(|name| flow.hidden(name).map(Expr::Column));
        let own: Vec<Expr> = own.collect::<Option<_>>().ok_or_else(lost)?;
        let unit = chain.unit.clone().or_else(|| columns.first().cloned()).ok_or_else(lost)?;
        let plan = led(chain, own, flow.plan)?;
        let added = link.columns.join(", ");
        self.step(format!(
            "Join {} on {table}({added}), added: its rows are those of their unit",
            tables.join(", ")
        ));
        let subject = flow.subject.with_tables(&tables);
        Ok(PrivateRelation { plan, owner: Owner::Unit(unit), subject, ..flow })
    }

    /// The keys to which a link refers, each with its unit.
    fn chain(
        &mut self,
        link: &Link,
        tables: &mut Vec<String>,
        depth: usize,
    ) -> Result<Chain, NotAnalyzed> {
        let broken = || {
            Refusal::new(
                Reason::Undeclared,
                &link.table,
                format!("{} leads to no unit", link.table),
                "the owner declares the tables of the chain again",
            )
        };
        let table = self.catalog.table(&link.table).ok_or_else(broken)?;
        let unit = table.unit().ok_or_else(|| undeclared(&link.table))?;
        let source = self.tables.source(&link.table).ok_or_else(broken)?;
        if depth > self.catalog.tables().count() {
            return Err(broken().into());
        }
        tables.push(link.table.clone());
        let name = TableReference::bare(link.table.as_str());
        let own = ScanColumns { table, scan: &name };
        let mut scan =
            LogicalPlanBuilder::scan(name.clone(), source, None).map_err(|e| internal(&e))?;
        for column in link.references.iter().chain(unit.columns()) {
            scan = scan.filter(is_someone(own.column(column))).map_err(|e| internal(&e))?;
        }
        let mut columns: Vec<Expr> = Vec::new();
        let mut take = |walk: &mut Self, column: &str| {
            let name = walk.fresh("key");
            columns.push(own.column(column).alias(name.clone()));
            name
        };
        let keys: Vec<String> = link.references.iter().map(|c| take(self, c)).collect();
        let is_unit =
            matches!(unit, Unit::Column { column, .. } if link.references == [column.clone()]);
        let next: Vec<String> = if is_unit {
            Vec::new()
        } else {
            unit.columns().iter().map(|column| take(self, column)).collect()
        };
        let plan =
            scan.project(columns).and_then(LogicalPlanBuilder::build).map_err(|e| internal(&e))?;
        match unit {
            // No link leads to people whose presence is public.
            Unit::Row | Unit::Month { .. } | Unit::Present { .. } => Err(broken().into()),
            Unit::Column { .. } => Ok(Chain { plan, keys, unit: next.into_iter().next() }),
            Unit::Via(further) => {
                let chain = self.chain(further, tables, depth + 1)?;
                let unit = chain.unit.clone().or_else(|| next.first().cloned());
                let own = next.iter().map(|name| Expr::Column(Column::from_name(name))).collect();
                Ok(Chain { plan: led(chain, own, plan)?, keys, unit })
            }
        }
    }
}

/// True if all rows of a unit have the same value of a column: a unit has one row, or the column
/// names the person of whom the unit is a month.
fn is_alike(unit: &Unit, column: &str) -> bool {
    match unit {
        Unit::Column { unique, .. } => *unique,
        Unit::Month { person, .. } => person == column,
        Unit::Present { .. } => true,
        Unit::Row | Unit::Via(_) => false,
    }
}

/// Joins rows with the rows to which their columns lead. The smaller side comes first.
fn led(chain: Chain, own: Vec<Expr>, rows: LogicalPlan) -> Result<LogicalPlan, NotAnalyzed> {
    let Chain { plan, keys, unit } = chain;
    let keys = keys.iter().map(|name| Expr::Column(Column::from_name(name)));
    let on = keys.zip(own).collect();
    let kind = if unit.is_some() { JoinType::Inner } else { JoinType::RightSemi };
    equal(plan, rows, on, None, kind)
}

/// The columns of a table in its scan.
struct ScanColumns<'a> {
    table: &'a Table,
    scan: &'a TableReference,
}

impl ScanColumns<'_> {
    fn column(&self, name: &str) -> Expr {
        debug_assert!(self.table.column(name).is_some(), "declared columns exist");
        Expr::Column(Column::new(Some(self.scan.clone()), name))
    }
}
