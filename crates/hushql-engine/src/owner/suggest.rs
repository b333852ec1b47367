//! Drafts of declarations for a table, from the names and types of columns alone.
//!
//! In: the catalog. Out: lines of a script: statements that can be run, and comments where the
//! owner must decide. Nothing here opens a file. A footer, a dictionary or the name of a folder
//! contains values, too. A bound that follows from values could reveal one person's row, so none is
//! drafted.
//!
//! ```text
//! visits: patient BIGINT, age INT, fee DOUBLE
//!   →  ALTER TABLE visits SET PRIVACY UNIT (patient);
//!      ALTER TABLE visits ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
//!      -- ALTER TABLE visits ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN (least, greatest);
//! ```

use std::str::FromStr;

use arrow::datatypes::DataType;

use crate::catalog::{Catalog, Column, Privacy, Table, Unit, quoted};
use crate::visible;

/// Words for people, and for things that act for one of them.
const PEOPLE: [&str; 34] = [
    "account",
    "bidder",
    "borrower",
    "buyer",
    "citizen",
    "client",
    "cust",
    "customer",
    "device",
    "donor",
    "driver",
    "employee",
    "household",
    "individual",
    "member",
    "participant",
    "passenger",
    "patient",
    "patron",
    "payer",
    "person",
    "player",
    "pupil",
    "resident",
    "respondent",
    "rider",
    "staff",
    "student",
    "subject",
    "subscriber",
    "traveller",
    "user",
    "visitor",
    "worker",
];

/// Words that follow the word for a person in the name of a key.
const KEYS: [&str; 8] = ["id", "key", "no", "number", "nr", "uid", "uuid", "code"];

/// The range of a column whose name tells what it holds, whatever its values are.
const RANGES: [(&str, &str, bool); 11] = [
    ("age", "0, 120", false),
    ("month", "1, 12", false),
    ("hour", "0, 23", false),
    ("minute", "0, 59", false),
    ("percent", "0, 100", false),
    ("percentage", "0, 100", false),
    ("pct", "0, 100", false),
    ("latitude", "-90, 90", true),
    ("lat", "-90, 90", true),
    ("longitude", "-180, 180", true),
    ("lon", "-180, 180", true),
];

/// The drafts for a table, one line each.
///
/// # Guarantee
/// They depend only on the names and types of columns, and on the declarations.
pub(crate) fn suggestions(catalog: &Catalog, table: &Table) -> Vec<String> {
    let mut lines = ScriptLines::default();
    lines
        .comment("Drafted from the names and types of columns. Check each line before you run it.");
    let drafted = match &table.privacy {
        Privacy::Public => {
            lines
                .comment(&format!("The table {} is public: it needs no declarations.", table.name));
            return lines.0;
        }
        Privacy::Private(unit) => Some(unit.clone()),
        Privacy::Undeclared => unit(catalog, table),
    };
    let name = quoted(&table.name);
    match &drafted {
        Some(_) if table.unit().is_some() => {}
        Some(unit) => {
            let unit = unit.declaration();
            lines.statement(&format!("ALTER TABLE {name} SET PRIVACY UNIT {unit}"));
            lines.comment("If a person may have n rows at most, whoever they are, add MAX ROWS n.");
        }
        None => {
            lines.comment("No column is named like a person's key. If each row is another person:");
            lines.comment(&format!("ALTER TABLE {name} SET PRIVACY UNIT ROW;"));
            lines.comment("If no row is about a person:");
            lines.comment(&format!("ALTER TABLE {name} SET PUBLIC;"));
        }
    }
    let leads = |column: &Column| {
        catalog
            .referring(&table.name)
            .filter_map(|other| other.unit()?.link())
            .any(|link| link.references.contains(&column.name))
    };
    for column in &table.columns {
        let is_key = drafted.as_ref().is_some_and(|unit| unit.columns().contains(&column.name));
        if column.domain.is_none() && !is_key && !leads(column) {
            domain(&mut lines, &name, column);
        }
    }
    // A table with a link has the budgets of the people that it leads to.
    let people = match drafted.as_ref().and_then(Unit::link) {
        Some(link) => catalog.unit_domain(&link.table).unwrap_or(&link.table),
        None => catalog.unit_domain(&table.name).unwrap_or(&table.name),
    };
    let has_budget = catalog.budgets_of(people).next().is_some()
        || catalog.budgets().any(|budget| budget.table == table.name);
    if drafted.is_some() && !has_budget {
        lines.comment("Decide how much may ever be learnt about one person:");
        let budget = match catalog.budget(&table.name) {
            None => name.clone(),
            Some(_) => quoted(&format!("{}_budget", table.name)),
        };
        lines.statement(&format!("CREATE PRIVACY BUDGET {budget} FOR {name} LIMIT (epsilon=1)"));
    }
    lines.0
}

