//! The keys of an expression: the values that it can have, if its columns have finitely many.
//!
//! In: a total expression over columns with public domains. Out: every value that it has for some
//! row, computed from the domains alone. While the query is planned, the functions that run on rows
//! evaluate it for each combination of the columns' values. If a column has too many values, the
//! smallest enclosing expression with few values takes its place.
//!
//! ```text
//! ms / 500 * 500               ms BETWEEN (0, 2000)                  0, 500, 1000, 1500, 2000
//! upper(country)               country IN ('de', 'fr')               DE, FR
//! FLOOR(total / 50) * 50       total DOUBLE BETWEEN (0, 200)         0, 50, 100, 150, 200: FLOOR has five values
//! ```
//!
//! The rows do not influence the keys. A row without one of the keys belongs to no group.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{partition, sort};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::cuts::Values;
use super::grain::{Grain, grain_of};
use super::pieces::Line;
use super::trial::{
    Atom, MOST_IN_DOMAIN_ORDER, MOST_PARTS, MOST_TRIED, Trial, Tried, atom, combinations,
    distinct_keys, is_late, makes_texts, tried,
};
use super::{MOST_KEYS, known_keys, possible};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{KeySource, Scope, constant};
use crate::analysis::expr::nulls::makes_null;
use crate::analysis::expr::shape::{Total, is_string, parts_of, type_of};
use crate::functions::{is_late_value, without_nan};

/// A column with at most this many values is tried with each of them.
const FEW: usize = 4_096;

/// The most values that are tried if conditions restrict the columns by nothing but ranges.
const MOST_UNASKED: usize = 50_000;

/// The keys of an expression, if it has finitely many. Only the keys of rows that meet the
/// conditions are included.
///
/// # Guarantee
/// On every row of the scope the expression is NULL, NaN, or one of the keys. This includes moments
/// outside the calendar. The keys depend only on the query and the declarations.
pub(crate) fn key_image(expr: &Expr, scope: &Scope, tables: &dyn Tables) -> Option<KeySource> {
    if expr.try_as_col().is_some() || parts_of(expr) > MOST_PARTS {
        return None;
    }
    let by_day = |expr: &Expr| by_day(expr, scope);
    let conditions: Vec<Expr> = scope.conditions.iter().map(by_day).collect();
    let expr = &by_day(expr);
    let listed = |Tried { values, has_null }: Tried| {
        let mut keys = distinct(&values)?;
        if has_null {
            keys.push(ScalarValue::try_new_null(values.data_type()).ok()?);
        }
        Some(keys)
    };
    let keys = match by_columns(expr, &conditions, scope, tables) {
        Some(tried) => listed(tried)?,
        None => match by_pieces(expr, &conditions, scope, tables) {
            Some(keys) => keys,
            None => listed(by_atoms(expr, &conditions, scope, tables)?)?,
        },
    };
    (keys.len() <= MOST_KEYS).then(|| KeySource::Values(Arc::new(keys)))
}

/// The known keys of an expression over one column with too many values to try, in the pieces that
/// meet the conditions. `None` if the conditions exclude no piece.
fn by_pieces(
    expr: &Expr,
    conditions: &[Expr],
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    const MOST_PIECES: usize = 64;
    let columns = expr.column_refs();
    let column = columns.iter().next().filter(|_| columns.len() == 1)?;
    if atom(&Expr::Column((*column).clone()), scope).is_some() {
        return None;
    }
    let values = Values { column, schema: &scope.schema };
    let (mut cuts, mut settled) = (Vec::new(), Vec::new());
    for condition in conditions.iter().filter(|one| one.column_refs() == columns) {
        let mut own = Vec::new();
        if grain_of(condition, values, &mut own) == Some(Grain::NOTHING) {
            cuts.extend(own);
            settled.push(condition.clone());
        }
    }
    let line = Line::new(column, scope, tables)?.cut(&cuts)?;
    let all = line.len();
    let line = line.meeting(&settled)?;
    if line.len() == all || line.len() > MOST_PIECES || line.null_passes() {
        return None;
    }
    let mut keys = Vec::new();
    for scope in line.scopes() {
        let Total { expr: made, facts } = exact(expr, &scope).ok()?;
        let data_type = type_of(&made, &scope.schema).ok()?;
        keys.extend(possible(known_keys(&facts, &data_type, "", false).ok()?, &facts));
    }
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    // The expression itself can produce NULL, although the column is NULL on no row.
    if makes_null(expr, scope) && !keys.iter().any(ScalarValue::is_null) {
        let data_type = type_of(expr, &scope.schema).ok()?;
        keys.push(ScalarValue::try_new_null(&data_type).ok()?);
    }
    Some(keys)
}

