//! Infers the types of parameters that a client does not specify from the other operand of each
//! comparison.
//!
//! In: a statement and the tables. Out: the number of a type for each parameter, if one can be
//! inferred. The client then sends a value of this type. The value gets its meaning as a literal in
//! the syntax tree, so a wrong guess only costs a conversion.
//!
//! ```text
//! WHERE age > $1 AND $2::date < joined LIMIT $3   →   integer, date, bigint
//! ```

use arrow::datatypes::{DataType, TimeUnit};
use hushql::TableSchema;

use super::encode::{kind, kinds};
use super::statement_kind::Token;
use super::type_names::named;

/// The inferred types of parameters.
pub(super) fn inferred(tokens: &[Token], tables: &[TableSchema]) -> Vec<Option<u32>> {
    each(tokens, |at| written(tokens, at).or_else(|| around(tokens, at, tables)))
}

/// The types of parameters that the statement itself says: by a cast, or by a function or a clause
/// that takes one type alone.
pub(super) fn stated(tokens: &[Token]) -> Vec<Option<u32>> {
    each(tokens, |at| written(tokens, at))
}

/// The type of each parameter, by its first use that has one.
fn each(tokens: &[Token], of: impl Fn(usize) -> Option<u32>) -> Vec<Option<u32>> {
    let mut types: Vec<Option<u32>> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Parameter(n @ 1..=1_000) = token else { continue };
        if types.len() < *n {
            types.resize(*n, None);
        }
        if let Some(place) = types.get_mut(n - 1)
            && place.is_none()
        {
            *place = of(at);
        }
    }
    types
}

/// The beginning of a longer list is enough. All of it would be walked once for each of its
/// parameters.
const MOST: usize = 200;

/// The function whose fractions are a list.
const LIST: &str = "quantiles";

/// The function that has a parameter, or a sum or product with it, as an argument, and the number
/// of arguments before it.
fn argument(tokens: &[Token], at: usize) -> Option<(&str, usize)> {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    if !matches!(before, Some(Token::Sign('(' | ',' | '+' | '-' | '*' | '/'))) {
        return None;
    }
    let (mut depth, mut index, mut in_list) = (0_usize, 0_usize, false);
    for i in (at.saturating_sub(MOST)..at).rev() {
        match tokens.get(i)? {
            Token::Sign(')') => depth += 1,
            Token::Sign('(') if depth > 0 => depth -= 1,
            Token::Sign('(') => {
                match i.checked_sub(1).and_then(|name| tokens.get(name))? {
                    Token::Word(name) if in_list && name != LIST => return None,
                    Token::Word(name) => return Some((name, index)),
                    // Brackets around the argument, which are not a list.
                    Token::Sign('(' | ',' | '+' | '-' | '*' | '/') if index == 0 => {}
                    // The fractions of a list.
                    Token::Sign(',') if !in_list => (index, in_list) = (0, true),
                    Token::Name(_) | Token::Text(_) | Token::Parameter(_) | Token::Sign(_) => {
                        return None;
                    }
                }
            }
            Token::Sign(',') if depth == 0 => index += 1,
            _ => {}
        }
    }
    None
}

/// Whether this argument is the fraction of a quantile: the second one, or the one before WITHIN
/// GROUP.
fn is_fraction(tokens: &[Token], at: usize, function: &str, index: usize) -> bool {
    let quantiles = [
        "quantile",
        "quantile_cont",
        "quantile_disc",
        "percentile_cont",
        "percentile_disc",
        "approx_percentile_cont",
        "approx_quantile",
    ];
    let is_within = || {
        let after = tokens.iter().skip(at + 1).take(MOST);
        let mut after = after.skip_while(|token| **token != Token::Sign(')'));
        after.nth(1) == Some(&Token::Word("within".to_owned()))
    };
    quantiles.contains(&function) && (index == 1 || index == 0 && is_within())
        || function == LIST && index > 0
}

/// The type of a function's argument, if it differs from the type of the function's first argument.
fn of_argument(tokens: &[Token], at: usize) -> Option<u32> {
    let (function, index) = argument(tokens, at)?;
    if is_fraction(tokens, at, function, index) {
        return Some(kinds::FLOAT8);
    }
    match (function, index) {
        ("power" | "pow" | "log" | "atan2", 0 | 1)
        | (
            "sqrt" | "cbrt" | "exp" | "ln" | "log2" | "log10" | "sin" | "cos" | "tan" | "asin"
            | "acos" | "atan" | "degrees" | "radians",
            0,
        ) => Some(kinds::FLOAT8),
        ("round" | "trunc" | "left" | "right" | "repeat" | "lpad" | "rpad" | "histogram", 1)
        | ("substr" | "substring", 1 | 2)
        | ("split_part", 2) => Some(kinds::INT8),
        _ => None,
    }
}

