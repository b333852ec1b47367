//! The keys of an expression: the values that it can have, where its columns have finitely many.
//!
//! In: a total expression over columns with public domains. Out: every value that it has for some row, computed from
//! the domains alone: each combination of the columns' values is tried while the query is planned, by the functions
//! that run on rows. Of a column with too many values, the first expression around it that has few is tried instead.
//!
//! ```text
//! ms / 500 * 500               ms BETWEEN (0, 2000)                  0, 500, 1000, 1500, 2000
//! upper(country)               country IN ('de', 'fr')               DE, FR
//! FLOOR(total / 50) * 50       total DOUBLE BETWEEN (0, 200)         0, 50, 100, 150, 200: FLOOR has five values
//! ```
//!
//! No row decides which keys there are, and a row without a key among them belongs to no group.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat, partition, sort, take};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, HashSet, ScalarValue, TableReference};
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit, when,
};

use super::grain::{Grain, Moments, grain_of, grain_of_condition};
use super::{MOST_KEYS, known_keys, possible};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{Facts, KeySource, Scope, constant};
use crate::analysis::expr::shape::{Total, is_string, parts_of, type_of};
use crate::catalog::RESERVED;
use crate::functions::{is_late_value, without_nan};

/// The most combinations of columns' values that are tried.
const MOST_TRIED: usize = 1_000_000;

/// The most parts of an expression that is tried: each of them may be looked at once for each that is around it.
const MOST_PARTS: usize = 64;

/// The most bytes of the texts that are tried, all together: `a || b || …` makes long texts of short ones.
const MOST_BYTES: usize = 64 << 20;

/// Of fewer texts, keys come in the order of the domain; of more, in their own order.
const MOST_IN_DOMAIN_ORDER: usize = 4_096;

/// Functions whose texts may be longer than those that they are made of.
const MAKE_TEXTS: [&str; 8] =
    ["concat", "concat_ws", "lpad", "overlay", "repeat", "replace", "rpad", "translate"];

/// The keys of an expression, if it has finitely many: those that a row can have which meets the conditions.
///
/// # Guarantee
/// On every row of the scope the expression is NULL, NaN, or one of the keys, be they moments outside of the calendar. They
/// depend on declarations and on the query alone.
pub(crate) fn key_image(expr: &Expr, scope: &Scope, tables: &dyn Tables) -> Option<KeySource> {
    if expr.try_as_col().is_some() || parts_of(expr) > MOST_PARTS {
        return None;
    }
    let by_day = |expr: &Expr| by_day(expr, scope);
    let conditions: Vec<Expr> = scope.conditions.iter().map(by_day).collect();
    let expr = &by_day(expr);
    let Tried { values, has_null } = by_moments(expr, &conditions, scope, tables)
        .or_else(|| by_atoms(expr, &conditions, scope, tables))?;
    let mut keys = distinct(&values)?;
    if has_null {
        keys.push(ScalarValue::try_new_null(values.data_type()).ok()?);
    }
    (keys.len() <= MOST_KEYS).then(|| KeySource::Values(Arc::new(keys)))
}

/// The values of an expression for those of its atoms.
fn by_atoms(expr: &Expr, conditions: &[Expr], scope: &Scope, tables: &dyn Tables) -> Option<Tried> {
    let atoms = atoms_of(expr, scope)?;
    if atoms.is_empty() {
        return None;
    }
    // The expression itself: what is known of it is known already, but for what the conditions say.
    let names_it = |condition: &Expr| condition.exists(|part| Ok(part == expr)).unwrap_or(false);
    if atoms.iter().any(|atom| atom.expr == *expr) && !conditions.iter().any(names_it) {
        return None;
    }
    tried(expr, &atoms, conditions, tables)
}

