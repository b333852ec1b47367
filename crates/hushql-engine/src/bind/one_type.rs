//! Gives numbers that are compared, chosen or joined one type, before the planner's own coercion.
//!
//! In: a plan as the planner makes it. Out: the same plan with one type for the sides of a
//! comparison, the values of IN, the branches of CASE and COALESCE, the columns of a union and the
//! keys of a join: DOUBLE if one is DOUBLE, else REAL if one is REAL, else a decimal that holds all
//! values. A decimal is divided, and a number with a point averaged, as DOUBLE. The planner would
//! cut off quotients after four digits and decimals after 38. It would cast floats to decimals of
//! 15 places, which fail from 10¹⁵ on and lose smaller digits.
//!
//! ```text
//! DECIMAL(4, 2) = DOUBLE                 both DOUBLE
//! DECIMAL(38, 2) = DECIMAL(38, 18)       both DECIMAL(54, 18)
//! DECIMAL(12, 2), 0.0 in COALESCE        both DECIMAL(12, 2)
//! DECIMAL(12, 2) / 3                     both DOUBLE
//! ```
//!
//! Only numbers beside a decimal are changed: dates, moments and texts keep the planner's types. A
//! text that is a number counts as that number if it is compared with a decimal.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    Between, Case, Cast, InList, InSubquery, ScalarFunction, SetComparison,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection,
    Subquery, Union, WindowFunctionDefinition,
};

use super::marker::marker_divides;
use super::points::has_point;
use super::rounded_types::as_coerced;
use super::temporal::compares;
use crate::functions::{DecimalLiteral, in_quotes, is_clamp, is_fraction_in_quotes, written};

/// Gives numbers that meet one type.
///
/// # Errors
/// Those of planning.
pub(super) fn with_one_type(plan: LogicalPlan) -> Result<LogicalPlan> {
    let typed = plan.transform_up_with_subqueries(|node| {
        let below = Below { schema: merge_schema(&node.inputs()), rows: rows_of(&node) };
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let alike = expr.transform_up(|e| alike(e, &below))?;
            Ok(alike.update_data(|e| name.restore(e)))
        })?;
        let node = node.transform_data(|node| match node {
            LogicalPlan::Join(join) => joined(join),
            LogicalPlan::Union(union) => united(union),
            other => Ok(Transformed::no(other)),
        })?;
        // The types of the inputs may have changed, too.
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(typed.data)
}

/// The columns and rows that the expressions of a node read.
struct Below {
    schema: DFSchema,
    rows: Vec<Arc<LogicalPlan>>,
}

impl Below {
    fn has_point(&self, expr: &Expr) -> bool {
        let rows: Vec<&LogicalPlan> = self.rows.iter().map(AsRef::as_ref).collect();
        has_point(expr, &rows)
    }
}

/// The inputs of a node.
fn rows_of(node: &LogicalPlan) -> Vec<Arc<LogicalPlan>> {
    node.inputs().into_iter().map(|input| Arc::new(input.clone())).collect()
}

