//! What the owner declared: which tables there are, whom they are about, and what may be spent on them.
//!
//! In go the owner's declarations, already checked against the data by whoever made them; out comes a
//! [`Catalog`], an unchanging snapshot that one statement is bound and analysed against. The snapshot
//! assumes nothing about the data files and holds no value of theirs: it is public, like every refusal
//! that is derived from it. Whoever reads it through the vault may rely on its being whole, for a
//! damaged catalog is refused and not repaired.
//!
//! ```
//! use hushql::catalog::{Catalog, Privacy, Source, Table, Unit};
//!
//! let adult = Table {
//!     name: "adult".to_owned(),
//!     source: Source::Registered,
//!     privacy: Privacy::Private(Unit::Row),
//!     columns: Vec::new(),
//! };
//! assert_eq!(Catalog::new([adult], []).space("adult"), Some("adult"));
//! ```

/// Names that begin so belong to the engine: no table, column, alias or function of anybody's has one.
pub const RESERVED: &str = "__hushql";

mod accounting;
pub(crate) mod describe;
mod digest;
mod error;
pub(crate) mod joins;
mod metadata;
pub(crate) mod name;
mod spaces;
pub(crate) mod store;
pub(crate) mod version;
mod view;

pub use accounting::zcdp_limit;
pub use error::CatalogError;
pub(crate) use metadata::quoted;
pub use metadata::{
    Budget, Catalog, Column, Domain, FileFormat, Fingerprint, Link, PerQuery, Privacy, Source,
    Table, Unit,
};
pub use version::CatalogVersion;
pub use view::View;
