//! The difference between the declarations that a script makes and those of a vault.
//!
//! In: a vault in memory in which the script was run, and the vault. Out: the statements that bring
//! the vault to what the script says, in an order in which each can be run, and the names of what
//! only the vault has, which stays. Both are compared as declarations, so spelling, order and
//! defaults do not matter. Passwords of existing roles are not compared.
//!
//! ```text
//! script: LIMIT (epsilon=6)      vault: LIMIT (epsilon=5)   →   ALTER PRIVACY BUDGET study SET LIMIT (epsilon=6)
//! ```

use std::collections::BTreeSet;

use crate::catalog::{
    Budget, Catalog, Privacy, Slice, SliceOf, Source, Table, quoted, quoted_analyst,
};
use crate::error::Error;
use crate::exec::source as files;
use crate::instance::Inner;
use crate::ledger::{Elsewhere, Inventory, Role, Spending};
use crate::owner::declaration_script::{
    amount, budget_statement, created, per_query, table_statements,
};
use crate::owner::dump::{spending_statements, tables_in_order, views_in_order};
use crate::owner::{grants, privacy_floors, roles, rules_of_tables};
use crate::privacy::{Cost, Tally};
use crate::views::statement as view_statement;

/// What is to be done, and what stays.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// The statements to run, in order.
    pub(crate) statements: Vec<String>,
    /// Roles to create, whose statements the script has.
    pub(crate) new_roles: BTreeSet<String>,
    /// Grants to give, and rules of roles, once the roles exist.
    pub(crate) grants: Vec<String>,
    /// What only the vault has.
    pub(crate) only_here: Vec<String>,
}

/// Compares what a script declares with a vault.
///
/// # Errors
/// [`Error::Ledger`] when a vault cannot be read.
pub(crate) fn difference(script: &Inner, here: &Inner) -> Result<Difference, Error> {
    let (wanted, present) = (script.vault.inventory()?, here.vault.inventory()?);
    let mut found = Difference::default();
    found.spending(&wanted, &present);
    for (table, others) in tables_in_order(script, &wanted.catalog) {
        found.table(table, &others, &wanted.catalog, &present.catalog);
    }
    for (state, _) in &wanted.budgets {
        found.budget(&state.budget, &wanted.catalog, &present.catalog);
    }
    for view in views_in_order(&wanted.catalog).0 {
        if present.catalog.view(&view.name) != Some(view) {
            found.statements.push(view_statement(view));
        }
    }
    for template in wanted.catalog.templates() {
        if present.catalog.template(&template.name) != Some(template) {
            found.statements.push(template.statement());
        }
    }
    for role in &wanted.roles {
        found.role(role, &wanted, &present);
    }
    for export in wanted.catalog.exports() {
        let folder = export.export_folder.as_str();
        if present.catalog.export_folder(&export.analyst) != Some(folder) {
            found.statements.push(format!(
                "ALTER VAULT SET EXPORT FOLDER '{}' FOR {}",
                folder.replace('\'', "''"),
                quoted_analyst(&export.analyst)
            ));
        }
    }
    let given = [&wanted, &present].map(|one| grants::statements(&one.catalog, |_| true));
    let beside = |all: &[String], others: &[String]| {
        all.iter().filter(|one| !others.contains(one)).cloned().collect::<Vec<String>>()
    };
    found.grants.extend(beside(&given[0], &given[1]));
    found.only_here = only_here(&wanted, &present);
    found.only_here.extend(beside(&given[1], &given[0]));
    Ok(found)
}

impl Difference {
    /// Amounts that the script declares as spent, and names that it joins.
    fn spending(&mut self, wanted: &Inventory, present: &Inventory) {
        for (names, spent) in &wanted.people {
            let known = present.people.iter().find(|(known, _)| names.is_subset(known));
            let is_covered = match known {
                Some((_, known)) => covers(known, spent),
                // A name without charges is in no group.
                None => names.len() == 1 && is_nothing(spent),
            };
            if !is_covered {
                self.statements.extend(spending_statements(&wanted.catalog, names, spent));
            }
        }
    }

