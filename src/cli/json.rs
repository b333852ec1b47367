//! Answers, explanations and failures as JSON: one object per statement and line.
//!
//! In: the outcome of a statement. Out: one line without its line break. Integers and decimals have
//! all their digits, dates are strings, and an amount of ε or δ is the number that the ledger
//! holds. Characters that control a terminal are JSON escapes.
//!
//! ```text
//! {"columns":["n"],"rows":[[4440]],"accuracy":[{"column":"n","kind":"within","value":2.99,"confidence":0.95}],
//!  "errors":{"n":[2.99]},"cost":{"epsilon":1,"delta":0},"left":{"research":{"epsilon":9,"delta":0.000001}}}
//! ```

use std::collections::BTreeMap;

use hushql::privacy::{Cost, Notion, Spend};
use hushql::{Accuracy, Answer, Receipt};
use hushql_engine::visible;
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

use super::failure::Failure;
use super::view::{Cell, View};

/// The members of an answer before its rows. The rows are written separately, with all digits.
#[derive(Debug, Serialize)]
struct JsonHead<'a> {
    columns: Vec<&'a str>,
}

/// The members after the rows.
#[derive(Debug, Serialize)]
struct Tail<'a> {
    accuracy: Vec<AccuracyItem<'a>>,
    /// For each column with a ±, the ± of every row.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<&'a str, Vec<Value>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    cost: Amount,
    /// The remainder of each budget that was charged; for a replayed answer, of each budget that
    /// its query would charge.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left: BTreeMap<&'a str, Amount>,
    /// The numbers of the charges that paid for replayed answers.
    #[serde(skip_serializing_if = "<[i64]>::is_empty")]
    replayed: &'a [i64],
    /// The numbers of the charges that paid for draws on which numbers are built.
    #[serde(skip_serializing_if = "<[i64]>::is_empty")]
    refined: &'a [i64],
}

#[derive(Debug, Serialize)]
struct AccuracyItem<'a> {
    column: &'a str,
    kind: String,
    value: Value,
    confidence: f64,
}

/// `epsilon`, `rho` or `coupons`, with its `delta`. In a cost of several notions, the δ of ρ is
/// `rho_delta`, and so on.
#[derive(Debug)]
struct Amount(Vec<(&'static str, Value)>);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (*name, value)))
    }
}

#[derive(Debug, Serialize)]
struct ErrorLine<'a> {
    error: ErrorItem<'a>,
}

#[derive(Debug, Serialize)]
struct ErrorItem<'a> {
    kind: &'a str,
    code: Option<&'a str>,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

#[derive(Debug, Serialize)]
struct DoneLine<'a> {
    done: &'a str,
}

/// An answer, its accuracy and its cost.
pub(super) fn answer(answer: &Answer, view: &View) -> serde_json::Result<String> {
    let item = |a: &'_ Accuracy| (a.kind.to_string(), a.value, a.confidence);
    let accuracy = answer.accuracy().iter().map(|a| {
        let (kind, value, confidence) = item(a);
        AccuracyItem { column: &a.column, kind, value: float(value), confidence }
    });
    let receipt = answer.receipt();
    let left = receipt.into_iter().flat_map(|r| &r.left).map(|(name, left)| (name.as_str(), *left));
    let spent = receipt.map_or_else(Cost::default, |r| r.spent);
    let charges = |of: fn(&Receipt) -> &[i64]| receipt.map_or(&[][..], of);
    let earlier = [charges(|r| &r.replayed), charges(|r| &r.refined)];
    line(view, accuracy.collect(), answer.notes(), (spent, earlier), left)
}

