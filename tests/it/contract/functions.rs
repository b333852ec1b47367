//! The table of aggregates and window functions in grammar.md is held to what the engine does.
//!
//! Every aggregate and window function that the engine knows has one line. What each line says is
//! asked of the built-in table `orders`, with several argument lists; nothing is paid, because
//! questions are prepared only.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::SessionStateDefaults;
use hushql::{Engine, Session};
use hushql_engine::dialect::AggregateName;

const ARGUMENTS: [&str; 11] = [
    "",
    "*",
    "price",
    "qty",
    "qty > 1",
    "product",
    "price, qty",
    "price, 0.5",
    "0.5, price",
    "qty, 1",
    "4",
];

/// All names, with those that other databases use.
fn names() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = AggregateName::names().map(str::to_lowercase).collect();
    for function in SessionStateDefaults::default_aggregate_functions() {
        names.insert(function.name().to_lowercase());
        names.extend(function.aliases().iter().map(|alias| alias.to_lowercase()));
    }
    for function in SessionStateDefaults::default_window_functions() {
        names.insert(function.name().to_lowercase());
        names.extend(function.aliases().iter().map(|alias| alias.to_lowercase()));
    }
    names.extend(["histogram", "mode", "rr_count"].map(str::to_owned));
    names
}

/// The lines of the table: the names, and what is said of them.
fn table(text: &str) -> BTreeMap<String, [String; 3]> {
    let lines = text.lines().skip_while(|line| !line.starts_with("| function | across people"));
    let lines = lines.skip(2).take_while(|line| line.starts_with('|'));
    let mut table = BTreeMap::new();
    let mut last = String::new();
    for line in lines {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [named, across, grouped, over, _] = cells[..] else { panic!("{line}") };
        let first = named.split('`').nth(1).unwrap_or_default().to_owned();
        assert!(last < first, "{first} is behind {last}");
        last = first;
        for name in named.split(", ") {
            let name = name.trim_matches('`').to_lowercase();
            let said = [across, grouped, over].map(str::to_owned);
            assert!(table.insert(name.clone(), said).is_none(), "{name} has two lines");
        }
    }
    table
}

fn any(session: &Session, mut questions: impl Iterator<Item = String>) -> bool {
    questions.any(|sql| session.prepare(&sql).is_ok())
}

/// What the engine does with a function: of rows of many people, of one person's rows, and in a
/// window over these.
fn found(session: &Session, name: &str) -> [String; 3] {
    let calls = || ARGUMENTS.iter().map(|arguments| format!("{name}({arguments})"));
    let release = |mechanism: &'static str| {
        calls().map(move |call| format!("SELECT {mechanism}(eps=1) {call} AS v FROM orders"))
    };
    let across = if any(session, release("LAPLACE")) {
        "number"
    } else if any(session, release("EXPONENTIAL")) {
        "choice"
    } else {
        "refused"
    };
    let grouped = calls().map(|call| {
        let inner = format!("SELECT user_id, {call} AS v FROM orders GROUP BY user_id");
        format!("SELECT LAPLACE(eps=1, rows=1) COUNT(v) FROM ({inner}) AS x")
    });
    let over = calls().flat_map(|call| {
        ["", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"].map(|frame| {
            let window = format!("OVER (PARTITION BY user_id ORDER BY ts{frame})");
            let inner = format!("SELECT user_id, {call} {window} AS v FROM orders");
            format!("SELECT LAPLACE(eps=1, rows=1) COUNT(v) FROM ({inner}) AS x")
        })
    });
    let answered = |is: bool| if is { "yes" } else { "refused" };
    let (grouped, over) = (any(session, grouped), any(session, over));
    [across, answered(grouped), answered(over)].map(str::to_owned)
}

#[test]
fn the_table_of_functions_is_true() {
    let grammar = concat!(env!("CARGO_MANIFEST_DIR"), "/grammar.md");
    let table = table(&std::fs::read_to_string(grammar).unwrap());
    let engine = Engine::demo().unwrap();
    let session = engine.analyst("reader").unwrap();
    let mut wrong = Vec::new();
    for name in names() {
        let found = found(&session, &name);
        match table.get(&name) {
            Some(said) if *said == found => {}
            Some(said) => wrong.push(format!("{name}: {said:?}, but {found:?}")),
            None => wrong.push(format!("{name} has no line: {found:?}")),
        }
    }
    for name in table.keys().filter(|name| !names().contains(*name)) {
        wrong.push(format!("{name} is no function"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
