//! What a statement would cost, how far off its answer would be, and what completes a word. Nothing
//! is charged, and no row is read.
//!
//! In: the text of the editor. Out: JSON for the page's script.
//!
//! ```text
//! {"cost": "ε = 0.1", "left": ["adult: ε 10 left → ε 9.9 after"], "columns": [{"column": "n", "text": "± 30.0 (95 %)"}],
//!  "advice": […]}
//! {"curve": [{"factor": 0.5, "cost": "ε = 0.05", "errors": [60.0]}, …]}
//! ```

use std::sync::Arc;

use http::StatusCode;
use hushql::{Accuracy, AccuracyKind, Cost, Error, Forecast, PreparedQuery, Session};
use hushql_engine::visible::{line, rounded};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::form::FormFields;
use super::responses::{Answered, json as json_of, sentence};
use super::state::Console;
use super::visitors::Visitor;

/// The most completions of a word.
const MOST: usize = 12;

/// The price of a statement.
pub(super) async fn price(
    visitor: Arc<Visitor>,
    fields: &FormFields,
    place: OwnedSemaphorePermit,
) -> Answered {
    let (sql, is_curve) = (fields.get("sql"), fields.get("of") == "curve");
    let priced = move || {
        let _place = place;
        match is_curve {
            true => json!({ "curve": curve_of(&visitor.session, &sql) }),
            false => priced(&visitor.session, &sql),
        }
    };
    match tokio::task::spawn_blocking(priced).await {
        Ok(value) => json_of(&value),
        Err(_) => sentence(StatusCode::INTERNAL_SERVER_ERROR, "this price cannot be computed"),
    }
}

/// The completions of the word before the cursor.
pub(super) async fn complete(
    console: &Console,
    visitor: Arc<Visitor>,
    fields: &FormFields,
    place: OwnedSemaphorePermit,
) -> Answered {
    let (sql, complete) = (fields.get("sql"), console.presentation.complete);
    let at: usize = fields.get("at").parse().unwrap_or(0);
    let completed = move || {
        let _place = place;
        let byte = sql.char_indices().nth(at).map_or(sql.len(), |(byte, _)| byte);
        let tables = visitor.session.tables().unwrap_or_default();
        let (start, words) = complete(tables, &sql, byte);
        let start = sql.get(..start).map_or(at, |head| head.chars().count());
        json!({ "start": start, "words": words.into_iter().take(MOST).collect::<Vec<_>>() })
    };
    match tokio::task::spawn_blocking(completed).await {
        Ok(value) => json_of(&value),
        Err(_) => sentence(StatusCode::INTERNAL_SERVER_ERROR, "no words"),
    }
}

fn priced(session: &Session, sql: &str) -> Value {
    match session.prepare(sql) {
        Ok(prepared) => of_query(&prepared),
        Err(error) => match session.cost(sql) {
            // Not a query, such as CREATE RELEASE TABLE.
            Ok(cost) => {
                json!({ "cost": cost.neat().to_string(), "left": [], "columns": [], "advice": [] })
            }
            Err(_) => refused(&error),
        },
    }
}

/// An error, for the page's script.
fn refused(error: &Error) -> Value {
    json!({
        "code": error.code(),
        "refused": error.message(),
        "instead": error.hint(),
        "place": error.position().map(|(line, column)| [line, column]),
    })
}

fn of_query(prepared: &PreparedQuery) -> Value {
    let explanation = prepared.explanation();
    let explained: Value = serde_json::from_str(&explanation.to_json()).unwrap_or_default();
    json!({
        "cost": prepared.cost().neat().to_string(),
        "left": left(prepared),
        "columns": columns(prepared),
        "advice": advice(&explanation.to_string(), &explained),
    })
}

/// What the budgets have left, or which charge paid for the same before, in the words of the
/// explanation.
fn left(prepared: &PreparedQuery) -> Vec<String> {
    let text = prepared.explanation().to_string();
    let line = |line: &str| {
        let line = line.trim_start();
        let found = line.strip_prefix("budget ").or_else(|| line.strip_prefix("replay "));
        found.map(|line| line.trim().to_owned())
    };
    text.lines().filter_map(line).collect()
}

/// The predicted error of each released column, in words.
fn told(accuracy: &Accuracy) -> Option<String> {
    let (value, percent) = (rounded(accuracy.value), accuracy.confidence * 100.0);
    Some(match accuracy.kind {
        AccuracyKind::Within | AccuracyKind::Drawn => format!("± {value} ({percent} %)"),
        AccuracyKind::Winner => format!("within {value} of the best score ({percent} %)"),
        AccuracyKind::OwnRows => {
            format!("no other is better by more than {value} of its own rows ({percent} %)")
        }
        AccuracyKind::Rank => format!("within {value} rows of the rank asked for ({percent} %)"),
        AccuracyKind::BlockRank => {
            format!("within {value} values of blocks of the middle ({percent} %)")
        }
        AccuracyKind::Truthful => format!("truthful with {} %", rounded(accuracy.value * 100.0)),
        _ => return None,
    })
}

fn columns(prepared: &PreparedQuery) -> Vec<Value> {
    let one = |accuracy: &Accuracy| {
        Some(json!({ "column": line(&accuracy.column), "text": told(accuracy)? }))
    };
    prepared.accuracy().iter().filter_map(one).collect()
}

/// What the explanation says about the loosest bound, and where answers are mostly noise; and what
/// to write where that is known.
fn advice(text: &str, explained: &Value) -> Vec<Value> {
    let releases = explained["releases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let loosest: Vec<&Value> = releases.iter().map(|one| &one["loosest"]).collect();
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        for kind in ["mostly noise", "loosest"] {
            let Some(rest) = line.strip_prefix(kind) else { continue };
            let rest = rest.trim();
            let known = loosest.iter().find(|one| one["text"].as_str() == Some(rest));
            let write = known.and_then(|one| one["write"].as_str());
            // Only a whole call can be put in for another.
            let call = write.and_then(|write| write.split_inclusive(')').next());
            let call = call.filter(|call| {
                let name = call.split('(').next().unwrap_or_default();
                !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            });
            let at = known
                .and_then(|one| releases.iter().position(|release| release["loosest"] == **one));
            let call = call.filter(|call| call.contains('='));
            found.push(json!({ "kind": kind, "text": rest, "call": call, "at": at }));
        }
    }
    found
}

/// The errors at other costs, each a power of two of the statement's own.
fn curve_of(session: &Session, sql: &str) -> Vec<Value> {
    let own = session.prepare(sql).map(|prepared| prepared.cost());
    let amount = |cost: Cost| cost.parts().next()?.loss_text().parse::<f64>().ok();
    let Some(own) = own.ok().and_then(amount).filter(|own| *own > 0.0) else { return Vec::new() };
    let forecasts = session.forecast(sql).unwrap_or_default();
    let error = |one: &Accuracy| {
        let within = matches!(one.kind, AccuracyKind::Within | AccuracyKind::Drawn);
        within.then(|| json!({ "column": line(&one.column), "value": one.value }))
    };
    let one = |forecast: &Forecast| {
        let errors: Vec<Value> = forecast.accuracy.iter().filter_map(error).collect();
        let factor = amount(forecast.cost)? / own;
        let cost = forecast.cost.neat().to_string();
        (!errors.is_empty()).then(|| json!({ "factor": factor, "cost": cost, "errors": errors }))
    };
    forecasts.iter().filter_map(one).collect()
}
