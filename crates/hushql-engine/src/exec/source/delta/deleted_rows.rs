//! Deletion vectors of Delta Lake: the numbers of a file's rows that were deleted.
//!
//! In: what the log says of a vector, and the folder of the table. Out: the numbers, ascending. A
//! vector is a sequence of bitmaps in the portable form of Roaring, in the text of the log or in a
//! file of its own. A vector that does not hold as many numbers as the log says is refused.
//!
//! ```text
//! u, "ab^-aqEH.-t@S}K{vb[*k^", offset 4     deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin, from byte 4 on
//! 3, 4, 7                                   the fourth, fifth and eighth row are deleted
//! ```

use std::io;

use flate2::Crc;

use super::actions::DeletionVector;
use super::log_error::unreadable;
use super::table_folder::TableFolder;

/// The digits of texts that hold bytes, in the order of their values.
const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The number with which a vector begins.
const MAGIC: u32 = 1_681_511_377;

/// The first byte of a file of vectors.
const FILE_VERSION: u8 = 1;

/// The length of the text of a UUID.
const ID: usize = 20;

/// With this many numbers, a part of a bitmap has one bit for each number that may be in it.
const DENSE: usize = 4_096;

/// The numbers with which a bitmap begins: with runs, and without.
const WITH_RUNS: u32 = 12_347;
const WITHOUT_RUNS: u32 = 12_346;

/// The parts from which on a bitmap with runs has a list of their places.
const LISTED: usize = 4;

/// The numbers of the deleted rows of a file.
///
/// # Guarantee
/// They are ascending, and as many as the log says, or the vector is refused.
///
/// # Errors
/// A sentence for the owner, or the system's error for a file that cannot be opened.
pub(super) fn deleted_rows(folder: &TableFolder, of: &DeletionVector) -> io::Result<Vec<u64>> {
    let size = usize::try_from(of.size_in_bytes).map_err(|_| damaged())?;
    let bytes = match of.storage_type.as_str() {
        "i" => {
            let mut bytes = bytes_of_text(&of.path_or_inline_dv).ok_or_else(damaged)?;
            if bytes.len() < size || bytes.len() >= size.saturating_add(4) {
                return Err(damaged());
            }
            bytes.truncate(size);
            bytes
        }
        "u" => {
            let file = folder.bytes(&file_name(&of.path_or_inline_dv).ok_or_else(damaged)?)?;
            in_file(&file, of.offset, size).ok_or_else(damaged)?
        }
        _ => return Err(unreadable("a deletion vector of its log is at an absolute path")),
    };
    let rows = Reader(&bytes).vector(of.cardinality).ok_or_else(damaged)?;
    match u64::try_from(rows.len()) {
        Ok(found) if found == of.cardinality => Ok(rows),
        _ => Err(damaged()),
    }
}

fn damaged() -> io::Error {
    unreadable("a deletion vector of its log cannot be read")
}

/// The bytes that a text of [`DIGITS`] stands for: four for each five digits.
fn bytes_of_text(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    let (groups, rest) = text.as_bytes().as_chunks::<5>();
    for group in groups {
        let mut value: u32 = 0;
        for digit in group {
            let digit = DIGITS.iter().position(|known| known == digit)?;
            value = value.checked_mul(85)?.checked_add(u32::try_from(digit).ok()?)?;
        }
        bytes.extend(value.to_be_bytes());
    }
    rest.is_empty().then_some(bytes)
}

/// The name of a file of vectors: a folder, if there is one, and the text of a UUID behind it.
fn file_name(text: &str) -> Option<String> {
    let (folder, id) = text.split_at_checked(text.len().checked_sub(ID)?)?;
    let id: String = bytes_of_text(id)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [id.get(..8)?, id.get(8..12)?, id.get(12..16)?, id.get(16..20)?, id.get(20..)?];
    let name = format!("deletion_vector_{}.bin", parts.join("-"));
    Some(if folder.is_empty() { name } else { format!("{folder}/{name}") })
}

