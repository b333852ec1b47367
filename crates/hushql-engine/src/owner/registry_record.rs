//! A budget as a record of the Differential Privacy Deployments Registry.
//!
//! In: what the budget promises, and the day of its declaration. Out: one JSON object with the
//! fields of the registry's schema (docs/registry.md says of which version). What only the owner
//! knows, such as who publishes and what for, is a text in brackets to be filled in.
//!
//! ```text
//! {"url_slug":"study","status":"Draft","tier":3,"deployment":{"basic":{…},"dp_variant":{"variant_name":"Pure DP",…},…}}
//! ```

use chrono::DateTime;
use num_traits::Zero;
use serde_json::{Map, Number, Value, json};

use crate::catalog::describe::limit_text;
use crate::catalog::{Catalog, Source, Unit, quoted};
use crate::error::Error;
use crate::instance::Inner;
use crate::owner::privacy_statement::PrivacyStatement;
use crate::privacy::Notion;

/// The record of a budget, as JSON in several lines.
///
/// # Errors
/// [`Error::Catalog`] if nothing is promised, and [`Error::Ledger`] when the vault cannot be read.
pub(crate) fn record(inner: &Inner, statement: &PrivacyStatement) -> Result<String, Error> {
    if !statement.is_promised {
        let budget = quoted(&statement.state.budget.name);
        return Err(Error::catalog(format!(
            "budget {budget} has nothing to register. {} Write ALTER TABLE … SET PRIVACY UNIT …, or DROP PRIVACY BUDGET {budget}",
            statement.protected
        )));
    }
    let catalog = inner.vault.catalog()?;
    let state = &statement.state;
    let (name, limit) = (&state.budget.name, limit_text(&state.budget));
    let slug: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let deployment = json!({
        "basic": {
            "name": name,
            "data_curators": ["(fill in: who publishes the answers)"],
            "intended_use": "(fill in: what the answers are for)",
            "data_product_type": "SQL queries",
            "data_product_region": "(fill in: the region that the data describe)",
            "description": format!("Answers to SQL queries about {}.", state.budget.table),
            "publication_date": declared_on(inner, name)?,
        },
        "dp_variant": {
            "variant_name": variant(statement),
            "data_domain": data_domain(&catalog, statement),
            "unprotected_quantities": "Declarations: names and types of columns, ranges of values, limits, and facts that were verified on the data (MAX ROWS, UNIQUE). Public tables.",
        },
        "privacy_loss": {
            "privacy_unit": statement.protected,
            "privacy_unit_details": neighbours(&catalog, statement),
            "privacy_parameters": parameters(statement),
            "privacy_parameters_details": format!(
                "Limit of all answers together: {limit}. As (ε, δ), rounded up: {}. Spent when this record was written: {}.",
                statement.most.text(),
                state.spent.neat_up()
            ),
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": "The owner holds the data and declares what is protected. Analysts ask, and are not trusted, also not together.",
            "release_type": "Many releases",
            "release_type_details": "Every answer is charged to a ledger. The limit does not renew. The owner may raise it, which the history of declarations records.",
            "data_source_type": if is_static(&catalog, statement) { "Static" } else { "Dynamic" },
            "access_type": "Interactive",
            "access_type_details": slices(statement),
        },
        "accounting": {
            "post_processing": "Ordering, filtering, rounding and arithmetic on released values, as each query says.",
            "composition": composition(statement),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "(fill in: whether ranges and limits were chosen by looking at the data)",
            "mechanisms": format!(
                "HushQL {}. Discrete Laplace and Gaussian noise, exponential choices and randomized response, drawn exactly with integers and rationals, without floating point. Running times are not hidden.",
                env!("CARGO_PKG_VERSION")
            ),
            "justification": "(fill in: why these limits)",
        },
        "administrative": { "registry_authors": ["(fill in: who wrote this record)"] },
    });
    let record = json!({
        "url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment,
    });
    let mut text = serde_json::to_string_pretty(&record).map_err(|_| Error::Internal)?;
    text.push('\n');
    Ok(text)
}

