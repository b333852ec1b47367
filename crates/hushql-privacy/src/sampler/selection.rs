//! Exact choices among scored candidates: exponential, permute-and-flip, noisy max.
//!
//! In: scores and a rate. Out: the index of a winner. The rate is the exponent per unit of score, a
//! ratio of integers. Scores may use all 128 bits, because only their distances to the best score
//! matter.
//!
//! ```
//! use hushql_privacy::sampler::{QueryRng, exponential};
//!
//! let mut rng = QueryRng::from_os()?;
//! let winner = exponential(&[14_976, 10_683, 23], 1, 1, &mut rng)?; // weights exp(score)
//! assert_eq!(winner, 0);
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

use num_bigint::BigUint;
use num_traits::CheckedMul;

use super::SamplerError;
use super::bernoulli::{bernoulli_exp, bernoulli_exp_big};
use super::discrete_laplace::{LaplaceScale, discrete_laplace};
use super::rng::Uniform;

/// Draws a candidate by the exponential mechanism.
///
/// # Guarantee
/// P(i) ∝ exp(rate·score_i) with rate = `rate_num / rate_den`, exactly, for all scores. A
/// `rate_den` of 0 means an infinite rate: uniform among the best. Each attempt draws a uniform
/// candidate and accepts it with probability exp(−rate·(best − score)); the expected number of
/// attempts is at most the number of candidates.
///
/// # Errors
/// [`SamplerError::NoCandidate`] when there are no scores.
pub fn exponential<U: Uniform + ?Sized>(
    scores: &[i128],
    rate_num: u128,
    rate_den: u128,
    uniform: &mut U,
) -> Result<usize, SamplerError> {
    let best = *scores.iter().max().ok_or(SamplerError::NoCandidate)?;
    loop {
        if let Some(winner) = attempt(scores, best, rate_num, rate_den, uniform) {
            return Ok(winner);
        }
    }
}

/// One attempt of the exponential mechanism; `None` means that the candidate was rejected.
pub(super) fn attempt<U: Uniform + ?Sized>(
    scores: &[i128],
    best: i128,
    rate_num: u128,
    rate_den: u128,
    uniform: &mut U,
) -> Option<usize> {
    let index = below_index(scores.len(), uniform);
    let gap = best.abs_diff(*scores.get(index)?);
    accepted(gap, rate_num, rate_den, uniform).then_some(index)
}

/// Permute-and-flip: visits the candidates in random order, and returns the first that is accepted.
///
/// # Guarantee
/// The candidates are visited in uniformly random order, and each is accepted with probability
/// exp(−rate·(best − score)), exactly. A best candidate is always accepted when it is reached, so
/// there is always a winner. Source: McKenna, Sheldon 2020, algorithm 1.
///
/// # Errors
/// [`SamplerError::NoCandidate`] when there are no scores.
pub fn permute_and_flip<U: Uniform + ?Sized>(
    scores: &[i128],
    rate_num: u128,
    rate_den: u128,
    uniform: &mut U,
) -> Result<usize, SamplerError> {
    let best = *scores.iter().max().ok_or(SamplerError::NoCandidate)?;
    let mut waiting: Vec<(usize, i128)> = scores.iter().copied().enumerate().collect();
    while !waiting.is_empty() {
        let place = below_index(waiting.len(), uniform);
        let (index, score) = waiting.swap_remove(place);
        if accepted(best.abs_diff(score), rate_num, rate_den, uniform) {
            return Ok(index);
        }
    }
    // Unreachable: the gap of a best candidate is 0, and exp(0) = 1 is always accepted.
    Err(SamplerError::NoCandidate)
}

/// Noisy max: adds discrete Laplace noise to every score and returns the largest, the first among
/// equals.
///
/// # Guarantee
/// The result is exactly the argmax of score_i + X_i with independent X_i of the given scale. No
/// sum saturates or wraps, whatever the scores are.
///
/// # Errors
/// [`SamplerError::NoCandidate`] when there are no scores.
pub fn noisy_max<U: Uniform + ?Sized>(
    scores: &[i128],
    scale: &LaplaceScale,
    uniform: &mut U,
) -> Result<usize, SamplerError> {
    let best = *scores.iter().max().ok_or(SamplerError::NoCandidate)?;
    let mut winner: Option<(usize, i128)> = None;
    for (index, score) in scores.iter().enumerate() {
        let noise = discrete_laplace(scale, uniform);
        // A candidate 2^127 below the best score, or with a sum below −2^127, is certain to lose:
        // noise stays within ±2^126.
        let relative =
            i128::try_from(best.abs_diff(*score)).ok().and_then(|gap| noise.checked_sub(gap));
        if let Some(value) = relative
            && winner.is_none_or(|(_, highest)| value > highest)
        {
            winner = Some((index, value));
        }
    }
    winner.map(|(index, _)| index).ok_or(SamplerError::NoCandidate)
}

/// True with probability exp(−gap·rate).
fn accepted<U: Uniform + ?Sized>(
    gap: u128,
    rate_num: u128,
    rate_den: u128,
    uniform: &mut U,
) -> bool {
    if gap == 0 {
        return true;
    }
    match gap.checked_mul(rate_num) {
        Some(num) => bernoulli_exp(num, rate_den, uniform),
        None => BigUint::from(gap)
            .checked_mul(&BigUint::from(rate_num))
            .is_some_and(|num| bernoulli_exp_big(&num, &BigUint::from(rate_den), uniform)),
    }
}

/// A uniform index below `len`.
fn below_index<U: Uniform + ?Sized>(len: usize, uniform: &mut U) -> usize {
    // A length fits 64 bits, and an index below it fits `usize`, so neither fallback is taken.
    usize::try_from(uniform.below_u64(u64::try_from(len).unwrap_or(u64::MAX))).unwrap_or(0)
}
