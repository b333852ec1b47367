//! Cells: which charges pass, how cells merge, and that no unit loses more than the limit, for all
//! questions and declarations.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use super::*;
use crate::catalog::{Cell, FileFormat, Fingerprint, Slice, SliceOf, Touched};
use crate::ledger::{CellState, SliceChange};

const REGIONS: [&str; 3] = ["Oslo", "Rome", "Pisa"];

fn region(listed: &[&str]) -> Column {
    Column {
        name: "region".to_owned(),
        data_type: "Utf8".to_owned(),
        nullable: true,
        domain: Some(Domain::In(listed.iter().map(|value| Some((*value).to_owned())).collect())),
        zone: None,
    }
}

/// A table in a verified file, with one row for each person.
fn people(name: &str) -> Table {
    let fingerprint = Fingerprint {
        size: 1,
        modified_nanos: 1,
        changed_nanos: None,
        device: None,
        inode: 1,
        sha256: "00".repeat(32),
        files: None,
        over_lines: false,
    };
    let mut people = table(name);
    people.source = Source::File {
        format: FileFormat::Csv,
        location: format!("/data/{name}.csv"),
        options: BTreeMap::new(),
        fingerprint: Some(fingerprint),
        files: None,
    };
    people.privacy =
        Privacy::Private(Unit::Column { column: "id".to_owned(), max_rows: None, unique: true });
    people.columns.push(region(&REGIONS));
    people
}

fn furnish_cells(vault: &Vault, limit: Spend) {
    vault.create_table(&people("adult")).unwrap();
    vault.create_budget(&budget("research", "adult", limit)).unwrap();
    partition(vault, "research", "region").unwrap();
}

fn with(limit: Spend) -> Vault {
    let vault = Vault::in_memory().unwrap();
    furnish_cells(&vault, limit);
    vault
}

fn partition(vault: &Vault, budget: &str, column: &str) -> Result<(), VaultError> {
    vault.partition_budget(&vault.catalog().unwrap(), budget, column, None)
}

fn cell(name: &str) -> Cell {
    if name == "other" { Cell::Other } else { Cell::Value(name.to_owned()) }
}

/// A request as the engine would plan it now: charged to these cells alone, or to all cells if
/// there are none.
fn of(vault: &Vault, nano: i64, atto: i64, cells: &[&str]) -> ChargeRequest {
    let catalog = vault.catalog().unwrap();
    let since = catalog.cells_of("adult").map(|cells| cells.since);
    let mut request = request(nano, atto, &["adult"]);
    request.entries[0].cells = since.filter(|_| !cells.is_empty()).map(|since| Touched {
        column: "region".to_owned(),
        since,
        cells: cells.iter().map(|name| cell(name)).collect(),
    });
    ChargeRequest { catalog, ..request }
}

fn charge(vault: &Vault, nano: i64, cells: &[&str]) -> Result<Charge, VaultError> {
    vault.charge(&of(vault, nano, 0, cells))
}

/// The amount left in each cell, in the order of their names, *other* last.
fn left(vault: &Vault) -> Vec<i64> {
    let cells = vault.cells_for("research", OWNER).unwrap();
    cells.iter().map(|cell| cell.left.nano).collect()
}

