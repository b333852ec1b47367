//! Random schemas: people, what leads to them, and public tables.
//!
//! One world has a person table, one to three tables that lead to it along links (in a chain, or
//! side by side), often a table in which every row is a unit, and up to two public tables, whose
//! rows are fixed: they are read while a query is planned. All tables have columns of the same
//! names, so that nothing is told apart by luck.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::physical_plan::streaming::PartitionStream;
use hushql_engine::bind::Sources;
use hushql_engine::exec::PrivateTable;
use hushql_vault::catalog::{Catalog, Column, Domain, Link, Privacy, Source, Table, Unit};

use super::rows::{Database, Row, public_rows};
use super::stored::{column, parquet};
use crate::privacy::sensitivity::Dice;
use crate::privacy::swap::Swap;

/// What can be done with a column: its type is one of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    /// Floats and decimals.
    Float,
    Text,
    /// Days: dates and timestamps.
    Time,
    Flag,
}

/// The types of a kind; the first is what columns have that are nothing special.
fn types(kind: Kind) -> Vec<DataType> {
    let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    match kind {
        Kind::Int => vec![
            DataType::Int64,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
        ],
        Kind::Float => vec![
            DataType::Float64,
            DataType::Float32,
            DataType::Decimal128(10, 2),
            DataType::Decimal128(38, 0),
        ],
        Kind::Text => vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View],
        Kind::Time => vec![
            DataType::Date32,
            stamp(TimeUnit::Second, None),
            stamp(TimeUnit::Millisecond, None),
            stamp(TimeUnit::Microsecond, None),
            stamp(TimeUnit::Nanosecond, None),
            stamp(TimeUnit::Microsecond, Some("UTC")),
            stamp(TimeUnit::Second, Some("+02:00")),
        ],
        Kind::Flag => vec![DataType::Boolean],
    }
}

/// The types of a schema: that of keys, and which others there are.
#[derive(Debug, Clone)]
pub struct Types {
    pub key: DataType,
    /// Whether columns have all sorts of types.
    pub mixed: bool,
}

impl Types {
    /// 64 bits, and plain texts.
    pub fn plain(text: bool) -> Self {
        Self { key: if text { DataType::Utf8 } else { DataType::Int64 }, mixed: false }
    }

    fn random(dice: &mut Dice) -> (Self, bool) {
        let text = dice.one_in(2);
        let keys = if text {
            types(Kind::Text)
        } else {
            // The others do not hold every key.
            vec![DataType::Int64, DataType::UInt64, DataType::Decimal128(20, 0)]
        };
        let plain = Self::plain(text);
        match dice.one_in(2) {
            true => (Self { key: keys[dice.below(keys.len())].clone(), mixed: true }, text),
            false => (plain, text),
        }
    }

    fn of(&self, dice: &mut Dice, kind: Kind) -> DataType {
        let mut all = types(kind);
        let i = if self.mixed { dice.below(all.len()) } else { 0 };
        all.swap_remove(i)
    }
}

#[derive(Debug, Clone)]
pub struct Field_ {
    pub name: &'static str,
    pub kind: Kind,
    pub data_type: DataType,
    pub domain: Option<Domain>,
}

/// What a table is to people.
#[derive(Debug, Clone)]
pub enum Role {
    Person { max_rows: Option<u64>, unique: bool },
    Child { parent: usize, link: Link },
    Row,
    Public,
}

#[derive(Debug, Clone)]
pub struct Relation {
    pub name: String,
    pub fields: Vec<Field_>,
    pub role: Role,
}

impl Relation {
    pub fn at(&self, column: &str) -> usize {
        self.fields.iter().position(|field| field.name == column).unwrap()
    }

    pub fn is_public(&self) -> bool {
        matches!(self.role, Role::Public)
    }

    /// How it is kept where private tables are kept so: texts are of one type where they are
    /// compared.
    fn kept(&self, stored: Stored) -> Stored {
        match stored {
            Stored::Dictionary if self.is_public() => Stored::Batches,
            stored => stored,
        }
    }

    pub fn is_row(&self) -> bool {
        matches!(self.role, Role::Row)
    }

    pub fn link(&self) -> Option<(usize, &Link)> {
        match &self.role {
            Role::Child { parent, link } => Some((*parent, link)),
            Role::Person { .. } | Role::Row | Role::Public => None,
        }
    }

    pub fn max_rows(&self) -> Option<u64> {
        match &self.role {
            Role::Person { unique: true, .. } => Some(1),
            Role::Person { max_rows, .. } => *max_rows,
            Role::Child { link, .. } => link.max_rows,
            Role::Row | Role::Public => None,
        }
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema_as(Stored::Batches)
    }

