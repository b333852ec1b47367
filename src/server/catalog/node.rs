//! Expressions over rows of the catalog, and their values.
//!
//! Values are computed one row at a time, in a bounded number of steps. A query that needs more has
//! no answer here. Something unknown is an error only when its value is needed: many queries of
//! tools name functions for rows that do not exist.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

use regex::RegexBuilder;

use super::super::types;
use super::datum::{Datum, Unanswered};
use super::functions;
use super::relations::World;

/// The most values that a query may compute.
const MOST_STEPS: u64 = 3_000_000;

/// The most bytes of a pattern, and the steps that one pattern takes.
const LONGEST_PATTERN: usize = 256;
const STEPS_OF_A_PATTERN: usize = 100;

/// The remaining steps.
#[derive(Debug)]
pub(super) struct Steps(Cell<u64>);

impl Steps {
    pub(super) fn new() -> Self {
        Self(Cell::new(MOST_STEPS))
    }

    /// Uses up some steps.
    pub(super) fn take(&self, count: usize) -> Result<(), Unanswered> {
        let count = u64::try_from(count).map_err(|_| Unanswered::Unclear)?;
        self.0.set(self.0.get().checked_sub(count).ok_or(Unanswered::TooLong)?);
        Ok(())
    }
}

/// A row, and the rows of the queries around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Env<'a> {
    pub(super) world: &'a World,
    pub(super) steps: &'a Steps,
    pub(super) row: &'a [Datum],
    pub(super) aggregates: &'a [Datum],
    pub(super) outer: Option<&'a Env<'a>>,
}

/// A query within an expression.
pub(super) trait SubqueryRows: Debug {
    /// Its rows, for a row of the query around it.
    fn rows(&self, env: &Env<'_>) -> Result<Vec<Vec<Datum>>, Unanswered>;
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
    /// `@>`: the left array has all elements of the right one.
    Contains,
    /// `&&`: two arrays have an element in common.
    Overlaps,
    Like {
        negated: bool,
        folded: bool,
    },
    Regex {
        negated: bool,
        folded: bool,
    },
}

/// An expression.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Datum),
    /// A column of this query (depth 0), or of a query `depth` levels further out.
    Column {
        depth: usize,
        index: usize,
    },
    Aggregate(usize),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    /// `= ANY (array)`, or ALL.
    Each {
        comparison: Comparison,
        left: Box<Node>,
        list: Box<Node>,
        all: bool,
    },
    IsNull(Box<Node>),
    IsTrue(Box<Node>, bool),
    Distinct(Box<Node>, Box<Node>),
    In(Box<Node>, Vec<Node>),
    InQuery(Box<Node>, Box<dyn SubqueryRows>),
    Exists(Box<dyn SubqueryRows>),
    Scalar(Box<dyn SubqueryRows>),
    ListOf(Box<dyn SubqueryRows>),
    Case {
        operand: Option<Box<Node>>,
        arms: Vec<(Node, Node)>,
        other: Option<Box<Node>>,
    },
    Call(String, Vec<Node>),
    /// A cast to a type of this name.
    Cast(String, Box<Node>),
    /// The name of the object that a number stands for.
    Shown(String, Box<Node>),
    List(Vec<Node>),
    Element(Box<Node>, Box<Node>),
    Add(Box<Node>, Box<Node>, Arithmetic),
    Concat(Box<Node>, Box<Node>),
    /// A row, with the names of its columns.
    Record(Vec<(Arc<str>, Node)>),
    /// A column of a row.
    Field(Box<Node>, String),
    /// An expression without a value here, and why.
    Unknown(Unanswered),
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
    And,
    Or,
    Left,
    Right,
}

