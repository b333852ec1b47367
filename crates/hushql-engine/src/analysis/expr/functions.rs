//! Scalar functions below a release: the ones that never fail, and the facts about their results.
//!
//! In: a call whose arguments are total. Out: its [`Facts`], or a refusal. The attack prevented: a
//! function that fails only on one person's value.

use std::sync::Arc;

use arrow::array::{AsArray, Date32Array};
use arrow::compute::DatePart;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ScalarUDF, Volatility};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::date_arithmetic::{moved_several_times, periods};
use super::facts::{Facts, KeySource, Scope, constant, rational, type_range};
use super::image::with_image;
use super::in_other_functions::in_other_functions;
use super::interval::Interval;
use super::looked_up::looked_up;
use super::magnitude::magnitude;
use super::periods::{bins, declared, first_and_last, labels, seconds, starts, undeclared};
use super::rounding::{bucket, rounded};
use super::times_of_day::time_part;
use crate::analysis::expr::interval_ends::below_release;
use crate::analysis::expr::shape::{
    MakeTotal, Total, castable, is_string, is_temporal, is_time, not_allowed, partial, readable,
    type_of, union,
};
use crate::functions::{
    Classes, LabelFormat, Stride, checked_abs, interval_end, is_clamp, is_date_bin, is_date_diff,
    is_date_label, is_date_trunc, is_histogram, is_late_value, is_magnitude, is_moved_times,
    is_width_bucket, is_without_offset, ticks_a_day,
};
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};

/// Checks a call against the list of total functions. `total` makes its arguments total. Functions
/// that take moments outside the calendar use `exact` instead.
pub(crate) fn function(
    call: &ScalarFunction,
    whole: &Expr,
    scope: &Scope,
    (total, exact): (MakeTotal, MakeTotal),
) -> Result<Total, Refusal> {
    if is_late_value(&call.func) {
        // The value is released before the rows are read. It is the same for every row, and nothing
        // else is known about it.
        return Ok(Total { expr: whole.clone(), facts: unknown(whole, scope)? });
    }
    if is_magnitude(&call.func) {
        return magnitude(call, whole, scope, total);
    }
    if interval_end(&call.func).is_some() {
        return Err(below_release(whole));
    }
    if call.func.signature().volatility != Volatility::Immutable {
        return Err(Refusal::new(
            Reason::Volatile,
            readable(whole),
            format!("{} changes from call to call or from day to day", call.func.name()),
            "a literal in its place",
        ));
    }
    if is_histogram(&call.func) {
        return classed(call, whole, scope, total);
    }
    if is_date_bin(&call.func) {
        return binned(call, whole, scope, total);
    }
    if is_moved_times(&call.func) {
        let moved = moved_several_times(call, whole, scope, total)?;
        return moved.ok_or_else(|| not_allowed(whole, "an interval is multiplied by a number"));
    }
    if let Some(same) = in_other_functions(call, scope)? {
        return total(&same, scope);
    }
    let argument = if takes_exact_moments(&call.func) { exact } else { total };
    let args = call.args.iter().map(|e| argument(e, scope)).collect::<Result<Vec<_>, _>>()?;
    // Without this check, kernels would have to handle a type that has no values.
    if let [x] = call.args.as_slice()
        && type_of(x, &scope.schema)? == DataType::Null
    {
        return Err(partial(
            whole,
            format!("{} of a NULL that has no type", call.func.name()),
            "CAST(NULL AS DOUBLE), or NULL in place of it",
        ));
    }
    if let Some(rounded) = rounded(call, &args, whole, scope)? {
        return Ok(with_image(rounded, scope));
    }
    if let Some(case) = looked_up(call, &args, whole, scope)? {
        return total(&case, scope);
    }
    let facts = known_of(call, &args, whole, scope)?;
    let result = type_of(whole, &scope.schema)?;
    let args: Vec<Expr> = args.into_iter().map(|a| a.expr).collect();
    let exact = result.is_integer() || result.is_decimal();
    let expr = match (call.func.name(), args.as_slice()) {
        // Whatever its argument's facts say: the least integer has no absolute value.
        ("abs", [x]) if exact => checked_abs(x.clone(), &result),
        _ => Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args }),
    };
    Ok(with_image(Total { expr, facts }, scope))
}