    fn schema_as(&self, stored: Stored) -> SchemaRef {
        let fields = self.fields.iter().map(|field| {
            let own = field.data_type.clone();
            let data_type = match (field.kind, stored) {
                // No dictionary can name a unit, or lead to one.
                (Kind::Text, Stored::Dictionary) if matches!(field.name, "s" | "c") => {
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(own))
                }
                // Files are read so.
                (Kind::Text, Stored::Parquet { .. }) => DataType::Utf8View,
                _ => own,
            };
            Field::new(field.name, data_type, true)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    pub fn batch(&self, rows: &[Row]) -> RecordBatch {
        self.batch_as(rows, &self.schema())
    }

    /// Rows as columns of the schema's types.
    pub fn batch_as(&self, rows: &[Row], schema: &SchemaRef) -> RecordBatch {
        let columns = self.fields.iter().zip(schema.fields()).enumerate();
        let columns = columns.map(|(i, (field, arrow))| -> ArrayRef {
            column(field.kind, rows.iter().map(|row| &row[i]), arrow.data_type())
        });
        RecordBatch::try_new(Arc::clone(schema), columns.collect()).unwrap()
    }

    fn table(&self, stored: Stored) -> Table {
        // Of a file, the catalog keeps the types that were declared.
        let columns = match stored {
            Stored::Dictionary => self.schema_as(stored),
            Stored::Batches | Stored::Parquet { .. } => self.schema(),
        };
        let columns = columns.fields().iter().zip(&self.fields).map(|(arrow, field)| Column {
            name: field.name.to_owned(),
            data_type: arrow.data_type().to_string(),
            nullable: true,
            domain: field.domain.clone(),
            zone: None,
        });
        let privacy = match &self.role {
            Role::Person { max_rows, unique } => Privacy::Private(Unit::Column {
                column: "u".to_owned(),
                max_rows: *max_rows,
                unique: *unique,
            }),
            Role::Child { link, .. } => Privacy::Private(Unit::Via(link.clone())),
            Role::Row => Privacy::Private(Unit::Row),
            Role::Public => Privacy::Public,
        };
        let table = Table {
            name: self.name.clone(),
            source: Source::Registered,
            privacy,
            columns: columns.collect(),
        };
        table.check().unwrap();
        table
    }
}

/// A schema, and the public rows.
#[derive(Debug, Clone)]
pub struct Plan {
    pub relations: Vec<Relation>,
    pub public: BTreeMap<usize, Vec<Row>>,
    /// Whether keys are text.
    pub text: bool,
}

/// How private tables are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    Batches,
    /// Texts as keys of dictionaries, but for those that name units.
    Dictionary,
    /// In a file of small row groups, which the planner may skip where it has statistics of them.
    Parquet {
        statistics: bool,
    },
}

/// A schema that can be queried, over rows that can be swapped.
pub struct World {
    pub plan: Plan,
    pub catalog: Arc<Catalog>,
    pub sources: Sources,
    swaps: Vec<Vec<Swap>>,
    schemas: Vec<SchemaRef>,
    _files: Option<tempfile::TempDir>,
}

pub fn fields(dice: &mut Dice, types: &Types, own: &[&'static str], public: bool) -> Vec<Field_> {
    let between = |lo: &str, hi: &str| {
        // NULL is a group where some columns have none, and not where others have none.
        let or_null = lo.starts_with('-');
        Some(Domain::Between { lo: lo.to_owned(), hi: hi.to_owned(), step: None, or_null })
    };
    let listed = |values: &[Option<&str>]| {
        Some(Domain::In(values.iter().map(|v| v.map(ToOwned::to_owned)).collect()))
    };
    let key = match types.key {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        _ => Kind::Int,
    };
    let of_key = |name, kind| {
        let data_type = if kind == key && name != "j" && name != "l2" {
            types.key.clone()
        } else {
            DataType::Int64
        };
        Field_ { name, kind, data_type, domain: None }
    };
    let mut fields: Vec<Field_> =
        own.iter().map(|name| of_key(name, if *name == "l2" { Kind::Int } else { key })).collect();
    fields.push(of_key("k", key));
    fields.push(of_key("j", Kind::Int));
    let mut add = |name, kind, domain: Option<Domain>| {
        let data_type = types.of(dice, kind);
        let domain = match data_type {
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64
                if domain.is_some() && dice.one_in(2) =>
            {
                between("2", "9")
            }
            DataType::Decimal128(_, 0) => domain.and_then(|_| between("-2", "3")),
            _ => domain,
        };
        let domain = domain.filter(|_| !dice.one_in(5));
        fields.push(Field_ { name, kind, data_type, domain });
    };
    let private = |domain: Option<Domain>| if public { None } else { domain };
    add("a", Kind::Int, private(between("0", "10")));
    add("b", Kind::Int, None);
    add("x", Kind::Float, private(between("-2.5", "3")));
    add("y", Kind::Float, None);
    add("s", Kind::Text, private(listed(&[Some("p"), Some("q"), None])));
    add("c", Kind::Text, None);
    add("d", Kind::Time, private(between("2024-01-01", "2024-12-31")));
    add("f", Kind::Flag, None);
    fields
}

impl Plan {
    pub fn random(dice: &mut Dice) -> Self {
        let (types, text) = Types::random(dice);
        let bound = |dice: &mut Dice| dice.pick(&[None, Some(1), Some(2), Some(3), Some(5)]);
        let unique = dice.one_in(2);
        let max_rows = if unique { None } else { bound(dice) };
        let mut relations = vec![Relation {
            name: "p".to_owned(),
            fields: fields(dice, &types, &["u"], false),
            role: Role::Person { max_rows, unique },
        }];
        for i in 0..1 + dice.below(3) {
            let parent = if dice.one_in(2) { i } else { dice.below(i + 1) };
            // The parent's own way to its person, and its keys.
            let way = if parent == 0 { "u" } else { "l1" };
            let (columns, references): (&[&str], Vec<&str>) = match dice.below(6) {
                0 | 1 => (&["l1"], vec![way]),
                2 => (&["l1"], vec!["k"]),
                3 => (&["l1", "l2"], vec![way, "j"]),
                _ => (&["l1", "l2"], vec!["k", "j"]),
            };
            let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
            let link = Link {
                columns: own(columns),
                table: relations[parent].name.clone(),
                references: own(&references),
                max_rows: bound(dice),
            };
            relations.push(Relation {
                name: format!("c{i}"),
                fields: fields(dice, &types, &["l1", "l2"], false),
                role: Role::Child { parent, link },
            });
        }
        if dice.one_in(2) {
            let fields = fields(dice, &types, &[], false);
            relations.push(Relation { name: "r".to_owned(), fields, role: Role::Row });
        }
        let mut public = BTreeMap::new();
        for name in ["w", "v"].iter().take(dice.below(3)) {
            let fields = fields(dice, &types, &[], true);
            let relation = Relation { name: (*name).to_owned(), fields, role: Role::Public };
            public.insert(relations.len(), public_rows(dice, &relation, text));
            relations.push(relation);
        }
        Self { relations, public, text }
    }

    /// Opens the schema; its private tables are read in so many partitions.
    pub fn open(&self, partitions: usize) -> World {
        self.open_as(partitions, Stored::Batches, None)
    }

    /// Opens the schema over tables that are kept in some way; those of files are there once and
    /// for all.
    pub fn open_as(&self, partitions: usize, stored: Stored, database: Option<&Database>) -> World {
        let mut sources = BTreeMap::new();
        let (mut swaps, mut schemas) = (Vec::new(), Vec::new());
        let files = matches!(stored, Stored::Parquet { .. }).then(|| tempfile::tempdir().unwrap());
        for (i, relation) in self.relations.iter().enumerate() {
            let schema = relation.schema_as(relation.kept(stored));
            let own: Vec<Swap> = (0..partitions).map(|_| Swap::new(Arc::clone(&schema))).collect();
            let private = |table: Arc<dyn TableProvider>| {
                let table = PrivateTable::new(relation.name.as_str(), table);
                provider_as_source(Arc::new(table.pruned()))
            };
            let source = match (self.public.get(&i), stored, &files) {
                (Some(rows), _, _) => {
                    let batch = relation.batch_as(rows, &schema);
                    let table = MemTable::try_new(Arc::clone(&schema), vec![vec![batch]]);
                    provider_as_source(Arc::new(table.unwrap()))
                }
                (None, Stored::Parquet { statistics }, Some(folder)) => {
                    let rows = database.map_or(&[][..], |database| &database.tables[i]);
                    let path = folder.path().join(&relation.name);
                    let batch = relation.batch(rows);
                    private(parquet(&path, &batch, Arc::clone(&schema), statistics))
                }
                (None, _, _) => {
                    let streams =
                        own.iter().map(|s| Arc::new(s.clone()) as Arc<dyn PartitionStream>);
                    let table = StreamingTable::try_new(Arc::clone(&schema), streams.collect());
                    private(Arc::new(table.unwrap()))
                }
            };
            sources.insert(relation.name.clone(), source);
            swaps.push(own);
            schemas.push(schema);
        }
        let tables = self.relations.iter().map(|relation| relation.table(relation.kept(stored)));
        let catalog = Arc::new(Catalog::new(tables, []));
        World { plan: self.clone(), catalog, sources, swaps, schemas, _files: files }
    }
}

impl World {
    /// Puts rows in place: cut into batches of so many rows, which are dealt to the partitions.
    pub fn set(&self, database: &Database, batch_rows: usize) {
        let tables = self.plan.relations.iter().zip(&database.tables);
        for ((relation, rows), (swaps, schema)) in tables.zip(self.swaps.iter().zip(&self.schemas))
        {
            let batches: Vec<RecordBatch> =
                rows.chunks(batch_rows).map(|rows| relation.batch_as(rows, schema)).collect();
            for (i, swap) in swaps.iter().enumerate() {
                swap.set(batches.iter().skip(i).step_by(swaps.len()).cloned().collect());
            }
        }
    }

    /// The rows of a public table.
    pub fn public(&self, name: &str) -> RecordBatch {
        let at = self.relation(name);
        self.plan.relations[at].batch(&self.plan.public[&at])
    }

    pub fn relation(&self, name: &str) -> usize {
        self.plan.relations.iter().position(|relation| relation.name == name).unwrap()
    }
}
