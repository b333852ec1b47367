//! Databases from hostile pools, and their neighbours.
//!
//! A database is either honest, so that every declaration holds of it, or not: then several parents
//! share a key, and units have more rows than was declared. Both have dangling links, NULL links
//! and rows of nobody.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{Kind, Plan, Relation, Role};
use crate::privacy::sensitivity::Dice;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Float(f64),
    Text(&'static str),
}

/// A value that can be compared, as keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Int(i64),
    Text(&'static str),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

pub type Row = Vec<Value>;

const KEYS: [i64; 6] = [0, 1, 2, 3, 1 << 53, (1 << 53) + 1];
const KEY_TEXTS: [&str; 6] = ["", "1", "2", "A", "a", "é"];
const SMALL: [i64; 4] = [0, 1, 2, i64::MIN];
const INTEGERS: [i64; 13] =
    [0, 1, -1, 2, 3, 10, 11, 7, i64::MIN, i64::MAX, i64::MAX - 1, 1 << 53, (1 << 53) + 1];
const FLOATS: [f64; 15] = [
    0.0,
    -0.0,
    1.0,
    -2.5,
    3.0,
    2.999_999_999_999_999_6,
    0.1,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    5e-324,
    1e308,
    -7.25,
    9_007_199_254_740_993.0,
];
const TEXTS: [&str; 10] = ["p", "q", "r", "", "12", "-3", "P", "nan", "1e3", "2024-05-06"];
/// Days since 1970: of 2024, at its ends, and of no year that date functions take.
const DAYS: [i64; 9] =
    [0, 19_723, 19_800, 20_088, 20_089, -1, 106_700, i32::MIN as i64, i32::MAX as i64];

impl Value {
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    pub fn float(&self) -> Option<f64> {
        if let Self::Float(value) = self { Some(*value) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let Self::Text(value) = self { Some(value) } else { None }
    }

    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Text(value) => Some(Key::Text(value)),
            Self::Null | Self::Float(_) => None,
        }
    }
}

fn random_key(dice: &mut Dice, text: bool, keys: usize) -> Value {
    match (dice.one_in(12), text) {
        (true, _) => Value::Null,
        (false, true) => Value::Text(dice.pick(&KEY_TEXTS[..keys])),
        (false, false) => Value::Int(dice.pick(&KEYS[..keys])),
    }
}

/// A row whose person, and what leads to it, is one of so many.
fn random_row(dice: &mut Dice, relation: &Relation, text: bool, keys: usize) -> Row {
    let fields = relation.fields.iter();
    let values = fields.map(|field| match (field.name, field.kind) {
        ("u" | "k" | "l1", _) => random_key(dice, text, keys),
        ("j" | "l2", _) => {
            if dice.one_in(12) {
                Value::Null
            } else {
                Value::Int(dice.pick(&SMALL))
            }
        }
        _ if dice.one_in(7) => Value::Null,
        (_, kind) => hostile(dice, kind),
    });
    values.collect()
}

/// A value of a kind, from a pool of those that broke something somewhere.
pub fn hostile(dice: &mut Dice, kind: Kind) -> Value {
    match kind {
        Kind::Int => Value::Int(dice.pick(&INTEGERS)),
        Kind::Float => Value::Float(dice.pick(&FLOATS)),
        Kind::Text => Value::Text(dice.pick(&TEXTS)),
        Kind::Time => Value::Int(dice.pick(&DAYS)),
        Kind::Flag => Value::Int(dice.below(2) as i64),
    }
}

/// Who leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    Person(Key),
    /// One row of a table in which every row is a unit.
    Row(usize, usize),
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Person(key) => key.fmt(f),
            Self::Row(_, row) => write!(f, "row {row}"),
        }
    }
}

/// The rows of a public table: keys come once, or any number of times.
pub fn public_rows(dice: &mut Dice, relation: &Relation, text: bool) -> Vec<Row> {
    let n = dice.below(7);
    let mut rows: Vec<Row> = (0..n).map(|_| random_row(dice, relation, text, KEYS.len())).collect();
    if dice.one_in(2) {
        let mut seen = BTreeSet::new();
        rows.retain(|row| row[relation.at("k")].key().is_none_or(|key| seen.insert(key)));
    }
    rows
}

