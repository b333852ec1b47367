//! Views in a vault: they have unique names, are durable, and are sealed like tables.

use rusqlite::Connection;

use super::{NANO, alter, budget, file, spend, table};
use crate::catalog::{CatalogError, View};
use crate::ledger::{Vault, VaultError};

pub(super) fn view(name: &str) -> View {
    View {
        name: name.to_owned(),
        columns: vec!["years".to_owned()],
        query: "SELECT age -- 'it''s'\nFROM adult WHERE age >= 18".to_owned(),
    }
}

fn why(result: Result<(), VaultError>) -> CatalogError {
    match result {
        Err(VaultError::Catalog(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_view_is_there_when_the_vault_is_opened_again() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    vault.create_view(&view("grown"), false).unwrap();
    vault.create_view(&view("b"), true).unwrap();
    let other = Vault::open(&path).unwrap();
    assert_eq!(other.catalog().unwrap().view("grown"), Some(&view("grown")));
    assert!(other.catalog().unwrap().table("grown").is_none());
    // Another handle sees the changes of this one.
    let changed = View { query: "SELECT 1 AS x".to_owned(), ..view("grown") };
    vault.create_view(&changed, true).unwrap();
    assert_eq!(other.catalog().unwrap().view("grown"), Some(&changed));
    vault.drop_view("grown").unwrap();
    assert_eq!(other.catalog().unwrap().view("grown"), None);
    let names: Vec<_> = other.catalog().unwrap().views().map(|v| v.name.clone()).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(other.budgets().unwrap(), Vault::open(&path).unwrap().budgets().unwrap());
}

#[test]
fn a_name_is_a_tables_or_a_views() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    vault.create_view(&view("v"), false).unwrap();
    let before = vault.catalog().unwrap();
    let taken = |error| matches!(error, CatalogError::DuplicateTable { .. });
    assert!(taken(why(vault.create_view(&view("adult"), false))));
    assert!(taken(why(vault.create_view(&view("adult"), true))));
    let twice = why(vault.create_view(&view("v"), false));
    assert!(matches!(twice, CatalogError::DuplicateView { .. }), "{twice}");
    let is_view = |error| matches!(error, CatalogError::IsView { .. });
    assert!(is_view(why(vault.create_table(&table("v")))));
    assert!(is_view(why(alter(&vault, "v", |_| ()))));
    assert!(is_view(why(vault.drop_table("v"))));
    assert!(is_view(why(vault.create_budget(&budget("b", "v", spend(1, 0))).map(|_| ()))));
    let no_view = why(vault.drop_view("adult"));
    assert!(matches!(no_view, CatalogError::IsTable { .. }), "{no_view}");
    let no_view = why(vault.drop_view("w"));
    assert!(matches!(no_view, CatalogError::UnknownView { .. }), "{no_view}");
    let bad = View { columns: vec!["a".to_owned(), "a".to_owned()], ..view("w") };
    assert!(matches!(why(vault.create_view(&bad, false)), CatalogError::View { .. }));
    assert_eq!(before, vault.catalog().unwrap(), "a refused change changes nothing");
}

/// The seal of the tables covers the text of a view.
#[test]
fn an_altered_view_is_noticed() {
    for sql in [
        "UPDATE declared_table SET body = replace(body, '18', '17') WHERE name = 'grown'",
        "UPDATE declared_table SET name = 'grwon' WHERE name = 'grown'",
        "DELETE FROM declared_table WHERE name = 'grown'",
    ] {
        let (_folder, path) = file(spend(NANO, 0));
        Vault::open(&path).unwrap().create_view(&view("grown"), false).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = Vault::open(&path).unwrap_err();
        assert!(error.to_string().contains("the declared tables are not"), "{sql}: {error}");
    }
}
