//! The keys of GROUP BY: the facts about each expression, and its keys.
//!
//! In: GROUP BY expressions over private rows. Out: a [`Group`] for each, as a column of the input;
//! the keys of a group, from its domain or from the query; the combinations of keys that come from
//! one scan of public rows.
//!
//! ```text
//! GROUP BY age, age in 18..120, WHERE age < 21      18, 19, 20
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};

use super::equal::of_equal_columns;
use super::key_image::{key_image, keys_that_pass, never_holds};
use super::matched_rows::equal_columns;
use super::of_column::{of_public_rows, ordered_as, rows_left, with_known_keys};
use super::public_row_keys::Together;
use super::siblings::keys_by_siblings;
use super::{MOST_KEYS, known_keys, listed_keys, possible, refuse_impossible, with_null};
use crate::analysis::below::public_side::public_rows;
use crate::analysis::below::refusals::only_table;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::below::walk::Tables;
use crate::analysis::call::input_columns::{Group, InputColumns, KeyRequest};
use crate::analysis::call::lookup::{Lookup, Lookups};
use crate::analysis::expr::calendar::{key_in_calendar, keys_in_calendar};
use crate::analysis::expr::facts::{Facts, KeySource};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{Total, readable};
use crate::analysis::expr::total;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::bind::quoting::name_of_column;
use crate::catalog::quoted;
use crate::dialect::KeysClause;
use crate::functions::{is_magnitude, without_nan};
use crate::refusal::{Reason, Refusal};

/// The GROUP BY expressions as keys. The unit can be a key only if a roster lists the units that
/// respond. The keys of an expression are computed from its columns' domains, unless δ is stated: δ
/// asks for the groups in the data.
pub(crate) fn group_keys(
    aggregate: &Aggregate,
    asked: &KeyRequest,
    flow: &PrivateRelation,
    columns: &mut InputColumns,
    tables: &dyn Tables,
) -> Result<Vec<Group>, NotAnalyzed> {
    let KeyRequest { roster, states_delta, of_the_data, names } = asked;
    let mut groups = Vec::new();
    for (expr, short) in aggregate.group_expr.iter().zip(names) {
        let short = short.clone();
        let Total { expr: key, mut facts } = total(expr, &flow.scope)?;
        if let (None, Some(trace), Some(column)) =
            (&facts.keys, flow.trace(expr), expr.try_as_col())
        {
            let left = |plan: &Arc<LogicalPlan>| rows_left(plan, &flow.scope, &flow.traces, tables);
            facts = of_public_rows(column, &facts, trace, &flow.scope.conditions, &left, tables);
            let is_empty = matches!(&facts.keys, Some(KeySource::Values(keys)) if keys.is_empty());
            if is_empty && !facts.null_key {
                return Err(no_public_key(&short).into());
            }
        }
        let data_type = key.get_type(flow.plan.schema()).map_err(|e| internal(&e))?;
        facts = facts.in_calendar(&data_type);
        // An interval of whole numbers or days contains the keys, and possibly others that no row
        // can have.
        let listed = matches!(facts.keys, Some(KeySource::Values(_) | KeySource::Ticks(_)));
        let mut passing = None;
        let computed = !facts.is_unit && is_computed(expr, &facts, flow);
        if computed && *of_the_data {
            // The keys count as unknown, even whole numbers in a range.
            facts = Facts { keys: None, always: Interval::everything(), ..facts };
        }
        if !facts.is_unit && !states_delta {
            (facts, passing) = narrowed(expr, facts, listed, flow, tables);
            if !computed || !*of_the_data {
                facts = facts.in_calendar(&data_type);
            }
            passing = passing.map(keys_in_calendar);
            let none = |keys: &[ScalarValue]| keys.is_empty();
            let image = matches!(&facts.keys, Some(KeySource::Values(keys)) if none(keys));
            if image && !facts.null_key || passing.as_deref().is_some_and(none) {
                return Err(no_group(&short).into());
            }
        }
        if let Some(person) = flow.names_person(expr) {
            return Err(Refusal::new(
                Reason::UnitAsKey,
                &short,
                format!("{short} names a person: one group per person is not an aggregate"),
                format!("GROUP BY a column that many people share, or COUNT(DISTINCT {person})"),
            )
            .into());
        }
        if facts.is_unit && !roster {
            return Err(Refusal::new(
                Reason::UnitAsKey,
                &short,
                format!("{short} names the privacy unit: one group per person is not an aggregate"),
                of_one_person(aggregate, &short),
            )
            .into());
        }
        let raw = flow.raw_of_listed(expr);
        let column = columns.key(without_nan(key, &data_type));
        let clamped = flow.raw_of_clamped(expr).filter(|_| data_type.is_integer());
        groups.push(Group {
            name: short,
            data_type,
            facts,
            computed,
            passing,
            column,
            raw,
            clamped,
        });
    }
    Ok(groups)
}