fn alike(expr: Expr, below: &Below) -> Result<Transformed<Expr>> {
    let schema = &below.schema;
    Ok(match expr {
        Expr::BinaryExpr(binary) => operands(binary, below),
        Expr::Between(Between { expr, negated, low, high }) => {
            let sides = Sides::of([*expr, *low, *high], schema);
            let (changed, [expr, low, high]) = sides.compared();
            let between = Between::new(expr.into(), negated, low.into(), high.into());
            Transformed::new_transformed(Expr::Between(between), changed)
        }
        Expr::InList(InList { expr, list, negated }) => {
            let mut all = vec![*expr];
            all.extend(list);
            let (changed, mut all) = listed(all, schema);
            let expr = all.remove(0);
            Transformed::new_transformed(
                Expr::InList(InList::new(expr.into(), all, negated)),
                changed,
            )
        }
        Expr::Case(case) => chosen(case, schema),
        Expr::AggregateFunction(mut call) if !keeps_decimals(&call.func) => {
            let (changed, args) = averaged(std::mem::take(&mut call.params.args), below);
            call.params.args = args;
            Transformed::new_transformed(Expr::AggregateFunction(call), changed)
        }
        Expr::WindowFunction(mut call) => {
            let averages = match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => !keeps_decimals(function),
                WindowFunctionDefinition::WindowUDF(_) => false,
            };
            if !averages {
                return Ok(Transformed::no(Expr::WindowFunction(call)));
            }
            let (changed, args) = averaged(std::mem::take(&mut call.params.args), below);
            call.params.args = args;
            Transformed::new_transformed(Expr::WindowFunction(call), changed)
        }
        Expr::ScalarFunction(call) => called(call, schema),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let (changed, expr, subquery) = with_query(*expr, subquery, schema)?;
            let membership = InSubquery::new(expr.into(), subquery, negated);
            Transformed::new_transformed(Expr::InSubquery(membership), changed)
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let (changed, expr, subquery) = with_query(*expr, subquery, schema)?;
            let comparison = SetComparison::new(expr.into(), subquery, op, quantifier);
            Transformed::new_transformed(Expr::SetComparison(comparison), changed)
        }
        other => Transformed::no(other),
    })
}

/// Expressions that meet, with their types. `None` if a type is unknown; a later check reports it.
struct Sides<const N: usize> {
    exprs: [Expr; N],
    types: Option<Vec<DataType>>,
}

impl<const N: usize> Sides<N> {
    fn of(exprs: [Expr; N], schema: &DFSchema) -> Self {
        Self { types: types(&exprs, schema), exprs }
    }

    /// The expressions in one type for a comparison, and whether one of them changed.
    fn compared(self) -> (bool, [Expr; N]) {
        let to = self.types.as_ref().and_then(|types| for_comparison(&self.exprs, types));
        self.cast(to)
    }

    /// The expressions in the given type, and whether one of them changed.
    fn cast(self, to: Option<DataType>) -> (bool, [Expr; N]) {
        let (Some(to), Some(types)) = (to, self.types) else { return (false, self.exprs) };
        let mut own = types.iter();
        (true, self.exprs.map(|expr| cast(expr, own.next(), &to)))
    }
}

fn types(exprs: &[Expr], schema: &DFSchema) -> Option<Vec<DataType>> {
    exprs.iter().map(|expr| as_coerced(expr).get_type(schema).ok()).collect()
}

/// A list of expressions in one type for a comparison, and whether one of them changed.
fn listed(exprs: Vec<Expr>, schema: &DFSchema) -> (bool, Vec<Expr>) {
    let own = types(&exprs, schema);
    let to = own.as_ref().and_then(|types| for_comparison(&exprs, types));
    all_cast(exprs, own, to)
}

/// The expressions, of the types `own`, in one type, and whether one of them changed.
fn all_cast(
    exprs: Vec<Expr>,
    own: Option<Vec<DataType>>,
    to: Option<DataType>,
) -> (bool, Vec<Expr>) {
    let (Some(to), Some(own)) = (to, own) else { return (false, exprs) };
    let typed = exprs.into_iter().zip(&own);
    (true, typed.map(|(expr, from)| cast(expr, Some(from), &to)).collect())
}

/// The type in which numbers are compared. It holds all of their digits, unless one is a float.
fn for_comparison(exprs: &[Expr], types: &[DataType]) -> Option<DataType> {
    let has_decimal =
        types.iter().any(DataType::is_decimal) || exprs.iter().any(is_fraction_in_quotes);
    let one = |(expr, data_type): (&Expr, &DataType)| {
        constant(expr, has_decimal).map_or_else(
            || Digits::of_type(data_type),
            |number| Some(Digits::of_number(&number.trimmed().unwrap_or(number))),
        )
    };
    if types.iter().all(|t| t == types.first().unwrap_or(t)) || !has_decimal {
        return None;
    }
    exprs
        .iter()
        .zip(types)
        .map(one)
        .collect::<Option<Vec<_>>>()
        .and_then(|all| Digits::common(&all))
}