/// True if a function passes its arguments on, compares them or counts with them, so that they may
/// be moments outside the calendar.
pub(super) fn takes_exact_moments(function: &ScalarUDF) -> bool {
    matches!(function.name(), "coalesce" | "nullif" | "least" | "greatest" | "date_part")
        || is_date_diff(function)
}

/// The facts about the result of a function that never fails, by its name and its arguments.
fn known_of(
    call: &ScalarFunction,
    args: &[Total],
    whole: &Expr,
    scope: &Scope,
) -> Result<Facts, Refusal> {
    let whole_number = |i: usize, least: i64| match args.get(i).map(|a| &a.expr) {
        Some(Expr::Literal(value, _)) => rational(value).is_some_and(|v| {
            let fits = Interval::integer_range(least, 1_i64 << 31);
            v.is_integer() && fits.contains(&v)
        }),
        _ => false,
    };
    let literal_text = |i: usize| matches!(args.get(i).map(|a| &a.expr), Some(Expr::Literal(v, _)) if v.try_as_str().flatten().is_some());
    Ok(match (call.func.name(), args) {
        ("clamp", [x, lo, hi]) if is_clamp(&call.func) => clamped(&x.facts, lo, hi, whole)?,
        ("least", [_, ..]) => extreme(args, Interval::least),
        ("greatest", [_, ..]) => extreme(args, Interval::greatest),
        ("coalesce", [_, ..]) => {
            let parts: Vec<_> = args.iter().map(|a| a.facts.clone()).collect();
            let nullable = parts.iter().all(|f| f.nullable);
            let mut facts = Facts { nullable, ..union(&parts) };
            if let (false, Some(KeySource::Values(values))) = (nullable, &mut facts.keys) {
                let present = values.iter().filter(|value| !value.is_null()).cloned();
                *values = Arc::new(present.collect());
            }
            facts
        }
        ("nullif", [x, _]) => {
            Facts { nullable: true, keys: None, is_unit: false, ..x.facts.clone() }
        }
        ("abs", [x]) => absolute(x, whole, scope)?,
        ("signum", [_]) => Facts::ranged(Interval::integer_range(-1, 1), true),
        ("floor", [x]) => whole_numbers(mapped(&x.facts, Interval::floor), whole, scope)?,
        ("ceil", [x]) => whole_numbers(mapped(&x.facts, Interval::ceil), whole, scope)?,
        ("round", [x]) => whole_numbers(mapped(&x.facts, Interval::round), whole, scope)?,
        ("trunc", [x]) => whole_numbers(mapped(&x.facts, Interval::trunc), whole, scope)?,
        ("lower" | "upper" | "btrim" | "ltrim" | "rtrim" | "reverse", [_]) => {
            unknown(whole, scope)?
        }
        ("btrim" | "ltrim" | "rtrim", [_, _]) if literal_text(1) => unknown(whole, scope)?,
        ("character_length" | "octet_length" | "bit_length" | "ascii", [_])
        | ("starts_with" | "ends_with" | "contains" | "strpos", [_, _]) => unknown(whole, scope)?,
        ("concat", [_, ..]) | ("concat_ws", [_, _, ..]) if all_texts(args, whole, scope)? => {
            unknown(whole, scope)?
        }
        ("replace", [_, _, _]) if literal_text(1) && literal_text(2) => unknown(whole, scope)?,
        ("split_part", [_, _, _]) if literal_text(1) && whole_number(2, 1) => {
            unknown(whole, scope)?
        }
        ("left" | "right", [_, _]) if whole_number(1, 0) => unknown(whole, scope)?,
        ("substr", [_, _]) if whole_number(1, 1) => unknown(whole, scope)?,
        ("substr", [_, _, _]) if whole_number(1, 1) && whole_number(2, 0) => unknown(whole, scope)?,
        ("date_part", [part, x]) if is_temporal(&type_of(&x.expr, &scope.schema)?) => {
            date_part(&part.expr, x, whole, scope)?
        }
        ("date_part", [part, x]) if is_time(&type_of(&x.expr, &scope.schema)?) => {
            time_part(&part.expr, x, whole)?
        }
        ("without_offset", [_]) if is_without_offset(&call.func) => unknown(whole, scope)?,
        ("date_trunc", [part, x])
            if is_date_trunc(&call.func)
                && is_granularity(&part.expr)
                && is_temporal(&type_of(&x.expr, &scope.schema)?) =>
        {
            truncated(call, x, whole, scope)?
        }
        ("strftime" | "date_format" | "to_char", [_, _]) if is_date_label(&call.func) => {
            labelled(call, args, whole, scope)?
        }
        ("width_bucket", [_, _, _, _]) if is_width_bucket(&call.func) => bucket(args, call, whole)?,
        ("date_diff", [unit, from, to]) if is_date_diff(&call.func) => {
            match periods(&unit.expr, from, to, scope) {
                Some(facts) => facts,
                None => return Err(not_allowed(whole, "date_diff takes dates and timestamps")),
            }
        }
        (name, _) => {
            let message = format!(
                "{name} with these arguments can fail on some row, or has not been reviewed"
            );
            return Err(match instead(name, &call.args) {
                Some(hint) => Refusal::new(Reason::Function, readable(whole), message, hint),
                None => not_allowed(whole, &message),
            });
        }
    })
}

