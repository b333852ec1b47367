//! The scan of a private table: enforces the declarations of the catalog on its columns, row by
//! row.
//!
//! In: a table's declaration. Out: for each column, an expression whose values always lie in the
//! declared domain, for any contents of the file, and the facts that follow. Numbers out of range
//! are clamped. Texts that are not listed become NULL, NaN becomes NULL, and −0.0 becomes 0.0.
//! Values on which kernels fail become NULL: dates beyond the years that date functions can handle,
//! decimals with too many digits, and texts of more than 64 KiB. WHERE and all other expressions
//! only see these values.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{HashSet, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, TryCast};
use datafusion::logical_expr::{Expr, Operator};

use super::facts::{Facts, KeySource, is_discrete, rational};
use super::interval::Interval;
use super::shape::{is_time, unit_of};
use crate::catalog::Domain;
use crate::functions::{
    LAST_MICROSECOND, MOST_OF_A_CELL, YEARS, clamp, ends_of_sound, has_ends, is_sound, only_listed,
    prunes, snap, sound, temporal_limits, without_nan, without_offset,
};
use crate::privacy::{Rational, decimal_text};
use crate::sql_type::sql_type;
use crate::ticks::Ticks;

/// Why a declared domain does not fit its column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DomainError(String);

/// A column as the scan of its private table returns it.
///
/// # Guarantee
/// For every value that the column's type can hold, the expression's value is NULL or lies in the
/// domain. The facts claim no more than that.
///
/// # Errors
/// [`DomainError`] if the domain's literals are not values of the column's type.
pub(crate) fn enforced(
    column: Expr,
    data_type: &DataType,
    domain: Option<&Domain>,
) -> Result<(Expr, Facts), DomainError> {
    let column = without_nan(column, data_type);
    // Clamped and listed values are sound. Dates and times are not, because an invalid one must
    // become NULL instead of an end of the range.
    let column = match domain {
        Some(_) if !has_ends(data_type) => column,
        Some(_) | None => sound(column, data_type),
    };
    match domain {
        None => Ok((column, Facts::of_type(data_type))),
        Some(Domain::In(values)) => listed(column, data_type, values),
        Some(Domain::Between { lo, hi, step, or_null }) => {
            let (column, facts) = match step {
                None => between(column, data_type, lo, hi),
                Some(step) => stepped(column, data_type, lo, hi, step),
            }?;
            Ok((column, Facts { null_key: *or_null, ..facts }))
        }
    }
}

fn only_when(condition: Expr, value: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(value))], None))
}

/// A declared literal as a value of the column's type.
///
/// # Errors
/// [`DomainError`] if the text is not a value of that type, or if the type cannot hold it exactly.
pub fn typed(text: &str, data_type: &DataType) -> Result<ScalarValue, DomainError> {
    let wrong = || DomainError(format!("'{text}' is not a value of type {}", sql_type(data_type)));
    let text_value = |of: fn(Option<String>) -> ScalarValue| Ok(of(Some(text.to_owned())));
    let value = match data_type {
        // Texts need no array of one row. A long list would make thousands of such arrays.
        DataType::Utf8 => return text_value(ScalarValue::Utf8),
        DataType::LargeUtf8 => return text_value(ScalarValue::LargeUtf8),
        DataType::Utf8View => return text_value(ScalarValue::Utf8View),
        moment if temporal_limits(moment).is_some() => {
            let text = without_offset(text).into_owned();
            ScalarValue::try_from_string(text, data_type).map_err(|_| wrong())?
        }
        _ => ScalarValue::try_from_string(text.to_owned(), data_type).map_err(|_| wrong())?,
    };
    if value.is_null() {
        return Err(wrong());
    }
    // A leap second is behind the last second of a day.
    if matches!(value, ScalarValue::Time64Microsecond(Some(time)) if time > LAST_MICROSECOND) {
        return Err(wrong());
    }
    if let (Some((first, last)), Some(point)) = (temporal_limits(data_type), rational(&value))
        && !Interval::integer_range(first, last).contains(&point)
    {
        return Err(DomainError(format!("'{text}' lies outside of {YEARS}")));
    }
    match &value {
        ScalarValue::Float64(Some(v)) if !v.is_finite() => Err(wrong()),
        ScalarValue::Float32(Some(v)) if !v.is_finite() => Err(wrong()),
        ScalarValue::Float64(Some(v)) => Ok(ScalarValue::Float64(Some(v + 0.0))),
        ScalarValue::Float32(Some(v)) => Ok(ScalarValue::Float32(Some(v + 0.0))),
        // A decimal type with fewer places than the literal would silently round it.
        ScalarValue::Decimal128(..) => match crate::privacy::parse_decimal(text) {
            Some(exact) if rational(&value).as_ref() != Some(&exact) => Err(wrong()),
            _ => Ok(value),
        },
        _ => Ok(value),
    }
}

