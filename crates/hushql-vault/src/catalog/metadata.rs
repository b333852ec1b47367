//! Tables, privacy units and domains: plain data, and the look-ups over them.
//!
//! The owner's declarations go in; a [`Catalog`] that answers by name comes out. Values of domains
//! are canonical text, so this file does not depend on column types; the caller checks them against
//! the type first. A declaration never contradicts itself ([`Table::check`]): for example, no two
//! columns have the same name, and the unit column exists and has no domain.
//!
//! ```text
//! visits: unit patient, MAX ROWS 4, domain of ward IN ('A', 'B', 'C')     consistent
//! visits: unit patient, domain of patient BETWEEN (1, 9)                  refused: the unit column has a domain
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::privacy_floor::PrivacyFloor;
use super::privacy_units::Unit;
use super::several_files::{Files, LakeVersion};
use super::{Budget, CatalogError, ExportFolder, PerQuery, Replay, Slice, Template, View};
use crate::catalog::cell::Partition;
use crate::catalog::grants::Grants;
use crate::catalog::month_units::MonthUnit;
use crate::catalog::name::check_name;
use crate::catalog::numbers::TableNumbers;
use crate::catalog::version::{CatalogVersion, Joined};

#[cfg(test)]
mod tests;

/// A table as the owner declared it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The name that queries use.
    pub name: String,
    /// The source of its rows.
    pub source: Source,
    /// Whether it is about people, and the definition of one person.
    pub privacy: Privacy,
    /// Its columns, in order; fixed by the declaration of the table.
    pub columns: Vec<Column>,
}

/// The source of a table's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A file that the engine opens itself.
    File {
        /// Its format.
        format: FileFormat,
        /// Its absolute path, fixed by the declaration, so that the working directory does not
        /// choose the data.
        location: String,
        /// Reader options such as `has_header`.
        options: BTreeMap<String, String>,
        /// The file on which MAX ROWS and UNIQUE were verified. All other files are refused.
        fingerprint: Option<Fingerprint>,
        /// The files below its location; `None` if the location is one file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Box<Files>>,
    },
    /// A table or view of a PostgreSQL server.
    Postgres {
        /// The address of its database, as the owner wrote it; it holds no password.
        location: String,
        /// The schema on the server.
        schema: String,
        /// The name on the server.
        table: String,
    },
    /// A table provider that the embedding program registers under this name.
    Registered,
    /// An answer that the vault stores. No declaration has this source: such a table is a release
    /// table, which its analysts see beside the declared tables.
    Released {
        /// The number of the ledger entry that stored it.
        sequence: i64,
    },
}

impl Source {
    /// The version of a table of Delta Lake; `None` for any other source.
    pub fn version(&self) -> Option<&LakeVersion> {
        match self {
            Self::File { files, .. } => files.as_ref()?.version.as_ref(),
            Self::Postgres { .. } | Self::Registered | Self::Released { .. } => None,
        }
    }

    /// True if its rows are in objects of a store or on a server, not in files of this machine.
    pub fn is_remote(&self) -> bool {
        match self {
            // The absolute path of a file does not contain two adjacent slashes.
            Self::File { location, files: Some(_), .. } => location.contains("://"),
            Self::Postgres { .. } => true,
            Self::File { files: None, .. } | Self::Registered | Self::Released { .. } => false,
        }
    }
}

/// A file format that the engine reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// Comma-separated values.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// One JSON object per line.
    Json,
    /// Arrow IPC.
    Arrow,
    /// A table of an SQLite file.
    Sqlite,
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "CSV",
            Self::Parquet => "PARQUET",
            Self::Json => "JSON",
            Self::Arrow => "ARROW",
            Self::Sqlite => "SQLITE",
        })
    }
}

/// The properties of a file when its constraints were verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Its length in bytes.
    pub size: u64,
    /// The time of its last modification, in nanoseconds since 1970.
    pub modified_nanos: i64,
    /// The time of its last change of any kind, in nanoseconds since 1970. Unlike the time of
    /// modification, it cannot be set. Objects and groups of files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_nanos: Option<i64>,
    /// The number of its device. Objects and groups of files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u64>,
    /// Its inode number.
    pub inode: u64,
    /// The SHA-256 of its bytes, in hexadecimal; for several files, of their names and bytes.
    pub sha256: String,
    /// For several files: the SHA-256 of the sorted list of their names, sizes and versions, in
    /// hexadecimal. The properties of a single file are then 0 or missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// True if a declaration found the files well formed, so that their records may go over several
    /// lines: rows with line breaks within quotes, and JSON objects over several lines or in an
    /// array. If false, each line is a record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_lines: bool,
}

/// Whether a table is about people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Privacy {
    /// Not declared yet; every query on it is refused.
    Undeclared,
    /// It is not about people, and is queried without noise.
    Public,
    /// It is about people; the unit defines one person.
    Private(Unit),
}

