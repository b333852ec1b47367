//! Keeps files open, and reads them through the checked handle. Objects of a store are kept by
//! their version.
//!
//! In: a path, an open file or an object, once. Out: an [`OpenFile`], in which every reader has its
//! own position, and [`HeldFiles`], where DataFusion finds it by a random number instead of its
//! path. If somebody replaces the file afterwards, the bytes still come from the opened file. Its
//! [`Stamp`] shows whether somebody wrote to it.
//!
//! ```text
//! /data/visits.parquet ── opened ──▶ OpenFile ◀── held://files/5263… ── ParquetSource
//!                                     ▲
//!                          checked, hashed, and checked again before anything is answered
//! ```

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::reader::{ChunkReader, Length};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::delta::FileLayout;
use super::file_stamp::Stamp;
use super::location::ObjectVersion;
use super::remote::Object;
use super::struct_columns::StructColumns;
use crate::sampler::QueryRng;

/// The store in which DataFusion looks for open files.
pub(super) const STORE: &str = "held://files";

/// The number of bytes read at once.
const BLOCK: usize = 4 << 20;

/// Where the bytes are.
enum ByteSource {
    File(File, Metadata),
    Object(Object),
}

/// An open file, or a version of an object.
pub(super) struct OpenFile {
    number: u64,
    /// Where it was opened, for processes that open it again; `None` for an object, and for a name
    /// that is not text.
    path: Option<String>,
    kept: ByteSource,
    stamp: Stamp,
    sha256: OnceLock<String>,
    /// The columns that the file itself describes, after they were read.
    pub(super) columns: OnceLock<SchemaRef>,
    /// The columns that the reader of its format yields, with the file's own units and zones of
    /// moments. The fields of structs are columns of their own.
    pub(super) stored: OnceLock<SchemaRef>,
    /// The columns whose values the names of its folders say, so that they are not read from it.
    pub(super) keys: OnceLock<Vec<String>>,
    /// The columns of a file in which some are structs or keys.
    pub(super) structs: OnceLock<StructColumns>,
    /// How a file of a table of Delta Lake is read.
    pub(super) layout: OnceLock<FileLayout>,
    /// The number of rows in the footer of a Parquet file, after it was read.
    pub(super) rows: OnceLock<usize>,
    /// The number of bytes read so far; bytes that were read twice count twice.
    read: AtomicU64,
    /// Whether a read failed.
    failed: AtomicBool,
}

/// Paths must not appear in plans and messages.
impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("number", &self.number).finish_non_exhaustive()
    }
}

impl OpenFile {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is missing, is not a file, or cannot be read.
    pub(super) fn open(location: &str, number: u64) -> io::Result<Self> {
        // Opening a pipe would wait for a writer.
        if !std::fs::metadata(location)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Self::of_file(File::open(location)?, Some(location.to_owned()), number)
    }

