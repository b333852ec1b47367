//! The frames of window functions over the rows of one unit.
//!
//! In: a frame as the planner reads it. Out: whether it can fail on some rows, and whether it can
//! be empty.
//!
//! ```text
//! ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING           allowed; empty on the first row
//! RANGE BETWEEN 1 PRECEDING AND CURRENT ROW          refused: arithmetic on the key can overflow
//! ```

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use num_traits::ToPrimitive;

use crate::analysis::expr::facts::rational;

/// The largest number of rows that a frame may reach to either side. A much larger number would
/// overflow, but only if there are rows.
const MOST_AWAY: i64 = 1 << 31;

/// The reason why the frame of a window is not allowed, if there is one.
pub(crate) fn frame_error(frame: &WindowFrame) -> Option<&'static str> {
    let end = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(value) if value.is_null() => Some(i64::MIN),
        WindowFrameBound::Following(value) if value.is_null() => Some(i64::MAX),
        // A range of values around the row's own value needs arithmetic on the key, which can
        // overflow.
        WindowFrameBound::Preceding(_) | WindowFrameBound::Following(_)
            if frame.units != WindowFrameUnits::Rows =>
        {
            None
        }
        WindowFrameBound::Preceding(value) => away(value).map(|rows| -rows),
        WindowFrameBound::Following(value) => away(value),
    };
    if frame.units == WindowFrameUnits::Groups {
        return Some("the frame of a window is ROWS, or RANGE up to the current row");
    }
    match (end(&frame.start_bound), end(&frame.end_bound)) {
        (Some(first), Some(last)) if first <= last => None,
        (Some(_), Some(_)) => Some("the frame of a window ends before it begins"),
        _ => Some(
            "the frame of a window is ROWS, at most 2147483648 to either side, or RANGE up to the current row",
        ),
    }
}

fn away(rows: &ScalarValue) -> Option<i64> {
    let rows = rational(rows)?.to_integer().to_i64()?;
    Some(rows).filter(|rows| (0..=MOST_AWAY).contains(rows))
}

/// True if a frame can be empty, because it does not contain the row itself.
pub(crate) fn may_be_empty(frame: &WindowFrame) -> bool {
    matches!(frame.start_bound, WindowFrameBound::Following(_))
        || matches!(frame.end_bound, WindowFrameBound::Preceding(_))
}

/// The frame of all rows of a partition.
pub(crate) fn all_rows() -> WindowFrame {
    up_to(WindowFrameBound::Following(ScalarValue::UInt64(None)))
}

/// All rows of a partition up to the row itself.
pub(crate) fn rows_so_far() -> WindowFrame {
    up_to(WindowFrameBound::CurrentRow)
}

fn up_to(end: WindowFrameBound) -> WindowFrame {
    WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        end,
    )
}
