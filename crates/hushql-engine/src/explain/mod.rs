//! The cost and accuracy of a query, found without reading anything.
//!
//! In: stages 2 to 4 of a query, or the refusal that ended them. Out: an [`Explanation`], as
//! aligned text or as one JSON object. Unlike answers, explanations are not random, so tests can
//! compare them.

use std::fmt;

use num_bigint::BigInt;
use serde_json::{Value, json};

use crate::analysis::default_shares::is_bare;
use crate::analysis::{
    EndTold, EndWorth, Input, Measure, PrivateAggregate, ReleaseKind, approximate,
};
use crate::answer::charges_text;
use crate::buckets::FALSE_ALARM;
use crate::dialect::{Finding, Spread};
use crate::explain::number_text::number;
use crate::ledger::BudgetQuote;
use crate::privacy::{Cost, Rational, decimal_text};
use crate::refusal::Refusal;
use crate::release::exact_text::exact;
use crate::release::mechanism::{Mechanism, Mechanized, Predicted};
use crate::release::mostly_noise::mostly_noise_below;
use crate::release::record::{chosen_by, released_by, sensitivity_text};
use crate::release::{PartitionSelection, Release, loss_text, parameters_text};
use crate::visible::{self, rounded};
use bounds::bounds_lines;
use budget_lines::{budget_json, budget_text, cost_json};
use cumulative_text::{cumulative_of, tree_line};
use floor_lines::{floor_lines, floors_json};
use loosest::loosest;
use mostly_noise_text::noise_below_text;
use noise::{asked_text, euclidean, noise_text, norm_text};
use presence_lines::{mechanism_text, presence_line};
use rank_text::{block_line, ranked_text, values_text};
use refine_lines::{refine_json, refine_line};
use selection_lines::{choice_json, choice_lines, instead_text, winner_by_size_text, winner_text};
use threshold_lines::{
    default_json, default_line, keys_text, share_text, threshold_json, threshold_lines,
};
use tighter::{of_the_data, tighter_lines};
use unit_text::unit_text;

mod bounds;
mod budget_lines;
mod cell_lines;
mod consistent_lines;
mod cumulative_text;
mod floor_lines;
mod joint_text;
mod ladder;
mod loosest;
mod mostly_noise_text;
mod noise;
pub(crate) mod number_text;
mod presence_lines;
mod rank_text;
mod refine_lines;
mod rule_lines;
mod selection_lines;
mod stored;
mod synthetic_lines;
mod template_lines;
mod threshold_lines;
mod tighter;
pub(crate) mod tuning_lines;
mod unit_text;

pub(crate) use crate::release::record::threshold_ledger_texts;

