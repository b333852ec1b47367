//! Group keys and candidates that are public: from a domain, from KEYS, from IN.
//!
//! In: the facts about the key columns, and the lists in the query. Out: the [`KeySpace`]: every
//! combination once, in domain order. A release returns all combinations, even those that no row
//! has, so that the set of keys reveals nothing.

pub(crate) mod candidate_keys;
pub(crate) mod choice_target;
pub(crate) mod coverage;
pub(crate) mod cuts;
pub(crate) mod default_delta;
pub(crate) mod equal;
pub(crate) mod grain;
pub(crate) mod group_keys;
pub(crate) mod implied_equalities;
pub(crate) mod joined_keys;
pub(crate) mod joined_rows;
pub(crate) mod key_combinations;
pub(crate) mod key_image;
pub(crate) mod matched_rows;
pub(crate) mod of_column;
pub(crate) mod pieces;
pub(crate) mod public_keys;
pub(crate) mod public_row_keys;
pub(crate) mod siblings;
pub(crate) mod trial;
pub(crate) mod unknown;

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use self::public_row_keys::Together;
use super::expr::domain::typed;
use super::expr::facts::{Facts, KeySource, rational};
use super::expr::periods::undeclared;
use super::expr::shape::is_time;
use crate::dialect::Literal;
use crate::refusal::{Reason, Refusal, nearest};
use crate::sql_type::sql_type;

/// The most key combinations that one release may have.
pub const MOST_KEYS: usize = 100_000;

/// The public group keys of a release: one array per key column, one row per combination.
#[derive(Debug, Clone)]
pub struct KeySpace {
    columns: Vec<ArrayRef>,
    len: usize,
}

impl KeySpace {
    /// The key columns; none without GROUP BY.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// The number of released groups; 1 without GROUP BY.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no group is listed, because the keys are unknown.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// No groups: for unknown keys.
    pub(super) fn none() -> Self {
        Self { columns: Vec::new(), len: 0 }
    }

    /// Every combination of the columns' keys; the last column changes fastest.
    ///
    /// # Guarantee
    /// Each combination occurs once, for all data, because the keys of each column are distinct.
    ///
    /// # Errors
    /// Refuses more than [`MOST_KEYS`] combinations.
    pub(crate) fn product(keys: &[Vec<ScalarValue>], clause: &str) -> Result<Self, Refusal> {
        // Counted before anything is listed, because there can be very many combinations.
        let len = keys.iter().try_fold(1_usize, |n, k| n.checked_mul(k.len()));
        let len = len.filter(|n| (1..=MOST_KEYS).contains(n)).ok_or_else(|| too_many(clause))?;
        let mut columns = Vec::new();
        let mut repeat = len;
        for values in keys {
            repeat /= values.len();
            let column = (0..len).map(|i| values[(i / repeat) % values.len()].clone());
            let array = ScalarValue::iter_to_array(column).map_err(|_| {
                Refusal::new(Reason::KeyType, clause, "these keys have no common type", "")
            })?;
            columns.push(array);
        }
        Ok(Self { columns, len })
    }

    /// The combinations of the columns' keys. If several columns come from the same public rows,
    /// only the combinations that occur there. They keep the order of all combinations.
    ///
    /// # Guarantee
    /// As for [`KeySpace::product`]. The combinations depend only on the query, the declarations
    /// and public rows.
    ///
    /// # Errors
    /// Refuses more than [`MOST_KEYS`] combinations, and none.
    pub(crate) fn occurring(
        keys: &[Vec<ScalarValue>],
        together: &[Together],
        clause: &str,
    ) -> Result<Self, Refusal> {
        if together.is_empty() {
            return Self::product(keys, clause);
        }
        let combinations = public_row_keys::combinations(keys, together, MOST_KEYS)
            .ok_or_else(|| too_many(clause))?;
        if combinations.is_empty() {
            return Err(Refusal::new(
                Reason::BadValue,
                clause,
                "no combination of these keys can occur, so no group would come out",
                "keys that occur together",
            ));
        }
        let columns = (0..keys.len()).map(|i| {
            let column = combinations.iter().filter_map(|row| row.get(i).cloned().cloned());
            ScalarValue::iter_to_array(column).map_err(|_| {
                Refusal::new(Reason::KeyType, clause, "these keys have no common type", "")
            })
        });
        Ok(Self { columns: columns.collect::<Result<_, _>>()?, len: combinations.len() })
    }
}

fn too_many(clause: &str) -> Refusal {
    Refusal::new(
        Reason::TooManyKeys,
        clause,
        format!("there are more than {MOST_KEYS} combinations of keys"),
        "fewer key columns, a coarser domain (STEP), or KEYS (…) with the keys of interest",
    )
}