#[test]
fn a_cell_is_charged_alone() {
    let vault = with(spend(10, 0));
    assert_eq!(left(&vault), [10; 4]);
    assert!(charge(&vault, 6, &["Oslo"]).is_ok());
    assert_eq!(left(&vault), [4, 10, 10, 10]);
    // Each cell can spend the whole limit.
    assert!(charge(&vault, 10, &["Rome", "other"]).is_ok());
    assert_eq!(left(&vault), [4, 10, 0, 0]);
    let refused = charge(&vault, 1, &["Pisa", "Rome"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "for region 'Rome', the privacy budget `research` does not suffice: this query costs ε = 0.000000001, but only ε = 0 is left"
    );
    // A charge to all cells, one of which has nothing left.
    let refused = charge(&vault, 1, &[]).unwrap_err().to_string();
    assert!(refused.starts_with("for region 'Rome', the privacy budget"), "{refused}");
    let paid = charge(&vault, 3, &["Oslo"]).unwrap();
    assert_eq!(paid.left(), [("research".to_owned(), spend(1, 0))]);
    let state = vault.budget("research").unwrap();
    assert_eq!((state.spent, state.left), (spend(10, 0), spend(0, 0)), "the dearest cell");
    let cells = vault.cells_for("research", "lab").unwrap();
    let names: Vec<String> = cells.iter().map(|cell| cell.cell.to_string()).collect();
    assert_eq!(names, ["'Oslo'", "'Pisa'", "'Rome'", "other"]);
    assert_eq!(vault.entries().unwrap()[1].cells.as_ref().unwrap().cells.len(), 2);
    vault.verify().unwrap();
}

#[test]
fn entries_of_one_statement_land_where_they_belong() {
    let vault = with(spend(10, 0));
    let mut ask = of(&vault, 4, 0, &["Oslo"]);
    ask.entries.extend(of(&vault, 5, 0, &["Rome"]).entries);
    ask.entries.extend(of(&vault, 1, 0, &[]).entries);
    let quotes = vault.quote(&ask).unwrap();
    assert_eq!(quotes[0].cell.as_deref(), Some("region 'Rome'"), "the one with the least left");
    assert!(vault.charge(&ask).is_ok());
    assert_eq!(left(&vault), [5, 9, 4, 9]);
    // Both entries are charged to the same cell.
    let mut ask = of(&vault, 3, 0, &["Oslo"]);
    ask.entries.extend(of(&vault, 3, 0, &["Oslo", "Pisa"]).entries);
    assert!(vault.charge(&ask).unwrap_err().is_budget());
    // Each of the two fits one cell, but not both.
    let mut ask = of(&vault, 2, 0, &["Oslo"]);
    ask.entries.extend(of(&vault, 4, 0, &[]).entries);
    assert!(vault.charge(&ask).unwrap_err().to_string().starts_with("for region 'Oslo'"));
    vault.verify().unwrap();
}

/// A request that was planned with other cells, or with tables of other people, is charged to all
/// cells.
#[test]
fn cells_that_are_not_the_present_ones_are_all_cells() {
    let vault = with(spend(100, 0));
    let wide = |request: &ChargeRequest| {
        let before = left(&vault);
        assert!(vault.charge(request).is_ok());
        assert!(left(&vault).iter().zip(before).all(|(now, before)| *now == before - 1));
    };
    let touched = |since, column: &str, cells: &[&str]| {
        let mut request = of(&vault, 1, 0, &["Oslo"]);
        let cells = cells.iter().map(|name| cell(name)).collect();
        request.entries[0].cells = Some(Touched { column: column.to_owned(), since, cells });
        request
    };
    wide(&touched(7, "region", &["Oslo"]));
    wide(&touched(0, "city", &["Oslo"]));
    wide(&touched(0, "region", &["Paris"]));
    wide(&touched(0, "region", &[]));
    vault.create_table(&people("bids")).unwrap();
    vault.create_budget(&budget("market", "bids", spend(100, 0))).unwrap();
    let both = ChargeRequest {
        unit_domains: vec!["adult".to_owned(), "bids".to_owned()],
        ..of(&vault, 1, 0, &["Oslo"])
    };
    wide(&both);
    // Another table has a column of the same name, but no cells.
    let others =
        ChargeRequest { unit_domains: vec!["bids".to_owned()], ..of(&vault, 1, 0, &["Oslo"]) };
    assert!(vault.charge(&others).is_ok());
    assert!(vault.entries().unwrap().iter().all(|entry| entry.cells.is_none()));
    assert!(vault.cells_for("market", OWNER).unwrap().is_empty());
    vault.verify().unwrap();
}

/// After a declaration, a person of the most expensive cell may be in any cell.
#[test]
fn every_declaration_of_these_people_folds() {
    type Declare = fn(&Vault);
    let declarations: [(&str, Declare); 9] = [
        ("the same again", |vault| alter(vault, "adult", |_| {}).unwrap()),
        ("another file", |vault| {
            vault.replace_table(&vault.catalog().unwrap(), &people("adult")).unwrap();
        }),
        ("a domain that grows", |vault| {
            alter(vault, "adult", |adult| {
                adult.columns[2] = region(&["Oslo", "Rome", "Pisa", "X"])
            })
            .unwrap();
        }),
        ("another column", |vault| {
            alter(vault, "adult", |adult| adult.columns[1].domain = None).unwrap();
        }),
        ("a table that leads to them", |vault| {
            let mut orders = people("orders");
            orders.privacy = Privacy::Private(Unit::Via(crate::catalog::Link {
                columns: vec!["id".to_owned()],
                table: "adult".to_owned(),
                references: vec!["id".to_owned()],
                max_rows: None,
            }));
            vault.create_table(&orders).unwrap();
        }),
        ("PARTITION BY once more", |vault| partition(vault, "research", "region").unwrap()),
        ("another budget's partition", |vault| {
            vault.create_budget(&budget("second", "adult", spend(100, 0))).unwrap();
            partition(vault, "second", "region").unwrap();
        }),
        ("DROP PARTITION", |vault| {
            vault.drop_partition("research").unwrap();
            partition(vault, "research", "region").unwrap();
        }),
        ("a new budget", |vault| {
            vault.drop_budget("research").unwrap();
            vault.create_budget(&budget("research", "adult", spend(100, 0))).unwrap();
            partition(vault, "research", "region").unwrap();
        }),
    ];
    for (what, declare) in declarations {
        let vault = with(spend(100, 0));
        assert!(charge(&vault, 1, &[]).is_ok());
        assert!(charge(&vault, 20, &["Oslo"]).is_ok());
        assert!(charge(&vault, 5, &["Rome", "other"]).is_ok());
        assert_eq!(left(&vault), [79, 99, 94, 94]);
        declare(&vault);
        assert!(left(&vault).iter().all(|left| *left == 79), "{what}: {:?}", left(&vault));
        assert_eq!(vault.budget("research").unwrap().spent, spend(21, 0), "{what}");
        assert!(charge(&vault, 3, &["other"]).is_ok());
        let after = left(&vault);
        assert_eq!((after.first(), after.last()), (Some(&79), Some(&76)), "{what}");
        assert_eq!(vault.budget("research").unwrap().spent, spend(24, 0), "{what}");
        vault.verify().unwrap();
    }
}

#[test]
fn declarations_of_other_people_fold_nothing() {
    let vault = with(spend(100, 0));
    assert!(charge(&vault, 20, &["Oslo"]).is_ok());
    vault.create_table(&people("bids")).unwrap();
    vault.create_budget(&budget("market", "bids", spend(100, 0))).unwrap();
    partition(&vault, "market", "region").unwrap();
    alter(&vault, "bids", |bids| bids.columns[1].domain = None).unwrap();
    vault.set_budget_limit("research", spend(90, 0), None).unwrap();
    let slice = Slice { analyst: "eve".to_owned(), limit: spend(1, 0) };
    vault.change_slice("research", &SliceChange::Add(slice)).unwrap();
    assert_eq!(left(&vault), [70, 90, 90, 90]);
    let changes: Vec<String> =
        vault.declarations().unwrap().into_iter().map(|entry| entry.change).collect();
    let begin = |change: &&String| change.starts_with("partition of research");
    assert_eq!(
        changes.iter().filter(begin).collect::<Vec<_>>(),
        ["partition of research: by region of adult, cells begin behind entry 0"]
    );
}

#[test]
fn a_partition_is_refused_with_what_to_write() {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&people("adult")).unwrap();
    vault.create_budget(&budget("research", "adult", spend(9, 0))).unwrap();
    let refused = |column: &str, part: &str| {
        let refused = partition(&vault, "research", column).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    };
    refused("city", "no column city");
    refused("id", "is the privacy unit");
    refused("age", "ALTER COLUMN age SET PRIVACY DOMAIN IN (…)");
    let change =
        |change: &dyn Fn(&mut Table)| alter(&vault, "adult", |adult| change(adult)).unwrap();
    change(&|adult| {
        adult.privacy = Privacy::Private(Unit::Column {
            column: "id".to_owned(),
            max_rows: Some(2),
            unique: false,
        });
    });
    refused("region", "SET PRIVACY UNIT (id) UNIQUE");
    change(&|adult| *adult = people("adult"));
    change(&|adult| {
        if let Source::File { fingerprint, .. } = &mut adult.source {
            *fingerprint = None;
        }
    });
    refused("region", "PARTITION BY region once more");
    change(&|adult| adult.source = Source::Registered);
    refused("region", "copy them into a file");
    change(&|adult| *adult = people("adult"));
    change(&|adult| adult.columns[2].data_type = "Float64".to_owned());
    refused("region", "neither a text, an integer, a date nor a boolean");
    change(&|adult| *adult = people("adult"));
    change(&|adult| adult.privacy = Privacy::Private(Unit::Row));
    partition(&vault, "research", "region").unwrap();
    // All budgets of the same people have one partition.
    change(&|adult| adult.columns[1].domain = Some(Domain::In(vec![Some("1".to_owned())])));
    vault.create_budget(&budget("second", "adult", spend(9, 0))).unwrap();
    let other = partition(&vault, "second", "age").unwrap_err().to_string();
    assert!(other.contains("ALTER PRIVACY BUDGET research DROP PARTITION"), "{other}");
    assert!(vault.drop_partition("second").unwrap_err().to_string().contains("has no partition"));
    assert!(matches!(
        vault.drop_partition("nobody"),
        Err(VaultError::Catalog(crate::catalog::CatalogError::UnknownBudget { .. }))
    ));
    vault.verify().unwrap();
}

