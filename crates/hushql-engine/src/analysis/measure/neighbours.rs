//! What holds of a measure where the presence of people is public.
//!
//! ```text
//! COUNT(*) WHERE region = 'Oslo', region public   →   exact        AVG of a value that each row has   →   over a known number
//! ```

/// What is known of a measure where neighbours replace what one person's row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replaced {
    /// What a replaced row changes.
    pub change: RowChange,
    /// True if it is a mean over rows whose number is public.
    pub knows_rows: bool,
}

/// What one replaced row changes of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowChange {
    /// Nothing: public columns alone decide the measure.
    Nothing,
    /// The value of a row that stays in its group, and has a value before and after.
    Value,
    /// A row of a group that may fall out, or have no value.
    Counted,
    /// The group of a row: its key is private.
    Group,
    /// Anything: it counts as a removal and an addition.
    Both,
    /// One answer of a roster.
    Response,
}