/// The explanation of a query: lines of (name, text), and the same as JSON.
///
/// ```
/// # use hushql_engine as hushql;
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let explanation = session.explain("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?;
/// println!("{explanation}");
/// assert!(explanation.to_json().starts_with('{'));
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    lines: Vec<(&'static str, String)>,
    json: Value,
}

impl Explanation {
    /// The explanation as one JSON object.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let explanation = session.explain("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?;
    /// assert!(explanation.to_json().contains("\"mechanism\":\"LAPLACE\""));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        visible::json(&self.json.to_string()).into_owned()
    }

    /// The explanation of a query that is allowed.
    pub(crate) fn for_release(release: &Release, cost: Cost, quotes: &[BudgetQuote]) -> Self {
        let mut lines = Vec::new();
        let mut releases = Vec::new();
        let mut derivations = Vec::new();
        let mut by_default = false;
        let mut floors = Vec::new();
        for (i, part) in release.analysis().parts().iter().enumerate() {
            lines.push(("unit", unit_text(part.subject())));
            lines.extend(set_line(part, release.mechanisms(i)));
            let mut names = Vec::new();
            let hidden = release.partition_selection(i);
            let measures = part.measures().iter().zip(release.mechanisms(i));
            for (position, (measure, mechanized)) in measures.enumerate() {
                let share = share_text(part, position, hidden);
                lines.extend(release_lines(part, measure, mechanized, share));
                lines.extend(finding_line(measure));
                let replayed = release.replayed(i, position);
                lines.extend(replayed.map(|charge| {
                    let text = "paid for it: it would be replayed, cost 0";
                    let charge = charges_text(&[charge]).unwrap_or_default();
                    ("replay", format!("{charge} {text}"))
                }));
                lines.extend(refine_line(release, i, position));
                let fitted = release.fitted(i, position);
                lines.extend(fitted.map(consistent_lines::line));
                let compared = hidden.is_some_and(|hidden| hidden.counter() == Some(position));
                let decides = compared || release.analysis().is_chosen_by(i, position);
                let chosen_by = decides && !measure.is_exact();
                if chosen_by {
                    lines.push(("shown", DECIDES.to_owned()));
                }
                let mut object = release_json(part, measure, mechanized, hidden);
                if let Value::Object(map) = &mut object {
                    let decides = chosen_by.then(|| ("decides_rows".to_owned(), json!(true)));
                    let fitted =
                        fitted.map(|f| ("consistent".to_owned(), consistent_lines::object(f)));
                    let replayed = replayed.map(|charge| ("replay".to_owned(), json!(charge)));
                    let default = part.default_delta().map(default_json);
                    let refine = refine_json(release, i, position);
                    let paid = replayed.into_iter().chain(refine);
                    map.extend(decides.into_iter().chain(fitted).chain(paid).chain(default));
                }
                releases.push(object);
                names.push(privatize(measure, mechanized));
                by_default |= is_bare(measure);
            }
            if let Some(hidden) = hidden {
                lines.extend(threshold_lines(part, hidden));
            }
            lines.extend(part.default_delta().map(default_line));
            lines.extend(floor_lines(release, i));
            floors.extend(floors_json(release, i));
            let mut steps = part.steps().to_vec();
            steps.push(format!("Privatize {}", names.join(", ")));
            if let Some(above) = part.aggregated_above() {
                steps.push(format!("Compute {above} from what was released, at no further cost"));
            }
            derivations.push(steps);
        }
        let ends = release.analysis().called_ends().map_or(&[][..], |called| &called.told);
        lines.extend(ends.iter().map(|end| ("interval", end.explained())));
        let named_by =
            if by_default { " (releases without a cost share the PER QUERY default)" } else { "" };
        lines.push(("cost", format!("{}{named_by}", cost.neat())));
        for quote in quotes {
            lines.push(("budget", budget_text(quote)));
        }
        if derivations.is_empty() {
            derivations.push(vec!["nothing private is read".to_owned()]);
        }
        lines.extend(derivations.iter().map(|steps| ("derivation", steps.join(" → "))));
        let mut json = json!({
            "releases": releases,
            "cost": cost_json(cost.neat()),
            "budgets": quotes.iter().map(budget_json).collect::<Vec<_>>(),
            "derivation": match derivations.as_slice() {
                [steps] => derivation_tree(steps),
                several => json!({
                    "step": "SELECT over the released tables",
                    "inputs": several.iter().map(|s| derivation_tree(s)).collect::<Vec<_>>(),
                }),
            },
        });
        if let (false, Value::Object(map)) = (floors.is_empty(), &mut json) {
            map.insert("floors".to_owned(), Value::Array(floors));
        }
        if let (false, Value::Object(map)) = (ends.is_empty(), &mut json) {
            let of = |end: &EndTold| {
                json!({
                    "call": end.text,
                    "of": end.number,
                    "is_null": end.worth == EndWorth::Nothing,
                    "decides_rows": end.worth == EndWorth::Drawn,
                })
            };
            map.insert("intervals".to_owned(), ends.iter().map(of).collect());
        }
        Self { lines, json }
    }

    /// Adds the rule by which a range is read from the released histogram.
    pub(crate) fn with_range(mut self, rule: &str) -> Self {
        let at = self.lines.iter().position(|(name, _)| *name == "cost");
        self.lines.insert(at.unwrap_or(self.lines.len()), ("domain", rule.to_owned()));
        if let Value::Object(map) = &mut self.json {
            map.insert("domain".to_owned(), json!(rule));
        }
        self
    }

    /// Adds that the budget does not allow the query.
    pub(crate) fn over_budget(mut self, sentence: &str) -> Self {
        let at = self.lines.iter().position(|(name, _)| *name == "derivation");
        self.lines.insert(at.unwrap_or(self.lines.len()), ("budget", sentence.to_owned()));
        if let Value::Object(map) = &mut self.json {
            map.insert("over_budget".to_owned(), json!(sentence));
        }
        self
    }

    /// The explanation of a refused query: how far the analysis came, and what to write.
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
            write!(f, " {name:<12} {}{end}", visible::line(text))?;
        }
        Ok(())
    }
}

/// The steps as a tree: each step contains the step that it reads.
fn derivation_tree(steps: &[String]) -> Value {
    steps.iter().fold(Value::Null, |below, step| match below {
        Value::Null => json!({ "step": step }),
        below => json!({ "step": step, "input": below }),
    })
}