/// A vector in a file: its length, its bytes, and their checksum.
fn in_file(file: &[u8], offset: Option<u64>, size: usize) -> Option<Vec<u8>> {
    let mut reader = Reader(file);
    if reader.byte()? != FILE_VERSION {
        return None;
    }
    let at = usize::try_from(offset.unwrap_or(1)).ok()?;
    reader.take(at.checked_sub(1)?)?;
    let length = u32::from_be_bytes(reader.array()?);
    if usize::try_from(length).ok()? != size {
        return None;
    }
    let bytes = reader.take(size)?;
    let mut checksum = Crc::new();
    checksum.update(bytes);
    (checksum.sum() == u32::from_be_bytes(reader.array()?)).then(|| bytes.to_vec())
}

/// Bytes that are read from their beginning; `None` where there are too few.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A vector: bitmaps of 2³² numbers, each with its place.
    fn vector(mut self, most: u64) -> Option<Vec<u64>> {
        if self.word()? != MAGIC {
            return None;
        }
        let bitmaps = self.array().map(u64::from_le_bytes)?;
        let mut rows = Rows { rows: Vec::new(), most };
        for _ in 0..bitmaps {
            let place = u64::from(self.word()?) << 32;
            self.bitmap(place, &mut rows)?;
        }
        self.0.is_empty().then_some(rows.rows)
    }

    /// A bitmap: the places and sizes of its parts, and the parts.
    fn bitmap(&mut self, place: u64, rows: &mut Rows) -> Option<()> {
        let begin = self.word()?;
        let (parts, runs) = match begin {
            WITHOUT_RUNS => (usize::try_from(self.word()?).ok()?, &[][..]),
            _ if begin & 0xffff == WITH_RUNS => {
                let parts = usize::try_from(begin >> 16).ok()?.checked_add(1)?;
                (parts, self.take(parts.div_ceil(8))?)
            }
            _ => return None,
        };
        let heads = self.take(parts.checked_mul(4)?)?;
        if runs.is_empty() || parts >= LISTED {
            self.take(parts.checked_mul(4)?)?;
        }
        let mut heads = Reader(heads);
        for part in 0..parts {
            let place = place | u64::from(heads.short()?) << 16;
            let numbers = usize::from(heads.short()?).checked_add(1)?;
            let has_runs = runs.get(part / 8).is_some_and(|byte| byte >> (part % 8) & 1 == 1);
            match (has_runs, numbers > DENSE) {
                (true, _) => self.runs(place, rows)?,
                (false, true) => self.bits(place, rows)?,
                (false, false) => {
                    for _ in 0..numbers {
                        rows.add(place | u64::from(self.short()?))?;
                    }
                }
            }
        }
        Some(())
    }

    /// A part of a bitmap as runs: the first number of each, and how many follow.
    fn runs(&mut self, place: u64, rows: &mut Rows) -> Option<()> {
        for _ in 0..self.short()? {
            let (first, more) = (self.short()?, self.short()?);
            for number in first..=first.checked_add(more)? {
                rows.add(place | u64::from(number))?;
            }
        }
        Some(())
    }

    /// A part of a bitmap with one bit for each number.
    fn bits(&mut self, place: u64, rows: &mut Rows) -> Option<()> {
        for (i, byte) in (0_u64..).zip(self.take(8_192)?) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                rows.add(place | (i * 8 + bit))?;
            }
        }
        Some(())
    }
}

/// Ascending numbers, and how many there may be.
struct Rows {
    rows: Vec<u64>,
    most: u64,
}

