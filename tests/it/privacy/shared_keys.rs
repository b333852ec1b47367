//! Keys of links that several people share, in tables of which nobody verified that they have none.
//!
//! A row that leads to two people is a row of both, and stays as long as one of them does. Whatever
//! the tables hold, an answer may change by the claimed bound when a person goes, and by no more.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine, Session};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::privacy::draws::declared;

/// Rows of two numbers each.
type Pairs = Vec<(i64, i64)>;

/// Accounts (number, owner), visits (number, account) and notes (number, visit).
#[derive(Debug, Clone, Default)]
struct World {
    accounts: Pairs,
    visits: Pairs,
    notes: Pairs,
}

impl World {
    fn random(rng: &mut ChaCha20Rng) -> Self {
        let mut pairs = |rows: usize, from: i64, to: i64| -> Pairs {
            (0..rows).map(|_| (rng.random_range(0..from), rng.random_range(0..to))).collect()
        };
        Self { accounts: pairs(7, 5, 4), visits: pairs(9, 7, 6), notes: pairs(9, 20, 8) }
    }

    /// The people whom a visit to an account leads to.
    fn of_account(&self, account: i64) -> BTreeSet<i64> {
        self.accounts.iter().filter(|(no, _)| *no == account).map(|(_, owner)| *owner).collect()
    }

    fn of_visit(&self, visit: i64) -> BTreeSet<i64> {
        let visits = self.visits.iter().filter(|(no, _)| *no == visit);
        visits.flat_map(|(_, account)| self.of_account(*account)).collect()
    }

    /// The same without a person: without the rows that lead to nobody else.
    fn without(&self, person: i64) -> Self {
        let keep = |pairs: &Pairs, of: &dyn Fn(i64) -> BTreeSet<i64>| -> Pairs {
            pairs.iter().copied().filter(|(_, to)| of(*to) != BTreeSet::from([person])).collect()
        };
        Self {
            accounts: keep(&self.accounts, &|owner| BTreeSet::from([owner])),
            visits: keep(&self.visits, &|account| self.of_account(account)),
            notes: keep(&self.notes, &|visit| self.of_visit(visit)),
        }
    }

    fn register(&self, engine: &Engine) {
        let tables = [
            ("accounts", ["no", "owner"], &self.accounts),
            ("visits", ["vno", "acct"], &self.visits),
            ("notes", ["nno", "visit"], &self.notes),
        ];
        for (name, columns, pairs) in tables {
            let (from, to): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
            let arrays = [from, to].map(|v| Arc::new(Int64Array::from(v)) as ArrayRef);
            let columns = columns.into_iter().zip(arrays);
            engine.register_batch(name, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        }
    }
}

/// An engine whose declarations were true of its tables when they were declared: they had no row.
async fn engine() -> (Engine, Analyst) {
    let engine = Engine::in_memory().unwrap();
    World::default().register(&engine);
    let lab = declared(
        &engine,
        &[
            "ALTER TABLE accounts SET PRIVACY UNIT (owner) MAX ROWS 2",
            "ALTER TABLE visits SET PRIVACY UNIT VIA (acct) REFERENCES accounts(no) MAX ROWS 3",
            "ALTER TABLE notes SET PRIVACY UNIT VIA (visit) REFERENCES visits(vno) MAX ROWS 3",
            "CREATE PRIVACY BUDGET b FOR accounts LIMIT (epsilon=1000000)",
        ],
    )
    .await;
    (engine, lab)
}

/// What is asked, and by how much one person may change the answer.
const ASKED: [(&str, i64); 15] = [
    ("COUNT(*) FROM visits", 3),
    ("COUNT(*) FROM visits JOIN accounts ON acct = no", 3),
    ("COUNT(*) FROM accounts JOIN visits ON no = acct WHERE owner > 1", 3),
    ("COUNT(*) FROM accounts LEFT JOIN visits ON no = acct", 5),
    ("COUNT(*) FROM accounts WHERE EXISTS (SELECT 1 FROM visits WHERE acct = no)", 2),
    ("COUNT(*) FROM accounts WHERE NOT EXISTS (SELECT 1 FROM visits WHERE acct = no)", 2),
    ("COUNT(*) FROM accounts WHERE no IN (SELECT acct FROM visits WHERE vno < 4)", 2),
    ("COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM accounts WHERE no = acct)", 3),
    ("COUNT(*) FROM notes", 3),
    ("COUNT(*) FROM notes JOIN visits ON visit = vno", 3),
    ("COUNT(*) FROM notes JOIN visits ON visit = vno JOIN accounts ON acct = no", 3),
    (
        "COUNT(*) FROM accounts WHERE owner > 1000 OR EXISTS (SELECT 1 FROM visits WHERE acct = no)",
        2,
    ),
    ("COUNT(*) FROM visits WHERE (SELECT COUNT(*) FROM notes WHERE visit = vno) > 0", 3),
    ("COUNT(*) FROM notes WHERE (SELECT COUNT(*) FROM visits WHERE visit = vno) > 0", 3),
    ("COUNT(*) FROM accounts LEFT JOIN visits ON no = acct LEFT JOIN notes ON visit = vno", 8),
];

/// The answers: at this ε another number than the right one has a probability below 10⁻⁸⁰.
async fn answers(lab: &Session) -> Vec<i64> {
    let mut answers = Vec::new();
    for (asked, _) in ASKED {
        let sql = format!("SELECT LAPLACE(eps=1000) {asked}");
        let answer = lab.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        answers.push(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0));
    }
    answers
}