/// A column can lose what makes it a partition. Then all people are in one cell.
#[test]
fn a_partition_that_is_not_in_effect_has_one_cell() {
    let vault = with(spend(100, 0));
    assert!(charge(&vault, 20, &["Oslo"]).is_ok());
    let stale = of(&vault, 1, 0, &["Rome"]);
    alter(&vault, "adult", |adult| adult.columns[2].domain = None).unwrap();
    assert!(vault.cells_for("research", OWNER).unwrap().is_empty());
    assert!(matches!(vault.charge(&stale), Err(VaultError::Redeclared)));
    let unaware = ChargeRequest { catalog: vault.catalog().unwrap(), ..stale };
    assert!(vault.charge(&unaware).is_ok());
    assert_eq!(vault.budget("research").unwrap().spent, spend(21, 0));
    alter(&vault, "adult", |adult| adult.columns[2] = region(&REGIONS)).unwrap();
    assert_eq!(left(&vault), [79; 4]);
    vault.verify().unwrap();
}

#[test]
fn cells_count_as_their_budget_does() {
    let vault = with(spend(10 * NANO, 100));
    let few = Budget {
        promise: Some(spend(2 * NANO, 1_000)),
        coupon: Some(NANO / 10),
        ..budget("few", "adult", Spend::of_coupons(2, 90))
    };
    vault.create_budget(&few).unwrap();
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(NANO, 100))).unwrap();
    for name in ["few", "curve"] {
        partition(&vault, name, "region").unwrap();
    }
    for cells in [["Oslo"], ["Rome"]] {
        for _ in 0..2 {
            assert!(vault.charge(&of(&vault, 100, 7, &cells)).is_ok());
        }
        let refused = vault.charge(&of(&vault, 100, 7, &cells)).unwrap_err().to_string();
        assert!(refused.contains("budget `few` does not suffice"), "{refused}");
    }
    let states = |name: &str| vault.cells_for(name, OWNER).unwrap();
    let spent: Vec<Spend> = states("few").iter().map(|state| state.spent).collect();
    let two = Spend::of_coupons(2, 14);
    assert_eq!(spent, [two, Spend::of_coupons(0, 0), two, Spend::of_coupons(0, 0)]);
    assert_eq!(states("research")[0].spent, spend(200, 14));
    assert_eq!((states("curve")[0].spent.atto_delta, states("curve")[1].spent.nano), (14, 0));
    // Coupons merge like amounts.
    alter(&vault, "adult", |_| {}).unwrap();
    assert!(states("few").iter().all(|state| state.spent == two));
    assert!(vault.charge(&of(&vault, 1, 0, &["Pisa"])).unwrap_err().is_budget());
    vault.verify().unwrap();
}