/// The type of a result that is chosen from several values. Without a float it is a decimal of at
/// most 38 digits if such a decimal holds all values, and otherwise DOUBLE.
fn for_choice(exprs: &[Expr], types: &[DataType]) -> Option<DataType> {
    if types.iter().all(|t| t == types.first().unwrap_or(t))
        || !types.iter().any(DataType::is_decimal)
    {
        return None;
    }
    let of = |trims: bool| {
        let one = |(expr, data_type): (&Expr, &DataType)| match in_quotes(expr).or(written(expr)) {
            Some(number) if trims => Some(Digits::of_number(&number.trimmed().unwrap_or(number))),
            Some(number) if data_type.is_string() => Some(Digits::of_number(&number)),
            Some(_) | None => Digits::of_type(data_type),
        };
        exprs.iter().zip(types).map(one).collect::<Option<Vec<_>>>()
    };
    let fits = |to: &DataType| !matches!(to, DataType::Decimal256(..));
    let common = |trims| of(trims).and_then(|all| Digits::common(&all));
    let of_all = common(false)?;
    Some(match fits(&of_all) {
        true => of_all,
        false => common(true).filter(fits).unwrap_or(DataType::Float64),
    })
}

/// The number of digits that a type has before and after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Null,
    Double,
    Real,
    Exact { before: i16, after: i16 },
}

impl Digits {
    /// `None` for types that are not numbers.
    fn of_type(data_type: &DataType) -> Option<Self> {
        let whole = |before| Some(Self::Exact { before, after: 0 });
        match data_type {
            DataType::Null => Some(Self::Null),
            DataType::Float64 => Some(Self::Double),
            DataType::Float32 | DataType::Float16 => Some(Self::Real),
            DataType::Int8 | DataType::UInt8 => whole(3),
            DataType::Int16 | DataType::UInt16 => whole(5),
            DataType::Int32 | DataType::UInt32 => whole(10),
            DataType::Int64 | DataType::UInt64 => whole(20),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => Some(Self::Exact {
                before: i16::from(*precision) - i16::from(*scale),
                after: i16::from(*scale).max(0),
            }),
            _ => None,
        }
    }

    fn of_number(number: &DecimalLiteral) -> Self {
        let after = i16::from(number.scale);
        Self::Exact { before: i16::from(number.precision) - after, after }
    }

    /// The narrowest type that holds all of these. `None` if no type does, or if all are NULL.
    fn common(all: &[Self]) -> Option<DataType> {
        if all.contains(&Self::Double) {
            return Some(DataType::Float64);
        }
        if all.contains(&Self::Real) {
            return Some(DataType::Float32);
        }
        let exact = all.iter().filter_map(|digits| match digits {
            Self::Exact { before, after } => Some((*before, *after)),
            Self::Null | Self::Double | Self::Real => None,
        });
        let (before, after) =
            exact.reduce(|(b, a), (before, after)| (b.max(before), a.max(after)))?;
        let precision = u8::try_from((before + after).max(1)).ok()?;
        let scale = i8::try_from(after).ok()?;
        match precision {
            0..=DECIMAL128_MAX_PRECISION => Some(DataType::Decimal128(precision, scale)),
            _ if precision <= DECIMAL256_MAX_PRECISION => {
                Some(DataType::Decimal256(precision, scale))
            }
            _ => None,
        }
    }
}

/// The number of a constant: one with a point, a whole one, or a text beside a decimal.
fn constant(expr: &Expr, has_decimal: bool) -> Option<DecimalLiteral> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(whole)), _) => {
            DecimalLiteral::parse(&whole.to_string())
        }
        Expr::Literal(ScalarValue::UInt64(Some(whole)), _) => {
            DecimalLiteral::parse(&whole.to_string())
        }
        other if has_decimal => in_quotes(other).or(written(other)),
        other => written(other),
    }
}

