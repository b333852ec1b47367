//! Grants: which roles may ask about which tables, and be charged to which budgets.
//!
//! In: the owner's grants. Out: their rows, under a seal. Roles can be groups: a role has the
//! grants of every role that was granted to it. A grant ends with its role, its table or its
//! budget, so nothing of the same name inherits it. A role that is limited to templates may call
//! those that are granted to it, and nothing else.
//!
//! ```text
//! GRANT SELECT ON visits TO clinic; GRANT clinic TO eve      eve asks about visits
//!
//! role_grant(role, kind, name)     grants_required(number)     templates_only(role)     seal('grants') = SHA-256 of all of them
//! ```

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::{Connection, params};

use super::digest::Fields;
use super::seal::{SealedRows, check_seal, set_seal};
use super::{CatalogError, quoted, quoted_analyst};

/// The table of grants, the one row that says that they are required, and the roles that are
/// limited to templates.
pub(crate) const SCHEMA: &str = "
CREATE TABLE role_grant (
    role TEXT NOT NULL CHECK (length(role) BETWEEN 1 AND 64),
    kind TEXT NOT NULL CHECK (kind IN ('table', 'budget', 'role', 'template')),
    name TEXT NOT NULL,
    PRIMARY KEY (role, kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants_required (
    number INTEGER PRIMARY KEY NOT NULL CHECK (number = 1)
) STRICT;

CREATE TABLE templates_only (
    role TEXT PRIMARY KEY NOT NULL CHECK (length(role) BETWEEN 1 AND 64)
) STRICT, WITHOUT ROWID;
";

/// What a grant allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granted {
    /// To ask about a table: `SELECT ON visits`.
    Table(String),
    /// To be charged to a budget: `USAGE ON BUDGET study`.
    Budget(String),
    /// What another role may do: `clinic`.
    Role(String),
    /// To call a template: `EXECUTE ON TEMPLATE monthly`.
    Template(String),
}

impl Granted {
    fn kind(&self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::Budget(_) => "budget",
            Self::Role(_) => "role",
            Self::Template(_) => "template",
        }
    }

    /// The name of the table, budget, role or template.
    pub fn name(&self) -> &str {
        match self {
            Self::Table(name) | Self::Budget(name) | Self::Role(name) | Self::Template(name) => {
                name
            }
        }
    }
}

impl fmt::Display for Granted {
    /// As in GRANT, before TO.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "SELECT ON {}", quoted(name)),
            Self::Budget(name) => write!(f, "USAGE ON BUDGET {}", quoted(name)),
            Self::Role(name) => f.write_str(&quoted_analyst(name)),
            Self::Template(name) => write!(f, "EXECUTE ON TEMPLATE {}", quoted(name)),
        }
    }
}

/// All grants of a vault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    pub(super) is_required: bool,
    pub(super) given: BTreeSet<(String, Granted)>,
    /// The roles that may call templates, and nothing else.
    pub(super) templates_only: BTreeSet<String>,
}

impl Grants {
    /// True if a role sees only what is granted to it. Otherwise grants have no effect.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// True if a role may call the templates that are granted to it, and nothing else, whether or
    /// not grants are required.
    pub fn is_templates_only(&self, role: &str) -> bool {
        self.templates_only.contains(role)
    }

    /// True if grants limit what some role sees.
    pub(super) fn limits_any(&self) -> bool {
        self.is_required || !self.templates_only.is_empty()
    }

    /// True if grants limit what this reader sees.
    pub fn limits(&self, reader: &str) -> bool {
        self.is_required || self.is_templates_only(reader)
    }

    /// All grants: the role, and what it may do.
    pub fn given(&self) -> impl Iterator<Item = &(String, Granted)> {
        self.given.iter()
    }

