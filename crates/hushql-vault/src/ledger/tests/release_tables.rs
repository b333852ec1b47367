//! Release tables in a vault: paid for before they are stored, part of the ledger's chain, and
//! visible to those who may see them.

use rusqlite::Connection;

use super::views::view;
use super::{NANO, budget, file, request, spend, table, total};
use crate::catalog::CatalogError;
use crate::ledger::{NewAnswer, Vault, VaultError};

/// An answer of `lab`, paid by this charge.
fn answer(name: &str, charge: i64) -> NewAnswer {
    NewAnswer {
        name: name.to_owned(),
        creator: "lab".to_owned(),
        charge,
        statement: format!("CREATE RELEASE TABLE {name} AS …"),
        is_replayed: false,
        about: "{}".to_owned(),
        answer: vec![1, 2, 3],
    }
}

/// A vault in a file, in which `lab` paid once and stored `r`.
fn stored() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, path) = file(spend(9 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    let charge = vault.charge(&request(NANO, 0, &["adult"])).unwrap();
    assert_eq!(vault.store_answer(&answer("r", charge.sequence())).unwrap(), 2);
    (folder, path)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, VaultError>) -> CatalogError {
    match result {
        Err(VaultError::Catalog(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_is_stored_with_an_entry_of_no_cost() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    let entries = vault.entries().unwrap();
    let stored = &entries[1];
    assert_eq!((stored.mechanism.as_str(), stored.parameters.as_str()), ("STORE", "charge=1"));
    assert!(stored.cost.is_nothing() && stored.unit_domains.is_empty());
    assert!(stored.budgets.is_empty() && stored.chain != entries[0].chain);
    assert_eq!(total(&vault, "adult"), spend(NANO, 0));
    assert_eq!(vault.stored_answer(2).unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(vault.stored_answer(1).unwrap(), None);
    vault.verify().unwrap();
    // Another handle sees the changes.
    let other = Vault::open(&path).unwrap();
    assert_eq!(other.release_tables().unwrap().len(), 1);
    let charge = vault.charge(&request(NANO, 0, &["adult"])).unwrap();
    vault.store_answer(&answer("q", charge.sequence())).unwrap();
    let names: Vec<_> =
        other.release_tables().unwrap().iter().map(|table| table.name.clone()).collect();
    assert_eq!(names, ["q", "r"]);
    other.verify().unwrap();
}

/// No table is stored without its charge: neither without any, nor with the entry of a stored
/// answer.
#[test]
fn an_answer_needs_its_charge() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    for charge in [0, -1, 2, 3, i64::MAX] {
        assert!(vault.store_answer(&answer("q", charge)).is_err(), "{charge}");
        drop(Vault::open(&path).unwrap());
    }
    let vault = Vault::open(&path).unwrap();
    assert_eq!(vault.entries().unwrap().len(), 2);
    assert_eq!(vault.release_tables().unwrap().len(), 1);
}

#[test]
fn dropping_gives_nothing_back() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    let gone = refused(vault.drop_release_table("r", "other"));
    assert!(matches!(gone, CatalogError::UnknownReleaseTable { .. }), "{gone}");
    vault.grant_release_table(("r", "other"), true, "lab").unwrap();
    let others = refused(vault.drop_release_table("r", "other"));
    assert!(matches!(others, CatalogError::OthersReleaseTable { .. }), "{others}");
    vault.drop_release_table("r", "lab").unwrap();
    assert_eq!(vault.release_tables().unwrap().len(), 0);
    assert_eq!(vault.stored_answer(2).unwrap(), None);
    assert_eq!(total(&vault, "adult"), spend(NANO, 0));
    assert_eq!(vault.budget("research").unwrap().left, spend(8 * NANO, 0));
    let last = vault.entries().unwrap().pop().unwrap();
    assert_eq!((last.mechanism.as_str(), last.parameters.as_str()), ("DROP", "answer=2"));
    vault.verify().unwrap();
    // Grants are dropped with the table.
    let charge = vault.charge(&request(NANO, 0, &["adult"])).unwrap();
    vault.store_answer(&answer("r", charge.sequence())).unwrap();
    assert!(!vault.release_tables().unwrap()[0].is_seen_by("other"));
    vault.drop_release_table("r", "owner").unwrap();
    vault.verify().unwrap();
}

#[test]
fn grants_are_the_creators_and_the_owners() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    let sees = |reader: &str| vault.release_tables().unwrap()[0].is_seen_by(reader);
    assert!(sees("lab") && sees("owner") && !sees("other"));
    let none = refused(vault.grant_release_table(("r", "other"), true, "other"));
    assert!(matches!(none, CatalogError::UnknownReleaseTable { .. }), "{none}");
    for by in ["lab", "owner"] {
        vault.grant_release_table(("r", "other"), true, by).unwrap();
        vault.grant_release_table(("r", "other"), true, by).unwrap();
        assert!(sees("other") && !sees("third"));
        let others = refused(vault.grant_release_table(("r", "third"), true, "other"));
        assert!(matches!(others, CatalogError::OthersReleaseTable { .. }), "{others}");
        vault.grant_release_table(("r", "other"), false, by).unwrap();
        assert!(!sees("other"));
    }
    let bad = vault.grant_release_table(("r", "a b"), true, "lab");
    assert!(matches!(bad, Err(VaultError::AnalystName { .. })));
    vault.verify().unwrap();
}

/// A name belongs to a table, a view or a release table. Someone who does not see a release table
/// learns only that the name is taken.
#[test]
fn names_are_not_hidden() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    vault.create_view(&view("grown"), false).unwrap();
    let of = |by: &str, name: &str| refused(vault.may_store(name, by)).to_string();
    assert_eq!(of("lab", "adult"), "there is a table `adult` already");
    assert!(of("lab", "grown").starts_with("`grown` is a view"));
    assert!(of("lab", "r").starts_with("there is a release table `r` already"));
    assert!(of("owner", "r").starts_with("there is a release table `r` already"));
    assert_eq!(of("other", "r"), "the name `r` is taken: choose another one");
    assert!(of("lab", "a.b").contains("cannot be a name"));
    let taken = refused(vault.create_table(&table("r")));
    assert!(matches!(taken, CatalogError::DuplicateReleaseTable { .. }), "{taken}");
    let taken = refused(vault.create_view(&view("r"), true));
    assert!(matches!(taken, CatalogError::DuplicateReleaseTable { .. }), "{taken}");
    let twice = refused(vault.store_answer(&answer("r", 1)));
    assert!(matches!(twice, CatalogError::DuplicateReleaseTable { .. }), "{twice}");
    vault.may_store("q", "lab").unwrap();
    vault.create_budget(&budget("r", "adult", spend(9 * NANO, 0))).unwrap();
    vault.verify().unwrap();
}

#[test]
fn a_creator_stores_so_many_tables_and_bytes() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    for name in 1..crate::ledger::records::answers::MOST_TABLES {
        vault.store_answer(&answer(&format!("t{name}"), 1)).unwrap();
    }
    let full = refused(vault.may_store("q", "lab"));
    assert!(matches!(full, CatalogError::TooManyReleaseTables { .. }), "{full}");
    refused(vault.store_answer(&answer("q", 1)));
    vault.may_store("q", "other").unwrap();
    vault.drop_release_table("t1", "lab").unwrap();
    vault.may_store("q", "lab").unwrap();
    vault.verify().unwrap();
}

