//! Plans a query again when the declarations change.
//!
//! In: the result of each attempt. Out: whether it is final. An attempt that saw two states of the
//! declarations is repeated a few times.

use crate::error::Error;
use crate::ledger::VaultError;

/// The attempts to plan one query.
#[derive(Debug, Default)]
pub(crate) struct Attempts(usize);

impl Attempts {
    const MOST: usize = 8;

    /// Whether the last attempt is final: the declarations did not change, or they changed too
    /// often.
    pub(crate) fn are_over<T>(&mut self, done: &Result<T, Error>) -> bool {
        self.0 += 1;
        self.0 >= Self::MOST || !done.as_ref().is_err_and(Error::is_redeclared)
    }

    /// The result of an attempt during which the declarations changed.
    pub(crate) fn redeclared() -> Error {
        VaultError::Redeclared.into()
    }

    /// Does work that plans a query, and repeats it if the declarations changed meanwhile.
    pub(crate) fn at<T>(mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut attempts = Self::default();
        loop {
            let done = work();
            if attempts.are_over(&done) {
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_repeated_while_declarations_change() {
        for (changes, expected) in [(0, 1), (1, 2), (7, 8), (8, 8), (100, 8)] {
            let mut times = 0;
            let done = Attempts::at(|| {
                times += 1;
                if times <= changes { Err(Attempts::redeclared()) } else { Ok(()) }
            });
            assert_eq!(times, expected);
            assert_eq!(done.is_ok(), changes < 8);
        }
        let mut times = 0;
        let failed: Result<(), Error> = Attempts::at(|| {
            times += 1;
            Err(Error::Internal)
        });
        assert!(matches!((failed, times), (Err(Error::Internal), 1)));
    }
}
