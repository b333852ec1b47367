//! The position of a cursor, and the rows that FETCH and MOVE pass.
//!
//! In: a step, the position, and the number of rows. Out: the rows, and the next position. Position
//! 0 is before the first row, and the last position is behind the last row.
//!
//! ```text
//! 3 rows, position 2    BACKWARD ALL  → row 1, position 0    LAST → row 3, position 3    NEXT → row 3
//! ```

/// How a cursor moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// This many rows on; `None` for all.
    Forward(Option<usize>),
    /// This many rows back; `None` for all.
    Backward(Option<usize>),
    /// To the row of this number, from the end if it is negative.
    Absolute(i64),
    /// To the row this far from here.
    Relative(i64),
}

/// The rows that a cursor passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    /// The number of rows before the first of them.
    pub(super) from: usize,
    /// The number of rows up to the last of them.
    pub(super) to: usize,
    /// Whether the last comes first.
    pub(super) is_reversed: bool,
    /// Where the cursor stands now.
    pub(super) position: usize,
}

/// The rows that a cursor passes from this position.
pub(super) fn passed(step: Step, position: usize, all: usize) -> Passed {
    let end = all.saturating_add(1);
    let at = |row: usize| {
        let position = row.min(end);
        let (from, to) = match (1..=all).contains(&position) {
            true => (position.saturating_sub(1), position),
            false => (position.min(all), position.min(all)),
        };
        Passed { from, to, is_reversed: false, position }
    };
    match step {
        // The row where the cursor stands.
        Step::Forward(Some(0)) | Step::Backward(Some(0)) | Step::Relative(0) => at(position),
        Step::Forward(rows) => {
            let position_after = rows.map_or(end, |rows| position.saturating_add(rows).min(end));
            let (from, to) = (position.min(all), position_after.min(all));
            Passed { from, to, is_reversed: false, position: position_after }
        }
        Step::Backward(rows) => {
            let position_after = rows.map_or(0, |rows| position.saturating_sub(rows));
            let (from, to) = (position_after.saturating_sub(1), position.saturating_sub(1));
            let (from, to) = (if position_after == 0 { 0 } else { from }, to.min(all));
            Passed { from: from.min(to), to, is_reversed: true, position: position_after }
        }
        Step::Absolute(row) => match usize::try_from(row) {
            Ok(row) => at(row),
            Err(_) => at(end.saturating_sub(distance(row))),
        },
        Step::Relative(rows) => match rows < 0 {
            true => at(position.saturating_sub(distance(rows))),
            false => at(position.saturating_add(distance(rows))),
        },
    }
}

fn distance(rows: i64) -> usize {
    usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 answers, over three rows.
    #[test]
    fn cursors_move_as_in_postgres() {
        let walk = |steps: &[Step]| {
            let mut position = 0;
            let mut rows: Vec<Vec<usize>> = Vec::new();
            for step in steps {
                let passed = passed(*step, position, 3);
                position = passed.position;
                let mut own: Vec<usize> = (passed.from + 1..=passed.to).collect();
                if passed.is_reversed {
                    own.reverse();
                }
                rows.push(own);
            }
            rows
        };
        use Step::{Absolute, Backward, Forward, Relative};
        let two = Forward(Some(2));
        assert_eq!(walk(&[two, two, two]), [vec![1, 2], vec![3], vec![]]);
        assert_eq!(walk(&[Forward(None), Backward(Some(1))]), [vec![1, 2, 3], vec![3]]);
        assert_eq!(walk(&[two, Backward(Some(1)), two]), [vec![1, 2], vec![1], vec![2, 3]]);
        assert_eq!(walk(&[Forward(Some(3)), Backward(None)]), [vec![1, 2, 3], vec![2, 1]]);
        assert_eq!(walk(&[Forward(None), Backward(None)]), [vec![1, 2, 3], vec![3, 2, 1]]);
        assert_eq!(walk(&[Absolute(-1), Forward(Some(1))]), [vec![3], vec![]]);
        assert_eq!(walk(&[Absolute(1), Relative(1), Relative(-1)]), [vec![1], vec![2], vec![1]]);
        assert_eq!(walk(&[two, Forward(Some(0)), Relative(0)]), [vec![1, 2], vec![2], vec![2]]);
        assert_eq!(walk(&[Absolute(7), Backward(Some(1))]), [vec![], vec![3]]);
        assert_eq!(walk(&[Absolute(0), Backward(Some(1)), two]), [vec![], vec![], vec![1, 2]]);
        assert_eq!(walk(&[Absolute(-9), Absolute(i64::MIN)]).concat(), [0_usize; 0]);
    }
}
