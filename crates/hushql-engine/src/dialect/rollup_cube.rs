//! Writes out ROLLUP, CUBE and GROUPING SETS as single sets of keys.
//!
//! In: a GROUP BY as sqlparser read it, and the SELECT list. Out: one `GROUPING SETS` with every
//! set, in which each position is replaced by its expression. The planner resolves positions only
//! outside of sets, and accepts no lists of columns in ROLLUP.
//!
//! ```text
//! GROUP BY c, ROLLUP (a, b)     GROUP BY GROUPING SETS ((c, a, b), (c, a), (c))
//! GROUP BY CUBE ((a, b), c)     GROUP BY GROUPING SETS ((a, b, c), (a, b), (c), ())
//! GROUP BY a, b WITH ROLLUP     GROUP BY GROUPING SETS ((a, b), (a), ())
//! ```

use sqlparser::ast::{self as sql, Expr, GroupByExpr, SelectItem};

use super::ast::{Operand, ReleaseClause};
use crate::dialect::clauses::numbered;
use crate::dialect::error::DialectError;
use crate::refusal::{Reason, Refusal};

/// The most sets of keys that the SELECTs of a statement may have together.
pub(crate) const MOST_SETS: usize = 64;

/// The keys of one set.
type Set = Vec<Expr>;

/// Replaces ROLLUP, CUBE, GROUPING SETS and `()` in GROUP BY by one `GROUPING SETS`. Returns the
/// number of its sets, or 0 for a GROUP BY without them. The statement may have `left` more sets.
///
/// # Errors
/// A refusal for more sets than that, and for a position that refers to no possible key.
pub(super) fn spell_out(
    group_by: &mut GroupByExpr,
    projection: &[SelectItem],
    left: usize,
) -> Result<usize, DialectError> {
    let GroupByExpr::Expressions(items, modifiers) = group_by else { return Ok(0) };
    let plain = items.iter().all(|item| sets_of(item) == Some(None));
    let lists = || items.iter().map(|key| vec![key.clone()]).collect();
    let whole = match modifiers.as_slice() {
        [sql::GroupByWithModifier::Rollup] if plain => Some(Expr::Rollup(lists())),
        [sql::GroupByWithModifier::Cube] if plain => Some(Expr::Cube(lists())),
        _ => None,
    };
    if let Some(whole) = whole {
        *items = vec![whole];
        modifiers.clear();
    }
    let named = items.iter().map(sets_of).collect::<Option<Vec<_>>>();
    let Some(named) = named else { return Err(too_many(items, left).into()) };
    if named.iter().all(Option::is_none) {
        return Ok(0);
    }
    let mut all: Vec<Set> = vec![Vec::new()];
    for (item, sets) in items.iter().zip(named) {
        let sets = sets.unwrap_or_else(|| vec![vec![item.clone()]]);
        if all.len().saturating_mul(sets.len()) > left {
            return Err(too_many(items, left).into());
        }
        let combined = all.iter().flat_map(|one| {
            sets.iter().map(|other| one.iter().chain(other).cloned().collect::<Set>())
        });
        all = combined.collect();
    }
    for key in all.iter_mut().flatten() {
        resolve_position(key, projection)?;
    }
    let count = all.len();
    *items = vec![Expr::GroupingSets(all)];
    Ok(count)
}

/// The sets of one item of GROUP BY. The inner `None` stands for a plain key, the outer `None` for
/// more than [`MOST_SETS`] sets.
fn sets_of(item: &Expr) -> Option<Option<Vec<Set>>> {
    Some(match item {
        Expr::Rollup(lists) => Some(rollup(lists)?),
        Expr::Cube(lists) => Some(cube(lists)?),
        Expr::GroupingSets(sets) => {
            let mut all = Vec::new();
            for set in sets {
                match set.as_slice() {
                    [Expr::Function(function)] => match nested(function) {
                        Some(sets) => all.extend(sets?),
                        None => all.push(set.clone()),
                    },
                    _ => all.push(set.clone()),
                }
                if all.len() > MOST_SETS {
                    return None;
                }
            }
            Some(all)
        }
        Expr::Tuple(keys) if keys.is_empty() => Some(vec![Vec::new()]),
        _ => None,
    })
}

/// All lists, then all but the last, and so on, down to no list.
fn rollup(lists: &[Set]) -> Option<Vec<Set>> {
    if lists.len() >= MOST_SETS {
        return None;
    }
    Some(
        (0..=lists.len())
            .rev()
            .map(|n| lists.iter().take(n).flatten().cloned().collect())
            .collect(),
    )
}

/// Every choice of lists; those with the first list come first.
fn cube(lists: &[Set]) -> Option<Vec<Set>> {
    let count = 1_usize.checked_shl(u32::try_from(lists.len()).ok()?)?;
    if count > MOST_SETS {
        return None;
    }
    let holds = |choice: usize, i: usize| (count - 1 - choice) >> (lists.len() - 1 - i) & 1 == 1;
    let chosen = |choice| {
        let lists = lists.iter().enumerate().filter(move |(i, _)| holds(choice, *i));
        lists.flat_map(|(_, list)| list.iter().cloned()).collect()
    };
    Some((0..count).map(chosen).collect())
}

