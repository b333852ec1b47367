//! Buckets that grow by powers of two: they locate the values of a column within a factor of two.
//!
//! In: a column's type. Out: buckets such that every value of the type is in exactly one of them,
//! and the range that selected buckets cover together. The buckets are public, because they depend
//! only on the type. Integers and decimals are bucketed exactly, in units of their last digit. NULL
//! and NaN are in no bucket, and infinite floats are in the outermost ones.
//!
//! ```text
//! SMALLINT:  … [-3, -2] [-1, -1] [0, 0] [1, 1] [2, 3] [4, 7] … [16384, 32767]
//! DOUBLE:    … (-2, -1] … [0, 0] … [1, 2) [2, 4) … [2^64, 2^480], where all larger values are, too
//! ```

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::math::expr_fn::{abs, power};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, lit, when};

use num_bigint::BigInt;

use crate::functions::AxisPlace;
use crate::mechanism::Laplace;
use crate::privacy::{Rational, decimal_text};

/// Floats have buckets for magnitudes from 2⁻³² to 2⁶⁴. All smaller values share a bucket, and so
/// do all larger ones.
const FLOATS: std::ops::RangeInclusive<i32> = -32..=64;

/// The power of two that stands for the outermost buckets of floats. If a bound is drawn, larger
/// values are cut to it: neither its square nor 2⁶³ times its square is infinite.
pub(crate) const OUTERMOST: i32 = 480;

/// The buckets of a column, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Buckets {
    ends: Ends,
}