/// The rows of all tables, private ones only.
#[derive(Debug, Clone)]
pub struct Database {
    pub tables: Vec<Vec<Row>>,
    /// Whether every declaration holds.
    pub honest: bool,
}

/// The people that rows belong to, by table and row: two where several parents have one key.
type Owners = Vec<Vec<BTreeSet<Key>>>;

impl Database {
    pub fn random(dice: &mut Dice, plan: &Plan) -> Self {
        let honest = dice.one_in(2);
        let most = dice.pick(&[1, 4, 8, 8, 12]);
        // Some databases have few people with many rows.
        let keys = dice.pick(&[2, KEYS.len(), KEYS.len()]);
        let mut tables: Vec<Vec<Row>> = Vec::new();
        for (i, relation) in plan.relations.iter().enumerate() {
            let n = if relation.is_public() { 0 } else { dice.below(most + 1) };
            let mut rows: Vec<Row> =
                (0..n).map(|_| random_row(dice, relation, plan.text, keys)).collect();
            if let Some((parent, link)) = relation.link() {
                // Most links lead somewhere.
                for row in rows.iter_mut().filter(|_| !tables[parent].is_empty()) {
                    if dice.one_in(7) {
                        continue;
                    }
                    let to = &tables[parent][dice.below(tables[parent].len())];
                    for (own, reference) in link.columns.iter().zip(&link.references) {
                        row[relation.at(own)] = to[plan.relations[parent].at(reference)];
                    }
                }
            }
            if dice.one_in(3) && rows.len() > 1 {
                // Rows that are equal in all columns.
                let copy = rows[0].clone();
                let last = rows.len() - 1;
                rows[last] = copy;
            }
            tables.push(rows);
            if honest {
                let mut so_far = Self { tables, honest };
                so_far.keep_declarations(plan, i);
                tables = so_far.tables;
            }
        }
        Self { tables, honest }
    }

    /// Drops the rows of one table that break what is declared of it and of its columns.
    fn keep_declarations(&mut self, plan: &Plan, table: usize) {
        let relation = &plan.relations[table];
        let mut counts: BTreeMap<Key, u64> = BTreeMap::new();
        let owners = self.owners(plan);
        let mut keep: Vec<bool> = Vec::new();
        let mut keys: Vec<BTreeSet<Vec<Key>>> = vec![BTreeSet::new(); plan.relations.len()];
        for (row, owners) in self.tables[table].iter().zip(&owners[table]) {
            let full = relation.max_rows().is_some_and(|most| {
                owners.iter().any(|owner| counts.get(owner).copied().unwrap_or(0) >= most)
            });
            let referring = plan.relations.iter().enumerate().filter_map(|(i, child)| {
                let (_, link) = child.link().filter(|(parent, _)| *parent == table)?;
                let key = link.references.iter().map(|column| row[relation.at(column)].key());
                Some((i, key.collect::<Option<Vec<_>>>()?))
            });
            let referring: Vec<_> = referring.collect();
            let taken = referring.iter().any(|(i, key)| keys[*i].contains(key));
            keep.push(!full && !taken);
            if !full && !taken {
                for owner in owners {
                    *counts.entry(*owner).or_default() += 1;
                }
                for (i, key) in referring {
                    keys[i].insert(key);
                }
            }
        }
        let mut keep = keep.into_iter();
        self.tables[table].retain(|_| keep.next().unwrap());
    }

