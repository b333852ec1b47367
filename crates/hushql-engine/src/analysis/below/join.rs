//! Joins below a release.
//!
//! In: inner joins with their conditions (from ON, USING or WHERE), and outer joins. Out: one
//! relation. Public tables may be joined on any condition. Private tables may be joined only if a
//! condition matches each row with rows of the same unit: equal units, or a declared link. The
//! engine does not trust a condition about units: unless the join itself passes the unit on along a
//! link, it also compares the hidden units.
//!
//! ```text
//! customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND …
//!   leaves      nation (public), customer, orders, lineitem (in the order of the chain)
//!   joined      ((nation ⋈ customer) ⋈ orders) ⋈ lineitem        the unit comes from customer
//! ```

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::Column;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan};

use super::column_origin::Origin;
use super::join_conditions::{Pool, conditions_of, equal_columns, factored, on_text, plain};
use super::outer_join::preserved_rows;
use super::public_conditions::restated;
use super::public_side::Multiplicity;
use super::relation::{Owner, PrivateRelation, told};
use super::unit::UnitScope;
use crate::analysis::below::pair::{Basis, Pair, combined, in_order};
use crate::analysis::below::refusals::{operator, several_months};
use crate::analysis::below::relation::has_subquery;
use crate::analysis::below::walk::Walk;
use crate::analysis::not_analyzed::{NotAnalyzed, lost};
use crate::catalog::quoted;
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// Inner joins, and the filters between them, as one join.
    pub(crate) fn joined(&mut self, plan: &LogicalPlan) -> Result<PrivateRelation, NotAnalyzed> {
        let (mut leaves, mut conditions) = (Vec::new(), Vec::new());
        self.gather(plan, &mut leaves, &mut conditions)?;
        factored(&mut conditions);
        restated(&mut conditions, &leaves);
        let (later, conditions): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_subquery);
        let mut pool = Pool { conditions };
        // Conditions on a single table are applied first, because they leave fewer rows and keys.
        let mut flows = Vec::new();
        for leaf in leaves {
            let own = pool.take(&[&leaf]);
            flows.push(self.filtered(leaf, own)?);
        }
        let flow = self.ordered(flows, &mut pool)?;
        let rest = std::mem::take(&mut pool.conditions);
        let flow = self.filtered(flow, rest.into_iter().chain(later).collect())?;
        in_order(flow, plan.schema())
    }

    /// The leaves of a tree of inner joins, and all its conditions.
    fn gather(
        &mut self,
        plan: &LogicalPlan,
        leaves: &mut Vec<PrivateRelation>,
        conditions: &mut Vec<Expr>,
    ) -> Result<(), NotAnalyzed> {
        match plan {
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                plain(join)?;
                self.gather(&join.left, leaves, conditions)?;
                self.gather(&join.right, leaves, conditions)?;
                conditions.extend(conditions_of(join));
                Ok(())
            }
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                self.gather(input, leaves, conditions)?;
                conditions.extend(split_conjunction_owned(predicate.clone()));
                Ok(())
            }
            other => {
                leaves.push(self.rows(other)?);
                Ok(())
            }
        }
    }

    /// Joins relations: public ones with each other, then with the private table to which they
    /// belong, and then along the chain.
    fn ordered(
        &mut self,
        flows: Vec<PrivateRelation>,
        pool: &mut Pool,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let (public, mut private): (Vec<_>, Vec<_>) =
            flows.into_iter().partition(PrivateRelation::is_public);
        let mut public = self.components(public, pool)?;
        private.sort_by_key(|flow| self.depth(flow));
        let mut own = Vec::new();
        for mut flow in private {
            // Public rows that are joined with this table only.
            while let Some(i) = public.iter().position(|p| pool.joins_only(p, &flow)) {
                let side = public.remove(i);
                flow = self.with_public(flow, side, pool, JoinType::Inner)?;
            }
            own.push(flow);
        }
        let mut own = own.into_iter();
        let Some(mut flow) = own.next() else {
            let mut public = public.into_iter();
            let first = public.next().ok_or_else(lost)?;
            return public.try_fold(first, |all, next| self.both_public(all, next, pool));
        };
        let mut rest: Vec<PrivateRelation> = own.collect();
        while !rest.is_empty() {
            let next = rest
                .iter()
                .position(|next| self.basis(&flow, next, &pool.between(&flow, next)).is_some());
            let next = rest.remove(next.unwrap_or(0));
            flow = self.both_private(flow, next, pool)?;
            // If public rows also have conditions on a private table that is joined later, they are
            // joined after it, because each row then matches fewer of them.
            while let Some(i) =
                public.iter().position(|p| pool.connects(p, &flow) && !pool.connects_any(p, &rest))
            {
                let side = public.remove(i);
                flow = self.with_public(flow, side, pool, JoinType::Inner)?;
            }
        }
        for side in public {
            flow = self.with_public(flow, side, pool, JoinType::Inner)?;
        }
        Ok(flow)
    }

    /// Joins the public relations that are connected by conditions.
    fn components(
        &mut self,
        flows: Vec<PrivateRelation>,
        pool: &mut Pool,
    ) -> Result<Vec<PrivateRelation>, NotAnalyzed> {
        let mut components: Vec<PrivateRelation> = Vec::new();
        for mut flow in flows {
            while let Some(i) = components.iter().position(|other| pool.connects(other, &flow)) {
                let other = components.remove(i);
                flow = self.both_public(other, flow, pool)?;
            }
            components.push(flow);
        }
        Ok(components)
    }

    /// The number of links between a relation's rows and their unit.
    fn depth(&self, flow: &PrivateRelation) -> usize {
        let tables = flow.subject.tables().iter();
        tables.filter_map(|t| self.catalog.root(t)).map(|(_, links)| links).max().unwrap_or(0)
    }

    fn both_public(
        &mut self,
        left: PrivateRelation,
        right: PrivateRelation,
        pool: &mut Pool,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let conditions = pool.take(&[&left, &right]);
        let owner = Owner::Public;
        let subject = left.subject.clone();
        let pair = Pair { left, right, on: Vec::new() };
        let flow = combined(pair, JoinType::Inner, &conditions)?;
        Ok(PrivateRelation { owner, subject, ..flow }.with_one_source())
    }

    /// Joins private rows with the public rows that they match.
    pub(crate) fn with_public(
        &mut self,
        private: PrivateRelation,
        mut public: PrivateRelation,
        pool: &mut Pool,
        kind: JoinType,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let conditions = pool.take(&[&private, &public]);
        if matches!(private.owner, Owner::Row) {
            // Nothing else bounds how often a row is repeated, so the join uses exactly the rows
            // that were counted.
            public = self.pinned_flow(public)?;
        }
        let most = self.multiplicity(&private, &public, &conditions)?;
        let many = if private.subject.max_rows().is_some() { most } else { Multiplicity(None) };
        let text = match many.0 {
            Some(1) => "each row once".to_owned(),
            Some(n) => format!("each row at most {n} times"),
            None => "each row any number of times".to_owned(),
        };
        let names = public.public.iter().cloned().collect::<Vec<_>>().join(", ");
        self.step(format!("Join {names} [public, {text}]{}", on_text(&conditions)));
        let many = if kind == JoinType::Left { many.at_least_one() } else { many };
        let rows = many.times(private.subject.max_rows());
        if rows.is_none() && matches!(private.owner, Owner::Row) {
            return Err(
                operator("a join that repeats rows without bound", "a join on equal keys").into()
            );
        }
        let fans = private.fans.iter();
        let fans = fans.filter_map(|(t, n)| Some((t.clone(), many.times(Some(*n))?))).collect();
        let times = if kind == JoinType::Left { most.at_least_one() } else { most };
        let times = times.0.unwrap_or(u64::MAX);
        let columns = public.scope.schema.columns();
        // If rows of a unit agree in the columns that decide the match, they have the same match.
        let decided = |e: &Expr| {
            let refs = e.column_refs();
            refs.into_iter()
                .all(|c| columns.contains(c) || private.is_alike(&Expr::Column(c.clone())))
        };
        let alike = most.0 == Some(1) && conditions.iter().all(decided);
        let owner = private.owner.clone();
        let subject = private.subject.clone().repeated(&names, times).with_rows(rows);
        self.refuse_reach(&subject, private.subject.reach())?;
        let flow = if kind == JoinType::Left {
            combined(Pair { left: private, right: public, on: Vec::new() }, kind, &conditions)?
        } else {
            // The join holds its first side in memory, and the public side is usually the smaller
            // one.
            combined(Pair { left: public, right: private, on: Vec::new() }, kind, &conditions)?
        };
        let mut flow = flow;
        for column in columns.iter().filter(|_| alike) {
            let index = flow.scope.schema.maybe_index_of_column(column);
            if let Some(trace) = index.and_then(|i| flow.traces.get_mut(i)) {
                trace.of_unit.alike = true;
            }
        }
        Ok(PrivateRelation { owner, subject, fans, ..flow })
    }

    fn both_private(
        &mut self,
        left: PrivateRelation,
        right: PrivateRelation,
        pool: &mut Pool,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let conditions = pool.take(&[&left, &right]);
        self.of_one_unit(left, right, &conditions, JoinType::Inner)
    }

    /// Joins private rows with private rows of the same unit.
    pub(crate) fn of_one_unit(
        &mut self,
        left: PrivateRelation,
        right: PrivateRelation,
        conditions: &[Expr],
        kind: JoinType,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let basis = self.required_basis(&left, &right, conditions)?;
        self.refuse_all_pairs(&left, &right, conditions)?;
        let (pair, basis) = self.paired(left, right, basis, kind)?;
        let Pair { left, right, .. } = &pair;
        let once = Once::of(left, right, conditions);
        let (rows, fans) = rows_of(left, right, basis, kind, once);
        let distinct = match (once.right, once.left && kind == JoinType::Inner) {
            (true, _) => left.distinct.clone(),
            (false, true) => right.distinct.clone(),
            (false, false) => None,
        };
        let owner = match basis {
            Basis::LeftLeads => right.owner.clone(),
            Basis::RightLeads | Basis::Compared => left.owner.clone(),
        };
        let subject = left.subject.clone().joined(&right.subject, rows);
        self.refuse_reach(&subject, left.subject.reach().max(right.subject.reach()))?;
        let name = if kind == JoinType::Inner { "Join" } else { "Left join" };
        let why = match basis {
            Basis::LeftLeads | Basis::RightLeads => "along the declared link",
            Basis::Compared if self.blocks.is_some() => "rows of one block",
            Basis::Compared => "rows of one unit",
        };
        self.step(format!(
            "{name} {} with {} [{why}]{}",
            left.subject.tables().join(", "),
            right.subject.tables().join(", "),
            on_text(conditions)
        ));
        let flow = combined(pair, kind, conditions)?;
        Ok(PrivateRelation { owner, subject, fans, distinct, ..flow })
    }

    /// Refuses a join that can produce more rows of one unit than a statement allows. Rows are
    /// bounded only above the join, so without this limit one person could determine how long the
    /// query takes.
    fn refuse_reach(&self, subject: &UnitScope, before: u64) -> Result<(), Refusal> {
        let most = self.tables.most_rows_of_a_unit();
        if subject.reach() <= most.max(before) {
            return Ok(());
        }
        let reach = match subject.reach() {
            u64::MAX => "more rows than can be counted".to_owned(),
            reach => format!("{reach} rows"),
        };
        Err(Refusal::new(
            Reason::TooLarge,
            subject.factors().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            format!(
                "joins can make {reach} of one person before rows are bounded, and {most} are allowed: \
                 each of the tables below multiplies them"
            ),
            "fewer such joins; for a public table one row a key: JOIN (SELECT key, MAX(x) AS x FROM t GROUP BY key) t; for a \
             person's rows a subquery with GROUP BY the unit; or the owner allows more rows of a unit (--max-fan-out)",
        ))
    }

    /// Prepares two relations so that their rows can be joined by unit.
    pub(crate) fn paired(
        &mut self,
        left: PrivateRelation,
        right: PrivateRelation,
        basis: Basis,
        kind: JoinType,
    ) -> Result<(Pair, Basis), NotAnalyzed> {
        let keeps_left = kind != JoinType::Inner;
        match basis {
            Basis::RightLeads => Ok((Pair { left, right, on: Vec::new() }, basis)),
            Basis::LeftLeads if !keeps_left => Ok((Pair { left, right, on: Vec::new() }, basis)),
            Basis::LeftLeads | Basis::Compared => {
                let (left, right) = (self.resolved(left)?, self.resolved(right)?);
                let units = left.unit_column().zip(right.unit_column()).ok_or_else(lost)?;
                let on = vec![(Expr::Column(units.0), Expr::Column(units.1))];
                Ok((Pair { left, right, on }, Basis::Compared))
            }
        }
    }

    pub(crate) fn required_basis(
        &self,
        left: &PrivateRelation,
        right: &PrivateRelation,
        conditions: &[Expr],
    ) -> Result<Basis, Refusal> {
        let refused = |message: String, hint: String| {
            Err(Refusal::new(Reason::Join, told(conditions), message, hint))
        };
        let tables = |flow: &PrivateRelation| flow.subject.tables().join(", ");
        if matches!(left.owner, Owner::Row) || matches!(right.owner, Owner::Row) {
            let row = if matches!(left.owner, Owner::Row) { left } else { right };
            return refused(
                format!(
                    "every row of {} is a unit of its own, so no join keeps to one unit",
                    tables(row)
                ),
                "the release over one table, or a unit that a column names".to_owned(),
            );
        }
        if let Some(refusal) = several_months(&left.subject, "the join of private rows")
            && left.subject.unit_domain() == right.subject.unit_domain()
        {
            return Err(refusal);
        }
        if left.subject.unit_domain() != right.subject.unit_domain() {
            return refused(
                format!(
                    "{} and {} protect different people, and a join would tie one to many of the other",
                    tables(left),
                    tables(right)
                ),
                format!(
                    "one release over each, or ALTER TABLE … SET PRIVACY UNIT VIA (…) REFERENCES {}(…)",
                    quoted(left.subject.unit_domain())
                ),
            );
        }
        // The hidden columns of the blocks are compared.
        let is_within = self.blocks.is_some();
        match self.basis(left, right, conditions).or(is_within.then_some(Basis::Compared)) {
            Some(basis) => Ok(basis),
            None => refused(
                format!(
                    "the join of {} and {} does not keep to one unit, so one person could change many rows",
                    tables(left),
                    tables(right)
                ),
                format!(
                    "a condition that the units are equal ({}), or one along a declared link",
                    left.subject.column().unwrap_or("unit")
                ),
            ),
        }
    }

    /// Why equal columns among the conditions match only rows of one unit, if they do.
    pub(crate) fn basis(
        &self,
        left: &PrivateRelation,
        right: &PrivateRelation,
        conditions: &[Expr],
    ) -> Option<Basis> {
        let pairs = equal_columns(left, right, conditions);
        let known = |(l, r): &(Column, Column)| {
            let trace = |flow: &PrivateRelation, column: &Column| {
                let trace = flow.trace(&Expr::Column(column.clone()))?;
                Some((trace.origin.clone()?, trace.reading))
            };
            let ((l, l_row), (r, r_row)) = (trace(left, l)?, trace(right, r)?);
            Some(((l, r), (l_row, r_row)))
        };
        let known: Vec<_> = pairs.iter().filter_map(known).collect();
        let leads = |from: &PrivateRelation, swap: bool| {
            let Owner::Link(pending) = &from.owner else { return false };
            // All equal columns must come from one row on each side: columns of two rows of one
            // unit can together form the key of another unit's row.
            let rows: BTreeSet<_> = known.iter().map(|(_, rows)| *rows).collect();
            rows.into_iter().any(|rows| {
                pending.link.columns.iter().zip(&pending.link.references).all(|(own, to)| {
                    let own = Origin { table: pending.table.clone(), column: own.clone() };
                    let to = Origin { table: pending.link.table.clone(), column: to.clone() };
                    known.contains(&(if swap { (own, to) } else { (to, own) }, rows))
                })
            })
        };
        let origins: BTreeSet<_> = known.iter().map(|(origins, _)| origins.clone()).collect();
        if leads(right, false) {
            return Some(Basis::RightLeads);
        }
        if leads(left, true) {
            return Some(Basis::LeftLeads);
        }
        let same_unit = pairs.iter().any(|(l, r)| {
            let is_unit = |flow: &PrivateRelation, column: &Column| {
                // Equal columns are not NULL, so the row has a match in the outer join that padded
                // it.
                let padded = flow.trace(&Expr::Column(column.clone()));
                flow.scope.facts_of(column).is_some_and(|f| f.is_unit)
                    || padded.is_some_and(|trace| trace.unit_or_null)
            };
            is_unit(left, l) && is_unit(right, r)
        });
        (same_unit || self.determined(&origins)).then_some(Basis::Compared)
    }

    /// True if equal columns lead to the same row of a table from both sides.
    fn determined(&self, origins: &BTreeSet<(Origin, Origin)>) -> bool {
        let canonical = |origin: &Origin| {
            let link = self.catalog.table(&origin.table)?.unit()?.link();
            let led = link.and_then(|link| {
                let i = link.columns.iter().position(|c| *c == origin.column)?;
                Some(Origin { table: link.table.clone(), column: link.references.get(i)?.clone() })
            });
            Some(led.unwrap_or_else(|| origin.clone()))
        };
        let same: BTreeSet<Origin> = origins
            .iter()
            .filter_map(|(l, r)| Some((canonical(l)?, canonical(r)?)))
            .filter(|(l, r)| l == r)
            .map(|(l, _)| l)
            .collect();
        let links = self.catalog.tables().filter_map(|table| table.unit()?.link());
        links.into_iter().any(|link| {
            link.references.iter().all(|column| {
                same.contains(&Origin { table: link.table.clone(), column: column.clone() })
            })
        })
    }

    /// LEFT and RIGHT joins.
    pub(crate) fn outer_join(&mut self, join: &Join) -> Result<PrivateRelation, NotAnalyzed> {
        if let Some(rows) = self.of_both(join)? {
            return Ok(rows);
        }
        plain(join)?;
        let conditions = conditions_of(join);
        let (kept, other) = match join.join_type {
            JoinType::Left => (&join.left, &join.right),
            JoinType::Right => (&join.right, &join.left),
            JoinType::Full => {
                let write = "LEFT JOIN in place of FULL JOIN, with the table that names the unit on the left";
                return Err(operator("FULL JOIN", write).into());
            }
            JoinType::Inner
            | JoinType::LeftSemi
            | JoinType::RightSemi
            | JoinType::LeftAnti
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => return Err(operator("this join", "IN or EXISTS").into()),
        };
        if conditions.iter().any(has_subquery) {
            return Err(operator("a subquery in ON", "the condition in WHERE").into());
        }
        let (kept, other) = (self.rows(kept)?, self.rows(other)?);
        let flow = match (kept.is_public(), other.is_public()) {
            (true, true) => {
                let subject = kept.subject.clone();
                let pair = Pair { left: kept, right: other, on: Vec::new() };
                let flow = combined(pair, JoinType::Left, &conditions)?;
                PrivateRelation { owner: Owner::Public, subject, ..flow }.with_one_source()
            }
            (false, true) => {
                let mut pool = Pool { conditions };
                self.with_public(kept, other, &mut pool, JoinType::Left)?
            }
            (false, false) => self.of_one_unit(kept, other, &conditions, JoinType::Left)?,
            (true, false) => return Err(preserved_rows().into()),
        };
        in_order(flow, &join.schema)
    }
}

