//! Shared vectors: COUNT, SUM, AVG and variances of one column are computed from one noisy vector.
//!
//! In: the calibrated measures of a private aggregate. Out: for those that share a vector, the
//! noise of the vector (A, B) = (Σ(x − lo), Σ(hi − x)) at the sum of their ε, and the way in which
//! each of them is computed from it, with w = hi − lo:
//!
//! ```text
//! COUNT = (A + B)/w        SUM = lo·COUNT + A        AVG = lo + w·A/(A + B)
//! LAPLACE(eps=1) COUNT(x), LAPLACE(eps=1) SUM(x), 0..120:   scales 1 and 120 alone, 60 together: ± 2 for 3, and ± 180 for 360
//! ```
//!
//! If one of them is a variance or standard deviation, they share its vector instead, with X = x −
//! lo and S = A + B + C:
//!
//! ```text
//! (A, B, C) = (Σ(w − X)², Σ2X(w − X), ΣX²)      every row adds w² to S, and 2wX to B + 2C
//! COUNT = S/w²      SUM = lo·COUNT + (B + 2C)/2w      AVG = lo + w·(B + 2C)/2S      variance = w²·(4AC − B²)/4S²
//! ```
//!
//! Each measure still costs what it states: the vector is one release at the sum of their ε, and
//! the measures are computed from it. They share it only if this makes the error of each of them
//! smaller. If a budget counts ρ, the sum of the ε would cost more than the sum of the measures' ρ.
//! The vector then has the largest ε that costs no more than either sum. If a budget counts
//! coupons, several coupons do not pay for an ε above that of one coupon. Such measures are drawn
//! alone.

use num_traits::ToPrimitive;

use crate::analysis::{
    ContributionBounds, Input, Measure, PrivateAggregate, ReleaseKind, VarianceMoments,
};
use crate::dialect::MechanismName;
use crate::grid::Grid;
use crate::hierarchy::tail;
use crate::mechanism::{Laplace, NoisyMax};
use crate::privacy::{Epsilon, Loss, Rational, Spend};
use crate::release::cost::OneDraw;
use crate::release::mechanism::{Mechanism, Mechanized};
use crate::release::number::{Noise, size, within};

/// How a measure is computed from a vector that it shares with other measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    /// The exact integers of the vector.
    pub(crate) vector: Vector,
    pub(crate) part: VectorMember,
    /// lo, in steps of the grid.
    pub(crate) lo: i128,
    /// w = hi − lo ≥ 1, in steps of the grid.
    pub(crate) width: i128,
    /// The value of one step.
    pub(crate) unit: Rational,
    /// The texts of the other measures, as they are written.
    pub(crate) others: Vec<String>,
    /// True if the ε of the vector is the one whose ρ is the sum of the measures' ρ; false if it is
    /// the sum of their ε.
    pub(crate) in_rho: bool,
}

/// The measures whose exact integers make up the vector, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Vector {
    /// The integers of an AVG.
    Mean(usize),
    /// A = SUM − lo·COUNT and B = hi·COUNT − SUM, if every row counts.
    Sums { count: usize, sum: usize },
    /// The integers of a variance or standard deviation whose values are not rounded.
    Moments(usize),
}

/// What is computed from a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VectorMember {
    Count,
    Sum,
    Mean,
    Spread,
}

impl Together {
    /// The error at confidence 1 − β of a count or sum, in steps of its own grid, or of each
    /// component of a mean or variance.
    ///
    /// # Guarantee
    /// The error is larger with probability at most β. A count is off by a sum of two noises, which
    /// has the law of their difference; [`NoisyMax::error_at`] adds up its tails, one for each
    /// side. A sum is off by (lo/w + 1)·X + (lo/w)·Y. If one of the two factors is 0, this is one
    /// noise. Otherwise it is no more than if X and Y are each within their error at β/2. Both
    /// counts and sums are rounded to whole steps. A value that is computed from three noises is
    /// off by a sum of multiples of them, see [`exceeded`].
    pub(crate) fn error_at(&self, noise: &Laplace, beta: &Rational) -> u128 {
        let half = || beta / Rational::from_integer(2.into());
        let width = self.width.unsigned_abs().max(1);
        let (near, far) = (self.lo.unsigned_abs(), (self.lo + self.width).unsigned_abs());
        if let (Some(multiples), true) = (self.multiples(), self.of_moments()) {
            // Rounded to the nearest whole number; the exact value is a whole number, too.
            let off = exceeded(&multiples, noise, beta) + 0.5;
            return off.floor().to_u128().unwrap_or(u128::MAX);
        }
        match self.part {
            VectorMember::Mean | VectorMember::Spread => noise.error_at(beta),
            VectorMember::Count => {
                let both = NoisyMax::with_noise(noise).ok().map(|pair| pair.error_at(2, &half()));
                let both = both.and_then(|both| both.to_u128()).unwrap_or(u128::MAX);
                rounded(both, 1, width)
            }
            VectorMember::Sum if near == 0 || far == 0 => noise.error_at(beta),
            VectorMember::Sum => rounded(noise.error_at(&half()), near.saturating_add(far), width),
        }
    }