/// What to write instead of a function that is not computed on rows.
fn instead(name: &str, args: &[Expr]) -> Option<String> {
    let mut args = args.iter().map(|arg| match arg {
        // The planner's cast to the type that the function takes. One to a text is the user's own.
        Expr::Cast(cast) if !is_string(cast.field.data_type()) => cast.expr.as_ref(),
        other => other,
    });
    let first = readable(args.next()?);
    let exponent = args.next().and_then(|arg| {
        if let Expr::Literal(ScalarValue::Int64(whole), _) = arg { *whole } else { None }
    });
    let classes = || {
        format!(
            "CASE WHEN {first} < 10 THEN 0 WHEN {first} < 100 THEN 1 ELSE 2 END, which makes classes"
        )
    };
    Some(match name {
        "power" => match exponent {
            Some(times @ 2..=4) => {
                (0..times).map(|_| first.as_str()).collect::<Vec<_>>().join(" * ")
            }
            Some(_) | None => classes(),
        },
        "ln" | "log" | "log2" | "log10" | "exp" | "sqrt" | "cbrt" => classes(),
        "initcap" => format!("upper(left({first}, 1)) || lower(substr({first}, 2))"),
        "to_timestamp" => format!("CAST({first} AS TIMESTAMP)"),
        "to_date" => format!("CAST({first} AS DATE)"),
        "regexp_replace" => format!(
            "split_part({first}, '-', 1), or replace({first}, 'text', ''), or a column whose domain lists its values (IN) in place of {first}"
        ),
        "regexp_like" | "regexp_match" | "regexp_count" => format!(
            "{first} LIKE '%text%', or split_part({first}, '-', 1), or a column whose domain lists its values (IN) in place of {first}"
        ),
        _ => return None,
    })
}

fn unknown(whole: &Expr, scope: &Scope) -> Result<Facts, Refusal> {
    Ok(Facts::of_type(&type_of(whole, &scope.schema)?))
}

/// True if a function takes only texts and returns a text.
fn all_texts(args: &[Total], whole: &Expr, scope: &Scope) -> Result<bool, Refusal> {
    let mut texts = is_string(&type_of(whole, &scope.schema)?);
    for arg in args {
        texts &= is_string(&type_of(&arg.expr, &scope.schema)?);
    }
    Ok(texts)
}

/// The years of a range of dates; years are monotonic in the date.
fn years(x: &Total, whole: &Expr, scope: &Scope) -> Result<Facts, Refusal> {
    let facts = unknown(whole, scope)?;
    let ticks = ticks_a_day(&type_of(&x.expr, &scope.schema)?);
    let (Some(ticks), true) = (ticks, type_of(whole, &scope.schema)?.is_integer()) else {
        return Ok(facts);
    };
    let years = |dates: &Interval| {
        let (first, last) = dates.bounds()?;
        Some((year(first, ticks)?, year(last, ticks)?))
    };
    let Some(always) = years(&x.facts.always) else { return Ok(facts) };
    let (first, last) = years(&x.facts.range).unwrap_or(always);
    let is_declared = declared(&x.facts, &type_of(&x.expr, &scope.schema)?).is_some();
    Ok(Facts {
        range: Interval::integer_range(first, last),
        always: match is_declared {
            true => Interval::integer_range(always.0, always.1),
            false => undeclared(),
        },
        keys: is_declared.then_some(KeySource::Integers(first, last)),
        ..facts
    })
}

