//! How selections are explained: the score, the candidates, the prior, the draws, and how several
//! selections share the cost.
//!
//! In: a choice and its mechanism. Out: lines of an explanation, and JSON. Nothing here depends on
//! the data. If only the data contain the candidates, no number depends on how many there are.

use num_traits::ToPrimitive;
use serde_json::{Value, json};

use crate::analysis::{
    CandidateAxis, CandidateSource, Choice, Input, LineScore, Measure, Prior, PrivateAggregate,
    Sharing, SizesOfRows, approximate,
};
use crate::dialect::{MechanismName, Operand, PriorClause};
use crate::explain::number_text::{at_most, equal_to, exact_rate, number};
use crate::explain::rank_text::{counted, levels_text, list_draws, rank_text};
use crate::explain::threshold_lines::{in_unknown_groups, left_of_count_json};
use crate::grid::Grid;
use crate::mechanism::{NoisyKeys, ScoreNoise, UnknownRule};
use crate::privacy::{Rational, decimal_text};
use crate::release::PartitionSelection;
use crate::release::exact_text::{exact, grid_text, score_units};
use crate::release::mechanism::{Instead, Mechanism, Mechanized};
use crate::release::record::{calibrated_text, chosen_by, clause, l1_text, monotonic};
use crate::visible::rounded;

/// The range to which the mechanism of one selection is calibrated.
fn range_text(measure: &Measure, choice: &Choice) -> String {
    if !monotonic(measure) && choice.tried.is_none() {
        return score_units(choice, choice.largest.saturating_mul(2));
    }
    let range = score_units(choice, choice.range);
    match choice.tried {
        None => range,
        Some(rows) => format!(
            "{range}, the most by which two scores change differently in any of the {rows} rows that the domains allow"
        ),
    }
}

pub(super) fn choice_lines(
    measure: &Measure,
    choice: &Choice,
    mechanized: &Mechanized,
    (part, share): (&PrivateAggregate, &str),
) -> Vec<(&'static str, String)> {
    let low = choice.prefers_low();
    let is_row = part.subject().is_row();
    let mut lines = vec![(
        "score",
        format!(
            "{}   {}   range {}{}   the {} wins",
            score_text(measure, choice),
            change_text(measure, choice, is_row),
            range_text(measure, choice),
            one_way(measure, choice),
            if low { "lowest" } else { "highest" },
        ),
    )];
    lines.push(("candidates", candidates_text(measure, choice, mechanized)));
    lines.extend(rank_text(choice, mechanized).map(|text| ("rank", text)));
    lines.extend(levels_text(choice).map(|text| ("levels", text)));
    lines.extend(
        sharing_text(measure, choice, mechanized, (part, share)).map(|text| ("share", text)),
    );
    lines.push(("draws", draws_text(measure, choice, mechanized)));
    lines.extend(kept_from(choice, mechanized).map(|from| {
        let text = format!(
            "with 95 %: a value that scores {} or more is not left out for too low a score",
            rounded(from)
        );
        ("comes out", text)
    }));
    lines.extend(runner_up_text(measure, mechanized).map(|text| ("or", text)));
    lines
}

/// The least score at which a candidate comes out with 95 %, if only the data contain the
/// candidates.
fn kept_from(choice: &Choice, mechanized: &Mechanized) -> Option<f64> {
    let beta = Rational::new(1.into(), 20.into());
    let in_steps = match &mechanized.mechanism {
        Mechanism::Unknown(m, rule) => m.kept_from(*rule, choice.rounds, &beta),
        Mechanism::NoisyKeys(keys) => keys.reached_from(&beta).to_f64()?,
        Mechanism::Laplace(_)
        | Mechanism::Gaussian(_)
        | Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Cumulative(_)
        | Mechanism::Exact => return None,
    };
    Some(in_steps * approximate(&choice.unit))
}

/// The alternative that AUTO did not take, if only the data contain the candidates.
fn runner_up_text(measure: &Measure, mechanized: &Mechanized) -> Option<String> {
    let by_name = !matches!(measure.clause.mechanism, MechanismName::Auto | MechanismName::Default);
    let (how, from) = match mechanized.instead? {
        _ if by_name => return None,
        Instead::Rounds { from } => ("rounds against \"none stands out\"", from),
        Instead::NoisyKeys { from } => ("noise on every score, and a threshold", from),
        Instead::NoisyScores(_) | Instead::OwnSizes { .. } => return None,
    };
    Some(format!("{how}, at the same cost: from a score of {} on", rounded(from)))
}