/// The type of a parameter that has a cast, or stands where only one type can.
fn written(tokens: &[Token], at: usize) -> Option<u32> {
    let get = |i: Option<usize>| i.and_then(|i| tokens.get(i));
    let sign = |i: Option<usize>, c: char| get(i) == Some(&Token::Sign(c));
    let word = |i: Option<usize>| match get(i) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    let (next, back) = (|n: usize| at.checked_add(n), |n: usize| at.checked_sub(n));
    if sign(next(1), ':') && sign(next(2), ':') {
        let schema = usize::from(word(next(3)) == "pg_catalog" && sign(next(4), '.')) * 2;
        let is_array = sign(next(4 + schema), '[');
        return if is_array {
            array(word(next(3 + schema)))
        } else {
            named(word(next(3 + schema)))
        };
    }
    if word(next(1)) == "as" && sign(back(1), '(') && word(back(2)) == "cast" {
        return named(word(next(2)));
    }
    if ["limit", "offset"].contains(&word(back(1))) {
        return Some(kinds::INT8);
    }
    of_argument(tokens, at)
}

/// The type of a parameter according to the columns around it.
fn around(tokens: &[Token], at: usize, tables: &[TableSchema]) -> Option<u32> {
    // Backwards over comparison signs, earlier values of a list, and BETWEEN, to the name of a
    // column.
    let mut i = at;
    while let Some(before) = i.checked_sub(1).filter(|before| at - before <= MOST) {
        i = before;
        match tokens.get(i)? {
            Token::Sign('=' | '<' | '>' | '!' | '(' | ',' | '-' | '+') | Token::Parameter(_) => {}
            Token::Word(word)
                if ["in", "between", "not", "and", "like", "ilike"].contains(&word.as_str()) =>
            {
                // AND ends an expression, unless it belongs to BETWEEN.
                let of_between = i.checked_sub(2).and_then(|i| tokens.get(i));
                let is_between = of_between == Some(&Token::Word("between".to_owned()));
                if word == "and" && !is_between {
                    break;
                }
            }
            Token::Word(name) | Token::Name(name) => {
                if let Some(kind) = column(name, tables) {
                    return Some(kind);
                }
                break;
            }
            Token::Text(_) | Token::Sign(_) => break,
        }
    }
    // Forwards: `$1 < column`.
    let mut i = at + 1;
    while matches!(tokens.get(i), Some(Token::Sign('=' | '<' | '>' | '!'))) {
        i += 1;
    }
    match (i > at + 1, tokens.get(i), tokens.get(i + 1), tokens.get(i + 2)) {
        (true, Some(_), Some(Token::Sign('.')), Some(Token::Word(name) | Token::Name(name))) => {
            column(name, tables)
        }
        (true, Some(Token::Word(name) | Token::Name(name)), _, _) => column(name, tables),
        _ => None,
    }
}

/// The type of a column, if all columns of this name have the same.
fn column(name: &str, tables: &[TableSchema]) -> Option<u32> {
    let fields = tables.iter().filter_map(|table| table.schema.field_with_name(name).ok());
    let mut kinds = fields.map(|field| kind(field.data_type()).0);
    let first = kinds.next()?;
    kinds.all(|kind| kind == first).then_some(first)
}

/// The array type of the type with this name.
fn array(name: &str) -> Option<u32> {
    match name {
        "name" => Some(kinds::NAMES),
        "varchar" => Some(kinds::VARCHARS),
        other => Some(array_of(named(other)?)),
    }
}

/// The types of arrays, with those of their elements.
const ARRAYS: [(u32, u32); 14] = [
    (kinds::BOOL, kinds::BOOLS),
    (kinds::INT2, kinds::INT2S),
    (kinds::INT4, kinds::INT4S),
    (kinds::INT8, kinds::INT8S),
    (kinds::FLOAT4, kinds::FLOAT4S),
    (kinds::FLOAT8, kinds::FLOAT8S),
    (kinds::NUMERIC, kinds::NUMERICS),
    (kinds::DATE, kinds::DATES),
    (kinds::TIMESTAMP, kinds::TIMESTAMPS),
    (kinds::TIMESTAMPTZ, kinds::TIMESTAMPTZS),
    (kinds::OID, kinds::OIDS),
    (kinds::NAME, kinds::NAMES),
    (kinds::TEXT, kinds::TEXTS),
    (kinds::VARCHAR, kinds::VARCHARS),
];

/// The array type of a type.
fn array_of(element: u32) -> u32 {
    ARRAYS.iter().find(|(known, _)| *known == element).map_or(kinds::TEXTS, |(_, array)| *array)
}

/// The type of an array's elements; any other type as it is.
pub(super) fn element_of(kind: u32) -> u32 {
    ARRAYS.iter().find(|(_, array)| *array == kind).map_or(kind, |(element, _)| *element)
}

/// Whether arrays have elements of this type.
pub(super) fn is_element(kind: u32) -> bool {
    ARRAYS.iter().any(|(element, _)| *element == kind)
}

/// The type of a value as the engine knows it; `None` for one that the query decides. An array
/// stands for one of its elements.
pub(super) fn known(kind: u32) -> Option<DataType> {
    Some(match element_of(kind) {
        0 | kinds::UNKNOWN => return None,
        kinds::BOOL => DataType::Boolean,
        kinds::INT2 | kinds::INT4 | kinds::INT8 | kinds::OID => DataType::Int64,
        kinds::FLOAT4 | kinds::FLOAT8 => DataType::Float64,
        kinds::NUMERIC => DataType::Decimal128(38, 10),
        kinds::DATE => DataType::Date32,
        kinds::TIMESTAMP | kinds::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => DataType::Utf8,
    })
}

