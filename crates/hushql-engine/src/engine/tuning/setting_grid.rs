//! The settings that are tried: costs around the written one, bounds on a person's rows, and ends
//! of values.
//!
//! In: the release as it is written, and the values of the stand-in. Out: for each setting, the
//! parameters of the mechanism and the ends of CLAMP. Those that cut the least come first.
//!
//! ```text
//! LAPLACE(eps=1) SUM(price), MAX ROWS 20, prices up to 100:
//!   eps 1/4 1/2 1 2 4  ×  rows 20 16 8 4 2 1  ×  as written, 0..25, 0..24, 0..15
//! ```

use super::calibrated::{Calibrated, TunedAggregate};
use super::stand_in_rows::StandInRows;
use crate::dialect::{Parameters, ReleaseClause};
use crate::privacy::{Epsilon, Rational, Rho};

/// The multiples of the written ε or ρ, as powers of two.
const DOUBLINGS: std::ops::RangeInclusive<i32> = -2..=2;

/// The most bounds on rows.
const MOST_BOUNDS: usize = 8;

/// The shares of values that lie within the ends, in percent.
const SHARES: [usize; 4] = [100, 99, 95, 90];

/// One setting.
#[derive(Debug, Clone)]
pub(super) struct TrialSetting {
    pub(super) parameters: Parameters,
    /// `None` for the values as they are written.
    pub(super) ends: Option<[String; 2]>,
    /// The power of two by which the written cost is multiplied.
    pub(super) doublings: i32,
}

/// All settings.
#[derive(Debug)]
pub(super) struct SettingGrid {
    written: Parameters,
    /// The bounds on a person's rows, in descending order; none if they are not tuned.
    rows: Vec<u64>,
    /// True if the first bound is the declared one, which needs no parameter.
    is_declared: bool,
    /// True if the bound is one on all rows of a person in several groups.
    in_all: bool,
    ends: Vec<[String; 2]>,
}

impl SettingGrid {
    /// The settings around a release.
    pub(super) fn around(
        release: &ReleaseClause,
        written: &Calibrated,
        knows_people: bool,
        rows: &StandInRows,
    ) -> Self {
        let parameters = release.parameters.clone();
        let groups = parameters.groups.filter(|_| written.is_grouped).unwrap_or(1);
        let in_groups = parameters.rows.map(|rows| rows.saturating_mul(groups));
        let most = written.most_rows.or(parameters.total_rows).or(in_groups);
        let bounds = most.filter(|_| knows_people && written.has_people).map(row_bounds);
        let ends = match written.counted {
            TunedAggregate::Rows | TunedAggregate::Values => Vec::new(),
            TunedAggregate::Sum | TunedAggregate::Mean => {
                narrower(&rows.sorted_values(), written.ends, &written.written_ends)
            }
        };
        Self {
            written: parameters,
            rows: bounds.unwrap_or_default(),
            is_declared: written.most_rows.is_some(),
            in_all: written.is_grouped,
            ends,
        }
    }

    /// Every setting, the cheapest first, and at one cost those first that cut the least.
    pub(super) fn trials(&self) -> Vec<TrialSetting> {
        let mut trials = Vec::new();
        let bounds = self.rows.iter().enumerate().map(|(at, rows)| Some((at, *rows)));
        let bounds: Vec<_> = if self.rows.is_empty() { vec![None] } else { bounds.collect() };
        for doublings in DOUBLINGS {
            let Some(priced) = scaled(&self.written, doublings) else { continue };
            for bound in &bounds {
                let parameters = match bound {
                    Some((at, rows)) => self.bounded(priced.clone(), *at, *rows),
                    None => priced.clone(),
                };
                let ends = std::iter::once(None).chain(self.ends.iter().cloned().map(Some));
                trials.extend(ends.map(|ends| TrialSetting {
                    parameters: parameters.clone(),
                    ends,
                    doublings,
                }));
            }
        }
        trials
    }

    /// The parameters with a bound on a person's rows. The largest is that of the declaration, or
    /// the written one.
    fn bounded(&self, parameters: Parameters, at: usize, rows: u64) -> Parameters {
        let (rows, total_rows) = match (at, self.in_all) {
            (0, _) if self.is_declared => (None, None),
            (0, _) => (parameters.rows, parameters.total_rows),
            (_, true) => (None, Some(rows)),
            (_, false) => (Some(rows), None),
        };
        Parameters { rows, total_rows, ..parameters }
    }
}

/// The most, and the powers of two below it; of four or more if these are too many.
fn row_bounds(most: u64) -> Vec<u64> {
    let below = |times: u64| {
        let powers = std::iter::successors(Some(1_u64), move |n| n.checked_mul(times));
        powers.take_while(|n| *n < most).collect::<Vec<_>>()
    };
    let mut times = 2;
    while below(times).len() + 1 > MOST_BOUNDS {
        times *= 2;
    }
    let mut bounds = below(times);
    bounds.push(most);
    bounds.reverse();
    bounds
}