impl Node {
    /// The value for a row.
    pub(super) fn value(&self, env: &Env<'_>) -> Result<Datum, Unanswered> {
        env.steps.take(1)?;
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Column { depth, index } => {
                let mut found = env;
                for _ in 0..*depth {
                    found = found.outer.ok_or(Unanswered::Unclear)?;
                }
                found.row.get(*index).cloned().unwrap_or(Datum::Null)
            }
            Self::Aggregate(index) => {
                env.aggregates.get(*index).cloned().ok_or(Unanswered::Unclear)?
            }
            Self::Not(of) => told(of.value(env)?.truth().map(|truth| !truth)),
            Self::And(left, right) => {
                let left = left.value(env)?.truth();
                match (left, if left == Some(false) { left } else { right.value(env)?.truth() }) {
                    (Some(false), _) | (_, Some(false)) => Datum::Bool(false),
                    (Some(true), Some(true)) => Datum::Bool(true),
                    (None, _) | (_, None) => Datum::Null,
                }
            }
            Self::Or(left, right) => {
                let left = left.value(env)?.truth();
                match (left, if left == Some(true) { left } else { right.value(env)?.truth() }) {
                    (Some(true), _) | (_, Some(true)) => Datum::Bool(true),
                    (Some(false), Some(false)) => Datum::Bool(false),
                    (None, _) | (_, None) => Datum::Null,
                }
            }
            Self::Compare(how, left, right) => {
                if matches!(how, Comparison::Regex { .. }) {
                    env.steps.take(STEPS_OF_A_PATTERN)?;
                }
                told(compared(*how, &left.value(env)?, &right.value(env)?)?)
            }
            Self::Each { comparison, left, list, all } => {
                let (left, list) = (left.value(env)?, list.value(env)?);
                if list.is_null() {
                    return Ok(Datum::Null);
                }
                let list = list.list().ok_or(Unanswered::Unclear)?;
                let each = if matches!(comparison, Comparison::Regex { .. }) {
                    STEPS_OF_A_PATTERN
                } else {
                    1
                };
                env.steps.take(list.len().saturating_mul(each))?;
                let mut some_unknown = false;
                for one in &list {
                    match compared(*comparison, &left, one)? {
                        Some(truth) if truth != *all => return Ok(Datum::Bool(!all)),
                        Some(_) => {}
                        None => some_unknown = true,
                    }
                }
                if some_unknown { Datum::Null } else { Datum::Bool(*all) }
            }
            Self::IsNull(of) => Datum::Bool(of.value(env)?.is_null()),
            Self::IsTrue(of, wanted) => Datum::Bool(of.value(env)?.truth() == Some(*wanted)),
            Self::Distinct(left, right) => {
                let (left, right) = (left.value(env)?, right.value(env)?);
                Datum::Bool(match left.compare(&right) {
                    Some(order) => order != Ordering::Equal,
                    None => left.is_null() != right.is_null(),
                })
            }
            Self::In(left, list) => {
                let left = left.value(env)?;
                let values =
                    list.iter().map(|node| node.value(env)).collect::<Result<Vec<_>, _>>()?;
                is_in(&left, values.iter())?
            }
            Self::InQuery(left, query) => {
                let left = left.value(env)?;
                let rows = query.rows(env)?;
                env.steps.take(rows.len())?;
                match &left {
                    Datum::List(list)
                        if rows.first().is_some_and(|row| row.len() == list.len()) =>
                    {
                        let rows: Vec<Datum> = rows.into_iter().map(Datum::List).collect();
                        is_in(&left, rows.iter())?
                    }
                    _ => is_in(&left, rows.iter().filter_map(|row| row.first()))?,
                }
            }
            Self::Exists(query) => Datum::Bool(!query.rows(env)?.is_empty()),
            Self::Scalar(query) => match query.rows(env)?.as_slice() {
                [] => Datum::Null,
                [row] => row.first().cloned().ok_or(Unanswered::Unclear)?,
                _ => return Err(Unanswered::Unclear),
            },
            Self::ListOf(query) => {
                let rows = query.rows(env)?.into_iter();
                Datum::List(rows.filter_map(|row| row.into_iter().next()).collect())
            }
            Self::Case { operand, arms, other } => {
                let operand = operand.as_ref().map(|node| node.value(env)).transpose()?;
                for (when, then) in arms {
                    let when = when.value(env)?;
                    let fits = match &operand {
                        Some(operand) => operand.compare(&when) == Some(Ordering::Equal),
                        None => when.truth() == Some(true),
                    };
                    if fits {
                        return then.value(env);
                    }
                }
                other.as_ref().map_or(Ok(Datum::Null), |node| node.value(env))?
            }
            Self::Call(name, values) => {
                let values =
                    values.iter().map(|node| node.value(env)).collect::<Result<Vec<_>, _>>()?;
                functions::call(env.world, name, &values).map_err(|why| match why {
                    Unanswered::Unclear => Unanswered::function(name),
                    why => why,
                })?
            }
            Self::Cast(to, of) => cast(env.world, to, of.value(env)?)?,
            Self::Shown(what, of) => functions::shown(env.world, what, &of.value(env)?),
            Self::List(nodes) => {
                Datum::List(nodes.iter().map(|node| node.value(env)).collect::<Result<_, _>>()?)
            }
            Self::Element(of, index) => match (of.value(env)?.list(), index.value(env)?.int()) {
                (Some(list), Some(index)) => {
                    let index = usize::try_from(index).ok().and_then(|index| index.checked_sub(1));
                    index.and_then(|index| list.get(index)).cloned().unwrap_or(Datum::Null)
                }
                _ => Datum::Null,
            },
            Self::Add(left, right, how) => {
                let (left, right) = (left.value(env)?, right.value(env)?);
                if left.is_null() || right.is_null() {
                    return Ok(Datum::Null);
                }
                let (left, right) = (
                    left.int().ok_or(Unanswered::Unclear)?,
                    right.int().ok_or(Unanswered::Unclear)?,
                );
                let value = match how {
                    Arithmetic::Plus => left.checked_add(right),
                    Arithmetic::Minus => left.checked_sub(right),
                    Arithmetic::Times => left.checked_mul(right),
                    Arithmetic::Over => left.checked_div(right),
                    Arithmetic::Modulo => left.checked_rem(right),
                    Arithmetic::And => Some(left & right),
                    Arithmetic::Or => Some(left | right),
                    Arithmetic::Left => {
                        u32::try_from(right).ok().and_then(|right| left.checked_shl(right))
                    }
                    Arithmetic::Right => {
                        u32::try_from(right).ok().and_then(|right| left.checked_shr(right))
                    }
                };
                Datum::Int(value.ok_or(Unanswered::Unclear)?)
            }
            Self::Concat(left, right) => match (left.value(env)?, right.value(env)?) {
                (Datum::Null, _) | (_, Datum::Null) => Datum::Null,
                (Datum::List(mut left), Datum::List(right)) => {
                    left.extend(right);
                    Datum::List(left)
                }
                (left, right) => {
                    let text = left.text().zip(right.text()).ok_or(Unanswered::Unclear)?;
                    env.steps.take((text.0.len() + text.1.len()) / 64)?;
                    Datum::Text((text.0 + &text.1).into())
                }
            },
            Self::Record(columns) => {
                let value = |(name, node): &(Arc<str>, Self)| {
                    node.value(env).map(|value| (Arc::clone(name), value))
                };
                Datum::Record(columns.iter().map(value).collect::<Result<_, _>>()?)
            }
            Self::Field(of, name) => match of.value(env)? {
                Datum::Record(columns) => {
                    let found = columns.into_iter().find(|(known, _)| **known == **name);
                    found.map(|(_, value)| value).ok_or_else(|| Unanswered::column(name))?
                }
                _ => Datum::Null,
            },
            Self::Unknown(why) => return Err(why.clone()),
        })
    }

    /// Calls `with` for this node and those below it, including queries within expressions, but not
    /// the nodes inside them.
    pub(super) fn walk(&self, with: &mut impl FnMut(&Self)) {
        with(self);
        match self {
            Self::Constant(_) | Self::Column { .. } | Self::Aggregate(_) | Self::Unknown(_) => {}
            Self::Exists(_) | Self::Scalar(_) | Self::ListOf(_) => {}
            Self::Not(of) | Self::IsNull(of) | Self::IsTrue(of, _) | Self::InQuery(of, _) => {
                of.walk(with)
            }
            Self::Cast(_, of) | Self::Shown(_, of) | Self::Field(of, _) => of.walk(with),
            Self::Record(columns) => columns.iter().for_each(|(_, node)| node.walk(with)),
            Self::And(a, b)
            | Self::Or(a, b)
            | Self::Compare(_, a, b)
            | Self::Distinct(a, b)
            | Self::Element(a, b)
            | Self::Add(a, b, _)
            | Self::Concat(a, b) => {
                a.walk(with);
                b.walk(with);
            }
            Self::Each { left, list, .. } => {
                left.walk(with);
                list.walk(with);
            }
            Self::In(of, list) => {
                of.walk(with);
                list.iter().for_each(|node| node.walk(with));
            }
            Self::Call(_, list) | Self::List(list) => list.iter().for_each(|node| node.walk(with)),
            Self::Case { operand, arms, other } => {
                operand.iter().chain(other).for_each(|node| node.walk(with));
                arms.iter().for_each(|(when, then)| {
                    when.walk(with);
                    then.walk(with);
                });
            }
        }
    }
}

