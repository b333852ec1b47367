//! Slices: which charges pass the slice and the budget, which declarations are possible, and what
//! one analyst learns of the others.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use hushql_privacy::privacy::Tally;

use super::*;
use crate::catalog::{Slice, SliceOf};
use crate::ledger::{Elsewhere, SliceChange, SliceState};

fn slice(analyst: &str, limit: Spend) -> Slice {
    Slice { analyst: analyst.to_owned(), limit }
}

fn add(vault: &Vault, analyst: &str, limit: Spend) -> Result<BudgetState, VaultError> {
    vault.change_slice("research", &SliceChange::Add(slice(analyst, limit)))
}

fn set(vault: &Vault, analyst: &str, limit: Spend) -> Result<BudgetState, VaultError> {
    vault.change_slice("research", &SliceChange::SetLimit(slice(analyst, limit)))
}

fn by(analyst: &str, request: ChargeRequest) -> ChargeRequest {
    ChargeRequest { analyst: analyst.to_owned(), ..request }
}

fn charge(vault: &Vault, analyst: &str, nano: i64, atto: i64) -> Result<Charge, VaultError> {
    vault.charge(&by(analyst, request(nano, atto, &["adult"])))
}

fn with(limit: Spend) -> Vault {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, limit);
    vault
}

/// The amount that an analyst has left of the budget, as they see it.
fn left(vault: &Vault, analyst: &str) -> Spend {
    vault.budget_for("research", analyst).unwrap().left
}

#[test]
fn a_charge_passes_its_slice_and_the_budget() {
    let vault = with(spend(10, 9));
    add(&vault, "lab", spend(3, 2)).unwrap();
    add(&vault, "eve", spend(2, 3)).unwrap();
    let paid = charge(&vault, "lab", 2, 1).unwrap();
    assert_eq!(paid.left(), [("research".to_owned(), spend(1, 1))]);
    assert_eq!(
        charge(&vault, "lab", 2, 0).unwrap_err().to_string(),
        "the slice `lab` of the privacy budget `research` does not suffice: this query costs ε = 0.000000002, but only ε = 0.000000001, δ = 1e-18 is left"
    );
    // Each part can run out alone.
    assert!(charge(&vault, "lab", 1, 2).unwrap_err().is_budget());
    assert!(charge(&vault, "lab", 1, 1).is_ok());
    assert_eq!(left(&vault, "lab"), spend(0, 0));
    // Everyone else shares the rest, including the owner.
    assert!(charge(&vault, "ann", 3, 0).is_ok());
    let refused = charge(&vault, OWNER, 3, 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "what the slices of the privacy budget `research` leave to everyone else does not suffice: this query costs ε = 0.000000003, but only ε = 0.000000002, δ = 4e-18 is left"
    );
    assert!(charge(&vault, OWNER, 2, 4).is_ok());
    assert!(charge(&vault, "bob", 1, 0).unwrap_err().is_budget());
    let quotes = vault.quote(&by("eve", request(1, 1, &["adult"]))).unwrap();
    assert_eq!(quotes[0].slice, Some(SliceOf::Analyst("eve".to_owned())));
    assert_eq!((quotes[0].limit, quotes[0].spent), (spend(2, 3), spend(0, 0)));
    assert!(charge(&vault, "eve", 2, 3).is_ok());
    let state = vault.budget("research").unwrap();
    assert_eq!((state.spent, state.left), (spend(10, 9), spend(0, 0)));
    let shares: Vec<(String, Spend, Spend)> =
        state.slices.iter().map(|s| (s.of.to_string(), s.limit, s.spent)).collect();
    assert_eq!(
        shares,
        [
            ("eve".to_owned(), spend(2, 3), spend(2, 3)),
            ("lab".to_owned(), spend(3, 2), spend(3, 2)),
            ("everyone else".to_owned(), spend(5, 4), spend(5, 4)),
        ]
    );
    vault.verify().unwrap();
}