/// The keys of a column, from the facts about it.
///
/// # Errors
/// Refuses keys that are not declared.
pub(crate) fn known_keys(
    facts: &Facts,
    data_type: &DataType,
    clause: &str,
    candidates: bool,
) -> Result<Vec<ScalarValue>, Refusal> {
    let integers = |lo: i64, hi: i64| {
        let width = i128::from(hi) - i128::from(lo) + 1;
        if width > MOST_KEYS as i128 {
            return Err(too_many(clause));
        }
        (lo..=hi)
            .map(|v| integer_key(v, data_type).ok_or_else(|| unfit(clause, data_type)))
            .collect::<Result<Vec<_>, _>>()
    };
    match &facts.keys {
        Some(KeySource::Values(values)) if values.len() > MOST_KEYS => Err(too_many(clause)),
        Some(KeySource::Values(values)) => Ok(values.to_vec()),
        Some(KeySource::Integers(lo, hi)) => integers(*lo, *hi),
        Some(KeySource::Ticks(ticks)) => {
            let most = u64::try_from(MOST_KEYS).unwrap_or(u64::MAX);
            if ticks.count() > most {
                return Err(too_many(clause));
            }
            let numbers: Vec<u64> = (0..ticks.count()).collect();
            let values = ticks.values(&numbers, data_type).map_err(|_| unfit(clause, data_type))?;
            (0..values.len())
                .map(|i| {
                    ScalarValue::try_from_array(&values, i).map_err(|_| unfit(clause, data_type))
                })
                .collect()
        }
        None => match facts.always.to_i128() {
            // An integer expression with a small range has one key for each value.
            Some((lo, hi))
                if data_type.is_integer() && hi - lo < MOST_KEYS as i128 && !facts.is_unit =>
            {
                match (i64::try_from(lo), i64::try_from(hi)) {
                    (Ok(lo), Ok(hi)) => integers(lo, hi),
                    _ => Err(unknown(facts, clause, data_type, candidates)),
                }
            }
            _ => Err(unknown(facts, clause, data_type, candidates)),
        },
    }
}

/// The keys that a row can have if it passes the filters: `WHERE age < 30` leaves no group of older
/// people. If no key is left, all keys.
pub(crate) fn possible(keys: Vec<ScalarValue>, facts: &Facts) -> Vec<ScalarValue> {
    let inside = |key: &ScalarValue| rational(key).is_none_or(|key| facts.range.contains(&key));
    let left: Vec<ScalarValue> = keys.iter().filter(|key| inside(key)).cloned().collect();
    if left.is_empty() { keys } else { left }
}

/// The keys. If NULL is a key, it comes last.
///
/// # Errors
/// Refuses a type without NULL.
pub(crate) fn with_null(
    mut keys: Vec<ScalarValue>,
    facts: &Facts,
    data_type: &DataType,
    clause: &str,
) -> Result<Vec<ScalarValue>, Refusal> {
    if facts.null_key && !keys.iter().any(ScalarValue::is_null) {
        let null = ScalarValue::try_new_null(data_type).map_err(|_| unfit(clause, data_type))?;
        keys.push(null);
    }
    Ok(keys)
}

/// A list of values of a type, for a hint.
pub(crate) fn list_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "(TRUE, FALSE)",
        DataType::Date32 | DataType::Timestamp(..) => "('2025-01-01', '2025-01-02')",
        DataType::Time32(_) | DataType::Time64(_) => "('08:00', '12:00')",
        number if number.is_numeric() => "(1, 2)",
        _ => "('a', 'b')",
    }
}

fn unknown(facts: &Facts, clause: &str, data_type: &DataType, candidates: bool) -> Refusal {
    let list = list_of(data_type);
    // Floats are keys only on the ticks of a declared domain.
    let (key, domain) = if data_type.is_floating() {
        (format!("CAST({clause} AS BIGINT)"), "BETWEEN (lo, hi) STEP s".to_owned())
    } else if is_time(data_type) && !candidates {
        (
            format!("EXTRACT(HOUR FROM {clause}), which needs no list, or GROUP BY {clause}"),
            format!("IN {list}"),
        )
    } else {
        (clause.to_owned(), format!("IN {list}"))
    };
    let plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let inside = clause.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let is_column = inside.is_some_and(|name| !name.contains('"')) || plain(clause);
    let declare = if is_column {
        format!(
            ", or declare the column's domain: ALTER TABLE … ALTER COLUMN {clause} SET PRIVACY DOMAIN {domain}"
        )
    } else {
        String::new()
    };
    let is_moment = matches!(data_type, DataType::Timestamp(..)) || facts.always == undeclared();
    let dates = match is_moment {
        true => "; a domain of the date, or a WHERE with both of its ends, makes them known",
        false => "",
    };
    if candidates {
        return Refusal::new(
            Reason::UnknownCandidates,
            clause,
            format!(
                "the candidates for {clause} would come from the data, and a value that one person alone holds would reveal that person"
            ),
            format!(
                "{key} IN {list} after the mechanism, or delta=1e-6 inside it, which releases values of many people{declare}"
            ),
        );
    }
    Refusal::new(
        Reason::UnknownKeys,
        clause,
        format!(
            "the keys of {clause} would come from the data, and a key that one person alone has would reveal that person{dates}"
        ),
        format!(
            "GROUP BY {key} KEYS {list}, or delta=1e-6 inside the mechanism, which releases groups of many people{declare}"
        ),
    )
}