fn told(truth: Option<bool>) -> Datum {
    truth.map_or(Datum::Null, Datum::Bool)
}

fn is_in<'a>(left: &Datum, values: impl Iterator<Item = &'a Datum>) -> Result<Datum, Unanswered> {
    let mut some_unknown = false;
    for value in values {
        match compared(Comparison::Equal, left, value)? {
            Some(true) => return Ok(Datum::Bool(true)),
            Some(false) => {}
            None => some_unknown = true,
        }
    }
    Ok(if some_unknown { Datum::Null } else { Datum::Bool(false) })
}

fn compared(how: Comparison, left: &Datum, right: &Datum) -> Result<Option<bool>, Unanswered> {
    let Some(order) = left.compare(right) else { return Ok(None) };
    let texts = || left.text().zip(right.text()).ok_or(Unanswered::Unclear);
    Ok(Some(match how {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::Unequal => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::AtMost => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::AtLeast => order != Ordering::Less,
        Comparison::Contains | Comparison::Overlaps => {
            let (left, right) = left.list().zip(right.list()).ok_or(Unanswered::Unclear)?;
            match how {
                Comparison::Contains => right.iter().all(|one| left.contains(one)),
                _ => right.iter().any(|one| left.contains(one)),
            }
        }
        Comparison::Like { negated, folded } => {
            let (text, pattern) = texts()?;
            if pattern.len() > LONGEST_PATTERN {
                return Err(Unanswered::Unclear);
            }
            like(&pattern, &text, folded) != negated
        }
        Comparison::Regex { negated, folded } => {
            let (text, pattern) = texts()?;
            found(&pattern, &text, folded)? != negated
        }
    }))
}