/// What can be asked of the rows of each person.
fn of_one_person(aggregate: &Aggregate, unit: &str) -> String {
    const SHARED: &str = "GROUP BY a column that many people share";
    match (aggregate.group_expr.as_slice(), only_table(&aggregate.input)) {
        ([_], Some(table)) => format!(
            "SELECT LAPLACE(eps=1) AVG(n) FROM (SELECT {unit}, COUNT(*) AS n FROM {table} GROUP BY {unit}) AS one, the mean of all people; or {SHARED}"
        ),
        _ => SHARED.to_owned(),
    }
}

fn no_public_key(key: &str) -> Refusal {
    Refusal::new(
        Reason::UnknownKeys,
        key,
        format!("the public rows have no value of {key}, so no group would come out"),
        "conditions that leave some public rows",
    )
}

/// The facts about a key on the rows that meet the conditions, and the keys that a column can have
/// there, if the conditions determine them.
fn narrowed(
    expr: &Expr,
    mut facts: Facts,
    listed: bool,
    flow: &PrivateRelation,
    tables: &dyn Tables,
) -> (Facts, Option<Vec<ScalarValue>>) {
    let scope = with_known_keys(expr, &flow.scope, &flow.traces, tables);
    let mut passing = None;
    if let Some(column) = expr.try_as_col() {
        facts = scope.facts_of(column).cloned().unwrap_or(facts);
        passing = keys_that_pass(column, &scope, tables);
        passing = equated(passing, column, &facts, flow, tables);
    }
    let is_null = |condition: &Expr| matches!(condition, Expr::IsNull(of) if of.as_ref() == expr);
    if flow.scope.conditions.iter().any(is_null) {
        passing = passing.or_else(|| Some(vec![null_of(expr, flow)?]));
    }
    let is_narrowed = !listed || !scope.conditions.is_empty();
    if let Some(image) = is_narrowed.then(|| key_image(expr, &scope, tables)).flatten() {
        let ordered = if listed { ordered_as(&facts, &image) } else { None };
        // If NULL is a key, the image lists it.
        facts = Facts { keys: Some(ordered.unwrap_or(image)), null_key: false, ..facts };
    }
    if let Some(left) = keys_by_siblings(expr, &flow.scope, &flow.traces, tables) {
        let data_type = || expr.get_type(flow.plan.schema()).ok();
        let all = passing.clone().or_else(|| all_keys(&facts, &data_type()?));
        let left: HashSet<ScalarValue> = left.into_iter().collect();
        let is_left = |key: &ScalarValue| {
            let first = left.iter().next().map(ScalarValue::data_type);
            first.is_some_and(|to| key.cast_to(&to).is_ok_and(|key| left.contains(&key)))
        };
        let kept = all.map(|all| all.into_iter().filter(is_left).collect());
        passing = kept.or(passing);
    }
    (facts, passing)
}

/// The known keys of a column or an expression. If NULL is a key, it comes last.
fn all_keys(facts: &Facts, data_type: &DataType) -> Option<Vec<ScalarValue>> {
    let keys = possible(known_keys(facts, data_type, "", false).ok()?, facts);
    with_null(keys, facts, data_type, "").ok()
}

/// The keys of a column that pass the conditions and that all equal columns have, if conditions
/// exclude some keys.
fn equated(
    passing: Option<Vec<ScalarValue>>,
    column: &Column,
    facts: &Facts,
    flow: &PrivateRelation,
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    let known = || {
        let index = flow.scope.schema.index_of_column(column).ok()?;
        all_keys(facts, flow.scope.schema.field(index).data_type())
    };
    let keys = passing.clone().or_else(known)?;
    let all = keys.len();
    let left = of_equal_columns(keys, column, flow, tables);
    if left.len() < all { Some(left) } else { passing }
}

/// NULL of the type of an expression.
fn null_of(expr: &Expr, flow: &PrivateRelation) -> Option<ScalarValue> {
    let data_type = expr.get_type(flow.plan.schema()).ok()?;
    ScalarValue::try_new_null(&data_type).ok()
}