/// The threshold τ of noisy scores.
fn tau_text(choice: &Choice, keys: &NoisyKeys) -> String {
    decimal_text(&(Rational::from_integer(keys.threshold().into()) * &choice.unit), 6)
}

/// What would have a smaller error than the requested mechanism.
pub(super) fn instead_text(measure: &Measure, mechanized: &Mechanized) -> Option<String> {
    let parameters = &measure.clause.parameters;
    let cost = match parameters.within {
        Some(_) => "at this cost, so that it asks for less",
        None => "at the same cost",
    };
    let how = match mechanized.instead? {
        Instead::NoisyScores(least) => format!(
            "puts noise on every score and shows the best: with 95 % within {}",
            rounded(least)
        ),
        Instead::NoisyKeys { .. } | Instead::Rounds { .. }
            if matches!(measure.clause.mechanism, MechanismName::Auto | MechanismName::Default) =>
        {
            return None;
        }
        Instead::NoisyKeys { from } => format!(
            "puts noise on every score and shows the best that reach a threshold: with 95 % from a score of {} on",
            rounded(from)
        ),
        Instead::Rounds { .. } => return None,
        Instead::OwnSizes { rows } => format!(
            "measures each score by the change that one row makes to it: with 95 % the winner is worse than another candidate by at most {} of that candidate",
            by_size_text(measure, measure.choice()?, rows)
        ),
    };
    Some(format!(
        "AUTO({parameters}) in place of {}({parameters}) {how}, {cost}",
        measure.clause.mechanism,
    ))
}

fn score_text<'a>(measure: &'a Measure, choice: &Choice) -> &'a str {
    match (&choice.source, clause(measure)) {
        (_, Some(selection)) => &selection.by,
        (CandidateSource::Line { score: LineScore::Smallest, .. }, _) => {
            "minus the distance from the r-th smallest, in rows"
        }
        (CandidateSource::Line { score: LineScore::Largest, .. }, _) => {
            "minus the distance from the r-th largest, in rows"
        }
        (CandidateSource::Line { score: LineScore::Exactly, .. }, _) => {
            "1 for one's own value, 0 for the others"
        }
        (_, None) if choice.missing.is_some() => {
            "minus the distance from the middle rank, in values of blocks"
        }
        (_, None) => "minus the distance from the wanted rank, in rows",
    }
}

/// How far one row or one unit changes one score.
fn change_text(measure: &Measure, choice: &Choice, is_row: bool) -> String {
    if let CandidateSource::Line { score, .. } = &choice.source {
        let (who, rows) = match choice.missing {
            Some(_) => ("person", 1),
            None if is_row => ("row", 1),
            None => ("unit", measure.limits.per_partition),
        };
        let most = score_units(choice, choice.largest);
        return match score {
            // A row can only lower the score of a tick, never raise it.
            LineScore::Quantile { num, den } if *num == 0 || num == den => {
                let most = exact(&(Rational::from_integer(choice.range.into()) * &choice.unit));
                let of = if rows == 1 { String::new() } else { format!(" of {rows} rows") };
                format!("one {who}{of} changes a score by -{most}..0")
            }
            // The change is the same in both directions: a row is on one side of a tick or on the
            // other.
            LineScore::Quantile { .. }
            | LineScore::Quantiles(_)
            | LineScore::Smallest
            | LineScore::Largest => {
                let units = Rational::new(choice.range.into(), 2.into());
                let most = exact(&(units * &choice.unit));
                let of = if rows == 1 { String::new() } else { format!(" of {rows} rows") };
                format!("one {who}{of} changes a score by -{most}..{most}")
            }
            LineScore::Revenue { .. } => format!("one {who} changes a score by 0..{most}"),
            LineScore::Above | LineScore::Below | LineScore::Exactly => {
                let end = |units: i128| grid_text(measure, units.saturating_mul(rows.into()));
                let (least, most) = (end(measure.lo.min(0)), end(measure.hi.max(0)));
                format!("one {who} changes a score by {least}..{most}")
            }
        };
    }
    let span = |times: i128| {
        let end = |units: i128| grid_text(measure, units.saturating_mul(times));
        format!("{}..{}", end(measure.lo.min(0)), end(measure.hi.max(0)))
    };
    let rows = measure.limits.per_partition;
    if let (Input::Distinct(_), false) = (&measure.input, is_row) {
        return format!("one unit changes a score by {}", span(rows.into()));
    }
    match (is_row, measure.once_per_group()) {
        (true, _) => format!("one row changes a score by {}", span(1)),
        (false, true) => format!("one unit changes a score by {}", span(1)),
        (false, false) => {
            format!("one row changes a score by {}, one unit by {}", span(1), span(rows.into()))
        }
    }
}