    fn table(&mut self, table: &Table, others: &[String], wanted: &Catalog, present: &Catalog) {
        let name = quoted(&table.name);
        let about = |catalog: &Catalog| catalog.about_people(&table.name);
        let set_about = |people: Option<u64>| match people {
            Some(people) => format!("ALTER TABLE {name} SET ABOUT {people} PEOPLE"),
            None => format!("ALTER TABLE {name} DROP ABOUT"),
        };
        let Some(known) = present.table(&table.name) else {
            self.statements.extend(table_statements(table, others));
            self.statements.extend(about(wanted).map(|people| set_about(Some(people))));
            self.floor(&table.name, wanted, present);
            self.rules(&table.name, wanted, present);
            return;
        };
        if created(table) != created(known) {
            if created(&with_strict(table, is_strict(known))) == created(known) {
                let verb = if is_strict(table) { "SET" } else { "DROP" };
                self.statements.push(format!("ALTER TABLE {name} {verb} STRICT"));
            } else {
                let mut all = table_statements(table, others).into_iter();
                let create = all.next().unwrap_or_default();
                self.statements.push(create.replacen(
                    "CREATE EXTERNAL TABLE",
                    "CREATE OR REPLACE EXTERNAL TABLE",
                    1,
                ));
                self.statements.extend(all);
                if about(wanted) != about(present) {
                    self.statements.push(set_about(about(wanted)));
                }
                self.floor(&table.name, wanted, present);
                self.rules(&table.name, wanted, present);
                return;
            }
        }
        // The unit comes after the domains that are dropped, since its column can have none.
        for column in &table.columns {
            let has = known.column(&column.name).is_some_and(|known| known.domain.is_some());
            if has && column.domain.is_none() {
                let column = quoted(&column.name);
                self.statements
                    .push(format!("ALTER TABLE {name} ALTER COLUMN {column} DROP PRIVACY DOMAIN"));
            }
        }
        let same = |column: &crate::catalog::Column| {
            known.column(&column.name).is_some_and(|known| known.domain == column.domain)
        };
        let mut rest = table.clone();
        if rest.privacy == known.privacy {
            rest.privacy = Privacy::Undeclared;
        } else if table.privacy == Privacy::Undeclared {
            self.statements.push(format!("ALTER TABLE {name} DROP PRIVACY UNIT"));
        }
        for column in &mut rest.columns {
            if same(column) {
                column.domain = None;
            }
        }
        let create = usize::from(created(&rest).is_some());
        self.statements.extend(table_statements(&rest, others).into_iter().skip(create));
        if about(wanted) != about(present) {
            self.statements.push(set_about(about(wanted)));
        }
        self.floor(&table.name, wanted, present);
        self.rules(&table.name, wanted, present);
    }

    /// The rules of a table. Those for roles come when the roles exist.
    fn rules(&mut self, table: &str, wanted: &Catalog, present: &Catalog) {
        for (of_role, statement) in rules_of_tables::difference(table, wanted, present) {
            match of_role {
                true => self.grants.push(statement),
                false => self.statements.push(statement),
            }
        }
    }

    /// The floor of people of a table.
    fn floor(&mut self, table: &str, wanted: &Catalog, present: &Catalog) {
        let floor = wanted.table_floor(table);
        if floor != present.table_floor(table) {
            self.statements.push(privacy_floors::statement(table, floor));
        }
    }

    fn budget(&mut self, budget: &Budget, wanted: &Catalog, present: &Catalog) {
        let name = quoted(&budget.name);
        let slices = wanted.slices(&budget.name);
        let column = |catalog: &Catalog| catalog.partition(&budget.name).map(|p| p.column.clone());
        let partition = column(wanted)
            .map(|column| format!("ALTER PRIVACY BUDGET {name} PARTITION BY {}", quoted(&column)));
        let none = Elsewhere::from(Cost::default());
        let nothing =
            Spending { all: none, by: Vec::new(), all_everywhere: none, by_everywhere: Vec::new() };
        let create = budget_statement(budget, slices, &nothing);
        let Some(known) = present.budget(&budget.name) else {
            self.statements.push(create);
            self.statements.extend(partition);
            return;
        };
        if !counts_alike(budget, known) {
            self.statements.push(create.replacen(
                "CREATE PRIVACY BUDGET",
                "CREATE OR REPLACE PRIVACY BUDGET",
                1,
            ));
            self.statements.extend(partition);
            return;
        }
        let mut changes = Vec::new();
        if (budget.limit, budget.promise) != (known.limit, known.promise) {
            let limit = amount(budget.promise.unwrap_or(budget.limit));
            changes.push(format!("ALTER PRIVACY BUDGET {name} SET LIMIT ({limit})"));
        }
        if budget.per_query != known.per_query {
            changes.push(match per_query(budget).as_str() {
                "" => format!("ALTER PRIVACY BUDGET {name} DROP PER QUERY"),
                clause => format!("ALTER PRIVACY BUDGET {name} SET{clause}"),
            });
        }
        let of_slices = slice_changes(&name, slices, present.slices(&budget.name));
        // A limit is raised before its slices, and lowered after them.
        match budget.limit.pays(known.limit) {
            true => changes.extend(of_slices),
            false => changes = of_slices.into_iter().chain(changes.into_iter().rev()).collect(),
        }
        if budget.replay != known.replay {
            let word = budget.replay.word();
            changes.push(format!("ALTER PRIVACY BUDGET {name} SET REPLAY ({word})"));
        }
        if column(wanted) != column(present) {
            let drop = || format!("ALTER PRIVACY BUDGET {name} DROP PARTITION");
            changes.push(partition.unwrap_or_else(drop));
        }
        self.statements.extend(changes);
    }

