//! Evaluates expressions while a query is planned, on values of their parts, with the functions
//! that run on rows.
//!
//! In: atoms, each a column or an expression with some values. Out: the values of other expressions
//! for each combination of these values that meets the conditions.
//!
//! ```text
//! a: 1, 2, NULL   b: 'x', NULL   WHERE a > 1      a || b: '2x', NULL
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{HashSet, ScalarValue, TableReference};
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::logical_expr::expr::{Case, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit, when,
};

use super::{MOST_KEYS, known_keys, possible};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::shape::{Total, is_string, parts_of, type_of};
use crate::catalog::RESERVED;
use crate::functions::{is_late_value, without_nan};

/// The largest number of combinations of columns' values that are tried.
pub(super) const MOST_TRIED: usize = 1_000_000;

/// The largest number of parts of an expression that is tried. The work can grow with the square of
/// the number of parts.
pub(super) const MOST_PARTS: usize = 64;

/// The largest number of bytes of all tried texts together: `a || b || …` makes long texts from
/// short ones.
const MOST_BYTES: usize = 64 << 20;

/// Up to this number of texts, keys come in the order of the domain. Beyond it, they are sorted.
pub(super) const MOST_IN_DOMAIN_ORDER: usize = 4_096;

/// Functions whose results can be longer than their arguments.
const MAKE_TEXTS: [&str; 8] =
    ["concat", "concat_ws", "lpad", "overlay", "repeat", "replace", "rpad", "translate"];

/// A part of an expression with finitely many values: a column, or the smallest expression around a
/// column with too many values.
#[derive(Clone)]
pub(super) struct Atom {
    pub(super) expr: Expr,
    pub(super) facts: Facts,
    pub(super) data_type: DataType,
    /// Its values, including NULL.
    pub(super) values: ArrayRef,
    /// True if NULL is one of its keys. NULL is tried in any case, because any row may have it.
    pub(super) null_key: bool,
}

impl Atom {
    /// The atom for an expression, with these values.
    pub(super) fn of_values(expr: &Expr, values: &ArrayRef, scope: &Scope) -> Option<Self> {
        let Total { expr: made, facts } = exact(expr, scope).ok()?;
        if facts.is_unit {
            return None;
        }
        let data_type = type_of(&made, &scope.schema).ok()?;
        let null = new_null_array(&data_type, 1);
        let values = concat(&[values.as_ref(), null.as_ref()]).ok()?;
        Some(Self { expr: expr.clone(), null_key: facts.null_key, facts, data_type, values })
    }
}

/// The number of combinations of values to try; `None` if there are too many.
pub(super) fn combinations(atoms: &[Atom]) -> Option<usize> {
    let count = atoms.iter().try_fold(1_usize, |n, atom| n.checked_mul(atom.values.len()));
    count.filter(|n| *n <= MOST_TRIED)
}

/// The atom for an expression, if it has few known values.
pub(super) fn atom(expr: &Expr, scope: &Scope) -> Option<Atom> {
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

/// The values of an expression for every combination of its atoms' values.
pub(super) struct Tried {
    pub(super) values: ArrayRef,
    /// True if the expression is NULL for a combination in which NULL counts. NULL counts if a CASE
    /// chooses it, or if every atom that is NULL has NULL among its keys or is named in a
    /// condition.
    pub(super) has_null: bool,
}

/// Every combination of the atoms' values, as rows that are read while the query is planned.
pub(super) struct Trial<'a> {
    pub(super) atoms: &'a [Atom],
    pub(super) scan: LogicalPlan,
    pub(super) scope: Scope,
    pub(super) tries: usize,
}

