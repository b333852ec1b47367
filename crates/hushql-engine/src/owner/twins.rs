//! Checks the declarations of tables that contain the same rows.
//!
//! In: a table that is about to become private or public. Out: nothing, or a refusal. One file
//! under two names would have two budgets for the same people, and a public table with the rows of
//! a private one would reveal them. So tables with equal rows must share a unit domain, or the
//! owner must declare that they are about other people. Files are compared by path, inode and
//! bytes, registered tables by their provider, and tables of a server by its address and their
//! names.
//!
//! ```text
//! visits (private), copy.csv (the same bytes)   →   ALTER TABLE copy SET PUBLIC                      refused
//!                                                   ALTER TABLE copy SET PRIVACY UNIT (patient)      refused, without
//!                                                                              OTHER PEOPLE THAN visits
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;

use crate::catalog::{Catalog, Privacy, Source, Table, Unit, quoted};
use crate::error::Error;
use crate::exec::source::duplicate_tables::{Same, same_rows};
use crate::exec::source::server_location::is_same_table;

/// The registered tables of a program, by name.
pub(super) type Providers = HashMap<String, Arc<dyn TableProvider>>;

/// Another table with the same rows.
struct Twin<'a> {
    table: &'a Table,
    /// The evidence, for a sentence.
    how: String,
}

/// Refuses to make a table private if another table shows the same rows, or counts them for other
/// people.
pub(super) fn may_be_private(
    providers: &Providers,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
    other_people: &[String],
) -> Result<(), Error> {
    let unit_domain = match unit {
        Unit::Row | Unit::Column { .. } | Unit::Month { .. } | Unit::Present { .. } => {
            Some(table.name.as_str())
        }
        Unit::Via(link) => catalog.unit_domain(&link.table),
    };
    let mut counted_twice = Vec::new();
    for twin in twins(providers, catalog, table) {
        let Twin { table: other, how } = &twin;
        if other.is_public() {
            let name = quoted(&other.name);
            return Err(Error::catalog(format!(
                "{how}, and {0} is public, so anyone can read these private rows there: write ALTER TABLE {name} DROP PRIVACY UNIT, or DROP TABLE {name}, first",
                other.name
            )));
        }
        let known = [Some(unit), other.unit()].map(|unit| unit.and_then(Unit::present).is_some());
        if known[0] != known[1] && other.unit().is_some() {
            return Err(Error::catalog(format!(
                "{how}, and one of both says that anyone may know who is in it, so the other one cannot protect that: query {0}, or write DROP TABLE {0} first",
                quoted(&other.name)
            )));
        }
        let shared = unit_domain
            .zip(catalog.unit_domain(&other.name))
            .is_some_and(|(a, b)| catalog.same_people(a, b));
        if !shared && !other_people.contains(&other.name) {
            counted_twice.push(twin);
        }
    }
    let Some(first) = counted_twice.first() else { return Ok(()) };
    let names: Vec<String> = counted_twice.iter().map(|twin| quoted(&twin.table.name)).collect();
    Err(Error::catalog(format!(
        "{}, and the same people would have two budgets: query {}, or, if these are other people, write ALTER TABLE {} SET PRIVACY UNIT {} OTHER PEOPLE THAN {}",
        first.how,
        quoted(&first.table.name),
        quoted(&table.name),
        unit.declaration(),
        names.join(", ")
    )))
}

/// The private tables that have the rows of this one and are declared to be about other people.
pub(super) fn other_people(providers: &Providers, catalog: &Catalog, table: &Table) -> Vec<String> {
    let unit_domain = catalog.unit_domain(&table.name);
    let shared = |other: &Table| {
        let both = unit_domain.zip(catalog.unit_domain(&other.name));
        both.is_some_and(|(one, other)| catalog.same_people(one, other))
    };
    let twins = twins(providers, catalog, table).into_iter().map(|twin| twin.table);
    twins
        .filter(|other| !other.is_public() && !shared(other))
        .map(|other| other.name.clone())
        .collect()
}

/// Refuses to make a table public if its rows are private under another name.
pub(super) fn may_be_public(
    providers: &Providers,
    catalog: &Catalog,
    table: &Table,
) -> Result<(), Error> {
    let twins = twins(providers, catalog, table);
    match twins.iter().find(|twin| !twin.table.is_public()) {
        Some(Twin { table: private, how }) => Err(Error::catalog(format!(
            "{how}, and {0} is private, so its rows cannot be public under another name: query {1}, and write DROP TABLE {2}",
            private.name,
            quoted(&private.name),
            quoted(&table.name)
        ))),
        None => Ok(()),
    }
}