fn listed(
    column: Expr,
    data_type: &DataType,
    values: &[Option<String>],
) -> Result<(Expr, Facts), DomainError> {
    let mut keys = Vec::new();
    let mut seen = HashSet::with_capacity(values.len());
    for value in values {
        let key = match value {
            Some(text) => typed(text, data_type)?,
            None => null_of(data_type)?,
        };
        if !seen.insert(key.clone()) {
            return Err(DomainError(format!("the value {key} is listed twice")));
        }
        keys.push(key);
    }
    let members: Vec<ScalarValue> = keys.iter().filter(|k| !k.is_null()).cloned().collect();
    let mut facts = Facts::of_type(data_type);
    if members.iter().filter_map(|k| k.try_as_str().flatten()).any(|t| t.len() > MOST_OF_A_CELL) {
        return Err(DomainError(format!("a listed text has at most {MOST_OF_A_CELL} bytes")));
    }
    if members.is_empty() {
        return Err(DomainError("the domain holds no value but NULL".to_owned()));
    }
    if let Some(points) =
        keys.iter().filter(|k| !k.is_null()).map(rational).collect::<Option<Vec<_>>>()
    {
        let hull = points
            .into_iter()
            .fold(Interval::empty(), |hull, point| hull.union(&Interval::point(point)));
        facts = Facts::ranged(hull, true);
    }
    facts.null_key = keys.iter().any(ScalarValue::is_null);
    facts.keys = Some(KeySource::Values(Arc::new(keys)));
    if let Some(listed) = only_listed(column.clone(), &members) {
        return Ok((listed, facts));
    }
    let members = members.into_iter().map(|k| Expr::Literal(k, None)).collect();
    let member = Expr::InList(InList::new(Box::new(column.clone()), members, false));
    Ok((only_when(member, column), facts))
}

fn null_of(data_type: &DataType) -> Result<ScalarValue, DomainError> {
    ScalarValue::try_new_null(data_type)
        .map_err(|_| DomainError(format!("the type {} has no NULL", sql_type(data_type))))
}

/// The ends of a range, in order.
fn ends(
    data_type: &DataType,
    lo: &str,
    hi: &str,
) -> Result<(ScalarValue, ScalarValue), DomainError> {
    let (low, high) = (typed(lo, data_type)?, typed(hi, data_type)?);
    match (rational(&low), rational(&high)) {
        (Some(a), Some(b)) if a <= b => Ok((low, high)),
        (Some(_), Some(_)) => Err(DomainError(format!("the bounds {lo} and {hi} are reversed"))),
        _ => Err(DomainError(format!(
            "a column of type {} has no range; list its values",
            sql_type(data_type)
        ))),
    }
}

fn between(
    column: Expr,
    data_type: &DataType,
    lo: &str,
    hi: &str,
) -> Result<(Expr, Facts), DomainError> {
    let (low, high) = ends(data_type, lo, hi)?;
    let range = match (rational(&low), rational(&high)) {
        (Some(a), Some(b)) => Interval::between(a, b),
        _ => Interval::everything(),
    };
    let mut facts = Facts::ranged(range, true);
    let is_key = data_type.is_integer() || *data_type == DataType::Date32;
    if is_key && let Some((first, last)) = facts.range.to_i128() {
        facts.keys = i64::try_from(first)
            .ok()
            .zip(i64::try_from(last).ok())
            .map(|(first, last)| KeySource::Integers(first, last));
    }
    Ok((clamp(column, low, high), facts))
}