/// Whether a text matches a pattern. If the rest does not match, the last `%` takes one more
/// character.
fn like(pattern: &str, text: &str, is_folded: bool) -> bool {
    let fold = |text: &str| -> Vec<char> {
        if is_folded { text.to_lowercase().chars().collect() } else { text.chars().collect() }
    };
    let (pattern, text) = (fold(pattern), fold(text));
    let (mut p, mut t, mut back) = (0, 0, None);
    while let Some(c) = text.get(t) {
        let escaped = pattern.get(p) == Some(&'\\');
        match pattern.get(p + usize::from(escaped)) {
            Some('%') if !escaped => {
                back = Some((p + 1, t));
                p += 1;
            }
            Some(wanted) if wanted == c || (*wanted == '_' && !escaped) => {
                p += 1 + usize::from(escaped);
                t += 1;
            }
            _ => match back {
                Some((after, from)) => {
                    (p, t, back) = (after, from + 1, Some((after, from + 1)));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '%')
}

fn found(pattern: &str, text: &str, folded: bool) -> Result<bool, Unanswered> {
    if pattern.len() > LONGEST_PATTERN {
        return Err(Unanswered::Unclear);
    }
    // Most patterns match one name or everything.
    let literal = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$"));
    let literal = literal.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
    if let (Some(literal), false) = (literal, folded) {
        return Ok(literal == text);
    }
    let mut builder = RegexBuilder::new(pattern);
    let regex = builder.case_insensitive(folded).size_limit(1 << 16).dfa_size_limit(1 << 16);
    Ok(regex.build().map_err(|_| Unanswered::Unclear)?.is_match(text))
}

/// The cast from a function's name to its number.
pub(super) const FUNCTION_NUMBER: &str = "regproc to oid";

/// Casts a value to another type.
fn cast(world: &World, to: &str, value: Datum) -> Result<Datum, Unanswered> {
    if value.is_null() {
        return Ok(value);
    }
    if to.ends_with("[]") {
        return Ok(Datum::List(value.list().ok_or(Unanswered::Unclear)?));
    }
    Ok(match to {
        "regclass" | "regtype" | "regrole" | "oid" | "xid" | "int" | "int2" | "int4" | "int8"
        | "integer" | "bigint" | "smallint" => match value.int() {
            Some(number) => Datum::Int(number),
            None => {
                let name = value.text().unwrap_or_default();
                let number = match to {
                    "regclass" => super::relations::numbered(world, &name),
                    "regtype" => types::named(&name),
                    _ => None,
                };
                let missing = || match to {
                    "regclass" => Unanswered::Said("42P01", format!("there is no table {name}")),
                    "regtype" => Unanswered::Said("42704", format!("there is no type {name}")),
                    _ => Unanswered::Said("22P02", format!("{name} is not a whole number")),
                };
                Datum::Int(number.ok_or_else(missing)?)
            }
        },
        "bool" | "boolean" => told(Some(value.truth().ok_or(Unanswered::Unclear)?)),
        FUNCTION_NUMBER => {
            let name = value.text().filter(|name| name != "-");
            Datum::Int(name.map_or(0, |name| types::function_number(&name)))
        }
        "regproc" | "regnamespace" => {
            let text = value.text().unwrap_or_default();
            text.rsplit('.').next().unwrap_or_default().into()
        }
        _ => match value {
            Datum::Bool(value) => Datum::Text(value.to_string().into()),
            value => value.text().map_or(Datum::Null, |text| Datum::Text(text.into())),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_like() {
        for (pattern, text, fits) in [
            ("people", "people", true),
            ("p%", "people", true),
            ("%", "", true),
            ("p_ople", "people", true),
            ("%o%e", "people", true),
            ("%x%", "people", false),
            ("pg\\_%", "pgx", false),
            ("pg\\_%", "pg_type", true),
            ("p", "people", false),
        ] {
            assert_eq!(like(pattern, text, false), fits, "{pattern} {text}");
        }
        assert!(like("PEO%", "people", true));
    }

    #[test]
    fn patterns_of_psql() {
        for (pattern, text, fits) in [
            ("^(people)$", "people", true),
            ("^(people)$", "people2", false),
            ("^(p.*)$", "people", true),
            ("^pg_toast", "people", false),
        ] {
            assert_eq!(found(pattern, text, false), Ok(fits), "{pattern} {text}");
        }
        assert_eq!(found("(", "x", false), Err(Unanswered::Unclear));
        assert_eq!(found(&"a".repeat(300), "x", false), Err(Unanswered::Unclear));
    }
}