impl<'a> Trial<'a> {
    pub(super) fn new(atoms: &'a [Atom], tables: &dyn Tables) -> Option<Self> {
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
    pub(super) fn column(&self, i: usize) -> Option<Expr> {
        self.scope.schema.columns().into_iter().nth(i).map(Expr::Column)
    }

    /// An expression over the atoms; `None` if it names other columns.
    pub(super) fn over_atoms(&self, expr: &Expr) -> Option<Expr> {
        let rewritten = expr.clone().transform_down(|e| {
            let place = self.atoms.iter().position(|atom| atom.expr == e);
            Ok(match place.and_then(|i| self.column(i)) {
                Some(column) => Transformed::new(column, true, TreeNodeRecursion::Jump),
                None => Transformed::no(e),
            })
        });
        exact(&rewritten.ok()?.data, &self.scope).ok().map(|total| total.expr)
    }

    /// An expression that is true where a CASE of `expr` chooses NULL, even if an atom is NULL
    /// there. It is false if there is no CASE.
    ///
    /// `CASE WHEN age < 18 THEN 'minor' WHEN age >= 18 THEN 'adult'
    /// END` chooses NULL for an unknown age, as it does without conditions (`makes_null`).
    /// `age + 1` chooses nothing: it passes NULL on.
    fn chooses_null(&self, expr: &Expr) -> Expr {
        let of = |expr: &Expr| self.chooses_null(expr);
        let is_atom = |expr: &Expr| self.atoms.iter().any(|atom| atom.expr == *expr);
        if is_atom(expr) || matches!(expr, Expr::IsNull(_) | Expr::IsNotNull(_)) {
            return lit(false);
        }
        if let Expr::Literal(value, _) = expr {
            return lit(value.is_null());
        }
        if let Expr::Case(case) = expr {
            let branches = case.when_then_expr.iter();
            let branches = branches.map(|(when, then)| (when.clone(), Box::new(of(then))));
            return Expr::Case(Case {
                expr: case.expr.clone(),
                when_then_expr: branches.collect(),
                else_expr: Some(Box::new(case.else_expr.as_deref().map_or_else(|| lit(true), of))),
            });
        }
        let mut operands = Vec::new();
        if let Expr::ScalarFunction(call) = expr
            && let ("nullif", Some(of)) = (call.func.name(), call.args.first())
        {
            operands.push(of.clone().is_not_null());
        }
        let walked = expr.apply_children(|child| {
            operands.push(of(child));
            Ok(TreeNodeRecursion::Continue)
        });
        // NULL only if all arguments are NULL.
        let needs_all = matches!(expr, Expr::ScalarFunction(call)
            if matches!(call.func.name(), "coalesce" | "greatest" | "least"));
        let all = if needs_all { Expr::and } else { Expr::or };
        let chosen = operands.into_iter().reduce(all);
        chosen.filter(|_| walked.is_ok()).unwrap_or_else(|| lit(false))
    }

    /// The combinations that meet the conditions, and an expression that tells whether NULL counts
    /// in a combination. It counts if every atom that is NULL has NULL among its keys or is named
    /// in a condition. A condition such as IS NULL makes NULL a key, because it lets NULL pass.
    /// Conditions that the atoms do not decide are ignored.
    pub(super) fn passing(&self, conditions: &[Expr]) -> Option<(LogicalPlanBuilder, Expr)> {
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

/// The values of an expression for every combination of its atoms' values that meets the
/// conditions.
pub(super) fn tried(
    expr: &Expr,
    atoms: &[Atom],
    conditions: &[Expr],
    tables: &dyn Tables,
) -> Option<Tried> {
    let trial = Trial::new(atoms, tables)?;
    let made = trial.over_atoms(expr)?;
    let data_type = type_of(&made, &trial.scope.schema).ok()?;
    let (passing, named) = trial.passing(conditions)?;
    let has_case = |part: &Expr| Ok(matches!(part, Expr::Case(_)));
    let named = match expr.exists(has_case).unwrap_or(true) {
        true => {
            let chosen = trial.over_atoms(&trial.chooses_null(expr));
            named.or(chosen.unwrap_or_else(|| lit(false)))
        }
        false => named,
    };
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
        // If one text is too long, none of them is listed.
        [values, is_long, named] if is_long.as_boolean_opt()?.true_count() == 0 => (values, named),
        _ => return None,
    };
    let named = named.as_boolean_opt()?;
    let has_null = (0..values.len()).any(|i| values.is_null(i) && named.value(i));
    Some(Tried { values: Arc::clone(values), has_null })
}

/// The distinct combinations of keys in a plan's rows; `None` if there are too many to list. The
/// last column tells whether NULL counts in a row. Where it does not, a row with a NULL among keys
/// that `null_keys` does not allow to be NULL is left out.
pub(super) fn distinct_keys(
    rows: LogicalPlanBuilder,
    columns: Vec<Expr>,
    null_keys: &[bool],
    tables: &dyn Tables,
) -> Option<Vec<Vec<ScalarValue>>> {
    let most = 2 * MOST_KEYS;
    let plan = rows.project(columns).and_then(LogicalPlanBuilder::distinct).ok()?;
    let plan = plan.limit(0, Some(most + 1)).and_then(LogicalPlanBuilder::build).ok()?;
    let rows = tables.read(&plan)?;
    let (named, values) = rows.columns().split_last()?;
    let named = named.as_boolean_opt()?;
    if rows.num_rows() > most {
        return None;
    }
    let is_key = |i: &usize| {
        let mut keys = values.iter().zip(null_keys);
        named.value(*i) || keys.all(|(value, has_null)| value.is_valid(*i) || *has_null)
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

/// True if an expression joins or replaces texts, which can make them long.
pub(super) fn makes_texts(expr: &Expr) -> bool {
    let makes = |part: &Expr| {
        let joins = matches!(part, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }));
        let called =
            matches!(part, Expr::ScalarFunction(call) if MAKE_TEXTS.contains(&call.func.name()));
        Ok(joins || called)
    };
    expr.exists(makes).unwrap_or(true)
}

/// True if the value of an expression is not known while the query is planned.
pub(crate) fn is_late(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarFunction(call) if is_late_value(&call.func))))
        .unwrap_or(true)
}

/// Every combination of the atoms' values. The last atom changes fastest.
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