fn stepped(
    column: Expr,
    data_type: &DataType,
    lo: &str,
    hi: &str,
    step: &str,
) -> Result<(Expr, Facts), DomainError> {
    let is_number = data_type.is_integer() && is_discrete(data_type);
    let scale = match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    };
    if !is_number && scale.is_none() && *data_type != DataType::Float64 {
        let instead = match is_time(data_type) {
            true => ": EXTRACT(HOUR FROM x) in a query has keys of its own",
            false => "",
        };
        return Err(DomainError(format!(
            "STEP is for integers, DECIMAL and DOUBLE, not for {}{instead}",
            sql_type(data_type)
        )));
    }
    let exact = |text: &str| {
        crate::privacy::parse_decimal(text)
            .ok_or_else(|| DomainError(format!("'{text}' is not a number")))
    };
    let (low, high, width) = (exact(lo)?, exact(hi)?, exact(step)?);
    if width <= Rational::from_integer(0.into()) || low > high {
        return Err(DomainError("STEP must be positive, and the bounds in order".to_owned()));
    }
    if is_number && !(low.is_integer() && width.is_integer()) {
        return Err(DomainError("an integer column steps by whole numbers".to_owned()));
    }
    let unit = unit_of(data_type);
    if scale.is_some() && ![&low, &width].iter().all(|end| (*end / &unit).is_integer()) {
        return Err(DomainError(format!(
            "a column of type {} steps by multiples of {}",
            sql_type(data_type),
            decimal_text(&unit, 38)
        )));
    }
    let ticks = match scale {
        Some(scale) => Ticks::of_scale(&low, &high, &width, scale),
        None => Ticks::decimal(&low, &high, &width),
    };
    let ticks = ticks
        .ok_or_else(|| DomainError("the domain has too many ticks, or too fine ones".to_owned()))?;
    let (low_value, high_value) = ends(data_type, lo, hi)?;
    let clamped = clamp(column, low_value, high_value);
    if scale.is_some() {
        let end = |i: u64| Rational::from_integer(ticks.unit(i).into()) * &unit;
        let range = Interval::between(end(0), end(ticks.count() - 1));
        let facts = Facts { keys: Some(KeySource::Ticks(ticks)), ..Facts::ranged(range, true) };
        return Ok((snap(clamped, ticks), facts));
    }
    let as_float = Expr::TryCast(TryCast::new(Box::new(clamped), DataType::Float64));
    let snapped = snap(as_float, ticks);
    let range = Interval::from_f64_bounds(ticks.float(0), ticks.float(ticks.count() - 1));
    let mut facts = Facts::ranged(range.round_outward_f64(), true);
    facts.keys = Some(KeySource::Ticks(ticks));
    let expr = if is_number {
        Expr::TryCast(TryCast::new(Box::new(snapped), data_type.clone()))
    } else {
        snapped
    };
    Ok((expr, facts))
}

/// How an enforced column differs from the column of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Some values become NULL, and all others stay as they are. With a list of texts or integers,
    /// all values outside the list become NULL.
    Nulls(Option<Arc<Vec<ScalarValue>>>),
    /// Values beyond the ends become the ends.
    Clamp(ScalarValue, ScalarValue),
}

/// The comparison of the file's column that is equivalent to a comparison of the enforced column
/// with a literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SameOfRaw {
    /// The literal of this comparison.
    pub(crate) literal: ScalarValue,
    /// A second comparison, at the open end of the first. It drops the values beyond that end,
    /// because they become NULL. Any other check that drops them can replace it.
    pub(crate) beyond: Option<(Operator, ScalarValue)>,
}

impl Change {
    /// The change that [`enforced`] makes to a column; `None` if neither kind describes it.
    pub(crate) fn for_domain(
        data_type: &DataType,
        domain: Option<&Domain>,
        keys: &Facts,
    ) -> Option<Self> {
        match domain {
            None => {
                let some_become_null = !is_sound(data_type) || ends_of_sound(data_type).is_some();
                some_become_null.then_some(Self::Nulls(None))
            }
            Some(Domain::In(_)) => match &keys.keys {
                Some(KeySource::Values(values))
                    if data_type.is_integer() || data_type.is_string() =>
                {
                    Some(Self::Nulls(Some(Arc::clone(values))))
                }
                Some(KeySource::Values(_) | KeySource::Integers(..) | KeySource::Ticks(_))
                | None => None,
            },
            Some(Domain::Between { lo, hi, step: None, .. }) => {
                let (low, high) = ends(data_type, lo, hi).ok()?;
                Some(Self::Clamp(low, high))
            }
            Some(Domain::Between { step: Some(_), .. }) => None,
        }
    }

    /// True if `column op literal` implies the same comparison of the file's value. A scan can then
    /// prune files by it.
    ///
    /// # Guarantee
    /// If true: on every row where the comparison holds for the enforced column, it holds for the
    /// file's column.
    pub(crate) fn keeps(&self, op: Operator, literal: &ScalarValue) -> bool {
        // Comparisons of other types prune nothing, so they would only be computed twice.
        prunes(&literal.data_type()) && self.implies(op, literal)
    }