    /// This role, and every role whose grants it has.
    pub fn groups_of<'a>(&'a self, role: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut next) = (BTreeSet::from([role]), vec![role]);
        while let Some(role) = next.pop() {
            for (_, granted) in self.given.iter().filter(|(to, _)| to == role) {
                if let Granted::Role(group) = granted
                    && found.insert(group)
                {
                    next.push(group);
                }
            }
        }
        found
    }

    /// The role through which a reader has a grant: the reader itself, or a group.
    pub fn through<'a>(&'a self, reader: &'a str, granted: &Granted) -> Option<&'a str> {
        let has = |role: &str| self.given.contains(&(role.to_owned(), granted.clone()));
        if has(reader) {
            return Some(reader);
        }
        self.groups_of(reader).into_iter().find(|role| has(role))
    }

    /// True if a reader has this grant, itself or through a group.
    pub(super) fn may(&self, reader: &str, granted: &Granted) -> bool {
        self.through(reader, granted).is_some()
    }

    /// Refuses a group that would contain itself.
    pub(super) fn check_circle(&self, role: &str, group: &str) -> Result<(), CatalogError> {
        match self.groups_of(group).contains(role) {
            false => Ok(()),
            true => {
                Err(CatalogError::GroupOfItself { group: group.to_owned(), role: role.to_owned() })
            }
        }
    }
}

/// Seals a vault without grants.
pub(crate) fn reseal(connection: &Connection) -> Result<(), CatalogError> {
    set_seal(connection, SealedRows::Grants, digest(&rows(connection)?))
}

/// All grants.
///
/// # Errors
/// [`CatalogError::Damaged`] when they differ from their seal.
pub(crate) fn load(connection: &Connection) -> Result<Grants, CatalogError> {
    let grants = rows(connection)?;
    check_seal(connection, SealedRows::Grants, digest(&grants))?;
    Ok(grants)
}

/// Stores these grants in place of all present ones.
pub(crate) fn put(connection: &Connection, grants: &Grants) -> Result<(), CatalogError> {
    load(connection)?;
    connection.execute("DELETE FROM role_grant", [])?;
    connection.execute("DELETE FROM grants_required", [])?;
    connection.execute("DELETE FROM templates_only", [])?;
    for role in &grants.templates_only {
        connection.execute("INSERT INTO templates_only (role) VALUES (?1)", [role])?;
    }
    for (role, granted) in &grants.given {
        connection.execute(
            "INSERT INTO role_grant (role, kind, name) VALUES (?1, ?2, ?3)",
            params![role, granted.kind(), granted.name()],
        )?;
    }
    if grants.is_required {
        connection.execute("INSERT INTO grants_required (number) VALUES (1)", [])?;
    }
    reseal(connection)
}

/// Gives or takes grants. Returns those that changed.
///
/// # Errors
/// [`CatalogError::GroupOfItself`].
pub(crate) fn change(
    connection: &Connection,
    (roles, granted): (&[String], &[Granted]),
    may: bool,
) -> Result<Vec<(String, Granted)>, CatalogError> {
    let mut grants = load(connection)?;
    let mut changed = Vec::new();
    for role in roles {
        for one in granted {
            if let (Granted::Role(group), true) = (one, may) {
                grants.check_circle(role, group)?;
            }
            let grant = (role.clone(), one.clone());
            let is_new = match may {
                true => grants.given.insert(grant.clone()),
                false => grants.given.remove(&grant),
            };
            changed.extend(is_new.then_some(grant));
        }
    }
    put(connection, &grants)?;
    Ok(changed)
}

/// Requires grants from now on, or no longer.
pub(crate) fn require(connection: &Connection, is_required: bool) -> Result<(), CatalogError> {
    put(connection, &Grants { is_required, ..load(connection)? })
}

/// Limits a role to templates, or no longer.
pub(crate) fn limit_to_templates(
    connection: &Connection,
    role: &str,
    is_limited: bool,
) -> Result<(), CatalogError> {
    let mut grants = load(connection)?;
    let changes = match is_limited {
        true => grants.templates_only.insert(role.to_owned()),
        false => grants.templates_only.remove(role),
    };
    if changes { put(connection, &grants) } else { Ok(()) }
}

