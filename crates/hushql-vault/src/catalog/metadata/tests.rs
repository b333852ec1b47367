use hushql_privacy::privacy::{Notion, Spend};

use super::*;
use crate::catalog::{Budget, Link, PerQuery, Replay};

fn visits() -> Table {
    let column = |name: &str| Column {
        name: name.to_owned(),
        data_type: "Int64".to_owned(),
        nullable: true,
        domain: None,
        zone: None,
    };
    Table {
        name: "visits".to_owned(),
        source: Source::Registered,
        privacy: Privacy::Private(Unit::Column {
            column: "patient".to_owned(),
            max_rows: Some(20),
            unique: false,
        }),
        columns: vec![column("patient"), column("cost")],
    }
}

#[test]
fn declarations_contradict_themselves() {
    assert!(visits().check().is_ok());
    let reason = |change: fn(&mut Table)| {
        let mut table = visits();
        change(&mut table);
        table.check().unwrap_err().to_string()
    };
    let domain = |values: &[&str]| {
        Some(Domain::In(values.iter().map(|value| Some((*value).to_owned())).collect()))
    };
    assert!(
        reason(|t| t.columns[1].name = "patient".to_owned()).ends_with("two columns `patient`")
    );
    assert!(reason(|t| t.columns[0].name = "id".to_owned()).ends_with("`patient` does not exist"));
    let mut clamped = visits();
    clamped.columns[0].domain = domain(&["1"]);
    assert!(clamped.check().unwrap_err().to_string().ends_with("`patient` has a domain"));
    let mut twice = visits();
    twice.columns[1].domain = domain(&["1", "2", "1"]);
    assert!(twice.check().unwrap_err().to_string().ends_with("has a value twice"));
    twice.columns[1].domain = domain(&[]);
    assert!(twice.check().unwrap_err().to_string().ends_with("has no value"));
    assert!(reason(|t| t.name = "a\nb".to_owned()).contains("a\\nb"));
    assert!(
        reason(|t| {
            t.privacy = Privacy::Private(Unit::Column {
                column: "patient".to_owned(),
                max_rows: Some(0),
                unique: false,
            });
        })
        .ends_with("at least 1")
    );
}

#[test]
fn amounts_contradict_each_other() {
    let budget = |epsilon, delta, per_query| Budget {
        name: "b".to_owned(),
        table: "t".to_owned(),
        limit: Spend::of_epsilon(epsilon, delta),
        promise: None,
        coupon: None,
        per_query,
        replay: Replay::All,
    };
    let none = PerQuery::default();
    assert!(budget(1, 0, none).check().is_ok());
    for (epsilon, delta, per_query) in [
        (0, 0, none),
        (-1, 0, none),
        (1, -1, none),
        (1, 1_000_000_000_000_000_000, none),
        (9, 0, PerQuery { default: Some(0), ..none }),
        (9, 0, PerQuery { max: Some(0), ..none }),
        (9, 0, PerQuery { default: Some(3), max: Some(2), ..none }),
        (9, 0, PerQuery { min: Some(0), ..none }),
        (9, 0, PerQuery { min: Some(3), max: Some(2), ..none }),
        (9, 0, PerQuery { default: Some(2), min: Some(3), ..none }),
        (9, 0, PerQuery { min: Some(10), ..none }),
        (9, 9, PerQuery { default_delta: Some(3), max_delta: Some(2), ..none }),
        (9, 0, PerQuery { default: Some(10), ..none }),
        (9, 0, PerQuery { default_delta: Some(1), ..none }),
        (9, 0, PerQuery { default_rho: Some(1), ..none }),
    ] {
        assert!(budget(epsilon, delta, per_query).check().is_err(), "{per_query:?}");
    }
    let most = PerQuery { max: Some(1_000_000_000), max_delta: Some(1_000_000_000_000), ..none };
    assert_eq!(most.most_text(Notion::Approximate), "ε = 1, δ = 1e-6");
    assert_eq!(most.most_text(Notion::Concentrated), "ρ = 1, δ = 1e-6");
    assert_eq!(none.most_text(Notion::Concentrated), "anything");
    assert!(most.allows(Spend::of_epsilon(1_000_000_000, 0)));
    assert!(!most.allows(Spend::of_epsilon(1_000_000_001, 0)));
    assert!(!most.allows(Spend::of_epsilon(1, 1_000_000_000_001)));
    let least = PerQuery { default: Some(3), min: Some(3), max: Some(3), ..none };
    assert!(budget(9, 0, least).check().is_ok());
    assert!(least.is_reached_by(Spend::of_epsilon(3, 0)));
    assert!(!least.is_reached_by(Spend::of_epsilon(2, 9)));
    assert!(none.is_reached_by(Spend::of_epsilon(1, 0)));
    assert_eq!(least.least(Notion::Concentrated), Some(Spend::of_rho(3, 0)));
    assert_eq!(none.least(Notion::Approximate), None);
}