/// The values of an expression for the values of its atoms.
fn by_atoms(expr: &Expr, conditions: &[Expr], scope: &Scope, tables: &dyn Tables) -> Option<Tried> {
    let atoms = atoms_of(expr, scope)?;
    if atoms.is_empty() {
        return None;
    }
    // The keys of the expression itself are known already, unless a condition names it.
    let names_it = |condition: &Expr| condition.exists(|part| Ok(part == expr)).unwrap_or(false);
    if atoms.iter().any(|atom| atom.expr == *expr) && !conditions.iter().any(names_it) {
        return None;
    }
    tried(expr, &atoms, conditions, tables)
}

/// The values of an expression for the values of its columns, if some columns have too many values
/// to try each one. `None` if the conditions restrict them too little.
fn by_columns(
    expr: &Expr,
    conditions: &[Expr],
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Tried> {
    let tries = columns_of(std::slice::from_ref(expr), conditions, scope, tables)?;
    let most = if tries.says_more { MOST_TRIED } else { MOST_UNASKED };
    if !tries.has_lines || combinations(&tries.atoms)? > most {
        return None;
    }
    tried(expr, &tries.atoms, &tries.decided, tables)
}

/// The values of columns that are tried, and the conditions that these values decide.
struct Tries {
    atoms: Vec<Atom>,
    decided: Vec<Expr>,
    /// True if only some values are tried for some column.
    has_lines: bool,
    /// True if a condition restricts such a column by more than a range.
    says_more: bool,
}

/// The columns of expressions as atoms: either all values of a column, or values that tell the
/// expressions apart. `None` if there are too many.
fn columns_of(
    exprs: &[Expr],
    conditions: &[Expr],
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Tries> {
    let mut atoms = Vec::new();
    let mut decided: Vec<&Expr> = conditions.iter().collect();
    let (mut has_lines, mut any) = (false, false);
    let columns: BTreeSet<&Column> = exprs.iter().flat_map(Expr::column_refs).collect();
    for column in columns {
        let all = atom(&Expr::Column(column.clone()), scope);
        if let Some(few) = all.as_ref().filter(|all| all.values.len() <= FEW) {
            atoms.push(few.clone());
            continue;
        }
        let about: Vec<&Expr> = decided
            .iter()
            .copied()
            .filter(|condition| condition.column_refs().contains(column))
            .collect();
        let Some(Told { atom, left_out }) = told(column, exprs, &about, scope, tables) else {
            atoms.push(all?);
            continue;
        };
        has_lines = true;
        any |= about.iter().any(|one| !left_out.contains(one) && says_more(one, column));
        decided.retain(|condition| !left_out.contains(condition));
        atoms.push(atom);
    }
    combinations(&atoms)?;
    let decided = decided.into_iter().cloned().collect();
    Some(Tries { atoms, decided, has_lines, says_more: any })
}

/// Values of a column that tell expressions apart.
pub(super) struct Told<'a> {
    pub(super) atom: Atom,
    /// The conditions on the column that these values do not decide.
    pub(super) left_out: Vec<&'a Expr>,
}

/// Chooses values of a column: at least one for each result of the expressions, and of as many
/// conditions as possible.
pub(super) fn told<'a>(
    column: &Column,
    exprs: &[Expr],
    about: &[&'a Expr],
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Told<'a>> {
    let values = Values { column, schema: &scope.schema };
    let mut cuts = Vec::new();
    let grains = exprs.iter().map(|expr| grain_of(expr, values, &mut cuts));
    let own = grains.reduce(|all, one| all.zip(one).map(|(all, one)| all.and(one)))??;
    let mut needs = Vec::with_capacity(about.len());
    for condition in about {
        let mut more = Vec::new();
        let needed = grain_of(condition, values, &mut more);
        needs.push((*condition, needed));
        cuts.extend(more.into_iter().filter(|_| needed.is_some()));
    }
    let is_settled = |(condition, needed): &&(&Expr, Option<Grain>)| {
        *needed == Some(Grain::NOTHING) && condition.column_refs().len() == 1
    };
    let settled = needs.iter().filter(is_settled).map(|(condition, _)| (*condition).clone());
    let line =
        Line::new(column, scope, tables)?.cut(&cuts)?.meeting(&settled.collect::<Vec<_>>())?;
    let needed = || needs.iter().filter_map(|(_, needed)| *needed);
    let all = needed().fold(own, Grain::and);
    let every_year = needed().filter(|needed| needed.is_cyclic()).fold(own, Grain::and);
    let mut grains = [all, every_year, own].into_iter();
    let (atom, grain) = grains.find_map(|grain| Some((line.tried(grain, MOST_TRIED)?, grain)))?;
    let is_left_out = |needed: &Option<Grain>| needed.is_none_or(|needed| !grain.decides(needed));
    let left_out = needs.iter().filter(|(_, needed)| is_left_out(needed));
    Some(Told { atom, left_out: left_out.map(|(condition, _)| *condition).collect() })
}

/// The distinct combinations of values that expressions can have on a row that meets the
/// conditions; `None` if there are too many to try. For each expression, `null_keys` tells whether
/// NULL is among its own keys.
///
/// # Guarantee
/// On every row of the scope, the expressions have one of these combinations; or one of them is
/// NULL or NaN, and this is not among its keys. The combinations depend only on the query, the
/// declarations and public rows.
pub(crate) fn joint_keys(
    exprs: &[Expr],
    null_keys: &[bool],
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Vec<Vec<ScalarValue>>> {
    let by_day = |expr: &Expr| by_day(expr, scope);
    let exprs: Vec<Expr> = exprs.iter().map(by_day).collect();
    let conditions: Vec<Expr> = scope.conditions.iter().map(by_day).collect();
    if exprs.iter().any(|expr| parts_of(expr) > MOST_PARTS || makes_texts(expr) || is_late(expr)) {
        return None;
    }
    let tries = columns_of(&exprs, &conditions, scope, tables)
        .or_else(|| atoms_of_all(&exprs, conditions, scope))?;
    let trial = Trial::new(&tries.atoms, tables)?;
    let (passing, named) = trial.passing(&tries.decided)?;
    let mut columns = Vec::new();
    for (i, expr) in exprs.iter().enumerate() {
        let made = trial.over_atoms(expr)?;
        let data_type = type_of(&made, &trial.scope.schema).ok()?;
        columns.push(without_nan(made, &data_type).alias(format!("value{i}")));
    }
    columns.push(named.alias("named"));
    distinct_keys(passing, columns, null_keys, tables)
}

/// The atoms of several expressions.
fn atoms_of_all(exprs: &[Expr], decided: Vec<Expr>, scope: &Scope) -> Option<Tries> {
    let mut atoms: Vec<Atom> = Vec::new();
    for expr in exprs {
        for one in atoms_of(expr, scope)? {
            if atoms.iter().all(|known| known.expr != one.expr) {
                atoms.push(one);
            }
        }
    }
    combinations(&atoms)?;
    Some(Tries { atoms, decided, has_lines: false, says_more: false })
}

/// True if a condition restricts a column by more than a range, which is known already.
fn says_more(condition: &Expr, column: &Column) -> bool {
    let is_column = |part: &Expr| match part {
        // A date cast from the column is another value.
        Expr::Cast(Cast { expr, field }) => {
            *field.data_type() != DataType::Date32 && expr.try_as_col() == Some(column)
        }
        other => other.try_as_col() == Some(column),
    };
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition {
        let compares = matches!(
            op,
            Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        return !(compares && (is_column(left) || is_column(right)));
    }
    let Expr::Between(between) = condition else { return true };
    between.negated || !is_column(&between.expr)
}

/// The keys of a column that rows can have if they meet the conditions; `None` if no condition
/// concerns only this column.
///
/// # Guarantee
/// As for [`key_image`].
pub(crate) fn keys_that_pass(
    column: &Column,
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    let about = scope.conditions.iter().filter_map(|condition| said_of(column, condition));
    let conditions: Vec<Expr> = about.collect();
    if conditions.is_empty() {
        return None;
    }
    let conditions: Vec<Expr> = conditions.iter().map(|one| by_day(one, scope)).collect();
    let expr = Expr::Column(column.clone());
    let few = atom(&expr, scope);
    let Tried { values, has_null } = match few {
        Some(few) => tried(&expr, &[few], &conditions, tables)?,
        None => {
            let about: Vec<&Expr> = conditions.iter().collect();
            let Told { atom, left_out } =
                told(column, std::slice::from_ref(&expr), &about, scope, tables)?;
            let decided = conditions.iter().filter(|condition| !left_out.contains(condition));
            tried(&expr, &[atom], &decided.cloned().collect::<Vec<_>>(), tables)?
        }
    };
    let mut keys = distinct(&values)?;
    if has_null {
        keys.push(ScalarValue::try_new_null(values.data_type()).ok()?);
    }
    Some(keys)
}

/// What a condition says of one column: all of it, if it is about this column alone, or one of the
/// alternatives of an OR that all say something of it.
fn said_of(column: &Column, condition: &Expr) -> Option<Expr> {
    let is_about = |part: &Expr| {
        let columns = part.column_refs();
        columns.len() == 1 && columns.contains(column)
    };
    if is_about(condition) {
        return Some(condition.clone());
    }
    let alternatives = split_binary(condition, Operator::Or);
    let of_one = |one: &Expr| {
        let parts = split_conjunction(one).into_iter();
        conjunction(parts.filter(|part| is_about(part)).cloned())
    };
    let said = alternatives.into_iter().map(of_one).collect::<Option<Vec<_>>>()?;
    said.into_iter().reduce(Expr::or)
}

/// True if no listed texts of its columns meet a condition, or none of a column's keys equals a
/// constant; `None` for other conditions, and if there are too many keys.
///
/// # Guarantee
/// Depends only on the condition and the declarations.
pub(crate) fn never_holds(condition: &Expr, scope: &Scope, tables: &dyn Tables) -> Option<bool> {
    if parts_of(condition) > MOST_PARTS || is_late(condition) || makes_texts(condition) {
        return None;
    }
    // Ranges of numbers are compared without trying each.
    let equates = if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition
    {
        constant(left).or_else(|| constant(right)).is_some()
    } else if let Expr::InList(list) = condition {
        !list.negated && list.list.iter().all(|one| constant(one).is_some())
    } else {
        false
    };
    let atoms = atoms_of(condition, scope)?;
    let is_column = |atom: &Atom| atom.expr.try_as_col().is_some();
    let is_tried = |atom: &Atom| is_column(atom) && (equates || is_string(&atom.data_type));
    let all_tried = !atoms.is_empty() && atoms.iter().all(is_tried);
    combinations(&atoms).filter(|tries| all_tried && *tries <= MOST_IN_DOMAIN_ORDER)?;
    let Tried { values, .. } = tried(condition, &atoms, &[], tables)?;
    Some(values.as_boolean_opt()?.true_count() == 0)
}

/// Rewrites the first characters of a timestamp's text as characters of its date, if they lie
/// within the date: `left(CAST(ts AS VARCHAR), 7)`.
///
/// In the accepted years, the text of a timestamp begins with the text of its date. No bound relies
/// on it: a row whose key is not among the keys belongs to no group.
pub(super) fn by_day(expr: &Expr, scope: &Scope) -> Expr {
    const DATE: i64 = 10;
    let rewritten = expr.clone().transform_up(|part| {
        let Expr::ScalarFunction(call) = &part else { return Ok(Transformed::no(part)) };
        let length = match (call.func.name(), call.args.as_slice()) {
            ("left", [_, length]) => Some((1, length)),
            ("substr", [_, start, length]) => whole(start).map(|start| (start, length)),
            _ => None,
        };
        let is_date = length
            .and_then(|(start, length)| {
                Some((start >= 1) && start.checked_add(whole(length)?)? <= DATE + 1)
            })
            .unwrap_or(false);
        let Some(Expr::Cast(cast)) = call.args.first().filter(|_| is_date) else {
            return Ok(Transformed::no(part));
        };
        let from = type_of(&cast.expr, &scope.schema);
        if !is_string(cast.field.data_type()) || !matches!(from, Ok(DataType::Timestamp(_, None))) {
            return Ok(Transformed::no(part));
        }
        let day = Expr::Cast(Cast::new(cast.expr.clone(), DataType::Date32));
        let text = Expr::Cast(Cast { expr: Box::new(day), field: Arc::clone(&cast.field) });
        let mut call = call.clone();
        if let Some(first) = call.args.first_mut() {
            *first = text;
        }
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    });
    rewritten.map_or_else(|_| expr.clone(), |rewritten| rewritten.data)
}

/// A literal whole number.
fn whole(expr: &Expr) -> Option<i64> {
    let value = constant(expr)?.cast_to(&DataType::Int64).ok()?;
    let ScalarValue::Int64(whole) = value else { return None };
    whole
}

/// The atoms of an expression; `None` if a column has too many values, and so do all expressions
/// that enclose it.
pub(super) fn atoms_of(expr: &Expr, scope: &Scope) -> Option<Vec<Atom>> {
    if let Expr::Alias(alias) = expr {
        return atoms_of(&alias.expr, scope);
    }
    if matches!(expr, Expr::Literal(..)) {
        return Some(Vec::new());
    }
    if matches!(expr, Expr::Column(_)) {
        return atom(expr, scope).map(|one| vec![one]);
    }
    // This value is not known while the query is planned.
    if matches!(expr, Expr::ScalarFunction(call) if is_late_value(&call.func)) {
        return None;
    }
    let mut parts = Some(Vec::new());
    expr.apply_children(|child| {
        parts = parts.take().zip(atoms_of(child, scope)).map(|(mut all, more): (Vec<Atom>, _)| {
            let new = more.into_iter().filter(|one| all.iter().all(|known| known.expr != one.expr));
            let new: Vec<Atom> = new.collect();
            all.extend(new);
            all
        });
        Ok(match parts {
            Some(_) => TreeNodeRecursion::Continue,
            None => TreeNodeRecursion::Stop,
        })
    })
    .ok()?;
    match parts {
        Some(atoms) if combinations(&atoms).is_some() => Some(atoms),
        _ => atom(expr, scope).map(|one| vec![one]),
    }
}

/// The distinct values of a column that are not NULL.
fn distinct(values: &ArrayRef) -> Option<Vec<ScalarValue>> {
    let value = |values: &ArrayRef, i| ScalarValue::try_from_array(values, i).ok();
    if !values.data_type().is_numeric() && values.len() <= MOST_IN_DOMAIN_ORDER {
        let mut seen = HashSet::new();
        let mut all: Vec<ScalarValue> =
            (0..values.len()).map(|i| value(values, i)).collect::<Option<_>>()?;
        all.retain(|value| !value.is_null() && seen.insert(value.clone()));
        return Some(all);
    }
    let sorted = sort(values, None).ok()?;
    let ranges = partition(&[Arc::clone(&sorted)]).ok()?.ranges();
    let firsts = ranges.into_iter().map(|range| range.start).filter(|i| sorted.is_valid(*i));
    firsts.map(|i| value(&sorted, i)).collect()
}
