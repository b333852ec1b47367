//! What exists for a reader: the part of the declarations that an analyst may know of.
//!
//! In: all declarations, and the name of an analyst. Out: a [`Catalog`] that has this part alone.
//! This is the one place that decides it. As long as grants are not required, all of it exists for
//! everyone but the roles that are limited to templates.
//!
//! ```text
//! granted: visits, study        people, visits VIA (patient) REFERENCES people(id)   →   nothing: visits names people
//! granted: people, visits, study                                                     →   people, visits, study
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use super::grants::{Granted, Grants};
use super::{Budget, Catalog, View};

/// The names of the declarations that exist for a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    tables: BTreeSet<String>,
    pub(crate) budgets: BTreeSet<String>,
    templates: BTreeSet<String>,
}

impl Catalog {
    /// All grants.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// The same snapshot with these grants.
    #[must_use]
    pub(crate) fn with_grants(mut self, grants: Grants) -> Self {
        self.grants = grants;
        self
    }

    /// All declarations: this snapshot, or those of which it is the visible part.
    pub(crate) fn whole(&self) -> &Self {
        self.whole.as_deref().unwrap_or(self)
    }

    /// True for the part of the declarations that exists for a reader who does not see the whole.
    pub fn is_part(&self) -> bool {
        self.whole.is_some()
    }

    /// True if a budget of the whole does not exist in this part of it. Never true of a whole.
    pub fn hides_budget(&self, budget: &str) -> bool {
        self.whole().budget(budget).is_some() && self.budget(budget).is_none()
    }

    /// The tables, budgets and templates that exist for an analyst; `None` if grants do not limit
    /// them.
    ///
    /// # Guarantee
    /// A table is among them only if it is granted, and so is every table through which its rows
    /// lead to their people, because its unit, its explanations and its charges name these. A
    /// budget is among them only if it is granted, its table is among them, and the same holds of
    /// all other budgets of the same people. A query is charged to all of these, so that nobody is
    /// charged to a budget that does not exist for them. A template is among them only if EXECUTE
    /// on it is granted: then its owner granted this question, whatever it reads. A role that is
    /// limited to templates has nothing else.
    pub(crate) fn sight(&self, reader: &str) -> Option<Sight> {
        let grants = &self.grants;
        if !grants.limits(reader) {
            return None;
        }
        let groups = grants.groups_of(reader);
        let may = |granted: Granted| {
            groups.iter().any(|role| grants.given.contains(&((*role).to_owned(), granted.clone())))
        };
        let mut sight = Sight::default();
        for template in self.templates() {
            if may(Granted::Template(template.name.clone())) {
                sight.templates.insert(template.name.clone());
            }
        }
        if grants.is_templates_only(reader) {
            return Some(sight);
        }
        for table in self.tables() {
            if self.way_of(&table.name).all(|name| may(Granted::Table(name.to_owned()))) {
                sight.tables.insert(table.name.clone());
            }
        }
        let is_usable = |budget: &Budget| {
            sight.tables.contains(&budget.table) && may(Granted::Budget(budget.name.clone()))
        };
        for budget in self.budgets() {
            if self.budgets_of(self.unit_domain_of(budget)).all(is_usable) {
                sight.budgets.insert(budget.name.clone());
            }
        }
        Some(sight)
    }