/// The written parameters at 2^`doublings` times their ε or ρ; `None` beyond what may be written.
fn scaled(written: &Parameters, doublings: i32) -> Option<Parameters> {
    let factor = Rational::from_integer(2.into()).pow(doublings);
    let mut parameters = written.clone();
    if let Some(epsilon) = &mut parameters.epsilon {
        *epsilon = Epsilon::new(epsilon.value() * &factor).ok()?;
    }
    if let Some(rho) = &mut parameters.rho {
        *rho = Rho::new(rho.value() * &factor).ok()?;
    }
    Some(parameters)
}

/// Ends that contain shares of the values, rounded outwards to two digits, and are narrower than
/// the written ones. An end that is 0 or on the side of 0 stays.
fn narrower(
    values: &[f64],
    [lo, hi]: [f64; 2],
    [written_lo, written_hi]: &[String; 2],
) -> Vec<[String; 2]> {
    let mut all: Vec<[String; 2]> = Vec::new();
    for share in SHARES {
        let beyond = values.len() * (100 - share) / 100;
        let (Some(high), Some(low)) = (
            values.len().checked_sub(1 + beyond).and_then(|at| values.get(at)),
            values.get(beyond),
        ) else {
            continue;
        };
        let (high, low) = (two_digits(*high), two_digits(-*low).map(|text| negated(&text)));
        let value = |text: &String| text.parse::<f64>().ok();
        // Where all values may have one sign, the end near 0 bounds no noise.
        let high =
            high.filter(|text| hi > 0.0 && value(text).is_some_and(|high| high < hi && high > lo));
        let low =
            low.filter(|text| lo < 0.0 && value(text).is_some_and(|low| low > lo && low < hi));
        if high.is_none() && low.is_none() {
            continue;
        }
        let ends =
            [low.unwrap_or_else(|| written_lo.clone()), high.unwrap_or_else(|| written_hi.clone())];
        let is_proper = value(&ends[0]) < value(&ends[1]);
        if is_proper && !all.contains(&ends) {
            all.push(ends);
        }
    }
    all
}

/// A number with two significant digits, rounded up: `8.5` for 8.49, `130` for 123, `-3.4` for
/// -3.49.
fn two_digits(value: f64) -> Option<String> {
    if value == 0.0 {
        return Some("0".to_owned());
    }
    // The exponent of the first digit, as the formatting of floats says it.
    let exponent = format!("{:e}", value.abs()).split_once('e')?.1.parse::<i32>().ok()? - 1;
    let digits = value / 10_f64.powi(exponent);
    let whole = digits.round();
    let whole = if (digits - whole).abs() < 1e-9 * digits.abs() { whole } else { digits.ceil() };
    let sign = if whole < 0.0 { "-" } else { "" };
    let digits = format!("{:.0}", whole.abs());
    let text = match usize::try_from(exponent) {
        Ok(zeros) => format!("{digits}{}", "0".repeat(zeros)),
        Err(_) => {
            let places = usize::try_from(exponent.unsigned_abs()).ok()?;
            let padded = format!("{digits:0>width$}", width = places + 1);
            let (whole, part) = padded.split_at(padded.len() - places);
            let part = part.trim_end_matches('0');
            if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
        }
    };
    Some(format!("{sign}{text}"))
}

/// The number of the other sign.
fn negated(text: &str) -> String {
    match text.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if text == "0" => text.to_owned(),
        None => format!("-{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_two_digits_and_are_rounded_outwards() {
        let shown = |value: f64| two_digits(value).unwrap();
        for (value, text) in [
            (0.0, "0"),
            (8.49, "8.5"),
            (8.5, "8.5"),
            (24.9, "25"),
            (123.0, "130"),
            (1999.0, "2000"),
            (99.5, "100"),
            (0.0123, "0.013"),
            (0.3, "0.3"),
            (7.0, "7"),
            (-3.49, "-3.4"),
            (-123.0, "-120"),
        ] {
            assert_eq!(shown(value), text, "{value}");
        }
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let ends = |values: &[f64], lo: f64, hi: f64| {
            let written = [lo.to_string(), hi.to_string()];
            narrower(values, [lo, hi], &written)
                .iter()
                .map(|ends| ends.join(".."))
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(&values, 0.0, 1000.0), ["0..100", "0..99", "0..95", "0..90"]);
        assert_eq!(ends(&values, 0.0, 95.0), ["0..90"]);
        assert_eq!(ends(&[-7.0, 3.0], -10.0, 10.0), ["-7..3"]);
        assert!(ends(&[], 0.0, 9.0).is_empty());
    }

    #[test]
    fn bounds_on_rows_end_at_the_declared_one() {
        assert_eq!(row_bounds(20), [20, 16, 8, 4, 2, 1]);
        assert_eq!(row_bounds(1), [1]);
        assert_eq!(row_bounds(2), [2, 1]);
        let many = row_bounds(1 << 32);
        assert!(many.len() <= MOST_BOUNDS && many[0] == 1 << 32 && many.ends_with(&[1]));
    }
}
