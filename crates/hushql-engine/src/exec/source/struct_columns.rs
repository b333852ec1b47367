//! Structs of Parquet and Arrow files, whose fields are columns of the table, and columns that the
//! names of folders say, too.
//!
//! In: the columns of a file. Out: the same columns, with the fields of each struct in its place,
//! and above a scan of the file a projection to them. The fields of structs in structs are columns,
//! too. Lists and maps stay as they are: nothing is computed from them.
//!
//! ```text
//! id BIGINT, address STRUCT(city VARCHAR, zip INT)      id, "address.city", "address.zip"
//! ```
//!
//! The names are those of the file's description, so they are as public as its other columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::catalog::RESERVED;
use crate::functions::{field_of_structs, struct_field_function};

/// The depth to which structs in structs are taken apart.
const MOST_DEPTH: usize = 16;

/// Where the values of a column are: in a column of the file, or in a field of its structs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldPath {
    root: usize,
    /// The places of the fields on the way.
    below: Vec<usize>,
}

/// The columns of a file of which some are structs.
#[derive(Debug, Clone)]
pub(super) struct StructColumns {
    roots: SchemaRef,
    paths: Vec<FieldPath>,
}

/// The columns of a file without those that the names of its folders say, and with the fields of
/// structs in their place; and how they lie in the file, if that differs. If two columns got one
/// name, structs stay as they are.
pub(super) fn without_structs(
    schema: &SchemaRef,
    keys: &[String],
) -> (SchemaRef, Option<StructColumns>) {
    let (mut fields, mut paths) = (Vec::new(), Vec::new());
    let (mut plain, mut roots) = (Vec::new(), Vec::new());
    for (root, field) in schema.fields().iter().enumerate() {
        if keys.contains(field.name()) {
            continue;
        }
        let path = FieldPath { root, below: Vec::new() };
        plain.push(Arc::clone(field));
        roots.push(path.clone());
        take_apart(field, path, &mut fields, &mut paths);
    }
    let names: BTreeSet<&String> = fields.iter().map(|field| field.name()).collect();
    if names.len() < fields.len() || paths.iter().all(|path| path.below.is_empty()) {
        if plain.len() == schema.fields().len() {
            return (Arc::clone(schema), None);
        }
        (fields, paths) = (plain, roots);
    }
    let structs = StructColumns { roots: Arc::clone(schema), paths };
    (Arc::new(Schema::new(fields)), Some(structs))
}

fn take_apart(
    field: &FieldRef,
    path: FieldPath,
    fields: &mut Vec<FieldRef>,
    paths: &mut Vec<FieldPath>,
) {
    match field.data_type() {
        DataType::Struct(inner) if !inner.is_empty() && path.below.len() < MOST_DEPTH => {
            for (place, own) in inner.iter().enumerate() {
                let name = format!("{}.{}", field.name(), own.name());
                let own = Arc::new(own.as_ref().clone().with_name(name).with_nullable(true));
                let below = path.below.iter().copied().chain([place]).collect();
                take_apart(&own, FieldPath { root: path.root, below }, fields, paths);
            }
        }
        _ => {
            fields.push(Arc::clone(field));
            paths.push(path);
        }
    }
}

impl StructColumns {
    /// The columns of the file as its reader yields them. `stored` has the table's columns in the
    /// types in which they are read, and behind them those of folders' names.
    pub(super) fn read(&self, stored: &Schema) -> SchemaRef {
        let own = self.roots.fields().iter().enumerate().map(|(root, field)| {
            let as_read = self.paths.iter().zip(stored.fields());
            let as_read = as_read.filter(|(path, _)| path.root == root && path.below.is_empty());
            as_read.map(|(_, read)| Arc::clone(read)).next().unwrap_or_else(|| Arc::clone(field))
        });
        // A column of the file may have the name of a folder's.
        let behind = stored.fields().iter().skip(self.paths.len());
        let behind = behind.map(|field| match self.place_of(field.name()) {
            Some(_) => {
                let name = format!("{RESERVED}_folder_{}", field.name());
                Arc::new(field.as_ref().clone().with_name(name))
            }
            None => Arc::clone(field),
        });
        Arc::new(Schema::new(own.chain(behind).collect::<Vec<FieldRef>>()))
    }