fn one_way(measure: &Measure, choice: &Choice) -> &'static str {
    match (monotonic(measure), choice.tried) {
        (false, None) => return " (monotonic=false: twice the largest change)",
        (false, Some(_)) => {
            return " (monotonic=false: twice half of it, the largest change from the middle)";
        }
        (true, _) => {}
    }
    let counts = !matches!(
        &choice.source,
        CandidateSource::Line { score, .. } if score.is_of_rank()
    );
    if choice.tried.is_none() && counts && (measure.lo >= 0 || measure.hi <= 0) {
        " (all one way: no factor 2)"
    } else {
        ""
    }
}

fn candidates_text(measure: &Measure, choice: &Choice, mechanized: &Mechanized) -> String {
    let prior = prior_text(measure, choice);
    let Some(count) = choice.candidates() else {
        let CandidateSource::Unknown { per_unit } = &choice.source else { return String::new() };
        if let Mechanism::NoisyKeys(_) = mechanized.mechanism {
            let none = if choice.rounds > 1 { "the list ends" } else { "NULL is the answer" };
            return format!(
                "the values of {} that the data have, at most {per_unit} of them from one unit; where none is left with a noisy score of τ, {none}",
                measure.clause.text
            );
        }
        let none = if choice.rounds > 1 { "which ends the list" } else { "answered as NULL" };
        return format!(
            "the values of {} that the data have, at most {per_unit} of them from one unit, and \"none stands out\" ({none}); {prior}",
            measure.clause.text
        );
    };
    let grid = match &choice.source {
        CandidateSource::Line { axis: CandidateAxis::Ticks(ticks), .. } => match ticks.grid() {
            Grid::Binary { log2 } if log2 >= 0 => format!(", a grid of 2^-{log2}"),
            Grid::Binary { log2 } => format!(", a grid of 2^{}", log2.unsigned_abs()),
            Grid::Integer | Grid::Decimal { .. } => String::new(),
        },
        _ => String::new(),
    };
    let source = match clause(measure).map(|selection| &selection.candidates) {
        Some(Some(candidates)) => match candidates {
            crate::dialect::CandidatesClause::List(_) => "the list behind IN".to_owned(),
            crate::dialect::CandidatesClause::Range { .. } => candidates.to_string(),
        },
        Some(None) => format!("all values of {}", measure.clause.text),
        None if measure.clause.operand == Operand::Response => {
            format!("all values of {}", measure.clause.text)
        }
        None => format!("the range of its argument{grid}"),
    };
    let source = if clause(measure).is_some() { format!("{source}{grid}") } else { source };
    format!("{count}, public ({source}), {prior}")
}

fn prior_text(measure: &Measure, choice: &Choice) -> String {
    match (&choice.prior, clause(measure).and_then(|selection| selection.prior.as_ref())) {
        (Prior::Uniform, _) => "uniform prior".to_owned(),
        (Prior::LogUniform, _) => "prior in proportion to 1/price".to_owned(),
        (Prior::Weights(weights), Some(PriorClause::Table { .. })) => {
            let table = clause(measure).and_then(|s| s.prior.as_ref()).map(ToString::to_string);
            let excluded = weights.iter().filter(|w| **w == 0).count();
            let rest = if excluded == 0 {
                String::new()
            } else {
                format!(", which excludes {excluded} of them")
            };
            format!("prior from {}{rest}", table.unwrap_or_default())
        }
        (Prior::Weights(_), _) => "a prior of weights".to_owned(),
    }
}

/// The prior as JSON: as the query writes it.
fn prior_name(measure: &Measure, choice: &Choice) -> String {
    let written = clause(measure).and_then(|selection| selection.prior.as_ref());
    match (&choice.prior, written) {
        (Prior::Uniform, _) => "uniform".to_owned(),
        (Prior::LogUniform | Prior::Weights(_), Some(prior)) => prior.to_string(),
        (Prior::LogUniform | Prior::Weights(_), None) => "weights".to_owned(),
    }
}

