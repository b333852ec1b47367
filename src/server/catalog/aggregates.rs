//! Groups of rows, and aggregates over them.

use std::collections::{BTreeSet, HashMap};

use super::compile::Aggregate;
use super::datum::{Datum, Row, Unanswered};
use super::node::{Env, Node};
use super::order::by;

/// The groups of rows, each with its first row. Without keys, all rows are one group.
pub(super) fn grouped(
    keys: &[Node],
    rows: Vec<Row>,
    env: &Env<'_>,
) -> Result<Vec<(Row, Vec<Row>)>, Unanswered> {
    if keys.is_empty() {
        return Ok(vec![(rows.first().cloned().unwrap_or_default(), rows)]);
    }
    let mut groups: Vec<(Row, Vec<Row>)> = Vec::new();
    let mut places: HashMap<Vec<Option<String>>, usize> = HashMap::new();
    for row in rows {
        let here = Env { row: &row, ..*env };
        let key = keys
            .iter()
            .map(|node| Ok(node.value(&here)?.text()))
            .collect::<Result<_, Unanswered>>()?;
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, members)) => members.push(row),
            None => groups.push((row.clone(), vec![row])),
        }
    }
    Ok(groups)
}

pub(super) fn aggregated(
    aggregate: &Aggregate,
    rows: &[Row],
    env: &Env<'_>,
) -> Result<Datum, Unanswered> {
    let Aggregate { name, values, order, distinct: once, filter } = aggregate;
    let mut kept = Vec::new();
    for row in rows {
        let here = Env { row, ..*env };
        if let Some(filter) = filter
            && filter.value(&here)?.truth() != Some(true)
        {
            continue;
        }
        let values = values.iter().map(|node| node.value(&here)).collect::<Result<Row, _>>()?;
        let key = order.iter().map(|sort| sort.by.value(&here)).collect::<Result<Row, _>>()?;
        kept.push((key, values));
    }
    kept.sort_by(|(a, _), (b, _)| by(order, a, b));
    let between = kept.first().and_then(|(_, values)| values.get(1)).and_then(Datum::text);
    let pairs = name.ends_with("object_agg").then(|| kept.clone());
    let mut cells: Vec<Datum> = kept
        .into_iter()
        .map(|(_, values)| values.into_iter().next().unwrap_or(Datum::Int(1)))
        .collect();
    if !["array_agg", "json_agg", "jsonb_agg"].contains(&name.as_str()) {
        cells.retain(|cell| !cell.is_null());
    }
    if *once {
        let mut seen = BTreeSet::new();
        cells.retain(|cell| seen.insert(cell.clone()));
    }
    if cells.is_empty() && name != "count" {
        return Ok(Datum::Null);
    }
    let truths = || {
        cells
            .iter()
            .map(|cell| cell.truth().ok_or(Unanswered::Unclear))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(match name.as_str() {
        "count" => Datum::Int(i64::try_from(cells.len()).map_err(|_| Unanswered::Unclear)?),
        "max" => cells.into_iter().max().unwrap_or(Datum::Null),
        "min" => cells.into_iter().min().unwrap_or(Datum::Null),
        "sum" => {
            let sum = cells.iter().try_fold(0_i64, |sum, cell| sum.checked_add(cell.int()?));
            Datum::Int(sum.ok_or(Unanswered::Unclear)?)
        }
        "bool_and" | "every" => Datum::Bool(truths()?.into_iter().all(|truth| truth)),
        "bool_or" => Datum::Bool(truths()?.into_iter().any(|truth| truth)),
        "avg" => {
            let sum = cells.iter().try_fold(0_i64, |sum, cell| sum.checked_add(cell.int()?));
            let count = i64::try_from(cells.len()).map_err(|_| Unanswered::Unclear)?;
            // Means are whole numbers here, or there is no answer.
            let mean = sum.filter(|sum| sum.checked_rem(count) == Some(0));
            Datum::Int(mean.and_then(|sum| sum.checked_div(count)).ok_or(Unanswered::Unclear)?)
        }
        "array_agg" => Datum::List(cells),
        "json_agg" | "jsonb_agg" => {
            let list: serde_json::Value = cells.iter().map(Datum::json).collect();
            Datum::Text(list.to_string().into())
        }
        "json_object_agg" | "jsonb_object_agg" => {
            let each = pairs.into_iter().flatten().filter_map(|(_, values)| {
                let name = values.first()?.text()?;
                Some((name, values.get(1)?.json()))
            });
            Datum::Text(serde_json::Value::Object(each.collect()).to_string().into())
        }
        "string_agg" => {
            let texts: Vec<String> = cells.iter().filter_map(Datum::text).collect();
            Datum::Text(texts.join(&between.unwrap_or_default()).into())
        }
        _ => return Err(Unanswered::Unclear),
    })
}