#[test]
fn slices_are_refused_unless_the_rest_covers_what_everyone_else_spent() {
    let vault = with(spend(10, 5));
    assert!(charge(&vault, "ann", 4, 1).is_ok());
    assert!(charge(&vault, "lab", 1, 0).is_ok());
    let refused = |result: Result<BudgetState, VaultError>, part: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    refused(add(&vault, "lab", spend(7, 0)), "leaves ε = 0.000000003, δ = 5e-18 to everyone else");
    refused(add(&vault, "lab", spend(6, 5)), "who have spent ε = 0.000000004, δ = 1e-18 already");
    refused(add(&vault, "lab", spend(11, 0)), "add up to");
    refused(add(&vault, "lab", Spend::of_rho(1, 0)), "LIMIT (epsilon=…)");
    refused(add(&vault, "lab", spend(0, 0)), "greater than 0");
    for name in ["", "a b", "owner", "0wner"] {
        assert!(matches!(add(&vault, name, spend(1, 0)), Err(VaultError::AnalystName { .. })));
    }
    add(&vault, "lab", spend(6, 4)).unwrap();
    refused(add(&vault, "lab", spend(1, 0)), "ALTER SLICE lab SET LIMIT");
    refused(set(&vault, "eve", spend(1, 0)), "ADD SLICE eve");
    refused(set(&vault, "lab", spend(6, 5)), "to everyone else");
    refused(add(&vault, "eve", spend(1, 0)), "who have spent ε = 0.000000004");
    // Spending by ann stays hers, whichever slice she gets.
    set(&vault, "lab", spend(5, 0)).unwrap();
    add(&vault, "ann", spend(1, 1)).unwrap();
    assert!(charge(&vault, "ann", 1, 0).unwrap_err().is_budget());
    // She spent 4 before, so 4 are reserved, not 1.
    assert_eq!(left(&vault, "bob"), spend(1, 4));
    // The limit of the budget covers its slices.
    let limit = |nano, atto| vault.set_budget_limit("research", spend(nano, atto), None);
    assert!(limit(5, 5).unwrap_err().to_string().contains("add up to"));
    assert!(limit(8, 5).unwrap_err().to_string().contains("to everyone else"));
    limit(9, 5).unwrap();
    assert_eq!((left(&vault, "bob"), left(&vault, "lab")), (spend(0, 4), spend(4, 0)));
    let state = vault.change_slice("research", &SliceChange::Drop("ann".to_owned())).unwrap();
    assert_eq!(state.slices.last().map(|s| (s.limit, s.spent)), Some((spend(4, 5), spend(4, 1))));
    vault.change_slice("research", &SliceChange::Drop("lab".to_owned())).unwrap();
    assert!(vault.budget("research").unwrap().slices.is_empty());
    // A budget is dropped with its slices.
    add(&vault, "lab", spend(5, 0)).unwrap();
    vault.drop_budget("research").unwrap();
    vault.create_budget(&budget("research", "adult", spend(10, 5))).unwrap();
    assert!(vault.budget("research").unwrap().slices.is_empty());
    vault.verify().unwrap();
}

/// A slice counts in the measure of its budget. Every budget of the people has the analyst's slice,
/// or the share of everyone else.
#[test]
fn slices_count_as_their_budgets_do() {
    let vault = with(spend(NANO, 0));
    let few = Budget {
        promise: Some(spend(2 * NANO, 1_000)),
        coupon: Some(NANO / 10),
        ..budget("few", "adult", Spend::of_coupons(4, 5))
    };
    vault.create_budget(&few).unwrap();
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(NANO, 0))).unwrap();
    let add = |budget: &str, analyst: &str, limit| {
        vault.change_slice(budget, &SliceChange::Add(slice(analyst, limit))).unwrap()
    };
    add("few", "lab", Spend::of_coupons(1, 2));
    add("curve", "eve", Spend::of_rho(2, 0));
    assert!(charge(&vault, "lab", 100, 2).is_err(), "no other budget has a δ");
    let paid = charge(&vault, "lab", 100, 0).unwrap();
    assert_eq!(paid.left()[1].1, Spend::of_coupons(0, 2));
    let refused = charge(&vault, "lab", 1, 0).unwrap_err();
    assert!(refused.to_string().starts_with("the slice `lab` of the privacy budget `few`"));
    // Nothing was charged to the others.
    assert_eq!(vault.entries().unwrap().len(), 1);
    for _ in 0..2 {
        assert!(charge(&vault, "eve", 1, 0).is_ok());
    }
    let refused = charge(&vault, "eve", 1, 0).unwrap_err();
    assert!(refused.to_string().starts_with("the slice `eve` of the privacy budget `curve`"));
    assert!(charge(&vault, "ann", 1, 0).is_ok());
    let refused = charge(&vault, "ann", 1, 0).unwrap_err().to_string();
    assert!(refused.starts_with("what the slices of the privacy budget `few` leave"), "{refused}");
    vault.verify().unwrap();
}