/// An expression in another type. A literal number is converted from its digits, so that it is
/// rounded only once.
fn cast(expr: Expr, from: Option<&DataType>, to: &DataType) -> Expr {
    if from == Some(to) {
        return expr;
    }
    match in_quotes(&expr).or(written(&expr)) {
        Some(number) => number.cast_to(to),
        None => Expr::Cast(Cast::new(Box::new(expr), to.clone())),
    }
}

/// The operands of a comparison or of arithmetic, in one type.
fn operands(binary: BinaryExpr, below: &Below) -> Transformed<Expr> {
    let schema = &below.schema;
    let BinaryExpr { left, op, right } = binary;
    let (changed, [left, right]) = match compares(op) {
        true => Sides::of([*left, *right], schema).compared(),
        false => calculated(Sides::of([*left, *right], schema), op, below),
    };
    let binary = BinaryExpr::new(left.into(), op, right.into());
    Transformed::new_transformed(Expr::BinaryExpr(binary), changed)
}

/// The operands of arithmetic. With decimals, a quotient or a too long result is DOUBLE.
fn calculated(sides: Sides<2>, op: Operator, below: &Below) -> (bool, [Expr; 2]) {
    let to = match sides.types.as_deref() {
        Some([left, right]) if left.is_decimal() || right.is_decimal() => {
            type_of_result(left, op, right, || sides.exprs.iter().any(|e| below.has_point(e)))
        }
        Some(_) | None => None,
    };
    sides.cast(to)
}

/// The float type in which arithmetic with a decimal is computed. `None` if the result is exact.
fn type_of_result(
    left: &DataType,
    op: Operator,
    right: &DataType,
    has_point: impl Fn() -> bool,
) -> Option<DataType> {
    let (a, b) = (Digits::of_type(left)?, Digits::of_type(right)?);
    // Arrow cuts off a quotient of decimals after four digits.
    if op == Operator::Divide {
        return Some(DataType::Float64);
    }
    match Digits::common(&[a, b]) {
        Some(float) if float.is_floating() => Some(float),
        _ => (!fits(a, op, b) && has_point()).then_some(DataType::Float64),
    }
}

/// True if every result of the operation is a decimal of at most 38 digits.
fn fits(a: Digits, op: Operator, b: Digits) -> bool {
    let (Digits::Exact { before, after }, Digits::Exact { before: more, after: finer }) = (a, b)
    else {
        return true;
    };
    let digits = match op {
        Operator::Divide => return false,
        Operator::Plus | Operator::Minus => before.max(more) + after.max(finer) + 1,
        Operator::Multiply => before + after + more + finer + 1,
        Operator::Modulo => before.max(more) + after.max(finer),
        Operator::Eq
        | Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::And
        | Operator::Or
        | Operator::IsDistinctFrom
        | Operator::IsNotDistinctFrom
        | Operator::RegexMatch
        | Operator::RegexIMatch
        | Operator::RegexNotMatch
        | Operator::RegexNotIMatch
        | Operator::LikeMatch
        | Operator::ILikeMatch
        | Operator::NotLikeMatch
        | Operator::NotILikeMatch
        | Operator::BitwiseAnd
        | Operator::BitwiseOr
        | Operator::BitwiseXor
        | Operator::BitwiseShiftRight
        | Operator::BitwiseShiftLeft
        | Operator::StringConcat
        | Operator::AtArrow
        | Operator::ArrowAt
        | Operator::Arrow
        | Operator::LongArrow
        | Operator::HashArrow
        | Operator::HashLongArrow
        | Operator::AtAt
        | Operator::IntegerDivide
        | Operator::HashMinus
        | Operator::AtQuestion
        | Operator::Question
        | Operator::QuestionAnd
        | Operator::QuestionPipe
        | Operator::Colon => return true,
    };
    digits <= i16::from(DECIMAL128_MAX_PRECISION)
}

