//! What holds of a measure where the presence of people is public.
//!
//! ```text
//! COUNT(*) WHERE region = 'Oslo', region public   →   exact        AVG of a value that each row has   →   over a known number
//! ```

/// What is known of a measure where neighbours replace what one person's row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replaced {
    /// True if public columns alone decide it: it is shown as it is, and costs nothing.
    pub is_exact: bool,
    /// True if it is a mean over rows whose number is public.
    pub knows_rows: bool,
}