/// Amounts from other vaults belong to one analyst. A rebuilt budget may have more spent than its
/// slices cover.
#[test]
fn what_was_spent_elsewhere_is_an_analysts() {
    let vault = with(spend(10, 0));
    let cost = |nano| Elsewhere::from(Cost::from_amounts(Some((nano, 0)), (nano, 0)));
    add(&vault, "lab", spend(3, 0)).unwrap();
    assert!(charge(&vault, "lab", 1, 0).is_ok());
    for _ in 0..2 {
        vault.set_spent("adult", Some("lab"), cost(2), &[]).unwrap();
        vault.set_spent("adult", None, cost(4), &[]).unwrap();
        assert_eq!((left(&vault, "lab"), left(&vault, "eve")), (spend(1, 0), spend(5, 0)));
    }
    let entries = vault.entries().unwrap();
    let payers: Vec<&str> = entries.iter().map(|entry| entry.analyst.as_str()).collect();
    assert_eq!(payers, ["lab", "lab", OWNER]);
    // More is spent than the rest covers, so the whole budget refuses what the slice has left.
    vault.set_spent("adult", None, cost(10), &[]).unwrap();
    assert_eq!((left(&vault, "lab"), left(&vault, "eve")), (spend(0, 0), spend(0, 0)));
    assert!(charge(&vault, "lab", 1, 0).unwrap_err().is_budget());
    let rebuilt = Vault::in_memory().unwrap();
    rebuilt.create_table(&table("adult")).unwrap();
    let slices = [(slice("lab", spend(3, 0)), Some(cost(2)))];
    let wanted = budget("research", "adult", spend(10, 0));
    let state = rebuilt.put_budget(&wanted, Some(cost(10)), &slices, false).unwrap();
    assert_eq!(state.slices, vault.budget("research").unwrap().slices);
    let again = [(slice("lab", spend(3, 0)), None)];
    let refused = rebuilt.put_budget(&wanted, None, &again, true).unwrap_err();
    assert!(refused.to_string().contains("to everyone else"), "{refused}");
    // A slice uses as many coupons as it has releases.
    let tally = |releases| Some(Tally { releases, dearest: NANO / 10 });
    let few = Budget {
        promise: Some(spend(2 * NANO, 1_000)),
        coupon: Some(NANO / 10),
        ..budget("few", "adult", Spend::of_coupons(9, 0))
    };
    vault.create_budget(&few).unwrap();
    vault.change_slice("few", &SliceChange::Add(slice("lab", Spend::of_coupons(5, 0)))).unwrap();
    vault.set_spent("adult", Some("lab"), Elsewhere { tally: tally(4), ..cost(2) }, &[]).unwrap();
    let state = vault.budget_for("few", "lab").unwrap();
    assert_eq!((state.spent, state.left), (Spend::of_coupons(4, 0), Spend::of_coupons(1, 0)));
    vault.verify().unwrap();
}

/// A budget for people who were charged under another name counts its analysts' spending there.
#[test]
fn slices_follow_joined_people() {
    let vault = with(spend(10, 0));
    vault.create_table(&table("visits")).unwrap();
    vault.create_budget(&budget("of_visits", "visits", spend(10, 0))).unwrap();
    add(&vault, "lab", spend(3, 0)).unwrap();
    assert!(vault.charge(&by("lab", request(2, 0, &["visits"]))).is_ok());
    assert_eq!(left(&vault, "lab"), spend(3, 0));
    vault
        .set_spent("adult", None, Cost::from_amounts(Some((0, 0)), (0, 0)), &["visits".to_owned()])
        .unwrap();
    assert_eq!(left(&vault, "lab"), spend(1, 0));
    vault.verify().unwrap();
}

/// Rows of slices are sealed with their budget, and none is taken for that of another budget.
#[test]
fn altered_slices_are_damage() {
    for sql in [
        "UPDATE slice SET limit_loss = 4",
        "UPDATE slice SET limit_delta = 1",
        "UPDATE slice SET analyst = 'eve'",
        "UPDATE slice SET budget = 'other'",
        "DELETE FROM slice",
        "INSERT INTO slice VALUES ('research', 'eve', 1, 0)",
        "PRAGMA foreign_keys = OFF; INSERT INTO slice VALUES ('nobody', 'eve', 1, 0)",
    ] {
        let vault = with(spend(10, 0));
        vault.create_budget(&budget("other", "adult", spend(10, 0))).unwrap();
        add(&vault, "lab", spend(3, 0)).unwrap();
        vault.raw(|connection| connection.execute_batch(sql)).unwrap();
        assert!(vault.budgets().unwrap_err().to_string().contains("damaged"), "{sql}");
        assert!(charge(&vault, "ann", 1, 0).is_err(), "{sql}");
    }
}

