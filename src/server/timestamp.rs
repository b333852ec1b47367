//! Dates and times, which PostgreSQL counts from the year 2000.
//!
//! In: days and microseconds since 1970, as Arrow has them. Out: PostgreSQL's numbers and texts. A
//! date or moment outside of their range becomes an infinity.
//!
//! ```text
//! 2000-01-02   ↔   10958 days since 1970   ↔   1
//! ```

use arrow::compute::kernels::cast_utils::string_to_datetime;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Utc};

/// The days and microseconds from 1970 to 2000.
const DAYS: i32 = 10_957;
const MICROS: i64 = 946_684_800_000_000;

/// A date as PostgreSQL's number.
pub(super) fn date(days: i32) -> i32 {
    match day(days) {
        Some(_) => days.saturating_sub(DAYS),
        None if days < 0 => i32::MIN,
        None => i32::MAX,
    }
}

/// A moment as PostgreSQL's number.
pub(super) fn timestamp(micros: i64) -> i64 {
    match DateTime::from_timestamp_micros(micros) {
        Some(_) => micros.saturating_sub(MICROS),
        None if micros < 0 => i64::MIN,
        None => i64::MAX,
    }
}

fn day(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_epoch_days(days)
}

/// A date as PostgreSQL writes it.
pub(super) fn date_text(days: i32) -> String {
    match day(days) {
        Some(day) => format!("{}{}", day_text(day), era(day.year())),
        None if days < 0 => "-infinity".to_owned(),
        None => "infinity".to_owned(),
    }
}

/// A moment as PostgreSQL writes it, in UTC if it has a zone.
pub(super) fn timestamp_text(micros: i64, has_zone: bool) -> String {
    match DateTime::from_timestamp_micros(micros) {
        Some(moment) => {
            let moment = moment.naive_utc();
            let zone = if has_zone { "+00" } else { "" };
            let (day, year) = (day_text(moment.date()), moment.year());
            format!("{day} {}{zone}{}", clock(moment.time()), era(year))
        }
        None if micros < 0 => "-infinity".to_owned(),
        None => "infinity".to_owned(),
    }
}

/// A time of day.
pub(super) fn time_text(micros: i64) -> String {
    let moment = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    clock(moment.time())
}

/// The second of a moment that [`timestamp_text`] wrote, counted from 1970.
pub(super) fn second(text: &str) -> Option<i64> {
    let moment = NaiveDateTime::parse_from_str(text.get(..19)?, "%Y-%m-%d %H:%M:%S").ok()?;
    Some(moment.and_utc().timestamp())
}

/// The microseconds of an interval that has no days: `-03:30:00`.
pub(super) fn micros_of(interval: &str) -> Option<i64> {
    let (sign, clock) = match interval.strip_prefix('-') {
        Some(clock) => (-1, clock),
        None => (1, interval),
    };
    let time = NaiveTime::parse_from_str(clock, "%H:%M:%S").ok()?;
    Some(sign * i64::from(time.num_seconds_from_midnight()) * 1_000_000)
}

/// The text of a date that a client sends in binary.
pub(super) fn date_of(days: i32) -> Option<String> {
    let day = day(days.checked_add(DAYS)?)?;
    (day.year() > 0).then(|| day_text(day))
}

/// The text of a moment that a client sends in binary.
pub(super) fn timestamp_of(micros: i64) -> Option<String> {
    let moment: NaiveDateTime =
        DateTime::from_timestamp_micros(micros.checked_add(MICROS)?)?.naive_utc();
    let day = moment.date();
    (day.year() > 0).then(|| format!("{} {}", day_text(day), clock(moment.time())))
}

/// The text of a moment with a zone, in UTC and without the zone; any other text stays unchanged.
pub(super) fn in_utc(text: &str) -> String {
    let text = text.trim();
    // PostgreSQL accepts moments without seconds.
    let with_seconds = || text.split_at_checked(16).map(|(to, behind)| format!("{to}:00{behind}"));
    let read = string_to_datetime(&Utc, text);
    let read = read.or_else(|error| match with_seconds() {
        Some(whole) => string_to_datetime(&Utc, &whole),
        None => Err(error),
    });
    match read {
        Ok(moment) => {
            let moment = moment.naive_utc();
            format!("{} {}", day_text(moment.date()), clock(moment.time()))
        }
        Err(_) => text.to_owned(),
    }
}

/// The year before the year 1 is 1 BC.
fn day_text(day: NaiveDate) -> String {
    let year = if day.year() > 0 { day.year() } else { 1 - day.year() };
    format!("{year:04}-{:02}-{:02}", day.month(), day.day())
}

fn era(year: i32) -> &'static str {
    if year > 0 { "" } else { " BC" }
}

fn clock(time: NaiveTime) -> String {
    let text = time.format("%H:%M:%S%.6f").to_string();
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_postgresql_does() {
        assert_eq!((date(10_958), date_text(10_958).as_str()), (1, "2000-01-02"));
        assert_eq!(date_text(0), "1970-01-01");
        assert_eq!(date_text(-719_163), "0001-12-31 BC");
        assert_eq!((date(i32::MAX), date_text(i32::MAX).as_str()), (i32::MAX, "infinity"));
        assert_eq!(timestamp_text(1_500_000, false), "1970-01-01 00:00:01.5");
        assert_eq!(timestamp_text(MICROS, true), "2000-01-01 00:00:00+00");
        assert_eq!((timestamp(MICROS), timestamp(MICROS + 7)), (0, 7));
        assert_eq!(timestamp(i64::MIN), i64::MIN);
        assert_eq!(time_text(3_600_000_001), "01:00:00.000001");
        assert_eq!(date_of(1).as_deref(), Some("2000-01-02"));
        assert_eq!(timestamp_of(1_500_000).as_deref(), Some("2000-01-01 00:00:01.5"));
        assert_eq!((date_of(i32::MAX), timestamp_of(i64::MAX)), (None, None));
        for text in ["2024-01-05 10:30:00+01", "2024-01-05 10:30+01", "2024-01-05 09:30 "] {
            assert_eq!(in_utc(text), "2024-01-05 09:30:00");
        }
        assert_eq!(in_utc("2024-01-05 10:3+01"), "2024-01-05 10:3+01");
        assert_eq!(micros_of("-03:30:00"), Some(-12_600_000_000));
        assert_eq!((micros_of("14:00:00"), micros_of("1 day")), (Some(50_400_000_000), None));
    }
}
