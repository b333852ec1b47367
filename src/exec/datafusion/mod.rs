//! What is particular about running on DataFusion: its session, its limits, and what works around its defects.
//!
//! In: DataFusion's own rules and operators. Out: a fixed list of them in which no operator relies on what an untrusted row
//! could make false. Each defect of DataFusion has a file of its own, which says when it can be deleted.
//!
//! ```text
//! session            the rules, in order        logical_rules, lossy_casts, by_name, opaque    defects
//! planning, memory, spill, limited_joins        what a statement may take
//! ```

pub(crate) mod build_side;
pub(crate) mod by_name;
pub(crate) mod limited_joins;
pub(crate) mod logical_rules;
pub(crate) mod lossy_casts;
pub(crate) mod memory;
pub(crate) mod opaque;
pub(crate) mod planning;
pub(crate) mod session;
pub(crate) mod spill;