/// The spending of each analyst is read from the newest checkpoint, like that of all.
#[test]
fn shares_of_a_long_ledger_are_read_from_its_checkpoint() {
    let (_folder, path) = file(spend(2_000, 0));
    let vault = Vault::open(&path).unwrap();
    let many = ChargeRequest {
        entries: std::iter::repeat_n(request(1, 0, &["adult"]).entries.remove(0), 50).collect(),
        ..request(1, 0, &["adult"])
    };
    for round in 0..12 {
        let analyst = ["lab", "eve", "ann"][round % 3];
        assert!(vault.charge(&by(analyst, many.clone())).is_ok());
    }
    add(&vault, "lab", spend(300, 0)).unwrap();
    drop(vault);
    let vault = Vault::open(&path).unwrap();
    assert_eq!((left(&vault, "lab"), left(&vault, "eve")), (spend(100, 0), spend(1_300, 0)));
    vault.verify().unwrap();
    let days = vault.spent_by_day(&vault.budgets().unwrap(), OWNER).unwrap();
    let sums: Vec<(&str, i64, i64)> =
        days.iter().map(|day| (day.analyst.as_str(), day.spend.nano, day.charges)).collect();
    assert_eq!(sums, [("ann", 200, 4), ("eve", 200, 4), ("lab", 200, 4)]);
    // An analyst sees only their own share.
    let seen = |reader: &str| {
        let states = vault.budgets_for(reader).unwrap();
        let days = vault.spent_by_day(&states, reader).unwrap();
        let lately = vault.spent_lately(&states, reader, 7).unwrap()[0].all;
        (days.iter().map(|day| day.analyst.clone()).collect::<Vec<_>>(), lately)
    };
    assert_eq!(seen("lab"), (vec!["lab".to_owned()], spend(200, 0)));
    assert_eq!(seen("eve"), (vec!["ann".to_owned(), "eve".to_owned()], spend(400, 0)));
    assert_eq!(seen("bob"), seen("eve"));
}

/// The exact text of what one analyst sees of a step.
fn seen(vault: &Vault, analyst: &str, outcome: &Result<Charge, VaultError>) -> String {
    let outcome = match outcome {
        Ok(charge) => format!("{} {:?}", charge.spend(), charge.left()),
        Err(error) => error.to_string(),
    };
    format!("{outcome}; {:?}", vault.budgets_for(analyst).unwrap())
}

/// Random charges and changes of slices. Invariants: the slices and the reserved amounts stay
/// within the limit, no share has spent more than it had, and an analyst with a slice sees the
/// same, whatever others do.
#[test]
fn an_analyst_with_a_slice_learns_nothing_of_what_others_spend() {
    let mut rng = ChaCha20Rng::seed_from_u64(41);
    let (mut paid, mut refused) = (0, 0);
    for _ in 0..40 {
        let worlds = [with(spend(60, 30)), with(spend(60, 30))];
        for world in &worlds {
            let curve = budget("curve", "adult", Spend::of_rho(60, 30));
            world.create_budget(&curve).unwrap();
            for (name, limit) in [("research", spend(20, 9)), ("curve", Spend::of_rho(20, 9))] {
                let slice = SliceChange::Add(slice("lab", limit));
                world.change_slice(name, &slice).unwrap();
            }
        }
        for _ in 0..60 {
            // In each world, the others ask different questions.
            for world in &worlds {
                for _ in 0..rng.random_range(0..3) {
                    let analyst = ["eve", "ann", OWNER][rng.random_range(0..3)];
                    let (nano, atto) = (rng.random_range(1..8), rng.random_range(0..4));
                    drop(charge(world, analyst, nano, atto));
                }
            }
            // The owner declares the same in both worlds, if both allow it.
            if rng.random_range(0..6) == 0 {
                let limit = spend(rng.random_range(1..30), rng.random_range(0..9));
                let change = match rng.random_range(0..3) {
                    0 => SliceChange::Add(slice("eve", limit)),
                    1 => SliceChange::SetLimit(slice("eve", limit)),
                    _ => SliceChange::Drop("eve".to_owned()),
                };
                for world in &worlds {
                    drop(world.change_slice("research", &change));
                }
            }
            let (nano, atto) = (rng.random_range(1..4), rng.random_range(0..2));
            let outcomes = worlds.each_ref().map(|world| charge(world, "lab", nano, atto));
            match &outcomes[0] {
                Ok(_) => paid += 1,
                Err(_) => refused += 1,
            }
            let [one, other] = [0, 1].map(|at| seen(&worlds[at], "lab", &outcomes[at]));
            assert_eq!(one, other);
            worlds.iter().for_each(check_shares);
        }
        worlds.iter().for_each(|world| assert!(world.verify().is_ok()));
    }
    assert!(paid > 300 && refused > 300, "{paid} {refused}");
}

