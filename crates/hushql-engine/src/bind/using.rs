//! Rewrites joins with USING and NATURAL joins in the syntax tree of a query.
//!
//! In: the tree of a query. Out: its plan. The name of a merged column means that column alone, and
//! `b.k` still means b's own column. The columns that a join merges and hides are known only after
//! its tables are planned. So the tree is planned several times: each time, columns that are
//! addressed with their table get the hidden names that are known by then. The last round finds no
//! new join.
//!
//! ```text
//! SELECT *, b.k FROM a JOIN b USING (k)
//!   ⇒  SELECT * EXCLUDE (__hushql_using0_k), b.__hushql_using0_k FROM (a JOIN b USING (__hushql_using0, k))
//! ```

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::{
    self as sql, Expr, Ident, ObjectName, SelectItem, TableFactor, VisitMut, VisitorMut,
};

use super::functional_dependencies::without_dependencies;
use super::merged::{Hidden, Joins, WrittenJoin, number_of, numbered, parts, shown};

/// The tree of a query in which each join that merges columns has a number.
#[derive(Debug)]
pub(super) struct Numbered {
    tree: Box<sql::Query>,
    joins: Arc<Joins>,
}

impl Numbered {
    pub(super) fn new(mut tree: Box<sql::Query>) -> Self {
        let mut numbers = JoinNumbers::default();
        let _ = tree.visit(&mut numbers);
        Self { tree, joins: Arc::new(Joins::new(numbers.written)) }
    }

    /// The joins. Their planner records in them which columns they hide.
    pub(super) fn joins(&self) -> Arc<Joins> {
        Arc::clone(&self.joins)
    }

    /// The plan of the query.
    ///
    /// # Errors
    /// Errors of the planner.
    pub(super) fn plan(
        self,
        plan: impl Fn(Box<sql::Query>) -> Result<LogicalPlan>,
    ) -> Result<LogicalPlan> {
        if self.joins.is_empty() {
            return plan(self.tree);
        }
        loop {
            let hidden = self.joins.hidden();
            let mut tree = self.tree.clone();
            let mut names = HiddenNames::new(&hidden);
            let _ = tree.visit(&mut names);
            let planned = plan(tree);
            // Each round but the last adds a join.
            if self.joins.hidden().len() == hidden.len() {
                return without_dependencies(shown(planned?)?);
            }
        }
    }
}

/// The constraint of a join, if the dialect has this join.
fn constraint(operator: &mut sql::JoinOperator) -> Option<&mut sql::JoinConstraint> {
    parts(operator).map(|(_, constraint)| constraint)
}

/// Gives each join that merges columns a number, and puts it in parentheses, because the planner
/// asks for the plan of a join in parentheses.
#[derive(Debug, Default)]
struct JoinNumbers {
    written: Vec<WrittenJoin>,
}

impl JoinNumbers {
    /// Numbers the joins of one table in FROM. Returns whether there was one.
    fn number(&mut self, table: &mut sql::TableWithJoins, is_shown: bool) -> bool {
        self.factor(&mut table.relation, is_shown);
        let mut any = false;
        for join in &mut table.joins {
            self.factor(&mut join.relation, is_shown);
            let Some(constraint) = constraint(&mut join.join_operator) else { continue };
            if number_of(constraint).is_some() {
                continue;
            }
            let number = self.written.len();
            let is_natural = match constraint {
                sql::JoinConstraint::Using(names) => {
                    names.insert(0, numbered(number));
                    false
                }
                sql::JoinConstraint::Natural => {
                    *constraint = sql::JoinConstraint::Using(vec![numbered(number)]);
                    true
                }
                sql::JoinConstraint::On(_) | sql::JoinConstraint::None => continue,
            };
            self.written.push(WrittenJoin { is_natural, is_shown });
            any = true;
        }
        any
    }

    /// Numbers the joins in parentheses.
    fn factor(&mut self, factor: &mut TableFactor, is_shown: bool) {
        if let TableFactor::NestedJoin { table_with_joins, alias } = factor {
            // An alias shows the columns of its tables as `*` does.
            self.number(table_with_joins, is_shown || alias.is_some());
        }
    }
}