#[test]
fn the_cells_of_a_long_ledger_are_read_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let vault = Vault::init(&path).unwrap();
    furnish_cells(&vault, spend(2_000, 0));
    let many = |cells: &[&str]| {
        let one = of(&vault, 1, 0, cells);
        ChargeRequest { entries: std::iter::repeat_n(one.entries[0].clone(), 50).collect(), ..one }
    };
    for round in 0..12 {
        assert!(vault.charge(&many(&[["Oslo"], ["Rome"], ["other"]][round % 3])).is_ok());
        if round == 6 {
            alter(&vault, "adult", |_| {}).unwrap();
        }
    }
    let before = left(&vault);
    assert_eq!(before, [1_800, 1_850, 1_750, 1_750]);
    drop(vault);
    let vault = Vault::open(&path).unwrap();
    assert_eq!(left(&vault), before);
    vault.verify().unwrap();
    // A checkpoint with other cells is damage.
    drop(vault);
    let whole = std::fs::read(&path).unwrap();
    for sql in [
        "UPDATE checkpoint SET cells = replace(cells, 'Oslo', 'Pisa')",
        "UPDATE checkpoint SET cells = '[]'",
    ] {
        std::fs::write(&path, &whole).unwrap();
        damage::alter(&path, sql);
        assert!(Vault::open(&path).is_err(), "{sql}");
    }
}