/// True if an aggregate of decimals counts them, adds them up or picks one of them.
fn keeps_decimals(function: &AggregateUDF) -> bool {
    /// Other aggregates divide.
    const KEEPING: [&str; 9] = [
        "count",
        "sum",
        "min",
        "max",
        "any_value",
        "array_agg",
        "first_value",
        "last_value",
        "nth_value",
    ];
    match marker_divides(function) {
        Some(divides) => !divides,
        None => KEEPING.contains(&function.name()),
    }
}

/// The arguments of an aggregate that divides: DOUBLE if a number with a point takes part.
fn averaged(args: Vec<Expr>, below: &Below) -> (bool, Vec<Expr>) {
    let mut changed = false;
    let args = args.into_iter().map(|arg| {
        let own = arg.get_type(&below.schema).ok();
        if !own.as_ref().is_some_and(DataType::is_decimal) || !below.has_point(&arg) {
            return arg;
        }
        changed = true;
        cast(arg, own.as_ref(), &DataType::Float64)
    });
    let args = args.collect();
    (changed, args)
}

/// CASE with one type for the values that it compares, and one for those that it returns.
fn chosen(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (whens, thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let (compares, base, whens) = match expr {
        None => (false, None, whens),
        Some(base) => {
            let mut all = vec![*base];
            all.extend(whens);
            let (changed, mut all) = listed(all, schema);
            let base = all.remove(0);
            (changed, Some(Box::new(base)), all)
        }
    };
    let mut results = thens;
    let has_else = else_expr.is_some();
    results.extend(else_expr.map(|otherwise| *otherwise));
    let own = types(&results, schema);
    let to = own.as_ref().and_then(|types| for_choice(&results, types));
    let (chooses, mut results) = all_cast(results, own, to);
    let otherwise = if has_else { results.pop().map(Box::new) } else { None };
    let branches = whens.into_iter().map(Box::new).zip(results.into_iter().map(Box::new));
    let case = Case::new(base, branches.collect(), otherwise);
    Transformed::new_transformed(Expr::Case(case), compares || chooses)
}

/// A call with one type for its arguments, if it returns one of them or compares them.
fn called(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let ScalarFunction { func, args } = call;
    let own = types(&args, schema);
    let to = own.as_ref().and_then(|own| match func.name() {
        "coalesce" | "nvl" | "greatest" | "least" => for_choice(&args, own),
        "nullif" => for_comparison(&args, own).map(|to| match to {
            DataType::Decimal256(..) => DataType::Float64,
            other => other,
        }),
        "ceil" | "floor" => room_for_carry(args.first()?, own.first()?, schema),
        _ if is_clamp(&func) && own.iter().any(DataType::is_decimal) => {
            own.first().map(|x| match x {
                DataType::Decimal128(..) => with_room_for(x, &args, own),
                DataType::Float32 => x.clone(),
                _ => DataType::Float64,
            })
        }
        _ => None,
    });
    let (changed, args) = all_cast(args, own, to);
    let call = Expr::ScalarFunction(ScalarFunction { func, args });
    Transformed::new_transformed(call, changed)
}

/// The type of a decimal between bounds: its own if the bounds are values of it, otherwise one with
/// their digits.
fn with_room_for(x: &DataType, args: &[Expr], own: &[DataType]) -> DataType {
    match for_comparison(args, own) {
        Some(to @ DataType::Decimal128(..)) => to,
        Some(_) => DataType::Float64,
        None => x.clone(),
    }
}

/// A type with one more digit, in which every decimal of this type has a ceiling and a floor: 99.99
/// has four digits, and its ceiling has five. `None` for other numbers, and for an argument that
/// already has the digit.
fn room_for_carry(x: &Expr, of: &DataType, schema: &DFSchema) -> Option<DataType> {
    let DataType::Decimal128(precision, scale) = of else { return None };
    let has_room = if let Expr::Cast(cast) = x {
        cast.expr.get_type(schema).ok()?
            == DataType::Decimal128(precision.saturating_sub(1), *scale)
    } else {
        false
    };
    (*scale > 0 && *precision < DECIMAL128_MAX_PRECISION && !has_room)
        .then(|| DataType::Decimal128(precision + 1, *scale))
}

/// A value and the rows of the subquery with which it is compared, in one type.
fn with_query(expr: Expr, subquery: Subquery, schema: &DFSchema) -> Result<(bool, Expr, Subquery)> {
    let own = expr.get_type(schema).ok().zip(subquery.subquery.schema().fields().first().cloned());
    let to = own.as_ref().and_then(|(own, field)| {
        let other = Expr::Literal(ScalarValue::Null, None);
        for_comparison(&[expr.clone(), other], &[own.clone(), field.data_type().clone()])
    });
    let (Some(to), Some((from, _))) = (to, own) else { return Ok((false, expr, subquery)) };
    let rows = with_types(Arc::clone(&subquery.subquery), &[Some(to.clone())])?;
    Ok((true, cast(expr, Some(&from), &to), subquery.with_plan(rows)))
}

/// The rows of a plan in the given types, under their own names. A `None` leaves a type as it is.
fn with_types(plan: Arc<LogicalPlan>, types: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(plan.schema());
    let own = schema.iter().zip(schema.columns()).zip(types);
    let columns: Vec<Expr> = own
        .map(|(((qualifier, field), column), to)| match to {
            Some(to) if to != field.data_type() => {
                let value = Expr::Cast(Cast::new(Box::new(Expr::Column(column)), to.clone()));
                value.alias_qualified(qualifier.cloned(), field.name())
            }
            Some(_) | None => Expr::Column(column),
        })
        .collect();
    if columns.iter().all(|column| matches!(column, Expr::Column(_))) {
        return Ok(plan);
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, plan)?)))
}