impl VisitorMut for JoinNumbers {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<()> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let before = self.written.len();
            cte.query.visit(self)?;
            if self.written.len() > before {
                all_of(&mut cte.query);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut sql::Select) -> ControlFlow<()> {
        let is_shown = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        for table in &mut select.from {
            if self.number(table, is_shown) {
                let joins = std::mem::take(&mut table.joins);
                let nobody = TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(nothing()),
                    alias: None,
                    sample: None,
                };
                let relation = std::mem::replace(&mut table.relation, nobody);
                let table_with_joins = Box::new(sql::TableWithJoins { relation, joins });
                table.relation = TableFactor::NestedJoin { table_with_joins, alias: None };
            }
        }
        ControlFlow::Continue(())
    }
}

/// An empty query.
fn nothing() -> sql::Query {
    sql::Query {
        with: None,
        body: Box::new(sql::SetExpr::Values(sql::Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        })),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Turns a query into `SELECT * FROM (query)`, so that its columns have their own names before the
/// CTE gives them its name.
fn all_of(query: &mut sql::Query) {
    let inner = std::mem::replace(query, nothing());
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(inner),
        alias: None,
        sample: None,
    };
    let from = vec![sql::TableWithJoins { relation, joins: Vec::new() }];
    let all = SelectItem::Wildcard(sql::WildcardAdditionalOptions::default());
    *query.body = sql::SetExpr::Select(Box::new(select(vec![all], from)));
}

fn select(projection: Vec<SelectItem>, from: Vec<sql::TableWithJoins>) -> sql::Select {
    sql::Select {
        select_token: sql::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: sql::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: sql::SelectFlavor::Standard,
    }
}

/// The names of the tables of one FROM, and their hidden columns.
#[derive(Debug, Default)]
struct FromScope {
    tables: Vec<TableReference>,
    /// The table, the name and the hidden name.
    hidden: Vec<(Option<TableReference>, String, String)>,
}

/// Replaces columns that are addressed with their table by their hidden names, and leaves hidden
/// columns out of `*`.
#[derive(Debug)]
struct HiddenNames<'a> {
    hidden: &'a BTreeMap<usize, Vec<Hidden>>,
    /// The scopes that an expression sees, the nearest last.
    scopes: Vec<FromScope>,
    /// For each enclosing query, how many outer scopes it sees.
    outside: Vec<usize>,
    /// Scopes that the tables of a FROM do not see.
    aside: Vec<Vec<FromScope>>,
    /// The CTEs of the enclosing queries; their names are done.
    ctes: Vec<Option<sql::With>>,
}

impl<'a> HiddenNames<'a> {
    fn new(hidden: &'a BTreeMap<usize, Vec<Hidden>>) -> Self {
        let (scopes, outside) = (Vec::new(), Vec::new());
        Self { hidden, scopes, outside, aside: Vec::new(), ctes: Vec::new() }
    }

    fn scope(&self, from: &mut [sql::TableWithJoins]) -> FromScope {
        let mut scope = FromScope::default();
        for table in from {
            self.add(table, &mut scope);
        }
        scope
    }

    fn add(&self, table: &mut sql::TableWithJoins, scope: &mut FromScope) {
        self.add_factor(&mut table.relation, scope);
        for join in &mut table.joins {
            self.add_factor(&mut join.relation, scope);
            let number = constraint(&mut join.join_operator).and_then(|on| number_of(on));
            let Some(number) = number else { continue };
            for column in self.hidden.get(&number).into_iter().flatten() {
                let Hidden { table, name, own } = column.clone();
                scope.hidden.push((table, name, own));
            }
        }
    }

    fn add_factor(&self, factor: &mut TableFactor, scope: &mut FromScope) {
        let alias = match factor {
            TableFactor::Table { name, alias, .. } => {
                if alias.is_none() {
                    scope.tables.extend(reference(name.0.iter().filter_map(|p| p.as_ident())));
                }
                alias.as_ref()
            }
            TableFactor::Derived { alias, .. } => alias.as_ref(),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                if alias.is_none() {
                    self.add(table_with_joins, scope);
                }
                alias.as_ref()
            }
            TableFactor::TableFunction { .. }
            | TableFactor::Function { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => None,
        };
        scope.tables.extend(alias.and_then(|alias| reference([&alias.name])));
    }

