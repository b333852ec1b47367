//! The scale of an axis: its range, its ticks, and the positions of values.
//!
//! In: values. Out: shares of the axis, from 0 to 1, and ticks at round numbers.
//!
//! ```text
//! 0 … 16005  →  ticks 0, 5000, 10000, 15000;  8000 is at 0.5
//! ```

/// The range of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Scale {
    /// The range from the least to the greatest of these ends.
    pub(super) fn of(ends: impl Iterator<Item = (f64, f64)>) -> Self {
        let all = ends.fold(None, |range: Option<(f64, f64)>, (low, high)| {
            Some(range.map_or((low, high), |(least, most)| (least.min(low), most.max(high))))
        });
        let (low, high) = all.unwrap_or((0.0, 1.0));
        Self { low, high }
    }

    /// The range, extended to zero, where bars begin.
    pub(super) fn with_zero(self) -> Self {
        Self { low: self.low.min(0.0), high: self.high.max(0.0) }
    }

    /// The range, extended to zero if zero is no farther away than the range is wide. It is never
    /// empty.
    pub(super) fn for_lines(self) -> Self {
        let near =
            if self.low > 0.0 { self.low * 2.0 <= self.high } else { self.high * 2.0 >= self.low };
        let scale = if near { self.with_zero() } else { self };
        let span = scale.high - scale.low;
        let room = if span > 0.0 { return scale } else { scale.high.abs().max(1.0) / 2.0 };
        Self { low: scale.low - room, high: scale.high + room }
    }

    /// The position of a value: 0 at the lower end, 1 at the upper end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let span = (self.high - self.low).max(f64::MIN_POSITIVE);
        ((value - self.low) / span).clamp(0.0, 1.0)
    }

    /// The cell that contains a value, if the axis has `cells` cells.
    pub(super) fn cell(&self, value: f64, cells: usize) -> usize {
        nearest_below(self.share(value), cells.saturating_sub(1))
    }

    /// Round numbers in the range, approximately `about`, with their labels.
    pub(super) fn ticks(&self, about: u32) -> Vec<(f64, String)> {
        let span = self.high - self.low;
        let rough = span / f64::from(about.max(1));
        if rough.is_nan() || rough < f64::MIN_POSITIVE * 1e10 {
            return vec![(self.low, written(self.low, 2))];
        }
        let exponent = exponent(rough);
        let power = 10_f64.powi(exponent);
        let (factor, rise) = [(1.0, 0), (2.0, 0), (5.0, 0), (10.0, 1)]
            .into_iter()
            .find(|(factor, _)| factor * power >= rough * 0.999_999)
            .unwrap_or((10.0, 1));
        let (step, exponent) = (factor * power, exponent + rise);
        let first = (self.low / step).ceil();
        let decimals = usize::try_from(-exponent).unwrap_or(0);
        let tick = |n: u32| {
            // Adding 0.0 removes the sign of −0.0.
            let value = (first + f64::from(n)) * step + 0.0;
            (value, written(value, decimals))
        };
        let last = self.high + step / 1e6;
        (0..50).map(tick).take_while(|(value, _)| *value <= last).collect()
    }
}

/// The decimal exponent of a positive number: 3 for 1000 and for 9999.
fn exponent(value: f64) -> i32 {
    let printed = format!("{value:e}");
    printed.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn written(value: f64, decimals: usize) -> String {
    match value.abs() >= 1e12 || decimals > 9 {
        true if value.abs() > 0.0 => {
            let text = format!("{value:.2e}");
            text.replace(".00e", "e").replacen("0e", "e", usize::from(text.contains('.')))
        }
        _ => format!("{value:.decimals$}"),
    }
}

/// The greatest whole number up to `last` that is at most `share * last`.
pub(super) fn nearest_below(share: f64, last: usize) -> usize {
    let most = float(last) * share;
    // Counting avoids a conversion from float to integer.
    (1..=last).take_while(|n| float(*n) <= most + 1e-9).count()
}

/// A small number.
pub(super) fn float(n: usize) -> f64 {
    u32::try_from(n).map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(low: f64, high: f64, about: u32) -> Vec<String> {
        Scale { low, high }.ticks(about).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(shown(0.0, 16005.0, 4), ["0", "5000", "10000", "15000"]);
        assert_eq!(shown(-0.3, 0.3, 4), ["-0.2", "0.0", "0.2"]);
        assert_eq!(shown(0.0, 1.0, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(5.0, 5.0, 5), ["5.00"]);
        assert_eq!(shown(0.0, 2e15, 2), ["0", "1e15", "2e15"]);
        for (low, high) in [(0.0, 1e-300), (-1e299, 1e299), (1e-9, 3e-9), (7.0, 7.000_000_1)] {
            let ticks = Scale { low, high }.ticks(5);
            assert!((1..=12).contains(&ticks.len()), "{low} {high}: {ticks:?}");
        }
    }

    #[test]
    fn values_have_their_place() {
        let scale = Scale { low: -10.0, high: 10.0 };
        assert_eq!([-10.0, 0.0, 10.0, 99.0].map(|v| scale.cell(v, 21)), [0, 10, 20, 20]);
        assert_eq!(Scale { low: 5.0, high: 5.0 }.cell(5.0, 9), 0);
        let lines = |low, high| Scale { low, high }.for_lines();
        assert_eq!(lines(4.0, 10.0), Scale { low: 0.0, high: 10.0 });
        assert_eq!(lines(8.0, 10.0), Scale { low: 8.0, high: 10.0 });
        assert_eq!(lines(-10.0, -8.0), Scale { low: -10.0, high: -8.0 });
        assert_eq!(lines(-10.0, -4.0), Scale { low: -10.0, high: 0.0 });
        assert_eq!(lines(0.0, 0.0), Scale { low: -0.5, high: 0.5 });
        assert_eq!(lines(8.0, 8.0), Scale { low: 4.0, high: 12.0 });
    }
}