    /// The error of a mean at confidence 1 − β, times the noisy number of rows, in steps of its
    /// grid, rounded up.
    ///
    /// # Guarantee
    /// For a mean lo + w·A/(A + B), see [`Laplace::mean_error_at`]. A mean lo + w·r with r = (B +
    /// 2C)/2S from three noises is off by w times (−r·e_A + (1/2 − r)·e_B + (1 − r)·e_C)/S, where S
    /// is the noisy sum, w²·n. For r ≤ 1/2 that is (1 − 2r) times its value at r = 0 plus 2r times
    /// its value at r = 1/2; for r > 1/2 the same holds from the other end. So it is off by more
    /// than t only if one of these values is. The probabilities of both add up to at most β.
    pub(crate) fn mean_error_at(&self, noise: &Laplace, beta: &Rational) -> u128 {
        if !self.of_moments() {
            return noise.mean_error_at(beta);
        }
        let part = |tenths: i64| beta * Rational::new(tenths.into(), 10.into());
        let at_end = exceeded(&[0.0, 0.5, 1.0], noise, &part(9));
        let in_middle = exceeded(&[0.5, 0.0, 0.5], noise, &part(1));
        let width = float(self.width).max(1.0);
        (at_end.max(in_middle) / width).ceil().to_u128().unwrap_or(u128::MAX)
    }

    /// True if this is the vector of a variance.
    pub(crate) fn of_moments(&self) -> bool {
        matches!(self.vector, Vector::Moments(_))
    }

    /// The factors of the three noises in a count or sum, in steps of its own grid.
    fn multiples(&self) -> Option<[f64; 3]> {
        let (lo, width) = (float(self.lo), float(self.width).max(1.0));
        let each = 1.0 / width / width;
        match self.part {
            VectorMember::Count => Some([each; 3]),
            VectorMember::Sum => Some([0.0, 0.5, 1.0].map(|part| lo * each + part / width)),
            VectorMember::Mean | VectorMember::Spread => None,
        }
    }

    /// The variance of a count or sum, in steps of its own grid, or of each component of a mean or
    /// variance. For a mean from three noises, the largest possible variance.
    fn variance(&self, noise: &Laplace) -> f64 {
        let (lo, width) = (float(self.lo), float(self.width));
        let own = variance(noise);
        if let (Some(multiples), true) = (self.multiples(), self.of_moments()) {
            return multiples.iter().map(|one| one * one).sum::<f64>() * own + ROUNDED;
        }
        match self.part {
            VectorMember::Count => 2.0 * own / (width * width) + ROUNDED,
            VectorMember::Sum => {
                ((lo / width + 1.0).powi(2) + (lo / width).powi(2)) * own + ROUNDED
            }
            VectorMember::Mean if self.of_moments() => 1.25 * own / (width * width),
            VectorMember::Mean | VectorMember::Spread => own,
        }
    }
}

/// The distance of the sum of these multiples of independent noises from 0, at confidence 1 − β.
///
/// # Guarantee
/// The distance is larger with probability at most β: see [`tail`]. If β is too small for [`tail`],
/// each noise is taken within its own error at a third of β.
fn exceeded(multiples: &[f64; 3], noise: &Laplace, beta: &Rational) -> f64 {
    let known = tail(multiples, variance(noise), beta.to_f64().unwrap_or(0.0));
    known.unwrap_or_else(|| {
        let third = beta / Rational::from_integer(3.into());
        let each = noise.error_at(&third).to_f64().unwrap_or(f64::MAX);
        multiples.iter().map(|one| one.abs()).sum::<f64>() * each
    })
}

/// The variance that rounding to whole steps adds.
const ROUNDED: f64 = 1.0 / 12.0;