/// The grouping set of a private aggregate, and its share of the cost that is written.
fn set_line(part: &PrivateAggregate, mechanisms: &[Mechanized]) -> Option<(&'static str, String)> {
    let sets = part.sets()?;
    let keys = part.key_names().join(", ");
    if sets == 1 {
        return Some(("set", format!("({keys}), the only set of GROUP BY")));
    }
    let shares = part.measures().iter().zip(mechanisms).map(|(measure, one)| {
        let in_rho = measure.clause.parameters.rho.is_some();
        format!("{} at {}", measure.clause.text, loss_text(&one.loss, in_rho))
    });
    let shares: Vec<String> = shares.collect();
    // Sets of a release that asks for an accuracy each have a cost of their own.
    let is_shared = part.measures().iter().any(|m| m.clause.parameters.within.is_none());
    let has_exact = part.measures().iter().any(|measure| measure.replaced.is_some());
    let equally = match (is_shared, has_exact) {
        (true, false) => ", which share the cost equally",
        (true, true) => ", which share the cost; exact numbers need none",
        (false, _) => "",
    };
    let shares = shares.join(", ");
    Some(("set", format!("({keys}), one of {sets} sets of GROUP BY{equally}: {shares}")))
}

fn release_lines(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
    share: &str,
) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let is_row = part.subject().is_row();
    let bounds = bounds_lines(part, measure);
    match &measure.release_kind {
        ReleaseKind::Choice(choice) => {
            lines.extend(choice_lines(measure, choice, mechanized, (part, share)));
            let after_score = lines.len().min(1);
            lines.splice(after_score..after_score, bounds);
            if part.unknown_partitions().is_some() {
                lines.push(("keys", keys_text(part)));
            }
            lines.extend(presence_line(measure));
            lines.extend(block_line(choice, mechanized.accuracy));
        }
        ReleaseKind::Number(_) => {
            lines.push(("release", measure.clause.text.clone()));
            lines.push((
                "range",
                format!(
                    "{} {}{}   {}",
                    joint_text::range_text(measure),
                    if measure.once_per_group() {
                        "a unit in a group"
                    } else if matches!(measure.input, Input::Distinct(_)) && !is_row {
                        "a different value of a unit"
                    } else {
                        "a row"
                    },
                    released_as(measure),
                    norm_text(measure, mechanized),
                ),
            ));
            lines.extend(bounds);
            if part.unknown_partitions().is_some() {
                lines.push(("keys", keys_text(part)));
            } else if !part.key_names().is_empty() {
                let names = part.key_names().join(" × ");
                let keys = part.keys().all().len();
                lines.push((
                    "keys",
                    format!(
                        "{keys}, public ({names}), all of them come out, also the empty ones{}{}",
                        part.without_null_text()
                            .map_or_else(String::new, |text| format!("; {text}")),
                        of_the_data(part, measure, keys)
                    ),
                ));
            }
            lines.extend(ladder::ladder_lines(part, measure, mechanized));
            lines.extend(tree_line(mechanized));
            lines.push(("noise", noise_text(measure, mechanized, share)));
            lines.extend(presence_line(measure));
            lines.extend(tighter_lines(part, measure, mechanized));
            lines.extend(ladder::proposal_line(part, measure, mechanized));
        }
    }
    lines.extend(asked_text(measure, mechanized).map(|text| ("asked", text)));
    lines.push(("error", error_text(measure, mechanized)));
    lines.extend(noise_below_text(measure, mechanized).map(|text| ("mostly noise", text)));
    lines.extend(instead_text(measure, mechanized).map(|text| ("less error", text)));
    // Under other bounds, a release that asks for an accuracy has the same noise at another cost.
    let loose = loosest(part, measure, mechanized);
    let asked = &measure.clause.parameters;
    let loose = loose.filter(|_| asked.within.is_none() && asked.complete_above.is_none());
    lines.extend(loose.map(|step| ("loosest", step.text())));
    lines
}