/// The unit that the name of a column suggests: a link to a table whose unit is declared, or the
/// column itself.
fn unit(catalog: &Catalog, table: &Table) -> Option<Unit> {
    let keys =
        || table.columns.iter().filter(|column| data_type(column).is_some_and(|t| is_key(&t)));
    for target in catalog.tables().filter(|target| target.name != table.name) {
        let Some(Unit::Column { column: id, .. }) = target.unit() else { continue };
        let id_type = &target.column(id)?.data_type;
        let leads = |column: &&Column| {
            column.data_type == *id_type && names_key_of(&column.name, &target.name, id)
        };
        if let Some(column) = keys().find(leads) {
            return Some(Unit::Via(crate::catalog::Link {
                columns: vec![column.name.clone()],
                table: target.name.clone(),
                references: vec![id.clone()],
                max_rows: None,
            }));
        }
    }
    let column = keys().find(|column| person(&column.name).is_some())?.name.clone();
    Some(Unit::Column { column, max_rows: None, unique: false })
}

/// True if a column's name says that it holds the key of a table, as `customer_id` does for
/// `customers(id)`.
pub(crate) fn names_key_of(column: &str, table: &str, key: &str) -> bool {
    let Some(person) = person(column) else { return false };
    column == key || person == singular(&words(table).concat())
}

/// True if values of a type can be the keys of people.
fn is_key(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_string()
}

/// The word for a person in the name of a key: `user` in `user_id`, `userId`, `userid` and `user`.
fn person(name: &str) -> Option<String> {
    let mut words = words(name);
    if words.len() > 1 && words.last().is_some_and(|last| KEYS.contains(&last.as_str())) {
        words.pop();
    }
    let last = words.pop()?;
    let known = |word: &str| {
        let word = singular(word);
        PEOPLE.contains(&word.as_str()).then_some(word)
    };
    known(&last).or_else(|| KEYS.iter().find_map(|key| known(last.strip_suffix(key)?)))
}

fn singular(word: &str) -> String {
    if word == "people" {
        return "person".to_owned();
    }
    word.strip_suffix('s').unwrap_or(word).to_owned()
}

/// The words of a name in lower case: `userId` and `user_id` are `user` and `id`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && before_is_lower);
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before_is_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The domain of a column, or a comment that asks the owner to fill it in.
fn domain(lines: &mut ScriptLines, table: &str, column: &Column) {
    let Some(data_type) = data_type(column) else { return };
    let head =
        format!("ALTER TABLE {table} ALTER COLUMN {} SET PRIVACY DOMAIN", quoted(&column.name));
    let is_fraction = data_type.is_floating();
    let range = RANGES.iter().find(|(word, _, needs_fraction)| {
        words(&column.name).last().is_some_and(|last| last == word)
            && (is_fraction || (data_type.is_integer() && !needs_fraction))
    });
    match (&data_type, range) {
        (DataType::Boolean, _) => lines.statement(&format!("{head} IN (TRUE, FALSE)")),
        (_, Some((_, range, _))) => lines.statement(&format!("{head} BETWEEN ({range})")),
        (DataType::Date32 | DataType::Date64, None) => {
            lines.comment(&format!("{head} BETWEEN (DATE 'first', DATE 'last');"))
        }
        (DataType::Timestamp(..), None) => {
            lines.comment(&format!("{head} BETWEEN (TIMESTAMP 'first', TIMESTAMP 'last');"))
        }
        (number, None) if number.is_numeric() => {
            lines.comment(&format!("{head} BETWEEN (least, greatest);"));
        }
        (text, None) if text.is_string() => lines.comment(&format!("{head} IN ('…', '…');")),
        (_, None) => {}
    }
}

fn data_type(column: &Column) -> Option<DataType> {
    DataType::from_str(&column.data_type).ok()
}

/// Lines of a script.
#[derive(Default)]
struct ScriptLines(Vec<String>);

impl ScriptLines {
    fn statement(&mut self, statement: &str) {
        self.0.push(format!("{statement};"));
    }