/// The largest whole distance between a rounded number and a whole number, if they are
/// `error`·`times`/`width` apart before rounding.
fn rounded(error: u128, times: u128, width: u128) -> u128 {
    let twice = error.checked_mul(times).and_then(|error| error.checked_mul(2));
    twice.and_then(|twice| twice.checked_add(width)).map_or(u128::MAX, |all| all / (2 * width))
}

fn float(steps: i128) -> f64 {
    steps.to_f64().unwrap_or(f64::MAX)
}

/// 1/(2·sinh²(1/2b)): the variance of discrete Laplace noise of scale b.
fn variance(noise: &Laplace) -> f64 {
    let scale = noise.scale().to_f64().unwrap_or(f64::MAX);
    if scale > 0.0 { 0.5 / (0.5 / scale).sinh().powi(2) } else { 0.0 }
}

/// A measure that may share a vector.
#[derive(Clone)]
struct Member {
    at: usize,
    part: VectorMember,
    epsilon: Rational,
}

/// What all measures of one vector have in common.
#[derive(PartialEq)]
struct Shared {
    column: usize,
    filter: Option<usize>,
    limits: ContributionBounds,
    range: (Grid, i128, i128),
    /// True if they are written with FRESH. A fresh number shares no vector with numbers that may
    /// be replayed.
    fresh: bool,
}

/// Lets measures of a private aggregate share a vector where this makes the error of each of them
/// smaller. Measures that are `done` stay as they are: the one whose number decides which groups
/// come out, and replayed ones. So do counts of people that a floor compares.
///
/// # Guarantee
/// The vector of an AVG has the noise of that AVG at the sum of the ε of all measures that read it,
/// and each measure is charged its ε. So the release is private at what they cost. If a budget
/// counts ρ, the vector's ε is smaller: its ρ is at most the sum of theirs. If a budget counts
/// coupons, its ε is at most that of one coupon.
///
/// If every row is a unit, one row adds x − lo ≥ 0 to SUM − lo·COUNT and hi − x ≥ 0 to hi·COUNT −
/// SUM, and w to both together. This needs COUNT and SUM over the same rows: COUNT(x) reads the
/// very column that SUM(x) reads, which holds no floats. COUNT(*) is not enough. If a column that
/// promises no NULL contained one, COUNT(*) would count its row, and SUM would leave it out.
///
/// The vector of a variance is the one that the variance would have alone, with the sensitivity of
/// [`VarianceMoments::weight`], at the sum of the ε. The other measures are functions of it: the
/// values are not rounded before they are squared, so one row is w² of S, and (B + 2C)/2w is the
/// sum of X.
///
/// If group keys are not declared, a group of one unit alone comes out with the probability that
/// its threshold allows; the threshold compares another draw. In all other groups, the vector is as
/// private as the numbers that are read from it would be. Whether measures share a vector follows
/// from the query and the catalog.
pub(super) fn draw_together(
    part: &PrivateAggregate,
    mechanized: &mut [Mechanized],
    mut done: Vec<usize>,
    allowed: &OneDraw,
) {
    // Whether a number is shown is decided by another draw than its own.
    let decide = part.people_floor().into_iter().flat_map(|floor| &floor.counts);
    done.extend(decide.map(|count| count.measure));
    for seed in 0..mechanized.len() {
        let Some(shared) = part.measures().get(seed).and_then(shared) else { continue };
        if done.contains(&seed) {
            continue;
        }
        let members = part.measures().iter().zip(&*mechanized).enumerate();
        let members = members.filter(|(at, _)| !done.contains(at));
        let members =
            members.filter_map(|(at, (measure, one))| member(part, &shared, at, measure, one));
        let members: Vec<Member> = members.collect();
        let plain = members.iter().filter(|member| member.part != VectorMember::Spread).cloned();
        let plain = less_noisy(part, &shared, plain.collect(), mechanized, allowed);
        let mut so_far = mechanized.to_vec();
        plain.iter().for_each(|(at, one)| so_far[*at] = one.clone());
        // Tries again with a variance; it is used if this makes no error larger.
        let all = less_noisy(part, &shared, members, &so_far, allowed);
        let holds = |at: usize| all.iter().any(|one| one.0 == at);
        let better = !all.is_empty() && plain.iter().all(|one| holds(one.0));
        for (at, one) in if better { all } else { plain } {
            done.push(at);
            mechanized[at] = one;
        }
    }
}