#[derive(Debug, Clone, PartialEq)]
enum Ends {
    /// The first and last value of each bucket, in units of 10^−scale.
    Units { scale: u8, ends: Vec<(i128, i128)> },
    /// The ends of each bucket, and the smallest float in it.
    Floats(Vec<Floats>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Floats {
    start: f64,
    lo: f64,
    hi: f64,
}

impl Buckets {
    /// The buckets of a type. `None` for a type without magnitudes.
    ///
    /// # Guarantee
    /// They depend on the type alone. Every value of the type except NaN is in exactly one bucket.
    /// There are at most 257 buckets.
    pub(crate) fn for_type(data_type: &DataType) -> Option<Self> {
        let ends = match data_type {
            DataType::Float64 => Ends::Floats(floats(2_f64.powi(OUTERMOST))),
            DataType::Float32 => Ends::Floats(floats(f64::from(f32::MAX))),
            DataType::Decimal128(precision, scale) => {
                let scale = u8::try_from(*scale).ok()?;
                let most = 10_i128.checked_pow(u32::from(*precision))?.checked_sub(1)?;
                Ends::Units { scale, ends: units(-most, most, scale)? }
            }
            integer => {
                let (lo, hi) = integers(integer)?;
                Ends::Units { scale: 0, ends: units(lo, hi, 0)? }
            }
        };
        Some(Self { ends })
    }

    /// The number of buckets.
    pub(crate) fn len(&self) -> usize {
        match &self.ends {
            Ends::Units { ends, .. } => ends.len(),
            Ends::Floats(floats) => floats.len(),
        }
    }

    /// The function from a value to the position of its bucket; 0 is the first.
    ///
    /// # Guarantee
    /// Every value of the type has the position of its bucket. NULL and NaN have NULL.
    pub(crate) fn place(&self) -> AxisPlace {
        match &self.ends {
            Ends::Units { ends, .. } => AxisPlace::Units {
                numbers: ends.iter().skip(1).map(|(first, _)| *first).collect(),
                strict: false,
            },
            Ends::Floats(floats) => AxisPlace::Floats {
                numbers: floats.iter().skip(1).map(|bucket| bucket.start).collect(),
                strict: false,
            },
        }
    }

    /// The range that the given buckets span, as literals of the column's type. If no bucket is
    /// given, the range of all buckets.
    ///
    /// # Guarantee
    /// Every value of a given bucket is in the range, except doubles beyond ±2⁴⁸⁰ (see
    /// [`OUTERMOST`]). For integers and decimals the ends are exact: the first value of the first
    /// bucket and the last value of the last one.
    pub(crate) fn hull(&self, kept: &[usize]) -> (String, String) {
        let all = self.len().saturating_sub(1);
        let first = kept.iter().min().copied().unwrap_or(0).min(all);
        let last = kept.iter().max().copied().unwrap_or(all).min(all);
        match &self.ends {
            Ends::Units { scale, ends } => {
                let text = |units: i128| {
                    let power = BigInt::from(10).pow(u32::from(*scale));
                    decimal_text(&Rational::new(units.into(), power), u32::from(*scale))
                };
                let lo = ends.get(first).map_or(0, |(lo, _)| *lo);
                let hi = ends.get(last).map_or(0, |(_, hi)| *hi);
                (text(lo), text(hi))
            }
            Ends::Floats(floats) => {
                let lo = floats.get(first).map_or(0.0, |bucket| bucket.lo);
                let hi = floats.get(last).map_or(0.0, |bucket| bucket.hi);
                (float_text(lo), float_text(hi))
            }
        }
    }
}

/// The smallest power of two that no value of a DOUBLE's bucket exceeds, computed from the bucket's
/// number. For the bucket of 0 it is 2⁻³². For the outermost buckets it is 2⁴⁸⁰, which larger
/// values exceed.
pub(crate) fn reach(bucket: Expr) -> Result<Expr> {
    let zero = FLOATS.map(|_| 1.0).sum::<f64>() + 1.0;
    let number = Expr::Cast(Cast::new(Box::new(bucket), DataType::Float64));
    let magnitude = abs(number - lit(zero));
    let least = f64::from(*FLOATS.start());
    let exponent = when(magnitude.clone().gt_eq(lit(zero)), lit(f64::from(OUTERMOST)))
        .when(magnitude.clone().lt(lit(1.0)), lit(least))
        .otherwise(magnitude + lit(least - 1.0))?;
    Ok(power(lit(2.0), exponent))
}

/// The name of the column of a bound that is found.
pub(crate) const BOUND: &str = "bound";

/// The number of buckets of DOUBLE that hold negative values: they are the first.
fn negatives() -> usize {
    FLOATS.count() + 1
}

/// True if a DOUBLE's bucket holds negative values, by the bucket's number.
pub(crate) fn is_negative(bucket: i64) -> bool {
    usize::try_from(bucket).map_or(true, |bucket| bucket < negatives())
}

/// The same, as an expression over the bucket's number.
pub(crate) fn holds_negatives(bucket: Expr) -> Expr {
    bucket.lt(lit(i64::try_from(negatives()).unwrap_or(i64::MAX)))
}

/// The least and the greatest integer of a type.
fn integers(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Buckets of integers from `lo` to `hi` in units of 10^−scale. They end at powers of two of whole
/// values.
fn units(lo: i128, hi: i128, scale: u8) -> Option<Vec<(i128, i128)>> {
    let one = 10_u128.checked_pow(u32::from(scale))?;
    let most = u128::try_from(hi).ok()?;
    // The smallest value of each magnitude: 1 unit, then ⌈2^k·10^scale⌉.
    let mut starts: Vec<u128> = vec![1];
    let mut add = |start: u128| {
        if start <= most && starts.last().is_some_and(|last| *last < start) {
            starts.push(start);
        }
    };
    for shift in (1..=126_u32).rev() {
        add(one.div_ceil(1_u128 << shift));
    }
    let mut power = Some(one);
    while let Some(start) = power.filter(|start| *start <= most) {
        add(start);
        power = start.checked_mul(2);
    }
    let starts: Vec<i128> =
        starts.into_iter().map(i128::try_from).collect::<Result<_, _>>().ok()?;
    let last_of = |i: usize, end: i128| starts.get(i + 1).map_or(end, |next| next - 1);
    let mut ends = Vec::with_capacity(2 * starts.len() + 1);
    if lo < 0 {
        let below = starts.iter().enumerate().rev();
        ends.extend(below.map(|(i, start)| (-last_of(i, -lo), -start)));
    }
    ends.push((0, 0));
    ends.extend(starts.iter().enumerate().map(|(i, start)| (*start, last_of(i, hi))));
    Some(ends)
}

/// Buckets of floats up to the type's largest float.
fn floats(most: f64) -> Vec<Floats> {
    let edges: Vec<f64> = FLOATS.map(|k| 2_f64.powi(k)).collect();
    let (least, largest) =
        (edges.first().copied().unwrap_or(1.0), edges.last().copied().unwrap_or(1.0));
    let tiny = 0.0_f64.next_up();
    let mut above = vec![Floats { start: tiny, lo: 0.0, hi: least }];
    above.extend(edges.windows(2).filter_map(|pair| match pair {
        [lo, hi] => Some(Floats { start: *lo, lo: *lo, hi: *hi }),
        _ => None,
    }));
    above.push(Floats { start: largest, lo: largest, hi: most });
    // A negative bucket mirrors a positive one; the end that is closer to 0 is mirrored, too.
    let mirrored = |i: usize, bucket: &Floats| Floats {
        start: above.get(i + 1).map_or(f64::NEG_INFINITY, |next| (-next.start).next_up()),
        lo: -bucket.hi,
        hi: -bucket.lo + 0.0,
    };
    let mut all: Vec<_> = above.iter().enumerate().rev().map(|(i, b)| mirrored(i, b)).collect();
    all.push(Floats { start: 0.0, lo: 0.0, hi: 0.0 });
    all.extend(above);
    all
}

/// A float as a literal that reads back as the same float.
pub(crate) fn float_text(x: f64) -> String {
    let size = x.abs();
    if size > 0.0 && !(1e-6..1e15).contains(&size) { format!("{x:e}") } else { x.to_string() }
}

/// At most one in this many histograms selects an empty bucket. Such a bucket would act like an
/// outlier that no row has: it would set a bound, and with it the scale of the noise, or the end of
/// a range.
const FALSE_ALARMS: u32 = 1_000_000;

/// The same number, for display.
pub(crate) const FALSE_ALARM: &str = "1 of 1,000,000";

/// The smallest noisy count at which a bucket is selected.
///
/// # Guarantee
/// For every Laplace noise and every number of buckets, the probability that some bucket without a
/// row reaches the result is at most 10⁻⁶. Each bucket does so with probability at most 10⁻⁶
/// divided by the number of buckets, and these probabilities add up. The result is the smallest
/// such integer, up to the rounding of [`Laplace::error_at`]. It does not depend on private data.
pub(crate) fn least_kept(noise: &Laplace, buckets: usize) -> i128 {
    // The noise is symmetric: P(X > t) is half of P(|X| > t), which is at most 2/(10⁶·buckets).
    let buckets = BigInt::from(buckets.max(1));
    let share = Rational::new(BigInt::from(2), BigInt::from(FALSE_ALARMS) * buckets);
    i128::try_from(noise.error_at(&share)).unwrap_or(i128::MAX).saturating_add(1)
}

/// The buckets that a noisy histogram selects: those that reach the least count, or the fullest one
/// if none does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptBuckets {
    /// The numbers of the buckets; exactly one if none reaches the least count.
    pub(crate) buckets: Vec<usize>,
    /// Whether they reach the least count.
    pub(crate) stand_out: bool,
}

/// Selects buckets by their noisy counts, which are given with the buckets' numbers.
///
/// # Guarantee
/// The result is a function of the noisy counts and the threshold. At least one bucket is selected,
/// unless none is given. If several buckets are fullest, only the first is selected, because the
/// range between two of them could span all values.
pub(crate) fn kept(counts: &[(usize, i128)], least: i128) -> KeptBuckets {
    let most = counts.iter().map(|(_, n)| *n).max().unwrap_or(i128::MIN);
    let from = least.min(most);
    let found = counts.iter().filter(|(_, n)| *n >= from).map(|(bucket, _)| *bucket);
    let stand_out = most >= least;
    let taken = if stand_out { usize::MAX } else { 1 };
    KeptBuckets { buckets: found.take(taken).collect(), stand_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::QueryRng;

    /// The bucket of a value, by brute force over the ends.
    fn number(buckets: &Buckets, value: i128) -> usize {
        let Ends::Units { ends, .. } = &buckets.ends else { panic!("exact") };
        let found: Vec<_> =
            (0..ends.len()).filter(|i| (ends[*i].0..=ends[*i].1).contains(&value)).collect();
        assert_eq!(found.len(), 1, "{value} is in one bucket");
        found[0]
    }

    fn exact_types() -> Vec<DataType> {
        vec![
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Decimal128(1, 0),
            DataType::Decimal128(5, 5),
            DataType::Decimal128(10, 2),
            DataType::Decimal128(38, 0),
            DataType::Decimal128(38, 19),
            DataType::Decimal128(38, 38),
        ]
    }

    #[test]
    fn exact_buckets_tile_their_type() {
        for data_type in exact_types() {
            let buckets = Buckets::for_type(&data_type).unwrap();
            let Ends::Units { ends, .. } = &buckets.ends else { panic!("exact") };
            let (lo, hi) = (ends[0].0, ends.last().unwrap().1);
            for pair in ends.windows(2) {
                assert_eq!(pair[0].1 + 1, pair[1].0, "{data_type}");
            }
            assert!(ends.iter().all(|(lo, hi)| lo <= hi) && ends.len() <= 257, "{data_type}");
            let whole = if let DataType::Decimal128(precision, _) = data_type {
                let most = 10_i128.pow(u32::from(precision)) - 1;
                (-most, most)
            } else {
                integers(&data_type).unwrap()
            };
            assert_eq!((lo, hi), whole, "{data_type}");
            // No bucket spans more than a factor of two, in units other than the last digits.
            assert!(
                ends.iter().all(|(lo, hi)| {
                    let (near, far) = (lo.abs().min(hi.abs()), lo.abs().max(hi.abs()));
                    near <= 1 || far - near <= near
                }),
                "{data_type}"
            );
        }
    }

    #[test]
    fn places_are_the_buckets() {
        for data_type in exact_types() {
            let buckets = Buckets::for_type(&data_type).unwrap();
            let AxisPlace::Units { numbers, strict: false } = buckets.place() else {
                panic!("exact")
            };
            let Ends::Units { ends, .. } = &buckets.ends else { panic!("exact") };
            assert_eq!(numbers.len() + 1, buckets.len());
            for value in ends.iter().flat_map(|(lo, hi)| [*lo, *hi]) {
                let place = numbers.partition_point(|n| *n <= value);
                assert_eq!(place, number(&buckets, value), "{data_type}: {value}");
            }
        }
    }

    #[test]
    fn hulls_are_exact() {
        let small = Buckets::for_type(&DataType::Int16).unwrap();
        let hull = |values: &[i128]| {
            let kept: Vec<_> = values.iter().map(|v| number(&small, *v)).collect();
            small.hull(&kept)
        };
        let pair = |lo: &str, hi: &str| (lo.to_owned(), hi.to_owned());
        assert_eq!(hull(&[0]), pair("0", "0"));
        assert_eq!(hull(&[5, 90]), pair("4", "127"));
        assert_eq!(hull(&[-1, 0]), pair("-1", "0"));
        assert_eq!(hull(&[90, -8]), pair("-15", "127"));
        assert_eq!(hull(&[-32_768, 32_767]), pair("-32768", "32767"));
        assert_eq!(hull(&[]), pair("-32768", "32767"));
        let money = Buckets::for_type(&DataType::Decimal128(10, 2)).unwrap();
        let kept = [number(&money, 25), number(&money, 400)];
        assert_eq!(money.hull(&kept), pair("0.25", "7.99"));
        assert_eq!(money.hull(&[]), pair("-99999999.99", "99999999.99"));
    }

    fn float_place(buckets: &Buckets, x: f64) -> usize {
        let AxisPlace::Floats { numbers, strict: false } = buckets.place() else {
            panic!("floats")
        };
        numbers.partition_point(|n| *n <= x)
    }

    #[test]
    fn floats_lie_between_the_ends_of_their_bucket() {
        for data_type in [DataType::Float64, DataType::Float32] {
            let buckets = Buckets::for_type(&data_type).unwrap();
            let Ends::Floats(floats) = &buckets.ends else { panic!("floats") };
            assert!(floats.windows(2).all(|p| p[0].start < p[1].start && p[0].hi <= p[1].lo));
            assert_eq!(floats.len(), 197);
            let mut values = vec![0.0, -0.0, 5e-324, 1e-300, 1.0, 1.5, 2.0, 1e19, 1e30, 9.99];
            for k in FLOATS {
                let edge = 2_f64.powi(k);
                values.extend([edge.next_down(), edge, edge.next_up()]);
            }
            for x in values.into_iter().flat_map(|x| [x, -x]) {
                let bucket = floats[float_place(&buckets, x)];
                assert!(bucket.lo <= x && x <= bucket.hi, "{x} in {bucket:?}");
                // A value and its negative are in mirrored buckets.
                let other = floats[float_place(&buckets, -x)];
                assert!(bucket.lo + other.hi == 0.0 && bucket.hi + other.lo == 0.0, "{x}");
            }
            assert_eq!(float_place(&buckets, f64::INFINITY), 196);
            assert_eq!(float_place(&buckets, f64::NEG_INFINITY), 0);
            let everything = buckets.hull(&[]);
            assert_eq!(everything.0, format!("-{}", everything.1));
            // The square of a proposed bound is finite, and so is its sum over 2⁶³ rows.
            let bound: f64 = everything.1.parse().unwrap();
            assert!((bound * bound).is_finite() && bound >= f64::from(f32::MAX), "{bound}");
        }
    }

    #[test]
    fn literals_read_back() {
        let buckets = Buckets::for_type(&DataType::Float64).unwrap();
        let Ends::Floats(floats) = &buckets.ends else { panic!("floats") };
        for (i, bucket) in floats.iter().enumerate() {
            let (lo, hi) = buckets.hull(&[i]);
            let bits = |text: &str| text.parse::<f64>().unwrap().to_bits();
            assert_eq!((bits(&lo), bits(&hi)), (bucket.lo.to_bits(), bucket.hi.to_bits()));
            assert!(lo.len() < 26 && hi.len() < 26, "{lo} {hi}");
        }
        assert_eq!(buckets.hull(&[float_place(&buckets, 1.5)]), ("1".into(), "2".into()));
    }

    #[test]
    fn what_has_no_magnitude_has_no_buckets() {
        for other in [
            DataType::Utf8,
            DataType::Boolean,
            DataType::Date32,
            DataType::Decimal128(5, -2),
            DataType::Decimal256(40, 2),
        ] {
            assert_eq!(Buckets::for_type(&other), None, "{other}");
        }
    }

    fn laplace(l1: u128, epsilon: &str) -> Laplace {
        Laplace::calibrate(l1, &epsilon.parse().unwrap()).unwrap()
    }

    /// The chance that one of B empty buckets is kept, by definition in floats: at most
    /// B·α^m/(1+α).
    #[test]
    fn empty_buckets_are_rarely_kept() {
        for (l1, epsilon) in [(1, "1"), (1, "0.1"), (20, "0.1"), (3, "7"), (1, "1000")] {
            for buckets in [1_i32, 64, 127, 197, 257] {
                let noise = laplace(l1, epsilon);
                let alpha = (-epsilon.parse::<f64>().unwrap()
                    / f64::from(u32::try_from(l1).unwrap()))
                .exp();
                let kept = least_kept(&noise, usize::try_from(buckets).unwrap());
                let tail =
                    |m: i128| alpha.powf(m.to_string().parse::<f64>().unwrap()) / (1.0 + alpha);
                let b = f64::from(buckets);
                assert!(b * tail(kept) <= 1e-6 * (1.0 + 1e-9), "{l1} {epsilon} {buckets}: {kept}");
                assert!(
                    kept == 1 || b * tail(kept - 1) > 1e-6 * (1.0 - 1e-9),
                    "{l1} {epsilon} {buckets}: {kept}"
                );
            }
        }
        assert_eq!(least_kept(&laplace(1, "1000"), 197), 1);
        // ln(0.05/10⁻⁶) = 10.8 scales above 77, the threshold for 5 %.
        assert_eq!(least_kept(&laplace(1, "0.1"), 197), 185);
    }

    /// 4,000 histograms of 197 empty buckets each. Any of them keeps a bucket with a probability of
    /// at most 0.4 %; the seed is fixed. At 5 % each, 200 would.
    #[test]
    fn false_alarms_are_as_rare_as_stated() {
        let noise = laplace(1, "0.5");
        let least = least_kept(&noise, 197);
        let mut rng = QueryRng::seeded_for_tests(41);
        let mut histograms = (0..4_000).map(|_| {
            let counts: Vec<_> = (0..197).map(|bucket| (bucket, noise.draw(&mut rng))).collect();
            kept(&counts, least)
        });
        assert!(histograms.all(|kept| !kept.stand_out && !kept.buckets.is_empty()));
    }

    #[test]
    fn where_no_bucket_stands_out_the_fullest_is_kept() {
        let of =
            |buckets: &[usize], stand_out| KeptBuckets { buckets: buckets.to_vec(), stand_out };
        assert_eq!(kept(&[(0, 3), (1, 9), (2, 7), (3, -4)], 7), of(&[1, 2], true));
        assert_eq!(kept(&[(0, 3), (1, 9), (2, 7), (3, -4)], 10), of(&[1], false));
        assert_eq!(kept(&[(3, -8), (4, -3), (5, -3), (6, -8)], 1), of(&[4], false));
        assert_eq!(kept(&[], 1), of(&[], false));
    }
}
