//! What a query would cost and how accurate it would be, without reading anything.
//!
//! In: stages 2 to 4 of a query, or the refusal that ended them. Out: an [`Explanation`], as aligned text or
//! as one JSON object. Answers are random and explanations are not: they are what the tests pin down.

use std::fmt;

use num_traits::Zero;
use serde_json::{Value, json};

use crate::analysis::{Measure, Part, Use, approximate, describe_unit, prefers_low};
use crate::answer::short;
use crate::catalog::Unit;
use crate::dialect::MechanismName;
use crate::ledger::BudgetQuote;
use crate::privacy::{Rational, Spend, decimal_text};
use crate::refusal::Refusal;
use crate::release::{Mechanism, Mechanized, Predicted, Release, parameters_text};

/// An explanation of a query: lines of (name, text), and the same as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    lines: Vec<(&'static str, String)>,
    json: Value,
}

impl Explanation {
    /// The explanation as one JSON object.
    pub fn to_json(&self) -> String {
        self.json.to_string()
    }

    /// The explanation of a query that is allowed.
    pub(crate) fn of(release: &Release, spend: Spend, quotes: &[BudgetQuote]) -> Self {
        let mut lines = Vec::new();
        let mut releases = Vec::new();
        for (i, part) in release.analysis().parts().iter().enumerate() {
            lines.push(("unit", unit_text(part.table(), part.unit())));
            for (measure, mechanized) in part.measures().iter().zip(release.mechanisms(i)) {
                lines.extend(release_lines(part, measure, mechanized));
                releases.push(release_json(part, measure, mechanized));
            }
        }
        lines.push(("cost", spend.to_string()));
        for quote in quotes {
            lines.push(("budget", budget_text(quote)));
        }
        let mut steps = release.analysis().steps().to_vec();
        if !releases.is_empty() {
            let names = release.analysis().parts().iter().enumerate().flat_map(|(i, part)| {
                part.measures().iter().zip(release.mechanisms(i)).map(|(m, x)| privatize(m, x))
            });
            steps.push(format!("Privatize {}", names.collect::<Vec<_>>().join(", ")));
        } else {
            steps.push("nothing private is read".to_owned());
        }
        lines.push(("derivation", steps.join(" → ")));
        let json = json!({
            "releases": releases,
            "cost": spend_json(spend),
            "budgets": quotes.iter().map(|q| json!({
                "name": q.budget,
                "left": spend_json(minus(q.limit, q.spent)),
                "after": spend_json(q.after_left()),
            })).collect::<Vec<_>>(),
            "derivation": derivation_tree(&steps),
        });
        Self { lines, json }
    }

    /// The explanation of a query that is refused: how far the analysis came, and the fix.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        let mut lines = vec![
            ("refused", format!("{} {}", refusal.code(), refusal.message())),
            ("in", refusal.clause().to_owned()),
            ("write", refusal.hint().to_owned()),
        ];
        if !refusal.derivation().is_empty() {
            lines.push(("derivation", format!("{} → refused", refusal.derivation().join(" → "))));
        }
        lines.retain(|(_, text)| !text.is_empty());
        let json = json!({
            "refused": {
                "code": refusal.code(),
                "message": refusal.message(),
                "clause": refusal.clause(),
                "hint": refusal.hint(),
            },
            "derivation": derivation_tree(refusal.derivation()),
        });
        Self { lines, json }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, text)) in self.lines.iter().enumerate() {
            let end = if i + 1 == self.lines.len() { "" } else { "\n" };
            write!(f, " {name:<12} {text}{end}")?;
        }
        Ok(())
    }
}

/// The steps as a tree: each step over the one it reads.
fn derivation_tree(steps: &[String]) -> Value {
    steps.iter().fold(Value::Null, |below, step| match below {
        Value::Null => json!({ "step": step }),
        below => json!({ "step": step, "input": below }),
    })
}

fn unit_text(table: &str, unit: &Unit) -> String {
    match unit {
        Unit::Row => format!("row of {table} (add/remove one)"),
        Unit::Column { column, .. } => {
            format!(
                "{column} of {table} (add/remove one with all its rows); {}",
                describe_unit(unit)
            )
        }
    }
}

fn exact(value: &Rational) -> String {
    decimal_text(value, 12)
}

fn grid_text(measure: &Measure, units: i128) -> String {
    exact(&(Rational::from_integer(units.into()) * measure.grid_unit()))
}

fn sensitivity_text(measure: &Measure, units: u128) -> String {
    exact(&(Rational::from_integer(units.into()) * measure.grid_unit()))
}

