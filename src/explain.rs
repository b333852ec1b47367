//! What a query would cost and how accurate it would be, without reading anything.
//!
//! In: stages 2 to 4 of a query, or the refusal that ended them. Out: an [`Explanation`], as aligned text or
//! as one JSON object. Answers are random and explanations are not: they are what the tests pin down.

use std::fmt;

use num_traits::Zero;
use serde_json::{Value, json};

use crate::analysis::{Measure, Part, Sensitivity, Use, approximate, prefers_low};
use crate::answer::short;
use crate::catalog::Unit;
use crate::dialect::{MechanismName, Operand};
use crate::ledger::BudgetQuote;
use crate::privacy::{Rational, Spend, decimal_text, parse_decimal};
use crate::refusal::Refusal;
use crate::release::{Mechanism, Mechanized, Predicted, Release, is_bare, parameters_text};

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
        let mut derivations = Vec::new();
        let mut by_default = false;
        for (i, part) in release.analysis().parts().iter().enumerate() {
            lines.push(("unit", unit_text(part.table(), part.unit())));
            let mut names = Vec::new();
            for (measure, mechanized) in part.measures().iter().zip(release.mechanisms(i)) {
                lines.extend(release_lines(part, measure, mechanized));
                releases.push(release_json(part, measure, mechanized));
                names.push(privatize(measure, mechanized));
                by_default |= is_bare(measure);
            }
            let mut steps = part.steps().to_vec();
            steps.push(format!("Privatize {}", names.join(", ")));
            derivations.push(steps);
        }
        let named_by =
            if by_default { " (what names no cost shares the PER QUERY default)" } else { "" };
        lines.push(("cost", format!("{spend}{named_by}")));
        for quote in quotes {
            lines.push(("budget", budget_text(quote)));
        }
        if derivations.is_empty() {
            derivations.push(vec!["nothing private is read".to_owned()]);
        }
        lines.extend(derivations.iter().map(|steps| ("derivation", steps.join(" → "))));
        let json = json!({
            "releases": releases,
            "cost": spend_json(spend),
            "budgets": quotes.iter().map(|q| json!({
                "name": q.budget,
                "left": spend_json(minus(q.limit, q.spent)),
                "after": spend_json(q.after_left()),
            })).collect::<Vec<_>>(),
            "derivation": match derivations.as_slice() {
                [steps] => derivation_tree(steps),
                several => json!({
                    "step": "SELECT over the released tables",
                    "inputs": several.iter().map(|s| derivation_tree(s)).collect::<Vec<_>>(),
                }),
            },
        });
        Self { lines, json }
    }

    /// The same explanation of a query that its budget does not allow.
    pub(crate) fn over_budget(mut self, sentence: &str) -> Self {
        let at = self.lines.iter().position(|(name, _)| *name == "derivation");
        self.lines.insert(at.unwrap_or(self.lines.len()), ("budget", sentence.to_owned()));
        if let Value::Object(map) = &mut self.json {
            map.insert("over_budget".to_owned(), json!(sentence));
        }
        self
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
            let rows = unit.max_rows().map_or("any number".to_owned(), |n| format!("at most {n}"));
            format!("{column} of {table} (add/remove one with all its rows, {rows})")
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
    let limits = &measure.limits;
    let some = |n: u64, one: &str, more: &str| {
        if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
    };
    let mut parts = Vec::new();
    parts.extend(limits.rows_in_all.map(|n| some(n, "row in all", "rows in all")));
    parts.push(if measure.once_per_group() {
        "once in a group".to_owned()
    } else {
        some(limits.rows_per_group, "row in a group", "rows in a group")
    });
    parts.extend(limits.groups.map(|n| some(n, "group", "groups")));
    format!("per unit {} (enforced)", parts.join(", "))
}

