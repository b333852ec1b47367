//! Random schemas: people, what leads to them, and public tables.
//!
//! One world has a person table, one to three tables that lead to it along links (in a chain, or side by side), often
//! a table in which every row is a unit, and up to two public tables, whose rows are fixed: they are read while a
//! query is planned. All tables have columns of the same names, so that nothing is told apart by luck.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::physical_plan::streaming::PartitionStream;
use hushql::bind::Sources;
use hushql::catalog::{Catalog, Column, Domain, Link, Privacy, Source, Table, Unit};
use hushql::exec::PrivateTable;

use super::rows::{Database, Row, public_rows};
use crate::sensitivity::Dice;
use crate::swap::Swap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    Float,
    Text,
}

#[derive(Debug, Clone)]
pub struct Field_ {
    pub name: &'static str,
    pub kind: Kind,
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
        let fields = self.fields.iter().map(|field| {
            let data_type = match field.kind {
                Kind::Int => DataType::Int64,
                Kind::Float => DataType::Float64,
                Kind::Text => DataType::Utf8,
            };
            Field::new(field.name, data_type, true)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    pub fn batch(&self, rows: &[Row]) -> RecordBatch {
        let columns = self.fields.iter().enumerate().map(|(i, field)| -> ArrayRef {
            match field.kind {
                Kind::Int => Arc::new(rows.iter().map(|r| r[i].int()).collect::<Int64Array>()),
                Kind::Float => {
                    Arc::new(rows.iter().map(|r| r[i].float()).collect::<Float64Array>())
                }
                Kind::Text => Arc::new(rows.iter().map(|r| r[i].text()).collect::<StringArray>()),
            }
        });
        RecordBatch::try_new(self.schema(), columns.collect()).unwrap()
    }

    fn table(&self) -> Table {
        let columns = self.schema();
        let columns = columns.fields().iter().zip(&self.fields).map(|(arrow, field)| Column {
            name: field.name.to_owned(),
            data_type: arrow.data_type().to_string(),
            nullable: true,
            domain: field.domain.clone(),
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

/// A schema that can be queried, over rows that can be swapped.
pub struct World {
    pub plan: Plan,
    pub catalog: Arc<Catalog>,
    pub sources: Sources,
    swaps: Vec<Vec<Swap>>,
}

pub fn fields(dice: &mut Dice, key: Kind, own: &[&'static str], public: bool) -> Vec<Field_> {
    let between = |lo: &str, hi: &str| {
        Some(Domain::Between { lo: lo.to_owned(), hi: hi.to_owned(), step: None })
    };
    let listed = |values: &[Option<&str>]| {
        Some(Domain::In(values.iter().map(|v| v.map(ToOwned::to_owned)).collect()))
    };
    let mut fields: Vec<Field_> = own
        .iter()
        .map(|name| Field_ {
            name,
            kind: if *name == "l2" { Kind::Int } else { key },
            domain: None,
        })
        .collect();
    let mut add = |name, kind, domain: Option<Domain>| {
        let domain = domain.filter(|_| !dice.one_in(5));
        fields.push(Field_ { name, kind, domain });
    };
    add("k", key, None);
    add("j", Kind::Int, None);
    add("a", Kind::Int, if public { None } else { between("0", "10") });
    add("b", Kind::Int, None);
    add("x", Kind::Float, if public { None } else { between("-2.5", "3") });
    add("y", Kind::Float, None);
    add("s", Kind::Text, if public { None } else { listed(&[Some("p"), Some("q"), None]) });
    add("c", Kind::Text, None);
    fields
}

impl Plan {
    pub fn random(dice: &mut Dice) -> Self {
        let text = dice.one_in(2);
        let key = if text { Kind::Text } else { Kind::Int };
        let bound = |dice: &mut Dice| dice.pick(&[None, Some(1), Some(2), Some(3), Some(5)]);
        let unique = dice.one_in(2);
        let max_rows = if unique { None } else { bound(dice) };
        let mut relations = vec![Relation {
            name: "p".to_owned(),
            fields: fields(dice, key, &["u"], false),
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
                space: "p".to_owned(),
            };
            relations.push(Relation {
                name: format!("c{i}"),
                fields: fields(dice, key, &["l1", "l2"], false),
                role: Role::Child { parent, link },
            });
        }
        if dice.one_in(2) {
            let fields = fields(dice, key, &[], false);
            relations.push(Relation { name: "r".to_owned(), fields, role: Role::Row });
        }
        let mut public = BTreeMap::new();
        for name in ["w", "v"].iter().take(dice.below(3)) {
            let fields = fields(dice, key, &[], true);
            let relation = Relation { name: (*name).to_owned(), fields, role: Role::Public };
            public.insert(relations.len(), public_rows(dice, &relation, text));
            relations.push(relation);
        }
        Self { relations, public, text }
    }

    /// Opens the schema; its private tables are read in so many partitions.
    pub fn open(&self, partitions: usize) -> World {
        let mut sources = BTreeMap::new();
        let mut swaps = Vec::new();
        for (i, relation) in self.relations.iter().enumerate() {
            let schema = relation.schema();
            let own: Vec<Swap> = (0..partitions).map(|_| Swap::new(Arc::clone(&schema))).collect();
            let source = match self.public.get(&i) {
                Some(rows) => {
                    let table = MemTable::try_new(schema, vec![vec![relation.batch(rows)]]);
                    provider_as_source(Arc::new(table.unwrap()))
                }
                None => {
                    let streams =
                        own.iter().map(|s| Arc::new(s.clone()) as Arc<dyn PartitionStream>);
                    let table = StreamingTable::try_new(schema, streams.collect()).unwrap();
                    let name = relation.name.as_str();
                    provider_as_source(Arc::new(PrivateTable::new(name, Arc::new(table))))
                }
            };
            sources.insert(relation.name.clone(), source);
            swaps.push(own);
        }
        let tables = self.relations.iter().map(Relation::table);
        let catalog = Arc::new(Catalog::new(tables, []));
        World { plan: self.clone(), catalog, sources, swaps }
    }
}

impl World {
    /// Puts rows in place: cut into batches of so many rows, which are dealt to the partitions.
    pub fn set(&self, database: &Database, batch_rows: usize) {
        for ((relation, rows), swaps) in
            self.plan.relations.iter().zip(&database.tables).zip(&self.swaps)
        {
            let batches: Vec<RecordBatch> =
                rows.chunks(batch_rows).map(|rows| relation.batch(rows)).collect();
            for (i, swap) in swaps.iter().enumerate() {
                swap.set(batches.iter().skip(i).step_by(swaps.len()).cloned().collect());
            }
        }
    }

    pub fn relation(&self, name: &str) -> usize {
        self.plan.relations.iter().position(|relation| relation.name == name).unwrap()
    }
}
