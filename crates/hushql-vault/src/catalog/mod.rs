//! The owner's declarations: which tables exist, whom they are about, and how much may be spent on
//! these people.
//!
//! In: the owner's declarations, which the caller has checked against the data. Out: a [`Catalog`],
//! an immutable snapshot that one statement is bound and analysed against. The snapshot assumes
//! nothing about the data files and holds none of their values. It is therefore public, and so is
//! every refusal that is derived from it. A catalog read from the vault is complete: a damaged
//! catalog is refused, not repaired.
//!
//! ```
//! use hushql_vault::catalog::{Catalog, Privacy, Source, Table, Unit};
//!
//! let adult = Table {
//!     name: "adult".to_owned(),
//!     source: Source::Registered,
//!     privacy: Privacy::Private(Unit::Row),
//!     columns: Vec::new(),
//! };
//! assert_eq!(Catalog::new([adult], []).unit_domain("adult"), Some("adult"));
//! ```

/// Names with this prefix belong to the engine. No table, column, alias or function of a user has
/// it.
pub const RESERVED: &str = "__hushql";

pub(crate) mod about_people;
mod accounting;
mod accounts;
pub(crate) mod alter;
mod binding_rules;
mod budget;
pub mod cell;
pub mod cells;
mod declared_templates;
pub mod describe;
mod digest;
mod error;
mod export;
mod floors;
pub(crate) mod grants;
pub(crate) mod joins;
mod metadata;
mod month_names;
pub mod month_units;
pub mod name;
pub(crate) mod numbers;
pub(crate) mod present_rows;
mod privacy_floor;
mod privacy_units;
mod public_presence;
mod quoted;
mod replay;
mod seal;
mod several_files;
mod sight;
pub(crate) mod slices;
mod spent_unit;
pub mod store;
mod table_rules;
mod template;
pub(crate) mod template_rows;
mod unit_domains;
pub(crate) mod version;
mod view;
pub(crate) mod view_rows;

pub use accounting::{coupon_limit, zcdp_limit};
pub use budget::{Budget, PerQuery};
pub use cell::{Cell, Touched};
pub use error::CatalogError;
pub use export::ExportFolder;
pub use floors::FloorOf;
pub use grants::{Granted, Grants};
pub use metadata::{Catalog, Column, Domain, FileFormat, Fingerprint, Privacy, Source, Table};
pub use privacy_floor::PrivacyFloor;
pub use privacy_units::{Link, Unit};
pub use quoted::{quoted, quoted_analyst};
pub use replay::Replay;
pub use several_files::{Files, LakeVersion};
pub use slices::payer;
pub use slices::{Slice, SliceOf};
pub use spent_unit::SpentUnit;
pub use table_rules::TableRules;
pub use template::{MOST_PARAMETERS, ParameterDomain, ParameterType, Template, TemplateParameter};
pub use version::CatalogVersion;
pub use view::View;
