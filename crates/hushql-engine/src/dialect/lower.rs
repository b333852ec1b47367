//! Lowers a parsed tree to plain SQL, and refuses clauses that the planner would silently drop.
//!
//! In: the tree as sqlparser built it, with marker calls. Out: plain SQL with one aggregate marker
//! for each release, and the release clauses. The planner ignores some clauses without an error
//! (TABLESAMPLE, hints, FOR UPDATE …). So the code destructures each node field by field: a field
//! that is not handled does not compile, and a clause that is not allowed is refused.
//!
//! Upstream: docs/upstream.md, 27. Keep this file when the defect is fixed: HushQL reads SQL by an
//! allow-list.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, VisitMut, VisitorMut,
};

use super::aggregate::column_name;
use super::allow::{
    absent, expression, fetched, join_condition, limit, set_operation, standard_select,
    table_factor, value,
};
use super::ast::{MechanismName, Operand, marked};
use super::consistent::{attach, take_consistent};
use super::correlated_release::by_their_keys;
use super::fresh::has_mark;
use super::histogram::{no_histogram, spell_out_histogram};
use super::implied::{Implied, names_option};
use super::mode::group_by_modes;
use super::named_candidates::name_candidates;
use super::option_shares::share;
use super::report::name_reports;
use super::rollup_cube::{MOST_SETS, only_numbers, spell_out};
use super::spelling::respell;
use crate::dialect::clauses::{Clauses, Options, folded, numbered};
use crate::dialect::error::DialectError;
use crate::dialect::named_candidates::of_this_select;
use crate::refusal::{Reason, Refusal};

/// Lowers a query in place, and adds the releases that OPTIONS and KEYS imply to the clauses.
/// With `frees_limited`, the bare aggregates of a subquery in FROM that has a LIMIT are releases of
/// its own.
pub(super) fn lower(
    query: &mut Query,
    clauses: &mut Clauses,
    frees_limited: bool,
) -> Result<(), DialectError> {
    respell(query)?;
    by_their_keys(query, &clauses.releases);
    let mut lowering = Lowering { clauses, frees_limited, is_limited: false };
    match query.visit(&mut lowering) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Lowering<'a> {
    clauses: &'a mut Clauses,
    /// Whether a subquery in FROM with a LIMIT releases its aggregates.
    frees_limited: bool,
    /// Whether the next query is such a subquery.
    is_limited: bool,
}