fn sharing_text(
    measure: &Measure,
    choice: &Choice,
    mechanized: &Mechanized,
    (part, share): (&PrivateAggregate, &str),
) -> Option<String> {
    if part.unknown_partitions().is_some() {
        return Some(in_unknown_groups(choice, share));
    }
    let outer = part.keys().outer().len();
    if let Mechanism::NoisyKeys(keys) = &mechanized.mechanism {
        let (most, whole) = match keys.noise() {
            ScoreNoise::Laplace(_) => (format!("Δ₁ = {}", l1_text(choice)), "ε"),
            ScoreNoise::Gaussian(_) if mechanized.loss.epsilon().is_some() => {
                ("Δ₂".to_owned(), "ε, and half of δ")
            }
            ScoreNoise::Gaussian(_) => ("Δ₂".to_owned(), "ρ"),
        };
        return Some(format!(
            "all scores together change by at most {most}, so one draw of noise has the whole {whole}, for any number of values"
        ));
    }
    if let Mechanism::Laplace(_) = mechanized.mechanism {
        let best = match choice.rounds {
            1 => "the best is".to_owned(),
            k => format!("the {k} best are"),
        };
        let each = if outer > 1 { " in each group" } else { "" };
        return Some(format!(
            "all scores together change by at most Δ₁ = {}, so one draw of noise has the whole ε; {best} read off the noisy scores{each}",
            l1_text(choice),
        ));
    }
    if measure.clause.operand == Operand::Response {
        return Some(format!(
            "{outer} entries of the roster answer, each once; an entry without a row answers uniformly; this ε holds for one entry's value replaced, and for an entry added or removed it is {}",
            rounded(present_or_absent(choice, mechanized))
        ));
    }
    let rounds = (choice.rounds > 1).then(|| rounds_text(choice));
    let groups = match choice.sharing {
        Sharing::Alone => None,
        Sharing::Groups(1) => Some(format!(
            "one selection in each of {outer} groups; a unit is in one of them, so each has the whole ε"
        )),
        Sharing::Groups(c) => Some(format!(
            "one selection in each of {outer} groups; a unit is in at most {c} of them, so each has 1/{c} of ε"
        )),
        Sharing::Rows(_) if matches!(mechanized.mechanism, Mechanism::Generalized(_)) => {
            Some(format!(
                "one selection in each of {outer} groups; all of them share the rows of a unit, so each has the whole ε at that number of rows"
            ))
        }
        Sharing::Rows(all) => Some(format!(
            "one selection in each of {outer} groups; the rows of a unit move all their scores together by at most {}, so each has the whole ε at that range",
            score_units(choice, all)
        )),
    };
    match (groups, rounds) {
        (Some(groups), Some(rounds)) => Some(format!("{groups}; {rounds}")),
        (groups, rounds) => groups.or(rounds),
    }
}

/// The ε of a response for an entry added or removed. It compares the entry's own answers with
/// uniform ones.
///
/// # Guarantee
/// For display. Of n values, an entry's own value has e^ε times the probability of each other
/// value; a uniform answer has 1/n for each. The result is the larger of ln((e^ε + n − 1)/n) and
/// ln(n·e^ε/(e^ε + n − 1)).
fn present_or_absent(choice: &Choice, mechanized: &Mechanized) -> f64 {
    let values = choice.candidates().and_then(|n| n.to_f64()).unwrap_or(f64::INFINITY);
    let Mechanism::Exponential(mechanism) = &mechanized.mechanism else { return f64::INFINITY };
    let epsilon = approximate(mechanism.exponent());
    // ln((e^ε + n − 1)/n), computed without overflow.
    let other = epsilon + ((1.0 + (values - 1.0) * (-epsilon).exp()) / values).ln();
    other.max(epsilon - other)
}

fn rounds_text(choice: &Choice) -> String {
    match choice.rounds_drawn() {
        drawn if drawn == choice.rounds => format!("{drawn} rounds, each at 1/{drawn} of ε"),
        1 => "one round has the whole ε; the last candidate is what is left".to_owned(),
        drawn => {
            format!("{drawn} rounds, each at 1/{drawn} of ε; the last candidate is what is left")
        }
    }
}

