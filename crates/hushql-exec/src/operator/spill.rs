//! Files without names for rows that do not fit into memory.
//!
//! In: the folder that the owner chose. Out: files in it that are unlinked immediately after they
//! are opened, before a row is written. When the process ends, even by an uncatchable signal, the
//! system frees the files with their last handle. Only an empty file can remain, if the process
//! ends between the two calls; the next start removes it.
//!
//! ```text
//! create_new(hushql-spill-4711-0) ─▶ unlink ─▶ write batches ─▶ read them ─▶ close
//! ```

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result as IoResult, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use datafusion::object_store::PutPayload;
use futures::Stream;

/// A part of a file's bytes.
type Bytes = <PutPayload as IntoIterator>::Item;

/// The prefix of the temporary names of files.
const PREFIX: &str = "hushql-spill-";

/// The most bytes of all files of a folder together, as in DataFusion.
const MOST: u64 = 100 << 30;

/// The number of bytes that are read at a time.
const CHUNK: usize = 128 << 10;

/// A folder in which statements keep rows that do not fit into memory.
#[derive(Debug)]
pub struct SpillFolder {
    folder: PathBuf,
    opened: AtomicU64,
    /// The total size of the files in it.
    used: Arc<AtomicU64>,
}

impl SpillFolder {
    /// A folder that exists and can be written; it is created if necessary.
    ///
    /// # Errors
    /// The system's, if the folder cannot be created or written, or does not allow unlinking an
    /// open file.
    pub fn open(folder: &Path) -> IoResult<Self> {
        if !folder.exists() {
            let mut builder = std::fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder)?;
        }
        sweep(folder)?;
        let opened =
            Self { folder: folder.to_owned(), opened: AtomicU64::new(0), used: Arc::default() };
        opened.unlinked()?;
        Ok(opened)
    }

    /// An open file without a name.
    fn unlinked(&self) -> IoResult<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        loop {
            let number = self.opened.fetch_add(1, Ordering::Relaxed);
            let address = std::ptr::from_ref(self).addr();
            let name = format!("{PREFIX}{}-{address:x}-{number}", std::process::id());
            let path = self.folder.join(name);
            match options.open(&path) {
                Ok(file) => {
                    // Another process that sweeps the folder may have removed it already.
                    return match std::fs::remove_file(&path) {
                        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                        Ok(()) | Err(_) => Ok(file),
                    };
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Removes the empty files of processes that ended while they opened one.
fn sweep(folder: &Path) -> IoResult<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            // If another process is just opening this file, it unlinks the file too.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

impl TempFileFactory for SpillFolder {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = Arc::new(self.unlinked().map_err(DataFusionError::IoError)?);
        let file = Unlinked { file, written: AtomicU64::new(0), used: Arc::clone(&self.used) };
        Ok(Arc::new(Spilled(Arc::new(file))))
    }
}

/// An open file without a name, and the number of bytes written to it.
#[derive(Debug)]
struct Unlinked {
    file: Arc<File>,
    written: AtomicU64,
    used: Arc<AtomicU64>,
}

impl Drop for Unlinked {
    fn drop(&mut self) {
        self.used.fetch_sub(self.written.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Unlinked {
    /// Appends bytes.
    fn append(&self, bytes: &[u8]) -> IoResult<()> {
        let length = u64::try_from(bytes.len()).map_err(Error::other)?;
        if self.used.fetch_add(length, Ordering::Relaxed).saturating_add(length) > MOST {
            self.used.fetch_sub(length, Ordering::Relaxed);
            return Err(ErrorKind::StorageFull.into());
        }
        let at = self.written.fetch_add(length, Ordering::Relaxed);
        write_at(&self.file, bytes, at)
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> IoResult<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> IoResult<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> IoResult<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        bytes = bytes.get(n..).unwrap_or_default();
        at += n as u64;
    }
    Ok(())
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> IoResult<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, at)
}

/// A file as operators use it.
struct Spilled(Arc<Unlinked>);

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        Some(self.0.written.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let from = (Arc::clone(&self.0), 0_u64);
        Ok(Box::pin(futures::stream::try_unfold(from, |(file, at)| async move {
            let of = Arc::clone(&file);
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; CHUNK];
                let n = read_at(&of.file, &mut bytes, at)?;
                bytes.truncate(n);
                IoResult::Ok(bytes)
            });
            let bytes =
                read.await.map_err(|_| DataFusionError::IoError(ErrorKind::Other.into()))??;
            let next = at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), (file, next))))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

/// Appends to a file.
struct Writer(Arc<Unlinked>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.0.append(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_as_it_was_written_and_never_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        // A file left behind by an earlier process.
        std::fs::write(folder.path().join(format!("{PREFIX}1-2-3")), "").unwrap();
        std::fs::write(folder.path().join("another"), "").unwrap();
        let spill = SpillFolder::open(folder.path()).unwrap();
        assert_eq!(names(), 1);
        let (one, other) =
            (spill.create_temp_file("").unwrap(), spill.create_temp_file("").unwrap());
        let mut writer = one.open_writer().unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        for part in bytes.chunks(70_000) {
            writer.write_all(part).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(names(), 1);
        assert_eq!((one.size(), other.size()), (Some(300_000), Some(0)));
        for _ in 0..2 {
            let read: Vec<Bytes> = one.read_stream().unwrap().try_collect().await.unwrap();
            assert_eq!(read.concat(), bytes);
        }
        assert!(other.read_stream().unwrap().try_next().await.unwrap().is_none());
        assert_eq!(spill.used.load(Ordering::Relaxed), 300_000);
        drop((one, writer));
        assert_eq!(spill.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(SpillFolder::open(&file).is_err());
        assert!(SpillFolder::open(&file.join("below")).is_err());
        assert!(SpillFolder::open(&folder.path().join("made")).is_ok());
    }
}