impl Rows {
    fn add(&mut self, row: u64) -> Option<()> {
        let is_next = self.rows.last().is_none_or(|last| *last < row);
        let has_room = u64::try_from(self.rows.len()).is_ok_and(|found| found < self.most);
        (is_next && has_room).then(|| self.rows.push(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bitmap whose one part is this one, as bytes.
    fn vector(parts: &[(u16, usize, bool, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(2_u32.to_le_bytes());
        let has_runs = parts.iter().any(|(_, _, is_run, _)| *is_run);
        let count = u32::try_from(parts.len()).unwrap();
        if has_runs {
            bytes.extend((WITH_RUNS | (count - 1) << 16).to_le_bytes());
            let marks = parts.iter().enumerate().filter(|(_, part)| part.2);
            bytes.push(marks.fold(0, |byte, (i, _)| byte | 1 << i));
        } else {
            bytes.extend(WITHOUT_RUNS.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        for (place, numbers, _, _) in parts {
            bytes.extend(place.to_le_bytes());
            bytes.extend(u16::try_from(numbers - 1).unwrap().to_le_bytes());
        }
        if !has_runs || parts.len() >= LISTED {
            bytes.extend(vec![0; 4 * parts.len()]);
        }
        for (_, _, _, part) in parts {
            bytes.extend(part);
        }
        bytes
    }

    fn shorts(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    const PLACE: u64 = 2 << 32;

    #[test]
    fn every_kind_of_part_is_read() {
        let list = (1, 3, false, shorts(&[3, 4, 7]));
        let read = Reader(&vector(std::slice::from_ref(&list))).vector(3).unwrap();
        assert_eq!(read, [3, 4, 7].map(|row| PLACE | 1 << 16 | row));
        let runs = (2, 5, true, shorts(&[2, 0, 1, 10, 2]));
        let read = Reader(&vector(&[list.clone(), runs.clone()])).vector(8).unwrap();
        assert_eq!(read[3..], [0, 1, 10, 11, 12].map(|row| PLACE | 2 << 16 | row));
        let mut dense = vec![0xff; 8_192];
        dense[0] = 0b1111_1110;
        let dense = (3, 65_535, false, dense);
        let all = [list.clone(), runs, dense];
        let read = Reader(&vector(&all)).vector(1 << 20).unwrap();
        assert_eq!((read.len(), read[8]), (65_543, PLACE | 3 << 16 | 1));
        // More numbers than the log says, numbers that do not ascend, and bytes behind the end.
        assert!(Reader(&vector(&all)).vector(65_542).is_none());
        assert!(Reader(&vector(&[list.clone(), list.clone()])).vector(99).is_none());
        let overlapping = (2, 5, true, shorts(&[2, 0, 3, 2, 3]));
        assert!(Reader(&vector(&[overlapping])).vector(99).is_none());
        let whole = vector(&[list]);
        for cut in 0..whole.len() {
            assert!(Reader(&whole[..cut]).vector(99).is_none(), "{cut}");
        }
        assert!(Reader(&[whole, vec![0]].concat()).vector(99).is_none());
    }

    #[test]
    fn texts_stand_for_bytes_and_names() {
        assert_eq!(bytes_of_text("HelloWorld").unwrap(), b"\x86\x4f\xd2\x6f\xb5\x59\xf7\x5b");
        assert_eq!(bytes_of_text("Hell"), None);
        assert_eq!(bytes_of_text("#####"), None, "beyond 32 bits");
        assert_eq!(bytes_of_text("Hel o"), None);
        let name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
        assert_eq!(file_name("ab^-aqEH.-t@S}K{vb[*k^").unwrap(), format!("ab/{name}"));
        assert_eq!(file_name("^-aqEH.-t@S}K{vb[*k^").unwrap(), name);
        assert_eq!(file_name("short"), None);
    }

    #[test]
    fn vectors_are_found_in_files_and_texts() {
        let place = tempfile::tempdir().unwrap();
        let folder = TableFolder::open(place.path().to_str().unwrap()).unwrap();
        let bytes = vector(&[(0, 2, false, shorts(&[5, 9]))]);
        let mut checksum = Crc::new();
        checksum.update(&bytes);
        let length = u32::try_from(bytes.len()).unwrap();
        let mut file = vec![FILE_VERSION, 7, 7, 7];
        file.extend(length.to_be_bytes());
        file.extend(&bytes);
        file.extend(checksum.sum().to_be_bytes());
        let name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
        let write = |file: &[u8]| std::fs::write(place.path().join(name), file).unwrap();
        write(&file);
        let of = |kind: &str, cardinality: u64| DeletionVector {
            storage_type: kind.to_owned(),
            path_or_inline_dv: "^-aqEH.-t@S}K{vb[*k^".to_owned(),
            offset: Some(4),
            size_in_bytes: u64::from(length),
            cardinality,
        };
        assert_eq!(deleted_rows(&folder, &of("u", 2)).unwrap(), [PLACE | 5, PLACE | 9]);
        assert!(deleted_rows(&folder, &of("u", 1)).is_err());
        assert!(deleted_rows(&folder, &of("u", 3)).is_err());
        assert!(deleted_rows(&folder, &of("p", 2)).is_err());
        let last = file.len() - 5;
        file[last] ^= 1;
        write(&file);
        let refused = deleted_rows(&folder, &of("u", 2)).unwrap_err().to_string();
        assert!(refused.contains("deletion vector"), "{refused}");
    }
}