/// True if the keys of an expression were computed: they are neither declared for a column nor read
/// from public rows.
fn is_computed(expr: &Expr, facts: &Facts, flow: &PrivateRelation) -> bool {
    let is_bucket =
        |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if is_magnitude(&call.func)));
    // The engine's own histogram always has all of its buckets.
    if expr.exists(is_bucket).unwrap_or(true) {
        return false;
    }
    let declared = flow.raw_of_listed(expr).is_some() || flow.raw_of_clamped(expr).is_some();
    let counted = matches!(facts.keys, None | Some(KeySource::Integers(..)));
    let made = expr.try_as_col().is_none() || counted;
    made && !declared && public_source(flow, expr).is_none()
}

/// Refuses a condition that no value of its columns meets. Also refuses conditions on one column if
/// no value meets all of them.
///
/// # Errors
/// The refusal.
pub(crate) fn refuse_never(flow: &PrivateRelation, tables: &dyn Tables) -> Result<(), Refusal> {
    let conditions = &flow.scope.conditions;
    let mut of_column = BTreeMap::<&Column, Vec<&Expr>>::new();
    for condition in conditions {
        let columns = condition.column_refs();
        if let (Some(column), 1) = (columns.iter().next(), columns.len()) {
            of_column.entry(*column).or_default().push(condition);
        }
    }
    let together = of_column.into_values().filter(|own| own.len() > 1);
    let together = together.filter_map(|own| conjunction(own.into_iter().cloned()));
    let never = |condition: &Expr| never_holds(condition, &flow.scope, tables) == Some(true);
    let Some(condition) = conditions.iter().cloned().chain(together).find(never) else {
        return Ok(());
    };
    let columns = condition.column_refs().into_iter().map(|column| name_of_column(&column.name));
    let columns = columns.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
    // A subquery of public rows may say a long list.
    let text = readable(&condition);
    let text = if text.len() <= MOST_OF_A_CLAUSE { text } else { columns.clone() };
    Err(Refusal::new(
        Reason::BadValue,
        text,
        format!("no row can pass this filter: no value in the domain of {columns} does"),
        format!("a condition that some value of {columns} meets; DESCRIBE shows the domains"),
    ))
}

/// The longest condition that a refusal quotes.
const MOST_OF_A_CLAUSE: usize = 1_000;

/// The refusal of a key if no value of it meets the conditions.
fn no_group(key: &str) -> Refusal {
    Refusal::new(
        Reason::BadValue,
        key,
        format!(
            "no value of {key} meets the conditions of this query, so every group would be empty"
        ),
        format!("conditions that some value of {key} meets"),
    )
}

/// The keys that come from one scan of public rows, with the distinct combinations of values that
/// they have there.
///
/// # Guarantee
/// Every private row has one of these combinations. Only public rows are read.
pub(crate) fn keys_together(
    aggregate: &Aggregate,
    flow: &PrivateRelation,
    tables: &dyn Tables,
) -> Vec<Together> {
    let mut sources: Vec<Source> = Vec::new();
    for (i, key) in aggregate.group_expr.iter().enumerate() {
        let Some((plan, column)) = public_source(flow, key) else { continue };
        let padded = flow.trace(key).is_some_and(|trace| trace.padded);
        let is_same = |other: &&mut Source| Arc::ptr_eq(&other.plan, &plan);
        match sources.iter_mut().find(is_same) {
            Some(source) => {
                source.mixed |= source.padded != padded;
                source.columns.push((i, column));
            }
            None => {
                let columns = vec![(i, column)];
                sources.push(Source { plan, columns, padded, mixed: false });
            }
        }
    }
    sources.retain(|source| !source.mixed);
    add_equal_keys(&mut sources, aggregate, flow);
    let several = sources.into_iter().filter(|source| source.columns.len() > 1);
    several.filter_map(|source| source.together(aggregate, flow, tables)).collect()
}

/// Keys that come from one reading of public rows.
struct Source {
    plan: Arc<LogicalPlan>,
    /// Their places in GROUP BY, in ascending order, and their columns in the public rows.
    columns: Vec<(usize, Column)>,
    /// Whether all of them are NULL on a private row without a match.
    padded: bool,
    /// Whether that is so of some only.
    mixed: bool,
}