/// A join whose keys have one type.
fn joined(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut any = false;
    for (left, right) in &mut join.on {
        let own = left.get_type(join.left.schema()).ok();
        let own = own.zip(right.get_type(join.right.schema()).ok());
        let Some((l, r)) = own else { continue };
        if let Some(to) = for_comparison(&[left.clone(), right.clone()], &[l.clone(), r.clone()]) {
            *left = cast(std::mem::take(left), Some(&l), &to);
            *right = cast(std::mem::take(right), Some(&r), &to);
            any = true;
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), any))
}

/// A union whose branches have one type for each column.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let Union { inputs, schema } = union;
    let width = schema.fields().len();
    let of_column = |i: usize| {
        let types: Vec<DataType> = inputs
            .iter()
            .filter_map(|input| Some(input.schema().fields().get(i)?.data_type().clone()))
            .collect();
        let nothing = vec![Expr::Literal(ScalarValue::Null, None); types.len()];
        for_choice(&nothing, &types)
    };
    let types: Vec<Option<DataType>> = (0..width).map(of_column).collect();
    if types.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(Union { inputs, schema })));
    }
    let inputs = inputs.into_iter().map(|input| with_types(input, &types));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let fields = schema.iter().zip(&types).map(|((qualifier, field), to)| {
        let field = match to {
            Some(to) => Arc::new(field.as_ref().clone().with_data_type(to.clone())),
            None => Arc::clone(field),
        };
        (qualifier.cloned(), field)
    });
    let typed = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?;
    let union = Union { inputs, schema: Arc::new(typed) };
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use num_bigint::BigInt;

    use super::*;
    use crate::engine::{Engine, Session};

    /// A number of units of 10^−scale, as SQL writes it.
    fn text(units: &BigInt, scale: u32) -> String {
        let digits = units.magnitude().to_string();
        let width = usize::try_from(scale).unwrap() + 1;
        let padded = format!("{}{digits}", "0".repeat(width.saturating_sub(digits.len())));
        let (whole, fraction) = padded.split_at(padded.len() + 1 - width);
        let sign = if units.sign() == num_bigint::Sign::Minus { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }

    /// The numbers of the rows on which conditions on `m` hold.
    async fn counts(
        session: &Session,
        precision: u32,
        scale: u32,
        rows: &[BigInt],
        conditions: &[String],
    ) -> Vec<i64> {
        let rows: Vec<String> = rows.iter().map(|v| format!("('{}')", text(v, scale))).collect();
        let counted: Vec<String> = conditions
            .iter()
            .enumerate()
            .map(|(i, condition)| format!("COUNT(*) FILTER (WHERE {condition}) AS c{i}"))
            .collect();
        let query = format!(
            "SELECT {} FROM (SELECT CAST(x AS DECIMAL({precision}, {scale})) AS m FROM (VALUES {}) AS v(x)) AS t",
            counted.join(", "),
            rows.join(", ")
        );
        let answer = session.query(&query).await.unwrap();
        let batch = &answer.batches()[0];
        batch.columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect()
    }

    /// Every width and some scales of decimals, compared with integers.
    #[tokio::test]
    async fn comparisons_with_numbers_with_a_point_are_exact() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        let ten = BigInt::from(10);
        for precision in 1..=38_u32 {
            for scale in [0, precision / 2, precision] {
                let end: BigInt = ten.pow(precision) - 1;
                let mut rows = vec![BigInt::from(0), BigInt::from(1), end.clone(), -end.clone()];
                rows.extend((1..precision).map(|digits| -> BigInt { ten.pow(digits) + 7 }));
                rows.retain(|row| row <= &end);
                let (mut conditions, mut expected) = (Vec::new(), Vec::new());
                // One place more than the column has, so that some numbers lie between its values.
                for literal in
                    rows.iter().step_by(3).flat_map(|row| [-3, 0, 5].map(|off| row * 10 + off))
                {
                    let number = text(&literal, scale + 1);
                    if DecimalLiteral::parse(&number).is_none() {
                        continue;
                    }
                    let count = |holds: &dyn Fn(&BigInt) -> bool| {
                        i64::try_from(rows.iter().filter(|row| holds(&(*row * 10))).count())
                            .unwrap()
                    };
                    conditions.push(format!("m = {number}"));
                    expected.push(count(&|row| row == &literal));
                    conditions.push(format!("{number} > m"));
                    expected.push(count(&|row| row < &literal));
                    conditions.push(format!("m NOT IN (0.25, {number})"));
                    let quarter: BigInt = BigInt::from(25) * ten.pow(scale + 1);
                    expected.push(count(&|row| row != &literal && row * 100 != quarter));
                    conditions.push(format!("m BETWEEN 0 AND {number}"));
                    expected.push(count(&|row| row >= &BigInt::from(0) && row <= &literal));
                }
                let found = counts(&session, precision, scale, &rows, &conditions).await;
                for ((found, expected), condition) in found.iter().zip(&expected).zip(&conditions) {
                    assert_eq!(found, expected, "DECIMAL({precision}, {scale}): {condition}");
                }
            }
        }
    }

    #[test]
    fn the_common_type_holds_all_digits() {
        use DataType::{Decimal128, Decimal256, Float32, Float64, Int64, Null, Utf8};
        let common = |types: &[DataType]| {
            let digits = types.iter().map(Digits::of_type).collect::<Option<Vec<_>>>();
            digits.and_then(|digits| Digits::common(&digits))
        };
        for (types, expected) in [
            (vec![Decimal128(4, 2), Decimal128(10, 3)], Some(Decimal128(10, 3))),
            (vec![Decimal128(4, 2), Int64], Some(Decimal128(22, 2))),
            (vec![Decimal128(38, 2), Decimal128(38, 18)], Some(Decimal256(54, 18))),
            (vec![Decimal128(38, 0), Decimal128(38, 38)], Some(Decimal256(76, 38))),
            (vec![Decimal128(4, 2), Float32], Some(Float32)),
            (vec![Decimal128(4, 2), Float32, Float64], Some(Float64)),
            (vec![Decimal128(4, 2), Null], Some(Decimal128(4, 2))),
            (vec![Decimal128(4, 2), Utf8], None),
            (vec![Decimal128(4, 2), DataType::Date32], None),
        ] {
            assert_eq!(common(&types), expected, "{types:?}");
        }
    }
}