fn bounds_text(measure: &Measure) -> String {
    let count = |n: Option<u64>, what: &str| n.map(|n| format!("{n} {what}"));
    let limits = &measure.limits;
    [
        count(limits.rows_in_all, "rows in all"),
        count(Some(limits.rows_per_group), "per group"),
        count(limits.groups, "groups"),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

fn release_lines(
    part: &Part,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let bounded = !matches!(part.unit(), Unit::Row);
    match &measure.use_ {
        Use::Score { selector, candidates, range, .. } => {
            let score = score_text(measure);
            let one = if prefers_low(*selector) { "lowest" } else { "highest" };
            lines.push((
                "score",
                format!(
                    "{score}   one row changes a score by {}..{}   range {}{}   the {one} wins",
                    grid_text(measure, measure.lo.min(0)),
                    grid_text(measure, measure.hi.max(0)),
                    sensitivity_text(measure, *range),
                    one_way(measure),
                ),
            ));
            if bounded {
                lines.push(("bounds", format!("{} (enforced per unit)", bounds_text(measure))));
            }
            lines.push((
                "candidates",
                format!("{}, public ({}), uniform prior", candidates.len(), measure.clause.text),
            ));
            lines.push(("draws", draws_text(measure, mechanized)));
        }
        Use::Number(sensitivity) => {
            lines.push(("release", measure.clause.text.clone()));
            lines.push((
                "range",
                format!(
                    "{}..{} a row{}   Δ₁ = {}",
                    grid_text(measure, measure.lo),
                    grid_text(measure, measure.hi),
                    if measure.width() == 2 {
                        ", released as Σ(x − lo) and Σ(hi − x)"
                    } else {
                        ""
                    },
                    sensitivity_text(measure, sensitivity.l1),
                ),
            ));
            if bounded {
                lines.push(("bounds", format!("{} (enforced per unit)", bounds_text(measure))));
            }
            if !part.key_names().is_empty() {
                let keys = part.keys().len();
                lines.push((
                    "keys",
                    format!(
                        "{keys}, public ({}), all of them come out",
                        part.key_names().join(", ")
                    ),
                ));
            }
            lines.push(("noise", noise_text(measure, mechanized)));
        }
    }
    lines.push(("error", error_text(measure, mechanized)));
    lines
}

fn score_text(measure: &Measure) -> String {
    match &measure.clause.operand {
        crate::dialect::Operand::Selection { score, .. } if score.star => {
            format!("{}(*)", score.function)
        }
        crate::dialect::Operand::Selection { score, .. } => {
            let distinct = if score.distinct { "DISTINCT " } else { "" };
            format!("{}({distinct}…)", score.function)
        }
        crate::dialect::Operand::Aggregate(_) => measure.clause.text.clone(),
    }
}

fn one_way(measure: &Measure) -> &'static str {
    if measure.clause.parameters.monotonic == Some(false) {
        " (monotonic=false: twice the largest change is used)"
    } else if measure.lo >= 0 || measure.hi <= 0 {
        " (all one way: no factor 2)"
    } else {
        ""
    }
}

fn draws_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let low = match &measure.use_ {
        Use::Score { selector, .. } => prefers_low(*selector),
        Use::Number(_) => false,
    };
    let sign = if low { "−" } else { "" };
    let rate = |exponent: &Rational| exact_rate(&(exponent / measure.grid_unit()));
    let text = &measure.clause.text;
    match &mechanized.mechanism {
        Mechanism::Exponential(m) => format!(
            "P({text}) ∝ exp({sign}{} × score), exact integer arithmetic",
            rate(m.exponent())
        ),
        Mechanism::PermuteAndFlip(m) => format!(
            "in random order, accept {text} with exp(−{} × (best − score)), exact integer arithmetic",
            rate(m.exponent())
        ),
        Mechanism::NoisyMax(m) => format!(
            "Laplace noise of scale {} on every score, the best wins, exact integer arithmetic",
            exact_rate(&(m.exponent().recip() * measure.grid_unit()))
        ),
        Mechanism::Laplace(_) | Mechanism::Gaussian(_) => noise_text(measure, mechanized),
    }
}

/// A rate with three places at least, more when it is small.
fn exact_rate(value: &Rational) -> String {
    let text = decimal_text(value, 9);
    if value.is_integer() && !value.is_zero() { format!("{text}.000") } else { text }
}

fn noise_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let scaled = |scale: &Rational| decimal_text(&(scale * measure.grid_unit()), 6);
    match &mechanized.mechanism {
        Mechanism::Laplace(m) => {
            format!("discrete Laplace, scale {} = Δ₁/ε, exact on its grid", scaled(m.scale()))
        }
        Mechanism::Gaussian(m) => {
            format!("discrete Gaussian, σ = {}, exact on its grid", scaled(&m.sigma()))
        }
        Mechanism::Exponential(_) | Mechanism::PermuteAndFlip(_) | Mechanism::NoisyMax(_) => {
            String::new()
        }
    }
}

fn error_text(measure: &Measure, mechanized: &Mechanized) -> String {
    match mechanized.accuracy {
        Predicted::Within(t) => format!("with 95 %: within {} of the bounded aggregate", short(t)),
        Predicted::WithinOverCount(t) => format!(
            "with 95 %: within {}/n of the bounded mean, n the noisy number of rows",
            short(t)
        ),
        Predicted::Winner { worst, average } => {
            let unit = match measure.input {
                crate::analysis::Input::Rows | crate::analysis::Input::Values(_) => " rows",
                crate::analysis::Input::Units => " units",
                _ => "",
            };
            format!(
                "with 95 %: the winner is within {}{unit} of the best, whatever the data; on average within {}",
                short(worst),
                short(average)
            )
        }
    }
}