/// The type of a parameter that the query expects to be of this type.
pub(super) fn expected(data_type: &DataType, is_array: bool) -> u32 {
    let kind = kind(data_type).0;
    if is_array { array_of(kind) } else { kind }
}

/// For each parameter, whether it is the array of ANY or ALL.
pub(super) fn arrays(tokens: &[Token]) -> Vec<bool> {
    let mut arrays = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Parameter(n @ 1..=1_000) = token else { continue };
        if arrays.len() < *n {
            arrays.resize(*n, false);
        }
        let before = at.checked_sub(2).and_then(|from| tokens.get(from..at));
        let is_array = matches!(before, Some([Token::Word(word), Token::Sign('(')])
            if ["any", "all", "some"].contains(&word.as_str()));
        if let Some(place) = arrays.get_mut(n - 1) {
            *place |= is_array;
        }
    }
    arrays
}

#[cfg(test)]
mod tests {
    use super::super::statement_kind::tokens;
    use super::*;

    #[test]
    fn parameters_have_the_types_of_what_they_meet() {
        let tables = hushql::Engine::demo().unwrap().analyst("lab").unwrap().schemas().unwrap();
        let age = column("age", &tables).unwrap();
        for (sql, expected) in [
            ("SELECT 1 FROM adult WHERE age > $1", vec![Some(age)]),
            ("SELECT 1 FROM adult a WHERE $1 <= a.age", vec![Some(age)]),
            ("… WHERE age BETWEEN $1 AND $2", vec![Some(age), Some(age)]),
            ("… WHERE age IN ($2, $1)", vec![Some(age), Some(age)]),
            ("… WHERE status = $1 AND age = $2", vec![Some(kinds::TEXT), Some(age)]),
            ("… WHERE status NOT LIKE $1", vec![Some(kinds::TEXT)]),
            (
                "SELECT $1::date, CAST($2 AS double precision), $3",
                vec![Some(kinds::DATE), Some(kinds::FLOAT8), None],
            ),
            (
                "SELECT $1::oid[], $2::pg_catalog.oid, $3::text[]",
                vec![Some(kinds::OIDS), Some(kinds::OID), Some(kinds::TEXTS)],
            ),
            ("SELECT 1 LIMIT $1 OFFSET $2", vec![Some(kinds::INT8), Some(kinds::INT8)]),
            ("SELECT age + 1 = 2, $1", vec![None]),
            ("SELECT CLAMP(age, $1, $2)", vec![Some(age), Some(age)]),
            ("SELECT age + $1, COALESCE(age, $2)", vec![Some(age), Some(age)]),
        ] {
            assert_eq!(inferred(&tokens(sql), &tables), expected, "{sql}");
        }
    }
    /// A driver sends 0 for 0.5 if it is told that a parameter is an integer.
    #[test]
    fn fractions_are_floats_whatever_column_stands_beside_them() {
        let tables = hushql::Engine::demo().unwrap().analyst("lab").unwrap().schemas().unwrap();
        let (float, whole) = (Some(kinds::FLOAT8), Some(kinds::INT8));
        let age = column("age", &tables);
        for (sql, expected) in [
            ("SELECT QUANTILE(age, $1) FROM adult", vec![float]),
            ("SELECT quantile ( a.age , -$1 )", vec![float]),
            ("SELECT QUANTILE(COALESCE(age, $2), $1)", vec![float, age]),
            ("SELECT QUANTILES(age, ($1, 0.5, $2)), QUANTILES(age, ($3))", vec![float; 3]),
            ("SELECT COALESCE(age, (1, $1))", vec![None]),
            ("SELECT QUANTILE(CLAMP(age, $1, $2), $3)", vec![age, age, float]),
            ("SELECT QUANTILE(age, 1 - $1), QUANTILE(age, ($2))", vec![float, float]),
            ("SELECT PERCENTILE_CONT(age, $1), approx_percentile_cont(age, $2)", vec![float; 2]),
            ("SELECT PERCENTILE_CONT($1) WITHIN GROUP (ORDER BY age)", vec![float]),
            ("SELECT PERCENTILE_DISC($1) WITHIN GROUP (ORDER BY age DESC)", vec![float]),
            ("SELECT QUANTILE(age, $1::numeric)", vec![Some(kinds::NUMERIC)]),
            ("SELECT QUANTILE(age, CASE WHEN age > $1 THEN 0 END)", vec![age]),
            ("SELECT POWER(age, $1), sqrt($2), pow($3, 2)", vec![float; 3]),
            ("SELECT round(price, $1), HISTOGRAM(price, $2)", vec![whole; 2]),
            ("SELECT substr(status, $1, $2), left(status, $3)", vec![whole; 3]),
        ] {
            assert_eq!(inferred(&tokens(sql), &tables), expected, "{sql}");
        }
    }
}
