//! The red team: tests/redteam, one file for each family of attack, and one test for each file.
//!
//! Every attack runs on two neighbouring databases, one of which lacks a person. What is refused is
//! refused with the same bytes on both, reads nothing and charges nothing; what is answered has the
//! same columns on both and costs the same; and no cell of that person is found in anything that
//! the engine says. See [`file`] for how attacks are written, [`world`] for the databases, and
//! [`live`] for attacks that no text can say.

mod attack;
mod corpus;
mod file;
mod live;
#[cfg(all(unix, feature = "serve"))]
mod wire;
mod world;

use std::collections::BTreeSet;

/// Runs a family, and fails with everything that went wrong.
async fn family(name: &str) {
    let attacks = file::read(name);
    assert!(attacks.len() >= 8, "{name}: {} attacks", attacks.len());
    let wrong = attack::run(&attacks).await;
    assert!(wrong.is_empty(), "{name}:\n{wrong}");
}

/// An attack for other tests: the catalog, whether it is alone, and who says what.
pub(crate) type Told = (String, bool, Vec<(String, String)>);

/// The attacks of a family.
pub(crate) fn attacks(family: &str) -> Vec<Told> {
    let attacks = file::read(family).into_iter().map(|attack| {
        let steps = attack.steps.into_iter().map(|step| (step.who, step.sql)).collect();
        (attack.catalog, attack.alone, steps)
    });
    attacks.collect()
}

/// The engine of a catalog, for other tests.
pub(crate) async fn database(catalog: &str) -> hushql::Engine {
    world::Database::new(catalog, true).await.engine
}

macro_rules! families {
    ($($name:ident),* $(,)?) => {
        const FAMILIES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[tokio::test]
            async fn $name() {
                family(stringify!($name)).await;
            }
        )*
    };
}

families! {
    rows, aggregates, keys, thresholds, choices, failures, functions, parameters, joins, subqueries, links, people,
    windows, numbers, types, statements, looking, ledger, optimizer, budgets, names, sizes, owners, views, ranges,
    honest, floors, table_rules, presence,
}

/// Each file is run, tells its story, and names the modules that stop it.
#[test]
fn every_family_is_told() {
    let folder = file::folder();
    let mut found = BTreeSet::new();
    let mut attacks = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let story: String =
            text.lines().take_while(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        assert!(story.contains("# Wrong elsewhere:"), "{name} has no story");
        let (_, stopped) = story.split_once("# Stopped by:").unwrap_or_else(|| panic!("{name}"));
        let modules: Vec<_> = stopped
            .split(|c: char| c.is_whitespace() || ",;()".contains(c))
            .filter(|word| word.starts_with("src/") || word.starts_with("crates/"))
            .map(|word| word.trim_end_matches('.'))
            .collect();
        assert!(!modules.is_empty(), "{name} names no module");
        for module in modules {
            let module = module.strip_suffix('/').unwrap_or(module);
            let path = folder.join("../..").join(module);
            assert!(path.exists(), "{name}: there is no {module}");
        }
        attacks += file::parse(&text).len();
        found.insert(name);
    }
    let run: BTreeSet<_> = FAMILIES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, run);
    assert!(attacks >= 440, "{attacks} attacks");
}

/// Attacks may name the person by `@name` and the like; written out, a canary would not be looked
/// for.
#[test]
fn canaries_are_not_written_out() {
    for family in FAMILIES {
        let path = file::folder().join(format!("{family}.txt"));
        let text = std::fs::read_to_string(&path).unwrap();
        for canary in world::CANARIES {
            assert!(!text.contains(canary), "{family}: {canary}");
        }
    }
}