    /// A table, and those through which its rows lead to their people.
    pub fn way_of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a str> {
        let next = |name: &&'a str| {
            let link = self.table(name)?.unit()?.link()?;
            Some(link.table.as_str())
        };
        // A circle of links is no longer than the tables are many.
        std::iter::successors(Some(table), next).take(self.tables.len().saturating_add(1))
    }

    /// True if an analyst may ask about a table, and be charged for it.
    pub fn is_for(&self, reader: &str, granted: &Granted) -> bool {
        match (self.sight(reader), granted) {
            (None, _) => true,
            (Some(sight), Granted::Table(name)) => sight.tables.contains(name),
            (Some(sight), Granted::Budget(name)) => sight.budgets.contains(name),
            (Some(sight), Granted::Template(name)) => sight.templates.contains(name),
            (Some(_), Granted::Role(name)) => self.grants.may(reader, &Granted::Role(name.clone())),
        }
    }

    /// The part of the declarations that exists for an analyst. `reads` returns the names of the
    /// tables that a view reads, also through other views.
    ///
    /// # Guarantee
    /// Without grants that limit the reader, all of it. Otherwise, every table, budget, template
    /// and view that is left out is absent from every look-up, as if it were not declared; a view
    /// exists only if all tables that it reads do, and if any table does.
    #[must_use]
    pub fn seen_by(
        self: &Arc<Self>,
        reader: &str,
        reads: impl Fn(&View) -> Option<BTreeSet<String>>,
    ) -> Arc<Self> {
        let Some(sight) = self.sight(reader) else { return Arc::clone(self) };
        // A view that reads no table exists for whoever sees any table.
        let sees = |view: &View| {
            let reads = reads(view).is_some_and(|names| names.is_subset(&sight.tables));
            reads && !sight.tables.is_empty()
        };
        let mut part = Self::clone(self);
        part.tables.retain(|name, _| sight.tables.contains(name));
        part.views.retain(|_, view| sees(view));
        part.templates.retain(|name, _| sight.templates.contains(name));
        part.budgets.retain(|name, _| sight.budgets.contains(name));
        part.slices.retain(|budget, _| sight.budgets.contains(budget));
        part.partitions.retain(|budget, _| sight.budgets.contains(budget));
        part.exports.retain(|analyst, _| analyst == reader);
        part.whole = Some(Arc::clone(self));
        Arc::new(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Column, Link, PerQuery, Privacy, Replay, Source, Table, Unit};
    use hushql_privacy::privacy::Spend;

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

    fn budget(name: &str, table: &str) -> Budget {
        Budget {
            name: name.to_owned(),
            table: table.to_owned(),
            limit: Spend::of_epsilon(5, 0),
            promise: None,
            coupon: None,
            per_query: PerQuery::default(),
            replay: Replay::All,
        }
    }

    /// `visits` leads to `people`, which have the budgets `b` and `c`; `other` has `d`.
    fn catalog(given: &[(&str, Granted)]) -> Arc<Catalog> {
        let id = || Unit::Column { column: "id".to_owned(), max_rows: None, unique: true };
        let via = Unit::Via(Link {
            columns: vec!["person".to_owned()],
            table: "people".to_owned(),
            references: vec!["id".to_owned()],
            max_rows: Some(3),
        });
        let tables = [table("people", id()), table("visits", via), table("other", id())];
        let budgets = [budget("b", "people"), budget("c", "visits"), budget("d", "other")];
        let given = given.iter().map(|(role, one)| ((*role).to_owned(), one.clone())).collect();
        let view = |name: &str, reads: &str| View {
            name: name.to_owned(),
            columns: Vec::new(),
            query: reads.to_owned(),
        };
        let catalog = Catalog::new(tables, budgets);
        let catalog = catalog.with_views([view("v", "visits"), view("w", "visits other")]);
        Arc::new(catalog.with_grants(Grants { is_required: true, given, ..Grants::default() }))
    }

    fn seen(given: &[(&str, Granted)], reader: &str) -> String {
        let reads = |view: &View| Some(view.query.split(' ').map(ToOwned::to_owned).collect());
        let part = catalog(given).seen_by(reader, reads);
        let tables = part.tables().map(|table| table.name.as_str());
        let views = part.views().map(|view| view.name.as_str());
        let budgets = part.budgets().map(|budget| budget.name.as_str());
        tables.chain(views).chain(budgets).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_table_is_seen_with_its_way_and_a_budget_with_all_of_its_people() {
        let t = |name: &str| Granted::Table(name.to_owned());
        let b = |name: &str| Granted::Budget(name.to_owned());
        for (given, sees) in [
            (&[][..], ""),
            (&[t("visits")], ""),
            (&[t("people")], "people"),
            (&[t("people"), t("visits")], "people visits v"),
            (&[t("people"), t("visits"), b("b")], "people visits v"),
            (&[t("people"), b("b"), b("c")], "people"),
            (&[t("people"), t("visits"), b("b"), b("c")], "people visits v b c"),
            (&[t("other"), t("visits"), t("people"), b("d")], "other people visits v w d"),
        ] {
            let given: Vec<_> = given.iter().map(|one| ("lab", one.clone())).collect();
            assert_eq!(seen(&given, "lab"), sees, "{given:?}");
            assert_eq!(seen(&given, "eve"), "", "{given:?}");
        }
    }

    #[test]
    fn groups_have_groups_and_no_circles() {
        let group = |name: &str| Granted::Role(name.to_owned());
        let given = [
            ("clinic", Granted::Table("other".to_owned())),
            ("ward", group("clinic")),
            ("eve", group("ward")),
        ];
        for (reader, sees) in [("clinic", "other"), ("ward", "other"), ("eve", "other"), ("x", "")]
        {
            assert_eq!(seen(&given, reader), sees, "{reader}");
        }
        let catalog = catalog(&given);
        let grants = catalog.grants();
        assert!(grants.check_circle("clinic", "eve").is_err());
        assert!(grants.check_circle("clinic", "clinic").is_err());
        assert!(grants.check_circle("x", "eve").is_ok());
        assert_eq!(grants.through("eve", &Granted::Table("other".to_owned())), Some("clinic"));
    }
}