/// A column, as the declaration of the table found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The text of its Arrow type, such as `Int64`.
    pub data_type: String,
    /// Whether it can hold NULL.
    pub nullable: bool,
    /// The values that it may take, if declared; other values are clamped or become NULL.
    pub domain: Option<Domain>,
    /// The time zone in its files. Its timestamps are read in UTC, without a zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// The values that a column may take. They are public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Domain {
    /// These values, as canonical text; `None` is NULL, if listed.
    In(Vec<Option<String>>),
    /// All values from `lo` to `hi`, both included.
    Between {
        /// The least value, as canonical text.
        lo: String,
        /// The greatest value, as canonical text.
        hi: String,
        /// The distance between neighbouring values, if declared.
        step: Option<String>,
        /// Whether NULL is a value as well, and so a group key.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        or_null: bool,
    },
}

impl Table {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The columns in its files: all except those whose values are in the names of folders.
    pub fn file_columns(&self) -> &[Column] {
        let partitioned_by = match &self.source {
            Source::File { files: Some(files), .. } => files.partitioned_by.len(),
            Source::File { files: None, .. }
            | Source::Postgres { .. }
            | Source::Registered
            | Source::Released { .. } => 0,
        };
        let own = self.columns.len().saturating_sub(partitioned_by);
        self.columns.get(..own).unwrap_or_default()
    }