/// The range that the mechanism is calibrated to.
fn calibrated_range(measure: &Measure, range: u128, largest: u128) -> u128 {
    match measure.clause.parameters.monotonic {
        Some(false) => largest.saturating_mul(2),
        Some(true) | None => range,
    }
}

fn release_lines(
    part: &Part,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let is_row = matches!(part.unit(), Unit::Row);
    let bounds = (!is_row).then(|| ("bounds", bounds_text(measure)));
    match &measure.use_ {
        Use::Score { selector, candidates, range, largest } => {
            let one = if prefers_low(*selector) { "lowest" } else { "highest" };
            let range = calibrated_range(measure, *range, *largest);
            lines.push((
                "score",
                format!(
                    "{}   {}   range {}{}   the {one} wins",
                    score_text(measure),
                    change_text(measure, is_row),
                    sensitivity_text(measure, range),
                    one_way(measure),
                ),
            ));
            lines.extend(bounds);
            lines.push((
                "candidates",
                format!("{}, public ({}), uniform prior", candidates.len(), source_text(measure)),
            ));
            lines.push(("draws", draws_text(measure, mechanized)));
        }
        Use::Number(_) => {
            lines.push(("release", measure.clause.text.clone()));
            lines.push((
                "range",
                format!(
                    "{}..{} {}{}   {}",
                    grid_text(measure, measure.lo),
                    grid_text(measure, measure.hi),
                    if measure.once_per_group() { "a unit in a group" } else { "a row" },
                    if measure.width() == 2 {
                        ", released as Σ(x − lo) and Σ(hi − x)"
                    } else {
                        ""
                    },
                    norm_text(measure, mechanized),
                ),
            ));
            lines.extend(bounds);
            if !part.key_names().is_empty() {
                let names = part.key_names().join(" × ");
                let keys = part.keys().len();
                lines.push((
                    "keys",
                    format!("{keys}, public ({names}), all of them come out, also the empty ones"),
                ));
            }
            lines.push(("noise", noise_text(measure, mechanized)));
        }
    }
    lines.push(("error", error_text(measure, mechanized)));
    lines
}

fn score_text(measure: &Measure) -> &str {
    match &measure.clause.operand {
        Operand::Selection { by, .. } => by,
        Operand::Aggregate(_) => &measure.clause.text,
    }
}

/// Where the candidates come from.
fn source_text(measure: &Measure) -> String {
    match &measure.clause.operand {
        Operand::Selection { candidates: Some(_), .. } => "the list behind IN".to_owned(),
        Operand::Selection { .. } | Operand::Aggregate(_) => {
            format!("all values of {}", measure.clause.text)
        }
    }
}

/// What one row, and one unit, does to one score.
fn change_text(measure: &Measure, is_row: bool) -> String {
    let span = |times: i128| {
        let end = |units: i128| grid_text(measure, units.saturating_mul(times));
        format!("{}..{}", end(measure.lo.min(0)), end(measure.hi.max(0)))
    };
    let rows = measure.limits.rows_per_group;
    match (is_row, measure.once_per_group()) {
        (true, _) => format!("one row changes a score by {}", span(1)),
        (false, true) => format!("one unit changes a score by {}", span(1)),
        (false, false) => {
            format!("one row changes a score by {}, one unit by {}", span(1), span(rows.into()))
        }
    }
}

fn one_way(measure: &Measure) -> &'static str {
    if measure.clause.parameters.monotonic == Some(false) {
        " (monotonic=false: twice the largest change)"
    } else if measure.lo >= 0 || measure.hi <= 0 {
        " (all one way: no factor 2)"
    } else {
        ""
    }
}

/// The norm that the noise is calibrated to.
fn norm_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let Use::Number(sensitivity) = &measure.use_ else { return String::new() };
    match &mechanized.mechanism {
        Mechanism::Gaussian(_) => {
            let shown = short(euclidean(measure, sensitivity));
            let trimmed = shown.trim_end_matches('0').trim_end_matches('.');
            format!("Δ₂ = {}", if shown.contains('.') { trimmed } else { &shown })
        }
        Mechanism::Laplace(_)
        | Mechanism::Exponential(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_) => format!("Δ₁ = {}", sensitivity_text(measure, sensitivity.l1)),
    }
}