    fn of_file(file: File, path: Option<String>, number: u64) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let stamp = Stamp::from_metadata(&metadata);
        Ok(Self { path, ..Self::new(number, ByteSource::File(file, metadata), stamp) })
    }

    fn of_object(object: Object, number: u64) -> Self {
        let stamp = Stamp {
            device: 0,
            inode: 0,
            size: object.size(),
            modified_nanos: object.modified_nanos(),
            changed_nanos: 0,
        };
        Self::new(number, ByteSource::Object(object), stamp)
    }

    fn new(number: u64, kept: ByteSource, stamp: Stamp) -> Self {
        let (sha256, columns, rows) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (stored, structs, keys) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let layout = OnceLock::new();
        let read = AtomicU64::new(0);
        let (path, failed) = (None, AtomicBool::new(false));
        Self {
            number,
            path,
            kept,
            stamp,
            sha256,
            columns,
            stored,
            keys,
            structs,
            layout,
            rows,
            read,
            failed,
        }
    }

    /// Its number in the store.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Its URL in the store.
    pub(super) fn url(&self) -> String {
        format!("{STORE}/{}", self.number)
    }

    /// The version of an object, for another process; `None` for a file.
    pub(super) fn object_version(&self) -> Option<ObjectVersion> {
        match &self.kept {
            ByteSource::File(..) => None,
            ByteSource::Object(object) => Some(object.description()),
        }
    }

    /// Where it was opened.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Its properties when it was opened.
    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The number of bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// False if any read failed.
    pub(super) fn is_readable(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    /// Passes a result on, and remembers a failure.
    fn noted<T>(&self, read: io::Result<T>) -> io::Result<T> {
        read.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }

    /// The store's name for the version of an object; empty for a file, which its properties
    /// identify.
    pub(super) fn version(&self) -> String {
        match &self.kept {
            ByteSource::File(..) => String::new(),
            ByteSource::Object(object) => object.version(),
        }
    }

    /// Whether its properties did not change since it was opened. Every read of an object asks for
    /// its version, so its bytes did not change.
    pub(super) fn is_untouched(&self) -> bool {
        match &self.kept {
            ByteSource::File(file, _) => {
                file.metadata().is_ok_and(|metadata| Stamp::from_metadata(&metadata) == self.stamp)
            }
            ByteSource::Object(_) => true,
        }
    }

    /// Whether this path names the open file, unchanged.
    pub(super) fn is_at(&self, path: &str) -> bool {
        std::fs::metadata(path).is_ok_and(|found| Stamp::from_metadata(&found) == self.stamp)
    }

    /// A reader that starts at the beginning.
    pub(super) fn reader(self: &Arc<Self>) -> FileReader {
        self.reader_at(0)
    }

    fn reader_at(self: &Arc<Self>, at: u64) -> FileReader {
        FileReader { held: Arc::clone(self), at, ahead: Vec::new(), ahead_at: 0 }
    }

    /// The SHA-256 of its bytes, in hexadecimal, computed at the first call.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn sha256(self: &Arc<Self>) -> io::Result<&str> {
        if self.sha256.get().is_none() {
            let hash = self.sha256_now()?;
            return Ok(self.sha256.get_or_init(|| hash));
        }
        Ok(self.sha256.get().map_or("", String::as_str))
    }

    /// The SHA-256 of its bytes, computed anew.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn sha256_now(self: &Arc<Self>) -> io::Result<String> {
        let mut hash = Sha256::new();
        let mut reader = self.reader();
        let mut buffer = vec![0_u8; BLOCK];
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(buffer.get(..read).unwrap_or_default());
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn bytes(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let length = range.end.saturating_sub(range.start);
        let bytes = match &self.kept {
            ByteSource::File(file, _) => {
                let mut bytes = vec![0_u8; usize::try_from(length).map_err(io::Error::other)?];
                file.read_exact_at(&mut bytes, range.start).map(|()| bytes)
            }
            ByteSource::Object(object) => object.bytes(range),
        };
        self.read.fetch_add(length, Ordering::Relaxed);
        self.noted(bytes)
    }

    /// The metadata that DataFusion needs.
    ///
    /// # Errors
    /// If the file system does not tell when the file was modified.
    pub(super) fn object(&self) -> Result<ObjectMeta> {
        self.meta(&Path::from(self.number.to_string()))
    }

    fn meta(&self, location: &Path) -> Result<ObjectMeta> {
        Ok(ObjectMeta {
            location: location.clone(),
            last_modified: match &self.kept {
                ByteSource::File(_, metadata) => metadata.modified().map_err(failed)?.into(),
                ByteSource::Object(object) => {
                    chrono::DateTime::from_timestamp_nanos(object.modified_nanos())
                }
            },
            size: self.stamp.size,
            e_tag: None,
            version: None,
        })
    }
}

/// A reader of an open file, with its own position.
#[derive(Debug)]
pub(super) struct FileReader {
    held: Arc<OpenFile>,
    at: u64,
    /// A block of bytes of an object, and the position where it begins.
    ahead: Vec<u8>,
    ahead_at: u64,
}