/// The values of an expression for moments of which there are too many to try each, but few days, hours, minutes or seconds. `None`
/// where the conditions say no more of them than a range.
fn by_moments(
    expr: &Expr,
    conditions: &[Expr],
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Tried> {
    let tries = columns_of(std::slice::from_ref(expr), conditions, scope)?;
    if !tries.says_more {
        return None;
    }
    tried(expr, &tries.atoms, &tries.decided, tables)
}

/// The values of columns that are tried, and the conditions that they decide.
struct Tries {
    atoms: Vec<Atom>,
    decided: Vec<Expr>,
    /// Whether a condition says something of a column of moments but a range.
    says_more: bool,
}

/// The columns of expressions as atoms: all values of each, or moments that tell the expressions apart. `None` where they are too
/// many.
fn columns_of(exprs: &[Expr], conditions: &[Expr], scope: &Scope) -> Option<Tries> {
    let mut atoms = Vec::new();
    let mut decided: Vec<&Expr> = conditions.iter().collect();
    let mut any = false;
    let columns: BTreeSet<&Column> = exprs.iter().flat_map(Expr::column_refs).collect();
    for column in columns {
        let own = Expr::Column(column.clone());
        if let Some(atom) = atom(&own, scope) {
            atoms.push(atom);
            continue;
        }
        let moments = Moments { column, schema: &scope.schema };
        let grains = exprs.iter().map(|expr| grain_of(expr, moments));
        let grain = grains.reduce(|all, one| all.zip(one).map(|(all, one)| all.and(one)))??;
        let about: Vec<(&Expr, Option<Grain>)> = decided
            .iter()
            .filter(|condition| condition.column_refs().contains(column))
            .map(|condition| (*condition, grain_of_condition(condition, moments)))
            .collect();
        let (values, grain) = moments_of(grain, &about, &own, scope)?;
        let left_out = |condition: &Expr| {
            let found = about.iter().find(|(one, _)| *one == condition);
            found.is_some_and(|(_, needs)| needs.is_none_or(|needs| !grain.decides(needs)))
        };
        any |= about.iter().any(|(one, _)| !left_out(one) && says_more(one, column));
        decided.retain(|condition| !left_out(condition));
        atoms.push(atom_of_moments(&own, &values, scope)?);
    }
    combinations(&atoms)?;
    let decided = decided.into_iter().cloned().collect();
    Some(Tries { atoms, decided, says_more: any })
}

/// The combinations of values that expressions can have together on a row that meets the conditions, each once; `None` where they
/// are too many to try. `null_keys` says of each expression whether NULL is among its own keys.
///
/// # Guarantee
/// On every row of the scope the expressions have one of these combinations, or one of them is NULL or NaN and has no such key.
/// They depend on declarations, on public rows and on the query alone.
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
    let tries = columns_of(&exprs, &conditions, scope)
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
    let most = 2 * MOST_KEYS;
    let plan = passing.project(columns).and_then(LogicalPlanBuilder::distinct).ok()?;
    let plan = plan.limit(0, Some(most + 1)).and_then(LogicalPlanBuilder::build).ok()?;
    let rows = tables.read(&plan)?;
    let (named, values) = rows.columns().split_last()?;
    let named = named.as_boolean_opt()?;
    if rows.num_rows() > most {
        return None;
    }
    let is_key = |i: &usize| {
        let mut keys = values.iter().zip(null_keys);
        named.value(*i) || keys.all(|(v, has_null)| v.is_valid(*i) || *has_null)
    };
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for i in (0..rows.num_rows()).filter(is_key) {
        let row = values.iter().map(|column| ScalarValue::try_from_array(column, i).ok());
        let row: Vec<ScalarValue> = row.collect::<Option<_>>()?;
        if seen.insert(row.clone()) {
            all.push(row);
        }
    }
    Some(all)
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
    Some(Tries { atoms, decided, says_more: false })
}