/// Rows of partitions are sealed with their budget. Cells never begin before merged amounts.
#[test]
fn altered_cells_are_damage() {
    for sql in [
        "UPDATE cell_column SET since = 2",
        "UPDATE cell_column SET column_name = 'age'",
        "UPDATE cell_column SET table_name = 'bids'",
        "DELETE FROM cell_column",
        "DROP TRIGGER ledger_is_never_changed; UPDATE ledger SET cells = NULL WHERE sequence = 1",
        "DROP TRIGGER ledger_is_never_changed; UPDATE ledger SET cells = '[\"region\",0,[\"Rome\"]]' WHERE sequence = 1",
        "DROP TRIGGER ledger_is_never_changed; UPDATE ledger SET cells = 'x' WHERE sequence = 1",
    ] {
        let vault = with(spend(10, 0));
        assert!(charge(&vault, 3, &["Oslo"]).is_ok());
        alter(&vault, "adult", |_| {}).unwrap();
        assert!(charge(&vault, 3, &["Oslo"]).is_ok());
        vault.raw(|connection| connection.execute_batch(sql)).unwrap();
        assert!(vault.budgets().and_then(|_| vault.verify()).is_err(), "{sql}");
    }
    // A valid seal over cells that begin too early.
    let vault = with(spend(10, 0));
    assert!(charge(&vault, 3, &["Oslo"]).is_ok());
    alter(&vault, "adult", |_| {}).unwrap();
    assert!(charge(&vault, 3, &["Oslo"]).is_ok());
    vault
        .raw(|connection| {
            connection.execute_batch(
                "DROP TRIGGER cells_never_begin_earlier; UPDATE cell_column SET since = 0",
            )?;
            crate::catalog::store::reseal_budgets(connection)
                .map_err(|_| rusqlite::Error::InvalidQuery)
        })
        .unwrap();
    assert!(vault.budgets().unwrap_err().to_string().contains("cells"));
}