impl FileReader {
    /// The bytes of an object from here to the end of the present block, or the next block.
    fn ahead(&mut self) -> io::Result<&[u8]> {
        let known = |reader: &Self| {
            let skipped = usize::try_from(reader.at.checked_sub(reader.ahead_at)?).ok()?;
            (skipped < reader.ahead.len()).then_some(skipped)
        };
        if known(self).is_none() {
            let block = u64::try_from(BLOCK).map_err(io::Error::other)?;
            let until = self.held.stamp.size.min(self.at.saturating_add(block));
            let bytes = if self.at < until { self.held.bytes(self.at..until)? } else { Vec::new() };
            (self.ahead, self.ahead_at) = (bytes, self.at);
        }
        let skipped = known(self).unwrap_or(self.ahead.len());
        Ok(self.ahead.get(skipped..).unwrap_or_default())
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &self.held.kept {
            ByteSource::File(file, _) => self.held.noted(file.read_at(buffer, self.at))?,
            ByteSource::Object(_) => self.ahead()?.read(buffer)?,
        };
        let length = u64::try_from(read).map_err(io::Error::other)?;
        self.held.read.fetch_add(length, Ordering::Relaxed);
        self.at = self.at.saturating_add(length);
        Ok(read)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.held.stamp.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// An open file for the reader of Parquet footers.
pub(super) struct Chunks(pub(super) Arc<OpenFile>);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.stamp.size
    }
}

impl ChunkReader for Chunks {
    type T = FileReader;

    fn get_read(&self, start: u64) -> ParquetResult<FileReader> {
        Ok(self.0.reader_at(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let length = u64::try_from(length).map_err(|e| ParquetError::External(Box::new(e)))?;
        let bytes = self.0.bytes(start..start.saturating_add(length));
        Ok(bytes.map_err(|e| ParquetError::External(Box::new(e)))?.into())
    }
}

/// The open files of an engine by their numbers, as long as a statement holds them.
#[derive(Default)]
pub(crate) struct HeldFiles {
    known: Mutex<KnownFiles>,
    /// The SHA-256 of files, by their stamps.
    sha256: Mutex<HashMap<Stamp, String>>,
}

#[derive(Default)]
struct KnownFiles {
    /// The number of opened files; only decides when to clear up.
    opened: u64,
    files: HashMap<u64, Weak<OpenFile>>,
}

/// The most hashes to keep.
const MOST_HASHES: usize = 1_000;

impl HeldFiles {
    /// The SHA-256 of the file with this stamp, if it was computed before.
    pub(super) fn sha256_of(&self, stamp: Stamp) -> Option<String> {
        self.sha256.lock().unwrap_or_else(PoisonError::into_inner).get(&stamp).cloned()
    }

    /// Keeps the SHA-256 of the file with this stamp.
    pub(super) fn keep_sha256(&self, stamp: Stamp, sha256: &str) {
        let mut known = self.sha256.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_HASHES {
            known.clear();
        }
        known.insert(stamp, sha256.to_owned());
    }

    /// Opens a file and keeps it open until its last user drops it.
    ///
    /// # Errors
    /// As [`OpenFile::open`].
    pub(super) fn open(&self, location: &str) -> io::Result<Arc<OpenFile>> {
        self.keep(|number| OpenFile::open(location, number))
    }

    /// Keeps an open file until its last user drops it; `path` tells where it was opened.
    ///
    /// # Errors
    /// If it is not a file.
    pub(super) fn hold(&self, file: File, path: Option<String>) -> io::Result<Arc<OpenFile>> {
        self.keep(|number| OpenFile::of_file(file, path, number))
    }

    /// Opens a file under the number from another process, and keeps it until its last user drops
    /// it.
    ///
    /// # Errors
    /// As [`OpenFile::open`].
    pub(super) fn open_as(&self, location: &str, number: u64) -> io::Result<Arc<OpenFile>> {
        Ok(self.keep_as(OpenFile::open(location, number)?))
    }

    /// Keeps a version of an object under the number from another process, until its last user
    /// drops it.
    pub(super) fn hold_object_as(&self, object: Object, number: u64) -> Arc<OpenFile> {
        self.keep_as(OpenFile::of_object(object, number))
    }

    fn keep_as(&self, held: OpenFile) -> Arc<OpenFile> {
        let held = Arc::new(held);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.files.insert(held.number, Arc::downgrade(&held));
        held
    }

    /// The file with this number, if it is still open.
    pub(super) fn numbered(&self, location: &Path) -> Option<Arc<OpenFile>> {
        self.find(location).ok()
    }

    /// Keeps a version of an object until its last user drops it.
    ///
    /// # Errors
    /// Never.
    pub(super) fn hold_object(&self, object: Object) -> io::Result<Arc<OpenFile>> {
        self.keep(|number| Ok(OpenFile::of_object(object, number)))
    }

    /// Keeps a file under a new number.
    ///
    /// # Guarantee
    /// The number is random. Consecutive numbers would reveal how many files other statements
    /// opened, and so how many files a private folder has.
    fn keep(&self, open: impl FnOnce(u64) -> io::Result<OpenFile>) -> io::Result<Arc<OpenFile>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Checking all files each time would take long for a table with many files.
        if known.opened.is_multiple_of(64) {
            known.files.retain(|_, held| held.strong_count() > 0);
        }
        known.opened = known.opened.saturating_add(1);
        let number = loop {
            let number = random_number()?;
            if !known.files.contains_key(&number) {
                break number;
            }
        };
        let held = Arc::new(open(number)?);
        known.files.insert(number, Arc::downgrade(&held));
        Ok(held)
    }

    fn find(&self, location: &Path) -> Result<Arc<OpenFile>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let number = location.as_ref().parse().ok();
        let held = number.and_then(|number: u64| known.files.get(&number)?.upgrade());
        held.ok_or_else(|| failed(io::Error::from(io::ErrorKind::NotFound)))
    }
}

