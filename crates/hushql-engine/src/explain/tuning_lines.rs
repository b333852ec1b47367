//! The explanation of a question whose ε and bounds were tried on rows of a stand-in.
//!
//! In: the errors of each setting. Out: an [`Explanation`]: every setting at the written cost, the
//! best at each cost, and the best at the written one as a statement.

use serde_json::{Value, json};

use super::Explanation;
use crate::catalog::quoted;
use crate::dialect::Parameters;
use crate::visible::rounded;

/// The errors of a setting: means over the groups of the stand-in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingErrors {
    /// What bounds and ends cut, of the groups that are shown.
    pub(crate) bias: f64,
    /// The half width of the noise with 95 %, of the groups that are shown.
    pub(crate) noise: f64,
    /// Both together; all of a group that is hidden.
    pub(crate) error: f64,
    /// The groups that are hidden more often than not.
    pub(crate) lost: usize,
    /// True if no group is shown, so that there is neither bias nor noise.
    pub(crate) hides_all: bool,
}

/// A setting that was tried.
#[derive(Debug)]
pub(crate) struct TunedSetting {
    pub(crate) parameters: Parameters,
    /// The ends of CLAMP; `None` for the values as they are written.
    pub(crate) ends: Option<[String; 2]>,
    /// The power of two by which the written cost is multiplied.
    pub(crate) doublings: i32,
    pub(crate) errors: SettingErrors,
    /// The question with this setting.
    pub(crate) sql: String,
}

/// What was tried.
#[derive(Debug)]
pub(crate) struct Tuning {
    pub(crate) operand: String,
    pub(crate) table: String,
    pub(crate) stand_in: String,
    /// The rows of the stand-in that count, and those with other keys.
    pub(crate) rows: usize,
    pub(crate) left_out: usize,
    pub(crate) groups: usize,
    pub(crate) has_threshold: bool,
    /// The column that says whose a row is.
    pub(crate) unit: Option<String>,
    /// Why there is none.
    pub(crate) without_unit: Option<String>,
    /// The cheapest first, and at one cost those first that cut the least.
    pub(crate) settings: Vec<TunedSetting>,
}

impl Tuning {
    /// The setting with the least error at this multiple of the written cost; of several, the one
    /// that cuts the least.
    fn best_at(&self, doublings: i32) -> Option<&TunedSetting> {
        let own = self.settings.iter().filter(|setting| setting.doublings == doublings);
        own.reduce(|best, next| if next.errors.error < best.errors.error { next } else { best })
    }

    /// Every multiple of the written cost that was tried.
    fn costs(&self) -> Vec<i32> {
        let mut costs: Vec<i32> = self.settings.iter().map(|setting| setting.doublings).collect();
        costs.dedup();
        costs
    }

    /// The errors of a setting in words.
    fn errors_text(&self, errors: &SettingErrors) -> String {
        let lost = match (self.has_threshold, errors.lost) {
            (false, _) => String::new(),
            (true, lost) => format!(", lost {lost}"),
        };
        if errors.hides_all {
            return format!("no group is shown{lost}, error {}", rounded(errors.error));
        }
        format!(
            "bias {}, noise ± {}{lost}, error {}",
            rounded(errors.bias),
            rounded(errors.noise),
            rounded(errors.error)
        )
    }

    fn json(&self) -> Value {
        let settings = self.settings.iter().map(|setting| {
            let SettingErrors { bias, noise, error, lost, hides_all } = setting.errors;
            let best = self.best_at(setting.doublings);
            json!({
                "parameters": setting.parameters.to_string(),
                "clamp": setting.ends,
                "bias": (!hides_all).then_some(bias),
                "noise": (!hides_all).then_some(noise),
                "lost": self.has_threshold.then_some(lost),
                "error": error,
                "is_best": best.is_some_and(|best| std::ptr::eq(best, setting)),
                "write": setting.sql,
            })
        });
        json!({
            "tuning": {
                "operand": self.operand,
                "table": self.table,
                "on": self.stand_in,
                "rows": self.rows,
                "rows_left_out": self.left_out,
                "groups": self.groups,
                "unit": self.unit,
                "settings": settings.collect::<Vec<_>>(),
                "write": self.best_at(0).map(|best| best.sql.as_str()),
            }
        })
    }
}

impl TunedSetting {
    /// The parameters and the ends of values.
    fn label(&self) -> String {
        match &self.ends {
            Some([lo, hi]) => format!("{}, CLAMP {lo}..{hi}", self.parameters),
            None => self.parameters.to_string(),
        }
    }
}

impl Explanation {
    /// The explanation of what was tried.
    pub(crate) fn of_tuning(tuning: &Tuning) -> Self {
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (rows, groups) = (plural(tuning.rows, "row"), plural(tuning.groups, "group"));
        let table = quoted(&tuning.table);
        let mut lines = vec![(
            "tune",
            format!(
                "{} of {table}, tried on {rows} of {} in {groups}; nothing is charged, and no row of {table} is read",
                tuning.operand,
                quoted(&tuning.stand_in),
            ),
        )];
        if tuning.left_out > 0 {
            let rows = plural(tuning.left_out, "row");
            lines.push(("left out", format!("{rows} with keys that do not come out")));
        }
        lines.extend(tuning.without_unit.iter().map(|why| {
            (
                "not tuned",
                format!("bounds on a person's rows: {why}, and what they cut is not in the bias"),
            )
        }));
        lines.push((
            "error",
            format!(
                "bias (what bounds and CLAMP cut) + noise (95 %), the mean of the groups{}",
                if tuning.has_threshold {
                    "; a group is lost if its exact number is below the threshold, and then all of it is error"
                } else {
                    ""
                }
            ),
        ));
        let shown = |setting: &TunedSetting, width: usize| {
            format!("{:<width$}   {}", setting.label(), tuning.errors_text(&setting.errors))
        };
        let widest = |settings: &[&TunedSetting]| {
            settings.iter().map(|setting| setting.label().chars().count()).max().unwrap_or(0)
        };
        let own: Vec<&TunedSetting> =
            tuning.settings.iter().filter(|setting| setting.doublings == 0).collect();
        let width = widest(&own);
        lines.extend(own.iter().map(|setting| ("setting", shown(setting, width))));
        let best: Vec<&TunedSetting> =
            tuning.costs().into_iter().filter_map(|cost| tuning.best_at(cost)).collect();
        let width = widest(&best);
        lines.extend(best.iter().map(|setting| ("best", shown(setting, width))));
        lines.extend(tuning.best_at(0).map(|best| ("write", best.sql.clone())));
        Self { lines, json: tuning.json() }
    }
}
