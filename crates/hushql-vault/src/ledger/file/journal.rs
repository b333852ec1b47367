//! Decides whether SQLite may roll back the journal beside a vault.
//!
//! A journal that a killed program left behind is *hot*: the next program that opens the file
//! copies the old pages back. SQLite finds the journal by its name alone. If the file was charged
//! in the meantime under another name or in another folder, the rollback would silently undo those
//! charges. Before each transaction the vault therefore compares the change counter in the journal
//! with the one in the file.
//!
//! ```text
//! study.db-journal: page 1 with counter 17        study.db: counter 17 or 18   its own crash: roll back
//!                                                 study.db: counter 20         another state: refuse
//! ```
//!
//! One transaction raises the counter by one. A vault can be charged elsewhere only after it is
//! adopted there (see [`home`](crate::ledger::file::home)). Adoption is a transaction too, so the
//! counter rises by at least two, and the two cases differ.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The first bytes of an unfinished journal (SQLite's file format, §3).
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The state of the file that a journal describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Journal {
    /// A number that differs between transactions.
    nonce: [u8; 4],
    /// The number of pages that the file had.
    pages: u32,
    /// The change counter that the file had; `None` while page 1 is not in the journal.
    counter: Option<u32>,
}

/// The state of a database file, from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseState {
    /// The file's change counter.
    counter: u32,
    /// The number of its pages.
    pages: u32,
    /// The first free page, and the number of free pages.
    free: [u32; 2],
    /// Whether commits change this header. They do not change it while another program has set a
    /// write-ahead log.
    is_journaled: bool,
}

impl Journal {
    /// Reads a journal; `None` if SQLite does not roll it back.
    ///
    /// # Errors
    /// The error of the system. A journal that ends early counts up to its end.
    pub(crate) fn read(journal: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        let mut header = [0; 28];
        journal.seek(SeekFrom::Start(0))?;
        if !filled(journal, &mut header)? || header[..8] != MAGIC {
            return Ok(None);
        }
        let [records, pages, sector, page_size] = [8, 16, 20, 24].map(|at| number(&header, at));
        let nonce = [header[12], header[13], header[14], header[15]];
        let mut found = Self { nonce, pages, counter: None };
        let (mut at, mut number_of_page) = (u64::from(sector), [0; 4]);
        // A page's number, its bytes, and their checksum.
        let record = u64::from(page_size).saturating_add(8);
        for _ in 0..records {
            journal.seek(SeekFrom::Start(at))?;
            if !filled(journal, &mut number_of_page)? {
                break;
            }
            if number_of_page == [0, 0, 0, 1] {
                let mut page = [0; 100];
                if filled(journal, &mut page)? {
                    found.counter = Some(number(&page, 24));
                }
                break;
            }
            at = at.saturating_add(record);
        }
        Ok(Some(found))
    }

    /// Whether this journal was begun on the present state of the file.
    ///
    /// # Guarantee
    /// False if two or more transactions were committed to the file since the journal was begun.
    pub(crate) fn fits(&self, state: DatabaseState) -> bool {
        match self.counter {
            Some(before) => state.counter == before || state.counter == before.wrapping_add(1),
            // The file was being created.
            None if self.pages == 0 => state.counter <= 1,
            None => state.pages == self.pages,
        }
    }
}

impl DatabaseState {
    /// Reads the header of a database file; `None` for a file that is too short for one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(file: &mut File) -> io::Result<Option<Self>> {
        let mut header = [0; 100];
        file.seek(SeekFrom::Start(0))?;
        let whole = filled(file, &mut header)?;
        let is_journaled = header[18..20] == [1, 1];
        let [counter, pages, first, count] = [24, 28, 32, 36].map(|at| number(&header, at));
        let free = [first, count];
        Ok(whole.then_some(Self { counter, pages, free, is_journaled }))
    }

    /// True if each commit changes the state.
    pub(crate) fn tells_commits(self) -> bool {
        self.is_journaled
    }
}

/// Fills a buffer; `false` if the file ends too early.
fn filled(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// A big-endian number of 32 bits; 0 beyond the end.
fn number(bytes: &[u8], at: usize) -> u32 {
    let end = at.saturating_add(4);
    let four = bytes.get(at..end).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn journal(records: u32, pages: &[u32], counter: u32) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for field in [records, 7, 3, 512, 1024] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.resize(512, 0);
        for page in pages {
            bytes.extend(page.to_be_bytes());
            let mut content = vec![0; 1024];
            content[24..28].copy_from_slice(&counter.to_be_bytes());
            bytes.extend(content);
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn the_counter_is_that_of_page_1() {
        let read = |bytes: Vec<u8>| Journal::read(&mut Cursor::new(bytes)).unwrap();
        let found = read(journal(2, &[2, 1], 17)).unwrap();
        let state =
            |counter, pages| DatabaseState { counter, pages, free: [0; 2], is_journaled: true };
        assert!(found.fits(state(17, 3)) && found.fits(state(18, 9)));
        for counter in [16, 19, 20, 0] {
            assert!(!found.fits(state(counter, 3)), "{counter}");
        }
        // Page 1 comes after the last synced record, so the file still has the old page 1.
        let unsynced = read(journal(0, &[1], 17)).unwrap();
        assert!(unsynced.fits(state(99, 3)) && !unsynced.fits(state(17, 4)));
        let made = Journal { pages: 0, ..unsynced };
        assert!(made.fits(state(1, 9)) && !made.fits(state(2, 9)));
        assert_eq!(read(Vec::new()), None);
        assert_eq!(read(vec![0; 512]), None, "a journal that was finished");
        assert!(read(journal(2, &[2, 1], 17)[..600].to_vec()).unwrap().counter.is_none());
        assert!(Journal { counter: Some(u32::MAX), ..found }.fits(state(0, 3)));
    }
}