/// The variant of differential privacy, as the registry names it. Its names know no ρ with a δ.
fn variant(statement: &PrivacyStatement) -> &'static str {
    let budget = &statement.state.budget;
    match (budget.limit.notion, budget.promise) {
        (Notion::Concentrated, None) if budget.limit.atto_delta == 0 => "Zero-concentrated DP",
        (Notion::Concentrated, None) => "Custom",
        (Notion::Approximate | Notion::Concentrated | Notion::Coupons, _) => {
            if statement.most.delta.is_zero() { "Pure DP" } else { "Approximate DP" }
        }
    }
}

/// Which databases are neighbours.
fn neighbours(catalog: &Catalog, statement: &PrivacyStatement) -> String {
    let domain = catalog.unit_domain_of(&statement.state.budget);
    let unit = catalog.table(domain).and_then(|table| table.unit());
    match unit.and_then(Unit::present) {
        None => "Two databases are neighbours if one of them has one privacy unit more, with all of its rows in every table that leads to it (add or remove).".to_owned(),
        Some((person, public)) => {
            let others: String = public.iter().map(|name| format!(", {name}")).collect();
            format!(
                "Two databases are neighbours if they differ in what the row of one person says, except for {person}{others}, which are public: who is in the data is the same (replace one)."
            )
        }
    }
}

/// The parameters of the variant, as numbers.
fn parameters(statement: &PrivacyStatement) -> Value {
    let budget = &statement.state.budget;
    let mut found = Map::new();
    let mut put = |name: &str, text: String| {
        if let Ok(number) = serde_json::from_str::<Number>(&text) {
            found.insert(name.to_owned(), Value::Number(number));
        }
    };
    if (budget.limit.notion, budget.promise) == (Notion::Concentrated, None) {
        let counted = budget.limit.nano.max(statement.state.spent.nano);
        put("rho", crate::privacy::Spend::of_rho(counted, 0).loss_text());
        if budget.limit.atto_delta > 0 {
            put("delta", budget.limit.delta_text());
        }
    } else {
        put("epsilon", statement.most.epsilon_text());
        if !statement.most.delta.is_zero() {
            put("delta", statement.most.delta_text());
        }
    }
    Value::Object(found)
}

/// The day (UTC) of the first declaration of a budget of this name.
fn declared_on(inner: &Inner, budget: &str) -> Result<String, Error> {
    let history = inner.vault.declarations()?;
    let start = format!("budget {budget}: ");
    let first = history.iter().find(|entry| entry.change.starts_with(&start));
    let at = first.map_or(0, |entry| entry.at);
    Ok(DateTime::from_timestamp(at, 0).unwrap_or_default().date_naive().to_string())
}

/// The tables of the budget's people with their columns.
fn data_domain(catalog: &Catalog, statement: &PrivacyStatement) -> String {
    let domain = catalog.unit_domain_of(&statement.state.budget);
    let tables = catalog.tables().filter(|t| catalog.unit_domain(&t.name) == Some(domain));
    let texts: Vec<String> = tables
        .map(|table| {
            let columns: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            format!("{}({})", table.name, columns.join(", "))
        })
        .collect();
    texts.join("; ")
}

/// True if a declaration holds the bytes of every table of these people.
fn is_static(catalog: &Catalog, statement: &PrivacyStatement) -> bool {
    let domain = catalog.unit_domain_of(&statement.state.budget);
    let mut tables = catalog.tables().filter(|t| catalog.unit_domain(&t.name) == Some(domain));
    tables.all(|table| match &table.source {
        Source::File { fingerprint, .. } => fingerprint.is_some(),
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => false,
    })
}

fn slices(statement: &PrivacyStatement) -> String {
    match statement.state.slices.len() {
        0 => "All analysts share the limit. Nothing is assumed about what they tell each other.".to_owned(),
        _ => "Each analyst has at most a slice of the limit. The promise holds for all of them together, whatever they tell each other.".to_owned(),
    }
}

fn composition(statement: &PrivacyStatement) -> &'static str {
    let budget = &statement.state.budget;
    match (budget.limit.notion, budget.promise.is_some()) {
        (Notion::Approximate, _) => "Sequential and adaptive: ε and δ of all charges add up.",
        (Notion::Concentrated, false) => "Sequential and adaptive: ρ and δ of all charges add up.",
        (Notion::Concentrated, true) => {
            "Sequential and adaptive: ρ of all charges adds up, and its sum is converted to ε and δ."
        }
        (Notion::Coupons, _) => {
            "Sequential and adaptive: releases of at most one ε each are counted, and their number is converted to ε and δ."
        }
    }
}
