//! The time zones that AT TIME ZONE and casts take, as `pg_timezone_names` lists them.
//!
//! In: a moment. Out: the name of each zone, with its abbreviation and its distance to UTC at that
//! moment. The engine reads no abbreviation but UTC.
//!
//! ```text
//! 2026-07-01 in Europe/Oslo   →   Europe/Oslo, CEST, 02:00:00, t
//! ```

use chrono::{DateTime, Duration, Offset, TimeZone, Utc};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS, Tz};

use super::datum::Datum;

/// The rows of `pg_timezone_names`, in the order of the names.
pub(super) fn names(now: DateTime<Utc>) -> Vec<Vec<(&'static str, Datum)>> {
    let row = |zone: &Tz| {
        let offset = zone.offset_from_utc_datetime(&now.naive_utc());
        let seconds = offset.fix().local_minus_utc();
        let known = offset.abbreviation().map(Datum::from);
        vec![
            ("name", zone.name().into()),
            ("abbrev", known.unwrap_or_else(|| Datum::Text(number(seconds).into()))),
            ("utc_offset", Datum::Text(interval(seconds).into())),
            ("is_dst", Datum::Bool(offset.dst_offset() != Duration::zero())),
        ]
    };
    TZ_VARIANTS.iter().map(row).collect()
}

/// A distance to UTC as PostgreSQL writes an interval: `-03:30:00`.
fn interval(seconds: i32) -> String {
    let (sign, distance) = (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs());
    format!("{sign}{:02}:{:02}:{:02}", distance / 3600, distance / 60 % 60, distance % 60)
}

/// A distance to UTC as the abbreviation of a zone without one: `-03`, `+0330`.
fn number(seconds: i32) -> String {
    let (sign, distance) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    match distance / 60 % 60 {
        0 => format!("{sign}{:02}", distance / 3600),
        minutes => format!("{sign}{:02}{minutes:02}", distance / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_their_distance_at_a_moment() {
        for (day, zone, expected) in [
            ("2026-01-01T00:00:00Z", "Europe/Oslo", "CET|01:00:00|f"),
            ("2026-07-01T00:00:00Z", "Europe/Oslo", "CEST|02:00:00|t"),
            ("2026-01-01T00:00:00Z", "America/St_Johns", "NST|-03:30:00|f"),
            ("2026-01-01T00:00:00Z", "Asia/Kolkata", "IST|05:30:00|f"),
            ("2026-01-01T00:00:00Z", "Pacific/Marquesas", "-0930|-09:30:00|f"),
            ("2026-01-01T00:00:00Z", "Etc/GMT+3", "-03|-03:00:00|f"),
            ("2026-01-01T00:00:00Z", "UTC", "UTC|00:00:00|f"),
        ] {
            let rows = names(day.parse().unwrap());
            let found = rows.iter().find(|row| row[0].1 == Datum::from(zone)).unwrap();
            let texts: Vec<String> =
                found[1..].iter().filter_map(|(_, value)| value.text()).collect();
            assert_eq!(texts.join("|"), expected, "{day} {zone}");
        }
        assert_eq!((number(-34_200), number(7_200)), ("-0930".to_owned(), "+02".to_owned()));
    }
}
