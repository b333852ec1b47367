//! Whose answers a budget replays.
//!
//! In: the word of a declaration. Out: a [`Replay`], and the strictest of several.
//!
//! ```text
//! ALTER PRIVACY BUDGET clinic SET REPLAY (ALL)     everyone's answers are replayed to everyone who may ask, at no cost
//! ```

/// Whose answers are replayed to whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replay {
    /// Everyone's answers, to everyone who may ask.
    #[default]
    All,
    /// An analyst's own answers.
    Own,
    /// No answers: each release is drawn and paid for.
    Off,
}

impl Replay {
    /// The stricter of two.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Off, _) | (_, Self::Off) => Self::Off,
            (Self::Own, _) | (_, Self::Own) => Self::Own,
            (Self::All, Self::All) => Self::All,
        }
    }

    /// The word of the dialect.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "ALL",
            Self::Own => "OWN",
            Self::Off => "OFF",
        }
    }

    /// The mode that this word names.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::All, Self::Own, Self::Off]
            .into_iter()
            .find(|one| one.word().eq_ignore_ascii_case(word))
    }
}