fn draws_text(measure: &Measure, choice: &Choice, mechanized: &Mechanized) -> String {
    let low = choice.prefers_low();
    let rate = |exponent: &Rational| exact_rate(&(exponent / &choice.unit));
    let text = &measure.clause.text;
    let prior = if choice.prior == Prior::Uniform { "" } else { "prior × " };
    match &mechanized.mechanism {
        Mechanism::Exponential(m) if choice.fractions().is_some() => {
            list_draws(choice, m.exponent(), text)
        }
        Mechanism::Exponential(m) => {
            let sign = if low { "−" } else { "" };
            let rate = rate(m.exponent());
            format!("P({text}) ∝ {prior}exp({sign}{rate} × score), exact integer arithmetic")
        }
        Mechanism::Generalized(m) => format!(
            "P({text}) ∝ exp({} × margin), the least by which {}score − {} × own is above that of another candidate, over the sum of own of both; own = {}, what a row changes the score by; exact integer arithmetic",
            exact_rate(&m.exponent()),
            if low { "−" } else { "" },
            m.shift(),
            own_text(measure, choice),
        ),
        Mechanism::PermuteAndFlip(m) => flips_text(text, low, &rate(m.exponent())),
        Mechanism::NoisyMax(m) => format!(
            "Laplace noise of scale {} on every score, the best wins, exact integer arithmetic",
            at_most(&(m.exponent().recip() * &choice.unit)).trim_start_matches("= ")
        ),
        Mechanism::Unknown(m, rule) => {
            let rate = rate(m.exponent());
            let draw = if *rule == UnknownRule::PermuteAndFlip {
                flips_text(text, false, &rate)
            } else {
                format!("P({text}) ∝ exp({rate} × score), exact integer arithmetic")
            };
            let none = Rational::from_integer(m.nobody().into()) * &choice.unit;
            format!("{draw}; \"none stands out\" scores {}", decimal_text(&none, 6))
        }
        Mechanism::NoisyKeys(keys) => {
            let noise = match keys.noise() {
                ScoreNoise::Laplace(m) => format!(
                    "discrete Laplace noise of scale {}",
                    equal_to("Δ₁/ε", &at_most(&(m.scale() * &choice.unit)))
                ),
                ScoreNoise::Gaussian(m) => {
                    format!("discrete Gaussian noise, σ {},", at_most(&(m.sigma() * &choice.unit)))
                }
            };
            format!(
                "{noise} on every score; the best come out of those that are at least τ = {}, exact integer arithmetic",
                tau_text(choice, keys)
            )
        }
        Mechanism::Laplace(m) => format!(
            "discrete Laplace noise of scale {} on every score, the best come out, exact integer arithmetic",
            equal_to("Δ₁/ε", &at_most(&(m.scale() * &choice.unit)))
        ),
        Mechanism::Gaussian(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Cumulative(_)
        | Mechanism::Exact => String::new(),
    }
}

fn flips_text(text: &str, low: bool, rate: &str) -> String {
    let gap = if low { "score − best" } else { "best − score" };
    format!(
        "in random order, each {text} is accepted with probability exp(−{rate} × ({gap})), exact integer arithmetic"
    )
}

/// The most that one row buys at a price. `None` unless candidates are prices.
fn most_bought(measure: &Measure, choice: &Choice) -> Option<f64> {
    match choice.sizes.as_ref()?.of_rows {
        SizesOfRows::Prices(most) => {
            Some(approximate(&(Rational::from_integer(most.into()) * measure.grid_unit())))
        }
        SizesOfRows::Listed(_) => None,
    }
}

/// How far a row changes the score of a candidate, in words.
fn own_text(measure: &Measure, choice: &Choice) -> String {
    match most_bought(measure, choice) {
        Some(1.0) => "the price".to_owned(),
        Some(most) => format!("{} × the price", rounded(most)),
        None => "the range of its terms".to_owned(),
    }
}

/// How much better another candidate may be, as a multiple of one row of its own.
fn by_size_text(measure: &Measure, choice: &Choice, rows: f64) -> String {
    match most_bought(measure, choice) {
        Some(most) => format!("{} × the price", rounded(rows * most)),
        None => format!("{} × the range of the terms", rounded(rows)),
    }
}

pub(super) fn winner_by_size_text(measure: &Measure, rows: f64) -> String {
    let Some(choice) = measure.choice() else { return String::new() };
    let (winner, other) = match choice.rounds {
        1 => ("the winner", "another candidate"),
        _ => ("each of the chosen", "another candidate left at its turn"),
    };
    let short = by_size_text(measure, choice, rows);
    format!(
        "with 95 %: {winner} is worse than {other} by at most {short} of that one, whatever the data"
    )
}

pub(super) fn winner_text(measure: &Measure, worst: f64, average: f64) -> String {
    let unit = match (&measure.input, measure.choice().map(|c| &c.source)) {
        (_, Some(CandidateSource::Line { score: LineScore::Revenue { .. }, .. })) => "",
        (Input::Terms { kind, .. }, _) => counted(kind),
        (input, _) => counted(input),
    };
    let rounds = measure.choice().map_or(1, |choice| choice.rounds);
    let winner = if rounds > 1 { "each of the chosen" } else { "the winner" };
    let best = if rounds > 1 { "the best left at its turn" } else { "the best" };
    format!(
        "with 95 %: {winner} is within {}{unit} of {best}, whatever the data; on average within {}",
        rounded(worst),
        rounded(average)
    )
}

pub(super) fn choice_json(
    measure: &Measure,
    choice: &Choice,
    mechanized: &Mechanized,
    (part, hidden): (&PrivateAggregate, Option<&PartitionSelection>),
) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("score", json!(score_text(measure, choice))),
        ("range", number(&range_text(measure, choice))),
        ("prior", json!(prior_name(measure, choice))),
        ("rounds", json!(choice.rounds)),
    ];
    fields.extend(kept_from(choice, mechanized).map(|from| ("comes_out_from", json!(from))));
    if !matches!(
        mechanized.mechanism,
        Mechanism::Laplace(_) | Mechanism::Generalized(_) | Mechanism::NoisyKeys(_)
    ) {
        fields.push(("calibrated_range", number(&calibrated_text(measure, choice))));
    }
    fields.extend(chosen_by(measure, choice).map(|s| ("selector", json!(s.to_string()))));
    fields.extend(choice.candidates().map(|n| ("candidates", json!(n))));
    let left = hidden.and_then(|hidden| left_of_count_json(part, measure, hidden));
    fields.extend(left.map(|epsilon| ("epsilon_of_choice", epsilon)));
    fields.extend(mechanized.rank.map(|r| ("rank", json!(r))));
    fields.extend(choice.fractions().map(|list| ("levels", json!(list.levels()))));
    let exponent = |e: &Rational| ("exponent", json!(approximate(&(e / &choice.unit))));
    match &mechanized.mechanism {
        Mechanism::Exponential(m) => fields.push(exponent(m.exponent())),
        Mechanism::Generalized(m) => {
            fields.push(("exponent", json!(approximate(&m.exponent()))));
            fields.push(("shift", json!(m.shift())));
        }
        Mechanism::PermuteAndFlip(m) => fields.push(exponent(m.exponent())),
        Mechanism::Unknown(m, _) => {
            let none = Rational::from_integer(m.nobody().into()) * &choice.unit;
            fields.push(exponent(m.exponent()));
            fields.push(("none_scores", json!(approximate(&none))));
            fields.push(("delta", json!(mechanized.loss.delta().map(approximate))));
        }
        Mechanism::NoisyKeys(keys) => {
            fields.push(match keys.noise() {
                ScoreNoise::Laplace(m) => {
                    ("scale", json!(approximate(&(m.scale() * &choice.unit))))
                }
                ScoreNoise::Gaussian(m) => {
                    ("sigma", json!(approximate(&(m.sigma() * &choice.unit))))
                }
            });
            fields.push(("tau", number(&tau_text(choice, keys))));
            fields.push(("delta", json!(approximate(mechanized.loss.rho_delta()))));
        }
        Mechanism::NoisyMax(m) => {
            let scale = m.exponent().recip() * &choice.unit;
            fields.push(("scale", json!(approximate(&scale))));
        }
        // The scale of the noise stands in the same field for all mechanisms.
        Mechanism::Laplace(_) => fields.push(("l1", number(&l1_text(choice)))),
        Mechanism::Gaussian(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Cumulative(_)
        | Mechanism::Exact => {}
    }
    fields.extend(mechanized.instead.map(|instead| match instead {
        Instead::NoisyScores(least) => ("auto_within", json!(least)),
        Instead::OwnSizes { rows } => ("auto_within_rows", json!(rows)),
        Instead::NoisyKeys { from } => ("noisy_scores_from", json!(from)),
        Instead::Rounds { from } => ("rounds_from", json!(from)),
    }));
    fields
}