fn line<'a>(
    view: &'a View,
    accuracy: Vec<AccuracyItem<'a>>,
    notes: &'a [String],
    (spent, [replayed, refined]): (Cost, [&'a [i64]; 2]),
    left: impl Iterator<Item = (&'a str, Spend)>,
) -> serde_json::Result<String> {
    let columns = view.columns.iter().map(|column| column.name.as_str()).collect();
    let head = serde_json::to_string(&JsonHead { columns })?;
    let tail = serde_json::to_string(&Tail {
        accuracy,
        errors: view
            .columns
            .iter()
            .filter_map(|c| Some((c.name.as_str(), &c.margin.as_ref()?.errors)))
            .map(|(name, errors)| (name, errors.iter().map(|e| e.map_or(Value::Null, float))))
            .map(|(name, errors)| (name, errors.collect()))
            .collect(),
        notes,
        cost: cost(spent.neat()),
        left: left.map(|(name, left)| (name, amount(left.neat_down()))).collect(),
        replayed,
        refined,
    })?;
    let rows = rows(view)?;
    // Both objects become one, with the rows between their members.
    let (head, tail) = (head.trim_end_matches('}'), tail.trim_start_matches('{'));
    Ok(visible::json(&format!("{head},\"rows\":[{rows}],{tail}")).into_owned())
}

/// The rows of an answer, without the brackets around them.
pub(super) fn rows(view: &View) -> serde_json::Result<String> {
    let rows = view.rows.iter().map(|row| {
        let cells: Vec<String> = row.iter().map(cell).collect::<serde_json::Result<_>>()?;
        Ok(format!("[{}]", cells.join(",")))
    });
    Ok(rows.collect::<serde_json::Result<Vec<_>>>()?.join(","))
}

/// A failure, and the line of the script where its statement begins.
pub(super) fn failure(failure: &Failure, line: Option<u64>) -> serde_json::Result<String> {
    let (message, hint) = (failure.message(), failure.hint());
    let (kind, code) = (failure.kind(), failure.code());
    let error = ErrorItem { kind, code, message: &message, hint: hint.as_deref(), line };
    written(&ErrorLine { error })
}

/// The effect of a declaration.
pub(super) fn done(sentence: &str) -> serde_json::Result<String> {
    written(&DoneLine { done: sentence })
}

/// Any line.
fn written(line: &impl Serialize) -> serde_json::Result<String> {
    Ok(visible::json(&serde_json::to_string(line)?).into_owned())
}

/// An object on one line: a JSON string contains no raw line break, so the layout can be removed.
pub(super) fn one_line(object: &str) -> String {
    object.lines().map(str::trim).collect()
}

/// A value as JSON. A number keeps all its digits: JSON does not limit them, but a float would.
fn cell(cell: &Cell) -> serde_json::Result<String> {
    let value = match cell {
        Cell::Null => Value::Null,
        Cell::Boolean(value) => Value::Bool(*value),
        Cell::Number(text) if is_plain(text) => return Ok(text.clone()),
        Cell::Number(text) => number(text),
        Cell::Text(text) => Value::String(text.clone()),
    };
    serde_json::to_string(&value)
}

/// Whether a number consists of a sign, digits and at most a point, as JSON writes it.
fn is_plain(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_number(whole) && is_number(fraction) && (whole == "0" || !whole.starts_with('0'))
}

fn amount(spend: Spend) -> Amount {
    Amount(vec![
        (spend.notion.name(), number(&spend.loss_text())),
        ("delta", number(&spend.delta_text())),
    ])
}

fn cost(cost: Cost) -> Amount {
    let mut parts = cost.parts();
    let mut amount = amount(parts.next().unwrap_or_default());
    for part in parts {
        let delta = match part.notion {
            Notion::Approximate => "epsilon_delta",
            Notion::Concentrated => "rho_delta",
            Notion::Coupons => "coupons_delta",
        };
        amount.0.push((part.notion.name(), number(&part.loss_text())));
        amount.0.push((delta, number(&part.delta_text())));
    }
    amount
}

/// A decimal text as a number. If JSON has no such number, it becomes a text, as in PostgreSQL's
/// `to_json`.
fn number(text: &str) -> Value {
    let named = |_| match text {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        other => other,
    };
    let named = |error| Value::String(named(error).to_owned());
    text.parse::<Number>().map_or_else(named, Value::Number)
}

/// The same for a float.
fn float(value: f64) -> Value {
    Number::from_f64(value).map_or_else(|| number(&value.to_string()), Value::Number)
}

#[cfg(test)]
mod tests {
    use hushql::privacy::{Epsilon, Loss};

    use super::super::view::{AnswerColumn, ColumnFormat};
    use super::*;

    #[test]
    fn an_answer_has_the_promised_shape() {
        let column = |name: &str, kind| AnswerColumn { name: name.to_owned(), kind, margin: None };
        let number = |text: &str| Cell::Number(text.to_owned());
        let text = |text: &str| Cell::Text(text.to_owned());
        let view = View {
            columns: vec![
                column("n", ColumnFormat::Integer),
                column("x", ColumnFormat::Number),
                column("d", ColumnFormat::Text),
            ],
            rows: vec![
                vec![number("9223372036854775807"), number("1.5"), text("2025-01-31")],
                vec![number("99999999999999999999"), number("999999999999.999999"), text("")],
                vec![Cell::Null, number("inf"), Cell::Boolean(true)],
                vec![Cell::Null, number("-inf"), Cell::Null],
                vec![Cell::Null, number("NaN"), text("")],
            ],
            winners: Vec::new(),
        };
        let kind = "within".to_owned();
        let accuracy =
            vec![AccuracyItem { column: "n", kind, value: float(2.99), confidence: 0.95 }];
        let half: Epsilon = "0.5".parse().unwrap();
        let both = Cost::round_up(&Loss::pure(&half)).unwrap();
        let cost = both.counted_in(&[Notion::Approximate]);
        let left = Spend::of_epsilon(9_000_000_000, 1_000_000_000_000);
        assert_eq!(
            line(&view, accuracy, &[], (cost, [&[], &[]]), [("research", left)].into_iter())
                .unwrap(),
            "{\"columns\":[\"n\",\"x\",\"d\"],\
             \"rows\":[[9223372036854775807,1.5,\"2025-01-31\"],\
             [99999999999999999999,999999999999.999999,\"\"],[null,\"Infinity\",true],\
             [null,\"-Infinity\",null],[null,\"NaN\",\"\"]],\
             \"accuracy\":[{\"column\":\"n\",\"kind\":\"within\",\"value\":2.99,\"confidence\":0.95}],\
             \"cost\":{\"epsilon\":0.5,\"delta\":0},\
             \"left\":{\"research\":{\"epsilon\":9,\"delta\":1e-6}}}"
        );
        let amounts = serde_json::to_string(&[super::cost(both), amount(Spend::of_rho(1, 0))]);
        assert_eq!(
            amounts.unwrap(),
            "[{\"epsilon\":0.5,\"delta\":0,\"rho\":0.122459332,\"rho_delta\":0},\
             {\"rho\":1e-9,\"delta\":0}]"
        );
    }

    #[test]
    fn a_failure_has_the_promised_shape() {
        assert_eq!(
            failure(&Failure::NoBars, None).unwrap(),
            "{\"error\":{\"kind\":\"usage\",\"code\":null,\"message\":\"there is nothing to plot: the \
             answer needs a numeric column and at least one row\",\"hint\":null}}"
        );
        let of_a_script = failure(&Failure::NoBars, Some(12)).unwrap();
        assert!(of_a_script.ends_with("\"hint\":null,\"line\":12}}"), "{of_a_script}");
    }

    #[test]
    fn objects_are_put_on_one_line() {
        assert_eq!(
            one_line("{\n  \"a\": \"b  c\",\n  \"d\": 1\n}\n"),
            "{\"a\": \"b  c\",\"d\": 1}"
        );
    }
}