/// The column and range of a SUM, of an AVG, or of a variance whose values are not rounded.
fn shared(measure: &Measure) -> Option<Shared> {
    let (Input::Sum(column)
    | Input::Mean(column)
    | Input::Moments(VarianceMoments { column, shift: 0, .. })) = measure.input
    else {
        return None;
    };
    let Measure { filter, limits, grid, lo, hi, .. } = *measure;
    let fresh = measure.clause.fresh;
    (hi > lo).then_some(Shared { column, filter, limits, range: (grid, lo, hi), fresh })
}

/// The measure as a member, if it has plain Laplace noise at a cost of its own.
fn member(
    part: &PrivateAggregate,
    with: &Shared,
    at: usize,
    measure: &Measure,
    one: &Mechanized,
) -> Option<Member> {
    let parameters = &measure.clause.parameters;
    // The δ of OPTIONS pays for the threshold.
    let states_delta =
        parameters.delta.is_some() && measure.clause.mechanism != MechanismName::Default;
    let is_plain = matches!(one.mechanism, Mechanism::Laplace(_))
        && matches!(measure.release_kind, ReleaseKind::Number(_))
        && one.loss.delta().is_none_or(|delta| *delta == Rational::default())
        && measure.ladder.is_none()
        // The vector is not derived for neighbours that replace what a row says.
        && measure.replaced.is_none()
        && measure.clause.finding.is_none()
        // A consistent number has the noise of its own level.
        && measure.clause.consistent.is_none()
        && parameters.within.is_none()
        && !states_delta;
    let alike = measure.filter == with.filter
        && measure.limits == with.limits
        && measure.clause.fresh == with.fresh;
    if !is_plain || !alike {
        return None;
    }
    // COUNT counts a NaN, and SUM leaves it out.
    let is_counted = !matches!(with.range.0, Grid::Binary { .. });
    let whole = || shared(measure).is_some_and(|own| own == *with);
    let kind = match measure.input {
        Input::Mean(_) if whole() => VectorMember::Mean,
        Input::Sum(_) if whole() => VectorMember::Sum,
        Input::Moments(_) if whole() => VectorMember::Spread,
        Input::Values(column) if column == with.column && is_counted => VectorMember::Count,
        Input::Rows if is_counted && !part.input().schema().field(with.column).is_nullable() => {
            VectorMember::Count
        }
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Distinct(_)
        | Input::Sum(_)
        | Input::Mean(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => return None,
    };
    Some(Member { at, part: kind, epsilon: one.loss.epsilon()?.clone() })
}

/// The members as they share a vector, without those whose error would grow. Empty if fewer than
/// two are left.
fn less_noisy(
    part: &PrivateAggregate,
    with: &Shared,
    mut members: Vec<Member>,
    mechanized: &[Mechanized],
    allowed: &OneDraw,
) -> Vec<(usize, Mechanized)> {
    loop {
        let drawn = drawn(part, with, &members, mechanized, allowed).unwrap_or_default();
        let errs_more = |(at, one): &&(usize, Mechanized)| {
            let alone = &mechanized[*at];
            size(one.accuracy) > size(alone.accuracy) || spread(one) > spread(alone)
        };
        let worse: Vec<usize> = drawn.iter().filter(errs_more).map(|one| one.0).collect();
        if worse.is_empty() {
            return drawn;
        }
        members.retain(|member| !worse.contains(&member.at));
    }
}

/// The variance of a number with Laplace noise; for a mean or a variance, that of each component.
fn spread(one: &Mechanized) -> Option<f64> {
    let Mechanism::Laplace(noise) = &one.mechanism else { return None };
    Some(match &one.together {
        Some(together) => together.variance(noise),
        None => variance(noise),
    })
}

/// The largest ε, in units of the ledger, that is at most `most` and whose pure release costs at
/// most this ρ. `None` if there is none.
///
/// # Guarantee
/// Charges that add up to `most` in ε and to `rho` in ρ cover a release at this ε: see
/// [`Loss::pure`], whose ρ grows with ε.
fn within_rho(most: Rational, rho: &Rational) -> Option<Epsilon> {
    let at = |nano: i64| Epsilon::new(Spend::of_epsilon(nano, 0).loss()).ok();
    let suffices = |nano: i64| at(nano).is_some_and(|epsilon| Loss::pure(&epsilon).rho() <= rho);
    let units = most * Rational::from_integer(1_000_000_000.into());
    let (mut low, mut high) = (0, units.to_integer().to_i64()?.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if suffices(middle) { low = middle } else { high = middle }
    }
    at(low)
}

/// The charge of each release of a private aggregate. If several releases are read from one vector,
/// the first bears the loss of the whole draw.
///
/// # Guarantee
/// The losses of a vector add up to those of the releases that are read from it. Their ρ is that of
/// one draw at the sum of their ε, unless the vector's ε was chosen for the sum of their ρ.
pub(super) fn losses(mechanized: &[Mechanized]) -> Vec<Loss> {
    let mut losses: Vec<Loss> = mechanized.iter().map(|one| one.loss.clone()).collect();
    let of_vector = |one: &Mechanized| one.together.as_ref().map(|together| together.vector);
    for (first, one) in mechanized.iter().enumerate() {
        let Some(together) = &one.together else { continue };
        let others = mechanized.iter().enumerate().skip(first + 1);
        let others = others.filter(|(_, other)| of_vector(other) == Some(together.vector));
        let others: Vec<usize> = others.map(|(at, _)| at).collect();
        let mut all = losses[first].clone();
        for at in others {
            all = all.plus(&std::mem::replace(&mut losses[at], Loss::zero()));
        }
        losses[first] = match together.in_rho || all == losses[first] {
            true => all,
            false => all.by_one_draw(),
        };
    }
    losses
}

/// All members with the noise of one vector.
fn drawn(
    part: &PrivateAggregate,
    with: &Shared,
    members: &[Member],
    mechanized: &[Mechanized],
    allowed: &OneDraw,
) -> Option<Vec<(usize, Mechanized)>> {
    let first =
        |part: VectorMember| members.iter().find(|m| m.part == part).map(|member| member.at);
    let (grid, lo, hi) = with.range;
    let lead =
        first(VectorMember::Spread).or(first(VectorMember::Mean)).or(first(VectorMember::Sum))?;
    let of_parts = |measure: usize| match part.measures().get(measure)?.release_kind {
        ReleaseKind::Number(sensitivity) => Some(sensitivity.l1),
        ReleaseKind::Choice(_) => None,
    };
    let (vector, l1) =
        match (first(VectorMember::Mean), first(VectorMember::Count), first(VectorMember::Sum)) {
            _ if first(VectorMember::Spread).is_some() => (Vector::Moments(lead), of_parts(lead)?),
            (Some(mean), _, _) => (Vector::Mean(mean), of_parts(mean)?),
            (None, Some(count), Some(sum))
                if part.subject().is_row()
                    && part.subject().max_rows() == Some(1)
                    && part.measures().get(count)?.input == Input::Values(with.column)
                    && !matches!(grid, Grid::Binary { .. }) =>
            {
                (Vector::Sums { count, sum }, (hi - lo).unsigned_abs())
            }
            (None, _, _) => return None,
        };
    if members.len() < 2 {
        return None;
    }
    let epsilon: Rational = members.iter().map(|member| &member.epsilon).sum();
    // One coupon for each member pays for that many releases at a coupon's ε, but not for one
    // release at the sum of their ε.
    if allowed.most.as_ref().is_some_and(|most| epsilon > *most) {
        return None;
    }
    let epsilon = match allowed.in_rho {
        true => {
            let losses = members.iter().filter_map(|member| mechanized.get(member.at));
            within_rho(epsilon, &losses.map(|one| one.loss.rho()).sum())?
        }
        false => Epsilon::new(epsilon).ok()?,
    };
    let noise = Laplace::calibrate(l1, &epsilon).ok()?;
    let text = |member: &Member| Some(part.measures().get(member.at)?.clause.text.clone());
    let all = members.iter().map(|member| {
        let measure = part.measures().get(member.at)?;
        let others = members.iter().filter(|other| other.at != member.at).filter_map(text);
        let unit = part.measures().get(lead)?.noise_unit();
        let together = Together {
            vector,
            part: member.part,
            lo,
            width: hi - lo,
            unit,
            others: others.collect(),
            in_rho: allowed.in_rho,
        };
        let accuracy = within(
            measure,
            Noise::Vector(&|beta| together.error_at(&noise, beta), &|beta| {
                together.mean_error_at(&noise, beta)
            }),
            1,
        );
        let own = mechanized.get(member.at)?.clone();
        let mechanism = Mechanism::Laplace(noise.clone());
        Some((member.at, Mechanized { mechanism, accuracy, together: Some(together), ..own }))
    });
    all.collect()
}