/// A unit as an adversary would move it: in one cell until a declaration of its table, then in any
/// cell.
struct Person {
    cell: &'static str,
    lost: (i64, i64, i64),
}

/// Random statements, slices, coupons and declarations. Invariant: the loss of each unit, summed
/// over the entries that read it, is within the spent amount that the budget shows for its cell,
/// and within every limit.
#[test]
fn no_unit_loses_more_than_the_limit() {
    const CELLS: [&str; 4] = ["Oslo", "Rome", "Pisa", "other"];
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let (mut paid, mut refused, mut folds) = (0, 0, 0);
    for _ in 0..25 {
        let vault = with(spend(60, 30));
        vault.create_budget(&budget("curve", "adult", Spend::of_rho(60, 30))).unwrap();
        let few = Budget {
            promise: Some(spend(2 * NANO, 1_000)),
            coupon: Some(NANO / 10),
            ..budget("few", "adult", Spend::of_coupons(9, 30))
        };
        vault.create_budget(&few).unwrap();
        let slice = Slice { analyst: "eve".to_owned(), limit: spend(25, 12) };
        vault.change_slice("research", &SliceChange::Add(slice)).unwrap();
        // All moves of a person between declarations: four cells, up to three declarations.
        let mut people: Vec<Person> =
            CELLS.map(|cell| Person { cell, lost: (0, 0, 0) }).into_iter().collect();
        for step in 0..60 {
            if step % 20 == 19 {
                alter(&vault, "adult", |_| {}).unwrap();
                folds += 1;
                let moved = people
                    .iter()
                    .flat_map(|person| CELLS.map(|cell| Person { cell, lost: person.lost }));
                people = moved.collect();
                continue;
            }
            let number = rng.random_range(0..=2);
            let cells: BTreeSet<&str> =
                (0..number).map(|_| CELLS[rng.random_range(0..4)]).collect();
            let cells: Vec<&str> = cells.into_iter().collect();
            let (nano, atto) = (rng.random_range(1..9), rng.random_range(0..4));
            let analyst = ["lab", "eve", "ann"][rng.random_range(0..3)];
            let ask =
                ChargeRequest { analyst: analyst.to_owned(), ..of(&vault, nano, atto, &cells) };
            let quoted = vault.quote(&ask);
            match vault.charge(&ask) {
                Err(error) => {
                    assert!(error.is_budget(), "{error}");
                    assert_eq!(quoted.unwrap_err().to_string(), error.to_string());
                    refused += 1;
                }
                Ok(charge) => {
                    paid += 1;
                    let left: Vec<Spend> = charge.left().iter().map(|(_, left)| *left).collect();
                    let after: Vec<Spend> = quoted
                        .unwrap()
                        .iter()
                        .map(|quote| quote.limit.minus(quote.after))
                        .collect();
                    assert_eq!(left, after);
                    for person in &mut people {
                        if cells.is_empty() || cells.contains(&person.cell) {
                            person.lost.0 += nano;
                            person.lost.1 += atto;
                            person.lost.2 += 1;
                        }
                    }
                }
            }
            check_people(&vault, &people);
        }
        vault.verify().unwrap();
    }
    assert!(paid > 300 && refused > 200 && folds > 60, "{paid} {refused} {folds}");
}

fn check_people(vault: &Vault, people: &[Person]) {
    let states: Vec<Vec<CellState>> =
        ["research", "few"].map(|name| vault.cells_for(name, OWNER).unwrap()).into_iter().collect();
    let at = |states: &[CellState], name: &str| {
        states.iter().find(|state| state.cell == cell(name)).unwrap().spent
    };
    for Person { cell, lost: (nano, atto, releases) } in people {
        let (research, few) = (at(&states[0], cell), at(&states[1], cell));
        assert!(*nano <= research.nano && *atto <= research.atto_delta, "{cell}");
        assert!(*releases <= few.nano && *atto <= few.atto_delta, "{cell}");
        assert!(*nano <= 60 && *atto <= 30 && *releases <= 9, "{cell}");
    }
}

