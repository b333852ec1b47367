//! The limits of a statement, as the command line states them.
//!
//! In: texts such as `2GB`, `60` or `none`. Out: the library's [`Resources`], or a sentence that
//! says what to write.
//!
//! ```text
//! --memory 2GB --timeout none   →   2,000,000,000 bytes, no limit of time
//! ```

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hushql::Resources;

/// The resources that one statement may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Limits of a statement")]
pub(super) struct Allowed {
    /// The most memory, such as 2GB or 500MB; a statement that needs more fails
    /// [default: half of the machine's memory]
    #[arg(long, global = true, value_name = "SIZE|none", value_parser = limit(size))]
    memory: Option<Limit<usize>>,
    /// The folder for data beyond the memory, in nameless files that vanish with the program
    /// [default: none]
    #[arg(long, global = true, value_name = "FOLDER")]
    spill: Option<PathBuf>,
    /// The most seconds from the text of a statement to its answer [default: 300]
    #[arg(long, global = true, value_name = "SECONDS|none", value_parser = limit(seconds))]
    timeout: Option<Limit<u64>>,
    /// The most rows in an answer [default: 1000000]
    #[arg(long, global = true, value_name = "ROWS|none", value_parser = limit(rows))]
    max_rows: Option<Limit<usize>>,
    /// The most rows into which joins may turn the rows of one person [default: 100000]
    #[arg(long, global = true, value_name = "ROWS|none", value_parser = limit(rows))]
    max_fan_out: Option<Limit<usize>>,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit<T> {
    At(T),
    Without,
}

impl<T> Limit<T> {
    fn or_without(self, without: T) -> T {
        match self {
            Self::At(limit) => limit,
            Self::Without => without,
        }
    }

    fn at(self) -> Option<T> {
        match self {
            Self::At(limit) => Some(limit),
            Self::Without => None,
        }
    }
}

/// Reads a limit, or `none`.
fn limit<T>(
    read: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Limit<T>, String> + Clone {
    move |text| match text {
        "none" => Ok(Limit::Without),
        text => read(text).map(Limit::At).map_err(|error| format!("{error}, or `none`")),
    }
}

impl Allowed {
    /// The limits as the library's type.
    pub(super) fn resources(self) -> Resources {
        let usual = Resources::default();
        let fan_out = self.max_fan_out.map(|limit| limit.or_without(usize::MAX));
        let rows = self.max_rows.map_or(usual.rows, |limit| limit.or_without(usize::MAX));
        let rows_of_a_unit =
            fan_out.map_or(usual.rows_of_a_unit, |n| u64::try_from(n).unwrap_or(u64::MAX));
        let memory = self.memory.map_or(usual.memory, Limit::at);
        let time = self.timeout.map_or(usual.time, |limit| limit.at().map(Duration::from_secs));
        usual
            .with_rows(rows)
            .with_rows_of_a_unit(rows_of_a_unit)
            .with_memory(memory)
            .with_spill(self.spill)
            .with_time(time)
    }
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<u64>().ok().filter(|n| *n > 0);
    seconds.ok_or_else(|| "a time is a whole number of seconds, such as 60".to_owned())
}

/// Reads a number of rows. It must not be 0, because every statement would then fail after its
/// charge.
fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse::<usize>().ok().filter(|n| *n > 0);
    rows.ok_or_else(|| "a number of rows is a whole number, at least 1".to_owned())
}

/// Reads a size: a whole number of bytes, KB, MB, GB or TB. With less than a megabyte, statements
/// would fail after their charge.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" => 1,
        "M" | "MB" => 2,
        "G" | "GB" => 3,
        "T" | "TB" => 4,
        _ => return Err("a size is a whole number with KB, MB, GB or TB, such as 2GB".to_owned()),
    };
    let bytes =
        number.parse::<usize>().ok().and_then(|n| n.checked_mul(1000_usize.checked_pow(power)?));
    bytes.filter(|n| *n >= 1_000_000).ok_or_else(|| {
        "a size must be at least 1MB and must fit the machine's address space".to_owned()
    })
}