/// Removes every grant of a table, budget, template or role that begins or ends to exist, and those
/// that the role has. A role that begins or ends is not limited to templates.
pub(crate) fn forget(connection: &Connection, gone: &Granted) -> Result<(), CatalogError> {
    let mut grants = load(connection)?;
    let was_limited = match gone {
        Granted::Role(role) => grants.templates_only.remove(role),
        Granted::Table(_) | Granted::Budget(_) | Granted::Template(_) => false,
    };
    let before = grants.given.len();
    grants.given.retain(|(role, granted)| {
        let is_its = matches!(gone, Granted::Role(gone) if gone == role);
        granted != gone && !is_its
    });
    match grants.given.len() == before && !was_limited {
        true => Ok(()),
        false => put(connection, &grants),
    }
}

fn rows(connection: &Connection) -> Result<Grants, CatalogError> {
    let mut statement = connection.prepare_cached("SELECT role, kind, name FROM role_grant")?;
    let mut rows = statement.query([])?;
    let mut given = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(1)?, row.get(2)?);
        let granted = match kind.as_str() {
            "table" => Granted::Table(name),
            "budget" => Granted::Budget(name),
            "role" => Granted::Role(name),
            "template" => Granted::Template(name),
            _ => return Err(SealedRows::Grants.damage()),
        };
        given.insert((row.get(0)?, granted));
    }
    let mut statement = connection.prepare_cached("SELECT 1 FROM grants_required")?;
    let is_required = statement.exists([])?;
    let mut statement = connection.prepare_cached("SELECT role FROM templates_only")?;
    let templates_only = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(Grants { is_required, given, templates_only })
}

fn digest(grants: &Grants) -> [u8; 32] {
    let mut fields = Fields::new("hushql grants 2");
    fields.integer(i64::from(grants.is_required));
    fields.integer(i64::try_from(grants.templates_only.len()).unwrap_or(i64::MAX));
    grants.templates_only.iter().for_each(|role| fields.text(role));
    for (role, granted) in &grants.given {
        fields.text(role);
        fields.text(granted.kind());
        fields.text(granted.name());
    }
    fields.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_stored_and_end_with_what_they_name() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(crate::catalog::store::SCHEMA).unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        reseal(&connection).unwrap();
        let lab = ["lab".to_owned()];
        let (t, b) = (Granted::Table("t".to_owned()), Granted::Budget("t".to_owned()));
        let both = [t.clone(), b.clone(), Granted::Role("clinic".to_owned())];
        assert_eq!(change(&connection, (&lab, &both), true).unwrap().len(), 3);
        assert!(change(&connection, (&lab, &both), true).unwrap().is_empty());
        require(&connection, true).unwrap();
        forget(&connection, &t).unwrap();
        let left = load(&connection).unwrap();
        assert!(left.is_required() && !left.may("lab", &t) && left.may("lab", &b));
        forget(&connection, &Granted::Role("clinic".to_owned())).unwrap();
        assert_eq!(load(&connection).unwrap().given().count(), 1);
        forget(&connection, &Granted::Role("lab".to_owned())).unwrap();
        assert_eq!(load(&connection).unwrap().given().count(), 0);
        limit_to_templates(&connection, "lab", true).unwrap();
        assert!(load(&connection).unwrap().is_templates_only("lab"));
        forget(&connection, &Granted::Role("lab".to_owned())).unwrap();
        assert!(!load(&connection).unwrap().is_templates_only("lab"));
        connection.execute("INSERT INTO templates_only VALUES ('lab')", []).unwrap();
        assert!(matches!(load(&connection), Err(CatalogError::Damaged(_))));
        connection.execute("DELETE FROM templates_only", []).unwrap();
        connection.execute("DELETE FROM grants_required", []).unwrap();
        assert!(matches!(load(&connection), Err(CatalogError::Damaged(_))));
    }
}