    /// The hidden name of a column that is addressed with its table, if it has one.
    fn hidden_name(&self, name: &[Ident]) -> Option<String> {
        let (column, table) = name.split_last()?;
        let (column, table) = (normalized(column), reference(table)?);
        let nearest = self.scopes.iter().rev();
        let scope = nearest
            .into_iter()
            .find(|scope| scope.tables.iter().any(|known| table.resolved_eq(known)))?;
        let found = scope.hidden.iter().find(|(own, name, _)| {
            *name == column && own.as_ref().is_some_and(|own| table.resolved_eq(own))
        });
        found.map(|(_, _, hidden)| hidden.clone())
    }

    /// Names the columns that a SELECT shows: `b.k` has the name k, and `*` shows no hidden column.
    fn name_items(&self, items: &mut [SelectItem], scope: &FromScope) {
        let names: Vec<Option<String>> = items.iter().map(name_of).collect();
        let once = |name: &String| {
            let same = names.iter().filter(|other| other.as_ref().is_none_or(|o| o == name));
            same.count() == 1
        };
        for (item, own) in items.iter_mut().zip(&names) {
            match item {
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name)) => {
                    let Some(hidden) = self.hidden_name(name) else { continue };
                    set_last(name, hidden);
                    let expr = Expr::CompoundIdentifier(name.clone());
                    if let Some(own) = own.as_ref().filter(|own| once(own)) {
                        let alias = Ident::with_quote('"', own.clone());
                        *item = SelectItem::ExprWithAlias { expr, alias };
                    }
                }
                SelectItem::Wildcard(options) if !scope.hidden.is_empty() => {
                    let hidden = scope.hidden.iter().map(|(_, _, hidden)| {
                        ObjectName::from(vec![Ident::with_quote('"', hidden.clone())])
                    });
                    let written = match options.opt_exclude.take() {
                        Some(sql::ExcludeSelectItem::Single(one)) => vec![one],
                        Some(sql::ExcludeSelectItem::Multiple(several)) => several,
                        None => Vec::new(),
                    };
                    let all = written.into_iter().chain(hidden).collect();
                    options.opt_exclude = Some(sql::ExcludeSelectItem::Multiple(all));
                }
                SelectItem::UnnamedExpr(_)
                | SelectItem::ExprWithAlias { .. }
                | SelectItem::ExprWithAliases { .. }
                | SelectItem::QualifiedWildcard(..)
                | SelectItem::Wildcard(_) => {}
            }
        }
    }
}

/// The name that an item shows. `None` if the text does not tell it.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(normalized(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name)) => name.last().map(normalized),
        SelectItem::UnnamedExpr(other) => Some(other.to_string()),
        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    }
}

/// A name as the planner reads it.
fn normalized(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// The table to which the parts of a name refer.
fn reference<'n>(parts: impl IntoIterator<Item = &'n Ident>) -> Option<TableReference> {
    let parts: Vec<String> = parts.into_iter().map(normalized).collect();
    match parts.as_slice() {
        [table] => Some(TableReference::bare(table.as_str())),
        [schema, table] => Some(TableReference::partial(schema.as_str(), table.as_str())),
        _ => None,
    }
}

fn set_last(name: &mut [Ident], hidden: String) {
    if let Some(last) = name.last_mut() {
        last.value = hidden;
        last.quote_style = Some('"');
    }
}

impl VisitorMut for HiddenNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<()> {
        // CTEs see the same outer scopes as their query.
        let mut with = query.with.take();
        for cte in with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            cte.query.visit(self)?;
        }
        self.ctes.push(with);
        self.outside.push(self.scopes.len());
        let scope = match query.body.as_mut() {
            sql::SetExpr::Select(select) => self.scope(&mut select.from),
            _ => FromScope::default(),
        };
        // The scope of ORDER BY.
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<()> {
        query.with = self.ctes.pop().flatten();
        self.scopes.truncate(self.outside.pop().unwrap_or(0));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut sql::Select) -> ControlFlow<()> {
        self.scopes.push(self.scope(&mut select.from));
        if let Some(scope) = self.scopes.last() {
            self.name_items(&mut select.projection, scope);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut sql::Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { .. }) {
            // A subquery in FROM does not see the tables beside it.
            let outside = self.outside.last().copied().unwrap_or(0);
            self.aside.push(self.scopes.split_off(outside.min(self.scopes.len())));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { .. }) {
            self.scopes.extend(self.aside.pop().into_iter().flatten());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(name) = expr
            && let Some(hidden) = self.hidden_name(name)
        {
            set_last(name, hidden);
        }
        ControlFlow::Continue(())
    }
}