impl VisitorMut for Lowering<'_> {
    type Break = DialectError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DialectError> {
        flow(self.query(query))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<DialectError> {
        self.is_limited = self.frees_limited && is_limited(factor);
        flow(table_factor(factor))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DialectError> {
        flow(
            no_histogram(expr).and_then(|()| expression(expr)).and_then(|()| self.not_nested(expr)),
        )
    }

    fn pre_visit_value(&mut self, found: &mut sql::ValueWithSpan) -> ControlFlow<DialectError> {
        flow(value(found))
    }
}

fn flow(result: Result<(), DialectError>) -> ControlFlow<DialectError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl Lowering<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), DialectError> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if let Some(sql::With { with_token: _, recursive, cte_tables }) = with {
            absent(!*recursive, "WITH RECURSIVE")?;
            for sql::Cte { alias: _, query: _, from, materialized: _, closing_paren_token: _ } in
                cte_tables
            {
                absent(from.is_none(), "a CTE's FROM")?;
            }
        }
        fetched(fetch, limit_clause)?;
        absent(locks.is_empty(), "FOR UPDATE")?;
        absent(for_clause.is_none(), "FOR XML/JSON")?;
        absent(settings.is_none(), "SETTINGS")?;
        absent(format_clause.is_none(), "FORMAT")?;
        absent(pipe_operators.is_empty(), "|>")?;
        limit_clause.as_ref().map_or(Ok(()), limit)?;
        if let Some(OrderBy { kind, interpolate }) = order_by {
            absent(interpolate.is_none(), "INTERPOLATE")?;
            if let OrderByKind::Expressions(expressions) = kind {
                for sql::OrderByExpr { expr: _, options: _, with_fill } in expressions {
                    absent(with_fill.is_none(), "WITH FILL")?;
                }
            }
        }
        self.body(body, order_by.as_mut())
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        order_by: Option<&mut OrderBy>,
    ) -> Result<(), DialectError> {
        match body {
            SetExpr::Select(select) => self.select(select, order_by),
            SetExpr::Query(_) | SetExpr::Values(_) => Ok(()),
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                set_operation(*op, *set_quantifier)?;
                self.body(left, None)?;
                self.body(right, None)
            }
            SetExpr::Table(_) => absent(false, "TABLE as a query"),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                absent(false, "a statement that writes")
            }
        }
    }

    fn select(
        &mut self,
        select: &mut Select,
        mut order_by: Option<&mut OrderBy>,
    ) -> Result<(), DialectError> {
        standard_select(select)?;
        let Select { projection, from, selection, group_by, having, .. } = select;
        let options = self.take_options(projection);
        name_reports(projection);
        let consistent = take_consistent(group_by)?;
        spell_out_histogram(projection, group_by, order_by.as_deref_mut())?;
        let left = MOST_SETS.saturating_sub(self.clauses.sets);
        self.clauses.sets += spell_out(group_by, projection, left)?;
        self.no_release_before_groups(from, selection.as_ref(), group_by)?;
        group_by_modes(projection, group_by, &self.clauses.modes)?;
        let keys = self.take_keys(group_by)?;
        self.no_release_as_key(group_by, projection)?;
        let mut order_by: Vec<&mut Expr> = match order_by.map(|order_by| &mut order_by.kind) {
            Some(OrderByKind::Expressions(e)) => e.iter_mut().map(|e| &mut e.expr).collect(),
            Some(OrderByKind::All(_)) | None => Vec::new(),
        };
        let items = projection.iter_mut().filter_map(item_expression);
        for e in items.chain(having.as_mut()).chain(order_by.iter_mut().map(|e| &mut **e)) {
            name_candidates(e, group_by, &mut self.clauses.releases);
        }
        let first_implied = self.clauses.releases.len();
        let is_limited = std::mem::take(&mut self.is_limited);
        let mut grouping = None;
        if options.is_some() {
            self.no_bare_mode(projection)?;
        }
        let shown = projection.iter_mut().filter_map(item_expression).map(|e| &*e);
        let beside = having.iter().chain(order_by.iter().map(|e| &**e));
        let is_own = shown.chain(beside).any(|e| has_mark(e) || names_option(e));
        if options.is_some() || !keys.is_empty() || consistent.is_some() || is_own || is_limited {
            let written = options.is_some();
            let options = options.unwrap_or_default();
            let mut implied = Implied::under(&options.parameters);
            for expression in projection.iter_mut().filter_map(item_expression) {
                implied.shown(expression, &mut self.clauses.releases)?;
            }
            for expression in having.iter_mut().chain(order_by.iter_mut().map(|e| &mut **e)) {
                implied.beside(expression, &mut self.clauses.releases)?;
            }
            grouping =
                written.then_some(share(&mut self.clauses.releases[first_implied..], &options)?);
        }
        let implied = first_implied..self.clauses.releases.len();
        let beside = having.iter().chain(order_by.iter().map(|e| &**e));
        if let Some(grouping) = grouping {
            for n in releases_of(projection, beside.clone(), implied.clone()) {
                if let Some(release) = self.clauses.releases.get_mut(n) {
                    release.grouping = Some(Box::new(grouping.clone()));
                }
            }
        }
        let own = releases_of(projection, beside.clone(), implied.clone());
        only_numbers(group_by, own.iter().filter_map(|n| self.clauses.releases.get(*n)))?;
        attach(consistent, &mut self.clauses.releases, &own)?;
        self.attach_keys(projection, beside, &keys, implied)?;
        self.name_releases(projection)
    }

    /// Refuses a MODE without a mechanism under OPTIONS, because only numbers share the ε of
    /// OPTIONS.
    fn no_bare_mode(&self, projection: &[SelectItem]) -> Result<(), DialectError> {
        for n in releases_of(projection, std::iter::empty(), 0..0) {
            let release = self.clauses.releases.get(n).filter(|release| {
                release.mechanism == MechanismName::Default && self.clauses.modes.contains(&n)
            });
            if let Some(release) = release {
                return Err(Refusal::new(
                    Reason::Operand,
                    &release.text,
                    "MODE is a choice, and OPTIONS are for numbers",
                    format!("EXPONENTIAL(eps=1) {}, in a SELECT without OPTIONS", release.text),
                )
                .into());
            }
        }
        Ok(())
    }

    /// Refuses a release inside another one.
    fn not_nested(&self, expr: &Expr) -> Result<(), DialectError> {
        match expr {
            Expr::Function(function) if marked(&function.name.to_string()).is_some() => {
                let own = markers(expr);
                let inner = own.get(1).and_then(|n| self.clauses.releases.get(*n));
                match inner {
                    None => Ok(()),
                    Some(inner) => Err(Refusal::new(
                        Reason::Place,
                        &inner.text,
                        "a release cannot contain another release",
                        "the inner release in a subquery's SELECT list, and plain SQL above it",
                    )
                    .into()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Refuses releases in ON, WHERE and GROUP BY, which are evaluated before the groups exist.
    fn no_release_before_groups(
        &self,
        from: &[sql::TableWithJoins],
        selection: Option<&Expr>,
        group_by: &GroupByExpr,
    ) -> Result<(), DialectError> {
        for sql::TableWithJoins { relation: _, joins } in from {
            for sql::Join { relation: _, global: _, join_operator } in joins {
                join_condition(join_operator).map_or(Ok(()), |on| self.no_release(on, "ON"))?;
            }
        }
        if let Some(selection) = selection {
            self.no_release(selection, "WHERE")?;
        }
        if let GroupByExpr::Expressions(expressions, _) = group_by {
            expressions.iter().try_for_each(|e| self.no_release(e, "GROUP BY"))?;
        }
        Ok(())
    }

    /// Refuses a release in an expression that is evaluated before anything is released.
    fn no_release(&self, expr: &Expr, place: &str) -> Result<(), DialectError> {
        let n = markers(expr).first().copied();
        if n.is_none() && !has_mark(expr) {
            return Ok(());
        }
        let n = n.unwrap_or(usize::MAX);
        let text = self.clauses.releases.get(n).map_or("a release", |r| r.text.as_str());
        Err(Refusal::new(
            Reason::Place,
            text,
            format!(
                "{place} cannot contain a release: it is evaluated for each row, before any release"
            ),
            "the release in the SELECT list, in HAVING, in ORDER BY, or as a subquery of its own",
        )
        .into())
    }

    /// Refuses a position in GROUP BY that refers to a release.
    fn no_release_as_key(
        &self,
        group_by: &GroupByExpr,
        projection: &[SelectItem],
    ) -> Result<(), DialectError> {
        let GroupByExpr::Expressions(keys, _) = group_by else { return Ok(()) };
        for key in keys {
            let meant = match unsigned(key) {
                Expr::Value(value) => match &value.value {
                    sql::Value::Number(n, _) => {
                        n.parse().ok().and_then(|n: usize| projection.get(n.checked_sub(1)?))
                    }
                    _ => None,
                },
                _ => None,
            };
            let Some(SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) =
                meant
            else {
                continue;
            };
            if let Some(release) = markers(e).first().and_then(|n| self.clauses.releases.get(*n)) {
                let hint = match &release.operand {
                    Operand::Selection(_) => format!("GROUP BY {}", release.text),
                    Operand::Aggregate(_) | Operand::Response => {
                        format!("the name of a column in place of {key}")
                    }
                };
                return Err(Refusal::new(
                    Reason::Place,
                    format!("GROUP BY {key}"),
                    format!("{key} is a release, and GROUP BY cannot group by a release"),
                    hint,
                )
                .into());
            }
        }
        Ok(())
    }

    /// Unwraps `GROUP BY x KEYS …`. The result is as long as GROUP BY, or empty if no KEYS are
    /// given. The keys of grouping sets follow each other, set by set.
    fn take_keys(
        &self,
        group_by: &mut GroupByExpr,
    ) -> Result<Vec<Option<super::KeysClause>>, DialectError> {
        let expressions = match group_by {
            GroupByExpr::All(modifiers) => {
                absent(modifiers.is_empty(), "a modifier of GROUP BY")?;
                return Ok(Vec::new());
            }
            GroupByExpr::Expressions(expressions, modifiers) => {
                absent(modifiers.is_empty(), "a modifier of GROUP BY")?;
                expressions
            }
        };
        let expressions: Vec<&mut Expr> = match expressions.as_mut_slice() {
            [Expr::GroupingSets(sets)] => sets.iter_mut().flatten().collect(),
            expressions => expressions.iter_mut().collect(),
        };
        let mut keys = Vec::new();
        for expression in expressions {
            let found = reserved_argument(expression, "_keys_");
            keys.push(found.as_ref().and_then(|(n, _)| self.clauses.keys.get(*n).cloned()));
            if let Some((_, inner)) = found {
                *expression = inner;
            }
        }
        Ok(if keys.iter().any(Option::is_some) { keys } else { Vec::new() })
    }

    /// Unwraps the OPTIONS marker around the leftmost operand of the first item.
    fn take_options(&self, projection: &mut [SelectItem]) -> Option<Options> {
        let mut found = None;
        let first = projection.first_mut().and_then(item_expression)?;
        let _ = sql::visit_expressions_mut(first, |expression| {
            if let Some((n, inner)) = reserved_argument(expression, "_options_") {
                found = self.clauses.options.get(n).cloned();
                *expression = inner;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// Attaches the keys of GROUP BY to every release of this SELECT.
    fn attach_keys<'a>(
        &mut self,
        projection: &[SelectItem],
        beside: impl Iterator<Item = &'a Expr>,
        keys: &[Option<super::KeysClause>],
        implied: std::ops::Range<usize>,
    ) -> Result<(), DialectError> {
        if keys.is_empty() {
            return Ok(());
        }
        let numbers = releases_of(projection, beside, implied);
        if numbers.is_empty() {
            return Err(DialectError::syntax("KEYS needs a release in the SELECT list", None));
        }
        for n in numbers {
            if let Some(release) = self.clauses.releases.get_mut(n) {
                release.keys = keys.to_vec();
            }
        }
        Ok(())
    }

    /// Names each unaliased column that holds a release after the text of the release: `count(*)`.
    fn name_releases(&self, projection: &mut [SelectItem]) -> Result<(), DialectError> {
        let mut names: Vec<String> = Vec::new();
        let released = projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => {
                holds_release(e)
            }
            SelectItem::ExprWithAliases { .. }
            | SelectItem::QualifiedWildcard(..)
            | SelectItem::Wildcard(_) => false,
        });
        for item in projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && holds_release(expr)
            {
                let name = self.natural_name(expr);
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', &name),
                };
            }
            let Some(name) = shown_name(item) else { continue };
            if released && names.contains(&name) {
                return Err(DialectError::syntax(
                    format!("two columns are named {name}; give each its own alias with AS"),
                    None,
                ));
            }
            names.push(name);
        }
        Ok(())
    }

    fn natural_name(&self, expr: &Expr) -> String {
        let mut named = expr.clone();
        let _ = sql::visit_expressions_mut(&mut named, |e| {
            if let Expr::Function(function) = e
                && let Some(n) = marked(&function.name.to_string())
                && let Some(release) = self.clauses.releases.get(n)
            {
                *e = Expr::Identifier(Ident::new(release.text.clone()));
            }
            ControlFlow::<()>::Continue(())
        });
        match named {
            Expr::Identifier(ident) => ident.value,
            other => other.to_string(),
        }
    }
}

/// Whether a table is a subquery with a LIMIT.
pub(super) fn is_limited(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Derived { subquery, .. } => {
            subquery.limit_clause.is_some() && matches!(&*subquery.body, SetExpr::Select(_))
        }
        _ => false,
    }
}

/// The releases of a SELECT: those in its list, in HAVING and in ORDER BY, and the implied ones.
fn releases_of<'a>(
    projection: &[SelectItem],
    beside: impl Iterator<Item = &'a Expr>,
    implied: std::ops::Range<usize>,
) -> Vec<usize> {
    let mut numbers: Vec<usize> = implied.collect();
    for item in projection {
        if let SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } = item {
            numbers.extend(markers(e));
        }
    }
    numbers.extend(beside.flat_map(markers));
    numbers
}