    /// The place of a column of the file.
    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        self.roots.fields().iter().position(|field| field.name() == name)
    }

    /// The number of columns in the file.
    pub(super) fn width(&self) -> usize {
        self.roots.fields().len()
    }

    /// The columns of the file, and those of folders' names behind them, in which these columns of
    /// the table lie.
    pub(super) fn needed(&self, columns: &[usize]) -> Vec<usize> {
        let needed: BTreeSet<usize> = columns.iter().map(|i| self.root(*i)).collect();
        needed.into_iter().collect()
    }

    fn root(&self, column: usize) -> usize {
        match self.paths.get(column) {
            Some(path) => path.root,
            None => self.width() + column.saturating_sub(self.paths.len()),
        }
    }

    /// The values of a column of the table, from those columns of the file that are needed.
    ///
    /// # Errors
    /// An internal error for a column that is no struct.
    pub(super) fn values(
        &self,
        column: usize,
        needed: &[usize],
        of_file: &[ArrayRef],
    ) -> Result<Option<ArrayRef>> {
        let place = needed.iter().position(|root| *root == self.root(column));
        let Some(root) = place.and_then(|place| of_file.get(place)) else { return Ok(None) };
        let taken = self
            .below(column)
            .iter()
            .try_fold(Arc::clone(root), |structs, place| field_of_structs(&structs, *place));
        taken.map(Some)
    }

    fn below(&self, column: usize) -> &[usize] {
        self.paths.get(column).map(|path| path.below.as_slice()).unwrap_or_default()
    }

    /// The columns of the table above a scan of those that it needs.
    ///
    /// # Errors
    /// DataFusion's, for a scan of other columns.
    pub(super) fn taken_apart(
        &self,
        scan: Arc<dyn ExecutionPlan>,
        columns: &[usize],
        names: &Schema,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if columns.is_empty() {
            return Ok(scan);
        }
        let needed = self.needed(columns);
        let schema = scan.schema();
        let mut projected = Vec::with_capacity(columns.len());
        for i in columns {
            let root = self.root(*i);
            let place = needed.iter().position(|of| *of == root);
            let place = place.ok_or_else(crate::grid::failed)?;
            let mut expr: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(schema.field(place).name(), place));
            for below in self.below(*i) {
                let below = i64::try_from(*below).ok();
                let below: Arc<dyn PhysicalExpr> =
                    Arc::new(Literal::new(ScalarValue::Int64(below)));
                let inputs = vec![expr, below];
                let function = struct_field_function();
                let options = Arc::default();
                expr = Arc::new(ScalarFunctionExpr::try_new(function, inputs, &schema, options)?);
            }
            projected.push(ProjectionExpr { expr, alias: names.field(*i).name().clone() });
        }
        Ok(Arc::new(ProjectionExec::try_new(projected, scan)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn fields_of_structs_are_columns() {
        let of = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), false);
        let (number, text) = (DataType::Int64, DataType::Utf8);
        let at = DataType::Struct(vec![of("x", &number), of("y", &number)].into());
        let address = DataType::Struct(vec![of("city", &text), of("at", &at)].into());
        let fields = vec![of("id", &number), of("address", &address), of("n", &number)];
        let file = Arc::new(Schema::new(fields));
        let (flat, structs) = without_structs(&file, &[]);
        let names: Vec<&String> = flat.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, ["id", "address.city", "address.at.x", "address.at.y", "n"]);
        let structs = structs.unwrap();
        assert_eq!(structs.needed(&[1, 3, 4, 5]), [1, 2, 3]);
        let (flat, keyed) = without_structs(&file, &["n".to_owned()]);
        assert_eq!((flat.fields().len(), keyed.unwrap().width()), (4, 3));
        let plain = Arc::new(Schema::new(vec![of("year", &number), of("id", &number)]));
        let (flat, keyed) = without_structs(&plain, &["year".to_owned()]);
        assert_eq!((flat.fields().len(), keyed.unwrap().needed(&[0, 1])), (1, vec![1, 2]));
        // A column of the name that a field would get.
        let fields = vec![of("address.city", &text), of("address", &address)];
        assert!(without_structs(&Arc::new(Schema::new(fields)), &[]).1.is_none());
        let fields = vec![
            of("id", &number),
            of("none", &DataType::Struct(arrow::datatypes::Fields::empty())),
        ];
        assert!(without_structs(&Arc::new(Schema::new(fields)), &[]).1.is_none());
    }
}