/// The sums to which noise is added, if they differ from what is released.
fn released_as(measure: &Measure) -> String {
    if let Some(joint) = measure.joint() {
        return joint_text::products_text(joint);
    }
    match measure.moments() {
        None if measure.knows_rows() => ", released as Σ(x − lo)/n + lo, n public".to_owned(),
        None if measure.is_mean() => ", released as Σ(x − lo) and Σ(hi − x)".to_owned(),
        None => String::new(),
        Some(moments) => {
            let step = Rational::from_integer(BigInt::from(1) << moments.shift);
            let step = step * measure.grid_unit();
            let rounded = match moments.shift {
                0 => String::new(),
                _ => format!(", in steps of {}", decimal_text(&step, 6)),
            };
            format!(", released as Σ(w − X)², Σ2X(w − X), ΣX² (X = x − lo, w = hi − lo{rounded})")
        }
    }
}

/// The note on the error of a number that itself decides which rows come out.
const DECIDES: &str = "this release decides which rows come out: the error above is that of the draw; a number that is shown because it came out \
                       large is off by more, more often";

/// How a bound is read from its histogram.
fn finding_line(measure: &Measure) -> Option<(&'static str, String)> {
    let Some(Finding::Histogram { least, .. }) = measure.clause.finding else { return None };
    let text = format!(
        "the end of the largest bucket with a noisy count of {least} or more, which an empty bucket reaches in {FALSE_ALARM} histograms \
         at most; if none reaches it, of the bucket with the largest noisy count"
    );
    Some(("bound", text))
}

fn error_text(measure: &Measure, mechanized: &Mechanized) -> String {
    let text = error_in_its_unit(measure, mechanized);
    match measure.clause.finding {
        // The error of a quantile is one of ranks.
        Some(Finding::InUnits { .. })
            if !matches!(measure.release_kind, ReleaseKind::Number(_)) =>
        {
            format!("{text}; what the bound cuts is not counted")
        }
        Some(Finding::InUnits { squared, .. }) => format!(
            "{text}, in units of {} found; what the bound cuts is not counted",
            if squared { "the square of the bound" } else { "the bound" }
        ),
        Some(Finding::InUnitsOfTwo { .. }) => {
            format!(
                "{text}, of columns in units of the bounds found; what the bounds cut is not counted"
            )
        }
        Some(Finding::Histogram { .. }) | None => text,
    }
}

fn error_in_its_unit(measure: &Measure, mechanized: &Mechanized) -> String {
    if measure.ladder.is_some() {
        return ladder::error_text(measure);
    }
    match mechanized.accuracy {
        _ if measure.is_exact() => "none: it is the number itself".to_owned(),
        Predicted::Within(t) => match cumulative_of(mechanized) {
            Some(own) => cumulative_text::error_text(own, t),
            None => format!("with 95 %: within {} of the bounded aggregate", rounded(t)),
        },
        Predicted::WithinOverCount(t) => format!(
            "with 95 %: within {}/n of the bounded mean, n the {}number of {}",
            rounded(t),
            if measure.knows_rows() { "" } else { "noisy " },
            if measure.once_per_group() { "units" } else { "rows" },
        ),
        Predicted::Spread { noise } => spread_text(measure, noise),
        Predicted::Winner { worst, average } => winner_text(measure, worst, average),
        Predicted::WinnerBySize { rows, .. } => winner_by_size_text(measure, rows),
        Predicted::Rank { worst, average } => format!(
            "with 95 %: the rank of {} is within {} {} of the best rank on the line, whatever the data; on average within {}",
            ranked_text(measure),
            rounded(worst),
            values_text(measure),
            rounded(average)
        ),
        Predicted::Truthful(p) => {
            format!("each answer is true with {} %, whatever the data", rounded(p * 100.0))
        }
        Predicted::Nothing if measure.clause.consistent.is_some() => {
            consistent_lines::NO_ERROR.to_owned()
        }
        Predicted::Nothing => {
            "not shown: a bound would reveal how many candidates the data have".to_owned()
        }
    }
}

/// What the noise means for a variance of n rows. The answer shows what it means for the drawn
/// value.
fn spread_text(measure: &Measure, noise: f64) -> String {
    if let Some(joint) = measure.joint() {
        return joint_text::error_text(joint, noise);
    }
    let Some(moments) = measure.moments() else { return String::new() };
    let weight = Rational::from_integer(measure.weight().unwrap_or(0).into());
    let squared = approximate(&(weight * measure.noise_unit()));
    // τ·w²/n + (3τ/2n)²·w²; the code that draws moments proves it.
    let (first, second) = (noise * squared, (1.5 * noise).powi(2) * squared);
    let what = match moments.spread {
        Spread::VarPop => "",
        Spread::VarSamp => "(n − 1)/n of it is ",
        Spread::StddevPop => "its square is ",
        Spread::StddevSamp => "(n − 1)/n of its square is ",
    };
    format!(
        "with 95 %: {what}within {}/n + {}/n² of the bounded variance, n the noisy number of rows; the answer tells its own ±",
        rounded(first),
        rounded(second),
    )
}

