//! Owners' rules: what queries may do with columns.
//!
//! In: the rules that bind an analyst, and the uses of a query. Out: nothing, or a refusal that
//! names the rule. All rules of all tables that a query reads hold at once. They follow from the
//! statement and the declarations alone, and add nothing to what privacy is promised.
//!
//! ```text
//! no_key=(zip)                 zip is no key, and no value of it is chosen or shown
//! no_filter=(diagnosis)        diagnosis decides nothing, and joins nothing
//! join_only=(region_id)        region_id joins rows, and does nothing else
//! aggregates=(count, laplace)  COUNT behind LAPLACE
//! ```

use std::collections::{BTreeMap, BTreeSet};

use datafusion::logical_expr::LogicalPlan;

use super::column_uses::{CallUse, ColumnUse, TableColumn, UseKind, Uses};
use super::release_uses::{uses_as_written, uses_of_releases, uses_of_rows};
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::analysis::outcome::Analysis;
use crate::bind::Bound;
use crate::catalog::{Catalog, TableRules, quoted};
use crate::dialect::{MechanismName, OTHER_RELEASES};
use crate::refusal::{Reason, Refusal};

/// The rules that bind an analyst, by table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindingRules(BTreeMap<String, Vec<TableRules>>);

impl BindingRules {
    /// The rules of all tables that bind an analyst: those for everyone, and those for its role and
    /// its groups.
    pub fn of(catalog: &Catalog, analyst: &str) -> Self {
        let own = |table: &str| catalog.rules_for(table, analyst).cloned().collect::<Vec<_>>();
        let all = catalog.tables().filter(|table| table.unit().is_some());
        let all = all.map(|table| (table.name.clone(), own(&table.name)));
        Self(all.filter(|(_, rules)| !rules.is_empty()).collect())
    }

    /// True if no rule binds.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules of some tables, each with its table.
    pub(crate) fn of_tables<'a>(
        &'a self,
        tables: impl IntoIterator<Item = &'a String>,
    ) -> Vec<(&'a str, &'a TableRules)> {
        let names: BTreeSet<&String> = tables.into_iter().collect();
        let bound = self.0.iter().filter(|(table, _)| names.contains(table));
        bound
            .flat_map(|(table, all)| all.iter().map(move |rules| (table.as_str(), rules)))
            .collect()
    }

    /// The columns that may do nothing but join.
    fn join_only(&self) -> BTreeSet<TableColumn> {
        let columns = |table: &String, rules: &TableRules| {
            let of = |column: &String| TableColumn { table: table.clone(), column: column.clone() };
            rules.join_only.iter().map(of).collect::<Vec<_>>()
        };
        let all = self.0.iter().flat_map(|(table, all)| all.iter().map(move |one| (table, one)));
        all.flat_map(|(table, rules)| columns(table, rules)).collect()
    }

    /// Refuses a query whose releases do what a rule forbids.
    ///
    /// # Errors
    /// The refusal, which names the rule; a fault, if the analysis let something pass that nobody
    /// followed.
    pub fn check_releases(
        &self,
        analysis: &Analysis,
        catalog: &Catalog,
    ) -> Result<(), NotAnalyzed> {
        match self.is_empty() {
            true => Ok(()),
            false => Ok(self.check(&uses_of_releases(analysis, catalog, &self.join_only())?)?),
        }
    }

    /// Refuses the rows of a synthetic table that do what a rule forbids.
    ///
    /// # Errors
    /// As [`Self::check_releases`].
    pub(crate) fn check_rows(
        &self,
        plan: &LogicalPlan,
        catalog: &Catalog,
    ) -> Result<(), NotAnalyzed> {
        match self.is_empty() {
            true => Ok(()),
            false => Ok(self.check(&uses_of_rows(plan, catalog, &self.join_only())?)?),
        }
    }

    /// The refusal by a rule of a query that the analysis refuses as well; `None` if no rule is
    /// known to forbid it.
    pub(crate) fn refusal_as_written(&self, bound: &Bound, catalog: &Catalog) -> Option<Refusal> {
        if self.is_empty() {
            return None;
        }
        let uses = uses_as_written(bound, catalog, &self.join_only()).ok()?;
        self.check(&uses).err()
    }

    /// Refuses uses that a rule forbids.
    fn check(&self, uses: &Uses) -> Result<(), Refusal> {
        for own in &uses.columns {
            for rules in self.0.get(&own.column.table).into_iter().flatten() {
                check_column(rules, own)?;
            }
        }
        for call in &uses.calls {
            for table in &call.tables {
                for rules in self.0.get(table).into_iter().flatten() {
                    check_call(rules, table, call)?;
                }
            }
        }
        Ok(())
    }
}

/// True if a rule forbids a use of its columns.
fn forbids(rule: &str, kind: UseKind) -> bool {
    match kind {
        UseKind::Key | UseKind::Choice | UseKind::Bounds => rule != "no_filter",
        UseKind::Condition => rule != "no_key",
        UseKind::Join => rule == "no_filter",
        UseKind::Argument => rule == "join_only",
    }
}

fn check_column(rules: &TableRules, own: &ColumnUse) -> Result<(), Refusal> {
    let TableColumn { table, column } = &own.column;
    for (rule, columns) in rules.of_columns() {
        if columns.contains(column) && forbids(rule, own.kind) {
            return Err(refused_column(rules, rule, table, column, own));
        }
    }
    Ok(())
}