/// The sets of a ROLLUP or CUBE inside GROUPING SETS, which sqlparser reads as a call. `None` for
/// any other call.
fn nested(function: &sql::Function) -> Option<Option<Vec<Set>>> {
    let name = function.name.to_string().to_lowercase();
    let sets = match name.as_str() {
        "rollup" => rollup,
        "cube" => cube,
        _ => return None,
    };
    let lists = arguments(function).into_iter().map(|expr| match expr {
        Expr::Tuple(keys) => keys.clone(),
        Expr::Nested(key) => vec![key.as_ref().clone()],
        key => vec![key.clone()],
    });
    Some(sets(&lists.collect::<Vec<_>>()))
}

/// Replaces a position by the expression of the SELECT list that it refers to.
fn resolve_position(key: &mut Expr, projection: &[SelectItem]) -> Result<(), DialectError> {
    let inner = match key {
        Expr::Function(function) if numbered(&function.name.to_string(), "_keys_").is_some() => {
            let sql::FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
            match list.args.first_mut() {
                Some(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(inner))) => inner,
                _ => return Ok(()),
            }
        }
        key => key,
    };
    let Expr::Value(value) = inner else { return Ok(()) };
    let sql::Value::Number(digits, _) = &value.value else { return Ok(()) };
    let digits = digits.clone();
    let place = digits.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    // A star before the item stands for an unknown number of columns.
    let before = place.and_then(|place| projection.get(..=place));
    match before.map(|items| (items.iter().all(is_one_column), items.last())) {
        Some((
            true,
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ }),
        )) => {
            *inner = expr.clone();
            Ok(())
        }
        _ => Err(Refusal::new(
            Reason::Clause,
            format!("GROUP BY {digits}"),
            format!("{digits} is not the position of a key in the SELECT list"),
            "the name of a column in its place: GROUP BY ROLLUP (column)",
        )
        .into()),
    }
}

fn is_one_column(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => true,
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => false,
    }
}

/// The keys of GROUP BY as written, including those inside ROLLUP, CUBE and GROUPING SETS.
pub(super) fn written_keys(items: &[Expr]) -> Vec<&Expr> {
    let mut keys = Vec::new();
    for item in items {
        match item {
            Expr::Rollup(lists) | Expr::Cube(lists) | Expr::GroupingSets(lists) => {
                for key in lists.iter().flatten() {
                    match key {
                        Expr::Function(function) if nested(function).is_some() => {
                            keys.extend(arguments(function));
                        }
                        key => keys.push(key),
                    }
                }
            }
            key => keys.push(key),
        }
    }
    keys
}

/// The expressions in the parentheses of a call.
fn arguments(function: &sql::Function) -> Vec<&Expr> {
    let sql::FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let expressions = list.args.iter().filter_map(|argument| match argument {
        sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(expr)) => Some(expr),
        sql::FunctionArg::Unnamed(_)
        | sql::FunctionArg::Named { .. }
        | sql::FunctionArg::ExprNamed { .. } => None,
    });
    expressions.collect()
}

/// The refusal of too many sets, with the sets that are usually needed.
fn too_many(items: &[Expr], left: usize) -> Refusal {
    let mut keys: Vec<String> =
        written_keys(items).into_iter().map(|key| bare(key).to_string()).collect();
    keys.dedup();
    let first = keys.first().cloned().unwrap_or_default();
    let already = match left {
        MOST_SETS => String::new(),
        _ => format!(", of which other SELECTs of this statement have {}", MOST_SETS - left),
    };
    Refusal::new(
        Reason::TooLarge,
        "GROUP BY",
        format!(
            "a statement has at most {MOST_SETS} sets of keys, each computed on its own{already}"
        ),
        format!(
            "the sets that you need: GROUP BY GROUPING SETS (({}), ({first}), ())",
            keys.join(", ")
        ),
    )
}

/// A key without the marker of KEYS around it.
fn bare(key: &Expr) -> &Expr {
    let Expr::Function(function) = key else { return key };
    if numbered(&function.name.to_string(), "_keys_").is_none() {
        return key;
    }
    let sql::FunctionArguments::List(list) = &function.args else { return key };
    match list.args.first() {
        Some(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(inner))) => inner,
        _ => key,
    }
}

/// Refuses releases that give one answer instead of a number for each group, because a set has no
/// column for the answer.
///
/// # Errors
/// The refusal, with the statements to write instead.
pub(super) fn only_numbers<'a>(
    group_by: &GroupByExpr,
    releases: impl Iterator<Item = &'a ReleaseClause>,
) -> Result<(), Refusal> {
    let GroupByExpr::Expressions(items, _) = group_by else { return Ok(()) };
    let [Expr::GroupingSets(sets)] = items.as_slice() else { return Ok(()) };
    for release in releases {
        let what = match &release.operand {
            Operand::Aggregate(_) => continue,
            Operand::Selection(selection) => {
                format!("{} {} chooses one of the keys", selection.selector, release.text)
            }
            Operand::Response => format!("RANDOMIZED_RESPONSE {} answers row by row", release.text),
        };
        let mut each: Vec<String> = Vec::new();
        for set in sets {
            let keys: Vec<String> = set.iter().map(|key| bare(key).to_string()).collect();
            let text = match keys.is_empty() {
                true => "one without GROUP BY".to_owned(),
                false => format!("GROUP BY {}", keys.join(", ")),
            };
            if !each.contains(&text) {
                each.push(text);
            }
        }
        return Err(Refusal::new(
            Reason::Operator,
            &release.text,
            format!("{what}, and ROLLUP, CUBE and GROUPING SETS take numbers for each group"),
            format!("one statement for each set, with a cost of its own: {}", each.join("; ")),
        ));
    }
    Ok(())
}
