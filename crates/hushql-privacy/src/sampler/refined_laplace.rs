//! Discrete Laplace noise drawn once more, finer: the law of a draw at a smaller scale, given one
//! at a larger scale.
//!
//! The scales of both draws and the coarse noise go in, the fine noise comes out. Let c = exp(−1/b)
//! for the coarse scale and f = exp(−1/b′) for the fine one, b′ < b. The generating function of
//! discrete Laplace noise with ratio a is (1−a)²/((1−a·z)(1−a/z)), so the coarse noise is the fine
//! noise plus an independent W,
//!
//! ```text
//! P(W = w) = p·[w = 0] + (1−p)·(1−c)/(1+c)·c^|w|      p = (1−c)²·f / ((1−f)²·c)
//! ```
//!
//! Given coarse noise n ≥ 0, P(fine = m | n) ∝ P(fine = m)·P(W = n − m) adds up to the same number
//! for every n, and is with r = f/c and q = f·c
//!
//! ```text
//! m < 0: k·q^−m      0 ≤ m < n: k·r^m      m = n: k·r^n·(1/(1−r) − q/(1−q))      m > n: k·r^n·q^(m−n)
//! k = (1−r)(1−q)/(1−rq)
//! ```
//!
//! That is the difference of two geometric variables with the ratios r and q, which stays if it is
//! at most n. If it is n + j, it stays with probability c^(2j), because r·c² = q, and is n
//! otherwise. The law for n < 0 is the mirror image.
//!
//! ```
//! use hushql_privacy::sampler::{LaplaceScale, QueryRng, Refinement, discrete_laplace, refined_laplace};
//!
//! let (coarse, fine) = (LaplaceScale::new(2, 1)?, LaplaceScale::new(1, 1)?);
//! let mut rng = QueryRng::from_os()?;
//! let first = discrete_laplace(&coarse, &mut rng);
//! let second = refined_laplace(&Refinement::new(&coarse, &fine)?, first, &mut rng); // P(x) ∝ exp(−|x|)
//! # let _ = second;
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

use num_bigint::BigUint;
use num_integer::Integer;

use super::bernoulli::{bernoulli_exp, bernoulli_exp_big};
use super::discrete_laplace::geometric_attempt;
use super::rng::Uniform;
use super::{LaplaceScale, SamplerError};

/// A coarse scale b and a fine one b′ < b, as what the draw needs of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refinement {
    coarse: LaplaceScale,
    /// The scale of the steps towards the coarse noise: their ratio is exp(−1/b′ + 1/b).
    toward: LaplaceScale,
    /// The scale of the steps away from it: their ratio is exp(−1/b′ − 1/b).
    away: LaplaceScale,
}

impl Refinement {
    /// The refinement from `coarse` noise to `fine` noise.
    ///
    /// # Guarantee
    /// Exact: no scale is rounded.
    ///
    /// # Errors
    /// [`SamplerError::Scale`] if the fine scale is not below the coarse one, or if the difference
    /// or the sum of their reciprocals has a numerator or denominator of 2⁶² or more.
    pub fn new(coarse: &LaplaceScale, fine: &LaplaceScale) -> Result<Self, SamplerError> {
        let product = |a: u64, b: u64| u128::from(a).checked_mul(u128::from(b));
        let both = || {
            // 1/b′ ∓ 1/b = (s′·t ∓ s·t′)/(t′·t). All products are below 2^124.
            let fine_rate = product(fine.denominator(), coarse.numerator())?;
            let coarse_rate = product(coarse.denominator(), fine.numerator())?;
            let below = product(fine.numerator(), coarse.numerator())?;
            let less = fine_rate.checked_sub(coarse_rate).filter(|less| *less > 0)?;
            Some((reduced(below, less)?, reduced(below, fine_rate.checked_add(coarse_rate)?)?))
        };
        let (toward, away) = both().ok_or(SamplerError::Scale)?;
        Ok(Self { coarse: *coarse, toward, away })
    }
}

/// The scale t/s in lowest terms; `None` if it does not fit.
fn reduced(numerator: u128, denominator: u128) -> Option<LaplaceScale> {
    let common = numerator.gcd(&denominator);
    let part = |part: u128| u64::try_from(part.checked_div(common)?).ok();
    LaplaceScale::new(part(numerator)?, part(denominator)?).ok()
}

/// Fine noise, given the coarse noise that was drawn before.
///
/// # Guarantee
/// P(m) ∝ P(fine noise is m)·P(W = `coarse` − m), exactly, with W as above. So if `coarse` was
/// drawn with the coarse scale, the result has exactly the law of the fine scale, and the coarse
/// noise is the result plus a W that does not depend on it: both together reveal no more about the
/// number under them than the fine draw alone. This holds for *one* refinement of each draw: two
/// refinements of one draw at ε = ½ to ε = 1 lose 2½, and not 1½. Source: this derivation; for the
/// continuous law, Koufogiannis, Han, Pappas 2015 (gradual release).
pub fn refined_laplace<U: Uniform + ?Sized>(
    refinement: &Refinement,
    coarse: i128,
    uniform: &mut U,
) -> i128 {
    loop {
        if let Some(draw) = attempt(refinement, coarse, uniform) {
            return draw;
        }
    }
}

/// One round of the rejection loop; `None` means that the draw was rejected. Whether it is does not
/// depend on the coarse noise.
pub(super) fn attempt<U: Uniform + ?Sized>(
    refinement: &Refinement,
    coarse: i128,
    uniform: &mut U,
) -> Option<i128> {
    let Refinement { coarse: scale, toward, away } = refinement;
    let toward = geometric_attempt(toward, uniform)?;
    // Both are from 0 to 2^126: nothing saturates.
    let step = toward.saturating_sub(geometric_attempt(away, uniform)?);
    let most = coarse.saturating_abs();
    let magnitude = match u128::try_from(step.saturating_sub(most)) {
        Ok(beyond) if beyond > 0 && !stays(beyond, scale, uniform) => most,
        Ok(_) | Err(_) => step,
    };
    Some(if coarse < 0 { magnitude.saturating_neg() } else { magnitude })
}

/// True with probability exp(−2·beyond/b).
fn stays<U: Uniform + ?Sized>(beyond: u128, scale: &LaplaceScale, uniform: &mut U) -> bool {
    let twice = u128::from(scale.denominator()).saturating_mul(2);
    match beyond.checked_mul(twice) {
        Some(product) => bernoulli_exp(product, scale.numerator().into(), uniform),
        None => {
            let product = [BigUint::from(beyond), BigUint::from(twice)].iter().product();
            bernoulli_exp_big(&product, &scale.numerator().into(), uniform)
        }
    }
}
