//! Queries of SQL as plans.
//!
//! In: the syntax tree of a query. Out: a plan, with the names and types of its columns. A relation
//! that neither the catalog nor the query's own WITH has is an error; then the query goes to the
//! engine.

use std::cell::RefCell;
use std::rc::Rc;

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, ObjectName,
    OrderByKind, Query, Select as Selected, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    SetOperator, SetQuantifier, TableFactor, TableWithJoins,
};

use super::calls::{call, has_system, joined_as_one, rows_of_values};
use super::compile::{
    CatalogScope, Compiled, Compiler, NamedColumns, Queries, Sort, VisibleColumn, folded, parts,
    sorted,
};
use super::datum::{CatalogType, Unanswered};
use super::named::{bare, conjuncts, function_columns, name_of, names, place, plan_of};
use super::node::{Node, SubqueryRows};
use super::plan::{Body, CatalogQuery, From, FromItem, Groups, Join, Select, SetOperation};
use super::relations;
use super::rows;

/// The most levels of nested queries.
const DEEPEST: usize = 24;

/// The queries that WITH names, the innermost first.
#[derive(Clone, Copy)]
struct WithNames<'a> {
    name: &'a str,
    what: WithQuery<'a>,
    /// The scope around the query that has the WITH.
    outer: Option<&'a CatalogScope<'a>>,
    next: Option<&'a WithNames<'a>>,
}

#[derive(Clone, Copy)]
enum WithQuery<'a> {
    /// A query, with the names that it may use.
    Query(&'a Query, &'a [String], Option<&'a WithNames<'a>>),
    /// The same for a query that refers to itself.
    Recursive(&'a Query, &'a [String], Option<&'a WithNames<'a>>),
    /// The rows of the previous round.
    Working(&'a NamedColumns, &'a Rc<RefCell<Vec<Vec<super::datum::Datum>>>>),
}

/// Compiles the queries of a statement, given the WITH names in scope.
pub(super) struct Within<'a> {
    names: Option<&'a WithNames<'a>>,
    depth: usize,
}

impl Within<'_> {
    /// At the top of a statement.
    pub(super) fn new() -> Self {
        Self { names: None, depth: 0 }
    }
}

impl Queries for Within<'_> {
    fn query(
        &self,
        compiler: &Compiler<'_>,
        query: &Query,
        outer: &CatalogScope<'_>,
    ) -> Result<Compiled, Unanswered> {
        let plan = self.plan(compiler, query, Some(outer))?;
        Ok(Compiled { columns: plan.columns.clone(), rows: Box::new(Around(plan)) })
    }
}

/// A query within an expression. Inside, the row of the outer query is one level further out.
#[derive(Debug)]
struct Around(CatalogQuery);

impl SubqueryRows for Around {
    fn rows(
        &self,
        env: &super::node::Env<'_>,
    ) -> Result<Vec<Vec<super::datum::Datum>>, Unanswered> {
        self.0.rows(&super::node::Env { row: &[], aggregates: &[], outer: Some(env), ..*env })
    }
}

/// The columns of the sources that were compiled so far.
#[derive(Default)]
struct ReadSources {
    columns: Vec<VisibleColumn>,
    sources: Vec<FromItem>,
}