fn privatize(measure: &Measure, mechanized: &Mechanized) -> String {
    match &measure.use_ {
        Use::Score { selector, .. } => format!("{selector} {}", mechanized.mechanism.name()),
        Use::Number(_) => mechanized.mechanism.name().to_string(),
    }
}

fn minus(a: Spend, b: Spend) -> Spend {
    Spend {
        nano_epsilon: a.nano_epsilon.saturating_sub(b.nano_epsilon).max(0),
        atto_delta: a.atto_delta.saturating_sub(b.atto_delta).max(0),
    }
}

impl BudgetQuote {
    /// What would be left after the charge.
    pub(crate) fn after_left(&self) -> Spend {
        minus(self.limit, self.after)
    }
}

fn budget_text(quote: &BudgetQuote) -> String {
    let left = minus(quote.limit, quote.spent);
    let after = quote.after_left();
    let delta = |spend: Spend| {
        if quote.limit.atto_delta == 0 {
            String::new()
        } else {
            format!(", δ {}", spend.delta_text())
        }
    };
    format!(
        "{}: ε {}{} left → ε {}{} after",
        quote.budget,
        left.epsilon_text(),
        delta(left),
        after.epsilon_text(),
        delta(after),
    )
}

fn number(text: &str) -> Value {
    text.parse::<serde_json::Number>().map_or_else(|_| json!(text), Value::Number)
}

fn spend_json(spend: Spend) -> Value {
    json!({ "epsilon": number(&spend.epsilon_text()), "delta": number(&spend.delta_text()) })
}

fn release_json(part: &Part, measure: &Measure, mechanized: &Mechanized) -> Value {
    let limits = &measure.limits;
    let mut object = json!({
        "operand": measure.clause.text,
        "mechanism": mechanized.mechanism.name().to_string(),
        "parameters": parameters_text(&measure.clause.parameters, &mechanized.loss, limits),
        "unit": unit_text(part.table(), part.unit()),
        "bounds": {
            "rows_in_all": limits.rows_in_all,
            "rows_per_group": limits.rows_per_group,
            "groups": limits.groups,
        },
        "least_per_row": number(&grid_text(measure, measure.lo)),
        "greatest_per_row": number(&grid_text(measure, measure.hi)),
        "keys": part.keys().len(),
        "epsilon": number(&exact(mechanized.loss.epsilon())),
    });
    let mut set = |name: &str, value: Value| {
        if let Value::Object(map) = &mut object {
            map.insert(name.to_owned(), value);
        }
    };
    match &measure.use_ {
        Use::Score { selector, candidates, range, .. } => {
            set("selector", json!(selector.to_string()));
            set("candidates", json!(candidates.len()));
            set("range", number(&sensitivity_text(measure, *range)));
        }
        Use::Number(sensitivity) => {
            set("l1", number(&sensitivity_text(measure, sensitivity.l1)));
        }
    }
    match &mechanized.mechanism {
        Mechanism::Laplace(m) => {
            set("scale", json!(approximate(&(m.scale() * measure.grid_unit()))));
        }
        Mechanism::Gaussian(m) => {
            set("sigma", json!(approximate(&(m.sigma() * measure.grid_unit()))));
            set("delta", json!(approximate(mechanized.loss.delta())));
        }
        Mechanism::Exponential(m) => {
            set("exponent", json!(approximate(&(m.exponent() / measure.grid_unit()))));
        }
        Mechanism::PermuteAndFlip(m) => {
            set("exponent", json!(approximate(&(m.exponent() / measure.grid_unit()))));
        }
        Mechanism::NoisyMax(m) => {
            set("scale", json!(approximate(&(m.exponent().recip() * measure.grid_unit()))));
        }
    }
    match mechanized.accuracy {
        Predicted::Within(value) => set("within", json!(value)),
        Predicted::WithinOverCount(value) => set("within_over_rows", json!(value)),
        Predicted::Winner { worst, average } => {
            set("winner_within", json!(worst));
            set("average_within", json!(average));
        }
    }
    object
}

/// How a release stands in the ledger: mechanism, parameters and sensitivity, all independent of the data.
pub(crate) fn ledger_texts(measure: &Measure, mechanized: &Mechanized) -> (String, String, String) {
    let name: MechanismName = mechanized.mechanism.name();
    let (mechanism, sensitivity) = match &measure.use_ {
        Use::Score { selector, range, .. } => {
            (format!("{selector} {name}"), format!("range {}", sensitivity_text(measure, *range)))
        }
        Use::Number(sensitivity) => {
            (name.to_string(), format!("l1 {}", sensitivity_text(measure, sensitivity.l1)))
        }
    };
    let parameters = parameters_text(&measure.clause.parameters, &mechanized.loss, &measure.limits);
    (mechanism, parameters, sensitivity)
}
