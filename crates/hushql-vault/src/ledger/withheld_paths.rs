//! The errors of a vault as analysts see them: without the paths of the vault and its anchor.
//!
//! ```text
//! the vault `/srv/study.db` is in use by another program   →   the vault is in use by another program
//! ```

use crate::ledger::error::VaultError;

impl VaultError {
    /// The same error without the paths of the vault and its anchor, which analysts must not learn.
    #[must_use]
    pub fn without_paths(mut self) -> Self {
        match &mut self {
            Self::Missing { path }
            | Self::Exists { path }
            | Self::NotAFile { path }
            | Self::NotAVault { path }
            | Self::Version { path, .. }
            | Self::ReadOnly { path }
            | Self::Moved { path }
            | Self::Locked { path }
            | Self::DiskFull { path, .. }
            | Self::Failed { path, .. }
            | Self::Poisoned { path }
            | Self::Unsynced { path, .. }
            | Self::Linked { path, .. }
            | Self::NotAtHome { path }
            | Self::ForeignJournal { path }
            | Self::Unanchored { path }
            | Self::AnchorLate { path } => path.clear(),
            Self::Corrupt { path, source, .. } => {
                path.clear();
                *source = None;
            }
            // The message of SQLite names the file.
            Self::CannotOpen { path, source } => {
                path.clear();
                *source = "withheld from analysts".into();
            }
            Self::PutBack { path, anchor } | Self::OtherHistory { path, anchor } => {
                path.clear();
                anchor.clear();
            }
            Self::NoAnchor { anchor }
            | Self::AnchorExists { anchor }
            | Self::AnchorBeside { anchor }
            | Self::AnchorDamaged { anchor }
            | Self::Anchor { anchor, .. }
            | Self::AnchorUnmade { anchor, .. } => anchor.clear(),
            Self::Catalog(_)
            | Self::Drifted { .. }
            | Self::NoBudget { .. }
            | Self::Exhausted { .. }
            | Self::NoEpsilon { .. }
            | Self::UnderMin { .. }
            | Self::OverMax { .. }
            | Self::OverCoupon { .. }
            | Self::OverCap { .. }
            | Self::CapWithoutRho
            | Self::OverTemplate { .. }
            | Self::Amount(_)
            | Self::Entropy(_)
            | Self::Redeclared
            | Self::Clock
            | Self::EnoughToday { .. }
            | Self::EnoughPasswords { .. }
            | Self::EmptyCharge
            | Self::AnalystName { .. } => {}
        }
        self
    }
}
