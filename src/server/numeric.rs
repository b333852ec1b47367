//! PostgreSQL's `numeric` in binary: digits of base 10,000.
//!
//! ```text
//! -12.5   ↔   2 digits, weight 0, sign 0x4000, scale 1, digits 12, 5000
//! ```

use std::fmt::Write as _;

const NEGATIVE: u16 = 0x4000;

/// Writes a decimal, such as `-12.50`; `None` for a text that is not one.
pub(super) fn write(text: &str, to: &mut Vec<u8>) -> Option<()> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    // Groups of four digits, from the point outward in both directions.
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let padded = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let mut groups: Vec<i16> = Vec::new();
    for part in [whole.as_bytes(), padded.as_bytes()] {
        for group in part.chunks(4) {
            groups.push(std::str::from_utf8(group).ok()?.parse().ok()?);
        }
    }
    let mut weight = i16::try_from(whole.len() / 4).ok()? - 1;
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight = weight.checked_sub(i16::try_from(zeros).ok()?)?;
    let used = groups.iter().rposition(|group| *group != 0).map_or(0, |last| last + 1);
    groups.truncate(used);
    if groups.is_empty() {
        weight = 0;
    }
    let sign = if negative && !groups.is_empty() { NEGATIVE } else { 0 };
    to.extend_from_slice(&u16::try_from(groups.len()).ok()?.to_be_bytes());
    to.extend_from_slice(&weight.to_be_bytes());
    to.extend_from_slice(&sign.to_be_bytes());
    to.extend_from_slice(&u16::try_from(fraction.len()).ok()?.to_be_bytes());
    groups.iter().for_each(|group| to.extend_from_slice(&group.to_be_bytes()));
    Some(())
}

/// Reads a decimal of at most `longest` characters; `None` for NaN, infinities and invalid bytes.
pub(super) fn read(bytes: &[u8], longest: i32) -> Option<String> {
    let mut shorts = bytes.chunks(2).map(|pair| Some(i16::from_be_bytes(pair.try_into().ok()?)));
    let mut short = || shorts.next().flatten();
    let (count, weight, sign, scale) = (short()?, short()?, short()?, short()?);
    let digits: Option<Vec<i16>> = (0..count).map(|_| short()).collect();
    let digits = digits?;
    let fits = i32::from(weight) * 4 <= longest && i32::from(scale) <= longest;
    let valid = digits.iter().all(|digit| (0..10_000).contains(digit));
    if !fits || !valid || weight < -i16::try_from(longest).ok()? || scale < 0 || short().is_some() {
        return None;
    }
    let mut text = match sign.cast_unsigned() {
        0 => String::new(),
        NEGATIVE => "-".to_owned(),
        _ => return None,
    };
    let digit = |place: i32| {
        let index = usize::try_from(i32::from(weight) - place).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let mut whole = String::new();
    for place in (0..=i32::from(weight).max(0)).rev() {
        let _ = write!(whole, "{:04}", digit(place));
    }
    let trimmed = whole.trim_start_matches('0');
    text.push_str(if trimmed.is_empty() { "0" } else { trimmed });
    let scale = usize::try_from(scale).ok()?;
    if scale > 0 {
        let mut fraction = String::new();
        let mut place = -1;
        while fraction.len() < scale {
            let _ = write!(fraction, "{:04}", digit(place));
            place -= 1;
        }
        fraction.truncate(scale);
        text.push('.');
        text.push_str(&fraction);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_come_back() {
        for text in [
            "0",
            "1",
            "-1",
            "12.5",
            "-12.50",
            "10000",
            "9999.9999",
            "0.0001",
            "0.00000001",
            "123456789012345678901234567890.123456789",
            "-0.5",
            "100000000",
            "0.10",
        ] {
            let mut bytes = Vec::new();
            write(text, &mut bytes).unwrap();
            assert_eq!(read(&bytes, 100).as_deref(), Some(text));
        }
        let mut bytes = Vec::new();
        write("-12.5", &mut bytes).unwrap();
        assert_eq!(bytes, [0, 2, 0, 0, 0x40, 0, 0, 1, 0, 12, 0x13, 0x88]);
        for wrong in ["", "-", "1e5", "NaN", ".5", "1.2.3", "+1"] {
            assert!(write(wrong, &mut Vec::new()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn hostile_numbers_are_refused() {
        for bytes in [
            &b""[..],
            b"\0\x01",
            b"\0\x01\0\0\0\0\0\0",
            b"\0\0\x7f\xff\0\0\0\0",
            b"\0\0\x80\0\0\0\0\0",
            b"\0\0\0\0\0\0\x7f\xff",
            b"\0\0\0\0\xc0\0\0\0",
            b"\0\x01\0\0\0\0\0\0\x27\x10",
            b"\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(read(bytes, 100), None, "{bytes:?}");
        }
    }
}