/// Moments of a grain that tells an expression and as many of the conditions as possible.
fn moments_of(
    own: Grain,
    about: &[(&Expr, Option<Grain>)],
    column: &Expr,
    scope: &Scope,
) -> Option<(ArrayRef, Grain)> {
    let facts = exact(column, scope).ok()?.facts;
    let data_type = type_of(column, &scope.schema).ok()?;
    let needed = || about.iter().filter_map(|(_, needs)| *needs);
    let all = needed().fold(own, Grain::and);
    let every_year = needed().filter(|needs| needs.is_cyclic()).fold(own, Grain::and);
    [all, every_year, own].into_iter().find_map(|grain| {
        let moments = grain.moments(&facts, &data_type, MOST_TRIED)?;
        Some((moments, grain))
    })
}

/// Whether a condition says something else of a column than which range it is in, which is known.
fn says_more(condition: &Expr, column: &Column) -> bool {
    let is_column = |part: &Expr| match part {
        // Its day is another value.
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

/// The atom that a column of moments is, of which these are tried.
fn atom_of_moments(column: &Expr, values: &ArrayRef, scope: &Scope) -> Option<Atom> {
    let Total { expr: made, facts } = exact(column, scope).ok()?;
    if facts.is_unit {
        return None;
    }
    let data_type = type_of(&made, &scope.schema).ok()?;
    let null = new_null_array(&data_type, 1);
    let values = concat(&[values.as_ref(), null.as_ref()]).ok()?;
    Some(Atom { expr: column.clone(), null_key: facts.null_key, facts, data_type, values })
}

/// The keys of a column that a row can have which meets the conditions; `None` if no condition is about the column alone.
///
/// # Guarantee
/// As that of [`key_image`].
pub(crate) fn keys_that_pass(
    column: &Column,
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    let is_about = |condition: &&Expr| {
        let columns = condition.column_refs();
        columns.len() == 1 && columns.contains(column)
    };
    let conditions: Vec<Expr> = scope.conditions.iter().filter(is_about).cloned().collect();
    if conditions.is_empty() {
        return None;
    }
    let expr = Expr::Column(column.clone());
    let Tried { values, has_null } = tried(&expr, &[atom(&expr, scope)?], &conditions, tables)?;
    let mut keys = distinct(&values)?;
    if has_null {
        keys.push(ScalarValue::try_new_null(values.data_type()).ok()?);
    }
    Some(keys)
}

/// Whether no listed text of its columns meets a condition; `None` for other conditions, and where there are too many texts.
///
/// # Guarantee
/// Depends on declarations and on the condition alone.
pub(crate) fn never_holds(condition: &Expr, scope: &Scope, tables: &dyn Tables) -> Option<bool> {
    if parts_of(condition) > MOST_PARTS || is_late(condition) || makes_texts(condition) {
        return None;
    }
    let atoms = atoms_of(condition, scope)?;
    let is_text = |atom: &Atom| atom.expr.try_as_col().is_some() && is_string(&atom.data_type);
    let texts = !atoms.is_empty() && atoms.iter().all(is_text);
    combinations(&atoms).filter(|tries| texts && *tries <= MOST_IN_DOMAIN_ORDER)?;
    let Tried { values, .. } = tried(condition, &atoms, &[], tables)?;
    Some(values.as_boolean_opt()?.true_count() == 0)
}

/// The first characters of a timestamp's text, at most its date, as those of its date: `left(CAST(ts AS VARCHAR), 7)`.
///
/// The text of a timestamp begins with that of its date, in the years that are allowed. No bound relies on it: a row whose key is not
/// among the keys belongs to no group.
fn by_day(expr: &Expr, scope: &Scope) -> Expr {
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

/// A part of an expression with finitely many values: a column, or the least that is around one with too many.
struct Atom {
    expr: Expr,
    facts: Facts,
    data_type: DataType,
    /// Its values, and NULL.
    values: ArrayRef,
    /// Whether NULL is one of its keys. It is tried anyway, since any row may have it.
    null_key: bool,
}

/// The atoms of an expression; `None` where a column has too many values, and so has everything around it.
fn atoms_of(expr: &Expr, scope: &Scope) -> Option<Vec<Atom>> {
    if let Expr::Alias(alias) = expr {
        return atoms_of(&alias.expr, scope);
    }
    if matches!(expr, Expr::Literal(..)) {
        return Some(Vec::new());
    }
    if matches!(expr, Expr::Column(_)) {
        return atom(expr, scope).map(|one| vec![one]);
    }
    // Its value is not known while the query is planned.
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

/// How many combinations of values there are to try; `None` for too many.
fn combinations(atoms: &[Atom]) -> Option<usize> {
    let count = atoms.iter().try_fold(1_usize, |n, atom| n.checked_mul(atom.values.len()));
    count.filter(|n| *n <= MOST_TRIED)
}

/// The atom that an expression is, if its own values are known to be few.
fn atom(expr: &Expr, scope: &Scope) -> Option<Atom> {
    let Total { expr: made, facts } = exact(expr, scope).ok()?;
    if facts.is_unit {
        return None;
    }
    let data_type = type_of(&made, &scope.schema).ok()?;
    let mut values = possible(known_keys(&facts, &data_type, "", false).ok()?, &facts);
    let null_key = facts.null_key || values.iter().any(ScalarValue::is_null);
    if !values.iter().any(ScalarValue::is_null) {
        values.push(ScalarValue::try_new_null(&data_type).ok()?);
    }
    let values =
        values.iter().map(|value| value.cast_to(&data_type)).collect::<Result<Vec<_>, _>>();
    let values = ScalarValue::iter_to_array(values.ok()?).ok()?;
    Some(Atom { expr: expr.clone(), facts, data_type, values, null_key })
}

/// What an expression is for every combination of its atoms' values.
struct Tried {
    values: ArrayRef,
    /// Whether it is NULL for some combination in which no atom is NULL that has no such key, unless a condition is about it.
    has_null: bool,
}

/// Every combination of the values of atoms, as rows that are read while the query is planned.
struct Trial<'a> {
    atoms: &'a [Atom],
    scan: LogicalPlan,
    scope: Scope,
    tries: usize,
}

impl<'a> Trial<'a> {
    fn new(atoms: &'a [Atom], tables: &dyn Tables) -> Option<Self> {
        let fields = atoms.iter().enumerate();
        let fields = fields.map(|(i, atom)| Field::new(atom_name(i), atom.data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = RecordBatch::try_new(schema, combined(atoms)?).ok()?;
        let table = TableReference::bare(format!("{RESERVED}_atoms"));
        let scan = LogicalPlanBuilder::scan(table, tables.pinned(rows)?, None);
        let scan = scan.and_then(LogicalPlanBuilder::build).ok()?;
        let facts = atoms.iter().map(|atom| Facts { nullable: true, ..atom.facts.clone() });
        let scope = Scope::new(Arc::clone(scan.schema()), facts.collect());
        Some(Self { atoms, scan, scope, tries: combinations(atoms)?.max(1) })
    }

    /// The column of an atom.
    fn column(&self, i: usize) -> Option<Expr> {
        self.scope.schema.columns().into_iter().nth(i).map(Expr::Column)
    }

    /// An expression over the atoms; `None` if it names anything else.
    fn over_atoms(&self, expr: &Expr) -> Option<Expr> {
        let rewritten = expr.clone().transform_down(|e| {
            let place = self.atoms.iter().position(|atom| atom.expr == e);
            Ok(match place.and_then(|i| self.column(i)) {
                Some(column) => Transformed::new(column, true, TreeNodeRecursion::Jump),
                None => Transformed::no(e),
            })
        });
        exact(&rewritten.ok()?.data, &self.scope).ok().map(|total| total.expr)
    }

    /// The combinations that meet the conditions, and whether no atom is NULL in one of them that has no such key, unless a
    /// condition is about it: NULL is a key where a condition on it lets NULL pass, such as IS NULL. Conditions that the atoms do not
    /// decide are ignored.
    fn passing(&self, conditions: &[Expr]) -> Option<(LogicalPlanBuilder, Expr)> {
        let is_decided = |condition: &&Expr| {
            parts_of(condition) <= MOST_PARTS
                && !is_late(condition)
                && (self.tries <= MOST_IN_DOMAIN_ORDER || !makes_texts(condition))
        };
        let mut passing = LogicalPlanBuilder::from(self.scan.clone());
        let mut said = BTreeSet::new();
        let decided = conditions.iter().filter(is_decided);
        for condition in decided.filter_map(|condition| self.over_atoms(condition)) {
            said.extend(condition.column_refs().into_iter().map(|column| column.name.clone()));
            passing = passing.filter(condition).ok()?;
        }
        let is_unnamed =
            |(i, atom): &(usize, &Atom)| !atom.null_key && !said.contains(&atom_name(*i));
        let unnamed = self.atoms.iter().enumerate().filter(is_unnamed);
        let named = unnamed
            .filter_map(|(i, _)| self.column(i))
            .map(Expr::is_not_null)
            .reduce(Expr::and)
            .unwrap_or_else(|| lit(true));
        Some((passing, named))
    }
}

fn atom_name(i: usize) -> String {
    format!("atom{i}")
}

/// The values of an expression for every combination of its atoms' values that meets the conditions.
fn tried(expr: &Expr, atoms: &[Atom], conditions: &[Expr], tables: &dyn Tables) -> Option<Tried> {
    let trial = Trial::new(atoms, tables)?;
    let made = trial.over_atoms(expr)?;
    let data_type = type_of(&made, &trial.scope.schema).ok()?;
    let (passing, named) = trial.passing(conditions)?;
    let value = without_nan(made, &data_type);
    let mut columns = match is_string(&data_type) {
        true => {
            let most = i64::try_from(MOST_BYTES / trial.tries).ok()?;
            let bytes = TryCast::new(Box::new(octet_length(value.clone())), DataType::Int64);
            let is_long = Expr::TryCast(bytes).gt(lit(most));
            let null = lit(ScalarValue::try_new_null(&data_type).ok()?);
            let short = when(is_long.clone(), null).otherwise(value).ok()?;
            vec![short.alias("value"), is_long.alias("is_long")]
        }
        false => vec![value.alias("value")],
    };
    columns.push(named.alias("named"));
    let rows = tables.read(&passing.project(columns).ok()?.build().ok()?)?;
    let (values, named) = match rows.columns() {
        [values, named] => (values, named),
        // A text that is too long is not listed, and neither are the others.
        [values, is_long, named] if is_long.as_boolean_opt()?.true_count() == 0 => (values, named),
        _ => return None,
    };
    let named = named.as_boolean_opt()?;
    let has_null = (0..values.len()).any(|i| values.is_null(i) && named.value(i));
    Some(Tried { values: Arc::clone(values), has_null })
}

/// Whether an expression joins or replaces texts, which may become long.
fn makes_texts(expr: &Expr) -> bool {
    let makes = |part: &Expr| {
        let joins = matches!(part, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }));
        let called =
            matches!(part, Expr::ScalarFunction(call) if MAKE_TEXTS.contains(&call.func.name()));
        Ok(joins || called)
    };
    expr.exists(makes).unwrap_or(true)
}

/// Whether the value of an expression is not known while the query is planned.
fn is_late(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarFunction(call) if is_late_value(&call.func))))
        .unwrap_or(true)
}

/// Every combination of the atoms' values, the last atom fastest.
fn combined(atoms: &[Atom]) -> Option<Vec<ArrayRef>> {
    let count = u32::try_from(combinations(atoms)?).ok()?;
    let (mut columns, mut repeats) = (Vec::new(), count);
    for atom in atoms {
        let own = u32::try_from(atom.values.len()).ok()?;
        repeats /= own;
        let rows = (0..count).map(|row| row / repeats % own);
        columns.push(take(&atom.values, &UInt32Array::from_iter_values(rows), None).ok()?);
    }
    Some(columns)
}

/// The values of a column that are not NULL, each once.
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