fn unfit(clause: &str, data_type: &DataType) -> Refusal {
    Refusal::new(
        Reason::KeyType,
        clause,
        format!("a column of type {} cannot be a group key here", sql_type(data_type)),
        "GROUP BY an integer, string, boolean or date column",
    )
}

fn integer_key(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    match data_type {
        DataType::Date32 => Some(ScalarValue::Date32(Some(i32::try_from(value).ok()?))),
        _ => ScalarValue::Int64(Some(value)).cast_to(data_type).ok().filter(|v| !v.is_null()),
    }
}

/// Keys listed in the query, as distinct values of the column's type.
///
/// # Errors
/// Refuses a literal that is not a value of the type, and a value that is listed twice.
pub(crate) fn listed_keys(
    literals: &[Literal],
    facts: &Facts,
    data_type: &DataType,
    clause: &str,
) -> Result<Vec<ScalarValue>, Refusal> {
    if data_type.is_floating() && !matches!(facts.keys, Some(KeySource::Ticks(_))) {
        return Err(Refusal::new(
            Reason::KeyType,
            clause,
            "a float column without STEP cannot be a group key: equal-looking values differ in their last bits",
            format!(
                "CAST({clause} AS BIGINT) in place of each {clause}, with whole numbers as keys; or the column's domain: ALTER TABLE … ALTER COLUMN {clause} SET PRIVACY DOMAIN BETWEEN (lo, hi) STEP s"
            ),
        ));
    }
    let ticks = match &facts.keys {
        Some(KeySource::Ticks(_)) => {
            Some(known_keys(facts, data_type, clause, false)?.into_iter().collect::<HashSet<_>>())
        }
        Some(KeySource::Values(_) | KeySource::Integers(..)) | None => None,
    };
    let mut keys: Vec<ScalarValue> = Vec::with_capacity(literals.len());
    let mut seen = HashSet::with_capacity(literals.len());
    for literal in literals {
        let bad = |message: String| {
            let hint = format!("literals of type {}, each once", sql_type(data_type));
            Refusal::new(Reason::BadValue, literal, message, hint)
        };
        let text = literal.text();
        let quoted = matches!(literal, Literal::Text(_));
        let wants_quotes = !(data_type.is_numeric() || *data_type == DataType::Boolean);
        if text.is_some() && quoted != wants_quotes {
            return Err(bad(format!(
                "{literal} is not a value of {clause}, of type {}",
                sql_type(data_type)
            )));
        }
        let key = match &text {
            Some(text) => typed(text, data_type).map_err(|e| bad(e.to_string()))?,
            None => ScalarValue::try_new_null(data_type).map_err(|e| bad(e.to_string()))?,
        };
        // A tick is the float nearest to its decimal, and the literal is read as the same float.
        if let Some(ticks) = &ticks
            && !ticks.contains(&key)
        {
            return Err(bad(format!("{literal} is not a tick of the domain of {clause}")));
        }
        if !seen.insert(key.clone()) {
            return Err(bad(format!("{literal} is listed twice")));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Refuses a listed key that no row can have, and names the key that was probably meant.
///
/// # Errors
/// The refusal.
pub(crate) fn refuse_impossible(
    literals: &[Literal],
    keys: &[ScalarValue],
    facts: &Facts,
    clause: &str,
) -> Result<(), Refusal> {
    let cast = |value: &ScalarValue| value.cast_to(&keys.first()?.data_type()).ok();
    let listed: Option<HashSet<ScalarValue>> = match &facts.keys {
        Some(KeySource::Values(values)) => values.iter().map(cast).collect(),
        Some(KeySource::Integers(..) | KeySource::Ticks(_)) | None => None,
    };
    let can_occur = |key: &ScalarValue| {
        let listed = listed.as_ref().is_none_or(|listed| listed.contains(key));
        key.is_null() || listed && rational(key).is_none_or(|key| facts.always.contains(&key))
    };
    let Some(i) = keys.iter().position(|key| !can_occur(key)) else { return Ok(()) };
    let texts = listed.iter().flatten().filter_map(|value| value.try_as_str().flatten());
    let meant = keys.get(i).and_then(|key| key.try_as_str().flatten());
    let meant = meant.and_then(|text| nearest(text, texts));
    let literal = literals.get(i).map_or_else(String::new, ToString::to_string);
    Err(Refusal::new(
        Reason::BadValue,
        &literal,
        format!("no row of this query can have {literal} as {clause}"),
        match meant {
            Some(meant) => format!("'{}'", meant.replace('\'', "''")),
            None => format!("values of the domain of {clause}"),
        },
    ))
}

/// The distinct keys, in the order of their first occurrence.
pub(super) fn key_list(keys: Vec<ScalarValue>) -> Vec<ScalarValue> {
    let mut seen = HashSet::with_capacity(keys.len());
    keys.into_iter().filter(|key| seen.insert(key.clone())).collect()
}
