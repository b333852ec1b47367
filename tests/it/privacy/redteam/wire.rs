//! The same attacks through `hushql serve`: two servers, one of which lacks a person.
//!
//! In: attacks. Out: a report of what went wrong. What the library refuses is refused here, with a
//! SQLSTATE of its kind, at no cost; both servers say the same but for what is drawn; and no cell
//! of the person is in any byte that comes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;

use datafusion::parquet::arrow::ArrowWriter;

use super::file::{self, Attack, Expect, Step};
use super::world::{self, CANARIES};
use crate::contract::program::Study;
use crate::contract::server::client::{Client, Said};
use crate::contract::server::{PASSWORD, Served};
use crate::seed;

/// The analysts who attack.
const ATTACKERS: [&str; 3] = ["lab", "eve", "mallory"];

/// A server with the tables of a catalog.
fn served(catalog: &str, whole: bool) -> Served {
    let study = Study::new();
    let (tables, declarations) = world::declared(catalog, whole);
    let mut sql = String::new();
    for (name, batch) in tables {
        let path = study.path(&format!("{name}.parquet"));
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None);
        writer.as_mut().unwrap().write(&batch).unwrap();
        writer.unwrap().close().unwrap();
        writeln!(sql, "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{name}.parquet';")
            .unwrap();
    }
    if catalog == "present" {
        study.write("survey.csv", world::survey(whole));
        writeln!(sql, "{} 'survey.csv';", world::CREATE_SURVEY).unwrap();
    }
    sql += &declarations.join("\n");
    // Each attack counts on being charged; files that were verified would be replayed.
    for budget in budgets(catalog) {
        writeln!(sql, "\nALTER PRIVACY BUDGET {budget} SET REPLAY (OFF);").unwrap();
    }
    for name in ATTACKERS {
        writeln!(sql, "CREATE ROLE {name} PASSWORD '{PASSWORD}';").unwrap();
    }
    study.owner(&sql).says(0, &[]);
    Served::of(study, &["--owner-socket", "own"])
}

/// The budgets of a catalog.
fn budgets(catalog: &str) -> &'static [&'static str] {
    match catalog {
        "linked" => &["shop", "apart"],
        "odd" => &["odd"],
        "present" => &["panel"],
        _ => &["adult", "users", "orders"],
    }
}

/// Both servers, and who is logged in.
struct Pair {
    served: [Served; 2],
    clients: BTreeMap<String, [Client; 2]>,
}

impl Pair {
    fn new(catalog: &str) -> Self {
        let served = [served(catalog, true), served(catalog, false)];
        Self { served, clients: BTreeMap::new() }
    }

    fn ask(&mut self, who: &str, sql: &str) -> [Said; 2] {
        let served = &self.served;
        let clients = self.clients.entry(who.to_owned()).or_insert_with(|| {
            served.each_ref().map(|served| match who {
                "owner" => Client::of_owner(&served.study.path("own"), served.port).unwrap(),
                _ => Client::log_in(served.port, who, PASSWORD).unwrap(),
            })
        });
        clients.each_mut().map(|client| client.query(sql))
    }

    /// What the owner sees of all budgets.
    fn books(&mut self) -> [String; 2] {
        self.ask("owner", "SHOW PRIVACY BUDGET").map(|said| format!("{:?}", said.rows()))
    }

    fn step(&mut self, step: &Step, wrong: &mut String, label: &str) {
        let mut sql = step.sql.clone();
        // Nor does a budget replay that is made on the way.
        if step.who == "owner" && sql.starts_with("CREATE PRIVACY BUDGET") {
            sql += " REPLAY (OFF)";
        }
        let sql = &sql;
        // A zero ends a text on the wire, and nothing of what is behind it comes.
        if sql.contains('\0') || self.is_of_the_server(sql) {
            return;
        }
        let shown: String = sql.chars().take(300).collect();
        let mut fail = |what: &str| {
            writeln!(wrong, "{label} (line {}): {what}\n    {shown}", step.line).unwrap();
        };
        let before = self.books();
        let said = self.ask(&step.who, sql);
        let after = self.books();
        if after[0] != after[1] {
            fail("charged differently");
        }
        let codes = said.each_ref().map(|said| said.error_field(b'C'));
        // What is drawn may leave a group out, and what is computed of it may fail.
        let is_one = hushql::split_statements(sql)
            .is_ok_and(|all| all.len() == 1 && all[0].text() == sql.trim());
        let seen = said.each_ref().map(|said| seen(said, (&step.expect, is_one), sql));
        if seen[0] != seen[1] {
            fail(&format!("seen differently:\n{}\n{}", seen[0], seen[1]));
        }
        match (&step.expect, codes[0].as_deref()) {
            (Expect::Refuse(kind), Some(code)) => {
                if is_one && step.who != "owner" && !is_of_kind(kind, code) {
                    fail(&format!("refused as {code}: {:?}", said[0].error_field(b'M')));
                }
            }
            // The server takes several statements at once, and tools' words.
            (Expect::Refuse(_), None) if !is_one => {}
            // Files have other types than tables in memory: what the owner may declare of them
            // differs.
            (Expect::Refuse(_), None) if step.who == "owner" => {}
            (Expect::Refuse(_), None) => fail(&format!("answered: {:?}", said[0])),
            (Expect::Fails, Some("58000")) | (Expect::Safe, _) => {}
            (Expect::Fails, code) => fail(&format!("not 58000: {code:?}")),
            (Expect::Answer | Expect::Free | Expect::Done, Some(code)) => {
                fail(&format!("refused as {code}: {:?}", said[0].error_field(b'M')));
            }
            (Expect::Answer | Expect::Free | Expect::Done, None) => {}
        }
        let is_refused = matches!(step.expect, Expect::Refuse(_)) && is_one;
        if (is_refused || step.expect == Expect::Free) && step.who != "owner" && before != after {
            fail("charged");
        }
        if codes.iter().flatten().any(|code| code.starts_with("XX")) {
            fail("an internal error");
        }
        let bytes: Vec<u8> =
            said.iter().flat_map(|said| &said.0).flat_map(|(_, body)| body.clone()).collect();
        let text = String::from_utf8_lossy(&bytes);
        let canary =
            CANARIES.iter().find(|canary| text.contains(**canary) && !sql.contains(**canary));
        if let Some(canary) = canary.filter(|_| step.who != "owner") {
            fail(&format!("told `{canary}`"));
        }
        if step.who != "owner" && text.contains(UNREAD_CELLS) {
            fail("told how many cells cannot be read");
        }
    }

