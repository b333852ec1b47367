//! How far one privacy unit can change the input of a mechanism.
//!
//! In: the enforced bounds of a unit's contribution ([`ContributionBounds`]) and of a row's value.
//! Out: the change of a vector of group aggregates between neighbouring databases, in L1 and
//! squared L2, and the range of scores. Everything is an exact integer on the grid of the sum, and
//! nothing depends on the data.
//!
//! A unit has at most M rows, at most m of them in one group, in at most C groups, and each row has
//! a value of at most b:
//!
//! ```text
//! M = 5, m = 2, C = 3, b = 1     groups of the unit: 2 + 2 + 1     Δ₁ = 5   Δ₂² = 4 + 4 + 1 = 9
//! ```

/// The enforced bounds of a unit's contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContributionBounds {
    /// M: rows in total; `None` if nothing bounds them.
    pub total: Option<u64>,
    /// m: rows in one group.
    pub per_partition: u64,
    /// C: groups; `None` if nothing bounds them, which is allowed only for a single selection.
    pub l0: Option<u64>,
}

/// The sensitivities of one aggregate over all its groups, in grid units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sensitivity {
    /// Δ₁.
    pub l1: u128,
    /// Δ₂².
    pub l2_squared: u128,
}

/// The change of a vector of group sums when one unit is added or removed.
///
/// # Guarantee
/// For every unit whose rows obey `limits` and have an L1 norm of at most `b` each, the vector over
/// all groups changes by at most Δ₁ = min(C·m, M)·b and Δ₂² = C·m²·b², or (q·m² + (M − q·m)²)·b²
/// with q = ⌊M/m⌋ if fewer than C groups use up M. Exact. `None` when C is unbounded or a number
/// overflows. Source: maximise Σk_j and Σk_j² over 0 ≤ k_j ≤ m, Σk_j ≤ M, at most C terms.
pub fn of_sums(limits: &ContributionBounds, b: u128) -> Option<Sensitivity> {
    let m = u128::from(limits.per_partition);
    let groups = limits.l0.map(u128::from);
    let total = limits.total.map(u128::from);
    let by_groups = groups.and_then(|c| c.checked_mul(m));
    let rows = match (by_groups, total) {
        (Some(by_groups), Some(total)) => by_groups.min(total),
        (Some(by_groups), None) => by_groups,
        (None, Some(total)) => total,
        (None, None) => return None,
    };
    let square = |x: u128| x.checked_mul(x);
    let full_groups = groups.unwrap_or(u128::MAX);
    let squares = match total {
        Some(total) if m > 0 && total / m < full_groups => {
            let q = total / m;
            q.checked_mul(square(m)?)?.checked_add(square(total - q * m)?)?
        }
        _ => groups?.checked_mul(square(m)?)?,
    };
    Some(Sensitivity { l1: rows.checked_mul(b)?, l2_squared: squares.checked_mul(square(b)?)? })
}

/// The range of scores: the largest change minus the smallest, over the candidates of one
/// selection.
///
/// # Guarantee
/// For every unit whose rows obey `limits` and have values between `lo` and `hi`, max over
/// candidates of a score's change − min over candidates ≤ R, where R = m·b if the unit is in one
/// group, else m·b + min(m, M − m)·min(max(hi, 0), max(−lo, 0)). Exact; `None` on overflow. Source:
/// the two extreme groups take m and min(m, M − m) rows with opposite signs.
pub fn range_of_scores(limits: &ContributionBounds, lo: i128, hi: i128) -> Option<u128> {
    let m = u128::from(limits.per_partition);
    let up = u128::try_from(hi.max(0)).ok()?;
    let down = lo.min(0).unsigned_abs();
    let one_group = m.checked_mul(up.max(down))?;
    if limits.l0 == Some(1) {
        return Some(one_group);
    }
    let rest = match limits.total {
        Some(total) => u128::from(total).saturating_sub(m).min(m),
        None => m,
    };
    one_group.checked_add(rest.checked_mul(up.min(down))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maxima over every distribution of rows over groups, by brute force.
    fn brute(limits: &ContributionBounds, groups: u64, lo: i128, hi: i128) -> (u128, u128, u128) {
        let m = limits.per_partition;
        let (mut l1, mut l2, mut range) = (0, 0, 0);
        let mut counts = vec![0_u64; usize::try_from(groups).unwrap()];
        loop {
            let total: u64 = counts.iter().sum();
            let used = counts.iter().filter(|k| **k > 0).count() as u64;
            let fits = limits.total.is_none_or(|most| total <= most)
                && limits.l0.is_none_or(|most| used <= most);
            if fits {
                let b = lo.unsigned_abs().max(hi.unsigned_abs());
                l1 = l1.max(u128::from(total) * b);
                l2 = l2.max(counts.iter().map(|k| u128::from(k * k)).sum::<u128>() * b * b);
                let best = counts.iter().map(|k| i128::from(*k) * hi.max(0)).max().unwrap();
                for (i, k) in counts.iter().enumerate() {
                    for (j, l) in counts.iter().enumerate() {
                        if i != j {
                            let up = i128::from(*k) * hi.max(0);
                            let down = i128::from(*l) * lo.min(0);
                            range = range.max((up - down).unsigned_abs());
                        }
                    }
                    let down = i128::from(*k) * lo.min(0);
                    range = range.max(best.unsigned_abs()).max(down.unsigned_abs());
                }
            }
            let Some(i) = counts.iter().position(|k| *k < m) else { return (l1, l2, range) };
            counts[i] += 1;
            counts[..i].fill(0);
        }
    }

    #[test]
    fn formulas_are_the_maxima() {
        for m in 1..=3 {
            for total in [None, Some(1), Some(2), Some(3), Some(4), Some(5)] {
                for c in 1..=3_u64 {
                    let m = total.map_or(m, |t| m.min(t));
                    let c = total.map_or(c, |t| c.min(t));
                    for (lo, hi) in [(0, 1), (-2, 3), (-3, 0), (1, 2)] {
                        let limits = ContributionBounds { total, per_partition: m, l0: Some(c) };
                        let (l1, l2, range) = brute(&limits, 3, lo, hi);
                        let b = lo.unsigned_abs().max(hi.unsigned_abs());
                        let sums = of_sums(&limits, b).unwrap();
                        assert_eq!((sums.l1, sums.l2_squared), (l1, l2), "{limits:?} {lo}..{hi}");
                        let claimed = range_of_scores(&limits, lo, hi).unwrap();
                        assert_eq!(claimed, range, "{limits:?} {lo}..{hi}");
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_bounded_has_no_sensitivity() {
        let limits = ContributionBounds { total: None, per_partition: 1, l0: None };
        assert_eq!(of_sums(&limits, 1), None);
        assert_eq!(range_of_scores(&limits, 0, 1), Some(1));
    }
}
