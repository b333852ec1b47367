//! The floor of people: the fewest people behind a number that may be shown.
//!
//! In: the declaration of an owner's session. Out: plain data. The floor of a table is stored
//! beside tables and views under a name that no table can have, and that of a budget with its
//! amounts per query. Floors are public, like every declaration.
//!
//! ```text
//! ALTER TABLE visits SET PRIVACY FLOOR 10   →   .floor visits: { floor_table: visits, floor: { people: 10, atto_beta: … } }
//! PER QUERY (min_units=10)                  →   a column of the budget
//! ```

use hushql_privacy::privacy::Spend;
use serde::{Deserialize, Serialize};

/// The fewest people behind a number that may be shown.
///
/// ```
/// use hushql_vault::catalog::PrivacyFloor;
///
/// assert_eq!(PrivacyFloor { people: 10, atto_beta: 50_000_000_000_000_000 }.to_string(), "10");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacyFloor {
    /// The number of people; at least 2.
    pub people: u64,
    /// β in 10⁻¹⁸: the highest probability with which a number of fewer people is shown.
    pub atto_beta: i64,
}

impl PrivacyFloor {
    /// β unless the owner states another: 5 %.
    pub const DEFAULT_BETA: i64 = 50_000_000_000_000_000;
    /// The largest floor that can be declared.
    pub const MOST: u64 = 1 << 40;

    /// True if the numbers are in their ranges.
    pub(crate) fn is_sound(self) -> bool {
        (2..=Self::MOST).contains(&self.people)
            && (1..1_000_000_000_000_000_000).contains(&self.atto_beta)
    }

    /// β as text, such as `0.05`.
    pub fn beta_text(self) -> String {
        Spend::of_epsilon(0, self.atto_beta).delta_text()
    }
}

impl std::fmt::Display for PrivacyFloor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.people)?;
        if self.atto_beta != Self::DEFAULT_BETA {
            write!(f, " (beta={})", self.beta_text())?;
        }
        Ok(())
    }
}

/// The floor of a table, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableFloor {
    /// The table.
    pub(crate) floor_table: String,
    /// Its floor.
    pub(crate) floor: PrivacyFloor,
}

impl TableFloor {
    /// The name under which it is stored. Names of tables and views contain no dot.
    pub(crate) fn key(table: &str) -> String {
        format!(".floor {table}")
    }
}