    /// The comparisons of the file's value that together are equivalent to `column op literal` on
    /// the enforced column.
    ///
    /// # Guarantee
    /// On every row, the comparison of the enforced value is true if and only if all of these are
    /// true.
    pub(crate) fn same(&self, op: Operator, literal: &ScalarValue) -> Option<SameOfRaw> {
        if op == Operator::Eq {
            let listed = self.lists(std::slice::from_ref(literal));
            return listed.then(|| SameOfRaw { literal: literal.clone(), beyond: None });
        }
        let in_order = match self {
            Self::Nulls(None) => true,
            Self::Nulls(Some(_)) => false,
            Self::Clamp(..) => self.implies(op, literal) && self.implies(op.negate()?, literal),
        };
        if !in_order || !stays(literal) {
            return None;
        }
        let data_type = literal.data_type();
        let decimal = matches!(data_type, DataType::Decimal128(..));
        let all_stay = data_type.is_integer() || decimal && matches!(self, Self::Clamp(..));
        let ends = if all_stay { None } else { Some(ends_of_sound(&data_type)?) };
        let beyond = match op {
            Operator::Lt | Operator::LtEq => ends.map(|(first, _)| (Operator::GtEq, first)),
            Operator::Gt | Operator::GtEq => ends.map(|(_, last)| (Operator::LtEq, last)),
            _ => return None,
        };
        // A comparison on the enforced column treats both zeros as equal. In the file, −0.0 sorts
        // before 0.0.
        let literal = match (literal, matches!(op, Operator::Lt | Operator::GtEq)) {
            (ScalarValue::Float32(Some(0.0)), true) => ScalarValue::Float32(Some(-0.0)),
            (ScalarValue::Float32(Some(0.0)), false) => ScalarValue::Float32(Some(0.0)),
            (ScalarValue::Float64(Some(0.0)), true) => ScalarValue::Float64(Some(-0.0)),
            (ScalarValue::Float64(Some(0.0)), false) => ScalarValue::Float64(Some(0.0)),
            (other, _) => other.clone(),
        };
        Some(SameOfRaw { literal, beyond })
    }

    /// True if "is equal to one of these literals" holds for the enforced column exactly where it
    /// holds for the file's column.
    ///
    /// # Guarantee
    /// If true: on every row, both hold or neither does.
    pub(crate) fn lists(&self, literals: &[ScalarValue]) -> bool {
        // The file may contain either zero.
        let one = |literal: &ScalarValue| match literal {
            ScalarValue::Float32(v) => v.is_some_and(|v| v != 0.0),
            ScalarValue::Float64(v) => v.is_some_and(|v| v != 0.0),
            _ => true,
        };
        match self {
            // A value that is not listed equals no listed one.
            Self::Nulls(Some(values)) => {
                if let [one] = literals {
                    return !one.is_null() && values.contains(one);
                }
                let asked: HashSet<&ScalarValue> = literals.iter().collect();
                let listed = values.iter().filter(|v| !v.is_null() && asked.contains(v)).count();
                listed == asked.len()
            }
            Self::Nulls(None) => literals.iter().all(|literal| stays(literal) && one(literal)),
            Self::Clamp(..) => literals.iter().all(|literal| {
                self.implies(Operator::Eq, literal) && stays(literal) && one(literal)
            }),
        }
    }

    fn implies(&self, op: Operator, literal: &ScalarValue) -> bool {
        let compares = matches!(
            op,
            Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        match self {
            Self::Nulls(_) => compares && !literal.is_null(),
            Self::Clamp(lo, hi) => match (rational(lo), rational(literal), rational(hi)) {
                (Some(lo), Some(v), Some(hi)) => match op {
                    Operator::Eq => lo < v && v < hi,
                    Operator::Gt => lo <= v,
                    Operator::GtEq => lo < v,
                    Operator::Lt => v <= hi,
                    Operator::LtEq => v < hi,
                    _ => false,
                },
                _ => false,
            },
        }
    }
}

/// True if a literal is a value that an enforced column can have.
fn stays(literal: &ScalarValue) -> bool {
    let data_type = literal.data_type();
    match (rational(literal), ends_of_sound(&data_type)) {
        (Some(v), Some((first, last))) => {
            rational(&first).is_none_or(|first| first <= v)
                && rational(&last).is_none_or(|last| v <= last)
        }
        (Some(_), None) => data_type.is_integer(),
        (None, _) => {
            data_type.is_string()
                && literal.try_as_str().flatten().is_some_and(|text| text.len() <= MOST_OF_A_CELL)
        }
    }
}

/// `column IS NOT NULL`: the scan drops the rows that belong to no privacy unit.
pub(crate) fn is_someone(unit: Expr) -> Expr {
    Expr::IsNotNull(Box::new(unit))
}