impl Within<'_> {
    /// The plan of a query.
    pub(super) fn plan(
        &self,
        compiler: &Compiler<'_>,
        query: &Query,
        outer: Option<&CatalogScope<'_>>,
    ) -> Result<CatalogQuery, Unanswered> {
        if self.depth >= DEEPEST
            || query.fetch.is_some()
            || !query.locks.is_empty()
            || query.for_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(Unanswered::Unclear);
        }
        let Some(with) = &query.with else { return self.inner(compiler, query, outer) };
        let columns: Vec<Vec<String>> =
            with.cte_tables.iter().map(|cte| names(Some(&cte.alias))).collect();
        self.with(compiler, query, outer, (&with.cte_tables, &columns, with.recursive))
    }

    /// The plan of a query, with the first of these names in scope, then the next one, and so on.
    fn with(
        &self,
        compiler: &Compiler<'_>,
        query: &Query,
        outer: Option<&CatalogScope<'_>>,
        (ctes, columns, recursive): (&[sqlparser::ast::Cte], &[Vec<String>], bool),
    ) -> Result<CatalogQuery, Unanswered> {
        let (Some((first, ctes)), Some((own, columns))) =
            (ctes.split_first(), columns.split_first())
        else {
            return self.inner(compiler, query, outer);
        };
        let name = folded(&first.alias.name);
        let what = match recursive && matches!(&*first.query.body, SetExpr::SetOperation { .. }) {
            true => WithQuery::Recursive(&first.query, own, self.names),
            false => WithQuery::Query(&first.query, own, self.names),
        };
        let names = WithNames { name: &name, what, outer, next: self.names };
        let within = Within { names: Some(&names), depth: self.depth };
        // Compiled even if nothing refers to it: it may name a table that is not the catalog's.
        within.known(compiler, &names, outer)?;
        within.with(compiler, query, outer, (ctes, columns, recursive))
    }

    /// The plan of a query after its WITH.
    fn inner(
        &self,
        compiler: &Compiler<'_>,
        query: &Query,
        outer: Option<&CatalogScope<'_>>,
    ) -> Result<CatalogQuery, Unanswered> {
        let queries = Within { names: self.names, depth: self.depth + 1 };
        let compiler = &Compiler { queries: &queries, ..*compiler };
        let mut plan = match &*query.body {
            SetExpr::Select(select) => queries.select(compiler, select, query, outer)?,
            SetExpr::Query(inner) => queries.plan(compiler, inner, outer)?,
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let side = |side: &SetExpr| queries.plan(compiler, &bare(side), outer);
                let all = *set_quantifier == SetQuantifier::All;
                let how = match op {
                    SetOperator::Union => SetOperation::Union,
                    SetOperator::Intersect => SetOperation::Intersect,
                    SetOperator::Except | SetOperator::Minus => SetOperation::Except,
                };
                let (left, right) = (side(left)?, side(right)?);
                if left.columns.len() != right.columns.len() {
                    let message = "the two sides have not as many columns";
                    return Err(Unanswered::Said("42601", message.to_owned()));
                }
                let both = left.columns.iter().zip(&right.columns);
                // A side of NULL alone is a text, and takes the type of the other side.
                let column = |((name, kind), (_, other)): (&(String, CatalogType), &(_, _))| {
                    let kind = if *kind == CatalogType::TEXT { *other } else { *kind };
                    (name.clone(), kind)
                };
                plan_of(
                    both.map(column).collect(),
                    Body::Set { left: left.into(), right: right.into(), how, all },
                )
            }
            SetExpr::Values(values) => rows_of_values(compiler, values, outer)?,
            _ => return Err(Unanswered::Unclear),
        };
        if !matches!(&*query.body, SetExpr::Select(_))
            && let Some(order) = &query.order_by
        {
            let OrderByKind::Expressions(list) = &order.kind else {
                return Err(Unanswered::Unclear);
            };
            for by in list {
                let place = place(&by.expr, &plan.columns).ok_or(Unanswered::Unclear)?;
                plan.order.push(sorted(by, Node::Column { depth: 0, index: place }));
            }
        }
        let scope = CatalogScope { columns: &[], outer, aggregates: None, extras: None };
        let count = |expr: &Expr| compiler.node(expr, &scope).map(|(node, _)| node);
        match &query.limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                plan.limit = limit.as_ref().map(count).transpose()?;
                plan.offset = offset.as_ref().map(|offset| count(&offset.value)).transpose()?;
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => return Err(Unanswered::Unclear),
        }
        Ok(plan)
    }

    fn select(
        &self,
        compiler: &Compiler<'_>,
        select: &Selected,
        query: &Query,
        outer: Option<&CatalogScope<'_>>,
    ) -> Result<CatalogQuery, Unanswered> {
        if select.into.is_some()
            || select.qualify.is_some()
            || select.prewhere.is_some()
            || select.top.is_some()
        {
            return Err(Unanswered::Unclear);
        }
        let mut sources = ReadSources::default();
        for table in &select.from {
            self.table(compiler, table, &mut sources, outer)?;
        }
        let ReadSources { columns, sources } = sources;
        let (aggregates, extras) = (RefCell::default(), RefCell::default());
        let plain = CatalogScope { columns: &columns, outer, aggregates: None, extras: None };
        let full = CatalogScope { aggregates: Some(&aggregates), extras: Some(&extras), ..plain };
        let mut filter = Vec::new();
        if let Some(expr) = &select.selection {
            conjuncts(compiler.node(expr, &plain)?.0, &mut filter);
        }
        let (mut items, mut named) = (Vec::new(), NamedColumns::new());
        for item in &select.projection {
            self.item(compiler, item, &full, (&mut items, &mut named))?;
        }
        let GroupByExpr::Expressions(by, _) = &select.group_by else {
            return Err(Unanswered::Unclear);
        };
        let mut keys = Vec::new();
        for expr in by {
            let written = place(expr, &named).and_then(|place| select.projection.get(place));
            let is_column = compiler.node(expr, &plain);
            keys.push(match (is_column, written) {
                // A name refers to a column of the tables first, and a number to a position.
                (Ok((node, _)), _) if !matches!(expr, Expr::Value(_)) => node,
                (
                    _,
                    Some(SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr)),
                ) => compiler.node(expr, &plain)?.0,
                _ => return Err(Unanswered::Unclear),
            });
        }
        let having = select.having.as_ref().map(|expr| compiler.node(expr, &full)).transpose()?;
        let order = self.order(compiler, query, &full, (&mut items, &named))?;
        let (mut distinct, mut first_of) = (false, Vec::new());
        match &select.distinct {
            None | Some(Distinct::All) => {}
            Some(Distinct::Distinct) => distinct = true,
            Some(Distinct::On(keys)) => {
                for key in keys {
                    first_of.push(match place(key, &named) {
                        Some(place) => place,
                        None => {
                            items.push(compiler.node(key, &full)?.0);
                            items.len() - 1
                        }
                    });
                }
            }
        }
        let aggregates = aggregates.into_inner();
        let is_grouped = !(aggregates.is_empty() && keys.is_empty() && having.is_none());
        let groups =
            is_grouped.then(|| Groups { keys, aggregates, having: having.map(|(node, _)| node) });
        let select =
            Select { sources, filter, groups, extras: extras.into_inner(), items, distinct };
        let mut plan = plan_of(named, Body::Select(Box::new(select)));
        plan.order = order;
        plan.first_of = first_of;
        Ok(plan)
    }

    /// The sort keys: columns of the answer, or nodes that are selected after them.
    fn order(
        &self,
        compiler: &Compiler<'_>,
        query: &Query,
        scope: &CatalogScope<'_>,
        (items, named): (&mut Vec<Node>, &NamedColumns),
    ) -> Result<Vec<Sort>, Unanswered> {
        let Some(order) = &query.order_by else { return Ok(Vec::new()) };
        let OrderByKind::Expressions(list) = &order.kind else { return Err(Unanswered::Unclear) };
        let mut sorts = Vec::new();
        for by in list {
            let index = match place(&by.expr, named) {
                Some(place) => place,
                None => {
                    items.push(compiler.node(&by.expr, scope)?.0);
                    items.len() - 1
                }
            };
            sorts.push(sorted(by, Node::Column { depth: 0, index }));
        }
        Ok(sorts)
    }

    fn item(
        &self,
        compiler: &Compiler<'_>,
        item: &SelectItem,
        scope: &CatalogScope<'_>,
        (items, named): (&mut Vec<Node>, &mut NamedColumns),
    ) -> Result<(), Unanswered> {
        let mut all = |table: Option<&str>| {
            let before = items.len();
            for (index, column) in scope.columns.iter().enumerate() {
                let is_named = match table {
                    None => !column.is_system && !column.is_merged,
                    Some(table) => column.table == table && !column.is_system,
                };
                if is_named {
                    items.push(Node::Column { depth: 0, index });
                    named.push((column.name.clone(), column.kind));
                }
            }
            if items.len() == before { Err(Unanswered::Unclear) } else { Ok(()) }
        };
        let (expr, name) = match item {
            SelectItem::Wildcard(_) => return all(None),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                return all(parts(name)?.last().map(String::as_str));
            }
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, folded(alias)),
            SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => {
                return Err(Unanswered::Unclear);
            }
        };
        let (node, kind) = compiler.node(expr, scope)?;
        let (node, kind) = match node {
            // A number that stands for a table or a type is sorted by its name.
            Node::Cast(what, inner)
                if ["regclass", "regtype", "regnamespace"].contains(&what.as_str()) =>
            {
                (Node::Shown(what, inner), CatalogType::TEXT)
            }
            node => (node, kind),
        };
        items.push(node);
        named.push((name, kind));
        Ok(())
    }

    fn table(
        &self,
        compiler: &Compiler<'_>,
        table: &TableWithJoins,
        to: &mut ReadSources,
        outer: Option<&CatalogScope<'_>>,
    ) -> Result<(), Unanswered> {
        self.factor(compiler, &table.relation, to, outer, Join::Inner)?;
        for join in &table.joins {
            let (constraint, how) = match &join.join_operator {
                JoinOperator::Join(on) | JoinOperator::Inner(on) => (on, Join::Inner),
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (on, Join::Left),
                JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (on, Join::Right),
                JoinOperator::FullOuter(on) => (on, Join::Full),
                JoinOperator::CrossJoin(on) => (on, Join::Inner),
                _ => return Err(Unanswered::part("this kind of JOIN")),
            };
            let (before, sources) = (to.columns.len(), to.sources.len());
            self.factor(compiler, &join.relation, to, outer, how)?;
            let mut on = Vec::new();
            match constraint {
                JoinConstraint::On(expr) => {
                    let scope = CatalogScope {
                        columns: &to.columns,
                        outer,
                        aggregates: None,
                        extras: None,
                    };
                    conjuncts(compiler.node(expr, &scope)?.0, &mut on);
                }
                JoinConstraint::Using(names) => {
                    for name in names {
                        let name = parts(name)?.pop().ok_or(Unanswered::Unclear)?;
                        let find =
                            |columns: &[VisibleColumn]| columns.iter().position(|c| c.name == name);
                        let left = to.columns.get(..before).and_then(find);
                        let right = to.columns.get(before..).and_then(find).map(|at| at + before);
                        let missing = || Unanswered::column(&name);
                        let (left, right) = left.zip(right).ok_or_else(missing)?;
                        let place = right;
                        let [left, right] =
                            [left, right].map(|index| Box::new(Node::Column { depth: 0, index }));
                        on.push(Node::Compare(super::node::Comparison::Equal, left, right));
                        if let Some(column) = to.columns.get_mut(place) {
                            column.is_merged = true;
                        }
                    }
                }
                JoinConstraint::None => {}
                JoinConstraint::Natural => return Err(Unanswered::part("NATURAL JOIN")),
            }
            // If several sources are joined at once, the condition belongs to the last one.
            if to.sources.len() - sources != 1 && how != Join::Inner {
                return Err(Unanswered::part("a JOIN of several tables"));
            }
            if let Some(last) = to.sources.last_mut() {
                last.on.extend(on);
            }
        }
        Ok(())
    }

    fn factor(
        &self,
        compiler: &Compiler<'_>,
        factor: &TableFactor,
        to: &mut ReadSources,
        outer: Option<&CatalogScope<'_>>,
        how: Join,
    ) -> Result<(), Unanswered> {
        let here = CatalogScope { columns: &to.columns, outer, aggregates: None, extras: None };
        let (columns, from, alias, usual) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let (columns, from, usual) = self.relation(compiler, name, outer)?;
                (columns, from, alias, usual)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let (columns, from, usual) =
                    call(compiler, name, &args.args, *with_ordinality, &here)?;
                (columns, from, alias, usual)
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                let (columns, from, usual) = call(compiler, name, args, *with_ordinality, &here)?;
                (columns, from, alias, usual)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let values = array_exprs.iter().map(|expr| compiler.node(expr, &here));
                let (values, kinds): (Vec<Node>, Vec<CatalogType>) =
                    values.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
                let columns = function_columns("unnest", &kinds, *with_ordinality);
                let from = From::Call {
                    name: "unnest".to_owned(),
                    values,
                    numbered: *with_ordinality,
                    width: columns.len(),
                };
                (columns, from, alias, "unnest".to_owned())
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let around = if *lateral { Some(&here) } else { outer };
                let plan = self.plan(compiler, subquery, around)?;
                let columns = plan.columns.clone();
                (
                    columns,
                    From::Plan { plan: Box::new(plan), lateral: *lateral },
                    alias,
                    String::new(),
                )
            }
            TableFactor::NestedJoin { table_with_joins, alias: None }
                if how == Join::Inner || table_with_joins.joins.is_empty() =>
            {
                return self.table(compiler, table_with_joins, to, outer);
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                let mut inner = ReadSources::default();
                self.table(compiler, table_with_joins, &mut inner, outer)?;
                to.columns.append(&mut inner.columns);
                to.sources.push(joined_as_one(inner.sources, how));
                return Ok(());
            }
            _ => return Err(Unanswered::Unclear),
        };
        let visible = match &from {
            From::Table(..) if has_system(&columns) => columns.len() - relations::SYSTEM.len(),
            _ => columns.len(),
        };
        let has_one = |numbered: bool| columns.len() == 1 + usize::from(numbered);
        let is_scalar = matches!(&from, From::Call { numbered, .. } if has_one(*numbered))
            && alias.as_ref().is_some_and(|a| a.columns.is_empty());
        let renamed = names(alias.as_ref());
        let table = alias.as_ref().map_or(usual, |alias| folded(&alias.name));
        let width = columns.len();
        let renamed = match (is_scalar, renamed.is_empty()) {
            (true, _) => vec![table.clone()],
            (false, _) => renamed,
        };
        for (at, (name, kind)) in columns.into_iter().enumerate() {
            let name = renamed.get(at).cloned().unwrap_or(name);
            let is_system = at >= visible;
            let column =
                VisibleColumn { table: table.clone(), name, kind, is_system, is_merged: false };
            to.columns.push(column);
        }
        to.sources.push(FromItem { width, from, join: how, on: Vec::new() });
        Ok(())
    }

    /// A relation of the catalog, or of WITH.
    fn relation(
        &self,
        compiler: &Compiler<'_>,
        name: &ObjectName,
        outer: Option<&CatalogScope<'_>>,
    ) -> Result<(NamedColumns, From, String), Unanswered> {
        let name = parts(name)?;
        let (schema, bare) = match name.as_slice() {
            [bare] => (None, bare),
            [schema, bare] => (Some(schema.as_str()), bare),
            [database, schema, bare] if database == compiler.world.database => {
                (Some(schema.as_str()), bare)
            }
            _ => return Err(Unanswered::Relation(name.join("."))),
        };
        let mut known = self.names.filter(|_| schema.is_none());
        while let Some(names) = known {
            if names.name == bare {
                return self.known(compiler, names, outer);
            }
            known = names.next;
        }
        // If the owner declared a table with such a name, it is an ordinary table.
        if schema.is_none() && compiler.world.tables.iter().any(|table| table.name == *bare) {
            return Err(Unanswered::Relation(bare.clone()));
        }
        let missing = || Unanswered::Relation(name.join("."));
        let relation = relations::relation(schema, bare).ok_or_else(missing)?;
        compiler.touched.set(true);
        let rows = rows::indexed(compiler.world, relation);
        let system = relations::SYSTEM.map(|(name, kind)| (name, CatalogType(kind)));
        let system = system.iter().filter(|_| relation.kind == "r");
        let columns = relation.columns.iter().chain(system);
        let columns = columns.map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Ok((columns, From::Table(rows, relation.oid), bare.clone()))
    }

    /// A query that WITH names.
    fn known(
        &self,
        compiler: &Compiler<'_>,
        names: &WithNames<'_>,
        outer: Option<&CatalogScope<'_>>,
    ) -> Result<(NamedColumns, From, String), Unanswered> {
        // Used directly in the query that has the WITH, it has the same scope around it.
        let outer = match (names.outer, outer) {
            (Some(its), Some(here)) if std::ptr::eq(its.columns, here.columns) => Some(here),
            _ => None,
        };
        let rename = |mut columns: NamedColumns, own: &[String]| {
            columns.iter_mut().zip(own).for_each(|((name, _), own)| name.clone_from(own));
            columns
        };
        let table = names.name.to_owned();
        match names.what {
            WithQuery::Query(query, own, before) => {
                let within = Within { names: before, depth: self.depth + 1 };
                let plan = within.plan(compiler, query, outer)?;
                let columns = rename(plan.columns.clone(), own);
                Ok((columns, From::Plan { plan: Box::new(plan), lateral: false }, table))
            }
            WithQuery::Recursive(query, own, before) => {
                let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } =
                    &*query.body
                else {
                    return Err(Unanswered::Unclear);
                };
                let within = Within { names: before, depth: self.depth + 1 };
                let base = within.plan(compiler, &bare(left), outer)?;
                let columns = rename(base.columns.clone(), own);
                let work = Rc::new(RefCell::new(Vec::new()));
                let working = WithNames {
                    name: names.name,
                    what: WithQuery::Working(&columns, &work),
                    outer,
                    next: before,
                };
                let within = Within { names: Some(&working), depth: self.depth + 1 };
                let step = within.plan(compiler, &bare(right), outer)?;
                let all = *set_quantifier == SetQuantifier::All;
                let body = Body::Recursive {
                    base: base.into(),
                    step: step.into(),
                    work: Rc::clone(&work),
                    all,
                };
                let plan = plan_of(columns.clone(), body);
                Ok((columns, From::Plan { plan: Box::new(plan), lateral: false }, table))
            }
            WithQuery::Working(columns, work) => {
                Ok((columns.clone(), From::Working(Rc::clone(work)), table))
            }
        }
    }
}