/// The year of a moment in ticks since 1970. The same function runs on rows.
fn year(moment: &Rational, ticks_a_day: i64) -> Option<i64> {
    let day = (moment / Rational::from_integer(ticks_a_day.into())).floor().to_integer();
    let day = Date32Array::from(vec![day.to_i32()?]);
    let year = arrow::compute::date_part(&day, DatePart::Year).ok()?;
    year.as_primitive_opt::<Int32Type>()?.iter().next()?.map(i64::from)
}

/// The start of a period: at most a leap year before the moment, never later. The periods of
/// a bounded range are keys.
fn truncated(
    call: &ScalarFunction,
    x: &Total,
    whole: &Expr,
    scope: &Scope,
) -> Result<Facts, Refusal> {
    let facts = unknown(whole, scope)?;
    let data_type = type_of(&x.expr, &scope.schema)?;
    let Some(ticks) =
        ticks_a_day(&data_type).filter(|_| type_of(whole, &scope.schema) == Ok(data_type.clone()))
    else {
        return Ok(facts);
    };
    let back = Interval::integer_range(-366 * ticks, 0);
    let part = call.args.first().and_then(constant);
    let of = |range: &Interval| {
        let exact = first_and_last(call, &[part.clone(), None], range, &data_type);
        exact.unwrap_or_else(|| range.add(&back))
    };
    Ok(Facts {
        range: of(&x.facts.range).intersect(&facts.range),
        always: of(&x.facts.always).intersect(&facts.always),
        keys: starts(call, &x.facts, &data_type),
        ..facts
    })
}

/// `date_bin`: total if its operands are. If the origin is a constant, the bins of a bounded range
/// are keys.
fn binned(
    call: &ScalarFunction,
    whole: &Expr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Total, Refusal> {
    let usage = || {
        let moment = call.args.get(1).map(readable).unwrap_or_default();
        partial(
            whole,
            "date_bin takes a literal interval, of months or of shorter units",
            format!("date_bin(INTERVAL '7 days', {moment})"),
        )
    };
    let [stride, x, origin @ ..] = call.args.as_slice() else { return Err(usage()) };
    let (written, x) = (stride, total(x, scope)?);
    let data_type = type_of(&x.expr, &scope.schema)?;
    let length = constant(written).and_then(|by| Stride::from_interval(&by, &data_type));
    let (Some(stride), Some(ticks)) = (length, ticks_a_day(&data_type)) else {
        return Err(usage());
    };
    let longest = match stride {
        Stride::Months(months) => 31 * i64::from(months) * ticks,
        Stride::Ticks(ticks) => ticks,
    };
    let mut constants = vec![constant(written), None];
    let mut args = vec![written.clone(), x.expr];
    for origin in origin {
        constants.push(constant(origin));
        args.push(total(origin, scope)?.expr);
    }
    let is_constant = constants.iter().skip(2).all(Option::is_some);
    let limits = unknown(whole, scope)?;
    let back = Interval::integer_range(-longest, 0);
    let of = |range: &Interval| {
        let exact = is_constant.then(|| first_and_last(call, &constants, range, &data_type));
        exact.flatten().unwrap_or_else(|| range.add(&back))
    };
    let facts = Facts {
        range: of(&x.facts.range).intersect(&limits.range),
        always: of(&x.facts.always).intersect(&limits.always),
        keys: is_constant.then(|| bins(call, stride, &constants, &x.facts, &data_type)).flatten(),
        ..limits
    };
    let expr = Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args });
    Ok(Total { expr, facts })
}