    /// What the server itself answers, where the library refuses: settings, transactions, tools'
    /// questions about the catalog.
    fn is_of_the_server(&self, sql: &str) -> bool {
        let sql = sql.to_lowercase();
        let begins = [
            "set ",
            "begin",
            "commit",
            "rollback",
            "start ",
            "show ",
            "reset",
            "discard",
            "declare ",
            "fetch",
            "prepare ",
            "deallocate",
            "copy ",
            "savepoint",
            "release ",
        ];
        let names = ["information_schema", "pg_", "version()", "current_user"];
        begins.iter().any(|begin| sql.trim_start().starts_with(begin))
            || names.iter().any(|name| sql.contains(name))
    }
}

/// What the owner's notice about cells that cannot be read contains.
const UNREAD_CELLS: &str = " cells of ";

/// What both servers have to say alike: everything but numbers that are drawn, and texts that hold
/// them.
fn seen(said: &Said, (expect, is_one): (&Expect, bool), sql: &str) -> String {
    let is_drawn = match expect {
        Expect::Free | Expect::Done => false,
        // Of several statements, some may be answered before one is refused.
        Expect::Refuse(_) => !is_one,
        Expect::Safe | Expect::Answer | Expect::Fails => true,
    };
    let groups_are_drawn =
        sql.contains("delta") || sql.contains("HAVING") || *expect == Expect::Safe;
    let mut seen = String::new();
    for (kind, body) in &said.0 {
        match kind {
            // The number of an entry, a time, a cost that was left.
            b'D' if is_drawn && groups_are_drawn => {}
            b'C' if is_drawn && groups_are_drawn => {}
            b'D' if is_drawn => seen.push('D'),
            // How accurate a mean is follows from what was drawn, and whether that is told.
            b'N' if is_drawn => {}
            // What cannot be read is for the owner alone.
            b'N' if String::from_utf8_lossy(body).contains(UNREAD_CELLS) => {}
            _ => write!(seen, "{}{}", char::from(*kind), String::from_utf8_lossy(body)).unwrap(),
        }
    }
    seen
}

/// Whether a SQLSTATE is of the kind as which the library refuses.
fn is_of_kind(kind: &str, code: &str) -> bool {
    match kind {
        "any" => true,
        "syntax" => code == "42601",
        "bind" => code.starts_with("42"),
        "budget" => code == "53400",
        "catalog" => code.starts_with("42") || code == "22023" || code == "55000",
        // Declarations of analysts, and a statement that nobody prepared.
        "HQ003" => [kind, "42501", "42601", "26000"].contains(&code),
        _ => code == kind,
    }
}

fn run(attacks: &[Attack]) -> String {
    let mut wrong = String::new();
    let mut shared: BTreeMap<String, Pair> = BTreeMap::new();
    for attack in attacks {
        let mut alone;
        let pair = if attack.alone {
            alone = Pair::new(&attack.catalog);
            &mut alone
        } else {
            shared.entry(attack.catalog.clone()).or_insert_with(|| Pair::new(&attack.catalog))
        };
        for step in &attack.steps {
            pair.step(step, &mut wrong, &attack.title);
        }
    }
    wrong
}

/// The attacks of all families; of the sample, one of so many.
fn attacks(one_of: usize) -> Vec<Attack> {
    let mut all = Vec::new();
    for family in super::FAMILIES {
        for mut attack in file::read(family) {
            attack.title = format!("{family}, {}", attack.title);
            all.push(attack);
        }
    }
    let at = seed::turn(one_of);
    let sampled = all.into_iter().enumerate().filter(|(number, _)| number % one_of == at);
    sampled.map(|(_, attack)| attack).collect()
}

#[test]
fn attacks_fail_on_the_wire() {
    let wrong = run(&attacks(12));
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
#[ignore = "long: two minutes"]
fn all_attacks_fail_on_the_wire() {
    let wrong = run(&attacks(1));
    assert!(wrong.is_empty(), "{wrong}");
}