/// Refuses to register rows under a name if that would reveal rows that are private under another
/// name, or would count them twice.
pub(crate) fn may_be_registered(
    providers: &Providers,
    catalog: &Catalog,
    known: &Table,
    provider: &Arc<dyn TableProvider>,
) -> Result<(), Error> {
    // The owner made the earlier declaration of these rows, so it holds.
    let replaced = providers.get(&known.name);
    if known.privacy == Privacy::Undeclared || replaced.is_some_and(|old| equal(old, provider)) {
        return Ok(());
    }
    for (name, other) in providers.iter().filter(|(name, _)| **name != known.name) {
        let Some(other) = catalog.table(name).filter(|_| equal(other, provider)) else { continue };
        let shown = match (&known.privacy, &other.privacy) {
            (Privacy::Undeclared, _) | (_, Privacy::Undeclared) => false,
            (Privacy::Public, Privacy::Public) => false,
            (Privacy::Public, Privacy::Private(_)) | (Privacy::Private(_), Privacy::Public) => true,
            // After a restart, a program may register again what its owner has declared.
            (Privacy::Private(_), Privacy::Private(_)) => {
                let unit_domains = catalog.unit_domain(&known.name).zip(catalog.unit_domain(name));
                replaced.is_some() && !unit_domains.is_some_and(|(a, b)| catalog.same_people(a, b))
            }
        };
        if shown {
            return Err(Error::catalog(format!(
                "`{}` cannot be registered with the rows of {name}, which has another declaration: use a separate name for them",
                known.name
            )));
        }
    }
    Ok(())
}

/// The remark for an owner who declares the file of another table.
pub(super) fn notice(catalog: &Catalog, table: &Table) -> String {
    match twins(&Providers::new(), catalog, table).first() {
        Some(Twin { table: other, how }) => {
            let privacy = if other.is_public() { "public" } else { "private" };
            format!("; {how}, which is {privacy}")
        }
        None => String::new(),
    }
}

/// The other declared tables with the rows of this one, private or public.
fn twins<'a>(providers: &Providers, catalog: &'a Catalog, table: &Table) -> Vec<Twin<'a>> {
    let declared = catalog
        .tables()
        .filter(|other| other.name != table.name && other.privacy != Privacy::Undeclared);
    let twin = |other: &'a Table| {
        let (name, its) = (&table.name, &other.name);
        let how = match (&table.source, &other.source) {
            (Source::File { files: of_one, .. }, Source::File { files: of_other, .. }) => {
                // If a file cannot be read now, it cannot answer a query either.
                let same = same_rows(&table.source, &other.source).ok().flatten()?;
                match (same, of_one.is_none() && of_other.is_none()) {
                    (Same::File, true) => format!("the file of {name} is that of {its}"),
                    (Same::Bytes, true) => {
                        format!("the file of {name} has the same bytes as that of {its}")
                    }
                    (Same::File, false) => format!("a file of {name} is one of {its}"),
                    (Same::Bytes, false) => {
                        format!("a file of {name} has the same bytes as one of {its}")
                    }
                }
            }
            (Source::Registered, Source::Registered) => {
                let (one, two) = (providers.get(name)?, providers.get(its)?);
                equal(one, two).then(|| format!("{name} is registered with the rows of {its}"))?
            }
            (one @ Source::Postgres { .. }, other @ Source::Postgres { .. }) => {
                is_same_table(one, other)
                    .then(|| format!("{name} is the same table of its server as {its}"))?
            }
            (
                Source::File { .. },
                Source::Postgres { .. } | Source::Registered | Source::Released { .. },
            )
            | (
                Source::Postgres { .. },
                Source::File { .. } | Source::Registered | Source::Released { .. },
            )
            | (
                Source::Registered,
                Source::File { .. } | Source::Postgres { .. } | Source::Released { .. },
            )
            | (Source::Released { .. }, _) => return None,
        };
        Some(Twin { table: other, how })
    };
    declared.filter_map(twin).collect()
}

/// True if two tables have the same provider.
fn equal(one: &Arc<dyn TableProvider>, other: &Arc<dyn TableProvider>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}