/// An analyst with a slice sees the same of each cell, whatever other analysts do.
#[test]
fn slices_of_cells_do_not_depend_on_others() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let (mut paid, mut refused) = (0, 0);
    for _ in 0..20 {
        let worlds = [with(spend(60, 0)), with(spend(60, 0))];
        for world in &worlds {
            let slice = Slice { analyst: "lab".to_owned(), limit: spend(20, 0) };
            world.change_slice("research", &SliceChange::Add(slice)).unwrap();
        }
        for step in 0..40 {
            for world in &worlds {
                for _ in 0..rng.random_range(0..3) {
                    let cells = [&[][..], &["Oslo"], &["Rome", "other"]][rng.random_range(0..3)];
                    let ask = of(world, rng.random_range(1..8), 0, cells);
                    drop(world.charge(&ChargeRequest { analyst: "eve".to_owned(), ..ask }));
                }
                if step % 15 == 14 {
                    alter(world, "adult", |_| {}).unwrap();
                }
            }
            let cells = [&[][..], &["Oslo"], &["Rome", "Pisa"]][rng.random_range(0..3)];
            let nano = rng.random_range(1..4);
            let seen = worlds.each_ref().map(|world| {
                let outcome = match charge(world, nano, cells) {
                    Ok(charge) => format!("{:?}", charge.left()),
                    Err(error) => error.to_string(),
                };
                let cells = world.cells_for("research", "lab").unwrap();
                format!("{outcome}; {cells:?}; {:?}", world.budgets_for("lab").unwrap())
            });
            assert_eq!(seen[0], seen[1]);
            if seen[0].contains("suffice") { refused += 1 } else { paid += 1 }
        }
        worlds.iter().for_each(|world| assert!(world.verify().is_ok()));
    }
    assert!(paid > 100 && refused > 100, "{paid} {refused}");
}

const CHILD: &str = "HUSHQL_TEST_CELLS";

/// One of the processes below. It spends its analyst's share in each cell and in all cells, in
/// turn, until nothing is left.
#[test]
fn child_with_cells() {
    let Some(of_child) = std::env::var_os(CHILD) else { return };
    let of_child = of_child.into_string().unwrap();
    let (analyst, path) = of_child.split_once('=').unwrap();
    let vault = Vault::open(path).unwrap();
    println!();
    let mut asks = vec![&["Oslo"][..], &["Rome"], &["Pisa", "other"], &[]];
    while !asks.is_empty() {
        asks.retain(|cells| {
            let ask = ChargeRequest { analyst: analyst.to_owned(), ..of(&vault, 1, 0, cells) };
            match vault.charge(&ask) {
                Ok(_) => println!("paid {}", cells.join("+")),
                Err(VaultError::Locked { .. } | VaultError::Redeclared) => {}
                Err(error) => {
                    assert!(error.is_budget(), "{error}");
                    return false;
                }
            }
            std::io::stdout().flush().unwrap();
            true
        });
        check_cells(&vault);
    }
}

/// Checks the sums at this moment: each cell is within the limit, and the shares of each cell cover
/// all of its spending.
fn check_cells(vault: &Vault) {
    for state in vault.cells_for("research", OWNER).unwrap() {
        assert!(state.spent.nano <= 60, "{state:?}");
    }
    for share in vault.budget("research").unwrap().slices {
        assert!(share.spent.nano <= share.limit.nano, "{share:?}");
    }
}

