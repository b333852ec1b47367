//! Compares the accounts with another accountant on 1,000 random sequences of mechanisms; see
//! tests/data/README.md.
//!
//! The tests compare the sum of ρ with the exact sum, and its conversion with the best one over all
//! orders. They compare both with the true ε of the sequence (of concrete instances, so never above
//! the claim), and the filter with all of them.

#![allow(clippy::float_arithmetic, reason = "the figures are floats")]

use hushql_privacy::mechanism::{Gaussian, epsilon_of_rho};
use hushql_privacy::privacy::{
    Cost, Delta, Loss, Notion, Rational, Rho, Selecting, Spend, parse_decimal,
};
use num_traits::ToPrimitive;

use super::{entry, request, table};
use crate::catalog::{Budget, PerQuery, Replay, zcdp_limit};
use crate::ledger::{ChargeRequest, Vault};

const TABLE: &str = include_str!("../../../../../tests/data/zcdp.csv");

struct Sequence {
    losses: Vec<Loss>,
    delta: Rational,
    rho: f64,
    /// The smallest ε at δ by the sum of ρ alone.
    zcdp: f64,
    /// The smallest ε at δ by the Rényi divergences of Laplace and Gaussian noise.
    rdp: f64,
    /// The ε at 2δ of the loss distributions themselves.
    truth: f64,
}

/// One release, such as `G0.01` or `K0.5/3`.
fn loss(token: &str) -> Loss {
    let (kind, numbers) = token.split_at(1);
    let numbers: Vec<&str> = numbers.split(['/', ',']).collect();
    let epsilon = || numbers[0].parse().unwrap();
    match kind {
        "L" | "P" => Loss::pure(&epsilon()),
        "D" => Loss::approximate(&epsilon(), &numbers[1].parse().unwrap()),
        "E" | "R" => Loss::choice(&epsilon(), None, 1, Selecting::BoundedRange),
        "K" => {
            let rounds = numbers[1].parse().unwrap();
            Loss::choice(&epsilon(), None, rounds, Selecting::BoundedRange)
        }
        "G" => {
            let rho: Rho = numbers[0].parse().unwrap();
            // The drawn noise costs no more than the charge.
            let noise = Gaussian::calibrate_rho(1 << 40, &rho).unwrap();
            assert!(noise.rho() <= rho.value());
            assert!(noise.rho().to_f64().unwrap() > 0.999 * rho.value().to_f64().unwrap());
            Loss::concentrated(&rho)
        }
        _ => panic!("{token}"),
    }
}

fn sequences() -> Vec<Sequence> {
    let rows = TABLE.lines().skip(1).map(|line| {
        let [losses, delta, rho, zcdp, rdp, truth] =
            line.split(';').collect::<Vec<_>>().try_into().unwrap();
        let float = |text: &str| text.parse().unwrap();
        Sequence {
            losses: losses.split(' ').map(loss).collect(),
            delta: parse_decimal(delta).unwrap(),
            rho: float(rho),
            zcdp: float(zcdp),
            rdp: float(rdp),
            truth: float(truth),
        }
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 1000);
    rows
}

/// Sums in ledger units exceed the exact ones by at most one unit for each release; conversions
/// agree to one part in 10⁷.
#[test]
fn sums_and_conversions_agree_with_another_accountant() {
    for (n, row) in sequences().iter().enumerate() {
        let sum = row.losses.iter().fold(Loss::zero(), |sum, loss| sum.plus(loss));
        let exact = sum.rho().to_f64().unwrap();
        assert!((exact / row.rho - 1.0).abs() < 1e-10, "{n}: {exact} {}", row.rho);
        let costs = row.losses.iter().map(|loss| Cost::round_up(loss).unwrap());
        let cost = costs.fold(Cost::zero(), |sum, cost| sum.plus(cost).unwrap());
        let spent = cost.within(Notion::Concentrated).unwrap();
        let units = i64::try_from(row.losses.len()).unwrap();
        assert!(spent.loss() >= *sum.rho(), "{n}");
        assert!(spent.loss() <= sum.rho() + Spend::of_rho(units, 0).loss(), "{n}");

        let delta = Delta::new(row.delta.clone()).unwrap();
        let epsilon = |rho: &Rational| epsilon_of_rho(rho, &delta).unwrap().to_f64().unwrap();
        let converted = epsilon(sum.rho());
        assert!((converted / row.zcdp - 1.0).abs() < 1e-7, "{n}: {converted} {}", row.zcdp);
        // Never below a known smaller value, both for the exact sum and for the larger sum of the
        // ledger.
        assert!(converted >= row.rdp * (1.0 - 1e-7), "{n}: {converted} {}", row.rdp);
        assert!(converted >= row.truth, "{n}: {converted} {}", row.truth);
        assert!(epsilon(&spent.loss()) >= converted, "{n}");
    }
}

/// The number of releases, charged one after another, that a budget of (ε, δ) pays for.
fn passed(row: &Sequence, epsilon: f64) -> usize {
    let promise = Spend::of_epsilon((epsilon * 1e9).floor().to_i64().unwrap(), atto(row));
    let Some(limit) = zcdp_limit(promise, true) else { return 0 };
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&table("adult")).unwrap();
    let budget = Budget {
        name: "curve".to_owned(),
        table: "adult".to_owned(),
        limit,
        promise: Some(promise),
        coupon: None,
        per_query: PerQuery::default(),
        replay: Replay::All,
    };
    vault.create_budget(&budget).unwrap();
    let pays = |loss: &&Loss| {
        let ask =
            ChargeRequest { entries: vec![entry((*loss).clone())], ..request(1, 0, &["adult"]) };
        vault.charge(&ask).is_ok()
    };
    row.losses.iter().filter(pays).count()
}

/// 2δ in ledger units: half for the conversion at δ, half for releases that have a δ.
fn atto(row: &Sequence) -> i64 {
    let units = &row.delta * Rational::from_integer(2_000_000_000_000_000_000_i64.into());
    units.to_integer().to_i64().unwrap()
}

/// A budget of (ε, 2δ) never pays for a whole sequence with more than ε at 2δ, and it pays for
/// smaller ones.
#[test]
fn the_filter_passes_what_the_promise_allows_and_no_more() {
    for (n, row) in sequences().iter().enumerate() {
        let all = row.losses.len();
        assert!(passed(row, row.truth * 0.999_99) < all, "{n}: more than the truth");
        assert!(passed(row, row.rdp.min(row.zcdp) * 0.999_99) < all, "{n}: more than known");
        assert!(passed(row, row.zcdp * 0.999_99) < all, "{n}: not the sum that was promised");
        // Rounding can cost one unit of ρ for each release, and one for the limit.
        let units = (all + 1).to_f64().unwrap() * 1e-9;
        let slack = 1e-6 + 2.0 * units / row.rho;
        assert_eq!(passed(row, row.zcdp * (1.0 + slack)), all, "{n}: less than allowed");
    }
}
