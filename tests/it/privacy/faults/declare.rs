//! A declaration, and the making of a vault, under every fault: done when it is said to be, or not
//! at all.

use hushql_vault::ledger::{Vault, VaultError};

use super::bench::{Bench, Case, Outcome, Tally, charges, each, forgiven, said};
use super::shim::{Call, Fault};

/// The faults that a declaration can be told apart by: it is one transaction like a charge, whose
/// test has them all.
const FAULTS: [Fault; 5] =
    [Fault::Eio, Fault::EnospcOn, Fault::Kill, Fault::KillHalf, Fault::KillAfter];

fn cases(calls: &[Call], faults: &[Fault]) -> Vec<Case> {
    let mut cases = Vec::new();
    for call in calls {
        let hits = faults.iter().filter(|fault| fault.hits(call));
        cases.extend(hits.map(|fault| Case { at: call.number, fault: *fault }));
    }
    cases
}

/// Two budgets are declared by one child; the second one finds the handle as the first one left it.
fn declarations(every: bool) {
    let two = "CREATE PRIVACY BUDGET c FOR people LIMIT (epsilon=5); \
               CREATE PRIVACY BUDGET d FOR people LIMIT (epsilon=5)";
    let bench = Bench::new(&["@", "--owner", "--format", "json", "--keep-going", "-c", two]);
    let (outcome, calls) = bench.calls(bench.copy());
    assert_eq!(said(&outcome.run, "done"), 2, "{outcome:?}");
    let calls: Vec<Call> = calls.into_iter().filter(|call| call.number > 0).collect();
    let lock = |call: &&Call| call.is("lock", 'd') && call.detail == 11;
    let begin = calls.iter().find(lock).unwrap().number;
    let end = calls.iter().filter(lock).nth(1).unwrap().number;
    let range = if every { 1..calls.len() + 1 } else { begin..end };
    let faults = if every { &Fault::ALL[..] } else { &FAULTS };
    let cases = cases(&calls[range.start - 1..range.end - 1], faults);
    let (tally, forgiven) = (Tally::default(), forgiven(&calls));
    each(&cases, |case| {
        let outcome = bench.run(bench.copy(), Some(*case));
        let Outcome { run, vault } = &outcome;
        let call = &calls[case.at - 1];
        let about = format!("{case:?} at {} of {}: {run:?}", call.name, call.file);
        let vault = Vault::open(vault).unwrap_or_else(|error| panic!("{about}: {error}"));
        assert_eq!(charges(&vault), 1, "{about}");
        let states = vault.budgets().unwrap();
        let names: Vec<&str> = states.iter().map(|state| state.budget.name.as_str()).collect();
        for name in ["c", "d"] {
            let told = run.out.contains(&format!("\"done\":\"budget {name} "));
            assert!(!told || names.contains(&name), "{names:?}, {about}");
        }
        assert!(names.len() <= said(run, "done") + 2, "{names:?}, {about}");
        assert!(states.iter().all(|state| state.spent.nano == states[0].spent.nano), "{about}");
        let failed = call.name == "sync" && case.fault == Fault::Eio && case.at < end;
        if failed && !forgiven.contains(&case.at) {
            assert_eq!(said(run, "done"), 0, "{about}");
            let second = run.out.lines().nth(1).unwrap_or_default();
            assert!(second.contains("an earlier write to the vault"), "{about}");
            tally.add("poisoned");
        }
        tally.add(names.concat());
        bench.drop(&outcome);
    });
    println!("{} faults: {tally:?}", cases.len());
    for names in ["b", "bc", "bcd"] {
        assert!(tally.of(names) > 0, "never {names}: {tally:?}");
    }
    assert!(tally.of("poisoned") >= 4, "{tally:?}");
}

#[test]
fn a_declaration_is_made_or_not() {
    declarations(false);
}

#[test]
#[ignore = "long: minutes"]
fn a_declaration_is_made_or_not_whatever_call_fails() {
    declarations(true);
}

/// A vault is made, or what is at its path is no vault; never is one that exists overwritten.
fn making(every: bool) {
    let bench = Bench::new(&["init", "@"]);
    let (outcome, calls) = bench.calls(bench.fresh());
    outcome.run.says(0, &["created vault"]);
    let calls: Vec<Call> = calls.into_iter().filter(|call| call.number > 0).collect();
    let mut cases = cases(&calls, if every { &Fault::ALL } else { &FAULTS });
    if !every {
        // The pages of a new vault are many and alike.
        cases.retain(|case| {
            let call = &calls[case.at - 1];
            !["write", "read"].contains(&call.name.as_str()) || call.number.is_multiple_of(4)
        });
    }
    let tally = Tally::default();
    each(&cases, |case| {
        let outcome = bench.run(bench.fresh(), Some(*case));
        let Outcome { run, vault } = &outcome;
        let call = &calls[case.at - 1];
        let about = format!("{case:?} at {} of {}: {run:?}", call.name, call.file);
        let state = match Vault::open(vault) {
            Ok(made) => {
                assert_eq!(made.entries().unwrap().len(), 0, "{about}");
                assert_eq!(made.analysts().unwrap(), ["owner"], "{about}");
                assert!(made.budgets().unwrap().is_empty(), "{about}");
                "made"
            }
            Err(VaultError::Missing { .. }) => "missing",
            Err(VaultError::NotAVault { .. }) => "no vault",
            Err(error) => panic!("{about}: {error}"),
        };
        tally.add(state);
        assert!(run.status != 0 || state == "made", "{about}");
        let again = Vault::init(vault);
        match state {
            "missing" => assert!(again.is_ok(), "{about}"),
            _ => assert!(matches!(again, Err(VaultError::Exists { .. })), "{about}"),
        }
        bench.drop(&outcome);
    });
    println!("{} faults: {tally:?}", cases.len());
    for state in ["made", "missing", "no vault"] {
        assert!(tally.of(state) > 0, "never {state}: {tally:?}");
    }
}

#[test]
fn a_vault_is_made_or_not() {
    making(false);
}

#[test]
#[ignore = "long: minutes"]
fn a_vault_is_made_or_not_whatever_call_fails() {
    making(true);
}