    pub fn owners(&self, plan: &Plan) -> Owners {
        let mut owners: Owners = Vec::new();
        for (relation, rows) in plan.relations.iter().zip(&self.tables) {
            let of_row = |row: &Row| -> BTreeSet<Key> {
                match &relation.role {
                    Role::Person { .. } => row[relation.at("u")].key().into_iter().collect(),
                    Role::Row | Role::Public => BTreeSet::new(),
                    Role::Child { parent, link } => {
                        let own = link.columns.iter().map(|c| row[relation.at(c)].key());
                        let Some(own) = own.collect::<Option<Vec<_>>>() else {
                            return BTreeSet::new();
                        };
                        let above = &plan.relations[*parent];
                        let leads = self.tables[*parent].iter().zip(&owners[*parent]);
                        let leads = leads.filter(|(to, _)| {
                            let to = link.references.iter().map(|c| to[above.at(c)].key());
                            to.eq(own.iter().copied().map(Some))
                        });
                        leads.flat_map(|(_, owners)| owners.iter().copied()).collect()
                    }
                }
            };
            let of_table = rows.iter().map(of_row).collect();
            owners.push(of_table);
        }
        owners
    }

    /// Everyone who has a row.
    pub fn people(&self, plan: &Plan) -> BTreeSet<Key> {
        self.owners(plan).into_iter().flatten().flatten().collect()
    }

    fn keeping(&self, owners: &Owners, keep: impl Fn(&BTreeSet<Key>) -> bool) -> Self {
        let tables = self.tables.iter().zip(owners).map(|(rows, owners)| {
            let kept = rows.iter().zip(owners).filter(|(_, owners)| keep(owners));
            kept.map(|(row, _)| row.clone()).collect()
        });
        Self { tables: tables.collect(), honest: self.honest }
    }

    /// Without a unit: of a person, the rows that lead to nobody else.
    pub fn without(&self, plan: &Plan, gone: Gone) -> Self {
        match gone {
            Gone::Person(person) => {
                let alone = BTreeSet::from([person]);
                self.keeping(&self.owners(plan), |owners| *owners != alone)
            }
            Gone::Row(table, row) => {
                let mut less = self.clone();
                less.tables[table].remove(row);
                less
            }
        }
    }

    /// The rows of one unit alone.
    pub fn only(&self, plan: &Plan, unit: Gone) -> Self {
        match unit {
            Gone::Person(person) => self.keeping(&self.owners(plan), |owners| {
                owners.is_empty() || owners.contains(&person)
            }),
            Gone::Row(table, row) => {
                let mut one = self.clone();
                one.tables[table] = vec![self.tables[table][row].clone()];
                one
            }
        }
    }

    /// A step away: a cell that is another one of its pool or its column, a row twice, a row fewer.
    /// Most steps are of the unit's own rows. `None` where there is nothing to change.
    pub fn mutated(&self, dice: &mut Dice, plan: &Plan, unit: Gone) -> Option<Self> {
        const MOST_ROWS: usize = 25;
        let owners = self.owners(plan);
        let own = |table: usize, row: usize| match unit {
            Gone::Person(person) => owners[table][row].contains(&person),
            Gone::Row(of, own) => (of, own) == (table, row),
        };
        let all: Vec<(usize, usize)> = (0..self.tables.len())
            .flat_map(|table| (0..self.tables[table].len()).map(move |row| (table, row)))
            .collect();
        let mine: Vec<_> = all.iter().copied().filter(|(table, row)| own(*table, *row)).collect();
        let from = if mine.is_empty() || dice.one_in(4) { &all } else { &mine };
        if from.is_empty() {
            return None;
        }
        let (table, row) = dice.pick(from);
        let relation = &plan.relations[table];
        let mut other = Self { honest: false, ..self.clone() };
        let rows = &mut other.tables[table];
        let cell = dice.below(relation.fields.len());
        match dice.below(8) {
            0 | 1 if rows.len() < MOST_ROWS => {
                let copy = rows[row].clone();
                rows.push(copy);
            }
            // Which row is the unit must stay.
            2 if matches!(unit, Gone::Person(_)) => {
                rows.remove(row);
            }
            3 => {
                let from = dice.below(rows.len());
                rows[row][cell] = rows[from][cell];
            }
            _ => rows[row][cell] = random_row(dice, relation, plan.text, KEYS.len())[cell],
        }
        Some(other)
    }

    pub fn shuffled(&self, dice: &mut Dice) -> Self {
        let mut other = self.clone();
        for rows in &mut other.tables {
            for i in (1..rows.len()).rev() {
                rows.swap(i, dice.below(i + 1));
            }
        }
        other
    }
}
