//! Which floors of people bind a query.
//!
//! In: the declarations, the people that a query is about, and the tables that it reads. Out: all
//! floors that bind it, each with the declaration that set it.
//!
//! ```text
//! visits VIA (patient) REFERENCES people(id), a floor on people, one on a budget   →   both
//! ```

use super::Catalog;
use super::privacy_floor::{PrivacyFloor, TableFloor};

/// A floor, and the declaration that set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloorOf {
    /// The floor.
    pub floor: PrivacyFloor,
    /// The declaration, such as `table visits` or `budget study`.
    pub set_by: String,
}

impl Catalog {
    /// The same snapshot with these floors of tables.
    #[must_use]
    pub(crate) fn with_floors(mut self, floors: impl IntoIterator<Item = TableFloor>) -> Self {
        self.floors.extend(floors.into_iter().map(|row| (row.floor_table, row.floor)));
        self
    }

    /// The floor that an owner set for a table.
    pub fn table_floor(&self, table: &str) -> Option<PrivacyFloor> {
        self.floors.get(table).copied()
    }

    /// The floors that bind a query on these people that reads these tables.
    ///
    /// # Guarantee
    /// Those of all budgets that the query is charged to, of all tables that it reads, and of all
    /// tables through which their rows lead to their people. They bind everyone, whether defaults
    /// apply to them or not.
    pub fn floors_of<'a>(
        &'a self,
        unit_domain: &str,
        tables: impl IntoIterator<Item = &'a str>,
    ) -> Vec<FloorOf> {
        let mut floors: Vec<FloorOf> = Vec::new();
        for budget in self.budgets_of(unit_domain) {
            if let Some(floor) = budget.per_query.floor() {
                floors.push(FloorOf { floor, set_by: format!("budget {}", budget.name) });
            }
        }
        for table in tables.into_iter().flat_map(|table| self.way_of(table)) {
            let Some(floor) = self.table_floor(table) else { continue };
            let own = FloorOf { floor, set_by: format!("table {table}") };
            if !floors.contains(&own) {
                floors.push(own);
            }
        }
        floors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Budget, Column, Link, PerQuery, Privacy, Replay, Source, Table, Unit};
    use hushql_privacy::privacy::Spend;

    fn floor(people: u64) -> PrivacyFloor {
        PrivacyFloor { people, atto_beta: PrivacyFloor::DEFAULT_BETA }
    }

    fn table(name: &str, unit: Unit) -> Table {
        let column = |name: &str| Column {
            name: name.to_owned(),
            data_type: "Int64".to_owned(),
            nullable: true,
            domain: None,
            zone: None,
        };
        Table {
            name: name.to_owned(),
            source: Source::Registered,
            privacy: Privacy::Private(unit),
            columns: vec![column("id"), column("person")],
        }
    }

    #[test]
    fn floors_come_from_budgets_and_from_all_tables_on_the_way() {
        let id = || Unit::Column { column: "id".to_owned(), max_rows: None, unique: true };
        let via = Unit::Via(Link {
            columns: vec!["person".to_owned()],
            table: "people".to_owned(),
            references: vec!["id".to_owned()],
            max_rows: Some(3),
        });
        let tables = [table("people", id()), table("visits", via), table("other", id())];
        let budget = Budget {
            name: "b".to_owned(),
            table: "visits".to_owned(),
            limit: Spend::of_epsilon(5, 0),
            promise: None,
            coupon: None,
            per_query: PerQuery { min_units: Some(7), ..PerQuery::default() },
            replay: Replay::All,
        };
        let rows = [("people", 5), ("visits", 9)];
        let rows =
            rows.map(|(table, n)| TableFloor { floor_table: table.to_owned(), floor: floor(n) });
        let catalog = Catalog::new(tables, [budget]).with_floors(rows);
        let of = |domain: &str, tables: &[&str]| {
            let floors = catalog.floors_of(domain, tables.iter().copied());
            floors
                .iter()
                .map(|f| format!("{} {}", f.set_by, f.floor))
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(of("people", &["visits"]), "budget b 7, table visits 9, table people 5");
        assert_eq!(of("people", &["people"]), "budget b 7, table people 5");
        assert_eq!(of("other", &["other"]), "");
        // Whoever must name the costs of queries is bound as well.
        let strict = catalog.clone().without_defaults();
        assert_eq!(strict.floors_of("people", ["people"]).len(), 2);
    }

    #[test]
    fn a_floor_is_at_least_two_people() {
        assert!(floor(2).is_sound() && floor(PrivacyFloor::MOST).is_sound());
        assert!(!floor(1).is_sound() && !floor(PrivacyFloor::MOST + 1).is_sound());
        assert!(!PrivacyFloor { people: 5, atto_beta: 0 }.is_sound());
        let other = PrivacyFloor { people: 5, atto_beta: 10_000_000_000_000_000 };
        assert_eq!((other.to_string(), other.is_sound()), ("5 (beta=0.01)".to_owned(), true));
    }
}