/// Δ₂ as a number for people.
fn euclidean(measure: &Measure, sensitivity: &Sensitivity) -> f64 {
    let unit = measure.grid_unit();
    let squared = Rational::from_integer(sensitivity.l2_squared.into()) * &unit * &unit;
    approximate(&squared).sqrt()
}

fn draws_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let low = match &measure.use_ {
        Use::Score { selector, .. } => prefers_low(*selector),
        Use::Number(_) => false,
    };
    let rate = |exponent: &Rational| exact_rate(&(exponent / measure.grid_unit()));
    let text = &measure.clause.text;
    match &mechanized.mechanism {
        Mechanism::Exponential(m) => {
            let sign = if low { "−" } else { "" };
            let rate = rate(m.exponent());
            format!("P({text}) ∝ exp({sign}{rate} × score), exact integer arithmetic")
        }
        Mechanism::PermuteAndFlip(m) => {
            let gap = if low { "score − best" } else { "best − score" };
            let rate = rate(m.exponent());
            format!(
                "in random order, each {text} is accepted with probability exp(−{rate} × ({gap})), exact integer arithmetic"
            )
        }
        Mechanism::NoisyMax(m) => format!(
            "Laplace noise of scale {} on every score, the best wins, exact integer arithmetic",
            decimal_text(&(m.exponent().recip() * measure.grid_unit()), 6)
        ),
        Mechanism::Laplace(_) | Mechanism::Gaussian(_) => noise_text(measure, mechanized),
    }
}

/// A rate, exactly: as a decimal, or as a fraction where no short decimal is exact.
fn exact_rate(value: &Rational) -> String {
    let text = decimal_text(value, 9);
    if value.is_integer() && !value.is_zero() {
        format!("{text}.000")
    } else if parse_decimal(&text).as_ref() == Some(value) {
        text
    } else {
        // A rounded rate would not be the one that is drawn with.
        value.to_string()
    }
}

fn noise_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let scaled = |scale: &Rational| decimal_text(&(scale * measure.grid_unit()), 6);
    let both = if measure.width() == 2 { " on both sums" } else { "" };
    match &mechanized.mechanism {
        Mechanism::Laplace(m) => {
            format!("discrete Laplace{both}, scale {} = Δ₁/ε, exact on its grid", scaled(m.scale()))
        }
        Mechanism::Gaussian(m) => {
            format!("discrete Gaussian{both}, σ = {}, exact on its grid", scaled(&m.sigma()))
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
            "with 95 %: within {}/n of the bounded mean, n the noisy number of {}",
            short(t),
            if measure.once_per_group() { "units" } else { "rows" },
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
        Use::Score { selector, candidates, range, largest } => {
            let range = calibrated_range(measure, *range, *largest);
            set("selector", json!(selector.to_string()));
            set("score", json!(score_text(measure)));
            set("candidates", json!(candidates.len()));
            set("range", number(&sensitivity_text(measure, range)));
        }
        Use::Number(sensitivity) => {
            set("l1", number(&sensitivity_text(measure, sensitivity.l1)));
            set("l2", json!(euclidean(measure, sensitivity)));
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
        Use::Score { selector, range, largest, .. } => {
            let range = calibrated_range(measure, *range, *largest);
            (format!("{selector} {name}"), format!("range {}", sensitivity_text(measure, range)))
        }
        Use::Number(sensitivity) => {
            (name.to_string(), format!("l1 {}", sensitivity_text(measure, sensitivity.l1)))
        }
    };
    let parameters = parameters_text(&measure.clause.parameters, &mechanized.loss, &measure.limits);
    (mechanism, parameters, sensitivity)
}