fn start(path: &Path, analyst: &str) -> Child {
    let name = module_path!().split_once("::").unwrap().1;
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{name}::child_with_cells"), "--nocapture"])
        .arg("--test-threads=1")
        .env(CHILD, format!("{analyst}={}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Eight processes (two for each of two slices, four for everyone else) charge while the owner
/// declares the table again. At every moment each cell is within the limit. In the end no one can
/// spend a unit more, and the ledger agrees.
#[test]
fn racing_processes_spend_slices_and_cells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let vault = Vault::init(&path).unwrap();
    furnish_cells(&vault, spend(60, 0));
    for (analyst, limit) in [("lab", 20), ("eve", 15)] {
        let slice = Slice { analyst: analyst.to_owned(), limit: spend(limit, 0) };
        vault.change_slice("research", &SliceChange::Add(slice)).unwrap();
    }
    let analysts = ["lab", "lab", "eve", "eve", "ann", "bob", "joe", "kim"];
    let children = analysts.map(|analyst| (analyst, start(&path, analyst)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let owner = Vault::open(&path).unwrap();
            for _ in 0..3 {
                thread::sleep(std::time::Duration::from_millis(150));
                while alter(&owner, "adult", |_| {}).is_err() {}
                check_cells(&owner);
            }
        });
    });
    let mut paid: BTreeMap<(&str, String), i64> = BTreeMap::new();
    for (analyst, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{analyst}");
        let text = String::from_utf8(output.stdout).unwrap();
        for cells in text.lines().filter_map(|line| line.strip_prefix("paid ")) {
            let analyst = if ["lab", "eve"].contains(&analyst) { analyst } else { "everyone else" };
            *paid.entry((analyst, cells.to_owned())).or_default() += 1;
        }
    }
    check_cells(&vault);
    // Each unit that stays in its cell lost what its share has, and no more.
    let of = |analyst: &str, cells: &str| {
        paid.get(&(analyst, cells.to_owned())).copied().unwrap_or_default()
    };
    for share in &vault.budget("research").unwrap().slices {
        let analyst = match &share.of {
            SliceOf::Analyst(analyst) => analyst.as_str(),
            SliceOf::EveryoneElse => "everyone else",
        };
        assert_eq!(share.spent, share.limit, "{analyst}");
        for cells in ["Oslo", "Rome", "Pisa+other"] {
            assert!(of(analyst, cells) + of(analyst, "") <= share.limit.nano, "{analyst} {cells}");
        }
    }
    assert_eq!(paid.values().sum::<i64>(), i64::try_from(vault.entries().unwrap().len()).unwrap());
    vault.verify().unwrap();
}

/// Nobody knows in which cell somebody is who lost something elsewhere, so it counts in each.
#[test]
fn what_was_spent_elsewhere_counts_in_every_cell() {
    let vault = with(spend(5 * NANO, 0));
    let elsewhere = |nano: i64| Cost::from_amounts(Some((nano, 0)), (0, 0));
    let _ = vault.charge(&of(&vault, 4 * NANO, 0, &["Oslo"])).unwrap();
    for _ in 0..2 {
        vault.set_spent("adult", None, elsewhere(4 * NANO), &[]).unwrap();
        // Those of Rome may have lost 4 elsewhere.
        assert!(vault.charge(&of(&vault, NANO + 1, 0, &["Rome"])).is_err());
        // What was charged to the dearest cell counts for all of them: nothing is missing.
        assert_eq!(vault.entries().unwrap().len(), 1);
    }
    let _ = vault.charge(&of(&vault, NANO / 2, 0, &["Rome"])).unwrap();
    // Less than what counts for everyone begins no new cells.
    let before = vault.catalog().unwrap().cells_of("adult").map(|cells| cells.since);
    vault.set_spent("adult", None, elsewhere(4 * NANO), &[]).unwrap();
    assert_eq!(vault.catalog().unwrap().cells_of("adult").map(|cells| cells.since), before);
    let _ = vault.charge(&of(&vault, NANO, 0, &["Oslo"])).unwrap();
    assert!(vault.charge(&of(&vault, NANO, 0, &["Pisa"])).is_ok());
    vault.set_spent("adult", None, elsewhere(5 * NANO), &[]).unwrap();
    for region in REGIONS {
        assert!(vault.charge(&of(&vault, 1, 0, &[region])).is_err(), "{region}");
    }
    vault.verify().unwrap();
}