/// `HISTOGRAM(x, n)`: the classes that divide the range of x. All of them are keys; NULL is not.
fn classed(
    call: &ScalarFunction,
    whole: &Expr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Total, Refusal> {
    let [x, Expr::Literal(n, _)] = call.args.as_slice() else {
        return Err(partial(
            whole,
            "HISTOGRAM takes a literal number of classes",
            "HISTOGRAM(x, 10)",
        ));
    };
    let (written, x) = (readable(x), total(x, scope)?);
    let is_whole = type_of(&x.expr, &scope.schema)?.is_integer();
    // The calendar is not a declared range.
    let range = Some(&x.facts).filter(|facts| facts.always != undeclared());
    let classes = range.and_then(|facts| facts.range.bounds()).zip(Classes::number(n));
    let classes = classes.and_then(|((lo, hi), n)| Classes::new(lo, hi, n, is_whole));
    let Some(classes) = classes else {
        return Err(partial(
            whole,
            "the classes of HISTOGRAM divide a range, and this number has none",
            format!("HISTOGRAM(CLAMP({written}, 0, 100), {n})"),
        ));
    };
    let facts = unknown(whole, scope)?;
    let keys = classes.names().map(|name| ScalarValue::Utf8(Some(name.to_owned())));
    let keys = Some(KeySource::Values(Arc::new(keys.collect())));
    Ok(Total { expr: classes.of(x.expr), facts: Facts { keys, ..facts } })
}

/// A label of a moment: the labels of a bounded range are keys.
fn labelled(
    call: &ScalarFunction,
    args: &[Total],
    whole: &Expr,
    scope: &Scope,
) -> Result<Facts, Refusal> {
    let facts = unknown(whole, scope)?;
    let constants: Vec<_> = args.iter().map(|arg| constant(&arg.expr)).collect();
    let format = constants.iter().flatten().find(|constant| constant.data_type().is_string());
    let format = format.and_then(|format| LabelFormat::parse(call.func.name(), format));
    let moment = args.iter().zip(&constants).find(|(_, constant)| constant.is_none());
    let keys = match (format, moment) {
        (Some(format), Some((moment, _))) => {
            let data_type = type_of(&moment.expr, &scope.schema)?;
            labels(call, &format, &constants, &moment.facts, &data_type)
        }
        _ => None,
    };
    Ok(Facts { keys, ..facts })
}

/// Whole numbers: every number in their range is a key, if floats represent each of them exactly.
fn whole_numbers(facts: Facts, whole: &Expr, scope: &Scope) -> Result<Facts, Refusal> {
    let digits = match type_of(whole, &scope.schema)? {
        DataType::Float64 => 53,
        DataType::Float32 => 24,
        _ => return Ok(facts),
    };
    let exact = Interval::integer_range(-(1_i64 << digits), 1_i64 << digits);
    let ends = facts.range.to_i128().filter(|_| facts.range.is_within(&exact));
    let ends = ends.and_then(|(lo, hi)| Some((i64::try_from(lo).ok()?, i64::try_from(hi).ok()?)));
    Ok(Facts { keys: ends.map(|(lo, hi)| KeySource::Integers(lo, hi)), ..facts })
}

fn mapped(facts: &Facts, map: fn(&Interval) -> Interval) -> Facts {
    Facts {
        range: map(&facts.range),
        always: map(&facts.always),
        nullable: facts.nullable,
        keys: None,
        null_key: false,
        is_unit: false,
    }
}

/// `LEAST` and `GREATEST` skip NULLs. So if an argument can be NULL, the result can be any value of
/// the others.
fn extreme(args: &[Total], op: fn(&Interval, &Interval) -> Interval) -> Facts {
    let mut parts = args.iter().map(|a| a.facts.clone());
    let Some(mut all) = parts.next() else { return Facts::ranged(Interval::everything(), true) };
    for next in parts {
        let merge = |a: &Interval, b: &Interval| {
            let mut merged = op(a, b);
            if all.nullable || a.is_empty() {
                merged = merged.union(b);
            }
            if next.nullable || b.is_empty() {
                merged = merged.union(a);
            }
            merged
        };
        let (range, always) = (merge(&all.range, &next.range), merge(&all.always, &next.always));
        let nullable = all.nullable && next.nullable;
        all = Facts { range, always, nullable, keys: None, null_key: false, is_unit: false };
    }
    Facts { keys: None, is_unit: false, ..all }
}

/// The first arguments of a call as they are written; `x` where there are fewer.
fn first_arguments(call: &Expr) -> [String; 3] {
    let args: &[Expr] = if let Expr::ScalarFunction(call) = call { &call.args } else { &[] };
    [0, 1, 2].map(|place| args.get(place).map_or_else(|| "x".to_owned(), readable))
}

fn clamped(x: &Facts, lo: &Total, hi: &Total, whole: &Expr) -> Result<Facts, Refusal> {
    let [of, low, high] = first_arguments(whole);
    let bound = |t: &Total| match &t.expr {
        Expr::Literal(value, _) => rational(value),
        _ => None,
    };
    let (Some(lo), Some(hi)) = (bound(lo), bound(hi)) else {
        let hint = format!("CLAMP({of}, 0, 100)");
        return Err(partial(whole, "the bounds of CLAMP are literals", hint));
    };
    if lo > hi {
        return Err(Refusal::new(
            Reason::BadValue,
            readable(whole),
            "the bounds of CLAMP are reversed",
            format!("CLAMP({of}, {high}, {low})"),
        ));
    }
    let cut = |range: &Interval| range.clamp(&lo, &hi);
    Ok(Facts {
        range: cut(&x.range),
        always: cut(&x.always),
        nullable: x.nullable,
        keys: None,
        null_key: false,
        is_unit: false,
    })
}

fn absolute(x: &Total, whole: &Expr, scope: &Scope) -> Result<Facts, Refusal> {
    let facts = mapped(&x.facts, Interval::abs);
    if !castable(&type_of(&x.expr, &scope.schema)?) {
        return Err(not_allowed(whole, "ABS of this type can fail on some row"));
    }
    match type_range(&type_of(&x.expr, &scope.schema)?) {
        Some(fits) if !facts.always.is_within(&fits) => {
            let [of, ..] = first_arguments(whole);
            let hint = format!("ABS(CLAMP({of}, lo, hi))");
            Err(partial(whole, "ABS of the least integer overflows", hint))
        }
        _ => Ok(facts),
    }
}

/// True if `date_trunc` never fails for a granularity. For an unknown one it would fail on every
/// row.
fn is_granularity(part: &Expr) -> bool {
    const KNOWN: [&str; 10] = [
        "microsecond",
        "millisecond",
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "quarter",
        "year",
    ];
    matches!(part, Expr::Literal(value, _)
        if value.try_as_str().flatten().is_some_and(|t| KNOWN.contains(&t.to_lowercase().as_str())))
}

/// Parts of a date are small integers, which are public keys.
fn date_part(part: &Expr, x: &Total, whole: &Expr, scope: &Scope) -> Result<Facts, Refusal> {
    let Expr::Literal(value, _) = part else { return unknown(whole, scope) };
    let part = value.try_as_str().flatten().unwrap_or_default().to_lowercase();
    let (lo, hi) = match part.as_str() {
        "year" => return years(x, whole, scope),
        "epoch" => {
            let seconds = seconds(&x.facts, &type_of(&x.expr, &scope.schema)?);
            return Ok(Facts { range: seconds.0, always: seconds.1, ..unknown(whole, scope)? });
        }
        "quarter" => (1, 4),
        "month" => (1, 12),
        "week" => (1, 53),
        "day" => (1, 31),
        "doy" => (1, 366),
        "dow" => (0, 6),
        "hour" => (0, 23),
        "minute" => (0, 59),
        "second" => (0, 59),
        _ => {
            let [_, of, _] = first_arguments(whole);
            return Err(Refusal::new(
                Reason::Function,
                readable(whole),
                "only year, quarter, month, week, day, doy, dow, hour, minute, second and epoch can be extracted from a date",
                format!("EXTRACT(DOW FROM {of}), the day of the week from 0 for Sunday to 6"),
            ));
        }
    };
    let data_type = type_of(whole, &scope.schema)?;
    if !data_type.is_integer() {
        return unknown(whole, scope);
    }
    let mut facts =
        Facts::ranged(Interval::integer_range(BigInt::from(lo), BigInt::from(hi)), true);
    facts.keys = Some(KeySource::Integers(lo, hi));
    Ok(facts)
}