/// The releases in an expression that belong to the SELECT of the expression.
fn markers(expr: &Expr) -> Vec<usize> {
    let mut found = Vec::new();
    let _ = of_this_select(&mut expr.clone(), |e| {
        found.extend(release_of(e));
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Whether an expression holds a release, in a subquery or elsewhere.
fn holds_release(expr: &Expr) -> bool {
    sql::visit_expressions(expr, |e| match release_of(e) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The number of the release, if the expression is its marker.
fn release_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Function(function) => marked(&function.name.to_string()),
        _ => None,
    }
}

/// The name of an output column, if the text of the SELECT list tells it.
fn shown_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { expr: _, alias } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(folded(ident)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        SelectItem::UnnamedExpr(Expr::Function(function)) => Some(column_name(function)),
        SelectItem::UnnamedExpr(_)
        | SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    }
}

fn item_expression(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => Some(expr),
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    }
}

/// An expression without parentheses and plus signs, as the planner reads positions.
fn unsigned(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: sql::UnaryOperator::Plus, expr: inner } => {
            unsigned(inner)
        }
        _ => expr,
    }
}

/// The number and the argument of a call that a marker wraps.
fn reserved_argument(expr: &Expr, kind: &str) -> Option<(usize, Expr)> {
    let Expr::Function(function) = expr else { return None };
    let n = numbered(&function.name.to_string(), kind)?;
    let sql::FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(inner)) => Some((n, inner.clone())),
        sql::FunctionArg::Unnamed(_)
        | sql::FunctionArg::Named { .. }
        | sql::FunctionArg::ExprNamed { .. } => None,
    }
}