/// A random number, which reveals nothing.
fn random_number() -> io::Result<u64> {
    let nonce = QueryRng::nonce().map_err(io::Error::other)?;
    let mut bytes = [0_u8; 8];
    bytes.iter_mut().zip(nonce).for_each(|(byte, random)| *byte = random);
    Ok(u64::from_le_bytes(bytes))
}

impl fmt::Debug for HeldFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldFiles")
    }
}

impl fmt::Display for HeldFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held files")
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic { store: "held", source: Box::new(error) }
}

fn read_only<T>() -> Result<T> {
    Err(failed(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)))
}

/// The bytes of a range, block by block.
fn blocks(held: Arc<OpenFile>, range: Range<u64>) -> GetResultPayload {
    let Range { start, end } = range;
    let blocks = stream::try_unfold(start, move |at| {
        let held = Arc::clone(&held);
        async move {
            if at >= end {
                return Ok(None);
            }
            let block = u64::try_from(BLOCK).map_err(failed)?;
            let until = end.min(at.saturating_add(block));
            let read = spawn_blocking(move || held.bytes(at..until)).await.map_err(failed)?;
            Ok(Some((read.map_err(failed)?.into(), until)))
        }
    });
    GetResultPayload::Stream(blocks.boxed())
}

/// Files can be read by their numbers; every other operation fails.
#[async_trait]
impl ObjectStore for HeldFiles {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let held = self.find(location)?;
        let meta = held.meta(location)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(failed)?,
            None => 0..meta.size,
        };
        let read = if options.head { 0..0 } else { range.clone() };
        let payload = blocks(held, read);
        Ok(GetResult { payload, meta, range, attributes: Attributes::new() })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let one = prefix.map(|location| self.find(location)?.meta(location));
        stream::iter(one).boxed()
    }

    async fn list_with_delimiter(&self, _prefix: Option<&Path>) -> Result<ListResult> {
        Ok(ListResult { common_prefixes: Vec::new(), objects: Vec::new() })
    }

    async fn put_opts(
        &self,
        _location: &Path,
        _payload: PutPayload,
        _options: PutOptions,
    ) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(
        &self,
        _location: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    fn delete_stream(
        &self,
        _locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::iter([read_only()]).boxed()
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the numbers 1, 2, 3 …, `input_file_name()` would reveal how many files a private folder
    /// has: the difference between the numbers before and after a query.
    #[test]
    fn the_name_of_a_file_does_not_tell_how_many_were_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        std::fs::write(&path, "rows").unwrap();
        let store = HeldFiles::default();
        let open = || store.open(path.to_str().unwrap()).unwrap();
        let held: Vec<Arc<OpenFile>> = (0..20).map(|_| open()).collect();
        for file in &held {
            let location = file.object().unwrap().location;
            assert_eq!(store.numbered(&location).unwrap().number(), file.number());
        }
        let mut numbers: Vec<u64> = held.iter().map(|file| file.number()).collect();
        numbers.sort_unstable();
        // Twenty random numbers of 64 bits lie this close with a probability below 10⁻⁶.
        let apart = numbers.windows(2).all(|pair| pair[1] - pair[0] > 1 << 30);
        assert!(apart, "{numbers:?}");
    }
}