fn refused_column(
    rules: &TableRules,
    rule: &str,
    table: &str,
    column: &str,
    own: &ColumnUse,
) -> Refusal {
    let does = match own.kind {
        UseKind::Key => "is a key here",
        UseKind::Choice => "is shown or chosen here",
        UseKind::Condition => "decides here which rows or values count",
        UseKind::Join => "joins rows here",
        UseKind::Argument => "is added up or counted here",
        UseKind::Bounds => "has no range, so that its bounds are found and shown here",
    };
    let mut hint = format!("{} without {column} in this place", sample(rules, table));
    if own.kind == UseKind::Bounds {
        hint =
            format!("CLAMP({column}, 0, 100) in place of {column}, with ends that anyone may know");
    }
    let message = format!(
        "the rule {rule}=({column}) of table {table} for {}: {column} {does}",
        rules.audience()
    );
    Refusal::new(Reason::Rule, &own.text, message, hint)
}

/// A query that the rules of a table allow, as far as aggregates and mechanisms go.
fn sample(rules: &TableRules, table: &str) -> String {
    let (releases, mechanisms) = split(rules);
    let mechanism =
        match mechanisms.iter().find(|name| ["laplace", "gaussian", "auto"].contains(*name)) {
            Some(name) => name.to_uppercase(),
            None => "LAPLACE".to_owned(),
        };
    let counts = releases.is_empty() || releases.contains(&"count");
    match counts {
        true => format!("SELECT {mechanism}(eps=1) COUNT(*) FROM {}", quoted(table)),
        false => format!("a query of {}", releases.join(", ")),
    }
}

/// What rules allow: aggregates and other releases, and mechanisms.
fn split(rules: &TableRules) -> (Vec<&str>, Vec<&str>) {
    let responds = MechanismName::RandomizedResponse.to_string().to_lowercase();
    let is_mechanism = |name: &&str| {
        *name != responds && MechanismName::parse(name).is_some() && !OTHER_RELEASES.contains(name)
    };
    let (mechanisms, releases) =
        rules.aggregates.iter().map(String::as_str).partition(is_mechanism);
    (releases, mechanisms)
}

fn check_call(rules: &TableRules, table: &str, call: &CallUse) -> Result<(), Refusal> {
    if rules.aggregates.is_empty() {
        return Ok(());
    }
    let (releases, mechanisms) = split(rules);
    let is_response = call.name == MechanismName::RandomizedResponse.to_string().to_lowercase();
    let is_listed = releases.contains(&call.name.as_str());
    // A list of mechanisms alone allows all aggregates behind them, and nothing else.
    let is_own = is_response || call.name == "synthetic";
    let may_be_asked = is_listed || releases.is_empty() && !is_own;
    let may_be_released = is_own
        || mechanisms.is_empty()
        || call.mechanism.as_deref().is_none_or(|own| mechanisms.contains(&own));
    if may_be_asked && may_be_released {
        return Ok(());
    }
    let what = match (may_be_asked, call.mechanism.as_deref()) {
        (true, Some("auto")) => "a mechanism that the engine chooses".to_owned(),
        (true, Some(mechanism)) => mechanism.to_uppercase(),
        (false, _) | (true, None) => match call.name.as_str() {
            "synthetic" => "a synthetic table".to_owned(),
            name => name.to_uppercase(),
        },
    };
    let message = format!(
        "the rule aggregates=({}) of table {table} for {} does not list {what}",
        rules.aggregates.join(", "),
        rules.audience()
    );
    Err(Refusal::new(Reason::Rule, &call.text, message, sample(rules, table)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, mechanism: Option<&str>) -> CallUse {
        CallUse {
            name: name.to_owned(),
            mechanism: mechanism.map(ToOwned::to_owned),
            tables: BTreeSet::from(["t".to_owned()]),
            text: "this".to_owned(),
        }
    }

    #[test]
    fn aggregates_and_mechanisms_are_lists_of_what_is_allowed() {
        for (list, name, mechanism, is_allowed) in [
            ("count avg", "count", Some("laplace"), true),
            ("count avg", "count", Some("auto"), true),
            ("count avg", "sum", Some("laplace"), false),
            ("count avg", "sum", None, false),
            ("count avg", "argmax", Some("exponential"), false),
            ("count avg", "synthetic", None, false),
            ("count avg", "randomized_response", Some("randomized_response"), false),
            ("count laplace", "count", Some("laplace"), true),
            ("count laplace", "count", Some("auto"), false),
            ("count laplace", "count", None, true),
            ("count laplace", "avg", Some("laplace"), false),
            ("laplace", "avg", Some("laplace"), true),
            ("laplace", "avg", Some("gaussian"), false),
            ("laplace", "synthetic", None, false),
            ("laplace", "randomized_response", Some("randomized_response"), false),
            ("auto", "avg", Some("auto"), true),
            ("argmax", "argmax", Some("noisy_max"), true),
            ("synthetic", "synthetic", None, true),
            ("synthetic", "count", Some("laplace"), false),
            ("randomized_response", "randomized_response", Some("randomized_response"), true),
        ] {
            let aggregates = list.split(' ').map(ToOwned::to_owned).collect();
            let rules = BindingRules(
                [("t".to_owned(), vec![TableRules { aggregates, ..TableRules::default() }])].into(),
            );
            let uses = Uses { columns: Vec::new(), calls: vec![call(name, mechanism)] };
            assert_eq!(rules.check(&uses).is_ok(), is_allowed, "{list}: {name} {mechanism:?}");
        }
    }

    #[test]
    fn each_rule_forbids_its_uses() {
        use UseKind::{Argument, Bounds, Choice, Condition, Join, Key};
        for (rule, forbidden) in [
            ("no_key", &[Key, Choice, Bounds][..]),
            ("no_filter", &[Condition, Join]),
            ("join_only", &[Key, Choice, Bounds, Condition, Argument]),
        ] {
            for kind in [Key, Choice, Bounds, Condition, Join, Argument] {
                assert_eq!(forbids(rule, kind), forbidden.contains(&kind), "{rule} {kind:?}");
            }
        }
    }
}
