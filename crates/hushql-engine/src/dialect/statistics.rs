//! Statistics of one column and of two: variances, standard deviations, correlations and
//! regressions, by name.
//!
//! In: nothing. Out: the names, with what each needs.
//!
//! ```text
//! VAR_SAMP        Spread::VarSamp, which divides by n − 1
//! REGR_R2         Joint::RegrR2, which needs the squares of both columns
//! ```

use std::fmt;

/// A measure of how far values spread around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spread {
    /// VAR_POP: the mean squared distance from the mean.
    VarPop,
    /// VAR_SAMP, VAR, VARIANCE: the same over n − 1.
    VarSamp,
    /// STDDEV_POP: the root of VAR_POP.
    StddevPop,
    /// STDDEV_SAMP, STDDEV: the root of VAR_SAMP.
    StddevSamp,
}

impl Spread {
    /// True if it divides by n − 1.
    pub fn is_sample(self) -> bool {
        matches!(self, Self::VarSamp | Self::StddevSamp)
    }

    /// True if it is the square root of a variance.
    pub fn is_root(self) -> bool {
        matches!(self, Self::StddevPop | Self::StddevSamp)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VarPop => "VAR_POP",
            Self::VarSamp => "VAR_SAMP",
            Self::StddevPop => "STDDEV_POP",
            Self::StddevSamp => "STDDEV_SAMP",
        })
    }
}

/// A statistic of two columns, over the rows on which both have a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Joint {
    /// CORR(x, y): the coefficient of correlation.
    Corr,
    /// COVAR_POP(x, y): the mean product of the distances from the means.
    CovarPop,
    /// COVAR_SAMP(x, y), COVAR: the same over n − 1.
    CovarSamp,
    /// REGR_SLOPE(y, x): the slope of the least-squares line.
    RegrSlope,
    /// REGR_INTERCEPT(y, x): where that line meets x = 0.
    RegrIntercept,
    /// REGR_R2(y, x): the square of the correlation.
    RegrR2,
}

impl Joint {
    /// True if it is a regression; these are called with y first.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::RegrSlope | Self::RegrIntercept | Self::RegrR2)
    }

    /// Whether it needs the squares of x, and whether it needs those of y.
    pub fn needs_squares(self) -> (bool, bool) {
        match self {
            Self::Corr | Self::RegrR2 => (true, true),
            Self::RegrSlope | Self::RegrIntercept => (true, false),
            Self::CovarPop | Self::CovarSamp => (false, false),
        }
    }
}

impl fmt::Display for Joint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Corr => "CORR",
            Self::CovarPop => "COVAR_POP",
            Self::CovarSamp => "COVAR_SAMP",
            Self::RegrSlope => "REGR_SLOPE",
            Self::RegrIntercept => "REGR_INTERCEPT",
            Self::RegrR2 => "REGR_R2",
        })
    }
}