    fn role(&mut self, role: &Role, wanted: &Inventory, present: &Inventory) {
        let Some(known) = present.roles.iter().find(|known| known.name == role.name) else {
            self.new_roles.insert(role.name.clone());
            return;
        };
        let of = |role: &Role| (role.may_log_in, role.takes_defaults, role.valid_until);
        let [limited, is_limited] =
            [wanted, present].map(|one| one.catalog.grants().is_templates_only(&role.name));
        if of(role) != of(known) || limited != is_limited {
            let limit = (limited != is_limited).then_some(limited);
            self.statements.push(roles::alteration(role, limit));
        }
    }
}

/// True if two budgets are for the same table and count in the same way, so that one can be altered
/// into the other.
fn counts_alike(one: &Budget, other: &Budget) -> bool {
    let of = |budget: &Budget| {
        let is_promised = budget.promise.is_some();
        let has_thresholds = is_promised && budget.limit.atto_delta > 0;
        (budget.limit.notion, is_promised, budget.coupon, has_thresholds)
    };
    one.table == other.table && of(one) == of(other)
}

/// The changes of slices: dropped and lowered ones first.
fn slice_changes(budget: &str, wanted: &[Slice], present: &[Slice]) -> Vec<String> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for slice in present {
        if !wanted.iter().any(|wanted| wanted.analyst == slice.analyst) {
            let analyst = quoted_analyst(&slice.analyst);
            first.push(format!("ALTER PRIVACY BUDGET {budget} DROP SLICE {analyst}"));
        }
    }
    for slice in wanted {
        let (analyst, limit) = (quoted_analyst(&slice.analyst), amount(slice.limit));
        match present.iter().find(|known| known.analyst == slice.analyst) {
            None => last
                .push(format!("ALTER PRIVACY BUDGET {budget} ADD SLICE {analyst} LIMIT ({limit})")),
            Some(known) if known.limit == slice.limit => {}
            Some(known) => {
                let change = format!(
                    "ALTER PRIVACY BUDGET {budget} ALTER SLICE {analyst} SET LIMIT ({limit})"
                );
                if known.limit.pays(slice.limit) { first.push(change) } else { last.push(change) }
            }
        }
    }
    first.into_iter().chain(last).collect()
}

/// True if these amounts, of everyone and of each analyst, are at least those, whatever the cell of
/// a person.
fn covers(known: &Spending, wanted: &Spending) -> bool {
    let is_least = |known: Elsewhere, wanted: Elsewhere| {
        let tallies = known.tally.zip(wanted.tally);
        wanted.cost.beyond(known.cost).is_none()
            && tallies.is_none_or(|(known, wanted): (Tally, Tally)| {
                wanted.releases <= known.releases && wanted.dearest <= known.dearest
            })
    };
    let by = |analyst: &str| {
        let known = known.by_everywhere.iter().find(|(name, _)| name == analyst);
        known.map(|(_, known)| *known)
    };
    is_least(known.all_everywhere, wanted.all)
        && wanted.by.iter().all(|(analyst, wanted)| {
            // An analyst who has no slice here yet is not known by amount.
            by(analyst).is_some_and(|known| is_least(known, *wanted))
        })
}

fn is_nothing(spent: &Spending) -> bool {
    let nothing = |spent: &Elsewhere| spent.cost.is_nothing();
    nothing(&spent.all) && spent.by.iter().all(|(_, spent)| nothing(spent))
}

fn is_strict(table: &Table) -> bool {
    matches!(&table.source, Source::File { options, .. } if files::is_strict(options))
}

fn with_strict(table: &Table, strict: bool) -> Table {
    let mut table = table.clone();
    if let Source::File { options, .. } = &mut table.source {
        files::set_strict(options, strict);
    }
    table
}

/// What only the vault has, in words.
fn only_here(wanted: &Inventory, present: &Inventory) -> Vec<String> {
    let mut only = Vec::new();
    for table in present.catalog.tables().filter(|t| wanted.catalog.table(&t.name).is_none()) {
        only.push(format!("table {}", table.name));
    }
    for budget in present.catalog.budgets() {
        if wanted.catalog.budget(&budget.name).is_none() {
            only.push(format!("budget {}", budget.name));
        }
    }
    for view in present.catalog.views().filter(|v| wanted.catalog.view(&v.name).is_none()) {
        only.push(format!("view {}", view.name));
    }
    for template in present.catalog.templates() {
        if wanted.catalog.template(&template.name).is_none() {
            only.push(format!("template {}", template.name));
        }
    }
    for role in &present.roles {
        if !wanted.roles.iter().any(|wanted| wanted.name == role.name) {
            only.push(format!("role {}", role.name));
        }
    }
    for export in present.catalog.exports() {
        if wanted.catalog.export_folder(&export.analyst).is_none() {
            only.push(format!("export folder of {}", SliceOf::Analyst(export.analyst.clone())));
        }
    }
    only
}