/// Every alteration of an answer, its table, its grants or its entries is detected.
#[test]
fn damage_is_found() {
    let seals = "the stored answers are not what was stored";
    let stored_is = "a stored answer is missing or altered";
    let unchanged = "DROP TRIGGER release_table_is_never_changed;";
    for (sql, says, when_listed) in [
        ("UPDATE release_table SET answer = x'010204'", stored_is, false),
        ("UPDATE release_table SET salt = x'00000000000000000000000000000000'", stored_is, false),
        ("UPDATE release_table SET name = 's'", seals, true),
        ("UPDATE release_table SET creator = 'other'", seals, true),
        ("UPDATE release_table SET about = '[]'", seals, true),
        (
            "UPDATE release_table SET digest = x'0000000000000000000000000000000000000000000000000000000000000000'",
            seals,
            true,
        ),
        ("DELETE FROM release_table", seals, true),
        ("INSERT INTO release_grant VALUES ('r', 'other')", seals, true),
    ] {
        let (_folder, path) = stored();
        let connection = Connection::open(&path).unwrap();
        let trigger: String = connection
            .query_row(
                "SELECT sql FROM sqlite_schema WHERE name = 'release_table_is_never_changed'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        connection.execute_batch(&format!("{unchanged} {sql}; {trigger}")).unwrap();
        let vault = Vault::open(&path).unwrap();
        let error = vault.verify().unwrap_err().to_string();
        assert!(error.contains(says), "{sql}: {error}");
        assert_eq!(vault.release_tables().is_err(), when_listed, "{sql}");
        if !when_listed {
            assert!(vault.stored_answer(2).unwrap_err().to_string().contains(stored_is), "{sql}");
        }
    }
    // If someone seals altered rows again, the chain detects it.
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    vault.raw(|connection| {
        connection
            .execute_batch(
                "DROP TRIGGER release_table_is_never_changed;
                 UPDATE release_table SET answer = x'09', digest = x'0000000000000000000000000000000000000000000000000000000000000000'",
            )
            .unwrap();
        crate::ledger::records::answers::initialise(connection).unwrap();
    });
    assert_eq!(vault.release_tables().unwrap().len(), 1);
    let error = vault.verify().unwrap_err().to_string();
    assert!(error.contains(stored_is), "{error}");
    assert!(vault.stored_answer(2).is_err());
}

/// Two handles store an answer of the same name: the first one is stored, and each handle sees
/// whole tables.
#[test]
fn of_two_answers_of_one_name_the_first_is_stored() {
    let (_folder, path) = stored();
    let (one, other) = (Vault::open(&path).unwrap(), Vault::open(&path).unwrap());
    one.may_store("q", "lab").unwrap();
    other.may_store("q", "lab").unwrap();
    let charge = |vault: &Vault| vault.charge(&request(NANO, 0, &["adult"])).unwrap().sequence();
    let (first, second) = (charge(&one), charge(&other));
    other.store_answer(&answer("q", second)).unwrap();
    let twice = refused(one.store_answer(&answer("q", first)));
    assert!(matches!(twice, CatalogError::DuplicateReleaseTable { .. }), "{twice}");
    let tables = one.release_tables().unwrap();
    assert_eq!(tables.iter().map(|table| table.charge).collect::<Vec<_>>(), [second, 1]);
    assert_eq!(total(&one, "adult"), spend(3 * NANO, 0));
    one.verify().unwrap();
}

/// A creator can store a limited number of free answers per day, because each table leaves two
/// entries, dropped or not.
#[test]
fn a_creator_stores_so_much_for_nothing_a_day() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    let free = |creator: &str| NewAnswer {
        is_replayed: true,
        creator: creator.to_owned(),
        ..answer("again", 1)
    };
    for _ in 1..200 {
        vault.store_answer(&free("lab")).unwrap();
        vault.drop_release_table("again", "lab").unwrap();
    }
    let full = refused(vault.store_answer(&free("lab")));
    assert!(matches!(full, CatalogError::TooManyFreeTables { most: 200 }), "{full}");
    // The limit does not affect paid answers, other creators, or the owner.
    vault.store_answer(&answer("again", 1)).unwrap();
    vault.drop_release_table("again", "lab").unwrap();
    for other in ["eve", crate::ledger::OWNER] {
        vault.store_answer(&free(other)).unwrap();
        vault.drop_release_table("again", other).unwrap();
    }
    vault.verify().unwrap();
}

/// The data beside the rows counts, too.
#[test]
fn texts_beside_the_rows_count() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    for name in 0..8 {
        let about = "x".repeat(8 << 20);
        vault.store_answer(&NewAnswer { about, ..answer(&format!("t{name}"), 1) }).unwrap();
    }
    assert!(matches!(
        refused(vault.may_store("q", "lab")),
        CatalogError::TooManyReleaseTables { .. }
    ));
}

#[test]
fn a_table_is_granted_to_so_many() {
    let (_folder, path) = stored();
    let vault = Vault::open(&path).unwrap();
    let grant = |to: usize, by: &str| vault.grant_release_table(("r", &format!("a{to}")), true, by);
    for to in 0..200 {
        grant(to, "lab").unwrap();
    }
    let full = refused(grant(200, "lab"));
    assert!(matches!(full, CatalogError::TooManyGrants { most: 200 }), "{full}");
    grant(7, "lab").unwrap();
    grant(200, crate::ledger::OWNER).unwrap();
}