async fn compared(engine: &Engine, lab: &Session, world: &World) {
    world.register(engine);
    let with = answers(lab).await;
    for person in 0..4 {
        world.without(person).register(engine);
        let without = answers(lab).await;
        for (i, (asked, bound)) in ASKED.iter().enumerate() {
            let change = (with[i] - without[i]).abs();
            assert!(change <= *bound, "{asked}: {change} without {person} of {world:?}");
        }
    }
}

/// A visit to an account of 500 people is each one's, and each changes the answers by no more than
/// is claimed.
#[tokio::test]
async fn one_row_of_many_people_is_bounded_for_each() {
    let (engine, lab) = engine().await;
    let everybody = World {
        accounts: (0..500).map(|owner| (7, owner)).collect(),
        visits: vec![(1, 7)],
        notes: vec![(1, 1)],
    };
    compared(&engine, &lab, &everybody).await;
    everybody.register(&engine);
    let found = answers(&lab).await;
    assert_eq!(found, [500, 500, 498, 500, 500, 0, 500, 500, 500, 500, 500, 500, 500, 500, 500]);
}

/// Keys of one person each are answered as ever, also where a row of theirs comes twice.
#[tokio::test]
async fn keys_of_one_person_lead_there() {
    let (engine, lab) = engine().await;
    let world = World {
        accounts: vec![(1, 1), (2, 2), (3, 3)],
        visits: vec![(1, 1), (2, 1), (3, 2), (4, 9)],
        notes: vec![(1, 1), (2, 3), (3, 4)],
    };
    world.register(&engine);
    assert_eq!(answers(&lab).await, [3, 3, 1, 4, 2, 1, 2, 3, 2, 2, 2, 2, 2, 2, 4]);
    let twice = World { accounts: vec![(1, 1), (2, 2), (3, 3), (1, 1)], ..world };
    twice.register(&engine);
    // Twice two visits of the first person are more than three.
    assert_eq!(answers(&lab).await[0], 4);
}

#[tokio::test]
async fn nobody_changes_more_than_is_claimed_of_shared_keys() {
    let (engine, lab) = engine().await;
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    for _ in 0..12 {
        compared(&engine, &lab, &World::random(&mut rng)).await;
    }
}
