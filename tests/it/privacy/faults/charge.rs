//! A charge under every fault: what was answered is in the ledger, and the limit is exact.

use super::bench::{
    ASK, Bench, Case, Outcome, Tally, charges, each, ends_of_each_kind, forgiven, one, said,
};
use super::shim::{Call, Fault};

/// What is spent before the child comes, and the limit.
const SPENT: usize = 1;
const LIMIT: usize = 3;

/// A child that asks twice; the second statement shows what is left of the handle.
fn bench(anchored: bool) -> Bench {
    let twice = format!("{ASK}; {ASK}");
    let ask = ["--analyst", "lab", "--format", "json", "--keep-going", "-c", &twice];
    let place = if anchored { &["@", "--anchor", "@anchor"][..] } else { &["@"] };
    Bench::new(&[place, &ask].concat())
}

/// The calls up to the first noise, and where the charge itself begins among them.
fn first_charge(bench: &Bench) -> (Vec<Call>, usize) {
    let (outcome, calls) = bench.calls(bench.copy());
    assert_eq!(said(&outcome.run, "columns"), 2, "{outcome:?}");
    assert_eq!(charges(&bench.open(&outcome.vault).unwrap()), LIMIT);
    let noise = calls.iter().position(|call| call.is("entropy", '-') && call.detail == 32).unwrap();
    let calls: Vec<Call> = calls[..noise].iter().filter(|call| call.number > 0).cloned().collect();
    (calls.clone(), begin(&calls))
}

/// Where the write lock is taken under which the journal is made. An anchor takes the lock before,
/// to be moved.
fn begin(calls: &[Call]) -> usize {
    let journal = calls.iter().position(|call| call.is("write", 'j')).unwrap();
    // RESERVED is SQLite's byte 1, for writing.
    let lock = |call: &Call| call.is("lock", 'd') && call.detail == 11;
    calls[..journal].iter().rposition(lock).unwrap()
}

/// Looks at the vault after the child has gone.
fn inspect(bench: &Bench, case: Case, calls: &[Call], outcome: &Outcome, tally: &Tally) {
    let (call, forgiven) = (&calls[case.at - 1], forgiven(calls));
    let Outcome { run, vault } = outcome;
    let about = format!("{case:?} at {} of {}: {run:?}", call.name, call.file);
    let answered = said(run, "columns");
    let before = std::fs::read(vault).unwrap();
    let opened = bench.open(vault).unwrap_or_else(|error| panic!("{about}: {error}"));
    let found = charges(&opened);
    assert!((SPENT + answered..=LIMIT).contains(&found), "{found} charges, {about}");
    assert!(found <= SPENT + answered + 1, "a charge that nobody made: {found}, {about}");
    let original = bench.open_original();
    assert_eq!(*opened.catalog().unwrap(), *original.catalog().unwrap(), "{about}");
    assert_eq!(opened.analysts().unwrap(), original.analysts().unwrap(), "{about}");
    // A sync that failed, once, leaves nobody knows what on the disk, and so no second answer.
    let failed = matches!(case.fault, Fault::Eio | Fault::Enospc);
    if call.name == "sync" && failed && case.at > begin(calls) && !forgiven.contains(&call.number) {
        assert_eq!(answered, 0, "{about}");
        let second = run.out.lines().nth(1).unwrap_or_default();
        assert!(second.contains("an earlier write to the vault"), "{about}");
        tally.add("poisoned");
    }
    tally.add(format!("{answered} answered, {found} charged"));
    if std::fs::read(vault).unwrap() != before {
        tally.add("rolled back by the journal");
    }
    // Whoever comes next gets what is left, to the last unit.
    let mut paid = found;
    while opened.charge(&one(&opened)).is_ok() {
        paid += 1;
    }
    assert_eq!(paid, LIMIT, "{about}");
    assert!(opened.charge(&one(&opened)).unwrap_err().is_budget(), "{about}");
    bench.drop(outcome);
}

fn run(bench: &Bench, calls: &[Call], cases: &[Case]) {
    let tally = Tally::default();
    each(cases, |case| {
        let outcome = bench.run(bench.copy(), Some(*case));
        inspect(bench, *case, calls, &outcome, &tally);
    });
    println!("{} faults: {tally:?}", cases.len());
    // Every way in which it can end was seen: nothing charged, charged and not answered, answered.
    for (answered, found) in [(0, SPENT), (0, SPENT + 1), (1, SPENT + 1), (2, LIMIT)] {
        let what = format!("{answered} answered, {found} charged");
        assert!(tally.of(&what) > 0, "never {what}: {tally:?}");
    }
    assert!(tally.of("poisoned") >= 5, "{tally:?}");
    assert!(tally.of("rolled back by the journal") >= 5, "{tally:?}");
}

fn all(calls: &[Call], faults: &[Fault]) -> Vec<Case> {
    let of = |call: &Call| {
        let call = call.clone();
        let hits = faults.iter().filter(move |fault| fault.hits(&call)).copied();
        hits.collect::<Vec<_>>()
    };
    let cases = calls.iter().flat_map(|call| {
        of(call).into_iter().map(|fault| Case { at: call.number, fault }).collect::<Vec<_>>()
    });
    cases.collect()
}

/// Every call between the write lock and the first noise with every fault, and of the calls before
/// it, which only read, the first and the last of each kind.
#[test]
fn a_charge_survives_every_fault() {
    let bench = bench(false);
    let (calls, begin) = first_charge(&bench);
    let readers: Vec<Call> = ends_of_each_kind(&calls[..begin]).into_iter().cloned().collect();
    let mut cases = all(&calls[begin..], &Fault::ALL);
    cases.extend(all(&readers, &[Fault::Eio, Fault::EioOn]));
    run(&bench, &calls, &cases);
}

/// Every call with every fault.
#[test]
#[ignore = "long: minutes"]
fn a_charge_survives_every_fault_at_every_call() {
    for anchored in [false, true] {
        let bench = bench(anchored);
        let (calls, _) = first_charge(&bench);
        run(&bench, &calls, &all(&calls, &Fault::ALL));
    }
}

/// With an anchor there is more that can fail: everything from the commit on, and the anchor at the
/// opening.
#[test]
fn an_anchored_charge_survives_every_fault() {
    let bench = bench(true);
    let (calls, begin) = first_charge(&bench);
    let commit = begin + calls[begin..].iter().position(|call| call.is("unlink", 'j')).unwrap();
    let of_anchor = |call: &&Call| call.file == 'a' || call.file == 'g';
    let mut cases = all(&calls[commit..], &Fault::ALL);
    let opening: Vec<Call> = calls[..begin].iter().filter(of_anchor).cloned().collect();
    cases.extend(all(&opening, &[Fault::Eio, Fault::Kill, Fault::KillAfter]));
    let writing: Vec<Call> = calls[begin..commit].to_vec();
    cases.extend(all(&writing, &[Fault::Eio, Fault::KillAfter]));
    run(&bench, &calls, &cases);
}