#[test]
fn concentrated_amounts_contradict_each_other() {
    const NANO: i64 = 1_000_000_000;
    /// tanh(1/2): the cost of an ε of 1.
    const COST: i64 = 462_117_158;
    let budget = |promise, per_query| Budget {
        name: "b".to_owned(),
        table: "t".to_owned(),
        limit: Spend::of_rho(COST, 0),
        promise,
        coupon: None,
        per_query,
        replay: Replay::All,
    };
    let none = PerQuery::default();
    let promise = Some(Spend::of_epsilon(1, 2));
    // The ρ of one more unit of ε would be higher.
    let exactly = PerQuery { default: Some(NANO), ..none };
    assert!(budget(promise, exactly).check().is_ok());
    assert!(budget(promise, PerQuery { min: Some(COST), ..exactly }).check().is_ok());
    assert!(budget(None, PerQuery { default_rho: Some(COST), ..none }).check().is_ok());
    for (promise, per_query) in [
        (None, PerQuery { default: Some(NANO + 1), ..none }),
        (None, PerQuery { default_rho: Some(COST + 1), ..none }),
        (None, PerQuery { default_rho: Some(0), ..none }),
        (None, PerQuery { default: Some(1), default_rho: Some(1), ..none }),
        (None, PerQuery { max: Some(COST - 1), ..exactly }),
        (None, PerQuery { min: Some(COST + 1), ..none }),
        (None, PerQuery { default: Some(NANO / 2), min: Some(NANO / 8 + 1), ..none }),
        (Some(Spend::of_rho(1, 2)), none),
    ] {
        assert!(budget(promise, per_query).check().is_err(), "{per_query:?}");
    }
    let epsilon_budget = Budget { limit: Spend::of_epsilon(1, 0), ..budget(promise, none) };
    assert!(epsilon_budget.check().is_err());
}

#[test]
fn rows_per_unit() {
    let column = |max_rows, unique| Unit::Column { column: "c".to_owned(), max_rows, unique };
    assert_eq!(Unit::Row.max_rows(), Some(1));
    assert_eq!(column(Some(20), false).max_rows(), Some(20));
    assert_eq!(column(Some(20), true).max_rows(), Some(1));
    assert_eq!(column(None, false).max_rows(), None);
}

#[test]
fn json_is_read_back_and_read_strictly() {
    let mut table = visits();
    table.source = Source::File {
        format: FileFormat::Csv,
        location: "/data/visits.csv".to_owned(),
        options: BTreeMap::from([("has_header".to_owned(), "true".to_owned())]),
        fingerprint: Some(Fingerprint {
            size: u64::MAX,
            modified_nanos: i64::MIN,
            changed_nanos: Some(i64::MAX),
            device: Some(1),
            inode: u64::MAX,
            sha256: "00".repeat(32),
            files: None,
            over_lines: false,
        }),
        files: None,
    };
    table.columns[1].domain = Some(Domain::In(vec![None, Some("\u{0}'\"".to_owned())]));
    let text = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table);
    // A table of one file keeps its old stored form.
    assert!(!text.contains("\"files\"") && table.file_columns().len() == table.columns.len());
    let mut many = table.clone();
    let Source::File { files, fingerprint: Some(fingerprint), .. } = &mut many.source else {
        panic!("it has a fingerprint");
    };
    let last = table.columns.last().unwrap().name.clone();
    *files = Some(Box::new(Files {
        pattern: Some("*.csv".to_owned()),
        partitioned_by: vec![last],
        version: None,
    }));
    fingerprint.files = Some("11".repeat(32));
    let of_many = serde_json::to_string(&many).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&of_many).unwrap(), many);
    assert!(!of_many.contains("\"version\"") && many.source.version().is_none());
    let mut of_log = many.clone();
    if let Source::File { files: Some(files), .. } = &mut of_log.source {
        files.version = Some(LakeVersion { number: 7, columns: vec!["id".to_owned()] });
    }
    let text_of_log = serde_json::to_string(&of_log).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&text_of_log).unwrap(), of_log);
    assert_eq!(of_log.source.version().map(|version| version.number), Some(7));
    assert_eq!(many.file_columns().len(), table.columns.len() - 1);
    // An unknown field could declare a protection that this version would not enforce.
    let more = text.replacen('{', "{\"via\":\"customer\",", 1);
    assert!(serde_json::from_str::<Table>(&more).is_err());
}

/// Earlier vaults stored the unit domain at the end of a link. Now it follows from the tables.
#[test]
fn links_of_earlier_vaults_are_read() {
    let link = Link {
        columns: vec!["patient".to_owned()],
        table: "people".to_owned(),
        references: vec!["id".to_owned()],
        max_rows: None,
    };
    let text = serde_json::to_string(&link).unwrap();
    assert!(!text.contains("space"), "{text}");
    let earlier = text.replacen('{', "{\"space\":\"people\",", 1);
    for text in [text.as_str(), earlier.as_str()] {
        assert_eq!(serde_json::from_str::<Link>(text).unwrap(), link);
    }
    let more = text.replacen('{', "{\"via\":\"people\",", 1);
    assert!(serde_json::from_str::<Link>(&more).is_err());
}