fn privatize(measure: &Measure, mechanized: &Mechanized) -> String {
    match &measure.release_kind {
        ReleaseKind::Choice(choice) => match chosen_by(measure, choice) {
            Some(selector) => format!("{selector} {}", mechanized.mechanism.name()),
            None => released_by(measure, mechanized).to_string(),
        },
        ReleaseKind::Number(_) => mechanism_text(measure, mechanized),
    }
}

fn release_json(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
    hidden: Option<&PartitionSelection>,
) -> Value {
    let limits = &measure.limits;
    let mut object = json!({
        "operand": measure.clause.text,
        "mechanism": mechanism_text(measure, mechanized),
        "parameters": parameters_text(&measure.clause.parameters, &mechanized.loss, limits),
        "unit": unit_text(part.subject()),
        "bounds": {
            "rows_in_all": limits.total,
            "rows_per_group": limits.per_partition,
            "groups": limits.l0,
        },
        "least_per_row": joint_text::end_json(measure, measure.lo),
        "greatest_per_row": joint_text::end_json(measure, measure.hi),
        "keys": if hidden.is_some() { Value::Null } else { json!(part.keys().all().len()) },
        "epsilon": mechanized.loss.epsilon().map(|epsilon| number(&exact(epsilon))),
    });
    let mut set = |name: &str, value: Value| {
        if let Value::Object(map) = &mut object {
            map.insert(name.to_owned(), value);
        }
    };
    if let Some(known) = part.subject().public() {
        set("neighbours", json!({ "replace": part.subject().column(), "public": known }));
    }
    if measure.is_exact() {
        set("exact", json!(true));
    }
    if let Some(sets) = part.sets() {
        set("set", json!({ "keys": part.key_names(), "of": sets }));
    }
    if let Some(hidden) = hidden {
        set("threshold", threshold_json(part, hidden));
    }
    match &measure.release_kind {
        ReleaseKind::Choice(choice) => {
            for (name, value) in choice_json(measure, choice, mechanized, (part, hidden)) {
                set(name, value);
            }
        }
        ReleaseKind::Number(sensitivity) => {
            set("l1", number(&sensitivity_text(measure, sensitivity.l1)));
            set("l2", json!(euclidean(measure, sensitivity)));
            for (name, value) in ladder::ladder_json(measure, mechanized) {
                set(name, value);
            }
        }
    }
    match &mechanized.mechanism {
        Mechanism::Laplace(m) => {
            let together = mechanized.together.as_ref();
            let unit = together.map_or_else(|| measure.noise_unit(), |vector| vector.unit.clone());
            set("scale", json!(approximate(&(m.scale() * unit))));
            if let Some(vector) = together {
                set("drawn_with", json!(vector.others));
            }
        }
        Mechanism::Gaussian(m) => {
            set("sigma", json!(approximate(&(m.sigma() * measure.noise_unit()))));
            match mechanized.loss.delta() {
                Some(delta) => set("delta", json!(approximate(delta))),
                None => set("rho", number(&exact(mechanized.loss.rho()))),
            }
        }
        Mechanism::Cumulative(own) => {
            cumulative_text::fields(own).into_iter().for_each(|(name, value)| set(name, value));
        }
        Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Exact => {}
    }
    match mechanized.accuracy {
        Predicted::Within(value) => set("within", json!(value)),
        Predicted::WithinOverCount(value) => set("within_over_rows", json!(value)),
        Predicted::Spread { noise } => set("noise_rows", json!(noise)),
        Predicted::Rank { worst, average } => {
            set("rank_within", json!(worst));
            set("average_within", json!(average));
        }
        Predicted::WinnerBySize { rows, worst } => {
            set("winner_within_rows", json!(rows));
            set("winner_within", json!(worst));
        }
        Predicted::Winner { worst, average } => {
            set("winner_within", json!(worst));
            set("average_within", json!(average));
        }
        Predicted::Truthful(value) => set("truthful", json!(value)),
        Predicted::Nothing => {}
    }
    if let Some(rows) = mostly_noise_below(measure, mechanized.accuracy) {
        set("noise_below_rows", json!(rows));
    }
    if let Some(step) = loosest(part, measure, mechanized) {
        set("loosest", json!({ "factor": step.factor, "text": step.text(), "write": step.write }));
    }
    object
}