    /// The column of this name, for changing its declaration.
    pub fn column_mut(&mut self, name: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|column| column.name == name)
    }

    /// Its privacy unit, if it is private.
    pub fn unit(&self) -> Option<&Unit> {
        match &self.privacy {
            Privacy::Private(unit) => Some(unit),
            Privacy::Undeclared | Privacy::Public => None,
        }
    }

    /// Whether it is declared public.
    pub fn is_public(&self) -> bool {
        self.privacy == Privacy::Public
    }

    /// Checks that the declaration does not contradict itself.
    ///
    /// # Errors
    /// [`CatalogError::Name`] for an unusable name; [`CatalogError::Declaration`] for a repeated
    /// column, a unit column that is missing or has a domain, MAX ROWS 0, an empty domain or a
    /// domain with a repeated value.
    pub fn check(&self) -> Result<(), CatalogError> {
        check_name(&self.name)?;
        if let Source::Released { .. } = self.source {
            return Err(CatalogError::DuplicateReleaseTable { table: self.name.clone() });
        }
        let refuse =
            |reason: String| CatalogError::Declaration { table: self.name.clone(), reason };
        let mut seen = BTreeSet::new();
        for column in &self.columns {
            if !seen.insert(&column.name) {
                return Err(refuse(format!("it has two columns `{}`", column.name)));
            }
            let Some(Domain::In(values)) = &column.domain else { continue };
            if values.is_empty() {
                return Err(refuse(format!("the domain of `{}` has no value", column.name)));
            }
            // A repeated value would be two candidates, and would be drawn twice for one group.
            if values.iter().collect::<BTreeSet<_>>().len() != values.len() {
                return Err(refuse(format!("the domain of `{}` has a value twice", column.name)));
            }
        }
        let Some(unit) = self.unit() else { return Ok(()) };
        for column in unit.columns() {
            match self.column(column) {
                None => return Err(refuse(format!("its unit column `{column}` does not exist"))),
                // A clamped unit column would merge several people into one.
                Some(found) if found.domain.is_some() => {
                    return Err(refuse(format!("its unit column `{column}` has a domain")));
                }
                Some(_) => {}
            }
        }
        if let Some((person, date)) = unit.month()
            && (person == date || self.column(date).is_none())
        {
            return Err(refuse(format!("`{date}` is no other column with a date")));
        }
        if let Some((person, public)) = unit.present() {
            let mut seen = BTreeSet::from([person]);
            for column in public {
                if self.column(column).is_none() {
                    return Err(refuse(format!("its public column `{column}` does not exist")));
                }
                if !seen.insert(column.as_str()) {
                    return Err(refuse(format!("its public column `{column}` is named twice")));
                }
            }
        }
        if unit.max_rows() == Some(0) {
            return Err(refuse("MAX ROWS must be at least 1".to_owned()));
        }
        match unit.link() {
            Some(link)
                if link.columns.is_empty() || link.columns.len() != link.references.len() =>
            {
                Err(refuse("its link has other columns than the table it leads to".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// An immutable snapshot of all declarations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    pub(super) tables: BTreeMap<String, Arc<Table>>,
    pub(super) views: BTreeMap<String, View>,
    pub(super) templates: BTreeMap<String, Template>,
    pub(super) budgets: BTreeMap<String, Budget>,
    pub(super) exports: BTreeMap<String, ExportFolder>,
    pub(super) about: BTreeMap<String, u64>,
    pub(super) floors: BTreeMap<String, PrivacyFloor>,
    pub(super) rules: BTreeMap<String, Vec<super::TableRules>>,
    pub(super) months: BTreeMap<String, MonthUnit>,
    pub(super) present: BTreeMap<String, BTreeSet<String>>,
    pub(super) slices: BTreeMap<String, Vec<Slice>>,
    pub(super) partitions: BTreeMap<String, Partition>,
    pub(super) joined: Joined,
    pub(super) version: CatalogVersion,
    pub(super) numbers: TableNumbers,
    /// Whether queries must name their costs, regardless of the budgets' defaults.
    names_costs: bool,
    pub(super) grants: Grants,
    /// The whole, if only a part of the declarations exists for the reader.
    pub(super) whole: Option<Arc<Catalog>>,
}

impl Catalog {
    /// A snapshot of these tables and budgets.
    pub fn new(
        tables: impl IntoIterator<Item = Table>,
        budgets: impl IntoIterator<Item = Budget>,
    ) -> Self {
        Self {
            tables: tables.into_iter().map(|table| (table.name.clone(), Arc::new(table))).collect(),
            budgets: budgets.into_iter().map(|budget| (budget.name.clone(), budget)).collect(),
            ..Self::default()
        }
    }

    /// The same snapshot with these views, which replace views of the same name.
    #[must_use]
    pub fn with_views(mut self, views: impl IntoIterator<Item = View>) -> Self {
        self.views.extend(views.into_iter().map(|view| (view.name.clone(), view)));
        self
    }

    /// The same snapshot with these export folders.
    #[must_use]
    pub(crate) fn with_exports(mut self, exports: impl IntoIterator<Item = ExportFolder>) -> Self {
        self.exports.extend(exports.into_iter().map(|export| (export.analyst.clone(), export)));
        self
    }

    /// The same snapshot with these slices of budgets.
    #[must_use]
    pub(crate) fn with_slices(
        mut self,
        slices: impl IntoIterator<Item = (String, Vec<Slice>)>,
    ) -> Self {
        self.slices.extend(slices);
        self
    }

    /// The slices of a budget, by analyst.
    pub fn slices(&self, budget: &str) -> &[Slice] {
        self.slices.get(budget).map_or(&[], Vec::as_slice)
    }

    /// The same snapshot, and the same version, with these release tables. Declared names take
    /// precedence.
    #[must_use]
    pub fn with_released(mut self, released: impl IntoIterator<Item = Table>) -> Self {
        for table in released {
            if !self.views.contains_key(&table.name) {
                self.tables.entry(table.name.clone()).or_insert(Arc::new(table));
            }
        }
        self
    }

    /// The same snapshot for someone whose queries must name their costs: the PER QUERY defaults of
    /// budgets do not apply.
    #[must_use]
    pub fn without_defaults(mut self) -> Self {
        self.names_costs = true;
        self
    }

    /// True if the PER QUERY defaults of budgets apply.
    pub fn has_defaults(&self) -> bool {
        !self.names_costs
    }

    /// The smallest PER QUERY default of this kind among the budgets of a unit domain; `None` if no
    /// default applies.
    pub fn default_of(&self, unit_domain: &str, kind: fn(&PerQuery) -> Option<i64>) -> Option<i64> {
        let budgets = self.budgets_of(unit_domain).filter(|_| self.has_defaults());
        budgets.filter_map(|budget| kind(&budget.per_query)).min()
    }

    /// The first budget of a unit domain that takes declared bounds alone. It binds everyone,
    /// whether defaults apply to them or not.
    pub fn declares_bounds(&self, unit_domain: &str) -> Option<&str> {
        let mut budgets = self.budgets_of(unit_domain);
        budgets.find(|budget| budget.per_query.declared_bounds).map(|budget| budget.name.as_str())
    }

    /// The folder into which answers of an analyst may be written.
    pub fn export_folder(&self, analyst: &str) -> Option<&str> {
        self.exports.get(analyst).map(|export| export.export_folder.as_str())
    }

    /// All export folders, by analyst.
    pub fn exports(&self) -> impl Iterator<Item = &ExportFolder> {
        self.exports.values()
    }

    /// The view of this name; no table has the same name.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.get(name)
    }

    /// All views, by name.
    pub fn views(&self) -> impl Iterator<Item = &View> {
        self.views.values()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name).map(Arc::as_ref)
    }

    /// The table of this name, for callers that keep it longer than the snapshot.
    pub fn shared_table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// The tables whose rows lead to their people through this table.
    pub fn referring<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Table> {
        let leads =
            move |t: &&Table| t.unit().and_then(Unit::link).is_some_and(|l| l.table == table);
        self.tables().filter(leads)
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().map(Arc::as_ref)
    }

    /// All tables, by name, for callers that keep them longer than the snapshot.
    pub fn shared_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The same snapshot without the declared domain of one column.
    pub fn without_domain(&self, table: &str, column: &str) -> Self {
        let mut other = self.clone();
        let table = other.tables.get_mut(table).map(Arc::make_mut);
        if let Some(column) = table.and_then(|table| table.column_mut(column)) {
            column.domain = None;
        }
        other
    }

    /// The budget of this name.
    pub fn budget(&self, name: &str) -> Option<&Budget> {
        self.budgets.get(name)
    }

    /// All budgets, by name.
    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.values()
    }

    /// True if analysts must not learn of each other: some budget replays to each only their own
    /// answers, or each sees only what is granted. Then only the owner sees the ledger entries of
    /// others, or numbers that depend on how many entries there are.
    pub fn keeps_apart(&self) -> bool {
        self.grants.limits_any() || self.budgets().any(|budget| budget.replay == Replay::Own)
    }
}