/// For each side, true if each row of the other side matches at most one of its rows.
#[derive(Debug, Clone, Copy)]
struct Once {
    left: bool,
    right: bool,
}

impl Once {
    /// Derives this from the columns in which no two rows of one unit are equal.
    fn of(left: &PrivateRelation, right: &PrivateRelation, conditions: &[Expr]) -> Self {
        let pairs = equal_columns(left, right, conditions);
        let all = |flow: &PrivateRelation, equated: BTreeSet<&Column>| {
            let distinct = flow.distinct.as_ref();
            distinct.is_some_and(|columns| columns.iter().all(|c| equated.contains(c)))
        };
        Self {
            left: all(left, pairs.iter().map(|(l, _)| l).collect()),
            right: all(right, pairs.iter().map(|(_, r)| r).collect()),
        }
    }
}

/// The most rows of a unit in a join of private rows; and for each table that is read, the most
/// rows of the join that come from one of its rows.
fn rows_of(
    left: &PrivateRelation,
    right: &PrivateRelation,
    basis: Basis,
    kind: JoinType,
    once: Once,
) -> (Option<u64>, BTreeMap<String, u64>) {
    let (l, r) = (left.subject.max_rows(), right.subject.max_rows());
    let product = |a: Option<u64>, b: Option<u64>| a?.checked_mul(b?);
    let outer = kind == JoinType::Left;
    let r_or_one = if outer { r.map(|r| r.max(1)) } else { r };
    let of_pairs = product(l, r_or_one);
    // Along a link, each row of the child matches the rows that come from one row of the parent.
    let along = |child: &PrivateRelation, parent: &PrivateRelation| {
        let Owner::Link(pending) = &child.owner else { return (None, BTreeMap::new()) };
        let fan = parent.fans.get(&pending.link.table).copied();
        let fans = child.fans.iter().filter_map(|(t, n)| Some((t.clone(), n.checked_mul(fan?)?)));
        (product(child.subject.max_rows(), fan), fans.collect())
    };
    let smaller = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    };
    match basis {
        Basis::RightLeads => {
            let (rows, fans) = along(right, left);
            if !outer {
                return (smaller(rows, of_pairs), fans);
            }
            // Rows without a match are preserved, too, and come from no row of the child.
            let with_unmatched = rows.zip(l).and_then(|(rows, l)| rows.checked_add(l));
            let is_twice = |table: &String| left.subject.tables().contains(table);
            let fans = fans.into_iter().filter(|(table, _)| !is_twice(table)).collect();
            (smaller(with_unmatched, of_pairs), fans)
        }
        Basis::LeftLeads => {
            let (rows, fans) = along(left, right);
            (smaller(rows, of_pairs), fans)
        }
        Basis::Compared => {
            let times = |flow: &PrivateRelation, by: Option<u64>| {
                let fans = flow.fans.iter();
                let fans = fans.filter_map(|(t, n)| Some((t.clone(), n.checked_mul(by?)?)));
                fans.collect::<BTreeMap<_, _>>()
            };
            let one = |is_one: bool, rows| if is_one { Some(1) } else { rows };
            let mut fans = times(left, one(once.right, r_or_one));
            if !outer {
                for (table, fan) in times(right, one(once.left, l)) {
                    // A table that is read on both sides contributes two rows to each row here, so
                    // it has no fan.
                    if fans.remove(&table).is_none() {
                        fans.insert(table, fan);
                    }
                }
            }
            let of_left = if once.right { l } else { None };
            let unmatched = if outer { l } else { Some(0) };
            let of_right = r.zip(unmatched).filter(|_| once.left);
            let of_right = of_right.and_then(|(r, unmatched)| r.checked_add(unmatched));
            (smaller(smaller(of_pairs, of_left), of_right), fans)
        }
    }
}