impl Source {
    /// The distinct values that the keys have together.
    fn together(
        self,
        aggregate: &Aggregate,
        flow: &PrivateRelation,
        tables: &dyn Tables,
    ) -> Option<Together> {
        let (columns, names): (Vec<usize>, Vec<Column>) = self.columns.into_iter().unzip();
        let types: Vec<DataType> = columns
            .iter()
            .map(|i| aggregate.group_expr.get(*i)?.get_type(flow.plan.schema()).ok())
            .collect::<Option<_>>()?;
        let left = rows_left(&self.plan, &flow.scope, &flow.traces, tables);
        let rows = public_rows(tables, &left, &names, MOST_KEYS)
            .or_else(|| public_rows(tables, &self.plan, &names, MOST_KEYS))?;
        // A key that equals a public column may have another type.
        let is_public = |i: &usize| {
            aggregate.group_expr.get(*i).is_some_and(|key| public_source(flow, key).is_some())
        };
        let typed = |row: Vec<ScalarValue>| {
            let values = row.into_iter().zip(&types).zip(&columns);
            let values = values.map(|((value, to), i)| match is_public(i) {
                true => key_in_calendar(value),
                false => key_in_calendar(value.cast_to(to).ok()?),
            });
            values.collect::<Option<Vec<_>>>()
        };
        let mut rows = rows.into_iter().map(typed).collect::<Option<Vec<_>>>()?;
        if self.padded {
            let read = rows.first().map(|row| row.iter().map(ScalarValue::data_type).collect());
            let nulls = read.unwrap_or(types).into_iter();
            let nulls = nulls.map(|of| ScalarValue::try_new_null(&of).ok());
            rows.push(nulls.collect::<Option<_>>()?);
        }
        Some(Together { columns, rows })
    }
}

/// Adds keys that equal a column of public rows from which other keys come.
fn add_equal_keys(sources: &mut [Source], aggregate: &Aggregate, flow: &PrivateRelation) {
    for (i, key) in aggregate.group_expr.iter().enumerate() {
        let Some(column) = key.try_as_col().filter(|_| public_source(flow, key).is_none()) else {
            continue;
        };
        let others = equal_columns(column, &flow.scope).into_iter();
        let found = others.map(Expr::Column).find_map(|other| {
            let (plan, name) = public_source(flow, &other)?;
            let source = sources.iter().position(|one| Arc::ptr_eq(&one.plan, &plan))?;
            Some((source, name))
        });
        let Some((source, name)) = found else { continue };
        if let Some(source) = sources.get_mut(source).filter(|source| !source.padded) {
            source.columns.push((i, name));
            source.columns.sort_by_key(|(place, _)| *place);
        }
    }
}

/// The public rows from which a key comes.
fn public_source(flow: &PrivateRelation, key: &Expr) -> Option<(Arc<LogicalPlan>, Column)> {
    flow.trace(key)?.public.clone()
}

/// The keys of one GROUP BY expression.
pub(crate) fn keys_of(
    group: &Group,
    clause: Option<&KeysClause>,
    lookups: &Lookups,
) -> Result<Vec<ScalarValue>, Refusal> {
    let Group { name, data_type, facts, passing, .. } = group;
    match clause {
        Some(KeysClause::List(literals)) => {
            let keys = listed_keys(literals, facts, data_type, name)?;
            refuse_impossible(literals, &keys, facts, name)?;
            Ok(keys)
        }
        Some(KeysClause::Table { table, column }) => {
            let lookup = Lookup { table: table.clone(), columns: vec![column.clone()] };
            let mut literals = lookups.literals(&lookup, 0)?;
            // A column of a table may repeat keys.
            let mut seen = HashSet::new();
            literals.retain(|l| seen.insert(l.clone()));
            if literals.is_empty() {
                return Err(Refusal::new(
                    Reason::UnknownKeys,
                    format!("KEYS TABLE {}({})", quoted(table), quoted(column)),
                    format!("{table} names no key"),
                    format!("GROUP BY {name} KEYS ('a', 'b')"),
                ));
            }
            listed_keys(&literals, facts, data_type, name)
        }
        Some(KeysClause::Domain) => {
            with_null(known_keys(facts, data_type, name, false)?, facts, data_type, name)
        }
        None => match passing {
            Some(keys) => Ok(keys.clone()),
            None => {
                let keys = possible(known_keys(facts, data_type, name, false)?, facts);
                with_null(keys, facts, data_type, name)
            }
        },
    }
}