    /// A comment ends with its line, whatever a name contains.
    fn comment(&mut self, comment: &str) {
        self.0.push(format!("-- {}", visible::line(comment)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Source;
    use crate::dialect::{Statement, parse, split};

    fn table(name: &str, columns: &[(&str, &str)]) -> Table {
        Table {
            name: name.to_owned(),
            source: Source::Registered,
            privacy: Privacy::Undeclared,
            columns: columns
                .iter()
                .map(|(name, data_type)| Column {
                    name: (*name).to_owned(),
                    data_type: (*data_type).to_owned(),
                    nullable: true,
                    domain: None,
                    zone: None,
                })
                .collect(),
        }
    }

    #[test]
    fn people_are_found_in_names() {
        for (name, found) in [
            ("user_id", Some("user")),
            ("userId", Some("user")),
            ("USERID", Some("user")),
            ("users", Some("user")),
            ("customer number", Some("customer")),
            ("c_custkey", Some("cust")),
            ("patient", Some("patient")),
            ("id", None),
            ("order_id", None),
            ("user_agent", None),
            ("", None),
            ("___", None),
        ] {
            assert_eq!(person(name).as_deref(), found, "{name}");
        }
    }

    #[test]
    fn drafts_follow_from_names_and_types() {
        let visits = table(
            "Visits",
            &[
                ("patient", "Int64"),
                ("age", "Int64"),
                ("lat", "Int8"),
                ("lon", "Float64"),
                ("fee", "Float64"),
                ("ward", "Utf8"),
                ("day", "Date32"),
                ("urgent", "Boolean"),
            ],
        );
        assert_eq!(
            suggestions(&Catalog::new([visits.clone()], []), &visits)[1..],
            [
                "ALTER TABLE \"Visits\" SET PRIVACY UNIT (patient);",
                "-- If a person may have n rows at most, whoever they are, add MAX ROWS n.",
                "ALTER TABLE \"Visits\" ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);",
                "-- ALTER TABLE \"Visits\" ALTER COLUMN lat SET PRIVACY DOMAIN BETWEEN (least, greatest);",
                "ALTER TABLE \"Visits\" ALTER COLUMN lon SET PRIVACY DOMAIN BETWEEN (-180, 180);",
                "-- ALTER TABLE \"Visits\" ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN (least, greatest);",
                "-- ALTER TABLE \"Visits\" ALTER COLUMN ward SET PRIVACY DOMAIN IN ('…', '…');",
                "-- ALTER TABLE \"Visits\" ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN (DATE 'first', DATE 'last');",
                "ALTER TABLE \"Visits\" ALTER COLUMN urgent SET PRIVACY DOMAIN IN (TRUE, FALSE);",
                "-- Decide how much may ever be learnt about one person:",
                "CREATE PRIVACY BUDGET \"Visits\" FOR \"Visits\" LIMIT (epsilon=1);",
            ]
        );
        let customers = Table {
            privacy: Privacy::Private(Unit::Column {
                column: "id".to_owned(),
                max_rows: None,
                unique: true,
            }),
            ..table("customers", &[("id", "Int64")])
        };
        let orders = table("orders", &[("user_id", "Int64"), ("customer_id", "Int64")]);
        let linked = suggestions(&Catalog::new([customers, orders.clone()], []), &orders);
        assert_eq!(
            linked[1],
            "ALTER TABLE orders SET PRIVACY UNIT VIA (customer_id) REFERENCES customers(id);"
        );
    }

    /// A name may contain what SQL reads as the end of a comment, of a statement or of a name.
    #[test]
    fn hostile_names_stay_names() {
        let hostile =
            ["a\nDROP TABLE t; --", "\"; DROP TABLE t; --", "it's", "", "\u{2028}x", "-- y"];
        for name in hostile {
            for data_type in ["Int64", "Utf8", "Boolean"] {
                let table = table("user \"t\"", &[("user", "Int64"), (name, data_type)]);
                let lines = suggestions(&Catalog::new([table.clone()], []), &table);
                let script = lines.join("\n");
                for statement in split(&script).unwrap() {
                    let parsed = parse(statement.text());
                    assert!(matches!(parsed, Ok(Statement::Declare(_))), "{name}: {parsed:?}");
                    assert!(!statement.text().trim_start().starts_with("DROP"), "{name}");
                }
            }
        }
    }
}
