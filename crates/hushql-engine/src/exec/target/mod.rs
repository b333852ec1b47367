//! Files for answers.
//!
//! In: a folder, a name, and the batches of an answer, or texts. Out: a new file that holds them.
//! The file is created before the query is charged, so that a query whose answer cannot be written
//! costs nothing. It is removed if nothing was written. A file that exists is never touched.
//!
//! ```text
//! open the folder, link by link ─▶ create the file, which must be new ─▶ (charge, run) ─▶ write ─▶ keep
//!                                                                       └─ fails ─▶ remove
//! ```

mod csv_json;
pub(crate) mod folder;

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;

use crate::dialect::CopyFormat;
use crate::exec::target::csv_json::{csv, json};
use crate::exec::target::folder::TargetFolder;

/// What a file holds.
#[derive(Debug)]
pub(crate) struct FileContents {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    /// Texts by their names, which Parquet and Arrow keep beside the rows. CSV and JSON have no
    /// place for them.
    pub(crate) metadata: Vec<(String, String)>,
}

impl FileContents {
    /// The bytes of a file that holds this and nothing else.
    ///
    /// # Errors
    /// That of a type that the format lacks.
    pub(crate) fn bytes(&self, format: CopyFormat) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes, format)?;
        Ok(bytes)
    }

    fn write(&self, to: impl Write + Send, format: CopyFormat) -> io::Result<()> {
        let Self { schema, batches, metadata: _ } = self;
        match format {
            CopyFormat::Csv => csv(to, schema, batches).map_err(io::Error::other),
            CopyFormat::Json => json(to, batches).map_err(io::Error::other),
            CopyFormat::Parquet => parquet(to, self).map_err(io::Error::other),
            CopyFormat::Arrow => arrow_file(to, self).map_err(io::Error::other),
        }
    }
}

/// A new file for an answer, or for texts one after another. It is removed unless something was
/// written.
#[derive(Debug)]
pub(crate) struct TargetFile {
    folder: TargetFolder,
    name: String,
    file: Option<File>,
    /// The number of bytes written as texts.
    length: u64,
}

impl TargetFile {
    /// Creates the file.
    ///
    /// # Guarantee
    /// `Ok` only if nothing had the name, not even a link: everything is written into a new file in
    /// the open folder.
    ///
    /// # Errors
    /// Those of the file system; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    pub(crate) fn create(folder: TargetFolder, name: &str) -> io::Result<Self> {
        let file = folder.create(name)?;
        Ok(Self { folder, name: name.to_owned(), file: Some(file), length: 0 })
    }

    /// Writes an answer, and keeps the file.
    ///
    /// # Errors
    /// Those of the file system, and of a type that the format lacks; the file is then removed.
    pub(crate) fn write(mut self, contents: &FileContents, format: CopyFormat) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let mut writer = BufWriter::new(file);
        contents.write(&mut writer, format)?;
        writer.flush()?;
        drop(writer);
        file.sync_all()?;
        self.file = None;
        Ok(())
    }

    /// Appends a text to the file, and keeps the file.
    ///
    /// # Errors
    /// Those of the file system; the file then holds what it held before.
    pub(crate) fn append(&mut self, text: &str) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        match file.write_all(text.as_bytes()).and_then(|()| file.sync_data()) {
            Ok(()) => {
                self.length = file.stream_position()?;
                Ok(())
            }
            Err(error) => {
                // Half a text is worse than none. If this fails, too, the error says enough.
                let _ = file.set_len(self.length);
                let _ = file.seek(SeekFrom::Start(self.length));
                Err(error)
            }
        }
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if self.file.take().is_some() && self.length == 0 {
            // If the file cannot be removed, nothing more can be done; it is empty or holds a part
            // of an answer.
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// The first column whose type a format lacks: an interval in Parquet, a list in CSV.
pub(crate) fn unknown_to(format: CopyFormat, schema: &Schema) -> Option<&FieldRef> {
    // Only writing shows for sure whether a writer takes a type: here, it writes a NULL.
    let takes = |field: &FieldRef| {
        let nullable = field.as_ref().clone().with_nullable(true);
        let values = new_null_array(field.data_type(), 1);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![nullable])), vec![values]);
        batch.is_ok_and(|batch| {
            let (schema, metadata) = (batch.schema(), Vec::new());
            let contents = FileContents { schema, batches: vec![batch], metadata };
            contents.write(io::sink(), format).is_ok()
        })
    };
    schema.fields().iter().find(|field| !takes(field))
}

fn parquet(to: impl Write + Send, contents: &FileContents) -> Result<(), ParquetError> {
    let (schema, batches) = plain_texts(contents)?;
    let entry = |(key, value): &(String, String)| KeyValue::new(key.clone(), value.clone());
    // Readers of Arrow find the texts in the schema, others among the entries of the file.
    let metadata = contents.metadata.iter().map(entry).collect();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
    let mut writer = ArrowWriter::try_new(to, schema, Some(properties))?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.close().map(drop)
}

fn arrow_file(to: impl Write, contents: &FileContents) -> Result<(), ArrowError> {
    let (schema, batches) = plain_texts(contents)?;
    let mut writer = FileWriter::try_new(to, &schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}

/// The columns and rows, with the metadata in the schema, and without views, which are newer than
/// many readers of Arrow.
fn plain_texts(contents: &FileContents) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let plain = |data_type: &DataType| match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    };
    let field = |field: &FieldRef| match plain(field.data_type()) {
        Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        None => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = contents.schema.fields().iter().map(field).collect();
    let metadata = contents.metadata.iter().cloned().collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batches = contents.batches.iter().map(|batch| {
        let column = |column: &ArrayRef| match plain(column.data_type()) {
            Some(data_type) => cast(column, &data_type),
            None => Ok(Arc::clone(column)),
        };
        let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)
    });
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    Ok((schema, batches))
}