/// Checks the sums at this moment: of shares, of spent amounts, and of the ledger.
fn check_shares(vault: &Vault) {
    let fits = |spend: Spend, limit: Spend| {
        assert!(spend.nano <= limit.nano && spend.atto_delta <= limit.atto_delta, "{spend}");
    };
    for state in vault.budgets().unwrap() {
        let BudgetState { budget, spent, slices, .. } = &state;
        fits(*spent, budget.limit);
        let sum = |of: fn(&SliceState) -> Spend| {
            let zero = Spend { nano: 0, atto_delta: 0, ..budget.limit };
            slices.iter().map(of).fold(zero, |sum, one| sum.plus(one).unwrap())
        };
        if slices.is_empty() {
            continue;
        }
        fits(sum(|slice| slice.limit), budget.limit);
        assert_eq!(sum(|slice| slice.spent), *spent);
        // A slice may be smaller than what its analyst had spent. Then the spent amount is
        // reserved.
        fits(
            sum(|slice| Spend {
                nano: slice.limit.nano.max(slice.spent.nano),
                atto_delta: slice.limit.atto_delta.max(slice.spent.atto_delta),
                ..slice.limit
            }),
            budget.limit,
        );
        let rest = slices.last().unwrap();
        assert_eq!(rest.of, SliceOf::EveryoneElse);
        fits(rest.spent, rest.limit);
    }
}

const CHILD: &str = "HUSHQL_TEST_SLICES";

/// One of the processes below. It spends the share of `analyst`, two units at a time, then one, and
/// reports each charge.
#[test]
fn child_with_a_slice() {
    let Some(of) = std::env::var_os(CHILD) else { return };
    let of = of.into_string().unwrap();
    let (analyst, path) = of.split_once('=').unwrap();
    let vault = Vault::open(path).unwrap();
    println!();
    for amount in [2, 1] {
        loop {
            match charge(&vault, analyst, amount, 0) {
                Ok(_) => println!("paid {amount}"),
                Err(VaultError::Locked { .. }) => {}
                Err(error) => {
                    assert!(error.is_budget(), "{error}");
                    break;
                }
            }
            std::io::stdout().flush().unwrap();
            check_shares(&vault);
        }
    }
}

fn start(path: &Path, analyst: &str) -> Child {
    let name = module_path!().split_once("::").unwrap().1;
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{name}::child_with_a_slice"), "--nocapture"])
        .arg("--test-threads=1")
        .env(CHILD, format!("{analyst}={}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Eight processes (two for each of three slices, two for everyone else) charge while the owner
/// changes slices. At every moment the sums are within the limits. In the end each share is spent
/// to the last unit.
#[test]
fn racing_processes_spend_their_slices_exactly() {
    let (_folder, path) = file(spend(150, 0));
    let vault = Vault::open(&path).unwrap();
    for (analyst, limit) in [("lab", 31), ("eve", 20), ("ann", 40)] {
        add(&vault, analyst, spend(limit, 0)).unwrap();
    }
    let analysts = ["lab", "lab", "eve", "eve", "ann", "ann", "bob", "joe"];
    let children = analysts.map(|analyst| (analyst, start(&path, analyst)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let owner = Vault::open(&path).unwrap();
            for round in 0..12 {
                // The owner changes a slice while others charge; the change may be refused.
                let limit = spend(40 + round % 3, 0);
                drop(set(&owner, "ann", limit));
                check_shares(&owner);
            }
            while set(&owner, "ann", spend(40, 0)).is_err() {}
        });
    });
    let mut paid: BTreeMap<&str, i64> = BTreeMap::new();
    for (analyst, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{analyst}");
        let text = String::from_utf8(output.stdout).unwrap();
        let amounts = text.lines().filter_map(|line| line.strip_prefix("paid "));
        *paid.entry(analyst).or_default() +=
            amounts.map(|amount| amount.parse::<i64>().unwrap()).sum::<i64>();
    }
    check_shares(&vault);
    let state = vault.budget("research").unwrap();
    for share in &state.slices {
        let own: i64 = match &share.of {
            SliceOf::Analyst(analyst) => paid[analyst.as_str()],
            SliceOf::EveryoneElse => paid["bob"] + paid["joe"],
        };
        let left = (share.limit.nano - own).max(0);
        assert_eq!((share.spent.nano, share.left.nano), (own, left));
    }
    let of = |analyst: &str| paid[analyst];
    assert_eq!((of("lab"), of("eve")), (31, 20));
    assert_eq!(total(&vault, "adult"), state.spent);
    vault.verify().unwrap();
}
